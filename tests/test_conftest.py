"""Tests for tests.conftest: the net that catches what others leave behind must itself hold."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

pytest_plugins = ["pytester"]

LEAKY = """
import logging, os, subprocess, sys, threading, time
import pytest

def test_tidy():
    worker = threading.Thread(target=time.sleep, args=(0.05,))
    worker.start()
    subprocess.run([sys.executable, "-c", ""], check=True)

def test_leaves_a_thread():
    threading.Thread(target=time.sleep, args=(8,), name="forgotten").start()

def test_leaves_a_process():
    subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])

def test_leaves_a_daemon_thread():
    threading.Thread(target=time.sleep, args=(8,), daemon=True).start()

def test_warns():
    logging.getLogger("engine.library").warning("odd")

def test_informs():
    logging.getLogger("app").info("fine")

@pytest.mark.expects_warnings
def test_warns_and_said_so():
    logging.getLogger("engine").error("provoked")

def test_others_may_warn():
    logging.getLogger("somebody.else").warning("not ours")
"""


def test_leaks_and_warnings_fail_exactly_the_tests_that_have_them(pytester: pytest.Pytester) -> None:
    pytester.makeconftest(Path(__file__).with_name("conftest.py").read_text(encoding="utf-8"))
    pytester.makepyfile(LEAKY)

    result = pytester.runpytest_subprocess("-q", "-p", "no:cacheprovider")

    result.assert_outcomes(passed=8, errors=3)
    errors = [line for line in result.outlines if line.startswith("ERROR ")]
    assert sorted(line.split("::")[1].split()[0] for line in errors) == [
        "test_leaves_a_process",
        "test_leaves_a_thread",
        "test_warns",
    ]


def test_each_test_has_its_own_data_folder(ragdoll_home: Path, tmp_path: Path) -> None:
    assert os.environ["RAGDOLL_HOME"] == str(ragdoll_home)
    assert ragdoll_home.is_relative_to(tmp_path)


def test_nothing_is_fetched_and_nothing_is_shown() -> None:
    assert os.environ["HF_HUB_OFFLINE"] == "1"
    assert os.environ["QT_QPA_PLATFORM"]
