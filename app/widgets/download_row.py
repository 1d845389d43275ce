"""A card for something on the hub: the progress of its download, and the buttons that start, stop and remove it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, TypeVar

from PySide6.QtCore import QCoreApplication, Qt, Signal
from PySide6.QtWidgets import QFrame, QProgressBar

from app import theme
from app.widgets import bits
from app.widgets.elided import ElidedLabel
from app.widgets.figures import bytes_text, clock_text, seconds_text

if TYPE_CHECKING:
    from engine.protocol import CatalogueEntry, Download, HubFolderEntry

_STEPS = 1000

Entry = TypeVar("Entry", bound="CatalogueEntry | HubFolderEntry")


class DownloadRow(QFrame, Generic[Entry]):
    """The base of rows of all kinds of models; a subclass arranges the parts and names the type of `entry`."""

    entry: Entry

    get_wanted = Signal(str)  # source
    cancel_wanted = Signal(str)
    discard_wanted = Signal(str)

    def __init__(self) -> None:
        super().__init__()
        self.setProperty("card", True)
        # Takes the focus when its button hides: the next button would download another model.
        self.setFocusPolicy(Qt.FocusPolicy.ClickFocus)
        # What is downloaded: OWNER/NAME, or a file of it.
        self._source = ""
        self._is_under_way = False
        self._name = ElidedLabel("", "strong")
        self._chip = bits.chip("", "good")
        self._head = bits.row(self._name, self._chip, spacing=8)
        self._head.setStretch(0, 1)
        self._facts = bits.label("", "small", wraps=True)
        self._problem = bits.label("", "problem", wraps=True, selectable=True)
        self._bar = QProgressBar()
        self._bar.setTextVisible(False)
        self._progress = bits.label("", "small", wraps=True)
        self.action = bits.button("", clicked=self._on_action)
        self.discard = bits.button(self.tr("Remove"), "ghost", clicked=self._on_discard)
        self.discard.setToolTip(self.tr("Deletes the partial download and frees the space"))

    def show_entry(self, entry: Entry) -> None:
        """Shows an entry; each kind of row extends this."""
        self.entry = entry

    @property
    def progress(self) -> str:
        return self._progress.text()

    @property
    def problem(self) -> str:
        return "" if self._problem.isHidden() else self._problem.text()

    @property
    def chip(self) -> str:
        return "" if self._chip.isHidden() else self._chip.text()

    def _show_what(self, source: str, name: str) -> None:
        self._source = source
        self._name.setText(name)
        self.setAccessibleName(name)
        self._bar.setAccessibleName(self.tr("Downloading %1").replace("%1", name))

    def _show_progress(self, download: Download, there: str) -> None:
        """`there` is the text of the chip of a finished download."""
        self._is_under_way = download.is_under_way
        self._chip.setVisible(download.state == "there")
        self._chip.setText(there)
        self._progress.setText(progress_words(download))
        self._problem.setText(f"{download.problem} {download.way_out}".strip())
        self._problem.setVisible(bool(download.problem))
        self._bar.setVisible(self._is_under_way)
        # 0 of 0 shows a busy bar, until the size is known.
        is_known = bool(download.total_bytes) or download.state in ("waiting", "cut")
        self._bar.setRange(0, _STEPS if is_known else 0)
        self._bar.setValue(round(_STEPS * download.num_bytes / download.total_bytes) if download.total_bytes else 0)

    def _show_buttons(self, download: Download, getting: tuple[str, str], *, is_listed: bool) -> None:
        """Updates the buttons; one that has the focus keeps it.

        Args:
            download: The progress.
            getting: The text of the download button, and its spoken name.
            is_listed: Whether the row stays whatever happens to the download.
        """
        text, spoken = getting
        kind, name = "plain", self._name.text()
        if self._is_under_way:
            text, spoken = self.tr("Cancel"), self.tr("Cancel the download of %1")
        elif download.state == "part":
            text, kind, spoken = self.tr("Resume"), "primary", self.tr("Resume the download of %1")
        self.action.setText(text)
        self.action.setAccessibleName(spoken.replace("%1", name))
        if self.action.property("kind") != kind:
            theme.restyle(self.action, kind=kind)
        self.discard.setAccessibleName(self.tr("Remove the partial download of %1").replace("%1", name))
        # If it is not listed otherwise, the problem stays until the user has read it.
        can_be_removed = download.state == "part" or (bool(download.problem) and not is_listed)
        can_be_removed = can_be_removed and not self._is_under_way
        if self.discard.hasFocus() and not can_be_removed:
            self.action.setFocus()
        self.discard.setVisible(can_be_removed)

    def _on_discard(self) -> None:
        self.discard_wanted.emit(self._source)

    def _on_action(self) -> None:
        (self.cancel_wanted if self._is_under_way else self.get_wanted).emit(self._source)


def progress_words(download: Download) -> str:
    """Returns the progress: `1.2 GiB of 2.3 GiB · 5.1 MiB/s · 3 min 20 s left`; "" if nothing was downloaded."""
    here, total = bytes_text(download.num_bytes), bytes_text(download.total_bytes)
    share = _tr("%1 of %2").replace("%1", here).replace("%2", total) if download.total_bytes else here
    if download.state == "waiting":
        return _tr("Waiting")
    if download.state == "checking":
        return _tr("Checking the files: %1").replace("%1", share)
    if download.state == "part":
        return _tr("%1 downloaded").replace("%1", share)
    if download.state == "cut":
        again = _tr("Retrying…")
        if download.again_at is not None:
            again = _tr("Retrying at %1").replace("%1", clock_text(download.again_at))
        return f"{again} · {_tr('%1 downloaded').replace('%1', share)}" if download.num_bytes else again
    if download.state != "fetching":
        return ""
    words = [share]
    if download.bytes_per_second:
        words.append(_tr("%1/s").replace("%1", bytes_text(download.bytes_per_second)))
    if download.seconds_left is not None:
        words.append(_tr("%1 left").replace("%1", seconds_text(max(1.0, round(download.seconds_left)))))
    return " · ".join(words)


def _tr(text: str) -> str:
    return QCoreApplication.translate("DownloadRow", text)
