"""The searchable texts of a turn: the question, then the answer's blocks, or its quotes.

They allow a long conversation to be searched although few turns exist as widgets. The texts have the same matches in
the same order as what is shown, apart from white space around them.
"""

from __future__ import annotations

import re
from functools import cached_property
from html import unescape
from typing import TYPE_CHECKING

from app.models.matches import bare, count_of
from app.widgets.markdown_blocks import Block, blocks_of

if TYPE_CHECKING:
    from app.models.turns import TurnView

# Characters shown; copying, editing and asking use the whole question.
_MOST_SHOWN = 4000
_TAG = re.compile(r"<[^>]*>")
# Spaces that Qt merges.
_SPACES = re.compile(r"[ \t]+")
_SPACES_AND_LINES = re.compile(r"\s+")
_WORDS = re.compile(r"[^\W_]+(?: [^\W_]+)*")
_MARKDOWN = str.maketrans("", "", "*_`~\\")
# Links, character references, and tables, whose rows may have too many cells; and lines that may name the language of
# code.
_HIDES = re.compile(r"\]\(|<[A-Za-z][\w.+-]*[:@]|&#?\w+;|\|[ :]*-|-[ :]*\|")
_FENCES = re.compile(r"^.*(?:```|~~~).*$", re.MULTILINE)


def shown_question(question: str) -> str:
    """Returns the shown part of a question: a long one would be measured and wrapped at each resize step."""
    return question if len(question) <= _MOST_SHOWN else f"{question[:_MOST_SHOWN]}…"


def shown_quote(text: str) -> str:
    return " ".join(text.split())


def is_of_quotes(turn: TurnView) -> bool:
    """Returns whether the quotes are the answer, because there is no model; its text would only repeat them."""
    return turn.state == "finished" and turn.model is None and bool(turn.quotes)


def bare_texts(turn: TurnView) -> list[str]:
    """Returns the texts separately, in `bare` form."""
    if is_of_quotes(turn):
        answer = [shown_quote(quote.text) for quote in turn.quotes]
    else:
        answer = [_text(block) for block in blocks_of(turn.text, len(turn.passages))]
    return [bare(text) for text in (shown_question(turn.question), *answer)]


class TurnTexts:
    """The texts of one turn, made once, and the last count."""

    def __init__(self, turn: TurnView) -> None:
        self.turn = turn
        self._counted = ("", 0)

    def count(self, sought: str) -> int:
        if self._counted[0] != sought:
            found = self._count_unparsed(sought)
            if found is None:
                found = sum(count_of(text, sought) for text in self._parsed)
            self._counted = (sought, found)
        return self._counted[1]

    def _count_unparsed(self, sought: str) -> int | None:
        """Returns the count without parsing, which takes a hundred times as long; None if it may be wrong."""
        longest = max(sought.split(), key=len, default="").translate(_MARKDOWN)
        if bare(longest) not in self._without_marks:
            return 0
        # Marks of lists, headings and citations are not part of words that begin with a letter.
        is_of_words = _WORDS.fullmatch(sought) is not None and sought[0].isalpha()
        if not is_of_words or bare(sought) in self._fences or _HIDES.search(self.turn.text):
            return None
        # The shown text lacks some marks and spaces; the count is right if it is the same with and without all of them.
        found = count_of(self._written, sought)
        return found if found == count_of(self._without_marks, sought) else None

    @cached_property
    def _written(self) -> str:
        turn = self.turn
        answer = [shown_quote(quote.text) for quote in turn.quotes] if is_of_quotes(turn) else [turn.text]
        return "\n".join(map(bare, (shown_question(turn.question), *answer)))

    @cached_property
    def _without_marks(self) -> str:
        # Inline code may continue in the next line, which is shown with a space between.
        spaces = _SPACES_AND_LINES if "`" in self.turn.text else _SPACES
        return spaces.sub(" ", self._written.translate(_MARKDOWN))

    @cached_property
    def _fences(self) -> str:
        return bare("\n".join(_FENCES.findall(self.turn.text)))

    @cached_property
    def _parsed(self) -> list[str]:
        return bare_texts(self.turn)


def _text(block: Block) -> str:
    return block.content if block.kind == "code" else _SPACES.sub(" ", unescape(_TAG.sub("", block.content)))
