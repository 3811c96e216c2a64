"""Bots that behave as docs/protocol.md asks of a client, and write down what they sent and got.

A bot keeps every publication until it is answered: after a refusal or a lost connection it sends the same id again, with `age` and `since`.
It comes back after a lost connection, with jitter, to whichever node answers; it subscribes with its positions, asks `history` for the rest
where it's told `more`, and takes silence for a dead connection.
"""

import asyncio
import collections
import json
import random
import time
from http.client import HTTPException

import hubschema
from websockets.asyncio.client import connect
from hub import request
from websockets.exceptions import InvalidHandshake, WebSocketException

CODECS = ("hub.v1.json",)


class Entry:
    """A publication without an answer yet."""

    def __init__(self, channel, id, payload, since):
        self.channel, self.id, self.payload, self.since = channel, id, payload, since
        self.first = time.monotonic()
        self.attempts = 0
        # When it may be sent again; None while it is on its way.
        self.due = 0.0


class Bot:
    """One user on one device, over as many connections as it takes. `crowd` has the journal, the nodes and the counts.

    `pace`: publications a second. `watch`: users whose presence it follows. `stays`: doesn't come back by itself once its connection is lost.
    `silence`: seconds without a byte, an unanswered ping among them, after which it takes its connection for dead.
    """

    def __init__(self, crowd, name, channels=(), pace=0.0, watch=(), stays=False, silence=5.0, size=0, home=None):
        self.crowd, self.name, self.channels, self.pace, self.watch = crowd, name, list(channels), pace, list(watch)
        self.stays, self.silence, self.size, self.home = stays, silence, size, home
        self.chance = random.Random(f"{crowd.seed}/{name}")
        self.positions = {}
        # Epochs that a channel was brought to without proof that nothing was missed: (channel, reason).
        self.told = []
        self.events = []
        self.closes = []
        self.seen = collections.defaultdict(list)
        self.versions = {}
        self.outbox = {}
        self.asked = {}
        self.requests = 0
        self.sent = 0
        # None while there is no connection.
        self.socket = None
        self.node = None
        self.is_welcome = False
        self.heard = 0.0
        # Channels with a subscription in place, and those whose missed publications are still being asked for, page by page.
        self.joined = set()
        self.paging = set()
        self.due_subscription = {}
        self.due_history = {}
        self.connections = 0
        # When the latest connection was lost, and the longest time until the next stood.
        self.lost_at = None
        self.longest_away = 0.0
        self.is_publishing = False
        # Seconds that it stays away when its connection is lost the next time, on top.
        self.holds_off = 0.0

    # Life

    async def run(self):
        backoff = 0.1
        while not self.crowd.is_over:
            began = time.monotonic()
            try:
                await self._connection()
            except (OSError, WebSocketException, asyncio.TimeoutError, InvalidHandshake) as error:
                self.crowd.troubles[type(error).__name__] += 1
            if self.stays and self.connections:
                return
            backoff = 0.1 if time.monotonic() - began > 2 else min(backoff * 2, 1.0)
            await asyncio.sleep(self.holds_off + self.chance.uniform(0, backoff))
            self.holds_off = 0.0

    async def _connection(self):
        server = self.home if self.home and not self.connections and not self.crowd.doors else self.crowd.pick(self)
        address = f"ws://{server.address}/v1/ws?user={self.name}&device=d"
        async with asyncio.timeout(8):
            socket = await connect(
                address, subprotocols=CODECS, open_timeout=4, close_timeout=1, ping_interval=None, max_size=2**24, compression=None, proxy=None)
        self.socket, self.node, self.heard, self.is_welcome = socket, server, time.monotonic(), False
        helper = asyncio.create_task(self._keep(socket))
        try:
            async for text in socket:
                self.heard = time.monotonic()
                self._got(text)
        finally:
            helper.cancel()
            if self.socket is socket:
                self._lost(socket)
            socket.transport.abort()

    def _lost(self, socket):
        self.socket = self.node = None
        if not self.crowd.is_over:
            self.closes.append(socket.close_code)
        self.lost_at = time.monotonic()
        self.joined.clear()
        self.paging.clear()
        self.asked.clear()
        self.crowd.journal.end(self.name, self.heard)
        for entry in self.outbox.values():
            entry.due = 0.0

    async def _keep(self, socket):
        """What a client does beside listening: publishes, sends again what is due, probes a connection that fell silent."""
        next_publication = time.monotonic() + self.chance.expovariate(self.pace) if self.pace else None
        probed = 0.0
        try:
            while True:
                await asyncio.sleep(0.05)
                now = time.monotonic()
                if now - self.heard > self.silence:
                    return self.drop()
                if now - self.heard > min(1.0, self.silence / 3) and now - probed > 0.5:
                    probed = now
                    await self._send({"type": "ping"})
                if not self.is_welcome:
                    continue
                for channel in [channel for channel in self.channels if channel not in self.joined and channel not in self.paging]:
                    if self.due_subscription.get(channel, 0) <= now:
                        await self._subscribe([channel for channel in self.channels if channel not in self.joined | self.paging])
                        break
                for channel, due in list(self.due_history.items()):
                    if due <= now:
                        del self.due_history[channel]
                        await self._ask_history(channel)
                for entry in list(self.outbox.values()):
                    if entry.due is not None and entry.due <= now:
                        await self._publish(entry)
                while self.is_publishing and next_publication is not None and next_publication <= now:
                    next_publication += self.chance.expovariate(self.pace)
                    if len(self.outbox) < 50:
                        await self.publish(self.chance.choice(self.channels))
        except (OSError, WebSocketException):
            pass

    def drop(self):
        """As a phone that lost its radio: no closing handshake."""
        if self.socket:
            self.socket.transport.abort()

    async def leave(self):
        """A clean leave: offline at once."""
        self.stays = True
        if self.socket:
            await self.socket.close(1000)

    # Sending

    async def _send(self, envelope):
        if self.socket is None:
            return
        self.crowd.journal.out(self.name, envelope)
        await self.socket.send(json.dumps(envelope))

    def _number(self, kind, of):
        self.requests += 1
        self.asked[self.requests] = (kind, of)
        return self.requests

    async def publish(self, channel, text=None):
        """A new publication; it stays in the outbox until it is acknowledged or refused for good."""
        self.sent += 1
        payload = {"n": self.sent, "text": text or "x" * self.size}
        entry = Entry(channel, f"{self.name}-{self.sent}", payload, self.positions.get(channel))
        self.outbox[entry.id] = entry
        await self._publish(entry)
        return entry

    async def _publish(self, entry):
        entry.attempts += 1
        entry.due = None
        envelope = {"type": "chat", "id": self._number("publish", entry), "channel": entry.channel, "messageId": entry.id, "payload": entry.payload}
        if entry.attempts > 1:
            envelope["age"] = int((time.monotonic() - entry.first) * 1000)
            if entry.since:
                envelope["since"] = entry.since
        await self._send(envelope)

    async def _subscribe(self, channels):
        wanted = []
        for channel in channels:
            self.due_subscription[channel] = time.monotonic() + 20
            wanted.append({"channel": channel, **({"position": self.positions[channel]} if channel in self.positions else {})})
        await self._send({"type": "subscribe", "id": self._number("subscribe", channels), "channels": wanted})

    async def _ask_history(self, channel):
        await self._send({"type": "history", "id": self._number("history", channel), "channel": channel, "since": self.positions[channel]})

    # Receiving

    def _got(self, text):
        message = json.loads(text)
        self.crowd.journal.got_text(self.name, text)
        self._check(message)
        match message["type"]:
            case "chat" | "event":
                self.positions[message["channel"]] = message["position"]
                self.crowd.delivered += 1
            case "ack":
                self._answered(message)
            case "error":
                self._refused(message)
            case "system":
                self._told(message)
            case "presence":
                for change in message["changes"]:
                    self._saw(change)

    def _check(self, message):
        """Every shape of message is held against the schema once; each message would cost too much."""
        shape = (message["type"], message.get("event"), frozenset(message))
        if shape not in self.crowd.shapes:
            hubschema.check_server(message)
            self.crowd.shapes.add(shape)

    def _told(self, message):
        event = message["event"]
        self.events.append((time.monotonic(), event, message.get("reason")))
        if event == "welcome":
            self.is_welcome = True
            self.connections += 1
            self.due_subscription = {}
            self.due_history = {}
            if self.lost_at is not None:
                self.longest_away = max(self.longest_away, time.monotonic() - self.lost_at)
            if self.watch:
                asyncio.ensure_future(self._watch())
        elif event == "resync":
            self.positions[message["channel"]] = message["position"]
            self.paging.discard(message["channel"])
            self.told.append((message["channel"], message["reason"]))

    async def _watch(self):
        try:
            await self._send({"type": "watch", "id": self._number("watch", None), "users": self.watch})
        except (OSError, WebSocketException):
            pass

    def _answered(self, message):
        kind, of = self.asked.pop(message["id"], (None, None))
        if kind == "publish":
            if self.outbox.pop(of.id, None):
                self.crowd.acknowledged(of.channel, message["position"], of, message.get("duplicate", False))
        elif kind == "subscribe":
            for result in message["channels"]:
                self._subscribed(result)
        elif kind == "history":
            self._subscribed(message)
        elif kind == "watch":
            for user in message["users"]:
                self._saw(user)

    def _subscribed(self, result):
        """The answer of a subscription, or of the history that goes on with it."""
        channel = result["channel"]
        if "code" in result:
            self.crowd.refusals[result["code"]] += 1
            assert result["retry"], result
            self.due_subscription[channel] = time.monotonic() + result.get("retryAfter", 200) / 1000
            return
        if result.get("recovered") is False:
            self.told.append((channel, result["reason"]))
        self.crowd.delivered += len(result.get("publications", []))
        self.positions[channel] = result["position"]
        if result.get("more"):
            self.paging.add(channel)
            self.due_history[channel] = 0
        else:
            self.paging.discard(channel)
            self.joined.add(channel)

    def _refused(self, message):
        self.crowd.refusals[message["code"]] += 1
        kind, of = self.asked.pop(message.get("id"), (None, None))
        after = time.monotonic() + max(message.get("retryAfter", 0) / 1000, self.chance.uniform(0.1, 0.4))
        if kind == "publish":
            if message["retry"]:
                of.due = after
            else:
                self.outbox.pop(of.id, None)
                refused = self.crowd.uncertain if message["code"] == "uncertain" else self.crowd.finally_refused
                refused.append((of.id, message["code"]))
        elif kind == "subscribe":
            for channel in of:
                self.due_subscription[channel] = after
        elif kind == "history":
            assert message["retry"], message
            self.due_history[of] = after
        elif kind == "watch":
            asyncio.get_running_loop().call_later(0.3, lambda: asyncio.ensure_future(self._watch()))
        else:
            self.crowd.strays.append(message)

    def _saw(self, change):
        """The client's rule: a change counts when its version is newer; one that repeats the state shows nothing."""
        user = change["user"]
        if change["version"] <= self.versions.get(user, -1):
            return
        self.versions[user] = change["version"]
        states = self.seen[user]
        # Offline before it was ever there: the user is still to come.
        if change["status"] != (states[-1] if states else "offline"):
            states.append(change["status"])

    # What tests ask

    @property
    def is_back(self):
        """Connected, with every subscription in place."""
        return self.socket is not None and self.is_welcome and self.joined >= set(self.channels)

    @property
    def is_settled(self):
        """And every publication answered."""
        return self.is_back and not self.outbox

    def heard_of(self, event):
        """How often it was told that since it began: (the time, the reason) each."""
        return [(at, reason) for at, name, reason in self.events if name == event]


class Backend:
    """Publishes over HTTP in nobody's name, one after another: what isn't answered is sent again under the same id, to any node."""

    name = "backend"

    def __init__(self, crowd):
        self.crowd = crowd
        self.chance = random.Random(f"{crowd.seed}/backend")
        self.is_publishing = False
        # The id that has no answer yet.
        self.waiting = None

    async def run(self):
        number = 0
        while not self.crowd.is_over:
            await asyncio.sleep(0.2)
            if self.is_publishing:
                number += 1
                self.waiting = f"backend-{number}"
                await self._publish(number, self.chance.choice(self.crowd.channels))
                self.waiting = None

    async def _publish(self, number, channel):
        message = {"channel": channel, "class": "event", "messageId": self.waiting, "payload": {"n": number}}
        while not self.crowd.is_over:
            # The journal wants it as it would stand on a WebSocket.
            self.crowd.journal.out(self.name, {"type": "event", "id": number, "channel": channel, "messageId": self.waiting})
            node = self.chance.choice([node for node in self.crowd.world.nodes if node not in self.crowd.avoided] or self.crowd.world.nodes)
            try:
                code, _, answer = await asyncio.to_thread(request, f"{node.url}/v1/publish", "POST", message, timeout=8)
            except (OSError, HTTPException, ValueError):
                code, answer = None, None
            if code == 200:
                # Which node it was doesn't stand in the answer, and counts when it dies.
                self.crowd.journal.got(self.name, {"type": "ack", "id": number, "node": node.name, **answer})
                return self.crowd.acknowledged(channel, answer["position"], None, answer.get("duplicate", False))
            if code is not None:
                assert code in (429, 503), (code, answer)
                self.crowd.refusals[answer["error"]["code"]] += 1
                self.crowd.journal.got(self.name, {"type": "error", "id": number})
            await asyncio.sleep(self.chance.uniform(0.1, 0.5))
