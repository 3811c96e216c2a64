"""Deadlines, slow readers, limits and stopping, with raw sockets and real signals. B…: the field reports that these rules come from."""

import concurrent.futures
import json
import re
import resource
import signal
import socket
import threading
import time

import jwt
import pytest

from certificates import Certificate, secure_settings, trusting
from client import Client
from hub import Hub, eventually, free_port, request, run, running, status
from raw import frame, guarded, hub, KEY, memory, opening, processor_time, Raw, text, welcomed
from relay import Relay


# Deadlines


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
        # A node that stood still for so long may call itself degraded for a moment.
        assert next(message for message in raw.messages() if message["type"] != "system") == {"type": "pong", "id": 7}
        raw.socket.close()


# Slow readers


def test_slow_readers_are_cut_off_with_4008_and_nobody_else_notices(hub):
    """B40, B41: bounded memory, the others without a gap, a counter that says so."""
    before_memory, cut_before = memory(hub), hub.metric("hub_slow_closed_total")
    slow = [welcomed(hub, f"slow{number}", buffer=4096, timeout=60) for number in range(6)]
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
    eventually(lambda: hub.metric('hub_drops_total{class="closed"}') > 0)
    eventually(lambda: hub.metric("hub_send_memory_bytes") == 0, what="the queues' memory is given back")
    for client in [*quick, publisher]:
        client.leave()


def test_a_slow_reader_loses_typing_first_and_is_told_how_much(start):
    """B41: never a hole in chat; the client and the operator learn the same number."""
    # One writer types for many.
    hub = start(Hub, settings={"typing.throttle": "0s"})
    before = hub.metric('hub_drops_total{class="typing"}')
    with welcomed(hub, "slow", buffer=4096, timeout=60) as raw, Client(hub, "writer") as writer:
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
    last = 1_000
    with welcomed(hub, "slow", buffer=4096, timeout=60) as raw, Client(hub, "writer") as writer, Client(hub, "reader") as reader:
        for number in range(1, last + 1):
            writer.send({"type": "chat", "id": number, "channel": "room:reads", "payload": number})
        assert writer.expect(id=last)["offset"] == last
        raw.send(text(type="subscribe", id=1, channel="room:reads"))
        assert next(raw.messages())["id"] == 1
        filler = "x" * 30_000
        while hub.metric("hub_send_memory_bytes") < 120 * 1024:
            writer.send({"type": "chat", "channel": "room:reads", "payload": filler})
        for number in range(1, last + 1):
            reader.send({"type": "read", "channel": "room:reads", "payload": {"offset": number, "filler": filler[:1000]}})
        reader.sync()
        offsets = []
        for message in raw.messages():
            if message["type"] == "read":
                offsets.append(message["payload"]["offset"])
                if offsets[-1] >= last:
                    break
        assert offsets == sorted(offsets) and offsets[-1] == last and len(offsets) < last


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

        eventually(comes_in, 15, "places that become free are taken")
        eventually(lambda: hub.metric("hub_accept_exhausted_total") > 0)
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
        # A place is free every 50 ms: the page may get one, then it asks again.
        for number in range(100):
            with Raw(hub, opening(f"/v1/ws?user=page{number}", more="Origin: http://localhost:3000\r\n")) as page:
                assert page.head()[0] == 101
                first, payload = next(page.frames())
            if first == 0x88:
                break
        assert first == 0x88 and int.from_bytes(payload[:2], "big") == 1013 and re.match(rb"\d+ ", payload[2:])
    eventually(lambda: hub.metric("hub_turned_away_total") == len(refused) + 1, what="they are counted")


def test_a_herd_over_tls_waits_for_the_node_s_pace(start, tmp_path):
    """B44 over wss: the pace is asked before the handshake; who waits gets in, in the end, and isn't asked again behind it."""
    certificate = Certificate(tmp_path, "herd", "localhost")
    port = free_port()
    hub = start(Hub, settings=secure_settings(port, certificate, **{"limits.acceptsPerSecond": 10}))
    context = trusting(certificate)

    def come_in(number):
        with context.wrap_socket(socket.create_connection(("127.0.0.1", port), timeout=20), server_hostname="localhost") as link:
            link.sendall(opening(f"/v1/ws?user=herd{number}"))
            return link.recv(4096).split(b"\r\n")[0]

    with Client(hub, "inside") as inside:
        inside.subscribe("room:herd")
        began = time.monotonic()
        with concurrent.futures.ThreadPoolExecutor(25) as pool:
            answers = list(pool.map(come_in, range(25)))
        assert all(b" 101 " in answer for answer in answers), answers
        # Ten at once at most, ten a second then: never sooner, however fast the machine is.
        assert time.monotonic() - began >= 1.4
        assert inside.chat("room:herd", "calm")["type"] == "ack" and status(f"{hub.url}/readyz") == 200
    eventually(lambda: hub.metric("hub_tls_waited_total") >= 10 and hub.metric("hub_tls_handshakes_total") == 25)
    assert hub.metric("hub_tls_turned_away_total") == 0 and hub.metric("hub_turned_away_total") == 0


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

    def counted():
        # Until the closed ones are noticed, the scrape itself is one too many.
        return status(f"{hub.url}/metrics") == 200 and hub.metric("hub_connections_refused_by_address_total") >= 1

    eventually(counted, what="the refusals are counted")


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
