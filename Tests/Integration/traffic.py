"""Chat under faults: who talks, who listens, and whether anything acknowledged was lost without a word."""

import json
import threading
import time

from websockets.exceptions import ConnectionClosed

from client import Client
from hub import eventually


class Talker:
    """Says numbered things in turn in each channel, `burst` at a time, and again under the same id until they're acknowledged."""

    def __init__(self, hub, *channels, burst=1, pause=0.002):
        self.hub, self.channels, self.burst, self.pause = hub, channels, burst, pause
        self.acked = {channel: [] for channel in channels}
        # The errors that it got, all of which say that trying again helps.
        self.refusals = []
        self.failure = None
        self.is_running = True
        self.thread = threading.Thread(target=self._run, daemon=True)

    def _run(self):
        try:
            with Client(self.hub, user="talker") as client:
                threads = [threading.Thread(target=self._talk, args=(channel,), daemon=True) for channel in self.channels]
                for thread in threads:
                    thread.start()
                for thread in threads:
                    thread.join()
        except BaseException as error:
            self.failure = error

    def _talk(self, channel):
        try:
            with Client(self.hub, user=f"talker-{channel}") as client:
                owed = []
                number = 0
                while self.is_running:
                    while len(owed) < self.burst:
                        owed.append(number)
                        number += 1
                    for one in owed:
                        client.send({"type": "chat", "id": one, "channel": channel, "payload": {"text": str(one)}, "messageId": f"{channel}-{one}"})
                    for one in list(owed):
                        answer = client.expect(lambda message: message.get("id") == one and message["type"] in ("ack", "error"))
                        if answer["type"] == "ack":
                            self.acked[channel].append((one, answer["position"]))
                            owed.remove(one)
                        else:
                            assert answer["code"] in ("unavailable", "overloaded"), answer
                            self.refusals.append(answer)
                    client.inbox.clear()
                    time.sleep(0.05 if owed else self.pause)
        except BaseException as error:
            self.failure = error

    def wait_for(self, more, *channels, seconds=15):
        """Until so many more were acknowledged in every channel, or in these."""
        target = {channel: len(self.acked[channel]) + more for channel in channels or self.channels}

        def there():
            if self.failure:
                raise self.failure
            return all(len(self.acked[channel]) >= count for channel, count in target.items())

        eventually(there, seconds, f"{more} more acknowledged")

    def stop(self):
        self.is_running = False
        self.thread.join(20)
        if self.failure:
            raise self.failure

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.is_running = False
        self.thread.join(20)


class Listener:
    """Subscribes to the channels and keeps what it hears, as an app does that trusts `resync` to tell of holes."""

    def __init__(self, hub, *channels):
        self.client = Client(hub, user="listener")
        self.channels = channels
        self.start = {channel: self.client.subscribe(channel)["position"] for channel in channels}
        self.heard = {channel: [] for channel in channels}
        self.failure = None
        self.is_running = True
        self.thread = threading.Thread(target=self._run, daemon=True)

    def _run(self):
        try:
            while self.is_running:
                try:
                    # Without the schema, which other tests hold it to: a listener that reads slowly is closed.
                    message = json.loads(self.client.socket.recv(timeout=0.1))
                except TimeoutError:
                    continue
                # Its inbox, which has nothing, may be announced too.
                if (message["type"] == "chat" or message.get("event") == "resync") and message["channel"] in self.heard:
                    self.heard[message["channel"]].append(message)
        except BaseException as error:
            self.failure = error

    @property
    def resyncs(self):
        return [message for heard in self.heard.values() for message in heard if message.get("event") == "resync"]

    def check(self, talker, seconds=15):
        """Whatever was acknowledged was heard, in order and once, or a resync stands where it's missing."""
        for channel in self.channels:
            last = max((position for _, position in talker.acked[channel][-talker.burst:]), key=lambda position: int(position.split(".")[1]))

            def heard_last():
                if self.failure:
                    raise self.failure
                return any(message["position"] == last for message in self.heard[channel])

            eventually(heard_last, seconds, f"the last of {channel} comes")
            heard = self.heard[channel]
            texts = [int(message["payload"]["text"]) for message in heard if message["type"] == "chat"]
            # What was refused and said again may come after what was said later; and what a failover lost, later than what it didn't.
            resyncs = [message for message in heard if message["type"] != "chat"]
            assert talker.refusals or resyncs or texts == sorted(texts), f"{channel}: out of order"
            at = self.start[channel]
            since = set()
            for message in heard:
                if message["type"] == "chat":
                    assert follows(message["position"], at), f"{channel}: {message['position']} doesn't follow {at}, and no resync stands between"
                    assert message["messageId"] not in since, f"{channel}: {message['messageId']} came twice"
                    since.add(message["messageId"])
                else:
                    since.clear()
                at = message["position"]
            lost = {number for number, _ in talker.acked[channel]} - set(texts)
            assert not lost or resyncs, f"{channel}: {sorted(lost)} lost without a word"

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.is_running = False
        self.thread.join(10)
        self.client.leave()


def follows(position, before):
    """Whether a position is the next one. Tags aside: those are the nodes' business."""
    epoch, offset, _ = position.split(".")
    parts = before.split(".")
    if len(parts) != 3 or parts[1] == "0":
        return offset == "1"
    return (epoch, int(offset)) == (parts[0], int(parts[1]) + 1)
