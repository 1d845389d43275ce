"""Tests for `language` of engine.library_calls: whether the embedding model knows what the texts are in."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from engine.embedder.catalogue import CATALOGUE
from engine.engine import Engine
from engine.protocol import LanguageReply
from tests.helpers.quick_stores import use_quick_stores

GERMAN = "Die Miete beträgt 900 Euro und ist bis zum dritten Werktag des Monats zu zahlen; Haus {} gehört nicht dazu.\n"
ENGLISH = "The lease of house {} ends in May, and the notice period is three months for both of the parties.\n"


@pytest.fixture
def engine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Engine]:
    use_quick_stores(monkeypatch.setattr)
    with Engine.open(tmp_path / "home") as made:
        yield made


def add(engine: Engine, folder: Path, text: str, count: int) -> None:
    folder.mkdir(exist_ok=True)
    for number in range(count):
        (folder / f"{text[:3]}{number}.md").write_text(text.format(number), encoding="utf-8")
    engine.add([folder])


def test_texts_that_the_model_does_not_know_are_told_of(engine: Engine, tmp_path: Path) -> None:
    assert engine.language() == LanguageReply()
    add(engine, tmp_path / "docs", GERMAN, 4)
    assert engine.language() == LanguageReply(
        language="de", knows_english_only=True, offered_bytes=CATALOGUE[0].num_bytes
    )
    add(engine, tmp_path / "docs", ENGLISH, 9)
    assert engine.language() == LanguageReply(knows_english_only=True, offered_bytes=CATALOGUE[0].num_bytes)


def test_a_model_that_knows_them_needs_no_other(engine: Engine, tmp_path: Path) -> None:
    add(engine, tmp_path / "docs", GERMAN, 4)
    engine._parts.stores().embedder.is_english_only = False  # type: ignore[misc]
    assert engine.language() == LanguageReply()
