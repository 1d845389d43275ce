"""Tests for engine.engine, as far as nothing heavy is loaded."""

from __future__ import annotations

import os
import queue
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from engine.core import Question, SamplingParams, Scope, Unfinished
from engine.engine import Engine
from engine.errors import BadRequest, ModelError, NothingThere
from engine.events import AnswerCancelled, AnswerFailed, AnswerStateChanged, Event, LibraryChanged, ProblemFound
from engine.generation.load_trials import LoadTrials
from engine.generation.worker import GenerationWorker
from engine.retrieval.worker import RetrievalWorker
from tests.helpers.tiny_gguf import write_tiny_model


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[Engine]:
    with Engine.open(tmp_path / "home") as engine:
        yield engine


def test_asking_nothing_waits_for_nothing(engine: Engine):
    answers: list[list[object]] = []
    asking = threading.Thread(target=lambda: answers.append(list(engine.ask_many([]))), daemon=True)
    asking.start()
    asking.join(30)
    assert answers == [[]]


@pytest.mark.parametrize("is_refused", [False, True])
def test_a_question_that_is_stopped_while_its_model_is_looked_at_ends_once(
    engine: Engine, monkeypatch: pytest.MonkeyPatch, is_refused: bool
):
    heard: list[Event] = []
    engine.subscribe(heard.append)

    def stopped_meanwhile(name: str) -> str:
        engine.cancel("q")
        if is_refused:
            raise ModelError("The share does not answer.")
        return name

    monkeypatch.setattr(engine._choice, "asked_for", stopped_meanwhile)
    engine.submit(Question("q", "Why?"))
    assert heard == [AnswerCancelled("q")]
    assert engine._questions.all() == ()


def test_the_model_alone_is_asked_without_a_search_or_an_embedding_model(
    engine: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(engine._parts.retrieval, "submit", lambda in_flight: pytest.fail("it was searched for"))
    with pytest.raises(BadRequest, match="Choose a model"):
        engine.ask("Say hello.", searches=False)
    engine.use_model(write_tiny_model(tmp_path / "tiny.gguf"), remember=False)
    heard: list[Event] = []
    engine.subscribe(heard.append)
    (end,) = engine.ask_many(["Say hello."], searches=False, sampling=SamplingParams(max_tokens=4, seed=1))
    assert (end.answer.passages, end.answer.scope, end.answer.model) == ((), Scope(0, 0, 0), "tiny-llama")
    assert end.timings.retrieval_s < end.timings.total_s
    states = [event.state for event in heard if isinstance(event, AnswerStateChanged)]
    assert (states[0], states[-1]) == ("queued", "writing")
    assert not {"searching", "reading"} & set(states)
    assert engine._questions.all() == ()


def test_a_question_that_is_refused_can_be_asked_again(engine: Engine):
    for _ in range(2):
        with pytest.raises(BadRequest, match="empty"):
            engine.submit(Question("q", " "))
    assert engine._questions.all() == ()


def test_for_an_answer_that_goes_on_nothing_is_searched(engine: Engine, monkeypatch: pytest.MonkeyPatch):
    searched: list[object] = []
    monkeypatch.setattr(RetrievalWorker, "submit", lambda worker, in_flight: searched.append(in_flight))
    heard: queue.Queue[Event] = queue.Queue()
    engine.subscribe(heard.put)
    engine.submit(Question("q", "Why?", unfinished=Unfinished("Because")))
    while not isinstance(end := heard.get(timeout=30), AnswerFailed):
        pass
    assert "Without a model" in str(end.error)
    assert searched == []
    with pytest.raises(BadRequest, match="no words"):
        engine.submit(Question("q", "Why?", unfinished=Unfinished(" ")))
    assert engine._questions.all() == ()


@pytest.mark.expects_warnings
def test_a_listener_that_fails_ends_no_thread(engine: Engine, tmp_path: Path):
    heard: queue.Queue[Event] = queue.Queue()
    engine.subscribe(_failing_listener)
    engine.subscribe(heard.put)
    model = write_tiny_model(tmp_path / "tiny.gguf")
    for _ in range(2):
        engine.use_model(model, remember=False)
        while getattr(heard.get(timeout=30), "state", "") != "loaded":
            pass


def test_what_leaves_the_library_leaves_what_is_kept_of_it(engine: Engine, monkeypatch: pytest.MonkeyPatch):
    asked: list[GenerationWorker] = []
    monkeypatch.setattr(GenerationWorker, "forget_removed", lambda worker: asked.append(worker))
    engine._listeners.publish(LibraryChanged())
    assert len(asked) == 1


def test_a_model_whose_name_cannot_be_kept_is_refused_with_a_way_out(engine: Engine, tmp_path: Path):
    model = write_tiny_model(tmp_path / "tiny\udcff.gguf")
    for choose in (engine.add_model, engine.use_model):
        with pytest.raises(ModelError, match=r"not UTF-8.*Rename"):
            choose(model)
    assert engine.settings.models.known == ()


@pytest.mark.expects_warnings
def test_parts_that_fail_to_close_keep_no_other_from_closing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    engine = Engine.open(tmp_path / "home")
    for part, name in (
        (engine._parts.watcher, "stop"),
        (engine._parts.searching, "close"),
        (engine._parts.pool, "close"),
    ):
        monkeypatch.setattr(part, name, _failing_end(name, getattr(part, name)))
    with pytest.raises(RuntimeError, match="it would not stop"):
        engine.close()
    # Neither a thread nor the folder's lock is left.
    assert not {"index", "retrieval", "generation"} & {thread.name for thread in threading.enumerate()}
    Engine.open(tmp_path / "home").close()


def test_an_end_that_is_broken_off_at_once_counts_against_no_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    model = write_tiny_model(tmp_path / "tiny.gguf")
    with Engine.open(tmp_path / "home") as engine, engine._parts.trials.of(model), monkeypatch.context() as patch:
        patch.setattr(engine._parts.adapting, "stop", _interrupted)
        with pytest.raises(KeyboardInterrupt):
            engine.close()
        assert LoadTrials(engine.home.data / "model-on-trial.json").deaths_of(model) == 0


def test_a_file_that_vanishes_while_bytes_are_counted_counts_nothing(engine: Engine, monkeypatch: pytest.MonkeyPatch):
    before = engine.disk_bytes()
    vanishing = engine.home.library / "vanishing.lance"
    vanishing.write_bytes(b"12345")
    assert engine.disk_bytes() == before + 5
    stat = os.stat

    def late_stat(path, *arguments, **options):
        if path == os.fspath(vanishing):
            vanishing.unlink(missing_ok=True)
        return stat(path, *arguments, **options)

    monkeypatch.setattr(os, "stat", late_stat)
    assert engine.disk_bytes() == before


def _failing_end(verb: str, end: Callable[[], None]) -> Callable[[], None]:
    def failing() -> None:
        end()
        raise RuntimeError(f"it would not {verb}")

    return failing


def _interrupted() -> None:
    raise KeyboardInterrupt


def _failing_listener(event: Event) -> None:
    raise RuntimeError("this listener is broken")


def test_of_several_paths_those_that_are_there_are_added_and_the_others_named(engine: Engine, tmp_path: Path):
    note, events = tmp_path / "note.md", list[Event]()
    note.write_text("A note.", encoding="utf-8")
    engine.subscribe(events.append)
    paths = [str(tmp_path / "gone.md"), str(note), str(tmp_path / "away.md")]
    engine.start_adding(paths)
    assert [Path(folder.path) for folder in engine.folders()] == [note]
    (problem,) = [event for event in events if isinstance(event, ProblemFound)]
    assert problem.sentence == f"Not added, because nothing is there: {paths[0]} and one other."
    with pytest.raises(NothingThere):
        engine.start_adding(paths[:1])
    with pytest.raises(NothingThere):
        engine.add(paths)
