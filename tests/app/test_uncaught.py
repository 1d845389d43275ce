"""Tests for app.uncaught."""

from __future__ import annotations

import sys

import pytest

from app.uncaught import UncaughtExceptions


def raised(error: BaseException) -> None:
    """Hands an exception to the hook, as PySide does with what a slot raises."""
    try:
        raise error
    except BaseException as caught:  # noqa: BLE001 - the hook is for all of them
        sys.excepthook(type(caught), caught, caught.__traceback__)


@pytest.fixture
def hooked(monkeypatch):
    """Uncaught exceptions told into a list; what the hook before would have got goes into another."""
    passed_on: list[type] = []
    monkeypatch.setattr(sys, "excepthook", lambda kind, error, trace: passed_on.append(kind))
    told: list[str] = []
    uncaught = UncaughtExceptions(lambda sentence, way_out: told.append(sentence))
    yield told, passed_on
    uncaught.release()


@pytest.mark.expects_warnings
def test_an_exception_is_logged_with_its_trace_and_told(hooked, caplog):
    told, _ = hooked
    raised(ValueError("no such row"))
    assert told == ["Something went wrong inside the window: ValueError: no such row."]
    assert caplog.records[0].exc_info[1].args == ("no such row",)


def test_the_wish_to_end_is_passed_on(hooked):
    told, passed_on = hooked
    raised(KeyboardInterrupt())
    assert (told, passed_on) == ([], [KeyboardInterrupt])


@pytest.mark.expects_warnings
def test_a_failure_while_telling_is_not_told_again(monkeypatch):
    monkeypatch.setattr(sys, "excepthook", lambda *_: None)
    calls: list[str] = []

    def tell(sentence: str, way_out: str) -> None:
        calls.append(sentence)
        raised(RuntimeError("the bar is broken, too"))

    uncaught = UncaughtExceptions(tell)
    raised(ValueError("first"))
    assert len(calls) == 1
    uncaught.release()
