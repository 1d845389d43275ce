"""Tests for app.chats.store and app.chats.schema: what is on disk, also after the worst."""

from __future__ import annotations

import shutil
import sqlite3
import subprocess
import sys
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from app.chats import INTERRUPTED, ChatStore, schema
from app.chats.errors import ChatGone, ChatsUnusable
from app.chats.records import Outcome
from tests.helpers.searched_chats import chats_with

FINISHED = Outcome(
    state="finished",
    text="Drei Monate – 三个月.",
    passages=({"document": "/docs/na\udcefve.pdf", "page": None},),
    segments=({"role": "user"},),
    scope={"passages_used": 1},
    model="tiny",
)


def reopened(store: ChatStore, file: Path) -> ChatStore:
    store.close()
    return ChatStore(file)


def test_a_turn_comes_back_as_it_was_recorded(store, tmp_path):
    chat = store.create_conversation("Lease", collections=("Flat",))
    turn = store.add_turn(chat.conversation_id, None, "What notice applies?")
    store.record(turn.turn_id, FINISHED)
    again = reopened(store, tmp_path / "chats.sqlite")
    assert again.turns(chat.conversation_id) == (replace(turn, outcome=FINISHED),)
    assert again.conversation(chat.conversation_id).collections == ("Flat",)
    assert again.conversation(chat.conversation_id).leaf_id == turn.turn_id
    again.close()


def test_text_with_half_a_surrogate_pair_can_be_stored(store):
    chat = store.create_conversation("\ud83d oops")
    turn = store.add_turn(chat.conversation_id, None, "half \ud83d, whole \ud83d\ude00")
    assert turn.question == "half \ufffd, whole 😀"
    assert store.turns(chat.conversation_id)[0].question == turn.question


def test_chats_are_listed_pinned_first_and_then_the_newest(store):
    first, second, _ = (store.create_conversation(title) for title in ("first", "second", "third"))
    store.add_turn(first.conversation_id, None, "asked last")
    store.set_pinned(second.conversation_id, True)
    assert [chat.title for chat in store.conversations()] == ["second", "first", "third"]


def test_a_chat_is_the_newest_also_where_the_clock_was_put_back(store, monkeypatch):
    for title, clock in (("first", 9000.0), ("second", 5000.0), ("third", 5001.0)):
        monkeypatch.setattr("app.chats.store.time.time", lambda clock=clock: clock)
        store.add_turn(store.create_conversation(title).conversation_id, None, "question")
    assert [chat.title for chat in store.conversations()] == ["third", "second", "first"]


def test_a_deleted_chat_can_be_restored_until_the_store_is_opened_again(store, tmp_path):
    kept, gone = store.create_conversation("kept"), store.create_conversation("gone")
    store.add_turn(gone.conversation_id, None, "secret question")
    for chat in (kept, gone):
        store.delete(chat.conversation_id)
    assert store.conversations() == ()
    assert store.conversation(kept.conversation_id) is None
    store.restore(kept.conversation_id)
    again = reopened(store, tmp_path / "chats.sqlite")
    assert [chat.title for chat in again.conversations()] == ["kept"]
    with pytest.raises(ChatGone, match="no longer there"):
        again.restore(gone.conversation_id)
    assert again.turns(gone.conversation_id) == ()
    assert chats_with(again, "secret") == ()
    again.close()
    assert b"secret question" not in (tmp_path / "chats.sqlite").read_bytes()


@pytest.mark.parametrize("state", ["asked", "writing"])
def test_what_was_open_when_the_window_ended_is_failed_and_keeps_its_text(store, tmp_path, state):
    chat = store.create_conversation("chat")
    turn = store.add_turn(chat.conversation_id, None, "question")
    store.record(turn.turn_id, Outcome(state=state, text="Half an ans"))
    again = reopened(store, tmp_path / "chats.sqlite")
    (found,) = again.turns(chat.conversation_id)
    assert found.outcome == Outcome(state="failed", text="Half an ans", error_sentence=INTERRUPTED)
    again.close()


def test_what_a_call_returned_from_survives_a_kill(tmp_path):
    file = tmp_path / "chats.sqlite"
    script = f"""
import os, signal
from pathlib import Path
from app.chats import ChatStore
from app.chats.records import Outcome
store = ChatStore(Path({str(file)!r}))
chat = store.create_conversation("chat")
turn = store.add_turn(chat.conversation_id, None, "question")
store.record(turn.turn_id, Outcome(state="writing", text="as far as it got"))
os.kill(os.getpid(), signal.SIGKILL)
"""
    subprocess.run([sys.executable, "-c", script], check=False, cwd=Path(__file__).resolve().parents[3])
    store = ChatStore(file)
    (chat,) = store.conversations()
    assert store.turns(chat.conversation_id)[0].outcome.text == "as far as it got"
    store.close()


@pytest.mark.expects_warnings
@pytest.mark.parametrize("damage", ["header", "middle"])
def test_a_damaged_file_is_set_aside_with_a_sentence_and_never_deleted(tmp_path, damage):
    file = tmp_path / "chats.sqlite"
    store = ChatStore(file)
    chat = store.create_conversation("chat")
    for number in range(200):
        store.add_turn(chat.conversation_id, None, f"question {number} " * 50)
    store.close()
    content = bytearray(file.read_bytes())
    start = 0 if damage == "header" else 8192
    content[start : start + 20_000] = b"\xff" * 20_000
    file.write_bytes(content)

    again = ChatStore(file)
    assert len(again.conversations()) == (damage == "middle")
    (kept,) = (path for path in tmp_path.iterdir() if "set-aside" in path.name and path.suffix == ".sqlite")
    assert kept.read_bytes() == content
    assert str(kept) in again.problem
    again.create_conversation("works")
    again.close()


@pytest.mark.parametrize("has_ended", [True, False])
def test_all_of_a_large_file_is_looked_at_only_after_an_end_that_was_none(tmp_path, monkeypatch, has_ended):
    file = tmp_path / "chats.sqlite"
    store = ChatStore(file)
    store.create_conversation("chat")
    store.close()
    assert not file.with_name("chats.sqlite-wal").exists()
    if not has_ended:
        file.with_name("chats.sqlite-wal").touch()
    looked = []
    monkeypatch.setattr(schema, "_LARGE_BYTES", 1)
    check = schema._check
    monkeypatch.setattr(
        schema, "_check", lambda *args, looks_through: (looked.append(looks_through), check(*args, looks_through=True))
    )
    ChatStore(file).close()
    assert looked == [not has_ended]


@pytest.mark.expects_warnings
def test_what_can_be_read_of_a_large_file_is_saved_at_the_start_after_damage_was_met(tmp_path, monkeypatch):
    file = tmp_path / "chats.sqlite"
    store = ChatStore(file)
    chats = [store.create_conversation("chat") for _ in range(3)]
    for number in range(60):
        turn = store.add_turn(chats[number % 3].conversation_id, None, f"question {number}")
        store.record(turn.turn_id, Outcome(state="finished", text=f"{number} " * 20_000))
    store.close()
    content = bytearray(file.read_bytes())
    # Long texts lie in pages of their own, which nobody reads before the answer is shown.
    inside = content.index(b"17 " * 500) // 4096 * 4096 + 4096
    content[inside : inside + 4096] = b"\xff" * 4096
    file.write_bytes(content)
    monkeypatch.setattr(schema, "_LARGE_BYTES", 1)

    damaged = ChatStore(file)
    with pytest.raises(ChatsUnusable, match="damaged"):
        [damaged.turns(chat.conversation_id) for chat in chats]
    damaged.close()
    again = ChatStore(file)
    assert "3 chats were saved" in again.problem
    assert "kept in" in again.problem
    assert sum(len(again.turns(chat.conversation_id)) for chat in chats) == 59
    again.close()
    # Noted no more: the new file is looked at only if it has to be.
    assert not schema.is_noted_as_damaged(file)


def of_version(file: Path, version: int) -> None:
    connection = sqlite3.connect(file)
    connection.execute(f"PRAGMA user_version = {version}")
    connection.close()


def test_damage_inside_a_row_costs_neither_the_chat_nor_the_others(store):
    for title in ("whole", "damaged"):
        chat = store.create_conversation(title, filters={"formats": ["pdf"]})
        turn = store.add_turn(chat.conversation_id, None, "question")
        store.record(turn.turn_id, FINISHED)
    # A page of zeros at the end of a long row, and a bit that has turned over: SQLite takes them for what was stored.
    for change in (
        "UPDATE conversations SET title = CAST(x'666c6970ff' AS TEXT), filters = '{\"form' || char(0), model = ''",
        "UPDATE turns SET question = CAST(x'713fff' AS TEXT), passages = substr(passages, 1, 9), scope = char(0, 0),"
        " filters = '', refreshes = char(0)",
    ):
        store._connection.execute(f"{change} WHERE conversation_id = ?", (chat.conversation_id,))
    found, _ = store.conversations()
    assert (found.title, found.filters, found.model) == ("flip\ufffd", {}, "")
    (turn,) = store.turns(chat.conversation_id)
    assert turn.outcome == replace(FINISHED, passages=(), scope=None)
    assert [chat.title for chat in chats_with(store, "q?")] == ["flip\ufffd"]


def test_a_file_of_a_newer_ragdoll_is_left_where_it_is(store, tmp_path):
    file = tmp_path / "chats.sqlite"
    store.create_conversation("chat")
    store.close()
    of_version(file, 999)
    content = file.read_bytes()
    with pytest.raises(ChatsUnusable, match=r"newer Ragdoll.*update"):
        ChatStore(file)
    assert list(tmp_path.glob("*.sqlite")) == [file]
    assert file.read_bytes() == content


SET_ASIDE = "chats.set-aside-20260102-030405.sqlite"


def test_chats_that_an_older_ragdoll_has_set_aside_are_back_once_they_can_be_read(store, tmp_path):
    file, kept = tmp_path / "chats.sqlite", tmp_path / SET_ASIDE
    store.create_conversation("chat")
    store.close()
    file.rename(kept)
    of_version(kept, 999)
    # As the older one leaves it.
    ChatStore(file).close()
    assert kept.exists()
    of_version(kept, len(schema._MIGRATIONS))
    again = ChatStore(file)
    assert [chat.title for chat in again.conversations()] == ["chat"]
    again.close()
    assert not kept.exists()


@pytest.mark.parametrize("why", ["there are chats", "it is damaged", "it holds none"])
def test_what_was_set_aside_stays_there_where_it_is_no_better_than_what_there_is(store, tmp_path, why):
    file, kept = tmp_path / "chats.sqlite", tmp_path / SET_ASIDE
    if why != "it holds none":
        store.create_conversation("kept")
    store.close()
    content = file.read_bytes()
    kept.write_bytes(content[:-4096] + b"\xff" * 4096 if why == "it is damaged" else content)
    file.unlink()
    present = ChatStore(tmp_path / "other.sqlite")
    if why == "there are chats":
        present.create_conversation("present")
    present.close()
    (tmp_path / "other.sqlite").rename(file)
    again = ChatStore(file)
    assert [chat.title for chat in again.conversations()] == (["present"] if why == "there are chats" else [])
    again.close()
    assert kept.exists()
    # Else all of a large file would be looked through at each start.
    assert not file.with_name("chats.sqlite-wal").exists()


def test_chats_that_were_deleted_do_not_come_back_from_a_file_that_was_set_aside(store, tmp_path):
    file, kept = tmp_path / "chats.sqlite", tmp_path / SET_ASIDE
    chat = store.create_conversation("deleted")
    store.close()
    kept.write_bytes(file.read_bytes())
    again = ChatStore(file)
    again.delete(chat.conversation_id)
    again.close()
    # The first of these starts erases it, so that the second one finds a file without chats.
    for _ in range(3):
        again = ChatStore(file)
        assert again.conversations() == ()
        again.close()
    assert kept.exists()


def test_presets_that_were_deleted_do_not_come_back_either(store, tmp_path):
    file = tmp_path / "chats.sqlite"
    preset = store.presets.create("Terse", {"max_tokens": 64})
    store.close()
    for name in (SET_ASIDE, SET_ASIDE.replace("2026", "2025")):
        (tmp_path / name).write_bytes(file.read_bytes())
    file.unlink()
    # The newer of the two files is taken back.
    again = ChatStore(file)
    again.presets.delete(preset.preset_id)
    again.close()
    again = ChatStore(file)
    assert again.presets.presets() == ()
    again.close()


def test_a_folder_that_cannot_be_written_is_told_in_a_sentence(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(ChatsUnusable) as raised:
        ChatStore(tmp_path / "file" / "chats.sqlite")
    assert raised.value.sentence


def test_a_full_disk_is_told_and_leaves_what_was_there(store):
    chat = store.create_conversation("chat")
    turn = store.add_turn(chat.conversation_id, None, "question")
    (pages,) = store._connection.execute("PRAGMA page_count").fetchone()
    store._connection.execute(f"PRAGMA max_page_count = {pages}")
    with pytest.raises(ChatsUnusable, match="disk is full"):
        store.record(turn.turn_id, Outcome(state="finished", text="long " * 100_000))
    assert store.turns(chat.conversation_id)[0].outcome == Outcome()
    store.rename(chat.conversation_id, "still works")


@pytest.mark.skipif(sys.platform == "win32", reason="no limit there stands for a full disk")
@pytest.mark.parametrize("to_do", ["nothing", "what was deleted", "an index"])
def test_chats_are_shown_where_the_disk_is_full_from_the_start(store, tmp_path, to_do):
    for title in ("kept", "gone"):
        chat = store.create_conversation(title)
        store.add_turn(chat.conversation_id, None, "question")
    store.delete(chat.conversation_id)
    store.close()
    file = tmp_path / "chats.sqlite"
    if to_do != "what was deleted":
        ChatStore(file, has_full_text=to_do == "nothing").close()
    script = f"""
import resource
from pathlib import Path
from app.chats import ChatStore
from app.chats.errors import ChatsUnusable
resource.setrlimit(resource.RLIMIT_FSIZE, (1, 1))
store = ChatStore(Path({str(file)!r}))
(chat,) = store.conversations()
assert store.turns(chat.conversation_id)
assert bool(store.problem) == ({to_do!r} != "nothing"), store.problem
try:
    store.rename(chat.conversation_id, "other")
except ChatsUnusable:
    print(chat.title)
"""
    root = Path(__file__).resolve().parents[3]
    ended = subprocess.run([sys.executable, "-c", script], cwd=root, capture_output=True, text=True)
    assert (ended.stdout, ended.stderr) == ("kept\n", "")
    again = ChatStore(file)
    assert [chat.title for chat in again.conversations()] == ["kept"]
    again.close()


def test_chats_in_memory_work_and_say_why(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    store = ChatStore.in_memory("No disk.")
    assert (store.problem, store.is_kept, store.is_empty) == ("No disk.", False, True)
    store.create_conversation("chat")
    assert len(store.conversations()) == 1
    assert not store.is_empty
    store.close()
    assert list(tmp_path.iterdir()) == []


def chat_in(file: Path, title: str) -> None:
    store = ChatStore(file)
    chat = store.create_conversation(title)
    store.add_turn(chat.conversation_id, None, "What notice applies?")
    store.close()


def test_a_copy_has_all_chats_of_a_file_and_leaves_it_as_it_is(tmp_path):
    file = tmp_path / "chats.sqlite"
    chat_in(file, "kept")
    content = file.read_bytes()
    copy = ChatStore.copy_of(file, "It is write-protected.")
    assert (copy.problem, copy.is_kept, copy.is_empty) == ("It is write-protected.", False, True)
    (chat,) = copy.conversations()
    assert [turn.question for turn in copy.turns(chat.conversation_id)] == ["What notice applies?"]
    while copy.tidy_some():
        pass
    assert drained(copy.finding("notice")) == {chat.conversation_id}
    # What is in the file is lost to nobody.
    assert copy.is_empty
    copy.add_turn(chat.conversation_id, None, "And then?")
    assert not copy.is_empty
    copy.close()
    assert file.read_bytes() == content
    assert [path.name for path in tmp_path.iterdir()] == [file.name]


def drained(steps):
    while True:
        try:
            next(steps)
        except StopIteration as end:
            return end.value


def test_a_copy_has_what_a_killed_window_left_beside_the_file(tmp_path, monkeypatch):
    file, left = tmp_path / "chats.sqlite", tmp_path / "left"
    left.mkdir()
    store = ChatStore(file)
    store.create_conversation("kept")
    for part in (file, Path(f"{file}-wal")):
        shutil.copyfile(part, left / part.name)
    store.close()
    real, place = schema._readable, (left / file.name).as_uri()

    def readable(uri, reading):
        # What SQLite needs beside it cannot be made on a disk that is read-only.
        if uri.startswith(place):
            raise sqlite3.OperationalError("unable to open database file")
        return real(uri, reading)

    monkeypatch.setattr(schema, "_readable", readable)
    copy = ChatStore.copy_of(left / file.name, "It is write-protected.")
    assert [chat.title for chat in copy.conversations()] == ["kept"]
    copy.close()


def test_a_copy_of_an_older_file_is_as_new_as_any(tmp_path):
    file = tmp_path / "chats.sqlite"
    connection = sqlite3.connect(file)
    connection.executescript(FIRST_TABLES)
    connection.close()
    copy = ChatStore.copy_of(file, "It is write-protected.")
    assert [(chat.title, chat.filters) for chat in copy.conversations()] == [("Lease", {})]
    copy.close()


@pytest.mark.parametrize("content", [None, b"no chats at all " * 500])
def test_what_cannot_be_read_has_no_copy(tmp_path, content):
    file = tmp_path / "chats.sqlite"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(ChatsUnusable):
        ChatStore.copy_of(file, "It is write-protected.")


FIRST_TABLES = """
    CREATE TABLE conversations (conversation_id TEXT PRIMARY KEY, title TEXT NOT NULL, created REAL NOT NULL,
        updated REAL NOT NULL, is_pinned INTEGER NOT NULL DEFAULT 0, collection TEXT, leaf_id TEXT, deleted_at REAL);
    CREATE TABLE turns (number INTEGER PRIMARY KEY, turn_id TEXT NOT NULL UNIQUE,
        conversation_id TEXT NOT NULL REFERENCES conversations ON DELETE CASCADE, parent_id TEXT,
        question TEXT NOT NULL, created REAL NOT NULL, state TEXT NOT NULL, text TEXT NOT NULL,
        error_sentence TEXT NOT NULL, passages TEXT NOT NULL, quotes TEXT NOT NULL, citations TEXT NOT NULL,
        segments TEXT NOT NULL, scope TEXT NOT NULL, timings TEXT NOT NULL, model TEXT, finish_reason TEXT);
    CREATE INDEX turns_of_conversation ON turns (conversation_id, number);
    INSERT INTO conversations VALUES ('c1', 'Lease', 1.0, 2.0, 1, 'Flat', 't1', NULL);
    INSERT INTO turns VALUES (1, 't1', 'c1', NULL, 'What notice?', 1.5, 'finished', 'Three months.', '',
        '[]', '[]', '[]', '[]', 'null', 'null', 'tiny', 'stop');
    PRAGMA user_version = 1;
"""


def test_chats_of_the_first_version_are_all_there_and_have_no_filters(tmp_path):
    file = tmp_path / "chats.sqlite"
    connection = sqlite3.connect(file)
    connection.executescript(FIRST_TABLES)
    connection.close()
    store = ChatStore(file)
    assert store.problem == ""
    (chat,) = chats_with(store, "three")
    assert (chat.title, chat.collections, chat.leaf_id, chat.is_pinned, chat.filters) == (
        "Lease",
        ("Flat",),
        "t1",
        True,
        {},
    )
    (turn,) = store.turns("c1")
    assert (turn.question, turn.outcome.text, turn.filters) == ("What notice?", "Three months.", {})
    assert turn.outcome.refreshes == ()
    store.close()


def test_filters_of_a_chat_and_of_each_question_come_back(store, tmp_path):
    confined = {"paths": ["/docs/na\udcefve"], "formats": ["pdf"]}
    chat = store.create_conversation("chat", (), confined)
    store.add_turn(chat.conversation_id, None, "question", confined)
    store.set_filters(chat.conversation_id, {})
    again = reopened(store, tmp_path / "chats.sqlite")
    assert again.conversation(chat.conversation_id).filters == {}
    assert again.turns(chat.conversation_id)[0].filters == confined
    again.close()


FIFTH_TABLES = """
    CREATE TABLE conversations (conversation_id TEXT PRIMARY KEY, title TEXT NOT NULL, created REAL NOT NULL,
        updated REAL NOT NULL, is_pinned INTEGER NOT NULL DEFAULT 0, collection TEXT, leaf_id TEXT, deleted_at REAL,
        filters TEXT NOT NULL DEFAULT '{}');
    CREATE TABLE turns (number INTEGER PRIMARY KEY, turn_id TEXT NOT NULL UNIQUE,
        conversation_id TEXT NOT NULL REFERENCES conversations ON DELETE CASCADE, parent_id TEXT,
        question TEXT NOT NULL, created REAL NOT NULL, state TEXT NOT NULL, text TEXT NOT NULL,
        error_sentence TEXT NOT NULL, passages TEXT NOT NULL, quotes TEXT NOT NULL, citations TEXT NOT NULL,
        segments TEXT NOT NULL, scope TEXT NOT NULL, timings TEXT NOT NULL, model TEXT, finish_reason TEXT,
        filters TEXT NOT NULL DEFAULT '{}', refreshes TEXT NOT NULL DEFAULT '[]');
    CREATE TABLE runs (number INTEGER PRIMARY KEY, run_id TEXT NOT NULL UNIQUE, question TEXT NOT NULL,
        collection TEXT, created REAL NOT NULL);
    CREATE TABLE run_files (number INTEGER PRIMARY KEY, file_id TEXT NOT NULL UNIQUE,
        run_id TEXT NOT NULL REFERENCES runs (run_id) ON DELETE CASCADE, document_id INTEGER NOT NULL,
        path TEXT NOT NULL, state TEXT NOT NULL, text TEXT NOT NULL, error_sentence TEXT NOT NULL,
        passages TEXT NOT NULL, quotes TEXT NOT NULL, citations TEXT NOT NULL, segments TEXT NOT NULL,
        scope TEXT NOT NULL, timings TEXT NOT NULL, model TEXT, finish_reason TEXT, refreshes TEXT NOT NULL,
        places TEXT NOT NULL DEFAULT '[]');
    INSERT INTO conversations VALUES ('c1', 'Lease', 1.0, 2.0, 0, 'Flat', 't1', NULL, '{"formats": ["pdf"]}');
    INSERT INTO turns VALUES (1, 't1', 'c1', NULL, 'What notice?', 1.5, 'finished', 'Three months.', '',
        '[]', '[]', '[]', '[]', 'null', 'null', 'tiny', 'stop', '{}', '[]');
    INSERT INTO runs VALUES (1, 'r1', 'Who pays?', NULL, 3.0);
    PRAGMA user_version = 5;
"""


def test_chats_from_before_each_had_a_model_follow_the_choice_and_can_have_one(tmp_path):
    file = tmp_path / "chats.sqlite"
    connection = sqlite3.connect(file)
    connection.executescript(FIFTH_TABLES)
    connection.close()
    store = ChatStore(file)
    assert store.problem == ""
    (chat,) = store.conversations()
    assert (chat.title, chat.filters, chat.model) == ("Lease", {"formats": ["pdf"]}, "")
    assert store.turns("c1")[0].outcome.model == "tiny"
    assert store.turns("c1")[0].outcome.thoughts == ""
    assert (chat.searches, store.turns("c1")[0].searches) == (True, True)
    assert [run.question for run in store.runs.runs()] == ["Who pays?"]
    store.set_model("c1", "/m/tiny.gguf")
    again = reopened(store, file)
    assert again.conversation("c1").model == "/m/tiny.gguf"
    again.close()


def test_which_collections_a_chat_asks_comes_back(store, tmp_path):
    several = store.create_conversation("several", ("Flat", "Tea \u2028 & “milk”"))
    changed = store.create_conversation("changed", ("Flat", "Tea"), searches=False)
    store.set_collections(changed.conversation_id, ("Tea", "Work", "Flat"), searches=False)
    alone = store.create_conversation("alone", ("Flat", "Tea"))
    store.set_collections(alone.conversation_id, ("Tea",))
    run = store.runs.create("When?", ("Flat", "Tea"), [(1, "/docs/a.pdf")])
    again = reopened(store, tmp_path / "chats.sqlite")
    chats = [again.conversation(chat.conversation_id) for chat in (several, changed, alone)]
    assert several == chats[0]
    assert [chat.collections for chat in chats[1:]] == [("Tea", "Work", "Flat"), ("Tea",)]
    assert again.runs.runs() == (run,)
    assert set(again.collections_asked()) == {"Flat", "Tea", "Work", "Tea \u2028 & “milk”"}
    again.close()


def test_what_asks_several_collections_asks_one_of_them_by_its_new_name(store):
    several = store.create_conversation("several", ("Flat", "Tea", "Work"))
    both = store.create_conversation("both", ("Work", "Flat"))
    other = store.create_conversation("other", ("Flat", "Tea"))
    run = store.runs.create("When?", ("Tea", "Work"), [(1, "/docs/a.pdf")])
    store.rename_collection("Work", "Firm")
    # What another of them was called before.
    store.rename_collection("Firm", "Flat")
    asked = [store.conversation(chat.conversation_id).collections for chat in (several, both, other)]
    assert asked == [("Flat", "Tea"), ("Flat",), ("Flat", "Tea")]
    assert [(one.run_id, one.collections) for one in store.runs.runs()] == [(run.run_id, ("Tea", "Flat"))]


@pytest.mark.parametrize("damage", ["[", "7", '{"a": 1}', '["Tea", 7]'])
def test_of_collections_that_are_damaged_what_can_be_read_is_asked(store, tmp_path, damage):
    chat = store.create_conversation("several", ("Flat", "Tea"))
    with closing(sqlite3.connect(tmp_path / "chats.sqlite")) as connection, connection:
        connection.execute("UPDATE conversations SET collections = ?", (damage,))
    assert store.conversation(chat.conversation_id).collections == (("Tea",) if damage == '["Tea", 7]' else ())
    assert set(store.collections_asked()) <= {"Tea"}
    store.rename_collection("Tea", "Milk")


def test_that_a_chat_or_a_question_leaves_files_out_comes_back(store, tmp_path):
    alone = store.create_conversation("one", ("Flat",), searches=False)
    turn = store.add_turn(alone.conversation_id, None, "Say hello.", searches=False)
    store.add_variant("variant", turn.turn_id, FINISHED)
    back = store.create_conversation("two", searches=False)
    store.set_collections(back.conversation_id, ("Flat",))
    left = store.create_conversation("three")
    store.set_collections(left.conversation_id, (), searches=False)
    again = reopened(store, tmp_path / "chats.sqlite")
    chats = [again.conversation(chat.conversation_id) for chat in (alone, back, left)]
    assert [(chat.collections, chat.searches) for chat in chats] == [(("Flat",), False), (("Flat",), True), ((), False)]
    assert [turn.searches for turn in again.turns(alone.conversation_id)] == [False, False]
    again.close()


def test_the_model_of_a_chat_comes_back_whatever_its_file_is_called(store, tmp_path):
    named = store.create_conversation("one", model="/m/na\udcefve.gguf")
    quoting = store.create_conversation("two", model="none")
    following = store.create_conversation("three")
    again = reopened(store, tmp_path / "chats.sqlite")
    chats = [again.conversation(chat.conversation_id) for chat in (named, quoting, following)]
    assert [chat.model for chat in chats] == ["/m/na\udcefve.gguf", "none", ""]
    again.close()


def test_a_disk_that_fills_up_while_the_file_is_made_is_what_is_told(tmp_path, monkeypatch):
    def full(connection: sqlite3.Connection) -> None:
        # As SQLite does by itself then.
        connection.execute("ROLLBACK")
        raise sqlite3.OperationalError("database or disk is full")

    monkeypatch.setattr(schema, "_MIGRATIONS", (full,))
    with pytest.raises(sqlite3.OperationalError, match="disk is full"):
        schema.open_database(tmp_path / "chats.sqlite")


def test_how_a_chat_is_answered_comes_back_and_chats_from_before_follow_the_settings(store, tmp_path):
    own = store.create_conversation("own", manner={"instructions": "In verse \ud83d.", "temperature": 0.0})
    changed, usual = store.create_conversation("changed"), store.create_conversation("usual")
    store.set_manner(changed.conversation_id, {"thinks": True})
    again = reopened(store, tmp_path / "chats.sqlite")
    chats = [again.conversation(chat.conversation_id) for chat in (own, changed, usual)]
    assert [chat.manner for chat in chats] == [own.manner, {"thinks": True}, {}]
    again.close()


def test_chats_from_before_there_were_presets_are_as_the_settings_say_and_can_be_otherwise(tmp_path):
    file = tmp_path / "chats.sqlite"
    connection = sqlite3.connect(file)
    connection.executescript(FIFTH_TABLES)
    connection.close()
    store = ChatStore(file)
    assert (store.conversation("c1").manner, store.presets.presets()) == ({}, ())
    store.set_manner("c1", {"max_tokens": 64})
    store.presets.create("Terse", {"max_tokens": 64})
    again = reopened(store, file)
    assert again.conversation("c1").manner == {"max_tokens": 64}
    assert [preset.name for preset in again.presets.presets()] == ["Terse"]
    again.close()


def test_presets_are_no_less_than_chats_where_a_file_was_set_aside(store, tmp_path):
    file, kept = tmp_path / "chats.sqlite", tmp_path / SET_ASIDE
    store.create_conversation("old")
    store.close()
    file.rename(kept)
    present = ChatStore(tmp_path / "other.sqlite")
    present.presets.create("Terse", {"max_tokens": 64})
    present.close()
    (tmp_path / "other.sqlite").rename(file)
    again = ChatStore(file)
    assert [preset.name for preset in again.presets.presets()] == ["Terse"]
    again.close()
    assert kept.exists()
