"""Tests for engine.getting_embedders: an engine that gets embedding models from a hub on this machine."""

from __future__ import annotations

import errno
import json
import os
import queue
from collections.abc import Generator, Iterator
from pathlib import Path

import numpy as np
import pytest

from engine import getting_embedders
from engine.config import EmbedderSettings
from engine.core import Download
from engine.embedder import Embedder, resolve
from engine.embedder.catalogue import CATALOGUE
from engine.engine import Engine
from engine.errors import BadRequest, DiskFull, DownloadFailed, EmbedderUnavailable, EmbedderUntried, ModelError
from engine.events import EmbedderDownloadsChanged
from engine.memory.ledger import Ledger
from engine.models import download
from engine.protocol import EmbedderEntry
from tests.helpers.model_hub import ModelHub, Refusal
from tests.helpers.tiny_embedder import write_tiny_embedder

E5 = CATALOGUE[0].repo
OTHER = "owner/name"
PATIENCE_S = 60.0


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tiny_embedder(tmp_path_factory.mktemp("made") / "tiny")


@pytest.fixture
def hub(tiny: Path) -> Iterator[ModelHub]:
    with ModelHub() as made:
        for repo in (E5, OTHER):
            made.put_folder(repo, tiny)
            for more in ("pytorch_model.bin", "onnx/model.onnx", "openvino/openvino_model.bin", "tf_model.h5"):
                made.put(repo, more, b"the same weights once more")
            for more in (".gitattributes", "train_script.py", "openvino/config.json"):
                made.put_small(repo, more, b"{}")
        yield made


@pytest.fixture
def engine(tmp_path: Path, hub: ModelHub) -> Iterator[Engine]:
    with Engine.open(tmp_path / "home") as made:
        made.change_settings({"models.hub": hub.address})
        yield made


def place(engine: Engine, repo: str) -> Path:
    return engine.home.data / "models" / "embedders" / repo


def got(engine: Engine, name: str) -> None:
    for _ in engine.getting_embedders.get(name, lambda _: None):
        pass


def stopped_in_weights(engine: Engine, name: str) -> int:
    """Fetches some of the weights, and is closed then, as a cancel does; says how much is there."""
    steps = engine.getting_embedders.get(name, lambda _: None)
    for step in steps:
        if step.num_bytes and step.num_bytes > step.total_bytes * 2 // 3:
            break
    steps.close()
    return step.num_bytes


def entry(engine: Engine, repo: str = E5) -> EmbedderEntry:
    return next(one for one in engine.getting_embedders.entries() if one.source == repo)


def test_the_catalogue_is_told_without_asking_the_hub(engine: Engine, hub: ModelHub):
    told = engine.getting_embedders.entries()
    assert [one.source for one in told] == [known.repo for known in CATALOGUE]
    assert all(one.good_for and one.licence and one.dimensions and one.num_bytes for one in told)
    assert {one.is_multilingual for one in told} == {True, False}
    assert all(one.download == Download(one.source) for one in told)
    assert hub.asked == []


def test_what_a_model_needs_is_fetched_and_nothing_else_and_it_is_used_then(engine: Engine, tiny: Path):
    steps = list(engine.getting_embedders.get(OTHER, lambda _: None))
    folder = place(engine, OTHER)
    came = {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}
    assert came == {path.relative_to(tiny).as_posix() for path in tiny.rglob("*") if path.is_file()}
    assert engine.settings.embedder.model == str(folder)
    assert entry(engine, OTHER).download.state == "there"
    totals = {step.total_bytes for step in steps if step.num_bytes}
    assert steps[-1].num_bytes == steps[-1].total_bytes
    assert totals == {sum((tiny / name).stat().st_size for name in came)}
    # Nothing is left of its way here.
    assert list((folder.parents[1] / ".coming").glob("*/*")) == []


def test_a_model_of_the_catalogue_is_got_by_its_name_or_link(engine: Engine, hub: ModelHub):
    got(engine, "Multilingual-E5-small")
    assert engine.settings.embedder.model == str(place(engine, E5))
    got(engine, f"{hub.address}/{OTHER}/tree/main")
    assert engine.settings.embedder.model == str(place(engine, OTHER))
    # The second time it is there, and only used.
    hub.asked.clear()
    got(engine, E5)
    assert (engine.settings.embedder.model, hub.asked) == (str(place(engine, E5)), [])


def test_weights_in_the_older_format_are_fetched_where_there_are_no_others(
    engine: Engine, hub: ModelHub, tiny: Path, tmp_path: Path
):
    import torch
    from safetensors.torch import load_file

    torch.save(load_file(tiny / "model.safetensors"), tmp_path / "pytorch_model.bin")
    hub.put(OTHER, "pytorch_model.bin", (tmp_path / "pytorch_model.bin").read_bytes())
    hub.take_away(OTHER, "model.safetensors")
    got(engine, OTHER)
    assert (place(engine, OTHER) / "pytorch_model.bin").is_file()


def test_large_weights_come_in_all_of_their_files(engine: Engine, hub: ModelHub, tiny: Path, tmp_path: Path):
    from transformers import BertModel

    BertModel.from_pretrained(tiny).save_pretrained(tmp_path / "split", max_shard_size="3MB")
    hub.take_away(OTHER, "model.safetensors")
    hub.put_folder(OTHER, tmp_path / "split")
    shards = [path.name for path in sorted((tmp_path / "split").glob("*.safetensors"))]
    assert len(shards) > 1
    got(engine, OTHER)
    assert [path.name for path in sorted(place(engine, OTHER).glob("*.safetensors"))] == shards


def test_who_stopped_goes_on_where_that_was(engine: Engine, hub: ModelHub):
    hub.piece_bytes = 1 << 18
    num_bytes = stopped_in_weights(engine, OTHER)
    begun = entry(engine, OTHER).download
    assert (begun.state, begun.num_bytes) == ("part", num_bytes)
    assert engine.settings.embedder.model == ""
    hub.asked.clear()
    got(engine, OTHER)
    [(path, wanted)] = [asked for asked in hub.asked if "/resolve/" in asked[0]]
    assert path.endswith("model.safetensors")
    assert wanted.startswith("bytes=")


def test_a_file_that_is_another_on_the_hub_by_now_is_fetched_again(engine: Engine, hub: ModelHub, tiny: Path):
    hub.piece_bytes = 1 << 18
    stopped_in_weights(engine, OTHER)
    card = (tiny / "README.md").read_bytes().swapcase()
    hub.put_small(OTHER, "README.md", card)
    got(engine, OTHER)
    assert (place(engine, OTHER) / "README.md").read_bytes() == card


def test_what_is_here_of_a_model_can_be_removed(engine: Engine, hub: ModelHub):
    hub.piece_bytes = 1 << 18
    stopped_in_weights(engine, OTHER)
    engine.getting_embedders.discard(OTHER)
    assert [one.source for one in engine.getting_embedders.entries()] == [known.repo for known in CATALOGUE]


def test_what_was_begun_before_the_folder_was_changed_is_listed_and_gone_on_with(
    engine: Engine, hub: ModelHub, tmp_path: Path
):
    hub.piece_bytes = 1 << 18
    num_bytes = stopped_in_weights(engine, OTHER)
    engine.change_settings({"models.folder": str(tmp_path / "large disk")})
    begun = entry(engine, OTHER).download
    assert (begun.state, begun.num_bytes) == ("part", num_bytes)
    hub.asked.clear()
    got(engine, OTHER)
    [(path, wanted)] = [asked for asked in hub.asked if "/resolve/" in asked[0]]
    assert path.endswith("model.safetensors")
    assert wanted.startswith("bytes=")
    assert engine.settings.embedder.model == str(tmp_path / "large disk" / "embedders" / OTHER)
    assert not [path for path in place(engine, OTHER).parents[1].rglob("*") if path.is_file()]


@pytest.mark.parametrize("inside", ["", "embedders"])
def test_what_was_begun_is_kept_where_the_new_folder_is_a_link_to_the_earlier_one(
    engine: Engine, hub: ModelHub, tmp_path: Path, inside: str
):
    hub.piece_bytes = 1 << 18
    stopped_in_weights(engine, OTHER)
    link = tmp_path / "link" / inside
    link.parent.mkdir(exist_ok=True)
    link.symlink_to(engine.home.data / "models" / inside, target_is_directory=True)
    engine.change_settings({"models.folder": str(tmp_path / "link")})
    hub.asked.clear()
    got(engine, OTHER)
    weights = [wanted for path, wanted in hub.asked if path.endswith("model.safetensors")]
    assert [wanted.startswith("bytes=") for wanted in weights] == [True]


def test_what_is_begun_is_counted_once_by_whatever_links_it_is_found(engine: Engine, hub: ModelHub, tmp_path: Path):
    hub.piece_bytes = 1 << 18
    num_bytes = stopped_in_weights(engine, OTHER)
    (tmp_path / "link").symlink_to(engine.home.data / "models", target_is_directory=True)
    engine.change_settings({"models.folder": str(tmp_path / "link")})
    assert entry(engine, OTHER).download.num_bytes == num_bytes


def test_what_comes_ends_where_it_began_though_the_folder_is_changed_meanwhile(
    engine: Engine, hub: ModelHub, tmp_path: Path
):
    hub.piece_bytes = 1 << 18
    steps = engine.getting_embedders.get(OTHER, lambda _: None)
    next(step for step in steps if step.num_bytes)
    # On another disk, where nothing can be moved to in one go.
    engine.change_settings({"models.folder": str(tmp_path / "large disk")})
    for _ in steps:
        pass
    assert engine.settings.embedder.model == str(place(engine, OTHER))
    assert not (tmp_path / "large disk").exists()


def test_what_was_begun_in_an_earlier_folder_can_be_removed(engine: Engine, hub: ModelHub, tmp_path: Path):
    hub.piece_bytes = 1 << 18
    stopped_in_weights(engine, OTHER)
    engine.change_settings({"models.folder": str(tmp_path / "large disk")})
    engine.getting_embedders.discard(OTHER)
    assert OTHER not in [one.source for one in engine.getting_embedders.entries()]
    assert not [path for path in place(engine, OTHER).parents[1].rglob("*") if path.is_file()]


def test_one_that_was_got_before_the_folder_was_changed_is_used_where_it_lies(
    engine: Engine, hub: ModelHub, tmp_path: Path
):
    got(engine, OTHER)
    engine.change_settings({"models.folder": str(tmp_path / "large disk"), "embedder.model": ""})
    assert entry(engine, OTHER).download.state == "there"
    hub.asked.clear()
    got(engine, OTHER)
    assert (hub.asked, engine.settings.embedder.model) == ([], str(place(engine, OTHER)))


# --- deleting ---


def move_to_the_built_in_one(engine: Engine) -> None:
    engine.change_settings({"embedder.model": ""})
    engine.start_moving().wait()


def test_one_that_is_not_in_use_is_deleted_and_can_be_got_again(engine: Engine, hub: ModelHub):
    got(engine, OTHER)
    # The library is searched with it, once it is opened.
    assert entry(engine, OTHER).deletable_bytes == 0
    with pytest.raises(BadRequest, match="owner/name is in use") as error:
        engine.delete_embedder(OTHER)
    assert "Use another one" in error.value.way_out
    move_to_the_built_in_one(engine)
    folder = place(engine, OTHER)
    num_bytes = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    assert entry(engine, OTHER).deletable_bytes == num_bytes
    engine.delete_embedder(OTHER)
    assert OTHER not in [one.source for one in engine.getting_embedders.entries()]
    assert not [path for path in folder.parents[1].rglob("*") if path.is_file()]
    with pytest.raises(BadRequest, match="owner/name is not here"):
        engine.delete_embedder(OTHER)
    hub.asked.clear()
    got(engine, OTHER)
    assert any(path.endswith("model.safetensors") for path, _ in hub.asked)


def test_one_that_answers_until_all_files_have_moved_is_not_deleted_before(engine: Engine, tmp_path: Path):
    (tmp_path / "lease.txt").write_text("The notice period of the flat is three months.", encoding="utf-8")
    got(engine, OTHER)
    engine.add([tmp_path / "lease.txt"])
    engine.pause_indexing()
    engine.change_settings({"embedder.model": ""})
    with pytest.raises(BadRequest, match="is in use"):
        engine.delete_embedder(OTHER)
    engine.resume_indexing()
    engine.start_moving().wait()
    engine.delete_embedder(OTHER)
    assert engine.search("The notice period", top_k=1).passages


def test_a_folder_of_ones_own_stays_where_it_is(engine: Engine, tiny: Path):
    for own in (str(tiny), "~nobody/tiny"):
        with pytest.raises(BadRequest, match="not in the folder of models") as error:
            engine.delete_embedder(own)
        assert "Delete it yourself" in error.value.way_out
    link = place(engine, OTHER)
    link.parent.mkdir(parents=True)
    link.symlink_to(tiny, target_is_directory=True)
    assert (entry(engine, OTHER).download.state, entry(engine, OTHER).deletable_bytes) == ("there", 0)
    with pytest.raises(BadRequest, match="only a link to it"):
        engine.delete_embedder(OTHER)
    assert (tiny / "modules.json").is_file()


def test_one_that_may_not_be_deleted_says_so(engine: Engine, monkeypatch: pytest.MonkeyPatch):
    got(engine, OTHER)
    move_to_the_built_in_one(engine)
    replace = os.replace

    def refuse(source: Path, target: Path) -> None:
        # Only folders of models: in its threads, the engine meanwhile writes files of its own.
        if Path(source).is_dir():
            raise PermissionError(13, "Permission denied")
        replace(source, target)

    monkeypatch.setattr("engine.getting_folders.os.replace", refuse)
    with pytest.raises(ModelError, match="owner/name could not be deleted: Permission denied"):
        engine.delete_embedder(OTHER)
    assert entry(engine, OTHER).download.state == "there"


def test_what_is_left_of_one_that_was_deleted_in_part_can_be_removed(engine: Engine, monkeypatch: pytest.MonkeyPatch):
    got(engine, OTHER)
    move_to_the_built_in_one(engine)

    def refuse(folder: Path) -> None:
        (folder / "modules.json").unlink()
        raise PermissionError(13, "Permission denied")

    with monkeypatch.context() as patch:
        patch.setattr("engine.getting_folders.shutil.rmtree", refuse)
        with pytest.raises(ModelError, match="could not be deleted"):
            engine.delete_embedder(OTHER)
    assert entry(engine, OTHER).download.state == "part"
    engine.getting_embedders.discard(OTHER)
    assert OTHER not in [one.source for one in engine.getting_embedders.entries()]


def test_a_small_file_that_arrives_damaged_is_told_and_not_kept(engine: Engine, hub: ModelHub):
    hub.put_small(OTHER, "config.json", b"{}", oid="0" * 40)
    with pytest.raises(DownloadFailed, match=r"config\.json arrived damaged"):
        got(engine, OTHER)
    assert engine.settings.embedder.model == ""
    assert not place(engine, OTHER).exists()


def test_a_disk_that_is_full_is_told_before_the_weights_come(
    engine: Engine, hub: ModelHub, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(download, "LEFT_FREE_BYTES", 2**60)
    with pytest.raises(DiskFull, match="no room for the model"):
        got(engine, OTHER)
    assert not any("safetensors" in path for path, _ in hub.asked)


def test_a_folder_of_which_files_were_taken_is_made_whole_by_those(engine: Engine, hub: ModelHub):
    got(engine, E5)
    (place(engine, E5) / "model.safetensors").unlink()
    assert entry(engine).download.state == "absent"
    hub.asked.clear()
    got(engine, E5)
    assert entry(engine).download.state == "there"
    # What we wrote into it ourselves is written again.
    fetched = [path.rpartition("/")[2] for path, _ in hub.asked if "/resolve/" in path]
    assert fetched == ["config_sentence_transformers.json", "model.safetensors"]
    assert "passage: " in (place(engine, E5) / "config_sentence_transformers.json").read_text(encoding="utf-8")


# --- what is no embedding model ---


def put_changed(hub: ModelHub, tiny: Path, file: str, **changes: object) -> None:
    said = json.loads((tiny / file).read_text(encoding="utf-8"))
    hub.put_small(OTHER, file, json.dumps({**said, **changes}).encode())


def test_a_repository_of_another_kind_is_told_by_its_list_of_files(engine: Engine, hub: ModelHub):
    hub.take_away(OTHER, "modules.json")
    with pytest.raises(EmbedderUnavailable, match=r"owner/name is not an embedding model .*modules\.json"):
        got(engine, OTHER)
    assert hub.asked_for_files == []
    assert engine.settings.embedder.model == ""


@pytest.mark.parametrize(
    "modules",
    [b"[]", b"{", b"7", b'[{"path": "", "type": "sentence_transformers.sparse_encoder.models.MLMTransformer"}]',
     b'[{"path": "", "type": "somebody.else"}]'],
)  # fmt: skip
def test_modules_of_another_kind_are_told(engine: Engine, hub: ModelHub, modules: bytes):
    hub.put_small(OTHER, "modules.json", modules)
    with pytest.raises(EmbedderUnavailable, match="not an embedding model that Ragdoll can use"):
        got(engine, OTHER)
    assert not any("safetensors" in path for path, _ in hub.asked)


def test_a_model_with_a_program_of_its_own_is_told_before_its_weights_come(engine: Engine, hub: ModelHub, tiny: Path):
    put_changed(hub, tiny, "config.json", auto_map={"AutoModel": "modeling.Own"})
    with pytest.raises(EmbedderUnavailable, match="no program that was fetched is run"):
        got(engine, OTHER)
    assert not any("safetensors" in path for path, _ in hub.asked)


def test_a_model_that_cannot_be_loaded_is_told_and_removed(engine: Engine, hub: ModelHub, tiny: Path):
    put_changed(hub, tiny, "config.json", model_type="of the future", architectures=["Future"])
    with pytest.raises(EmbedderUnavailable, match="name was downloaded, but cannot be used: "):
        got(engine, OTHER)
    assert engine.settings.embedder.model == ""
    assert OTHER not in [one.source for one in engine.getting_embedders.entries()]


def test_what_came_is_kept_where_its_trial_was_killed(engine: Engine, hub: ModelHub, monkeypatch: pytest.MonkeyPatch):
    def killed(_: object) -> Generator[None, None, None]:
        yield
        raise EmbedderUntried("It could not be tried.")

    with monkeypatch.context() as short:
        short.setattr(getting_embedders, "tried", killed)
        with pytest.raises(EmbedderUntried):
            got(engine, OTHER)
    hub.asked.clear()
    got(engine, OTHER)
    assert hub.asked_for_files == []
    assert engine.settings.embedder.model == str(place(engine, OTHER))


def test_what_came_is_kept_where_the_system_had_no_file_for_it(
    engine: Engine, hub: ModelHub, monkeypatch: pytest.MonkeyPatch
):
    def refused(_: object) -> None:
        raise EmbedderUnavailable("It cannot be looked at.") from OSError(errno.EMFILE, "Too many open files")

    with monkeypatch.context() as busy:
        busy.setattr(getting_embedders, "resolve", refused)
        with pytest.raises(EmbedderUnavailable):
            got(engine, OTHER)
    hub.asked.clear()
    got(engine, OTHER)
    assert hub.asked_for_files == []


def test_a_model_whose_files_contradict_each_other_is_told(engine: Engine, hub: ModelHub, tiny: Path):
    put_changed(hub, tiny, "1_Pooling/config.json", word_embedding_dimension=48)
    with pytest.raises(EmbedderUnavailable, match="makes vectors of 32 numbers"):
        got(engine, OTHER)


def test_weights_of_no_known_format_are_told(engine: Engine, hub: ModelHub):
    for file in ("model.safetensors", "pytorch_model.bin"):
        hub.take_away(OTHER, file)
    with pytest.raises(EmbedderUnavailable, match="no format that is read here"):
        got(engine, OTHER)


def test_what_is_called_like_no_model_is_refused(engine: Engine):
    for name in ("a nice one", "owner/name/model.gguf", "https://example.org/owner/name"):
        with pytest.raises(BadRequest, match="names no embedding model of the hub"):
            engine.getting_embedders.start(name)
    with pytest.raises(DownloadFailed, match="or it is not there"):
        got(engine, "nobody/nothing")


# --- prompts ---


def test_what_a_model_wants_before_its_texts_is_said_to_it_and_part_of_its_identity(engine: Engine, tiny: Path):
    got(engine, E5)
    spec, plain = (resolve(EmbedderSettings(model=str(folder))) for folder in (place(engine, E5), tiny))
    assert spec.identity.partition("@")[2] != plain.identity.partition("@")[2]
    # Texts of other lengths are computed in other ways, which only exact numbers make the same.
    exact = EmbedderSettings(num_threads=1, number_format="float32")
    embedder, bare = (Embedder(one, exact, Ledger()) for one in (spec, plain))
    words = "the notice period"
    [asked], [passage] = embedder.embed_questions([words]), embedder.embed_documents([words])
    [as_asked], [as_passage] = (bare.embed_documents([f"{before}: {words}"]) for before in ("query", "passage"))
    assert np.abs(asked - as_asked).max() < 1e-4
    assert np.abs(passage - as_passage).max() < 1e-4
    # A text that fills the model leaves room for them: "passage" and ":" are two tokens.
    most = embedder._models[0].max_tokens
    assert most == bare._models[0].max_tokens - 2
    embedder.unload()
    bare.unload()


def test_prompts_that_a_model_says_itself_are_left(engine: Engine, hub: ModelHub, tiny: Path):
    own = {"query": "ask: ", "document": ""}
    said = json.loads((tiny / "config_sentence_transformers.json").read_text(encoding="utf-8"))
    file = "config_sentence_transformers.json"
    hub.put_small(E5, file, json.dumps({**said, "prompts": own}).encode())
    got(engine, E5)
    assert json.loads((place(engine, E5) / file).read_text(encoding="utf-8"))["prompts"] == own


# --- in the background ---


def watched(engine: Engine) -> queue.Queue[Download]:
    told: queue.Queue[Download] = queue.Queue()
    engine.subscribe(
        lambda event: (
            [told.put(one) for one in event.downloads] if isinstance(event, EmbedderDownloadsChanged) else None
        )
    )
    return told


def test_one_is_got_in_the_background_and_used(engine: Engine):
    told = watched(engine)
    engine.getting_embedders.start(OTHER)
    while (one := told.get(timeout=PATIENCE_S)).state != "there":
        assert not one.problem
    assert engine.settings.embedder.model == str(place(engine, OTHER))


def test_one_that_is_cancelled_is_not_used(engine: Engine, hub: ModelHub):
    hub.piece_bytes = 1 << 16
    told = watched(engine)
    hub.between = lambda sent: engine.getting_embedders.cancel(OTHER) if sent else None
    engine.getting_embedders.start(OTHER)
    while told.get(timeout=PATIENCE_S).state not in ("part", "absent"):
        pass
    assert entry(engine, OTHER).download.state == "part"
    assert engine.settings.embedder.model == ""


def test_a_hub_that_is_gone_is_waited_for(engine: Engine, hub: ModelHub):
    hub.tree_instead = Refusal(503)
    told = watched(engine)
    engine.getting_embedders.start(OTHER)
    while (one := told.get(timeout=PATIENCE_S)).state != "cut":
        pass
    assert one.again_at is not None
    assert entry(engine, OTHER).download.state == "cut"
    engine.getting_embedders.cancel(OTHER)


def test_what_is_no_embedding_model_stands_at_it(engine: Engine, hub: ModelHub):
    hub.take_away(OTHER, "modules.json")
    told = watched(engine)
    engine.getting_embedders.start(OTHER)
    while not told.get(timeout=PATIENCE_S).problem:
        pass
    assert "not an embedding model" in entry(engine, OTHER).download.problem
    engine.getting_embedders.discard(OTHER)
    assert OTHER not in [one.source for one in engine.getting_embedders.entries()]


def test_the_library_moves_to_the_model_that_was_got_and_is_searched_with_it(engine: Engine, tmp_path: Path):
    documents = tmp_path / "documents"
    documents.mkdir()
    (documents / "lease.txt").write_text("The notice period of the flat is three months.", encoding="utf-8")
    (documents / "soup.txt").write_text("Boil the leek, then add cream and a little nutmeg.", encoding="utf-8")
    engine.add([documents])
    got(engine, OTHER)
    engine.start_moving().wait()
    state = engine.embedder()
    assert (state.name, state.next_name) == ("name", "")
    [first, *_] = engine.search("The notice period of the flat", top_k=2).passages
    assert first.document.endswith("lease.txt")
