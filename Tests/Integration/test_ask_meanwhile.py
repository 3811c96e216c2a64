"""What happens while a backend is asked, and what is kept of its answers (docs/ask.md, decision 0294): neither lets anybody in, or throws anybody out, who shouldn't be."""

import time

import pytest

from backend import Backend, Gate, slowly
from client import Client
from hub import Hub, eventually, request
from sse import Stream
from test_ask import KEYS, LIVELY, join, node
from tokens import mint


@pytest.fixture
def backend():
    backend = Backend()
    yield backend
    backend.stop()
    assert not backend.refused, backend.refused


def post(hub, path, **body):
    assert request(f"{hub.url}{path}", method="POST", body=body, key="boss")[0] == 200


def instead(start, backend, name="hub", redis=None, **settings):
    """A hub whose backend checks tokens."""
    hub = start(Hub, name=name, dev=False, redis=redis, settings={
        "api.keys": KEYS["api.keys"], "namespaces.*.rights": "*", **backend.settings("connect"), "ask.connect.mode": "instead", **LIVELY, **settings})
    hub.api_key = "boss"
    return hub


def ends(seconds=600):
    return int(time.time() * 1000) + seconds * 1000


def wait_for_question(backend, count):
    eventually(lambda: len(backend.asked("connect")) == count)


# A newer token


@pytest.mark.parametrize("way", ["socket", "stream"])
@pytest.mark.parametrize("answer", ["allow", "deny", "fail"])
def test_a_newer_token_that_is_revoked_while_it_is_asked_about_is_refused_whatever_is_answered(start, backend, way, answer):
    hub = node(start, backend, "connect", **{"ask.deadline": "9s", "ask.connect.onFailure": "allow"})
    now = int(time.time())
    revocations = [
        ({"jti": "new"}, {"token": "new"}),
        # Older than the one that the connection has: that one isn't meant.
        ({"iat": now - 40}, {"all": True, "before": (now - 30) * 1000}),
        ({"iat": now - 20}, {"user": "alice", "before": (now - 10) * 1000}),
    ]
    for count, (claims, revocation) in enumerate(revocations, 1):
        backend.answer = lambda question: {"allow": True}
        old = mint("alice", iat=now - 5)
        client = Client(hub, token=old) if way == "socket" else Stream(hub, token=old)
        gate = Gate({"allow": {"allow": True}, "deny": {"allow": False}, "fail": (500, {}, b"")}[answer])
        backend.answer = gate
        asked = len(backend.asked("connect"))
        client.send({"type": "connect", "id": "new", "token": mint("alice", **claims)})
        wait_for_question(backend, asked + 1)
        post(hub, "/v1/revocations", **revocation)
        eventually(lambda: hub.metric("hub_revocations") == count)
        gate.open()
        refusal = client.expect(id="new")
        assert (refusal["type"], refusal["code"]) == ("error", "tokenInvalid"), (revocation, refusal)
        # It goes on, as what it was.
        backend.answer = lambda question: {"allow": True}
        client.send({"type": "chat", "id": "chat", "channel": "other:1", "payload": {}})
        assert client.expect(id="chat")["type"] == "ack"
        client.leave()


def test_a_newer_token_is_refused_too_when_another_node_revoked_it(start, redis, backend):
    one, two = (node(start, backend, "connect", name=name, redis=redis.url, **{"redis.prefix": "askmeanwhile", "ask.deadline": "9s"}) for name in ("one", "two"))
    with Client(one, token=mint("alice", jti="old")) as alice:
        gate = backend.answer = Gate()
        alice.send({"type": "connect", "id": "new", "token": mint("alice", jti="new")})
        wait_for_question(backend, 2)
        post(two, "/v1/revocations", token="new")
        eventually(lambda: one.metric("hub_revocations") == 1)
        gate.open()
        assert alice.expect(id="new")["code"] == "tokenInvalid"
        alice.chat("other:1", "still here")


@pytest.mark.parametrize("short", ["token", "answer"])
def test_a_newer_token_that_ends_while_it_is_asked_about_costs_nobody_the_connection(start, backend, short):
    hub = node(start, backend, "connect", **{"ask.deadline": "9s"})
    with Client(hub, token=mint("alice")) as alice:
        # By its own end, or by the end that the answer gives it.
        end = ends(1)
        backend.answer = slowly(3.2, {"allow": True} if short == "token" else {"allow": True, "expires": end})
        refusal = alice.try_request("connect", token=mint("alice", seconds=2 if short == "token" else 700))
        assert (refusal["type"], refusal["code"]) == ("error", "tokenExpired")
        alice.chat("other:1", "still here")
        alice.sync()


# Whose it is


@pytest.mark.parametrize("may_return, code", [(False, 4003), (True, 4004)])
def test_whom_a_backend_names_after_their_disconnection_is_closed_as_all_of_theirs(start, redis, backend, may_return, code):
    one, two = (instead(start, backend, name=name, redis=redis.url, **{"redis.prefix": f"askended{code}", "ask.deadline": "9s"}) for name in ("one", "two"))
    gate = backend.answer = Gate({"allow": True, "user": "alice", "expires": ends()})
    by_header = Client(one, token="of-alice", welcome=False)
    by_envelope = Client(two, welcome=False)
    by_envelope.send({"type": "connect", "id": 1, "token": "of-alice-too"})
    wait_for_question(backend, 2)
    post(one, "/v1/users/alice/disconnect", mayReturn=may_return)
    # Who shows a token after it isn't meant.
    time.sleep(1)
    later = Client(two, token="of-alice-later", welcome=False)
    wait_for_question(backend, 3)
    gate.open()
    assert by_header.expect_close()[0] == code and by_envelope.expect_close()[0] == code
    assert later.expect(type="system", event="welcome")["user"] == "alice"
    later.leave()
    for hub in (one, two):
        eventually(lambda: hub.metric("hub_revoked_closed_total") == 1)


def test_who_isn_t_named_is_untouched_by_others_disconnections(start, backend):
    hub = instead(start, backend, **{"ask.deadline": "9s"})
    gate = backend.answer = Gate({"allow": True, "user": "bob", "expires": ends()})
    bob = Client(hub, token="of-bob", welcome=False)
    wait_for_question(backend, 1)
    post(hub, "/v1/users/alice/disconnect")
    gate.open()
    assert bob.expect(type="system", event="welcome")["user"] == "bob"
    bob.leave()


# What is kept


def test_a_new_token_isn_t_refused_by_what_was_kept_of_an_older_one(start, backend):
    hub = node(start, backend, "connect", **{"ask.cache": "60s"})
    end = ends(1)
    backend.answer = lambda question: {"allow": True, "expires": end}
    assert Client(hub, token=mint("alice", jti="a"), device="phone").expect_close()[0] == 4002
    backend.answer = lambda question: {"allow": True}
    with Client(hub, token=mint("alice", jti="b"), device="phone") as alice:
        assert alice.welcome["tokenExpires"] > ends(60)
    for code in ("tokenExpired", "tokenInvalid"):
        backend.answer = lambda question: {"allow": False, "code": code, "ttl": 60_000}
        assert Client(hub, token=mint("bob", jti=f"{code}1"), device="phone", welcome=False).expect_close()[0] in (4001, 4002)
        backend.answer = lambda question: {"allow": True, "ttl": 1}
        with Client(hub, token=mint("bob", jti=f"{code}2"), device="phone"):
            pass
        time.sleep(0.05)


# What can't be read


UNREADABLE = [
    b'{"allow":false,"allow":true}', b'{"allow":true,"allow":false}', b'{"allow":false,"x":' + b"[" * 200 + b"]" * 200 + b"}", b'{"allow":false,"reason":"\xff"}',
    b'{"allow":false} and more', b'{"allow":fals', b'{"allow":"false"}', b"", b'{"allow":true,"ttl":"5s"}',
]


@pytest.mark.parametrize("kind", ["publish", "subscribe", "connect"])
def test_an_answer_that_can_t_be_read_denies_whatever_the_configuration_says(start, backend, kind):
    # The breaker would let through whom the answers deny: it has nothing to do with them.
    hub = node(start, backend, kind, **{f"ask.{kind}.onFailure": "allow", "ask.breaker.failures": 2})
    with join(hub, "alice") as alice:
        for body in UNREADABLE:
            backend.answer = lambda question: (200, {"Content-Type": "application/json"}, body)
            if kind == "connect":
                assert join(hub, "bob", welcome=False).expect_close()[0] == 1013, body[:60]
                assert alice.try_request("connect", token=mint("alice"))["code"] == "unavailable", body[:60]
            elif kind == "subscribe":
                assert alice.try_request("subscribe", channel="room:1")["code"] == "unavailable", body[:60]
            else:
                assert alice.try_request("chat", channel="room:1", payload={})["code"] == "unavailable", body[:60]
        assert hub.metric(f'hub_ask_breaker_open{{ask="{kind}"}}') == 0
        eventually(lambda: hub.metric(f'hub_ask_failures_total{{ask="{kind}",reason="malformed"}}') >= len(UNREADABLE))
        # What isn't the backend's answer at all is the configuration's.
        backend.answer = lambda question: (200, {"Content-Type": "text/html"}, b"come back later")
        if kind == "connect":
            with join(hub, "bob"):
                pass
        elif kind == "subscribe":
            assert alice.try_request("subscribe", channel="room:1")["type"] == "ack"
        else:
            assert alice.try_request("chat", channel="room:1", payload={})["type"] == "ack"


# Deadlines


@pytest.mark.parametrize("mode", ["beside", "instead"])
def test_the_deadline_for_authentication_ends_with_the_token_that_is_shown(start, backend, mode):
    settings = {"ask.deadline": "9s", "deadlines.authentication": "300ms"}
    hub = node(start, backend, "connect", **settings) if mode == "beside" else instead(start, backend, **settings)
    backend.answer = slowly(1.2, {"allow": True} if mode == "beside" else {"allow": True, "user": "alice", "expires": ends()})
    with Client(hub, welcome=False) as alice, Client(hub, welcome=False) as silent:
        alice.send({"type": "connect", "id": 1, "token": mint("alice")})
        assert alice.expect(type="ack", id=1)["user"] == "alice"
        # Whoever shows none is closed.
        assert silent.expect_close()[0] == 4010
