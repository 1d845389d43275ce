"""Tests for engine.library.places, and for the places of chunks."""

from __future__ import annotations

from engine.core import Block, ParsedDocument, ParsedPage
from engine.library.chunker import chunk
from engine.library.parsers.text import by_lines, paragraphs
from engine.library.places import Places


def sheet(place: str = "sheet “Budget”", word: str = "") -> ParsedPage:
    text = "north | 1\nsouth | 2\nwest | 3"
    rows = (Block("table_row", 0, 9, line=4), Block("table_row", 10, 19, line=7), Block("table_row", 20, 28, line=8))
    return ParsedPage(2, text, rows, place, word)


def place(page: ParsedPage, start: int, end: int, word: str = "row") -> str:
    return Places(ParsedDocument("xlsx", "", (page,), word), page).place(start, end)


def test_a_span_of_rows_is_named_with_its_sheet():
    assert place(sheet(), 0, 28) == "sheet “Budget”, rows 4–8"
    assert place(sheet(), 10, 19) == "sheet “Budget”, row 7"
    # Even when it is a part of a row only.
    assert place(sheet(), 15, 28) == "sheet “Budget”, rows 7–8"


def test_a_page_without_a_name_is_named_by_its_number():
    assert place(ParsedPage(3, "Text.", (Block("paragraph", 0, 5),)), 0, 5, "") == "page 3"
    assert place(sheet(""), 0, 9) == "page 2, row 4"


def test_a_document_without_places_names_none():
    page = ParsedPage(None, "Text.", (Block("paragraph", 0, 5),))
    assert place(page, 0, 5, "") == ""
    assert place(page, 0, 5, "line") == ""


def test_a_page_may_count_something_else_than_its_document():
    assert place(sheet(word="row"), 0, 9, "") == "sheet “Budget”, row 4"
    assert place(sheet(word="row"), 0, 9, "line") == "sheet “Budget”, row 4"


def test_a_span_inside_a_long_block_is_named_by_its_own_lines():
    text = "\n\nfirst\nsecond\nthird\n\nlast"
    document = by_lines("text", text, paragraphs(text))
    places = Places(document, document.pages[0])
    assert [places.place(block.start, block.end) for block in document.pages[0].blocks] == ["lines 3–5", "line 7"]
    start = text.index("second")
    assert places.place(start, start + len("second\n")) == "line 4"
    assert places.place(start, len(text)) == "lines 4–7"


class Counted(str):
    """A text that remembers through how many of its characters lines were counted."""

    num_read = 0

    def count(self, sign: str, start: int = 0, end: int | None = None) -> int:
        end = len(self) if end is None else end
        self.num_read += max(0, end - start)
        return super().count(sign, start, end)


def test_the_lines_of_a_long_block_are_counted_a_few_times_however_many_chunks_it_has():
    text = Counted("".join(f"Entry {number} of a log without blank lines.\n" for number in range(5000)))
    page = ParsedPage(None, text, (Block("paragraph", 0, len(text), line=1),))
    places = Places(ParsedDocument("text", "", (page,), "line"), page)
    for start in range(0, len(text) - 1000, 800):
        first, last = (int(number) for number in places.place(start, start + 1000).removeprefix("lines ").split("–"))
        assert (first, last) == (str(text)[:start].count("\n") + 1, str(text)[: start + 999].count("\n") + 1)
    assert text.num_read < 3 * len(text)


def test_chunks_carry_the_places_of_what_they_repeat_and_hold():
    text = "\n".join(f"Line {number} says some words more than the last. It ends." for number in range(1, 41))
    document = by_lines("text", text, paragraphs(text))
    chunks = chunk(document, lambda said: len(said.split()), 60, 12)
    lines = text.split("\n")
    assert len(chunks) > 5
    for one in chunks:
        first, last = (int(number) for number in one.place.removeprefix("lines ").split("–"))
        assert one.text in "\n".join(lines[first - 1 : last])
        assert one.text not in "\n".join(lines[first:last])
        assert one.text not in "\n".join(lines[first - 1 : last - 1])
