"""Tests for engine.generation.context_use: the figures add up to what was read and written."""

from __future__ import annotations

from pathlib import Path

from engine.core import ContextUse
from engine.generation.commands import UseModel
from engine.generation.context_use import context_use
from engine.generation.continuation import Reading
from engine.generation.conversation import Turn
from engine.generation.prompt import Begun, Prompt
from engine.generation.segment import Segment

PARTS = (
    Segment((1,) * 20, "instructions"),
    Segment((2,) * 50, "passage", frozenset({1})),
    Segment((3,) * 12),
    Segment((4,) * 30, "passage", frozenset({2})),
    Segment((5,) * 8),
)
NUM_READ = 120


def prompt(begun: Begun | None = None, turns_left_out: int = 0) -> Prompt:
    return Prompt(PARTS, (), (), NUM_READ, begun=begun, turns_left_out=turns_left_out)


def test_every_token_is_counted_once_by_its_kind():
    made = prompt(turns_left_out=4)
    use = context_use(made, Reading.of(made), NUM_READ + 7, 7, 1000, 100)
    assert use == ContextUse(1000, 20, 80, 20, 7, 100, 4)
    assert use.used == NUM_READ + 7


def test_at_most_a_quarter_of_a_small_context_is_kept_free():
    made = prompt()
    assert context_use(made, Reading.of(made), NUM_READ, 0, 200, 100).reserve == 50


def test_what_a_continued_answer_began_with_belongs_to_the_answer():
    made = prompt(Begun(Turn("How?", (), "Blue"), ("Blue",), (5,) * 8, stays=True))
    use = context_use(made, Reading.of(made), NUM_READ + 7, 7, 1000, 100)
    assert (use.conversation, use.answer, use.used) == (12, 15, NUM_READ + 7)


def test_an_answer_tells_how_full_the_context_is(desk, tiny_model: Path):
    desk.worker.use(UseModel(tiny_model))
    desk.ask("First?", "a", grammar='root ::= "Yes [1]."')
    first = desk.end_of("a")
    use = first.timings.context
    assert use.used == first.timings.prompt_tokens + first.timings.generated_tokens
    assert 0 < use.used + use.reserve <= use.size
    assert use.answer == first.timings.generated_tokens
    assert min(use.instructions, use.passages, use.conversation) > 0
    desk.ask("Second?", "b", transcript=first.answer.segments, grammar='root ::= "No [1]."')
    # The passages stand above already; question and answer have become part of the conversation.
    after = desk.end_of("b").timings.context
    assert (after.instructions, after.passages) == (use.instructions, use.passages)
    assert after.conversation > use.conversation


def test_quotes_fill_no_context(desk):
    desk.ask("How?")
    assert desk.end_of().timings.context == ContextUse()


def test_turns_that_found_no_room_are_told(desk, tiny_model: Path):
    desk.worker.use(UseModel(tiny_model))
    segments: tuple = ()
    for number in range(12):
        question, question_id = f"Question {number}, {'and so on, ' * 30}", f"q{number}"
        desk.ask(question, question_id, transcript=segments, grammar='root ::= "Yes."')
        end = desk.end_of(question_id)
        segments += end.answer.segments
        if end.timings.context.turns_left_out:
            break
    assert 0 < end.timings.context.turns_left_out == end.answer.turns_left_out <= number
