"""Tests for engine.retrieval.kinds."""

from __future__ import annotations

import pytest

from engine.errors import BadRequest
from engine.library.parsers.sniff import FAMILY_OF_ENDING
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
        (["toml", "tsx", ".Rmd", "rst"], ("code", "markdown", "rst")),
        (["yml", "geojson", "log"], ("yaml", "json", "text")),
        (["docm", "xlsb"], ("docx", "xlsx")),
        (["odg"], ("odg",)),
        ([], ()),
    ],
)
def test_words_for_types_become_formats(words: list[str], formats: tuple[str, ...]):
    assert formats_named(words, FAMILY_OF_ENDING) == formats


def test_every_ending_that_tells_how_a_text_is_read_is_a_type():
    families = {formats_named([ending], FAMILY_OF_ENDING)[0] for ending in FAMILY_OF_ENDING}
    assert {"code", "yaml", "json", "xml", "rst", "org", "tex", "table", "markdown", "html", "mail"} <= families
    assert not {"ipynb", "json_lines", "lines"} & families


@pytest.mark.parametrize("word", ["pfd", "", "exe"])
def test_what_is_no_type_is_refused_with_those_that_are(word: str):
    with pytest.raises(BadRequest, match="no file type") as refused:
        formats_named(["pdf", word], FAMILY_OF_ENDING)
    assert "spreadsheets" in refused.value.way_out
