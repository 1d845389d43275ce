"""Tests for engine.retrieval.kinds."""

from __future__ import annotations

import pytest

from engine.retrieval.kinds import FORMATS_OF_KIND, formats_named


@pytest.mark.parametrize(
    ("words", "formats"),
    [
        (["pdf"], ("pdf",)),
        ([".PDF", "PDFs"], ("pdf",)),
        (["spreadsheet"], FORMATS_OF_KIND["spreadsheets"]),
        (["slides", "docx"], (*FORMATS_OF_KIND["presentations"], "docx")),
        (["md", "txt"], ("markdown", "text")),
        (["code"], ("code",)),
        (["csv", "TSV"], ("table",)),
        (["eml", "msg"], ("mail",)),
        (["mbox"], ("mailbox", "mail")),
        (["ipynb", "py"], ("notebook", "code")),
        (["word"], ("docx", "doc", "odt", "rtf")),
        ([], ()),
    ],
)
def test_words_for_types_become_formats(words: list[str], formats: tuple[str, ...]):
    assert formats_named(words) == formats
