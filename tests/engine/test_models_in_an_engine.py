"""Tests for engine.engine with several models: questions that name one, in one engine with a real library."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from engine.core import QUOTES_ONLY, Question, SamplingParams
from engine.engine import Engine
from engine.errors import ModelError
from engine.events import AnswerFailed, AnswerFinished, ModelSwitched, TokensGenerated
from tests.helpers.tiny_gguf import write_tiny_model

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="weights leave memory on Linux only")
SAMPLING = SamplingParams(max_tokens=16, temperature=0.0)
TEXT = "Threads share state through a mutex. The lease ends in May. Rent is due on the third."


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, ...]:
    folder = tmp_path_factory.mktemp("models")
    return tuple(
        write_tiny_model(folder / f"{name}.gguf", layers=8, dim=512, ff=2048, seed=seed, never_ends=True)
        for seed, name in enumerate("ab")
    )


@pytest.fixture
def engine(tmp_path: Path, models: tuple[Path, ...]) -> Iterator[Engine]:
    (tmp_path / "notes.md").write_text(TEXT)
    with Engine.open(tmp_path / "home") as engine:
        engine.add([tmp_path / "notes.md"])
        engine.change_settings({"generation.max_context": 1024})
        engine.use_model(models[0], remember=False)
        yield engine


def test_each_question_is_answered_by_the_model_that_it_names(engine: Engine, models: tuple[Path, ...]):
    named = ["", str(models[1]), QUOTES_ONLY, str(models[0])]
    ends = engine.ask_each(["When does the lease end?"] * 4, models=named, sampling=SAMPLING)
    assert all(isinstance(end, AnswerFinished) for end in ends), ends
    texts = [end.answer.text for end in ends if isinstance(end, AnswerFinished)]
    assert texts[0][:12] == texts[3][:12] != texts[1][:12]
    assert "The lease ends in May." in texts[2]


def test_documents_are_embedded_at_a_small_share_while_somebody_waits_for_an_answer(
    engine: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    shares: list[float] = []
    monkeypatch.setattr("engine.giving_way.rest_seconds", lambda _, share: shares.append(share) or 0.0)
    is_written, is_indexed, has_ended = threading.Event(), threading.Event(), threading.Event()

    def note(event: object) -> None:
        if isinstance(event, TokensGenerated):
            is_written.set()
            is_indexed.wait(60)
        elif isinstance(event, AnswerFinished):
            has_ended.set()

    engine.subscribe(note)
    engine.submit(Question("q", "When does the lease end?", sampling=SAMPLING))
    assert is_written.wait(60)
    (tmp_path / "beside.md").write_text("Bees dance.")
    engine.add([tmp_path / "beside.md"])
    is_indexed.set()
    assert has_ended.wait(60)
    assert shares, "documents are embedded through the gate"
    assert max(shares) < 1
    shares.clear()
    (tmp_path / "after.md").write_text("Ants walk.")
    engine.add([tmp_path / "after.md"])
    assert shares
    assert min(shares) == 1


def test_a_model_that_is_none_is_refused_before_anything_is_searched(engine: Engine, tmp_path: Path):
    with pytest.raises(ModelError):
        engine.submit(Question("q", "Who?", model=str(tmp_path / "nowhere.gguf")))
    broken = tmp_path / "broken.gguf"
    broken.write_bytes(b"no model")
    [end] = engine.ask_each(["Who?"], models=[str(broken)])
    assert isinstance(end, AnswerFailed)
    assert isinstance(end.error, ModelError)


def test_models_take_turns_once_the_budget_has_no_room_for_both(engine: Engine, models: tuple[Path, ...]):
    ask(engine, models)
    counted_bytes = engine.ledger.counted_bytes("ram")
    switches: list[ModelSwitched] = []
    engine.subscribe(lambda event: switches.append(event) if isinstance(event, ModelSwitched) else None)
    ask(engine, models)
    assert not switches
    # A model takes some 150 MiB.
    engine.change_settings({"memory.ram_budget_bytes": counted_bytes - 60 * 2**20})
    deadline = time.monotonic() + 60
    while len(switches) < 3:
        assert time.monotonic() < deadline
        ask(engine, models)
    [ram] = [tier for tier in engine.memory().tiers if tier.tier == "ram"]
    waiting = [span for span in ram.spans if span.owner in ("pool", "spare weights")]
    assert waiting
    assert all(span.what.startswith("tiny-llama: ") for span in waiting)
    assert engine.memory().counters["models_open"] == 2


def ask(engine: Engine, models: tuple[Path, ...]) -> None:
    named = [str(models[number % 2]) for number in range(4)]
    ends = engine.ask_each(["When does the lease end?"] * 4, models=named, sampling=SAMPLING)
    assert all(isinstance(end, AnswerFinished) for end in ends), ends
    texts = [end.answer.text[:8] for end in ends if isinstance(end, AnswerFinished)]
    assert len(set(texts)) == 2


def test_answers_that_came_in_time_are_counted_whichever_model_wrote_them(engine: Engine, models: tuple[Path, ...]):
    assert "answers_in_time_ratio" not in engine.memory().counters
    # Nobody is that fast, or that slow.
    for seconds, path in ((1e-9, models[0]), (1e9, models[1])):
        engine.change_settings({"generation.ttft_target_seconds": seconds, "generation.tpot_target_seconds": seconds})
        engine.ask_each(["When does the lease end?"], models=[str(path)], sampling=SAMPLING)
    engine.ask_each(["When does the lease end?"], models=[QUOTES_ONLY])
    assert engine.memory().counters["answers_in_time_ratio"] == 0.5
