"""Figures of a run, written into docs/performance.md between two marks, with the circumstances: who runs it again has nothing to edit."""

import datetime
import os
import platform
import re
import statistics
import subprocess

import machine

PAGE = machine.TOP / "docs" / "performance.md"


def said(*command):
    return subprocess.run(command, cwd=machine.TOP, capture_output=True, text=True).stdout.strip()


def commit():
    """Asked before anything is measured, since what is written changes the tree."""
    changed = said("git", "status", "--porcelain", "--", "Sources", "Benchmarks", "Package.swift")
    return (said("git", "rev-parse", "--short", "HEAD") or "unknown") + (" with changes" if changed else "")


def minutes(seconds):
    return f"{seconds // 60:.0f} min {seconds % 60:.0f} s"


def circumstances(commit, command, rounds, seconds, loads, again=0):
    """`again`: runs that were made once more since they weren't valid."""
    def first(path, start):
        with open(path) as file:
            return next((line.split(":")[1].strip() for line in file if line.startswith(start)), platform.machine())

    # Of another hubd it's told that it was one; where it lies is nobody's concern.
    settings = [f"RUNS={os.environ['RUNS']} "] if "RUNS" in os.environ else []
    settings += ["HUBD=… "] if "HUBD" in os.environ else []
    memory = round(int(first("/proc/meminfo", "MemTotal").split()[0]) / 1024 / 1024)
    redis = re.search(r"v=([0-9.]+)", said("redis-server", "--version"))
    return (
        f"{datetime.date.today()}, commit {commit}: `{''.join(settings)}{command}`, {rounds} round{'s' if rounds != 1 else ''} in {minutes(seconds)}"
        f"{f', {again} runs made again since they were not valid' if again else ''}. "
        f"{os.cpu_count()} × {first('/proc/cpuinfo', 'model name')}, {memory} GB, Linux {platform.release()}, Redis {redis[1] if redis else 'unknown'}. "
        f"Load meanwhile {statistics.median(loads):.1f}, {min(loads):.1f} to {max(loads):.1f} (the run's own is about 2).")


def put(name, text):
    """Between the marks of `name`; what was there goes."""
    begin, end = f"<!-- measured by {name} -->", f"<!-- end of {name} -->"
    before, mark, rest = PAGE.read_text().partition(begin)
    after = rest.partition(end)[2]
    if not mark or not after:
        raise SystemExit(f"bench: {PAGE} has no place for {name}")
    PAGE.write_text(f"{before}{begin}\n{text}\n{end}{after}")
