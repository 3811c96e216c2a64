"""Server-sent events: the same sessions for networks that let no WebSocket through."""

import asyncio
import json
import subprocess
import time

import aiohttp
import jwt
import pytest

from browser import Browser
from certificates import Certificate, secure_settings, trusting
from client import Client
from hub import FAST, Hub, eventually, free_port, request, running
from raw import KEY, PAGE, guarded  # noqa: F401 (guarded is a fixture)
from sse import Stream, events

@pytest.fixture(scope="module")
def hub(folder):
    with running(Hub(folder, settings={**FAST, "loops": "2"})) as node:
        yield node


def token(user, seconds=600):
    return jwt.encode({"sub": user, "exp": int(time.time()) + seconds}, KEY, "HS256")


# Clients that aren't ours

def test_curl_opens_a_stream_and_posts(hub):
    curl = ["curl", "-sN", "--max-time", "20"]
    with subprocess.Popen([*curl, "-i", f"{hub.url}/v1/sse?user=alice&channel=room:curl"], stdout=subprocess.PIPE) as stream:
        lines = iter(stream.stdout.readline, b"")
        head = {}
        for line in lines:
            if line == b"\r\n":
                break
            name, _, value = line.decode().strip().partition(": ")
            head[name.lower()] = value
        assert head["content-type"] == "text/event-stream"
        assert "no-store" in head["cache-control"] and head["x-accel-buffering"] == "no"
        assert "content-length" not in head and "transfer-encoding" not in head
        found = events(lines)
        assert next(found)[0] == "retry"
        key = json.loads(next(found)[1])["key"]
        assert json.loads(next(found)[1])["event"] == "welcome"
        posted = subprocess.run(
            [*curl, "-w", "%{http_code}", "-d", '{"type":"chat","id":1,"payload":{"text":"hi"}}', f"{hub.url}/v1/sse/{key}"],
            capture_output=True, text=True, check=True)
        assert posted.stdout == "202"
        taken = {message["type"]: (message, last) for message, last in ((json.loads(data), last) for _, data, last in (next(found), next(found)))}
        assert taken["ack"][0]["id"] == 1
        assert taken["chat"][0]["payload"] == {"text": "hi"} and taken["chat"][1] == taken["chat"][0]["position"]
        stream.kill()


def test_aiohttp_as_a_client(hub):
    async def talk():
        async with aiohttp.ClientSession(hub.url) as session:
            async with session.get("/v1/sse", params={"user": "alice", "channel": "room:aio"}) as stream:
                assert stream.status == 200 and stream.content_type == "text/event-stream"

                async def envelopes():
                    data = []
                    async for line in stream.content:
                        if line.startswith(b"data: "):
                            data.append(line[6:])
                        elif line == b"\n" and data:
                            yield json.loads(b"\n".join(data))
                            data = []

                reader = envelopes()
                key = (await anext(reader))["key"]
                assert (await anext(reader))["event"] == "welcome"
                for number in range(20):
                    body = json.dumps({"type": "chat", "payload": number})
                    async with session.post(f"/v1/sse/{key}", data=body) as answer:
                        assert answer.status == 202
                heard = [await anext(reader) for _ in range(20)]
                assert [message["payload"] for message in heard] == list(range(20))

    asyncio.run(asyncio.wait_for(talk(), 30))


def test_a_browser_s_eventsource_and_fetch(hub):
    with Browser() as browser:
        tab = browser.tab(f"{hub.url}/")
        tab.value("""
            window.heard = []; window.opens = 0; window.closes = [];
            window.source = new EventSource("/v1/sse?user=carol&channel=room:browser&device=page");
            source.onopen = () => { opens += 1; };
            source.onmessage = (event) => heard.push({ id: event.lastEventId, ...JSON.parse(event.data) });
            source.addEventListener("close", (event) => closes.push(JSON.parse(event.data)));
            window.send = (envelope) => fetch("/v1/sse/" + heard.findLast((message) => message.event === "stream").key,
                { method: "POST", body: JSON.stringify(envelope) }).then((answer) => answer.status); true""")
        tab.wait("heard.some((message) => message.event === 'welcome')")
        assert tab.value("send({ type: 'chat', payload: { text: 'from a page' } })") == 202
        tab.wait("heard.some((message) => message.type === 'chat')")
        with Client(hub, user="dave") as dave:
            dave.subscribe("room:browser")
            position = dave.chat("room:browser", "to a page")["position"]
        tab.wait("heard.filter((message) => message.type === 'chat').length === 2")
        assert tab.value("heard.at(-1).id") == position

        # Losing the way: the browser comes back by itself with the position that it has.
        tab.call("Network.enable")
        tab.call("Network.emulateNetworkConditions", offline=True, latency=0, downloadThroughput=0, uploadThroughput=0)
        tab.call("Network.emulateNetworkConditions", offline=False, latency=0, downloadThroughput=-1, uploadThroughput=-1)
        tab.value("""source.close(); heard.length = 0; true""")
        # (What emulation does to a stream that is open differs between versions: a second stream says what the header does.)
        tab.value(f"""fetch("/v1/sse?user=carol&channel=room:browser", {{ headers: {{ "Last-Event-ID": {json.dumps(position)} }} }}).then(async (answer) => {{
            const reader = answer.body.getReader(); let text = "";
            while (!text.includes("welcome")) text += new TextDecoder().decode((await reader.read()).value);
            window.resumed = JSON.parse(text.split("\\n").findLast((line) => line.startsWith("data: ") && line.includes("welcome")).slice(6));
            reader.cancel(); }}); true""")
        tab.wait("window.resumed")
        assert tab.value("resumed.channels['room:browser']")["recovered"] is True

        # After `leave` the close says that it's final, and 204 keeps the browser from coming back.
        tab.value("""
            window.source = new EventSource("/v1/sse?user=carol");
            source.onmessage = (event) => heard.push(JSON.parse(event.data));
            source.addEventListener("close", (event) => closes.push(JSON.parse(event.data))); true""")
        tab.wait("heard.some((message) => message.event === 'welcome')")
        assert tab.value("send({ type: 'leave' })") == 202
        tab.wait("closes.some((close) => close.code === 1000)")
        tab.wait("source.readyState === EventSource.CLOSED")
        assert tab.value("faults") == []


def test_a_browser_comes_back_by_itself_when_its_node_does(start):
    hub = start(Hub)
    with Browser() as browser:
        tab = browser.tab(f"{hub.url}/")
        tab.value("""
            window.heard = [];
            window.source = new EventSource("/v1/sse?user=carol&channel=room:back");
            source.onmessage = (event) => heard.push(JSON.parse(event.data));
            source.addEventListener("close", (event) => heard.push({ close: JSON.parse(event.data) })); true""")
        tab.wait("heard.some((message) => message.event === 'welcome')")
        hub.stop()
        tab.wait("heard.some((message) => message.close?.code === 1001)")
        start(Hub, port=hub.port)
        tab.wait("heard.filter((message) => message.event === 'welcome').length === 2", 30)
        # Another node knows nothing of the old one's channel (embedded): the position that the browser brought says so.
        assert tab.value("heard.at(-1).channels['room:back']")["position"].startswith(".0.")
        assert "recovered" in tab.value("heard.at(-1).channels['room:back']")


# Sessions

def test_what_is_said_on_a_stream_and_on_a_websocket_is_one_conversation(hub):
    with Stream(hub, user="alice", channel="room:one") as alice, Client(hub, user="bob") as bob:
        bob.subscribe("room:one")
        bob.request("watch", users=["alice"])
        assert alice.retries and 1000 <= alice.retries[0] < 4000
        ack = alice.request("chat", payload={"text": "down and up"})
        for client in (alice, bob):
            heard = client.expect(type="chat")
            assert (heard["user"], heard["position"]) == ("alice", ack["position"])
        bob.send({"type": "typing", "channel": "room:one", "payload": {"isTyping": True}})
        assert alice.expect(type="typing")["user"] == "bob"
        alice.request("presence", payload={"status": "away"})
        bob.presence_of("alice", "away")
        assert alice.try_request("subscribe", channel="user:bob")["type"] == "ack"
        alice.request("subscribe", channel="room:two")
        bob.chat("room:two", "elsewhere")
        assert alice.expect(type="chat")["channel"] == "room:two"
        assert alice.last_id == ack["position"], "only what moves the default channel on is an id"
        alice.leave()
        bob.presence_of("alice", "offline", 2)
        assert alice.expect_close() == (1000, "")


def test_requests_keep_their_order_within_a_body_and_between_bodies(hub):
    with Stream(hub, user="alice") as alice:
        for round in range(5):
            channel = f"room:order{round}"
            code, _, _ = alice.post(
                {"type": "subscribe", "id": "s", "channel": channel}, {"type": "chat", "id": "c", "channel": channel, "payload": 1},
                {"type": "chat", "id": "d", "channel": channel, "payload": 2}, {"type": "unsubscribe", "channel": channel})
            assert code == 202
            alice.post({"type": "chat", "id": "late", "channel": channel, "payload": 3})
            assert [alice.expect(type="ack")["id"] for _ in range(4)] == ["s", "c", "d", "late"]
            heard = [message["payload"] for message in alice.gather(0.05) if message["type"] == "chat"]
            assert heard == list(range(1, len(heard) + 1)) and 3 not in heard


def test_errors_come_down_the_stream_and_bodies_that_say_nothing_are_refused(hub):
    with Stream(hub, user="alice") as alice:
        assert alice.post_raw(b'{"type":"chat","id":7}\r\n\n{"type":"nonsense","id":8}\nnot json\n')[0] == 202
        assert [alice.expect(type="error")["code"] for _ in range(3)] == ["malformed", "unknownType", "malformed"]
        for body, code, named in [
                (b"", 400, "malformed"), (b" \r\n\n", 400, "malformed"), (b'{"type":"ping","x":"\xff"}', 400, "malformed"),
                (b'{"type":"ping"}\n' * 1025, 422, "tooMany"), (b'"' + b"x" * 70_000 + b'"', 413, "tooLarge")]:
            answer = alice.post_raw(body)
            assert (answer[0], answer[2]["error"]["code"]) == (code, named)
        assert alice.post_raw(b"x" * 1_100_000)[0] == 413
        # Lines of white space alone are nothing, wherever they stand; white space around an envelope is JSON's.
        assert alice.post_raw(b' \n\t\r\n \t {"type":"ping","id":4} \r\n \n\r\n{"type":"ping","id":5}\n \n')[0] == 202
        assert [alice.expect()["id"] for _ in range(2)] == [4, 5]
        for body in (b" ", b"\t\n \r\n", b"\n" * 2000):
            assert alice.post_raw(body)[0] == 400
        # An envelope over several lines is one, when it's said to be.
        body = json.dumps({"type": "ping", "id": 9}, indent=2).encode()
        assert alice.post_raw(body, headers={"Content-Type": "application/json; charset=utf-8"})[0] == 202
        assert alice.expect(type="pong")["id"] == 9
        assert request(f"{hub.url}/v1/sse/{alice.key}")[0] == 405
        assert request(f"{hub.url}/v1/sse", "POST", {})[0] == 405


def test_line_ends_in_a_payload_arrive(hub):
    with Stream(hub, user="alice", channel="room:lines") as alice, Client(hub, user="bob") as bob:
        for payload in ['{\n\n"a": 1\n}', '[1,\r2,\r\n3]', '"\\n\\r"', '\n\n7\n']:
            bob.send_raw('{"type":"chat","channel":"room:lines","payload":%s}' % payload)
            assert alice.expect(type="chat")["payload"] == json.loads(payload)


def test_a_million_bytes(start):
    hub = start(Hub, settings={"limits.messageBytes": "1100000", "limits.bodyBytes": "1200000", "limits.outboundBytes": "4MB", "loops": "2"})
    text = "x" * 1_000_000
    with Stream(hub, user="alice", channel="room:large") as alice, Stream(hub, user="bob", channel="room:large") as bob:
        for number in range(3):
            assert alice.post({"type": "chat", "payload": f"{number}{text}"})[0] == 202
        for stream in (alice, bob):
            for number in range(3):
                assert stream.expect(type="chat")["payload"] == f"{number}{text}"


def test_a_frame_is_made_into_an_event_once_for_all_streams(start):
    hub = start(Hub, settings={"loops": "1"})
    streams = [Stream(hub, user=f"s{number}", channel="room:mixed") for number in range(8)]
    others = [Stream(hub, user=f"o{number}") for number in range(8)]
    sockets = [Client(hub, user=f"w{number}", channel="room:mixed") for number in range(8)]
    for other in others:
        other.subscribe("room:mixed")
    time.sleep(0.5)
    before, writes = hub.metric("hub_stream_events_total"), hub.metric("hub_deliveries_total")
    with Client(hub, user="writer") as writer:
        for number in range(10):
            writer.chat("room:mixed", str(number))
    for member in streams + others + sockets:
        assert [member.expect(type="chat")["payload"]["text"] for _ in range(10)] == [str(number) for number in range(10)]
    eventually(lambda: hub.metric("hub_deliveries_total") - writes == 240)
    # Once with the position as its id, for those whose default channel it is, and once without.
    eventually(lambda: hub.metric("hub_stream_events_total") - before == 20)
    for member in streams + others + sockets:
        member.__exit__()


# Keys

def test_the_key_is_a_secret(hub):
    with Stream(hub, user="alice") as alice, Stream(hub, user="mallory") as mallory:
        connection, _, proof = alice.key.partition(".")
        assert connection == alice.welcome["connection"] and len(proof) == 32
        others = mallory.key.partition(".")[2]
        wrong = ["0" if proof[-1] != "0" else "1"]
        guesses = [
            connection, connection + ".", f"{connection}.{others}", f"{connection}.{proof[:-1]}{wrong[0]}", f"{connection}.{proof.upper()}",
            f"{connection}.{proof}0", f"{connection}.{proof[:-1]}", f"{connection}0.{proof}", "nobodyatall1-1." + proof, "x", "%00", "a" * 300,
            f"{connection}%3A.{proof}", "-." + proof, "." + proof]
        answers = [alice.post({"type": "leave"}, key=guess) for guess in guesses]
        assert {answer[0] for answer in answers} == {404}
        assert len({json.dumps(answer[2]) for answer in answers}) == 1 and answers[0][2]["error"]["code"] == "unknownStream"
        alice.sync()
        # Its own end makes it void.
        alice.leave()
        alice.expect_close()
        assert alice.post({"type": "ping"})[0] == 404


# Authentication

def test_a_token_in_the_header_or_by_post(guarded):  # noqa: F811
    with Stream(guarded, token=token("alice")) as alice:
        assert alice.welcome["user"] == "alice"
    with Stream(guarded, welcome=False) as bob:
        assert bob.try_request("chat", channel="room:x", payload=1)["code"] == "unauthenticated"
        # In one body, before the welcome has left.
        assert bob.post(
            {"type": "connect", "id": 2, "token": token("bob")}, {"type": "subscribe", "id": 3, "channel": "room:x"},
            {"type": "chat", "id": 4, "channel": "room:x", "payload": 1})[0] == 202
        assert bob.expect(type="system", event="welcome")["user"] == "bob"
        assert [bob.expect(type="ack")["id"] for _ in range(3)] == [2, 3, 4]
        assert bob.expect(type="chat")["user"] == "bob"
    assert Stream(guarded, token="nonsense").answer.status == 401
    basic = Stream(guarded, headers={"Authorization": "Basic YWxpY2U6c2VjcmV0"})
    assert (basic.answer.status, basic.answer.headers["WWW-Authenticate"]) == (401, "Bearer")
    assert "Basic" in json.loads(basic.body)["error"]["message"]


def test_authentication_has_a_deadline_and_a_bad_token_ends_the_stream_for_good(guarded):  # noqa: F811
    with Stream(guarded, welcome=False) as slow:
        assert slow.expect_close() == (4010, "not authenticated in time")
        assert not (slow.last_id or "").startswith("close.")
    with Stream(guarded, welcome=False) as bad:
        assert bad.try_request("connect", token="nonsense")["code"] == "tokenInvalid"
        assert bad.expect_close()[0] == 4001
        assert bad.last_id == "close.4001"
    # As a browser comes back by itself.
    assert Stream(guarded, headers={"Last-Event-ID": "close.4001"}).answer.status == 204
    with Stream(guarded, token=token("short", 2)) as short:
        assert short.expect_close()[0] == 4002
        assert short.last_id != "close.4002"


def test_pages_of_other_sites(guarded, hub):  # noqa: F811
    stream = Stream(guarded, token=token("alice"), headers={"Origin": PAGE})
    assert stream.answer.headers["Access-Control-Allow-Origin"] == PAGE
    assert stream.answer.headers["Vary"] == "Origin"
    code, fields, _ = stream.post({"type": "ping"}, headers={"Origin": PAGE})
    assert (code, fields["Access-Control-Allow-Origin"]) == (202, PAGE)
    assert stream.post({"type": "ping"}, headers={"Origin": "https://evil.example"})[0] == 403
    stream.__exit__()
    assert Stream(guarded, token=token("alice"), headers={"Origin": "https://evil.example"}).answer.status == 403
    code, fields, _ = request(
        f"{guarded.url}/v1/sse", "OPTIONS", headers={"Origin": PAGE, "Access-Control-Request-Method": "GET", "Access-Control-Request-Headers": "last-event-id"})
    assert code == 204 and "Last-Event-ID" in fields["Access-Control-Allow-Headers"]
    code, fields, _ = request(f"{guarded.url}/v1/sse/x", "OPTIONS", headers={"Origin": PAGE, "Access-Control-Request-Method": "POST"})
    assert fields["Access-Control-Allow-Methods"] == "POST, OPTIONS"
    code, fields, body = request(f"{guarded.url}/v1/sse", "HEAD")
    assert (code, fields["Content-Type"], body) == (200, "text/event-stream", b"")
    # In development mode, a name that was pointed at this machine.
    assert Stream(hub, user="alice", headers={"Host": "evil.example"}).answer.status == 403


# Resuming

def test_where_a_client_stands_is_told_by_header_and_url(hub):
    with Stream(hub, user="alice", channel="room:resume") as alice:
        assert alice.last_id == alice.welcome["channels"]["room:resume"]["position"]
        first = alice.request("chat", payload=1)["position"]
        second = alice.request("chat", payload=2)["position"]
        alice.expect(type="chat", payload=2)
        assert alice.last_id == second

    def back(**options):
        with Stream(hub, user="alice", channel="room:resume", **options) as stream:
            return stream.welcome["channels"]["room:resume"]

    assert back(headers={"Last-Event-ID": second})["recovered"] is True
    assert back(position=second)["recovered"] is True
    assert back(headers={"Last-Event-ID": second}, position=first)["recovered"] is True, "the browser's is the newer one"
    # Until history is served: what was missed can't be proved, and is said.
    assert "recovered" in back(headers={"Last-Event-ID": first})
    assert "recovered" not in back()
    assert Stream(hub, user="alice", channel="room:resume", headers={"Last-Event-ID": "nonsense"}).answer.status == 400
    assert Stream(hub, user="alice", channel="room:resume", position="nonsense").answer.status == 400


# TLS

def test_a_stream_over_tls(start, tmp_path):
    certificate, port = Certificate(tmp_path, "localhost"), free_port()
    hub = start(Hub, settings=secure_settings(port, certificate))
    with Stream(hub, user="alice", channel="room:tls", context=trusting(certificate), address=f"localhost:{port}") as alice:
        with Client(hub, user="bob") as bob:
            for number in range(50):
                bob.chat("room:tls", f"{number}" * 1000)
        assert [alice.expect(type="chat")["payload"]["text"] for _ in range(50)] == [f"{number}" * 1000 for number in range(50)]
        alice.leave()
        assert alice.expect_close() == (1000, "")
