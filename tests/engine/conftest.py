"""The real embedder, loaded once for all tests of the engine where meaning matters."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from engine.config import EmbedderSettings
from engine.embedder import Embedder, resolve
from engine.memory.ledger import Ledger


@pytest.fixture(scope="session")
def minilm() -> Iterator[Embedder]:
    embedder = Embedder(resolve(EmbedderSettings()), EmbedderSettings(), Ledger())
    embedder.load()
    yield embedder
    embedder.unload()
