"""A backend that is told of users by webhooks: it checks what it gets as docs/hooks.md says, and misbehaves as a test wants."""

import contextlib
import http.server
import json
import random
import re
import socket
import threading
import time
import types

from hub import TOP

SECRET = "a secret of the receiver's own"

# The receiver's side as docs/hooks.md has it, word for word.
_document = {}
exec(re.search(r"```python\n(.*?)```", (TOP / "docs" / "hooks.md").read_text(), re.DOTALL).group(1), _document)


def verify(headers, body, secrets, late=0):
    """The events of a request that is ours; ValueError says why it isn't. `late`: seconds that the receiver's clock is ahead."""
    _document["time"] = types.SimpleNamespace(time=lambda: time.time() + late)
    return _document["verify"](headers, body, [secret.encode() for secret in secrets])


class Receiver:
    """`status(body)` says what is answered (an int, or None to hang up); `delay()` how long that takes."""

    def __init__(self, secrets=(SECRET,), seed=1):
        self.secrets = secrets
        self.chance = random.Random(seed)
        self.status = lambda body: 204
        self.delay = lambda: 0
        self.lock = threading.Lock()
        self.requests = []
        # Events that were taken, in order, repeats among them; the first of each by its id.
        self.taken = []
        self.first = {}
        self.lost = 0
        self.refused = []
        self.under_way = self.most = 0
        self.open = []
        self.start()

    def start(self, port=0):
        receiver = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def setup(self):
                super().setup()
                with receiver.lock:
                    receiver.open.append(self.connection)

            def do_POST(self):
                with receiver.lock:
                    receiver.under_way += 1
                    receiver.most = max(receiver.most, receiver.under_way)
                try:
                    receiver.handle(self)
                finally:
                    with receiver.lock:
                        receiver.under_way -= 1

            def log_message(self, *arguments):
                pass

        class Server(http.server.ThreadingHTTPServer):
            daemon_threads = True
            allow_reuse_address = True
            request_queue_size = 128

            def handle_error(self, request, client_address):
                pass

        self.server = Server(("127.0.0.1", port), Handler)
        self.port = self.server.server_address[1]
        self.url = f"http://127.0.0.1:{self.port}/told/secret-path"
        threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()

    def stop(self):
        self.server.shutdown()
        self.server.server_close()
        with self.lock:
            # Those that are kept alive too.
            for connection in self.open:
                with contextlib.suppress(OSError):
                    connection.shutdown(socket.SHUT_RDWR)
            self.open.clear()

    def handle(self, call):
        body = call.rfile.read(int(call.headers["Content-Length"]))
        time.sleep(self.delay())
        with self.lock:
            status = self.status(body)
            self.requests.append((time.monotonic(), dict(call.headers), body, status))
            try:
                events = verify(call.headers, body, self.secrets)
            except ValueError as error:
                self.refused.append(str(error))
                events, status = [], 401
            if status is not None and 200 <= status < 300:
                self.lost += json.loads(body).get("lost", 0)
                for event in events:
                    self.taken.append(event)
                    self.first.setdefault(event["id"], event)
        if status is None:
            call.close_connection = True
            call.connection.close()
            return
        call.send_response(status)
        if status == 429:
            call.send_header("Retry-After", "1")
        call.send_header("Content-Length", "0")
        call.end_headers()

    def of(self, name):
        """The user's or channel's events, each once, as they came first."""
        with self.lock:
            return [event for event in self.first.values() if event.get("user", event.get("channel")) == name]

    def types(self, name):
        return [event["type"] for event in self.of(name)]

    def complaints(self):
        """What can't be, whatever happened: a user's versions that go back, a change that changes nothing, a channel's times that go back."""
        with self.lock:
            events = list(self.first.values())
        wrong = []
        by_user, by_channel = {}, {}
        for event in events:
            if "channel" in event:
                by_channel.setdefault(event["channel"], []).append(event)
            else:
                by_user.setdefault(event["user"], []).append(event)
        for channel, own in by_channel.items():
            types, times = [event["type"] for event in own], [event["time"] for event in own]
            if any(one == next for one, next in zip(types, types[1:])) or (types[0] != "channel.occupied" and not self.lost) or times != sorted(times):
                wrong.append(f"{channel}: {list(zip(times, types))}")
            if any((event["occupancy"] == 0) != (event["type"] == "channel.vacated") for event in own):
                wrong.append(f"{channel}: {own}")
        for user, own in by_user.items():
            versions = [event["version"] for event in own]
            if versions != sorted(set(versions)):
                wrong.append(f"{user}: {versions}")
            types = [event["type"] for event in own]
            # Where events were lost a user may begin with either.
            if any(one == next for one, next in zip(types, types[1:])) or (types[0] != "user.online" and not self.lost):
                wrong.append(f"{user}: {types}")
        return wrong


def settings(receiver, **more):
    return {"hooks.url": receiver.url, "hooks.secret": SECRET, "hooks.lease": "2s", "hooks.retryMax": "1s", "hooks.deadline": "2s", **more}
