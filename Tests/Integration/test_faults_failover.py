"""Failovers under load, judged like everything else: a Redis behind sentinels, a cluster whose slots move and whose master dies."""

import asyncio
import signal

import pytest

from faultload import World, scenario, until
from redises import Cluster, Watched, slot_of


@scenario
async def test_a_primary_that_dies_loses_nothing_acknowledged_without_a_word(start, tmp_path):
    watched = await asyncio.to_thread(Watched, start)
    async with World(start, tmp_path, servers=watched) as world:
        crowd = await world.crowd(silence=20)
        watched.master.kill()
        await until(lambda: crowd.told("restored"), "the new primary is found")
        await world.wait_ready()
        await crowd.acknowledges()
        verdict = await crowd.verdict(is_lossy=True)
        assert set(crowd.refusals) <= {"unavailable"}, crowd.refusals
        assert not crowd.closes, crowd.closes
        crowd.assert_never_offline()
        print(verdict.told)


@pytest.mark.long
@scenario
async def test_a_primary_that_froze_and_comes_back_late_takes_nothing_with_it(start, tmp_path):
    watched = await asyncio.to_thread(Watched, start)
    async with World(start, tmp_path, servers=watched) as world:
        crowd = await world.crowd(silence=20)
        watched.master.signal(signal.SIGSTOP)
        await until(lambda: crowd.told("restored"), "the new primary is found")
        await crowd.acknowledges()
        watched.master.signal(signal.SIGCONT)
        await until(lambda: watched.master.links() == [], "nobody is connected to the old one")
        await crowd.acknowledges(200)
        await crowd.verdict(is_lossy=True)
        assert set(crowd.refusals) <= {"unavailable"}, crowd.refusals
        assert not crowd.closes, crowd.closes


@pytest.mark.long
@scenario
async def test_slots_that_move_all_the_time_are_invisible(start, tmp_path):
    cluster = await asyncio.to_thread(Cluster, start)
    async with World(start, tmp_path, servers=cluster) as world:
        crowd = await world.crowd()
        for number in range(12):
            slot = slot_of(crowd.channels[number % len(crowd.channels)])
            target = cluster.nodes[(cluster.nodes.index(cluster.owner(slot)) + 1) % 3]
            await asyncio.to_thread(cluster.move_slot, slot, target)
            await crowd.acknowledges(30)
        verdict = await crowd.verdict()
        crowd.assert_undisturbed()
        crowd.assert_never_offline()
        verdict.assert_nothing_announced()


@pytest.mark.long
@scenario
async def test_a_cluster_s_master_that_dies_loses_nothing_acknowledged_without_a_word(start, tmp_path):
    cluster = await asyncio.to_thread(Cluster, start, 3, 1)
    async with World(start, tmp_path, servers=cluster) as world:
        crowd = await world.crowd(silence=20)
        slot = slot_of(crowd.channels[0])
        doomed = cluster.owner(slot)
        doomed.kill()
        alive = next(node for node in cluster.nodes if node is not doomed)
        await until(lambda: cluster.owner(slot, asked=alive) is not doomed, "its replica takes over")
        await world.wait_ready()
        await crowd.acknowledges(200)
        await crowd.verdict(is_lossy=True)
        assert not crowd.closes, crowd.closes
        crowd.assert_never_offline()
