"""Fixtures of the library's tests."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.helpers.indexing import SmallLibrary


@pytest.fixture
def library(tmp_path: Path) -> Iterator[SmallLibrary]:
    """An empty library whose catalogue and table agree when the test is over."""
    small = SmallLibrary(tmp_path / "docs", tmp_path / "home")
    yield small
    small.check()
    small.catalog.close()
