"""The swarm against a hub that says what isn't so: each kind of it is found, and called what it is."""

import json

import pytest

from hub import Hub, run
from spoiler import Spoiler

PLAY = {
    "users": 24, "rampUp": "1s", "warmUp": "0s", "steady": "5s", "coolDown": "2s", "rooms.count": 4, "rooms.joined": 1, "talk.every": "1s",
    "talk.typing": "200ms", "roster.users": 0, "session.length": "null", "loss.every": "null", "sleep.every": "null", "away.every": "null",
    "read.every": "null",
}


@pytest.fixture(scope="module")
def hub(folder):
    node = Hub(folder)
    yield node
    node.kill()


def play(hub, way, *flags):
    """(What it said, how often it was spoilt)."""
    with Spoiler(hub, way) as spoiler:
        words = flags or ["run", "chat", *[word for name, value in PLAY.items() for word in ("--set", f"{name}={value}")]]
        told = run("hub-swarm", *words, "--url", spoiler.url, "--json", "--seed", 7, timeout=120)
        assert told.stdout.strip(), told.stderr
        return json.loads(told.stdout), spoiler.spoilt, told.returncode


def test_a_hub_that_is_only_relayed_is_well(hub):
    report, _, status = play(hub, "nothing")
    assert report["violations"] == {} and status == 0, report


@pytest.mark.parametrize("way, kind", [
    ("leak", "unasked"), ("swap", "outOfOrder"), ("twice", "duplicated"), ("another_payload", "contradiction"),
    ("no_payload_of_ours", "contradiction"), ("another_sender", "contradiction"), ("ack_of_another_offset", "contradiction"),
    ("ack_of_another_message", "contradiction"), ("somebody_elses_typing", "contradiction"),
])
def test_what_is_spoilt_is_found_as_often_as_it_was_and_nothing_else(hub, way, kind):
    report, spoilt, status = play(hub, way)
    assert spoilt > 0 and status == 1, report
    found = dict(report["violations"])
    count = found.pop(kind, 0)
    # The last ones may be spoilt when all is judged already.
    assert found == {} and spoilt * 0.9 <= count <= spoilt, (report, spoilt)


def test_a_leak_is_found_without_a_scenario_too(hub):
    report, spoilt, status = play(hub, "leak", "--bots", "24", "--rooms", "4", "--seconds", "4", "--rate", "1")
    assert spoilt > 0 and status == 1 and not report["ok"], report
