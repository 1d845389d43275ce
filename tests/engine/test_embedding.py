"""Tests for engine.embedding, and for what an engine makes of it, with embedding models of our own."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import CancelledError
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from engine.config import EmbedderSettings
from engine.embedder import resolve
from engine.embedding import Embedding, EmbeddingModel
from engine.engine import Engine
from engine.errors import EmbedderUnavailable, RagdollError
from engine.giving_way import GivingWay

PATIENCE_S = 20.0


class Embedder:
    """Its vectors say how long a text is; it waits until it may `go_on`."""

    spec, identity = SimpleNamespace(name="tiny"), "tiny@1"

    def __init__(self) -> None:
        self.asked: list[tuple[str, ...]] = []
        self.began, self.go_on = threading.Event(), threading.Event()
        self.go_on.set()

    def embed_whole(self, texts: Sequence[str]) -> np.ndarray:
        self.asked.append(tuple(texts))
        self.began.set()
        assert self.go_on.wait(PATIENCE_S)
        return np.array([[len(text)] for text in texts], np.float32)

    def lengths(self, texts: Sequence[str]) -> list[int]:
        return [len(text) for text in texts]


@pytest.fixture
def embedder() -> Embedder:
    return Embedder()


@pytest.fixture
def embedding(embedder: Embedder) -> Iterator[Embedding]:
    embedding = Embedding(lambda: SimpleNamespace(embedder=embedder))  # type: ignore[arg-type,return-value]
    yield embedding
    embedder.go_on.set()
    embedding.stop()


def test_vectors_come_with_what_they_took_and_the_model_that_made_them(embedding: Embedding):
    embedded = embedding.embed(["one", "three"]).result(PATIENCE_S)
    assert embedded.vectors.tolist() == [[3.0], [5.0]]
    assert (embedded.num_tokens, embedded.model, embedded.model_identity) == (8, "tiny", "tiny@1")


def test_what_nobody_waits_for_any_more_is_not_made(embedding: Embedding, embedder: Embedder):
    embedder.go_on.clear()
    first = embedding.embed(["one"])
    left = embedding.embed(["two"])
    last = embedding.embed(["three"])
    assert embedder.began.wait(PATIENCE_S)
    assert left.cancel()
    embedder.go_on.set()
    assert first.result(PATIENCE_S).num_tokens == 3
    assert last.result(PATIENCE_S).num_tokens == 5
    assert embedder.asked == [("one",), ("three",)]


def test_at_the_end_what_is_being_made_is_finished_and_nothing_else_is(embedding: Embedding, embedder: Embedder):
    embedder.go_on.clear()
    first, waiting = embedding.embed(["one"]), embedding.embed(["two"])
    assert embedder.began.wait(PATIENCE_S)
    stopping = threading.Thread(target=embedding.stop)
    stopping.start()
    with pytest.raises(CancelledError):
        waiting.result(PATIENCE_S)
    embedder.go_on.set()
    stopping.join(PATIENCE_S)
    assert first.done()
    with pytest.raises(RagdollError, match="closing"):
        embedding.embed(["three"])
    assert embedder.asked == [("one",)]


def test_why_there_is_no_vector_is_told():
    def gone() -> object:
        raise EmbedderUnavailable("It is gone.")

    embedding = Embedding(gone)  # type: ignore[arg-type]
    with pytest.raises(EmbedderUnavailable, match="gone"):
        embedding.embed(["one"]).result(PATIENCE_S)
    embedding.stop()


# --- of an engine ---


def test_an_engine_embeds_texts_as_it_embeds_documents(tmp_path: Path):
    spec = resolve(EmbedderSettings())
    with Engine.open(tmp_path / "home") as engine:
        assert engine.embedding_model() == EmbeddingModel(spec.name, spec.dimensions)
        assert not (tmp_path / "home" / "library" / "lancedb").exists(), "it is told without opening anything"
        embedded = engine.embed(["Rent is due.", "Rent \ud800 is due."]).result(PATIENCE_S)
        assert (embedded.model, embedded.model_identity) == (spec.name, spec.identity)
        embedder = engine._parts.stores().embedder
        np.testing.assert_allclose(embedded.vectors[:1], embedder.embed_documents(["Rent is due."]), atol=1e-5)
        assert engine.embedding_model() == EmbeddingModel(spec.name, spec.dimensions)


def test_each_batch_of_them_gives_way_as_those_of_documents_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    batches: list[threading.Thread] = []
    batch = GivingWay.batch

    def counted(giving_way: GivingWay) -> object:
        batches.append(threading.current_thread())
        return batch(giving_way)

    monkeypatch.setattr(GivingWay, "batch", counted)
    with Engine.open(tmp_path / "home") as engine:
        engine.embed(["Rent is due."]).result(PATIENCE_S)
        assert len(batches) == 1


def test_without_a_model_an_engine_names_none(tmp_path: Path):
    with Engine.open(tmp_path / "home") as engine:
        with pytest.raises(EmbedderUnavailable):
            engine.change_settings({"embedder.model": "/nowhere"})
        engine._settings.assume({"embedder.model": "/nowhere"})
        assert engine.embedding_model() is None
        with pytest.raises(EmbedderUnavailable):
            engine.embed(["Rent is due."]).result(PATIENCE_S)
