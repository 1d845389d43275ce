"""What a context must have so that everybody who was asked for can be answered in it to the end."""

from __future__ import annotations

from dataclasses import dataclass

from engine.generation.groups import Groups, SequenceGroup


@dataclass(frozen=True, slots=True)
class Needs:
    """The cells and sequences side by side that the largest of all requests takes, were it alone."""

    num_cells: int = 0
    num_sequences: int = 0


def most_running(num_sequences: int, step_tokens: int) -> int:
    """How many of a context's sequences may write side by side; the other numbers are for what is kept and moved."""
    return max(1, min(num_sequences, step_tokens) * 3 // 4)


def needs_of(groups: Groups, num_cells: int) -> Needs:
    """Of all that run and wait, in a context of `num_cells`: whoever would fill that needs no more."""
    asked = (*groups.running, *groups.waiting)
    return Needs(
        num_cells=min(num_cells, max(map(_cells_alone, asked), default=0)),
        num_sequences=max((group.num_sequences for group in asked), default=0),
    )


def _cells_alone(group: SequenceGroup) -> int:
    """Cells to hold what it has with the next token of each, and to write one of its answers to the end."""
    to_the_end = group.prompt_length + group.lead.num_inserted + max(0, group.lead.max_tokens)
    return max(group.num_tokens + group.num_sequences, to_the_end)
