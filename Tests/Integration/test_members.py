"""Who is in a channel: joined, left and updated over two nodes, in every mode, and after a node's death. docs/protocol.md, members."""

import signal
import time

import pytest
from client import Client
from hub import BINARIES, FAST, Hub, Process, RedisServer, eventually, hubctl, request
from redises import Redis, fnv1a, hub_partitions

# Lease, an eighth of a heartbeat, and room for a loaded machine.
GONE = 2.4 + 12


class Room:
    """What a follower makes of what it is told, by the protocol's rule alone."""

    def __init__(self, client, channel):
        self.client, self.channel = client, channel
        self.frames, self.arrivals, self.gaps = [], [], 0
        ack = client.request("subscribe", channel=channel, members=True)
        self.take_list(ack)

    def take_list(self, message):
        self.mode, self.sequence, self.occupancy = message["mode"], message["sequence"], message["occupancy"]
        self.members = {member["user"]: member["devices"] for member in message["members"]}

    def apply(self, frame):
        self.frames.append(frame)
        self.arrivals.append(time.monotonic())
        joined = {member["user"] for member in frame.get("joined", [])}
        left, updated = set(frame.get("left", [])), {member["user"] for member in frame.get("updated", [])}
        assert not joined & left and not joined & updated and not left & updated, frame
        self.mode, self.occupancy = frame["mode"], frame["occupancy"]
        if "members" in frame:
            self.take_list(frame)
        elif frame["mode"] == "counts":
            self.members, self.sequence = {}, frame["sequence"]
        elif frame["previous"] != self.sequence:
            self.gaps += 1
            self.take_list(self.client.request("members", channel=self.channel))
        else:
            assert frame["sequence"] > self.sequence
            assert not joined & set(self.members) and left <= set(self.members) and updated <= set(self.members), (frame, self.members)
            for member in frame.get("joined", []) + frame.get("updated", []):
                self.members[member["user"]] = member["devices"]
            for user in left:
                del self.members[user]
            self.sequence = frame["sequence"]
            assert frame["occupancy"] == len(self.members)

    def next(self, seconds=15):
        frame = self.client.expect(seconds=seconds, type="members", channel=self.channel)
        self.apply(frame)
        return frame

    def until(self, members, seconds=15):
        deadline = time.monotonic() + seconds
        while self.members != members:
            try:
                self.next(max(0.01, deadline - time.monotonic()))
            except AssertionError as error:
                raise AssertionError(f"{self.members} isn't {members}: {error}") from None


@pytest.fixture(params=["embedded", "redis"])
def pair(request, start):
    """Two nodes of one Redis, or one node twice."""
    if request.param == "embedded":
        hub = start(Hub, settings=FAST)
        return hub, hub
    redis = start(RedisServer)
    return tuple(start(Hub, name=name, redis=redis.url, settings=FAST) for name in ("n1", "n2"))


def test_join_leave_and_update_are_three_different_events_on_every_node(pair):
    one, two = pair
    with Client(one, "alice") as alice, Client(two, "bob") as bob:
        first = Room(alice, "room:m")
        first.until({"alice": 1})
        second = Room(bob, "room:m")
        second.until({"alice": 1, "bob": 1})
        assert first.next()["joined"] == [{"user": "bob", "devices": 1}]
        tablet = Client(two, "alice", device="tablet")
        # Without members: only how many, where the node knows it.
        assert tablet.subscribe("room:m")["occupancy"] == 2
        assert first.next()["updated"] == [{"user": "alice", "devices": 2}]
        assert second.next()["updated"] == [{"user": "alice", "devices": 2}]
        tablet.request("unsubscribe", channel="room:m")
        assert first.next()["updated"] == [{"user": "alice", "devices": 1}]
        bob.request("unsubscribe", channel="room:m")
        assert first.next()["left"] == ["bob"]
        assert first.gaps == 0 and {frame["mode"] for frame in first.frames} == {"each"}
        tablet.leave()


def test_the_list_and_what_follows_it_lose_and_repeat_nothing(pair):
    one, two = pair
    with Client(one, "watcher") as watcher:
        crowd = []
        for number in range(12):
            client = Client((one, two)[number % 2], f"u{number}")
            client.subscribe("room:s")
            crowd.append(client)
            if number == 5:
                room = Room(watcher, "room:s")
        expected = {"watcher": 1, **{f"u{number}": 1 for number in range(12)}}
        room.until(expected)
        for client in crowd[:6]:
            client.leave()
        room.until({"watcher": 1, **{f"u{number}": 1 for number in range(6, 12)}})
        assert room.gaps == 0
        listed = watcher.request("members", channel="room:s")
        assert {member["user"]: member["devices"] for member in listed["members"]} == room.members
        assert listed["sequence"] == room.sequence and "cursor" not in listed


def test_a_page_that_is_loaded_again_is_no_change_and_a_lost_connection_leaves_after_the_grace(start):
    redis = start(RedisServer)
    hubs = [start(Hub, name=name, redis=redis.url, settings=FAST | {"presence.grace": "3s"}) for name in ("n1", "n2")]
    with Client(hubs[0], "watcher") as watcher:
        room = Room(watcher, "room:g")
        bob = Client(hubs[0], "bob", device="page")
        bob.subscribe("room:g")
        room.until({"watcher": 1, "bob": 1})
        bob.vanish()
        bob = Client(hubs[0], "bob", device="page")
        bob.subscribe("room:g")
        # Past the grace, nothing was told.
        frames = [message for message in watcher.gather(4.5) if message["type"] == "members"]
        assert frames == []
        # On another node the device may be seen twice, but bob never leaves.
        bob.vanish()
        bob = Client(hubs[1], "bob", device="page")
        bob.subscribe("room:g")
        frames = [message for message in watcher.gather(4.5) if message["type"] == "members"]
        for frame in frames:
            room.apply(frame)
            assert "left" not in frame and "joined" not in frame
        room.until({"watcher": 1, "bob": 1})
        bob.vanish()
        gone = time.monotonic()
        assert room.next()["left"] == ["bob"]
        assert time.monotonic() - gone > 2


def test_whoever_hides_is_no_member_and_api_keys_are_nobody(start, tmp_path):
    hub = start(Hub, settings=FAST)
    with Client(hub, "watcher") as watcher:
        room = Room(watcher, "room:h")
        room.until({"watcher": 1})
        bob = Client(hub, "bob")
        bob.request("presence", payload={"status": "invisible"})
        bob.subscribe("room:h")
        carol = Client(hub, "carol")
        carol.subscribe("room:h")
        assert room.next()["joined"] == [{"user": "carol", "devices": 1}]
        bob.request("presence", payload={"status": "online"})
        assert room.next()["joined"] == [{"user": "bob", "devices": 1}]
        bob.request("presence", payload={"status": "invisible"})
        assert room.next()["left"] == ["bob"]
        for client in (bob, carol):
            client.leave()


def test_a_dead_node_s_members_leave_once(start):
    redis = start(RedisServer)
    one, two = (start(Hub, name=name, redis=redis.url, settings=FAST) for name in ("n1", "n2"))
    with Client(one, "watcher") as watcher, Client(one, "stays") as stays:
        stays.subscribe("room:k")
        room = Room(watcher, "room:k")
        doomed = [Client(two, f"d{number}") for number in range(20)]
        both = Client(two, "stays", device="second")
        for client in (*doomed, both):
            client.subscribe("room:k")
        room.until({"watcher": 1, "stays": 2, **{f"d{number}": 1 for number in range(20)}})
        two.signal(signal.SIGKILL)
        room.until({"watcher": 1, "stays": 1}, GONE)
        left = [user for frame in room.frames for user in frame.get("left", [])]
        assert sorted(left) == sorted(f"d{number}" for number in range(20))
        eventually(lambda: one.metric("hub_members_reaped_total") == 20)
        # Nothing of it is left in Redis.
        assert redis.command("ZCARD", "hub:{%s}:ml:room:k" % tag_of("room:k")) == ":1"


def tag_of(channel):
    return hub_partitions()[fnv1a(channel) % 256][0]


def test_a_node_that_wakes_up_late_is_in_the_channel_again(start):
    redis = start(RedisServer)
    one, two = (start(Hub, name=name, redis=redis.url, settings=FAST) for name in ("n1", "n2"))
    with Client(one, "watcher") as watcher, Client(two, "sleeper") as sleeper:
        sleeper.subscribe("room:z")
        room = Room(watcher, "room:z")
        room.until({"watcher": 1, "sleeper": 1})
        two.signal(signal.SIGSTOP)
        room.until({"watcher": 1}, GONE)
        two.signal(signal.SIGCONT)
        room.until({"watcher": 1, "sleeper": 1})


def test_members_stay_through_a_restart_of_redis_without_data(start):
    redis = start(RedisServer)
    hubs = [start(Hub, name=name, redis=redis.url, settings=FAST) for name in ("n1", "n2")]
    with Client(hubs[0], "watcher") as watcher, Client(hubs[1], "far") as far, Client(hubs[0], "near") as near:
        far.subscribe("room:r")
        near.subscribe("room:r")
        room = Room(watcher, "room:r")
        room.until({"watcher": 1, "far": 1, "near": 1})
        redis.kill()
        again = start(RedisServer, port=redis.port)
        for hub in hubs:
            hub.wait_ready()
        late = Client(hubs[1], "late")
        late.subscribe("room:r")
        room.until({"watcher": 1, "far": 1, "near": 1, "late": 1}, 30)
        for message in watcher.gather(3):
            if message["type"] == "members":
                room.apply(message)
        assert room.members == {"watcher": 1, "far": 1, "near": 1, "late": 1}
        assert [user for frame in room.frames for user in frame.get("left", [])] == []
        eventually(lambda: request(f"{hubs[1].url}/v1/channels/room%3Ar/members")[2]["occupancy"] == 4, what="the store has all again")
        assert again.is_running


# Leases that outlive a stall.
UNHURRIED = FAST | {"presence.heartbeat": "2400ms", "presence.lease": "7200ms", "presence.userTTL": "30s", "presence.gapMax": "3200ms", "presence.hold": "4s"}


def listed(hub, channel):
    page = request(f"{hub.url}/v1/channels/{channel.replace(':', '%3A')}/members")[2]
    return {member["user"]: member["devices"] for member in page["members"]}


def test_who_leaves_while_the_call_that_says_they_came_is_under_way_is_gone(start):
    redis = start(RedisServer)
    one, two = (start(Hub, name=name, redis=redis.url, settings=UNHURRIED) for name in ("n1", "n2"))
    with Client(two, "watcher") as watcher:
        room = Room(watcher, "room:w")
        room.until({"watcher": 1})
        crowd = {user: Client(one, user) for user in ("unsubscribes", "leaves", "stays")}
        for client in crowd.values():
            client.send({"type": "subscribe", "id": 800, "channel": "room:w"})
        for client in crowd.values():
            client.expect(type="ack", id=800)
        redis.command("CLIENT", "PAUSE", "1800", "ALL")
        time.sleep(0.9)
        crowd["unsubscribes"].send({"type": "unsubscribe", "id": 801, "channel": "room:w"})
        crowd["leaves"].leave()
        room.until({"watcher": 1, "stays": 1})
        eventually(lambda: listed(one, "room:w") == {"watcher": 1, "stays": 1}, 15, "those who went are gone")
        for message in watcher.gather(6):
            if message["type"] == "members":
                room.apply(message)
        assert room.members == listed(one, "room:w") == listed(two, "room:w") == {"watcher": 1, "stays": 1}
        for client in (crowd["unsubscribes"], crowd["stays"]):
            client.leave()


def test_members_are_right_after_redis_comes_back_with_older_data(start):
    redis = start(RedisServer)
    one, two = hubs = [start(Hub, name=name, redis=redis.url, settings=UNHURRIED) for name in ("n1", "n2")]
    with Client(one, "watcher") as watcher:
        room = Room(watcher, "room:o")
        crowd = {user: Client(two, user) for user in ("stays", "leaves", "unsubscribes", "hides")}
        for client in crowd.values():
            client.subscribe("room:o")
        crowd["leaves"].subscribe("room:alone")
        room.until({"watcher": 1, **{user: 1 for user in crowd}})
        eventually(lambda: listed(two, "room:alone") == {"leaves": 1}, what="alone")
        assert redis.command("SAVE") == "+OK"
        crowd["leaves"].leave()
        crowd["unsubscribes"].request("unsubscribe", channel="room:o")
        crowd["hides"].request("presence", payload={"status": "invisible"})
        late, tablet = Client(two, "late"), Client(two, "stays", device="second")
        for client in (late, tablet):
            client.subscribe("room:o")
        truth = {"watcher": 1, "stays": 2, "late": 1}
        room.until(truth)
        eventually(lambda: listed(two, "room:alone") == {}, what="nobody is left")
        redis.kill()
        start(RedisServer, port=redis.port)
        for hub in hubs:
            hub.wait_ready()
        told = len(room.frames)
        # Within a look at each channel; long before a lease has ended.
        eventually(lambda: listed(two, "room:o") == truth and listed(two, "room:alone") == {}, 3, "all is said again")
        for message in watcher.gather(8):
            if message["type"] == "members":
                room.apply(message)
        assert room.frames[told:] == [], "nobody came, nobody went"
        assert listed(one, "room:o") == listed(two, "room:o") == truth
        with Client(two, "new") as new:
            answer = new.request("subscribe", channel="room:o", members=True)
            assert {member["user"] for member in answer["members"]} - {"new"} == set(truth)
            assert answer["sequence"] > room.sequence
        room.until(truth | {"new": 1})
        for client in (crowd["stays"], crowd["unsubscribes"], crowd["hides"], late, tablet):
            client.leave()


def test_a_growing_channel_goes_from_single_changes_to_batches_to_counts_and_back(start):
    redis = start(RedisServer)
    settings = FAST | {"namespaces.hall.members.threshold": "20"}
    one, two = (start(Hub, name=name, redis=redis.url, settings=settings) for name in ("n1", "n2"))
    with Client(one, "watcher") as watcher:
        room = Room(watcher, "hall:1")
        crowd = []

        def grow(to):
            while len(crowd) < to:
                crowd.append(Client((one, two)[len(crowd) % 2], f"u{len(crowd)}"))
                crowd[-1].subscribe("hall:1")

        def everybody():
            return {"watcher": 1, **{f"u{number}": 1 for number in range(len(crowd))}}

        grow(3)
        room.until(everybody())
        assert room.mode == "each"
        grow(12)
        room.until(everybody())
        assert room.mode == "batched"
        grow(25)
        eventually(lambda: room.next()["mode"] == "counts", what="counts")
        while room.occupancy < 26:
            assert room.next()["mode"] == "counts"
        # The list comes by asking, in pages.
        page = watcher.request("members", channel="hall:1")
        assert page["mode"] == "counts" and page["occupancy"] == 26
        # A follower who comes now gets a page too.
        with Client(two, "late") as late:
            assert late.request("subscribe", channel="hall:1", members=True)["mode"] == "counts"
        while len(crowd) > 2:
            crowd.pop().leave()
        room.until(everybody(), 20)
        assert room.mode in ("each", "batched") and room.gaps == 0
        assert any("members" in frame for frame in room.frames)
        assert_pace(room)
        for client in crowd:
            client.leave()


def assert_pace(room):
    """No more than four frames in any second; the clock is the reader's, so a frame may be late and the next one on time."""
    times = room.arrivals
    for first in range(len(times) - 6):
        assert times[first + 6] - times[first] > 0.9, f"seven frames within {times[first + 6] - times[first]:.2f} s"


@pytest.mark.parametrize("kind", ["embedded", "redis"])
def test_a_page_of_members_by_http_and_hubctl(start, kind):
    redis = start(RedisServer).url if kind == "redis" else None
    hub = start(Hub, redis=redis, settings=FAST | {"namespaces.hall.members.threshold": "10", "namespaces.dm.presence": "false"})
    crowd = [Client(hub, f"u{number}") for number in range(3)]
    for client in crowd:
        client.subscribe("hall:2")
    eventually(lambda: request(f"{hub.url}/v1/channels/hall%3A2/members")[2]["occupancy"] == 3, what="three members")
    status, headers, page = request(f"{hub.url}/v1/channels/hall%3A2/members")
    assert status == 200 and headers["Cache-Control"] == "no-store"
    assert sorted(member["user"] for member in page["members"]) == ["u0", "u1", "u2"] and page["mode"] == "batched"
    assert request(f"{hub.url}/v1/channels/nobody%3A1/members")[2]["occupancy"] == 0
    # A number that Redis would take for no cursor isn't one either.
    for cursor in ("x", "18446744073709551616", "99999999999999999999", "100000000000000000000"):
        status, _, page = request(f"{hub.url}/v1/channels/hall%3A2/members?cursor={cursor}")
        assert (status, page["error"]["code"]) == (400, "badPosition"), (cursor, page)
        assert crowd[0].try_request("members", channel="hall:2", cursor=cursor)["code"] == "badPosition"
    assert request(f"{hub.url}/v1/channels/hall%3A2/members?cursor=18446744073709551615")[0] == 200
    assert request(f"{hub.url}/v1/channels/dm%3A1/members")[2]["error"]["code"] == "forbidden"
    assert request(f"{hub.url}/v1/channels/user%3Au0/members")[2]["error"]["code"] == "forbidden"
    shown = hubctl(hub, "members", "hall:2")
    assert shown.returncode == 0 and "u1" in shown.stdout and "3 members" in shown.stdout, shown
    answer = crowd[0].request("subscribe", channel="dm:1", members=True)
    assert "members" not in answer and "occupancy" not in answer
    refused = crowd[0].try_request("members", channel="dm:1")
    assert refused["code"] == "forbidden"
    assert crowd[0].try_request("members", channel="hall:2", cursor="-1")["code"] == "badPosition"
    for client in crowd:
        client.leave()


@pytest.mark.parametrize("bots", [1500, pytest.param(10_000, marks=pytest.mark.long)])
def test_a_crowd_that_comes_and_dies_with_its_node_costs_a_follower_four_frames_a_second(start, tmp_path, bots):
    redis = start(Redis)
    settings = FAST | {"presence.grace": "2s"}
    near, far = (start(Hub, name=name, redis=redis.url, settings=settings) for name in ("n1", "n2"))
    swarm = start(lambda folder, *arguments: Process("swarm", [BINARIES / "hub-swarm", *arguments], folder),
                  "--url", far.url, "--bots", bots, "--rooms", "1", "--rate", "0.000001", "--seconds", "300", "--connect-rate", "1000")

    def channel():
        keys = redis.call("KEYS", "*:mm:swarm:*")
        return keys and keys[0].split(":mm:")[1]

    name = eventually(channel, 60, "the swarm's room is there")
    with Client(near, "watcher") as watcher:
        room = Room(watcher, name)
        began, frames = time.monotonic(), lambda: sum(near.metric(f'hub_member_frames_total{{mode="{mode}"}}') for mode in ("each", "batched", "counts"))
        deadline = time.monotonic() + 60 + bots / 50
        while room.occupancy < bots + 1:
            assert swarm.is_running and time.monotonic() < deadline, (room.occupancy, swarm.log)
            room.next(30)
        assert room.mode == "counts"
        filled = frames()
        assert filled <= 4 * (time.monotonic() - began) + 1
        # A page at a time, everybody is there.
        page = watcher.request("members", channel=name)
        found = {member["user"] for member in page["members"]}
        while "cursor" in page:
            page = watcher.request("members", channel=name, cursor=page["cursor"])
            found |= {member["user"] for member in page["members"]}
        assert len(found) == bots + 1
        died = time.monotonic()
        far.signal(signal.SIGKILL)
        swarm.kill()
        while room.members != {"watcher": 1}:
            assert time.monotonic() < died + 60, (room.mode, room.occupancy)
            room.next(30)
        eventually(lambda: near.metric("hub_members_reaped_total") == bots)
        # Whatever a loaded machine does to arrivals, the node's own count and the clock don't lie.
        assert frames() - filled <= 4 * (time.monotonic() - died) + 1
        eventually(lambda: len(room.frames) <= frames())
        print(f"{bots}: {filled} frames to fill in {died - began:.1f} s, {frames() - filled} until empty after {time.monotonic() - died:.1f} s")
        assert room.gaps == 0


def test_a_follower_who_reads_slowly_sees_that_it_missed_something_and_repairs_it(start):
    hub = start(Hub, settings=FAST | {"limits.outboundBytes": "70KB", "limits.messageBytes": "64KB"})
    with Client(hub, "slow") as slow, Client(hub, "busy") as busy:
        room = Room(slow, "room:slow")
        room.until({"slow": 1})
        # More than the sockets hold; then the queue grows slowly past its half, where what is out of date is left out.
        slow.subscribe("room:filler")
        stuffed = 0
        while hub.metric("hub_send_memory_bytes") == 0 and stuffed < 1_000:
            busy.chat("room:filler", "x" * 10_000)
            stuffed += 1
        crowd = []
        while hub.metric('hub_drops_total{class="presence"}') == 0 and len(crowd) < 40:
            crowd.append(Client(hub, f"c{len(crowd)}"))
            crowd[-1].subscribe("room:slow")
            busy.chat("room:filler", "x" * 2_000)
            time.sleep(0.35)
        assert hub.metric('hub_drops_total{class="presence"}') > 0
        room.until({"slow": 1, **{f"c{number}": 1 for number in range(len(crowd))}}, 30)
        assert room.gaps >= 1
        for client in crowd:
            client.leave()
