"""Brings a Qt model from old rows to new ones by inserting, moving and removing, so that views keep their place."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol, TypeVar

from PySide6.QtCore import QModelIndex

Row = TypeVar("Row")
# With more differences than this, a reset is faster.
MAX_STEPS = 200


class RowModel(Protocol):
    """The protected half of QAbstractItemModel that this module needs."""

    def beginResetModel(self) -> None: ...  # noqa: N802 - Qt's names
    def endResetModel(self) -> None: ...  # noqa: N802
    def beginInsertRows(self, parent: QModelIndex, first: int, last: int) -> None: ...  # noqa: N802
    def endInsertRows(self) -> None: ...  # noqa: N802
    def beginRemoveRows(self, parent: QModelIndex, first: int, last: int) -> None: ...  # noqa: N802
    def endRemoveRows(self) -> None: ...  # noqa: N802
    def beginMoveRows(  # noqa: N802
        self, source: QModelIndex, first: int, last: int, target: QModelIndex, child: int
    ) -> bool: ...
    def endMoveRows(self) -> None: ...  # noqa: N802


def replace_rows(
    model: RowModel, rows: list[Row], new: Sequence[Row], key: Callable[[Row], object], changed: Callable[[int], None]
) -> None:
    """Makes `rows`, the list behind `model`, equal to `new`.

    Args:
        model: The Qt model that shows `rows`.
        rows: Changed in place, step by step with the model's signals.
        new: The rows to show now.
        key: A row's identity; identities are unique.
        changed: Called with the index of each row that stays but whose value differs.
    """
    first = len(rows)
    if 0 < first < len(new) and all(key(old) == key(row) for old, row in zip(rows, new, strict=False)):
        # Another page of the same list.
        model.beginInsertRows(QModelIndex(), first, len(new) - 1)
        rows.extend(new[first:])
        model.endInsertRows()
    elif _num_steps(rows, new, key) > MAX_STEPS:
        model.beginResetModel()
        rows[:] = new
        model.endResetModel()
        return
    _remove_missing(model, rows, {key(row) for row in new}, key)
    for index, row in enumerate(new):
        _place(model, rows, index, row, key)
        if rows[index] != row:
            rows[index] = row
            changed(index)


def _num_steps(rows: Sequence[Row], new: Sequence[Row], key: Callable[[Row], object]) -> int:
    return len({key(row) for row in rows} ^ {key(row) for row in new})


def _remove_missing(model: RowModel, rows: list[Row], wanted: set[object], key: Callable[[Row], object]) -> None:
    for index in range(len(rows) - 1, -1, -1):
        if key(rows[index]) not in wanted:
            model.beginRemoveRows(QModelIndex(), index, index)
            del rows[index]
            model.endRemoveRows()


def _place(model: RowModel, rows: list[Row], index: int, row: Row, key: Callable[[Row], object]) -> None:
    """Makes `rows[index]` the row with this identity."""
    if index < len(rows) and key(rows[index]) == key(row):
        return
    found = next((at for at in range(index, len(rows)) if key(rows[at]) == key(row)), None)
    if found is None:
        model.beginInsertRows(QModelIndex(), index, index)
        rows.insert(index, row)
        model.endInsertRows()
    else:
        model.beginMoveRows(QModelIndex(), found, found, QModelIndex(), index)
        rows.insert(index, rows.pop(found))
        model.endMoveRows()
