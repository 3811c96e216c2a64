"""Where the CPU of a row's work goes: a profile of the node and of Redis on core 0, of the measured window alone.

    scripts/bench profile WORK [embedded]     one sixteen sixtyfour rooms latency plain deflated handshake subscribe cross
                                              crosssixteen (node to node); on Redis without a second word

Shares are of samples (`perf record -e cpu-clock -g`: such machines have no hardware counters), and so of CPU time. Beside them stands what the scheduler says
of each thread: how long it ran, and how long it waited for the core. What perf itself costs is in the figures, a few per cent: compare shares.
"""

import collections
import contextlib
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time

import machine
import rows

# Of a run's seconds the first five are looked at: at its end the generator waits for what is under way, and closes its connections.
SECONDS, LOOKED_AT, FUNCTIONS = 6, 5, 25
OPENING = ("handshake", "subscribe")
# Published at one node, delivered by another: by the row's work.
CROSS = {"cross": "one", "crosssixteen": "sixteen"}
DATA = machine.OUT / f"profile-{os.getpid()}.data"
# Symbols by what they are for; the first that fits. Swift's own module names are read from the mangled name.
KINDS = (
    ("reference counts", r"_?swift_.*(retain|release|Retain|Release)"), ("memory", r"_?_?(libc_)?(malloc|free|calloc|realloc|memalign|_int_\w+)$|_int_|swift_.*(alloc|Alloc)"),
    ("Swift's runtime and library", r"_?swift_|\$s[sS]|__swift"), ("bytes copied and compared", r"_*mem(cpy|move|set|cmp|chr)|_*str\w+_(avx|sse|evex)"))


def named(thread, process, pids):
    """Two nodes' threads are called alike; the first one delivers."""
    return thread + " (the publisher's node)" if len(pids) > 2 and process == pids[1] else thread


class Watch(threading.Thread):
    """The scheduler's account of each thread, taken twenty times a second: when, and of each thread the nanoseconds that it ran and that it waited."""

    def __init__(self, pids):
        super().__init__(daemon=True)
        self.pids, self.taken, self.names, self.over = pids, [], {}, threading.Event()

    def run(self):
        while not self.over.wait(0.05):
            seen = {}
            for pid in self.pids:
                for thread in os.listdir(f"/proc/{pid}/task"):
                    with contextlib.suppress(OSError):
                        folder = f"/proc/{pid}/task/{thread}"
                        seen[thread] = [int(word) for word in open(f"{folder}/schedstat").read().split()[:2]]
                        self.names.setdefault(thread, named(open(f"{folder}/comm").read().strip(), pid, self.pids))
            self.taken.append((time.monotonic(), seen))

    def between(self, began, ended):
        """For each thread's name its microseconds of running and of waiting."""
        first = min(self.taken, key=lambda taken: abs(taken[0] - began))[1]
        last = min(self.taken, key=lambda taken: abs(taken[0] - ended))[1]
        spent = collections.defaultdict(lambda: [0, 0])
        for thread, figures in last.items():
            for place in (0, 1):
                spent[self.names[thread]][place] += (figures[place] - first.get(thread, (0, 0))[place]) / 1000
        return spent


@contextlib.contextmanager
def recorded(pids, rate):
    command = ["perf", "record", "-q", "-e", "cpu-clock", "-F", rate, "-g", "-k", "CLOCK_MONOTONIC", "-o", DATA, "-p", ",".join(map(str, pids))]
    watch = Watch(pids)
    process = machine.spawn({1}, command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    watch.start()
    try:
        time.sleep(1)  # perf opens its events, one for each thread
        if process.poll() is not None:
            raise SystemExit(f"bench: perf ended: {process.stderr.read()[:400]}")
        yield watch
    finally:
        watch.over.set()
        watch.join()
        machine.end(process, signal.SIGINT, 60)


class Sample:
    def __init__(self, process, thread, stack):
        self.process, self.thread, self.stack = process, thread, stack

    @property
    def function(self):
        return self.stack[0][1] if self.stack else "[unknown]"

    @property
    def is_kernel(self):
        return bool(self.stack) and self.stack[0][0] >= 1 << 63

    @property
    def call(self):
        """The system call that it was in."""
        for address, symbol, _ in self.stack:
            found = re.match(r"__(x64|arm64)_sys_(\w+)", symbol) if address >= 1 << 63 else None
            if found:
                return found[2]
        return "none: interrupts, page faults"

    @property
    def kind(self):
        if not self.stack:
            return "unknown"
        _, symbol, image = self.stack[0]
        swift = re.match(r"\$s(\d+)", symbol)
        if swift:
            return symbol[swift.end():][:int(swift[1])]
        for name, form in KINDS:
            if re.match(form, symbol):
                return name
        return {"hubd": "other code of hubd's"}.get(os.path.basename(image), os.path.basename(image))


def samples(began, ended):
    told = subprocess.run(["perf", "script", "-i", DATA, "--no-inline", "-F", "comm,pid,tid,time,ip,sym,dso"], capture_output=True, text=True, errors="replace")
    if told.returncode != 0:
        raise SystemExit(f"bench: perf script ended with {told.returncode}: {told.stderr[:400]}")
    sample = None
    for line in told.stdout.splitlines():
        head = re.match(r"\s*(\S.*?)\s+(\d+)/(\d+)\s+([\d.]+):", line)
        if head:
            sample = Sample(int(head[2]), head[1], []) if began <= float(head[4]) <= ended else None
            if sample:
                yield sample
        elif sample and (frame := re.match(r"\s+([0-9a-f]+) (.*) \((.*)\)$", line)):
            sample.stack.append((int(frame[1], 16), frame[2], frame[3]))


def share(part, whole):
    return f"{100 * part / max(whole, 1):5.1f} %"


def readable(symbols):
    tool = shutil.which("swift-demangle")
    if not tool:
        return symbols
    plain = subprocess.run([tool, "--simplified"], input="\n".join(symbols), capture_output=True, text=True).stdout.splitlines()
    return plain if len(plain) == len(symbols) else symbols


def shares(title, names, whole, limit=None):
    print(f"\n{title}")
    counted = collections.Counter(names).most_common(limit)
    for name, (_, count) in zip(readable([name for name, _ in counted]), counted):
        print(f"  {share(count, whole)}  {name[:150]}")


@contextlib.contextmanager
def servers(name, broker):
    """The node that delivers, the processes that count, and where is published."""
    if name in CROSS:
        with machine.redis() as redis, machine.hub(redis.port) as one, machine.hub(redis.port) as other:
            yield other, [other.pid, one.pid, redis.pid], {"pub_port": one.port}
    else:
        with rows.node_of(broker) as (node, pids):
            yield node, pids, {}


def run_work(name, broker):
    """Does the work under the profile. What is one of its units and how many there were, the window, the watch, and what the row's figure was."""
    with servers(name, broker) as (node, pids, where):
        if name in OPENING:
            rows.warmed(node)
            # Half a second of work has to make enough samples.
            with recorded(pids, 4_999) as watch:
                run = rows.opened(node, rows.FULL)
            # Each part ends in silence, in the middle of which the window may end.
            silence = rows.FULL["silence"] / 2
            opened = run["span"][0] + run["connect_s"] + silence
            part, unit, window = (("handshake", "connection", (run["span"][0], opened)) if name == "handshake"
                                  else ("sub", "subscription", (opened, opened + silence + run["sub_s"] + silence)))
            figure, units = f"{run[f'srv_us_per_{part}']:.1f} µs of the node for each {unit}", run["conns"]
        else:
            work = rows.WORKS[CROSS.get(name, name)]
            before = machine.floor(work.frame)
            with recorded(pids, 997) as watch:
                run = machine.load(node.port, pids, ["--label", name, *work.arguments, "--secs", SECONDS, "--warm", 1, "--settle", 1], **where)
            cost = rows.ratio(run, before, machine.floor(work.frame), work.frame)
            if cost is None:
                raise SystemExit("bench: the run isn't valid")
            window = (run["span"][1] - SECONDS, run["span"][1] - SECONDS + LOOKED_AT)
            figure = f"{run['srv_us_per_deliv']:.3f} µs for each delivery, {cost:.3f} × a send of {rows.on_wire(work.frame)} B"
            units, unit = max(run["sent"], 1) * (window[1] - window[0]) / run["secs"], "publication"
            if name == "latency":
                floor = (before + machine.floor(work.frame)) / 2
                figure += f"; p99 {run['p99_us'] / 1000 / floor:.2f} and median {run['p50_us'] / 1000 / floor:.2f} × 1,000 sends"
    return pids, units, unit, window, watch, figure


def main(arguments):
    names = [*rows.WORKS, *OPENING, *CROSS]
    if not arguments or arguments[0] not in names or arguments[1:] not in ([], ["embedded"]) or (arguments[0] in CROSS and arguments[1:]):
        raise SystemExit(f"usage: scripts/bench profile {'|'.join(names)} [embedded]")
    if not shutil.which("perf"):
        raise SystemExit("bench: perf is needed (Debian: linux-perf)")
    name, broker = arguments[0], "embedded" if arguments[1:] else "Redis"
    machine.build()
    try:
        pids, units, unit, window, watch, figure = run_work(name, broker)
        every = list(samples(*window))
    finally:
        DATA.unlink(missing_ok=True)
    node = [sample for sample in every if sample.process == pids[0]]
    kernel = [sample for sample in node if sample.is_kernel]
    if not node:
        raise SystemExit("bench: no samples of the node")
    print(f"\n{name}, {broker}, load {os.getloadavg()[0]:.1f}: {figure}, with perf in it; {len(every)} samples")
    print("\nthread: its share of all nodes and Redis, and how much of it is the kernel's")
    threads = collections.Counter(named(sample.thread, sample.process, pids) for sample in every)
    for thread, count in threads.most_common(8):
        inside = sum(sample.is_kernel for sample in every if named(sample.thread, sample.process, pids) == thread)
        print(f"  {share(count, len(every))}  {share(inside, count)}  {thread}")
    print(f"\nthe scheduler's account: µs of running and of waiting for the core, for each {unit}")
    for thread, (ran, waited) in sorted(watch.between(*window).items(), key=lambda entry: -sum(entry[1])):
        if ran + waited > 0.01 * units:
            print(f"  {ran / units:9.2f}  {waited / units:9.2f}  {thread}")
    print(f"\nthe node alone: kernel {share(len(kernel), len(node))}, own work {share(len(node) - len(kernel), len(node))}")
    shares("the kernel's part by system call (of the node)", [sample.call for sample in kernel], len(node), 12)
    shares("own work by module (of the node)", [sample.kind for sample in node if not sample.is_kernel], len(node), 20)
    shares(f"own work, the {FUNCTIONS} dearest functions (of the node)", [sample.function for sample in node if not sample.is_kernel], len(node), FUNCTIONS)
    shares("the kernel's dearest functions (of the node)", [sample.function for sample in kernel], len(node), 10)


if __name__ == "__main__":
    main(sys.argv[1:])
