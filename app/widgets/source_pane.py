"""The right side of a chat: the sources of the selected answer, or the page of one of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import QStackedWidget, QVBoxLayout, QWidget

from app.widgets.figures import spot_text
from app.widgets.page_viewer import PageViewer
from app.widgets.sources_panel import SourcesPanel

if TYPE_CHECKING:
    from app.models.sources import SourcesModel
    from engine.protocol import PageReply, Passage

_MIN_RENDER_PX, _MAX_RENDER_PX = 900, 2400


class SourcePane(QWidget):
    """Shows a SourcesModel; `viewing_changed` reports when a page replaces the list, and when it is closed."""

    closed = Signal()
    ask_wanted = Signal(object)  # the path of a file that is cited
    viewing_changed = Signal(bool)

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setObjectName("sidePanel")
        self.setAttribute(Qt.WidgetAttribute.WA_StyledBackground)
        self._sources: SourcesModel | None = None
        self.panel, self.viewer = SourcesPanel(), PageViewer()
        self._stack = QStackedWidget()
        self._stack.addWidget(self.panel)
        self._stack.addWidget(self.viewer)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(1, 0, 0, 0)
        layout.addWidget(self._stack)
        self.panel.closed.connect(self.closed)
        self.panel.ask_wanted.connect(self.ask_wanted)

    @property
    def is_viewing(self) -> bool:
        return self._stack.currentWidget() is self.viewer

    def attach(self, sources: SourcesModel) -> None:
        self._sources = sources
        self.panel.opened.connect(self.open_passage)
        self.viewer.page_wanted.connect(lambda page: sources.open_page(page, self._render_px()))
        self.viewer.closed.connect(self.close_page)
        sources.passages_changed.connect(self._on_passages_changed)
        sources.selection_changed.connect(lambda: self.panel.select(sources.selected))
        sources.page_requested.connect(self._on_page_requested)
        sources.page_ready.connect(self._on_page_ready)
        sources.page_failed.connect(self.viewer.show_problem)
        sources.passage_kept.connect(self._on_passage_kept)
        sources.standings_changed.connect(self._show_standings)
        self._on_passages_changed()

    def open_passage(self, index: int) -> None:
        """Selects a source and shows its page."""
        if self._sources is not None:
            self._sources.open_passage(index, self._render_px())

    def close_page(self) -> None:
        if self._sources is not None:
            self._sources.close_page()
        self._show(self.panel)

    def _on_passages_changed(self) -> None:
        if self._sources is not None:
            self.panel.show_passages(self._sources.passages, self._sources.refreshes)
            self.panel.show_searches(self._sources.searches)
            self.panel.show_unread(self._sources.unread)
            self._show_standings()
            if self._sources.selected is None:
                self._show(self.panel)

    def _on_page_requested(self, passage: Passage) -> None:
        # Turning a page keeps the old one in sight until the new one arrives.
        if not (self.is_viewing and self.viewer.shows(passage.document)):
            self.viewer.show_opening(passage.document, spot_text(passage.place, passage.page))
        self._show(self.viewer)

    def _on_page_ready(self, reply: PageReply) -> None:
        self._show(self.viewer)
        self.viewer.show_page(reply)

    def _on_passage_kept(self, passage: Passage, sentence: str) -> None:
        self._show(self.viewer)
        is_offline = self._sources is not None and self._sources.standing(passage).state == "offline"
        spot = spot_text(passage.place, passage.page)
        self.viewer.show_kept(passage.document, spot, passage.text, sentence, is_offline=is_offline)

    def _show_standings(self) -> None:
        if self._sources is not None:
            self.panel.show_standings([self._sources.standing(passage) for passage in self._sources.passages])

    def _show(self, shown: QWidget) -> None:
        was_viewing = self.is_viewing
        self._stack.setCurrentWidget(shown)
        if was_viewing != self.is_viewing:
            self.viewing_changed.emit(self.is_viewing)

    def _render_px(self) -> int:
        # 1.5 times the visible width, so that the first zoom step is still sharp.
        wanted = round(self.width() * self.devicePixelRatioF() * 1.5)
        return max(_MIN_RENDER_PX, min(_MAX_RENDER_PX, wanted))
