"""Tests for engine.generation.refreshes: answers that go on from what is found while they are written."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from engine.core import Passage, Question, SamplingParams
from engine.errors import LibraryError
from engine.events import AnswerCancelled, AnswerFinished, EvidenceRefreshed, TokensGenerated
from engine.generation import refreshes as refreshes_module
from engine.generation.answer_text import AnswerText
from engine.generation.commands import UseModel
from engine.generation.refresh_policy import RefreshPolicy, is_sentence_end
from engine.generation.refreshes import EvidenceSource, Refreshes
from engine.generation.request import TextWritten
from engine.generation.transcript import turns_of_transcript
from engine.inflight import QuestionInFlight
from engine.looking_again import FoundAgain, LookAgain
from tests.engine.generation.conftest import ENDS, EVIDENCE, Desk
from tests.helpers.tiny_gguf import CHATML, token_of, write_tiny_mamba, write_tiny_model

FREE = RefreshPolicy(interval=8, max_cost_share=None)
LATER = tuple(
    Passage(f"n{n}", n, f"/lib/later{n}.md", 0, None, 0, 20, "", f"Later passage number {n} tells more.", 0.5)
    for n in (11, 12, 13, 14)
)


@dataclass
class Retrieval:
    """Stands for the retrieval thread: finds two new passages at each look, or what `answer` says."""

    policy: RefreshPolicy | None = FREE
    seconds: float = 0.001
    looks: list[LookAgain] = field(default_factory=list)
    answer: Callable[[LookAgain], FoundAgain | None] | None = None

    def source(self) -> EvidenceSource:
        return EvidenceSource(lambda: self.policy, self.look, lambda: 0.01)

    def look(self, look: LookAgain) -> None:
        self.looks.append(look)
        found = self.answer(look) if self.answer is not None else self.found(look)
        if found is not None:
            self.tell(found)

    def found(self, look: LookAgain) -> FoundAgain:
        known = {passage.row_id for passage in look.evidence}
        new = [passage for passage in LATER if passage.row_id not in known]
        return FoundAgain(look.question_id, look.number, tuple(new[: look.limit]), self.seconds)

    def tell(self, found: FoundAgain) -> None:
        self.desk.worker.found_again(found)

    desk: Desk = field(init=False)


@pytest.fixture(scope="module")
def biases() -> tuple[tuple[int, float], ...]:
    """Make the model write nothing but short words, each of which ends a sentence now and then, and citations."""
    likely = {"a": 61.5, "b": 61.5, ".": 61.5, " c": 60.0, "1": 60.0, "4": 61.0, "5": 60.0, "[": 61.5, "]": 61.5}
    return tuple((token_of(text), bias) for text, bias in likely.items())


@pytest.fixture
def retrieval() -> Retrieval:
    return Retrieval()


@pytest.fixture
def refreshed(tmp_path: Path, tiny_model: Path, retrieval: Retrieval, biases) -> Iterator[Desk]:
    desk = retrieval.desk = Desk(tmp_path, retrieval.source())
    desk.worker.use(UseModel(tiny_model))
    desk.model_state("loaded")
    yield desk
    desk.worker.stop()
    assert desk.ledger.spans() == ()


@pytest.fixture
def write(refreshed: Desk, biases) -> Callable[..., AnswerFinished]:
    def asked(question_id: str = "q", max_tokens: int = 120, **options) -> AnswerFinished:
        sampling = {"temperature": 1.0, "logit_bias": biases, "repeat_penalty": 1.0, **options}
        transcript = sampling.pop("transcript", ())
        refreshed.ask("How?", question_id, transcript, max_tokens=max_tokens, **sampling)
        return refreshed.end_of(question_id)

    return asked


def refreshes(desk: Desk) -> list[EvidenceRefreshed]:
    return [event for event in desk.events if isinstance(event, EvidenceRefreshed)]


def text_told(desk: Desk, question_id: str = "q") -> str:
    told = [event for event in desk.events if isinstance(event, TokensGenerated) and event.question_id == question_id]
    return "".join(event.text for event in told)


def test_a_long_answer_goes_on_from_what_is_found_while_it_is_written(refreshed, retrieval, write):
    end = write()
    told = refreshes(refreshed)
    assert end.answer.passages == (*EVIDENCE.passages, *LATER)
    assert [event.passages for event in told] == [LATER[:2], LATER[2:]]
    assert end.answer.refreshes == tuple(event.refresh for event in told)
    assert [(refresh.first_passage, refresh.num_passages) for refresh in end.answer.refreshes] == [(3, 2), (5, 2)]
    assert end.timings.refreshes == 2
    assert end.timings.generated_tokens == 120
    assert end.answer.scope.passages_used == 7
    assert end.answer.scope.files == 7


def test_nothing_is_looked_for_while_the_model_alone_answers(refreshed, retrieval, biases):
    refreshed.ask_alone("How?", max_tokens=120, temperature=1.0, logit_bias=biases, repeat_penalty=1.0)
    end = refreshed.end_of()
    assert end.timings.generated_tokens == 120
    assert (retrieval.looks, end.answer.refreshes, end.answer.passages) == ([], (), ())


def test_nothing_is_looked_for_while_an_answer_works_on_the_one_above(refreshed, retrieval, biases):
    above = replace(EVIDENCE, stands_above=True)
    refreshed.ask("Shorter", evidence=above, max_tokens=120, temperature=1.0, logit_bias=biases, repeat_penalty=1.0)
    end = refreshed.end_of()
    assert end.timings.generated_tokens == 120
    assert (retrieval.looks, end.answer.refreshes, end.answer.passages) == ([], (), EVIDENCE.passages)


def test_the_text_that_was_told_is_the_answer_and_breaks_at_sentence_ends(refreshed, write):
    end = write()
    assert text_told(refreshed) == end.answer.text
    assert "Later passage" not in end.answer.text
    for refresh in end.answer.refreshes:
        before, after = end.answer.text[: refresh.offset], end.answer.text[refresh.offset :]
        assert before.endswith(".")
        assert after[0] == " "


def test_nothing_is_put_into_a_marker_that_is_held_back_because_its_number_will_be_another(
    refreshed, retrieval, write, monkeypatch
):
    # What stands above has a number already, and new passages follow it: none has the number that the user knows.
    refreshed.ask("First?", "first", evidence=replace(EVIDENCE, passages=LATER[3:]), max_tokens=4)
    first = refreshed.end_of("first")
    feed = AnswerText.feed

    def find_before_a_marker(text: AnswerText, more: str) -> str:
        told = feed(text, more)
        if retrieval.looks and is_sentence_end(text.written[-1]):
            # It can be gone on from after the next token, which may begin a marker.
            retrieval.tell(retrieval.found(retrieval.looks[-1]))
        return told

    monkeypatch.setattr(AnswerText, "feed", find_before_a_marker)
    retrieval.answer = lambda look: None
    retrieval.policy = replace(FREE, passages=1)
    likely = {"a": 62.5, ".": 62.0, "[": 63.0}
    biases = tuple((token_of(text), bias) for text, bias in likely.items())
    end = write(max_tokens=300, transcript=first.answer.segments, logit_bias=biases)
    pieces = [segment["text"] for segment in end.answer.segments if segment["role"] == "assistant"]
    assert len(pieces) > 1
    assert all(is_sentence_end(piece) for piece in pieces[:-1])


def test_what_is_looked_for_is_the_end_of_the_text_and_not_what_is_known(refreshed, retrieval, write):
    end = write()
    first, second, *_ = retrieval.looks
    assert end.answer.text.startswith(first.window[:10])
    assert first.evidence == EVIDENCE.passages
    assert second.evidence == (*EVIDENCE.passages, *LATER[:2])
    assert first.limit == FREE.passages
    assert first.seconds > 0


def test_passages_can_be_cited_from_when_they_came(refreshed, write):
    end = write(max_tokens=400)
    places = [(citation.passage, citation.offset) for citation in end.answer.citations]
    first, second = end.answer.refreshes
    late = [offset for passage, offset in places if passage in (3, 4)]
    assert late
    assert min(late) >= first.offset
    assert all(end.answer.text.startswith(citation.marker, citation.offset) for citation in end.answer.citations)
    assert all(offset >= second.offset for passage, offset in places if passage > 4)


def test_the_next_question_reads_nothing_again(refreshed, write):
    first = write()
    assert first.timings.refreshes == 2
    read_and_written = sum(len(piece.get("tokens", ())) for piece in first.answer.segments)
    assert read_and_written == 120
    # The last token is read behind the end of its question.
    refreshed.wait_until(lambda: not refreshed.loader.loaded_now.loop.closing)
    second = write("next", max_tokens=4, transcript=first.answer.segments)
    assert second.timings.cached_tokens == first.timings.prompt_tokens + 120 + num_added(refreshed, first)


def num_added(desk: Desk, end: AnswerFinished) -> int:
    """How many tokens a model read behind the prompt of a question, as the next prompt holds them."""
    speaker = desk.loader.loaded_now.speaker
    [turn] = turns_of_transcript(end.answer.segments, range(100))
    segments = speaker.segments(speaker.render(turn.messages(is_own=True)))
    written = {turn.tokens, *(more.tokens for more in turn.continuations)}
    behind = next(place for place, segment in enumerate(segments) if segment.tokens == turn.tokens)
    # The last is what stands after the whole turn.
    return sum(len(segment.tokens) for segment in segments[behind:-1] if segment.tokens not in written)


@pytest.mark.usefixtures("all_is_written")
def test_a_restart_finds_it_too(refreshed, write, tmp_path: Path, tiny_model: Path):
    first = write()
    added = num_added(refreshed, first)
    refreshed.worker.stop()
    again = Desk(tmp_path)
    again.worker.use(UseModel(tiny_model))
    again.model_state("loaded")
    again.all_kept_is_known()
    again.ask("How?", "next", first.answer.segments, max_tokens=4)
    second = again.end_of("next")
    again.worker.stop()
    assert second.timings.cached_tokens == first.timings.prompt_tokens + 120 + added


@pytest.mark.parametrize("mode", ["once", "none", "synchronous"])
def test_the_mode_can_be_said(refreshed, retrieval, write, mode):
    retrieval.policy = replace(FREE, mode=mode)
    end = write()
    assert end.timings.refreshes == len(refreshes(refreshed)) == {"once": 1, "none": 0, "synchronous": 2}[mode]
    if mode == "synchronous":
        assert end.timings.refresh_hidden_s == 0


def test_without_a_policy_nothing_is_looked_for(retrieval, write):
    retrieval.policy = None
    assert write().timings.refreshes == 0
    assert not retrieval.looks


@pytest.mark.parametrize("form", [{"num_answers": 2}, {"grammar": "root ::= [a-c. ]+"}, {"beam_width": 2}])
def test_answers_of_a_given_form_or_several_are_not_refreshed(retrieval, write, form):
    assert isinstance(write(**form), AnswerFinished)
    assert not retrieval.looks


def test_a_model_that_cannot_share_prefixes_writes_on(refreshed, retrieval, write, tmp_path: Path):
    refreshed.worker.use(UseModel(write_tiny_mamba(tmp_path / "mamba.gguf")))
    assert isinstance(write(), AnswerFinished)
    assert not retrieval.looks


def test_a_template_that_leaves_out_earlier_turns_is_left_alone(refreshed, retrieval, write, tmp_path: Path):
    forgetful = "{% for m in messages[-1:] %}<|im_start|>{{ m.content }}<|im_end|>{% endfor %}<|im_start|>"
    refreshed.worker.use(UseModel(write_tiny_model(tmp_path / "forgetful.gguf", chat_template=forgetful)))
    assert isinstance(write(), AnswerFinished)
    assert not retrieval.looks


def test_an_answer_in_plain_text_goes_on_too(refreshed, retrieval, write, tmp_path: Path):
    refreshed.worker.use(UseModel(write_tiny_model(tmp_path / "plain.gguf", chat_template=None)))
    end = write()
    assert end.timings.refreshes >= 1
    second = write("next", max_tokens=4, transcript=end.answer.segments)
    assert second.timings.cached_tokens > end.timings.prompt_tokens + 120


def test_a_model_that_may_think_and_answers_at_once_is_refreshed_too(refreshed, retrieval, write, tmp_path: Path):
    may_think = CHATML + "{# </think> #}"
    refreshed.worker.use(UseModel(write_tiny_model(tmp_path / "may.gguf", chat_template=may_think)))
    end = write(max_thought_tokens=64)
    assert not end.answer.thoughts
    assert end.timings.refreshes >= 1


def assert_went_on(end: AnswerFinished) -> None:
    """From what it had, to its end."""
    assert end.answer.passages == EVIDENCE.passages
    assert end.answer.refreshes == ()
    assert len(end.answer.segments) == 2
    assert (end.timings.refreshes, end.timings.generated_tokens) == (0, 120)


@pytest.mark.parametrize("has_given_up", [False, True])
def test_it_is_looked_again_where_the_passages_are_from(refreshed, retrieval, biases, has_given_up: bool):
    evidence = replace(EVIDENCE, has_given_up=has_given_up)
    refreshed.ask("How?", "q", (), evidence, max_tokens=120, temperature=1.0, logit_bias=biases, repeat_penalty=1.0)
    refreshed.end_of("q")
    assert retrieval.looks
    assert all(look.question.filters.reads_question is not has_given_up for look in retrieval.looks)


def test_a_look_that_fails_changes_nothing(retrieval, write):
    retrieval.answer = lambda look: FoundAgain(look.question_id, look.number, (), 0.0, LibraryError("Broken."))
    assert_went_on(write())
    assert len(retrieval.looks) > 1


def test_a_look_that_never_comes_back_changes_nothing(retrieval, write):
    retrieval.answer = lambda look: None
    assert_went_on(write())
    assert len(retrieval.looks) == 1


def test_what_comes_too_late_or_twice_changes_nothing(refreshed, retrieval, write):
    retrieval.answer = lambda look: None
    write("before")
    late = retrieval.found(retrieval.looks[0])
    retrieval.answer = lambda look: replace(late, question_id=look.question_id)
    end = write()
    retrieval.tell(late)
    assert end.timings.refreshes == 0
    retrieval.answer = None
    assert write("after").timings.refreshes == 2
    ended = [event.question_id for event in refreshed.events if isinstance(event, ENDS)]
    assert ended == ["before", "q", "after"]


def test_an_answer_that_is_cancelled_while_more_is_looked_for_ends_once(refreshed, retrieval, biases):
    retrieval.policy = replace(FREE, mode="synchronous")
    asked: list[QuestionInFlight] = []
    retrieval.answer = lambda look: asked[0].cancelled.set()
    sampling = SamplingParams(max_tokens=400, temperature=1.0, logit_bias=biases, seed=7)
    asked.append(QuestionInFlight(Question("q", "How?", sampling=sampling)))
    refreshed.worker.submit(asked[0], EVIDENCE)
    assert isinstance(refreshed.end_of(), AnswerCancelled)
    retrieval.tell(retrieval.found(retrieval.looks[0]))
    retrieval.policy = None
    refreshed.ask("Next?", "next", max_tokens=2)
    assert isinstance(refreshed.end_of("next"), AnswerFinished)
    assert len([event for event in refreshed.events if isinstance(event, ENDS)]) == 2


def test_passages_of_a_document_that_was_removed_meanwhile_are_not_read(refreshed, retrieval, write):
    def found(look: LookAgain) -> FoundAgain:
        refreshed.known = {1, 2, 3, 12, 14}
        return retrieval.found(look)

    retrieval.answer = found
    end = write()
    assert [passage.document_id for passage in end.answer.passages[3:]] in ([12], [12, 14])


def test_what_reading_would_cost_too_much_is_not_looked_for(retrieval, write):
    retrieval.policy = replace(FREE, max_cost_share=0.0)
    assert write().timings.refreshes == 0
    assert not retrieval.looks


def test_what_cannot_be_put_behind_the_text_is_given_up(retrieval, write, monkeypatch):
    monkeypatch.setattr(refreshes_module, "addition", lambda *_: None)
    assert_went_on(write())
    # If one were held on to, it would be the last.
    assert len(retrieval.looks) > 1


def test_an_answer_leaves_room_for_what_may_still_be_written(refreshed, retrieval, write):
    chosen = refreshed.settings.generation.model_copy(update={"max_context": 512})
    refreshed.settings = refreshed.settings.model_copy(update={"generation": chosen})
    refreshed.worker.use(UseModel(refreshed.loader.wanted))
    end = write(max_tokens=300)
    segments = sum(len(piece.get("tokens", ())) for piece in end.answer.segments)
    assert segments == end.timings.generated_tokens
    assert end.timings.prompt_tokens + end.timings.generated_tokens <= 512


def test_time_in_which_another_model_has_its_turn_is_not_the_time_of_an_answer():
    now, told_at = [10.0], list[float]()
    refreshes = Refreshes(Retrieval().source(), lambda ids: ids, lambda: now[0])
    refreshing = SimpleNamespace(
        note_tokens=lambda num_tokens, at: told_at.append(at), fresh=lambda *_: None, wants_to_look=lambda *_: None
    )
    pieces: Any = SimpleNamespace(text=AnswerText({}))
    answering: Any = SimpleNamespace(refreshing=refreshing, length=10, pieces=pieces)
    loaded: Any = None
    refreshes._policies["q"] = FREE

    def write() -> None:
        now[0] += 1.0
        refreshes.go_on([TextWritten("q", "a", 1)], {"q": answering}, loaded, 1.0)

    write()
    refreshes.stand_still()
    now[0] += 20.0
    refreshes.stand_still()
    now[0] += 20.0
    refreshes.resume()
    refreshes.resume()
    write()
    write()
    assert told_at == [11.0, 12.0, 13.0]
