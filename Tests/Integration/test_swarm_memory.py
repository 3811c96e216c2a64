"""What a bot of hub-swarm costs beyond its socket, by the kernel's count of the process' own bytes."""

import pathlib
import re
import subprocess

import pytest

from hub import BINARIES, Hub

# Everybody in one room of ten, nobody says anything; with the behaviours whose state each bot carries.
IDLE = ["rampUp=4s", "warmUp=0s", "steady=120s", "talk.class=chat", "talk.speakers=null", "talk.every=1d", "talk.typing=2s"]


def anonymous(hub, users):
    """Bytes of the swarm's own memory when all its bots are in."""
    arguments = [f"users={users}", f"rooms.count={users // 10}", *IDLE]
    swarm = subprocess.Popen(
        [BINARIES / "hub-swarm", "run", "broadcast", "--url", hub.url, "--seed", "1", *[word for setting in arguments for word in ("--set", setting)]],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        for line in swarm.stderr:
            if f"connected {users:,}  " in line:
                break
        else:
            pytest.fail("not all of them came in")
        rollup = pathlib.Path(f"/proc/{swarm.pid}/smaps_rollup").read_text()
        return int(re.search(r"^Anonymous:\s+(\d+) kB", rollup, re.M).group(1)) * 1024
    finally:
        swarm.kill()
        swarm.wait()


def test_an_idle_bot_has_less_than_two_kilobytes_beyond_its_socket(start):
    hub = start(Hub)
    few, many = anonymous(hub, 500), anonymous(hub, 4500)
    each = (many - few) / 4000
    print(f"{few / 1e6:.1f} MB with 500, {many / 1e6:.1f} MB with 4,500: {each:.0f} bytes each")
    assert each <= 2048
