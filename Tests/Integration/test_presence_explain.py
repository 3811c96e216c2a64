"""Journey 3: why a user is what it is: `hubctl presence USER --explain`, from any node."""

import json
import signal
import subprocess
import time

import pytest

from client import Client
from faultclock import Clock
from hub import FAST, Hub, RedisServer, eventually, hubctl, request, running

KEYS = '[{"id":"operator","env":"OPERATOR_KEY","scopes":["admin"]},{"id":"reader","env":"READER_KEY","scopes":["read"]}]'
OPERATOR, READER = "operator-key-of-the-tests-0123456789", "reader-key-of-the-tests-0123456789"


@pytest.fixture(scope="module")
def nodes(folder, redis):
    one, two = (Hub(folder, name=name, redis=redis.url, settings=FAST, ready=False) for name in ("one", "two"))
    with running(one, two):
        yield one.wait_ready(), two.wait_ready()


def explain(hub, user, key=None):
    code, _, answer = request(f"{hub.url}/v1/presence/{user}?explain=1", key=key)
    assert code == 200, answer
    return answer


def test_each_connection_with_its_address_and_the_transitions_with_their_causes_from_any_node(nodes):
    one, two = nodes
    phone, laptop = Client(one, user="alice", device="phone"), Client(two, user="alice", device="lap|top: 4:x")
    with phone, laptop:
        laptop.request("presence", payload={"status": "away"})
        for hub in nodes:
            answer = explain(hub, "alice")
            assert answer["status"] == "online"
            rows = {row["device"]: row for row in answer["connections"]}
            for client, device in ((phone, "phone"), (laptop, "lap|top: 4:x")):
                row = rows[device]
                assert row["answer"] == "here" and row["connection"] == client.welcome["connection"] and row["node"] == client.welcome["node"]
                assert row["address"] == "%s:%d" % client.socket.local_address[:2]
                assert 0 < row["leaseLeft"] <= 2_400 and row["heardAgo"] < 60_000
            assert answer["because"].startswith("online because, of its 2 connections, phone on one is connected and was heard"), answer["because"]
            assert [entry["cause"] for entry in answer["transitions"]] == ["connected"]
    # Not by a goodbye: both are lost, and the last one waits out its grace.
    # Before the sweep has told of it, it's offline all the same, and the sentence says so.
    eventually(lambda: explain(one, "alice")["status"] == "offline", 20)
    eventually(lambda: explain(one, "alice")["transitions"][-1]["status"] == "offline", 20)
    answer = explain(two, "alice")
    assert answer["connections"] == [] and answer["transitions"][-1]["cause"] == "lost"
    assert answer["transitions"][-1]["sweptBy"] in ("one", "two")
    assert "ended without a goodbye, last heard at" in answer["because"] and "swept by " in answer["because"]
    versions = [entry["version"] for entry in answer["transitions"]]
    assert versions == sorted(set(versions)) and versions[-1] == answer["version"]


def test_hubctl_shows_it_to_people_and_to_programs(nodes):
    one, two = nodes
    with Client(one, user="bob", device="phone") as phone:
        phone.request("presence", payload={"status": "away"})
        told = hubctl(two, "presence", "bob", "--explain")
        assert told.returncode == 0, told
        lines = told.stdout.splitlines()
        assert lines[0].startswith("bob is away because phone on one asked to be away and was heard"), told.stdout
        assert "connections" in lines and "the last 2 transitions" in lines
        assert "%s:%d" % phone.socket.local_address[:2] in told.stdout and "set away" in told.stdout
        program = hubctl(two, "presence", "bob", "--explain", "--json")
        assert json.loads(program.stdout)["transitions"][-1]["cause"] == "setAway"
        phone.leave()
    eventually(lambda: "said goodbye" in text_of(two, "bob"))
    assert text_of(two, "bob").startswith("bob is offline since ")
    nobody = hubctl(one, "presence", "nobody", "--explain")
    assert nobody.returncode == 0 and "no user of this id was seen" in nobody.stdout
    assert hubctl(one, "presence", "bob", "--explain", "--watch").returncode == 2


def text_of(hub, user):
    return hubctl(hub, "presence", user, "--explain").stdout.splitlines()[0]


def test_a_node_that_died_or_stands_still_is_said_and_not_waited_for(start, redis, nodes):
    one, _ = nodes
    slow = {**FAST, "presence.lease": "20s", "presence.userTTL": "60s", "presence.heartbeat": "7s", "presence.hold": "9s"}
    asked = start(Hub, name="asked", redis=redis.url, settings=slow)
    third = start(Hub, name="third", redis=redis.url, settings=slow)
    with Client(third, user="carol") as client:
        third.signal(signal.SIGSTOP)
        began = time.monotonic()
        answer = explain(asked, "carol")
        assert answer["connections"][0]["answer"] == "noAnswer" and "address" not in answer["connections"][0]
        assert time.monotonic() - began < 8
        assert "didn't say in time" in answer["because"]
        third.signal(signal.SIGCONT)
        eventually(lambda: explain(asked, "carol")["connections"][0]["answer"] == "here")
        third.signal(signal.SIGKILL)
        third.wait()
        # Its lease still holds; nobody listens where it was.
        answer = eventually(lambda: (found := explain(asked, "carol"))["connections"] and found["connections"][0]["answer"] == "nodeGone" and found)
        assert answer["status"] == "online" and "its node has ended" in answer["because"]
        client.socket.socket.close()


@pytest.mark.parametrize("waits", [False, pytest.param(True, marks=pytest.mark.long)])
def test_a_user_whose_node_died_is_offline_for_that_reason(start, waits):
    """A node's word that it's there holds for half a minute (`waits`: that's waited for; else somebody takes it away)."""
    redis = start(RedisServer)
    timers = {"presence.lease": "50s", "presence.userTTL": "120s", "presence.hold": "25s"} if waits else {
        "presence.lease": "20s", "presence.userTTL": "60s", "presence.hold": "9s"}
    timers["presence.heartbeat"] = "7s"
    dies, lives = (start(Hub, name=name, redis=redis.url, settings={**FAST, **timers}) for name in ("dies", "lives"))
    client = Client(dies, user="grace", device="phone")
    eventually(lambda: explain(lives, "grace")["status"] == "online")
    node = explain(lives, "grace")["connections"][0]["connection"].split("-")[0]
    dies.signal(signal.SIGKILL)
    dies.wait()
    if not waits:
        assert redis.command("ZREM", "hub:nodes", node) == ":1"
    eventually(lambda: explain(lives, "grace")["transitions"][-1]["status"] == "offline", 120)
    answer = explain(lives, "grace")
    last = answer["transitions"][-1]
    assert last["cause"] == "nodeDead" and last["node"] == "dies" and last["sweptBy"] == "lives" and last["device"] == "phone", last
    assert "node dies died, so that nobody renewed its lease; swept by lives" in answer["because"], answer["because"]
    told = hubctl(lives, "presence", "grace", "--explain")
    assert "node dead" in told.stdout and "swept by lives" in told.stdout, told.stdout
    client.socket.socket.close()


def test_ages_go_by_redis_s_clock_however_wrong_a_node_s_is(start, redis, nodes, tmp_path):
    clocks = Clock(tmp_path, "ahead"), Clock(tmp_path, "behind")
    for clock, seconds in zip(clocks, (3600, -3600)):
        clock.set(seconds)
    hubs = [start(Hub, name=name, redis=redis.url, settings=FAST, prefix=clock.prefix) for name, clock in zip(("ahead", "behind"), clocks)]
    with Client(hubs[0], user="gina", device="phone"), Client(hubs[1], user="gina", device="laptop") as laptop:
        laptop.request("presence", payload={"status": "away"})
        first = {row["device"]: row["since"] for row in explain(nodes[0], "gina")["connections"]}
        assert set(first) == {"phone", "laptop"}
        for since in first.values():
            assert abs(since - time.time() * 1000) < 30_000
        time.sleep(2.1)
        laptop.request("presence", payload={"status": "online"})
        # It's the same whatever its node writes later.
        for hub in (*nodes, *hubs):
            assert {row["device"]: row["since"] for row in explain(hub, "gina")["connections"]} == first
            for line in hubctl(hub, "presence", "gina", "--explain").stdout.splitlines():
                assert not line.startswith(("  phone", "  laptop")) or " h " not in line, line


def test_who_turned_idle_while_its_node_stood_still_comes_back_by_a_heartbeat(start, redis, nodes):
    frozen = start(Hub, name="frozen-idle", redis=redis.url, settings={**FAST, "presence.awayAfter": "3s"})
    with Client(frozen, user="hank", device="phone"):
        eventually(lambda: explain(nodes[0], "hank")["status"] == "online")
        frozen.signal(signal.SIGSTOP)
        eventually(lambda: explain(nodes[0], "hank")["transitions"][-1]["status"] == "offline", 20)
        frozen.signal(signal.SIGCONT)
        eventually(lambda: explain(nodes[0], "hank")["status"] == "away", 20)
        told = [(entry["status"], entry["cause"]) for entry in explain(nodes[0], "hank")["transitions"]]
        assert told[1] in (("offline", "expired"), ("offline", "nodeDead")) and told[2][1] == "heartbeat", told
        assert told[3:] in ([], [("away", "idle")]), told


@pytest.mark.parametrize("fault", ["stands still", "stands still unnoticed", "restarts with its data"])
def test_ends_while_redis_is_away_are_named_as_they_were(start, fault):
    options = ("--appendonly", "yes", "--appendfsync", "always")
    redis = start(RedisServer, options=options)
    hub = start(Hub, redis=redis.url, settings={**FAST, "presence.grace": "6s"})
    left, lost, returns = (Client(hub, user=user, device="phone") for user in ("ida", "jack", "kim"))
    eventually(lambda: all(explain(hub, user)["status"] == "online" for user in ("ida", "jack", "kim")))
    redis.kill() if fault == "restarts with its data" else redis.signal(signal.SIGSTOP)
    if fault == "stands still unnoticed":
        # What's sent now is with Redis, and told when it goes on.
        assert request(f"{hub.url}/readyz")[0] == 200
    else:
        eventually(lambda: request(f"{hub.url}/readyz")[0] == 503, 30)
    before = time.time() * 1000
    left.leave()
    lost.vanish()
    returns.leave()
    after = time.time() * 1000
    # Longer than anything that may make the moment appear later.
    time.sleep(4)
    if fault != "restarts with its data":
        redis.signal(signal.SIGCONT)
    else:
        redis = start(RedisServer, port=redis.port, options=options)
    eventually(lambda: request(f"{hub.url}/readyz")[0] == 200, 30)
    with Client(hub, user="kim", device="phone"):
        for user, cause, words in (("ida", "left", "said goodbye at"), ("jack", "lost", "ended without a goodbye, last heard at")):
            answer = eventually(lambda: (found := explain(hub, user))["transitions"][-1]["status"] == "offline" and found, 60)
            last = answer["transitions"][-1]
            assert last["cause"] == cause and last["device"] == "phone" and words in answer["because"], answer
            assert before - 100 <= answer["lastSeen"] <= after + 2_000, (before, answer["lastSeen"], after)
        # Nobody is told of who is back within the grace.
        assert [entry["status"] for entry in explain(hub, "kim")["transitions"]] == ["online"]


def test_addresses_are_the_operator_s_business_alone(start):
    hub = start(
        Hub, settings={"api.keys": KEYS, "presence.explainTTL": "0s"}, environment={"OPERATOR_KEY": OPERATOR, "READER_KEY": READER})
    for key, expected in ((None, 401), ("wrong", 401), (READER, 403)):
        code, _, answer = request(f"{hub.url}/v1/presence/dora?explain=1", key=key)
        assert code == expected, answer
    with Client(hub, user="dora") as client:
        client.request("presence", payload={"status": "invisible"})
        answer = explain(hub, "dora", OPERATOR)
        # The embedded store, and no trail by the configuration.
        assert answer["transitions"] == [] and answer["connections"][0]["answer"] == "here"
        assert "invisible" in answer["because"]
        code, _, plain = request(f"{hub.url}/v1/presence/dora", key=READER)
        assert code == 200 and "because" not in plain and "transitions" not in plain and not any("address" in row for row in plain["connections"])


def test_the_embedded_store_explains_too(start):
    hub = start(Hub, settings={"presence.grace": "300ms", "presence.sweepInterval": "100ms"})
    client = Client(hub, user="erin", device="phone")
    eventually(lambda: explain(hub, "erin")["status"] == "online")
    client.vanish()
    answer = eventually(lambda: (found := explain(hub, "erin"))["transitions"][-1]["status"] == "offline" and found)
    assert [entry["cause"] for entry in answer["transitions"]] == ["connected", "lost"]
    assert answer["transitions"][1]["device"] == "phone"


def test_explaining_many_at_once_is_bounded_and_every_question_is_answered(nodes):
    one, two = nodes
    with Client(one, user="frank"):
        calls = [
            subprocess.Popen(["curl", "-s", "-o", "/dev/null", "-w", "%{http_code}", f"{two.url}/v1/presence/frank?explain=1"], stdout=subprocess.PIPE, text=True)
            for _ in range(40)]
        answers = [call.communicate(timeout=30)[0] for call in calls]
    assert set(answers) <= {"200", "503"} and "200" in answers
