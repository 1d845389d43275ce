"""Tests for engine.generation.appending: text that an answer reads while it is being written."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from engine.core import SamplingParams
from engine.generation.drafting import PassCosts, PromptLookup
from engine.generation.request import Request, RequestCancelled, RequestFinished, TextWritten
from engine.generation.segment import Segment, tokens_of
from tests.helpers.loop_desk import GREEDY, BestToken, FakeKeeper, LoopDesk
from tests.helpers.tiny_gguf import write_tiny_mamba, write_tiny_model

MORE = "\n\n[4] More about what was asked. Go on."
MakeDesk = Callable[..., LoopDesk]


@pytest.fixture(scope="module")
def paths(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("models")
    return {
        "llama": write_tiny_model(folder / "llama.gguf"),
        "qwen2": write_tiny_model(folder / "qwen2.gguf", architecture="qwen2"),
        "mamba": write_tiny_mamba(folder / "mamba.gguf"),
    }


@pytest.fixture
def make_desk(paths: dict[str, Path]) -> Iterator[MakeDesk]:
    desks: list[LoopDesk] = []

    def make(name: str = "llama", **options) -> LoopDesk:
        desks.append(LoopDesk(paths[name], **options))
        return desks[-1]

    yield make
    for desk in desks:
        desk.close()


def begin(desk: LoopDesk, prompt: str, num_tokens: int, sampling: SamplingParams = GREEDY) -> tuple[int, ...]:
    """Asks, and steps until at least this many tokens were written, which it returns."""
    desk.ask("r", prompt, sampling=sampling)
    return written(desk, num_tokens)


def written(desk: LoopDesk, num_tokens: int) -> tuple[int, ...]:
    """Steps until something can be appended behind at least this many tokens, which it returns."""
    while (so_far := desk.loop.written("r")) is None or len(so_far.tokens) < num_tokens:
        desk.step()
    return so_far.tokens


def more(desk: LoopDesk, text: str = MORE) -> tuple[Segment, ...]:
    words = text.split(" ")
    middle = len(words) // 2
    parts = " ".join(words[:middle]), " " + " ".join(words[middle:])
    return tuple(Segment(tuple(desk.model.tokenize(part))) for part in parts)


def continued_alone(desk: LoopDesk, prompt: str, written: tuple[int, ...], num_tokens: int) -> tuple[int, ...]:
    """What follows the prompt, what was written and the appended text if all of it is read."""
    tokens = (*desk.prompt(prompt), *written, *tokens_of(more(desk)))
    sampling = replace(GREEDY, max_tokens=num_tokens)
    desk.loop.submit(Request("whole", (Segment(tokens),), sampling))
    desk.run()
    return desk.finished("whole").answers[0].tokens


@pytest.mark.parametrize("name", ["llama", "qwen2"])
def test_what_is_written_after_an_append_is_what_follows_the_same_tokens(make_desk: MakeDesk, name: str) -> None:
    desk = make_desk(name)
    before = begin(desk, "Once upon a time", 6)

    assert desk.loop.append("r", more(desk), GREEDY.max_tokens)
    desk.run()

    tokens = desk.finished("r").answers[0].tokens
    assert tokens[: len(before)] == before
    assert len(tokens) == GREEDY.max_tokens
    rest = GREEDY.max_tokens - len(before)
    assert tokens[len(before) :] == continued_alone(desk, "Once upon a time", before, rest)


@pytest.mark.parametrize("kind", ["swap", "recompute"])
@pytest.mark.parametrize("num_steps", [0, 1, 3])
def test_a_preemption_after_an_append_changes_nothing(make_desk: MakeDesk, kind: str, num_steps: int) -> None:
    desk = make_desk(swap_budget_bytes=1 << 30 if kind == "swap" else 0, n_ubatch=16)
    before = begin(desk, "Once upon a time", 6)
    desk.ask("other", "Lily wanted to play", sampling=replace(GREEDY, max_tokens=80))
    before = written(desk, len(before) + 3)

    assert desk.loop.append("r", more(desk), GREEDY.max_tokens)
    for _ in range(num_steps):
        desk.step()
    desk.loop._steps.admission.preempt(desk.loop._groups.find("r"))
    desk.run()

    tokens = desk.finished("r").answers[0].tokens
    rest = GREEDY.max_tokens - len(before)
    assert tokens == (*before, *continued_alone(desk, "Once upon a time", before, rest))
    counters = desk.loop.counters()
    assert (counters.preempted_by_swap, counters.preempted_by_recompute) == ((1, 0) if kind == "swap" else (0, 1))


def test_a_request_without_cells_can_be_appended_to(make_desk: MakeDesk) -> None:
    desk = make_desk(swap_budget_bytes=1 << 30)
    before = begin(desk, "Once upon a time", 6)
    desk.loop._steps.admission.preempt(desk.loop._groups.find("r"))

    assert desk.loop.append("r", more(desk), GREEDY.max_tokens)
    desk.run()

    rest = GREEDY.max_tokens - len(before)
    assert desk.finished("r").answers[0].tokens[len(before) :] == continued_alone(
        desk, "Once upon a time", before, rest
    )


def test_nothing_of_it_is_told_or_counted(make_desk: MakeDesk) -> None:
    desk = make_desk()
    begin(desk, "Once upon a time", 6)

    desk.loop.append("r", more(desk), GREEDY.max_tokens)
    desk.run()

    finished = desk.finished("r").answers[0]
    assert desk.text("r") == finished.text
    assert "what was asked" not in finished.text
    assert sum(event.num_tokens for event in desk.events if isinstance(event, TextWritten)) == GREEDY.max_tokens
    assert desk.loop.counters().generated_tokens == GREEDY.max_tokens


def test_the_sampler_is_told_of_what_was_sampled_only(make_desk: MakeDesk) -> None:
    sampled: list[int] = []

    class Noting(BestToken):
        def sample(self, context, row: int) -> int:
            sampled.append(super().sample(context, row))
            return sampled[-1]

    desk = make_desk(make_sampler=lambda model, params: Noting())
    begin(desk, "Once upon a time", 6)
    desk.loop.append("r", more(desk), GREEDY.max_tokens)
    desk.run()

    assert tuple(sampled) == desk.finished("r").answers[0].tokens


def test_drafts_change_no_text_behind_it(make_desk: MakeDesk) -> None:
    costs = PassCosts()
    costs.note(1, 1, 1.0)
    costs.note(64, 1, 1.0)
    desk = make_desk(make_drafter=partial(PromptLookup, costs=costs))
    before = begin(desk, "Once upon a time", 6, replace(GREEDY, max_tokens=120))

    assert desk.loop.append("r", more(desk), 120)
    desk.run()

    tokens = desk.finished("r").answers[0].tokens
    assert desk.loop.counters().accepted_tokens > 0
    assert tokens[len(before) :] == continued_alone(desk, "Once upon a time", before, 120 - len(before))


def test_a_drafter_looks_up_what_was_appended() -> None:
    lookup = PromptLookup(Request("r", (Segment((1, 2)),)), PassCosts())

    lookup.read([1, 2, 50, 60, 61, 62, 63, 64], 6)
    lookup._see([1, 2, 50, 60, 61, 62, 63, 64, 60])
    lookup._see([1, 2, 50, 60, 61, 62, 63, 64, 60, 61])

    assert lookup._source[lookup._place] == 62
    assert lookup._match == 2


def test_an_answer_may_be_made_shorter_so_that_it_fits(make_desk: MakeDesk) -> None:
    desk = make_desk()
    begin(desk, "Once upon a time", 6)

    assert desk.loop.append("r", more(desk), 10)
    desk.run()

    answer = desk.finished("r").answers[0]
    assert (len(answer.tokens), answer.finish_reason) == (10, "length")


def test_what_was_appended_is_kept_with_the_answer(make_desk: MakeDesk) -> None:
    desk = make_desk(keeper=FakeKeeper)
    before = begin(desk, "Once upon a time", 6)
    desk.loop.append("r", more(desk), GREEDY.max_tokens)
    desk.run()
    after = desk.finished("r").answers[0].tokens[len(before) :]

    prompt = Segment(desk.prompt("Once upon a time"), "instructions")
    whole = (prompt, Segment(before), *more(desk), Segment(after))
    assert desk.keeper.peek(whole) == len(tokens_of(whole))


def test_a_cancel_while_it_is_read_keeps_only_what_was_computed(make_desk: MakeDesk) -> None:
    desk = make_desk(keeper=FakeKeeper, n_ubatch=16)
    before = begin(desk, "Once upon a time", 6)
    segments = more(desk)
    assert len(segments[0].tokens) > 16
    desk.loop.append("r", segments, GREEDY.max_tokens)
    desk.step()
    desk.loop.cancel("r")
    desk.run()

    end = desk.end_of("r")
    assert isinstance(end, RequestCancelled)
    assert end.answers[0].tokens == before
    prompt = Segment(desk.prompt("Once upon a time"), "instructions")
    assert desk.keeper.peek((prompt, Segment(before))) == len(prompt.tokens) + len(before)
    assert desk.keeper.peek((prompt, Segment(before), segments[0])) == len(prompt.tokens) + len(before)


@pytest.mark.parametrize(
    "sampling",
    [replace(GREEDY, num_answers=2), replace(GREEDY, grammar='root ::= "a" root'), replace(GREEDY, max_tokens=0)],
)
def test_answers_that_cannot_go_on_otherwise_are_left_alone(make_desk: MakeDesk, sampling: SamplingParams) -> None:
    desk = make_desk()
    desk.ask("r", "Once upon a time", sampling=sampling)
    for _ in range(4):
        desk.step()
        assert desk.loop.written("r") is None
        assert not desk.loop.append("r", more(desk), 100)
    desk.run()
    assert isinstance(desk.end_of("r"), RequestFinished)


def test_a_model_that_cannot_share_prefixes_is_left_alone(make_desk: MakeDesk) -> None:
    desk = make_desk("mamba")
    desk.ask("r", "Once upon a time")
    for _ in range(4):
        desk.step()
    assert desk.loop.written("r") is None
    assert not desk.loop.append("r", more(desk), 100)
    desk.run()


def test_nothing_is_appended_to_what_was_appended_until_a_token_follows(make_desk: MakeDesk) -> None:
    desk = make_desk(n_ubatch=16)
    begin(desk, "Once upon a time", 6)
    assert desk.loop.append("r", more(desk), GREEDY.max_tokens)
    for _ in range(2):
        assert desk.loop.written("r") is None
        assert not desk.loop.append("r", more(desk), GREEDY.max_tokens)
        desk.step()
    written(desk, 7)
    assert desk.loop.append("r", more(desk), GREEDY.max_tokens)
    desk.run()
    assert len(desk.finished("r").answers[0].tokens) == GREEDY.max_tokens


def test_nothing_is_appended_before_the_first_token_or_after_the_last(make_desk: MakeDesk) -> None:
    desk = make_desk()
    assert not desk.loop.append("r", more(desk), 100)
    desk.ask("r", "Once upon a time")
    assert not desk.loop.append("r", more(desk), 100)
    desk.run()
    assert not desk.loop.append("r", more(desk), 100)


def test_nothing_is_appended_that_does_not_fit_into_the_cells(make_desk: MakeDesk) -> None:
    desk = make_desk(num_cells=256)
    before = begin(desk, "Once upon a time", 6)
    assert not desk.loop.append("r", (Segment((5,) * 250),), GREEDY.max_tokens)
    assert not desk.loop.append("r", more(desk), len(before))
    desk.run()
    assert len(desk.finished("r").answers[0].tokens) == GREEDY.max_tokens


def test_appending_to_many_answers_that_come_and_go_leaks_nothing(make_desk: MakeDesk) -> None:
    desk = make_desk(num_cells=512, n_ubatch=32, swap_budget_bytes=4_000, keeper=FakeKeeper)
    chance, num_appended, asked = random.Random(4), 0, dict[str, SamplingParams]()
    for number in range(300):
        if desk.loop.counters().num_running + desk.loop.counters().num_waiting < 8:
            sampling = replace(GREEDY, max_tokens=chance.randint(6, 40), num_answers=chance.choice((1, 1, 1, 2)))
            asked[f"r{number}"] = sampling
            desk.ask(f"r{number}", f"Once upon a time number {number % 5}", sampling=sampling)
        running = [group.request_id for group in desk.loop._groups.running]
        if running and chance.random() < 0.3:
            num_appended += desk.loop.append(chance.choice(running), more(desk), 100)
        if running and chance.random() < 0.03:
            desk.loop.cancel(chance.choice(running))
        if len(desk.loop._groups.running) > 1 and chance.random() < 0.05:
            desk.loop._steps.admission.preempt(chance.choice(desk.loop._groups.running))
        desk.step()
    desk.run()

    assert num_appended > 20
    assert min(desk.loop.counters().preempted_by_swap, desk.loop.counters().preempted_by_recompute) > 0
    for request_id, sampling in asked.items():
        end = desk.end_of(request_id)
        assert isinstance(end, (RequestFinished, RequestCancelled))
        assert all(len(answer.tokens) <= sampling.max_tokens for answer in end.answers)


def test_nothing_is_appended_while_text_is_held_back(make_desk: MakeDesk) -> None:
    desk = make_desk()
    first = desk.write("Once upon a time", replace(GREEDY, max_tokens=1)).answers[0].text
    desk.ask("r", "Once upon a time", sampling=replace(GREEDY, stop=(first + "never said",)))
    while not desk.loop._groups.running or not desk.loop._groups.running[0].lead.num_generated:
        desk.step()
    assert desk.loop.written("r") is None
    desk.run()
