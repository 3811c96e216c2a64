"""Several publications of one connection are asked about at once (ask.ahead), and everything keeps its order (docs/ask.md)."""

import json
import random
import signal
import threading
import time

import pytest

from backend import SECRET as ASK_SECRET, Backend, Gate
from client import Client
from hub import Hub, eventually
from hub import request as ask_api
from sse import Stream
from test_ask import join, node
from tokens import SECRET, mint


@pytest.fixture
def backend():
    backend = Backend()
    yield backend
    backend.stop()
    assert not backend.refused, backend.refused


def said(client, count, seconds=60):
    """The next acks and errors."""
    return [client.expect(lambda message: message["type"] in ("ack", "error"), seconds=seconds) for _ in range(count)]


@pytest.mark.parametrize("subprotocol", ["hub.v1.json", "hub.v1.msgpack.short"])
@pytest.mark.parametrize("store", ["embedded", "redis"])
def test_what_is_answered_late_or_early_is_published_and_acknowledged_in_the_order_of_sending(start, request, backend, store, subprotocol):
    settings = {"redis": request.getfixturevalue("redis").url, "redis.prefix": f"ahead{subprotocol}"} if store == "redis" else {}
    hub = node(start, backend, "publish", **settings)
    waits = [0.3, 0.02, 0.15, 0, 0.08, 0.2]

    def answer(question):
        number = question["payload"]["number"]
        time.sleep(waits[number % len(waits)])
        return {"allow": number % 7 != 3, "reason": f"not {number}"}

    backend.answer = answer
    with join(hub, "alice", subprotocols=(subprotocol,)) as alice, join(hub, "bob") as bob:
        bob.request("subscribe", channels=["room:1", "other:1"])
        began = time.monotonic()
        for number in range(60):
            # Some in a channel about which nobody asks, behind those that wait.
            alice.send({"type": "chat", "id": number, "channel": "other:1" if number % 5 == 4 else "room:1", "payload": {"number": number}})
        answers = said(alice, 60)
        took = time.monotonic() - began
        assert [answer["id"] for answer in answers] == list(range(60))
        refused = [number for number in range(60) if number % 7 == 3 and number % 5 != 4]
        assert [answer["id"] for answer in answers if answer["type"] == "error"] == refused
        assert all(answer["message"] == f"not {answer['id']}" for answer in answers if answer["type"] == "error")
        heard = [bob.expect(type="chat", seconds=30)["payload"]["number"] for _ in range(60 - len(refused))]
        assert heard == [number for number in range(60) if number not in refused]
        assert 2 <= backend.most <= 8, backend.most
        # One after the other they'd have taken 48 times 125 ms.
        assert took < 4, took


def test_so_many_are_ahead_as_the_configuration_says_in_number_and_in_bytes(start, backend):
    for ahead, bytes, most in ((1, 10, 1), (3, 10, 3), (64, 30_000, 3)):
        hub = node(start, backend, "publish", name=f"ahead{ahead}", **{"ask.ahead": ahead, "ask.concurrency": 64})
        backend.most = 0
        backend.answer = lambda question: time.sleep(0.1) or {"allow": True}
        with join(hub, "alice") as alice:
            for number in range(10):
                alice.send({"type": "chat", "id": number, "channel": "room:1", "payload": {"filler": "x" * bytes}})
            assert [answer["id"] for answer in said(alice, 10)] == list(range(10))
        assert (backend.most == most) if bytes == 10 else (1 <= backend.most <= most), (ahead, bytes, backend.most)


def test_what_ends_meanwhile_is_not_published_whatever_is_answered(start, backend):
    hub = node(start, backend, "publish", **{"ask.deadline": "9s", "namespaces.room.history.size": 100})
    gate = Gate()
    backend.answer = gate
    with join(hub, "alice") as alice:
        for number in range(20):
            alice.send({"type": "chat", "id": number, "channel": "room:1", "payload": {"number": number}})
        eventually(lambda: len(backend.asked("publish")) == 8)
        alice.sync()
        assert ask_api(f"{hub.url}/v1/users/alice/disconnect", method="POST", body={}, key="boss")[0] == 200
        assert alice.expect_close()[0] == 4003
    gate.open()
    with join(hub, "bob") as bob:
        bob.chat("room:1", "mine")
        assert [entry["payload"] for entry in ask_api(f"{hub.url}/v1/channels/room:1/history", key="boss")[2]["publications"]] == [{"text": "mine"}]
    assert len(backend.asked("publish")) == 9


def test_a_backend_that_goes_away_in_the_middle_refuses_the_rest_in_order(start, backend):
    hub = node(start, backend, "publish", **{"ask.breaker.failures": 4, "ask.breaker.pause": "60s"})
    backend.answer = lambda question: {"allow": True} if question["payload"]["number"] < 5 else (500, {}, b"")
    with join(hub, "alice") as alice, join(hub, "bob") as bob:
        bob.subscribe("room:1")
        for number in range(60):
            alice.send({"type": "chat", "id": number, "channel": "room:1", "payload": {"number": number}})
        answers = said(alice, 60)
        assert [answer["id"] for answer in answers] == list(range(60))
        assert [answer["type"] for answer in answers] == ["ack"] * 5 + ["error"] * 55
        assert [bob.expect(type="chat")["payload"]["number"] for _ in range(5)] == list(range(5))
        # Everything is as it was: other channels, other kinds of requests.
        alice.chat("other:1", "x")
        alice.subscribe("room:2")


@pytest.mark.parametrize("seed", range(4))
def test_whatever_a_client_mixes_each_request_is_answered_once_and_publications_stay_in_order(start, redis, backend, seed):
    chance = random.Random(seed)
    hub = node(start, backend, "publish", "subscribe", redis=redis.url, **{
        "redis.prefix": f"mixed{seed}", "ask.ahead": chance.choice([1, 2, 8, 64]), "limits.messageBytes": "32KB"})

    def answer(question):
        time.sleep(chance.choice([0, 0, 0.01, 0.05]))
        return {"allow": chance.random() < 0.8, **({"ttl": 50} if chance.random() < 0.2 else {})}

    backend.answer = answer
    with join(hub, "alice") as alice, join(hub, "bob") as bob:
        bob.request("subscribe", channels=["other:1"])
        backend.answer = lambda question: {"allow": True}
        bob.request("subscribe", channels=["room:1"])
        backend.answer = answer
        kinds, heard, count = {}, [], 300

        def listen():
            while True:
                message = bob.expect(lambda message: message["type"] in ("chat", "event"), seconds=60)
                if message["type"] == "event":
                    return
                if message["type"] == "chat":
                    heard.append((message["channel"], message["payload"]["number"]))

        listener = threading.Thread(target=listen)
        listener.start()
        for number in range(count):
            kind = chance.choice(["chat"] * 6 + ["subscribe", "unsubscribe", "read", "typing", "history", "bad", "ping"])
            channel = chance.choice(["room:1", "room:1", "other:1"])
            kinds[number] = kind
            fields = {
                "chat": {"payload": {"number": number, "filler": "x" * chance.choice([0, 0, 0, 5_000, 20_000])}}, "read": {"payload": {"offset": 0}},
                "typing": {"payload": {"isTyping": True}}, "bad": {"messageId": "x" * 500, "payload": {}}}.get(kind, {})
            envelope = {"type": "chat" if kind == "bad" else kind, "id": number, "channel": channel, **fields}
            alice.send_raw(alice.pack(envelope if kind != "ping" else {"type": "ping", "id": number}))
        got = [alice.expect(lambda message: message.get("id") is not None, seconds=60) for _ in range(count)]
        assert sorted(answer["id"] for answer in got) == list(range(count))
        chats = [answer["id"] for answer in got if kinds[answer["id"]] == "chat"]
        assert chats == sorted(chats)
        with join(hub, "carol") as carol:
            carol.request("event", channel="other:1", payload={})
        listener.join(60)
        assert not listener.is_alive()
        for channel in ("room:1", "other:1"):
            numbers = [number for name, number in heard if name == channel]
            assert numbers == sorted(numbers)
        allowed = {answer["id"] for answer in got if kinds[answer["id"]] == "chat" and answer["type"] == "ack"}
        assert {number for _, number in heard} == allowed


def test_a_token_that_ends_while_many_wait_ends_them_all(start, backend):
    hub = node(start, backend, "publish", **{"ask.deadline": "9s"})
    gate = Gate()
    backend.answer = gate
    with Client(hub, token=mint("alice", seconds=3)) as alice:
        for number in range(20):
            alice.send({"type": "chat", "id": number, "channel": "room:1", "payload": {"number": number}})
        eventually(lambda: len(backend.asked("publish")) == 8)
        assert alice.expect_close()[0] == 4002
    gate.open()
    eventually(lambda: hub.metric('hub_ask_under_way{ask="publish"}') == 0)
    assert ask_api(f"{hub.url}/v1/channels/room:1/history", key="boss")[2]["publications"] == []


def test_those_who_go_while_many_wait_leave_nothing_behind(start, backend):
    hub = node(start, backend, "publish", **{"ask.deadline": "9s", "ask.concurrency": 64})
    backend.answer = lambda question: time.sleep(0.02) or {"allow": True}
    for _ in range(3):
        crowd = [join(hub, f"user{number}") for number in range(40)]
        for client in crowd:
            for number in range(30):
                client.send({"type": "chat", "id": number, "channel": "room:1", "payload": {"number": number}})
        for place, client in enumerate(crowd):
            client.vanish() if place % 2 else client.send({"type": "leave"})
        # Places in the loops' tables are used again: whoever comes next gets its own answers and no others.
        with join(hub, "next") as client:
            for number in range(20):
                client.send({"type": "chat", "id": f"mine-{number}", "channel": "room:2", "payload": {"number": number}})
            assert [answer["id"] for answer in said(client, 20)] == [f"mine-{number}" for number in range(20)]
            assert client.gather(0.1) == []
    eventually(lambda: hub.metric('hub_ask_under_way{ask="publish"}') == 0, 30)


def test_settings_that_change_while_many_wait_lose_nothing_and_change_no_order(start, backend, tmp_path):
    config = tmp_path / "hub.json5"

    def write(ask, room):
        config.write_text(json.dumps({"auth": {"keys": [{"alg": "HS256", "secret": SECRET}]}, "namespaces": {"*": {"rights": ["*"]}, "room": room}, "ask": ask}))

    asked = {"secret": ASK_SECRET, "publish": {"url": backend.url("publish")}, "ahead": 4}
    write(asked, {"ask": ["publish"]})
    hub = start(Hub, dev=False, config=config)
    for change in (({**asked, "ahead": 1}, {"ask": ["publish"]}), (asked, {}), ({}, {})):
        write(asked, {"ask": ["publish"]})
        hub.signal(signal.SIGHUP)
        backend.answer = lambda question: {"allow": True}
        with join(hub, "alice") as alice, join(hub, "bob") as bob:
            before = len(backend.questions)
            eventually(lambda: alice.request("chat", channel="room:1", payload={}) and len(backend.questions) > before)
            bob.subscribe("room:1")
            gate = Gate()
            backend.answer = gate
            before = len(backend.questions)
            for number in range(30):
                alice.send({"type": "chat", "id": 1000 + number, "channel": "room:1", "payload": {"number": number}})
            eventually(lambda: len(backend.questions) >= before + 1)
            write(*change)
            reloads = hub.log.count("configuration.reloaded")
            hub.signal(signal.SIGHUP)
            eventually(lambda: hub.log.count("configuration.reloaded") > reloads)
            gate.open()
            assert [answer["id"] for answer in said(alice, 30)] == [1000 + number for number in range(30)]
            assert [bob.expect(type="chat")["payload"]["number"] for _ in range(30)] == list(range(30))


def test_posts_of_a_stream_are_asked_about_ahead_as_well_in_order(start, backend):
    hub = node(start, backend, "publish")
    backend.answer = lambda question: time.sleep(0.05 if question["payload"]["number"] % 3 else 0) or {"allow": question["payload"]["number"] % 4 != 1}
    alice = Stream(hub, token=mint("alice"))
    for number in range(40):
        alice.send({"type": "chat", "id": number, "channel": "room:1", "payload": {"number": number}})
    answers = said(alice, 40)
    assert [answer["id"] for answer in answers] == list(range(40))
    assert [answer["id"] for answer in answers if answer["type"] == "error"] == list(range(1, 40, 4))
