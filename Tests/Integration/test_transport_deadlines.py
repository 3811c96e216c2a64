"""Every phase of a connection ends on time, and nobody is judged unheard. B…: the field reports that these rules come from."""

import json
import signal
import threading
import time

import jwt
import pytest

from client import Client
from guarded import KEY, guarded_hub
from hub import Hub, eventually, run, running, status
from raw import Raw, frame, opening, text, welcomed
from relay import Relay


@pytest.fixture(scope="module")
def guarded(folder):
    with running(guarded_hub(folder, head="1500ms", authentication="1500ms", idle="1500ms", close="1s")) as node:
        yield node


def test_each_phase_of_a_handshake_has_its_deadline_and_bytes_do_not_prolong_it(guarded):
    """B56: 40 of each kind, real clients meanwhile, and a stop on time."""
    kinds = {
        "nothing": b"", "a byte at a time": b"GET / HTTP/1.1\r\nX: ", "no body": b"POST /v1/publish HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\n",
        "idle": b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n", "upgraded": opening("/v1/ws"), "pings": opening("/v1/ws"), "half a frame": opening("/v1/ws") + b"\x81\xfe",
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
    assert took < 60, "a byte now and then prolonged something"
    eventually(lambda: guarded.metric('hub_timeouts_total{phase="request"}') >= before["request"] + 120, what="the deadlines are counted")
    eventually(lambda: guarded.metric('hub_timeouts_total{phase="authentication"}') >= before["authentication"] + 120)


@pytest.fixture(scope="module")
def brisk(folder):
    """Pings after a second and a half of silence, waits 1.2 seconds for the answer."""
    with running(Hub(folder, settings={"ping": "1500ms", "deadlines.pong": "1200ms", "deadlines.close": "1s"})) as node:
        yield node


def test_the_pong_s_deadline_is_shorter_than_the_ping_s_interval():
    refused = run("hubd", "--dev", "--check", "--set", "ping=5s")
    assert refused.returncode == 2 and "deadlines.pong" in refused.stderr and "ping" in refused.stderr


def test_an_idle_connection_survives_a_proxy_that_cuts_silent_ones(brisk):
    """B45: both directions see a byte within each ping interval."""
    with Relay(brisk, idle_cut=4) as relay, Client(relay, "idle") as idle:
        # The client's library answers pings by itself.
        assert idle.gather(5.5) == [] and relay.cuts == 0
        idle.sync()


def test_half_open_peers_are_found_within_ping_and_pong(brisk):
    """B11, B45: the relay forgets; nobody sends a FIN."""
    before = brisk.metric('hub_timeouts_total{phase="pong"}')
    with Relay(brisk) as relay, Client(brisk, "watcher") as watcher:
        clients = [Client(relay, f"phone{number}") for number in range(20)]
        watcher.subscribe("room:half")
        clients[0].subscribe("room:half")
        relay.is_frozen = True
        # Data under way to a dead peer is no sign of life.
        watcher.chat("room:half", "into the void")
        eventually(lambda: brisk.metric('hub_timeouts_total{phase="pong"}') >= before + 20, 30, "all 20 are found, minutes before TCP would")
        eventually(lambda: brisk.metric("hub_sessions") == 1, what="the one who is there stays")
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
            time.sleep(3.5)
        finally:
            brisk.signal(signal.SIGCONT)
        for client in (talker, listener):
            assert [client.expect(type="chat")["payload"] for _ in range(5)] == list(range(5))
        raw.send(text(type="ping", id=7))
        assert next(raw.messages()) == {"type": "pong", "id": 7}
        raw.socket.close()


def test_sigterm_ends_on_time_whatever_sockets_are_left(start):
    """B56, B60: readiness goes first, everyone is told 1001, and what never answers doesn't hold the end up."""
    hub = start(Hub, settings={"deadlines.close": "500ms", "deadlines.head": "60s", "deadlines.shutdown": "30s"})
    clients = [Client(hub, f"user{number}") for number in range(30)]
    frozen = [welcomed(hub, f"frozen{number}") for number in range(5)]
    silent = [Raw(hub) for _ in range(5)]
    halves = [Raw(hub, b"GET / HTTP/1.1\r\nHo") for _ in range(5)]
    bodies = [Raw(hub, b"POST /v1/publish HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\nx") for _ in range(5)]
    status(f"{hub.url}/healthz")
    began = time.monotonic()
    hub.signal(signal.SIGTERM)
    for client in clients:
        assert client.expect_close()[0] == 1001
    assert hub.wait() == 0
    assert time.monotonic() - began < 20
    for raw in [*frozen, *silent, *halves, *bodies]:
        raw.socket.close()


def test_a_second_sigterm_ends_at_once(start):
    hub = start(Hub, settings={"deadlines.close": "60s", "deadlines.shutdown": "60s"})
    with welcomed(hub, "frozen"):
        hub.signal(signal.SIGTERM)
        hub.expect_log("node.stopping")
        time.sleep(0.2)
        assert hub.is_running
        began = time.monotonic()
        hub.signal(signal.SIGTERM)
        hub.wait()
        assert time.monotonic() - began < 30
