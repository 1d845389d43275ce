"""Tests for engine.catalog.path_log."""

from __future__ import annotations

import pytest

from engine.catalog import path_log
from engine.catalog.path_log import PathLog


def note(log: PathLog, *document_ids: int) -> None:
    for document_id in document_ids:
        log.note(document_id)
    log.close_transaction()


def test_who_was_never_there_missed_everything() -> None:
    assert PathLog().since(None) == (0, None)


def test_what_was_noted_is_told_from_a_mark_on() -> None:
    log = PathLog()
    mark, _ = log.since(None)
    note(log, 5, 7, 5)
    mark, changed = log.since(mark)
    assert changed == {5, 7}
    note(log, 9)
    assert log.since(mark)[1] == {9}


def test_what_cannot_be_read_yet_is_not_told() -> None:
    log = PathLog()
    log.note(5)
    assert log.since(0) == (0, frozenset())
    log.close_transaction()
    assert log.since(0)[1] == {5}


def test_the_log_forgets_what_is_long_ago(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(path_log, "_MOST_IDS", 3)
    log = PathLog()
    note(log, 1, 2)
    mark, _ = log.since(0)
    note(log, 3, 4)
    assert log.since(mark)[1] == {3, 4}
    assert log.since(0) == (4, None)
