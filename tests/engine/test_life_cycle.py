"""Tests for engine.life_cycle."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from engine.catalog.catalog import CATALOG_NAME
from engine.config import Home
from engine.engine import Engine
from engine.events import Event, LibraryChanged, ProblemFound
from engine.generation.load_trials import LoadTrials
from engine.generation.worker import GenerationWorker
from tests.helpers.tiny_gguf import write_tiny_model


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


def _failing_end(verb: str, end: Callable[[], None]) -> Callable[[], None]:
    def failing() -> None:
        end()
        raise RuntimeError(f"it would not {verb}")

    return failing


def _interrupted() -> None:
    raise KeyboardInterrupt


def _failing_listener(event: Event) -> None:
    raise RuntimeError("this listener is broken")


@pytest.mark.expects_warnings
def test_a_damaged_catalogue_is_told_and_keeps_no_engine_from_opening(tmp_path: Path):
    with Engine.open(tmp_path / "home") as engine:
        file = engine.home.library / CATALOG_NAME
    file.write_bytes(b"no catalogue at all " * 300)
    told: list[Event] = []

    with Engine(Home.under(tmp_path / "home"), told.append) as engine:
        assert engine.collections() == ()

    (problem,) = (event for event in told if isinstance(event, ProblemFound))
    (kept,) = file.parent.glob("*.set-aside-*.sqlite")
    assert str(kept) in problem.sentence
