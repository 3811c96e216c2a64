"""Members of a node that is stopped in order, and members who come and are lost again and again. docs/presence.md, decisions 0344 and 0346."""

import signal
import socket
import time

import pytest
from client import Client, raw_socket
from hub import FAST, Hub, RedisServer, eventually, request
from test_members import UNHURRIED, Room, listed, tag_of


def test_a_node_that_is_stopped_in_order_leaves_its_members_for_the_grace_not_for_its_lease(start):
    redis = start(RedisServer)
    timers = {"presence.heartbeat": "4s", "presence.lease": "60s", "presence.userTTL": "3m", "presence.hold": "6s", "presence.grace": "2s"}
    one, two = (start(Hub, name=name, redis=redis.url, settings=FAST | timers) for name in ("n1", "n2"))
    with Client(one, "watcher") as watcher:
        room = Room(watcher, "room:stop")
        clients = [Client(two, name, device="d") for name in ("back", "gone", "late")]
        for client in clients:
            client.subscribe("room:stop")
        alone = Client(two, "alone")
        alone.subscribe("room:alone")
        room.until({"watcher": 1, "back": 1, "gone": 1, "late": 1})
        # The first sweep of an empty Redis begins a hold.
        time.sleep(7)
        assert two.stop() == 0
        back = Client(one, "back", device="d")
        back.subscribe("room:stop")
        room.until({"watcher": 1, "back": 1}, 20)
        left = sorted(user for frame in room.frames for user in frame.get("left", []))
        assert left == ["gone", "late"]
        # In a channel that nobody else is in, too.
        occupied = "hub:{%s}:mo" % tag_of("room:alone")
        eventually(lambda: redis.command("ZSCORE", occupied, "room:alone") == "$-1", 20)
        back.leave()


def test_where_the_grace_is_longer_than_the_lease_a_stopped_node_s_members_are_awaited_for_all_of_it(start):
    redis = start(RedisServer)
    one, two = (start(Hub, name=name, redis=redis.url, settings=FAST | {"presence.grace": "9s", "presence.userTTL": "30s"}) for name in ("n1", "n2"))
    with Client(one, "watcher") as watcher:
        room = Room(watcher, "room:long")
        clients = [Client(two, name, device="d") for name in ("back", "gone")]
        for client in clients:
            client.subscribe("room:long")
        room.until({"watcher": 1, "back": 1, "gone": 1})
        time.sleep(2)
        assert two.stop() == 0
        stopped = time.monotonic()
        # Past the lease of 2.4 s, within the grace.
        frames = [message for message in watcher.gather(5) if message["type"] == "members"]
        back = Client(one, "back", device="d")
        back.subscribe("room:long")
        assert time.monotonic() - stopped < 8 and not [frame for frame in frames if "left" in frame], frames
        room.until({"watcher": 1, "back": 1}, 25)
        assert "back" not in [user for frame in room.frames for user in frame.get("left", [])]
        back.leave()


def test_one_connection_that_does_not_end_keeps_nobody_else_in_a_channel_of_a_stopped_node(start):
    redis = start(RedisServer)
    timers = {"presence.heartbeat": "4s", "presence.lease": "60s", "presence.userTTL": "3m", "presence.hold": "6s", "presence.grace": "2s"}
    one, two = (start(Hub, name=name, redis=redis.url, settings=FAST | timers | {"deadlines.shutdown": "4s"}) for name in ("n1", "n2"))
    with Client(one, "watcher") as watcher, socket.create_connection(("127.0.0.1", two.port)) as half:
        half.sendall(b"GET /v1/ws HTTP/1.1\r\nHo")
        room = Room(watcher, "room:half")
        gone = Client(two, "gone")
        gone.subscribe("room:half")
        room.until({"watcher": 1, "gone": 1})
        time.sleep(7)
        assert two.stop() == 0
        room.until({"watcher": 1}, 20)


def test_a_node_that_stops_while_redis_stands_still_leaves_its_members_for_the_grace_all_the_same(start):
    """For longer than a link waits for an answer: it's lost, and made again."""
    redis = start(RedisServer)
    timers = {"presence.heartbeat": "4s", "presence.lease": "60s", "presence.userTTL": "3m", "presence.hold": "6s", "presence.grace": "2s"}
    one, two = (start(Hub, name=name, redis=redis.url, settings=FAST | timers | {"presence.gapMax": "20s"}) for name in ("n1", "n2"))
    with Client(one, "watcher") as watcher:
        room = Room(watcher, "room:still")
        clients = [Client(two, f"gone{number}") for number in range(3)]
        for client in clients:
            client.subscribe("room:still")
        room.until({"watcher": 1} | {f"gone{number}": 1 for number in range(3)})
        time.sleep(7)
        redis.signal(signal.SIGSTOP)
        two.signal(signal.SIGTERM)
        time.sleep(4)
        redis.signal(signal.SIGCONT)
        assert two.wait() == 0
        room.until({"watcher": 1}, 25)


@pytest.mark.parametrize("stands", [2, 5], ids=["unnoticed", "noticed"])
def test_who_would_leave_while_redis_stands_still_is_awaited_from_when_it_goes_on(start, stands):
    redis = start(RedisServer)
    one, two = (start(Hub, name=name, redis=redis.url, settings=UNHURRIED | {"presence.grace": "4s"}) for name in ("n1", "n2"))
    with Client(two, "watcher") as watcher:
        room = Room(watcher, "room:still")
        names = ("lostBack", "lostGone", "leftBack", "leftGone")
        clients = {name: Client(one, name, device="d") for name in names}
        for client in clients.values():
            client.subscribe("room:still")
        room.until({"watcher": 1} | {name: 1 for name in names})
        # The grace of those who are lost ends while Redis stands still, and before a node may find that out.
        clients["lostBack"].vanish()
        clients["lostGone"].vanish()
        time.sleep(3.6)
        redis.signal(signal.SIGSTOP)
        clients["leftBack"].leave()
        clients["leftGone"].leave()
        time.sleep(stands)
        redis.signal(signal.SIGCONT)
        goesOn = time.monotonic()
        frames = watcher.gather(1)
        # Whichever node they come to: n1 may be without Redis for a moment yet.
        eventually(lambda: request(f"{two.url}/readyz")[0] == 200, 30)
        back = [Client(two, name, device="d") for name in ("lostBack", "leftBack")]
        for client in back:
            client.subscribe("room:still")
        frames += watcher.gather(max(0.01, goesOn + 3 - time.monotonic()))
        assert not [frame for frame in frames if frame["type"] == "members" and "left" in frame], frames
        for frame in frames:
            if frame["type"] == "members":
                room.apply(frame)
        room.until({"watcher": 1, "lostBack": 1, "leftBack": 1}, 25)
        left = sorted(user for frame in room.frames for user in frame.get("left", []))
        assert left == ["leftGone", "lostGone"], room.frames
        # That Redis stood still is no fault of a call.
        assert "members.refused" not in one.log
        for client in back:
            client.leave()


def test_a_node_that_stops_waits_for_a_redis_that_is_away_but_not_for_long(start):
    redis = start(RedisServer)
    hub = start(Hub, redis=redis.url, settings={"deadlines.shutdown": "120s"})
    with Client(hub, "alice") as alice:
        alice.subscribe("room:away")
        redis.kill()
        alice.expect(event="degraded")
        began = time.monotonic()
        hub.signal(signal.SIGTERM)
        assert hub.wait(60) == 0
    assert time.monotonic() - began > 2.5


def test_a_node_that_stops_leaves_nobody_out_who_came_a_moment_before(start):
    """What loops told of their connections before they knew of the stop counts for nothing."""
    redis = start(RedisServer)
    timers = {"presence.heartbeat": "4s", "presence.lease": "60s", "presence.userTTL": "3m", "presence.hold": "6s", "presence.grace": "2s"}
    settings = FAST | timers | {"deadlines.close": "1s"}
    near = start(Hub, name="n1", redis=redis.url, settings=settings)
    # The first sweep of an empty Redis begins a hold.
    time.sleep(7)
    users = [f"late{number}" for number in range(10)]
    nodes = [start(Hub, name=f"late{number}", redis=redis.url, settings=settings) for number in range(10)]
    sockets = []
    for place, (node, user) in enumerate(zip(nodes, users)):
        # They answer no close frame.
        sockets.append(raw_socket(node, user))
        time.sleep(0.02 * place)
        node.signal(signal.SIGTERM)
    for node in nodes:
        assert node.wait() == 0
    for user in users:
        eventually(lambda: request(f"{near.url}/v1/presence/{user}")[2]["status"] == "offline", 20, "it's lost, and its lease of a minute isn't waited for")


def test_who_comes_and_is_lost_again_and_again_is_a_few_devices_and_nobody_waits_for_it(start):
    hub = start(Hub, settings={"presence.grace": "30s"})
    with Client(hub, "watcher") as watcher:
        room = Room(watcher, "room:flap")
        for _ in range(40):
            flapping = Client(hub, "flappy")
            flapping.subscribe("room:flap")
            flapping.vanish()
        eventually(lambda: listed(hub, "room:flap") == {"watcher": 1, "flappy": 4}, what="four are awaited")
        room.until({"watcher": 1, "flappy": 4})
