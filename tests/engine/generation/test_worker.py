"""Tests for engine.generation.worker, with real models of a few hundred kilobytes."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path

import pytest

from engine.core import Evidence, Filters, Question, Scope
from engine.errors import ModelFileInvalid, NothingThere, PromptTooLong
from engine.events import (
    AnswerCancelled,
    AnswerFailed,
    AnswerFinished,
    AnswerStateChanged,
    Event,
    ModelStateChanged,
    PassagesFound,
    PassagesRecalled,
    PromptMade,
    TokensGenerated,
)
from engine.generation import building
from engine.generation.commands import UseModel
from engine.generation.knowledge_tree import MIN_PIECE_TOKENS
from engine.generation.worker import GenerationWorker
from engine.memory.ledger import Ledger
from tests.engine.generation.conftest import EVIDENCE, PASSAGES
from tests.helpers.loaders import loader_in
from tests.helpers.shared_data import shared_file
from tests.helpers.tiny_gguf import write_split_model, write_tiny_model


def written(desk, question_id: str = "q") -> str:
    pieces = [e.text for e in desk.events if isinstance(e, TokensGenerated) and e.question_id == question_id]
    return "".join(pieces)


def test_without_a_model_the_quotes_are_the_answer(desk):
    desk.ask("How?")
    end = desk.end_of()
    assert isinstance(end, AnswerFinished)
    assert (end.answer.model, end.answer.text) == (None, "“Threads share state” [1]")
    assert written(desk) == end.answer.text


@pytest.mark.parametrize("architecture", ["llama", "qwen2"])
def test_tokens_stream_and_add_up_to_the_answer(desk, tmp_path: Path, architecture: str):
    desk.worker.use(UseModel(write_tiny_model(tmp_path / "m.gguf", architecture=architecture)))
    desk.ask("How?")
    end = desk.end_of()
    assert isinstance(end, AnswerFinished)
    assert end.answer.model == f"tiny-{architecture}"
    assert written(desk) == end.answer.text != ""
    assert end.timings.prompt_tokens > 20
    assert 0 < end.timings.generated_tokens <= 24
    assert end.timings.total_s >= end.timings.ttft_s > 0


def test_how_long_a_prompt_is_is_told_before_anything_of_it_is_read(desk, tiny_model: Path):
    desk.worker.use(UseModel(tiny_model))
    desk.ask("How?")
    end = desk.end_of()
    told = [event for event in desk.events if isinstance(event, PromptMade | AnswerStateChanged)]
    assert told[-2:] == [PromptMade("q", end.timings.prompt_tokens), AnswerStateChanged("q", "writing")]


def test_a_trained_model_writes_words(desk):
    desk.worker.use(UseModel(shared_file("models/stories260K-f32.gguf")))
    desk.ask("Tell me of Lily and the dog", max_tokens=60)
    end = desk.end_of()
    assert isinstance(end, AnswerFinished)
    assert sum(word.isalpha() for word in end.answer.text.split()) >= 5


def test_a_grammar_forces_the_answer_and_its_citation_is_parsed(desk, tiny_model: Path):
    desk.worker.use(UseModel(tiny_model))
    desk.ask("How?", grammar='root ::= "Through a mutex [2]."')
    end = desk.end_of()
    assert end.answer.text == "Through a mutex [2]."
    assert [(citation.marker, citation.passage) for citation in end.answer.citations] == [("[2]", 1)]
    assert end.answer.finish_reason == "stop"


def test_an_answer_without_markers_falls_back_to_the_quotes(desk, tiny_model: Path):
    desk.worker.use(UseModel(tiny_model))
    desk.ask("How?", grammar='root ::= "Through a mutex."')
    assert [citation.passage for citation in desk.end_of().answer.citations] == [0]


def test_what_was_not_read_stands_in_for_no_citation(desk, tiny_model: Path):
    desk.worker.use(UseModel(tiny_model))
    long = [replace(passage, text=passage.text + " and so on" * 400) for passage in EVIDENCE.passages]
    quotes = tuple(replace(EVIDENCE.quotes[0], passage=place) for place in (2, 0))
    desk.ask("How?", evidence=replace(EVIDENCE, passages=tuple(long), quotes=quotes), grammar='root ::= "So."')
    answer = desk.end_of().answer
    assert 2 in answer.scope.unread
    assert [citation.passage for citation in answer.citations] == [0]


def test_a_stop_string_ends_the_answer_before_it_appears(desk, tiny_model: Path):
    desk.worker.use(UseModel(tiny_model))
    desk.ask("How?", grammar='root ::= "one STOP two"', stop=("STOP",))
    end = desk.end_of()
    assert (end.answer.text, end.answer.finish_reason) == ("one ", "stop")


def test_the_token_budget_ends_an_answer_as_too_long(desk, tiny_model: Path):
    desk.worker.use(UseModel(tiny_model))
    desk.ask("How?", max_tokens=3, grammar='root ::= "abcdefgh"')
    end = desk.end_of()
    assert (end.answer.finish_reason, end.timings.generated_tokens) == ("length", 3)


def test_the_same_seed_gives_the_same_answer(desk, tiny_model: Path):
    desk.worker.use(UseModel(tiny_model))
    texts = []
    for question_id in ("a", "b"):
        desk.ask("How?", question_id, temperature=1.0, seed=11)
        texts.append(desk.end_of(question_id).answer.text)
    assert texts[0] == texts[1]


def test_a_conversation_keeps_its_context_and_its_cells(desk, tiny_model: Path):
    desk.worker.use(UseModel(tiny_model))
    desk.ask("First?", "a", grammar='root ::= "Yes [1]."')
    first = desk.end_of("a")
    desk.ask("Second?", "b", transcript=first.answer.segments, grammar='root ::= "No [1]."')
    second = desk.end_of("b")
    assert second.timings.prompt_tokens > first.timings.prompt_tokens
    assert [segment["role"] for segment in second.answer.segments] == ["user", "assistant"]


def test_what_a_removed_document_said_is_not_read_again(desk, tiny_model: Path):
    desk.worker.use(UseModel(tiny_model))
    desk.ask("First?", "a", grammar='root ::= "Yes [1]."')
    segments = desk.end_of("a").answer.segments
    of_the_first = EVIDENCE.of_documents({1})
    desk.ask("Second?", "b", transcript=segments, evidence=of_the_first)
    with_all = desk.end_of("b").timings.prompt_tokens
    desk.known = {1}
    desk.ask("Second?", "c", transcript=segments, evidence=of_the_first)
    assert desk.end_of("c").timings.prompt_tokens < with_all


@pytest.mark.parametrize("has_model", [True, False])
def test_a_document_removed_while_its_question_waited_is_not_cited(desk, tiny_model: Path, has_model: bool):
    if has_model:
        desk.worker.use(UseModel(tiny_model))
    desk.known = {2, 3}
    desk.ask("How?")
    answer = desk.end_of().answer
    assert [passage.document_id for passage in answer.passages] == [2, 3]
    assert (answer.quotes, answer.scope.passages_used, answer.scope.files) == ((), 2, 2)
    [found] = [event for event in desk.events if isinstance(event, PassagesFound)]
    assert found.passages == answer.passages


@pytest.mark.parametrize("has_model", [True, False])
def test_a_question_to_a_document_that_left_while_it_waited_is_not_answered_that_nothing_was_found(
    desk, tiny_model: Path, has_model: bool
):
    if has_model:
        desk.worker.use(UseModel(tiny_model))
    desk.known = {2, 3}
    question = Question("q", "How?", filters=Filters(document_ids=(1,)))
    desk.put(question, EVIDENCE.of_documents({1}))
    end = desk.end_of()
    assert isinstance(end, AnswerFailed)
    assert isinstance(end.error, NothingThere)


def test_a_stopped_answer_stays_in_its_conversation_and_is_not_read_again(desk, tiny_model: Path):
    desk.worker.use(UseModel(tiny_model))
    in_flight = desk.ask("First?", "a", max_tokens=100_000, grammar='root ::= "a" root')
    # Less is not kept by itself.
    desk.wait_until(lambda: len(written(desk, "a")) > 2 * MIN_PIECE_TOKENS)
    in_flight.cancelled.set()
    stopped = desk.end_of("a")
    user, assistant = stopped.segments
    assert (user["question"], len(user["passages"])) == ("First?", 3)
    assert assistant["text"].startswith(written(desk, "a"))
    desk.wait_until(lambda: not desk.loader.loaded_now.loop.closing)
    desk.ask("Second?", "b", transcript=stopped.segments, evidence=Evidence((), (), Scope(0, 0, 0)))
    timings = desk.end_of("b").timings
    assert timings.cached_tokens >= len(assistant["tokens"]) + in_flight.timeline.prompt_tokens


def test_a_question_in_the_moment_in_which_an_answer_ends_reads_nothing_of_it_again(desk, tmp_path: Path, monkeypatch):
    desk.worker.use(UseModel(write_tiny_model(tmp_path / "wordy.gguf", never_ends=True)))
    nothing = Evidence((), (), Scope(0, 0, 0))
    take = desk._take

    def ask_at_once(event: Event) -> None:
        take(event)
        if isinstance(event, AnswerFinished) and event.question_id == "a":
            # On the generation thread: nothing can be computed in between.
            desk.ask("Second?", "b", transcript=event.answer.segments, evidence=nothing)

    monkeypatch.setattr(desk.worker.models.members.home.under_way, "_publish", ask_at_once)
    desk.ask("First?", "a", max_tokens=100)
    first, second = desk.end_of("a").timings, desk.end_of("b").timings
    assert second.cached_tokens == first.prompt_tokens + first.generated_tokens - 1


def test_a_question_that_was_stopped_before_its_answer_began_leaves_nothing(desk, tiny_model: Path, at_once):
    desk.worker.use(UseModel(tiny_model))
    with at_once():
        in_flight = desk.ask("How?")
        in_flight.cancelled.set()
    assert desk.end_of() == AnswerCancelled("q")


def test_cancelling_stops_between_tokens_and_the_worker_lives(desk, tiny_model: Path):
    desk.worker.use(UseModel(tiny_model))
    in_flight = desk.ask("How?", "a", max_tokens=100_000, grammar='root ::= "a" root')
    desk.wait_for(lambda event: isinstance(event, TokensGenerated))
    in_flight.cancelled.set()
    assert isinstance(desk.end_of("a"), AnswerCancelled)
    desk.ask("How?", "b")
    assert isinstance(desk.end_of("b"), AnswerFinished)


def test_a_question_cancelled_while_it_waits_is_never_begun(desk, tiny_model: Path, at_once):
    desk.worker.use(UseModel(tiny_model))
    with at_once():
        desk.ask("How?", "a")
        in_flight = desk.ask("How?", "b")
        in_flight.cancelled.set()
    assert isinstance(desk.end_of("b"), AnswerCancelled)
    assert AnswerStateChanged("b", "writing") not in desk.events


def test_a_question_too_long_for_the_model_fails_with_a_sentence(desk, tmp_path: Path):
    desk.worker.use(UseModel(write_tiny_model(tmp_path / "small.gguf", context=128)))
    desk.ask("why " * 200)
    end = desk.end_of()
    assert isinstance(end, AnswerFailed)
    assert isinstance(end.error, PromptTooLong)


@pytest.mark.expects_warnings
def test_a_model_file_cut_short_fails_with_a_sentence_and_leaves_nothing(desk, tiny_model: Path, tmp_path: Path):
    broken = tmp_path / "cut.gguf"
    broken.write_bytes(tiny_model.read_bytes()[:-4096])
    desk.worker.use(UseModel(broken))
    assert "cut short" in desk.model_state("failed").sentence
    desk.ask("How?")
    end = desk.end_of()
    assert isinstance(end, AnswerFailed)
    assert isinstance(end.error, ModelFileInvalid)
    assert desk.ledger.spans() == ()


def test_every_byte_of_a_model_is_in_the_ledger_while_it_is_loaded(desk, tiny_model: Path):
    desk.worker.use(UseModel(tiny_model))
    desk.model_state("loaded")
    shape = desk.loader.loaded_now.shape
    cells = [span.num_bytes for span in desk.ledger.spans("ram") if span.what == "8,192 cells"]
    assert desk.ledger.held_bytes("ram", "weights") == shape.weight_bytes
    assert cells == [shape.kv_bytes(4 * 2048)]
    # Buffers count as far as they were written to: by a pass at the latest.
    desk.ask("How?")
    desk.end_of()
    assert desk.ledger.held_bytes("ram", "workspace") > 0
    desk.worker.use(UseModel(None))
    desk.model_state("none")
    assert desk.ledger.spans("ram") == ()


def test_a_model_named_in_the_settings_is_loaded_by_the_first_question(desk, tiny_model: Path):
    desk.worker.use(UseModel(tiny_model, is_urgent=False))
    desk.ask("How?")
    assert desk.end_of().answer.model == "tiny-llama"


def test_the_context_is_what_the_model_was_trained_for_and_no_more_than_the_settings_allow(desk, tmp_path: Path):
    desk.worker.use(UseModel(write_tiny_model(tmp_path / "long.gguf", context=65536)))
    desk.model_state("loaded")
    assert desk.loader.loaded_now.speaker.context_tokens == 8192


def test_cells_shared_with_the_last_prompt_are_not_read_again(desk, tiny_model: Path):
    desk.worker.use(UseModel(tiny_model))
    desk.ask("Same question?", "a", max_tokens=1)
    desk.end_of("a")
    desk.ask("Same question?", "b", max_tokens=1)
    end = desk.end_of("b")
    assert end.timings.prompt_tokens - 20 < end.timings.cached_tokens < end.timings.prompt_tokens
    assert end.answer.text == written(desk, "a")


def test_a_model_whose_name_is_not_utf_8_is_loaded(desk, tmp_path: Path):
    desk.worker.use(UseModel(write_tiny_model(tmp_path / os.fsdecode(b"mod\xe8le.gguf"))))
    desk.ask("How?")
    assert desk.end_of().answer.model == "tiny-llama"


@pytest.mark.expects_warnings
def test_an_unexpected_failure_of_a_load_frees_everything_and_questions_still_end(desk, tiny_model, monkeypatch):
    freed = []
    close_model, close_context = building.Model.close, building.Context.close
    monkeypatch.setattr(building.Model, "close", lambda self: (freed.append("model"), close_model(self)))
    monkeypatch.setattr(building.Context, "close", lambda self: (freed.append("context"), close_context(self)))
    monkeypatch.setattr(building, "StepLoop", _broken_loop)
    desk.worker.use(UseModel(tiny_model))
    assert "no loop" in desk.model_state("failed").sentence
    assert freed == ["context", "model"]
    assert desk.ledger.spans("ram") == ()
    desk.ask("How?")
    assert isinstance(desk.end_of(), AnswerFailed)


def test_a_split_model_is_loaded_by_any_of_its_parts(desk, tmp_path: Path):
    _, second = write_split_model(tmp_path)
    desk.worker.use(UseModel(second))
    desk.model_state("loaded")
    desk.ask("How?", max_tokens=2)
    assert isinstance(desk.end_of(), AnswerFinished)


@pytest.mark.expects_warnings
def test_taking_away_a_model_that_failed_clears_its_state(desk, tmp_path: Path):
    desk.worker.use(UseModel(tmp_path / "missing.gguf"))
    desk.model_state("failed")
    desk.worker.use(UseModel(None))
    desk.model_state("none")


def test_a_load_that_still_waits_when_the_worker_stops_is_not_begun(tmp_path: Path, tiny_model: Path):
    events: list[Event] = []
    ledger = Ledger()
    model_loader = loader_in(tmp_path, events.append, ledger)
    worker = GenerationWorker(model_loader, lambda ids: ids, lambda quotes: ("", ()), events.append)
    worker.use(UseModel(tiny_model))
    worker.stop()
    worker.start()
    worker.stop()
    assert not any(isinstance(event, ModelStateChanged) for event in events)
    assert ledger.spans() == ()


def _broken_loop(*_: object, **__: object) -> None:
    raise RuntimeError("no loop")


def test_a_follow_up_reads_what_is_new_and_names_what_stands_above(desk, tiny_model: Path):
    desk.worker.use(UseModel(tiny_model))
    desk.ask("First?", "a", evidence=Evidence(PASSAGES[:2], (), Scope(2, 8, 2)))
    first = desk.end_of("a")
    found = Evidence((PASSAGES[1], PASSAGES[2]), (), Scope(2, 8, 2))
    desk.ask("Second?", "b", transcript=first.answer.segments, evidence=found)
    second = desk.end_of("b")
    asked = second.answer.segments[0]
    assert [passage["document_id"] for passage in asked["passages"]] == [3]
    assert (asked["first_number"], asked["also"]) == (3, [2])
    assert second.answer.scope.passages_used == 2
    assert second.timings.cached_tokens >= first.timings.prompt_tokens


def test_what_stands_above_in_one_joined_passage_has_been_read(desk, tiny_model: Path):
    desk.worker.use(UseModel(tiny_model))
    joined = replace(PASSAGES[0], text="One two three. Four five six. Seven eight nine.")
    desk.ask("First?", "a", evidence=Evidence((joined,), (), Scope(1, 8, 1)))
    parts = (replace(joined, text="One two three."), replace(joined, text="Seven eight nine."), PASSAGES[1])
    transcript = desk.end_of("a").answer.segments
    desk.ask("Second?", "b", transcript=transcript, evidence=Evidence(parts, (), Scope(3, 8, 2)))
    assert desk.end_of("b").answer.scope == Scope(3, 8, 2)


def test_passages_without_room_are_told_of_and_their_files_do_not_count(desk, tmp_path: Path):
    desk.worker.use(UseModel(write_tiny_model(tmp_path / "small.gguf", context=256)))
    # Of it the beginning is read.
    long = replace(PASSAGES[1], text=PASSAGES[1].text * 40)
    desk.ask("How?", evidence=Evidence((PASSAGES[0], long, PASSAGES[2]), (), Scope(3, 8, 3)), max_tokens=4)
    answer = desk.end_of().answer
    assert answer.passages == (PASSAGES[0], long, PASSAGES[2])
    assert answer.scope == Scope(2, 8, 2, unread=(2,))


def test_a_document_whose_only_passage_is_cut_was_not_read_through(desk, tmp_path: Path):
    desk.worker.use(UseModel(write_tiny_model(tmp_path / "small.gguf", context=256)))
    read_through = Scope(1, 1, 1, reads_through=True)
    long = replace(PASSAGES[1], text=PASSAGES[1].text * 40)
    desk.ask("Why?", "a", evidence=Evidence(PASSAGES[:1], (), read_through), max_tokens=4)
    desk.ask("Why?", "b", evidence=Evidence((long,), (), read_through), max_tokens=4)
    assert [desk.end_of(id_).answer.scope.reads_through for id_ in ("a", "b")] == [True, False]


def test_a_document_that_has_no_room_to_be_read_through_is_read_here_and_there(desk, tmp_path: Path):
    desk.worker.use(UseModel(write_tiny_model(tmp_path / "small.gguf", context=256)))
    pages = tuple(replace(PASSAGES[0], row_id=f"r{n}", ordinal=n, page=n + 1) for n in range(12))
    desk.ask("Why?", evidence=Evidence(pages, (), Scope(12, 12, 1, reads_through=True)), max_tokens=4)
    scope = desk.end_of().answer.scope
    assert 1 < scope.passages_used == 12 - len(scope.unread)
    assert scope.passages_found == 12
    # Not its end alone.
    assert scope.unread != tuple(range(scope.passages_used, 12))


def test_what_a_follow_up_cites_of_an_earlier_turn_is_among_its_passages(desk, tiny_model: Path):
    desk.worker.use(UseModel(tiny_model))
    desk.ask("First?", "a", evidence=Evidence(PASSAGES[:2], (), Scope(2, 8, 2)))
    first = desk.end_of("a")
    found = Evidence((PASSAGES[2],), (), Scope(1, 8, 1))
    # The third passage was found for it, and the fourth never was.
    cites = 'root ::= "As [1] says, [3], [4] and [2, 1]."'
    desk.ask("Second?", "b", transcript=first.answer.segments, evidence=found, grammar=cites, max_tokens=60)
    answer = desk.end_of("b").answer
    assert answer.text == written(desk, "b") == "As [2] says, [1], [4] and [3, 2]."
    assert answer.passages == (PASSAGES[2], PASSAGES[0], PASSAGES[1])
    assert [citation.passage for citation in answer.citations] == [1, 0, 2, 1]
    assert (answer.scope.passages_found, answer.scope.passages_used) == (8, 1)
    told = [event for event in desk.events if isinstance(event, PassagesRecalled)]
    assert [event.passages for event in told] == [(PASSAGES[0],), (PASSAGES[1],)]
    # As the model wrote it.
    assert answer.segments[1]["text"] == "As [1] says, [3], [4] and [2, 1]."


def test_the_model_alone_answers_and_may_cite_what_earlier_turns_found(desk, tiny_model: Path):
    desk.worker.use(UseModel(tiny_model))
    desk.ask("First?", "a", evidence=Evidence(PASSAGES[:2], (), Scope(2, 8, 2)))
    first = desk.end_of("a")
    cites = 'root ::= "As [2] says."'
    desk.ask_alone("Say it politely.", "b", first.answer.segments, grammar=cites, max_tokens=60)
    answer = desk.end_of("b").answer
    assert (answer.text, answer.passages) == ("As [1] says.", (PASSAGES[1],))
    assert (answer.scope, answer.quotes) == (Scope(0, 0, 0), ())
    assert [event.question_id for event in desk.events if isinstance(event, PassagesFound)] == []
    # The next question's passages are numbered as if it had not been there.
    third = Evidence(PASSAGES[2:], (), Scope(1, 8, 1))
    desk.ask("Second?", "c", (*first.answer.segments, *answer.segments), third, grammar='root ::= "Yes [3]."')
    assert desk.end_of("c").answer.text == "Yes [1]."


def test_without_a_model_nobody_answers_without_files_and_there_is_a_way_out(desk):
    desk.ask_alone("Translate this.")
    end = desk.end_of()
    assert isinstance(end, AnswerFailed)
    assert "quotes from your files" in end.error.sentence
    assert end.error.way_out.startswith("Choose a model")
    assert written(desk) == ""


def test_a_question_that_comes_once_the_worker_has_ended_is_cancelled(desk):
    desk.worker.stop()
    desk.ask_alone("Too late?")
    assert desk.end_of() == AnswerCancelled("q")


@pytest.mark.parametrize("form", [{"json_schema": "{}"}, {"grammar": 'root ::= "yes"'}])
def test_without_a_model_a_form_is_not_passed_over(desk, form: dict[str, str]):
    desk.worker.use(UseModel(None))
    desk.ask("How?", **form)
    end = desk.end_of()
    assert isinstance(end, AnswerFailed)
    assert end.error.sentence == "Without a model no answer follows a grammar or a JSON schema."


SCHEMA = '{"type": "array", "items": {"const": 3}, "minItems": 1, "maxItems": 1}'


NESTED = 'root ::= " "? list\nlist ::= "[\\"a\\", [3]]"'


@pytest.mark.parametrize(("form", "value"), [({"json_schema": SCHEMA}, [3]), ({"grammar": NESTED}, ["a", [3]])])
def test_json_that_was_asked_for_keeps_its_lists_in_a_follow_up(
    desk, tiny_model: Path, form: dict[str, str], value: object
):
    desk.worker.use(UseModel(tiny_model))
    desk.ask("First?", "a", max_tokens=4)
    transcript = desk.end_of("a").answer.segments
    others = tuple(replace(passage, document_id=9, text=f"Another {passage.text}") for passage in PASSAGES)
    desk.ask("Second?", "b", transcript, Evidence(others, (), Scope(3, 8, 3)), **form)
    assert json.loads(desk.end_of("b").answer.text) == json.loads(written(desk, "b")) == value


def test_lists_in_json_that_was_asked_for_cite_nothing(desk, tiny_model: Path):
    desk.worker.use(UseModel(tiny_model))
    for name, form in (("a", {"json_schema": SCHEMA}), ("b", {"grammar": 'root ::= "{\\"n\\":[3]}"'})):
        desk.ask("How?", name, **form)
        # As for all that cites nothing: the passage that the reader quotes.
        assert [citation.passage for citation in desk.end_of(name).answer.citations] == [0]


def test_quotes_in_a_chat_have_numbers_of_their_own(desk, tiny_model: Path):
    desk.worker.use(UseModel(tiny_model))
    desk.ask("First?", "a", max_tokens=4)
    transcript = desk.end_of("a").answer.segments
    desk.worker.use(UseModel(None))
    desk.ask("Second?", "b", transcript)
    quotes = desk.end_of("b")
    assert quotes.answer.text == "“Threads share state” [1]"
    assert quotes.answer.segments[0]["first_number"] == 4
    assert quotes.answer.segments[1]["text"] == "“Threads share state” [4]"
