"""One reading of everything: repeated fields, wrong kinds, encodings; and counts that say what happened."""

import json
import re
import time

import pytest

from client import Client
from hub import Hub, eventually, request, running


@pytest.fixture(scope="module")
def hub(folder):
    with running(Hub(folder)) as node:
        yield node


@pytest.fixture
def alice(hub):
    with Client(hub, "alice") as client:
        yield client


def refusal(client, text):
    client.send_raw(text)
    return client.expect(type="error")["code"]


def test_of_a_repeated_field_the_first_counts_in_lists_too(alice):
    alice.send_raw('{"type":"subscribe","id":"a","channels":[{"channel":"first","channel":"second"}]}')
    assert [entry["channel"] for entry in alice.expect(type="ack", id="a")["channels"]] == ["first"]


@pytest.mark.parametrize("envelope", [
    '{"type":"subscribe","channels":[{"channel":"a","position":7}]}',
    '{"type":"subscribe","channels":[{"channel":7}]}',
    '{"type":"subscribe","channels":[{}]}',
    '{"type":"subscribe","channels":[1]}',
    '{"type":"watch","users":[1]}',
    '{"type":"connect"}',
])
def test_a_wrong_kind_or_a_missing_field_is_malformed_wherever_it_stands(alice, envelope):
    assert refusal(alice, envelope) == "malformed"


@pytest.mark.parametrize(("body", "answer"), [
    (b'{"channel":"one","channel":"two","payload":1}', "one"),
    (b'{"chann\\u0065l":"esc","payload":1}', "esc"),
    (b'{"channel":"c","class":"\\u0063hat","payload":1}', "c"),
    (b'{"channel":7,"payload":1}', "malformed"),
    (b'{"channel":"c","messageId":7,"payload":1}', "malformed"),
    (b'{"channel":"c","user":7,"payload":1}', "malformed"),
])
def test_the_api_reads_bodies_as_envelopes_are_read(hub, body, answer):
    status, _, result = request(f"{hub.url}/v1/publish", "POST", body)
    assert (result.get("channel") or result["error"]["code"]) == answer, (status, result)


def test_a_plus_sign_in_the_address_is_a_space_as_forms_have_it(hub):
    with Client(hub, "Ann Lee+1") as ann:
        assert ann.welcome["user"] == "Ann Lee+1"


def test_two_authorization_headers_are_two_readings(hub):
    import http.client
    link = http.client.HTTPConnection("127.0.0.1", hub.port, timeout=10)
    link.putrequest("GET", "/v1/nodes")
    link.putheader("Authorization", "Bearer a")
    link.putheader("Authorization", "Bearer b")
    link.endheaders()
    assert link.getresponse().status == 400


@pytest.mark.parametrize("headers", [{"Origin": "http://evil.example"}, {"Host": "evil.example"}, {"Origin": "null"}])
def test_development_mode_is_open_to_this_machine_not_to_its_browser_s_pages(hub, headers):
    body = json.dumps({"channel": "room:x", "payload": 1}).encode()
    status, _, answer = request(f"{hub.url}/v1/publish", "POST", body, headers={"Content-Type": "text/plain", **headers})
    assert (status, answer["error"]["code"]) == (403, "forbidden")


def test_watching_somebody_again_takes_no_further_place(folder):
    with running(Hub(folder, name="few", settings={"limits.watch": "10", "limits.watchRequest": "10"})) as hub, Client(hub, "alice") as alice:
        users = [f"u{number}" for number in range(10)]
        alice.request("watch", users=users)
        assert len(alice.request("watch", users=users)["users"]) == 10
        assert alice.try_request("watch", users=["one more"])["code"] == "tooMany"


def test_nobody_has_read_what_is_not_there(alice):
    alice.subscribe("room:read")
    offset = alice.chat("room:read", "one")["offset"]
    alice.expect(type="chat")
    assert alice.request("read", channel="room:read", payload={"offset": offset})["offset"] == offset
    assert alice.try_request("read", channel="room:read", payload={"offset": 2**53 - 1})["code"] == "badPosition"


def test_a_repeat_or_a_refusal_is_no_publication(hub, alice):
    def published():
        text = request(f"{hub.url}/metrics")[2]
        text = text.decode() if isinstance(text, bytes) else text
        return int(re.search(r'hub_publications_total\{class="chat"\} (\d+)', text).group(1))

    alice.subscribe("room:count")
    time.sleep(0.5)
    before = published()
    for _ in range(3):
        alice.chat("room:count", "same", messageId="count-1")
    assert alice.try_request("chat", channel="room:count", messageId="count-1", payload={"text": "other"})["code"] == "duplicateConflict"
    assert eventually(lambda: published() == before + 1, what="one publication is counted")


def test_who_says_leave_is_offline_before_the_closing_handshake_is_over(hub, alice):
    with Client(hub, "bob") as bob:
        alice.request("watch", users=["bob"])
        bob.socket.send(json.dumps({"type": "leave"}))
        # Bob's side reads nothing yet, so the handshake isn't over when Alice hears of it.
        change = alice.expect(type="presence")["changes"][0]
        assert (change["user"], change["status"]) == ("bob", "offline")
