"""Tests for engine.catalog.work."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from engine.catalog import Catalog
from engine.core import FoundFile
from engine.errors import ParserGaveUp


@pytest.fixture
def catalog(tmp_path: Path) -> Iterator[Catalog]:
    opened = Catalog.open(tmp_path)
    opened.add_root("Documents", "/d", is_folder=True, device=1)
    opened.add_documents(FoundFile(f"/d/{name}", 10, 1) for name in ("a/1", "a/2", "b"))
    yield opened
    opened.close()


def ids(catalog: Catalog, *paths: str) -> list[int]:
    return [document.document_id for path in paths for document in catalog.documents_under(path)]


def test_what_was_prioritised_last_comes_first_until_it_is_read(catalog: Catalog) -> None:
    assert catalog.prioritise("/d/b") == frozenset(ids(catalog, "/d/b"))
    assert catalog.prioritise("/d/a") == frozenset(ids(catalog, "/d/a"))
    priorities = catalog.priorities()

    assert min(priorities[one] for one in ids(catalog, "/d/a")) > priorities[ids(catalog, "/d/b")[0]]
    for one in ids(catalog, "/d"):
        catalog.mark_unreadable(one, ParserGaveUp("No."))
    assert catalog.priorities() == {}
    assert catalog.prioritise("/d") == frozenset()


def test_who_was_read_in_company_at_a_crash_is_a_suspect_and_no_more(catalog: Catalog) -> None:
    first, second, _ = ids(catalog, "/d")
    for _ in range(5):
        catalog.mark_begun([first, second], alone=False)
        assert catalog.judge_crashes() == frozenset()

    assert catalog.suspects() == {first: 1, second: 1}


def test_who_was_alone_at_two_crashes_is_to_be_set_aside(catalog: Catalog) -> None:
    first, *_ = ids(catalog, "/d")
    catalog.mark_begun([first], alone=True)
    assert catalog.judge_crashes() == frozenset()
    catalog.mark_begun([first], alone=True)

    assert catalog.judge_crashes() == {first}
    catalog.mark_unreadable(first, ParserGaveUp("It ended the engine."))
    assert catalog.judge_crashes() == frozenset()
    assert catalog.suspects() == {}


def test_reading_that_was_left_in_order_raises_no_suspicion(catalog: Catalog) -> None:
    everything = ids(catalog, "/d")
    catalog.mark_begun(everything, alone=True)
    catalog.clear_begun(everything)

    catalog.judge_crashes()

    assert catalog.suspects() == {}


def test_a_run_that_goes_on_keeps_its_account_and_a_new_one_begins_its_own(catalog: Catalog) -> None:
    begun = catalog.begin_run(10, 1000, goes_on=False)

    assert catalog.begin_run(4, 300, goes_on=True) == begun
    assert catalog.begin_run(4, 300, goes_on=False).documents_total == 4
    assert catalog.begin_run(5, 300, goes_on=True).documents_total == 5
    catalog.end_run()
    assert catalog.begin_run(2, 30, goes_on=True).documents_total == 2
