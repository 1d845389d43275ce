"""Chooses the next token from the logits of the last one; the order of the steps is llama.cpp's own."""

from __future__ import annotations

import secrets
from typing import Any, Protocol

import llama_cpp.llama_cpp as llama

from engine.core import SamplingParams
from engine.errors import BadRequest
from engine.generation.model import Context, Model

REPEAT_WINDOW_TOKENS = 64


class Sampler(Protocol):
    """The seam where tests script an answer token by token."""

    def sample(self, context: Context) -> int: ...

    def close(self) -> None: ...


class ChainSampler:
    """A llama.cpp sampler chain: grammar, penalties, top-k, top-p, min-p, temperature, then a draw (or the best)."""

    def __init__(self, model: Model, params: SamplingParams) -> None:
        """Builds the chain.

        Raises:
            BadRequest: The grammar is no valid GBNF.
        """
        self._chain: Any = llama.llama_sampler_chain_init(llama.llama_sampler_chain_default_params())
        try:
            if params.grammar:
                self._add(_grammar(model, params.grammar))
            for step in _steps(model, params):
                self._add(step)
        except BaseException:
            self.close()
            raise

    def sample(self, context: Context) -> int:
        """The next token; the chain remembers it (penalties, grammar state)."""
        return int(llama.llama_sampler_sample(self._chain, context.handle, -1))

    def close(self) -> None:
        if self._chain:
            llama.llama_sampler_free(self._chain)
            self._chain = None

    def _add(self, step: Any) -> None:
        # The chain owns its steps and frees them.
        llama.llama_sampler_chain_add(self._chain, step)


def _steps(model: Model, params: SamplingParams) -> list[Any]:
    window = REPEAT_WINDOW_TOKENS
    steps = [llama.llama_sampler_init_penalties(model.num_tokens, window, params.repeat_penalty, 0.0, 0.0)]
    if params.temperature <= 0:
        return [*steps, llama.llama_sampler_init_greedy()]
    if params.top_k > 0:
        steps.append(llama.llama_sampler_init_top_k(params.top_k))
    steps += [
        llama.llama_sampler_init_top_p(params.top_p, 1),
        llama.llama_sampler_init_min_p(params.min_p, 1),
        llama.llama_sampler_init_temp(params.temperature),
        llama.llama_sampler_init_dist(_seed(params)),
    ]
    return steps


def _seed(params: SamplingParams) -> int:
    return (params.seed if params.seed is not None else secrets.randbits(32)) & 0xFFFFFFFF


def _grammar(model: Model, text: str) -> Any:
    step = llama.llama_sampler_init_grammar(model.vocab, text.encode(), b"root")
    if not step:
        raise BadRequest("The grammar that should shape the answer is not valid GBNF.")
    return step
