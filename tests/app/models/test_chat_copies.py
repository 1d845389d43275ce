"""Tests for app.models.chat_copies and app.models.titles: copies of chats, whole or up to an answer."""

from __future__ import annotations

import pytest

from app.models import AppModels
from app.models.titles import title_of_copy
from app.settings import SettingsStore
from engine import protocol
from engine.protocol import Filters, Manner
from tests.helpers.answers import finished, tokens


@pytest.fixture
def models(client, store, tmp_path):
    made = AppModels(client, store, SettingsStore(tmp_path / "window.toml"))
    yield made
    made.close()


def ask(models, client, text: str, number: int) -> str:
    models.conversation.ask(text)
    turn_id = models.conversation.turns[-1].turn_id
    client.tell(finished(turn_id, f"Answer {number}.", segments=({"n": number},)))
    return turn_id


def questions(models) -> list[str]:
    return [turn.question for turn in models.conversation.turns]


def test_a_chat_goes_on_from_an_answer_in_another_chat_with_the_same_choices(models, client, store):
    chat = models.conversation
    chat.set_collections(("Flat", "Law"))
    ids = [ask(models, client, text, number) for number, text in enumerate(("one", "two", "three"), start=1)]
    chat.set_filters(Filters(paths=("/docs/a.pdf",)))
    chat.set_model("m.gguf")
    chat.set_manner(Manner(instructions="Be brief."))
    original = chat.conversation_id
    models.copies.branch_off(ids[1])
    assert chat.conversation_id not in (None, original)
    assert questions(models) == ["one", "two"]
    assert chat.title == "one (2)"
    assert (chat.collections, chat.filters.paths, chat.model) == (("Flat", "Law"), ("/docs/a.pdf",), "m.gguf")
    assert chat.manner.instructions == "Be brief."
    assert [turn.text for turn in chat.turns] == ["Answer 1.", "Answer 2."]
    assert models.chat_list.index(0).data() == "one (2)"
    # What the engine is sent is what it was sent before, so that it finds what it has read.
    chat.set_filters(Filters())
    chat.ask("another way")
    asked = client.asked(protocol.ASK)[-1]
    assert asked.transcript == ({"n": 1}, {"n": 2})
    assert asked.conversation_id == chat.conversation_id
    # The original is untouched.
    assert [turn.question for turn in store.turns(original)] == ["one", "two", "three"]


def test_of_several_branches_the_shown_one_is_continued(models, client):
    first = ask(models, client, "one", 1)
    models.conversation.edit(first, "uno")
    last = models.conversation.turns[-1].turn_id
    client.tell(finished(last, "Answer."))
    models.copies.branch_off(last)
    assert questions(models) == ["uno"]
    assert models.conversation.turns[0].num_branches == 1


def test_nothing_goes_on_from_an_answer_that_is_being_written(models, client, store):
    models.conversation.ask("one")
    models.copies.branch_off(models.conversation.turns[0].turn_id)
    models.copies.branch_off("unknown")
    assert len(store.conversations()) == 1


def test_a_duplicate_has_all_branches_and_is_the_newest_chat(models, client, store):
    first = ask(models, client, "one", 1)
    models.conversation.edit(first, "uno")
    client.tell(finished(models.conversation.turns[-1].turn_id, "Answer."))
    original = models.conversation.conversation_id
    models.chat_list.set_pinned(original, True)
    models.conversation.switch_branch(models.conversation.turns[0].turn_id, -1)
    models.copies.duplicate(original)
    made = models.conversation.conversation_id
    assert made != original
    assert questions(models) == ["one"]
    assert models.conversation.turns[0].num_branches == 2
    assert not store.conversation(made).is_pinned
    assert [turn.question for turn in store.turns(made)] == ["one", "uno"]


def test_a_duplicate_of_a_chat_that_answers_ends_where_the_answer_is(models, client):
    models.conversation.ask("one")
    running = models.conversation.turns[0].turn_id
    client.tell(tokens(running, "Half an"))
    models.copies.duplicate(models.conversation.conversation_id)
    (turn,) = models.conversation.turns
    assert (turn.turn_id == running, turn.state, turn.text) == (False, "cancelled", "Half an")
    # The original is still answered.
    assert models.answering.view(running).state == "writing"


def test_a_chat_that_is_gone_has_no_copy(models, client, store):
    models.copies.duplicate("unknown")
    assert store.conversations() == ()


def test_a_copy_that_the_disk_refuses_is_told_and_the_chat_stays_open(models, client, store, qtbot):
    ask(models, client, "one", 1)
    original = models.conversation.conversation_id
    store._connection.execute("PRAGMA query_only = ON")
    with qtbot.wait_signal(models.copies.store_failed):
        models.copies.duplicate(original)
    store._connection.execute("PRAGMA query_only = OFF")
    assert models.conversation.conversation_id == original
    assert len(store.conversations()) == 1


def test_choices_that_are_not_on_the_disk_yet_are_copied(models, client, store, qtbot):
    turn_id = ask(models, client, "one", 1)
    store._connection.execute("PRAGMA query_only = ON")
    models.conversation.set_manner(Manner(instructions="Be brief."))
    store._connection.execute("PRAGMA query_only = OFF")
    models.copies.branch_off(turn_id)
    assert models.conversation.manner.instructions == "Be brief."


@pytest.mark.parametrize(
    ("title", "taken", "made"),
    [
        ("Lease", {"Lease"}, "Lease (2)"),
        ("Lease", {"Lease", "Lease (2)"}, "Lease (3)"),
        ("Lease (2)", {"Lease", "Lease (2)"}, "Lease (3)"),
        ("Law (12345678)", {"Law (12345678)"}, "Law (12345678) (2)"),
        ("", {""}, " (2)"),
    ],
)
def test_a_copy_is_named_by_the_next_free_number(title, taken, made):
    assert title_of_copy(title, taken) == made
