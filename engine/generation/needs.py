"""Calculates the cells and sequences that a context needs so that all requests can be answered to the end."""

from __future__ import annotations

from dataclasses import dataclass

from engine.generation.groups import Groups, SequenceGroup

# A request that needs more cells gets room for a fraction 1 / AHEAD of its text in addition, and for at least this many
# tokens of each answer; otherwise a long answer would soon need more again.
AHEAD, LEAST_AHEAD = 4, 64


@dataclass(frozen=True, slots=True)
class Needs:
    """The cells and concurrent sequences that the largest request needs to its end if it runs alone.

    `cells_now` are those of the largest running request, including the next token of each answer.
    """

    num_cells: int = 0
    num_sequences: int = 0
    cells_now: int = 0


def most_running(num_sequences: int, step_tokens: int) -> int:
    """Returns how many of a context's sequences may write at a time; the others are for kept KV and for moving it."""
    return max(1, min(num_sequences, step_tokens) * 3 // 4)


def needs_of(groups: Groups, most_cells: int) -> Needs:
    """Returns the needs of all running and waiting requests; no request needs more than `most_cells`."""
    asked = (*groups.running, *groups.waiting)
    return Needs(
        num_cells=min(most_cells, max(map(_cells_to_the_end, asked), default=0)),
        num_sequences=max((group.num_sequences for group in asked), default=0),
        cells_now=min(most_cells, max(map(cells_now, groups.running), default=0)),
    )


def cells_now(group: SequenceGroup) -> int:
    """Returns the cells for all its tokens and the next token of each answer."""
    return group.num_tokens + group.num_sequences


def cells_soon(group: SequenceGroup) -> int:
    """Returns the cells that it needs for a while, a quarter more than now, but no more than all answers can need."""
    now, answers = cells_now(group), max(0, group.lead.max_tokens) * group.num_sequences
    to_the_end = max(now, group.prompt_length + group.lead.num_inserted + answers)
    return min(to_the_end, now + max(now // AHEAD, LEAST_AHEAD * group.num_sequences))


def _cells_to_the_end(group: SequenceGroup) -> int:
    """Returns the cells for all its tokens, and to write one of its answers to the end.

    If no length was given, as many as for a while, because the maximum would be the whole context.
    """
    if group.request.sampling.is_open_ended:
        return cells_soon(group)
    to_the_end = group.prompt_length + group.lead.num_inserted + max(0, group.lead.max_tokens)
    return max(cells_now(group), to_the_end)
