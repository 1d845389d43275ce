"""How near a greedy answer came to being another: one that hangs on no near tie is the same on every device."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import pytest

from engine.core import SamplingParams
from engine.generation.candidates import Candidates
from engine.generation.context import Context
from engine.generation.model import Model
from engine.generation.sampler import ChainSampler


@contextmanager
def margins_noted() -> Iterator[dict[int | None, float]]:
    """By the seed of an answer: how much likelier each of its tokens was than the next best, in logits, at least."""
    margins: dict[int | None, float] = {}
    init, sample = ChainSampler.__init__, ChainSampler.sample

    def note_seed(self: ChainSampler, model: Model, params: SamplingParams, candidates: Candidates) -> None:
        init(self, model, params, candidates)
        self.seed = params.seed

    def note_margin(self: ChainSampler, context: Context, row: int = -1) -> int:
        second, best = np.partition(context.logits(row), -2)[-2:]
        margins[self.seed] = min(margins.get(self.seed, float("inf")), float(best - second))
        return sample(self, context, row)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ChainSampler, "__init__", note_seed)
        patch.setattr(ChainSampler, "sample", note_margin)
        yield margins
