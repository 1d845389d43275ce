"""One model file: what it is, whether it fits this machine, and the button that uses it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtCore import QCoreApplication, Signal
from PySide6.QtWidgets import QFrame, QHBoxLayout, QSpinBox, QVBoxLayout

from app.widgets import bits
from app.widgets.elided import ElidedLabel
from app.widgets.figures import bytes_text, count_text, file_name, printable, seconds_text
from app.widgets.picture import Picture

if TYPE_CHECKING:
    from engine.protocol import ModelEntry

AUTOMATIC = -1
# People read about five words a second; slower than one, waiting is all there is.
_FLUENT_PER_S, _SLOW_PER_S = 7.0, 1.5


class ModelRow(QFrame):
    """A card for one `ModelEntry`; `is_current` is the one that answers, `state` what else is to be said of it."""

    use_wanted = Signal(object, object)  # path, n_gpu_layers as llama.cpp counts or None for the plan's
    forget_wanted = Signal(object)
    unload_wanted = Signal()
    allow_wanted = Signal()  # what the offer says may be lost

    def __init__(self, entry: ModelEntry, is_current: bool, state: str = "", *, can_forget: bool = True) -> None:
        super().__init__()
        self.setProperty("card", True)
        self.entry = entry
        name = ElidedLabel(entry.name or printable(entry.path), "strong")
        head = bits.row(name, spacing=8)
        head.setStretch(0, 1)
        if is_current or state:
            head.addWidget(bits.chip(state or self.tr("In use"), "good" if not state else "accent"))
        layout = QVBoxLayout(self)
        layout.setContentsMargins(16, 12, 12, 12)
        layout.setSpacing(4)
        layout.addLayout(head)
        layout.addWidget(bits.label(self._facts(), "small", wraps=True))
        if chips := speed_chips(entry):
            line = bits.row(*(bits.chip(text, tone) for text, tone in chips), None, spacing=6)
            line.setContentsMargins(0, 4, 0, 2)
            layout.addLayout(line)
        if entry.problem:
            layout.addWidget(bits.label(entry.problem, "problem", wraps=True))
        elif entry.fit:
            # A word joiner: else "tokens/s" is broken at its slash.
            words = entry.fit.replace("/", "/\u2060")
            layout.addWidget(bits.label(words, "plain" if entry.fits else "problem", wraps=True))
        if entry.offer:
            layout.addLayout(self._offer())
        layout.addSpacing(6)
        layout.addLayout(self._actions(is_current, can_forget))

    def _facts(self) -> str:
        entry = self.entry
        # Two files of one model, squeezed differently, have the same name inside.
        facts = [file_name(entry.path) if entry.name else "", entry.architecture]
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

    def _offer(self) -> QHBoxLayout:
        """What losing a little would give, and the button that allows it."""
        self.allow = bits.button(self.tr("Allow it"), "link", clicked=self.allow_wanted.emit)
        self.allow.setAccessibleName(self.tr("Allow it for want of memory"))
        self.allow.setToolTip(self.tr("Holds for any model that has no room otherwise; the Memory page takes it back."))
        words = bits.label(self.entry.offer.replace("/", "/\u2060"), wraps=True)
        line = bits.row(Picture("info", "accent", 18), spacing=10)
        line.addWidget(words, 1)
        line.addWidget(self.allow)
        return line

    def _actions(self, is_current: bool, can_forget: bool) -> QHBoxLayout:
        entry = self.entry
        line = bits.row(spacing=8)
        self.layers = QSpinBox(self)
        self.layers.setVisible(entry.has_gpu and not entry.problem)
        self.layers.setRange(AUTOMATIC, max(0, entry.num_layers))
        self.layers.setValue(AUTOMATIC)
        self.layers.setSpecialValueText(self.tr("As planned (%1)").replace("%1", str(entry.planned_gpu_layers)))
        self.layers.setAccessibleName(self.tr("Layers of %1 on the GPU").replace("%1", entry.name))
        bits.tame(self.layers)
        self.layers.setToolTip(self.tr("How many layers to put on the GPU"))
        if entry.has_gpu and not entry.problem:
            line.addWidget(bits.label(self.tr("GPU layers"), "small"))
            line.addWidget(self.layers)
        line.addStretch(1)
        if can_forget:
            forget = bits.button(self.tr("Forget"), "ghost", clicked=lambda: self.forget_wanted.emit(entry.path))
            forget.setAccessibleName(self.tr("Forget %1").replace("%1", entry.name))
            forget.setToolTip(self.tr("Takes it off this list; the file stays"))
            line.addWidget(forget)
        if is_current:
            self.use = bits.button(self.tr("Load again"), "plain", clicked=self._on_use)
            line.addWidget(bits.button(self.tr("Unload"), "plain", clicked=self.unload_wanted.emit))
        else:
            self.use = bits.button(self.tr("Use"), "primary", clicked=self._on_use)
        self.use.setAccessibleName(self.tr("Use %1").replace("%1", entry.name))
        self.use.setEnabled(not entry.problem)
        line.addWidget(self.use)
        return line

    def _on_use(self) -> None:
        chosen = self.layers.value()
        # With any layer there, the output head is there too, and counts.
        self.use_wanted.emit(self.entry.path, None if chosen == AUTOMATIC else chosen + (chosen > 0))


def speed_chips(entry: ModelEntry) -> tuple[tuple[str, bits.Tone], ...]:
    """What can be expected before it is loaded: `about 4.2 tokens/s`, `first word after 3 s`; none where unknown."""
    if entry.problem:
        return ()
    if not entry.fits:
        return ((_tr("does not fit"), "bad"),)
    if entry.tokens_per_s <= 0:
        return ()
    rate = entry.tokens_per_s
    # As exactly as in the sentence below: two figures for one thing look like two things.
    figure = count_text(rate) if rate >= 3 else f"{rate:.1f}" if rate >= 0.1 else f"{rate:.2f}"
    tone: bits.Tone = "good" if rate >= _FLUENT_PER_S else "plain" if rate >= _SLOW_PER_S else "warn"
    chips: list[tuple[str, bits.Tone]] = [(_tr("about %1 tokens/s").replace("%1", figure), tone)]
    if entry.ttft_s > 0:
        chips.append((_tr("first word after %1").replace("%1", seconds_text(entry.ttft_s)), "plain"))
    return tuple(chips)


def _tr(text: str) -> str:
    return QCoreApplication.translate("ModelRow", text)
