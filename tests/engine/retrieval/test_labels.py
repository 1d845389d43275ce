"""Tests for engine.retrieval.labels."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from engine.retrieval.labels import LabelTable, folders_label, label_of, labels_of, strengths, words_of

ROOT = "/home/anna/Documents"
PATHS = {
    1: f"{ROOT}/Rechnungen/telekom-2024-03.pdf",
    2: f"{ROOT}/Rechnungen/telekom-2024-04.pdf",
    3: f"{ROOT}/Rechnungen/stadtwerke_2024.pdf",
    4: f"{ROOT}/Bücher/ThePragmaticProgrammer.epub",
    5: f"{ROOT}/Bücher/Kochen mit Gewürzen.pdf",
    6: f"{ROOT}/Vodafone/scan0001.pdf",
    7: f"{ROOT}/notes.txt",
}


def table_of(paths: Mapping[int, str] = PATHS) -> LabelTable:
    return LabelTable.of(labels_of(paths, {ROOT}))


def found(text: str, table: LabelTable | None = None, **options: Any) -> dict[int, float]:
    return strengths(text, [(table or table_of(), options.get("is_wanted", lambda _: True))], options.get("limit", 9))


@pytest.mark.parametrize(
    ("name", "parts", "wholes", "numbers"),
    [
        ("telekom-2024-03", {"telekom"}, set(), {"2024", "3"}),
        ("Lease_agreement v2.final", {"leas", "agreement"}, {"v2"}, {"2"}),
        ("TelekomRechnungMai", {"telekom", "rechnung", "mai"}, {"telekomrechnungmai"}, set()),
        ("iPhone13 warranty", {"phon", "warranty"}, {"iphone13"}, {"13"}),
        ("HTTPServer", {"http"}, {"httpserver"}, set()),
        ("Mu\u0308llers Gärten", {"muller", "garten"}, set(), set()),
        ("电信发票", {"电信", "信发", "发票"}, set(), set()),
        ("the file and the name", set(), set(), set()),
    ],
)
def test_a_name_is_split_into_its_words(name: str, parts: set[str], wholes: set[str], numbers: set[str]) -> None:
    words = words_of(name)

    assert set(words.parts) == parts
    assert set(words.wholes) == wholes
    assert set(words.numbers) == numbers


def test_a_word_of_the_name_finds_the_files_that_have_it() -> None:
    assert set(found("telekom invoice march")) == {1, 2}
    assert set(found("What did I pay to the Stadtwerke?")) == {3}
    assert set(found("pragmatic programmer")) == {4}
    assert set(found("PragmaticProgrammer")) == {4}


def test_a_number_tells_two_names_apart_but_finds_nothing_alone() -> None:
    assert list(found("telekom 2024-04")) == [2, 1]
    assert found("What happened in 2024?") == {}


def test_a_long_number_is_a_name_of_its_own() -> None:
    table = table_of({**PATHS, 8: f"{ROOT}/471108.pdf", 9: f"{ROOT}/2019.pdf"})

    assert set(found("contract 471108", table)) == {8}
    assert found("In which year, 2019 or later?", table) == {}


def test_the_folder_around_a_file_counts_less_than_its_name() -> None:
    by_folder, by_name = found("vodafone contract")[6], found("stadtwerke contract")[3]

    assert 0 < by_folder < by_name


def test_folders_above_what_the_user_added_say_nothing() -> None:
    assert found("Anna's documents at home") == {}
    assert set(found("anna", LabelTable.of(labels_of(PATHS, set())))) == {7}


def test_what_half_of_the_names_have_tells_nothing() -> None:
    paths = {number: f"{ROOT}/scan-{word}.pdf" for number, word in enumerate(["lease", "will", "tax", "bill"])}

    assert found("scan", table_of(paths)) == {}
    assert list(found("scan of the lease", table_of(paths))) == [0]


def test_words_that_every_question_has_say_nothing() -> None:
    paths = {1: f"{ROOT}/who-is-it.txt", 2: f"{ROOT}/der Vertrag mit.txt", 3: f"{ROOT}/x.txt"}

    assert found("Wer ist der Mann mit dem Hut?", table_of(paths)) == {}


def test_the_more_of_a_name_is_said_the_better_it_fits() -> None:
    paths = {1: f"{ROOT}/garden.md", 2: f"{ROOT}/garden party guest list.md", **dict.fromkeys((3, 4, 5), f"{ROOT}/x")}
    table = table_of(paths)

    assert list(found("garden", table)) == [1, 2]
    assert list(found("garden party guests", table)) == [2, 1]


def test_what_a_long_text_shares_with_a_name_may_be_chance() -> None:
    words = " ".join(f"wort{chr(97 + number % 26)}{chr(97 + number // 26)}" for number in range(200))

    assert found(f"telekom {words}")[1] < 0.1 * found("telekom")[1]


def test_only_what_may_be_found_is_found() -> None:
    assert set(found("telekom", is_wanted=lambda one: one == 2)) == {2}
    assert list(found("telekom", limit=1)) == [1]


def test_a_library_without_names_finds_nothing() -> None:
    assert found("telekom", LabelTable.of(())) == {}
    assert found("", table_of()) == {}


def test_labels_are_taken_out_and_put_in() -> None:
    changed = labels_of({1: f"{ROOT}/Rechnungen/vodafone-2024-03.pdf"}, {ROOT})
    table = table_of().without({1, 7}).with_(LabelTable.of(changed))

    assert set(found("telekom", table)) == {2}
    assert set(found("vodafone", table)) == {1, 6}
    assert table.num_documents == 6


def test_a_name_out_of_measure_makes_a_label_of_few_terms() -> None:
    name = " ".join(f"wort{chr(97 + number % 26)}{chr(97 + number // 26)}" for number in range(100))

    assert len(label_of(name, {})) <= 24


def test_long_names_of_folders_leave_room_for_the_file() -> None:
    around = folders_label(["关于进一步加强校园安全管理工作的通知", "二零二四年度第一学期教学工作计划总结"])
    assert len(around) >= 24
    label = label_of("王小明", around)
    assert set(label_of("王小明", {})) < set(label)
    assert list(label) == list(label_of("王小明", around))
