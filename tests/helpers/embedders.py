"""Embedding models of no size that the real stores can open: vectors by hash, whatever name the settings give."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from engine.config import EmbedderSettings
from engine.embedder import EmbedderSpec
from tests.helpers.library import DIMENSIONS, FakeEmbedder


class LoadedEmbedder(FakeEmbedder):
    """What the opener asks of an embedder besides; model "b" turns its vectors round."""

    description, place, movable_bytes, weights_name = "by hash", "memory", 0, "none"

    def __init__(self, spec: EmbedderSpec, *_: object, **__: object) -> None:
        super().__init__(identity=spec.identity)
        self.spec, self.dimensions = spec, spec.dimensions
        self.is_unloaded = False

    def embed_documents(self, texts: object) -> np.ndarray:
        vectors = super().embed_documents(texts)  # type: ignore[arg-type]
        return -vectors if self.identity.startswith("b") else vectors

    def unload(self) -> None:
        self.is_unloaded = True


def resolved(settings: EmbedderSettings) -> EmbedderSpec:
    """Every model is there, and called as the settings call it."""
    return EmbedderSpec(settings.model, f"{settings.model}@1", Path(), DIMENSIONS, None, False)
