"""Autobahn|Testsuite's quick set against the echo endpoint: framing, UTF-8, closing, and a few cases each of limits and compression.

All 517 cases: scripts/conformance. The suite is Python 2 code; without a Python 2.7, or without the runner, this is skipped, loudly.
"""

import os
import pathlib
import shutil
import subprocess
import warnings

import pytest

from hub import TOP, Hub

RUNNER = pathlib.Path(os.environ.get("AUTOBAHN") or TOP.parent / "shared" / "conformance" / "autobahn.sh")
PYENV = pathlib.Path(os.environ.get("PYENV_ROOT") or pathlib.Path.home() / (".py" + "env"))

# Large messages in one piece, in fragments and in many reads; compressed ones by themselves, with each window and takeover asked for.
FEW = "9.1.3,9.2.3,9.3.3,9.5.3,12.1.1,12.1.3,12.2.5,12.4.7,13.1.3,13.2.3,13.3.3,13.4.3,13.5.3,13.6.3,13.7.3"


def missing():
    if not RUNNER.is_file():
        return f"no runner at {RUNNER} (AUTOBAHN names another)"
    if not (os.environ.get("PY27") or list(PYENV.glob("versions/2.7.*/bin/python2.7")) or shutil.which("python2.7")):
        return "no Python 2.7: set PY27, or `pyenv install 2.7.18`"
    return None


@pytest.mark.parametrize("cases", [("*", "9.*,12.*,13.*"), (FEW, "")], ids=["quick", "few"])
def test_no_case_fails_and_every_one_is_closed_cleanly(start, tmp_path, cases):
    if reason := missing():
        warnings.warn(f"the conformance suite DID NOT RUN: {reason}", stacklevel=1)
        pytest.skip(reason)
    # On a busy machine the suite may take its time over a large message: nobody is to be found silent here.
    hub = start(Hub, settings={"ping": "10m"})
    environment = {**os.environ, "OUT": str(tmp_path / "autobahn"), "AGENT": "hub", "TIMEOUT": "240"}
    result = subprocess.run(
        ["bash", str(RUNNER), f"ws://{hub.address}/v1/echo", *cases], stdin=subprocess.DEVNULL, capture_output=True, text=True,
        env=environment, timeout=420)
    if result.returncode == 2 and "could not install" in result.stderr:
        # No package index here, say.
        warnings.warn(f"the conformance suite DID NOT RUN: {result.stderr[-500:]}", stacklevel=1)
        pytest.skip("the suite couldn't be installed")
    assert result.returncode == 0, result.stdout + result.stderr
    assert hub.is_running
