"""Clocks that jump, under load: Redis's, which leases go by, and the nodes', which nothing goes by. docs/faults.md has the table."""

import asyncio

from faultload import LEASE, World, scenario, until
from faultclock import Clock

HOUR = 3600


@scenario
async def test_redis_s_clock_jumps_an_hour_ahead_and_back_and_nobody_goes_who_is_there(start, tmp_path):
    clock = Clock(tmp_path)
    async with World(start, tmp_path, redis_prefix=clock.prefix) as world:
        crowd = await world.crowd()
        first = await redis_time(world)
        clock.set(HOUR)
        await until(lambda: is_later(world, first, HOUR), "Redis's clock is ahead")
        await asyncio.sleep(2 * LEASE)
        crowd.assert_never_offline()
        clock.set(0)
        await until(lambda: is_earlier(world, first, HOUR), "Redis's clock is back")
        await asyncio.sleep(2 * LEASE)
        crowd.assert_never_offline()
        # Who goes now goes in time, though all deadlines were an hour away, and with a version that watchers believe.
        gone = crowd.bots.pop()
        gone.stays = True
        gone.drop()
        await crowd.sees(gone.name, "online", "offline")
        verdict = await crowd.verdict()
        crowd.assert_never_offline()
        assert not crowd.told("degraded") or not crowd.had_time
        verdict.assert_nothing_announced()


@scenario
async def test_nodes_whose_clocks_are_hours_apart_agree_on_everything_but_the_time(start, tmp_path):
    ahead, behind = Clock(tmp_path, "ahead"), Clock(tmp_path, "behind")
    ahead.set(HOUR)
    behind.set(-HOUR)
    async with World(start, tmp_path, hub_prefixes=[ahead.prefix, behind.prefix]) as world:
        crowd = await world.crowd()
        ahead.set(-HOUR)
        behind.set(HOUR)
        await asyncio.sleep(2 * LEASE)
        verdict = await crowd.verdict()
        crowd.assert_never_offline()
        crowd.assert_undisturbed()
        verdict.assert_nothing_announced()


async def redis_time(world):
    return int((await world.call("TIME"))[0])


async def is_later(world, than, seconds):
    return await redis_time(world) - than > seconds - 60


async def is_earlier(world, than, seconds):
    return await redis_time(world) - than < seconds - 60
