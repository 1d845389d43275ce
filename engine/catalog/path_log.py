"""Which documents came, left or moved since a reader's last look, so that what is derived from paths can follow."""

from __future__ import annotations

import threading

# A reader that missed more changes than this reads all paths again.
_MOST_IDS = 50_000


class PathLog:
    """Ids of documents whose paths changed, in order; a mark is a position in them. Safe from any thread."""

    def __init__(self) -> None:
        self._ids: list[int] = []
        self._num_dropped = 0
        self._in_transaction: list[int] = []
        self._lock = threading.Lock()

    def note(self, document_id: int) -> None:
        """Records a change; called by the writer, within a transaction."""
        self._in_transaction.append(document_id)

    def close_transaction(self) -> None:
        """Publishes the changes of a transaction. After a rollback they are superfluous, which does no harm."""
        if not self._in_transaction:
            return
        with self._lock:
            self._ids += self._in_transaction
            if (excess := len(self._ids) - _MOST_IDS) > 0:
                del self._ids[:excess]
                self._num_dropped += excess
        self._in_transaction = []

    def since(self, mark: int | None) -> tuple[int, frozenset[int] | None]:
        """Returns the present mark, and the changes since another mark; None if these are no longer known."""
        with self._lock:
            now = self._num_dropped + len(self._ids)
            if mark is None or mark < self._num_dropped:
                return now, None
            return now, frozenset(self._ids[mark - self._num_dropped :])
