"""The chats in the rail: pinned first, then the newest; searched, renamed, pinned, deleted with undo."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from PySide6.QtCore import (
    QAbstractListModel,
    QByteArray,
    QModelIndex,
    QObject,
    QPersistentModelIndex,
    Qt,
    QTimer,
    Signal,
)

from app.chats.errors import ChatGone
from app.models.rows import replace_rows
from app.tips import plain_tip
from engine.protocol import RagdollError

if TYPE_CHECKING:
    from app.chats import ChatStore, Conversation

Index = QModelIndex | QPersistentModelIndex
_USER = int(Qt.ItemDataRole.UserRole)
# Searched per step; between steps, the window handles input.
_STEP_S = 0.02
_PAUSE_MS = 5


@dataclass(frozen=True, slots=True)
class Deleted:
    """Chats that were deleted together, in the order of the list; `title` is that of a single one."""

    conversation_ids: tuple[str, ...]
    title: str = ""


class ChatListModel(QAbstractListModel):
    """A row per conversation; roles ID_ROLE, TITLE_ROLE (and DisplayRole), UPDATED_ROLE (seconds), PINNED_ROLE.

    ANSWERING_ROLE tells whether an answer is being written in it, DRAFT_ROLE whether unsent text waits in it.
    """

    ID_ROLE = _USER + 1
    TITLE_ROLE = _USER + 2
    UPDATED_ROLE = _USER + 3
    PINNED_ROLE = _USER + 4
    ANSWERING_ROLE = _USER + 5
    DRAFT_ROLE = _USER + 6

    chat_renamed = Signal(str, str)  # id, new title
    chats_deleted = Signal(object)  # Deleted; can be undone
    chat_restored = Signal(str)  # id; of several, the first one
    looking_changed = Signal(bool)  # whether chats are being looked through
    store_failed = Signal(str, str)  # a sentence, a way out

    def __init__(self, store: ChatStore, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._store = store
        self._rows: list[Conversation] = []
        self._answering: frozenset[str] = frozenset()
        self._with_drafts: frozenset[str] = frozenset()
        self._filter = ""
        # The latest at the end.
        self._deleted: list[Deleted] = []
        self._is_looking = False
        self._reading: Iterator[None] = iter(())
        self._due = QTimer(self, singleShot=True, interval=_PAUSE_MS)
        self._due.timeout.connect(self._read_on)
        self.refresh()

    @property
    def filter(self) -> str:
        return self._filter

    @property
    def is_looking(self) -> bool:
        """Returns whether the matches of the filter are not known yet."""
        return self._is_looking

    @property
    def can_undo(self) -> bool:
        return bool(self._deleted)

    @property
    def last_deleted(self) -> Deleted | None:
        """Returns what `undo_delete` restores."""
        return self._deleted[-1] if self._deleted else None

    def all_chats(self) -> tuple[Conversation, ...]:
        """Returns all chats, also those that the filter hides; only the shown ones if the store cannot be read."""
        if not self._filter:
            return tuple(self._rows)
        try:
            return self._store.conversations()
        except RagdollError:
            return tuple(self._rows)

    def title_of(self, conversation_id: str) -> str:
        """Returns the title of a chat, whether the filter hides it or not; "" if there is no such chat."""
        if not conversation_id:
            return ""
        shown = next((row for row in self._rows if row.conversation_id == conversation_id), None)
        try:
            found = shown or self._store.conversation(conversation_id)
        except RagdollError:
            return ""
        return found.title if found is not None else ""

    def set_filter(self, text: str) -> None:
        """Shows only chats with all these words in title, questions or answers, as soon as the matches are known."""
        if text != self._filter:
            self._filter = text
            self.refresh()

    def refresh(self) -> None:
        """Reads the list again; rows move, so that views keep their selection."""
        self._due.stop()
        self._reading = self._read()
        self._read_on()

    def mark_answering(self, conversation_ids: frozenset[str]) -> None:
        """Marks the chats in which an answer is being written, and no others."""
        changed, self._answering = self._answering ^ conversation_ids, conversation_ids
        self._show_marks(changed)

    def mark_drafts(self, conversation_ids: frozenset[str]) -> None:
        """Marks the chats in which unsent text waits, and no others."""
        changed, self._with_drafts = self._with_drafts ^ conversation_ids, conversation_ids
        self._show_marks(changed)

    def stop(self) -> None:
        """Stops searching, before the store is closed."""
        self._due.stop()
        self._set_looking(False)

    def row_of(self, conversation_id: str) -> int | None:
        """Returns the row of a chat; None if the filter hides it."""
        return next((n for n, row in enumerate(self._rows) if row.conversation_id == conversation_id), None)

    # --- wishes ---

    def rename(self, conversation_id: str, title: str) -> None:
        """Gives a chat a title; an empty one changes nothing."""
        title = " ".join(title.split())
        if title and self._store_does(lambda: self._store.rename(conversation_id, title)):
            self.chat_renamed.emit(conversation_id, title)

    def set_pinned(self, conversation_id: str, is_pinned: bool) -> None:
        self._store_does(lambda: self._store.set_pinned(conversation_id, is_pinned))

    def delete(self, *conversation_ids: str) -> None:
        """Removes chats from the list; `undo_delete` restores the last ones while Ragdoll runs."""
        titles = [row.title for row in self._rows if row.conversation_id in conversation_ids]
        if conversation_ids and self._store_does(lambda: self._store.delete(*conversation_ids)):
            deleted = Deleted(conversation_ids, titles[0] if len(conversation_ids) == len(titles) == 1 else "")
            self._deleted.append(deleted)
            self.chats_deleted.emit(deleted)

    def undo_delete(self) -> None:
        """Restores the chats that were deleted together last."""
        if self._deleted:
            deleted = self._deleted[-1]
            # If the disk refuses the change, it can be tried again.
            if self._store_does(lambda: self._restore(deleted)):
                self._deleted.pop()
                self.chat_restored.emit(deleted.conversation_ids[0])

    def _restore(self, deleted: Deleted) -> None:
        try:
            self._store.restore(*deleted.conversation_ids)
        except ChatGone:
            # Otherwise it would block the chats that were deleted before it.
            self._deleted.pop()
            raise

    # --- Qt ---

    def rowCount(self, parent: Index | None = None) -> int:
        return 0 if parent is not None and parent.isValid() else len(self._rows)

    def data(self, index: Index, role: int = Qt.ItemDataRole.DisplayRole) -> Any:
        if not index.isValid():
            return None
        row = self._rows[index.row()]
        if role in (Qt.ItemDataRole.DisplayRole, self.TITLE_ROLE):
            return row.title
        if role == Qt.ItemDataRole.ToolTipRole:
            return plain_tip(row.title)
        return {
            self.ID_ROLE: row.conversation_id,
            self.UPDATED_ROLE: row.updated,
            self.PINNED_ROLE: row.is_pinned,
            self.ANSWERING_ROLE: row.conversation_id in self._answering,
            self.DRAFT_ROLE: row.conversation_id in self._with_drafts,
        }.get(role)

    def roleNames(self) -> dict[int, QByteArray]:  # noqa: N802 - Qt's name
        names = {self.ID_ROLE: b"id", self.TITLE_ROLE: b"title", self.UPDATED_ROLE: b"updated"}
        names.update({self.PINNED_ROLE: b"is_pinned", self.ANSWERING_ROLE: b"is_answering"})
        names[self.DRAFT_ROLE] = b"has_draft"
        return {**super().roleNames(), **{role: QByteArray(name) for role, name in names.items()}}

    # --- inside ---

    def _store_does(self, change: Callable[[], None]) -> bool:
        try:
            change()
        except RagdollError as error:
            self.store_failed.emit(error.sentence, error.way_out)
            return False
        self.refresh()
        return True

    def _read(self) -> Iterator[None]:
        """Reads the list, yielding between steps; there are several only if chats have to be searched."""
        if not self._filter.strip():
            self._show(None)
            return
        # Until the matches are known, the shown chats stay.
        self._show({row.conversation_id for row in self._rows})
        self._show((yield from self._store.finding(self._filter)))

    def _read_on(self) -> None:
        until = time.monotonic() + _STEP_S
        try:
            for _ in self._reading:
                if time.monotonic() >= until:
                    self._due.start()
                    self._set_looking(True)
                    return
        except RagdollError as error:
            self.store_failed.emit(error.sentence, error.way_out)
        self._set_looking(False)

    def _set_looking(self, is_looking: bool) -> None:
        if is_looking != self._is_looking:
            self._is_looking = is_looking
            self.looking_changed.emit(is_looking)

    def _show(self, among: Collection[str] | None) -> None:
        new = self._store.conversations(among)
        replace_rows(self, self._rows, new, lambda row: row.conversation_id, self._on_row_changed)

    def _show_marks(self, conversation_ids: Collection[str]) -> None:
        for number, row in enumerate(self._rows):
            if row.conversation_id in conversation_ids:
                self._on_row_changed(number)

    def _on_row_changed(self, row: int) -> None:
        self.dataChanged.emit(self.index(row), self.index(row))
