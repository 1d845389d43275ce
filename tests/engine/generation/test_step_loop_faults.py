"""Tests for engine.generation.step_loop: what goes wrong in a batch, on a context that fails on request."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest

from engine.errors import DecodeFailed, GenerationError, NoCells, NoRoomToCompute, WeightsChanged, WeightsNotRead
from engine.generation.cells import Cells
from engine.generation.context import Stretch
from engine.generation.request import Request, RequestFailed, RequestFinished, StepEvent
from engine.generation.segment import Segment
from engine.generation.step_loop import StepLoop
from engine.generation.steps import LONG_TO_READ_TOKENS, Timing
from tests.helpers.loop_desk import ENDS, StillTime
from tests.helpers.loop_parts import PLAIN, DiskKeeper, FakeModel, LoopContext, Script, prompt

FAILED = DecodeFailed("The model stopped computing.", "Ask again.")
NOT_READ = WeightsNotRead("A part of the model could not be read from the disk.", "Ask again.")

NO_ROOM = NoRoomToCompute("There is no room in memory to compute this.", "Put fewer layers on the graphics card.")


class FaultyContext(LoopContext):
    """Raises the given errors before the next batches are computed, each once."""

    def __init__(self, model: FakeModel, num_cells: int) -> None:
        super().__init__(model, num_cells)
        self.faults: list[Exception] = []

    def decode(self, stretches: Sequence[Stretch]) -> list[int]:
        if self.faults:
            raise self.faults.pop()
        return super().decode(stretches)


class FakeLoop:
    """A loop whose answers count up from 1, and what it told."""

    def __init__(self, num_cells: int = 128, make_script: Callable[[], Script] = lambda: Script(range(1, 99))) -> None:
        model = FakeModel()
        self.context = FaultyContext(model, num_cells)
        self.cells = Cells(num_cells, self.context.num_sequences)
        self.keeper = DiskKeeper(self.context, self.cells)
        self.loop = StepLoop(
            model,  # type: ignore[arg-type]
            self.context,  # type: ignore[arg-type]
            self.cells,
            self.keeper,
            make_sampler=lambda model, params: make_script(),
            timing=Timing(StillTime(), lambda seconds: None),
        )
        self.events: list[StepEvent] = []

    def ask(self, name: str, segments: Sequence[Segment], max_tokens: int = 4) -> None:
        self.loop.submit(Request(name, tuple(segments), replace(PLAIN, max_tokens=max_tokens)))

    def step(self) -> None:
        self.events += self.loop.step()

    def run(self) -> None:
        for _ in range(500):
            if not self.loop.has_work:
                return
            self.step()
        raise AssertionError("there is still work")

    def ends(self) -> dict[str, StepEvent]:
        return {event.request_id: event for event in self.events if isinstance(event, ENDS)}

    def write_until_closing(self, name: str) -> None:
        """Has an answer end, whose last token is to be computed with the next batch."""
        self.ask(name, prompt(1, 10))
        while name not in self.ends():
            self.step()
        assert self.loop.closing == {name}


def test_whose_last_token_is_only_to_be_kept_gives_way_first_where_llama_cpp_has_no_cells() -> None:
    desk = FakeLoop()
    desk.ask("writing", prompt(50, 10), max_tokens=30)
    desk.write_until_closing("ended")
    desk.context.faults = [NoCells("The context is full.")]
    desk.step()
    assert desk.loop.closing == frozenset()
    assert desk.loop.running == ["writing"]
    desk.run()
    assert isinstance(desk.ends()["writing"], RequestFinished)


def test_of_two_who_find_no_cells_the_later_waits_until_the_other_has_ended() -> None:
    desk = FakeLoop()
    for name, first in (("first", 1), ("second", 50)):
        desk.ask(name, prompt(first, 10), max_tokens=6)
    for _ in range(3):
        desk.step()
    desk.context.faults = [NoCells("The context is full.")]
    desk.step()
    assert desk.loop.running == ["first"]
    assert desk.loop.saved_bytes > 0
    desk.step()
    assert desk.loop.running == ["first"]
    desk.run()
    assert [type(end) for end in desk.ends().values()] == [RequestFinished] * 2
    assert list(desk.ends()) == ["first", "second"]
    assert desk.loop.saved_bytes == 0


def test_a_batch_that_failed_with_a_last_token_to_be_kept_is_tried_without_it() -> None:
    desk = FakeLoop()
    desk.ask("writing", prompt(50, 10), max_tokens=30)
    desk.write_until_closing("ended")
    desk.context.faults = [FAILED]
    desk.step()
    assert desk.loop.closing == frozenset()
    desk.run()
    assert isinstance(desk.ends()["writing"], RequestFinished)


def test_whoever_fails_alone_too_ends_and_the_others_go_on() -> None:
    desk = FakeLoop()
    for name, first in (("first", 1), ("second", 50)):
        desk.ask(name, prompt(first, 10))
    desk.step()
    desk.context.faults = [FAILED, FAILED]
    desk.run()
    ends = desk.ends()
    assert isinstance(ends["first"], RequestFailed)
    assert ends["first"].error is FAILED
    assert isinstance(ends["second"], RequestFinished)
    assert desk.cells.num_used == sum(node.num_cells for node in desk.keeper.held())


def written_with(faults: list[Exception]) -> dict[str, StepEvent]:
    """The ends of two answers that are written together, where the third batch and later ones meet these faults."""
    desk = FakeLoop()
    for name, first in (("first", 1), ("second", 50)):
        desk.ask(name, prompt(first, 10), max_tokens=5)
    for _ in range(2):
        desk.step()
    desk.context.faults = faults
    desk.run()
    assert desk.context.faults == []
    assert desk.cells.num_used == sum(node.num_cells for node in desk.keeper.held())
    return desk.ends()


def test_a_batch_whose_weights_were_not_read_is_computed_once_more_and_nobody_notices() -> None:
    assert written_with([NOT_READ]) == written_with([])


def test_all_of_a_batch_whose_weights_cannot_be_read_fail_with_the_second_try() -> None:
    ends = written_with([NOT_READ, NOT_READ])
    assert [type(end) for end in ends.values()] == [RequestFailed] * 2
    assert {end.error for end in ends.values()} == {NOT_READ}


def test_each_batch_has_its_own_second_try() -> None:
    desk = FakeLoop()
    desk.ask("first", prompt(1, 10), max_tokens=5)
    while desk.loop.has_work:
        desk.context.faults = [NOT_READ]
        desk.step()
        desk.step()
    assert isinstance(desk.ends()["first"], RequestFinished)


def test_whoever_comes_after_one_that_was_cancelled_has_a_second_try_too() -> None:
    desk = FakeLoop()
    desk.ask("cancelled", prompt(1, 10))
    desk.context.faults = [NOT_READ]
    desk.step()
    desk.loop.cancel("cancelled")
    desk.ask("next", prompt(50, 10))
    desk.context.faults = [NOT_READ]
    desk.run()
    assert isinstance(desk.ends()["next"], RequestFinished)


def test_whoever_joins_a_batch_that_failed_has_a_second_try_too() -> None:
    desk = FakeLoop()
    desk.ask("first", prompt(1, 10))
    desk.context.faults = [NOT_READ]
    desk.step()
    desk.ask("joining", prompt(50, 10))
    desk.context.faults = [NOT_READ]
    desk.run()
    ends = desk.ends()
    assert isinstance(ends["first"], RequestFailed)
    assert isinstance(ends["joining"], RequestFinished)


def test_a_drive_that_fails_twice_in_a_row_has_its_files_opened_anew() -> None:
    drive_failed = WeightsNotRead("The drive has gone.", "Look whether it is in order.", drive_failed=True)
    assert written_with([drive_failed]) == written_with([])
    with pytest.raises(WeightsChanged, match=r"The drive has gone.*Look whether") as raised:
        written_with([drive_failed, drive_failed])
    assert raised.value.__cause__ is drive_failed


def test_what_a_pass_without_weights_left_in_cells_is_wiped_out_and_everybody_goes_on() -> None:
    def written(faults: list[Exception]) -> dict[str, StepEvent]:
        desk = FakeLoop()
        desk.ask("kept", prompt(1, 10), max_tokens=1)
        desk.run()
        desk.ask("first", prompt(1, 10, 5), max_tokens=6)
        for _ in range(3):
            desk.step()
        desk.context.faults, desk.context.is_spoilt = list(faults), bool(faults)
        desk.ask("second", prompt(50, 10))
        desk.step()
        assert not desk.context.is_spoilt
        assert bool(desk.cells.num_used) is not bool(faults)
        desk.keeper.arrives()
        desk.run()
        assert isinstance(desk.ends()["first"], RequestFinished)
        return desk.ends()

    assert written([NOT_READ]) == written([])


def test_an_answer_that_has_ended_leaves_nothing_in_cells_that_are_wiped_out() -> None:
    desk = FakeLoop()
    desk.ask("ended", prompt(1, 10), max_tokens=2)
    while not desk.loop.closing:
        desk.step()
    desk.context.faults, desk.context.is_spoilt = [NOT_READ], True
    desk.step()
    assert not desk.context.is_spoilt
    assert (desk.cells.num_used, desk.keeper.nodes, desk.loop.closing) == (0, {}, frozenset())
    # What was computed of it is kept elsewhere.
    assert desk.keeper.away


def test_a_batch_that_finds_no_room_is_told_of_and_nobody_notices_where_the_next_finds_some() -> None:
    desk = FakeLoop()
    desk.context.faults = [NO_ROOM]
    desk.ask("first", prompt(1, 10))
    desk.step()
    assert desk.loop.shortage is NO_ROOM
    desk.run()
    assert desk.loop.shortage is None
    assert isinstance(desk.ends()["first"], RequestFinished)
    assert written_with([NO_ROOM]) == written_with([])


def test_who_fails_for_want_of_room_leaves_no_want_behind() -> None:
    desk = FakeLoop()
    desk.context.faults = [NO_ROOM, NO_ROOM]
    desk.ask("first", prompt(1, 10))
    desk.run()
    assert isinstance(desk.ends()["first"], RequestFailed)
    assert desk.loop.shortage is None


def test_who_finds_no_room_again_fails_and_the_others_go_on() -> None:
    ends = written_with([NO_ROOM, NO_ROOM, NO_ROOM])
    assert sorted(type(end).__name__ for end in ends.values()) == ["RequestFailed", "RequestFinished"]
    assert {end.error for end in ends.values() if isinstance(end, RequestFailed)} == {NO_ROOM}


def test_who_asks_after_weights_could_not_be_read_is_answered() -> None:
    desk = FakeLoop()
    desk.context.faults = [NOT_READ, NOT_READ]
    desk.ask("unlucky", prompt(1, 10))
    desk.run()
    desk.ask("later", prompt(50, 10))
    desk.run()
    assert isinstance(desk.ends()["unlucky"], RequestFailed)
    assert isinstance(desk.ends()["later"], RequestFinished)


def test_who_finds_cells_that_nobody_gives_back_fails_in_a_sentence_instead_of_waiting_for_ever() -> None:
    desk = FakeLoop(num_cells=64)
    desk.cells.grow(desk.cells.open(), 1)
    desk.ask("large", prompt(1, 63))
    desk.run()
    end = desk.ends()["large"]
    assert isinstance(end, RequestFailed)
    assert isinstance(end.error, NoCells)


def test_an_answer_whose_next_token_cannot_be_chosen_fails_alone() -> None:
    class Stuck(Script):
        def sample(self, context: object, row: int) -> int:
            if len(self.rows) == 2:
                raise GenerationError("The grammar leaves this model no way to go on.")
            return super().sample(context, row)

    scripts = iter([Stuck(range(1, 9)), Script(range(1, 9))])
    desk = FakeLoop(make_script=lambda: next(scripts))
    for name, first in (("stuck", 1), ("fine", 50)):
        desk.ask(name, prompt(first, 10))
    desk.run()
    assert [type(desk.ends()[name]) for name in ("stuck", "fine")] == [RequestFailed, RequestFinished]


def test_batches_are_counted_also_where_nothing_is_told() -> None:
    desk = FakeLoop()
    desk.ask("reading", prompt(1, 80))
    assert desk.loop.running == []
    desk.step()
    assert (desk.loop.num_steps, desk.events, desk.loop.running) == (1, [], ["reading"])


def test_a_request_waits_without_a_batch_while_what_is_kept_of_it_is_read() -> None:
    desk = FakeLoop()
    desk.ask("first", prompt(1, 40))
    desk.run()
    desk.keeper.free_cells(128)
    desk.ask("again", prompt(1, 40, 5))
    for _ in range(3):
        desk.step()
    assert desk.loop.running == []
    desk.keeper.arrives()
    desk.run()
    assert isinstance(desk.ends()["again"], RequestFinished)
    assert desk.keeper.pins == []


def test_all_who_wait_are_answered_in_order_though_only_some_have_cells() -> None:
    desk = FakeLoop()
    names = [f"r{number}" for number in range(40)]
    for number, name in enumerate(names):
        desk.ask(name, prompt(20 * number + 1, 15), max_tokens=2)
    most = 0
    while desk.loop.has_work:
        desk.step()
        most = max(most, len(desk.loop.running))
    assert list(desk.ends()) == names
    assert 1 < most < len(names)
    assert desk.keeper.pins == []


def test_cells_are_spared_while_a_processor_reads_much() -> None:
    desk = FakeLoop(num_cells=2048)
    desk.ask("short", prompt(1, 200), max_tokens=9)
    desk.run()
    assert desk.keeper.num_spared == 0
    desk.context.attends_on_processor = True
    desk.ask("short again", prompt(300, 200), max_tokens=9)
    desk.run()
    assert desk.keeper.num_spared == 0
    desk.ask("long", prompt(600, 400), max_tokens=9)
    desk.run()
    # In steps of 32 tokens, those before which this much of it was missing.
    assert desk.keeper.num_spared == (400 - LONG_TO_READ_TOKENS) // 32
