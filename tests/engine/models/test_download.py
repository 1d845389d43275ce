"""Tests for engine.models.download and engine.models.hub, against a hub on this machine."""

from __future__ import annotations

import errno
import os
import random
import socket
from collections.abc import Iterator
from email.utils import formatdate
from pathlib import Path

import pytest

from engine.errors import DiskFull, DownloadCut, DownloadFailed
from engine.models import download
from engine.models.download import (
    LEFT_FREE_BYTES,
    PAUSES_SECONDS,
    begun_below,
    bring,
    carry,
    fetch,
    is_as_told,
    parts_of,
)
from engine.models.fetched import Fetched
from engine.models.gguf import read_shape
from engine.models.hub import Hub, Offer
from engine.models.source import Folder, Source
from tests.helpers.model_hub import ModelHub, Refusal
from tests.helpers.tiny_gguf import write_tiny_model

CONTENT = random.Random(0).randbytes(1_000_000)
SOURCE = Source("owner/name", "m.gguf")


@pytest.fixture
def hub() -> Iterator[ModelHub]:
    with ModelHub() as made:
        made.put(SOURCE.repo, SOURCE.file, CONTENT)
        yield made


@pytest.fixture
def pauses() -> list[float]:
    return []


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "models"


def fetched(hub: ModelHub, folder: Path, pauses: list[float], source: Source = SOURCE) -> list[Fetched]:
    return list(fetch(Hub(hub.address), source, folder, pauses.append))


def stopped_at(hub: ModelHub, folder: Path, num_bytes: int) -> None:
    """Fetches some, and is closed then, as a cancel does."""
    job = fetch(Hub(hub.address), SOURCE, folder, lambda _: None)
    while next(job).num_bytes < num_bytes:
        pass
    job.close()


def test_a_model_is_there_once_it_is_whole_and_checked(
    hub: ModelHub, folder: Path, pauses: list[float], tmp_path: Path
):
    tiny = write_tiny_model(tmp_path / "tiny.gguf")
    source = Source.parse(hub.put("owner/tiny", "inside/tiny.gguf", tiny.read_bytes()))
    steps = fetched(hub, folder, pauses, source)
    target = folder / "owner" / "tiny" / "inside" / "tiny.gguf"
    assert read_shape(target) == read_shape(tiny)
    assert steps[-1] == Fetched(tiny.stat().st_size, tiny.stat().st_size)
    assert [path.name for path in target.parent.iterdir()] == ["tiny.gguf"]
    # What is there is not asked for again.
    hub.asked.clear()
    assert fetched(hub, folder, pauses, source) == []
    assert hub.asked == []


@pytest.mark.parametrize("redirects", [False, True])
def test_a_cut_connection_is_gone_on_with_where_it_was(
    hub: ModelHub, folder: Path, pauses: list[float], redirects: bool
):
    hub.cuts, hub.redirects = [200_000, 300_000], redirects
    fetched(hub, folder, pauses)
    assert SOURCE.below(folder).read_bytes() == CONTENT
    ranges = list(dict.fromkeys(hub.asked_for_files))
    assert len(ranges) == 3
    starts = [int(wanted.removeprefix("bytes=").rstrip("-")) for wanted in ranges[1:]]
    assert 0 < starts[0] <= 200_000 < starts[1] <= 500_000
    assert pauses == list(PAUSES_SECONDS[:2])


def test_nobody_is_named_to_the_hub_nor_to_where_it_leads(
    hub: ModelHub, folder: Path, pauses: list[float], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    (tmp_path / "netrc").write_text("machine 127.0.0.1 login somebody password secret\n")
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))
    hub.redirects = True
    fetched(hub, folder, pauses)
    assert any(path.startswith("/elsewhere") for path, _ in hub.asked)
    assert set(hub.accounts) == {""}


def test_who_stopped_goes_on_where_that_was(hub: ModelHub, folder: Path, pauses: list[float]):
    stopped_at(hub, folder, 400_000)
    assert not SOURCE.below(folder).exists()
    [part] = parts_of(SOURCE.below(folder))
    there = part.stat().st_size
    assert part.read_bytes() == CONTENT[:there]
    steps = fetched(hub, folder, pauses)
    assert steps[0] == Fetched(there, len(CONTENT), is_new=False)
    assert hub.asked_for_files[-1] == f"bytes={there}-"
    assert SOURCE.below(folder).read_bytes() == CONTENT


def test_a_part_that_is_whole_is_only_checked(hub: ModelHub, folder: Path, pauses: list[float]):
    stopped_at(hub, folder, len(CONTENT))
    hub.asked.clear()
    fetched(hub, folder, pauses)
    assert hub.asked_for_files == []
    assert SOURCE.below(folder).read_bytes() == CONTENT


def test_of_a_hub_that_gives_no_ranges_what_is_here_is_passed_over_and_stays(
    hub: ModelHub, folder: Path, pauses: list[float]
):
    hub.gives_ranges = False
    stopped_at(hub, folder, 400_000)
    [part] = parts_of(SOURCE.below(folder))
    there = part.stat().st_size
    # It is cut before it comes to what is missing.
    hub.cuts = [100_000]
    steps = fetched(hub, folder, pauses)
    assert min(step.num_bytes for step in steps if step.is_new) == there
    assert SOURCE.below(folder).read_bytes() == CONTENT


def test_a_hub_that_cuts_again_and_again_is_given_up_and_nothing_is_lost(
    hub: ModelHub, folder: Path, pauses: list[float]
):
    hub.gives_ranges, hub.cuts = False, [200_000] * 20
    with pytest.raises(DownloadCut, match="the connection was cut") as error:
        fetched(hub, folder, pauses)
    assert "kept" in error.value.way_out
    assert pauses == list(PAUSES_SECONDS)
    assert parts_of(SOURCE.below(folder))


def test_cuts_between_which_much_came_are_no_reason_to_wait_longer(
    hub: ModelHub, folder: Path, pauses: list[float], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(download, "MUCH_BYTES", 50_000)
    hub.cuts = [100_000] * 9
    fetched(hub, folder, pauses)
    assert set(pauses) == {PAUSES_SECONDS[0]}
    assert SOURCE.below(folder).read_bytes() == CONTENT


def test_a_file_that_changed_on_the_hub_begins_anew(hub: ModelHub, folder: Path, pauses: list[float]):
    stopped_at(hub, folder, 400_000)
    other = CONTENT[::-1]
    hub.put(SOURCE.repo, SOURCE.file, other)
    fetched(hub, folder, pauses)
    assert hub.asked_for_files[-1] == ""
    assert SOURCE.below(folder).read_bytes() == other
    assert [path.name for path in SOURCE.below(folder).parent.iterdir()] == [SOURCE.file]


def test_a_wrong_checksum_removes_what_came_and_says_so(hub: ModelHub, folder: Path, pauses: list[float]):
    hub.put(SOURCE.repo, SOURCE.file, CONTENT, sha256="0" * 64)
    with pytest.raises(DownloadFailed, match=r"arrived damaged.*It was removed"):
        fetched(hub, folder, pauses)
    assert list(SOURCE.below(folder).parent.iterdir()) == []


def test_a_file_without_a_checksum_is_not_fetched(hub: ModelHub, folder: Path, pauses: list[float]):
    hub.put(SOURCE.repo, SOURCE.file, CONTENT, sha256=None)
    with pytest.raises(DownloadFailed, match="publishes no checksum"):
        fetched(hub, folder, pauses)
    assert hub.asked_for_files == []


@pytest.mark.parametrize(
    ("status", "said"),
    [
        (401, "only to people with an account"),
        (403, "only to people with an account"),
        (404, "There is no m.gguf in owner/name"),
        (418, r"refused to give m.gguf in owner/name \(418\)"),
    ],
)
def test_who_is_refused_is_told_why_and_what_to_do(
    hub: ModelHub, folder: Path, pauses: list[float], status: int, said: str
):
    hub.instead = Refusal(status)
    with pytest.raises(DownloadFailed, match=said) as error:
        fetched(hub, folder, pauses)
    assert error.value.way_out
    assert pauses == []
    with pytest.raises(DownloadFailed, match=r"There is no other\.gguf"):
        fetched(hub, folder, pauses, Source(SOURCE.repo, "other.gguf"))


@pytest.mark.parametrize("page", [b"<html>Sign in</html>", b"[1]", b'{"error": "no"}'])
def test_a_page_of_the_network_is_no_model(hub: ModelHub, folder: Path, pauses: list[float], page: bytes):
    kind = {"Content-Type": "text/html; charset=utf-8"} if page.startswith(b"<") else {}
    hub.instead = Refusal(200, kind, page)
    with pytest.raises(DownloadFailed, match=r"something other than m\.gguf") as error:
        fetched(hub, folder, pauses)
    assert "sign in" in error.value.way_out
    hub.tree_instead = Refusal(200, kind, page)
    with pytest.raises(DownloadFailed, match="something other than the list of files"):
        fetched(hub, folder, pauses)
    assert not SOURCE.below(folder).exists()


def on_another_disk(monkeypatch: pytest.MonkeyPatch, old: Path) -> None:
    replace = os.replace

    def refusing(file: Path, target: Path) -> None:
        if file.is_relative_to(old):
            raise OSError(errno.EXDEV, "Invalid cross-device link")
        replace(file, target)

    monkeypatch.setattr(download.os, "replace", refusing)


@pytest.mark.parametrize("is_on_another_disk", [False, True])
def test_what_lies_elsewhere_is_carried_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_on_another_disk: bool):
    old, new = tmp_path / "old", tmp_path / "new" / "deeper"
    old.mkdir()
    if is_on_another_disk:
        on_another_disk(monkeypatch, old)
    for name in ("a", "b"):
        (old / name).write_bytes(name.encode() * 1000)
    steps = list(carry([(old / name, new / name) for name in ("a", "b")]))
    assert steps == [Fetched(1000, 2000, is_new=False), Fetched(2000, 2000, is_new=False)]
    assert {path.name: path.read_bytes() for path in new.iterdir()} == {"a": b"a" * 1000, "b": b"b" * 1000}
    assert list(old.iterdir()) == []


def test_what_is_carried_to_another_disk_stays_where_it_was_until_it_is_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    old, new = tmp_path / "old", tmp_path / "new"
    old.mkdir()
    on_another_disk(monkeypatch, old)
    (old / "a").write_bytes(b"a" * 1000)
    steps = carry([(old / "a", new / "a")])
    next(steps)
    steps.close()
    assert list(new.iterdir()) == []
    with pytest.raises(DiskFull, match="no room"):
        list(carry([(old / "a", new / "a")], free_bytes=lambda _: 10))
    assert (old / "a").read_bytes() == b"a" * 1000


def test_a_pause_that_is_asked_for_is_kept_unless_it_is_long(hub: ModelHub, folder: Path, pauses: list[float]):
    stopped_at(hub, folder, 400_000)
    hub.cuts = [100_000]
    hub.between = lambda _: hub.refusals.append(Refusal(429, {"Retry-After": "7"})) if hub.cuts == [] else None
    hub.piece_bytes = 10**6
    job = fetch(Hub(hub.address), SOURCE, folder, lambda seconds: (pauses.append(seconds), _quiet(hub)))
    list(job)
    assert 7.0 in pauses
    assert SOURCE.below(folder).read_bytes() == CONTENT
    later = Refusal(429, {"Retry-After": formatdate(4e9, usegmt=True)})
    for refusal in (Refusal(429, {"Retry-After": "3600"}), Refusal(429, {"Retry-After": "9" * 400}), later):
        hub.refusals = [refusal]
        with pytest.raises(DownloadFailed, match="asks you to wait") as error:
            fetched(hub, folder / "other", pauses)
        assert not isinstance(error.value, DownloadCut)
        assert "minutes" in error.value.way_out


def test_a_pause_until_a_time_is_told_by_the_clock_of_the_hub(hub: ModelHub, folder: Path, pauses: list[float]):
    told_at = 1e9
    until = {"Date": formatdate(told_at, usegmt=True), "Retry-After": formatdate(told_at + 7, usegmt=True)}
    stopped_at(hub, folder, 400_000)
    hub.refusals = [Refusal(503, until)]
    with pytest.raises(DownloadCut) as error:
        fetched(hub, folder, pauses)
    assert error.value.wait_s == 7.0


def test_who_is_to_wait_for_long_is_not_waited_for(hub: ModelHub, folder: Path, pauses: list[float]):
    hub.instead = Refusal(503, {"Retry-After": "86400"})
    with pytest.raises(DownloadCut) as error:
        fetched(hub, folder, pauses)
    assert (error.value.wait_s, pauses) == (86400.0, [])


def _quiet(hub: ModelHub) -> None:
    hub.between = lambda _: None


def test_a_fault_of_the_hub_is_waited_for(hub: ModelHub, folder: Path, pauses: list[float]):
    hub.redirects = True
    hub.cuts = [100_000]
    hub.between = lambda _: hub.refusals.append(Refusal(503))
    hub.piece_bytes = 10**6
    list(fetch(Hub(hub.address), SOURCE, folder, lambda seconds: (pauses.append(seconds), _quiet(hub))))
    assert len(pauses) == 2
    assert SOURCE.below(folder).read_bytes() == CONTENT


def test_without_a_network_that_is_said_at_once(folder: Path, pauses: list[float]):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        nobody = Hub(f"http://127.0.0.1:{taken.getsockname()[1]}")
        with pytest.raises(DownloadCut, match="cannot be reached") as error:
            list(fetch(nobody, SOURCE, folder, pauses.append))
    assert "online" in error.value.way_out
    assert pauses == []
    assert not folder.exists()


def test_an_address_that_is_none_is_said(folder: Path, pauses: list[float]):
    with pytest.raises(DownloadFailed, match="cannot be contacted") as error:
        list(fetch(Hub("http://[::1"), SOURCE, folder, pauses.append))
    assert "models.hub" in error.value.way_out


def test_a_disk_without_room_is_told_before_anything_is_asked_for(hub: ModelHub, folder: Path):
    with pytest.raises(DiskFull, match=r"no room for the model; 0\.1 GB are missing"):
        list(fetch(Hub(hub.address), SOURCE, folder, lambda _: None, lambda _: LEFT_FREE_BYTES))
    assert hub.asked_for_files == []


def test_a_disk_that_fills_up_meanwhile_keeps_what_is_there(
    hub: ModelHub, folder: Path, pauses: list[float], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(download, "LOOK_EVERY_BYTES", 100_000)
    free = [2 * LEFT_FREE_BYTES, 2 * LEFT_FREE_BYTES]
    with pytest.raises(DiskFull, match="no room") as error:
        list(fetch(Hub(hub.address), SOURCE, folder, pauses.append, lambda _: free.pop() if free else 0))
    assert "kept" in error.value.way_out
    fetched(hub, folder, pauses)
    assert hub.asked_for_files[-1].startswith("bytes=")
    assert SOURCE.below(folder).read_bytes() == CONTENT


@pytest.mark.parametrize(("number", "kind"), [(errno.ENOSPC, DiskFull), (errno.EIO, DownloadFailed)])
def test_an_error_of_the_disk_is_told_as_one(
    hub: ModelHub,
    folder: Path,
    pauses: list[float],
    monkeypatch: pytest.MonkeyPatch,
    number: int,
    kind: type[Exception],
):
    def fail(*_: object) -> None:
        raise OSError(number, "as the system says it")

    monkeypatch.setattr(download._Part, "append", fail)
    with pytest.raises(kind, match=str(folder)):
        fetched(hub, folder, pauses)
    assert pauses == []


def test_a_folder_that_cannot_be_made_is_told(hub: ModelHub, tmp_path: Path, pauses: list[float]):
    (tmp_path / "file").write_text("")
    with pytest.raises(DownloadFailed, match="cannot be written to") as error:
        fetched(hub, tmp_path / "file", pauses)
    assert "models.folder" in error.value.way_out


def test_what_was_begun_is_found_again_by_what_lies_there(hub: ModelHub, folder: Path):
    assert begun_below(folder) == frozenset()
    other = Source.parse(hub.put("owner/name", "inside/m.gguf", CONTENT, revision="v2"))
    stopped_at(hub, folder, 100_000)
    assert begun_below(folder) == {SOURCE}
    other = Source("owner/name", "inside/m.gguf", "v2")
    job = fetch(Hub(hub.address), other, folder, lambda _: None)
    next(job)
    job.close()
    (folder / "owner" / "name" / "notes.txt.part").write_text("no model")
    assert begun_below(folder) == {SOURCE, other}


def test_another_revision_is_another_file(hub: ModelHub, folder: Path, pauses: list[float]):
    old = Source(SOURCE.repo, SOURCE.file, "refs/pr/1")
    hub.put(old.repo, old.file, CONTENT[::-1], revision=old.revision)
    fetched(hub, folder, pauses, old)
    fetched(hub, folder, pauses)
    assert old.below(folder).read_bytes() == CONTENT[::-1]
    assert SOURCE.below(folder).read_bytes() == CONTENT


# --- models in several files ---


def split(hub: ModelHub) -> Source:
    for number, part in enumerate((CONTENT[:300_000], CONTENT[300_000:]), start=1):
        hub.put("owner/name", f"Q8/m-0000{number}-of-00002.gguf", part)
    return Source("owner/name", "Q8/m-00001-of-00002.gguf")


def test_a_model_in_several_files_comes_as_one(hub: ModelHub, folder: Path, pauses: list[float]):
    source = split(hub)
    steps = fetched(hub, folder, pauses, source)
    assert b"".join(piece.below(folder).read_bytes() for piece in source.pieces) == CONTENT
    assert {step.total_bytes for step in steps} == {len(CONTENT)}
    assert [step.num_bytes for step in steps] == sorted(step.num_bytes for step in steps)
    assert steps[-1].num_bytes == len(CONTENT)
    hub.asked.clear()
    assert fetched(hub, folder, pauses, source) == []
    assert hub.asked == []


def test_a_model_in_several_files_is_gone_on_with_in_the_second(hub: ModelHub, folder: Path, pauses: list[float]):
    source = split(hub)
    job = fetch(Hub(hub.address), source, folder, pauses.append)
    while next(job).num_bytes < 500_000:
        pass
    job.close()
    first, second = (piece.below(folder) for piece in source.pieces)
    [part] = parts_of(second)
    first_bytes, there = first.stat().st_size, first.stat().st_size + part.stat().st_size
    looked_at = [Fetched(num_bytes, len(CONTENT), is_new=False) for num_bytes in (first_bytes, there)]
    hub.asked.clear()
    assert fetched(hub, folder, pauses, source)[:2] == looked_at
    assert first.read_bytes() + second.read_bytes() == CONTENT
    assert [wanted for path, wanted in hub.asked if path.endswith(first.name)] == []


@pytest.mark.parametrize("missing", [0, 1])
def test_files_of_two_revisions_are_no_model(hub: ModelHub, folder: Path, pauses: list[float], missing: int):
    source = split(hub)
    fetched(hub, folder, pauses, source)
    places = source.pieces_below(folder)
    places[missing].unlink()
    # The other one is another by now, of the same size.
    other = CONTENT[::-1]
    for piece, content in zip(source.pieces, (other[:300_000], other[300_000:]), strict=True):
        hub.put(piece.repo, piece.file, content)
    stale = places[1 - missing]
    before = stale.read_bytes()
    for _ in fetch(Hub(hub.address), source, folder, pauses.append):
        # Whoever stops here has no mixture that looks whole.
        assert stale.read_bytes() != before or not places[missing].is_file()
    assert b"".join(place.read_bytes() for place in places) == other


def test_room_is_looked_for_for_all_files_before_the_first_is_asked_for(hub: ModelHub, folder: Path):
    source = split(hub)
    with pytest.raises(DiskFull, match="no room for the model"):
        list(fetch(Hub(hub.address), source, folder, lambda _: None, lambda _: LEFT_FREE_BYTES + 999_999))
    assert hub.asked_for_files == []


# --- what a repository has ---


def test_a_repository_tells_its_models_and_their_sizes(hub: ModelHub):
    whole = split(hub)
    small = Source.parse(hub.put("owner/name", "small.gguf", b"x" * 10))
    for name in ("README.md", "mmproj-F16.gguf", "m.imatrix.gguf", "m-Embedding-8B.gguf", "bge-m3.gguf", "it's.gguf"):
        hub.put("owner/name", name, b"x")
    # An upload that nobody has finished.
    hub.put("owner/name", "half-00001-of-00002.gguf", b"x")
    offers = Hub(hub.address).offers(Folder("owner/name"))
    assert offers == [Offer(small, 10), Offer(whole, len(CONTENT)), Offer(SOURCE, len(CONTENT))]
    assert Hub(hub.address).offers(Folder("owner/name", "Q8")) == [Offer(whole, len(CONTENT))]
    assert hub.asked_for_files == []


def test_a_repository_of_another_revision_tells_the_models_of_that(hub: ModelHub):
    old = Source.parse(hub.put("owner/name@v1", "old.gguf", b"x"))
    hub.put(old.repo, old.file, b"x" * 5, revision=old.revision)
    assert Hub(hub.address).offers(Folder("owner/name", revision="v1")) == [Offer(old, 5)]


def test_a_repository_that_has_no_model_or_is_not_there_is_told(hub: ModelHub):
    hub.put("owner/pictures", "mmproj.gguf", b"x")
    with pytest.raises(DownloadFailed, match="There is no GGUF file in owner/pictures") as error:
        Hub(hub.address).offers(Folder("owner/pictures"))
    assert error.value.way_out
    with pytest.raises(DownloadFailed, match="or it is not there"):
        Hub(hub.address).offers(Folder("owner/nothing"))
    hub.tree_instead = Refusal(404)
    with pytest.raises(DownloadFailed, match="There is no owner/name@v9 on 127"):
        Hub(hub.address).offers(Folder("owner/name", revision="v9"))


# --- files that are told one by one ---


def test_small_files_are_checked_as_git_does(hub: ModelHub, folder: Path, pauses: list[float]):
    hub.put_small("owner/name", "config.json", b"{}")
    hub.put_small("owner/name", "inside/empty.txt", b"")
    files = {one.source.file: one for one in Hub(hub.address).files(Folder("owner/name"))}
    wanted = [files["config.json"], files["inside/empty.txt"], files[SOURCE.file]]
    assert not any(is_as_told(one.source.below(folder), one) for one in wanted)
    steps = list(bring(Hub(hub.address), wanted, folder, pauses.append, here_bytes=5, to_come_bytes=7))
    assert all(is_as_told(one.source.below(folder), one) for one in wanted)
    assert steps[-1] == Fetched(5 + 2 + len(CONTENT), 5 + 2 + len(CONTENT) + 7)
    files["config.json"].source.below(folder).write_bytes(b"[]")
    assert not is_as_told(files["config.json"].source.below(folder), files["config.json"])


def test_a_small_file_that_is_damaged_is_not_kept(hub: ModelHub, folder: Path, pauses: list[float]):
    hub.put_small("owner/name", "config.json", b"{}", oid="1" * 40)
    [wanted] = [one for one in Hub(hub.address).files(Folder("owner/name")) if one.source.file == "config.json"]
    with pytest.raises(DownloadFailed, match="arrived damaged"):
        list(bring(Hub(hub.address), [wanted], folder, pauses.append))
    assert list(folder.rglob("config.json*")) == []


def test_files_that_could_not_be_kept_or_checked_are_left_out(hub: ModelHub):
    for file in ("../outside.json", "inside/../../outside.json", ".hidden"):
        hub.put_small("owner/name", file, b"{}")
    hub.put("owner/name", "unchecked.bin", b"x", sha256=None)
    assert [one.source.file for one in Hub(hub.address).files(Folder("owner/name"))] == [SOURCE.file]
