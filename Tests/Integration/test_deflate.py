"""permessage-deflate over real connections: what clients get, what a broadcast costs, what bombs and comings and goings leave behind."""

import json
import os
import pathlib
import random
import socket
import struct
import zlib

import pytest
from websockets.sync.client import connect

from hub import Hub, eventually, request, running

LIMIT = 64 * 1024


@pytest.fixture(scope="module")
def hub(folder):
    with running(Hub(folder, settings={"loops": 1})) as node:
        yield node


def metric(hub, name):
    page = request(f"{hub.url}/metrics")[2].decode()
    return int(next(line.split()[1] for line in page.splitlines() if line.startswith(name + " ")))


def resident(hub):
    """Bytes."""
    return int(pathlib.Path(f"/proc/{hub.process.pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGESIZE")


class Raw:
    """A socket past the opening handshake with an offer, for frames that no library sends."""

    def __init__(self, hub, offer="permessage-deflate", path="/v1/ws"):
        self.socket = socket.create_connection(("127.0.0.1", hub.port), timeout=20)
        self.socket.sendall(
            f"GET {path} HTTP/1.1\r\nHost: hub\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
            f"Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\nSec-WebSocket-Extensions: {offer}\r\n\r\n".encode())
        self.file = self.socket.makefile("rb")
        self.status = self.file.readline().decode().split(" ", 1)[1].strip()
        fields = [line.decode().strip() for line in iter(self.file.readline, b"\r\n")]
        self.agreed = next((field.split(": ", 1)[1] for field in fields if field.startswith("Sec-WebSocket-Extensions")), None)

    def send(self, first, payload):
        length = len(payload)
        size = bytes([0x80 | length]) if length < 126 else struct.pack(">BH", 0xFE, length) if length < 65536 else struct.pack(">BQ", 0xFF, length)
        self.socket.sendall(bytes([first]) + size + bytes(4) + payload)

    def read(self):
        """(first byte, payload) of a frame."""
        first, length = self.file.read(2)
        if length == 126:
            length, = struct.unpack(">H", self.file.read(2))
        elif length == 127:
            length, = struct.unpack(">Q", self.file.read(8))
        return first, self.file.read(length)

    def close_code(self):
        while True:
            first, payload = self.read()
            if first == 0x88:
                return struct.unpack(">H", payload[:2])[0]

    def close(self):
        self.file.close()
        self.socket.close()


def deflated(data):
    compressor = zlib.compressobj(9, zlib.DEFLATED, -15)
    return (compressor.compress(data) + compressor.flush(zlib.Z_SYNC_FLUSH))[:-4]


def inflated(first, payload, window=15):
    return zlib.decompressobj(-window).decompress(payload + b"\0\0\xff\xff") if first & 0x40 else payload


@pytest.mark.parametrize("offer", [
    "permessage-deflate; client_max_window_bits", "permessage-deflate; client_max_window_bits=15", "permessage-deflate; client_max_window_bits=8",
    "permessage-deflate; client_max_window_bits=08", "permessage-deflate; client_max_window_bits=abc", 'permessage-deflate; client_max_window_bits="10"',
    "permessage-deflate; server_max_window_bits", "permessage-deflate; server_max_window_bits=9", "permessage-deflate; server_max_window_bits=8",
    "permessage-deflate; mux", "permessage-deflate; mux, permessage-deflate", ";;=", '"', "x" * 4000,
])
def test_whatever_is_offered_the_connection_opens_and_chats(hub, offer):
    raw = Raw(hub, offer, "/v1/echo")
    assert raw.status == "101 Switching Protocols"
    assert raw.agreed is None or raw.agreed.startswith("permessage-deflate")
    assert "client_max_window_bits" in offer or "client_max_window_bits" not in (raw.agreed or "")
    text = json.dumps({"text": "to be, or not to be " * 200}).encode()
    raw.send(0xC1 if raw.agreed else 0x81, deflated(text) if raw.agreed else text)
    first, payload = raw.read()
    assert first == (0xC1 if raw.agreed else 0x81)
    assert inflated(first, payload, 9 if "server_max_window_bits=9" in (raw.agreed or "") else 15) == text
    raw.close()


def test_level_window_minimum_and_budget_come_from_the_configuration(start):
    def echoed(hub, text, offer="permessage-deflate"):
        raw = Raw(hub, offer, "/v1/echo")
        raw.send(0xC1 if raw.agreed else 0x81, deflated(text) if raw.agreed else text)
        first, payload = raw.read()
        raw.close()
        return raw.agreed, first, payload

    # What repeats farther apart than a window of 2^9 can see.
    text = random.Random(9).randbytes(1500).hex().encode() * 2
    agreed, first, _ = echoed(start(Hub, settings={"deflate.level": 0}), text)
    assert (agreed, first) == (None, 0x81)
    wide = echoed(start(Hub, settings={"deflate.level": 9}), text)
    narrow = echoed(start(Hub, settings={"deflate.level": 9, "deflate.windowBits": 9}), text)
    assert inflated(*wide[1:]) == inflated(*narrow[1:], window=9) == text
    assert len(wide[2]) * 1.5 < len(narrow[2])
    # One for a single connection isn't compressed below four times the minimum.
    hub = start(Hub, settings={"deflate.minimumBytes": "100B"})
    assert [echoed(hub, b"x" * size)[1] for size in (399, 400)] == [0x81, 0xC1]
    assert "no_context_takeover" not in echoed(start(Hub, settings={"deflate.contextBudget": "64MB"}), text)[0]
    assert "server_no_context_takeover" in wide[0]


def test_what_the_echo_may_have_is_the_echo_s_alone(start):
    hub = start(Hub, settings={"diagnostics.echoBytes": "1MB"})
    for path, code in (("/v1/echo", None), ("/v1/ws?user=alice", 1009)):
        for first, payload in ((0x81, b"x" * (LIMIT + 1)), (0xC1, deflated(b"x" * (LIMIT + 1)))):
            raw = Raw(hub, path=path)
            raw.send(first, payload)
            if code:
                assert raw.close_code() == code
            else:
                assert inflated(*raw.read()) == b"x" * (LIMIT + 1)
            raw.close()


def test_a_broadcast_is_compressed_once_and_every_client_reads_it(start):
    hub = start(Hub, settings={"loops": 1})

    def client(user, compression):
        link = connect(f"ws://{hub.address}/v1/ws?user={user}&channel=room:d", compression=compression, proxy=None)
        assert json.loads(link.recv(timeout=10))["event"] == "welcome"
        return link

    members = [client(f"d{number}", "deflate" if number % 3 else None) for number in range(30)]
    try:
        payloads = [{"text": f"{number}: " + "so it goes, and so it went; " * 40} for number in range(5)]
        for payload in payloads:
            members[1].send(json.dumps({"type": "chat", "channel": "room:d", "payload": payload}))
        for member in members:
            assert [json.loads(member.recv(timeout=10))["payload"] for _ in payloads] == payloads
        eventually(lambda: metric(hub, "hub_deflate_messages_total") >= 5)
        assert metric(hub, "hub_deflate_messages_total") == 5
        assert metric(hub, "hub_deflate_agreed_total") == 20
        assert metric(hub, "hub_deflate_output_bytes_total") * 3 < metric(hub, "hub_deflate_input_bytes_total")
    finally:
        for member in members:
            member.close()


def test_bombs_from_those_who_have_not_said_who_they_are_end_at_the_limit_and_take_no_memory(start):
    hub = start(Hub, dev=False, settings={"loops": 1, "auth.keys": "[{secret:'0123456789abcdef0123456789abcdef'}]"})
    bomb = deflated(bytes(64_000_000))
    assert len(bomb) < LIMIT
    Raw(hub).close()
    before = resident(hub)
    attackers = [Raw(hub) for _ in range(20)]
    for number, attacker in enumerate(attackers):
        pieces = 100 if number % 2 else 1
        for piece in range(pieces):
            part = bomb[len(bomb) * piece // pieces:len(bomb) * (piece + 1) // pieces]
            attacker.send((0x41 if piece == 0 else 0) | (0x80 if piece == pieces - 1 else 0), part)
    assert [attacker.close_code() for attacker in attackers] == [1009] * 20
    assert resident(hub) - before < 20 * LIMIT * 3
    for attacker in attackers:
        attacker.close()


def test_the_limit_itself_is_taken_and_one_byte_more_is_not(start):
    hub = start(Hub, settings={"diagnostics.echoBytes": LIMIT})
    for size, code in ((LIMIT, None), (LIMIT + 1, 1009)):
        raw = Raw(hub, path="/v1/echo")
        raw.send(0xC2, deflated(b"x" * size))
        if code:
            assert raw.close_code() == code
        else:
            assert inflated(*raw.read()) == b"x" * size
        raw.close()


def test_memory_comes_back_after_each_crowd_of_compressing_clients(hub):
    text = json.dumps({"text": "what a crowd " * 80}).encode()
    floors = []
    for _ in range(4):
        crowd = [Raw(hub, path="/v1/echo") for _ in range(300)]
        for raw in crowd:
            raw.send(0xC1, deflated(text))
        for raw in crowd:
            assert inflated(*raw.read()) == text
        for raw in crowd:
            raw.close()
        eventually(lambda: metric(hub, "hub_connections") <= 2)
        floors.append(resident(hub))
    assert max(floors[1:]) < floors[0] * 1.1
