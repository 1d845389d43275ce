"""Tests for engine.embedder.prompts, with models that lie on the computer and do not say what they want."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from engine.config import EmbedderSettings
from engine.embedder import Embedder, EmbedderSpec, resolve
from engine.embedder.spec import as_indexed
from engine.memory.ledger import Ledger
from tests.helpers.small_embedder import write_small_model
from tests.helpers.tiny_embedder import write_tiny_embedder

E5 = {"query": "query: ", "document": "passage: "}
OF_RESULTS = (
    "---\ntags:\n- mteb\nmodel-index:\n- name: {}\n  results:\n  - task:\n      type: retrieval\n---\n# A model\n"
)


def spec_of(folder: Path) -> EmbedderSpec:
    return resolve(EmbedderSettings(model=str(folder)))


def has_card(folder: Path, card: str) -> None:
    (folder / "README.md").write_text(card, encoding="utf-8")


def says(folder: Path, file: str, **more: object) -> None:
    said = json.loads((folder / file).read_text(encoding="utf-8")) if (folder / file).is_file() else {}
    (folder / file).write_text(json.dumps({**said, **more}), encoding="utf-8")


@pytest.mark.parametrize("name", ["multilingual-e5-small", "e5-base-v2", "E5-Large"])
def test_a_model_is_known_by_the_name_of_its_folder(tmp_path: Path, name: str):
    assert spec_of(write_small_model(tmp_path / name)).prompts == E5


def test_a_model_is_known_by_what_its_card_tells_results_of(tmp_path: Path):
    folder = write_small_model(tmp_path / "mine")
    assert spec_of(folder).prompts == {}
    has_card(folder, OF_RESULTS.format("multilingual-e5-base"))
    assert spec_of(folder).prompts == E5


def test_a_model_is_known_by_the_name_that_it_was_loaded_by(tmp_path: Path):
    folder = write_small_model(tmp_path / "mine")
    says(folder, "config.json", _name_or_path="intfloat/multilingual-e5-large")
    assert spec_of(folder).prompts == E5


def test_a_model_is_known_in_the_cache_of_hugging_face(tmp_path: Path):
    folder = write_small_model(tmp_path / "models--intfloat--multilingual-e5-small" / "snapshots" / "0123abcd")
    assert spec_of(folder).prompts == E5
    checkpoint = write_small_model(tmp_path / "multilingual-e5-small" / "checkpoints" / "100")
    assert spec_of(checkpoint).prompts == {}


@pytest.mark.parametrize(
    "card",
    [
        OF_RESULTS.format("multilingual-e5-small-ko"),
        "---\nbase_model: intfloat/multilingual-e5-small\n---\n",
        "---\nbase_model:\n- intfloat/multilingual-e5-small\n---\n",
    ],
)
def test_a_model_that_was_trained_further_is_another(tmp_path: Path, card: str):
    folder = write_small_model(tmp_path / "multilingual-e5-small")
    has_card(folder, card)
    assert spec_of(folder).prompts == {}


@pytest.mark.parametrize(
    ("name", "beginning"),
    [
        ("bge-small-en-v1.5", "Represent this sentence"),
        ("bge-large-en", "Represent this sentence"),
        ("UAE-Large-V1", "Represent this sentence"),
        ("bge-base-zh-v1.5", "为这个句子"),
        ("multilingual-e5-large-instruct", "Instruct: "),
    ],
)
def test_some_want_an_instruction_before_questions_alone(tmp_path: Path, name: str, beginning: str):
    prompts = spec_of(write_small_model(tmp_path / name)).prompts
    assert prompts["query"].startswith(beginning)
    assert prompts["document"] == ""


@pytest.mark.parametrize("name", ["bge-m3", "bge-small-en-of-mine", "e5-small-of-mine", "e5-mistral-7b-instruct"])
def test_others_are_given_nothing(tmp_path: Path, name: str):
    assert spec_of(write_small_model(tmp_path / name)).prompts == {}


def test_prompts_that_the_files_say_are_theirs_and_empty_ones_are_none(tmp_path: Path):
    folder = write_small_model(tmp_path / "multilingual-e5-small")
    says(folder, "config_sentence_transformers.json", prompts={"query": "", "document": ""})
    assert spec_of(folder).prompts == E5
    says(folder, "config_sentence_transformers.json", prompts={"query": "ask: ", "document": ""})
    assert spec_of(folder).prompts == {}


def test_a_prompt_of_questions_is_taken_by_the_other_names_that_some_files_have_for_it(tmp_path: Path):
    folder = write_small_model(tmp_path / "mine")
    says(
        folder, "config_sentence_transformers.json", prompts={"web_search_query": "Instruct: search", "sts_query": "x"}
    )
    assert spec_of(folder).prompts == {"query": "Instruct: search", "document": ""}
    says(
        folder, "config_sentence_transformers.json", prompts={"web_search_query": "Instruct: search", "query": "ask: "}
    )
    assert spec_of(folder).prompts == {}


def test_prompts_that_are_none_keep_nobody_from_reading_what_else_is_said(tmp_path: Path):
    folder = write_small_model(tmp_path / "mine")
    says(folder, "config_sentence_transformers.json", prompts=["ask: "])
    assert spec_of(folder).prompts == {}


def test_vectors_that_are_made_with_prompts_are_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    folder = write_small_model(tmp_path / "multilingual-e5-small")
    spec = spec_of(folder)
    with monkeypatch.context() as before:
        before.setattr("engine.embedder.spec.unsaid", lambda *_: {})
        bare = spec_of(folder)
    assert spec.identity != bare.identity
    assert as_indexed(spec, spec.identity) == spec
    assert as_indexed(spec, bare.identity) == bare
    assert as_indexed(spec, "multilingual-e5-small@0") is None
    assert as_indexed(bare, spec.identity) is None


def test_passages_stay_what_they_are_where_questions_alone_want_a_prompt(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    folder = write_small_model(tmp_path / "bge-small-en-v1.5")
    spec = spec_of(folder)
    with monkeypatch.context() as before:
        before.setattr("engine.embedder.spec.unsaid", lambda *_: {})
        bare = spec_of(folder)
    # So nothing is embedded anew, and what lies in libraries is asked with the prompt from now on.
    assert spec.identity == bare.identity
    assert as_indexed(spec, bare.identity) == spec


def test_a_prompt_of_questions_alone_is_put_before_them_alone(tmp_path: Path):
    bare, spec = (spec_of(write_tiny_embedder(tmp_path / name)) for name in ("plain", "bge-small-en-v1.5"))
    exact = EmbedderSettings(num_threads=1, number_format="float32")
    embedder, plain = (Embedder(one, exact, Ledger()) for one in (spec, bare))
    words = "the notice period"
    [asked], [passage] = embedder.embed_questions([words]), embedder.embed_documents([words])
    [as_asked], [as_passage] = (plain.embed_documents([f"{before}{words}"]) for before in (spec.prompts["query"], ""))
    assert np.abs(asked - as_asked).max() < 1e-4
    assert np.abs(passage - as_passage).max() < 1e-4
    assert "passages:” before questions, and is given that" in embedder.description
    embedder.unload()
    plain.unload()


def test_texts_are_embedded_with_what_is_wanted_before_them_and_that_is_told(tmp_path: Path):
    bare, spec = (spec_of(write_tiny_embedder(tmp_path / name)) for name in ("plain", "multilingual-e5-small"))
    # Texts of other lengths are computed in other ways, which only exact numbers make the same.
    exact = EmbedderSettings(num_threads=1, number_format="float32")
    embedder, plain = (Embedder(one, exact, Ledger()) for one in (spec, bare))
    words = "the notice period"
    [asked], [passage] = embedder.embed_questions([words]), embedder.embed_documents([words])
    [as_asked], [as_passage] = (plain.embed_documents([f"{before}: {words}"]) for before in ("query", "passage"))
    assert np.abs(asked - as_asked).max() < 1e-4
    assert np.abs(passage - as_passage).max() < 1e-4
    assert "wants “query:” before questions and “passage:” before passages" in embedder.description
    assert "before questions" not in plain.description
    embedder.unload()
    plain.unload()


def test_a_model_that_is_given_prompts_is_no_plain_one(tmp_path: Path):
    embedder = Embedder(spec_of(write_tiny_embedder(tmp_path / "e5-small")), EmbedderSettings(), Ledger())
    embedder.load()
    assert embedder.setup is not None
    assert embedder.setup.backend != "numpy"
    embedder.unload()


@pytest.mark.parametrize("name", ["document", "passage", "corpus"])
def test_what_files_say_of_passages_is_left_as_it_is(tmp_path: Path, name: str):
    folder = write_small_model(tmp_path / "mine")
    says(folder, "config_sentence_transformers.json", prompts={"s2p_query": "Q: ", name: "passage: "})
    assert spec_of(folder).prompts == {}
