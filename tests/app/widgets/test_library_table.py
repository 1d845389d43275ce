"""Tests for app.widgets.library_table."""

from __future__ import annotations

from dataclasses import replace

import pytest
from PySide6.QtCore import QEvent
from PySide6.QtWidgets import QApplication

from app import theme
from app.models.documents import DocumentsTable
from app.widgets.library_table import CHUNKS, NAME, SIZE, STATE, STATES, LibraryTable
from tests.helpers.shown_values import GIB, document
from tests.helpers.told_library import answer_library

LARGE = [
    replace(document(number, state), num_chunks=123_456, size_bytes=789 * GIB) for number, state in enumerate(STATES)
]


@pytest.fixture
def table(qtbot):
    made = LibraryTable()
    qtbot.addWidget(made)
    made.resize(1600, 400)
    made.show()
    yield made
    theme.appearance().choose("light")


# Of three digits, one after the point: wider than larger ones.
LARGE.append(replace(document(9), size_bytes=round(88.8 * 1024)))


def show(table, client, documents) -> None:
    model = DocumentsTable(client, table)
    table.show_documents(model)
    model.set_shown(True)
    model.show(None)
    answer_library(client, documents=documents)
    QApplication.processEvents()


@pytest.mark.parametrize("scale", [1.0, 1.5, 2.0])
def test_no_state_no_figure_and_no_title_is_cut(table, client, scale):
    show(table, client, LARGE)
    theme.appearance().choose("light", scale)
    for column in (STATE, CHUNKS, SIZE):
        assert table.columnWidth(column) >= table.sizeHintForColumn(column)
        assert table.columnWidth(column) >= table.horizontalHeader().sectionSizeHint(column)


def test_a_table_whose_documents_have_gone_takes_another_font(table, client):
    show(table, client, LARGE)
    table.setModel(None)
    QApplication.sendEvent(table, QEvent(QEvent.Type.FontChange))
    assert table.model() is None


@pytest.mark.parametrize("scale", [1.0, 1.5, 2.0])
def test_in_a_narrow_table_figures_give_way_to_names(table, client, scale):
    show(table, client, LARGE)
    theme.appearance().choose("light", scale)
    table.resize(640, 400)
    QApplication.processEvents()
    assert table.isColumnHidden(CHUNKS)
    assert table.isColumnHidden(SIZE) == (scale > 1)
    assert table.columnWidth(NAME) >= table.viewport().width() // 4


@pytest.mark.parametrize("scale", [1.0, 1.5, 2.0])
def test_the_folder_below_a_name_is_seen_whole(table, client, scale):
    theme.appearance().choose("light", scale)
    pictures = []
    # These differ in what reaches below the line alone.
    for path in ("/docs/a.pdf", "/docs_/a.pdf"):
        show(table, client, [replace(document(1), path=path)])
        pictures.append(table.grab().toImage())
    assert pictures[0] != pictures[1]
