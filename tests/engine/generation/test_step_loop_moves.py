"""Tests for engine.generation.step_loop: going on in another context, with every request that was being answered."""

from __future__ import annotations

import errno
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from engine.core import KVType
from engine.generation import admission, gathering, residence
from engine.generation.batching import Work
from engine.generation.beam import Beams
from engine.generation.cells import Cells
from engine.generation.computing import Computing
from engine.generation.context import Context, ContextSpec, State, Stretch
from engine.generation.groups import SequenceGroup
from engine.generation.preemption import Part
from engine.generation.request import PromptRead
from engine.generation.residence import Residence
from engine.generation.segment import Segment
from engine.generation.spilling import on_disk
from tests.helpers.loop_desk import GREEDY, FakeKeeper, LoopDesk, decisive_prompts
from tests.helpers.tiny_gguf import write_tiny_lfm2, write_tiny_mamba, write_tiny_model

LONG = replace(GREEDY, max_tokens=40)
SHAPED = replace(LONG, grammar='root ::= ("ab" | "cd" | "ef")* "."')
PLENTY = 1 << 30


@pytest.fixture(scope="module")
def wide_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Its heads are wide enough for keys and values of eight bits."""
    return write_tiny_model(tmp_path_factory.mktemp("moves") / "wide.gguf", heads=2, kv_heads=1, never_ends=True)


@pytest.fixture
def desk(wide_model: Path) -> Iterator[LoopDesk]:
    desk = LoopDesk(wide_model)
    yield desk
    desk.close()


def move(
    desk: LoopDesk,
    num_cells: int = 512,
    n_ubatch: int = 64,
    kv_type: KVType = "f16",
    room_bytes: int = PLENTY,
    reloads: bool = False,
    disk_folder: Path | None = None,
) -> None:
    """What a change of the placement does: another context, perhaps over the model loaded again."""
    desk.loop.set_aside(room_bytes, disk_folder)
    desk.check()
    assert desk.cells.num_free == desk.cells.num_cells
    desk.context.close()
    if reloads:
        desk.model.close()
        desk.model.load(0, lambda _: True, is_repacked=False)
    then = desk.context.spec
    desk.context = Context(desk.model, ContextSpec(num_cells, n_ubatch, n_ubatch, 1, 32, kv_type))
    desk.cells = Cells(desk.context.num_cells, desk.context.num_sequences)
    desk.loop.move(desk.context, desk.cells, desk.keeper, can_load=kv_type == then.kv_type)


def prompts(path: Path, count: int, max_tokens: int = 40) -> dict[str, str]:
    found = decisive_prompts(path, count, max_tokens, (f"Tale {n} of a wolf:" for n in range(200)))
    return {prompt: written.text for prompt, written in found.items()}


def test_passes_have_the_threads_that_they_may_have_for_what_they_read_also_in_another_context(desk, monkeypatch):
    asked, used = list[float](), list[int | None]()
    monkeypatch.setattr(Context, "use_threads", lambda self, num_threads: used.append(num_threads))

    def threads_for(reading_seconds: float) -> int | None:
        asked.append(reading_seconds)
        return 1 if reading_seconds < 0.5 else None

    desk.loop.share_cores(threads_for)
    desk.ask("q", "x" * 100, sampling=LONG)
    desk.step()
    move(desk)
    for _ in range(3):
        desk.step()
    # A hundredth of a second for each of 64 tokens, as guessed, and of the 37 behind them; then it writes.
    assert asked == pytest.approx([0.64, 0.37, 0.0, 0.0])
    assert used == [None, 1, 1, 1]


def test_a_prompt_that_moves_half_read_took_as_long_as_its_passes_and_not_as_the_move(desk, monkeypatch):
    run = Computing.run

    def take_a_second(computing: Computing, batch: list[Work]) -> list[int]:
        desk.time.now += 1.0
        return run(computing, batch)

    monkeypatch.setattr(Computing, "run", take_a_second)
    desk.ask("long", "a wolf and a lamb " * 20)
    num_passes = 1
    assert not desk.step()
    desk.time.now += 30.0
    move(desk)
    while not any(isinstance(event, PromptRead) for event in desk.step()):
        num_passes += 1
    assert num_passes > 1
    assert desk.reading("long").seconds == pytest.approx(num_passes + 1.0)


def test_answers_go_on_in_more_cells_and_in_fewer_again_with_the_same_texts(desk, wide_model):
    texts = prompts(wide_model, 6)
    for prompt in texts:
        desk.ask(prompt, prompt, sampling=LONG)
    for num_cells in (1024, 256, 512):
        for _ in range(4):
            desk.step()
        move(desk, num_cells)
    desk.run()
    assert {prompt: desk.text(prompt) for prompt in texts} == texts
    assert desk.loop.saved_bytes == 0
    assert desk.loop.counters().preempted_by_recompute == 0


def test_answers_that_find_no_room_in_fewer_cells_wait_for_others_and_then_go_on(desk, wide_model):
    texts = prompts(wide_model, 6)
    for prompt in texts:
        desk.ask(prompt, prompt, sampling=LONG)
    for _ in range(36):
        desk.step()
    move(desk, num_cells=256)
    desk.step()
    assert desk.loop.counters().num_preempted > 0
    desk.run()
    assert {prompt: desk.text(prompt) for prompt in texts} == texts


@pytest.mark.parametrize("n_ubatch", [16, 128])
def test_a_prompt_that_is_half_read_goes_on_in_steps_of_another_size(desk, n_ubatch: int):
    long_prompt = "a wolf and a lamb " * 12
    alone = desk.write(long_prompt, LONG).answers[0].text
    desk.ask("q", long_prompt, sampling=LONG)
    desk.step()
    assert not desk.text("q")
    move(desk, n_ubatch=n_ubatch)
    desk.run()
    assert desk.text("q") == alone
    assert desk.reading("q").computed_tokens == len(desk.prompt(long_prompt))


def test_what_finds_no_room_in_memory_is_read_again(desk, wide_model):
    ((prompt, text),) = prompts(wide_model, 1).items()
    desk.ask("q", prompt, sampling=LONG)
    for _ in range(10):
        desk.step()
    move(desk, room_bytes=0)
    assert desk.loop.saved_bytes == 0
    desk.run()
    assert desk.text("q") == text
    assert desk.loop.counters().preempted_by_recompute == 1


def test_keys_and_values_of_another_format_are_computed_again_behind_what_was_written(desk):
    desk.ask("q", "A tale of a wolf:", sampling=LONG)
    for _ in range(10):
        desk.step()
    written = desk.text("q")
    move(desk, kv_type="q8_0")
    assert desk.loop.saved_bytes == 0
    desk.run()
    assert desk.text("q").startswith(written)
    assert len(desk.finished("q").answers[0].tokens) == 40


def test_a_model_that_is_loaded_anew_goes_on_with_every_answer(desk, wide_model):
    texts = prompts(wide_model, 3)
    for prompt in texts:
        desk.ask(prompt, prompt, sampling=LONG)
    for _ in range(10):
        desk.step()
    move(desk, reloads=True)
    desk.run()
    assert {prompt: desk.text(prompt) for prompt in texts} == texts


def test_an_answer_that_follows_a_grammar_does_so_over_the_model_loaded_anew(desk):
    alone = desk.write("Say:", SHAPED).answers[0].text
    desk.ask("q", "Say:", sampling=SHAPED)
    for _ in range(6):
        desk.step()
    assert 0 < len(desk.text("q")) < len(alone)
    move(desk, reloads=True)
    desk.run()
    assert desk.text("q") == alone


def test_sampled_answers_draw_the_same_random_numbers_as_if_nothing_had_been_moved(desk):
    drawn = replace(LONG, temperature=1.0, num_answers=3)
    alone = [answer.tokens for answer in desk.write("Say:", drawn).answers]
    desk.ask("q", "Say:", sampling=drawn)
    for _ in range(6):
        desk.step()
    move(desk, reloads=True)
    desk.run()
    moved = [answer.tokens for answer in desk.finished("q").answers]
    assert [len(tokens) for tokens in moved] == [40, 40, 40]
    assert len(set(moved)) == 3
    # Sums differ by thousandths in another batch, so that a draw near a border may fall the other way, later or never.
    assert [tokens[:8] for tokens in moved] == [tokens[:8] for tokens in alone]


def test_beams_go_on_where_they_were(wide_model):
    sampling = replace(LONG, beam_width=3, max_tokens=16)
    desk = LoopDesk(wide_model, make_beams=Beams)
    alone = desk.write("A tale:", sampling).answers
    desk.ask("q", "A tale:", sampling=sampling)
    for _ in range(6):
        desk.step()
    move(desk, num_cells=256)
    desk.run()
    assert [answer.tokens for answer in desk.finished("q").answers] == [answer.tokens for answer in alone]
    desk.close()


@pytest.mark.parametrize("write", [write_tiny_mamba, write_tiny_lfm2])
def test_models_whose_prefixes_cannot_be_shared_are_moved_whole(tmp_path: Path, write):
    desk = LoopDesk(write(tmp_path / "m.gguf"))
    alone = desk.write("A tale:", LONG).answers[0].text
    desk.ask("q", "A tale:", sampling=LONG)
    for _ in range(5):
        desk.step()
    move(desk, num_cells=256)
    desk.run()
    assert desk.text("q") == alone
    desk.close()


def test_who_is_cancelled_while_it_is_set_aside_leaves_nothing(desk):
    desk.ask("q", "A tale of a wolf:", sampling=LONG)
    for _ in range(5):
        desk.step()
    move(desk)
    assert desk.loop.saved_bytes > 0
    desk.loop.cancel("q")
    desk.run()
    assert desk.loop.saved_bytes == 0


def test_what_a_context_must_have_is_told_of_the_largest_request(desk):
    assert (desk.loop.needs.num_cells, desk.loop.needs.num_sequences) == (0, 0)
    desk.ask("a", "A tale:", sampling=LONG)
    desk.ask("b", "A tale:", sampling=replace(LONG, num_answers=3, max_tokens=4))
    assert desk.loop.needs.num_cells == len(desk.prompt("A tale:")) + 40
    assert desk.loop.needs.num_sequences == 3
    desk.ask("c", "A tale:", sampling=replace(LONG, max_tokens=10_000))
    assert desk.loop.needs.num_cells == 512
    desk.step()
    for request_id in "abc":
        desk.loop.cancel(request_id)
    desk.run()


def test_a_beginning_that_was_kept_is_not_saved_a_second_time(wide_model):
    desk = LoopDesk(wide_model, keeper=FakeKeeper)
    shared = Segment(desk.prompt("once upon a time " * 6), "instructions")
    segments = [shared, Segment(tuple(desk.model.tokenize("Tell of a wolf.")))]
    desk.ask("first", segments, sampling=LONG)
    desk.run()
    desk.ask("q", segments, sampling=LONG)
    for _ in range(5):
        desk.step()
    kept = len(shared.tokens)
    desk.loop.set_aside(PLENTY)
    (group,) = desk.loop._groups.waiting
    assert [part.start for part in group.lead.saved] == [sum(len(segment.tokens) for segment in segments)]
    assert group.lead.saved[0].start > kept
    desk.loop.move(desk.context, desk.cells, desk.keeper)
    desk.run()
    assert desk.text("q") == desk.text("first")
    desk.close()


def test_a_prompt_whose_answer_moved_is_found_by_the_next_that_begins_so(wide_model):
    desk = LoopDesk(wide_model, keeper=FakeKeeper)
    shared = Segment(desk.prompt("x" * 60), "instructions")
    first, second = (Segment(tuple(desk.model.tokenize(text)), "question") for text in ("yyyy", "zzzzzz"))
    desk.ask("first", [shared, first], sampling=LONG)
    for _ in range(3):
        desk.step()
    # Whatever keeps prompts has no room for it outside of cells.
    desk.keeper.leave_cells()
    desk.loop.set_aside(PLENTY)
    desk.loop.move(desk.context, desk.cells, desk.keeper)
    desk.ask("second", [shared, second], sampling=LONG)
    desk.run()
    (read,) = [one for one in desk.events if isinstance(one, PromptRead) and one.request_id == "second"]
    assert (read.cached_tokens, read.computed_tokens) == (len(shared.tokens), len(second.tokens))
    desk.close()


def test_what_was_saved_waits_for_cells_to_be_loaded_in_also_where_its_beginning_was_found(wide_model, monkeypatch):
    desk = LoopDesk(wide_model, keeper=FakeKeeper)
    shared = Segment(desk.prompt("x" * 60), "instructions")
    first, second = (Segment(tuple(desk.model.tokenize(letter * 60)), "question") for letter in "yz")
    desk.ask("first", [shared, first], sampling=LONG)
    desk.ask("second", [shared, second, second], sampling=LONG)
    while len(desk.loop._groups.running) < 2 or desk.loop._groups.being_read:
        desk.step()
    desk.keeper.leave_cells()
    move(desk, 256)
    desk.keeper._context, desk.keeper._cells = desk.context, desk.cells
    saved = [part.end for group in desk.loop._groups.waiting for part in group.lead.saved]
    # There is room for what is not shared, and not for all that was saved.
    assert max(saved) - len(shared.tokens) < 256 - min(saved) < max(saved)
    computed, decode = list[int](), Context.decode

    def counted(self: Context, stretches: Sequence[Stretch]) -> list[int]:
        computed.append(sum(len(stretch.tokens) for stretch in stretches))
        return decode(self, stretches)

    monkeypatch.setattr(Context, "decode", counted)
    desk.run()
    # Nothing but the rest of both answers.
    assert sum(computed) <= 2 * LONG.max_tokens
    desk.close()


def test_what_memory_has_no_room_for_moves_over_the_disk(desk, wide_model, tmp_path: Path):
    texts = prompts(wide_model, 4)
    for prompt in texts:
        desk.ask(prompt, prompt, sampling=LONG)
    for _ in range(8):
        desk.step()
    room_bytes = max(part.num_bytes for group in desk.loop._groups.running for part in parts_of(desk, group))
    move(desk, 1024, room_bytes=room_bytes, disk_folder=tmp_path)
    assert 0 < desk.loop.saved_bytes <= room_bytes
    assert desk.loop.spilled_bytes > 0
    desk.run()
    assert {prompt: desk.text(prompt) for prompt in texts} == texts
    assert desk.loop.counters().preempted_by_recompute == 0
    assert (desk.loop.saved_bytes, desk.loop.spilled_bytes) == (0, 0)


@pytest.mark.parametrize("num_answers", [1, 3])
def test_what_memory_has_no_room_for_at_once_moves_over_the_disk_in_pieces(
    desk, wide_model, tmp_path: Path, monkeypatch, num_answers: int
):
    prompt, text = next(iter(prompts(wide_model, 1).items()))
    desk.ask("q", prompt, sampling=replace(LONG, num_answers=num_answers))
    for _ in range(8):
        desk.step()
    (group,) = desk.loop._groups.running
    whole_bytes = sum(part.num_bytes for part in parts_of(desk, group))
    monkeypatch.setattr(admission, "LEAST_PIECE_BYTES", whole_bytes // 5)
    computed = group.lead.num_computed
    move(desk, 1024, room_bytes=whole_bytes // 4, disk_folder=tmp_path)
    assert desk.loop.saved_bytes == 0
    assert desk.loop.spilled_bytes >= whole_bytes
    saved = [part for sequence in group.sequences for part in sequence.saved]
    assert max(part.num_bytes for part in saved) <= 1.2 * whole_bytes / 4
    desk.step()
    assert group.lead.num_computed == computed + 1
    desk.run()
    assert desk.text("q") == text
    assert desk.loop.counters().preempted_by_recompute == 0
    assert (desk.loop.saved_bytes, desk.loop.spilled_bytes) == (0, 0)


def test_what_was_saved_first_makes_way_for_pieces_of_what_has_no_room(desk, tmp_path: Path, monkeypatch):
    desk.ask("large", "x" * 100, sampling=LONG)
    desk.ask("small", "A tale of a wolf:", sampling=LONG)
    while len(desk.loop._groups.running) < 2 or desk.loop._groups.being_read:
        desk.step()
    large, small = (sum(p.num_bytes for p in parts_of(desk, group)) for group in desk.loop._groups.running)
    # The small one is saved in memory first; what passes through takes all of it but a little.
    room_bytes = (large + small) // 2
    assert small < room_bytes < large
    monkeypatch.setattr(admission, "LEAST_PIECE_BYTES", room_bytes - small // 2)
    move(desk, 1024, room_bytes=room_bytes, disk_folder=tmp_path)
    assert desk.loop.counters().preempted_by_recompute == 0
    assert desk.loop.saved_bytes == 0
    desk.run()


@pytest.mark.expects_warnings
def test_where_the_disk_fills_up_in_the_middle_it_is_read_again(desk, wide_model, tmp_path: Path, monkeypatch):
    prompt, text = next(iter(prompts(wide_model, 1).items()))
    desk.ask("q", prompt, sampling=LONG)
    for _ in range(8):
        desk.step()
    (group,) = desk.loop._groups.running
    whole_bytes = sum(part.num_bytes for part in parts_of(desk, group))
    monkeypatch.setattr(admission, "LEAST_PIECE_BYTES", whole_bytes // 5)
    num_written = 0

    def fill_up(state: State, folder: Path) -> State:
        nonlocal num_written
        num_written += 1
        if num_written == 3:
            raise OSError(errno.ENOSPC, "No space left on device")
        return on_disk(state, folder)

    monkeypatch.setattr(residence, "on_disk", fill_up)
    move(desk, 1024, room_bytes=whole_bytes // 4, disk_folder=tmp_path)
    assert (desk.loop.saved_bytes, desk.loop.spilled_bytes) == (0, 0)
    assert desk.loop.counters().preempted_by_recompute == 1
    desk.run()
    assert desk.text("q") == text


def test_what_passes_through_no_memory_at_all_is_read_again(desk, tmp_path: Path):
    desk.ask("q", "A tale of a wolf:", sampling=LONG)
    for _ in range(5):
        desk.step()
    move(desk, 1024, room_bytes=0, disk_folder=tmp_path)
    assert desk.loop.counters().preempted_by_recompute == 1
    assert desk.loop.spilled_bytes == 0


def parts_of(desk: LoopDesk, group: SequenceGroup) -> list[Part]:
    return desk.loop._steps.residence.parts(group)


def test_answers_that_wait_on_the_disk_go_on_where_they_were(desk, tmp_path: Path):
    alone = desk.write("A tale of a wolf:", LONG).answers[0].text
    desk.ask("q", "A tale of a wolf:", sampling=LONG)
    for _ in range(5):
        desk.step()
    desk.loop.set_aside(2**30)
    assert desk.loop.saved_bytes > 0
    desk.loop.save_to(tmp_path)
    assert desk.loop.saved_bytes == 0
    assert desk.loop.spilled_bytes > 0
    desk.run()
    assert desk.text("q") == alone
    assert desk.loop.counters().preempted_by_recompute == 0
    assert desk.loop.spilled_bytes == 0


def test_answers_whose_scattered_cells_are_put_side_by_side_go_on_with_the_same_texts(desk, wide_model, monkeypatch):
    texts, moved = prompts(wide_model, 6), []
    gather = Residence.gather

    def gather_and_note(residence: Residence, groups):
        moved.append(len(groups))
        return gather(residence, groups)

    monkeypatch.setattr(Residence, "gather", gather_and_note)
    # A model this small loses little by gaps.
    monkeypatch.setattr(gathering, "SECONDS_EACH", 0.0)
    for prompt in texts:
        desk.ask(prompt, prompt, sampling=LONG)
    desk.run()
    assert {prompt: desk.text(prompt) for prompt in texts} == texts
    assert moved.count(6) >= 2
    assert desk.loop.counters().preempted_by_recompute == 0
