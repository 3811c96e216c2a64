"""The design's heartbeat script at a deployment's pace, on the users that a Redis has: the yardstick of Benchmarks/presence-scale.

    python3 Benchmarks/table/pace.py PORT SECONDS

Renews all leases in 30 s, partition by partition, 250 in a call, as nodes do, and prints what that costs the main thread of Redis for each user and 30 s.
A script that runs once in a while on cold caches costs more than the same one in a loop, so the design's figures, which are of a loop, don't say it.
"""

import sys
import time

import rows

PERIOD, BATCH = 30, 250


def main():
    port, seconds = int(sys.argv[1]), float(sys.argv[2])
    link = rows.Link(port)
    script = link.ask("SCRIPT", "LOAD", rows.DESIGN)
    partitions = []
    for key in link.ask("KEYS", "hub:{*}:pl"):
        key = key.decode() if isinstance(key, bytes) else key
        members = [member.decode() if isinstance(member, bytes) else member for member in link.ask("ZRANGE", key, 0, -1)]
        calls = []
        for first in range(0, len(members), BATCH):
            some = members[first:first + BATCH]
            users = [key.removesuffix("pl") + "u:" + member.rsplit("|", 1)[0] for member in some]
            calls.append(rows.command("EVALSHA", script, len(some) + 1, key, *users, 75_000, 300_000, *some))
        partitions.append((len(members), calls))
    users = sum(count for count, _ in partitions)
    if not users:
        raise SystemExit("pace: no leases in this Redis")
    missing, renewed, before, began = 0, 0, link.cpu(), time.monotonic()
    turn = 0
    while time.monotonic() - began < seconds:
        count, calls = partitions[turn % len(partitions)]
        link.socket.sendall(b"".join(calls))
        missing += sum(len(link.reply()) for _ in calls)
        renewed += count
        turn += 1
        time.sleep(max(0, began + turn * PERIOD / len(partitions) - time.monotonic()))
    if missing:
        raise SystemExit(f"pace: {missing} leases were gone")
    spent = (link.cpu() - before) / renewed
    before, began = link.cpu(), time.monotonic()
    time.sleep(10)
    idle = (link.cpu() - before) / (time.monotonic() - began) * PERIOD / users
    print(f"{'the design, nothing but heartbeats':44s} {'':14s}{spent:6.2f} us for each user and 30 s")
    print(f"{'nobody asks anything':44s} {'':14s}{idle:6.2f} us for each user and 30 s")


main()
