"""Fixtures of the parser tests."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from engine.core import ParsedDocument
from engine.library.parsers import families
from engine.library.parsers.limits import Limits
from tests.helpers.parsing import check


@pytest.fixture
def parsed(tmp_path: Path) -> Callable[..., ParsedDocument]:
    """Writes a file of that name and content, parses it, and checks what must hold for every document."""

    def parse(name: str, content: bytes | str, limits: Limits = Limits()) -> ParsedDocument:  # noqa: B008 - frozen
        path = tmp_path / name
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        document = families.parse(path, limits)
        check(document)
        return document

    return parse
