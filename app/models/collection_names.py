"""Names of collections: when a collection is renamed, here or by a command, chats and runs that ask it follow.

The engine reports former names, so that this works as well if no window was open. If a chat asks several collections,
those that no longer exist are left out.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

from PySide6.QtCore import QObject, Signal

from engine.protocol import RagdollError

if TYPE_CHECKING:
    from app.chats import ChatStore
    from app.models.library import LibraryModel
    from app.models.open_chat import OpenChat


def those_there(names: Sequence[str], is_gone: Callable[[str], bool]) -> tuple[str, ...]:
    """Returns the collections that exist, or all if none does: the engine then says that they are gone."""
    return tuple(name for name in names if not is_gone(name)) or tuple(names)


def as_text(names: Iterable[str]) -> str:
    """Returns names as text for the window's settings, which hold no lists."""
    return json.dumps(list(names), ensure_ascii=False)


def names_in(text: str) -> tuple[str, ...]:
    """Returns the names in a text that `as_text` made; none if it is something else."""
    try:
        names = json.loads(text) if text else []
    except ValueError:
        return ()
    return tuple(name for name in names if isinstance(name, str)) if isinstance(names, list) else ()


class CollectionNames(QObject):
    """Follows the library's names; connect it before the code that leaves a collection that is gone."""

    store_failed = Signal(str, str)  # a sentence, a way out

    def __init__(
        self, library: LibraryModel, open_chat: OpenChat, store: ChatStore, parent: QObject | None = None
    ) -> None:
        super().__init__(parent)
        self._library, self._open_chat, self._store = library, open_chat, store
        # The names with which the stored chats were last updated.
        self._carried: tuple[object, ...] | None = None

    def follow(self) -> None:
        """Updates names; call it when the library or the open chat has changed."""
        self._open_chat.follow_collections(self._library.name_now)
        names = tuple((one.name, one.former_names) for one in self._library.collections)
        if self._library.is_known and names != self._carried:
            # Once per change of names, so that a disk that refuses it is reported once.
            self._carried = names
            self._carry()

    def _carry(self) -> None:
        try:
            for name in self._store.collections_asked():
                if (now := self._library.name_now(name)) != name:
                    self._store.rename_collection(name, now)
        except RagdollError as error:
            self.store_failed.emit(error.sentence, error.way_out)
