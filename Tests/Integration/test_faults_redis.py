"""Faults of Redis itself, under load: it stands still, restarts, loses its data, is busy or full. docs/faults.md has the table."""

import asyncio
import collections
import signal

import pytest

from faultload import LEASE, World, scenario, until
from redises import RedisError


def epoch_changes(crowd):
    """How often each client was told of a channel that its epoch changed, or that its position is of another."""
    return collections.Counter((name, channel) for name, channel, reason in (
        (bot.name, *told) for bot in crowd.bots for told in bot.told))


@scenario
async def test_a_frozen_redis_is_told_publications_wait_and_nobody_goes_offline(start, tmp_path):
    async with World(start, tmp_path) as world:
        crowd = await world.crowd(silence=20)
        world.redis.signal(signal.SIGSTOP)
        await world.wait_unready()
        await until(lambda: crowd.told("degraded") == {bot.name for bot in crowd.everybody}, "every client is told")
        await until(lambda: crowd.refusals["unavailable"] > 20, lambda: f"publications are refused: {crowd.refusals}")
        # Nothing is acknowledged that Redis hasn't taken.
        count = len(crowd.acks)
        await asyncio.sleep(LEASE)
        assert len(crowd.acks) == count
        world.redis.signal(signal.SIGCONT)
        await world.wait_ready()
        await until(lambda: crowd.told("restored") == {bot.name for bot in crowd.everybody}, "every client is told of the end")
        await crowd.acknowledges()
        # A lease later: nobody who sat through it is found missing.
        await asyncio.sleep(LEASE)
        verdict = await crowd.verdict()
        assert set(crowd.refusals) == {"unavailable"}, crowd.refusals
        assert not crowd.closes, crowd.closes
        crowd.assert_never_offline()
        verdict.assert_nothing_announced()


@scenario
async def test_a_redis_killed_and_restarted_with_its_data_leaves_no_trace(start, tmp_path):
    async with World(start, tmp_path, redis_options=("--appendonly", "yes", "--appendfsync", "always")) as world:
        crowd = await world.crowd()
        world.redis.kill()
        await world.wait_unready()
        await world.restart_redis()
        await world.wait_ready()
        await crowd.acknowledges()
        await asyncio.sleep(LEASE)
        verdict = await crowd.verdict()
        assert crowd.told("degraded") == crowd.told("restored") == {bot.name for bot in crowd.everybody}
        crowd.assert_never_offline()
        assert not crowd.closes, crowd.closes
        verdict.assert_nothing_announced()


@scenario
async def test_a_redis_restarted_without_its_data_is_a_new_epoch_told_once(start, tmp_path):
    async with World(start, tmp_path) as world:
        crowd = await world.crowd()
        first_epochs = {channel: crowd.last[channel].split(".")[0] for channel in crowd.channels}
        world.redis.kill()
        await world.wait_unready()
        await world.restart_redis()
        await world.wait_ready()
        await crowd.acknowledges()
        # Nodes register their connections again; whoever isn't there yet isn't taken for gone.
        await asyncio.sleep(2 * LEASE)
        verdict = await crowd.verdict(is_lossy=True)
        for channel in crowd.channels:
            assert crowd.last[channel].split(".")[0] != first_epochs[channel]
        # However often the link was lost meanwhile; also of the inbox, which had nothing.
        told = epoch_changes(crowd)
        assert told == {(bot.name, channel): 1 for bot in crowd.bots for channel in [*bot.channels, f"user:{bot.name}"]}, told
        assert {reason for _, _, reason in verdict.told} == {"epochChanged"}, verdict.told
        assert not crowd.closes, crowd.closes
        crowd.assert_never_offline()


@scenario
async def test_a_paused_redis_delays_and_nothing_else(start, tmp_path):
    async with World(start, tmp_path) as world:
        crowd = await world.crowd()
        for _ in range(2):
            await world.call("CLIENT", "PAUSE", "1500", "ALL")
            await asyncio.sleep(1.5)
            await crowd.acknowledges()
        verdict = await crowd.verdict()
        crowd.assert_never_offline()
        crowd.assert_undisturbed()
        verdict.assert_nothing_announced()


@scenario
async def test_a_redis_busy_with_somebody_s_script_is_left_and_found_again(start, tmp_path):
    async with World(start, tmp_path, redis_options=("--busy-reply-threshold", "100")) as world:
        crowd = await world.crowd(silence=20)
        endless = asyncio.create_task(world.call("EVAL", "while true do end", "0"))
        await asyncio.sleep(0.2)
        await world.wait_unready()
        await until(lambda: crowd.refusals["unavailable"] > 0, "publications are refused")
        await world.call("SCRIPT", "KILL")
        with pytest.raises(RedisError):
            await endless
        await world.wait_ready()
        await crowd.acknowledges()
        verdict = await crowd.verdict()
        crowd.assert_never_offline()
        assert set(crowd.refusals) == {"unavailable"}, crowd.refusals
        verdict.assert_nothing_announced()


@scenario
async def test_flushed_scripts_are_invisible(start, tmp_path):
    async with World(start, tmp_path) as world:
        crowd = await world.crowd()
        for _ in range(8):
            await world.call("SCRIPT", "FLUSH")
            await crowd.acknowledges(10)
        verdict = await crowd.verdict()
        crowd.assert_undisturbed()
        crowd.assert_never_offline()
        verdict.assert_nothing_announced()


@scenario
async def test_a_full_redis_refuses_by_name_and_declares_nobody_offline(start, tmp_path):
    async with World(start, tmp_path) as world:
        crowd = await world.crowd()
        await world.call("CONFIG", "SET", "maxmemory", "1")
        await until(lambda: crowd.refusals["storeFull"] > 20, lambda: f"publications are refused: {crowd.refusals}")
        # Whoever goes while nothing can be written isn't declared offline, and neither is anybody else.
        await crowd.watchers[0]._watch()
        await asyncio.sleep(2 * LEASE)
        crowd.assert_never_offline()
        await world.call("CONFIG", "SET", "maxmemory", "0")
        await crowd.acknowledges()
        await asyncio.sleep(LEASE)
        verdict = await crowd.verdict()
        assert set(crowd.refusals) <= {"storeFull", "unavailable"}, crowd.refusals
        assert not crowd.closes, crowd.closes
        crowd.assert_never_offline()
        verdict.assert_nothing_announced()


@scenario
async def test_a_demoted_redis_acknowledges_nothing(start, tmp_path):
    async with World(start, tmp_path) as world:
        crowd = await world.crowd()
        # Of a primary that isn't there: what it holds it keeps, and it takes no writes.
        await world.call("REPLICAOF", "127.0.0.1", "1")
        await world.wait_unready()
        await acknowledges_nothing(crowd)
        await world.call("REPLICAOF", "NO", "ONE")
        await goes_on(world, crowd)


@scenario
async def test_a_redis_without_the_replicas_that_it_must_have_acknowledges_nothing(start, tmp_path):
    async with World(start, tmp_path) as world:
        crowd = await world.crowd()
        await world.call("CONFIG", "SET", "min-replicas-to-write", "1")
        await acknowledges_nothing(crowd)
        await world.call("CONFIG", "SET", "min-replicas-to-write", "0")
        await goes_on(world, crowd)


async def acknowledges_nothing(crowd):
    # What was on the way.
    await asyncio.sleep(1)
    count = len(crowd.acks)
    await asyncio.sleep(2)
    assert len(crowd.acks) == count


async def goes_on(world, crowd):
    await world.wait_ready()
    await crowd.acknowledges()
    verdict = await crowd.verdict()
    assert set(crowd.refusals) <= {"unavailable"}, crowd.refusals
    crowd.assert_never_offline()
    verdict.assert_nothing_announced()
