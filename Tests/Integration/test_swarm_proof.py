"""A swarm's run that proves less than its figures seem to is no success: a hub that died, one that never answers, an interrupt before anything counted."""

import json
import signal
import socket
import subprocess
import time

import pytest

from hub import BINARIES, Hub, run

# People who only join and talk: a run of some seconds.
PEOPLE = [
    word for setting in (
        "users=30", "rampUp=1s", "warmUp=1s", "steady=8s", "coolDown=2s", "devices=[1]", "rooms.count=4", "rooms.joined=1", "talk.every=500ms",
        "talk.typing=null", "session.length=null", "loss.every=null", "sleep.every=null", "away.every=null")
    for word in ("--set", setting)]
WAYS = [["--bots", "30", "--rooms", "3", "--rate", "2", "--seconds", "8"], ["run", "chat", *PEOPLE]]


def swarm(hub, *arguments):
    return subprocess.Popen(
        [str(BINARIES / "hub-swarm"), *map(str, arguments), "--url", hub.url], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def until_they_talk(process):
    for line in process.stderr:
        if "  delivered " in line and "  delivered 0/s" not in line:
            return


def finished(process):
    try:
        out, errors = process.communicate(timeout=90)
    finally:
        process.kill()
        process.wait()
    return process.returncode, out, errors


def with_a_hub_that_dies(start, way, expected):
    hub = start(Hub)
    process = swarm(hub, *way, "--expect", expected)
    until_they_talk(process)
    # Past a warm-up, and long before the end.
    time.sleep(3)
    hub.kill()
    return finished(process)


@pytest.mark.parametrize("way", WAYS, ids=["flags", "scenario"])
def test_a_hub_that_dies_is_no_success_whatever_was_expected(start, way):
    code, out, errors = with_a_hub_that_dies(start, way, "loss=0,p99<60s")
    assert code == 1 and "messages couldn't be sent" in out and "had lost their connections" in out, f"{out}\n{errors}"
    assert "kept    loss=0" in out and "kept    p99<60s" in out and "OK:" not in out, out


@pytest.mark.parametrize("way", WAYS, ids=["flags", "scenario"])
def test_what_an_expectation_names_is_judged_by_it(start, way):
    code, out, errors = with_a_hub_that_dies(start, way, "loss=0,unsent>0,cutOff=30,errors<100%")
    assert code == 0 and "OK: all 4 expectations kept" in out and "FAILED" not in out, f"{out}\n{errors}"


def test_leaving_is_no_error_and_not_within_the_measured_time(start, tmp_path):
    hub = start(Hub)
    path = tmp_path / "run.json"
    answer = run(
        "hub-swarm", "run", "presence", "--url", hub.url, *PEOPLE[:-2], "--set", "roster.users=8", "--set", "away.every=300ms", "--set", "away.for=300ms",
        "--set", "talk.every=200ms", "--set", "steady=4500ms", "--save", path, "--expect", "errors=0,ends=0", "--seed", "1", timeout=90)
    assert answer.returncode == 0, f"{answer.stdout}\n{answer.stderr}"
    measures = json.loads(path.read_text())
    assert measures["errors"] == {}
    # The last point is partly of the measured time: 6.5 s.
    assert [point["connected"] for point in measures["series"]][6:] == [30] * len(measures["series"][6:]), measures["series"]
    assert measures["counters"]["requests"] > measures["counters"]["sent"]


def test_an_interrupt_in_the_warm_up_proves_nothing(start):
    hub = start(Hub)
    process = swarm(hub, "run", "presence", *PEOPLE, "--set", "warmUp=60s", "--set", "roster.users=8", "--json")
    for line in process.stderr:
        if "connected 30" in line:
            break
    process.send_signal(signal.SIGINT)
    code, out, errors = finished(process)
    report = json.loads(out)
    assert code == 1 and report["ok"] is False and report["interrupted"], f"{out}\n{errors}"
    assert any("nothing is proved" in fault for fault in report["faults"]), report["faults"]


@pytest.mark.parametrize("way", [[], ["run", "chat"], ["find", "--target", "p99<1s"], ["--workers", "2"]], ids=["flags", "run", "find", "workers"])
def test_a_hub_that_never_answers_is_told_before_the_start(way):
    with socket.create_server(("127.0.0.1", 0)) as silent:
        refused = run("hub-swarm", *way, "--url", f"http://127.0.0.1:{silent.getsockname()[1]}", timeout=30)
    assert refused.returncode == 3 and "the hub isn't there for us" in refused.stderr and "no answer within 6s" in refused.stderr, refused.stderr
    assert refused.stdout == "" and "joining" not in refused.stderr


def test_a_hub_that_dies_is_no_knee(start):
    hub = start(Hub)
    process = swarm(hub, "find", "--target", "p99<60s", "--from", "20", "--to", "40", "--rooms", "4", "--step-seconds", "3", "--rate", "2")
    for line in process.stderr:
        if "20 users held" in line:
            break
    hub.kill()
    code, out, errors = finished(process)
    assert code == 3 and "the hub isn't there for us any more" in errors and "so far 20 users held" in errors, f"{out}\n{errors}"
    assert "broke" not in out and "held" not in out, out


def test_people_who_come_in_when_others_have_left_are_not_held(start):
    hub = start(Hub, settings={"limits.connections": 22})
    found = run(
        "hub-swarm", "find", "chat", "--url", hub.url, *PEOPLE, "--set", "loss.every=2s", "--set", "loss.for=1s", "--target", "loss=0", "--from", "34",
        "--to", "34", "--repeats", "1", timeout=110)
    assert found.returncode == 1 and "nothing held: 34 users broke already" in found.stdout, f"{found.stdout}\n{found.stderr}"
    assert "attempts to connect weren't let in" in found.stderr, found.stderr
