"""The catalogue: the truth about collections, folders and documents, in one SQLite file."""

from __future__ import annotations

from engine.catalog.catalog import Catalog
from engine.catalog.reader import CatalogReader, Root

__all__ = ["Catalog", "CatalogReader", "Root"]
