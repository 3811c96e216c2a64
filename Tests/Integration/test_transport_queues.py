"""Readers that are too slow, or gone: what they get, and what they cost the others. B…: the field reports that these rules come from."""

import json
import socket

import pytest

from client import Client
from hub import Hub, eventually, running
from raw import frame, memory, text, welcomed


@pytest.fixture(scope="module")
def hub(folder):
    # A queue that a test can fill; long enough for a busy machine to read what a close left.
    with running(Hub(folder, settings={"limits.outboundBytes": "256KB", "deadlines.close": "20s"})) as node:
        yield node


def test_slow_readers_are_cut_off_with_4008_and_nobody_else_notices(hub):
    """B40, B41: bounded memory, the others without a gap, a counter that says so."""
    before_memory, cut_before = memory(hub), hub.metric("hub_slow_closed_total")
    slow = [welcomed(hub, f"slow{number}", buffer=4096, timeout=60) for number in range(6)]
    quick = [Client(hub, f"quick{number}") for number in range(4)]
    publisher = Client(hub, "publisher")
    for raw in slow:
        raw.send(text(type="subscribe", id=1, channel="room:slow"))
        assert next(raw.messages())["id"] == 1
    for client in quick:
        client.subscribe("room:slow")
    filler = "x" * 50_000
    peak, number, seen = 0, 0, [[] for _ in quick]
    while hub.metric("hub_slow_closed_total") < cut_before + len(slow):
        assert number < 2_000, "slow readers are kept"
        for _ in range(10):
            publisher.send({"type": "chat", "channel": "room:slow", "payload": f"{number} {filler}"})
            number += 1
        for place, client in enumerate(quick):
            while len(seen[place]) < number:
                seen[place].append(int(client.expect(type="chat")["payload"].split(" ")[0]))
        peak = max(peak, memory(hub))
    assert all(numbers == list(range(number)) for numbers in seen)
    # Queue and limit for each, and the kernel's buffers aren't ours.
    assert peak - before_memory < len(slow) * 2 * 256 * 1024 + 16 * 1024 * 1024
    for raw in slow:
        expected = 0
        for first, payload in raw.frames():
            if first == 0x88:
                assert int.from_bytes(payload[:2], "big") == 4008
                raw.send(frame(0x88, payload[:2]))
                break
            message = json.loads(payload)
            assert message["payload"].startswith(f"{expected} "), "a hole before the close"
            expected += 1
        else:
            raise AssertionError("no close frame came")
        raw.socket.close()
    assert hub.metric('hub_drops_total{class="closed"}') > 0
    eventually(lambda: hub.metric("hub_send_memory_bytes") == 0, what="the queues' memory is given back")
    for client in [*quick, publisher]:
        client.leave()


def test_a_slow_reader_loses_typing_first_and_is_told_how_much(hub):
    """B41: never a hole in chat; the client and the operator learn the same number."""
    before = hub.metric('hub_drops_total{class="typing"}')
    with welcomed(hub, "slow", buffer=4096, timeout=60) as raw, Client(hub, "writer") as writer:
        raw.send(text(type="subscribe", id=1, channel="room:shed"))
        assert next(raw.messages())["id"] == 1
        filler = "x" * 30_000
        chats = 0
        while hub.metric("hub_send_memory_bytes") < 100 * 1024:
            writer.chat("room:shed", f"{chats} {filler}")
            chats += 1
        typing = 200
        for number in range(typing):
            writer.send({"type": "typing", "channel": "room:shed", "payload": {"isTyping": True, "filler": filler[:10_000]}})
            if number % 40 == 0:
                writer.chat("room:shed", f"{chats} short")
                chats += 1
        writer.chat("room:shed", f"{chats} last")
        dropped, got_typing, got_chats = 0, 0, []
        for message in raw.messages():
            if message["type"] == "chat":
                got_chats.append(int(message["payload"]["text"].split(" ")[0]))
            elif message["type"] == "typing":
                got_typing += 1
            elif message.get("event") == "dropped":
                assert message["class"] == "typing"
                dropped += message["count"]
            if dropped and dropped + got_typing == typing and len(got_chats) == chats + 1:
                break
        assert got_chats == list(range(chats + 1))
        assert dropped > 50
        eventually(lambda: hub.metric('hub_drops_total{class="typing"}') == before + dropped, what="the counter agrees")


def test_read_positions_reach_a_slow_reader_conflated(hub):
    with welcomed(hub, "slow", buffer=4096, timeout=60) as raw, Client(hub, "writer") as writer, Client(hub, "reader") as reader:
        raw.send(text(type="subscribe", id=1, channel="room:reads"))
        assert next(raw.messages())["id"] == 1
        filler = "x" * 30_000
        while hub.metric("hub_send_memory_bytes") < 120 * 1024:
            writer.chat("room:reads", filler)
        last = 2_000
        for number in range(1, last + 1):
            reader.send({"type": "read", "channel": "room:reads", "payload": {"offset": number, "filler": filler[:1000]}})
        reader.sync()
        offsets = []
        for message in raw.messages():
            if message["type"] == "read":
                offsets.append(message["payload"]["offset"])
                if offsets[-1] >= last:
                    break
        assert offsets == sorted(offsets) and len(offsets) < last


def test_resets_during_a_broadcast_and_probes_that_hang_up_hurt_nobody(hub):
    """B70"""
    for _ in range(300):
        socket.create_connection(("127.0.0.1", hub.port)).close()
    with Client(hub, "publisher") as publisher, Client(hub, "listener") as listener:
        listener.subscribe("room:reset")
        raws = [welcomed(hub, f"gone{number}") for number in range(60)]
        for raw in raws:
            raw.send(text(type="subscribe", id=1, channel="room:reset"))
            assert next(raw.messages())["id"] == 1
        for number in range(60):
            publisher.send({"type": "chat", "channel": "room:reset", "payload": number})
            raws[number].reset()
        assert [listener.expect(type="chat")["payload"] for _ in range(60)] == list(range(60))
    assert hub.is_running
