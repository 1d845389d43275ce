"""Tests for engine.session: several ask one engine, and each hears what is its own."""

from __future__ import annotations

import io
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from typing import Any

import pytest

from engine import events, protocol, wire
from engine.core import Answer, Scope
from engine.errors import BadRequest, DiskFull
from engine.metrics import Timings
from engine.outlet import Outlet
from engine.protocol import Message, Method, Nothing
from engine.session import MOST_LANES, Awaited, Session, Work
from tests.engine.test_host import Lines

ANSWER = Answer("Blue.", (), (), (), Scope(0, 0, 0), None, "stop")
TIMINGS = Timings(0, 0, 0, 0, 1, 2, 3)


class Desk:
    """Takes all questions but those that say nothing; a rescan ends when the test says so."""

    def __init__(self) -> None:
        self.cancelled: list[str] = []
        self.rescan = Future[int]()

    def carried_out(self, request: wire.Request) -> Message | Awaited:
        assert request.method is protocol.RESCAN_AND_WAIT
        return Awaited(self.rescan, lambda indexed: protocol.IndexReport(indexed=indexed))

    def choosing(self, request: wire.Request) -> Work:
        raise NotImplementedError

    def take(self, asked: protocol.Ask) -> Callable[[], None]:
        def hand_over() -> None:
            if not asked.text:
                raise BadRequest("The question is empty.")

        return hand_over

    def cancel(self, question_id: str) -> None:
        self.cancelled.append(question_id)


class Asker:
    """A session, and what is said to whoever has it."""

    def __init__(self, desk: Desk, *, is_guest: bool) -> None:
        self.lines = Lines()
        self._outlet = Outlet(self.lines)  # type: ignore[arg-type]
        self.session = Session(self._outlet, desk, is_guest=is_guest)
        self._last_id = 0

    def request(self, method: Method[Any, Any], params: Message) -> int:
        self._last_id += 1
        self.session.serve(io.BytesIO(wire.encode_request(self._last_id, method, params)))
        return self._last_id

    def ask(self, question_id: str, text: str = "Why?", model: str = "") -> wire.Reply:
        request_id = self.request(protocol.ASK, protocol.Ask(question_id=question_id, text=text, model=model))
        self.lines.wait_for(request_id)
        reply: wire.Reply = self.lines.replies[request_id]
        return reply

    def heard(self) -> list[str]:
        """The methods of all notices so far."""
        self.lines.wait_for(self.request(protocol.PING, Nothing()))
        return [notice.method for notice in self.lines.said]

    def close(self) -> None:
        self.session.leave()
        self._outlet.close()


@pytest.fixture
def desk() -> Desk:
    return Desk()


@pytest.fixture
def window(desk: Desk) -> Iterator[Asker]:
    window = Asker(desk, is_guest=False)
    yield window
    window.close()


@pytest.fixture
def guest(desk: Desk) -> Iterator[Asker]:
    guest = Asker(desk, is_guest=True)
    yield guest
    guest.close()


LIFE: tuple[Callable[[str], events.Event], ...] = (
    lambda question_id: events.AnswerStateChanged(question_id, "writing"),
    lambda question_id: events.TokensGenerated(question_id, "Blue."),
    lambda question_id: events.AnswerFinished(question_id, ANSWER, TIMINGS),
)


def test_of_the_questions_of_others_a_window_hears_that_there_are_some_and_a_guest_nothing(
    window: Asker, guest: Asker
) -> None:
    window.ask("window's")
    guest.ask("guest's")
    for happens in LIFE:
        for session in (window.session, guest.session):
            session.publish(happens("guest's"))
            session.publish(happens("window's"))
    for session in (window.session, guest.session):
        session.publish(events.LibraryChanged())
    state, tokens, end = "answer.state", "answer.tokens", "answer.finished"
    assert window.heard() == [state, state, tokens, end, end, "library.changed"]
    assert guest.heard() == [state, tokens, end, "library.changed"]


def test_who_leaves_has_its_open_questions_cancelled_and_no_others(desk: Desk, guest: Asker) -> None:
    for question_id in ("ended", "open"):
        assert guest.ask(question_id).error is None
    assert guest.ask("refused", "").error is not None
    guest.session.publish(events.AnswerCancelled("ended"))
    guest.session.leave()
    assert desk.cancelled == ["open"]


def test_who_asks_under_the_same_id_as_soon_as_a_question_has_ended_hears_of_the_new_one(
    guest: Asker, monkeypatch: pytest.MonkeyPatch
) -> None:
    guest.ask("q")
    outlet = guest.session._outlet
    notify = outlet.notify

    def ask_again(notice: protocol.Notice) -> None:
        notify(notice)
        if isinstance(notice, protocol.AnswerCancelled):
            guest.ask("q")

    monkeypatch.setattr(outlet, "notify", ask_again)
    guest.session.publish(events.AnswerCancelled("q"))
    guest.session.publish(events.TokensGenerated("q", "Blue."))
    assert guest.heard() == ["answer.cancelled", "answer.tokens"]


def test_only_the_window_ends_the_engine(window: Asker, guest: Asker) -> None:
    for asker in (guest, window):
        asker.lines.wait_for(asker.request(protocol.SHUTDOWN, Nothing()))
    assert window.lines.replies[1].error is None
    refusal = guest.lines.replies[1].error
    assert (refusal.kind, refusal.way_out) == ("BadRequest", "Close the window.")
    assert guest.heard() == []


def test_what_is_waited_for_is_answered_when_it_ends_and_holds_nothing_up(desk: Desk, guest: Asker) -> None:
    ids = [guest.request(protocol.RESCAN_AND_WAIT, Nothing()) for _ in range(5)]
    assert guest.heard() == []
    assert not set(ids) & set(guest.lines.replies)
    desk.rescan.set_result(7)
    guest.lines.wait_for(*ids)
    assert all(guest.lines.replies[request_id].result["indexed"] == 7 for request_id in ids)


def test_what_goes_wrong_with_it_is_told(desk: Desk, guest: Asker) -> None:
    request_id = guest.request(protocol.RESCAN_AND_WAIT, Nothing())
    desk.rescan.set_exception(DiskFull("The disk is full.", "Make room."))
    guest.lines.wait_for(request_id)
    error = guest.lines.replies[request_id].error
    assert (error.kind, error.sentence, error.way_out) == ("DiskFull", "The disk is full.", "Make room.")


def test_models_that_are_named_once_leave_no_thread_behind(guest: Asker) -> None:
    for number in range(3 * MOST_LANES):
        guest.ask(str(number), model=f"of a script {number}")
    until = time.monotonic() + 60
    # The threads of lanes that were ended end by themselves.
    while (left := sum("of a script" in thread.name for thread in threading.enumerate())) > MOST_LANES:
        assert time.monotonic() < until, left
        time.sleep(0.01)
