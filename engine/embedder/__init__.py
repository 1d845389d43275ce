"""The embedder: text in, unit vectors out, for documents and questions alike.

Its description (`EmbedderSpec`) can be read without importing torch; running it (`Embedder`) may need torch.
"""

from __future__ import annotations

from engine.embedder.model import Embedder
from engine.embedder.spec import EmbedderSpec, resolve

__all__ = ["Embedder", "EmbedderSpec", "resolve"]
