"""A TCP relay that a test can freeze or have forget its connections, as proxies and radio links do."""

import selectors
import socket
import threading
import time


class Relay:
    """Passes bytes both ways between clients of `port` and the server. `idle_cut`: cuts a connection when either direction was silent so long."""

    def __init__(self, server, idle_cut=None):
        self.target = ("127.0.0.1", server.port)
        self.idle_cut = idle_cut
        self.cuts = 0
        self.is_frozen = False
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        self.address = f"127.0.0.1:{self.port}"
        self.selector = selectors.DefaultSelector()
        self.selector.register(self.listener, selectors.EVENT_READ)
        self.last = {}
        self.is_running = True
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    def _run(self):
        while self.is_running:
            for key, _ in self.selector.select(0.02):
                if key.fileobj is self.listener:
                    self._accept()
                elif not self.is_frozen:
                    self._pass(key.fileobj, key.data)
            if self.is_frozen:
                time.sleep(0.02)
            if self.idle_cut:
                now = time.monotonic()
                for source, (other, at) in list(self.last.items()):
                    if now - at > self.idle_cut and source in self.last:
                        self.cuts += 1
                        self._drop(source, other)

    def _accept(self):
        client, _ = self.listener.accept()
        try:
            server = socket.create_connection(self.target)
        except OSError:
            # The server is down: as without a relay.
            return client.close()
        for source, other in ((client, server), (server, client)):
            self.selector.register(source, selectors.EVENT_READ, other)
            self.last[source] = (other, time.monotonic())

    def _pass(self, source, other):
        try:
            data = source.recv(65536)
            if data:
                other.sendall(data)
        except OSError:
            data = b""
        if data:
            self.last[source] = (other, time.monotonic())
        else:
            self._drop(source, other)

    def _drop(self, *sockets):
        for end in sockets:
            if self.last.pop(end, None):
                self.selector.unregister(end)
                end.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.is_running = False
        self.thread.join()
        self._drop(*list(self.last))
        self.listener.close()


class LinkRelay(Relay):
    """In front of a Redis: freezes one kind of a node's links, known by the name that the node gives it ("commands", "subscriptions")."""

    def __init__(self, server):
        self.frozen = None
        self.kinds = {}
        self.doomed = set()
        super().__init__(server)

    def lose(self, kind):
        """The links of that kind are cut at their next byte, which is lost, as all that the relay holds back."""
        self.doomed |= {end for end, known in list(self.kinds.items()) if known == kind}

    def _pass(self, source, other):
        if source in self.doomed or other in self.doomed:
            return self._drop(source, other)
        if self.frozen and self.frozen in (self.kinds.get(source), self.kinds.get(other)):
            time.sleep(0.005)
            return
        try:
            data = source.recv(65536)
            for kind in ("commands", "subscriptions"):
                if b"hub-" in data and f"-{kind}\r\n".encode() in data:
                    self.kinds[source] = kind
            if data:
                other.sendall(data)
        except OSError:
            data = b""
        if not data:
            self._drop(source, other)
