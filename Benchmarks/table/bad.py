"""Bad input for speed: what it costs and how others fare meanwhile, beside the same without it. Windows with and without take turns.

    scripts/bench bad              all of it, embedded and on Redis, and writes it into docs/performance.md; under six minutes
    scripts/bench bad quick        one round, printed; three minutes
    scripts/bench bad NAME…        these alone, printed: cold slow members many storm

How others fare: a pair of clients in a channel of its own (clients.py), and the longest stretch that a thread of the node worked without looking at its
sockets (stretches.c), in CPU time, which other work on the machine doesn't lengthen.
"""

import os
import statistics
import sys
import time

import clients
import machine
import page
import rows

NAME = "scripts/bench bad"


class Report:
    """What a run found: lines of costs, and waits of pairs."""

    def __init__(self):
        self.costs, self.waits, self.loads = [], {}, []

    def cost(self, what, broker, text):
        self.costs.append((what, broker, text))
        print(f"{what}, {broker}: {text}  [load {self.note_load():.0f}]", flush=True)

    def note_load(self):
        self.loads.append(os.getloadavg()[0])
        return self.loads[-1]

    def wait(self, what, broker, node, samples, begin, end):
        """Of what lies between the two."""
        row = self.waits.setdefault((what, broker), {"waits": [], "hub-loop": 0, "hub-backplane": 0})
        row["waits"] += [wait for when, wait in samples if begin <= when <= end]
        for thread in ("hub-loop", "hub-backplane"):
            row[thread] = max(row[thread], node.stretches.longest(thread, begin, end))

    def tables(self):
        yield "| input | broker | what it costs |"
        yield "|---|---|---|"
        for line in self.costs:
            yield "| " + " | ".join(line) + " |"
        yield ""
        yield "| a pair in another channel, while | broker | chats | median | p99 | longest | stretch of the loop | of the backplane |"
        yield "|---|---|---|---|---|---|---|---|"
        for (what, broker), row in self.waits.items():
            waits = sorted(row["waits"])
            if not waits:
                raise SystemExit(f"bench bad: the pair heard nothing while {what} ({broker})")
            figures = [statistics.median(waits), waits[min(int(len(waits) * 0.99), len(waits) - 1)], waits[-1], row["hub-loop"], row["hub-backplane"]]
            # Embedded, a node of one loop does all of it on that loop's thread.
            cells = [f"{figure * 1000:.2f}" for figure in figures[:4 if broker == "embedded" else 5]] + ["–"] * (broker == "embedded")
            yield f"| {what} | {broker} | {len(waits):,} | " + " | ".join(cells) + " |"


report = Report()
rounds = 3
# Seconds for all of it, shared by the cases; past its time a case takes no further round.
BUDGET = 330
due = 0.0


def turns():
    """Numbers of rounds, at least one."""
    for number in range(rounds):
        if number and time.monotonic() > due:
            return
        yield number


def spread(values):
    return f"{statistics.median(values):.2f} ({min(values):.2f} to {max(values):.2f}, {len(values)} runs)" if values else "no valid run"


def silence(broker, node):
    """The pair alone."""
    node.pair.go()
    begin = time.monotonic()
    time.sleep(0.7)
    report.wait("nothing else goes on", broker, node, node.pair.stop(), begin, time.monotonic())


def fan(what, broker, node, subscribers=1000, secs=1.0, window=1):
    """What the generator says; None when the run isn't valid. The pair's waits are those of its time of publishing."""
    # The generator's process ends a while after it has measured, when its sockets are closed: what the pair sees then is of its warming up, which is the same.
    tail = 0.3 + subscribers / 25_000
    node.pair.go()
    run = machine.load(node.port, node.pids, [
        "--label", "bad", "--subs", subscribers, "--size", 128, "--window", window, "--secs", secs, "--settle", "0.5", "--warm", tail, "--sub-conc", 200],
        tokens=False)
    end = time.monotonic() - tail
    report.wait(what, broker, node, node.pair.stop(), end - secs, end)
    return run if rows.valid(run) else None


def in_turn(without, beside):
    """Both, `rounds` times, the first one alternating: pairs of results that are valid."""
    results = []
    for number in turns():
        if number % 2:
            later = beside()
            results.append((without(), later))
        else:
            results.append((without(), beside()))
    return [pair for pair in results if None not in pair]


def cold(broker):
    """One hot channel of 1,000, 16 messages in flight, among 100,000 that are silent."""
    channels = 100_000
    with clients.hub(broker == "Redis") as alone, clients.hub(broker == "Redis") as among:
        there = []
        for number in range(channels // 500):
            client = clients.Client(among.port, f"cold-{number}")
            for part in range(0, 500, 100):
                client.ask(type="subscribe", channels=[f"cold:{number}:{place}" for place in range(part, part + 100)])
            there.append(client)
        silence(broker, alone)
        keep = upkeep(among)
        results = in_turn(
            lambda: fan("a channel of 1,000 is hot", broker, alone, window=16),
            lambda: fan(f"the same among {channels:,} cold ones", broker, among, window=16))
        found = clients.metric(among, "hub_channels")
        if found < channels:
            raise SystemExit(f"bench bad: of {channels:,} cold channels {found:,.0f} are left")
    def each(run, kept=0.0):
        """Seconds of the node's CPU for each delivery."""
        return (run["srv_cpu_each"][0] - kept * run["secs"]) / run["deliveries"]

    told = f"the node's CPU for a delivery × without them: {spread([each(b, keep[0]) / each(a) for a, b in results])}, without what members' leases cost: "
    told += f"{keep[0] * 100:.1f} % of a core of the node" + (f" and {keep[1] * 100:.0f} % of one of Redis" if keep[1:] else "")
    report.cost(f"one hot channel among {channels:,} cold ones of a member each", broker, told)


def upkeep(node, seconds=4):
    """What a node and its Redis take while nothing is said, in cores."""
    before, began = clients.cpus(node), time.monotonic()
    time.sleep(seconds)
    return [(now - then) / 1e6 / (time.monotonic() - began) for then, now in zip(before, clients.cpus(node))]


def slow(broker):
    """One of 10,000 subscribers reads nothing: the hub queues for it, which is looked up in its metrics."""
    others = 10_000
    with clients.hub(broker == "Redis") as calm, clients.hub(broker == "Redis") as stuck:
        reader, publisher = clients.Client(stuck.port, "stuck", receive_buffer=4096), clients.Client(stuck.port, "filler")
        reader.ask(type="subscribe", channels=["c0", "fill"])

        def fill(size, until, most):
            """Only the reader hears it. The kernel takes some 4 MB for it before the hub has to keep anything."""
            said = 0
            while not until():
                if said > most:
                    raise SystemExit(f"bench bad: {said:,} bytes, and the hub's own queue for the slow reader isn't where it should be")
                publisher.ask(type="chat", channel="fill", payload="x" * size)
                said += size
            return said

        def queued():
            return clients.metric(stuck, "hub_send_memory_bytes")

        kernel = fill(64_000, queued, 64_000_000)
        silence(broker, calm)
        queue = []

        def beside():
            before = queued()
            result = fan(f"one of {others:,} subscribers reads nothing", broker, stuck, others, secs=2)
            queue.append(queued())
            if not before or not queue[-1] or clients.metric(stuck, "hub_slow_closed_total"):
                raise SystemExit("bench bad: the slow reader wasn't queued for throughout")
            return result

        results = in_turn(lambda: fan(f"all of {others:,} subscribers read", broker, calm, others, secs=2), beside)
        stuck.pair.go()
        begin = time.monotonic()
        fill(64_000, lambda: clients.metric(stuck, "hub_slow_closed_total"), 8_000_000)
        time.sleep(0.2)
        report.wait("its queue is filled up and it's closed for it (4008)", broker, stuck, stuck.pair.stop(), begin, time.monotonic())
    costs, waits = ([b[name] / a[name] for a, b in results] for name in ("srv_us_per_deliv", "p99_us"))
    report.cost(
        f"one of {others:,} subscribers reads nothing", broker,
        f"× all read: CPU for each delivery {spread(costs)}, p99 of the others {spread(waits)}. The kernel had taken some {kernel / 1e6:.1f} MB for it; meanwhile the "
        f"hub's own queue held {min(queue) / 1024:,.0f} to {max(queue) / 1024:,.0f} KB (`hub_send_memory_bytes`); filled up, it was closed (`hub_slow_closed_total` 1)")


def members(broker):
    """A channel of 1,900 members and one of 19,000 on a node: subscribing, and a delivery × floor, which has as many sockets."""
    counts = (1_900, 19_000)
    with clients.hub(broker == "Redis") as small, clients.hub(broker == "Redis") as large:
        joins, costs = {count: [] for count in counts}, {count: [] for count in counts}
        silence(broker, small)

        def join(node, count):
            node.pair.go()
            begin = time.monotonic()
            idle = machine.load(node.port, node.pids, ["--label", "members", "--subs", count, "--idle", "--settle", 1, "--sub-conc", 200], tokens=False)
            # Its sockets are closed all at once, which isn't joining.
            report.wait(f"{count:,} members join", broker, node, node.pair.stop(), begin, time.monotonic() - 1)
            if rows.valid({**idle, "acks": idle.get("acks", count)}):
                joins[count].append(idle["srv_us_per_sub"])

        def say(node, count):
            before = clients.floor(count, rows.FRAME)
            run = fan(f"messages to {count:,} members, one at a time", broker, node, count, secs=1 + count / 10_000)
            if run:
                costs[count].append(run["srv_us_per_deliv"] / ((before + clients.floor(count, rows.FRAME)) / 2))

        nodes = ((small, counts[0]), (large, counts[1]))
        for node, count in nodes:
            join(node, count)
        for number in turns():
            for node, count in nodes[::-1 if number % 2 else 1]:
                say(node, count)
    report.cost("a channel of " + ", of ".join(f"{count:,}" for count in counts) + " members", broker, "; ".join(
        f"{statistics.median(joins[count]) if joins[count] else float('nan'):.1f} µs for each subscribe, a delivery {spread(costs[count])} × floor with as many sockets"
        for count in counts))


def many(broker):
    """A thousand channels for each connection, and ten: a subscription, a publication in one of them, and the end, which the pair's chat follows at once."""
    kinds = ((10, 100), (1_000, 20))
    figures = {per: {"subscribe": [], "publish": [], "end": []} for per, _ in kinds}
    with clients.hub(broker == "Redis") as few, clients.hub(broker == "Redis") as lots:
        silence(broker, few)
        for number in turns():
            for node, (per, connections) in ((few, kinds[0]), (lots, kinds[1]))[::-1 if number % 2 else 1]:
                many_once(broker, node, per, connections, f"{number}", figures[per])
        if clients.metric(lots, "hub_subscriptions") > 100:
            raise SystemExit("bench bad: subscriptions outlive their connections")
    middle = {per: {name: statistics.median(values) for name, values in kinds.items()} for per, kinds in figures.items()}
    report.cost("10 channels a connection, 1,000", broker, "; ".join(
        f"{middle[10][name]:.1f} and {middle[1_000][name]:.1f} µs {what}" for name, what in (
            ("subscribe", "for each subscription"), ("publish", "for a publication and its delivery"), ("end", "for each subscription as its connection ends"))))


def many_once(broker, node, per, connections, tag, figures):
    there = clients.Client.several(node.port, (f"u{tag}-{number}" for number in range(connections)))
    chat = clients.Chat(node.port, "aimed")
    time.sleep(0.3)
    node.pair.go()
    begin, began = time.monotonic(), clients.cpu(node)
    for number, client in enumerate(there):
        for first in range(0, per, 100):
            client.ask(type="subscribe", channels=[f"many:{number}:{place}" for place in range(first, min(first + 100, per))])
    samples, end = node.pair.stop(), time.monotonic()
    time.sleep(0.2)
    figures["subscribe"].append((clients.cpu(node) - began) / (per * connections))
    report.wait(f"connections subscribe to {per:,} channels each", broker, node, samples, begin, end)
    began = clients.cpu(node)
    for turn in range(300):
        client = there[turn % connections]
        client.send({"type": "chat", "channel": f"many:{turn % connections}:{turn % per}", "payload": 1})
        client.until(b'"chat"')
    figures["publish"].append((clients.cpu(node) - began) / 300)
    for _ in range(3):
        chat.once()
    begin, began, samples, chats = time.monotonic(), clients.cpu(node), [], 0
    for client in there:
        client.close()
        samples.append((time.monotonic(), chat.once()))
        time.sleep(0.01)
    end = time.monotonic()
    time.sleep(0.3)
    spent = clients.cpu(node) - began
    report.wait(f"a connection with {per:,} channels has just ended", broker, node, samples, begin, end)
    # What the chats cost by themselves, as often, comes off.
    began = clients.cpu(node)
    for _ in there:
        chat.once()
        time.sleep(0.01)
    time.sleep(0.3)
    figures["end"].append(max(0, spent - (clients.cpu(node) - began)) / (per * connections))
    chat.close()
    come_back(broker, node, per, connections, tag)


def come_back(broker, node, per, connections, tag):
    """Clients that had all their channels ask for them in one request, from where they were."""
    names = [[f"many:{number}:{place}" for place in range(per)] for number in range(connections)]
    there = clients.Client.several(node.port, (f"v{tag}-{number}" for number in range(connections)))
    where = [client.subscribe(some) for client, some in zip(there, names)]
    for client in there:
        client.close()
    time.sleep(0.5)
    there = clients.Client.several(node.port, (f"w{tag}-{number}" for number in range(connections)))
    time.sleep(0.3)
    node.pair.go()
    begin = time.monotonic()
    for client, some, positions in zip(there, names, where):
        client.subscribe([{"channel": name, "position": positions[name]} for name in some])
    samples, end = node.pair.stop(), time.monotonic()
    report.wait(f"connections come back to {per:,} channels each, in one request", broker, node, samples, begin, end)
    for client in there:
        client.close()
    time.sleep(0.3)


def storm(broker):
    """Subscribe and unsubscribe as fast as they are answered, 100 requests at a time, in an empty channel and in one with 5,000 others."""
    pair = ({"type": "subscribe", "id": 1, "channel": "storm"}, {"type": "unsubscribe", "id": 1, "channel": "storm"})
    block = b"".join(map(clients.Client.frame, pair * 50))
    with clients.hub(broker == "Redis") as empty, clients.hub(broker == "Redis") as full:
        crowd = clients.Client.several(full.port, (f"o{number}" for number in range(5_000)), type="subscribe", channel="storm")
        noisy = {node: clients.Client(node.port, "noisy") for node in (empty, full)}
        costs = {empty: [], full: []}

        def once(node, what):
            silence(broker, node)
            node.pair.go()
            begin, began, count = time.monotonic(), clients.cpu(node), 0
            while time.monotonic() < begin + 1:
                noisy[node].socket.sendall(block)
                noisy[node].until(b'"ack"', 100)
                count += 100
            report.wait(what, broker, node, node.pair.stop(), begin, time.monotonic())
            costs[node].append((clients.cpu(node) - began) / count)

        for number in turns():
            for node, what in ((empty, "a storm of subscribe and unsubscribe"), (full, "the same in a channel of 5,000"))[::-1 if number % 2 else 1]:
                once(node, what)
        for client in crowd:
            client.close()
    report.cost("subscribe and unsubscribe as fast as they're answered, in an empty channel, in one of 5,000", broker,
                f"{statistics.median(costs[empty]):.1f} and {statistics.median(costs[full]):.1f} µs each, a share of a turn (64 requests) so "
                f"{statistics.median(costs[full]) * 64 / 1000:.1f} ms")


def main(names):
    global rounds, due
    cases = {case.__name__: case for case in (cold, slow, members, many, storm)}
    is_quick = "quick" in names
    names = [name for name in names if name != "quick"]
    for name in names:
        if name not in cases:
            raise SystemExit(f"bench bad: there's no {name}; there are {' '.join(cases)}")
    rounds = int(os.environ.get("RUNS", 1 if is_quick else rounds))
    commit = page.commit()
    clients.prepare()
    began = time.monotonic()
    report.note_load()
    plan = [(name, broker) for name in names or cases for broker in ("embedded", "Redis") if (name, broker) != ("slow", "Redis")]
    for number, (name, broker) in enumerate(plan):
        due = began + BUDGET * (number + 0.8) / len(plan)
        cases[name](broker)
        print(f"{time.monotonic() - began:5.0f} s", flush=True)
    told = page.circumstances(commit, NAME, rounds, time.monotonic() - began, report.loads)
    tables = "\n".join(report.tables())
    print(told, tables, sep="\n\n")
    if not names and not is_quick:
        page.put(NAME, f"{told} Waits and stretches in ms, of all rounds together.\n\n{tables}")


if __name__ == "__main__":
    main(sys.argv[1:])
