"""Tests for engine.models.download and engine.models.hub, against a hub on this machine."""

from __future__ import annotations

import errno
import random
import socket
from collections.abc import Iterator
from email.utils import formatdate
from pathlib import Path

import pytest

from engine.errors import BadRequest, DiskFull, DownloadCut, DownloadFailed
from engine.models import download
from engine.models.download import LEFT_FREE_BYTES, PAUSES_SECONDS, Fetched, fetch, parts_of
from engine.models.gguf import read_shape
from engine.models.hub import Hub, Source
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


def test_a_hub_that_gives_no_ranges_gives_all_of_it_anew(hub: ModelHub, folder: Path, pauses: list[float]):
    hub.gives_ranges = False
    stopped_at(hub, folder, 400_000)
    fetched(hub, folder, pauses)
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
    with pytest.raises(DownloadFailed, match="tells no checksum"):
        fetched(hub, folder, pauses)
    assert hub.asked_for_files == []


@pytest.mark.parametrize(
    ("status", "said"),
    [
        (401, "only to people with an account"),
        (403, "only to people with an account"),
        (404, "There is no m.gguf in owner/name"),
        (418, r"refused to give m.gguf \(418\)"),
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
    with pytest.raises(DownloadFailed, match=r"something else than m\.gguf") as error:
        fetched(hub, folder, pauses)
    assert "sign in" in error.value.way_out
    hub.tree_instead = Refusal(200, kind, page)
    with pytest.raises(DownloadFailed, match="something else than the list of files"):
        fetched(hub, folder, pauses)
    assert not SOURCE.below(folder).exists()


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
    for refusal in (Refusal(429, {"Retry-After": "3600"}), later):
        hub.refusals = [refusal]
        with pytest.raises(DownloadFailed, match="asks for a pause") as error:
            fetched(hub, folder / "other", pauses)
        assert not isinstance(error.value, DownloadCut)
        assert "minutes" in error.value.way_out


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
    with pytest.raises(DownloadFailed, match="cannot be asked") as error:
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


@pytest.mark.parametrize(
    "text",
    ["", "m.gguf", "owner/m.gguf", "owner/name/m.bin", "../name/m.gguf", "o/n/../../m.gguf", "o//m.gguf", "/o/n/m.gguf",
     "o/n/a\\m.gguf", "https://huggingface.co/o/n/m.gguf"],
)  # fmt: skip
def test_what_names_no_file_of_a_hub_is_refused(text: str):
    with pytest.raises(BadRequest, match="names no model of the hub"):
        Source.parse(text)


def test_a_part_of_a_model_in_several_files_is_refused():
    with pytest.raises(BadRequest, match="one part of a model"):
        Source.parse("o/n/m-00001-of-00003.gguf")
    assert Source.parse("o/n/Q4/m.gguf") == Source("o/n", "Q4/m.gguf")
