"""An engine without anything, and the real embedder, loaded once for all tests of the engine where meaning matters."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from engine.config import EmbedderSettings
from engine.embedder import Embedder, resolve
from engine.memory.ledger import Ledger

if TYPE_CHECKING:
    from engine.engine import Engine


@pytest.fixture(scope="session")
def minilm() -> Iterator[Embedder]:
    embedder = Embedder(resolve(EmbedderSettings()), EmbedderSettings(), Ledger())
    embedder.load()
    yield embedder
    embedder.unload()


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[Engine]:
    # Seconds that tests of its parts have no use for.
    from engine.engine import Engine

    with Engine.open(tmp_path / "home") as engine:
        yield engine
