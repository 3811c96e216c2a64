"""Figures of a run, written into docs/performance.md between two marks, with the circumstances: who runs it again has nothing to edit."""

import datetime
import os
import platform
import re
import subprocess

import machine

PAGE = machine.TOP / "docs" / "performance.md"


def circumstances(loads, rounds, seconds):
    def first(path, start):
        with open(path) as file:
            return next((line.split(":")[1].strip() for line in file if line.startswith(start)), platform.machine())

    def said(*command):
        return subprocess.run(command, cwd=machine.TOP, capture_output=True, text=True).stdout.strip()

    memory = round(int(first("/proc/meminfo", "MemTotal").split()[0]) / 1024 / 1024)
    commit = said("git", "rev-parse", "--short", "HEAD") or "unknown"
    redis = re.search(r"v=([0-9.]+)", said("redis-server", "--version"))
    return (
        f"{datetime.date.today()}, commit {commit}, {os.cpu_count()} × {first('/proc/cpuinfo', 'model name')}, {memory} GB, Linux {platform.release()}, "
        f"Redis {redis[1] if redis else 'unknown'}; rounds: {rounds}, {seconds / 60:.1f} minutes; the machine's load was {min(loads):.0f} to {max(loads):.0f} "
        "meanwhile (one of its own is 2).")


def put(name, text):
    """Between the marks of `name`; what was there goes."""
    begin, end = f"<!-- measured by {name} -->", f"<!-- end of {name} -->"
    before, mark, rest = PAGE.read_text().partition(begin)
    after = rest.partition(end)[2]
    if not mark or not after:
        raise SystemExit(f"bench: {PAGE} has no place for {name}")
    PAGE.write_text(f"{before}{begin}\n{text}\n{end}{after}")
