"""HS256 tokens, made by somebody else's library."""

import time

import jwt
import pytest
from websockets.exceptions import InvalidStatus

from client import Client
from hub import Hub, run, running

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
