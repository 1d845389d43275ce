"""Tests for app.models.reading_first and app.models.answering: a question waits for the files that it is about."""

from __future__ import annotations

import pytest

from app.models import AppModels, reading_first
from app.models.reading_first import Reading, reading_of
from app.settings import SettingsStore
from engine import protocol
from engine.protocol import Filters, PathState
from tests.helpers.answers import finished, tokens

REPORT, SCAN = "/files/report.pdf", "/files/scan.png"


def state_of(path: str, state: str, reason: str = "") -> PathState:
    return PathState(path=path, state=state, reason=reason)


class Desk:
    """The models of a window, and how an engine tells them what it has read."""

    def __init__(self, client, store, tmp_path, qtbot) -> None:
        self.client, self.qtbot = client, qtbot
        self.models = AppModels(client, store, SettingsStore(tmp_path / "window.toml"), None, tmp_path / "pasted")
        self.conversation = self.models.conversation

    @property
    def turn(self):
        return self.conversation.turns[-1]

    def ask(self, *paths: str, text: str = "What does it say?") -> str:
        self.conversation.set_filters(Filters(paths=paths))
        self.conversation.ask(text)
        return self.turn.turn_id

    def asked(self) -> list[protocol.Ask]:
        return self.client.asked(protocol.ASK)

    def answer(self, *states: PathState) -> None:
        """Answers the next look at what is awaited, once it comes."""
        self.qtbot.wait_until(lambda: self.is_looking)
        self.client.answer(protocol.PATH_STATES, protocol.PathStatesReply(states=states))

    @property
    def is_looking(self) -> bool:
        return any(request.method is protocol.PATH_STATES for request in self.client.open)

    def hurried(self) -> list[tuple[str, ...]]:
        return [params.paths for params in self.client.asked(protocol.PRIORITISE)]


@pytest.fixture
def desk(client, store, tmp_path, qtbot, monkeypatch) -> Desk:
    monkeypatch.setattr(reading_first, "LOOK_AGAIN_MS", 1)
    made = Desk(client, store, tmp_path, qtbot)
    yield made
    made.models.close()


def test_a_question_about_everything_is_asked_at_once(desk):
    desk.ask()
    assert len(desk.asked()) == 1
    assert not desk.is_looking


def test_a_question_about_files_that_are_read_is_asked_as_soon_as_the_engine_says_so(desk):
    turn_id = desk.ask(REPORT)
    assert desk.asked() == []
    desk.answer(state_of(REPORT, "read"))
    assert [(ask.question_id, ask.filters.paths) for ask in desk.asked()] == [(turn_id, (REPORT,))]
    assert desk.hurried() == []
    desk.client.tell(finished(turn_id))
    assert desk.turn.state == "finished"


def test_it_waits_for_a_file_that_is_being_read_which_comes_before_all_others(desk):
    desk.ask(REPORT, SCAN)
    desk.answer(state_of(REPORT, "waiting"), state_of(SCAN, "read"))
    assert (desk.turn.state, desk.turn.awaited) == ("queued", (REPORT,))
    assert desk.hurried() == [(REPORT,)]
    desk.client.answer(protocol.PRIORITISE, protocol.Nothing())
    desk.answer(state_of(REPORT, "waiting"), state_of(SCAN, "read"))
    assert desk.asked() == []
    desk.answer(state_of(REPORT, "read"), state_of(SCAN, "read"))
    assert len(desk.asked()) == 1
    assert desk.turn.awaited == ()
    assert len(desk.hurried()) == 1


def test_what_is_on_its_way_to_the_engine_is_waited_for_and_hurried_once_it_is_there(desk):
    desk.models.attach((REPORT,))
    desk.conversation.ask("What does it say?")
    desk.answer(state_of(REPORT, "absent"))
    assert desk.turn.awaited == (REPORT,)
    assert desk.hurried() == []
    desk.client.answer(protocol.ADD, protocol.Nothing())
    assert desk.hurried() == [(REPORT,)]
    desk.answer(state_of(REPORT, "read"))
    assert len(desk.asked()) == 1


def test_what_came_while_the_engine_looked_is_waited_for_though_it_was_not_there_then(desk):
    desk.models.attach((REPORT,))
    desk.conversation.ask("What does it say?")
    desk.qtbot.wait_until(lambda: desk.is_looking)
    desk.client.answer(protocol.ADD, protocol.Nothing())
    desk.answer(state_of(REPORT, "absent"))
    assert desk.asked() == []
    assert desk.turn.awaited == (REPORT,)
    desk.answer(state_of(REPORT, "read"))
    assert len(desk.asked()) == 1


def test_a_file_that_cannot_be_read_fails_the_question_with_the_reason_and_a_way_out(desk):
    desk.ask(REPORT, SCAN)
    desk.answer(state_of(REPORT, "waiting"), state_of(SCAN, "unread", "There is no text in it."))
    assert desk.turn.state == "failed"
    assert desk.turn.error_sentence == (
        "“scan.png” could not be read: There is no text in it."
        " Remove it from the question, or index it again in the Library."
    )
    assert desk.asked() == []
    assert not desk.is_looking


def test_what_rests_is_wished_for_once_and_given_up_when_nobody_reads_it_then(desk):
    desk.ask(REPORT)
    desk.answer(state_of(REPORT, "resting"))
    assert desk.turn.state == "queued"
    desk.client.refuse(protocol.PRIORITISE, "The disk is full.", "DiskFull")
    desk.answer(state_of(REPORT, "resting"))
    assert desk.turn.state == "failed"
    assert desk.turn.error_sentence.startswith("“report.pdf” has not been read, because reading has stopped.")


def test_what_is_in_no_library_is_left_to_the_engine_to_say(desk):
    desk.ask(REPORT)
    desk.answer(state_of(REPORT, "absent"))
    desk.client.refuse(protocol.ASK, "Nothing at /files/report.pdf is in the library.", "NothingThere", "Look there.")
    assert desk.turn.error_sentence == "Nothing at /files/report.pdf is in the library. Look there."


def test_an_engine_that_cannot_tell_is_asked_the_question_and_says_why(desk):
    desk.ask(REPORT)
    desk.client.refuse(protocol.PATH_STATES, "The library is held.", "LibraryHeld")
    desk.client.refuse(protocol.ASK, "The library is held.", "LibraryHeld", "Close the other.")
    assert desk.turn.error_sentence == "The library is held. Close the other."


def test_a_question_that_waits_can_be_stopped_and_nobody_looks_any_more(desk):
    turn_id = desk.ask(REPORT)
    desk.answer(state_of(REPORT, "waiting"))
    desk.client.answer(protocol.PRIORITISE, protocol.Nothing())
    desk.conversation.stop(turn_id)
    assert desk.turn.state == "cancelled"
    assert desk.client.asked(protocol.CANCEL) == []
    num_looks = len(desk.client.asked(protocol.PATH_STATES))
    desk.ask(SCAN)
    desk.answer(state_of(SCAN, "read"))
    assert len(desk.client.asked(protocol.PATH_STATES)) == num_looks + 1


def test_a_question_that_waits_survives_engines_that_die_of_the_file(desk):
    turn_id = desk.ask(REPORT)
    for _ in range(2):
        desk.answer(state_of(REPORT, "waiting"))
        desk.client.die()
        assert desk.turn.state == "queued"
        desk.client.become_ready()
    desk.answer(state_of(REPORT, "unread", "It ended the engine."))
    assert (desk.turn.turn_id, desk.turn.state) == (turn_id, "failed")
    assert "It ended the engine." in desk.turn.error_sentence


def test_a_question_that_was_asked_and_lost_with_its_engine_is_asked_again(desk):
    desk.ask(REPORT)
    desk.answer(state_of(REPORT, "read"))
    desk.client.die()
    desk.client.become_ready()
    assert len(desk.asked()) == 2


def test_while_reading_is_paused_the_question_knows(desk):
    progress = {"documents_done": 1, "documents_total": 4, "chunks_done": 9}
    desk.client.tell(protocol.IndexProgress(**progress, is_paused=True))
    desk.ask(REPORT)
    desk.answer(state_of(REPORT, "waiting"))
    assert desk.turn.is_paused
    desk.client.answer(protocol.PRIORITISE, protocol.Nothing())
    desk.client.tell(protocol.IndexProgress(**progress))
    desk.answer(state_of(REPORT, "waiting"))
    assert not desk.turn.is_paused


def test_where_there_is_no_engine_a_question_about_a_file_fails_as_any_other(desk):
    desk.client.give_up()
    desk.ask(REPORT)
    assert desk.turn.state == "failed"


def test_closing_ends_a_question_that_waits(desk):
    desk.ask(REPORT)
    desk.answer(state_of(REPORT, "waiting"))
    desk.models.close()
    assert desk.turn.state == "cancelled"


def test_answers_of_other_chats_go_on_while_one_waits(desk):
    desk.ask(REPORT)
    desk.conversation.new_chat()
    other = desk.ask(text="And elsewhere?")
    desk.client.tell(tokens(other, "Three"))
    assert desk.turn.text == "Three"


@pytest.mark.parametrize(
    ("states", "reading"),
    [
        ((), Reading()),
        ((state_of(REPORT, "read"), state_of(SCAN, "absent")), Reading()),
        ((state_of(REPORT, "waiting"), state_of(SCAN, "read")), Reading((REPORT,))),
    ],
)
def test_what_states_mean_for_a_question(states, reading):
    assert reading_of(states) == reading
    assert reading_of(states, is_paused=True).is_paused == bool(reading.awaited)
