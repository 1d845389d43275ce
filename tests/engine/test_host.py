"""Tests for engine.host, with an engine that does what the test wants."""

from __future__ import annotations

import io
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, NoReturn

import pytest

from engine import protocol, wire
from engine.config import GenerationSettings, Settings
from engine.core import MAX_INSTRUCTIONS, PageView, Question, SamplingParams
from engine.errors import RagdollError
from engine.events import AnswerCancelled, AnswerFailed, IndexFinished
from engine.host import Host
from engine.library.jobs import IndexJob, IndexRoots
from engine.notices import MAX_PROBLEMS
from engine.outlet import Outlet
from engine.protocol import Message, Method, Nothing

PATIENCE_S = 20.0
PROBLEMS = tuple((f"/{number:06}", "empty") for number in range(MAX_PROBLEMS + 1))


class Lines(io.RawIOBase):
    """What the host writes, by the ids of requests; `said` are the notices."""

    def __init__(self) -> None:
        self.replies: dict[int, Any] = {}
        self.said: list[Any] = []
        self._changed = threading.Condition()

    def writable(self) -> bool:
        return True

    def write(self, line: Any) -> int:
        with self._changed:
            message = wire.decode_message(bytes(line))
            if isinstance(message, wire.Reply):
                self.replies[message.id] = message
            else:
                self.said.append(message)
            self._changed.notify_all()
        return len(line)

    def wait_for(self, *request_ids: int) -> None:
        with self._changed:
            assert self._changed.wait_for(lambda: set(request_ids) <= set(self.replies), PATIENCE_S), self.replies


class SlowPages:
    """An engine whose pages take until `go_on`; `shown` are those that were begun."""

    def __init__(self) -> None:
        self.shown: list[int | None] = []
        self.changed: list[dict[str, Any]] = []
        self.asked: list[str] = []
        self.searches: list[bool] = []
        self.questions: list[Question] = []
        self.cancelled: list[str] = []
        self.chosen: list[Path | None] = []
        self.begun, self.go_on = threading.Event(), threading.Event()

    def start_ticker(self, publish: object) -> None: ...

    def begin_closing(self) -> None: ...

    def close(self) -> None: ...

    def page(self, document_id: int, page: int | None, *_: object) -> PageView:
        self.shown.append(page)
        self.begun.set()
        assert self.go_on.wait(PATIENCE_S)
        raise RagdollError(f"Page {page} is empty.")

    def pause_indexing(self) -> None: ...

    def change_settings(self, changes: dict[str, Any]) -> Settings:
        time.sleep(0.001)
        self.changed.append(dict(changes))
        return Settings()

    def take(self, question: Question) -> Callable[[], None]:
        def look() -> None:
            assert question.model == "" or self.go_on.wait(PATIENCE_S)
            self.asked.append(question.question_id)
            self.searches.append(question.searches)
            self.questions.append(question)

        return look

    def cancel(self, question_id: str) -> None:
        self.cancelled.append(question_id)

    def start_adding(self, paths: object, collection: str) -> None:
        assert self.go_on.wait(PATIENCE_S)

    def use_model(self, path: Path | None, n_gpu_layers: int | None = None, *, is_wanted: Callable[[], bool]) -> None:
        assert path is None or self.go_on.wait(PATIENCE_S)
        if is_wanted():
            self.chosen.append(path)

    def start_rescan(self) -> IndexJob:
        job = IndexJob(IndexRoots(None))
        job.ended.set_result(IndexFinished(2, 7, 0, PROBLEMS, (), 5, 1.0))
        return job

    def models(self) -> tuple[()]:
        assert self.go_on.wait(PATIENCE_S)
        return ()

    @property
    def settings(self) -> Settings:
        return Settings(generation=GenerationSettings(instructions="Be brief."))

    @property
    def settings_problem(self) -> str:
        return ""

    @property
    def settings_pending(self) -> str:
        return ""


@pytest.fixture
def lines() -> Lines:
    return Lines()


@pytest.fixture
def engine() -> SlowPages:
    return SlowPages()


@pytest.fixture
def host(lines: Lines, engine: SlowPages) -> Iterator[Host]:
    host = Host(Outlet(lines))  # type: ignore[arg-type]
    host.open(lambda publish: engine)  # type: ignore[arg-type, return-value]
    yield host
    engine.go_on.set()
    host.close()


def asked(host: Host, *requests: tuple[Method[Any, Any], Message], first_id: int = 1) -> None:
    encoded = [wire.encode_request(first_id + place, *request) for place, request in enumerate(requests)]
    host.serve(io.BytesIO(b"".join(encoded)))


def page(number: int) -> tuple[Method[Any, Any], Message]:
    return protocol.PAGE, protocol.PageRequest(document_id=1, page=number)


def test_pages_that_take_long_hold_nothing_else_up_and_only_the_newest_of_those_that_wait_is_shown(
    host: Host, engine: SlowPages, lines: Lines
) -> None:
    asked(host, page(1))
    assert engine.begun.wait(PATIENCE_S)
    asked(host, *map(page, (2, 3, 4)), (protocol.PAUSE, Nothing()), first_id=2)
    lines.wait_for(2, 3, 5)
    assert lines.replies[5].error is None
    assert [lines.replies[number].error.sentence for number in (2, 3)] == ["Another page was asked for."] * 2
    assert set(lines.replies) == {2, 3, 5}
    engine.go_on.set()
    lines.wait_for(1, 4)
    assert engine.shown == [1, 4]
    assert lines.replies[4].error.sentence == "Page 4 is empty."


def test_what_changes_anything_is_done_in_order_and_done_before_the_engine_closes(
    host: Host, engine: SlowPages, lines: Lines
) -> None:
    engine.go_on.set()
    wanted = [protocol.SetSettings(changes={"generation.seed": number}) for number in range(20)]
    asked(host, *((protocol.SETTINGS_SET, one) for one in wanted), (protocol.SHUTDOWN, Nothing()))
    host.close()
    assert engine.changed == [{"generation.seed": number} for number in range(20)]
    assert set(range(1, 22)) <= set(lines.replies)


def test_a_model_that_hangs_holds_up_no_ping_and_no_setting(host: Host, engine: SlowPages, lines: Lines) -> None:
    question = protocol.Ask(question_id="q", text="Who?", model="/share/m.gguf")
    # As often as a window asks while its engine starts.
    looks = [(protocol.MODELS, Nothing())] * 4
    asked(host, (protocol.ASK, question), *looks, (protocol.PING, Nothing()))
    asked(host, (protocol.SETTINGS_SET, protocol.SetSettings(changes={})), first_id=7)
    asked(host, (protocol.SETTINGS_GET, Nothing()), first_id=8)
    lines.wait_for(6, 7, 8)
    assert set(lines.replies) == {6, 7, 8}
    engine.go_on.set()
    lines.wait_for(1, 2, 3, 4, 5)


def test_a_question_is_searched_for_unless_it_says_otherwise(host: Host, engine: SlowPages, lines: Lines) -> None:
    asked(
        host,
        (protocol.ASK, protocol.Ask(question_id="a", text="Who?")),
        (protocol.ASK, protocol.Ask(question_id="b", text="Say hello.", searches=False)),
    )
    lines.wait_for(1, 2)
    assert dict(zip(engine.asked, engine.searches, strict=True)) == {"a": True, "b": False}


def test_a_question_to_a_model_that_hangs_can_be_stopped_and_another_model_asked(
    host: Host, engine: SlowPages, lines: Lines
) -> None:
    hanging = protocol.Ask(question_id="q", text="Who?", model="/share/m.gguf")
    asked(host, (protocol.ASK, hanging), (protocol.CANCEL, protocol.CancelQuestion(question_id="q")))
    asked(host, (protocol.ASK, protocol.Ask(question_id="other", text="Who?")), first_id=3)
    lines.wait_for(2, 3)
    assert (engine.asked, engine.cancelled) == (["other"], ["q"])


def test_a_folder_or_a_model_on_a_share_that_hangs_holds_up_no_pause_and_no_other_choice(
    host: Host, engine: SlowPages, lines: Lines
) -> None:
    asked(
        host,
        (protocol.ADD, protocol.AddPaths(paths=("/share/folder",))),
        (protocol.PAUSE, Nothing()),
        (protocol.MODELS_USE, protocol.ModelFile(path="/share/m.gguf")),
        (protocol.MODELS_UNLOAD, Nothing()),
    )
    lines.wait_for(2, 4)
    assert set(lines.replies) == {2, 4}
    engine.go_on.set()
    lines.wait_for(1, 3)
    # What was chosen last is what counts.
    assert engine.chosen == [None]


def test_embedders_on_a_share_that_hangs_hold_up_no_settings_however_often_they_are_looked_at(
    host: Host, engine: SlowPages, lines: Lines, monkeypatch: pytest.MonkeyPatch
) -> None:
    def hang(*_: object) -> NoReturn:
        assert engine.go_on.wait(PATIENCE_S)
        raise RagdollError("The share does not answer.")

    monkeypatch.setattr(SlowPages, "getting_embedders", property(hang), raising=False)
    asked(host, *[(protocol.EMBEDDERS, Nothing())] * 4, (protocol.SETTINGS_GET, Nothing()))
    lines.wait_for(5)
    assert set(lines.replies) == {5}
    engine.go_on.set()
    lines.wait_for(1, 2, 3, 4)


def test_what_would_be_too_long_a_line_is_an_error(host: Host, engine: SlowPages, lines: Lines, monkeypatch) -> None:
    engine.go_on.set()
    monkeypatch.setattr("engine.session.MAX_LINE_BYTES", 400)
    asked(host, (protocol.SETTINGS_GET, Nothing()))
    lines.wait_for(1)
    assert lines.replies[1].error.sentence == "This is too large to be shown at once."


def test_a_check_is_answered_with_the_first_files_and_a_rescan_with_all(host: Host, lines: Lines) -> None:
    asked(host, (protocol.CHECK, Nothing()), (protocol.RESCAN_AND_WAIT, Nothing()))
    lines.wait_for(1, 2)
    brief, full = (lines.replies[number].result for number in (1, 2))
    assert (len(brief["skipped"]), brief["num_more"], brief["indexed"]) == (MAX_PROBLEMS, 1, 2)
    assert (len(full["skipped"]), full["num_more"], full["indexed"]) == (MAX_PROBLEMS + 1, 0, 2)


def test_where_questions_are_left_open_nothing_is_said_of_their_ends(host: Host, lines: Lines) -> None:
    host.publish(AnswerCancelled("stopped"))
    host.leave_questions_open()
    host.publish(AnswerCancelled("closed"))
    host.publish(AnswerFailed("closed as well", RagdollError("The engine is closed.")))
    asked(host, (protocol.PING, Nothing()), first_id=7)
    lines.wait_for(7)
    assert [notice.question_id for notice in lines.said] == ["stopped"]


def test_what_a_question_has_of_its_own_goes_before_the_settings_and_all_else_is_as_they_say(
    host: Host, engine: SlowPages, lines: Lines
) -> None:
    settings = Settings().generation
    manner = protocol.Manner(instructions="In verse.", max_tokens=7, temperature=1.5, thinks=True)
    asked(
        host,
        (protocol.ASK, protocol.Ask(question_id="usual", text="Who?")),
        (protocol.ASK, protocol.Ask(question_id="own", text="Who?", manner=manner, num_answers=3)),
        (protocol.ASK, protocol.Ask(question_id="none", text="Who?", manner=protocol.Manner(instructions=""))),
        (
            protocol.ASK,
            protocol.Ask(
                question_id="both",
                text="Who?",
                sampling=SamplingParams(seed=3),
                instructions="In prose.",
                manner=protocol.Manner(min_p=0.5),
            ),
        ),
    )
    lines.wait_for(1, 2, 3, 4)
    told = {question.question_id: (question.instructions, question.sampling) for question in engine.questions}
    own = replace(settings.sampling(), max_tokens=7, temperature=1.5, thinks=True, num_answers=3)
    assert told == {
        "usual": ("Be brief.", settings.sampling()),
        "own": ("In verse.", own),
        "none": ("", settings.sampling()),
        "both": ("In prose.", SamplingParams(seed=3, min_p=0.5)),
    }


def test_beams_that_are_only_usual_leave_several_answers_and_those_of_a_given_form_alone(
    host: Host, engine: SlowPages, lines: Lines
) -> None:
    manner, given = protocol.Manner(beam_width=4), SamplingParams(beam_width=4, num_answers=2)
    asked(
        host,
        (protocol.ASK, protocol.Ask(question_id="one", text="Who?", manner=manner)),
        (protocol.ASK, protocol.Ask(question_id="several", text="Who?", manner=manner, num_answers=3)),
        (protocol.ASK, protocol.Ask(question_id="given", text="Who?", sampling=given)),
    )
    lines.wait_for(1, 2, 3)
    told = {question.question_id: question.sampling for question in engine.questions}
    # What was given whole is refused by the engine instead.
    assert {name: (params.beam_width, params.num_answers) for name, params in told.items()} == {
        "one": (4, 1), "several": (1, 3), "given": (4, 2),
    }  # fmt: skip


def test_instructions_of_a_question_that_are_too_long_are_refused_in_a_sentence(host: Host, lines: Lines) -> None:
    ask = protocol.Ask(question_id="q", text="Who?", manner=protocol.Manner(instructions="x" * MAX_INSTRUCTIONS))
    line = wire.encode_request(1, protocol.ASK, ask).replace(b'"xxx', b'"xxxx')
    host.serve(io.BytesIO(line))
    lines.wait_for(1)
    assert "instructions" in lines.replies[1].error.sentence
