"""What the step loop works on: a group for each request, and in it a sequence for each of its answers or beams.

The sequences of a group share the cells of their prompt; what is sampled for each follows in cells of its own.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import Enum, auto

from engine.generation.keeping import Found
from engine.generation.request import Request
from engine.generation.segment import shared_tokens
from engine.generation.sequence import BeamSearch, TokenSequence


class SequenceStatus(Enum):
    """The state of a group: PREEMPTED was RUNNING and has no cells now, FINISHED is over, however it ended."""

    WAITING = auto()
    RUNNING = auto()
    PREEMPTED = auto()
    FINISHED = auto()


@dataclass(slots=True, eq=False)
class SequenceGroup:
    """A request with its sequences and its progress; owned by the step loop.

    `arrival` counts requests. `times_passed` is how often a later request was admitted first because more of it was
    kept. `has_forked`: the sequences have their own cells after the prompt that they share. `is_swapped`: it left the
    cells, and what only it held is saved. `prefill_seconds` is its share of the steps that computed its prompt,
    `read_since` when the first of them began, less the waits in between. `awaits_disk_since`: since then it has waited
    for its kept KV to be read. With `beams`, its sequences are the beams, without samplers. `makes_do`: there was no
    room for the cells that it lacked, so it ends with those there are.
    """

    request: Request
    arrival: int
    sequences: list[TokenSequence]
    waiting_since: float
    beams: BeamSearch | None = None
    status: SequenceStatus = SequenceStatus.WAITING
    waited_seconds: float = 0.0
    times_passed: int = 0
    found: Found | None = None
    has_forked: bool = False
    is_swapped: bool = False
    has_read_prompt: bool = False
    cached_tokens: int = 0
    computed_tokens: int = 0
    prefill_seconds: float = 0.0
    read_since: float = 0.0
    awaits_disk_since: float | None = None
    makes_do: bool = False

    @property
    def request_id(self) -> str:
        return self.request.request_id

    @property
    def is_watched(self) -> bool:
        """Whether a user may be watching the answer being written."""
        return self.request.priority == "interactive"

    def can_go_on_with(self, other: SequenceGroup) -> bool:
        """Returns whether both read their prompt for a single answer."""
        is_single = len(self.sequences) == len(other.sequences) == 1
        return is_single and self.beams is None and other.beams is None

    def go_on_with(self, other: SequenceGroup) -> None:
        """Takes over the prompt of another, which begins with all that was read so far, and writes its answer."""
        for sequence, successor in zip(self.sequences, other.sequences, strict=True):
            successor.held = sequence.held
            sequence.close()
        self.request, self.sequences = other.request, other.sequences

    @property
    def prompt_length(self) -> int:
        return self.sequences[0].prompt_length

    @property
    def live(self) -> list[TokenSequence]:
        return [sequence for sequence in self.sequences if sequence.finish_reason is None]

    @property
    def lead(self) -> TokenSequence:
        """The sequence that reads the prompt for all others."""
        return next((sequence for sequence in self.sequences if sequence.finish_reason is None), self.sequences[0])

    @property
    def shared_length(self) -> int:
        """Up to where its sequences share cells once they are computed again: the prompt, and what all beams share.

        The last token of each beam is its own, because the next ones follow from its row.
        """
        if self.beams is None:
            return self.prompt_length
        beams = [sequence.tokens for sequence in self.live or self.sequences]
        # What the first and the last in sorted order have in common, all in between have too.
        common = shared_tokens(min(beams), max(beams))
        return max(self.prompt_length, min(common, min(map(len, beams)) - 1))

    @property
    def num_tokens(self) -> int:
        """Cells that it takes with all known tokens computed, counting shared ones once."""
        shared = self.shared_length
        return shared + sum(len(sequence.tokens) - shared for sequence in self.live)

    @property
    def num_sequences(self) -> int:
        """Sequence numbers that it takes."""
        return max(len(self.live), self.request.sampling.beam_width)

    @property
    def num_slots_due(self) -> int:
        """Sequence numbers that it still needs: its answers take them once they have read what they share."""
        return max(0, self.num_sequences - sum(sequence.held is not None for sequence in self.live))

    @property
    def num_unread(self) -> int:
        """Tokens that it has to compute before it can write on, beyond the one that each answer always has."""
        if not self.has_forked and len(self.sequences) > 1:
            return self.num_tokens - self.lead.num_computed
        return sum(num_tokens for _, num_tokens in self.due() if num_tokens > 1)

    def due(self) -> Iterator[tuple[TokenSequence, int]]:
        """Yields sequences with the number of tokens that have to be computed before they can go on."""
        if not self.has_forked and len(self.sequences) > 1:
            yield self.lead, self.shared_length - self.lead.num_computed
            return
        for sequence in self.sequences:
            if sequence.finish_reason is None:
                held = sequence.held
                yield sequence, len(sequence.tokens) - (held.start + len(held.cells) if held else 0)


@dataclass(slots=True)
class Groups:
    """All requests that have not ended: those without cells, and those with, in order of arrival.

    `closing` are answers that have ended and wait for their last token to be computed, so that all of it is kept.
    `suspects` were in a batch that could not be computed; each is computed alone to find out which is at fault.
    """

    waiting: list[SequenceGroup] = field(default_factory=list)
    running: list[SequenceGroup] = field(default_factory=list)
    closing: list[SequenceGroup] = field(default_factory=list)
    suspects: list[SequenceGroup] = field(default_factory=list)
    _by_id: dict[str, SequenceGroup] = field(default_factory=dict)

    def find(self, request_id: str) -> SequenceGroup | None:
        """Returns the group of a request; None if it has ended."""
        return self._by_id.get(request_id)

    def before(self, group: SequenceGroup) -> TokenSequence | None:
        """Returns the answer that `group` continues, if it is still in cells and so not kept yet."""
        tokens = group.lead.tokens
        for closing in self.closing:
            lead = closing.lead
            if lead.held is not None and tokens[: len(lead.tokens)] == lead.tokens:
                return lead
        return None

    @property
    def being_read(self) -> list[SequenceGroup]:
        """Groups whose prompt has cells and is not read yet."""
        return [group for group in self.running if not group.has_read_prompt]

    def exchange(self, group: SequenceGroup, other: SequenceGroup) -> None:
        """Replaces a waiting group by another."""
        del self._by_id[group.request_id]
        self._by_id[other.request_id] = other
        self.waiting[self.waiting.index(group)] = other

    def go_on_with(self, group: SequenceGroup, other: SequenceGroup) -> None:
        """Turns a group that reads its prompt into another, which is found by the other's id."""
        del self._by_id[group.request_id]
        group.go_on_with(other)
        self._by_id[group.request_id] = group

    def add(self, group: SequenceGroup) -> None:
        """Adds a group to the end of the queue."""
        self._by_id[group.request_id] = group
        self.waiting.append(group)

    def end(self, group: SequenceGroup) -> None:
        """Removes a group that has ended."""
        del self._by_id[group.request_id]
        self.take(group)

    def take(self, group: SequenceGroup) -> None:
        """Takes a group out of the list that it is in."""
        for groups in (self.running, self.waiting, self.suspects):
            if group in groups:
                groups.remove(group)
