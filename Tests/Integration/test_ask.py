"""Asking the backend (docs/ask.md): who comes in, subscribes and publishes, and what counts while it doesn't answer."""

import hashlib
import json
import signal
import threading
import time

import pytest

from backend import SECRET as ASK_SECRET, Backend, Gate
from client import Client
from faultclock import Clock
from hub import Hub, eventually, request
from tokens import SECRET, mint

KEYS = {
    "auth.keys": '[{"alg":"HS256","secret":"%s"}]' % SECRET,
    "api.keys": json.dumps([{"id": "boss", "digest": hashlib.sha256(b"boss").hexdigest(), "scopes": ["admin"]}]), "namespaces.*.rights": "*",
}
LIVELY = {"ask.breaker.failures": 1000}


@pytest.fixture
def backend():
    backend = Backend()
    yield backend
    backend.stop()
    assert not backend.refused, backend.refused


def node(start, backend, *kinds, name="hub", **settings):
    """A hub that asks about these, publications and subscriptions in `room` only."""
    asks = [kind for kind in kinds if kind != "connect"]
    if asks:
        settings = {"namespaces.room.ask": ",".join(asks), **settings}
    hub = start(Hub, name=name, dev=False, redis=settings.pop("redis", None), settings={**KEYS, **backend.settings(*kinds), **LIVELY, **settings})
    hub.api_key = "boss"
    return hub


def join(hub, user, **options):
    return Client(hub, token=mint(user), **options)


# Publications


def test_a_publication_is_asked_about_allowed_refused_or_replaced_on_two_nodes(start, redis, backend):
    hubs = [node(start, backend, "publish", name=name, redis=redis.url, **{"redis.prefix": "askpublish"}) for name in ("one", "two")]
    with join(hubs[0], "alice", device="phone") as alice, join(hubs[1], "bob") as bob:
        bob.subscribe("room:1")
        backend.answer = lambda question: {"allow": True, "later": ["unknown"]}
        alice.request("chat", channel="room:1", payload={"text": "hello"}, messageId="m1")
        assert bob.expect(type="chat")["payload"] == {"text": "hello"}
        assert backend.questions == [{
            "ask": "publish", "user": "alice", "device": "phone", "channel": "room:1", "type": "chat", "messageId": "m1",
            "payload": {"text": "hello"}}]
        assert backend.headers[0]["Content-Type"] == "application/json"
        backend.answer = lambda question: {"allow": False, "code": "malformed", "reason": "no links here"}
        refusal = alice.try_request("event", channel="room:1", payload="http://…")
        assert (refusal["code"], refusal["message"]) == ("malformed", "no links here")
        backend.answer = lambda question: {"allow": False, "code": "rateLimited", "retryAfter": 4321}
        refusal = alice.try_request("chat", channel="room:1", payload={})
        assert (refusal["code"], refusal["retryAfter"]) == ("rateLimited", 4321)
        backend.answer = lambda question: {"allow": True, "payload": {"text": question["payload"]["text"].upper()}}
        alice.chat("room:1", "quiet")
        assert bob.expect(type="chat")["payload"] == {"text": "QUIET"}
        # Nobody asks about what isn't a chat or an event, or about other namespaces.
        asked = len(backend.questions)
        alice.request("typing", channel="room:1", payload={"isTyping": True})
        alice.chat("other:1", "x")
        assert len(backend.questions) == asked
        eventually(lambda: hubs[0].metric('hub_asks_total{ask="publish",outcome="denied"}') == 2)


def test_rights_come_first_and_nobody_asks_about_what_they_forbid(start, backend):
    hub = node(start, backend, "publish", "subscribe", **{"namespaces.room.rights": "subscribe"})
    with join(hub, "alice") as alice:
        assert alice.try_request("chat", channel="room:1", payload={})["code"] == "forbidden"
        assert alice.try_request("subscribe", channel="user:bob")["code"] == "forbidden"
        assert backend.questions == []


@pytest.mark.parametrize("subprotocol", ["hub.v1.json", "hub.v1.msgpack", "hub.v1.msgpack.short"])
def test_acks_and_publications_keep_their_order_while_one_waits_and_others_are_untouched(start, backend, subprotocol):
    hub = node(start, backend, "publish")
    gate = Gate()
    backend.answer = lambda question: gate(question) if question["payload"].get("text") == "waits" else {"allow": True}
    with join(hub, "alice", subprotocols=(subprotocol,)) as alice, join(hub, "bob") as bob, join(hub, "carol") as carol:
        carol.request("subscribe", channels=["room:1", "other:1"])
        for number, (channel, text) in enumerate([("other:1", "a"), ("room:1", "waits"), ("room:1", "b"), ("other:1", "c")]):
            alice.send({"type": "chat", "id": number, "channel": channel, "payload": {"text": text}})
        alice.send({"type": "subscribe", "id": 4, "channel": "other:1"})
        assert alice.expect(type="ack")["id"] == 0
        # Both are asked about at once (ask.ahead); what comes of it keeps the order.
        eventually(lambda: len(backend.asked("publish")) == 2)
        # It lives, and so does everybody else.
        alice.sync()
        bob.chat("room:1", "from bob")
        assert [carol.expect(type="chat")["payload"]["text"] for _ in range(2)] == ["a", "from bob"]
        assert alice.gather(0.3) == []
        gate.open()
        assert [alice.expect(type="ack")["id"] for _ in range(4)] == [1, 2, 3, 4]
        assert [carol.expect(type="chat")["payload"]["text"] for _ in range(3)] == ["waits", "b", "c"]


def test_a_refusal_doesn_t_overtake_earlier_acks(start, redis, backend):
    hub = node(start, backend, "publish", redis=redis.url, **{"redis.prefix": "askorder"})
    backend.answer = lambda question: {"allow": False}
    with join(hub, "alice") as alice:
        for round in range(30):
            alice.send({"type": "chat", "id": "a", "channel": "other:1", "payload": {}})
            alice.send({"type": "chat", "id": "b", "channel": "room:1", "payload": {}})
            alice.send({"type": "chat", "id": "c", "channel": "other:1", "payload": {}})
            answers = [alice.expect(lambda message: message["type"] in ("ack", "error")) for _ in range(3)]
            assert [(answer["id"], answer["type"]) for answer in answers] == [("a", "ack"), ("b", "error"), ("c", "ack")]


def test_much_behind_one_that_waits_is_held_back_in_the_kernel_and_nothing_of_it_is_lost(start, backend):
    hub = node(start, backend, "publish", **{"limits.outboundBytes": "100KB", "limits.messageBytes": "16KB"})
    gate = Gate()
    backend.answer = lambda question: gate(question) if question["payload"].get("text") == "waits" else {"allow": True, "ttl": 60000}
    with join(hub, "alice") as alice, join(hub, "bob") as bob:
        bob.subscribe("other:1")
        alice.send({"type": "chat", "channel": "room:1", "payload": {"text": "waits"}})
        eventually(lambda: backend.asked("publish"))

        def pour():
            for number in range(200):
                alice.send({"type": "event", "channel": "other:1", "payload": {"number": number, "filler": "x" * 10_000}})

        pouring = threading.Thread(target=pour)
        pouring.start()
        before = hub.metric("hub_messages_received_total")
        bob.sync()
        eventually(lambda: hub.metric("hub_messages_received_total") - before > 3)
        time.sleep(0.5)
        # 2 MB came; some 64 KB were read.
        assert hub.metric("hub_messages_received_total") - before < 40
        gate.open()
        numbers = [bob.expect(type="event", seconds=60)["payload"]["number"] for _ in range(200)]
        assert numbers == list(range(200))
        pouring.join()


def test_a_kept_answer_holds_for_all_publications_of_one_user_and_channel_and_not_for_others(start, backend):
    hub = node(start, backend, "publish")
    backend.answer = lambda question: {"allow": True, "ttl": 60000}
    with join(hub, "alice", device="phone") as alice, join(hub, "bob") as bob:
        for number in range(5):
            alice.chat("room:1", number)
        assert len(backend.questions) == 1
        alice.chat("room:2", 1)
        bob.chat("room:1", 1)
        assert len(backend.questions) == 3
        # Somebody is shut out: everybody is asked about again.
        assert request(f"{hub.url}/v1/users/carol/disconnect", method="POST", body={}, key="boss")[0] == 200
        eventually(lambda: hub.metric('hub_ask_kept{ask="publish"}') == 0)
        alice.chat("room:1", 6)
        assert len(backend.questions) == 4
        backend.answer = lambda question: {"allow": True}
        bob.chat("room:3", 1)
        bob.chat("room:3", 1)
        assert len(backend.questions) == 6


# Subscriptions


def test_subscriptions_are_asked_about_one_by_one_inboxes_and_what_tokens_name_are_not(start, backend):
    hub = node(start, backend, "subscribe", **{"namespaces.*.ask": "subscribe"})
    backend.answer = lambda question: {"allow": question["channel"] in ("room:1", "lobby"), "reason": "members only"}
    with Client(hub, token=mint("alice", channels=["news"]), channel="lobby") as alice:
        assert {name: "position" in result for name, result in alice.welcome["channels"].items()} == {"user:alice": True, "news": True, "lobby": True}
        assert [question["channel"] for question in backend.questions] == ["lobby"]
        results = alice.request("subscribe", channels=["room:1", "room:2"])["channels"]
        assert "position" in results[0] and results[1]["code"] == "forbidden" and results[1]["message"] == "members only"
        assert alice.try_request("subscribe", channel="room:3")["message"] == "members only"
        with join(hub, "bob") as bob:
            bob.chat("room:2", "not heard")
            bob.chat("room:1", "heard")
        assert alice.expect(type="chat")["payload"]["text"] == "heard"
    with Client(hub, token=mint("carol"), channel="room:2") as carol:
        assert carol.welcome["channels"]["room:2"]["code"] == "forbidden"


# Connections


def test_beside_a_token_the_backend_keeps_out_shortens_and_says_why(start, backend):
    hub = node(start, backend, "connect")
    with join(hub, "alice", device="phone") as alice:
        assert backend.questions == [{"ask": "connect", "user": "alice", "device": "phone", "address": "127.0.0.1"}]
        backend.answer = lambda question: {"allow": False, "reason": "not today"}
        refusal = alice.try_request("connect", token=mint("alice", seconds=700))
        assert (refusal["code"], refusal["message"]) == ("forbidden", "not today")
        assert backend.questions[-1]["refresh"] is True
        alice.sync()
    assert join(hub, "bob", welcome=False).expect_close() == (4003, "not today")
    with Client(hub, welcome=False) as late:
        late.send({"type": "connect", "id": 1, "token": mint("bob")})
        assert late.expect_close() == (4003, "not today")
        assert late.expect(type="error")["message"] == "not today"
    for code, close in (("tokenExpired", 4002), ("tokenInvalid", 4001), ("tooMany", 4003), ("unavailable", 1013), ("noSuchCode", 4003)):
        backend.answer = lambda question: {"allow": False, "code": code, "retryAfter": 2500}
        got, reason = join(hub, "bob", welcome=False).expect_close()
        assert got == close and (got != 1013 or reason.startswith("2500 ")), (code, got, reason)
    # A bad token isn't the backend's business.
    asked = len(backend.questions)
    with Client(hub, welcome=False) as bad:
        bad.send({"type": "connect", "token": mint("eve", key="x" * 40)})
        assert bad.expect_close()[0] == 4001
    assert len(backend.questions) == asked
    backend.answer = lambda question: {"allow": True, "expires": int(time.time() * 1000) + 1500}
    with join(hub, "dora") as dora:
        assert dora.welcome["tokenExpires"] < time.time() * 1000 + 2000
        assert dora.expect_close()[0] == 4002


def test_instead_of_tokens_the_backend_says_who_it_is_and_what_for(start, backend):
    hub = start(
        Hub, dev=False, settings={
            "api.keys": KEYS["api.keys"], **backend.settings("connect"), "ask.connect.mode": "instead", **LIVELY})
    hub.api_key = "boss"
    ends = int(time.time() * 1000) + 600_000

    def answer(question):
        if not question["token"].startswith("session-of-"):
            return {"allow": False}
        user = question["token"].removeprefix("session-of-")
        return {"allow": True, "user": user, "expires": ends, "caps": {"room:*": ["subscribe", "publish"]}, "channels": ["news"]}

    backend.answer = answer
    with Client(hub, token="session-of-alice") as alice, Client(hub, welcome=False) as bob:
        assert alice.welcome["user"] == "alice" and alice.welcome["tokenExpires"] == ends
        assert set(alice.welcome["channels"]) == {"user:alice", "news"}
        assert backend.questions[0]["token"] == "session-of-alice" and "user" not in backend.questions[0]
        bob.send({"type": "connect", "id": 7, "token": "session-of-bob"})
        assert bob.expect(type="ack", id=7)["user"] == "bob"
        alice.subscribe("room:1")
        bob.chat("room:1", "hi")
        assert alice.expect(type="chat")["user"] == "bob"
        assert alice.try_request("subscribe", channel="other:1")["code"] == "forbidden"
        # A refresh is the backend's too, and keeps its user.
        assert alice.try_request("connect", token="session-of-bob")["code"] == "forbidden"
        assert alice.request("connect", token="session-of-alice")["user"] == "alice"
        # Revocation reaches whom a backend has let in.
        assert request(f"{hub.url}/v1/revocations", method="POST", body={"user": "alice"}, key="boss")[0] == 200
        assert alice.expect_close()[0] == 4003
        bob.sync()
    for token in ("forged", "x" * 9000):
        with Client(hub, welcome=False) as eve:
            eve.send({"type": "connect", "id": 1, "token": token})
            assert eve.expect_close()[0] == 4001
    for wrong in ({"user": "eve"}, {"user": "eve", "expires": ends, "caps": {"a*b": ["*"]}}, {"user": "eve", "expires": ends + 40 * 86_400_000}):
        backend.answer = lambda question: {"allow": True, **wrong}
        assert Client(hub, token="session-of-eve", welcome=False).expect_close()[0] == 1013
    backend.answer = lambda question: {"allow": True, "user": "eve", "expires": 5}
    assert Client(hub, token="session-of-eve", welcome=False).expect_close()[0] == 4002


# While one waits


def test_the_end_of_a_token_a_revocation_and_a_disconnect_don_t_wait_for_the_answer(start, backend):
    hub = node(start, backend, "connect", "publish", **{"ask.deadline": "9s"})
    gate = Gate()
    with join(hub, "alice", welcome=True) as alice:
        backend.answer = gate
        alice.send({"type": "chat", "id": 1, "channel": "room:1", "payload": {}})
        eventually(lambda: backend.asked("publish"))
        assert request(f"{hub.url}/v1/users/alice/disconnect", method="POST", body={}, key="boss")[0] == 200
        assert alice.expect_close()[0] == 4003
    coming = join(hub, "alice", welcome=False)
    eventually(lambda: len(backend.asked("connect")) == 2)
    assert request(f"{hub.url}/v1/revocations", method="POST", body={"user": "alice"}, key="boss")[0] == 200
    assert coming.expect_close()[0] == 4003
    with Client(hub, token=mint("carol", seconds=4), welcome=False) as carol:
        eventually(lambda: len(backend.asked("connect")) == 3)
        # What the answer says then counts for nothing.
        time.sleep(4)
        gate.open()
        assert carol.expect_close()[0] == 4002
    # Answers for those who went harm nobody.
    backend.answer = lambda question: {"allow": True}
    with join(hub, "bob") as bob:
        bob.chat("room:1", "x")
    assert hub.is_running


def test_a_node_stops_while_questions_wait(start, backend):
    hub = node(start, backend, "connect", "publish", **{"ask.deadline": "9s"})
    gate = Gate()
    with join(hub, "alice") as alice:
        backend.answer = gate
        alice.send({"type": "chat", "id": 1, "channel": "room:1", "payload": {}})
        coming = join(hub, "bob", welcome=False)
        eventually(lambda: len(backend.questions) == 3)
        began = time.monotonic()
        assert hub.stop() == 0
        assert time.monotonic() - began < 15
        assert alice.expect_close()[0] == 1001 and coming.expect_close()[0] == 1001
    gate.open()


# A backend that fails


HOSTILE = {
    "HTTP 500": (500, {}, b"oops"), "HTTP 403": (403, {"Content-Type": "application/json"}, b'{"allow":true}'),
    "HTTP 302": (302, {"Location": "http://127.0.0.1:1/elsewhere"}, b""), "not JSON": (200, {"Content-Type": "text/html"}, b'{"allow":true}'),
    "malformed": (200, {"Content-Type": "application/json"}, b'{"allow":tru'), "too_large": (200, {"Content-Type": "application/json"}, b" " * 200_000),
    "broken": None,
}


@pytest.mark.parametrize("choice", ["deny", "allow"])
def test_what_is_no_answer_counts_as_the_configuration_says_and_is_named_without_a_secret(start, backend, choice):
    hub = node(start, backend, "publish", **{"ask.publish.onFailure": choice})
    with join(hub, "alice") as alice:
        for label, answer in HOSTILE.items():
            backend.answer = lambda question: answer
            got = alice.try_request("chat", channel="room:1", payload={})
            # What can't be read may have been a denial (test_ask_meanwhile.py).
            if choice == "allow" and label != "malformed":
                assert got["type"] == "ack", (label, got)
            else:
                assert got["code"] == "unavailable" and got["retryAfter"] >= 1000 and "ask.publish" in got["message"], (label, got)
            if label != "broken":
                time.sleep(0.25)
                hub.expect_log(f"publish: {label}")
        # An explicit denial is one, however wrong the rest of it.
        backend.answer = lambda question: {"allow": False, "code": "noSuch", "reason": "an endless reason " * 300}
        assert alice.try_request("chat", channel="room:1", payload={})["code"] == "forbidden"
    eventually(lambda: hub.metric('hub_asks_total{ask="publish",outcome="failed"}') >= len(HOSTILE))
    eventually(lambda: hub.metric('hub_ask_malformed_total{ask="publish"}') == 3)
    assert "security.askFailed" in hub.log and "security.askDenied" in hub.log
    # Neither secrets nor what a backend says at length stands in the log.
    for untold in (ASK_SECRET, "secret-path", "an endless reason"):
        assert untold not in hub.log


def test_a_backend_that_hangs_ends_at_the_deadline_so_many_are_asked_at_once_and_the_breaker_spares_the_rest(start, backend):
    hub = node(
        start, backend, "publish",
        **{"ask.deadline": "400ms", "ask.concurrency": 2, "ask.queue": 1, "ask.breaker.failures": 3, "ask.breaker.pause": "1s", "ask.breaker.window": "60s"})
    gate = Gate()
    backend.answer = gate
    clients = [join(hub, f"user{number}") for number in range(5)]
    for client in clients:
        client.send({"type": "chat", "id": 1, "channel": "room:1", "payload": {}})
    answers = [client.expect(id=1) for client in clients]
    assert {answer["code"] for answer in answers} == {"unavailable"}
    # Two were under way, one waited, the others were refused at once.
    assert len(backend.questions) <= 3 and "publish: busy" in hub.log and "publish: timeout" in hub.log
    hub.expect_log("ask.failing")
    eventually(lambda: hub.metric('hub_ask_breaker_open{ask="publish"}') == 1)
    status, _, body = request(f"{hub.url}/readyz")
    assert status == 200 and body["notAsked"] == ["publish"]
    asked = len(backend.questions)
    refused = clients[0].try_request("chat", channel="room:1", payload={})
    assert refused["code"] == "unavailable" and len(backend.questions) == asked
    # Elsewhere nothing happened.
    clients[0].chat("other:1", "x")
    gate.open()
    eventually(lambda: clients[1].try_request("chat", channel="room:1", payload={})["type"] == "ack", 20)
    hub.expect_log("ask.answering")
    eventually(lambda: hub.metric('hub_ask_breaker_open{ask="publish"}') == 0)
    assert "notAsked" not in request(f"{hub.url}/readyz")[2]
    for client in clients:
        client.leave()


# Settings


def test_sighup_changes_who_is_asked_about_what(start, backend, tmp_path):
    config = tmp_path / "hub.json5"

    def write(**ask):
        config.write_text(json.dumps({
            "auth": {"keys": [{"alg": "HS256", "secret": SECRET}]}, "namespaces": {"*": {"rights": ["*"]}, "room": ask.pop("room", {})}, **ask}))

    write()
    hub = start(Hub, dev=False, config=config)
    with join(hub, "alice") as alice:
        alice.chat("room:1", 1)
        assert backend.questions == []
        backend.answer = lambda question: {"allow": False}
        write(ask={"secret": ASK_SECRET, "publish": {"url": backend.url("publish")}}, room={"ask": ["publish"]})
        hub.signal(signal.SIGHUP)
        eventually(lambda: alice.try_request("chat", channel="room:1", payload={}).get("code") == "forbidden")
        assert backend.questions
        write()
        hub.signal(signal.SIGHUP)
        eventually(lambda: alice.try_request("chat", channel="room:1", payload={})["type"] == "ack")


def test_a_stricter_rule_of_watching_ends_what_it_forbids_on_sighup(start, tmp_path):
    config = tmp_path / "hub.json5"

    def write(rule):
        config.write_text(json.dumps({
            "auth": {"keys": [{"alg": "HS256", "secret": SECRET}]}, "namespaces": {"*": {"rights": ["*"]}}, "presence": {"watch": rule}}))

    write("everyone")
    hub = start(Hub, dev=False, config=config)
    with join(hub, "alice") as alice, join(hub, "bob") as bob:
        alice.request("watch", users=["bob", "alice"])
        write("nobody")
        hub.signal(signal.SIGHUP)
        message = alice.expect(type="error", code="forbidden")["message"]
        assert "aren't watched any more" in message and message.endswith(": bob"), message
        bob.leave()
        alice.sync()
        assert not [message for message in alice.gather(1) if message["type"] == "presence"]


def test_a_newer_token_brings_the_channels_that_it_names(start):
    hub = start(Hub, dev=False, settings=KEYS)
    with Client(hub, token=mint("alice", channels=["news"])) as alice, join(hub, "bob") as bob:
        alice.request("connect", token=mint("alice", seconds=700, channels=["news", "sports"]))
        alice.request("history", channel="sports")
        bob.chat("sports", "goal")
        assert alice.expect(type="chat")["channel"] == "sports"
        # Those that it has are left as they are.
        bob.chat("news", "once")
        assert alice.expect(type="chat")["payload"]["text"] == "once"
        assert not [message for message in alice.gather(0.3) if message["type"] == "chat"]


def test_each_revocation_is_a_security_event(start):
    hub = start(Hub, dev=False, settings=KEYS)
    hub.api_key = "boss"
    for path, body in (("/v1/revocations", {"user": "mallory"}), ("/v1/users/mallory/disconnect", {})):
        assert request(f"{hub.url}{path}", method="POST", body=body, key="boss")[0] == 200
    eventually(lambda: hub.metric('hub_security_events_total{event="revoked"}') == 2)
    assert hub.log.count("security.revoked") == 2 and "mallory" not in hub.log


def test_a_node_whose_clock_is_an_hour_off_signs_with_redis_s_time(start, redis, backend, tmp_path):
    # Issue 5, bad input: clocks an hour off. The backend refuses what is more than five minutes from its own.
    clock = Clock(tmp_path)
    clock.set(3600)
    settings = {**KEYS, **backend.settings("publish"), **LIVELY, "namespaces.room.ask": "publish", "redis.prefix": "askclock"}
    hub = start(Hub, name="ahead", dev=False, redis=redis.url, settings=settings, prefix=clock.prefix)
    # Redis's clock is read with the node's announcement.
    eventually(lambda: request(f"{hub.url}/v1/nodes", key="boss")[2]["nodes"])
    with Client(hub, token=mint("alice", seconds=10_000)) as alice:
        alice.chat("room:1", "hello")
    assert len(backend.questions) == 1
