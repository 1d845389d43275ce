"""Formulas of web pages and books (MathML) in one line: the TeX that they were made of, else their signs in order."""

from __future__ import annotations

import re

from lxml import html

# What to write between the parts of each element.
_BETWEEN = {"mfrac": "/", "msup": "^", "msub": "_", "mtr": " ", "mtable": "; "}
_UNSEEN = {"annotation", "annotation-xml"}
_DISPLAY = re.compile(r"\{\\displaystyle (.*)\}", re.S)


def shown(formula: html.HtmlElement) -> str:
    annotations = (text for text in formula.iter("annotation") if "tex" in (text.get("encoding") or "").lower())
    source = formula.get("alttext") or next((str(text.text_content()) for text in annotations), "") or _signs(formula)
    said = " ".join(source.split())
    display = _DISPLAY.fullmatch(said)
    return display.group(1) if display else said


def _signs(element: html.HtmlElement) -> str:
    parts = [_signs(part) for part in element if isinstance(part.tag, str) and part.tag not in _UNSEEN]
    between = _BETWEEN.get(str(element.tag), "")
    if between.strip():
        # "(a+b)/2", but "n/2".
        parts = [part if len(part) < 2 or part.isalnum() else f"({part})" for part in parts]
    own = (element.text or "").strip() if element.tag != "mtext" else element.text or ""
    return own + between.join(filter(None, parts))
