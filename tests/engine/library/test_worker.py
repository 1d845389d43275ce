"""Tests for engine.library.worker."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from engine.catalog import Catalog, CatalogReader, Root
from engine.config import LibrarySettings, Settings
from engine.core import Document, FoundFile
from engine.errors import BadRequest, DiskFull, EmbedderUnavailable, LibraryError, NothingThere
from engine.events import Event, IndexFailed, IndexFinished, IndexProgressed, LibraryChanged, ProblemFound
from engine.giving_way import GivingWay
from engine.library import indexer, survey
from engine.library.indexer import Indexer
from engine.library.job_runner import INDEX_LOST, NO_ROOM, ROWS_LOST
from engine.library.jobs import IndexJob, Reindex
from engine.library.queue import JobQueue
from engine.library.reading import FIRST_PATIENCE, LAST_PATIENCE
from engine.library.seams import Stores
from engine.library.worker import CANCELLED, IndexWorker
from engine.partitions.rows import Vectors
from tests.helpers.library import FakeParser, FakeStores, FakeTable, check_integrity, wait_until

if TYPE_CHECKING:
    from engine.engine import Engine

HANG_SECONDS = 20


@dataclass
class Bench:
    """A worker on fakes that writes down what it says; `clock` never moves by itself."""

    docs: Path
    home: Path
    stores: FakeStores = field(default_factory=FakeStores)
    parser: FakeParser = field(default_factory=FakeParser)
    events: list[Event] = field(default_factory=list)
    seconds: float = 0.0
    num_openings: int = 0
    fault: Exception | None = None
    share: float = 1.0

    def __post_init__(self) -> None:
        self.docs.mkdir(exist_ok=True)
        self.home.mkdir(exist_ok=True)
        self._heard = threading.Condition()
        self.catalog = Catalog.open(self.home)
        self.worker = self._worker()

    def _worker(self) -> IndexWorker:
        return IndexWorker(
            self.catalog,
            self.parser,
            self._open,
            Settings,
            self._hear,
            lambda: self.seconds,
            giving_way=GivingWay(lambda: self.share, lambda: self.seconds),
        )

    def _open(self) -> Stores:
        self.num_openings += 1
        if self.fault is not None:
            raise self.fault
        return self.stores

    def _hear(self, event: Event) -> None:
        with self._heard:
            self.events.append(event)
            self._heard.notify_all()

    def wait_for(self, is_it: Callable[[Event], bool]) -> None:
        with self._heard:
            assert self._heard.wait_for(lambda: any(map(is_it, self.events)), HANG_SECONDS), self.events

    def restart(self) -> None:
        self.worker.stop()
        self.events.clear()
        self.worker = self._worker()
        self.worker.start()

    def restart_as_after_a_crash(self, job: IndexJob) -> None:
        """The job's threads are gone, its end was never written; the next start goes on."""
        self.worker.stop()
        assert job.wait(HANG_SECONDS).was_cancelled
        del self.catalog.clear_begun
        self.parser.gate.set()
        self.restart()
        self.wait_for(lambda event: isinstance(event, IndexFinished))

    def write(self, name: str, *lines: str) -> str:
        path = self.docs / name
        path.parent.mkdir(exist_ok=True)
        path.write_text("\n".join(lines) or f"The text of {name}.")
        return str(path)

    def states(self) -> dict[str, str]:
        return {os.path.basename(document.path): document.state for document in self.catalog.documents(limit=-1)[0]}

    def told(self, kind: type[Event]) -> list[Event]:
        return [event for event in self.events if isinstance(event, kind)]


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    made = Bench(tmp_path / "docs", tmp_path / "home")
    made.worker.start()
    yield made
    made.parser.gate.set()
    made.worker.stop()
    made.worker.stop()
    made.catalog.close()


def test_adding_a_folder_indexes_it_and_says_so(bench: Bench) -> None:
    bench.write("a.md", "one", "two")

    finished = bench.worker.add([str(bench.docs)]).wait(HANG_SECONDS)

    assert (finished.indexed, finished.chunks) == (1, 2)
    assert bench.told(IndexFinished) == [finished]
    assert isinstance(bench.events[0], LibraryChanged)
    check_integrity(bench.catalog, bench.stores.table)


def test_the_last_progress_is_always_told_and_others_not_more_often_than_ten_a_second(bench: Bench) -> None:
    for number in range(50):
        bench.write(f"{number}.md")

    bench.worker.add([str(bench.docs)]).wait(HANG_SECONDS)

    told = bench.told(IndexProgressed)
    assert len(told) == 2
    assert isinstance(told[-1], IndexProgressed)
    assert (told[-1].documents_done, told[-1].documents_total) == (50, 50)


def test_what_was_removed_leaves_the_disk_once_there_is_nothing_else_to_do(bench: Bench) -> None:
    path = bench.write("a.md")
    bench.write("b.md")
    bench.worker.add([str(bench.docs)]).wait(HANG_SECONDS)
    bench.worker.remove([path])
    assert bench.stores.table.is_removed_kept
    wait_until(lambda: bench.worker.is_idle)
    bench.events.clear()

    bench.worker.pause()
    bench.worker.forget_when_idle()
    assert bench.worker.is_idle
    bench.worker.resume()
    bench.worker.forget_when_idle()
    bench.worker.refresh([str(bench.docs)]).wait(HANG_SECONDS)

    assert not bench.stores.table.is_removed_kept
    assert bench.told(IndexFinished) == []
    check_integrity(bench.catalog, bench.stores.table)


def test_what_no_person_removed_leaves_the_disk_when_there_is_power_to_spare(bench: Bench) -> None:
    path, other, *_ = [bench.write(f"{number}.md") for number in range(9)]
    bench.worker.add([str(bench.docs)]).wait(HANG_SECONDS)
    table, asked = bench.stores.table, list[bool]()

    def forget(*, can_spare: bool) -> None:
        wait_until(lambda: bench.worker.is_idle)
        bench.worker._can_spare = lambda: asked.append(can_spare) or can_spare
        bench.worker.forget_when_idle()
        bench.worker.refresh([str(bench.docs)]).wait(HANG_SECONDS)

    os.unlink(path)
    bench.worker.refresh([path]).wait(HANG_SECONDS)
    forget(can_spare=False)
    assert table.is_removed_kept
    forget(can_spare=True)
    assert not table.is_removed_kept
    bench.worker.remove([other])
    asked.clear()
    forget(can_spare=False)
    assert not table.is_removed_kept
    assert asked == []


def test_what_was_removed_leaves_the_disk_when_somebody_has_all_looked_at(bench: Bench) -> None:
    path = bench.write("a.md")
    bench.worker.add([str(bench.docs)]).wait(HANG_SECONDS)
    bench.worker.remove([path])
    bench.worker.rescan(is_unasked=True).wait(HANG_SECONDS)
    assert bench.stores.table.is_removed_kept
    bench.worker.rescan().wait(HANG_SECONDS)
    assert not bench.stores.table.is_removed_kept


def test_that_there_is_no_room_to_tidy_up_is_told_once_until_there_has_been_some(bench: Bench) -> None:
    def add(name: str, *, lacks_room: bool) -> int:
        bench.stores.table.lacks_room = lacks_room
        bench.worker.add([bench.write(name)]).wait(HANG_SECONDS)
        return len(bench.told(ProblemFound))

    assert add("a.md", lacks_room=False) == 0
    assert [add("b.md", lacks_room=True), add("c.md", lacks_room=True)] == [1, 1]
    assert bench.told(ProblemFound) == [ProblemFound(NO_ROOM)]
    assert [add("d.md", lacks_room=False), add("e.md", lacks_room=True)] == [1, 2]


@pytest.mark.parametrize("is_lost", [True, False])
def test_a_lost_index_is_told_of_made_anew_and_then_deleted(bench: Bench, is_lost: bool) -> None:
    bench.write("a.md")
    bench.worker.add([str(bench.docs)]).wait(HANG_SECONDS)
    assert bench.told(ProblemFound) == []
    bench.stores = FakeStores(table=FakeTable(set_aside=(bench.home / "chunks.broken-1",))) if is_lost else FakeStores()
    bench.stores.table.went_back_to_ns = None if is_lost else 2**62
    bench.parser.gate.clear()

    bench.restart()
    bench.wait_for(lambda event: isinstance(event, ProblemFound))
    assert bench.told(ProblemFound) == [ProblemFound(INDEX_LOST if is_lost else ROWS_LOST)]
    assert not bench.stores.table.is_set_aside_dropped
    bench.parser.gate.set()
    bench.worker.rescan().wait(HANG_SECONDS)

    assert bench.stores.table.is_set_aside_dropped
    assert bench.stores.table.went_back_to_ns is None
    check_integrity(bench.catalog, bench.stores.table)


def test_a_path_that_does_not_exist_is_refused_at_once_and_nothing_is_added(bench: Bench) -> None:
    with pytest.raises(NothingThere, match=r"nowhere.*Check the spelling"):
        bench.worker.add([str(bench.docs), str(bench.docs / "nowhere")])

    assert bench.catalog.roots() == ()


def test_a_collection_without_a_name_is_refused(bench: Bench) -> None:
    with pytest.raises(BadRequest):
        bench.worker.add([str(bench.docs)], " ")


def test_what_was_added_is_known_before_its_turn_comes(bench: Bench) -> None:
    bench.write("a.md")
    other = bench.docs.with_name("other")
    other.mkdir()
    bench.parser.gate.clear()
    bench.worker.add([str(bench.docs)])
    assert bench.parser.began.wait(HANG_SECONDS)

    bench.worker.add([str(other)], "Work")

    assert [root.path for root in bench.catalog.roots("Work")] == [str(other)]


def test_jobs_are_done_in_the_order_they_came(bench: Bench) -> None:
    first, second = bench.write("a.md"), bench.write("b.md")

    jobs = [bench.worker.add([path]) for path in (first, second)]

    assert [job.wait(HANG_SECONDS).indexed for job in jobs] == [1, 1]
    assert bench.parser.paths_read == [first, second]


def test_stores_are_opened_once_and_only_when_there_is_something_to_do(tmp_path: Path) -> None:
    made = Bench(tmp_path / "docs", tmp_path / "home")
    made.worker.start(resume=False)
    path = made.write("a.md")
    assert made.num_openings == 0

    for _ in range(2):
        made.worker.add([path]).wait(HANG_SECONDS)
    made.worker.remove([path])

    made.worker.stop()
    made.catalog.close()
    assert made.num_openings == 1


def test_a_start_with_nothing_to_resume_says_nothing(bench: Bench) -> None:
    bench.worker.add([bench.write("a.md")]).wait(HANG_SECONDS)

    bench.restart()
    bench.worker.rescan().wait(HANG_SECONDS)

    assert len(bench.told(IndexFinished)) == 1


def test_an_interrupted_job_goes_on_by_itself_at_the_next_start(bench: Bench) -> None:
    bench.write("a.md")
    bench.write("b.md")
    bench.parser.gate.clear()
    job = bench.worker.add([str(bench.docs)])
    assert bench.parser.began.wait(HANG_SECONDS)
    bench.worker.stop()
    assert job.wait(HANG_SECONDS).was_cancelled
    assert bench.states() == {"a.md": "pending", "b.md": "pending"}
    bench.parser.gate.set()

    bench.restart()
    bench.wait_for(lambda event: isinstance(event, IndexFinished))

    assert bench.states() == {"a.md": "indexed", "b.md": "indexed"}


def test_a_job_that_was_still_waiting_goes_on_at_the_next_start(bench: Bench) -> None:
    bench.write("a.md")
    other = bench.docs.with_name("other")
    other.mkdir()
    (other / "b.md").write_text("b")
    bench.parser.gate.clear()
    bench.worker.add([str(bench.docs)])
    waiting = bench.worker.add([str(other)])
    assert bench.parser.began.wait(HANG_SECONDS)
    bench.worker.stop()
    assert waiting.wait(HANG_SECONDS).was_cancelled
    bench.parser.gate.set()

    bench.restart()
    bench.wait_for(lambda event: isinstance(event, IndexFinished))

    assert bench.states() == {"a.md": "indexed", "b.md": "indexed"}


def test_a_retry_that_was_cancelled_is_made_when_it_is_asked_for_again(bench: Bench) -> None:
    path = bench.write("a.md", "BROKEN")
    bench.worker.add([path]).wait(HANG_SECONDS)
    assert bench.states() == {"a.md": "failed"}
    bench.parser.began.clear()
    bench.parser.gate.clear()
    retry = bench.worker.add([path])
    assert bench.parser.began.wait(HANG_SECONDS)
    bench.worker.cancel()
    assert retry.wait(HANG_SECONDS).was_cancelled
    assert bench.states() == {"a.md": "skipped"}
    bench.parser.gate.set()

    assert [one for one, _ in bench.worker.add([path]).wait(HANG_SECONDS).failed] == [path]


def test_a_cancelled_job_stays_cancelled_until_it_is_asked_for_again(bench: Bench) -> None:
    bench.write("a.md")
    bench.parser.gate.clear()
    job = bench.worker.add([str(bench.docs)])
    waiting = bench.worker.add([bench.write("b.md")], "Work")
    assert bench.parser.began.wait(HANG_SECONDS)

    bench.worker.cancel()
    bench.worker.cancel()

    assert job.wait(HANG_SECONDS).was_cancelled
    assert waiting.wait(HANG_SECONDS).was_cancelled
    bench.parser.gate.set()
    bench.restart()
    rescanned = bench.worker.rescan().wait(HANG_SECONDS)
    assert (str(bench.docs / "a.md"), CANCELLED) in rescanned.skipped
    assert bench.states()["a.md"] == "skipped"
    bench.worker.add([str(bench.docs)]).wait(HANG_SECONDS)
    assert set(bench.states().values()) == {"indexed"}


def test_a_folder_cancelled_before_its_turn_is_forgotten(bench: Bench) -> None:
    bench.write("a.md")
    other = bench.docs.with_name("other")
    other.mkdir()
    bench.parser.gate.clear()
    job = bench.worker.add([str(bench.docs)])
    assert bench.parser.began.wait(HANG_SECONDS)
    bench.worker.add([str(other)], "Work")

    bench.worker.cancel()
    job.wait(HANG_SECONDS)

    assert bench.catalog.collection_names() == ("Documents",)


@pytest.fixture
def beside(bench: Bench) -> Path:
    """A document in a folder of its own, which is in the library."""
    path = bench.docs.with_name("beside") / "beside.md"
    path.parent.mkdir()
    path.write_text("A text beside the others.")
    (path.parent / "stays.md").write_text("It stays.")
    bench.worker.add([str(path.parent)]).wait(HANG_SECONDS)
    return path


def test_what_was_heard_while_a_job_ran_is_looked_at_though_that_is_cancelled(bench: Bench, beside: Path) -> None:
    bench.parser.began.clear()
    bench.parser.gate.clear()
    job = bench.worker.add([bench.write("a.md")])
    assert bench.parser.began.wait(HANG_SECONDS)
    beside.unlink()
    heard = bench.worker.refresh([str(beside)])
    unasked, asked = bench.worker.rescan(is_unasked=True), bench.worker.rescan()

    bench.worker.cancel()

    assert job.wait(HANG_SECONDS).was_cancelled
    assert asked.wait(HANG_SECONDS).was_cancelled
    finished = heard.wait(HANG_SECONDS)
    assert (finished.removed, finished.was_cancelled) == (1, False)
    assert not unasked.wait(HANG_SECONDS).was_cancelled
    assert bench.states() == {"a.md": "skipped", "stays.md": "indexed"}


@pytest.mark.parametrize("wish", ["refresh", "rescan"])
def test_a_look_that_was_cancelled_before_it_had_seen_all_is_made_again(
    bench: Bench, beside: Path, monkeypatch: pytest.MonkeyPatch, wish: str
) -> None:
    looked, looks = survey.find_moves, list[str]()

    def slow(*arguments: object) -> object:
        moves = yield from looked(*arguments)  # type: ignore[arg-type]
        looks.append("")
        if len(looks) == 1:
            bench.worker.cancel()
            yield str(beside)
        return moves

    monkeypatch.setattr(survey, "find_moves", slow)
    beside.unlink()
    worker = bench.worker
    job = worker.refresh([str(beside)]) if wish == "refresh" else worker.rescan(is_unasked=True)

    assert job.wait(HANG_SECONDS).was_cancelled
    wait_until(lambda: bench.states() == {"stays.md": "indexed"})
    wait_until(lambda: worker.is_idle)
    assert len(looks) == 2


def test_what_a_look_found_is_not_read_again_when_its_reading_was_cancelled(bench: Bench, beside: Path) -> None:
    bench.parser.began.clear()
    bench.parser.gate.clear()
    beside.write_text("It was changed.")
    job = bench.worker.refresh([str(beside)])
    assert bench.parser.began.wait(HANG_SECONDS)

    bench.worker.cancel()
    bench.parser.gate.set()

    assert job.wait(HANG_SECONDS).was_cancelled
    assert bench.worker.reindex([str(beside.with_name("stays.md"))]).wait(HANG_SECONDS).indexed == 1
    assert bench.parser.paths_read.count(str(beside)) == 2


def test_cancelling_nothing_is_harmless(bench: Bench) -> None:
    bench.worker.add([bench.write("a.md")]).wait(HANG_SECONDS)

    bench.worker.cancel()

    assert bench.worker.rescan().wait(HANG_SECONDS).unchanged == 1


def test_progress_tells_that_it_is_slow_because_somebody_waits_for_an_answer(bench: Bench) -> None:
    for share in (0.25, 1.0):
        bench.share = share
        bench.events.clear()
        bench.worker.add([bench.write(f"{share}.md")]).wait(HANG_SECONDS)
        told = [event.gives_way for event in bench.events if isinstance(event, IndexProgressed)]
        assert told
        assert set(told) == {share < 1}
        bench.seconds += 60.0


def test_rates_go_by_a_clock_that_runs_as_slowly_as_documents_may_go(bench: Bench) -> None:
    bench.worker.add([bench.write("a.md")]).wait(HANG_SECONDS)
    wait_until(lambda: bench.worker.is_idle)
    indexer = bench.worker._runner.indexer
    assert indexer is not None
    bench.share = 0.25
    since = indexer._runs._clock()
    bench.seconds += 8.0
    assert indexer._runs._clock() - since == 2.0


def test_a_pause_is_told_and_holds_until_it_is_lifted(bench: Bench) -> None:
    bench.worker.pause()
    bench.parser.gate.clear()
    bench.write("a.md")
    bench.worker.resume()
    job = bench.worker.add([str(bench.docs)])
    assert bench.parser.began.wait(HANG_SECONDS)
    bench.worker.pause()
    bench.wait_for(lambda event: isinstance(event, IndexProgressed) and event.is_paused)
    bench.parser.gate.set()
    assert not job.ended.done()
    assert bench.states() == {"a.md": "pending"}

    bench.worker.resume()

    assert job.wait(HANG_SECONDS).indexed == 1


def test_a_pause_that_came_too_late_holds_nothing_that_comes_later(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    wait_until(lambda: bench.worker.is_idle)
    monkeypatch.setattr(bench.stores.table, "optimize", bench.worker.pause)
    assert bench.worker.add([bench.write("a.md")]).wait(HANG_SECONDS).indexed == 1
    wait_until(lambda: not bench.worker.is_paused)
    bench.wait_for(lambda event: isinstance(event, IndexFinished))
    assert isinstance(bench.events[-1], LibraryChanged), "whoever shows the pause hears that it is over"
    monkeypatch.undo()

    assert bench.worker.add([bench.write("b.md")]).wait(HANG_SECONDS).indexed == 1


def test_a_pause_that_came_too_late_holds_what_waits_already(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    later: list[IndexJob] = []

    def pause() -> None:
        later.append(bench.worker.add([bench.write("b.md")]))
        bench.worker.pause()

    monkeypatch.setattr(bench.stores.table, "optimize", pause)
    assert bench.worker.add([bench.write("a.md")]).wait(HANG_SECONDS).indexed == 1
    assert bench.worker.is_paused
    assert not later[0].ended.done()
    monkeypatch.undo()
    bench.worker.resume()
    assert later[0].wait(HANG_SECONDS).indexed == 1


def test_a_pause_while_another_job_has_cut_in_is_told_as_one_of_the_job_that_people_watch(bench: Bench) -> None:
    job = begun(bench, *(f"{number}.md" for number in range(50)))
    other = bench.docs.with_name("other.md")
    other.write_text("other")
    read, is_other_read, goes_on = bench.parser.read, threading.Event(), threading.Event()

    def read_when_allowed(path: str, *args: object) -> object:
        if path == str(other):
            is_other_read.set()
            assert goes_on.wait(HANG_SECONDS)
        return read(path, *args)  # type: ignore[arg-type]

    bench.parser.read = read_when_allowed  # type: ignore[method-assign,assignment]
    small = bench.worker.add([str(other)])
    assert is_other_read.wait(HANG_SECONDS)
    bench.worker.pause()
    goes_on.set()
    bench.parser.gate.set()
    bench.wait_for(lambda event: isinstance(event, IndexProgressed) and event.is_paused)
    paused = bench.told(IndexProgressed)[-1]
    assert isinstance(paused, IndexProgressed)
    assert paused.documents_total == 50
    assert not small.ended.done()
    bench.events.clear()

    bench.worker.resume()

    bench.wait_for(lambda event: isinstance(event, IndexProgressed) and not event.is_paused)
    assert small.wait(HANG_SECONDS).indexed == 1
    assert job.wait(HANG_SECONDS).indexed == 50


def test_a_paused_job_can_be_cancelled(bench: Bench) -> None:
    bench.parser.gate.clear()
    job = bench.worker.add([bench.write("a.md")])
    assert bench.parser.began.wait(HANG_SECONDS)
    bench.worker.pause()
    bench.wait_for(lambda event: isinstance(event, IndexProgressed) and event.is_paused)

    bench.worker.cancel()

    assert job.wait(HANG_SECONDS).was_cancelled


def test_it_tells_whether_somebody_waits_for_the_next_step(bench: Bench) -> None:
    bench.parser.gate.clear()
    job = bench.worker.add([bench.write("a.md")])
    assert bench.parser.began.wait(HANG_SECONDS)
    assert not bench.worker.is_awaited
    bench.worker.pause()
    assert bench.worker.is_awaited
    bench.worker.resume()
    assert not bench.worker.is_awaited
    bench.worker.cancel()
    assert job.wait(HANG_SECONDS).was_cancelled


def test_a_cancel_or_a_removal_is_waited_for_until_it_has_been_heard() -> None:
    queue = JobQueue()
    running = queue.put(Reindex(("/docs",)))
    assert queue.next() is running
    assert not queue.is_awaited
    remover = threading.Thread(target=queue.remove, args=(lambda _: 1,), daemon=True)
    remover.start()
    while not queue.is_awaited:
        assert remover.is_alive()
    removal = queue.next_removal()
    assert removal is not None
    assert not queue.is_awaited
    removal.removed.set_result(1)
    queue.cancel()
    assert queue.is_awaited


def test_a_paused_worker_can_be_stopped(bench: Bench) -> None:
    bench.parser.gate.clear()
    job = bench.worker.add([bench.write("a.md")])
    assert bench.parser.began.wait(HANG_SECONDS)
    bench.worker.pause()

    bench.worker.stop()

    assert job.wait(HANG_SECONDS).was_cancelled


def test_documents_can_be_removed_while_others_are_indexed(bench: Bench) -> None:
    gone = bench.write("gone.md")
    bench.worker.add([gone]).wait(HANG_SECONDS)
    bench.parser.began.clear()
    bench.parser.gate.clear()
    job = bench.worker.add([bench.write("b.md")])
    assert bench.parser.began.wait(HANG_SECONDS)

    assert bench.worker.remove([gone]) == 1

    assert not job.ended.done()
    assert bench.states() == {"b.md": "pending"}
    bench.parser.gate.set()
    assert job.wait(HANG_SECONDS).indexed == 1


def test_documents_can_be_removed_while_indexing_is_paused(bench: Bench) -> None:
    bench.parser.gate.clear()
    job = bench.worker.add([bench.write("a.md")])
    assert bench.parser.began.wait(HANG_SECONDS)
    bench.worker.pause()
    bench.wait_for(lambda event: isinstance(event, IndexProgressed) and event.is_paused)

    assert bench.worker.remove([str(bench.docs / "a.md")]) == 1

    bench.parser.gate.set()
    bench.worker.resume()
    assert job.wait(HANG_SECONDS).indexed == 0
    assert bench.states() == {}


def test_removing_what_is_not_there_is_refused(bench: Bench) -> None:
    with pytest.raises(NothingThere):
        bench.worker.remove([str(bench.docs)])


def test_a_collection_can_be_deleted(bench: Bench) -> None:
    bench.worker.add([bench.write("a.md")], "Work").wait(HANG_SECONDS)

    assert bench.worker.remove_collection("Work") == 1
    assert bench.catalog.collections() == ()


def test_a_collection_is_renamed_while_it_is_being_read(bench: Bench) -> None:
    bench.parser.gate.clear()
    job = bench.worker.add([bench.write("a.md"), bench.write("b.md")], "Work")
    assert bench.parser.began.wait(HANG_SECONDS)
    before = len(bench.told(LibraryChanged))

    # It waits for no step of the job.
    bench.worker.rename_collection("Work", "Firm")

    assert len(bench.told(LibraryChanged)) > before
    bench.parser.gate.set()
    assert job.wait(HANG_SECONDS).indexed == 2
    (collection,) = bench.catalog.collections()
    assert (collection.name, collection.documents_by_state["indexed"]) == ("Firm", 2)
    assert bench.worker.rescan().wait(HANG_SECONDS).unchanged == 2
    with pytest.raises(BadRequest):
        bench.worker.rename_collection("Firm", " ")


def test_a_collection_is_deleted_while_it_is_being_read(bench: Bench) -> None:
    bench.parser.gate.clear()
    job = bench.worker.add([bench.write("a.md")], "Work")
    assert bench.parser.began.wait(HANG_SECONDS)
    bench.worker.pause()
    bench.wait_for(lambda event: isinstance(event, IndexProgressed) and event.is_paused)

    assert bench.worker.remove_collection("Work") == 1

    bench.parser.gate.set()
    bench.worker.resume()
    assert job.wait(HANG_SECONDS).indexed == 0
    assert (bench.states(), bench.catalog.collections(), bench.catalog.roots()) == ({}, (), ())
    assert bench.worker.rescan().wait(HANG_SECONDS).indexed == 0


def test_documents_are_read_again_when_asked(bench: Bench) -> None:
    path = bench.write("a.md", "BROKEN")
    bench.worker.add([path]).wait(HANG_SECONDS)
    bench.write("a.md", "mended")

    assert bench.worker.reindex([path]).wait(HANG_SECONDS).indexed == 1
    with pytest.raises(NothingThere, match="nowhere"):
        bench.worker.reindex(["/nowhere"])


@pytest.mark.parametrize("at_once", [False, True])
def test_a_full_disk_fails_the_job_and_resuming_goes_on(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, at_once: bool
) -> None:
    bench.write("a.md")
    take_next, goes_on = JobQueue.next, threading.Event()

    def hesitating(queue: JobQueue) -> object:
        if at_once and bench.told(IndexFailed):
            assert goes_on.wait(HANG_SECONDS)
        return take_next(queue)

    def full(*_: object) -> None:
        raise RuntimeError("lance error: IO error: No space left on device (os error 28)")

    monkeypatch.setattr(JobQueue, "next", hesitating)
    with monkeypatch.context() as patch:
        patch.setattr(bench.stores.table, "put_documents", full)
        job = bench.worker.add([str(bench.docs)])
        with pytest.raises(DiskFull):
            job.wait(HANG_SECONDS)
    bench.worker.resume()
    goes_on.set()
    (failed,) = bench.told(IndexFailed)
    assert isinstance(failed, IndexFailed)
    assert isinstance(failed.error, DiskFull)
    assert failed.error.way_out

    bench.wait_for(lambda event: isinstance(event, IndexFinished))

    assert bench.states() == {"a.md": "indexed"}


def test_stores_that_cannot_be_opened_fail_the_job_and_are_tried_again(tmp_path: Path) -> None:
    made = Bench(
        tmp_path / "docs", tmp_path / "home", fault=EmbedderUnavailable("The model is missing.", "Install it.")
    )
    made.worker.start(resume=False)
    path = made.write("a.md")
    with pytest.raises(EmbedderUnavailable):
        made.worker.add([path]).wait(HANG_SECONDS)
    with pytest.raises(EmbedderUnavailable):
        made.worker.remove([path])
    made.fault = None

    assert made.worker.add([path]).wait(HANG_SECONDS).indexed == 1
    made.worker.stop()
    made.catalog.close()


@pytest.mark.expects_warnings
def test_a_fault_of_our_own_ends_as_a_failed_job_and_the_worker_lives(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = bench.write("a.md")
    with monkeypatch.context() as patch:
        patch.setattr(bench.stores.embedder, "embed_documents", lambda texts: 1 // 0)
        with pytest.raises(LibraryError, match="unexpected error"):
            bench.worker.add([path]).wait(HANG_SECONDS)

    assert bench.worker.add([path]).wait(HANG_SECONDS).indexed == 1


class Panic(BaseException):
    """As Rust code panics."""


@pytest.mark.expects_warnings
def test_a_panic_of_rust_code_ends_as_a_failure_and_the_worker_lives(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    def panic(*_: object) -> None:
        raise Panic("index out of bounds")

    path = bench.write("a.md")
    with monkeypatch.context() as patch:
        patch.setattr(bench.stores.embedder, "embed_documents", panic)
        with pytest.raises(LibraryError, match="unexpected error: index out of bounds"):
            bench.worker.add([path]).wait(HANG_SECONDS)
    assert bench.worker.add([path]).wait(HANG_SECONDS).indexed == 1
    with monkeypatch.context() as patch:
        patch.setattr(bench.stores.table, "delete_documents", panic)
        with pytest.raises(LibraryError, match="unexpected error: index out of bounds"):
            bench.worker.remove([path])
    bench.worker.rescan().wait(HANG_SECONDS)


def test_a_stopped_worker_refuses_wishes(bench: Bench) -> None:
    path = bench.write("a.md")
    bench.worker.stop()

    for wish in (bench.worker.add, bench.worker.remove):
        with pytest.raises(LibraryError, match="being closed"):
            wish([path])


# --- passwords ---


def known(bench: Bench, path: str) -> Document:
    document = bench.catalog.document_by_path(path)
    assert document is not None
    return document


def test_a_password_opens_what_needs_it_and_nothing_else_is_read(bench: Bench) -> None:
    locked = [bench.write(name, "LOCKED sesame", "Secret.") for name in ("a.txt", "b.txt")]
    bench.write("open.txt", "Open.")
    bench.worker.add([str(bench.docs)]).wait(HANG_SECONDS)
    assert [known(bench, path).needs for path in locked] == ["password", "password"]
    bench.parser.paths_read.clear()

    finished = bench.worker.unlock([str(bench.docs)], "sesame", remember=False).wait(HANG_SECONDS)

    assert finished.indexed == 2
    assert sorted(bench.parser.paths_read) == locked
    assert [(known(bench, path).state, known(bench, path).needs) for path in locked] == [("indexed", "")] * 2


def test_a_wrong_password_is_told_and_the_right_one_can_be_given_afterwards(bench: Bench) -> None:
    path = bench.write("a.txt", "LOCKED sesame", "Secret.")
    bench.worker.add([str(bench.docs)]).wait(HANG_SECONDS)

    bench.worker.unlock([path], "poppy", remember=True).wait(HANG_SECONDS)

    assert (known(bench, path).state, known(bench, path).needs) == ("skipped", "password")
    assert known(bench, path).reason == "The password does not open it."
    bench.worker.unlock([path], "sesame", remember=True).wait(HANG_SECONDS)
    assert known(bench, path).state == "indexed"
    assert bench.catalog.passwords_of(known(bench, path).document_id) == ("sesame",)


def test_a_changed_document_is_read_with_the_password_it_was_opened_with(bench: Bench) -> None:
    path = bench.write("a.txt", "LOCKED sesame", "Secret.")
    bench.worker.add([str(bench.docs)]).wait(HANG_SECONDS)
    bench.worker.unlock([path], "sesame", remember=False).wait(HANG_SECONDS)

    bench.write("a.txt", "LOCKED sesame", "Another secret.", "And one more.")
    bench.worker.rescan().wait(HANG_SECONDS)

    assert (known(bench, path).state, known(bench, path).num_chunks) == ("indexed", 3)


def test_a_password_for_what_needs_none_is_refused(bench: Bench) -> None:
    path = bench.write("a.txt", "Open.")
    bench.worker.add([path]).wait(HANG_SECONDS)

    with pytest.raises(NothingThere, match="needs a password"):
        bench.worker.unlock([path], "sesame", remember=False)
    with pytest.raises(BadRequest, match="empty"):
        bench.worker.unlock([path], "", remember=False)


def begun(bench: Bench, *names: str) -> IndexJob:
    """A long job, of which the first file is being read; the clock says that it has run for a while."""
    for name in names:
        bench.write(name)
    bench.parser.gate.clear()
    job = bench.worker.add([str(bench.docs)])
    assert bench.parser.began.wait(HANG_SECONDS)
    bench.seconds += 10
    return job


def test_a_small_job_cuts_in_on_a_long_one(bench: Bench) -> None:
    job = begun(bench, *(f"{number}.md" for number in range(50)))
    other = bench.docs.with_name("other.md")
    other.write_text("other")
    small = bench.worker.add([str(other)])
    while bench.catalog.document_by_path(str(other)) is None:
        threading.Event().wait(0.005)
    assert not job.ended.done()
    bench.parser.gate.set()

    assert small.wait(HANG_SECONDS).indexed == 1
    assert job.wait(HANG_SECONDS).indexed == 50
    assert [event.indexed for event in bench.told(IndexFinished) if isinstance(event, IndexFinished)] == [1, 50]
    check_integrity(bench.catalog, bench.stores.table)


def test_a_small_job_that_cuts_in_does_not_wait_for_the_files_that_are_being_read(
    tmp_path: Path, engine: Engine
) -> None:
    bench = Bench(tmp_path / "docs", tmp_path / "catalogue", parser=engine._parts.pool)
    slow = [bench.write(f"{number}.md") for number in range(2)]
    bench.worker.start()
    try:
        job = bench.worker.add([str(bench.docs)])
        wait_until(lambda: bool(engine._parts.pool._children))
        for child in engine._parts.pool._children:
            os.kill(child.pid, signal.SIGSTOP)
        bench.seconds += 10
        other = tmp_path / "other.md"
        other.write_text("other")

        assert bench.worker.add([str(other)]).wait(HANG_SECONDS).indexed == 1
        assert not job.ended.done()
        assert bench.states() == {os.path.basename(path): "pending" for path in slow} | {"other.md": "indexed"}
    finally:
        bench.worker.stop()
        bench.catalog.close()


def test_a_long_job_waits_for_its_turn(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(indexer, "_MAX_DOCUMENTS_CUTTING_IN", 1)
    job = begun(bench, "a.md", "b.md")
    other = bench.docs.with_name("other")
    other.mkdir()
    for number in range(3):
        (other / f"{number}.md").write_text(f"other {number}")
    later = bench.worker.add([str(other)])
    bench.seconds += 10
    bench.parser.gate.set()

    assert [job.wait(HANG_SECONDS).indexed, later.wait(HANG_SECONDS).indexed] == [2, 3]
    names = [os.path.basename(path) for path in bench.parser.paths_read]
    assert names[:2] == ["a.md", "b.md"]


def test_a_job_that_cuts_in_leaves_what_is_in_hand_to_the_other(bench: Bench) -> None:
    job = begun(bench, "a.md", "b.md", "c.md")
    look = bench.worker.rescan()
    bench.seconds += 10
    bench.parser.gate.set()

    assert [job.wait(HANG_SECONDS).indexed, look.wait(HANG_SECONDS).indexed] == [3, 0]
    assert len(bench.parser.paths_read) == 3


def test_a_change_to_what_is_being_embedded_is_looked_at_again_afterwards(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate, began = threading.Event(), threading.Event()
    embed = bench.stores.embedder.embed_documents

    def embed_when_allowed(texts: Sequence[str]) -> Vectors:
        if "slow" in texts:
            began.set()
            assert gate.wait(HANG_SECONDS)
        return embed(texts)

    monkeypatch.setattr(bench.stores.embedder, "embed_documents", embed_when_allowed)
    path = bench.write("a.md", "slow", "as it was")
    job = bench.worker.add([str(bench.docs)])
    assert began.wait(HANG_SECONDS)

    bench.write("a.md", "changed")
    bench.write("new.md")
    bench.seconds += 10
    look = bench.worker.refresh([str(bench.docs)])
    while bench.states().get("new.md") != "indexed":
        threading.Event().wait(0.005)
    assert not job.ended.done()
    assert not look.ended.done()
    gate.set()
    job.wait(HANG_SECONDS)
    look.wait(HANG_SECONDS)

    assert [row.text for row in bench.stores.table.rows[known(bench, path).document_id]] == ["changed"]
    assert (known(bench, path).state, known(bench, path).mtime_ns) == ("indexed", os.stat(path).st_mtime_ns)


def test_a_job_that_was_too_long_to_cut_in_ends_when_the_worker_stops(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun(bench, "a.md")
    marked = bench.catalog.mark_pending
    stopping = threading.Thread(target=bench.worker.stop)

    def mark(document_ids: Iterable[int], *, forget_content: bool = False) -> None:
        marked(document_ids, forget_content=forget_content)
        stopping.start()
        while not bench.worker._queue.is_stopping:
            threading.Event().wait(0.005)

    monkeypatch.setattr(bench.catalog, "mark_pending", mark)
    again = bench.worker.reindex([str(bench.docs)])

    assert again.wait(HANG_SECONDS).was_cancelled
    stopping.join()


def test_cancelling_ends_the_job_that_cut_in_and_the_other(bench: Bench) -> None:
    job = begun(bench, "a.md", "b.md")
    other = bench.docs.with_name("other.md")
    other.write_text("other")
    small = bench.worker.add([str(other)])
    while bench.catalog.document_by_path(str(other)) is None:
        bench.seconds += 1
        threading.Event().wait(0.005)

    bench.worker.cancel()

    assert small.wait(HANG_SECONDS).was_cancelled
    assert job.wait(HANG_SECONDS).was_cancelled


def test_what_is_prioritised_is_read_next(bench: Bench) -> None:
    names = [f"{number:02}.md" for number in range(40)]
    job = begun(bench, *names)

    assert bench.worker.prioritise([str(bench.docs / "37.md")]) is None
    bench.parser.gate.set()
    job.wait(HANG_SECONDS)

    assert [os.path.basename(path) for path in bench.parser.paths_read[:3]] == ["00.md", "37.md", "01.md"]


def test_what_waits_from_before_is_read_when_it_is_prioritised_and_the_rest_goes_on_waiting(tmp_path: Path) -> None:
    made = Bench(tmp_path / "docs", tmp_path / "home")
    made.catalog.add_root("Documents", str(made.docs), is_folder=True, device=1)
    for name in ("a.md", "b.md"):
        path = made.write(name)
        made.catalog.add_documents([FoundFile(path, os.path.getsize(path), os.stat(path).st_mtime_ns)])
    made.worker.start(resume=False)

    job = made.worker.prioritise([str(made.docs / "b.md")])

    assert job is not None
    assert job.wait(HANG_SECONDS).indexed == 1
    assert made.states() == {"a.md": "pending", "b.md": "indexed"}
    assert made.worker.prioritise([str(made.docs / "b.md")]) is None
    with pytest.raises(NothingThere, match="nowhere"):
        made.worker.prioritise(["/nowhere"])
    made.worker.stop()
    made.catalog.close()


def test_what_the_parser_gave_up_on_is_tried_once_more_at_the_end_with_more_time(bench: Bench) -> None:
    bench.write("a.md", "BROKEN")
    bench.write("b.md")

    finished = bench.worker.add([str(bench.docs)]).wait(HANG_SECONDS)

    assert [os.path.basename(path) for path in bench.parser.paths_read] == ["a.md", "b.md", "a.md"]
    assert bench.parser.patience == [FIRST_PATIENCE, FIRST_PATIENCE, LAST_PATIENCE]
    assert FIRST_PATIENCE < LAST_PATIENCE
    assert (finished.indexed, len(finished.failed)) == (1, 1)
    assert bench.states() == {"a.md": "failed", "b.md": "indexed"}


def test_a_document_that_ended_the_engine_is_read_alone_and_last_and_set_aside_in_the_end(bench: Bench) -> None:
    job = begun(bench, "bad.md", "good.md", "other.md")
    # As a crash leaves it: begun, and nobody tidied up.
    bench.catalog.clear_begun = lambda _: None  # type: ignore[method-assign]
    bench.restart_as_after_a_crash(job)
    assert bench.catalog.suspects() == {}
    assert bench.states() == {"bad.md": "indexed", "good.md": "indexed", "other.md": "indexed"}

    (bad,) = bench.catalog.documents_under(bench.write("bad.md", "changed"))
    for _ in range(2):
        bench.worker.stop()
        bench.catalog.mark_pending([bad.document_id])
        bench.catalog.mark_begun([bad.document_id], alone=True)
        Indexer(bench.catalog, bench.stores, bench.parser, LibrarySettings).reconcile()

    assert bench.states()["bad.md"] == "failed"
    (bad,) = bench.catalog.documents_under(str(bench.docs / "bad.md"))
    assert "twice in a row" in bad.reason
    assert bad.document_id not in bench.stores.table.rows


def test_a_look_that_waits_does_not_cut_in_on_a_look(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    bench.write("old.md")
    bench.worker.add([str(bench.docs)]).wait(HANG_SECONDS)
    looked = survey.find_moves
    waiting: list[IndexJob] = []

    def slow(*arguments: object) -> object:
        moves = yield from looked(*arguments)  # type: ignore[arg-type]
        if not waiting:
            waiting.append(bench.worker.refresh([str(bench.docs / "old.md")]))
            bench.seconds += 60.0
            yield str(bench.docs)
        return moves

    monkeypatch.setattr(survey, "find_moves", slow)
    (bench.docs / "old.md").rename(bench.docs / "new.md")
    bench.worker.refresh([str(bench.docs / "new.md")]).wait(HANG_SECONDS)
    waiting[0].wait(HANG_SECONDS)

    assert bench.states() == {"new.md": "indexed"}
    assert bench.parser.paths_read == [str(bench.docs / "old.md")]


def test_what_was_just_added_waits_for_the_worker_and_what_a_full_disk_stopped_rests(bench: Bench) -> None:
    job = begun(bench, "a.md")
    lease = str(bench.docs / "a.md")
    assert [one.state for one in bench.worker.path_states([lease])] == ["waiting"]
    bench.parser.gate.set()
    job.wait(HANG_SECONDS)
    assert [one.state for one in bench.worker.path_states([lease, "/nowhere"])] == ["read", "absent"]
    bench.catalog.mark_lost([document.document_id for document in bench.catalog.documents()[0]])
    assert [one.state for one in bench.worker.path_states([lease])] == ["resting"]


@pytest.fixture
def linked(bench: Bench) -> list[str]:
    """Two thousand files, each of them linked by itself, that nobody has looked at yet."""
    paths = [str(bench.docs / f"{number}.md") for number in range(2000)]
    with bench.catalog.transaction():
        for path in paths:
            bench.catalog.add_root("Documents", path, is_folder=False, device=1)
        bench.catalog.add_documents(FoundFile(path, 1, 1) for path in paths)
    return paths


def _looks_at_roots(monkeypatch: pytest.MonkeyPatch) -> list[str | None]:
    """Grows with each time that roots are asked for."""
    looks, roots = list[str | None](), CatalogReader.roots

    def noted(reader: CatalogReader, collection: str | None = None) -> tuple[Root, ...]:
        looks.append(collection)
        return roots(reader, collection)

    monkeypatch.setattr(CatalogReader, "roots", noted)
    return looks


@pytest.mark.parametrize(
    "wish",
    [
        IndexWorker.path_states,
        IndexWorker.reindex,
        IndexWorker.prioritise,
        IndexWorker.remove,
        lambda worker, _: worker.cancel(),
    ],
    ids=["path_states", "reindex", "prioritise", "remove", "cancel"],
)
def test_thousands_of_linked_files_are_not_gone_through_for_each_of_them(
    bench: Bench, linked: list[str], monkeypatch: pytest.MonkeyPatch, wish: Callable[[IndexWorker, list[str]], object]
) -> None:
    bench.worker.pause()
    looks = _looks_at_roots(monkeypatch)
    wish(bench.worker, linked)
    # The worker looks for itself meanwhile.
    assert len(looks) < 20


def test_thousands_of_linked_files_are_read_again_without_going_through_all_for_each(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    paths = [bench.write(f"{number}.md") for number in range(200)]
    bench.worker.add(paths).wait(HANG_SECONDS)
    looks = _looks_at_roots(monkeypatch)
    finished = bench.worker.reindex(paths).wait(HANG_SECONDS)
    assert finished.indexed == 200
    assert len(looks) < 20
