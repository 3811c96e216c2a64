"""Presence on two nodes, from outside: many devices, dead nodes, races, clients that fidget. field-faults B01 to B11."""

import os
import signal
import subprocess
import threading
import time
from random import Random

import pytest

from client import Client, statuses
from hub import FAST, Hub, RedisServer, eventually, request, running
from relay import Relay

LEASE = 2.4
# Silence shows within two seconds; the rest are the tests' timers.
SETTINGS = {**FAST, "ping": "1200ms", "deadlines.pong": "900ms"}


@pytest.fixture(scope="module")
def nodes(folder, redis):
    one, two = (Hub(folder, name=name, redis=redis.url, settings=SETTINGS, ready=False) for name in ("one", "two"))
    with running(one, two):
        yield one.wait_ready(), two.wait_ready()


def watch(watcher, *users):
    """The users' statuses as the ack has them."""
    return {user["user"]: user["status"] for user in watcher.request("watch", users=list(users))["users"]}


def seen(watcher, user, seconds):
    """The user's changes that come within that time, and those that came before and weren't taken."""
    return statuses(watcher.gather(seconds), user)


def keys(redis, pattern):
    return subprocess.run(["redis-cli", "-p", str(redis.port), "--scan", "--pattern", pattern], capture_output=True, text=True, timeout=20).stdout.split()


def test_a_killed_node_s_users_go_offline_once_each_and_no_ghost_comes_back(start, redis, nodes):
    _, other = nodes
    doomed = start(Hub, name="doomed", redis=redis.url, settings=SETTINGS)
    users = [f"b01-{number}" for number in range(20)]
    clients = [Client(doomed, user=user) for user in users]
    with Client(other, user="b01-watcher") as watcher:
        eventually(lambda: set(watch(watcher, *users).values()) == {"online"})
        watcher.sync()
        watcher.inbox.clear()
        for key in keys(redis, "hub:*:u:b01-*") + keys(redis, "hub:*:ut:b01-*"):
            assert int(redis.command("PTTL", key)[1:]) > 0, key
        doomed.signal(signal.SIGKILL)
        doomed.wait()
        eventually(lambda: all(answer["status"] == "offline" for answer in request(f"{other.url}/v1/presence", "POST", {"users": users})[2]["users"]), 30)
        start(Hub, name="doomed", redis=redis.url, settings=SETTINGS)
        later = watcher.gather(LEASE + 1)
        for user in users:
            assert statuses(later, user) == ["offline"], user
        for partition in keys(redis, "hub:*:pl"):
            left = subprocess.run(["redis-cli", "-p", str(redis.port), "ZRANGE", partition, "0", "-1"], capture_output=True, text=True).stdout
            assert "b01-" not in left.replace("b01-watcher", "")
    for client in clients:
        client.socket.socket.close()


def close_at_once(clients):
    """Each on a thread of its own, let go together."""
    gate = threading.Barrier(len(clients))

    def close(client):
        gate.wait()
        client.leave()

    threads = [threading.Thread(target=close, args=(client,)) for client in clients]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def simultaneous_closes(nodes, rounds):
    """B02: three connections of one user, two on one node, one on the other, closed at the same instant: one offline, never 0 or 2."""
    one, two = nodes
    with Client(one, user="b02-watcher") as watcher:
        for round in range(rounds):
            user = f"b02-{round % 7}-{round}"
            assert watch(watcher, user) == {user: "offline"}
            clients = [Client(one, user=user), Client(one, user=user), Client(two, user=user)]
            watcher.presence_of(user, "online")
            # All three are there: else a close of the first two would be a transition of its own.
            eventually(lambda: len(request(f"{one.url}/v1/presence/{user}")[2]["connections"]) == 3)
            close_at_once(clients)
            watcher.presence_of(user, "offline")
            if round % 10 == 0:
                assert seen(watcher, user, 1) == [], f"round {round}"
            watcher.sync()
            assert statuses(watcher.inbox, user) == [], f"round {round}"
            watcher.request("unwatch", users=[user])


def test_closing_some_of_three_connections_is_no_event_and_closing_all_at_once_is_one(nodes):
    one, two = nodes
    with Client(two, user="b02-watcher") as watcher:
        watch(watcher, "b02")
        first, second, third = Client(one, user="b02"), Client(one, user="b02"), Client(two, user="b02")
        watcher.presence_of("b02", "online")
        eventually(lambda: len(request(f"{two.url}/v1/presence/b02")[2]["connections"]) == 3)
        first.leave()
        second.vanish()
        assert seen(watcher, "b02", 1.2) == []
        third.leave()
        watcher.presence_of("b02", "offline")
        assert seen(watcher, "b02", 1) == []
    simultaneous_closes(nodes, 12)


@pytest.mark.long
def test_two_hundred_rounds_of_closes_at_the_same_instant_on_two_nodes(start):
    redis = start(RedisServer)
    simultaneous_closes([start(Hub, name=name, redis=redis.url, settings=SETTINGS) for name in ("one", "two")], 200)


@pytest.mark.parametrize("beside", ["invisible", "away", "online"])
def test_a_reload_of_the_page_is_no_event_whatever_else_of_its_user_is_there(start, redis, nodes, beside):
    # Issue 5, point 2; with time to come back in, as deployments have it.
    patient = start(Hub, name="patient", redis=redis.url, settings={**SETTINGS, "presence.grace": "6s"})
    user = f"reload-beside-{beside}"
    with Client(nodes[1], user="beside-watcher") as watcher, Client(nodes[1], user=user, device="phone", status=beside):
        watch(watcher, user)
        page = Client(patient, user=user, device="laptop")
        eventually(lambda: request(f"{patient.url}/v1/presence/{user}")[2]["status"] == "online")
        before = request(f"{patient.url}/v1/presence/{user}")[2]["version"]
        seen(watcher, user, 0.5)
        for _ in range(3):
            page.socket.close(1001)
            page = Client(patient, user=user, device="laptop")
        assert seen(watcher, user, 1) == []
        assert request(f"{patient.url}/v1/presence/{user}")[2]["version"] == before
        # A goodbye is told at once, as it would be without the other one.
        page.leave()
        if beside == "online":
            assert seen(watcher, user, 1) == []
        else:
            watcher.presence_of(user, "away" if beside == "away" else "offline", seconds=5)


def test_a_reload_of_the_page_is_no_event_and_a_goodbye_needs_no_grace(start, redis, nodes):
    # With time to come back in, as deployments have it.
    patient = start(Hub, name="patient", redis=redis.url, settings={**SETTINGS, "presence.grace": "7s"})
    with Client(patient, user="reload-watcher") as watcher:
        watch(watcher, "reloader")
        page = Client(patient, user="reloader")
        watcher.presence_of("reloader", "online")
        for _ in range(5):
            # As browsers close on reload.
            page.socket.close(1001)
            page = Client(patient, user="reloader")
        assert seen(watcher, "reloader", 1) == []
        began = time.monotonic()
        page.leave()
        watcher.presence_of("reloader", "offline")
        assert time.monotonic() - began < 7, "the goodbye waited for the grace"


@pytest.mark.parametrize("is_cut", [False, True])
def test_offline_needs_no_word_from_redis_s_expiry_and_no_link_at_that_moment(start, redis, nodes, is_cut):
    """B06: no keyspace events, and the watcher's node loses its subscriptions just when leases end: still once each."""
    one, two = nodes
    name = f"b06-{is_cut}"
    assert redis.command("CONFIG", "SET", "notify-keyspace-events", "") == "+OK"
    doomed = start(Hub, name="crashes", redis=redis.url, settings=SETTINGS)
    users = [f"{name}-{number}" for number in range(10)]
    clients = [Client(doomed, user=user) for user in users]
    with Client(two, user="b06-watcher") as watcher:
        eventually(lambda: set(watch(watcher, *users).values()) == {"online"})
        watcher.sync()
        watcher.inbox.clear()
        doomed.signal(signal.SIGKILL)
        doomed.wait()
        if is_cut:
            deadline = time.monotonic() + LEASE + 1
            while time.monotonic() < deadline:
                redis.command("CLIENT", "KILL", "TYPE", "pubsub")
                time.sleep(0.25)
        eventually(lambda: all(answer["status"] == "offline" for answer in request(f"{two.url}/v1/presence", "POST", {"users": users})[2]["users"]), 30)
        later = watcher.gather(3)
        for user in users:
            assert statuses(later, user) == ["offline"], user
    for client in clients:
        client.socket.socket.close()


def test_a_change_of_status_is_never_a_leave_and_a_join(nodes):
    """B08; the hub hands on one change in 2 s of a connection, so few are enough here: the contract of the stores has a hundred."""
    one, two = nodes
    with Client(two, user="b08-watcher") as watcher, Client(one, user="b08") as client:
        if watch(watcher, "b08")["b08"] != "online":
            watcher.presence_of("b08", "online")
        for status in ("away", "online", "away", "online"):
            client.request("presence", payload={"status": status})
        watcher.presence_of("b08", "online", 20)
        messages = watcher.gather(2.5)
        assert "offline" not in statuses(messages, "b08")
        answer = request(f"{one.url}/v1/presence/b08")[2]
        assert (answer["status"], len(answer["connections"])) == ("online", 1)


def test_a_client_that_toggles_without_pause_is_held_to_a_pace_and_its_last_word_counts(start, redis, nodes):
    _, two = nodes
    # With patience: who only sends reads no pings meanwhile.
    limits = {"limits.messagesPerSecond": 20, "limits.messageBurst": 60}
    hub = start(Hub, name="fidgeted", redis=redis.url, settings={**FAST, **limits})
    with Client(two, user="toggle-watcher") as watcher, Client(hub, user="toggler") as client:
        if watch(watcher, "toggler")["toggler"] != "online":
            watcher.presence_of("toggler", "online")
        watcher.sync()
        began, answers, refused = time.monotonic(), 0, 0
        for number in range(300):
            client.send_raw('{"type":"presence","id":%d,"payload":{"status":"%s"}}' % (number, "away" if number % 2 else "online"))
        for _ in range(300):
            answer = client.expect(lambda message: message["type"] in ("ack", "error"), 60)
            answers += 1
            if answer["type"] == "error":
                refused += 1
                assert answer["code"] == "rateLimited" and answer["retryAfter"] > 0, answer
        eventually(lambda: client.try_request("presence", payload={"status": "away"})["type"] == "ack", 30)
        took = time.monotonic() - began
        changes = statuses(watcher.gather(3), "toggler")
        # One change of a connection in 2 s, whatever it sends.
        assert answers == 300 and refused > 0 and len(changes) <= took / 2 + 2, (refused, took, changes)
        assert (changes or ["away"])[-1] == "away"
        assert request(f"{two.url}/v1/presence/toggler")[2]["status"] == "away"


def test_a_grace_that_is_longer_than_a_lease_is_granted_to_the_end(start):
    """Beyond what a sweep grants a lease when Redis's clock has gone back (lease and 5 s)."""
    redis = start(RedisServer)
    one, two = (start(Hub, name=name, redis=redis.url, settings={**SETTINGS, "presence.grace": "11s", "presence.userTTL": "16s"}) for name in ("one", "two"))
    time.sleep(2)
    with Client(one, user="patience-watcher") as watcher:
        client = Client(two, user="patience", device="phone")
        if watch(watcher, "patience")["patience"] != "online":
            watcher.presence_of("patience", "online")
        client.vanish()
        assert seen(watcher, "patience", 9.5) == []
        with Client(one, user="patience", device="phone") as back:
            assert seen(watcher, "patience", 3) == []
            back.sync()
            assert [entry["cause"] for entry in request(f"{one.url}/v1/presence/patience?explain=1")[2]["transitions"]] == ["connected"]


def test_watchers_of_a_redis_that_is_emptied_under_its_links_see_who_is_gone_a_hold_later(start):
    redis = start(RedisServer)
    # A hold that a starved machine doesn't outlast either: within it everybody who is there must have been written again.
    timers = {"presence.grace": "5s", "presence.hold": "5s", "presence.userTTL": "20s"}
    one, two, dies = (start(Hub, name=name, redis=redis.url, settings={**SETTINGS, **timers}) for name in ("one", "two", "dies"))
    time.sleep(2)
    gone, there = ("in-grace", "on-a-dead-node"), ("stays", "is-away")
    with Client(one, user="flush-watcher") as watcher, Client(two, user="stays"), Client(two, user="is-away") as away:
        lost, doomed = Client(two, user="in-grace", device="d"), Client(dies, user="on-a-dead-node")
        away.request("presence", payload={"status": "away"})
        eventually(lambda: list(watch(watcher, *gone, *there).values()) == ["online", "online", "online", "away"])
        watcher.sync()
        watcher.inbox.clear()
        lost.vanish()
        dies.signal(signal.SIGKILL)
        dies.wait()
        time.sleep(0.5)
        assert redis.command("FLUSHALL") == "+OK"
        # A sweep on each node, the hold of 5 s, and a read; else an audit of five minutes.
        news = watcher.gather(13)
        assert [statuses(news, user) for user in gone] == [["offline"], ["offline"]]
        for user in there:
            assert statuses(news, user) == [], statuses(news, user)
        for hub in (one, two):
            answer = request(f"{hub.url}/v1/presence", "POST", {"users": [*gone, *there]})[2]
            assert [user["status"] for user in answer["users"]] == ["offline", "offline", "online", "away"], answer
        assert one.metric("hub_presence_false_offlines_total") == two.metric("hub_presence_false_offlines_total") == 0
        doomed.socket.socket.close()


def test_a_stopped_node_s_client_is_offline_and_online_once_at_most_and_keeps_its_connection(start, redis, nodes):
    """B10: stopped for three leases while its client goes on sending."""
    _, two = nodes
    frozen = start(Hub, name="frozen", redis=redis.url, settings={**SETTINGS, "ping": "20s", "deadlines.pong": "10s"})
    with Client(two, user="b10-watcher") as watcher, Client(frozen, user="b10") as client:
        if watch(watcher, "b10")["b10"] != "online":
            watcher.presence_of("b10", "online")
        frozen.signal(signal.SIGSTOP)
        until = time.monotonic() + 3 * LEASE
        while time.monotonic() < until:
            client.send({"type": "ping"})
            time.sleep(0.2)
        frozen.signal(signal.SIGCONT)
        client.sync()
        eventually(lambda: request(f"{two.url}/v1/presence/b10")[2]["status"] == "online", 20)
        changes = seen(watcher, "b10", 2)
        assert changes in ([], ["offline", "online"]), changes
        client.chat("room:b10", "still here")


def test_a_phone_that_vanishes_without_a_word_is_offline_within_ping_and_pong_and_grace(nodes):
    """B11: the peer's side stays open and silent for ever; what the hub sends doesn't keep it alive."""
    one, two = nodes
    with Client(two, user="b11-watcher") as watcher, Relay(one) as radio:
        watch(watcher, "b11")
        connections = one.metric("hub_connections")
        phone = Client(radio, user="b11")
        watcher.presence_of("b11", "online")
        radio.is_frozen = True
        frozen = time.time()
        gone = watcher.presence_of("b11", "offline", 20)["changes"]
        # When it was heard last, not when that was noticed.
        assert frozen - 1.3 < gone[0]["lastSeen"] / 1000 < frozen + 0.2
        assert request(f"{two.url}/v1/presence/b11")[2]["connections"] == []
        eventually(lambda: one.metric("hub_connections") <= connections + 1)
        phone.socket.socket.close()


def test_redis_that_stalls_for_a_moment_takes_nobody_offline(redis, nodes):
    """B05, in short: the next test has ten minutes of it."""
    one, two = nodes
    with Client(two, user="b05-watcher") as watcher, Client(one, user="b05"):
        if watch(watcher, "b05")["b05"] != "online":
            watcher.presence_of("b05", "online")
        for _ in range(6):
            assert redis.command("CLIENT", "PAUSE", "300", "ALL") == "+OK"
            time.sleep(0.8)
        assert seen(watcher, "b05", LEASE) == []


@pytest.mark.long
def test_minutes_of_stalls_and_of_clients_with_a_pulse_of_their_own_take_nobody_offline(start):
    """B05: pings at 0.9, 1.0 and 1.5 of the heartbeat, ±20 %, while Redis stalls 300 ms every few seconds."""
    redis = start(RedisServer)
    one, two = (start(Hub, name=name, redis=redis.url, settings=FAST) for name in ("one", "two"))
    users = {f"b05-{pace}": pace for pace in (0.9, 1.0, 1.5)}
    until = time.monotonic() + 5 * int(os.environ.get("FAULT_SECONDS", "120"))

    def live(user, pace):
        random = Random(user)
        with Client(one, user=user) as client:
            while time.monotonic() < until:
                time.sleep(0.8 * pace * random.uniform(0.8, 1.2))
                client.sync()

    with Client(two, user="b05-watcher") as watcher:
        threads = [threading.Thread(target=live, args=pair) for pair in users.items()]
        for thread in threads:
            thread.start()
        eventually(lambda: set(watch(watcher, *users).values()) == {"online"})
        watcher.sync()
        watcher.inbox.clear()
        while time.monotonic() < until - 5:
            redis.command("CLIENT", "PAUSE", "300", "ALL")
            messages = watcher.gather(2)
            for user in users:
                assert "offline" not in statuses(messages, user)
        for thread in threads:
            thread.join()
        assert one.metric("hub_presence_false_offlines_total") == two.metric("hub_presence_false_offlines_total") == 0


def test_a_lease_shorter_than_two_heartbeats_and_a_half_and_a_grace_over_a_minute_are_refused(start):
    for settings, names in (
            ({"presence.lease": "2s", "presence.heartbeat": "1s"}, ("presence.lease", "presence.heartbeat")), ({"presence.grace": "61s"}, ("presence.grace",)),
            ({"presence.grace": "9s"}, ("presence.grace", "presence.userTTL", "presence.hold", "presence.gapMax"))):
        hub = start(Hub, settings={**FAST, **settings}, ready=False)
        assert hub.wait() == 2
        assert all(name in hub.log for name in names), hub.log
