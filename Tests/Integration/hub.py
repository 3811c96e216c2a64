"""Real processes for the tests: nodes, Redis, the load balancer. Every wait has a deadline; every process ends by its id."""

import contextlib
import itertools
import json
import os
import pathlib
import random
import signal
import socket
import subprocess
import time
import urllib.error
import urllib.request

TOP = pathlib.Path(__file__).resolve().parent.parent.parent
BINARIES = TOP / ".build" / "release"

# Tests' timers (all relations of the defaults hold, scaled): a dead node's users are offline within seconds.
FAST = {
    "presence.heartbeat": "800ms", "presence.lease": "2400ms", "presence.userTTL": "10s", "presence.grace": "400ms",
    "presence.sweepInterval": "100ms", "presence.gapMax": "1200ms", "presence.hold": "1400ms",
}

# Below the range that outgoing connections take theirs from; workers of one run start apart.
_worker = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
_ports = itertools.cycle(range(20_000 + _worker * 3_000 + (_offset := random.randrange(2_500)), 20_000 + _worker * 3_000 + _offset + 500))


def free_port():
    for port in _ports:
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
                return port
            except OSError:
                continue


# By then the loops of a node have reported their numbers, which they do a few times a second; a number on /metrics that's asked for earlier
# is of before. A test waits for it with `eventually`, or before it takes a number to compare with, this long.
REPORTED = 0.6


def eventually(question, seconds=15, what=None):
    """Asks until the answer is true, and returns it."""
    deadline = time.monotonic() + seconds
    while True:
        answer = question()
        if answer:
            return answer
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {seconds} s: {what or getattr(question, '__doc__', None) or question}")
        time.sleep(0.03)


class Process:
    """A server with its output in a file; `log` reads it."""

    def __init__(self, name, arguments, folder, environment=None):
        self.name = name
        self.log_path = pathlib.Path(folder) / f"{name}-{time.monotonic_ns()}.log"
        clean = {key: value for key, value in os.environ.items() if not key.startswith("HUB")}
        with open(self.log_path, "wb") as log:
            self.process = subprocess.Popen(
                [str(argument) for argument in arguments], stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=folder,
                env={**clean, **(environment or {})})

    @property
    def log(self):
        return self.log_path.read_text(errors="replace")

    def expect_log(self, text, seconds=15):
        eventually(lambda: text in self.log, seconds, f"{self.name} logs {text!r}")

    @property
    def is_running(self):
        return self.process.poll() is None

    def signal(self, number):
        """Sends it. A SIGSTOP is waited for: the call comes back before every thread has stopped, and what one still does would answer the test."""
        self.process.send_signal(number)
        if number == signal.SIGSTOP:
            eventually(lambda: os.waitid(os.P_PID, self.process.pid, os.WSTOPPED | os.WNOHANG), what=f"{self.name} has stopped")

    @contextlib.contextmanager
    def standing_still(self):
        self.signal(signal.SIGSTOP)
        try:
            yield
        finally:
            self.signal(signal.SIGCONT)

    def wait(self, seconds=20):
        return self.process.wait(seconds)

    def stop(self, seconds=20):
        """SIGTERM; returns the exit code."""
        if self.is_running:
            self.signal(signal.SIGTERM)
        return self.wait(seconds)

    def kill(self):
        if self.is_running:
            self.process.kill()
        self.process.wait()


class Hub(Process):
    """One hubd. `settings` become --set flags; `prefix` is a program that becomes hubd, such as prlimit."""

    def __init__(
            self, folder, *flags, name="hub", dev=True, redis=None, config=None, settings=None, environment=None, port=None, ready=True, prefix=()):
        self.port = port or free_port()
        self.address = f"127.0.0.1:{self.port}"
        self.url = f"http://{self.address}"
        # For `metric`, where the API is guarded.
        self.api_key = None
        arguments = [*prefix, BINARIES / "hubd", "--listen", self.address, "--node", name]
        arguments += ["--dev"] if dev else []
        arguments += ["--redis", redis] if redis else []
        arguments += ["--config", config] if config else []
        for key, value in (settings or {}).items():
            arguments += ["--set", f"{key}={value}"]
        super().__init__(name, [*arguments, *flags], folder, environment)
        if ready:
            self.wait_ready()

    def wait_ready(self, seconds=20):
        def ready():
            assert self.is_running, f"{self.name} ended with {self.process.returncode}:\n{self.log}"
            return status(f"{self.url}/readyz") == 200

        try:
            eventually(ready, seconds, f"{self.name} is ready")
        except AssertionError as error:
            self.kill()
            raise AssertionError(f"{error}\n{self.log}") from None
        return self


    def metric(self, name):
        """The value of one line of /metrics; the loops report theirs a few times a second."""
        for line in request(f"{self.url}/metrics", key=self.api_key)[2].decode().splitlines():
            if line.rpartition(" ")[0] == name:
                return int(line.rpartition(" ")[2])
        raise AssertionError(f"/metrics has no {name}")


class RedisServer(Process):
    """`options` are further arguments, `--appendonly yes`, and win; `prefix` is a program that becomes the server, such as env."""

    def __init__(self, folder, port=None, options=(), prefix=()):
        self.port = port or free_port()
        self.url = f"redis://127.0.0.1:{self.port}"
        plain = ["--port", self.port, "--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--dir", folder]
        super().__init__("redis", [*prefix, "redis-server", *plain, *options], folder)
        try:
            eventually(self._answers, 10, "redis answers")
        except AssertionError:
            # Nobody else knows of it yet.
            self.kill()
            raise

    def _answers(self):
        assert self.is_running, f"redis ended:\n{self.log}"
        try:
            return self.command("PING") == "+PONG"
        except OSError:
            return False

    def command(self, *words):
        """One command's raw first line, for what a test wants to know."""
        with socket.create_connection(("127.0.0.1", self.port), timeout=5) as link:
            link.sendall(b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%s\r\n" % (len(word), word.encode()) for word in words))
            return link.makefile("rb").readline().decode().rstrip()


class HAProxy(Process):
    """The deployment's own load balancer file in front of up to three nodes."""

    def __init__(self, folder, hubs):
        self.port = free_port()
        self.address = f"127.0.0.1:{self.port}"
        self.url = f"http://{self.address}"
        # Places without a node lead nowhere, as a node that is down does.
        addresses = [hub.address for hub in hubs] + [f"127.0.0.1:{free_port()}"] * (3 - len(hubs))
        environment = {f"HUB{number + 1}": address for number, address in enumerate(addresses)}
        super().__init__("haproxy", ["haproxy", "-db", "-f", TOP / "config" / "haproxy.cfg"], folder, {**environment, "HUB_FRONT": self.address})
        eventually(lambda: status(f"{self.url}/healthz") == 200, 10, "haproxy passes requests on")


@contextlib.contextmanager
def running(*processes):
    """Ends them all, the last one first, whatever happened."""
    try:
        yield processes[0] if len(processes) == 1 else processes
    finally:
        for process in reversed(processes):
            process.kill()


def request(url, method="GET", body=None, key=None, headers=None, timeout=10):
    """(status, headers, body), the body decoded where it is JSON."""
    headers = dict(headers or {})
    if key:
        headers["Authorization"] = f"Bearer {key}"
    data = None
    if body is not None:
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        headers.setdefault("Content-Type", "application/json")
    call = urllib.request.Request(url, data=data, method=method, headers=headers)
    try:
        with urllib.request.urlopen(call, timeout=timeout) as answer:
            status_code, fields, content = answer.status, answer.headers, answer.read()
    except urllib.error.HTTPError as error:
        status_code, fields, content = error.code, error.headers, error.read()
    if "json" in fields.get("Content-Type", ""):
        content = json.loads(content)
    return status_code, fields, content


def status(url):
    """The status, or None when nothing answers."""
    try:
        return request(url, timeout=5)[0]
    except (OSError, urllib.error.URLError):
        return None


def run(program, *arguments, environment=None, timeout=30, folder=None):
    """One of our programs to its end: returncode, stdout, stderr."""
    clean = {key: value for key, value in os.environ.items() if not key.startswith("HUB")}
    return subprocess.run(
        [str(BINARIES / program), *map(str, arguments)], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=timeout,
        cwd=folder, env={**clean, **(environment or {})})


def hubctl(hub, *arguments, key=None):
    environment = {"HUB_URL": hub.url, **({"HUB_API_KEY": key} if key else {})}
    return run("hubctl", *arguments, environment=environment)
