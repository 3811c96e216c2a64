"""Streams of events at their limits: readers that stop, peers that vanish, nodes that die, posts that land elsewhere."""

import ctypes
import json
import re
import signal
import socket
import struct
import time

import pytest

from client import Client, statuses
from hub import FAST, REPORTED, HAProxy, Hub, RedisServer, eventually, request, running
from raw import Raw
from sse import Stream, events


@pytest.fixture(scope="module")
def hub(folder):
    with running(Hub(folder, settings={**FAST, "ping": "1500ms", "deadlines.pong": "1s", "loops": "2"})) as node:
        yield node


@pytest.fixture(scope="module")
def nodes(folder, redis):
    one, two = (Hub(folder, name=name, redis=redis.url, settings=FAST, ready=False) for name in ("hub1", "hub2"))
    with running(one, two):
        yield one.wait_ready(), two.wait_ready()


@pytest.fixture(scope="module")
def front(folder, nodes):
    with running(HAProxy(folder, nodes)) as balancer:
        yield balancer


# Limits

def test_too_many_at_once_are_told_as_an_event(start):
    hub = start(Hub, settings={"limits.acceptsPerSecond": "1"})
    answers, ended = [], []
    while len(ended) < 3:
        assert len(answers) < 100
        answers.append(stream := Stream(hub, user=f"u{len(answers)}", welcome=None))
        eventually(lambda: not stream.waiting.empty())
        if stream.close_event:
            ended.append(stream)
    for one in ended:
        code, reason = one.expect_close()
        assert code == 1013 and one.retries == [int(reason.split()[0])] and one.retries[0] >= 1000
    assert len({one.retries[0] for one in ended}) == len(ended), "each comes back at another time"
    for _ in range(100):
        with Raw(hub, b"GET /v1/sse?user=x HTTP/1.1\r\nHost: 127.0.0.1\r\nAccept: */*\r\n\r\n") as plain:
            code, head = plain.head()
            if code != 200:
                break
    assert code == 503 and "\r\nRetry-After: " in head
    for answer in answers:
        answer.__exit__()


def test_a_full_node_says_so(start):
    hub = start(Hub, settings={"limits.connections": "3"})
    held = [open_raw(hub, f"user=u{number}") for number in range(3)]
    with Stream(hub, user="late", welcome=None) as late:
        assert late.expect_close()[0] == 1013 and late.retries == [5000]
    assert request(f"{hub.url}/v1/sse?user=late")[0] == 503
    for raw in held:
        raw.socket.close()


def test_what_follows_the_get_on_its_connection_is_not_served(hub):
    before = hub.metric("hub_streams")
    with Raw(hub, b"GET /v1/sse?user=alice&channel=room:pipe HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\nGET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n") as raw:
        code, head = raw.head()
        assert code == 200 and "Connection: close" in head
        raw.send(b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n" * 1000)
        with Client(hub, user="bob") as bob:
            bob.chat("room:pipe", "after them")
        while b"after them" not in raw.held:
            assert raw._fill()
        assert b"HTTP/1.1" not in raw.held and b"alive" not in raw.held
        eventually(lambda: hub.metric("hub_streams") == before + 1)
    eventually(lambda: hub.metric("hub_streams") == before)


def open_raw(server, query, **options):
    raw = Raw(server, f"GET /v1/sse?{query} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n".encode(), **options)
    assert raw.head()[0] == 200
    while b'"welcome"' not in raw.held:
        assert raw._fill()
    return raw


def test_a_reader_that_stops_is_bounded_and_told(start):
    """As for WebSockets: whole events, then the close."""
    hub = start(Hub, settings={"limits.outboundBytes": "256KB", "deadlines.close": "20s", "loops": "1"})
    closed = hub.metric("hub_slow_closed_total")
    with open_raw(hub, "user=slow&channel=room:slow", buffer=4096) as slow, Client(hub, user="fast") as fast:
        sent = 0
        while hub.metric("hub_slow_closed_total") == closed:
            for _ in range(20):
                fast.send({"type": "typing", "channel": "room:slow", "payload": {"isTyping": True}})
                fast.chat("room:slow", "x" * 20_000)
                sent += 1
            assert sent < 2000
            assert hub.metric("hub_send_memory_bytes") < 2 * 256 * 1024
        slow.wait_end()
    found = list(events(line + b"\n" for line in slow.held.split(b"\n")))
    name, data, _ = found[-1]
    assert (name, json.loads(data)["code"]) == ("close", 4008)
    offsets = [json.loads(data)["offset"] for name, data, _ in found if name == "message" and '"type":"chat"' in data]
    assert offsets == list(range(offsets[0], offsets[0] + len(offsets))) and offsets[-1] < sent, "no hole, and not all of it"


def test_a_reader_that_comes_back_in_time_loses_typing_only(start):
    hub = start(Hub, settings={"limits.outboundBytes": "1MB", "loops": "1", "limits.messageBytes": "32KB", "typing.throttle": "0s"})
    with open_raw(hub, "user=slow&channel=room:slow", buffer=4096) as slow, Client(hub, user="fast") as fast:
        while hub.metric('hub_drops_total{class="typing"}') == 0:
            for _ in range(20):
                fast.send({"type": "typing", "channel": "room:slow", "payload": {"isTyping": True, "more": "x" * 10_000}})
            fast.chat("room:slow", "kept")
        last = fast.chat("room:slow", "the last")["offset"]
        # Whole events: the last one may come in pieces.
        while b"dropped" not in (whole := slow.held.rpartition(b"\n\n")[0]) or b"the last" not in whole:
            assert slow._fill()
        found = list(events(line + b"\n" for line in whole.split(b"\n")))
        offsets = [json.loads(data)["offset"] for name, data, _ in found if name == "message" and '"type":"chat"' in data]
        assert offsets == list(range(1, last + 1))


# Liveness

def cut_off(connection):
    """As if the peer had lost its network: its kernel drops what comes, unacknowledged (SO_ATTACH_FILTER, a filter that takes nothing)."""
    program = ctypes.create_string_buffer(struct.pack("HBBI", 0x06, 0, 0, 0))
    connection.setsockopt(socket.SOL_SOCKET, 26, struct.pack("HL", 1, ctypes.addressof(program)))


def test_a_half_open_peer_is_found_within_ping_and_pong(hub):
    time.sleep(REPORTED)
    before = hub.metric('hub_timeouts_total{phase="pong"}')
    with Client(hub, user="watcher") as watcher:
        with open_raw(hub, "user=gone") as gone, open_raw(hub, "user=stays") as stays:
            watcher.request("watch", users=["gone", "stays"])
            time.sleep(3)
            assert hub.metric('hub_timeouts_total{phase="pong"}') == before, "who only listens isn't silent"
            cut_off(gone.socket)
            watcher.presence_of("gone", "offline")
            eventually(lambda: hub.metric('hub_timeouts_total{phase="pong"}') == before + 1)
            assert "offline" not in statuses(watcher.gather(0.2), "stays")
            while stays.held.count(b":\n\n") < 2:
                assert stays._fill()


def test_presence_comes_back_when_the_store_has_lost_it(start):
    redis = start(RedisServer)
    hub = start(Hub, redis=redis.url, settings={**FAST, "ping": "600ms", "deadlines.pong": "300ms"})

    def status():
        answer = request(f"{hub.url}/v1/presence/listens")
        return answer[0] == 200 and answer[2]["status"] == "online" and len(answer[2]["connections"]) == 1

    with open_raw(hub, "user=listens"):
        eventually(status)
        assert redis.command("FLUSHALL") == "+OK"
        eventually(status, what="who only listens has proved itself by acknowledgements")


# Several nodes

def test_posts_reach_the_stream_from_any_node_without_stickiness(front, nodes):
    forwarded = [node.metric("hub_stream_posts_forwarded_total") for node in nodes]
    with Stream(front, user="alice", channel="room:front") as alice, Stream(front, user="bob", channel="room:front") as bob:
        assert alice.welcome["node"] != bob.welcome["node"]
        for number in range(20):
            assert alice.post({"type": "chat", "payload": number})[0] == 202
            assert bob.post({"type": "typing", "payload": {"isTyping": True}})[0] == 202
        for stream in (alice, bob):
            assert [stream.expect(type="chat")["payload"] for _ in range(20)] == list(range(20))
        assert alice.expect(type="typing")["user"] == "bob"
        holders = [next(node for node in nodes if node.name == stream.welcome["node"]) for stream in (alice, bob)]
        for stream, holder in zip((alice, bob), holders):
            other = next(node for node in nodes if node is not holder)
            assert stream.post({"type": "ping", "id": "far"}, to=other)[0] == 202
            assert stream.expect(type="pong")["id"] == "far"
            assert stream.post({"type": "ping"}, to=other, key=stream.key[:-1] + ("0" if stream.key[-1] != "0" else "1"))[0] == 404
            eventually(lambda: holder.metric("hub_stream_posts_received_total") > 0)
        eventually(lambda: all(node.metric("hub_stream_posts_forwarded_total") > before for node, before in zip(nodes, forwarded)))
    # Leaving through another node than one's own.
    with Stream(nodes[0], user="carol", post_to=nodes[1]) as carol:
        carol.leave()
        assert carol.expect_close() == (1000, "")


def test_a_large_body_crosses_nodes_whole(nodes):
    with Stream(nodes[0], user="alice", channel="room:cross", post_to=nodes[1]) as alice:
        payload = "ä:\\u0000|" * 3000
        assert alice.post({"type": "chat", "payload": payload})[0] == 202
        assert alice.expect(type="chat")["payload"] == payload


def test_foreign_bytes_on_the_control_channel_are_counted_and_dropped(nodes, redis):
    with Stream(nodes[0], user="alice", post_to=nodes[1]) as alice:
        incarnation = alice.key.partition("-")[0]
        before = nodes[0].metric("hub_control_foreign_total")
        channel = next(name for name in channels(redis) if name.endswith(f"ctl:{incarnation}"))
        words = ["", "x", "P", "P:", "P:a:1", "Z:abc:1:what comes later", "A:abc:1:nonsense", "P:abc:99999999999999999:x:y:n:{}", "P:AB C:1:x:y:n:{}",
                 "x" * 70_000, "P:abc:1:" + "y" * 100 + ":z:n:{}"]
        for word in words:
            assert redis.command("PUBLISH", channel, word) == ":1"
        # A post that looks right but proves nothing, and an answer that nobody waits for.
        redis.command("PUBLISH", channel, f"P:abc:1:{alice.key.partition('.')[0]}:{'0' * 32}:n:" + '{"type":"leave"}')
        redis.command("PUBLISH", channel, "A:abc:1:taken")
        eventually(lambda: nodes[0].metric("hub_control_foreign_total") == before + len(words))
        alice.sync()


def channels(redis):
    with socket.create_connection(("127.0.0.1", redis.port), timeout=5) as link:
        link.sendall(b"*3\r\n$6\r\nPUBSUB\r\n$8\r\nCHANNELS\r\n$5\r\n*ctl*\r\n")
        time.sleep(0.3)
        return re.findall(r"hub:\{\d+\}:ctl:\w+", link.recv(65536).decode())


def test_a_killed_node_s_streams_are_unknown_and_a_standing_one_s_are_late(start):
    redis = start(RedisServer)
    one, two = (start(Hub, name=name, redis=redis.url, settings=FAST) for name in ("one", "two"))
    with Stream(one, user="alice", post_to=two) as alice:
        alice.sync()
        one.signal(signal.SIGSTOP)
        # Within the ten seconds that a request here may take.
        code, fields, body = alice.post({"type": "ping", "id": "late"})
        assert (code, body["error"]["code"], fields["Retry-After"]) == (503, "unavailable", "1")
        one.signal(signal.SIGCONT)
        assert alice.expect(type="pong")["id"] == "late"
        alice.sync()
        one.kill()
        # (Until Redis has noticed that the node's link is gone, somebody seems to hear it: late. The answer to the next try is sure.)
        answers = iter(lambda: alice.post({"type": "ping"}), None)
        code, _, body = next(answer for answer in (next(answers) for _ in range(5)) if answer[0] != 503)
        assert (code, body["error"]["code"]) == (404, "unknownStream")
        # Without the way to the others nothing leaves.
        redis.kill()
        eventually(lambda: request(f"{two.url}/readyz")[0] == 503)
        assert alice.post({"type": "ping"})[0] == 503
        # Who comes now is told when to come back, in a browser's own words.
        with Stream(two, user="bob", welcome=None) as bob:
            assert bob.expect_close()[0] == 1013 and bob.retries == [2000]
        assert request(f"{two.url}/v1/sse?user=bob")[0] == 503
