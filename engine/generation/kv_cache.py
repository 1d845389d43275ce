"""Which tokens the KV cells hold, so that a prompt that begins like the last one is read only from where it differs."""

from __future__ import annotations

from collections.abc import Sequence

from engine.generation.model import Context


class KVCache:
    """The tokens of the one sequence in a context; owned by the generation thread."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._tokens: list[int] = []

    @property
    def num_tokens(self) -> int:
        return len(self._tokens)

    def keep_prefix(self, tokens: Sequence[int]) -> int:
        """Trims the cells to what they share with `tokens`; returns how many tokens need no prefill.

        At least the last token is always left to compute, because its logits are wanted.
        """
        shared = shared_prefix(self._tokens, tokens[:-1])
        if shared < len(self._tokens) and not self._context.trim(shared):
            # Recurrent models cannot rewind: everything is read again.
            self._context.clear()
            shared = 0
        del self._tokens[shared:]
        return shared

    def append(self, tokens: Sequence[int]) -> None:
        """Computes `tokens` after what is there. Raises as `Context.decode` does; then nothing was added."""
        self._context.decode(tokens, len(self._tokens))
        self._tokens += tokens

    def clear(self) -> None:
        self._context.clear()
        self._tokens.clear()


def shared_prefix(left: Sequence[int], right: Sequence[int]) -> int:
    """How many tokens two sequences have in common from the start."""
    for index, (a, b) in enumerate(zip(left, right, strict=False)):
        if a != b:
            return index
    return min(len(left), len(right))
