"""What a delivery, a publication, a watcher and an idle connection cost: counted, not timed (Benchmarks/Counting)."""
import subprocess

from hub import BINARIES


def count(*arguments):
    run = subprocess.run([BINARIES / "bench-count", *arguments], capture_output=True, text=True, timeout=300)
    assert run.returncode == 0, run.stdout + run.stderr


def test_a_delivery_allocates_and_retains_nothing_and_a_publication_little():
    count()


def test_an_idle_connection_keeps_no_more_of_the_heap_than_decision_0312_says():
    count("--idle")


def test_an_idle_connection_on_redis_keeps_no_more_of_the_heap_than_decision_0312_says(redis):
    count("--idle", redis.url)
