"""What of a turn can be looked for, as plain texts: the question, then the answer's blocks, or its quotes.

So that a long conversation can be searched of which few turns exist as widgets. The texts have the same matches in the
same order as what is shown, which has other white space around them.
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

# Characters; all of it is copied, edited and asked.
_MOST_SHOWN = 4000
_TAG = re.compile(r"<[^>]*>")
# Those that Qt makes one of.
_SPACES = re.compile(r"[ \t]+")
_SPACES_AND_LINES = re.compile(r"\s+")
_WORDS = re.compile(r"[^\W_]+(?: [^\W_]+)*")
_MARKDOWN = str.maketrans("", "", "*_`~\\")
# Links, letters that are written as others, and tables, of which rows may have cells too many; and lines that may say
# which language code is in.
_HIDES = re.compile(r"\]\(|<[A-Za-z][\w.+-]*[:@]|&#?\w+;|\|[ :]*-|-[ :]*\|")
_FENCES = re.compile(r"^.*(?:```|~~~).*$", re.MULTILINE)


def shown_question(question: str) -> str:
    """A log that was pasted would be measured and wrapped at each step of a window that is resized."""
    return question if len(question) <= _MOST_SHOWN else f"{question[:_MOST_SHOWN]}…"


def shown_quote(text: str) -> str:
    return " ".join(text.split())


def is_of_quotes(turn: TurnView) -> bool:
    """Without a model the quotes are the answer; its text would say the same again."""
    return turn.state == "finished" and turn.model is None and bool(turn.quotes)


def bare_texts(turn: TurnView) -> list[str]:
    """The texts, bare, each by itself."""
    if is_of_quotes(turn):
        answer = [shown_quote(quote.text) for quote in turn.quotes]
    else:
        answer = [_text(block) for block in blocks_of(turn.text, len(turn.passages))]
    return [bare(text) for text in (shown_question(turn.question), *answer)]


class TurnTexts:
    """The texts of one turn, made once, and how often they hold what was counted last."""

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
        """How often it holds that, where parsing would find no more and no less; that takes a hundred times as long."""
        longest = max(sought.split(), key=len, default="").translate(_MARKDOWN)
        if bare(longest) not in self._without_marks:
            return 0
        # Marks of lists, of headings and of citations are no part of words that begin with a letter.
        is_of_words = _WORDS.fullmatch(sought) is not None and sought[0].isalpha()
        if not is_of_words or bare(sought) in self._fences or _HIDES.search(self.turn.text):
            return None
        # What is shown lacks some of the marks and spaces, so that it holds as much where all and none of them do.
        found = count_of(self._written, sought)
        return found if found == count_of(self._without_marks, sought) else None

    @cached_property
    def _written(self) -> str:
        turn = self.turn
        answer = [shown_quote(quote.text) for quote in turn.quotes] if is_of_quotes(turn) else [turn.text]
        return "\n".join(map(bare, (shown_question(turn.question), *answer)))

    @cached_property
    def _without_marks(self) -> str:
        # Code within a line may go on in the next one, with a space between.
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
