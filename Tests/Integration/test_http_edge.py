"""HTTP/1.1 at the hub's edge, with curl and raw sockets. B…: the field reports that these rules come from."""

import json
import subprocess
import time

import pytest

from hub import request, run, status
from raw import PAGE, Raw, guarded, hub


def curl(*arguments, data=None):
    done = subprocess.run(
        ["curl", "--silent", "--show-error", "--max-time", "10", "--noproxy", "*", *arguments], input=data, capture_output=True, check=False)
    return done.returncode, done.stdout.decode(), done.stderr.decode()


def test_curl_keeps_a_connection_and_heads_have_lengths_without_bodies(hub):
    _, out, told = curl("-v", f"{hub.url}/healthz", f"{hub.url}/readyz")
    assert out == '{"status":"alive"}{"status":"ready"}' and "Re-using existing connection" in told
    code, out, _ = curl("--head", f"{hub.url}/healthz")
    assert code == 0 and out.startswith("HTTP/1.1 200") and "Content-Length: 18" in out
    _, out, _ = curl("--http1.0", "-i", f"{hub.url}/healthz")
    assert "Connection: close" in out and out.endswith('{"status":"alive"}')


def test_curl_waits_for_continue_sends_chunks_and_is_told_what_is_too_long(hub):
    body = json.dumps({"channel": "room:curl", "payload": "x" * 20_000}).encode()
    for options in (["-H", "Expect: 100-continue"], ["-H", "Transfer-Encoding: chunked"], ["-H", "Transfer-Encoding: chunked", "-H", "Expect: 100-continue"]):
        code, out, told = curl("-v", *options, "--data-binary", "@-", f"{hub.url}/v1/publish", data=body)
        assert code == 0 and json.loads(out)["channel"] == "room:curl", (options, out, told)
        assert ("100 Continue" in told) == ("Expect: 100-continue" in options)
    for options in (["-H", "Expect: 100-continue"], ["-H", "Transfer-Encoding: chunked"], []):
        _, out, told = curl("-v", "-w", "%{http_code}", *options, "--data-binary", "@-", f"{hub.url}/v1/publish", data=b"x" * (1024 * 1024 + 1))
        assert out.endswith("413") and "tooLarge" in out, (options, out[-300:])
        assert "100 Continue" not in told or options[0:1] == ["-H"]


def test_options_tell_what_a_route_takes(hub):
    for path, allowed in (("/healthz", "GET, HEAD, OPTIONS"), ("/v1/publish", "POST, OPTIONS"), ("/v1/ws", "GET, OPTIONS"), ("/v1/presence/a", "GET, HEAD, OPTIONS")):
        code, fields, body = request(hub.url + path, "OPTIONS")
        assert (code, fields["Allow"], body) == (204, allowed, b"")
        code, fields, _ = request(hub.url + path, "PATCH")
        assert (code, fields["Allow"]) == (405, allowed)
    assert request(f"{hub.url}/nowhere", "OPTIONS")[0] == 404
    with Raw(hub, b"OPTIONS * HTTP/1.1\r\nHost: localhost\r\n\r\n") as raw:
        assert raw.response()[0] == 204


def test_a_page_may_use_the_api_from_a_listed_origin_only(guarded):
    asks = {"Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": "authorization,content-type"}
    code, fields, _ = request(f"{guarded.url}/v1/publish", "OPTIONS", headers={"Origin": PAGE, **asks})
    assert (code, fields["Access-Control-Allow-Origin"], fields["Vary"]) == (204, PAGE, "Origin")
    assert "POST" in fields["Access-Control-Allow-Methods"]
    assert {"authorization", "content-type", "idempotency-key"} <= {name.strip().lower() for name in fields["Access-Control-Allow-Headers"].split(",")}
    assert "Access-Control-Allow-Credentials" not in fields
    # Also errors are readable to the page, and answers that come later.
    for key, code in (("wrong", 401), ("test", 200)):
        answer = request(f"{guarded.url}/v1/nodes", key=key, headers={"Origin": PAGE})
        assert (answer[0], answer[1]["Access-Control-Allow-Origin"], answer[1]["Vary"]) == (code, PAGE, "Origin")
    for origin in ("https://evil.example", "http://app.example.com", f"{PAGE}:444", f"{PAGE}.evil.example", "null"):
        for method in ("OPTIONS", "GET"):
            code, fields, body = request(f"{guarded.url}/v1/nodes", method, key="test", headers={"Origin": origin, **asks})
            assert code == 403 and "Access-Control-Allow-Origin" not in fields and fields["Vary"] == "Origin" and body["error"]["code"] == "forbidden"
    code, fields, _ = request(f"{guarded.url}/v1/nodes", key="test")
    assert (code, fields["Vary"], fields["Access-Control-Allow-Origin"]) == (200, "Origin", None)


def test_limits_of_a_request_are_exact(hub):
    def status_of(data):
        with Raw(hub, data) as raw:
            return raw.response()[0]

    def head(size):
        start = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nX: "
        return start + b"x" * (size - len(start) - 4) + b"\r\n\r\n"

    assert (status_of(head(8192)), status_of(head(8193))) == (200, 431)

    def headers(count):
        return b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n" + b"X: y\r\n" * (count - 1) + b"\r\n"

    assert (status_of(headers(64)), status_of(headers(65))) == (200, 431)
    limit = 1024 * 1024

    def body(count, head=b"Content-Length: %d\r\n\r\n%s"):
        return b"POST /v1/publish HTTP/1.1\r\nHost: localhost\r\n" + head % (count, b"x" * min(count, limit))

    chunked = b"Transfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n0\r\n\r\n"
    assert (status_of(body(limit)), status_of(body(limit + 1))) == (400, 413)
    assert (status_of(body(limit, chunked)), status_of(body(limit + 1, chunked))) == (400, 413)


@pytest.mark.parametrize("smuggled", [
    b"Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n5c\r\n",
    b"Content-Length: 4\r\nContent-Length: 5\r\n\r\nabcd",
    b"Content-Length: 4, 4\r\n\r\nabcd",
    b"Content-Length: +4\r\n\r\nabcd",
    b"Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n\r\n0\r\n\r\n",
    b"Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n",
    b"Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n",
    b"Transfer-Encoding:\x0bchunked\r\n\r\n0\r\n\r\n",
    b"X: a\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    b"Transfer-Encoding: chunked\r\n\r\n0x0\r\n\r\n",
    b"Transfer-Encoding: chunked\r\n\r\n1\r\nab\r\n0\r\n\r\n",
    b"Transfer-Encoding: chunked\r\n\r\n0\n\r\n",
])
def test_a_request_with_two_readings_is_refused_and_nothing_behind_it_is_taken(hub, smuggled):
    with Raw(hub, b"POST /v1/publish HTTP/1.1\r\nHost: localhost\r\n" + smuggled + b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n" * 2) as raw:
        code, head, _ = raw.response()
        assert code in (400, 501) and "Connection: close" in head
        assert raw.head() is None, "something behind it was answered"


def test_pipelined_requests_are_answered_in_order_bodies_and_all(hub):
    requests = b""
    for number in range(60):
        body = json.dumps({"channel": "room:pipeline", "messageId": f"p-{number}", "payload": number}).encode()
        framed = b"Content-Length: %d\r\n\r\n%s" % (len(body), body) if number % 2 else b"Transfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n0\r\n\r\n" % (len(body), body)
        requests += b"POST /v1/publish HTTP/1.1\r\nHost: localhost\r\n" + framed
    with Raw(hub, requests + b"HEAD /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n") as raw:
        for number in range(60):
            code, _, body = raw.response()
            assert (code, json.loads(body)["messageId"]) == (200, f"p-{number}")
        code, head = raw.head()
        assert code == 200 and raw.held == b""
