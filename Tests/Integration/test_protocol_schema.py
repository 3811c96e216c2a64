"""docs/protocol.md, its schema and the sources say the same."""

import copy
import json
import re

import jsonschema
import pytest

from hubschema import ROOT, SCHEMA, check_client, check_server

PAGE = (ROOT / "docs" / "protocol.md").read_text("utf-8")


def examples():
    """Each message of the page's ```json blocks: (line of the block, arrow, text)."""
    found = []
    for block in re.finditer(r"^```json\n(.*?)^```$", PAGE, re.M | re.S):
        line = PAGE[: block.start()].count("\n") + 1
        for part in re.split(r"^(?=[→←])", block.group(1), flags=re.M):
            if part.strip():
                found.append((line, part[0], part[1:].strip()))
    return found


def messages(arrow):
    return [pytest.param(text, id=f"line{line}-{index}") for index, (line, side, text) in enumerate(examples()) if side == arrow]


def test_every_example_has_its_arrow():
    assert {side for _, side, _ in examples()} == {"→", "←"}
    assert len(examples()) > 50


@pytest.mark.parametrize("text", messages("→"))
def test_client_example(text):
    check_client(json.loads(text))


@pytest.mark.parametrize("text", messages("←"))
def test_server_example(text):
    check_server(json.loads(text))


def test_what_was_found_valid_vouches_only_for_what_the_schema_cannot_tell_from_it():
    """Checks are remembered by form: each of these differs from a valid message in something that the schema forbids."""
    message = {
        "type": "chat", "channel": "room", "offset": 3, "position": "abcd1234.3.", "time": 5, "messageId": "m-1", "user": "alice",
        "payload": {"text": "hi"}}
    check_server(message)
    check_server({**message, "offset": 4, "position": "wxyz9876.4.", "messageId": "m-2"})
    for wrong in [
            {"offset": -3}, {"offset": 2**53}, {"offset": 3.5}, {"offset": "3"}, {"offset": True}, {"position": "abcd1234.03."},
            {"position": "abcd12345.3."}, {"position": "Abcd1234.3."}, {"channel": ""}, {"channel": "r" * 256}, {"channel": "ro\x00om"}, {"more": 1}]:
        with pytest.raises(AssertionError):
            check_server({**message, **wrong})
    acked = {"type": "presence", "payload": {"status": "away"}}
    check_client(acked)
    with pytest.raises(AssertionError):
        check_client({**acked, "payload": {"status": "gone"}})


def test_the_schema_is_one():
    jsonschema.Draft202012Validator.check_schema(SCHEMA)


def test_every_message_of_the_schema_is_shown():
    """Save what this version doesn't send."""
    shown = set()
    for _, side, text in examples():
        message = json.loads(text)
        kind = message["event"] if message["type"] == "system" else message["type"]
        shown.add(("client" if side == "→" else "system" if message["type"] == "system" else "server") + kind[0].upper() + kind[1:])
    wanted = {name for name in SCHEMA["$defs"] if re.match("(client|server|system)[A-Z]", name)}
    assert wanted - shown == {"clientMessage", "serverMessage", "serverSystem"}
    shapes = {name for name in SCHEMA["$defs"] if re.match("ack[A-Z]", name)}
    acks = [json.loads(text) for _, side, text in examples() if side == "←" and '"type":"ack"' in text]
    for shape in shapes:
        schema = {"$ref": f"#/$defs/{shape}", "$defs": SCHEMA["$defs"]}
        assert any(jsonschema.Draft202012Validator(schema).is_valid(ack) for ack in acks), f"no example of {shape}"


def test_error_codes_are_the_same_everywhere():
    source = (ROOT / "Sources" / "HubWire" / "ErrorCode.swift").read_text("utf-8")
    body = source[source.index("enum ErrorCode"): source.index("/// Whether")]
    cases = [name.strip("` ") for line in re.findall(r"^\s+case (.+)$", body, re.M) for name in line.split(",")]
    retried = re.search(r"case ([^\n]*): true", source).group(1)
    retried = {name.strip(" .") for name in retried.split(",")}
    assert cases == SCHEMA["$defs"]["errorCode"]["enum"]
    errors = PAGE[PAGE.index("## Errors"): PAGE.index("## Close codes")]
    table = re.findall(r"^\| `(\w+)` \|.*\| (yes|no) \|$", errors, re.M)
    assert [code for code, _ in table] == cases
    assert {code for code, retry in table if retry == "yes"} == retried
    statuses = {code: int(status) for status, codes in re.findall(r"^\| (\d{3}) \| (.*) \|$", PAGE[PAGE.index("## HTTP"):], re.M) if status not in ("404", "405")
                for code in re.findall(r"`(\w+)`", codes)}
    for case, status in re.findall(r"case ([.\w, ]+): (\d{3})", source):
        for code in (name.strip(" .") for name in case.split(",")):
            if status != "404":
                assert statuses[code] == int(status), code


def test_close_codes_are_the_same_everywhere():
    source = (ROOT / "Sources" / "HubWire" / "CloseCode.swift").read_text("utf-8")
    codes = set(re.findall(r"rawValue: (\d{4})\)", source))
    table = set(re.findall(r"^\| (\d{4}) \|", PAGE[PAGE.index("## Close codes"):], re.M))
    assert table == codes


def test_request_types_are_the_same_everywhere():
    source = (ROOT / "Sources" / "HubWire" / "RequestType.swift").read_text("utf-8")
    types = re.search(r"^\s+case (.+)$", source, re.M).group(1).split(", ")
    assert {f"client{name[0].upper()}{name[1:]}" for name in types} == {reference["$ref"].rpartition("/")[2] for reference in SCHEMA["$defs"]["clientMessage"]["oneOf"]}


# What must not pass, or the schema checks nothing.

REFUSED_FROM_SERVER = [
    {"type": "ack"},
    {"type": "ack", "id": -1},
    {"type": "ack", "id": 1.5},
    {"type": "ack", "id": "x" * 65},
    {"type": "ack", "id": 1, "surprise": 1},
    {"type": "ack", "id": 1, "duplicate": True},
    {"type": "ack", "id": 1, "channel": "c", "offset": 1, "position": "x7.1.y"},
    {"type": "ack", "id": 1, "channel": "c\n"},
    {"type": "chat", "channel": "c", "offset": 1, "position": ".1.", "time": 1, "payload": {}},
    {"type": "typing", "channel": "c", "time": 1, "payload": {"isTyping": 1}},
    {"type": "typing", "channel": "c", "offset": 1, "time": 1, "payload": {"isTyping": True}},
    {"type": "presence", "changes": [{"user": "a", "status": "invisible", "version": 1, "lastSeen": 1}]},
    {"type": "presence", "changes": []},
    {"type": "error", "code": "nope", "message": "m", "retry": False},
    {"type": "error", "code": "internal", "message": "m"},
    {"type": "system", "event": "novelty"},
    {"type": "system", "event": "restored", "channel": "c"},
    {"type": "subscribe", "channel": "c"},
    {},
    [],
    None,
]

REFUSED_FROM_CLIENT = [
    {"type": "connect"},
    {"type": "subscribe"},
    {"type": "subscribe", "channel": "c", "channels": ["c"]},
    {"type": "subscribe", "channel": ""},
    {"type": "chat", "channel": "c"},
    {"type": "read", "channel": "c", "payload": {"offset": -1}},
    {"type": "presence", "payload": {"status": "offline"}},
    {"type": "watch", "users": "alice"},
    {"type": "watch", "users": ["a"] * 1001},
    {"type": "ping", "id": None},
    {"type": "shout"},
    {"type": "pong"},
]


@pytest.mark.parametrize("message", REFUSED_FROM_SERVER, ids=json.dumps)
def test_refused_from_server(message):
    with pytest.raises(AssertionError):
        check_server(message)


@pytest.mark.parametrize("message", REFUSED_FROM_CLIENT, ids=lambda message: json.dumps(message)[:60])
def test_refused_from_client(message):
    with pytest.raises(AssertionError):
        check_client(message)


def test_unknown_fields_are_allowed_from_clients_only():
    for _, side, text in examples():
        message = copy.deepcopy(json.loads(text))
        message["fromTheFuture"] = 1
        if side == "→":
            check_client(message)
        else:
            with pytest.raises(AssertionError):
                check_server(message)
