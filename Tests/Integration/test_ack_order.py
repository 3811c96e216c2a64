"""Acks come in the order of the requests for each channel, whoever answers them (docs/protocol.md, "Order")."""

import signal
import time

import pytest

from client import Client
from hub import FAST, Hub
from redises import Redis

SUBSCRIBED = [
    {"type": "chat", "payload": "one"}, {"type": "typing", "payload": {"isTyping": True}}, {"type": "read", "payload": {"offset": 0}},
    {"type": "unsubscribe"}, {"type": "chat", "payload": "two"}, {"type": "subscribe"}, {"type": "history"}, {"type": "unsubscribe"},
]


@pytest.mark.parametrize("subprotocols", [("hub.v1.json",), ("hub.v1.msgpack",)])
def test_acks_of_a_channel_come_in_the_order_of_its_requests_also_while_redis_is_slow(start, subprotocols):
    redis = start(Redis)
    node = start(Hub, redis=redis.url, settings=FAST)
    with Client(node, user="alice", subprotocols=subprotocols) as alice:
        alice.subscribe("room:order")
        # Not for as long as a command may take: nothing is lost.
        redis.signal(signal.SIGSTOP)
        for number, envelope in enumerate(SUBSCRIBED):
            alice.send({**envelope, "channel": "room:order", "id": number + 100})
        # What has nothing to do with channels isn't kept waiting.
        alice.send({"type": "ping", "id": "meanwhile"})
        alice.expect(type="pong", id="meanwhile")
        time.sleep(0.3)
        redis.signal(signal.SIGCONT)
        answers = [alice.expect(lambda message: message.get("id", 0) >= 100) for _ in SUBSCRIBED]
        assert [answer["id"] for answer in answers] == [number + 100 for number in range(len(SUBSCRIBED))]
        assert {answer["type"] for answer in answers} == {"ack"}, answers
