"""Webhooks while nodes join, stop and lose their Redis: who delivers what, and nobody waits (docs/hooks.md, decisions 0354 and 0355)."""

import time

from client import Client
from hooks import settings
from hub import Hub, RedisServer, eventually, request
from redises import Redis, hub_partitions
from test_hooks import QUICK, WARM, begin, expect_types, flap, hook_key, receiver  # noqa: F401 (the receiver is a fixture)


def holders(redis):
    """How many partitions each node holds, by its incarnation."""
    counts = {}
    for tag, _ in hub_partitions():
        value = redis.call("GET", f"hub:{{{tag}}}:hl")
        if value:
            holder = value.split()[0]
            counts[holder] = counts.get(holder, 0) + 1
    return counts


def expect_soon(receiver, hub, users, seconds):
    """Each user comes and leaves, and that is told before any lease could have ended."""
    for user in users:
        flap(hub, user, 1)
    for user in users:
        expect_types(receiver, user, ["user.online", "user.offline"], seconds)


def test_while_nodes_join_and_stop_no_webhook_waits_for_a_lease_to_end(start, receiver):
    redis = start(Redis)
    slow = settings(receiver, **{"hooks.lease": "45s"})
    north = start(Hub, name="north", redis=f"redis://127.0.0.1:{redis.port}", settings={**QUICK, **slow})
    eventually(lambda: list(holders(redis).values()) == [256], 30, "alone, north holds all")
    time.sleep(WARM)
    south = start(Hub, name="south", redis=f"redis://127.0.0.1:{redis.port}", settings={**QUICK, **slow})
    numbers = iter(range(1000))

    def some(count):
        return [f"user-{next(numbers)}" for _ in range(count)]

    began = time.monotonic()
    while sorted(holders(redis).values()) != [128, 128]:
        assert time.monotonic() - began < 90, holders(redis)
        expect_soon(receiver, north, some(10), 20)
    for hub in (north, south):
        expect_soon(receiver, hub, some(20), 20)
    north.stop()
    expect_soon(receiver, south, some(40), 20)
    eventually(lambda: list(holders(redis).values()) == [256], 30, "south holds all")
    assert not receiver.complaints() and receiver.lost == 0


def test_what_nobody_on_the_delivering_node_heard_of_is_delivered_all_the_same(start, receiver):
    redis = start(Redis)
    values = {**QUICK, **settings(receiver, **{"hooks.lease": "120s"}), "presence.feeds": "users"}
    hubs = [start(Hub, name=name, redis=f"redis://127.0.0.1:{redis.port}", settings=values) for name in ("north", "south")]
    eventually(lambda: sorted(holders(redis).values()) == [128, 128], 60, "each holds a half")
    time.sleep(WARM)
    # Nobody watches these users, and the channels are on one node: the other one's queues fill unheard.
    users, rooms = [f"user-{number}" for number in range(20)], [f"room:{number}" for number in range(40)]
    with Client(hubs[0], user="ann") as ann:
        for room in rooms:
            ann.subscribe(room)
        began = time.monotonic()
        expect_soon(receiver, hubs[0], users, 20)
        for room in rooms:
            expect_types(receiver, room, ["channel.occupied"], max(1, began + 30 - time.monotonic()))
    for room in rooms:
        expect_types(receiver, room, ["channel.occupied", "channel.vacated"], 20)
    # Less than half of a third of the lease: by its renewals alone it would be all of it, on the average a half.
    assert time.monotonic() - began < 40 and not receiver.complaints()


def test_a_node_that_stops_in_order_hands_its_partitions_on_at_once(start, receiver):
    redis = start(RedisServer)
    slow = settings(receiver, **{"hooks.lease": "60s"})
    first = start(Hub, name="north", redis=redis.url, settings={**QUICK, **slow})
    eventually(lambda: redis.command("EXISTS", hook_key("ann", "hl")) == ":1", 30, "north holds the partition")
    first.stop()
    assert redis.command("EXISTS", hook_key("ann", "hl")) == ":0"
    second = start(Hub, name="south", redis=redis.url, settings={**QUICK, **slow})
    time.sleep(WARM)
    flap(second, "ann", 1)
    expect_types(receiver, "ann", ["user.online", "user.offline"], 40)


def test_who_ends_while_redis_loses_everything_is_told_as_gone_when_they_went(start, receiver):
    redis = start(RedisServer)
    # Whoever comes within the hold was never away.
    north, south = begin(start, receiver, redis, ("north", "south"), **{"presence.hold": "6s"})
    left, lost, moved = (Client(north, user=user, device="phone") for user in ("left", "lost", "moved"))
    for user in ("left", "lost", "moved"):
        expect_types(receiver, user, ["user.online"])
    watcher = Client(south, user="watcher")
    watcher.request("watch", users=["left", "lost", "moved"])
    redis.kill()
    eventually(lambda: all(request(f"{hub.url}/readyz")[0] == 503 for hub in (north, south)), 30)
    before = time.time() * 1000
    left.leave()
    lost.vanish()
    moved.leave()
    after = time.time() * 1000
    # Longer than anything that may make the moment appear later.
    time.sleep(4)
    redis = start(RedisServer, port=redis.port)
    eventually(lambda: request(f"{south.url}/readyz")[0] == 200, 30)
    moved = Client(south, user="moved", device="phone")
    for user in ("left", "lost"):
        expect_types(receiver, user, ["user.online", "user.offline"], 60)
        event = receiver.of(user)[-1]
        assert before - 100 <= event["lastSeen"] <= after + 2_000, (before, event, after)
        answer = request(f"{south.url}/v1/presence/{user}")[2]
        assert answer["status"] == "offline" and answer["lastSeen"] == event["lastSeen"] and answer["version"] == event["version"], answer
    # (Told as online once more, where the node that has them now wrote first.)
    assert "user.offline" not in receiver.types("moved")
    told = [change for message in watcher.gather(1) if message["type"] == "presence" for change in message["changes"]]
    assert not [change for change in told if change["user"] == "moved" and change["status"] == "offline"], told
    for user in ("left", "lost"):
        last = [change for change in told if change["user"] == user][-1]
        assert last["status"] == "offline" and last["lastSeen"] == receiver.of(user)[-1]["lastSeen"], told
    moved.leave()
    eventually(lambda: receiver.types("moved")[-1] == "user.offline" and receiver.types("moved").count("user.offline") == 1, 30)
    watcher.leave()
