"""Keeps whole sequences at the ends of answers for models with recurrent states, such as Mamba.

A state can only continue from its end, so the beginning of one prompt cannot be reused for another. But a conversation
grows only at its end: its next turn begins with everything that the previous one read and wrote, so that sequence is
all it needs. In the knowledge tree, each sequence is a node directly below the root; none of them ever stays in cells.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import numpy as np
from numpy.typing import NDArray

from engine.errors import NoCells
from engine.generation.cells import CellSequence
from engine.generation.cut_prompts import MAX_REMEMBERED
from engine.generation.kept_cells import KeptCells
from engine.generation.knowledge_tree import NO_DOCUMENTS, KnowledgeTree, Node, Piece, digest_of, packed
from engine.generation.lru_cache import LruCache
from engine.generation.segment import Segment, tokens_of

_TOKEN_BYTES = 4


class WholePrompts:
    """Does not cut prompts: a piece is all of a prompt, or all that is kept of it. On the generation thread."""

    def __init__(self, tree: KnowledgeTree) -> None:
        self._tree = tree
        # For each prompt, its tokens and the digests of their beginnings by length.
        self._digests = LruCache[int, tuple[bytes, dict[int, bytes]]](MAX_REMEMBERED)

    def pieces_of(self, segments: Sequence[Segment]) -> Sequence[Piece]:
        """Returns the longest kept beginning of a prompt, never all of it: the last token has to be computed."""
        kept, (tokens, digests) = self._tree.root.children, self._digests_of(segments)
        lengths = {node.num_tokens for node in kept.values() if node.num_tokens * _TOKEN_BYTES < len(tokens)}
        for length in sorted(lengths, reverse=True):
            if length not in digests:
                digests[length] = digest_of(tokens[: length * _TOKEN_BYTES])
            node = kept.get(digests[length])
            if node is not None and node.num_tokens == length:
                return [node.piece]
        return []

    def pieces_to_keep(self, segments: Sequence[Segment], end: int, computed_tokens: int) -> Sequence[Piece]:
        """Returns all of it if an answer has ended; a prompt alone is not kept, because no other could continue it."""
        tokens = tokens_of(segments)
        if computed_tokens or len(tokens) != end:
            return []
        return [Piece(tokens, NO_DOCUMENTS.union(*(segment.documents for segment in segments)))]

    def _digests_of(self, segments: Sequence[Segment]) -> tuple[bytes, dict[int, bytes]]:
        if not isinstance(segments, tuple):
            # A list may change.
            return packed(tokens_of(segments)), {}
        return self._digests.of(id(segments), segments, lambda: (packed(tokens_of(segments)), {}))


class WholeCells(KeptCells):
    """Cells that hold only answers under way; sequences are loaded and saved in place."""

    def has_room(self, num_tokens: int) -> bool:
        return False

    def load(self, node: Node, state: NDArray[np.uint8], sequence: CellSequence, is_held: bool) -> bool:
        """Fills an empty sequence with saved bytes; False if they do not fit the model.

        Raises:
            NoCells: Not enough cells are free; nothing has changed.
        """
        self._cells.grow(sequence, node.num_tokens)
        is_loaded = self._context.load(state, sequence.slot)
        if not is_loaded:
            self._context.remove(sequence.slot)
            self._cells.trim(sequence, 0)
        return is_loaded

    @contextmanager
    def slot_of(self, node: Node, sequence: CellSequence | None = None) -> Iterator[int]:
        """Yields the number of the sequence that ends with the node.

        Raises:
            NoCells: It no longer ends there.
        """
        if sequence is None or sequence.end != node.end:
            raise NoCells("What was read has gone on, or has left.")
        yield sequence.slot
