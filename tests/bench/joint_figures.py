"""What the bench of the whole engine makes of a moving load: rates by phase, and ours beside fixed ways to share."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Self

# The model and the index are so much larger than what there is memory for.
MODEL_FACTOR, INDEX_FACTOR = 1.2, 4.0
# At least: of the best fixed way in each phase, and of the best single one over all of them.
PER_PHASE, OVER_ALL = 0.95, 1.2
BOUNDS = {"best_static_per_phase": PER_PHASE, "best_static": OVER_ALL, "worst_static": OVER_ALL}


@dataclass(frozen=True, slots=True)
class Phase:
    """So many questions are open at a time, until so many were answered."""

    name: str
    at_once: int
    answers: int


@dataclass(frozen=True, slots=True)
class Split:
    """A way to share memory out that stays as it is.

    `at_once` answers have cells, `index_share` of the index's budget (a fourth of it, `INDEX_FACTOR`) is in memory,
    and the model gets `model_share` of what is left: 1 is all of it.
    """

    at_once: int
    index_share: float
    model_share: float = 1.0

    def told(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True, slots=True)
class Answered:
    """What became of a phase: seconds from its first question to its last answer, and of each answer.

    What lay where at its end, and how often memory's limit was hit meanwhile, is told with it.
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
    """Answers a minute over all phases."""
    return 60 * sum(len(phase.latencies) for phase in course) / math.fsum(phase.seconds for phase in course)


def named_ratios(adaptive: Course, static: Mapping[str, Course]) -> dict[str, float]:
    """Ours ÷ the best and the worst fixed way over all phases, and ÷ the best one of each phase, the worst of these."""
    rates = [rate(course) for course in static.values()]
    phases = range(len(adaptive))
    best = [max(course[place].answers_per_minute for course in static.values()) for place in phases]
    return {
        "best_static": rate(adaptive) / max(rates),
        "worst_static": rate(adaptive) / min(rates),
        "best_static_per_phase": min(adaptive[place].answers_per_minute / best[place] for place in phases),
    }


def figures(phases: Sequence[Phase], course: Course) -> dict[str, float]:
    """Of one way, by the name of the phase."""
    found = {"answers_per_min": rate(course)}
    for number, (phase, answered) in enumerate(zip(phases, course, strict=True), start=1):
        name = f"{number}_{phase.name}"
        found[f"{name}_answers_per_min"] = answered.answers_per_minute
        found[f"{name}_latency_s"] = answered.mean_latency
        found[f"{name}_pinned_layers"] = float(answered.pinned_layers)
        found[f"{name}_index_bytes"] = float(answered.index_bytes)
        found[f"{name}_limit_hits"] = float(answered.limit_hits)
    return found
