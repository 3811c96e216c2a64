"""Who sees what of whom: invisible users, whom clients may watch, how exactly they're told of others."""

import json
import signal
import time

import jwt
import pytest

from client import Client, statuses
from hub import Hub, RedisServer, eventually, request

KEY = "a key of at least thirty-two bytes for these tests"
ADMIN, READER = "admin-key-of-the-tests-0123456789abc", "reader-key-of-the-tests-0123456789ab"
API_KEYS = '[{"id":"admin","env":"ADMIN_KEY","scopes":["admin"]},{"id":"reader","env":"READER_KEY","scopes":["read"]}]'
HOUR = 3_600_000


def token(user, **claims):
    return jwt.encode({"sub": user, "exp": int(time.time()) + 600, **claims}, KEY, "HS256")


@pytest.fixture
def make(start, tmp_path):
    def make(**settings):
        file = tmp_path / "token-key"
        file.write_text(KEY)
        config = tmp_path / "hub.json5"
        config.write_text('{ auth: { keys: [{ kid: "k1", alg: "HS256", file: "%s" }] } }' % file)
        return start(
            Hub, dev=False, config=config, environment={"ADMIN_KEY": ADMIN, "READER_KEY": READER},
            settings={"api.keys": API_KEYS, "presence.grace": "300ms", "presence.sweepInterval": "100ms", "presence.watch": "everyone", **settings})
    return make


def test_an_invisible_user_shows_nowhere_but_to_operators(make):
    hub = make()
    with Client(hub, token=token("watcher")) as watcher:
        watcher.request("watch", users=["ghost", "turns"])
        ghost = open_invisible(hub, "ghost")
        turns = Client(hub, token=token("turns"))
        watcher.presence_of("turns", "online")
        turns.request("presence", payload={"status": "invisible"})
        watcher.presence_of("turns", "offline")
        # Toggling where nobody sees it makes no event, and a connection more doesn't either.
        more = open_invisible(hub, "turns")
        messages = watcher.gather(1)
        assert statuses(messages, "ghost") == [] and statuses(messages, "turns") == []
        states = {user["user"]: user for user in watcher.request("watch", users=["ghost", "turns"])["users"]}
        assert states["ghost"]["status"] == "offline" and states["ghost"]["lastSeen"] == 0
        for user in ("ghost", "turns"):
            code, _, answer = request(f"{hub.url}/v1/presence/{user}", key=READER)
            assert (code, answer["status"], answer["connections"]) == (200, "offline", []), answer
            assert "graceLeft" not in answer
            answer = request(f"{hub.url}/v1/presence", "POST", {"users": [user]}, key=READER)[2]
            assert answer["users"][0]["status"] == "offline"
            answer = request(f"{hub.url}/v1/presence/{user}?explain=1", key=ADMIN)[2]
            assert {row["state"] for row in answer["connections"]} == {"invisible"}
        for client in (more, ghost, turns):
            client.vanish()
        # Its end is nobody's business either.
        assert statuses(watcher.gather(1.5), "ghost") == []


def test_who_was_only_ever_invisible_is_told_of_as_who_never_was(make):
    hub = make()
    with Client(hub, token=token("watcher")) as watcher:
        watcher.request("watch", users=["unseen", "nobody"])
        unseen = open_invisible(hub, "unseen")
        eventually(lambda: request(f"{hub.url}/v1/presence/unseen?explain=1", key=ADMIN)[2]["connections"])

        def told(user):
            with Client(hub, token=token("another")) as another:
                ways = [another.request("watch", users=[user])["users"][0], request(f"{hub.url}/v1/presence/{user}", key=READER)[2],
                        request(f"{hub.url}/v1/presence", "POST", {"users": [user]}, key=READER)[2]["users"][0]]
            for way in ways:
                assert way.pop("user") == user
            return ways

        for _ in range(2):
            assert told("unseen") == told("nobody")
            assert told("unseen")[0]["version"] == 0
            answer = request(f"{hub.url}/v1/presence/unseen?explain=1", key=ADMIN)[2]
            assert answer["transitions"] == [] and "no connection of it counts any more" not in answer["because"], answer
            if unseen:
                assert "all of its connections (1) are invisible" in answer["because"]
                unseen.leave()
                unseen = None
                eventually(lambda: request(f"{hub.url}/v1/presence/unseen?explain=1", key=ADMIN)[2]["connections"] == [])
        assert statuses(watcher.gather(0.5), "unseen") == []
        # And known as anybody from the first time that it's seen.
        with Client(hub, token=token("unseen")):
            assert watcher.presence_of("unseen", "online")["changes"][0]["version"] > 0


def open_invisible(hub, user):
    """With the status in the address: never online, not even for a moment."""
    return Client(hub, token=token(user), status="invisible")


def test_a_status_in_the_address_that_does_not_exist_is_refused(make):
    hub = make()
    for path in ("/v1/ws", "/v1/sse"):
        code, _, answer = request(f"{hub.url}{path}?status=asleep", headers={"Authorization": f"Bearer {token('a')}", **WEBSOCKET})
        assert code == 400 and answer["error"]["code"] == "malformed" and "invisible" in answer["error"]["message"], answer


@pytest.mark.parametrize("query, code, word", [
    ("status=", "malformed", "status"), ("status", "malformed", "status"), ("status=%", "malformed", "status"),
    ("device=", "badName", "device"), ("device=%", "malformed", "device"), ("device=%4", "malformed", "device"),
    ("channel=", "badName", "channel"), ("channel=%zz", "malformed", "channel"), ("token=%", "malformed", "token"),
])
def test_a_parameter_that_is_empty_or_wrongly_encoded_is_refused_by_name(make, query, code, word):
    hub = make()
    for path in ("/v1/ws", "/v1/sse"):
        status, _, answer = request(f"{hub.url}{path}?{query}", headers={"Authorization": f"Bearer {token('a')}", **WEBSOCKET})
        assert (status, answer["error"]["code"]) == (400, code) and word in answer["error"]["message"], (path, answer)


def test_parameters_of_the_api_that_are_empty_or_wrongly_encoded_are_refused_by_name(make):
    hub = make()
    paths = {"presence/a": ["explain=", "explain", "explain=0", "explain=%"], "channels/a/members": ["cursor=", "cursor=%3"],
             "channels/a/history": ["limit=", "limit=%", "reverse=", "since=", "since=%", "before=", "sinceTime=", "beforeTime=%a"]}
    for path, queries in paths.items():
        for query in queries:
            status, _, answer = request(f"{hub.url}/v1/{path}?{query}", key=ADMIN)
            assert status == 400 and query.split("=")[0] in answer["error"]["message"], (path, query, answer)
    status, _, answer = request(f"{hub.url}/v1/sse?channel=a&position=", headers={"Authorization": f"Bearer {token('a')}"})
    assert status == 400 and "position" in answer["error"]["message"], answer


WEBSOCKET = {"Upgrade": "websocket", "Connection": "Upgrade", "Sec-WebSocket-Version": "13", "Sec-WebSocket-Key": "AAAAAAAAAAAAAAAAAAAAAA=="}


def test_whom_clients_may_watch_is_a_rule_and_those_refused_are_named(make):
    hub = make(**{"presence.watch": "nobody"})
    with Client(hub, token=token("alice")) as alice:
        assert alice.request("watch", users=["alice"])["users"][0]["status"] == "online"
        refused = alice.try_request("watch", users=["alice", "bob", "carol"])
        assert refused["type"] == "error" and refused["code"] == "forbidden", refused
        assert "bob, carol" in refused["message"] and "presence.watch" in refused["message"]
        # As a whole: nobody of the request is watched.
        with Client(hub, token=token("bob")):
            assert statuses(alice.gather(0.6), "bob") == []
        many = alice.try_request("watch", users=[f"user-{number}" for number in range(900)])
        assert many["code"] == "forbidden" and "895 more" in many["message"]


def test_last_seen_is_told_to_clients_as_coarsely_as_set_and_versions_do_not_tell_more(make):
    hub = make(**{"presence.lastSeen": "1h"})
    with Client(hub, token=token("watcher")) as watcher:
        watcher.request("watch", users=["dora"])
        dora = Client(hub, token=token("dora"))
        watcher.presence_of("dora", "online")
        dora.leave()
        offline = watcher.presence_of("dora", "offline")["changes"][0]
        assert offline["lastSeen"] % HOUR == 0 and abs(time.time() * 1000 - offline["lastSeen"]) < 2 * HOUR
        acknowledged = watcher.request("watch", users=["dora"])["users"][0]
        assert acknowledged["lastSeen"] == offline["lastSeen"]
        # Not the first one either: it begins at what the partition has seen, the moment of its first sweep or a step's begin.
        came = []

        def is_rounded():
            user = f"new-{len(came)}"
            came.append(time.time())
            watcher.request("watch", users=[user])
            with Client(hub, token=token(user)):
                version = watcher.presence_of(user, "online")["changes"][0]["version"]
            return version / 1e6 < came[-1] - 0.2

        eventually(is_rounded)
        assert is_rounded() and is_rounded() and is_rounded()
        # Nor does where a channel's members stand: it begins anywhere within the step.
        began = []
        for number in range(4):
            listing = f"{hub.url}/v1/channels/room:{number}/members"
            with Client(hub, token=token(f"first-{number}", caps={"room:*": ["subscribe"]}), channel=f"room:{number}"):
                moment = time.time() * 1000
                eventually(lambda: request(listing, key=READER)[2]["occupancy"] == 1)
                began.append(request(listing, key=READER)[2]["sequence"] - moment)
        assert all(abs(away) < HOUR + 60_000 for away in began) and any(abs(away) > 20_000 for away in began), began
        # The backend's keys are told exactly.
        assert request(f"{hub.url}/v1/presence/dora", key=READER)[2]["lastSeen"] % HOUR != 0


def test_staleness_is_measured_and_no_offline_is_false(make):
    hub = make()
    hub.api_key = ADMIN
    with Client(hub, token=token("watcher")) as watcher:
        watcher.request("watch", users=["erin"])
        with Client(hub, token=token("erin")) as erin:
            watcher.presence_of("erin", "online")
            erin.leave()
        watcher.presence_of("erin", "offline")

    def counted(status):
        return hub.metric('hub_presence_staleness_seconds_count{status="%s"}' % status)

    eventually(lambda: counted("online") >= 1 and counted("offline") >= 1)
    text = request(f"{hub.url}/metrics", key=ADMIN)[2].decode()
    buckets = [int(line.rpartition(" ")[2]) for line in text.splitlines() if line.startswith('hub_presence_staleness_seconds_bucket{status="online"')]
    assert buckets == sorted(buckets) and buckets[-1] == counted("online")
    assert 'le="0.005"' in text and 'le="300"' in text and "# TYPE hub_presence_staleness_seconds histogram" in text
    assert hub.metric("hub_presence_false_offlines_total") == 0


ALL = {"user:*": ["watch"], "room:*": ["subscribe", "publish", "history", "presence"]}
LISTENS = {"room:*": ["subscribe"]}


@pytest.mark.parametrize("kind, fields", [("watch", {"users": ["bob", "ghost"]}), ("history", {"channel": "room:s"}), ("members", {"channel": "room:t"})])
def test_an_answer_that_waits_while_a_token_s_right_goes_is_judged_by_what_is_left(make, start, kind, fields):
    """protocol.md, connect: a new token's rights count at once."""
    redis = start(RedisServer)
    hub = make(**{"redis.url": redis.url, "presence.watch": "listed"})
    with Client(hub, token=token("bob", caps=ALL)) as bob, Client(hub, token=token("alice", caps=ALL)) as alice:
        bob.request("watch", users=["bob"])
        with redis.standing_still():
            alice.send({"type": kind, "id": 100, **fields})
            alice.request("connect", token=token("alice", caps=LISTENS))
        answer = alice.expect(lambda message: message.get("id") == 100)
        if kind == "watch":
            assert answer["users"] == []
        else:
            assert answer.get("code") == "forbidden", answer
        bob.request("presence", payload={"status": "away"})
        assert not [message for message in alice.gather(0.6) if message["type"] == "presence"]


@pytest.mark.parametrize("left", [[], ["subscribe"]], ids=["nothing", "without its members"])
def test_a_subscription_that_waits_while_the_rules_change_is_judged_by_the_new_ones(start, tmp_path, left):
    redis, config = start(RedisServer), tmp_path / "hub.json5"

    def write(rights):
        config.write_text(json.dumps({"auth": {"keys": [{"alg": "HS256", "secret": KEY}]}, "namespaces": {"*": {"rights": rights}}}))

    write(["subscribe", "publish", "presence"])
    hub = start(Hub, dev=False, config=config, redis=redis.url)
    with Client(hub, token=token("bob", caps=ALL)) as bob, Client(hub, token=token("alice")) as alice:
        with redis.standing_still():
            alice.send({"type": "subscribe", "id": 100, "channel": "room:s", "members": True})
            time.sleep(0.2)
            write(left)
            hub.signal(signal.SIGHUP)
            eventually(lambda: "configuration.reloaded" in hub.log)
        answer = alice.expect(lambda message: message.get("id") == 100)
        assert answer.get("code") == "forbidden" if not left else "offset" in answer and "members" not in answer, answer
        bob.subscribe("room:s")
        bob.chat("room:s", "of no concern to who lacks the right")
        assert {message["type"] for message in alice.gather(0.6)} - {"error", "system"} == ({"chat"} if left else set())


def test_whom_an_unwatch_names_the_answer_before_leaves_out(make, start):
    redis = start(RedisServer)
    hub = make(**{"redis.url": redis.url})
    with Client(hub, token=token("bob")), Client(hub, token=token("carol")), Client(hub, token=token("alice")) as alice:
        with redis.standing_still():
            alice.send({"type": "watch", "id": 100, "users": ["bob", "carol"]})
            alice.request("unwatch", users=["bob"])
        answer = alice.expect(lambda message: message.get("id") == 100)
        assert [(user["user"], user["status"]) for user in answer["users"]] == [("carol", "online")], answer
