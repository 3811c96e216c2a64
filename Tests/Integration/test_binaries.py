"""What the programs are made of."""

import subprocess

import pytest

from hub import BINARIES


@pytest.mark.parametrize("program", ["hubd", "hubctl", "hub-swarm"])
def test_no_program_is_linked_with_foundation_s_networking(program):
    # Its WebSockets don't work in the toolchain's Linux (B71); our clients bring their own.
    told = subprocess.run(["ldd", str(BINARIES / program)], capture_output=True, text=True, check=True).stdout
    assert "libssl" in told and "FoundationNetworking" not in told, told
