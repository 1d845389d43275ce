"""Controls of the engine's settings: each shows a value of the engine, and returns the changed one."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence

from PySide6.QtCore import QEvent, QObject, Signal
from PySide6.QtWidgets import QCheckBox, QComboBox, QDoubleSpinBox, QLineEdit, QPlainTextEdit, QSpinBox, QWidget

from app.widgets import bits

_GIB, _GIB_DIGITS = 2**30, 2
# The largest relative difference between a value and what is shown: for numbers, and for bytes.
_EXACTLY, _NEARLY = 1e-6, 0.01
# The most digits after the point.
_MOST_DIGITS = 16


class Control(QObject):
    """The base of all: `widget` is shown; `show_value` emits nothing, `changed` reports the user's changes."""

    changed = Signal()
    # Whether the user types into it; and whether a refused value stays, so that it can be corrected.
    is_typed = False
    keeps_refused = False

    def __init__(self, widget: QWidget, read: Callable[[], object], put: Callable[[object], None]) -> None:
        """`read` takes the value from the widget, `put` shows one in it."""
        super().__init__(widget)
        self.widget = widget
        self._read, self._show = read, put

    def value(self) -> object:
        return self._read()

    def show_value(self, value: object) -> None:
        self.widget.blockSignals(True)
        self._show(value)
        self.widget.blockSignals(False)


class _Figure(Control):
    """A number that is typed or stepped.

    Its range and digits are the usual ones. A value outside, set elsewhere, widens them until another value is shown:
    otherwise Qt would show the nearest value, and the next step would continue from that.
    """

    is_typed = True

    def __init__(
        self, spin: QSpinBox | QDoubleSpinBox, read: Callable[[], object], put: Callable[[object], None]
    ) -> None:
        super().__init__(spin, read, put)
        # A number that is being typed is not a value yet.
        spin.setKeyboardTracking(False)
        bits.tame(spin)
        spin.valueChanged.connect(lambda: self.changed.emit())


class Number(_Figure):
    """A whole number. One that is not an amount (a port) `is_a_name`."""

    def __init__(self, lowest: int, highest: int, step: int, *, is_a_name: bool = False) -> None:
        self._lowest, self._highest = lowest, highest
        self._spin = QSpinBox()
        self._spin.setRange(lowest, highest)
        self._spin.setSingleStep(step)
        self._spin.setGroupSeparatorShown(not is_a_name)
        super().__init__(self._spin, self._value, self._put)

    def _value(self) -> object:
        return self._spin.value()

    def _put(self, value: object) -> None:
        if isinstance(value, int | float):
            whole = round(value)
            self._spin.setRange(min(self._lowest, whole), max(self._highest, whole))
            self._spin.setValue(whole)


class Decimal(_Figure):
    """A number with `num_digits` after the point, and more of them if a value needs them.

    `nothing` is the name of the lowest value, if it has one ("never").
    """

    def __init__(
        self, lowest: float, highest: float, step: float, num_digits: int = 2, nothing: str = "", suffix: str = ""
    ) -> None:
        self._lowest, self._highest, self._num_digits = lowest, highest, num_digits
        self._spin = QDoubleSpinBox()
        self._spin.setDecimals(num_digits)
        self._spin.setRange(lowest, highest)
        self._spin.setSingleStep(step)
        self._spin.setGroupSeparatorShown(True)
        self._spin.setSpecialValueText(nothing)
        self._spin.setSuffix(suffix)
        super().__init__(self._spin, self._value, self._put)

    def _value(self) -> object:
        return round(self._spin.value(), self._spin.decimals())

    def _put(self, value: object) -> None:
        if isinstance(value, int | float):
            self._spin.setDecimals(_num_digits(value, self._num_digits, _EXACTLY))
            self._spin.setRange(min(self._lowest, value), max(self._highest, value))
            self._spin.setValue(value)


class Gibibytes(_Figure):
    """Bytes, shown in GiB; the lowest position means None and is called `nothing`; it is below 0 if 0 is a value.

    If the value cannot be None, `lowest_gib` is the lowest.
    """

    def __init__(
        self,
        highest_gib: float,
        step_gib: float,
        nothing: str = "",
        *,
        can_be_zero: bool = False,
        lowest_gib: float | None = None,
    ) -> None:
        self._highest_gib, self._step_gib, self._can_be_zero = highest_gib, step_gib, can_be_zero
        self._lowest_gib = lowest_gib
        self._spin = QDoubleSpinBox()
        self._spin.setSingleStep(step_gib)
        self._spin.setSuffix(" GiB")
        self._spin.setSpecialValueText(nothing)
        super().__init__(self._spin, self._value, self._put)
        self.show_value(None)

    def _value(self) -> object:
        gib = self._spin.value()
        is_some = self._lowest_gib is not None or gib > self._spin.minimum()
        return max(0, round(gib * _GIB)) if is_some else None

    def _put(self, value: object) -> None:
        gib = value / _GIB if isinstance(value, int) else None
        lowest = -self._step_gib if self._can_be_zero or gib == 0 else 0.0
        if self._lowest_gib is not None:
            lowest = min(self._lowest_gib, self._lowest_gib if gib is None else gib)
        self._spin.setDecimals(_num_digits(gib or 0.0, _GIB_DIGITS, _NEARLY))
        self._spin.setRange(lowest, max(self._highest_gib, gib or 0.0))
        self._spin.setValue(lowest if gib is None else gib)


def _num_digits(value: float, fewest: int, tolerance: float) -> int:
    """Returns how many digits after the point show a value within a relative tolerance, at least `fewest`."""
    enough = (n for n in range(fewest, _MOST_DIGITS) if math.isclose(round(value, n), value, rel_tol=tolerance))
    return next(enough, _MOST_DIGITS)


class Switch(Control):
    def __init__(self) -> None:
        self._box = QCheckBox()
        super().__init__(self._box, self._value, self._put)
        self._box.toggled.connect(lambda: self.changed.emit())

    def _value(self) -> object:
        return self._box.isChecked()

    def _put(self, value: object) -> None:
        self._box.setChecked(bool(value))


class Choice(Control):
    """One of some values, each with its name."""

    def __init__(self, choices: Sequence[tuple[object, str]], list_name: str) -> None:
        """`choices` are pairs of a value and its name; `list_name` is the name of the open list."""
        self._values = [value for value, _ in choices]
        self._box = QComboBox()
        bits.pass_wheel(self._box)
        self._box.view().setAccessibleName(list_name)
        for value, name in choices:
            self._box.addItem(name, value)
        super().__init__(self._box, self._value, self._put)
        self._box.activated.connect(lambda: self.changed.emit())

    def _value(self) -> object:
        return self._values[self._box.currentIndex()]

    def _put(self, value: object) -> None:
        # Qt finds no None among the data of its items.
        self._box.setCurrentIndex(self._values.index(value) if value in self._values else 0)


class _Lines(QPlainTextEdit):
    """A text field four lines high in any font."""

    _LINES, _PADDING_PX = 4, 20

    def changeEvent(self, event: QEvent) -> None:
        super().changeEvent(event)
        if event.type() == QEvent.Type.FontChange:
            self.setFixedHeight(self.fontMetrics().lineSpacing() * self._LINES + self._PADDING_PX)


class Paragraph(Control):
    """Several lines of text; `nothing` is the placeholder."""

    is_typed = keeps_refused = True

    def __init__(self, nothing: str) -> None:
        self._field = _Lines()
        self._field.setPlaceholderText(nothing)
        self._field.setProperty("kind", "field")
        self._field.setTabChangesFocus(True)
        self._field.setAcceptDrops(False)
        super().__init__(self._field, self._value, self._put)
        self._field.textChanged.connect(lambda: self.changed.emit())

    def _value(self) -> object:
        return self._field.toPlainText()

    def _put(self, value: object) -> None:
        # The cursor of a user who is typing stays where it is.
        if value != self._field.toPlainText():
            self._field.setPlainText(str(value))


class Line(Control):
    """A line of text, changed when it loses the focus or Enter is pressed; `nothing` is the placeholder."""

    is_typed = True

    def __init__(self, nothing: str) -> None:
        self._field = QLineEdit()
        self._field.setPlaceholderText(nothing)
        self._field.setAcceptDrops(False)
        super().__init__(self._field, self._value, self._put)
        self._field.editingFinished.connect(self._on_edited)
        self._shown = self._shown_of(None)

    def _value(self) -> object:
        return self._read_line(self._field.text())

    def _on_edited(self) -> None:
        # The line also loses the focus without any change.
        if (value := self._value()) != self._shown:
            self._shown = value
            self.changed.emit()

    def _put(self, value: object) -> None:
        self._shown = self._shown_of(value)
        self._field.setText(self._written(self._shown))

    def _read_line(self, line: str) -> object:
        return line.strip()

    def _shown_of(self, value: object) -> object:
        """Returns a setting's value in the form of `_read_line`."""
        return str(value or "")

    def _written(self, value: object) -> str:
        return str(value)


class Words(Line):
    """A line of several words."""

    def _read_line(self, line: str) -> tuple[str, ...]:
        return tuple(line.replace(",", " ").replace("+", " ").split())

    def _shown_of(self, value: object) -> tuple[str, ...]:
        return tuple(map(str, value)) if isinstance(value, list | tuple) else ()

    def _written(self, value: object) -> str:
        return ", ".join(self._shown_of(value))


class Texts(Words):
    """A line of several texts: a backslash precedes a comma or an outer space that belongs to a text."""

    def _read_line(self, line: str) -> tuple[str, ...]:
        return texts_of(line)

    def _written(self, value: object) -> str:
        return ", ".join(map(escaped, self._shown_of(value)))


# A text between commas without the spaces around it; a lone backslash at the end of the line is itself.
_TEXT = re.compile(r"\s*+((?:\\.?|[^\s,\\]|\s++(?!,|\Z))*+)\s*+(?:,|$)")
_ESCAPE = re.compile(r"\\(.)")
_OUTER_SPACE = re.compile(r"^\s|\s$")
_CONTROLS = {"n": "\n", "t": "\t", "r": "\r"}


def texts_of(line: str) -> tuple[str, ...]:
    """Returns the texts in a line of texts that are `escaped` and separated by commas."""
    found = (_ESCAPE.sub(lambda part: _CONTROLS.get(part[1], part[1]), text) for text in _TEXT.findall(line))
    return tuple(text for text in found if text)


def escaped(text: str) -> str:
    """Returns a text in the form in which a line of several contains it."""
    line = re.sub(r"[\\,]", lambda part: "\\" + part[0], text)
    for letter, control in _CONTROLS.items():
        line = line.replace(control, "\\" + letter)
    return _OUTER_SPACE.sub(lambda part: "\\" + part[0], line)
