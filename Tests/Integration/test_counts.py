"""What a delivery, a publication, a watcher and an idle connection cost: counted, not timed (Benchmarks/Counting)."""
import pathlib
import subprocess
import sys

import pytest

from hub import BINARIES

BENCHMARKS = pathlib.Path(__file__).resolve().parents[2] / "Benchmarks"


def count(*arguments):
    run = subprocess.run([BINARIES / "bench-count", *arguments], capture_output=True, text=True, timeout=300)
    assert run.returncode == 0, run.stdout + run.stderr


def test_a_delivery_allocates_and_retains_nothing_and_a_publication_little():
    count()


def test_on_redis_too_a_delivery_allocates_and_retains_nothing_and_a_publication_little(redis):
    count("--redis", redis.url)


def test_an_idle_connection_keeps_no_more_of_the_heap_than_decision_0312_says():
    count("--idle")


def test_an_idle_connection_on_redis_keeps_no_more_of_the_heap_than_decision_0312_says(redis):
    count("--idle", redis.url)


SCRIPTS = sorted(path.name for path in BENCHMARKS.iterdir() if path.is_file() and not path.suffix and path.read_bytes().startswith(b"#!/usr/bin/env python3"))


@pytest.mark.parametrize("script", SCRIPTS)
def test_each_benchmark_that_the_pages_name_starts_and_says_what_it_does(script):
    run = subprocess.run([sys.executable, BENCHMARKS / script, "-h"], capture_output=True, text=True, timeout=60)
    assert run.returncode == 0 and f"Benchmarks/{script}" in run.stdout, run.stdout + run.stderr


def test_what_each_script_costs_redis_can_be_measured_as_nodes_load_and_call_it():
    run = subprocess.run([BENCHMARKS / "redis-cpu", "100"], capture_output=True, text=True, timeout=120)
    assert run.returncode == 0 and "a channel whose node died, ended and told" in run.stdout, run.stdout + run.stderr
