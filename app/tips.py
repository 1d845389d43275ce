"""Tooltips that show text as it is.

Qt treats what looks like HTML as HTML, even in a heading of a user's document: it would be shown wrongly, and the files
that it names would be read.
"""

from __future__ import annotations

import html

from PySide6.QtGui import Qt


def plain_tip(text: str) -> str:
    """Returns markup with which a tooltip shows `text` literally."""
    if not Qt.mightBeRichText(text):
        return text
    return f"<qt>{html.escape(text).replace(chr(10), '<br>')}</qt>"
