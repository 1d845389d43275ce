"""Figures of the joint bench: rates by phase, and ratios to fixed splits."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Self

# Size of the model and of the index, as a multiple of the memory there is for each.
MODEL_FACTOR, INDEX_FACTOR = 1.2, 4.0
# Lower bounds: against the best fixed split of each phase, and against any single one over all phases.
PER_PHASE, OVER_ALL = 0.95, 1.2
BOUNDS = {"best_static_per_phase": PER_PHASE, "best_static": OVER_ALL, "worst_static": OVER_ALL}


@dataclass(frozen=True, slots=True)
class Phase:
    """`at_once` questions are open at a time, until `answers` were answered."""

    name: str
    at_once: int
    answers: int


@dataclass(frozen=True, slots=True)
class Split:
    """A fixed division of memory.

    KV cells exist for `at_once` answers, `index_share` of the index's budget (a quarter of the index, `INDEX_FACTOR`)
    is in memory, and the model gets `model_share` of what is left; 1 is all of it.
    """

    at_once: int
    index_share: float
    model_share: float = 1.0

    def told(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True, slots=True)
class Answered:
    """Results of a phase: seconds from its first question to its last answer, and the latency of each answer.

    Also where things lay in memory at its end, and how often the memory limit was hit.
    """

    seconds: float
    latencies: tuple[float, ...]
    pinned_layers: int
    index_bytes: int
    limit_hits: int
    sentence: str = ""

    @property
    def answers_per_minute(self) -> float:
        return 60 * len(self.latencies) / self.seconds

    @property
    def mean_latency(self) -> float:
        return math.fsum(self.latencies) / len(self.latencies)

    def told(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def heard(cls, told: Mapping[str, Any]) -> Self:
        return cls(**{**told, "latencies": tuple(told["latencies"])})


Course = Sequence[Answered]


def rate(course: Course) -> float:
    """Returns answers per minute over all phases."""
    return 60 * sum(len(phase.latencies) for phase in course) / math.fsum(phase.seconds for phase in course)


def named_ratios(adaptive: Course, static: Mapping[str, Course]) -> dict[str, float]:
    """Returns ours ÷ the best and the worst split over all phases, and the lowest ratio to a phase's best split."""
    rates = [rate(course) for course in static.values()]
    phases = range(len(adaptive))
    best = [max(course[place].answers_per_minute for course in static.values()) for place in phases]
    return {
        "best_static": rate(adaptive) / max(rates),
        "worst_static": rate(adaptive) / min(rates),
        "best_static_per_phase": min(adaptive[place].answers_per_minute / best[place] for place in phases),
    }


def figures(phases: Sequence[Phase], course: Course) -> dict[str, float]:
    """Returns the figures of one side, prefixed with the phase."""
    found = {"answers_per_min": rate(course)}
    for number, (phase, answered) in enumerate(zip(phases, course, strict=True), start=1):
        name = f"{number}_{phase.name}"
        found[f"{name}_answers_per_min"] = answered.answers_per_minute
        found[f"{name}_latency_s"] = answered.mean_latency
        found[f"{name}_pinned_layers"] = float(answered.pinned_layers)
        found[f"{name}_index_bytes"] = float(answered.index_bytes)
        found[f"{name}_limit_hits"] = float(answered.limit_hits)
    return found
