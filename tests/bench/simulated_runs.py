"""Measured loads beside what the simulator makes of them: how far its mean latencies are off.

Of each regime it is told what one question at a time takes in each stage, of the engine and of the serial peer, and by
the engine's measured table how much longer a step of several answers takes, and what writing and searching do to each
other. Everything else follows: moments and lengths are those of the measured load.
"""

from __future__ import annotations

import json
import math
import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from engine.competing import MOST_SLOTS_OF_PROCESSOR
from engine.memory.gangs import Sharing
from engine.memory.measured import Measured
from tests.bench.peers import PeerFailed
from tests.bench.serving_figures import ALONE, OURS, SERIAL, Key, Regime, Run, Served
from tests.bench.simulated import Question, Stages, gangs, mean_latency_s, pipelined, serial

# Sides of which the simulator knows how they work, and the gang of the one that answers in gangs.
SIDES, GANG = (OURS, SERIAL, "serial_batched"), 4
# As the engine has it where a processor computes.
MOST_AT_ONCE = MOST_SLOTS_OF_PROCESSOR


@dataclass(frozen=True, slots=True)
class Steps:
    """By the measured table: seconds of a step by its number of answers, and the speeds of both stages side by side."""

    seconds: Mapping[int, float]
    writing: float = 1.0
    searching: float = 1.0

    @classmethod
    def of(cls, measured: Measured) -> Steps:
        seconds = {one.size: one.seconds for one in measured.points if one.kind == "write" and one.seconds}
        best = max(measured.beside, key=lambda one: one.gain, default=None)
        return cls(seconds, *((best.writing, best.searching) if best is not None else (1.0, 1.0)))

    def times(self, num_answers: int) -> float:
        """How much longer a step of so many answers takes than of one."""
        if not self.seconds:
            return 1.0
        sizes = sorted(self.seconds)
        rates = [math.log(self.seconds[size] / self.seconds[sizes[0]]) for size in sizes]
        if num_answers > sizes[-1]:
            # Beyond what was measured each answer more costs as much as on the average before.
            return math.exp(rates[-1]) * num_answers / sizes[-1]
        return math.exp(float(np.interp(math.log(num_answers), np.log(sizes), rates)))


@dataclass(frozen=True, slots=True)
class Compared:
    """A load of a side: mean latency as simulated and as measured, in seconds."""

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
    """Every question of every run, the measured steps of each regime, and the `conditions` that all have in common."""
    content = {
        "conditions": conditions or {},
        "steps": {regime: asdict(steps) for regime, steps in step_times.items()},
        "runs": [{"key": asdict(key), "runs": [run.told() for run in runs]} for key, runs in found.items()],
    }
    file.parent.mkdir(parents=True, exist_ok=True)
    # Hours of measuring are in it.
    beside = file.with_name(f"{file.name}.new")
    beside.write_text(json.dumps(content), encoding="utf-8")
    beside.replace(file)


def read_runs(file: Path) -> tuple[dict[Key, list[Run]], dict[Regime, Steps]]:
    """What `write_runs` wrote."""
    content = json.loads(file.read_text(encoding="utf-8"))
    found = {Key(**one["key"]): [Run.heard(run) for run in one["runs"]] for one in content["runs"]}
    return found, {regime: _steps(told) for regime, told in content["steps"].items()}


def resumed(file: Path, conditions: Mapping[str, Any]) -> tuple[dict[Key, list[Run]], dict[Regime, Steps]]:
    """What is measured already, for a bench that takes longer than a machine is left alone; nothing without the file.

    Raises:
        PeerFailed: It was measured under other conditions, or is no such file.
    """
    if not file.exists():
        return {}, {}
    try:
        before = dict(json.loads(file.read_text(encoding="utf-8"))["conditions"])
        found, step_times = read_runs(file)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise PeerFailed(f"{file} cannot be gone on with: it holds no measured runs ({error}).") from error
    other = [
        f"{name} {before.get(name)} instead of {now}" for name, now in conditions.items() if before.get(name) != now
    ]
    if other:
        raise PeerFailed(f"{file} was measured with {', '.join(other)}: measure into another file.")
    print(f"  {sum(map(len, found.values()))} loads are known from {file}")
    return found, step_times


def _steps(told: Mapping[str, Any]) -> Steps:
    seconds = {int(size): float(value) for size, value in told["seconds"].items()}
    return Steps(seconds, told["writing"], told["searching"])


def compared(found: Mapping[Key, Sequence[Run]], steps: Mapping[Regime, Steps]) -> Iterator[Compared]:
    """Each load of a side whose stages were measured alone."""
    for key, runs in found.items():
        alone = found.get(Key(key.regime, key.side, ALONE), ())
        if key.side not in SIDES or key.load == ALONE or not alone:
            continue
        stages = stages_of(alone, steps.get(key.regime, Steps({})))
        simulated = [mean_latency_s(_way(key.side, run, stages)(_questions(run), stages)) for run in runs]
        measured = [run.mean_latency_s for run in runs]
        yield Compared(key, statistics.median(simulated), statistics.median(measured))


def stages_of(alone: Sequence[Run], steps: Steps) -> Stages:
    """Of questions that were answered one at a time.

    What steps waited for layers is hidden; each answer more computes meanwhile what a token takes of a prompt.
    """
    served = [one for run in alone for one in run.served]
    seconds, num_steps = [one.stages_s for one in served], sum(max(1, one.answer_tokens) for one in served)
    search_s = statistics.fmean(one["retrieval"] for one in seconds)
    read_s = _per(seconds, "prefill", sum(_new_tokens(one) for one in served))
    step_s = _per(seconds, "decode", num_steps)
    hidden_s = min(step_s, math.fsum(run.totals.get("waited_s", 0.0) for run in alone) / num_steps)
    return Stages(
        lambda count: count * search_s,
        lambda tokens: tokens * read_s,
        lambda answers: step_s * steps.times(answers),
        steps.writing,
        steps.searching,
        lambda answers: max(0.0, hidden_s - (answers - 1) * read_s),
    )


def _per(seconds: Sequence[Mapping[str, float]], stage: str, count: int) -> float:
    return math.fsum(one[stage] for one in seconds) / max(1, count)


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
