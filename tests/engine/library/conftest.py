"""Fixtures of the library's tests."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from engine.library import identities
from tests.helpers.indexing import SmallLibrary


@pytest.fixture
def library(tmp_path: Path) -> Iterator[SmallLibrary]:
    """An empty library whose catalogue and table agree when the test is over."""
    small = SmallLibrary(tmp_path / "docs", tmp_path / "home")
    yield small
    small.check()
    small.catalog.close()


@pytest.fixture(params=["told", "not told"])
def tells_when(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> bool:
    """Whether the file system tells when something was made."""
    made = (lambda path: os.lstat(path).st_ino + 10**18) if request.param == "told" else lambda path: 0
    monkeypatch.setattr(identities, "made_at_ns", made)
    return bool(request.param == "told")
