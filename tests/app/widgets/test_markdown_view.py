"""Tests for app.widgets.markdown_view."""

from __future__ import annotations

import pytest
from PySide6.QtCore import Qt, QUrl
from PySide6.QtGui import QDesktopServices, QTextDocument
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication, QScrollArea

from app import theme
from app.widgets.code_block import CodeBlock
from app.widgets.markdown_view import MarkdownView
from app.widgets.prose import Prose


@pytest.fixture
def view(qtbot):
    # In a scroll area, as in the conversation: a window would grow with its content.
    host, made = QScrollArea(), MarkdownView()
    host.setWidgetResizable(True)
    host.setWidget(made)
    host.resize(640, 400)
    qtbot.addWidget(host)
    host.show()
    qtbot.waitExposed(host)
    made.host = host
    return made


def test_streaming_renders_only_the_tail(view):
    view.show_text("A paragraph.\n\n" * 100 + "The tail")
    first_views, before = view.block_views()[:100], view.num_renders
    for word in ("grows", "word", "by", "word"):
        view.append(f" {word}")
        view.finish()
    assert view.num_renders - before == 4
    assert view.block_views()[:100] == first_views


def test_tokens_are_gathered_before_they_are_shown(view, qtbot):
    for _ in range(200):
        view.append("word ")
    assert view.num_renders == 0
    assert view.text == "word " * 200
    qtbot.waitUntil(lambda: view.num_renders == 1)
    assert "word word" in view.block_views()[0].toPlainText()


def test_the_numbers_of_another_text_are_its_own(view):
    view.set_num_passages(3)
    view.show_text("First [3].\n\nThen")
    assert "cite:3" in view.block_views()[0].toHtml()
    view.set_num_passages(1)
    view.show_text("First [3].\n\nThen more")
    assert "cite:3" not in view.block_views()[0].toHtml()


def test_a_paragraph_that_becomes_a_table_becomes_another_look(view):
    view.append("| a | b |\n")
    view.finish()
    view.append("|---|---|\n| 1 | 2 |\n")
    view.finish()
    assert "<table" in view.block_views()[0].toHtml()


def test_an_unclosed_fence_is_shown_as_code_and_stays_when_closed(view):
    view.append("Look:\n\n```python\nx = 1")
    view.finish()
    block = view.block_views()[1]
    assert isinstance(block, CodeBlock)
    assert block.code == "x = 1"
    view.append("\n```\n\nDone.")
    view.finish()
    assert view.block_views()[1] is block
    assert isinstance(view.block_views()[2], Prose)


def test_a_click_on_a_citation_says_its_number(view, qtbot):
    view.show_text("三十天书面通知 [1] and then [2].")
    QApplication.processEvents()
    prose = view.block_views()[0]
    chips = list(prose.citation_rects())
    assert len(chips) == 2
    with qtbot.waitSignal(view.citation_clicked) as clicked:
        QTest.mouseClick(prose.viewport(), Qt.MouseButton.LeftButton, pos=chips[1].center().toPoint())
    assert clicked.args == [2]


@pytest.mark.parametrize("path", ["abc", "", "-1", "1.5", "²", "9" * 5000])
def test_a_link_that_only_looks_like_a_citation_does_nothing(view, qtbot, path):
    view.show_text("Some text.")
    prose = view.block_views()[0]
    with qtbot.assert_not_emitted(view.citation_clicked):
        prose._on_anchor_clicked(QUrl(f"cite:{path}"))
    prose._on_link_hovered(QUrl(f"cite:{path}"))


def test_citations_inside_tables_have_their_place(view):
    view.show_text("| a | b |\n|---|---|\n| x [1] | y [2] |\n")
    QApplication.processEvents()
    first, second = view.block_views()[0].citation_rects()
    assert second.left() > first.right()
    assert first.top() > 20


def test_nothing_is_ever_loaded(view):
    view.show_text("text")
    prose = view.block_views()[0]
    for kind in (QTextDocument.ResourceType.ImageResource, QTextDocument.ResourceType.HtmlResource):
        assert prose.loadResource(kind.value, QUrl("file:///etc/hostname")) is None


@pytest.mark.parametrize(
    ("target", "opens"), [("https://example.org/a", True), ("mailto:a@example.org", True), ("ftp://example.org", False)]
)
def test_only_web_and_mail_links_open_outside(view, monkeypatch, target, opens):
    opened = []
    monkeypatch.setattr(QDesktopServices, "openUrl", opened.append)
    view.show_text(f"[link]({target})")
    view.block_views()[0].anchorClicked.emit(QUrl(target))
    assert opened == ([QUrl(target)] if opens else [])


def test_a_block_is_as_high_as_its_text_at_any_width(view):
    view.show_text("word " * 300)
    QApplication.processEvents()
    prose = view.block_views()[0]
    wide = prose.height()
    assert wide > 100
    view.host.resize(320, 400)
    QApplication.processEvents()
    assert prose.height() > 1.5 * wide
    assert prose.verticalScrollBar().maximum() == 0


def test_another_theme_renders_the_blocks_in_its_colours(view):
    look = theme.appearance()
    try:
        look.choose("light")
        view.show_text("see [1]\n\n```python\nreturn 1\n```")
        light = view.block_views()[0].toHtml()
        look.choose("dark")
        QApplication.processEvents()
        assert view.block_views()[0].toHtml() != light
        assert theme.DARK.accent in view.block_views()[0].toHtml()
    finally:
        look.choose("light")
