"""A reader of pictures for tests: it says what it is told to, and remembers what it was shown."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from engine.library.parsers.ocr import Word
from engine.library.parsers.shapes import Picture


def words(*paragraphs: str) -> tuple[Word, ...]:
    """The words of these paragraphs, line by line, each word a tenth of the picture wide."""
    found: list[Word] = []
    top = 0.1
    for number, paragraph in enumerate(paragraphs):
        for line, text in enumerate(paragraph.split("\n")):
            for place, word in enumerate(text.split()):
                left = 0.1 + 0.1 * place
                found.append(Word(word, (left, top, left + 0.09, top + 0.02), number, line))
            top += 0.03
    return tuple(found)


@dataclass
class FakeRecogniser:
    """Gives one page after another; None is a page on which it gives up."""

    pages: Sequence[tuple[Word, ...] | None] = ()
    is_ready: bool = True
    seen: list[Picture] = field(default_factory=list)

    def recalling(self) -> FakeRecogniser:
        return self

    def words(self, picture: Picture) -> tuple[Word, ...] | None:
        self.seen.append(picture)
        return self.pages[(len(self.seen) - 1) % len(self.pages)]
