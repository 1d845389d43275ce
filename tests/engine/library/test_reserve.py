"""Tests for engine.library.reserve, and for a library on a disk that fills up."""

from __future__ import annotations

import os
import sqlite3
import subprocess
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np
import pytest

from engine.catalog import Catalog
from engine.catalog.database import _told
from engine.config import Settings
from engine.errors import CatalogBroken, DiskFull
from engine.events import Event
from engine.library.reserve import NAME, Reserve
from engine.library.worker import IndexWorker
from engine.settings_file import SettingsStore
from tests.helpers.indexing import SmallLibrary
from tests.helpers.killed_library import KilledLibrary, use_small_portions
from tests.helpers.library import vector_of, wait_until

MIB = 2**20
HANG_SECONDS = 20
DISK_BYTES = 24 * MIB
RESERVE_BYTES = 4 * MIB
FULL = OSError(28, os.strerror(28))


def failing_once(error: Exception) -> Callable[[], str]:
    outcomes: list[Exception | str] = [error, "done"]

    def work() -> str:
        outcome = outcomes.pop(0)
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    return work


def failing_first(error: Exception, work: Callable[..., None]) -> Callable[..., None]:
    errors = [error]

    def failing(*arguments: object) -> None:
        if errors:
            raise errors.pop()
        work(*arguments)

    return failing


@pytest.fixture
def reserve(tmp_path: Path) -> Reserve:
    return Reserve(tmp_path, lambda: 2 * MIB)


def test_the_reserve_takes_real_room_and_gives_it_back(reserve: Reserve, tmp_path: Path) -> None:
    assert reserve.hold()
    assert (tmp_path / NAME).stat().st_blocks * 512 >= 2 * MIB
    assert reserve.has_room()

    assert reserve.give_up()
    assert not reserve.give_up()
    assert not (tmp_path / NAME).exists()


def test_no_reserve_is_taken_where_little_is_left(reserve: Reserve, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Reserve, "free_bytes", lambda self: 3 * MIB)

    assert not reserve.hold()
    assert not reserve.has_room()


def test_a_reserve_that_could_not_be_filled_is_not_there(
    reserve: Reserve, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise FULL

    monkeypatch.setattr(os, "posix_fallocate", full)

    assert not reserve.hold()
    assert list(tmp_path.iterdir()) == []


def test_what_meets_a_full_disk_is_done_again_with_the_reserves_room(reserve: Reserve) -> None:
    reserve.hold()

    assert reserve.lent(failing_once(DiskFull("The disk is full."))) == "done"
    with pytest.raises(OSError, match="No space"):
        reserve.lent(failing_once(FULL))
    reserve.hold()
    with pytest.raises(ValueError, match="other"):
        reserve.lent(failing_once(ValueError("other")))


def test_a_reserve_that_was_given_up_is_filled_again_when_there_is_room(
    reserve: Reserve, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert reserve.hold()
    assert reserve.lent(failing_once(FULL)) == "done"
    with monkeypatch.context() as patch:
        patch.setattr(Reserve, "free_bytes", lambda self: 3 * MIB)
        assert not reserve.has_room()
        assert not (tmp_path / NAME).exists()

    assert reserve.has_room()
    assert (tmp_path / NAME).stat().st_blocks * 512 >= 2 * MIB
    # It can be lent a second time.
    assert reserve.lent(failing_once(FULL)) == "done"


def test_a_reserve_that_was_half_made_is_made_anew(reserve: Reserve, tmp_path: Path) -> None:
    (tmp_path / NAME).write_bytes(bytes(MIB))
    assert reserve.hold()
    assert (tmp_path / NAME).stat().st_size == 2 * MIB


def test_another_size_is_held_once_it_is_wanted(tmp_path: Path) -> None:
    wanted = [MIB]
    reserve = Reserve(tmp_path, lambda: wanted[0])
    for num_bytes in (MIB, 3 * MIB, 2 * MIB):
        wanted[0] = num_bytes
        assert reserve.has_room()
        assert (tmp_path / NAME).stat().st_size == num_bytes
    wanted[0] = 0
    assert reserve.has_room()
    assert not (tmp_path / NAME).exists()


def test_going_on_that_ends_at_a_full_disk_again_is_tried_less_and_less_often(
    library: SmallLibrary, reserve: Reserve
) -> None:
    now, path, wished = 0.0, library.write("a.md"), list[float]()
    worker = IndexWorker(
        library.catalog, library.parser, lambda: library.stores, Settings, lambda event: None, lambda: now,
        reserve=reserve,
    )  # fmt: skip
    put = library.stores.table.put_documents

    def full(*arguments: object) -> None:
        wished.append(now)
        raise FULL

    library.stores.table.put_documents = full  # type: ignore[method-assign]
    worker.start(resume=False)
    try:
        with pytest.raises(DiskFull):
            worker.add([str(path)]).wait(HANG_SECONDS)
        for second in range(100):
            now = float(second)
            worker.go_on_if_there_is_room()
            wait_until(lambda: worker.is_idle)
        assert 3 <= len(wished) <= 12
        library.stores.table.put_documents = put  # type: ignore[method-assign]
        now = 10_000.0
        worker.go_on_if_there_is_room()
        assert worker.rescan().wait(HANG_SECONDS).unchanged == 1
    finally:
        worker.stop()


def test_a_reserve_that_only_a_removal_needed_is_filled_again_without_another_job(
    library: SmallLibrary, reserve: Reserve, tmp_path: Path
) -> None:
    path = library.write("a.md")
    events: list[Event] = []
    worker = IndexWorker(
        library.catalog, library.parser, lambda: library.stores, Settings, events.append, reserve=reserve
    )
    worker.start(resume=False)
    try:
        worker.add([str(path)]).wait(HANG_SECONDS)
        assert reserve.hold()
        delete = library.stores.table.delete_documents
        library.stores.table.delete_documents = failing_first(FULL, delete)  # type: ignore[method-assign]
        assert worker.remove([str(path)]) == 1
        assert not (tmp_path / NAME).exists()
        num_events = len(events)

        worker.go_on_if_there_is_room()
    finally:
        worker.stop()
    assert (tmp_path / NAME).exists()
    assert len(events) == num_events


def test_a_catalogue_without_room_for_its_side_files_is_not_called_damaged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    error, file = sqlite3.OperationalError("disk I/O error"), tmp_path / "catalog.sqlite"
    assert isinstance(_told(error, file), CatalogBroken)

    monkeypatch.setattr("engine.catalog.database._has_no_room", lambda file: True)

    assert isinstance(_told(error, file), DiskFull)


# --- a disk that is really full ---


class Disk:
    """A small file system in memory that can be filled up to a number of bytes."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._filler = path / "filler"

    def fill(self, free_bytes: int) -> None:
        with self._filler.open("ab") as stream:
            left = Reserve(self.path, lambda: 0).free_bytes() - free_bytes
            while left > 0:
                left -= stream.write(bytes(min(left, MIB)))
                stream.flush()

    def clear(self) -> None:
        self._filler.unlink()


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Disk]:
    path = tmp_path / "disk"
    path.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={DISK_BYTES}", "tmpfs", str(path)]
    if os.geteuid() != 0 or subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("only root may mount a small file system")
    try:
        yield Disk(path)
    finally:
        subprocess.run(["umount", "--lazy", str(path)], check=True)


def write(docs: Path, numbers: Sequence[int]) -> None:
    docs.mkdir(exist_ok=True)
    for number in numbers:
        (docs / f"{number}.md").write_text("".join(f"Word{number}x{line} {'text ' * 40}\n" for line in range(12)))


def check(library: KilledLibrary, docs: Path) -> None:
    """Everything in the folder is indexed, and all stores say the same of it."""
    documents = library.catalog.documents(limit=-1)[0]
    assert {one.path for one in documents} == {str(path) for path in docs.iterdir()}
    assert {one.state for one in documents} == {"indexed"}
    assert library.stores.table.document_ids() == library.catalog.ids_with_rows()
    for document in documents:
        rows = library.stores.table.rows_of(document.document_id)
        assert [row.text for row in rows] == Path(document.path).read_text().splitlines()
        np.testing.assert_allclose(
            [row.vector for row in rows], [vector_of(row.indexed_text) for row in rows], atol=1e-6
        )
    library.stores.index.maintain()
    library.stores.index.check_integrity()


def table_answers(library: KilledLibrary) -> bool:
    return library.stores.table.matching("Word1x0", 1) != []


def attempt(work: Callable[[], object]) -> DiskFull | None:
    """The sentence that it ends with if the disk is full; any other error fails the test."""
    try:
        work()
    except DiskFull as told:
        error = told
    else:
        return None
    assert error.sentence
    assert error.way_out
    return error


@pytest.mark.expects_warnings
@pytest.mark.parametrize(
    "free_bytes",
    [
        0,
        400_000,
        *(pytest.param(size, marks=pytest.mark.slow) for size in (20_000, 80_000, 200_000, 800_000, 1_600_000)),
    ],
)
def test_a_full_disk_loses_nothing_and_the_library_goes_on_by_itself(
    disk: Disk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, free_bytes: int
) -> None:
    use_small_portions(monkeypatch.setattr)
    docs, home = tmp_path / "docs", disk.path / "home"
    home.mkdir()
    write(docs, range(10))
    reserve = Reserve(home, lambda: RESERVE_BYTES)
    with KilledLibrary(home, reserve=reserve) as library:
        library.start()
        library.live(docs)
        assert reserve.hold()
        write(docs, range(5, 60))
        disk.fill(free_bytes)

        error = attempt(lambda: library.worker.rescan().wait())
        assert error is not None or free_bytes
        table, texts = library.stores.table, library.stores.embedder.texts
        stored = {row.indexed_text for document_id in table.document_ids() for row in table.rows_of(document_id)}
        num_embedded = len(texts)

        # Removing is possible all the same.
        (docs / "1.md").unlink()
        assert library.worker.remove([str(docs / "1.md")]) == 1
        assert table.matching("Word1x0", 3) == []

        disk.clear()
        library.worker.go_on_if_there_is_room()
        library.live(docs)
        check(library, docs)
        assert stored.isdisjoint(texts[num_embedded:])


@pytest.mark.expects_warnings
def test_a_library_that_stopped_on_a_full_disk_starts_again_on_it(
    disk: Disk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    use_small_portions(monkeypatch.setattr)
    docs, home = tmp_path / "docs", disk.path / "home"
    home.mkdir()
    write(docs, range(10))
    reserve = Reserve(home, lambda: RESERVE_BYTES)
    with KilledLibrary(home, reserve=reserve) as library:
        library.start()
        library.live(docs)
        reserve.hold()
        disk.fill(0)

    reserve.lent(lambda: Catalog.open(home)).close()
    with KilledLibrary(home, reserve=reserve) as library:
        library.start()
        write(docs, range(5, 20))
        attempt(lambda: library.worker.rescan().wait())
        assert table_answers(library)

        disk.clear()
        library.worker.go_on_if_there_is_room()
        library.live(docs)
        check(library, docs)


def test_settings_on_a_full_disk_are_as_before(disk: Disk) -> None:
    file = disk.path / "engine.toml"
    store = SettingsStore(file)
    store.change({"generation.temperature": 0.5})
    before = file.read_bytes()
    disk.fill(0)

    assert attempt(lambda: store.change({"generation.seed": 4})) is not None

    assert (file.read_bytes(), store.settings.generation.seed) == (before, None)
    assert sorted(path.name for path in disk.path.iterdir()) == ["engine.toml", "filler"]
    disk.clear()
    assert store.change({"generation.seed": 4}).generation.seed == 4
