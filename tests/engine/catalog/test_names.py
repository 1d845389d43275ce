"""Tests for engine.catalog.names."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from engine.catalog import Catalog
from engine.core import Filters, FoundFile
from engine.errors import BadRequest, NothingThere


@pytest.fixture
def catalog(tmp_path: Path) -> Iterator[Catalog]:
    opened = Catalog.open(tmp_path)
    opened.add_root("Work", "/d", is_folder=True, device=1)
    opened.add_root("Home", "/d/shared", is_folder=True, device=1)
    opened.add_documents(FoundFile(path, 10, 1) for path in ("/d/1", "/d/2", "/d/shared/3"))
    yield opened
    opened.close()


def id_of(catalog: Catalog, path: str) -> int:
    document = catalog.document_by_path(path)
    assert document is not None
    return document.document_id


def names(catalog: Catalog) -> dict[str, tuple[str, ...]]:
    return {collection.name: collection.former_names for collection in catalog.collections()}


def test_a_renamed_collection_has_what_it_had(catalog: Catalog) -> None:
    before = catalog.document_ids_in_collection("Work")

    catalog.rename_collection("work", "  Firm ")

    assert names(catalog) == {"Firm": ("Work",), "Home": ()}
    assert catalog.document_ids_in_collection("Firm") == before
    assert [root.collection for root in catalog.roots("FIRM")] == ["Firm"]
    document = catalog.document_by_path("/d/shared/3")
    assert document is not None
    assert document.collections == ("Firm", "Home")


def test_who_asks_by_the_former_name_is_understood(catalog: Catalog, tmp_path: Path) -> None:
    before = catalog.document_ids_in_collection("Work")
    catalog.rename_collection("Work", "Firm")
    catalog.rename_collection("Firm", "Office")

    assert names(catalog)["Office"] == ("Firm", "Work")
    for name in ("work", "Firm", "office"):
        assert catalog.require_collection(name) == "Office"
        assert catalog.document_ids_in_collection(name) == before
        assert catalog.ids_in_scope(name, Filters()) == before
        assert [root.path for root in catalog.roots(name)] == ["/d"]
    catalog.close()
    again = Catalog.open(tmp_path)
    assert again.require_collection("Work") == "Office"
    again.close()


def test_a_name_may_change_in_case_alone_and_back_to_what_it_was(catalog: Catalog) -> None:
    catalog.rename_collection("Work", "WORK")
    assert names(catalog) == {"Home": (), "WORK": ()}
    catalog.rename_collection("WORK", "Firm")
    catalog.rename_collection("Firm", "Work")
    assert names(catalog) == {"Home": (), "Work": ("Firm",)}


@pytest.mark.parametrize(
    ("new_name", "said"),
    [
        ("home", "'Home' already"),
        (" HOME ", "'Home' already"),
        ("", "needs a name"),
        ("  ", "needs a name"),
        (os.fsdecode(b"\xff"), "UTF-8"),
    ],
)
def test_a_name_that_cannot_be_had_changes_nothing(catalog: Catalog, new_name: str, said: str) -> None:
    with pytest.raises(BadRequest, match=said):
        catalog.rename_collection("Work", new_name)
    assert names(catalog) == {"Home": (), "Work": ()}


def test_only_the_present_name_is_enough_to_change_a_collection(catalog: Catalog) -> None:
    catalog.rename_collection("Work", "Firm")

    for change in (lambda: catalog.rename_collection("Work", "Office"), lambda: catalog.delete_collection("Work")):
        with pytest.raises(NothingThere, match="'Work' is called 'Firm' now"):
            change()
    with pytest.raises(NothingThere, match="no collection named 'None such'"):
        catalog.rename_collection("None such", "Office")
    assert names(catalog) == {"Firm": ("Work",), "Home": ()}


def test_a_name_leads_to_the_collection_that_has_it_now(catalog: Catalog) -> None:
    catalog.rename_collection("Work", "Firm")

    catalog.add_root("WORK", "/new", is_folder=True, device=1)

    assert names(catalog) == {"Firm": (), "Home": (), "WORK": ()}
    assert [root.path for root in catalog.roots("work")] == ["/new"]
    catalog.rename_collection("WORK", "Spare")
    catalog.rename_collection("Home", "Work")
    assert names(catalog) == {"Firm": (), "Spare": (), "Work": ("Home",)}


def test_former_names_go_with_their_collection(catalog: Catalog) -> None:
    catalog.rename_collection("Work", "Firm")
    catalog.delete_collection("Firm")
    with pytest.raises(NothingThere):
        catalog.require_collection("Work")
    catalog.rename_collection("Home", "Flat")
    # Its last root leaves, and so does it.
    catalog.forget("/d/shared")
    with pytest.raises(NothingThere):
        catalog.require_collection("Home")
    assert names(catalog) == {}


def test_what_leaves_with_a_collection_is_in_no_other(catalog: Catalog) -> None:
    only = {id_of(catalog, "/d/1"), id_of(catalog, "/d/2")}
    assert catalog.ids_only_in("work") == only
    assert catalog.ids_only_in("Home") == frozenset()
    assert catalog.delete_collection("Work") == only
    assert catalog.ids_only_in("Home") == {id_of(catalog, "/d/shared/3")}
    with pytest.raises(NothingThere):
        catalog.ids_only_in("Work")


def test_a_collection_that_goes_while_all_are_looked_at_is_left_out(
    catalog: Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(catalog, "collection_names", lambda: ("Gone", "Home", "Work"))
    assert [collection.name for collection in catalog.collections()] == ["Home", "Work"]
