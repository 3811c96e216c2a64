"""The table of docs/performance.md, measured: every row RUNS times, the rows taking turns, so that a machine's moods weigh on all alike.

    scripts/bench            all of it, five rounds, and writes the table
    scripts/bench quick      one short round of it, printed
    scripts/bench fan rooms  these alone, printed      (fan rooms deflate cross connections heartbeat latency loops)
"""

import collections
import datetime
import json
import os
import platform
import re
import statistics
import subprocess
import sys
import time

import machine
import rows

PAGE = machine.TOP / "docs" / "performance.md"
BEGIN, END = "<!-- measured by scripts/bench -->", "<!-- end -->"
# Row, and what it's to reach (None: told for orientation).
TABLE = (
    ("one at a time, embedded", 1.06), ("one at a time, Redis", 1.06), ("16 in flight, embedded", 0.10), ("16 in flight, Redis", 0.10),
    ("64 in flight, embedded", 0.05), ("64 in flight, Redis", 0.05), ("rooms, embedded", 1.15), ("rooms, Redis", 1.15),
    ("1 KB chat, plain", None), ("1 KB chat, deflated", 0.35), ("1 KB chat, bytes × payload deflated alone", 1.35),
    ("node to node, one at a time", 1.20), ("node to node, 16 in flight", 0.17), ("idle connection, plain, bytes", 900),
    ("idle connection, deflate, bytes", 900), ("handshake × accept + epoll_ctl", 2.0), ("handshake, µs", None), ("token verified, µs", None),
    ("accept + epoll_ctl, µs", None), ("subscribe and ack × one send", 2.3), ("presence heartbeat × design's script", 1.2),
    ("presence heartbeat, µs of Redis a user", None), ("100 messages a second, CPU", None), ("100 messages a second, median", None),
    ("100 messages a second, p99", 1.2), ("two loops × one, one at a time", 1.1), ("two loops × one, 16 in flight", 1.1))


def figure(value):
    return f"{value:,.0f}" if value >= 100 else f"{value:.3f}" if value < 0.2 else f"{value:.2f}"


def lines(values):
    yield "| work | reach | median | spread | runs |"
    yield "|---|---|---|---|---|"
    for name, reach in TABLE:
        some = values.get(name)
        if some:
            reached = "" if reach is None else f"≤ {figure(reach)}"
            yield f"| {name} | {reached} | {figure(statistics.median(some))} | {figure(min(some))} to {figure(max(some))} | {len(some)} |"
        elif name in values:
            yield f"| {name} | | no valid run | | 0 |"


def circumstances(rounds, loads):
    processor = next((line.split(":")[1].strip() for line in open("/proc/cpuinfo") if line.startswith("model name")), platform.machine())
    memory = round(int(next(line for line in open("/proc/meminfo") if line.startswith("MemTotal")).split()[1]) / 1024 / 1024)
    redis = subprocess.run(["redis-server", "--version"], capture_output=True, text=True, check=True).stdout
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], cwd=machine.TOP, capture_output=True, text=True).stdout.strip()
    return (
        f"{datetime.date.today()}, commit {commit or 'unknown'}, {os.cpu_count()} × {processor}, {memory} GB, Linux {platform.release()}, Redis "
        f"{re.search(r'v=([0-9.]+)', redis)[1]}; {rounds} rounds; the machine's load was {min(loads):.0f} to {max(loads):.0f} meanwhile (one of its own is 2).")


def main(arguments):
    machine.build()
    is_quick = arguments == ["quick"]
    named = [name for name in arguments if name != "quick"]
    unknown = [name for name in named if name not in rows.ROWS]
    if unknown:
        raise SystemExit(f"bench: no row is called {unknown[0]}; there are {' '.join(rows.ROWS)}")
    scale = rows.QUICK if is_quick else rows.FULL
    rounds = int(os.environ.get("RUNS", 1 if is_quick else 5))
    values, loads, began = collections.defaultdict(list), [], time.monotonic()
    log = open(machine.OUT / "table.jsonl", "a")
    for number in range(rounds):
        for name in named or rows.ROWS:
            for row in rows.ROWS[name]:
                loads.append(os.getloadavg()[0])
                figures = row(scale)
                for what, value in figures:
                    values[what] += [] if value is None else [value]
                log.write(json.dumps({"round": number, "figures": figures, "load": loads[-1]}, ensure_ascii=False) + "\n")
                log.flush()
                print(f"{time.monotonic() - began:5.0f} s  round {number + 1}  " + ", ".join(
                    f"{what}: {'not valid' if value is None else figure(value)}" for what, value in figures), flush=True)
    table = "\n".join(lines(values))
    told = circumstances(rounds, loads)
    print(told, table, sep="\n\n")
    if not arguments:
        text = PAGE.read_text()
        before, _, rest = text.partition(BEGIN)
        after = rest.partition(END)[2]
        PAGE.write_text(f"{before}{BEGIN}\n{told}\n\n{table}\n{END}{after}")


if __name__ == "__main__":
    main(sys.argv[1:])
