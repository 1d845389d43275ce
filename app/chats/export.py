"""A conversation as a Markdown text that reads well anywhere: questions as headings, sources as a numbered list.

Questions are plain text, so their Markdown signs are escaped; an answer is Markdown without HTML, as in the window.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from PySide6.QtCore import QT_TRANSLATE_NOOP, QCoreApplication

from app.chats.records import Json, Turn
from app.sentences import listed

if TYPE_CHECKING:
    from markdown_it.token import Token

_ENDS = {
    "asked": str(QT_TRANSLATE_NOOP("export", "This answer was still to be written.")),
    "writing": str(QT_TRANSLATE_NOOP("export", "This answer was still being written.")),
    "cancelled": str(QT_TRANSLATE_NOOP("export", "Stopped before the answer was complete.")),
    "failed": str(QT_TRANSLATE_NOOP("export", "This answer failed.")),
}
_CUT_OFF = str(QT_TRANSLATE_NOOP("export", "The answer was cut off: there was no room for more of it."))
# The numeric settings that a chat may have of its own.
_FIGURES = {
    "max_tokens": str(QT_TRANSLATE_NOOP("export", "at most %1 tokens an answer")),
    "temperature": str(QT_TRANSLATE_NOOP("export", "temperature %1")),
    "top_p": str(QT_TRANSLATE_NOOP("export", "top P %1")),
    "min_p": str(QT_TRANSLATE_NOOP("export", "min P %1")),
    "beam_width": str(QT_TRANSLATE_NOOP("export", "beams %1")),
}
# What Markdown would interpret anywhere in a line.
_SIGN = re.compile(
    r"[\\`*\[~]|<(?=[A-Za-z/!?])|&(?=#?\w+;)"
    # Underscores except in the middle of a word; # after the last word of a heading.
    r"|(?<![^\W_])_|_(?![^\W_])|(?<!\S)#(?=#*$)"
)
# What precedes a sign that counts only at the beginning of a line; and an indent, which would make code of a line.
_BEFORE_SIGN = re.compile(r"^(\s*(?:(?=[#>+=-])|\d+(?=[.)])))")
_INDENT = re.compile(r"(\n[ \t]*\n)[ \t]+")
_LINE_END = re.compile(r"\r\n?|\n")
# The parts of a paragraph that stay as they are, and the sign that begins HTML.
_HTML = re.compile(
    r"\\.|(?P<ticks>`+)(?!`).*?(?<!`)(?P=ticks)(?!`)|`+"
    # Addresses, by themselves and of links.
    r"|<[A-Za-z][\w+.-]+:[^<>\s]*>|<[^<>\s@]+@[^<>\s@]+>|\]\(<[^<>\n]*>"
    r"|(?P<html><)(?=[A-Za-z/!?])",
    re.DOTALL,
)


def markdown_of(title: str, turns: Sequence[Turn], manner: Json | None = None) -> str:
    """Returns one branch as Markdown; `manner` is what its chat has of its own instead of the settings."""
    parts = [f"# {_line(title)}", *_manner(manner or {})]
    for turn in turns:
        parts.append(f"## {_line(turn.question)}")
        if "\n" in turn.question.strip():
            parts.append(_quoted(turn.question))
        parts += _answer(turn)
    return "\n\n".join(parts) + "\n"


def _manner(manner: Json) -> list[str]:
    instructions = str(manner.get("instructions") or "").strip()
    figures = [_tr(words).replace("%1", str(manner[name])) for name, words in _FIGURES.items() if name in manner]
    parts = [f"*{_tr('Instructions of this chat:')}*\n\n{_quoted(instructions)}"] if instructions else []
    told = _tr("Settings of this chat: %1.").replace("%1", listed(figures))
    return [*parts, f"*{told}*"] if figures else parts


def _answer(turn: Turn) -> list[str]:
    outcome = turn.outcome
    text = outcome.text.strip()
    parts = [_without_html(text) + _left_open(text)] if text else []
    if outcome.state == "finished" and not parts:
        parts.append(f"*{_nothing(turn)}*")
    if outcome.state in _ENDS:
        parts.append(f"*{_literal(outcome.error_sentence) or _tr(_ENDS[outcome.state])}*")
    elif outcome.model and outcome.finish_reason == "length":
        parts.append(f"*{_tr(_CUT_OFF)}*")
    if outcome.passages:
        sources = "\n".join(_source(n, p) for n, p in enumerate(outcome.passages, start=1))
        parts.append(f"**{_tr('Sources')}**\n\n{sources}")
    if outcome.model:
        parts.append(f"*{_tr('Answered by %1.').replace('%1', _literal(outcome.model))}*")
    return parts


def _left_open(text: str) -> str:
    """Returns the fence that closes a code block in which an answer breaks off; "" if it ends outside of code."""
    # Code inside a list or a quotation ends with that.
    last = _parsed(f"{text}\n\nend")[-1]
    return f"\n{last.markup}" if last.type == "fence" else ""


def _without_html(text: str) -> str:
    """Returns an answer with everything escaped that looks like HTML, except in code."""
    lines = _LINE_END.split(text)
    for token in _parsed(text):
        if token.type == "inline" and token.map is not None:
            first, end = token.map
            shown = _HTML.sub(lambda found: ("\\" if found["html"] else "") + found[0], "\n".join(lines[first:end]))
            lines[first:end] = shown.split("\n")
    return "\n".join(lines)


def _parsed(text: str) -> list[Token]:
    """Parses a text as the window does."""
    # Imported here, so that the first paint does not wait for it.
    from markdown_it import MarkdownIt

    return MarkdownIt("commonmark", {"html": False}).parse(text)


def _nothing(turn: Turn) -> str:
    """Returns why there is no answer, in the window's words."""
    outcome = turn.outcome
    if outcome.thoughts:
        return _tr("The model ended without an answer.")
    if outcome.model or not turn.searches:
        return _tr("The model wrote nothing.")
    return _tr("Not found in the files.")


def _source(number: int, passage: Json) -> str:
    path = os.fsencode(str(passage.get("document", ""))).decode("utf-8", "replace")
    page = passage.get("page")
    spot = str(passage.get("place") or "") or (_tr("page %1").replace("%1", str(page)) if page else "")
    return f"{number}. {_line(listed((path, spot)))}"


def _line(text: str) -> str:
    return _literal(" ".join(text.split()))


def _quoted(text: str) -> str:
    lines = _INDENT.sub(r"\1   ", text.strip()).splitlines()
    return "\n".join("> " + _BEFORE_SIGN.sub(r"\1\\", _literal(line)) for line in lines)


def _literal(text: str) -> str:
    """Returns a text with all signs of Markdown and HTML escaped."""
    return _SIGN.sub(r"\\\g<0>", text)


def _tr(text: str) -> str:
    return QCoreApplication.translate("export", text)
