"""Limits: exact, named, with the time to come back; one client's flood is its own affair; a user's rates hold on all nodes together."""

import base64
import contextlib
import hashlib
import json
import re
import signal
import threading
import time

import pytest
from websockets.exceptions import ConnectionClosed

from client import Client
from hub import Hub, eventually, request, running, status
from raw import Raw, opening


def flood(client, count, **envelope):
    """So many envelopes without waiting for an answer; ids from 1000 on."""
    for number in range(count):
        client.send({"type": "ping", **envelope, "id": 1000 + number} if envelope.get("type") else {"type": "ping", "id": 1000 + number})


def answers(client, count):
    """(answered, refused) of the requests with ids from 1000 on."""
    answered, refused = 0, []
    for _ in range(count):
        message = client.expect(lambda message: (message.get("id") or 0) >= 1000)
        if message["type"] == "error":
            refused.append(message)
        else:
            answered += 1
    return answered, refused


# Of one connection


def test_the_burst_passes_and_one_more_is_refused_with_the_limit_s_name_and_a_time(start):
    hub = start(Hub, settings={"limits.messagesPerSecond": 1, "limits.messageBurst": 10, "limits.refusalsPerSecond": 0})
    with Client(hub, "alice") as alice, Client(hub, "bob") as bob:
        began = time.monotonic()
        flood(alice, 40)
        answered, refused = answers(alice, 40)
        assert 10 <= answered <= 11 + time.monotonic() - began
        assert {error["code"] for error in refused} == {"rateLimited"} and all(error["retry"] for error in refused)
        assert {error["message"] for error in refused} == {"more than 1 messages a second (limits.messagesPerSecond)"}
        assert all(1 <= error["retryAfter"] <= 1000 for error in refused)
        # Whoever heeds the time is served.
        time.sleep(refused[-1]["retryAfter"] / 1000)
        assert alice.try_request("subscribe", channel="room:1")["type"] == "ack"
        assert bob.chat("room:1", "untouched")["type"] == "ack"
    eventually(lambda: hub.metric('hub_rate_limited_total{limit="messages"}') == len(refused), what="they are counted")


def test_bytes_and_subscriptions_have_rates_of_their_own(start):
    hub = start(Hub, settings={
        "limits.bytesPerSecond": "64KB", "limits.burst": "1s", "limits.subscribesPerSecond": 10, "limits.channels": 10,
        "limits.refusalsPerSecond": 0})
    with Client(hub, "alice") as alice:
        errors = [alice.try_request("chat", channel="room:1", payload="x" * 15_000) for _ in range(8)]
        refused = [error for error in errors if error["type"] == "error"]
        assert refused and {error["message"] for error in refused} == {"more than 65536 bytes a second (limits.bytesPerSecond)"}
        assert errors[0]["type"] == "ack"
    with Client(hub, "bob") as bob:
        # Never a part of a request; whoever comes back may have all of its channels at once.
        wanted = [{"channel": f"room:{number}"} for number in range(8)]
        assert bob.try_request("subscribe", channels=wanted)["type"] == "ack"
        error = bob.try_request("subscribe", channels=wanted)
        assert error["code"] == "rateLimited" and "limits.subscribesPerSecond" in error["message"]
        time.sleep(error["retryAfter"] / 1000)
        assert bob.try_request("subscribe", channels=wanted)["type"] == "ack"


def test_a_flood_ends_in_4009_with_the_time_and_the_others_notice_nothing(start):
    hub = start(Hub, settings={"limits.messagesPerSecond": 50, "limits.messageBurst": 50, "limits.refusalsPerSecond": 20})
    with Client(hub, "alice") as alice, Client(hub, "mallory") as mallory:
        alice.subscribe("room:1")
        stop = threading.Event()

        def pour():
            with contextlib.suppress(ConnectionClosed, OSError):
                while not stop.is_set():
                    mallory.send_raw('{"type":"chat","channel":"room:2","payload":1}')

        thread = threading.Thread(target=pour)
        thread.start()
        try:
            for number in range(20):
                assert alice.chat("room:1", number)["type"] == "ack"
            code, reason = mallory.expect_close(30)
        finally:
            stop.set()
            thread.join()
        assert code == 4009 and re.match(r"\d+ .*limits\.messagesPerSecond", reason) and int(reason.split()[0]) >= 1000
        assert alice.chat("room:1", "still here")["type"] == "ack"
    eventually(lambda: hub.metric("hub_floods_closed_total") == 1, what="it is counted")
    hub.expect_log("security.flood")


def test_who_waits_between_refusals_is_never_closed(start):
    hub = start(Hub, settings={"limits.messagesPerSecond": 10, "limits.messageBurst": 2, "limits.refusalsPerSecond": 5, "limits.burst": "1s"})
    with Client(hub, "alice") as alice:
        refused = 0
        for _ in range(12):
            for _ in range(3):
                answer = alice.try_request("unwatch", users=["x"])
                refused += answer["type"] == "error" and answer["code"] == "rateLimited"
            time.sleep(0.5)
        assert refused > 4 and alice.try_request("unwatch", users=["x"])["type"] == "ack"


# Of one user


def pour(server, user, seconds, pace, results):
    """Requests at a pace, whatever becomes of them; adds up those that were taken."""
    with Client(server, user) as client:
        taken, sent = 0, 0

        def read():
            nonlocal taken
            with contextlib.suppress(ConnectionClosed):
                while True:
                    message = json.loads(client.socket.recv())
                    taken += message["type"] == "pong"

        reader = threading.Thread(target=read, daemon=True)
        reader.start()
        began = time.monotonic()
        while (now := time.monotonic()) - began < seconds:
            while sent < (now - began) * pace:
                client.send_raw('{"type":"ping","id":1}')
                sent += 1
            time.sleep(0.005)
        time.sleep(0.5)
        results.append((taken, sent, now - began))
    reader.join(10)


def test_a_user_s_rate_holds_on_two_nodes_together_within_a_tenth_and_redis_is_asked_seldom(start, redis):
    settings = {"limits.user.messagesPerSecond": 100, "limits.burst": "1s", "limits.refusalsPerSecond": 0, "redis.prefix": "userrate"}
    hubs = [start(Hub, name=name, redis=redis.url, settings=settings) for name in ("north", "south")]
    with Client(hubs[0], "bob") as bob:
        before = [hub.metric("hub_rate_reports_total") for hub in hubs]
        results, seconds = [], 10
        threads = [threading.Thread(target=pour, args=(hub, "alice", seconds, 200, results)) for hub in hubs]
        for thread in threads:
            thread.start()
        for number in range(20):
            assert bob.chat("room:1", number)["type"] == "ack"
        for thread in threads:
            thread.join()
        assert len(results) == 2
        taken, sent, lasted = (sum(values) for values in zip(*results))
        lasted /= 2
        # Without the limit all of it would have passed, with a limit for each node twice as much.
        assert sent > 3 * 100 * lasted
        # One burst on each node at the beginning is owed, and paid off within a second.
        assert 0.9 * 100 * lasted <= taken <= 1.1 * 100 * (lasted + 1), (taken, sent, lasted)
        eventually(lambda: hubs[0].metric('hub_rate_limited_total{limit="user.messages"}') > 0)
        time.sleep(0.5)
        calls = sum(hub.metric("hub_rate_reports_total") for hub in hubs) - sum(before)
        assert 5 <= calls <= 5 * (lasted + 3) + 4, calls


def test_a_user_s_connections_are_counted_on_each_node_exactly_and_on_all_in_the_end(start, redis):
    settings = {"limits.connectionsPerUser": 3, "redis.prefix": "userconnections"}
    hubs = [start(Hub, name=name, redis=redis.url, settings=settings) for name in ("north", "south")]
    held = [Client(hubs[0], "alice") for _ in range(3)]
    fourth = Client(hubs[0], "alice", welcome=False)
    code, reason = fourth.expect_close()
    assert code == 4009 and re.match(r"\d{4,} .*limits\.connectionsPerUser", reason)
    # A place that becomes free is taken.
    held.pop().leave()
    eventually(lambda: hubs[0].metric("hub_sessions") == 2)
    held.append(Client(hubs[0], "alice"))
    # The other node learns of them from the record, and closes the youngest.
    late = Client(hubs[1], "alice")
    assert late.expect_close(30)[0] == 4009
    for client in held:
        assert client.try_request("subscribe", channel="room:1")["type"] == "ack"
        client.leave()
    with Client(hubs[1], "bob") as bob:
        time.sleep(3)
        assert bob.chat("room:1", "others aren't counted with her")["type"] == "ack"


def test_a_user_may_open_so_many_connections_a_second(start):
    hub = start(Hub, settings={"limits.user.connectsPerSecond": 1, "limits.burst": "3s"})
    codes = []
    for _ in range(8):
        client = Client(hub, "alice", welcome=False)
        try:
            client.expect(type="system", event="welcome", seconds=5)
            codes.append(0)
            client.socket.close()
        except ConnectionClosed as closed:
            codes.append(closed.rcvd.code)
            assert re.match(r"\d{4,} .*limits\.user\.connectsPerSecond", closed.rcvd.reason)
    assert codes.count(0) >= 3 and codes.count(4009) >= 1 and set(codes) <= {0, 4009}
    with Client(hub, "bob") as bob:
        assert bob.welcome["user"] == "bob"


# Of one address


def test_an_address_s_messages_count_over_all_its_connections(start):
    hub = start(Hub, settings={
        "limits.address.messagesPerSecond": 1, "limits.burst": "10s", "limits.refusalsPerSecond": 0, "proxy.trusted": "127.0.0.1"})

    def client(address):
        raw = Raw(hub, opening(f"/v1/ws?user=u{address}", more=f"X-Forwarded-For: {address}\r\n"))
        assert raw.head()[0] == 101
        return raw

    from raw import text

    began = time.monotonic()
    crowd = [client("192.0.2.1") for _ in range(4)]
    other = client("192.0.2.2")
    outcomes = []
    for number in range(5):
        for raw in crowd:
            raw.send(text(type="unwatch", users=["x"], id=number))
    for raw in crowd:
        seen = 0
        for _, payload in raw.frames():
            message = json.loads(payload)
            if "id" in message:
                outcomes.append(message["type"])
                seen += 1
                if message["type"] == "error":
                    assert message["code"] == "rateLimited" and "limits.address.messagesPerSecond" in message["message"]
            if seen == 5:
                break
    # The four openings count too: they are requests of that address.
    assert 6 <= outcomes.count("ack") <= 7 + time.monotonic() - began and len(outcomes) == 20
    other.send(text(type="unwatch", users=["x"], id=1))
    assert next(message for _, payload in other.frames() if "id" in (message := json.loads(payload)))["type"] == "ack"
    for raw in [*crowd, other]:
        raw.socket.close()


def test_an_address_opens_so_many_sockets_a_second(start):
    hub = start(Hub, settings={"limits.address.connectsPerSecond": 2, "limits.burst": "5s"})
    time.sleep(5)
    codes = []
    for _ in range(30):
        with Raw(hub, b"GET /healthz HTTP/1.1\r\nHost: hub\r\n\r\n") as raw:
            head = raw.head()
            codes.append(head[0] if head else None)
    assert 5 <= codes.count(200) <= 20 and codes.count(429) >= 5 and set(codes) <= {200, 429}

    def answered():
        return status(f"{hub.url}/healthz") == 200

    eventually(answered, what="after a while it may again")
    time.sleep(2)
    eventually(lambda: hub.metric('hub_rate_limited_total{limit="address.connects"}') >= 5)


def test_an_address_that_tries_keys_is_stopped_even_with_the_right_one_for_a_moment(start):
    key = "the right key"
    keys = [{"id": "app", "digest": hashlib.sha256(key.encode()).hexdigest(), "scopes": ["admin"]}]
    hub = start(Hub, settings={
        "api.keys": json.dumps(keys), "limits.address.failuresPerSecond": 1, "limits.burst": "5s", "proxy.trusted": "127.0.0.1"})

    def ask(with_key, address):
        return request(f"{hub.url}/v1/nodes", key=with_key, headers={"X-Forwarded-For": address})

    codes = [ask(f"guess {number}", "192.0.2.1")[0] for number in range(12)]
    assert codes[:5] == [401] * 5 and codes[-1] == 429
    code, headers, body = ask(key, "192.0.2.1")
    assert code in (200, 429) and (code == 200 or int(headers["Retry-After"]) >= 1)
    if code == 429:
        assert "limits.address.failuresPerSecond" in body["error"]["message"] and body["error"]["retryAfter"] > 0
    assert ask(key, "192.0.2.2")[0] == 200
    # A WebSocket's token counts as well.
    raw = Raw(hub, opening("/v1/ws", more="X-Forwarded-For: 192.0.2.1\r\nAuthorization: Bearer wrong\r\n"))
    assert raw.head()[0] in (401, 429)
    raw.socket.close()
    eventually(lambda: ask(key, "192.0.2.1")[0] == 200, what="it may try again after a while")


# Of one API key


def test_an_api_key_s_requests_and_publications_get_429_with_retry_after(start):
    digests = {name: hashlib.sha256(name.encode()).hexdigest() for name in ("one", "two")}
    keys = [{"id": name, "digest": digest, "scopes": ["admin"]} for name, digest in digests.items()]
    hub = start(Hub, settings={
        "api.keys": json.dumps(keys), "limits.key.requestsPerSecond": 5, "limits.key.messagesPerSecond": 2, "limits.burst": "2s"})
    batch = [{"channel": "room:1", "class": "chat", "user": "app", "payload": number} for number in range(4)]

    def publish(key, count):
        return request(f"{hub.url}/v1/publish", "POST", {"messages": batch[:count]} if count > 1 else batch[0], key=key)

    assert publish("one", 4)[0] == 200
    code, headers, body = publish("one", 4)
    assert code == 429 and int(headers["Retry-After"]) >= 1
    assert body["error"]["code"] == "rateLimited" and "limits.key.messagesPerSecond" in body["error"]["message"]
    assert publish("two", 1)[0] == 200
    codes = [request(f"{hub.url}/v1/nodes", key="two")[0] for _ in range(40)]
    assert codes.count(200) >= 8 and 429 in codes
    code, headers, body = next(
        answer for answer in (request(f"{hub.url}/v1/nodes", key="two") for _ in range(200)) if answer[0] == 429)
    assert "limits.key.requestsPerSecond" in body["error"]["message"] and headers["Retry-After"] == "1"
    assert request(f"{hub.url}/v1/nodes", key="one")[0] == 200


# Counts


COUNTS = {
    "limits.channels": (
        4, lambda client: [client.try_request("subscribe", channel=f"room:{number}") for number in range(4)], "tooMany"),
    "limits.watch": (3, lambda client: [client.try_request("watch", users=[f"user{number}"]) for number in range(4)], "tooMany"),
    "limits.watchRequest": (
        3, lambda client: [client.try_request("watch", users=[f"user{number}" for number in range(count)]) for count in (3, 4)], "tooMany"),
    "limits.messageIdBytes": (
        16, lambda client: [client.try_request("chat", channel="room:1", messageId="m" * count, payload=1) for count in (16, 17)], "badName"),
    "limits.depth": (
        8, lambda client: [
            client.try_request("chat", channel="room:1", payload=json.loads("[" * count + "]" * count)) for count in (7, 8)], "tooDeep"),
}


@pytest.mark.parametrize("setting", COUNTS)
def test_a_count_is_exact_the_limit_is_taken_and_one_more_refused(start, setting):
    limit, ask, code = COUNTS[setting]
    settings = {setting: limit, **({"limits.watchRequest": 3} if setting == "limits.watch" else {})}
    hub = start(Hub, settings=settings)
    with Client(hub, "alice") as alice:
        outcomes = ask(alice)
        assert [outcome["type"] for outcome in outcomes] == ["ack"] * (len(outcomes) - 1) + ["error"], outcomes
        assert outcomes[-1]["code"] == code
        # The connection goes on.
        assert alice.try_request("unwatch", users=["nobody"])["type"] == "ack"


def test_limits_change_while_the_node_runs(start, tmp_path):
    config = tmp_path / "hub.json5"
    config.write_text("{ limits: { channels: 3 } }")
    hub = start(Hub, config=config, settings={})
    with Client(hub, "alice") as alice:
        for number in range(2):
            alice.subscribe(f"room:{number}")
        assert alice.try_request("subscribe", channel="room:2")["code"] == "tooMany"
        config.write_text("{ limits: { channels: 4, messagesPerSecond: 1, messageBurst: 1, refusalsPerSecond: 0, user: { messagesPerSecond: 1 } } }")
        hub.signal(signal.SIGHUP)
        hub.expect_log("configuration")

        def limited():
            return alice.try_request("subscribe", channel="room:2").get("code") == "rateLimited"

        eventually(limited, what="the new rate holds for those who are here")
        config.write_text("{ limits: { channels: 4 } }")
        hub.signal(signal.SIGHUP)
        eventually(lambda: alice.try_request("subscribe", channel="room:2")["type"] == "ack", what="and is lifted again")


def test_a_limit_of_connections_that_is_switched_on_counts_those_who_are_here(start, tmp_path):
    file = tmp_path / "hub.json5"
    file.write_text("{}")
    hub = start(Hub, config=file)
    held = [Client(hub, "alice") for _ in range(3)]
    file.write_text("{limits: {connectionsPerUser: 3}}")
    hub.signal(signal.SIGHUP)
    eventually(lambda: "configuration.reloaded" in hub.log)
    fourth = Client(hub, "alice", welcome=False)
    assert fourth.expect_close()[0] == 4009
    held.pop().leave()
    eventually(lambda: hub.metric("hub_sessions") == 2)
    with Client(hub, "alice") as again:
        again.sync()
