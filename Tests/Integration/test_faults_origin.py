"""Channels that have nothing yet, and lose their first message before everybody has heard it. docs/faults.md has the table."""

import signal
import time

import pytest

from client import Client
from hub import FAST, Hub, RedisServer, eventually, request
from redises import Watched
from relay import LinkRelay


def restart(redis, start):
    redis.kill()
    start(RedisServer, port=redis.port)


def flush(redis, start):
    redis.command("FLUSHALL")


@pytest.mark.parametrize("lose", [restart, flush], ids=["restarted", "flushed"])
def test_who_stands_at_the_beginning_is_told_when_all_data_is_lost(start, lose):
    redis = start(RedisServer)
    with LinkRelay(redis) as relay:
        one = start(Hub, name="n1", redis=redis.url, settings=FAST)
        two = start(Hub, name="n2", redis=f"redis://127.0.0.1:{relay.port}", settings=FAST)
        with Client(one, user="alice") as alice, Client(two, user="bob") as bob:
            here = bob.subscribe("room")["position"]
            with Client(one, user="carol") as carol:
                away = carol.subscribe("room")["position"]
            assert here == away
            # Bob's node hears nothing any more, and will never hear this.
            relay.frozen = "subscriptions"
            alice.chat("room", "acknowledged, and lost")
            relay.lose("subscriptions")
            lose(redis, start)
            relay.frozen = None
            told = bob.expect(type="system", event="resync", channel="room", seconds=60)
            assert told["reason"] == "epochChanged" and told["position"] not in (here, ".0.")
            eventually(lambda: alice.try_request("chat", channel="other", payload=1)["type"] == "ack", 30, "publications are taken again")
            eventually(lambda: request(f"{one.url}/readyz")[0] == 200, 30, "clients are let in again")
            # Who was away: while the channel has nothing, and once it has begun again.
            for has_begun in (False, True):
                if has_begun:
                    alice.chat("room", "begins again")
                with Client(one, user="carol") as carol:
                    back = carol.request("subscribe", channel="room", position=away)
                    assert (back["recovered"], back["reason"]) == (False, "epochChanged"), has_begun
            assert bob.expect(type="chat")["payload"] == {"text": "begins again"}
            bob.sync()
            assert not [message for message in bob.inbox if message.get("event") == "resync" and message["channel"] == "room"]


def test_who_follows_an_empty_channel_is_told_of_a_loss_that_nothing_else_shows(start):
    redis = start(RedisServer)
    node = start(Hub, redis=redis.url, settings=FAST)
    with Client(node, user="bob") as bob:
        here = bob.subscribe("room")["position"]
        redis.command("FLUSHALL")
        # No link is lost: the check of idle channels, every 30 s.
        told = bob.expect(type="system", event="resync", channel="room", seconds=90)
        assert told["reason"] == "epochChanged" and told["position"] != here


def test_a_single_node_that_was_killed_proves_nothing_of_the_beginning(start, tmp_path):
    settings = {"embedded.snapshot": tmp_path / "snapshot", "embedded.snapshotInterval": "1h"}
    node = start(Hub, settings=settings)
    with Client(node, user="bob") as bob:
        kept, room = bob.where("kept"), bob.where("room")
    assert node.stop() == 0
    # After a clean stop the beginning is where it was.
    node = start(Hub, settings=settings)
    with Client(node, user="alice") as alice:
        alice.chat("kept", "kept")
        assert alice.where("room") == room
    assert node.stop() == 0
    node = start(Hub, settings=settings)
    with Client(node, user="alice") as alice, Client(node, user="bob") as bob:
        back = bob.request("subscribe", channel="kept", position=kept)
        assert back["recovered"] is True and len(back["publications"]) == 1
        alice.chat("room", "acknowledged, and lost")
        node.kill()
    node = start(Hub, settings=settings)
    with Client(node, user="bob") as bob:
        for channel, position in (("room", room), ("kept", kept)):
            back = bob.request("subscribe", channel=channel, position=position)
            assert (back["recovered"], back["reason"]) == (False, "epochChanged"), channel


def test_a_failover_that_loses_first_messages_is_told(start):
    watched = Watched(start)
    node = start(Hub, settings={**FAST, **watched.settings})
    with Client(node, user="alice") as alice, Client(node, user="bob") as bob:
        begun = alice.chat("begun", "1")["position"]
        room, quiet = bob.where("room"), bob.subscribe("quiet")["position"]
        eventually(lambda: watched.replica.call("DBSIZE") == watched.master.call("DBSIZE"), 10, "the replica has all of it")
        # It hears nothing any more, not even what would lie in its socket.
        watched.replica.signal(signal.SIGSTOP)
        watched.master.call("CLIENT", "KILL", "TYPE", "replica")
        eventually(lambda: "connected_slaves:0" in watched.master.call("INFO", "replication"), 10, "the master has no replica")
        alice.chat("room", "acknowledged, and lost")
        watched.master.kill()
        watched.replica.signal(signal.SIGCONT)
        eventually(lambda: all(sentinel.says() == watched.replica.port for sentinel in watched.sentinels), 60, "the sentinels have failed over")
        told = bob.expect(type="system", event="resync", channel="quiet", seconds=60)
        assert told["reason"] == "epochChanged" and told["position"] != quiet
        eventually(lambda: alice.try_request("chat", channel="other", payload=1)["type"] == "ack", 30, "publications are taken again")
        back = bob.request("subscribe", channel="room", position=room)
        assert (back["recovered"], back["reason"]) == (False, "epochChanged")
        # What the replica had goes on.
        assert bob.request("subscribe", channel="begun", position=begun)["recovered"] is True
        # Once a failover: whoever links again finds it known.
        assert watched.replica.call("GET", "hub:failover") is not None
        here = bob.where("new")
        watched.replica.call("CLIENT", "KILL", "TYPE", "normal")
        time.sleep(1)
        eventually(lambda: alice.try_request("chat", channel="other", payload=2)["type"] == "ack", 30, "the node is linked again")
        assert bob.where("new") == here
