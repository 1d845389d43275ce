"""Contract tests against a real engine process: what the window relies on, whatever happens to it."""

from __future__ import annotations

import ctypes
import json
import os
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from engine import protocol
from engine.core import SamplingParams
from tests.helpers.corpus import write_corpus
from tests.helpers.engine_process import CAREFUL, EngineProcess
from tests.helpers.homes import NewHome
from tests.helpers.tiny_gguf import token_of, write_tiny_model

QUESTION = "How do I share state between threads?"


@pytest.fixture
def home(tmp_path: Path, new_home: NewHome) -> Path:
    return new_home(tmp_path / "home")


@pytest.fixture
def engine(home: Path) -> Iterator[EngineProcess]:
    """A fresh engine of this test alone."""
    with EngineProcess(home) as engine:
        yield engine


@pytest.fixture
def idle(home: Path) -> Iterator[EngineProcess]:
    """The same, started carefully: it loads nothing unasked, and so is there in a moment."""
    with EngineProcess(home, None, CAREFUL) as engine:
        yield engine


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("documents")
    write_corpus(folder)
    return folder


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tiny_model(tmp_path_factory.mktemp("models") / "tiny.gguf")


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory, corpus: Path, new_home: NewHome) -> Iterator[EngineProcess]:
    """One engine with the corpus indexed, for all tests that leave it alive; starting one takes seconds."""
    with EngineProcess(new_home(tmp_path_factory.mktemp("library") / "home")) as engine:
        assert engine.add(corpus).failed == ()
        # Starts the viewer's parser too, so that no test seems to leave it behind.
        known = engine.result(protocol.DOCUMENTS, protocol.ListDocuments(limit=1)).documents
        engine.request(protocol.PAGE, protocol.PageRequest(document_id=known[0].document_id))
        yield engine


@pytest.fixture
def writer(library: EngineProcess, model: Path) -> Iterator[EngineProcess]:
    """The same with a model."""
    library.result(protocol.MODELS_USE, protocol.ModelFile(path=str(model)))
    yield library
    since = len(library.notices)
    library.result(protocol.MODELS_UNLOAD)
    library.wait_for(lambda notice: notice == protocol.ModelState(state="none"), since)


def ask(question_id: str, **options) -> protocol.Ask:
    return protocol.Ask(question_id=question_id, text=QUESTION, **options)


def endless(question_id: str) -> protocol.Ask:
    sampling = SamplingParams(max_tokens=10**6, temperature=0, grammar='root ::= "a" root')
    return ask(question_id, sampling=sampling)


def test_the_first_word_is_ready_with_the_version(idle: EngineProcess):
    ready = idle.wait_for_kind(protocol.Ready)
    assert idle.notices[0] is ready
    assert (ready.protocol_version, ready.pid) == (protocol.PROTOCOL_VERSION, idle.pid)


def test_a_ping_is_answered_while_libraries_load(engine: EngineProcess):
    engine.wait_for(lambda notice: notice == protocol.Phase(phase="loading libraries"))
    assert engine.result(protocol.PING) in (protocol.Pong(phase="loading libraries"), protocol.Pong())


def test_a_question_is_answered_with_quotes(library: EngineProcess):
    library.result(protocol.ASK, ask("quotes"))
    end = library.answer_to("quotes")
    assert isinstance(end, protocol.AnswerFinished)
    assert end.answer.model is None
    assert end.answer.quotes
    assert end.answer.citations
    states = [n.state for n in library.notices if isinstance(n, protocol.AnswerState) and n.question_id == "quotes"]
    assert states == ["queued", "searching", "reading"]
    found = library.wait_for(lambda n: isinstance(n, protocol.AnswerFound) and n.question_id == "quotes")
    assert found.passages == end.answer.passages


def test_the_library_counts_its_documents(library: EngineProcess, corpus: Path):
    (collection,) = library.result(protocol.LIBRARY).collections
    files = [file for file in corpus.rglob("*") if file.is_file()]
    assert collection.documents_by_state["indexed"] == len(files)
    assert collection.folders == (str(corpus),)


def test_a_cited_page_comes_as_a_picture_or_as_text_with_the_passage_marked(library: EngineProcess):
    found = library.result(protocol.SEARCH, protocol.Search(query=QUESTION, top_k=20)).passages
    assert {bool(passage.page) for passage in found} == {True, False}
    for passage in found:
        span = {"page": passage.page, "start": passage.start, "end": passage.end, "text": passage.text}
        page = library.result(protocol.PAGE, protocol.PageRequest(document_id=passage.document_id, **span))
        assert page.document == passage.document
        assert not page.is_changed
        if page.image_png:
            assert page.marks
        else:
            start, end = page.mark_start - page.text_start, page.mark_end - page.text_start
            assert page.text[start:end] == passage.text


def test_a_model_streams_and_its_bytes_come_and_go_on_the_memory_page(library: EngineProcess, model: Path):
    library.result(protocol.MODELS_USE, protocol.ModelFile(path=str(model)))
    library.wait_for(lambda notice: isinstance(notice, protocol.MemorySnapshot) and "weights" in owners(notice.memory))
    library.result(protocol.ASK, ask("streamed", sampling=SamplingParams(max_tokens=12, seed=1)))
    end = library.answer_to("streamed")
    assert isinstance(end, protocol.AnswerFinished)
    pieces = [n.text for n in library.notices if isinstance(n, protocol.AnswerTokens) and n.question_id == "streamed"]
    assert "".join(pieces) == end.answer.text
    assert len(pieces) > 1
    since = len(library.notices)
    library.result(protocol.MODELS_UNLOAD)
    library.wait_for(lambda notice: notice == protocol.ModelState(state="none"), since)
    library.wait_for(
        lambda notice: isinstance(notice, protocol.MemorySnapshot) and "weights" not in owners(notice.memory), since
    )


def owners(memory: protocol.MemoryReply) -> set[str]:
    return {span.owner for tier in memory.tiers for span in tier.spans}


def test_a_running_answer_is_cancelled_and_the_next_one_answered(writer: EngineProcess):
    writer.result(protocol.ASK, endless("stopped"))
    writer.wait_for(lambda n: isinstance(n, protocol.AnswerTokens) and n.question_id == "stopped")
    writer.result(protocol.CANCEL, protocol.CancelQuestion(question_id="stopped"))
    assert isinstance(writer.answer_to("stopped"), protocol.AnswerCancelled)
    writer.result(protocol.CANCEL, protocol.CancelQuestion(question_id="stopped"))
    writer.result(protocol.ASK, ask("next", sampling=SamplingParams(max_tokens=4)))
    assert isinstance(writer.answer_to("next"), protocol.AnswerFinished)


def test_two_questions_overlap_the_second_is_retrieved_while_the_first_is_written(writer: EngineProcess):
    writer.result(protocol.ASK, endless("first"))
    writer.wait_for(lambda n: isinstance(n, protocol.AnswerTokens) and n.question_id == "first")
    writer.result(protocol.ASK, ask("second", sampling=SamplingParams(max_tokens=4)))
    writer.wait_for(lambda n: isinstance(n, protocol.AnswerFound) and n.question_id == "second")
    ends = (protocol.AnswerFinished, protocol.AnswerCancelled, protocol.AnswerFailed)
    assert not any(isinstance(n, ends) and n.question_id == "first" for n in writer.notices)
    writer.result(protocol.CANCEL, protocol.CancelQuestion(question_id="first"))
    assert isinstance(writer.answer_to("first"), protocol.AnswerCancelled)
    end = writer.answer_to("second")
    assert isinstance(end, protocol.AnswerFinished)
    assert end.timings.queued_s > 0


def test_several_answers_come_with_what_the_next_question_needs_of_each(writer: EngineProcess):
    writer.result(protocol.ASK, ask("both", sampling=SamplingParams(max_tokens=4), num_answers=2))
    end = writer.answer_to("both")
    assert isinstance(end, protocol.AnswerFinished)
    (other,) = end.answer.alternatives
    assert [segment["role"] for segment in other.segments] == ["user", "assistant"]
    assert other.segments[1]["tokens"]


def test_what_a_question_has_of_its_own_reaches_the_model(writer: EngineProcess):
    def answer(question_id: str, manner: protocol.Manner, **options) -> protocol.AnswerFinished:
        writer.result(protocol.ASK, ask(question_id, manner=manner, top_k=1, **options))
        end = writer.answer_to(question_id)
        assert isinstance(end, protocol.AnswerFinished)
        return end

    short = protocol.Manner(max_tokens=2)
    told = protocol.Manner(max_tokens=3, instructions="Answer in German, in verse, and in three sentences at most.")
    # Else the model may end before.
    going_on = SamplingParams(grammar='root ::= "a" root')
    for searches in (True, False):
        usual = answer(f"usual {searches}", short, searches=searches, sampling=going_on)
        own = answer(f"own {searches}", told, searches=searches, sampling=going_on)
        assert (usual.timings.generated_tokens, own.timings.generated_tokens) == (2, 3)
        assert own.timings.prompt_tokens > usual.timings.prompt_tokens
    greedy = protocol.Manner(max_tokens=8, temperature=0)
    same = {answer(f"greedy {number}", greedy).answer.text for number in range(3)}
    assert len(same) == 1
    reply = writer.request(protocol.ASK, ask("hot", manner=protocol.Manner(temperature=1e6)))
    assert reply.error is not None
    assert (reply.error.kind, "temperature" in reply.error.sentence) == ("BadRequest", True)


def test_a_conversation_goes_on_with_what_it_is_about_and_rests_on_what_stands_above(writer: EngineProcess):
    def answer(text: str, transcript: tuple[dict[str, object], ...] = ()) -> protocol.Answer:
        few = SamplingParams(max_tokens=2)
        writer.result(protocol.ASK, protocol.Ask(question_id=text, text=text, transcript=transcript, sampling=few))
        end = writer.answer_to(text)
        assert isinstance(end, protocol.AnswerFinished)
        return end.answer

    first = answer("How high is the security deposit of the flat?")
    follow_up = answer("And when is it returned?", first.segments)
    shorter = answer("Shorter, please", (*first.segments, *follow_up.segments))
    assert first.scope.recognised == ()
    [told] = follow_up.scope.recognised
    assert told.startswith("together with the question")
    assert "within six weeks" in follow_up.passages[0].text
    assert shorter.scope.recognised == ("about the answer above, so nothing new was searched",)
    assert any("within six weeks" in one.text for one in shorter.passages)
    assert {one.row_id for one in shorter.passages} <= {one.row_id for one in follow_up.passages}


def test_garbage_on_the_pipe_is_passed_over(library: EngineProcess):
    library.send_line(b"this is no message\n{]\n\n")
    library.send_line(json.dumps({"id": 77_000, "method": "no.such"}).encode() + b"\n")
    assert library.result(protocol.PING) is not None


def test_nothing_but_garbage_ends_the_engine(idle: EngineProcess):
    idle.send_line(b"garbage\n" * 50)
    assert idle.process.wait(60) == 0


def test_an_error_is_a_reply_with_a_sentence(library: EngineProcess, tmp_path: Path):
    reply = library.request(protocol.ADD, protocol.AddPaths(paths=(str(tmp_path / "nowhere"),)))
    assert reply.error is not None
    assert (reply.error.kind, "nowhere" in reply.error.sentence) == ("NothingThere", True)
    assert library.request(protocol.ASK, protocol.Ask(question_id="blank", text=" ")).error is not None
    assert library.request(protocol.MODELS_USE, protocol.ModelFile(path=__file__)).error is not None


def test_the_engine_ends_when_its_window_does(engine: EngineProcess):
    engine.wait_for_kind(protocol.Ready)
    engine.close()
    assert engine.process.returncode == 0


def test_sigterm_ends_it_politely_and_ctrl_c_and_a_closed_terminal_are_the_windows_affair(engine: EngineProcess):
    engine.wait_for_kind(protocol.Ready)
    for number in (signal.SIGINT, signal.SIGHUP):
        engine.process.send_signal(number)
        assert engine.result(protocol.PING) is not None
    engine.process.send_signal(signal.SIGTERM)
    assert engine.process.wait(60) == 0


@pytest.mark.skipif(sys.platform != "linux", reason="threads are signalled by number on Linux only")
def test_sigterm_ends_it_also_where_it_interrupts_no_read_of_the_main_thread(idle: EngineProcess):
    idle.wait_for_kind(protocol.Ready)
    assert idle.result(protocol.PING) is not None
    others = [thread.id for thread in psutil.Process(idle.pid).threads() if thread.id != idle.pid]
    assert ctypes.CDLL(None).tgkill(idle.pid, others[0], signal.SIGTERM) == 0
    assert idle.process.wait(60) == 0


def test_shutdown_ends_it(idle: EngineProcess):
    idle.wait_for_kind(protocol.Ready)
    idle.result(protocol.SHUTDOWN)
    idle.process.stdin.close()
    assert idle.process.wait(60) == 0


def test_a_second_engine_on_the_same_library_answers_every_request_with_the_reason(idle: EngineProcess, home: Path):
    idle.result(protocol.LIBRARY)
    with EngineProcess(home, home.with_name("second.log")) as second:
        reply = second.request(protocol.LIBRARY)
    assert reply.error is not None
    assert reply.error.kind == "LibraryHeld"


def test_a_killed_engine_leaves_no_child_behind(idle: EngineProcess, corpus: Path):
    idle.result(protocol.ADD, protocol.AddPaths(paths=(str(corpus),)))
    process = psutil.Process(idle.pid)
    # A file is read by the process that is to outlive nobody.
    while not (children := process.children(recursive=True)):
        time.sleep(0.02)
    idle.kill()
    _, alive = psutil.wait_procs(children, timeout=30)
    assert not alive


def test_an_engine_killed_while_it_indexes_leaves_no_half_document(home: Path, tmp_path: Path):
    folder = tmp_path / "many"
    folder.mkdir()
    for number in range(60):
        text = f"# Note {number}\n\n" + f"The lighthouse number {number} was painted in the year {1800 + number}. " * 40
        (folder / f"note{number}.md").write_text(text)
    with EngineProcess(home) as engine:
        engine.result(protocol.ADD, protocol.AddPaths(paths=(str(folder),)))
        engine.wait_for(lambda n: isinstance(n, protocol.IndexProgress) and 0 < n.documents_done < 60)
        engine.kill()
    with EngineProcess(home, home.with_name("again.log")) as engine:
        # The interrupted job goes on by itself.
        while engine.result(protocol.DOCUMENTS, protocol.ListDocuments(states=("indexed",))).total < 60:
            time.sleep(0.2)
        documents = engine.result(protocol.DOCUMENTS, protocol.ListDocuments()).documents
        assert {document.state for document in documents} == {"indexed"}
        reply = engine.result(protocol.SEARCH, protocol.Search(query="lighthouse number 59 painted", top_k=3))
        assert any(passage.document.endswith("note59.md") for passage in reply.passages)


@pytest.mark.skipif(sys.platform == "win32", reason="there, nobody sends SIGTERM")
def test_an_engine_that_is_ended_from_outside_says_of_no_question_that_it_was_stopped(
    home: Path, corpus: Path, model: Path
):
    with EngineProcess(home) as engine:
        engine.add(corpus)
        engine.result(protocol.MODELS_USE, protocol.ModelFile(path=str(model)))
        engine.result(protocol.ASK, endless("a"))
        engine.result(protocol.ASK, endless("b"))
        engine.wait_for_kind(protocol.AnswerTokens)
        engine.process.send_signal(signal.SIGTERM)
        assert engine.process.wait(60) == 0
        engine.close()
        ends = (protocol.AnswerFinished, protocol.AnswerCancelled, protocol.AnswerFailed)
        assert not [notice for notice in engine.notices if isinstance(notice, ends)]


def test_an_engine_killed_while_it_answers_can_be_asked_again(home: Path, corpus: Path, model: Path):
    with EngineProcess(home) as engine:
        engine.add(corpus)
        engine.result(protocol.MODELS_USE, protocol.ModelFile(path=str(model)))
        engine.result(protocol.ASK, endless("a"))
        engine.wait_for_kind(protocol.AnswerTokens)
        engine.kill()
    with EngineProcess(home, home.with_name("again.log")) as engine:
        engine.result(protocol.ASK, ask("a", sampling=SamplingParams(max_tokens=4)))
        end = engine.answer_to("a")
        assert isinstance(end, protocol.AnswerFinished)
        assert end.answer.model == "tiny-llama"


def test_the_process_is_a_considerate_one(idle: EngineProcess):
    idle.wait_for_kind(protocol.Ready)
    assert psutil.Process(idle.pid).nice() == psutil.Process(os.getpid()).nice() + 5
    assert int(Path(f"/proc/{idle.pid}/oom_score_adj").read_text()) == 300


def test_a_long_answer_goes_on_from_what_is_found_while_it_is_written(writer: EngineProcess, tmp_path: Path):
    # One that reads letters needs room for them; it is to write nothing but short sentences.
    model = write_tiny_model(tmp_path / "long.gguf", context=8192)
    writer.result(protocol.MODELS_USE, protocol.ModelFile(path=str(model)))
    before = writer.result(protocol.SETTINGS_GET).settings
    names = ("generation.refresh", "retrieval.passages")
    kept = {name: before[name.partition(".")[0]][name.partition(".")[2]] for name in names}
    writer.result(protocol.SETTINGS_SET, protocol.SetSettings(changes=dict(zip(names, ("always", 1), strict=True))))
    wanted = tuple((token_of(text), 60.0) for text in ("a", "b", " c", "."))
    sampling = SamplingParams(max_tokens=800, temperature=1.0, seed=7, logit_bias=wanted)
    try:
        # Beside other work, looking may hold up the first ones more than an answer may pay for what was found.
        for number in range(10):
            writer.result(protocol.ASK, ask(f"long {number}", sampling=sampling))
            end = writer.answer_to(f"long {number}")
            told = [
                n
                for n in writer.notices
                if isinstance(n, protocol.AnswerRefreshed) and n.question_id == end.question_id
            ]
            if told:
                break
    finally:
        writer.result(protocol.SETTINGS_SET, protocol.SetSettings(changes=kept))
    assert isinstance(end, protocol.AnswerFinished)
    assert 1 <= len(told) == end.timings.refreshes <= 4
    assert tuple(notice.refresh for notice in told) == end.answer.refreshes
    assert end.answer.passages[1:] == tuple(passage for notice in told for passage in notice.passages)
    assert 0 <= end.timings.refresh_hidden_s <= end.timings.refresh_retrieval_s
    writer.result(protocol.ASK, ask("next", transcript=end.answer.segments, sampling=SamplingParams(max_tokens=2)))
    after = writer.answer_to("next")
    assert isinstance(after, protocol.AnswerFinished)
    assert after.timings.cached_tokens > end.timings.prompt_tokens + end.timings.generated_tokens
