"""The rows of the table: how one run of each is made, and what figure it gives."""

import random
import socket
import statistics
import subprocess
import time
import zlib

import machine

QUICK = {"secs": 0.7, "connections": 3_000}
FULL = {"secs": 1.5, "connections": 10_000}
# What a chat of 128 bytes becomes on the wire: the floor's frames are as large.
FRAME = 316


class Figures(list):
    """(name, value) of one run; a value is None when the run isn't valid."""


def valid(run):
    if run.get("failed") or run.get("closed") or run.get("lost") or run["acks"] < run.get("conns", 0):
        print("not valid:", {key: run.get(key) for key in ("label", "failed", "closed", "lost", "acks", "conns")}, flush=True)
        return False
    return True


def ratio(run, before, after):
    return run["srv_us_per_deliv"] / ((before + after) / 2) if valid(run) else None


def fan(scale, window=None, rate=None, with_redis=False, loops=1, cores=frozenset({0})):
    """1,000 subscribers of one channel. Returns CPU for each delivery × floor, and what the generator said."""
    def go(node, redis=None):
        before = machine.floor(FRAME)
        pace = ["--window", window] if window else ["--rate", rate]
        pids = [node.pid] + ([redis.pid] if redis else [])
        run = machine.load(node.port, pids, ["--label", "fan", "--subs", 1000, "--size", 128, "--secs", scale["secs"], "--settle", "0.5", *pace])
        after = machine.floor(FRAME)
        return ratio(run, before, after), run, (before + after) / 2

    if with_redis:
        with machine.redis() as redis, machine.hub(redis.port, loops=loops, cores=cores) as node:
            return go(node, redis)
    with machine.hub(loops=loops, cores=cores) as node:
        return go(node)


def fan_row(name, window, with_redis):
    return lambda scale: [(name, fan(scale, window=window, with_redis=with_redis)[0])]


def latency(scale):
    cost, run, floor = fan(scale, rate=100)
    sends = 1000 * floor
    return [("100 messages a second, CPU", cost), ("100 messages a second, p99", run["p99_us"] / sends if cost else None),
            ("100 messages a second, median", run["p50_us"] / sends if cost else None)]


def rooms(name, with_redis):
    def row(scale):
        def go(node, redis=None):
            before = machine.floor(FRAME)
            run = machine.load(
                node.port, [node.pid] + ([redis.pid] if redis else []),
                ["--label", "rooms", "--subs", 10_000, "--channels", 1000, "--pubs", 0, "--size", 128, "--window", 1000, "--secs", scale["secs"],
                 "--settle", "0.5", "--sub-conc", 200])
            return [(name, ratio(run, before, machine.floor(FRAME)))]

        if with_redis:
            with machine.redis() as redis, machine.hub(redis.port) as node:
                return go(node, redis)
        with machine.hub() as node:
            return go(node)
    return row


def deflate(scale):
    figures = []
    for offer in ([], ["--offer", "permessage-deflate; client_max_window_bits"]):
        with machine.hub() as node:
            before = machine.floor(128)
            run = machine.load(
                node.port, [node.pid],
                ["--label", "deflate", "--subs", 1000, "--size", 1024, "--body", "chat", "--window", 8, "--secs", scale["secs"], "--settle", "0.5",
                 "--drain", 5, "--inflate-every", 20, *offer])
            cost = ratio(run, before, machine.floor(128))
        if not offer:
            figures.append(("1 KB chat, plain", cost))
        else:
            alone = deflated_alone()
            figures += [("1 KB chat, deflated", cost), ("1 KB chat, bytes × payload deflated alone", run["bytes_per_deliv"] / alone if cost else None)]
    return figures


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


def cross(name, window):
    def row(scale):
        with machine.redis() as redis, machine.hub(redis.port) as one, machine.hub(redis.port) as other:
            before = machine.floor(FRAME)
            run = machine.load(
                other.port, [other.pid, one.pid, redis.pid],
                ["--label", "cross", "--subs", 1000, "--size", 128, "--window", window, "--secs", scale["secs"], "--settle", 1], pub_port=one.port)
            return [(name, ratio(run, before, machine.floor(FRAME)))]
    return row


def connections(scale):
    """Idle connections: memory, handshake, subscription; with tokens, an inbox, presence and one channel each, Redis behind them."""
    figures = []
    for kind, offer in (("plain", []), ("deflate", ["--offer", "permessage-deflate; client_max_window_bits"])):
        with machine.redis() as redis, machine.hub(redis.port) as node:
            # So that what the first connections alone bring in is there before anything is measured.
            machine.load(node.port, [node.pid], ["--label", "warm", "--subs", 200, "--channels", 20, "--idle", "--settle", "0.5", *offer])
            time.sleep(1)
            send, bare = machine.floor(128), machine.accepts()
            count = scale["connections"]
            run = machine.load(
                node.port, [node.pid],
                ["--label", "idle", "--subs", count, "--channels", count // 10, "--idle", "--settle", 2, "--sub-conc", 200, *offer])
            send, bare = (send + machine.floor(128)) / 2, (bare + machine.accepts()) / 2
        ok = valid(run)
        figures.append((f"idle connection, {kind}, bytes", run["rss_per_conn"] if ok else None))
        if kind == "plain":
            verify = path_nanoseconds("token") / 1000
            figures += [
                ("handshake × accept + epoll_ctl", (run["srv_us_per_handshake"] - verify) / bare if ok else None),
                ("handshake, µs", run["srv_us_per_handshake"] if ok else None), ("token verified, µs", verify), ("accept + epoll_ctl, µs", bare),
                ("subscribe and ack × one send", run["srv_us_per_sub"] / send if ok else None)]
    return figures


def path_nanoseconds(name):
    said = subprocess.run([machine.RELEASE / "bench-paths"], capture_output=True, text=True, timeout=120, check=True).stdout
    return float(next(line.split("\t")[1] for line in said.splitlines() if line.startswith(name + "\t")))


def loops(scale):
    """Two loops on both cores (the generator shares the second one), beside one: CPU for each delivery of the node alone."""
    figures = []
    for window, name in ((1, "one at a time"), (16, "16 in flight")):
        one = fan(scale, window=window)[0]
        two = fan(scale, window=window, loops=2, cores=frozenset({0, 1}))[0]
        figures.append((f"two loops × one, {name}", two / one if one and two else None))
    return figures


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
    return [("presence heartbeat × design's script", ours / design), ("presence heartbeat, µs of Redis a user", ours)]


ROWS = {
    "fan": [
        fan_row("one at a time, embedded", 1, False), fan_row("one at a time, Redis", 1, True), fan_row("16 in flight, embedded", 16, False),
        fan_row("16 in flight, Redis", 16, True), fan_row("64 in flight, embedded", 64, False), fan_row("64 in flight, Redis", 64, True)],
    "rooms": [rooms("rooms, embedded", False), rooms("rooms, Redis", True)],
    "deflate": [deflate],
    "cross": [cross("node to node, one at a time", 1), cross("node to node, 16 in flight", 16)],
    "connections": [connections],
    "heartbeat": [heartbeat],
    "latency": [latency],
    "loops": [loops],
}
