"""Tests for app.models: the parts know of each other what they must."""

from __future__ import annotations

import pytest

from app.models import AppModels
from app.settings import SettingsStore
from engine import protocol
from engine.protocol import Document, Filters, ModelEntry
from tests.helpers.answers import finished, found, passage, tokens


@pytest.fixture
def models(client, store, tmp_path) -> AppModels:
    return AppModels(client, store, SettingsStore(tmp_path / "window.toml"))


@pytest.fixture
def told(models) -> list[tuple]:
    messages: list[tuple] = []
    models.message_told.connect(lambda *message: messages.append(message))
    return messages


def test_a_chat_appears_in_the_list_with_its_first_question(models):
    models.conversation.ask("What notice applies?")
    assert models.chat_list.index(0).data() == "What notice applies?"


def test_the_questions_of_a_command_beside_the_window_make_it_busy_and_change_no_chat(models, client):
    models.conversation.ask("What notice applies?")
    turns, sources = list(models.conversation.turns), models.sources.passages
    client.tell(protocol.AnswerState(question_id="a command's", state="writing"))
    assert models.engine_status.sentence == "Answering…"
    client.tell(found("a command's"), tokens("a command's", "Blue."), finished("a command's"))
    client.tell(protocol.AnswerCancelled(question_id="another"))
    assert models.engine_status.sentence == "Ready"
    assert (list(models.conversation.turns), models.sources.passages) == (turns, sources)
    assert models.chat_list.rowCount() == 1


def test_the_sources_follow_the_newest_turn(models, client):
    models.conversation.ask("one")
    first = models.conversation.turns[-1].turn_id
    client.tell(found(first, passage(1)))
    assert models.sources.passages == (passage(1),)
    models.conversation.ask("two")
    assert models.sources.passages == ()
    client.tell(finished(first, passages=(passage(2),)))
    assert models.sources.passages == ()


def test_the_sources_stay_with_a_turn_that_was_selected(models, client):
    models.conversation.ask("one")
    first = models.conversation.turns[-1]
    client.tell(finished(first.turn_id, passages=(passage(1),)))
    models.conversation.ask("two")
    models.sources.show_turn(models.conversation.turn(first.turn_id))
    client.tell(found(models.conversation.turns[-1].turn_id, passage(5)))
    assert models.sources.passages == (passage(1),)


def test_deleting_the_open_chat_stops_its_answers_and_opens_a_new_one(models, client):
    models.conversation.ask("one")
    turn_id, chat = models.conversation.turns[-1].turn_id, models.conversation.conversation_id
    models.chat_list.delete(chat)
    assert client.asked(protocol.CANCEL) == [protocol.CancelQuestion(question_id=turn_id)]
    assert models.conversation.conversation_id is None
    assert models.conversation.turns == []
    assert models.sources.passages == ()
    models.chat_list.undo_delete()
    assert models.conversation.conversation_id == chat
    assert [turn.question for turn in models.conversation.turns] == ["one"]


def refuse(client) -> None:
    client.refuse(protocol.ADD, "There is nothing at gone.pdf.", "NothingThere")


def test_a_refused_attachment_is_taken_off_the_chat_that_it_was_attached_to(models, client):
    chat = models.conversation
    # It is stored only once something is asked.
    models.attach(["/docs/gone.pdf"])
    chat.ask("one")
    first = chat.conversation_id
    chat.new_chat()
    models.attach(["/docs/gone.pdf"])
    refuse(client)
    assert chat.filters.paths == ("/docs/gone.pdf",)
    refuse(client)
    assert chat.filters.paths == ()
    chat.open(first)
    assert chat.filters.paths == ()


def test_a_refused_attachment_of_a_chat_that_nobody_asked_in_is_no_other_chats(models, client):
    models.attach(["/docs/gone.pdf"])
    models.conversation.new_chat()
    models.conversation.set_filters(Filters(paths=("/docs/gone.pdf",)))
    refuse(client)
    assert models.conversation.filters.paths == ("/docs/gone.pdf",)


@pytest.mark.parametrize("where", ["there", "elsewhere", "there again"])
def test_a_chat_that_left_files_out_does_so_again_when_what_was_attached_is_refused(models, client, where):
    chat = models.conversation
    chat.leave_files_out()
    chat.ask("one")
    first = chat.conversation_id
    models.attach(["/docs/gone.pdf"])
    assert chat.searches
    if where != "there":
        chat.new_chat()
    if where == "there again":
        chat.open(first)
    refuse(client)
    chat.open(first)
    assert (chat.searches, chat.filters) == (False, Filters())


@pytest.mark.parametrize("is_open", [True, False])
def test_it_does_so_too_when_two_attachments_are_refused_at_once(models, client, is_open):
    chat = models.conversation
    chat.leave_files_out()
    chat.ask("one")
    first = chat.conversation_id
    models.attach(["/docs/gone.pdf"])
    models.attach(["/docs/gone too.pdf"])
    if not is_open:
        chat.new_chat()
    refuse(client)
    refuse(client)
    chat.open(first)
    assert (chat.searches, chat.filters) == (False, Filters())


def test_a_chat_that_searched_before_goes_on_when_a_later_attachment_is_refused(models, client):
    chat = models.conversation
    chat.leave_files_out()
    models.attach(["/docs/report.pdf"])
    client.answer(protocol.ADD, protocol.Nothing())
    chat.set_filters(Filters())
    models.attach(["/docs/gone.pdf"])
    refuse(client)
    assert (chat.searches, chat.filters) == (True, Filters())


def test_whoever_chose_where_to_search_meanwhile_has_it_searched(models, client):
    models.conversation.leave_files_out()
    models.attach(["/docs/gone.pdf"])
    models.conversation.set_collection("Flat")
    refuse(client)
    assert (models.conversation.searches, models.conversation.filters) == (True, Filters())


TINY, LARGE = (ModelEntry(path=f"/m/{name}.gguf", name=name) for name in ("tiny", "large"))


def choose(client, models, chosen: ModelEntry, *known: ModelEntry) -> None:
    models.model_picker.refresh()
    client.answer(protocol.MODELS, protocol.ModelsReply(models=known, current=chosen.path))


def list_files(client, num_files: int) -> None:
    documents = tuple(
        Document(number, ("Documents",), f"/docs/{number}.pdf", "indexed", "", 1, 1, "hash", "pdf", 3)
        for number in range(num_files)
    )
    reply = protocol.DocumentsReply(documents=documents, total=num_files, by_state={"indexed": num_files})
    client.answer(protocol.DOCUMENTS, reply)


def test_a_question_to_every_file_goes_on_with_the_model_that_has_answered_so_far(models, client, told):
    choose(client, models, TINY, TINY, LARGE)
    models.each_file.begin("When does it end?", ("Documents",))
    list_files(client, 3)
    first = client.asked(protocol.ASK)[0]
    client.tell(finished(first.question_id, model="tiny"))
    models.each_file.pause()
    for ask in client.asked(protocol.ASK)[1:]:
        client.tell(protocol.AnswerCancelled(question_id=ask.question_id))
    choose(client, models, LARGE, TINY, LARGE)
    models.each_file.resume()
    assert [ask.model for ask in client.asked(protocol.ASK)] == [TINY.path] * 5
    assert told == []


def test_where_that_model_is_gone_it_says_so_and_goes_on_with_the_chosen_one(models, client, told):
    choose(client, models, TINY, TINY, LARGE)
    models.each_file.begin("When does it end?", ("Documents",))
    list_files(client, 2)
    first, second = client.asked(protocol.ASK)
    client.tell(finished(first.question_id, model="tiny"))
    models.each_file.pause()
    client.tell(protocol.AnswerCancelled(question_id=second.question_id))
    choose(client, models, LARGE, LARGE)
    models.each_file.resume()
    assert client.asked(protocol.ASK)[-1].model == LARGE.path
    [(severity, sentence, way_out)] = told
    assert (severity, bool(way_out)) == ("error", True)
    assert "The answers so far are from tiny" in sentence


def test_renaming_in_the_list_renames_the_open_chat(models):
    models.conversation.ask("one")
    models.chat_list.rename(models.conversation.conversation_id, "better")
    assert models.conversation.title == "better"


def test_the_collection_is_remembered_for_the_next_start(models, client, store):
    models.conversation.set_collection("Flat")
    again = AppModels(client, store, models.settings)
    assert again.conversation.collections == ("Flat",)


def test_what_fails_anywhere_is_told_in_one_place(models, client, told):
    models.library.add(["/x"])
    client.refuse(protocol.ADD, "There is no /x.", "NothingThere", "Look again.")
    models.model_picker.use("/m.gguf")
    client.refuse(protocol.MODELS_USE, "No model.", "ModelNotFound")
    client.die("It crashed.")
    assert told == [
        ("error", "There is no /x.", "Look again."),
        ("error", "No model.", ""),
        ("warning", "It crashed.", ""),
    ]


def test_an_engine_without_its_library_is_told_once_each_start(models, client, told):
    client.become_ready()
    while any(request.method is protocol.LIBRARY for request in client.open):
        client.refuse(protocol.LIBRARY, "The library is held.", "LibraryHeld", "Close the other.")
    assert told == [("error", "The library is held.", "Close the other.")]
    assert models.engine_status.has_failed


def test_a_problem_of_the_engine_is_told(models, client):
    problems: list[str] = []
    models.problem_found.connect(problems.append)
    client.tell(protocol.Problem(sentence="engine.toml has a wrong value."))
    assert problems == ["engine.toml has a wrong value."]


def test_closing_saves_what_was_being_written(models, client, store):
    models.conversation.ask("one")
    turn_id, chat = models.conversation.turns[-1].turn_id, models.conversation.conversation_id
    client.tell(tokens(turn_id, "Half"))
    models.close()
    (turn,) = store.turns(chat)
    assert (turn.outcome.state, turn.outcome.text) == ("cancelled", "Half")
