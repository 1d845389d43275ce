"""Tests for engine.observing."""

from __future__ import annotations

from dataclasses import replace

import pytest

from engine.memory.cost_model import as_computed, prefill_work
from engine.memory.demand import Backlog
from engine.memory.profile import Observation, PassObserved, PauseObserved, Profile, ReadsObserved, SweepsLearnt
from engine.memory.terms import homes_of
from engine.observing import IDLE_SECONDS, Observer
from engine.retrieval.cost import CostModel
from tests.engine.memory.test_ladder import PLACEMENT, SHAPE

WRITING = Backlog(running=2)


class Watched:
    """A model whose steps are counted by the test."""

    def __init__(self) -> None:
        self.learnt: list[Observation] = []
        self.figures: dict[str, float] = {"steps_total": 0.0, "generated_tokens_total": 0.0}
        self.sweeps = CostModel()
        self.measured = 0
        self.now = 50.0
        self.is_free = True
        self.observer = Observer(
            Profile,
            self.learnt.append,
            lambda: self.figures,
            lambda: self.sweeps,
            self._measure,
            lambda: self.is_free,
        )

    def _measure(self) -> None:
        self.measured += 1

    def run(self, seconds: int, backlog: Backlog, steps: float, tokens: float, placement=PLACEMENT) -> None:
        """So many steps and tokens in each second."""
        for _ in range(seconds):
            self.observer.look(SHAPE, placement, backlog, self.now)
            self.now += 1.0
            self.figures["steps_total"] += steps
            self.figures["generated_tokens_total"] += tokens

    def passes(self) -> list[PassObserved]:
        return [one for one in self.learnt if isinstance(one, PassObserved)]


def test_steps_of_the_same_answers_are_timed():
    watched = Watched()
    watched.run(9, WRITING, steps=5, tokens=10)
    assert [one.seconds for one in watched.passes()] == [pytest.approx(0.2)] * 2
    assert watched.passes()[0].work.processor_bytes > 0


@pytest.mark.parametrize("tokens", [6, 20])
def test_prompts_and_drafts_between_them_teach_nothing(tokens: int):
    watched = Watched()
    watched.run(9, WRITING, steps=5, tokens=tokens)
    assert watched.passes() == []


def test_what_the_ring_reads_meanwhile_is_timed_by_itself():
    watched = Watched()
    watched.figures |= {"streamed_bytes_total": 0.0, "streaming_seconds_total": 0.0}
    for _ in range(9):
        watched.run(1, WRITING, steps=5, tokens=10)
        watched.figures["streamed_bytes_total"] += 10**9
        watched.figures["streaming_seconds_total"] += 0.5
    reads = [one for one in watched.learnt if isinstance(one, ReadsObserved)]
    assert [(one.num_bytes, one.seconds) for one in reads] == [(4 * 10**9, 2.0)] * 2


def test_a_time_in_which_something_changed_teaches_nothing():
    watched = Watched()
    for running in (1, 2, 3, 4):
        watched.run(3, Backlog(running=running), steps=5, tokens=5 * running)
        watched.run(3, replace(WRITING, waiting=1), steps=5, tokens=10)
        watched.run(3, WRITING, steps=5, tokens=10, placement=replace(PLACEMENT, ring_slots=running))
    assert watched.passes() == []


def test_passes_over_prompts_are_timed_also_beside_answers():
    watched = Watched()
    watched.figures |= {"streamed_bytes_total": 0.0, "streaming_seconds_total": 0.0}
    watched.run(2, WRITING, steps=5, tokens=6)
    prompts = {"passes": 2, "pass_tokens": 256, "pass_cached_tokens": 128, "pass_seconds": 0.8}
    watched.figures |= {f"prompt_{name}_total": float(value) for name, value in prompts.items()}
    watched.figures["streaming_seconds_total"] += 0.5
    watched.run(3, replace(WRITING, waiting=1), steps=5, tokens=6)
    [read] = watched.passes()
    assert (read.kind, read.size) == ("read", 128)
    assert (read.seconds, read.reading_seconds) == (pytest.approx(0.4), pytest.approx(0.1))
    homes = homes_of(SHAPE, PLACEMENT)
    # Layers in memory were copied to the card, as llama.cpp does for 32 tokens and more, and are taken for that.
    assert read.work.copied_bytes == homes.processor_bytes > 0
    assert read.work == as_computed(homes, Profile(), prefill_work(homes, 128, 64), 128)


def test_prompts_of_another_placement_or_model_teach_nothing():
    watched = Watched()
    passes = dict.fromkeys(("passes", "pass_tokens", "pass_cached_tokens", "pass_seconds"), 4.0)
    watched.figures |= {f"prompt_{name}_total": value for name, value in passes.items()}
    watched.run(1, WRITING, steps=5, tokens=6)
    watched.figures |= {f"prompt_{name}_total": 2 * value for name, value in passes.items()}
    watched.run(1, WRITING, steps=5, tokens=6, placement=replace(PLACEMENT, ring_slots=1))
    watched.figures |= dict.fromkeys(watched.figures, 1.0)
    watched.run(1, WRITING, steps=5, tokens=6, placement=replace(PLACEMENT, ring_slots=1))
    assert watched.passes() == []


def test_what_retrieval_learns_is_passed_on_once():
    watched = Watched()
    watched.sweeps = replace(watched.sweeps, load_seconds=0.5)
    watched.run(5, WRITING, steps=0, tokens=0)
    learnt = [one for one in watched.learnt if isinstance(one, SweepsLearnt)]
    assert learnt == [SweepsLearnt(watched.sweeps.fixed_seconds, 0.5, watched.sweeps.query_seconds)]


def test_pauses_are_told_apart():
    watched = Watched()
    watched.observer.note_pause(PLACEMENT, replace(PLACEMENT, num_cells=10), 0.3, 1000)
    watched.observer.note_pause(PLACEMENT, replace(PLACEMENT, n_gpu_layers=1), 2.0, 1000)
    watched.observer.note_pause(PLACEMENT, PLACEMENT, 0.0, 1000)
    assert watched.learnt == [PauseObserved("context", 0.3), PauseObserved("reload", 2.0, 1000)]


def test_bandwidths_are_measured_when_nobody_has_asked_for_a_while():
    watched = Watched()
    watched.run(5, WRITING, steps=5, tokens=10)
    watched.run(round(IDLE_SECONDS), Backlog(), steps=0, tokens=0)
    assert watched.measured == 0
    watched.run(1, Backlog(), steps=0, tokens=0)
    assert watched.measured == 1


def test_bandwidths_are_not_measured_beside_indexing():
    watched = Watched()
    watched.is_free = False
    watched.run(2 * round(IDLE_SECONDS), Backlog(), steps=0, tokens=0)
    watched.is_free = True
    watched.run(round(IDLE_SECONDS), Backlog(), steps=0, tokens=0)
    assert watched.measured == 0
    watched.run(1, Backlog(), steps=0, tokens=0)
    assert watched.measured == 1
