"""Integrity: whether files and memory together contain exactly the rows of the table."""

from __future__ import annotations

from collections.abc import Iterator

from engine.errors import LibraryError
from engine.partitions.packed import Documents, Mask, Numbers, row_id
from engine.partitions.reconcile import Rows
from engine.partitions.snapshot import Snapshot

_EXAMPLES = 5

# The document and the content key of a row.
_Identity = tuple[int, int]


def check(snapshot: Snapshot, rows: Rows) -> None:
    """Compares every row with the table. Nothing may be written meanwhile.

    Raises:
        LibraryError: They disagree; the sentence has examples.
    """
    wanted = _in_table(snapshot, rows)
    held, differences = _held(snapshot)
    differences += [f"{row_id(id_)} is not in the partitions" for id_ in wanted.keys() - held.keys()]
    differences += [f"{row_id(id_)} is not in the table any more" for id_ in held.keys() - wanted.keys()]
    differences += [
        f"{row_id(id_)} has another document or content" for id_ in wanted.keys() & held if wanted[id_] != held[id_]
    ]
    if differences:
        examples = "; ".join(sorted(differences)[:_EXAMPLES])
        raise LibraryError(
            f"Table and partitions disagree in {len(differences)} places: {examples}.",
            "Delete the folder “shards” of the library; it is rebuilt from the table.",
        )


def _in_table(snapshot: Snapshot, rows: Rows) -> dict[int, _Identity]:
    """Returns all rows except those of missing shards, which LanceDB answers for."""
    return {
        id_: (document, key)
        for of in rows.identities()
        for id_, document, shard, key in zip(
            of.ids.tolist(), of.documents.tolist(), of.shards.tolist(), of.keys.tolist(), strict=True
        )
        if shard not in snapshot.missing
    }


def _held(snapshot: Snapshot) -> tuple[dict[int, _Identity], list[str]]:
    held: dict[int, _Identity] = {}
    twice: list[str] = []
    for id_, document, key in _rows(snapshot):
        if id_ in held:
            twice.append(f"{row_id(id_)} is there twice")
        held[id_] = document, key
    return held, twice


def _rows(snapshot: Snapshot) -> Iterator[tuple[int, int, int]]:
    for sealed in snapshot.sealed:
        packed = sealed.partition.packed()
        yield from _living(packed.ids, packed.documents, packed.keys, sealed.alive)
    for view in snapshot.open:
        yield from _living(view.packed.ids, view.packed.documents, view.packed.keys, view.alive)


def _living(ids: Numbers, documents: Documents, keys: Numbers, alive: Mask | None) -> Iterator[tuple[int, int, int]]:
    chosen = slice(None) if alive is None else alive
    return zip(ids[chosen].tolist(), documents[chosen].tolist(), keys[chosen].tolist(), strict=True)
