"""Tests for engine.generation.grammar."""

from __future__ import annotations

import pytest
from llama_cpp import llama_grammar as shipped

from engine.core import SamplingParams
from engine.generation.grammar import gives_data


@pytest.mark.parametrize(
    "grammar",
    [
        shipped.JSON_GBNF,
        shipped.JSON_ARR_GBNF,
        'root ::= ws object\nws ::= [ \\t\\n]*\nobject ::= "{" "}" "\\n"',
        'root ::= " " object\nobject ::= "{" [^}]* "}" .*',
        'root ::= "[" text ("," text)* "]" "\\n"?\ntext ::= "\\"" [^"]* "\\""',
        'root ::= "[\\n" list? "]"\nlist ::= "{" [0-9]+ "}"',
        'root ::= "\\"" [a-z ]+ "\\""',
        'root ::= "[[" [0-9] "]]" | "\\"" [a-z]+ "\\""',
    ],
)
def test_what_has_the_form_of_json_is_data(grammar: str):
    assert gives_data(SamplingParams(grammar=grammar))


@pytest.mark.parametrize(
    "grammar",
    [
        'root ::= "[" title "]\\n" text\ntitle ::= [A-Z]+\ntext ::= [^\\n]+',
        'root ::= "\\"" [^"]* "\\"" " [" [0-9]+ "]"',
        'root ::= "[1]" | "[2]"',
        'root ::= marker (" " marker)*\nmarker ::= "[" [0-9]+ ("," [0-9]+)* "]"',
        'root ::= "[" [0-9]+ "]" " is right"',
        'root ::= "[1] says " [a-z]+ " as does [2]"',
        'root ::= " Yes" | "{" "}"',
        'root ::= space "Yes" | "{" "}"\nspace ::= " "',
        'root ::= [0-9]+ | "[" "]"',
        'root ::= ""',
    ],
)
def test_prose_may_begin_with_a_bracket_or_a_quotation_mark(grammar: str):
    assert not gives_data(SamplingParams(grammar=grammar))
