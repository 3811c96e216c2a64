"""A relay between a node and Redis (or clients and a node) that a test can slow down, freeze or cut, on the loop of the test itself."""

import asyncio
import socket


class FaultRelay:
    """`server`: has a port. The relay's address is what a node takes for Redis, or clients for a node.

    A node names its links to Redis (`CLIENT SETNAME hub-…-commands`, `-subscriptions`); `frozen` and `cut` may mean one of them.
    """

    def __init__(self, server):
        self.target = server.port
        # Seconds that every byte waits, each way.
        self.delay = 0.0
        # Of these no byte passes, either way: "commands", "subscriptions", "unnamed".
        self.frozen = frozenset()
        # Bytes from the server wait, those to it pass.
        self.is_deaf = False
        self.is_refusing = False
        self.links = []
        # Links that whoever made them gave up.
        self.left = 0
        # Bytes that the relay's own socket takes from the server ahead: little, so that the rest stays there.
        self.receive_buffer = None

    async def open(self):
        self.listener = await asyncio.start_server(self._accepted, "127.0.0.1", 0)
        self.port = self.listener.sockets[0].getsockname()[1]
        self.address = f"127.0.0.1:{self.port}"
        self.url = f"redis://{self.address}"
        return self

    async def close(self):
        self.listener.close()
        while self.links:
            self.cut()
            await asyncio.sleep(0.01)

    # What a test does

    def freeze(self, *kinds):
        """The links stay and no byte passes, as behind a switch that died; new ones are frozen too."""
        self.frozen = frozenset(kinds or ("commands", "subscriptions", "unnamed"))

    def thaw(self):
        self.frozen = frozenset()

    def cut(self, refuse=True):
        """Every link is reset; while refusing, new ones are too."""
        self.is_refusing = refuse
        for link in list(self.links):
            link.reset()

    def mend(self):
        self.is_refusing = False

    # Inside

    async def _accepted(self, reader, writer):
        if self.is_refusing:
            return writer.transport.abort()
        link = _Link(self, writer)
        self.links.append(link)
        try:
            await link.run(reader)
        except OSError:
            # The server isn't there, or was reset.
            pass
        finally:
            link.reset()
            self.links.remove(link)


class _Link:
    def __init__(self, relay, writer):
        self.relay, self.writers = relay, [writer]
        self.name = "unnamed"

    def reset(self):
        for writer in self.writers:
            writer.transport.abort()

    async def run(self, reader):
        raw = socket.socket()
        raw.setblocking(False)
        if self.relay.receive_buffer:
            raw.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, self.relay.receive_buffer)
        await asyncio.get_running_loop().sock_connect(raw, ("127.0.0.1", self.relay.target))
        options = {"limit": self.relay.receive_buffer} if self.relay.receive_buffer else {}
        from_server, to_server = await asyncio.open_connection(sock=raw, **options)
        self.writers.append(to_server)
        ways = [asyncio.create_task(self._pass(reader, to_server, True)), asyncio.create_task(self._pass(from_server, self.writers[0], False))]
        try:
            await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for way in ways:
                way.cancel()
            await asyncio.gather(*ways, return_exceptions=True)

    async def _pass(self, reader, writer, is_to_server):
        """One way. What was read waits its delay in order; reading stops while the link is frozen."""
        waiting = asyncio.Queue(maxsize=64)
        pump = asyncio.create_task(self._pump(waiting, writer, is_to_server))
        try:
            loop = asyncio.get_running_loop()
            while data := await reader.read(65536):
                if is_to_server and self.name == "unnamed":
                    self._learn(data)
                await waiting.put((loop.time() + self.relay.delay, data))
            if is_to_server:
                self.relay.left += 1
            await waiting.put(None)
            await pump
        finally:
            pump.cancel()

    async def _pump(self, waiting, writer, is_to_server):
        loop = asyncio.get_running_loop()
        while item := await waiting.get():
            at, data = item
            if at > loop.time():
                await asyncio.sleep(at - loop.time())
            while self.name in self.relay.frozen or (self.relay.is_deaf and not is_to_server):
                await asyncio.sleep(0.02)
            writer.write(data)
            await writer.drain()

    def _learn(self, data):
        for name in ("commands", "subscriptions"):
            if b"-" + name.encode() in data:
                self.name = name
