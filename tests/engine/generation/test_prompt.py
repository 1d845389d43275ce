"""Tests for engine.generation.prompt."""

from __future__ import annotations

import pytest

from engine.core import Passage
from engine.errors import BadRequest, PromptTooLong
from engine.generation.chat_template import ChatTemplate
from engine.generation.prompt import (
    Speaker,
    Turn,
    answer_reserve,
    compose,
    documents_in_transcript,
    segments_of_turn,
    turns_of_transcript,
)
from tests.helpers.tiny_gguf import CHATML


def words(text: str) -> int:
    return len(text.split())


def passage(number: int, text: str) -> Passage:
    return Passage(f"r{number}", number, f"/home/me/file{number}.md", 0, number, 0, len(text), "", text, 1.0 / number)


def speaker(num_cells: int, template: str | None = CHATML) -> Speaker:
    return Speaker(ChatTemplate(template, "<s>", "</s>") if template else None, words, num_cells)


def text_of(prompt) -> str:
    return "".join(part.text for part in prompt.parts)


PASSAGES = [passage(number, f"P{number} " + "word " * 99) for number in range(1, 7)]


def test_everything_that_fits_is_there_in_order():
    prompt = compose("Why?", PASSAGES[:2], (), speaker(4096), 100)
    text = text_of(prompt)
    assert (
        text.index("[1] file1.md, page 1\nP1") < text.index("[2] file2.md, page 2\nP2") < text.index("Question: Why?")
    )
    assert "/home/me" not in text


@pytest.mark.parametrize("num_cells", [60, 120, 250, 400, 700, 2000])
@pytest.mark.parametrize("template", [CHATML, None])
def test_the_prompt_never_exceeds_what_the_answer_leaves(num_cells: int, template: str | None):
    reserve = answer_reserve(512, num_cells)
    history = [Turn(f"q{n}", (), "an answer " * 20) for n in range(5)]
    prompt = compose("Why is that so?", PASSAGES, history, speaker(num_cells, template), reserve)
    assert prompt.num_tokens <= num_cells - reserve
    assert "Why is that so?" in text_of(prompt)


def test_the_passage_that_does_not_fit_is_cut_and_the_worse_ones_left_out():
    prompt = compose("Why?", PASSAGES, (), speaker(400), 50)
    assert 1 <= len(prompt.passages) < 6
    assert prompt.passages[-1].text != PASSAGES[len(prompt.passages) - 1].text
    assert PASSAGES[len(prompt.passages) - 1].text.startswith(prompt.passages[-1].text)


def test_the_newest_turns_stay_when_not_all_fit():
    history = [Turn(f"question{n}", (), "answer " * 40) for n in range(10)]
    prompt = compose("Why?", PASSAGES, history, speaker(800), 100)
    assert "question9" in text_of(prompt)
    assert "question0" not in text_of(prompt)
    assert prompt.passages


def test_a_next_turn_begins_with_the_whole_prompt_of_the_last():
    first = compose("One?", PASSAGES[:1], (), speaker(4096), 100)
    history = turns_of_transcript(segments_of_turn("One?", first.passages, "Yes [1]."), {1})
    second = compose("Two?", PASSAGES[1:2], history, speaker(4096), 100)
    assert text_of(second).startswith(text_of(first) + "Yes [1].")


def test_a_question_longer_than_the_context_is_refused_with_a_sentence():
    with pytest.raises(PromptTooLong, match="too long for this model"):
        compose("why " * 300, [], (), speaker(256), 50)


def test_passages_of_removed_documents_leave_the_transcript():
    prompt = compose("One?", PASSAGES[:2], (), speaker(4096), 100)
    transcript = segments_of_turn("One?", prompt.passages, "Yes [1].")
    assert documents_in_transcript(transcript) == {1, 2}
    (turn,) = turns_of_transcript(transcript, {2})
    assert [evidence.document_id for evidence in turn.passages] == [2]
    assert turn.answer == "Yes [1]."


@pytest.mark.parametrize(
    "transcript", [[{"role": "user"}], [{}, {}], [{"question": "q", "passages": [{}]}, {"text": "a"}]]
)
def test_a_transcript_that_is_not_ours_is_refused(transcript):
    with pytest.raises(BadRequest):
        turns_of_transcript(transcript, set())


def test_the_answer_gets_at_most_a_quarter_of_a_small_context():
    assert answer_reserve(512, 512) == 128
    assert answer_reserve(512, 8192) == 512
