"""Redis Cluster behind the nodes: real masters, slots that move while people talk, a master that dies (redis-design §5, §7)."""

import signal
import time

import pytest

from client import Client
from hub import FAST, Hub, eventually, hubctl, status
from redises import Cluster, slot_of
from traffic import Listener, Talker


@pytest.fixture(scope="module")
def start_all(folder):
    started = []

    def start(kind, *arguments, **options):
        process = kind(folder, *arguments, **options)
        started.append(process)
        return process

    yield start
    for process in reversed(started):
        process.kill()


@pytest.fixture(scope="module")
def cluster(start_all):
    return Cluster(start_all)


@pytest.fixture(scope="module")
def nodes(start_all, cluster):
    one, two = (start_all(Hub, name=name, settings={**FAST, **cluster.settings}, ready=False) for name in ("c1", "c2"))
    return one.wait_ready(), two.wait_ready()


def channels_of_each(cluster, prefix, count=1):
    """`count` channels of each master."""
    found = {port: [] for _, _, port, _ in cluster.slots()}
    number = 0
    while any(len(channels) < count for channels in found.values()):
        channel = f"{prefix}:{number}"
        channels = found[cluster.owner(slot_of(channel)).port]
        if len(channels) < count:
            channels.append(channel)
        number += 1
    return [channel for channels in found.values() for channel in channels]


def test_chat_crosses_nodes_in_channels_of_every_master(cluster, nodes):
    with Client(nodes[0], user="alice") as alice, Client(nodes[1], user="bob") as bob:
        for channel in channels_of_each(cluster, "cross", 2):
            bob.subscribe(channel)
            ack = alice.chat(channel, "hello")
            heard = bob.expect(type="chat", channel=channel)
            assert heard["position"] == ack["position"]
            alice.send({"type": "typing", "channel": channel, "payload": {"isTyping": True}})
            assert bob.expect(type="typing", channel=channel)["user"] == "alice"


def test_users_of_every_master_are_read_in_one_request_and_their_changes_are_told(cluster, nodes):
    users = channels_of_each(cluster, "user", 2)
    with Client(nodes[1], user="watcher") as watcher:
        online = [Client(nodes[0], user=user) for user in users[::2]]
        for user in users[::2]:
            eventually(lambda: watcher.request("watch", users=[user])["users"][0]["status"] == "online")
        answer = watcher.request("watch", users=users)["users"]
        assert [entry["user"] for entry in answer] == users
        assert [entry["status"] for entry in answer] == ["online", "offline"] * 3
        for client, user in zip(online, users[::2]):
            client.leave()
            watcher.presence_of(user, "offline")


def test_messages_go_to_their_shard_alone(cluster, nodes):
    channel = channels_of_each(cluster, "shard")[0]
    with Client(nodes[0], user="alice") as alice:
        alice.subscribe(channel)
        assert [node.call("PUBSUB", "NUMPAT") for node in cluster.nodes] == [0, 0, 0]
        assert all(node.call("PUBSUB", "CHANNELS") == [] for node in cluster.nodes)
        name = next(name for node in cluster.nodes for name in node.call("PUBSUB", "SHARDCHANNELS") if name.endswith(f"c:{channel}"))
        owner = cluster.owner(slot_of(channel))
        assert [node is owner for node in cluster.nodes] == [bool(node.call("PUBSUB", "SHARDNUMSUB", name)[1]) for node in cluster.nodes]


def test_the_list_of_nodes_is_one(nodes):
    shown = hubctl(nodes[0], "nodes").stdout
    assert "c1" in shown and "c2" in shown


def test_a_slot_that_moves_while_people_talk_refuses_loses_and_doubles_nothing(cluster, nodes):
    # Many at once, so that some are on their way to the old master when the slot leaves it: their order holds all the same.
    channels = channels_of_each(cluster, "move")
    moving = channels[0]
    slot = slot_of(moving)
    with Listener(nodes[1], *channels) as listener, Talker(nodes[0], *channels, burst=20) as talker:
        talker.wait_for(60)
        there = [node for node in cluster.nodes if node is not cluster.owner(slot)]
        for target in (there[0], there[1], there[0]):
            cluster.move_slot(slot, target)
            talker.wait_for(60)
        talker.stop()
        listener.check(talker)
        assert talker.refusals == [] and listener.resyncs == []
    assert all(status(f"{node.url}/readyz") == 200 for node in nodes)


def test_a_master_that_joins_takes_slots_over_without_a_node_becoming_degraded(cluster, nodes, start_all):
    channels = channels_of_each(cluster, "join")
    joining = cluster.join()
    with Listener(nodes[1], *channels) as listener, Talker(nodes[0], *channels) as talker:
        talker.wait_for(20)
        for channel in channels:
            cluster.move_slot(slot_of(channel), joining)
        talker.wait_for(40)
        assert {cluster.owner(slot_of(channel)) for channel in channels} == {joining}
        talker.stop()
        listener.check(talker)
        assert talker.refusals == [] and listener.resyncs == []
    assert len(joining.links()) == 4
    for node in nodes:
        assert "node.degraded" not in node.log


def test_what_is_sent_while_a_master_that_joined_is_not_reached_yet_waits_for_it(cluster, nodes):
    channel = channels_of_each(cluster, "late")[0]
    joining = cluster.join()
    with Client(nodes[1], user="bob") as bob, Client(nodes[0], user="alice") as alice:
        bob.subscribe(channel)
        alice.chat(channel, "before")
        # The slot is its own, but it doesn't take anybody in yet.
        cluster.move_slot(slot_of(channel), joining, taken=lambda: joining.signal(signal.SIGSTOP))
        try:
            for number in range(20):
                alice.send({"type": "chat", "id": number, "channel": channel, "payload": number})
                # The first ones learn where the slot is, the others know it.
                time.sleep(0.02)
            alice.send({"type": "watch", "id": "w", "users": [channel]})
        finally:
            joining.signal(signal.SIGCONT)
        assert [alice.expect(id=number)["type"] for number in range(20)] == ["ack"] * 20
        assert alice.expect(id="w")["users"][0]["status"] == "offline"
        assert [bob.expect(type="chat", channel=channel)["payload"] for _ in range(21)] == [{"text": "before"}, *range(20)]


@pytest.mark.parametrize("fault", [signal.SIGKILL, signal.SIGSTOP], ids=["killed", "frozen"])
def test_a_master_s_replica_takes_over_and_what_is_lost_is_announced(start, fault):
    cluster = Cluster(start, 3, 1)
    one, two = (start(Hub, name=name, settings={**FAST, **cluster.settings}, ready=False) for name in ("f1", "f2"))
    one.wait_ready(), two.wait_ready()
    channels = channels_of_each(cluster, "dead")
    doomed = cluster.owner(slot_of(channels[0]))
    with Listener(two, *channels) as listener, Talker(one, *channels) as talker:
        talker.wait_for(30)
        with Client(one, user="carol") as carol:
            doomed.signal(fault)
            # How much of it is away; which one, and where, is the operator's to know.
            reason = carol.expect(event="degraded", seconds=30)["reason"]
            assert reason == "1 of 3 masters of the Redis cluster is away, and so are the channels there"
        assert f"127.0.0.1:{doomed.port}" in one.log
        # Other masters' channels go on meanwhile.
        talker.wait_for(10, *channels[1:])
        eventually(lambda: cluster.owner(slot_of(channels[0]), asked=next(node for node in cluster.nodes if node is not doomed)) is not doomed, 15)
        eventually(lambda: all(status(f"{node.url}/readyz") == 200 for node in (one, two)), 10, "both are ready again")
        talker.wait_for(10)
        talker.stop()
        listener.check(talker)



def test_a_master_that_does_not_answer_has_its_own_channels_refused_at_once_and_takes_no_room_of_the_others(start):
    cluster = Cluster(start, 3, timeout=60_000)
    node = start(Hub, settings=cluster.settings)
    lost, *others = channels_of_each(cluster, "frozen")
    dead = cluster.owner(slot_of(lost))
    with Client(node, user="alice") as alice, Client(node, user="bob") as bob:
        dead.signal(signal.SIGSTOP)
        # More than all masters together may have under way.
        for number in range(1_200):
            alice.send({"type": "chat", "id": number, "channel": lost, "payload": "x" * 60_000})
        for channel in others:
            bob.chat(channel, "goes on")
        eventually(lambda: status(f"{node.url}/readyz") == 503, 15, "the node knows that a master is away")
        # Those under way are tried for 30 s. What comes now is refused before they are.
        answer = bob.try_request("chat", channel=lost, payload=1)
        assert answer["code"] == "unavailable" and answer["retry"] and answer["retryAfter"] > 0
        for channel in others:
            bob.chat(channel, "goes on")
        dead.signal(signal.SIGCONT)
        assert alice.expect(id=0, seconds=60)["type"] == "ack"
        eventually(lambda: status(f"{node.url}/readyz") == 200, 15, "the node is ready again")
        bob.chat(lost, "is back")
