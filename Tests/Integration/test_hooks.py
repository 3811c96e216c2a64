"""Webhooks to a receiver that fails, by nodes that die: docs/hooks.md's promises with real processes."""

import os
import random
import signal
import time
import urllib.parse

import pytest
from client import Client
from faultclock import Clock
from hooks import SECRET, Receiver, settings, verify
from hub import FAST, Hub, RedisServer, eventually, request
from redises import Cluster, fnv1a, hub_partitions

QUICK = {**FAST, "presence.grace": "200ms"}
# A store that has just begun holds leaves back (presence.hold): who comes again within that time was never away.
WARM = 4


@pytest.fixture
def receiver():
    receiver = Receiver()
    yield receiver
    receiver.stop()


def begin(start, receiver, redis=None, names=("hub",), **more):
    """Nodes on a store that is warm."""
    hubs = [start(Hub, name=name, redis=redis and redis.url, settings={**QUICK, **settings(receiver, **more)}) for name in names]
    time.sleep(WARM)
    return hubs if len(hubs) > 1 else hubs[0]


def flap(hub, user, times):
    """The user comes and leaves, again and again; each is stored before the next, so that each is a transition."""
    for _ in range(times):
        client = Client(hub, user=user)
        client.request("presence", payload={"status": "online"})
        client.socket.close(code=1000)
        place = f"{hub.url}/v1/presence/{urllib.parse.quote(user, safe='')}"
        eventually(lambda: request(place)[2]["status"] == "offline", 30, f"{user} is offline")


def expect_types(receiver, user, types, seconds=60):
    try:
        eventually(lambda: receiver.types(user) == types, seconds)
    except AssertionError:
        raise AssertionError(f"{user}: not {types} within {seconds} s, but {receiver.types(user)}") from None


@pytest.mark.parametrize("kind", ["embedded", "redis", "cluster"])
def test_a_backend_is_told_who_came_and_went_signed_and_once(start, receiver, kind):
    redis = start(RedisServer) if kind == "redis" else None
    hub = begin(start, receiver, redis, **(Cluster(start).settings if kind == "cluster" else {}))
    flap(hub, 'ann "é" |', 2)
    expect_types(receiver, 'ann "é" |', ["user.online", "user.offline"] * 2)
    events = receiver.of('ann "é" |')
    now = time.time() * 1000
    for event in events:
        assert set(event) == {"id", "type", "user", "status", "version", "time"} | ({"lastSeen"} if event["type"] == "user.offline" else set())
        assert event["status"] == event["type"].removeprefix("user.")
        assert abs(now - event["time"]) < 120_000
    assert len(receiver.taken) == len(receiver.first) == 4
    assert not receiver.refused and not receiver.complaints()
    _, headers, body, _ = receiver.requests[0]
    assert headers["Content-Type"] == "application/json" and headers["User-Agent"].startswith("hubd/")
    assert eventually(lambda: hub.metric("hub_hook_events_delivered_total") == 4)
    assert eventually(lambda: hub.metric("hub_hook_queue_events") == 0, what="the queue is empty again")
    # What somebody else sends, or sends again later, isn't believed.
    for changed, secrets, late in ((body + b" ", (SECRET,), 0), (body, ("another",), 0), (body, (SECRET,), 400)):
        with pytest.raises(ValueError):
            verify(headers, changed, secrets, late)


def test_nodes_whose_clocks_are_an_hour_off_sign_with_redis_s_time(start, receiver, tmp_path):
    redis, clocks = start(RedisServer), (Clock(tmp_path, "ahead"), Clock(tmp_path, "behind"))
    for clock, seconds in zip(clocks, (3600, -3600)):
        clock.set(seconds)
    hubs = [
        start(Hub, name=name, redis=redis.url, settings={**QUICK, **settings(receiver)}, prefix=clock.prefix)
        for name, clock in zip(("ahead", "behind"), clocks)]
    time.sleep(WARM)
    users = [f"clock-{number}" for number in range(24)]
    clients = [Client(hubs[number % 2], user=user) for number, user in enumerate(users)]
    for user in users:
        expect_types(receiver, user, ["user.online"], 30)
    assert not receiver.refused
    eventually(lambda: all(hub.metric("hub_hook_events_delivered_total") > 0 for hub in hubs))
    for client in clients:
        client.socket.close(code=1000)


def test_kinds_are_told_as_asked_and_the_secret_and_the_address_change_live(start, receiver, tmp_path):
    config = tmp_path / "hub.json5"

    def write(url, secrets, events):
        config.write_text(f"{{hooks: {{url: '{url}', secret: {secrets}, events: {events}, lease: '2s'}}, presence: {{awayAfter: '500ms'}}}}")

    write(receiver.url, "[{secret: 'the first of the secrets'}, {secret: 'the next of the secrets'}]", "['user.status']")
    receiver.secrets = ("the next of the secrets",)
    hub = start(Hub, config=config, settings={key: value for key, value in QUICK.items() if key != "presence.awayAfter"})
    time.sleep(WARM)
    client = Client(hub, user="ann")
    eventually(lambda: receiver.types("ann") == ["user.status"], 30, "away is told, online isn't")
    assert receiver.of("ann")[0]["status"] == "away"

    other = Receiver(secrets=("the third of the secrets",))
    write(other.url, "'the third of the secrets'", "['user.offline']")
    hub.signal(signal.SIGHUP)
    hub.expect_log("configuration.reloaded")
    client.socket.close(code=1000)
    eventually(lambda: other.types("ann") == ["user.offline"], 30, "the new address is told of the new kind")
    assert not receiver.refused and not other.refused
    assert "secret-path" not in hub.log and "of the secrets" not in hub.log
    other.stop()


def test_a_channel_whose_nodes_all_die_at_once_is_vacated_once_whoever_comes_next(start, receiver):
    redis = start(RedisServer)
    hubs = begin(start, receiver, redis, ("north", "south"))
    clients = {f"{hub.name}-{number}": Client(hub, user=f"{hub.name}-{number}") for hub in hubs for number in range(3)}
    rooms = [f"room:{number}" for number in range(5)]
    for number, client in enumerate(clients.values()):
        client.subscribe(rooms[number % len(rooms)])
        client.subscribe("room:whole")
    for room in [*rooms, "room:whole"]:
        expect_types(receiver, room, ["channel.occupied"])
    for hub in hubs:
        hub.signal(signal.SIGKILL)
    for hub in hubs:
        hub.wait()
    # Nobody is there to tell anybody, until a node comes that had nothing to do with any of these channels.
    time.sleep(3)
    east = start(Hub, name="east", redis=redis.url, settings={**QUICK, **settings(receiver)})
    for room in [*rooms, "room:whole"]:
        expect_types(receiver, room, ["channel.occupied", "channel.vacated"])
    for user in clients:
        expect_types(receiver, user, ["user.online", "user.offline"])
    east.expect_log("members.swept")
    assert request(f"{east.url}/v1/channels/room%3Awhole/members")[2]["occupancy"] == 0
    # Somebody comes again: that's told as new, and nothing else is.
    with Client(east, user="late") as late:
        late.subscribe("room:whole")
        expect_types(receiver, "room:whole", ["channel.occupied", "channel.vacated", "channel.occupied"])
    expect_types(receiver, "room:whole", ["channel.occupied", "channel.vacated"] * 2)
    assert all(receiver.types(room) == ["channel.occupied", "channel.vacated"] for room in rooms)
    assert not receiver.complaints() and receiver.lost == 0
    assert redis.command("KEYS", "*:mo") == "*0", "no occupied channel is left behind"


@pytest.mark.long
def test_whichever_nodes_die_and_however_many_channels_are_told_in_turns(start, receiver):
    redis = start(RedisServer)
    seed = int(os.environ.get("FAULT_SEED") or random.randrange(2**32))
    chance = random.Random(seed)
    print(f"FAULT_SEED={seed}")

    def node(name):
        # A user's record outlives the time without any node, as docs/hooks.md says.
        return start(Hub, name=name, redis=redis.url, settings={**QUICK, "presence.userTTL": "120s", **settings(receiver)})

    hubs = {name: node(name) for name in ("north", "south", "east")}
    time.sleep(WARM)
    rooms = [f"room:{number}" for number in range(8)]
    clients = []
    until = time.monotonic() + int(os.environ.get("FAULT_SECONDS", "120"))
    while time.monotonic() < until:
        for _ in range(chance.randrange(6)):
            name = chance.choice(list(hubs))
            client = Client(hubs[name], user=f"user-{chance.randrange(12)}", device=f"device-{len(clients)}")
            for room in chance.sample(rooms, chance.randrange(1, 4)):
                # A node that has only just come, on a busy machine, may refuse one.
                client.try_request("subscribe", channel=room)
            clients.append((name, client))
        for place in chance.sample(range(len(clients)), min(len(clients), chance.randrange(5))):
            chance.choice([clients[place][1].leave, clients[place][1].vanish])()
            clients[place] = None
        clients = [entry for entry in clients if entry]
        if chance.random() < 0.4:
            dead = chance.sample(list(hubs), chance.choice([1, 2, 3, 3]))
            for name in dead:
                hubs[name].signal(signal.SIGKILL)
            for name in dead:
                hubs[name].wait()
            clients = [(name, client) for name, client in clients if name not in dead]
            time.sleep(chance.uniform(0, 5))
            for name in dead:
                hubs[name] = node(name)
        else:
            time.sleep(chance.uniform(0, 2))
    for _, client in clients:
        client.leave()
    for room in rooms:
        eventually(lambda: not receiver.types(room) or receiver.types(room)[-1] == "channel.vacated", 60, f"{room} is vacated: {receiver.types(room)}")
    time.sleep(3)
    told = [len(receiver.types(room)) for room in rooms]
    print(f"{sum(told)} events of {len(rooms)} channels")
    assert sum(told) > len(rooms) and not receiver.complaints() and receiver.lost == 0
    assert redis.command("KEYS", "*:mo") == "*0"


def test_members_whose_keys_ended_before_any_node_came_are_vacated_too(start, receiver):
    redis = start(RedisServer)
    north = begin(start, receiver, redis, ("north",))
    Client(north, user="ann").subscribe("room:ended")
    expect_types(receiver, "room:ended", ["channel.occupied"])
    north.signal(signal.SIGKILL)
    north.wait()
    # As after five minutes.
    tag = hub_partitions()[fnv1a("room:ended") % 256][0]
    for kind in ("ml", "mm", "mu"):
        assert redis.command("DEL", f"hub:{{{tag}}}:{kind}:room:ended") == ":1"
    start(Hub, name="south", redis=redis.url, settings={**QUICK, **settings(receiver)})
    expect_types(receiver, "room:ended", ["channel.occupied", "channel.vacated"])
    assert not receiver.complaints()


def test_a_reload_beside_invisible_connections_is_no_event_for_backends_either(start, receiver):
    redis = start(RedisServer)
    hub = start(Hub, name="hub", redis=redis.url, settings={**FAST, **settings(receiver), "presence.grace": "6s"})
    hidden = Client(hub, user="rae", device="phone", status="invisible")
    page = Client(hub, user="rae", device="laptop")
    expect_types(receiver, "rae", ["user.online"])
    for _ in range(3):
        page.socket.close(1001)
        page = Client(hub, user="rae", device="laptop")
    page.leave()
    expect_types(receiver, "rae", ["user.online", "user.offline"])
    hidden.leave()
    # Nor is one told of who is only ever invisible.
    ghost = Client(hub, user="gus", status="invisible")
    ghost.leave()
    Client(hub, user="last").leave()
    expect_types(receiver, "last", ["user.online", "user.offline"])
    assert receiver.types("gus") == [] and receiver.types("rae") == ["user.online", "user.offline"]
    assert not receiver.complaints()


def test_a_dead_node_s_members_go_where_nobody_else_has_any_and_where_others_do(start, receiver):
    redis = start(RedisServer)
    north, south = begin(start, receiver, redis, ("north", "south"))
    Client(north, user="ann").subscribe("room:alone")
    Client(north, user="ann", device="laptop").subscribe("room:shared")
    # Subscribed and no member: the node has the channel, and no cause of its own to look after its members.
    ghost = Client(south, user="ghost", status="invisible")
    ghost.subscribe("room:alone")
    ben = Client(south, user="ben")
    ben.subscribe("room:shared")
    for room in ("room:alone", "room:shared"):
        expect_types(receiver, room, ["channel.occupied"])
    north.signal(signal.SIGKILL)
    north.wait()
    expect_types(receiver, "room:alone", ["channel.occupied", "channel.vacated"])
    page = f"{south.url}/v1/channels/room%3Ashared/members"
    eventually(lambda: [member["user"] for member in request(page)[2]["members"]] == ["ben"], 30, "ann is gone, ben is there")
    assert receiver.types("room:shared") == ["channel.occupied"]
    ben.leave()
    expect_types(receiver, "room:shared", ["channel.occupied", "channel.vacated"])
    assert not receiver.complaints()
    ghost.leave()


def test_after_a_redis_that_restarts_without_data_what_happens_is_told_again_and_ids_go_on(start, receiver):
    redis = start(RedisServer)
    hub = begin(start, receiver, redis)
    stays = Client(hub, user="stays")
    stays.subscribe("room:stays")
    expect_types(receiver, "stays", ["user.online"])
    expect_types(receiver, "room:stays", ["channel.occupied"])
    flap(hub, "before", 1)
    expect_types(receiver, "before", ["user.online", "user.offline"])
    receiver.status = lambda body: 500
    flap(hub, "lost", 1)
    redis.kill()
    redis = start(RedisServer, port=redis.port)
    eventually(lambda: request(f"{hub.url}/readyz")[0] == 200, 30, "the hub has the new one")
    receiver.status = lambda body: 204
    # What waited there is gone with it, as docs/hooks.md says. Who was online all the time isn't told anew; the channel begins anew.
    eventually(lambda: receiver.types("room:stays") == ["channel.occupied"] * 2, 60, f"room:stays is {receiver.types('room:stays')}")
    time.sleep(WARM)
    flap(hub, "after", 2)
    expect_types(receiver, "after", ["user.online", "user.offline"] * 2)
    stays.leave()
    expect_types(receiver, "stays", ["user.online", "user.offline"])
    expect_types(receiver, "room:stays", ["channel.occupied"] * 2 + ["channel.vacated"])
    assert len(receiver.first) == len(receiver.taken), "a new queue's ids are behind the old one's: none is taken for a repeat"
    for name in ("stays", "room:stays"):
        places = [tuple(map(int, event["id"].split("."))) for event in receiver.of(name)]
        assert places == sorted(places)


def test_who_is_back_before_the_first_sweep_was_never_away_however_long_no_node_lived(start, receiver):
    """Longer than presence.userTTL: the record of a user whose connection nobody has ended yet must outlive that."""
    redis = start(RedisServer)
    # Whoever comes within the hold is back before its old connection is found.
    timers = {"presence.hold": "6s", "presence.userTTL": "10s"}
    hub = start(Hub, name="first", redis=redis.url, settings={**QUICK, **settings(receiver), **timers})
    time.sleep(7)
    ann, bob = Client(hub, user="ann"), Client(hub, user="bob")
    expect_types(receiver, "ann", ["user.online"])
    expect_types(receiver, "bob", ["user.online"])
    hub.kill()
    time.sleep(12)
    hub = start(Hub, name="second", redis=redis.url, settings={**QUICK, **settings(receiver), **timers})
    with Client(hub, user="ann"):
        # bob doesn't come: that is told once the hold is over, and by then ann would have been told of, too.
        expect_types(receiver, "bob", ["user.online", "user.offline"])
        assert receiver.types("ann") == ["user.online"]
        assert request(f"{hub.url}/v1/presence/ann")[2]["status"] == "online"
    expect_types(receiver, "ann", ["user.online", "user.offline"])
    for client in (ann, bob):
        client.socket.close()


def test_failures_of_every_kind_cost_nothing_but_time(start, receiver):
    redis = start(RedisServer)
    hubs = begin(start, receiver, redis, ("north", "south"))
    chance = receiver.chance
    receiver.status = lambda body: chance.choice([204, 200, 500, 503, 429, 404, None, 204, 202])
    receiver.delay = lambda: chance.choice([0, 0, 0.02, 0.3, 2.5] if chance.random() < 0.1 else [0])
    users = [f"user-{number}" for number in range(12)]
    for turn in range(6):
        for user in users:
            flap(hubs[(turn + len(user)) % 2], user, 1)
    receiver.delay = lambda: 0
    for user in users:
        expect_types(receiver, user, ["user.online", "user.offline"] * 6, 120)
    assert not receiver.complaints() and not receiver.refused and receiver.lost == 0
    assert any(status is None or status >= 400 for _, _, _, status in receiver.requests)


def test_a_receiver_that_goes_away_is_found_again_and_gets_all_in_order(start, receiver):
    redis = start(RedisServer)
    hub = begin(start, receiver, redis)
    flap(hub, "before", 1)
    expect_types(receiver, "before", ["user.online", "user.offline"])
    port = receiver.port
    receiver.stop()
    users = [f"user-{number}" for number in range(20)]
    for _ in range(3):
        for user in users:
            flap(hub, user, 1)
    hub.expect_log("hooks.failing", 30)
    eventually(lambda: hub.metric("hub_hook_queue_events") >= 100, 60, "the events wait")
    eventually(lambda: hub.metric("hub_hook_oldest_milliseconds") > 0)
    # Few requests reach out while nobody is there.
    failed = hub.metric('hub_hook_requests_total{outcome="failed"}')
    time.sleep(5)
    assert hub.metric('hub_hook_requests_total{outcome="failed"}') - failed <= 20
    receiver.start(port)
    for user in users:
        expect_types(receiver, user, ["user.online", "user.offline"] * 3, 60)
    hub.expect_log("hooks.delivering")
    assert not receiver.complaints()


def test_what_a_receiver_refuses_is_given_up_by_name_and_holds_up_nobody(start, receiver):
    redis = start(RedisServer)
    hub = begin(start, receiver, redis, **{"hooks.retryMax": "100ms"})
    receiver.status = lambda body: 422 if b'"poison"' in body else 204
    flap(hub, "poison", 1)
    flap(hub, "ann", 2)
    expect_types(receiver, "ann", ["user.online", "user.offline"] * 2)
    eventually(lambda: hub.metric('hub_hook_events_lost_total{reason="refused"}') == 2, 60, "both are given up")
    hub.expect_log("hooks.refused")
    receiver.status = lambda body: 204
    flap(hub, "poison", 1)
    expect_types(receiver, "poison", ["user.online", "user.offline"])
    eventually(lambda: receiver.lost == 2, 30, "the receiver is told how many it missed")


def test_a_full_queue_loses_its_oldest_counts_them_and_tells(start, receiver):
    redis = start(RedisServer)
    hub = begin(start, receiver, redis, **{"hooks.queue": "25600"})
    eventually(lambda: redis.command("EXISTS", hook_key("ann", "hl")) == ":1", 30, "the node holds the partition")
    receiver.status = lambda body: 500
    for _ in range(130):
        flap(hub, "ann", 1)
    eventually(lambda: hub.metric('hub_hook_events_lost_total{reason="full"}') > 0, 60, "the loss is counted")
    lost = hub.metric('hub_hook_events_lost_total{reason="full"}')
    waiting = int(redis.command("XLEN", hook_key("ann", "hq"))[1:])
    assert waiting <= 200 and lost + waiting == 260, (lost, waiting)
    hub.expect_log("hooks.overflowed")
    receiver.status = lambda body: 204
    eventually(lambda: len(receiver.of("ann")) == waiting, 60, "what is left is delivered")
    assert receiver.lost == lost and not receiver.complaints()


@pytest.mark.parametrize("seed", [1, 2])
def test_nodes_that_die_or_stand_still_in_mid_delivery_lose_nothing(start, receiver, seed):
    redis = start(RedisServer)
    chance = random.Random(seed)

    def node(name):
        return start(Hub, name=name, redis=redis.url, settings={**QUICK, **settings(receiver)})

    hubs = {name: node(name) for name in ("north", "south", "east")}
    time.sleep(WARM)
    receiver.delay = lambda: 0.05 + 0.2 * receiver.chance.random()
    receiver.status = lambda body: receiver.chance.choice([204, 204, 204, 500, None])
    expected = {}

    def some_leave(hub, count):
        for _ in range(count):
            user = f"user-{chance.randrange(40)}"
            flap(hub, user, 1)
            expected[user] = expected.get(user, 0) + 1

    for name, trouble in (("north", signal.SIGKILL), ("south", signal.SIGSTOP), ("east", signal.SIGKILL), ("north", signal.SIGSTOP)):
        # Users are with the others, so that every transition is told: the deliveries are what is hit.
        safe = [hub for other, hub in hubs.items() if other != name]
        for hub in safe:
            some_leave(hub, 25)
        hubs[name].signal(trouble)
        for hub in safe:
            some_leave(hub, 10)
        if trouble == signal.SIGSTOP:
            # Longer than its lease.
            time.sleep(5)
            hubs[name].signal(signal.SIGCONT)
            eventually(lambda: hubs[name].is_running and request(f"{hubs[name].url}/readyz")[0] == 200, 30)
        else:
            hubs[name].wait()
            hubs[name] = node(name)
    receiver.status = lambda body: 204
    receiver.delay = lambda: 0
    for user, count in expected.items():
        eventually(lambda: len(receiver.of(user)) >= 2 * count, 60, f"{user}'s events have come")
    eventually(lambda: sum(hub.metric("hub_hook_queue_events") for hub in hubs.values()) == 0, 60, "all queues are empty")
    assert not receiver.complaints() and not receiver.refused and receiver.lost == 0
    assert all(len(receiver.of(user)) == 2 * count for user, count in expected.items()), {
        user: (len(receiver.of(user)), 2 * count) for user, count in expected.items()}


def test_a_redis_that_restarts_with_its_data_loses_no_event(start, receiver, tmp_path):
    options = ("--appendonly", "yes", "--appendfsync", "always")
    redis = start(RedisServer, options=options)
    hub = begin(start, receiver, redis)
    receiver.status = lambda body: 500
    for number in range(20):
        flap(hub, f"user-{number}", 1)
    eventually(lambda: hub.metric("hub_hook_queue_events") == 40, 30, "all are queued")
    redis.kill()
    redis = start(RedisServer, port=redis.port, options=options)
    receiver.status = lambda body: 204
    for number in range(20):
        expect_types(receiver, f"user-{number}", ["user.online", "user.offline"], 60)
    assert not receiver.complaints()


def test_hooks_without_a_secret_or_with_a_strange_address_stop_the_start(start, tmp_path):
    cases = (
        ({"hooks.url": "http://127.0.0.1:1/x"}, "hooks.secret"), ({"hooks.url": "ftp://127.0.0.1/", "hooks.secret": SECRET}, "hooks.url"),
        ({"hooks.url": "http://u:pw12345@127.0.0.1/", "hooks.secret": SECRET}, "hooks.url"), ({"hooks.secret": "short"}, "hooks.secret"),
        ({"hooks.url": "http://127.0.0.1:1/", "hooks.secret": "short"}, "16"), ({"hooks.events": "user.gone"}, "user.online"),
    )
    for given, word in cases:
        hub = start(Hub, settings=given, ready=False)
        assert hub.wait() == 2, hub.log
        assert word in hub.log and "pw12345" not in hub.log, hub.log


def hook_key(user, kind):
    return f"hub:{{{hub_partitions()[fnv1a(user) % 256][0]}}}:{kind}"
