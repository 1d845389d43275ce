"""Passwords of documents: those that the user wants kept are in the catalogue, the others in memory only.

Only the owner can read the catalogue's file (see `database`); a password in it is as safe as the text of the documents
beside it, and no safer.
"""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Iterable

from engine.catalog.database import Database
from engine.catalog.reader import CatalogReader, id_list


class PasswordReader(CatalogReader):
    """Stores and deletes passwords; from any thread."""

    def __init__(self, database: Database) -> None:
        super().__init__(database)
        self._held: defaultdict[int, list[str]] = defaultdict(list)
        self._holding = threading.Lock()

    def passwords_of(self, document_id: int) -> tuple[str, ...]:
        """Returns the passwords to try on a document, the latest first."""
        kept = self._database.rows(
            "SELECT password FROM passwords WHERE document_id = ? ORDER BY rowid DESC", (document_id,)
        )
        with self._holding:
            held = [*reversed(self._held.get(document_id, ()))]
        return tuple(dict.fromkeys([*held, *(row["password"] for row in kept)]))

    def give_password(self, document_ids: Iterable[int], password: str, *, remember: bool) -> None:
        """Adds a password to try on these documents; `remember` keeps it beyond this session."""
        ids = list(document_ids)
        with self._holding:
            for document_id in ids:
                self._held[document_id].append(password)
        if remember:
            with self._database.transaction() as writer:
                writer.execute(
                    "INSERT OR IGNORE INTO passwords (document_id, password)"
                    " SELECT document_id, ? FROM documents WHERE document_id IN (SELECT value FROM json_each(?))",
                    (password, id_list(ids)),
                )

    def forget_passwords(self, document_id: int) -> None:
        """Deletes all passwords of a document, because none of them opened it."""
        with self._holding:
            self._held.pop(document_id, None)
        with self._database.transaction() as writer:
            writer.execute("DELETE FROM passwords WHERE document_id = ?", (document_id,))
