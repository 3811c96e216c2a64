"""Fixtures. A failing test's report ends with the logs of the processes it used."""

import signal
import sys
import threading
import traceback

import pytest

import hub as library

# What a test may take on a machine ten times slower than ours. The tests marked `long` have their own deadlines.
TEST_DEADLINE = 300


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("run")


@pytest.fixture(scope="module")
def redis(folder):
    with library.running(library.RedisServer(folder)) as server:
        yield server


@pytest.fixture
def start(tmp_path):
    """start(Hub, …), start(RedisServer), start(HAProxy, …): ended after the test, the last one first."""
    started = []

    def start(kind, *arguments, **options):
        process = kind(tmp_path, *arguments, **options)
        started.append(process)
        return process

    yield start
    for process in reversed(started):
        process.kill()


# Files whose tests take more than a minute together, the longest first, so that the others run beside them and not after them.
LONG = ("scenarios", "recovery", "hooks", "swarm_proof", "swarm_find", "counts", "presence", "members", "faults_links", "swarm_spoilt")


def pytest_collection_modifyitems(items):
    places = {f"test_{name}.py": place for place, name in enumerate(LONG)}
    items.sort(key=lambda item: places.get(item.path.name, len(LONG)))


_all = []
_make = library.Process.__init__


def _remember(self, *arguments, **options):
    _make(self, *arguments, **options)
    _all.append(self)


library.Process.__init__ = _remember


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    report = yield
    if report.failed:
        for process in _all:
            if process.is_running or process.log_path.parent in (item.funcargs.get("tmp_path"), item.funcargs.get("folder")):
                report.sections.append((f"{process.name} {process.log_path.name}", process.log[-6000:]))
    return report


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item):
    """Ends a test that hangs, as a failure that says where each thread stood. pytest's own faulthandler_timeout reads the stacks of running
    threads without the interpreter's lock: with dozens of them it brought the whole worker down, and its servers stayed behind."""
    if item.get_closest_marker("long") or threading.current_thread() is not threading.main_thread():
        return (yield)

    def late(number, frame):
        names = {thread.ident: thread.name for thread in threading.enumerate()}
        stacks = [
            f"{names.get(ident, ident)}:\n{''.join(traceback.format_stack(top, limit=12))}" for ident, top in sys._current_frames().items()]
        pytest.fail(f"still running after {TEST_DEADLINE} s; where its threads stood:\n" + "\n".join(stacks[:20]))

    before = signal.signal(signal.SIGALRM, late)
    signal.alarm(TEST_DEADLINE)
    try:
        return (yield)
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)
