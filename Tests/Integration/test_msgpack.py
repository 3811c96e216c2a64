"""hub.v1.msgpack and its short form: the vectors hold for an implementation that isn't ours, and rooms may mix the formats."""

import base64
import json
import math
import re
import time

import msgpack
import pytest

import shortform
from client import Client
from hub import REPORTED, TOP, Hub, RedisServer, eventually, request, running

PACKED = ("hub.v1.msgpack",)
SHORT = ("hub.v1.msgpack.short",)
ENVELOPES = json.loads((TOP / "docs/vectors/envelopes.json").read_text())
PAYLOADS = json.loads((TOP / "docs/vectors/payloads.json").read_text())


@pytest.fixture(scope="module")
def hub(folder):
    with running(Hub(folder)) as node:
        yield node


@pytest.fixture(params=[PACKED, SHORT], ids=["named", "short"])
def room(hub, request):
    """Two clients in a room of the test's own: one speaks JSON, one a form of MessagePack."""
    channel = f"room:{request.node.name[:100]}"
    with Client(hub, "jason") as plain, Client(hub, "mona", subprotocols=request.param) as packed:
        assert (plain.is_packed, packed.is_packed) == (False, True) and packed.socket.subprotocol == request.param[0]
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
        short = bytes.fromhex(vector["short"])
        assert shortform.unpack(short) == vector["json"], vector["name"]
        assert shortform.pack(vector["json"]) == short, vector["name"]


def test_the_short_form_s_numbers_are_those_that_the_protocol_s_page_shows():
    page = (TOP / "docs/protocol.md").read_text().partition("### The short form")[2].partition("\n### ")[0]
    for kind, names in (("field", shortform.FIELDS), ("word", shortform.WORDS)):
        assert len(names) == len(set(names))
        table = page.partition(f"| {kind} | +0 |")[2].partition("\n\n")[0]
        rows = [[cell.strip().strip("`") for cell in line.strip("|").split("|")] for line in table.splitlines()[2:]]
        assert [int(row[0]) for row in rows] == list(range(0, len(names), 10))
        assert [cell for row in rows for cell in row[1:] if cell] == names
    example = re.search(r"`(\{\"type\":\"subscribe\".*?\})`, is `([0-9a-f ]+)`", page)
    assert shortform.pack(json.loads(example[1])) == bytes.fromhex(example[2])


def test_the_short_form_has_at_most_half_of_json_s_bytes():
    def text(vector):
        return len(json.dumps(vector["json"], separators=(",", ":"), ensure_ascii=False).encode())

    for vectors in (ENVELOPES, [vector for vector in ENVELOPES if vector["from"] == "hub"]):
        assert 2 * sum(len(vector["short"]) // 2 for vector in vectors) <= sum(map(text, vectors))


def test_what_the_schema_names_has_a_number():
    """Whoever adds a field or a word to the protocol adds it to the tables."""
    schema = json.loads((TOP / "docs/protocol.schema.json").read_text())["$defs"]
    found = set()

    def walk(part):
        if isinstance(part, list):
            for element in part:
                walk(element)
        elif isinstance(part, dict):
            for name, value in part.get("properties", {}).items():
                found.add(name)
                assert name in shortform.FIELDS, name
                if name in shortform.WORDED:
                    value = schema[value["$ref"].rpartition("/")[2]] if "$ref" in value else value
                    for word in value.get("enum", [value["const"]] if "const" in value else []):
                        assert word in shortform.WORDS, word
                        found.add(word)
                if name != "payload":
                    walk(value)
            walk([value for key, value in part.items() if key != "properties"])

    walk(list(schema.values()))
    assert {"type", "users", "welcome", "storeFull", "batched"} <= found


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
    (("hub.v1.msgpack.short",), "hub.v1.msgpack.short"),
    (("hub.v1.msgpack.short", "hub.v1.msgpack", "hub.v1.json"), "hub.v1.msgpack.short"),
    (("hub.v1.msgpack", "hub.v1.msgpack.short"), "hub.v1.msgpack"),
    (("hub.v1.msgpack.shorter", "hub.v1.msgpack.shor", "hub.v1.json"), "hub.v1.json"),
    (("other",), None),
    (None, None),
])
def test_the_first_of_the_client_s_offer_that_the_hub_knows_is_chosen(hub, offer, chosen):
    with Client(hub, "alice", subprotocols=offer) as client:
        assert client.socket.subprotocol == chosen
        assert client.subscribe("room:offer")["channel"] == "room:offer"


@pytest.mark.parametrize(("offer", "message"), [
    (PACKED, '{"type":"ping"}'), (SHORT, '{"type":"ping"}'), (("hub.v1.json",), b"\x81\xa4type\xa4ping")])
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
        # (Also where the two write their envelopes differently.)
        assert other.expect(type="event")["payload"] == [b"\x00\xff\xfe", 1.0]
        assert plain.expect(type="event")["payload"] == ["AP/+", 1.0]
    # Not even the form changes: a seven in nine bytes stays one.
    wide = b"\x83\xa4type\xa5event\xa7channel" + msgpack.packb(channel) + b"\xa7payload\xcf" + (7).to_bytes(8, "big")
    packed.expect(type="event")
    packed.send_raw(wide)
    heard = packed.socket.recv(timeout=10)
    name = b"\x09" if packed.socket.subprotocol in SHORT else b"\xa7payload"
    assert heard.endswith(name + b"\xcf" + (7).to_bytes(8, "big"))


def test_a_retry_is_recognized_and_the_api_s_publications_reach_both(room, hub):
    plain, packed, channel = room
    first = packed.chat(channel, "once", messageId="m")
    assert packed.chat(channel, "once", messageId="m") == {**first, "id": first["id"] + 1, "duplicate": True}
    answer = request(f"{hub.url}/v1/publish", "POST", {"channel": channel, "class": "event", "payload": {"n": [1, 2.5]}})
    assert answer[0] == 200
    for client in (plain, packed):
        assert client.expect(type="event")["payload"] == {"n": [1, 2.5]}


def test_presence_is_watched_in_each_format(hub):
    with Client(hub, "w-plain") as plain, Client(hub, "w-packed", subprotocols=PACKED) as packed, \
            Client(hub, "w-short", subprotocols=SHORT) as short:
        watchers = (plain, packed, short)
        for watcher in watchers:
            assert watcher.request("watch", users=["target"])["users"][0]["status"] == "offline"
        with Client(hub, "target", subprotocols=SHORT) as target:
            for watcher in watchers:
                watcher.presence_of("target", "online")
            assert target.request("presence", payload={"status": "away"})["version"] >= 2
            for watcher in watchers:
                watcher.presence_of("target", "away")
            target.request("leave")
        for watcher in watchers:
            watcher.presence_of("target", "offline")


@pytest.mark.parametrize("offer", [PACKED, SHORT], ids=["named", "short"])
def test_several_channels_at_once_and_a_default_channel(hub, offer):
    with Client(hub, "several", channel="room:default", subprotocols=offer) as client:
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
    offers = [("hub.v1.json",), PACKED, SHORT]
    clients = [Client(hub, f"c{number}", subprotocols=offers[number * 7 % 5 % 3]) for number in range(12)]
    assert len({client.socket.subprotocol for client in clients}) == 3
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


def test_a_recovery_and_a_history_are_the_same_in_each_format(hub):
    channel = "room:all-forms"
    with Client(hub, "writer", subprotocols=SHORT) as writer:
        start = writer.chat(channel, "first", messageId="m0")["position"]
        for number in range(4):
            writer.request("event", channel=channel, messageId=f"m{number + 1}", payload={"type": "system", "event": number, "code": "gap"})
        answers = []
        # The reader is a member all the while, and the node knows it: else how many there are depends on the moment.
        keeper = Client(hub, "reader", device="keeper")
        eventually(lambda: keeper.subscribe(channel).get("occupancy") == 1)
        for offer in (("hub.v1.json",), PACKED, SHORT):
            with Client(hub, "reader", subprotocols=offer) as reader:
                asked = [
                    reader.request("subscribe", channel=channel, position=start),
                    reader.request("history", channel=channel, limit=3, reverse=True),
                    reader.try_request("unsubscribe", channel="room:nobody"),
                    reader.request("subscribe", channels=[{"channel": channel, "position": "k2ma7qh3.4.d5k2b7qh"}, "user:bob"]),
                ]
                answers.append(asked)
        keeper.leave()
        assert answers[0] == answers[1] == answers[2] and answers[0][0]["occupancy"] == 1
        assert [one["payload"]["event"] for one in answers[2][0]["publications"]] == [0, 1, 2, 3]
        assert answers[2][3]["channels"][0]["reason"] == "epochChanged" and answers[2][2]["code"] == "notSubscribed"


def test_a_room_of_three_formats_some_deflated_hears_the_same(hub):
    offers = [(("hub.v1.json",), None), (("hub.v1.json",), "deflate"), (PACKED, None), (PACKED, "deflate"), (SHORT, None), (SHORT, "deflate")]
    clients = [Client(hub, f"z{number}", subprotocols=offer, compression=compression) for number, (offer, compression) in enumerate(offers)]
    try:
        for client in clients:
            client.subscribe("room:deflated")
        for number, sender in enumerate(clients):
            payload = {"text": f"{number} " + "said again and again, " * 40, "list": [number, None, {"type": "chat"}]}
            sender.request("chat", channel="room:deflated", payload=payload)
            heard = [client.expect(type="chat") for client in clients]
            assert all(one == heard[0] for one in heard) and heard[0]["payload"] == payload
            sender.send({"type": "typing", "channel": "room:deflated", "payload": {"isTyping": number % 2 == 0}})
            assert len({json.dumps(client.expect(type="typing")) for client in clients}) == 1
    finally:
        for client in clients:
            client.leave()


def test_each_format_is_encoded_and_compressed_once_however_many_speak_it(start):
    hub = start(Hub, settings={"loops": "1"})
    clients = [Client(hub, f"e{number}", subprotocols=offer, compression="deflate")
               for number, offer in enumerate([("hub.v1.json",), PACKED, SHORT] * 4)]
    try:
        for client in clients:
            client.subscribe("room:once")
        time.sleep(REPORTED)
        before = hub.metric("hub_deflate_messages_total")
        payloads = [{"text": f"{number}: " + "so it goes, and so it went; " * 40} for number in range(5)]
        for payload in payloads:
            clients[0].request("chat", channel="room:once", payload=payload)
        for client in clients:
            assert [client.expect(type="chat")["payload"] for _ in payloads] == payloads
        # A frame is compressed once, so their number is that of the encodings.
        eventually(lambda: hub.metric("hub_deflate_messages_total") - before >= 3 * len(payloads))
        assert hub.metric("hub_deflate_messages_total") - before == 3 * len(payloads)
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


@pytest.mark.parametrize(("message", "code"), [
    (b"\x80", "malformed"),
    (b"\x81\x00\x7f", "unknownType"),
    (b"\x81\xff\x11", "malformed"),
    (b"\x82\x00\x0a\x02\x07", "malformed"),
    (b"\x83\x00\x02\x02\xa1a\x09\x81\x01\x02", "malformed"),
    (b"\x82\x00\x0a\x0b\x91\x81\x01\xa1a", "malformed"),
    (b"\x82\x00\x0a\x0b\xdd\xff\xff\xff\xff", "malformed"),
])
def test_a_bad_envelope_of_numbers_is_refused_by_name(hub, message, code):
    with Client(hub, "mallory", subprotocols=SHORT) as mallory:
        mallory.send_raw(message)
        error = mallory.expect(type="error")
        assert error["code"] == code and error["message"]
        mallory.sync()


def test_names_may_stand_where_numbers_could(hub):
    with Client(hub, "mixer", subprotocols=SHORT) as mixer:
        mixer.send({"type": "subscribe", "id": 1, "channel": "room:names"})
        mixer.expect(type="ack", id=1)
        mixer.send_raw(msgpack.packb({"type": "chat", 1: 2, "channel": "room:names", 9: {"text": "both"}, 126: {1: 2}, "new": {3: []}}))
        assert mixer.expect(type="chat")["payload"] == {"text": "both"}
        mixer.expect(type="ack", id=2)
        mixer.send_raw(msgpack.packb({0: "subscribe", 1: 3, 11: [{2: "room:a", "position": ".0."}, {"channel": "room:b", 99: 1}, "room:c"]}))
        assert [entry["channel"] for entry in mixer.expect(type="ack", id=3)["channels"]] == ["room:a", "room:b", "room:c"]


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
    with Client(one, "mona", subprotocols=SHORT) as sender, Client(two, "max", subprotocols=PACKED) as packed, Client(two, "jason") as plain, \
            Client(two, "sue", subprotocols=SHORT) as short:
        for client in (sender, packed, plain, short):
            client.subscribe("room:nodes")
        sender.request("chat", channel="room:nodes", payload={"raw": b"\x00\xff", "n": 1.5})
        for client in (packed, short):
            assert client.expect(type="chat")["payload"] == {"raw": b"\x00\xff", "n": 1.5}
        assert plain.expect(type="chat")["payload"] == {"raw": "AP8=", "n": 1.5}
        sender.expect(type="chat")
        plain.chat("room:nodes", "hi")
        for client in (sender, packed, plain, short):
            assert client.expect(type="chat")["payload"] == {"text": "hi"}
        sender.send({"type": "typing", "channel": "room:nodes", "payload": {"isTyping": False}})
        assert plain.expect(type="typing")["payload"] == {"isTyping": False}
