"""Tests for engine.library.indexer, engine.library.survey and engine.library.recording."""

from __future__ import annotations

import errno
import os
import shutil
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import pytest

from engine.catalog import GONE_AT_ONCE
from engine.catalog.catalog import CATALOG_NAME
from engine.config import LibrarySettings
from engine.core import Chunk, FoundFile, ReadDocument
from engine.errors import (
    DiskFull,
    DocumentEncrypted,
    DocumentUnreadable,
    EmbedderUnavailable,
    LibraryError,
    NothingThere,
    ParserGaveUp,
)
from engine.library import recording, survey
from engine.library.jobs import Forget, IndexRoots
from engine.library.recording import CRASHED, KEPT_AS_READ, VANISHED
from engine.library.windows import PORTION_CHUNKS, WINDOW_CHUNKS
from tests.helpers.indexing import SmallLibrary
from tests.helpers.library import LEFT_OUT, vector_of


class Killed(BaseException):
    """As kill -9 would: nothing of ours handles it."""


def test_a_folder_is_indexed(library: SmallLibrary) -> None:
    library.write("a.md", "one", "two")
    library.write("sub/b.md", "three")

    finished = library.add()

    assert (finished.indexed, finished.unchanged, finished.chunks) == (2, 0, 3)
    assert (finished.skipped, finished.failed, finished.was_cancelled) == ((), (), False)
    assert library.states() == {"a.md": "indexed", "sub/b.md": "indexed"}
    assert sorted(library.embedded) == ["one", "three", "two"]
    assert library.catalog.num_chunks("Documents") == 3


def test_unchanged_files_cost_nothing(library: SmallLibrary) -> None:
    library.write("a.md")
    library.write("b.md")
    library.add()
    library.forget_what_was_embedded()

    finished = library.add()

    assert (finished.indexed, finished.unchanged, finished.chunks) == (0, 2, 0)
    assert library.parser.paths_read == library.embedded == []


def test_a_touched_file_is_hashed_and_nothing_more(library: SmallLibrary) -> None:
    path = library.write("a.md")
    library.add()
    library.forget_what_was_embedded()
    os.utime(path, ns=(1, 2))

    finished = library.add()

    assert (finished.indexed, finished.unchanged) == (0, 1)
    assert library.parser.paths_read == library.embedded == []
    assert library.known(path).mtime_ns == 2


def test_of_a_changed_file_only_the_new_text_is_embedded(library: SmallLibrary) -> None:
    path = library.write("a.md", "old", "kept")
    library.add()
    before = library.known(path)
    library.forget_what_was_embedded()
    library.write("a.md", "kept", "new", "kept")

    finished = library.rescan()

    after = library.known(path)
    assert (finished.indexed, finished.chunks, library.embedded) == (1, 3, ["new"])
    assert (after.document_id, after.num_chunks) == (before.document_id, 3)
    assert after.content_hash != before.content_hash


@pytest.mark.parametrize("target", ["renamed.md", "sub/a.md", "sub/renamed.md"])
def test_a_moved_file_keeps_its_id_and_is_not_read(library: SmallLibrary, target: str) -> None:
    path = library.write("a.md", "one", "two")
    library.add()
    document_id = library.known(path).document_id
    library.forget_what_was_embedded()
    (library.docs / "sub").mkdir()
    path.rename(library.docs / target)

    finished = library.rescan()

    assert library.known(library.docs / target).document_id == document_id
    assert library.states() == {target: "indexed"}
    assert library.parser.paths_read == library.embedded == []
    assert (finished.indexed, finished.unchanged, finished.removed) == (0, 1, 0)


def test_a_whole_folder_that_moved_is_no_deletion(library: SmallLibrary) -> None:
    for number in range(30):
        library.write(f"old/{number}.md")
    library.add()
    ids = library.catalog.ids_with_rows()
    library.forget_what_was_embedded()
    (library.docs / "old").rename(library.docs / "new")

    finished = library.rescan()

    assert library.catalog.ids_with_rows() == ids
    assert set(library.states()) == {f"new/{number}.md" for number in range(30)}
    assert (finished.removed, library.embedded) == (0, [])


def test_a_file_moved_to_a_folder_added_later_keeps_its_id(library: SmallLibrary) -> None:
    path = library.write("first/a.md")
    library.write("first/stays.md")
    library.add(library.docs / "first")
    document_id = library.known(path).document_id
    library.forget_what_was_embedded()
    (library.docs / "second").mkdir()
    path.rename(library.docs / "second" / "a.md")

    library.add(library.docs / "second", collection="Work")

    moved = library.known(library.docs / "second" / "a.md")
    assert (moved.document_id, moved.collections) == (document_id, ("Work",))
    assert library.embedded == []


def test_a_copy_gets_rows_of_its_own_with_copied_vectors(library: SmallLibrary) -> None:
    path = library.write("a.md", "one", "two")
    library.add()
    library.forget_what_was_embedded()
    shutil.copy(path, library.docs / "copy.md")

    finished = library.rescan()

    assert (finished.indexed, finished.chunks, library.embedded) == (1, 2, [])
    assert library.known(path).document_id != library.known(library.docs / "copy.md").document_id
    assert len(library.stores.table.rows) == 2


def test_copies_in_one_folder_are_embedded_once(library: SmallLibrary) -> None:
    for number in range(5):
        library.write(f"{number}.md", "the same text")

    assert library.add().indexed == 5
    assert library.embedded == ["the same text"]


def test_files_that_swapped_names_swap_their_texts(library: SmallLibrary) -> None:
    first, second = library.write("a.md", "first one"), library.write("b.md", "second")
    library.add()
    first.rename(library.docs / "c")
    second.rename(first)
    (library.docs / "c").rename(second)

    library.rescan()

    assert [row.text for row in library.stores.table.rows[library.known(first).document_id]] == ["second"]
    assert [row.text for row in library.stores.table.rows[library.known(second).document_id]] == ["first one"]


def test_a_file_in_two_collections_is_indexed_once(library: SmallLibrary) -> None:
    path = library.write("a.md")
    library.add(collection="Home")
    library.forget_what_was_embedded()

    finished = library.add(path, collection="Work")

    assert (finished.unchanged, library.embedded) == (1, [])
    assert library.known(path).collections == ("Home", "Work")
    assert len(library.stores.table.rows) == 1


def test_names_that_are_not_utf8_are_indexed_and_stay_searchable(library: SmallLibrary) -> None:
    raw = os.fsencode(library.docs) + b"/caf\xe9.md"
    with open(raw, "wb") as stream:
        stream.write(b"au lait")

    assert library.add().indexed == 1

    (document,) = library.catalog.documents()[0]
    assert os.fsencode(document.path) == raw
    assert library.rescan().unchanged == 1


def test_bad_files_are_listed_with_their_reason_and_stop_nothing(library: SmallLibrary) -> None:
    library.write("1-empty.md", " ")
    library.write("2-broken.md", "BROKEN")
    library.write("3-good.md")
    os.mkfifo(library.docs / "4-pipe")
    (library.docs / "5-encoding.md").write_bytes(b"\xff\xfe\xfa")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("engine.library.reading.log.exception", lambda *_: None)
        finished = library.add()

    assert finished.indexed == 1
    assert [(os.path.basename(path), reason) for path, reason in finished.skipped] == [
        ("4-pipe", "This is a named pipe, not a file."),
        ("1-empty.md", "There is no text in it."),
    ]
    assert [os.path.basename(path) for path, _ in finished.failed] == ["5-encoding.md", "2-broken.md"]
    assert library.known(library.docs / "2-broken.md").reason == (
        "The parser crashed on this file. Open it and save it again."
    )
    assert "unexpected error" in library.known(library.docs / "5-encoding.md").reason


def test_known_bad_files_are_told_again_but_only_failed_ones_are_tried_again(library: SmallLibrary) -> None:
    library.write("empty.md", " ")
    library.write("broken.md", "BROKEN")
    first = library.add()
    library.forget_what_was_embedded()

    rescanned = library.rescan()
    assert library.parser.paths_read == []
    added = library.add()

    assert (rescanned.skipped, rescanned.failed) == (added.skipped, added.failed) == (first.skipped, first.failed)
    assert library.parser.paths_read == [str(library.docs / "broken.md")] * 2


def test_a_file_that_became_bad_loses_its_rows(library: SmallLibrary) -> None:
    path = library.write("a.md")
    library.add()
    library.write("a.md", "BROKEN now")

    library.rescan()

    assert library.known(path).state == "failed"
    assert library.stores.table.rows == {}


def test_a_file_that_cannot_be_read_again_keeps_what_was_read_of_it(library: SmallLibrary) -> None:
    path = library.write("a.md", "one", "two")
    other = library.write("b.md", "three")
    library.add()
    rows = library.stores.table.rows.copy()
    hashes = {one: library.known(one).content_hash for one in (path, other)}

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(library.parser, "read", _raiser(ParserGaveUp("It took too long.", "Open it and save it again.")))
        finished = library.reindex(library.docs)

    reason = f"{KEPT_AS_READ} It took too long. Open it and save it again."
    assert library.stores.table.rows == rows
    assert sorted(finished.failed) == [(str(path), reason), (str(other), reason)]
    for one in (path, other):
        known = library.known(one)
        assert (known.state, known.reason, known.content_hash) == ("indexed", reason, hashes[one])
    library.check()
    # Nothing is tried for ever, and the next reading that succeeds takes the remark back.
    library.forget_what_was_embedded()
    assert library.rescan().unchanged == 2
    assert library.parser.paths_read == []
    assert library.reindex(path).indexed == 1
    assert library.known(path).reason == ""


def test_a_scan_that_cannot_be_read_again_keeps_its_other_pages(library: SmallLibrary) -> None:
    path = library.write("a.md", "one")
    library.add()
    document_id = library.known(path).document_id
    library.catalog.mark_kept(document_id, LEFT_OUT, "ocr")
    library.parser.has_ocr = True
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(library.parser, "read", _raiser(ParserGaveUp("The parser crashed.")))
        library.rescan()

    assert (library.known(path).state, library.known(path).needs) == ("indexed", "")
    assert library.stores.table.document_ids() == {document_id}


def test_without_its_password_a_file_keeps_what_was_read_with_it(library: SmallLibrary) -> None:
    path = library.write("a.md", "LOCKED x")
    library.add()
    document_id = library.known(path).document_id
    library.catalog.give_password([document_id], "x", remember=False)
    library.reindex(path)
    assert library.known(path).state == "indexed"
    library.reopen()

    library.reindex(path)

    known = library.known(path)
    assert (known.state, known.needs, known.num_chunks) == ("indexed", "password", 1)
    library.check()
    library.catalog.give_password([document_id], "x", remember=False)
    library.reindex(path)
    assert (library.known(path).reason, library.known(path).needs) == ("", "")


def test_a_file_of_the_same_size_and_time_with_other_content_loses_its_rows(library: SmallLibrary) -> None:
    path = library.write("a.md", "whole!")
    library.add()
    noted = path.stat()
    path.write_text("BROKEN")
    os.utime(path, ns=(noted.st_atime_ns, noted.st_mtime_ns))

    library.refresh(path)

    assert library.known(path).state == "failed"
    assert library.stores.table.rows == {}


def _convict(library: SmallLibrary, path: Path) -> None:
    """As after three ends of the engine, the last two while this file alone was read."""
    document_id = library.known(path).document_id
    for alone in (False, True, True):
        library.catalog.mark_begun([document_id], alone=alone)
        library.reopen()


def test_a_file_that_ends_the_engine_when_read_again_keeps_what_was_read_of_it(library: SmallLibrary) -> None:
    path = library.write("a.md", "one")
    library.add()
    document_id = library.known(path).document_id
    library.catalog.mark_pending([document_id], forget_content=True)

    _convict(library, path)

    assert (library.known(path).state, library.known(path).reason) == ("indexed", f"{KEPT_AS_READ} {CRASHED}")
    library.check()
    library.forget_what_was_embedded()
    library.resume()
    assert library.parser.paths_read == []


def test_a_changed_file_that_ends_the_engine_loses_what_was_read_before_it_changed(library: SmallLibrary) -> None:
    path = library.write("a.md", "one")
    library.add()
    library.write("a.md", "one and two")
    library.catalog.mark_pending([library.known(path).document_id])

    _convict(library, path)

    assert library.known(path).state == "failed"
    assert library.stores.table.rows == {}


def test_a_mended_file_is_indexed(library: SmallLibrary) -> None:
    path = library.write("a.md", "BROKEN")
    library.add()
    library.write("a.md", "mended")

    assert library.rescan().indexed == 1
    assert library.known(path).reason == ""


def test_what_was_left_out_of_an_indexed_file_is_told_also_when_it_is_asked_for_again(library: SmallLibrary) -> None:
    path = library.write("a.md", "PARTLY")
    library.write("b.md", "whole")

    first, again = library.add(), library.add()

    assert (first.indexed, again.unchanged) == (2, 2)
    assert first.in_part == again.in_part == ((str(path), LEFT_OUT),)


def test_a_file_that_is_too_large_is_not_even_hashed(library: SmallLibrary, monkeypatch: pytest.MonkeyPatch) -> None:
    library.settings = LibrarySettings(max_file_bytes=10)
    path = library.write("large.md", "far more than ten bytes")
    monkeypatch.setattr("engine.library.reading.content_hash", lambda _: pytest.fail("hashed"))

    library.add()

    assert library.known(path).content_hash == ""


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_file_without_permission_is_listed(library: SmallLibrary) -> None:
    path = library.write("closed.md")
    path.chmod(0)

    finished = library.add()

    assert [(p, "Permission denied" in reason) for p, reason in finished.failed] == [(str(path), True)]
    path.chmod(0o600)
    assert library.add().indexed == 1


def test_a_file_that_cannot_be_opened_is_listed_and_tried_again(
    library: SmallLibrary, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = library.write("closed.md")
    with monkeypatch.context() as patch:
        patch.setattr(
            "engine.library.reading.content_hash", _raiser(PermissionError(errno.EACCES, "Permission denied"))
        )
        finished = library.add()

    assert [reason for _, reason in finished.failed] == [
        "It cannot be opened: Permission denied. Give yourself permission to read it, then add it again."
    ]
    assert library.add().indexed == 1
    assert library.known(path).state == "indexed"


def test_a_file_that_vanishes_while_its_folder_is_indexed_is_listed(
    library: SmallLibrary, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = library.write("a.md")
    library.write("b.md")
    read = library.parser.read

    def vanishing(name: str, *rest: object) -> object:
        Path(name).unlink()
        return read(name, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(library.parser, "read", vanishing)
    finished = library.add()

    assert finished.skipped == ((str(path), VANISHED), (str(library.docs / "b.md"), VANISHED))
    assert library.states() == {"a.md": "offline", "b.md": "offline"}


def test_a_deleted_file_leaves_the_library(library: SmallLibrary) -> None:
    path = library.write("a.md")
    library.write("b.md")
    library.add()
    path.unlink()

    assert library.rescan().removed == 1

    assert library.states() == {"b.md": "indexed"}
    assert len(library.stores.table.rows) == 1


def test_a_folder_out_of_reach_is_offline_and_comes_back_as_it_was(library: SmallLibrary) -> None:
    library.write("a.md")
    library.write("bad.md", "BROKEN")
    library.add()
    library.forget_what_was_embedded()
    away = library.docs.with_name("unplugged")
    library.docs.rename(away)

    finished = library.rescan()

    assert set(library.states().values()) == {"offline"}
    assert len(library.stores.table.rows) == 1
    assert [path for path, _ in finished.skipped] == [str(library.docs)]

    away.rename(library.docs)
    assert library.rescan().unchanged == 1
    assert library.states() == {"a.md": "indexed", "bad.md": "failed"}
    assert library.embedded == []


def test_an_empty_mount_point_deletes_nothing(library: SmallLibrary) -> None:
    path = library.write("a.md")
    library.add()
    path.unlink()

    assert library.rescan().removed == 0

    assert library.states() == {"a.md": "offline"}
    assert "drive" in library.known(path).reason


def test_another_drive_in_the_folders_place_deletes_and_adds_nothing(library: SmallLibrary) -> None:
    path = library.write("a.md")
    library.add()
    (root,) = library.catalog.roots()
    library.catalog.mark_surveyed(root, device=root.device + 1)
    path.unlink()
    library.write("stranger.md")

    library.rescan()

    assert library.states() == {"a.md": "offline"}


def test_the_same_drive_under_another_number_is_taken_for_what_it_is(library: SmallLibrary) -> None:
    library.write("a.md")
    library.add()
    (root,) = library.catalog.roots()
    library.catalog.mark_surveyed(root, device=root.device + 1)

    library.rescan()

    assert library.states() == {"a.md": "indexed"}
    assert library.catalog.roots()[0].device == root.device


def test_an_offline_folder_inside_a_present_one_keeps_its_documents(library: SmallLibrary) -> None:
    library.write("usb/a.md")
    library.write("b.md")
    library.add()
    library.add(library.docs / "usb", collection="Stick")
    (library.docs / "usb" / "a.md").unlink()

    assert library.rescan().removed == 0

    assert library.states() == {"usb/a.md": "offline", "b.md": "indexed"}


def test_most_of_a_folder_gone_at_once_is_kept_for_the_user_to_decide(library: SmallLibrary) -> None:
    for number in range(30):
        library.write(f"{number:02}.md")
    library.add()
    for number in range(21):
        (library.docs / f"{number:02}.md").unlink()

    assert library.rescan().removed == 0
    assert list(library.states().values()).count("offline") == 21
    assert library.known(library.docs / "00.md").reason == GONE_AT_ONCE

    assert library.indexer.remove([str(library.docs / "00.md")]) == 1
    library.write("01.md")
    library.rescan()
    assert list(library.states().values()).count("offline") == 19


def test_a_removed_folder_leaves_no_row_and_no_root(library: SmallLibrary) -> None:
    library.write("a.md")
    library.write("sub/b.md")
    library.add()

    assert library.indexer.remove([str(library.docs), str(library.docs / "sub")]) == 2

    assert library.stores.table.rows == {}
    assert library.catalog.roots() == ()
    assert library.rescan().indexed == 0


def test_a_file_removed_from_a_folder_that_stays_does_not_come_back(library: SmallLibrary) -> None:
    path = library.write("a.md")
    library.write("b.md")
    library.add()

    assert library.indexer.remove([str(path)]) == 1
    library.rescan()
    assert library.states() == {"b.md": "indexed"}

    library.add(path)
    assert library.states() == {"a.md": "indexed", "b.md": "indexed"}


def test_a_file_put_back_after_a_kill_between_rows_and_catalogue_is_read_again(
    library: SmallLibrary, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = library.write("a.md", "the first version")
    library.add()
    before = path.stat()
    library.write("a.md", "the second version, longer")

    def killed(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(library.catalog, "mark_indexed", killed)
        with pytest.raises(KeyboardInterrupt):
            library.rescan()
    (row,) = library.stores.table.rows_of(library.known(path).document_id)
    assert row.text == "the second version, longer"
    library.write("a.md", "the first version")
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    library.reopen()

    library.resume()

    (row,) = library.stores.table.rows_of(library.known(path).document_id)
    assert row.text == "the first version"
    assert library.states() == {"a.md": "indexed"}


def test_of_new_files_nothing_is_noted_before_their_rows(
    library: SmallLibrary, monkeypatch: pytest.MonkeyPatch
) -> None:
    library.write("a.md")
    noted = list[object]()
    mark_pending = library.catalog.mark_pending

    def watched(document_ids: Iterable[int], forget_content: bool = False) -> None:
        noted.extend(ids := list(document_ids))
        mark_pending(ids, forget_content)

    monkeypatch.setattr(library.catalog, "mark_pending", watched)
    library.add()
    assert noted == []


def test_rows_that_a_kill_left_of_a_removed_file_leave_the_disk_soon(library: SmallLibrary) -> None:
    path = library.write("a.md")
    library.add()
    library.catalog.forget(str(path))

    library.reopen()

    assert library.stores.table.is_hurried


def test_what_was_recognised_of_removed_scans_is_forgotten_at_once_and_when_their_rows_are(
    library: SmallLibrary,
) -> None:
    path, unread = library.write("a.md"), library.write("b.md", "SCAN")
    library.add()
    assert library.parser.num_forgotten == 0

    library.indexer.remove([str(path)])
    assert library.parser.num_forgotten == 1
    library.run(Forget())
    assert library.parser.num_forgotten == 2
    # Nobody waits for this.
    library.stores.table.is_removed_kept = True
    library.run(Forget())
    assert library.parser.num_forgotten == 2
    # It may have been read up to a page that failed.
    library.indexer.remove([str(unread)])
    assert library.parser.num_forgotten == 3


def test_nobody_waits_for_a_removed_file_of_which_nothing_was_indexed(library: SmallLibrary) -> None:
    unread, read = library.docs / "a.md", library.write("b.md")
    unread.write_bytes(b"")
    library.add()

    assert library.indexer.remove([str(unread)]) == 1
    assert not library.stores.table.is_hurried
    library.indexer.remove([str(read)])
    assert library.stores.table.is_hurried


def test_what_was_removed_is_not_gone_through_for_each_new_file(
    library: SmallLibrary, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Removed(frozenset[str]):
        num_passes = 0

        def __iter__(self) -> Iterator[str]:
            Removed.num_passes += 1
            return super().__iter__()

    library.write("out/a.md")
    library.add()
    library.indexer.remove([str(library.docs / "out")])
    removed = Removed(library.catalog.exclusions())
    monkeypatch.setattr(library.catalog, "exclusions", lambda: removed)
    for number in range(20):
        library.write(f"{number}.md")
        library.write(f"out/{number}.md")

    library.rescan()

    assert library.states() == {f"{number}.md": "indexed" for number in range(20)}
    assert Removed.num_passes < 10


def test_a_file_below_a_folder_removed_while_we_looked_is_not_wanted(library: SmallLibrary) -> None:
    library.catalog.add_root("Documents", str(library.docs), is_folder=True, device=1)
    library.catalog.add_root("Inner", str(library.docs / "a" / "b"), is_folder=True, device=1)
    library.catalog.add_documents([FoundFile(str(library.docs / "a" / "x.md"), 1, 1)])
    library.catalog.forget(str(library.docs / "a" / "x.md"))
    library.catalog.move_exclusion(str(library.docs / "a" / "x.md"), str(library.docs / "a"))
    is_wanted = survey._wanted(library.catalog)
    found = {name: is_wanted(str(library.docs / name)) for name in ("y.md", "a/x.md", "a/c/x.md", "a/b/x.md", "ab.md")}
    assert found == {"y.md": True, "a/x.md": False, "a/c/x.md": False, "a/b/x.md": True, "ab.md": True}


def test_removing_what_is_not_there_removes_nothing(library: SmallLibrary) -> None:
    path = library.write("a.md")
    library.add()

    with pytest.raises(NothingThere, match="elsewhere"):
        library.indexer.remove([str(path), "/elsewhere"])

    assert library.states() == {"a.md": "indexed"}


def test_a_deleted_collection_leaves_what_others_share(library: SmallLibrary) -> None:
    library.write("a.md")
    library.write("shared/b.md")
    library.add(collection="Work")
    library.add(library.docs / "shared", collection="Home")

    assert library.indexer.remove_collection("Work") == 1
    assert library.states() == {"shared/b.md": "indexed"}


def test_reindexing_reads_again_and_embeds_nothing_twice(library: SmallLibrary) -> None:
    path = library.write("a.md")
    broken = library.write("b.md", "BROKEN")
    library.write("c.md")
    library.add()
    library.forget_what_was_embedded()

    finished = library.reindex(path, broken)

    assert library.parser.paths_read == [str(path), str(broken), str(broken)]
    assert (finished.indexed, len(finished.failed), library.embedded) == (1, 1, [])


def test_reindexing_what_is_not_in_the_library_is_refused(library: SmallLibrary) -> None:
    with pytest.raises(NothingThere):
        library.reindex(library.docs)


def test_small_files_share_batches_and_large_ones_are_embedded_in_steps(library: SmallLibrary) -> None:
    for number in range(40):
        library.write(f"{number:02}.md")
    library.write("large.md", *(f"line {number}" for number in range(3 * WINDOW_CHUNKS)))

    library.add()

    calls = library.stores.embedder.calls
    assert sum(calls) == 40 + 3 * WINDOW_CHUNKS
    assert max(calls) == PORTION_CHUNKS
    assert len(calls) <= 40 + 3 * WINDOW_CHUNKS / PORTION_CHUNKS


def test_each_batch_is_embedded_in_the_order_of_length(library: SmallLibrary) -> None:
    library.write("a.md", *("x" * (number * 37 % 100 + 1) + str(number) for number in range(100)))

    library.add()

    lengths = [len(text) for text in library.embedded]
    assert lengths == sorted(lengths, reverse=True)


def test_progress_counts_up_to_all_documents_and_names_files(library: SmallLibrary) -> None:
    for number in range(5):
        library.write(f"{number}.md", "a" * number + "x", "b" * number + "y")
    library.write("broken.md", "BROKEN")

    library.add()

    last = library.progress[-1]
    assert (last.documents_done, last.documents_total, last.chunks_done) == (6, 6, 10)
    done = [step.documents_done for step in library.progress]
    assert done == sorted(done)
    assert any(step.current.endswith("0.md") for step in library.progress)
    assert library.progress[0].current == str(library.docs)


def test_shards_follow_arrival_and_removals_do_not_reopen_them(
    library: SmallLibrary, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recording, "CHUNKS_PER_SHARD", 3)
    first = library.write("a.md", "1", "2")
    library.add()
    second = library.write("b.md", "3", "4")
    library.rescan()
    first_rows = library.stores.table.rows[library.known(first).document_id]
    second_rows = library.stores.table.rows[library.known(second).document_id]
    library.indexer.remove([str(first)])
    third = library.write("c.md", "5")
    library.rescan()

    assert {row.shard for row in first_rows} == {row.shard for row in second_rows} == {0}
    assert [row.shard for row in library.stores.table.rows[library.known(third).document_id]] == [1]


def test_a_cancelled_job_keeps_what_is_done(library: SmallLibrary) -> None:
    for number in range(4):
        library.write(f"{number}.md", *(f"{number} {line}" for line in range(WINDOW_CHUNKS)))
    cancelled = threading.Event()
    embed = library.stores.embedder.embed_documents

    def embed_and_cancel(texts: list[str]) -> object:
        if len(library.stores.embedder.calls) == WINDOW_CHUNKS // PORTION_CHUNKS:
            cancelled.set()
        if cancelled.is_set():
            # As a real one takes its time, so that the job notices.
            time.sleep(0.2)
        return embed(texts)

    library.stores.embedder.embed_documents = embed_and_cancel  # type: ignore[method-assign,assignment]
    finished = library.add(cancelled=cancelled)

    assert finished.was_cancelled
    assert 1 <= finished.indexed < 4
    assert list(library.states().values()).count("indexed") == finished.indexed
    library.stores.embedder.embed_documents = embed  # type: ignore[method-assign]
    assert library.resume().indexed == 4 - finished.indexed
    done = [(step.documents_done, step.documents_total) for step in library.progress if step.documents_total]
    assert done[0] == (finished.indexed, 4)
    assert done[-1] == (4, 4)


def test_a_job_cancelled_while_a_file_is_read_does_not_wait_for_it(library: SmallLibrary) -> None:
    library.write("slow.md")
    library.parser.gate.clear()
    cancelled = threading.Event()
    threading.Thread(target=lambda: (library.parser.began.wait(), cancelled.set()), daemon=True).start()

    finished = library.add(cancelled=cancelled)

    assert finished.was_cancelled
    assert library.states() == {"slow.md": "pending"}


def test_a_job_that_is_left_ends_its_threads(library: SmallLibrary) -> None:
    library.write("slow.md")
    library.parser.gate.clear()
    library.catalog.add_root("Documents", str(library.docs), is_folder=True, device=library.docs.stat().st_dev)
    steps = library.indexer.run(IndexRoots(None), threading.Event())
    while not library.parser.began.is_set():
        next(steps)

    steps.close()

    assert not [thread for thread in threading.enumerate() if thread.name.startswith("read-ahead")]


@pytest.mark.parametrize(
    ("fault", "told"),
    [
        (DiskFull("The disk is full.", "Free some space."), DiskFull),
        (EmbedderUnavailable("No model."), EmbedderUnavailable),
        (LibraryError("The index is odd."), LibraryError),
    ],
)
def test_what_concerns_all_files_stops_the_job_and_the_rest_stays_pending(
    library: SmallLibrary, monkeypatch: pytest.MonkeyPatch, fault: Exception, told: type[Exception]
) -> None:
    library.write("a.md")
    library.add()
    library.write("b.md")
    with monkeypatch.context() as patch:
        patch.setattr(library.stores.table, "put_documents", _raiser(fault))
        with pytest.raises(told):
            library.rescan()

    assert library.states() == {"a.md": "indexed", "b.md": "pending"}
    assert library.resume().indexed == 1


def test_a_full_disk_while_reading_stops_the_job(library: SmallLibrary, monkeypatch: pytest.MonkeyPatch) -> None:
    library.write("a.md")
    with monkeypatch.context() as patch:
        patch.setattr(library.parser, "read", _raiser(OSError(errno.ENOSPC, "No space left on device")))
        with pytest.raises(DiskFull, match=r"full.*Free"):
            library.add()

    assert library.states() == {"a.md": "pending"}


def test_what_there_is_no_room_to_unpack_keeps_what_was_read_of_it_and_holds_up_nobody(
    library: SmallLibrary, monkeypatch: pytest.MonkeyPatch
) -> None:
    library.write("packed.zip", "as it was")
    library.add()
    library.write("packed.zip", "changed")
    library.write("z.md")
    read = library.parser.read

    def read_or_find_no_room(path: str, *args: object) -> object:
        if path.endswith(".zip"):
            raise DiskFull("There was no room to unpack it.", "Free some space.")
        return read(path, *args)  # type: ignore[arg-type]

    with monkeypatch.context() as patch:
        patch.setattr(library.parser, "read", read_or_find_no_room)
        finished = library.add()

    assert (finished.indexed, finished.failed) == (1, ())
    assert library.states() == {"packed.zip": "offline", "z.md": "indexed"}
    packed = library.known(library.docs / "packed.zip")
    assert "There was no room to unpack it. Free some space." in packed.reason
    assert [row.text for row in library.stores.table.rows[packed.document_id]] == ["as it was"]

    assert library.add().indexed == 1
    assert library.states() == {"packed.zip": "indexed", "z.md": "indexed"}


def test_a_document_removed_while_it_is_indexed_does_not_come_back(library: SmallLibrary) -> None:
    path = library.write("a.md", *(f"line {number}" for number in range(2 * PORTION_CHUNKS)))
    library.catalog.add_root("Documents", str(library.docs), is_folder=True, device=library.docs.stat().st_dev)
    embed, gate = library.stores.embedder.embed_documents, threading.Event()

    def embed_when_allowed(texts: list[str]) -> object:
        vectors = embed(texts)
        gate.wait()
        return vectors

    library.stores.embedder.embed_documents = embed_when_allowed  # type: ignore[method-assign,assignment]
    steps = library.indexer.run(IndexRoots(None), threading.Event())
    while not library.embedded:
        next(steps)

    assert library.indexer.remove([str(path)]) == 1
    gate.set()
    for _ in steps:
        pass

    assert library.states() == {}
    assert library.stores.table.rows == {}


def test_a_folder_removed_while_it_is_looked_at_leaves_nothing(library: SmallLibrary) -> None:
    library.write("a.md")
    library.write("sub/b.md")
    library.catalog.add_root("Documents", str(library.docs), is_folder=True, device=library.docs.stat().st_dev)
    steps = library.indexer.run(IndexRoots(None), threading.Event())
    next(steps)

    assert library.indexer.remove([str(library.docs)]) == 0
    for _ in steps:
        pass

    assert library.states() == {}
    assert library.catalog.roots() == ()


def test_reconciling_drops_orphans_and_reads_again_what_lost_its_rows(library: SmallLibrary) -> None:
    library.write("a.md")
    path = library.write("b.md")
    library.add()
    table, lost = library.stores.table, library.known(path).document_id
    rows = table.rows.pop(lost)
    table.rows[9999] = rows
    library.forget_what_was_embedded()

    library.reopen()

    assert 9999 not in table.rows
    assert library.states() == {"a.md": "indexed", "b.md": "pending"}
    assert library.resume().indexed == 1
    assert library.embedded == ["The text of b.md."]


def _lose_catalogue(library: SmallLibrary) -> None:
    """As when it was moved away, the way out of a damaged one."""
    library.catalog.close()
    (library.home / CATALOG_NAME).unlink()
    library.open()
    library.indexer.reconcile()
    library.forget_what_was_embedded()


def test_a_lost_catalogue_costs_no_vector(library: SmallLibrary) -> None:
    library.write("a/one.md", "one", "two")
    library.write("b/two.md", "three")
    library.add()
    rows = library.stores.table.rows.copy()

    _lose_catalogue(library)
    library.resume()
    library.reopen()
    assert library.stores.table.rows == rows

    with pytest.MonkeyPatch.context() as patch:
        # Killed before anything is entered.
        patch.setattr(library.catalog, "add_documents", _killed)
        with pytest.raises(Killed):
            library.add()
    library.reopen()
    assert library.stores.table.rows == rows

    assert library.resume().indexed == 2
    assert library.embedded == []
    assert not library.catalog.is_beginning
    library.check()


def test_what_a_lost_catalogue_left_stays_while_a_folder_is_out_of_reach(library: SmallLibrary, tmp_path: Path) -> None:
    library.write("a/one.md", "one")
    library.write("b/two.md", "two")
    library.add()
    _lose_catalogue(library)
    (library.docs / "b").rename(tmp_path / "away")
    library.catalog.add_root("Documents", str(library.docs / "b"), is_folder=True, device=1)
    assert library.add(library.docs / "a").indexed == 1
    assert library.rescan().unchanged == 1
    library.reopen()
    assert len(library.stores.table.rows) == 3

    (tmp_path / "away").rename(library.docs / "b")
    assert library.rescan().indexed == 1
    assert library.embedded == []
    library.check()


def test_of_what_a_user_removed_nothing_is_kept_for_a_lost_catalogue(library: SmallLibrary) -> None:
    library.write("a.md", "one")
    removed = library.write("b.md", "two")
    library.add()
    _lose_catalogue(library)
    # So that the beginning is not over.
    library.catalog.add_root("Documents", str(library.docs / "away"), is_folder=True, device=1)
    library.rescan()
    library.add(removed)
    document_id = library.known(removed).document_id
    library.catalog.forget(str(removed))
    assert len(library.stores.table.rows) == 3

    library.reopen()

    assert library.catalog.is_beginning
    assert len(library.stores.table.rows) == 2
    assert document_id not in library.stores.table.rows
    library.catalog.end_beginning()
    library.reopen()


def _set_table_aside(library: SmallLibrary, *unreadable: int) -> None:
    """As when one of its files was found to be damaged; of these documents nothing can be read any more."""
    table = library.stores.table
    table.rows_aside = {one: rows for one, rows in table.rows.items() if one not in unreadable}
    table.rows = {}
    table.is_set_aside_dropped = False
    library.forget_what_was_embedded()
    library.reopen()


def test_what_can_be_read_of_a_table_that_is_set_aside_is_not_read_again(library: SmallLibrary, tmp_path: Path) -> None:
    gone, kept, here, damaged = (library.write(f"{name}/a.md", name) for name in ("gone", "kept", "here", "damaged"))
    library.add(*(path.parent for path in (gone, kept, here, damaged)))
    before = {path: library.known(path) for path in (gone, kept, here, damaged)}
    gone.parent.rename(tmp_path / "away")
    kept.unlink()
    library.rescan()
    library.catalog.keep_gone([before[kept].document_id])
    rows = library.stores.table.rows.copy()

    _set_table_aside(library, before[damaged].document_id)

    assert library.stores.table.rows.keys() == rows.keys() - {before[damaged].document_id}
    assert library.states() == {
        "gone/a.md": "offline",
        "kept/a.md": "offline",
        "here/a.md": "indexed",
        "damaged/a.md": "pending",
    }
    assert all(library.known(path).num_chunks == 1 for path in (gone, kept, here))
    library.resume()
    assert (library.embedded, library.states()["damaged/a.md"]) == (["damaged"], "indexed")
    assert library.stores.table.is_set_aside_dropped


def test_a_table_that_is_set_aside_stays_while_a_document_of_it_is_out_of_reach(
    library: SmallLibrary, tmp_path: Path
) -> None:
    library.write("here/b.md", "two")
    away = library.write("away/a.md", "one")
    library.add(library.docs / "here", library.docs / "away")
    document_id = library.known(away).document_id
    away.parent.rename(tmp_path / "away")
    library.rescan()

    _set_table_aside(library, document_id)
    library.resume()
    library.rescan()

    assert library.states() == {"here/b.md": "indexed", "away/a.md": "offline"}
    assert not library.stores.table.is_set_aside_dropped
    (tmp_path / "away").rename(away.parent)
    library.rescan()
    assert library.states()["away/a.md"] == "indexed"
    assert library.stores.table.is_set_aside_dropped


def test_what_is_out_of_reach_stays_where_the_newest_rows_were_lost(library: SmallLibrary, tmp_path: Path) -> None:
    away, here = library.write("away/a.md", "one"), library.write("here/b.md", "two")
    library.add(away.parent, here.parent)
    away.parent.rename(tmp_path / "away")
    library.rescan()
    library.stores.table.went_back_to_ns = 0
    library.forget_what_was_embedded()

    library.reopen()

    known = library.known(away)
    assert (known.state, known.num_chunks) == ("offline", 1)
    assert library.known(here).num_chunks == 0
    assert library.stores.table.rows_of(known.document_id)
    # Once it is there it is read again, as nobody can tell whether the rows are those of its last version.
    (tmp_path / "away").rename(away.parent)
    library.rescan()
    assert sorted(library.parser.paths_read) == [str(away), str(here)]
    assert library.embedded == []


def test_vectors_are_those_of_what_is_indexed(library: SmallLibrary) -> None:
    path = library.write("a.md", "one")
    library.add()

    (row,) = library.stores.table.rows[library.known(path).document_id]

    assert (row.vector == vector_of("one")).all()
    assert (row.text, row.indexed_text, row.ordinal) == ("one", "one", 0)


def _killed(*_: object, **__: object) -> object:
    raise Killed


def _raiser(error: Exception) -> Callable[..., object]:
    def fail(*_: object, **__: object) -> object:
        raise error

    return fail


# --- what OCR can read ---


def test_scans_are_read_when_ocr_has_come_and_not_before(library: SmallLibrary) -> None:
    scan = library.write("scan.txt", "SCAN", "The notice period.")
    library.write("note.txt", "A note.")
    library.add()
    assert (library.known(scan).state, library.known(scan).needs) == ("skipped", "ocr")

    library.forget_what_was_embedded()
    library.rescan()
    assert library.parser.paths_read == []

    library.parser.has_ocr = True
    library.rescan()

    assert library.parser.paths_read == [str(scan)]
    assert (library.known(scan).state, library.known(scan).needs) == ("indexed", "")
    library.forget_what_was_embedded()
    library.rescan()
    assert library.parser.paths_read == []


def test_what_was_only_noticed_is_not_worth_tidying_up_for(library: SmallLibrary) -> None:
    library.add()
    tidied = library.stores.table.num_optimized
    library.refresh(library.write("new.md", "New."))
    assert library.stores.table.num_optimized == tidied
    library.write("newer.md", "Newer.")
    library.rescan()
    assert library.stores.table.num_optimized == tidied + 1


def test_a_run_goes_on_where_there_is_no_room_to_tidy_up_in_passing(
    library: SmallLibrary, monkeypatch: pytest.MonkeyPatch
) -> None:
    library.add()
    tried: list[bool] = []

    def refuse() -> None:
        tried.append(True)
        raise DiskFull("The disk is full.")

    monkeypatch.setattr(library.stores.table, "is_optimize_due", lambda *, more_comes=False: more_comes)
    monkeypatch.setattr(library.stores.table, "optimize", refuse)
    new = library.write("new.md", "New.")
    library.refresh(new)
    assert tried
    assert library.known(new).state == "indexed"
    # Nor does one that was asked for fail at its end, when all is written.
    tried.clear()
    newer = library.write("newer.md", "Newer.")
    library.rescan()
    assert tried
    assert library.known(newer).state == "indexed"


def test_what_needs_more_than_ocr_is_not_read_at_every_look(library: SmallLibrary) -> None:
    scan = library.write("scan.txt", "SCAN", "The notice period.")
    library.add()
    library.parser.can_ocr = lambda languages: True  # type: ignore[method-assign]
    library.rescan()
    assert library.known(scan).needs == "ocr"
    library.parser.paths_read.clear()

    library.rescan()

    assert library.parser.paths_read == []


def test_scans_are_read_when_a_language_is_chosen_that_is_installed(library: SmallLibrary) -> None:
    scan = library.write("scan.txt", "SCAN", "Die Kündigungsfrist.")
    library.settings = LibrarySettings(ocr_languages=("deu",))
    asked: list[tuple[str, ...]] = []
    library.parser.can_ocr = lambda languages: asked.append(tuple(languages)) or "eng" in languages  # type: ignore
    library.add()
    library.rescan()
    assert (library.known(scan).state, library.known(scan).needs) == ("skipped", "ocr")

    library.settings = LibrarySettings(ocr_languages=("eng",))
    library.parser.has_ocr = True
    library.rescan()

    assert asked[-2:] == [("deu",), ("eng",)]
    assert library.known(scan).state == "indexed"


def test_a_start_after_ocr_has_come_reads_scans(library: SmallLibrary) -> None:
    scan = library.write("scan.txt", "SCAN", "The notice period.")
    library.add()

    library.reopen()
    library.parser.has_ocr = True
    library.resume()

    assert library.known(scan).state == "indexed"


# --- drives that fail, halves of characters, jobs that are cancelled ---


def failing_drive(monkeypatch: pytest.MonkeyPatch, name: str, error: int) -> None:
    monkeypatch.setattr(f"engine.library.reading.{name}", _raiser(OSError(error, os.strerror(error))))


@pytest.mark.parametrize("error", [errno.ENOTCONN, errno.EIO, errno.ESTALE, errno.ETIMEDOUT])
@pytest.mark.parametrize("step", ["look_at", "content_hash"])
def test_a_drive_that_fails_while_it_is_read_costs_nothing(
    library: SmallLibrary, monkeypatch: pytest.MonkeyPatch, error: int, step: str
) -> None:
    stored = library.write("stored.md", "old")
    library.add()
    rows = library.stores.table.rows[library.known(stored).document_id]
    stored.write_text("changed and longer")
    fresh = library.write("fresh.md", "fresh")

    with monkeypatch.context() as patch:
        failing_drive(patch, step, error)
        finished = library.rescan()

    assert library.states() == {"stored.md": "offline", "fresh.md": "offline"}
    assert os.strerror(error) in library.known(stored).reason
    assert library.stores.table.rows == {library.known(stored).document_id: rows}
    assert {path for path, _ in finished.skipped} == {str(stored), str(fresh)}
    assert finished.failed == ()

    assert library.rescan().indexed == 2
    assert library.states() == {"stored.md": "indexed", "fresh.md": "indexed"}


@pytest.mark.parametrize("step", ["look_at", "content_hash"])
def test_what_a_parser_says_of_a_drive_that_fails_meanwhile_is_not_believed(
    library: SmallLibrary, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    library.write("a.md", "old")
    library.add()
    library.write("a.md", "changed and longer")

    def failing(*_: object, **__: object) -> object:
        failing_drive(patch, step, errno.EIO)
        raise DocumentUnreadable("The file seems to be damaged.")

    with monkeypatch.context() as patch:
        patch.setattr(library.parser, "read", failing)
        assert library.rescan().failed == ()

    assert library.states() == {"a.md": "offline"}
    assert len(library.stores.table.rows) == 1
    assert library.rescan().indexed == 1


def test_a_file_that_the_parser_calls_damaged_has_failed_where_it_can_be_read(
    library: SmallLibrary, monkeypatch: pytest.MonkeyPatch
) -> None:
    library.write("a.md")
    monkeypatch.setattr(library.parser, "read", _raiser(DocumentUnreadable("The file seems to be damaged.")))

    assert [reason for _, reason in library.add().failed] == ["The file seems to be damaged."]


def test_halves_of_characters_are_stored_as_what_stands_for_them(
    library: SmallLibrary, monkeypatch: pytest.MonkeyPatch
) -> None:
    half = "a \ud800 b"
    chunk = Chunk(0, None, 0, len(half), half, half, half)
    read = ReadDocument("text", half, 0, (chunk,), half)
    path = library.write("a.ipynb")
    with monkeypatch.context() as patch:
        patch.setattr(library.parser, "read", lambda *_: read)
        assert library.add().indexed == 1

    document = library.known(path)
    assert (document.title, document.reason) == ("a \ufffd b", "a \ufffd b")
    (row,) = library.stores.table.rows[document.document_id]
    assert (row.text, row.heading, row.place) == ("a \ufffd b",) * 3


def test_halves_of_characters_in_a_refusal_stop_nothing(library: SmallLibrary, monkeypatch: pytest.MonkeyPatch) -> None:
    path = library.write("a.md")
    with monkeypatch.context() as patch:
        patch.setattr(library.parser, "read", _raiser(DocumentEncrypted("“\udfff” is locked.")))
        library.add()

    assert (library.known(path).reason, library.known(path).needs) == ("“\ufffd” is locked.", "password")


def test_only_scans_below_the_folders_that_are_looked_at_are_read(library: SmallLibrary) -> None:
    scan = library.write("scans/scan.txt", "SCAN")
    library.write("notes/note.txt", "A note.")
    library.add(library.docs / "scans")
    library.parser.has_ocr = True

    library.add(library.docs / "notes")
    assert (library.known(scan).state, library.known(scan).needs) == ("skipped", "ocr")

    library.rescan()
    assert library.known(scan).state == "indexed"


def test_reading_again_passes_over_what_was_removed_meanwhile(library: SmallLibrary) -> None:
    here, gone = library.write("here.md"), library.write("gone.md")
    library.add()
    gone.unlink()
    library.rescan()

    library.reindex(gone, here)

    assert library.parser.paths_read[-1] == str(here)


def test_an_engine_that_ends_while_a_lone_file_is_embedded_raises_no_suspicion(
    library: SmallLibrary, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = library.write("large.md")

    def ending(_: object) -> object:
        library.catalog.judge_crashes()
        raise EmbedderUnavailable("The power failed.")

    with monkeypatch.context() as patch:
        patch.setattr(library.stores.embedder, "embed_documents", ending)
        for _ in range(3):
            with pytest.raises(EmbedderUnavailable):
                library.add()
    library.reopen()

    assert library.catalog.suspects() == {}
    assert library.known(path).state == "pending"
