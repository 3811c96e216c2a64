"""Redis as people run it: with users and TLS, behind sentinels, as a cluster. Every server is a process of the test's own."""

import socket
import subprocess

from hub import Process, eventually, free_port


class Redis(Process):
    """One redis-server. `extra`: arguments and settings; `user`, `password`, `tls` (a context): how `call` introduces itself."""

    def __init__(self, folder, *extra, port=None, user=None, password=None, tls=None, name="redis"):
        self.port = port or free_port()
        self.url = f"redis://127.0.0.1:{self.port}"
        self.user, self.password, self.tls = user, password, tls
        self.arguments = (
            ["redis-server", "--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--dir", folder, "--repl-diskless-sync-delay", "0"]
            + (["--port", "0", "--tls-port", self.port] if tls else ["--port", self.port]) + list(extra))
        super().__init__(name, self.arguments, folder)
        eventually(self._answers, 10, f"{name} answers")

    def _answers(self):
        assert self.is_running, f"{self.name} ended:\n{self.log}"
        try:
            return self.call("PING") == "PONG"
        except OSError:
            return False

    def call(self, *words):
        """One command's reply; an error is a RedisError."""
        with socket.create_connection(("127.0.0.1", self.port), timeout=5) as plain:
            link = self.tls.wrap_socket(plain, server_hostname="localhost") if self.tls else plain
            with link, link.makefile("rb") as answers:
                if self.password:
                    send(link, "AUTH", *([self.user] if self.user else []), self.password)
                    receive(answers)
                send(link, *words)
                return receive(answers)

    # As the other one's interface.
    def command(self, *words):
        return self.call(*words)

    def links(self, name=None):
        """The connections of nodes, as CLIENT LIST has them."""
        return [line for line in self.call("CLIENT", "LIST").splitlines() if f"name={name or 'hub-'}" in line]


class RedisError(Exception):
    pass


def send(link, *words):
    words = [word if isinstance(word, bytes) else str(word).encode() for word in words]
    link.sendall(b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%s\r\n" % (len(word), word) for word in words))


def receive(answers, is_text=True):
    """One reply; without `is_text`, what is in it stays bytes."""
    line = answers.readline().decode().rstrip("\r\n")
    if not line:
        raise ConnectionError("closed")
    kind, rest = line[0], line[1:]
    if kind == "+":
        return rest
    if kind == "-":
        raise RedisError(rest)
    if kind == ":":
        return int(rest)
    if int(rest) < 0:
        return None
    if kind == "$":
        data = answers.read(int(rest) + 2)[:-2]
        return data.decode(errors="replace") if is_text else data
    return [receive(answers, is_text) for _ in range(int(rest))]


class Sentinel(Process):
    user = None
    call = Redis.call

    def __init__(self, folder, master, quorum, lines=(), name="main", password=None, tls=None):
        self.password, self.tls = password, tls
        self.port = free_port()
        self.url = f"{'rediss' if tls else 'redis'}://127.0.0.1:{self.port}"
        self.master = name
        config = folder / f"sentinel-{self.port}.conf"
        config.write_text("\n".join([
            *(["port 0", f"tls-port {self.port}"] if tls else [f"port {self.port}"]), "bind 127.0.0.1", f"dir {folder}", f"sentinel monitor {name} 127.0.0.1 {master.port} {quorum}",
            f"sentinel down-after-milliseconds {name} 800", f"sentinel failover-timeout {name} 4000", f"sentinel parallel-syncs {name} 1", *lines, ""]))
        super().__init__("sentinel", ["redis-server", config, "--sentinel"], folder)
        eventually(self._knows, 10, "the sentinel answers")

    def _knows(self):
        try:
            return self.call("PING") == "PONG"
        except OSError:
            return False

    def says(self):
        """The port of the master, by its word."""
        return int(self.call("SENTINEL", "GET-MASTER-ADDR-BY-NAME", self.master)[1])


class Watched:
    """A master, a replica and three sentinels that know of each other and of the replica."""

    def __init__(self, start, *extra, lines=(), sentinel_password=None, **introduction):
        self.master = start(Redis, *extra, **introduction)
        auth = []
        if introduction.get("password"):
            auth += ["--masterauth", introduction["password"]] + (["--masteruser", introduction["user"]] if introduction.get("user") else [])
        self.replica = start(Redis, "--replicaof", f"127.0.0.1 {self.master.port}", *auth, *extra, **introduction)
        self.sentinels = [
            start(Sentinel, self.master, 2, lines, password=sentinel_password, tls=introduction.get("tls")) for _ in range(3)]
        self.settings = {"redis.sentinel.urls": ",".join(sentinel.url for sentinel in self.sentinels), "redis.sentinel.master": "main"}

        def ready():
            states = [sentinel.call("SENTINEL", "MASTER", "main") for sentinel in self.sentinels]
            facts = [dict(zip(state[::2], state[1::2])) for state in states]
            return all(fact["num-slaves"] == "1" and fact["num-other-sentinels"] == "2" for fact in facts)

        eventually(ready, 15, "the sentinels know each other and the replica")
        eventually(lambda: "master_link_status:up" in self.replica.call("INFO", "replication"), 10, "the replica follows")


class Cluster:
    """Masters, with a replica each if wanted, made into a cluster by redis-cli. The slots are shared out evenly."""

    def __init__(self, start, masters=3, replicas=0, *extra, timeout=1500):
        self.start, self.extra, self.timeout = start, extra, timeout
        self.nodes = [self.new_node() for _ in range(masters * (1 + replicas))]
        addresses = [f"127.0.0.1:{node.port}" for node in self.nodes]
        self.cli("--cluster", "create", *addresses, "--cluster-replicas", str(replicas), "--cluster-yes")
        eventually(lambda: all("cluster_state:ok" in node.call("CLUSTER", "INFO") for node in self.nodes), 20, "the cluster is whole")
        if replicas:
            eventually(lambda: sum("master_link_status:up" in node.call("INFO", "replication") for node in self.nodes) == masters * replicas, 15)
        self.urls = ",".join(node.url for node in self.nodes[:2])
        self.settings = {"redis.cluster": self.urls}

    def new_node(self):
        port, bus = free_port(), free_port()
        node = self.start(
            Redis, "--cluster-enabled", "yes", "--cluster-config-file", f"nodes-{port}.conf", "--cluster-port", bus,
            "--cluster-node-timeout", self.timeout, *self.extra, port=port)
        node.bus = bus
        return node

    def join(self):
        """A new master without slots, which all others know."""
        node = self.new_node()
        node.call("CLUSTER", "MEET", "127.0.0.1", self.nodes[0].port, self.nodes[0].bus)
        everybody = [*self.nodes, node]
        eventually(lambda: all(all(self.id_of(other) in one.call("CLUSTER", "NODES") for other in everybody) for one in everybody), 15)
        eventually(lambda: "cluster_state:ok" in node.call("CLUSTER", "INFO"), 15)
        self.nodes = everybody
        return node

    def cli(self, *arguments):
        done = subprocess.run(["redis-cli", *arguments], capture_output=True, text=True, timeout=60)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def id_of(self, node):
        return node.call("CLUSTER", "MYID")

    def slots(self, asked=None):
        """[(first, last, port of the master, ports of replicas)]"""
        asked = asked or next(node for node in self.nodes if node.is_running)
        return [(entry[0], entry[1], entry[2][1], [replica[1] for replica in entry[3:]]) for entry in asked.call("CLUSTER", "SLOTS")]

    def owner(self, slot, asked=None):
        port = next(port for first, last, port, _ in self.slots(asked) if first <= slot <= last)
        return next(node for node in self.nodes if node.port == port)

    def move_slot(self, slot, to, taken=lambda: None):
        """As redis-cli's reshard does, but one slot and more keys at a time. `taken()` once the new owner says that it's its own."""
        source = self.owner(slot)
        if source is to:
            return
        to.call("CLUSTER", "SETSLOT", slot, "IMPORTING", self.id_of(source))
        source.call("CLUSTER", "SETSLOT", slot, "MIGRATING", self.id_of(to))
        while keys := source.call("CLUSTER", "GETKEYSINSLOT", slot, 500):
            source.call("MIGRATE", "127.0.0.1", to.port, "", 0, 5000, "KEYS", *keys)
        name = self.id_of(to)
        to.call("CLUSTER", "SETSLOT", slot, "NODE", name)
        taken()
        source.call("CLUSTER", "SETSLOT", slot, "NODE", name)


def fnv1a(text):
    value = 0xCBF29CE484222325
    for byte in text.encode():
        value = (value ^ byte) * 0x100000001B3 % 2**64
    return value


def slot_of(name):
    """The slot of a channel's or a user's keys."""
    return int(hub_partitions()[fnv1a(name) % 256][1])


def hub_partitions():
    """(tag, slot) of each partition: the smallest integer whose digits fall into its share of the slots."""
    found = {}
    number = 0
    while len(found) < 256:
        slot = crc16(str(number)) % 16384
        found.setdefault(slot // 64, (str(number), slot))
        number += 1
    return [found[partition] for partition in range(256)]


def crc16(text):
    crc = 0
    for byte in text.encode():
        crc ^= byte << 8
        for _ in range(8):
            crc = (crc << 1 ^ 0x1021 if crc & 0x8000 else crc << 1) & 0xFFFF
    return crc
