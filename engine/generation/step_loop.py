"""The step loop: many requests on one context, a batch at a time (vLLM's iteration-level scheduling).

Each step schedules, runs one batch of at most one ubatch, and postprocesses it: everybody who writes gets a token
first, chunks of prompts fill what is left (see scheduler.py). One thread calls everything here. What it guarantees:

- Every request ends in exactly one of `RequestFinished`, `RequestCancelled`, `RequestFailed`, and after that holds no
  cell, no sequence number and no pin. A request that fails (too long, a broken grammar, a batch that cannot be
  computed) fails alone; the others go on.
- A cancel frees everything at once. It is never longer away than one step, and a step is one ubatch.
- Free and used cells make all after every step, and no batch asks for more than are free.
- An answer does not depend on who else is answered, on preemption or on drafts: a preempted request goes on with
  the same tokens and the same sampler, from saved keys and values or from those computed again.
- Nothing starves: waiting makes a request more urgent, and it is passed over at most a few times by its equals.
- With a model that cannot share prefixes nothing is kept, drafted or rewound: its sequences are moved and computed
  whole.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable
from dataclasses import replace

from engine.core import SamplingParams
from engine.errors import BadRequest, DecodeFailed, NoCells, PromptTooLong, RagdollError
from engine.generation.admission import Admission, Groups
from engine.generation.cells import Cells
from engine.generation.context import Context, Stretch
from engine.generation.counters import LoopCounters, Tally
from engine.generation.keeping import Keeper, KeepsNothing
from engine.generation.model import Model
from engine.generation.postprocess import Postprocess, Work
from engine.generation.prefill_profile import PrefillProfile
from engine.generation.request import (
    PromptRead,
    Request,
    RequestCancelled,
    RequestEnded,
    RequestFailed,
    RequestFinished,
    StepEvent,
)
from engine.generation.residence import Residence
from engine.generation.sampler import ChainSampler
from engine.generation.scheduler import Demand, chunk_tokens, pack
from engine.generation.segment import Segment, tokens_of
from engine.generation.sequence import (
    Drafter,
    RowSampler,
    SequenceGroup,
    SequenceStatus,
    TokenSequence,
)
from engine.generation.streaming import TextStream

MakeSampler = Callable[[Model, SamplingParams], RowSampler]
MakeDrafter = Callable[[Request], Drafter | None]
DEFAULT_SWAP_BUDGET_BYTES = 1 << 30


class StepLoop:
    """See the module. The context, its cells and the keeper belong to whoever made them, and outlive the loop."""

    def __init__(
        self,
        model: Model,
        context: Context,
        cells: Cells,
        keeper: Keeper | None = None,
        *,
        make_sampler: MakeSampler = ChainSampler,
        make_drafter: MakeDrafter | None = None,
        swap_budget_bytes: int = DEFAULT_SWAP_BUDGET_BYTES,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        """Starts with nothing to do.

        Args:
            model: What `context` computes with.
            context: Nobody else computes in it; the keeper saves and loads.
            cells: All cells of `context`; the keeper takes some of them too.
            keeper: What keeps prompts; None reads each prompt whole.
            make_sampler: One for each answer.
            make_drafter: What guesses the next tokens of an answer, None where nothing does.
            swap_budget_bytes: The most RAM that preempted requests are saved in.
            clock: Seconds, for ageing and for what is measured.
        """
        self._model, self._context, self._cells = model, context, cells
        self._can_share = model.can_share_prefixes
        self._keeper: Keeper = keeper if keeper is not None and self._can_share else KeepsNothing()
        self._make_sampler, self._make_drafter, self._clock = make_sampler, make_drafter, clock
        self.profile = PrefillProfile()
        self._tally = Tally()
        self._groups = Groups()
        self._residence = Residence(context, cells, self._keeper)
        self._postprocess = Postprocess(context, self._residence, self._tally)
        self._step_tokens = min(context.n_batch, context.n_ubatch)
        self._admission = Admission(
            self._groups,
            cells,
            self._keeper,
            self._residence,
            self.profile,
            self._tally,
            clock,
            max_running=max(1, min(context.num_sequences, self._step_tokens) * 3 // 4),
            swap_budget_bytes=swap_budget_bytes,
        )
        self._events: list[StepEvent] = []
        self._suspects: list[SequenceGroup] = []
        self._num_arrived = 0

    @property
    def has_work(self) -> bool:
        """Whether `step` has something to do or to tell."""
        return bool(self._groups.running or self._groups.waiting or self._events)

    def submit(self, request: Request) -> None:
        """Queues a request; how it ends is told by a later step, also when it cannot be carried out."""
        if self._group(request.request_id) is not None:
            raise ValueError(f"request {request.request_id} is being carried out already")
        try:
            self._check(request)
            group = self._make_group(request)
        except RagdollError as error:
            self._events.append(RequestFailed(request.request_id, error))
        else:
            self._groups.waiting.append(group)

    def cancel(self, request_id: str) -> None:
        """Ends a request and frees what it holds; harmless when it has ended already."""
        group = self._group(request_id)
        if group is not None:
            self._end(group, RequestCancelled(request_id, tuple(sequence.written for sequence in group.sequences)))

    def step(self) -> list[StepEvent]:
        """Computes one batch; returns what happened since the last step."""
        batch = self._schedule()
        if batch:
            since = self._clock()
            rows = self._run(batch)
            if rows is not None:
                self._note_time(batch, self._clock() - since)
                self._write(batch, rows)
                self._tally.note_step(sum(work.wants_token for work in batch), self._clock() - since)
        if self._groups.waiting:
            self._tally.note_busy(self._cells.num_used / self._cells.num_cells)
        events, self._events = self._events, []
        return events

    def counters(self) -> LoopCounters:
        """What it has done, and what it holds now."""
        running, waiting, tally = self._groups.running, self._groups.waiting, self._tally
        held = {group.request_id: _num_cells(group) for group in running}
        counted = sum(sequence.num_computed for group in running for sequence in group.sequences)
        num_preempted = sum(group.status is SequenceStatus.PREEMPTED for group in waiting)
        return LoopCounters(
            num_cells=self._cells.num_cells,
            cells_used=self._cells.num_used,
            cells_saved=max(0, counted - self._cells.num_used),
            cells_by_request=tuple(held.items()),
            num_waiting=len(waiting) - num_preempted,
            num_running=len(running),
            num_preempted=num_preempted,
            swapped_bytes=self._residence.saved_bytes,
            busy_utilisation=tally.busy_utilisation,
            tokens_per_second=tally.tokens_per_second if running else 0.0,
            steps=tally.steps,
            prompt_tokens=tally.prompt_tokens,
            cached_tokens=tally.cached_tokens,
            generated_tokens=tally.generated_tokens,
            drafted_tokens=tally.drafted_tokens,
            accepted_tokens=tally.accepted_tokens,
            preempted_by_swap=tally.preempted_by_swap,
            preempted_by_recompute=tally.preempted_by_recompute,
        )

    def close(self) -> list[StepEvent]:
        """Cancels everything and frees it; returns the last events."""
        for group in [*self._groups.running, *self._groups.waiting]:
            self.cancel(group.request_id)
        events, self._events = self._events, []
        return events

    # Asking: what becomes of a request before it runs.

    def _check(self, request: Request) -> None:
        num_answers = request.sampling.num_answers
        if not request.num_tokens:
            raise BadRequest("There is nothing to continue: the prompt is empty.")
        if not 1 <= num_answers < min(self._context.num_sequences, self._step_tokens) // 2 + 1:
            raise BadRequest(f"{num_answers} answers to one question are more than the engine can write at once.")
        if request.num_tokens + num_answers > self._cells.num_cells:
            raise PromptTooLong(
                f"The question with its passages is {request.num_tokens:,} tokens long, and the context holds "
                f"{self._cells.num_cells:,}.",
                "Ask with fewer passages, or raise the context length in the settings.",
            )

    def _make_group(self, request: Request) -> SequenceGroup:
        sequences: list[TokenSequence] = []
        try:
            for number in range(request.sampling.num_answers):
                sequences.append(self._make_sequence(request, number))
        except RagdollError:
            for sequence in sequences:
                sequence.sampler.close()
            raise
        self._num_arrived += 1
        return SequenceGroup(request, self._num_arrived, sequences, self._clock())

    def _make_sequence(self, request: Request, number: int) -> TokenSequence:
        sampling, tokens = request.sampling, tokens_of(request.segments)
        seed = sampling.seed + number if sampling.seed is not None else secrets.randbits(32)
        sampler = self._make_sampler(self._model, replace(sampling, seed=seed))
        drafter = self._make_drafter(request) if self._make_drafter and self._can_share else None
        stream = TextStream(sampling.stop)
        return TokenSequence(number, tokens, len(tokens), sampler, stream, sampling.max_tokens, drafter)

    def _group(self, request_id: str) -> SequenceGroup | None:
        groups = (*self._groups.running, *self._groups.waiting)
        return next((group for group in groups if group.request_id == request_id), None)

    # Scheduling: who gets cells, and what the batch computes.

    def _schedule(self) -> list[Work]:
        self._make_room()
        if not self._suspects and (misfit := self._admission.admit()) is not None:
            self._cut(misfit)
        return self._pack(self._suspects[:1] or self._groups.running)

    def _make_room(self) -> None:
        due = [num_tokens for group in self._groups.running for _, num_tokens in group.due()]
        if due:
            num_writing = due.count(1)
            num_wanted = min(sum(due), self._step_tokens)
            if (misfit := self._admission.make_room(num_wanted, max(num_writing, 1))) is not None:
                self._cut(misfit)

    def _cut(self, group: SequenceGroup) -> None:
        """Ends a group that has run out of cells with nobody left to give any: answers by their length."""
        if not any(sequence.num_generated for sequence in group.sequences):
            way_out = "Ask again in a while, or raise the context length in the settings."
            self._fail(group, NoCells("The context has no room for this question.", way_out))
            return
        for sequence in group.live:
            sequence.finish_reason = "length"
            self._postprocess.tell(group, sequence, self._events)
        self._finish(group)

    def _pack(self, groups: list[SequenceGroup]) -> list[Work]:
        asked: list[tuple[SequenceGroup, TokenSequence]] = []
        demands: list[Demand] = []
        for group in groups:
            rank = self._admission.rank(group)
            for sequence, num_tokens in group.due():
                asked.append((group, sequence))
                demands.append(Demand(num_tokens, rank, group.arrival, self._draft(group, sequence, num_tokens)))
        num_writing = sum(demand.num_tokens == 1 for demand in demands)
        chunk = self._step_tokens
        if num_writing < len(demands):
            per_token = self.profile.seconds(0, self._step_tokens) / self._step_tokens
            chunk = chunk_tokens(self._step_tokens, num_writing, per_token)
        granted = pack(demands, self._step_tokens, chunk, self._cells.num_free)
        return [
            _work(group, sequence, demand, num_tokens)
            for (group, sequence), demand, num_tokens in zip(asked, demands, granted, strict=True)
            if num_tokens
        ]

    def _draft(self, group: SequenceGroup, sequence: TokenSequence, num_tokens: int) -> int:
        if sequence.drafter is None or num_tokens != 1 or not sequence.num_generated:
            return 0
        room = min(self._step_tokens, sequence.max_tokens - sequence.num_generated - 1)
        sequence.draft = sequence.drafter.draft(sequence.tokens, room) if room > 0 else []
        return len(sequence.draft)

    # Running: one call of llama.cpp.

    def _run(self, batch: list[Work]) -> list[int] | None:
        """Computes the batch; None when it could not be, and every sequence is where it was."""
        try:
            rows = self._context.decode([_stretch(work) for work in batch])
        except NoCells:
            self._give_way(batch)
            return None
        except DecodeFailed as error:
            self._roll_back(batch, error)
            return None
        for work in batch:
            assert work.sequence.held is not None
            self._cells.grow(work.sequence.held, work.num_tokens + work.num_drafted)
        if self._suspects:
            self._suspects.pop(0)
        return rows

    def _give_way(self, batch: list[Work]) -> None:
        """llama.cpp has fewer cells than we counted: the request that came last waits until others have ended."""
        if len(self._groups.running) > 1:
            self._admission.preempt(max((work.group for work in batch), key=lambda group: group.arrival))
        else:
            self._cut(batch[0].group)

    def _roll_back(self, batch: list[Work], error: DecodeFailed) -> None:
        """Forgets what finished ubatches left, and finds out by computing them alone whose batch it was that failed."""
        for work in batch:
            self._residence.trim(work.sequence, work.sequence.num_computed)
        groups = list(dict.fromkeys(work.group for work in batch))
        if len(groups) == 1:
            self._suspects = [group for group in self._suspects if group is not groups[0]]
            self._fail(groups[0], error)
        else:
            self._suspects = groups

    # Postprocessing: tokens, text and ends.

    def _write(self, batch: list[Work], rows: list[int]) -> None:
        for work, row in zip(batch, rows, strict=True):
            if work.group.status is SequenceStatus.FINISHED:
                # Another answer of the request failed in this very step.
                continue
            try:
                self._go_on(work, row)
            except RagdollError as error:
                self._fail(work.group, error)

    def _go_on(self, work: Work, row: int) -> None:
        group = work.group
        if work.wants_token and not group.has_read_prompt:
            self._end_prompt(group)
        if not group.has_forked and len(group.sequences) > 1:
            self._fork(work, row)
        elif work.wants_token and work.sequence.max_tokens > 0:
            self._postprocess.write(work, row, self._events)
        self._end_sequences(group)

    def _fork(self, work: Work, row: int) -> None:
        """Once the prompt is read, every answer goes on from it in cells of its own."""
        group, lead = work.group, work.sequence
        if lead.num_computed < group.prompt_length:
            return
        for sequence in group.live:
            if sequence is not lead:
                self._residence.fork(lead, sequence, group.prompt_length)
        group.has_forked = True
        if work.wants_token:
            for sequence in group.live:
                self._postprocess.begin(group, sequence, row + work.num_tokens - 1, self._events)

    def _end_prompt(self, group: SequenceGroup) -> None:
        group.has_read_prompt = True
        self._tally.prompt_tokens += group.computed_tokens
        self._tally.cached_tokens += group.cached_tokens
        seconds = self._clock() - group.read_since
        self._events.append(PromptRead(group.request_id, group.cached_tokens, group.computed_tokens, seconds))
        held = group.lead.held
        if held is not None:
            self._keeper.keep(group.request.segments, held, group.prefill_seconds, group.computed_tokens)

    def _end_sequences(self, group: SequenceGroup) -> None:
        for sequence in group.sequences:
            if sequence.max_tokens <= 0 and group.has_read_prompt:
                sequence.finish_reason = "length"
            if not sequence.is_live and sequence.held is not None:
                self._keep_answer(group, sequence)
                self._residence.release(sequence)
        if not group.live:
            self._finish(group)

    def _keep_answer(self, group: SequenceGroup, sequence: TokenSequence) -> None:
        held = sequence.held
        written = tuple(sequence.tokens[group.prompt_length : sequence.num_computed])
        if held is None or not written:
            return
        seconds = self.profile.seconds(group.prompt_length, len(written))
        self._keeper.keep([*group.request.segments, Segment(written)], held, seconds, len(written))

    def _finish(self, group: SequenceGroup) -> None:
        self._end(group, RequestFinished(group.request_id, tuple(sequence.written for sequence in group.sequences)))

    def _fail(self, group: SequenceGroup, error: RagdollError) -> None:
        self._end(group, RequestFailed(group.request_id, error))

    def _end(self, group: SequenceGroup, event: RequestEnded) -> None:
        if group.status is SequenceStatus.FINISHED:
            return
        group.status = SequenceStatus.FINISHED
        self._residence.forget(group)
        self._admission.let_go(group)
        for sequence in group.sequences:
            sequence.sampler.close()
        for groups in (self._groups.running, self._groups.waiting, self._suspects):
            if group in groups:
                groups.remove(group)
        self._events.append(event)

    def _note_time(self, batch: list[Work], seconds: float) -> None:
        """Gives each prompt its share of the step's time; a batch of nothing else is a measurement of reading."""
        total = sum(work.num_tokens + work.num_drafted for work in batch)
        for work in batch:
            group = work.group
            if not group.has_read_prompt:
                group.computed_tokens += work.num_tokens
                group.prefill_seconds += seconds * work.num_tokens / total
        if len(batch) == 1 and batch[0].num_tokens > 1:
            work = batch[0]
            self.profile.note(work.sequence.num_computed - work.num_tokens, work.num_tokens, seconds)


def _work(group: SequenceGroup, sequence: TokenSequence, demand: Demand, granted: int) -> Work:
    num_tokens = min(granted, demand.num_tokens)
    wants_token = sequence.num_computed + num_tokens == len(sequence.tokens)
    return Work(group, sequence, num_tokens, granted - num_tokens, wants_token)


def _stretch(work: Work) -> Stretch:
    sequence, start = work.sequence, work.sequence.num_computed
    assert sequence.held is not None
    tokens = sequence.tokens[start : start + work.num_tokens]
    if work.num_drafted:
        tokens = tokens + sequence.draft[: work.num_drafted]
    return Stretch(sequence.held.slot, start, tokens, int(work.wants_token) + work.num_drafted)


def _num_cells(group: SequenceGroup) -> int:
    forked = [sequence for sequence in group.live if sequence.held is not None]
    if not group.has_forked:
        return sum(sequence.num_computed for sequence in forked)
    return group.prompt_length + sum(sequence.num_computed - group.prompt_length for sequence in forked)
