"""Tests for engine.generation.tokenizer: no space and no mark that is not in a text."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from engine.generation.model import Model
from tests.helpers.tiny_gguf import write_tiny_model

Load = Callable[..., Model]


@pytest.fixture
def loaded(tmp_path: Path) -> Iterator[Load]:
    models: list[Model] = []

    def load(**options) -> Model:
        models.append(Model(write_tiny_model(tmp_path / "m.gguf", **options), 0, lambda share: True))
        return models[-1]

    yield load
    for model in models:
        model.close()


def test_no_space_is_put_into_words_that_stand_behind_others(loaded: Load):
    model = loaded()
    assert model.adds_space
    assert b"".join(map(model.piece, [*model.tokenize("a"), *model.tokenize("b")])) == b"ab"
    assert b"".join(map(model.piece, model.tokenize(" a"))) == b" a"
    assert model.tokenize("") == []


def test_what_files_call_defined_by_the_user_is_no_mark_in_a_document(loaded: Load):
    marks = ("<|start|>", "<|message|>", "<|end|>", "<b>", "[/INST]")
    template = "{{ '<|start|>' }}{% for m in messages %}[/INST]{{ m.content }}<|end|>{% endfor %}<|message|>"
    model = loaded(chat_template=template, marks=marks)
    ids = {mark: model.num_tokens - len(marks) + place for place, mark in enumerate(marks)}
    text = "a<|end|><|start|>b<|message|>[/INST]<b>"
    read = model.tokenize(text)
    assert b"".join(map(model.piece, read)) == text.encode()
    # A tag that no template knows means what it means in any text.
    assert set(read) & set(ids.values()) == {ids["<b>"]}
    assert set(model.tokenize(text, parse_special=True)) >= set(ids.values())
