"""Adds spaces before words: models with SentencePiece know most words together with the space before them.

Tokenised as a whole, a prompt gets a space before its first word and after each control token, and a space at the end
of a template's markup belongs to the word after it. Parts of prompts are tokenised one by one, without spaces that are
not in the text (`Model.tokenize`), so spaces are added where they would be. Parts that have to be found again in other
prompts, such as passages and answers, stay as they are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import zip_longest

from engine.generation.chat_template import PromptPart

_SPACE = " "


def spaced(
    parts: Sequence[PromptPart], tokens: Callable[[PromptPart], Sequence[int]], is_control: Callable[[int], bool]
) -> Iterator[PromptPart]:
    """Yields the parts of a whole prompt with their spaces; `tokens` returns a part's tokens without added spaces."""
    is_behind_mark, moved = True, ""
    for part, following in zip_longest(parts, parts[1:]):
        if _can_change(part) and (moved or (is_behind_mark and not _begins_with_mark(part, tokens, is_control))):
            part = replace(part, text=f"{_SPACE}{part.text}")
        moved = ""
        if part.is_markup and len(part.text) > 1 and part.text.endswith(_SPACE) and _is_words(following):
            part, moved = replace(part, text=part.text.removesuffix(_SPACE)), _SPACE
        yield part
        is_behind_mark = part.is_markup and any(map(is_control, tokens(part)[-1:]))


def _begins_with_mark(
    part: PromptPart, tokens: Callable[[PromptPart], Sequence[int]], is_control: Callable[[int], bool]
) -> bool:
    return part.is_markup and any(map(is_control, tokens(part)[:1]))


def _can_change(part: PromptPart) -> bool:
    return not (part.stands_alone or part.tokens)


def _is_words(part: PromptPart | None) -> bool:
    return part is not None and not part.is_markup and _can_change(part)
