"""Tests for app.widgets.flow."""

from __future__ import annotations

import pytest
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QLabel, QWidget

from app.widgets.flow import FlowLayout


@pytest.fixture
def flow(qtbot):
    holder = QWidget()
    qtbot.addWidget(holder)
    layout = FlowLayout(holder, spacing=10)
    for _ in range(4):
        box = QLabel("")
        box.setFixedSize(100, 20)
        layout.addWidget(box)
    holder.show()
    qtbot.waitExposed(holder)
    return holder


def arranged(holder: QWidget, width: int) -> list[tuple[int, int]]:
    holder.resize(width, 200)
    layout = holder.layout()
    layout.activate()
    return [(layout.itemAt(n).geometry().x(), layout.itemAt(n).geometry().y()) for n in range(layout.count())]


def test_what_fits_stands_in_one_line(flow):
    assert arranged(flow, 430) == [(0, 0), (110, 0), (220, 0), (330, 0)]
    assert flow.layout().heightForWidth(430) == 20


def test_what_does_not_fit_goes_on_in_the_next_line(flow):
    assert arranged(flow, 429) == [(0, 0), (110, 0), (220, 0), (0, 30)]
    assert flow.layout().heightForWidth(429) == 50
    assert flow.layout().heightForWidth(50) == 110


def test_what_is_hidden_takes_no_room(flow):
    flow.layout().itemAt(1).widget().hide()
    flow.layout().invalidate()
    arranged(flow, 230)
    assert flow.layout().num_lines == 2
    assert flow.layout().heightForWidth(320) == 20


def test_from_right_to_left_lines_begin_at_the_right(flow):
    flow.setLayoutDirection(Qt.LayoutDirection.RightToLeft)
    assert arranged(flow, 430)[0] == (330, 0)


def test_a_widget_that_is_taken_away_is_gone(flow):
    first = flow.layout().itemAt(0).widget()
    flow.layout().removeWidget(first)
    assert flow.layout().count() == 3
    assert flow.layout().itemAt(3) is None
    assert flow.layout().takeAt(7) is None


def test_lines_stand_in_the_middle_where_that_is_wished(qtbot):
    holder = QWidget()
    qtbot.addWidget(holder)
    layout = FlowLayout(holder, spacing=10, is_centred=True)
    for _ in range(3):
        box = QLabel("")
        box.setFixedSize(100, 20)
        layout.addWidget(box)
    holder.show()
    qtbot.waitExposed(holder)
    assert arranged(holder, 400) == [(40, 0), (150, 0), (260, 0)]
    assert arranged(holder, 250) == [(20, 0), (130, 0), (75, 30)]
