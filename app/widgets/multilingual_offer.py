"""One line that offers an embedding model for other languages than English, until the user says "Not now"."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QFrame, QWidget

from app.sentences import joined
from app.widgets import bits
from app.widgets.figures import bytes_text

if TYPE_CHECKING:
    from app.models.multilingual import MultilingualModel


class MultilingualOffer(QFrame):
    """Shows a MultilingualModel; hidden while there is nothing to offer."""

    wanted = Signal()

    def __init__(self, offer: MultilingualModel, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._offer = offer
        self.setProperty("card", True)
        self._words = bits.label("", wraps=True)
        self.get = bits.button("", clicked=self.wanted.emit)
        self.get.setAccessibleName(self.tr("Download a multilingual embedding model"))
        self.decline = bits.button(self.tr("Not now"), "ghost", clicked=offer.decline)
        self.decline.setToolTip(
            self.tr("This offer does not appear again. You find it in the settings, under “Embedding model”.")
        )
        line = bits.row(spacing=12)
        line.addWidget(self._words, 1)
        line.addWidget(self.get)
        line.addWidget(self.decline)
        line.setContentsMargins(16, 10, 12, 10)
        self.setLayout(line)
        self.hide()
        offer.offer_changed.connect(self._show)
        self._show()

    @property
    def sentence(self) -> str:
        """Returns what is offered and why; "" while nothing is."""
        return "" if self.isHidden() else self._words.text()

    def _show(self) -> None:
        offer = self._offer
        if offer.language:
            self._words.setText(self._sentence())
            size = bytes_text(offer.num_bytes) if offer.num_bytes else ""
            words = self.tr("Download a multilingual one (%1)…") if size else self.tr("Download a multilingual one…")
            self.get.setText(words.replace("%1", size))
        self.setVisible(bool(offer.language))

    def _sentence(self) -> str:
        language = self._name(self._offer.language)
        if not self._offer.is_of_files:
            knows = self.tr("The embedding model in use understands only English.")
            return joined(knows, self.tr("With a multilingual one you can ask in %1.").replace("%1", language))
        seem = self.tr("Your files seem to be in %1; the embedding model in use understands only English.")
        return seem.replace("%1", language)

    def _name(self, code: str) -> str:
        names = {
            "ar": self.tr("Arabic"),
            "cs": self.tr("Czech"),
            "da": self.tr("Danish"),
            "de": self.tr("German"),
            "el": self.tr("Greek"),
            "es": self.tr("Spanish"),
            "fa": self.tr("Persian"),
            "fi": self.tr("Finnish"),
            "fr": self.tr("French"),
            "he": self.tr("Hebrew"),
            "hi": self.tr("Hindi"),
            "hu": self.tr("Hungarian"),
            "id": self.tr("Indonesian"),
            "it": self.tr("Italian"),
            "ja": self.tr("Japanese"),
            "ko": self.tr("Korean"),
            "mul": self.tr("several languages"),
            "nb": self.tr("Norwegian"),
            "nl": self.tr("Dutch"),
            "pl": self.tr("Polish"),
            "pt": self.tr("Portuguese"),
            "ro": self.tr("Romanian"),
            "ru": self.tr("Russian"),
            "sv": self.tr("Swedish"),
            "th": self.tr("Thai"),
            "tr": self.tr("Turkish"),
            "uk": self.tr("Ukrainian"),
            "vi": self.tr("Vietnamese"),
            "zh": self.tr("Chinese"),
        }
        return names.get(code) or self.tr("another language")
