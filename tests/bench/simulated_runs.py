"""Compares measured loads with the simulator's predictions: the error of its mean latencies.

The simulator knows, for each regime: the stage times of one question at a time, of the engine and of its peers; how
much more of the layers a step with several answers reads, from the engine's plans; and, from its measured table, how
much longer such a step computes, and how writing and searching slow each other down. All of this is known before the
first question of a load. Arrivals and lengths are those of the measured load; everything else is predicted.
"""

from __future__ import annotations

import json
import math
import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Self

import numpy as np

from engine.competing import MOST_SLOTS_OF_PROCESSOR
from engine.memory.gangs import QueueSharing as Sharing
from engine.memory.measured import Measured
from tests.bench.peers import PeerFailed
from tests.bench.serving_figures import ALONE, OURS, SERIAL, Key, Regime, Run, Served
from tests.bench.simulated import Question, Stages, gangs, mean_latency_s, pipelined, serial

# Sides that the simulator can model, and the gang size of `serial_batched`.
SIDES, GANG = (OURS, SERIAL, "serial_batched"), 4
# The engine's limit where a processor computes.
MOST_AT_ONCE = MOST_SLOTS_OF_PROCESSOR


@dataclass(frozen=True, slots=True)
class Planned:
    """Bytes of layers that a step of a side reads, as the planner places them (planned_steps.py).

    `alone_bytes`: with the placement for questions one at a time. `streamed_bytes`: with 1, 2, 3, … answers, with the
    placement for that many questions and others to follow, because their KV takes the room of layers. `bytes_per_s` is
    the rate at which layers are read.
    """

    alone_bytes: float = 0.0
    streamed_bytes: tuple[float, ...] = ()
    bytes_per_s: float = 0.0

    @classmethod
    def heard(cls, told: Mapping[str, Any]) -> Self:
        return cls(told["alone_bytes"], tuple(told["streamed_bytes"]), told["bytes_per_s"])

    @property
    def alone_s(self) -> float:
        """Returns the seconds of reading in a step with one answer."""
        return self.alone_bytes / self.bytes_per_s if self.bytes_per_s else 0.0

    def more_s(self, num_answers: int) -> float:
        """Returns how much longer a step with `num_answers` reads; beyond the plans, as with the most planned."""
        if not (self.streamed_bytes and self.bytes_per_s):
            return 0.0
        known = self.streamed_bytes[min(num_answers, len(self.streamed_bytes)) - 1]
        return (known - self.alone_bytes) / self.bytes_per_s


# For sides without plans: a step reads the same with any number of answers.
AS_IT_IS = Planned()


@dataclass(frozen=True, slots=True)
class Steps:
    """What is known about the steps of a regime.

    `planned` is by side. From the measured table, `seconds` are computing times by number of answers where the disk did
    not hide them, and the speeds are those of both stages in parallel.
    """

    seconds: Mapping[int, float] = field(default_factory=dict)
    writing: float = 1.0
    searching: float = 1.0
    planned: Mapping[str, Planned] = field(default_factory=dict)

    @classmethod
    def of(cls, measured: Measured) -> Steps:
        """Creates the steps from the measured table, without plans."""
        seconds = {one.size: one.seconds for one in measured.points if one.kind == "write" and one.seconds}
        best = max(measured.beside, key=lambda one: one.gain, default=None)
        return cls(seconds, *((best.writing, best.searching) if best is not None else (1.0, 1.0)))

    def with_planned(self, side: str, planned: Planned) -> Steps:
        return replace(self, planned={**self.planned, side: planned})

    def times(self, num_answers: int) -> float | None:
        """Returns computing time with `num_answers` ÷ that with one; None if nothing was measured."""
        if not self.seconds:
            return None
        sizes = sorted(self.seconds)
        rates = [math.log(self.seconds[size] / self.seconds[sizes[0]]) for size in sizes]
        if num_answers > sizes[-1]:
            # Beyond the measured sizes, each further answer costs as much as the average one.
            return math.exp(rates[-1]) * num_answers / sizes[-1]
        return math.exp(float(np.interp(math.log(num_answers), np.log(sizes), rates)))


@dataclass(frozen=True, slots=True)
class Compared:
    """A load of a side: simulated and measured mean latency in seconds."""

    key: Key
    simulated_s: float
    measured_s: float

    @property
    def error(self) -> float:
        return abs(self.simulated_s / self.measured_s - 1.0)


def write_runs(
    file: Path,
    found: Mapping[Key, Sequence[Run]],
    step_times: Mapping[Regime, Steps],
    conditions: Mapping[str, Any] | None = None,
) -> None:
    """Writes all questions of all runs, the measured steps of each regime, and the `conditions` common to all."""
    content = {
        "conditions": conditions or {},
        "steps": {regime: asdict(steps) for regime, steps in step_times.items()},
        "runs": [{"key": asdict(key), "runs": [run.told() for run in runs]} for key, runs in found.items()],
    }
    file.parent.mkdir(parents=True, exist_ok=True)
    # Replaced atomically: the file holds hours of measurements.
    beside = file.with_name(f"{file.name}.new")
    beside.write_text(json.dumps(content), encoding="utf-8")
    beside.replace(file)


def read_runs(file: Path) -> tuple[dict[Key, list[Run]], dict[Regime, Steps]]:
    """Reads a file of `write_runs`.

    Raises:
        PeerFailed: The file is missing or invalid; the message says which.
    """
    found, step_times, _ = _read(file)
    return found, step_times


def resumed(file: Path, conditions: Mapping[str, Any]) -> tuple[dict[Key, list[Run]], dict[Regime, Steps]]:
    """Returns earlier measurements, so that a bench can continue an interrupted run; empty without the file.

    Raises:
        PeerFailed: The file was measured under other conditions, or is invalid.
    """
    if not file.exists():
        return {}, {}
    found, step_times, before = _read(file)
    other = [
        f"{name} {before.get(name)} instead of {now}" for name, now in conditions.items() if before.get(name) != now
    ]
    if other:
        raise PeerFailed(f"{file} was measured with {', '.join(other)}: measure into another file.")
    print(f"  {sum(map(len, found.values()))} runs are already in {file}")
    return found, step_times


def _read(file: Path) -> tuple[dict[Key, list[Run]], dict[Regime, Steps], dict[str, Any]]:
    """Reads a file with the conditions under which it was measured."""
    try:
        content = json.loads(file.read_text(encoding="utf-8"))
        found = {Key(**one["key"]): [Run.heard(run) for run in one["runs"]] for one in content["runs"]}
        step_times = {regime: _steps(told) for regime, told in content["steps"].items()}
        return found, step_times, dict(content["conditions"])
    except OSError as error:
        raise PeerFailed(f"{file} cannot be read: {error.strerror or error}.") from error
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise PeerFailed(f"{file} cannot be used: it holds no measured runs ({error}).") from error


def _steps(told: Mapping[str, Any]) -> Steps:
    seconds = {int(size): float(value) for size, value in told["seconds"].items()}
    # Older files have no plans.
    planned = {side: Planned.heard(one) for side, one in told.get("planned", {}).items()}
    return Steps(seconds, told["writing"], told["searching"], planned)


def compared(found: Mapping[Key, Sequence[Run]], steps: Mapping[Regime, Steps]) -> Iterator[Compared]:
    """Yields each load of a side whose stages were measured alone."""
    for key, runs in found.items():
        alone = found.get(Key(key.regime, key.side, ALONE), ())
        if key.side not in SIDES or key.load == ALONE or not alone:
            continue
        of_regime = steps.get(key.regime, Steps())
        stages = stages_of(alone, of_regime, of_regime.planned.get(key.side, AS_IT_IS))
        simulated = [mean_latency_s(_way(key.side, run, stages)(_questions(run), stages)) for run in runs]
        measured = [run.mean_latency_s for run in runs]
        yield Compared(key, statistics.median(simulated), statistics.median(measured))


def stages_of(alone: Sequence[Run], steps: Steps, planned: Planned = AS_IT_IS) -> Stages:
    """Derives stage times from questions answered one at a time, which do not wait for each other.

    All time from a search's end to the first token counts as reading, also where it was reported otherwise because a
    prompt was read ahead or came from the disk. In a step, the time spent waiting for layers can hide prompts. It grows
    with the layers to read, and shrinks with what is computed meanwhile: without a table, each further answer is
    assumed to compute as long as a prompt token.
    """
    served = [one for run in alone for one in run.served]
    num_steps = sum(max(1, one.answer_tokens) for one in served)
    search_s = statistics.fmean(one.stages_s["retrieval"] for one in served)
    read_s = math.fsum(max(0.0, one.first_token_s - one.retrieval_ended_s) for one in served)
    read_s /= max(1, sum(_new_tokens(one) for one in served))
    alone_s = math.fsum(one.stages_s["decode"] for one in served) / num_steps
    waited_s = min(alone_s, math.fsum(run.totals.get("waited_s", 0.0) for run in alone) / num_steps)
    computed_s = alone_s - waited_s
    # If nothing was waited for, reading had this much slack in a step.
    slack_s = waited_s or min(0.0, planned.alone_s - computed_s)

    def computing_s(answers: int) -> float:
        times = steps.times(answers)
        return computed_s + (answers - 1) * read_s if times is None else computed_s * times

    def hidden_s(answers: int) -> float:
        return max(0.0, slack_s + planned.more_s(answers) - (computing_s(answers) - computed_s))

    return Stages(
        lambda count: count * search_s,
        lambda tokens: tokens * read_s,
        lambda answers: computing_s(answers) + hidden_s(answers),
        steps.writing,
        steps.searching,
        hidden_s,
    )


def _questions(run: Run) -> list[Question]:
    ordered = sorted(run.served, key=lambda one: one.arrival_s)
    return [Question(one.arrival_s, _new_tokens(one), max(1, one.answer_tokens)) for one in ordered]


def _new_tokens(one: Served) -> int:
    return max(1, one.prompt_tokens - one.cached_tokens)


def _way(side: str, run: Run, stages: Stages) -> Callable[[Sequence[Question], Stages], list[Any]]:
    if side == SERIAL:
        return serial
    if side != OURS:
        return lambda questions, its: gangs(questions, its, GANG)
    answer_tokens = statistics.fmean(one.answer_tokens for one in run.served)

    sizes = range(1, MOST_AT_ONCE + 1)
    step_seconds, hidden_seconds = [stages.step_s(size) for size in sizes], [stages.hidden_s(size) for size in sizes]

    def best(count: int, read_s: float) -> int:
        return Sharing(count, answer_tokens, step_seconds, hidden_seconds).best(read_s)

    return lambda questions, its: pipelined(questions, its, best)
