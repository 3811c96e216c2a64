"""The rows of the table: how one run of each is made, and what figures it gives."""

import contextlib
import functools
import os
import random
import socket
import statistics
import subprocess
import time
import zlib
from typing import NamedTuple

import machine

# Seconds of a run: measured, before that with everything running, and for what connecting leaves to do (`silence`: where that is measured itself).
# `floor` is that of machine.CALIBRATION, long enough that starting weighs as little on it as on a row.
QUICK = {"secs": 0.5, "warm": 0.3, "settle": 0.3, "connections": 3_000, "silence": 1, "floor": 0.4}
FULL = {"secs": 1.5, "warm": 0.7, "settle": 0.5, "connections": 10_000, "silence": 2, "floor": 0.8}
# Payloads of the frames that are sent, in bytes; the floor's frames are as large. What a chat of 128 bytes becomes in its envelope; one of 1 KB, plain and
# deflated; and a subscription's ack (Redis and embedded differ by four bytes). `ratio` holds them to what the generator receives.
FRAME = 316
CHAT_FRAME = 1_210
DEFLATED_FRAME = 605
ACK_FRAME = 87


def on_wire(frame):
    return frame + (2 if frame < 126 else 4)


class Work(NamedTuple):
    """What the generator does, and the payload of the frames in which its deliveries leave."""
    frame: int
    arguments: list
    seconds: float = 1  # × those of the scale


OFFER = ["--offer", "permessage-deflate; client_max_window_bits"]
FAN = ["--subs", 1000, "--size", 128]
CHAT = ["--subs", 1000, "--size", 1024, "--body", "chat", "--window", 8, "--drain", 5, "--inflate-every", 20]
WORKS = {
    "one": Work(FRAME, [*FAN, "--window", 1]),
    "sixteen": Work(FRAME, [*FAN, "--window", 16]),
    "sixtyfour": Work(FRAME, [*FAN, "--window", 64]),
    "rooms": Work(FRAME, ["--subs", 10_000, "--channels", 1000, "--pubs", 0, "--size", 128, "--window", 1000, "--sub-conc", 200]),
    # Its p99 is of single publications: more of them.
    "latency": Work(FRAME, [*FAN, "--rate", 100], 2),
    "plain": Work(CHAT_FRAME, CHAT),
    "deflated": Work(DEFLATED_FRAME, [*CHAT, *OFFER])}


def valid(run):
    if run.get("failed") or run.get("closed") or run.get("lost") or run["acks"] < run.get("conns", 0):
        print("not valid:", {key: run.get(key) for key in ("label", "failed", "closed", "lost", "acks", "conns")}, flush=True)
        return False
    return True


def ratio(run, before, after, frame=FRAME):
    if not valid(run):
        return None
    if not run["deliveries"]:
        print("not valid: nothing was delivered", flush=True)
        return None
    if abs(run["bytes_per_deliv"] - on_wire(frame)) > 0.03 * on_wire(frame):
        print(f"not valid: a delivery has {run['bytes_per_deliv']:.0f} bytes, the floor's {on_wire(frame)}: set the frames' size in rows.py", flush=True)
        return None
    return run["srv_us_per_deliv"] / ((before + after) / 2)


class Measured(NamedTuple):
    """`cost`: server CPU for each delivery × floor; None when the run isn't valid, and so is every figure of it."""
    cost: float | None
    run: dict
    floor: float


@contextlib.contextmanager
def node_of(broker, **options):
    """A node, and the processes whose CPU counts."""
    if broker == "embedded":
        with machine.hub(**options) as node:
            yield node, [node.pid]
    else:
        with machine.redis() as redis, machine.hub(redis.port, **options) as node:
            yield node, [node.pid, redis.pid]


def pace(work, scale):
    return ["--secs", work.seconds * scale["secs"], "--warm", scale["warm"], "--settle", scale["settle"]]


def measure(scale, name, broker, **options):
    work = WORKS[name]
    with node_of(broker, **options) as (node, pids):
        before = machine.floor(work.frame)
        run = machine.load(node.port, pids, ["--label", name, *work.arguments, *pace(work, scale)])
        after = machine.floor(work.frame)
    return Measured(ratio(run, before, after, work.frame), run, (before + after) / 2)


# A row is a function of the scale that gives figures of one run: ((work, broker), value), the value None when the run isn't valid.
def plain_row(work, name, broker):
    return lambda scale: [((work, broker), measure(scale, name, broker).cost)]


def one_row(broker):
    def row(scale):
        measured = measure(scale, "one", broker)
        return [(("one at a time", broker), measured.cost)] + ([(("a bare send", "none"), measured.floor)] if broker == "Redis" else [])
    return row


def latency(broker):
    def row(scale):
        cost, run, floor = measure(scale, "latency", broker)
        sends = 1000 * floor
        return [(("100 messages a second, CPU", broker), cost), (("100 messages a second, p99", broker), run["p99_us"] / sends if cost else None),
                (("100 messages a second, median", broker), run["p50_us"] / sends if cost else None)]
    return row


def deflate(broker):
    def row(scale):
        plain, deflated = measure(scale, "plain", broker), measure(scale, "deflated", broker)
        figures = [(("1 KB chat, plain", broker), plain.cost), (("1 KB chat, deflated", broker), deflated.cost)]
        if broker == "Redis":
            alone, bytes_ = deflated_alone(), deflated.run["bytes_per_deliv"] if deflated.cost else None
            figures += [(("1 KB chat, deflated: a delivery", broker), bytes_), (("1 KB chat, its payload deflated alone", "none"), alone),
                        (("1 KB chat, deflated: a delivery's bytes", broker), bytes_ and bytes_ / alone)]
        return figures
    return row


def loops(broker):
    """Two loops on both cores (the generator shares the second one), beside one: CPU for each delivery, the generator's not counted."""
    def row(scale):
        figures = []
        for name, work in (("one", "one at a time"), ("sixteen", "16 in flight")):
            one = measure(scale, name, broker).cost
            two = measure(scale, name, broker, loops=2, cores=frozenset({0, 1})).cost
            figures.append(((f"two loops, {work}", broker), two / one if one and two else None))
        return figures
    return row


def cross(work, name):
    def row(scale):
        with machine.redis() as redis, machine.hub(redis.port) as one, machine.hub(redis.port) as other:
            before = machine.floor(FRAME)
            run = machine.load(other.port, [other.pid, one.pid, redis.pid], ["--label", "cross", *WORKS[name].arguments, *pace(WORKS[name], scale)],
                               pub_port=one.port)
            return [((work, "Redis"), ratio(run, before, machine.floor(FRAME)))]
    return row


@functools.cache
def deflated_alone():
    """The generator's own 1 KB chat, without an envelope: raw deflate of the same level. It's read back from what it sends."""
    listener = socket.create_server(("127.0.0.1", 0))
    command = [machine.OUT / "load", "--port", listener.getsockname()[1], "--subs", 1, "--size", 1024, "--body", "chat", "--rate", 20, "--secs", 1,
               "--warm", 0, "--settle", 0, "--drain", 0, "--pub-msg", "%b", "--ack", "", "--pubs", 1]
    with listener, machine.running(subprocess.Popen([str(part) for part in command], stdout=subprocess.DEVNULL)):
        listener.settimeout(5)
        peers = [listener.accept()[0] for _ in range(2)]
        for peer in peers:
            peer.settimeout(5)
            while b"\r\n\r\n" not in peer.recv(4096):
                pass
            peer.sendall(b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
                         b"Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n\r\n")
        bytes_, deadline = b"", time.monotonic() + 5
        while len(bytes_) < 1100 and time.monotonic() < deadline:
            for peer in peers:
                peer.setblocking(False)
                try:
                    bytes_ += peer.recv(65536)
                except BlockingIOError:
                    time.sleep(0.01)
        length = int.from_bytes(bytes_[2:4], "big")
        mask, body = bytes_[4:8], bytes_[8:8 + length]
        payload = bytes(byte ^ mask[place & 3] for place, byte in enumerate(body))
        for peer in peers:
            peer.close()
    packer = zlib.compressobj(1, zlib.DEFLATED, -15, 8)
    return len(packer.compress(payload) + packer.flush(zlib.Z_SYNC_FLUSH)) - 4


def warmed(node, offer=()):
    """So that what the first connections alone bring in is there before anything is measured."""
    machine.load(node.port, [node.pid], ["--label", "warm", "--subs", 200, "--channels", 20, "--idle", "--settle", "0.5", *offer])
    time.sleep(0.5)


def opened(node, scale, offer=()):
    """So many connections opened, then a tenth as many channels subscribed to by ten each, and then silence."""
    count = scale["connections"]
    return machine.load(node.port, [node.pid], ["--label", "idle", "--subs", count, "--channels", count // 10, "--idle", "--settle", scale["silence"],
                                                "--sub-conc", 200, *offer])


def connections(scale):
    """Idle connections: memory, handshake, subscription; with tokens, an inbox, presence and one channel each, Redis behind them."""
    figures = []
    for kind, offer in (("plain", []), ("deflate", OFFER)):
        with node_of("Redis") as (node, _):
            warmed(node, offer)
            send, bare = machine.floor(ACK_FRAME), machine.accepts()
            run = opened(node, scale, offer)
            send, bare = (send + machine.floor(ACK_FRAME)) / 2, (bare + machine.accepts()) / 2
        ok = valid(run)
        figures.append(((f"idle connection, {kind}", "Redis"), run["rss_per_conn"] if ok else None))
        if kind == "plain":
            verify = token_cost()
            figures += [
                (("handshake, its token subtracted", "Redis"), (run["srv_us_per_handshake"] - verify) / bare if ok else None),
                (("handshake", "Redis"), run["srv_us_per_handshake"] if ok else None), (("token verified", "none"), verify),
                (("accept + epoll_ctl", "none"), bare), (("subscribe and ack", "Redis"), run["srv_us_per_sub"] / send if ok else None)]
    return figures


def token_cost():
    """CPU microseconds of a token verified: what many of them take more than few, so that starting the program isn't in it."""
    def spent(times):
        process = subprocess.Popen([machine.RELEASE / "bench-paths", "token", str(times)], stdout=subprocess.DEVNULL)
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode:
            raise SystemExit(f"bench: bench-paths ended with {process.returncode}")
        return (used.ru_utime + used.ru_stime) * 1e6

    few, many = 1_000, 50_000
    return (spent(many) - spent(few)) / (many - few)


# What the design's text says of the heartbeat's script, written as plainly as it can be.
DESIGN = """
local missing = {}
for i = 2, #KEYS do if redis.call('PEXPIRE', KEYS[i], ARGV[2]) == 0 then missing[#missing + 1] = i - 2 end end
local t = redis.call('TIME')
local deadline = t[1] * 1000 + math.floor(t[2] / 1000) + ARGV[1]
for first = 3, #ARGV, 100 do
  local arguments = {}
  for i = first, math.min(first + 99, #ARGV) do arguments[#arguments + 1] = deadline; arguments[#arguments + 1] = ARGV[i] end
  if redis.call('ZADD', KEYS[1], 'XX', 'CH', unpack(arguments)) < #arguments / 2 then
    for i = first, math.min(first + 99, #ARGV) do if not redis.call('ZSCORE', KEYS[1], ARGV[i]) then missing[#missing + 1] = i - 3 end end
  end
end
return missing
"""


def command(*parts):
    parts = [part if isinstance(part, bytes) else str(part).encode() for part in parts]
    return b"*%d\r\n" % len(parts) + b"".join(b"$%d\r\n%s\r\n" % (len(part), part) for part in parts)


class Link:
    """As little of a Redis client as a measurement needs."""

    def __init__(self, port):
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=60)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.file = self.socket.makefile("rb")

    def reply(self):
        line = self.file.readline()
        kind, rest = line[:1], line[1:-2]
        if kind == b"-":
            raise SystemExit(f"bench: Redis says {rest.decode()}")
        if kind == b"$":
            return self.file.read(int(rest) + 2)[:-2] if rest != b"-1" else None
        return [self.reply() for _ in range(int(rest))] if kind == b"*" else rest

    def ask(self, *parts):
        self.socket.sendall(command(*parts))
        return self.reply()

    def cpu(self):
        info = self.ask("INFO", "cpu").decode()
        return sum(float(line.split(":")[1]) for line in info.splitlines() if line.startswith("used_cpu_") and "main_thread" in line) * 1e6


def heartbeat(scale):
    """Redis's CPU for each user's heartbeat: our script beside the design's, on the same users, taking turns."""
    users, batch, rounds = 20_000, 195, 6
    names = [f"{random.Random(number).getrandbits(128):032x}" for number in range(users)]
    ours = (machine.TOP / "Sources" / "HubRedis" / "Lua" / "refresh.lua").read_text()
    with machine.redis() as redis:
        link = Link(redis.port)
        scripts = {name: link.ask("SCRIPT", "LOAD", text) for name, text in (("ours", ours), ("design", DESIGN))}
        setup = []
        for name in names:
            connection = ("c:aaaaaaaaaaaa-1", "x" * 40)
            setup.append(command("HSET", f"hub:{{1}}:u:{name}", "s", "online", "v", 1_700_000_000_000_000, "t", 1_700_000_000_000, *connection))
            setup.append(command("ZADD", "hub:{1}:pl", 1, f"{name}|aaaaaaaaaaaa-1"))
        link.socket.sendall(b"".join(setup))
        for _ in range(users * 2):
            link.reply()
        calls = []
        for first in range(0, users, batch):
            some = names[first:first + batch]
            calls.append(lambda script, some=some: command(
                "EVALSHA", script, len(some) + 1, "hub:{1}:pl", *[f"hub:{{1}}:u:{name}" for name in some], 75_000, 300_000,
                *[f"{name}|aaaaaaaaaaaa-1" for name in some]))
        spent = {"ours": [], "design": []}
        for turn in range(rounds * 2):
            which = ("ours", "design")[turn % 2 ^ (turn // 2) % 2]
            before = link.cpu()
            for some in range(0, len(calls), 10):
                link.socket.sendall(b"".join(call(scripts[which]) for call in calls[some:some + 10]))
                for _ in calls[some:some + 10]:
                    if link.reply() != []:
                        raise SystemExit(f"bench: {which} misses users")
            spent[which].append((link.cpu() - before) / users)
    ours, design = statistics.median(spent["ours"][1:]), statistics.median(spent["design"][1:])
    return [(("presence heartbeat", "Redis"), ours / design), (("presence heartbeat, Redis for each user", "Redis"), ours)]


ROWS = {
    "fan": [
        one_row("Redis"), one_row("embedded"), plain_row("16 in flight", "sixteen", "Redis"), plain_row("16 in flight", "sixteen", "embedded"),
        plain_row("64 in flight", "sixtyfour", "Redis"), plain_row("64 in flight", "sixtyfour", "embedded")],
    "rooms": [plain_row("rooms", "rooms", "Redis"), plain_row("rooms", "rooms", "embedded")],
    "deflate": [deflate("Redis"), deflate("embedded")],
    "cross": [cross("node to node, one at a time", "one"), cross("node to node, 16 in flight", "sixteen")],
    "connections": [connections],
    "heartbeat": [heartbeat],
    "latency": [latency("Redis"), latency("embedded")],
    "loops": [loops("Redis")],  # four runs: an embedded one would cost two minutes of fifteen
}
