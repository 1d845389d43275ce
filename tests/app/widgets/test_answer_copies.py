"""Tests for app.widgets.answer_copies, app.widgets.markdown_plain and app.widgets.copy_menu."""

from __future__ import annotations

from dataclasses import replace

import pytest
from PySide6.QtGui import QGuiApplication

from app.widgets.answer_copies import plain_text, source_lines, with_sources
from app.widgets.markdown_plain import cited_numbers, plain_of
from app.widgets.turn_widget import TurnWidget
from tests.helpers.shown_values import passage, turn

PASSAGES = (passage(1), passage(2, page=None), replace(passage(3), place="slide 4"))


@pytest.mark.parametrize(
    ("markdown", "plain"),
    [
        ("# Title\n\nA **bold**, *slanted*, ~~gone~~ word, `code_x`.", "Title\n\nA bold, slanted, gone word, code_x."),
        ("- one\n- two\n  - deep\n  - er", "• one\n• two\n  • deep\n  • er"),
        ("3. three\n4. four\n\n   more of it", "3. three\n\n4. four\n\n   more of it"),
        ("> said\n> so", "said\nso"),
        ("```python\nx = [1]\n\ny = '**'\n```", "x = [1]\n\ny = '**'"),
        ("| a | b |\n|---|---|\n| **1** | 2 [1] |", "a\tb\n1\t2 [1]"),
        ("[here](https://example.org/a) and <https://example.org>", "here (https://example.org/a) and https://example.org"),
        ("![A cat](cat.png)", "A cat"),
        ("So [1, 3] and 【2】.", "So [1][3] and [2]."),
        ("By $E = m c^2$ and \\[a_1 * b_1\\]", "By $E = m c^2$ and \\[a_1 * b_1\\]"),
        ("a\n\n---\n\nb  \nc", "a\n\n———\n\nb\nc"),
        ("", ""),
    ],
)  # fmt: skip
def test_marks_of_markdown_are_gone_from_plain_text(markdown, plain):
    assert plain_of(markdown, 3) == plain


def test_only_what_is_cited_is_counted_and_code_cites_nothing():
    assert cited_numbers("Yes [3], [1] and [3]; not [9].\n\n```\nx[2]\n```\n\n`y[2]`", 3) == (1, 3)


def test_the_sources_have_the_numbers_that_stand_in_the_text():
    shown = turn(1, text="Yes [3], and [1].", passages=PASSAGES)
    assert source_lines(shown) == ["[1] file-1.pdf, p. 7", "[3] file-3.pdf, slide 4"]


def test_sources_of_one_name_are_told_apart_by_their_folders():
    passages = (replace(passage(1), document="/a/x.md", page=None), replace(passage(2), document="/b/x.md", page=None))
    assert source_lines(turn(1, text="[1] [2]", passages=passages)) == ["[1] a/x.md", "[2] b/x.md"]


def test_an_answer_is_copied_with_its_sources_as_text_and_as_html():
    text = "**Three** months [1].\n\n```\nif a < b\n```\n\n| a |\n|---|\n| 1 |"
    shown = turn(1, text=text, passages=(replace(passage(1), document="/docs/a&b.pdf"),), thoughts="A secret.")
    copied = with_sources(shown)
    assert copied.text() == f"{text}\n\nSources:\n[1] a&b.pdf, p. 7"
    html = copied.html()
    assert "<p><strong>Three</strong> months [1].</p>" in html
    assert "<pre><code>if a &lt; b</code></pre>" in html
    assert '<table border="1"' in html
    assert html.endswith("[1] a&amp;b.pdf, p. 7</p>")
    assert "cite:" not in html
    assert "secret" not in copied.text() + html + plain_text(shown)


def test_the_menu_beside_the_button_copies_in_other_ways(qtbot):
    widget = TurnWidget(turn(1, text="**Yes** [1].", passages=PASSAGES, thoughts="A secret."))
    qtbot.addWidget(widget)
    menu = widget.copy_ways.menu()
    menu.aboutToShow.emit()
    menu.plain.trigger()
    assert QGuiApplication.clipboard().text() == "Yes [1]."
    menu.with_sources.trigger()
    copied = QGuiApplication.clipboard().mimeData()
    assert copied.text() == "**Yes** [1].\n\nSources:\n[1] file-1.pdf, p. 7"
    assert "<strong>Yes</strong>" in copied.html()
    widget.copy.click()
    assert QGuiApplication.clipboard().text() == "**Yes** [1]."


def test_an_answer_that_cites_nothing_is_not_offered_with_sources(qtbot):
    widget = TurnWidget(turn(1, text="Yes.", passages=PASSAGES))
    qtbot.addWidget(widget)
    menu = widget.copy_ways.menu()
    menu.aboutToShow.emit()
    assert (menu.with_sources.isEnabled(), menu.plain.isEnabled()) == (False, True)
    widget.show_turn(turn(1, text="", passages=PASSAGES))
    assert not widget.copy_ways.isEnabled()
