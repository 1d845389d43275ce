"""End-to-end latency of questions under load: our engine beside serial, batched and llama-server baselines.

    python -m tests.bench.serving [--quick] [--json FILE] [--csv FILE] [--plot FOLDER] [--peers FOLDER]
                                  [--regime NAME…] [--only NAME…] [--load NAME…] [--questions N] [--seeds N]
                                  [--all-ablations] [--disk-rate MB] [--runs FILE [--resume]]

All sides get the same model file, documents, questions, arrival times, lengths and passages. A peer searches in its own
way and with its own latency; its model then reads the passages that our search finds. The library consists of real
documents with many synthetic vectors beside them. Questions are about places in the documents, chosen by Zipf's law;
how much is read and written follows the Azure conversations of 2023, scaled to the machine. Each load starts with a new
process and without cached KV.

Loads: `poisson_<f>`, a Poisson process whose rate goes 4 → 16 → 4, on average f times the rate at which `serial`
answers one by one, which is measured first (`alone`). Most ratios are taken at f = .9; at 1.2 the system is overloaded.
`azure_0.9` has the arrival times of the conversation trace, `code_0.9` those of the code trace (long prompts, short
answers). `poisson_own` has .9 of the rate that `serial_batched` manages itself.

Regimes: `fits`: model and index have room. `oversubscribed`: the model is 1.2 times as large as the control group's
memory limit, which also covers everything else that a side holds, and the index is four times its budget. `scarce`: the
same with a model of 1.7 times the limit, at one rate. In both, the model has several GB: with a smaller one, libraries
would take most of the limit.

Sides:

- `ours`: the engine as it is. Answers are sampled, so that drafts gain nothing from a random model's repetitions.
- `serial_batched`: RAGDoll's own baseline, in our engine. The waiting questions, at most 4, are searched as a gang,
  answered as a gang, and only then follows the next. KV is cleared between gangs, as in RAGDoll.
- `serial`: one question at a time, with sentence-transformers → LanceDB → llama-cpp-python.
- `llama_server`: four slots (two with fewer cells where memory is short) and its prompt cache; retrieval like `serial`,
  before each request.
- `llama_server_with_ring`: llama-server's methods in our engine, plus our streaming of weights: four answers at once in
  batches filled up with prompts, fixed memory, a KV cache as large as its prompt cache, no drafts, passages in the
  order found, questions searched one by one with an embedder in torch.
- `langchain`: LangChain, Chroma and llama-cpp-python, combined as documented. It searches the documents only, without
  the synthetic vectors.
- `accelerate`: transformers with Accelerate's disk offload, with as many layers of as many bytes, one question at a
  time. It is asked fewer questions, and compared by those.
- `ondisk_index`: ours, with LanceDB's index on the disk instead of resident partitions.
- Ablations, ours without one mechanism: `no_pipeline` (the next search waits until all answers are written),
  `static_batch` (memory planned for four answers), `no_tree` (no KV cache), `no_ring` (the kernel pages in missing
  weights), `next_layer_only` (a ring of two whole layers), `no_pieces` (no prompt is read beside answers that wait for
  the disk), `no_residency_control` (the index gets exactly its budget), `no_speculation` (no prompt is read during its
  search; on a processor, that happens only during searches of half a second and more, which are rare here, so there it
  shows how much two runs of the same engine differ), `no_drafting` (see `ours`).

Ratios are mean latencies, theirs ÷ ours, paired by seed; the median over the seeds counts. Names end with `_fits` or
`_scarce` in these regimes:

- `<side>`: at .9; `<side>_azure`, `<side>_code`: at the trace's arrival times.
- `serial_overload`: of `serial` at 1.2.
- `serial_batched_own_rate`: at `poisson_own`, which is RAGDoll's own comparison. At .9 of what `serial` manages, gangs
  are loaded to little more than a half.
- `one_at_a_time`: of `serial`, when each question comes after the previous answer.

Lower bounds are in serving_figures.py. For ablations, the 95 % bootstrap interval of the ratio is shown; where memory
is short (`oversubscribed`), it must lie above 1 for all but the last two. For peers with a bound, p95 and maximum
latency must not be lower than ours. At 1.2, our waiting time is at most .15 of that of `serial`, and the busier of both
stages is idle for at most .3 of the time.

A peer that cannot be installed or fails is left out from then on, as is a load at which `serial` or ours fails. Exit
code 1 if a bound does not hold or was not measured, 2 if memory cannot be limited or the data is missing. `--quick` (a
small model that fits, one seed, few short answers and sides, within five minutes) checks no bounds; with `--regime
oversubscribed`, it measures that regime in about an hour, with a smaller library. A full run takes longer than most
machines are left alone: results are written after each load, and `--resume` skips everything that the file of `--runs`
has.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from engine.config import Home
from engine.memory.bandwidth import measured
from engine.memory.measured import table_key
from engine.memory.profile import Profile
from engine.memory.profile_file import load_profile, profile_file
from engine.models.gguf import read_shape
from tests.bench import accelerate_peer, ending, peer_environment, peers, report, serving_langchain_side, serving_plot
from tests.bench.azure import CODE, CONVERSATIONS, read_lengths
from tests.bench.bench_model import LEAN, SIX_HUNDRED_MILLION, THREE_BILLION, Shape, bench_model
from tests.bench.command_line import parser_of, within_group
from tests.bench.confined import Group, forget_pages
from tests.bench.disk_rate import add_disk_rate_option
from tests.bench.given_text import vocabulary_of
from tests.bench.heat_map import write_csv
from tests.bench.joint_library import joint_library
from tests.bench.llama_weights import comparable, weights_folder
from tests.bench.our_generation import num_threads, told
from tests.bench.peers import PeerFailed
from tests.bench.real_library import DOCUMENTS, Library, read_library
from tests.bench.serving_evidence import CONTEXT_TOKENS, with_evidence
from tests.bench.serving_figures import (
    ALONE,
    AT_ONCE,
    BATCHED,
    BOUNDS,
    ENDS,
    JUDGED,
    MOST,
    OURS,
    OWN_RATE,
    RECORDED,
    REGIMES,
    SERIAL,
    Found,
    Key,
    Regime,
    Run,
    bound,
    bounds_of,
    by_side,
    capacity_per_s,
    gang_capacity_per_s,
    in_overload,
    judged_beside,
    named_ratios,
    phase_lines,
    promised,
    rows,
    table,
    tails,
    without_one_thing,
)
from tests.bench.serving_library import Libraries, fresh, libraries
from tests.bench.serving_load import Arrivals, Asked, Extent, Load, arrivals_of, places, questions, read_stamps
from tests.bench.serving_ways import SCARCE_CACHE_MIB, WAYS
from tests.bench.side_process import Limit, SideProcess
from tests.bench.simulated_runs import SIDES as SIMULATED
from tests.bench.simulated_runs import Planned, Steps, resumed, write_runs

# Size of the model as a multiple of the memory limit, and of the index as a multiple of its budget.
MODEL_FACTORS: Mapping[Regime, float] = {"oversubscribed": 1.2, "scarce": 1.7}
INDEX_FACTOR = 4.0
# More than any machine of this bench needs.
_PLENTY = 64 * 2**30
# A model of several GB takes longer than five minutes.
QUICK_REGIMES: tuple[Regime, ...] = ("fits",)
NUM_PLACES = 100

PEERS = (BATCHED, SERIAL, "llama_server", "llama_server_with_ring", "langchain", "accelerate", "ondisk_index")
ABLATIONS = (
    "no_pipeline",
    "static_batch",
    "no_tree",
    "no_ring",
    "next_layer_only",
    "no_pieces",
    "no_residency_control",
    "no_speculation",
    "no_drafting",
)
# These loads cannot show their effect: answers are sampled, and on a processor prompts are read early only during long
# searches.
GAINS_NOTHING = frozenset({"no_speculation", "no_drafting"})
# Sides that make no difference where model and index have room.
SHORT_OF_MEMORY_ONLY = frozenset(
    {"llama_server_with_ring", "accelerate", "no_ring", "next_layer_only", "no_pieces", "no_residency_control"}
)


@dataclass(frozen=True, slots=True)
class Size:
    """`questions` of a load, `alone` for measuring capacity, `few` for sides on which many would take days.

    `factors` are the rates of the load curve; the sides in `curve` get all of them. `recorded`: the traces whose
    arrival times are used as well; besides `curve`, the sides with a bound there get them. `all_ablations`: ablations
    with every seed.
    """

    shapes: Mapping[Regime, Shape]
    chunks: int
    vectors: int
    extents: Mapping[Regime, Extent]
    questions: Mapping[Regime, int]
    alone: int
    few: int
    seeds: tuple[int, ...]
    factors: Mapping[Regime, tuple[float, ...]]
    sides: Mapping[Regime, tuple[str, ...]]
    curve: tuple[str, ...]
    recorded: Mapping[Regime, tuple[Arrivals, ...]]
    all_ablations: bool = False


_EVERYBODY = (OURS, *PEERS, *ABLATIONS)
_CURVE = (0.5, 0.7, 0.9, 1.2, 1.5)
# Names for `--load`; `poisson_own` is otherwise measured only as part of a complete curve.
LOADS = (*(Load("poisson", factor).name for factor in _CURVE), *RECORDED.values(), OWN_RATE)
# Share of its own capacity, as .9 is of the serial peer's.
OWN_FACTOR = 0.9
# For a model five times as large, whose prompts take five times as long to read.
_OF_THREE_BILLION = Extent(prompt_tokens_per_passage=1024, most_passages=2, answer_divisor=8, most_answer_tokens=32)
FULL = Size(
    shapes={"fits": SIX_HUNDRED_MILLION, "oversubscribed": THREE_BILLION, "scarce": THREE_BILLION},
    chunks=1_500,
    vectors=1_000_000,
    extents={
        "fits": Extent(prompt_tokens_per_passage=512, most_passages=3, answer_divisor=8, most_answer_tokens=48),
        "oversubscribed": _OF_THREE_BILLION,
        "scarce": _OF_THREE_BILLION,
    },
    questions=dict.fromkeys(REGIMES, 100),
    alone=16,
    few=6,
    seeds=(1, 2, 3),
    factors={"fits": _CURVE, "oversubscribed": _CURVE, "scarce": (0.9,)},
    sides={
        "fits": tuple(side for side in _EVERYBODY if side not in SHORT_OF_MEMORY_ONLY),
        "oversubscribed": _EVERYBODY,
        "scarce": (OURS, "serial_batched", SERIAL, "llama_server", "llama_server_with_ring"),
    },
    curve=(OURS, SERIAL, "serial_batched", "llama_server"),
    recorded={"fits": ("azure", "code"), "oversubscribed": ("azure", "code"), "scarce": ()},
)
_ONE_PASSAGE = replace(_OF_THREE_BILLION, most_passages=1)
SMALL = Size(
    shapes={"fits": LEAN, "oversubscribed": THREE_BILLION, "scarce": THREE_BILLION},
    chunks=300,
    vectors=200_000,
    extents={
        "fits": Extent(prompt_tokens_per_passage=1024, most_passages=1, answer_divisor=24, most_answer_tokens=8),
        "oversubscribed": _ONE_PASSAGE,
        "scarce": _ONE_PASSAGE,
    },
    questions={"fits": 40, "oversubscribed": 12, "scarce": 12},
    alone=8,
    few=1,
    seeds=(1,),
    factors=dict.fromkeys(REGIMES, (0.9,)),
    sides={
        "fits": (OURS, SERIAL, "serial_batched", "llama_server"),
        "oversubscribed": (OURS, SERIAL, "serial_batched"),
        "scarce": (OURS, SERIAL, "serial_batched"),
    },
    curve=(),
    recorded=dict.fromkeys(REGIMES, ()),
)


@dataclass(frozen=True, slots=True)
class Step:
    """A load for one side."""

    side: str
    load: Load
    seed: int


def steps(size: Size, regime: Regime, sides: Sequence[str], loads: Sequence[str] = ()) -> Iterator[Step]:
    """Yields all measurements of a regime in order: first those that determine rates, then load by load over all sides.

    With `loads`, only these; otherwise the load at the gangs' own rate is left out where there is no curve.
    """
    alone = [SERIAL, OURS, *(side for side in sides if side in SIMULATED and side not in (SERIAL, OURS))]
    for seed in size.seeds:
        yield from (Step(side, Load("alone"), seed) for side in alone)
    yield from (step for step in _under_load(size, regime, sides) if not loads or step.load.name in loads)
    has_curve = bool(size.curve) and len(size.factors[regime]) > 1
    if BATCHED in sides and (OWN_RATE in loads or (has_curve and not loads)):
        yield from (Step(BATCHED, Load("at_once"), seed) for seed in size.seeds)
        own = Load("poisson_own", OWN_FACTOR)
        yield from (Step(side, own, seed) for seed in size.seeds for side in (OURS, BATCHED))


def _under_load(size: Size, regime: Regime, sides: Sequence[str]) -> Iterator[Step]:
    for factor in sorted(size.factors[regime], key=lambda factor: Load("poisson", factor).name != JUDGED):
        load = Load("poisson", factor)
        for place, seed in enumerate(size.seeds):
            yield from (Step(side, load, seed) for side in sides if _is_asked(size, side, load, is_first=not place))
    for trace in size.recorded[regime]:
        load, bound_there = Load(trace, 0.9), bounds_of(regime, trace)
        yield from (Step(side, load, size.seeds[0]) for side in sides if side in size.curve or side in bound_there)


def sides_of(size: Size, regime: Regime, only: Sequence[str] | None) -> list[str]:
    """Returns the sides to measure: those of the size, or those named, unless they make no difference in the regime."""
    if not only:
        return list(size.sides[regime])
    named = [side for side in only if regime != "fits" or side not in SHORT_OF_MEMORY_ONLY]
    return list(dict.fromkeys((OURS, SERIAL, *named)))


def left(wanted: Iterable[Step], regime: Regime, found: Found) -> Iterator[Step]:
    """Yields the steps without a result; the results of a load are those of its first seeds."""
    passed = Counter[Key]()
    for step in wanted:
        key = Key(regime, step.side, step.load.name)
        passed[key] += 1
        if passed[key] > len(found.get(key, ())):
            yield step


def _is_asked(size: Size, side: str, load: Load, *, is_first: bool) -> bool:
    """Returns whether a side gets a load with this seed: all at .9; one seed for ablations and most of the curve."""
    if load.name == JUDGED:
        return is_first or size.all_ablations or side not in ABLATIONS
    if load.factor == 1.2:
        return side in size.curve
    return side in size.curve and is_first


@dataclass(slots=True)
class Bench:
    """What is measured, and the results so far."""

    size: Size
    options: argparse.Namespace
    libraries: Libraries
    library: Library
    index_bytes: int
    models: Mapping[Regime, Path]
    profile: Profile
    parent: Group
    interpreters: Mapping[str, Path]
    server: Path | None
    found: dict[Key, list[Run]]
    step_times: dict[Regime, Steps]

    def run(self, regime: Regime) -> None:
        """Measures a regime. Raises PeerFailed if the measurements that determine rates fail."""
        self._rehearse(regime)
        sides = [side for side in sides_of(self.size, regime, self.options.only) if self._is_there(side)]
        failed, dropped = set[str](), set[tuple[str, str]]()
        for step in left(steps(self.size, regime, sides, self.options.load), regime, self.found):
            if step.side in failed or (step.side, step.load.name) in dropped or not self._has_rate(regime, step.load):
                continue
            try:
                self._measure(regime, step)
            except PeerFailed as error:
                if step.side not in (OURS, SERIAL):
                    print(f"\n  {step.side} is left out from now on: {error}", file=sys.stderr)
                    failed.add(step.side)
                elif step.load.name == ALONE:
                    raise
                else:
                    print(f"\n  {step.side} is left out at {step.load.name}: {error}", file=sys.stderr)
                    # Also with all later seeds, because runs of different sides are paired by position.
                    dropped.add((step.side, step.load.name))
            write(self)

    def limit_bytes(self, regime: Regime) -> int:
        if regime not in MODEL_FACTORS:
            return _PLENTY
        return int(self.models[regime].stat().st_size / MODEL_FACTORS[regime])

    def capacity_per_s(self, regime: Regime) -> float:
        """Returns the serial peer's questions per second."""
        alone = self.found[Key(regime, SERIAL, ALONE)]
        return statistics.median(capacity_per_s(run) for run in alone)

    def own_capacity_per_s(self, regime: Regime) -> float:
        """Returns questions per second of `serial_batched` when all questions wait from the start."""
        return statistics.median(map(gang_capacity_per_s, self.found[Key(regime, BATCHED, AT_ONCE)]))

    def _has_rate(self, regime: Regime, load: Load) -> bool:
        """Returns whether the measurement that determines this load's rate exists."""
        return load.name != OWN_RATE or bool(self.found.get(Key(regime, BATCHED, AT_ONCE)))

    def _is_there(self, side: str) -> bool:
        if side == "llama_server":
            return self.server is not None
        return side not in ("langchain", "accelerate") or side in self.interpreters

    def _rehearse(self, regime: Regime) -> None:
        """Measures the model's profile offline, as an engine does once before it is used."""
        with told(f"{regime}: measuring the model"), self._ours(regime, OURS) as side:
            side.ask(measures=True)
        home = Home.under(self.libraries.home(is_on_disk=False))
        self.profile = load_profile(profile_file(home.data)) or self.profile
        steps_now = Steps.of(self.profile.table(table_key(read_shape(self.models[regime]))))
        # Keeps the plans for loads that were measured already as they were then.
        before = self.step_times.get(regime, steps_now)
        self.step_times[regime] = replace(steps_now, planned=before.planned)

    def _measure(self, regime: Regime, step: Step) -> None:
        asked = self._asked(regime, step)
        if step.side not in WAYS:
            home = self.libraries.home(is_on_disk=False)
            with told(f"{regime}: finding what {step.side} is to read"), fresh(home, self.models[regime], self.profile):
                asked = with_evidence(asked, home)
        with (
            told(f"{regime}: {step.side}, {step.load.name}, seed {step.seed}, {len(asked)} questions"),
            self._opened(regime, step.side) as side,
        ):
            heard = side.ask(asked=[one.told() for one in asked], is_alone=step.load.arrivals == "alone")
            self.found.setdefault(Key(regime, step.side, step.load.name), []).append(Run.heard(heard))
            if step.load.name == ALONE and step.side in WAYS:
                planned = Planned.heard(side.ask(plans=True))
                self.step_times[regime] = self.step_times[regime].with_planned(step.side, planned)

    def _asked(self, regime: Regime, step: Step) -> list[Asked]:
        sets_rate = step.load.name in (ALONE, AT_ONCE)
        count = self.size.alone if sets_rate else self.size.questions[regime]
        trace = CODE if step.load.arrivals == "code" else CONVERSATIONS
        stamps, lengths = read_stamps(trace), read_lengths(trace)
        rate = 1.0 if sets_rate else self._capacity_for(regime, step.load)
        arrivals = arrivals_of(step.load, count, rate, stamps, step.seed)
        about = places(self.library, NUM_PLACES)
        asked = list(questions(self.library, about, arrivals, lengths, self.size.extents[regime], step.seed))
        return asked[: self.size.few] if step.side == "accelerate" else asked

    def _capacity_for(self, regime: Regime, load: Load) -> float:
        return self.own_capacity_per_s(regime) if load.name == OWN_RATE else self.capacity_per_s(regime)

    def _opened(self, regime: Regime, side: str) -> AbstractContextManager[SideProcess]:
        if side in WAYS:
            return self._ours(regime, side)
        return self._peer(regime, side)

    @contextmanager
    def _ours(self, regime: Regime, way: str) -> Iterator[SideProcess]:
        model, home = self.models[regime], self.libraries.home(is_on_disk=way == "ondisk_index")
        settings = {
            "home": str(home),
            "model": str(model),
            "num_threads": num_threads(),
            "way": way,
            "index_share": 1.0 if regime == "fits" else 1 / INDEX_FACTOR,
            "first_question": self._first_question,
        }
        limit = Limit(self.limit_bytes(regime), self.parent)
        with (
            fresh(home, model, self.profile),
            SideProcess.started("tests.bench.serving_our_side", settings, limit, is_ours=True) as side,
        ):
            yield side

    @contextmanager
    def _peer(self, regime: Regime, side: str) -> Iterator[SideProcess]:
        model = self.models[regime]
        settings: dict[str, Any] = {
            "model": str(model),
            "table": str(self.libraries.table),
            "num_threads": num_threads(),
            "context_tokens": CONTEXT_TOKENS,
            "is_repacked": regime == "fits",
            "first_question": self._first_question,
        }
        limit = Limit(self.limit_bytes(regime), self.parent)
        with ExitStack() as undo:
            undo.enter_context(fresh(self.libraries.on_disk, model, self.profile))
            if side == "llama_server":
                settings |= {"binary": str(self.server), **_SLOTS[regime]}
            elif side == "langchain":
                settings |= self._of_langchain()
            elif side == "accelerate":
                work = undo.enter_context(tempfile.TemporaryDirectory(dir=self.options.peers))
                settings |= self._of_accelerate(regime, work)
            started = SideProcess.started(_MODULES[side], settings, limit, self.interpreters.get(side))
            yield undo.enter_context(started)

    def _of_langchain(self) -> dict[str, Any]:
        store = self.options.peers / f"chroma-{self.size.chunks}"
        texts = store.with_suffix(".json")
        texts.write_text(json.dumps(self.library.chunks), encoding="utf-8")
        return {"store": str(store), "texts": str(texts)}

    def _of_accelerate(self, regime: Regime, work: str) -> dict[str, Any]:
        weights = weights_folder(self.options.peers, comparable(self.size.shapes[regime]))
        forget_pages(weights / "model.safetensors")
        return {"folder": str(weights), "limit_bytes": self.limit_bytes(regime), "work": work}

    @property
    def _first_question(self) -> str:
        return self.library.texts[0].between(0, 24)


# Two slots with room for most prompts in a few hundred MiB; with four, the process would be killed.
_FEW_SLOTS = {"num_slots": 2, "num_cells": 2560, "cache_mib": SCARCE_CACHE_MIB}
_SLOTS: Mapping[Regime, Mapping[str, int]] = {
    "fits": {"num_slots": 4, "num_cells": 8192, "cache_mib": 8192},
    "oversubscribed": _FEW_SLOTS,
    "scarce": _FEW_SLOTS,
}
_MODULES = {
    SERIAL: "tests.bench.serving_serial_side",
    "llama_server": "tests.bench.serving_server_side",
    "langchain": "tests.bench.serving_langchain_side",
    "accelerate": "tests.bench.serving_accelerate_side",
}


def main(arguments: Sequence[str] | None = None) -> int:
    parser = parser_of("serving", __doc__, quick="small models, few short answers and sides, within five minutes")
    parser.add_argument("--csv", type=Path, metavar="FILE", help="also write a line for each load there (CSV)")
    parser.add_argument("--runs", type=Path, metavar="FILE", help="also keep all questions there (JSON)")
    parser.add_argument("--resume", action="store_true", help="measure only what the file of --runs lacks")
    parser.add_argument("--plot", type=Path, metavar="FOLDER", help="also draw our loads over time there (PNG and CSV)")
    parser.add_argument("--regime", nargs="+", choices=REGIMES, help="only these; all, or with --quick `fits`")
    names = sorted({*PEERS, *ABLATIONS} - {SERIAL})
    parser.add_argument("--only", nargs="+", choices=names, metavar="NAME", help="only these, ours and serial")
    parser.add_argument("--load", nargs="+", choices=LOADS, default=(), metavar="NAME", help="only these loads")
    parser.add_argument("--questions", type=int, metavar="N", help="questions per load")
    parser.add_argument("--all-ablations", action="store_true", help="measure ablations with every seed instead of one")
    parser.add_argument("--seeds", type=int, metavar="N", help="only the first N seeds")
    peers.add_folder_option(parser)
    add_disk_rate_option(parser)
    options = parser.parse_args(arguments)
    if options.resume and options.runs is None:
        parser.error("--resume continues from the file of --runs, so name that file too")
    if options.only and OWN_RATE in options.load:
        options.only = [*options.only, BATCHED]
    options.regime = options.regime or (QUICK_REGIMES if options.quick else REGIMES)
    if not DOCUMENTS.is_dir() or not (CONVERSATIONS.exists() and CODE.exists()):
        print(f"The documents ({DOCUMENTS}) or the traces ({CODE.parent}) are missing.", file=sys.stderr)
        return 2
    return within_group(_measure, options)


def _measure(options: argparse.Namespace, parent: Group) -> int:
    size = SMALL if options.quick else FULL
    if options.questions:
        size = replace(size, questions=dict.fromkeys(REGIMES, options.questions))
    size = replace(size, all_ablations=options.all_ablations)
    if options.seeds:
        size = replace(size, seeds=size.seeds[: options.seeds])
    found, step_times = resumed(options.runs, _conditions(options, size)) if options.resume else ({}, {})
    with told(f"reading {size.chunks} passages of real documents"):
        library = read_library(size.chunks)
    words = vocabulary_of(library)
    models = {regime: bench_model(options.peers, size.shapes[regime], words) for regime in options.regime}
    folder = options.peers / f"joint-{size.chunks}-{size.vectors}"
    with told(f"indexing them with {size.vectors:,} synthetic vectors, unless done before"):
        index_bytes = joint_library(folder, library.files, size.vectors)
        both = libraries(folder)
    with told("measuring the machine's speed, as an idle engine does"):
        profile = measured(Profile(), folder)
    interpreters = _interpreters(options, size)
    server = _server(options, size)
    bench = Bench(
        size, options, both, library, index_bytes, models, profile, parent, interpreters, server, found, step_times
    )
    for regime in options.regime:
        bench.run(regime)
    return 0 if tell(bench) or options.quick else 1


def _conditions(options: argparse.Namespace, size: Size) -> dict[str, Any]:
    """Returns what must be equal in all runs that are compared."""
    return {
        "quick": options.quick,
        "questions": dict(size.questions),
        "disk_rate": options.disk_rate,
        "threads": num_threads(),
        "peers_read": "what ours reads",
    }


def _is_asked_for(name: str, options: argparse.Namespace, size: Size) -> bool:
    """Returns whether a peer that needs preparation is measured at all."""
    return any(name in sides_of(size, regime, options.only) for regime in options.regime)


def _interpreters(options: argparse.Namespace, size: Size) -> dict[str, Path]:
    """Returns the interpreters of peers with an environment of their own, without those that cannot be installed."""
    found = dict[str, Path | None]()
    if _is_asked_for("langchain", options, size):
        folder = options.peers / "langchain"
        wanted = serving_langchain_side.PACKAGES, serving_langchain_side.IMPORTS
        found["langchain"] = peer_environment.python(folder, *wanted)
    if _is_asked_for("accelerate", options, size):
        found["accelerate"] = accelerate_peer.interpreter(options.peers)
    return {name: interpreter for name, interpreter in found.items() if interpreter is not None}


def _server(options: argparse.Namespace, size: Size) -> Path | None:
    if not _is_asked_for("llama_server", options, size):
        return None
    if options.quick and not peers.built(options.peers).exists():
        print("llama-server has not been built, so it is not measured: `python -m tests.bench.peers` builds it.")
        return None
    try:
        return peers.llama_server(options.peers)
    except PeerFailed as error:
        print(f"llama-server is left out: {error}", file=sys.stderr)
        return None


def write(bench: Bench) -> None:
    """Writes the results so far to the requested files."""
    options = bench.options
    if options.csv is not None:
        lines = rows(bench.found, bench.size.seeds)
        heads = dict.fromkeys(name for line in lines for name in line)
        write_csv(options.csv, [{name: line.get(name, "") for name in heads} for line in lines])
    if options.json is not None:
        told_of = by_side(bench.found)
        ours = told_of.pop(OURS, {}) | {f"{regime}_limit_bytes": bench.limit_bytes(regime) for regime in bench.models}
        named = named_ratios(bench.found) | judged_beside(bench.found, ABLATIONS)
        report.write(options.json, ours, told_of, named)
    if options.runs is not None:
        write_runs(options.runs, bench.found, bench.step_times, _conditions(options, bench.size))
    if options.plot is not None:
        _draw(bench)


def _draw(bench: Bench) -> None:
    for key, runs in bench.found.items():
        if key.side == OURS and key.load != ALONE:
            name, folder = f"serving-{key.regime}-{key.load}", bench.options.plot
            serving_plot.write_moments(folder / f"{name}.csv", runs[0])
            seconds = max(one.ended_s for one in runs[0].served)
            title = f"{key.regime}, {key.load}: {len(runs[0].served)} questions"
            serving_plot.draw(folder / f"{name}.png", title, serving_plot.panels(runs[0]), seconds)


def tell(bench: Bench) -> bool:
    """Prints and writes the results; returns whether the bounds hold."""
    write(bench)
    loads = dict.fromkeys(key.load for key in bench.found)
    for regime in bench.options.regime:
        print(f"{regime}: the serial peer answers {60 * bench.capacity_per_s(regime):.1f} questions a minute")
        if bench.found.get(Key(regime, BATCHED, AT_ONCE)):
            print(f"{regime}: in gangs {60 * bench.own_capacity_per_s(regime):.1f}")
        for load in loads:
            print(*table(bench.found, regime, load), sep="\n")
        for line in phase_lines(bench.found, regime):
            print(line)
    named = named_ratios(bench.found)
    binding = bound(named)
    told_below = {f"{side}{end}" for side in ABLATIONS for end in ENDS.values()}
    for name, value in named.items():
        if name not in binding and name not in told_below:
            print(f"  {name:<32} {value:>12.3f}")
    missing = [] if bench.options.quick else report.unmeasured(_promised(bench), named)
    for line in missing:
        print(line)
    held = [report.show_ratios(binding, BOUNDS), not missing]
    for regime in bench.options.regime:
        for side, (line, is_shown) in without_one_thing(bench.found, regime, ABLATIONS).items():
            is_bound = regime == "oversubscribed" and side not in GAINS_NOTHING
            print(f"{line}{': BROKEN' if is_bound and not is_shown else ''}")
            held.append(is_shown or not is_bound)
        held += [_holds(regime, name, value, 1.0, value >= 1.0) for name, value in tails(bench.found, regime).items()]
        held += [
            _holds(regime, name, value, MOST[name], value <= MOST[name])
            for name, value in in_overload(bench.found, regime).items()
        ]
    return all(held)


def _promised(bench: Bench) -> dict[str, float]:
    options = bench.options
    asked = {regime: sides_of(bench.size, regime, options.only) for regime in options.regime}
    return promised(asked, options.load)


def _holds(regime: Regime, name: str, value: float, bound: float, is_kept: bool) -> bool:
    print(f"  {regime}, {name:<32} {value:>8.3f}   bound {bound:g}: {'kept' if is_kept else 'BROKEN'}")
    return is_kept


if __name__ == "__main__":
    sys.exit(ending.run(main))
