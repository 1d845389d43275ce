"""Tests for engine.generation.worker with models whose prompts share no beginnings.

A recurrent model, a hybrid, and one of which some layers see only a window.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from engine.core import Question, SamplingParams
from engine.events import AnswerCancelled, AnswerFailed, AnswerFinished, TokensGenerated
from engine.generation.commands import UseModel
from engine.generation.whole_kept import WholePrompts
from engine.inflight import QuestionInFlight
from tests.engine.generation.conftest import ENDS, EVIDENCE, Desk
from tests.helpers.tiny_gguf import write_tiny_lfm2, write_tiny_mamba

LONG = 'root ::= "a" root'
SHORT = replace(EVIDENCE, passages=EVIDENCE.passages[:1])
WRITERS: dict[str, Callable[[Path], Path]] = {
    "mamba": write_tiny_mamba,
    "lfm2": write_tiny_lfm2,
}


@pytest.fixture(scope="module", params=list(WRITERS))
def model(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return WRITERS[request.param](tmp_path_factory.mktemp("models") / f"{request.param}.gguf")


@pytest.fixture
def model_desk(desk: Desk, model: Path) -> Desk:
    """With cells for one long answer."""
    chosen = desk.settings.generation.model_copy(update={"parallel_answers": 1, "max_context": 512, "read_ahead": True})
    desk.settings = desk.settings.model_copy(update={"generation": chosen})
    desk.worker.use(UseModel(model))
    desk.model_state("loaded")
    return desk


def test_answers_come_side_by_side_and_as_they_would_alone(model_desk, at_once):
    alone = {}
    for name in ("one", "two"):
        model_desk.ask(name, f"alone-{name}", max_tokens=16)
        alone[name] = model_desk.end_of(f"alone-{name}").answer.text
    with at_once():
        for name in ("one", "two"):
            model_desk.ask(name, name, max_tokens=16)
    ends = {end.question_id: end for end in (model_desk.end_of_any(), model_desk.end_of_any())}
    assert {name: end.answer.text for name, end in ends.items()} == alone
    names = [event.question_id for event in model_desk.events if isinstance(event, TokensGenerated)]
    assert set(names[names.index("two") :]) == {"one", "two"}


def test_what_has_to_give_way_goes_on_with_the_same_text(model_desk, at_once):
    asked = [(f"q{number}", f"How, {number}?") for number in range(2)]
    alone = []
    for name, text in asked:
        model_desk.ask(text, f"alone-{name}", max_tokens=180, grammar=LONG)
        alone.append(model_desk.end_of(f"alone-{name}").answer.text)
    with at_once():
        for name, text in asked:
            model_desk.ask(text, name, max_tokens=180, grammar=LONG)
    ends = {end.question_id: end for end in (model_desk.end_of_any(), model_desk.end_of_any())}
    assert [ends[name].answer.text for name, _ in asked] == alone == ["a" * 180] * 2
    counters = model_desk.loader.loaded_now.loop.counters()
    assert counters.preempted_by_swap + counters.preempted_by_recompute > 0
    # The last tokens are computed, and all of it is kept.
    model_desk.wait_until(lambda: model_desk.loader.loaded_now.loop.counters().cells_used == 0)


def test_passages_are_not_kept_and_nothing_is_read_ahead(model_desk):
    guessed = QuestionInFlight(Question("q", "How?", sampling=SamplingParams(max_tokens=6, temperature=0.0)))
    model_desk.worker.expect(guessed, EVIDENCE.passages)
    model_desk.worker.submit(guessed, EVIDENCE)
    first = model_desk.end_of("q")
    model_desk.ask("How?", "again", max_tokens=6)
    second = model_desk.end_of("again")
    assert second.answer.text == first.answer.text
    assert [end.timings.cached_tokens for end in (first, second)] == [0, 0]
    assert model_desk.loader.loaded_now.loop.counters().prompt_tokens == 2 * first.timings.prompt_tokens


def test_a_conversation_is_not_read_again_and_an_edited_turn_goes_on_from_the_one_before(model_desk, monkeypatch):
    model_desk.ask("How?", "first", max_tokens=6, evidence=SHORT)
    first = model_desk.end_of("first")
    turns = {}
    for name in ("next", "edited", "regenerated"):
        text = "Why not?" if name == "edited" else "And then?"
        model_desk.ask(text, name, transcript=first.answer.segments, max_tokens=6, evidence=SHORT)
        turns[name] = model_desk.end_of(name)
        # All that was read, and all that was written.
        assert turns[name].timings.cached_tokens >= first.timings.prompt_tokens + 5
    both = (*first.answer.segments, *turns["next"].answer.segments)
    model_desk.ask("Last?", "third", transcript=both, max_tokens=6, evidence=SHORT)
    third = model_desk.end_of("third")
    assert third.timings.cached_tokens >= turns["next"].timings.prompt_tokens + 5

    monkeypatch.setattr(WholePrompts, "pieces_of", lambda *_: [])
    for text, transcript, kept in (
        ("And then?", first.answer.segments, turns["next"]),
        ("Why not?", first.answer.segments, turns["edited"]),
        ("And then?", first.answer.segments, turns["regenerated"]),
        ("Last?", both, third),
    ):
        model_desk.ask(text, "plain", transcript=transcript, max_tokens=6, evidence=SHORT)
        plain = model_desk.end_of("plain")
        assert plain.timings.cached_tokens == 0
        assert plain.answer.text == kept.answer.text


def test_a_conversation_is_found_again_after_a_restart_until_a_document_of_it_is_removed(model_desk, model: Path):
    model_desk.ask("How?", "first", max_tokens=6)
    first = model_desk.end_of("first")
    model_desk.worker.use(UseModel(None))
    model_desk.model_state("none")
    model_desk.worker.use(UseModel(model))
    model_desk.wait_until(lambda: model_desk.loader.loaded_now is not None)
    model_desk.ask("And then?", "next", transcript=first.answer.segments, max_tokens=6)
    assert model_desk.end_of("next").timings.cached_tokens >= first.timings.prompt_tokens + 5
    model_desk.known = set()
    model_desk.worker.forget_removed()
    model_desk.wait_until(lambda: not model_desk.loader.loaded_now.documents())
    assert not model_desk.loader.loaded_now.keeper.tree.root.children


def test_what_makes_way_with_something_kept_goes_on_with_the_same_text(model_desk, at_once):
    model_desk.ask("How?", "first", max_tokens=6)
    first = model_desk.end_of("first").answer.segments
    asked = [(f"q{number}", f"And then, {number}?") for number in range(2)]
    alone = []
    for name, text in asked:
        model_desk.ask(text, f"alone-{name}", transcript=first, max_tokens=150, grammar=LONG)
        alone.append(model_desk.end_of(f"alone-{name}").answer.text)
    with at_once():
        for name, text in asked:
            model_desk.ask(text, name, transcript=first, max_tokens=150, grammar=LONG)
    ends = {end.question_id: end for end in (model_desk.end_of_any(), model_desk.end_of_any())}
    assert [ends[name].answer.text for name, _ in asked] == alone
    model_desk.wait_until(lambda: model_desk.loader.loaded_now.loop.counters().cells_used == 0)


def test_several_answers_are_written_to_one_question(model_desk):
    model_desk.ask("How?", num_answers=3, temperature=1.0, max_tokens=12)
    end = model_desk.end_of()
    assert isinstance(end, AnswerFinished)
    assert len({end.answer.text, *(other.text for other in end.answer.alternatives)}) == 3


def test_beams_are_refused_with_a_sentence(model_desk):
    model_desk.ask("How?", beam_width=3)
    end = model_desk.end_of()
    assert isinstance(end, AnswerFailed)
    assert "one beam only" in end.error.sentence
    assert end.error.way_out


def test_one_that_is_cancelled_leaves_the_other_as_it_is(model_desk, at_once):
    model_desk.ask("How, one?", "alone", max_tokens=100, grammar=LONG)
    alone = model_desk.end_of("alone").answer.text
    with at_once():
        model_desk.ask("How, one?", "stays", max_tokens=100, grammar=LONG)
        leaving = model_desk.ask("How, two?", "leaves", max_tokens=100_000, grammar=LONG)
        model_desk.at_text_of("leaves", leaving.cancelled.set)
    ends = {end.question_id: end for end in (model_desk.end_of_any(), model_desk.end_of_any())}
    assert isinstance(ends["leaves"], AnswerCancelled)
    assert ends["stays"].answer.text == alone
    assert sum(isinstance(event, ENDS) for event in model_desk.events) == 3
