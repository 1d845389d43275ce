"""Tests for engine.cli.running: commands beside an engine that holds the library, here one of ours in this process."""

from __future__ import annotations

import json
import os
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from engine import __main__ as engine_process
from engine import cli, guests, lock, protocol, wire
from engine.cli import opening
from engine.config import Home
from engine.door import FILE, knock
from engine.engine import Engine
from engine.errors import ModelLoadFailed
from engine.events import DownloadsChanged
from engine.generation.model import Model
from engine.guests import listening
from engine.host import EngineDesk
from engine.session import Awaited
from tests.helpers.model_hub import ModelHub, Refusal
from tests.helpers.pdf import pdf
from tests.helpers.quick_stores import use_quick_stores
from tests.helpers.ragdoll_command import Done, Ragdoll
from tests.helpers.tiny_gguf import write_tiny_model

PATIENCE_S = 60.0
NOTES = {
    "flat.md": "The lease ends in May. The notice period is three months.",
    "garden.md": "The apple tree is watered in May.",
    "boat.txt": "The boat is moored in the harbour.",
}


@pytest.fixture
def docs(tmp_path: Path) -> Path:
    docs = tmp_path / "docs"
    docs.mkdir()
    for name, text in NOTES.items():
        (docs / name).write_text(text)
    return docs


@pytest.fixture
def ragdoll(tmp_path: Path, docs: Path, monkeypatch: pytest.MonkeyPatch) -> Ragdoll:
    """A library with some notes in it; its embedding model is of no size."""
    use_quick_stores(monkeypatch.setattr)
    ragdoll = Ragdoll(tmp_path / "home")
    assert ragdoll.json("add", docs)["documents"]["indexed"] == len(NOTES)
    return ragdoll


@pytest.fixture
def open_engine(ragdoll: Ragdoll) -> Iterator[Callable[[], Engine]]:
    """Opens the library as the window's process does, and keeps it open."""
    with ExitStack() as stack:

        def open_it() -> Engine:
            engine = stack.enter_context(Engine.open(ragdoll.home))
            stack.enter_context(listening(EngineDesk(engine), engine))
            return engine

        yield open_it


def without_times(document: Any) -> Any:
    """The same, without what differs between two runs of the same."""
    if isinstance(document, dict):
        told = {"timeline", "seconds", "bytes_on_disk", "memory", "description"}
        return {name: without_times(value) for name, value in document.items() if name not in told}
    return [without_times(value) for value in document] if isinstance(document, list) else document


COMMANDS = {
    "search": ["search", "When does the lease end?", "--top-k", "2"],
    "search in a file": ["search", "May", "--in", "DOCS/garden.md"],
    "search by type": ["search", "May", "--type", "md", "--literal"],
    "ask": ["ask", "When does the lease end?"],
    "search for people": ["search", "May"],
    "ask for people": ["ask", "When does the lease end?"],
    "ask with options": ["ask", "May", "--instructions", "Be brief.", "--sampling", "top_k=3", "--seed", "5"],
    "ask a collection": ["ask", "May", "--collection", "Documents", "--temperature", "0"],
    "ask several collections": ["ask", "May", "--collection", "Documents", "--collection", "documents"],
    "half a character": ["ask", "May\ud800", "--instructions", "\ud800"],
    "status": ["status"],
    "models": ["models"],
    "settings": ["settings"],
    "one setting": ["settings", "generation.seed"],
    "a setting for people": ["settings", "generation.seed"],
    "rescan": ["rescan"],
    "add again": ["add", "DOCS"],
    "prioritise": ["prioritise", "DOCS"],
    "nothing to ask": ["ask", " "],
    "no such collection": ["search", "x", "--collection", "None such"],
    "no such collection among several": ["ask", "x", "--collection", "Documents", "--collection", "None such"],
    "what is no name among several": ["search", "x", "--collection", "Documents", "--collection", "\udcff"],
    "no such path": ["add", "/nowhere/at/all"],
    "nothing to remove": ["remove", "/nowhere/at/all"],
    "nothing to settle": ["settle", "DOCS", "--keep"],
    "nothing to unlock": ["unlock", "DOCS", "--password-file", "DOCS/boat.txt"],
    "too many passages": ["search", "x", "--top-k", "9" * 20],
    "an empty path": ["remove", ""],
    "no such day": ["search", "x", "--since", "yesterday"],
    "no such file of a model": ["ask", "x", "--model", "/nowhere.gguf"],
    "no model": ["ask", "x", "--model", "DOCS/boat.txt"],
    "a wrong setting": ["settings", "generation.temperature=hot"],
    "a model as a setting": ["settings", "models.current=/nowhere.gguf"],
    "no such model": ["models", "use", "nowhere"],
    "not got": ["models", "delete", "nowhere"],
    "an embedding model that was not got": ["embedders", "delete", "owner/name"],
    "no such file to ask": ["ask", "x", "--each-file", "--until", "1999-12-31"],
}
# Without --json.
FOR_PEOPLE = {"search for people", "ask for people", "a setting for people", "no such path", "a wrong setting"}


def test_commands_answer_the_same_beside_an_open_window(
    ragdoll: Ragdoll, docs: Path, open_engine: Callable[[], Engine]
) -> None:
    def run(name: str) -> Done:
        more = () if name in FOR_PEOPLE else ("--json",)
        return ragdoll.run_here(*(word.replace("DOCS", str(docs)) for word in COMMANDS[name]), *more)

    alone = {name: run(name) for name in COMMANDS}
    open_engine()
    for name, was in alone.items():
        done = run(name)
        assert (done.code, done.error) == (was.code, was.error), name
        if name in FOR_PEOPLE or not was.out:
            assert done.out == was.out, name
        else:
            assert without_times(json.loads(done.out)) == without_times(json.loads(was.out)), name
    assert ragdoll.json("models", "get")["catalogue"]


def test_what_an_open_window_answers_imports_no_engine(
    ragdoll: Ragdoll, open_engine: Callable[[], Engine], monkeypatch: pytest.MonkeyPatch
) -> None:
    open_engine()
    monkeypatch.setenv("PYTHONPROFILEIMPORTTIME", "1")
    done = ragdoll.run("search", "May", "--json")
    assert len(json.loads(done.out)["passages"]) == len(NOTES)
    imported = {line.rpartition("|")[2].strip() for line in done.error.splitlines()}
    assert "engine.cli.running" in imported
    assert imported.isdisjoint({"engine.engine", "engine.assembly", "llama_cpp", "lancedb", "torch", "pyarrow"})


def test_batches_and_every_file_give_the_same_lines(
    ragdoll: Ragdoll, docs: Path, open_engine: Callable[[], Engine], tmp_path: Path
) -> None:
    batch = tmp_path / "batch.jsonl"
    texts = ["When does the lease end?", " ", "Where is the boat?"] * 30
    batch.write_text(
        "".join(json.dumps({"id": number, "question": text, "query": text}) + "\n" for number, text in enumerate(texts))
    )
    commands = (["search", "--batch", batch], ["ask", "--batch", batch], ["ask", "May", "--each-file", "--json"])
    alone = [ragdoll.run_here(*command).lines for command in commands]
    open_engine()
    beside = [ragdoll.run_here(*command).lines for command in commands]

    def by_document(lines: list[Any]) -> list[Any]:
        # Each as it comes.
        return sorted(without_times(lines), key=lambda line: line.get("document", ""))

    assert [by_document(lines) for lines in beside] == [by_document(lines) for lines in alone]
    assert len(beside[2]) == len(NOTES)


def test_several_collections_are_asked_together_alone_and_beside_an_open_window(
    ragdoll: Ragdoll, docs: Path, open_engine: Callable[[], Engine], tmp_path: Path
) -> None:
    for name in ("Sea", "Sky"):
        (tmp_path / name).mkdir()
        (tmp_path / name / f"{name}.md").write_text(f"In May the {name.lower()} is blue.")
        ragdoll.json("add", tmp_path / name, "--collection", name)
    ragdoll.json("collections", "rename", "Sea", "Ocean")
    both = ("--collection", "Sea", "--collection", "sky")

    def told() -> list[Any]:
        searched = ragdoll.json("search", "blue in May", *both)
        answer = ragdoll.json("ask", "What is blue in May?", *both)
        narrowed = ragdoll.json("search", "What is blue in May in the collection Sky?", *both)
        each = ragdoll.run_here("ask", "What is blue in May?", "--each-file", *both, "--json").lines
        (tmp_path / "batch.jsonl").write_text('{"id": 1, "query": "blue in May"}')
        (batch,) = ragdoll.run_here("search", "--batch", tmp_path / "batch.jsonl", *both).lines
        for passages in (searched["passages"], answer["passages"], batch["passages"], each):
            assert {Path(one["document"]).name for one in passages} == {"Sea.md", "Sky.md"}
        assert (searched["scope"]["files_searched"], answer["scope"]["files_searched"]) == (2, 2)
        assert {Path(one["document"]).name for one in narrowed["passages"]} == {"Sky.md"}
        assert narrowed["scope"]["recognised"] == ["only the collection “Sky”"]
        return without_times([searched, answer, narrowed])

    alone = told()
    open_engine()
    assert told() == alone


def test_what_a_command_changes_is_changed_in_the_open_library(
    ragdoll: Ragdoll, docs: Path, open_engine: Callable[[], Engine], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = open_engine()
    (docs / "new.md").write_text("The moon is full in May.")
    monkeypatch.chdir(docs)
    assert ragdoll.json("add", "new.md", "--collection", "Sky")["documents"]["indexed"] == 1
    assert {collection.name for collection in engine.collections()} == {"Documents", "Sky"}
    assert ragdoll.json("remove", "new.md") == {"documents": {"removed": 1}}
    assert ragdoll.json("settings", "generation.seed=7")["settings"] == {"generation.seed": 7}
    assert engine.settings.generation.seed == 7
    model = write_tiny_model(tmp_path / "shelf.gguf")
    monkeypatch.chdir(tmp_path)
    assert ragdoll.json("models", "add", "shelf.gguf")["models"][0]["path"] == str(model)
    assert ragdoll.json("models", "use", "shelf")["current"] == engine.settings.models.current == str(model)
    assert ragdoll.json("models", "use", "none")["current"] is None
    assert ragdoll.json("ask", "May", "--model", "shelf", "--max-tokens", "4")["model"] == "tiny-llama"
    assert ragdoll.json("ask", "May", "--model", "none")["model"] is None
    assert ragdoll.json("models", "forget", "shelf")["models"] == []
    assert model.is_file()
    assert ragdoll.run_here("models", "forget", "shelf").code == cli.EXIT_NOTHING_THERE


def test_what_the_open_library_obeys_only_once_it_is_opened_again_is_told(
    ragdoll: Ragdoll, open_engine: Callable[[], Engine]
) -> None:
    engine = open_engine()
    assert ragdoll.json("search", "May")["passages"]
    assert ragdoll.json("settings", "generation.seed=7")["pending"] == ""
    told = ragdoll.json("settings", "embedder.num_threads=1")["pending"]
    assert told == engine.settings_pending
    assert "once Ragdoll is started again: the embedding model's threads." in told
    assert ragdoll.run_here("settings", "embedder.num_threads").out == f"{told}\nembedder.num_threads=1\n"
    assert ragdoll.json("settings", "embedder.num_threads=0")["pending"] == ""


def test_a_command_asks_another_model_and_the_window_keeps_its_own(
    ragdoll: Ragdoll, open_engine: Callable[[], Engine], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = open_engine()
    write_tiny_model(tmp_path / "other.gguf")
    batch = tmp_path / "batch.jsonl"
    batch.write_text('{"id": 1, "question": "May"}\n{"id": 2, "question": "May", "model": "none"}\n')
    monkeypatch.chdir(tmp_path)
    asked = ("ask", "--model", "other.gguf", "--max-tokens", "4", "--seed", "1")
    assert ragdoll.json(*asked, "When does the lease end?")["model"] == "tiny-llama"
    assert [line["model"] for line in ragdoll.run_here(*asked, "--batch", batch).lines] == ["tiny-llama", None]
    assert {line["model"] for line in ragdoll.run_here(*asked, "May", "--each-file", "--json").lines} == {"tiny-llama"}
    assert (engine.settings.models.current, engine.settings.models.known) == ("", ())
    assert engine.ask("When does the lease end?").model is None


@pytest.mark.expects_warnings
@pytest.mark.parametrize("is_beside", [False, True], ids=["alone", "beside a window"])
def test_a_model_that_cannot_be_loaded_ends_a_command_and_is_not_tried_for_each_question(
    ragdoll: Ragdoll,
    open_engine: Callable[[], Engine],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    is_beside: bool,
) -> None:
    tried: list[Path] = []

    def fail(self: Model, *_: object, **__: object) -> None:
        tried.append(self.path)
        raise ModelLoadFailed("It is damaged.", "Get it again.")

    monkeypatch.setattr(Model, "load", fail)
    model = write_tiny_model(tmp_path / "broken.gguf")
    one, some = tmp_path / "one.jsonl", tmp_path / "some.jsonl"
    lines = [{"id": number, "question": "May"} for number in range(300)]
    one.write_text("".join(json.dumps(line) + "\n" for line in lines))
    some.write_text("".join(json.dumps({**line, "model": "none" if line["id"] % 2 else ""}) + "\n" for line in lines))
    if is_beside:
        open_engine()
    for command in (["ask", "May", "--each-file"], ["ask", "--batch", one]):
        done = ragdoll.run_here(*command, "--model", model)
        assert (done.code, done.out, done.error) == (cli.EXIT_FAILED, "", "ragdoll: It is damaged. Get it again.\n")
    # Where lines name others, it is no concern of theirs.
    told = ragdoll.run_here("ask", "--batch", some, "--model", model).lines
    assert [line["id"] for line in told] == [line["id"] for line in lines]
    assert {line["error"]["sentence"] for line in told[::2]} == {"It is damaged."}
    assert {line["model"] for line in told[1::2]} == {None}
    assert len(tried) < 20


@pytest.mark.parametrize("command", [["watch"], ["serve"], ["models", "measure"]])
def test_what_cannot_be_done_beside_a_window_is_told_with_a_way_out(
    ragdoll: Ragdoll, open_engine: Callable[[], Engine], command: list[str]
) -> None:
    open_engine()
    done = ragdoll.run_here(*command)
    assert (done.code, done.out) == (cli.EXIT_HELD, "")
    assert "already open" in done.error
    assert "lose the window" in done.error


def test_where_nobody_listens_the_library_is_held(
    ragdoll: Ragdoll, open_engine: Callable[[], Engine], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(opening, "PATIENCE_S", 0.1)
    open_engine()
    (ragdoll.home / "data" / "library" / FILE).unlink()
    done = ragdoll.run_here("status")
    assert (done.code, done.out) == (cli.EXIT_HELD, "")
    assert done.error.startswith("ragdoll: Ragdoll is already open and holds this library: ")


def test_an_engine_that_is_just_starting_is_waited_for(
    ragdoll: Ragdoll, open_engine: Callable[[], Engine], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(opening, "PATIENCE_S", PATIENCE_S)
    looked: list[Home] = []

    def first_nobody(home: Home) -> socket.socket | None:
        looked.append(home)
        return knock(home) if len(looked) > 3 else None

    monkeypatch.setattr(opening, "knock", first_nobody)
    open_engine()
    assert ragdoll.json("status")["documents"]["indexed"] == len(NOTES)
    assert len(looked) == 4


def test_commands_that_need_an_engine_of_their_own_wait_for_each_other(
    ragdoll: Ragdoll, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(opening, "TOLD_S", 0.0)
    turn = lock.take_turn(Home.under(ragdoll.home))
    assert turn is not None
    told: list[str] = []

    def end_the_other(sentence: str) -> None:
        told.append(sentence)
        turn.release()

    monkeypatch.setattr(opening, "say", end_the_other)
    for _ in range(2):
        assert ragdoll.json("status")["documents"]["indexed"] == len(NOTES)
    assert told == ["Another command uses the library; this one continues when that has ended. Ctrl+C gives up."]


def test_a_command_waits_for_another_no_longer_than_that_can_be_waiting_for_it(
    ragdoll: Ragdoll, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(opening, "MOST_S", 0.1)
    turn = lock.take_turn(Home.under(ragdoll.home))
    assert turn is not None
    done = ragdoll.run_here("status")
    assert (done.code, done.out) == (cli.EXIT_HELD, "")
    assert "Another command has used the library" in done.error
    turn.release()


def test_a_command_that_waits_for_another_goes_to_the_window_that_was_opened_meanwhile(
    ragdoll: Ragdoll, open_engine: Callable[[], Engine], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(opening, "TOLD_S", 0.0)
    turn = lock.take_turn(Home.under(ragdoll.home))
    monkeypatch.setattr(opening, "say", lambda sentence: open_engine())
    assert ragdoll.json("status")["documents"]["indexed"] == len(NOTES)
    assert turn is not None
    turn.release()


def test_an_engine_that_is_just_ending_is_waited_for() -> None:
    assert lock.PATIENCE_S > engine_process._HEARD_S + engine_process._GRACE_S


def test_another_version_is_refused_with_a_sentence(
    ragdoll: Ragdoll, open_engine: Callable[[], Engine], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(guests, "PROTOCOL_VERSION", protocol.PROTOCOL_VERSION + 1)
    open_engine()
    done = ragdoll.run_here("status")
    assert (done.code, done.out) == (cli.EXIT_HELD, "")
    assert "another version" in done.error


# --- an engine that answers nothing ---


class Silent:
    """Takes questions and jobs, and ends none of them; `asked` once it has one."""

    def __init__(self, engine: Engine) -> None:
        self._desk = EngineDesk(engine)
        self.asked, self.cancelled = threading.Event(), threading.Event()

    def take(self, asked: protocol.Ask) -> Callable[[], None]:
        return self.asked.set

    def cancel(self, question_id: str) -> None:
        self.cancelled.set()

    def choosing(self, request: wire.Request) -> Any:
        return self._desk.choosing(request)

    def carried_out(self, request: wire.Request) -> Any:
        if request.method is protocol.RESCAN_AND_WAIT:
            self.asked.set()
            return Awaited(Future(), lambda _: protocol.IndexReport())
        return self._desk.carried_out(request)


@pytest.fixture
def silent(ragdoll: Ragdoll) -> Iterator[tuple[Silent, Callable[[], None]]]:
    """An engine that ends nothing, and what ends it."""
    with Engine.open(ragdoll.home) as engine, ExitStack() as stack:
        desk = Silent(engine)
        stack.enter_context(listening(desk, engine))
        yield desk, stack.close


CUT_OFF = [["ask", "May"], ["ask", "May", "--each-file"], ["ask", "--batch", "B"], ["rescan"]]


@pytest.mark.parametrize("command", CUT_OFF)
def test_a_window_that_closes_in_the_middle_of_a_command_is_told_of(
    ragdoll: Ragdoll, silent: tuple[Silent, Callable[[], None]], command: list[str], tmp_path: Path
) -> None:
    desk, close = silent
    batch = tmp_path / "batch.jsonl"
    batch.write_text("".join(json.dumps({"id": number, "question": "May"}) + "\n" for number in range(200)))
    closing = threading.Thread(target=lambda: desk.asked.wait(PATIENCE_S) and close())
    closing.start()
    done = ragdoll.run_here(*(str(batch) if word == "B" else word for word in command))
    closing.join(PATIENCE_S)
    assert (done.code, done.out) == (cli.EXIT_FAILED, "")
    assert done.error == (
        "ragdoll: Ragdoll was closed, or its engine ended, before this was done. Run the command again.\n"
    )


def close_once(stack: ExitStack, asked: threading.Event) -> None:
    assert asked.wait(PATIENCE_S)
    stack.close()


class Closing(Silent):
    """Closes when a command asks how the library stands, and says no more until it is `closed`."""

    def __init__(self, engine: Engine) -> None:
        super().__init__(engine)
        self.closed = threading.Event()

    def carried_out(self, request: wire.Request) -> Any:
        if request.method is protocol.LIBRARY:
            self.asked.set()
            self.closed.wait(PATIENCE_S)
        return self._desk.carried_out(request)


def test_a_window_that_closes_once_a_command_is_done_takes_nothing_from_it(ragdoll: Ragdoll) -> None:
    alone = ragdoll.run_here("search", "May")
    with Engine.open(ragdoll.home) as engine, ExitStack() as stack:
        desk = Closing(engine)
        stack.enter_context(listening(desk, engine))
        closing = threading.Thread(target=close_once, args=(stack, desk.asked))
        closing.start()
        beside = ragdoll.run_here("search", "May")
        desk.closed.set()
        closing.join(PATIENCE_S)
    assert (beside.code, beside.out, beside.error) == (0, alone.out, "")


def interrupt_once(asked: threading.Event) -> None:
    assert asked.wait(PATIENCE_S)
    os.kill(os.getpid(), signal.SIGINT)


def test_who_presses_ctrl_c_has_its_questions_cancelled(
    ragdoll: Ragdoll, silent: tuple[Silent, Callable[[], None]]
) -> None:
    desk, _ = silent
    interrupting = threading.Thread(target=interrupt_once, args=(desk.asked,))
    interrupting.start()
    done = ragdoll.run_here("ask", "May")
    interrupting.join(PATIENCE_S)
    assert (done.code, done.error) == (128 + signal.SIGINT, "ragdoll: stopped.\n")
    assert desk.cancelled.wait(PATIENCE_S)


def test_what_is_being_read_goes_on_when_the_command_is_stopped(
    ragdoll: Ragdoll, silent: tuple[Silent, Callable[[], None]]
) -> None:
    desk, _ = silent
    interrupting = threading.Thread(target=interrupt_once, args=(desk.asked,))
    interrupting.start()
    done = ragdoll.run_here("rescan")
    interrupting.join(PATIENCE_S)
    assert (done.code, done.error) == (
        128 + signal.SIGINT,
        "ragdoll: the open Ragdoll continues it.\nragdoll: stopped.\n",
    )


def test_what_is_longer_than_any_message_is_refused_and_not_waited_for(
    ragdoll: Ragdoll, open_engine: Callable[[], Engine], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("engine.cli.caller.MAX_LINE_BYTES", 100_000)
    open_engine()
    done = ragdoll.run_here("search", "word " * 30_000)
    assert (done.code, done.error) == (
        cli.EXIT_BAD_ARGUMENTS,
        "ragdoll: This request is too large. Ask with less of it.\n",
    )


def once_something_waits(engine: Engine, then: Callable[[], None]) -> None:
    while engine._parts.indexer.is_idle:
        time.sleep(0.01)
    then()


def test_what_waits_because_reading_is_paused_says_so_and_goes_on(
    ragdoll: Ragdoll, docs: Path, open_engine: Callable[[], Engine]
) -> None:
    engine = open_engine()
    (docs / "new.md").write_text("The moon is full in May.")
    engine.pause_indexing()
    resuming = threading.Thread(target=once_something_waits, args=(engine, engine.resume_indexing))
    resuming.start()
    done = ragdoll.run_here("add", docs)
    resuming.join(PATIENCE_S)
    assert done.code == 0
    assert done.error == "ragdoll: reading is paused in the window; this command waits until it continues there.\n"
    assert done.out.startswith("1 document indexed")


def test_what_is_stopped_at_the_window_has_failed_and_can_go_on(
    ragdoll: Ragdoll, docs: Path, open_engine: Callable[[], Engine]
) -> None:
    engine = open_engine()
    (docs / "new.md").write_text("The moon is full in May.")
    engine.pause_indexing()
    stopping = threading.Thread(target=once_something_waits, args=(engine, engine.cancel_indexing))
    stopping.start()
    done = ragdoll.run_here("add", docs)
    stopping.join(PATIENCE_S)
    assert (done.code, done.out) == (cli.EXIT_FAILED, "")
    assert done.error.endswith("ragdoll: Reading was stopped in the window. The same command continues it.\n")
    assert ragdoll.json("add", docs)["documents"]["indexed"] == 1


def test_passwords_and_what_could_not_be_read_are_told_as_ever(
    ragdoll: Ragdoll, docs: Path, open_engine: Callable[[], Engine], tmp_path: Path
) -> None:
    open_engine()
    (docs / "locked.pdf").write_bytes(pdf(["The safe is behind the picture."], password="x"))
    (docs / "empty.txt").touch()
    report = ragdoll.json("add", docs)["documents"]
    assert {Path(problem["path"]).name for problem in report["skipped"]} == {"locked.pdf", "empty.txt"}
    (tmp_path / "password").write_text("x\n")
    unlocked = ragdoll.json("unlock", docs, "--password-file", tmp_path / "password")
    assert unlocked["documents"]["indexed"] == 1
    assert ragdoll.json("search", "safe behind the picture")["passages"][0]["document"] == str(docs / "locked.pdf")


# --- models of the hub ---

REPO, FILE_OF_MODEL = "owner/tiny", "tiny.gguf"
SOURCE = f"{REPO}/{FILE_OF_MODEL}"


@pytest.fixture
def hub(ragdoll: Ragdoll, tmp_path: Path) -> Iterator[ModelHub]:
    """A hub that has one model, and that the settings name."""
    with ModelHub() as hub:
        hub.put(REPO, FILE_OF_MODEL, write_tiny_model(tmp_path / "tiny.gguf", layers=4).read_bytes())
        ragdoll.json("settings", f"models.hub={hub.address}")
        yield hub


def test_the_hub_is_searched_by_the_open_window(
    ragdoll: Ragdoll, hub: ModelHub, open_engine: Callable[[], Engine]
) -> None:
    open_engine()
    hub.found = [{"id": REPO, "downloads": 5}]
    [found] = ragdoll.json("models", "search", "tiny")["repositories"]
    assert (found["name"], found["downloads"]) == (REPO, 5)
    hub.found = None
    assert "cannot be searched by words" in ragdoll.run_here("models", "search", "tiny").error


def test_a_model_is_got_by_the_open_window(ragdoll: Ragdoll, hub: ModelHub, open_engine: Callable[[], Engine]) -> None:
    engine = open_engine()
    hub.refusals = [Refusal(404)]
    refused = ragdoll.run_here("models", "get", SOURCE)
    assert (refused.code, "There is no" in refused.error) == (cli.EXIT_FAILED, True)
    got = ragdoll.json("models", "get", SOURCE)
    assert got["got"] == got["current"] == engine.settings.models.current
    assert ragdoll.json("models", "get", SOURCE)["got"] == got["got"]
    assert [entry["source"] for entry in ragdoll.json("models", "get", REPO)["files"]] == [SOURCE]
    assert ragdoll.run_here("models", "get", "nothing").code == cli.EXIT_BAD_ARGUMENTS
    assert ragdoll.json("models", "use", "none")["current"] is None
    assert ragdoll.json("models", "delete", "tiny")["models"] == []


def test_getting_a_model_is_stopped_with_the_command(
    ragdoll: Ragdoll, hub: ModelHub, open_engine: Callable[[], Engine]
) -> None:
    engine, stands, go_on = open_engine(), threading.Event(), threading.Event()

    def stand(num_sent: int) -> None:
        if num_sent:
            stands.set()
            go_on.wait(PATIENCE_S)

    hub.between, hub.piece_bytes = stand, 200_000
    ended = threading.Event()
    engine.subscribe(lambda event: ended.set() if isinstance(event, DownloadsChanged) and is_part(event) else None)
    interrupting = threading.Thread(target=interrupt_once, args=(stands,))
    interrupting.start()
    try:
        done = ragdoll.run_here("models", "get", SOURCE)
        interrupting.join(PATIENCE_S)
        assert (done.code, "what was downloaded is kept" in done.error) == (128 + signal.SIGINT, True)
        assert ended.wait(PATIENCE_S)
    finally:
        go_on.set()


def is_part(event: DownloadsChanged) -> bool:
    return event.downloads[-1].state in ("absent", "part")
