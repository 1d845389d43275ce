"""The form that an answer must have: a grammar or a JSON schema, checked, and llama.cpp's filter of tokens for it."""

from __future__ import annotations

import ctypes
from functools import lru_cache
from typing import Any

import llama_cpp.llama_cpp as llama

from engine.core import SamplingParams
from engine.errors import BadRequest
from engine.generation import ambiguity, gbnf
from engine.generation.json_schema import gbnf_of_schema
from engine.generation.model import Model


def grammar_of(params: SamplingParams) -> str:
    """The GBNF that shapes the answer, "" for none.

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
    """Raises BadRequest where llama.cpp could not follow the grammar."""
    ambiguity.check(gbnf.parse(text))


def gives_data(params: SamplingParams) -> bool:
    """Whether the answer is data, whose lists are none of our markers: JSON, or what a grammar has begin like it.

    Raises:
        BadRequest: The grammar cannot be used.
    """
    return bool(params.json_schema or (params.grammar and _begins_as_data(params.grammar)))


@lru_cache(maxsize=32)
def _begins_as_data(text: str) -> bool:
    """Whether all that fits a grammar begins with an object, a list or a text of JSON; prose may cite."""
    grammar = gbnf.parse(text)
    may_be_empty = ambiguity.empty_rules(grammar)
    terminals, seen, waiting = set[gbnf.Terminal](), {grammar.root}, [grammar.root]
    while waiting:
        found = {symbol for form in grammar.rules[waiting.pop()] for symbol in gbnf.leading(form, may_be_empty)}
        terminals |= {symbol for symbol in found if isinstance(symbol, gbnf.Terminal)}
        inner = {symbol for symbol in found if isinstance(symbol, int)} - seen
        seen |= inner
        waiting += inner
    opening = {terminal for terminal in terminals if not _is_one_of(terminal, " \t\r\n")}
    return bool(opening) and all(_is_one_of(terminal, '{["') for terminal in opening)


def _is_one_of(terminal: gbnf.Terminal, characters: str) -> bool:
    ranges = () if terminal.is_negated else terminal.ranges
    return bool(ranges) and all(low == high and chr(low) in characters for low, high in ranges)


class NativeGrammar:
    """llama.cpp's grammar; always asked before it is told: accepting a token that does not fit ends the process."""

    def __init__(self, model: Model, text: str) -> None:
        """Compiles a grammar that `check` let pass.

        Raises:
            BadRequest: llama.cpp does not take it all the same (it names a token that the model lacks).
        """
        self._model, self._text = model, text
        self._accepted: list[int] = []
        self._handle: Any = llama.llama_sampler_init_grammar(model.vocab, text.encode(), b"root")
        if not self._handle:
            raise BadRequest("This model cannot follow the grammar.", "Name no tokens in it that the model lacks.")

    def allows(self, token: int) -> bool:
        """Whether `token` may come next."""
        data = llama.llama_token_data(token, 0.0, 0.0)
        self.apply(llama.llama_token_data_array(ctypes.pointer(data), 1, -1, False))
        return bool(data.logit == 0.0)

    def apply(self, candidates: llama.llama_token_data_array) -> None:
        """Sets the logit of each token that may not come next to −inf."""
        llama.llama_sampler_apply(self._handle, ctypes.byref(candidates))

    def accept(self, token: int) -> None:
        """Goes on behind a token that is allowed."""
        self._accepted.append(token)
        llama.llama_sampler_accept(self._handle, token)

    def renew(self) -> None:
        """Stands where it stood, over the model's vocabulary as it was loaded anew: the one before has gone."""
        fresh = NativeGrammar(self._model, self._text)
        for token in self._accepted:
            fresh.accept(token)
        self._handle, fresh._handle = fresh._handle, self._handle
        fresh.close()

    def close(self) -> None:
        if self._handle:
            llama.llama_sampler_free(self._handle)
            self._handle = None
