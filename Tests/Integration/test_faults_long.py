"""Faults that take their time: those of the table with the timers that deployments have, and whatever chance puts together for minutes.

`scripts/faults` runs these. FAULT_SECONDS: how long chance goes on (120); FAULT_SEED: which chance (the test prints it); FAULT_KINDS: of which
kinds, by their methods' names with commas; FAULT_EACH=1: everybody must be seen online after each.
"""

import asyncio
import os
import random
import signal
import time

import pytest

from faultload import World, scenario, until

pytestmark = pytest.mark.long
EACH = bool(os.environ.get("FAULT_EACH"))
KINDS = os.environ.get("FAULT_KINDS", "").split(",") if os.environ.get("FAULT_KINDS") else []
SECONDS = int(os.environ.get("FAULT_SECONDS", "120"))
# As they are when nothing is set.
DEFAULTS = {
    "presence.heartbeat": "30s", "presence.lease": "75s", "presence.userTTL": "5m", "presence.grace": "10s",
    "presence.sweepInterval": "500ms", "presence.gapMax": "10s", "presence.hold": "40s",
}


def say(text):
    print(f"{time.strftime('%H:%M:%S')} {text}", flush=True)


class Trouble:
    """What may happen to a world, each thing healed before it returns. With `is_lossy`, data may go too."""

    def __init__(self, world, crowd, is_lossy):
        self.world, self.crowd = world, crowd
        self.chance = random.Random(crowd.seed)
        self.kinds = [
            self.kill_node, self.stop_node, self.cut_node, self.freeze_way, self.deafen, self.slow_way, self.cut_all, self.kill_links, self.flush_scripts,
            self.pause_redis, self.stop_redis, self.restart_redis, self.fill_redis, self.drop_clients,
        ]
        if KINDS:
            self.kinds = [getattr(self, kind) for kind in KINDS]
        if is_lossy:
            self.kinds += [self.forget_everything, self.forget_a_channel, self.go_back]

    async def next(self):
        kind = self.chance.choice(self.kinds)
        say(kind.__name__)
        await kind()
        await self.world.wait_ready()
        await self.crowd.acknowledges(10)

    def span(self, longest):
        return self.chance.uniform(0.2, longest)

    async def kill_node(self):
        number = self.chance.randrange(len(self.world.nodes))
        node = self.world.nodes[number]
        self.crowd.avoided.add(node)
        node.kill()
        await asyncio.sleep(self.span(6))
        # Its last acks have been read by now.
        self.crowd.journal.killed(node.name)
        await self.world.restart_node(number)
        self.crowd.avoided.discard(node)

    async def stop_node(self):
        node = self.chance.choice(self.world.nodes)
        node.signal(signal.SIGSTOP)
        await asyncio.sleep(self.span(8))
        node.signal(signal.SIGCONT)

    async def cut_node(self):
        relay = self.chance.choice(self.world.relays)
        relay.cut()
        await asyncio.sleep(self.span(8))
        relay.mend()

    async def cut_all(self):
        for relay in self.world.relays:
            relay.cut()
        await asyncio.sleep(self.span(8))
        for relay in self.world.relays:
            relay.mend()

    async def freeze_way(self):
        relay = self.chance.choice(self.world.relays)
        relay.freeze(*self.chance.choice([("commands",), ("subscriptions",), ()]))
        await asyncio.sleep(self.span(10))
        relay.thaw()

    async def deafen(self):
        relay = self.chance.choice(self.world.relays)
        relay.is_deaf = True
        await asyncio.sleep(self.span(10))
        relay.is_deaf = False

    async def slow_way(self):
        relay = self.chance.choice(self.world.relays)
        relay.delay = self.span(0.3)
        await asyncio.sleep(self.span(6))
        relay.delay = 0.0

    async def kill_links(self):
        for _ in range(3):
            await self.world.call("CLIENT", "KILL", "TYPE", self.chance.choice(["pubsub", "normal"]))
            await asyncio.sleep(self.span(0.6))

    async def flush_scripts(self):
        await self.world.call("SCRIPT", "FLUSH")

    async def pause_redis(self):
        await self.world.call("CLIENT", "PAUSE", int(self.span(4) * 1000), "ALL")

    async def stop_redis(self):
        self.world.redis.signal(signal.SIGSTOP)
        await asyncio.sleep(self.span(8))
        self.world.redis.signal(signal.SIGCONT)

    async def restart_redis(self):
        self.world.redis.kill()
        await asyncio.sleep(self.span(4))
        await self.world.restart_redis()

    async def fill_redis(self):
        await self.world.call("CONFIG", "SET", "maxmemory", "1")
        await asyncio.sleep(self.span(5))
        await self.world.call("CONFIG", "SET", "maxmemory", "0")

    async def drop_clients(self):
        for _ in range(3):
            for bot in self.chance.sample(self.crowd.bots, len(self.crowd.bots) // 2):
                bot.holds_off = self.span(1.5)
                bot.drop()
            await asyncio.sleep(self.span(2))

    async def forget_everything(self):
        await self.world.call("FLUSHALL")

    async def forget_a_channel(self):
        for kind in self.chance.choice([("m",), ("s",), ("m", "s")]):
            await self.world.call("DEL", *await self.world.call("KEYS", f"hub:{{*}}:{kind}:{self.chance.choice(self.crowd.channels)}") or ["none"])

    async def go_back(self):
        found = await self.world.call("KEYS", "hub:{*}:[ms]:*")
        older = {key: await self.world.call("DUMP", key) for key in found}
        await asyncio.sleep(self.span(2))
        forgotten = await self.world.call("KEYS", "hub:{*}:d:*")
        # One by one: the keys of a channel may go back at different times too.
        for key, value in older.items():
            if value is not None:
                await self.world.call("RESTORE", key, "0", value, "REPLACE")
        await self.world.call("DEL", *forgotten or ["none"])


async def everybody_is_seen(world, crowd):
    """Whoever is here is online to everybody, whatever happened meanwhile."""
    for bot in crowd.bots:
        for watcher, states in zip(crowd.watchers, crowd.statuses(bot.name)):
            await until(
                lambda: states[-1] == "online",
                lambda: f"{watcher.name}, at {watcher.versions.get(bot.name)}, sees {bot.name} online: {states}; {world.explains(bot.name)}",
                30 if EACH else 120)


async def go_through(start, folder, is_lossy):
    async with World(
            start, folder, nodes=3, relays=True, redis_options=("--appendonly", "yes", "--appendfsync", "always"),
            settings={"namespaces.*.history.size": "20000"}) as world:
        crowd = await world.crowd(bots=24, channels=6, rate=120, silence=4)
        trouble = Trouble(world, crowd, is_lossy)
        until_then = time.monotonic() + SECONDS
        while time.monotonic() < until_then:
            await trouble.next()
            if EACH: await everybody_is_seen(world, crowd)
        verdict = await crowd.verdict(is_lossy)
        await everybody_is_seen(world, crowd)
        return verdict


@scenario
async def test_whatever_happens_in_turn_nothing_acknowledged_is_missing_and_every_gap_is_filled(start, tmp_path):
    verdict = await go_through(start, tmp_path, is_lossy=False)
    verdict.assert_nothing_announced()


@scenario
async def test_whatever_happens_and_is_lost_in_turn_nobody_is_left_in_the_dark(start, tmp_path):
    await go_through(start, tmp_path, is_lossy=True)


@scenario
async def test_with_the_default_timers_a_killed_node_s_user_is_offline_after_its_lease_and_no_sooner(start, tmp_path):
    async with World(start, tmp_path, settings=DEFAULTS) as world:
        crowd = await world.crowd(rate=20)
        gone = await crowd.add("gone", home=world.nodes[0], stays=True)
        # Renewed at least once.
        await asyncio.sleep(35)
        crowd.avoided.add(world.nodes[0])
        world.nodes[0].kill()
        killed = time.monotonic()
        survivor = crowd.watchers[1]
        await crowd.sees("gone", "online", "offline", by=[survivor])
        took = time.monotonic() - killed
        say(f"offline after {took:.1f} s")
        # Lease less heartbeat and its tenth: what was renewed last moment lasts longer, never shorter.
        assert took > 40, took
        await world.restart_node(0)
        crowd.avoided.clear()
        verdict = await crowd.verdict()
        assert gone.connections == 1 and survivor.seen["gone"] == ["online", "offline"]
        crowd.assert_never_offline()
        verdict.assert_nothing_announced()


@scenario
async def test_with_the_default_timers_a_minute_s_halt_takes_each_user_offline_at_most_once(start, tmp_path):
    async with World(start, tmp_path, settings=DEFAULTS) as world:
        crowd = await world.crowd(rate=20, silence=20)
        sitting = [await crowd.add(f"sitting{number}", home=world.nodes[0], silence=600) for number in range(10)]
        await asyncio.sleep(35)
        crowd.avoided.add(world.nodes[0])
        world.nodes[0].signal(signal.SIGSTOP)
        for second in range(0, 60, 10):
            say(f"stopped for {second} s")
            await asyncio.sleep(10)
        world.nodes[0].signal(signal.SIGCONT)
        crowd.avoided.clear()
        witness = crowd.watchers[1]
        await until(lambda: all(witness.seen[bot.name][-1] == "online" for bot in sitting), "who sat through it is online")
        await asyncio.sleep(45)
        verdict = await crowd.verdict()
        seen = [witness.seen[bot.name] for bot in sitting]
        say(f"{sum('offline' in states for states in seen)} of {len(seen)} were offline meanwhile")
        for states in seen:
            assert states in (["online"], ["online", "offline", "online"]), states
        assert all(bot.connections == 1 for bot in sitting)
        verdict.assert_nothing_announced()
