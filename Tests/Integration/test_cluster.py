"""Journeys 2 and 4: the deployment's own configuration files as plain processes; alice and bob on different nodes."""

import signal

import jwt
import pytest
import time

from client import Client, statuses
from hub import FAST, TOP, HAProxy, Hub, eventually, hubctl, request, running

SECRETS = {"HUB_AUTH_SECRET": "integration-tests-sign-with-this-key", "HUB_API_KEY": "integration-tests-call-with-this-key"}


def token(user, **claims):
    return jwt.encode({"sub": user, "exp": int(time.time()) + 600, **claims}, SECRETS["HUB_AUTH_SECRET"], "HS256")


def node(folder, redis, name, **options):
    """A node as docker-compose.yml starts it, but for the addresses and the tests' timers."""
    return Hub(folder, name=name, dev=False, redis=redis.url, config=TOP / "config" / "compose.json5", settings=FAST, environment=SECRETS, **options)


@pytest.fixture(scope="module")
def nodes(folder, redis):
    one, two = node(folder, redis, "hub1", ready=False), node(folder, redis, "hub2", ready=False)
    with running(one, two):
        yield one.wait_ready(), two.wait_ready()


@pytest.fixture(scope="module")
def front(folder, nodes):
    with running(HAProxy(folder, nodes)) as balancer:
        yield balancer


def on_each_node(front, *users):
    """One client for each user, all on different nodes, by nothing but round robin."""
    clients = []
    for user in users:
        for _ in range(20):
            client = Client(front, token=token(user))
            if client.welcome["node"] not in {other.welcome["node"] for other in clients}:
                break
            client.leave()
        clients.append(client)
    assert len({client.welcome["node"] for client in clients}) == len(users)
    return clients


def test_chat_typing_and_read_cross_nodes_in_one_order(front):
    alice, bob = on_each_node(front, "alice", "bob")
    with alice, bob:
        alice.subscribe("room:cross")
        bob.subscribe("room:cross")
        positions = []
        for number in range(20):
            positions.append((alice if number % 2 else bob).chat("room:cross", str(number))["position"])
        for client in (alice, bob):
            heard = [client.expect(type="chat") for _ in range(20)]
            assert [message["payload"]["text"] for message in heard] == [str(number) for number in range(20)]
            assert [message["position"] for message in heard] == positions
            assert [message["user"] for message in heard] == ["bob", "alice"] * 10
        alice.send({"type": "typing", "channel": "room:cross", "payload": {"isTyping": True}})
        assert bob.expect(type="typing")["user"] == "alice"
        last = heard[-1]["offset"]
        bob.request("read", channel="room:cross", payload={"offset": last})
        assert alice.expect(lambda message: message["type"] == "read" and message["user"] == "bob")["payload"]["offset"] == last


def test_presence_crosses_nodes(front):
    alice, bob = on_each_node(front, "watching", "other")
    with alice, bob:
        alice.request("watch", users=["carol"])
        bob.request("watch", users=["carol"])
        carol = Client(front, token=token("carol"))
        for watcher in (alice, bob):
            watcher.presence_of("carol", "online")
        carol.request("presence", payload={"status": "away"})
        for watcher in (alice, bob):
            watcher.presence_of("carol", "away")
        carol.leave()
        for watcher in (alice, bob):
            watcher.presence_of("carol", "offline")


def test_a_retry_on_the_other_node_is_answered_and_not_repeated(front):
    alice, bob = on_each_node(front, "retrying", "bob")
    with alice, bob:
        bob.subscribe("room:retry")
        first = alice.chat("room:retry", "once", messageId="m")
        assert first.get("duplicate") is None
        again, elsewhere = on_each_node(front, "retrying", "retrying")
        with again, elsewhere:
            for client in (again, elsewhere):
                answer = client.chat("room:retry", "once", messageId="m")
                assert (answer["duplicate"], answer["position"]) == (True, first["position"])
            elsewhere.chat("room:retry", "last")
        assert [bob.expect(type="chat")["payload"]["text"] for _ in range(2)] == ["once", "last"]


def test_coming_back_on_the_other_node_never_shows_offline(front):
    watcher, roamer = on_each_node(front, "watcher", "roamer")
    with watcher:
        watcher.request("watch", users=["roamer"])
        for _ in range(6):
            roamer.vanish()
            roamer = Client(front, token=token("roamer"))
        roamer.leave()
        watcher.presence_of("roamer", "offline")
        assert statuses(watcher.inbox, "roamer") == []


def test_any_node_answers_for_all(nodes, front):
    phone, laptop = on_each_node(front, "dora", "dora")
    with phone, laptop:
        laptop.request("presence", payload={"status": "away"})
        for hub in nodes:
            def both():
                _, _, answer = request(f"{hub.url}/v1/presence/dora", key=SECRETS["HUB_API_KEY"])
                return answer["status"] == "online" and sorted(
                    (connection["node"], connection["state"]) for connection in answer["connections"]) == sorted(
                    [(phone.welcome["node"], "online"), (laptop.welcome["node"], "away")])
            eventually(both)
            names = hubctl(hub, "nodes", key=SECRETS["HUB_API_KEY"])
            assert names.returncode == 0 and "hub1" in names.stdout and "hub2" in names.stdout, names


def test_the_api_wants_its_key(nodes):
    for key in (None, "wrong"):
        code, fields, answer = request(f"{nodes[0].url}/v1/nodes", key=key)
        assert code == 401 and answer["error"]["code"] in ("unauthenticated", "tokenInvalid")
    refused = hubctl(nodes[0], "presence", "alice", key="wrong")
    assert refused.returncode == 1 and refused.stderr


def test_a_killed_node_s_users_go_offline_once_and_those_who_come_back_never_do(start, redis, nodes, front):
    doomed = start(lambda folder: node(folder, redis, "hub3"))
    stays, returns = Client(doomed, token=token("stays-away")), Client(doomed, token=token("returns"))
    with on_each_node(front, "witness")[0] as witness:
        states = {user["user"]: user["status"] for user in witness.request("watch", users=["stays-away", "returns"])["users"]}
        for user, state in states.items():
            if state != "online":
                witness.presence_of(user, "online")
        ack = returns.chat("room:kill", "acknowledged")
        doomed.signal(signal.SIGKILL)
        doomed.wait()
        stays.expect_close()
        with Client(front, token=token("returns")) as back:
            assert back.chat("room:kill", "after")["offset"] == ack["offset"] + 1
            # Lease 2.4 s and one sweep; the rest is room for a slow machine.
            witness.presence_of("stays-away", "offline", seconds=20)
            # A second lease's time later: once, and nothing about the one who came back.
            later = witness.gather(3)
            assert statuses(later, "stays-away") == []
            assert statuses(later, "returns") == []
            answer = request(f"{nodes[0].url}/v1/presence/stays-away", key=SECRETS["HUB_API_KEY"])[2]
            assert (answer["status"], answer["connections"]) == ("offline", [])


def test_a_stopped_node_s_clients_are_told_and_the_balancer_goes_on(start, redis, folder):
    one, two = start(lambda folder: node(folder, redis, "s1")), start(lambda folder: node(folder, redis, "s2"))
    balancer = start(HAProxy, [one, two])
    alice, bob = on_each_node(balancer, "alice", "bob")
    leaving, staying = (alice, bob) if alice.welcome["node"] == "s1" else (bob, alice)
    with leaving, staying:
        staying.subscribe("room:stop")
        assert one.stop() == 0
        assert leaving.expect_close()[0] == 1001
        # Every new connection finds the node that is left.
        for _ in range(4):
            with Client(balancer, token=token("next")) as client:
                assert client.welcome["node"] == "s2"
                client.chat("room:stop", "on")
        assert [staying.expect(type="chat")["payload"]["text"] for _ in range(4)] == ["on"] * 4


def test_a_client_that_pipelines_keeps_its_connection_while_redis_is_slow(front, redis, nodes):
    with Client(front, token=token("pipeliner")) as client:
        assert redis.command("CLIENT", "PAUSE", "500", "ALL") == "+OK"
        client.send({"type": "subscribe", "id": 100, "channel": "room:slow"})
        for number in range(6):
            client.send({"type": "chat", "id": 101 + number, "channel": "room:slow", "payload": "x" * 60_000})
        assert client.expect(id=100)["type"] == "ack"
        for number in range(6):
            assert client.expect(id=101 + number)["type"] == "ack"
