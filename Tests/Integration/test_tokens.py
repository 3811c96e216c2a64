"""HS256 tokens, made by somebody else's library."""

import http.client
import json
import time

import jwt
import pytest
from websockets.exceptions import InvalidStatus

from client import Client
from hub import Hub, run, running

UPGRADE = {
    "Upgrade": "websocket", "Connection": "Upgrade", "Sec-WebSocket-Version": "13", "Sec-WebSocket-Key": "AAAAAAAAAAAAAAAAAAAAAA=="}
KEY = "a key of at least thirty-two bytes for these tests"


@pytest.fixture(scope="module")
def hub(folder):
    file = folder / "token-key"
    file.write_text(KEY)
    config = folder / "hub.json5"
    config.write_text(
        '{ auth: { keys: [{ kid: "k1", alg: "HS256", file: "%s" }] }, deadlines: { authentication: "500ms" }, '
        'namespaces: { "*": { rights: ["*"] } } }' % file)
    with running(Hub(folder, dev=False, config=config)) as node:
        yield node


def token(key=KEY, algorithm="HS256", headers=None, **claims):
    claims = {"sub": "alice", "exp": int(time.time()) + 600, **claims}
    return jwt.encode({name: value for name, value in claims.items() if value is not None}, key, algorithm, headers=headers)


def test_a_good_token_in_the_header_names_the_user(hub):
    with Client(hub, token=token()) as alice:
        assert alice.welcome["user"] == "alice"
    with Client(hub, token=token(headers={"kid": "k1"})) as alice:
        assert alice.welcome["user"] == "alice"


def test_a_good_token_in_the_first_envelope_names_the_user(hub):
    with Client(hub, welcome=False) as alice:
        alice.send({"type": "connect", "id": 1, "token": token(), "device": "browser"})
        assert alice.expect(type="system", event="welcome")["device"] == "browser"
        assert alice.expect(type="ack", id=1)["user"] == "alice"


def test_requests_before_it_are_refused_and_the_url_s_user_counts_for_nothing(hub):
    with Client(hub, user="root", welcome=False) as nobody:
        assert nobody.try_request("subscribe", channel="room:x")["code"] == "unauthenticated"


def test_silence_before_it_ends_with_4010(hub):
    with Client(hub, welcome=False) as nobody:
        assert nobody.expect_close()[0] == 4010


bad = {
    "not a token": (lambda: "garbage", 4001),
    "another key": (lambda: token(key="b" * 32), 4001),
    "no signature": (lambda: token(key=None, algorithm="none"), 4001),
    "another algorithm": (lambda: token(algorithm="HS512", key=KEY * 2), 4001),
    "no subject": (lambda: token(sub=None), 4001),
    "an empty subject": (lambda: token(sub=""), 4001),
    "no expiry": (lambda: token(exp=None), 4001),
    "not yet valid": (lambda: token(nbf=int(time.time()) + 600), 4001),
    "an unknown key": (lambda: token(headers={"kid": "other"}), 4001),
    "expired": (lambda: token(exp=int(time.time()) - 600), 4002),
}


@pytest.mark.parametrize("name", bad)
def test_a_bad_token_has_its_close_code(hub, name):
    make, code = bad[name]
    with Client(hub, welcome=False) as mallory:
        mallory.send({"type": "connect", "id": 1, "token": make()})
        assert mallory.expect_close()[0] == code
        assert mallory.inbox == [] or mallory.inbox[0]["code"] in ("tokenInvalid", "tokenExpired")


@pytest.mark.parametrize("name", ["another key", "expired"])
def test_a_bad_token_in_the_header_never_gets_in(hub, name):
    make, code = bad[name]
    try:
        with Client(hub, token=make(), welcome=False) as mallory:
            assert mallory.expect_close()[0] == code
    except InvalidStatus as refused:
        assert refused.response.status_code == 401


@pytest.mark.parametrize(("header", "named"), [
    ("Basic YWxpY2U6c2VjcmV0", "Basic"), ("Digest username=secret", "Digest"), ("Bearer", None), ("bearer", None), ("YWxpY2U6c2VjcmV0", None),
    ("", None), ("a-scheme-of-many-letters secret", None),
])
def test_another_scheme_than_bearer_is_refused_by_its_name_and_never_with_its_secret(hub, header, named):
    """RFC 6750 §3, RFC 9110 §11.6.1"""
    for path in ("/v1/ws?user=alice", "/v1/sse?user=alice", "/v1/nodes"):
        link = http.client.HTTPConnection("127.0.0.1", hub.port, timeout=10)
        link.request("GET", path, headers={"Authorization": header, **UPGRADE} if "ws" in path else {"Authorization": header})
        answer = link.getresponse()
        error = json.loads(answer.read())["error"]
        assert (answer.status, answer.headers["WWW-Authenticate"], error["code"]) == (401, "Bearer", "unauthenticated"), path
        assert "Authorization: Bearer" in error["message"] and (named or "") in error["message"]
        assert not any(secret in error["message"] for secret in ("YWxp", "secret"))
        link.close()


@pytest.mark.parametrize("scheme", ["Bearer", "bearer", "BEARER", "bEaReR", "Bearer  "])
def test_a_scheme_is_compared_without_case(hub, scheme):
    """RFC 9110 §11.1"""
    link = http.client.HTTPConnection("127.0.0.1", hub.port, timeout=10)
    link.request("GET", "/v1/ws", headers={"Authorization": f"{scheme} {token()}", **UPGRADE})
    assert link.getresponse().status == 101
    link.close()


def test_an_expired_token_ends_a_live_connection(hub):
    with Client(hub, token=token(exp=int(time.time()) + 2)) as alice:
        assert alice.expect_close(seconds=20)[0] == 4002


def test_a_new_token_in_time_keeps_it(hub):
    with Client(hub, token=token(exp=int(time.time()) + 2)) as alice:
        assert alice.request("connect", token=token())["user"] == "alice"
        alice.gather(3)
        assert alice.request("subscribe", channel="room:still")["type"] == "ack"


def test_tokens_never_show_in_the_log(hub):
    secret = token(key="c" * 32)
    with Client(hub, welcome=False) as mallory:
        mallory.send({"type": "connect", "token": secret})
        mallory.expect_close()
    assert secret not in hub.log and KEY not in hub.log


def test_hubctl_mints_one_that_works(hub, folder):
    made = run("hubctl", "token", "--user", "dora", environment={"HUB_AUTH_SECRET": KEY})
    assert made.returncode == 0, made
    with Client(hub, token=made.stdout.strip()) as dora:
        assert dora.welcome["user"] == "dora"
