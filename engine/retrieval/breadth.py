"""How broad a search may be without an answer having to wait for it: as broad as the available time allows.

A long search starts with a first stage, whose results are used to predict the prompt while the rest continues.

PipeRAG (https://arxiv.org/abs/2403.05676, section 5) chooses how much of the index is probed so that retrieval takes no
longer than the generation that hides it. Here the steps are the depth of both rankings, the number of cold partitions
that are read, and whether a cross-encoder reads the best: T = embedding + a + b · loads + c · queries.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import takewhile

# A narrow search looks at this share of the candidates that the settings ask for.
_NARROW_SHARE = 0.25
_LEARNING_RATE = 0.2
# The time to embed some words on a laptop, query the word index, and read the results.
_GUESSED_OVERHEAD_SECONDS = 0.05
_GUESSED_RERANKING_SECONDS = 0.5

# A first stage is searched again with the rest, so the whole search must take this many times as long.
_WORTH_A_STAGE = 3.0

PredictSweep = Callable[[int, int], float]


@dataclass(frozen=True, slots=True)
class Breadth:
    """`candidates` per ranking, from partitions in memory and the `max_loads` likeliest others."""

    candidates: int
    max_loads: int
    reranks: bool = False


def breadths(candidates: int, num_cold: int, can_rerank: bool) -> tuple[Breadth, ...]:
    """Returns the steps from the narrowest to the broadest: all partitions, and the cross-encoder if there is one."""
    narrow = Breadth(max(1, round(candidates * _NARROW_SHARE)), 0)
    loads = [*takewhile(lambda loads: loads < num_cold, (0, 1, 2, 4, 8, 16, 32, 64, 128, 256, 512)), num_cold]
    steps = (narrow, *(Breadth(candidates, each) for each in dict.fromkeys(loads)))
    return (*steps, Breadth(candidates, num_cold, reranks=True)) if can_rerank else steps


def broadest(steps: Sequence[Breadth], predict: Callable[[Breadth], float], seconds: float) -> Breadth:
    """Returns the broadest step that takes at most `seconds` by prediction; the narrowest if none does."""
    fitting = [step for step in steps if predict(step) <= seconds]
    return fitting[-1] if fitting else steps[0]


def first_stage(steps: Sequence[Breadth], predict: Callable[[Breadth], float]) -> Breadth | None:
    """Returns the first stage of a search: full depth, but from memory alone; None if the whole is not much slower.

    RAGCache (https://arxiv.org/abs/2404.12457, section 5.3) splits a search into stages, so that the model can read
    early results meanwhile.
    """
    whole = steps[-1]
    stage = Breadth(whole.candidates, 0)
    return stage if predict(whole) >= _WORTH_A_STAGE * predict(stage) else None


class LookCosts:
    """The cost model of looks (searches during an answer), learnt on their thread; predictions on any thread."""

    def __init__(self, predict_sweep: PredictSweep) -> None:
        """`predict_sweep` returns the seconds of a sweep by its loads and queries (see cost.py)."""
        self._predict_sweep = predict_sweep
        self._overhead_seconds = _GUESSED_OVERHEAD_SECONDS
        self._reranking_seconds = _GUESSED_RERANKING_SECONDS
        self._latest = Breadth(1, 0)

    def predict(self, breadth: Breadth, num_queries: int = 1) -> float:
        """Predicts the seconds of a look, in a batch with `num_queries` queries."""
        sweep = self._predict_sweep(breadth.max_loads, num_queries)
        return self._overhead_seconds + sweep + self._reranking_seconds * breadth.reranks

    def expected(self) -> float:
        """Predicts the seconds of the next look if it is like the last."""
        return self.predict(self._latest)

    def note(self, breadth: Breadth, num_queries: int, seconds: float) -> None:
        """Learns from a look: the difference to the prediction is overhead, or reranking time."""
        surprise = seconds - self.predict(breadth, num_queries)
        if breadth.reranks:
            self._reranking_seconds = max(0.0, self._reranking_seconds + _LEARNING_RATE * surprise)
        else:
            self._overhead_seconds = max(0.0, self._overhead_seconds + _LEARNING_RATE * surprise)
        self._latest = breadth
