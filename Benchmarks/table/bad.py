"""Bad input for speed: what it costs, beside the same work without it. CPU of the node by the kernel's count; the two take turns.

    scripts/bench bad [NAME…]        cold slow members many storm
"""

import json
import os
import socket
import statistics
import sys
import threading
import time

import machine
import rows

DEV = {"limits.channels": 2_000, "limits.messageBytes": "256KB", "limits.subscribesPerSecond": 0, "limits.messagesPerSecond": 10_000_000, "limits.messageBurst": 10_000_000}


class Client:
    """A WebSocket client as plain as can be: it sends under a mask of zeros and reads what ends with a word."""

    def __init__(self, port, user):
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=60)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.socket.sendall((
            f"GET /v1/ws?user={user} HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
            "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n").encode())
        self.until(b'"welcome"')

    @staticmethod
    def frame(message):
        text = json.dumps(message, separators=(",", ":")).encode()
        length = bytes([0x80 | len(text)]) if len(text) < 126 else bytes([0xFE]) + len(text).to_bytes(2, "big")
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

    def close(self):
        self.socket.close()


def cpu(node):
    """Microseconds, all threads."""
    folder = f"/proc/{node.pid}/task"
    return sum(int(open(f"{folder}/{task}/schedstat").read().split()[0]) for task in os.listdir(folder)) / 1000


def hub(**settings):
    return machine.hub(tokens=False, settings={**DEV, **settings})


def fan(node, subscribers=1000, secs=1.0, window=1):
    run = machine.load(node.port, [node.pid], ["--label", "bad", "--subs", subscribers, "--size", 128, "--window", window, "--secs", secs, "--settle", "0.5"],
                       tokens=False)
    return run["srv_us_per_deliv"] if rows.valid(run) else float("nan"), run["p99_us"]


def cold():
    """One hot channel of 1,000 among 100,000 that are silent: a delivery's CPU × that with no others; the two nodes taking turns."""
    with hub() as empty, hub() as full:
        clients = []
        for number in range(200):
            client = Client(full.port, f"cold-{number}")
            for part in range(5):
                names = [f"cold:{number}:{part * 100 + place}" for place in range(100)]
                client.ask(type="subscribe", channels=names)
            clients.append(client)
        ratios = []
        for _ in range(5):
            alone, among = fan(empty, window=16)[0], fan(full, window=16)[0]
            ratios.append(among / alone)
    return f"a delivery in a hot channel among {200 * 500:,} cold ones × without them: {statistics.median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})"


def slow():
    """One of 10,000 subscribers doesn't read: CPU and p99 of the others × without it."""
    with hub() as calm, hub() as stuck:
        reader = Client(stuck.port, "stuck")
        reader.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        reader.ask(type="subscribe", channel="c0")
        costs, waits = [], []
        for _ in range(3):
            plain, with_it = fan(calm, 10_000), fan(stuck, 10_000)
            costs.append(with_it[0] / plain[0])
            waits.append(with_it[1] / plain[1])
    return (f"10,000 subscribers, one reads nothing × all read: CPU for each delivery {statistics.median(costs):.2f} ({min(costs):.2f} to {max(costs):.2f}), "
            f"p99 {statistics.median(waits):.2f} ({min(waits):.2f} to {max(waits):.2f})")


def members():
    """A channel of 19,000 members on one node: subscribe and delivery × those of 1,900."""
    figures = []
    for count in (1_900, 19_000):
        with hub() as node:
            before = machine.floor(rows.FRAME)
            run = machine.load(
                node.port, [node.pid],
                ["--label", "members", "--subs", count, "--size", 128, "--window", 1, "--secs", 1.5, "--settle", 2, "--sub-conc", 200], tokens=False)
            rows.valid(run)
            cost = run["srv_us_per_deliv"] / ((before + machine.floor(rows.FRAME)) / 2)
            idle = machine.load(
                node.port, [node.pid],
                ["--label", "members", "--subs", count, "--idle", "--settle", 2, "--sub-conc", 200], tokens=False)
            figures.append((count, idle["srv_us_per_sub"], cost))
    return "; ".join(f"a channel of {count:,} members: {join:.1f} µs for each subscribe, a delivery {cost:.2f} × floor" for count, join, cost in figures)


def many():
    """A thousand channels for each connection: a subscription, a publication in one of them, and the end, × with ten channels each."""
    figures = []
    for per in (10, 1_000):
        with hub() as node:
            connections = 2_000 // per if per == 10 else 20
            clients = [Client(node.port, f"u{number}") for number in range(connections)]
            time.sleep(0.5)
            began, count = cpu(node), 0
            for number, client in enumerate(clients):
                for first in range(0, per, 100):
                    names = [f"many:{number}:{place}" for place in range(first, min(first + 100, per))]
                    client.ask(type="subscribe", channels=names)
                    count += len(names)
            time.sleep(0.3)
            subscribed = (cpu(node) - began) / count
            began = cpu(node)
            for turn in range(500):
                clients[turn % connections].send({"type": "chat", "channel": f"many:{turn % connections}:{turn % per}", "payload": 1})
                clients[turn % connections].until(b'"chat"')
            published = (cpu(node) - began) / 500
            began = cpu(node)
            for client in clients:
                client.close()
            time.sleep(1)
            figures.append((per, subscribed, published, (cpu(node) - began) / count))
    return "; ".join(
        f"{per:,} channels a connection: {join:.1f} µs for each subscription, {published:.0f} µs for a publication and its delivery, "
        f"{end:.1f} µs for each as the connection ends" for per, join, published, end in figures)


def storm():
    """Subscribe and unsubscribe as fast as they are answered, in a channel with 5,000 others and in an empty one; how a pair that chats fares."""
    figures = []
    for others in (0, 5_000):
        with hub() as node:
            crowd, noisy = [Client(node.port, f"o{number}") for number in range(others)], Client(node.port, "noisy")
            for client in crowd:
                client.ask(type="subscribe", channel="storm")
            one, other = Client(node.port, "one"), Client(node.port, "other")
            other.ask(type="subscribe", channel="calm")
            waits = []

            def chat(seconds, waits=waits, one=one, other=other):
                until = time.monotonic() + seconds
                while time.monotonic() < until:
                    began = time.perf_counter()
                    one.send({"type": "chat", "channel": "calm", "payload": 1})
                    other.until(b'"chat"')
                    waits.append(time.perf_counter() - began)
                    time.sleep(0.01)

            chat(1)
            calm = statistics.median(waits)
            waits.clear()
            pair = ({"type": "subscribe", "id": 1, "channel": "storm"}, {"type": "unsubscribe", "id": 1, "channel": "storm"})
            block = pair * 50
            chatting = threading.Thread(target=chat, args=(2,))
            began, count, until = cpu(node), 0, time.monotonic() + 2
            chatting.start()
            while time.monotonic() < until:
                noisy.send(*block)
                noisy.until(b'"ack"', len(block))
                count += len(block)
            chatting.join()
            figures.append((len(crowd), (cpu(node) - began) / count, statistics.median(waits) / calm))
            for client in crowd:
                client.close()
    return "; ".join(
        f"subscribe and unsubscribe in turn, {others:,} others there: {cost:.1f} µs each; a chat beside it takes {wait:.2f} × its calm time"
        for others, cost, wait in figures)


def main(names):
    cases = {case.__name__: case for case in (cold, slow, members, many, storm)}
    machine.build()
    for name in names or cases:
        if name not in cases:
            raise SystemExit(f"bench bad: there's no {name}; there are {' '.join(cases)}")
        print(f"{cases[name]()}  [load {os.getloadavg()[0]:.0f}]", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
