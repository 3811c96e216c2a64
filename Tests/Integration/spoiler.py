"""A relay in front of a hub that spoils what the hub says, so that a test can ask whether the swarm notices.

It stands in for a hub with a fault: each way of spoiling is one that some hub has had."""

import asyncio
import json
import threading

from websockets.asyncio.client import connect
from websockets.asyncio.server import serve
from websockets.exceptions import ConnectionClosed


def text_of(message):
    """As hubs write it: a payload has to come byte by byte."""
    return json.dumps(message, separators=(",", ":"), ensure_ascii=False)


class Spoiler:
    """`way`: the name of a method below. It spoils one message in `every` of those that it's about, and counts them in `spoilt`."""

    def __init__(self, hub, way, every=7):
        self.hub, self.way, self.every = hub, getattr(self, way), every
        self.count, self.spoilt = 0, 0
        self.links = []
        self.last = {}

    def __enter__(self):
        self.ready, self.loop = threading.Event(), asyncio.new_event_loop()
        self.thread = threading.Thread(target=self.loop.run_until_complete, args=(self._run(),), daemon=True)
        self.thread.start()
        assert self.ready.wait(10)
        return self

    def __exit__(self, *_):
        self.loop.call_soon_threadsafe(self.over.set)
        self.thread.join(10)

    async def _run(self):
        self.over = asyncio.Event()
        async with serve(self._serve, "127.0.0.1", 0, compression=None, ping_interval=None, subprotocols=["hub.v1.json"]) as server:
            self.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
            self.ready.set()
            await self.over.wait()
            server.close(close_connections=True)

    async def _serve(self, client):
        url = self.hub.url.replace("http", "ws", 1) + client.request.path
        async with connect(url, compression=None, ping_interval=None, subprotocols=["hub.v1.json"], max_size=None) as hub:
            link = Link(client)
            self.links.append(link)
            up = asyncio.create_task(self._up(client, hub))
            try:
                async for text in hub:
                    for message in self._spoil(link, json.loads(text)):
                        await client.send(text_of(message))
            except ConnectionClosed:
                pass
            finally:
                self.links.remove(link)
                up.cancel()
            await client.close(hub.close_code or 1001)

    async def _up(self, client, hub):
        try:
            async for text in client:
                await hub.send(text)
            await hub.close(client.close_code or 1001)
        except ConnectionClosed:
            pass

    def _spoil(self, link, message):
        for entry in message.get("channels") or () if isinstance(message.get("channels"), list) else (message,):
            if message["type"] == "ack" and "channel" in entry:
                link.channels.add(entry["channel"])
        return self.way(link, message)

    def _hits(self, message, *types):
        """Of those that have a place: an ack of `watch` or `presence` says nothing that could be spoilt."""
        if message["type"] not in types or "messageId" not in message:
            return False
        self.count += 1
        if self.count % self.every:
            return False
        self.spoilt += 1
        return True

    # Ways. Each has what comes in place of the message.

    def nothing(self, link, message):
        return [message]

    def leak(self, link, message):
        """To somebody who isn't in that room, and never was."""
        others = [other for other in self.links if other.channels and message.get("channel") not in other.channels]
        if others and self._hits(message, "chat"):
            asyncio.get_running_loop().create_task(others[0].client.send(text_of(message)))
        return [message]

    def swap(self, link, message):
        """Behind the next one of its room."""
        held = link.held.pop(message.get("channel"), None) if message["type"] == "chat" else None
        if held:
            self.spoilt += 1
            return [message, held]
        if message["type"] == "chat" and self._hits(message, "chat"):
            self.spoilt -= 1
            link.held[message["channel"]] = message
            asyncio.get_running_loop().create_task(self._release(link, message))
            return []
        return [message]

    async def _release(self, link, message):
        """No next one came."""
        await asyncio.sleep(1)
        if link.held.get(message["channel"]) is message:
            del link.held[message["channel"]]
            await link.client.send(text_of(message))

    def twice(self, link, message):
        return [message, message] if self._hits(message, "chat") else [message]

    def another_payload(self, link, message):
        if self._hits(message, "chat"):
            message["payload"]["sequence"] += 1
        return [message]

    def no_payload_of_ours(self, link, message):
        if self._hits(message, "chat"):
            message["payload"] = {"zzz": 1}
        return [message]

    def another_sender(self, link, message):
        if self._hits(message, "chat"):
            message["user"] = "mallory"
        return [message]

    def ack_of_another_offset(self, link, message):
        if self._hits(message, "ack"):
            message["offset"] += 1
        return [message]

    def ack_of_another_message(self, link, message):
        if self._hits(message, "ack"):
            message["messageId"] = "nonsense"
        return [message]

    def somebody_elses_typing(self, link, message):
        if message["type"] == "typing" and "bot" in message["payload"]:
            self.spoilt += 1
            message["user"] = message["user"] + "0"
        return [message]


class Link:
    def __init__(self, client):
        self.client = client
        self.channels = set()
        self.held = {}
