"""Tests for engine.generation.worker: many questions at once, what is kept between them, and what goes wrong."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from engine.core import Question, SamplingParams
from engine.errors import GenerationError
from engine.events import (
    AnswerCancelled,
    AnswerFailed,
    AnswerFinished,
    AnswerStateChanged,
    ModelStateChanged,
    TokensGenerated,
)
from engine.generation import idle_time, worker
from engine.generation.commands import UseModel
from engine.generation.context import Context
from engine.generation.ending import Ending
from engine.generation.evidence import EvidencePassage
from engine.generation.load_planner import LoadPlanner
from engine.generation.refreshes import Refreshes
from engine.generation.segment import tokens_of
from engine.generation.step_loop import StepLoop
from engine.generation.under_way import UnderWay
from engine.inflight import QuestionInFlight
from engine.models.gguf import read_shape
from tests.engine.generation.conftest import ENDS, EVIDENCE, Desk
from tests.helpers.tiny_gguf import write_tiny_mamba, write_tiny_model

LONG = 'root ::= "a" root'


@pytest.fixture
def model_desk(desk: Desk, tiny_model: Path) -> Desk:
    desk.worker.use(UseModel(tiny_model))
    desk.model_state("loaded")
    return desk


@pytest.fixture
def next_start(tmp_path: Path) -> Iterator[Desk]:
    """Another desk over the same folder, when the first has stopped."""
    desks: list[Desk] = []

    def start() -> Desk:
        desks.append(Desk(tmp_path))
        return desks[0]

    yield start
    desks[0].worker.stop()


def told(desk: Desk, *kinds: type) -> list[str]:
    return [event.question_id for event in desk.events if isinstance(event, kinds)]


def test_answers_are_written_side_by_side(model_desk, at_once):
    with at_once():
        for name in ("a", "b", "c"):
            model_desk.ask(f"How, {name}?", name, max_tokens=60, grammar=LONG)
    ends = [model_desk.end_of(name) for name in ("a", "b", "c")]
    assert all(isinstance(end, AnswerFinished) and len(end.answer.text) == 60 for end in ends)
    names = told(model_desk, TokensGenerated)
    assert set(names[: names.index("c") + 4]) == {"a", "b", "c"}
    assert {"a", "b"} & set(names[names.index("c") :])


def test_every_question_of_a_crowd_ends_once_and_as_it_would_alone(model_desk):
    alone = {}
    for name in ("one", "two"):
        model_desk.ask(name, f"alone-{name}", max_tokens=12)
        alone[name] = model_desk.end_of(f"alone-{name}").answer.text
    for number in range(12):
        model_desk.ask(("one", "two")[number % 2], f"q{number}", max_tokens=12)
    texts = [model_desk.end_of(f"q{number}").answer.text for number in range(12)]
    assert texts == [alone["one"], alone["two"]] * 6
    ended = told(model_desk, *ENDS)
    assert len(ended) == len(set(ended)) == 14


def test_several_answers_to_a_question(model_desk):
    model_desk.ask("How?", num_answers=3, temperature=1.0, max_tokens=12)
    end = model_desk.end_of()
    texts = (end.answer.text, *(other.text for other in end.answer.alternatives))
    assert len(texts) == 3
    assert len(set(texts)) > 1
    pieces = [event.text for event in model_desk.events if isinstance(event, TokensGenerated)]
    assert "".join(pieces) == end.answer.text


def test_a_conversation_goes_on_from_any_of_several_answers(model_desk):
    model_desk.ask("First?", "a", num_answers=2, temperature=1.0, max_tokens=24)
    first = model_desk.end_of("a")
    (other,) = first.answer.alternatives
    assert other.segments[0] == first.answer.segments[0]
    assert other.segments[1]["tokens"] != first.answer.segments[1]["tokens"]
    model_desk.ask("Second?", "b", transcript=other.segments, max_tokens=4)
    second = model_desk.end_of("b")
    assert isinstance(second, AnswerFinished)
    assert second.timings.cached_tokens >= first.timings.prompt_tokens


def test_a_change_of_the_model_waits_for_the_answers_that_people_see(model_desk):
    def choose_quotes() -> None:
        model_desk.worker.use(UseModel(None))
        model_desk.ask("How?", "b")

    model_desk.at_text_of("a", choose_quotes)
    model_desk.ask("How?", "a", max_tokens=400, grammar=LONG)
    assert model_desk.end_of("a").answer.model == "tiny-llama"
    assert model_desk.end_of("b").answer.model is None
    assert AnswerStateChanged("b", "queued", 0) in model_desk.events


def test_a_question_that_waits_behind_a_change_of_the_model_can_be_cancelled(model_desk):
    running = model_desk.ask("How?", "a", max_tokens=100_000, grammar=LONG)
    model_desk.wait_for(lambda event: isinstance(event, TokensGenerated))
    model_desk.worker.use(UseModel(None))
    model_desk.ask("How?", "b").cancelled.set()
    assert isinstance(model_desk.end_of("b"), AnswerCancelled)
    running.cancelled.set()
    assert isinstance(model_desk.end_of("a"), AnswerCancelled)


def test_a_next_turn_reads_only_what_is_new(model_desk):
    model_desk.ask("First?", "a", max_tokens=40, grammar='root ::= "A mutex is what they share [1]."')
    first = model_desk.end_of("a")
    model_desk.ask("Second?", "b", transcript=first.answer.segments, max_tokens=4)
    second = model_desk.end_of("b")
    written = len(first.answer.segments[1]["tokens"])
    assert second.timings.cached_tokens == first.timings.prompt_tokens + written
    assert second.timings.prompt_tokens > second.timings.cached_tokens


@pytest.mark.usefixtures("all_is_written")
@pytest.mark.parametrize("architecture", ["llama", "qwen2"])
def test_an_edited_question_and_a_regenerated_answer_read_only_what_differs(
    desk: Desk, next_start, architecture: str, tmp_path: Path
):
    model = write_tiny_model(tmp_path / f"{architecture}.gguf", architecture=architecture)
    desk.worker.use(UseModel(model))
    desk.model_state("loaded")
    desk.ask("First?", "first", max_tokens=40, grammar='root ::= "A mutex is what they share [1]."')
    first = desk.end_of("first")
    so_far = first.timings.prompt_tokens + len(first.answer.segments[1]["tokens"])

    desk.ask("Second?", "second", transcript=first.answer.segments, max_tokens=4)
    second = desk.end_of("second")
    desk.ask("Otherwise?", "edited", transcript=first.answer.segments, max_tokens=4)
    edited = desk.end_of("edited")
    desk.ask("Second?", "regenerated", transcript=first.answer.segments, max_tokens=4)
    regenerated = desk.end_of("regenerated")

    # The branch begins where the conversation was left; of a question that was read before, its last token is computed.
    assert edited.timings.cached_tokens >= so_far
    assert regenerated.timings.prompt_tokens == second.timings.prompt_tokens
    assert regenerated.timings.cached_tokens == second.timings.prompt_tokens - 1

    desk.worker.stop()
    again = next_start()
    again.worker.use(UseModel(model))
    again.model_state("loaded")
    again.all_kept_is_known()
    again.ask("Otherwise?", "edited", transcript=first.answer.segments, max_tokens=4)
    after_restart = again.end_of("edited")
    assert after_restart.timings.cached_tokens >= so_far
    assert after_restart.answer.text == edited.answer.text


@pytest.mark.usefixtures("all_is_written")
def test_what_was_read_is_found_again_after_a_restart(model_desk, next_start, tiny_model):
    model_desk.ask("How?", max_tokens=2)
    before = model_desk.end_of()
    model_desk.worker.stop()
    again = next_start()
    again.worker.use(UseModel(tiny_model))
    again.model_state("loaded")
    again.all_kept_is_known()
    again.ask("How?", max_tokens=2)
    after = again.end_of()
    assert after.timings.cached_tokens > after.timings.prompt_tokens - 20
    assert after.answer.text == before.answer.text


def test_nothing_is_kept_of_a_document_that_was_removed(model_desk, tmp_path: Path):
    model_desk.ask("How?", "a", max_tokens=2)
    model_desk.end_of("a")
    model_desk.known = {1}
    model_desk.worker.forget_removed()
    model_desk.ask("How?", "b", max_tokens=2)
    model_desk.end_of("b")
    # As if they had been added again.
    model_desk.known = None
    model_desk.ask("How?", "c", max_tokens=2)
    end = model_desk.end_of("c")
    assert 0 < end.timings.cached_tokens < end.timings.prompt_tokens - 100
    model_desk.known = set()
    model_desk.worker.forget_removed()
    model_desk.worker.stop()
    assert model_desk.loader.loaded_now is None
    assert all(b"share state" not in file.read_bytes() for file in (tmp_path / "kv").rglob("*.kv"))


def test_files_of_removed_documents_go_without_a_model_too(model_desk, next_start, tmp_path: Path):
    model_desk.ask("How?", max_tokens=2)
    model_desk.end_of()
    model_desk.worker.stop()
    files = set((tmp_path / "kv").rglob("*.kv"))
    again = next_start()
    again.known = {1}
    again.worker.forget_removed()
    again.ask("How?")
    again.end_of()
    # They are checked, and deleted, in the background.
    again.wait_until(lambda: 0 < len(set((tmp_path / "kv").rglob("*.kv"))) < len(files))


def test_passages_are_read_in_the_order_that_is_kept_and_cited_as_people_know_them(desk, tiny_model):
    desk.reorder_loss = 1.0
    desk.worker.use(UseModel(tiny_model))
    turned = EVIDENCE.passages[::-1]
    desk.ask("How?", "a", evidence=EVIDENCE.__class__(turned, (), EVIDENCE.scope), max_tokens=1)
    desk.end_of("a")
    desk.ask("Why?", "b", grammar='root ::= "A mutex [1], not [2]."')
    end = desk.end_of("b")
    assert end.timings.cached_tokens > end.timings.prompt_tokens / 2
    assert end.answer.text == "A mutex [3], not [2]."
    assert [citation.passage for citation in end.answer.citations] == [2, 1]
    assert end.answer.passages == EVIDENCE.passages
    assert [read["document_id"] for read in end.answer.segments[0]["passages"]] == [3, 2, 1]
    assert end.answer.segments[1]["text"] == "A mutex [1], not [2]."


def test_a_model_that_cannot_share_prefixes_answers_all_the_same(desk, tmp_path: Path):
    desk.worker.use(UseModel(write_tiny_mamba(tmp_path / "mamba.gguf")))
    for name in ("a", "b"):
        desk.ask("How?", name, max_tokens=6)
        end = desk.end_of(name)
        assert isinstance(end, AnswerFinished)
        assert end.timings.cached_tokens == 0


def test_keys_and_values_of_eight_bits_are_used_where_a_models_heads_allow_it(desk, tiny_model, tmp_path: Path):
    chosen = desk.settings.generation.model_copy(update={"kv_type": "q8_0"})
    desk.settings = desk.settings.model_copy(update={"generation": chosen})
    wide = write_tiny_model(tmp_path / "wide.gguf", heads=2, kv_heads=1)
    for model, share in ((wide, 34 / 64), (tiny_model, 1)):
        desk.worker.use(UseModel(model))
        desk.ask("How?", max_tokens=4)
        assert isinstance(desk.end_of(), AnswerFinished)
        cells = [span.num_bytes for span in desk.ledger.spans("ram") if span.what.endswith(" cells")]
        assert cells == [read_shape(model).kv_bytes(4 * 2048) * share]


@pytest.mark.expects_warnings
def test_questions_of_a_loop_that_breaks_fail_with_a_sentence_and_the_next_is_answered(model_desk, monkeypatch):
    step = StepLoop.step
    model_desk.ask("How?", "a", max_tokens=100_000, grammar=LONG)
    model_desk.ask("How?", "b", max_tokens=100_000, grammar=LONG)
    model_desk.wait_for(lambda event: isinstance(event, TokensGenerated) and event.question_id == "b")
    monkeypatch.setattr(StepLoop, "step", lambda self: 1 / 0)
    ends = [model_desk.end_of(name) for name in ("a", "b")]
    monkeypatch.setattr(StepLoop, "step", step)
    assert all(isinstance(end, AnswerFailed) and isinstance(end.error, GenerationError) for end in ends)
    assert "division by zero" in str(ends[0].error)
    model_desk.ask("How?", "c", max_tokens=4)
    assert isinstance(model_desk.end_of("c"), AnswerFinished)
    assert sum(isinstance(event, ModelStateChanged) and event.state == "loaded" for event in model_desk.events) == 2


@pytest.mark.expects_warnings
def test_a_loop_that_cannot_even_be_closed_has_others_answered_all_the_same(model_desk, monkeypatch):
    cancel = Ending.cancel
    with monkeypatch.context() as broken:
        broken.setattr(StepLoop, "step", lambda self: 1 / 0)
        broken.setattr(Ending, "cancel", lambda self, group: (cancel(self, group), [][0]))
        for question_id in ("first", "second"):
            model_desk.ask("How?", question_id, max_tokens=100)
        assert all(isinstance(model_desk.end_of(name), AnswerFailed) for name in ("first", "second"))
        model_desk.wait_until(lambda: model_desk.loader.loaded_now is None)
    model_desk.ask("How?", "next", max_tokens=2)
    assert isinstance(model_desk.end_of("next"), AnswerFinished)


def test_a_grammar_that_is_none_fails_its_own_question_alone(model_desk, at_once):
    with at_once():
        model_desk.ask("How?", "a", max_tokens=30, grammar=LONG)
        model_desk.ask("How?", "b", grammar="no grammar (")
    assert isinstance(model_desk.end_of("b"), AnswerFailed)
    assert isinstance(model_desk.end_of("a"), AnswerFinished)


def test_the_figures_of_cells_and_of_what_is_kept_are_there_for_others(model_desk):
    model_desk.ask("How?", "a", max_tokens=2)
    model_desk.end_of("a")
    model_desk.ask("How?", "b", max_tokens=2)
    model_desk.end_of("b")
    model_desk.worker.stop()
    assert model_desk.worker.counters["kv_cells_used"] + model_desk.worker.counters["kv_cells_free"] == 4 * 2048
    assert model_desk.worker.counters["kv_found_in_cells_ratio"] > 0.4


def test_questions_that_wait_when_the_worker_stops_are_cancelled(tmp_path: Path):
    desk = Desk(tmp_path)
    questions = [desk.ask("How?", name) for name in ("a", "b")]
    for in_flight in questions:
        in_flight.cancelled.set()
    desk.worker.stop()
    assert sorted(told(desk, AnswerFinished, AnswerCancelled)) == ["a", "b"]


def test_a_question_of_a_script_waits_for_one_of_a_person(desk, tiny_model, at_once):
    chosen = desk.settings.generation.model_copy(update={"parallel_answers": 1})
    desk.settings = desk.settings.model_copy(update={"generation": chosen})
    desk.worker.use(UseModel(tiny_model))
    desk.model_state("loaded")
    desk.at_text_of("batch0", lambda: desk.ask("How?", "person", max_tokens=4))
    with at_once():
        for number in range(6):
            sampling = SamplingParams(max_tokens=300, temperature=0.0, grammar=LONG)
            question = Question(f"batch{number}", f"Question {number}?", sampling=sampling, priority="batch")
            desk.worker.submit(QuestionInFlight(question), EVIDENCE)
    for _ in range(6):
        desk.end_of_any()
    assert "person" in told(desk, *ENDS)[:3]


@pytest.fixture
def ahead_desk(desk: Desk, tiny_model: Path) -> Desk:
    """One that reads ahead although the model runs on the processor."""
    chosen = desk.settings.generation.model_copy(update={"read_ahead": True})
    desk.settings = desk.settings.model_copy(update={"generation": chosen})
    desk.worker.use(UseModel(tiny_model))
    desk.model_state("loaded")
    return desk


def expected(
    desk: Desk, passages, question_id: str = "q", model: str = "", left_seconds: float = 0.0
) -> QuestionInFlight:
    sampling = SamplingParams(max_tokens=8, temperature=0.0)
    in_flight = QuestionInFlight(Question(question_id, "How?", sampling=sampling, model=model))
    desk.worker.expect(in_flight, passages, left_seconds)
    return in_flight


@pytest.mark.parametrize("is_named", [False, True])
def test_a_prompt_is_read_while_the_search_goes_on(ahead_desk, tiny_model: Path, is_named: bool):
    # Every chat of the window names its model, also where it is the chosen one.
    in_flight = expected(ahead_desk, EVIDENCE.passages, model=str(tiny_model) if is_named else "")
    ahead_desk.ask("Other?", "other", max_tokens=30, grammar=LONG)
    ahead_desk.end_of("other")
    read = ahead_desk.loader.loaded_now.loop.counters().prompt_tokens
    ahead_desk.worker.submit(in_flight, EVIDENCE)
    end = ahead_desk.end_of()
    assert isinstance(end, AnswerFinished)
    assert end.timings.cached_tokens == 0
    computed = ahead_desk.loader.loaded_now.loop.counters()
    assert computed.prompt_tokens - computed.cached_tokens < read + 10


def test_a_question_that_comes_while_its_prompt_is_being_read_goes_on_with_it(ahead_desk, at_once):
    # Of so short a prompt all may have been read otherwise.
    with at_once():
        in_flight = expected(ahead_desk, EVIDENCE.passages)
        ahead_desk.worker.submit(in_flight, EVIDENCE)
    end = ahead_desk.end_of()
    ahead_desk.ask("How?", "again", max_tokens=8)
    assert end.answer.text == ahead_desk.end_of("again").answer.text
    counters = ahead_desk.loader.loaded_now.loop.counters()
    # All of the prompt was read once, and that was the question's own: nothing of it was there when it came.
    assert end.timings.cached_tokens == 0
    assert counters.prompt_tokens - counters.cached_tokens == end.timings.prompt_tokens + 1


def test_a_guess_that_was_held_back_while_the_model_was_loaded_is_not_begun_for_an_answer(
    desk, tiny_model, monkeypatch
):
    monkeypatch.setattr(worker, "CANCELLED_SECONDS", 0.0)
    chosen = desk.settings.generation.model_copy(update={"read_ahead": True})
    desk.settings = desk.settings.model_copy(update={"generation": chosen})
    look, asked = desk.loader.while_loading, list[QuestionInFlight]()

    def ask_meanwhile() -> None:
        if not asked:
            asked.append(expected(desk, EVIDENCE.passages))
            desk.worker.submit(asked[0], EVIDENCE)
        look()

    desk.loader.while_loading = ask_meanwhile
    desk.worker.use(UseModel(tiny_model))
    end = desk.end_of()
    assert isinstance(end, AnswerFinished), end
    desk.ask("Other?", "other", max_tokens=2)
    assert isinstance(desk.end_of("other"), AnswerFinished)


def test_a_guess_that_comes_again_is_not_begun_again(ahead_desk, monkeypatch):
    loop, submitted = ahead_desk.loader.loaded_now.loop, []
    submit = loop.submit
    monkeypatch.setattr(loop, "submit", lambda request: (submitted.append(request.request_id), submit(request)))
    in_flight = expected(ahead_desk, EVIDENCE.passages)
    ahead_desk.worker.expect(in_flight, EVIDENCE.passages)
    ahead_desk.worker.submit(in_flight, EVIDENCE)
    assert isinstance(ahead_desk.end_of(), AnswerFinished)
    # The question became what was being read for it, or came when that had been read.
    assert submitted in (["q\x001\0ahead"], ["q\x001\0ahead", "q"])


def test_the_prompt_of_a_guess_that_was_replaced_is_read_once_as_well(ahead_desk, monkeypatch):
    loop, submitted = ahead_desk.loader.loaded_now.loop, []
    submit = loop.submit
    monkeypatch.setattr(loop, "submit", lambda request: (submitted.append(request.request_id), submit(request)))
    in_flight = expected(ahead_desk, EVIDENCE.passages[:1])
    ahead_desk.worker.expect(in_flight, EVIDENCE.passages)
    ahead_desk.worker.submit(in_flight, EVIDENCE)
    end = ahead_desk.end_of()
    assert isinstance(end, AnswerFinished)
    # Where the first was still being read, it went on with what the second has more, and so did the question.
    ahead = [request_id for request_id in submitted if request_id != "q"]
    assert ahead in (["q\x001\0ahead"], ["q\x001\0ahead", "q\x002\0ahead"])
    counters = loop.counters()
    num_read = counters.prompt_tokens - counters.cached_tokens
    assert num_read <= end.timings.prompt_tokens + submitted.count("q") + (len(ahead) - 1)


def test_what_was_removed_since_it_was_found_is_not_read_ahead(ahead_desk):
    ahead_desk.known = {1}
    ahead_desk.worker.forget_removed()
    expected(ahead_desk, EVIDENCE.passages)
    ahead_desk.ask("Other?", "other", evidence=replace(EVIDENCE, passages=EVIDENCE.passages[:1]), max_tokens=2)
    assert isinstance(ahead_desk.end_of("other"), AnswerFinished)
    assert ahead_desk.loader.loaded_now.documents() <= {1}


def test_what_was_removed_of_earlier_turns_since_a_guess_is_not_read_again(ahead_desk):
    ahead_desk.known = {1, 2, 3}
    ahead_desk.ask("Why?", "first", evidence=replace(EVIDENCE, passages=EVIDENCE.passages[:2]), max_tokens=2)
    transcript = ahead_desk.end_of("first").answer.segments
    later = replace(EVIDENCE, passages=EVIDENCE.passages[2:])
    sampling = SamplingParams(max_tokens=8, temperature=0.0)
    in_flight = QuestionInFlight(Question("q", "How?", transcript=transcript, sampling=sampling))
    ahead_desk.worker.expect(in_flight, later.passages)
    ahead_desk.ask("Other?", "other", evidence=later, max_tokens=2)
    ahead_desk.end_of("other")
    ahead_desk.known = {2, 3}
    ahead_desk.worker.forget_removed()
    ahead_desk.worker.submit(in_flight, later)
    assert isinstance(ahead_desk.end_of(), AnswerFinished)
    assert ahead_desk.loader.loaded_now.documents() <= {2, 3}


def test_a_wrong_guess_costs_the_question_nothing(ahead_desk):
    in_flight = expected(ahead_desk, EVIDENCE.passages[:1])
    ahead_desk.worker.submit(in_flight, EVIDENCE)
    end = ahead_desk.end_of()
    ahead_desk.ask("How?", "again", max_tokens=8)
    assert end.answer.text == ahead_desk.end_of("again").answer.text
    assert end.answer.scope.passages_used == 3


def test_a_question_cancelled_while_its_prompt_is_read_ahead_ends_once(ahead_desk):
    in_flight = expected(ahead_desk, EVIDENCE.passages)
    in_flight.cancelled.set()
    ahead_desk.worker.submit(in_flight, EVIDENCE)
    assert isinstance(ahead_desk.end_of(), AnswerCancelled)
    ahead_desk.ask("How?", "next", max_tokens=2)
    assert isinstance(ahead_desk.end_of("next"), AnswerFinished)
    assert told(ahead_desk, *ENDS) == ["q", "next"]


def test_a_guess_whose_question_never_comes_is_in_nobodys_way(ahead_desk, tiny_model):
    expected(ahead_desk, EVIDENCE.passages, "lost")
    ahead_desk.worker.use(UseModel(tiny_model))
    ahead_desk.ask("How?", max_tokens=2)
    assert isinstance(ahead_desk.end_of(), AnswerFinished)


@pytest.mark.parametrize(("left_seconds", "is_read"), [(0.0, False), (5.0, True)])
def test_on_the_processor_that_searches_only_what_a_long_search_has_found_is_read_ahead(
    model_desk, left_seconds: float, is_read: bool
):
    assert model_desk.worker.reads_ahead("", left_seconds) == is_read
    expected(model_desk, EVIDENCE.passages, left_seconds=left_seconds)
    model_desk.ask("Why?", "other", max_tokens=2)
    model_desk.end_of("other")
    counters = model_desk.loader.loaded_now.loop.counters()
    assert (counters.prompt_tokens > model_desk.events[-1].timings.prompt_tokens) == is_read


def test_what_answers_keep_resting_on_is_read_while_nobody_asks(model_desk, monkeypatch):
    monkeypatch.setattr(idle_time, "IDLE_SECONDS", 0.01)
    model_desk.has_power = True
    one, two, three = EVIDENCE.passages
    for number, passages in enumerate(((one, two, three), (one, three, two))):
        evidence = replace(EVIDENCE, passages=passages)
        model_desk.ask("How?", f"q{number}", evidence=evidence, max_tokens=1)
        model_desk.end_of(f"q{number}")
    loaded = model_desk.loader.loaded_now
    opening = model_desk.worker.models.members.home.under_way.hot._openings[loaded.speaker.fingerprint]
    wanted = [(opening, loaded.speaker.segment(EvidencePassage.of(each).block(1))) for each in (two, three)]
    model_desk.wait_until(lambda: all(loaded.peek(each) == len(tokens_of(each)) for each in wanted))
    model_desk.ask("How?", "two", evidence=replace(EVIDENCE, passages=(two,)), max_tokens=1)
    end = model_desk.end_of("two")
    assert end.timings.cached_tokens == len(tokens_of(wanted[0]))
    assert told(model_desk, *ENDS) == ["q0", "q1", "two"]


def test_nothing_is_read_unasked_on_a_machine_without_power_to_spare(model_desk, monkeypatch):
    monkeypatch.setattr(idle_time, "IDLE_SECONDS", 0.01)
    for number in range(2):
        model_desk.ask("How?", f"q{number}", max_tokens=1)
        model_desk.end_of(f"q{number}")
    model_desk.wait_until(lambda: model_desk.worker._idle_time.seconds == idle_time.SPARE_POWER_SECONDS)
    assert not model_desk.worker.models.members.home.under_way.is_busy


def test_looks_at_devices_put_nothing_off_that_waits_for_idle_time(model_desk, monkeypatch):
    monkeypatch.setattr(idle_time, "IDLE_SECONDS", 0.01)
    monkeypatch.setattr(idle_time, "SPARE_POWER_SECONDS", 0.2)
    num_asked = 0

    def has_power() -> bool:
        nonlocal num_asked
        num_asked += 1
        return False

    monkeypatch.setattr(model_desk.worker._idle_time, "_has_power_to_spare", has_power)
    for number in range(2):
        model_desk.ask("How?", f"q{number}", max_tokens=1)
        model_desk.end_of(f"q{number}")
    model_desk.wait_until(lambda: model_desk.worker.look_at_devices() or num_asked >= 3)


def test_what_a_running_answer_reads_of_a_removed_document_is_not_kept_either(model_desk):
    model_desk.ask("How?", "a", max_tokens=40, grammar=LONG)
    model_desk.wait_for(lambda event: isinstance(event, TokensGenerated))
    model_desk.known = {1}
    model_desk.worker.forget_removed()
    assert isinstance(model_desk.end_of("a"), AnswerFinished)
    # Found before, and handed over after the removal.
    model_desk.ask("Why?", "b", max_tokens=2)
    assert isinstance(model_desk.end_of("b"), AnswerFinished)
    model_desk.wait_until(lambda: model_desk.loader.loaded_now.documents() <= {1})


def test_what_was_removed_since_it_was_found_is_not_counted_as_hot(model_desk):
    model_desk.known = {1}
    model_desk.ask("How?", "a", max_tokens=2)
    assert isinstance(model_desk.end_of("a"), AnswerFinished)
    assert model_desk.worker.models.members.home.under_way.hot.documents() == {1}


def test_the_end_of_an_answer_is_kept_though_nobody_asks_on_and_so_nothing_comes_back(model_desk):
    model_desk.ask("How?", "a", max_tokens=2)
    assert isinstance(model_desk.end_of("a"), AnswerFinished)
    model_desk.wait_until(lambda: not model_desk.loader.loaded_now.loop.has_work)
    model_desk.known = set()
    model_desk.worker.forget_removed()
    model_desk.wait_until(lambda: not model_desk.loader.loaded_now.documents())
    model_desk.ask("Why?", "b", evidence=EVIDENCE.__class__((), (), EVIDENCE.scope), max_tokens=2)
    assert isinstance(model_desk.end_of("b"), AnswerFinished)
    assert not model_desk.loader.loaded_now.documents()


def test_a_question_that_fails_before_it_is_handed_over_leaves_nothing_running(model_desk, monkeypatch):
    def fail(*_):
        raise GenerationError("Broken.")

    with monkeypatch.context() as patched:
        patched.setattr(Refreshes, "begin", fail)
        model_desk.ask("How?", "a", max_tokens=100_000, grammar=LONG)
        assert isinstance(model_desk.end_of("a"), AnswerFailed)
    model_desk.ask("How?", "a", max_tokens=2)
    assert isinstance(model_desk.end_of("a"), AnswerFinished)


def test_who_waits_is_gone_through_only_as_the_queue_moves(model_desk, monkeypatch):
    looks: list[int] = []
    go_through = UnderWay.waiting
    monkeypatch.setattr(UnderWay, "waiting", lambda self: looks.append(1) or go_through(self))
    model_desk.ask("How?", "a", max_tokens=200, grammar=LONG)
    assert model_desk.end_of("a").timings.generated_tokens == 200
    model_desk.ask("How?", "b", max_tokens=2)
    assert isinstance(model_desk.end_of("b"), AnswerFinished)
    assert 2 <= len(looks) <= 20


@pytest.mark.expects_warnings
def test_a_cancel_that_goes_wrong_ends_its_question_and_the_next_is_answered(model_desk, monkeypatch):
    def fail(self, request_id):
        raise OSError("no memory")

    with monkeypatch.context() as patched:
        patched.setattr(StepLoop, "cancel", fail)
        in_flight = model_desk.ask("How?", "a", max_tokens=100_000, grammar=LONG)
        model_desk.wait_for(lambda event: isinstance(event, TokensGenerated))
        in_flight.cancelled.set()
        assert isinstance(model_desk.end_of("a"), AnswerFailed)
    model_desk.ask("How?", "b", max_tokens=2)
    assert isinstance(model_desk.end_of("b"), AnswerFinished)


def test_settings_of_other_things_leave_the_bounds_of_what_is_kept_alone(model_desk, monkeypatch):
    model_desk.ask("How?", "a", max_tokens=2)
    model_desk.end_of("a")
    slabs = model_desk.loader.loaded_now.keeper._slabs
    before = slabs.budget_bytes
    monkeypatch.setattr(LoadPlanner, "hardware", lambda self: pytest.fail("looked at what is free just now"))
    model_desk.loader.apply_settings()
    assert slabs.budget_bytes == before > 0


def test_more_answers_than_there_are_cells_for_are_written_all_the_same(desk, tmp_path: Path):
    chosen = desk.settings.generation.model_copy(update={"parallel_answers": 1})
    desk.settings = desk.settings.model_copy(update={"generation": chosen})
    desk.worker.use(UseModel(write_tiny_model(tmp_path / "small.gguf", context=1024)))
    desk.model_state("loaded")
    for number in range(3):
        desk.ask(f"How, {number}?", f"q{number}", max_tokens=250, grammar=LONG)
    # One that was preempted ends after those that came later.
    ends = [desk.end_of_any() for _ in range(3)]
    assert all(isinstance(end, AnswerFinished) and len(end.answer.text) == 250 for end in ends)
    desk.worker.use(UseModel(None))
    desk.model_state("none")
    assert desk.ledger.spans("ram") == ()


def test_of_questions_that_come_together_each_reads_what_the_one_before_has_not(desk: Desk, tiny_model: Path):
    # All have come when the model is there.
    desk.worker.use(UseModel(tiny_model))
    desk.reorder_loss = 1.0
    first, *others = EVIDENCE.passages
    orders = ([first, *others], [*others, first], [others[1], first])
    for number, passages in enumerate(orders):
        evidence = replace(EVIDENCE, passages=tuple(passages))
        cites = f'root ::= "See {"".join(f"[{place}]" for place in range(1, len(passages) + 1))}"'
        desk.ask(f"What of {number}?", f"q{number}", evidence=evidence, max_tokens=20, grammar=cites)
    by_id = {end.question_id: end for end in [desk.end_of_any() for _ in orders]}
    ends = [by_id[f"q{number}"] for number in range(3)]
    computed = [end.timings.prompt_tokens - end.timings.cached_tokens for end in ends]
    # Of the same three only the question; of two as well, or one of them where the first had begun before it came.
    assert computed[1] < computed[0] / 4
    assert computed[2] < computed[0] / 2
    # The user sees the numbers of the passages as they were found, in whichever order the model has read them.
    assert [end.answer.passages for end in ends] == [tuple(passages) for passages in orders]
    read = [[end.answer.passages[cited.passage] for cited in end.answer.citations] for end in ends]
    assert read[0] == read[1]
    assert read[2] == [passage for passage in read[0] if passage in orders[2]]
    assert {len(set(each)) for each in read[:2]} == {3}


def test_the_last_token_of_an_answer_is_no_pass_of_its_own_while_somebody_may_ask(model_desk, monkeypatch):
    # Where layers are streamed it would have the disk and the cores that the next search wants.
    monkeypatch.setattr(Context, "is_streamed", property(lambda self: True))
    monkeypatch.setattr(worker, "CLOSING_SECONDS", 600.0)
    loop = model_desk.loader.loaded_now.loop
    model_desk.ask("How?", max_tokens=4)
    assert isinstance(model_desk.end_of(), AnswerFinished)
    model_desk.wait_until(lambda: model_desk.worker.models.only_closes)
    num_steps = loop.num_steps
    assert loop.closing == {"q"}
    model_desk.ask("Why?", "next", max_tokens=4)
    assert isinstance(model_desk.end_of("next"), AnswerFinished)
    assert loop.num_steps > num_steps
    assert loop.closing == {"next"}


def test_the_last_token_of_an_answer_is_computed_when_nobody_asks(model_desk, monkeypatch):
    monkeypatch.setattr(Context, "is_streamed", property(lambda self: True))
    monkeypatch.setattr(worker, "CLOSING_SECONDS", 0.01)
    model_desk.ask("How?", max_tokens=4)
    assert isinstance(model_desk.end_of(), AnswerFinished)
    model_desk.wait_until(lambda: not model_desk.loader.loaded_now.loop.closing)
