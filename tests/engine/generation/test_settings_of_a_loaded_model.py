"""Tests for engine.generation.loader: settings that change while a model is loaded."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from engine.core import Question, SamplingParams
from engine.events import AnswerFinished, TokensGenerated
from engine.generation.commands import UseModel
from engine.inflight import QuestionInFlight
from tests.engine.generation.conftest import EVIDENCE, Desk
from tests.helpers.tiny_gguf import write_tiny_model

LONG = 'root ::= "a" root'


@pytest.fixture
def wide_model(tmp_path: Path) -> Path:
    """Its heads are wide enough for keys and values of eight bits."""
    return write_tiny_model(tmp_path / "wide.gguf", heads=2, kv_heads=1)


@pytest.fixture
def model_desk(desk: Desk, wide_model: Path) -> Desk:
    desk.worker.use(UseModel(wide_model))
    desk.model_state("loaded")
    return desk


def change(desk: Desk, **generation: Any) -> None:
    chosen = desk.settings.generation.model_copy(update=generation)
    desk.settings = desk.settings.model_copy(update={"generation": chosen})
    desk.worker.apply_settings()


def read_something(desk: Desk, question_id: str = "q") -> AnswerFinished:
    desk.ask("How?", question_id, max_tokens=4)
    return desk.end_of(question_id)


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"kv_type": "q8_0"}, "the format of keys and values"),
        ({"parallel_answers": 2}, "answers at once"),
        ({"n_ubatch": 32}, "tokens between two chances to stop"),
        ({"max_context": 512}, "the context"),
    ],
)
def test_what_a_context_is_made_with_is_in_force_at_the_next_load_and_until_then_it_is_told(
    model_desk, wide_model: Path, changed: dict[str, Any], words: str
):
    spec = model_desk.loader.loaded_now.context.spec
    change(model_desk, **changed)
    model_desk.wait_until(lambda: words in model_desk.loader.pending)
    assert isinstance(read_something(model_desk), AnswerFinished)
    assert model_desk.loader.loaded_now.context.spec == spec
    model_desk.worker.use(UseModel(wide_model))
    model_desk.model_state("loaded")
    assert model_desk.loader.loaded_now.context.spec != spec
    assert model_desk.loader.pending == ""
    assert isinstance(read_something(model_desk, "again"), AnswerFinished)


def test_a_change_that_is_taken_back_waits_for_nothing(model_desk):
    change(model_desk, kv_type="q8_0")
    model_desk.wait_until(lambda: model_desk.loader.pending)
    change(model_desk, kv_type="f16")
    model_desk.wait_until(lambda: not model_desk.loader.pending)


def test_memory_for_what_was_read_shrinks_at_once_also_below_a_running_answer(model_desk):
    read_something(model_desk)
    running = model_desk.ask("Why?", "long", max_tokens=100_000, grammar=LONG)
    model_desk.wait_for(lambda event: isinstance(event, TokensGenerated) and event.question_id == "long")
    change(model_desk, kv_ram_bytes=0)
    model_desk.wait_until(lambda: model_desk.loader.loaded_now.keeper._slabs.budget_bytes == 0)
    running.cancelled.set()
    model_desk.end_of("long")
    assert isinstance(read_something(model_desk, "after"), AnswerFinished)


def test_what_leaves_cells_while_memory_is_short_gets_no_more_of_it_than_the_settings_allow_by_now(model_desk):
    change(model_desk, kv_ram_bytes=0)
    model_desk.wait_until(lambda: model_desk.loader.loaded_now.keeper._slabs.budget_bytes == 0)
    model_desk.worker.keep_in_cells(False)
    model_desk.wait_until(lambda: not model_desk.loader.loaded_now.keeps_in_cells)
    assert model_desk.loader.loaded_now.keeper._slabs.budget_bytes == 0


def test_disk_for_what_was_read_is_given_back_at_once(model_desk, tmp_path: Path):
    change(model_desk, kv_disk_bytes=10_000_000)
    read_something(model_desk)
    model_desk.wait_until(lambda: list((tmp_path / "kv").rglob("*.kv")))
    change(model_desk, kv_disk_bytes=0)
    model_desk.wait_until(lambda: not list((tmp_path / "kv").rglob("*.kv")))
    end = read_something(model_desk, "after")
    assert isinstance(end, AnswerFinished)
    assert not list((tmp_path / "kv").rglob("*.kv"))


def test_reading_ahead_begins_and_ends_with_the_setting(model_desk):
    def read_ahead(question_id: str) -> int:
        """Tokens that were read before the question came."""
        before = model_desk.loader.loaded_now.loop.counters().prompt_tokens
        sampling = SamplingParams(max_tokens=1, temperature=0.0)
        in_flight = QuestionInFlight(Question(question_id, f"How, {question_id}?", sampling=sampling))
        model_desk.worker.expect(in_flight, EVIDENCE.passages)
        read_something(model_desk, f"beside {question_id}")
        return model_desk.loader.loaded_now.loop.counters().prompt_tokens - before

    without = read_ahead("a")
    change(model_desk, read_ahead=True)
    assert read_ahead("b") > without
    change(model_desk, read_ahead=False)
    assert read_ahead("c") == without


def test_a_format_that_the_heads_of_a_model_do_not_allow_is_told(desk, tiny_model: Path):
    change(desk, kv_type="q8_0")
    desk.worker.use(UseModel(tiny_model))
    desk.model_state("loaded")
    assert desk.loader.decision.endswith("Keys and values stay at 16 bits: the heads of this model allow no other.")
    assert desk.loader.pending == ""
