"""Servers that answer wrongly, on purpose or by mistake: named, bounded, survived."""

import time

import pytest

from client import Client
from fakeredis import FakeRedis, array, bulk, slots
from hub import FAST, Hub, eventually, status


def refused(node, break_off):
    """How long it takes until a chat that can't be carried out is answered `unavailable`. Whoever comes meanwhile is turned away."""
    with Client(node, user="alice") as alice:
        break_off()
        began = time.monotonic()
        alice.send({"type": "chat", "id": 1, "channel": "room:x", "payload": "hello"})
        answer = alice.expect(lambda message: message.get("id") == 1, seconds=15)
        assert (answer["type"], answer["code"]) == ("error", "unavailable"), answer
        return time.monotonic() - began


# Retried for as long as the message id is remembered: here 4 s.
SHORT = {**FAST, "namespaces.*.dedup": "4s"}


def test_masters_that_send_us_in_a_circle_are_asked_at_a_pace_and_not_for_ever(start):
    with FakeRedis() as one, FakeRedis(cluster_slots=lambda _: slots((0, 16383, one.port))) as two:
        node = start(Hub, settings={**SHORT, "redis.cluster": one.url})

        def moved_to(other):
            # What has no key is at home everywhere.
            return lambda words: b"-MOVED %d 127.0.0.1:%d\r\n" % (slot(words[3]), other.port) if words[2] != "0" else b":1\r\n"

        def break_off():
            one.answers["EVALSHA"], two.answers["EVALSHA"] = moved_to(two), moved_to(one)

        assert 3 < refused(node, break_off) < 6
        publishes = sum(words[0] == "EVALSHA" and ":m:room:x" in words[3] for words in one.seen + two.seen)
        assert 3 < publishes < 40, publishes
        assert node.is_running and status(f"{node.url}/healthz") == 200


def test_a_slot_that_never_arrives_is_waited_for_at_a_pace_and_not_for_ever(start):
    with FakeRedis() as redis:
        node = start(Hub, settings={**SHORT, "redis.cluster": redis.url})
        again = b"-TRYAGAIN Multiple keys request during rehashing of slot\r\n"
        assert 3 < refused(node, lambda: redis.answers.update(EVALSHA=again)) < 6
        assert 3 < sum(words[0] == "EVALSHA" and ":m:room:x" in words[3] for words in redis.seen) < 40


def test_a_cluster_without_sharded_messages_is_refused_by_name(start):
    with FakeRedis(ssubscribe=b"-ERR unknown command 'SSUBSCRIBE', with args beginning with: 'x'\r\n") as redis:
        node = start(Hub, ready=False, settings={"redis.cluster": redis.url})
        node.expect_log("a cluster has to be of Redis 7 or later, or of Valkey")
        assert status(f"{node.url}/readyz") == 503


def slot(key):
    crc = 0
    for byte in key[key.index("{") + 1:key.index("}")].encode() if "{" in key else key.encode():
        crc ^= byte << 8
        for _ in range(8):
            crc = (crc << 1 ^ 0x1021 if crc & 0x8000 else crc << 1) & 0xFFFF
    return crc % 16384


# What the parsers make of more of it: TopologyTests.
GARBAGE = [
    b":1\r\n", array(array(b":0\r\n", b":16384\r\n", array(bulk("h"), b":1\r\n"))), b"*2147483647\r\n", b"-MOVED 99999999999999999999 h:1\r\n",
    b"nonsense\r\n",
]


def test_whatever_a_cluster_s_node_says_the_hub_stays_up(start):
    current = []
    with FakeRedis(cluster_slots=lambda _: current[-1]) as redis:
        current.append(GARBAGE[0])
        node = start(Hub, ready=False, settings={"redis.cluster": redis.url})
        # A question for each: every answer that makes no sense ends a connection, after which there's a backoff.
        for garbage in GARBAGE:
            current.append(garbage)
            before = redis.count("CLUSTER")
            eventually(lambda: redis.count("CLUSTER") > before + 2, 12)
            assert status(f"{node.url}/readyz") == 503 and status(f"{node.url}/healthz") == 200
        del redis.answers["CLUSTER_SLOTS"]
        before = redis.count("SSUBSCRIBE")
        eventually(lambda: redis.count("SSUBSCRIBE") > before, 12)


@pytest.mark.parametrize("garbage", [
    b"*0\r\n", array(bulk("ip")), array(bulk("ip"), bulk("h"), bulk("port"), bulk("70000")), array(bulk("ip"), b":1\r\n"), b"+OK\r\n", b"*-1\r\n",
])
def test_whatever_a_sentinel_says_the_hub_stays_up(start, garbage):
    with FakeRedis(sentinel=garbage) as sentinel:
        node = start(Hub, ready=False, settings={"redis.sentinel.urls": sentinel.url, "redis.sentinel.master": "main"})
        node.expect_log("not what a sentinel answers")
        assert status(f"{node.url}/readyz") == 503 and status(f"{node.url}/healthz") == 200
