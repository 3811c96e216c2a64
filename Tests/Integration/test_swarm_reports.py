"""What becomes of a swarm's run: judged, saved, shown, compared; shared among workers; and the knee."""

import json
import os
import pathlib
import re
import signal
import subprocess
import time

import pytest

from browser import Browser
from hub import BINARIES, Hub, eventually, run


@pytest.fixture(scope="module")
def hub(folder):
    node = Hub(folder)
    yield node
    node.kill()


@pytest.fixture(scope="module")
def saved(hub, folder):
    """One run: its measures, its page, and what it said."""
    files = folder / "run.json", folder / "run.html"
    swarm = run(
        "hub-swarm", "--url", hub.url, "--bots", "100", "--rooms", "10", "--rate", "1", "--seconds", "8", "--seed", "1", "--hub-pid", hub.process.pid,
        "--expect", "loss=0,p99<60s", "--expect", "joined=100%,delivered=100%", "--save", files[0], "--report", files[1], timeout=120)
    assert swarm.returncode == 0, f"{swarm.stdout}\n{swarm.stderr}"
    return *files, swarm


def test_expectations_decide_the_exit_code_and_each_is_told_with_what_was_measured(saved):
    measures, _, swarm = saved
    assert "kept    joined=100%" in swarm.stdout and "(100 of 100)" in swarm.stdout
    assert "OK: all 4 expectations kept" in swarm.stdout
    broken = run("hub-swarm", "report", measures, "--expect", "loss=0,p50<1ns")
    assert broken.returncode == 1
    assert "BROKEN  p50<1ns" in broken.stdout and "FAILED: 1 of 2 expectations broken" in broken.stdout
    assert run("hub-swarm", "report", measures, "--expect", "loss=0").returncode == 0


def test_plain_lines_go_where_there_is_no_terminal(saved):
    lines = [line for line in saved[2].stderr.splitlines() if "connected 100" in line]
    assert lines and "\x1b" not in saved[2].stderr and "\r" not in saved[2].stderr


def test_saved_measures_give_the_same_page_again(saved, tmp_path):
    measures, page, _ = saved
    again = tmp_path / "again.html"
    run("hub-swarm", "report", measures, "--expect", "loss=0,p99<60s,joined=100%,delivered=100%", "--report", again)
    assert again.read_text() == page.read_text()


def test_the_hubs_processor_time_is_in_the_report(saved):
    points = json.loads(saved[0].read_text())["series"]
    assert any(point.get("hubCPU") for point in points)


@pytest.mark.parametrize(("width", "dark"), [(1100, False), (1100, True), (360, False)])
def test_the_page_fits_and_shows_its_plots(saved, width, dark):
    with Browser() as browser:
        tab = browser.tab(saved[1].as_uri(), width=width, dark=dark)
        assert tab.value("document.documentElement.scrollWidth") <= width
        assert tab.value("[...document.querySelectorAll('figure')].every(f => [...f.querySelectorAll('svg.plot')].filter(s => s.getBoundingClientRect().height > 50).length == 1)")
        assert tab.value("document.querySelectorAll('figure').length") >= 6
        # Words of a plot keep a size that can be read.
        assert tab.value("Math.min(...[...document.querySelectorAll('svg.plot text')].map(t => t.getBoundingClientRect().height).filter(h => h > 0))") >= 9
        # What the page's own policy would stop: a script that somebody got in.
        assert tab.value("(() => { const s = document.createElement('script'); s.textContent = 'window.ran = true'; document.body.append(s); return window.ran ?? false })()") is False
        assert tab.value("faults.length") == 0


def test_the_page_prints_without_empty_halves(saved):
    with Browser() as browser:
        tab = browser.tab(saved[1].as_uri())
        # Five plots, two, seven tables: what doesn't leave room behind takes three pages.
        assert len(re.findall(rb"/Type\s*/Page\b", tab.pdf())) <= 3
        tab.call("Emulation.setEmulatedMedia", media="print", features=[{"name": "prefers-color-scheme", "value": "dark"}])
        tab.call("Emulation.setDeviceMetricsOverride", width=688, height=1000, deviceScaleFactor=1, mobile=False)
        # As wide as A4 is between the margins: nothing sticks out, each plot is there once, and black is on white however dark the reader's screen.
        assert tab.value("document.documentElement.scrollWidth") <= 688
        assert tab.value("[...document.querySelectorAll('figure')].every(f => [...f.querySelectorAll('svg.plot')].filter(s => s.getBoundingClientRect().height > 50).length == 1)")
        assert tab.value("[document.body, document.querySelector('figure')].map(e => getComputedStyle(e).backgroundColor).join()") == "rgb(255, 255, 255),rgb(255, 255, 255)"
        assert tab.value("getComputedStyle(document.querySelector('td')).color") == "rgb(0, 0, 0)"


def test_a_run_compared_with_itself_differs_in_nothing(saved, tmp_path):
    page = tmp_path / "compared.html"
    compared = run("hub-swarm", "compare", saved[0], saved[0], "--report", page)
    assert compared.returncode == 0, compared.stdout
    assert "worse" not in compared.stdout and "better" not in compared.stdout and "differs" not in compared.stdout
    assert "Two swarm runs compared" in page.read_text()


def test_three_workers_are_one_run(hub, tmp_path):
    path = tmp_path / "run.json"
    swarm = run(
        "hub-swarm", "--url", hub.url, "--bots", "90", "--rooms", "9", "--rate", "1", "--seconds", "5", "--workers", "3", "--seed", "1", "--save", path,
        "--expect", "loss=0,joined=100%,delivered=100%", timeout=120)
    assert swarm.returncode == 0, f"{swarm.stdout}\n{swarm.stderr}"
    measures = json.loads(path.read_text())
    assert measures["workers"] == 3 and measures["bots"] == 90
    assert measures["counters"]["sent"] > 300
    # Ten to a room.
    assert measures["counters"]["delivered"] == measures["counters"]["sent"] * 10
    # All talked at one moment: no second has some of them only.
    assert max(point["connected"] for point in measures["series"]) == 90


def workers_of(process):
    """The ids of its worker processes."""
    found = []
    for entry in pathlib.Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                parent = int((entry / "stat").read_text().rsplit(")", 1)[1].split()[1])
            except (OSError, IndexError):
                continue
            if parent == process.pid:
                found.append(int(entry.name))
    return sorted(found)


def coordinator(hub, *arguments):
    return subprocess.Popen(
        [str(BINARIES / "hub-swarm"), "--url", hub.url, "--bots", "40", "--rooms", "4", "--rate", "1", "--seconds", "60", "--workers", "2", *arguments],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def until_they_talk(swarm):
    for line in swarm.stderr:
        if "  delivered " in line and "  delivered 0/s" not in line:
            return


def test_a_worker_that_dies_is_told_and_its_share_is_missing(hub):
    swarm = coordinator(hub, "--expect", "loss=0")
    try:
        until_they_talk(swarm)
        workers = workers_of(swarm)
        assert len(workers) == 2
        os.kill(workers[0], signal.SIGKILL)
        time.sleep(1)
        swarm.send_signal(signal.SIGINT)
        out, _ = swarm.communicate(timeout=120)
    finally:
        swarm.kill()
        swarm.wait()
    assert swarm.returncode == 1
    assert "ended by signal 9: its share is missing" in out and "FAILED: the run isn't whole" in out and "20 of 40 bots" in out


def test_an_interrupt_reaches_all_workers_which_still_report(hub):
    swarm = coordinator(hub, "--expect", "loss=0")
    try:
        until_they_talk(swarm)
        workers = workers_of(swarm)
        swarm.send_signal(signal.SIGINT)
        out, _ = swarm.communicate(timeout=120)
    finally:
        swarm.kill()
        swarm.wait()
    assert swarm.returncode == 0, out
    assert "interrupted" in out and "kept    loss=0" in out and "40 of 40 bots" in out
    assert not any(pathlib.Path(f"/proc/{worker}").exists() for worker in workers)


def test_workers_whose_coordinator_is_killed_end_by_themselves(hub):
    swarm = coordinator(hub)
    try:
        until_they_talk(swarm)
        workers = workers_of(swarm)
        assert len(workers) == 2
    finally:
        swarm.kill()
        swarm.wait()
    eventually(lambda: not any(pathlib.Path(f"/proc/{worker}").exists() for worker in workers), seconds=60, what="the workers are gone")


def test_the_knee_is_found_and_said(hub, tmp_path):
    path = tmp_path / "best.json"
    found = run(
        "hub-swarm", "find", "--url", hub.url, "--target", "p99<60s,loss=0", "--from", "20", "--to", "40", "--rooms", "4", "--step-seconds", "2",
        "--repeats", "2", "--save", path, timeout=240)
    assert "40 users held, the most that was to be tried (--to)" in found.stdout, f"{found.stdout}\n{found.stderr}"
    assert json.loads(path.read_text())["bots"] == 40
    nothing = run(
        "hub-swarm", "find", "--url", hub.url, "--target", "p99<1ns", "--from", "20", "--rooms", "4", "--step-seconds", "1", timeout=240)
    assert nothing.returncode == 1 and "nothing held: 20 users broke already" in nothing.stdout


@pytest.mark.parametrize(
    ("arguments", "code", "word"),
    [
        (["--expect", "p99<5"], 2, "compared with a time"),
        (["--expect", "dupplicated=0"], 2, "did you mean duplicated"),
        (["--expect", "violations.lsot=0"], 2, "did you mean lost"),
        (["--expect", "errors.ratelimited=0"], 2, "did you mean rateLimited"),
        (["find", "--target", "p99<1s", "--set", "users=3"], 2, "--set is for a scenario"),
        (["--report", "/nowhere/x.html"], 2, "/nowhere/x.html can't be written"),
        (["--save", "/tmp"], 2, "is a folder"),
        (["--workers", "0"], 2, "--workers is from 1 to 200"),
        (["--workers", "20", "--rooms", "3"], 2, "20 workers are more than --rooms 3"),
        (["--hub-pid", "x"], 2, "--hub-pid"),
        (["--redis", "rediss://user:secret@host"], 2, "--redis is a URL"),
        (["--redis", "redis://user:secret@127.0.0.1:1"], 3, "--redis: 127.0.0.1:1 can't be reached: Connection refused"),
        (["find", "--target", "p99<1s", "--redis", "redis://nowhere.invalid"], 3, "--redis: nowhere.invalid isn't known"),
        (["--hub-pid", "4194305"], 3, "--hub-pid 4194305: there's no such process"),
        (["find"], 2, "--target is missing"),
        (["compare", "/dev/null", "/dev/null"], 2, "isn't a report of hub-swarm --save"),
        (["report", "/nowhere"], 2, "/nowhere can't be read"),
        (["--url", "http://127.0.0.1:1", "--workers", "2", "--bots", "10"], 3, "the hub isn't there for us"),
        (["find", "--url", "http://127.0.0.1:1", "--target", "p99<1s"], 3, "the hub isn't there for us"),
        (["find", "chat", "--url", "http://127.0.0.1:1", "--target", "p99<1s"], 3, "the hub isn't there for us"),
        (["find", "chta", "--target", "p99<1s"], 2, "did you mean chat"),
        (["find", "chat", "--set", "talk.evry=1s", "--target", "p99<1s"], 2, "did you mean talk.every"),
        (["find", "--target", "p99<1s", "--bots", "20"], 2, "--bots is for --raise rate"),
    ])
def test_what_is_wrong_is_said(arguments, code, word):
    answer = run("hub-swarm", *arguments, timeout=60)
    assert answer.returncode == code, answer.stderr
    assert word in answer.stderr and "secret" not in answer.stderr
