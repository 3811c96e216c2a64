"""What bad input is made of and measured by: plain clients, a pair that chats meanwhile, a node whose stretches of work are noted."""

import contextlib
import json
import mmap
import multiprocessing
import os
import pathlib
import random
import re
import resource
import socket
import struct
import subprocess
import time
import urllib.request

import machine

# Pings would end clients that don't read, and they're not what is measured.
DEV = {
    "ping": "10m", "limits.channels": 2_000, "limits.messageBytes": "256KB", "limits.subscribesPerSecond": 0, "limits.bytesPerSecond": 0,
    "limits.messagesPerSecond": 10_000_000, "limits.messageBurst": 10_000_000}


class Client:
    """A WebSocket client as plain as can be: it sends under a mask of zeros and reads what ends with a word."""

    def __init__(self, port, user, receive_buffer=None, waits=True):
        self.socket = socket.socket()
        if receive_buffer:
            # Before it connects: later the window has been offered.
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        self.socket.settimeout(60)
        self.socket.connect(("127.0.0.1", port))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.socket.sendall((
            f"GET /v1/ws?user={user} HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
            "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n").encode())
        if waits:
            self.until(b'"welcome"')

    @classmethod
    def several(cls, port, users, **request):
        """Many, a hundred at a time: on a busy machine each round trip of one alone takes its time. `request` is asked by each."""
        users, there = list(users), []
        for first in range(0, len(users), 100):
            some = [cls(port, user, waits=False) for user in users[first:first + 100]]
            for client in some:
                client.until(b'"welcome"')
            if request:
                for client in some:
                    client.send({"id": 1, **request})
                for client in some:
                    client.until(b'"id":1')
            there += some
        return there

    @staticmethod
    def frame(message):
        text = json.dumps(message, separators=(",", ":")).encode()
        length = bytes([0x80 | len(text)]) if len(text) < 126 else bytes([0xFE]) + len(text).to_bytes(2, "big") if len(text) < 65_536 else (
            bytes([0xFF]) + len(text).to_bytes(8, "big"))
        return b"\x81" + length + b"\0\0\0\0" + text

    def send(self, *messages):
        self.socket.sendall(b"".join(map(self.frame, messages)))

    def until(self, word, times=1):
        held = b""
        while times > 0:
            part = self.socket.recv(1 << 16)
            if not part:
                raise SystemExit("bench: the node closed a connection")
            held += part
            found = held.count(word)
            times -= found
            held = held[held.rfind(word) + len(word):] if found else held[-len(word):]

    def ask(self, **message):
        self.send({"id": 1, **message})
        self.until(b'"id":1')

    def subscribe(self, channels):
        """One request for all of them; their positions, by name."""
        self.send({"id": 1, "type": "subscribe", "channels": channels})
        held, found = b"", {}
        while len(found) < len(channels):
            part = self.socket.recv(1 << 16)
            if not part:
                raise SystemExit("bench: the node closed a connection")
            held += part
            found = dict(re.findall(rb'"channel":"([^"]+)"[^{}]*?"position":"([^"]+)"', held))
        return {channel.decode(): position.decode() for channel, position in found.items()}

    def close(self):
        self.socket.close()


class Chat:
    """Two clients in a channel of their own: one says something, the other waits for it."""

    def __init__(self, port, name="calm"):
        self.one, self.other = Client(port, f"{name}-one"), Client(port, f"{name}-other")
        self.other.ask(type="subscribe", channel=name)
        self.said = Client.frame({"type": "chat", "channel": name, "payload": 1})

    def once(self):
        """Seconds from saying to hearing."""
        began = time.perf_counter()
        self.one.socket.sendall(self.said)
        self.other.until(b'"chat"')
        return time.perf_counter() - began

    def close(self):
        self.one.close()
        self.other.close()


class Pair:
    """A `Chat` in a process of its own that runs before all else on core 1, every 2 to 8 ms (at random, lest it beats with what it's to notice)."""

    def __init__(self, node):
        self.link, far = multiprocessing.Pipe()
        self.process = multiprocessing.get_context("fork").Process(target=self.run, args=(node.port, far), daemon=True)
        self.process.start()

    @staticmethod
    def run(port, link):
        os.setsid()
        with contextlib.suppress(OSError):
            os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))
        chat = Chat(port)
        while link.recv() == "go":
            samples = []
            while not link.poll():
                wait = chat.once()
                samples.append((time.monotonic(), wait))
                time.sleep(random.uniform(0.002, 0.008))
            link.recv()
            link.send(samples)

    def go(self):
        self.link.send("go")

    def stop(self):
        """(when it was heard, how long it took), by the monotonic clock, in seconds."""
        self.link.send("stop")
        if not self.link.poll(60):
            raise SystemExit("bench: the pair hears nothing any more")
        return self.link.recv()

    def close(self):
        self.process.kill()
        self.process.join()


def prepare():
    """For a driver that is a client itself, with many sockets."""
    machine.build()
    source, target = machine.TOP / "Benchmarks" / "Load" / "stretches.c", machine.OUT / "stretches.so"
    if not target.exists() or source.stat().st_mtime > target.stat().st_mtime:
        subprocess.run(["cc", "-O2", "-Wall", "-Wextra", "-shared", "-fPIC", "-o", target, source, "-ldl"], check=True)
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limit))
    os.sched_setaffinity(0, {1})
    with contextlib.suppress(OSError):
        os.nice(-20)


class Stretches:
    """What stretches.c noted."""

    SLOT, SLOTS, THREADS = 0.05, 4096, 16

    def __init__(self, path, pid):
        with open(path, "r+b") as file:
            self.bytes = mmap.mmap(file.fileno(), 0)
        self.pid = pid

    def longest(self, name, begin, end):
        """Seconds of CPU of the longest stretch of the threads of that name from `begin` to `end`."""
        found, size = 0, 16 + 16 * self.SLOTS
        for place in range(self.THREADS):
            thread = struct.unpack_from("Q", self.bytes, place * size)[0]
            file = pathlib.Path(f"/proc/{self.pid}/task/{thread}/comm")
            if not thread or not file.exists() or not file.read_text().startswith(name):
                continue
            for number in range(int(begin / self.SLOT), int(end / self.SLOT) + 1):
                which, stretch = struct.unpack_from("QQ", self.bytes, place * size + 16 + 16 * (number % self.SLOTS))
                if which == number:
                    found = max(found, stretch)
        return found / 1e9


@contextlib.contextmanager
def hub(on_redis=False, **settings):
    """A node in development mode, embedded or on a Redis of its own. `pids`: whose CPU counts; `pair`: chats when told to."""
    with contextlib.ExitStack() as stack:
        redis = stack.enter_context(machine.redis()) if on_redis else None
        file = machine.OUT / f"stretches-{os.getpid()}-{time.monotonic_ns()}"
        stack.callback(lambda: file.unlink(missing_ok=True))
        os.environ |= {"STRETCHES": str(file), "LD_PRELOAD": str(machine.OUT / "stretches.so")}
        try:
            node = stack.enter_context(machine.hub(redis.port if redis else None, tokens=False, settings={**DEV, **settings}))
        finally:
            del os.environ["STRETCHES"], os.environ["LD_PRELOAD"]
        node.stretches = Stretches(file, node.pid)
        node.pids = [node.pid] + ([redis.pid] if redis else [])
        node.pair = Pair(node)
        stack.callback(node.pair.close)
        yield node


def floor(sockets, size):
    """CPU microseconds of a delivery to so many sockets by bare sends."""
    run = machine.spawn({0, 1}, [machine.OUT / "limit", "fan", "--n", sockets, "--size", size, "--secs", "0.4", "--warm", "0.2"],
                        stdout=subprocess.PIPE, text=True)
    return json.loads(run.communicate(timeout=60)[0])["us_per_delivery"]


def metric(node, name):
    with urllib.request.urlopen(f"http://127.0.0.1:{node.port}/metrics", timeout=30) as answer:
        lines = answer.read().decode().splitlines()
    return float(next(line.rsplit(" ", 1)[1] for line in lines if line.startswith(name + " ")))


def cpus(node):
    """Microseconds of all threads, of the node and of its Redis."""
    return [sum(int(open(f"/proc/{pid}/task/{task}/schedstat").read().split()[0]) for task in os.listdir(f"/proc/{pid}/task")) / 1000 for pid in node.pids]


def cpu(node):
    return sum(cpus(node))
