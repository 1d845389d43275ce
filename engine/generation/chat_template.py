"""A model's own Jinja chat template, rendered in a sandbox, because it comes with a file from the network.

Contents are replaced by placeholders and put back after rendering, so that a document which contains
"<|im_end|>" is read as text and never as the end of a message. All prompts of a conversation begin alike, whatever the
day and however a template changes earlier answers: otherwise their KV could not be reused.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Literal

import jinja2
from jinja2.ext import Extension
from jinja2.nodes import Node
from jinja2.parser import Parser
from jinja2.sandbox import ImmutableSandboxedEnvironment

from engine.generation.segment import SegmentKind
from engine.generation.thinking import Manner, Marks, manner_of, marks_of

Role = Literal["system", "user", "assistant"]
# Private-use characters: not part of any template, and stripped from contents.
_OPEN, _CLOSE = "\ue0f0", "\ue0f1"
_PLACEHOLDER = re.compile(f"{_OPEN}(\\d+){_CLOSE}")
# The date that templates get. It stands before everything else, so with a real one no kept KV could be used from
# midnight on. Llama's fall back on this day; the question itself says which day it is (conversation.py).
_SOME_DAY = datetime(2024, 7, 26)
# Some models have a switch for thinking first, such as Qwen3 (`enable_thinking`), Granite (`thinking`) and Command A
# (`reasoning`): on an ordinary machine, thoughts take longer than the answer.
_AT_ONCE = {"enable_thinking": False, "thinking": False}
# Among those whose markers we know, gpt-oss and Seed have a switch for how much.
_AT_ONCE_IF_MARKED = {**_AT_ONCE, "reasoning": False, "reasoning_effort": "low", "thinking_budget": 0}
_THINKING_FIRST = {"enable_thinking": True, "thinking": True, "reasoning": True, "reasoning_effort": "medium"}
_Told = Mapping[str, Any]
# A template gets the first of these with which it renders: Mistral's refuses all efforts but none and a high one.
_OFFERS: Mapping[bool, Sequence[_Told]] = {
    False: (_AT_ONCE_IF_MARKED, {**_AT_ONCE_IF_MARKED, "reasoning_effort": "none"}, _AT_ONCE, {}),
    True: (_THINKING_FIRST, {**_THINKING_FIRST, "reasoning_effort": "high"}, {}),
}
_OFFERS_IF_UNMARKED: Sequence[_Told] = (_AT_ONCE, {})
_PROBE = "."
# What precedes the assistant's text, for a model without a template.
_ANSWER = "Answer:"
# Such a model may never have learnt where its answer ends, and go on with a question of its own, written like ours.
PLAIN_ENDS = ("\n\nQuestion:", f"\n\n{_ANSWER}")
# How a compiled template may fail.
_FAILURES = (
    *(jinja2.TemplateError, ArithmeticError, AttributeError, LookupError),
    *(RecursionError, TypeError, ValueError),
)
# Differs from `_SOME_DAY` in every part of a date.
_OTHER_DAY = datetime(1997, 3, 8)


@dataclass(frozen=True, slots=True)
class PromptPart:
    """A part of the prompt that is tokenised by itself, so that its tokens depend on nothing before it.

    Only if `is_markup` can the text of a control token mean the token. `documents` are those whose text it holds.
    `stands_alone`: its KV is found again without what follows (passages and answers). `tokens` are those of an answer
    as the model wrote it, which tokenising its text may not reproduce; () if only the text is known.
    """

    text: str
    is_markup: bool = False
    kind: SegmentKind = "turn"
    documents: frozenset[int] = frozenset()
    stands_alone: bool = False
    tokens: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Message:
    """One turn for the template."""

    role: Role
    parts: tuple[PromptPart, ...]


class TemplateBroken(Exception):
    """The template cannot render these messages; the plain prompt is used instead."""


class _Generation(Extension):
    """`{% generation %}` around what the assistant says, which transformers uses for training; ignored here."""

    tags = {"generation"}  # noqa: RUF012 - as Jinja has it

    def parse(self, parser: Parser) -> list[Node]:
        """Returns the nodes of the block, as if its tags were not there."""
        next(parser.stream)
        return parser.parse_statements(("name:endgeneration",), drop_needle=True)


class ChatTemplate:
    """A compiled template; `tells_day`: prompts made with it name a day, which is never the real one.

    `ends_by_thinking`: how its prompts end, where the assistant begins to write, depends on whether it should think.
    """

    def __init__(self, source: str, bos_text: str, eos_text: str) -> None:
        """Compiles `source`.

        Raises:
            TemplateBroken: It is not valid Jinja.
        """
        environment = ImmutableSandboxedEnvironment(
            trim_blocks=True, lstrip_blocks=True, extensions=["jinja2.ext.loopcontrols", _Generation]
        )
        environment.filters["tojson"] = _to_json
        environment.globals["raise_exception"] = _raise
        self._specials = {"bos_token": bos_text, "eos_token": eos_text}
        try:
            self._template = environment.from_string(source)
        except jinja2.TemplateError as error:
            raise TemplateBroken(str(error)) from error
        marks = marks_of(source)
        self._told: Mapping[bool, _Told] = {
            thinks: self._accepted(offers if marks is not None else _OFFERS_IF_UNMARKED)
            for thinks, offers in _OFFERS.items()
        }
        self._manners: Mapping[bool, Manner | None] = {}
        self.ends_by_thinking = False
        if marks is not None:
            self._learn_how_to_think(marks)
        self.tells_day = self._renders_the_day()

    def manner(self, thinks: bool) -> Manner | None:
        """Returns how the model thinks before it answers, asked to or asked not to; None if it does not."""
        return self._manners.get(thinks)

    def render(self, messages: Sequence[Message], thinks: bool = False) -> tuple[PromptPart, ...]:
        """Returns the prompt up to where the assistant begins to write; with `thinks`, models that can think first do.

        Raises:
            TemplateBroken: The template refuses the messages, even with the system text moved into the first user
                message (some models know no system role), or it loses or moves one of them.
        """
        return self._render_on(_SOME_DAY, messages, self._told[thinks])

    def _accepted(self, offers: Sequence[_Told]) -> _Told:
        """Returns the first offer that the template does not refuse; one that refuses all fails when it is used."""
        for told in offers:
            with suppress(TemplateBroken):
                self._render_on(_SOME_DAY, _probe(), told)
                return told
        return offers[0]

    def _renders_the_day(self) -> bool:
        told = self._told[False]
        try:
            return self._render_on(_SOME_DAY, _probe(), told) != self._render_on(_OTHER_DAY, _probe(), told)
        except TemplateBroken:
            return False

    def _learn_how_to_think(self, marks: Marks) -> None:
        try:
            prompts = {thinks: self._render_on(_SOME_DAY, _probe(), told) for thinks, told in self._told.items()}
        except TemplateBroken:
            return
        can_be_told = prompts[False] != prompts[True]
        self._manners = {
            thinks: manner_of(marks, prompt[-1].text, thinks and can_be_told) for thinks, prompt in prompts.items()
        }
        self.ends_by_thinking = prompts[False][-1] != prompts[True][-1]

    def _render_on(self, day: datetime, messages: Sequence[Message], told: _Told) -> tuple[PromptPart, ...]:
        try:
            return self._render(day, messages, told)
        except TemplateBroken:
            if not messages or messages[0].role != "system":
                raise
            return self._render(day, _without_system(messages), told)

    def _render(self, day: datetime, messages: Sequence[Message], told: _Told) -> tuple[PromptPart, ...]:
        placed = [
            {"role": message.role, "content": f"{_OPEN}{number}{_CLOSE}"} for number, message in enumerate(messages)
        ]
        try:
            text = self._template.render(
                messages=placed,
                add_generation_prompt=True,
                strftime_now=day.strftime,
                # None as in transformers, so that a template that tests for None does not get an undefined value.
                tools=None,
                documents=None,
                **told,
                **self._specials,
            )
        except _FAILURES as error:
            raise TemplateBroken(str(error)) from error
        return _fill(text, messages)


def _probe() -> tuple[Message, ...]:
    return Message("system", (PromptPart(_PROBE),)), Message("user", (PromptPart(_PROBE),))


def plain_prompt(messages: Sequence[Message]) -> tuple[PromptPart, ...]:
    """Returns the prompt for a model without a template: the texts in order, each answer after "Answer:"."""
    return _with_kinds([*_plain(messages), PromptPart(_ANSWER, is_markup=True)])


def _plain(messages: Sequence[Message]) -> Iterator[PromptPart]:
    for message in messages:
        if message.role == "assistant":
            yield PromptPart(_ANSWER, is_markup=True)
        yield from message.parts
        yield PromptPart("\n\n", is_markup=True)


def _fill(text: str, messages: Sequence[Message]) -> tuple[PromptPart, ...]:
    """Puts the contents back between the parts of markup.

    An answer that the model wrote itself gets the markup that it was written after, which is the end of the prompt:
    some templates make the assistant begin with "<think>", and leave that out before earlier answers.
    """
    first, *others = _PLACEHOLDER.split(text)
    numbers, markup = [int(number) for number in others[::2]], others[1::2]
    if set(numbers) != set(range(len(messages))):
        raise TemplateBroken("the template leaves out a message")
    if messages and numbers[0] != 0:
        # Mistral Nemo's moves the instructions to the newest question.
        raise TemplateBroken("the template does not begin with the first message")
    parts = [PromptPart(first, is_markup=True)]
    for number, after, following in zip(numbers, markup, [*numbers[1:], None], strict=False):
        parts += [replace(part, text=_clean(part.text)) for part in messages[number].parts]
        comes_own = following == number + 1 and _is_own(messages[following])
        parts.append(PromptPart(markup[-1] if comes_own else after, is_markup=True))
    return _with_kinds(part for part in parts if part.text or part.tokens)


def _is_own(message: Message) -> bool:
    """Returns whether a message is an answer as the reading model wrote it."""
    return any(part.tokens for part in message.parts)


def _with_kinds(parts: Iterable[PromptPart]) -> tuple[PromptPart, ...]:
    """Marks the markup before and around the instructions as part of them, since all prompts begin with it."""
    marked: list[PromptPart] = []
    for part in parts:
        begins_all = not marked or marked[-1].kind == "instructions"
        marked.append(replace(part, kind="instructions") if part.is_markup and begins_all else part)
    return tuple(marked)


def _without_system(messages: Sequence[Message]) -> list[Message]:
    system, *others = messages
    if not others:
        return [Message("user", system.parts)]
    between = PromptPart("\n\n", is_markup=True, kind="instructions")
    first = Message(others[0].role, (*system.parts, between, *others[0].parts))
    return [first, *others[1:]]


def _clean(text: str) -> str:
    return text.replace(_OPEN, "").replace(_CLOSE, "")


def _to_json(value: Any, indent: int | None = None) -> str:
    return json.dumps(value, ensure_ascii=False, indent=indent)


def _raise(message: str) -> None:
    raise jinja2.TemplateError(message)
