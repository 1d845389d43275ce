"""Tests for engine.getting: an engine that gets models from a hub on this machine."""

from __future__ import annotations

import errno
import mmap
import queue
import threading
from collections.abc import Iterator
from concurrent.futures import Future
from pathlib import Path
from types import SimpleNamespace

import pytest

from engine.core import Download
from engine.engine import Engine
from engine.errors import BadRequest, DownloadFailed, ModelError, ModelFileInvalid, ModelNotFound, ModelUnreadable
from engine.events import DownloadsChanged, ModelStateChanged
from engine.models import gguf
from engine.models.catalogue import CATALOGUE
from engine.models.deleting import Deletable
from engine.models.source import Source
from engine.protocol import CatalogueEntry
from tests.helpers.model_hub import ModelHub, Refusal
from tests.helpers.tiny_gguf import write_split_model, write_tiny_model

KNOWN = CATALOGUE[0]
PATIENCE_S = 60.0


@pytest.fixture
def hub(tmp_path: Path) -> Iterator[ModelHub]:
    with ModelHub() as made:
        tiny = write_tiny_model(tmp_path / "tiny.gguf").read_bytes()
        made.put(KNOWN.repo, KNOWN.file, tiny)
        made.put("owner/name", "other.gguf", tiny)
        yield made


@pytest.fixture
def engine(tmp_path: Path, hub: ModelHub) -> Iterator[Engine]:
    with Engine.open(tmp_path / "home") as made:
        made.change_settings({"models.hub": hub.address})
        yield made


def place(engine: Engine, source: str) -> Path:
    return Source.parse(source).below(engine.home.data / "models")


def got(engine: Engine, name: str) -> None:
    for _ in engine.get_model(name):
        pass


def entry(engine: Engine) -> CatalogueEntry:
    return next(one for one in engine.catalogue() if one.source == KNOWN.source)


def test_the_catalogue_is_told_without_asking_the_hub(engine: Engine, hub: ModelHub):
    told = engine.catalogue()
    assert [one.source for one in told] == [known.source for known in CATALOGUE]
    assert all(one.download == Download(one.source) for one in told)
    assert all(one.model.fit and one.model.file_bytes and one.licence for one in told)
    assert hub.asked == []


def test_the_first_model_that_is_got_is_used_and_the_next_is_not(engine: Engine):
    loads: queue.Queue[str] = queue.Queue()
    engine.subscribe(lambda event: loads.put(event.path) if isinstance(event, ModelStateChanged) else None)
    got(engine, KNOWN.name)
    path = str(place(engine, KNOWN.source))
    assert [one.path for one in engine.models()] == [path]
    assert engine.settings.models.current == path
    assert loads.get(timeout=PATIENCE_S) == path
    got(engine, "owner/name/other.gguf")
    assert len(engine.models()) == 2
    assert engine.settings.models.current == path


def test_who_chose_quotes_keeps_them(engine: Engine, tmp_path: Path):
    engine.add_model(tmp_path / "tiny.gguf")
    got(engine, KNOWN.source)
    assert engine.settings.models.current == ""


# The model that was got is being loaded when its file goes.
@pytest.mark.expects_warnings
def test_a_model_stands_in_the_catalogue_as_it_lies_on_the_disk(engine: Engine, hub: ModelHub):
    steps = engine.get_model(KNOWN.name)
    step = next(steps)
    steps.close()
    part = entry(engine).download
    assert (part.state, part.num_bytes) == ("part", step.num_bytes)
    got(engine, KNOWN.name)
    assert entry(engine).download == Download(KNOWN.source, "there")
    path = place(engine, KNOWN.source)
    assert entry(engine).model.path == str(path)
    engine.forget_model(path)
    assert entry(engine).download.state == "absent"
    hub.asked.clear()
    got(engine, KNOWN.name)
    assert (entry(engine).download.state, hub.asked) == ("there", [])
    path.unlink()
    assert entry(engine).download.state == "absent"


def test_what_is_here_of_a_model_can_be_removed(engine: Engine):
    steps = engine.get_model(KNOWN.name)
    next(steps)
    steps.close()
    engine.discard_part_of_model(KNOWN.source)
    engine.discard_part_of_model(KNOWN.source)
    assert entry(engine).download == Download(KNOWN.source)
    assert list(place(engine, KNOWN.source).parent.iterdir()) == []


def test_a_model_that_lies_elsewhere_need_not_be_got(engine: Engine, tmp_path: Path):
    elsewhere = write_tiny_model(tmp_path / KNOWN.file)
    engine.add_model(elsewhere)
    assert (entry(engine).download.state, entry(engine).model.path) == ("there", str(elsewhere))


def test_the_user_chooses_where_models_are_kept(engine: Engine, tmp_path: Path):
    engine.change_settings({"models.folder": str(tmp_path / "large disk")})
    got(engine, KNOWN.name)
    assert [Path(one.path).parents[2] for one in engine.models()] == [tmp_path / "large disk"]


def test_one_is_got_in_the_background_and_told_of(engine: Engine):
    told: queue.Queue[Download] = queue.Queue()
    engine.subscribe(
        lambda event: [told.put(one) for one in event.downloads] if isinstance(event, DownloadsChanged) else None
    )
    engine.start_getting_model(KNOWN.name)
    states = []
    while (one := told.get(timeout=PATIENCE_S)).state != "there":
        states.append(one.state)
    assert states[0] == "waiting"
    assert one.source == KNOWN.source
    assert [one.path for one in engine.models()] == [str(place(engine, KNOWN.source))]


def test_what_went_wrong_stands_in_the_catalogue(engine: Engine, hub: ModelHub):
    hub.instead = Refusal(403)
    ended: queue.Queue[Download] = queue.Queue()
    engine.subscribe(lambda event: ended.put(event.downloads[0]) if isinstance(event, DownloadsChanged) else None)
    engine.start_getting_model(KNOWN.name)
    while not ended.get(timeout=PATIENCE_S).problem:
        pass
    assert "account" in entry(engine).download.problem
    assert entry(engine).download.state == "absent"


def test_one_that_was_cut_stands_so_in_the_catalogue_until_it_is_cancelled(engine: Engine, hub: ModelHub):
    hub.tree_instead = Refusal(503)
    told: queue.Queue[Download] = queue.Queue()
    engine.subscribe(lambda event: told.put(event.downloads[0]) if isinstance(event, DownloadsChanged) else None)
    engine.start_getting_model(KNOWN.name)
    while told.get(timeout=PATIENCE_S).state != "cut":
        pass
    assert entry(engine).download.state == "cut"
    engine.cancel_getting_model(KNOWN.name)
    assert entry(engine).download == Download(KNOWN.source)


def test_the_end_of_the_engine_keeps_what_came(engine: Engine, hub: ModelHub):
    told: queue.Queue[Download] = queue.Queue()
    go_on = threading.Event()
    hub.piece_bytes, hub.between = 1 << 17, lambda sent: sent == 0 or go_on.wait(PATIENCE_S)
    engine.subscribe(lambda event: told.put(event.downloads[0]) if isinstance(event, DownloadsChanged) else None)
    engine.start_getting_model(KNOWN.name)
    while told.get(timeout=PATIENCE_S).state != "fetching":
        pass
    engine.close()
    go_on.set()
    with Engine.open(engine.home.data.parent) as again:
        assert entry(again).download.state == "part"
        got(again, KNOWN.name)
        assert entry(again).download.state == "there"
    assert hub.asked_for_files[-1].startswith("bytes=")


def test_what_is_no_model_that_answers_is_said(engine: Engine, hub: ModelHub, tmp_path: Path):
    embedder = write_tiny_model(tmp_path / "bert.gguf", architecture="bert").read_bytes()
    hub.put("owner/name", "bert.gguf", embedder)
    with pytest.raises(ModelFileInvalid, match="embedding model"):
        got(engine, "owner/name/bert.gguf")
    assert engine.models() == ()


def test_what_is_called_like_no_model_is_refused(engine: Engine):
    for get in (engine.start_getting_model, engine.cancel_getting_model, lambda name: got(engine, name)):
        with pytest.raises(BadRequest, match="does not name a model"):
            get("a nice one")
    with pytest.raises(DownloadFailed, match="or it is not there"):
        got(engine, "nobody/nothing/m.gguf")


# --- any model of the hub ---


def test_a_link_gets_its_file_and_no_list_is_asked_for(engine: Engine, hub: ModelHub):
    link = f"{hub.address}/owner/name/blob/main/other.gguf?download=true"
    [one] = engine.look_up_model(link).files
    assert (one.source, one.download.state, hub.asked) == ("owner/name/other.gguf", "absent", [])
    got(engine, link)
    assert [entry.path for entry in engine.models()] == [str(place(engine, one.source))]
    assert engine.look_up_model(link).files[0].download.state == "there"


def test_a_repository_tells_what_can_be_got_of_it(engine: Engine, hub: ModelHub):
    hub.put("owner/name", "large.gguf", b"x" * 3_000_000)
    got(engine, "owner/name/other.gguf")
    found = engine.look_up_model("owner/name")
    assert found.folder == "owner/name"
    assert [(one.model.name, one.download.state) for one in found.files] == [("other", "there"), ("large", "absent")]
    assert found.files[1].model.file_bytes == 3_000_000
    assert (found.files[1].is_estimate, found.files[1].model.fit) == (False, "")
    with pytest.raises(BadRequest, match="owner/name is not a single model"):
        engine.start_getting_model("owner/name")


def test_a_model_that_the_catalogue_knows_says_how_it_would_run_in_another_size(engine: Engine, hub: ModelHub):
    hub.put(KNOWN.repo, "other-q2.gguf", b"x" * 1_000_000)
    other = next(one for one in engine.look_up_model(KNOWN.repo).files if "q2" in one.source)
    assert other.model.fit
    assert (other.model.name, other.model.file_bytes) == ("other-q2", 1_000_000)
    assert other.model.trained_context == KNOWN.trained_context


def test_a_model_that_is_in_no_catalogue_is_told_of_while_it_is_not_whole(engine: Engine, hub: ModelHub):
    assert engine.models_begun() == ()
    steps = engine.get_model("owner/name/other.gguf")
    step = next(steps)
    steps.close()
    [begun] = engine.models_begun()
    assert (begun.source, begun.download.state) == ("owner/name/other.gguf", "part")
    assert begun.download.num_bytes == step.num_bytes
    got(engine, begun.source)
    assert engine.models_begun() == ()


def begun_before_the_folder_was_changed(engine: Engine, tmp_path: Path) -> Path:
    """The folder that it was changed to."""
    steps = engine.get_model("owner/name/other.gguf")
    next(steps)
    steps.close()
    new = tmp_path / "large disk"
    # Another one lies between.
    engine.change_settings({"models.folder": str(tmp_path / "small disk")})
    engine.change_settings({"models.folder": str(new)})
    return new


def test_what_was_begun_before_the_folder_was_changed_is_listed_and_gone_on_with(
    engine: Engine, hub: ModelHub, tmp_path: Path
):
    new = begun_before_the_folder_was_changed(engine, tmp_path)
    [begun] = engine.models_begun()
    assert (begun.source, begun.download.state) == ("owner/name/other.gguf", "part")
    hub.asked.clear()
    got(engine, begun.source)
    [asked] = hub.asked_for_files
    assert asked == f"bytes={begun.download.num_bytes}-"
    assert [Path(one.path) for one in engine.models()] == [new / begun.source]
    assert engine.models_begun() == ()
    assert list((engine.home.data / "models").rglob("*.part")) == []


def test_what_was_begun_in_any_earlier_folder_can_be_removed(engine: Engine, tmp_path: Path):
    engine.change_settings({"models.folder": str(tmp_path / "first")})
    begun_before_the_folder_was_changed(engine, tmp_path)
    # The usual one, where nothing was begun, is not the one that it lies in.
    assert len(list((tmp_path / "first").rglob("*.part"))) == 1
    engine.change_settings({"models.folder": ""})
    [begun] = engine.models_begun()
    engine.discard_part_of_model(begun.source)
    assert engine.models_begun() == ()
    assert list((tmp_path / "first").rglob("*.part")) == []


def test_what_was_begun_twice_is_done_with_once_it_is_whole(engine: Engine, hub: ModelHub, tmp_path: Path):
    new = begun_before_the_folder_was_changed(engine, tmp_path)
    [old] = (engine.home.data / "models").rglob("*.part")
    begun = new / old.relative_to(engine.home.data / "models")
    begun.parent.mkdir(parents=True)
    begun.write_bytes(old.read_bytes()[:1000])
    hub.asked.clear()
    got(engine, "owner/name/other.gguf")
    assert hub.asked_for_files == ["bytes=1000-"]
    assert not old.exists()


def test_earlier_folders_are_known_once_and_without_the_one_in_force(engine: Engine, tmp_path: Path):
    first, second = str(tmp_path / "first"), str(tmp_path / "second")
    for folder in (first, second, first, first, ""):
        engine.change_settings({"models.folder": folder})
    assert engine.settings.models.earlier_folders == (first, second)
    engine.change_settings({"models.folder": second})
    assert engine.settings.models.earlier_folders == (first,)


def test_a_model_that_lies_whole_in_an_earlier_folder_is_not_fetched_again(
    engine: Engine, hub: ModelHub, tmp_path: Path
):
    got(engine, KNOWN.name)
    path = place(engine, KNOWN.source)
    engine.forget_model(path)
    engine.change_settings({"models.folder": str(tmp_path / "large disk")})
    hub.asked.clear()
    got(engine, KNOWN.name)
    assert hub.asked == []
    assert [Path(one.path) for one in engine.models()] == [path]


def test_a_model_in_several_files_is_brought_together_in_the_folder_in_force(
    engine: Engine, hub: ModelHub, tmp_path: Path
):
    files = write_split_model(tmp_path)
    for file in files:
        hub.put("owner/name", file.name, file.read_bytes())
    source = f"owner/name/{files[0].name}"
    steps = engine.get_model(source)
    before = place(engine, source)
    while not before.is_file():
        next(steps)
    steps.close()
    engine.change_settings({"models.folder": str(tmp_path / "large disk")})
    hub.asked.clear()
    got(engine, source)
    assert not any(path.endswith(files[0].name) for path, _ in hub.asked if "/resolve/" in path)
    assert sorted(path.name for path in (tmp_path / "large disk" / "owner" / "name").iterdir()) == sorted(
        file.name for file in files
    )
    assert not before.exists()


def test_what_went_wrong_with_it_is_told_until_it_is_removed(engine: Engine, hub: ModelHub):
    hub.instead = Refusal(403)
    ended: queue.Queue[Download] = queue.Queue()
    engine.subscribe(
        lambda event: [ended.put(one) for one in event.downloads] if isinstance(event, DownloadsChanged) else None
    )
    engine.start_getting_model("owner/name/other.gguf")
    while not ended.get(timeout=PATIENCE_S).problem:
        pass
    [failed] = engine.models_begun()
    assert "account" in failed.download.problem
    engine.discard_part_of_model(failed.source)
    assert engine.models_begun() == ()


def test_a_model_in_several_files_is_one_on_the_shelf(engine: Engine, hub: ModelHub, tmp_path: Path):
    for part in write_split_model(tmp_path):
        hub.put("owner/name", part.name, part.read_bytes())
    [offer] = [one for one in engine.look_up_model("owner/name").files if "split" in one.source]
    got(engine, "owner/name/split-00002-of-00002.gguf")
    [entry] = engine.models()
    assert entry.path == str(place(engine, offer.source))
    assert (entry.problem, entry.file_bytes) == ("", offer.model.file_bytes)


def test_what_is_here_of_a_model_in_several_files_can_be_removed(engine: Engine, hub: ModelHub, tmp_path: Path):
    first, second = write_split_model(tmp_path)
    source = hub.put("owner/name", first.name, first.read_bytes())
    hub.put("owner/name", second.name, second.read_bytes())
    steps = engine.get_model(source)
    while (step := next(steps)).num_bytes <= first.stat().st_size:
        pass
    steps.close()
    [begun] = engine.models_begun()
    assert begun.download.num_bytes == step.num_bytes
    engine.discard_part_of_model(source)
    assert list(place(engine, source).parent.iterdir()) == []


def test_what_cannot_be_used_does_not_stay_where_nobody_finds_it(engine: Engine, hub: ModelHub, tmp_path: Path):
    embedder = write_tiny_model(tmp_path / "bert.gguf", architecture="bert").read_bytes()
    source = hub.put("owner/name", "bert.gguf", embedder)
    with pytest.raises(ModelFileInvalid, match="It was removed again"):
        got(engine, source)
    assert list(place(engine, source).parent.iterdir()) == []


def test_what_came_whole_stays_though_it_cannot_be_read_just_now(
    engine: Engine, hub: ModelHub, monkeypatch: pytest.MonkeyPatch
):
    def refuse(*_: object, **__: object) -> None:
        raise OSError(errno.ENODEV, "No such device")

    with monkeypatch.context() as without_device:
        without_device.setattr(gguf, "mmap", SimpleNamespace(mmap=refuse, ACCESS_READ=mmap.ACCESS_READ))
        with pytest.raises(ModelUnreadable, match="cannot be read: No such device") as error:
            got(engine, "owner/name/other.gguf")
    assert "what was downloaded is kept" in error.value.way_out
    hub.asked.clear()
    got(engine, "owner/name/other.gguf")
    assert ([Path(one.path).name for one in engine.models()], hub.asked) == (["other.gguf"], [])


def test_what_came_in_several_files_stays_though_one_is_not_seen_just_now(
    engine: Engine, tmp_path: Path, hub: ModelHub, monkeypatch: pytest.MonkeyPatch
):
    files = write_split_model(tmp_path)
    for file in files:
        hub.put("owner/name", file.name, file.read_bytes())
    source = f"owner/name/{files[0].name}"

    def see_one(path: Path) -> list[Path]:
        hidden = path.with_name(files[1].name)
        hidden.rename(hidden.with_suffix(".hidden"))
        try:
            return gguf_parts_of(path)
        finally:
            hidden.with_suffix(".hidden").rename(hidden)

    gguf_parts_of = gguf.parts_of
    with monkeypatch.context() as half:
        half.setattr(gguf, "parts_of", see_one)
        with pytest.raises(ModelNotFound, match="is not beside it"):
            got(engine, source)
    assert all(place(engine, source).with_name(file.name).is_file() for file in files)


def test_what_was_here_before_stays_though_it_cannot_be_used(engine: Engine, tmp_path: Path):
    mine = place(engine, "owner/name/bert.gguf")
    mine.parent.mkdir(parents=True)
    write_tiny_model(mine, architecture="bert")
    with pytest.raises(ModelFileInvalid):
        got(engine, "owner/name/bert.gguf")
    assert mine.exists()


# --- and its end ---


def test_a_model_that_was_got_is_deleted_and_can_be_got_again(engine: Engine, hub: ModelHub, tmp_path: Path):
    states: queue.Queue[str] = queue.Queue()
    engine.subscribe(lambda event: states.put(event.state) if isinstance(event, ModelStateChanged) else None)
    elsewhere = engine.add_model(write_tiny_model(tmp_path / "mine.gguf"))
    got(engine, KNOWN.name)
    path = place(engine, KNOWN.source)
    engine.use_model(path)
    while states.get(timeout=PATIENCE_S) != "loaded":
        pass
    shown = {one.path: one.deletable_bytes for one in engine.models()}
    assert shown == {elsewhere.path: 0, str(path): path.stat().st_size}
    engine.delete_model(str(path))
    while states.get(timeout=PATIENCE_S) != "none":
        pass
    assert [one.path for one in engine.models()] == [elsewhere.path]
    assert engine.settings.models.current == ""
    assert entry(engine).download.state == "absent"
    assert list((engine.home.data / "models").iterdir()) == []
    hub.asked.clear()
    got(engine, KNOWN.name)
    assert hub.asked_for_files == [""]


def test_a_file_of_ones_own_is_forgotten_and_not_deleted(engine: Engine, tmp_path: Path):
    mine = write_tiny_model(tmp_path / "mine.gguf")
    engine.add_model(mine)
    with pytest.raises(BadRequest, match="not in the folder of models") as error:
        engine.delete_model("mine")
    assert "Remove it from the list" in error.value.way_out
    assert mine.exists()
    assert len(engine.models()) == 1


def test_what_was_got_before_the_folder_was_changed_can_be_deleted(engine: Engine, tmp_path: Path):
    got(engine, "owner/name/other.gguf")
    engine.change_settings({"models.folder": str(tmp_path / "large disk")})
    [one] = engine.models()
    assert one.deletable_bytes > 0
    engine.delete_model(one.path)
    assert engine.models() == ()
    assert not Path(one.path).exists()


def test_a_model_that_is_being_used_is_not_deleted(engine: Engine, monkeypatch: pytest.MonkeyPatch):
    got(engine, KNOWN.name)
    path = place(engine, KNOWN.source)
    in_use: Future[bool] = Future()
    in_use.set_result(False)
    monkeypatch.setattr(engine._getting, "_let_go", lambda _: in_use)
    with pytest.raises(BadRequest, match="in use just now"):
        engine.delete_model(str(path))
    assert path.exists()
    assert engine.settings.models.current == str(path)


def test_a_model_that_is_used_by_another_name_is_let_go_and_forgotten_by_all(engine: Engine, tmp_path: Path):
    states: queue.Queue[tuple[str, str]] = queue.Queue()
    engine.subscribe(
        lambda event: states.put((event.state, event.path)) if isinstance(event, ModelStateChanged) else None
    )
    got(engine, KNOWN.name)
    path = place(engine, KNOWN.source)
    (tmp_path / "link").symlink_to(path.parent)
    by_link = tmp_path / "link" / path.name
    engine.use_model(by_link)
    while states.get(timeout=PATIENCE_S) != ("loaded", str(by_link)):
        pass
    engine.delete_model(str(path))
    while states.get(timeout=PATIENCE_S)[0] != "none":
        pass
    assert engine.models() == ()
    assert engine.settings.models.current == ""


def test_a_model_that_was_got_again_is_there_though_an_earlier_place_of_it_is_listed(engine: Engine, tmp_path: Path):
    got(engine, KNOWN.source)
    path = place(engine, KNOWN.source)
    gone = Source.parse(KNOWN.source).below(tmp_path / "earlier")
    engine.change_settings({"models.known": (str(gone), str(path))})
    told = entry(engine)
    assert (told.download.state, told.model.path) == ("there", str(path))


def test_a_model_that_is_being_used_by_another_name_is_not_deleted(
    engine: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    folder = engine.home.data / "models" / "owner"
    folder.mkdir(parents=True)
    first, second = write_split_model(folder)
    # As settings of before may have it.
    engine.change_settings({"models.known": (str(first), str(second))})

    def let_go(asked: Path) -> Future[bool]:
        reply: Future[bool] = Future()
        reply.set_result(asked != second)
        return reply

    monkeypatch.setattr(engine._getting, "_let_go", let_go)
    with pytest.raises(BadRequest, match="in use just now"):
        engine.delete_model(str(first))
    assert first.exists()
    assert len(engine.models()) == 2


def test_a_model_in_several_files_goes_by_the_first_of_them(engine: Engine, tmp_path: Path):
    first, second = write_split_model(tmp_path)
    assert engine.add_model(second).path == str(first)
    assert engine.add_model(first).path == str(first)
    assert [one.path for one in engine.models()] == [str(first)]


def test_a_file_that_may_not_be_deleted_stays_on_the_list(engine: Engine, monkeypatch: pytest.MonkeyPatch):
    got(engine, "owner/name/other.gguf")
    path = place(engine, "owner/name/other.gguf")

    def refuse(_: Deletable) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Deletable, "delete", refuse)
    is_loaded = threading.Event()
    engine.subscribe(
        lambda event: is_loaded.set() if isinstance(event, ModelStateChanged) and event.state == "loaded" else None
    )
    engine.use_model(path)
    assert is_loaded.wait(PATIENCE_S)
    with pytest.raises(ModelError, match=r"other.gguf could not be deleted: Permission denied"):
        engine.delete_model("other")
    assert [one.path for one in engine.models()] == [str(path)]
    assert engine.settings.models.current == str(path)
