"""The catalogue: the truth about collections, folders and documents, in one SQLite file."""

from __future__ import annotations

from engine.catalog.catalog import Catalog
from engine.catalog.folders import GONE_AT_ONCE, KEPT, LinkedFolder
from engine.catalog.indices import VectorTable
from engine.catalog.reader import CatalogReader, Root

__all__ = ["GONE_AT_ONCE", "KEPT", "Catalog", "CatalogReader", "LinkedFolder", "Root", "VectorTable"]
