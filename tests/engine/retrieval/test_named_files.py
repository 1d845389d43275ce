"""Tests for engine.retrieval.named_files, on a real catalogue."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from engine.catalog import Catalog, path_log
from engine.core import FoundFile
from engine.retrieval import named_files
from engine.retrieval.named_files import NamedFiles

ROOT = "/home/anna/Documents"
NAMES = ["telekom-2024-03.pdf", "telekom-2024-04.pdf", "lease.pdf", "holiday.jpg", "recipes.md", "x1.txt", "x2.txt"]


@pytest.fixture
def catalog(tmp_path: Path) -> Iterator[Catalog]:
    catalog = Catalog.open(tmp_path)
    catalog.add_root("Home", ROOT, is_folder=True, device=1)
    add(catalog, *NAMES)
    yield catalog
    catalog.close()


@pytest.fixture
def names(catalog: Catalog) -> NamedFiles:
    return NamedFiles(catalog)


def add(catalog: Catalog, *some: str) -> None:
    catalog.add_documents(FoundFile(f"{ROOT}/{name}", 10, 10) for name in some)


def add_in_vain(catalog: Catalog, name: str) -> None:
    with catalog.transaction():
        add(catalog, name)
        raise ZeroDivisionError


def id_of(catalog: Catalog, name: str) -> int:
    document = catalog.document_by_path(f"{ROOT}/{name}")
    assert document is not None
    return document.document_id


def found(names: NamedFiles, catalog: Catalog, text: str) -> list[str]:
    paths = catalog.paths_of(matching := names.matching(text))
    return [paths[document_id].removeprefix(f"{ROOT}/") for document_id in matching]


def test_files_are_found_by_words_of_their_names(names: NamedFiles, catalog: Catalog) -> None:
    assert found(names, catalog, "telekom invoice") == NAMES[:2]


def test_what_came_went_and_moved_is_known_at_once(names: NamedFiles, catalog: Catalog) -> None:
    names.load()
    catalog.remove_documents([id_of(catalog, "telekom-2024-03.pdf")])
    add(catalog, "vodafone.pdf")
    catalog.relocate(id_of(catalog, "lease.pdf"), FoundFile(f"{ROOT}/mietvertrag.pdf", 10, 10))

    assert found(names, catalog, "telekom") == ["telekom-2024-04.pdf"]
    assert found(names, catalog, "vodafone") == ["vodafone.pdf"]
    assert found(names, catalog, "mietvertrag") == ["mietvertrag.pdf"]
    assert found(names, catalog, "lease") == []


def test_files_that_swap_their_names_are_told_apart(names: NamedFiles, catalog: Catalog) -> None:
    names.load()
    lease, recipes = id_of(catalog, "lease.pdf"), id_of(catalog, "recipes.md")
    with catalog.transaction():
        catalog.vacate([lease, recipes])
        catalog.relocate(lease, FoundFile(f"{ROOT}/recipes.md", 10, 10))
        catalog.relocate(recipes, FoundFile(f"{ROOT}/lease.pdf", 10, 10))

    assert list(names.matching("recipes")) == [lease]
    assert list(names.matching("lease")) == [recipes]


def test_many_changes_make_one_table_of_two(
    names: NamedFiles, catalog: Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(named_files, "_MOST_RECENT", 2)
    names.load()
    for number in range(8):
        add(catalog, f"vodafone{number}.pdf", f"paper{number}.pdf", f"other{number}.pdf")
        assert len(found(names, catalog, "vodafone")) == number + 1
    catalog.remove_documents([id_of(catalog, "vodafone3.pdf")])

    assert found(names, catalog, "vodafone") == [f"vodafone{number}.pdf" for number in range(8) if number != 3]


def test_who_missed_too_much_looks_at_all_paths_again(
    names: NamedFiles, catalog: Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(path_log, "_MOST_IDS", 2)
    names.load()
    catalog.remove_documents([id_of(catalog, "telekom-2024-03.pdf")])
    add(catalog, "vodafone.pdf", "unitymedia.pdf", "congstar.pdf")

    assert found(names, catalog, "telekom") == ["telekom-2024-04.pdf"]
    assert set(found(names, catalog, "vodafone congstar")) == {"congstar.pdf", "vodafone.pdf"}


def test_what_a_failed_transaction_entered_is_not_found(names: NamedFiles, catalog: Catalog) -> None:
    names.load()
    with pytest.raises(ZeroDivisionError):
        add_in_vain(catalog, "vodafone.pdf")

    assert found(names, catalog, "vodafone") == []
    add(catalog, "vodafone.pdf")
    assert found(names, catalog, "vodafone") == ["vodafone.pdf"]


def test_only_what_a_search_is_confined_to_is_found(names: NamedFiles, catalog: Catalog) -> None:
    april = id_of(catalog, "telekom-2024-04.pdf")

    assert list(names.matching("telekom", frozenset({april}))) == [april]
    assert names.matching("telekom", frozenset()) == {}


def test_very_many_names_are_read_while_questions_do_without(
    names: NamedFiles, catalog: Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(named_files, "_MOST_AT_ONCE", 3)
    may_go_on, labels_of = threading.Event(), named_files.labels_of

    def slow(*arguments: Any) -> Any:
        may_go_on.wait()
        return labels_of(*arguments)

    monkeypatch.setattr(named_files, "labels_of", slow)
    assert found(names, catalog, "telekom invoice") == []
    add(catalog, "vodafone.pdf")
    may_go_on.set()
    for thread in threading.enumerate():
        if thread.name == "names of files":
            thread.join()
    assert found(names, catalog, "telekom invoice") == NAMES[:2]
    # What came meanwhile is not lost.
    assert found(names, catalog, "vodafone") == ["vodafone.pdf"]
