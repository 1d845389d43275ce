"""Whether to offer another embedding model: the one in use knows English only, and the files or the user do not."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from PySide6.QtCore import QLocale, QObject, Signal

from engine import protocol
from engine.protocol import LanguageReply

if TYPE_CHECKING:
    from app.engine_client import EngineClient
    from app.models.library import LibraryModel
    from app.settings import SettingsStore

_ENGLISH = "en"
# The locale name of a system whose user has chosen no language.
_NO_LANGUAGE = "C"


def spoken_code(wished: str, of_system: QLocale) -> str:
    """Returns the language code of the window's user: of the locale `wished`, "" for the system's."""
    names = [wished] if wished else of_system.uiLanguages()
    code = QLocale.languageToCode(QLocale(names[0]).language()) if names else ""
    return _ENGLISH if code in ("", _NO_LANGUAGE) else code


class MultilingualModel(QObject):
    """`language` is that of the files, as it seems, or else of the user; "" means that there is nothing to offer.

    The engine looks at a sample of the texts once, and again when the library has doubled.
    """

    offer_changed = Signal()  # language, is_of_files, num_bytes

    def __init__(
        self,
        client: EngineClient,
        library: LibraryModel,
        settings: SettingsStore,
        is_careful: Callable[[], bool] = lambda: False,
        parent: QObject | None = None,
    ) -> None:
        """While it `is_careful`, the engine loads nothing unless the user asks for it."""
        super().__init__(parent)
        self._client, self._library, self._settings, self._is_careful = client, library, settings, is_careful
        self._told = LanguageReply()
        # The state of the library at the last request.
        self._asked: tuple[str, int] | None = None
        library.collections_changed.connect(self.consider)
        library.progress_changed.connect(self.consider)
        settings.settings_changed.connect(self.offer_changed)
        self.consider()

    @property
    def language(self) -> str:
        told = self._told
        if not told.knows_english_only or self._settings.settings.declines_multilingual:
            return ""
        return told.language or (self._spoken if self._spoken != _ENGLISH else "")

    @property
    def is_of_files(self) -> bool:
        """Whether the files are in that language, and not only the user reads it."""
        return bool(self._told.language)

    @property
    def num_bytes(self) -> int:
        """The approximate size of the download."""
        return self._told.offered_bytes

    def decline(self) -> None:
        """Never offers it again."""
        self._settings.change(declines_multilingual=True)

    def consider(self) -> None:
        """Asks the engine, if an offer may have become useful."""
        library = self._library
        embedder = library.embedder
        asked = (embedder.identity, library.num_documents.bit_length())
        if self._asked is not None and (self._asked[0] != embedder.identity or embedder.next_name):
            # Another model is in use, or will be.
            self._asked = None
            self._tell(LanguageReply())
        is_settled = library.is_known and library.progress is None and not embedder.next_name
        is_there = bool(embedder.identity and library.num_documents)
        is_declined = self._settings.settings.declines_multilingual
        if not (is_settled and is_there) or self._asked == asked or is_declined or self._is_careful():
            return
        self._asked = asked
        self._client.request(
            protocol.LIBRARY_LANGUAGE,
            protocol.Nothing(),
            lambda told: self._tell(told) if self._asked == asked else None,
            # A failure is ignored, because the user did not ask for this.
            lambda _error: None,
        )

    @property
    def _spoken(self) -> str:
        return spoken_code(self._settings.settings.language, QLocale.system())

    def _tell(self, told: LanguageReply) -> None:
        self._told = told
        self.offer_changed.emit()
