"""Tests for engine.generation.gbnf."""

from __future__ import annotations

import pytest

from engine.errors import BadRequest
from engine.generation.gbnf import MAX_NESTING, Terminal, parse


def test_rules_are_flat_and_root_is_found():
    grammar = parse('a ::= "x" | [0-9a]\nroot ::= a a # twice')
    assert grammar.names == ("a", "root")
    assert grammar.rules[0] == ((Terminal(((120, 120),)),), (Terminal(((48, 57), (97, 97))),))
    assert (grammar.rules[grammar.root], grammar.root) == (((0, 0),), 1)


def test_a_repetition_is_written_out_as_llama_cpp_does():
    grammar = parse('root ::= "ab"{1,3}')
    once = (Terminal(((97, 97),)), Terminal(((98, 98),)))
    assert grammar.rules == (((*once, 2),), (once, ()), ((*once, 1), ()))


def test_an_endless_repetition_goes_on_with_itself():
    grammar = parse("root ::= [a]+")
    letter = Terminal(((97, 97),))
    assert grammar.rules == (((letter, 1),), ((letter, 1), ()))


def test_escapes_stand_for_their_characters():
    grammar = parse(r'root ::= "\n\"\\\x41\u00e9\U0001F408"')
    assert [symbol.ranges[0][0] for symbol in grammar.rules[0][0]] == [10, 34, 92, 65, 0xE9, 0x1F408]


def test_groups_may_span_lines_and_rules_may_not():
    parse('root ::= ("a" |\n  "b"\n)')
    with pytest.raises(BadRequest, match="line 2, column 3 wants the name of a rule"):
        parse('root ::= "a"\n  "b"')


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", "no rule named root"),
        ('start ::= "a"', "no rule named root"),
        ("root ::= other", "'other'"),
        ("root", "wants ::="),
        ('root ::= "a', 'wants the closing "'),
        ("root ::= [a", "wants the closing ]"),
        ("root ::= []", "wants a character"),
        ('root ::= ("a"', r"wants \)"),
        ('root ::= "a")', "wants the end of the line"),
        ("root ::= *", "wants something to repeat"),
        ('root ::= "" *', "wants something to repeat"),
        (r'root ::= "\q"', "wants a known escape"),
        (r'root ::= "\x4"', "wants a known escape"),
        ('root ::= "a"{,3}', "wants a repetition"),
        ('root ::= "a"{3', "wants a repetition"),
        ('root ::= "a"{3,2}', "at least 3 and at most 2"),
        ('root ::= "a"{2001}', "more than 2,000 times"),
        ('root ::= "a"{0000000009999}', "more than 2,000 times"),
        (f'root ::= "a"{{{"9" * 5000}}}', "more than 2,000 times"),
        ('root ::= "a"{1,99999999999999999999999999}', "more than 2,000 times"),
        ('root ::= "a"{2000}{2000}', "longer than 100,000 symbols"),
        ("root ::= <", "wants a token"),
        ('root ::= "a\0b"', "no text"),
        ('root ::= "\ud800"', "no text"),
        ("root ::= " + "(" * (MAX_NESTING + 2), "parentheses"),
        ("root ::= " + "(" * 100_000, "parentheses"),
        ('root ::= "' + "a" * 90_000 + '"{2000}', "longer than 100,000 symbols"),
        ("#" * 300_000, "longer than 200,000 characters"),
    ],
)
def test_what_is_wrong_is_told_in_a_sentence(text: str, sentence: str):
    with pytest.raises(BadRequest, match=sentence):
        parse(text)
