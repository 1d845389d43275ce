"""What is kept of an answer that has ended: its prompt, and all that was written and computed after it."""

from __future__ import annotations

from engine.generation.groups import SequenceGroup
from engine.generation.keeping import Keeper
from engine.generation.sequence import TokenSequence


def keep_written(keeper: Keeper, group: SequenceGroup, sequence: TokenSequence, *, can_wait: bool = True) -> None:
    """Leaves the prompt and the answer to the keeper, at no cost: none of it was missing, whatever it took to write.

    `can_wait`: the disk may be waited for, if only that has room.
    """
    # The tokens of a stop string may have been computed, but are no part of the answer.
    end = min(sequence.num_computed, len(sequence.tokens) - sequence.num_of_stop)
    written = sequence.behind_prompt(end)
    # After a preemption, even the prompt may not be in cells again.
    if sequence.held is not None and written:
        keeper.keep(group.request.followed_by(written), sequence.held, 0.0, 0, can_wait=can_wait)
