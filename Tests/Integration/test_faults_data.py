"""Keys that vanish from Redis or go back, under load: eviction, a restore of older data. docs/faults.md has the table."""

import asyncio
import time

import pytest

from faultload import LEASE, World, scenario, until


async def keys(world, kind, name):
    """Keys of one kind (`m`, `s`, `u`) of a name, whatever its partition."""
    found = await world.call("KEYS", f"hub:{{*}}:{kind}:{name}")
    assert found, (kind, name)
    return found


async def dumps(world, *channels):
    """What Redis has of the channels now, all of it at one moment."""
    found = [key for channel in channels for kind in ("m", "s") for key in await keys(world, kind, channel)]
    return dict(zip(found, await world.transaction(*(("DUMP", key) for key in found))))


@scenario
async def test_an_evicted_channel_begins_a_new_epoch_and_its_readers_are_told(start, tmp_path):
    async with World(start, tmp_path) as world:
        crowd = await world.crowd()
        victim, *others = crowd.channels
        [meta] = await keys(world, "m", victim)
        first = crowd.last[victim].split(".")[0]
        assert await world.call("DEL", meta) == 1
        await until(lambda: crowd.last[victim].split(".")[0] != first, "its publications have a new epoch")
        await crowd.acknowledges()
        verdict = await crowd.verdict(is_lossy=True)
        readers = {bot.name for bot in crowd.bots if victim in bot.channels}
        assert {(name, channel) for name, channel, _ in verdict.told} == {(name, victim) for name in readers}, verdict.told
        assert {reason for _, _, reason in verdict.told} == {"epochChanged"}
        crowd.assert_undisturbed()


@scenario
async def test_an_evicted_user_record_is_written_again_without_a_word(start, tmp_path):
    async with World(start, tmp_path) as world:
        crowd = await world.crowd(rate=20)
        victims = [bot.name for bot in crowd.bots[:6]]
        for name in victims:
            assert await world.call("DEL", *await keys(world, "u", name)) == 1

        async def are_back():
            return all([await world.call("KEYS", f"hub:{{*}}:u:{name}") for name in victims])

        await until(are_back, "the records are written again")
        await asyncio.sleep(LEASE)
        verdict = await crowd.verdict()
        crowd.assert_never_offline()
        verdict.assert_nothing_announced()


@scenario
async def test_channels_that_went_back_are_told_and_none_of_the_new_messages_is_hidden(start, tmp_path):
    async with World(start, tmp_path) as world:
        crowd = await world.crowd()
        older = await dumps(world, *crowd.channels)
        reached = dict(crowd.last)
        await crowd.acknowledges(40)
        # As a failover does it to whom the last writes never came: what was remembered of their ids is gone with them.
        forgotten = await world.call("KEYS", "hub:{*}:d:*")
        await world.transaction(*(("RESTORE", key, "0", value, "REPLACE") for key, value in older.items()), ("DEL", *forgotten))
        await crowd.acknowledges(100)
        verdict = await crowd.verdict(is_lossy=True)
        assert reached and verdict["taken back"] > 0, verdict.text
        told = {(name, channel) for name, channel, _ in verdict.told}
        assert told >= {(bot.name, channel) for bot in crowd.bots for channel in bot.channels}, verdict.told
        crowd.assert_undisturbed()


@pytest.mark.long
@scenario
async def test_a_history_that_went_back_while_nobody_speaks_is_found_without_a_successor(start, tmp_path):
    async with World(start, tmp_path) as world:
        crowd = await world.crowd()
        victim = crowd.channels[0]
        older = await dumps(world, victim)
        await crowd.acknowledges(40)
        crowd.publish(False)
        await crowd.settle()
        await world.transaction(*(("RESTORE", key, "0", value, "REPLACE") for key, value in older.items()))
        readers = {bot.name for bot in crowd.bots if victim in bot.channels}
        began = time.monotonic()
        # Found by the check of idle channels, every 30 s.
        await until(
            lambda: {bot.name for bot in crowd.bots for channel, _ in bot.told if channel == victim} == readers, "every reader is told")
        print(f"told after {time.monotonic() - began:.1f} s")
        await crowd.verdict(is_lossy=True)
