"""A client of server-sent events, made of the standard library: reads as WHATWG HTML §9.2.6 says, and posts its requests."""

import http.client
import json
import queue
import threading
import time
import urllib.parse

import hubschema
from client import Client
from hub import request


def events(lines):
    """Each event of a stream's lines (bytes), with its comments as (None, text, None)."""
    name, data, last = "message", [], None
    for line in lines:
        text = line.decode().rstrip("\n")
        if not text:
            if data:
                yield name, "\n".join(data), last
            name, data, last = "message", [], None
            continue
        field, _, value = text.partition(":")
        value = value.removeprefix(" ")
        if field == "":
            yield None, value, None
        elif field == "event":
            name = value
        elif field == "data":
            data.append(value)
        elif field == "id":
            last = value
        elif field == "retry":
            yield "retry", value, None
        else:
            raise AssertionError(f"an unknown field: {text!r}")


class Stream(Client):
    """One stream, with the calls of the WebSocket's client. `post_to`: where requests go, another node or a load balancer."""

    def __init__(
            self, server, user=None, token=None, device=None, channel=None, welcome=True, post_to=None, headers=None, context=None, address=None,
            **more):
        query = {key: value for key, value in (("user", user), ("device", device), ("channel", channel), *more.items()) if value}
        fields = {"Accept": "text/event-stream", **({"Authorization": f"Bearer {token}"} if token else {}), **(headers or {})}
        host, _, port = (address or server.address).rpartition(":")
        self.link = http.client.HTTPSConnection(host, int(port), timeout=60, context=context) if context \
            else http.client.HTTPConnection(host, int(port), timeout=60)
        self.link.request("GET", "/v1/sse?" + urllib.parse.urlencode(query), headers=fields)
        self.answer = self.link.getresponse()
        self.post_to = post_to or server
        self.is_packed = False
        self.inbox, self.retries, self.comments, self.ids_seen = [], [], 0, []
        self.ids = iter(range(1, 1 << 30))
        self.close_event, self.key, self.welcome = None, None, None
        self.has_ended = threading.Event()
        if self.answer.status != 200:
            self.body = self.answer.read()
            return
        self.waiting = queue.Queue()
        self.thread = threading.Thread(target=self._read, daemon=True)
        self.thread.start()
        if welcome is not None:
            self.key = self.expect(type="system", event="stream")["key"]
        if welcome:
            self.welcome = self.expect(type="system", event="welcome")

    def _read(self):
        try:
            for name, data, last in events(iter(self.answer.readline, b"")):
                if last is not None:
                    self.ids_seen.append(last)
                if name is None:
                    self.comments += 1
                elif name == "retry":
                    self.retries.append(int(data))
                elif name == "close":
                    self.close_event = json.loads(data)
                else:
                    self.waiting.put(data)
        except (OSError, http.client.HTTPException, ValueError, AttributeError):
            pass
        self.has_ended.set()
        self.waiting.put(None)

    @property
    def last_id(self):
        return self.ids_seen[-1] if self.ids_seen else None

    def post(self, *envelopes, to=None, key=None, **options):
        """(status, headers, body) of a post of these envelopes, one a line."""
        for envelope in envelopes:
            hubschema.check_client(envelope)
        return self.post_raw("\n".join(map(json.dumps, envelopes)).encode(), to=to, key=key, **options)

    def post_raw(self, body, to=None, key=None, **options):
        options.setdefault("headers", {"Content-Type": "application/x-ndjson"})
        return request(f"{(to or self.post_to).url}/v1/sse/{key or self.key}", "POST", body, **options)

    def send(self, envelope):
        code, _, body = self.post(envelope)
        assert code == 202, (code, body)

    def _receive(self, deadline):
        try:
            text = self.waiting.get(timeout=max(0.0001, deadline - time.monotonic()))
        except queue.Empty:
            return None
        if text is None:
            self.waiting.put(None)
            return None
        message = json.loads(text)
        hubschema.check_server(message)
        return message

    def expect_close(self, seconds=15):
        """(code, reason) of the close that the hub tells."""
        assert self.has_ended.wait(seconds), f"still open after {seconds} s"
        return (self.close_event["code"], self.close_event["reason"]) if self.close_event else (1006, "")

    def leave(self):
        self.send({"type": "leave"})

    def vanish(self):
        if self.link.sock:
            self.link.sock.shutdown(2)
        elif self.answer.fp:
            # The socket is the answer's alone once the answer has no length.
            self.answer.fp.raw._sock.shutdown(2)

    def __exit__(self, *_):
        try:
            self.vanish()
        except OSError:
            pass

