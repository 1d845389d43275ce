"""Tests for engine.library.survey and its neighbours: what is renamed, moved, copied or unlinked is not embedded again.

Each change is made while the watcher listens (a look at just these places) and while the engine is off (a rescan).
"""

from __future__ import annotations

import os
import shutil
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from engine.catalog import GONE_AT_ONCE, KEPT, Catalog, Root
from engine.config import IGNORE_FILE
from engine.errors import NothingThere
from engine.library import findings, indexer, moves, root_looks, scanner, survey
from engine.library.indexer import Indexer
from engine.library.jobs import Refresh
from engine.library.moves import is_surely_gone, new_place
from tests.helpers.indexing import SmallLibrary

Look = Callable[..., object]


@pytest.fixture(params=["listening", "rescan"])
def look(request: pytest.FixtureRequest, library: SmallLibrary) -> Look:
    """Takes in what changed at the paths: by a look at just these, or at everything."""
    return library.refresh if request.param == "listening" else lambda *paths: library.rescan()


def fill(library: SmallLibrary, folder: str, count: int) -> list[Path]:
    return [library.write(f"{folder}/{number:04}.md", f"Text {number} of {folder}.") for number in range(count)]


def test_renaming_a_folder_of_a_thousand_files_embeds_nothing(library: SmallLibrary, look: Look) -> None:
    fill(library, "old", 1000)
    library.add()
    ids = library.catalog.ids_with_rows()
    library.forget_what_was_embedded()

    (library.docs / "old").rename(library.docs / "new")
    look(library.docs / "new", library.docs / "old")

    assert library.embedded == library.parser.paths_read == []
    assert library.catalog.ids_with_rows() == ids
    assert {os.path.dirname(path) for path in library.states()} == {"new"}


def test_files_that_swap_their_names_embed_nothing(library: SmallLibrary, look: Look) -> None:
    a, b = library.write("a.md", "one", "two"), library.write("b.md", "three")
    library.add()
    library.forget_what_was_embedded()

    a.rename(library.docs / "c")
    b.rename(a)
    (library.docs / "c").rename(b)
    look(a, b, library.docs / "c")

    assert library.embedded == []
    assert [row.text for row in library.stores.table.rows[library.known(b).document_id]] == ["one", "two"]


def test_swapped_files_of_one_size_and_age_are_told_apart_when_heard(library: SmallLibrary) -> None:
    a, b = library.write("a.md", "one"), library.write("b.md", "two")
    for path in (a, b):
        os.utime(path, ns=(5, 5))
    library.add()
    library.forget_what_was_embedded()

    a.rename(library.docs / "c")
    b.rename(a)
    (library.docs / "c").rename(b)
    library.refresh(a, b)

    assert library.embedded == []
    assert [row.text for row in library.stores.table.rows[library.known(a).document_id]] == ["two"]


def test_files_whose_names_go_round_embed_nothing(library: SmallLibrary, look: Look) -> None:
    log, first, second = (library.write(f"log{end}", f"Log {end}") for end in ("", ".1", ".2"))
    library.add()
    ids = [library.known(path).document_id for path in (log, first, second)]
    library.forget_what_was_embedded()

    first.rename(second)
    log.rename(first)
    library.write("log", "A new day")
    look(second, first, log)

    assert library.embedded == ["A new day"]
    assert [library.known(path).document_id for path in (first, second)] == ids[:2]
    assert library.catalog.document(ids[2]) is None
    assert len(library.stores.table.rows) == 3


def test_a_file_moved_over_another_takes_its_place(library: SmallLibrary, look: Look) -> None:
    a, b = library.write("a.md", "one"), library.write("b.md", "two")
    library.add()
    moved = library.known(b).document_id
    library.forget_what_was_embedded()

    b.rename(a)
    look(a, b)

    assert library.embedded == library.parser.paths_read == []
    assert library.states() == {"a.md": "indexed"}
    assert library.known(a).document_id == moved


def test_a_move_between_two_linked_folders_keeps_the_document(
    library: SmallLibrary, look: Look, tmp_path: Path
) -> None:
    path = library.write("a.md")
    library.write("stays.md")
    other = tmp_path / "other"
    other.mkdir()
    library.add()
    library.add(other, collection="Work")
    moved = library.known(path).document_id
    library.forget_what_was_embedded()

    path.rename(other / "a.md")
    look(other / "a.md", path)

    assert library.embedded == []
    assert library.known(other / "a.md").document_id == moved
    assert library.known(other / "a.md").collections == ("Work",)


def test_a_copy_is_a_document_of_its_own_and_embeds_nothing(library: SmallLibrary, look: Look) -> None:
    path = library.write("a.md", "one")
    library.add()
    library.forget_what_was_embedded()

    shutil.copy2(path, library.docs / "b.md")
    look(library.docs / "b.md")

    assert library.embedded == []
    assert library.states() == {"a.md": "indexed", "b.md": "indexed"}


def test_a_changed_file_embeds_what_is_new_in_it(library: SmallLibrary, look: Look) -> None:
    path = library.write("a.md", "one", "two")
    library.add()
    library.forget_what_was_embedded()

    library.write("a.md", "one", "three")
    look(path)

    assert library.embedded == ["three"]


def test_a_removed_file_leaves_and_a_new_one_comes(library: SmallLibrary, look: Look) -> None:
    path = library.write("a.md")
    library.write("stays.md")
    library.add()

    path.unlink()
    library.write("sub/new.md")
    look(path, library.docs / "sub")

    assert library.states() == {"stays.md": "indexed", "sub/new.md": "indexed"}


def test_a_folder_moved_away_stays_answerable_and_comes_back_without_being_read(
    library: SmallLibrary, look: Look, tmp_path: Path
) -> None:
    paths = fill(library, "sub", 3)
    library.add()
    rows = dict(library.stores.table.rows)
    library.forget_what_was_embedded()

    library.docs.rename(tmp_path / "away")
    look(library.docs)
    assert library.known(paths[0]).state == "offline"
    assert set(library.states().values()) == {"offline"}
    assert library.stores.table.rows == rows
    (linked,) = library.catalog.linked_folders()
    assert "not there" in linked.root.absence
    assert (linked.num_documents, linked.num_gone) == (3, 0)

    (tmp_path / "away").rename(library.docs)
    look(library.docs)
    assert set(library.states().values()) == {"indexed"}
    assert library.embedded == library.parser.paths_read == []
    assert library.catalog.roots()[0].absence == ""


def test_something_heard_in_a_folder_that_has_just_gone_takes_it_for_gone_not_for_emptied(
    library: SmallLibrary, tmp_path: Path
) -> None:
    paths = fill(library, "sub", 3)
    library.add()
    library.docs.rename(tmp_path / "away")

    library.refresh(*paths)

    assert {library.known(path).state for path in paths} == {"offline"}


@pytest.mark.parametrize("is_deleted", [False, True])
def test_a_folder_that_goes_while_it_is_looked_at_is_decided_about_at_the_next_look(
    library: SmallLibrary, look: Look, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_deleted: bool
) -> None:
    fill(library, "stays", 3)
    (path,) = fill(library, "sub", 1)
    library.add()
    library.forget_what_was_embedded()
    folder, scandir = library.docs / "sub", os.scandir

    def going(at: str) -> object:
        if at == str(folder):
            folder.rename(tmp_path / "away")
            monkeypatch.setattr(os, "scandir", scandir)
        return scandir(at)

    monkeypatch.setattr(os, "scandir", going)
    look(folder)
    assert library.known(path).state == "offline"

    if not is_deleted:
        (tmp_path / "away").rename(folder)
    look(folder)
    assert library.states().get("sub/0000.md") == (None if is_deleted else "indexed")
    assert library.embedded == []


def test_a_linked_folder_added_under_its_new_name_is_the_same_folder(library: SmallLibrary, tmp_path: Path) -> None:
    fill(library, "sub", 3)
    library.add(collection="Work")
    ids = library.catalog.ids_with_rows()
    library.forget_what_was_embedded()
    renamed = tmp_path / "renamed"
    library.docs.rename(renamed)
    library.rescan()

    library.add(renamed)

    assert library.embedded == library.parser.paths_read == []
    assert library.catalog.ids_with_rows() == ids
    assert {(root.collection, root.path) for root in library.catalog.roots()} == {
        ("Documents", str(renamed)),
        ("Work", str(renamed)),
    }
    assert set(library.catalog.documents_by_state().items()) >= {("indexed", 3), ("offline", 0)}


def test_a_renamed_folder_added_to_its_own_collection_is_there_once(library: SmallLibrary, tmp_path: Path) -> None:
    fill(library, "sub", 3)
    library.add()
    renamed = tmp_path / "renamed"
    library.docs.rename(renamed)

    library.add(renamed)

    assert [root.path for root in library.catalog.roots()] == [str(renamed)]


def test_a_copy_of_a_folder_whose_drive_is_away_leaves_that_folder_alone(
    library: SmallLibrary, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    paths = fill(library, "sub", 3)
    library.add()
    shutil.copytree(library.docs, tmp_path / "copy")
    library.docs.rename(tmp_path / "away")
    monkeypatch.setattr(moves, "is_surely_gone", lambda root: False)
    library.forget_what_was_embedded()

    library.add(tmp_path / "copy")

    assert library.embedded == []
    assert {library.known(path).state for path in paths} == {"indexed"}
    assert library.catalog.documents_by_state()["indexed"] == 6


def test_a_root_is_surely_gone_only_where_its_drive_is_there(library: SmallLibrary) -> None:
    library.write("a.md")
    library.add()
    (root,) = library.catalog.roots()
    assert not is_surely_gone(root)
    library.docs.rename(library.docs.with_name("away"))

    assert is_surely_gone(root)
    library.catalog.mark_surveyed(root, device=root.device + 1)
    assert not is_surely_gone(library.catalog.roots()[0])


def test_where_a_root_went_is_known_only_if_all_its_files_went_there(library: SmallLibrary) -> None:
    one, two = fill(library, "sub", 2)
    library.add()
    (root,) = library.catalog.roots()
    was = [library.known(one), library.known(two)]

    def found(path: str) -> scanner.FoundFile:
        return scanner.FoundFile(path, 1, 1)

    together = [(was[0], found("/new/sub/0000.md")), (was[1], found("/new/sub/0001.md"))]
    assert new_place(root, together) == "/new"
    assert new_place(root, [together[0], (was[1], found("/other/sub/0001.md"))]) is None
    assert new_place(root, [together[0], (was[1], found("/new/sub/other.md"))]) is None


def test_a_renamed_file_is_found_where_case_does_not_matter(
    library: SmallLibrary, look: Look, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = library.write("lease.md", "one")
    library.add()
    document_id = library.known(path).document_id
    library.forget_what_was_embedded()
    renamed = library.docs / "LEASE.MD"
    path.rename(renamed)
    lexists = os.path.lexists
    # As a file system answers that takes no notice of case.
    monkeypatch.setattr(
        os.path, "lexists", lambda path: lexists(renamed) if str(path).endswith("lease.md") else lexists(path)
    )
    samefile = os.path.samefile
    monkeypatch.setattr(os.path, "samefile", lambda a, b: str(a).casefold() == str(b).casefold() or samefile(a, b))

    look(renamed, path)

    assert library.states() == {"LEASE.MD": "indexed"}
    assert library.known(renamed).document_id == document_id
    assert library.embedded == []


def test_changed_ignore_rules_let_documents_leave_and_return(library: SmallLibrary, look: Look) -> None:
    fill(library, "logs", 30)
    library.write("a.md")
    shutil.copy2(library.docs / "logs" / "0007.md", library.docs / "kept.md")
    library.add()
    library.forget_what_was_embedded()

    library.write(IGNORE_FILE, "logs/")
    look(library.docs / "logs")
    assert library.states() == {"a.md": "indexed", "kept.md": "indexed"}
    assert len(library.stores.table.rows) == 2

    (library.docs / IGNORE_FILE).unlink()
    look(library.docs / "logs")
    assert len(library.states()) == 32
    assert len(library.embedded) == 29


def test_more_than_half_gone_at_once_is_kept_until_the_user_decides(library: SmallLibrary, look: Look) -> None:
    paths = fill(library, "sub", 30)
    library.write("stays.md")
    library.add()

    shutil.rmtree(library.docs / "sub")
    look(library.docs / "sub")

    assert {library.known(path).reason for path in paths} == {GONE_AT_ONCE}
    (linked,) = library.catalog.linked_folders()
    assert (linked.num_documents, linked.num_gone, linked.root.absence) == (31, 30, "")


def test_removing_what_went_missing_leaves_nothing_of_it(library: SmallLibrary) -> None:
    fill(library, "sub", 30)
    library.write("stays.md")
    library.add()
    shutil.rmtree(library.docs / "sub")
    library.rescan()

    assert library.indexer.settle_gone(str(library.docs), remove=True) == 30

    assert library.states() == {"stays.md": "indexed"}
    assert len(library.stores.table.rows) == 1
    library.rescan()
    assert library.states() == {"stays.md": "indexed"}
    with pytest.raises(NothingThere, match="waits for a decision"):
        library.indexer.settle_gone(str(library.docs), remove=True)


def test_keeping_what_went_missing_is_not_asked_again_until_it_returns(library: SmallLibrary) -> None:
    paths = fill(library, "sub", 30)
    library.write("stays.md")
    library.add()
    library.forget_what_was_embedded()
    shutil.copytree(library.docs / "sub", library.docs.with_name("aside"))
    shutil.rmtree(library.docs / "sub")
    library.rescan()

    assert library.indexer.settle_gone(str(library.docs), remove=False) == 0
    library.rescan()
    assert {library.known(path).reason for path in paths} == {KEPT}
    assert library.catalog.linked_folders()[0].num_gone == 0
    assert len(library.stores.table.rows) == 31

    shutil.copytree(library.docs.with_name("aside"), library.docs / "sub")
    library.refresh(library.docs / "sub")
    assert set(library.states().values()) == {"indexed"}
    assert library.embedded == []

    shutil.rmtree(library.docs / "sub")
    library.refresh(library.docs / "sub")
    assert library.catalog.linked_folders()[0].num_gone == 30


def test_what_came_back_before_the_decision_is_not_removed(library: SmallLibrary) -> None:
    fill(library, "sub", 30)
    library.write("stays.md")
    library.add()
    shutil.rmtree(library.docs / "sub")
    library.rescan()
    back = library.write("sub/0000.md", "Text 0 of sub.")

    assert library.indexer.settle_gone(str(library.docs), remove=True) == 29

    library.rescan()
    assert library.known(back).state == "indexed"


@pytest.fixture
def clock(library: SmallLibrary) -> list[float]:
    """By which the library's looks tell the time; it stands still."""
    seconds = [0.0]
    library.indexer = Indexer(
        library.catalog, library.stores, library.parser, lambda: library.settings, clock=lambda: seconds[0]
    )
    return seconds


def delete(look: Look, paths: list[Path]) -> None:
    for path in paths:
        path.unlink()
    look(*paths)


def test_a_folder_that_is_deleted_little_by_little_is_asked_about(
    library: SmallLibrary, look: Look, clock: list[float]
) -> None:
    paths = fill(library, "sub", 60)
    library.add()

    for start in (0, 15):
        delete(look, paths[start : start + 15])
        clock[0] += 1000.0
    assert len(library.states()) == 30
    # Thirty had gone: with one more it is more than half.
    for start in (30, 40, 50):
        delete(look, paths[start : start + 5])
        clock[0] += 10.0

    assert len(library.states()) == 30
    (linked,) = library.catalog.linked_folders()
    assert linked.num_gone == 15
    assert library.indexer.settle_gone(str(library.docs), remove=True) == 15
    # It was answered: from now on it is counted anew.
    delete(look, paths[35:36])
    assert len(library.states()) == 14


def test_what_is_deleted_in_the_course_of_days_is_not_asked_about(
    library: SmallLibrary, look: Look, clock: list[float]
) -> None:
    paths = fill(library, "sub", 60)
    library.add()

    for start in range(0, 60, 15):
        delete(look, paths[start : start + 14])
        clock[0] += 3600.0

    assert len(library.states()) == 4
    assert set(library.states().values()) == {"indexed"}


def test_what_comes_and_goes_is_not_counted_again_and_again(
    library: SmallLibrary, look: Look, clock: list[float]
) -> None:
    paths = fill(library, "sub", 40)
    library.add()

    for _ in range(5):
        delete(look, paths[:15])
        fill(library, "sub", 15)
        look(*paths[:15])

    delete(look, paths[:20])
    assert len(library.states()) == 20


def test_what_came_back_is_no_open_question(library: SmallLibrary, look: Look, clock: list[float]) -> None:
    paths = fill(library, "sub", 40)
    library.add()
    shutil.copytree(library.docs / "sub", library.docs.with_name("aside"))
    delete(look, paths[:30])
    assert library.catalog.linked_folders()[0].num_gone == 30

    for path in paths[:30]:
        shutil.copy2(library.docs.with_name("aside") / path.name, path)
    paths[39].unlink()
    look(library.docs / "sub")

    assert len(library.states()) == 39
    assert set(library.states().values()) == {"indexed"}


def test_what_the_user_removes_is_no_deletion(library: SmallLibrary, look: Look, clock: list[float]) -> None:
    paths = fill(library, "sub", 40)
    library.add()
    library.indexer.remove([str(path) for path in paths[:25]])
    library.write(IGNORE_FILE, "003?.md")
    look(library.docs)
    assert len(library.states()) == 5

    delete(look, paths[25:27])

    assert len(library.states()) == 3


def test_a_change_below_a_link_is_a_look_at_the_whole_folder(library: SmallLibrary, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "a.md").write_text("one")
    library.write("stays.md")
    (library.docs / "link").symlink_to(outside)
    library.add()
    (outside / "b.md").write_text("two")

    library.refresh(library.docs / "link" / "b.md")

    assert library.states() == {"stays.md": "indexed", "link/a.md": "indexed", "link/b.md": "indexed"}


def test_what_lies_behind_a_link_whose_drive_is_away_is_offline_and_not_forgotten(
    library: SmallLibrary, tmp_path: Path
) -> None:
    outside, away = tmp_path / "outside", tmp_path / "away"
    outside.mkdir()
    (outside / "a.md").write_text("one")
    library.write("stays.md")
    (library.docs / "link").symlink_to(outside)
    library.add()
    ids = library.catalog.ids_with_rows()

    outside.rename(away)
    library.rescan()
    assert library.states() == {"stays.md": "indexed", "link/a.md": "offline"}
    assert library.known(library.docs / "link" / "a.md").reason == "This link leads nowhere."

    away.rename(outside)
    library.rescan()
    assert library.states() == {"stays.md": "indexed", "link/a.md": "indexed"}
    assert library.catalog.ids_with_rows() == ids


def test_a_link_that_appears_in_a_changed_folder_brings_no_second_copy(library: SmallLibrary) -> None:
    path = library.write("sub/a.md")
    library.add()
    (library.docs / "sub" / "link.md").symlink_to(path)

    library.refresh(library.docs / "sub")

    assert library.states() == {"sub/a.md": "indexed"}


def test_a_look_at_what_belongs_to_no_folder_does_nothing(library: SmallLibrary, tmp_path: Path) -> None:
    library.write("a.md")
    library.add()
    (tmp_path / "b.md").write_text("b")

    finished = library.refresh(tmp_path / "b.md", tmp_path)

    assert (finished.indexed, finished.removed) == (0, 0)
    assert library.states() == {"a.md": "indexed"}


def test_a_look_at_one_place_tells_only_of_what_is_new(library: SmallLibrary) -> None:
    library.write("sub/bad.md", "BROKEN")
    library.add()
    library.write("sub/worse.md", "BROKEN")

    finished = library.refresh(library.docs / "sub")

    assert [os.path.basename(path) for path, _ in finished.failed] == ["worse.md"]


def test_a_file_whose_document_was_removed_while_we_looked_is_a_new_one(library: SmallLibrary, tmp_path: Path) -> None:
    path = library.write("sub/a.md")
    library.add()
    path.rename(library.docs / "b.md")
    steps = library.indexer.run(Refresh((str(library.docs / "b.md"),)), threading.Event())
    next(steps)

    library.indexer.remove([str(path)])
    for _ in steps:
        pass

    assert library.states() == {"b.md": "indexed"}


def test_what_was_removed_stays_out_when_a_folder_above_it_gets_another_name(library: SmallLibrary, look: Look) -> None:
    library.write("private/a.md")
    diary = library.write("private/diary.md")
    library.write("private/inner/c.md")
    library.add()
    library.indexer.remove([str(diary), str(library.docs / "private" / "inner")])

    (library.docs / "private").rename(library.docs / "personal")
    look(library.docs / "personal", library.docs / "private")
    assert library.states() == {"personal/a.md": "indexed"}
    library.rescan()
    assert library.states() == {"personal/a.md": "indexed"}

    # Also where it keeps its name in another folder.
    (library.docs / "archive").mkdir()
    (library.docs / "personal").rename(library.docs / "archive" / "personal")
    look(library.docs / "archive", library.docs / "personal")
    assert library.states() == {"archive/personal/a.md": "indexed"}
    library.rescan()
    assert library.states() == {"archive/personal/a.md": "indexed"}


def test_what_was_removed_stays_out_under_another_name(
    library: SmallLibrary, look: Look, tmp_path: Path, tells_when: bool
) -> None:
    fill(library, "private", 3)
    diary = library.write("diary.md")
    library.write("stays.md")
    other = tmp_path / "other"
    other.mkdir()
    library.add()
    library.add(other)
    library.indexer.remove([str(library.docs / "private"), str(diary)])
    library.forget_what_was_embedded()

    (library.docs / "private").rename(library.docs / "private-old")
    diary.rename(library.docs / "old-diary.md")
    look(library.docs / "private-old", library.docs / "old-diary.md", diary)
    library.rescan()
    assert library.states() == {"stays.md": "indexed"}
    assert library.catalog.exclusions() == {str(library.docs / "private-old"), str(library.docs / "old-diary.md")}

    # Also below another linked folder, and where only what lies in it was heard.
    (library.docs / "private-old").rename(other / "private")
    look(other / "private" / "0000.md")
    library.rescan()
    assert library.states() == {"stays.md": "indexed"}
    assert str(other / "private") in library.catalog.exclusions()
    assert library.parser.paths_read == []


def test_a_removed_folder_that_was_filled_and_renamed_stays_out(
    library: SmallLibrary, look: Look, tells_when: bool
) -> None:
    fill(library, "private", 3)
    library.write("stays.md")
    library.add()
    private = library.docs / "private"
    library.indexer.remove([str(private)])

    new = library.write("private/new.md")
    os.utime(private, ns=(5, 5))
    if not tells_when:
        # Here it takes a look to know it again.
        look(new)
    private.rename(library.docs / "private-old")
    look(library.docs / "private-old")

    assert library.states() == {"stays.md": "indexed"}


def test_what_takes_the_place_of_a_removed_folder_stays_out_as_well(
    library: SmallLibrary, look: Look, tells_when: bool
) -> None:
    fill(library, "private", 3)
    library.write("stays.md")
    library.add()
    private, old = library.docs / "private", library.docs / "private-old"
    library.indexer.remove([str(private)])

    private.rename(old)
    library.write("private/new.md")
    look(private)
    look(old)

    assert library.states() == {"stays.md": "indexed"}
    assert library.catalog.exclusions() == {str(private), str(old)}


def test_a_removed_folder_is_wanted_again_when_it_is_added_by_its_new_name(
    library: SmallLibrary, look: Look, tmp_path: Path, tells_when: bool
) -> None:
    fill(library, "private", 1)
    library.write("diary.md")
    library.write("stays.md")
    library.add()
    renamed, elsewhere = library.docs / "renamed", tmp_path / "elsewhere"
    elsewhere.mkdir()
    library.indexer.remove([str(library.docs / "private"), str(library.docs / "diary.md")])
    (library.docs / "private").rename(renamed)
    (library.docs / "diary.md").rename(elsewhere / "diary.md")

    library.catalog.add_root("Documents", str(renamed), is_folder=True, device=os.stat(renamed).st_dev)
    look(renamed)
    library.add(renamed, elsewhere)
    library.rescan()

    assert library.states() == {
        "stays.md": "indexed",
        "renamed/0000.md": "indexed",
        "../elsewhere/diary.md": "indexed",
    }


def test_what_was_removed_before_anybody_noted_what_lay_there_is_noted_by_a_look(
    library: SmallLibrary, tells_when: bool
) -> None:
    fill(library, "private", 3)
    library.write("stays.md")
    library.add()
    private = library.docs / "private"
    library.catalog.remove_documents(library.catalog.forget(str(private)))
    assert library.catalog.identities_removed() == {str(private): ""}
    library.reopen()

    library.rescan()
    private.rename(library.docs / "private-old")
    library.rescan()

    assert library.states() == {"stays.md": "indexed"}


def test_a_removed_document_of_a_share_that_does_not_answer_is_removed_all_the_same(
    library: SmallLibrary, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = library.write("a.md")
    library.write("stays.md")
    library.add()
    never = threading.Event()
    monkeypatch.setattr(root_looks, "PATIENCE_SECONDS", 0.05)
    monkeypatch.setattr(indexer, "identity_at", lambda path: never.wait(20))
    try:
        assert library.indexer.remove([str(path)]) == 1
    finally:
        never.set()
    assert library.catalog.identities_removed() == {str(path): ""}


def test_a_file_of_another_kind_by_its_new_name_is_read_anew(library: SmallLibrary, look: Look) -> None:
    path = library.write("table.txt", "a,b", "1,2")
    library.add()
    document_id = library.known(path).document_id
    library.forget_what_was_embedded()

    renamed = path.rename(path.with_suffix(".csv"))
    look(path, renamed)

    assert library.known(renamed).document_id == document_id
    assert [str(read) for read in library.parser.paths_read] == [str(renamed)]


def test_what_an_editor_keeps_of_the_last_state_is_no_document(library: SmallLibrary, look: Look) -> None:
    notes = library.write("notes.org", "first")
    library.add()
    document_id = library.known(notes).document_id

    backup = notes.rename(library.docs / "notes.org~")
    library.write("notes.org", "second")
    library.write("#notes.org#", "third")
    look(notes, backup, library.docs / "#notes.org#")

    assert library.states() == {"notes.org": "indexed"}
    assert library.known(notes).document_id == document_id


def test_a_look_above_all_roots_looks_at_these(library: SmallLibrary) -> None:
    library.write("a.md")
    library.add()
    library.write("b.md")

    library.refresh(library.docs.parent)

    assert library.states() == {"a.md": "indexed", "b.md": "indexed"}


# --- several roots, drives of their own ---


@pytest.fixture
def drives(monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """Folders on which a drive is mounted, by their paths; a path that leaves is unmounted."""
    mounted, ismount = set[str](), os.path.ismount
    monkeypatch.setattr(os.path, "ismount", lambda path: str(path) in mounted or ismount(path))
    look = scanner.scan

    def scan(path: str, *options: object) -> object:
        found = yield from look(path, *options)  # type: ignore[arg-type]
        return replace(found, mounts=tuple(one for one in sorted(mounted) if one != path and one.startswith(path)))

    monkeypatch.setattr(survey, "scan", scan)
    return mounted


@pytest.mark.parametrize("leaves_folder", [True, False])
def test_documents_of_a_drive_below_a_folder_are_offline_while_it_is_away(
    library: SmallLibrary, look: Look, drives: set[str], *, leaves_folder: bool
) -> None:
    vault, away = library.docs / "vault", library.docs.with_name("away")
    drives.add(str(vault))
    paths = fill(library, "vault", 3)
    library.write("stays.md")
    library.add()
    ids = library.catalog.ids_with_rows()
    assert library.catalog.mounts() == {str(vault): str(vault)}

    drives.clear()
    vault.rename(away)
    if leaves_folder:
        vault.mkdir()
        # As some leave there to tell that it is not mounted.
        (vault / "NOT MOUNTED.md").write_text("Open the vault first.")
    look(vault, *paths)
    assert {library.known(path).state for path in paths} == {"offline"}
    assert library.known(paths[0]).reason == "Its drive is not connected."
    library.rescan()
    assert library.catalog.ids_with_rows() >= ids

    if leaves_folder:
        shutil.rmtree(vault)
    away.rename(vault)
    drives.add(str(vault))
    look(vault)
    assert set(library.states().values()) == {"indexed"}
    assert library.catalog.ids_with_rows() >= ids


@pytest.fixture
def nas(library: SmallLibrary, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> set[Path]:
    """Three documents behind a link to a drive, which is mounted while it is in this set; and one beside the link."""
    drive, ismount = tmp_path / "nas", os.path.ismount
    drive.mkdir()
    mounted = {drive}
    monkeypatch.setattr(os.path, "ismount", lambda path: Path(path) in mounted or ismount(path))
    for number in range(3):
        (drive / f"{number}.md").write_text(f"Text {number} of the drive.")
    library.write("stays.md")
    (library.docs / "nas").symlink_to(drive)
    library.add()
    assert library.catalog.mounts() == {str(library.docs / "nas"): str(drive)}
    return mounted


def test_documents_behind_a_link_to_a_drive_are_offline_while_it_is_away(
    library: SmallLibrary, look: Look, nas: set[Path]
) -> None:
    (drive,), link, before = nas, library.docs / "nas", library.states()
    ids = library.catalog.ids_with_rows()
    library.forget_what_was_embedded()

    nas.clear()
    away = drive.rename(drive.with_name("away"))
    drive.mkdir()
    look(link)
    assert library.states() == before | {f"nas/{number}.md": "offline" for number in range(3)}
    assert library.known(link / "0.md").reason == "Its drive is not connected."
    # What is found meanwhile is a copy.
    shutil.copytree(away, library.docs / "copy")
    look(library.docs / "copy")
    assert library.catalog.ids_with_rows() > ids
    assert library.known(link / "0.md").document_id in ids
    shutil.rmtree(library.docs / "copy")

    drive.rmdir()
    nas.add(away.rename(drive))
    look(link)
    assert library.states() == before
    assert library.embedded == []


@pytest.mark.parametrize("leads_elsewhere", [False, True])
def test_what_lay_behind_a_link_that_was_taken_away_leaves_if_its_drive_is_there(
    library: SmallLibrary, look: Look, nas: set[Path], leads_elsewhere: bool
) -> None:
    (drive,), link = nas, library.docs / "nas"
    elsewhere = drive.with_name("elsewhere")
    elsewhere.mkdir()
    link.unlink()
    if leads_elsewhere:
        link.symlink_to(elsewhere)

    nas.clear()
    library.rescan()
    assert library.known(link / "0.md").state == "offline"
    nas.add(drive)
    look(link)
    assert library.states() == {"stays.md": "indexed"}


def test_a_link_that_leads_to_a_folder_with_the_documents_of_a_drive_is_to_no_drive_any_more(
    library: SmallLibrary, nas: set[Path]
) -> None:
    (drive,), link, before = nas, library.docs / "nas", library.states()
    nas.clear()
    shutil.copytree(drive, drive.with_name("copy"))
    link.unlink()
    link.symlink_to(drive.with_name("copy"))

    library.rescan()

    assert library.states() == before
    assert library.catalog.mounts() == {}


@pytest.mark.parametrize("comes_back", [False, True])
@pytest.mark.parametrize("when", [0, 1, 2])
def test_a_drive_that_goes_between_looks_at_single_places_takes_no_document_along(
    library: SmallLibrary, monkeypatch: pytest.MonkeyPatch, comes_back: bool, when: int
) -> None:
    for name in "abc":
        fill(library, name, 3)
    library.add()
    before, ids, away = library.states(), library.catalog.ids_with_rows(), library.docs.with_name("away")
    (library.docs / "a" / "0000.md").rename(library.docs / "a" / "renamed.md")
    # What lies in the folder where it is mounted is on another drive.
    monkeypatch.setattr(findings, "stands", lambda root: not away.exists() and moves.stands(root))
    places = (str(library.docs / name) for name in ("a", "b/0000.md", "b", "c"))
    steps = library.indexer.run(Refresh(tuple(places)), threading.Event())

    # Each step is a place where it may be paused for hours.
    for _ in range(when):
        next(steps)
    library.docs.rename(away)
    library.docs.mkdir()
    if comes_back:
        (library.docs / "c").mkdir()
        next(steps)
        shutil.rmtree(library.docs)
        away.rename(library.docs)
    for _ in steps:
        pass

    assert library.catalog.ids_with_rows() == ids
    renamed = before | {"a/renamed.md": "indexed"}
    del renamed["a/0000.md"]
    assert library.states() == (renamed if comes_back else dict.fromkeys(before, "offline"))


@pytest.mark.parametrize("looks_at_all", [True, False])
def test_a_copy_of_what_lies_on_a_drive_that_is_away_is_another_document(
    library: SmallLibrary, look: Look, drives: set[str], *, looks_at_all: bool
) -> None:
    vault = library.docs / "vault"
    drives.add(str(vault))
    paths = fill(library, "vault", 3)
    library.write("stays.md")
    library.add()
    ids = {library.known(path).document_id for path in paths}

    drives.clear()
    copy = library.docs / "copy"
    vault.rename(copy)
    library.forget_what_was_embedded()
    if looks_at_all:
        library.rescan()
    else:
        look(copy)

    assert {library.known(path).document_id for path in paths} == ids
    assert {library.known(copy / path.name).state for path in paths} == {"indexed"}
    # Their vectors are known by what they say.
    assert library.embedded == []


def test_what_is_deleted_where_a_drive_was_and_a_folder_is_now_leaves(library: SmallLibrary, drives: set[str]) -> None:
    vault = library.docs / "vault"
    drives.add(str(vault))
    paths = fill(library, "vault", 3)
    library.add()

    drives.clear()
    library.rescan()
    assert library.catalog.mounts() == {}
    paths[0].unlink()
    library.rescan()
    assert sorted(library.states()) == ["vault/0001.md", "vault/0002.md"]


def test_a_look_above_a_folder_with_a_drive_of_its_own_does_not_miss_what_lies_there(
    library: SmallLibrary, look: Look
) -> None:
    drive = library.docs / "sub" / "usb"
    paths = fill(library, "sub/usb", 3)
    library.write("sub/plain.md")
    library.add()
    library.add(drive, collection="Drive")

    shutil.rmtree(drive)
    drive.mkdir()
    look(library.docs / "sub")

    assert len(library.stores.table.rows) == 4
    library.rescan()
    assert {library.known(path).state for path in paths} == {"offline"}


def test_what_waited_out_of_reach_when_all_was_cancelled_is_read_when_its_drive_is_back(
    library: SmallLibrary, look: Look, tmp_path: Path
) -> None:
    (path,) = fill(library, "sub", 1)
    library.add()
    path.write_text("Anew 0 of sub.")
    library.catalog.mark_pending([library.known(path).document_id], forget_content=True)
    library.docs.rename(tmp_path / "away")
    look(library.docs)

    library.catalog.set_pending_aside("Cancelled.")
    (tmp_path / "away").rename(library.docs)
    os.utime(path, ns=(library.known(path).mtime_ns,) * 2)
    look(library.docs)

    assert library.embedded[-1] == "Anew 0 of sub."


def test_many_linked_files_on_a_drive_that_is_away_are_asked_for_at_once(
    library: SmallLibrary, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    library.add(*fill(library, "drive", 20))
    (library.docs / "drive").rename(tmp_path / "away")
    roots, num_asked = Catalog.roots, 0

    def counted(catalog: Catalog, collection: str | None = None) -> tuple[Root, ...]:
        nonlocal num_asked
        num_asked += 1
        return roots(catalog, collection)

    monkeypatch.setattr(Catalog, "roots", counted)
    library.rescan()

    assert set(library.states().values()) == {"offline"}
    assert num_asked < 20


@pytest.mark.parametrize("is_kept", [True, False])
def test_what_went_missing_outlives_a_drive_that_is_away(library: SmallLibrary, is_kept: bool) -> None:
    paths = fill(library, "sub", 30)
    library.write("stays.md")
    library.add()
    shutil.rmtree(library.docs / "sub")
    library.rescan()
    for number in range(100):
        library.write(f"new/{number}.md")
    library.rescan()
    if is_kept:
        library.indexer.settle_gone(str(library.docs), remove=False)
    away = library.docs.with_name("away")

    library.docs.rename(away)
    library.rescan()
    assert set(library.states().values()) == {"offline"}
    assert library.catalog.linked_folders()[0].num_gone == 0
    with pytest.raises(NothingThere, match="waits for a decision"):
        library.indexer.settle_gone(str(library.docs), remove=True)

    away.rename(library.docs)
    library.rescan()
    assert {library.known(path).reason for path in paths} == {KEPT if is_kept else GONE_AT_ONCE}
    assert library.catalog.linked_folders()[0].num_gone == (0 if is_kept else 30)
