"""A secret that is used everywhere is found nowhere: in no log, no metric, no answer, no close reason, no list of processes (field-faults B52)."""

import json
import pathlib
import re
import signal
import subprocess
import time
import urllib.parse

import pytest
from backend import Backend
from websockets.exceptions import ConnectionClosed, InvalidStatus

from client import Client
from hooks import Receiver
from hub import BINARIES, Hub, RedisServer, eventually, request, run, running
from tokens import mint

MARKER = "m4rk3r0f5ecre7s"
SECRET, API_KEY, REDIS, ASK, HOOK, PATH = (
    f"{MARKER}-{what}-which-is-long-enough-for-any-key" for what in ("signing", "api", "redis", "ask", "hook", "path"))


class Seen:
    """Everything that came back from anywhere, and the texts that mustn't be in it."""

    def __init__(self):
        self.texts, self.forbidden = [], {"the marker": MARKER}

    def add(self, what, text):
        self.texts.append((what, text if isinstance(text, str) else json.dumps(text)))

    def token(self, text):
        """A token's signature is as good as the token."""
        self.forbidden[f"a token ({len(self.forbidden)})"] = text.rsplit(".", 1)[-1] or text
        return text

    def judge(self):
        found = [(name, what) for what, text in self.texts for name, secret in self.forbidden.items() if secret in text]
        assert not found, found
        assert len(self.texts) > 20 and len(self.forbidden) > 8


def arguments_of(process):
    return pathlib.Path(f"/proc/{process}/cmdline").read_bytes().decode()


def listed():
    """The command lines of all processes."""
    for path in pathlib.Path("/proc").glob("[0-9]*/cmdline"):
        try:
            yield path.read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            pass


@pytest.fixture
def nodes(tmp_path):
    redis = RedisServer(tmp_path)
    # It answers with the marker, too, where nobody may see it.
    backend = Backend()
    backend.answer = lambda question: {"allow": not question.get("refresh"), "code": MARKER, "later": MARKER}
    with running(redis):
        assert redis.command("CONFIG", "SET", "requirepass", REDIS) == "+OK"
        signing = tmp_path / "signing.key"
        signing.write_text(SECRET)
        signing.chmod(0o600)
        hook = tmp_path / "hook.key"
        hook.write_text(HOOK)
        hook.chmod(0o600)
        receiver = Receiver(secrets=(HOOK,))
        receiver.status = lambda body: 500
        config = tmp_path / "hub.json5"
        config.write_text(json.dumps({
            "hooks": {"url": receiver.url + "/" + PATH, "secret": [{"file": str(hook)}], "retryMax": "1s"},
            "redis": {"url": redis.url}, "log": {"level": "debug"}, "namespaces": {"*": {"rights": ["*"]}},
            "auth": {"keys": [{"kid": "k", "alg": "HS256", "file": str(signing)}], "queryToken": True, "origins": ["https://app.example"]},
            "ask": {"secret": [{"env": "ASK_SECRET"}], "connect": {"url": f"{backend.url('connect')}&x={MARKER}"}},
            "api": {"keys": [{"id": "ops", "env": "OPS_KEY", "scopes": ["admin"]}]}}))
        environment = {"OPS_KEY": API_KEY, "ASK_SECRET": ASK, "HUB_CFG_REDIS__PASSWORD": REDIS}
        hubs = [Hub(tmp_path, name=name, dev=False, config=config, environment=environment) for name in ("one", "two")]
        with running(*hubs):
            yield hubs, config, environment, signing, receiver
        receiver.stop()
    backend.stop()
    assert backend.questions


def test_a_secret_that_is_used_everywhere_is_found_nowhere(nodes):
    hubs, config, environment, signing, receiver = nodes
    one, two = hubs
    seen = Seen()

    def good(**claims):
        return seen.token(mint("alice", key=SECRET, headers={"kid": "k"}, **claims))

    def connect(hub, **options):
        """Whatever comes of it is seen."""
        try:
            with Client(hub, welcome=False, **options) as client:
                seen.add("messages", client.gather(0.2))
        except InvalidStatus as refused:
            seen.add("refusal", f"{refused.response.headers} {refused.response.body.decode()}")

    bad = {
        "good": good(), "another key": seen.token(mint(key="x" * 40)), "expired": good(exp=int(time.time()) - 900), "a marker alone": seen.token(f"{MARKER}.{MARKER}.{MARKER}"),
        "no algorithm": seen.token(f"e30.{MARKER}.c2lnbmF0dXJlLW9mLW5vYm9keQ"), "wrong claims": good(caps={"**": [MARKER]}), "an audience": good(aud=MARKER), "revoked": good(jti=f"{MARKER}-id"),
    }
    for hub in hubs:
        for token in bad.values():
            connect(hub, token=token)
            connect(hub, path=f"/v1/ws?token={urllib.parse.quote(token)}&x=")
            for text in (json.dumps({"type": "connect", "id": 1, "token": token}), '{"type":"connect","token":"%s' % token, '{"type":"connect","id":2,"token":["%s"]}' % token,
                         # An unknown type is quoted to its sender, in 40 bytes: of a token that's the header.
                         token, json.dumps({"type": "." * 40 + token, "id": 3})):
                with Client(hub, welcome=False) as client:
                    client.send_raw(text)
                    try:
                        seen.add("messages", client.gather(0.15))
                    except ConnectionClosed as closed:
                        seen.add("close", f"{closed} {client.inbox}")
        with Client(hub, token=good()) as alice:
            for token in bad.values():
                seen.add("refresh", alice.try_request("connect", token=token))
        for key in (API_KEY, API_KEY + "x", MARKER):
            seen.add("api", str(request(f"{hub.url}/v1/presence/alice", key=key)))
            seen.add("api", str(request(f"{hub.url}/v1/presence/bob?token={key}", key=key)))
            seen.add("api", str(request(f"{hub.url}/v1/publish", method="POST", key=key, body=b'{"channel":')))
            seen.add("api", str(request(f"{hub.url}/{key}")))
        seen.add("metrics", str(request(f"{hub.url}/metrics", key=API_KEY)[2]))
        seen.add("revocation", request(f"{hub.url}/v1/users/alice/disconnect", method="POST", body={}, key=API_KEY)[2])
        with pytest.raises(InvalidStatus) as refused:
            Client(hub, token=MARKER)
        seen.add("refusal", refused.value.response.body.decode())

    for flags in ([], ["--set", "auth.keys=[{secret:'%s'},{secret:'%s'}]" % (SECRET, SECRET[:9])], ["--set", f"redis.url=redis://u:{REDIS}@"]):
        checked = run("hubd", "--check", "--config", config, *flags, environment=environment)
        seen.add("check", checked.stdout + checked.stderr)
    minted = run("hubctl", "token", "--user", "alice", "--key-file", signing)
    seen.token(minted.stdout.strip())
    seen.add("hubctl", minted.stderr)
    for arguments, key in ((["presence", "alice"], API_KEY), (["presence", "alice"], MARKER), (["nodes"], API_KEY), (["publish", "room:1", "hi"], MARKER)):
        done = run("hubctl", *arguments, environment={"HUB_URL": one.url, "HUB_API_KEY": key})
        seen.add("hubctl", done.stdout + done.stderr)
    follower = subprocess.Popen(
        [BINARIES / "hubctl", "subscribe", "room:1"], env={"HUB_URL": two.url, "HUB_API_KEY": API_KEY, "PATH": "/usr/bin"}, stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT, text=True)
    time.sleep(0.5)
    seen.add("ps", "\n".join(line for line in listed() if "hubd" in line or "hubctl" in line))
    follower.terminate()
    seen.add("hubctl", follower.communicate(timeout=10)[0])

    # The receiver's address is a secret too, in what follows the host. It refused everything up to here; what it gets is signed, and no more.
    eventually(lambda: any("hooks.failing" in hub.log for hub in hubs), 30, "a failing receiver is logged")
    receiver.status = lambda body: 204
    eventually(lambda: receiver.types("alice"), 60, "what is told is told")
    assert not receiver.refused
    for _, headers, body, _ in receiver.requests:
        seen.add("webhook", f"{headers} {body}")

    for hub in hubs:
        assert hub.is_running
        eventually(lambda hub=hub: "security.badToken" in hub.log, 10)
        hub.stop()
        seen.add(f"log of {hub.name}", hub.log)
    seen.judge()


ARGUED = [
    ("--set", "auth.keys=[{secret:'%s'}]" % SECRET), ("--set=auth.keys=[{secret:'%s'}]" % SECRET,), ("--set", f"hooks.url=http://127.0.0.1:9/{PATH}", "--set", f"hooks.secret={HOOK}"),
    ("--set=ask.publish.url=http://127.0.0.1:9/?key=%s" % PATH, "--set", f"ask.secret={ASK}"),
    ("--set", f"auth.jwks.url=http://127.0.0.1:9/{PATH}"),
]


@pytest.mark.parametrize("flags", ARGUED, ids=range(len(ARGUED)))
def test_a_secret_among_hubd_s_arguments_is_gone_from_proc_once_it_runs_and_is_warned_about(start, flags):
    hub = start(Hub, *flags)
    shown = arguments_of(hub.process.pid)
    assert MARKER not in shown and "hubd" in shown and "--node" in shown and hub.address in shown, shown
    # Paths of addresses aren't shown, but are no secret in most: the others are worth a word.
    if "hooks.url" not in flags[-1] and "jwks" not in flags[-1]:
        assert "ps shows arguments to every user" in hub.log
    assert MARKER not in hub.log


def test_the_password_of_a_redis_is_gone_from_proc_too_and_reloads_still_know_it(start):
    redis = start(RedisServer)
    assert redis.command("CONFIG", "SET", "requirepass", REDIS) == "+OK"
    for flags in (("--redis", f"redis://:{REDIS}@127.0.0.1:{redis.port}"), (f"--redis=redis://:{REDIS}@127.0.0.1:{redis.port}",),
                  ("--set", f"redis.url=redis://:{REDIS}@127.0.0.1:{redis.port}"), ("--set", f"redis.url=redis://127.0.0.1:{redis.port}", "--set", f"redis.password={REDIS}")):
        hub = start(Hub, *flags)
        assert MARKER not in arguments_of(hub.process.pid)
        hub.signal(signal.SIGHUP)
        hub.expect_log("configuration.reloaded")
        assert "nothing changed" in hub.log and MARKER not in hub.log
        hub.stop()
    # An address without one stays readable.
    plain = start(RedisServer)
    assert plain.url in arguments_of(start(Hub, redis=plain.url).process.pid)


def test_hub_swarm_s_redis_keeps_its_password_from_proc(start):
    redis = start(RedisServer)
    assert redis.command("CONFIG", "SET", "requirepass", REDIS) == "+OK"
    hub = start(Hub, redis=f"redis://:{REDIS}@127.0.0.1:{redis.port}")
    swarm = subprocess.Popen(
        [BINARIES / "hub-swarm", "--url", hub.url, "--bots", "2", "--rooms", "1", "--seconds", "3", "--rate", "5", "--hub-pid", str(hub.process.pid),
         "--redis", f"redis://:{REDIS}@127.0.0.1:{redis.port}"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    try:
        eventually(lambda: "********" in arguments_of(swarm.pid), 10)
        assert MARKER not in arguments_of(swarm.pid)
        assert swarm.wait(40) == 0, swarm.stdout.read()
    finally:
        swarm.kill()
        swarm.communicate()


def test_no_program_of_ours_takes_a_key_as_an_argument():
    """What a program can't be given can't be shown: hubctl and hub-swarm know files and variables alone."""
    for program, commands in (("hubctl", ([], ["token"], ["publish"], ["revoke"])), ("hub-swarm", ([], ["run"], ["find"]))):
        for command in commands:
            text = run(program, *command, "--help").stdout
            flags = set(re.findall(r"--[a-z-]+", text))
            assert not flags & {"--key", "--secret", "--api-key", "--token-key", "--password", "--token"} - ({"--token"} if command == ["revoke"] else set()), (program, flags)


def test_a_key_file_that_others_may_read_is_warned_about_by_both_programs(start, tmp_path):
    key = tmp_path / "key"
    key.write_text(API_KEY)
    hub = start(Hub)
    for mode, isOpen in ((0o600, False), (0o400, False), (0o640, True), (0o604, True), (0o644, True), (0o620, True)):
        key.chmod(mode)
        told = run("hubctl", "--url", hub.url, "nodes", "--api-key-file", key)
        minted = run("hubctl", "token", "--user", "ann", "--key-file", key)
        checked = run("hubd", "--check", "--set", "auth.keys=[{file:'%s'}]" % key)
        for done in (told, minted, checked):
            assert (f"mode 0{mode:o}" in done.stderr) == isOpen and ("chmod 600" in done.stderr) == isOpen, (mode, done)
            assert str(key) in done.stderr or not isOpen
            assert MARKER not in done.stderr + done.stdout.replace(minted.stdout, "")
        assert minted.returncode == 0 and checked.returncode == 0 and told.returncode == 0, (told, minted, checked)
    # Through a link it's the file that counts; a folder is none.
    link = tmp_path / "link"
    link.symlink_to(key)
    assert "chmod 600" in run("hubctl", "token", "--user", "ann", "--key-file", link).stderr
    assert run("hubctl", "token", "--user", "ann", "--key-file", tmp_path).returncode != 0
    # The running node says so in its log.
    key.chmod(0o644)
    loud = start(Hub, dev=False, name="loud", settings={"auth.keys": "[{file:'%s'}]" % key})
    assert "configuration.warning" in loud.log and "chmod 600" in loud.log
