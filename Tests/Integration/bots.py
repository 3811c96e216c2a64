"""Bots that publish and follow, each keeping a journal, and the checker that reads all journals afterwards."""

import itertools
import json
import threading
import time

from websockets.exceptions import ConnectionClosed, InvalidHandshake

from client import Client


class Publisher(threading.Thread):
    """Publishes as fast as acks allow, `window` in flight; retries the same ids on another node when its connection ends."""

    def __init__(self, servers, channel, name, window=20, count=None, pause=0):
        super().__init__(daemon=True)
        self.servers, self.channel, self.name, self.window, self.count, self.pause = itertools.cycle(servers), channel, name, window, count, pause
        self.acknowledged = {}
        self.refused = {}
        self.stopping = threading.Event()
        self.failure = None

    def run(self):
        try:
            self._run()
        except Exception as error:  # Told by `finish`.
            self.failure = error

    def _run(self):
        numbers = itertools.count() if self.count is None else iter(range(self.count))
        flying = {}
        while True:
            try:
                with Client(next(self.servers), user=self.name) as client:
                    for message_id in flying:
                        self._send(client, message_id)
                    while True:
                        while len(flying) < self.window and not self.stopping.is_set():
                            number = next(numbers, None)
                            if number is None:
                                self.stopping.set()
                                break
                            message_id = f"{self.name}-{number}"
                            flying[message_id] = True
                            self._send(client, message_id)
                            if self.pause:
                                time.sleep(self.pause)
                        if not flying:
                            return
                        answer = client.expect(lambda message: message["type"] in ("ack", "error") and message.get("id") in flying, seconds=30)
                        flying.pop(answer["id"])
                        if answer["type"] == "ack":
                            assert answer["id"] not in self.acknowledged
                            self.acknowledged[answer["id"]] = answer["position"]
                        elif answer["retry"]:
                            flying[answer["id"]] = True
                            time.sleep(min(answer.get("retryAfter", 200), 1000) / 1000)
                            self._send(client, answer["id"])
                        else:
                            self.refused[answer["id"]] = answer["code"]
            except (ConnectionClosed, InvalidHandshake, OSError, TimeoutError, AssertionError) as error:
                if isinstance(error, AssertionError) and "not within" not in str(error):
                    raise
                if self.stopping.is_set() and not flying:
                    return
                time.sleep(0.1)

    def _send(self, client, message_id):
        client.send({"type": "chat", "id": message_id, "channel": self.channel, "messageId": message_id, "payload": message_id})

    def finish(self, seconds=60):
        self.stopping.set()
        self.join(seconds)
        assert not self.is_alive(), f"{self.name} still waits for its answers"
        if self.failure:
            raise self.failure
        return self


class Follower(threading.Thread):
    """Comes and goes, always back from its last position; the journal has every publication in the order it came."""

    def __init__(self, servers, channel, name, stay=0.15, subprotocols=("hub.v1.json",), vanishes=True, resubscribes=False):
        super().__init__(daemon=True)
        self.servers, self.channel, self.name, self.stay = itertools.cycle(servers), channel, name, stay
        self.subprotocols, self.vanishes, self.resubscribes = subprotocols, vanishes, resubscribes
        self.position = None
        self.journal = []
        self.unproved = []
        self.recoveries = 0
        self.pages = 0
        self.bounced = 0
        self.stopping = threading.Event()
        self.until = None
        self.failure = None

    def run(self):
        try:
            while not self._is_over():
                try:
                    self._visit(next(self.servers))
                except (ConnectionClosed, InvalidHandshake, OSError, TimeoutError):
                    self.bounced += 1
                    time.sleep(0.05)
        except BaseException as error:  # Told by `finish`.
            self.failure = error

    def _is_over(self):
        return self.stopping.is_set() and (self.until is None or self.position == self.until)

    def _visit(self, server):
        client = Client(server, user=self.name, subprotocols=self.subprotocols)
        try:
            while True:
                if not self._subscribe(client):
                    time.sleep(0.1)
                    return
                end = time.monotonic() + self.stay
                while time.monotonic() < end and not self._is_over():
                    try:
                        self._take(client.expect(lambda message: message["type"] in ("chat", "system") and message.get("event") != "degraded", seconds=0.05))
                    except AssertionError as error:
                        if "not within" not in str(error):
                            raise
                if self._is_over() or not self.resubscribes:
                    return
                # What comes before the ack belongs to the subscription that ends here.
                ack = client.request("unsubscribe", channel=self.channel)
                assert ack
                for message in client.inbox:
                    self._take(message)
                client.inbox = []
        finally:
            if self.vanishes:
                client.vanish()
            else:
                client.leave()

    def _subscribe(self, client):
        fields = {"position": self.position} if self.position else {}
        number = next(client.ids)
        client.send({"type": "subscribe", "id": number, "channel": self.channel, **fields})
        return self._recover(client, number)

    def _recover(self, client, number):
        """Takes the answer, and pages until there's no more. What comes live before the answer would be a fault."""
        while True:
            answer = client.expect(lambda message: message["type"] in ("ack", "error", "chat"), seconds=30)
            assert answer["type"] != "chat", f"{self.name}: live before the ack: {answer}"
            assert answer["id"] == number, answer
            if answer["type"] == "error":
                assert answer["retry"], answer
                return False
            if self.position is not None:
                self.recoveries += 1
                if answer["recovered"]:
                    for publication in answer.get("publications", []):
                        self._take(publication)
                    assert self.position == answer["position"], (self.position, answer["position"])
                else:
                    self._resync(answer["position"], answer["reason"])
            self.position = answer["position"]
            if not answer.get("more"):
                return True
            self.pages += 1
            number = next(client.ids)
            client.send({"type": "history", "id": number, "channel": self.channel, "since": self.position})

    def _take(self, message):
        if message["type"] == "chat":
            self.journal.append(message)
            self.position = message["position"]
        elif message.get("event") == "resync":
            self._resync(message["position"], message["reason"])

    def _resync(self, position, reason):
        self.unproved.append((len(self.journal), position, reason))
        self.position = position

    def finish(self, position, seconds=60):
        """Goes on until it stands at `position`."""
        self.until = position
        self.stopping.set()
        self.join(seconds)
        if self.failure:
            raise AssertionError(f"{self.name}: {self.failure!r}") from self.failure
        assert not self.is_alive(), f"{self.name} stands at {self.position}, not at {position}; {self.bounced} bounced"
        return self


def check(followers, publishers, may_lose=False):
    """Every follower: offsets without a hole or repeat (but where it was told), no id twice, one order for all, and everything acknowledged."""
    order = {}
    for follower in followers:
        assert may_lose or not follower.unproved, f"{follower.name} was told of gaps: {follower.unproved[:3]}"
        gaps = {index for index, _, _ in follower.unproved}
        seen = set()
        for index, message in enumerate(follower.journal):
            if index > 0 and index not in gaps:
                last, epoch = follower.journal[index - 1], message["position"].split(".")[0]
                if last["position"].split(".")[0] == epoch:
                    assert message["offset"] == last["offset"] + 1, f"{follower.name}: {last['position']} then {message['position']}"
            assert message["messageId"] not in seen or may_lose, f"{follower.name}: {message['messageId']} twice"
            seen.add(message["messageId"])
            known = order.setdefault(message["position"], message["messageId"])
            assert known == message["messageId"], f"{message['position']} is {known} to some, {message['messageId']} to others"
        if not may_lose:
            first = follower.journal[0]["offset"] if follower.journal else 0
            for publisher in publishers:
                for message_id, position in publisher.acknowledged.items():
                    if int(position.split(".")[1]) >= first:
                        assert message_id in seen, f"{follower.name} misses {message_id} at {position}"
