"""Tests for engine.generation.ambiguity."""

from __future__ import annotations

import json

import llama_cpp.llama_grammar as shipped
import pytest

from engine.errors import BadRequest
from engine.generation.ambiguity import check
from engine.generation.gbnf import parse
from engine.generation.json_schema import gbnf_of_schema

SHIPPED = {name: text for name, text in vars(shipped).items() if name.endswith("_GBNF")}


@pytest.mark.parametrize("name", SHIPPED)
def test_the_grammars_that_llama_cpp_ships_are_taken(name: str):
    check(parse(SHIPPED[name]))


def test_a_long_optional_part_is_taken():
    check(parse('root ::= "a"{0,2000} ("b" | "c")*'))


@pytest.mark.parametrize(
    "schema",
    [
        {"enum": [f"article-{number:04d}" for number in range(3000)]},
        {"properties": {f"key{number}": {"type": "integer"} for number in range(300)}},
        {
            "anyOf": [
                {"type": "null"},
                {
                    "type": "array",
                    "items": {
                        "anyOf": [
                            {"properties": {"id": {"type": "number"}, f"k{number}": {}}, "required": ["id"]}
                            for number in range(90)
                        ]
                    },
                },
            ]
        },
    ],
)
def test_many_values_or_keys_that_begin_alike_are_taken(schema: object):
    check(parse(gbnf_of_schema(json.dumps(schema))))


def test_a_rule_may_hold_itself_behind_something():
    check(parse('root ::= "(" root ")" | "a" root | "b"'))


@pytest.mark.parametrize(
    "text",
    [
        'root ::= root "a" | "b"',
        'root ::= one "x" | "y"\none ::= two\ntwo ::= root',
        # llama.cpp does not see that `gap` may be empty, and follows `root` without end.
        'root ::= gap root "x" | "y"\ngap ::= space space\nspace ::= "z" |',
        "root ::= root",
        'root ::= ("a"?)*',
        'root ::= ((("a")*)*)*',
    ],
)
def test_a_rule_that_begins_with_itself_is_refused(text: str):
    with pytest.raises(BadRequest, match="can begin with itself"):
        check(parse(text))


def test_ways_to_begin_that_double_with_each_rule_are_refused():
    rules = [f"r{index} ::= r{index + 1} | r{index + 1}" for index in range(40)]
    with pytest.raises(BadRequest, match="can begin in too many ways"):
        check(parse("\n".join([*rules, 'r40 ::= "z"', "root ::= r0"])))


def test_a_chain_of_rules_too_long_for_recursion_is_refused():
    rules = [f"r{index} ::= r{index + 1}" for index in range(5000)]
    with pytest.raises(BadRequest, match="can begin in too many ways"):
        check(parse("\n".join([*rules, 'r5000 ::= "z"', "root ::= r0"])))


@pytest.mark.parametrize(
    "text",
    [
        'root ::= " " root "b" | " " root "c" | "d"',
        'root ::= "{" value "}"\nvalue ::= one | two | "d"\none ::= [a-z] value "1"\ntwo ::= [m-z] value "2"',
        'root ::= "abcd" root "b" | "abcd" root "c" | "d"',
        'root ::= "x" root "b" | "x" root "c" | ' + " | ".join(f'"a{n}"' for n in range(300)),
        "\n".join(f'r{n} ::= "a" r{n + 1} "x" | "a" r{n + 1} "y"' for n in range(30)) + '\nr30 ::= "z"\nroot ::= r0',
    ],
)
def test_readings_that_double_with_each_character_are_refused(text: str):
    with pytest.raises(BadRequest, match="too many ways at once"):
        check(parse(text))


@pytest.mark.parametrize(
    "text",
    [
        "root ::= " + " | ".join(f'"a{number}"' for number in range(700)),
        gbnf_of_schema(json.dumps({"anyOf": [{"properties": {f"k{number}": {}}} for number in range(300)]})),
    ],
)
def test_alternatives_that_would_hold_up_every_answer_are_refused(text: str):
    with pytest.raises(BadRequest, match=r"too many ways at once\. Let fewer alternatives begin alike"):
        check(parse(text))
