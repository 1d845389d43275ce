"""Answers whose tokens are given: a model of random weights says nothing, but computes as if it did."""

from __future__ import annotations

from collections.abc import Sequence

from engine.core import SamplingParams
from engine.generation.model import Model
from engine.generation.sampler import ChainSampler, Decoded


class GivenTokens:
    """Samples like any answer does, and then says what was recorded."""

    def __init__(self, model: Model, params: SamplingParams, answer: Sequence[int]) -> None:
        self._chain, self._rest = ChainSampler(model, params), iter(answer)

    def sample(self, context: Decoded, row: int) -> int:
        freely = self._chain.sample(context, row)
        return next(self._rest, freely)

    def close(self) -> None:
        self._chain.close()
