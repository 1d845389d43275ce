"""The step loop: many requests on one context, a batch at a time (vLLM's iteration-level scheduling).

Each step schedules, runs one batch of at most one ubatch, and postprocesses it: every running answer gets a token
first, then chunks of prompts fill the batch (steps.py). Requests are submitted here, and outlive the context in which
they run: all of them can continue in another one. One thread calls everything here.

Guarantees:

- Every request ends in exactly one of `RequestFinished`, `RequestCancelled`, `RequestFailed`, and after that holds no
  cell, no sequence number and no pin. A request that fails (too long, a broken grammar, a batch that cannot be
  computed) fails alone; the others continue. A batch whose weights could not be read is computed once more, and only
  then fails as a whole. If memory had no room for a batch, `shortage` says so, and no request has failed yet.
- A cancel takes at most one step, and a step is one ubatch. It frees everything at once, except an answer that is to be
  kept: that leaves when its last token was computed.
- Free and used cells add up to all cells after every step, and no batch needs more than are free.
- An answer does not depend on other requests, on preemption or on drafts: a preempted request continues with the same
  tokens and the same sampler, from saved keys and values or from those computed again. (Except for rounding: another
  batch adds in another order, so if two tokens are almost equally likely, either may be chosen.)
- Nothing starves: waiting behind other priorities makes a request more urgent, and its equals pass it over at most a
  few times.
- With a model that cannot share prefixes nothing is drafted or rewound: its sequences are moved, kept and computed
  whole.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from engine.closing import close_all
from engine.errors import NoRoomToCompute, RagdollError
from engine.generation.appending import Appending
from engine.generation.candidates import Candidates
from engine.generation.cells import Cells
from engine.generation.context import Context
from engine.generation.counters import LoopCounters, count
from engine.generation.groups import SequenceStatus
from engine.generation.intake import Intake, MakeBeams, MakeDrafter, Makers, MakeSampler
from engine.generation.keeping import Keeper
from engine.generation.metering import NotePass
from engine.generation.model import Model
from engine.generation.needs import Needs, cells_soon, needs_of
from engine.generation.request import Request, RequestFailed, StepEvent, Written
from engine.generation.sampler import ChainSampler
from engine.generation.segment import Segment
from engine.generation.shared_prefill import ReadSoFar
from engine.generation.steps import Lasting, Steps, ThreadsFor, Timing
from engine.generation.swap_room import ROOMY, SwapRoom
from engine.generation.vocabulary import Vocabulary
from engine.memory.gangs import QueueSharing

REAL_TIME = Timing()


class StepLoop:
    """Runs many requests on one context; see the module. The caller owns the context, its cells and the keeper."""

    def __init__(
        self,
        model: Model,
        context: Context,
        cells: Cells,
        keeper: Keeper | None = None,
        *,
        make_sampler: MakeSampler | None = None,
        make_drafter: MakeDrafter | None = None,
        make_beams: MakeBeams | None = None,
        note_pass: NotePass | None = None,
        swap_budget_bytes: int = 1 << 30,
        timing: Timing = REAL_TIME,
        context_tokens: int = 0,
        swap_room: Callable[[], SwapRoom] = lambda: ROOMY,
    ) -> None:
        """Starts without requests.

        Args:
            model: The model of `context`.
            context: Only the loop computes in it; the keeper saves and loads.
            cells: All cells of `context`; the keeper takes some of them too.
            keeper: Keeps the KV of prompts; None reads each prompt whole.
            make_sampler: Makes a sampler for each answer; None for llama.cpp's own samplers.
            make_drafter: Makes a drafter for each answer; None drafts nothing.
            make_beams: Makes a beam search; without it such requests are refused.
            note_pass: Gets the tokens of each batch, the number of sequences that wrote a token, and the seconds.
            swap_budget_bytes: The most RAM for saving preempted requests.
            timing: The clock for ageing and for measurements.
            context_tokens: The most tokens of a prompt with its answer; if these are more than `cells`, requests
                that need more get another context (`wanted_cells`).
            swap_room: Returns how much of memory and disk may hold preempted requests now.
        """
        can_share = model.can_share_prefixes
        vocabulary = Vocabulary(model)
        self._lasting = Lasting(vocabulary, timing, note_pass, can_share, swap_budget_bytes, swap_room)
        self._groups, self._events, self.profile = self._lasting.groups, self._lasting.events, self._lasting.profile
        self._sharing: QueueSharing | None = None
        self._threads_for: ThreadsFor | None = None
        make_sampler = make_sampler or partial(ChainSampler, candidates=Candidates(model.num_tokens))
        makers = Makers(make_sampler, make_drafter, make_beams) if can_share else Makers(make_sampler)
        self._intake = Intake(model, makers, vocabulary, cells.num_cells, 1)
        self._go_on_in(context, cells, keeper, context_tokens)

    def _go_on_in(self, context: Context, cells: Cells, keeper: Keeper | None, context_tokens: int) -> None:
        self._steps = Steps(self._lasting, context, cells, keeper)
        self._steps.admission.share_steps(self._sharing)
        self._steps.threads_for = self._threads_for
        self.bound(context_tokens)

    @property
    def shortage(self) -> NoRoomToCompute | None:
        """Set if there was no room for the last batch: moving to a context with room before the next step saves all."""
        return self._steps.shortage

    @property
    def has_work(self) -> bool:
        """Whether `step` has something to compute or to report."""
        groups = self._groups
        return bool(groups.running or groups.waiting or groups.closing or self._events)

    @property
    def only_closes(self) -> bool:
        """Whether only last tokens of ended answers are left to compute."""
        return bool(self._groups.closing) and not (self.is_asked or self._events)

    @property
    def is_asked(self) -> bool:
        """Whether any request has not ended."""
        return bool(self._groups.running or self._groups.waiting)

    @property
    def cells(self) -> Cells:
        """All cells of its context; code that takes some while the loop is idle must return them."""
        return self._steps.cells

    @property
    def most_running(self) -> int:
        """How many sequences may write at a time."""
        return self._steps.most_running

    @property
    def wanted_cells(self) -> int:
        """How many cells a request needs that would otherwise end for lack of them; 0 if there is none.

        Nothing is computed until `move` to a larger context, or `give_up_on_more_cells`.
        """
        return self._lasting.shortage.wanted_cells

    def share_steps(self, sharing: QueueSharing | None) -> None:
        """Runs as many of the scripts' questions at a time as `sharing` says; None: as many as fit into the cells."""
        self._sharing = sharing
        self._steps.admission.share_steps(sharing)

    def share_cores(self, threads_for: ThreadsFor) -> None:
        """Sets the function that chooses the threads of each pass, given the seconds that it reads prompts."""
        self._threads_for = self._steps.threads_for = threads_for

    @property
    def running(self) -> list[str]:
        """Requests that have cells, in order of arrival."""
        return [group.request_id for group in self._groups.running]

    @property
    def num_unread(self) -> int:
        """The number of requests whose prompt is still to be read, of those that need not wait for others to end."""
        groups = self._groups
        waiting = () if self._steps.admission.lacks_cells else groups.waiting
        return sum(not group.has_read_prompt for group in (*groups.running, *waiting))

    @property
    def is_writing(self) -> bool:
        """Whether an answer is being written, that is, has cells and a completely read prompt."""
        return any(group.has_read_prompt for group in self._groups.running)

    @property
    def num_steps(self) -> int:
        """The number of batches computed so far."""
        return self._lasting.tally.steps

    @property
    def saved_bytes(self) -> int:
        """RAM that preempted requests are saved in."""
        return self._steps.residence.saved_bytes

    @property
    def spilled_bytes(self) -> int:
        """Disk space that preempted requests are saved in."""
        return self._steps.residence.spilled_bytes

    @property
    def closing(self) -> frozenset[str]:
        """Ended requests whose last token is still to be computed and kept."""
        return frozenset(group.request_id for group in self._groups.closing)

    def submit(self, request: Request) -> None:
        """Queues a request; a later step reports how it ends, even if it cannot be run.

        Raises:
            ValueError: A request with the same id has not ended.
        """
        if self._groups.find(request.request_id) is not None:
            raise ValueError(f"request {request.request_id} is being carried out already")
        try:
            self._groups.add(self._intake.take(request, self._lasting.timing.clock()))
            self._steps.admission.look_again()
        except RagdollError as error:
            self._events.append(RequestFailed(request.request_id, error))

    @property
    def next_up(self) -> list[str]:
        """Requests that have not begun and may be next, in their order."""
        return [group.request_id for group in self._steps.admission.next_up]

    def being_read(self, request_id: str) -> tuple[tuple[Segment, ...], ...]:
        """Returns the prompts being read that this request waits for because they share its beginning."""
        group = self._groups.find(request_id)
        return tuple(other.request.segments for other in self._steps.admission.being_read(group)) if group else ()

    def replace(self, request: Request, of: str | None = None) -> bool:
        """Replaces a request that has not begun; returns False if that is impossible.

        `of` is the id of the replaced request, if it is not the same.
        """
        group = self._groups.find(request.request_id if of is None else of)
        if group is None or group.status is not SequenceStatus.WAITING:
            return False
        try:
            other = self._intake.take(request, group.waiting_since)
        except RagdollError:
            return False
        self._steps.admission.let_go(group)
        other.arrival, other.times_passed, other.makes_do = group.arrival, group.times_passed, group.makes_do
        self._groups.exchange(group, other)
        self._steps.admission.look_again()
        return True

    def read_so_far(self, request_id: str) -> ReadSoFar:
        """Returns the computed part of a prompt that is being read."""
        group = self._groups.find(request_id)
        return ReadSoFar(group.request.segments, group.lead.num_computed) if group is not None else ReadSoFar()

    def amend(self, request: Request, of: str | None = None) -> bool:
        """Turns a request whose prompt is being read into this one; what it has read stays, even half a passage.

        Nothing of its answer has been written yet, so sampling and id may differ: `of` is its present id, if that is
        not the same. A request that has not begun is replaced.

        Returns False if it is impossible: the request has read more than the common beginning, or all of its prompt, or
        is not being read; or more of the new prompt is kept, or several answers begin.
        """
        group = self._groups.find(request.request_id if of is None else of)
        if group is None or group.status is SequenceStatus.WAITING:
            return self.replace(request, of)
        read = self.read_so_far(group.request_id)
        is_reading = group.status is SequenceStatus.RUNNING and not group.has_read_prompt
        stays = read.is_of_use_to(request.segments) and read.num_tokens < request.num_tokens
        if not is_reading or not stays or self._steps.num_kept(request.segments) > read.num_tokens:
            # If more is kept than was read, a request that starts anew has that at once.
            return False
        try:
            other = self._intake.take(request, group.waiting_since)
        except RagdollError:
            return False
        if not group.can_go_on_with(other):
            return False
        self._groups.go_on_with(group, other)
        # Requests that waited for its former prompt may no longer have to.
        self._steps.admission.look_again()
        return True

    def close_answers(self) -> None:
        """Keeps the computed part of ended answers now, without computing their last tokens."""
        for group in list(self._groups.closing):
            self._steps.ending.close_answer(group)

    def written(self, request_id: str) -> Written | None:
        """Returns what a request with one answer has written so far; None if nothing can be appended to it.

        Nothing can be appended before the first token, after the last one, between an insertion and the next token,
        while text is held back, for several answers, beams and grammars, and with models that cannot share prefixes.
        """
        return self._appending.written(request_id)

    def append(self, request_id: str, segments: Sequence[Segment], max_tokens: int) -> bool:
        """Inserts text into an answer, which continues as if its prompt were what was written and this text.

        The text is read in chunks like a prompt before the next token is chosen. It is not part of the answer: it is
        not reported, counted or penalised, and what was written before stays.

        Args:
            request_id: A request whose answer is being written.
            segments: The text to read.
            max_tokens: The most tokens of the whole answer, unless it was allowed fewer before.

        Returns:
            Whether it will be read; not if `written` returns None, or if it does not fit into the cells.
        """
        return self._appending.append(request_id, segments, max_tokens)

    def cancel(self, request_id: str) -> None:
        """Ends a request and frees what it holds; does nothing if it has already ended."""
        group = self._groups.find(request_id)
        if group is not None:
            self._steps.ending.cancel(group)

    def answers_of(self, request_id: str) -> tuple[Written, ...]:
        """Returns what is written of a request's answers by now; nothing once it has ended."""
        group = self._groups.find(request_id)
        return self._steps.ending.written(group) if group is not None else ()

    def step(self) -> list[StepEvent]:
        """Computes one batch; returns what happened since the last step."""
        batch = self._steps.schedule()
        rows = self._steps.run(batch)
        self._steps.write(batch, rows)
        return self.take_events()

    @property
    def needs(self) -> Needs:
        """What a context must have so that all requests can continue in it."""
        return needs_of(self._groups, self._steps.admission.most_cells)

    @property
    def cells_soon(self) -> int:
        """The cells that the largest running request needs for a while."""
        return min(self._steps.admission.most_cells, max(map(cells_soon, self._groups.running), default=0))

    def set_aside(self, room_bytes: int, disk_folder: Path | None = None) -> None:
        """Takes all requests out of the cells without ending them, because the context is about to be closed.

        The keeper must have released its cells before; what it kept is found again.

        Args:
            room_bytes: The most memory that may hold what was computed.
            disk_folder: The folder for the rest; without it, or if that is faster, the rest is computed again.
        """
        self._steps.admission.set_aside(room_bytes, disk_folder)

    def save_to(self, disk_folder: Path | None) -> None:
        """Saves the KV of requests that wait for cells to this folder from now on; None: to memory."""
        self._steps.residence.disk_folder = disk_folder
        if disk_folder is not None:
            for group in self._groups.waiting:
                self._steps.residence.spill(group, disk_folder)

    def move(
        self,
        context: Context,
        cells: Cells,
        keeper: Keeper | None,
        can_load: bool = True,
        context_tokens: int = 0,
    ) -> None:
        """Continues in another context with all requests that were set aside; the next steps give them cells.

        Args:
            context: An empty context, of the same model, which may have been reloaded.
            cells: All of its cells.
            keeper: Keeps the KV of prompts in it.
            can_load: Whether saved KV fits the new context; otherwise all of it is computed again.
            context_tokens: The most tokens of a prompt with its answer from now on.
        """
        before = self._steps.residence
        for group in self._groups.waiting:
            if not can_load:
                before.forget_saved(group)
                self._steps.admission.let_go(group)
            for sequence in group.sequences:
                sequence.renew()
        self._go_on_in(context, cells, keeper, context_tokens)
        self._steps.residence.take_over(before)

    def give_up_on_more_cells(self) -> None:
        """Makes requests that lack cells end with the present ones, because there is no room for a larger context.

        A longer prompt ends at once, instead of waiting until all others have ended and being read in vain. Later
        requests may find room.
        """
        for group in self._lasting.shortage.make_do(self._steps.cells.num_cells):
            if self._groups.find(group.request_id) is group:
                self._steps.ending.cut(group)

    def bound(self, context_tokens: int) -> None:
        """Limits a prompt with its answer to this many tokens, or to the number of cells if that is larger."""
        most_cells = max(self._steps.cells.num_cells, context_tokens)
        self._intake.resize(most_cells, self.most_running)
        self._appending = Appending(self._groups, most_cells, self._lasting.can_share)
        self._steps.admission.most_cells, self._lasting.shortage.wanted_cells = most_cells, 0

    def counters(self) -> LoopCounters:
        """Returns totals of what it has done, and what it holds now."""
        return count(self._groups, self._steps.cells, self._steps.residence.saved_bytes, self._lasting.tally)

    def close(self) -> list[StepEvent]:
        """Cancels everything and frees it; returns the last events."""
        groups = [*self._groups.running, *self._groups.waiting]
        close_all(*(partial(self._steps.ending.cancel, group) for group in groups), self._steps.admission.drop_closing)
        return self.take_events()

    def take_events(self) -> list[StepEvent]:
        """Returns the events since the last step, for callers that compute nothing now."""
        # The list is shared with the parts that add to it.
        events = self._events.copy()
        self._events.clear()
        return events
