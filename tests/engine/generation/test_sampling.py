"""Tests for engine.generation.sampling."""

from __future__ import annotations

import math
from dataclasses import fields, replace

import pytest

from engine.core import SamplingParams
from engine.errors import BadRequest
from engine.generation.sampling import check_sampling


def test_the_defaults_can_be_used():
    check_sampling(SamplingParams())
    check_sampling(SamplingParams(temperature=-1, top_p=0, seed=0, logit_bias=((3, -math.inf),), num_answers=4))


@pytest.mark.parametrize(
    "name", [field.name for field in fields(SamplingParams) if isinstance(getattr(SamplingParams(), field.name), float)]
)
def test_no_number_may_be_none_at_all(name: str):
    with pytest.raises(BadRequest, match=f"^{name} is nan"):
        check_sampling(replace(SamplingParams(), **{name: math.nan}))


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"top_p": 1.5}, "top_p is 1.5, and may be from 0 to 1"),
        ({"max_tokens": 0}, "max_tokens is 0, and may be from 1 to 2,147,483,647"),
        ({"temperature": math.inf}, "temperature is inf, and may be at most 100"),
        ({"top_k": -1}, "top_k"),
        ({"repeat_penalty": 0.0}, "repeat_penalty"),
        ({"repeat_window": -1}, "repeat_window"),
        ({"dry_window": 2**40}, "dry_window"),
        ({"seed": -1}, "seed"),
        ({"num_answers": 0}, "num_answers"),
        ({"beam_width": 99}, "beam_width"),
        ({"logit_bias": ((1, math.nan),)}, "bias of a token"),
        ({"logit_bias": ((1, math.inf),)}, "bias of a token"),
        ({"beam_width": 2, "num_answers": 2}, "one answer"),
        ({"beam_width": 2, "grammar": 'root ::= "a"'}, "follows no grammar"),
        ({"grammar": "root ::="[:4]}, "not valid GBNF"),
        ({"json_schema": "{"}, "is no JSON"),
        ({"json_schema": "{}", "grammar": 'root ::= "a"'}, "not both"),
    ],
)
def test_what_cannot_be_is_refused_with_a_sentence(changes: dict[str, object], sentence: str):
    with pytest.raises(BadRequest, match=sentence):
        check_sampling(replace(SamplingParams(), **changes))
