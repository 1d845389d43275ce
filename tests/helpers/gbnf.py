"""Whether a text fits a grammar, read with Python's own backtracking: an oracle that shares nothing with llama.cpp."""

from __future__ import annotations

from engine.generation.gbnf import Grammar, Terminal, parse


def fits(text_of_grammar: str, text: str) -> bool:
    """True when the whole of `text` is one of the grammar's."""
    grammar = parse(text_of_grammar)
    return len(text) in _ends(grammar, grammar.root, text, 0, {})


def _ends(grammar: Grammar, rule: int, text: str, start: int, known: dict[tuple[int, int], set[int]]) -> set[int]:
    """Where a text of `rule` that begins at `start` may end."""
    if (rule, start) not in known:
        known[rule, start] = {
            end for alternative in grammar.rules[rule] for end in _ends_of(grammar, alternative, text, start, known)
        }
    return known[rule, start]


def _ends_of(grammar, alternative, text, start, known) -> set[int]:
    ends = {start}
    for symbol in alternative:
        if isinstance(symbol, Terminal):
            ends = {end + 1 for end in ends if end < len(text) and symbol.accepts(ord(text[end]))}
        else:
            ends = set().union(*(_ends(grammar, symbol, text, end, known) for end in ends))
    return ends
