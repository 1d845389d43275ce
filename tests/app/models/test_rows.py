"""Tests for app.models.rows: views follow every step, so they keep their place."""

from __future__ import annotations

import itertools

import pytest
from PySide6.QtCore import QAbstractListModel, QModelIndex, QPersistentModelIndex
from PySide6.QtTest import QAbstractItemModelTester

from app.models.rows import MAX_STEPS, replace_rows


class Letters(QAbstractListModel):
    """Rows are strings whose first letter is their identity."""

    def __init__(self, rows: str) -> None:
        super().__init__()
        self.rows = rows.split()

    def rowCount(self, parent=None):
        return 0 if parent is not None and parent.isValid() else len(self.rows)

    def data(self, index, role=0):
        return self.rows[index.row()] if index.isValid() and role == 0 else None

    def take(self, rows: str) -> list[int]:
        changed: list[int] = []
        replace_rows(self, self.rows, rows.split(), lambda row: row[0], changed.append)
        return changed


@pytest.mark.parametrize(
    ("before", "after"), list(itertools.permutations(["", "a", "a b c", "c a", "d b e a", "e d c"], 2))
)
def test_rows_become_what_they_should_and_no_step_is_false(qapp, before, after):
    model = Letters(before)
    QAbstractItemModelTester(model, QAbstractItemModelTester.FailureReportingMode.Fatal)
    model.take(after)
    assert model.rows == after.split()


def test_a_selected_row_stays_selected_wherever_it_goes(qapp):
    model = Letters("a b c")
    selected = QPersistentModelIndex(model.index(2))
    model.take("x c a")
    assert selected.isValid()
    assert selected.data() == "c"


def test_only_rows_that_differ_are_told_as_changed(qapp):
    assert Letters("a1 b1 c1").take("a1 b2 c1") == [1]


def test_another_page_of_a_list_is_no_reset(qtbot):
    rows = " ".join(chr(0x4E00 + number) for number in range(3 * MAX_STEPS))
    model = Letters(rows[: 2 * MAX_STEPS - 1])
    before = len(model.rows)
    selected = QPersistentModelIndex(model.index(before - 1))
    with qtbot.assertNotEmitted(model.modelReset), qtbot.waitSignal(model.rowsInserted) as told:
        model.take(rows)
    assert told.args[1:] == [before, 3 * MAX_STEPS - 1]
    assert (model.rows, selected.row()) == (rows.split(), before - 1)


def test_many_differences_are_one_reset(qtbot):
    model = Letters("a")
    many = [chr(0x4E00 + number) for number in range(MAX_STEPS + 2)]
    with qtbot.wait_signal(model.modelReset):
        replace_rows(model, model.rows, many, lambda row: row[0], lambda _: None)
    assert model.rows == many
    assert model.index(0).parent() == QModelIndex()
