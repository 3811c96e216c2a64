"""Coming back: exactly what was missed, in the ack, then live; embedded and with two nodes, JSON and MessagePack."""

import signal
import time

import pytest

import hub as library
from client import Client
from hub import FAST, Hub, RedisServer, eventually, request
from bots import Follower, Publisher, check
from relay import Relay

FORMATS = {"json": ("hub.v1.json",), "msgpack": ("hub.v1.msgpack",)}
# Enough for what a test publishes.
KEEP = {"namespaces.*.history.size": 100000}


@pytest.fixture(params=["embedded", "redis"])
def servers(request, start):
    """One node on its own, or two that share a Redis."""
    def make(**settings):
        settings = {**KEEP, **settings}
        if request.param == "embedded":
            return [start(Hub, settings=settings)]
        redis = start(RedisServer)
        return [start(Hub, name=name, redis=redis.url, settings=settings) for name in ("n1", "n2")]

    make.redis = request.param == "redis"
    return make


def last(servers, channel):
    return request(f"{servers[0].url}/v1/channels/{channel}/history?reverse=true&limit=1")[2]["position"]


# What a subscriber gets

@pytest.mark.parametrize("subprotocols", FORMATS.values(), ids=FORMATS.keys())
def test_what_was_missed_comes_in_the_ack_then_live(servers, subprotocols):
    nodes = servers()
    with Client(nodes[0], user="alice") as alice, Client(nodes[-1], user="bob", subprotocols=subprotocols) as bob:
        position = bob.subscribe("room")["position"]
        alice.chat("room", "heard")
        position = bob.expect(type="chat")["position"]
        bob.request("unsubscribe", channel="room")
        for number in range(7):
            alice.chat("room", f"missed {number}")
        ack = bob.request("subscribe", channel="room", position=position)
        assert ack["recovered"] is True and "more" not in ack
        assert [message["payload"]["text"] for message in ack["publications"]] == [f"missed {number}" for number in range(7)]
        assert [message["offset"] for message in ack["publications"]] == list(range(2, 9))
        assert ack["position"] == ack["publications"][-1]["position"] and ack["offset"] == 8
        alice.chat("room", "live")
        live = bob.expect(type="chat")
        assert live["offset"] == 9 and live["payload"] == {"text": "live"}
        # As they're delivered, field by field.
        assert set(live) == set(ack["publications"][0])


def test_a_channel_that_had_nothing_yet_recovers(servers):
    nodes = servers()
    with Client(nodes[0], user="alice") as alice, Client(nodes[-1], user="bob") as bob:
        origin = bob.subscribe("room")["position"]
        assert origin.startswith(".0.") and len(origin) == 11 and alice.where("room") == origin
        bob.request("unsubscribe", channel="room")
        assert bob.request("subscribe", channel="room", position=origin)["recovered"] is True
        bob.request("unsubscribe", channel="room")
        alice.chat("room", "first")
        ack = bob.request("subscribe", channel="room", position=origin)
        assert ack["recovered"] is True and [message["offset"] for message in ack["publications"]] == [1]


@pytest.mark.parametrize("said", [0, 1])
def test_a_beginning_that_proves_nothing_is_told(servers, said):
    nodes = servers()
    with Client(nodes[0], user="alice") as alice, Client(nodes[-1], user="bob") as bob:
        for number in range(said):
            alice.chat("room", str(number))
        # As earlier versions wrote it, and of other data.
        for position in (".0.", ".0.qqqqqqqq"):
            ack = bob.request("subscribe", channel="room", position=position)
            assert (ack["recovered"], ack["reason"], ack["offset"]) == (False, "epochChanged", said)
            bob.request("unsubscribe", channel="room")


def test_payloads_of_the_other_format_are_rewritten_in_pages_too(servers):
    nodes = servers()
    with Client(nodes[0], user="alice", subprotocols=FORMATS["msgpack"]) as alice, Client(nodes[-1], user="bob") as bob:
        origin = bob.where("room")
        alice.request("chat", channel="room", payload={"bytes": b"\x01\x02", "half": 0.5})
        page = bob.request("subscribe", channel="room", position=origin)["publications"]
        assert page[0]["payload"] == {"bytes": "AQI=", "half": 0.5}
        assert bob.request("history", channel="room")["publications"] == page


def test_many_channels_in_one_request(servers):
    nodes = servers()
    with Client(nodes[0], user="alice") as alice, Client(nodes[-1], user="bob") as bob:
        channels = [f"room:{number}" for number in range(200)]
        positions = {entry["channel"]: entry["position"] for entry in bob.request("subscribe", channels=channels)["channels"]}
        for channel in channels:
            bob.send({"type": "unsubscribe", "channel": channel})
        bob.sync()
        for channel in channels[::2]:
            alice.chat(channel, channel)
        asked = [{"channel": channel, "position": positions[channel]} for channel in channels]
        ack = bob.request("subscribe", channels=asked)["channels"]
        assert [entry["channel"] for entry in ack] == channels
        for number, entry in enumerate(ack):
            assert entry["recovered"] is True and "more" not in entry, entry
            assert [message["payload"]["text"] for message in entry.get("publications", [])] == ([entry["channel"]] if number % 2 == 0 else [])


def test_pages_join_at_the_end(servers):
    nodes = servers(**{"limits.historyPage": 5})
    with Client(nodes[0], user="alice") as alice, Client(nodes[-1], user="bob") as bob:
        position = bob.subscribe("room")["position"]
        bob.request("unsubscribe", channel="room")
        for number in range(12):
            alice.chat("room", str(number))
        got = []
        ack = bob.request("subscribe", channel="room", position=position)
        got += ack["publications"]
        assert ack["more"] and len(got) == 5 and ack["position"] == got[-1]["position"]
        # Not subscribed yet: nothing live.
        alice.chat("room", "12")
        bob.sync()
        assert not [message for message in bob.inbox if message["type"] == "chat"]
        while ack.get("more"):
            ack = bob.request("history", channel="room", since=ack["position"])
            got += ack["publications"]
        assert [message["payload"]["text"] for message in got] == [str(number) for number in range(13)]
        alice.chat("room", "13")
        assert bob.expect(type="chat")["offset"] == 14


def test_one_who_catches_up_may_give_it_up(servers):
    nodes = servers(**{"limits.historyPage": 2})
    with Client(nodes[0], user="alice") as alice, Client(nodes[-1], user="bob") as bob:
        origin = bob.where("room")
        for number in range(6):
            alice.chat("room", str(number))
        assert bob.request("subscribe", channel="room", position=origin)["more"]
        bob.request("unsubscribe", channel="room")
        assert bob.try_request("unsubscribe", channel="room")["code"] == "notSubscribed"
        # An ordinary page now, whose end subscribes nobody.
        assert "more" not in bob.request("history", channel="room", since=origin, limit=10)
        alice.chat("room", "6")
        bob.sync()
        assert not [message for message in bob.inbox if message["type"] == "chat"]


def test_large_pages_stay_below_the_outbound_limit(servers):
    nodes = servers(**{"limits.outboundBytes": "100KB"})
    with Client(nodes[0], user="alice") as alice, Client(nodes[-1], user="bob") as bob:
        asked = [{"channel": f"room:{number}", "position": bob.where(f"room:{number}")} for number in range(3)]
        for number in range(60):
            alice.request("chat", channel=f"room:{number % 3}", payload="x" * 5000)
        for entry in bob.request("subscribe", channels=asked)["channels"]:
            got = entry.get("publications", [])
            while entry.get("more"):
                entry = bob.request("history", channel=entry["channel"], since=entry["position"])
                assert entry["publications"] and len(entry["publications"]) <= 5
                got += entry["publications"]
            assert len(got) == 20


def test_a_member_that_subscribes_again_with_a_position_hears_nothing_twice(servers):
    nodes = servers()
    with Client(nodes[0], user="alice") as alice, Client(nodes[-1], user="bob") as bob:
        bob.subscribe("room")
        for number in range(5):
            alice.chat("room", str(number))
        heard = [bob.expect(type="chat") for _ in range(5)]
        ack = bob.request("subscribe", channel="room", position=heard[1]["position"])
        assert [message["offset"] for message in ack["publications"]] == [3, 4, 5]
        alice.chat("room", "5")
        assert bob.expect(type="chat")["offset"] == 6


# What can't be proved

def foreign(position, epoch=None, offset=None, tag=None):
    parts = position.split(".")
    return ".".join([epoch or parts[0], str(offset if offset is not None else parts[1]), tag or parts[2]])


def test_what_cannot_be_proved_has_a_reason_and_is_live_from_there(servers):
    nodes = servers(**{"namespaces.small.history.size": 3})
    with Client(nodes[0], user="alice") as alice, Client(nodes[-1], user="bob") as bob:
        for channel in ("room", "small:1"):
            for number in range(2, 252):
                alice.send({"type": "chat", "channel": channel, "payload": number})
        here = alice.chat("room", "last")["position"]
        small = alice.chat("small:1", "last")["position"]
        wrong = {
            foreign(here, epoch="qqqqqqqq"): "epochChanged",
            foreign(here, tag="qqqqqqqq"): "rolledBack",
            foreign(here, offset=100, tag="qqqqqqqq"): "rolledBack",
            foreign(here, offset=9000): "ahead",
            foreign(here, offset=2**53 - 1): "ahead",
        }
        for position, reason in wrong.items():
            ack = bob.request("subscribe", channel="room", position=position)
            assert (ack["recovered"], ack["reason"], ack["position"]) == (False, reason, here), position
            assert "publications" not in ack
            bob.request("unsubscribe", channel="room")
        ack = bob.request("subscribe", channel="small:1", position=foreign(small, offset=1))
        assert (ack["recovered"], ack["reason"], ack["position"]) == (False, "trimmed", small)
        alice.chat("small:1", "live")
        assert bob.expect(type="chat", channel="small:1")["offset"] == 252
        # Strings that no hub gave out.
        for text in ("x", "1.2.3", ".-1.", ".9007199254740992.", here + " ", here.upper(), ".1e3.", "", "." * 40):
            bob.send_raw('{"type":"subscribe","id":7,"channel":"room","position":"%s"}' % text)
            assert bob.expect(type="error")["code"] == "badPosition", text


def test_a_namespace_without_history_recovers_only_who_missed_nothing(servers):
    nodes = servers(**{"namespaces.none.history.size": 0, "limits.recoveryMemory": 0})
    with Client(nodes[0], user="alice") as alice, Client(nodes[-1], user="bob") as bob:
        here = alice.chat("none:1", "1")["position"]
        assert bob.request("subscribe", channel="none:1", position=here)["recovered"] is True
        bob.request("unsubscribe", channel="none:1")
        alice.chat("none:1", "2")
        ack = bob.request("subscribe", channel="none:1", position=here)
        assert (ack["recovered"], ack["reason"]) == (False, "trimmed")
        assert bob.request("history", channel="none:1")["publications"] == []


def test_another_ones_inbox_stays_closed(start):
    secret = "0123456789abcdef0123456789abcdef"
    node = start(Hub, dev=False, environment={"S": secret}, settings={"auth.keys": '[{"alg":"HS256","env":"S"}]'})
    token = library.run("hubctl", "token", "--user", "bob", environment={"HUB_AUTH_SECRET": secret}).stdout.strip()
    with Client(node, token=token) as bob:
        assert bob.try_request("subscribe", channel="user:alice", position=".0.")["code"] == "forbidden"
        assert bob.try_request("history", channel="user:alice")["code"] == "forbidden"
        assert bob.request("history", channel="user:bob")["publications"] == []


# Races

@pytest.mark.parametrize("subprotocols", FORMATS.values(), ids=FORMATS.keys())
def test_thousands_of_reconnects_while_bots_publish_at_full_speed(servers, subprotocols):
    nodes = servers()
    publishers = [Publisher(nodes, "room", f"p{number}") for number in range(3)]
    followers = [
        Follower(nodes, "room", f"f{number}", stay=0.02 * (number % 4), subprotocols=subprotocols, vanishes=number % 2 == 0,
                 resubscribes=number % 3 == 0)
        for number in range(8)]
    for bot in publishers + followers:
        bot.start()
    def counts():
        return sum(follower.recoveries for follower in followers), sum(len(publisher.acknowledged) for publisher in publishers)

    # By number, not by time: how long it takes is the machine's business.
    eventually(lambda: any(not bot.is_alive() for bot in publishers + followers) or min(counts()) > 1000, 240, "a thousand of each")
    for publisher in publishers:
        publisher.finish()
    end = last(nodes, "room")
    for follower in followers:
        follower.finish(end)
    check(followers, publishers)
    print("%d recoveries, %d publications" % counts(), f"{sum(follower.pages for follower in followers)} pages")


def test_small_memory_and_small_pages_change_nothing(servers):
    nodes = servers(**{"limits.historyPage": 7, "limits.recoveryMemory": "4KB"})
    publishers = [Publisher(nodes, "room", f"p{number}", pause=0.002) for number in range(2)]
    followers = [Follower(nodes, "room", f"f{number}", stay=0.1) for number in range(6)]
    for bot in publishers + followers:
        bot.start()
    eventually(lambda: sum(follower.pages for follower in followers) > 30, 120, "pages were continued")
    for publisher in publishers:
        publisher.finish()
    end = last(nodes, "room")
    for follower in followers:
        follower.finish(end)
    check(followers, publishers)


def test_a_connection_that_goes_during_its_recovery_leaves_nothing_behind(servers):
    nodes = servers()
    with Client(nodes[0], user="alice") as alice:
        origin = alice.where("room")
        for number in range(50):
            alice.chat("room", str(number))
        for number in range(100):
            bob = Client(nodes[-1], user="bob")
            bob.send({"type": "subscribe", "id": 1, "channel": "room", "position": origin})
            bob.vanish()
        with Client(nodes[-1], user="carol") as carol:
            assert len(carol.request("subscribe", channel="room", position=origin)["publications"]) == 50
            alice.chat("room", "live")
            assert carol.expect(type="chat")["offset"] == 51
        eventually(lambda: nodes[-1].metric("hub_sessions") <= 1 and nodes[-1].metric("hub_subscriptions") <= 2)


def test_requests_behind_a_recovery_keep_their_order(servers):
    nodes = servers()
    with Client(nodes[0], user="alice") as alice, Client(nodes[-1], user="bob") as bob:
        origin = bob.where("room")
        for number in range(5):
            alice.chat("room", str(number))
        for envelope in (
                {"type": "subscribe", "id": 1, "channel": "room", "position": origin}, {"type": "chat", "id": 2, "channel": "room", "payload": "mine"},
                {"type": "history", "id": 3, "channel": "room"}, {"type": "unsubscribe", "id": 4, "channel": "room"},
                {"type": "subscribe", "id": 5, "channel": "room"}):
            bob.send(envelope)
        first = bob.expect(type="ack")
        assert first["id"] == 1 and len(first["publications"]) == 5
        acks = [bob.expect(type="ack")["id"] for _ in range(4)]
        assert sorted(acks) == [2, 3, 4, 5]


def test_default_channel_recovers_by_request(servers):
    nodes = servers()
    with Client(nodes[0], user="alice", channel="room") as alice:
        alice.request("chat", payload=1)
        alice.request("chat", payload=2)
        assert [message["payload"] for message in alice.request("history")["publications"]] == [1, 2]


# Retries

def test_a_retry_is_the_first_ones_answer(servers):
    nodes = servers()
    with Client(nodes[0], user="alice") as alice, Client(nodes[-1], user="alice") as other:
        before = alice.subscribe("room")["position"]
        first = alice.chat("room", "once", messageId="m1")
        again = other.chat("room", "once", messageId="m1", age=30_000, since=before)
        assert again["duplicate"] and again["position"] == first["position"]


def test_a_late_retry_is_settled_by_history_or_uncertain(servers):
    nodes = servers(**{"namespaces.*.dedup": "1s"})
    with Client(nodes[0], user="alice") as alice, Client(nodes[-1], user="alice") as other:
        before = alice.subscribe("room")["position"]
        first = alice.chat("room", "once", messageId="m1")
        time.sleep(1.5)
        again = other.chat("room", "once", messageId="m1", age=5_000, since=before)
        assert again["duplicate"] and again["position"] == first["position"]
        # Provably not published: it is now.
        new = other.chat("room", "tunnel", messageId="m2", age=5_000, since=before)
        assert "duplicate" not in new and new["offset"] == first["offset"] + 1
        # Nothing to go by.
        assert other.try_request("chat", channel="room", messageId="m3", age=5_000, payload=1)["code"] == "uncertain"
        gone = foreign(first["position"], epoch="qqqqqqqq", tag="qqqqqqqq", offset=1)
        assert other.try_request("chat", channel="room", messageId="m4", age=5_000, since=gone, payload=1)["code"] == "uncertain"
        assert alice.request("history", channel="room", reverse=True, limit=1)["offset"] == new["offset"]
        # Fields that can't be what they must.
        for text in ('"age":-1', '"age":"5"', '"age":1e3', '"age":9007199254740992', '"since":5,"age":1', '"since":"x","age":1', '"since":{}'):
            alice.send_raw('{"type":"chat","id":9,"channel":"room","payload":1,%s}' % text)
            assert alice.expect(type="error")["code"] in ("malformed", "badPosition"), text


# Read positions and typing

def test_read_positions_come_with_the_ack_and_never_go_back(servers):
    nodes = servers()
    with Client(nodes[0], user="alice") as alice, Client(nodes[-1], user="bob") as bob:
        for number in range(5):
            alice.chat("room", str(number))
        alice.request("read", channel="room", payload={"offset": 3})
        assert bob.subscribe("room")["reads"] == [{"user": "alice", "offset": 3}]
        bob.request("read", channel="room", payload={"offset": 4})
        assert alice.request("read", channel="room", payload={"offset": 2})["offset"] == 3
        alice.request("read", channel="room", payload={"offset": 5})
        for node in nodes:
            with Client(node, user="bob") as again:
                eventually(lambda: again.subscribe("room")["reads"] == [{"user": "bob", "offset": 4}, {"user": "alice", "offset": 5}])


def test_typing_is_throttled_and_expires(servers):
    nodes = servers(**{"typing.throttle": "500ms", "typing.expire": "1500ms"})
    with Client(nodes[-1], user="bob") as bob:
        bob.subscribe("room")
        alice = Client(nodes[0], user="alice")
        for _ in range(20):
            alice.request("typing", channel="room", payload={"isTyping": True})
        assert bob.expect(type="typing")["payload"] == {"isTyping": True}
        # Nobody says it again: expired, told once.
        assert bob.expect(type="typing")["payload"]["isTyping"] is False
        assert not [message for message in bob.gather(0.7) if message["type"] == "typing"]


def test_typing_ends_with_its_connection_long_before_it_expires(servers):
    nodes = servers(**{"typing.expire": "60s"})
    with Client(nodes[-1], user="bob") as bob:
        bob.subscribe("room")
        alice = Client(nodes[0], user="alice")
        alice.request("typing", channel="room", payload={"isTyping": True})
        assert bob.expect(type="typing")["payload"]["isTyping"] is True
        alice.vanish()
        ended = bob.expect(type="typing")
        assert ended["payload"]["isTyping"] is False and ended["user"] == "alice"
        assert not [message for message in bob.gather(2) if message["type"] == "typing"]


def test_typing_by_turns_is_throttled_and_the_last_state_is_told(servers):
    nodes = servers(**{"typing.throttle": "800ms", "typing.expire": "4s"})
    with Client(nodes[-1], user="bob") as bob, Client(nodes[0], user="alice") as alice:
        bob.subscribe("room")
        for count in (30, 31, 30):
            for number in range(count):
                alice.request("typing", channel="room", payload={"isTyping": number % 2 == 0})
            told = [message["payload"]["isTyping"] for message in bob.gather(2) if message["type"] == "typing"]
            # Two at once, and what's left when the throttle's time is over; more only if the answers take longer than that.
            assert len(told) < 15 and told[-1] is (count % 2 == 1), told
            assert all(one is not other for one, other in zip(told, told[1:])), told


def test_typing_of_a_node_that_died_expires(start):
    redis = start(RedisServer)
    settings = {**FAST, "typing.throttle": "500ms", "typing.expire": "1500ms"}
    one, two = (start(Hub, name=name, redis=redis.url, settings=settings) for name in ("n1", "n2"))
    with Client(two, user="bob") as bob:
        bob.subscribe("room")
        alice = Client(one, user="alice")
        alice.request("typing", channel="room", payload={"isTyping": True})
        assert bob.expect(type="typing")["payload"]["isTyping"] is True
        one.signal(signal.SIGKILL)
        assert bob.expect(type="typing")["payload"]["isTyping"] is False


# Redis away

def test_redis_away_a_channel_that_the_node_carries_serves_from_memory(start):
    redis = start(RedisServer)
    node = start(Hub, redis=redis.url)
    with Client(node, user="alice") as alice, Client(node, user="bob") as bob:
        alice.subscribe("room")
        first = alice.chat("room", "1")["position"]
        alice.chat("room", "2")
        redis.signal(signal.SIGSTOP)
        try:
            alice.expect(type="system", event="degraded", seconds=20)
            bob.expect(type="system", event="degraded", seconds=20)
            ack = bob.request("subscribe", channel="room", position=first)
            assert ack["recovered"] is True and [message["payload"]["text"] for message in ack["publications"]] == ["2"]
            refusal = bob.try_request("chat", channel="room", payload=1)
            assert refusal["code"] == "unavailable" and refusal["retry"] and refusal["retryAfter"] > 0
            refusal = bob.try_request("subscribe", channel="elsewhere", position=".0.")
            assert refusal["code"] == "unavailable" and refusal["retry"]
            bob.send({"type": "typing", "channel": "room", "payload": {"isTyping": True}})
            assert alice.expect(type="typing")["user"] == "bob"
        finally:
            redis.signal(signal.SIGCONT)
        bob.expect(type="system", event="restored", seconds=20)
        alice.chat("room", "3", messageId="m3")
        assert bob.expect(type="chat", messageId="m3")


def test_a_cut_between_node_and_redis_is_filled_or_announced(start):
    redis = start(RedisServer)
    one = start(Hub, name="n1", redis=redis.url, settings=KEEP)
    with Relay(redis) as relay:
        two = start(Hub, name="n2", redis=f"redis://127.0.0.1:{relay.port}", settings=KEEP)
        publisher = Publisher([one], "room", "p", pause=0.005)
        followers = [Follower([two], "room", f"f{number}", stay=0.5 + number) for number in range(3)]
        for bot in [publisher, *followers]:
            bot.start()
        time.sleep(2)
        relay.is_frozen = True
        time.sleep(4)
        relay.is_frozen = False
        time.sleep(6)
        publisher.finish()
        end = last([one], "room")
        for follower in followers:
            follower.finish(end)
        check(followers, [publisher])


def test_a_channel_asked_for_twice_at_once_is_joined_once(servers):
    nodes = servers()
    with Client(nodes[0], user="alice") as alice, Client(nodes[-1], user="bob") as bob:
        origin = bob.where("room")
        for number in range(5):
            alice.chat("room", str(number))
        bob.send({"type": "subscribe", "id": "a", "channel": "room"})
        bob.send({"type": "subscribe", "id": "b", "channel": "room", "position": origin})
        for number in range(5, 25):
            alice.chat("room", str(number))
        heard = [bob.expect(lambda message: message["type"] in ("ack", "chat"))]
        while heard[-1].get("offset") != 25 or heard[-1]["type"] == "ack" and heard[-1]["id"] != "b":
            heard.append(bob.expect(lambda message: message["type"] in ("ack", "chat")))
        second = next(place for place, message in enumerate(heard) if message.get("id") == "b")
        assert heard[0]["id"] == "a" and second > 0
        # From the start on, as it was asked for, and behind the answer only what it doesn't have.
        offsets = [message["offset"] for message in heard[second]["publications"] + heard[second + 1:]]
        assert offsets == list(range(1, 26))
        ack = bob.request("subscribe", channels=[{"channel": "x", "position": ".0."}, {"channel": "x", "position": ".0."}, "x"])["channels"]
        assert [entry.get("code") for entry in ack] == [None, "malformed", None]
