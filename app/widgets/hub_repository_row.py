"""One repository of the hub that a search found: its name, how many downloaded it, and the button that opens it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QFrame

from app.printable import printable
from app.widgets import bits
from app.widgets.elided import ElidedLabel
from app.widgets.figures import count_text

if TYPE_CHECKING:
    from engine.protocol import HubRepository


class HubRepositoryRow(QFrame):
    """A card with one line of facts."""

    chosen = Signal(str)  # OWNER/NAME

    def __init__(self, repository: HubRepository) -> None:
        super().__init__()
        self.repository = repository
        self.setProperty("card", True)
        name = printable(repository.name)
        title = ElidedLabel(name, "strong")
        self._facts = bits.label(" · ".join(self._facts_of(repository)), "small", wraps=True)
        self._facts.setVisible(bool(self._facts.text()))
        self._gated = bits.label(
            self.tr("Requires a Hugging Face account that accepted the licence; cannot be downloaded here."),
            "small",
            wraps=True,
        )
        self._gated.setVisible(repository.is_gated)
        self.button = bits.button(self.tr("See its models"), clicked=lambda: self.chosen.emit(repository.name))
        self.button.setAccessibleName(self.tr("See the models in %1").replace("%1", name))
        head = bits.row(spacing=12)
        head.addWidget(title, 1)
        head.addWidget(self.button)
        inside = bits.column(spacing=4)
        inside.addLayout(head)
        inside.addWidget(self._facts)
        inside.addWidget(self._gated)
        inside.setContentsMargins(16, 10, 12, 10)
        self.setLayout(inside)

    @property
    def facts(self) -> str:
        return self._facts.text()

    @property
    def is_marked(self) -> bool:
        """Whether it is marked as unavailable."""
        return not self._gated.isHidden()

    def _facts_of(self, repository: HubRepository) -> list[str]:
        downloads, likes = repository.downloads, repository.likes
        facts = []
        if downloads is not None:
            words = self.tr("1 recent download") if downloads == 1 else self.tr("%1 recent downloads")
            facts.append(words.replace("%1", count_text(downloads)))
        if likes is not None:
            words = self.tr("1 like") if likes == 1 else self.tr("%1 likes")
            facts.append(words.replace("%1", count_text(likes)))
        return facts
