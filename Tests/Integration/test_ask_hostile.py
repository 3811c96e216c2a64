"""Backends that lie, hang, flap and pour (docs/ask.md, docs/field-faults.md): nobody is let through by accident, and nobody else notices."""

import contextlib
import gzip
import json
import pathlib
import re
import socket
import threading
import time

import pytest

from backend import SECRET as ASK_SECRET
from hub import eventually, request
from test_ask import join, node


class RawBackend:
    """Answers each request with `speak(socket, number)`; what it does to the socket is its own affair."""

    def __init__(self):
        self.speak = lambda link, number: link.sendall(say({"allow": True}))
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=128)
        self.port = self.listener.getsockname()[1]
        self.lock = threading.Lock()
        self.requests = 0
        self.poured = 0
        self.links = []
        threading.Thread(target=self.accept, daemon=True).start()

    def settings(self, *kinds, **more):
        return {"ask.secret": ASK_SECRET, **{f"ask.{kind}.url": f"http://127.0.0.1:{self.port}/{kind}?key=secret-path" for kind in kinds}, **more}

    def accept(self):
        with contextlib.suppress(OSError):
            while True:
                link, _ = self.listener.accept()
                self.links.append(link)
                threading.Thread(target=self.serve, args=(link,), daemon=True).start()

    def serve(self, link):
        with contextlib.suppress(OSError):
            data = b""
            while True:
                while b"\r\n\r\n" not in data:
                    part = link.recv(65536)
                    if not part:
                        return
                    data += part
                head, _, rest = data.partition(b"\r\n\r\n")
                length = int(re.search(rb"(?i)content-length: *(\d+)", head).group(1))
                while len(rest) < length:
                    rest += link.recv(65536)
                data = rest[length:]
                with self.lock:
                    self.requests += 1
                    number = self.requests
                if self.speak(link, number) == "close":
                    link.shutdown(socket.SHUT_RDWR)
                    link.close()
                    return

    def pour(self, link, head, piece, seconds=20):
        """Sends without end; how much it got rid of is in `poured`."""
        link.sendall(head)
        until = time.monotonic() + seconds
        with contextlib.suppress(OSError):
            while time.monotonic() < until:
                link.sendall(piece)
                with self.lock:
                    self.poured += len(piece)
        return "close"

    def stop(self):
        # Closing alone leaves one who waits in accept.
        with contextlib.suppress(OSError):
            self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()
        for link in self.links:
            with contextlib.suppress(OSError):
                link.shutdown(socket.SHUT_RDWR)
                link.close()


def say(answer, *headers, status="200 OK", length=None):
    body = answer if isinstance(answer, bytes) else json.dumps(answer).encode()
    lines = [f"HTTP/1.1 {status}", "Content-Type: application/json", *headers]
    if not any(line.lower().startswith(("content-length", "transfer-encoding")) for line in headers):
        lines.append(f"Content-Length: {len(body) if length is None else length}")
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


@pytest.fixture
def backend():
    backend = RawBackend()
    yield backend
    backend.stop()


def send(data, end=None):
    def speak(link, number):
        link.sendall(data)
        return end
    return speak


YES = b'{"allow":true}'
LIES = {
    "a length that is more than comes, then the end": send(say(YES, length=500), "close"),
    "a length that is more than comes, then silence": send(say(YES, length=500)),
    "a length below zero": send(say(YES, "Content-Length: -1"), "close"),
    "a length that no number holds": send(say(YES, "Content-Length: 99999999999999999999999"), "close"),
    "a length that is no number": send(say(YES, "Content-Length: 0x0e"), "close"),
    "two lengths": send(say(YES, "Content-Length: 14", "Content-Length: 3"), "close"),
    "a length that cuts the answer": send(say(YES, length=9), "close"),
    "half a head": send(b"HTTP/1.1 200 OK\r\nContent-Type: appl", "close"),
    "the end at once": lambda link, number: "close",
    "another protocol": send(b"SSH-2.0-OpenSSH_9.2\r\n", "close"),
    "a body without a head": send(YES, "close"),
    "a status that is none": send(say(YES, status="2000 OK"), "close"),
    "chunks with a bad size": send(say(b"zz\r\n" + YES + b"\r\n0\r\n\r\n", "Transfer-Encoding: chunked"), "close"),
    "chunks that don't end": send(say(b"e\r\n" + YES + b"\r\n", "Transfer-Encoding: chunked")),
    "a chunk of all the memory there is": send(say(b"7fffffffffffffff\r\n" + YES, "Transfer-Encoding: chunked"), "close"),
    "compressed": send(say(gzip.compress(YES), "Content-Encoding: gzip")),
    "a bomb": send(say(gzip.compress(b'{"allow":true,"x":"' + b"a" * 30_000_000 + b'"}'), "Content-Encoding: gzip")),
    "no type": send(b"HTTP/1.1 200 OK\r\nContent-Length: 14\r\n\r\n" + YES),
    "another type": send(b"HTTP/1.1 200 OK\r\nContent-Type: application/jsonp\r\nContent-Length: 14\r\n\r\n" + YES),
    "no content": send(b"HTTP/1.1 204 No Content\r\nContent-Type: application/json\r\n\r\n"),
    "created": send(say(YES, status="201 Created")),
    **{f"redirect {status}": send(say(YES, "Location: /publish?key=secret-path", status=f"{status} Elsewhere")) for status in (301, 302, 303, 307, 308)},
    "a challenge": send(say(YES, "WWW-Authenticate: Negotiate", status="401 Unauthorized")),
}


@pytest.mark.parametrize("name", LIES)
def test_a_backend_that_lies_lets_nobody_through(start, backend, name):
    hub = node(start, backend, "publish", **{"ask.deadline": "700ms"})
    backend.speak = LIES[name]
    with join(hub, "alice") as alice, join(hub, "bob") as bob:
        bob.subscribe("room:1")
        got = alice.try_request("chat", channel="room:1", payload={})
        assert got["type"] == "error" and got["code"] == "unavailable", got
        # Asked once: nothing is followed, nothing is sent again.
        assert backend.requests == 1
        assert bob.gather(0.1) == []
        backend.speak = send(say(YES))
        assert alice.try_request("chat", channel="room:1", payload={})["type"] == "ack"
    assert "secret-path" not in hub.log and ASK_SECRET not in hub.log


def test_what_stands_behind_an_answer_is_no_answer_to_the_next_question(start, backend):
    hub = node(start, backend, "publish")
    with join(hub, "alice") as alice:
        for _ in range(10):
            backend.speak = send(say({"allow": False}) + say(YES))
            assert alice.try_request("chat", channel="room:1", payload={})["code"] == "forbidden"
            backend.speak = send(say({"allow": False}))
            assert alice.try_request("chat", channel="room:1", payload={})["code"] == "forbidden"


ODD = [
    b"", b"[]", b"1", b'"allow"', b"null", b"true", b"{}", b'{"allow":1}', b'{"allow":"true"}', b'{"allow":null}', b'{"allow":[true]}', b'{"Allow":true}',
    b'{"allow":true', b'{"allow":true}}', b'{"allow":true} x', b'\xef\xbb\xbf{"allow":true}', '{"allow":true}'.encode("utf-16"), b'{"allow":true}\x00',
    b"{'allow':true}", b'{"allow":true,}', b'{"allow":true,"allow":false}', b'{"allow":false,"allow":true}', b'{"\\u0061llow":false,"allow":true}',
    b'{"allow":tRue}', b'{"allow":true,"ttl":-1}', b'{"allow":true,"ttl":1e400}', b'{"allow":true,"ttl":"5"}', b'{"allow":true,"ttl":1.5}', b'{"allow":true,"ttl":NaN}',
    b'{"allow":true,"payload":}', b'{"allow":true,"payload":' + b"[" * 5000 + b"]" * 5000 + b"}", b'{"allow":true,"x":"\xff\xfe"}',
    b'{"allow":true,"payload":"' + b"x" * 70_000 + b'"}', b"[" * 60_000, b'{"a":' * 10_000,
]
# What has no meaning in an answer to one kind of question is wrong in that to another.
ODD_OF_CONNECT = [b'{"allow":true,"user":"root"}', b'{"allow":true,"caps":{"*":["*"]}}', b'{"allow":true,"channels":["a"]}', b'{"allow":true,"expires":1}', b'{"allow":true,"expires":"1"}']


@pytest.mark.parametrize("kind", ["publish", "subscribe", "connect"])
def test_an_answer_of_the_wrong_kind_allows_nothing_and_the_node_lives(start, backend, kind):
    hub = node(start, backend, kind, **{"limits.messageBytes": "64KB"})
    backend.speak = send(say(YES))
    with join(hub, "bob") as bob:
        for body in ODD + (ODD_OF_CONNECT if kind == "connect" else []):
            if b'"payload":' in body and kind != "publish":
                continue
            backend.speak = send(say(body))
            if kind == "connect":
                code, reason = join(hub, "alice", welcome=False).expect_close()
                assert code in (1013, 4002, 4003), (body[:60], code, reason)
            elif kind == "subscribe":
                assert bob.try_request("subscribe", channel="room:1")["type"] == "error", body[:60]
            else:
                assert bob.try_request("chat", channel="room:1", payload={})["type"] == "error", body[:60]
        bob.sync()
    assert hub.is_running


def memory(hub):
    """Of a process, in MB."""
    return int(re.search(r"VmRSS:\s+(\d+)", pathlib.Path(f"/proc/{hub.process.pid}/status").read_text()).group(1)) / 1024


@pytest.mark.parametrize("head, piece", [
    (b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n", b" " * 1_000_000),
    (b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 1000000000\r\n\r\n", b" " * 1_000_000),
    (b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n", b"10000\r\n" + b" " * 65536 + b"\r\n"),
    (b"HTTP/1.1 500 No\r\nContent-Type: application/json\r\n\r\n", b" " * 1_000_000),
    (b"HTTP/1.1 302 Elsewhere\r\nLocation: /x\r\n\r\n", b" " * 1_000_000),
    (b"HTTP/1.1 200 OK\r\n", b"X-Header: " + b"x" * 10_000 + b"\r\n"),
    (b"HTTP/1.1 200 OK\r\n", b"x" * 1_000_000),
    (b"", b"HTTP/1.1 100 Continue\r\n\r\n" * 1000),
    (b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n1;", b"x" * 1_000_000),
    (b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n", b"X-Trailer: " + b"x" * 10_000 + b"\r\n"),
], ids=["no length", "a length", "chunks", "status 500", "redirect", "headers", "one header", "continue", "chunk extension", "trailers"])
def test_an_answer_without_end_is_cut_at_its_limit_and_takes_no_memory(start, backend, head, piece):
    hub = node(start, backend, "publish", **{"ask.deadline": "1500ms"})
    with join(hub, "alice") as alice, join(hub, "bob") as bob:
        alice.chat("room:1", "first")
        before = memory(hub)
        backend.speak = lambda link, number: backend.pour(link, head, piece)
        clients = [join(hub, f"user{number}") for number in range(8)]
        for client in clients:
            client.send({"type": "chat", "id": 1, "channel": "room:1", "payload": {}})
        bob.sync()
        for client in clients:
            assert client.expect(id=1, seconds=20)["code"] == "unavailable"
            client.leave()
        assert memory(hub) - before < 60, (before, memory(hub))
        backend.speak = send(say(YES))
        eventually(lambda: alice.try_request("chat", channel="room:1", payload={})["type"] == "ack", 20)


def test_a_slow_backend_holds_up_nobody_but_who_asks_and_ends_at_the_deadline(start, backend):
    hub = node(start, backend, "publish", **{"ask.deadline": "3s"})

    def drip(link, number):
        for byte in say(YES):
            link.sendall(bytes([byte]))
            time.sleep(0.05)

    backend.speak = drip
    with join(hub, "alice") as alice, join(hub, "bob") as bob:
        bob.subscribe("other:1")
        began = time.monotonic()
        alice.send({"type": "chat", "id": 1, "channel": "room:1", "payload": {}})
        for number in range(20):
            bob.chat("other:1", number)
            bob.sync()
        assert time.monotonic() - began < 2.9
        assert alice.expect(id=1)["code"] == "unavailable"
        assert 2.9 < time.monotonic() - began < 10
    eventually(lambda: hub.metric('hub_ask_failures_total{ask="publish",reason="timeout"}') == 1)
    eventually(lambda: hub.metric('hub_ask_request_milliseconds_total{ask="publish"}') >= 900)


def test_a_backend_that_is_away_or_flaps_is_seen_on_every_node_and_left_alone_for_longer_each_time(start, redis, backend):
    hubs = [
        node(start, backend, "publish", "connect", name=name, redis=redis.url, **{
            "redis.prefix": "flap", "ask.breaker.failures": 3, "ask.breaker.pause": "700ms", "ask.breaker.window": "60s"})
        for name in ("one", "two")]

    def told(hub, name):
        return next(entry for entry in request(f"{hub.url}/v1/nodes", key="boss")[2]["nodes"] if entry["node"] == name)

    with join(hubs[0], "alice") as alice:
        assert all("notAsked" not in told(hub, name) for hub in hubs for name in ("one", "two"))
        backend.speak = lambda link, number: "close"
        for _ in range(3):
            assert alice.try_request("chat", channel="room:1", payload={})["code"] == "unavailable"
        # At once on its own node, with its next announcement on the others; what it can ask goes on.
        assert told(hubs[0], "one")["notAsked"] == ["publish"]
        eventually(lambda: told(hubs[1], "one").get("notAsked") == ["publish"], 20)
        assert "notAsked" not in told(hubs[1], "two") and "notAsked" not in told(hubs[0], "two")
        shown = request(f"{hubs[0].url}/v1/nodes", key="boss")[2]
        assert {entry["node"] for entry in shown["nodes"]} == {"one", "two"}
        # Each probe that fails doubles the pause.
        for opened in (2, 3):
            eventually(lambda: alice.try_request("chat", channel="room:1", payload={}) and hubs[0].metric(
                'hub_ask_breaker_openings_total{ask="publish"}') == opened, 20)
        assert 1400 < hubs[0].metric('hub_ask_breaker_pause_milliseconds{ask="publish"}') <= 2800
        asked = backend.requests
        for _ in range(20):
            assert alice.try_request("chat", channel="room:1", payload={})["code"] == "unavailable"
        assert backend.requests == asked
        eventually(lambda: hubs[0].metric('hub_ask_failures_total{ask="publish",reason="spared"}') >= 20)
        backend.speak = send(say(YES))
        eventually(lambda: alice.try_request("chat", channel="room:1", payload={})["type"] == "ack", 20)
        assert "notAsked" not in told(hubs[0], "one")
        eventually(lambda: "notAsked" not in told(hubs[1], "one"), 20)
        eventually(lambda: hubs[0].metric('hub_ask_breaker_pause_milliseconds{ask="publish"}') == 0)
    # Nobody listens at all.
    backend.stop()
    code, reason = join(hubs[1], "late", welcome=False).expect_close()
    assert code == 1013, reason
