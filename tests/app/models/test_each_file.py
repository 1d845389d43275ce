"""Tests for app.models.each_file, run_asking, run_missing and each_file_csv: a question to every file, and whatever
comes between."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Mapping

import pytest

from app.chats import ChatStore
from app.models import run_asking
from app.models.each_file import EachFileModel
from app.models.each_file_csv import HEADER, csv_of
from app.models.engine_status import EngineStatusModel
from app.models.run_asking import OPEN_AT_ONCE
from app.models.run_missing import MOST_GONE
from app.models.run_table import ANSWER, FILE, FOUND_AT, STATE
from app.models.run_writer import Writer
from app.models.turns import TurnView
from engine import protocol
from engine.errors import ModelError
from engine.protocol import Filters, PathState
from tests.app.models.test_listing import document, documents
from tests.helpers.answers import finished, found, passage, timings, tokens
from tests.helpers.fake_engine_client import FakeEngineClient

QUESTION = "When does it end?"


class Desk:
    """A model with an engine that lists so many files and answers when it is told to."""

    def __init__(self, client: FakeEngineClient, store: ChatStore) -> None:
        self.client, self.store, self.now = client, store, 100.0
        self.told: list[str] = []
        self.told_besides: list[str] = []
        self.model = self.reopened()

    def reopened(self, writer: Callable[..., Writer | None] = lambda _views, _given_up: Writer()) -> EachFileModel:
        store, client = self.store.runs, self.client
        model = EachFileModel(client, store, clock=lambda: self.now, writer=writer)  # type: ignore[arg-type]
        model.request_failed.connect(lambda sentence, _way_out: self.told.append(sentence))
        model.told.connect(self.told_besides.append)
        return model

    @property
    def foot(self) -> str:
        """What the status line of a window says that is opened now."""
        self.client.state = "ready"
        return EngineStatusModel(self.client, each_file=self.model).sentence  # type: ignore[arg-type]

    def begin(self, num_files: int, question: str = QUESTION) -> None:
        self.model.begin(question, ("Contracts",))
        documents = tuple(document(number) for number in range(num_files))
        for start in range(0, max(1, num_files), 500):
            reply = protocol.DocumentsReply(
                documents=documents[start : start + 500], total=num_files, by_state={"indexed": num_files}
            )
            self.client.answer(protocol.DOCUMENTS, reply)

    def asked(self) -> list[protocol.Ask]:
        return [one for one in self.client.asked(protocol.ASK) if isinstance(one, protocol.Ask)]

    def cancels(self) -> list[str]:
        return [one.question_id for one in self.client.asked(protocol.CANCEL)]  # type: ignore[attr-defined]

    def cells(self, row: int) -> list[str]:
        return [self.model.data(self.model.index(row, column)) for column in (FILE, ANSWER, FOUND_AT, STATE)]

    def states(self) -> list[str]:
        return [self.cells(row)[3] for row in range(self.model.rowCount())]

    def finish(self, number: int, text: str = "In May [1].") -> None:
        where = passage(number, place=f"page {number + 1}")
        self.client.tell(finished(self.asked()[number].question_id, text, passages=(where,)))

    def lose(self, *numbers: int, is_refused: bool = False) -> None:
        """The engine does not find the documents of these questions any more."""
        for number in numbers:
            question_id = self.asked()[number].question_id
            if is_refused:
                self.client.refuse(protocol.ASK, "It is gone.", "NothingThere", "Add it.")
            else:
                gone = {"kind": "NothingThere", "sentence": "It is gone.", "way_out": "Add it."}
                self.client.tell(protocol.AnswerFailed(question_id=question_id, **gone))

    def find(self, document_ids: Mapping[str, int] | None = None, state: str = "read") -> tuple[str, ...]:
        """Says what lies where missing files lay, of those that are not named nothing; where it was looked."""
        found = document_ids or {}
        [request] = [one for one in self.client.open if one.method is protocol.PATH_STATES]
        paths = request.params.paths  # type: ignore[attr-defined]
        states = tuple(
            PathState(path=path, state=state, document_id=found[path])  # type: ignore[arg-type]
            if path in found
            else PathState(path=path, state="absent")
            for path in paths
        )
        self.client.answer(protocol.PATH_STATES, protocol.PathStatesReply(states=states))
        return tuple(paths)

    @property
    def is_looking(self) -> bool:
        return any(one.method is protocol.PATH_STATES for one in self.client.open)


def writing(question_id: str) -> protocol.AnswerState:
    return protocol.AnswerState(question_id=question_id, state="writing")


class DeadlyRun:
    """Engines that answer some files at a time, and die whenever they begin a deadly one; told of that, or not."""

    AT_A_TIME = 4

    def __init__(self, desk: Desk, deadly: set[int], *, is_told: bool = True, most_deaths: int = 1000) -> None:
        self.num_deaths = 0
        self._desk, self._deadly, self._is_told, self._most_deaths = desk, deadly, is_told, most_deaths
        self._num_seen = 0
        self._waiting: list[protocol.Ask] = []

    def go_on(self) -> None:
        """Until there is nothing more to answer."""
        while self._desk.model.state == "running":
            asked = self._desk.asked()
            self._waiting += asked[self._num_seen :]
            self._num_seen = len(asked)
            assert self._waiting, "it runs, and asks nothing"
            begun, self._waiting = self._waiting[: self.AT_A_TIME], self._waiting[self.AT_A_TIME :]
            self._begin(begun)

    def _begin(self, asks: list[protocol.Ask]) -> None:
        harmless = [ask for ask in asks if ask.filters.document_ids[0] not in self._deadly]
        self._desk.client.tell(*(writing(ask.question_id) for ask in (asks if self._is_told else harmless)))
        if harmless == asks:
            self._desk.client.tell(*(finished(ask.question_id) for ask in asks))
        else:
            self._die()

    def _die(self) -> None:
        self._waiting = []
        self.num_deaths += 1
        if self.num_deaths == self._most_deaths:
            self._desk.client.give_up()
        else:
            self._desk.client.die()
            self._desk.client.become_ready()


@pytest.fixture
def desk(client: FakeEngineClient, store: ChatStore) -> Desk:
    return Desk(client, store)


def test_each_file_is_a_question_of_its_own_behind_those_of_people(desk: Desk) -> None:
    desk.begin(2)
    first, second = desk.asked()
    assert [ask.filters for ask in (first, second)] == [
        Filters(document_ids=(number,), reads_question=False) for number in range(2)
    ]
    assert {ask.priority for ask in (first, second)} == {"batch"}
    assert {ask.text for ask in (first, second)} == {QUESTION}
    desk.client.tell(tokens(first.question_id, "In "))
    assert desk.cells(0) == ["0.pdf", "In", "", "writing"]
    desk.finish(0, "# End\nIn **May** [1].")
    assert desk.cells(0) == ["0.pdf", "End In May [1].", "page 1", "answered"]
    assert (desk.model.num_answered, desk.model.num_files, desk.model.state) == (1, 2, "running")
    desk.finish(1, " ")
    assert desk.cells(1)[1] == "Nothing found in this file."
    assert desk.model.state == "finished"


def test_so_many_are_open_at_a_time(desk: Desk) -> None:
    desk.begin(600)
    assert len(desk.asked()) == OPEN_AT_ONCE
    assert desk.model.num_files == 600
    desk.finish(5)
    assert len(desk.asked()) == OPEN_AT_ONCE + 1
    desk.now += 10.0
    assert desk.model.seconds_left == pytest.approx(10.0 * 599)


def test_a_pause_takes_back_what_has_not_begun_and_a_resume_asks_it_again(desk: Desk) -> None:
    desk.begin(3)
    ids = [ask.question_id for ask in desk.asked()]
    desk.client.tell(tokens(ids[1], "In May"))
    desk.model.pause()
    assert desk.cancels() == [ids[0], ids[2]]
    desk.model.resume()
    # Of what is still being taken back nothing is asked twice at a time.
    assert len(desk.asked()) == 3
    desk.client.tell(*(protocol.AnswerCancelled(question_id=id_) for id_ in (ids[0], ids[2])))
    assert [ask.question_id for ask in desk.asked()[3:]] == [ids[0], ids[2]]
    desk.finish(1)
    assert desk.states() == ["searching", "answered", "searching"]
    for number in (3, 4):
        desk.finish(number)
    assert desk.model.state == "finished"


def test_what_was_answered_is_there_after_the_window_was_closed_and_the_rest_goes_on(desk: Desk) -> None:
    desk.begin(3)
    desk.finish(0)
    desk.client.tell(tokens(desk.asked()[1].question_id, "In Ju"))
    desk.model.close()
    model = desk.model = desk.reopened()
    assert [run.question for run in model.runs] == [QUESTION]
    model.open(model.runs[0].run_id)
    assert (model.state, model.num_answered) == ("paused", 1)
    assert desk.states() == ["answered", "waiting", "waiting"]
    assert desk.cells(0)[:3] == ["0.pdf", "In May [1].", "page 1"]
    assert [one.place for one in model.whole_view(0).passages] == ["page 1"]
    assert not model.view(0).passages
    model.resume()
    assert len(desk.asked()) == 5


def test_every_start_says_that_a_question_waits_until_all_are_done(desk: Desk) -> None:
    assert (desk.model.does_any_wait, desk.foot) == (False, "Ready")
    desk.begin(2)
    desk.finish(0)
    desk.model.close()
    desk.model = desk.reopened()
    assert (desk.model.does_any_wait, desk.foot) == (True, "A question to every file is paused")
    desk.model.open(desk.model.runs[0].run_id)
    assert desk.foot == "A question to every file is paused"
    desk.begin(1, "Who signed it?")
    assert desk.foot == "Asking every file, 0 %"
    desk.finish(2)
    # That one is done, and the one before is not.
    assert (desk.model.state, desk.foot) == ("finished", "A question to every file is paused")
    desk.model.close()
    desk.model = desk.reopened()
    assert desk.foot == "A question to every file is paused"
    desk.model.open(desk.model.runs[1].run_id)
    desk.model.resume()
    desk.finish(3)
    assert (desk.model.does_any_wait, desk.foot) == (False, "Ready")
    desk.model.close()
    desk.model = desk.reopened()
    assert (desk.model.does_any_wait, desk.foot) == (False, "Ready")


def test_a_killed_window_loses_no_answer(desk: Desk) -> None:
    desk.begin(2)
    desk.finish(0)
    model = desk.model = desk.reopened()
    model.open(model.runs[0].run_id)
    assert desk.states() == ["answered", "waiting"]


def test_a_file_whose_passages_are_found_waits_for_the_model(desk: Desk) -> None:
    desk.begin(1)
    question_id = desk.asked()[0].question_id
    state = protocol.AnswerState(question_id=question_id, state="queued", ahead=3)
    desk.client.tell(state)
    assert desk.states() == ["searching"]
    desk.client.tell(found(question_id, passage(place="page 1")), state)
    assert desk.states() == ["waiting"]


def test_after_a_death_of_the_engine_the_questions_are_sent_again(desk: Desk) -> None:
    desk.begin(2)
    ids = [ask.question_id for ask in desk.asked()]
    desk.client.tell(tokens(ids[0], "In Ju"))
    desk.client.die()
    assert desk.cells(0) == ["0.pdf", "", "", "waiting"]
    desk.client.become_ready()
    # What the engine may have died of comes last, and takes nobody with it.
    assert [ask.question_id for ask in desk.asked()[2:]] == [ids[1]]
    assert desk.states() == ["waiting", "searching"]
    assert desk.model.state == "running"
    desk.finish(2)
    assert [ask.question_id for ask in desk.asked()[3:]] == [ids[0]]
    desk.client.tell(tokens(ids[0], "In May"))
    assert desk.cells(0)[1] == "In May"
    # Not for ever: whatever kills the engine may be the question.
    desk.client.die()
    assert desk.states() == ["failed", "answered"]
    assert desk.model.state == "finished"


def test_a_death_is_nothing_against_files_that_only_waited(desk: Desk) -> None:
    desk.begin(3)
    ids = [ask.question_id for ask in desk.asked()]
    desk.client.tell(protocol.AnswerState(question_id=ids[1], state="searching"))
    desk.client.die()
    desk.client.become_ready()
    assert [ask.question_id for ask in desk.asked()[3:]] == ids


def test_files_that_an_engine_may_have_died_of_take_no_place_of_others(desk: Desk) -> None:
    desk.begin(200)
    for ask in desk.asked():
        desk.client.tell(writing(ask.question_id))
    desk.client.die()
    desk.client.become_ready()
    assert [ask.filters.document_ids for ask in desk.asked()[OPEN_AT_ONCE:]] == [
        (number,) for number in range(OPEN_AT_ONCE, 2 * OPEN_AT_ONCE)
    ]


@pytest.mark.parametrize("is_told", [True, False])
@pytest.mark.parametrize("num_files", [1, OPEN_AT_ONCE, 200])
@pytest.mark.parametrize("deadly", [{0}, {9, 10}, {3, 50}])
def test_a_file_that_kills_the_engine_fails_alone(desk: Desk, deadly: set[int], num_files: int, is_told: bool) -> None:
    desk.begin(num_files)
    run = DeadlyRun(desk, deadly, is_told=is_told)
    run.go_on()
    outcome = ["failed" if number in deadly else "answered" for number in range(num_files)]
    assert desk.states() == outcome
    assert desk.model.state == "finished"
    desk.model.ask_failed_again()
    run.go_on()
    assert desk.states() == outcome


def test_one_deadly_file_is_no_reason_to_give_up_the_engine(desk: Desk) -> None:
    desk.begin(OPEN_AT_ONCE)
    run = DeadlyRun(desk, {9})
    run.go_on()
    assert run.num_deaths == 2


def test_an_engine_that_is_given_up_for_one_file_has_the_others_wait(desk: Desk) -> None:
    desk.begin(OPEN_AT_ONCE)
    run = DeadlyRun(desk, {9, 10}, most_deaths=3)
    run.go_on()
    assert desk.model.state == "paused"
    assert [number for number, state in enumerate(desk.states()) if state == "failed"] == [9, 10]
    assert set(desk.states()) == {"failed", "answered", "waiting"}
    desk.client.become_ready()
    desk.model.resume()
    run.go_on()
    assert desk.states().count("answered") == OPEN_AT_ONCE - 2
    assert desk.model.state == "finished"


def test_of_what_was_written_when_the_engine_was_given_up_one_says_why_and_the_others_wait(desk: Desk) -> None:
    desk.begin(4)
    for ask in desk.asked()[2:]:
        desk.client.tell(tokens(ask.question_id, "In"))
    desk.client.give_up("It ended three times.")
    assert desk.states() == ["waiting", "waiting", "failed", "waiting"]
    assert desk.cells(2)[1] == "It ended three times."


def test_an_engine_that_gave_up_pauses_the_rest(desk: Desk) -> None:
    desk.begin(300)
    desk.client.give_up()
    assert desk.model.state == "paused"
    assert desk.model.num_failed == 1
    assert desk.states().count("waiting") == 299
    desk.client.become_ready()
    desk.model.ask_failed_again()
    assert desk.model.num_failed == 0
    assert len(desk.asked()) == 2 * OPEN_AT_ONCE


def test_a_file_that_fails_says_why_and_can_be_asked_again(desk: Desk) -> None:
    desk.begin(1)
    desk.client.tell(found(desk.asked()[0].question_id, passage(place="page 1")))
    desk.lose(0)
    assert desk.find() == ("/docs/0.pdf",)
    assert desk.cells(0) == ["0.pdf", "It is gone. Add it.", "", "failed"]
    assert desk.model.state == "finished"
    desk.model.ask_failed_again()
    assert desk.cells(0) == ["0.pdf", "", "", "searching"]
    desk.finish(1)
    assert desk.states() == ["answered"]


def test_another_question_pauses_the_one_before_which_is_said_once_and_both_are_kept(desk: Desk) -> None:
    desk.begin(2)
    desk.finish(0)
    first = desk.model.run
    assert desk.model.unfinished() == {first.run_id: (1, 2)}
    desk.begin(1, "Who signed it?")
    assert desk.told_besides == [f"“{QUESTION}” is paused at 50 %. It goes on from “Earlier questions”."]
    second = desk.model.run
    assert desk.model.unfinished() == {first.run_id: (1, 2), second.run_id: (0, 1)}
    assert [run.question for run in desk.model.runs] == ["Who signed it?", QUESTION]
    assert desk.model.num_files == 1
    desk.model.open(first.run_id)
    assert (desk.model.state, desk.model.num_files) == ("paused", 2)
    desk.model.delete()
    assert [run.question for run in desk.model.runs] == ["Who signed it?"]
    assert (desk.model.state, desk.model.num_files) == ("none", 0)
    assert len(desk.told_besides) == 1


def test_a_question_goes_on_while_another_is_looked_at(desk: Desk) -> None:
    desk.begin(1, "Who signed it?")
    desk.finish(0)
    earlier = desk.model.run
    desk.begin(4)
    asked = desk.model.run
    desk.finish(1)
    desk.model.open(earlier.run_id)
    assert (desk.model.state, desk.model.asked, desk.states()) == ("finished", asked, ["answered"])
    assert desk.cancels() == []
    desk.finish(2, "In June [1].")
    assert (desk.model.num_answered, desk.model.asked_progress, desk.foot) == (1, (2, 4), "Asking every file, 50 %")
    assert desk.states() == ["answered"]
    desk.model.open(asked.run_id)
    assert desk.model.state == "running"
    assert desk.states() == ["answered", "answered", "searching", "searching"]
    assert desk.cells(1)[1:3] == ["In June [1].", "page 3"]
    # What comes from now on is shown.
    desk.client.tell(tokens(desk.asked()[3].question_id, "In Ju"))
    assert desk.cells(2) == ["2.pdf", "In Ju", "", "writing"]
    desk.model.open(earlier.run_id)
    for number in (3, 4):
        desk.finish(number)
    assert (desk.model.asked, desk.foot) == (None, "Ready")
    desk.model.open(asked.run_id)
    assert (desk.model.state, desk.states()) == ("finished", ["answered"] * 4)
    assert desk.told_besides == []


def test_a_pause_is_of_what_is_shown_and_what_is_deleted_as_well(desk: Desk) -> None:
    desk.begin(2, "Who signed it?")
    desk.model.pause()
    earlier = desk.model.run
    desk.begin(2)
    asked = desk.model.run
    desk.model.open(earlier.run_id)
    desk.model.pause()
    desk.model.delete()
    assert (desk.model.run, desk.model.asked) == (None, asked)
    assert set(desk.cancels()) == {ask.question_id for ask in desk.asked()[:2]}


def test_one_that_is_resumed_pauses_the_other(desk: Desk) -> None:
    desk.begin(1, "Who signed it?")
    desk.model.pause()
    earlier = desk.model.run
    desk.client.tell(protocol.AnswerCancelled(question_id=desk.asked()[0].question_id))
    desk.begin(2)
    asked = desk.model.run
    desk.model.open(earlier.run_id)
    desk.model.resume()
    assert (desk.model.state, desk.model.asked) == ("running", earlier)
    assert desk.told_besides == [f"“{QUESTION}” is paused at 0 %. It goes on from “Earlier questions”."]
    assert set(desk.cancels()[1:]) == {ask.question_id for ask in desk.asked()[1:3]}
    desk.finish(3)
    desk.model.open(asked.run_id)
    assert (desk.model.state, desk.foot) == ("paused", "A question to every file is paused")


def test_what_is_written_to_its_end_after_a_pause_is_shown_wherever_that_one_is_looked_at(desk: Desk) -> None:
    desk.begin(1, "Who signed it?")
    desk.client.tell(tokens(desk.asked()[0].question_id, "Ann"))
    earlier = desk.model.run
    desk.begin(1)
    desk.model.open(earlier.run_id)
    assert desk.states() == ["writing"]
    desk.finish(0, "Anna.")
    assert (desk.model.state, desk.cells(0)[1]) == ("finished", "Anna.")
    assert desk.model.asked is not None


@pytest.mark.parametrize("nothing", ["no files", "no collection", "given up"])
def test_a_question_of_which_nothing_comes_stops_no_other_and_that_is_shown_again(desk: Desk, nothing: str) -> None:
    desk.begin(2)
    desk.finish(0)
    asked = desk.model.run
    desk.model.begin("Who signed it?", ("Gone",))
    assert (desk.model.state, desk.model.asked) == ("listing", asked)
    if nothing == "no files":
        desk.client.answer(protocol.DOCUMENTS, documents())
    elif nothing == "no collection":
        desk.client.refuse(protocol.DOCUMENTS, "There is no collection named 'Gone'.", "NothingThere")
    else:
        desk.model.pause()
    assert (desk.model.run, desk.model.state) == (asked, "running")
    assert desk.states() == ["answered", "searching"]
    assert desk.cancels() == desk.told_besides == []


def test_where_there_are_no_files_it_says_so(desk: Desk) -> None:
    desk.begin(0)
    assert desk.told == ["There is no file here that could be read."]
    assert desk.model.state == "none"
    desk.model.begin("  ", ())
    assert desk.model.state == "none"


def test_a_question_is_put_to_the_files_of_several_collections(desk: Desk) -> None:
    desk.model.begin(QUESTION, ("Contracts", "Invoices"))
    desk.client.answer(protocol.DOCUMENTS, documents(1, 2))
    desk.client.answer(protocol.DOCUMENTS, documents(2, 3))
    assert [one.filters.document_ids for one in desk.asked()] == [(1,), (2,), (3,)]
    assert desk.store.runs.runs()[0].collections == desk.model.run.collections == ("Contracts", "Invoices")


def test_a_list_that_comes_late_starts_nothing(desk: Desk) -> None:
    desk.model.begin("First?", ("Contracts",))
    desk.model.begin("Second?", ("Contracts",))
    desk.client.answer(protocol.DOCUMENTS, documents(1, 2))
    assert desk.model.state == "listing"
    desk.client.answer(protocol.DOCUMENTS, documents(1, 2, 3))
    assert (desk.model.run.question, desk.model.num_files) == ("Second?", 3)
    desk.model.begin("Third?", ("Contracts",))
    desk.model.pause()
    desk.client.answer(protocol.DOCUMENTS, documents(1))
    assert (desk.model.run.question, desk.model.state) == ("Second?", "running")
    assert len(desk.model.runs) == 1


def test_answers_that_cannot_be_kept_are_not_asked_for_any_more(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise protocol.RagdollError("The disk is full.", "Free some space.")

    desk.begin(3)
    monkeypatch.setattr(desk.store.runs, "record", full)
    desk.finish(0)
    assert (desk.model.state, desk.told) == ("paused", ["The disk is full."])


def test_without_an_engine_it_says_so_and_keeps_what_is_shown(desk: Desk) -> None:
    desk.begin(1)
    desk.finish(0)
    desk.client.give_up()
    desk.model.begin("Another?", ())
    assert desk.told == ["The engine is not running, so nothing can be answered."]
    assert desk.model.run.question == QUESTION


def test_an_engine_that_dies_again_and_again_ends_nothing_twice(desk: Desk) -> None:
    desk.begin(3)
    desk.client.die()
    desk.client.give_up()
    assert desk.model.state == "paused"
    assert sorted(desk.states()) == ["failed", "waiting", "waiting"]


def test_an_engine_that_takes_nothing_makes_it_pause_before_all_have_failed(desk: Desk) -> None:
    desk.begin(8)
    for _ in range(3):
        assert desk.model.state == "running"
        desk.client.refuse(protocol.ASK, "Another Ragdoll holds the library.")
    assert desk.model.state == "paused"
    for request in [one for one in desk.client.open if one.method is protocol.ASK]:
        desk.client.refuse(request.method, "Another Ragdoll holds the library.")
    assert desk.states().count("failed") == 3
    desk.model.ask_failed_again()
    assert desk.model.state == "running"
    assert desk.states().count("failed") == 0


def every_model_error(error: type[ModelError] = ModelError) -> set[str]:
    return {error.__name__}.union(*(every_model_error(below) for below in error.__subclasses__()))


def test_every_fault_of_a_model_is_known_as_one() -> None:
    # Of a model that was given up for another one nothing is known to be wrong, and what is fetched answers nobody yet.
    others = {"LoadAbandoned", "DownloadFailed", "DownloadCut"}
    assert every_model_error() - others == run_asking.MODEL_FAULTS


def test_a_model_that_cannot_be_loaded_fails_no_file_and_is_told_once(desk: Desk) -> None:
    desk.begin(300)
    desk.finish(0)
    asked = desk.asked()
    for ask in asked[1:]:
        failure = protocol.AnswerFailed(
            question_id=ask.question_id,
            kind="NoRoomToLoad",
            sentence="There is no room for it.",
            way_out="Close others.",
        )
        desk.client.tell(failure)
    assert desk.told == ["There is no room for it."]
    assert (desk.model.state, desk.model.num_failed, desk.model.num_answered) == ("paused", 0, 1)
    assert desk.states().count("waiting") == 299
    again = desk.reopened()
    again.open(again.runs[0].run_id)
    assert (again.num_answered, again.num_failed) == (1, 0)
    desk.model.resume()
    assert len(desk.asked()) == len(asked) + OPEN_AT_ONCE


def test_a_model_that_is_gone_is_told_once_though_each_question_is_refused(desk: Desk) -> None:
    desk.begin(8)
    while any(one.method is protocol.ASK for one in desk.client.open):
        desk.client.refuse(protocol.ASK, "The model file is no longer there.", "ModelNotFound")
    assert desk.told == ["The model file is no longer there."]
    assert (desk.model.state, desk.states()) == ("paused", ["waiting"] * 8)


def test_failures_with_no_answer_between_make_it_pause_before_all_have_failed(desk: Desk) -> None:
    desk.begin(300)

    def fail(number: int) -> None:
        question_id = desk.asked()[number].question_id
        desk.client.tell(protocol.AnswerState(question_id=question_id, state="reading"))
        desk.client.tell(protocol.AnswerFailed(question_id=question_id, kind="DecodeFailed", sentence="It broke."))

    for number in (0, 1, 3, 4):
        fail(number)
        if number == 1:
            desk.finish(2)
    assert (desk.model.state, desk.model.num_failed) == ("running", 4)
    fail(5)
    assert (desk.model.state, desk.model.num_failed) == ("paused", 5)
    desk.model.resume()
    assert desk.model.state == "running"


def test_files_that_left_the_library_end_alone_and_have_nobody_pause(desk: Desk) -> None:
    desk.begin(6)
    desk.lose(*range(5), is_refused=True)
    # While some are looked for, others wait to be.
    assert [len(desk.find()), len(desk.find())] == [1, 4]
    assert desk.model.state == "running"
    desk.finish(5)
    assert (desk.model.state, desk.states()) == ("finished", [*["failed"] * 5, "answered"])


@pytest.mark.parametrize("is_refused", [False, True])
def test_a_folder_that_left_the_library_and_came_back_is_asked_where_it_lies(desk: Desk, is_refused: bool) -> None:
    desk.begin(3)
    desk.lose(0, 1, 2, is_refused=is_refused)
    back = {f"/docs/{number}.pdf": 100 + number for number in range(3)}
    assert desk.find(back) + desk.find(back) == tuple(back)
    assert [ask.filters.document_ids for ask in desk.asked()[3:]] == [(100,), (101,), (102,)]
    assert desk.states() == ["searching"] * 3
    for number in (3, 4, 5):
        desk.finish(number)
    assert (desk.model.state, desk.model.num_failed, desk.told) == ("finished", 0, [])
    model = desk.reopened()
    assert [file.document_id for file in desk.store.runs.files(model.runs[0].run_id)] == [100, 101, 102]


def test_what_failed_since_its_folder_had_left_is_asked_again_when_it_is_back(desk: Desk) -> None:
    desk.begin(2)
    desk.lose(0, 1)
    desk.find()
    desk.find()
    assert (desk.model.state, desk.states()) == ("finished", ["failed"] * 2)
    desk.model = desk.reopened()
    desk.model.open(desk.model.runs[0].run_id)
    assert desk.states() == ["failed"] * 2
    desk.model.ask_failed_again()
    desk.lose(2, 3)
    back = {"/docs/0.pdf": 7, "/docs/1.pdf": 8}
    desk.find(back)
    desk.find(back)
    assert [ask.filters.document_ids for ask in desk.asked()[4:]] == [(7,), (8,)]


def test_a_file_that_is_found_and_missing_all_the_same_is_looked_for_no_more(desk: Desk) -> None:
    desk.begin(1)
    desk.lose(0)
    desk.find({"/docs/0.pdf": 7})
    desk.lose(1)
    desk.find({"/docs/0.pdf": 7})
    assert (desk.model.state, desk.states(), len(desk.asked())) == ("finished", ["failed"], 2)


def test_many_files_that_are_gone_in_a_row_wait_for_their_folder(desk: Desk) -> None:
    desk.begin(3 * MOST_GONE)
    desk.lose(*range(MOST_GONE - 1))
    desk.find()
    desk.find()
    desk.finish(MOST_GONE - 1)
    # One has answered: the others are gone by themselves.
    assert (desk.model.state, desk.model.num_failed) == ("running", MOST_GONE - 1)
    desk.lose(*range(MOST_GONE, 2 * MOST_GONE))
    desk.find()
    desk.find()
    assert (desk.model.state, desk.model.num_failed) == ("paused", MOST_GONE - 1)
    assert desk.told == [f"{MOST_GONE} files in a row are no longer in the library, so the question is paused."]
    # The last ones are being taken back.
    assert desk.states()[MOST_GONE:] == [*["waiting"] * MOST_GONE, *["searching"] * MOST_GONE]
    again = desk.reopened()
    again.open(again.runs[0].run_id)
    assert (again.num_answered, again.num_failed) == (MOST_GONE, MOST_GONE - 1)


def test_whoever_goes_on_without_a_folder_is_paused_for_it_no_more(desk: Desk) -> None:
    desk.begin(MOST_GONE + 1)
    desk.lose(*range(MOST_GONE))
    desk.find()
    desk.find()
    assert desk.model.state == "paused"
    desk.client.tell(protocol.AnswerCancelled(question_id=desk.asked()[MOST_GONE].question_id))
    desk.model.resume()
    first, last = MOST_GONE + 1, len(desk.asked()) - 1
    desk.lose(*range(first, last))
    desk.find()
    desk.find()
    assert desk.model.state == "running"
    desk.finish(last)
    assert (desk.model.state, desk.model.num_failed, len(desk.told)) == ("finished", MOST_GONE, 1)


def test_what_is_still_to_be_read_waits_until_it_has_been(desk: Desk) -> None:
    desk.begin(3)
    back = {"/docs/0.pdf": 7, "/docs/1.pdf": 8}
    desk.lose(0, 1)
    desk.find(back, "waiting")
    desk.find(back, "resting")
    assert (desk.model.state, desk.is_looking) == ("running", False)
    desk.finish(2)
    # Nothing else is left to ask: one of them has been read meanwhile.
    desk.find({"/docs/0.pdf": 7})
    assert desk.asked()[-1].filters.document_ids == (7,)
    assert desk.model.state == "running"


def test_a_question_that_waits_for_nothing_but_the_reading_is_paused(desk: Desk) -> None:
    desk.begin(2)
    desk.lose(0)
    desk.find({"/docs/0.pdf": 7}, "waiting")
    desk.finish(1)
    desk.find({"/docs/0.pdf": 7}, "waiting")
    assert (desk.model.state, desk.states()) == ("paused", ["waiting", "answered"])
    assert desk.told == ["1 file is still waiting to be indexed, so the question to every file is paused."]
    desk.model.resume()
    assert desk.asked()[-1].filters.document_ids == (7,)
    desk.finish(2)
    assert desk.model.state == "finished"


def test_a_pause_ends_the_search_for_missing_files_which_the_next_start_begins_anew(desk: Desk) -> None:
    desk.begin(1)
    desk.lose(0)
    desk.model.pause()
    desk.find({"/docs/0.pdf": 7})
    assert (desk.model.state, desk.states(), len(desk.asked())) == ("paused", ["waiting"], 1)
    desk.model.resume()
    desk.lose(1)
    desk.find({"/docs/0.pdf": 7})
    assert desk.asked()[-1].filters.document_ids == (7,)


def test_an_engine_that_dies_while_files_are_looked_for_has_the_next_one_asked(desk: Desk) -> None:
    desk.begin(2)
    desk.lose(0)
    desk.client.die()
    desk.client.become_ready()
    assert sorted(ask.filters.document_ids for ask in desk.asked()[2:]) == [(0,), (1,)]
    desk.lose(*(number for number in (2, 3) if desk.asked()[number].filters.document_ids == (0,)))
    desk.client.refuse(protocol.PATH_STATES, "The library is held.", "LibraryHeld")
    desk.finish(next(number for number in (2, 3) if desk.asked()[number].filters.document_ids == (1,)))
    assert (desk.model.state, desk.states()) == ("finished", ["failed", "answered"])


def test_a_file_of_a_paused_question_that_is_missing_waits(desk: Desk) -> None:
    desk.begin(1)
    desk.client.tell(tokens(desk.asked()[0].question_id, "In"))
    desk.model.pause()
    desk.lose(0)
    assert (desk.model.state, desk.states(), desk.is_looking) == ("paused", ["waiting"], False)


def test_a_paused_question_is_not_sent_to_the_next_engine(desk: Desk) -> None:
    desk.begin(2)
    ids = [ask.question_id for ask in desk.asked()]
    desk.client.tell(tokens(ids[0], "In Ju"))
    desk.model.pause()
    desk.client.die()
    desk.client.become_ready()
    assert (len(desk.asked()), desk.states()) == (2, ["waiting"] * 2)
    desk.model.resume()
    assert len(desk.asked()) == 3


def test_what_an_earlier_question_has_left_is_not_sent_to_the_next_engine(desk: Desk) -> None:
    desk.begin(1, "Who signed it?")
    left = desk.asked()[0].question_id
    desk.client.tell(tokens(left, "Ann"))
    desk.begin(2)
    desk.client.die()
    desk.client.become_ready()
    assert [ask.filters.document_ids for ask in desk.asked()[3:]] == [(0,), (1,)]
    for number in (3, 4):
        desk.finish(number)
    # Nor last and alone.
    assert [ask.question_id for ask in desk.asked()].count(left) == 1


@pytest.mark.parametrize("is_paused_first", [False, True])
def test_what_an_engine_may_have_died_of_is_asked_alone_also_after_a_pause(desk: Desk, is_paused_first: bool) -> None:
    desk.begin(4)
    deadly = desk.asked()[1].question_id
    desk.client.tell(protocol.AnswerState(question_id=deadly, state="reading"))
    if is_paused_first:
        desk.model.pause()
    desk.client.die()
    desk.model.pause()
    desk.client.become_ready()
    desk.model.resume()
    assert [ask.filters.document_ids for ask in desk.asked()[4:]] == [(0,), (2,), (3,)]
    for number in (4, 5, 6):
        desk.finish(number)
    assert [ask.question_id for ask in desk.asked()[7:]] == [deadly]
    desk.client.tell(protocol.AnswerState(question_id=deadly, state="reading"))
    desk.client.die()
    assert desk.states() == ["answered", "failed", "answered", "answered"]


def test_what_an_earlier_question_has_left_says_nothing_of_the_one_that_runs(desk: Desk) -> None:
    desk.begin(6)
    left = [ask.question_id for ask in desk.asked()]
    for question_id in left:
        desk.client.tell(tokens(question_id, "In"))
    desk.begin(3, "Who signed it?")
    for question_id in left[:4]:
        desk.client.tell(protocol.AnswerFailed(question_id=question_id, kind="DecodeFailed", sentence="It broke."))
    for question_id in left[4:]:
        fault = protocol.AnswerFailed(question_id=question_id, kind="ModelUnreadable", sentence="It cannot be read.")
        desk.client.tell(fault)
    assert (desk.model.state, desk.told) == ("running", [])


def test_nobody_is_asked_before_it_is_known_by_whom_the_rest_is_answered(desk: Desk) -> None:
    desk.begin(3)
    desk.finish(0)
    desk.model.close()
    known: list[Writer] = []
    desk.model = desk.reopened(lambda _views, _given_up: known[0] if known else None)
    desk.model.open(desk.model.runs[0].run_id)
    num_asked = len(desk.asked())
    desk.model.resume()
    assert (desk.model.state, len(desk.asked())) == ("running", num_asked)
    known.append(Writer("/models/first.gguf", "The other one is gone."))
    desk.model.choose_writer()
    assert [ask.model for ask in desk.asked()[num_asked:]] == ["/models/first.gguf"] * 2
    assert desk.told == ["The other one is gone."]
    # Which models there are is told again and again.
    known[0] = Writer("/models/second.gguf")
    desk.model.choose_writer()
    assert len(desk.asked()) == num_asked + 2


def test_an_engine_that_is_given_up_before_it_is_known_who_answers_pauses_the_question(desk: Desk) -> None:
    desk.model = desk.reopened(lambda _views, _given_up: None)
    desk.begin(2)
    assert desk.model.state == "running"
    desk.client.give_up()
    assert (desk.model.state, desk.states()) == ("paused", ["waiting"] * 2)


def test_whoever_pauses_while_it_is_not_known_who_answers_asks_nobody(desk: Desk) -> None:
    known: list[Writer] = []
    desk.model = desk.reopened(lambda _views, _given_up: known[0] if known else None)
    desk.begin(2)
    desk.model.pause()
    known.append(Writer())
    desk.model.choose_writer()
    assert (desk.model.state, desk.asked(), desk.states()) == ("paused", [], ["waiting"] * 2)
    desk.model.resume()
    assert len(desk.asked()) == 2


def test_an_answer_that_was_cut_off_is_said_to_be(desk: Desk) -> None:
    desk.begin(2)
    for number, reason in enumerate(("length", "stop")):
        question_id = desk.asked()[number].question_id
        desk.client.tell(finished(question_id, "In May and", finish_reason=reason))
    assert desk.states() == ["cut off", "answered"]
    assert [bool(desk.model.remark(view)) for _path, view, _places in desk.model.rows()] == [True, False]
    lines = list(csv.reader(io.StringIO(csv_of(desk.model.rows()))))
    assert [line[1:3] for line in lines[1:]] == [["cut off", "In May and"], ["finished", "In May and"]]


def test_a_pause_in_which_the_last_file_answers_is_an_end(desk: Desk) -> None:
    desk.begin(1)
    desk.client.tell(tokens(desk.asked()[0].question_id, "In"))
    desk.model.pause()
    assert desk.model.state == "paused"
    desk.finish(0)
    assert desk.model.state == "finished"


def test_an_answer_that_the_disk_refused_is_shown_when_its_run_is_opened_again(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    desk.begin(1, "Another?")
    desk.finish(0)
    desk.begin(1)

    def full(*_: object) -> None:
        raise protocol.RagdollError("The disk is full.", "Free some space.")

    monkeypatch.setattr(desk.store.runs, "record", full)
    desk.finish(1)
    newest, earlier = desk.model.runs
    desk.model.open(earlier.run_id)
    desk.model.open(newest.run_id)
    assert desk.states() == ["answered"]
    assert desk.cells(0)[2] == "page 2"
    # A run that could not be saved is not begun.
    desk.told.clear()
    desk.model.begin("And another?", ("Contracts",))
    assert desk.told == ["What was answered last could not be saved yet."]
    assert [run.question for run in desk.model.runs] == [QUESTION, "Another?"]


def test_a_list_that_is_refused_is_told(desk: Desk) -> None:
    desk.model.begin(QUESTION, ("Gone",))
    desk.client.refuse(protocol.DOCUMENTS, "No collection is called so.")
    assert desk.told == ["No collection is called so."]
    assert desk.model.state == "none"


def test_a_full_disk_is_told(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise protocol.RagdollError("The disk is full.", "Free some space.")

    monkeypatch.setattr(desk.store.runs, "create", full)
    desk.begin(1)
    assert desk.told == ["The disk is full."]
    assert desk.model.state == "none"


def test_answers_become_lines_that_a_spreadsheet_reads_as_text() -> None:
    answered = TurnView(
        "1", QUESTION, "finished", text='=HYPERLINK("x")\nsecond line', timings=None, model="tiny", citations=()
    )
    failed = TurnView("2", QUESTION, "failed", error_sentence="It is gone.")
    lines = list(
        csv.reader(io.StringIO(csv_of([("/d/a.pdf", answered, ["p. 1", "p. 2"]), ("/d/b\udcef.pdf", failed, [])])))
    )
    assert lines == [
        list(HEADER),
        ["/d/a.pdf", "finished", '\'=HYPERLINK("x")\nsecond line', "p. 1; p. 2", "", "tiny"],
        ["/d/b�.pdf", "failed", "It is gone.", "", "", ""],
    ]


@pytest.mark.parametrize("start", ["=", " =", "\n+", "＝", "\t@", "-"])
def test_nothing_of_a_document_or_a_model_is_a_formula(start: str) -> None:
    view = TurnView("1", QUESTION, "finished", text=f"{start}1+1", model=f"{start}tiny")
    [_, line] = csv.reader(io.StringIO(csv_of([("/d/a.pdf", view, [f"{start}p. 1"])])))
    assert [line[place] for place in (2, 3, 5)] == [f"'{start}1+1", f"'{start}p. 1", f"'{start}tiny"]


def test_where_numbers_have_a_comma_lines_are_split_at_semicolons() -> None:
    took = timings().model_copy(update={"total_s": 1.25})
    view = TurnView("1", QUESTION, "finished", text="a;=b, c", timings=took, model="tiny")
    lines = csv_of([("/d/a.pdf", view, [])], decimal_point=",").splitlines()
    assert lines == [";".join(HEADER), '/d/a.pdf;finished;"a;=b, c";;1,2;tiny']


def test_half_an_answer_is_none_in_a_spreadsheet() -> None:
    views = [TurnView("1", QUESTION, state, text="In the middle of") for state in ("writing", "cancelled", "failed")]
    lines = list(csv.reader(io.StringIO(csv_of([("/d/a.pdf", view, []) for view in views]))))
    assert [line[1:3] for line in lines[1:]] == [["waiting", ""], ["waiting", ""], ["failed", ""]]
