"""What a context must have so that all requests can be answered in it to the end."""

from __future__ import annotations

from dataclasses import dataclass

from engine.generation.groups import Groups, SequenceGroup

# A request that needs more cells gets room for this part of its text on top of it, and for this many tokens of each
# answer: else a long answer would need more again soon.
AHEAD, LEAST_AHEAD = 4, 64


@dataclass(frozen=True, slots=True)
class Needs:
    """The cells and concurrent sequences that the largest of all requests takes to its end, were it alone.

    `cells_now` are those of the largest running request with the next token of each answer.
    """

    num_cells: int = 0
    num_sequences: int = 0
    cells_now: int = 0


def most_running(num_sequences: int, step_tokens: int) -> int:
    """How many of a context's sequences may write side by side; the other numbers are for what is kept and moved."""
    return max(1, min(num_sequences, step_tokens) * 3 // 4)


def needs_of(groups: Groups, most_cells: int) -> Needs:
    """The needs of all that run and wait, in contexts of at most `most_cells`, more than which no request needs."""
    asked = (*groups.running, *groups.waiting)
    return Needs(
        num_cells=min(most_cells, max(map(_cells_to_the_end, asked), default=0)),
        num_sequences=max((group.num_sequences for group in asked), default=0),
        cells_now=min(most_cells, max(map(cells_now, groups.running), default=0)),
    )


def cells_now(group: SequenceGroup) -> int:
    """Cells for what it has with the next token of each answer."""
    return group.num_tokens + group.num_sequences


def cells_soon(group: SequenceGroup) -> int:
    """Cells with which it goes on for a while, or all its answers to their ends: a quarter more than it has."""
    now, answers = cells_now(group), max(0, group.lead.max_tokens) * group.num_sequences
    to_the_end = max(now, group.prompt_length + group.lead.num_inserted + answers)
    return min(to_the_end, now + max(now // AHEAD, LEAST_AHEAD * group.num_sequences))


def _cells_to_the_end(group: SequenceGroup) -> int:
    """Cells for what it has with the next token of each answer, and to write one of its answers to the end.

    Where no length was given, as many as for a while: it would be the whole context.
    """
    if group.request.sampling.is_open_ended:
        return cells_soon(group)
    to_the_end = group.prompt_length + group.lead.num_inserted + max(0, group.lead.max_tokens)
    return max(cells_now(group), to_the_end)
