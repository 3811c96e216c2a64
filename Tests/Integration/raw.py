"""Raw sockets for the transport's tests, and the nodes that they speak to."""

import json
import os
import re
import resource
import signal
import socket
import struct
import subprocess
import threading
import time

import jwt
import pytest

from client import Client
from hub import Hub, eventually, request, run, running, status
from relay import Relay

KEY = "a key of at least thirty-two bytes for these tests"
PAGE = "https://app.example.com"
HANDSHAKE = (
    "GET {path} HTTP/1.1\r\nHost: hub\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n{more}\r\n")


def opening(path="/v1/ws?user=raw", more=""):
    return HANDSHAKE.format(path=path, more=more).encode()


def frame(first, payload=b"", length=None):
    """A masked client frame; `length` announces another length than the payload's."""
    count = len(payload) if length is None else length
    head = bytes([first, 0x80 | count]) if count < 126 else bytes([first, 0xFE]) + struct.pack(">H", count) if count < 65536 \
        else bytes([first, 0xFF]) + struct.pack(">Q", count)
    return head + b"\0\0\0\0" + payload


def text(**envelope):
    return frame(0x81, json.dumps(envelope).encode())


class Raw:
    """A socket, with what came and wasn't asked for yet."""

    def __init__(self, server, data=b"", buffer=None, timeout=10):
        self.socket = socket.socket()
        if buffer:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, buffer)
        self.socket.settimeout(timeout)
        self.socket.connect(("127.0.0.1", server.port))
        self.held = b""
        if data:
            self.send(data)

    def send(self, data):
        self.socket.sendall(data)

    def _fill(self):
        try:
            part = self.socket.recv(262144)
        except ConnectionResetError:
            part = b""
        self.held += part
        return bool(part)

    def head(self):
        """The status and the rest of a response's head; None when the stream ends before."""
        while b"\r\n\r\n" not in self.held:
            if not self._fill():
                return None
        head, _, self.held = self.held.partition(b"\r\n\r\n")
        return int(head.split(b" ")[1]), head.decode()

    def response(self):
        """(status, head, body) of a response with a length."""
        code, head = self.head()
        length = int(re.search(r"(?i)\r\ncontent-length: (\d+)", head).group(1)) if code not in (204, 101, 100) else 0
        while len(self.held) < length:
            assert self._fill(), "the body is cut short"
        body, self.held = self.held[:length], self.held[length:]
        return code, head, body

    def frames(self):
        """Frames until the stream ends, as (first byte, payload)."""
        while True:
            while (length := self._length()) is None:
                if not self._fill():
                    return
            start, count = length
            found, self.held = (self.held[0], self.held[start:start + count]), self.held[start + count:]
            yield found

    def _length(self):
        if len(self.held) < 2:
            return None
        start, count = 2, self.held[1]
        if count >= 126:
            start = 4 if count == 126 else 10
            if len(self.held) < start:
                return None
            count = int.from_bytes(self.held[2:start], "big")
        return (start, count) if len(self.held) >= start + count else None

    def messages(self):
        return (json.loads(payload) for first, payload in self.frames() if first == 0x81)

    def close_code(self):
        """Of the close frame that comes; None when the stream ends without one."""
        for first, payload in self.frames():
            if first == 0x88:
                return int.from_bytes(payload[:2], "big")
        return None

    def wait_end(self):
        while self._fill():
            pass

    def reset(self):
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.socket.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.socket.close()


def welcomed(server, user="raw", **options):
    raw = Raw(server, opening(f"/v1/ws?user={user}"), **options)
    assert raw.head()[0] == 101
    assert next(raw.messages())["event"] == "welcome"
    return raw


@pytest.fixture(scope="module")
def hub(folder):
    # A queue that a test can fill; long enough for a busy machine to read what a close left behind.
    with running(Hub(folder, settings={"limits.outboundBytes": "256KB", "deadlines.close": "20s"})) as node:
        yield node


@pytest.fixture(scope="module")
def guarded(folder):
    """A node with tokens, API keys and origins, and short deadlines."""
    config = folder / "guarded.json5"
    config.write_text(json.dumps({
        "auth": {"keys": [{"alg": "HS256", "secret": KEY}], "origins": [PAGE]},
        "api": {"keys": [{"id": "test", "digest": "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08", "scopes": ["admin"]}]},
        "namespaces": {"*": {"rights": ["*"]}},
        "deadlines": {"head": "1500ms", "authentication": "1500ms", "idle": "1500ms", "close": "1s"}}))
    with running(Hub(folder, dev=False, config=config)) as node:
        node.api_key = "test"
        yield node


def memory(process):
    with open(f"/proc/{process.process.pid}/statm") as file:
        return int(file.read().split()[1]) * resource.getpagesize()


def processor_time(process):
    with open(f"/proc/{process.process.pid}/stat") as file:
        fields = file.read().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
