"""Tests for engine.embedder on a card that torch can use: CUDA's, if torch was built for it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from engine.config import EmbedderSettings
from engine.embedder import Embedder, backends, resolve
from engine.memory.devices import torch_held_bytes
from engine.memory.ledger import Ledger
from tests.helpers.tiny_embedder import write_tiny_embedder

TEXTS = [f"Passage {number} of {'quite ' * (number % 7)}a document." for number in range(200)]
# A card adds in another order, and may keep fewer digits of products.
ALIKE = 0.999


@pytest.fixture
def embedder(tmp_path: Path) -> Iterator[Embedder]:
    """Computed by torch, as documents are."""
    pytest.importorskip("torch")
    if not backends.has_card():
        pytest.skip("torch sees no card here")
    settings = EmbedderSettings(model=str(write_tiny_embedder(tmp_path / "tiny")), backend="sentence-transformers")
    ledger = Ledger()
    found = Embedder(resolve(settings), settings, ledger)
    found.load()
    yield found
    found.unload()
    assert ledger.spans() == ()


def test_it_computes_on_a_card_what_it_does_in_memory_and_comes_back(embedder: Embedder):
    documents, question = embedder.embed_documents(TEXTS), embedder.embed_questions(["What is quite a document?"])
    assert embedder.movable_bytes > 0
    embedder.move("card")
    assert embedder.place == "card"
    there = embedder.embed_documents(TEXTS)
    assert np.sum(there * documents, axis=1).min() > ALIKE
    assert np.sum(embedder.embed_questions(["What is quite a document?", "More"])[:1] * question) > ALIKE
    embedder._ledger.look()
    assert embedder._ledger.held_bytes("gpu", "embedder") == torch_held_bytes() > 0
    embedder.move("memory")
    embedder._ledger.look()
    assert embedder._ledger.held_bytes("gpu", "embedder") == 0
    np.testing.assert_allclose(embedder.embed_documents(TEXTS), documents, atol=1e-5)
