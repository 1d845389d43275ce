"""Tests for engine.generation.pool: questions that name their model, and models that take turns in little memory."""

from __future__ import annotations

import shutil
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from engine.core import Evidence, Question, SamplingParams
from engine.events import (
    AnswerCancelled,
    AnswerFailed,
    AnswerFinished,
    Event,
    ModelStateChanged,
    ModelSwitched,
    PlacementSettled,
    TokensGenerated,
)
from engine.generation.commands import UseModel
from engine.generation.context import Context
from engine.generation.instance import ModelInstance
from engine.generation.loaded import LoadedModel
from engine.generation.loader import ModelLoader
from engine.generation.member import Member
from engine.generation.model import Model
from engine.generation.model_eviction import ModelEviction
from engine.generation.model_leases import SET_ASIDE
from engine.generation.refreshes import Refreshes
from engine.generation.request import StepEvent
from engine.generation.segment import Segment
from engine.generation.standby import Standby
from engine.generation.step_loop import StepLoop
from engine.generation.time_slices import GROUP_SIZE
from engine.generation.under_way import UnderWay
from engine.generation.weights.copied import CopiedWeights
from engine.generation.weights.stream import LayerStream
from engine.generation.worker import GenerationWorker
from engine.inflight import QuestionInFlight
from engine.memory.demand import Budgets, Demand, undecided
from engine.models.gguf import read_shape
from tests.bench.bench_model import Shape, write_model
from tests.engine.generation.conftest import ENDS, EVIDENCE, Desk
from tests.helpers.tiny_gguf import write_tiny_model

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="weights leave memory on Linux only")

MIB = 2**20
# A model takes some 36 MiB, 30 of them weights.
FOR_ONE, FOR_WEIGHTS_OF_ONE, FOR_ALL = 41 * MIB, 54 * MIB, 400 * MIB
NUM_TOKENS, NUM_SURE = 60, 26


@pytest.fixture(scope="session")
def models(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path, Path]:
    folder = tmp_path_factory.mktemp("pool")
    return tuple(
        write_tiny_model(folder / f"{name}.gguf", layers=8, dim=256, ff=1024, seed=seed, never_ends=True)
        for seed, name in enumerate("abc")
    )


@pytest.fixture(autouse=True)
def short_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    """Answers of such small models would otherwise be written whole in one turn."""
    monkeypatch.setattr("engine.generation.time_slices.WRITING_BESIDE_SECONDS", 0.01)


class PoolDesk(Desk):
    """With a budget of memory, which includes whatever other models hold."""

    patience_s = 60.0

    def __init__(self, data_folder: Path, budget_bytes: int) -> None:
        super().__init__(data_folder)
        self.budget_bytes = budget_bytes
        generation = self.settings.generation.model_copy(
            update={"max_context": 512, "parallel_answers": 2, "kv_ram_bytes": MIB}
        )
        self.settings = self.settings.model_copy(update={"generation": generation})
        self.loader.planner.beside = self._beside

    def _beside(self, demand: Demand) -> Demand:
        fixed = undecided(self.ledger.spans())
        return replace(demand, fixed=fixed, budgets=Budgets(ram_bytes=self.budget_bytes))

    def ask_of(self, model: Path | str, question_id: str, **options) -> QuestionInFlight:
        priority = options.pop("priority", "interactive")
        evidence: Evidence = options.pop("evidence", EVIDENCE)
        params = SamplingParams(**{"max_tokens": NUM_TOKENS, "temperature": 0.0, "seed": 7, **options})
        question = Question(question_id, "How?", sampling=params, model=str(model), priority=priority)
        in_flight = QuestionInFlight(question)
        self.worker.submit(in_flight, evidence)
        return in_flight

    def end_of(self, question_id: str = "q") -> Event:
        """Also if it ended before another that was waited for."""
        self.wait_until(lambda: question_id in self.ends)
        return self.ends[question_id]

    @property
    def ends(self) -> dict[str, Event]:
        """In the order in which they came."""
        return {event.question_id: event for event in tuple(self.events) if isinstance(event, ENDS)}

    def begin_of(self, question_id: str) -> None:
        """Waits for its first text."""
        self.wait_until(
            lambda: any(isinstance(one, TokensGenerated) and one.question_id == question_id for one in self.events)
        )

    def text_of(self, question_id: str) -> str:
        """How its answer begins: where two tokens are all but equally likely, another batch may choose the other."""
        end = self.end_of(question_id)
        assert isinstance(end, AnswerFinished), end
        return end.answer.text[:NUM_SURE]

    @property
    def members(self) -> dict[str, object]:
        return {Path(member.path).stem: member for member in self.worker.models.members}


@pytest.fixture
def pool_desk(tmp_path: Path) -> Iterator[Callable[[int], PoolDesk]]:
    desks: list[PoolDesk] = []

    def made(budget_bytes: int) -> PoolDesk:
        folder = tmp_path / str(len(desks))
        folder.mkdir()
        desks.append(PoolDesk(folder, budget_bytes))
        return desks[-1]

    yield made
    for desk in desks:
        desk.worker.stop()
        assert desk.ledger.spans() == ()


@pytest.fixture(scope="session")
def alone(models, tmp_path_factory: pytest.TempPathFactory) -> dict[Path, str]:
    """What each model answers by itself."""
    texts = {}
    for path in models:
        desk = PoolDesk(tmp_path_factory.mktemp("alone"), FOR_ALL)
        desk.worker.use(UseModel(path))
        desk.ask_of("", "q")
        texts[path] = desk.text_of("q")
        desk.worker.stop()
    return texts


def switches(desk: Desk) -> list[ModelSwitched]:
    return [event for event in desk.events if isinstance(event, ModelSwitched)]


def runs(events: list[Event]) -> list[str]:
    """Which models wrote, in order, each as often as another wrote in between."""
    ids = [event.question_id for event in events if isinstance(event, TokensGenerated)]
    return [one for before, one in pairwise([None, *ids]) if one != before]


def take_turns(desk: PoolDesk, models: tuple[Path, ...]) -> None:
    """Asks each twice, so that both can leave memory for the other; the second is there in the end."""
    before = len(desk.ends)
    for turn, number in enumerate((0, 1, 0, 1), before):
        desk.ask_of(models[number], f"turn{turn}", max_tokens=2)
        desk.text_of(f"turn{turn}")


def slow_down(monkeypatch: pytest.MonkeyPatch, seconds: float) -> None:
    """Makes each step take longer from now on, so that an answer is still being written when it matters."""
    step = StepLoop.step
    monkeypatch.setattr(StepLoop, "step", lambda loop: (time.sleep(seconds), step(loop))[1])


def test_a_question_is_answered_by_the_model_that_it_names(models, alone, pool_desk):
    desk = pool_desk(FOR_ALL)
    desk.worker.use(UseModel(models[0]))
    desk.ask_of(models[1], "named")
    desk.ask_of("", "chosen")
    assert desk.text_of("named") == alone[models[1]]
    assert desk.text_of("chosen") == alone[models[0]]
    assert alone[models[0]] != alone[models[1]]


def test_without_a_chosen_model_one_that_is_named_answers(models, alone, pool_desk):
    desk = pool_desk(FOR_ALL)
    desk.ask_of("", "quotes")
    desk.ask_of("none", "none")
    desk.ask_of(models[0], "named")
    assert desk.text_of("quotes") == desk.text_of("none") == "“Threads share state” [1]"
    assert desk.text_of("named") == alone[models[0]]


def test_models_that_fit_together_write_side_by_side_and_nothing_is_moved(
    models, alone, pool_desk, at_once, monkeypatch
):
    # A turn is no longer than a few steps, however fast they are.
    slow_down(monkeypatch, 0.005)
    desk = pool_desk(FOR_ALL)
    desk.worker.use(UseModel(models[0]))
    with at_once():
        desk.ask_of(models[0], "a")
        desk.ask_of(models[1], "b")
    assert {desk.text_of("a"), desk.text_of("b")} == {alone[models[0]], alone[models[1]]}
    assert switches(desk) == []
    assert all(member.is_in_memory for member in desk.members.values())
    assert len(runs(desk.events)) > 10


@pytest.mark.parametrize("budget_bytes", [FOR_ONE, FOR_WEIGHTS_OF_ONE])
def test_models_that_do_not_fit_together_take_turns_and_write_what_they_do_alone(
    models, alone, pool_desk, budget_bytes: int
):
    desk = pool_desk(budget_bytes)
    desk.worker.use(UseModel(models[0]))
    most_bytes = 0

    def look(event: Event) -> None:
        nonlocal most_bytes
        most_bytes = max(most_bytes, desk.ledger.counted_bytes("ram"))

    take = desk._take
    desk.worker.models._switching._publish = lambda event: (look(event), take(event))
    for number in range(3):
        desk.ask_of(models[0], f"a{number}")
        desk.ask_of(models[1], f"b{number}")
    for number in range(3):
        assert desk.text_of(f"a{number}") == alone[models[0]]
        assert desk.text_of(f"b{number}") == alone[models[1]]
    assert switches(desk)
    assert most_bytes <= budget_bytes
    [waiting] = [member for member in desk.members.values() if not member.is_in_memory]
    assert waiting.is_folded == (budget_bytes == FOR_ONE)
    assert waiting.loaded.model.is_open


def test_a_switch_opens_nothing_anew_and_computes_nothing_again(models, alone, pool_desk, monkeypatch):
    desk = pool_desk(FOR_WEIGHTS_OF_ONE)
    desk.worker.use(UseModel(models[0]))
    # After that both can leave memory; what is loaded or made from here on is too much.
    take_turns(desk, models)
    made: list[str] = []
    load, make = Model.load, Context.__init__
    monkeypatch.setattr(Model, "load", lambda *args, **options: (made.append("model"), load(*args, **options))[1])
    monkeypatch.setattr(
        Context, "__init__", lambda *args, **options: (made.append("context"), make(*args, **options))[1]
    )
    before = len(switches(desk))
    desk.ask_of(models[0], "a")
    desk.ask_of(models[1], "b")
    assert [desk.text_of("a"), desk.text_of("b")] == [alone[models[0]], alone[models[1]]]
    assert len(switches(desk)) > before
    assert made == []
    for member in desk.members.values():
        counters = member.loaded.loop.counters()
        assert counters.preempted_by_swap == counters.preempted_by_recompute == 0
    told = switches(desk)[-1]
    assert told.moved_bytes > 20 * MIB
    assert told.out_seconds >= 0 < told.in_seconds


def test_what_leaves_is_no_more_than_what_comes_needs(models, pool_desk):
    desk = pool_desk(FOR_WEIGHTS_OF_ONE + 12 * MIB)
    desk.worker.use(UseModel(models[0]))
    take_turns(desk, models)
    take_turns(desk, models)
    waiting = desk.members["a"]
    # Half of it stayed.
    assert 8 * MIB < waiting.missing_bytes < 24 * MIB
    assert waiting.removable_bytes > 4 * MIB
    desk.wait_until(lambda: switches(desk)[-1].moved_bytes < 24 * MIB)


def test_seven_models_in_room_for_one_all_answer(models, alone, pool_desk, tmp_path):
    desk = pool_desk(FOR_ONE + 8 * MIB)
    copies = []
    for number in range(7):
        path = tmp_path / f"copy{number}.gguf"
        path.hardlink_to(models[number % 2])
        copies.append(path)
    for number, path in enumerate(copies):
        desk.ask_of(path, f"q{number}", max_tokens=8, priority="batch")
    for number in range(7):
        assert alone[models[number % 2]].startswith(desk.text_of(f"q{number}")[:6])
    # Buffers of such a small model are larger than their plan.
    assert desk.ledger.counted_bytes("ram") <= FOR_ONE + 12 * MIB


def test_a_model_that_changes_is_planned_beside_what_all_others_hold(models, pool_desk):
    desk = pool_desk(FOR_ALL)
    desk.worker.use(UseModel(models[0]))
    for model in models[:2]:
        desk.ask_of(model, model.stem, max_tokens=2)
        desk.text_of(model.stem)
    pool = desk.worker.models

    def waiting() -> list[bool]:
        return [member.loader.share._is_waiting for member in pool.members]

    seen: list[list[bool]] = []
    assert (Path(pool.front.path), pool.principal) == (models[1], pool.members.home)
    pool.change_front(lambda instance: seen.append(waiting()))
    assert (seen, waiting()) == ([[True, False]], [False, True])

    def fails(instance: ModelInstance) -> None:
        raise RuntimeError("no room")

    with pytest.raises(RuntimeError):
        pool.change_front(fails)
    assert waiting() == [False, True]


def test_a_cancelled_question_of_a_model_that_waits_ends_at_once(models, pool_desk, monkeypatch):
    slow_down(monkeypatch, 0.02)
    desk = pool_desk(FOR_ONE)
    desk.worker.use(UseModel(models[0]))
    first = desk.ask_of(models[0], "a", max_tokens=250)
    desk.begin_of("a")
    second = desk.ask_of(models[1], "b", max_tokens=250)
    desk.begin_of("b")
    first.cancelled.set()
    second.cancelled.set()
    assert all(isinstance(desk.end_of(one), AnswerCancelled) for one in "ab")


def test_whoever_cancels_while_a_closed_model_is_read_again_hears_of_it_at_once(models, pool_desk, monkeypatch):
    load, is_reading, goes_on = Model.load, threading.Event(), threading.Event()
    read: set[Path] = set()

    def slow(model: Model, n_gpu_layers: int, on_progress: Callable[[float], bool], *args) -> None:
        while model.path in read and not goes_on.is_set():
            is_reading.set()
            assert on_progress(0.0)
            goes_on.wait(0.01)
        read.add(model.path)
        load(model, n_gpu_layers, on_progress, *args)

    # As those of a graphics card, or where no copy can be made.
    monkeypatch.setattr(Standby, "removable_bytes", lambda *_: 0)
    monkeypatch.setattr(Model, "load", slow)
    desk = pool_desk(FOR_ONE)
    desk.worker.use(UseModel(models[0]))
    desk.ask_of(models[0], "a", max_tokens=250)
    desk.begin_of("a")
    desk.ask_of(models[1], "b", max_tokens=2)
    assert is_reading.wait(60)
    waits = desk.ask_of(models[1], "waits", max_tokens=2)
    waits.cancelled.set()
    assert isinstance(desk.end_of("waits"), AnswerCancelled)
    assert "a" not in desk.ends
    goes_on.set()
    assert isinstance(desk.end_of("a"), AnswerFinished)


def test_whoever_stops_an_answer_while_another_model_is_loaded_hears_of_it_at_once(models, pool_desk, monkeypatch):
    load, is_loading, goes_on = Model.load, threading.Event(), threading.Event()

    def slow(model: Model, n_gpu_layers: int, on_progress: Callable[[float], bool], *args) -> None:
        while model.path == models[1] and not goes_on.is_set():
            is_loading.set()
            assert on_progress(0.0)
            goes_on.wait(0.01)
        load(model, n_gpu_layers, on_progress, *args)

    monkeypatch.setattr(Model, "load", slow)
    slow_down(monkeypatch, 0.02)
    desk = pool_desk(FOR_ONE)
    desk.worker.use(UseModel(models[0]))
    stopped = desk.ask_of(models[0], "stopped", max_tokens=250)
    desk.begin_of("stopped")
    desk.ask_of(models[1], "other", max_tokens=2)
    assert is_loading.wait(60)
    stopped.cancelled.set()
    end = desk.end_of("stopped")
    assert isinstance(end, AnswerCancelled)
    assert end.segments, "what was written is there for the next question"
    assert "other" not in desk.ends
    goes_on.set()
    assert isinstance(desk.end_of("other"), AnswerFinished)
    assert isinstance(desk.end_of(desk.ask_of(models[0], "after", max_tokens=2).question.question_id), AnswerFinished)


def test_somebody_at_the_window_does_not_wait_for_the_scripts_of_another_model(models, pool_desk):
    desk = pool_desk(FOR_WEIGHTS_OF_ONE)
    desk.worker.use(UseModel(models[0]))
    for number in range(6):
        desk.ask_of(models[0], f"s{number}", max_tokens=200, priority="batch")
    desk.begin_of("s0")
    desk.ask_of(models[1], "person", max_tokens=8)
    desk.end_of("person")
    assert list(desk.ends) == ["person"]
    for number in range(6):
        desk.end_of(f"s{number}")


def test_a_model_that_cannot_be_loaded_fails_its_own_questions_only(models, pool_desk, tmp_path):
    broken = tmp_path / "broken.gguf"
    broken.write_bytes(models[1].read_bytes()[: 4 * MIB])
    desk = pool_desk(FOR_ALL)
    desk.worker.use(UseModel(models[0]))
    desk.ask_of(models[0], "a")
    desk.ask_of(broken, "broken")
    assert isinstance(desk.end_of("broken"), AnswerFailed)
    desk.text_of("a")


def test_a_choice_does_not_take_a_model_from_those_who_named_it(models, alone, pool_desk):
    desk = pool_desk(FOR_WEIGHTS_OF_ONE)
    desk.worker.use(UseModel(models[0]))
    desk.ask_of(models[0], "a", max_tokens=NUM_TOKENS)
    desk.begin_of("a")
    desk.worker.use(UseModel(models[1]))
    desk.ask_of("", "b")
    assert {desk.text_of("a"), desk.text_of("b")} == {alone[models[0]], alone[models[1]]}
    assert desk.worker.models.members.home.path == str(models[1])


def test_a_model_that_was_named_and_is_chosen_then_is_not_loaded_again(models, alone, pool_desk):
    desk = pool_desk(FOR_ALL)
    desk.worker.use(UseModel(models[0]))
    desk.ask_of(models[1], "b", max_tokens=2)
    desk.text_of("b")
    loaded = desk.members["b"].loaded
    desk.worker.use(UseModel(models[1]))
    desk.ask_of("", "q")
    assert desk.text_of("q") == alone[models[1]]
    assert desk.members["b"].loaded.model is loaded.model
    # No question has named the one before.
    assert list(desk.members) == ["b"]


def test_a_model_that_nobody_asks_leaves_the_pool(models, pool_desk, monkeypatch):
    desk = pool_desk(FOR_ALL)
    desk.worker.use(UseModel(models[0]))
    desk.ask_of(models[1], "b", max_tokens=2)
    desk.text_of("b")
    monkeypatch.setattr("engine.generation.pool.IDLE_SECONDS", 0.0)
    desk.worker.apply_settings()
    desk.wait_until(lambda: list(desk.members) == ["a"])


@pytest.mark.expects_warnings
def test_weights_that_cannot_be_read_again_fail_the_model_that_waits_for_them(models, alone, pool_desk, monkeypatch):
    desk = pool_desk(FOR_WEIGHTS_OF_ONE)
    desk.worker.use(UseModel(models[0]))
    take_turns(desk, models)
    come_back, fails = LayerStream.come_back, threading.Event()

    def failing(self: LayerStream) -> None:
        if fails.is_set():
            fails.clear()
            from engine.errors import WeightsNotRead

            raise WeightsNotRead("The disk is gone.")
        come_back(self)

    monkeypatch.setattr(LayerStream, "come_back", failing)
    fails.set()
    desk.ask_of(models[0], "lost")
    assert isinstance(desk.end_of("lost"), AnswerFailed)
    desk.ask_of(models[0], "again")
    assert desk.text_of("again") == alone[models[0]]


def test_a_removed_document_is_forgotten_by_models_that_wait_as_well(models, pool_desk):
    desk = pool_desk(FOR_ONE)
    desk.worker.use(UseModel(models[0]))
    take_turns(desk, models)
    desk.wait_until(lambda: all(member.loaded.documents() for member in desk.members.values()))
    desk.known = set()
    desk.worker.forget_removed()
    desk.wait_until(lambda: not any(member.loaded.documents() for member in desk.members.values()))


def test_what_a_model_has_read_leaves_memory_with_its_context(models, pool_desk, monkeypatch):
    # Nothing is written before it has to be.
    monkeypatch.setattr("engine.generation.idle_time.IDLE_SECONDS", 60.0)
    desk = pool_desk(FOR_ONE)
    desk.worker.use(UseModel(models[0]))
    take_turns(desk, models)
    waiting = desk.members["a"]
    desk.ask_of(models[1], "long", max_tokens=250)
    desk.wait_until(lambda: waiting.loaded.keeper.figures().ram.num_bytes == 0)
    assert waiting.is_folded
    assert waiting.loaded.documents()


def test_the_plan_is_about_the_chosen_model_while_it_is_in_memory(models, pool_desk):
    desk = pool_desk(FOR_WEIGHTS_OF_ONE)
    desk.worker.use(UseModel(models[0]))
    desk.model_state("loaded")
    desk.wait_until(lambda: desk.worker.models.principal.loaded is not None)
    assert desk.worker.models.principal.loaded.plan.path == models[0]
    take_turns(desk, models)
    assert desk.worker.models.principal.loaded.plan.path == models[1]
    held = {span.owner for span in desk.ledger.spans("ram")}
    assert "pool" in held
    assert sum(span.num_bytes for span in desk.ledger.spans("ram") if span.owner == "weights") < 34 * MIB
    assert read_shape(models[0]).name


def test_the_loop_has_no_event_left_behind(models, pool_desk):
    desk = pool_desk(FOR_ONE)
    for number in range(4):
        desk.ask_of(models[number % 2], f"q{number}", max_tokens=4)
    for number in range(4):
        desk.text_of(f"q{number}")
    loops: list[StepLoop] = [member.loaded.loop for member in desk.members.values() if member.loaded is not None]
    assert all(loop.take_events() == [] for loop in loops)


# What a review found.


@pytest.mark.parametrize("budget_bytes", [FOR_WEIGHTS_OF_ONE, FOR_ALL])
def test_more_questions_than_a_group_has_are_all_answered(models, pool_desk, budget_bytes: int):
    desk = pool_desk(budget_bytes)
    desk.worker.use(UseModel(models[0]))
    for number in range(12):
        for one in (0, 1):
            desk.ask_of(models[one], f"{one}-{number}", max_tokens=3, priority="batch")
    for number in range(12):
        for one in (0, 1):
            desk.text_of(f"{one}-{number}")


def test_a_group_is_no_bound_while_no_other_model_is_asked(models, pool_desk):
    desk = pool_desk(FOR_ALL)
    desk.worker.use(UseModel(models[0]))
    desk.ask_of(models[1], "b", max_tokens=2)
    desk.text_of("b")
    for number in range(20):
        desk.ask_of(models[0], f"q{number}", max_tokens=2)
    for number in range(20):
        desk.text_of(f"q{number}")


def warm_up(desk: PoolDesk, models: tuple[Path, ...]) -> None:
    """Has the first model chosen, and the second join it."""
    desk.worker.use(UseModel(models[0]))
    for one in (0, 1):
        desk.ask_of(models[one], f"warm{one}", max_tokens=2)
        desk.text_of(f"warm{one}")


def test_a_person_does_not_wait_behind_scripts_of_another_model_also_after_a_quiet_minute(
    models, pool_desk, monkeypatch
):
    desk = pool_desk(FOR_ALL)
    warm_up(desk, models)
    clock = desk.worker.models._clock
    desk.worker.models._clock = lambda: clock() + 600.0
    slow_down(monkeypatch, 0.01)
    desk.ask_of(models[0], "script", max_tokens=200, priority="batch")
    desk.begin_of("script")
    desk.ask_of(models[1], "person", max_tokens=5)
    desk.end_of("person")
    assert "script" not in desk.ends
    desk.end_of("script")


def test_a_person_begins_beyond_a_group_of_scripts_while_only_scripts_wait_for_another_model(
    models, pool_desk, at_once, monkeypatch
):
    desk = pool_desk(FOR_ALL)
    warm_up(desk, models)
    slow_down(monkeypatch, 0.01)
    scripts = [f"script{number}" for number in range(2 * GROUP_SIZE)]
    with at_once():
        for question_id in scripts:
            desk.ask_of(models[0], question_id, max_tokens=60, priority="batch")
    desk.begin_of(scripts[0])
    desk.ask_of(models[1], "other", max_tokens=2, priority="batch")
    desk.wait_until(lambda: desk.worker.models.num_left == 0)
    desk.ask_of(models[0], "person", max_tokens=3)
    desk.end_of("person")
    assert not desk.ends.keys() & {"other", *scripts}
    for question_id in ("other", *scripts):
        desk.text_of(question_id)


def test_models_that_nobody_asks_leave_also_while_nothing_else_happens(models, pool_desk, monkeypatch):
    monkeypatch.setattr("engine.generation.worker.POOL_LOOK_SECONDS", 0.05)
    monkeypatch.setattr("engine.generation.pool.IDLE_SECONDS", 0.5)
    desk = pool_desk(FOR_ALL)
    desk.worker.use(UseModel(models[0]))
    desk.ask_of(models[1], "b", max_tokens=2)
    desk.text_of("b")
    desk.wait_until(lambda: list(desk.members) == ["a"])


def test_a_model_that_was_asked_once_leaves_while_another_has_much_to_do(models, pool_desk, monkeypatch):
    monkeypatch.setattr("engine.generation.worker.POOL_LOOK_SECONDS", 0.05)
    slow_down(monkeypatch, 0.02)
    desk = pool_desk(FOR_ALL)
    desk.worker.use(UseModel(models[0]))
    desk.ask_of(models[1], "b", max_tokens=2)
    desk.text_of("b")
    backlog = {f"a{number}": desk.ask_of("", f"a{number}", max_tokens=200, priority="batch") for number in range(8)}
    desk.begin_of("a0")
    assert list(desk.members) == ["a", "b"]
    monkeypatch.setattr("engine.generation.pool.IDLE_SECONDS", 0.0)
    desk.wait_until(lambda: list(desk.members) == ["a"])
    assert not backlog.keys() <= desk.ends.keys()
    for question in backlog.values():
        question.cancelled.set()


def test_a_model_whose_questions_wait_for_those_of_another_stays(models, pool_desk, monkeypatch):
    monkeypatch.setattr("engine.generation.worker.POOL_LOOK_SECONDS", 0.0)
    monkeypatch.setattr("engine.generation.worker.COUNTERS_SECONDS", 0.0)
    slow_down(monkeypatch, 0.02)
    desk = pool_desk(FOR_ONE)
    desk.worker.use(UseModel(models[0]))
    first = desk.ask_of("", "a", max_tokens=250)
    desk.begin_of("a")
    second = desk.ask_of(models[1], "b", priority="batch")
    desk.wait_until(lambda: "b" in desk.members)
    waiting = desk.members["b"]
    monkeypatch.setattr("engine.generation.pool.IDLE_SECONDS", -1.0)
    looked_at = desk.worker._let_idle_go_at
    desk.wait_until(lambda: desk.worker._let_idle_go_at > looked_at + 0.2)
    assert desk.members["b"] is waiting
    first.cancelled.set()
    second.cancelled.set()


def test_a_name_is_of_the_model_and_not_of_its_place(models, pool_desk):
    desk = pool_desk(FOR_ALL)
    desk.worker.use(UseModel(models[0]))
    desk.ask_of(models[0], "a", max_tokens=2)
    desk.text_of("a")
    desk.worker.rest(models[0])
    desk.wait_until(lambda: desk.worker.models.members.home.loaded is None)
    for number in (1, 2):
        # The first of them is asked nothing.
        desk.worker.use(UseModel(models[number]))
        desk.wait_until(lambda stem="abc"[number]: stem in desk.members and desk.members[stem].is_in_memory)
    assert list(desk.members) == ["c"]


def test_a_model_that_rests_need_not_be_the_chosen_one(models, pool_desk):
    desk = pool_desk(FOR_ALL)
    desk.worker.use(UseModel(models[0]))
    desk.ask_of(models[1], "b", max_tokens=2)
    desk.text_of("b")
    desk.worker.rest(models[1])
    desk.wait_until(lambda: list(desk.members) == ["a"])


def test_choosing_quotes_is_told_where_the_model_stays_for_who_named_it(models, pool_desk):
    desk = pool_desk(FOR_ALL)
    desk.worker.use(UseModel(models[0]))
    desk.ask_of(models[0], "a", max_tokens=100)
    desk.begin_of("a")
    num_before = len(desk.events)
    desk.worker.use(UseModel(None))
    desk.wait_until(
        lambda: any(isinstance(one, ModelStateChanged) and one.state == "none" for one in desk.events[num_before:])
    )
    desk.ask_of("", "quotes")
    assert desk.text_of("quotes").startswith("“Threads")
    desk.text_of("a")


def test_a_model_that_is_chosen_beside_an_answer_is_loaded_once_when_that_has_ended(models, pool_desk, monkeypatch):
    loads, load = list[tuple[str, bool]](), ModelLoader.load

    def noted(loader: ModelLoader, path: Path, n_gpu_layers: int | None) -> None:
        loads.append((path.stem, "b" in desk.ends))
        load(loader, path, n_gpu_layers)

    monkeypatch.setattr(ModelLoader, "load", noted)
    desk = pool_desk(FOR_ONE)
    desk.worker.use(UseModel(models[0]))
    desk.ask_of(models[0], "a", max_tokens=2)
    desk.text_of("a")
    desk.ask_of(models[1], "b", max_tokens=250)
    desk.begin_of("b")
    desk.worker.use(UseModel(models[2]))
    desk.wait_until(lambda: "c" in desk.members and desk.members["c"].is_in_memory)
    assert loads == [("a", False), ("b", False), ("c", True)]

    def last_state() -> tuple[str, str]:
        told = [one for one in desk.events if isinstance(one, ModelStateChanged)][-1]
        return told.state, Path(told.path).stem

    # It lies in memory before that is reported.
    desk.wait_until(lambda: last_state() == ("loaded", "c"))


def test_a_model_that_nobody_waits_for_leaves_before_a_long_text_of_another_has_layers_streamed(pool_desk, tmp_path):
    first, second = (
        write_tiny_model(tmp_path / f"{name}.gguf", layers=8, dim=256, ff=1024, never_ends=True, context=16384)
        for name in "ab"
    )
    desk = pool_desk(130 * MIB)
    generation = desk.settings.generation.model_copy(update={"max_context": 8192, "parallel_answers": 1})
    desk.settings = desk.settings.model_copy(update={"generation": generation})
    desk.worker.use(UseModel(first))
    for path in (first, second):
        desk.ask_of(path, path.stem, max_tokens=2)
        desk.text_of(path.stem)
    few = desk.members["b"].loaded.context.num_cells
    assert desk.members["a"].is_in_memory
    long = replace(EVIDENCE.passages[0], text="Threads share state through a mutex and a condition. " * 600)
    desk.ask_of(second, "long", max_tokens=2, evidence=replace(EVIDENCE, passages=(long,)))
    assert isinstance(desk.end_of("long"), AnswerFinished)
    placement = desk.members["b"].loaded.plan.placement
    assert placement.num_cells > few
    assert not placement.streamed_layers
    assert not desk.members["a"].is_in_memory
    # It comes back when a question comes.
    desk.ask_of(first, "again", max_tokens=2)
    assert desk.text_of("again") == desk.text_of("a")


def test_no_time_passes_for_the_answers_of_a_model_that_is_away(models, pool_desk, monkeypatch):
    came, left = list[Refreshes](), list[Refreshes]()
    monkeypatch.setattr(Refreshes, "stand_still", lambda self: left.append(self))
    monkeypatch.setattr(Refreshes, "resume", lambda self: came.append(self))
    desk = pool_desk(FOR_ALL)
    desk.worker.use(UseModel(models[0]))
    desk.ask_of(models[0], "a", max_tokens=2)
    desk.text_of("a")
    desk.ask_of(models[1], "b", max_tokens=2)
    desk.text_of("b")
    first, second = (desk.members[name].under_way._refreshes for name in "ab")
    assert left == [first]
    assert came[0] is first
    assert came[-1] is second


@pytest.fixture
def reads_and_goes_on(monkeypatch: pytest.MonkeyPatch) -> tuple[threading.Event, threading.Event]:
    """The first is set once something hot is being read, of which each step waits for the second."""
    read_hot, step, reads, goes_on = UnderWay.read_hot, StepLoop.step, threading.Event(), threading.Event()
    beginning = (Segment((10,) * 250, "instructions"),)

    def noted(self: UnderWay, beginning: tuple[Segment, ...], loaded: LoadedModel) -> None:
        read_hot(self, beginning, loaded)
        reads.set()

    def held(loop: StepLoop) -> list[StepEvent]:
        assert not reads.is_set() or goes_on.wait(60)
        return step(loop)

    monkeypatch.setattr(StepLoop, "step", held)
    monkeypatch.setattr(UnderWay, "read_hot", noted)
    monkeypatch.setattr(UnderWay, "next_hot", lambda *_: None if reads.is_set() else beginning)
    return reads, goes_on


def in_small_steps(desk: PoolDesk) -> PoolDesk:
    generation = desk.settings.generation.model_copy(update={"n_batch": 32, "n_ubatch": 32})
    desk.settings = desk.settings.model_copy(update={"generation": generation})
    return desk


def test_a_model_that_only_reads_what_is_hot_is_let_go(models, pool_desk, reads_and_goes_on):
    reads, goes_on = reads_and_goes_on
    desk = in_small_steps(pool_desk(FOR_ALL))
    desk.worker.use(UseModel(models[0]))
    desk.ask_of(models[0], "a", max_tokens=2)
    desk.text_of("a")
    desk.has_power = True
    desk.worker.apply_settings()
    assert reads.wait(60)
    is_gone = desk.worker.let_go(models[0])
    goes_on.set()
    assert is_gone.result(60)
    assert desk.worker.models.members.home.loaded is None


def test_no_model_comes_back_only_to_read_what_nobody_has_asked_for(models, pool_desk, reads_and_goes_on):
    reads, goes_on = reads_and_goes_on
    desk = in_small_steps(pool_desk(FOR_ONE))
    desk.worker.use(UseModel(models[0]))
    take_turns(desk, models)
    desk.ask_of(models[0], "a", max_tokens=2)
    desk.text_of("a")
    desk.has_power = True
    desk.worker.apply_settings()
    assert reads.wait(60)
    desk.ask_of(models[1], "b", max_tokens=2)
    goes_on.set()
    desk.text_of("b")
    desk.wait_until(lambda: not desk.worker.models.has_work)
    assert desk.worker.models.front.path == str(models[1])
    assert not desk.members["a"].loaded.loop.is_asked


@pytest.mark.expects_warnings
def test_a_chosen_model_that_cannot_be_read_any_more_is_told_of_beside_others(models, pool_desk, tmp_path):
    desk = pool_desk(FOR_ALL)
    desk.worker.use(UseModel(models[0]))
    desk.ask_of(models[0], "a", max_tokens=4)
    desk.text_of("a")
    gone = tmp_path / "gone.gguf"
    desk.worker.use(UseModel(gone))
    desk.wait_until(lambda: any(isinstance(one, ModelStateChanged) and one.state == "failed" for one in desk.events))
    assert [one.path for one in desk.events if isinstance(one, ModelStateChanged)][-1] == str(gone)
    desk.ask_of(models[0], "b", max_tokens=4)
    desk.text_of("b")


def test_choosing_a_model_that_failed_when_it_was_named_loads_it(models, alone, pool_desk, tmp_path):
    path = tmp_path / "late.gguf"
    path.write_bytes(models[1].read_bytes()[: 4 * MIB])
    desk = pool_desk(FOR_ALL)
    desk.worker.use(UseModel(models[0]))
    desk.ask_of(path, "early")
    assert isinstance(desk.end_of("early"), AnswerFailed)
    path.write_bytes(models[1].read_bytes())
    desk.worker.use(UseModel(path))
    desk.ask_of("", "late")
    assert desk.text_of("late") == alone[models[1]]


def test_a_model_that_is_loaded_again_does_not_wait_for_a_script_that_names_it(models, pool_desk, monkeypatch):
    slow_down(monkeypatch, 0.005)
    desk = pool_desk(FOR_ALL)
    desk.worker.use(UseModel(models[0]))
    for number in range(20):
        # Of one that has read what another needs, the other would begin at once.
        passages = tuple(replace(passage, text=f"{number} {passage.text}") for passage in EVIDENCE.passages)
        evidence = replace(EVIDENCE, passages=passages)
        desk.ask_of(models[0], f"s{number}", max_tokens=20, priority="batch", evidence=evidence)
    desk.begin_of("s0")
    desk.worker.use(UseModel(models[0], 0))
    desk.ask_of("", "person", max_tokens=2)
    desk.end_of("person")
    assert len(desk.ends) < 15
    for number in range(20):
        desk.text_of(f"s{number}")


def test_the_disk_is_bounded_by_the_plan_of_the_model_that_memory_is_planned_for(models, pool_desk):
    desk, bound_bytes = pool_desk(FOR_ALL), 5 * MIB
    desk.worker.use(UseModel(models[0]))
    for model in models[:2]:
        desk.ask_of(model, model.stem, max_tokens=NUM_SURE)
        desk.text_of(model.stem)
    loaded = desk.members["a"].loaded
    assert loaded.files.budget_bytes == loaded.plan.room.disk_bytes > bound_bytes
    desk.worker.apply(replace(loaded.plan.placement, kv_disk_bytes=bound_bytes), models[0])
    desk.wait_for(lambda event: isinstance(event, PlacementSettled))
    desk.wait_until(lambda: loaded.files.budget_bytes == bound_bytes)
    # What is kept of the other one gets a new limit.
    desk.worker.keep_in_cells(False)
    desk.wait_until(lambda: not desk.members["b"].loaded.keeps_in_cells)
    assert desk.members["b"].loaded.plan.room.disk_bytes > bound_bytes
    assert loaded.files.budget_bytes == bound_bytes


def test_what_was_set_aside_of_a_cancelled_answer_leaves_the_ledger(models, pool_desk, monkeypatch):
    slow_down(monkeypatch, 0.01)
    desk = pool_desk(FOR_ONE)
    desk.worker.use(UseModel(models[0]))
    take_turns(desk, models)
    first = desk.ask_of(models[0], "a", max_tokens=250)
    desk.begin_of("a")
    desk.ask_of(models[1], "b", max_tokens=100)
    desk.begin_of("b")
    first.cancelled.set()
    desk.end_of("a")
    desk.end_of("b")
    held = [span.num_bytes for span in desk.ledger.spans() if SET_ASIDE in span.what]
    assert sum(held) == 0


def test_a_model_whose_file_was_replaced_while_it_waited_is_loaded_anew(models, alone, pool_desk, tmp_path):
    path = tmp_path / "replaced.gguf"
    path.write_bytes(models[1].read_bytes())
    desk = pool_desk(FOR_ONE)
    desk.worker.use(UseModel(models[0]))
    take_turns(desk, (models[0], path))
    desk.ask_of(models[0], "a", max_tokens=2)
    desk.text_of("a")
    other = tmp_path / "other.gguf"
    other.write_bytes(models[0].read_bytes())
    other.replace(path)
    desk.ask_of(path, "first")
    desk.end_of("first")
    desk.ask_of(path, "second")
    assert desk.text_of("second") == alone[models[0]]


def test_nothing_is_read_ahead_of_a_model_that_is_closed_for_another(models, alone, pool_desk, monkeypatch):
    monkeypatch.setattr("engine.generation.worker.POOL_LOOK_SECONDS", 0.05)
    desk = pool_desk(FOR_ONE)
    generation = desk.settings.generation.model_copy(update={"read_ahead": True})
    desk.settings = desk.settings.model_copy(update={"generation": generation})
    desk.worker.use(UseModel(models[0]))
    first = desk.ask_of(models[0], "a", max_tokens=250)
    desk.begin_of("a")
    desk.ask_of(models[1], "b", max_tokens=100)
    desk.begin_of("b")
    first.cancelled.set()
    desk.end_of("a")
    desk.end_of("b")
    monkeypatch.setattr("engine.generation.pool.IDLE_SECONDS", 0.0)
    desk.wait_until(lambda: list(desk.members) == ["a"])
    params = SamplingParams(max_tokens=NUM_TOKENS, temperature=0.0, seed=7)
    in_flight = QuestionInFlight(Question("later", "How?", sampling=params))
    desk.worker.expect(in_flight, EVIDENCE.passages)
    desk.worker.submit(in_flight, EVIDENCE)
    assert desk.text_of("later") == alone[models[0]]


@pytest.fixture
def ahead_desk(models, pool_desk) -> PoolDesk:
    """Two models side by side, of which the one that is not the chosen one was asked last; prompts are read ahead."""
    desk: PoolDesk = pool_desk(FOR_ALL)
    generation = desk.settings.generation.model_copy(update={"read_ahead": True})
    desk.settings = desk.settings.model_copy(update={"generation": generation})
    desk.worker.use(UseModel(models[0]))
    for question_id, path in zip("ab", models, strict=False):
        desk.ask_of(path, question_id, max_tokens=2)
        desk.end_of(question_id)
    return desk


@pytest.mark.parametrize("place", [0, 1])
def test_a_prompt_is_read_ahead_for_whichever_model_in_memory_its_question_names(models, alone, ahead_desk, place: int):
    params = SamplingParams(max_tokens=NUM_TOKENS, temperature=0.0, seed=7)
    loop = ahead_desk.worker.models.of_path(models[place]).loaded.loop
    read_before = loop.counters().prompt_tokens
    in_flight = QuestionInFlight(Question("later", "How?", sampling=params, model=str(models[place])))
    assert ahead_desk.worker.reads_ahead(str(models[place]), 5.0)
    ahead_desk.worker.expect(in_flight, EVIDENCE.passages)
    ahead_desk.wait_until(lambda: loop.counters().prompt_tokens > read_before)
    ahead_desk.worker.submit(in_flight, EVIDENCE)
    assert ahead_desk.text_of("later") == alone[models[place]]


def test_nothing_is_read_ahead_while_another_model_writes(models, ahead_desk):
    writing = ahead_desk.ask_of(models[1], "writes", max_tokens=400)
    ahead_desk.begin_of("writes")
    assert not ahead_desk.worker.reads_ahead(str(models[0]), 5.0)
    loop = ahead_desk.worker.models.of_path(models[0]).loaded.loop
    read_before = loop.counters().prompt_tokens
    in_flight = QuestionInFlight(Question("later", "How?", model=str(models[0])))
    ahead_desk.worker.expect(in_flight, EVIDENCE.passages)
    num_told = len(ahead_desk.events)
    # It has been taken in by the step after the next.
    ahead_desk.wait_until(lambda: len(ahead_desk.events) > num_told + 2)
    writing.cancelled.set()
    ahead_desk.end_of("writes")
    assert loop.counters().prompt_tokens == read_before


def test_nothing_is_read_ahead_for_a_model_that_is_not_there(models, ahead_desk):
    assert not ahead_desk.worker.reads_ahead(str(models[2]), 5.0)
    in_flight = QuestionInFlight(Question("later", "How?", model=str(models[2])))
    ahead_desk.worker.expect(in_flight, EVIDENCE.passages)
    ahead_desk.ask_of(models[0], "c", max_tokens=2)
    ahead_desk.end_of("c")
    assert list(ahead_desk.members) == ["a", "b"]


# Weights in the order that the processor reads fastest.


@pytest.fixture(scope="session")
def quantised(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    folder = tmp_path_factory.mktemp("quantised")
    shape = Shape("small", layers=12, width=512, feed_forward=6656, heads=8, kv_heads=2, vocabulary=2000)
    paths = tuple(folder / f"{name}.gguf" for name in "pq")
    for seed, path in enumerate(paths):
        write_model(path, shape, seed=seed)
    probe = Model(paths[0], 0, lambda _: True)
    can_leave = probe.copied_range is not None
    probe.close()
    if not can_leave:
        pytest.skip("llama.cpp keeps this processor's weights as they lie in the file")
    return paths


@pytest.fixture
def loads(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """Which models were loaded, one after the other."""
    found: list[Path] = []
    load = Model.load

    def noted(self: Model, *args, **options) -> None:
        found.append(self.path)
        load(self, *args, **options)

    monkeypatch.setattr(Model, "load", noted)
    return found


@pytest.mark.usefixtures("one_kernel")
def test_weights_in_the_processors_order_leave_and_come_back_without_a_load(quantised, pool_desk, loads):
    alone = {}
    for path in quantised:
        desk = pool_desk(FOR_ALL)
        desk.worker.use(UseModel(path))
        desk.ask_of("", "q")
        alone[path] = desk.text_of("q")
    loads.clear()
    # Each takes 72 MiB of weights, and some 20 MiB besides.
    desk = pool_desk(130 * MIB)
    desk.worker.use(UseModel(quantised[0]))
    for turn in range(3):
        for number, path in enumerate(quantised):
            desk.ask_of(path, f"{turn}-{number}")
        for number, path in enumerate(quantised):
            assert desk.text_of(f"{turn}-{number}") == alone[path]
    assert loads == list(quantised)
    assert len(switches(desk)) >= 3
    assert all(member.loaded.plan.placement.is_repacked for member in desk.members.values())
    # Buffers of such a small model are larger than their plan.
    assert desk.ledger.counted_bytes("ram") <= 142 * MIB
    [away] = [member for member in desk.members.values() if not member.is_in_memory]
    assert not away.loaded.copied.is_there
    spans = [span for span in desk.ledger.spans("ram") if span.owner == "spare weights" and not span.is_mapped]
    assert sum(span.num_bytes for span in spans) == 0


@pytest.mark.usefixtures("one_kernel")
def test_layers_streamed_from_a_copy_leave_and_come_back_without_another(quantised, pool_desk, loads):
    # Too little for the weights of one.
    desk = pool_desk(72 * MIB)
    desk.worker.use(UseModel(quantised[0]))
    texts: dict[Path, set[str]] = {path: set() for path in quantised}
    for turn in range(3):
        for number, path in enumerate(quantised):
            desk.ask_of(path, f"{turn}-{number}", max_tokens=30)
        for number, path in enumerate(quantised):
            texts[path].add(desk.text_of(f"{turn}-{number}"))
    assert [len(text) for text in texts.values()] == [1, 1]
    assert all(member.loaded.plan.placement.is_packed for member in desk.members.values())
    assert loads == list(quantised)
    assert len(switches(desk)) >= 3


@pytest.mark.expects_warnings
def test_weights_that_cannot_be_put_aside_are_loaded_again(quantised, pool_desk, monkeypatch, caplog):
    def refuse(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(CopiedWeights, "leave", refuse)
    desk = pool_desk(130 * MIB)
    desk.worker.use(UseModel(quantised[0]))
    for turn in range(2):
        for number, path in enumerate(quantised):
            desk.ask_of(path, f"{turn}-{number}", max_tokens=4)
            desk.text_of(f"{turn}-{number}")
    assert any("No space left" in record.message for record in caplog.records)
    # Where its weights were, there may be another's: nothing of it can leave.
    closed = [one for one in desk.members.values() if not one.loaded.model.is_open]
    assert [one.removable_bytes for one in closed] == [0]


# --- while models are evicted, and at the end ---


def test_what_is_chosen_while_others_make_way_is_chosen_instead(
    pool_desk: Callable[[int], PoolDesk], models: tuple[Path, ...], monkeypatch: pytest.MonkeyPatch
):
    desk, have_turns = pool_desk(FOR_ONE), ModelEviction._have_turns
    desk.worker.use(UseModel(models[0], is_urgent=False))
    desk.ask_of(models[1], "b", max_tokens=2)
    desk.end_of("b")

    def another_is_chosen_meanwhile(way: ModelEviction, member: Member, *others: Any) -> None:
        have_turns(way, member, *others)
        if member.loader.is_chosen and not desk.worker._turns.change:
            monkeypatch.setattr(ModelEviction, "_have_turns", have_turns)
            desk.worker.use(UseModel(models[2]))

    monkeypatch.setattr(ModelEviction, "_have_turns", another_is_chosen_meanwhile)
    desk.ask_of("", "q", max_tokens=2)
    desk.end_of("q")
    loaded = [event.path for event in desk.events if isinstance(event, ModelStateChanged) and event.state == "loaded"]
    assert str(models[0]) not in loaded
    assert loaded[-1] == str(models[2])


def test_nobody_who_wants_to_measure_takes_the_turn_of_an_answer(
    pool_desk: Callable[[int], PoolDesk], models: tuple[Path, ...]
):
    desk = pool_desk(FOR_ONE)
    desk.worker.use(UseModel(models[0], is_urgent=False))
    desk.ask_of(models[1], "b")
    desk.begin_of("b")
    measuring = desk.worker.load_now()
    assert isinstance(desk.end_of("b"), AnswerFinished)
    assert measuring.result(desk.patience_s)
    came = [event for event in desk.events if isinstance(event, AnswerFinished | ModelStateChanged)]
    loads = [event.path for event in came[: came.index(desk.ends["b"])] if isinstance(event, ModelStateChanged)]
    assert str(models[0]) not in loads


def test_whoever_waits_for_a_thread_that_has_ended_is_told(
    pool_desk: Callable[[int], PoolDesk], models: tuple[Path, ...]
):
    desk = pool_desk(FOR_ALL)
    desk.worker.stop()
    replies = desk.worker.load_now(), desk.worker.let_go(models[0]), desk.worker.rehearse("write", 1)
    assert [reply.result(desk.patience_s) for reply in replies] == [False, False, None]
    idle = GenerationWorker(desk.loader, lambda known: known, lambda *_: None, desk.events.append)  # type: ignore[arg-type]
    waiting = idle.load_now()
    idle.stop()
    assert waiting.result(desk.patience_s) is False


def test_a_copy_of_a_model_leaves_its_files_to_it(
    pool_desk: Callable[[int], PoolDesk], models: tuple[Path, ...], tmp_path: Path
):
    desk, copy = pool_desk(FOR_ALL), tmp_path / "copy.gguf"
    shutil.copy2(models[0], copy)
    desk.worker.use(UseModel(models[0]))
    for path, question_id in ((models[0], "a"), (copy, "b")):
        desk.ask_of(path, question_id, max_tokens=2)
        desk.end_of(question_id)
    keepers = [desk.members[name].loaded.keeper for name in ("a", "copy")]
    roots = [keeper.tree.root.key for keeper in keepers]
    files = desk.members["a"].loaded.files
    assert roots[0] != roots[1]
    assert desk.worker.let_go(copy).result(desk.patience_s)
    assert [files.is_open(root) for root in roots] == [True, False]
