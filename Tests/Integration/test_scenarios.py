"""hub-swarm run: scenarios against real nodes, in every format, and what keeps one from starting."""

import json
import signal
import subprocess

import pytest

from certificates import Certificate, secure_settings
from hub import BINARIES, Hub, RedisServer, eventually, free_port, run

# A small day with everything in it.
DAY = [
    "users=40", "devices=[2, 1]", "rampUp=2s", "warmUp=1s", "steady=10s", "coolDown=5s", "rooms.count=8", "rooms.joined=2", "talk.every=2s",
    "talk.typing=500ms", "session.length=20s", "session.pause=1s", "read.every=2s", "away.every=6s", "away.for=1s", "roster.users=5",
    "loss.every=8s", "loss.for=1s", "sleep.every=10s", "sleep.for=2s",
]


def swarm(hub, scenario, *flags, settings=(), timeout=120, environment=None):
    told = run(
        "hub-swarm", "run", scenario, *(["--url", hub if isinstance(hub, str) else hub.url] if hub else []), "--json", "--seed", 1796, *flags,
        *[word for setting in settings for word in ("--set", setting)], timeout=timeout, environment=environment)
    return told, json.loads(told.stdout) if told.stdout.startswith("{") else None


def good(told, report):
    assert told.returncode == 0, f"{told.stdout}\n{told.stderr}"
    assert report["ok"] and report["violations"] == {}, report
    return report


@pytest.fixture(scope="module")
def hub(folder):
    hub = Hub(folder)
    yield hub
    hub.kill()


@pytest.mark.parametrize("flags", [
    (), ("--deflate",), ("--format", "msgpack"), ("--format", "short"), ("--format", "short", "--deflate")], ids=" ".join)
def test_a_day_of_people_is_judged_clean_in_every_format(hub, flags):
    agreed = hub.metric("hub_deflate_agreed_total")
    report = good(*swarm(hub, "chat", *flags, settings=[*DAY, "talk.size=600"]))
    if "--deflate" in flags:
        # Each connection agreed, and each that came back.
        eventually(lambda: hub.metric("hub_deflate_agreed_total") - agreed >= report["bots"])
    assert report["bots"] > 40 and report["joined"] == report["bots"]
    assert report["latencies"]["chat"]["count"] > 200
    for lane in ("ack", "connect", "recover", "presence", "typing"):
        assert report["latencies"][lane]["count"] > 0, lane
    counters = report
    assert counters["checked"] > 0 and counters["recovered"] > 0 and counters["readsSent"] > 0 and counters["reconnects"] > 0
    assert counters["presenceTold"] > 0 and counters["ephemeralJudged"] > 0


@pytest.mark.parametrize("name", ["chat", "presence", "broadcast", "herd", "hostile"])
def test_each_of_the_five_scenarios_runs_on_two_nodes(start, name):
    redis = start(RedisServer)
    nodes = [start(Hub, name=node, redis=redis.url) for node in ("one", "two")]
    small = ["users=60", "rampUp=2s", "warmUp=1s", "steady=12s", "coolDown=8s"]
    small += {
        "chat": ["rooms.count=10", "talk.every=2s"],
        "presence": ["roster.users=10", "away.every=5s", "away.for=2s", "session.length=10s", "session.pause=3s"],
        "broadcast": [],
        "herd": ["rooms.count=10", "talk.every=2s", "herd.at=3s", "herd.every=null"],
        "hostile": ["rooms.count=5", "talk.every=2s", "hostile.slow=4", "hostile.halfOpen=4", "hostile.floods=2", "hostile.garbage=4", "hostile.rate=200"],
    }[name]
    report = good(*swarm(",".join(node.url for node in nodes), name, settings=small))
    counters = report
    if name == "presence":
        assert counters["presenceTold"] > 100 and counters["presenceJudged"] > 0 and report["latencies"]["presence"]["count"] > 0
    else:
        assert counters["checked"] > 0
    if name == "herd":
        # Nobody was gone by its own will: all came back, and to what they had missed.
        assert counters["reconnects"] == report["bots"] and counters["recovered"] >= report["bots"]
    if name == "hostile":
        assert counters["hostileErrors"] > 0 and counters["hostileSent"] > 0 and counters["hostileWelcomes"] >= 14
        assert report["errors"] == {}, "the hostile ones' errors are their own"


def test_a_token_is_minted_for_each_bot_over_wss(start, tmp_path):
    key, other, config, port = tmp_path / "key", tmp_path / "other", tmp_path / "hub.json5", free_port()
    key.write_text("a key of at least thirty-two bytes for these tests")
    other.write_text("another key of at least thirty-two bytes, not the hub's")
    config.write_text(
        '{ auth: { keys: [{ kid: "k1", alg: "HS256", file: "%s" }] }, namespaces: { "*": { rights: ["*"] } } }' % key)
    certificate = Certificate(tmp_path, "swarm", "localhost")
    start(Hub, dev=False, config=config, settings=secure_settings(port, certificate))
    url, small = f"wss://localhost:{port}", ["users=20", "rampUp=1s", "warmUp=0s", "steady=3s"]
    report = good(*swarm(url, "broadcast", "--ca", certificate.cert, "--token-key-file", key, "--kid", "k1", settings=small))
    assert report["joined"] == 20
    told, _ = swarm(url, "broadcast", "--ca", certificate.cert, settings=["users=2"])
    assert told.returncode == 3 and "wants tokens (--token-key-env" in told.stderr, told.stderr
    told, _ = swarm(url, "broadcast", "--ca", certificate.cert, "--token-key-file", other, settings=["users=2"])
    assert told.returncode == 3 and "doesn't take this key's tokens" in told.stderr, told.stderr
    told, _ = swarm(url, "broadcast", "--token-key-file", key, settings=["users=2"])
    assert told.returncode == 3 and "--ca FILE" in told.stderr, told.stderr


def test_bots_come_from_several_addresses_to_several_urls(start):
    redis = start(RedisServer)
    nodes = [start(Hub, name=node, redis=redis.url) for node in ("one", "two")]
    process = subprocess.Popen(
        [BINARIES / "hub-swarm", "run", "broadcast", "--url", ",".join(node.url for node in nodes), "--source-addresses", "127.0.0.5-127.0.0.8",
         "--set", "users=40", "--set", "rampUp=1s", "--set", "steady=60s"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        def connections():
            listed = subprocess.run(["ss", "-Htn", "state", "established"], capture_output=True, text=True, check=True).stdout
            pairs = [line.split()[-2:] for line in listed.splitlines()]
            ports = {str(node.port) for node in nodes}
            return [(here.rpartition(":")[0], there.rpartition(":")[2]) for here, there in pairs if there.rpartition(":")[2] in ports]

        eventually(lambda: len(connections()) == 40, 60, "all are connected")
        here, there = zip(*connections())
        assert sorted(here) == sorted([f"127.0.0.{last}" for last in (5, 6, 7, 8)] * 10)
        assert sorted(there) == sorted([str(node.port) for node in nodes] * 20)
        # Ctrl-C ends it in order: it reports.
        process.send_signal(signal.SIGINT)
        out, _ = process.communicate(timeout=60)
        assert "interrupted" in out and "broadcast: 40 of 40 bots" in out, out
    finally:
        process.kill()
        process.wait()


def test_a_scenario_with_a_mistake_is_named_before_anything_starts(tmp_path):
    file = tmp_path / "mine.json5"
    file.write_text("{\n  users: 10,\n  tlak: { every: '1s' },\n}")
    told, _ = swarm(None, file)
    assert told.returncode == 2 and "mine.json5, line 3: the key \"tlak\" isn't known; did you mean talk?" in told.stderr, told.stderr
    told, _ = swarm(None, "chta")
    assert told.returncode == 2 and "did you mean chat?" in told.stderr and "There are broadcast, chat, herd, hostile, presence" in told.stderr, told.stderr
    told, _ = swarm(None, tmp_path / "none.json5")
    assert told.returncode == 2 and "can't be read: No such file" in told.stderr, told.stderr
    told, _ = swarm(None, "chat", settings=["users=-1"])
    assert told.returncode == 2 and "--set: users is a whole number from 1 to 1000000, not the number -1" in told.stderr, told.stderr


def test_too_few_descriptors_or_ports_are_said_with_what_is_possible(hub):
    limited = subprocess.run(
        ["prlimit", "--nofile=200:200", BINARIES / "hub-swarm", "run", "broadcast", "--url", hub.url, "--set", "users=300"], capture_output=True, text=True, timeout=60)
    assert limited.returncode == 2 and "300 connections need as many descriptors" in limited.stderr and "184 are possible" in limited.stderr, limited.stderr
    for flags, possible in ((["--bots", "600"], "184 bots are possible"), (["--bots", "600", "--workers", "2"], "184 bots are possible")):
        limited = subprocess.run(
            ["prlimit", "--nofile=200:200", BINARIES / "hub-swarm", "--url", hub.url, *flags], capture_output=True, text=True, timeout=60)
        assert limited.returncode == 2 and possible in limited.stderr and "worker" not in limited.stderr, limited.stderr
    told, _ = swarm(hub, "broadcast", settings=["users=900000"])
    assert told.returncode == 2 and "are possible" in told.stderr, told.stderr


def test_a_hub_that_isn_t_there_or_isn_t_one_is_said_before_the_start(hub):
    told, _ = swarm(f"http://127.0.0.1:{free_port()}", "chat")
    assert told.returncode == 3 and "the hub isn't there for us" in told.stderr and "refused" in told.stderr.lower(), told.stderr
    told, _ = swarm(hub.url + "/elsewhere", "chat")
    assert told.returncode == 3 and "HTTP 404" in told.stderr, told.stderr


def test_a_scenario_runs_in_several_processes_as_one(start):
    redis = start(RedisServer)
    nodes = [start(Hub, name=node, redis=redis.url) for node in ("one", "two")]
    report = good(*swarm(
        ",".join(node.url for node in nodes), "chat", "--workers", 3, "--expect", "loss=0,violations=0",
        settings=["users=60", "rampUp=2s", "warmUp=1s", "steady=10s", "coolDown=8s", "rooms.count=12", "talk.every=2s"]))
    assert report["workers"] == 3 and report["joined"] == report["bots"] > 60
    assert report["checked"] > 0 and report["latencies"]["chat"]["count"] > 200
