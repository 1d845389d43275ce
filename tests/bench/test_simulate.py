"""Tests for tests.bench.simulated and simulate: cases computed by hand, and invariants."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from engine.memory.demand import Backlog, Demand
from engine.memory.hardware import Hardware
from engine.memory.measured import Beside, Point, Split
from engine.memory.measured import Measured as Table
from engine.memory.placement import Placement
from engine.memory.planner import plan
from tests.bench.peers import PeerFailed
from tests.bench.planned_steps import planned_steps
from tests.bench.serving_figures import Key, Run
from tests.bench.serving_figures import Served as Measured
from tests.bench.simulate import RAGDOLL, SPEEDUPS, check, main, piperag, ragdoll, row_of, show_ragdoll
from tests.bench.simulated import Question, Served, Stages, gangs, mean_latency_s, pipelined, serial
from tests.bench.simulated_runs import Planned, Steps, compared, read_runs, resumed, stages_of, write_runs
from tests.helpers.machines import DESKTOP, MODELS, machine, wanted

# A search takes two seconds for any number of questions, a prompt token .01 s, a step one second.
PLAIN = Stages(lambda count: 2.0, lambda tokens: tokens / 100, lambda answers: 1.0)


def pairs(count: int, read_s: float) -> int:
    """Allows a second answer beside the first, once it has been searched for."""
    return 2


AT_ONCE = [Question(0.0, 100, 4), Question(0.0, 100, 4)]
WAYS: list[Callable[[Sequence[Question], Stages], list[Served]]] = [
    serial,
    lambda questions, stages: gangs(questions, stages, 4),
    lambda questions, stages: pipelined(questions, stages, lambda count, read_s: 4),
]


def test_one_at_a_time_waits_for_all_before_it():
    first, second = serial(AT_ONCE, PLAIN)
    assert (first.latency_s, second.latency_s) == (7.0, 14.0)
    assert (second.wait_s, second.search_s, second.generation_s) == (7.0, 2.0, 5.0)


def test_a_gang_is_searched_and_written_together():
    assert [one.latency_s for one in gangs(AT_ONCE, PLAIN, 2)] == [8.0, 8.0]


def test_an_answer_of_a_gang_ends_with_its_last_token_and_the_next_gang_waits_for_the_longest():
    questions = [Question(0.0, 100, 1), Question(0.0, 100, 9), Question(0.0, 100, 1)]
    short, long, next_one = gangs(questions, PLAIN, 2)
    assert (short.latency_s, long.latency_s) == (5.0, 13.0)
    assert next_one.latency_s == 13.0 + 2.0 + 1.0 + 1.0


def test_while_one_is_answered_the_next_is_searched():
    questions = [Question(0.0, 100, 4), Question(1.0, 100, 4)]
    first, second = pipelined(questions, PLAIN, pairs)
    # The second is searched from 2 to 4, and read from 4 to 5 while the first has one token.
    assert (first.latency_s, second.latency_s) == (pytest.approx(8.0), pytest.approx(9.0 - 1.0))
    assert second.search_s == pytest.approx(2.0)


def test_answers_wait_while_others_are_read_and_go_on_together() -> None:
    questions = [Question(0.0, 100, 4), Question(2.0, 600, 1)]
    first, second = pipelined(questions, PLAIN, pairs)
    # Read by 3, a step by 4; then a prompt of 6 seconds, and steps of both.
    assert (first.latency_s, second.latency_s) == (pytest.approx(13.0), pytest.approx(11.0 - 2.0))


def test_the_next_is_read_when_one_has_ended() -> None:
    questions = [Question(0.0, 100, 2), *(Question(0.0, 100, 9) for _ in range(3))]
    served = pipelined(questions, PLAIN, pairs)
    # Two are read and written until one of them has ended; then one more is read.
    assert served[0].latency_s == pytest.approx(2.0 + 2.0 + 2.0)
    assert served[1].latency_s == pytest.approx(6.0 + 1.0 + 7.0)


def test_a_long_prompt_is_read_when_nobody_waits_for_it() -> None:
    questions = [Question(0.0, 100, 4), Question(0.0, 900, 4)]
    served = pipelined(questions, PLAIN, lambda count, read_s: 1 if read_s > 5 else 2)
    assert served[0].latency_s == pytest.approx(2.0 + 1.0 + 4.0)
    assert served[1].latency_s == pytest.approx(7.0 + 9.0 + 4.0)


def test_both_at_once_are_as_slow_as_they_make_each_other():
    questions = [Question(0.0, 100, 8), Question(2.0, 100, 1)]
    shared = Stages(PLAIN.search_s, PLAIN.read_s, PLAIN.step_s, writing=0.5, searching=0.5)
    _, second = pipelined(questions, shared, pairs)
    assert second.search_s == pytest.approx(4.0)


def test_what_steps_wait_for_hides_a_prompt() -> None:
    # .6 s of a step's second compute nothing: 60 tokens are read in each, so a prompt of 300 takes five steps.
    streamed = replace(PLAIN, hidden_s=lambda answers: 0.6)
    questions = [Question(0.0, 100, 9), Question(0.0, 300, 4)]
    first, second = pipelined(questions, streamed, pairs)
    # Read by 3; nine steps by 12, of which the first five read the other prompt; its four tokens follow.
    assert (first.latency_s, second.latency_s) == (pytest.approx(12.0), pytest.approx(12.0))
    assert second.generation_s == pytest.approx(9.0)
    # Where hardly anything is hidden, the first answer waits while the prompt is read.
    hardly = replace(PLAIN, hidden_s=lambda answers: 0.1)
    assert pipelined(questions, hardly, pairs) == pipelined(questions, PLAIN, pairs)


@pytest.mark.parametrize("way", WAYS)
def test_every_question_ends_and_none_before_it_came(way):
    rng = random.Random(3)
    arrivals = sorted(rng.uniform(0, 60) for _ in range(80))
    questions = [Question(arrival, rng.randrange(1, 400), rng.randrange(1, 30)) for arrival in arrivals]
    served = way(questions, PLAIN)
    assert len(served) == len(questions)
    for question, one in zip(questions, served, strict=True):
        assert one.search_s >= 2.0 - 1e-6
        assert one.latency_s >= 2.0 + question.new_tokens / 100 + question.answer_tokens - 1e-6


def test_alone_all_ways_take_the_same():
    questions = [Question(100.0 * number, 100, 5) for number in range(5)]
    assert {round(mean_latency_s(way(questions, PLAIN)), 6) for way in WAYS} == {8.0}


def test_in_overload_both_at_once_beat_gangs_and_these_beat_one_at_a_time():
    questions = [Question(0.5 * number, 100, 5) for number in range(60)]
    one, gang, both = (mean_latency_s(way(questions, PLAIN)) for way in WAYS)
    assert one > 2 * gang > 2 * both


# --- against what was measured ---


def served(arrival_s: float, stages: Sequence[float], tokens: tuple[int, int] = (100, 4)) -> Measured:
    """Returns a question with these seconds of waiting, searching, reading and writing."""
    moments = [arrival_s]
    for seconds in stages:
        moments.append(moments[-1] + seconds)
    _, began, found, first, ended = moments
    return Measured(arrival_s, began, found, found, first, ended, tokens[0], 0, tokens[1])


def found() -> dict[Key, list[Run]]:
    """Returns runs of two questions: one after the other, and both at once on a serial side."""
    alone = Run((served(0.0, (0.0, 2.0, 1.0, 4.0)), served(7.0, (0.0, 2.0, 1.0, 4.0))))
    both = Run((served(0.0, (0.0, 2.0, 1.0, 4.0)), served(0.0, (7.0, 2.0, 1.0, 4.0))))
    return {Key("fits", "serial", "alone"): [alone], Key("fits", "serial", "poisson_0.9"): [both]}


def test_what_went_as_the_stages_alone_say_is_simulated_without_an_error():
    [one] = compared(found(), {})
    assert one.key.side == "serial"
    assert one.simulated_s == pytest.approx(10.5)
    assert one.error == pytest.approx(0.0)


def test_ours_is_simulated_as_the_engine_lets_questions_in() -> None:
    alone, both = found().values()
    [one] = compared({Key("fits", "ours", "alone"): alone, Key("fits", "ours", "poisson_0.9"): both}, {})
    # One is searched and read after the other at least, and answered after the other at most.
    assert one.key.side == "ours"
    assert 7.0 < one.simulated_s <= 12.0


def test_what_steps_waited_for_alone_hides_prompts_of_ours() -> None:
    alone = found()[Key("fits", "serial", "alone")]
    plain, waited = (
        stages_of([replace(run, totals={"waited_s": seconds}) for run in alone], Steps()) for seconds in (0.0, 4.0)
    )
    # Eight tokens were written, and a prompt token takes .01 s.
    assert [plain.hidden_s(1), waited.hidden_s(1), waited.hidden_s(11), waited.hidden_s(99)] == [
        0.0,
        pytest.approx(0.5),
        pytest.approx(0.4),
        0.0,
    ]


def test_whatever_comes_between_a_search_and_the_first_token_of_somebody_alone_is_reading() -> None:
    # Reading ahead is reported as waiting here, though there was no other question to wait for.
    told_so = Run((served(0.0, (0.0, 2.0, 1.0, 4.0)),))
    read_ahead = Run((replace(told_so.served[0], prefill_began_s=2.75),))
    [plain, ahead] = (stages_of([run], Steps()) for run in (told_so, read_ahead))
    assert ahead.read_s(100) == plain.read_s(100) == pytest.approx(1.0)


def test_a_step_takes_longer_where_keys_and_values_take_the_room_of_layers() -> None:
    planned = Planned(50.0, (50.0, 60.0, 75.0), 100.0)
    assert [planned.more_s(count) for count in (1, 2, 3, 6)] == [pytest.approx(more) for more in (0.0, 0.1, 0.25, 0.25)]
    assert Planned().more_s(5) == 0.0
    [alone], [both] = ([replace(run, totals={"waited_s": 4.0}) for run in runs] for runs in found().values())
    of_ours = {Key("fits", "ours", "alone"): [alone], Key("fits", "ours", "poisson_0.9"): [both]}
    [alike] = compared(of_ours, {"fits": Steps()})
    [slower] = compared(of_ours, {"fits": Steps().with_planned("ours", Planned(50.0, (60.0,), 100.0))})
    [others] = compared(of_ours, {"fits": Steps().with_planned("serial_batched", planned)})
    assert slower.simulated_s > alike.simulated_s == others.simulated_s


def test_more_is_hidden_where_a_step_reads_more_layers() -> None:
    run = replace(found()[Key("fits", "serial", "alone")][0], totals={"waited_s": 4.0})
    stages = stages_of([run], Steps(), Planned(50.0, (50.0, 100.0), 100.0))
    # A step takes a second, half of it waiting. Another answer adds half a second of reading, of which computing hides
    # what a prompt token takes, .01 s.
    assert [stages.step_s(1), stages.step_s(2)] == [pytest.approx(1.0), pytest.approx(1.5)]
    assert [stages.hidden_s(1), stages.hidden_s(2)] == [pytest.approx(0.5), pytest.approx(0.99)]


def test_what_is_read_more_is_waited_for_only_where_computing_does_not_hide_it() -> None:
    [run] = found()[Key("fits", "serial", "alone")]
    # A step computes for a second and does not wait: it reads for .3 s, with two answers .9 s, with three 1.4 s.
    stages = stages_of([run], Steps({1: 0.5, 2: 0.6, 3: 0.6}), Planned(30.0, (30.0, 90.0, 140.0), 100.0))
    assert [stages.step_s(count) for count in (1, 2, 3)] == [pytest.approx(seconds) for seconds in (1.0, 1.2, 1.4)]
    assert [stages.hidden_s(count) for count in (1, 2, 3)] == [pytest.approx(seconds) for seconds in (0.0, 0.0, 0.2)]


def test_of_a_model_that_is_streamed_more_is_read_in_a_step_of_more_answers_and_by_what_is_known_before() -> None:
    demand, hardware = wanted(MODELS[0], context_tokens=2048), machine(0, 2.4)
    backlog = Backlog(prompt_tokens=1200, answer_tokens=64, lengths=(1264,))

    def placed(hardware: Hardware, backlog: Backlog, demand: Demand) -> Placement:
        return plan(hardware, DESKTOP, backlog, demand)

    here = placed(hardware, replace(backlog, running=1), demand)
    assert here.streamed_layers
    planned = planned_steps(placed, DESKTOP, hardware, replace(backlog, waiting=7, running=3), demand, here)
    assert planned == planned_steps(placed, DESKTOP, hardware, backlog, demand, here)
    assert len(planned.streamed_bytes) == 16
    # If others follow, cells are reserved for them.
    read = planned.streamed_bytes
    assert 0 < planned.alone_bytes < read[0] < read[3] < read[15]
    assert planned.alone_s == pytest.approx(planned.alone_bytes / DESKTOP.stream_bytes_per_s)
    roomy = planned_steps(placed, DESKTOP, machine(0, 32), backlog, demand, placed(machine(0, 32), backlog, demand))
    assert roomy == Planned(0, (0,) * 16, DESKTOP.stream_bytes_per_s)


def test_runs_are_read_as_they_were_written(tmp_path: Path):
    file = tmp_path / "runs.json"
    split = Split()
    table = Table().with_point(Point(split, "write", 1, seconds=0.1)).with_point(Point(split, "write", 4, seconds=0.2))
    table = table.with_point(Point(split, "write", 8, is_hidden=True)).with_beside(Beside(split, 2, 2, 0.75, 0.5))
    planned = Planned(10.0, (10.0, 20.0), 100.0)
    write_runs(file, found(), {"fits": Steps.of(table).with_planned("ours", planned)})
    assert read_runs(file) == (found(), {"fits": Steps({1: 0.1, 4: 0.2}, 0.75, 0.5, {"ours": planned})})


def test_runs_of_before_plans_were_told_have_none(tmp_path: Path):
    file = tmp_path / "runs.json"
    write_runs(file, found(), {})
    of_then = '"steps": {"fits": {"seconds": {"1": 0.1}, "writing": 0.75, "searching": 0.5}}'
    file.write_text(file.read_text().replace('"steps": {}', of_then))
    assert read_runs(file)[1] == {"fits": Steps({1: 0.1}, 0.75, 0.5)}


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (None, "cannot be read: No such file"),
        ("{", "holds no measured runs"),
        ("[1]", "holds no measured runs"),
        ('{"runs": 3}', "holds no measured runs"),
        ('{"conditions": {}, "runs": [{"key": {"a": 1}, "runs": []}], "steps": {}}', "holds no measured runs"),
        ("\ud800", "holds no measured runs"),
    ],
)
def test_a_file_without_runs_is_said_to_be_none(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], content: str | None, why: str
):
    file = tmp_path / "runs.json"
    if content is not None:
        file.write_bytes(content.encode("utf-8", "surrogatepass"))
    assert main(["--measured", str(file)]) == 2
    assert why in capsys.readouterr().err


def test_what_was_measured_under_the_same_conditions_is_gone_on_with(tmp_path: Path):
    file, steps = tmp_path / "runs.json", {"fits": Steps({1: 0.1}, 0.75, 0.5, {"ours": Planned(10.0, (20.0,), 100.0)})}
    assert resumed(file, {"threads": 2}) == ({}, {})
    write_runs(file, found(), steps, {"threads": 2, "questions": {"fits": 100}})
    assert resumed(file, {"threads": 2, "questions": {"fits": 100}}) == (found(), steps)
    with pytest.raises(PeerFailed, match="threads 2 instead of 4"):
        resumed(file, {"threads": 4, "questions": {"fits": 100}})
    for damaged in ('{"runs": []}', "[1]", '{"conditions"'):
        file.write_text(damaged)
        with pytest.raises(PeerFailed, match="no measured runs"):
            resumed(file, {"threads": 2})


def test_computing_is_as_measured_between_as_on_a_line_and_beyond_in_proportion():
    steps = Steps({1: 0.1, 4: 0.2})
    assert [steps.times(count) for count in (1, 2, 4, 8)] == [
        pytest.approx(1.0),
        pytest.approx(2**0.5),
        pytest.approx(2.0),
        pytest.approx(4.0),
    ]
    assert Steps().times(5) is None


def test_the_check_fails_where_the_simulator_is_far_off(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    file, far = tmp_path / "runs.json", found()
    write_runs(file, far, {})
    assert check(file, None) == 0
    slow = Run(
        tuple(replace(one, ended_s=one.ended_s * 2) for one in far[Key("fits", "serial", "poisson_0.9")][0].served)
    )
    write_runs(file, far | {Key("fits", "serial", "poisson_0.9"): [slow]}, {})
    assert check(file, tmp_path / "told.json") == 1
    assert "BROKEN" in capsys.readouterr().out
    write_runs(file, {}, {})
    assert check(file, None) == 2


# --- the tables ---


def test_more_on_a_card_never_makes_a_load_slower():
    waits = [row_of(MODELS[1], card).pipelined_s for card in (0, 8, 24)]
    assert waits == sorted(waits, reverse=True)


def test_searching_beside_writing_gains_most_where_both_take_as_long():
    trend = piperag(DESKTOP)
    assert all(trend[times, times] == pytest.approx(2.0) for times in SPEEDUPS)
    assert trend[1, 16] < trend[1, 4] < trend[1, 1]


def test_what_ragdoll_published_follows_from_its_stages_by_the_simulation(capsys: pytest.CaptureFixture[str]):
    found = ragdoll()

    assert found.keys() == RAGDOLL.keys()
    for name, both in found.items():
        published = RAGDOLL[name]
        assert (both.ragdoll.wait_s, both.ragdoll.retrieve_s, both.ragdoll.generate_s) == published[0]
        assert (both.serial.wait_s, both.serial.retrieve_s, both.serial.generate_s) == published[1]
        # The serial batch size was fitted to this row; the other row follows from it.
        assert both.serial.simulated_wait_s == pytest.approx(both.serial.wait_s, rel=0.05)
        assert both.ragdoll.simulated_wait_s < both.serial.simulated_wait_s / 2
        assert both.simulated_gain > 1.5
    show_ragdoll(found)
    told = capsys.readouterr().out
    for both_rows in RAGDOLL.values():
        for row in both_rows:
            assert all(f" {seconds:.0f}" in told for seconds in row)
