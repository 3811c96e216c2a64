"""A backend that is asked by the hub: it checks that questions are the hub's, and answers as a test wants."""

import contextlib
import http.server
import json
import socket
import threading
import time

from hooks import verify

SECRET = "a secret of the backend's own"


class Backend:
    """`answer(question)` says what is answered: an object (200, JSON), (status, headers, bytes), or None to hang up."""

    def __init__(self):
        self.answer = lambda question: {"allow": True}
        self.lock = threading.Lock()
        self.questions, self.headers, self.refused = [], [], []
        self.open = []
        self.under_way = self.most = 0
        backend = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def setup(self):
                super().setup()
                with backend.lock:
                    backend.open.append(self.connection)

            def do_POST(self):
                with backend.lock:
                    backend.under_way += 1
                    backend.most = max(backend.most, backend.under_way)
                try:
                    backend.handle(self)
                except OSError:
                    self.close_connection = True
                finally:
                    with backend.lock:
                        backend.under_way -= 1

            def log_message(self, *arguments):
                pass

        class Server(http.server.ThreadingHTTPServer):
            daemon_threads = True
            request_queue_size = 128

            def handle_error(self, request, client_address):
                pass

        self.server = Server(("127.0.0.1", 0), Handler)
        self.port = self.server.server_address[1]
        threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()

    def url(self, what):
        return f"http://127.0.0.1:{self.port}/{what}?key=secret-path"

    def settings(self, *kinds, **more):
        """Settings of a hub that asks it about these."""
        return {"ask.secret": SECRET, **{f"ask.{kind}.url": self.url(kind) for kind in kinds}, **more}

    def handle(self, call):
        body = call.rfile.read(int(call.headers["Content-Length"]))
        try:
            verify(call.headers, body, [SECRET])
        except KeyError:
            # Signed; a webhook's body would have had events.
            pass
        except ValueError as error:
            self.refused.append(str(error))
        question = json.loads(body)
        assert call.path.startswith(f"/{question['ask']}?key=secret-path")
        with self.lock:
            self.questions.append(question)
            self.headers.append(dict(call.headers))
        answer = self.answer(question)
        if answer is None:
            call.close_connection = True
            call.connection.shutdown(socket.SHUT_RDWR)
            return
        status, headers, text = answer if isinstance(answer, tuple) else (200, {"Content-Type": "application/json"}, json.dumps(answer).encode())
        call.send_response(status)
        for name, value in headers.items():
            call.send_header(name, value)
        if "Content-Length" not in headers:
            call.send_header("Content-Length", str(len(text)))
        call.end_headers()
        call.wfile.write(text)

    def asked(self, kind):
        with self.lock:
            return [question for question in self.questions if question["ask"] == kind]

    def stop(self):
        self.server.shutdown()
        self.server.server_close()
        with self.lock:
            for connection in self.open:
                with contextlib.suppress(OSError):
                    connection.shutdown(socket.SHUT_RDWR)


class Gate:
    """An answer that waits until the test lets it go."""

    def __init__(self, answer=None):
        self.given = answer or {"allow": True}
        self.gate = threading.Event()

    def __call__(self, question):
        assert self.gate.wait(30)
        return self.given

    def open(self, answer=None):
        self.given = answer or self.given
        self.gate.set()


def slowly(seconds, answer=None):
    def wait(question):
        time.sleep(seconds)
        return answer or {"allow": True}
    return wait
