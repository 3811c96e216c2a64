"""Journey 1: one node on the embedded broker, any WebSocket client, chat and presence."""

import json

import pytest
from websockets.sync.client import connect

from client import Client, statuses
from hub import Hub, eventually, request, running


@pytest.fixture(scope="module")
def hub(folder):
    with running(Hub(folder, settings={"presence.grace": "400ms", "presence.sweepInterval": "100ms"})) as node:
        yield node


def test_the_first_message_is_the_welcome(hub):
    with Client(hub, "alice", device="phone") as alice:
        assert alice.welcome["user"] == "alice"
        assert alice.welcome["device"] == "phone"
        assert alice.welcome["node"] == "hub"
        assert alice.welcome["ping"] == 20000
        assert alice.welcome["limits"]["messageBytes"] == 65536
        assert alice.socket.subprotocol == "hub.v1.json"


def test_a_chat_reaches_everyone_in_the_channel_and_its_sender_once(hub):
    with Client(hub, "alice") as alice, Client(hub, "bob") as bob:
        before = alice.subscribe("room:chat")
        bob.subscribe("room:chat")
        ack = alice.chat("room:chat", "hi", messageId="m-1")
        assert ack["messageId"] == "m-1"
        assert ack["offset"] == before["offset"] + 1
        for client in (alice, bob):
            chat = client.expect(type="chat")
            assert (chat["user"], chat["channel"], chat["payload"]) == ("alice", "room:chat", {"text": "hi"})
            assert (chat["offset"], chat["position"], chat["messageId"]) == (ack["offset"], ack["position"], "m-1")
            assert abs(chat["time"] - alice.welcome.get("time", chat["time"])) < 60_000


def test_a_retry_with_the_same_message_id_is_answered_and_not_repeated(hub):
    with Client(hub, "alice") as alice, Client(hub, "bob") as bob:
        bob.subscribe("room:retry")
        alice.subscribe("room:retry")
        first = alice.chat("room:retry", "once", messageId="same")
        again = alice.chat("room:retry", "once", messageId="same")
        assert again["duplicate"] is True
        assert (again["offset"], again["position"]) == (first["offset"], first["position"])
        last = alice.chat("room:retry", "last")
        assert last["offset"] == first["offset"] + 1
        assert [bob.expect(type="chat")["payload"]["text"] for _ in range(2)] == ["once", "last"]


def test_a_payload_comes_through_byte_for_byte(hub):
    payload = '{"text" : "é\\u00e9 \\ud83c\\udf89","n":1.50e1,"deep":[[[]]],"":null}'
    with Client(hub, "alice") as alice, Client(hub, "bob") as bob:
        bob.subscribe("room:opaque")
        alice.send_raw('{"type":"event","id":1,"channel":"room:opaque","payload":%s}' % payload)
        assert payload in bob.socket.recv(timeout=10)


def test_typing_and_read_reach_the_others_and_a_read_never_goes_back(hub):
    with Client(hub, "alice") as alice, Client(hub, "bob") as bob:
        alice.subscribe("room:typing")
        bob.subscribe("room:typing")
        alice.send({"type": "typing", "channel": "room:typing", "payload": {"isTyping": True}})
        typing = bob.expect(type="typing")
        assert (typing["user"], typing["payload"]) == ("alice", {"isTyping": True})
        assert "offset" not in typing
        offset = [alice.chat("room:typing", text)["offset"] for text in "abc"][-1]
        assert bob.request("read", channel="room:typing", payload={"offset": offset})["offset"] == offset
        assert alice.expect(type="read")["payload"]["offset"] == offset
        assert bob.request("read", channel="room:typing", payload={"offset": offset - 1})["offset"] == offset


def test_watchers_see_online_away_and_a_clean_leave_at_once(hub):
    with Client(hub, "watcher") as watcher:
        users = watcher.request("watch", users=["carol", "nobody"])["users"]
        assert {user["user"]: user["status"] for user in users} == {"carol": "offline", "nobody": "offline"}
        carol = Client(hub, "carol")
        watcher.presence_of("carol", "online")
        carol.request("presence", payload={"status": "away"})
        watcher.presence_of("carol", "away")
        carol.request("presence", payload={"status": "online"})
        watcher.presence_of("carol", "online")
        carol.leave()
        watcher.presence_of("carol", "offline")


def test_a_lost_connection_has_the_grace_period(hub):
    with Client(hub, "watcher") as watcher:
        watcher.request("watch", users=["dave"])
        dave = Client(hub, "dave")
        watcher.presence_of("dave", "online")
        # Lost and back, again and again, always in time: nobody hears of it.
        for _ in range(3):
            dave.vanish()
            dave = Client(hub, "dave")
        watcher.sync()
        dave.vanish()
        watcher.presence_of("dave", "offline")
        assert statuses(watcher.inbox, "dave") == []


def test_two_devices_make_one_user(hub):
    with Client(hub, "watcher") as watcher:
        watcher.request("watch", users=["erin"])
        phone, laptop = Client(hub, "erin", device="phone"), Client(hub, "erin", device="laptop")
        watcher.presence_of("erin", "online")
        laptop.request("presence", payload={"status": "away"})
        phone.leave()
        watcher.presence_of("erin", "away")
        laptop.leave()
        watcher.presence_of("erin", "offline")
        assert statuses(watcher.inbox, "erin") == []


def test_the_simplest_client_names_no_channel(hub):
    with Client(hub, "alice", channel="room:simple") as alice, Client(hub, "bob", channel="room:simple") as bob:
        assert "room:simple" in alice.welcome["channels"]
        alice.send({"type": "chat", "payload": {"text": "hi"}})
        alice.send({"type": "typing", "payload": {"isTyping": True}})
        chat = bob.expect(type="chat")
        assert chat["channel"] == "room:simple"
        assert bob.expect(type="typing")["user"] == "alice"
        bob.send({"type": "read", "payload": {"offset": chat["offset"]}})
        assert alice.expect(type="read")["user"] == "bob"


def test_after_unsubscribe_nothing_comes(hub):
    with Client(hub, "alice") as alice, Client(hub, "bob") as bob:
        alice.subscribe("room:left")
        alice.request("unsubscribe", channel="room:left")
        bob.chat("room:left", "unheard")
        alice.sync()
        assert [message for message in alice.inbox if message["type"] == "chat"] == []


def test_requests_without_a_subprotocol_and_with_unknown_ones_speak_json(hub):
    for offered in (None, ["chat.v7"]):
        with connect(f"ws://{hub.address}/v1/ws?user=plain", subprotocols=offered, proxy=None) as socket:
            assert json.loads(socket.recv(timeout=10))["event"] == "welcome"
            assert socket.subprotocol is None


def test_the_http_api_publishes_and_tells_presence_and_nodes(hub):
    with Client(hub, "alice", device="phone") as alice:
        alice.subscribe("room:http")
        code, _, answer = request(f"{hub.url}/v1/publish", "POST", {
            "channel": "room:http", "class": "chat", "messageId": "from-backend", "user": "backend", "payload": {"text": "hello"}})
        assert code == 200, answer
        chat = alice.expect(type="chat")
        assert (chat["user"], chat["offset"], chat["position"]) == ("backend", answer["offset"], answer["position"])

        def online():
            return request(f"{hub.url}/v1/presence/alice")[2]["status"] == "online"

        eventually(online)
        code, _, answer = request(f"{hub.url}/v1/presence/alice")
        assert code == 200
        assert "phone" in {connection["device"] for connection in answer["connections"]}
        code, _, answer = request(f"{hub.url}/v1/presence", "POST", {"users": ["alice", "nobody"]})
        assert code == 200, answer
        code, _, answer = request(f"{hub.url}/v1/nodes")
        assert code == 200 and "hub" in json.dumps(answer)


def test_health_readiness_and_metrics(hub):
    assert request(f"{hub.url}/healthz")[0] == 200
    assert request(f"{hub.url}/readyz")[0] == 200
    code, headers, body = request(f"{hub.url}/metrics")
    assert code == 200 and headers["Content-Type"].startswith("text/plain")
    names = {line.split("{")[0].split(" ")[0] for line in body.decode().splitlines() if line and not line.startswith("#")}
    for word in ("connections", "channels", "publications", "deliveries", "drop", "redis_link_up"):
        assert any(word in name for name in names), f"no metric of {word} in {sorted(names)}"


def test_the_echo_endpoint_echoes_in_development(hub):
    with connect(f"ws://{hub.address}/v1/echo", proxy=None, compression=None) as socket:
        for message in ("text", b"\x00\xff", "é" * 70_000):
            socket.send(message)
            assert socket.recv(timeout=10) == message
