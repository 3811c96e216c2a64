"""What a token lets its user do: caps, the namespaces' rules, a default of nothing; and what becomes of it when the token does."""

import json
import signal
import time

import pytest
from websockets.exceptions import ConnectionClosed

from client import Client
from hub import Hub, RedisServer, eventually, running
from tokens import SECRET, mint

KEYS = '[{"alg":"HS256","secret":"%s"}]' % SECRET


@pytest.fixture(scope="module")
def hub(folder):
    settings = {
        "auth.keys": KEYS, "auth.expiryWarning": "2s", "namespaces.chat.rights": "subscribe,publish,presence,history", "namespaces.user.rights": "watch",
        "namespaces.news.rights": "subscribe"}
    with running(Hub(folder, dev=False, settings=settings)) as node:
        yield node


requests = {
    "subscribe": ("subscribe", {}), "publish": ("chat", {"payload": 1}), "history": ("history", {}),
    "typing": ("typing", {"payload": {"isTyping": True}}), "read": ("read", {"payload": {"offset": 0}}),
}
needs = {"typing": "publish", "read": "publish"}


def try_all(client, channel):
    """The requests that are allowed, and only `forbidden` for the others."""
    allowed = set()
    for name, (type, fields) in requests.items():
        answer = client.try_request(type, channel=channel, **fields)
        if answer["type"] == "ack":
            allowed.add(name)
        else:
            assert answer["code"] == "forbidden" and answer["retry"] is False, answer
    return allowed


@pytest.mark.parametrize("right", ["subscribe", "publish", "history", "presence", "watch"])
def test_each_right_lets_do_its_own_and_nothing_else(hub, right):
    with Client(hub, token=mint("alice", caps={"lab:1": [right]})) as alice:
        assert try_all(alice, "lab:1") == {name for name in requests if needs.get(name, name) == right}
        assert try_all(alice, "lab:2") == set()
        assert alice.try_request("watch", users=["bob"])["code"] == "forbidden"


def test_without_caps_the_namespaces_rules_count_and_else_nothing(hub):
    with Client(hub, token=mint("alice")) as alice:
        assert try_all(alice, "chat:1") == set(requests)
        assert try_all(alice, "news:1") == {"subscribe"}
        assert try_all(alice, "other:1") == set() and try_all(alice, "chatty:1") == set()
        assert alice.try_request("watch", users=["bob", "carol"])["type"] == "ack"


def test_caps_are_all_that_counts_where_a_token_has_them(hub):
    with Client(hub, token=mint("alice", caps={})) as alice:
        assert try_all(alice, "chat:1") == set()
        assert alice.try_request("watch", users=["bob"])["code"] == "forbidden"
        assert alice.request("watch", users=["alice"])["users"][0]["user"] == "alice"
    with Client(hub, token=mint("alice", caps={"chat:*:log": ["subscribe"], "user:team-*": ["watch"]})) as alice:
        assert try_all(alice, "chat:a:log") == {"subscribe"} and try_all(alice, "chat:a:b:log") == set() and try_all(alice, "chat:1") == set()
        assert alice.try_request("watch", users=["team-1"])["type"] == "ack"
        # All or nothing: who asks for ten and gets nine wouldn't know.
        assert alice.try_request("watch", users=["team-1", "bob"])["code"] == "forbidden"


def test_an_inbox_is_its_owners_whatever_a_token_says(hub):
    with Client(hub, token=mint("alice", caps={"*": ["*"], "user:bob": ["*"]})) as alice:
        assert "user:alice" in alice.welcome["channels"]
        assert try_all(alice, "user:bob") == set()
        assert try_all(alice, "user:alice") == set(requests)


def test_a_tokens_channels_are_subscribed_from_the_start(hub):
    with Client(hub, token=mint("alice", channels=["lab:7", "news:1"])) as alice, Client(hub, token=mint("bob", caps={"lab:*": ["publish"]})) as bob:
        assert set(alice.welcome["channels"]) == {"user:alice", "lab:7", "news:1"}
        assert "position" in alice.welcome["channels"]["lab:7"]
        bob.chat("lab:7", "hi")
        assert alice.expect(type="chat")["payload"] == {"text": "hi"}
        assert alice.try_request("chat", channel="lab:7", payload=1)["code"] == "forbidden"
        assert alice.try_request("subscribe", channel="lab:8")["code"] == "forbidden"
    with Client(hub, token=mint("alice", channels=["user:bob"])) as alice:
        assert alice.welcome["channels"]["user:bob"]["code"] == "forbidden"
    with Client(hub, token=mint("alice", caps={}), channel="chat:1") as alice:
        assert alice.welcome["channels"]["chat:1"]["code"] == "forbidden"


@pytest.mark.parametrize("subprotocols", [("hub.v1.json",), ("hub.v1.msgpack",)])
def test_a_right_that_a_new_token_lacks_ends_the_subscription_with_a_code(hub, subprotocols):
    with Client(hub, token=mint("alice", caps={"lab:*": ["subscribe"], "user:*": ["watch"]}), subprotocols=subprotocols) as alice, \
            Client(hub, token=mint("bob", caps={"lab:*": ["publish"]})) as bob:
        alice.subscribe("lab:1")
        alice.subscribe("lab:2")
        alice.request("watch", users=["bob"])
        assert alice.request("connect", token=mint("alice", caps={"lab:2": ["subscribe"]}))["user"] == "alice"
        assert alice.expect(type="system", event="unsubscribed")["channel"] == "lab:1"
        told = alice.expect(type="error")
        assert told["code"] == "forbidden" and "watched" in told["message"]
        bob.chat("lab:1", "not for alice")
        bob.chat("lab:2", "for alice")
        assert alice.expect(type="chat")["channel"] == "lab:2"
        assert alice.try_request("unsubscribe", channel="lab:1")["code"] == "notSubscribed"
        assert not any(message.get("event") == "unsubscribed" for message in alice.gather(0.3))


def test_losing_the_right_to_know_the_members_is_told(hub):
    both = {"lab:*": ["subscribe", "presence"]}
    with Client(hub, token=mint("alice", caps=both)) as alice:
        alice.request("subscribe", channel="lab:m", members=True)
        alice.request("connect", token=mint("alice", caps={"lab:*": ["subscribe"]}))
        told = alice.expect(type="error")
        assert told["code"] == "forbidden" and "members" in told["message"] and "lab:m" in told["message"]
        alice.sync()


def test_a_new_token_of_somebody_else_changes_nothing(hub):
    with Client(hub, token=mint("alice", caps={"lab:*": ["subscribe"]})) as alice:
        assert alice.try_request("connect", token=mint("bob", caps={"*": ["*"]}))["code"] == "forbidden"
        assert alice.try_request("connect", token=mint("alice", key="x" * 32))["code"] == "tokenInvalid"
        assert alice.try_request("subscribe", channel="lab:1")["type"] == "ack"
        assert alice.try_request("chat", channel="lab:1", payload=1)["code"] == "forbidden"


def test_rules_that_change_under_a_running_node_end_what_they_allowed(start, tmp_path):
    config = tmp_path / "hub.json5"

    def rules(rights):
        config.write_text(json.dumps({"auth": {"keys": [{"alg": "HS256", "secret": SECRET}]}, "namespaces": {"room": {"rights": rights}}}))

    rules(["subscribe"])
    hub = start(Hub, dev=False, config=config)
    with Client(hub, token=mint("alice")) as alice, Client(hub, token=mint("bob", caps={"room:*": ["subscribe"]})) as bob, \
            Client(hub, token=mint("carol", channels=["room:1"])) as carol:
        alice.subscribe("room:1")
        bob.subscribe("room:1")
        rules([])
        hub.signal(signal.SIGHUP)
        assert alice.expect(type="system", event="unsubscribed") == {"type": "system", "event": "unsubscribed", "channel": "room:1", "code": "forbidden"}
        bob.sync()
        carol.sync()
        assert not any(message.get("event") == "unsubscribed" for message in bob.inbox + carol.inbox)


def test_rules_that_change_before_a_welcome_count_in_it(start, tmp_path):
    """Its inbox waits for Redis; its default channel, which the node carries, is answered together with it."""
    redis, config = start(RedisServer), tmp_path / "hub.json5"

    def rules(rights):
        config.write_text(json.dumps({"auth": {"keys": json.loads(KEYS)}, "namespaces": {"room": {"rights": rights}}}))

    rules(["subscribe"])
    hub = start(Hub, dev=False, config=config, redis=redis.url)
    with Client(hub, token=mint("bob", caps={"room:*": ["subscribe", "publish"]})) as bob:
        bob.subscribe("room:1")
        with redis.standing_still(), Client(hub, token=mint("alice"), channel="room:1", welcome=False) as alice:
            time.sleep(0.3)
            rules([])
            hub.signal(signal.SIGHUP)
            eventually(lambda: "configuration.reloaded" in hub.log)
            redis.signal(signal.SIGCONT)
            assert alice.expect(type="system", event="welcome")["channels"]["room:1"]["code"] == "forbidden"
            bob.chat("room:1", "of no concern to who lacks the right")
            assert not [message for message in alice.gather(0.5) if message["type"] == "chat"]


# The end of a token

def test_a_token_ends_on_the_live_connection_after_a_warning(hub):
    for busy in (False, True):
        with Client(hub, token=mint("alice", seconds=4, caps={"lab:*": ["*"]})) as alice:
            end = alice.welcome["tokenExpires"] / 1000
            if busy:
                alice.subscribe("lab:busy")
            warning = alice.expect(type="system", event="tokenExpiring", seconds=20)
            assert 0 < warning["in"] <= 2000
            for _ in range(20 if busy else 0):
                alice.send({"type": "chat", "channel": "lab:busy", "payload": 1})
            assert alice.expect_close(seconds=20)[0] == 4002
            assert time.time() >= end - 1


def test_a_refresh_keeps_the_connection_and_its_subscriptions(hub):
    with Client(hub, token=mint("alice", seconds=3, caps={"lab:*": ["*"]})) as alice:
        alice.subscribe("lab:kept")
        alice.expect(type="system", event="tokenExpiring", seconds=20)
        assert alice.request("connect", token=mint("alice", seconds=600, caps={"lab:*": ["*"]}))["user"] == "alice"
        assert not any(message.get("event") in ("tokenExpiring", "unsubscribed") for message in alice.gather(4))
        alice.chat("lab:kept", "still here")
        assert alice.expect(type="chat")["payload"] == {"text": "still here"}


def test_many_refreshes_leave_one_end(hub):
    with Client(hub, token=mint("alice", seconds=3)) as alice:
        for _ in range(300):
            alice.request("connect", token=mint("alice", seconds=4))
        assert alice.request("connect", token=mint("alice", seconds=3))["user"] == "alice"
        assert alice.expect_close(seconds=20)[0] == 4002
        assert sum(message.get("event") == "tokenExpiring" for message in alice.inbox) <= 2


def test_nothing_is_done_for_a_token_that_is_over(hub):
    with Client(hub, token=mint("alice", seconds=3, caps={"lab:*": ["*"]})) as alice:
        end = alice.welcome["tokenExpires"]
        alice.subscribe("lab:late")
        deadline, seen = time.monotonic() + 20, []
        with pytest.raises(ConnectionClosed) as closed:
            while time.monotonic() < deadline:
                alice.send({"type": "chat", "channel": "lab:late", "payload": 1})
                seen += alice.gather(0.01)
        assert closed.value.rcvd.code == 4002
        times = [message["time"] for message in seen if message["type"] == "chat"]
        assert times and max(times) < end
