"""Tests for engine.generation.step_loop."""

from __future__ import annotations

import string
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from engine.core import SamplingParams
from engine.errors import BadRequest, DecodeFailed, NoCells, PromptTooLong
from engine.generation.groups import SequenceGroup, SequenceStatus
from engine.generation.model import Model
from engine.generation.request import (
    PromptRead,
    Request,
    RequestCancelled,
    RequestFailed,
    RequestFinished,
    TextWritten,
    Written,
)
from engine.generation.sampler import ChainSampler
from engine.generation.segment import Segment
from engine.generation.sequence import Guess
from tests.helpers.loop_desk import GREEDY, FakeKeeper, LoopDesk, decisive_prompts
from tests.helpers.shared_data import shared_file
from tests.helpers.tiny_gguf import write_tiny_gemma2, write_tiny_mamba, write_tiny_model

STORIES = ("Once upon a time there was a", "Lily wanted to play with her", "The dog ran to the big")
MakeDesk = Callable[..., LoopDesk]


@pytest.fixture(scope="module")
def paths(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("models")
    return {
        "llama": write_tiny_model(folder / "llama.gguf"),
        "qwen2": write_tiny_model(folder / "qwen2.gguf", architecture="qwen2"),
        "mamba": write_tiny_mamba(folder / "mamba.gguf"),
        "gemma2": write_tiny_gemma2(folder / "gemma2.gguf"),
    }


@pytest.fixture
def make_desk(paths: dict[str, Path]) -> Iterator[MakeDesk]:
    desks: list[LoopDesk] = []

    def make(name: str = "llama", **options) -> LoopDesk:
        path = shared_file("models/stories260K-f32.gguf") if name == "stories" else paths[name]
        desks.append(LoopDesk(path, **options))
        return desks[-1]

    yield make
    for desk in desks:
        desk.close()


@pytest.fixture(scope="module")
def decisive(paths: dict[str, Path]) -> Callable[..., dict[str, Written]]:
    """Three prompts of a model with the answers that it writes to them alone."""
    known: dict[tuple[str, int], dict[str, Written]] = {}

    def find(name: str, max_tokens: int = 24) -> dict[str, Written]:
        if (name, max_tokens) not in known:
            path = shared_file("models/stories260K-f32.gguf") if name == "stories" else paths[name]
            prompts = (f"{story} {end}" for end in string.ascii_letters for story in STORIES)
            known[name, max_tokens] = decisive_prompts(path, 3, max_tokens, prompts)
        return known[name, max_tokens]

    return find


def ask_all(desk: LoopDesk, prompts: dict[str, Written], sampling: SamplingParams = GREEDY) -> None:
    for number, prompt in enumerate(prompts):
        desk.ask(f"r{number}", prompt, sampling=sampling)


def answers(desk: LoopDesk, prompts: dict[str, Written]) -> list[Written]:
    return [desk.finished(f"r{number}").answers[0] for number in range(len(prompts))]


def test_a_request_is_read_written_and_finished(make_desk: MakeDesk) -> None:
    desk = make_desk("stories")

    finished = desk.write(STORIES[0])

    assert desk.text("alone") == finished.answers[0].text
    assert finished.answers[0].text.startswith(" little girl named")
    assert len(finished.answers[0].tokens) == GREEDY.max_tokens
    assert finished.answers[0].finish_reason == "length"
    reading = desk.reading("alone")
    assert (reading.cached_tokens, reading.computed_tokens) == (0, len(desk.prompt(STORIES[0])))
    assert sum(event.num_tokens for event in desk.events if isinstance(event, TextWritten)) == GREEDY.max_tokens


@pytest.mark.parametrize("name", ["llama", "qwen2", "stories"])
def test_answers_do_not_depend_on_who_else_is_answered(make_desk: MakeDesk, decisive, name: str) -> None:
    prompts = decisive(name)
    desk = make_desk(name)

    ask_all(desk, prompts)
    desk.run()

    assert answers(desk, prompts) == list(prompts.values())


@pytest.mark.parametrize("name", ["llama", "qwen2", "stories", "mamba", "gemma2"])
@pytest.mark.parametrize("kind", ["swap", "recompute"])
def test_a_preempted_request_writes_what_it_would_have_written(
    make_desk: MakeDesk, decisive, name: str, kind: str
) -> None:
    prompts = decisive(name)
    desk = make_desk(name, num_cells=256, swap_budget_bytes=1 << 30 if kind == "swap" else 0)

    ask_all(desk, prompts)
    for _ in range(3):
        desk.step()
        for group in list(desk.loop._groups.running)[1:]:
            desk.loop._steps.admission.preempt(group)
            desk.check()
    desk.run()

    assert answers(desk, prompts) == list(prompts.values())
    counters = desk.loop.counters()
    assert counters.preempted_by_swap > 0 if kind == "swap" else counters.preempted_by_swap == 0
    assert counters.preempted_by_recompute == 0 if kind == "swap" else counters.preempted_by_recompute > 0
    assert counters.swapped_bytes == 0


@pytest.mark.parametrize("swap_budget_bytes", [0, 1 << 30])
def test_cells_that_run_out_delay_the_last_and_change_no_answer(
    make_desk: MakeDesk, decisive, swap_budget_bytes: int
) -> None:
    prompts = decisive("stories", 100)
    desk = make_desk("stories", num_cells=256, swap_budget_bytes=swap_budget_bytes)

    ask_all(desk, prompts, replace(GREEDY, max_tokens=100))
    desk.run()

    assert answers(desk, prompts) == list(prompts.values())
    ends = [event.request_id for event in desk.events if isinstance(event, RequestFinished)]
    assert ends == ["r0", "r1", "r2"]
    counters = desk.loop.counters()
    assert counters.preempted_by_swap + counters.preempted_by_recompute > 0


@pytest.mark.parametrize("name", ["stories", "mamba", "gemma2"])
def test_several_answers_share_the_cells_of_their_prompt(make_desk: MakeDesk, name: str) -> None:
    sampling = replace(GREEDY, temperature=1.0, num_answers=4)
    desk = make_desk(name)
    length = len(desk.prompt(STORIES[0]))

    desk.ask("four", STORIES[0], sampling=sampling)
    while desk.loop.counters().generated_tokens < 5 * 4:
        desk.step()

    counters = desk.loop.counters()
    assert counters.cells_by_request == (("four", length + 4 * 4),)
    assert counters.cells_used == length + 4 * 4
    assert counters.cells_saved == 3 * length
    desk.run()
    four = desk.finished("four").answers
    assert len({answer.text for answer in four}) > 1
    for number, answer in enumerate(four):
        alone = make_desk(name).write(STORIES[0], replace(sampling, num_answers=1, seed=7 + number))
        assert alone.answers[0] == answer
        assert desk.text("four", number) == answer.text


@pytest.mark.parametrize("name", ["stories", "mamba", "gemma2"])
@pytest.mark.parametrize("swap_budget_bytes", [0, 1 << 30])
def test_several_answers_survive_preemption(make_desk: MakeDesk, name: str, swap_budget_bytes: int) -> None:
    sampling = replace(GREEDY, temperature=1.0, num_answers=3)
    undisturbed = make_desk(name).write(STORIES[0], sampling)
    desk = make_desk(name, swap_budget_bytes=swap_budget_bytes)

    desk.ask("first", STORIES[1])
    desk.ask("three", STORIES[0], sampling=sampling)
    for _ in range(9):
        desk.step()
    group = desk.loop._groups.find("three")
    assert group is not None
    desk.loop._steps.admission.preempt(group)
    assert desk.loop.counters().num_preempted == 1
    assert group.status is SequenceStatus.PREEMPTED
    desk.run()

    assert desk.finished("three").answers == undisturbed.answers


THREE = replace(GREEDY, temperature=1.0, num_answers=3)


def three_that_left(desk: LoopDesk) -> SequenceGroup:
    """A request for three answers that have been begun, which has lost its cells; of its prompt all is kept."""
    desk.ask("three", STORIES[0], sampling=THREE)
    for _ in range(6):
        desk.step()
    group = desk.loop._groups.find("three")
    assert group is not None
    desk.loop._steps.admission.preempt(group)
    return group


def test_several_answers_go_on_where_all_of_their_prompt_is_kept(make_desk: MakeDesk) -> None:
    undisturbed = make_desk("stories").write(STORIES[0], THREE)
    desk = make_desk("stories", keeper=FakeKeeper, swap_budget_bytes=0)

    three_that_left(desk)
    desk.run()

    assert desk.finished("three").answers == undisturbed.answers


def test_several_answers_go_on_that_left_twice_before_they_had_cells_of_their_own_again(make_desk: MakeDesk) -> None:
    undisturbed = make_desk("stories").write(STORIES[0], THREE)
    desk = make_desk("stories", keeper=FakeKeeper, swap_budget_bytes=0)

    group = three_that_left(desk)
    desk.loop._steps.admission.admit()
    # Nothing but what is kept was in cells, so nothing had to be saved.
    desk.loop.set_aside(1 << 30)
    assert (group.is_swapped, group.lead.saved) == (True, [])
    desk.run()

    assert desk.finished("three").answers == undisturbed.answers


def test_nothing_is_guessed_behind_a_prompt_that_written_answers_share(make_desk: MakeDesk) -> None:
    undisturbed = make_desk("stories").write(STORIES[0], THREE)
    desk = make_desk("stories", keeper=FakeKeeper, swap_budget_bytes=0, make_drafter=lambda request: _Wrong())

    three_that_left(desk)
    desk.run()

    assert desk.finished("three").answers == undisturbed.answers


class _Wrong:
    """Guesses tokens that never come."""

    def draft(self, tokens: list[int], max_tokens: int) -> Guess:
        return Guess([tokens[0]] * min(4, max_tokens))

    def read(self, tokens: list[int], num_read: int) -> None:
        return


def test_a_cancel_ends_at_once_and_frees_everything(make_desk: MakeDesk) -> None:
    desk = make_desk(n_ubatch=32)
    desk.ask("reading", "a" * 200)
    desk.ask("waiting", "b" * 300)
    desk.step()
    assert desk.cells.num_used == 32

    desk.loop.cancel("reading")
    assert desk.cells.num_used == 0
    desk.loop.cancel("waiting")
    desk.loop.cancel("reading")
    desk.loop.cancel("unknown")
    desk.run()

    assert [type(event) for event in desk.events] == [RequestCancelled, RequestCancelled]


def test_a_cancelled_answer_hands_over_what_was_written(make_desk: MakeDesk) -> None:
    desk = make_desk("stories")
    desk.ask("long", STORIES[0])
    for _ in range(6):
        desk.step()

    desk.loop.cancel("long")
    desk.run()

    end = desk.end_of("long")
    assert isinstance(end, RequestCancelled)
    assert end.answers[0].text == desk.text("long")
    assert len(end.answers[0].tokens) == 6


def test_a_step_computes_one_ubatch_at_most_and_everybody_who_writes_gets_a_token(make_desk: MakeDesk) -> None:
    desk = make_desk("stories", n_ubatch=32)
    desk.ask("writing", STORIES[0], sampling=replace(GREEDY, max_tokens=40))
    desk.step()
    desk.ask("reading", "The cat sat. " * 20)

    tokens_while_reading = 0
    for _ in range(200):
        before = desk.cells.num_used
        new = desk.step()
        assert desk.cells.num_used - before <= 32
        tokens_while_reading += sum(event.request_id == "writing" for event in new if isinstance(event, TextWritten))
        if any(isinstance(event, PromptRead) for event in new):
            break

    assert tokens_while_reading >= len(desk.prompt("The cat sat. " * 20)) // 32


def test_somebody_at_the_window_is_answered_before_scripts_and_idle_work(make_desk: MakeDesk) -> None:
    desk = make_desk(num_cells=256)
    for priority in ("idle", "batch", "interactive"):
        desk.ask(priority, priority[0] * 150, priority)  # type: ignore[arg-type]
    desk.run()

    read = [event.request_id for event in desk.events if isinstance(event, PromptRead)]
    assert read == ["interactive", "batch", "idle"]


def test_a_more_urgent_request_takes_the_cells_of_a_less_urgent_one(make_desk: MakeDesk) -> None:
    desk = make_desk("stories", num_cells=256)
    script = "The cat sat on the mat and " * 18
    alone = make_desk("stories", num_cells=256).write(script)
    desk.ask("script", script, "batch")
    while not any(isinstance(event, TextWritten) for event in desk.events):
        desk.step()

    desk.ask("window", "Once upon a time " * 30)
    desk.run()

    assert [event.request_id for event in desk.events if isinstance(event, RequestFinished)] == ["window", "script"]
    assert desk.finished("script").answers == alone.answers
    assert desk.reading("script").request_id == "script"


def test_waiting_makes_a_request_more_urgent(make_desk: MakeDesk) -> None:
    desk = make_desk(num_cells=256)
    desk.ask("running", "a" * 150)
    desk.ask("script", "b" * 150, "batch")
    desk.step()
    desk.time.now += 100
    desk.ask("window", "c" * 150)
    desk.run()

    assert [e.request_id for e in desk.events if isinstance(e, PromptRead)] == ["running", "script", "window"]


def test_a_prompt_read_ahead_pauses_for_others_but_not_for_ever(make_desk: MakeDesk) -> None:
    desk = make_desk("stories", num_cells=512, n_ubatch=32)
    desk.ask("ahead", "The cat sat. " * 20, "idle", replace(GREEDY, max_tokens=0))
    desk.step()
    desk.ask("writing", STORIES[0], sampling=replace(GREEDY, max_tokens=100))
    desk.step()
    held = dict(desk.loop.counters().cells_by_request)["ahead"]
    desk.step()
    assert dict(desk.loop.counters().cells_by_request)["ahead"] == held

    decode = desk.context.decode

    def decode_slowly(stretches):
        desk.time.now += 10
        return decode(stretches)

    desk.context.decode = decode_slowly  # type: ignore[method-assign]
    desk.run()
    ends = [event.request_id for event in desk.events if isinstance(event, RequestFinished)]
    assert ends == ["ahead", "writing"]


def test_what_cannot_be_carried_out_fails_alone_in_a_sentence(make_desk: MakeDesk) -> None:
    desk = make_desk()
    desk.ask("fine", "Hello")
    desk.ask("long", "x" * 600)
    desk.ask("empty", [])
    desk.ask("many", "Hello", sampling=replace(GREEDY, num_answers=1000))
    desk.ask("broken", "Hello", sampling=replace(GREEDY, grammar="root ::= ("))
    desk.ask("beams", "Hello", sampling=replace(GREEDY, beam_width=4))
    desk.run()

    assert isinstance(desk.end_of("fine"), RequestFinished)
    errors = {name: desk.end_of(name) for name in ("long", "empty", "many", "broken", "beams")}
    kinds = {name: type(end.error) for name, end in errors.items() if isinstance(end, RequestFailed)}
    assert kinds == {
        "long": PromptTooLong,
        "empty": BadRequest,
        "many": BadRequest,
        "broken": BadRequest,
        "beams": BadRequest,
    }


def test_a_grammar_that_cannot_be_used_is_told_while_others_hold_all_cells(make_desk: MakeDesk) -> None:
    desk = make_desk(num_cells=256)
    desk.ask("running", "a" * 150)
    desk.ask("behind", "b" * 150)
    desk.step()

    for name, grammar in (("broken", "root ::= ("), ("foreign", 'root ::= <nosuch> "a"')):
        desk.ask(name, "c" * 150, "batch", replace(GREEDY, grammar=grammar))
    desk.step()

    for name in ("broken", "foreign"):
        end = desk.end_of(name)
        assert isinstance(end, RequestFailed)
        assert isinstance(end.error, BadRequest)


def test_those_who_wait_hold_neither_sampler_nor_drafter(make_desk: MakeDesk) -> None:
    samplers: list[SamplingParams] = []
    drafters: list[str] = []

    def make_sampler(model: Model, params: SamplingParams) -> ChainSampler:
        samplers.append(params)
        return ChainSampler(model, params)

    def make_drafter(request: Request) -> _Parrot:
        drafters.append(request.request_id)
        return _Parrot(None)

    desk = make_desk(num_cells=256, make_sampler=make_sampler, make_drafter=make_drafter)
    desk.ask("running", "a" * 150, sampling=replace(GREEDY, seed=1))
    for number in range(3):
        desk.ask(f"waiting {number}", "b" * 150, sampling=replace(GREEDY, seed=2))
    assert samplers == drafters == []
    for _ in range(6):
        desk.step()

    assert desk.loop.counters().num_waiting == 3
    assert [params.seed for params in samplers] == [1]
    assert drafters == ["running"]


def test_a_sampler_that_cannot_be_made_fails_its_request_alone(make_desk: MakeDesk) -> None:
    def make_sampler(model: Model, params: SamplingParams) -> ChainSampler:
        if params.seed == 13:
            raise BadRequest("This model cannot follow the grammar.")
        return ChainSampler(model, params)

    desk = make_desk(make_sampler=make_sampler)
    desk.ask("unlucky", "Hello", sampling=replace(GREEDY, seed=13))
    desk.ask("fine", "Hello")
    desk.run()

    assert isinstance(desk.end_of("unlucky"), RequestFailed)
    assert isinstance(desk.end_of("fine"), RequestFinished)


def test_the_same_request_is_not_taken_twice(make_desk: MakeDesk) -> None:
    desk = make_desk()
    desk.ask("one", "Hello")

    with pytest.raises(ValueError, match="one"):
        desk.ask("one", "Hello")


def test_an_answer_that_fills_all_cells_ends_by_its_length(make_desk: MakeDesk) -> None:
    desk = make_desk("stories", num_cells=256)
    desk.ask("endless", STORIES[0], sampling=replace(GREEDY, max_tokens=10_000))
    desk.run()

    answer = desk.finished("endless").answers[0]
    assert answer.finish_reason == "length"
    assert len(answer.tokens) == desk.context.num_cells - len(desk.prompt(STORIES[0])) + 1
    assert desk.text("endless") == answer.text


def test_a_stop_string_is_never_told_and_its_last_token_is_not_the_answers(make_desk: MakeDesk) -> None:
    desk = make_desk("stories")
    whole = desk.write(STORIES[0]).answers[0]
    stopped = desk.write(STORIES[0], replace(GREEDY, stop=("girl named",)), "stopped").answers[0]

    assert stopped.text == " little "
    assert stopped.finish_reason == "stop"
    assert stopped.tokens == whole.tokens[: len(stopped.tokens)]
    assert desk.text("stopped") == stopped.text


@pytest.mark.parametrize("stop", ["girl named", " girl", "irl n", "little g", "med", " "])
def test_the_tokens_of_an_answer_that_a_stop_string_ended_hold_nothing_that_was_not_told(
    make_desk: MakeDesk, stop: str
) -> None:
    desk = make_desk("stories")
    stopped = desk.write(STORIES[0], replace(GREEDY, stop=(stop,))).answers[0]
    held = b"".join(map(desk.model.piece, stopped.tokens)).decode()
    assert stopped.finish_reason == "stop"
    assert stopped.text.startswith(held)
    assert stopped.is_cut_within is (held != stopped.text)


class _FailsOn:
    """Lets a context fail a batch that holds a token."""

    def __init__(self, desk: LoopDesk, token: int, error: Exception) -> None:
        self._decode, self._token, self._error = desk.context.decode, token, error
        desk.context.decode = self  # type: ignore[method-assign, assignment]
        self.times = 0

    def __call__(self, stretches):
        if any(self._token in stretch.tokens for stretch in stretches):
            self.times += 1
            if isinstance(self._error, DecodeFailed):
                # As when some ubatches were finished: their tokens lie in cells that were never acknowledged.
                self._decode(stretches)
            raise self._error
        return self._decode(stretches)


@pytest.mark.parametrize("name", ["llama", "mamba", "gemma2"])
def test_a_batch_that_cannot_be_computed_fails_only_whose_fault_it_is(make_desk: MakeDesk, decisive, name: str) -> None:
    first, second, _ = decisive(name)
    desk = make_desk(name)
    desk.ask("first", first)
    desk.step()
    desk.step()
    bad = desk.model.tokenize("~")[-1]
    failing = _FailsOn(desk, bad, DecodeFailed("The model stopped computing.", "Ask again."))
    desk.ask("bad", "~~~")
    desk.ask("second", second)
    desk.run()

    end = desk.end_of("bad")
    assert isinstance(end, RequestFailed)
    assert isinstance(end.error, DecodeFailed)
    assert failing.times == 2
    assert desk.finished("first").answers[0] == decisive(name)[first]
    assert desk.finished("second").answers[0] == decisive(name)[second]


def test_a_suspect_may_be_preempted(make_desk: MakeDesk, decisive) -> None:
    prompts = decisive("llama")
    desk = make_desk()
    ask_all(desk, prompts)
    desk.step()
    desk.step()
    groups = desk.loop._groups
    groups.suspects[:] = groups.running

    desk.loop._steps.admission.preempt(groups.suspects[0])
    desk.run()

    assert answers(desk, prompts) == list(prompts.values())


def test_where_llama_cpp_has_fewer_cells_than_counted_the_last_request_waits(make_desk: MakeDesk, decisive) -> None:
    prompts = decisive("llama")
    desk = make_desk()
    ask_all(desk, prompts)
    desk.step()
    decode, refused = desk.context.decode, []

    def decode_few(stretches):
        if len(stretches) > 1:
            refused.append(len(stretches))
            raise NoCells("The context is full.")
        return decode(stretches)

    desk.context.decode = decode_few  # type: ignore[method-assign]
    desk.run()

    assert refused
    assert answers(desk, prompts) == list(prompts.values())


def test_what_fits_nowhere_fails_in_a_sentence_and_leaves_the_loop_usable(make_desk: MakeDesk) -> None:
    desk = make_desk()
    decode = desk.context.decode

    def decode_nothing(stretches):
        raise NoCells("The context is full.")

    desk.context.decode = decode_nothing  # type: ignore[method-assign]
    desk.ask("hopeless", "Hello")
    desk.run()
    desk.context.decode = decode  # type: ignore[method-assign]

    end = desk.end_of("hopeless")
    assert isinstance(end, RequestFailed)
    assert isinstance(end.error, NoCells)
    assert desk.write("Hello").answers


def segments_of(desk: LoopDesk, *texts: str) -> tuple[Segment, ...]:
    first, *others = texts
    return (Segment(desk.prompt(first), "instructions"), *(Segment(tuple(desk.model.tokenize(t))) for t in others))


def test_what_the_keeper_has_is_not_read_again(make_desk: MakeDesk) -> None:
    desk = make_desk("stories", keeper=FakeKeeper)
    segments = segments_of(desk, "Once upon a time ", "there was a dog. ", "He was big.")
    desk.ask("first", segments)
    desk.run()

    desk.ask("same", segments)
    desk.ask("longer", (*segments, Segment(tuple(desk.model.tokenize("And")))))
    desk.run()

    total = sum(len(segment.tokens) for segment in segments)
    same, longer = desk.reading("same"), desk.reading("longer")
    assert (same.cached_tokens, same.computed_tokens) == (total - 1, 1)
    assert (longer.cached_tokens, longer.computed_tokens) == (total, len(desk.model.tokenize("And")))
    assert desk.finished("same").answers == desk.finished("first").answers


def test_the_next_turn_finds_all_of_the_answer_before_it(make_desk: MakeDesk) -> None:
    desk = make_desk("stories", keeper=FakeKeeper)
    segments = segments_of(desk, "Once upon a time ", "there was a dog.")
    desk.ask("turn 1", segments)
    desk.run()

    answer = desk.finished("turn 1").answers[0]
    question = Segment(tuple(desk.model.tokenize(" Then he")))
    desk.ask("turn 2", (*segments, Segment(answer.tokens), question))
    desk.run()

    assert desk.reading("turn 2").computed_tokens == len(question.tokens)


@pytest.mark.parametrize("has_left", [False, True])
def test_the_next_turn_that_comes_at_once_reads_only_what_is_new(make_desk: MakeDesk, has_left: bool) -> None:
    desk, patient = make_desk("stories", keeper=FakeKeeper), make_desk("stories")
    segments = segments_of(desk, "Once upon a time ", "there was a dog.")
    desk.ask("turn 1", segments)
    while desk.loop.closing != {"turn 1"}:
        desk.step()
    if has_left:
        # What was kept has left: the cells of the answer are there all the same.
        desk.keeper.leave_cells()

    answer = desk.finished("turn 1").answers[0]
    question = Segment(tuple(desk.model.tokenize(" Then he")))
    asked = (*segments, Segment(answer.tokens), question)
    desk.ask("turn 2", asked)
    desk.run()

    # And the token that was sampled last, which had not been computed.
    assert desk.reading("turn 2").computed_tokens == len(question.tokens) + 1
    patient.ask("turn 2", asked)
    patient.run()
    assert desk.finished("turn 2").answers == patient.finished("turn 2").answers
    # All of it is kept now, whichever of them computed it.
    desk.ask("again", asked)
    desk.run()
    assert desk.reading("again").computed_tokens == 1


def test_what_is_still_being_kept_of_a_request_is_told(make_desk: MakeDesk) -> None:
    desk = make_desk("stories", keeper=FakeKeeper)
    desk.ask("cut", STORIES[0], sampling=replace(GREEDY, max_tokens=4))
    while not any(isinstance(event, RequestFinished) for event in desk.events):
        desk.step()

    assert desk.loop.closing == {"cut"}
    desk.run()
    assert desk.loop.closing == frozenset()


def test_segments_that_were_read_before_a_cancel_are_kept(make_desk: MakeDesk) -> None:
    desk = make_desk("stories", keeper=FakeKeeper, n_ubatch=32)
    segments = segments_of(desk, "Once upon a time there was", " a dog that ran. " * 20)
    desk.ask("guess", segments)
    desk.step()
    desk.loop.cancel("guess")

    desk.ask("question", segments)
    desk.run()

    assert desk.reading("question").cached_tokens == len(segments[0].tokens)


def test_a_prompt_read_ahead_writes_nothing_and_is_kept(make_desk: MakeDesk) -> None:
    desk = make_desk("stories", keeper=FakeKeeper)
    segments = segments_of(desk, "Once upon a time ", "there was a dog.")
    desk.ask("ahead", segments, "idle", replace(GREEDY, max_tokens=0))
    desk.run()
    assert desk.finished("ahead").answers[0].tokens == ()

    desk.ask("question", segments)
    desk.run()
    assert desk.reading("question").computed_tokens == 1


def test_kept_cells_leave_before_anybody_is_preempted(make_desk: MakeDesk) -> None:
    desk = make_desk("stories", keeper=FakeKeeper, num_cells=256)
    for number in range(4):
        desk.ask(f"r{number}", segments_of(desk, f"{number} times a dog ran to the park and "))
        desk.run()
    desk.ask("long", "The cat sat. " * 20, sampling=replace(GREEDY, max_tokens=60))
    desk.ask("short", "The cat sat.")
    desk.run()

    assert isinstance(desk.keeper, FakeKeeper)
    assert len(desk.keeper.nodes) < 4 * 2
    assert desk.loop.counters().preempted_by_swap + desk.loop.counters().preempted_by_recompute == 0
    assert isinstance(desk.end_of("long"), RequestFinished)


@pytest.mark.parametrize("is_lost", [False, True])
def test_a_preempted_request_saves_only_what_the_keeper_has_not(make_desk: MakeDesk, decisive, is_lost: bool) -> None:
    prompts = decisive("stories")
    desk = make_desk("stories", keeper=FakeKeeper)
    ask_all(desk, prompts)
    for _ in range(8):
        desk.step()
    group = desk.loop._groups.find("r2")
    assert group is not None
    whole = desk.context.state_bytes(group.lead.held.slot)

    desk.loop._steps.admission.preempt(group)
    assert 0 < desk.loop.counters().swapped_bytes < whole / 2
    assert isinstance(desk.keeper, FakeKeeper)
    if is_lost:
        desk.keeper.free_cells(desk.cells.num_cells)
    desk.run()

    assert answers(desk, prompts) == list(prompts.values())
    assert desk.loop.counters().swapped_bytes == 0


def test_a_request_cancelled_while_preempted_leaves_nothing_behind(make_desk: MakeDesk) -> None:
    desk = make_desk("stories", keeper=FakeKeeper)
    desk.ask("gone", STORIES[0])
    for _ in range(5):
        desk.step()
    group = desk.loop._groups.find("gone")
    assert group is not None
    desk.loop._steps.admission.preempt(group)

    desk.loop.cancel("gone")

    assert desk.loop.counters().swapped_bytes == 0
    end = desk.step()[-1]
    assert isinstance(end, RequestCancelled)
    assert len(end.answers[0].tokens) == 5


def test_nothing_that_is_kept_leaves_for_a_request_that_does_not_fit_anyway(make_desk: MakeDesk) -> None:
    desk = make_desk("stories", keeper=FakeKeeper, num_cells=256)
    desk.ask("kept", segments_of(desk, "a dog ran to the park and "))
    desk.run()
    assert isinstance(desk.keeper, FakeKeeper)
    kept = set(desk.keeper.nodes)
    desk.ask("writing", "The cat sat. " * 18)
    desk.step()
    desk.step()
    desk.ask("too long for now", "The cat sat. " * 25)
    for _ in range(5):
        desk.step()

    assert desk.loop.counters().num_waiting == 1
    assert kept <= set(desk.keeper.nodes)
    desk.run()
    assert isinstance(desk.end_of("too long for now"), RequestFinished)


def test_a_request_waits_for_its_kept_part_to_be_read_from_disk(make_desk: MakeDesk) -> None:
    desk = make_desk("stories", keeper=FakeKeeper)
    assert desk.keeper
    desk.keeper.unready = 3
    desk.ask("question", segments_of(desk, STORIES[0]))

    for _ in range(3):
        assert desk.step() == []
        assert desk.cells.num_used == 0
    desk.run()

    assert desk.finished("question").answers == make_desk("stories").write(STORIES[0]).answers


class _Parrot:
    """Drafts what followed the last token when it occurred before, or `always` the same."""

    def __init__(self, always: int | None) -> None:
        self._always = always
        self.num_drafted = 0

    def draft(self, tokens: list[int], max_tokens: int) -> Guess:
        draft = self._draft(tokens)[:max_tokens]
        self.num_drafted += len(draft)
        return Guess(draft)

    def _draft(self, tokens: list[int]) -> list[int]:
        if self._always is not None:
            return [self._always] * 4
        places = [at for at in range(1, len(tokens) - 1) if tokens[at] == tokens[-1]]
        return tokens[places[-1] + 1 :][:6] if places else []


@pytest.mark.parametrize("sampling", [GREEDY, replace(GREEDY, temperature=1.0)])
@pytest.mark.parametrize("always", [None, 300])
def test_drafts_change_no_answer_and_save_steps(
    make_desk: MakeDesk, sampling: SamplingParams, always: int | None
) -> None:
    sampling = replace(sampling, max_tokens=80)
    plain = make_desk("stories").write(STORIES[0], sampling)
    drafter = _Parrot(always)
    passes: list[tuple[int, int]] = []
    desk = make_desk(
        "stories",
        make_drafter=lambda request: drafter,
        note_pass=lambda num_tokens, num_writing, seconds: passes.append((num_tokens, num_writing)),
    )

    drafted = desk.write(STORIES[0], sampling)

    assert drafted.answers == plain.answers
    counters = desk.loop.counters()
    assert counters.drafted_tokens == drafter.num_drafted > 0
    assert counters.steps == 80 - counters.accepted_tokens
    assert (counters.accepted_tokens > 0) == (always is None)
    assert passes[0] == (len(desk.prompt(STORIES[0])), 1)
    assert sum(num_tokens for num_tokens, _ in passes[1:]) == len(passes[1:]) + counters.drafted_tokens


@pytest.mark.parametrize(("name", "num_sequences"), [("mamba", 16)])
def test_a_model_that_cannot_share_prefixes_keeps_and_drafts_nothing(
    make_desk: MakeDesk, name: str, num_sequences: int
) -> None:
    def no_drafter(request: Request) -> _Parrot:
        raise AssertionError("nothing is drafted for this model")

    desk = make_desk(name, keeper=FakeKeeper, make_drafter=no_drafter)
    assert not desk.model.can_share_prefixes
    assert desk.context.num_sequences == num_sequences

    first, second = desk.write("Hello", request_id="a"), desk.write("Hello", request_id="b")

    assert first.answers == second.answers
    assert isinstance(desk.keeper, FakeKeeper)
    assert not desk.keeper.kept
    assert desk.reading("b").cached_tokens == 0


def test_counters_tell_what_is_held_and_what_was_done(make_desk: MakeDesk) -> None:
    desk = make_desk("stories", num_cells=256)
    desk.ask("first", STORIES[0])
    desk.ask("second", STORIES[1])
    decode = desk.context.decode

    def decode_slowly(stretches):
        desk.time.now += 0.5
        return decode(stretches)

    desk.context.decode = decode_slowly  # type: ignore[method-assign]
    for _ in range(4):
        desk.step()

    counters = desk.loop.counters()
    lengths = [len(desk.prompt(text)) for text in STORIES[:2]]
    assert counters.cells_by_request == (("first", lengths[0] + 3), ("second", lengths[1] + 3))
    assert counters.cells_used + counters.cells_free == counters.num_cells == 256
    assert counters.utilisation == counters.cells_used / 256
    assert (counters.num_running, counters.num_waiting, counters.steps) == (2, 0, 4)
    assert (counters.prompt_tokens, counters.generated_tokens) == (sum(lengths), 8)
    assert 0 < counters.tokens_per_second <= 4


def test_closing_the_loop_cancels_whoever_is_left(make_desk: MakeDesk) -> None:
    desk = make_desk("stories", keeper=FakeKeeper, num_cells=256)
    desk.ask("writing", STORIES[0])
    desk.ask("waiting", "The cat sat. " * 40)
    desk.step()
    desk.events += desk.loop.close()

    assert isinstance(desk.end_of("writing"), RequestCancelled)
    assert isinstance(desk.end_of("waiting"), RequestCancelled)
    assert not desk.loop.has_work


def test_a_prompt_that_begins_as_one_that_is_being_read_is_read_behind_it_from_where_they_part(
    make_desk: MakeDesk,
) -> None:
    desk = make_desk("stories", keeper=FakeKeeper)
    opening = Segment(desk.prompt("Once upon a time there was a dog. " * 4), "instructions")
    ends = [Segment(tuple(desk.model.tokenize(story))) for story in STORIES]
    for number, end in enumerate(ends):
        desk.ask(f"r{number}", (opening, end))
    desk.run()
    for number, end in enumerate(ends):
        read = desk.reading(f"r{number}")
        assert read.cached_tokens == (len(opening.tokens) if number else 0)
        assert read.cached_tokens + read.computed_tokens == len(opening.tokens) + len(end.tokens)


def test_a_prompt_that_waits_is_exchanged_in_its_place_and_one_that_has_begun_is_not(make_desk: MakeDesk) -> None:
    desk = make_desk("stories", keeper=FakeKeeper, num_cells=128)
    desk.ask("runs", "The cat sat. " * 10)
    desk.step()
    first, second = desk.ask("first", STORIES[0] * 6), desk.ask("second", STORIES[1] * 6)
    assert desk.loop.next_up == ["first", "second"]
    assert desk.loop.being_read("second") == ()
    other = Segment(desk.prompt(STORIES[2]))
    assert desk.loop.replace(replace(first, segments=(other,)))
    assert desk.loop.next_up == ["first", "second"]
    # What cannot be read leaves the prompt that there is, and what has begun stays.
    assert not desk.loop.replace(replace(first, segments=()))
    assert not desk.loop.replace(replace(first, request_id="runs"))
    assert not desk.loop.replace(replace(second, request_id="nobody"))
    desk.run()
    assert desk.reading("first").computed_tokens == len(other.tokens)
    assert desk.finished("first").answers == desk.write(STORIES[2]).answers


def reading_a_half(desk: LoopDesk, *texts: str) -> tuple[Request, tuple[Segment, ...]]:
    """A prompt that is read ahead, of which the last segment has been read in part."""
    segments = segments_of(desk, *texts)
    request = desk.ask("ahead", segments, sampling=replace(GREEDY, max_tokens=0))
    kept = sum(len(segment.tokens) for segment in segments[:-1])
    while desk.loop.read_so_far("ahead").num_tokens <= kept:
        desk.step()
    assert kept < desk.loop.read_so_far("ahead").num_tokens < request.num_tokens
    return request, segments


def test_a_prompt_that_is_being_read_goes_on_with_another_end(make_desk: MakeDesk) -> None:
    desk = make_desk("stories", keeper=FakeKeeper, n_ubatch=32)
    request, segments = reading_a_half(desk, "Once upon a time ", "there was a dog. " * 12)
    others = [*segments, *segments_of(desk, "The dog was sad. " * 3)]
    assert desk.loop.amend(replace(request, segments=tuple(others)))
    desk.run()
    # Nothing of it was read twice, and all of it was read.
    assert desk.reading("ahead").computed_tokens == sum(len(segment.tokens) for segment in others)
    desk.ask("question", others)
    desk.run()
    assert desk.reading("question").computed_tokens == 1
    alone = make_desk("stories", n_ubatch=32)
    alone.ask("question", others)
    alone.run()
    assert desk.finished("question").answers == alone.finished("question").answers
    assert desk.cells.num_free + desk.cells.num_used == desk.cells.num_cells


@pytest.mark.parametrize("has_more", [False, True])
def test_what_is_read_ahead_becomes_the_request_that_it_was_read_for(make_desk: MakeDesk, has_more: bool) -> None:
    desk = make_desk("stories", keeper=FakeKeeper, n_ubatch=32)
    _, segments = reading_a_half(desk, "Once upon a time ", "there was a dog. " * 12)
    more = segments_of(desk, "The dog was sad. " * 3) if has_more else ()
    question = Request("question", (*segments, *more), GREEDY)
    assert desk.loop.amend(question, "ahead")
    assert desk.loop.running == ["question"]
    assert desk.loop.read_so_far("ahead").num_tokens == 0
    desk.run()
    # Its last token is computed once, and written on behind: where layers are streamed that is a pass of its own.
    assert desk.reading("question").computed_tokens == question.num_tokens
    assert not [event for event in desk.events if event.request_id == "ahead"]
    alone = make_desk("stories", n_ubatch=32)
    alone.ask("question", question.segments)
    alone.run()
    assert desk.finished("question").answers == alone.finished("question").answers
    assert desk.cells.num_free + desk.cells.num_used == desk.cells.num_cells


def test_what_is_to_be_read_ahead_makes_way_for_the_request_that_it_was_for(make_desk: MakeDesk) -> None:
    desk = make_desk("stories", keeper=FakeKeeper, n_ubatch=32)
    segments = segments_of(desk, "Once upon a time ", "there was a dog. " * 12)
    desk.ask("ahead", segments, sampling=replace(GREEDY, max_tokens=0))
    assert desk.loop.amend(Request("question", tuple(segments), GREEDY), "ahead")
    desk.loop.cancel("ahead")
    desk.run()
    alone = make_desk("stories", n_ubatch=32)
    alone.ask("question", segments)
    alone.run()
    assert desk.finished("question").answers == alone.finished("question").answers
    assert not [event for event in desk.events if event.request_id == "ahead"]


def test_what_is_read_ahead_stays_where_the_request_wants_several_answers(make_desk: MakeDesk) -> None:
    desk = make_desk("stories", keeper=FakeKeeper, n_ubatch=32)
    _, segments = reading_a_half(desk, "Once upon a time ", "there was a dog. " * 12)
    assert not desk.loop.amend(Request("question", segments, replace(GREEDY, num_answers=2)), "ahead")
    assert desk.loop.running == ["ahead"]


def test_a_prompt_goes_on_as_no_other_that_begins_otherwise(make_desk: MakeDesk) -> None:
    desk = make_desk("stories", keeper=FakeKeeper, n_ubatch=32)
    request, segments = reading_a_half(desk, "Once upon a time ", "there was a dog. " * 12)
    other = segments_of(desk, "The dog was sad. " * 12)
    assert not desk.loop.amend(replace(request, segments=(segments[0], *other)))
    # Nothing would be left to read, where another has asked for the end of what was read.
    assert not desk.loop.amend(replace(request, segments=(segments[0],)))
    several = replace(GREEDY, num_answers=2)
    assert not desk.loop.amend(replace(request, segments=(*segments, *other), sampling=several))
    assert not desk.loop.amend(replace(request, segments=(*segments, *other * 40)))
    assert not desk.loop.amend(replace(request, request_id="nobody"))
    desk.run()
    assert desk.reading("ahead").computed_tokens == request.num_tokens
    assert desk.loop.read_so_far("ahead").num_tokens == 0
