"""Chooses the next token from the logits of a row; the steps and their order are llama.cpp's own.

Each answer has its own sampler, with its own random numbers: other answers in the batch change nothing. If the chain
starts by cutting to the likeliest few, it gets only these: going through a whole vocabulary takes up to milliseconds
for each token.
"""

from __future__ import annotations

import ctypes
import math
import secrets
from collections import deque
from collections.abc import Sequence
from dataclasses import replace
from hashlib import blake2b
from typing import Any, Protocol

import llama_cpp.llama_cpp as llama
import numpy as np
from numpy.typing import NDArray

from engine.core import SamplingParams
from engine.errors import BadRequest, DecodeFailed, GenerationError
from engine.generation.candidates import Candidates
from engine.generation.grammar import NativeGrammar, grammar_of
from engine.generation.model import Model

# llama.cpp's value for a fresh seed; those below are seeds.
ANY_SEED = 0xFFFFFFFF
# Relative to the likeliest token; a less likely one than this is never drawn.
_LEAST_CHANCE = 1e-12


class Decoded(Protocol):
    """A context that has computed logits."""

    @property
    def handle(self) -> Any: ...


class ChainSampler:
    """A chain of llama.cpp's samplers, constrained by a grammar if one is given."""

    def __init__(self, model: Model, params: SamplingParams, candidates: Candidates | None = None) -> None:
        """Builds the chain; without `candidates` it makes its own list.

        Raises:
            BadRequest: The grammar cannot be used, or the model does not have a biased token.
        """
        self._row_type = ctypes.c_float * model.num_tokens
        self._candidates = candidates or Candidates(model.num_tokens)
        self._num_likeliest = _num_likeliest(params)
        self._biased = frozenset(token for token, _ in params.logit_bias)
        self._penalised: deque[int] = deque(maxlen=max(0, params.repeat_window) if _has_penalties(params) else 0)
        self._grammar: NativeGrammar | None = None
        self._chain: Any = llama.llama_sampler_chain_init(llama.llama_sampler_chain_default_params())
        try:
            if text := grammar_of(params):
                self._grammar = NativeGrammar(model, text)
            for step in _steps(model, params):
                # The chain owns its steps and frees them.
                llama.llama_sampler_chain_add(self._chain, step)
        except BaseException:
            self.close()
            raise

    def sample(self, context: Decoded, row: int = -1) -> int:
        """Chooses the next token; the chain remembers it (penalties, grammar state).

        Raises:
            DecodeFailed: The logits are not finite numbers.
            GenerationError: The grammar allows no token of this model.
        """
        logits = self._logits(context, row)
        token = self._choose(self._likeliest(logits))
        if self._grammar is not None:
            token = self._shaped(token, logits, self._grammar)
        self._remember(token)
        return token

    def accept(self, tokens: Sequence[int]) -> None:
        """Remembers tokens that were written before, as if they had been chosen here.

        Raises:
            GenerationError: They do not follow the grammar.
        """
        for token in tokens:
            if self._grammar is not None and not self._grammar.allows(token):
                raise GenerationError(
                    "What was written of this answer has not the form that it is to have.", "Ask again."
                )
            self._remember(token)

    def close(self) -> None:
        if self._grammar is not None:
            self._grammar.close()
            self._grammar = None
        if self._chain:
            llama.llama_sampler_free(self._chain)
            self._chain = None

    def renew(self) -> None:
        """Continues with the reloaded model, with the same random numbers and the same state of the grammar."""
        if self._grammar is not None:
            self._grammar.renew()

    def _remember(self, token: int) -> None:
        if self._grammar is not None:
            self._grammar.accept(token)
        llama.llama_sampler_accept(self._chain, token)
        self._penalised.append(token)

    def _logits(self, context: Decoded, row: int) -> NDArray[np.float32]:
        pointer = llama.llama_get_logits_ith(context.handle, row)
        if not pointer:
            raise ValueError(f"no logits were asked for in row {row}")
        row_data: Any = self._row_type.from_address(ctypes.addressof(pointer.contents))
        logits: NDArray[np.float32] = np.frombuffer(row_data, np.float32)
        # max propagates NaN. The samplers sort, and sorting NaN may read and write out of bounds.
        if not math.isfinite(logits.max()):
            raise DecodeFailed("The model computed nothing that can be read.", "Its file may be damaged: get it again.")
        return logits

    def _likeliest(self, logits: NDArray[np.float32]) -> llama.llama_token_data_array:
        """Returns the candidates among which the chain would choose if it got all."""
        if self._num_likeliest is None:
            return self._candidates.all(logits)
        return self._candidates.best(logits, self._num_likeliest, self._biased.union(self._penalised))

    def _shaped(self, token: int, logits: NDArray[np.float32], grammar: NativeGrammar) -> int:
        """Returns a token that the grammar allows: the chosen one if allowed, else one chosen among all allowed tokens.

        Checking one token costs nothing, but checking all of them takes milliseconds, so that is only the fallback.
        """
        if grammar.allows(token):
            return token
        candidates = self._candidates.all(logits)
        grammar.apply(candidates)
        token = self._choose(candidates)
        if not grammar.allows(token):
            raise GenerationError("The grammar leaves this model no way to go on.", "Let it allow more characters.")
        return token

    def _choose(self, candidates: llama.llama_token_data_array) -> int:
        llama.llama_sampler_apply(self._chain, ctypes.byref(candidates))
        return int(candidates.data[candidates.selected].id)


def check_sampler(model: Model, params: SamplingParams) -> None:
    """Refuses parameters for which no sampler can be made, long before one is needed.

    Raises:
        BadRequest: The grammar cannot be used, or the model does not have a biased token.
    """
    check_biases(model, params)
    if text := grammar_of(params):
        NativeGrammar(model, text).close()


def params_of_answer(params: SamplingParams, answer: int) -> SamplingParams:
    """Returns the parameters of one of several answers to a prompt: with a seed, each gets its own."""
    if params.seed is None or answer == 0:
        return params
    return replace(params, seed=params.seed + answer)


def _num_likeliest(params: SamplingParams) -> int | None:
    """Returns the number of likeliest tokens that the chain cuts to first; None if that is not its first cut.

    Biases and penalties come before the cut, but affect tokens that are known. The tokens that DRY affects are not
    known.
    """
    if params.dry_multiplier > 0:
        return None
    if params.temperature <= 0:
        return 1
    return params.top_k if params.top_k > 0 and not params.mirostat else None


def _has_penalties(params: SamplingParams) -> bool:
    return params.repeat_penalty != 1 or params.presence_penalty != 0 or params.frequency_penalty != 0


def _steps(model: Model, params: SamplingParams) -> list[Any]:
    steps = _changes(model, params)
    if params.temperature <= 0:
        return [*steps, llama.llama_sampler_init_greedy()]
    seed = _seed(params)
    temperature = llama.llama_sampler_init_temp(params.temperature)
    if params.mirostat:
        mirostat = llama.llama_sampler_init_mirostat_v2(seed, params.mirostat_tau, params.mirostat_eta)
        return [*steps, temperature, mirostat]
    return [*steps, *_cuts(params, seed), temperature, llama.llama_sampler_init_dist(seed)]


def _changes(model: Model, params: SamplingParams) -> list[Any]:
    """Returns the steps that change logits: biases, penalties of tokens, and of sequences (DRY)."""
    steps = [
        llama.llama_sampler_init_penalties(
            model.num_tokens,
            params.repeat_window,
            params.repeat_penalty,
            params.frequency_penalty,
            params.presence_penalty,
        )
    ]
    if params.logit_bias:
        steps.insert(0, _biases(model, params))
    if params.dry_multiplier > 0:
        breakers = [text.encode("utf-8", "replace") for text in params.dry_breakers if text]
        # A sampler remembers only its own answer, so a longer window is useless.
        window = params.max_tokens if params.dry_window is None else params.dry_window
        steps.append(
            llama.llama_sampler_init_dry(
                model.vocab,
                params.dry_multiplier,
                params.dry_base,
                params.dry_allowed_length,
                min(window, params.max_tokens),
                (ctypes.c_char_p * len(breakers))(*breakers),
                len(breakers),
            )
        )
    return steps


def _cuts(params: SamplingParams, seed: int) -> list[Any]:
    """Returns the steps that exclude tokens; a step that would exclude none is not made."""
    steps = []
    if params.top_k > 0:
        steps.append(llama.llama_sampler_init_top_k(params.top_k))
    if params.typical_p < 1:
        # The step computes p * log(p), which is NaN if a grammar or a bias has made p 0.
        steps.append(llama.llama_sampler_init_min_p(_LEAST_CHANCE, 1))
        steps.append(llama.llama_sampler_init_typical(params.typical_p, 1))
    if params.top_p < 1:
        steps.append(llama.llama_sampler_init_top_p(params.top_p, 1))
    if params.min_p > 0:
        steps.append(llama.llama_sampler_init_min_p(params.min_p, 1))
    if params.xtc_probability > 0:
        # With the same seed as the draw, both decisions would depend on the same random numbers.
        other_seed = int.from_bytes(blake2b(seed.to_bytes(4, "little"), digest_size=4).digest(), "little") % ANY_SEED
        steps.append(llama.llama_sampler_init_xtc(params.xtc_probability, params.xtc_threshold, 1, other_seed))
    return steps


def check_biases(model: Model, params: SamplingParams) -> None:
    """Raises BadRequest if a biased token is not in the model's vocabulary."""
    for token, _ in params.logit_bias:
        if not 0 <= token < model.num_tokens:
            raise BadRequest(f"The model has no token {token} to bias.", "Choose among its own.")


def _biases(model: Model, params: SamplingParams) -> Any:
    check_biases(model, params)
    biases = [llama.llama_logit_bias(token, bias) for token, bias in params.logit_bias]
    array = (llama.llama_logit_bias * len(biases))(*biases)
    return llama.llama_sampler_init_logit_bias(model.num_tokens, len(biases), array)


def _seed(params: SamplingParams) -> int:
    return (params.seed if params.seed is not None else secrets.randbits(32)) % ANY_SEED
