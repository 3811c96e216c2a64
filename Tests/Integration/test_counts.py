"""What a delivery and a publication cost in allocations and retains: counted, not timed (Benchmarks/Counting)."""
import subprocess

from hub import BINARIES


def test_a_delivery_allocates_and_retains_nothing_and_a_publication_little():
    run = subprocess.run([BINARIES / "bench-count"], capture_output=True, text=True, timeout=120)
    assert run.returncode == 0, run.stdout + run.stderr
