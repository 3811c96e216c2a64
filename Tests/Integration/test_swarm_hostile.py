"""hub-swarm's hostile connections, and that the hub ends each kind by its own rule while nothing happens to the normal ones."""

import json
import re

from hub import Hub, eventually, run

FAST = {
    "ping": "1s", "deadlines.pong": "500ms", "deadlines.head": "1s", "deadlines.close": "1s", "limits.messageBytes": "16KB",
    "limits.outboundBytes": "24KB", "limits.bodyBytes": "24KB",
}
QUIET = [
    "users=20", "rampUp=1s", "warmUp=0s", "coolDown=5s", "rooms.count=4", "talk.every=1s", "hostile.slow=0", "hostile.halfOpen=0", "hostile.silent=0",
    "hostile.halfHead=0", "hostile.floods=0", "hostile.garbage=0",
]


def hostile(hub, *settings):
    """The run's summary; the normal ones got all they were owed."""
    told = run(
        "hub-swarm", "run", "hostile", "--url", hub.url, "--json", "--seed", 1796,
        *[word for setting in (*QUIET, *settings) for word in ("--set", setting)], timeout=180)
    assert told.returncode == 0, f"{told.stdout}\n{told.stderr}"
    report = json.loads(told.stdout)
    assert report["violations"] == {} and report["errors"] == {} and report["ends"] == {}, report
    assert report["joined"] == report["bots"] and report["checked"] > 0
    return report


def test_the_summary_and_the_page_tell_what_became_of_them(start, tmp_path):
    hub = start(Hub, settings=FAST)
    page = tmp_path / "hostile.html"
    told = run(
        "hub-swarm", "run", "hostile", "--url", hub.url, "--seed", 1796, "--workers", "2", "--report", page,
        *[word for setting in (*QUIET, "steady=6s", "hostile.silent=4", "hostile.halfHead=4", "hostile.garbage=2") for word in ("--set", setting)], timeout=180)
    assert told.returncode == 0, f"{told.stdout}\n{told.stderr}"
    for pattern in (r"hostile welcomed +\d", r"hostile sent +\d", r"hostile mute sockets +\d", r"hostile longest mute +[\d.]+ (m?s)\n", r"hostile ends +\d+ \(.*half a head: HTTP 408 \d"):
        assert re.search(pattern, told.stdout), f"{pattern}\n{told.stdout}"
    # Of two workers the longest, not the sum: each had sockets that were ended after a second or so.
    longest = re.search(r"longest mute +([\d.]+) (m?s)", told.stdout)
    assert float(longest[1]) * (1 if longest[2] == "s" else 0.001) < 6, told.stdout
    text = page.read_text()
    assert "<h2>Hostile connections</h2>" in text and "half a head: HTTP 408" in text


def ends(report, word):
    return sum(count for name, count in report.items() if name.startswith("hostile end: ") and word in name)


def test_sockets_that_say_nothing_or_half_a_head_are_ended_by_the_hub(start):
    hub = start(Hub, settings=FAST)
    report = hostile(hub, "steady=8s", "hostile.silent=6", "hostile.halfHead=6")
    print(report)
    # Each again and again, since those that were ended come back.
    assert ends(report, "half a head: HTTP 408") >= 12, report
    assert ends(report, "a silent socket: ") >= 12, report
    assert report["muteEnds"] == ends(report, "half a head") + ends(report, "a silent socket"), report
    assert report["muteOpened"] >= report["muteEnds"] > 0
    # A hub that had patience with one until the end would show 9 s.
    assert 900 <= report["muteLongest"] < 8000, report


def test_half_open_connections_are_ended_as_silent(start):
    hub = start(Hub, settings=FAST)
    report = hostile(hub, "steady=8s", "hostile.halfOpen=6")
    print(report)
    assert ends(report, "close 4011") >= 6, report


def test_slow_readers_are_ended_as_too_slow(start):
    # Time to read the close, which is behind what the kernel took; and who reads so little answers no ping within half a second.
    hub = start(Hub, settings={**FAST, "ping": "20s", "deadlines.pong": "10s", "deadlines.close": "30s"})
    report = hostile(hub, "steady=20s", "hostile.slow=4", "hostile.floods=2", "hostile.rate=2000")
    print(report)
    # How much the kernel holds in front of the close, and so how many have read it by the end, is the kernel's affair.
    assert ends(report, "close 4008") >= 1, report
    eventually(lambda: hub.metric("hub_slow_closed_total") >= 4)


def test_floods_are_refused_and_then_ended_as_too_fast(start):
    hub = start(Hub, settings={**FAST, "limits.messagesPerSecond": 50, "limits.messageBurst": 100, "limits.refusalsPerSecond": 20})
    report = hostile(hub, "steady=8s", "hostile.floods=4", "hostile.rate=2000")
    print(report)
    assert report["hostileErrors"] > 0 and ends(report, "close 4009") >= 4, report
    eventually(lambda: hub.metric("hub_floods_closed_total") >= 4)
