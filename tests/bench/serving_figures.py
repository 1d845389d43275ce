"""Figures of the serving bench: latencies and their parts, ratios, intervals and bounds; pure functions."""

from __future__ import annotations

import itertools
import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from itertools import pairwise
from typing import Any, Literal, Self

import numpy as np

from tests.bench.serving_load import PHASES

Regime = Literal["fits", "oversubscribed", "scarce"]
# Suffixes of the ratios' names.
ENDS: Mapping[Regime, str] = {"fits": "_fits", "oversubscribed": "", "scarce": "_scarce"}
REGIMES: tuple[Regime, ...] = tuple(ENDS)
OURS, SERIAL, BATCHED = "ours", "serial", "serial_batched"
# Lower bounds; ratios without one are only shown.
BOUNDS = {
    "serial_batched": 2.5,
    "serial_batched_own_rate": 2.5,
    "serial_overload": 6.0,
    "llama_server": 3.0,
    "llama_server_with_ring": 1.5,
    "ondisk_index": 1.1,
    "one_at_a_time": 0.95,
    "serial_batched_azure": 2.5,
    "llama_server_azure": 3.0,
    "llama_server_with_ring_azure": 1.5,
    "serial_batched_fits": 1.3,
    "serial_batched_own_rate_fits": 1.3,
    "llama_server_fits": 1.2,
    "one_at_a_time_fits": 0.95,
    "serial_batched_azure_fits": 1.3,
    "llama_server_azure_fits": 1.2,
    "one_at_a_time_scarce": 0.95,
}
# Upper bounds: our waiting time in overload ÷ the serial peer's, and the idle share of the busier stage.
MOST = {"overload_waiting": 0.15, "overload_idle": 0.30}
# Quantiles of latency that must not be lower for peers with a bound.
_TAILS = {"p95": 0.95, "max": 1.0}
_RESAMPLINGS = 2_000
# Loads at which ratios are taken: of most sides, of overload, of one question at a time, and of the traces.
JUDGED, OVERLOAD, ALONE = "poisson_0.9", "poisson_1.2", "alone"
RECORDED = {"azure": "azure_0.9", "code": "code_0.9"}
# The load at a rate near the capacity of `serial_batched`, as in RAGDoll; and the load that measures this capacity.
OWN_RATE, AT_ONCE = "poisson_own", "at_once"


@dataclass(frozen=True, slots=True)
class Served:
    """Times of a question, in seconds from the start of its load, and its tokens."""

    arrival_s: float
    retrieval_began_s: float
    retrieval_ended_s: float
    prefill_began_s: float
    first_token_s: float
    ended_s: float
    prompt_tokens: int = 0
    cached_tokens: int = 0
    answer_tokens: int = 0

    @property
    def latency_s(self) -> float:
        return self.ended_s - self.arrival_s

    @property
    def ttft_s(self) -> float:
        return self.first_token_s - self.arrival_s

    @property
    def stages_s(self) -> dict[str, float]:
        """Returns the seconds of each stage; reading a prompt during its search does not count."""
        before_prefill = max(0.0, self.prefill_began_s - self.retrieval_ended_s)
        return {
            "waiting": self.retrieval_began_s - self.arrival_s + before_prefill,
            "retrieval": self.retrieval_ended_s - self.retrieval_began_s,
            "prefill": self.first_token_s - max(self.prefill_began_s, self.retrieval_ended_s),
            "decode": self.ended_s - self.first_token_s,
        }


@dataclass(frozen=True, slots=True)
class Moment:
    """A snapshot: open questions, answers with cells, slots, and bytes.

    KV in memory includes cells and cached KV; KV on the disk is cached only.
    """

    at_s: float
    backlog: int
    answers_at_once: int
    slots: int
    index_bytes: int
    pinned_layers: int
    kv_ram_bytes: int = 0
    kv_disk_bytes: int = 0


@dataclass(frozen=True, slots=True)
class Run:
    """A load and its results. `totals` are a side's own counts; only our side reports `moments`."""

    served: tuple[Served, ...]
    moments: tuple[Moment, ...] = ()
    totals: Mapping[str, float] = field(default_factory=dict)

    @property
    def mean_latency_s(self) -> float:
        return statistics.fmean(one.latency_s for one in self.served)

    def first(self, count: int) -> Run:
        """Returns the results of the first questions."""
        return Run(self.served[:count])

    def told(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def heard(cls, told: Mapping[str, Any]) -> Self:
        return cls(
            tuple(Served(**one) for one in told["served"]),
            tuple(Moment(**one) for one in told["moments"]),
            told["totals"],
        )


@dataclass(frozen=True, slots=True)
class Key:
    """A side, its load and the regime."""

    regime: Regime
    side: str
    load: str


# The runs of all seeds by key, in the order of the seeds.
Found = Mapping[Key, Sequence[Run]]


def percentile(values: Iterable[float], share: float) -> float:
    """Returns the least value that at least `share` of all values do not exceed."""
    ordered = sorted(values)
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)]


def busy_seconds(intervals: Iterable[tuple[float, float]]) -> float:
    """Returns how long at least one of the intervals was open."""
    total, reached = 0.0, -math.inf
    for began, ended in sorted(intervals):
        total += max(0.0, ended - max(began, reached))
        reached = max(reached, ended)
    return total


def shares(served: Sequence[Served]) -> dict[str, float]:
    """Returns each stage's share of the questions' total time."""
    seconds = [one.stages_s for one in served]
    sums = {stage: math.fsum(each[stage] for each in seconds) for stage in seconds[0]}
    total = math.fsum(sums.values())
    return {f"{stage}_share": spent / total for stage, spent in sums.items()}


def idle_shares(served: Sequence[Served]) -> dict[str, float]:
    """Returns the shares of the time from first question to last answer without searching and without generation."""
    span = max(one.ended_s for one in served) - min(one.arrival_s for one in served)
    searched = busy_seconds((one.retrieval_began_s, one.retrieval_ended_s) for one in served)
    generated = busy_seconds((one.prefill_began_s, one.ended_s) for one in served)
    return {"retrieval_idle": 1 - searched / span, "generation_idle": 1 - generated / span}


def figures(run: Run) -> dict[str, float]:
    """Returns the figures of one run."""
    latencies = [one.latency_s for one in run.served]
    first_tokens = [one.ttft_s for one in run.served]
    return {
        "mean_s": run.mean_latency_s,
        "p50_s": percentile(latencies, 0.5),
        "p95_s": percentile(latencies, 0.95),
        "max_s": max(latencies),
        "ttft_mean_s": statistics.fmean(first_tokens),
        "ttft_p95_s": percentile(first_tokens, 0.95),
        **shares(run.served),
        **idle_shares(run.served),
        "prompt_tokens": statistics.fmean(one.prompt_tokens for one in run.served),
        "cached_tokens": statistics.fmean(one.cached_tokens for one in run.served),
        "answer_tokens": statistics.fmean(one.answer_tokens for one in run.served),
        **run.totals,
    }


def medians(runs: Sequence[Run]) -> dict[str, float]:
    """Returns each figure's median over the runs of all seeds."""
    found = [figures(run) for run in runs]
    return {name: statistics.median(one[name] for one in found if name in one) for name in found[0]}


def capacity_per_s(alone: Run) -> float:
    """Returns questions per second, answered one at a time."""
    return 1 / alone.mean_latency_s


def gang_capacity_per_s(at_once: Run) -> float:
    """Returns questions per second when all wait from the start."""
    served = at_once.served
    return len(served) / (max(one.ended_s for one in served) - min(one.arrival_s for one in served))


def ratio(found: Found, regime: Regime, side: str, load: str) -> float | None:
    """Returns their mean latency ÷ ours, the median over seeds; None unless both were measured.

    A side that was asked fewer questions is compared by those.
    """
    ours, theirs = found.get(Key(regime, OURS, load), ()), found.get(Key(regime, side, load), ())
    pairs = [(our, their) for our, their in zip(ours, theirs, strict=False) if our.served and their.served]
    if not pairs:
        return None
    return statistics.median(their.mean_latency_s / our.first(len(their.served)).mean_latency_s for our, their in pairs)


def interval(found: Found, regime: Regime, side: str, load: str) -> tuple[float, float] | None:
    """Returns the 95 % interval of that ratio by bootstrap over seeds and questions.

    Both sides got the same questions at the same times, so questions are drawn in pairs.
    """
    ours, theirs = found.get(Key(regime, OURS, load), ()), found.get(Key(regime, side, load), ())
    pairs = [
        np.array([(our.latency_s, their.latency_s) for our, their in zip(mine.served, others.served, strict=False)])
        for mine, others in zip(ours, theirs, strict=False)
        if mine.served and others.served
    ]
    if not pairs:
        return None
    random, ratios = np.random.default_rng(1), np.empty(_RESAMPLINGS)
    for number in range(_RESAMPLINGS):
        seeds = [pairs[place] for place in random.integers(len(pairs), size=len(pairs))]
        drawn = np.concatenate([each[random.integers(len(each), size=len(each))] for each in seeds])
        ratios[number] = drawn[:, 1].mean() / drawn[:, 0].mean()
    low, high = np.quantile(ratios, (0.025, 0.975))
    return float(low), float(high)


def tails(found: Found, regime: Regime) -> dict[str, float]:
    """Returns p95 and maximum latency of the peers with a bound ÷ ours."""
    end, named = ENDS[regime], dict[str, float]()
    for side in dict.fromkeys(key.side for key in found if key.regime == regime):
        ours, theirs = found.get(Key(regime, OURS, JUDGED), ()), found.get(Key(regime, side, JUDGED), ())
        pairs = [(our, their) for our, their in zip(ours, theirs, strict=False) if our.served and their.served]
        if f"{side}{end}" in BOUNDS and pairs:
            for name, share in _TAILS.items():
                named[f"{name}_{side}{end}"] = statistics.median(
                    percentile((one.latency_s for one in their.served), share)
                    / percentile((one.latency_s for one in our.first(len(their.served)).served), share)
                    for our, their in pairs
                )
    return named


def in_overload(found: Found, regime: Regime) -> dict[str, float]:
    """Returns the figures in `MOST` of a regime; empty if overload was not measured."""
    ours, theirs = found.get(Key(regime, OURS, OVERLOAD), ()), found.get(Key(regime, SERIAL, OVERLOAD), ())
    pairs = [(our, their) for our, their in zip(ours, theirs, strict=False) if our.served and their.served]
    if not pairs:
        return {}
    return {
        "overload_waiting": statistics.median(_waiting_s(our) / _waiting_s(their) for our, their in pairs),
        "overload_idle": statistics.median(min(idle_shares(our.served).values()) for our, _ in pairs),
    }


def _waiting_s(run: Run) -> float:
    return statistics.fmean(one.stages_s["waiting"] for one in run.served)


def named_ratios(found: Found) -> dict[str, float]:
    """Returns the measured ratios under their documented names."""
    named: dict[str, float | None] = {}
    for regime, end in ENDS.items():
        others = dict.fromkeys(key.side for key in found if key.regime == regime and key.side != OURS)
        named |= {f"{side}{end}": ratio(found, regime, side, JUDGED) for side in others if side != SERIAL}
        for trace, load in RECORDED.items():
            named |= {f"{side}_{trace}{end}": ratio(found, regime, side, load) for side in others}
        named[f"serial_overload{end}"] = ratio(found, regime, SERIAL, OVERLOAD)
        named[f"one_at_a_time{end}"] = ratio(found, regime, SERIAL, ALONE)
        named[f"{BATCHED}_own_rate{end}"] = ratio(found, regime, BATCHED, OWN_RATE)
    return {name: value for name, value in named.items() if value is not None}


def bounds_of(regime: Regime, trace: str) -> list[str]:
    """Returns the sides that have a bound at a trace's arrival times."""
    end = f"_{trace}{ENDS[regime]}"
    return [name.removesuffix(end) for name in BOUNDS if name.endswith(end)]


def bound(named: Mapping[str, float]) -> dict[str, float]:
    """Returns the ratios that have a lower bound."""
    return {name: value for name, value in named.items() if name in BOUNDS}


def promised(sides: Mapping[Regime, Sequence[str]], loads: Sequence[str] = ()) -> dict[str, float]:
    """Returns the bounds of what is measured with these sides; with `loads`, of these only."""
    by_load = {JUDGED: "", **{load: f"_{trace}" for trace, load in RECORDED.items()}}
    names = set[str]()
    for regime, asked in sides.items():
        of_sides = [end for load, end in by_load.items() if not loads or load in loads]
        names |= {f"{side}{end}{ENDS[regime]}" for side in asked for end in of_sides}
        names.add(f"one_at_a_time{ENDS[regime]}")
        if not loads or OVERLOAD in loads:
            names.add(f"serial_overload{ENDS[regime]}")
        if BATCHED in asked and (not loads or OWN_RATE in loads):
            names.add(f"{BATCHED}_own_rate{ENDS[regime]}")
    return {name: least for name, least in BOUNDS.items() if name in names}


def without_one_thing(found: Found, regime: Regime, sides: Iterable[str]) -> dict[str, tuple[str, bool]]:
    """Returns a line for each ablation with its ratio and interval, and whether the interval lies above 1."""
    told = dict[str, tuple[str, bool]]()
    for side in sides:
        slower, between = ratio(found, regime, side, JUDGED), interval(found, regime, side, JUDGED)
        if slower is None or between is None:
            continue
        low, high = between
        line = f"  {regime}, {side:<24} {slower:>8.3f}   95 % interval {low:.3f} to {high:.3f}"
        told[side] = (line if low > 1 else f"{line}: not shown", low > 1)
    return told


def judged_beside(found: Found, ablations: Iterable[str]) -> dict[str, float]:
    """Returns what is judged besides the ratios: tails, figures of overload, and the intervals of ablations."""
    told = dict[str, float]()
    for regime, end in ENDS.items():
        told |= tails(found, regime)
        told |= {f"{name}{end}": value for name, value in in_overload(found, regime).items()}
        for side in ablations:
            between = interval(found, regime, side, JUDGED)
            if between is not None:
                told |= dict(zip((f"{side}{end}_low", f"{side}{end}_high"), between, strict=True))
    return told


def phases_of(run: Run, phases: Sequence[float] = PHASES) -> list[dict[str, float]]:
    """Returns how things stood on average over time in each phase of a load whose rate changes; empty without moments.

    A phase ends with the arrival of its share of the questions.
    """
    arrivals, moments = sorted(one.arrival_s for one in run.served), run.moments
    if not moments or not arrivals:
        return []
    shares_come = itertools.accumulate(part / sum(phases) for part in phases)
    ends = [arrivals[min(len(arrivals), max(1, round(share * len(arrivals)))) - 1] for share in shares_come]
    names = ("backlog", "answers_at_once", "slots", "index_bytes", "pinned_layers")
    spans = list(pairwise([0.0, *ends]))
    return [{name: _mean_over(moments, began_s, ended_s, name) for name in names} for began_s, ended_s in spans]


def _mean_over(moments: Sequence[Moment], began_s: float, ended_s: float, name: str) -> float:
    """Returns the mean of a value that holds from each moment to the next."""
    ends = [moment.at_s for moment in moments[1:]] + [max(ended_s, moments[-1].at_s)]
    total = seconds = 0.0
    for moment, until_s in zip(moments, ends, strict=True):
        held_s = max(0.0, min(ended_s, until_s) - max(began_s, moment.at_s))
        total, seconds = total + held_s * getattr(moment, name), seconds + held_s
    return total / seconds if seconds else 0.0


def phase_lines(found: Found, regime: Regime) -> list[str]:
    """Returns a line for each of our loads with a changing rate: how answers, slots and index followed it."""
    lines = []
    for key, runs in found.items():
        if key.regime == regime and key.side == OURS and key.load.startswith("poisson"):
            stood = phases_of(runs[0])
            columns = {
                "answers at once": [f"{phase['answers_at_once']:.2f}" for phase in stood],
                "slots": [f"{phase['slots']:.2f}" for phase in stood],
                "index MiB": [f"{phase['index_bytes'] / 2**20:.1f}" for phase in stood],
                "pinned layers": [f"{phase['pinned_layers']:.1f}" for phase in stood],
            }
            parts = (f"{name} {' → '.join(values)}" for name, values in columns.items())
            lines += [f"  {key.load}, by phases of the rate: {'; '.join(parts)}"] if stood else []
    return lines


def by_side(found: Found) -> dict[str, dict[str, float]]:
    """Returns each side's medians, prefixed with regime and load."""
    told: dict[str, dict[str, float]] = {}
    for key, runs in found.items():
        named = {f"{key.regime}_{key.load}_{name}": value for name, value in medians(runs).items()}
        told.setdefault(key.side, {}).update(named)
    return told


def rows(found: Found, seeds: Sequence[int]) -> list[dict[str, Any]]:
    """Returns a row for each measured load and seed."""
    return [
        {**asdict(key), "seed": seed, "questions": len(run.served), **figures(run)}
        for key, runs in found.items()
        for seed, run in zip(seeds, runs, strict=False)
    ]


def table(found: Found, regime: Regime, load: str) -> list[str]:
    """Returns lines for the terminal: one per side, ours first, with the share of each stage."""
    chosen = {key.side: medians(runs) for key, runs in found.items() if (key.regime, key.load) == (regime, load)}
    if not chosen:
        return []
    columns = ("mean_s", "p50_s", "p95_s", "max_s", "ttft_mean_s", "ttft_p95_s")
    parts = ("waiting", "retrieval", "prefill", "decode")
    heads = [name.removesuffix("_s") for name in columns] + [*parts, "idle r/g", "tokens", "kept"]
    lines = [f"{regime}, {load}:", f"  {'':<24}" + "".join(f"{head:>11}" for head in heads)]
    for side in sorted(chosen, key=lambda side: side != OURS):
        of = chosen[side]
        cells = [f"{of[name]:.3g}" for name in columns]
        cells += [f"{of[f'{part}_share']:.0%}" for part in parts]
        cells.append(f"{of['retrieval_idle']:.0%}/{of['generation_idle']:.0%}")
        kept = of["cached_tokens"] / of["prompt_tokens"] if of["prompt_tokens"] else 0.0
        cells += [f"{of['prompt_tokens']:.0f}", f"{kept:.0%}"]
        lines.append(f"  {side:<24}" + "".join(f"{cell:>11}" for cell in cells))
    return lines
