"""Faults of nodes, under load: killed, stopped, come back. docs/faults.md has the table."""

import asyncio
import signal
import time

from faultload import LEASE, World, scenario, until


@scenario
async def test_a_killed_node_s_users_go_offline_once_and_nothing_acknowledged_is_missing(start, tmp_path):
    async with World(start, tmp_path, nodes=3) as world:
        crowd = await world.crowd()
        doomed = world.nodes[0]
        gone = await crowd.add("gone", home=doomed, stays=True)
        returning = await crowd.add("returning", home=doomed)
        crowd.avoided.add(doomed)
        doomed.signal(signal.SIGKILL)
        await until(lambda: gone.closes and returning.is_settled and returning.connections == 2, "its clients notice, and come back elsewhere")
        survivors = crowd.watchers[1:]
        await crowd.sees("gone", "online", "offline", by=survivors)
        await world.restart_node(0)
        crowd.avoided.clear()
        # As many leases again: whoever came back doesn't go, whoever is gone doesn't go twice.
        await asyncio.sleep(LEASE)
        verdict = await crowd.verdict()
        for watcher in crowd.watchers:
            assert watcher.seen["gone"] == ["online", "offline"], watcher.seen["gone"]
        # By its own clock; the lease counts from the heartbeat before.
        if returning.longest_away < LEASE - 1.5:
            crowd.assert_never_offline("returning")
        verdict.assert_nothing_announced()


@scenario
async def test_a_node_that_stands_still_for_a_moment_loses_nobody(start, tmp_path):
    async with World(start, tmp_path) as world:
        crowd = await world.crowd(silence=8)
        for _ in range(3):
            world.nodes[0].signal(signal.SIGSTOP)
            await asyncio.sleep(1)
            world.nodes[0].signal(signal.SIGCONT)
            await crowd.acknowledges()
        verdict = await crowd.verdict()
        verdict.assert_nothing_announced()
        crowd.assert_never_offline()
        assert not crowd.closes, crowd.closes


@scenario
async def test_a_node_that_stood_still_longer_than_a_lease_brings_nobody_back_who_left_and_keeps_who_stayed(start, tmp_path):
    async with World(start, tmp_path) as world:
        crowd = await world.crowd(silence=1.5)
        frozen, other = world.nodes
        patient = await crowd.add("patient", home=frozen, silence=60)
        crowd.avoided.add(frozen)
        frozen.signal(signal.SIGSTOP)
        stopped = time.monotonic()
        await until(lambda: all(bot.node is other for bot in crowd.bots), "everybody else goes to the other node")
        seen = crowd.watchers[1].seen
        await crowd.sees("patient", "online", "offline", by=crowd.watchers[1:])
        await asyncio.sleep(max(0.0, 2 * LEASE - (time.monotonic() - stopped)))
        frozen.signal(signal.SIGCONT)
        crowd.avoided.clear()
        await crowd.sees("patient", "online", "offline", "online", by=crowd.watchers[1:])
        await world.wait_ready()
        await crowd.acknowledges()
        await asyncio.sleep(LEASE)
        verdict = await crowd.verdict()
        assert patient.connections == 1 and seen["patient"] == ["online", "offline", "online"], seen["patient"]
        # The old node's late words about those who had moved change nothing.
        in_time = [bot.name for bot in crowd.bots if bot.longest_away < LEASE - 1.5]
        for name in in_time:
            assert "offline" not in seen[name] or not crowd.had_time, f"{name} was away for less than its lease, and seen {seen[name]}"
        assert in_time or not crowd.had_time
        for bot in crowd.bots:
            assert seen[bot.name][-1] == "online", f"{bot.name}: {seen[bot.name]}"
        verdict.assert_nothing_announced()
