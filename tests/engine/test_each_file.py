"""Tests for engine.each_file, and for asking each file of a real engine."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from engine import Engine
from engine.core import Document, Filters, Question
from engine.each_file import OPEN_AT_ONCE, ask_each, confined_to, until_model_fails
from engine.errors import BadRequest, ModelLoadFailed, ModelNotFound, NothingThere, RagdollError
from engine.events import AnswerCancelled, AnswerFailed, AnswerFinished, Event, Publish


def document(number: int) -> Document:
    return Document(number, ("Documents",), f"/files/{number}.txt", "indexed", "", 1, 1, "hash", "text", 1)


class Desk:
    """Answers what it is asked in the order it likes: by being told to end a question."""

    def __init__(self) -> None:
        self.listeners: list[Publish] = []
        self.asked: list[Question] = []
        self.cancelled: list[str] = []

    def submit(self, question: Question) -> None:
        if question.filters.document_ids == (13,):
            raise NothingThere("It was removed.")
        self.asked.append(question)

    def subscribe(self, listener: Publish) -> Callable[[], None]:
        self.listeners.append(listener)
        return lambda: self.listeners.remove(listener)

    def tell(self, event: Event) -> None:
        for listener in self.listeners:
            listener(event)

    def find(self, document_id: int) -> Question | None:
        return next((one for one in self.asked if one.filters.document_ids == (document_id,)), None)

    def question_to(self, document_id: int) -> Question:
        question = self.find(document_id)
        assert question is not None
        return question

    def is_full(self) -> bool:
        return len(self.asked) == OPEN_AT_ONCE

    def end(self, document_id: int) -> None:
        self.tell(AnswerCancelled(self.question_to(document_id).question_id))

    def fail(self, document_id: int, error: RagdollError) -> None:
        self.tell(AnswerFailed(self.question_to(document_id).question_id, error))


def act_once(has_come: Callable[[], bool], act: Callable[[], None]) -> None:
    """Acts on another thread as soon as it has come to that."""

    def wait() -> None:
        deadline = time.monotonic() + 60
        while not has_come() and time.monotonic() < deadline:
            time.sleep(0.005)
        act()

    threading.Thread(target=wait, daemon=True).start()


def ask(document: Document, question_id: str) -> Question:
    return Question(question_id, "What is it about?", filters=confined_to(document), priority="batch")


def test_so_many_are_open_at_a_time_and_answers_come_as_they_end() -> None:
    desk = Desk()
    answers = ask_each(map(document, range(100, 200)), ask, desk.submit, desk.cancelled.append, desk.subscribe)
    act_once(desk.is_full, lambda: desk.end(103))
    assert next(answers)[0].document_id == 103
    assert len(desk.asked) == OPEN_AT_ONCE
    desk.end(100)
    assert next(answers)[0].document_id == 100
    assert len(desk.asked) == OPEN_AT_ONCE + 1
    answers.close()
    assert len(desk.cancelled) == OPEN_AT_ONCE - 1
    assert not desk.listeners


def test_what_is_refused_has_failed_and_the_others_go_on() -> None:
    desk = Desk()
    with closing(
        ask_each([document(13), document(14)], ask, desk.submit, desk.cancelled.append, desk.subscribe)
    ) as answers:
        first, end = next(answers)
        assert first.document_id == 13
        assert isinstance(end, AnswerFailed)
        desk.end(14)
        assert [one.document_id for one, _ in answers] == [14]


def test_a_question_that_cannot_be_made_has_failed_and_the_others_go_on() -> None:
    desk = Desk()

    def ask_most(one: Document, question_id: str) -> Question:
        if one.document_id == 7:
            raise BadRequest("Several models are called so.")
        return ask(one, question_id)

    documents = [document(6), document(7), document(8)]
    with closing(ask_each(documents, ask_most, desk.submit, desk.cancelled.append, desk.subscribe)) as answers:
        first, end = next(answers)
        assert first.document_id == 7
        assert isinstance(end, AnswerFailed)
        desk.end(8)
        desk.end(6)
        assert [one.document_id for one, _ in answers] == [8, 6]
    assert not desk.cancelled


def test_a_model_that_cannot_be_had_is_asked_nothing_more_and_others_go_on() -> None:
    desk = Desk()

    def ask_of(one: Document, question_id: str) -> Question:
        return replace(ask(one, question_id), model="/m/broken.gguf" if one.document_id % 2 else "/m/good.gguf")

    documents = [document(number) for number in range(100, 100 + 2 * OPEN_AT_ONCE)]
    fault = ModelLoadFailed("It is damaged.", "Get it again.")
    with closing(ask_each(documents, ask_of, desk.submit, desk.cancelled.append, desk.subscribe)) as answers:
        act_once(desk.is_full, lambda: desk.fail(103, fault))
        ended = [next(answers)]
        taken_back = [one.question_id for one in desk.asked if "broken" in one.model and one != desk.question_to(103)]
        assert desk.cancelled == taken_back
        for question_id in taken_back:
            desk.tell(AnswerCancelled(question_id))
        # Those of the other model end as well, and as they do.
        ended += [next(answers) for _ in taken_back]
        for one in documents[::2]:
            while desk.find(one.document_id) is None:
                ended.append(next(answers))
            desk.end(one.document_id)
        ended += answers
    assert len(ended) == len(documents)
    for one, end in ended:
        assert (isinstance(end, AnswerFailed) and end.error is fault) == bool(one.document_id % 2)
    assert len([one for one in desk.asked if "broken" in one.model]) == OPEN_AT_ONCE // 2
    assert not desk.listeners


@pytest.mark.parametrize("is_refused", [False, True], ids=["fails", "is refused"])
def test_where_there_is_one_model_all_end_with_it(is_refused: bool) -> None:
    desk, fault = Desk(), ModelNotFound("It is gone.")

    def refuse(question: Question) -> None:
        desk.submit(question)
        if is_refused and question.filters.document_ids == (105,):
            raise fault

    documents = [document(number) for number in range(100, 300)]
    answers = until_model_fails(ask_each(documents, ask, refuse, desk.cancelled.append, desk.subscribe))
    if not is_refused:
        act_once(desk.is_full, lambda: desk.end(101))
    told = []
    if not is_refused:
        told.append(next(answers)[0].document_id)
        desk.fail(105, fault)
    with pytest.raises(ModelNotFound):
        told += [one.document_id for one, _ in answers]
    assert told == ([] if is_refused else [101])
    assert len(set(desk.cancelled)) >= OPEN_AT_ONCE - 2
    assert len(desk.asked) <= OPEN_AT_ONCE + 1
    assert not desk.listeners


def test_nothing_is_told_of_no_documents() -> None:
    desk = Desk()
    assert list(ask_each([], ask, desk.submit, desk.cancelled.append, desk.subscribe)) == []


@pytest.fixture
def files(tmp_path: Path) -> Path:
    folder = tmp_path / "files"
    folder.mkdir()
    for name, fruit in (("a", "apples"), ("b", "pears"), ("c", "plums")):
        (folder / f"{name}.txt").write_text(f"The garden of {name} grows {fruit}. Nothing else is grown there.\n")
    (folder / "broken.pdf").write_bytes(b"%PDF-1.4 nothing")
    return folder


@pytest.mark.expects_warnings
def test_each_file_of_a_library_answers_from_its_own_words(tmp_path: Path, files: Path) -> None:
    with Engine.open(tmp_path / "home") as engine:
        engine.add([files])
        answers = list(engine.ask_each_file("What does the garden grow?"))
        texts = {Path(one.path).name: end for one, end in answers}
        assert sorted(texts) == ["a.txt", "b.txt", "c.txt"]
        for name, fruit in (("a.txt", "apples"), ("b.txt", "pears"), ("c.txt", "plums")):
            end = texts[name]
            assert isinstance(end, AnswerFinished)
            assert fruit in end.answer.text
            assert {Path(passage.document).name for passage in end.answer.passages} == {name}
        only = list(engine.ask_each_file("What grows?", filters=Filters(paths=(str(files / "b.txt"),))))
        assert [Path(one.path).name for one, _ in only] == ["b.txt"]


@pytest.mark.expects_warnings
def test_a_file_that_is_renamed_meanwhile_answers_and_one_that_is_removed_is_said_to_be_gone(
    tmp_path: Path, files: Path
) -> None:
    with Engine.open(tmp_path / "home") as engine:
        engine.add([files])
        found = {Path(one.path).name: one for one in engine._catalog.stored_documents(None, Filters())}
        (files / "a.txt").rename(files / "renamed.txt")
        engine.add([files])
        [end] = engine.ask_each(["What does the garden grow?"], filters=confined_to(found["a.txt"]))
        assert isinstance(end, AnswerFinished)
        assert {Path(passage.document).name for passage in end.answer.passages} == {"renamed.txt"}
        engine.remove([files / "b.txt"])
        [gone] = engine.ask_each(["What does the garden grow?"], filters=confined_to(found["b.txt"]))
        assert isinstance(gone, AnswerFailed)
        assert isinstance(gone.error, NothingThere)


@pytest.mark.expects_warnings
def test_a_file_of_which_nothing_is_stored_any_more_is_not_said_to_have_nothing(tmp_path: Path, files: Path) -> None:
    with Engine.open(tmp_path / "home") as engine:
        engine.add([files])
        found = {Path(one.path).name: one for one in engine._catalog.stored_documents(None, Filters())}
        (files / "b.txt").write_text("")
        engine.add([files])
        [end] = engine.ask_each(["What does the garden grow?"], filters=confined_to(found["b.txt"]))
        assert isinstance(end, AnswerFailed)
        assert isinstance(end.error, NothingThere)
        assert "can be read" in end.error.sentence
        # What is left of it by other filters is another matter.
        a_pdf = replace(confined_to(found["a.txt"]), formats=("pdf",))
        [end] = engine.ask_each(["What does the garden grow?"], filters=a_pdf)
        assert isinstance(end, AnswerFinished)


def test_what_cannot_be_asked_is_refused_at_once(tmp_path: Path) -> None:
    with Engine.open(tmp_path / "home") as engine:
        with pytest.raises(BadRequest):
            engine.ask_each_file(" ")
        with pytest.raises(NothingThere):
            engine.ask_each_file("What?", "No such collection")
        with pytest.raises(NothingThere, match="No such"):
            engine.ask_each_file("What?", filters=Filters(collections=("No such", "Nor this")))
        with pytest.raises(RagdollError, match="no file to ask"):
            engine.ask_each_file("What?")


def test_of_many_questions_those_that_are_due_are_told_before_the_others_are_asked(tmp_path: Path) -> None:
    texts = [" "] * (2 * OPEN_AT_ONCE)
    with Engine.open(tmp_path / "home") as engine, closing(engine.ask_in_turn(texts)) as ends:
        asked = list[str]()
        engine.submit = lambda question: asked.append(question.question_id) or engine.take(question)()
        assert isinstance(next(ends), AnswerFailed)
        assert len(asked) == OPEN_AT_ONCE
        assert len(list(ends)) == len(texts) - 1
