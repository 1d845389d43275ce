"""Keeps the KV of an answer that has ended: of its prompt, and of all that was written and computed after it."""

from __future__ import annotations

from engine.generation.groups import SequenceGroup
from engine.generation.keeping import Keeper
from engine.generation.sequence import TokenSequence


def keep_written(keeper: Keeper, group: SequenceGroup, sequence: TokenSequence, *, can_wait: bool = True) -> None:
    """Gives the prompt and the answer to the keeper at a cost of 0, because writing an answer is no cache miss.

    `can_wait`: the keeper may wait for the disk if nothing else has room.
    """
    # The tokens of a stop string may have been computed, but are not part of the answer.
    end = min(sequence.num_computed, len(sequence.tokens) - sequence.num_of_stop)
    written = sequence.behind_prompt(end)
    # After a preemption, not even the prompt may be back in cells.
    if sequence.held is not None and written:
        keeper.keep(group.request.followed_by(written), sequence.held, 0.0, 0, can_wait=can_wait)
