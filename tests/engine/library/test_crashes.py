"""Tests for engine.library.indexer: killed at every step boundary, it loses nothing and does nothing twice."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.helpers.indexing import SmallLibrary


class Killed(BaseException):
    """As kill -9 would: nothing of ours handles it."""


# Everything that makes something durable, in the table or in the catalogue.
STEPS = [
    ("table", "put_documents"),
    ("table", "delete_documents"),
    ("table", "optimize"),
    ("embedder", "embed_documents"),
    ("catalog", "add_root"),
    ("catalog", "add_documents"),
    ("catalog", "remove_documents"),
    ("catalog", "vacate"),
    ("catalog", "relocate"),
    ("catalog", "mark_surveyed"),
    ("catalog", "mark_pending"),
    ("catalog", "mark_indexed"),
    ("catalog", "mark_unchanged"),
    ("catalog", "mark_unreadable"),
    ("catalog", "mark_offline"),
    ("catalog", "mark_present"),
    ("catalog", "forget"),
]

EVERY_TIME = {name for _, name in STEPS} - {"mark_offline"}


def owner(library: SmallLibrary, name: str) -> object:
    return library.catalog if name == "catalog" else getattr(library.stores, name)


def killing(function: Callable[..., object], when: str, countdown: int, hits: list[int]) -> Callable[..., object]:
    def step(*arguments: object, **options: object) -> object:
        hits.append(1)
        if len(hits) == countdown and when == "before":
            raise Killed
        result = function(*arguments, **options)
        if len(hits) == countdown:
            raise Killed
        return result

    return step


def prepare(library: SmallLibrary) -> None:
    library.write("stays.md", "stays", "as it is")
    library.write("changes.md", "old", "kept")
    library.write("moves.md", "moves", "about")
    library.write("goes.md", "goes")
    library.write("breaks.md", "breaks")
    library.write("touched.md", "touched")
    library.write("removed/by-the-user.md", "removed")
    library.add()
    library.forget_what_was_embedded()
    library.write("changes.md", "new", "kept")
    (library.docs / "moves.md").rename(library.docs / "moved.md")
    (library.docs / "goes.md").unlink()
    library.write("breaks.md", "BROKEN")
    (library.docs / "touched.md").touch()
    library.write("fresh.md", "fresh", "kept")


def live(library: SmallLibrary) -> None:
    """Everything that can happen to a library, in one go; begun again, it goes on where it was."""
    removed = str(library.docs / "removed")
    if removed not in library.catalog.exclusions():
        library.add()
        library.indexer.remove([removed])
    library.rescan()


def check_outcome(library: SmallLibrary) -> None:
    assert library.states() == {
        "breaks.md": "failed",
        "changes.md": "indexed",
        "fresh.md": "indexed",
        "moved.md": "indexed",
        "stays.md": "indexed",
        "touched.md": "indexed",
    }
    library.check()


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize(("part", "name"), STEPS, ids=lambda value: str(value))
def test_kills_at_every_step_lose_nothing_and_repeat_no_embedding(
    library: SmallLibrary, monkeypatch: pytest.MonkeyPatch, part: str, name: str, when: str
) -> None:
    prepare(library)
    moved = library.known(library.docs / "moves.md").document_id
    kills = 0
    durable: set[str] = set()
    for countdown in range(1, 50):
        num_embedded = len(library.embedded)
        with monkeypatch.context() as patch:
            target = owner(library, part)
            patch.setattr(target, name, killing(getattr(target, name), when, countdown, []))
            try:
                live(library)
            except Killed:
                kills += 1
            else:
                break
            # What was not durable when the kill came is embedded a second time, and nothing else is.
            assert not durable & set(library.embedded[num_embedded:])
        durable = {row.indexed_text for rows in library.stores.table.rows.values() for row in rows}
        library.reopen()
        check_between(library)
    library.reopen()

    assert kills or name not in EVERY_TIME
    check_outcome(library)
    assert library.known(library.docs / "moved.md").document_id == moved
    assert set(library.embedded) == {"new", "fresh"}


def check_between(library: SmallLibrary) -> None:
    """After a start: what is called indexed has its rows, and every row has a document that is known."""
    claimed = library.catalog.ids_with_rows()
    stored = library.stores.table.document_ids()
    assert claimed <= stored
    assert stored <= claimed | library.catalog.ids_to_read()


@pytest.mark.parametrize("when", ["before", "after"])
def test_what_was_stored_before_the_kill_is_not_embedded_again(
    library: SmallLibrary, monkeypatch: pytest.MonkeyPatch, when: str
) -> None:
    library.write("a.md", "one", "two")
    with monkeypatch.context() as patch:
        patch.setattr(library.catalog, "mark_indexed", killing(library.catalog.mark_indexed, when, 1, []))
        with pytest.raises(Killed):
            library.add()
    assert library.states() == {"a.md": "pending"}
    library.forget_what_was_embedded()

    library.reopen()
    finished = library.resume()

    assert (finished.indexed, library.embedded) == (1, [])


def test_a_kill_before_the_files_were_entered_does_not_lose_the_folder(
    library: SmallLibrary, monkeypatch: pytest.MonkeyPatch
) -> None:
    library.write("a.md")
    with monkeypatch.context() as patch:
        patch.setattr(library.catalog, "add_documents", killing(library.catalog.add_documents, "after", 1, []))
        with pytest.raises(Killed):
            library.add()
    assert library.states() == {}

    library.reopen()

    assert library.resume().indexed == 1


def test_a_removed_document_is_gone_from_the_catalogue_before_its_rows_are(
    library: SmallLibrary, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = library.write("a.md")
    library.add()
    document_id = library.known(path).document_id
    table = library.stores.table
    with monkeypatch.context() as patch:
        patch.setattr(table, "delete_documents", killing(table.delete_documents, "before", 1, []))
        with pytest.raises(Killed):
            library.indexer.remove([str(path)])

    assert library.catalog.paths_of([document_id]) == {}
    assert table.document_ids() == {document_id}
    library.reopen()
    assert table.document_ids() == set()
