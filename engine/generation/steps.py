"""Steps on one context: gives requests cells, computes a batch in one call of llama.cpp, and advances its requests.

A step computes at most one ubatch although llama.cpp accepts a batch of many, because a call cannot be interrupted.
While answers are being written, a prompt's chunk takes no longer than a pause that a reader hardly notices. If
attention is computed on the processor, prompts and answers take turns instead of sharing batches (see `whose_turn`);
with streamed layers this is done only if it is faster, and prompts are read in pieces while answers wait for layers
(pass_times.py).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import groupby

from engine.errors import NoRoomToCompute, RagdollError
from engine.generation.admission import Admission, AdmissionLimits
from engine.generation.batching import Batching, Work
from engine.generation.branching import Branching
from engine.generation.cell_shortage import CellShortage
from engine.generation.cells import Cells
from engine.generation.computing import Computing
from engine.generation.context import Context
from engine.generation.counters import Tally
from engine.generation.ending import Ending
from engine.generation.gathering import Gathering
from engine.generation.groups import Groups, SequenceGroup, SequenceStatus
from engine.generation.keeping import Keeper, KeepsNothing
from engine.generation.metering import Metering, NotePass
from engine.generation.needs import most_running
from engine.generation.pass_times import PassTimes
from engine.generation.postprocess import Postprocess
from engine.generation.prefill_profile import PrefillProfile
from engine.generation.request import PromptRead, StepEvent
from engine.generation.residence import Residence
from engine.generation.row_times import RowTimes
from engine.generation.rows import Extent
from engine.generation.segment import Segment
from engine.generation.swap_room import SwapRoom
from engine.generation.vocabulary import Vocabulary

# While this much is to be read, kept KV leaves the cells, because it would slow attention down.
LONG_TO_READ_TOKENS = 256
# How long a step waits if everything that it could compute is still being read from disk.
_DISK_PAUSE_SECONDS = 0.001
# How many threads a pass that reads prompts for n seconds may use; None for as many as without other work.
ThreadsFor = Callable[[float], int | None]


@dataclass(frozen=True, slots=True)
class Timing:
    """A clock in seconds, and a function that waits; tests have their own."""

    clock: Callable[[], float] = time.perf_counter
    pause: Callable[[float], None] = time.sleep


@dataclass(frozen=True, slots=True)
class Lasting:
    """The state that outlives a context: the requests, their unreported events, and what was learnt and counted."""

    vocabulary: Vocabulary
    timing: Timing
    note_pass: NotePass | None
    can_share: bool
    swap_budget_bytes: int
    swap_room: Callable[[], SwapRoom]
    groups: Groups = field(default_factory=Groups)
    shortage: CellShortage = field(default_factory=CellShortage)
    events: list[StepEvent] = field(default_factory=list)
    profile: PrefillProfile = field(default_factory=PrefillProfile)
    pass_times: PassTimes = field(default_factory=PassTimes)
    row_times: RowTimes = field(default_factory=RowTimes)
    tally: Tally = field(default_factory=Tally)


class Steps:
    """The steps on one context, each made of `schedule`, `run` and `write`; part of the step loop."""

    def __init__(self, lasting: Lasting, context: Context, cells: Cells, keeper: Keeper | None) -> None:
        """Makes the parts that work on a context; the caller owns it, its cells and the keeper."""
        groups, tally, clock = lasting.groups, lasting.tally, lasting.timing.clock
        self._lasting, self._groups, self._context, self.cells = lasting, groups, context, cells
        # Shares the cores with other work, if there is any.
        self.threads_for: ThreadsFor | None = None
        if keeper is None or not (lasting.can_share or keeper.keeps_whole):
            keeper = KeepsNothing()
        self._keeper = keeper
        self._room = min(context.n_batch, context.n_ubatch)
        self.most_running = most_running(context.num_sequences, self._room)
        self.residence = Residence(context, cells, keeper, clock)
        self._postprocess = Postprocess(context, self.residence, lasting.vocabulary, tally, lasting.events)
        self._branching = Branching(context, self.residence, lasting.vocabulary)
        self.admission = Admission(
            groups,
            cells,
            keeper,
            self.residence,
            lasting.profile,
            tally,
            clock,
            AdmissionLimits(
                self.most_running,
                self._room,
                lasting.swap_budget_bytes,
                lasting.swap_room,
                pays_by_pass=context.is_streamed or not context.attends_on_processor,
            ),
        )
        # If each pass has to read layers, measured times decide.
        takes_turns = context.attends_by_tiles and not context.is_streamed
        is_timed = context.attends_on_processor and context.is_streamed
        if is_timed:
            # Attention to 8-bit cells is computed row by row in any batch.
            cell_cost = context.cell_cost if context.attends_by_tiles else 0.0
            lasting.pass_times.begin(cell_cost, *context.disk_seconds())
        times = lasting.pass_times if is_timed else None
        lasting.profile.attends_at(context.filling.tile_cost if takes_turns else 0.0)
        self._row_times = lasting.row_times if takes_turns else None
        if self._row_times is not None:
            self._row_times.begin(context.filling.cell_cost)
        filling = (lambda: context.filling) if takes_turns else None
        self._batching = Batching(
            groups, cells, lasting.profile, self.admission, self._room, context.is_streamed, filling, times
        )
        # With streamed layers, passes wait for the disk, and there is no memory to move KV through.
        gap_seconds = 0.0 if context.is_streamed else context.gap_seconds
        self._gathering = Gathering(groups, self.residence, self.admission, gap_seconds)
        self.ending = Ending(
            groups, self.residence, self.admission, self._postprocess, self._branching, keeper, lasting.events
        )
        self._computing = Computing(
            context,
            cells,
            keeper,
            groups,
            self.residence,
            self.admission,
            self.ending,
            lasting.swap_budget_bytes,
            lasting.swap_room,
        )
        self._metering = Metering(groups, lasting.profile, tally, lasting.note_pass)

    def num_kept(self, segments: Sequence[Segment]) -> int:
        """Returns how many tokens of a prompt need not be read, because they are kept."""
        return self._keeper.peek(segments)

    @property
    def shortage(self) -> NoRoomToCompute | None:
        """Set if there was no room for the last batch."""
        return self._computing.shortage

    def schedule(self) -> list[Work]:
        """Gives cells to groups, and chooses the next batch."""
        if self._context.attends_on_processor and any(
            group.num_unread >= LONG_TO_READ_TOKENS for group in self._groups.running
        ):
            # With kept KV in cells reading would take a tenth longer, while restoring it takes milliseconds.
            self._keeper.spare_cells()
        shortage = self._lasting.shortage
        shortage.reset()
        if (misfit := self.admission.make_room(self._room)) is not None:
            self._give_or_cut(misfit)
        if not self._groups.suspects and (misfit := self.admission.admit()) is not None:
            self._give_or_cut(misfit)
        if shortage.wanted_cells:
            return []
        self._gathering.gather_if_due()
        return self._batching.next()

    def _give_or_cut(self, misfit: SequenceGroup) -> None:
        if not self._lasting.shortage.note(misfit, self.cells.num_cells, self.admission.most_cells):
            self.ending.cut(misfit)

    def run(self, batch: list[Work]) -> list[int]:
        """Computes the batch; returns the first row of each work, or none if nothing was computed."""
        timing = self._lasting.timing
        if not batch:
            if self._groups.waiting and not self._lasting.events:
                timing.pause(_DISK_PAUSE_SECONDS)
            return []
        if self.threads_for is not None:
            self._context.use_threads(self.threads_for(self._reading_seconds(batch)))
        since = timing.clock()
        if rows := self._computing.run(batch):
            self._note(batch, timing.clock() - since)
        else:
            self._batching.note_failure(*self._context.disk_seconds())
        return rows

    def _reading_seconds(self, batch: list[Work]) -> float:
        """Returns how long reading the prompts in a batch is expected to take."""
        reading = (work for work in batch if work.num_tokens > 1)
        return sum(self._lasting.profile.seconds(work.sequence.num_computed, work.num_tokens) for work in reading)

    def _note(self, batch: list[Work], seconds: float) -> None:
        """Records measurements for later batches and plans."""
        self._batching.note(seconds, *self._context.disk_seconds())
        self._metering.note(batch, seconds, has_piece=self._batching.has_piece)
        self.admission.note_served(work.group for work in batch)
        self._gathering.note(batch)
        if self._row_times is not None:
            self._row_times.note([_extent(work) for work in batch], seconds)
            self._context.filling = self._row_times.learnt(self._context.filling)
        if self._groups.waiting and self.admission.lacks_cells:
            self._lasting.tally.note_busy(self.cells.num_used / self.cells.num_cells)

    def write(self, batch: list[Work], rows: list[int]) -> None:
        """Samples tokens, reports text and ends answers."""
        done = zip(batch, rows, strict=False)
        for group, pairs in groupby(done, key=lambda pair: pair[0].group):
            works, first_rows = zip(*pairs, strict=True)
            if group.status is SequenceStatus.FINISHED:
                self.ending.close_answer(group)
                continue
            try:
                self._go_on(group, works, first_rows)
            except RagdollError as error:
                self.ending.fail(group, error)

    def _go_on(self, group: SequenceGroup, works: tuple[Work, ...], rows: tuple[int, ...]) -> None:
        ends_prompt = not group.has_read_prompt and works[0].wants_token
        if ends_prompt:
            self._end_prompt(group)
        if not group.has_forked and len(group.sequences) > 1:
            self._postprocess.fork(works[0], rows[0])
        elif group.beams is not None:
            self._branching.advance(group, works, rows)
        else:
            self._postprocess.write(works, rows)
        if ends_prompt and group.lead.held is not None:
            # After the fork, because kept KV in cells takes sequence numbers, and answers have priority.
            self._keeper.keep(group.request.segments, group.lead.held, group.prefill_seconds, group.computed_tokens)
            # Other requests may have less to read now.
            self.admission.look_again()
        self.ending.finish_if_done(group)

    def _end_prompt(self, group: SequenceGroup) -> None:
        group.has_read_prompt = True
        tally = self._lasting.tally
        tally.prompt_tokens += group.cached_tokens + group.computed_tokens
        tally.cached_tokens += group.cached_tokens
        seconds = self._lasting.timing.clock() - group.read_since
        self._lasting.events.append(PromptRead(group.request_id, group.cached_tokens, group.computed_tokens, seconds))
        if group.request.sampling.max_tokens <= 0:
            for sequence in group.sequences:
                sequence.finish_reason = "length"


def _extent(work: Work) -> Extent:
    """Returns how many tokens of a work were computed, and the length of its sequence since."""
    return Extent(work.num_tokens + work.num_drafted, work.sequence.num_computed)
