"""Tests for engine.closing."""

from __future__ import annotations

import pytest

from engine.closing import close_all


def _failing(reason: str) -> object:
    def step() -> None:
        raise ValueError(reason)

    return step


def test_every_step_is_taken_in_order():
    taken: list[str] = []
    close_all(lambda: taken.append("first"), lambda: taken.append("second"))
    assert taken == ["first", "second"]


@pytest.mark.expects_warnings
def test_the_first_error_is_raised_the_second_logged_and_nothing_left_out(caplog: pytest.LogCaptureFixture):
    taken: list[str] = []
    with pytest.raises(ValueError, match="one"):
        close_all(_failing("one"), lambda: taken.append("between"), _failing("two"), lambda: taken.append("last"))
    assert taken == ["between", "last"]
    assert "two" in caplog.text
    assert "one" not in caplog.text
