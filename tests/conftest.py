"""What every test of ours may rely on: its own data folder, no display, no network, English, and nothing left behind.

A test fails that leaves a non-daemon thread or a child process running, or that makes our own loggers
(`engine`, `app`) warn without having said `@pytest.mark.expects_warnings`.
"""

from __future__ import annotations

import gc
import logging
import os
import sys
import threading
import time
from collections.abc import Generator, Iterator
from pathlib import Path

# Qt and huggingface_hub look at these once, when they are first imported.
os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")
# The window speaks the language of the system's user, and tests read it in English.
os.environ["LC_ALL"] = "C.UTF-8"
os.environ["LANGUAGE"] = "en"
os.environ["HF_HUB_OFFLINE"] = "1"
os.environ["TRANSFORMERS_OFFLINE"] = "1"

import psutil
import pytest

OUR_LOGGERS = ("engine", "app")
# What was asked to stop may need a moment; a test that leaks pays it, the others never wait.
GRACE_SECONDS = 5.0
# One per interpreter, started by multiprocessing itself, and alive until the interpreter ends.
PYTHONS_OWN_CHILDREN = ("multiprocessing.resource_tracker", "multiprocessing.forkserver")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers", "expects_warnings: our loggers may warn in this test; it provokes what they warn of"
    )
    config.addinivalue_line("markers", "slow: takes minutes; left out unless asked for by -m slow")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Names of files that are not UTF-8 may have been logged, and no worker can send these to who reports on tests."""
    report = yield
    report.sections = [(name, text.encode("utf-8", "backslashreplace").decode()) for name, text in report.sections]
    return report


@pytest.fixture(scope="module", autouse=True)
def _qt_objects_die_on_the_main_thread(request: pytest.FixtureRequest) -> Iterator[None]:
    """Collects what tests with Qt leave in cycles: a later collection on an engine's thread would end the process."""
    yield
    if "PySide6.QtCore" in sys.modules and not request.node.nodeid.startswith("tests/engine"):
        gc.collect()


@pytest.fixture(autouse=True)
def ragdoll_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The data folder of this test alone."""
    home = tmp_path / "ragdoll-home"
    monkeypatch.setenv("RAGDOLL_HOME", str(home))
    return home


@pytest.fixture(autouse=True)
def nothing_left_running() -> Iterator[None]:
    """Compares threads and child processes before the test and after all its other fixtures are gone."""
    threads, children = set(threading.enumerate()), _children()
    yield
    deadline = time.monotonic() + GRACE_SECONDS
    while (left := _left(threads, children)) and time.monotonic() < deadline:
        time.sleep(0.02)
    if left:
        _end(_children() - children)
        pytest.fail("Left running after the test: " + "; ".join(left), pytrace=False)


@pytest.fixture(autouse=True)
def no_unexpected_warnings(request: pytest.FixtureRequest) -> Iterator[None]:
    """Collects what our loggers say at warning level and above."""
    collector = _Collector()
    loggers = [logging.getLogger(name) for name in OUR_LOGGERS]
    for logger in loggers:
        logger.addHandler(collector)
    yield
    for logger in loggers:
        logger.removeHandler(collector)
    if collector.said and request.node.get_closest_marker("expects_warnings") is None:
        pytest.fail("Logged without @pytest.mark.expects_warnings: " + "; ".join(collector.said), pytrace=False)


class _Collector(logging.Handler):
    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.said: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.said.append(f"{record.levelname} {record.name}: {record.getMessage()}")


def _left(threads: set[threading.Thread], children: set[psutil.Process]) -> list[str]:
    left_threads = [t for t in threading.enumerate() if t not in threads and t.is_alive() and not t.daemon]
    return [f"thread {t.name!r}" for t in left_threads] + [_described(child) for child in _children() - children]


def _children() -> set[psutil.Process]:
    return {child for child in psutil.Process().children(recursive=True) if _is_ours(child)}


def _is_ours(child: psutil.Process) -> bool:
    try:
        # What a fork server forked bears the server's command line, but is ours: look at the parent, too.
        command = " ".join(child.cmdline()) if child.ppid() == os.getpid() else ""
        return child.status() != psutil.STATUS_ZOMBIE and not any(name in command for name in PYTHONS_OWN_CHILDREN)
    except psutil.NoSuchProcess:
        return False


def _described(child: psutil.Process) -> str:
    try:
        return f"process {child.pid} ({' '.join(child.cmdline())[:160]})"
    except psutil.NoSuchProcess:
        return f"process {child.pid}"


def _end(children: set[psutil.Process]) -> None:
    for child in children:
        try:
            child.kill()
        except psutil.NoSuchProcess:
            continue
    psutil.wait_procs(children, timeout=GRACE_SECONDS)
