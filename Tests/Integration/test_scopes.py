"""What an API key's connection may do, and what isn't kept isn't handed out: by the key's scopes and the namespace's history."""

import hashlib
import json

import pytest

from client import Client
from hub import Hub, running

KEYS = {"reader": ["read"], "writer": ["publish"], "owner": ["admin"]}


@pytest.fixture(scope="module")
def hub(folder):
    keys = [{"id": name, "digest": hashlib.sha256(name.encode()).hexdigest(), "scopes": scopes} for name, scopes in KEYS.items()]
    with running(Hub(folder, settings={"api.keys": json.dumps(keys)})) as node:
        yield node


@pytest.mark.parametrize("key", KEYS)
def test_a_key_s_connection_does_what_its_scopes_say(hub, key):
    reads, publishes = key != "writer", key != "reader"
    requests = [
        (reads, "subscribe", {"channel": "room:scopes"}), (reads, "watch", {"users": ["alice"]}),
        (reads, "history", {"channel": "room:scopes", "limit": 1}), (publishes, "chat", {"channel": "user:bob", "payload": 1}),
        (publishes, "event", {"channel": "room:scopes", "payload": 1}),
        (publishes, "typing", {"channel": "room:scopes", "payload": {"isTyping": True}}),
        (publishes, "read", {"channel": "room:scopes", "payload": {"offset": 0}}),
    ]
    with Client(hub, token=key) as client:
        for allowed, type, fields in requests:
            answer = client.try_request(type, **fields)
            assert (answer["type"] == "ack") == allowed, answer
            if not allowed:
                assert answer["code"] == "forbidden" and "scope" in answer["message"]


@pytest.mark.parametrize("settings, wait", [({"namespaces.brief.history.size": "0"}, 0), ({"namespaces.brief.history.ttl": "1s"}, 1.6)])
def test_what_history_doesn_t_keep_isn_t_handed_to_who_comes_with_a_position(start, settings, wait):
    node = start(Hub, settings=settings)
    with Client(node, user="alice") as alice, Client(node, user="bob") as bob:
        origin = alice.subscribe("brief:1")["position"]
        alice.chat("brief:1", "secret")
        alice.gather(wait)
        answer = bob.request("subscribe", channel="brief:1", position=origin)
        assert answer["recovered"] is False and answer["reason"] == "trimmed" and "publications" not in answer
        # What's live goes on.
        alice.chat("brief:1", "next")
        assert bob.expect(type="chat")["payload"] == {"text": "next"}


def test_keys_that_change_under_a_running_node_change_their_connections(start, tmp_path):
    import signal

    config = tmp_path / "hub.json5"

    def keys(**scopes):
        entries = [{"id": name, "digest": hashlib.sha256(name.encode()).hexdigest(), "scopes": of} for name, of in scopes.items()]
        config.write_text(json.dumps({"api": {"keys": entries}}))

    keys(one=["read", "publish"], two=["read"], three=["read"])
    node = start(Hub, config=config)
    with Client(node, token="one") as one, Client(node, token="two") as two, Client(node, token="three") as three:
        for client in (one, two, three):
            client.subscribe("room:keys")
        keys(one=["publish"], three=["read"])
        node.signal(signal.SIGHUP)
        assert one.expect(type="system", event="unsubscribed")["channel"] == "room:keys"
        assert two.expect_close()[0] == 4001
        one.chat("room:keys", "still here")
        assert three.expect(type="chat")["payload"] == {"text": "still here"}
