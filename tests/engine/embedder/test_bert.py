"""Tests for engine.embedder.bert and its two ways of computing: sentence-transformers' vectors of plain BERTs only."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from engine.config import EmbedderSettings
from engine.embedder import Embedder, EmbedderSpec, backends, bert, bert_numpy, bert_torch, resolve
from engine.embedder.backends import BackendRefused, BertModel, Model
from engine.embedder.trial import SAMPLE
from engine.embedder.workers import at_once
from engine.errors import EmbedderUnavailable
from engine.memory.ledger import Ledger
from tests.helpers.tiny_embedder import write_tiny_embedder

TEXTS = [
    *SAMPLE,
    "",
    " ",
    "\n\nmore space around than text  ",
    "İstanbul ǅ ﬁ ½ ﷽ é́ñ",
    "[CLS] and [MASK] as somebody wrote them",
    "x" * 3000,
    "wörd " * 900,
    "👩‍👩‍👧",
]
WITHOUT_THE_REST = """
import sys
from engine.config import EmbedderSettings
from engine.embedder import backends, resolve
model = backends.load(resolve(EmbedderSettings()))
for one in (*model.for_workers(2), model.with_number_format("bfloat16")):
    [vector, _] = one.encode(["What is a wavefront?", "A longer text, so that it is padded."], is_question=True)
    assert vector.shape == (384,) and abs(float(vector @ vector) - 1) < 1e-3
model.move("memory")
print(*{"sympy", "torch._dynamo", "transformers", "sentence_transformers", "scipy", "sklearn"} & set(sys.modules))
"""

WITHOUT_TORCH = """
import sys
from engine.config import EmbedderSettings
from engine.embedder import Embedder, resolve
from engine.memory.ledger import Ledger
embedder = Embedder(resolve(EmbedderSettings()), EmbedderSettings(), Ledger())
assert embedder.embed_questions(["What is a wavefront?"]).shape == (1, 384)
assert embedder.embed_documents(["A text.", "Another one."]).shape == (2, 384)
assert embedder.description.startswith("without torch")
assert embedder.movable_bytes == 0
embedder.move("card")
embedder.unload()
print(*{"torch", "transformers", "safetensors.torch"} & set(sys.modules))
"""

Change = Callable[[dict[str, Any]], object]


def _specified(folder: Path):
    return resolve(EmbedderSettings(model=str(folder)))


def _changed(file: Path, change: Change) -> None:
    content = json.loads(file.read_text(encoding="utf-8"))
    change(content)
    file.write_text(json.dumps(content), encoding="utf-8")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A BERT of two layers and random weights, with the tokenizer of the default one."""
    return write_tiny_embedder(tmp_path / "small-bert")


def _say(folder: Path, pooling: str, max_tokens: int) -> None:
    modes = {"pooling_mode_mean_tokens": pooling == "mean", "pooling_mode_cls_token": pooling == "cls"}
    _changed(folder / "1_Pooling" / "config.json", lambda said: said.update(modes))
    _changed(folder / "sentence_bert_config.json", lambda said: said.update(max_seq_length=max_tokens))


def _assert_same_vectors(ours: Model, theirs: Model) -> None:
    assert isinstance(ours, BertModel)
    assert not isinstance(theirs, BertModel)
    for texts in (TEXTS, TEXTS[:1], TEXTS[6:8]):
        for is_question in (False, True):
            same = ours.encode(texts, is_question=is_question), theirs.encode(texts, is_question=is_question)
            assert np.abs(same[0] - same[1]).max() < 2e-6
    assert ours.lengths(TEXTS) == theirs.lengths(TEXTS)
    assert ours.max_tokens == theirs.max_tokens
    assert ours.num_bytes <= theirs.num_bytes


def test_the_default_embedder_makes_the_vectors_of_sentence_transformers():
    spec = resolve(EmbedderSettings())
    _assert_same_vectors(backends.load(spec), backends.load_whole(spec))


@pytest.mark.parametrize("pooling", ["mean", "cls"])
@pytest.mark.parametrize("max_tokens", [16, 300])
def test_another_bert_makes_the_vectors_of_sentence_transformers(folder: Path, pooling: str, max_tokens: int):
    _say(folder, pooling, max_tokens)
    spec = _specified(folder)
    shape = bert.read(folder)
    assert shape is not None
    assert (shape.pooling, shape.max_tokens, shape.dimensions, shape.num_layers) == (pooling, max_tokens, 32, 2)
    _assert_same_vectors(backends.load(spec), backends.load_whole(spec))


def _assert_light_vectors_are_the_same(spec: EmbedderSpec) -> None:
    light, heavy = backends.load_light(spec), backends.load(spec)
    assert light is not None
    for texts in (TEXTS, TEXTS[:1], TEXTS[6:8], ["the same"] * 3):
        same = light.encode(texts, is_question=True), heavy.encode(texts, is_question=False)
        assert same[0].dtype == np.float32
        assert np.abs(same[0] - same[1]).max() < 2e-6
    assert light.lengths(TEXTS) == heavy.lengths(TEXTS)
    shape = bert.read(spec.folder)
    assert shape is not None
    # Of words only those that are in a text are read.
    assert light.num_bytes == heavy.num_bytes - 4 * shape.num_words * shape.dimensions
    assert (light.max_tokens, light.mapped_bytes) == (heavy.max_tokens, light.num_bytes if heavy.mapped_bytes else 0)


def test_numpy_makes_the_vectors_of_torch():
    _assert_light_vectors_are_the_same(resolve(EmbedderSettings()))


@pytest.mark.parametrize("pooling", ["mean", "cls"])
@pytest.mark.parametrize("max_tokens", [16, 300])
def test_numpy_makes_them_of_another_bert_as_well(folder: Path, pooling: str, max_tokens: int):
    _say(folder, pooling, max_tokens)
    _assert_light_vectors_are_the_same(_specified(folder))


def test_several_threads_share_one_model_in_numpy():
    light = backends.load_light(resolve(EmbedderSettings()))
    assert light is not None
    batches = [[f"{number} " + "bread needs flour. " * number] * 3 for number in range(12)]
    made: dict[int, np.ndarray] = {}
    at_once(
        4, lambda one: made.update({one[0]: light.encode(batches[one[0]], is_question=False)}), [[n] for n in range(12)]
    )
    for number, texts in enumerate(batches):
        np.testing.assert_array_equal(made[number], light.encode(texts, is_question=False))


def test_the_error_function_of_numpy_is_that_of_torch():
    import torch

    numbers = np.concatenate([np.linspace(-12, 12, 40_001), [0.0, -0.0, 1e-30, -1e-30, 80, -80]]).astype(np.float32)
    wanted = torch.nn.functional.gelu(torch.from_numpy(numbers.astype(np.float64))).numpy()
    assert np.abs(bert_numpy.gelu(numbers.copy()) - wanted).max() < 1e-6


def test_questions_and_a_few_documents_are_embedded_without_torch():
    ended = subprocess.run([sys.executable, "-c", WITHOUT_TORCH], capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout.split() == []


def test_it_embeds_without_the_libraries_for_other_models():
    ended = subprocess.run([sys.executable, "-c", WITHOUT_THE_REST], capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout.split() == []


def test_its_weights_stay_pages_of_their_file_and_workers_share_all_of_it():
    model = backends.load(resolve(EmbedderSettings()))
    if sys.platform == "linux":
        assert model.mapped_bytes == model.num_bytes
    one, other = model.for_workers(2)
    assert one._model is not other._model
    assert one._model.tokenizer is other._model.tokenizer
    assert {tensor.data_ptr() for tensor in one._model.parameters()} == {
        tensor.data_ptr() for tensor in other._model.parameters()
    }


@pytest.mark.parametrize(
    ("file", "change"),
    [
        ("config.json", lambda said: said.update(model_type="roberta")),
        ("config.json", lambda said: said.update(architectures=["BertForMaskedLM"])),
        ("config.json", lambda said: said.update(hidden_act="relu")),
        ("config.json", lambda said: said.update(position_embedding_type="relative_key")),
        ("config.json", lambda said: said.update(is_decoder=True)),
        ("config.json", lambda said: said.pop("hidden_size")),
        ("config.json", lambda said: said.update(max_position_embeddings=8)),
        ("sentence_bert_config.json", lambda said: said.update(do_lower_case=True)),
        ("sentence_bert_config.json", lambda said: said.update(max_seq_length=None)),
        ("sentence_bert_config.json", lambda said: said.update(model_args={"dtype": "float16"})),
        ("1_Pooling/config.json", lambda said: said.update(pooling_mode_max_tokens=True)),
        ("1_Pooling/config.json", lambda said: said.update(pooling_mode_mean_tokens=False)),
        ("1_Pooling/config.json", lambda said: said.update(something_new=True)),
        ("modules.json", lambda said: said.append({"idx": 3, "name": "3", "path": "3", "type": "x.Dense"})),
        ("modules.json", lambda said: said.pop()["idx"] and said.pop()),
        ("modules.json", lambda said: said[0].update(path="0_Transformer")),
        ("config_sentence_transformers.json", lambda said: said.update(prompts={"query": "search for: "})),
        ("config_sentence_transformers.json", lambda said: said.update(default_prompt_name="query")),
        ("tokenizer_config.json", lambda said: said.update(tokenizer_class="MPNetTokenizer")),
        ("tokenizer_config.json", lambda said: said.update(do_lower_case=False)),
        ("tokenizer.json", lambda said: said["model"].update(type="BPE")),
        ("tokenizer.json", lambda said: said["normalizer"].update(type="NFC")),
        ("tokenizer.json", lambda said: said["post_processor"]["single"].pop()),
        ("tokenizer.json", lambda said: said.update(post_processor=None)),
    ],
)
def test_a_model_that_says_anything_unusual_is_left_to_sentence_transformers(folder: Path, file: str, change: Change):
    assert bert.read(folder) is not None
    _changed(folder / file, change)
    assert bert.read(folder) is None


@pytest.mark.parametrize("file", ["model.safetensors", "modules.json", "tokenizer.json", "1_Pooling/config.json"])
def test_so_is_a_model_of_which_a_file_is_missing_or_nonsense(folder: Path, file: str):
    (folder / file).write_bytes(b"\xff nonsense")
    if not file.endswith("safetensors"):
        assert bert.read(folder) is None
    (folder / file).unlink()
    assert bert.read(folder) is None


def test_weights_that_are_not_what_the_configuration_says_are_left_to_sentence_transformers(folder: Path):
    from safetensors.torch import load_file, save_file

    shape = bert.read(folder)
    assert shape is not None
    file = folder / bert.WEIGHTS
    weights = load_file(file)
    for changed in (
        {**weights, "embeddings.LayerNorm.weight": weights["embeddings.LayerNorm.weight"][:8].clone()},
        {name: one for name, one in weights.items() if name != "embeddings.LayerNorm.weight"},
        {name: one.half() for name, one in weights.items()},
    ):
        save_file(changed, file, metadata={"format": "pt"})
        for way in (bert_torch, bert_numpy):
            with pytest.raises(ValueError, match=r"(?i)norm|float32"):
                way.load(folder, shape)
        assert backends.load_light(_specified(folder)) is None
    # In half the digits it is a model nevertheless.
    assert not isinstance(backends.load(_specified(folder)), BertModel)


def test_weights_that_are_cut_short_are_told_of(folder: Path):
    file = folder / bert.WEIGHTS
    file.write_bytes(file.read_bytes()[:-1000])
    with pytest.raises(EmbedderUnavailable, match="cannot be loaded"):
        backends.load(_specified(folder))


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\x01",
        b"\xff" * 64,
        b"\x02" + bytes(7) + b"[]",
        b"\x02" + bytes(7) + b"{{",
        b"\x0a" + bytes(7) + b'{"a": {}} ',
        b"\x3a" + bytes(7) + b'{"a": {"dtype": "F32", "shape": [2], "data_offsets": [4]}}',
        b"\x3d" + bytes(7) + b'{"a": {"dtype": "F32", "shape": [2], "data_offsets": [4, 0]}}',
        b"\x3d" + bytes(7) + b'{"a": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}}',
        b"\x3f" + bytes(7) + b'{"a": {"dtype": "F32", "shape": ["x"], "data_offsets": [0, 8]}}',
    ],
)
def test_weights_that_are_none_are_not_taken_for_some(folder: Path, content: bytes):
    shape = bert.read(folder)
    assert shape is not None
    (folder / bert.WEIGHTS).write_bytes(content)
    with pytest.raises(ValueError, match="weights"):
        bert_numpy.load(folder, shape)
    assert backends.load_light(_specified(folder)) is None
    with pytest.raises(EmbedderUnavailable, match="cannot be loaded"):
        Embedder(_specified(folder), EmbedderSettings(), Ledger()).embed_questions(["anything"])


def test_openvino_is_given_the_layers_of_sentence_transformers(folder: Path, monkeypatch: pytest.MonkeyPatch):
    whole: list[Model] = []

    def converted(model: Any, *_: object) -> tuple[Any, int]:
        whole.append(model)
        return model[0].model, 7

    monkeypatch.setattr(backends, "_openvino_layers", converted)
    made = backends.load(_specified(folder)).through_openvino("float32", 1, None)
    assert [type(one).__name__ for one in whole] == ["SentenceTransformer"]
    assert made.num_bytes == 7

    def absent(spec: object) -> Model:
        raise EmbedderUnavailable("Its library is not here.", "")

    monkeypatch.setattr(backends, "load_whole", absent)
    with pytest.raises(BackendRefused, match="not here"):
        backends.load(_specified(folder)).through_openvino("float32", 1, None)
