"""One model that can be got: what it is, about how it would run here, how far it is, and the button that gets it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtCore import QCoreApplication, Qt, Signal
from PySide6.QtWidgets import QFrame, QProgressBar, QVBoxLayout, QWidget

from app import theme
from app.widgets import bits
from app.widgets.elided import ElidedLabel
from app.widgets.figures import bytes_text, clock_text, count_text, seconds_text
from app.widgets.model_row import speed_chips

if TYPE_CHECKING:
    from engine.protocol import CatalogueEntry, Download

_STEPS = 1000


class CatalogueRow(QFrame):
    """A card for one `CatalogueEntry`; what is told of its download is shown in its place, many times a second."""

    get_wanted = Signal(str)  # source
    cancel_wanted = Signal(str)
    discard_wanted = Signal(str)

    entry: CatalogueEntry

    def __init__(self) -> None:
        super().__init__()
        self.setProperty("card", True)
        # Takes the keyboard when its button goes: the next button would get another model.
        self.setFocusPolicy(Qt.FocusPolicy.ClickFocus)
        self._shown: object = None
        self._is_under_way = False
        self._name = ElidedLabel("", "strong")
        self._chip = bits.chip("", "good")
        head = bits.row(self._name, self._chip, spacing=8)
        head.setStretch(0, 1)
        self._facts = bits.label("", "small", wraps=True)
        self._speeds = QWidget()
        self._speeds_line = bits.row(None, spacing=6)
        self._speeds_line.setContentsMargins(0, 4, 0, 2)
        self._speeds.setLayout(self._speeds_line)
        self._fit = bits.label("", wraps=True)
        self._bar = QProgressBar()
        self._bar.setTextVisible(False)
        self._progress = bits.label("", "small", wraps=True)
        self._problem = bits.label("", "problem", wraps=True, selectable=True)
        self.action = bits.button("", "plain", clicked=self._on_action)
        self.discard = bits.button(self.tr("Remove"), "ghost", clicked=self._on_discard)
        self.discard.setToolTip(self.tr("Removes what was fetched, and frees the space"))
        line = bits.row(self._progress, self.discard, self.action, spacing=12)
        line.setContentsMargins(0, 6, 0, 0)
        line.setStretch(0, 1)
        self._foot = QWidget()
        self._foot.setLayout(line)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(16, 12, 12, 12)
        layout.setSpacing(4)
        layout.addLayout(head)
        for widget in (self._facts, self._speeds, self._fit, self._problem):
            layout.addWidget(widget)
        layout.addSpacing(4)
        layout.addWidget(self._bar)
        layout.addWidget(self._foot)

    def show_entry(self, entry: CatalogueEntry) -> None:
        self.entry = entry
        model = entry.model
        self._name.setText(model.name)
        self.setAccessibleName(model.name)
        self._facts.setText(" · ".join(fact for fact in self._facts_of(entry) if fact))
        self._show_speeds()
        self._fit.setText(model.fit.replace("/", "/\u2060"))
        self._fit.setVisible(bool(model.fit))
        theme.restyle(self._fit, role="plain" if model.fits else "problem")
        self._bar.setAccessibleName(self.tr("Getting %1").replace("%1", model.name))

    def show_download(self, download: Download) -> None:
        """Shows how far it is; who has the keyboard on the button keeps it."""
        if (download, self.entry.model.name) == self._shown:
            return
        self._shown = (download, self.entry.model.name)
        self._is_under_way = download.is_under_way
        self._chip.setVisible(download.state == "there")
        self._chip.setText(self.tr("On your list"))
        self._progress.setText(progress_words(download))
        self._problem.setText(f"{download.problem} {download.way_out}".strip())
        self._problem.setVisible(bool(download.problem))
        self._bar.setVisible(self._is_under_way)
        # 0 of 0: busy, until it is known how much there is.
        is_known = bool(download.total_bytes) or download.state in ("waiting", "cut")
        self._bar.setRange(0, _STEPS if is_known else 0)
        self._bar.setValue(round(_STEPS * download.num_bytes / download.total_bytes) if download.total_bytes else 0)
        self._show_action(download)

    @property
    def progress(self) -> str:
        return self._progress.text()

    @property
    def problem(self) -> str:
        return "" if self._problem.isHidden() else self._problem.text()

    @property
    def can_be_got(self) -> bool:
        return not self._foot.isHidden()

    def _show_action(self, download: Download) -> None:
        if self._is_under_way:
            text, kind, spoken = self.tr("Cancel"), "plain", self.tr("Cancel getting %1")
        elif download.state == "part":
            text, kind, spoken = self.tr("Resume"), "primary", self.tr("Resume getting %1")
        else:
            text, kind, spoken = self.tr("Get"), "plain", self.tr("Get %1")
        self.action.setText(text)
        self.action.setAccessibleName(spoken.replace("%1", self.entry.model.name))
        if self.action.property("kind") != kind:
            theme.restyle(self.action, kind=kind)
        self.discard.setAccessibleName(self.tr("Remove what is here of %1").replace("%1", self.entry.model.name))
        # Of one that is in no catalogue, what went wrong is told until somebody has read it.
        can_be_removed = download.state == "part" or (bool(download.problem) and not self.entry.is_estimate)
        if self.discard.hasFocus() and not can_be_removed:
            self.action.setFocus()
        self.discard.setVisible(can_be_removed)
        is_there = download.state == "there"
        if is_there and self.action.hasFocus():
            self.setFocus()
        self._foot.setVisible(not is_there)

    def _facts_of(self, entry: CatalogueEntry) -> list[str]:
        model, size = entry.model, bytes_text(entry.model.file_bytes)
        context = self.tr("context of %1 tokens").replace("%1", count_text(model.trained_context))
        return [
            (self.tr("about %1").replace("%1", size) if entry.is_estimate else size) if model.file_bytes else "",
            # Where it comes from, if that is all that is known of it.
            entry.licence or entry.source.rpartition("/")[0],
            context if model.trained_context else "",
        ]

    def _show_speeds(self) -> None:
        old = [child for child in self._speeds.children() if isinstance(child, QWidget)]
        bits.drop(self._speeds_line, old)
        chips = speed_chips(self.entry.model)
        for place, (text, tone) in enumerate(chips):
            self._speeds_line.insertWidget(place, bits.chip(text, tone))
        self._speeds.setVisible(bool(chips))

    def _on_discard(self) -> None:
        self.discard_wanted.emit(self.entry.source)

    def _on_action(self) -> None:
        (self.cancel_wanted if self._is_under_way else self.get_wanted).emit(self.entry.source)


def progress_words(download: Download) -> str:
    """How far a download is: `1.2 GiB of 2.3 GiB · 5.1 MiB/s · 3 min 20 s left`; "" where there is nothing of it."""
    here, total = bytes_text(download.num_bytes), bytes_text(download.total_bytes)
    share = _tr("%1 of %2").replace("%1", here).replace("%2", total) if download.total_bytes else here
    if download.state == "waiting":
        return _tr("Waiting")
    if download.state == "checking":
        return _tr("Checking what is here: %1").replace("%1", share)
    if download.state == "part":
        return _tr("%1 is here").replace("%1", share)
    if download.state == "cut":
        again = _tr("Trying again…")
        if download.again_at is not None:
            again = _tr("Tries again at %1").replace("%1", clock_text(download.again_at))
        return f"{again} · {_tr('%1 is here').replace('%1', share)}" if download.num_bytes else again
    if download.state != "fetching":
        return ""
    words = [share]
    if download.bytes_per_second:
        words.append(_tr("%1/s").replace("%1", bytes_text(download.bytes_per_second)))
    if download.seconds_left is not None:
        words.append(_tr("%1 left").replace("%1", seconds_text(max(1.0, round(download.seconds_left)))))
    return " · ".join(words)


def _tr(text: str) -> str:
    return QCoreApplication.translate("CatalogueRow", text)
