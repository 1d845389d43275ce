"""Tests for engine.generation.step_loop: sixteen answers at a time, for ten thousand steps of coming and going."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import get_args

import pytest

from engine.core import Priority
from engine.errors import NoRoomToCompute
from engine.generation import gathering
from engine.generation.cache_files import CacheFiles
from engine.generation.cells import Cells, CellSequence
from engine.generation.context import Context, Stretch
from engine.generation.counters import LoopCounters
from engine.generation.groups import SequenceGroup
from engine.generation.keeping import Found
from engine.generation.knowledge import KnowledgeKeeper
from engine.generation.request import RequestCancelled, RequestFailed, RequestFinished, StepEvent, Written
from engine.generation.residence import Residence
from engine.generation.segment import Segment
from engine.generation.swap_room import SwapRoom
from engine.memory.ledger import Ledger
from tests.helpers.loop_desk import ENDS, GREEDY, LoopDesk, decisive_prompts
from tests.helpers.tiny_gguf import write_tiny_gemma2, write_tiny_model

MAX_TOKENS, STEP_SECONDS = 20, 0.02
# Tokens in cells, bytes in memory, bytes of files.
BUDGETS = ((0, 100, 400), (0, 20_000, 100_000), (0, 100_000))
WORDS = ("the", "cat", "sat", "on", "a", "mat", "and", "ran", "to", "see", "what", "Lily", "had", "in", "her", "box")


@pytest.fixture(scope="module", params=["llama", "gemma2"])
def path(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("models")
    if request.param == "gemma2":
        # Of two layers one looks at a window that is shorter than most prompts.
        return write_tiny_gemma2(folder / "gemma2.gguf", window=24, attention=4.0)
    return write_tiny_model(folder / "tiny.gguf", layers=1, dim=32, ff=32, heads=2, kv_heads=1)


@pytest.fixture(scope="module")
def alone(path: Path) -> dict[str, Written]:
    """Prompts of 8 to 200 tokens, and the answers to them when no other is being written."""
    chance = random.Random(3)
    prompts = (" ".join(chance.choices(WORDS, k=chance.randint(2, 40))) for _ in range(1000))
    return decisive_prompts(path, 24, MAX_TOKENS, prompts)


class Crowd:
    """Asks, cancels, and remembers what it asked."""

    def __init__(self, desk: LoopDesk, prompts: list[str], seed: int) -> None:
        self._desk, self._prompts, self._chance = desk, prompts, random.Random(seed)
        self.asked: dict[str, str] = {}
        self._open: list[str] = []
        self._num_steps = 0

    def act(self) -> None:
        chance, loop = self._chance, self._desk.loop
        counters = loop.counters()
        if counters.num_running + counters.num_preempted < 16 and counters.num_waiting < 4 and chance.random() < 0.5:
            self._ask()
        if self._open and chance.random() < 0.01:
            loop.cancel(chance.choice(self._open))
        if counters.num_running > 1 and chance.random() < 0.01:
            loop._steps.admission.preempt(chance.choice(loop._groups.running))
        ended = {event.request_id for event in self._step() if isinstance(event, ENDS)}
        self._open = [request_id for request_id in self._open if request_id not in ended]
        self._desk.time.now += STEP_SECONDS

    def _step(self) -> list[StepEvent]:
        self._num_steps += 1
        if self._desk.loop.shortage is not None:
            self._restart()
        if self._num_steps % 16 == 0:
            return self._desk.step()
        new = self._desk.loop.step()
        self._desk.events += new
        # Without a look into llama.cpp, which takes longer than the step.
        self._desk.cells.check_integrity(self._desk.held())
        assert self._desk.cells.num_free + self._desk.cells.num_used == self._desk.cells.num_cells
        return new

    def _restart(self) -> None:
        """What becomes of a loop whose batch found no room to compute, though here there is no more of it then."""
        desk, keeper = self._desk, self._desk.keeper
        if isinstance(keeper, Kept):
            keeper.leave_cells()
        desk.loop.set_aside(self._chance.choice((0, 20_000, 1 << 30)))
        desk.loop.move(desk.context, desk.cells, keeper)

    def _ask(self) -> None:
        chance, request_id = self._chance, f"r{len(self.asked)}"
        self.asked[request_id] = chance.choice(self._prompts)
        tokens = self._desk.prompt(self.asked[request_id])
        segments = [Segment(tokens[at : at + 24]) for at in range(0, len(tokens), 24)]
        sampling = replace(GREEDY, max_tokens=MAX_TOKENS, num_answers=chance.choice((1, 1, 1, 3)))
        self._desk.ask(request_id, segments, chance.choice(get_args(Priority)), sampling)
        self._open.append(request_id)
        if isinstance(self._desk.keeper, Kept) and chance.random() < 0.05:
            self._desk.keeper.bound(*(chance.choice(some) for some in BUDGETS))


class Kept(KnowledgeKeeper):
    """The knowledge tree, which also checks what it holds and for which requests it pins nodes."""

    def bound(self, cells: int, ram_bytes: int, disk_bytes: int) -> None:
        self._files.set_budget(disk_bytes)
        self.set_budgets(cells, ram_bytes)

    def held(self) -> list[CellSequence]:
        return [self._cells.shelf[node] for node in self._cells.shelf.nodes()]

    @property
    def pins(self) -> list[Found]:
        return list(self._holds.values())


@pytest.fixture
def make_kept(tmp_path: Path) -> Iterator[Callable[[Context, Cells], Kept]]:
    ledger, made = Ledger(), list[Kept]()
    files = CacheFiles(tmp_path, ledger, pytest.fail)

    def make(context: Context, cells: Cells) -> Kept:
        made.append(Kept(b"root", context, cells, ledger, files))
        made[0].bound(400, 40_000, 0)
        return made[0]

    yield make
    for keeper in made:
        keeper.abandon()
    files.close()
    assert ledger.spans() == ()


def run_short(desk: LoopDesk, monkeypatch: pytest.MonkeyPatch, num_steps: int) -> None:
    """Lets one batch in five find no room to compute, often two or three in a row, until these steps are over."""
    chance, decode, was_refused = random.Random(7), desk.context.decode, False
    until = desk.time.now + num_steps * STEP_SECONDS

    def refusing(stretches: Sequence[Stretch]) -> list[int]:
        nonlocal was_refused
        was_refused = desk.time.now < until - STEP_SECONDS / 2 and chance.random() < (0.6 if was_refused else 0.2)
        if was_refused:
            raise NoRoomToCompute("There was no room.")
        return decode(stretches)

    monkeypatch.setattr(desk.context, "decode", refusing)


def crowded(desk: LoopDesk, alone: dict[str, Written], num_steps: int) -> LoopCounters:
    """Lets a crowd act, and checks how each of its requests ended."""
    crowd = Crowd(desk, list(alone), seed=5)
    for _ in range(num_steps):
        crowd.act()
    counters = desk.loop.counters()
    desk.run()

    ends = {event.request_id: event for event in desk.events if isinstance(event, ENDS)}
    assert len([event for event in desk.events if isinstance(event, ENDS)]) == len(ends) == len(crowd.asked)
    for request_id, prompt in crowd.asked.items():
        end = ends[request_id]
        assert not isinstance(end, RequestFailed), end.error
        for answer in end.answers:
            if isinstance(end, RequestFinished):
                assert answer == alone[prompt]
            else:
                assert alone[prompt].tokens[: len(answer.tokens)] == answer.tokens
    assert sum(isinstance(end, RequestCancelled) for end in ends.values()) > num_steps / 400
    return counters


@pytest.mark.timeout(900)
def test_nothing_leaks_and_every_answer_is_the_one_written_alone(
    path: Path, alone: dict[str, Written], monkeypatch: pytest.MonkeyPatch
) -> None:
    # A model this small loses little by gaps; so its cells are moved again and again.
    monkeypatch.setattr(gathering, "SECONDS_EACH", 0.0)
    desk = LoopDesk(path, num_cells=768, num_sequences=48, swap_budget_bytes=8_000)

    counters = crowded(desk, alone, 10_000)

    assert min(counters.preempted_by_swap, counters.preempted_by_recompute) > 20
    desk.close()


@pytest.mark.timeout(900)
def test_what_is_kept_changes_no_answer_either(
    path: Path, alone: dict[str, Written], make_kept, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gathering, "SECONDS_EACH", 0.0)
    desk = LoopDesk(path, num_cells=768, num_sequences=48, keeper=make_kept, swap_budget_bytes=8_000)

    counters = crowded(desk, alone, 2_000)

    assert counters.cached_tokens > 1000
    assert counters.preempted_by_swap > 20
    desk.close()


@pytest.mark.timeout(900)
def test_what_memory_has_no_room_for_goes_to_the_disk_and_changes_no_answer(
    path: Path, alone: dict[str, Written], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    room, spilled = SwapRoom(16_000 if path.stem == "gemma2" else 4_000, tmp_path), 0
    desk = LoopDesk(path, num_cells=768, num_sequences=48, swap_room=lambda: room)
    spill = Residence.spill

    def spilling(residence: Residence, group: SequenceGroup, folder: Path) -> bool:
        nonlocal spilled
        spilled += 1
        return spill(residence, group, folder)

    monkeypatch.setattr(Residence, "spill", spilling)

    counters = crowded(desk, alone, 2_000)

    assert counters.preempted_by_swap >= spilled > 10
    assert not list(tmp_path.iterdir())
    desk.close()


@pytest.mark.timeout(900)
@pytest.mark.parametrize("keeps", [False, True])
def test_running_short_of_memory_changes_no_answer_either(
    path: Path, alone: dict[str, Written], make_kept, monkeypatch: pytest.MonkeyPatch, keeps: bool
) -> None:
    keeper = make_kept if keeps else None
    desk = LoopDesk(path, num_cells=768, num_sequences=48, keeper=keeper, swap_budget_bytes=8_000)
    run_short(desk, monkeypatch, 2_000)

    counters = crowded(desk, alone, 2_000)

    assert min(counters.preempted_by_swap, counters.preempted_by_recompute) > 50
    desk.close()
