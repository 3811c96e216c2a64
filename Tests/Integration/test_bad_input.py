"""Malformed requests and envelopes: a clear error that names the thing, the right code, and nobody else disturbed."""

import json
import socket
import time

import pytest
from websockets.exceptions import InvalidStatus

from client import Client, raw_socket
from hub import Hub, request, running


@pytest.fixture(scope="module")
def hub(folder):
    with running(Hub(folder, settings={"deadlines.head": "500ms"})) as node:
        yield node


@pytest.fixture
def bystander(hub):
    """Another connection, which must notice nothing."""
    with Client(hub, "bystander") as client:
        client.subscribe("room:quiet")
        yield client
        assert client.chat("room:quiet", "still here")["type"] == "ack"
        assert client.expect(type="chat")["payload"] == {"text": "still here"}


@pytest.mark.parametrize(("envelope", "code"), [
    ("", "malformed"),
    ("hello", "malformed"),
    ("[]", "malformed"),
    ('{"type":"chat"', "malformed"),
    ('{"type":"chat","channel":"a","payload":{}} x', "malformed"),
    ('{"id":1}', "malformed"),
    ('{"type":7}', "malformed"),
    ('{"type":"subscribe","channel":7}', "malformed"),
    ('{"type":"watch","users":"alice"}', "malformed"),
    ('{"id":1,"type":"dance"}', "unknownType"),
    ('{"type":"subscribe","id":1,"channel":""}', "badName"),
    ('{"type":"subscribe","id":1,"channel":"%s"}' % ("x" * 256), "badName"),
    ('{"type":"chat","id":1,"channel":"room:q","payload":%s1%s}' % ("[" * 200, "]" * 200), "tooDeep"),
    ('{"type":"chat","id":1,"channel":"room:q","messageId":"%s","payload":{}}' % ("m" * 65), None),
    ('{"type":"read","id":1,"channel":"room:q","payload":{"offset":-1}}', "malformed"),
    ('{"type":"read","id":1,"channel":"room:q","payload":{"offset":99999999999999999999999}}', "malformed"),
    ('{"type":"presence","id":1,"payload":{"status":"asleep"}}', "malformed"),
    ('{"type":"watch","id":1,"users":[%s]}' % ",".join(f'"u{number}"' for number in range(1001)), "tooMany"),
])
def test_a_bad_envelope_is_refused_by_name_and_the_connection_lives(hub, bystander, envelope, code):
    with Client(hub, "mallory") as mallory:
        mallory.send_raw(envelope)
        error = mallory.expect(type="error")
        assert error["code"] == (code or error["code"])
        assert error["message"] and len(error["message"]) < 600
        if code in ("unknownType", "badName", "tooMany"):
            assert error["id"] == 1
        assert mallory.request("subscribe", channel="room:after")["channel"] == "room:after"


@pytest.mark.parametrize("order", [1, -1])
@pytest.mark.parametrize("other", ["channel", "position"])
def test_subscribe_with_both_channels_and_another_field_names_both_and_subscribes_to_nothing(hub, other, order):
    fields = {"type": "subscribe", "id": 1, "channels": ["room:one", "room:two"], other: "room:three" if other == "channel" else ".0."}
    with Client(hub, "mallory") as mallory:
        mallory.send_raw(json.dumps(dict(list(fields.items())[::order])))
        error = mallory.expect(type="error", id=1)
        assert error["code"] == "malformed" and '"channels"' in error["message"] and f'"{other}"' in error["message"]
        for channel in ("room:one", "room:two", "room:three"):
            assert mallory.try_request("unsubscribe", channel=channel)["code"] == "notSubscribed"


@pytest.mark.parametrize("number", ["7", '"seven"', '"\\u0037"'])
def test_an_id_comes_back_as_it_was_sent(hub, number):
    with Client(hub, "alice") as alice:
        alice.send_raw('{"type":"subscribe","id":%s,"channel":"room:id"}' % number)
        assert '"id":%s' % number in alice.socket.recv(timeout=10)
        alice.send_raw('{"type":"dance","id":%s}' % number)
        assert '"id":%s' % number in alice.socket.recv(timeout=10)


def test_a_message_over_the_limit_closes_with_1009(hub, bystander):
    with Client(hub, "mallory") as mallory:
        mallory.send_raw('{"type":"chat","channel":"room:q","payload":"%s"}' % ("x" * 70_000))
        assert mallory.expect_close()[0] == 1009


def test_text_that_is_not_utf8_closes_with_1007(hub, bystander):
    with Client(hub, "mallory") as mallory:
        mallory.socket.send(b'{"type":"ping","\xff":1}', text=True)
        assert mallory.expect_close()[0] == 1007


@pytest.mark.parametrize(("frame", "code"), [
    (b"\x81\x01x", 1002),                                                # not masked, RFC 6455 §5.1
    (b"\xf1\x80\x00\x00\x00\x00", 1002),                                 # reserved bits, §5.2
    (b"\x83\x80\x00\x00\x00\x00", 1002),                                 # reserved opcode, §5.2
    (b"\x09\x80\x00\x00\x00\x00", 1002),                                 # fragmented ping, §5.5
    (b"\x89\xfe\x00\x7e\x00\x00\x00\x00", 1002),                         # ping over 125 bytes, §5.5
    (b"\x80\x80\x00\x00\x00\x00", 1002),                                 # continuation of nothing, §5.4
    (b"\x81\xff\xff\xff\xff\xff\xff\xff\xff\xff\x00\x00\x00\x00", 1002),  # the length's top bit, §5.2
    (b"\x81\xff\x00\x00\x00\xff\x00\x00\x00\x00\x00\x00\x00\x00", 1009),  # a terabyte announced
    (b"\x88\x81\x00\x00\x00\x00\x03", 1002),                             # close with one byte, §5.5.1
])
def test_a_bad_frame_closes_with_its_code(hub, bystander, frame, code):
    with raw_socket(hub) as raw:
        raw.sendall(frame)
        data = b""
        while (part := raw.recv(4096)):
            data += part
        assert data[0] == 0x88 and int.from_bytes(data[2:4], "big") == code, data


@pytest.mark.parametrize(("head", "code"), [
    (b"HELLO\r\n\r\n", 400),
    (b"GET / HTTP/1.1\r\n\r\n", 400),                                     # no Host, RFC 9112 §3.2
    (b"GET / HTTP/3.7\r\nHost: a\r\n\r\n", 505),
    (b"GET / HTTP/1.1\r\nHost : a\r\n\r\n", 400),                         # space before the colon, §5.1
    (b"GET / HTTP/1.1\r\nHost: a\r\nX: b\r\n folded\r\n\r\n", 400),       # obsolete folding, §5.2
    (b"POST /v1/publish HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n", 400),  # §6.1
    (b"POST /v1/publish HTTP/1.1\r\nHost: a\r\nContent-Length: 99999999999\r\n\r\n", 413),
    (b"GET /" + b"x" * 20_000 + b" HTTP/1.1\r\nHost: a\r\n\r\n", (414, 431)),
    (b"GET / HTTP/1.1\r\nHost: a\r\n" + b"X: y\r\n" * 5_000 + b"\r\n", 431),
    (b"GET /v1/ws?user=a HTTP/1.1\r\nHost: a\r\n\r\n", 426),
    (b"GET /v1/ws?user=a HTTP/1.1\r\nHost: a\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 99\r\n"
     b"Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n", 426),
    (b"GET /v1/ws?user=a HTTP/1.1\r\nHost: a\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
     b"Sec-WebSocket-Key: short\r\n\r\n", 400),
    (b"DELETE /healthz HTTP/1.1\r\nHost: a\r\n\r\n", 405),
    (b"GET /nowhere HTTP/1.1\r\nHost: a\r\n\r\n", 404),
])
def test_a_bad_request_has_its_status(hub, bystander, head, code):
    with socket.create_connection(("127.0.0.1", hub.port), timeout=10) as raw:
        raw.sendall(head)
        line = raw.makefile("rb").readline().split(b" ")
        assert line[0] == b"HTTP/1.1" and int(line[1]) in (code if isinstance(code, tuple) else (code,)), line


def test_a_request_head_that_never_ends_is_given_up(hub, bystander):
    with socket.create_connection(("127.0.0.1", hub.port), timeout=10) as raw:
        raw.sendall(b"GET / HTTP/1.1\r\nHo")
        began = time.monotonic()
        answer = raw.recv(4096)
        assert answer == b"" or b" 408 " in answer
        assert 0.3 < time.monotonic() - began < 9


@pytest.mark.parametrize(("body", "status", "code"), [
    (b"", 400, "malformed"),
    (b"[1]", 400, "malformed"),
    (b'{"class":"chat","payload":{}}', 400, None),
    (b'{"channel":"%s","class":"chat","payload":{}}' % (b"x" * 300), 400, "badName"),
    (b'{"channel":"a","class":"dance","payload":{}}', 400, None),
])
def test_a_bad_body_of_the_api_is_refused_by_name(hub, bystander, body, status, code):
    answer = request(f"{hub.url}/v1/publish", "POST", body)
    assert answer[0] == status, answer
    assert answer[2]["error"]["code"] == (code or answer[2]["error"]["code"])
    assert answer[2]["error"]["message"]


def test_no_user_in_development_is_refused_with_words(hub):
    with pytest.raises(InvalidStatus) as refused:
        Client(hub)
    assert refused.value.response.status_code in (400, 401)
    assert b"user" in refused.value.response.body
