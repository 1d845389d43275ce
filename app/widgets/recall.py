"""Recalls the earlier questions of a chat one by one, newest first, as a shell recalls commands."""

from __future__ import annotations

from collections.abc import Callable, Sequence


class Recall:
    """`questions` returns what was asked in the chat, oldest first."""

    def __init__(self) -> None:
        self.questions: Callable[[], Sequence[str]] = tuple
        self._recalled = ""

    def step(self, text: str, step: int) -> str | None:
        """Returns what follows `text` in the field: an earlier question for −1, a later one for +1.

        None if there is none, or if the text was written by hand: then the keys move the cursor as usual.
        """
        newest_first = list(dict.fromkeys(reversed(self.questions())))
        if text and (text != self._recalled or text not in newest_first):
            return None
        place = (newest_first.index(text) if text else -1) - step
        if not -1 <= place < len(newest_first):
            return None
        self._recalled = newest_first[place] if place >= 0 else ""
        return self._recalled
