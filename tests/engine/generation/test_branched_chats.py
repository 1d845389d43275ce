"""Tests for chats that branch off and lose turns: the model reads only what it has not read in another chat."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from engine.core import Question
from engine.events import AnswerFinished
from engine.generation.commands import UseModel
from tests.engine.generation.conftest import EVIDENCE, Desk
from tests.helpers.tiny_gguf import CHATML, write_tiny_model

Transcript = tuple[dict[str, Any], ...]


@pytest.fixture
def asking(desk: Desk, tmp_path: Path) -> Desk:
    desk.worker.use(UseModel(write_tiny_model(tmp_path / "m.gguf", chat_template=CHATML, never_ends=True)))
    desk.model_state("loaded")
    return desk


def ask(desk: Desk, chat: str, text: str, transcript: Transcript = ()) -> AnswerFinished:
    desk.put(Question(text, text, conversation_id=chat, transcript=transcript), EVIDENCE, max_tokens=20)
    end = desk.end_of(text)
    assert isinstance(end, AnswerFinished)
    return end


def test_the_first_question_of_a_branched_chat_finds_all_that_it_shares_with_the_other(asking: Desk) -> None:
    one = ask(asking, "first chat", "How do threads share state?")
    two = ask(asking, "first chat", "Why so?", one.answer.segments)
    other = ask(asking, "second chat", "Is there another way?", one.answer.segments)
    # A question that comes right after an answer computes the answer's last token in its own first pass.
    shared = one.timings.prompt_tokens + one.timings.generated_tokens - 1
    assert other.timings.cached_tokens >= two.timings.cached_tokens >= shared


def test_a_chat_that_has_lost_a_turn_is_read_again_from_there_on_only(asking: Desk) -> None:
    transcript: Transcript = ()
    ends = []
    for text in ("How do threads share state?", "Why so?", "What else?"):
        ends.append(ask(asking, "chat", text, transcript))
        transcript += ends[-1].answer.segments
    # The second turn was deleted.
    without = ends[0].answer.segments + ends[2].answer.segments
    end = ask(asking, "chat", "And then?", without)
    whole = ask(asking, "chat", "And now?", transcript)
    first = ends[0].timings.prompt_tokens + ends[0].timings.generated_tokens
    assert first <= end.timings.cached_tokens < end.timings.prompt_tokens
    assert end.timings.prompt_tokens < whole.timings.prompt_tokens
