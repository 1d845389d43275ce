"""Tests for app.models.question_filters."""

from __future__ import annotations

import re
from datetime import date
from pathlib import Path

from app.models.question_filters import (
    KINDS,
    chips,
    has_kind,
    periods,
    with_attached,
    with_kind,
    with_path,
    with_period,
    without_paths,
)
from engine.protocol import Filters

NONE = Filters()


def texts(filters: Filters) -> list[str]:
    return [chip.text for chip in chips(filters)]


def test_nothing_chosen_shows_nothing(qapp):
    assert chips(NONE) == ()
    assert chips(Filters(reads_question=False)) == ()


def test_each_thing_chosen_is_a_chip_that_takes_only_itself_away(qapp):
    filters = with_period(with_kind(with_path(NONE, "/docs/Lease", True), "PDF files", True), date(2025, 1, 1), None)
    assert texts(filters) == ["in Lease", "PDF files", "changed since 2025-01-01"]
    for chip in chips(filters):
        assert texts(chip.without) == [text for text in texts(filters) if text != chip.text]
    assert chips(filters)[0].detail == "/docs/Lease"


def test_kinds_stand_beside_each_other_and_are_whole(qapp):
    filters = with_kind(with_kind(NONE, "Spreadsheets and tables", True), "PDF files", True)
    assert has_kind(filters, "Spreadsheets and tables")
    assert texts(filters) == ["PDF files", "Spreadsheets and tables"]
    assert texts(with_kind(filters, "Spreadsheets and tables", False)) == ["PDF files"]


def test_a_format_that_is_no_whole_kind_is_named_by_itself(qapp):
    filters = Filters(formats=("ods", "pdf"))
    assert texts(filters) == ["PDF files", "ods files"]
    assert chips(filters)[1].without == Filters(formats=("pdf",))


def test_a_path_is_chosen_once_and_its_name_can_be_no_utf8(qapp):
    filters = with_path(with_path(NONE, "/docs/na\udcefve/", True), "/docs/na\udcefve/", True)
    assert texts(filters) == ["in na\ufffdve"]
    assert with_path(filters, "/docs/na\udcefve/", False) == NONE


def test_periods_have_their_first_and_last_day(qapp):
    found = {text: (since, until) for text, since, until in periods(date(2026, 3, 1))}
    assert found["Last 7 days"] == (date(2026, 2, 23), None)
    assert found["Last year"] == (date(2025, 1, 1), date(2025, 12, 31))
    assert texts(with_period(NONE, *found["Last year"])) == ["changed 2025-01-01 to 2025-12-31"]
    assert texts(with_period(NONE, None, date(2025, 12, 31))) == ["changed until 2025-12-31"]


def test_every_kind_of_file_that_the_engine_reads_can_be_chosen(qapp):
    sources = Path(__file__).resolve().parents[3] / "engine" / "library" / "parsers"
    made = {
        found
        for file in sources.glob("*.py")
        for found in re.findall(r'ParsedDocument\(\s*"(\w+)"', file.read_text(encoding="utf-8"))
    }
    assert made
    assert made <= {name for formats in KINDS.values() for name in formats}


def test_what_is_attached_is_found_beside_the_places_chosen_whatever_kind_and_time_were():
    before = Filters(paths=("/a",), formats=("pdf",), changed_since="2025-01-01", reads_question=False)
    assert with_attached(before, ["/b.txt", "/a", "/b.txt"]) == Filters(paths=("/a", "/b.txt"), reads_question=False)
    assert without_paths(before, ("/a", "/c")) == Filters(
        formats=("pdf",), changed_since="2025-01-01", reads_question=False
    )


def test_more_paths_than_can_be_told_apart_are_one_chip_that_names_the_first_of_them(qapp):
    twelve, many = Filters(paths=tuple(map(str, range(12)))), Filters(paths=tuple(map(str, range(100))))
    assert len(chips(twelve)) == 12
    (*_, last) = chips(many)
    assert (len(chips(many)), last.text) == (12, "in 89 others")
    assert last.detail.splitlines()[:2] == ["11", "12"]
    assert last.detail.splitlines()[-1] == "…"
    assert last.without.paths == tuple(map(str, range(11)))
