"""What Redis acknowledged and has no more, told to those who were elsewhere: away, on a node that hadn't heard it, at a channel's beginning. docs/faults.md has the table."""

import signal
import time

import pytest

from client import Client
from hub import BINARIES, FAST, Hub, RedisServer, eventually, request, run
from journal import Journal
from redises import Cluster, Watched, slot_of
from relay import LinkRelay


def renewals(*nodes):
    """How many channels the nodes gave a new epoch."""
    return sum(node.metric("hub_channels_renewed_total") for node in nodes)


def is_taken(client, channel, number):
    return client.try_request("chat", channel=channel, payload={"text": "another"}, messageId=f"another-{number}")["type"] == "ack"


def comes_back(node, user, channel, position):
    with Client(node, user=user) as client:
        return client.request("subscribe", channel=channel, position=position)


def cut_off(master, replica):
    """The replica hears nothing more, not even what lies in its socket."""
    eventually(lambda: master.call("INFO", "replication").split("master_repl_offset:")[1].split()[0]
               == replica.call("INFO", "replication").split("slave_repl_offset:")[1].split()[0], 20, "the replica has all of it")
    replica.signal(signal.SIGSTOP)
    master.call("CLIENT", "KILL", "TYPE", "replica")
    eventually(lambda: "connected_slaves:0" in master.call("INFO", "replication"), 10, "the master has no replica")


def test_who_was_away_is_told_of_what_a_failover_took_back(start):
    watched = Watched(start)
    one, two = (start(Hub, name=name, settings={**FAST, **watched.settings}) for name in ("n1", "n2"))
    with Client(one, user="alice") as alice, Client(two, user="carol") as carol:
        for number in range(5):
            stood = alice.chat("room", str(number))["position"]
        kept = alice.chat("kept", "kept")["position"]
        away = comes_back(one, "bob", "room", stood)["position"]
        assert away == stood
        cut_off(watched.master, watched.replica)
        lost = alice.chat("room", "acknowledged, and lost")["position"]
        # Of the API, into a channel that its node doesn't carry; of a sender that is gone when it's lost.
        inbox = carol.where("inbox")
        status, _, answer = request(f"{one.url}/v1/publish", "POST", {"channel": "inbox", "payload": "lost too"}, headers={"Idempotency-Key": "1"})
        assert status == 200 and answer["offset"] == 1, answer
        watched.master.kill()
        watched.replica.signal(signal.SIGCONT)
        eventually(lambda: all(sentinel.says() == watched.replica.port for sentinel in watched.sentinels), 90, "the sentinels have failed over")
        # Another message takes the place of the lost one, by the node that didn't acknowledge it.
        eventually(lambda: is_taken(carol, "room", 1), 60, "publications are taken again")
        eventually(lambda: all(request(f"{node.url}/readyz")[0] == 200 for node in (one, two)), 60, "clients are let in again")
        # The inbox had nothing yet: a failover behind sentinels tells that by itself.
        eventually(lambda: renewals(one) == 1 and renewals(two) == 0, 60, "what was lost is told, by the node that acknowledged it")
        for node in (one, two):
            for position in (stood, lost):
                back = comes_back(node, "bob", "room", position)
                assert (back["recovered"], back["reason"]) == (False, "epochChanged")
            assert comes_back(node, "bob", "inbox", inbox)["recovered"] is False
            # What lost nothing goes on.
            assert comes_back(node, "bob", "kept", kept)["recovered"] is True
        here = carol.where("room")
        assert here.split(".")[0] != stood.split(".")[0] and here.split(".")[1] == "6"
        # Nothing is taken back by links that break.
        watched.replica.call("CLIENT", "KILL", "TYPE", "normal")
        time.sleep(1)
        eventually(lambda: is_taken(alice, "kept", 1), 30, "the nodes are linked again")
        assert carol.where("room") == here and renewals(one, two) == 1


def test_a_redis_that_comes_back_with_older_data_is_told_to_everybody(start):
    redis = start(RedisServer)
    with LinkRelay(redis) as relay:
        one = start(Hub, name="n1", redis=redis.url, settings=FAST)
        two = start(Hub, name="n2", redis=f"redis://127.0.0.1:{relay.port}", settings=FAST)
        with Client(one, user="alice") as alice, Client(two, user="bob") as bob:
            for channel in ("room", "quiet", "kept"):
                alice.chat(channel, "1")
            room, quiet, kept, empty, nothing = (bob.subscribe(channel)["position"] for channel in ("room", "quiet", "kept", "empty", "nothing"))
            assert redis.command("SAVE") == "+OK"
            # Bob's node hears nothing of what comes now.
            relay.frozen = "subscriptions"
            for channel in ("room", "quiet", "empty"):
                alice.chat(channel, "acknowledged, and lost")
            relay.lose("subscriptions")
            redis.kill()
            start(RedisServer, port=redis.port)
            relay.frozen = None
            for channel in ("room", "quiet", "empty"):
                told = bob.expect(type="system", event="resync", channel=channel, seconds=90)
                assert told["reason"] == "epochChanged", told
            eventually(lambda: is_taken(alice, "room", 1) and is_taken(alice, "empty", 1), 60, "publications are taken again")
            eventually(lambda: all(request(f"{node.url}/readyz")[0] == 200 for node in (one, two)), 60, "clients are let in again")
            assert renewals(one, two) == 3
            for node in (one, two):
                for channel, position, recovers in (
                        ("room", room, False), ("quiet", quiet, False), ("empty", empty, False), ("kept", kept, True), ("nothing", nothing, True)):
                    back = comes_back(node, "carol", channel, position)
                    assert back["recovered"] is recovers, (node.name, channel, back)
            assert [bob.expect(type="chat", channel=channel)["payload"]["text"] for channel in ("room", "empty")] == ["another"] * 2
            bob.sync()
            told = [message["channel"] for message in bob.inbox if message.get("event") == "resync"]
            assert not told, told


def test_a_read_position_that_was_taken_back_is_set_again(start):
    redis = start(RedisServer)
    one, two = (start(Hub, name=name, redis=redis.url, settings=FAST) for name in ("n1", "n2"))
    with Client(one, user="alice") as alice, Client(two, user="bob") as bob:
        bob.subscribe("room")
        for number in range(1, 6):
            stood = alice.chat("room", str(number))["position"]
        alice.request("read", channel="room", payload={"offset": 1})
        assert redis.command("SAVE") == "+OK"
        assert alice.request("read", channel="room", payload={"offset": 5})["offset"] == 5
        while bob.expect(type="read")["payload"]["offset"] < 5:
            pass
        redis.kill()
        start(RedisServer, port=redis.port)
        eventually(lambda: all(request(f"{node.url}/readyz")[0] == 200 for node in (one, two)), 60, "clients are let in again")
        assert alice.request("read", channel="room", payload={"offset": 2})["offset"] == 5
        back = comes_back(two, "carol", "room", stood)
        assert back["recovered"] is True and back["reads"] == [{"user": "alice", "offset": 5}], back
        bob.sync()
        told = [message["payload"]["offset"] for message in bob.inbox if message["type"] == "read"]
        assert not [offset for offset in told if offset < 5], told


@pytest.mark.long
def test_a_cluster_s_failover_tells_what_it_took_back_first_messages_too(start):
    cluster = Cluster(start, 3, 1)
    one, two = (start(Hub, name=name, settings={**FAST, **cluster.settings}) for name in ("n1", "n2"))
    with Client(one, user="alice") as alice, Client(two, user="carol") as carol:
        stood = alice.chat("room", "1")["position"]
        slot = slot_of("room")
        master = cluster.owner(slot)
        # Its view of the replicas comes by gossip.
        [port] = eventually(lambda: next(replicas for first, last, _, replicas in cluster.slots(master) if first <= slot <= last), 20, "the replica is known")
        replica = next(node for node in cluster.nodes if node.port == port)
        # Channels of the same master, of which there's nothing.
        empty = next(name for name in (f"empty-{number}" for number in range(1_000)) if cluster.owner(slot_of(name)) is master)
        origin = carol.where(empty)
        # The same of other masters, that lose nothing.
        other = next(name for name in (f"other-{number}" for number in range(1_000)) if cluster.owner(slot_of(name)) is not master)
        beside = carol.where(other)
        cut_off(master, replica)
        for channel in ("room", empty):
            alice.chat(channel, "acknowledged, and lost")
        master.kill()
        replica.signal(signal.SIGCONT)
        alive = next(node for node in cluster.nodes if node is not master)
        eventually(lambda: cluster.owner(slot, asked=alive) is replica, 60, "the replica takes over")
        eventually(lambda: all(is_taken(carol, channel, 1) for channel in ("room", empty)), 60, "publications are taken again")
        eventually(lambda: all(request(f"{node.url}/readyz")[0] == 200 for node in (one, two)), 60, "clients are let in again")
        eventually(lambda: renewals(one) == 2, 60, "what was lost is told")
        for node in (one, two):
            for channel, position, recovers in (("room", stood, False), (empty, origin, False), (other, beside, True)):
                assert comes_back(node, "bob", channel, position)["recovered"] is recovers, (node.name, channel)


def test_the_checker_that_judges_these_faults_finds_what_was_taken_back_in_silence(tmp_path):
    """Two messages at one place, each acknowledged to its own sender; one of them may be told of another epoch, the other isn't."""
    epoch, next_epoch = "firstone", "nextepoc"

    def judge(*told):
        journal = Journal(tmp_path / "journal.jsonl")
        for user in ("alice", "bob"):
            journal.got(user, {"type": "system", "event": "welcome", "user": user, "channels": {"room": {"channel": "room", "offset": 0, "position": ".0.gggggggg"}}})
        for user, tag in (("alice", "aaaaaaaa"), ("bob", "bbbbbbbb")):
            place = {"offset": 1, "position": f"{epoch}.1.{tag}"}
            message = {"channel": "room", "messageId": f"of-{user}", "payload": 1}
            journal.out(user, {"type": "chat", "id": 1, **message})
            journal.got(user, {"type": "chat", "user": user, **message, **place})
            journal.got(user, {"type": "ack", "id": 1, "channel": "room", "messageId": f"of-{user}", **place})
        for user in told:
            journal.got(user, {"type": "system", "event": "resync", "channel": "room", "position": f"{next_epoch}.1.bbbbbbbb", "reason": "epochChanged"})
        return journal.judge(BINARIES / "hub-swarm")

    assert "taken back 2" in judge("alice", "bob")
    for told in ((), ("alice",), ("bob",)):
        with pytest.raises(AssertionError, match="lost: room"):
            judge(*told)


def test_a_line_that_is_none_of_a_journal_s_is_refused_with_its_number(tmp_path):
    path = tmp_path / "journal.jsonl"
    for line in ('"note":"hello"', '"end":false', '"IN":{"type":"pong"}'):
        path.write_text('{"t":1,"client":"a","in":{"type":"pong"}}\n{"t":2,"client":"a",' + line + "}\n")
        done = run("hub-swarm", "check", path)
        assert done.returncode == 2 and f"{path}:2: " in done.stderr, done
