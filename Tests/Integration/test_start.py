"""Starting and stopping: flags, configuration, ports, Redis that isn't there."""

import json
import re
import signal
import time

import pytest

from client import Client, raw_socket
from hub import BINARIES, FAST, Hub, RedisServer, Process, eventually, free_port, request, run, status


@pytest.mark.parametrize(("flags", "named"), [
    (["--dve"], "--dev"),
    (["--listen"], "--listen"),
    (["--listen", "nowhere"], "nowhere"),
    (["--listen", "127.0.0.1:99999"], "99999"),
    (["--dev", "--redis", "http://x"], "redis"),
    (["--dev", "--set", "presence.graze=1s"], "presence.grace"),
    (["--dev", "--set", "presence.grace=fast"], "presence.grace"),
    (["--dev", "--set", "presence.lease=1s"], "presence.lease"),
    (["--dev", "--set", "nonsense"], "nonsense"),
    (["--config", "missing.json5"], "missing.json5"),
    (["surplus"], "surplus"),
])
def test_a_wrong_flag_or_setting_is_named_and_the_exit_code_is_2(flags, named):
    wrong = run("hubd", *flags)
    assert wrong.returncode == 2, wrong
    assert named in wrong.stderr + wrong.stdout


@pytest.mark.parametrize(("text", "named"), [
    ('{ presense: { grace: "1s" } }', "presence"),
    ('{ presence: { graze: "1s" } }', "grace"),
    ("{ presence: ", "config.json5"),
    ('{ limits: { messageBytes: "lots" } }', "limits.messageBytes"),
])
def test_a_wrong_configuration_file_is_named_with_what_was_meant(tmp_path, text, named):
    file = tmp_path / "config.json5"
    file.write_text(text)
    wrong = run("hubd", "--dev", "--config", file, "--check")
    assert wrong.returncode == 2, wrong
    assert named in wrong.stderr + wrong.stdout


def test_a_wrong_variable_is_named():
    wrong = run("hubd", "--dev", "--check", environment={"HUB_CFG_PRESENCE__GRAZE": "1s"})
    assert wrong.returncode == 2 and "HUB_CFG_PRESENCE__GRA" in wrong.stderr + wrong.stdout


def test_check_says_what_would_run_and_runs_nothing():
    told = run("hubd", "--dev", "--check", "--set", "presence.grace=7s", environment={"HUB_CFG_LIMITS__MESSAGE_BYTES": "32KB", "HUB_URL": "http://x", "HUB_PORT": "1"})
    assert told.returncode == 0, told
    assert "presence.grace" in told.stdout and "7s" in told.stdout


def test_version_and_help():
    assert re.search(r"hubd \d+\.\d+\.\d+", run("hubd", "--version").stdout)
    told = run("hubd", "--help")
    assert told.returncode == 0
    for flag in ("--config", "--listen", "--redis", "--node", "--dev", "--set", "--check", "--version", "--help"):
        assert flag in told.stdout


def test_a_taken_port_is_an_error_although_loops_share_theirs(start, tmp_path):
    first = start(Hub, settings={"loops": 2})
    second = run("hubd", "--dev", "--listen", first.address)
    assert second.returncode == 1, second
    assert str(first.port) in second.stderr + second.stdout
    assert status(f"{first.url}/readyz") == 200


def test_port_0_picks_a_port_and_says_which(start):
    hub = start(lambda folder: Process("hub", [BINARIES / "hubd", "--dev", "--listen", "127.0.0.1:0"], folder))
    port = eventually(lambda: re.search(r"127\.0\.0\.1:([1-9]\d*)", hub.log), what="the log names the port").group(1)
    eventually(lambda: status(f"http://127.0.0.1:{port}/readyz") == 200, what="the port that was named answers")


def test_outside_development_a_node_without_a_key_refuses_and_says_why():
    refused = run("hubd", "--listen", f"127.0.0.1:{free_port()}")
    assert refused.returncode == 2, refused
    assert "auth.keys" in refused.stderr + refused.stdout and "--dev" in refused.stderr + refused.stdout


def test_development_binds_loopback_only():
    refused = run("hubd", "--dev", "--listen", f"0.0.0.0:{free_port()}")
    assert refused.returncode == 2, refused
    assert "loopback" in refused.stderr + refused.stdout


def test_off_a_terminal_a_log_line_is_one_json_object(start):
    hub = start(Hub)
    with Client(hub, "alice"):
        pass
    assert hub.stop() == 0
    lines = hub.log.splitlines()
    # The one line on standard output is for people and scripts: where it listens.
    assert lines.pop(next(index for index, line in enumerate(lines) if line.startswith("hubd "))).endswith(hub.url)
    assert len(lines) >= 2
    for line in lines:
        assert isinstance(json.loads(line), dict)
    assert "descriptor" in hub.log


def test_sigterm_closes_in_order_and_ends_with_0(start):
    hub = start(Hub)
    clients = [Client(hub, f"user{number}") for number in range(20)]
    began = time.monotonic()
    hub.signal(signal.SIGTERM)
    for client in clients:
        assert client.expect_close()[0] == 1001
    assert hub.wait() == 0
    assert time.monotonic() - began < 9, "everyone had left: no reason to wait for the deadline"


def test_sigterm_ends_although_a_client_never_answers(start):
    hub = start(Hub, settings={"deadlines.close": "500ms", "deadlines.shutdown": "2s"})
    with raw_socket(hub):
        hub.signal(signal.SIGTERM)
        assert hub.wait() == 0


def test_an_unreachable_redis_at_start_is_waited_for(start):
    port = free_port()
    hub = start(Hub, redis=f"redis://127.0.0.1:{port}", settings=FAST, ready=False)
    eventually(lambda: status(f"{hub.url}/healthz") == 200, what="alive without Redis")
    assert status(f"{hub.url}/readyz") == 503
    eventually(lambda: str(port) in hub.log, what="the log names the Redis that doesn't answer")
    start(RedisServer, port=port)
    hub.wait_ready()
    with Client(hub, "alice") as alice:
        alice.subscribe("room:late")
        alice.chat("room:late", "there at last")
        assert alice.expect(type="chat")["payload"] == {"text": "there at last"}


def test_ready_follows_redis_and_clients_stay(start):
    redis = start(RedisServer)
    hub = start(Hub, redis=redis.url, settings=FAST)
    with Client(hub, "alice") as alice:
        alice.subscribe("room:away")
        redis.kill()
        eventually(lambda: status(f"{hub.url}/readyz") == 503, what="not ready without Redis")
        assert status(f"{hub.url}/healthz") == 200
        start(RedisServer, port=redis.port)
        hub.wait_ready()

        def published():
            return alice.try_request("chat", channel="room:away", payload={"text": "back"})["type"] == "ack"

        eventually(published, what="publishing works again")
        alice.expect(type="chat")
