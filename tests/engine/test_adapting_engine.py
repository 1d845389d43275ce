"""Tests for engine.adapting in a real engine: with a model that answers while budgets change under it."""

from __future__ import annotations

import queue
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from engine.config import MIB
from engine.core import Evidence, Question, SamplingParams, Scope
from engine.engine import Engine
from engine.events import AnswerFailed, AnswerFinished, Event, ModelStateChanged, TokensGenerated
from engine.inflight import QuestionInFlight
from engine.memory.cost_model import decode_work
from engine.memory.measured import Point, table_key
from engine.memory.terms import homes_of, split_of
from tests.helpers.tiny_gguf import write_tiny_model

PATIENCE_SECONDS = 60


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[Engine]:
    with Engine.open(tmp_path / "home") as engine:
        yield engine


def wait_for(heard: queue.Queue[Event], wanted: Callable[[Event], bool]) -> Event:
    while True:
        event = heard.get(timeout=PATIENCE_SECONDS)
        assert not isinstance(event, AnswerFailed), event.error
        if wanted(event):
            return event


def becomes_true(fact: Callable[[], bool]) -> bool:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not fact() and time.monotonic() < deadline:
        time.sleep(0.05)
    return fact()


def use(engine: Engine, model: Path, heard: queue.Queue[Event]) -> None:
    engine.use_model(model, remember=False)
    wait_for(heard, lambda event: isinstance(event, ModelStateChanged) and event.state == "loaded")


def ask(engine: Engine, question_id: str, max_tokens: int) -> None:
    """Straight to the model: what it writes rests on nothing."""
    sampling = SamplingParams(max_tokens=max_tokens, temperature=0.0)
    in_flight = QuestionInFlight(Question(question_id, "Write.", sampling=sampling))
    engine._questions.add(in_flight)
    engine._parts.generation.submit(in_flight, Evidence((), (), Scope(0, 0, 0)))


def test_a_budget_that_is_lowered_while_an_answer_is_written_costs_no_answer(engine: Engine, tmp_path: Path):
    heard: queue.Queue[Event] = queue.Queue()
    engine.subscribe(heard.put)
    model = write_tiny_model(tmp_path / "tiny.gguf", layers=4, dim=256, ff=512, context=4096, never_ends=True)
    use(engine, model, heard)
    before = engine._parts.models.principal.loader.placement
    assert before.kv_ram_bytes > 0
    ask(engine, "q", 1500)
    wait_for(heard, lambda event: isinstance(event, TokensGenerated))
    engine.change_settings({"memory.ram_budget_bytes": 256 * MIB})
    assert becomes_true(lambda: engine._parts.models.principal.loader.placement != before)
    engine.change_settings({"memory.ram_budget_bytes": 300 * MIB})
    ended = wait_for(heard, lambda event: isinstance(event, AnswerFinished))
    assert ended.timings.generated_tokens == 1500
    after = engine._parts.models.principal.loader.placement
    assert after.kv_ram_bytes < before.kv_ram_bytes

    def budgets() -> tuple[int | None, int | None]:
        ram = next(tier for tier in engine.memory().tiers if tier.tier == "ram")
        return ram.chosen_budget_bytes, ram.budget_bytes

    # The answer may have ended before the next look.
    assert becomes_true(lambda: budgets() == (300 * MIB, 300 * MIB))
    memory = engine.memory()
    told = [decision.sentence for decision in memory.history]
    assert "Ragdoll may hold 256 MiB in memory." in told
    assert "Ragdoll may hold 300 MiB in memory." in told
    assert memory.history[0].at >= memory.history[-1].at


def test_the_ledger_follows_what_the_budget_leaves(engine: Engine, tmp_path: Path):
    heard: queue.Queue[Event] = queue.Queue()
    engine.subscribe(heard.put)
    model = write_tiny_model(tmp_path / "tiny.gguf", layers=4, dim=256, ff=512, context=4096)
    engine.change_settings({"generation.parallel_answers": 8})
    use(engine, model, heard)
    before = engine.ledger.held_bytes("ram", "kv")
    engine.change_settings({"memory.ram_budget_bytes": 256 * MIB})

    def is_told() -> bool:
        cells = engine._parts.models.principal.loader.placement.num_cells
        return any(f"{cells:,} cells" in span.what for span in engine.ledger.spans("ram"))

    assert becomes_true(lambda: 0 < engine.ledger.held_bytes("ram", "kv") < before and is_told())


def test_an_index_has_the_size_of_the_plan_when_a_model_is_there(engine: Engine, tmp_path: Path):
    heard: queue.Queue[Event] = queue.Queue()
    allowed: list[int | None] = []

    def hear(event: Event) -> None:
        if isinstance(event, ModelStateChanged) and event.fraction:
            allowed.append(engine._parts.stores.partition_bytes)
        heard.put(event)

    engine.subscribe(hear)
    use(engine, write_tiny_model(tmp_path / "tiny.gguf"), heard)
    assert allowed
    assert set(allowed) == {engine._parts.models.principal.loader.placement.index_bytes}


def test_the_picture_tells_of_budgets_and_of_the_placement(engine: Engine, tmp_path: Path):
    heard: queue.Queue[Event] = queue.Queue()
    engine.subscribe(heard.put)
    use(engine, write_tiny_model(tmp_path / "tiny.gguf"), heard)
    assert becomes_true(lambda: bool(engine.memory().history))
    memory = engine.memory()
    assert {tier.tier for tier in memory.tiers} >= {"ram", "disk"}
    assert all(tier.budget_bytes is not None and tier.budget_bytes > 0 for tier in memory.tiers if tier.tier != "gpu")
    assert memory.counters["answer_slots"] >= 1
    assert memory.counters["predicted_tokens_per_s"] > 0
    assert memory.history[0].sentence == memory.decisions[0]


def test_the_picture_follows_what_was_measured_since_the_model_was_placed(engine: Engine, tmp_path: Path):
    heard: queue.Queue[Event] = queue.Queue()
    engine.subscribe(heard.put)
    use(engine, write_tiny_model(tmp_path / "tiny.gguf"), heard)
    before, parts = engine.memory(), engine._parts
    placement, demand = parts.models.principal.loader.placement, parts.models.principal.loader.demand
    assert before.decisions[0] == placement.sentence
    assert before.counters["predicted_tokens_per_s"] == pytest.approx(placement.prediction.tokens_per_s)
    slow = Point(split_of(placement), "write", 1, decode_work(homes_of(demand.shape, placement), 1, 0), 0.02)
    parts.profile.note_table(table_key(demand.shape), lambda table: table.with_point(slow))
    after = engine.memory()
    assert after.counters["predicted_tokens_per_s"] < before.counters["predicted_tokens_per_s"]
    assert f"about {after.counters['predicted_tokens_per_s']:.0f} tokens/s" in after.decisions[0]
