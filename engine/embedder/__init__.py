"""The embedder: text in, unit vectors out, for documents and questions alike.

What it is (`EmbedderSpec`) is known without importing torch; that it runs (`Embedder`) is not.
"""

from __future__ import annotations

from engine.embedder.model import Embedder
from engine.embedder.spec import EmbedderSpec, resolve

__all__ = ["Embedder", "EmbedderSpec", "resolve"]
