"""Revoked tokens and closed connections: on every node, for tokens that still hold, over restarts."""

import hashlib
import http.client
import json
import time

import pytest
from websockets.exceptions import ConnectionClosed, InvalidStatus

from client import Client
from hub import Hub, RedisServer, eventually, hubctl, request, running
from relay import Relay
from tokens import SECRET, mint

API_KEYS = json.dumps([
    {"id": name, "digest": hashlib.sha256(name.encode()).hexdigest(), "scopes": scopes}
    for name, scopes in {"boss": ["admin"], "reader": ["read", "publish"]}.items()])
SETTINGS = {"auth.keys": '[{"alg":"HS256","secret":"%s"}]' % SECRET, "api.keys": API_KEYS, "namespaces.room.rights": "*"}


def node(folder, redis, name, **options):
    hub = Hub(folder, name=name, dev=False, redis=f"redis://127.0.0.1:{redis.port}" if redis else None, settings={**SETTINGS, **options.pop("settings", {})}, **options)
    hub.api_key = "boss"
    return hub


@pytest.fixture(scope="module")
def nodes(folder, redis):
    with running(node(folder, redis, "one"), node(folder, redis, "two")) as both:
        yield both


def post(hub, path, body, key="boss"):
    return request(f"{hub.url}{path}", method="POST", body=body, key=key)


def revoke(hub, **body):
    status, _, answer = post(hub, "/v1/revocations", body)
    assert status == 200, answer
    return answer


def gets_in(hub, token):
    try:
        with Client(hub, token=token) as client:
            return client.welcome["user"]
    except InvalidStatus as refused:
        assert refused.response.status_code == 401
        return None
    except ConnectionClosed as closed:
        # It came in just before the node heard of it.
        assert closed.rcvd.code == 4003
        return None


def test_revoking_a_user_closes_the_connections_on_both_nodes_and_keeps_the_tokens_out(nodes):
    one, two = nodes
    old = mint("rita", iat=int(time.time()) - 10)
    with Client(one, token=old) as here, Client(two, token=old) as there, Client(two, token=mint("other")) as other:
        answer = revoke(one, user="rita")
        assert answer["user"] == "rita" and answer["expires"] - answer["before"] == 30 * 86_400_000
        assert here.expect_close()[0] == 4003 and there.expect_close()[0] == 4003
        other.sync()
    for hub in nodes:
        eventually(lambda hub=hub: gets_in(hub, old) is None, 15, "the old token is refused")
        with Client(hub, welcome=False) as rita:
            rita.send({"type": "connect", "id": 1, "token": old})
            assert rita.expect_close()[0] == 4001
        # A token of afterwards holds; seconds are all that iat knows.
        assert gets_in(hub, mint("rita", iat=int(time.time()) + 2)) == "rita"
    eventually(lambda: all(hub.metric("hub_revocations") >= 1 for hub in nodes), 15)


def test_revoking_one_token_leaves_the_users_others(nodes):
    one, two = nodes
    lost, kept = mint("tom", jti="lost-phone"), mint("tom", jti="laptop")
    with Client(one, token=lost) as phone, Client(one, token=kept) as laptop, Client(two, token=lost) as twin:
        revoke(two, token="lost-phone")
        assert phone.expect_close()[0] == 4003 and twin.expect_close()[0] == 4003
        laptop.sync()
    assert gets_in(one, lost) is None and gets_in(one, kept) == "tom" and gets_in(two, mint("tom")) == "tom"


def test_a_refresh_with_a_revoked_token_is_refused_and_the_connection_stays(nodes):
    one, two = nodes
    bad = mint("fred", jti="bad-refresh")
    revoke(two, token="bad-refresh")
    with Client(one, token=mint("fred")) as fred:
        eventually(lambda: fred.try_request("connect", token=bad)["type"] == "error", 15)
        assert fred.try_request("connect", token=bad)["code"] == "tokenInvalid"
        fred.sync()


def test_a_user_is_disconnected_everywhere_and_may_or_may_not_return(nodes):
    one, two = nodes
    for body, code in (({}, 4003), ({"mayReturn": True}, 4004)):
        with Client(one, token=mint("dora")) as here, Client(two, token=mint("dora")) as there, Client(one, token=mint("dorabella")) as other:
            status, _, answer = post(one, "/v1/users/dora/disconnect", body)
            assert status == 200 and answer["user"] == "dora"
            assert here.expect_close()[0] == code and there.expect_close()[0] == code
            other.sync()
        # The token itself is good.
        assert gets_in(two, mint("dora")) == "dora"


def test_what_an_operator_asks_must_make_sense_and_be_allowed(nodes):
    one, _ = nodes
    for body in ({}, {"user": "a", "token": "b"}, {"user": ""}, {"user": 7}, {"all": False}, {"all": 1}, {"token": "t", "before": 1}, {"user": "a", "before": -1},
                 {"user": "a", "before": 2**53}, {"user": "a", "before": int(time.time() * 1000) + 3_600_000}, {"user": "a\u0000"}, []):
        assert post(one, "/v1/revocations", body)[0] in (400, 413), body
    assert post(one, "/v1/users/a/disconnect", {"mayReturn": "yes"})[0] == 400
    assert post(one, "/v1/users/%00/disconnect", {})[0] == 400
    for path in ("/v1/revocations", "/v1/users/a/disconnect"):
        assert post(one, path, {"user": "a"}, key="reader")[0] == 403
        assert post(one, path, {"user": "a"}, key=None)[0] == 401
        assert request(f"{one.url}{path}", key="boss")[0] == 405


def test_hubctl_revokes_and_disconnects(nodes):
    one, two = nodes
    token = mint("carla", iat=int(time.time()) - 10, jti="c1")
    with Client(two, token=token) as carla:
        done = hubctl(one, "disconnect", "carla", "--may-return", key="boss")
        assert done.returncode == 0, done
        assert carla.expect_close()[0] == 4004
    for flags in (("--token", "c1"), ("--user", "carla", "--before", str(int(time.time())))):
        done = hubctl(one, "revoke", *flags, key="boss")
        assert done.returncode == 0 and "kept until" in done.stdout, done
    eventually(lambda: gets_in(two, token) is None, 15)
    assert hubctl(one, "revoke", key="boss").returncode == 2
    refused = hubctl(one, "revoke", "--user", "carla", key="reader")
    assert refused.returncode == 1 and "admin" in refused.stderr


def test_no_client_reaches_the_channel_that_they_are_kept_in(nodes):
    one, _ = nodes
    with Client(one, token="boss") as boss:
        for number, type in enumerate(("subscribe", "chat", "history")):
            boss.send_raw('{"type":"%s","id":%d,"channel":"\\u0001revocations","payload":1}' % (type, number))
            assert boss.expect(type="error", id=number)["code"] == "badName"
    assert request(f"{one.url}/v1/channels/%01revocations/history", key="boss")[0] == 400
    assert post(one, "/v1/publish", {"channel": "\u0001revocations", "payload": 1})[0] == 400


def test_revocations_outlive_the_nodes_that_were_told_of_them(start, tmp_path):
    redis = start(RedisServer)
    token = mint("otto", iat=int(time.time()) - 10)
    first = start(lambda folder: node(folder, redis, "first"))
    revoke(first, user="otto")
    first.kill()
    second = start(lambda folder: node(folder, redis, "second"))
    assert gets_in(second, token) is None
    assert gets_in(second, mint("anna", iat=int(time.time()) - 10)) == "anna"


def test_a_node_that_was_cut_off_knows_them_when_it_lets_anybody_in_again(start):
    redis = start(RedisServer)
    with Relay(redis) as relay:
        near = start(lambda folder: node(folder, redis, "near"))
        far = start(lambda folder: node(folder, relay, "far"))
        token = mint("cut", iat=int(time.time()) - 10)
        with Client(far, token=token) as client:
            relay.is_frozen = True
            eventually(lambda: request(f"{far.url}/readyz")[0] == 503, 30, "the far node isn't ready")
            revoke(near, user="cut")
            relay.is_frozen = False
            assert client.expect_close(seconds=60)[0] == 4003
        far.wait_ready(60)
        assert gets_in(far, token) is None


def test_what_redis_lost_is_written_anew_by_who_knows_it(start):
    redis = start(RedisServer)
    token = mint("lars", iat=int(time.time()) - 10)
    knows = start(lambda folder: node(folder, redis, "knows"))
    revoke(knows, user="lars")
    eventually(lambda: gets_in(knows, token) is None, 15)
    assert redis.command("FLUSHALL") == "+OK"
    port = redis.port
    redis.kill()
    redis = start(RedisServer, port)
    knows.wait_ready(40)

    def new_node_refuses():
        fresh = start(lambda folder: node(folder, redis, "fresh"))
        try:
            return gets_in(fresh, token) is None
        finally:
            fresh.kill()

    eventually(new_node_refuses, 40, "a node that starts now knows it too")


def test_a_single_node_keeps_them_in_its_snapshot(start, tmp_path):
    settings = {"embedded.snapshot": str(tmp_path / "snapshot"), "embedded.snapshotInterval": "500ms"}
    token = mint("solo", iat=int(time.time()) - 10)
    first = start(lambda folder: node(folder, None, "first", settings=settings))
    revoke(first, user="solo")
    assert gets_in(first, token) is None
    assert first.stop() == 0
    second = start(lambda folder: node(folder, None, "second", settings=settings))
    assert gets_in(second, token) is None


@pytest.mark.parametrize("what", ["user", "token", "all"])
def test_what_was_answered_outlives_a_single_node_that_is_killed_at_once(start, tmp_path, what):
    settings = {"embedded.snapshot": str(tmp_path / "snapshot"), "embedded.snapshotInterval": "1h"}
    token = mint("solo", iat=int(time.time()) - 10, jti="solo-1")
    first = start(lambda folder: node(folder, None, "first", settings=settings))
    assert gets_in(first, token) == "solo"
    revoke(first, **{"user": {"user": "solo"}, "token": {"token": "solo-1"}, "all": {"all": True}}[what])
    first.kill()
    # A write that was never finished, and so never answered.
    with open(tmp_path / "snapshot.revocations", "ab") as journal:
        journal.write(b"\x40\x00\x00\x00{")
    second = start(lambda folder: node(folder, None, "second", settings=settings))
    assert gets_in(second, token) is None
    revoke(second, user="another")
    second.kill()
    third = start(lambda folder: node(folder, None, "third", settings=settings))
    assert gets_in(third, token) is None
    eventually(lambda: third.metric("hub_revocations") >= 1)


def test_what_redis_lost_without_a_broken_link_is_back_within_seconds(start):
    redis = start(RedisServer)
    token = mint("flo", iat=int(time.time()) - 10)
    knows = start(lambda folder: node(folder, redis, "knows"))
    revoke(knows, user="flo")
    eventually(lambda: gets_in(knows, token) is None, 15)
    fresh = start(lambda folder: node(folder, redis, "fresh"))
    assert redis.command("FLUSHALL") == "+OK"
    newer = start(lambda folder: node(folder, redis, "newer"))
    eventually(lambda: gets_in(newer, token) is None, 20, "a node that starts after the loss knows it again")
    assert gets_in(fresh, token) is None


def test_a_full_store_still_ends_connections_and_says_that_nobody_keeps_it(start):
    redis = start(RedisServer)
    one, two = (start(lambda folder, name=name: node(folder, redis, name)) for name in ("one", "two"))
    with Client(one, token=mint("fia")) as here, Client(two, token=mint("fia")) as there:
        redis.command("CONFIG", "SET", "maxmemory", "1")
        status, _, answer = post(one, "/v1/users/fia/disconnect", {})
        assert status == 200 and answer["kept"] is False and "full" in answer["message"], answer
        assert here.expect_close()[0] == 4003 and there.expect_close()[0] == 4003
        assert post(one, "/v1/revocations", {"user": "fia"})[0] == 503
        redis.command("CONFIG", "SET", "maxmemory", "0")


def test_when_as_many_are_kept_as_may_be_all_and_disconnect_are_still_possible(start):
    hub = start(lambda folder: node(folder, None, "full"))
    connection = http.client.HTTPConnection("127.0.0.1", hub.port, timeout=60)

    def say(**body):
        connection.request("POST", "/v1/revocations", json.dumps(body), {"Authorization": "Bearer boss", "Content-Type": "application/json"})
        response = connection.getresponse()
        return response.status, json.loads(response.read())

    token = mint("vic", iat=int(time.time()) - 10)
    with Client(hub, token=token) as vic, Client(hub, token=mint("dan", iat=int(time.time()) + 20)) as dan:
        for number in range(10_000):
            assert say(user=f"u{number}")[0] == 200
        eventually(lambda: hub.metric("hub_revocations") == 10_000, 30)
        status, answer = say(user="vic")
        assert status == 503 and answer["error"]["code"] == "storeFull" and '{"all":true}' in answer["error"]["message"], answer
        assert say(user="u17")[0] == 200, "it takes the place of the one before"
        assert post(hub, "/v1/users/dan/disconnect", {})[0] == 200
        assert dan.expect_close()[0] == 4003
        assert say(all=True)[0] == 200, "as the answer advised"
        assert vic.expect_close()[0] == 4003
    eventually(lambda: hub.metric("hub_revocations") <= 2, 30, "what it covers is gone")
    assert gets_in(hub, token) is None and say(user="more", before=int(time.time() * 1000))[0] == 200
