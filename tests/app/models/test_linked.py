"""Tests for app.models.linked."""

from __future__ import annotations

from collections.abc import Iterable

from app.models.linked import MAX_FILE_LINES, Linked, linked_of
from engine.protocol import Collection, Folder


def file(name: str, **changes) -> Folder:
    return Folder(path=f"/docs/{name}", collection="Flat", is_folder=False, is_watched=True, num_documents=1, **changes)


def lines(folders: Iterable[Folder], *unknown: str) -> tuple[Linked, ...]:
    told = tuple(folders)
    return linked_of(Collection("Flat", (*(folder.path for folder in told), *unknown), {}, 0), told)


def test_each_folder_and_each_of_few_files_has_its_line():
    told = [Folder(path="/docs", collection="Flat"), *map(file, "abc")]
    assert lines(told, "/new") == (*(Linked(each.path, each) for each in told), Linked("/new"))


def test_many_files_of_one_folder_share_a_line_and_are_all_meant_by_it():
    many = [file(f"{number}.md") for number in range(MAX_FILE_LINES + 1)]
    other = Folder(path="/elsewhere/x.md", collection="Flat", is_folder=False, num_documents=1)
    together, alone = lines([many[0], other, *many[1:]])
    assert together.path == "/docs"
    assert together.paths == tuple(each.path for each in many)
    assert together.folder
    assert (together.folder.num_documents, together.folder.is_watched) == (4, True)
    assert alone == Linked(other.path, other)
    assert alone.paths == ("/elsewhere/x.md",)


def test_files_out_of_reach_do_not_hide_among_those_that_are_in_reach():
    away = [file(f"away{number}", absence="It is not there.") for number in range(MAX_FILE_LINES + 1)]
    here = [file(f"here{number}") for number in range(MAX_FILE_LINES + 1)]
    first, second = lines([*away, *here])
    assert first.folder
    assert second.folder
    assert (first.folder.absence, second.folder.absence) == ("It is not there.", "")


def test_a_linked_folder_and_single_files_in_it_are_two_lines():
    folder = Folder(path="/docs", collection="Flat")
    assert [one.files for one in lines([folder, *map(file, "abcd")])] == [(), tuple(f"/docs/{name}" for name in "abcd")]


def test_files_of_another_collection_do_not_count():
    folders = [file(f"{number}") for number in range(9)]
    (one,) = linked_of(Collection("Tax", ("/docs/1",), {}, 0), folders)
    assert one == Linked("/docs/1")
