"""Tests for engine.library.lately."""

from __future__ import annotations

from engine.library.lately import LatelyGone


def test_what_went_is_remembered_for_an_hour_and_by_its_folder() -> None:
    now = [0.0]
    lately = LatelyGone(lambda: now[0])

    lately.note(["/d/a", "/d/sub/b", "/dd/c"], [])
    now[0] = 3000.0
    lately.note(["/d/e"], [])
    assert [lately.count_below(folder) for folder in ("/d", "/d/sub", "/dd", "/")] == [3, 1, 1, 4]

    now[0] = 3600.0
    assert [lately.count_below(folder) for folder in ("/d", "/dd")] == [1, 0]
    lately.note([], [])
    assert lately._gone.keys() == {"/d/e"}


def test_what_has_come_back_is_not_gone_and_what_was_decided_is_not_asked() -> None:
    lately = LatelyGone(lambda: 0.0)
    lately.note(["/d/a", "/d/b", "/e/c"], [])

    lately.note([], ["/d/a", "/d/new"])
    assert lately.count_below("/d") == 1

    lately.forget_below("/d")
    assert [lately.count_below(folder) for folder in ("/d", "/e")] == [0, 1]
