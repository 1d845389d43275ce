"""Data folders for processes that embed: they know already how the embedding model runs best on this machine."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

from engine.config import EmbedderSettings, Home
from engine.embedder import Embedder, resolve
from engine.memory.ledger import Ledger

NewHome = Callable[[Path], Path]


def run_self_test(cache: Path) -> None:
    """Leaves in `cache` what a first start finds out, in three seconds of all cores."""
    embedder = Embedder(resolve(EmbedderSettings()), EmbedderSettings(), Ledger(), cache=cache)
    embedder.load()
    embedder.unload()


def home_that_knows(cache: Path, folder: Path) -> Path:
    """`folder` as somebody has it who started Ragdoll before; a busy machine's self-test leaves nothing to know."""
    if cache.exists():
        shutil.copytree(cache, Home.under(folder).cache)
    return folder
