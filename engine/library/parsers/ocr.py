"""Recognised text: what a reader of pictures hands over, laid out as a page like any other; pure but for the seam.

The text of a recognised page is made of the words only, so it is the same when the page is shown later, and the words'
positions mark a citation on the picture.
"""

from __future__ import annotations

import itertools
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from engine.errors import DocumentNeedsOcr
from engine.library.parsers.pdf_layout import PageLayout, TextLine, joined
from engine.library.parsers.shapes import Box, Mark, Picture
from engine.library.parsers.text import LIST_MARK

_HOW = {
    "linux": "apt install tesseract-ocr, and tesseract-ocr-deu for German, say",
    "darwin": "brew install tesseract tesseract-lang",
    "win32": "the installer is at github.com/UB-Mannheim/tesseract/wiki",
}.get(sys.platform, "see tesseract-ocr.github.io")
WAY_OUT = f"Install Tesseract with your documents' languages ({_HOW}); they are read at the next look at the folder."
OTHER_LANGUAGE = (
    "If something is written there, see that library.ocr_languages has its language, and have the file indexed again."
)
# In a photograph without text, OCR finds a few characters by mistake.
MIN_CHARACTERS = 20
# A picture that a document shows this often is a logo or an ornament.
MANY_TIMES = 4
# After giving up on so many pictures, OCR stops: the file has had its share of time.
MAX_GIVEN_UP = 3
_MAX_STAMP_CHARACTERS = 200
_MAX_STAMP_LINES = 2
# As a share of the page's height: a title on a picture that fills a slide is larger.
_MAX_STAMP_SIZE = 1 / 40
_HYPHENS = ("-", "\xad", "‐")


@dataclass(frozen=True, slots=True)
class Word:
    """A word and its box, (x0, y0, x1, y1) in fractions of the picture from its top left.

    Words with the same `paragraph` and `line` belong together.
    """

    text: str
    box: Mark
    paragraph: int
    line: int


class Recogniser(Protocol):
    """Reads pictures (`engine.library.parsers.tesseract.Tesseract`)."""

    @property
    def is_ready(self) -> bool:
        """Whether it is installed, with a language to read."""
        ...

    def words(self, picture: Picture) -> tuple[Word, ...] | None:
        """Returns the words in reading order; None if it gave up on the picture."""
        ...

    def recalling(self) -> Recogniser:
        """Returns a recogniser that only returns cached results, and gives up on everything else."""
        ...


def needs_ocr(sentence: str) -> DocumentNeedsOcr:
    return DocumentNeedsOcr(sentence, WAY_OUT)


def is_bare(text: str) -> bool:
    """Returns whether there is so little text that the page is a picture: a scan may have a stamp or a page number."""
    return len("".join(text.split())) < MIN_CHARACTERS


def is_stamp(own: PageLayout, page_height: float) -> bool:
    """Returns whether the text on a picture is so short and small that it may be a stamp ("Page 3, filed today")."""
    return (
        len(own.text) < _MAX_STAMP_CHARACTERS
        and sum(paragraph.num_lines for paragraph in own.paragraphs) <= _MAX_STAMP_LINES
        and all(paragraph.size <= page_height * _MAX_STAMP_SIZE for paragraph in own.paragraphs)
    )


def given_up(num_pages: int, num_all: int) -> str:
    """Returns the remark on pages on which OCR gave up; "" if there are none."""
    return f"OCR gave up on {num_pages} of its {num_all} pages." if num_pages else ""


def given_up_on(num_pictures: int) -> str:
    """Returns the remark on pictures among text on which OCR gave up; "" if there are none."""
    pictures = "a picture" if num_pictures == 1 else f"{num_pictures} pictures"
    return f"OCR gave up on {pictures} in it." if num_pictures else ""


def marks(words: Sequence[Word], start: int, end: int) -> list[Mark]:
    """Returns the boxes of the words in a span of the recognised text."""
    span = laid_out(words).characters(start, end)
    return [word.box for word in words[span[0] : span[0] + span[1]]] if span else []


def laid_out(words: Sequence[Word]) -> PageLayout:
    """Lays the words out as a page; `PageLayout.indices` count words. Sizes are 0: boxes say too little about fonts."""
    layout = joined([*_groups(words)])
    return replace(layout, paragraphs=tuple(replace(paragraph, size=0.0) for paragraph in layout.paragraphs))


def _groups(words: Sequence[Word]) -> Iterator[list[TextLine]]:
    for _, group in itertools.groupby(enumerate(words), lambda entry: entry[1].paragraph):
        lines = [_line([*line]) for _, line in itertools.groupby(group, lambda entry: entry[1].line)]
        start = 0
        for index, line in enumerate(lines):
            if index > start and LIST_MARK.match(line.text):
                yield lines[start:index]
                start = index
        yield lines[start:]


def _line(words: Sequence[tuple[int, Word]]) -> TextLine:
    letters: list[str] = []
    indices: list[int] = []
    for index, word in words:
        if letters:
            letters.append(" ")
            indices.append(-1)
        letters += word.text
        indices += [index] * len(word.text)
    is_hyphenated = len(letters) > 1 and letters[-1] in _HYPHENS and letters[-2].isalpha()
    if is_hyphenated:
        letters.pop()
        indices.pop()
    return TextLine("".join(letters), indices, Box(0.0, 0.0, 0.0, 0.0), 0.0, is_hyphenated)
