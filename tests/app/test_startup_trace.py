"""Tests for app.startup_trace."""

from __future__ import annotations

import sys
import time

import psutil
import pytest

from app import startup_trace


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_the_age_is_that_of_the_process_and_not_of_the_import():
    age = startup_trace.seconds_since_process_start()
    assert age == pytest.approx(time.time() - psutil.Process().create_time(), abs=2.0)


def test_it_tells_only_when_asked(capsys, monkeypatch):
    monkeypatch.delenv(startup_trace.VARIABLE, raising=False)
    startup_trace.tell("first_paint_s")
    assert capsys.readouterr().err == ""
    monkeypatch.setenv(startup_trace.VARIABLE, "1")
    startup_trace.tell("first_paint_s")
    name, _, value = capsys.readouterr().err.partition("=")
    assert name == "first_paint_s"
    assert float(value) > 0
