"""The batch of a step: which tokens of which sequences are computed, as `pack` grants them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from operator import itemgetter
from typing import TypeAlias

from engine.generation.admission import Admission
from engine.generation.cells import Cells
from engine.generation.context import Stretch
from engine.generation.drafting import draft_lengths
from engine.generation.groups import Groups, SequenceGroup
from engine.generation.pass_times import PassTimes
from engine.generation.prefill_profile import PrefillProfile
from engine.generation.rows import Extent, Filling
from engine.generation.scheduler import (
    MIN_ALONE_TOKENS,
    SCRIPT_STALL_SECONDS,
    STALL_SECONDS,
    Demand,
    answers_share,
    are_scripts_read,
    chunk_tokens,
    pack,
    rank,
    reading_order,
    whose_turn,
)
from engine.generation.sequence import Guess, TokenSequence

# The last token of an ended answer is computed only to be kept; no request waits for it.
_RANK_OF_ENDED = rank("idle", 0.0)


@dataclass(frozen=True, slots=True)
class Work:
    """What a step computes of one sequence: `num_tokens` from its position on, and after them its draft.

    `wants_token`: no other tokens are missing, so the next token is sampled after the last of these.
    """

    group: SequenceGroup
    sequence: TokenSequence
    num_tokens: int
    num_drafted: int = 0
    wants_token: bool = False

    def stretch(self) -> Stretch:
        sequence, start = self.sequence, self.sequence.num_computed
        if sequence.held is None:
            raise ValueError("a sequence without cells cannot be computed")
        tokens = sequence.tokens[start : start + self.num_tokens]
        if self.num_drafted:
            tokens = tokens + sequence.draft[: self.num_drafted]
        return Stretch(sequence.held.slot, start, tokens, int(self.wants_token) + self.num_drafted)


_Asked: TypeAlias = tuple[SequenceGroup, TokenSequence]


@dataclass(frozen=True, slots=True)
class Halves:
    """The extents of a batch: of prompts, most urgent first, of answers, and of both in the order of the batch."""

    prompts: Sequence[Extent] = ()
    answers: Sequence[Extent] = ()
    both: Sequence[Extent] = ()

    @property
    def is_mixed(self) -> bool:
        return bool(self.prompts and self.answers)


class Batching:
    """Assembles the batch of each step; part of the step loop."""

    def __init__(
        self,
        groups: Groups,
        cells: Cells,
        profile: PrefillProfile,
        admission: Admission,
        room: int,
        costs_a_pass: bool = False,
        filling: Callable[[], Filling] | None = None,
        times: PassTimes | None = None,
    ) -> None:
        """Sets up batches of at most `room` tokens, an ubatch.

        `costs_a_pass`: each pass reads weights from disk, so it is filled. `filling`: prompts and answers take turns
        if they would share tiles or are faster apart. `times`: they also take turns if two passes take less time than
        one, or prompts are read in pieces that do not slow answers down.
        """
        self._groups, self._cells, self._profile, self._admission = groups, cells, profile, admission
        self._room, self._costs_a_pass, self._filling, self._times = room, costs_a_pass, filling, times
        self._batch = Halves()
        # The share of the time of prompts-only batches that is owed to answers, and what is left of it.
        self._owed_share = self._owed_seconds = 0.0
        self._answers_first = False
        # Whether the batch has a piece of a prompt that adds no time to the pass.
        self.has_piece = False

    def next(self) -> list[Work]:
        """Returns the next batch: of all groups that have cells, or of the first suspect alone."""
        works, demands = self._asked(self._groups.suspects[:1] or self._groups.running)
        if not self._groups.suspects:
            for group in self._groups.closing:
                works.append((group, group.lead))
                demands.append(Demand(1, _RANK_OF_ENDED, group.arrival, is_watched=False))
        granted = self._granted(works, demands)
        self._batch = _halves(works, demands, granted)
        return [
            _work(group, sequence, demand, num_tokens)
            for (group, sequence), demand, num_tokens in zip(works, demands, granted, strict=True)
            if num_tokens
        ]

    def note(self, seconds: float, waited: float = 0.0, reading: float = 0.0) -> None:
        """Notes the batch's seconds; after prompts, answers go on for a share of that time, by at least one token.

        `waited` and `reading` are totals so far: seconds that passes waited for layers, and that layers were read.
        """
        has_read = not self._batch.answers
        if self._times is not None:
            self._times.note(self._batch.both, seconds, waited, reading, is_mixed=self._batch.is_mixed)
        if has_read:
            self._owed_seconds = self._owed_share * seconds
        else:
            self._owed_seconds = max(0.0, self._owed_seconds - seconds)
        self._answers_first = has_read or self._owed_seconds > 0

    def note_failure(self, waited: float, reading: float) -> None:
        """Notes that the batch was not computed; the arguments are as for `note`."""
        if self._times is not None:
            self._times.pass_over(waited, reading)

    def _granted(self, works: Sequence[_Asked], demands: Sequence[Demand]) -> list[int]:
        chunk = self._chunk(demands)
        granted = self._packed(demands, chunk)
        pieces = self._in_pieces(works, demands)
        self.has_piece = pieces is not None
        if pieces is not None:
            return pieces
        is_faster_apart = self._are_faster_apart(_halves(works, demands, granted))
        if self._filling is None and not is_faster_apart:
            return granted
        self._owed_share = answers_share(demands)
        turns = whose_turn(
            demands,
            granted,
            answers_first=self._owed_share > 0 and self._answers_first,
            is_faster_apart=self._filling is not None and is_faster_apart,
        )
        sides = {demand.num_tokens > 1 for demand, its in zip(demands, turns, strict=True) if its}
        packed = iter(self._packed([demand for demand in demands if (demand.num_tokens > 1) in sides], chunk))
        return [next(packed) if (demand.num_tokens > 1) in sides else 0 for demand in demands]

    def _in_pieces(self, works: Sequence[_Asked], demands: Sequence[Demand]) -> list[int] | None:
        """Returns the batch with as many prompt tokens as answers hide; None if prompts are not read in pieces.

        If drafts leave no room for any, drafts are dropped, since answers would otherwise wait for a whole prompt.
        """
        times = self._times
        if times is None:
            return None
        # As many as fit: hidden tokens delay no answer, however many they are.
        if hidden := _hidden_tokens(times, works, demands, self._packed(demands, self._room)):
            return self._packed(demands, hidden)
        if not any(demand.num_drafted for demand in demands):
            return None
        plain = [replace(demand, num_drafted=0) for demand in demands]
        hidden = _hidden_tokens(times, works, plain, self._packed(plain, self._room))
        return self._packed(plain, hidden) if hidden else None

    def _are_faster_apart(self, batch: Halves) -> bool:
        if not batch.is_mixed:
            return False
        if self._filling is not None:
            return self._filling().are_faster_apart(batch.prompts, batch.answers, self._room)
        return self._times is not None and self._times.are_faster_apart(batch.prompts, batch.answers, batch.both)

    def _packed(self, demands: Sequence[Demand], chunk: int) -> list[int]:
        in_tiles = self._filling is not None and self._filling().cell_cost > 0
        return pack(demands, self._room, chunk, self._cells.num_free, self._cells.num_slots, in_tiles=in_tiles)

    def _asked(self, groups: Sequence[SequenceGroup]) -> tuple[list[_Asked], list[Demand]]:
        due = [(group, *its) for group in groups for its in group.due()]
        draft_room = self._room // max(1, len(groups))
        guesses = [_guess(sequence, num_tokens, draft_room) for _, sequence, num_tokens in due]
        lengths = draft_lengths(guesses, sum(num_tokens == 1 for _, _, num_tokens in due))
        urgencies = {group.request_id: self._admission.rank(group) for group in groups}
        demands: list[Demand] = []
        for (group, sequence, num_tokens), guess, length in zip(due, guesses, lengths, strict=True):
            sequence.draft = list(guess.tokens[:length])
            urgency = urgencies[group.request_id]
            demands.append(Demand(num_tokens, urgency, group.arrival, length, group.is_watched))
        return [(group, sequence) for group, sequence, _ in due], demands

    def _chunk(self, demands: Sequence[Demand]) -> int:
        writing = [demand for demand in demands if demand.num_tokens == 1]
        if len(writing) == len(demands):
            # There is no prompt to read.
            return self._room
        num_watched = sum(demand.is_watched for demand in writing)
        if not num_watched and (self._costs_a_pass or not self._profile.is_measured):
            return self._room
        stall_seconds = SCRIPT_STALL_SECONDS if are_scripts_read(demands) else STALL_SECONDS
        if self._costs_a_pass:
            return self._chunk_of_a_pass(stall_seconds)
        seconds_per_token = self._profile.seconds(0, self._room) / self._room
        return chunk_tokens(self._room, num_watched, seconds_per_token, stall_seconds)

    def _chunk_of_a_pass(self, stall_seconds: float) -> int:
        """Returns the chunk if each pass reads layers: as much as lengthens a pass by at most `stall_seconds`."""
        least = size = min(MIN_ALONE_TOKENS, self._room)
        most_seconds = self._profile.seconds(0, least) + stall_seconds
        while size < self._room and self._profile.seconds(0, min(2 * size, self._room)) <= most_seconds:
            size = min(2 * size, self._room)
        return size


def _hidden_tokens(times: PassTimes, works: Sequence[_Asked], demands: Sequence[Demand], granted: Sequence[int]) -> int:
    batch = _halves(works, demands, granted)
    if not batch.is_mixed:
        return 0
    packed = [(demand, group) for demand, (group, _), num in zip(demands, works, granted, strict=True) if num]
    first = min(demand.rank for demand, _ in packed if demand.num_tokens > 1)
    held_up = {group.request_id for demand, group in packed if demand.num_tokens == 1 and demand.rank <= first}
    return times.hidden_tokens(batch.prompts, batch.answers, len(held_up))


def _halves(works: Sequence[_Asked], demands: Sequence[Demand], granted: Sequence[int]) -> Halves:
    prompts, answers, both = list[tuple[tuple[int, bool, int], Extent]](), list[Extent](), list[Extent]()
    for (_, sequence), demand, num_tokens in zip(works, demands, granted, strict=True):
        if num_tokens:
            both.append(Extent(num_tokens, sequence.num_computed + num_tokens))
            if demand.num_tokens > 1:
                prompts.append((reading_order(demand), both[-1]))
            else:
                answers.append(both[-1])
    return Halves([extent for _, extent in sorted(prompts, key=itemgetter(0))], answers, both)


def _guess(sequence: TokenSequence, num_tokens: int, room: int) -> Guess:
    """Returns a sequence's guess; empty if it is reading or has only one more token to write."""
    # Answers that have not forked yet may lack only their last shared token, which is read, not written.
    is_writing = num_tokens == 1 and sequence.lacks_only_last
    if not is_writing or not sequence.can_guess or not sequence.num_generated:
        return Guess()
    room = min(room, sequence.max_tokens - sequence.num_generated - 1)
    return sequence.guess(room) if room > 0 else Guess()


def _work(group: SequenceGroup, sequence: TokenSequence, demand: Demand, granted: int) -> Work:
    num_tokens = min(granted, demand.num_tokens)
    is_closing = not sequence.is_live
    wants_token = not is_closing and sequence.num_computed + num_tokens == len(sequence.tokens)
    return Work(group, sequence, num_tokens, granted - num_tokens, wants_token)
