"""Every algorithm in both directions with PyJWT, hostile tokens over the wire, and key sets that change under a running node."""

import http.server
import json
import os
import socket
import subprocess
import threading
import time

import jwt
import pytest
from websockets.exceptions import InvalidStatus

from client import Client
from hub import BINARIES, Hub, eventually, run, running
from tokens import EVERYTHING, SECRET, Key, encoded, mint

ALGORITHMS = ["HS256", "HS384", "HS512", "RS256", "PS256", "ES256", "ES384", "EdDSA"]


@pytest.fixture(scope="module")
def keys():
    return {algorithm: Key(algorithm) for algorithm in ALGORITHMS}


@pytest.fixture(scope="module")
def hub(folder, keys):
    entries = []
    for algorithm, key in keys.items():
        file = folder / f"{algorithm}.pem"
        file.write_text(key.public)
        file.chmod(0o600)
        entries.append({"kid": algorithm, "alg": algorithm, "file": str(file)})
    config = folder / "algorithms.json5"
    config.write_text(json.dumps({"auth": {"keys": entries, "audience": ["hub"], "issuer": "https://id.example"}}))
    with running(Hub(folder, dev=False, config=config)) as node:
        yield node


PARTIES = {"aud": ["other", "hub"], "iss": "https://id.example"}


def answer(hub, token):
    """The status that a token in the header gets."""
    try:
        with Client(hub, token=token, welcome=False):
            return 101
    except InvalidStatus as refused:
        return refused.response.status_code


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_what_pyjwt_signed_names_the_user(hub, keys, algorithm):
    token = keys[algorithm].token("alice", headers={"kid": algorithm}, **PARTIES)
    with Client(hub, token=token) as alice:
        assert alice.welcome["user"] == "alice" and alice.welcome["tokenExpires"] > time.time() * 1000
    with Client(hub, welcome=False) as alice:
        alice.send({"type": "connect", "id": 1, "token": keys[algorithm].token("alice", **PARTIES)})
        assert alice.expect(type="ack", id=1)["user"] == "alice"


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_what_hubctl_signed_pyjwt_takes_and_so_does_the_hub(hub, keys, folder, algorithm):
    file = folder / f"private-{algorithm}.pem"
    file.write_text(keys[algorithm].private)
    file.chmod(0o600)
    made = run(
        "hubctl", "token", "--user", "zoë", "--alg", algorithm, "--key-file", file, "--kid", algorithm, "--ttl", "5m", "--issuer",
        PARTIES["iss"], "--audience", "hub", "--id", "t-1", "--allow", "room:*=subscribe,publish", "--allow", "user:*=watch", "--channel", "news")
    assert made.returncode == 0, made
    token = made.stdout.strip()
    claims = jwt.decode(token, keys[algorithm].public, [algorithm], audience="hub", issuer=PARTIES["iss"])
    assert claims["sub"] == "zoë" and claims["exp"] == claims["iat"] + 300 and claims["jti"] == "t-1"
    assert claims["caps"] == {"room:*": ["subscribe", "publish"], "user:*": ["watch"]} and claims["channels"] == ["news"]
    assert jwt.get_unverified_header(token) == {"alg": algorithm, "typ": "JWT", "kid": algorithm}
    with Client(hub, token=token) as zoe:
        assert "news" in zoe.welcome["channels"]
        zoe.subscribe("room:1")


def test_inspect_says_what_a_token_says_and_whether_it_holds(keys, folder):
    token = keys["ES256"].token("alice", jti="t-2")
    file = folder / "inspect.pem"
    file.write_text(keys["ES256"].public)

    def inspect(text, *flags):
        return subprocess.run(
            [BINARIES / "hubctl", "token", "inspect", *flags], input=text, capture_output=True, text=True, timeout=30)

    shown = inspect(token + "\n", "--alg", "ES256", "--key-file", str(file))
    assert shown.returncode == 0 and '"jti":"t-2"' in shown.stdout.replace(" ", "") and "signature: good" in shown.stdout, shown
    assert "not checked" in inspect(token).stdout
    other = inspect(keys["ES384"].token("alice"), "--alg", "ES256", "--key-file", str(file))
    assert other.returncode == 1 and "signature" in other.stderr
    assert inspect("nonsense").returncode == 1
    # A token isn't taken from the arguments, where ps shows it.
    assert inspect("", token).returncode == 2


def test_inspect_goes_by_the_variable_that_minting_goes_by():
    environment = {**os.environ, "HUB_AUTH_SECRET": SECRET}

    def run(text, *words):
        return subprocess.run(
            [BINARIES / "hubctl", "token", *words], input=text, capture_output=True, text=True, timeout=60, env=environment)

    good = run("", "--user", "alice")
    assert good.returncode == 0, good
    shown = run(good.stdout, "inspect")
    assert shown.returncode == 0 and "signature: good" in shown.stdout, shown
    # Hubs refuse it unless they're told otherwise; whoever inspects it hears that as whoever mints it does.
    long = run("", "--user", "alice", "--ttl", "50d")
    shown = run(long.stdout, "inspect")
    assert shown.returncode == 0 and "signature: good" in shown.stdout and "longer than 30 days" in shown.stderr, shown
    assert "longer than 30 days" in long.stderr and run(good.stdout, "inspect").stderr == ""
    wrong = run(good.stdout.strip() + "x", "inspect")
    assert wrong.returncode == 1 and "signature: good" not in wrong.stdout, wrong


@pytest.mark.parametrize("flags, word", [
    (("--user", "api:pub"), "kept for API keys"), (("--user", "u" * 251), "1 to 250 bytes"), (("--user", "a", "--allow", "room:**=subscribe"), "caps"),
    (("--user", "a", "--allow", "room:*=fly"), "caps"), (("--user", "a", "--channel", "c:1", "--channel", "c:1"), "channels"),
    (("--user", "a", "--ttl", "400d"), "life")])
def test_no_token_is_minted_that_hubs_refuse(flags, word):
    made = subprocess.run(
        [BINARIES / "hubctl", "token", *flags], capture_output=True, text=True, timeout=60, env={**os.environ, "HUB_AUTH_SECRET": SECRET})
    assert made.returncode == 2 and word in made.stderr and made.stdout == "", made


# RFC 7519, 7515 and 8725: each row with its source. What makes the token gets the keys.
hostile = {
    "alg none, RFC 8725 §2.1": lambda k: f"{encoded({'alg': 'none'})}.{encoded({'sub': 'a', 'exp': 2**40, **PARTIES})}.",
    "alg none in other letters, RFC 8725 §2.1": lambda k: f"{encoded({'alg': 'nOnE'})}.{encoded({'sub': 'a', 'exp': 2**40, **PARTIES})}.",
    "alg none with a signature, RFC 7519 §6": lambda k: f"{encoded({'alg': 'none'})}.{k['HS256'].token(**PARTIES).split('.', 1)[1]}",
    "no signature, RFC 7515 §5.2": lambda k: k["RS256"].token(**PARTIES).rsplit(".", 1)[0] + ".",
    "HMAC by the RSA key's text, RFC 8725 §2.1": lambda k: confused(k["RS256"].public, "RS256"),
    "HMAC by the EC key's text, RFC 8725 §2.1": lambda k: confused(k["ES256"].public, "ES256"),
    "HMAC by nothing, RFC 8725 §2.2": lambda k: confused("", "HS256"),
    "RS256 for a PS256 key, RFC 8725 §3.1": lambda k: Key.token(renamed(k["PS256"], "RS256"), headers={"kid": "PS256"}, **PARTIES),
    "HS512 for an HS256 key, RFC 8725 §3.1": lambda k: mint(algorithm="HS512", headers={"kid": "HS256"}, **PARTIES),
    "another curve, RFC 8725 §3.4": lambda k: Key("ES384").token(headers={"kid": "ES256"}, **PARTIES),
    "another key of the same kind, RFC 7515 §5.2": lambda k: Key("EdDSA").token(headers={"kid": "EdDSA"}, **PARTIES),
    "an unknown kid, RFC 8725 §3.10": lambda k: mint(headers={"kid": "../../dev/null"}, **PARTIES),
    "a key in the header, RFC 7515 §4.1.3": lambda k: with_own_key(),
    "a key's address in the header, RFC 8725 §3.10": lambda k: Key("RS256").token(headers={"jku": "http://127.0.0.1:1/keys"}, **PARTIES),
    "crit, RFC 7515 §4.1.11": lambda k: mint(headers={"crit": ["b64"], "b64": True}, **PARTIES),
    "encrypted, five parts, RFC 7516 §3.1": lambda k: f"{encoded({'alg': 'dir', 'enc': 'A128GCM'})}..{encoded('iv')}.{encoded('text')}.{encoded('tag')}",
    "padding, RFC 7515 §2": lambda k: mint(**PARTIES) + "=",
    "white space, RFC 7515 §5.2": lambda k: mint(**PARTIES).replace(".", ". ", 1),
    "a token within a token, RFC 8725 §3.4": lambda k: signed_text(mint(**PARTIES)),
    "claims that are a list, RFC 7519 §7.2": lambda k: signed_text("[]"),
    "claims named twice, RFC 7519 §4": lambda k: signed_text('{"sub":"a","sub":"root","exp":%d,"aud":"hub","iss":"https://id.example"}' % (time.time() + 60)),
    "claims that aren't UTF-8, RFC 7519 §7.2": lambda k: signed_bytes(b'{"sub":"\xff\xfe","exp":2000000000}'),
    "no sub": lambda k: mint(None, **PARTIES),
    "no exp, RFC 8725 §3.1": lambda k: mint(exp=None, **PARTIES),
    "exp as text, RFC 7519 §2": lambda k: signed_text('{"sub":"a","exp":"2000000000","aud":"hub","iss":"https://id.example"}'),
    "exp 1e400": lambda k: signed_text('{"sub":"a","exp":1e400,"aud":"hub","iss":"https://id.example"}'),
    "exp 2^64": lambda k: signed_text('{"sub":"a","exp":18446744073709551616,"aud":"hub","iss":"https://id.example"}'),
    "exp in a hundred years, past every revocation": lambda k: mint(seconds=100 * 365 * 86_400, **PARTIES),
    "expired, RFC 7519 §4.1.4": lambda k: mint(seconds=-300, **PARTIES),
    "not before in ten minutes, RFC 7519 §4.1.5": lambda k: mint(nbf=int(time.time()) + 600, **PARTIES),
    "issued in ten minutes, RFC 7519 §4.1.6": lambda k: mint(seconds=1200, iat=int(time.time()) + 600, **PARTIES),
    "no audience, RFC 8725 §3.9": lambda k: mint(iss=PARTIES["iss"]),
    "another audience, RFC 7519 §4.1.3": lambda k: mint(iss=PARTIES["iss"], aud="billing"),
    "another issuer, RFC 8725 §3.8": lambda k: mint(aud="hub", iss="https://id.example.evil"),
    "a thousand levels": lambda k: signed_text('{"sub":"a","x":' + "[" * 1000 + "]" * 1000 + "}"),
    "a pattern that would backtrack": lambda k: mint(caps={"*" * 200: ["*"]}, **PARTIES),
    "a right that isn't one": lambda k: mint(caps={"room:*": ["own"]}, **PARTIES),
    "an empty text": lambda k: "",
    "dots alone": lambda k: "..",
    "6 KB of rubbish": lambda k: "A" * 6000,
}


def renamed(key, algorithm):
    other = Key.__new__(Key)
    other.algorithm, other.private = algorithm, key.private
    return other


def signed_text(text):
    return signed_bytes(text.encode())


def signed_bytes(payload):
    return jwt.PyJWS().encode(payload, SECRET, "HS256", headers={"kid": "HS256"})


def confused(text, kid):
    import hashlib
    import hmac

    signed = f"{encoded({'alg': 'HS256', 'kid': kid})}.{encoded({'sub': 'root', 'exp': int(time.time()) + 60, **PARTIES})}"
    return f"{signed}.{encoded(hmac.digest(text.encode(), signed.encode(), hashlib.sha256))}"


def with_own_key():
    key = Key("ES256")
    return key.token(headers={"jwk": key.jwk("mine")}, **PARTIES)


@pytest.mark.parametrize("name", hostile)
def test_a_hostile_token_is_refused_in_both_places(hub, keys, name):
    token = hostile[name](keys)
    code = 4002 if name.startswith("expired") else 4001
    if token:
        assert answer(hub, token) == (401 if len(token) < 8000 else 431)
    with Client(hub, welcome=False) as mallory:
        mallory.send({"type": "connect", "id": 1, "token": token})
        assert mallory.expect_close()[0] == code
        refusal = mallory.inbox[0]
        assert refusal["code"] in ("tokenInvalid", "tokenExpired", "malformed") and refusal["retry"] is False
        assert SECRET not in json.dumps(refusal) and (not token or token not in refusal["message"])
    assert hub.is_running and (len(token) < 20 or token not in hub.log)


def test_a_token_longer_than_any_is_refused_before_the_work(hub):
    with Client(hub, welcome=False) as mallory:
        mallory.send({"type": "connect", "id": 1, "token": mint(x="y" * 20_000, **PARTIES)})
        assert mallory.expect_close()[0] == 4001


# In the URL

def test_a_token_in_the_url_counts_only_where_that_is_switched_on(start):
    settings = {"auth.keys": '[{"alg":"HS256","secret":"%s"}]' % SECRET}
    closed = start(Hub, dev=False, settings=settings)
    token = mint("alice", caps=EVERYTHING)
    with pytest.raises(InvalidStatus) as refused:
        Client(closed, path=f"/v1/ws?token={token}&x=")
    assert refused.value.response.status_code == 401
    opened = start(Hub, name="open", dev=False, settings={**settings, "auth.queryToken": "true"})
    with Client(opened, path=f"/v1/ws?token={token}&x=") as alice:
        assert alice.welcome["user"] == "alice"
    assert token not in opened.log and token not in closed.log


# Key sets

class KeyServer:
    """Serves a key set that the test may change; counts who asks."""

    def __init__(self):
        server = self
        self.keys, self.asked, self.status = [], 0, 200

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                server.asked += 1
                body = json.dumps({"keys": server.keys}).encode()
                self.send_response(server.status)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_):
                pass

        self.http = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.http.server_port}/keys"
        threading.Thread(target=self.http.serve_forever, daemon=True).start()

    def stop(self):
        self.http.shutdown()
        self.http.server_close()


@pytest.fixture
def server():
    server = KeyServer()
    yield server
    server.stop()


def test_a_key_set_is_fetched_and_a_new_key_is_found_by_the_first_token_that_names_it(start, server):
    first, second = Key("ES256"), Key("RS256")
    server.keys = [first.jwk("first")]
    hub = start(Hub, dev=False, settings={"auth.jwks.url": server.url, "auth.jwks.interval": "1s", "auth.jwks.refresh": "1h"})
    hub.expect_log("keys.read")
    eventually(lambda: answer(hub, first.token(headers={"kid": "first"})) == 101, 15, "the first key is taken")
    server.keys = [second.jwk("second")]
    token = second.token(headers={"kid": "second"})
    # Not "invalid", which would stop its client for good: the set is being read.
    assert answer(hub, token) in (503, 101)
    eventually(lambda: answer(hub, token) == 101, 15, "the second key is taken")
    assert answer(hub, first.token(headers={"kid": "first"})) != 101, "the first one was taken back"


def test_unknown_keys_cause_one_reading_in_an_interval_however_many_come(start, server):
    key = Key("EdDSA")
    server.keys = [key.jwk("main")]
    hub = start(Hub, dev=False, settings={"auth.jwks.url": server.url, "auth.jwks.interval": "10m", "auth.jwks.refresh": "1h"})
    eventually(lambda: answer(hub, key.token(headers={"kid": "main"})) == 101, 15)
    asked = server.asked
    answers = {answer(hub, key.token(headers={"kid": f"x{number}"})) for number in range(30)}
    assert answers == {503} and server.asked == asked, "nobody has looked for them yet"


def test_a_key_that_was_looked_for_and_is_not_there_makes_the_token_invalid(start, server):
    key = Key("EdDSA")
    server.keys = [key.jwk("main")]
    hub = start(Hub, dev=False, settings={"auth.jwks.url": server.url, "auth.jwks.interval": "500ms", "auth.jwks.refresh": "1h"})
    hub.expect_log("keys.read")
    token = key.token(headers={"kid": "never"})
    with Client(hub, welcome=False) as client:
        client.send({"type": "connect", "id": 1, "token": token})
        code, reason = client.expect_close()
        assert (code == 1013 and int(reason.split()[0]) >= 1000) or code == 4001
    eventually(lambda: answer(hub, token) == 401, 15)
    with Client(hub, welcome=False) as client:
        client.send({"type": "connect", "id": 1, "token": token})
        assert client.expect_close()[0] == 4001


def test_keys_count_on_while_their_place_fails_and_a_bad_set_changes_nothing(start, server):
    key = Key("PS256")
    server.keys = [key.jwk("main")]
    hub = start(Hub, dev=False, settings={"auth.jwks.url": server.url, "auth.jwks.interval": "300ms", "auth.jwks.refresh": "1s"})
    token = key.token(headers={"kid": "main"})
    eventually(lambda: answer(hub, token) == 101, 15)
    server.status = 500
    hub.expect_log("keys.unreadable")
    assert answer(hub, token) == 101
    server.status, server.keys = 200, [{"kty": "oct", "k": "AAAA"}]
    hub.expect_log("holds no key")
    assert answer(hub, token) == 101
    assert answer(hub, key.token(headers={"kid": "new"})) == 503, "nobody can say that there's no such key"


def test_a_key_set_in_a_file_is_read_again(start, tmp_path):
    first, second = Key("ES384"), Key("EdDSA")
    file = tmp_path / "keys.json"
    file.write_text(json.dumps({"keys": [first.jwk("first")]}))
    hub = start(Hub, dev=False, settings={"auth.jwks.file": str(file), "auth.jwks.interval": "1s", "auth.jwks.refresh": "1s"})
    eventually(lambda: answer(hub, first.token(headers={"kid": "first"})) == 101, 15)
    file.write_text(json.dumps({"keys": [first.jwk("first"), second.jwk("second")]}))
    eventually(lambda: answer(hub, second.token(headers={"kid": "second"})) == 101, 15)


@pytest.mark.parametrize("settings, words", [
    ({"auth.jwks.url": "http://keys.example/"}, "https"), ({"auth.jwks.url": "ftp://keys.example/"}, "auth.jwks.url"),
    ({"auth.jwks.url": "https://keys.example/", "auth.jwks.file": "/x"}, "one of them"),
    ({"auth.keys": '[{"alg":"RS256","secret":"text"}]'}, "PEM"), ({"auth.keys": '[{"alg":"none","secret":"text"}]'}, "auth.keys[0].alg"),
    ({"auth.keys": '[{"alg":"HS512","secret":"%s"}]' % ("x" * 63)}, "64 bytes"),
    ({"namespaces.room.rights": "subscribe,own"}, "namespaces.room.rights"),
])
def test_keys_and_rights_that_make_no_sense_stop_the_start(settings, words):
    flags = [f"--set={key}={value}" for key, value in settings.items()]
    refused = run("hubd", "--check", *flags)
    assert refused.returncode == 2 and words in refused.stderr + refused.stdout, refused
