"""Who comes in, and who doesn't: descriptors, pace, addresses. B…: the field reports that these rules come from."""

import json
import re
import resource
import time

from client import Client
from hub import Hub, eventually, status
from raw import Raw, opening, processor_time


def test_out_of_descriptors_the_node_goes_on_and_says_so_once_a_second(start):
    """B58"""
    hub = start(Hub, prefix=["prlimit", "--nofile=128:128"])
    limit = hub.metric("hub_connections_limit")
    assert 32 <= limit <= 100 and '"node.connectionsLimited"' in hub.log
    with Client(hub, "member") as member:
        member.subscribe("room:full")
        crowd = [Raw(hub, opening(f"/v1/ws?user=crowd{number}")) for number in range(limit - 2)]
        assert all(raw.head()[0] == 101 for raw in crowd)
        late = []
        for number in range(200):
            try:
                late.append(Raw(hub, opening(f"/v1/ws?user=late{number}")))
            except OSError:
                pass
        answers = []
        for raw in late:
            try:
                answer = raw.head()
            except OSError:
                answer = None
            answers.append(answer and answer[0])
            raw.socket.close()
        assert answers.count(503) > 20 and answers.count(101) <= 2, answers
        used, began = processor_time(hub), time.monotonic()
        assert member.chat("room:full", "still served")["type"] == "ack"
        eventually(lambda: status(f"{hub.url}/healthz") == 200, what="the probes are answered although the node is full")
        # Below what the process was promised: the spare descriptor's day.
        resource.prlimit(hub.process.pid, resource.RLIMIT_NOFILE, (40, 128))
        for raw in crowd[-10:]:
            raw.socket.close()
        waiting = [Raw(hub, opening()) for _ in range(20)]
        eventually(lambda: member.chat("room:full", "and again") and "outOfDescriptors" in hub.log)
        time.sleep(0.5)
        assert processor_time(hub) - used < 0.25 * (time.monotonic() - began) + 0.1, "the loop spins"
        resource.prlimit(hub.process.pid, resource.RLIMIT_NOFILE, (128, 128))
        for raw in [*waiting, *crowd[:20]]:
            raw.socket.close()

        def comes_in():
            with Raw(hub, opening("/v1/ws?user=new")) as raw:
                answer = raw.head()
                return answer and answer[0] == 101

        eventually(comes_in, 3, "places that become free are taken")
        assert hub.metric("hub_accept_exhausted_total") > 0
        assert hub.log.count("connections.refused") <= 3 + (time.monotonic() - began)
        for raw in crowd:
            raw.socket.close()


def test_a_herd_is_let_in_at_its_pace_and_told_when_to_come_back(start):
    """B44: the rest gets 503 with a time, a page 1013; the probes and those who are in notice nothing."""
    hub = start(Hub, settings={"limits.acceptsPerSecond": 20})
    with Client(hub, "inside") as inside:
        inside.subscribe("room:herd")
        answers = [Raw(hub, opening(f"/v1/ws?user=herd{number}")).response() for number in range(60)]
        refused = [answer for answer in answers if answer[0] == 503]
        assert 15 <= len(answers) - len(refused) <= 40
        hints = [json.loads(body)["error"]["retryAfter"] for _, _, body in refused]
        assert all(json.loads(body)["error"]["code"] == "overloaded" for _, _, body in refused)
        assert all(1000 <= hint <= 60_000 for hint in hints) and len(set(hints)) > len(hints) // 2 and max(hints) > min(hints) + 500
        assert all(re.search(r"Retry-After: \d+", head) for _, head, _ in refused)
        assert status(f"{hub.url}/readyz") == 200
        assert inside.chat("room:herd", "calm")["type"] == "ack"
        with Raw(hub, opening("/v1/ws?user=page", more="Origin: http://localhost:3000\r\n")) as page:
            assert page.head()[0] == 101
            first, payload = next(page.frames())
            assert first == 0x88 and int.from_bytes(payload[:2], "big") == 1013 and re.match(rb"\d+ ", payload[2:])
    eventually(lambda: hub.metric("hub_turned_away_total") == len(refused) + 1, what="they are counted")


def test_one_address_may_hold_so_many_connections(start):
    hub = start(Hub, settings={"limits.connectionsPerAddress": 5})
    held = [Raw(hub, opening(f"/v1/ws?user=a{number}")) for number in range(5)]
    assert all(raw.head()[0] == 101 for raw in held)
    with Raw(hub) as sixth:
        assert sixth.head()[0] == 429
    held.pop().socket.close()

    def comes_in():
        with Raw(hub, opening("/v1/ws?user=again")) as raw:
            answer = raw.head()
            return answer and answer[0] == 101

    eventually(comes_in, what="a place that became free is taken")
    for raw in held:
        raw.socket.close()
    eventually(lambda: hub.metric("hub_connections_refused_by_address_total") >= 1)


def test_behind_a_trusted_proxy_each_client_counts_for_itself(start):
    hub = start(Hub, settings={"limits.connectionsPerAddress": 2, "proxy.trusted": "127.0.0.1"})

    def comes(client):
        raw = Raw(hub, opening(more=f"X-Forwarded-For: {client}\r\n"))
        return raw, raw.head()[0]

    came = [comes(client) for client in ("192.0.2.1", "192.0.2.1", "192.0.2.1", "192.0.2.2", "2001:db8::1", "2001:db8::2", "2001:db8::3")]
    assert [code for _, code in came] == [101, 101, 429, 101, 101, 101, 429]
    assert status(f"{hub.url}/healthz") == 200
    for raw, _ in came:
        raw.socket.close()
