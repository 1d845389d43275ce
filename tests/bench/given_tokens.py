"""Answers with prescribed tokens: a model of random weights writes nothing meaningful, but computes the same."""

from __future__ import annotations

from collections.abc import Sequence

from engine.core import SamplingParams
from engine.generation.model import Model
from engine.generation.sampler import ChainSampler, Decoded


class GivenTokens:
    """A sampler that samples as usual, then returns the prescribed token instead."""

    def __init__(self, model: Model, params: SamplingParams, answer: Sequence[int]) -> None:
        self._chain, self._rest = ChainSampler(model, params), iter(answer)

    def sample(self, context: Decoded, row: int) -> int:
        freely = self._chain.sample(context, row)
        return next(self._rest, freely)

    def close(self) -> None:
        self._chain.close()
