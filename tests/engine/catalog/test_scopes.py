"""Tests for engine.catalog.scopes."""

from __future__ import annotations

import os
import unicodedata
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

import pytest

from engine.catalog import Catalog
from engine.catalog.scopes import Extent, Located
from engine.core import Chunk, Filters, FoundFile, ReadDocument
from engine.errors import BadRequest, NothingThere

LIBRARY = {
    "/home/work/Budget 2024.xlsx": ("xlsx", "2024-05-01"),
    "/home/work/lease.pdf": ("pdf", "2025-03-31"),
    "/home/work/old/lease.pdf": ("pdf", "2023-01-02"),
    "/home/recipes/Brötchen.md": ("markdown", "2025-04-01"),
}


@pytest.fixture
def catalog(tmp_path: Path) -> Iterator[Catalog]:
    catalog = Catalog.open(tmp_path)
    catalog.add_root("Work", "/home/work", is_folder=True, device=1)
    catalog.add_root("Kitchen", "/home/recipes", is_folder=True, device=1)
    for path, (format_, day) in LIBRARY.items():
        put(catalog, path, format_, day)
    yield catalog
    catalog.close()


def put(catalog: Catalog, path: str, format_: str, day: str, num_chunks: int = 2) -> int:
    mtime_ns = int(datetime.fromisoformat(f"{day}T12:00").timestamp() * 1e9)
    file = FoundFile(path, 10, mtime_ns)
    catalog.add_documents([file])
    document = catalog.document_by_path(path)
    assert document is not None
    chunks = tuple(Chunk(n, None, n, n + 1, "", "x") for n in range(num_chunks))
    catalog.mark_indexed(document.document_id, file, "h", ReadDocument(format_, "", 0, chunks), "e", 0)
    return document.document_id


def found(catalog: Catalog, collection: str | None = None, **filters: object) -> set[str]:
    ids = catalog.ids_in_scope(collection, Filters(**filters))  # type: ignore[arg-type]
    assert ids is not None
    return {os.path.basename(path) for path in catalog.paths_of(ids).values()}


def test_a_document_is_found_by_its_id_wherever_it_lies(catalog: Catalog) -> None:
    lease = catalog.document_by_path("/home/work/lease.pdf")
    assert lease is not None
    ids = lease.document_id, 999
    assert found(catalog, document_ids=ids) == {"lease.pdf"}
    assert catalog.extent(None, Filters(document_ids=ids)) == Extent(files=1, chunks=2)
    assert found(catalog, document_ids=ids, formats=("xlsx",)) == set()
    with pytest.raises(NothingThere):
        catalog.extent(None, Filters(document_ids=(999,)))


def test_without_collection_and_filters_nothing_confines(catalog: Catalog) -> None:
    assert catalog.ids_in_scope(None, Filters()) is None
    assert catalog.extent(None, Filters()) == Extent(files=4, chunks=8)


@pytest.mark.parametrize(
    ("filters", "names"),
    [
        ({"paths": ("/home/work",)}, {"Budget 2024.xlsx", "lease.pdf"}),
        ({"paths": ("/home/work/old", "/home/recipes/Brötchen.md")}, {"lease.pdf", "Brötchen.md"}),
        ({"paths": ("/home/wor",)}, set()),
        ({"formats": ("pdf", "xlsx")}, {"Budget 2024.xlsx", "lease.pdf"}),
        ({"changed_since": "2025-03-31"}, {"lease.pdf", "Brötchen.md"}),
        ({"changed_until": "2025-03-31", "changed_since": "2024-05-01"}, {"lease.pdf", "Budget 2024.xlsx"}),
        ({"changed_since": "2025-04-01", "formats": ("pdf",)}, set()),
    ],
)
def test_each_filter_leaves_what_it_says(catalog: Catalog, filters: dict[str, object], names: set[str]) -> None:
    assert found(catalog, **filters) == names


def test_the_only_collection_is_all_there_is(catalog: Catalog) -> None:
    assert len(catalog.ids_in_scope("Work", Filters()) or ()) == 3
    catalog.delete_collection("Kitchen")
    assert catalog.ids_in_scope("Work", Filters()) is None
    assert found(catalog, "Work", formats=("pdf",)) == {"lease.pdf"}


@pytest.fixture
def with_old(catalog: Catalog) -> Catalog:
    """The same with a collection of what lies in another one, too."""
    catalog.add_root("Old", "/home/work/old", is_folder=True, device=1)
    return catalog


def test_several_collections_are_searched_together(with_old: Catalog) -> None:
    assert found(with_old, collections=("Kitchen", "old")) == {"Brötchen.md", "lease.pdf"}
    assert with_old.extent(None, Filters(collections=("Kitchen", "Old"))) == Extent(files=2, chunks=4)
    # What is in both counts once.
    assert with_old.extent(None, Filters(collections=("Old", "Work"))) == Extent(files=3, chunks=6)
    stored = with_old.stored_documents(None, Filters(collections=("Old", "Kitchen")))
    assert [document.path for document in stored] == ["/home/recipes/Brötchen.md", "/home/work/old/lease.pdf"]
    assert with_old.only_document(None, Filters(collections=("Kitchen", "Old"))) is None
    assert with_old.only_document(None, Filters(collections=("Kitchen", "Old"), formats=("pdf",))) is not None


def test_several_collections_and_filters_work_together(with_old: Catalog) -> None:
    assert found(with_old, collections=("Kitchen", "Old"), formats=("pdf",)) == {"lease.pdf"}
    assert found(with_old, collections=("Kitchen", "Old"), paths=("/home/work",)) == {"lease.pdf"}
    assert found(with_old, "Work", collections=("Kitchen", "Old")) == {"lease.pdf"}
    assert found(with_old, "Work", collections=("Kitchen",)) == set()


def test_all_collections_by_their_names_are_all_there_is(with_old: Catalog) -> None:
    assert with_old.ids_in_scope(None, Filters(collections=("old", "Kitchen", "Work"))) is None
    assert found(with_old, collections=("old", "Kitchen", "Work"), formats=("markdown",)) == {"Brötchen.md"}
    assert len(with_old.ids_in_scope("Kitchen", Filters(collections=("Old", "Kitchen", "Work"))) or ()) == 1


def test_several_collections_are_found_by_former_names_and_an_unknown_one_is_named(with_old: Catalog) -> None:
    with_old.rename_collection("Old", "Archive")
    with_old.rename_collection("Kitchen", "Recipes")
    assert found(with_old, collections=("Kitchen", "Old")) == {"Brötchen.md", "lease.pdf"}
    for name in ("Garden", "", "\udcff"):
        with pytest.raises(NothingThere, match=r"There is no collection named .*"):
            with_old.extent(None, Filters(collections=("Archive", name)))
    with_old.delete_collection("Recipes")
    with pytest.raises(NothingThere, match="'Recipes'"):
        with_old.ids_in_scope(None, Filters(collections=("Archive", "Recipes")))


def test_a_collection_and_filters_work_together(catalog: Catalog) -> None:
    assert found(catalog, "work", formats=("markdown", "pdf")) == {"lease.pdf"}
    assert catalog.extent("work", Filters(formats=("pdf",))) == Extent(files=2, chunks=4)
    with pytest.raises(NothingThere, match="'Garden'"):
        catalog.ids_in_scope("Garden", Filters())


@pytest.mark.parametrize("day", ["yesterday", "2025-02-30", "10000-01-01"])
def test_a_day_that_is_none_is_refused(catalog: Catalog, day: str) -> None:
    with pytest.raises(BadRequest, match=day):
        catalog.ids_in_scope(None, Filters(changed_until=day))


@pytest.mark.parametrize(
    ("filters", "num_names"),
    [
        ({"changed_until": "9999-12-31"}, 3),
        ({"changed_until": "2999-12-31"}, 3),
        ({"changed_since": "0001-01-01"}, 3),
        ({"changed_since": "1500-01-01"}, 3),
        ({"changed_since": "9999-12-31"}, 0),
        ({"changed_until": "1500-01-01"}, 0),
    ],
)
def test_days_that_no_file_is_as_old_or_new_as_are_days(
    catalog: Catalog, filters: dict[str, str], num_names: int
) -> None:
    assert len(found(catalog, **filters)) == num_names


def test_documents_without_stored_chunks_are_not_in_scope(catalog: Catalog) -> None:
    catalog.add_documents([FoundFile("/home/work/new.pdf", 1, 1)])
    assert catalog.extent("Work", Filters()) == Extent(files=3, chunks=6)


def test_where_a_document_lies_and_whether_it_is_within_reach(catalog: Catalog) -> None:
    document_id = put(catalog, "/home/work/a.md", "markdown", "2025-01-01", num_chunks=3)
    catalog.mark_offline([document_id], "The drive is not connected.")
    assert catalog.located([document_id, 999]) == {document_id: Located("/home/work/a.md", True, 3)}
    catalog.mark_present([document_id])
    assert catalog.located([document_id]) == {document_id: Located("/home/work/a.md", False, 3)}


@pytest.mark.parametrize(
    ("name", "paths"),
    [
        ("LEASE.PDF", {"/home/work/lease.pdf", "/home/work/old/lease.pdf"}),
        ("budget 2024", {"/home/work/Budget 2024.xlsx"}),
        ("BRÖTCHEN", {"/home/recipes/Brötchen.md"}),
        ("bro\u0308tchen.md", {"/home/recipes/Brötchen.md"}),
        ("old", {"/home/work/old"}),
        ("work", {"/home/work"}),
        ("leas", set()),
        ("2024", set()),
        ("", set()),
        ("%", set()),
    ],
)
def test_files_and_folders_are_found_by_their_names(catalog: Catalog, name: str, paths: set[str]) -> None:
    named = catalog.paths_named([name])
    assert named.files | named.folders == paths
    assert named.folders == {path for path in paths if path not in LIBRARY}


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("/home/work/Mietvertrag Hauptstraße 5.pdf", "mietvertrag hauptstraße 5"),
        ("/home/work/Mietvertrag Hauptstraße 5.pdf", "MIETVERTRAG HAUPTSTRASSE 5.PDF"),
        ("/home/work/Договоры", "договоры"),
        ("/home/work/租赁合同", "租赁合同"),
        ("/home/work/Eﬃzienz.txt", "effizienz"),
        ("/home/work/İstanbul.pdf", "İSTANBUL"),
        (f"/home/work/{unicodedata.normalize('NFD', '계약서')}.pdf", "계약서"),
    ],
)
def test_names_in_any_letters_are_found_in_whatever_case(catalog: Catalog, path: str, name: str) -> None:
    put(catalog, path, "pdf", "2025-01-01")
    assert catalog.paths_named([name]).files == {path}


def test_thousands_of_files_names_and_places_are_looked_for_at_once(catalog: Catalog) -> None:
    ids = set()
    for number in range(1500):
        path = f"/elsewhere/{number}.pdf"
        catalog.add_root("Single files", path, is_folder=False, device=1)
        if number % 100 == 0:
            ids.add(put(catalog, path, "pdf", "2025-01-01"))
    assert catalog.ids_in_scope("Single files", Filters()) == ids
    paths = tuple(f"/elsewhere/{number}.pdf" for number in range(1500))
    assert catalog.ids_in_scope(None, Filters(paths=paths)) == ids
    assert catalog.paths_named([f"{number}" for number in range(1200)]).files == {
        f"/elsewhere/{number}.pdf" for number in range(0, 1200, 100)
    }


def test_the_counts_come_from_an_index_alone(catalog: Catalog) -> None:
    plan = catalog._database.rows(
        "EXPLAIN QUERY PLAN SELECT count(*), sum(d.num_chunks) FROM documents d WHERE d.num_chunks > 0"
    )
    assert "COVERING INDEX documents_found" in plan[0]["detail"]


def test_the_one_document_that_there_is_to_find_is_told(catalog: Catalog) -> None:
    recipe = catalog.document_by_path("/home/recipes/Brötchen.md")
    assert recipe is not None
    assert catalog.only_document("Kitchen", Filters()) == recipe.document_id
    assert catalog.only_document(None, Filters(paths=(recipe.path,))) == recipe.document_id
    assert catalog.only_document("Work", Filters()) is None
    assert catalog.only_document("Kitchen", Filters(formats=("pdf",))) is None
    # What has nothing stored is nothing to find.
    put(catalog, "/home/recipes/empty.md", "markdown", "2025-04-01", num_chunks=0)
    assert catalog.only_document("Kitchen", Filters()) == recipe.document_id
