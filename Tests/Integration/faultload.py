"""A crowd of bots on a small cluster, with everything that they sent and got in one journal that `hub-swarm check` judges at the end.

A test of a fault makes a `World` (Redis, nodes, relays between them where it wants some), lets a `Crowd` talk over it, does its harm, heals it,
and ends with `verdict`: all is answered, everybody has got to the end of every channel, and the checker finds nothing.
"""

import asyncio
import collections
import functools
import os
import random
import re
import socket
import time

from faultbots import Backend, Bot
from faultrelay import FaultRelay
from hub import BINARIES, Hub, RedisServer, request, status
from journal import Journal
from redises import receive, send

# The relations of the defaults, scaled; a lease long enough that a busy machine doesn't let one lapse by itself.
TIMERS = {
    "presence.heartbeat": "1s", "presence.lease": "4s", "presence.userTTL": "20s", "presence.grace": "3s",
    "presence.sweepInterval": "100ms", "presence.gapMax": "2s", "presence.hold": "2s",
    # Enough that what a bot missed is always there, unless the test takes it away.
    "namespaces.*.history.size": "5000",
}
LEASE = 4.0


def scenario(function):
    """A test that is a coroutine."""

    @functools.wraps(function)
    def test(*arguments, **options):
        asyncio.run(function(*arguments, **options))

    return test


# Of waits that a promise doesn't limit: room for a machine that builds something at the same time.
PATIENCE = 120


async def until(question, what, seconds=PATIENCE):
    """Asks until the answer is true, and returns it. `question` may be a coroutine function."""
    deadline = time.monotonic() + seconds
    while True:
        answer = question()
        if asyncio.iscoroutine(answer):
            answer = await answer
        if answer:
            return answer
        assert time.monotonic() < deadline, f"not within {seconds} s: {what() if callable(what) else what}"
        await asyncio.sleep(0.05)


class World:
    """Redis and nodes. `start`: conftest's fixture, which ends the processes. With `relays`, each node has its own way to Redis.

    `servers`: several Redises that a test made itself (`redises.Watched`, `redises.Cluster`), in place of the one. `is_embedded`: none at all.
    """

    def __init__(self, start, folder, nodes=2, relays=False, redis_options=(), redis_prefix=(), settings=None, hub_prefixes=(), servers=None, is_embedded=False):
        self.start, self.folder, self.count, self.has_relays = start, folder, nodes, relays
        self.redis_options, self.redis_prefix, self.hub_prefixes = redis_options, redis_prefix, hub_prefixes
        self.servers, self.is_embedded = servers, is_embedded
        self.settings = {**TIMERS, **(servers.settings if servers else {}), **(settings or {})}
        self.nodes, self.relays, self.crowds = [], [], []

    async def __aenter__(self):
        self.redis = None
        if not self.servers and not self.is_embedded:
            self.redis = await asyncio.to_thread(self.start, RedisServer, options=self.redis_options, prefix=self.redis_prefix)
        for number in range(self.count):
            if self.has_relays:
                self.relays.append(await FaultRelay(self.redis).open())
            self.nodes.append(self.start_node(number))
        for node in self.nodes:
            await asyncio.to_thread(node.wait_ready)
        return self

    async def __aexit__(self, *_):
        for crowd in self.crowds:
            await crowd.stop()
        for relay in self.relays:
            await relay.close()

    def start_node(self, number, port=None):
        url = self.relays[number].url if self.has_relays else self.redis and self.redis.url
        prefix = self.hub_prefixes[number] if self.hub_prefixes else ()
        return self.start(Hub, name=f"n{number + 1}", redis=url, settings=self.settings, port=port, ready=False, prefix=prefix)

    async def restart_node(self, number):
        """The same place with a new process, once the old one is gone."""
        self.nodes[number] = self.start_node(number, port=self.nodes[number].port)
        await asyncio.to_thread(self.nodes[number].wait_ready)

    async def restart_redis(self):
        self.redis = await asyncio.to_thread(
            self.start, RedisServer, port=self.redis.port, options=self.redis_options, prefix=self.redis_prefix)

    async def crowd(self, doors=(), **options):
        crowd = Crowd(self, **options)
        crowd.doors = list(doors)
        self.crowds.append(crowd)
        await crowd.begin()
        return crowd

    def explains(self, user):
        """What each node says of the user and why, for people."""
        return {node.name: request(f"{node.url}/v1/presence/{user}?explain=1")[2] for node in self.nodes}

    async def call(self, *words):
        """A command's whole reply; see `call`."""
        return await asyncio.to_thread(call, self.redis.port, *words)

    async def readyz(self, node):
        return await asyncio.to_thread(status, f"{node.url}/readyz")

    async def transaction(self, *commands):
        """Several at one moment: MULTI, EXEC."""
        return await asyncio.to_thread(transaction, self.redis.port, commands)

    async def wait_ready(self, *nodes):
        for node in nodes or self.nodes:
            await until(lambda: self._is_ready(node), f"{node.name} is ready")

    async def wait_unready(self, *nodes):
        """The promise is 5 s; the rest is room for a slow machine."""
        for node in nodes or self.nodes:
            await until(lambda: self._is_unready(node), f"{node.name} says that it isn't ready")

    async def _is_ready(self, node):
        return await self.readyz(node) == 200

    async def _is_unready(self, node):
        return await self.readyz(node) == 503


class Crowd:
    """`bots` publish `rate` times a second in all and subscribe to `reads` of the `channels` each; one of them watches everybody's presence on every node.

    Before the harm and after the heal they have `settle`d. What is added by `add` is the test's own.
    """

    def __init__(self, world, bots=12, channels=4, reads=3, rate=50, size=40, silence=5.0, seed=None):
        self.world = world
        self.seed = seed if seed is not None else int(os.environ.get("FAULT_SEED", random.randrange(1 << 32)))
        print(f"FAULT_SEED={self.seed}")
        chance = random.Random(self.seed)
        self.path = world.folder / f"journal-{len(world.crowds)}.jsonl"
        self.journal = Journal(self.path)
        self.channels = [f"room:{number}" for number in range(channels)]
        self.shapes = set()
        self.refusals, self.troubles = collections.Counter(), collections.Counter()
        self.finally_refused, self.strays = [], []
        # Retries of what was lost with its channel.
        self.uncertain = []
        self.delivered = 0
        self.last = {}
        self.acks = []
        # What bots connect to, in place of the nodes themselves, where a test has something in between.
        self.doors = []
        self.avoided = set()
        self.is_over = False
        self.longest_wait = 0.0
        self.tasks = []
        self.silence = silence
        self.bots = [
            Bot(self, f"bot{number}", chance.sample(self.channels, reads), rate / bots, silence=silence, size=size,
                home=world.nodes[number % len(world.nodes)])
            for number in range(bots)
        ]
        # One watcher a node, so that what each node tells can be compared.
        names = [bot.name for bot in self.bots]
        self.watchers = [
            Bot(self, f"watcher{number}", watch=names, silence=silence, home=node) for number, node in enumerate(world.nodes)]
        self.extra = []
        self.backend = Backend(self)

    @property
    def everybody(self):
        return self.bots + self.watchers + self.extra

    def pick(self, bot):
        """As a load balancer does that checks the nodes: any but those that are known to be down."""
        doors = self.doors or self.world.nodes
        return bot.chance.choice([door for door in doors if door not in self.avoided] or doors)

    async def add(self, name, **options):
        """A bot of the test's own, connected; the watchers watch it too."""
        bot = Bot(self, name, **{"silence": self.silence, **options})
        self.extra.append(bot)
        for watcher in self.watchers:
            watcher.watch.append(name)
            if watcher.socket:
                await watcher._watch()
        self.tasks.append(asyncio.create_task(bot.run()))
        await until(lambda: bot.is_settled, f"{name} is connected")
        await until(lambda: all(watcher.seen[name] for watcher in self.watchers), f"{name} is seen")
        return bot

    async def begin(self):
        self.tasks += [asyncio.create_task(speaker.run()) for speaker in [*self.everybody, self.backend]]
        self.tasks.append(asyncio.create_task(self._notice()))
        await self.settle()
        await until(lambda: all(watcher.seen[bot.name][-1:] == ["online"] for watcher in self.watchers for bot in self.bots), "all are seen online")
        self.publish(True)
        await asyncio.sleep(1)

    async def _notice(self):
        while not self.is_over:
            began = time.monotonic()
            await asyncio.sleep(0.1)
            self.longest_wait = max(self.longest_wait, time.monotonic() - began - 0.1)

    def publish(self, go):
        for speaker in [*self.bots, self.backend]:
            speaker.is_publishing = go

    def acknowledged(self, channel, position, entry, is_duplicate):
        epoch, offset = parts(position)
        known = self.last.get(channel)
        if known is None or parts(known)[0] != epoch or parts(known)[1] < offset:
            self.last[channel] = position
        self.acks.append((time.monotonic(), channel, position, entry and entry.id, is_duplicate))

    async def acknowledges(self, more=20):
        """The crowd's publications are being answered."""
        count = len(self.acks)
        await until(lambda: len(self.acks) >= count + more, lambda: f"{more} more acks; refused: {dict(self.refusals)}")

    async def settle(self):
        def who():
            return [self.backend.waiting] * (self.backend.waiting is not None and not self.backend.is_publishing) + [
                f"{bot.name} (connected {bot.socket is not None}, wants {sorted(set(bot.channels) - bot.joined)}, {len(bot.outbox)} unanswered)"
                for bot in self.everybody if not (bot.is_settled or bot.stays)
            ]

        await until(lambda: not who(), lambda: f"everybody is settled; refused {dict(self.refusals)}, troubles {dict(self.troubles)}: {who()}")

    async def verdict(self, is_lossy=False):
        """All is answered and everybody at the end of everything, without a successor to tell them, and with one; then the checker's report.

        `is_lossy`: the test took acknowledged publications away, so their places needn't be reached.
        """
        self.publish(False)
        await self.settle()
        if not is_lossy:
            # Found by the periodic check of idle channels at the latest, every 30 s.
            await until(lambda: not self._behind(), lambda: f"everybody gets the last publication: {self._behind()}")
        # What was taken back may stand at a higher offset than what follows it.
        self.last.clear()
        for channel in self.channels:
            await self.bots[0].publish(channel, "the last one")
        await until(lambda: not self.bots[0].outbox, "the last ones are acknowledged")
        await until(lambda: not self._behind(), lambda: f"everybody gets the very last publication: {self._behind()}")
        await self.stop()
        text = await asyncio.to_thread(self.journal.judge, BINARIES / "hub-swarm")
        print(text, f"refused {dict(self.refusals)}, closes {dict(self.closes)}, troubles {dict(self.troubles)}", sep="\n")
        assert not self.strays, self.strays
        assert not self.finally_refused, self.finally_refused
        assert is_lossy or not self.uncertain, self.uncertain
        return Verdict(text, self)

    def _behind(self):
        late = []
        for bot in self.bots + self.extra:
            for channel in bot.channels if not bot.stays else ():
                if channel in self.last:
                    epoch, offset = parts(self.last[channel])
                    at = parts(bot.positions.get(channel, ".0."))
                    if at[0] != epoch or at[1] < offset:
                        late.append(f"{bot.name} of {bot.node and getattr(bot.node, 'name', bot.node.address)} is at {bot.positions.get(channel)} of {channel}, the last is {self.last[channel]}")
        return late

    async def stop(self):
        self.is_over = True
        self.journal.close()
        for task in self.tasks:
            task.cancel()
        for bot in self.everybody:
            bot.drop()
        results = await asyncio.gather(*self.tasks, return_exceptions=True)
        self.tasks = []
        for result in results:
            if isinstance(result, Exception):
                raise result

    # What tests ask

    @property
    def closes(self):
        return collections.Counter(code for bot in self.everybody for code in bot.closes)

    def told(self, event):
        """Bots that were told of it: their names."""
        return {bot.name for bot in self.everybody if bot.heard_of(event)}

    def statuses(self, user):
        """The user's statuses as each watcher saw them."""
        return [watcher.seen[user] for watcher in self.watchers]

    async def sees(self, user, *statuses, by=None):
        """Until these watchers (all of them) have seen just this of the user."""
        by = by or self.watchers
        await until(
            lambda: all(watcher.seen[user] == list(statuses) for watcher in by),
            lambda: f"{user} is seen {statuses}; seen so far: {[(watcher.name, watcher.seen[user], watcher.connections) for watcher in by]}")

    @property
    def had_time(self):
        """Whether this process was served all along. On a machine that lets it wait for a second nodes and Redis wait too: leases lapse, probes
        fail, and what "nothing happens" means can't be told."""
        if self.longest_wait > 1:
            print(f"this machine had no time for {self.longest_wait:.1f} s: not asked whether nothing happened")
        return self.longest_wait <= 1

    def assert_never_offline(self, *users, by=None):
        for user in users or [bot.name for bot in self.bots]:
            for watcher in by or self.watchers:
                states = watcher.seen[user]
                assert "offline" not in states or not self.had_time, f"{watcher.name} saw {user} {states}"

    def assert_undisturbed(self):
        """Nobody was refused, told or thrown out."""
        found = (dict(self.refusals), self.told("degraded"), self.closes)
        assert not any(found) or not self.had_time, found


class Verdict:
    """The checker's counts, by their words: `verdict["not recovered"]`."""

    def __init__(self, text, crowd):
        self.text = text
        self.counts = {name.strip(): int(number) for name, number in re.findall(r"([a-z][a-z ]*?) (\d+)", text.partition("OK")[0].replace(",", "\n"))}
        self.told = [(bot.name, *told) for bot in crowd.everybody for told in bot.told]

    def __getitem__(self, name):
        return self.counts[name]

    def assert_nothing_announced(self):
        """Whatever was missed was filled: nobody was told of a gap."""
        assert self.told == [], f"{self.told[:10]}\n{self.text}"
        assert (self["resyncs"], self["not recovered"]) == (0, 0), self.text


def parts(position):
    """A position's epoch and offset. Clients never look inside; a test that says who is behind must."""
    epoch, offset, _ = position.rsplit(".", 2)
    return epoch, int(offset)


def call(port, *words):
    """One command on a connection of its own, with what's in its reply as bytes; an error is a RedisError."""
    with socket.create_connection(("127.0.0.1", port), timeout=10) as link, link.makefile("rb") as answers:
        send(link, *words)
        return receive(answers, is_text=False)


def transaction(port, commands):
    """All at one moment."""
    with socket.create_connection(("127.0.0.1", port), timeout=10) as link, link.makefile("rb") as answers:
        for words in [("MULTI",), *commands, ("EXEC",)]:
            send(link, *words)
        for _ in range(len(commands) + 1):
            receive(answers)
        return receive(answers, is_text=False)
