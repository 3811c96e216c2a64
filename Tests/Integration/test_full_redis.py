"""A Redis that has no room left: said, survived, and no answer claims what isn't kept (decision 0140)."""

from client import Client
from hub import FAST, Hub, eventually, request
from redises import Redis


def test_a_full_redis_is_told_lets_newcomers_in_and_no_answer_claims_what_is_not_kept(start):
    redis = start(Redis)
    one, two = (start(Hub, redis=redis.url, name=name, settings=FAST) for name in ("m1", "m2"))
    with Client(one, user="alice") as alice, Client(two, user="bob") as bob:
        alice.subscribe("room:full")
        alice.chat("room:full", "before")
        assert "stale" not in bob.request("watch", users=["alice", "carol"])
        redis.call("CONFIG", "SET", "maxmemory", "1")
        for client in (alice, bob):
            assert "storeFull" in client.expect(event="degraded")["reason"]
        # Another node could do no better: nobody is to be sent elsewhere.
        status, _, body = request(f"{one.url}/readyz")
        assert status == 200 and body["status"] == "storeFull" and body["reason"]
        eventually(lambda: one.metric("hub_store_full") == 1 and one.metric("hub_ready") == 1 and one.metric("hub_redis_link_up") == 1)
        refusal = alice.try_request("chat", channel="room:full", payload="x")
        assert (refusal["code"], refusal["retry"]) == ("storeFull", True) and refusal["retryAfter"] > 0
        with Client(one, user="carol") as carol:
            carol.expect(event="degraded")
            # Nobody else can know of carol yet, and no answer says that she isn't there.
            refusal = carol.try_request("presence", payload={"status": "away"})
            assert (refusal["type"], refusal["code"]) == ("error", "storeFull")
            assert bob.request("watch", users=["carol"])["stale"] is True
            assert request(f"{two.url}/v1/presence/carol")[2]["stale"] is True
            assert [entry["payload"]["text"] for entry in carol.request("history", channel="room:full")["publications"]] == ["before"]
            carol.send({"type": "typing", "channel": "room:full", "payload": {"isTyping": True}})
            assert alice.expect(type="typing", user="carol")
            redis.call("CONFIG", "SET", "maxmemory", "0")
            for client in (alice, bob, carol):
                client.expect(event="restored")
            # What was refused isn't wished (decision 0325): asked again it holds.
            bob.presence_of("carol", "online")
            carol.request("presence", payload={"status": "away"})
            bob.presence_of("carol", "away")
            eventually(lambda: "stale" not in bob.request("watch", users=["carol"]), what="answers are sure again")
            assert alice.chat("room:full", "after")["offset"] == 2
    assert two.metric("hub_store_full") == 0


def test_a_publication_that_failed_over_http_is_repeated_with_the_id_that_the_hub_made(start):
    redis = start(Redis)
    node = start(Hub, redis=redis.url, settings=FAST)

    def publish(*messages):
        body = {"messages": list(messages)} if len(messages) > 1 else messages[0]
        return request(f"{node.url}/v1/publish", "POST", body)

    one, unfit = {"channel": "room:again", "payload": 1}, {"channel": "", "payload": 2}
    redis.call("CONFIG", "SET", "maxmemory", "1")
    eventually(lambda: node.metric("hub_store_full") == 1)
    status, _, single = publish(one)
    assert (status, single["error"]["code"]) == (503, "storeFull") and single["messageId"], single
    _, _, batch = publish(one, unfit, {**one, "messageId": "own"})
    made, none, own = batch["results"]
    assert made["error"]["code"] == "storeFull" and made["messageId"] and own["messageId"] == "own" and "messageId" not in none, batch
    redis.call("CONFIG", "SET", "maxmemory", "0")
    eventually(lambda: node.metric("hub_store_full") == 0)
    for _ in range(2):
        assert publish({**one, "messageId": single["messageId"]}, {**one, "messageId": made["messageId"]})[0] == 200
    kept = [entry["messageId"] for entry in request(f"{node.url}/v1/channels/room%3Aagain/history")[2]["publications"]]
    assert kept == [single["messageId"], made["messageId"]]


def test_a_node_that_starts_while_redis_is_full_serves_what_is_there(start):
    redis = start(Redis)
    one = start(Hub, redis=redis.url, name="m1", settings=FAST)
    with Client(one, user="alice") as alice:
        alice.chat("room:full", "before")
    redis.call("CONFIG", "SET", "maxmemory", "1")
    two = start(Hub, redis=redis.url, name="m2", settings=FAST)
    with Client(two, user="bob") as bob:
        bob.expect(event="degraded")
        assert bob.subscribe("room:full")["offset"] == 1
