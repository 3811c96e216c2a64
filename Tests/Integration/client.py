"""A client that isn't ours (Python's websockets), which holds every message in both directions against the protocol's schema."""

import itertools
import json
import socket
import time
import urllib.parse

import hubschema
import msgpack
import shortform
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import connect


CODECS = {
    "hub.v1.json": (json.dumps, json.loads),
    "hub.v1.msgpack": (msgpack.packb, msgpack.unpackb),
    "hub.v1.msgpack.short": (shortform.pack, shortform.unpack),
}
PACKED = [name for name in CODECS if name != "hub.v1.json"]


class Client:
    """One connection. Messages that nobody waited for yet stay in `inbox`, in order. What it speaks is what the hub chose of its offer."""

    def __init__(
            self, server, user=None, token=None, device=None, channel=None, path="/v1/ws", welcome=True, subprotocols=("hub.v1.json",),
            compression=None, status=None):
        query = {key: value for key, value in (("user", user), ("device", device), ("channel", channel), ("status", status)) if value}
        address = f"ws://{server.address}{path}?{urllib.parse.urlencode(query)}"
        headers = {"Authorization": f"Bearer {token}"} if token else None
        self.socket = connect(
            address, subprotocols=subprotocols, additional_headers=headers, open_timeout=10, close_timeout=5, ping_interval=None,
            max_size=2**24, compression=compression, proxy=None)
        self.pack, self.unpack = CODECS.get(self.socket.subprotocol, CODECS["hub.v1.json"])
        self.is_packed = self.socket.subprotocol in PACKED
        self.inbox = []
        self.ids = itertools.count(1)
        self.welcome = self.expect(type="system", event="welcome") if welcome else None

    # Sending

    def send(self, envelope):
        hubschema.check_client(envelope)
        self.socket.send(self.pack(envelope))

    def send_raw(self, text):
        self.socket.send(text)

    def request(self, type, **fields):
        """The request's ack; a refusal is an AssertionError."""
        answer = self.try_request(type, **fields)
        assert answer["type"] == "ack", answer
        return answer

    def try_request(self, type, **fields):
        number = next(self.ids)
        self.send({"type": type, "id": number, **fields})
        return self.expect(lambda message: message.get("id") == number and message["type"] in ("ack", "error"))

    def subscribe(self, channel):
        return self.request("subscribe", channel=channel)

    def chat(self, channel, text, **fields):
        return self.request("chat", channel=channel, payload={"text": text}, **fields)

    def where(self, channel):
        """The position at which the channel stands."""
        return self.request("history", channel=channel, reverse=True, limit=1)["position"]

    # Receiving

    def expect(self, question=None, seconds=15, **fields):
        """Takes the first message, waiting or still to come, that has these fields."""
        def fits(message):
            return all(message.get(key) == value for key, value in fields.items()) and (question is None or question(message))

        for index, message in enumerate(self.inbox):
            if fits(message):
                return self.inbox.pop(index)
        deadline = time.monotonic() + seconds
        while True:
            message = self._receive(deadline)
            if message is None:
                raise AssertionError(f"not within {seconds} s: {fields or question}; got instead {self.inbox}")
            if fits(message):
                return message
            self.inbox.append(message)

    def presence_of(self, user, status, seconds=15):
        """Waits for a change of the user to this status; earlier changes to others stay waiting."""
        return self.expect(lambda message: message["type"] == "presence" and any(
            change["user"] == user and change["status"] == status for change in message["changes"]), seconds)

    def sync(self):
        """Everything that the hub sent this connection before it read this request is in the inbox afterwards."""
        self.send({"type": "ping"})
        self.expect(type="pong")

    def gather(self, seconds):
        """What comes within that time, for saying that something did not; the inbox included."""
        deadline = time.monotonic() + seconds
        while (message := self._receive(deadline)) is not None:
            self.inbox.append(message)
        taken, self.inbox = self.inbox, []
        return taken

    def _receive(self, deadline):
        try:
            text = self.socket.recv(timeout=max(0, deadline - time.monotonic()))
        except TimeoutError:
            return None
        assert isinstance(text, bytes) == self.is_packed, text
        message = self.unpack(text)
        hubschema.check_server(message)
        return message

    def expect_close(self, seconds=15):
        """(code, reason) of the close that the hub sends; messages before it go to the inbox."""
        deadline = time.monotonic() + seconds
        try:
            while (message := self._receive(deadline)) is not None:
                self.inbox.append(message)
        except ConnectionClosed as closed:
            return (closed.rcvd.code, closed.rcvd.reason) if closed.rcvd else (1006, "")
        raise AssertionError(f"still open after {seconds} s")

    # Ending

    def leave(self):
        """A clean leave: offline at once if it was the last connection."""
        self.socket.close(1000)

    def vanish(self):
        """As a dead phone: the socket is gone, no closing handshake."""
        self.socket.socket.shutdown(2)
        self.socket.socket.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.socket.close(1001)


def statuses(messages, user):
    """The user's statuses in a list of messages, in order."""
    return [change["status"] for message in messages if message["type"] == "presence" for change in message["changes"] if change["user"] == user]


def raw_socket(server, user="raw"):
    """A bare socket past the opening handshake and the welcome, for frames that no library sends."""
    raw = socket.create_connection(("127.0.0.1", server.port), timeout=10)
    raw.sendall(
        f"GET /v1/ws?user={user} HTTP/1.1\r\nHost: hub\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n".encode())
    data = b""
    while b"welcome" not in data:
        part = raw.recv(4096)
        assert part, f"closed after {data!r}"
        data += part
    return raw
