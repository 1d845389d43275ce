"""Tests for app.chats.rescue: what a damaged file of chats still has, whichever of its pages are gone."""

from __future__ import annotations

import random
import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest

from app.chats import ChatStore, branches, schema
from app.chats.errors import ChatsUnusable
from app.chats.records import Outcome
from tests.helpers.searched_chats import chats_with

PAGE = 4096
NUM_CHATS = 100
Zero = Callable[[str, int], None]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A hundred chats of two turns, and a question to three files."""
    words, file = random.Random(7), tmp_path / "chats.sqlite"
    store = ChatStore(file)
    for number in range(NUM_CHATS):
        chat = store.create_conversation(f"chat {number}")
        first = store.add_turn(chat.conversation_id, None, f"question {number}")
        second = store.add_turn(chat.conversation_id, first.turn_id, f"and {number}?")
        for turn in (first, second):
            text = " ".join("".join(words.choices("abcdefghij", k=6)) for _ in range(150))
            store.record(turn.turn_id, Outcome(state="finished", text=f"{text} lemon{number}x"))
    store.runs.create("Who pays?", (), [(number, f"/docs/{number}.pdf") for number in range(3)])
    store.presets.create("Poet", {"temperature": 0.9})
    store.close()
    return file


@pytest.fixture
def zero(file: Path) -> Zero:
    def zero(table: str, nth: int) -> None:
        """Zeroes one page of a table or an index, as a bad sector or a lost write does."""
        connection = sqlite3.connect(file)
        try:
            pages = connection.execute("SELECT pageno FROM dbstat WHERE name = ? ORDER BY path", (table,)).fetchall()
        except sqlite3.OperationalError:
            pytest.skip("this SQLite does not tell which page belongs to what")
        finally:
            connection.close()
        content = bytearray(file.read_bytes())
        (page,) = pages[nth]
        content[(page - 1) * PAGE : page * PAGE] = bytes(PAGE)
        file.write_bytes(content)

    return zero


@pytest.mark.expects_warnings
@pytest.mark.parametrize("nth", [0, 1, 20, -1])
def test_damage_to_the_search_index_costs_no_chat(file, zero, nth):
    zero("turns_index_data", nth)
    store = ChatStore(file)
    chats = store.conversations()
    assert len(chats) == NUM_CHATS
    assert all(len(store.turns(chat.conversation_id)) == 2 for chat in chats)
    assert [chat.title for chat in chats_with(store, "lemon77x")] == ["chat 77"]
    (run,) = store.runs.runs()
    assert len(store.runs.files(run.run_id)) == 3
    assert [preset.name for preset in store.presets.presets()] == ["Poet"]
    assert f"{NUM_CHATS} chats were saved" in store.problem
    store.close()
    again = ChatStore(file)
    assert (again.problem, len(again.conversations())) == ("", NUM_CHATS)
    again.close()


@pytest.mark.expects_warnings
@pytest.mark.parametrize("nth", [0, 1, 20, -1])
def test_a_bad_page_of_answers_costs_these_alone(file, zero, nth):
    zero("turns", nth)
    store = ChatStore(file)
    chats = store.conversations()
    assert len(chats) == NUM_CHATS
    num_turns = sum(len(store.turns(chat.conversation_id)) for chat in chats)
    # The first page is the way to all the others: nothing but the chats' names is found then.
    assert num_turns == 0 if nth == 0 else 2 * NUM_CHATS - 5 < num_turns < 2 * NUM_CHATS
    store.close()


@pytest.mark.expects_warnings
def test_chats_whose_names_are_lost_are_called_as_they_begin(file, zero):
    zero("conversations", 1)
    store = ChatStore(file)
    chats = store.conversations()
    assert len(chats) == NUM_CHATS
    renamed = [chat for chat in chats if chat.title.startswith("question")]
    assert 0 < len(renamed) < NUM_CHATS
    assert all(store.turns(chat.conversation_id)[0].question == chat.title for chat in renamed)
    store.close()


@pytest.mark.expects_warnings
def test_what_followed_a_lost_turn_follows_the_one_before_it(tmp_path):
    file = tmp_path / "chats.sqlite"
    store = ChatStore(file)
    chat, parent = store.create_conversation("chat"), None
    for number in range(9):
        turn = store.add_turn(chat.conversation_id, parent, f"question {number}")
        store.record(turn.turn_id, Outcome(state="finished", text=f"{number} " * 5_000))
        parent = turn.turn_id
    store.close()
    content = bytearray(file.read_bytes())
    inside = content.index(b"4 " * 500) // PAGE * PAGE + PAGE
    content[inside : inside + PAGE] = b"\xff" * PAGE
    file.write_bytes(content)
    again = ChatStore(file)
    shown = branches.branch(again.turns(chat.conversation_id), parent)
    assert [turn.question for turn in shown] == [f"question {number}" for number in range(9) if number != 4]
    again.close()


@pytest.mark.expects_warnings
def test_a_disk_without_room_for_what_is_saved_leaves_the_damaged_file_where_it_is(file, zero, monkeypatch):
    def full(damaged: Path, into: sqlite3.Connection) -> int:
        (pages,) = into.execute("PRAGMA page_count").fetchone()
        into.execute(f"PRAGMA max_page_count = {pages + 2}")
        return rescue(damaged, into)

    rescue = schema.rescue
    zero("turns_index_data", 3)
    content = file.read_bytes()
    monkeypatch.setattr(schema, "rescue", full)
    with pytest.raises(sqlite3.OperationalError, match="full"):
        schema.open_database(file)
    assert [path.name for path in file.parent.iterdir() if path.suffix == ".sqlite"] == [file.name]
    assert file.read_bytes() == content


def test_what_was_saved_is_found_where_ragdoll_was_ended_before_it_was_in_its_place(file):
    file.rename(file.with_name("chats.rescued.sqlite"))
    store = ChatStore(file)
    assert len(store.conversations()) == NUM_CHATS
    store.close()


@pytest.mark.expects_warnings
def test_an_index_that_tells_nonsense_is_made_anew_at_the_start_after_it_was_met(file):
    connection = sqlite3.connect(file)
    # Where its words are found; the file as such is whole.
    connection.execute("UPDATE turns_index_data SET block = x'ffffffff' WHERE id > 1")
    connection.execute("DELETE FROM turns_index_docsize")
    connection.commit()
    connection.close()
    schema.note_damage(file)
    store = ChatStore(file)
    assert [chat.title for chat in chats_with(store, "lemon77x")] == ["chat 77"]
    assert len(store.conversations()) == NUM_CHATS
    store.close()
    assert not schema.is_noted_as_damaged(file)


@pytest.mark.expects_warnings
def test_a_damaged_index_that_is_met_while_an_answer_is_written_costs_no_answer(file, zero, monkeypatch):
    zero("turns_index_idx", 0)
    monkeypatch.setattr(schema, "_LARGE_BYTES", 1)
    store = ChatStore(file)
    chat = store.conversations()[0]
    turn = store.turns(chat.conversation_id)[0]
    with pytest.raises(ChatsUnusable, match="damaged"):
        store.record(turn.turn_id, Outcome(state="finished", text="limes"))
    # As it is tried again by whoever writes the answer.
    store.record(turn.turn_id, Outcome(state="finished", text="limes"))
    assert chats_with(store, "limes") == (chat,)
    store.close()
    again = ChatStore(file)
    assert len(again.conversations()) == NUM_CHATS
    assert chats_with(again, "limes") == (chat,)
    again.close()
