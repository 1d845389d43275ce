"""Tests for engine.library.path_states: what can be asked about, what is still to be read, what cannot be had."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from engine.core import FoundFile
from engine.library.path_states import path_states
from engine.protocol import PathState
from tests.helpers.indexing import SmallLibrary


@pytest.fixture
def library(tmp_path: Path) -> Iterator[SmallLibrary]:
    made = SmallLibrary(tmp_path / "docs", tmp_path / "home")
    yield made
    made.catalog.close()


def state(library: SmallLibrary, path: Path, *, is_reading: bool = True) -> tuple[str, str]:
    (one,) = path_states(library.catalog, [str(path)], is_reading=is_reading)
    assert one.path == str(path)
    return one.state, one.reason


def test_what_nobody_added_is_absent_and_what_was_read_is_read(library: SmallLibrary) -> None:
    lease, other = library.write("lease.md"), library.write("other.md")
    assert state(library, lease) == ("absent", "")
    library.add(lease)
    assert state(library, lease) == ("read", "")
    assert state(library, library.docs) == ("read", "")
    assert state(library, other) == ("absent", "")


def test_several_are_told_in_their_order(library: SmallLibrary) -> None:
    lease = library.write("lease.md")
    library.add(lease)
    assert path_states(library.catalog, ["/nowhere", str(lease)], is_reading=False) == (
        PathState(path="/nowhere", state="absent"),
        PathState(path=str(lease), state="read", document_id=library.known(lease).document_id),
    )


def test_a_file_that_left_and_has_come_back_is_another_document(library: SmallLibrary) -> None:
    lease = library.write("lease.md")
    library.add(lease)
    [before] = path_states(library.catalog, [str(lease)], is_reading=False)
    library.catalog.forget(str(lease))
    [gone] = path_states(library.catalog, [str(lease)], is_reading=False)
    assert (gone.state, gone.document_id) == ("absent", None)
    library.add(lease)
    [after, folder] = path_states(library.catalog, [str(lease), str(library.docs)], is_reading=False)
    assert (after.state, folder.document_id) == ("read", None)
    assert after.document_id not in (None, before.document_id)


def test_a_file_that_was_just_added_waits_while_somebody_reads_and_rests_else(library: SmallLibrary) -> None:
    lease = library.write("lease.md")
    library.catalog.add_root("Documents", str(lease), is_folder=False, device=1)
    assert state(library, lease) == ("waiting", "")
    assert state(library, lease, is_reading=False) == ("resting", "")
    # Entered, and not read yet.
    library.catalog.add_documents([FoundFile(str(lease), 1, 1)])
    for root in library.catalog.roots():
        library.catalog.mark_surveyed(root)
    assert state(library, lease) == ("waiting", "")


def test_a_file_that_has_changed_is_waited_for_although_its_last_content_is_stored(library: SmallLibrary) -> None:
    lease = library.write("lease.md")
    library.add(lease)
    library.catalog.mark_pending([library.known(lease).document_id])
    assert state(library, lease) == ("waiting", "")


def test_a_file_that_is_added_again_waits_for_that_look(library: SmallLibrary) -> None:
    lease = library.write("lease.md", "SCAN")
    library.add(lease)
    assert state(library, lease) == ("unread", library.known(lease).reason)
    library.catalog.add_root("Documents", str(lease), is_folder=False, device=1)
    assert state(library, lease) == ("waiting", "")


def test_of_a_folder_it_is_enough_that_something_is_read(library: SmallLibrary) -> None:
    first, second = library.write("a/first.md"), library.write("a/second.md")
    library.catalog.add_root("Documents", str(library.docs), is_folder=True, device=1)
    assert state(library, library.docs / "a") == ("waiting", "")
    library.add()
    library.catalog.mark_pending([library.known(first).document_id])
    assert state(library, library.docs / "a") == ("read", "")
    library.catalog.mark_lost([library.known(first).document_id, library.known(second).document_id])
    assert state(library, library.docs / "a") == ("waiting", "")


def test_a_folder_of_which_nothing_could_be_read_says_why(library: SmallLibrary) -> None:
    scan = library.write("scan.pdf", "SCAN")
    empty = library.docs / "empty"
    empty.mkdir()
    library.add(library.docs, empty)
    assert state(library, library.docs) == ("unread", library.known(scan).reason)
    assert state(library, empty) == ("unread", "No file was found there.")


def test_a_file_out_of_reach_can_be_asked_about_as_it_was_read(library: SmallLibrary) -> None:
    lease = library.write("lease.md")
    library.add(lease)
    library.catalog.mark_offline([library.known(lease).document_id], "Its drive is away.")
    assert state(library, lease) == ("read", "")
