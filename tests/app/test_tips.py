"""Tests for app.tips."""

from __future__ import annotations

import pytest
from PySide6.QtGui import Qt, QTextDocument

from app.tips import plain_tip


@pytest.mark.parametrize("text", ["A lease", "a < b & c", "vector<int>", "two\nlines"])
def test_plain_text_stays_as_it_is(text):
    assert plain_tip(text) == text


@pytest.mark.parametrize("text", ["<img src='file:///dev/zero'>", "what is <b>", "<h1>a\nb</h1> &amp;"])
def test_what_looks_like_html_is_shown_letter_by_letter(qapp, text):
    tip = plain_tip(text)
    assert Qt.mightBeRichText(tip)
    shown = QTextDocument()
    shown.setHtml(tip)
    assert shown.toPlainText() == text
