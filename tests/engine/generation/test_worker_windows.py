"""Tests for engine.generation.worker with a model of which some layers look at a sliding window only."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from engine.events import AnswerFinished
from engine.generation.commands import UseModel
from engine.generation.residence import Residence
from tests.engine.generation.conftest import EVIDENCE, PASSAGES, Desk
from tests.helpers.tiny_gguf import write_tiny_gemma2

# Of tokens; a passage below has several hundred.
WINDOW = 64
LONG = replace(
    EVIDENCE,
    passages=tuple(
        replace(PASSAGES[0], document_id=number, text=f"{number}. {PASSAGES[0].text * 4}") for number in range(3)
    ),
)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tiny_gemma2(tmp_path_factory.mktemp("models") / "windows.gguf", window=WINDOW, attention=4.0)


@pytest.fixture
def model_desk(desk: Desk, model: Path) -> Desk:
    desk.worker.use(UseModel(model))
    desk.model_state("loaded")
    return desk


def ask(desk: Desk, text: str, question_id: str, evidence=LONG, **options) -> AnswerFinished:
    desk.ask(text, question_id, evidence=evidence, max_tokens=12, temperature=0.0, **options)
    end = desk.end_of(question_id)
    assert isinstance(end, AnswerFinished), end
    return end


def test_what_was_read_is_not_read_again_and_changes_no_answer(model_desk: Desk, model: Path):
    first = ask(model_desk, "How?", "first")
    again = ask(model_desk, "How?", "again")
    turn = ask(model_desk, "And then?", "turn", transcript=again.answer.segments)
    assert first.timings.prompt_tokens > 8 * WINDOW
    assert again.answer.text == first.answer.text
    # All but the last piece, of which the last token has to be computed again.
    assert again.timings.cached_tokens > first.timings.prompt_tokens / 2
    assert turn.timings.cached_tokens > again.timings.prompt_tokens * 0.9


def test_it_is_found_again_after_a_restart(model_desk: Desk, model: Path, monkeypatch: pytest.MonkeyPatch):
    first = ask(model_desk, "How?", "first")
    model_desk.worker.use(UseModel(None))
    model_desk.model_state("none")
    model_desk.worker.use(UseModel(model))
    model_desk.wait_until(lambda: model_desk.loader.loaded_now is not None)
    again = ask(model_desk, "How?", "again")
    assert again.answer.text == first.answer.text
    assert again.timings.cached_tokens > first.timings.prompt_tokens / 2


def test_answers_side_by_side_and_beams_are_those_that_are_written_alone(model_desk: Desk):
    alone = {name: ask(model_desk, name, f"alone-{name}").answer.text for name in ("one", "two", "three")}
    found = ask(model_desk, "Which?", "beams", beam_width=3).answer
    for name in alone:
        model_desk.ask(name, name, evidence=LONG, max_tokens=12, temperature=0.0)
    model_desk.ask("Which?", "again", evidence=LONG, max_tokens=12, beam_width=3)
    assert {name: model_desk.end_of(name).answer.text for name in alone} == alone
    again = model_desk.end_of("again").answer
    assert [again.text, *(one.text for one in again.alternatives)] == [
        found.text,
        *(one.text for one in found.alternatives),
    ]


def test_of_answers_that_part_nothing_is_saved_whose_others_could_not_go_on(
    model_desk: Desk, monkeypatch: pytest.MonkeyPatch
):
    saved = []
    save = Residence.save
    monkeypatch.setattr(Residence, "save", lambda *args: (saved.append(save(*args)), saved[-1])[1])
    loop = model_desk.loader.loaded_now.loop
    several = ask(model_desk, "How?", "several", num_answers=3)
    step, preempted = type(loop).step, []

    def preempting(self):
        group = self._groups.find("again")
        if group is not None and group.has_forked and not preempted and group in self._groups.running:
            preempted.append(group)
            self._steps.admission.preempt(group)
        return step(self)

    monkeypatch.setattr(type(loop), "step", preempting)
    again = ask(model_desk, "How?", "again", num_answers=3)
    assert preempted
    assert not any(saved)
    assert again.answer.text == several.answer.text
