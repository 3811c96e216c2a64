"""Journey 3, and what a person at a prompt sees."""

import contextlib
import json
import socket
import subprocess
import threading
import time

import pytest

from client import Client
from hub import BINARIES, Hub, eventually, free_port, hubctl, run, running


@pytest.fixture(scope="module")
def hub(folder):
    with running(Hub(folder)) as node:
        yield node


def test_presence_tells_devices_and_states(hub):
    phone, laptop, tablet = (Client(hub, "alice", device=device) for device in ("phone", "laptop", "tablet"))
    with phone, laptop, tablet:
        tablet.request("presence", payload={"status": "away"})

        def answer():
            told = hubctl(hub, "presence", "alice", "--json")
            assert told.returncode == 0, told
            user = json.loads(told.stdout)
            user = user[0] if isinstance(user, list) else user
            states = sorted((connection["device"], connection["state"]) for connection in user["connections"])
            return states == [("laptop", "online"), ("phone", "online"), ("tablet", "away")] and user["status"] == "online"

        eventually(answer, what="hubctl presence --json tells two devices online and one away")
        told = hubctl(hub, "presence", "alice")
        assert told.returncode == 0
        for word in ("alice", "online", "phone", "laptop", "tablet", "away"):
            assert word in told.stdout, told.stdout
        assert told.stderr == ""


def test_presence_of_several_and_of_nobody(hub):
    with Client(hub, "bob"):
        eventually(lambda: "online" in hubctl(hub, "presence", "bob").stdout)
        told = hubctl(hub, "presence", "bob", "nobody")
        assert told.returncode == 0
        assert "bob" in told.stdout and "nobody" in told.stdout and "offline" in told.stdout


@pytest.mark.parametrize("arguments", [("presence", "someone", "--watch"), ("subscribe", "room:looked-on")], ids=lambda arguments: arguments[0])
def test_who_looks_on_in_development_mode_is_nobody_to_others(hub, arguments):
    with Client(hub, "peer") as peer:
        peer.request("watch", users=["hubctl"])
        peer.request("subscribe", channel="room:looked-on", members=True)
        process = subprocess.Popen([str(BINARIES / "hubctl"), "--url", hub.url, *arguments], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            eventually(lambda: hubctl(hub, "presence", "hubctl", "--explain").stdout.count("hubctl"))
            members = lambda: [member["user"] for member in json.loads(hubctl(hub, "members", "room:looked-on", "--json").stdout)["members"]]
            eventually(members)
            # Who counts does so some 200 ms after its subscription.
            time.sleep(0.6)
            assert members() == ["peer"]
            assert "offline" in hubctl(hub, "presence", "hubctl").stdout
            assert not [message for message in peer.gather(0.2) if message["type"] == "presence"]
        finally:
            process.kill()
            process.wait()


def test_presence_watch_follows(hub):
    process = subprocess.Popen(
        [str(BINARIES / "hubctl"), "--url", hub.url, "presence", "carol", "--watch"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        assert "offline" in process.stdout.readline()
        with Client(hub, "carol"):
            assert "online" in process.stdout.readline()
    finally:
        process.kill()
        process.communicate()


def test_publish_and_subscribe(hub):
    follower = subprocess.Popen([str(BINARIES / "hubctl"), "--url", hub.url, "subscribe", "room:ctl"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        with Client(hub, "alice") as alice:
            alice.subscribe("room:ctl")

            def heard():
                published = hubctl(hub, "publish", "room:ctl", "from the prompt")
                assert published.returncode == 0, published
                return alice.expect(type="chat")["payload"] == {"text": "from the prompt"}

            assert heard()
            # The follower may have come after the first one.
            lines = []
            for _ in range(40):
                alice.chat("room:ctl", "again")
                if (line := _line_within(follower, 0.5)):
                    lines.append(line)
                    break
            assert lines, "hubctl subscribe printed nothing"
    finally:
        follower.kill()
        follower.communicate()


def _line_within(process, seconds):
    import select
    return process.stdout.readline() if select.select([process.stdout], [], [], seconds)[0] else None


def test_nodes(hub):
    told = hubctl(hub, "nodes")
    assert told.returncode == 0 and "hub" in told.stdout


def test_the_exit_codes(hub):
    assert hubctl(hub, "nodes").returncode == 0
    refused = hubctl(hub, "publish", "x" * 300, "text")
    assert refused.returncode == 1 and refused.stderr and "badName" in refused.stderr, refused
    for arguments in ((), ("dance",), ("presence",), ("presence", "alice", "--jason"), ("publish", "room:x")):
        wrong = run("hubctl", *arguments)
        assert wrong.returncode == 2 and wrong.stderr, (arguments, wrong)
    assert "--json" in run("hubctl", "presence", "alice", "--jason").stderr
    # A user's id in a token has an inbox: fewer bytes than another name.
    for user in ("", "x" * 251, "api:key"):
        wrong = run("hubctl", "token", "--user", user, environment={"HUB_AUTH_SECRET": "s" * 40})
        assert wrong.returncode == 2 and ("250 bytes" in wrong.stderr or "api:" in wrong.stderr) and not wrong.stdout, (user, wrong)
    gone = run("hubctl", "--url", f"http://127.0.0.1:{free_port()}", "nodes")
    assert gone.returncode == 3 and gone.stderr
    assert run("hubctl", "--help").returncode == 0
    assert "hubctl" in run("hubctl", "--version").stdout


def test_history_in_pages_from_a_place_and_backwards(hub):
    positions = []
    with Client(hub, "alice") as alice:
        for number in range(1, 1206):
            alice.send({"type": "chat", "channel": "kept:1", "payload": {"text": f"line {number}"}})
        alice.sync()
        # The namespace keeps 100, or a few more.
        kept = [json.loads(line) for line in hubctl(hub, "history", "kept:1", "--json").stdout.splitlines()]
        assert kept[-1]["offset"] == 1205 and 100 <= len(kept) <= 400
        positions = [message["position"] for message in kept]
    told = hubctl(hub, "history", "kept:1", "--since", positions[-4])
    assert (told.returncode, told.stderr) == (0, "") and [line.rpartition(": ")[2] for line in told.stdout.splitlines()] == [
        f"line {number}" for number in (1203, 1204, 1205)]
    told = hubctl(hub, "history", "kept:1", "--limit", "2", "--reverse")
    assert [line.rpartition(": ")[2] for line in told.stdout.splitlines()] == ["line 1205", "line 1204"]
    assert "line 1203" in hubctl(hub, "history", "kept:1", "--before", "1204", "--limit", "1", "--reverse").stdout
    told = hubctl(hub, "history", "kept:1", "--since", positions[-4].replace(positions[-4][:8], "qqqqqqqq", 1), "--limit", "1")
    assert told.returncode == 0 and "epochChanged" in told.stderr
    for flags in (("--since", "x"), ("--limit", "0"), ("--limit", "x"), ("--before", "-1")):
        assert hubctl(hub, "history", "kept:1", *flags).returncode == 2, flags
    assert hubctl(hub, "history", "kept:1", "--since", "9999").returncode == 1


def test_subscribe_from_a_position_prints_what_was_missed_first(hub):
    with Client(hub, "alice") as alice:
        first = alice.chat("room:from", "one")["position"]
        alice.chat("room:from", "two")
    follower = subprocess.Popen(
        [str(BINARIES / "hubctl"), "--url", hub.url, "subscribe", "--json", "--from", first, "room:from"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        assert json.loads(follower.stdout.readline())["payload"] == {"text": "two"}
        with Client(hub, "alice") as alice:
            alice.chat("room:from", "three")
        assert json.loads(follower.stdout.readline())["payload"] == {"text": "three"}
    finally:
        follower.kill()
        follower.communicate()
    assert hubctl(hub, "subscribe", "--from", first, "a", "b").returncode == 2
    assert hubctl(hub, "subscribe", "--from", "x", "a").returncode == 2


def test_what_was_said_earlier_has_the_time_at_which_it_was_said(hub):
    with Client(hub, "alice") as alice:
        first = alice.chat("room:when", "one")["position"]
        alice.chat("room:when", "two")
    said = json.loads(hubctl(hub, "history", "--json", "room:when").stdout.splitlines()[-1])["time"]
    time.sleep(2.1)
    follower = subprocess.Popen(
        [str(BINARIES / "hubctl"), "--url", hub.url, "subscribe", "--from", first, "room:when"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        assert follower.stdout.readline().startswith(time.strftime("%H:%M:%S", time.localtime(said / 1000)))
    finally:
        follower.kill()
        follower.communicate()


@pytest.mark.parametrize("command", [("nodes", "--json"), ("presence", "nobody"), ("publish", "room:gone", "x"), ("subscribe", "room:gone")])
def test_a_reader_that_goes_away_is_no_crash(hub, command):
    process = subprocess.Popen([str(BINARIES / "hubctl"), "--url", hub.url, *command], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    process.stdout.close()
    if command[0] == "subscribe":
        assert hubctl(hub, "publish", "room:gone", "is anybody there").returncode == 0
    # Neither a signal (SIGPIPE, a trap) nor a report of one.
    errors = process.stderr.read()
    assert process.wait(20) in (0, 1) and "Fatal" not in errors and "rash" not in errors, errors


@contextlib.contextmanager
def answering(answer):
    """Answers every request with the same bytes; its URL."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        def serve():
            with contextlib.suppress(OSError):
                while True:
                    link, _ = listener.accept()
                    with link:
                        link.recv(65536)
                        link.sendall(answer)

        threading.Thread(target=serve, daemon=True).start()
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"


def test_a_hub_that_cannot_serve_just_now_says_why_itself(folder):
    # Its Redis isn't there: the node runs, and refuses.
    node = Hub(folder, name="storeless", redis=f"redis://127.0.0.1:{free_port()}", ready=False)
    try:
        eventually(lambda: "listens on" in node.log)
        for command in (("subscribe", "room:x"), ("presence", "x", "--watch")):
            told = hubctl(node, *command)
            assert told.returncode == 1 and "unavailable: " in told.stderr and "Try again in" in told.stderr, told
            assert "proxy" not in told.stderr
    finally:
        node.kill()


@pytest.mark.parametrize("body", [b"<html>Service Unavailable</html>", b"", b'{"error":"down"}', b'{"error":{"code":"unavai'])
def test_an_answer_in_nobodys_words_hints_at_a_proxy(body):
    with answering(b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: %d\r\n\r\n" % len(body) + body) as url:
        told = run("hubctl", "--url", url, "subscribe", "room:x")
    assert told.returncode == 1 and "HTTP 503 without an explanation" in told.stderr and "Is a proxy in front" in told.stderr, told


@pytest.mark.parametrize("command, answer", [
    (("disconnect", "ann"), b'{"user":"ann","before":1,"expires":1796011158488,"kept":false,"message":"the store is full: \x5cu001b nodes"}'),
    (("revoke", "--user", "ann"), b'{"user":"ann","before":1,"expires":1796011158488,"kept":false,"message":"the store is full: nodes"}'),
])
def test_a_revocation_that_nobody_keeps_is_said_so_plainly(command, answer):
    def tell(body):
        with answering(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(body) + body) as url:
            told = run("hubctl", "--url", url, *command)
            assert told.returncode == 0 and "ann" in told.stdout and "\x1b" not in told.stderr, told
            return told

    told = tell(answer)
    assert "NOT KEPT: the store is full" in told.stderr and "kept until" not in told.stdout, told
    # One that is kept needs no such word.
    told = tell(answer.partition(b',"kept"')[0] + b"}")
    assert told.stderr == "" and (command[0] == "disconnect") == ("kept until" not in told.stdout), told


def test_a_hub_s_words_are_harmless_on_a_terminal_and_bounded():
    body = b'{"error":{"code":"unavailable","message":"\x1b[31mred' + b"x" * 3000 + b'"}}'
    with answering(b"HTTP/1.1 503 No\r\nContent-Length: %d\r\n\r\n" % len(body) + body) as url:
        told = run("hubctl", "--url", url, "subscribe", "room:x")
    assert told.returncode == 1 and "\x1b" not in told.stderr and len(told.stderr) < 5000, told


def test_a_gap_that_cannot_be_filled_names_where_to_look(hub):
    with Client(hub, "alice") as alice:
        place = alice.chat("room:gap", "one")["position"]
    follower = subprocess.Popen(
        [str(BINARIES / "hubctl"), "--url", hub.url, "subscribe", "--from", place.replace(place[:8], "qqqqqqqq", 1), "room:gap"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        assert "is missing here; see hubctl history room:gap" in follower.stderr.readline()
    finally:
        follower.kill()
        follower.communicate()
