"""A model's own Jinja chat template, rendered in a sandbox: it comes with a file from the network.

Contents go in as placeholders and are put back after rendering, so that a document which contains
"<|im_end|>" is read as text and never as the end of a message.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

import jinja2
from jinja2.sandbox import ImmutableSandboxedEnvironment

Role = Literal["system", "user", "assistant"]
# Private-use characters: no text of a template, and ours to strip from contents.
_OPEN, _CLOSE = "\ue0f0", "\ue0f1"
_PLACEHOLDER = re.compile(f"{_OPEN}(\\d+){_CLOSE}")


@dataclass(frozen=True, slots=True)
class Message:
    """One turn for the template; `parts` are tokenised one by one, so that a passage's tokens depend on it alone."""

    role: Role
    parts: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class PromptPart:
    """A stretch of the prompt; only in `is_markup` may the text of a control token mean the token."""

    text: str
    is_markup: bool


class TemplateBroken(Exception):
    """The template cannot render these messages; the plain prompt is used instead."""


class ChatTemplate:
    """A compiled template."""

    def __init__(self, source: str, bos_text: str, eos_text: str) -> None:
        """Compiles `source`.

        Raises:
            TemplateBroken: It is not valid Jinja.
        """
        environment = ImmutableSandboxedEnvironment(
            trim_blocks=True, lstrip_blocks=True, extensions=["jinja2.ext.loopcontrols"]
        )
        environment.filters["tojson"] = _to_json
        environment.globals["raise_exception"] = _raise
        environment.globals["strftime_now"] = lambda form: datetime.now().astimezone().strftime(form)
        self._specials = {"bos_token": bos_text, "eos_token": eos_text}
        try:
            self._template = environment.from_string(source)
        except jinja2.TemplateError as error:
            raise TemplateBroken(str(error)) from error

    def render(self, messages: Sequence[Message]) -> tuple[PromptPart, ...]:
        """The prompt up to where the assistant begins to write.

        Raises:
            TemplateBroken: The template refuses the messages, also with the system text moved into the first
                user message (some models know no system role), or it loses one of them.
        """
        try:
            return self._render(messages)
        except TemplateBroken:
            if not messages or messages[0].role != "system":
                raise
            return self._render(_without_system(messages))

    def _render(self, messages: Sequence[Message]) -> tuple[PromptPart, ...]:
        placed = [
            {"role": message.role, "content": f"{_OPEN}{number}{_CLOSE}"} for number, message in enumerate(messages)
        ]
        try:
            text = self._template.render(messages=placed, add_generation_prompt=True, **self._specials)
        except (jinja2.TemplateError, TypeError, ValueError, KeyError, AttributeError) as error:
            raise TemplateBroken(str(error)) from error
        return _fill(text, messages)


def plain_prompt(messages: Sequence[Message]) -> tuple[PromptPart, ...]:
    """For a model without a template: the texts one after the other, each answer after "Answer:"."""
    parts: list[PromptPart] = []
    for message in messages:
        if message.role == "assistant":
            parts.append(PromptPart("Answer: ", is_markup=False))
        parts += [PromptPart(text, is_markup=False) for text in message.parts]
        parts.append(PromptPart("\n\n", is_markup=False))
    return (*parts, PromptPart("Answer:", is_markup=False))


def _fill(text: str, messages: Sequence[Message]) -> tuple[PromptPart, ...]:
    """Puts the contents back between the stretches of markup."""
    parts: list[PromptPart] = []
    filled = set()
    at = 0
    for match in _PLACEHOLDER.finditer(text):
        parts.append(PromptPart(text[at : match.start()], is_markup=True))
        parts += [PromptPart(_clean(part), is_markup=False) for part in messages[int(match[1])].parts]
        filled.add(int(match[1]))
        at = match.end()
    parts.append(PromptPart(text[at:], is_markup=True))
    if filled != set(range(len(messages))):
        raise TemplateBroken("the template leaves out a message")
    return tuple(part for part in parts if part.text)


def _without_system(messages: Sequence[Message]) -> list[Message]:
    system, *others = messages
    if not others:
        return [Message("user", system.parts)]
    first = Message(others[0].role, (*system.parts, "\n\n", *others[0].parts))
    return [first, *others[1:]]


def _clean(text: str) -> str:
    return text.replace(_OPEN, "").replace(_CLOSE, "")


def _to_json(value: Any, indent: int | None = None) -> str:
    return json.dumps(value, ensure_ascii=False, indent=indent)


def _raise(message: str) -> None:
    raise jinja2.TemplateError(message)
