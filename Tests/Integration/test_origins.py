"""Whose pages may come: auth.origins and auth.originRequired at every door, and the headers of every answer."""

import json
import time

import jwt
import pytest

from hub import Hub, eventually, request, running
from raw import KEY, Raw, opening

PAGE = "https://app.example.com"


@pytest.fixture(scope="module")
def hub(folder):
    with running(Hub(folder, settings={"auth.origins": f"{PAGE},https://*.example.org"})) as node:
        yield node


def opened(hub, origin, path="/v1/ws?user=page"):
    """The status that a handshake with these header lines gets."""
    with Raw(hub, opening(path, more=origin)) as raw:
        head = raw.head()
        return head and head[0]


@pytest.mark.parametrize("origin, status", [
    ("", 101), (f"Origin: {PAGE}\r\n", 101), (f"Origin: {PAGE}:443\r\n", 101), ("Origin: HTTPS://APP.EXAMPLE.COM\r\n", 101),
    ("Origin: https://www.example.org\r\n", 101), ("Origin: https://a.www.example.org\r\n", 403), ("Origin: https://example.org\r\n", 403),
    ("Origin: http://app.example.com\r\n", 403), (f"Origin: {PAGE}:444\r\n", 403), (f"Origin: {PAGE}.\r\n", 403), (f"Origin: {PAGE}/\r\n", 403),
    ("Origin: null\r\n", 403), ("Origin: \r\n", 403), (f"Origin: {PAGE}@evil.example\r\n", 403), (f"Origin: {PAGE}.evil.example\r\n", 403),
    (f"Origin: {PAGE}\r\nOrigin: {PAGE}\r\n", 403), (f"Origin: {PAGE}\r\nOrigin: https://evil.example\r\n", 403),
    ("Origin: https://" + "a" * 5000 + ".example.com\r\n", 403), ("Origin: https://\xc3\xa4pp.example.com\r\n", 403),
])
def test_a_page_opens_a_websocket_or_a_stream_if_its_origin_is_listed(hub, origin, status):
    assert opened(hub, origin) == status
    with Raw(hub, f"GET /v1/sse?user=page HTTP/1.1\r\nHost: localhost\r\n{origin}\r\n".encode()) as raw:
        code = raw.head()[0]
        assert (code == 403) == (status == 403), code


def test_answers_may_be_read_by_listed_pages_alone(hub):
    code, headers, _ = request(f"{hub.url}/v1/nodes", headers={"Origin": PAGE})
    assert (code, headers["Access-Control-Allow-Origin"], headers["Vary"]) == (200, PAGE, "Origin")
    code, headers, body = request(f"{hub.url}/v1/nodes", headers={"Origin": "https://evil.example"})
    assert code == 403 and "Access-Control-Allow-Origin" not in headers and body["error"]["code"] == "forbidden"
    code, headers, _ = request(
        f"{hub.url}/v1/publish", "OPTIONS", headers={"Origin": "https://www.example.org", "Access-Control-Request-Method": "POST"})
    assert code == 204 and headers["Access-Control-Allow-Origin"] == "https://www.example.org"
    assert request(f"{hub.url}/v1/publish", "OPTIONS", headers={"Origin": "null", "Access-Control-Request-Method": "POST"})[0] == 403
    eventually(lambda: hub.metric('hub_security_events_total{event="originRefused"}') >= 2, what="refusals are counted")
    hub.expect_log("security.originRefused")


def test_where_an_origin_is_required_only_browsers_come_in_and_servers_still_use_the_api(start, tmp_path):
    hub = start(Hub, settings={"auth.origins": PAGE, "auth.originRequired": "true"})
    assert opened(hub, f"Origin: {PAGE}\r\n") == 101
    assert opened(hub, "") == 403
    with Raw(hub, b"GET /v1/sse?user=page HTTP/1.1\r\nHost: localhost\r\n\r\n") as raw:
        assert raw.head()[0] == 403
    assert request(f"{hub.url}/v1/nodes")[0] == 200


def test_a_pattern_over_a_whole_domain_is_said_by_check(tmp_path):
    from hub import run

    answer = run("hubd", "--dev", "--check", "--set", "auth.origins=https://*.com")
    assert answer.returncode == 0 and "everybody with a name under .com" in answer.stderr
    answer = run("hubd", "--dev", "--check", "--set", "auth.origins=null")
    assert answer.returncode == 2 and "auth.origins[0]" in answer.stderr


GUARDS = {
    "X-Content-Type-Options": "nosniff", "X-Frame-Options": "DENY", "Referrer-Policy": "no-referrer",
}


@pytest.mark.parametrize("lines", [
    "GET / HTTP/1.1\r\nHost: localhost", "GET /healthz HTTP/1.1\r\nHost: localhost", "GET /readyz HTTP/1.1\r\nHost: localhost",
    "GET /metrics HTTP/1.1\r\nHost: localhost", "GET /v1/nodes HTTP/1.1\r\nHost: localhost", "GET /v1/presence/alice HTTP/1.1\r\nHost: localhost",
    "GET /v1/channels/room:1/history HTTP/1.1\r\nHost: localhost", "GET /nowhere HTTP/1.1\r\nHost: localhost",
    "POST /v1/publish HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\n\r\n{}", "DELETE /v1/publish HTTP/1.1\r\nHost: localhost",
    "OPTIONS /v1/publish HTTP/1.1\r\nHost: localhost", "OPTIONS * HTTP/1.1\r\nHost: localhost", "GET /v1/ws HTTP/1.1\r\nHost: localhost",
    "GET /v1/sse?user=page HTTP/1.1\r\nHost: localhost", "POST /v1/sse/nobody HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\n\r\n{}",
    "GET /v1/nodes HTTP/1.1\r\nHost: localhost\r\nOrigin: https://evil.example",
    # Refused before anything of ours saw them.
    "GET /v1/nodes HTTP/1.1", "GET  /v1/nodes HTTP/1.1\r\nHost: localhost", "GET /v1/nodes HTTP/2.0\r\nHost: localhost",
    "POST /v1/publish HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\nTransfer-Encoding: chunked", "GET /" + "x" * 20_000 + " HTTP/1.1",
    "POST /v1/publish HTTP/1.1\r\nHost: localhost\r\nContent-Length: 99999999999999999999", "\x16\x03\x01",
    "GET /v1/ws HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 8",
])
def test_every_answer_has_the_headers_that_keep_it_what_it_is(hub, lines):
    with Raw(hub, (lines if "\r\n\r\n" in lines else lines + "\r\n\r\n").encode("latin-1")) as raw:
        code, head = raw.head()
    fields = [tuple(line.split(": ", 1)) for line in head.split("\r\n")[1:] if line]
    for name, value in GUARDS.items():
        assert [content for field, content in fields if field == name] == [value], head
    assert [content for field, content in fields if field == "Cache-Control"][0] in ("no-store", "no-store, no-transform", "private, no-cache"), head
    policies = [content for field, content in fields if field == "Content-Security-Policy"]
    assert len(policies) == 1 and "default-src 'none'" in policies[0] and "frame-ancestors 'none'" in policies[0]
    assert not [field for field, _ in fields if field.lower() in ("server", "x-powered-by", "set-cookie")]


def test_an_address_with_too_many_connections_gets_them_too(start):
    hub = start(Hub, settings={"limits.connectionsPerAddress": 3})
    held, refused = [], None
    try:
        while refused is None and len(held) < 10:
            held.append(Raw(hub, opening()))
            code, head = held[-1].head()
            refused = head if code == 429 else None
    finally:
        for raw in held:
            raw.socket.close()
    assert all(f"{name}: {value}" in refused for name, value in GUARDS.items()) and "Content-Security-Policy" in refused


# The security log


def log_lines(hub, event):
    return [json.loads(line) for line in hub.log.splitlines() if f'"security.{event}"' in line]


def test_each_kind_of_refusal_has_its_event_and_its_count_and_no_secret_is_in_any(start, tmp_path):
    secret = tmp_path / "secret"
    secret.write_text(KEY)
    config = tmp_path / "hub.json5"
    config.write_text('{ auth: { keys: [{ alg: "HS256", file: "%s" }], origins: ["%s"] }, api: { keys: [{ id: "app", file: "%s", scopes: ["read"] }] } }' % (
        secret, PAGE, secret))
    hub = start(Hub, dev=False, config=config)
    hub.api_key = KEY
    marker = "marker-that-must-not-be-seen"
    bad = jwt.encode({"sub": "alice", "exp": 2 ** 31}, marker * 2, "HS256")
    stale = jwt.encode({"sub": "alice", "exp": 1_000_000_000, "note": marker}, KEY, "HS256")
    good = jwt.encode({"sub": "alice", "exp": int(time.time()) + 600}, KEY, "HS256")
    for credential in (bad, stale, marker):
        with Raw(hub, opening("/v1/ws", more=f"Authorization: Bearer {credential}\r\n")) as raw:
            assert raw.head()[0] == 401
    assert request(f"{hub.url}/v1/nodes", key=marker)[0] == 401
    assert request(f"{hub.url}/v1/publish", "POST", {"channel": "room:1"}, key=KEY)[0] == 403
    opened(hub, f"Origin: https://{marker[:20]}.example\r\n")
    with Raw(hub, f"GET /?{marker} HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n".encode()) as raw:
        raw.head()
    with Raw(hub, opening("/v1/ws").replace(b"Version: 13", b"Version: 12")) as raw:
        raw.head()
    with Raw(hub, opening("/v1/ws", more=f"Authorization: Bearer {good}\r\n")) as raw:
        assert raw.head()[0] == 101
        raw.send(b"\x81\x05hello")
        assert any(first == 0x88 for first, _ in raw.frames())
    kinds = ("badToken", "expiredToken", "badKey", "forbidden", "originRefused", "badRequest", "badHandshake", "badFrame")
    for kind in kinds:
        eventually(lambda: log_lines(hub, kind), what=f"security.{kind} is logged")
        line = log_lines(hub, kind)[0]
        assert line["client"] == "127.0.0.1", line
        eventually(lambda: hub.metric(f'hub_security_events_total{{event="{kind}"}}') >= 1, what=f"{kind} is counted")
    assert log_lines(hub, "badFrame")[0]["user"] == "alice"
    metrics = request(f"{hub.url}/metrics", key=KEY)[2].decode()
    for text in (hub.log, metrics):
        assert marker not in text and KEY not in text and bad not in text and good not in text and stale not in text


def test_many_refusals_are_a_few_lines_that_say_how_many_they_stand_for(start):
    hub = start(Hub, settings={"loops": 1, "auth.origins": PAGE})
    for _ in range(60):
        assert opened(hub, "Origin: https://evil.example\r\n") == 403
    eventually(lambda: hub.metric('hub_security_events_total{event="originRefused"}') == 60)
    import time
    time.sleep(1.1)
    opened(hub, "Origin: https://evil.example\r\n")
    eventually(lambda: sum(1 + line.get("suppressed", 0) for line in log_lines(hub, "originRefused")) == 61, what="none is left out of the sum")


def test_without_personal_data_the_log_has_pseudonyms(start):
    hub = start(Hub, settings={"log.personal": "false", "auth.origins": PAGE, "limits.messagesPerSecond": 1, "limits.messageBurst": 1})
    opened(hub, "Origin: https://evil.example\r\n")
    from client import Client
    with Client(hub, "alice-the-first") as alice:
        for _ in range(5):
            alice.try_request("unsubscribe", channel="room:1")
    eventually(lambda: log_lines(hub, "rateLimited") and log_lines(hub, "originRefused"))
    line = log_lines(hub, "rateLimited")[0]
    assert line["user"].startswith("#") and line["client"].startswith("#") and line["detail"] == "messages"
    assert log_lines(hub, "originRefused")[0]["client"] == line["client"]
    assert "alice-the-first" not in hub.log and '"127.0.0.1"' not in hub.log


def test_without_personal_data_a_refusal_names_nobody_else_either(start):
    from client import Client
    from tokens import SECRET, mint
    hub = start(Hub, dev=False, settings={"log.personal": "false", "auth.keys": '[{"alg":"HS256","secret":"%s"}]' % SECRET})
    with Client(hub, token=mint("alice-the-first", caps={})) as alice:
        refused = alice.try_request("watch", users=["bob-the-second"])
        assert refused["code"] == "forbidden" and "bob-the-second" in refused["message"]
    eventually(lambda: log_lines(hub, "forbidden"))
    assert "#" in log_lines(hub, "forbidden")[0]["detail"] and "bob-the-second" not in hub.log
