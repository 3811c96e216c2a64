"""Redis behind sentinels: failovers while people talk (redis-design §5, §7)."""

import signal
import time

import pytest

from certificates import Certificate, trusting
from client import Client
from hub import FAST, Hub, eventually, request, status
from redises import Watched
from traffic import Listener, Talker


def two_nodes(start, watched, **more):
    settings = {**FAST, **watched.settings, **more}
    one, two = (start(Hub, name=name, settings=settings, ready=False) for name in ("s1", "s2"))
    return one.wait_ready(), two.wait_ready()


def both_ready(nodes):
    return all(status(f"{node.url}/readyz") == 200 for node in nodes)


def writes(redis):
    """How many scripts a server has run: whatever a node writes is one. (PUBLISH is also the sentinels', to each other.)"""
    return next(line.split(",")[0] for line in redis.call("INFO", "commandstats").splitlines() if line.startswith("cmdstat_evalsha"))


@pytest.mark.parametrize("fault", [signal.SIGKILL, signal.SIGSTOP], ids=["killed", "frozen"])
def test_a_failover_under_load_loses_nothing_acknowledged_without_a_word(start, fault):
    watched = Watched(start)
    nodes = two_nodes(start, watched)
    old, new = watched.master, watched.replica
    with Listener(nodes[1], "room:a", "room:b") as listener, Talker(nodes[0], "room:a", "room:b", burst=5) as talker:
        talker.wait_for(50)
        old.signal(fault)
        eventually(lambda: all(sentinel.says() == new.port for sentinel in watched.sentinels), 15, "the sentinels have failed over")
        eventually(lambda: both_ready(nodes), 10, "both nodes are ready again")
        talker.wait_for(30)
        if fault == signal.SIGSTOP:
            old.signal(signal.SIGCONT)
            # What lay in its sockets is carried out at once; from then on nobody publishes there any more.
            eventually(lambda: old.links() == [], 10, "no node is connected to the old master")
            before = writes(old)
            talker.wait_for(50)
            time.sleep(1)
            assert writes(old) == before and old.links() == []
        talker.stop()
        listener.check(talker)
    assert len(new.links()) == 4
    for node in nodes:
        assert "node.degraded" in node.log


def test_an_ordered_failover_is_followed_and_the_demoted_master_is_left(start):
    watched = Watched(start)
    nodes = two_nodes(start, watched)
    with Listener(nodes[1], "room:order") as listener, Talker(nodes[0], "room:order") as talker:
        talker.wait_for(30)
        watched.sentinels[0].call("SENTINEL", "FAILOVER", "main")
        eventually(lambda: len(watched.replica.links()) == 4, 15, "both nodes are at the new master")
        # It goes on calling itself a master for some seconds, until the sentinels have told it.
        eventually(lambda: watched.master.links() == [], 5, "nobody is connected to the old master")
        assert "role:master" in watched.master.call("INFO", "replication")
        before = writes(watched.master)
        talker.wait_for(100)
        assert writes(watched.master) == before
        talker.stop()
        listener.check(talker)


def test_users_passwords_and_a_dead_sentinel_are_no_obstacle(start):
    password, word = "data-pa55word", "sentinel-pa55word"
    watched = Watched(
        start, "--requirepass", password, password=password, lines=(f"sentinel auth-pass main {password}", f"requirepass {word}"), sentinel_password=word)
    watched.sentinels[0].kill()
    node = start(
        Hub, name="s1", settings={**FAST, **watched.settings, "redis.prefix": "h"},
        environment={"HUB_CFG_REDIS__PASSWORD": password, "HUB_CFG_REDIS__SENTINEL__PASSWORD": word})
    with Client(node, user="alice") as alice:
        alice.chat("room:s", "hello")
    assert password not in node.log and word not in node.log


def test_sentinels_and_servers_over_tls_are_followed_through_a_failover(start, folder):
    certificate = Certificate(folder, "sentinel", "localhost")
    context = trusting(certificate)
    context.check_hostname = False
    files = {"tls-cert-file": certificate.cert, "tls-key-file": certificate.key, "tls-ca-cert-file": certificate.cert}
    options = {**files, "tls-auth-clients": "no", "tls-replication": "yes"}
    watched = Watched(
        start, *(word for name, value in options.items() for word in (f"--{name}", value)), lines=[f"{name} {value}" for name, value in options.items()],
        tls=context)
    one, two = two_nodes(start, watched, **{"redis.tls.ca": certificate.cert})
    with Client(one, user="alice") as alice, Client(two, user="bob") as bob:
        bob.subscribe("room:tls")
        assert alice.chat("room:tls", "before")["offset"] == 1
        assert bob.expect(type="chat")["payload"]["text"] == "before"
        watched.master.kill()
        for client in (alice, bob):
            client.expect(event="degraded", seconds=30)
            client.expect(event="restored", seconds=60)
        alice.chat("room:tls", "after")
        assert bob.expect(type="chat", seconds=30)["payload"]["text"] == "after"
    assert len(watched.replica.links()) >= 4


def test_sentinels_that_know_no_such_master_are_named(start):
    watched = Watched(start)
    node = start(Hub, ready=False, settings={**watched.settings, "redis.sentinel.master": "other"})
    node.expect_log("knows no master of the name in redis.sentinel.master")
    assert status(f"{node.url}/readyz") == 503


def test_a_key_of_somebody_else_in_place_of_the_failover_s_number_is_named(start):
    watched = Watched(start)
    watched.master.call("RPUSH", "hub:failover", "mine")
    node = start(Hub, ready=False, settings=watched.settings)
    node.expect_log("hub:failover holds something that isn't a hub's")
    reason = "the link to Redis is down: a key of Redis that the hub needs is somebody else's"
    eventually(lambda: request(f"{node.url}/readyz")[2].get("reason") == reason, 10, reason)
    assert watched.master.call("LRANGE", "hub:failover", "0", "-1") == ["mine"]


def test_a_sentinel_that_names_a_replica_is_not_believed(start):
    watched = Watched(start)
    # It knows of one that isn't a master any more, as after a partition.
    for sentinel in watched.sentinels:
        sentinel.kill()
    from redises import Sentinel
    liar = start(Sentinel, watched.replica, 1)
    node = start(Hub, ready=False, settings={"redis.sentinel.urls": liar.url, "redis.sentinel.master": "main"})
    node.expect_log("isn't a master", 15)
    assert watched.replica.call("PUBSUB", "CHANNELS") in ([], ["__sentinel__:hello"])
