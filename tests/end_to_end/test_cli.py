"""Tests for the command line as scripts use it: real documents, JSON on stdout, exit codes, and real processes."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest

from engine import protocol
from engine.door import FILE
from tests.helpers.corpus import write_corpus
from tests.helpers.engine_process import CAREFUL, EngineProcess
from tests.helpers.homes import NewHome
from tests.helpers.pdf import pdf
from tests.helpers.ragdoll_command import Done, Ragdoll
from tests.helpers.shared_data import shared_file
from tests.helpers.tiny_gguf import write_tiny_model

ANSWER_FIELDS = {
    "answer",
    "thoughts",
    "finish_reason",
    "refreshes",
    "alternatives",
    "quotes",
    "citations",
    "passages",
    "scope",
    "timeline",
    "model",
}
QUESTION = "How do I share state between threads?"
# Root reads everything; without these two capabilities even root is refused what its mode forbids.
AS_SOMEBODY_WITHOUT_ALL_RIGHTS = (
    ("setpriv", "--bounding-set", "-dac_override,-dac_read_search") if os.geteuid() == 0 else ()
)


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory, new_home: NewHome) -> tuple[Ragdoll, Path, dict]:
    """A data folder with the generated corpus in it, and what adding it reported."""
    folder = tmp_path_factory.mktemp("cli")
    write_corpus(folder / "corpus")
    ragdoll = Ragdoll(new_home(folder / "home"))
    return ragdoll, folder / "corpus", ragdoll.run("add", folder / "corpus", "--json").json


def test_add_tells_what_it_did_and_a_second_time_nothing_changes(library):
    ragdoll, corpus, report = library
    files = sum(1 for file in corpus.rglob("*") if file.is_file())
    assert set(report) == {"documents", "chunks", "seconds"}
    assert set(report["documents"]) == {"indexed", "unchanged", "removed", "in_part", "skipped", "failed"}
    assert report["documents"]["indexed"] == files
    assert report["chunks"] >= files
    again = ragdoll.json("add", corpus)
    assert (again["documents"]["indexed"], again["documents"]["unchanged"]) == (0, files)


def test_search_gives_absolute_paths_and_pages(library):
    ragdoll, corpus, _ = library
    passages = ragdoll.json("search", QUESTION, "--top-k", "3")["passages"]
    assert 1 <= len(passages) <= 3
    for passage in passages:
        assert set(passage) == {"document", "page", "place", "text", "score", "is_offline"}
        assert Path(passage["document"]).is_relative_to(corpus)
    assert [p["score"] for p in passages] == sorted((p["score"] for p in passages), reverse=True)


def test_a_batch_of_searches_gives_a_line_each(library, tmp_path: Path):
    ragdoll, _, _ = library
    batch = tmp_path / "batch.jsonl"
    batch.write_text("".join(json.dumps({"id": n, "query": f"{QUESTION} {n}"}) + "\n" for n in range(70)))
    lines = ragdoll.run_here("search", "--batch", batch).lines
    assert [line["id"] for line in lines] == list(range(70))
    assert all(line["passages"] for line in lines)


def test_ask_without_a_model_answers_with_quotes(library):
    ragdoll, _, _ = library
    answer = ragdoll.json("ask", QUESTION)
    assert set(answer) == ANSWER_FIELDS
    assert answer["scope"]["passages_used"] == len(answer["passages"]) <= answer["scope"]["passages_found"]
    assert answer["model"] is None
    assert answer["quotes"]
    assert answer["quotes"][0]["text"] in answer["answer"]
    for citation in answer["citations"]:
        assert 0 <= citation["passage"] < len(answer["passages"])
        assert citation["marker"] in answer["answer"]


def test_half_a_character_in_a_question_is_no_failure(library):
    ragdoll, _, _ = library
    assert ragdoll.json("search", f"{QUESTION}\udcff")["passages"]
    assert ragdoll.json("ask", f"{QUESTION}\ud800", "--instructions", "\ud800")["quotes"]


def test_ask_with_a_model_writes_and_ends(library, tmp_path: Path):
    ragdoll, _, _ = library
    model = write_tiny_model(tmp_path / "tiny.gguf")
    asked = ("ask", QUESTION, "--model", model, "--max-tokens", "8", "--seed", "3", "--json")
    first, second = ragdoll.run(*asked).json, ragdoll.run_here(*asked).json
    assert first["model"] == "tiny-llama"
    assert first["timeline"]["generated_tokens"] <= 8
    assert first["timeline"]["prompt_tokens"] > 0
    assert first["answer"] == second["answer"]
    assert first["citations"]


def test_ask_with_a_trained_model_of_512_tokens(library):
    ragdoll, _, _ = library
    answer = ragdoll.json("ask", QUESTION, "--model", shared_file("models/stories260K-f32.gguf"), "--seed", "1")
    assert answer["model"] == "stories260K"
    assert answer["timeline"]["prompt_tokens"] + answer["timeline"]["generated_tokens"] <= 512


def test_ask_without_files_needs_a_model_and_searches_nothing(library, tmp_path: Path):
    ragdoll, _, _ = library
    model = write_tiny_model(tmp_path / "tiny.gguf")
    answer = ragdoll.json("ask", "--no-files", "Say hello.", "--model", model, "--max-tokens", "8", "--seed", "3")
    assert set(answer) == ANSWER_FIELDS
    assert (answer["model"], answer["passages"], answer["quotes"]) == ("tiny-llama", [], [])
    assert answer["scope"]["chunks_searched"] == 0
    batch = tmp_path / "batch.jsonl"
    batch.write_text(json.dumps({"id": 1, "question": "Say hello."}) + "\n")
    (line,) = ragdoll.run_here("ask", "--no-files", "--batch", batch).lines
    assert line["error"]["way_out"].startswith("Choose a model")


def test_a_batch_of_questions_gives_a_line_each(library, tmp_path: Path):
    ragdoll, _, _ = library
    batch = tmp_path / "batch.jsonl"
    questions = {"a": "What is a mutex?", "empty": " ", "b": QUESTION}
    batch.write_text("".join(json.dumps({"id": id_, "question": text}) + "\n" for id_, text in questions.items()))
    lines = {line["id"]: line for line in ragdoll.run_here("ask", "--batch", batch).lines}
    assert list(lines) == list(questions)
    assert all("timeline" in lines[id_] for id_ in ("a", "b"))
    assert lines["empty"]["error"]["sentence"] == "The question is empty."


def test_each_file_gives_a_line_with_its_own_answer(library):
    ragdoll, corpus, _ = library
    lines = ragdoll.run_here("ask", QUESTION, "--each-file", "--type", "md", "--json").lines
    markdown = {str(file) for file in corpus.rglob("*.md")}
    assert {line["document"] for line in lines} == markdown
    assert len(lines) == len(markdown)
    for line in lines:
        assert set(line) == ANSWER_FIELDS | {"document"}
        assert {passage["document"] for passage in line["passages"]} <= {line["document"]}


def test_a_search_is_confined_by_path_type_and_date(library):
    ragdoll, corpus, report = library
    file = next(corpus.rglob("*.md"))
    inside = ragdoll.json("search", QUESTION, "--in", file)
    assert {passage["document"] for passage in inside["passages"]} == {str(file)}
    assert inside["scope"]["files_searched"] == 1 < report["documents"]["indexed"]
    assert ragdoll.json("search", QUESTION, "--in", corpus)["scope"]["files_searched"] == report["documents"]["indexed"]
    markdown = ragdoll.json("search", QUESTION, "--type", "md")
    assert {Path(passage["document"]).suffix for passage in markdown["passages"]} == {".md"}
    assert ragdoll.json("search", QUESTION, "--until", "1999-12-31")["passages"] == []
    assert ragdoll.json("search", QUESTION, "--since", "2000-01-01")["passages"] != []


def test_status_counts_what_is_there(library):
    ragdoll, _, report = library
    status = ragdoll.json("status")
    assert status["collections"][0]["name"] == "Documents"
    assert status["documents"]["indexed"] == report["documents"]["indexed"]
    assert status["chunks"] == report["chunks"]
    assert status["bytes_on_disk"] > 0
    assert {tier["tier"] for tier in status["memory"]["tiers"]} >= {"ram", "disk"}


def test_a_collection_is_searched_alone(library, tmp_path: Path):
    ragdoll, _, _ = library
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "a.txt").write_text("The ferry to the island leaves at seven in the morning.")
    ragdoll.json("add", tmp_path / "notes", "--collection", "Travel")
    found = ragdoll.json("search", "share state between threads", "--collection", "Travel")["passages"]
    assert {Path(passage["document"]).name for passage in found} <= {"a.txt"}
    assert ragdoll.json("remove", tmp_path / "notes")["documents"]["removed"] == 1
    everywhere = ragdoll.json("search", "ferry to the island")["passages"]
    assert not any(passage["document"].endswith("a.txt") for passage in everywhere)


# The load that a choice begins is given up when the command ends.
@pytest.mark.expects_warnings
def test_models_are_added_used_and_listed(library, tmp_path: Path):
    ragdoll, _, _ = library
    model = write_tiny_model(tmp_path / "shelf.gguf")
    assert ragdoll.json("models", "add", model)["models"][-1]["path"] == str(model)
    assert ragdoll.json("models", "use", "shelf")["current"] == str(model)
    assert ragdoll.json("ask", QUESTION, "--max-tokens", "2")["model"] == "tiny-llama"
    assert "tokens/s with 1 at once" in ragdoll.json("models", "measure")["measured"]
    assert ragdoll.json("models", "use", "none")["current"] is None


def test_settings_are_told_and_turned_all_or_none(tmp_path: Path, new_home: NewHome):
    ragdoll = Ragdoll(new_home(tmp_path / "home"))
    known = ragdoll.json("settings")["settings"]
    assert (known["memory.may_lose"], known["generation.stop"]) == (False, [])
    turned = ragdoll.json("settings", "memory.may_lose=true", 'generation.stop=["END"]', "generation.seed=7")
    assert turned["settings"] == {"memory.may_lose": True, "generation.stop": ["END"], "generation.seed": 7}
    ragdoll.json("settings", "generation.seed=null")
    assert ragdoll.run_here("settings", "generation.seed", "generation.stop").out == (
        'generation.seed=null\ngeneration.stop=["END"]\n'
    )
    _is_told(ragdoll.run_here("settings", "generation.seed=5", "generation.temperature=hot"), BAD_ARGUMENTS)
    assert ragdoll.json("settings", "generation.seed")["settings"] == {"generation.seed": None}


NOWHERE, BAD_ARGUMENTS, FAILED = 4, 2, 1
FAILURES = [
    (["add", "/nowhere/at/all"], NOWHERE),
    (["remove", "/nowhere/at/all"], NOWHERE),
    (["search", "x", "--collection", "None such"], NOWHERE),
    (["search", "--batch", "/nowhere.jsonl"], NOWHERE),
    (["search", "x", "--in", "/nowhere"], NOWHERE),
    (["add", ""], BAD_ARGUMENTS),
    (["remove", ""], BAD_ARGUMENTS),
    (["settle", "", "--remove"], BAD_ARGUMENTS),
    (["search", "x", "--in", ""], BAD_ARGUMENTS),
    (["search", "x", "--top-k", "9" * 20], BAD_ARGUMENTS),
    (["search", "x", "--collection", "\udcff"], NOWHERE),
    (["add", __file__, "--collection", "\udcff"], BAD_ARGUMENTS),
    (["search", "x", "--type", "pfd"], BAD_ARGUMENTS),
    (["search", "x", "--since", "yesterday"], BAD_ARGUMENTS),
    (["search"], BAD_ARGUMENTS),
    (["search", "x", "--top-k", "0"], BAD_ARGUMENTS),
    (["ask"], BAD_ARGUMENTS),
    (["ask", "x", "--model", "/nowhere.gguf"], NOWHERE),
    (["ask", "x", "--model", __file__], FAILED),
    (["models", "use"], BAD_ARGUMENTS),
    (["models", "measure"], BAD_ARGUMENTS),
    (["settings", "generation.wit"], BAD_ARGUMENTS),
    (["settings", "generation.wit=9"], BAD_ARGUMENTS),
    (["settings", "=9"], BAD_ARGUMENTS),
    (["ask", "x", "--sampling", "wit=9"], BAD_ARGUMENTS),
    (["ask", "x", "--temperature", "nan"], BAD_ARGUMENTS),
    (["ask", "x", "--no-files"], BAD_ARGUMENTS),
    (["ask", "x", "--no-files", "--each-file"], BAD_ARGUMENTS),
    (["nonsense"], BAD_ARGUMENTS),
    ([], BAD_ARGUMENTS),
]


@pytest.mark.parametrize(("arguments", "code"), FAILURES)
def test_failures_have_their_exit_codes_and_a_sentence(library, arguments: list[str], code: int):
    ragdoll, _, _ = library
    _is_told(ragdoll.run_here(*arguments), code)


@pytest.mark.parametrize(("arguments", "code"), [FAILURES[0], FAILURES[14], FAILURES[17], FAILURES[18]])
def test_exit_codes_reach_the_shell(library, arguments: list[str], code: int):
    ragdoll, _, _ = library
    _is_told(ragdoll.run(*arguments), code)


def _is_told(done: Done, code: int) -> None:
    assert done.code == code, done.error
    assert done.out == ""
    assert done.error.strip()
    assert "Traceback" not in done.error


def test_a_model_that_is_not_there_is_named_with_a_way_out(library):
    ragdoll, _, _ = library
    done = ragdoll.run_here("ask", QUESTION, "--model", "/nowhere.gguf")
    assert done.error == "ragdoll: There is no model file at /nowhere.gguf. Choose another file.\n"


def test_a_library_held_by_an_application_that_hears_nobody_is_told_apart(library, monkeypatch: pytest.MonkeyPatch):
    ragdoll, corpus, _ = library
    monkeypatch.setattr("engine.cli.opening.PATIENCE_S", 0.1)
    with EngineProcess(ragdoll.home, ragdoll.home.with_name("held.log"), CAREFUL) as engine:
        engine.result(protocol.LIBRARY)
        (ragdoll.home / "data" / "library" / FILE).unlink()
        for arguments in (["add", corpus], ["search", "x"], ["watch"], ["models"]):
            _is_held(ragdoll.run_here(*arguments))
        _is_held(ragdoll.run("status"))


def _is_held(done: Done) -> None:
    assert done.code == 3, done.error
    assert "already open" in done.error


def test_what_of_settings_and_index_cannot_be_used_is_told_beside_what_was_asked_for(tmp_path: Path, new_home: NewHome):
    ragdoll = Ragdoll(new_home(tmp_path / "home"))
    (tmp_path / "a.md").write_text("The lease ends in May.")
    ragdoll.json("add", tmp_path / "a.md")
    for table in (ragdoll.home / "data" / "library").rglob("chunks.lance"):
        shutil.rmtree(table)
    (ragdoll.home / "config" / "engine.toml").write_text("[generation]\ntemperature = 99\n")
    done = ragdoll.run_here("search", "lease", "--json")
    assert done.json["passages"] == []
    assert "temperature" in done.error
    assert "ragdoll rescan" in done.error
    assert "ragdoll rescan" not in ragdoll.run_here("rescan").error
    done = ragdoll.run_here("search", "lease", "--json")
    assert len(done.json["passages"]) == 1
    assert "ragdoll rescan" not in done.error


def test_a_data_folder_that_cannot_be_used_is_told_with_a_way_out(tmp_path: Path):
    (tmp_path / "a file").touch()
    (tmp_path / "home" / "data" / "library" / "engine.lock").mkdir(parents=True)
    for home in ("a file", "home"):
        done = Ragdoll(tmp_path / home).run_here("status")
        _is_told(done, FAILED)
        assert "RAGDOLL_HOME" in done.error


@pytest.mark.skipif(os.geteuid() == 0 and not shutil.which("setpriv"), reason="root reads everything, without setpriv")
def test_of_a_folder_with_every_kind_of_bad_file_all_others_are_indexed(tmp_path: Path, new_home: NewHome):
    folder = tmp_path / "mixed"
    corpus = write_corpus(folder)
    (folder / "really a PDF.txt").write_bytes(pdf(["The wrongly named parrot repeats itself."]))
    (folder / "broken.pdf").write_bytes(b"%PDF-1.7\nnothing of the sort")
    (folder / "locked.pdf").write_bytes(pdf(["secret"], password="x"))
    (folder / "empty.txt").write_bytes(b"")
    (folder / "picture.txt").write_bytes(b"\x89PNG\r\n\x1a\n" + bytes(range(256)))
    (folder / "huge.txt").write_text("word " * 120_000)
    (folder / "many chunks.txt").write_text("\n\n".join(f"Paragraph {n}. " + "word " * 180 for n in range(200)))
    (folder / "forbidden.txt").write_text("Nobody may read this.")
    (folder / "forbidden.txt").chmod(0)
    ragdoll = Ragdoll(new_home(tmp_path / "home"), AS_SOMEBODY_WITHOUT_ALL_RIGHTS)
    settings = ragdoll.home / "config" / "engine.toml"
    settings.parent.mkdir(parents=True)
    settings.write_text("[library]\nmax_file_bytes = 500000\nmax_chunks_per_document = 100\n")

    report = ragdoll.run("add", folder, "--json").json

    reasons = {Path(p["path"]).name: p["reason"] for kind in ("skipped", "failed") for p in report["documents"][kind]}
    expected = {
        "broken.pdf": "PDF",
        "locked.pdf": "password",
        "empty.txt": "empty",
        "picture.txt": "picture",
        "huge.txt": "586 KB",
        "many chunks.txt": "100",
        "forbidden.txt": "Permission denied",
    }
    assert set(reasons) == set(expected)
    assert {name: reason for name, reason in reasons.items() if expected[name] not in reason} == {}
    assert report["documents"]["indexed"] == len(corpus.files) + 1
    found = ragdoll.json("search", "wrongly named parrot")["passages"]
    assert Path(found[0]["document"]).name == "really a PDF.txt"


def test_a_pdf_that_is_to_be_summarised_is_read_on_all_its_pages(tmp_path: Path, new_home: NewHome):
    ragdoll = Ragdoll(new_home(tmp_path / "home"))
    report = tmp_path / "papers" / "report.pdf"
    report.parent.mkdir()
    filler = "The committee met again and minutes were taken by hand. " * 8
    report.write_bytes(pdf([f"Bridge number {n} weighs {100 + n} tons. {filler}" for n in range(1, 15)]))
    (report.parent / "bread.md").write_text("# Bread\n\nBread needs flour and water.\n")
    ragdoll.run_here("add", report.parent)

    whole = ragdoll.run_here("ask", "Summarise report.pdf", "--json").json
    assert [passage["page"] for passage in whole["passages"]] == list(range(1, 15))
    assert all(f"{100 + page} tons" in whole["passages"][page - 1]["text"] for page in range(1, 15))
    assert whole["scope"]["reads_through"]
    assert "Read all of report.pdf." in ragdoll.run_here("ask", "Summarise report.pdf").out
    pointed = ragdoll.run_here("ask", "How many tons does bridge number 9 in report.pdf weigh?", "--json").json
    assert pointed["passages"][0]["page"] == 9
    assert not pointed["scope"]["reads_through"]
