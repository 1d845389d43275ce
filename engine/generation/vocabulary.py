"""Caches the bytes of tokens, since steps are short and calls of llama.cpp from Python take time."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from engine.generation.model import Model
from engine.generation.streaming import TextStream
from engine.generation.thinking import Thoughts


class Vocabulary:
    """The bytes of tokens, with one call of llama.cpp for each; None for tokens that end the model's output."""

    def __init__(self, model: Model) -> None:
        self._model = model
        self._pieces: dict[int, bytes | None] = {}
        self._marked: dict[int, bytes] = {}

    def piece(self, token: int) -> bytes | None:
        self._ask(token)
        return self._pieces[token]

    def marked(self, token: int) -> bytes:
        """Returns the bytes of a token, with control tokens written out."""
        self._ask(token)
        return self._marked[token]

    def text(
        self, tokens: Iterable[int], stop: Sequence[str] = (), thoughts: Thoughts | None = None
    ) -> tuple[str, int]:
        """Returns the text of a whole answer, up to the first stop string, and how many bytes came from there on.

        Tokens before the answer go to `thoughts`.
        """
        stream, text = TextStream(stop), ""
        for token in tokens:
            piece = self.piece(token) or b""
            if thoughts is not None and not thoughts.has_begun_answer:
                piece = thoughts.feed(self.marked(token), piece)
                stream.stop_at(thoughts.answer_end)
            text += stream.feed(piece)
        rest = thoughts.finish() if thoughts is not None else b""
        return text + stream.feed(rest) + stream.finish(), stream.num_bytes_of_stop

    def holding(self, num_bytes: int, tokens: Sequence[int]) -> tuple[int, bool]:
        """Returns how many tokens at the end hold the last bytes of a text, and whether they hold others as well."""
        number = 0
        while num_bytes > 0 and number < len(tokens):
            number += 1
            num_bytes -= len(self.piece(tokens[-number]) or b"")
        return number, num_bytes != 0

    def _ask(self, token: int) -> None:
        """Looks up both forms at once, because a beam search may end when the model is closed."""
        if token not in self._pieces:
            self._pieces[token] = None if self._model.ends(token) else self._model.piece(token)
            self._marked[token] = self._model.piece(token, special=True)
