"""Watching: limits by name, oneself, duplicates, the same in bulk over HTTP, and a pace for who watches many. docs/protocol.md, watch."""

import signal
import time

import pytest
from client import Client
from hub import FAST, Hub, eventually, request
from redises import Redis, fnv1a, hub_partitions


def test_one_may_watch_ten_thousand_in_requests_of_a_thousand_and_no_more(start):
    hub = start(Hub, settings=FAST)
    with Client(hub, "alice") as alice:
        users = [f"u{number}" for number in range(10_000)]
        for first in range(0, 10_000, 1_000):
            answered = alice.request("watch", users=users[first:first + 1_000])["users"]
            assert [entry["user"] for entry in answered] == users[first:first + 1_000]
        refused = alice.try_request("watch", users=["one more"])
        assert refused["code"] == "tooMany" and "limits.watch" in refused["message"], refused
        # Whom one watches already counts once.
        assert len(alice.request("watch", users=["u1", "u1", "u2"])["users"]) == 3
        alice.request("unwatch", users=["u1"])
        assert alice.request("watch", users=["one more"])["users"][0]["status"] == "offline"


def test_more_than_a_thousand_in_one_request_is_refused_by_name(start):
    hub = start(Hub, settings=FAST)
    users = [f"u{number}" for number in range(1_001)]
    with Client(hub, "alice") as alice:
        alice.send_raw('{"type":"watch","id":7,"users":["' + '","'.join(users) + '"]}')
        refused = alice.expect(type="error", id=7)
        assert refused["code"] == "tooMany" and "1000" in refused["message"]
    code, _, body = request(f"{hub.url}/v1/presence", "POST", {"users": users})
    assert code == 422 and body["error"]["code"] == "tooMany", body
    code, _, body = request(f"{hub.url}/v1/presence", "POST", {"users": users[:1_000]})
    assert code == 200 and len(body["users"]) == 1_000
    code, _, body = request(f"{hub.url}/v1/presence", "POST", {"users": ["a", 7]})
    assert code == 400 and body["error"]["code"] == "malformed" and "users[1]" in body["error"]["message"], body


def test_watching_oneself_tells_of_one_s_own_changes_once_each(start):
    hub = start(Hub, settings=FAST)
    with Client(hub, "alice") as alice:
        assert alice.request("watch", users=["alice", "alice"])["users"][0]["user"] == "alice"
        alice.request("presence", payload={"status": "away"})
        alice.presence_of("alice", "away")
        assert [message for message in alice.gather(1) if message["type"] == "presence"] == []


def test_who_watches_many_gets_a_message_a_second_when_they_all_move(start):
    hub = start(Hub, settings=FAST)
    crowd = [Client(hub, f"u{number}") for number in range(300)]
    with Client(hub, "alice") as alice:
        names = [f"u{number}" for number in range(300)]
        eventually(lambda: all(entry["status"] == "online" for entry in alice.request("watch", users=names)["users"]), what="all are online")
        alice.sync()
        alice.inbox.clear()
        began = time.monotonic()
        last = {}
        frames = 0
        for status in ("away", "online", "away"):
            for client in crowd:
                client.send({"type": "presence", "payload": {"status": status}})
            while sum(change == status for change in last.values()) < 300:
                message = alice.expect(type="presence", seconds=30)
                frames += 1
                for change in message["changes"]:
                    last[change["user"]] = change["status"]
        took = time.monotonic() - began
        # Up to 200 changes come as they do, ten messages a second at most; the rest of a second's in one.
        assert frames <= 3 * 10 + 2 * took, (frames, took)
    for client in crowd:
        client.leave()


def test_a_watcher_of_many_who_does_not_read_misses_what_is_out_of_date_and_nothing_else(start):
    hub = start(Hub, settings=FAST | {"limits.outboundBytes": "200KB", "limits.messageBytes": "64KB"})
    names = [f"u{number:03}" + "x" * 96 for number in range(300)]
    crowd = [Client(hub, name) for name in names]
    with Client(hub, "slow") as slow, Client(hub, "busy") as busy:
        states = {entry["user"]: entry["status"] for entry in slow.request("watch", users=names)["users"]}
        slow.subscribe("room:filler")
        while hub.metric("hub_send_memory_bytes") == 0:
            busy.chat("room:filler", "x" * 10_000)
        # Some 45 KB each time, more than 200 changes a second: far more than the queue holds.
        for status in ["away", "online"] * 8:
            for client in crowd:
                client.send({"type": "presence", "payload": {"status": status}})
            for client in crowd[::50]:
                client.send({"type": "presence", "payload": {"status": "away"}})
            slow.send({"type": "ping"})
            time.sleep(1.1)
        assert hub.metric('hub_drops_total{class="presence"}') > 0
        wanted = {name: "away" if place % 50 == 0 else "online" for place, name in enumerate(names)}
        while states != wanted:
            for change in slow.expect(type="presence", seconds=30)["changes"]:
                states[change["user"]] = change["status"]
        assert slow.expect(type="system", event="dropped", seconds=10)
    for client in crowd:
        client.leave()


@pytest.mark.parametrize("feeds", [("users", "users"), ("users", "partitions")])
def test_a_node_that_hears_single_users_sees_them_all_the_same(start, feeds):
    redis = start(Redis)
    one, two = (start(Hub, name=name, redis=redis.url, settings=FAST | {"presence.feeds": feed}) for name, feed in zip(("n1", "n2"), feeds))
    assert (redis.call("PUBSUB", "NUMSUB", feed_channel("alice"))[1] == 0) == ("partitions" not in feeds)
    with Client(one, "watcher") as watcher:
        assert watcher.request("watch", users=["alice", "bob", "watcher"])["users"][0]["status"] == "offline"
        alice = Client(two, "alice")
        watcher.presence_of("alice", "online")
        bob = Client(one, "bob")
        watcher.presence_of("bob", "online")
        alice.request("presence", payload={"status": "away"})
        watcher.presence_of("alice", "away")
        # What happened while the link was gone is read when it's back.
        for link in redis.links("hub-"):
            if "-subscriptions" in link:
                redis.call("CLIENT", "KILL", "ID", link.split(" ")[0].removeprefix("id="))
        alice.leave()
        watcher.presence_of("alice", "offline", 30)
        # Whom nobody watches any more isn't heard of.
        watcher.request("unwatch", users=["bob"])
        bob.request("presence", payload={"status": "away"})
        assert [message for message in watcher.gather(2) if message["type"] == "presence"] == []
        two.signal(signal.SIGKILL)
        bob.leave()


def feed_channel(user):
    return "hub:{%s}:pf" % hub_partitions()[fnv1a(user) % 256][0]
