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
_MARKDOWN = str.maketrans("", "", "*_`~\\")


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
            found = sum(count_of(text, sought) for text in self._parsed) if self._may_hold(sought) else 0
            self._counted = (sought, found)
        return self._counted[1]

    def _may_hold(self, sought: str) -> bool:
        """False where there can be no match, without parsing anything."""
        longest = max(sought.split(), key=len, default="").translate(_MARKDOWN)
        return bare(longest) in self._unparsed

    @cached_property
    def _unparsed(self) -> str:
        texts = (self.turn.question, self.turn.text, *(quote.text for quote in self.turn.quotes))
        return "\n".join(bare(text.translate(_MARKDOWN)) for text in texts)

    @cached_property
    def _parsed(self) -> list[str]:
        return bare_texts(self.turn)


def _text(block: Block) -> str:
    return block.content if block.kind == "code" else _SPACES.sub(" ", unescape(_TAG.sub("", block.content)))
