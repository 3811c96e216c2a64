"""Fixtures. A failing test's report ends with the logs of the processes it used."""

import pytest

import hub as library


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


def pytest_collection_modifyitems(items):
    # The longest first, so that the others run beside it.
    items.sort(key=lambda item: "test_swarm" not in item.nodeid)


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
