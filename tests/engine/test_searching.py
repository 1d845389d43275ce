"""Tests for engine.searching: what a whole engine's search knows of its files' names."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from engine.engine import Engine
from tests.helpers.quick_stores import use_quick_stores

INVOICE = "The invoice of March {} was paid late, and so was that of Telekom."


@pytest.fixture
def docs(tmp_path: Path) -> Path:
    docs = tmp_path / "docs"
    docs.mkdir()
    for number in range(20):
        (docs / f"note {number}.md").write_text(INVOICE.format(number), encoding="utf-8")
    (docs / "telekom-2024-03.md").write_text("Betrag 39,95 EUR zahlbar bis 14.", encoding="utf-8")
    return docs


@pytest.fixture
def engine(tmp_path: Path, docs: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Engine]:
    use_quick_stores(monkeypatch.setattr)
    with Engine.open(tmp_path / "home") as made:
        made.add([docs])
        yield made


def names(engine: Engine, question: str) -> set[str]:
    return {Path(passage.document).name for passage in engine.search(question, 6).passages}


def test_a_file_is_found_by_words_of_its_name_and_by_those_of_its_next_one(engine: Engine, docs: Path) -> None:
    assert "telekom-2024-03.md" in names(engine, "telekom invoice march")
    (docs / "telekom-2024-03.md").rename(docs / "vodafone-2024-03.md")
    engine.rescan()
    assert "vodafone-2024-03.md" in names(engine, "vodafone invoice march")
    (docs / "kabel-deutschland.md").write_text("Betrag 12,95 EUR zahlbar bis 30.", encoding="utf-8")
    engine.rescan()
    assert "kabel-deutschland.md" in names(engine, "the kabel invoice of march")


def test_an_answer_cites_from_what_was_found_by_its_name(engine: Engine) -> None:
    answer = engine.ask("How much was the telekom invoice of march?")

    assert "telekom-2024-03.md" in {Path(passage.document).name for passage in answer.passages}
