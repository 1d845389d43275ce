"""Tests for engine.memory.gangs: equations 6 to 8 of RAGDoll."""

from __future__ import annotations

import random

import pytest

from engine.memory import gangs
from engine.memory.gangs import QueueSharing, gang_sizes, mean_latency
from tests.bench.simulated import Question, Stages, mean_latency_s, pipelined


@pytest.mark.parametrize("num_gangs", [1, 2, 3, 7])
def test_the_mean_over_gangs_is_that_of_their_ends(num_gangs: int):
    # Eq. 6: the members of gang number i end after i gangs.
    ends = [3.0 * number for number in range(1, num_gangs + 1)]
    assert mean_latency(num_gangs, 3.0) == pytest.approx(sum(ends) / num_gangs)


@pytest.mark.parametrize(("num_gangs", "seconds"), [(1, 5.0), (2, 3.0), (8, 1.0)])
def test_where_others_take_their_place_questions_wait_as_long_as_all_take(num_gangs: int, seconds: float):
    latencies = [mean_latency(num_gangs, seconds, refill) for refill in (0.0, 0.5, 1.0)]
    assert latencies[2] == num_gangs * seconds
    assert latencies[1] == pytest.approx((latencies[0] + latencies[2]) / 2)


# A .6B model in memory, and larger ones whose steps take long however many share them.
STEPS = [
    (0.047, 0.065, 0.081, 0.081, 0.115, 0.154, 0.17, 0.189),
    tuple(0.3 + 0.05 * size for size in range(1, 17)),
    tuple(1.0 + 0.05 * size for size in range(1, 17)),
]


@pytest.mark.parametrize("load", [0.8, 1.0, 1.6])
@pytest.mark.parametrize("steps", STEPS)
def test_as_many_share_a_step_as_if_half_of_all_were_followed(
    load: float, steps: tuple[float, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    read_s, tokens = (0.006, 0.3, 1.9, 3.1, 5.6), (8, 12, 48)
    each_s = sum(read_s) / len(read_s) + min(step / size for size, step in enumerate(steps, 1)) * 68 / 3
    stages = Stages(lambda _: 0.0, lambda place: read_s[place], lambda size: steps[size - 1])

    def best(num_questions: int, read_s: float) -> int:
        return QueueSharing(num_questions, 68 / 3, steps).best(read_s)

    def simulated(share: float) -> float:
        monkeypatch.setattr(gangs, "_REFILLED_SHARE", share)
        rng, latencies = random.Random(6), list[float]()
        for _ in range(20):
            now, questions = 0.0, list[Question]()
            for _ in range(34):
                now += rng.expovariate(load / each_s)
                questions.append(Question(now, rng.randrange(len(read_s)), rng.choice(tokens)))
            latencies.append(mean_latency_s(pipelined(questions, stages, best)))
        return sum(latencies) / len(latencies)

    half, none, all_of_them = (simulated(share) for share in (gangs._REFILLED_SHARE, 0.0, 1.0))
    assert half < 1.02 * min(none, all_of_them)
    assert half < max(none, all_of_them)


def test_as_many_at_once_as_do_not_divide_what_waits_take_no_longer_for_that():
    # 16 wait, and steps of 12 take hardly longer than those of 8: two gangs of which one is nearly empty never come.
    assert mean_latency(16 / 12, 12.5) < mean_latency(16 / 8, 12.0)


@pytest.mark.parametrize("exponent", [0.2, 0.5, 0.58, 0.6, 0.8, 1.0])
@pytest.mark.parametrize("num_gangs", [2, 3, 4, 8])
def test_one_gang_beats_k_where_seconds_grow_slowly_enough(exponent: float, num_gangs: int):
    # Eq. 7: with T = a · B^c, iff 2 · k^c ≤ k + 1.
    whole, part = 48.0**exponent, (48 / num_gangs) ** exponent
    is_better = mean_latency(1, whole) <= mean_latency(num_gangs, part)
    assert is_better == (2 * num_gangs**exponent <= num_gangs + 1)


def test_the_best_number_of_gangs_is_the_one_between_the_bounds_for_straight_costs():
    # Eq. 8: with T = α + β · B, k gangs are best iff k(k − 1)·α ≤ β·n ≤ k(k + 1)·α.
    rng = random.Random(8)
    for _ in range(200):
        fixed, each, num = rng.uniform(0.1, 5), rng.uniform(0.01, 1), 5040
        latency = {k: mean_latency(k, fixed + each * num / k) for k in range(1, 200)}
        best = min(latency, key=latency.__getitem__)
        if best < 199:
            assert best * (best - 1) * fixed <= each * num * (1 + 1e-9)
            assert each * num <= best * (best + 1) * fixed * (1 + 1e-9)


def test_steps_that_read_layers_are_shared_by_all_who_wait() -> None:
    # A step takes .8 s however many share it, and a prompt of 5 s is worth that of 18 tokens.
    streamed = QueueSharing(8, 18, [0.8] * 16)
    assert streamed.best(read_seconds=5.0) >= 4
    assert QueueSharing(2, 18, [0.8] * 16).best(read_seconds=5.0) == 2


def test_a_prompt_waits_where_reading_it_takes_longer_than_shared_steps_save() -> None:
    # Of a model of .2 GB: 20 ms a step, and 26 with four answers.
    steps = [0.020, 0.025, 0.028, 0.026]
    assert QueueSharing(6, 8, steps).best(read_seconds=1.2) == 1
    assert QueueSharing(6, 8, steps).best(read_seconds=0.12) == 4
    assert QueueSharing(40, 8, steps).best(read_seconds=0.57) == 4


def test_what_is_read_while_layers_are_takes_no_time() -> None:
    # A step of .8 s hides .5 s of a prompt: with two at once as much as three prompts, with four at once hardly one.
    hidden = [0.6, 0.5, 0.4, 0.3, 0.2, 0.1, 0.0, 0.0]
    plain, pieces = QueueSharing(8, 18, [0.8] * 8), QueueSharing(8, 18, [0.8] * 8, hidden_seconds=hidden)
    assert pieces.best(read_seconds=5.0) < plain.best(read_seconds=5.0)
    # Where nothing has to be read, it makes no difference.
    assert pieces.best(read_seconds=0.0) == plain.best(read_seconds=0.0)


def test_none_is_beside_another_that_slows_it_down_by_as_much() -> None:
    assert QueueSharing(16, 100, [1.0 * size for size in range(1, 17)]).best(read_seconds=1.0) == 1


def test_a_measured_cliff_is_not_stepped_over() -> None:
    # A kernel that takes twice as long from nine answers on: no fit would show it.
    steps = [1.0 + 0.01 * size if size <= 8 else 3.0 for size in range(1, 65)]
    assert QueueSharing(16, 100, steps).best(read_seconds=0.0) == 8


def test_no_more_are_under_way_than_there_are_or_were_measured() -> None:
    assert QueueSharing(2, 100, [1.0] * 16).best(0.0) == 2
    assert QueueSharing(2, 100, [1.0] * 16).best(0.0, num_known=5) == 5
    assert QueueSharing(99, 100, [1.0] * 16).best(0.0) == 16
    assert QueueSharing(0, 0, [1.0]).best(0.0) == 1


@pytest.mark.parametrize("size", [1, 2, 4, 8])
def test_the_mean_of_those_who_come_and_go_is_that_of_their_ends(size: int) -> None:
    """N + n over two, times what each takes: simulated with prompts that hold up the others, as in the engine."""
    read_s, tokens, step_s, count = 0.3, 40, 0.1, 200
    stages = Stages(lambda _: 0.0, lambda _: read_s, lambda _: step_s)
    served = pipelined([Question(0.0, 1, tokens)] * count, stages, lambda _, __: size)
    each = read_s + tokens * step_s / size
    assert mean_latency_s(served) == pytest.approx((count + size) / 2 * each, rel=0.05)


def test_gangs_are_as_large_as_allowed_and_never_more_than_wait():
    assert gang_sizes(0, 8) == gang_sizes(1, 8) == (1,)
    assert gang_sizes(100, 8)[-1] == 8
    assert gang_sizes(14, 64) == (1, 2, 3, 4, 6, 8, 12, 14)


@pytest.mark.parametrize("num_waiting", [2, 7, 64, 500])
def test_few_sizes_are_looked_at_and_none_gains_much_between_them(num_waiting: int):
    sizes = gang_sizes(num_waiting, 64)
    assert len(sizes) <= 16
    assert sizes[0] == 1

    def seconds(size: int) -> float:
        return 5.0 + size

    every = min(mean_latency(num_waiting / size, seconds(size)) for size in range(1, min(64, num_waiting) + 1))
    least = min(mean_latency(num_waiting / size, seconds(size)) for size in sizes)
    assert least <= 1.03 * every
