"""Names of collections: which are available, what a collection was called before, and renaming one.

Scripts, chats and other applications refer to a collection by name. A former name keeps working until another
collection gets it.
"""

from __future__ import annotations

import sqlite3

from engine.catalog.reader import CatalogReader, name_key
from engine.errors import BadRequest, NothingThere


class NameReader(CatalogReader):
    """Manages names. Changing a collection requires its present name; a former one is refused."""

    def rename_collection(self, name: str, new_name: str) -> None:
        """Renames a collection, also if only the case changes. Indexing and questions in progress continue.

        Raises:
            NothingThere: No collection has this name now.
            BadRequest: The new name is blank, invalid, or another collection's.
        """
        wanted = checked_name(new_name)
        with self._database.transaction() as writer:
            row = self._named(name)
            taken = self._database.row(
                "SELECT name FROM collections WHERE name_key = ? AND collection_id != ?",
                (name_key(wanted), row["collection_id"]),
            )
            if taken is not None:
                raise BadRequest(f"There is a collection named {taken['name']!r} already.", "Choose another name.")
            give_up_former(writer, wanted)
            if name_key(wanted) != row["name_key"]:
                former = (row["name_key"], row["name"], row["collection_id"])
                writer.execute("INSERT INTO former_names (name_key, name, collection_id) VALUES (?, ?, ?)", former)
            writer.execute(
                "UPDATE collections SET name = ?, name_key = ? WHERE collection_id = ?",
                (wanted, name_key(wanted), row["collection_id"]),
            )

    def ids_only_in(self, name: str) -> frozenset[int]:
        """Returns the documents that are only in this collection, and are removed together with it.

        Raises:
            NothingThere: No collection has this name now.
        """
        collection_id = self._named(name)["collection_id"]
        in_others = self._ids(
            "SELECT d.document_id FROM roots r CROSS JOIN documents d"
            " WHERE r.collection_id != ? AND d.path >= r.first AND d.path < r.last",
            (collection_id,),
        )
        return self.document_ids_in_collection(name) - in_others

    def _named(self, name: str) -> sqlite3.Row:
        """Returns the collection with this present name. Raises NothingThere for a former name."""
        row = self._collection_row(name)
        if row["name_key"] != name_key(name):
            raise NothingThere(f"The collection {name!r} is called {row['name']!r} now.", "Use that name.")
        return row


def checked_name(name: str) -> str:
    """Returns a valid name as it is stored.

    Raises:
        BadRequest: It is blank, or not UTF-8.
    """
    if not name_key(name):
        raise BadRequest("A collection needs a name.")
    if name != name.encode("utf-8", "ignore").decode():
        raise BadRequest(f"{name!r} cannot be a collection's name: it is not UTF-8.")
    return name.strip()


def give_up_former(writer: sqlite3.Connection, name: str) -> None:
    """Removes a name from the former names, because a collection gets it now."""
    writer.execute("DELETE FROM former_names WHERE name_key = ?", (name_key(name),))
