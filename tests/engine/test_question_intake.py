"""Tests for engine.question_intake and engine.askable, in a whole engine."""

from __future__ import annotations

import queue
from pathlib import Path

import pytest

from engine.core import Question, SamplingParams, Scope, Unfinished
from engine.engine import Engine
from engine.errors import BadRequest, ModelError
from engine.events import AnswerCancelled, AnswerFailed, AnswerStateChanged, Event
from engine.retrieval.worker import RetrievalWorker
from tests.helpers.tiny_gguf import write_tiny_model


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


def test_an_engine_that_is_about_to_end_answers_nobody_who_goes_on_asking(engine: Engine):
    heard: list[Event] = []
    engine.subscribe(heard.append)
    engine.begin_closing()
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
    with pytest.raises(BadRequest, match="no text yet"):
        engine.submit(Question("q", "Why?", unfinished=Unfinished(" ")))
    assert engine._questions.all() == ()
