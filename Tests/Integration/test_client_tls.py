"""hubctl and hub-swarm over https and wss: whom they believe, and what they say when they don't."""

import contextlib
import json
import select
import socket
import ssl
import subprocess
import threading

import pytest

from certificates import Certificate, Expired, secure_settings
from client import Client
from hub import BINARIES, Hub, eventually, free_port, run, running


@pytest.fixture(scope="module")
def good(folder):
    return Certificate(folder, "good", "localhost")


@pytest.fixture(scope="module")
def stranger(folder):
    return Certificate(folder, "stranger", "localhost")


@pytest.fixture(scope="module")
def secure(folder, good):
    port = free_port()
    with running(Hub(folder, name="client-tls", settings=secure_settings(port, good))) as hub:
        hub.secure_port = port
        hub.secure = f"https://localhost:{port}"
        yield hub


def hubctl(url, *arguments, environment=None):
    return run("hubctl", "--url", url, *arguments, environment=environment)


def heard(follower, hub, channel):
    """What it prints first of what is published until then: it may not follow yet."""
    for _ in range(40):
        assert hubctl(hub.url, "publish", channel, "hello").returncode == 0
        if select.select([follower.stdout], [], [], 0.5)[0]:
            return follower.stdout.readline()
    raise AssertionError("nothing was heard")


def test_every_command_works_over_https(secure, good):
    ca = ("--ca", good.cert)
    with Client(secure, "alice"):
        eventually(lambda: "online" in hubctl(secure.secure, *ca, "presence", "alice").stdout)
    told = hubctl(secure.secure, *ca, "publish", "room:tls", "hello")
    assert told.returncode == 0 and "room:tls #1" in told.stdout and told.stderr == ""
    assert "client-tls" in hubctl(secure.secure, *ca, "nodes").stdout
    # As OpenSSL's own programs take it; and by the other name of the scheme.
    assert hubctl(secure.secure.replace("https", "wss"), "nodes", environment={"SSL_CERT_FILE": str(good.cert)}).returncode == 0


def test_a_file_of_authorities_that_the_environment_names_is_called_so_when_it_is_bad(secure):
    for command in (["nodes"], ["subscribe", "room:tls"]):
        told = hubctl(secure.secure, *command, environment={"SSL_CERT_FILE": "/nowhere/ca.pem"})
        assert told.returncode != 0 and "SSL_CERT_FILE: " in told.stderr and "--ca:" not in told.stderr, told.stderr
        told = hubctl(secure.secure, "--ca", "/nowhere/ca.pem", *command)
        assert told.returncode != 0 and "--ca: " in told.stderr and "SSL_CERT_FILE" not in told.stderr, told.stderr


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1"])
def test_subscribe_and_watch_follow_over_wss(secure, good, host):
    url = f"wss://{host}:{secure.secure_port}"
    follower = subprocess.Popen(
        [str(BINARIES / "hubctl"), "--url", url, "--ca", str(good.cert), "subscribe", f"room:{host}", "--json"], stdout=subprocess.PIPE, text=True)
    watcher = subprocess.Popen(
        [str(BINARIES / "hubctl"), "--url", url, "--ca", str(good.cert), "presence", f"w-{host}", "--watch"], stdout=subprocess.PIPE, text=True)
    try:
        assert "offline" in watcher.stdout.readline()
        with Client(secure, f"w-{host}"):
            assert "online" in watcher.stdout.readline()
        assert json.loads(heard(follower, secure, f"room:{host}"))["payload"] == {"text": "hello"}
    finally:
        for process in (follower, watcher):
            process.kill()
            process.communicate()


# Over HTTP it's libcurl that looks at certificates, for WebSockets it's our loop.
BOTH = pytest.mark.parametrize("command", [("nodes",), ("subscribe", "room:x")], ids=["https", "wss"])


@BOTH
def test_an_unknown_issuer_is_refused_with_what_to_do(secure, stranger, command):
    for more in ([], ["--ca", stranger.cert]):
        told = hubctl(secure.secure, *more, *command)
        assert told.returncode == 3 and told.stdout == ""
        assert "TLS: " in told.stderr and "give the certificate of its authority (--ca FILE)" in told.stderr, told.stderr
        assert "Is hubd running" not in told.stderr


@BOTH
def test_a_wrong_name_is_refused(secure, good, command):
    # 127.0.0.2 is this machine, but the certificate doesn't know it.
    port = free_port()
    with running(Hub(good.cert.parent, name="other-name", settings={**secure_settings(port, good), "tls.listen": f"127.0.0.2:{port}"})):
        told = hubctl(f"https://127.0.0.2:{port}", "--ca", good.cert, *command)
    assert told.returncode == 3 and "127.0.0.2" in told.stderr and "use a name that it stands for" in told.stderr, told.stderr


@pytest.fixture(scope="module")
def expired(folder):
    return Expired(folder, "expired", "localhost")


@contextlib.contextmanager
def serving(certificate, version=None):
    """A server that shakes hands and ends; its port, and the TLS versions of those who came in."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate.cert, certificate.key)
    context.set_alpn_protocols(["http/1.1"])
    if version:
        context.set_ciphers("ALL:@SECLEVEL=0")
        context.minimum_version = ssl.TLSVersion.TLSv1
        context.maximum_version = version
    came = []
    with socket.create_server(("127.0.0.1", 0)) as listener:
        def serve():
            try:
                while True:
                    link, _ = listener.accept()
                    try:
                        with context.wrap_socket(link, server_side=True) as secure:
                            came.append((secure.version(), secure.selected_alpn_protocol()))
                    except OSError:
                        link.close()
            except OSError:
                return

        threading.Thread(target=serve, daemon=True).start()
        yield listener.getsockname()[1], came


@BOTH
def test_an_expired_certificate_is_refused(expired, command):
    with serving(expired) as (port, came):
        told = hubctl(f"https://localhost:{port}", "--ca", expired.cert, *command)
    assert told.returncode == 3 and "expired" in told.stderr and "clock" in told.stderr, told.stderr


@BOTH
@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_1, ssl.TLSVersion.TLSv1_2])
def test_tls_1_2_is_the_oldest_that_is_spoken(good, command, version):
    with serving(good, version) as (port, came):
        told = hubctl(f"https://localhost:{port}", "--ca", good.cert, *command)
        # It's no hub in any case.
        assert told.returncode == 3, told.stderr
        if version == ssl.TLSVersion.TLSv1_2:
            # libcurl offers HTTP/2 as well.
            eventually(lambda: ("TLSv1.2", "http/1.1") in came)
        else:
            assert came == [] and "TLS: " in told.stderr, told.stderr


@BOTH
def test_a_server_without_tls_is_told_apart(secure, command):
    told = hubctl(secure.url.replace("http", "https"), *command)
    assert told.returncode == 3 and "TLS: " in told.stderr, told.stderr
    assert "this port doesn't speak TLS: use http or ws" in told.stderr, told.stderr


@BOTH
def test_a_silent_server_has_a_deadline(good, command):
    with socket.create_server(("127.0.0.1", 0)) as listener:
        told = hubctl(f"https://localhost:{listener.getsockname()[1]}", "--ca", good.cert, *command)
    assert told.returncode == 3, told.stderr


@BOTH
def test_insecure_believes_anybody_and_says_so(secure, command):
    if command[0] == "nodes":
        told = hubctl(secure.secure, "--insecure", *command)
        assert told.returncode == 0 and "client-tls" in told.stdout
        assert told.stderr.startswith("hubctl: warning: --insecure"), told.stderr
        # Without TLS there's nothing to believe, and nothing to warn of.
        assert hubctl(secure.url, "--insecure", *command).stderr == ""
    else:
        process = subprocess.Popen(
            [str(BINARIES / "hubctl"), "--url", secure.secure, "--insecure", "subscribe", "room:insecure"], stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, text=True)
        try:
            assert process.stderr.readline().startswith("hubctl: warning: --insecure")

            assert "hello" in heard(process, secure, "room:insecure")
        finally:
            process.kill()
            process.communicate()


def test_bad_flags_are_usage_errors_and_bad_files_are_named(secure, good, folder):
    told = hubctl(secure.secure, "--ca", good.cert, "--insecure", "nodes")
    assert told.returncode == 2 and "not both" in told.stderr
    for command in (("nodes",), ("subscribe", "room:x")):
        told = hubctl(secure.secure, "--ca", folder / "nowhere.pem", *command)
        assert told.returncode == 1 and f"--ca: can't read {folder}/nowhere.pem: No such file" in told.stderr, told.stderr


def test_the_swarm_talks_over_wss(secure, good):
    told = run("hub-swarm", "--url", secure.secure.replace("https", "wss"), "--ca", good.cert, "--bots", 50, "--rooms", 5, "--seconds", 2, "--rate", 2, "--json", timeout=60)
    assert told.returncode == 0, told.stderr
    report = json.loads(told.stdout)
    assert report["joined"] == 50 and report["sent"] > 50
    eventually(lambda: secure.metric("hub_tls_handshakes_total") >= 50)
    told = run("hub-swarm", "--url", secure.secure, "--bots", 5, "--seconds", 1, timeout=60)
    assert told.returncode == 3 and "give the certificate of its authority (--ca FILE)" in told.stderr, told.stderr
    told = run("hub-swarm", "--url", secure.secure, "--insecure", "--bots", 5, "--rooms", 1, "--seconds", 1, "--rate", 5, timeout=60)
    assert told.returncode == 0 and "hub-swarm: warning: --insecure" in told.stderr, told.stderr
