"""Faults on the way between nodes and Redis, under load: cut, frozen, slow, killed by Redis. docs/faults.md has the table."""

import asyncio

from faultload import LEASE, World, scenario, until


@scenario
async def test_a_node_cut_from_redis_keeps_its_clients_and_tells_them(start, tmp_path):
    async with World(start, tmp_path, relays=True) as world:
        crowd = await world.crowd()
        cut, whole = world.nodes
        world.relays[0].cut()
        await world.wait_unready(cut)
        assert await world.readyz(whole) == 200 or not crowd.had_time
        there = {bot.name for bot in crowd.everybody if bot.node is cut}
        assert there
        await until(lambda: crowd.told("degraded") >= there, "its clients are told")
        await crowd.acknowledges()
        world.relays[0].mend()
        await world.wait_ready()
        await until(lambda: crowd.told("restored") >= there, "they are told of the end")
        await crowd.acknowledges()
        verdict = await crowd.verdict()
        assert crowd.told("degraded") == crowd.told("restored") == there or not crowd.had_time, "nobody else is told"
        assert not crowd.closes, crowd.closes
        assert set(crowd.refusals) <= {"unavailable"}, crowd.refusals
        verdict.assert_nothing_announced()


@scenario
async def test_a_node_cut_for_longer_than_a_lease_loses_each_user_once_and_brings_them_back(start, tmp_path):
    async with World(start, tmp_path, relays=True) as world:
        crowd = await world.crowd(rate=40)
        there = [bot.name for bot in crowd.bots if bot.node is world.nodes[0]]
        elsewhere = [bot.name for bot in crowd.bots if bot.node is world.nodes[1]]
        witness = crowd.watchers[1]
        world.relays[0].cut()
        await until(lambda: all(witness.seen[name] == ["online", "offline"] for name in there), lambda: f"all lapse: {dict(witness.seen)}")
        world.relays[0].mend()
        await until(
            lambda: all(witness.seen[name] == ["online", "offline", "online"] for name in there), lambda: f"all are back: {dict(witness.seen)}")
        await world.wait_ready()
        await asyncio.sleep(LEASE)
        verdict = await crowd.verdict()
        for name in there:
            assert witness.seen[name] == ["online", "offline", "online"] or not crowd.had_time, witness.seen[name]
        crowd.assert_never_offline(*elsewhere, by=[witness])
        assert not crowd.closes, crowd.closes
        verdict.assert_nothing_announced()


@scenario
async def test_all_nodes_cut_from_redis_bring_no_storm_when_they_are_back(start, tmp_path):
    async with World(start, tmp_path, relays=True) as world:
        crowd = await world.crowd()
        for relay in world.relays:
            relay.cut()
        await world.wait_unready()
        await asyncio.sleep(2 * LEASE)
        for relay in world.relays:
            relay.mend()
        await world.wait_ready()
        await crowd.acknowledges()
        await asyncio.sleep(2 * LEASE)
        verdict = await crowd.verdict()
        crowd.assert_never_offline()
        assert crowd.told("degraded") == crowd.told("restored") == {bot.name for bot in crowd.everybody}
        assert not crowd.closes, crowd.closes
        verdict.assert_nothing_announced()


@scenario
async def test_killed_links_are_made_again_and_nothing_is_missing(start, tmp_path):
    async with World(start, tmp_path) as world:
        crowd = await world.crowd()
        for kind in ("pubsub", "normal", "pubsub", "pubsub", "normal"):
            assert await world.call("CLIENT", "KILL", "TYPE", kind) >= 1
            await world.wait_ready()
            await crowd.acknowledges()
        verdict = await crowd.verdict()
        crowd.assert_never_offline()
        assert not crowd.closes, crowd.closes
        verdict.assert_nothing_announced()


@scenario
async def test_the_last_message_arrives_though_its_link_was_killed_and_nothing_follows(start, tmp_path):
    async with World(start, tmp_path, relays=True) as world:
        crowd = await world.crowd(rate=40)
        crowd.publish(False)
        await crowd.settle()
        deaf, speaker = world.nodes
        publisher = next(bot for bot in crowd.bots if bot.node is speaker)
        # Nothing from Redis reaches the one node while the other takes one last message a channel; then its link is cut for good.
        world.relays[0].freeze("subscriptions")
        for channel in crowd.channels:
            await publisher.publish(channel, "the last")
        await until(lambda: not publisher.outbox, "they are acknowledged")
        world.relays[0].cut(refuse=False)
        world.relays[0].thaw()
        verdict = await crowd.verdict()
        verdict.assert_nothing_announced()


@scenario
async def test_a_way_to_redis_that_freezes_is_given_up_for_a_new_one(start, tmp_path):
    async with World(start, tmp_path, relays=True) as world:
        crowd = await world.crowd(silence=30)
        frozen, other = world.nodes
        relay = world.relays[0]
        for kinds in (("subscriptions",), ("commands",), ()):
            left = relay.left
            relay.freeze(*kinds)
            await world.wait_unready(frozen)
            assert await world.readyz(other) == 200 or not crowd.had_time
            await until(lambda: relay.left > left, "the node gives its link up")
            relay.thaw()
            await world.wait_ready()
            await crowd.acknowledges()
        verdict = await crowd.verdict()
        assert not crowd.closes, crowd.closes
        verdict.assert_nothing_announced()


@scenario
async def test_a_node_that_hears_nothing_from_redis_notices(start, tmp_path):
    async with World(start, tmp_path, relays=True) as world:
        crowd = await world.crowd(silence=30)
        world.relays[0].is_deaf = True
        await world.wait_unready(world.nodes[0])
        await until(lambda: world.relays[0].left, "the node gives its link up")
        world.relays[0].is_deaf = False
        await world.wait_ready()
        await crowd.acknowledges()
        verdict = await crowd.verdict()
        verdict.assert_nothing_announced()


@scenario
async def test_a_slow_way_to_redis_costs_time_and_nothing_else(start, tmp_path):
    async with World(start, tmp_path, relays=True) as world:
        crowd = await world.crowd()
        for relay in world.relays:
            relay.delay = 0.1
        before = len(crowd.acks)
        await asyncio.sleep(2 * LEASE)
        # Pipelined: a node that waited for each answer would do five a second.
        assert len(crowd.acks) - before > 2 * 5 * 2 * LEASE or not crowd.had_time, len(crowd.acks) - before
        verdict = await crowd.verdict()
        crowd.assert_undisturbed()
        crowd.assert_never_offline()
        verdict.assert_nothing_announced()


@scenario
async def test_a_subscriber_that_redis_throws_out_for_its_full_buffer_misses_nothing(start, tmp_path):
    async with World(
            start, tmp_path, relays=True, redis_options=("--client-output-buffer-limit", "pubsub", "256kb", "0", "0")) as world:
        for relay in world.relays:
            relay.receive_buffer = 16_384
            relay.cut(refuse=False)
        await asyncio.sleep(0.2)
        await world.wait_ready()
        crowd = await world.crowd(bots=6, channels=2, reads=1, rate=40, size=30_000, silence=20)

        def thrown_out():
            return "overcoming of output buffer limits" in world.redis.log

        assert not thrown_out()
        world.relays[0].freeze("subscriptions")
        await until(thrown_out, "Redis drops the subscriber")
        world.relays[0].thaw()
        await world.wait_ready()
        await crowd.acknowledges()
        verdict = await crowd.verdict()
        crowd.assert_never_offline()
        assert not crowd.closes, crowd.closes
        verdict.assert_nothing_announced()
