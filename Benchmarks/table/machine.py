"""Processes for the benchmarks: the server on core 0, the generator on core 1, the floor measured before and after each run."""

import base64
import contextlib
import hashlib
import hmac
import json
import os
import pathlib
import resource
import signal
import socket
import subprocess
import sys
import time

TOP = pathlib.Path(__file__).resolve().parent.parent.parent
RELEASE = TOP / ".build" / "release"
OUT = TOP / ".build" / "bench"
SECRET = "0123456789abcdef0123456789abcdef"
CONNECTIONS = 20_000


def generators():
    """Where fanload.c and limit.c are."""
    folder = pathlib.Path(os.environ.get("BENCH", TOP.parent / "shared" / "bench"))
    if not (folder / "fanload.c").exists():
        raise SystemExit(f"bench: no load generator at {folder}: set BENCH to the folder with fanload.c and limit.c")
    return folder


def build():
    # Ended from outside, everything that was started ends too.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    OUT.mkdir(parents=True, exist_ok=True)
    source = generators()
    here = TOP / "Benchmarks" / "Load"
    wanted = (
        ("load", ["-w", f'-DFANLOAD="{source}/fanload.c"', here / "tokens.c", "-lz"], [source / "fanload.c", here / "tokens.c"]),
        ("limit", ["-w", source / "limit.c", "-luring"], [source / "limit.c"]),
        ("accepts", ["-Wall", "-Wextra", here / "accepts.c"], [here / "accepts.c"]))
    for name, arguments, sources in wanted:
        target = OUT / name
        if not target.exists() or any(file.stat().st_mtime > target.stat().st_mtime for file in sources):
            subprocess.run(["cc", "-O2", "-o", target, *arguments], check=True)
    write_tokens()


def write_tokens():
    """A token for each connection, of a user of its own."""
    def part(value):
        return base64.urlsafe_b64encode(value).rstrip(b"=")

    head, now = part(b'{"alg":"HS256","typ":"JWT"}'), int(time.time())
    with open(OUT / "tokens", "wb") as file:
        for number in range(CONNECTIONS):
            claims = {"sub": f"user-{number}", "iat": now, "exp": now + 86_400, "caps": {"c*": ["subscribe", "publish", "history", "presence"]}}
            signed = head + b"." + part(json.dumps(claims, separators=(",", ":")).encode())
            file.write(b"token=" + signed + b"." + part(hmac.new(SECRET.encode(), signed, hashlib.sha256).digest()) + b"\n")


def spawn(cores, arguments, **options):
    """In a session, and so in a scheduler group, of its own, of the highest ordinary priority: other work on the machine disturbs less."""
    def prepare():
        os.setsid()
        with contextlib.suppress(OSError), open("/proc/self/autogroup", "w") as file:
            file.write("-20")
        with contextlib.suppress(OSError):
            os.nice(-20)
        os.sched_setaffinity(0, cores)
        limit = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limit))

    return subprocess.Popen([str(argument) for argument in arguments], preexec_fn=prepare, stdin=subprocess.DEVNULL, **options)


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def until(question, what, seconds=30):
    deadline = time.monotonic() + seconds
    while not question():
        if time.monotonic() > deadline:
            raise SystemExit(f"bench: not within {seconds} s: {what}")
        time.sleep(0.05)


def answers(port):
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


@contextlib.contextmanager
def running(process):
    try:
        yield process
    finally:
        end(process)


def end(process, number=signal.SIGTERM, seconds=20):
    with contextlib.suppress(ProcessLookupError):
        process.send_signal(number)
    try:
        process.wait(seconds)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


@contextlib.contextmanager
def redis():
    port = free_port()
    with running(spawn({0}, ["redis-server", "--port", port, "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"],
                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)) as server:
        until(lambda: answers(port), "Redis listens")
        server.port = port
        yield server


@contextlib.contextmanager
def hub(redis_port=None, loops=1, settings=(), cores=frozenset({0}), tokens=True):
    """A node as the table means it: tokens, presence, positions, history, the default limits. What isn't: its address; `limits.acceptsPerSecond`, since the
    generator opens all connections at once, and a handshake would be the wait for its turn; `auth.queryToken`, since the generator can't set a header; and the
    log, which says no more than warnings."""
    port = free_port()
    arguments = [os.environ.get("HUBD", RELEASE / "hubd"), "--listen", f"127.0.0.1:{port}", "--node", f"bench-{port}"]
    arguments += ["--redis", f"redis://127.0.0.1:{redis_port}"] if redis_port else []
    arguments += [] if tokens else ["--dev"]
    values = {"loops": loops, "log.level": "warning", "limits.acceptsPerSecond": 1_000_000, "auth.queryToken": "true"}
    values |= {"auth.keys": f'[{{"alg":"HS256","secret":"{SECRET}"}}]'} if tokens else {}
    values |= dict(settings)
    for name, value in values.items():
        arguments += ["--set", f"{name}={value}"]
    with open(OUT / "hubd.log", "ab") as log, running(spawn(cores, arguments, stdout=log, stderr=log)) as node:
        def ready():
            if node.poll() is not None:
                raise SystemExit(f"bench: hubd ended with {node.returncode}: see {OUT}/hubd.log")
            return answers(port)

        until(ready, "the node listens")
        node.port = port
        time.sleep(0.2)
        yield node


def said(process, seconds):
    """What it writes until it ends. One that hangs isn't left behind."""
    with running(process):
        try:
            return process.communicate(timeout=seconds)[0]
        except subprocess.TimeoutExpired:
            raise SystemExit(f"bench: not ended within {seconds} s: {process.args[0]}") from None


# Seconds that a floor is measured for, and those before it that don't count.
CALIBRATION = 1.0


def floor(size=128, k=1):
    """CPU microseconds of a delivery to 1,000 sockets by bare sends of `k` frames with a payload of `size` bytes each."""
    run = spawn({0, 1}, [OUT / "limit", "fan", "--n", 1000, "--size", size, "--k", k, "--secs", CALIBRATION, "--warm", CALIBRATION / 2],
                stdout=subprocess.PIPE, text=True)
    return json.loads(said(run, 60))["us_per_delivery"]


def accepts():
    """CPU microseconds of a bare accept and epoll_ctl."""
    return float(said(spawn({0, 1}, [OUT / "accepts", 10_000], stdout=subprocess.PIPE, text=True), 60))


SUBSCRIBE = ["--sub-msg", '{"type":"subscribe","id":1,"channel":"c%d"}', "--ack", '"type":"ack"']
PUBLISH = ["--pub-msg", '{"type":"chat","channel":"c%d","payload":%b}']


def load(port, pids, arguments, tokens=True, pub_port=None):
    """One run of the generator; what it says, and under "span" when it began and ended by the monotonic clock."""
    path = "/v1/ws?@%i" if tokens else "/v1/ws?user=user-%i"
    command = [OUT / "load", "--port", port, "--pid", ",".join(map(str, pids)), "--path", path, "--pub-path", path, *SUBSCRIBE, *PUBLISH, *arguments]
    command += ["--pub-port", pub_port] if pub_port else []
    began = time.monotonic()
    run = spawn({1}, command, stdout=subprocess.PIPE, text=True, env={**os.environ, "TOKENS": str(OUT / "tokens")})
    text = said(run, 180)
    if run.returncode != 0 or not text.startswith("{"):
        raise SystemExit(f"bench: the generator ended with {run.returncode}: {text[:200]}")
    return {**json.loads(text), "span": (began, time.monotonic())}
