"""Our side: a model that the planner places within a memory limit, loaded and used as in the application.

Runs as a side (side_process.py). Settings: `model`; `at_once` answers of at most `context_tokens` each; `num_threads`;
`profile`, the file of the machine's measured speeds, if there is one; `prompt_tokens` and `tokens` of an answer, by
which the planner weighs reading against writing; and `way`, how layers are streamed. All ways but `ours` are simpler:

- `next_layer_only`: two slots, so that one layer is read while another is computed, as in FlexGen.
- `phase_blind`: prompts are read in llama.cpp's default batches, whatever memory these take from the layers and however
  long a pass computes.
- `uncopied`: beside a graphics card, layers in memory are computed by the processor, for prompts as well.

It reports which layers it streams, through how many slots, and its prompt batch size. With `given` tokens it writes
these whatever it computes, with `has_drafts` or without; with `pinned_shares` it changes the share of pinned layers
every `stride` passes while it writes.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, ExitStack, nullcontext
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

from engine.config import Settings
from engine.core import SamplingParams
from engine.generation.cells import Cells
from engine.generation.context import Context
from engine.generation.drafting import PassCosts, PromptLookup
from engine.generation.load_plan import LoadPlan, plan_load
from engine.generation.model import Model, start_backend
from engine.generation.model_leases import ModelLeases
from engine.generation.offloading import tell_backends
from engine.generation.opening import Opening, lack_of_room_told
from engine.generation.request import PromptRead, Request, RequestFailed, RequestFinished, StepEvent
from engine.generation.sampler import ChainSampler, Decoded
from engine.generation.segment import Segment
from engine.generation.step_loop import StepLoop
from engine.generation.weights.packing import Packing
from engine.memory.demand import Backlog, Demand, undecided
from engine.memory.hardware import Hardware, probe, probe_devices
from engine.memory.heap import lean_heap
from engine.memory.ledger import Ledger
from engine.memory.placement import Placement
from engine.memory.planner import plan
from engine.memory.profile import Profile
from engine.memory.profile_file import load_profile
from engine.memory.runtime import Runtime
from engine.memory.spread import Spread
from engine.models.gguf import read_shape
from engine.spinning import Spinning
from tests.bench import process_marks
from tests.bench.confined import Group
from tests.bench.given_tokens import GivenTokens
from tests.bench.measured_answers import MeasuredAnswers, checksum
from tests.bench.our_generation import greedy
from tests.bench.process_marks import Marks
from tests.bench.side_process import Said, group_of, serve
from tests.bench.whole_layers import next_layer_only

# About the lengths that the benches use.
PROMPT_TOKENS, ANSWER_TOKENS = 64, 64
UBATCH_OF_LLAMA_CPP = 512


@dataclass(frozen=True, slots=True)
class Way:
    """How layers are streamed: a change of the planner's placement, and of the ring.

    `n_ubatch` overrides the planner's choice; 0 does not.
    """

    n_ubatch: int = 0
    ring: Callable[[], AbstractContextManager[None]] = nullcontext
    placed: Callable[[Placement], Placement] = lambda placement: placement


WAYS = {
    "ours": Way(),
    "next_layer_only": Way(ring=next_layer_only),
    "phase_blind": Way(n_ubatch=UBATCH_OF_LLAMA_CPP),
    "uncopied": Way(placed=lambda placement: replace(placement, copies_streamed=False)),
}


@dataclass(slots=True)
class Writing:
    """Times while all answers are being written: from the last first token to the first end."""

    unread: set[str]
    begun: float = field(default_factory=time.perf_counter)
    read_seconds: float = 0.0
    pass_seconds: list[float] = field(default_factory=list)
    has_ended: bool = False

    @property
    def is_under_way(self) -> bool:
        return not self.unread and not self.has_ended

    def note(self, events: Sequence[StepEvent], seconds: float) -> bool:
        """Records a step; returns whether it completed the first tokens of all answers."""
        if self.is_under_way:
            self.pass_seconds.append(seconds)
        was_reading = bool(self.unread)
        for event in events:
            match event:
                case PromptRead():
                    self.unread.discard(event.request_id)
                case RequestFinished():
                    self.has_ended = True
                case RequestFailed():
                    raise event.error
        if was_reading and not self.unread:
            self.read_seconds = time.perf_counter() - self.begun
        return was_reading and not self.unread


@dataclass(frozen=True, slots=True)
class Counts:
    """Counters at the moment when writing began or ended."""

    marks: Marks
    num_written: int
    streamed_bytes: int
    waited_seconds: float


class Summed:
    """A sampler that records checksums of the logits by which it chose."""

    def __init__(self, chain: ChainSampler) -> None:
        self._chain = chain
        self.checksums: list[int] = []

    def sample(self, context: Decoded, row: int) -> int:
        self.checksums.append(checksum(context.logits(row)))
        return self._chain.sample(context, row)

    def close(self) -> None:
        self._chain.close()


class OurSide:
    """A loaded model; `close` frees everything."""

    def __init__(self, settings: Said, group: Group | None) -> None:
        self._group, self._ledger, self._costs = group, Ledger(), PassCosts()
        profile = _profile(settings)
        profile = replace(profile, offloads_from_tokens=tell_backends(profile, read_shape(Path(settings["model"]))))
        # The card's driver allocates memory, so it is loaded before the libraries' memory is measured.
        start_backend()
        probe_devices()
        self._runtime = Runtime(self._ledger)
        way = WAYS[settings["way"]]
        with ExitStack() as undo, way.ring():
            planned = planned_for(settings, profile, self._ledger, way.n_ubatch)
            planned = planned.placed(way.placed(planned.placement))
            n_gpu_layers = planned.placement.n_gpu_layers
            self._leases = ModelLeases(self._ledger)
            undo.callback(self._leases.release)

            def load(is_repacked: bool, packing: Packing | None) -> Model:
                with lack_of_room_told():
                    return Model(planned.path, n_gpu_layers, lambda share: True, is_repacked, packing)

            opened = Opening(load, planned.path.parent, self._ledger, self._leases).open(planned)
            self._model, self._stream = opened.model, opened.stream
            self._planned, self.placement = opened.plan, opened.plan.placement
            undo.callback(self._model.close)
            if self._stream is not None:
                undo.callback(self._stream.close)
            self._context = Context(self._model, planned.spec, self._stream)
            undo.callback(self._context.close)
            buffers = self._context.compute_bytes
            self._leases.take_context(planned.shape, self.placement, self._context.num_cells, buffers)
            # Like the application's worker: leaves cores to busy processes instead of spinning.
            self._spinning = Spinning()
            undo.callback(self._spinning.end)
            self._closing = undo.pop_all()

    def write(self, asked: Said) -> MeasuredAnswers:
        """Answers all prompts at once."""
        loop = self._loop(asked)
        try:
            return self._written(loop, asked)
        finally:
            loop.close()
            self._context.clear()

    def held_gpu_bytes(self) -> int:
        """Returns the ledger's bytes on the card."""
        return self._ledger.held_bytes("gpu")

    def close(self) -> None:
        self._closing.close()

    def _loop(self, asked: Said) -> StepLoop:
        given = asked.get("given")
        cells = Cells(self._context.num_cells, self._context.num_sequences)
        return StepLoop(
            self._model,
            self._context,
            cells,
            make_sampler=self._summed if given is None else partial(_given, given),
            make_drafter=partial(PromptLookup, costs=self._costs) if asked.get("has_drafts") else None,
            note_pass=self._costs.note,
        )

    def _summed(self, model: Model, sampling: SamplingParams) -> Summed:
        """Creates a sampler; requests get theirs in the order in which they were submitted."""
        sampler = Summed(ChainSampler(model, sampling))
        self._samplers.append(sampler)
        return sampler

    def _written(self, loop: StepLoop, asked: Said) -> MeasuredAnswers:
        self._samplers: list[Summed] = []
        sampling = greedy(asked["num_tokens"])
        quotable = tuple(asked.get("quotable", ()))
        writing = Writing({str(number) for number in range(len(asked["prompts"]))})
        for number, prompt in enumerate(asked["prompts"]):
            loop.submit(Request(str(number), (Segment(tuple(prompt)),), sampling, quotable=quotable))
        answers: dict[str, tuple[int, ...]] = {}
        before = after = self._counts(loop)
        while loop.has_work:
            begun, is_under_way = time.perf_counter(), writing.is_under_way
            if is_under_way:
                self._move(len(writing.pass_seconds), asked)
            with self._spinning.watched():
                events = loop.step()
            if writing.note(events, time.perf_counter() - begun):
                before = self._counts(loop)
            elif is_under_way:
                after = self._counts(loop)
            answers |= {e.request_id: e.answers[0].tokens for e in events if isinstance(e, RequestFinished)}
        return self._measured(writing, before, after, [answers[request_id] for request_id in sorted(answers, key=int)])

    def _move(self, num_passes: int, asked: Said) -> None:
        """Changes which layers are pinned where that is due; its time counts for the pass that follows."""
        place, rest = divmod(num_passes, asked.get("stride", 1))
        shares = asked.get("pinned_shares", ())
        if self._stream is not None and rest == 0 and place < len(shares):
            layer_bytes = self._planned.shape.layer_bytes
            streamed = Spread.of(layer_bytes).layers(round(len(layer_bytes) * (1 - shares[place])))
            self._stream.retarget(streamed, self.placement.ring_slots)

    def _measured(
        self, writing: Writing, before: Counts, after: Counts, answers: Sequence[tuple[int, ...]]
    ) -> MeasuredAnswers:
        self._ledger.look()
        return MeasuredAnswers(
            tokens=tuple(answers),
            read_seconds=writing.read_seconds,
            pass_seconds=tuple(writing.pass_seconds),
            num_written=after.num_written - before.num_written,
            marks=after.marks.since(before.marks),
            streamed_bytes=after.streamed_bytes - before.streamed_bytes,
            waited_seconds=after.waited_seconds - before.waited_seconds,
            ledger_bytes=self._ledger.held_bytes("ram", is_mapped=False),
            held_bytes=0 if self._group is None else self._group.usage().held_bytes,
            checksums=tuple(tuple(sampler.checksums) for sampler in self._samplers),
        )

    def _counts(self, loop: StepLoop) -> Counts:
        marks, num_written = process_marks.take(self._group), loop.counters().generated_tokens
        if self._stream is None:
            return Counts(marks, num_written, 0, 0.0)
        streamed = self._stream.counters()
        return Counts(marks, num_written, streamed.read_bytes, streamed.waited_seconds)


def planned_for(settings: Said, profile: Profile, ledger: Ledger, n_ubatch: int = 0) -> LoadPlan:
    """Returns how the application would load the model within the limit of this process."""
    at_once, path = settings["at_once"], Path(settings["model"])
    generation = {
        "max_context": settings["context_tokens"],
        "parallel_answers": at_once,
        "num_threads": settings["num_threads"],
        "kv_ram_bytes": 0,
        "kv_disk_bytes": 0,
        "n_ubatch": n_ubatch,
    }
    chosen = Settings.model_validate({"generation": generation})
    # No scheduler here would give a longer answer more cells.
    longest = settings["context_tokens"]
    prompt_tokens, answer_tokens = settings.get("prompt_tokens", PROMPT_TOKENS), settings.get("tokens", ANSWER_TOKENS)
    # The backlog is refilled constantly: for one that nothing follows, a slow processor would answer half of it first.
    backlog = Backlog(0, at_once, prompt_tokens, answer_tokens, refill=1.0, lengths=(longest,))

    def planning(hardware: Hardware, demand: Demand) -> Placement:
        return plan(hardware, profile, backlog, demand)

    def beside(demand: Demand) -> Demand:
        return replace(demand, fixed=undecided(ledger.spans()))

    return plan_load(path, chosen, probe(path.parent, probe_devices()), None, planning, beside)


def _profile(settings: Said) -> Profile:
    known = load_profile(Path(settings["profile"])) if "profile" in settings else None
    return Profile() if known is None else known


def _given(tokens: Sequence[int], model: Model, sampling: SamplingParams) -> GivenTokens:
    return GivenTokens(model, sampling, tokens)


def prepare(settings: Said) -> Callable[[Said], Said]:
    # Like the application; without it, memory that the C library holds unused is counted wrongly.
    lean_heap()
    side = OurSide(settings, group_of(settings))

    def answer(asked: Said) -> Said:
        if not asked:
            placement = side.placement
            return {
                "streamed_layers": list(placement.streamed_layers),
                "ring_slots": placement.ring_slots,
                "is_packed": placement.is_packed,
                "sentence": placement.sentence,
                "n_gpu_layers": placement.n_gpu_layers,
                "n_ubatch": placement.n_ubatch,
                "kv_on_gpu": placement.kv_on_gpu,
                "gpu_bytes": side.held_gpu_bytes(),
            }
        return side.write(asked).told()

    return answer


if __name__ == "__main__":
    serve(prepare)
