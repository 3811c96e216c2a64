"""A hub that delays: speaks just enough of hub.v1.json for `hub-swarm`, delivers each publication after a delay drawn from a known
distribution, and writes down what it truly did: nanoseconds from the scheduled time in the payload to the write, one a line.

    delayserver.py PORT LOG MEDIAN_MS SIGMA SEED
"""

import asyncio
import json
import math
import random
import sys
import time

from websockets.asyncio.server import serve

EPOCH, TAG = "b4k7c2mq", "h3k5q2m7"


class Rooms:
    def __init__(self, log, median, sigma, seed):
        self.log, self.median, self.sigma = log, median, sigma
        self.chance = random.Random(seed)
        self.offsets, self.members = {}, {}

    def delay(self):
        return self.median * math.exp(self.chance.gauss(0, self.sigma)) if self.median else 0

    async def deliver(self, socket, user, asked):
        """The offset is given when the message goes out: delays overtake one another, offsets don't."""
        scheduled = asked["payload"]["scheduled"]
        # What the swarm's own lateness took already is part of the delay.
        left = self.delay() - (time.monotonic_ns() - scheduled) / 1e9
        if left > 0:
            await asyncio.sleep(left)
        channel = asked["channel"]
        offset = self.offsets[channel] = self.offsets.get(channel, 0) + 1
        place = {"channel": channel, "offset": offset, "position": f"{EPOCH}.{offset}.{TAG}"}
        message = json.dumps(
            {"type": "chat", **place, "user": user, "time": int(time.time() * 1000), "messageId": asked["messageId"], "payload": asked["payload"]},
            separators=(",", ":"))
        for member in list(self.members.get(channel, ())):
            self.log.write(f"{time.monotonic_ns() - scheduled}\n")
            await member.send(message)
        await socket.send(json.dumps({"type": "ack", "id": asked["id"], **place}, separators=(",", ":")))

    async def serve(self, socket):
        user = socket.request.path.split("user=")[-1].split("&")[0]
        await socket.send(json.dumps({
            "type": "system", "event": "welcome", "connection": f"{TAG}-1", "node": "delay", "user": user, "device": "swarm", "ping": 20000,
            "limits": {"messageBytes": 65536, "channels": 256}, "channels": {}}))
        tasks, mine = set(), []
        try:
            async for text in socket:
                asked = json.loads(text)
                if asked["type"] == "subscribe":
                    channel = asked["channel"]
                    self.members.setdefault(channel, set()).add(socket)
                    mine.append(channel)
                    offset = self.offsets.get(channel, 0)
                    await socket.send(json.dumps(
                        {"type": "ack", "id": asked["id"], "channel": channel, "offset": offset, "position": f"{EPOCH}.{offset}.{TAG}"}))
                elif asked["type"] == "chat":
                    task = asyncio.create_task(self.deliver(socket, user, asked))
                    tasks.add(task)
                    task.add_done_callback(tasks.discard)
                elif "id" in asked:
                    await socket.send(json.dumps({"type": "ack", "id": asked["id"]}))
        finally:
            for channel in mine:
                self.members[channel].discard(socket)


async def main():
    port, path, median, sigma, seed = sys.argv[1:]
    with open(path, "w", encoding="ascii", buffering=1 << 20) as log:
        rooms = Rooms(log, float(median) / 1000, float(sigma), int(seed))
        async with serve(rooms.serve, "127.0.0.1", int(port), subprotocols=["hub.v1.json"], compression=None, ping_interval=None):
            print("ready", flush=True)
            while True:
                await asyncio.sleep(0.2)
                log.flush()


asyncio.run(main())
