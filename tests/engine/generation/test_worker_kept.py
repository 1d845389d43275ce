"""Tests for engine.generation.worker: what is kept on the disk, as users see it."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterator
from datetime import date
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from engine.config import Settings
from engine.core import KVType
from engine.events import AnswerFinished
from engine.generation import cache_io, hot_file, idle_time, load_planner, loader, under_way
from engine.generation.cache_files import CacheFiles
from engine.generation.commands import UseModel
from engine.generation.context import Context
from engine.generation.knowledge import KnowledgeKeeper
from engine.generation.request import StepEvent
from engine.generation.step_loop import StepLoop
from engine.inflight import QuestionInFlight
from tests.engine.generation.conftest import Desk
from tests.helpers.tiny_gguf import CHATML, write_tiny_model

Start = Callable[[], Desk]
NAMES_THE_DAY = "Today Date: {{ strftime_now('%d %b %Y') }}\n\n" + CHATML
THINKS = CHATML.replace("assistant\n{% endif %}", "assistant\n<think>\n{% endif %}")


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Desks over the same folder, one after the other."""
    desks: list[Desk] = []

    def started() -> Desk:
        for desk in desks:
            desk.worker.stop()
        desks.append(Desk(tmp_path))
        return desks[-1]

    yield started
    for desk in desks:
        desk.worker.stop()
        assert desk.ledger.spans() == ()


def with_model(desk: Desk, model: Path) -> Desk:
    desk.worker.use(UseModel(model))
    desk.model_state("loaded")
    desk.all_kept_is_known()
    return desk


def kept_files(folder: Path) -> list[Path]:
    return list((folder / "kv").rglob("*.kv"))


def changed(desk: Desk, **generation: object) -> Settings:
    """The settings with others of the generation."""
    return desk.settings.model_copy(update={"generation": desk.settings.generation.model_copy(update=generation)})


def full(*_: object) -> None:
    raise OSError(28, "No space left on device")


@pytest.mark.expects_warnings
def test_a_full_disk_is_one_sentence_and_answers_go_on_from_memory(start, tiny_model, tmp_path, monkeypatch, caplog):
    monkeypatch.setattr(idle_time, "IDLE_SECONDS", 0.0)
    monkeypatch.setattr(cache_io, "write_file", full)
    desk = with_model(start(), tiny_model)
    with caplog.at_level(logging.ERROR):
        for name in ("a", "b"):
            desk.ask(f"How, {name}?", name, max_tokens=2)
            desk.end_of(name)
            desk.wait_until(lambda: desk.loader.problem)
    told = [record for record in caplog.records if "full" in record.getMessage()]
    # On the command line once; on the Memory page for as long as it lasts.
    assert [record.getMessage() for record in told] == [desk.loader.problem]
    assert desk.loader.problem == (
        f"The disk that holds {tmp_path / 'kv'} is full. What the model has read is kept in memory only until there is "
        "room again. Free some space; nothing else is affected."
    )
    desk.ask("How, a?", "again", max_tokens=2)
    end = desk.end_of("again")
    assert end.timings.cached_tokens > end.timings.prompt_tokens - 20
    assert kept_files(tmp_path) == []


@pytest.mark.expects_warnings
def test_a_disk_that_has_room_again_is_told_of_no_more(start, tiny_model, tmp_path, monkeypatch):
    monkeypatch.setattr(idle_time, "IDLE_SECONDS", 0.0)
    monkeypatch.setattr("engine.generation.cache_files.PAUSE_SECONDS", 0.0)
    desk = with_model(start(), tiny_model)
    with monkeypatch.context() as patched:
        patched.setattr(cache_io, "write_file", full)
        desk.ask("How?", "a", max_tokens=2)
        desk.end_of("a")
        desk.wait_until(lambda: desk.loader.problem)
    desk.ask("How else?", "b", max_tokens=2)
    desk.end_of("b")
    desk.wait_until(lambda: not desk.loader.problem)
    desk.wait_until(lambda: kept_files(tmp_path))


def test_the_tokens_of_a_conversation_are_the_models_in_whatever_format_it_keeps_what_it_read(
    start, tiny_model, tmp_path
):
    fingerprints = []
    kinds: tuple[KVType, ...] = ("f16", "q8_0")
    for kv_type in kinds:
        desk = start()
        desk.settings = changed(desk, kv_type=kv_type)
        with_model(desk, tiny_model)
        desk.ask("How?", max_tokens=3)
        fingerprints.append(desk.end_of().answer.segments[1]["model"])
    assert fingerprints[0] == fingerprints[1] != ""
    assert len(list((tmp_path / "kv").iterdir())) >= 1


@pytest.mark.usefixtures("all_is_written")
@pytest.mark.parametrize("template", [CHATML, NAMES_THE_DAY, THINKS])
def test_the_next_turn_on_another_day_after_a_restart_reads_nothing_again(start, tmp_path, monkeypatch, template: str):
    class Monday(date):
        @classmethod
        def today(cls) -> date:
            return cls(2026, 11, 23)

    model = write_tiny_model(tmp_path / "m.gguf", chat_template=template, never_ends=True)
    desk = with_model(start(), model)
    desk.ask("How?", "one", max_tokens=40)
    one = desk.end_of("one")
    monkeypatch.setattr(under_way, "date", Monday)
    desk = with_model(start(), model)
    desk.ask("And then?", "two", transcript=one.answer.segments, max_tokens=40)
    two = desk.end_of("two")
    assert two.timings.cached_tokens == one.timings.prompt_tokens + one.timings.generated_tokens
    assert two.answer.segments[0].get("asked_on") == ("2026-11-23" if template == NAMES_THE_DAY else None)


@pytest.mark.usefixtures("all_is_written")
def test_a_conversation_is_found_after_a_restart_where_memory_may_keep_nothing(start, tmp_path):
    """As where a model's layers take all memory: it passes through it, a piece at a time."""
    model = write_tiny_model(tmp_path / "m.gguf", chat_template=CHATML, never_ends=True)

    def ask(name: str, transcript: tuple[dict[str, Any], ...] = ()) -> AnswerFinished:
        desk = start()
        desk.settings = changed(desk, kv_ram_bytes=0)
        with_model(desk, model)
        desk.ask("How?" * 100, name, transcript=transcript, max_tokens=40)
        end = desk.end_of(name)
        assert isinstance(end, AnswerFinished)
        keeper = desk.loader.loaded_now.keeper
        assert keeper.figures().ram.num_bytes == 0
        desk.worker.stop()
        return end

    one = ask("one")
    two = ask("two", one.answer.segments)
    assert two.timings.cached_tokens == one.timings.prompt_tokens + one.timings.generated_tokens


def test_a_bound_that_is_set_while_no_model_is_loaded_is_kept(start, tiny_model, tmp_path):
    desk = with_model(start(), tiny_model)
    desk.ask("How?", max_tokens=2)
    desk.end_of()
    desk = start()
    assert kept_files(tmp_path)
    desk.worker.forget_removed()
    desk.settings = changed(desk, kv_disk_bytes=0)
    desk.worker.apply_settings()
    desk.wait_until(lambda: not kept_files(tmp_path))


def test_a_bound_that_was_set_before_the_start_is_kept_without_a_model(start, tiny_model, tmp_path):
    desk = with_model(start(), tiny_model)
    desk.ask("How?", max_tokens=2)
    desk.end_of()
    desk.worker.stop()
    assert kept_files(tmp_path)
    settings = changed(desk, kv_disk_bytes=0)
    again = start()
    again.settings = settings
    again.worker.forget_removed()
    again.wait_until(lambda: not kept_files(tmp_path))


def test_memory_that_is_taken_away_while_nobody_asks_is_given_back(start, tiny_model):
    desk = with_model(start(), tiny_model)
    desk.ask("How?", max_tokens=2)
    desk.end_of()
    keeper = desk.loader.loaded_now.keeper
    desk.wait_until(lambda: keeper.figures().ram.num_nodes)
    desk.settings = changed(desk, kv_ram_bytes=0)
    desk.worker.apply_settings()
    desk.wait_until(lambda: not keeper.figures().ram.num_bytes)
    assert keeper.figures().disk.num_nodes


def test_what_was_hot_is_so_after_a_restart_until_its_document_is_removed(start, tiny_model, tmp_path):
    path = tmp_path / "kv" / hot_file.NAME
    desk = with_model(start(), tiny_model)
    for name in ("a", "b"):
        desk.ask("How?", name, max_tokens=2)
        desk.end_of(name)
    again = start()
    uses = hot_file.decode(path.read_bytes()).uses
    assert {passage.document_id: count for passage, count in uses.items()} == {1: 2, 2: 2, 3: 2}
    again.known = {2, 3}
    again.worker.forget_removed()
    again.wait_until(lambda: b"doc1.md" not in path.read_bytes())
    assert {passage.document_id for passage in hot_file.decode(path.read_bytes()).uses} == {2, 3}
    again.known = set()
    again.worker.forget_removed()
    again.wait_until(lambda: not path.exists())


def test_what_was_hot_is_read_after_a_restart_before_anybody_asks(start, tiny_model, tmp_path):
    desk = with_model(start(), tiny_model)
    for name in ("a", "b"):
        desk.ask("How?", name, max_tokens=2)
        desk.end_of(name)
    desk.worker.stop()
    for file in kept_files(tmp_path):
        file.unlink()
    assert not kept_files(tmp_path)
    again = start()
    again.has_power = True
    with_model(again, tiny_model)
    again.wait_until(lambda: kept_files(tmp_path))


def test_a_damaged_file_of_what_was_hot_is_none(start, tiny_model, tmp_path):
    (tmp_path / "kv").mkdir()
    (tmp_path / "kv" / hot_file.NAME).write_bytes(json.dumps({"version": 1}).encode())
    desk = with_model(start(), tiny_model)
    desk.ask("How?", max_tokens=2)
    assert desk.end_of().answer.model == "tiny-llama"


def test_files_of_documents_that_were_removed_meanwhile_go_as_they_are_found(start, tiny_model, tmp_path):
    desk = with_model(start(), tiny_model)
    desk.ask("How?", max_tokens=2)
    desk.end_of()
    desk.worker.stop()
    before = len(kept_files(tmp_path))
    again = start()
    again.known = {1}
    # As it is done at each start: nothing may have been found yet.
    again.worker.forget_removed()
    again.wait_until(lambda: 0 < len(kept_files(tmp_path)) < before)


def test_whoever_closes_waits_no_longer_for_a_disk_than_there_is_time(start, tiny_model, monkeypatch):
    desk = with_model(start(), tiny_model)
    desk.ask("How?", max_tokens=2)
    desk.end_of()
    taken = []
    close = desk.loader.loaded_now.keeper.close
    monkeypatch.setattr(
        type(desk.loader.loaded_now.keeper), "close", lambda _, seconds: (taken.append(seconds), close())
    )
    desk.worker.use(UseModel(None))
    desk.model_state("none")
    assert taken == [loader.KEEPING_SECONDS]
    assert loader.KEEPING_SECONDS <= 2


def test_whoever_closes_while_a_streamed_model_writes_computes_nothing_more(start, tiny_model, monkeypatch):
    desk = with_model(start(), tiny_model)
    monkeypatch.setattr(Context, "is_streamed", property(lambda _: True))
    asked, steps, kept = list[QuestionInFlight](), list[bool](), list[int]()
    step, keep = StepLoop.step, KnowledgeKeeper.keep

    def stepped(loop: StepLoop) -> list[StepEvent]:
        steps.append(desk.loader.is_closing)
        events = step(loop)
        if len(steps) >= 10 and asked and not desk.loader.is_closing:
            desk.loader.close()
            asked[0].cancelled.set()
        return events

    def noted(keeper: KnowledgeKeeper, segments: Any, sequence: Any, *rest: Any, **options: Any) -> None:
        kept.append(sequence.end)
        keep(keeper, segments, sequence, *rest, **options)

    monkeypatch.setattr(StepLoop, "step", stepped)
    monkeypatch.setattr(KnowledgeKeeper, "keep", noted)
    asked.append(desk.ask("How?", max_tokens=200, grammar='root ::= "a" root'))
    desk.end_of()
    desk.worker.stop()
    assert not any(steps)
    # The prompt, and the answer as far as it was computed.
    assert len(kept) == 2
    assert kept[1] > kept[0]


def test_whoever_closes_while_a_model_is_freed_for_another_waits_no_second_time(start, tiny_model, monkeypatch):
    desk = with_model(start(), tiny_model)
    desk.ask("How?", max_tokens=2)
    desk.end_of()
    seconds, given, planned = 100.0, list[float](), list[object]()
    monkeypatch.setattr(load_planner, "plan_load", lambda *what: planned.append(what))
    monkeypatch.setattr(loader, "time", SimpleNamespace(monotonic=lambda: seconds))

    def takes_all(close: Callable[..., None]) -> Callable[..., None]:
        def closed(self: KnowledgeKeeper | CacheFiles, most: float) -> None:
            nonlocal seconds
            desk.loader.close()
            close(self)
            given.append(most)
            seconds += most

        return closed

    monkeypatch.setattr(KnowledgeKeeper, "close", takes_all(KnowledgeKeeper.close))
    monkeypatch.setattr(CacheFiles, "close", takes_all(CacheFiles.close))
    desk.worker.use(UseModel(tiny_model))
    desk.wait_until(lambda: desk.loader.is_closing)
    desk.worker.stop()
    assert (given, planned) == ([loader.KEEPING_SECONDS, 0.0], [])
