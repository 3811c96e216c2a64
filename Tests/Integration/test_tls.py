"""TLS as clients that aren't ours see it, and what the operator is told."""

import asyncio
import json
import os
import random
import signal
import socket
import ssl
import subprocess

import pytest
from websockets.asyncio.client import connect as open_connection

from certificates import Certificate, secure_settings, trusting
from hub import Hub, Process, eventually, free_port, request, run, running, status


class connect:
    """A WebSocket from Python's websockets in its asyncio form. (Its threaded form reads and writes one TLS session from two threads at once;
    OpenSSL forbids that, and with TLS 1.3, where tickets come after the handshake, one connection in 25 hung for it.)"""

    def __init__(self, address, **options):
        self.runner = asyncio.Runner()
        self.link = self.runner.run(self._open(address, options))

    @staticmethod
    async def _open(address, options):
        return await open_connection(address, ping_interval=None, **options)

    def send(self, message):
        self.runner.run(self.link.send(message))

    def recv(self, timeout):
        return self.runner.run(asyncio.wait_for(self.link.recv(), timeout))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.runner.run(self.link.close())
        self.runner.close()


@pytest.fixture(scope="module")
def one(folder):
    return Certificate(folder, "one.example", "one.example", "localhost")


@pytest.fixture(scope="module")
def two(folder):
    return Certificate(folder, "two.example", "*.two.example")


@pytest.fixture(scope="module")
def secure(folder, one, two):
    port = free_port()
    with running(Hub(folder, name="secure", settings=secure_settings(port, one, two, **{"deadlines.tls": "700ms"}))) as hub:
        hub.secure_port = port
        hub.secure_address = f"localhost:{port}"
        yield hub


def secured(port, context, name="localhost", session=None):
    return context.wrap_socket(socket.create_connection(("127.0.0.1", port), timeout=10), server_hostname=name, session=session)


def asked(link, path="/healthz"):
    """The answer's first bytes; with TLS 1.3 the ticket has come by then."""
    link.sendall(f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
    return link.recv(65536)


@pytest.mark.parametrize(("version", "name"), [(ssl.TLSVersion.TLSv1_2, "TLSv1.2"), (ssl.TLSVersion.TLSv1_3, "TLSv1.3")])
def test_python_speaks_both_versions_and_resumes(secure, one, version, name):
    context = trusting(one, version=version)
    context.set_alpn_protocols(["h2", "http/1.1"])
    with secured(secure.secure_port, context) as first:
        assert first.version() == name and not first.session_reused
        assert first.selected_alpn_protocol() == "http/1.1"
        assert asked(first).startswith(b"HTTP/1.1 200")
        session = first.session
    with secured(secure.secure_port, context, session=session) as second:
        assert second.session_reused
        assert asked(second).startswith(b"HTTP/1.1 200")


def test_the_name_chooses_the_certificate(secure, one, two):
    context = trusting(one, two)
    for name in ("one.example", "localhost", "a.two.example"):
        with secured(secure.secure_port, context, name) as link:
            assert asked(link).startswith(b"HTTP/1.1 200")
    with pytest.raises(ssl.SSLCertVerificationError):
        secured(secure.secure_port, context, "a.b.two.example")


@pytest.mark.parametrize("count", [0, 64 * 1024, 16 * 1024 * 1024])
@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_messages_come_back_whole(secure, one, count, version):
    message = random.Random(count).randbytes(count)
    with connect(f"wss://{secure.secure_address}/v1/echo", ssl=trusting(one, version=version), compression=None, max_size=2**25, proxy=None) as link:
        link.send(message)
        assert link.recv(timeout=60) == message


def test_curl_takes_https(secure, one):
    done = subprocess.run(
        ["curl", "-sS", "--cacert", one.cert, f"https://{secure.secure_address}/healthz"], capture_output=True, text=True, timeout=20)
    assert done.returncode == 0 and json.loads(done.stdout) == {"status": "alive"}


def test_wrong_ports_end_with_words(secure, one):
    assert request(f"http://127.0.0.1:{secure.secure_port}/healthz")[0] == 400
    with pytest.raises(ssl.SSLError):
        secured(secure.port, trusting(one))
    assert status(f"{secure.url}/healthz") == 200


def test_a_client_without_a_handshake_is_cut(secure):
    with socket.create_connection(("127.0.0.1", secure.secure_port), timeout=10) as link:
        link.sendall(b"\x16\x03\x01\x02\x00\x01")
        assert link.recv(100) == b""


def test_half_a_close_still_gets_the_answer(secure, one):
    context = trusting(one)
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    layer = context.wrap_bio(incoming, outgoing, server_hostname="localhost")
    with socket.create_connection(("127.0.0.1", secure.secure_port), timeout=10) as link:
        def push():
            if outgoing.pending:
                link.sendall(outgoing.read())

        def step(call):
            while True:
                try:
                    result = call()
                except ssl.SSLWantReadError:
                    push()
                    incoming.write(link.recv(65536))
                    continue
                push()
                return result

        step(layer.do_handshake)
        step(lambda: layer.write(b"GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n"))
        link.shutdown(socket.SHUT_WR)
        assert step(lambda: layer.read(65536)).startswith(b"HTTP/1.1 200")


def test_nodes_with_one_secret_resume_each_others_sessions(start, folder, one):
    secret = folder / "tickets"
    secret.write_bytes(os.urandom(48))
    secret.chmod(0o600)
    context = trusting(one)
    ports = [free_port(), free_port()]
    for port in ports:
        start(Hub, settings=secure_settings(port, one, **{"tls.ticketSecretFile": secret}))
    with secured(ports[0], context) as first:
        asked(first)
        session = first.session
    with secured(ports[1], context, session=session) as second:
        assert second.session_reused


def test_sighup_renews_the_certificate_and_nobody_is_dropped(start, tmp_path):
    before = Certificate(tmp_path, "hub.example", "localhost")
    port = free_port()
    hub = start(Hub, settings=secure_settings(port, before))
    old, link = trusting(before), None
    with connect(f"wss://localhost:{port}/v1/echo", ssl=old, proxy=None, compression=None) as link:
        after = Certificate(tmp_path, "hub.example", "localhost")  # the same files
        hub.signal(signal.SIGHUP)
        hub.expect_log("configuration.reloaded")
        assert "tls.certificates" in hub.log and "SHA-256" in hub.log

        def renewed():
            try:
                return secured(port, trusting(after)).close() is None
            except ssl.SSLCertVerificationError:
                return False

        eventually(renewed, what="new connections get the new certificate")
        with pytest.raises(ssl.SSLCertVerificationError):
            secured(port, old)
        link.send("still here")
        assert link.recv(timeout=10) == "still here"

        # A broken one changes nothing.
        after.cert.write_text("no certificate")
        hub.signal(signal.SIGHUP)
        hub.expect_log("configuration.refused")
        assert "no certificate in PEM form" in hub.log
        link.send("here")
        assert link.recv(timeout=10) == "here"
        assert hub.is_running


@pytest.mark.parametrize(("spoil", "words"), [
    (lambda one, two: one.cert.unlink(), "can't be read"),
    (lambda one, two: one.key.unlink(), "can't be read"),
    (lambda one, two: one.cert.write_text(""), "certificate"),
    (lambda one, two: one.key.write_bytes(two.key.read_bytes()), "doesn't belong to the certificate"),
    (lambda one, two: one.key.write_text("-----BEGIN PRIVATE KEY-----\n"), "no private key"),
])
def test_a_certificate_that_cannot_serve_stops_the_start(tmp_path, spoil, words):
    one, two = Certificate(tmp_path, "one.example"), Certificate(tmp_path, "two.example")
    spoil(one, two)
    arguments = [f"--set={key}={value}" for key, value in secure_settings(free_port(), one).items()]
    refused = run("hubd", "--dev", *arguments)
    assert refused.returncode == 2, refused
    assert words in refused.stderr and "tls.certificates[0]" in refused.stderr, refused.stderr


def test_an_expired_certificate_stops_the_start(tmp_path):
    old = Certificate(tmp_path, "old.example", days=30)
    moved = subprocess.run(
        ["openssl", "x509", "-in", old.cert, "-signkey", old.key, "-days", "-1", "-out", old.cert], capture_output=True, text=True)
    assert moved.returncode == 0, moved.stderr
    refused = run("hubd", "--dev", *[f"--set={key}={value}" for key, value in secure_settings(free_port(), old).items()])
    assert refused.returncode == 2 and "has expired" in refused.stderr, refused.stderr


def test_check_names_certificates_and_warns_of_open_keys(tmp_path):
    one = Certificate(tmp_path, "one.example", days=3)
    one.key.chmod(0o644)
    checked = run("hubd", "--dev", "--check", *[f"--set={key}={value}" for key, value in secure_settings(free_port(), one).items()])
    assert checked.returncode == 0, checked.stderr
    assert "one.example (until " in checked.stdout and "PRIVATE" not in checked.stdout
    assert "chmod 600" in checked.stderr and "expires soon" in checked.stderr


def test_metrics_count_handshakes(secure, one):
    def count(name):
        lines = request(f"{secure.url}/metrics")[2].decode().splitlines()
        return next(int(line.split()[1]) for line in lines if line.startswith(name + " "))

    before = count("hub_tls_handshakes_total")
    with secured(secure.secure_port, trusting(one)) as link:
        asked(link)
    eventually(lambda: count("hub_tls_handshakes_total") > before, what="a handshake is counted")


HAPROXY = """
defaults
    timeout connect 3s
    timeout client 30s
    timeout server 30s
frontend proxied
    mode tcp
    bind 127.0.0.1:{proxied}
    default_backend by_protocol
backend by_protocol
    mode tcp
    server hub 127.0.0.1:{protocol} send-proxy-v2
frontend secured
    mode tcp
    bind 127.0.0.1:{secured}
    default_backend by_protocol_secure
backend by_protocol_secure
    mode tcp
    server hub 127.0.0.1:{protocol_secure} send-proxy-v2
frontend forwarded
    mode http
    option forwardfor
    bind 127.0.0.1:{forwarded}
    default_backend by_header
backend by_header
    mode http
    server hub 127.0.0.1:{header}
"""


def test_behind_haproxy_the_log_names_the_client(start, tmp_path, one):
    """The client comes from 127.0.0.9; haproxy is 127.0.0.1."""
    ports = {name: free_port() for name in ("proxied", "secured", "forwarded", "protocol_secure")}
    # The proxied node takes its plain connections from nobody without a PROXY header, so it can't be asked whether it is ready.
    by_protocol = start(
        Hub, name="by-protocol", ready=False,
        settings=secure_settings(ports["protocol_secure"], one, **{"proxy.trusted": "127.0.0.1", "proxy.protocol": "true"}))
    by_header = start(Hub, name="by-header", settings={"proxy.trusted": "127.0.0.1"})
    config = tmp_path / "haproxy.cfg"
    config.write_text(HAPROXY.format(**ports, protocol=by_protocol.port, header=by_header.port))
    start(lambda folder: Process("haproxy", ["haproxy", "-db", "-f", config], folder))

    def refused(port, context=None):
        def ask():
            try:
                link = socket.create_connection(("127.0.0.1", port), timeout=10, source_address=("127.0.0.9", 0))
                link = context.wrap_socket(link, server_hostname="localhost") if context else link
                with link:
                    link.sendall(
                        b"GET /v1/ws HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
                        b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nX-Forwarded-For: 192.0.2.66\r\nAuthorization: Bearer wrong\r\n\r\n")
                    return link.recv(65536).startswith(b"HTTP/1.1 401")
            except OSError:
                return False

        eventually(ask, what="the token is refused")

    def clients(hub):
        lines = [json.loads(line) for line in hub.log.splitlines() if "security.badToken" in line]
        return {line["client"] for line in lines}

    refused(ports["proxied"])
    refused(ports["secured"], trusting(one))
    eventually(lambda: clients(by_protocol) == {"127.0.0.9"}, what="by the PROXY header")
    refused(ports["forwarded"])
    eventually(lambda: clients(by_header) == {"127.0.0.9"}, what="by X-Forwarded-For, whatever the client wrote there itself")
