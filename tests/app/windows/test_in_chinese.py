"""Tests for the window in Simplified Chinese: what it says itself is Chinese in each of its places, and is not cut."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from PySide6.QtCore import QLocale
from PySide6.QtWidgets import QAbstractButton, QApplication, QComboBox, QLabel, QLineEdit, QPlainTextEdit, QWidget

from app import languages
from app.widgets.elided import ElidedLabel
from engine import protocol
from engine.protocol import Collection, Folder, Span, TierSnapshot
from tests.helpers.answers import finished, found, passage
from tests.helpers.shown_values import GIB, document, gpu_tier
from tests.helpers.told_library import tell_library

ENGLISH = re.compile(r"\b[A-Za-z]{2,} [a-z]{2,}")
QUOTED = re.compile("“[^”]*”")
PLACES = ("chats", "every-file", "library", "memory", "models", "settings")
COLLECTION = Collection("Documents", ("/docs",), {"indexed": 212, "failed": 1, "pending": 3}, 6)
TINY = protocol.ModelEntry(
    path="/m/tiny.gguf", name="Tiny", architecture="llama", file_bytes=2**20, num_layers=4, trained_context=512,
    planned_gpu_layers=2, has_gpu=True, tokens_per_s=4.2, ttft_s=3.0,
)  # fmt: skip


@pytest.fixture(autouse=True)
def in_chinese(qapp, monkeypatch) -> Iterator[None]:
    before = QLocale()
    monkeypatch.setattr(languages, "can_be_shown", lambda _: True)
    languages.speak("zh_CN")
    yield
    languages.speak("en")
    QLocale.setDefault(before)


@pytest.fixture
def told_window(window, client):
    """A window whose engine has told something for every place, none of it in words."""
    tell_library(client, COLLECTION, documents=(document(1), document(2, "failed", needs="ocr")))
    for request in list(client.open):
        if request.method is protocol.MODELS:
            client.answer(protocol.MODELS, protocol.ModelsReply(models=(TINY,), current=TINY.path))
    ram = TierSnapshot(
        tier="ram", name="Memory", capacity_bytes=16 * GIB, other_bytes=GIB, budget_bytes=8 * GIB,
        spans=(Span("kv", "cells", "ram", GIB), Span("index", "", "ram", GIB, "loading")),
    )  # fmt: skip
    counters = {
        "tokens_per_s": 4.0, "kv_cells_used": 100.0, "kv_cells_free": 9.0, "disk_read_bytes_per_s": 1e6,
        "answers_running": 1.0,
    }  # fmt: skip
    weights = gpu_tier(Span("model weights", "layers 0–27", "gpu", 4 * GIB))
    client.tell(protocol.MemorySnapshot(memory=protocol.MemoryReply(tiers=(weights, ram), counters=counters)))
    client.tell(protocol.IndexProgress(documents_done=3, documents_total=9, chunks_done=6, eta_seconds=95.0))
    return window


def texts_of(widget: QWidget) -> Iterator[str]:
    """What a widget shows, and what is said of it."""
    yield from (widget.toolTip(), widget.accessibleName(), widget.accessibleDescription())
    if isinstance(widget, QLabel | QAbstractButton):
        yield widget.text()
    if isinstance(widget, QLineEdit | QPlainTextEdit):
        yield widget.placeholderText()
    if isinstance(widget, QComboBox):
        yield from (widget.itemText(row) for row in range(widget.count()))


def english_in(page: QWidget) -> set[str]:
    shown = [page, *(widget for widget in page.findChildren(QWidget) if widget.isVisibleTo(page))]
    return {text for widget in shown for text in texts_of(widget) if ENGLISH.search(QUOTED.sub("", text))}


def test_the_rail_says_where_one_can_go(window):
    assert [button.accessibleName() for button in window.rail.buttons.values()] == [
        "对话", "逐文件提问", "资料库", "内存", "模型", "设置",
    ]  # fmt: skip
    assert window.rail.new_chat.toolTip() == "新建对话（Ctrl+N）"


@pytest.mark.parametrize("place", PLACES)
def test_nothing_that_the_window_says_is_english(told_window, place):
    page = told_window.go_to(place)
    QApplication.processEvents()
    assert english_in(page) == set()


def test_the_line_at_the_foot_says_what_goes_on(told_window):
    assert told_window.status_line.sentence == "正在索引，33%"


def test_the_first_run_is_chinese(window, client):
    tell_library(client)
    first_run = window.chat.first_run
    assert first_run.isVisible()
    assert "向自己的文件提问" in [label.text() for label in first_run.findChildren(QLabel)]
    assert english_in(first_run) == set()


def test_an_empty_library_says_what_to_do(window, client):
    tell_library(client)
    page = window.go_to("library")
    assert page.empty.sentence == "将文件夹或文件拖到此窗口的任意位置，然后就其中的内容提问。"
    assert page.empty.button.text().strip() == "选择文件夹…"


def test_what_is_said_around_an_answer_is_chinese(window, client, models):
    tell_library(client, COLLECTION)
    window.chat.prompt.set_text("How long is the notice?")
    window.chat.prompt.button.click()
    (ask,) = client.asked(protocol.ASK)
    turn = window.chat.conversation.widget_of(ask.question_id)
    client.tell(found(ask.question_id, passage(), passage(1)))
    client.tell(finished(ask.question_id))
    assert turn.scope.text() == "取自 3 个文件、212 个段落中的 1 个"
    assert "首个词元用时 300 毫秒" in turn.scope.toolTip()
    assert "由 tiny 撰写" in turn.scope.toolTip()
    assert turn.copy.toolTip() == "复制回答"


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("width", [1180, 820])
def test_no_words_are_cut(told_window, place, width):
    told_window.resize(width, 760)
    page = told_window.go_to(place)
    for _ in range(3):
        QApplication.processEvents()
    for widget in page.findChildren(QWidget):
        if widget.isVisibleTo(page) and isinstance(widget, QLabel | QAbstractButton) and widget.text():
            is_wrapped = isinstance(widget, QLabel) and widget.wordWrap()
            if not is_wrapped and not isinstance(widget, ElidedLabel):
                assert widget.width() >= widget.minimumSizeHint().width(), widget.text()


def test_sentences_that_are_made_for_another_widget_are_chinese(window, client):
    """Where the class that translates is only known by the type of a parameter."""
    folder = Folder(path="/docs", collection="Documents", num_documents=600, num_gone=412)
    tell_library(client, COLLECTION, folders=[folder])
    page = window.go_to("library")
    assert english_in(page) == set()
    assert "docs 中的 600 个文件有 412 个不见了。" in [label.text() for label in page.findChildren(QLabel)]
    failed = tuple(protocol.DocumentProblem(path=f"/docs/{number}.pdf", reason="") for number in range(2))
    client.tell(
        protocol.IndexFinished(indexed=7, unchanged=0, removed=0, skipped=(), failed=failed, chunks=20, seconds=1)
    )
    assert window.message_bar.sentence == "已索引 7 个文件，2 个未能索引。"
