"""The transport's edge: HTTP, deadlines, slow readers and limits, with raw sockets and real signals. B…: field reports these rules come from."""

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
    # Short, and longer than anything here takes.
    with running(Hub(folder, settings={"limits.outboundBytes": "256KB", "deadlines.close": "2s"})) as node:
        yield node


@pytest.fixture(scope="module")
def guarded(folder):
    """A node with tokens, API keys and origins, and short deadlines."""
    config = folder / "guarded.json5"
    config.write_text(json.dumps({
        "auth": {"keys": [{"alg": "HS256", "secret": KEY}], "origins": [PAGE]},
        "api": {"keys": [{"id": "test", "digest": "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08", "scopes": ["admin"]}]},
        "deadlines": {"head": "600ms", "authentication": "600ms", "idle": "600ms", "close": "400ms", "pong": "500ms"}, "ping": "1s"}))
    with running(Hub(folder, dev=False, config=config)) as node:
        node.api_key = "test"
        yield node


# HTTP


def curl(*arguments, data=None):
    done = subprocess.run(
        ["curl", "--silent", "--show-error", "--max-time", "10", "--noproxy", "*", *arguments], input=data, capture_output=True, check=False)
    return done.returncode, done.stdout.decode(), done.stderr.decode()


def test_curl_keeps_a_connection_and_heads_have_lengths_without_bodies(hub):
    _, out, told = curl("-v", f"{hub.url}/healthz", f"{hub.url}/readyz")
    assert out == '{"status":"alive"}{"status":"ready"}' and "Re-using existing connection" in told
    code, out, _ = curl("--head", f"{hub.url}/healthz")
    assert code == 0 and out.startswith("HTTP/1.1 200") and "Content-Length: 18" in out
    _, out, _ = curl("--http1.0", "-i", f"{hub.url}/healthz")
    assert "Connection: close" in out and out.endswith('{"status":"alive"}')


def test_curl_waits_for_continue_sends_chunks_and_is_told_what_is_too_long(hub):
    body = json.dumps({"channel": "room:curl", "payload": "x" * 20_000}).encode()
    for options in (["-H", "Expect: 100-continue"], ["-H", "Transfer-Encoding: chunked"], ["-H", "Transfer-Encoding: chunked", "-H", "Expect: 100-continue"]):
        code, out, told = curl("-v", *options, "--data-binary", "@-", f"{hub.url}/v1/publish", data=body)
        assert code == 0 and json.loads(out)["channel"] == "room:curl", (options, out, told)
        assert ("100 Continue" in told) == ("Expect: 100-continue" in options)
    for options in (["-H", "Expect: 100-continue"], ["-H", "Transfer-Encoding: chunked"], []):
        _, out, told = curl("-v", "-w", "%{http_code}", *options, "--data-binary", "@-", f"{hub.url}/v1/publish", data=b"x" * (1024 * 1024 + 1))
        assert out.endswith("413") and "tooLarge" in out, (options, out[-300:])
        assert "100 Continue" not in told or options[0:1] == ["-H"]


def test_options_tell_what_a_route_takes(hub):
    for path, allowed in (("/healthz", "GET, HEAD, OPTIONS"), ("/v1/publish", "POST, OPTIONS"), ("/v1/ws", "GET, OPTIONS"), ("/v1/presence/a", "GET, HEAD, OPTIONS")):
        code, fields, body = request(hub.url + path, "OPTIONS")
        assert (code, fields["Allow"], body) == (204, allowed, b"")
        code, fields, _ = request(hub.url + path, "PATCH")
        assert (code, fields["Allow"]) == (405, allowed)
    assert request(f"{hub.url}/nowhere", "OPTIONS")[0] == 404
    with Raw(hub, b"OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n") as raw:
        assert raw.response()[0] == 204


def test_a_page_may_use_the_api_from_a_listed_origin_only(guarded):
    asks = {"Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": "authorization,content-type"}
    code, fields, _ = request(f"{guarded.url}/v1/publish", "OPTIONS", headers={"Origin": PAGE, **asks})
    assert (code, fields["Access-Control-Allow-Origin"], fields["Vary"]) == (204, PAGE, "Origin")
    assert "POST" in fields["Access-Control-Allow-Methods"]
    assert {"authorization", "content-type", "idempotency-key"} <= {name.strip().lower() for name in fields["Access-Control-Allow-Headers"].split(",")}
    assert "Access-Control-Allow-Credentials" not in fields
    # Also errors are readable to the page, and answers that come later.
    for key, code in (("wrong", 401), ("test", 200)):
        answer = request(f"{guarded.url}/v1/nodes", key=key, headers={"Origin": PAGE})
        assert (answer[0], answer[1]["Access-Control-Allow-Origin"], answer[1]["Vary"]) == (code, PAGE, "Origin")
    for origin in ("https://evil.example", "http://app.example.com", f"{PAGE}:444", f"{PAGE}.evil.example", "null"):
        for method in ("OPTIONS", "GET"):
            code, fields, body = request(f"{guarded.url}/v1/nodes", method, key="test", headers={"Origin": origin, **asks})
            assert code == 403 and "Access-Control-Allow-Origin" not in fields and fields["Vary"] == "Origin" and body["error"]["code"] == "forbidden"
    code, fields, _ = request(f"{guarded.url}/v1/nodes", key="test")
    assert (code, fields["Vary"], fields["Access-Control-Allow-Origin"]) == (200, "Origin", None)


def test_limits_of_a_request_are_exact(hub):
    def status_of(data):
        with Raw(hub, data) as raw:
            return raw.response()[0]

    def head(size):
        start = b"GET /healthz HTTP/1.1\r\nHost: a\r\nX: "
        return start + b"x" * (size - len(start) - 4) + b"\r\n\r\n"

    assert (status_of(head(8192)), status_of(head(8193))) == (200, 431)

    def headers(count):
        return b"GET /healthz HTTP/1.1\r\nHost: a\r\n" + b"X: y\r\n" * (count - 1) + b"\r\n"

    assert (status_of(headers(64)), status_of(headers(65))) == (200, 431)
    limit = 1024 * 1024

    def body(count, head=b"Content-Length: %d\r\n\r\n%s"):
        return b"POST /v1/publish HTTP/1.1\r\nHost: a\r\n" + head % (count, b"x" * min(count, limit))

    chunked = b"Transfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n0\r\n\r\n"
    assert (status_of(body(limit)), status_of(body(limit + 1))) == (400, 413)
    assert (status_of(body(limit, chunked)), status_of(body(limit + 1, chunked))) == (400, 413)


@pytest.mark.parametrize("smuggled", [
    b"Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n5c\r\n",
    b"Content-Length: 4\r\nContent-Length: 5\r\n\r\nabcd",
    b"Content-Length: 4, 4\r\n\r\nabcd",
    b"Content-Length: +4\r\n\r\nabcd",
    b"Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n\r\n0\r\n\r\n",
    b"Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n",
    b"Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n",
    b"Transfer-Encoding:\x0bchunked\r\n\r\n0\r\n\r\n",
    b"X: a\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    b"Transfer-Encoding: chunked\r\n\r\n0x0\r\n\r\n",
    b"Transfer-Encoding: chunked\r\n\r\n1\r\nab\r\n0\r\n\r\n",
    b"Transfer-Encoding: chunked\r\n\r\n0\n\r\n",
])
def test_a_request_with_two_readings_is_refused_and_nothing_behind_it_is_taken(hub, smuggled):
    with Raw(hub, b"POST /v1/publish HTTP/1.1\r\nHost: a\r\n" + smuggled + b"GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n" * 2) as raw:
        code, head, _ = raw.response()
        assert code in (400, 501) and "Connection: close" in head
        assert raw.head() is None, "something behind it was answered"


def test_pipelined_requests_are_answered_in_order_bodies_and_all(hub):
    requests = b""
    for number in range(60):
        body = json.dumps({"channel": "room:pipeline", "messageId": f"p-{number}", "payload": number}).encode()
        framed = b"Content-Length: %d\r\n\r\n%s" % (len(body), body) if number % 2 else b"Transfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n0\r\n\r\n" % (len(body), body)
        requests += b"POST /v1/publish HTTP/1.1\r\nHost: a\r\n" + framed
    with Raw(hub, requests + b"HEAD /healthz HTTP/1.1\r\nHost: a\r\n\r\n") as raw:
        for number in range(60):
            code, _, body = raw.response()
            assert (code, json.loads(body)["messageId"]) == (200, f"p-{number}")
        code, head = raw.head()
        assert code == 200 and raw.held == b""


# The WebSocket's door


def handshake(*lines, start="GET /v1/ws?user=raw HTTP/1.1"):
    return "\r\n".join((start, *lines, "", "")).encode()


UPGRADE = ("Host: hub", "Upgrade: websocket", "Connection: Upgrade", "Sec-WebSocket-Version: 13", "Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==")


def changed(place, *lines):
    return handshake(*UPGRADE[:place], *lines, *UPGRADE[place + 1:])


@pytest.mark.parametrize("accepted", [
    handshake(*UPGRADE), handshake(*reversed(UPGRADE)), handshake(*(line.lower() if "Key" not in line else line for line in UPGRADE)),
    changed(2, "connection: upgrade"), changed(2, "Connection: keep-alive, Upgrade"), changed(2, "Connection: keep-alive", "Connection: upgrade"),
    changed(1, "UPGRADE: WebSocket"), changed(1, "Upgrade:websocket"), changed(1, "Upgrade:\t websocket \t"), changed(1, "Upgrade: h2c, websocket"),
])
def test_legal_forms_of_the_handshake_are_taken(hub, accepted):
    """B47"""
    with Raw(hub, accepted) as raw:
        assert raw.head()[0] == 101


@pytest.mark.parametrize(("refused", "code"), [
    (changed(2, "Connection: notupgrade"), 400), (changed(2), 400), (changed(1), 426), (changed(1, "Upgrade: websocketx"), 400),
    (changed(4), 400), (changed(4, "Sec-WebSocket-Key: short"), 400), (changed(4, UPGRADE[4], "Sec-WebSocket-Key: BBBBBBBBBBBBBBBBBBBBBA=="), 400),
    (changed(3, "Sec-WebSocket-Version: 8"), 426), (changed(3), 400), (handshake(*UPGRADE, start="GET /v1/ws?user=raw HTTP/1.0"), 400),
    (handshake(*UPGRADE, "Content-Length: 3") + b"abc", 400), (handshake(*UPGRADE, start="POST /v1/ws?user=raw HTTP/1.1"), 405),
])
def test_wrong_forms_of_the_handshake_are_refused_with_words(hub, refused, code):
    """B47"""
    with Raw(hub, refused) as raw:
        status_code, head, body = raw.response()
        assert status_code == code, head
        assert json.loads(body)["error"]["message"]
        assert code != 426 or "Sec-WebSocket-Version: 13" in head


def test_frames_in_the_same_segment_as_the_handshake_count(hub):
    """B37"""
    subscribe = text(type="subscribe", id=2, channel="room:glued")
    for cut in (1, len(subscribe) // 2, len(subscribe) - 1):
        with Raw(hub, opening() + text(type="ping", id=1) + subscribe[:cut]) as raw:
            assert raw.head()[0] == 101
            messages = raw.messages()
            # What comes before the welcome waits for it, in order.
            assert [next(messages)["type"], next(messages)["type"]] == ["system", "pong"]
            raw.send(subscribe[cut:])
            assert next(messages)["id"] == 2


@pytest.mark.parametrize(("length", "code"), [
    (b"\xff" + b"\xff" * 8, 1002), (b"\xff\x80" + b"\0" * 7, 1002), (b"\xff" + b"\xff" * 7 + b"\xfc", 1002), (b"\xff\x7f" + b"\xff" * 7, 1009),
    (b"\xff" + b"\0" * 7 + b"\x7d", 1002), (b"\xff" + b"\0" * 6 + b"\xff\xff", 1002), (b"\xfe\0\x7d", 1002), (b"\x7f\x7f" + b"\xff" * 7, 1002),
])
@pytest.mark.parametrize("behind", [b"", frame(0x01, b"a")])
def test_a_hostile_length_is_judged_from_the_header_alone(hub, length, code, behind):
    """B35"""
    with Raw(hub, opening("/v1/ws?user=hostile") + behind + bytes([0x80 if behind else 0x81]) + length) as raw:
        assert raw.head()[0] == 101
        assert raw.close_code() == code


def memory(process):
    with open(f"/proc/{process.process.pid}/statm") as file:
        return int(file.read().split()[1]) * resource.getpagesize()


def processor_time(process):
    with open(f"/proc/{process.process.pid}/stat") as file:
        fields = file.read().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@pytest.mark.parametrize("payload", [b"", b"x"])
def test_fragments_without_end_are_bounded(guarded, payload):
    """B39: before authentication."""
    before = memory(guarded)
    with Raw(guarded, opening("/v1/ws")) as raw:
        assert raw.head()[0] == 101
        try:
            raw.send(frame(0x01, b"{") + frame(0x00, payload) * 200_000)
        except OSError:
            pass
        assert raw.close_code() in (1008, 1009, None)
    assert memory(guarded) - before < 2 * 64 * 1024 + 4 * 1024 * 1024
    assert status(f"{guarded.url}/healthz") == 200


def test_a_flood_of_pings_is_closed_and_answered_by_the_latest_only(guarded):
    """B39"""
    with Raw(guarded, opening("/v1/ws")) as raw:
        assert raw.head()[0] == 101
        try:
            raw.send(b"".join(frame(0x89, str(number).encode()) for number in range(20_000)))
        except OSError:
            pass
        kinds = [first for first, _ in raw.frames()]
        assert kinds.count(0x8A) < 300
        assert not kinds or kinds[-1] == 0x88


# Deadlines


def test_each_phase_of_a_handshake_has_its_deadline_and_bytes_do_not_prolong_it(guarded):
    """B56: 40 of each kind, real clients meanwhile, and a stop on time."""
    kinds = {
        "nothing": b"", "a byte at a time": b"GET / HTTP/1.1\r\nX: ", "no body": b"POST /v1/publish HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\n",
        "idle": b"GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n", "upgraded": opening("/v1/ws"), "pings": opening("/v1/ws"), "half a frame": opening("/v1/ws") + b"\x81\xfe",
    }
    before = {phase: guarded.metric('hub_timeouts_total{phase="%s"}' % phase) for phase in ("request", "authentication")}
    began = time.monotonic()
    open_ones = [(kind, Raw(guarded, data)) for kind, data in kinds.items() for _ in range(40)]
    dripping = {raw for kind, raw in open_ones if kind in ("a byte at a time", "pings")}
    over = threading.Event()

    def drip():
        while not over.is_set():
            for kind, raw in open_ones:
                if raw in dripping:
                    try:
                        raw.send(b"x" if kind == "a byte at a time" else frame(0x89))
                    except OSError:
                        dripping.discard(raw)
            time.sleep(0.1)

    thread = threading.Thread(target=drip)
    thread.start()
    with Client(guarded, token=jwt.encode({"sub": "alice", "exp": int(time.time()) + 60}, KEY, "HS256")) as alice:
        alice.subscribe("room:meanwhile")
    codes = {kind: set() for kind in kinds}
    for kind, raw in open_ones:
        if kind in ("upgraded", "pings", "half a frame"):
            assert raw.head()[0] == 101
            codes[kind].add(raw.close_code())
        else:
            answer = raw.head()
            codes[kind].add(answer and answer[0])
            raw.wait_end()
    took = time.monotonic() - began
    over.set()
    thread.join()
    for _, raw in open_ones:
        raw.socket.close()
    assert codes == {"nothing": {None}, "a byte at a time": {408}, "no body": {408}, "idle": {200}, "upgraded": {4010}, "pings": {4010}, "half a frame": {4010}}
    assert took < 9, "each had well under a second"
    eventually(lambda: guarded.metric('hub_timeouts_total{phase="request"}') >= before["request"] + 120, what="the deadlines are counted")
    eventually(lambda: guarded.metric('hub_timeouts_total{phase="authentication"}') >= before["authentication"] + 120)


@pytest.fixture(scope="module")
def brisk(folder):
    """Pings after a second of silence, waits half a second for the answer."""
    with running(Hub(folder, settings={"ping": "1s", "deadlines.pong": "500ms", "deadlines.close": "500ms"})) as node:
        yield node


def test_the_pong_s_deadline_is_shorter_than_the_ping_s_interval():
    refused = run("hubd", "--dev", "--check", "--set", "ping=5s")
    assert refused.returncode == 2 and "deadlines.pong" in refused.stderr and "ping" in refused.stderr


def test_an_idle_connection_survives_a_proxy_that_cuts_silent_ones(brisk):
    """B45: both directions see a byte within each ping interval."""
    with Relay(brisk, idle_cut=1.8) as relay, Client(relay, "idle") as idle:
        # The client's library answers pings by itself.
        assert idle.gather(4.5) == [] and relay.cuts == 0
        idle.sync()


def test_half_open_peers_are_found_within_ping_and_pong(brisk):
    """B11, B45: the relay forgets; nobody sends a FIN."""
    before = brisk.metric('hub_timeouts_total{phase="pong"}')
    with Relay(brisk) as relay, Client(brisk, "watcher") as watcher:
        clients = [Client(relay, f"phone{number}") for number in range(20)]
        watcher.subscribe("room:half")
        clients[0].subscribe("room:half")
        relay.is_frozen = True
        began = time.monotonic()
        # Data under way to a dead peer is no sign of life.
        watcher.chat("room:half", "into the void")
        eventually(lambda: brisk.metric('hub_timeouts_total{phase="pong"}') >= before + 20, 8, "all 20 are found")
        assert time.monotonic() - began < 1 + 0.5 + 1.5
        assert brisk.metric("hub_sessions") == 1
        for client in clients:
            client.vanish()


def test_a_node_that_was_stopped_reads_before_it_judges(brisk):
    """B10: SIGSTOP for longer than ping and pong together, clients sending meanwhile."""
    with Client(brisk, "talker") as talker, Client(brisk, "listener") as listener:
        talker.subscribe("room:frozen")
        listener.subscribe("room:frozen")
        raw = welcomed(brisk, "pinged")
        # Its ping is out, and the answer will lie in the socket.
        assert next(first for first, _ in raw.frames()) == 0x89
        brisk.signal(signal.SIGSTOP)
        try:
            raw.send(frame(0x8A))
            for number in range(5):
                talker.send({"type": "chat", "channel": "room:frozen", "payload": number})
            time.sleep(2)
        finally:
            brisk.signal(signal.SIGCONT)
        for client in (talker, listener):
            assert [client.expect(type="chat")["payload"] for _ in range(5)] == list(range(5))
        raw.send(text(type="ping", id=7))
        assert next(raw.messages()) == {"type": "pong", "id": 7}
        raw.socket.close()


# Slow readers


def test_slow_readers_are_cut_off_with_4008_and_nobody_else_notices(hub):
    """B40, B41: bounded memory, the others without a gap, a counter that says so."""
    before_memory, cut_before = memory(hub), hub.metric("hub_slow_closed_total")
    slow = [welcomed(hub, f"slow{number}", buffer=4096, timeout=20) for number in range(6)]
    quick = [Client(hub, f"quick{number}") for number in range(4)]
    publisher = Client(hub, "publisher")
    for raw in slow:
        raw.send(text(type="subscribe", id=1, channel="room:slow"))
        assert next(raw.messages())["id"] == 1
    for client in quick:
        client.subscribe("room:slow")
    filler = "x" * 50_000
    peak, number, seen = 0, 0, [[] for _ in quick]
    while hub.metric("hub_slow_closed_total") < cut_before + len(slow):
        assert number < 2_000, "slow readers are kept"
        for _ in range(10):
            publisher.send({"type": "chat", "channel": "room:slow", "payload": f"{number} {filler}"})
            number += 1
        for place, client in enumerate(quick):
            while len(seen[place]) < number:
                seen[place].append(int(client.expect(type="chat")["payload"].split(" ")[0]))
        peak = max(peak, memory(hub))
    assert all(numbers == list(range(number)) for numbers in seen)
    # Queue and limit for each, and the kernel's buffers aren't ours.
    assert peak - before_memory < len(slow) * 2 * 256 * 1024 + 16 * 1024 * 1024
    for raw in slow:
        expected = 0
        for first, payload in raw.frames():
            if first == 0x88:
                assert int.from_bytes(payload[:2], "big") == 4008
                raw.send(frame(0x88, payload[:2]))
                break
            message = json.loads(payload)
            assert message["payload"].startswith(f"{expected} "), "a hole before the close"
            expected += 1
        else:
            raise AssertionError("no close frame came")
        raw.socket.close()
    assert hub.metric('hub_drops_total{class="closed"}') > 0
    eventually(lambda: hub.metric("hub_send_memory_bytes") == 0, what="the queues' memory is given back")
    for client in [*quick, publisher]:
        client.leave()


def test_a_slow_reader_loses_typing_first_and_is_told_how_much(hub):
    """B41: never a hole in chat; the client and the operator learn the same number."""
    before = hub.metric('hub_drops_total{class="typing"}')
    with welcomed(hub, "slow", buffer=4096, timeout=20) as raw, Client(hub, "writer") as writer:
        raw.send(text(type="subscribe", id=1, channel="room:shed"))
        assert next(raw.messages())["id"] == 1
        filler = "x" * 30_000
        chats = 0
        while hub.metric("hub_send_memory_bytes") < 100 * 1024:
            writer.chat("room:shed", f"{chats} {filler}")
            chats += 1
        typing = 200
        for number in range(typing):
            writer.send({"type": "typing", "channel": "room:shed", "payload": {"isTyping": True, "filler": filler[:10_000]}})
            if number % 40 == 0:
                writer.chat("room:shed", f"{chats} short")
                chats += 1
        writer.chat("room:shed", f"{chats} last")
        dropped, got_typing, got_chats = 0, 0, []
        for message in raw.messages():
            if message["type"] == "chat":
                got_chats.append(int(message["payload"]["text"].split(" ")[0]))
            elif message["type"] == "typing":
                got_typing += 1
            elif message.get("event") == "dropped":
                assert message["class"] == "typing"
                dropped += message["count"]
            if dropped and dropped + got_typing == typing and len(got_chats) == chats + 1:
                break
        assert got_chats == list(range(chats + 1))
        assert dropped > 50
        eventually(lambda: hub.metric('hub_drops_total{class="typing"}') == before + dropped, what="the counter agrees")


def test_read_positions_reach_a_slow_reader_conflated(hub):
    with welcomed(hub, "slow", buffer=4096, timeout=20) as raw, Client(hub, "writer") as writer, Client(hub, "reader") as reader:
        raw.send(text(type="subscribe", id=1, channel="room:reads"))
        assert next(raw.messages())["id"] == 1
        filler = "x" * 30_000
        while hub.metric("hub_send_memory_bytes") < 120 * 1024:
            writer.chat("room:reads", filler)
        last = 2_000
        for number in range(1, last + 1):
            reader.send({"type": "read", "channel": "room:reads", "payload": {"offset": number, "filler": filler[:1000]}})
        reader.sync()
        offsets = []
        for message in raw.messages():
            if message["type"] == "read":
                offsets.append(message["payload"]["offset"])
                if offsets[-1] >= last:
                    break
        assert offsets == sorted(offsets) and len(offsets) < last


def test_resets_during_a_broadcast_and_probes_that_hang_up_hurt_nobody(hub):
    """B70"""
    for _ in range(300):
        socket.create_connection(("127.0.0.1", hub.port)).close()
    with Client(hub, "publisher") as publisher, Client(hub, "listener") as listener:
        listener.subscribe("room:reset")
        raws = [welcomed(hub, f"gone{number}") for number in range(60)]
        for raw in raws:
            raw.send(text(type="subscribe", id=1, channel="room:reset"))
            assert next(raw.messages())["id"] == 1
        for number in range(60):
            publisher.send({"type": "chat", "channel": "room:reset", "payload": number})
            raws[number].reset()
        assert [listener.expect(type="chat")["payload"] for _ in range(60)] == list(range(60))
    assert hub.is_running


# Limits on who comes in


def test_out_of_descriptors_the_node_goes_on_and_says_so_once_a_second(start):
    """B58"""
    hub = start(Hub, prefix=["prlimit", "--nofile=128:128"])
    limit = hub.metric("hub_connections_limit")
    assert 32 <= limit <= 100 and '"node.connectionsLimited"' in hub.log
    with Client(hub, "member") as member:
        member.subscribe("room:full")
        crowd = [Raw(hub, opening(f"/v1/ws?user=crowd{number}")) for number in range(limit - 2)]
        assert all(raw.head()[0] == 101 for raw in crowd)
        late = []
        for number in range(200):
            try:
                late.append(Raw(hub, opening(f"/v1/ws?user=late{number}")))
            except OSError:
                pass
        answers = []
        for raw in late:
            try:
                answer = raw.head()
            except OSError:
                answer = None
            answers.append(answer and answer[0])
            raw.socket.close()
        assert answers.count(503) > 20 and answers.count(101) <= 2, answers
        used, began = processor_time(hub), time.monotonic()
        assert member.chat("room:full", "still served")["type"] == "ack"
        eventually(lambda: status(f"{hub.url}/healthz") == 200, what="the probes are answered although the node is full")
        # Below what the process was promised: the spare descriptor's day.
        resource.prlimit(hub.process.pid, resource.RLIMIT_NOFILE, (40, 128))
        for raw in crowd[-10:]:
            raw.socket.close()
        waiting = [Raw(hub, opening()) for _ in range(20)]
        eventually(lambda: member.chat("room:full", "and again") and "outOfDescriptors" in hub.log)
        time.sleep(0.5)
        assert processor_time(hub) - used < 0.25 * (time.monotonic() - began) + 0.1, "the loop spins"
        resource.prlimit(hub.process.pid, resource.RLIMIT_NOFILE, (128, 128))
        for raw in [*waiting, *crowd[:20]]:
            raw.socket.close()

        def comes_in():
            with Raw(hub, opening("/v1/ws?user=new")) as raw:
                answer = raw.head()
                return answer and answer[0] == 101

        eventually(comes_in, 3, "places that become free are taken")
        assert hub.metric("hub_accept_exhausted_total") > 0
        assert hub.log.count("connections.refused") <= 3 + (time.monotonic() - began)
        for raw in crowd:
            raw.socket.close()


def test_a_herd_is_let_in_at_its_pace_and_told_when_to_come_back(start):
    """B44: the rest gets 503 with a time, a page 1013; the probes and those who are in notice nothing."""
    hub = start(Hub, settings={"limits.acceptsPerSecond": 20})
    with Client(hub, "inside") as inside:
        inside.subscribe("room:herd")
        answers = [Raw(hub, opening(f"/v1/ws?user=herd{number}")).response() for number in range(60)]
        refused = [answer for answer in answers if answer[0] == 503]
        assert 15 <= len(answers) - len(refused) <= 40
        hints = [json.loads(body)["error"]["retryAfter"] for _, _, body in refused]
        assert all(json.loads(body)["error"]["code"] == "overloaded" for _, _, body in refused)
        assert all(1000 <= hint <= 60_000 for hint in hints) and len(set(hints)) > len(hints) // 2 and max(hints) > min(hints) + 500
        assert all(re.search(r"Retry-After: \d+", head) for _, head, _ in refused)
        assert status(f"{hub.url}/readyz") == 200
        assert inside.chat("room:herd", "calm")["type"] == "ack"
        with Raw(hub, opening("/v1/ws?user=page", more="Origin: http://localhost:3000\r\n")) as page:
            assert page.head()[0] == 101
            first, payload = next(page.frames())
            assert first == 0x88 and int.from_bytes(payload[:2], "big") == 1013 and re.match(rb"\d+ ", payload[2:])
    eventually(lambda: hub.metric("hub_turned_away_total") == len(refused) + 1, what="they are counted")


def test_one_address_may_hold_so_many_connections(start):
    hub = start(Hub, settings={"limits.connectionsPerAddress": 5})
    held = [Raw(hub, opening(f"/v1/ws?user=a{number}")) for number in range(5)]
    assert all(raw.head()[0] == 101 for raw in held)
    with Raw(hub) as sixth:
        assert sixth.head()[0] == 429
    held.pop().socket.close()

    def comes_in():
        with Raw(hub, opening("/v1/ws?user=again")) as raw:
            answer = raw.head()
            return answer and answer[0] == 101

    eventually(comes_in, what="a place that became free is taken")
    for raw in held:
        raw.socket.close()
    eventually(lambda: hub.metric("hub_connections_refused_by_address_total") >= 1)


def test_behind_a_trusted_proxy_each_client_counts_for_itself(start):
    hub = start(Hub, settings={"limits.connectionsPerAddress": 2, "proxy.trusted": "127.0.0.1"})

    def comes(client):
        raw = Raw(hub, opening(more=f"X-Forwarded-For: {client}\r\n"))
        return raw, raw.head()[0]

    came = [comes(client) for client in ("192.0.2.1", "192.0.2.1", "192.0.2.1", "192.0.2.2", "2001:db8::1", "2001:db8::2", "2001:db8::3")]
    assert [code for _, code in came] == [101, 101, 429, 101, 101, 101, 429]
    assert status(f"{hub.url}/healthz") == 200
    for raw, _ in came:
        raw.socket.close()


# Stopping


def test_sigterm_ends_on_time_whatever_sockets_are_left(start):
    """B56, B60: readiness goes first, everyone is told 1001, and what never answers doesn't hold the end up."""
    hub = start(Hub, settings={"deadlines.close": "500ms", "deadlines.head": "30s", "deadlines.shutdown": "8s"})
    clients = [Client(hub, f"user{number}") for number in range(30)]
    frozen = [welcomed(hub, f"frozen{number}") for number in range(5)]
    silent = [Raw(hub) for _ in range(5)]
    halves = [Raw(hub, b"GET / HTTP/1.1\r\nHo") for _ in range(5)]
    bodies = [Raw(hub, b"POST /v1/publish HTTP/1.1\r\nHost: a\r\nContent-Length: 100\r\n\r\nx") for _ in range(5)]
    status(f"{hub.url}/healthz")
    began = time.monotonic()
    hub.signal(signal.SIGTERM)
    for client in clients:
        assert client.expect_close()[0] == 1001
    assert hub.wait() == 0
    assert time.monotonic() - began < 6
    for raw in [*frozen, *silent, *halves, *bodies]:
        raw.socket.close()


def test_a_second_sigterm_ends_at_once(start):
    hub = start(Hub, settings={"deadlines.close": "20s", "deadlines.shutdown": "20s"})
    with welcomed(hub, "frozen"):
        hub.signal(signal.SIGTERM)
        hub.expect_log("node.stopping")
        time.sleep(0.2)
        assert hub.is_running
        began = time.monotonic()
        hub.signal(signal.SIGTERM)
        hub.wait()
        assert time.monotonic() - began < 3
