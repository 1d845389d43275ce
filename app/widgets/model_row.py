"""One model file: what it is, whether it fits this machine, and the button that uses it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtCore import QCoreApplication, Signal
from PySide6.QtWidgets import QFrame, QHBoxLayout, QSpinBox, QVBoxLayout, QWidget

from app import theme
from app.printable import printable
from app.sentences import listed
from app.tips import plain_tip
from app.widgets import bits
from app.widgets.elided import ElidedLabel
from app.widgets.figures import bytes_text, count_text, file_name, seconds_text
from app.widgets.picture import Picture

if TYPE_CHECKING:
    from engine.protocol import ModelEntry

AUTOMATIC = -1
# People read about five words a second; below about one, the user mostly waits.
_FLUENT_PER_S, _SLOW_PER_S = 7.0, 1.5


class ModelRow(QFrame):
    """A card for one `ModelEntry`, set by `show_entry`; `can_forget`: it can be removed from the list, or deleted."""

    use_wanted = Signal(object, object)  # path, n_gpu_layers as llama.cpp counts or None for the plan's
    forget_wanted = Signal(object)  # path
    delete_wanted = Signal(object)  # the ModelEntry
    unload_wanted = Signal()
    allow_wanted = Signal()  # the user accepts the loss that the offer names

    entry: ModelEntry

    def __init__(self, *, can_forget: bool = True) -> None:
        super().__init__()
        self.setProperty("card", True)
        self._shown: object = None
        self._file = ""
        self._name = ElidedLabel("", "strong")
        self._chip = bits.chip("")
        head = bits.row(self._name, self._chip, spacing=8)
        head.setStretch(0, 1)
        self._facts_line = bits.label("", "small", wraps=True)
        self._speeds = QWidget()
        self._speeds_line = bits.row(None, spacing=6)
        self._speeds_line.setContentsMargins(0, 4, 0, 2)
        self._speeds.setLayout(self._speeds_line)
        self._fit = bits.label("", wraps=True)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(16, 12, 12, 12)
        layout.setSpacing(4)
        layout.addLayout(head)
        for widget in (self._facts_line, self._speeds, self._fit, self._make_offer()):
            layout.addWidget(widget)
        layout.addSpacing(6)
        layout.addLayout(self._make_actions())
        self.forget.setVisible(can_forget)

    def show_entry(self, entry: ModelEntry, is_current: bool, state: str = "", file: str = "") -> None:
        """Updates the row in place: a user who is choosing layers, or has the focus here, keeps both.

        Args:
            entry: What is known of the model.
            is_current: Whether it is the one that answers.
            state: A further remark.
            file: A name that distinguishes its file from those of other models, if the file name does not.
        """
        if (entry, is_current, state, file) == self._shown:
            return
        self._shown, self.entry = (entry, is_current, state, file), entry
        self._file = printable(file) or file_name(entry.path)
        self.setToolTip(plain_tip(printable(entry.path)))
        self._name.setText(entry.name or printable(entry.path))
        self._facts_line.setText(self._facts())
        self._chip.setVisible(is_current or bool(state))
        bits.set_chip(self._chip, state or self.tr("In use"), "accent" if state else "good")
        self._show_speeds()
        self._show_fit()
        self._offer_words.setText(_unbroken(entry.offer))
        self._offer.setVisible(bool(entry.offer))
        self._show_actions(is_current)

    def _facts(self) -> str:
        entry = self.entry
        # Two files of one model with different quantization have the same name inside.
        facts = [self._file if entry.name else "", entry.architecture]
        facts.append(bytes_text(entry.file_bytes) if entry.file_bytes else "")
        if entry.num_layers:
            facts.append(
                self.tr("%1 layers").replace("%1", str(entry.num_layers))
                if entry.num_layers > 1
                else self.tr("1 layer")
            )
            on_gpu = self.tr("%1 of them on the GPU").replace("%1", str(entry.planned_gpu_layers))
            facts.append(on_gpu if entry.planned_gpu_layers else "")
        if entry.trained_context:
            facts.append(self.tr("context of %1 tokens").replace("%1", count_text(entry.trained_context)))
        return " · ".join(fact for fact in facts if fact)

    def _make_offer(self) -> QWidget:
        """Returns a line that says what a small loss would gain, and the button that allows it."""
        self.allow = bits.button(self.tr("Allow it"), "link", clicked=self.allow_wanted.emit)
        self.allow.setAccessibleName(self.tr("Allow it when memory is low"))
        self.allow.setToolTip(self.tr("Applies to every model that would not fit; undo it on the Memory page."))
        self._offer_words = bits.label("", wraps=True)
        line = bits.row(Picture("info", "accent", 18), spacing=10)
        line.addWidget(self._offer_words, 1)
        line.addWidget(self.allow)
        self._offer = QWidget()
        self._offer.setLayout(line)
        return self._offer

    @property
    def controls(self) -> tuple[QWidget, ...]:
        """Returns the controls that the Tab key reaches, in their order."""
        return self.allow, self.layers, self.forget, self.unload, self.use

    def _make_actions(self) -> QHBoxLayout:
        self._layers_words = bits.label(self.tr("GPU layers"), "small")
        self.layers = QSpinBox()
        self.layers.setRange(AUTOMATIC, 0)
        self.layers.setValue(AUTOMATIC)
        self.layers.setToolTip(self.tr("How many layers to put on the GPU"))
        bits.tame(self.layers)
        self.forget = bits.button(self.tr("Remove from list"), "ghost", clicked=self._on_forget)
        self.unload = bits.button(self.tr("Unload"), "plain", clicked=self.unload_wanted.emit)
        self.use = bits.button(self.tr("Use"), "primary", clicked=self._on_use)
        return bits.row(self._layers_words, self.layers, None, self.forget, self.unload, self.use, spacing=8)

    def _show_speeds(self) -> None:
        chips = speed_chips(self.entry)
        old = [child for child in self._speeds.children() if isinstance(child, QWidget)]
        bits.drop(self._speeds_line, old)
        for place, (text, tone) in enumerate(chips):
            self._speeds_line.insertWidget(place, bits.chip(text, tone))
        self._speeds.setVisible(bool(chips))

    def _show_fit(self) -> None:
        entry = self.entry
        words = entry.problem or entry.fit
        self._fit.setText(entry.problem or _unbroken(entry.fit))
        self._fit.setVisible(bool(words))
        theme.restyle(self._fit, role="problem" if entry.problem or not entry.fits else "plain")

    def _show_actions(self, is_current: bool) -> None:
        entry = self.entry
        # A screen reader reads the buttons one by one, so each names its file.
        spoken = listed((entry.name, self._file))
        for widget in (self._layers_words, self.layers):
            widget.setVisible(entry.has_gpu and not entry.problem)
        self.layers.setMaximum(max(0, entry.num_layers))
        self.layers.setSpecialValueText(self.tr("As planned (%1)").replace("%1", str(entry.planned_gpu_layers)))
        self.layers.setAccessibleName(self.tr("Layers of %1 on the GPU").replace("%1", spoken))
        self._show_forget(spoken)
        self.use.setText(self.tr("Reload") if is_current else self.tr("Use"))
        self.use.setAccessibleName(self.tr("Use %1").replace("%1", spoken))
        self.use.setEnabled(not entry.problem)
        theme.restyle(self.use, kind="plain" if is_current else "primary")
        if self.unload.hasFocus() and not is_current:
            self.use.setFocus()
        self.unload.setAccessibleName(self.tr("Unload %1").replace("%1", spoken))
        self.unload.setVisible(is_current)

    def _show_forget(self, spoken: str) -> None:
        """Labels the button: a downloaded model is deleted, because its file would only take room; others stay."""
        if num_bytes := self.entry.deletable_bytes:
            text, named = self.tr("Delete file…"), self.tr("Delete the file of %1")
            tip = self.tr("Deletes it and frees %1").replace("%1", bytes_text(num_bytes))
        else:
            text, named = self.tr("Remove from list"), self.tr("Remove %1 from the list")
            tip = self.tr("The file stays where it is")
        self.forget.setText(text)
        self.forget.setToolTip(tip)
        self.forget.setAccessibleName(named.replace("%1", spoken))

    def _on_forget(self) -> None:
        if self.entry.deletable_bytes:
            self.delete_wanted.emit(self.entry)
        else:
            self.forget_wanted.emit(self.entry.path)

    def _on_use(self) -> None:
        chosen = self.layers.value()
        # With any layer on the GPU, the output head is there as well, and is counted.
        self.use_wanted.emit(self.entry.path, None if chosen == AUTOMATIC else chosen + (chosen > 0))


def speed_chips(entry: ModelEntry) -> tuple[tuple[str, bits.Tone], ...]:
    """Returns the expected speed before loading: `about 4.2 tokens/s`, `first word after 3 s`; none if unknown."""
    if entry.problem:
        return ()
    if not entry.fits:
        return ((_tr("does not fit"), "bad"),)
    if entry.tokens_per_s <= 0:
        return ()
    rate = entry.tokens_per_s
    # As precise as in the sentence below, because two different figures would be confusing.
    figure = count_text(rate) if rate >= 3 else f"{rate:.1f}" if rate >= 0.1 else f"{rate:.2f}"
    tone: bits.Tone = "good" if rate >= _FLUENT_PER_S else "plain" if rate >= _SLOW_PER_S else "warn"
    chips: list[tuple[str, bits.Tone]] = [(_tr("about %1 tokens/s").replace("%1", figure), tone)]
    if entry.ttft_s > 0:
        chips.append((_tr("first word after %1").replace("%1", seconds_text(entry.ttft_s)), "plain"))
    return tuple(chips)


def _unbroken(text: str) -> str:
    """Adds word joiners, so that "tokens/s" is not broken at its slash."""
    return text.replace("/", "/\u2060")


def _tr(text: str) -> str:
    return QCoreApplication.translate("ModelRow", text)
