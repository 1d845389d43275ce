"""Small widgets in our style, one call each: labels by role, buttons by kind, chips, lines."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import pairwise
from typing import Literal

from PySide6.QtCore import QEvent, QObject, Qt
from PySide6.QtGui import QCursor
from PySide6.QtWidgets import (
    QAbstractButton,
    QAbstractSpinBox,
    QFrame,
    QHBoxLayout,
    QLabel,
    QLayout,
    QMenu,
    QPushButton,
    QSizePolicy,
    QStyle,
    QStyleOptionButton,
    QToolButton,
    QVBoxLayout,
    QWidget,
)

from app import theme
from app.tips import plain_tip

Role = Literal["plain", "hero", "title", "heading", "strong", "muted", "small", "section", "problem", "key"]
Tone = Literal["plain", "good", "warn", "bad", "accent"]
Kind = Literal["plain", "primary", "danger", "ghost", "picker", "link", "quiet", "segment", "nav", "new", "filter"]
# The borders and padding of a field, and its arrow.
_FRAME_PX = 55


def label(text: str = "", role: Role = "plain", *, wraps: bool = False, selectable: bool = False) -> QLabel:
    """Makes a plain-text label; never rich text, because file names and errors may contain anything."""
    made = QLabel(text)
    made.setTextFormat(Qt.TextFormat.PlainText)
    made.setProperty("role", role)
    made.setWordWrap(wraps)
    if selectable:
        made.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
    return made


def chip(text: str, tone: Tone = "plain") -> QLabel:
    """Makes a tinted pill with a short state; the words suffice without the tint."""
    made = QLabel(text)
    made.setTextFormat(Qt.TextFormat.PlainText)
    made.setProperty("chip", tone)
    made.setSizePolicy(QSizePolicy.Policy.Fixed, QSizePolicy.Policy.Fixed)
    return made


def set_chip(made: QLabel, text: str, tone: Tone) -> None:
    made.setText(text)
    if made.property("chip") != tone:
        theme.restyle(made, chip=tone)


class _ElidedButton(QPushButton):
    """Cuts its text with an ellipsis to the available width."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.setMinimumWidth(1)

    def initStyleOption(self, option: QStyleOptionButton) -> None:  # noqa: N802 - Qt's name
        super().initStyleOption(option)
        room = self.style().subElementRect(QStyle.SubElement.SE_PushButtonContents, option, self).width()
        option.text = option.fontMetrics.elidedText(
            option.text, Qt.TextElideMode.ElideRight, room, Qt.TextFlag.TextShowMnemonic.value
        )  # fmt: skip


def button(
    text: str,
    kind: Kind = "plain",
    icon: str = "",
    clicked: Callable[[], object] | None = None,
    *,
    is_checkable: bool = False,
    gives_way: bool = False,
) -> QPushButton:
    """Makes a push button of a kind that the style sheet knows; `icon` is one of resources/icons.

    `gives_way`: it may become as narrow as its layout requires.
    """
    # The style sheet has no gap between icon and text.
    made = (_ElidedButton if gives_way else QPushButton)(f" {text}" if icon else text)
    made.setAccessibleName(text)
    made.setProperty("kind", kind)
    made.setAutoDefault(False)
    made.setCursor(Qt.CursorShape.PointingHandCursor)
    made.setCheckable(is_checkable)
    if icon:
        colour = {"primary": "on_accent", "filter": "accent"}.get(kind, "muted")
        theme.dress(made, icon, colour, side=12 if kind == "filter" else 18)
    if clicked is not None:
        made.clicked.connect(lambda: clicked())
    return made


def literal(text: str) -> str:
    """Escapes "&" in names for a button or a menu, so that it is shown and does not mark a shortcut."""
    return text.replace("&", "&&")


def tool(
    icon: str, name: str, clicked: Callable[[], object] | None = None, side: int = 18, *, is_checkable: bool = False
) -> QToolButton:
    """Makes an icon button; `name` is its tooltip and what a screen reader says."""
    made = QToolButton()
    made.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
    made.setCursor(Qt.CursorShape.PointingHandCursor)
    made.setCheckable(is_checkable)
    rename(made, name)
    theme.dress(made, icon, side=side)
    if clicked is not None:
        made.clicked.connect(lambda: clicked())
    return made


def opens_popup(made: QAbstractButton, popup: QMenu | None = None) -> None:
    """Prepares a button that opens a popup: a click does not move the focus, and its hover look ends with `popup`.

    Call `unhover` when a popup closes that is not a menu.
    """
    made.setFocusPolicy(Qt.FocusPolicy.TabFocus)
    if popup is not None:
        popup.aboutToHide.connect(lambda: unhover(made))


def unhover(made: QWidget) -> None:
    """Ends the hover look, if the mouse has left."""
    # WORKAROUND Qt 6.11 (as QTBUG-27478): a widget below a popup is not notified that the mouse has left it.
    if not made.rect().contains(made.mapFromGlobal(QCursor.pos())):
        made.setAttribute(Qt.WidgetAttribute.WA_UnderMouse, False)
        made.update()


class _WheelPasser(QObject):
    """Passes wheel events on to the scrolling page, unless the widget under the mouse has the focus."""

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        if event.type() == QEvent.Type.Wheel and isinstance(watched, QWidget) and not watched.hasFocus():
            event.ignore()
            return True
        return False


def pass_wheel(made: QWidget) -> None:
    """Keeps the wheel from changing a control that scrolls past."""
    made.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
    made.installEventFilter(_WheelPasser(made))


def tame(spin: QAbstractSpinBox) -> None:
    """Lets drops and the wheel pass through a spin box, and moves its text off the edge, which no style sheet can."""
    pass_wheel(spin)
    spin.lineEdit().setAcceptDrops(False)
    spin.lineEdit().setTextMargins(8, 0, 0, 0)


class _LetterKeeper(QObject):
    """Keeps a widget's width in letters when its font changes."""

    def __init__(self, made: QWidget, letters: int) -> None:
        super().__init__(made)
        self._letters = letters
        made.installEventFilter(self)
        self._fit(made)

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        if event.type() == QEvent.Type.FontChange and isinstance(watched, QWidget):
            self._fit(watched)
        return False

    def _fit(self, made: QWidget) -> None:
        made.setFixedWidth(self._letters * made.fontMetrics().averageCharWidth() + _FRAME_PX)


def keep_letters(made: QWidget, letters: int) -> None:
    """Gives a field a width in letters, plus its frame and arrow, now and when the text size changes."""
    _LetterKeeper(made, letters)


def letters_wide(made: QWidget, letters: int, room_px: int) -> int:
    """Returns the width of so many letters of a widget's font, at most `room_px`."""
    return min(letters * made.fontMetrics().averageCharWidth(), room_px)


def rename(made: QWidget, name: str) -> None:
    """Sets the tooltip and the accessible name of a widget without visible text."""
    made.setToolTip(plain_tip(name))
    made.setAccessibleName(name)


def tab_stops(within: QWidget) -> Iterator[QWidget]:
    """Yields the widgets inside that the Tab key reaches, in layout order, including hidden ones."""
    if within.focusPolicy().value & Qt.FocusPolicy.TabFocus.value:
        yield within
    if (layout := within.layout()) is not None:
        yield from _stops_in(layout)


def _stops_in(layout: QLayout) -> Iterator[QWidget]:
    items = map(layout.itemAt, range(layout.count()))
    for item in (item for item in items if item is not None):
        if (widget := item.widget()) is not None:
            yield from tab_stops(widget)
        elif (inner := item.layout()) is not None:
            yield from _stops_in(inner)


def chain_tabs(stops: Iterable[QWidget]) -> None:
    """Makes the Tab key go through the widgets in this order."""
    for one, following in pairwise(stops):
        QWidget.setTabOrder(one, following)


def drop(layout: QLayout, widgets: Iterable[QWidget]) -> None:
    """Removes widgets from a layout and hides them; Qt deletes them later, when none of their methods is running."""
    for widget in widgets:
        layout.removeWidget(widget)
        widget.hide()
        widget.deleteLater()


def line() -> QFrame:
    made = QFrame()
    made.setProperty("line", True)
    made.setFixedHeight(1)
    return made


def card(kind: str = "true") -> QFrame:
    made = QFrame()
    made.setProperty("card", kind)
    return made


def row(*items: QWidget | int | None, spacing: int = 8) -> QHBoxLayout:
    """Lays out widgets from left to right; an int is a fixed gap in pixels, None takes the remaining room."""
    made = QHBoxLayout()
    _fill(made, items, spacing)
    return made


def column(*items: QWidget | int | None, spacing: int = 8) -> QVBoxLayout:
    """Lays out widgets from top to bottom; see `row`."""
    made = QVBoxLayout()
    _fill(made, items, spacing)
    return made


def _fill(box: QHBoxLayout | QVBoxLayout, items: tuple[QWidget | int | None, ...], spacing: int) -> None:
    box.setContentsMargins(0, 0, 0, 0)
    box.setSpacing(spacing)
    for item in items:
        if item is None:
            box.addStretch(1)
        elif isinstance(item, int):
            box.addSpacing(item)
        else:
            box.addWidget(item)
