"""One embedding model that can be got: what it is good for, how far it is, and the button that gets and uses it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import QFrame, QProgressBar, QVBoxLayout

from app import theme
from app.widgets import bits
from app.widgets.catalogue_row import progress_words
from app.widgets.elided import ElidedLabel
from app.widgets.figures import bytes_text, count_text

if TYPE_CHECKING:
    from engine.protocol import Download, EmbedderEntry

_STEPS = 1000


class EmbedderRow(QFrame):
    """A card for one `EmbedderEntry`; who has the keyboard on its button keeps it while it is told of anew."""

    get_wanted = Signal(str)  # source
    cancel_wanted = Signal(str)
    discard_wanted = Signal(str)

    entry: EmbedderEntry

    def __init__(self) -> None:
        super().__init__()
        self.setProperty("card", True)
        # Takes the keyboard when its button goes: the next button would get another model.
        self.setFocusPolicy(Qt.FocusPolicy.ClickFocus)
        self._is_under_way = False
        self._name = ElidedLabel("", "strong")
        self._chip = bits.chip("", "good")
        head = bits.row(self._name, self._chip, spacing=8)
        head.setStretch(0, 1)
        self._good_for = bits.label("", wraps=True)
        self._facts = bits.label("", "small", wraps=True)
        self._problem = bits.label("", "problem", wraps=True, selectable=True)
        self._bar = QProgressBar()
        self._bar.setTextVisible(False)
        self._progress = bits.label("", "small", wraps=True)
        self.action = bits.button("", clicked=self._on_action)
        self.discard = bits.button(self.tr("Remove"), "ghost", clicked=self._on_discard)
        self.discard.setToolTip(self.tr("Removes what was fetched, and frees the space"))
        foot = bits.row(self._facts, self._progress, self.discard, self.action, spacing=12)
        foot.setStretch(0, 1)
        foot.setStretch(1, 1)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(16, 12, 12, 12)
        layout.setSpacing(4)
        layout.addLayout(head)
        for widget in (self._good_for, self._problem):
            layout.addWidget(widget)
        layout.addSpacing(4)
        layout.addWidget(self._bar)
        layout.addLayout(foot)

    @property
    def progress(self) -> str:
        return self._progress.text()

    @property
    def problem(self) -> str:
        return "" if self._problem.isHidden() else self._problem.text()

    @property
    def chip(self) -> str:
        return "" if self._chip.isHidden() else self._chip.text()

    def show_entry(self, entry: EmbedderEntry) -> None:
        self.entry = entry
        self._name.setText(entry.name)
        self.setAccessibleName(entry.name)
        self._good_for.setText(entry.good_for)
        self._good_for.setVisible(bool(entry.good_for))
        self._facts.setText(" · ".join(fact for fact in self._facts_of(entry) if fact))
        self._bar.setAccessibleName(self.tr("Getting %1").replace("%1", entry.name))

    def show_download(self, download: Download, *, is_current: bool) -> None:
        """Shows how far it is; `is_current`: the settings name it."""
        self._is_under_way = download.is_under_way
        is_there = download.state == "there"
        self._chip.setVisible(is_there)
        self._chip.setText(self.tr("In use") if is_current else self.tr("Here"))
        self._progress.setText(progress_words(download))
        self._progress.setVisible(bool(self._progress.text()))
        self._facts.setVisible(self._progress.isHidden())
        self._problem.setText(f"{download.problem} {download.way_out}".strip())
        self._problem.setVisible(bool(download.problem))
        self._bar.setVisible(self._is_under_way)
        # 0 of 0: busy, until it is known how much there is.
        is_known = bool(download.total_bytes) or download.state in ("waiting", "cut")
        self._bar.setRange(0, _STEPS if is_known else 0)
        self._bar.setValue(round(_STEPS * download.num_bytes / download.total_bytes) if download.total_bytes else 0)
        self._show_buttons(download, is_used=is_there and is_current)

    def _show_buttons(self, download: Download, *, is_used: bool) -> None:
        if self._is_under_way:
            text, kind, spoken = self.tr("Cancel"), "plain", self.tr("Cancel getting %1")
        elif download.state == "part":
            text, kind, spoken = self.tr("Resume"), "primary", self.tr("Resume getting %1")
        elif download.state == "there":
            text, kind, spoken = self.tr("Use"), "plain", self.tr("Use %1")
        else:
            text, kind, spoken = self.tr("Get and use"), "plain", self.tr("Get %1 and use it")
        self.action.setText(text)
        self.action.setAccessibleName(spoken.replace("%1", self.entry.name))
        if self.action.property("kind") != kind:
            theme.restyle(self.action, kind=kind)
        self.discard.setAccessibleName(self.tr("Remove what is here of %1").replace("%1", self.entry.name))
        # Of one that is in no catalogue, what went wrong is told until somebody has read it.
        can_be_removed = download.state == "part" or (bool(download.problem) and not self.entry.licence)
        if self.discard.hasFocus() and not can_be_removed:
            self.action.setFocus()
        self.discard.setVisible(can_be_removed and not self._is_under_way)
        if is_used and self.action.hasFocus():
            self.setFocus()
        self.action.setVisible(not is_used)

    def _facts_of(self, entry: EmbedderEntry) -> list[str]:
        languages = self.tr("many languages") if entry.is_multilingual else self.tr("English")
        dimensions = self.tr("%1 dimensions").replace("%1", count_text(entry.dimensions))
        size = self.tr("about %1").replace("%1", bytes_text(entry.num_bytes))
        return [
            size if entry.num_bytes else "",
            entry.licence,
            "" if entry.is_multilingual is None else languages,
            dimensions if entry.dimensions else "",
            # Where it comes from, if that is all that is known of it.
            "" if entry.licence else entry.source,
        ]

    def _on_discard(self) -> None:
        self.discard_wanted.emit(self.entry.source)

    def _on_action(self) -> None:
        (self.cancel_wanted if self._is_under_way else self.get_wanted).emit(self.entry.source)
