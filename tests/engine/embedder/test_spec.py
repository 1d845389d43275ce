"""Tests for engine.embedder.spec."""

from __future__ import annotations

import errno
import json
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from engine.config import EmbedderSettings
from engine.embedder import Embedder, resolve
from engine.embedder.spec import found_again
from engine.errors import EmbedderUnavailable
from engine.memory.ledger import Ledger
from tests.helpers.small_embedder import write_small_model


@pytest.fixture
def small_model(tmp_path: Path) -> Path:
    return write_small_model(tmp_path / "my-embedder")


def test_default_model_is_known_without_torch():
    code = (
        "import sys; from engine.config import EmbedderSettings; from engine.embedder import resolve\n"
        "spec = resolve(EmbedderSettings())\n"
        "assert spec.dimensions == 384 and spec.is_english_only and spec.tokenizer_file.is_file()\n"
        "heavy = {'torch', 'sentence_transformers', 'transformers', 'lancedb', 'pyarrow'} & set(sys.modules)\n"
        "assert not heavy, heavy"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120)


def test_a_folder_of_ones_own_is_read(small_model: Path):
    spec = resolve(EmbedderSettings(model=str(small_model)))
    assert (spec.name, spec.dimensions, spec.tokenizer_file) == ("my-embedder", 32, None)
    assert not spec.is_english_only


def test_dimension_of_a_last_dense_module_counts(small_model: Path):
    (small_model / "2_Dense").mkdir()
    (small_model / "2_Dense" / "config.json").write_text(json.dumps({"in_features": 32, "out_features": 8}))
    modules = json.loads((small_model / "modules.json").read_text())
    (small_model / "modules.json").write_text(json.dumps([*modules, {"path": "2_Dense"}]))
    assert resolve(EmbedderSettings(model=str(small_model))).dimensions == 8


@pytest.mark.parametrize("offset", [0, 2**19, 2**20 - 1], ids=["head", "middle", "tail"])
def test_identity_changes_with_the_weights(small_model: Path, offset: int):
    before = resolve(EmbedderSettings(model=str(small_model))).identity
    weights = bytearray((small_model / "model.safetensors").read_bytes())
    weights[offset] ^= 1
    (small_model / "model.safetensors").write_bytes(weights)
    assert resolve(EmbedderSettings(model=str(small_model))).identity != before


def test_identity_does_not_depend_on_where_the_folder_lies(small_model: Path, tmp_path: Path):
    moved = Path(shutil.copytree(small_model, tmp_path / "elsewhere" / "my-embedder"))
    there, here = (resolve(EmbedderSettings(model=str(folder))) for folder in (moved, small_model))
    assert there.identity == here.identity


@pytest.mark.parametrize(
    ("front_matter", "is_english_only"),
    [
        ("language: en\nlicense: mit", True),
        ("language:\n- en\nlicense: mit", True),
        ("language:\n- en\n- de\n", False),
        ("language: [en, zh]", False),
        ("license: mit", False),
        ("license: mit\n---\nlanguage: en", False),
    ],
)
def test_model_card_says_which_languages(small_model: Path, front_matter: str, is_english_only: bool):
    (small_model / "README.md").write_text(f"---\n{front_matter}\n---\n# A model\n")
    assert resolve(EmbedderSettings(model=str(small_model))).is_english_only is is_english_only


def test_a_model_that_is_gone_says_so_until_it_is_back(small_model: Path, tmp_path: Path):
    spec = resolve(EmbedderSettings(model=str(small_model)))
    gone = replace(spec, tokenizer_file=None, is_gone=True)
    away = small_model.rename(tmp_path / "away")
    with pytest.raises(EmbedderUnavailable, match="no longer on this computer"):
        Embedder(gone, EmbedderSettings(), Ledger()).embed_questions(["How?"])
    away.rename(small_model)
    assert found_again(gone) == spec


@pytest.mark.parametrize("missing", ["modules.json", "model.safetensors"])
def test_incomplete_folder_is_refused_with_a_way_out(small_model: Path, missing: str):
    (small_model / missing).unlink()
    with pytest.raises(EmbedderUnavailable) as refused:
        resolve(EmbedderSettings(model=str(small_model)))
    assert "my-embedder" in refused.value.sentence
    assert "Errno" not in refused.value.sentence
    assert "folder that sentence-transformers" in refused.value.way_out


def test_a_folder_that_cannot_be_looked_at_is_told_of(monkeypatch: pytest.MonkeyPatch):
    def gone(_: Path) -> bool:
        raise OSError(errno.ENOTCONN, "Transport endpoint is not connected")

    with monkeypatch.context() as patch:
        patch.setattr(Path, "is_dir", gone)
        with pytest.raises(EmbedderUnavailable, match="'/share/e5' cannot be read: Transport endpoint is not"):
            resolve(EmbedderSettings(model="/share/e5"))
    with pytest.raises(EmbedderUnavailable, match="cannot be read") as error:
        resolve(EmbedderSettings(model="~nobody-at-all/e5"))
    assert "Get it in the settings" in error.value.way_out


def test_a_folder_that_holds_no_model_is_told_by_the_file_that_it_lacks(tmp_path: Path):
    with pytest.raises(EmbedderUnavailable, match=f"The folder '{tmp_path.name}' .*: it has no modules.json"):
        resolve(EmbedderSettings(model=str(tmp_path)))


def test_a_model_that_was_never_downloaded_is_named():
    with pytest.raises(EmbedderUnavailable, match="no-such-person/no-such-model"):
        resolve(EmbedderSettings(model="no-such-person/no-such-model"))
