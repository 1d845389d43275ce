"""Tests for the Memory page: budgets, decisions with their time, rates over time, and the table in any order."""

from __future__ import annotations

import pytest
from PySide6.QtCore import Qt
from PySide6.QtTest import QTest

from app import theme
from app.models.memory_moves import Move
from app.models.memory_table import BYTES, OWNER, STATE, WHAT
from app.widgets.decisions_card import time_text
from app.widgets.figure import Figure
from app.widgets.figures_card import FiguresCard
from app.widgets.painted_bar import BAR_PX
from app.widgets.roomy_label import RoomyLabel
from app.widgets.sparkline import Sparkline
from engine import protocol
from engine.protocol import Decision, Span, TierSnapshot
from tests.helpers.scripted_memory import LARGE, Machine, snapshot
from tests.helpers.shown_values import GIB, gpu_tier

MACHINE = Machine()
UNSET = {"gpu_budget_bytes": None, "ram_budget_bytes": None, "disk_budget_bytes": None, "may_lose": False}


def tell(client, tick: int, machine: Machine = MACHINE) -> None:
    client.tell(protocol.MemorySnapshot(memory=snapshot(machine, tick)))


@pytest.fixture
def page(window, client):
    made = window.go_to("memory")
    client.answer(protocol.SETTINGS_GET, protocol.SettingsReply(settings={"memory": UNSET}))
    tell(client, 0)
    return made


def changes(client) -> list[dict[str, object]]:
    return [wanted.changes for wanted in client.asked(protocol.SETTINGS_SET)]


# --- the map ---


def test_the_page_shows_a_lane_for_each_tier_and_each_layer_by_its_index(page):
    assert [lane.accessibleName() for lane in page.map.lanes()] == [
        "Memory of GeForce GTX 1050", "Memory of Memory", "Memory of Disk",
    ]  # fmt: skip
    assert len(page.map.strip.layers) == 28
    assert {layer.home for layer in page.map.strip.layers} == {"gpu", "streamed", "loading"}


def test_without_a_graphics_card_there_is_no_lane_for_one(window, client):
    page = window.go_to("memory")
    tell(client, 60, Machine(gpu_layers=0))
    assert len(page.map.lanes()) == 2
    assert "gpu" not in page.budgets.rows


def test_what_moves_is_marked_and_told(page, client, qtbot):
    for tick in range(1, 6):
        tell(client, tick)
    assert page.map.strip.num_marks > 0
    assert page.map.lane_of("ram").num_marks > 0
    qtbot.waitUntil(lambda: "layers" in page.map.moves.sentence)


def test_streaming_is_told_though_no_span_moves_and_what_moves_comes_before_it(page, qtbot):
    moves = page.map.moves
    moves._rest()
    moves.show_streaming(False)
    assert moves.sentence == "Nothing is moving right now."
    moves.show_streaming(True)
    moves.show_streaming(False)
    assert moves.sentence.startswith("Streamed layers pass through memory")
    moves.note([Move("came", "ram", ("embedder", "weights", 0), Span("embedder", "weights", "ram", GIB))])
    moves._tell()
    moves.show_streaming(True)
    assert moves.sentence.startswith("Right now: ")
    moves._rest()
    moves.show_streaming(True)
    assert moves.sentence.startswith("Streamed layers pass through memory")


def test_cells_in_use_are_told_apart_from_cells_that_are_held(page):
    cells = [tile for tile in page.map.lane_of("ram").tiles if tile.what.endswith("cells")]
    assert [tile.state for tile in cells] == ["resident", "reserved"]
    assert cells[0].num_bytes < cells[1].num_bytes


def test_cells_are_told_by_chat_where_it_is_known(page, client, models):
    models.conversation.ask("What notice period applies to my flat?")
    turn_id = models.conversation.turns[0].turn_id
    counters = {"kv_cells_used": 600.0, "kv_cells_free": 200.0, f"kv_cells_of:{turn_id}": 400.0}
    tiers = (gpu_tier(Span("kv", "800 cells", "gpu", 800)),)
    client.tell(protocol.MemorySnapshot(memory=protocol.MemoryReply(tiers=tiers, counters=counters)))
    told = [(tile.label, tile.num_bytes, tile.state) for tile in page.map.lane_of("gpu").tiles if tile.owner]
    title = models.conversation.title
    assert title
    assert told == [(title, 400, "resident"), ("", 200, "resident"), ("", 200, "reserved")]
    assert all("kv_cells_of" not in words for words, _ in page.counters.shown())


def test_hundreds_of_spans_are_shown(window, client):
    page = window.go_to("memory")
    tell(client, 300, LARGE)
    assert len(page.map.strip.layers) == 80
    assert sum(tile.what.startswith("partition ") for tile in page.map.lane_of("ram").tiles) > 100
    assert not page.grab().isNull()


# --- budgets ---


def test_budgets_are_automatic_until_they_are_chosen(page):
    for row in page.budgets.rows.values():
        assert row.automatic.isChecked()
    assert page.budgets.rows["gpu"].figure.text() == "1.5 GiB"


def test_a_slider_shows_its_mark_while_it_is_moved_and_is_applied_when_let_go(page, client):
    slider, lane = page.budgets.rows["ram"].slider, page.map.lane_of("ram")
    slider.setSliderDown(True)
    slider.setValue(slider.maximum() // 2)
    assert lane.budget_bytes == 4 * GIB
    assert changes(client) == []
    slider.setSliderDown(False)
    assert changes(client) == [{"memory.ram_budget_bytes": 4 * GIB}]
    assert not page.budgets.rows["ram"].automatic.isChecked()


def test_a_knob_that_was_only_pressed_chooses_nothing(page, window, client):
    row = page.budgets.rows["ram"]
    row.slider.setSliderDown(True)
    row.slider.setSliderDown(False)
    assert (changes(client), row.automatic.isChecked()) == ([], True)
    # What was told while it was held counts once it is let go.
    row.slider.setSliderDown(True)
    client.tell(protocol.SettingsChanged())
    chosen = protocol.SettingsReply(settings={"memory": UNSET | {"ram_budget_bytes": 4 * GIB}})
    client.answer(protocol.SETTINGS_GET, chosen)
    row.slider.setSliderDown(False)
    assert (row.figure.text(), row.automatic.isChecked()) == ("4.0 GiB", False)
    row.slider.setSliderDown(True)
    window.close()
    assert changes(client) == []


def test_the_keyboard_moves_a_budget_and_the_last_one_counts(page, client, qtbot):
    row = page.budgets.rows["disk"]
    start = row.slider.value()
    row.slider.setFocus()
    for _ in range(3):
        QTest.keyClick(row.slider, Qt.Key.Key_Right)
    assert row.slider.value() == start + 3
    qtbot.waitUntil(lambda: bool(changes(client)))
    assert changes(client) == [{"memory.disk_budget_bytes": row.value_bytes}]


def test_automatic_is_a_choice(page, client):
    row = page.budgets.rows["gpu"]
    row.automatic.click()
    assert changes(client) == [{"memory.gpu_budget_bytes": row.value_bytes}]
    chosen = protocol.SettingsReply(settings={"memory": UNSET | {"gpu_budget_bytes": row.value_bytes}})
    client.answer(protocol.SETTINGS_SET, chosen)
    row.automatic.click()
    assert changes(client)[-1] == {"memory.gpu_budget_bytes": None}


def test_a_refused_budget_is_told_in_a_sentence_and_the_old_one_shown(page, client):
    row = page.budgets.rows["ram"]
    before = row.slider.value()
    row.slider.setSliderDown(True)
    row.slider.setValue(row.slider.minimum())
    row.slider.setSliderDown(False)
    client.refuse(protocol.SETTINGS_SET, "Less than 256 MiB is not enough.", way_out="Choose more.")
    assert row.problem.text() == "Less than 256 MiB is not enough. Choose more."
    assert row.problem.isVisible()
    assert row.slider.value() == before
    assert row.automatic.isChecked()


def test_what_is_done_without_is_told_beside_the_budget(page, client, qtbot):
    tell(client, 45)
    qtbot.waitUntil(lambda: "4 partitions of the index" in page.budgets.rows["ram"].words.text())


@pytest.mark.parametrize(
    ("held_bytes", "uncounted_bytes", "words"),
    [
        (3 * GIB, 0, "More is in use than the budget allows. Fewer wait."),
        (3 * GIB, 2 * GIB, "The system reports that memory is low. Fewer wait."),
        (GIB, 0, "The system reports that memory is low. Fewer wait."),
    ],
)
def test_a_budget_that_is_too_small_is_told_apart_from_a_system_that_is_short(page, held_bytes, uncounted_bytes, words):
    held = Span("model weights", "layer 0", "ram", held_bytes)
    row = page.budgets.rows["ram"]
    row.show_tier(
        TierSnapshot(
            tier="ram", name="Memory", capacity_bytes=8 * GIB, other_bytes=0, spans=(held,), budget_bytes=2 * GIB,
            pressure="some", given_up=("Fewer wait.", "Fewer wait."), uncounted_bytes=uncounted_bytes,
        )
    )  # fmt: skip
    assert row.words.text() == words


def test_losses_are_allowed_by_the_user_alone(page, client):
    assert not page.budgets.may_lose.isChecked()
    page.budgets.may_lose.click()
    assert changes(client) == [{"memory.may_lose": True}]


def test_losses_that_cannot_be_allowed_say_why(page, client):
    page.budgets.may_lose.click()
    client.refuse(protocol.SETTINGS_SET, "The disk is full.")
    assert not page.budgets.may_lose.isChecked()
    assert "The disk is full." in page.budgets.may_lose_problem.text()
    assert not page.budgets.may_lose_problem.isHidden()


def test_an_engine_without_budgets_is_not_offered_any(window, client):
    page = window.go_to("memory")
    client.answer(protocol.SETTINGS_GET, protocol.SettingsReply(settings={"memory": {}}))
    tell(client, 0)
    assert page.budgets.isHidden()


def test_the_button_leads_the_keyboard_to_the_budgets(page, window, qtbot):
    window.activateWindow()
    page.table_button.click()
    page.budgets_button.click()
    qtbot.waitUntil(lambda: page.budgets.rows["gpu"].slider.hasFocus() or window.focusWidget() is not None)
    qtbot.waitUntil(lambda: window.focusWidget() is page.budgets.rows["gpu"].slider)


# --- decisions and rates ---


def test_decisions_stand_with_their_time_the_newest_first(window, client, qtbot):
    page = window.go_to("memory")
    history = (Decision(at=90.0, sentence="Slots 2 → 4.", kind="given_up"), Decision(at=30.0, sentence="Loaded."))
    reply = protocol.MemoryReply(tiers=(gpu_tier(),), decisions=("All is well.",), history=history)
    client.tell(protocol.MemorySnapshot(memory=reply))
    qtbot.waitUntil(lambda: page.decisions.lines() == ("All is well.", "Slots 2 → 4.", "Loaded."))
    words = [label.text() for label in page.decisions.findChildren(type(page.subtitle)) if not label.isHidden()]
    assert words.index(time_text(90.0)) < words.index(time_text(30.0))


def test_a_decision_is_said_at_the_foot_of_the_window(window, client, models):
    at = models.memory._opened_at + 1
    history = (Decision(at=at, sentence="3 chats waiting: slots 2 → 4, released 2 partitions."),)
    client.tell(protocol.MemorySnapshot(memory=protocol.MemoryReply(tiers=(gpu_tier(),), history=history)))
    assert window.status_line.sentence == history[0].sentence


def test_rates_have_a_line_and_gauges_have_none(page, client, qtbot, models):
    now = [100.0]
    models.memory._clock = lambda: now[0]
    for tick in range(6):
        now[0] += 1.5
        tell(client, tick)
    qtbot.waitUntil(lambda: len(page.counters.findChildren(Sparkline)) == 6)
    page.counters.show_rates(models.memory.rates)
    (tokens, *_) = page.counters.findChildren(Sparkline)
    assert tokens.accessibleName() == "Tokens written"
    assert len(tokens.points) >= 4
    assert tokens.accessibleDescription().startswith("Last minutes: between ")
    assert not tokens.grab().isNull()


def test_figures_of_parts_are_left_out_where_the_index_has_none(qtbot):
    card = FiguresCard()
    qtbot.addWidget(card)
    counters = {"tokens_per_s": 2.0, "partitions": 0.0, "partitions_resident_ratio": 1.0, "sweep_fixed_ms": 5.0}
    card.show_counters(counters)
    assert [words for words, _ in card.shown()] == ["Tokens written", "Time of a search"]
    card.show_counters(counters | {"partitions": 4.0})
    assert ("Index parts in memory, of all", "100%") in card.shown()


# --- the table ---


def test_the_table_can_be_read_in_any_order(page, client):
    page.table_button.click()
    assert page.table.memory_row(0).owner == "weights"
    page.table.sorting.setCurrentIndex(1)
    page.table.sorting.activated.emit(1)
    sizes = [page.table.memory_row(row).num_bytes for row in range(page.table.num_rows())]
    assert sizes == sorted(sizes, reverse=True)
    page.table.view.sortByColumn(1, Qt.SortOrder.AscendingOrder)
    assert page.table.sorting.currentText() == "By owner"
    page.table.sorting.setCurrentIndex(0)
    page.table.sorting.activated.emit(0)
    assert page.table.memory_row(0).owner == "weights"


def test_a_sorted_table_stays_in_order_while_bytes_move(page, client):
    page.table_button.click()
    page.table.view.sortByColumn(3, Qt.SortOrder.DescendingOrder)
    for tick in range(30, 60, 5):
        tell(client, tick)
        sizes = [page.table.memory_row(row).num_bytes for row in range(page.table.num_rows())]
        assert sizes == sorted(sizes, reverse=True)


def test_the_table_sleeps_while_nobody_reads_it_and_is_right_when_it_is_read(page, client, models):
    spans = (Span("weights", "layer 0", "gpu", GIB),)
    client.tell(protocol.MemorySnapshot(memory=protocol.MemoryReply(tiers=(gpu_tier(*spans),))))
    assert models.memory.table.rowCount() == 0
    page.table_button.click()
    assert page.table.memory_row(0).what == "layer 0"
    page.map_button.click()
    client.tell(protocol.MemorySnapshot(memory=protocol.MemoryReply(tiers=(gpu_tier(),))))
    assert page.table.memory_row(0).what == "layer 0"
    page.table_button.click()
    assert page.table.memory_row(0).owner == "everything else"


def test_a_budget_that_was_moved_just_before_the_window_closes_is_sent(page, window, client):
    row = page.budgets.rows["disk"]
    row.slider.setValue(row.slider.value() + 2)
    assert changes(client) == []
    window.close()
    assert changes(client) == [{"memory.disk_budget_bytes": row.value_bytes}]
    page.settle()
    assert len(changes(client)) == 1


# --- at another text size ---


@pytest.fixture
def larger(page, qtbot):
    """The page after the text has become half as large again while it was looked at."""
    qtbot.waitUntil(lambda: page.counters.shown() != ())
    theme.appearance().choose("light", 1.5)
    return page


def has_room(label, text: str) -> bool:
    return label.width() >= label.fontMetrics().horizontalAdvance(text)


def test_no_digit_of_a_budget_or_a_tier_is_cut(larger, qtbot):
    figures = [row.figure for row in larger.budgets.rows.values() if row.isVisible()]
    lines = [label for label in larger.map.findChildren(RoomyLabel) if label.isVisible()]
    assert len(figures) == 3
    assert len(lines) == 4
    qtbot.waitUntil(lambda: all(has_room(label, label.text()) for label in figures + lines))


def test_lanes_begin_below_each_other(larger, qtbot):
    lanes = [*larger.map.lanes(), larger.map.strip]
    qtbot.waitUntil(lambda: all(lane.x() > 200 for lane in lanes))
    assert len({lane.x() for lane in lanes}) == 1


def test_no_figure_of_a_counter_is_cut(larger, qtbot):
    figures = larger.counters.findChildren(Figure)
    qtbot.waitUntil(lambda: all(has_room(figure, figure.text) for figure in figures))


@pytest.mark.parametrize("width_px", [800, 1280])
def test_no_cell_of_the_table_but_the_name_of_a_device_is_cut(larger, window, width_px):
    window.resize(width_px, 800)
    larger.show_table(True)
    view = larger.table.view
    for column in (OWNER, BYTES, STATE):
        assert view.sizeHintForColumn(column) <= view.columnWidth(column)
    assert view.columnWidth(WHAT) > view.fontMetrics().horizontalAdvance("layers 10–20")
    assert larger.table.sorting.width() >= larger.table.sorting.sizeHint().width()


def test_what_has_no_room_in_a_small_window_is_scrolled_to(page, window, qtbot):
    theme.appearance().choose("light", 2.5)
    window.resize(800, 520)
    area, bar = page._scroll, page._scroll.horizontalScrollBar()
    qtbot.waitUntil(lambda: area.widget().width() > area.viewport().width())
    qtbot.waitUntil(lambda: bar.isVisible() and bar.maximum() == area.widget().width() - area.viewport().width())


def test_no_tick_below_a_lane_is_cut(page, qtbot):
    theme.appearance().choose("light", 2.5)
    lane, strip = page.map.lanes()[0], page.map.strip
    qtbot.waitUntil(lambda: lane.height() - BAR_PX > lane.fontMetrics().ascent() * 0.78)
    qtbot.waitUntil(lambda: strip.height() - BAR_PX > strip.fontMetrics().ascent() * 0.78)
