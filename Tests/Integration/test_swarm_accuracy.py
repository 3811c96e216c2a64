"""What the swarm reports against what a server with known delays truly did (scripts/swarm-accuracy shows the figures).

A busy machine can't make these fail: the server writes down what it did, so a late server is in both; a swarm that is woken late is late in
truth, and by how much this machine wakes late is measured beside it by the same clock and allowed for.
"""

import json
import os
import pathlib
import signal
import subprocess
import sys
import threading
import time

import pytest

from hub import BINARIES, eventually, free_port, run

HERE = pathlib.Path(__file__).parent


class DelayServer:
    def __init__(self, folder, median, sigma, seed=7):
        self.port = free_port()
        self.log = folder / "delays"
        self.process = subprocess.Popen(
            [sys.executable, str(HERE / "delayserver.py"), str(self.port), str(self.log), str(median), str(sigma), str(seed)],
            stdout=subprocess.PIPE)
        assert self.process.stdout.readline() == b"ready\n"
        self.url = f"http://127.0.0.1:{self.port}"

    def delays(self, count):
        """Nanoseconds, sorted, of so many deliveries."""
        eventually(lambda: len(self.log.read_text().split()) >= count, what=f"{count} deliveries in the server's log")
        return sorted(int(line) for line in self.log.read_text().split())

    def kill(self):
        self.process.send_signal(signal.SIGCONT)
        self.process.kill()
        self.process.wait()


@pytest.fixture
def delayed(tmp_path):
    servers = []

    def make(median, sigma):
        servers.append(DelayServer(tmp_path, median, sigma))
        return servers[-1]

    yield make
    for server in servers:
        server.kill()


class Lateness:
    """How late this machine wakes a process that wants nothing but to be woken, in nanoseconds."""

    def __init__(self):
        self.values, self.over = [0], threading.Event()
        self.thread = threading.Thread(target=self._measure)

    def _measure(self):
        while not self.over.is_set():
            before = time.monotonic_ns()
            time.sleep(0.002)
            self.values.append(time.monotonic_ns() - before - 2_000_000)

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.over.set()
        self.thread.join()
        self.values.sort()


def percentile(values, percent):
    """The nearest rank, as the swarm's."""
    return values[max(-(-len(values) * percent // 100), 1) - 1] if percent == int(percent) else values[min(int(len(values) * percent / 100), len(values) - 1)]


def summary(path):
    return json.loads(run("hub-swarm", "report", path, "--json").stdout)


def test_the_reported_percentiles_are_those_that_the_server_made(delayed, tmp_path):
    server = delayed(median=200, sigma=0.5)
    saved = tmp_path / "run.json"
    with Lateness() as lateness:
        swarm = run(
            "hub-swarm", "--url", server.url, "--bots", "50", "--rooms", "50", "--rate", "5", "--seconds", "12", "--seed", "1", "--save", saved,
            timeout=180)
    assert saved.exists(), swarm.stderr
    latency = summary(saved)["latency"]
    assert latency["count"] > 1500
    truth = server.delays(latency["count"])
    assert len(truth) == latency["count"], "the swarm saw each delivery"
    for name, percent in (("p50", 50), ("p90", 90), ("p99", 99)):
        reported, true = latency[name] * 1e6, percentile(truth, percent)
        allowed = lateness.values[-1] if percent == 99 else percentile(lateness.values, 99)
        print(f"{name}: reported {reported / 1e6:.1f} ms, true {true / 1e6:.1f} ms, {(reported / true - 1) * 100:+.2f} %; this machine wakes {allowed / 1e6:.1f} ms late")
        assert reported >= true * 0.98, f"{name} is better than the truth"
        assert reported <= true * 1.02 + allowed, f"{name} is more than 2 % worse than the truth"


def test_a_server_that_stands_still_for_a_second_shows_in_the_tail(delayed, tmp_path):
    server = delayed(median=0, sigma=0)
    saved = tmp_path / "run.json"
    swarm = subprocess.Popen(
        [str(BINARIES / "hub-swarm"), "--url", server.url, "--bots", "20", "--rooms", "20", "--rate", "10", "--seconds", "10", "--seed", "1", "--save",
         str(saved)], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    try:
        # When messages flow, and long before the end.
        for line in swarm.stderr:
            if "  delivered " in line and "  delivered 0/s" not in line:
                break
        time.sleep(1.5)
        os.kill(server.process.pid, signal.SIGSTOP)
        stopped = time.monotonic()
        time.sleep(1)
        paused = time.monotonic() - stopped
        os.kill(server.process.pid, signal.SIGCONT)
        swarm.stderr.read()
        swarm.wait(timeout=120)
    finally:
        swarm.kill()
        swarm.wait()
    latency = summary(saved)["latency"]
    print(f"paused {paused * 1000:.0f} ms: p99 {latency['p99']:.0f} ms, p99.9 {latency['p99.9']:.0f} ms, longest {latency['max']:.0f} ms")
    # A tenth of all was due in the pause, and waited for what was left of it: who waits for answers would have sent one for each bot.
    assert latency["count"] > 1000
    assert latency["max"] >= paused * 1000 * 0.95
    assert latency["p99.9"] >= paused * 1000 * 0.9
    assert latency["p99"] >= paused * 1000 * 0.7
