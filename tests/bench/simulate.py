"""What loads of questions would take on machines that we do not have, by the planner's own arithmetic; and how far off.

    python -m tests.bench.simulate [--quick] [--json FILE] [--measured FILE]

- Consumer machines (cards of 8, 12 and 24 GB and none; memory of 32 GB; an NVMe disk; PCIe 4): what the planner places
  there for one question and for a backlog, and from its predicted stages the mean latency of 100 questions whose rate
  goes 4 → 16 → 4, at .9 of what one question at a time manages: one at a time, in gangs, and by two pipelines. The
  index is four times what it may hold.
- RAGDoll's own table (arXiv 2504.15302): its stages as published, the waiting as simulated. What the paper does not
  say, how many questions a serial batch takes, is chosen by the serial row alone, and then holds for both.
- PipeRAG's trend (arXiv 2403.05676): what searching beside writing gains within an answer, with either of the two 1,
  4 and 16 times as fast.
- `--measured FILE`: the runs of the bench of serving (`--runs` there): the stages of one question at a time as they
  were measured there, what steps of several answers read and compute by the engine's plans and its measured table, and
  the error of the mean latencies that follow from them. Exit code 1 where its median is more than a tenth, or the worst
  more than a quarter, and 2 where the file has no runs.

Arithmetic, so all of it is quick; `--quick` changes nothing.
"""

from __future__ import annotations

import argparse
import statistics
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from engine.core import ModelShape
from engine.memory.cost_model import Course, Courses, Disk
from engine.memory.demand import Backlog, Demand
from engine.memory.placement import Placement
from engine.memory.planner import plan, sharing_of
from engine.memory.profile import Profile
from engine.memory.search import loads_of
from engine.memory.terms import homes_of
from tests.bench import ending, report
from tests.bench.peers import PeerFailed
from tests.bench.serving_load import moving_poisson
from tests.bench.simulated import Best, Question, Stages, gangs, mean_latency_s, pipelined, serial
from tests.bench.simulated_runs import compared, read_runs
from tests.helpers.machines import DESKTOP, GIB, MODELS, machine, wanted

CARDS_GB, MEMORY_GB = (0, 8, 12, 24), 32
NUM_QUESTIONS, RATE = 100, 0.9
PROMPT_TOKENS, ANSWER_TOKENS = 1500, 200
GANG, AT_ONCE = 4, 16
# Cards and models of RAGDoll's table, each with the seconds that a question waited, was searched and was generated for.
RAGDOLL = {
    "8B, 12 GB card": ((170.0, 320.0, 66.0), (1640.0, 293.0, 57.0)),
    "70B, 24 GB card": ((606.0, 388.0, 242.0), (1808.0, 303.0, 219.0)),
}
# Its questions a minute, at first and then; how many in all is not said.
RAGDOLL_RATES, RAGDOLL_QUESTIONS = (4.0, 16.0), 512
SPEEDUPS = (1, 4, 16)
MOST_ERRORS = {"median_error": 0.10, "worst_error": 0.25}
# Tokens between two searches of an answer.
INTERVAL_TOKENS = 64


@dataclass(frozen=True, slots=True)
class Row:
    """A machine with a model: mean latencies by way, in seconds."""

    card_gb: int
    model: str
    sentence: str
    serial_s: float
    gangs_s: float
    pipelined_s: float


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.simulate", description=__doc__.partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help="the same: it is arithmetic")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the figures there")
    parser.add_argument(
        "--measured", type=Path, metavar="FILE", help="runs of the bench of serving, to be held against"
    )
    chosen = parser.parse_args(arguments)
    if chosen.measured is not None:
        return check(chosen.measured, chosen.json)
    table = list(rows())
    show_machines(table)
    waits = ragdoll()
    show_ragdoll(waits)
    trend = piperag(DESKTOP)
    show_piperag(trend)
    if chosen.json is not None:
        ours = {f"{row.model}_{row.card_gb}gb_s": row.pipelined_s for row in table}
        peers = {
            "serial": {f"{row.model}_{row.card_gb}gb_s": row.serial_s for row in table},
            "serial_batched": {f"{row.model}_{row.card_gb}gb_s": row.gangs_s for row in table},
        }
        named = {f"serial_batched_{row.model}_{row.card_gb}gb": row.gangs_s / row.pipelined_s for row in table}
        report.write(chosen.json, ours, peers, named)
    return 0


# --- against what was measured ---


def check(file: Path, written: Path | None) -> int:
    """Holds the simulator against measured runs; the exit code says whether it is near enough."""
    try:
        loads = list(compared(*read_runs(file)))
    except PeerFailed as error:
        print(error, file=sys.stderr)
        return 2
    if not loads:
        print(f"{file.name} has no load that could be simulated.", file=sys.stderr)
        return 2
    for one in loads:
        name = f"{one.key.regime}, {one.key.side}, {one.key.load}"
        print(f"  {name:<48} simulated {one.simulated_s:8.2f} s   measured {one.measured_s:8.2f} s   {one.error:6.1%}")
    errors = [one.error for one in loads]
    figures = {"median_error": statistics.median(errors), "worst_error": max(errors)}
    report.show("errors of mean latencies", figures, {}, MOST_ERRORS)
    if written is not None:
        report.write(written, figures, {})
    return 0 if all(figures[name] <= most for name, most in MOST_ERRORS.items()) else 1


# --- consumer machines ---


def rows() -> Iterator[Row]:
    """Every card with every model."""
    for shape in MODELS:
        for card in CARDS_GB:
            yield row_of(shape, card)


def row_of(shape: ModelShape, card_gb: int) -> Row:
    """What a load takes with one question at a time, in gangs, and by two pipelines that are planned as the load is."""
    hardware = machine(card_gb, MEMORY_GB)
    demand = wanted(shape, parallel_answers=AT_ONCE, index_bytes=8 * GIB, partition_bytes=GIB // 2, num_partitions=16)
    alone, busy = (
        plan(hardware, DESKTOP, Backlog(waiting, 1, PROMPT_TOKENS, ANSWER_TOKENS), demand)
        for waiting in (0, AT_ONCE - 1)
    )
    one = planned_stages(alone, DESKTOP, demand)
    capacity_per_s = 1 / mean_latency_s(serial([Question(0.0, PROMPT_TOKENS, ANSWER_TOKENS)], one))
    arrivals = moving_poisson(NUM_QUESTIONS, RATE * capacity_per_s, seed=1)
    load = [Question(arrival, PROMPT_TOKENS, ANSWER_TOKENS) for arrival in arrivals]
    both = planned_stages(busy, DESKTOP, demand)
    return Row(
        card_gb,
        shape.name,
        alone.sentence,
        mean_latency_s(serial(load, one)),
        mean_latency_s(gangs(load, both, GANG)),
        mean_latency_s(pipelined(load, both, best_of(busy, demand))),
    )


def best_of(placement: Placement, demand: Demand) -> Best:
    """How many of so many questions are under way, as the engine decides it."""

    @lru_cache
    def best(count: int, read_s: float) -> int:
        backlog = Backlog(max(0, count - 1), 1, PROMPT_TOKENS, ANSWER_TOKENS)
        return sharing_of(placement, DESKTOP, backlog, demand).best(read_s)

    return best


def planned_stages(placement: Placement, profile: Profile, demand: Demand) -> Stages:
    """The stages of a placement, as the planner predicts them."""
    homes = homes_of(demand.shape, placement)
    disk, loads = Disk.of(profile, homes), loads_of(demand, placement.index_bytes)
    hidden = sharing_of(placement, profile, Backlog(AT_ONCE, 0, PROMPT_TOKENS, ANSWER_TOKENS), demand).hidden_seconds

    @lru_cache
    def course(num_answers: int, prompt_tokens: int) -> Course:
        backlog = Backlog(0, num_answers, prompt_tokens, ANSWER_TOKENS)
        return Courses(profile, backlog).of(homes, num_answers, placement.n_ubatch)

    return Stages(
        lambda count: profile.retrieval_seconds(loads, count),
        lambda tokens: course(1, tokens).reading_seconds(disk),
        lambda answers: course(answers, PROMPT_TOKENS).step_seconds(disk),
        hidden_s=lambda answers: hidden[answers - 1] if answers <= len(hidden) else 0.0,
    )


def show_machines(table: Sequence[Row]) -> None:
    print(f"{NUM_QUESTIONS} questions, 4 → 16 → 4, {MEMORY_GB} GB of memory; mean latency in seconds:")
    print(f"  {'model':<6}{'card':>6}{'serial':>10}{'gangs':>10}{'ours':>10}{'gangs ÷':>9}   one question")
    for row in table:
        print(
            f"  {row.model:<6}{row.card_gb:>4} GB{row.serial_s:>10.1f}{row.gangs_s:>10.1f}{row.pipelined_s:>10.1f}"
            f"{row.gangs_s / row.pipelined_s:>9.2f}   {row.sentence}"
        )


# --- RAGDoll's table ---


@dataclass(frozen=True, slots=True)
class Wait:
    """Seconds that a question of RAGDoll's waited, by the paper and here; `batch`: questions of a serial gang."""

    published_s: float
    simulated_s: float
    serial_published_s: float
    serial_simulated_s: float
    batch: int


def ragdoll() -> dict[str, Wait]:
    """By machine; only the size of the serial batches is chosen, by the serial row."""
    return {name: _waits(*both) for name, both in RAGDOLL.items()}


def _waits(ours: tuple[float, float, float], theirs: tuple[float, float, float]) -> Wait:
    arrivals = moving_poisson(RAGDOLL_QUESTIONS, sum(RAGDOLL_RATES) / 2 / 60, seed=1, phases=RAGDOLL_RATES)
    load = [Question(arrival, 1, 1) for arrival in arrivals]

    def serial_wait(batch: int) -> float:
        served = gangs(load, _published(theirs), batch)
        return sum(one.wait_s for one in served) / len(served)

    batch = min(range(8, 129), key=lambda batch: abs(serial_wait(batch) - theirs[0]))
    served = pipelined(load, _published(ours), lambda count, read_s: len(load))
    simulated = sum(one.latency_s for one in served) / len(served) - ours[1] - ours[2]
    return Wait(ours[0], max(0.0, simulated), theirs[0], serial_wait(batch), batch)


def _published(stages: tuple[float, float, float]) -> Stages:
    """Searching and generating take as long as the paper says, for however many."""
    return Stages(lambda count: stages[1], lambda tokens: 0.0, lambda answers: stages[2])


def show_ragdoll(waits: Mapping[str, Wait]) -> None:
    print("RAGDoll's table, seconds that a question waits (published, simulated):")
    for name, wait in waits.items():
        print(
            f"  {name:<16} RAGDoll {wait.published_s:6.0f} {wait.simulated_s:6.0f}   serial "
            f"{wait.serial_published_s:6.0f} {wait.serial_simulated_s:6.0f} (in batches of {wait.batch})"
        )


# --- PipeRAG's trend ---


def piperag(profile: Profile, search_s: float | None = None) -> dict[tuple[int, int], float]:
    """What a search beside writing gains within an answer, by how much faster inference and retrieval are.

    An interval is written in T_C, a search takes T_ret: one after the other T_C + T_ret, beside each other the longer.
    """
    demand = wanted(MODELS[1])
    placement = plan(machine(12, MEMORY_GB), profile, Backlog(), demand)
    stages = planned_stages(placement, profile, demand)
    writing_s = INTERVAL_TOKENS * stages.step_s(1)
    searching_s = writing_s if search_s is None else search_s
    return {
        (inference, retrieval): (writing_s / inference + searching_s / retrieval)
        / max(writing_s / inference, searching_s / retrieval)
        for inference in SPEEDUPS
        for retrieval in SPEEDUPS
    }


def show_piperag(trend: Mapping[tuple[int, int], float]) -> None:
    print("PipeRAG's trend, gain by searching beside writing (where both take as long at first):")
    print("  inference ×" + "".join(f"{f'retrieval × {times}':>15}" for times in SPEEDUPS))
    for inference in SPEEDUPS:
        print(f"  {inference:>11}" + "".join(f"{trend[inference, retrieval]:>15.2f}" for retrieval in SPEEDUPS))


if __name__ == "__main__":
    sys.exit(ending.run(main))
