"""Measured loads beside what the simulator makes of them: how far its mean latencies are off.

Of each regime it is told what one question at a time takes in each stage, of the engine and of its peers; how much more
of the layers a step of several answers reads, by the engine's own plans; by its measured table, how much longer such a
step computes, and what writing and searching do to each other. All of it is known before the first question of a load
comes. Everything else follows: moments and lengths are those of the measured load.
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

# Sides of which the simulator knows how they work, and the gang of the one that answers in gangs.
SIDES, GANG = (OURS, SERIAL, "serial_batched"), 4
# As the engine has it where a processor computes.
MOST_AT_ONCE = MOST_SLOTS_OF_PROCESSOR


@dataclass(frozen=True, slots=True)
class Planned:
    """What a step of a side reads of its layers, in bytes, as the planner places them (planned_steps.py).

    `alone_bytes`: as memory lies while questions come one at a time. `streamed_bytes`: with 1, 2, 3, … answers, as it
    is to lie where so many questions are there and others follow: their keys and values take the room of layers.
    `bytes_per_s` is how fast layers come.
    """

    alone_bytes: float = 0.0
    streamed_bytes: tuple[float, ...] = ()
    bytes_per_s: float = 0.0

    @classmethod
    def heard(cls, told: Mapping[str, Any]) -> Self:
        return cls(told["alone_bytes"], tuple(told["streamed_bytes"]), told["bytes_per_s"])

    @property
    def alone_s(self) -> float:
        """What reading takes in a step alone."""
        return self.alone_bytes / self.bytes_per_s if self.bytes_per_s else 0.0

    def more_s(self, num_answers: int) -> float:
        """How much longer it takes in a step of so many answers; of more than were planned, as of the most."""
        if not (self.streamed_bytes and self.bytes_per_s):
            return 0.0
        known = self.streamed_bytes[min(num_answers, len(self.streamed_bytes)) - 1]
        return (known - self.alone_bytes) / self.bytes_per_s


# Of whom nothing is planned, a step reads what it reads.
AS_IT_IS = Planned()


@dataclass(frozen=True, slots=True)
class Steps:
    """What is known of a regime's steps.

    `planned` is by side. By the measured table, `seconds` of computing one are by its number of answers, where the disk
    did not hide them, and the speeds are those of both stages side by side.
    """

    seconds: Mapping[int, float] = field(default_factory=dict)
    writing: float = 1.0
    searching: float = 1.0
    planned: Mapping[str, Planned] = field(default_factory=dict)

    @classmethod
    def of(cls, measured: Measured) -> Steps:
        """By the measured table, before anything is planned."""
        seconds = {one.size: one.seconds for one in measured.points if one.kind == "write" and one.seconds}
        best = max(measured.beside, key=lambda one: one.gain, default=None)
        return cls(seconds, *((best.writing, best.searching) if best is not None else (1.0, 1.0)))

    def with_planned(self, side: str, planned: Planned) -> Steps:
        return replace(self, planned={**self.planned, side: planned})

    def times(self, num_answers: int) -> float | None:
        """How much longer a step of so many answers computes than one of one; None where none was measured."""
        if not self.seconds:
            return None
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
    """What `write_runs` wrote.

    Raises:
        PeerFailed: It is not there, or is no such file; the message says which.
    """
    found, step_times, _ = _read(file)
    return found, step_times


def resumed(file: Path, conditions: Mapping[str, Any]) -> tuple[dict[Key, list[Run]], dict[Regime, Steps]]:
    """What is measured already, for a bench that takes longer than a machine is left alone; nothing without the file.

    Raises:
        PeerFailed: It was measured under other conditions, or is no such file.
    """
    if not file.exists():
        return {}, {}
    found, step_times, before = _read(file)
    other = [
        f"{name} {before.get(name)} instead of {now}" for name, now in conditions.items() if before.get(name) != now
    ]
    if other:
        raise PeerFailed(f"{file} was measured with {', '.join(other)}: measure into another file.")
    print(f"  {sum(map(len, found.values()))} loads are known from {file}")
    return found, step_times


def _read(file: Path) -> tuple[dict[Key, list[Run]], dict[Regime, Steps], dict[str, Any]]:
    """With the conditions under which it was measured."""
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
    # Runs that were measured before plans were told have none.
    planned = {side: Planned.heard(one) for side, one in told.get("planned", {}).items()}
    return Steps(seconds, told["writing"], told["searching"], planned)


def compared(found: Mapping[Key, Sequence[Run]], steps: Mapping[Regime, Steps]) -> Iterator[Compared]:
    """Each load of a side whose stages were measured alone."""
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
    """Of questions that were answered one at a time: whoever is alone waits for nobody.

    So all between a search's end and the first token is reading, whatever else it was told as: what was read of a
    prompt ahead, or was had from the disk. Of a step, what it waited for layers hides prompts. It is more where more
    layers are read, and less where more is computed meanwhile: each answer more computes what a token takes of a
    prompt, where no table says better.
    """
    served = [one for run in alone for one in run.served]
    num_steps = sum(max(1, one.answer_tokens) for one in served)
    search_s = statistics.fmean(one.stages_s["retrieval"] for one in served)
    read_s = math.fsum(max(0.0, one.first_token_s - one.retrieval_ended_s) for one in served)
    read_s /= max(1, sum(_new_tokens(one) for one in served))
    alone_s = math.fsum(one.stages_s["decode"] for one in served) / num_steps
    waited_s = min(alone_s, math.fsum(run.totals.get("waited_s", 0.0) for run in alone) / num_steps)
    computed_s = alone_s - waited_s
    # Where nothing was waited for, so much more could have been read in a step.
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
