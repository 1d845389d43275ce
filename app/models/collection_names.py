"""Names of collections: when one is called otherwise, here or by a command, chats and runs that ask it go on doing so.

The engine tells what each was called before, so that this holds also where no window was open.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtCore import QObject, Signal

from engine.protocol import RagdollError

if TYPE_CHECKING:
    from app.chats import ChatStore
    from app.models.library import LibraryModel
    from app.models.open_chat import OpenChat


class CollectionNames(QObject):
    """Follows the library's names; to be made before whoever leaves a collection that is gone."""

    store_failed = Signal(str, str)  # a sentence, a way out

    def __init__(
        self, library: LibraryModel, open_chat: OpenChat, store: ChatStore, parent: QObject | None = None
    ) -> None:
        super().__init__(parent)
        self._library, self._open_chat, self._store = library, open_chat, store
        # With which names what is stored has been gone through.
        self._carried: tuple[object, ...] | None = None

    def follow(self) -> None:
        """To be called when the library or the open chat has changed."""
        self._open_chat.follow_collection(self._library.name_now)
        names = tuple((one.name, one.former_names) for one in self._library.collections)
        if self._library.is_known and names != self._carried:
            # Not again and again: a disk that refuses this tells so once, and is tried when names have changed.
            self._carried = names
            self._carry()

    def _carry(self) -> None:
        try:
            for name in self._store.collections_asked():
                if (now := self._library.name_now(name)) != name:
                    self._store.rename_collection(name, now)
        except RagdollError as error:
            self.store_failed.emit(error.sentence, error.way_out)
