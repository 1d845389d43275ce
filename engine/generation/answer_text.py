"""The text of an answer as the user sees it while it is written: in one piece, with the citation numbers of the chat.

An answer that is given more passages is written in pieces, each of which may cite what had been read before it. Text
that was shown never changes, whatever passages come later.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from engine.core import Citation
from engine.generation.citations import NOTHING, Recalled, Renumbering, citations_among


@dataclass(slots=True)
class _Piece:
    """A piece of the answer; `start` is where it begins in the whole text, None until it has a character."""

    numbers: Mapping[int, int]
    stream: Renumbering
    start: int | None = None
    written: str = ""


class AnswerText:
    """The text of one answer; it is fed with what the model writes and returns what is new to show."""

    def __init__(self, numbers: Mapping[int, int], recalled: Recalled = NOTHING) -> None:
        """Starts empty; `numbers` maps the passage numbers that the model knows to places in the evidence."""
        self._recalled = recalled
        self._pieces = [_Piece(numbers, Renumbering(numbers, recalled))]
        self.text = ""

    @property
    def written(self) -> tuple[str, ...]:
        """The pieces as the model wrote them."""
        return tuple(piece.written for piece in self._pieces)

    def go_on_behind(self, texts: Sequence[str]) -> None:
        """Takes over the pieces of the unfinished answer that is continued."""
        for place, text in enumerate(texts):
            if place:
                self.go_on(self._pieces[-1].numbers)
            self.feed(text)

    def feed(self, text: str) -> str:
        piece = self._pieces[-1]
        piece.written += text
        return self._told(piece.stream.feed(text))

    def finish(self) -> str:
        """Returns what was held back because it could still have become a citation."""
        return self._told(self._pieces[-1].stream.finish())

    def go_on(self, numbers: Mapping[int, int]) -> str:
        """Begins a piece in which more passages can be cited; returns the held-back end of the previous piece."""
        rest = self.finish()
        self._pieces.append(_Piece(numbers, Renumbering(numbers, self._recalled)))
        return rest

    def citations(self) -> tuple[Citation, ...]:
        """Returns the citations of the whole finished text; each piece cites only what had been read before it."""
        ends = [piece.start for piece in self._pieces[1:]] + [len(self.text)]
        found: list[Citation] = []
        end = len(self.text)
        for piece, following in zip(reversed(self._pieces), reversed(ends), strict=True):
            end = end if following is None else following
            if piece.start is not None:
                text, places = self.text[piece.start : end], self._recalled.citable(piece.numbers)
                found[:0] = citations_among(text, places, piece.start)
                end = piece.start
        return tuple(found)

    def _told(self, text: str) -> str:
        piece = self._pieces[-1]
        if text and piece.start is None:
            # The model began a new message, after a full stop.
            joint = " " if self.text and not self.text[-1].isspace() and not text[0].isspace() else ""
            piece.start = len(self.text) + len(joint)
            text = joint + text
        self.text += text
        return text
