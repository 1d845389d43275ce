"""Indices: those that every table has are created where they are missing, and rebuilt where their files are damaged."""

from __future__ import annotations

import logging
from typing import Any

from lancedb.index import FTS
from lancedb.query import MatchQuery
from lancedb.table import Table

from engine.partitions.faults import is_the_systems
from engine.partitions.schema import INDICES, VECTOR_COLUMN

log = logging.getLogger(__name__)

# The word to search for where the first row's column is empty.
_ANY_WORD = "가나"


def complete_indices(table: Table) -> None:
    """Creates missing indices, as in a new table or after a kill, and repairs the others.

    Querying all of them takes a tenth of a second for 200,000 rows, and caches them for the first question.
    """
    present = {column for index in table.list_indices() for column in index.columns}
    for column, config in INDICES.items():
        if column not in present:
            table.create_index(column, config=config)
    mend_indices(table)


def mend_indices(table: Table) -> None:
    """Rebuilds indices that cannot be queried; a broken vector index is dropped, and created again when needed."""
    # A file may be missing because its version was cleaned up meanwhile.
    table.checkout_latest()  # type: ignore[no-untyped-call]
    first: list[dict[str, Any]] = table.search().select([*INDICES, VECTOR_COLUMN]).limit(1).to_list()
    if not first:
        return
    for column, config in INDICES.items():
        if not _answers(table, column, first[0][column]):
            log.warning("The index of %r is rebuilt", column)
            table.create_index(column, config=config, replace=True)
    for index in table.list_indices():
        if VECTOR_COLUMN in index.columns and not _answers(table, VECTOR_COLUMN, first[0][VECTOR_COLUMN]):
            log.warning("The index of the vectors is removed")
            table.drop_index(index.name)


def _answers(table: Table, column: str, value: Any) -> bool:
    """Returns whether a query for `value`, which is in the column, succeeds."""
    query: Any
    if column == VECTOR_COLUMN:
        query = table.search(value, column, query_type="vector").select(["row_id", "_distance"])
    elif isinstance(INDICES[column], FTS):
        query = table.search(MatchQuery(value or _ANY_WORD, column), query_type="fts")  # type: ignore[call-arg]
        query = query.select(["row_id", "_score"])
    else:
        query = table.search().where(f"{column} = {value!r}").select(["row_id"])
    try:
        query.limit(1).to_arrow()
    except (RuntimeError, ValueError, OSError) as error:
        if is_the_systems(error):
            raise
        log.warning("The index of %r does not answer: %s", column, error)
        return False
    return True
