"""Tests for engine.generation.word_spaces: parts of a prompt have the spaces that it has when it is read as a whole."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from engine.generation.chat_template import Message, PromptPart
from engine.generation.model import Model
from engine.generation.segment import tokens_of
from engine.generation.speaker import Speaker, speaker_of
from engine.generation.tokenizer import as_llama_reads
from engine.generation.word_spaces import spaced
from tests.helpers.tiny_gguf import write_tiny_model

# Mistral's first and Zephyr's: spaces or line breaks stand between marks that are words to the tokenizer.
MISTRAL = (
    "{{ bos_token }}{% for m in messages %}{% if m.role == 'assistant' %}{{ m.content + eos_token }}"
    "{% else %}{{ '[INST] ' + m.content + ' [/INST]' }}{% endif %}{% endfor %}"
)
ZEPHYR = (
    "{% for m in messages %}{{ '[' + m.role + ']\\n' + m.content + eos_token + '\\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '[assistant]\\n' }}{% endif %}"
)
TALK = (
    Message("user", (PromptPart("why then"),)),
    Message("assistant", (PromptPart("so it is", stands_alone=True),)),
    Message("user", (PromptPart("and now"),)),
)


@pytest.fixture
def opened(tmp_path: Path) -> Iterator[list[Model]]:
    models: list[Model] = []
    yield models
    for model in models:
        model.close()


def loaded(opened: list[Model], folder: Path, **options) -> Model:
    path = write_tiny_model(folder / f"m{len(opened)}.gguf", **options)
    opened.append(Model(path, 0, lambda share: True))
    return opened[-1]


def spoken_to(opened: list[Model], folder: Path, template: str | None) -> Speaker:
    return speaker_of(loaded(opened, folder, chat_template=template), "m", "", 2048)


def as_a_whole(opened: list[Model], parts: tuple[PromptPart, ...]) -> list[int]:
    """As llama.cpp reads all of it in one go."""
    text = "".join(part.text for part in parts)
    return as_llama_reads(opened[-1].vocab, text, True)


@pytest.mark.parametrize("template", [MISTRAL, ZEPHYR, None])
def test_a_prompt_that_is_read_part_by_part_has_the_tokens_of_the_whole(opened, tmp_path: Path, template: str | None):
    speaker = spoken_to(opened, tmp_path, template)
    plain = tuple(speaker._rendered(TALK) or ())
    read = tokens_of(speaker.segments(speaker.render(TALK)))
    if plain:
        assert list(read) == [1, *as_a_whole(opened, plain)][int(plain[0].text.startswith("<s>")) :]
    assert b"  " not in b"".join(map(opened[-1].piece, read))


def test_a_raw_prompt_is_read_as_llama_cpp_reads_it(opened, tmp_path: Path):
    speaker = spoken_to(opened, tmp_path, None)
    assert speaker.tokens_as_they_stand("a b") == (1, *as_llama_reads(opened[-1].vocab, "a b", True))
    assert speaker.tokens_as_they_stand("<s>a b") == tuple(as_llama_reads(opened[-1].vocab, "<s>a b", True))


def test_passages_and_answers_are_the_same_wherever_they_stand():
    passage = PromptPart("[1] a.txt", kind="passage", stands_alone=True)
    own = PromptPart("so", tokens=(7, 8))
    parts = [
        PromptPart("<s>[I] ", is_markup=True),
        passage,
        PromptPart("why"),
        PromptPart(" [/I] ", is_markup=True),
        own,
    ]
    read = list(spaced(parts, lambda part: list(map(ord, part.text)), lambda token: chr(token) in "<>"))
    assert read == parts


def test_a_space_goes_to_the_word_behind_it_and_one_is_put_behind_a_mark():
    parts = [
        PromptPart("<s>[I] ", is_markup=True),
        PromptPart("why"),
        PromptPart("<u>", is_markup=True),
        PromptPart("so"),
    ]
    read = spaced(parts, lambda part: list(map(ord, part.text)), lambda token: chr(token) in "<>")
    assert [part.text for part in read] == ["<s>[I]", " why", "<u>", " so"]
