"""What tokens stand for, asked of llama.cpp once each: steps are short, and calls from Python are not free."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from engine.generation.model import Model
from engine.generation.streaming import TextStream


class Vocabulary:
    """The bytes of tokens, asked for once each; None where the model says with it that it is done."""

    def __init__(self, model: Model) -> None:
        self._model = model
        self._pieces: dict[int, bytes | None] = {}

    def piece(self, token: int) -> bytes | None:
        if token not in self._pieces:
            self._pieces[token] = None if self._model.ends(token) else self._model.piece(token)
        return self._pieces[token]

    def text(self, tokens: Iterable[int], stop: Sequence[str] = ()) -> str:
        """The text of a whole answer, up to the first stop string."""
        stream = TextStream(stop)
        return "".join(stream.feed(self.piece(token) or b"") for token in tokens) + stream.finish()
