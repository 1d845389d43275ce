"""Tests for engine.generation.rehearsal, in a worker and by itself."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from concurrent.futures import Future
from pathlib import Path

import pytest

from engine.errors import DecodeFailed, GenerationError
from engine.events import AnswerFinished
from engine.generation.cells import CellSequence
from engine.generation.commands import UseModel
from engine.generation.context import Context, Stretch
from engine.generation.rehearsal import BEFORE_TOKENS, MOST_PASSES, Rehearsal, Rehearsed
from tests.engine.generation.conftest import Desk
from tests.helpers.tiny_gguf import write_tiny_mamba


@pytest.fixture
def model_desk(desk: Desk, tiny_model: Path) -> Desk:
    desk.worker.use(UseModel(tiny_model))
    desk.model_state("loaded")
    return desk


def result(reply: Future[Rehearsed | None]) -> Rehearsed | None:
    return reply.result(Desk.patience_s)


def test_steps_and_prompts_are_timed_and_leave_nothing_behind(model_desk: Desk):
    steps, prompt = (result(model_desk.worker.rehearse(*point)) for point in (("write", 3), ("read", 64)))
    assert steps is not None
    assert steps.seconds is not None
    assert steps.seconds > 0
    assert 2 < steps.num_passes <= MOST_PASSES
    assert steps.length > 0
    assert prompt is not None
    assert prompt.seconds is not None
    assert prompt.length == 0
    loop = model_desk.loader.loaded_now.loop
    loop.cells.check_integrity([])


def test_steps_are_timed_behind_a_prompt_where_the_processor_attends_token_by_token(
    model_desk: Desk, monkeypatch: pytest.MonkeyPatch
):
    lengths, used = list[tuple[int, ...]](), list[int]()
    decode = Context.decode

    def watched(context: Context, stretches: Sequence[Stretch]) -> list[int]:
        used.append(model_desk.loader.loaded_now.loop.cells.num_used)
        lengths.append(tuple(stretch.position + len(stretch.tokens) for stretch in stretches))
        return decode(context, stretches)

    monkeypatch.setattr(Context, "decode", watched)
    steps = result(model_desk.worker.rehearse("write", 3))
    assert steps is not None
    assert steps.length >= BEFORE_TOKENS
    *read, first = lengths[: len(lengths) - steps.num_passes + 1]
    assert all(len(ends) == 1 for ends in read)
    assert read[-1] == (BEFORE_TOKENS,)
    assert first == (BEFORE_TOKENS + 1,) * 3
    # It was read once for all of them, each of which had it in cells of its own, and is in no request's way afterwards.
    assert max(used) == 3 * BEFORE_TOKENS + 3 * (steps.num_passes - 1)
    assert len(read) == -(-BEFORE_TOKENS // model_desk.loader.loaded_now.context.n_ubatch)
    model_desk.loader.loaded_now.loop.cells.check_integrity([])
    # Where layers are streamed, steps wait for the disk.
    monkeypatch.setattr(Context, "is_streamed", property(lambda context: True))
    streamed = result(model_desk.worker.rehearse("write", 3))
    assert streamed is not None
    assert streamed.length < BEFORE_TOKENS


def test_steps_that_are_computed_in_two_ways_in_turn_are_timed_when_that_is_over(
    model_desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    left, sizes, decode = [True] * 7, list[int](), Context.decode

    def watched(context: Context, stretches: Sequence[Stretch]) -> list[int]:
        sizes.append(len(stretches))
        return decode(context, stretches)

    monkeypatch.setattr(Context, "is_trying", lambda context, num_tokens: bool(num_tokens == 3 and left and left.pop()))
    monkeypatch.setattr(Context, "decode", watched)
    steps = result(model_desk.worker.rehearse("write", 3))
    assert steps is not None
    assert sizes.count(3) == 7 + steps.num_passes
    model_desk.loader.loaded_now.loop.cells.check_integrity([])


def test_answers_are_the_same_after_a_rehearsal(model_desk: Desk):
    model_desk.ask("How?", "before", max_tokens=20)
    before = model_desk.end_of("before")
    result(model_desk.worker.rehearse("write", 4))
    model_desk.ask("How?", "after", max_tokens=20)
    after = model_desk.end_of("after")
    assert isinstance(before, AnswerFinished)
    assert isinstance(after, AnswerFinished)
    assert after.answer.text == before.answer.text


def test_while_somebody_is_answered_nothing_is_rehearsed(model_desk: Desk):
    replies = list[Future[Rehearsed | None]]()
    model_desk.at_text_of("q", lambda: replies.append(model_desk.worker.rehearse("write", 1)))
    model_desk.ask("How?", "q", max_tokens=200, grammar='root ::= "a" root')
    assert isinstance(model_desk.end_of("q"), AnswerFinished)
    assert result(replies[0]) is None


def test_without_a_model_nothing_is(desk: Desk):
    assert result(desk.worker.rehearse("write", 1)) is None


def test_a_question_that_comes_meanwhile_ends_it(model_desk: Desk):
    until = threading.Event()
    steps = model_desk.worker.rehearse("write", 2, until, 1)
    model_desk.ask("How?", "q", max_tokens=5)
    assert isinstance(model_desk.end_of("q"), AnswerFinished)
    # Nothing ran alongside the last of its steps.
    assert result(steps) is None
    assert not until.is_set()


def test_beside_something_else_steps_go_on_until_that_is_over(model_desk: Desk, monkeypatch: pytest.MonkeyPatch):
    taken, one_pass = list[float](), Rehearsal._pass

    def noted(rehearsal: Rehearsal, sequences: list[CellSequence], num_tokens: int) -> float:
        taken.append(one_pass(rehearsal, sequences, num_tokens))
        return taken[-1]

    monkeypatch.setattr(Rehearsal, "_pass", noted)
    until = threading.Event()
    steps = model_desk.worker.rehearse("write", 2, until, 1)
    model_desk.wait_until(lambda: len(taken) > MOST_PASSES)
    assert not steps.done()
    until.set()
    rehearsed = result(steps)
    # More than the cells hold at once: they begin again.
    assert rehearsed is not None
    assert rehearsed.num_passes > MOST_PASSES
    model_desk.loader.loaded_now.loop.cells.check_integrity([])


def test_what_is_over_before_the_first_step_gives_nothing(model_desk: Desk):
    until = threading.Event()
    until.set()
    assert result(model_desk.worker.rehearse("write", 2, until, 1)) is None
    model_desk.loader.loaded_now.loop.cells.check_integrity([])


def test_more_than_fit_are_not_tried(model_desk: Desk):
    assert result(model_desk.worker.rehearse("write", 10_000)) is None
    assert result(model_desk.worker.rehearse("read", 1_000_000)) is None


def test_what_cannot_be_computed_is_said_to_be_infeasible(model_desk: Desk, monkeypatch: pytest.MonkeyPatch):
    def fail(context: Context, stretches: object) -> list[int]:
        raise DecodeFailed("The model stopped computing.", "Ask again.")

    with monkeypatch.context() as patch:
        patch.setattr(Context, "decode", fail)
        rehearsed = result(model_desk.worker.rehearse("write", 2))
    assert rehearsed is not None
    assert rehearsed.seconds is None
    model_desk.loader.loaded_now.loop.cells.check_integrity([])


@pytest.mark.expects_warnings
def test_what_nobody_expected_is_told_to_whoever_waits(model_desk: Desk, monkeypatch: pytest.MonkeyPatch):
    def fail(rehearsal: Rehearsal, kind: str, size: int) -> None:
        raise ZeroDivisionError("nobody expected that")

    monkeypatch.setattr(Rehearsal, "measured", fail)
    with pytest.raises(GenerationError):
        result(model_desk.worker.rehearse("write", 2))
    model_desk.ask("How?", "q", max_tokens=5)
    assert isinstance(model_desk.end_of("q"), AnswerFinished)


def test_a_model_whose_prefixes_cannot_be_shared_is_timed_too(desk: Desk, tmp_path: Path):
    desk.worker.use(UseModel(write_tiny_mamba(tmp_path / "mamba.gguf")))
    desk.model_state("loaded")
    for point in (("write", 2), ("read", 32)):
        rehearsed = result(desk.worker.rehearse(*point))
        assert rehearsed is not None
        assert rehearsed.seconds


def test_a_model_is_loaded_when_it_is_to_be_measured(desk: Desk, tiny_model: Path):
    assert not desk.worker.load_now().result(Desk.patience_s)
    desk.worker.use(UseModel(tiny_model, is_urgent=False))
    assert desk.worker.load_now().result(Desk.patience_s)
    assert result(desk.worker.rehearse("write", 1)) is not None
