"""Simulated latency on machines that we do not have, computed from the planner's cost model, and its error.

    python -m tests.bench.simulate [--quick] [--json FILE] [--measured FILE]

- Consumer machines (cards of 8, 12 and 24 GB and none; 32 GB of memory, an NVMe disk, PCIe 4): what the planner places
  there for one question and for a backlog, and, from its predicted stages, the mean latency of 100 questions whose rate
  goes 4 → 16 → 4, at .9 of what one question at a time manages. Compares `serial` (one at a time), `serial_batched` (in
  gangs) and ours (two pipelines); the index is four times its budget. Ratios `serial_batched_<model>_<GB>gb` are the
  gangs' mean latency ÷ ours.
- RAGDoll's table (arXiv 2504.15302): its stages as published, waiting times as simulated. The paper does not give the
  size of a serial batch; it is fitted to the serial row alone and then used for both rows. Ratios `ragdoll_<machine>`
  are the simulated latency of serial batches ÷ RAGDoll's.
- PipeRAG's trend (arXiv 2403.05676): the gain of searching while writing within one answer, with inference or retrieval
  1, 4 and 16 times as fast.
- `--measured FILE` instead checks the simulator with runs of the serving bench (its `--runs`). From the stages of one
  question at a time, the engine's plans for steps of several answers, and its measured pass times, it predicts mean
  latencies and prints their errors. Exit code 1 if their median exceeds a tenth or the worst a quarter, 2 if the file
  has no runs.

Without `--measured`, there are no bounds. Everything is arithmetic and takes seconds; `--quick` changes nothing.
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
# RAGDoll's table by model and card: seconds of waiting, retrieval and generation, of RAGDoll and of serial batches.
RAGDOLL = {
    "8B, 12 GB card": ((170.0, 320.0, 66.0), (1640.0, 293.0, 57.0)),
    "70B, 24 GB card": ((606.0, 388.0, 242.0), (1808.0, 303.0, 219.0)),
}
# Its questions per minute, in the first and the second half; the paper does not give their total number.
RAGDOLL_RATES, RAGDOLL_QUESTIONS = (4.0, 16.0), 512
SPEEDUPS = (1, 4, 16)
MOST_ERRORS = {"median_error": 0.10, "worst_error": 0.25}
# Tokens between two searches of an answer.
INTERVAL_TOKENS = 64


@dataclass(frozen=True, slots=True)
class Row:
    """A machine with a model: mean latencies in seconds."""

    card_gb: int
    model: str
    sentence: str
    serial_s: float
    gangs_s: float
    pipelined_s: float


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.bench.simulate", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="changes nothing: it is arithmetic")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write all figures there (JSON)")
    parser.add_argument(
        "--measured", type=Path, metavar="FILE", help="check the simulator with these runs of the serving bench"
    )
    chosen = parser.parse_args(arguments)
    if chosen.measured is not None:
        return check(chosen.measured, chosen.json)
    table = list(rows())
    show_machines(table)
    published = ragdoll()
    show_ragdoll(published)
    trend = piperag(DESKTOP)
    show_piperag(trend)
    if chosen.json is not None:
        ours = {f"{row.model}_{row.card_gb}gb_s": row.pipelined_s for row in table}
        peers = {
            "serial": {f"{row.model}_{row.card_gb}gb_s": row.serial_s for row in table},
            "serial_batched": {f"{row.model}_{row.card_gb}gb_s": row.gangs_s for row in table},
        }
        named = {f"serial_batched_{row.model}_{row.card_gb}gb": row.gangs_s / row.pipelined_s for row in table}
        for name, both in published.items():
            ours[f"ragdoll_{name}_wait_s"] = both.ragdoll.simulated_wait_s
            peers["serial_batched"][f"ragdoll_{name}_wait_s"] = both.serial.simulated_wait_s
            named[f"ragdoll_{name}"] = both.simulated_gain
        report.write(chosen.json, ours, peers, named)
    return 0


# --- against what was measured ---


def check(file: Path, written: Path | None) -> int:
    """Compares the simulator with measured runs; returns the exit code."""
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
    """Yields a row for every card and model."""
    for shape in MODELS:
        for card in CARDS_GB:
            yield row_of(shape, card)


def row_of(shape: ModelShape, card_gb: int) -> Row:
    """Returns mean latencies with one question at a time, in gangs, and with two pipelines planned for the load."""
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
    """Returns how many answers to run at once for a number of questions, as a function; decided like in the engine."""

    @lru_cache
    def best(count: int, read_s: float) -> int:
        backlog = Backlog(max(0, count - 1), 1, PROMPT_TOKENS, ANSWER_TOKENS)
        return sharing_of(placement, DESKTOP, backlog, demand).best(read_s)

    return best


def planned_stages(placement: Placement, profile: Profile, demand: Demand) -> Stages:
    """Returns the stages of a placement, as the planner predicts them."""
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
class TableRow:
    """A system in RAGDoll's table: seconds of a question's stages as published, and its simulated wait.

    Retrieval and generation times are inputs of the simulation; `batch` is the size of a serial batch.
    """

    wait_s: float
    retrieve_s: float
    generate_s: float
    simulated_wait_s: float
    batch: int | None = None

    @property
    def latency_s(self) -> float:
        return self.wait_s + self.retrieve_s + self.generate_s

    @property
    def simulated_latency_s(self) -> float:
        return self.simulated_wait_s + self.retrieve_s + self.generate_s


@dataclass(frozen=True, slots=True)
class Compared:
    """Both systems on one machine."""

    ragdoll: TableRow
    serial: TableRow

    @property
    def published_gain(self) -> float:
        return self.serial.latency_s / self.ragdoll.latency_s

    @property
    def simulated_gain(self) -> float:
        return self.serial.simulated_latency_s / self.ragdoll.simulated_latency_s


def ragdoll() -> dict[str, Compared]:
    """Returns RAGDoll's table by machine; only the size of the serial batches is chosen, by the serial row."""
    return {name: _compared(*both) for name, both in RAGDOLL.items()}


def _compared(ours: tuple[float, float, float], theirs: tuple[float, float, float]) -> Compared:
    arrivals = moving_poisson(RAGDOLL_QUESTIONS, sum(RAGDOLL_RATES) / 2 / 60, seed=1, phases=RAGDOLL_RATES)
    load = [Question(arrival, 1, 1) for arrival in arrivals]

    def serial_wait(batch: int) -> float:
        served = gangs(load, _published(theirs), batch)
        return sum(one.wait_s for one in served) / len(served)

    batch = min(range(8, 129), key=lambda batch: abs(serial_wait(batch) - theirs[0]))
    served = pipelined(load, _published(ours), lambda count, read_s: len(load))
    simulated = sum(one.latency_s for one in served) / len(served) - ours[1] - ours[2]
    return Compared(TableRow(*ours, max(0.0, simulated)), TableRow(*theirs, serial_wait(batch), batch))


def _published(stages: tuple[float, float, float]) -> Stages:
    """Returns stages that take as long as the paper says, for any number of questions."""
    return Stages(lambda count: stages[1], lambda tokens: 0.0, lambda answers: stages[2])


def show_ragdoll(found: Mapping[str, Compared]) -> None:
    print("RAGDoll's table, seconds of a question (wait is simulated; retrieve and generate are taken from the paper):")
    print(f"  {'':<28}{'wait':>12}{'simulated':>12}{'retrieve':>12}{'generate':>12}{'in all':>12}{'simulated':>12}")
    for machine_name, both in found.items():
        for system, row in (("RAGDoll", both.ragdoll), ("serial", both.serial)):
            seconds = (row.wait_s, row.simulated_wait_s, row.retrieve_s, row.generate_s)
            cells = (*seconds, row.latency_s, row.simulated_latency_s)
            note = "" if row.batch is None else f"   in batches of {row.batch}"
            print(f"  {f'{machine_name}, {system}':<28}" + "".join(f"{cell:>12.0f}" for cell in cells) + note)
        gains = f"published {both.published_gain:.2f}, simulated {both.simulated_gain:.2f}"
        print(f"  {machine_name}: serial ÷ RAGDoll, {gains}")


# --- PipeRAG's trend ---


def piperag(profile: Profile, search_s: float | None = None) -> dict[tuple[int, int], float]:
    """Returns the gain of searching while writing, by the speed-up of inference and of retrieval.

    An interval is written in T_C, a search takes T_ret: in sequence T_C + T_ret, in parallel the longer of both.
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
    print("PipeRAG's trend, gain of searching while writing (if both take equally long at first):")
    print("  inference ×" + "".join(f"{f'retrieval × {times}':>15}" for times in SPEEDUPS))
    for inference in SPEEDUPS:
        print(f"  {inference:>11}" + "".join(f"{trend[inference, retrieval]:>15.2f}" for retrieval in SPEEDUPS))


if __name__ == "__main__":
    sys.exit(ending.run(main))
