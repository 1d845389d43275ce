"""Tests for engine.generation.worker: what becomes of questions when another model is chosen."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from engine.core import Question, SamplingParams
from engine.errors import ModelLoadFailed
from engine.events import (
    AnswerCancelled,
    AnswerEnded,
    AnswerFailed,
    AnswerFinished,
    AnswerStateChanged,
    ModelStateChanged,
    TokensGenerated,
)
from engine.generation import loader
from engine.generation.cache_files import CacheFiles
from engine.generation.cache_format import CacheHeader
from engine.generation.commands import UseModel
from engine.generation.loaded import LoadedModel
from engine.generation.step_loop import StepLoop
from engine.inflight import QuestionInFlight
from tests.engine.generation.conftest import ENDS, EVIDENCE, PASSAGES, Desk
from tests.helpers.tiny_gguf import write_tiny_model

LONG = 'root ::= "a" root'
NUM_BATCH = 40


@pytest.fixture(scope="session")
def other_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tiny_model(tmp_path_factory.mktemp("models") / "other.gguf", architecture="qwen2")


@pytest.fixture
def model_desk(desk: Desk, tiny_model: Path) -> Desk:
    """With cells for a few answers at a time."""
    chosen = desk.settings.generation.model_copy(update={"parallel_answers": 1, "read_ahead": True})
    desk.settings = desk.settings.model_copy(update={"generation": chosen})
    desk.worker.use(UseModel(tiny_model))
    desk.model_state("loaded")
    return desk


@pytest.fixture
def pause(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[], AbstractContextManager[threading.Event]]]:
    """A time in which the loop does not go on; the event is set when it wants to."""
    step, goes_on, waits = StepLoop.step, threading.Event(), threading.Event()

    def paused_step(self: StepLoop):
        if not goes_on.is_set():
            waits.set()
        assert goes_on.wait(60)
        return step(self)

    @contextmanager
    def pausing() -> Iterator[threading.Event]:
        goes_on.clear()
        yield waits
        goes_on.set()

    goes_on.set()
    monkeypatch.setattr(StepLoop, "step", paused_step)
    yield pausing
    goes_on.set()


def ask_in_batch(desk: Desk, name: str, max_tokens: int = 6) -> QuestionInFlight:
    sampling = SamplingParams(max_tokens=max_tokens, temperature=0.0, grammar=LONG)
    in_flight = QuestionInFlight(Question(name, f"How, {name}?", sampling=sampling, priority="batch"))
    desk.worker.submit(in_flight, EVIDENCE)
    return in_flight


def ends_of(desk: Desk, number: int) -> dict[str, AnswerEnded]:
    """The ends of this many questions; each has ended once."""
    ends = {end.question_id: end for end in (desk.end_of_any() for _ in range(number))}
    assert len(ends) == number == len(ends_in_order(desk))
    return ends


def ends_in_order(desk: Desk) -> list[AnswerEnded]:
    return [event for event in desk.events if isinstance(event, ENDS)]


def text_told(desk: Desk, question_id: str) -> str:
    pieces = [event.text for event in desk.events if isinstance(event, TokensGenerated)]
    told = [event.question_id for event in desk.events if isinstance(event, TokensGenerated)]
    return "".join(piece for piece, name in zip(pieces, told, strict=True) if name == question_id)


def wait_for_text(desk: Desk, question_id: str) -> None:
    desk.wait_for(lambda event: isinstance(event, TokensGenerated) and event.question_id == question_id)


def test_a_person_who_changes_the_model_does_not_wait_for_a_script(model_desk, other_model, at_once):
    def change() -> None:
        model_desk.worker.use(UseModel(other_model))
        model_desk.ask("How?", "person", max_tokens=4)

    model_desk.at_text_of("batch0", change)
    with at_once():
        for number in range(NUM_BATCH):
            ask_in_batch(model_desk, f"batch{number}", max_tokens=12)
    models = {name: end.answer.model for name, end in ends_of(model_desk, NUM_BATCH + 1).items()}
    assert models["person"] == models[f"batch{NUM_BATCH - 1}"] == "tiny-qwen2"
    # The old model answers only those that had begun to appear; and the new one hardly ever answers before the user's.
    of_the_old = [name for name, model in models.items() if model == "tiny-llama"]
    assert "batch0" in of_the_old
    assert len(of_the_old) < NUM_BATCH / 2
    assert list(models).index("person") < len(of_the_old) + 10


def test_no_answer_is_begun_twice_for_those_who_see_it(model_desk, other_model, at_once):
    def ask_more_and_choose() -> None:
        for number in range(4, 8):
            ask_in_batch(model_desk, f"q{number}", max_tokens=20)
        model_desk.worker.use(UseModel(other_model))

    model_desk.at_text_of("q2", ask_more_and_choose)
    with at_once():
        for number in range(4):
            ask_in_batch(model_desk, f"q{number}", max_tokens=60)
    ends = ends_of(model_desk, 8)
    assert all(text_told(model_desk, name) == end.answer.text for name, end in ends.items())
    models = {name: end.answer.model for name, end in ends.items()}
    assert {models["q0"], models["q2"]} == {"tiny-llama"}
    assert {models[f"q{number}"] for number in range(4, 8)} == {"tiny-qwen2"}


def test_who_waits_for_the_new_model_is_told_so_and_can_be_cancelled(model_desk, other_model, at_once):
    running = model_desk.ask("How?", "seen", max_tokens=100_000, grammar=LONG)
    wait_for_text(model_desk, "seen")
    with at_once():
        crowd = [ask_in_batch(model_desk, f"q{number}") for number in range(3)]
        model_desk.worker.use(UseModel(other_model))
    model_desk.wait_for(lambda event: event == AnswerStateChanged("q2", "queued", 2))
    crowd[2].cancelled.set()
    assert isinstance(model_desk.end_of("q2"), AnswerCancelled)
    running.cancelled.set()
    assert isinstance(model_desk.end_of("seen"), AnswerCancelled)
    assert {model_desk.end_of(f"q{number}").answer.model for number in range(2)} == {"tiny-qwen2"}
    assert [end.question_id for end in ends_in_order(model_desk)] == ["q2", "seen", "q0", "q1"]


def test_a_question_whose_prompt_is_read_ahead_goes_to_the_new_model_too(model_desk, other_model, at_once):
    with at_once():
        in_flight = QuestionInFlight(Question("q", "Why?", sampling=SamplingParams(max_tokens=4, temperature=0.0)))
        model_desk.worker.expect(in_flight, EVIDENCE.passages)
        model_desk.worker.submit(in_flight, EVIDENCE)
        model_desk.worker.use(UseModel(other_model))
    assert model_desk.end_of("q").answer.model == "tiny-qwen2"
    assert len(ends_in_order(model_desk)) == 1


def test_of_several_changes_in_a_row_only_the_last_is_carried_out(model_desk, other_model, tiny_model):
    running = model_desk.ask("How?", "seen", max_tokens=100_000, grammar=LONG)
    wait_for_text(model_desk, "seen")
    for path in (other_model, None, other_model, tiny_model):
        model_desk.worker.use(UseModel(path))
    running.cancelled.set()
    model_desk.model_state("loaded")
    loading = [event.path for event in model_desk.events if isinstance(event, ModelStateChanged) and event.path]
    assert str(other_model) not in loading


def test_a_load_that_is_given_up_for_another_is_no_failure_and_its_questions_go_on(desk, tiny_model, monkeypatch):
    is_loading = threading.Event()

    def never_done(plan, files, ledger, leases, on_progress):
        is_loading.set()
        while on_progress(0.5):
            pass
        raise ModelLoadFailed("Told to stop.")

    with monkeypatch.context() as patched:
        patched.setattr(loader, "build", never_done)
        desk.worker.use(UseModel(tiny_model, is_urgent=False))
        desk.ask("How?", max_tokens=2)
        assert is_loading.wait(60)
    desk.worker.use(UseModel(tiny_model))
    assert desk.end_of().answer.model == "tiny-llama"
    assert not any(isinstance(event, ModelStateChanged) and event.state == "failed" for event in desk.events)


def test_whoever_cancels_while_a_model_is_loaded_hears_of_it_at_once(desk, tiny_model, monkeypatch):
    is_loading, goes_on = threading.Event(), threading.Event()
    build = loader.build

    def slow(plan, files, ledger, leases, on_progress):
        is_loading.set()
        while not goes_on.is_set():
            assert on_progress(0.0)
            goes_on.wait(0.01)
        return build(plan, files, ledger, leases, on_progress)

    monkeypatch.setattr(loader, "build", slow)
    desk.worker.use(UseModel(tiny_model, is_urgent=False))
    waits = desk.ask("How?", "waits", max_tokens=2)
    assert is_loading.wait(60)
    came_later = desk.ask("How?", "came later", max_tokens=2)
    desk.worker.apply_settings()
    desk.ask("How?", "answered", max_tokens=2)
    for in_flight in (came_later, waits):
        in_flight.cancelled.set()
    assert all(isinstance(desk.end_of(name), AnswerCancelled) for name in ("waits", "came later"))
    assert not any(isinstance(event, AnswerFinished) for event in desk.events)
    goes_on.set()
    assert isinstance(desk.end_of("answered"), AnswerFinished)
    assert len(ends_in_order(desk)) == 3


def test_what_was_read_of_a_removed_document_is_not_kept_when_the_model_is_taken_away(model_desk, monkeypatch):
    step, is_reading, goes_on = StepLoop.step, threading.Event(), threading.Event()
    write, written = CacheFiles.write, set[int]()

    def noted_step(self: StepLoop):
        events = step(self)
        if self.num_steps >= 2:
            is_reading.set()
            assert goes_on.wait(60)
        return events

    def noted_write(self: CacheFiles, header: CacheHeader, *to):
        written.update(header.piece.documents)
        return write(self, header, *to)

    monkeypatch.setattr(StepLoop, "step", noted_step)
    monkeypatch.setattr(CacheFiles, "write", noted_write)
    passages = tuple(replace(PASSAGES[0], document_id=n, text=f"Number {n}. {PASSAGES[0].text * 4}") for n in range(20))
    model_desk.ask("How?", evidence=replace(EVIDENCE, passages=passages))
    assert is_reading.wait(60)
    model_desk.known = set()
    model_desk.worker.forget_removed()
    model_desk.worker.use(UseModel(None))
    goes_on.set()
    model_desk.model_state("none")
    assert written
    model_desk.wait_until(lambda: not model_desk.loader.planner.shared.opened_files.documents())


def test_a_choice_that_is_made_while_the_model_before_is_freed_counts(model_desk, other_model, monkeypatch):
    close, choices = LoadedModel.close, [UseModel(None)]

    def slow_close(self: LoadedModel, *options) -> None:
        close(self, *options)
        while choices:
            model_desk.worker.use(choices.pop())

    monkeypatch.setattr(LoadedModel, "close", slow_close)
    model_desk.worker.use(UseModel(other_model))
    # When the one before was freed, and when the choice was carried out.
    for _ in range(2):
        model_desk.model_state("none")
    loaded = [event.path for event in model_desk.events if isinstance(event, ModelStateChanged) and event.fraction == 1]
    assert str(other_model) not in loaded


def test_a_model_that_rests_is_loaded_by_the_next_question(model_desk, tiny_model):
    model_desk.worker.rest(tiny_model)
    model_desk.model_state("none")
    assert model_desk.loader.loaded_now is None
    model_desk.ask("How?")
    assert model_desk.end_of().answer.model == "tiny-llama"


@pytest.mark.parametrize("chosen", ["another", "none"])
def test_a_model_that_is_to_rest_while_it_is_freed_for_another_does_not_overrule_the_choice(
    model_desk, tiny_model, other_model, monkeypatch, chosen: str
):
    close, wanted = LoadedModel.close, other_model if chosen == "another" else None

    def slow_close(self: LoadedModel, *options) -> None:
        close(self, *options)
        if self.plan.path == tiny_model:
            model_desk.worker.rest(tiny_model)

    monkeypatch.setattr(LoadedModel, "close", slow_close)
    model_desk.worker.use(UseModel(wanted))
    model_desk.model_state("none" if wanted is None else "loaded")
    model_desk.ask("How?")
    assert model_desk.end_of().answer.model == ("tiny-qwen2" if wanted else None)
    states = [event.state for event in model_desk.events if isinstance(event, ModelStateChanged)]
    assert states.count("none") == 1


def test_a_model_does_not_rest_while_somebody_is_answered(model_desk, tiny_model, pause):
    with pause() as waits:
        model_desk.ask("How?", max_tokens=8)
        assert waits.wait(60)
        model_desk.worker.rest(tiny_model)
    assert isinstance(model_desk.end_of(), AnswerFinished)
    model_desk.ask("Why?", "next", max_tokens=2)
    assert isinstance(model_desk.end_of("next"), AnswerFinished)
    assert not [event for event in model_desk.events if isinstance(event, ModelStateChanged) and event.state == "none"]


def test_a_model_that_nobody_waits_for_is_let_go(model_desk, tiny_model, other_model):
    assert model_desk.worker.let_go(other_model).result(60)
    assert model_desk.loader.loaded_now is not None
    assert model_desk.worker.let_go(tiny_model).result(60)
    assert model_desk.loader.loaded_now is None
    model_desk.ask("How?")
    assert model_desk.end_of().answer.model == "tiny-llama"


def test_a_model_that_answers_is_not_let_go(model_desk, tiny_model, pause):
    with pause() as waits:
        model_desk.ask("How?", max_tokens=8)
        assert waits.wait(60)
        reply = model_desk.worker.let_go(tiny_model)
    assert not reply.result(60)
    assert isinstance(model_desk.end_of(), AnswerFinished)
    assert not [event for event in model_desk.events if isinstance(event, ModelStateChanged) and event.state == "none"]


def test_a_change_that_comes_as_the_engine_closes_is_not_begun(model_desk, other_model):
    model_desk.loader.close()
    model_desk.worker.use(UseModel(other_model))
    model_desk.worker.stop()
    states = [event.state for event in model_desk.events if isinstance(event, ModelStateChanged)]
    assert states[-2:] == ["loaded", "none"]


@pytest.mark.expects_warnings
def test_a_model_that_cannot_be_loaded_is_tried_once_for_all_that_wait_for_it(model_desk, at_once, tmp_path: Path):
    with at_once():
        for number in range(20):
            ask_in_batch(model_desk, f"q{number}")
        model_desk.worker.use(UseModel(tmp_path / "missing.gguf"))
    ends = ends_of(model_desk, 20).values()
    assert all(isinstance(end, AnswerFailed) and "no model file" in str(end.error) for end in ends)
    failed = [event for event in model_desk.events if isinstance(event, ModelStateChanged) and event.state == "failed"]
    # Once when it was chosen, and once when the first question wanted it.
    assert len(failed) == 2
    assert failed[0].sentence.endswith("Choose another file.")


@pytest.mark.expects_warnings
def test_a_loop_that_breaks_before_the_change_takes_nobody_along_who_waits_for_the_new_model(
    model_desk, other_model, pause, monkeypatch
):
    step = StepLoop.step

    def breaks(self: StepLoop):
        monkeypatch.setattr(StepLoop, "step", step)
        raise OSError("broken")

    model_desk.ask("How?", "seen", max_tokens=100_000, grammar=LONG)
    wait_for_text(model_desk, "seen")
    with pause() as waits:
        assert waits.wait(60)
        for number in range(3):
            ask_in_batch(model_desk, f"q{number}")
        model_desk.worker.use(UseModel(other_model))
        monkeypatch.setattr(StepLoop, "step", breaks)
    assert isinstance(model_desk.end_of("seen"), AnswerFailed)
    ends = [model_desk.end_of(f"q{number}") for number in range(3)]
    assert all(isinstance(end, AnswerFinished) and end.answer.model == "tiny-qwen2" for end in ends)


def test_back_on_its_model_a_conversation_reads_only_what_is_new(desk, tmp_path: Path):
    names = ("llama", "qwen2", "llama", "qwen2")
    models = {name: write_tiny_model(tmp_path / f"{name}.gguf", architecture=name, never_ends=True) for name in names}
    transcript: tuple[dict[str, Any], ...] = ()
    # What each has read and written by now.
    known: dict[str, int] = {}
    desk.worker.use(UseModel(models[names[0]]))
    for name, following in pairwise((*names, names[0])):
        desk.ask("And then?", transcript=transcript, max_tokens=30)
        wait_for_text(desk, "q")
        # It waits for the answer that people see, and for all of it to be kept.
        desk.worker.use(UseModel(models[following]))
        end = desk.end_of()
        assert (end.answer.model, end.answer.finish_reason) == (f"tiny-{name}", "length")
        assert end.timings.cached_tokens == known.get(name, 0)
        known[name] = end.timings.prompt_tokens + end.timings.generated_tokens
        transcript += end.answer.segments
