"""History over WebSocket and HTTP, publishing over HTTP once and in batches; embedded and with two nodes."""

import json
import pathlib
import re
import signal
import time
import urllib.parse

import pytest

from client import Client
from hub import Hub, RedisServer, eventually, request
from raw import Raw, opening, text
from redises import Redis


@pytest.fixture(params=["embedded", "redis"], scope="module")
def nodes(request, folder):
    """One node on its own, or two that share a Redis; channels are each test's own."""
    import hub as library
    settings = {"namespaces.none.history.size": 0}
    if request.param == "embedded":
        with library.running(Hub(folder, settings=settings)) as node:
            yield [node]
    else:
        with library.running(RedisServer(folder)) as redis:
            with library.running(*(Hub(folder, name=name, redis=redis.url, settings=settings) for name in ("n1", "n2"))) as both:
                yield both


@pytest.fixture
def channel(request):
    return f"room:{request.node.name}"


def fill(nodes, channel, count):
    """Publications 1 to `count` by their offset, as `history` has them."""
    with Client(nodes[0], user="alice") as alice:
        for number in range(1, count + 1):
            alice.request("chat", channel=channel, messageId=f"m{number}", payload=number)
        return {message["offset"]: message for message in alice.request("history", channel=channel, limit=1000)["publications"]}


def page(nodes, channel, **query):
    return request(f"{nodes[-1].url}/v1/channels/{urllib.parse.quote(channel, safe='')}/history?{urllib.parse.urlencode(query)}")


QUERIES = [
    ({}, [1, 2, 3, 4, 5, 6, 7, 8, 9, 10], False),
    ({"limit": 3}, [1, 2, 3], True),
    ({"limit": 10}, [1, 2, 3, 4, 5, 6, 7, 8, 9, 10], False),
    ({"since": 4}, [5, 6, 7, 8, 9, 10], False),
    ({"since": 4, "limit": 2}, [5, 6], True),
    ({"since": 0, "before": 3}, [1, 2], False),
    ({"since": 3, "before": 8, "limit": 2}, [4, 5], True),
    ({"since": 9, "before": 3}, [], False),
    ({"since": 10}, [], False),
    ({"before": 0}, [], False),
    ({"reverse": True, "limit": 3}, [10, 9, 8], True),
    ({"reverse": True, "before": 8, "limit": 3}, [7, 6, 5], True),
    ({"reverse": True, "before": 3}, [2, 1], False),
    ({"reverse": True, "since": 7}, [10, 9, 8], False),
    ({"reverse": True, "before": 2**53 - 1, "limit": 1}, [10], True),
]


def test_pages_in_both_directions_with_bounds_and_limits(nodes, channel):
    kept = fill(nodes, channel, 10)
    with Client(nodes[-1], user="bob") as bob, Client(nodes[0], user="carol", subprotocols=("hub.v1.msgpack",)) as carol:
        for query, offsets, more in QUERIES:
            answers = [client.request("history", channel=channel, **query) for client in (bob, carol)]
            status, _, body = page(nodes, channel, **{key: str(value).lower() for key, value in query.items()})
            assert status == 200
            for answer in [*answers, body]:
                assert [message["offset"] for message in answer["publications"]] == offsets, query
                assert answer.get("more", False) == more, query
                assert answer["publications"] == [kept[offset] for offset in offsets]
                assert answer["channel"] == channel
                assert "recovered" not in answer
            assert body == {key: value for key, value in answers[0].items() if key not in ("type", "id")}
        # Where to go on, and where the channel stands.
        assert bob.request("history", channel=channel, limit=3)["position"] == kept[3]["position"]
        assert bob.request("history", channel=channel, since=8)["position"] == kept[10]["position"]
        assert bob.request("history", channel=channel, reverse=True, limit=1, before=4)["position"] == kept[10]["position"]


def test_a_walk_by_positions_finds_everything_once(nodes, channel):
    with Client(nodes[-1], user="bob") as bob:
        origin = bob.where(channel)
        kept = fill(nodes, channel, 25)
        forwards, answer = [], bob.request("history", channel=channel, since=origin, limit=4)
        assert answer["recovered"] is True
        while True:
            forwards += answer["publications"]
            if not answer.get("more"):
                break
            answer = bob.request("history", channel=channel, since=answer["position"], limit=4)
            assert answer["recovered"] is True
        backwards, answer = [], bob.request("history", channel=channel, reverse=True, limit=4)
        while True:
            backwards += answer["publications"]
            if not answer.get("more"):
                break
            answer = bob.request("history", channel=channel, reverse=True, limit=4, before=answer["publications"][-1]["position"])
    assert forwards == list(kept.values()) and backwards == list(reversed(forwards))


def test_a_page_that_is_empty_between_its_bounds_ends_where_it_was_asked_from(nodes, channel):
    with Client(nodes[-1], user="bob") as bob:
        origin = bob.where(channel)
        kept = fill(nodes, channel, 10)
        for since, before in ((origin, 1), (kept[4]["position"], kept[5]["position"]), (kept[4]["position"], 3), (kept[10]["position"], 11)):
            answer = bob.request("history", channel=channel, since=since, before=before)
            body = page(nodes, channel, since=since, before=before)[2]
            for empty in (answer, body):
                assert (empty["publications"], empty["recovered"], empty["position"]) == ([], True, since), (since, before)
        # So a walk goes on from there, and misses nothing.
        answer = bob.request("history", channel=channel, since=kept[4]["position"], before=5)
        answer = bob.request("history", channel=channel, since=answer["position"])
        assert [message["offset"] for message in answer["publications"]] == [5, 6, 7, 8, 9, 10]
        # Nothing to go on from: an offset alone is no position, and what can't be proved goes on from nowhere.
        for since in (4, "qqqqqqqq.4.qqqqqqqq"):
            empty = bob.request("history", channel=channel, since=since, before=1)
            assert (empty["publications"], empty["position"]) == ([], kept[10]["position"])


def test_by_time(nodes, channel):
    with Client(nodes[0], user="alice") as alice:
        for number in range(6):
            alice.request("chat", channel=channel, payload=number)
            time.sleep(0.02)
        kept = alice.request("history", channel=channel)["publications"]
        third = kept[2]["time"]
        assert alice.request("history", channel=channel, sinceTime=third)["publications"] == kept[2:]
        assert alice.request("history", channel=channel, beforeTime=third)["publications"] == kept[:2]
        assert alice.request("history", channel=channel, beforeTime=third, reverse=True, limit=1)["publications"] == [kept[1]]
        assert page(nodes, channel, sinceTime=third, beforeTime=third + 1)[2]["publications"] == [kept[2]]
        assert alice.request("history", channel=channel, sinceTime=2**53 - 1)["publications"] == []


def test_a_position_that_does_not_continue_is_told(nodes, channel):
    kept = fill(nodes, channel, 5)
    epoch, _, tag = kept[3]["position"].split(".")
    with Client(nodes[-1], user="bob") as bob:
        for position, reason in ((f"qqqqqqqq.3.{tag}", "epochChanged"), (f"{epoch}.3.qqqqqqqq", "rolledBack"), (f"{epoch}.99.{tag}", "ahead")):
            answer = bob.request("history", channel=channel, since=position)
            assert (answer["recovered"], answer["reason"]) == (False, reason)
            body = page(nodes, channel, since=position)[2]
            assert (body["recovered"], body["reason"]) == (False, reason)
            answer = bob.request("history", channel=channel, since=position, reverse=True, limit=2)
            assert (answer["recovered"], answer["reason"], len(answer["publications"]), answer["more"]) == (False, reason, 2, True)
        assert bob.request("history", channel=channel, since=kept[3]["position"])["recovered"] is True
        for limit, offsets in ((1, [5]), (2, [5, 4]), (9, [5, 4])):
            answer = bob.request("history", channel=channel, since=kept[3]["position"], reverse=True, limit=limit)
            assert answer["recovered"] is True and [each["offset"] for each in answer["publications"]] == offsets
        rest = bob.request("history", channel=channel, since=kept[1]["position"], before=kept[4]["position"], reverse=True)
        assert rest["recovered"] is True and [each["offset"] for each in rest["publications"]] == [3, 2]
        # To page back from a place that the channel can't have given out.
        for before, reason in ((f"qqqqqqqq.3.{tag}", "epochChanged"), (f"{epoch}.99.{tag}", "ahead")):
            for reverse in (True, False):
                answer = bob.request("history", channel=channel, before=before, reverse=reverse)
                assert (answer["recovered"], answer["reason"], answer["publications"]) == (False, reason, [])


def test_a_channel_that_never_was(nodes, channel):
    with Client(nodes[-1], user="bob") as bob:
        answer = bob.request("history", channel=channel)
        assert (answer["offset"], answer["publications"]) == (0, []) and re.fullmatch(r"\.0\.[a-z2-7]{8}", answer["position"])
    assert page(nodes, "none:x")[2]["publications"] == []


def test_bad_questions_have_names(nodes, channel):
    fill(nodes, channel, 3)
    bad = [
        ("since=-1", "badPosition"), ("since=1.5", "badPosition"), ("since=x", "badPosition"), ("since=9007199254740992", "badPosition"), ("since=4", "badPosition"),
        ("before=-1", "badPosition"), ("limit=0", "malformed"), ("limit=1001", "tooMany"), ("limit=-1", "malformed"), ("limit=1e3", "malformed"),
        ("limit=99999999999999999999", "malformed"), ("reverse=1", "malformed"), ("since=1&sinceTime=1", "malformed"), ("beforeTime=x", "malformed"),
    ]
    for query, code in bad:
        status, _, body = request(f"{nodes[-1].url}/v1/channels/{urllib.parse.quote(channel, safe='')}/history?{query}")
        assert body["error"]["code"] == code and status in (400, 422), query
    with Client(nodes[-1], user="bob") as bob:
        for fields, code in (
                ('"since":-1', "malformed"), ('"since":1.5', "malformed"), ('"since":9007199254740992', "malformed"), ('"since":1e30', "malformed"),
                ('"since":"x"', "badPosition"), ('"since":"7"', "badPosition"), ('"since":4', "badPosition"), ('"before":true', "malformed"), ('"limit":0', "malformed"),
                ('"limit":1001', "tooMany"), ('"limit":9007199254740991', "tooMany"), ('"limit":-1', "malformed"), ('"limit":"5"', "malformed"), ('"reverse":"true"', "malformed"),
                ('"since":1,"sinceTime":1', "malformed"), ('"sinceTime":"x"', "malformed"), ('"beforeTime":-1', "malformed"), ('"since":null', "malformed")):
            bob.send_raw('{"type":"history","id":7,"channel":"%s",%s}' % (channel, fields))
            answer = bob.expect(lambda message: message.get("id") == 7)
            assert (answer["type"], answer.get("code")) == ("error", code), fields
        for name in ("", "x" * 256, "a\u0001", "a\u007f"):
            bob.send({**{"type": "history", "id": 8}, "channel": name}) if 0 < len(name) < 256 and name.isprintable() else bob.send_raw(
                '{"type":"history","id":8,"channel":"%s"}' % name.encode("unicode_escape").decode().replace("\\x", "\\u00"))
            assert bob.expect(lambda message: message.get("id") == 8)["code"] == "badName"
    for path in ("a%00b", "a%0ab", "", "x" * 256, "%ff"):
        assert request(f"{nodes[-1].url}/v1/channels/{path}/history")[0] == 400, path
    assert request(f"{nodes[-1].url}/v1/channels/a/history", method="POST", body={})[0] == 405
    assert request(f"{nodes[-1].url}/v1/channels/a/stories")[0] == 404


def test_etag(nodes, channel):
    fill(nodes, channel, 3)
    status, headers, body = page(nodes, channel, limit=2)
    assert status == 200 and headers["Cache-Control"] == "private, no-cache" and "Authorization" in headers.get_all("Vary")
    tag = headers["ETag"]
    address = f"{nodes[0].url}/v1/channels/{urllib.parse.quote(channel, safe='')}/history"
    for known in (tag, f'"other", {tag}', f"W/{tag}", "*"):
        again = request(f"{address}?limit=2", headers={"If-None-Match": known})
        assert (again[0], again[2], again[1]["ETag"]) == (304, b"", tag), known
    # Another question, or another answer.
    assert request(f"{address}?limit=1", headers={"If-None-Match": tag})[0] == 200
    assert request(f"{address}?reverse=true&limit=2", headers={"If-None-Match": tag})[0] == 200
    everything = request(address)[1]["ETag"]
    with Client(nodes[0], user="alice") as alice:
        alice.request("chat", channel=channel, payload=4)
    assert request(address, headers={"If-None-Match": everything})[0] == 200


def test_the_api_key_needs_the_scope(start):
    import hashlib
    import json
    keys = [{"id": scope, "digest": hashlib.sha256(scope.encode()).hexdigest(), "scopes": [scope]} for scope in ("read", "publish")]
    node = start(Hub, settings={"api.keys": json.dumps(keys)})
    address = f"{node.url}/v1/channels/room/history"
    assert request(address)[0] == 401
    assert request(address, key="publish")[0] == 403
    assert request(address, key="read")[0] == 200


# Publishing

def publish(nodes, body, key=None):
    return request(f"{nodes[-1].url}/v1/publish", "POST", body, headers={"Idempotency-Key": key} if key else {})


def test_the_idempotency_key_is_the_message_id(nodes, channel):
    status, _, first = publish(nodes, {"channel": channel, "payload": 1}, key="k-1")
    assert (status, first["messageId"]) == (200, "k-1")
    assert publish(nodes, {"channel": channel, "payload": 1}, key="k-1")[2] == {**first, "duplicate": True}
    assert publish(nodes, {"channel": channel, "payload": 1}, key='"k-1"')[2]["duplicate"]
    assert publish(nodes, {"channel": channel, "payload": 1, "messageId": "k-1"})[2]["duplicate"]
    assert publish(nodes, {"channel": channel, "payload": 1, "messageId": "k-1"}, key="k-1")[2]["duplicate"]
    status, _, body = publish(nodes, {"channel": channel, "payload": 1, "messageId": "k-2"}, key="k-1")
    assert (status, body["error"]["code"]) == (400, "malformed")
    assert publish(nodes, {"channel": channel, "payload": 1}, key="k" * 64)[0] == 200
    assert publish(nodes, {"channel": channel, "payload": 1}, key="k" * 65)[0] == 400
    assert publish(nodes, {"channel": channel, "payload": 2}, key="k-1")[0] == 409
    for half in '"k-3', 'k-3"', '"':
        status, _, body = publish(nodes, {"channel": channel, "payload": 3}, key=half)
        assert (status, body["error"]["code"]) == (400, "malformed") and "Idempotency-Key" in body["error"]["message"]


def test_a_batch_is_published_in_order_each_with_its_own_answer(nodes, channel):
    with Client(nodes[0], user="bob") as bob:
        bob.subscribe(channel)
        messages = [
            {"channel": channel, "payload": 1, "user": "alice"}, {"channel": channel, "payload": 2, "class": "event", "messageId": "own"},
            {"channel": "", "payload": 3}, {"channel": channel}, 5, {"channel": channel, "payload": 6, "class": "shout"},
            {"channel": channel, "payload": 7, "age": -1}, {"channel": channel, "payload": 8, "messageId": "x" * 65}, {"channel": channel, "payload": 9},
        ]
        status, _, body = publish(nodes, {"messages": messages}, key="batch")
        assert status == 200 and "error" not in body
        codes = [entry.get("error", {}).get("code") for entry in body["results"]]
        assert codes == [None, None, "badName", "malformed", "malformed", "malformed", "malformed", "badName", None]
        assert [entry.get("messageId") for entry in body["results"]] == ["batch:0", "own", None, None, None, None, None, None, "batch:8"]
        heard = [bob.expect(lambda message: message["type"] in ("chat", "event")) for _ in range(3)]
        assert [message["payload"] for message in heard] == [1, 2, 9]
        assert [message["position"] for message in heard] == [entry["position"] for entry in body["results"] if "position" in entry]
        again = publish(nodes, {"messages": messages}, key="batch")[2]["results"]
        assert [entry.get("duplicate") for entry in again] == [True, True, None, None, None, None, None, None, True]


def test_a_publication_that_nests_too_deep_refuses_itself_alone(nodes, channel):
    def deep(levels):
        return {"channel": channel, "payload": json.loads("[" * levels + "1" + "]" * levels)}

    for levels in (20, 30, 31):
        body = publish(nodes, {"messages": [deep(1), deep(levels), deep(1)]})[2]
        assert [("error" in result) for result in body["results"]] == [False] * 3, (levels, body)
    for levels in (32, 40):
        status, _, body = publish(nodes, {"messages": [deep(1), deep(levels), deep(1)]})
        results = body["results"]
        assert status == 200 and results[1]["error"]["code"] == "tooDeep", (levels, body)
        assert "error" not in results[0] and "error" not in results[2]


def test_an_idempotency_key_that_is_too_long_for_a_batch_publishes_none_of_it(nodes, channel):
    messages = [{"channel": channel, "payload": number} for number in range(12)]
    status, _, body = publish(nodes, {"messages": messages}, key="k" * 62)
    assert (status, body["error"]["code"]) == (400, "badName") and "Idempotency-Key" in body["error"]["message"]
    with Client(nodes[0], user="bob") as bob:
        assert bob.request("history", channel=channel)["publications"] == []
    assert publish(nodes, {"messages": messages}, key="k" * 61)[0] == 200


def test_a_batch_that_fails_whole_has_the_first_errors_status(nodes, channel):
    status, _, body = publish(nodes, {"messages": [{"channel": channel}, {"payload": 1}]})
    assert status == 400 and body["error"] == body["results"][0]["error"]
    for messages, code in (([], 400), ({}, 400), ("x", 400), ([{"channel": channel, "payload": 1}] * 101, 422)):
        assert publish(nodes, {"messages": messages})[0] == code
    status, _, body = publish(nodes, {"messages": [{"channel": channel, "payload": number} for number in range(100)]})
    assert status == 200 and [entry["offset"] for entry in body["results"]] == list(range(1, 101))


def test_a_late_retry_over_http(nodes, channel):
    first = publish(nodes, {"channel": channel, "payload": 1, "messageId": "m1"})[2]
    assert publish(nodes, {"channel": channel, "payload": 1, "messageId": "m1", "age": 60_000})[2]["duplicate"]
    late = {"channel": channel, "payload": 2, "age": 10**9}
    assert publish(nodes, {**late, "messageId": "m2"})[0] == 409
    assert publish(nodes, {**late, "messageId": "m2", "since": first["position"]})[0] == 200
    assert publish(nodes, {**late, "messageId": "m3", "since": "x"})[0] == 400
    assert publish(nodes, {**late, "messageId": "m3", "since": 5})[0] == 400
    assert eventually(lambda: page(nodes, channel)[2]["offset"] == 2)


def test_pipelined_history_waits_for_room(start, tmp_path):
    """A page brings one publication at least: so there may not be any number of pages under way. Who reads gets all of them, in order."""
    for redis in (None, start(RedisServer).url):
        node = start(Hub, redis=redis)
        with Client(node, user="alice") as alice:
            for _ in range(20):
                alice.chat("room", "x" * 60_000)
        before = memory(node, "VmRSS")
        asked = b"".join(text(type="history", id=number, channel="room", limit=20) for number in range(400))
        silent = [Raw(node, opening(f"/v1/ws?user=silent{number}"), buffer=4096) for number in range(40)]
        for one in silent:
            one.send(asked)
        with Client(node, user="bob") as bob:
            for number in range(100):
                bob.send({"type": "history", "id": number, "channel": "room", "limit": 20})
            for number in range(100):
                page = bob.expect(lambda message: message["type"] in ("ack", "error"), seconds=60)
                assert page["id"] == number and len(page["publications"]) >= 1 and page["more"], page
        # 400 publications for each would be a gigabyte; 1 MB of queue and 512 KB of pages are 60 MB.
        grown = memory(node, "VmHWM") - before
        assert grown < 200, f"{grown} MB more than before"
        for one in silent:
            one.socket.close()


def memory(node, name):
    """MB, as the kernel counts them."""
    return int(re.search(rf"{name}:\s+(\d+)", pathlib.Path(f"/proc/{node.process.pid}/status").read_text()).group(1)) // 1024


@pytest.mark.parametrize("made", [
    ("m:", "SET", "KEY", "mine"), ("m:", "HSET", "KEY", "f", "v"), ("m:", "HSET", "KEY", "e", "zzzzzzzz", "s", "abc", "g", "x"),
    ("s:", "XADD", "KEY", "*", "f", "v"), ("g", "SET", "KEY", "short"), ("g", "LPUSH", "KEY", "v"),
], ids=lambda made: " ".join(made[:2]) + str(len(made)))
def test_nobody_is_told_of_a_place_in_a_key_of_others(start, made):
    """decision 0301: by name, over WebSocket and HTTP, alone and in a list; nothing is overwritten, and all is well once the key is gone."""
    redis = start(Redis)
    hub, channel = start(Hub, redis=redis.url), "room:theirs"
    with Client(hub, user="alice") as alice:
        alice.chat(channel, "finds the keys")
        [meta] = [key for key in redis.call("KEYS", "*") if key.endswith(f":m:{channel}")]
        redis.call("FLUSHALL")
    hub = start(Hub, name="fresh", redis=redis.url)
    tag = meta.split(":m:")[0]
    key = f"{tag}:g" if made[0] == "g" else f"{tag}:{made[0]}{channel}"
    redis.call("DEL", key)
    redis.call(*[key if word == "KEY" else word for word in made[1:]])
    held = redis.call("OBJECT", "ENCODING", key), redis.call("PTTL", key)
    kinds = {"SET": ("GET",), "HSET": ("HGETALL",), "XADD": ("XLEN",), "LPUSH": ("LRANGE", "0", "-1")}[made[1]]
    content = redis.call(kinds[0], key, *kinds[1:])

    def theirs(error):
        return error["code"] == "internal" and channel in error["message"] and "isn't a hub's" in error["message"] and not error.get("retry")

    with Client(hub, user="bob") as bob:
        for _ in range(2):
            assert theirs(bob.try_request("subscribe", channel=channel))
        listed = bob.request("subscribe", channels=[channel, "room:other"])["channels"]
        assert theirs(listed[0]) and "position" in listed[1]
        assert theirs(bob.try_request("subscribe", channel=channel, position=".0.aaaaaaaa"))
        assert theirs(bob.try_request("history", channel=channel))
        assert theirs(bob.try_request("chat", channel=channel, messageId="m", payload=1))
        if made[0] == "m:":
            assert theirs(bob.try_request("read", channel=channel, payload={"offset": 3}))
        status, _, body = request(f"{hub.url}/v1/channels/{channel}/history")
        assert status == 500 and theirs(body["error"])
        assert redis.call(kinds[0], key, *kinds[1:]) == content
        assert (redis.call("OBJECT", "ENCODING", key), redis.call("PTTL", key)) == held
        redis.call("DEL", key)
        assert bob.request("subscribe", channel=channel)["position"].startswith(".0.")
        bob.chat(channel, "ours again")
        assert bob.expect(type="chat", channel=channel)["offset"] == 1


@pytest.mark.parametrize("kind", ["embedded", "redis"])
def test_a_retry_that_waits_in_the_node_grows_older_meanwhile(start, kind):
    redis = start(RedisServer) if kind == "redis" else None
    settings = {"namespaces.room.dedup": "6s", "limits.outboundBytes": "1MB"}
    node = start(Hub, redis=redis.url if redis else None, settings=settings)
    with Client(node, user="alice", compression=None) as alice:
        for _ in range(60):
            alice.request("chat", channel="big:1", payload="x" * 60_000)
        since = alice.subscribe("room:late")["position"]
        began = time.monotonic()
        first = alice.request("chat", channel="room:late", messageId="once", payload=1)
        # It reads nothing for longer than the id is remembered, and its retry waits behind pages that wait for it.
        for number in range(150):
            alice.send({"type": "history", "id": 1000 + number, "channel": "big:1", "limit": 100})
        age = int((time.monotonic() - began) * 1000)
        alice.send({"type": "chat", "id": 2000, "channel": "room:late", "messageId": "once", "payload": 1, "age": age, "since": since})
        assert age < 4000
        time.sleep(7.5)
        answer = alice.expect(lambda message: message.get("id") == 2000, seconds=60)
        assert (answer["type"], answer["offset"], answer.get("duplicate")) == ("ack", first["offset"], True), answer


def test_a_window_of_ids_that_is_raised_forgets_those_from_before_when_it_was_to(start, tmp_path):
    config = tmp_path / "hub.json5"
    config.write_text('{namespaces: {room: {dedup: "2s"}}}')
    node = start(Hub, config=config)
    with Client(node, user="alice") as alice:
        since = alice.subscribe("room:raised")["position"]
        first = alice.request("chat", channel="room:raised", messageId="once", payload=1)
        began = time.monotonic()
        config.write_text('{namespaces: {room: {dedup: "1h"}}}')
        node.signal(signal.SIGHUP)
        time.sleep(3)
        age = int((time.monotonic() - began) * 1000)
        again = alice.request("chat", channel="room:raised", messageId="once", payload=1, age=age, since=since)
        assert (again["offset"], again.get("duplicate")) == (first["offset"], True)
