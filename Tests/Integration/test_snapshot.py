"""A single node that keeps its channels over restarts, by a snapshot file: after a clean stop, after a crash, and with a bad file."""

import os
import pathlib
import shutil
import stat

from client import Client
from hub import Hub, eventually, request, run


def hub(folder, path, interval="200ms", **more):
    return Hub(folder, settings={"embedded.snapshot": path, "embedded.snapshotInterval": interval}, **more)


def publish(node, number, channel="room:1"):
    status, _, body = request(
        f"{node.url}/v1/publish", "POST",
        {"channel": channel, "class": "chat", "messageId": f"m{number}", "user": "alice", "payload": {"n": number}})
    assert status == 200, body
    return body


def epoch(answer):
    return answer["position"].split(".")[0]


def leave_clean(folder, path):
    """A node's snapshot after a clean stop, with one publication; what the publisher was answered."""
    node = hub(folder, path)
    try:
        answer = publish(node, 1)
        assert node.stop() == 0
        return answer
    finally:
        node.kill()


def test_after_a_clean_stop_a_node_goes_on_where_it_was(tmp_path):
    path = tmp_path / "snapshot"
    first = hub(tmp_path, path)
    try:
        answers = [publish(first, number) for number in range(1, 21)]
        assert first.stop() == 0
    finally:
        first.kill()
    assert "snapshot.written" in first.log
    # What was said is nobody else's to read.
    assert stat.S_IMODE(os.stat(path).st_mode) == 0o600
    assert not pathlib.Path(f"{path}.new").exists()
    second = hub(tmp_path, path)
    try:
        assert "snapshot.read" in second.log
        again = publish(second, 20)
        assert again["position"] == answers[-1]["position"] and again["duplicate"] is True
        after = publish(second, 21)
        assert (after["offset"], epoch(after)) == (21, epoch(answers[0]))
        # Also for those who are told when they subscribe.
        with Client(second, user="bob") as bob:
            assert bob.subscribe("room:1")["position"] == after["position"]
        # A node that did nothing since keeps it too.
        assert second.stop() == 0
    finally:
        second.kill()
    third = hub(tmp_path, path)
    try:
        assert epoch(publish(third, 22)) == epoch(answers[0])
    finally:
        third.kill()


def test_a_start_that_fails_leaves_a_clean_snapshot_clean(tmp_path):
    path = tmp_path / "snapshot"
    before = leave_clean(tmp_path, path)
    revocations = pathlib.Path(f"{path}.revocations")
    revocations.unlink(missing_ok=True)
    revocations.mkdir()
    failed = run("hubd", "--dev", "--listen", "127.0.0.1:0", "--set", f"embedded.snapshot={path}")
    assert failed.returncode == 1 and ".revocations" in failed.stderr, failed
    revocations.rmdir()
    second = hub(tmp_path, path)
    try:
        assert "snapshot.unclean" not in second.log and epoch(publish(second, 2)) == epoch(before)
    finally:
        second.kill()


def test_a_last_snapshot_that_cannot_be_written_is_the_exit_code_s_and_said(tmp_path):
    place = tmp_path / "gone"
    place.mkdir()
    node = hub(tmp_path, place / "snapshot", interval="1h")
    try:
        publish(node, 1)
        shutil.rmtree(place)
        assert node.stop() == 1
    finally:
        node.kill()
    assert "hubd: embedded.snapshot: open " in node.log and "isn't written" in node.log
    assert "node.stopped" in node.log


def test_after_a_crash_what_was_written_is_there_under_new_epochs(tmp_path):
    path = tmp_path / "snapshot"
    first = hub(tmp_path, path)
    try:
        before = [publish(first, number) for number in range(1, 11)]
        eventually(path.exists, what="a snapshot is written while the node runs")
        seen = os.stat(path).st_mtime_ns
        publish(first, 11)
        eventually(lambda: os.stat(path).st_mtime_ns != seen, what="the next one replaces it")
    finally:
        first.kill()
    second = hub(tmp_path, path)
    try:
        assert "snapshot.unclean" in second.log and "what came after the last snapshot is lost" in second.log
        after = publish(second, 12)
        assert after["offset"] == 12 and epoch(after) != epoch(before[0])
        # Ids are remembered: a retry isn't published twice.
        assert publish(second, 11)["duplicate"] is True
    finally:
        second.kill()
    # Twice over: a clean snapshot that was read isn't clean any more when the node crashes at once.
    third = hub(tmp_path, path, interval="1h")
    try:
        clean = publish(third, 13)
        assert third.stop() == 0
    finally:
        third.kill()
    fourth = hub(tmp_path, path, interval="1h")
    try:
        assert epoch(publish(fourth, 14)) == epoch(clean)
    finally:
        fourth.kill()
    fifth = hub(tmp_path, path, interval="1h")
    try:
        assert "snapshot.unclean" in fifth.log
        lost = publish(fifth, 15)
        assert lost["offset"] == clean["offset"] + 1 and epoch(lost) != epoch(clean)
    finally:
        fifth.kill()


def test_a_damaged_file_is_moved_away_loudly_and_the_node_begins_anew(tmp_path):
    path = tmp_path / "snapshot"
    before = leave_clean(tmp_path, path)
    whole = path.read_bytes()
    for damaged in [whole[:-1], whole[:40] + b"\x00" + whole[41:], b"", b"something else entirely, and much longer than a header is"]:
        path.write_bytes(damaged)
        node = hub(tmp_path, path)
        try:
            assert "snapshot.damaged" in node.log
            assert pathlib.Path(f"{path}.damaged").read_bytes() == damaged
            answer = publish(node, 1)
            assert answer["offset"] == 1 and epoch(answer) != epoch(before)
        finally:
            node.kill()


def test_what_cannot_work_is_said_at_the_start(tmp_path):
    path = tmp_path / "snapshot"
    node = hub(tmp_path, path)
    try:
        second = run("hubd", "--dev", "--listen", "127.0.0.1:0", "--set", f"embedded.snapshot={path}")
        assert second.returncode != 0 and "another process uses the snapshot" in second.stderr
    finally:
        node.kill()
    missing = run("hubd", "--dev", "--listen", "127.0.0.1:0", "--set", f"embedded.snapshot={tmp_path}/nowhere/snapshot")
    assert missing.returncode == 2, missing
    for check in ([], ["--check"]):
        for name, word in ((f"{tmp_path}/nowhere/snapshot", "doesn't exist: make it"), (f"{path}.lock/snapshot", "is no folder"), (str(tmp_path), "is no plain file")):
            told = run("hubd", "--dev", "--listen", "127.0.0.1:0", "--set", f"embedded.snapshot={name}", *check)
            assert told.returncode == 2 and "embedded.snapshot" in told.stderr and word in told.stderr, told
    # What --check looks at it doesn't make.
    fresh = tmp_path / "fresh"
    assert run("hubd", "--dev", "--set", f"embedded.snapshot={fresh}", "--check").returncode == 0
    assert not list(tmp_path.glob("fresh*"))
    told = run("hubd", "--dev", "--set", f"embedded.snapshot={fresh}", "--redis", "redis://127.0.0.1:1", "--check")
    assert told.returncode == 0 and "embedded.snapshot has no effect with Redis" in told.stderr, told


def test_a_disk_that_fills_up_costs_a_warning_not_the_node(tmp_path):
    # /dev/full takes no byte; the last good file stays.
    path = tmp_path / "snapshot"
    node = hub(tmp_path, path)
    try:
        publish(node, 1)
        eventually(path.exists, what="a first snapshot")
        good = path.read_bytes()
        os.chmod(tmp_path, 0o755)
        os.symlink("/dev/full", f"{path}.new")
        publish(node, 2)
        node.expect_log("snapshot.failed")
        assert path.read_bytes() == good
        assert publish(node, 3)["offset"] == 3
        # It's tried again, and works once there's room.
        eventually(lambda: path.read_bytes() != good, what="a later snapshot")
    finally:
        node.kill()
