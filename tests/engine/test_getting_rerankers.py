"""Tests for engine.getting_rerankers: an engine that gets rerankers from a hub on this machine.

What is common to all models that are folders is tested in test_getting_embedders.py.
"""

from __future__ import annotations

import json
import queue
from collections.abc import Generator, Iterator
from pathlib import Path

import pytest

from engine import getting_rerankers
from engine.core import Download
from engine.embedder.reranker_catalogue import CATALOGUE
from engine.engine import Engine
from engine.errors import BadRequest, DiskFull, DownloadFailed, EmbedderUnavailable, EmbedderUntried
from engine.events import RerankerDownloadsChanged
from engine.models import download
from engine.protocol import RerankerEntry
from tests.helpers.model_hub import ModelHub
from tests.helpers.tiny_embedder import write_tiny_embedder
from tests.helpers.tiny_reranker import write_tiny_reranker

KNOWN = CATALOGUE[0].repo
OTHER = "owner/name"
PATIENCE_S = 60.0


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    # Large enough to be stopped in the midst of it.
    return write_tiny_reranker(tmp_path_factory.mktemp("made") / "tiny", intermediate_size=16_000)


@pytest.fixture
def hub(tiny: Path) -> Iterator[ModelHub]:
    with ModelHub() as made:
        for repo in (KNOWN, OTHER):
            made.put_folder(repo, tiny)
            for more in ("pytorch_model.bin", "onnx/model.onnx", "openvino/openvino_model.bin", "tf_model.h5"):
                made.put(repo, more, b"the same weights once more")
            for more in (".gitattributes", "train_script.py", "onnx/config.json", "results.csv"):
                made.put_small(repo, more, b"{}")
            made.put_small(repo, "README.md", b"A card.")
        made.piece_bytes = 1 << 18
        yield made


@pytest.fixture
def engine(tmp_path: Path, hub: ModelHub) -> Iterator[Engine]:
    with Engine.open(tmp_path / "home") as made:
        made.change_settings({"models.hub": hub.address})
        yield made


def place(engine: Engine, repo: str) -> Path:
    return engine.home.data / "models" / "rerankers" / repo


def current(engine: Engine) -> str:
    return engine.settings.retrieval.reranker


def got(engine: Engine, name: str) -> None:
    for _ in engine.get_reranker(name, lambda _: None):
        pass


def entry(engine: Engine, repo: str = OTHER) -> RerankerEntry | None:
    return next((one for one in engine.rerankers() if one.source == repo), None)


def put_changed(hub: ModelHub, tiny: Path, file: str, **changes: object) -> None:
    said = json.loads((tiny / file).read_text(encoding="utf-8"))
    hub.put_small(OTHER, file, json.dumps({**said, **changes}).encode())


def test_the_catalogue_is_told_without_asking_the_hub(engine: Engine, hub: ModelHub):
    told = engine.rerankers()
    assert [one.source for one in told] == [known.repo for known in CATALOGUE]
    assert all(one.good_for and one.licence and one.languages and one.num_bytes for one in told)
    assert all(one.download == Download(one.source) for one in told)
    assert hub.asked == []


def test_what_a_reranker_needs_is_fetched_and_nothing_else_and_it_is_used_then(engine: Engine, tiny: Path):
    steps = list(engine.get_reranker(OTHER, lambda _: None))
    folder = place(engine, OTHER)
    came = {path.name for path in folder.rglob("*") if path.is_file()}
    assert came == {path.name for path in tiny.iterdir()} | {"README.md"}
    assert current(engine) == str(folder)
    told = entry(engine)
    assert told is not None
    # One in use is not deleted.
    assert (told.download.state, told.deletable_bytes) == ("there", 0)
    assert steps[-1].num_bytes == steps[-1].total_bytes > 0
    assert list((folder.parents[1] / ".coming").glob("*/*")) == []


def test_one_of_the_catalogue_is_got_by_its_name_or_link(engine: Engine, hub: ModelHub):
    got(engine, CATALOGUE[0].name.upper())
    assert current(engine) == str(place(engine, KNOWN))
    got(engine, f"{hub.address}/{OTHER}/tree/main")
    assert current(engine) == str(place(engine, OTHER))
    # The second time it is there, and only used.
    hub.asked.clear()
    got(engine, KNOWN)
    assert (current(engine), hub.asked) == (str(place(engine, KNOWN)), [])


def test_who_stopped_goes_on_where_that_was(engine: Engine, hub: ModelHub):
    steps = engine.get_reranker(OTHER, lambda _: None)
    for step in steps:
        if step.num_bytes and step.num_bytes > step.total_bytes * 2 // 3:
            break
    steps.close()
    begun = entry(engine)
    assert begun is not None
    assert (begun.download.state, current(engine)) == ("part", "")
    hub.asked.clear()
    got(engine, OTHER)
    [(path, wanted)] = [asked for asked in hub.asked if "/resolve/" in asked[0]]
    assert path.endswith("model.safetensors")
    assert wanted.startswith("bytes=")
    assert current(engine) == str(place(engine, OTHER))


def test_one_in_use_is_deleted_only_after_another_or_none_was_chosen(engine: Engine):
    got(engine, OTHER)
    with pytest.raises(BadRequest, match="owner/name is in use: the best passages are read with it") as error:
        engine.delete_reranker(OTHER)
    assert "or none" in error.value.way_out
    engine.change_settings({"retrieval.reranker": ""})
    told = entry(engine)
    assert told is not None
    assert told.deletable_bytes > 0
    engine.delete_reranker(OTHER)
    assert entry(engine) is None
    assert not place(engine, OTHER).exists()


def test_what_arrives_damaged_is_not_used(engine: Engine, hub: ModelHub, tiny: Path):
    hub.put(OTHER, "model.safetensors", (tiny / "model.safetensors").read_bytes(), sha256="0" * 64)
    with pytest.raises(DownloadFailed, match="damaged"):
        got(engine, OTHER)
    assert current(engine) == ""
    assert not place(engine, OTHER).exists()


def test_a_disk_that_is_full_is_told_before_the_weights_come(
    engine: Engine, hub: ModelHub, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(download, "LEFT_FREE_BYTES", 2**60)
    with pytest.raises(DiskFull, match="no room for the model"):
        got(engine, OTHER)
    assert not any("safetensors" in path for path, _ in hub.asked)


# --- what is no reranker ---


def test_weights_that_may_hold_a_program_are_refused_before_anything_comes(engine: Engine, hub: ModelHub):
    hub.take_away(OTHER, "model.safetensors")
    with pytest.raises(EmbedderUnavailable, match=r"owner/name is no reranker .*\(\.bin\) that may hold a program"):
        got(engine, OTHER)
    hub.take_away(OTHER, "pytorch_model.bin")
    with pytest.raises(EmbedderUnavailable, match="in no format that is read here"):
        got(engine, OTHER)
    assert hub.asked_for_files == []


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"auto_map": {"AutoModel": "modeling.Own"}}, "no program that was fetched is run"),
        ({"architectures": ["BertModel"]}, "how well two texts fit"),
        ({"architectures": ["Qwen3ForCausalLM"]}, "how well two texts fit"),
        ({"id2label": {"0": "a", "1": "b", "2": "c"}}, "sorts texts into 3 kinds"),
    ],
)
def test_other_kinds_are_told_before_their_weights_come(
    engine: Engine, hub: ModelHub, tiny: Path, changes: dict[str, object], why: str
):
    put_changed(hub, tiny, "config.json", **changes)
    with pytest.raises(EmbedderUnavailable, match=why) as error:
        got(engine, OTHER)
    assert "Choose one of the list" in error.value.way_out
    assert not any("safetensors" in path for path, _ in hub.asked)
    assert current(engine) == ""


def test_an_embedding_model_is_none(engine: Engine, hub: ModelHub, tmp_path: Path):
    hub.put_folder("owner/embedder", write_tiny_embedder(tmp_path / "embedder"))
    with pytest.raises(EmbedderUnavailable, match="owner/embedder is no reranker"):
        got(engine, "owner/embedder")


def test_one_of_several_parts_is_told(engine: Engine, hub: ModelHub):
    modules = [{"path": "1_Dense", "type": "sentence_transformers.base.modules.dense.Dense"}]
    hub.put_small(OTHER, "modules.json", json.dumps(modules).encode())
    with pytest.raises(EmbedderUnavailable, match="several parts"):
        got(engine, OTHER)
    assert not any("safetensors" in path for path, _ in hub.asked)


def test_one_without_a_tokenizer_is_told(engine: Engine, hub: ModelHub):
    hub.take_away(OTHER, "tokenizer.json")
    with pytest.raises(EmbedderUnavailable, match="no tokenizer"):
        got(engine, OTHER)


def test_one_that_cannot_be_loaded_is_told_and_removed(engine: Engine, hub: ModelHub, tiny: Path):
    put_changed(hub, tiny, "config.json", model_type="of the future")
    with pytest.raises(EmbedderUnavailable, match="name was downloaded, but cannot be used: "):
        got(engine, OTHER)
    assert (current(engine), entry(engine)) == ("", None)


def test_what_came_is_kept_where_its_trial_was_killed(engine: Engine, hub: ModelHub, monkeypatch: pytest.MonkeyPatch):
    def killed(*_: object) -> Generator[None, None, None]:
        yield
        raise EmbedderUntried("It could not be tried.")

    with monkeypatch.context() as short:
        short.setattr(getting_rerankers, "tried", killed)
        with pytest.raises(EmbedderUntried):
            got(engine, OTHER)
    hub.asked.clear()
    got(engine, OTHER)
    assert hub.asked_for_files == []
    assert current(engine) == str(place(engine, OTHER))


def test_what_is_called_like_no_model_is_refused(engine: Engine):
    with pytest.raises(BadRequest, match="names no reranker of the hub"):
        engine.getting_rerankers.start("a nice one")
    with pytest.raises(DownloadFailed, match="or it is not there"):
        got(engine, "nobody/nothing")


# --- in the background ---


def watched(engine: Engine) -> queue.Queue[Download]:
    told: queue.Queue[Download] = queue.Queue()
    engine.subscribe(
        lambda event: (
            [told.put(one) for one in event.downloads] if isinstance(event, RerankerDownloadsChanged) else None
        )
    )
    return told


def test_one_is_got_in_the_background_and_used(engine: Engine):
    told = watched(engine)
    engine.getting_rerankers.start(OTHER)
    while (one := told.get(timeout=PATIENCE_S)).state != "there":
        assert not one.problem
    assert current(engine) == str(place(engine, OTHER))


def test_one_that_is_cancelled_is_not_used(engine: Engine, hub: ModelHub):
    told = watched(engine)
    hub.between = lambda sent: engine.getting_rerankers.cancel(OTHER) if sent else None
    engine.getting_rerankers.start(OTHER)
    while told.get(timeout=PATIENCE_S).state not in ("part", "absent"):
        pass
    assert current(engine) == ""
