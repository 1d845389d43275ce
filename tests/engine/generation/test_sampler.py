"""Tests for engine.generation.sampler."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import llama_cpp.llama_cpp as llama
import numpy as np
import pytest

from engine.core import SamplingParams
from engine.errors import BadRequest, DecodeFailed, GenerationError
from engine.generation.candidates import Candidates
from engine.generation.context import Context, ContextSpec, Stretch
from engine.generation.model import Model
from engine.generation.sampler import ChainSampler, _steps, params_of_answer

PLAIN = SamplingParams(temperature=1.0, top_k=0, top_p=1.0, min_p=0.0, repeat_penalty=1.0, seed=7, max_tokens=64)
GREEDY = replace(PLAIN, temperature=0.0)


class Desk:
    """A tiny model, and what a sampler makes of it, token by token."""

    def __init__(self, path: Path) -> None:
        self.model = Model(path, 0, lambda _: True)
        self.context = Context(
            self.model, ContextSpec(num_cells=512, n_batch=128, n_ubatch=128, num_threads=1, num_sequences=8)
        )
        self.prompt = [self.model.bos, *self.model.tokenize("Once upon a time")]

    def write(
        self,
        params: SamplingParams,
        num_tokens: int = 24,
        num_sequences: int = 1,
        beside: Sequence[ChainSampler] = (),
    ) -> list[int]:
        """Tokens sampled one by one from the last of some sequences, while others sample from the same logits."""
        self.context.clear()
        sampler = ChainSampler(self.model, params)
        tokens: list[int] = []
        batch, position = self.prompt, 0
        while len(tokens) < num_tokens and not any(self.model.ends(token) for token in tokens[-1:]):
            row = self.context.decode([Stretch(slot, position, batch, 1) for slot in range(num_sequences)])[-1]
            position += len(batch)
            for other in beside:
                other.sample(self.context, row + len(batch) - 1)
            tokens.append(sampler.sample(self.context, row + len(batch) - 1))
            batch = tokens[-1:]
        sampler.close()
        return tokens

    def text(self, tokens: list[int]) -> str:
        return b"".join(self.model.piece(token) for token in tokens).decode("utf-8", "replace")

    def logits(self) -> np.ndarray:
        """Of the first token after the prompt."""
        self.context.clear()
        [row] = self.context.decode([Stretch(0, 0, self.prompt, 1)])
        return self.context.logits(row + len(self.prompt) - 1)

    def draws(self, params: SamplingParams, count: int) -> Counter[int]:
        """How often each token comes out as the first one, over seeds."""
        self.logits()
        found: Counter[int] = Counter()
        for seed in range(count):
            sampler = ChainSampler(self.model, replace(params, seed=seed))
            found[sampler.sample(self.context, len(self.prompt) - 1)] += 1
            sampler.close()
        return found

    def close(self) -> None:
        self.context.close()
        self.model.close()


@pytest.fixture(scope="module")
def desk(tiny_model: Path) -> Iterator[Desk]:
    desk = Desk(tiny_model)
    yield desk
    desk.close()


def probabilities(logits: np.ndarray) -> np.ndarray:
    weights = np.exp(logits.astype(np.float64) - logits.max())
    return weights / weights.sum()


def test_greedy_takes_the_likeliest_whatever_the_seed(desk: Desk):
    assert desk.write(GREEDY, 1) == [int(desk.logits().argmax())]
    assert desk.write(GREEDY) == desk.write(replace(GREEDY, seed=8))


def test_a_window_below_nothing_penalises_nothing(desk: Desk):
    penalised = replace(GREEDY, repeat_penalty=5.0, repeat_window=6)
    assert desk.write(replace(penalised, repeat_window=-1)) == desk.write(GREEDY) != desk.write(penalised)


def test_a_seed_gives_the_same_answer_whatever_else_is_sampled(desk: Desk):
    params = replace(PLAIN, temperature=1.5, xtc_probability=0.5, xtc_threshold=0.01, dry_multiplier=0.8)
    alone = desk.write(params)
    assert desk.write(params) == alone
    assert desk.write(replace(params, seed=8)) != alone
    others = [ChainSampler(desk.model, replace(params, seed=seed)) for seed in (7, 8, None)]
    assert desk.write(params, beside=others) == alone
    for other in others:
        other.close()


def test_tokens_follow_the_row_they_are_sampled_from(desk: Desk):
    # Five other sequences in the same batches: the rows differ, the likeliest tokens do not.
    assert desk.write(GREEDY, num_sequences=6) == desk.write(GREEDY)


@pytest.mark.parametrize(
    "changed",
    [
        {"temperature": 0.0},
        {"temperature": 0.0, "repeat_penalty": 5.0, "repeat_window": 6},
        {"temperature": 0.0, "logit_bias": ((300, 3.0), (301, -math.inf))},
        {"top_k": 3},
        {"top_k": 3, "repeat_penalty": 1.5, "repeat_window": 6, "presence_penalty": 2.0},
        {"top_k": 3, "repeat_window": 6, "frequency_penalty": -3.0},
        {"top_k": 4, "top_p": 0.9, "typical_p": 0.9, "min_p": 0.01, "xtc_probability": 0.5, "xtc_threshold": 0.01},
        {"top_k": 5, "logit_bias": ((300, 3.0), (301, -math.inf))},
        {"top_k": 10_000, "repeat_penalty": 1.5},
        {"top_k": 3, "dry_multiplier": 5.0},
        {"top_k": 3, "mirostat": True},
    ],
    ids=str,
)
def test_the_choice_is_the_one_that_the_chain_makes_of_all_tokens(desk: Desk, changed: dict[str, Any]):
    params = replace(PLAIN, temperature=1.5, seed=11)
    params = replace(params, **changed)
    chain = llama.llama_sampler_chain_init(llama.llama_sampler_chain_default_params())
    for step in _steps(desk.model, params):
        llama.llama_sampler_chain_add(chain, step)
    sampler = ChainSampler(desk.model, params)
    desk.logits()
    row = len(desk.prompt) - 1
    try:
        for position in range(len(desk.prompt), len(desk.prompt) + 60):
            token = llama.llama_sampler_sample(chain, desk.context.handle, row)
            assert sampler.sample(desk.context, row) == token
            [row] = desk.context.decode([Stretch(0, position, [token], 1)])
    finally:
        sampler.close()
        llama.llama_sampler_free(chain)


def test_without_a_seed_answers_differ(desk: Desk):
    params = replace(PLAIN, temperature=2.0, seed=None)
    assert desk.write(params) != desk.write(params)


def test_each_of_several_answers_has_its_own_seed():
    assert [params_of_answer(PLAIN, answer).seed for answer in range(3)] == [7, 8, 9]
    assert params_of_answer(replace(PLAIN, seed=None), 2).seed is None


def test_draws_follow_the_probabilities(desk: Desk):
    found = desk.draws(replace(PLAIN, temperature=0.5), 800)
    expected = probabilities(desk.logits() / 0.5)
    for token in np.argsort(expected)[-3:]:
        assert abs(found[int(token)] / 800 - expected[token]) < 0.06


@pytest.mark.parametrize(
    "cut", [{"top_k": 3}, {"top_p": 0.2}, {"min_p": 0.5}, {"typical_p": 0.2}, {"mirostat": True, "mirostat_tau": 0.5}]
)
def test_a_cut_leaves_out_most_tokens(desk: Desk, cut: dict[str, float]):
    assert len(desk.draws(replace(PLAIN, **cut), 200)) < len(desk.draws(PLAIN, 200)) / 2


def test_top_k_leaves_the_k_likeliest(desk: Desk):
    likeliest = set(np.argsort(desk.logits())[-3:].tolist())
    assert set(desk.draws(replace(PLAIN, top_k=3), 100)) == likeliest


def test_xtc_leaves_out_the_likeliest_at_its_probability(desk: Desk):
    params = replace(PLAIN, temperature=0.2, xtc_threshold=0.015)
    best = int(desk.logits().argmax())
    share = [desk.draws(replace(params, xtc_probability=p), 200)[best] / 200 for p in (0.0, 0.5, 1.0)]
    assert share[0] > 0.5
    assert 0.2 * share[0] < share[1] < 0.8 * share[0]
    assert share[2] == 0.0


def test_penalties_keep_tokens_from_coming_back(desk: Desk):
    text = desk.write(GREEDY, 40)
    repeated = len(text) - len(set(text))
    for penalty in ({"repeat_penalty": 100.0}, {"presence_penalty": 100.0}, {"frequency_penalty": 100.0}):
        changed = desk.write(replace(GREEDY, **penalty), 40)
        assert len(changed) - len(set(changed)) < repeated


def test_a_penalty_looks_back_no_further_than_its_window(desk: Desk):
    assert desk.write(replace(GREEDY, presence_penalty=100.0, repeat_window=0), 40) == desk.write(GREEDY, 40)


def test_dry_ends_a_loop_and_leaves_the_rest_alone(desk: Desk):
    looping = replace(GREEDY, logit_bias=((desk.model.tokenize("b")[-1], 50.0),))
    assert len(set(desk.write(looping, 30))) == 1
    assert len(set(desk.write(replace(looping, dry_multiplier=10.0), 30))) > 1
    assert len(set(desk.write(replace(looping, dry_multiplier=10.0, dry_window=0), 30))) == 1


def test_breakers_that_are_no_text_and_none_at_all_are_taken(desk: Desk):
    for breakers in ((), ("",), ("\ud800", "a\0b", "x" * 500)):
        assert desk.write(replace(GREEDY, dry_multiplier=1.0, dry_breakers=breakers), 4)


def test_a_bias_bans_and_prefers(desk: Desk):
    best = int(desk.logits().argmax())
    assert best not in desk.write(replace(GREEDY, logit_bias=((best, -math.inf),)))
    assert set(desk.write(replace(GREEDY, logit_bias=((best, 1000.0),)), 8)) == {best}


def test_a_bias_of_no_token_is_refused(desk: Desk):
    for token in (-1, desk.model.num_tokens):
        with pytest.raises(BadRequest, match=f"no token {token}"):
            ChainSampler(desk.model, replace(GREEDY, logit_bias=((token, 1.0),)))


def test_a_grammar_shapes_the_answer(desk: Desk):
    params = replace(PLAIN, grammar='root ::= "yes, " [a-c]{3} "."')
    text = desk.text([t for t in desk.write(params) if not desk.model.ends(t)])
    assert text.strip() in {f"yes, {a}{b}{c}." for a in "abc" for b in "abc" for c in "abc"}


@pytest.mark.parametrize("seed", range(4))
def test_a_schema_shapes_the_answer(desk: Desk, seed: int):
    schema = {
        "properties": {"kind": {"enum": ["a", "b"]}, "flags": {"type": "array", "items": {"type": "boolean"}}},
        "required": ["kind", "flags"],
    }
    params = replace(
        PLAIN, json_schema=json.dumps(schema), seed=seed, logit_bias=((desk.model.tokenize("]")[-1], 9.0),)
    )
    tokens = desk.write(params, 200)
    assert desk.model.ends(tokens[-1])
    value = json.loads(desk.text(tokens[:-1]))
    assert value["kind"] in "ab"
    assert all(isinstance(flag, bool) for flag in value["flags"])


def test_a_grammar_draws_from_what_it_leaves(desk: Desk):
    fitting = [token for token in range(desk.model.num_tokens) if desk.model.piece(token) in (b"a", b"b", b"c")]
    shares = probabilities(desk.logits()[fitting])
    found = desk.draws(replace(PLAIN, grammar='root ::= "a" | "b" | "c"'), 600)
    assert set(found) <= set(fitting)
    for token, share in zip(fitting, shares, strict=True):
        assert abs(found[token] / 600 - share) < 0.07


@pytest.mark.parametrize("banned_by", ["grammar", "bias"])
def test_the_typical_are_chosen_among_tokens_of_which_others_have_no_chance(desk: Desk, banned_by: str):
    fitting = [token for token in range(desk.model.num_tokens) if desk.model.piece(token) in (b"a", b"b", b"c")][-3:]
    logits = desk.logits()
    logits[:] = -200.0
    logits[fitting] = np.log([0.7, 0.2, 0.1])
    # It would be written by itself.
    logits[desk.model.tokenize("x")[-1]] = 30.0
    if banned_by == "grammar":
        params = replace(PLAIN, typical_p=0.5, grammar='root ::= "a" | "b" | "c"')
    else:
        others = sorted({*range(desk.model.num_tokens)} - {*fitting})
        params = replace(PLAIN, typical_p=0.5, logit_bias=tuple((token, -math.inf) for token in others))
    found: Counter[int] = Counter()
    for seed in range(60):
        sampler = ChainSampler(desk.model, replace(params, seed=seed))
        found[sampler.sample(desk.context, len(desk.prompt) - 1)] += 1
        sampler.close()
    # The one nearest to the expectation of all three makes up half, alone: the rest is cut.
    assert set(found) == {fitting[0]}


def test_samplers_that_share_a_list_of_candidates_choose_as_with_their_own(desk: Desk):
    first, second = replace(PLAIN, grammar='root ::= "yes, " [a-c]{3} "."'), replace(PLAIN, grammar="root ::= [x-z]+")
    alone = [desk.write(params, 4) for params in (first, second)]
    shared = Candidates(desk.model.num_tokens)
    desk.logits()
    row, tokens = len(desk.prompt) - 1, []
    for params in (first, second, first):
        sampler = ChainSampler(desk.model, params, shared)
        tokens.append(sampler.sample(desk.context, row))
        sampler.close()
    assert tokens == [alone[0][0], alone[1][0], alone[0][0]]


def test_a_grammar_that_no_token_fits_fails_with_a_sentence(desk: Desk):
    banned = tuple((token, -math.inf) for token in range(desk.model.num_tokens))
    with pytest.raises(GenerationError, match="no way to go on"):
        desk.write(replace(PLAIN, grammar='root ::= "a"', logit_bias=banned))


def test_banning_everything_kills_nothing(desk: Desk):
    banned = tuple((token, -math.inf) for token in range(desk.model.num_tokens))
    for params in (PLAIN, GREEDY, replace(PLAIN, mirostat=True), replace(PLAIN, top_k=5, typical_p=0.5, min_p=0.1)):
        assert len(desk.write(replace(params, logit_bias=banned), 2)) >= 1


def test_logits_that_are_no_numbers_fail_with_a_sentence(desk: Desk):
    desk.logits()[5] = math.nan
    sampler = ChainSampler(desk.model, PLAIN)
    with pytest.raises(DecodeFailed, match="computed nothing"):
        sampler.sample(desk.context, len(desk.prompt) - 1)
    sampler.close()


def test_a_row_without_logits_is_a_mistake_of_the_caller(desk: Desk):
    desk.logits()
    sampler = ChainSampler(desk.model, PLAIN)
    with pytest.raises(ValueError, match="row 0"):
        sampler.sample(desk.context, 0)
    sampler.close()


def test_no_grammar_that_is_let_through_kills_the_process(tiny_model: Path):
    # In a process of its own, which would be the one to die.
    script = Path(__file__).with_name("grammar_fuzz.py")
    done = subprocess.run(
        [sys.executable, str(script), str(tiny_model)], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]
    let_through, refused = map(int, done.stdout.split()[-2:])
    assert let_through > 20
    assert refused > 20


# --- going on behind what was written before ---


@pytest.mark.parametrize(
    "params", [replace(GREEDY, repeat_penalty=1.5), replace(GREEDY, grammar='root ::= "ab" [a-z]*')]
)
def test_what_was_written_before_counts_as_chosen(desk: Desk, params: SamplingParams):
    whole = desk.write(params, 12)
    sampler = ChainSampler(desk.model, params)
    sampler.accept(whole[:8])
    desk.context.clear()
    tokens = [*desk.prompt, *whole[:8]]
    [row] = desk.context.decode([Stretch(0, 0, tokens, 1)])
    assert sampler.sample(desk.context, row + len(tokens) - 1) == whole[8]
    sampler.close()


def test_what_has_not_the_form_that_is_wanted_is_not_gone_on_with(desk: Desk):
    sampler = ChainSampler(desk.model, replace(GREEDY, grammar='root ::= "ab"'))
    with pytest.raises(GenerationError, match="form"):
        sampler.accept(desk.model.tokenize("cd"))
    sampler.close()
