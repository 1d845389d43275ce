"""The form that an answer must have: a grammar or a JSON schema, checked, and llama.cpp's filter of tokens for it."""

from __future__ import annotations

import ctypes
from collections.abc import Iterable
from dataclasses import replace
from functools import lru_cache
from typing import Any

import llama_cpp.llama_cpp as llama

from engine.core import SamplingParams
from engine.errors import BadRequest
from engine.generation import ambiguity, gbnf
from engine.generation.json_schema import gbnf_of_schema
from engine.generation.model import Model

_CLOSING = {"{": "}", "[": "]", '"': '"'}


def grammar_of(params: SamplingParams) -> str:
    """Returns the GBNF that constrains the answer, "" for none.

    Raises:
        BadRequest: The grammar or the schema cannot be used, or both are given.
    """
    if params.grammar and params.json_schema:
        raise BadRequest("An answer follows a grammar or a JSON schema, not both.", "Leave one of them out.")
    text = gbnf_of_schema(params.json_schema) if params.json_schema else params.grammar
    if text:
        check(text)
    return text


@lru_cache(maxsize=32)
def check(text: str) -> None:
    """Raises BadRequest if llama.cpp could not follow the grammar."""
    ambiguity.check(gbnf.parse(text))


def gives_data(params: SamplingParams) -> bool:
    """Returns whether the answer is data, whose lists are no citation markers: JSON, or the form of a grammar.

    Raises:
        BadRequest: The grammar cannot be used.
    """
    return bool(params.json_schema or (params.grammar and _is_data(params.grammar)))


@lru_cache(maxsize=32)
def _is_data(text: str) -> bool:
    """Returns whether a text that fits begins with an object, or is a JSON list or string; if unclear, it is prose."""
    grammar = _without_space(gbnf.parse(text))
    opening = _beginnings(grammar, grammar.rules[grammar.root])
    if not opening or not opening.keys() <= _CLOSING.keys():
        return False
    if "[" in opening and not _beginnings(grammar, opening["["]).keys() & _CLOSING.keys():
        # It may be no more than a citation marker.
        return False
    mirrored = replace(grammar, rules=tuple(tuple(form[::-1] for form in rule) for rule in grammar.rules))
    closing = _beginnings(mirrored, mirrored.rules[mirrored.root]).keys()
    return opening.keys() == {"{"} or closing == {_CLOSING[character] for character in opening}


def _without_space(grammar: gbnf.Grammar) -> gbnf.Grammar:
    def without(form: gbnf.Alternative) -> gbnf.Alternative:
        return tuple(one for one in form if isinstance(one, int) or not _characters(one) <= set(" \t\r\n"))

    return replace(grammar, rules=tuple(tuple(map(without, rule)) for rule in grammar.rules))


def _beginnings(grammar: gbnf.Grammar, forms: Iterable[gbnf.Alternative]) -> dict[str, list[gbnf.Alternative]]:
    """Returns the characters that texts of these forms can begin with, and what follows each within its form."""
    may_be_empty = ambiguity.empty_rules(grammar)
    found: dict[str, list[gbnf.Alternative]] = {}
    seen, waiting = set[int](), list(forms)
    while waiting:
        form = waiting.pop()
        for place, symbol in enumerate(gbnf.leading(form, may_be_empty), start=1):
            if isinstance(symbol, gbnf.Terminal):
                for character in _characters(symbol):
                    found.setdefault(character, []).append(form[place:])
            elif symbol not in seen:
                seen.add(symbol)
                waiting += grammar.rules[symbol]
    return found


def _characters(terminal: gbnf.Terminal) -> set[str]:
    """Returns the characters that a terminal names; an empty text stands for any other."""
    if terminal.is_negated or not terminal.ranges:
        return {""}
    return {chr(low) if low == high else "" for low, high in terminal.ranges}


class NativeGrammar:
    """llama.cpp's grammar; check a token before it is accepted, because one that does not fit ends the process."""

    def __init__(self, model: Model, text: str) -> None:
        """Compiles a grammar that passed `check`.

        Raises:
            BadRequest: llama.cpp still refuses it (it names a token that the model lacks).
        """
        self._model, self._text = model, text
        self._accepted: list[int] = []
        self._handle: Any = llama.llama_sampler_init_grammar(model.vocab, text.encode(), b"root")
        if not self._handle:
            raise BadRequest("This model cannot follow the grammar.", "Name no tokens in it that the model lacks.")

    def allows(self, token: int) -> bool:
        """Returns whether `token` may come next."""
        data = llama.llama_token_data(token, 0.0, 0.0)
        self.apply(llama.llama_token_data_array(ctypes.pointer(data), 1, -1, False))
        return bool(data.logit == 0.0)

    def apply(self, candidates: llama.llama_token_data_array) -> None:
        """Sets the logit of each token that may not come next to −inf."""
        llama.llama_sampler_apply(self._handle, ctypes.byref(candidates))

    def accept(self, token: int) -> None:
        """Advances by a token that is allowed."""
        self._accepted.append(token)
        llama.llama_sampler_accept(self._handle, token)

    def renew(self) -> None:
        """Rebuilds its state over the reloaded model's vocabulary, because the previous one is freed."""
        fresh = NativeGrammar(self._model, self._text)
        for token in self._accepted:
            fresh.accept(token)
        self._handle, fresh._handle = fresh._handle, self._handle
        fresh.close()

    def close(self) -> None:
        if self._handle:
            llama.llama_sampler_free(self._handle)
            self._handle = None
