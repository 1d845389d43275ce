"""Tests for engine.generation.continuation."""

from __future__ import annotations

import pytest

from engine.generation.chat_template import ChatTemplate
from engine.generation.continuation import Reading, addition, can_go_on
from engine.generation.conversation import Continuation, Turn
from engine.generation.evidence import EvidencePassage
from engine.generation.prompt import Prompt, compose
from engine.generation.segment import tokens_of
from engine.generation.speaker import Speaker
from engine.generation.transcript import transcript_of, turns_of_transcript
from tests.helpers.passages import passage
from tests.helpers.tiny_gguf import CHATML

FOUND = [passage("The notice period is three months.", document_id=1), passage("Bread is baked.", document_id=2)]
LATER = [EvidencePassage(3, "later.md", None, "It begins on the first."), EvidencePassage(4, "last.md", 2, "It ends.")]
TEXT, TOKENS = "Three months [1].", (900, 901, 902)
AGAIN, TOKENS_AGAIN = "It begins on the first [3].", (903, 904)


def letters(text: str, is_markup: bool = False) -> list[int]:
    return [ord(letter) for letter in text]


def speaker_of(template: str | None = CHATML) -> Speaker:
    chat = ChatTemplate(template, "<s>", "</s>") if template else None
    return Speaker(chat, letters, 4000, "model", bos=1, vocabulary_size=10**6)


@pytest.fixture
def speaker() -> Speaker:
    return speaker_of()


def ask(speaker: Speaker, question: str = "How long?", history: tuple[Turn, ...] = ()) -> Prompt:
    return compose(question, FOUND, history, speaker, 100)


def text(segments) -> str:
    return "".join(map(chr, tokens_of(segments)))


def test_the_model_reads_a_further_turn_with_numbers_that_go_on(speaker: Speaker):
    more = addition(Reading.of(ask(speaker)), TEXT, TOKENS, LATER, speaker, 2000)
    assert more is not None
    assert more.passages == tuple(LATER)
    read = text(more.segments)
    assert read.startswith("<|im_end|>\n<|im_start|>user\n[3] later.md\nIt begins on the first.\n\n[4] last.md, page 2")
    assert read.endswith(more.words + "<|im_end|>\n<|im_start|>assistant\n")
    assert more.reading.next_number == 5


def test_what_came_before_stays_as_it_was_read(speaker: Speaker):
    prompt = ask(speaker)
    more = addition(Reading.of(prompt), TEXT, TOKENS, LATER, speaker, 2000)
    assert more is not None
    whole = more.reading.segments
    assert whole[: len(prompt.segments)] == prompt.segments
    assert whole[len(prompt.segments)].tokens == TOKENS
    assert whole[len(prompt.segments) + 1 :] == more.segments
    assert more.reading.num_tokens == prompt.num_tokens + len(TOKENS) + more.num_tokens


def test_passages_are_known_by_their_documents(speaker: Speaker):
    more = addition(Reading.of(ask(speaker)), TEXT, TOKENS, LATER, speaker, 2000)
    assert more is not None
    passages = [segment for segment in more.segments if segment.kind == "passage"]
    assert [segment.documents for segment in passages] == [{3}, {4}]


def test_more_can_come_again_and_again(speaker: Speaker):
    first = addition(Reading.of(ask(speaker)), TEXT, TOKENS, LATER[:1], speaker, 2000)
    assert first is not None
    second = addition(first.reading, AGAIN, TOKENS_AGAIN, LATER[1:], speaker, 2000)
    assert second is not None
    assert text(second.segments).startswith("<|im_end|>\n<|im_start|>user\n[4] last.md")
    assert second.reading.segments[: len(first.reading.segments)] == first.reading.segments


def test_the_next_prompt_begins_with_all_that_was_read_and_written(speaker: Speaker):
    prompt = ask(speaker)
    more = addition(Reading.of(prompt), TEXT, TOKENS, LATER, speaker, 2000)
    assert more is not None
    continuation = Continuation(more.passages, more.words, AGAIN, TOKENS_AGAIN)
    turn = Turn("How long?", prompt.passages, TEXT, TOKENS, "model", (continuation,))
    history = turns_of_transcript(transcript_of(turn), {1, 2, 3, 4})
    following = ask(speaker, "And then?", history)
    before = more.reading.segments
    assert following.segments[: len(before)] == before
    assert following.segments[len(before)].tokens == TOKENS_AGAIN


def test_only_what_fits_is_read_and_the_last_passage_is_cut(speaker: Speaker):
    reading = Reading.of(ask(speaker))
    whole = addition(reading, TEXT, TOKENS, LATER, speaker, 2000)
    assert whole is not None
    long = [LATER[0], EvidencePassage(4, "last.md", 2, "word " * 200)]
    cut = addition(reading, TEXT, TOKENS, long, speaker, whole.num_tokens + 60)
    assert cut is not None
    assert [one.document_id for one in cut.passages] == [3, 4]
    assert len(cut.passages[1].text) < 100
    assert cut.num_tokens <= whole.num_tokens + 60


def test_where_no_passage_fits_nothing_is_read(speaker: Speaker):
    reading = Reading.of(ask(speaker))
    assert addition(reading, TEXT, TOKENS, LATER, speaker, 100) is None
    assert addition(reading, TEXT, TOKENS, [], speaker, 2000) is None


def test_nothing_is_read_before_a_word_was_written(speaker: Speaker):
    assert addition(Reading.of(ask(speaker)), "", (), LATER, speaker, 2000) is None


@pytest.mark.parametrize("template", [CHATML, None])
def test_templates_that_only_add_can_go_on(template: str | None):
    speaker = speaker_of(template)
    assert can_go_on(Reading.of(ask(speaker)), speaker)


@pytest.mark.parametrize(
    "template",
    [
        "{% for m in messages[-2:] %}<{{ m.role }}>{{ m.content }}{% endfor %}<a>",
        "{% for m in messages %}{% if loop.last or m.role != 'assistant' %}{{ m.content }}{% endif %}{% endfor %}<a>",
        "{{ messages | length }}{% for m in messages %}{{ m.content }}{% endfor %}<a>",
    ],
)
def test_templates_that_say_earlier_turns_otherwise_cannot(template: str):
    speaker = speaker_of(template)
    assert not can_go_on(Reading.of(ask(speaker)), speaker)
