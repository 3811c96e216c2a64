"""The WebSocket's door and its frames, with raw sockets. B…: the field reports that these rules come from."""

import json
import os
import resource

import pytest

from hub import status
from raw import frame, guarded, hub, memory, opening, Raw, text


def handshake(*lines, start="GET /v1/ws?user=raw HTTP/1.1"):
    return "\r\n".join((start, *lines, "", "")).encode()


UPGRADE = ("Host: hub", "Upgrade: websocket", "Connection: Upgrade", "Sec-WebSocket-Version: 13", "Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==")


def changed(place, *lines):
    return handshake(*UPGRADE[:place], *lines, *UPGRADE[place + 1:])


@pytest.mark.parametrize("accepted", [
    handshake(*UPGRADE), handshake(*reversed(UPGRADE)), handshake(*(line.lower() if "Key" not in line else line for line in UPGRADE)),
    changed(2, "connection: upgrade"), changed(2, "Connection: keep-alive, Upgrade"), changed(2, "Connection: keep-alive", "Connection: upgrade"),
    changed(1, "UPGRADE: WebSocket"), changed(1, "Upgrade:websocket"), changed(1, "Upgrade:\t websocket \t"), changed(1, "Upgrade: h2c, websocket"),
])
def test_legal_forms_of_the_handshake_are_taken(hub, accepted):
    """B47"""
    with Raw(hub, accepted) as raw:
        assert raw.head()[0] == 101


@pytest.mark.parametrize(("refused", "code"), [
    (changed(2, "Connection: notupgrade"), 400), (changed(2), 400), (changed(1), 426), (changed(1, "Upgrade: websocketx"), 400),
    (changed(4), 400), (changed(4, "Sec-WebSocket-Key: short"), 400), (changed(4, UPGRADE[4], "Sec-WebSocket-Key: BBBBBBBBBBBBBBBBBBBBBA=="), 400),
    (changed(3, "Sec-WebSocket-Version: 8"), 426), (changed(3), 400), (handshake(*UPGRADE, start="GET /v1/ws?user=raw HTTP/1.0"), 400),
    (handshake(*UPGRADE, "Content-Length: 3") + b"abc", 400), (handshake(*UPGRADE, start="POST /v1/ws?user=raw HTTP/1.1"), 405),
])
def test_wrong_forms_of_the_handshake_are_refused_with_words(hub, refused, code):
    """B47"""
    with Raw(hub, refused) as raw:
        status_code, head, body = raw.response()
        assert status_code == code, head
        assert json.loads(body)["error"]["message"]
        assert code != 426 or "Sec-WebSocket-Version: 13" in head


def test_frames_in_the_same_segment_as_the_handshake_count(hub):
    """B37"""
    subscribe = text(type="subscribe", id=2, channel="room:glued")
    for cut in (1, len(subscribe) // 2, len(subscribe) - 1):
        with Raw(hub, opening() + text(type="ping", id=1) + subscribe[:cut]) as raw:
            assert raw.head()[0] == 101
            messages = raw.messages()
            # What comes before the welcome waits for it, in order.
            assert [next(messages)["type"], next(messages)["type"]] == ["system", "pong"]
            raw.send(subscribe[cut:])
            assert next(messages)["id"] == 2


@pytest.mark.parametrize(("length", "code"), [
    (b"\xff" + b"\xff" * 8, 1002), (b"\xff\x80" + b"\0" * 7, 1002), (b"\xff" + b"\xff" * 7 + b"\xfc", 1002), (b"\xff\x7f" + b"\xff" * 7, 1009),
    (b"\xff" + b"\0" * 7 + b"\x7d", 1002), (b"\xff" + b"\0" * 6 + b"\xff\xff", 1002), (b"\xfe\0\x7d", 1002), (b"\x7f\x7f" + b"\xff" * 7, 1002),
])
@pytest.mark.parametrize("behind", [b"", frame(0x01, b"a")])
def test_a_hostile_length_is_judged_from_the_header_alone(hub, length, code, behind):
    """B35"""
    with Raw(hub, opening("/v1/ws?user=hostile") + behind + bytes([0x80 if behind else 0x81]) + length) as raw:
        assert raw.head()[0] == 101
        assert raw.close_code() == code


@pytest.mark.parametrize("payload", [b"", b"x"])
def test_fragments_without_end_are_bounded(guarded, payload):
    """B39: before authentication."""
    before = memory(guarded)
    with Raw(guarded, opening("/v1/ws")) as raw:
        assert raw.head()[0] == 101
        try:
            raw.send(frame(0x01, b"{") + frame(0x00, payload) * 200_000)
        except OSError:
            pass
        assert raw.close_code() in (1008, 1009, None)
    assert memory(guarded) - before < 2 * 64 * 1024 + 4 * 1024 * 1024
    assert status(f"{guarded.url}/healthz") == 200


def test_a_flood_of_pings_is_closed_and_answered_by_the_latest_only(guarded):
    """B39"""
    with Raw(guarded, opening("/v1/ws")) as raw:
        assert raw.head()[0] == 101
        try:
            raw.send(b"".join(frame(0x89, str(number).encode()) for number in range(20_000)))
        except OSError:
            pass
        kinds = [first for first, _ in raw.frames()]
        assert kinds.count(0x8A) < 300
        assert not kinds or kinds[-1] == 0x88
