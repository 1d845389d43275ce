"""Tests for app.widgets.collection_picker."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from PySide6.QtCore import QPoint, Qt
from PySide6.QtGui import QAction
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QMenu

from app.widgets.collection_picker import CollectionPicker, TickMenu, words_of

NAMES = ("Contracts", "Invoices", "Letters")


@pytest.fixture
def picker(qtbot) -> CollectionPicker:
    made = CollectionPicker(is_of_chat=True)
    qtbot.addWidget(made)
    made.show_collections(NAMES, ())
    made.show()
    qtbot.waitExposed(made)
    return made


@pytest.fixture
def chosen(picker: CollectionPicker) -> list[object]:
    """What was wished for: names, or "none"."""
    wishes: list[object] = []
    picker.chosen.connect(wishes.append)
    picker.none_chosen.connect(lambda: wishes.append("none"))
    return wishes


def texts(menu: QMenu) -> list[str]:
    return [action.text() for action in menu.actions() if not action.isSeparator()]


def ticked(menu: QMenu) -> list[str]:
    return [action.text() for action in menu.actions() if action.isChecked()]


def action_of(menu: QMenu, text: str) -> QAction:
    return next(action for action in menu.actions() if action.text() == text)


def click(menu: QMenu, text: str) -> None:
    QTest.mouseClick(menu, Qt.MouseButton.LeftButton, pos=menu.actionGeometry(action_of(menu, text)).center())


def opened(picker: CollectionPicker) -> TickMenu:
    """The menu in which several are ticked, opened by the keyboard."""
    menu = picker.menu()
    menu.popup(picker.mapToGlobal(QPoint(0, picker.height())))
    menu.setActiveAction(picker.several.menuAction())
    QTest.keyClick(menu, Qt.Key.Key_Right)
    assert picker.several.isVisible()
    return picker.several


@pytest.fixture(autouse=True)
def no_menu_stays_open(picker: CollectionPicker) -> Iterator[None]:
    yield
    picker.several.close()
    picker.menu().close()


# --- one, all or none ---


def test_a_click_on_a_name_chooses_that_one_alone(picker: CollectionPicker, chosen: list[object]) -> None:
    picker.show_collections(NAMES, ("Contracts", "Letters"))
    picker.menu().popup(QPoint(0, 0))
    click(picker.menu(), "Invoices")
    assert not picker.menu().isVisible()
    assert chosen == [("Invoices",)]
    assert (picker.current, picker.text()) == (("Invoices",), " Invoices")
    assert (ticked(picker.menu()), ticked(picker.several)) == (["Invoices"], ["Invoices"])
    action_of(picker.menu(), "All files").trigger()
    assert (chosen[1:], picker.text(), ticked(picker.several)) == ([()], " All files", [])


def test_what_is_chosen_already_is_not_chosen_again(picker: CollectionPicker, chosen: list[object]) -> None:
    picker.show_collections(NAMES, ("Invoices",))
    action_of(picker.menu(), "Invoices").trigger()
    assert chosen == []
    assert ticked(picker.menu()) == ["Invoices"]


def test_no_files_at_all_can_be_asked_and_ticking_one_takes_that_back(picker, chosen) -> None:
    picker.show_collections(NAMES, ("Contracts", "Invoices"))
    none = "No files · the model alone"
    action_of(picker.menu(), none).trigger()
    assert (chosen, picker.text(), ticked(picker.menu())) == (["none"], f" {none}", [none])
    # What was asked before is not what is asked now.
    assert ticked(picker.several) == []
    QTest.keyClick(opened(picker), Qt.Key.Key_Space)
    assert chosen[1:] == [("Contracts",)]
    assert ticked(picker.menu()) == ["Contracts"]


# --- several ---


def test_several_are_ticked_by_the_keyboard_while_the_menu_stays_open(picker, chosen) -> None:
    several = opened(picker)
    QTest.keyClick(several, Qt.Key.Key_Space)
    QTest.keyClick(several, Qt.Key.Key_Down)
    QTest.keyClick(several, Qt.Key.Key_Down)
    QTest.keyClick(several, Qt.Key.Key_Return)
    assert (several.isVisible(), picker.menu().isVisible()) == (True, True)
    assert chosen == [("Contracts",), ("Contracts", "Letters")]
    assert picker.text() == " Contracts + Letters"
    assert ticked(several) == ["Contracts", "Letters"]
    assert ticked(picker.menu()) == ["Several collections: 2"]
    QTest.keyClick(several, Qt.Key.Key_Up)
    QTest.keyClick(several, Qt.Key.Key_Space)
    assert (picker.text(), picker.several.title()) == (" Contracts + 2 more", "Several collections: 3")
    QTest.keyClick(several, Qt.Key.Key_Left)
    assert (several.isVisible(), picker.menu().isVisible()) == (False, True)


def test_several_are_ticked_by_the_mouse_and_ticks_are_taken_away(picker, chosen) -> None:
    several = opened(picker)
    for name in ("Letters", "Contracts", "Letters", "Contracts"):
        click(several, name)
        assert several.isVisible()
    # In the order of the menu, in whichever they were ticked; without any tick all are asked.
    assert chosen == [("Letters",), ("Contracts", "Letters"), ("Contracts",), ()]
    assert (picker.text(), ticked(picker.menu()), ticked(several)) == (" All files", ["All files"], [])


def test_several_are_offered_where_there_are_several(qtbot, picker: CollectionPicker) -> None:
    assert "Several collections" in texts(picker.menu())
    picker.show_collections(("Contracts",), ())
    assert texts(picker.menu()) == ["All files", "Contracts", "No files · the model alone", "New collection…"]
    of_list = CollectionPicker(is_of_list=True)
    qtbot.addWidget(of_list)
    of_list.show_collections(NAMES, ("Contracts",))
    assert texts(of_list.menu()) == ["All collections", *NAMES]


def test_what_comes_while_somebody_ticks_is_in_the_menu_the_next_time(picker, chosen) -> None:
    several = opened(picker)
    click(several, "Letters")
    picker.show_collections((*NAMES, "Notes"), ("Letters",))
    assert (several.isVisible(), texts(several)) == (True, [*NAMES])
    click(several, "Invoices")
    assert chosen[-1] == ("Invoices", "Letters")
    picker.several.close()
    picker.menu().close()
    several = opened(picker)
    assert texts(several) == [*NAMES, "Notes"]
    assert ticked(several) == ["Invoices", "Letters"]


def test_one_that_was_renamed_while_the_menu_is_open_is_not_dropped_by_the_next_tick(picker, chosen) -> None:
    picker.show_collections(NAMES, ("Contracts", "Invoices"))
    several = opened(picker)
    names = ("Agreements", "Invoices", "Letters")
    picker.show_collections(names, ("Agreements", "Invoices"))
    # Its former name stands for nothing any more.
    click(several, "Contracts")
    assert chosen == []
    click(several, "Letters")
    assert chosen == [("Invoices", "Letters", "Agreements")]
    click(several, "Invoices")
    assert chosen[-1] == picker.current == ("Letters", "Agreements")
    picker.several.close()
    picker.menu().close()
    assert ticked(opened(picker)) == ["Agreements", "Letters"]


# --- what is gone ---


def test_one_of_several_that_is_gone_is_said_so_and_can_be_taken_away(picker, chosen) -> None:
    picker.show_collections(NAMES, ("Contracts", "Notes"), gone=("Notes",))
    assert picker.text() == " Contracts + Notes (removed)"
    assert picker.accessibleName() == "Collections to ask: Contracts, Notes (removed)"
    assert "Notes (removed)" in picker.toolTip()
    assert not picker.is_gone
    several = opened(picker)
    assert texts(several) == [*NAMES, "Notes (removed)"]
    click(several, "Invoices")
    assert chosen == [("Contracts", "Invoices", "Notes")]
    assert picker.text() == " Contracts + 2 more"
    click(several, "Notes (removed)")
    assert (chosen[-1], picker.text()) == (("Contracts", "Invoices"), " Contracts + Invoices")


def test_only_where_nothing_is_left_of_what_is_chosen_it_is_gone(picker: CollectionPicker) -> None:
    picker.show_collections(NAMES, ("Notes",), gone=("Notes",))
    assert (picker.text(), picker.is_gone) == (" Notes (removed)", True)
    picker.show_collections(NAMES, ("Notes", "Old"), gone=("Notes", "Old"))
    assert picker.is_gone
    picker.show_collections(NAMES, ())
    assert not picker.is_gone


# --- in words ---


def test_all_that_are_chosen_are_named_to_who_points_at_it_or_has_it_read(picker: CollectionPicker) -> None:
    picker.show_collections(NAMES, NAMES)
    assert picker.accessibleName() == "Collections to ask: Contracts, Invoices, Letters"
    assert picker.toolTip() == "Which files answers come from\nContracts\nInvoices\nLetters"
    picker.show_collections(NAMES, ("Letters",))
    assert picker.accessibleName() == "Collection to ask: Letters"
    assert picker.toolTip() == "Which files answers come from"
    many = [f"Collection {number}" for number in range(100)]
    picker.show_collections(many, many)
    assert picker.toolTip().endswith("\nCollection 19\n…")


@pytest.mark.parametrize(
    ("names", "words"),
    [
        ((), ""),
        (("Contracts",), "Contracts"),
        (("R&D", "%1 <b>"), "R&D + %1 <b>"),
        (("%2", "%1"), "%2 + %1"),
        (("a%2", "b", "c"), "a%2 + 2 more"),
        (("A collection with a name that no line has room for", "Tea"), "A collection with a nam… + Tea"),
        (("A collection with a name that no line has room for",), "A collection with a name that no line has room for"),
    ],
)
def test_collections_in_a_line(names: tuple[str, ...], words: str) -> None:
    assert words_of(names) == words


def test_what_finds_no_room_is_cut(picker: CollectionPicker) -> None:
    picker.show_collections(NAMES, ("R&D of a very long name", "Letters"))
    picker.resize(picker.sizeHint())
    assert picker.cut_text == " R&&D of a very long name + Letters"
    picker.resize(picker.minimumSizeHint())
    assert picker.width() < picker.sizeHint().width()
    assert picker.cut_text.startswith(" R&&D")
    assert picker.cut_text.endswith("…")
