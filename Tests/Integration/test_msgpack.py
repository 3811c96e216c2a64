"""hub.v1.msgpack: the vectors hold for an implementation that isn't ours, and rooms may mix the two formats."""

import base64
import json
import math

import msgpack
import pytest

from client import Client
from hub import TOP, Hub, RedisServer, request, running

PACKED = ("hub.v1.msgpack",)
ENVELOPES = json.loads((TOP / "docs/vectors/envelopes.json").read_text())
PAYLOADS = json.loads((TOP / "docs/vectors/payloads.json").read_text())


@pytest.fixture(scope="module")
def hub(folder):
    with running(Hub(folder)) as node:
        yield node


@pytest.fixture
def room(hub, request):
    """Two clients in a room of the test's own: one speaks JSON, one MessagePack."""
    channel = f"room:{request.node.name[:100]}"
    with Client(hub, "jason") as plain, Client(hub, "mona", subprotocols=PACKED) as packed:
        assert (plain.is_packed, packed.is_packed) == (False, True)
        plain.subscribe(channel)
        packed.subscribe(channel)
        yield plain, packed, channel


def as_json(value):
    """What a payload becomes for a subscriber who speaks JSON."""
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, list):
        return [as_json(element) for element in value]
    if isinstance(value, dict):
        return {key: as_json(element) for key, element in value.items()}
    return value


# The vectors

def test_the_envelopes_vectors_hold_for_another_implementation():
    for vector in ENVELOPES:
        packed = bytes.fromhex(vector["msgpack"])
        assert msgpack.unpackb(packed) == vector["json"], vector["name"]
        assert msgpack.packb(vector["json"]) == packed, vector["name"]


def test_the_payloads_vectors_hold_for_another_implementation():
    for vector in PAYLOADS["fromJSON"]:
        value = json.loads(vector["json"])
        if isinstance(value, int) and not -2**63 <= value < 2**64:
            value = float(value)
        if isinstance(value, str):
            # A lone surrogate isn't text: U+FFFD stands for it.
            value = "".join("\ufffd" if 0xD800 <= ord(letter) < 0xE000 else letter for letter in value)
        assert msgpack.unpackb(bytes.fromhex(vector["msgpack"])) == value, vector
    for vector in PAYLOADS["fromMessagePack"]:
        assert as_json(msgpack.unpackb(bytes.fromhex(vector["msgpack"]))) == json.loads(vector["json"]), vector


def test_what_is_refused_isn_t_msgpack_or_has_no_meaning_in_json():
    def has_meaning(value):
        if isinstance(value, dict):
            return all(isinstance(key, str) for key in value) and all(map(has_meaning, value.values()))
        if isinstance(value, list):
            return all(map(has_meaning, value))
        return isinstance(value, (str, bytes, bool, int, type(None))) or isinstance(value, float) and math.isfinite(value)

    for vector in PAYLOADS["refused"]:
        try:
            value = msgpack.unpackb(bytes.fromhex(vector["msgpack"]), strict_map_key=False)
        except (ValueError, msgpack.exceptions.UnpackException):
            continue
        assert not has_meaning(value), vector


# Choosing

@pytest.mark.parametrize(("offer", "chosen"), [
    (("hub.v1.msgpack",), "hub.v1.msgpack"),
    (("hub.v1.msgpack", "hub.v1.json"), "hub.v1.msgpack"),
    (("hub.v1.json", "hub.v1.msgpack"), "hub.v1.json"),
    (("other", "hub.v1.msgpack"), "hub.v1.msgpack"),
    (("other",), None),
    (None, None),
])
def test_the_first_of_the_client_s_offer_that_the_hub_knows_is_chosen(hub, offer, chosen):
    with Client(hub, "alice", subprotocols=offer) as client:
        assert client.socket.subprotocol == chosen
        assert client.subscribe("room:offer")["channel"] == "room:offer"


@pytest.mark.parametrize(("offer", "message"), [(PACKED, '{"type":"ping"}'), (("hub.v1.json",), b"\x81\xa4type\xa4ping")])
def test_the_other_kind_of_message_closes_with_1003(hub, offer, message):
    with Client(hub, "alice", subprotocols=offer) as client:
        client.send_raw(message)
        assert client.expect_close()[0] == 1003


# Mixed rooms

def test_chat_typing_and_read_go_both_ways(room):
    plain, packed, channel = room
    for number, sender in enumerate((plain, packed) * 5):
        payload = {"text": f"{number} é😀\n", "list": [number, -1.5, None, True, {}], "big": 2**53 + 1}
        sent = sender.request("chat", channel=channel, messageId=f"m{number}", payload=payload)
        heard = [client.expect(type="chat") for client in (plain, packed)]
        assert heard[0] == heard[1]
        assert heard[0]["payload"] == payload and heard[0]["position"] == sent["position"]
    for sender, hearer in ((plain, packed), (packed, plain)):
        sender.send({"type": "typing", "channel": channel, "payload": {"isTyping": True, "in": "a box"}})
        assert hearer.expect(type="typing")["payload"] == {"isTyping": True, "in": "a box"}
    for reader, offset in ((packed, 3), (plain, 4)):
        assert reader.request("read", channel=channel, payload={"offset": offset})["offset"] == offset
        assert [client.expect(type="read")["payload"] for client in (plain, packed)] == [{"offset": offset}] * 2


def test_payloads_of_one_format_pass_unchanged_and_binary_is_base64_for_the_other(room, hub):
    plain, packed, channel = room
    with Client(hub, "max", subprotocols=PACKED) as other:
        other.subscribe(channel)
        packed.request("event", channel=channel, payload=[b"\x00\xff\xfe", 1.0])
        assert other.expect(type="event")["payload"] == [b"\x00\xff\xfe", 1.0]
        assert plain.expect(type="event")["payload"] == ["AP/+", 1.0]
    # Not even the form changes: a seven in nine bytes stays one.
    wide = b"\x83\xa4type\xa5event\xa7channel" + msgpack.packb(channel) + b"\xa7payload\xcf" + (7).to_bytes(8, "big")
    packed.expect(type="event")
    packed.send_raw(wide)
    assert packed.socket.recv(timeout=10).endswith(b"\xa7payload\xcf" + (7).to_bytes(8, "big"))


def test_a_retry_is_recognized_and_the_api_s_publications_reach_both(room, hub):
    plain, packed, channel = room
    first = packed.chat(channel, "once", messageId="m")
    assert packed.chat(channel, "once", messageId="m") == {**first, "id": first["id"] + 1, "duplicate": True}
    answer = request(f"{hub.url}/v1/publish", "POST", {"channel": channel, "class": "event", "payload": {"n": [1, 2.5]}})
    assert answer[0] == 200
    for client in (plain, packed):
        assert client.expect(type="event")["payload"] == {"n": [1, 2.5]}


def test_presence_is_watched_in_both_formats(hub):
    with Client(hub, "w-plain") as plain, Client(hub, "w-packed", subprotocols=PACKED) as packed:
        for watcher in (plain, packed):
            assert watcher.request("watch", users=["target"])["users"][0]["status"] == "offline"
        with Client(hub, "target", subprotocols=PACKED) as target:
            for watcher in (plain, packed):
                watcher.presence_of("target", "online")
            assert target.request("presence", payload={"status": "away"})["version"] >= 2
            for watcher in (plain, packed):
                watcher.presence_of("target", "away")
            target.request("leave")
        for watcher in (plain, packed):
            watcher.presence_of("target", "offline")


def test_several_channels_at_once_and_a_default_channel(hub):
    with Client(hub, "several", channel="room:default", subprotocols=PACKED) as client:
        assert set(client.welcome["channels"]) == {"user:several", "room:default"}
        position = client.chat("room:other", "first")["position"]
        answer = client.request("subscribe", channels=[{"channel": "room:other", "position": position}, "room:third"])
        assert [(entry["channel"], entry.get("recovered")) for entry in answer["channels"]] == [("room:other", True), ("room:third", None)]
        client.send({"type": "chat", "payload": {"text": "here"}})
        assert client.expect(type="chat")["channel"] == "room:default"
        assert client.request("unsubscribe", channel="room:third")["channel"] == "room:third"
        assert client.try_request("unsubscribe", channel="room:third")["code"] == "notSubscribed"


def test_members_who_come_and_go_keep_their_format(hub):
    channel = "room:churn"
    offers = [("hub.v1.json",), PACKED]
    clients = [Client(hub, f"c{number}", subprotocols=offers[number * 7 % 5 % 2]) for number in range(12)]
    try:
        for client in clients:
            client.subscribe(channel)
        for turn in range(6):
            clients[turn].request("unsubscribe", channel=channel)
            clients[-1].chat(channel, f"turn {turn}")
            for client in clients[:turn] + clients[turn + 1:]:
                # A message in the wrong format would fail inside `expect`.
                assert client.expect(type="chat")["payload"] == {"text": f"turn {turn}"}
            clients[turn].sync()
            assert [message for message in clients[turn].inbox if message["type"] == "chat"] == []
            clients[turn].subscribe(channel)
            clients[-1].chat(channel, "all")
            for client in clients:
                assert client.expect(type="chat")["payload"] == {"text": "all"}
    finally:
        for client in clients:
            client.leave()


# Bad input

def test_what_json_can_t_carry_is_refused_and_the_connection_lives(room):
    plain, packed, channel = room
    for vector in PAYLOADS["refused"]:
        head = b"\x84\xa2id\x07\xa4type\xa4chat\xa7channel" + msgpack.packb(channel)
        packed.send_raw(head + b"\xa7payload" + bytes.fromhex(vector["msgpack"]))
        error = packed.expect(type="error")
        assert (error["code"], error["id"]) == ("malformed", 7), vector
        assert error["message"], vector
    assert plain.chat(channel, "still here")
    assert packed.expect(type="chat")["payload"] == {"text": "still here"}


@pytest.mark.parametrize(("message", "code"), [
    (b"", "malformed"),
    (b"\xc0", "malformed"),
    (b"\x80", "malformed"),
    (b"\xdf\xff\xff\xff\xff", "malformed"),
    (b'{"type":"ping"}', "malformed"),
    (msgpack.packb({"id": 1, "type": "dance"}), "unknownType"),
    (msgpack.packb({"id": 1, "type": "subscribe", "channel": "x" * 256}), "badName"),
    (msgpack.packb({"id": 1, "type": "subscribe", "channel": b"room"}), "malformed"),
    (msgpack.packb({"id": 1, "type": "watch", "users": [f"u{number}" for number in range(1001)]}), "tooMany"),
    (msgpack.packb({"id": 1, "type": "read", "channel": "room:q", "payload": {"offset": 2**63}}), "malformed"),
    (b"\x83\xa2id\x01\xa4type\xa4chat\xa7payload" + b"\x91" * 200 + b"\xc0", "tooDeep"),
])
def test_a_bad_envelope_is_refused_by_name(hub, message, code):
    with Client(hub, "mallory", subprotocols=PACKED) as mallory:
        mallory.send_raw(message)
        error = mallory.expect(type="error")
        assert error["code"] == code and error["message"]
        mallory.sync()


@pytest.mark.parametrize("number", [b"\x07", b"\xcc\x07", b"\xcf\x00\x00\x00\x00\x00\x00\x00\x07", b"\xa5seven", b"\xd9\x05seven"])
def test_an_id_comes_back_as_it_was_sent(hub, number):
    with Client(hub, "alice", subprotocols=PACKED) as alice:
        alice.send_raw(b"\x83\xa2id" + number + b"\xa4type\xa9subscribe\xa7channel\xa7room:id")
        assert b"\xa2id" + number in alice.socket.recv(timeout=10)
        alice.send_raw(b"\x82\xa2id" + number + b"\xa4type\xa5dance")
        assert b"\xa2id" + number in alice.socket.recv(timeout=10)


# Several nodes

def test_a_payload_keeps_its_format_between_nodes(start, tmp_path):
    redis = start(RedisServer)
    one, two = start(Hub, name="n1", redis=redis.url), start(Hub, name="n2", redis=redis.url)
    with Client(one, "mona", subprotocols=PACKED) as sender, Client(two, "max", subprotocols=PACKED) as packed, Client(two, "jason") as plain:
        for client in (sender, packed, plain):
            client.subscribe("room:nodes")
        sender.request("chat", channel="room:nodes", payload={"raw": b"\x00\xff", "n": 1.5})
        assert packed.expect(type="chat")["payload"] == {"raw": b"\x00\xff", "n": 1.5}
        assert plain.expect(type="chat")["payload"] == {"raw": "AP8=", "n": 1.5}
        sender.expect(type="chat")
        plain.chat("room:nodes", "hi")
        for client in (sender, packed, plain):
            assert client.expect(type="chat")["payload"] == {"text": "hi"}
        sender.send({"type": "typing", "channel": "room:nodes", "payload": {"isTyping": False}})
        assert plain.expect(type="typing")["payload"] == {"isTyping": False}
