"""The table of docs/performance.md, measured: every row once a round, the rows taking turns, so that a machine's moods weigh on all alike.

    scripts/bench            all of it, five rounds, and writes the table, with what is said above it
    scripts/bench quick      one short round of it, printed
    scripts/bench fan rooms  these alone, printed      (fan rooms deflate cross connections heartbeat latency loops)

What stands on the page is one run of the first kind and nothing else. A run that isn't valid is made again; if it can't be made, the page stays as it was.
"""

import collections
import json
import os
import statistics
import sys
import time
from typing import NamedTuple

import machine
import page
import rows

TRIES = 3


class Row(NamedTuple):
    work: str
    broker: str
    unit: str
    reach: float | None = None  # None: told for orientation


def sends(frame, count=""):
    return f"× {count or 'a'} send{'s' if count else ''} of {rows.on_wire(frame):,} B"


TABLE = (
    Row("one at a time", "Redis", sends(rows.FRAME), 1.06), Row("one at a time", "embedded", sends(rows.FRAME), 1.06),
    Row("16 in flight", "Redis", sends(rows.FRAME), 0.10), Row("16 in flight", "embedded", sends(rows.FRAME), 0.10),
    Row("64 in flight", "Redis", sends(rows.FRAME), 0.05), Row("64 in flight", "embedded", sends(rows.FRAME), 0.05),
    Row("rooms", "Redis", sends(rows.FRAME), 1.15), Row("rooms", "embedded", sends(rows.FRAME), 1.15),
    Row("1 KB chat, plain", "Redis", sends(rows.CHAT_FRAME)), Row("1 KB chat, plain", "embedded", sends(rows.CHAT_FRAME)),
    Row("1 KB chat, deflated", "Redis", sends(rows.DEFLATED_FRAME), 0.35), Row("1 KB chat, deflated", "embedded", sends(rows.DEFLATED_FRAME)),
    Row("1 KB chat, deflated: a delivery's bytes", "Redis", "× the payload deflated alone", 1.35), Row("1 KB chat, deflated: a delivery", "Redis", "B"),
    Row("1 KB chat, its payload deflated alone", "none", "B"),
    Row("node to node, one at a time", "Redis", sends(rows.FRAME), 1.20), Row("node to node, 16 in flight", "Redis", sends(rows.FRAME), 0.17),
    Row("idle connection, plain", "Redis", "B of RSS", 900), Row("idle connection, deflate", "Redis", "B of RSS", 900),
    Row("handshake, its token subtracted", "Redis", "× accept + epoll_ctl", 2.0), Row("handshake", "Redis", "µs"), Row("token verified", "none", "µs"),
    Row("accept + epoll_ctl", "none", "µs"), Row("subscribe and ack", "Redis", sends(rows.ACK_FRAME), 2.3),
    Row("presence heartbeat", "Redis", "× the design's script", 1.2), Row("presence heartbeat, Redis for each user", "Redis", "µs"),
    Row("100 messages a second, p99", "Redis", sends(rows.FRAME, "1,000"), 1.2), Row("100 messages a second, p99", "embedded", sends(rows.FRAME, "1,000")),
    Row("100 messages a second, median", "Redis", sends(rows.FRAME, "1,000")),
    Row("100 messages a second, median", "embedded", sends(rows.FRAME, "1,000")),
    Row("100 messages a second, CPU", "Redis", sends(rows.FRAME)), Row("100 messages a second, CPU", "embedded", sends(rows.FRAME)),
    Row("two loops, one at a time", "Redis", "× one loop", 1.1), Row("two loops, 16 in flight", "Redis", "× one loop", 1.1),
    Row("a bare send", "none", f"µs, {rows.on_wire(rows.FRAME)} B"))


def figure(value):
    return f"{value:,.0f}" if value >= 100 else f"{value:.3f}" if value < 0.2 else f"{value:.2f}"


def lines(values, rounds):
    yield "| work | broker | unit | reach | median | spread |"
    yield "|---|---|---|---|---|---|"
    for row in TABLE:
        some = values.get((row.work, row.broker))
        if some is None:
            continue
        head = f"| {row.work} | {row.broker} | {row.unit} | {'' if row.reach is None else '≤ ' + figure(row.reach)} |"
        if len(some) == rounds:
            yield f"{head} {figure(statistics.median(some))} | {figure(min(some))} to {figure(max(some))} |"
        else:
            yield f"{head} not valid in {rounds - len(some)} of {rounds} rounds | |"


def attempt(row, scale):
    """Figures of a run, and whether all of them are valid. What ends with words is a run that came to nothing; what was ended from outside ends."""
    try:
        figures = row(scale)
    except SystemExit as ended:
        if not isinstance(ended.code, str):
            raise
        print(ended.code, flush=True)
        return [], False
    return figures, all(value is not None for _, value in figures)


def main(arguments):
    began = time.monotonic()
    is_quick, is_whole = arguments == ["quick"], not arguments
    named = [name for name in arguments if name != "quick"]
    unknown = [name for name in named if name not in rows.ROWS]
    if unknown:
        raise SystemExit(f"bench: no row is called {unknown[0]}; there are {' '.join(rows.ROWS)}")
    commit = page.commit()
    machine.build()
    scale = rows.QUICK if is_quick else rows.FULL
    machine.CALIBRATION = scale["floor"]
    rounds = int(os.environ.get("RUNS", 1 if is_quick else 5))
    values, loads, again, given_up = collections.defaultdict(list), [], 0, []
    with open(machine.OUT / "table.jsonl", "a") as log:
        for number in range(rounds):
            for name in named or rows.ROWS:
                for row in rows.ROWS[name]:
                    for tried in range(1, TRIES + 1):
                        since = time.monotonic()
                        loads.append(os.getloadavg()[0])
                        figures, is_valid = attempt(row, scale)
                        log.write(json.dumps({"round": number, "try": tried, "figures": figures, "load": loads[-1]}, ensure_ascii=False) + "\n")
                        log.flush()
                        shown = ", ".join(f"{work} ({broker}): {'not valid' if value is None else figure(value)}" for (work, broker), value in figures)
                        print(f"{time.monotonic() - began:5.0f} s  round {number + 1}  {time.monotonic() - since:4.1f} s  {shown or name}", flush=True)
                        if is_valid:
                            break
                    again += tried - 1
                    given_up += [] if is_valid else [name]
                    for key, value in figures:
                        values[key] += [] if value is None else [value]
    table = "\n".join(lines(values, rounds))
    took = time.monotonic() - began
    told = page.circumstances(commit, " ".join(["scripts/bench", *arguments]), rounds, took, loads, again)
    print("", told, "", table, "", sep="\n")
    missing = {(row.work, row.broker) for row in TABLE} ^ set(values) if is_whole or is_quick else set()
    if missing or given_up:
        raise SystemExit(f"bench: nothing written: no valid run of {', '.join(sorted(set(given_up)) or sorted(map(str, missing)))}")
    if is_whole:
        page.put("scripts/bench", f"{told}\n\n{table}")
        print(f"written to {page.PAGE}")
    print(f"took {page.minutes(took)}")


if __name__ == "__main__":
    main(sys.argv[1:])
