"""Tooltips that show text as it is.

Qt takes what looks like HTML for HTML, also where it is a heading of somebody's document: it would be shown wrongly,
and the files that it names would be read.
"""

from __future__ import annotations

import html

from PySide6.QtGui import Qt


def plain_tip(text: str) -> str:
    """What shows `text` in a tooltip, letter by letter."""
    if not Qt.mightBeRichText(text):
        return text
    return f"<qt>{html.escape(text).replace(chr(10), '<br>')}</qt>"
