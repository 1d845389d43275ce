"""Tests for app.widgets.sources_panel, source_card, page_viewer, page_picture and source_pane."""

from __future__ import annotations

import base64
from dataclasses import replace

import pytest
from PySide6.QtCore import QBuffer, QByteArray, QEvent, QIODevice, QObject, QPoint, Qt
from PySide6.QtGui import QImage, QKeyEvent
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QAbstractSlider

from app.models.library import LibraryModel
from app.models.sources import SourcesModel
from app.models.standings import Standings
from app.tips import plain_tip
from app.widgets.page_viewer import PageViewer, unwrapped
from app.widgets.source_card import ScoreBar, SourceCard, snippet
from app.widgets.source_pane import SourcePane
from app.widgets.sources_panel import SourcesPanel
from engine import protocol
from engine.protocol import Refresh, Scope
from tests.helpers.shown_values import document, passage, turn
from tests.helpers.shown_words import shown_words
from tests.helpers.told_library import answer_library


def png(width: int = 300, height: int = 400) -> str:
    image = QImage(width, height, QImage.Format.Format_RGB32)
    image.fill(Qt.GlobalColor.white)
    data = QByteArray()
    buffer = QBuffer(data)
    buffer.open(QIODevice.OpenModeFlag.WriteOnly)
    image.save(buffer, "PNG")
    return base64.b64encode(data.data()).decode()


def picture_page(page: int = 7, num_pages: int = 9, image: str = "") -> protocol.PageReply:
    return protocol.PageReply(
        document="/docs/file-1.pdf", page=page, num_pages=num_pages, image_png=image or png(),
        marks=((0.1, 0.5, 0.9, 0.55),),
    )  # fmt: skip


@pytest.fixture
def viewer(qtbot):
    made = PageViewer()
    qtbot.addWidget(made)
    made.resize(400, 500)
    made.show()
    qtbot.waitExposed(made)
    return made


@pytest.fixture
def pane(qtbot, client):
    made = SourcePane()
    qtbot.addWidget(made)
    made.standings = Standings(client, LibraryModel(client))
    made.model = SourcesModel(client, made.standings)
    made.attach(made.model)
    made.resize(400, 500)
    made.show()
    qtbot.waitExposed(made)
    return made


@pytest.mark.parametrize("points", [10, 25])
def test_a_card_is_no_wider_than_its_panel_whatever_its_words_and_their_size(qtbot, points):
    panel = SourcesPanel()
    qtbot.addWidget(panel)
    panel.setStyleSheet(f"* {{ font-size: {points}pt }}")
    panel.resize(260, 600)
    panel.show_passages([replace(passage(0), text="internationalisation /usr/share/a/path/that/goes/on " + "0" * 64)])
    panel.show_unread({0})
    panel.show()
    qtbot.waitExposed(panel)
    [card] = panel.cards()
    assert card.unread.isVisible()
    assert card.width() <= card.parentWidget().width() <= 260


def test_cards_open_by_click_and_by_key(qtbot):
    panel = SourcesPanel()
    qtbot.addWidget(panel)
    panel.show_passages([passage(1), passage(2)])
    with qtbot.waitSignal(panel.opened) as opened:
        QTest.mouseClick(panel.cards()[1], Qt.MouseButton.LeftButton)
    assert opened.args == [1]
    with qtbot.waitSignal(panel.opened) as opened:
        QTest.keyClick(panel.cards()[0], Qt.Key.Key_Return)
    assert opened.args == [0]


def test_one_card_at_most_is_selected(qtbot):
    panel = SourcesPanel()
    qtbot.addWidget(panel)
    panel.show_passages([passage(1), passage(2)])
    panel.select(0)
    panel.select(1)
    assert [bool(card.property("selected")) for card in panel.cards()] == [False, True]


def test_passages_that_came_while_writing_stand_below_a_line_that_says_so(qtbot):
    panel = SourcesPanel()
    qtbot.addWidget(panel)
    panel.show_passages([passage(1), passage(2)])
    assert panel.headings() == ()
    first = panel.cards()
    panel.show_passages(
        [passage(1), passage(2), passage(3), passage(4), passage(5)], [Refresh(90, 2, 2), Refresh(300, 4, 1)]
    )
    assert panel.cards()[:2] == first
    assert [card.accessibleName()[0] for card in panel.cards()] == ["1", "2", "3", "4", "5"]
    assert panel.headings() == ("Found while the answer was being written",) * 2
    parts = [panel._column.itemAt(place).widget() for place in range(panel._column.count() - 1)]
    assert [parts.index(card) for card in panel.cards()] == [0, 1, 3, 4, 6]
    panel.show_passages([passage(7)])
    assert (len(panel.cards()), panel.headings(), panel._column.count()) == (1, (), 2)


def test_cards_say_the_number_file_and_page_and_the_whole_passage(qtbot):
    panel = SourcesPanel()
    qtbot.addWidget(panel)
    panel.show_passages([passage(1, text="word " * 200)])
    (card,) = panel.cards()
    assert card.accessibleName() == "1: file-1.pdf p. 7"
    assert card.accessibleDescription() == "word " * 200


def test_a_snippet_is_cut_at_a_word_but_chinese_anywhere():
    assert snippet(passage(1, text="word " * 100)).endswith("word…")
    assert len(snippet(passage(1, text="通知" * 300))) == 221


def test_a_snippet_of_markdown_is_without_the_signs_of_headings_and_fences():
    text = "## Mutexes\n\n```rust,ignore\n# hidden\nlet m = 1;\n```\nC# is #1."
    assert snippet(replace(passage(1, text=text), document="/docs/a.MD")) == "Mutexes # hidden let m = 1; C# is #1."
    assert snippet(passage(1, text="# hidden")) == "# hidden"


def test_a_long_name_gives_way_and_is_whole_in_its_tooltip(viewer):
    name = "-".join(["minutes", "of", "the", "general", "meeting"] * 6) + ".pdf"
    narrow = viewer.minimumSizeHint().width()
    viewer.show_page(picture_page().model_copy(update={"document": f"/docs/{name}"}))
    assert viewer.minimumSizeHint().width() == narrow
    viewer.grab()
    assert viewer._name.toolTip() == plain_tip(name)
    assert viewer._heading.toolTip() == plain_tip(f"/docs/{name}")


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        (
            "When `panic!` is **not** called <!-- ignore -->, see [the book](ch09.md#x).",
            "When panic! is not called , see the book.",
        ),
        ("{{#include ../a.rs:here}}\n<!-- two\nlines -->Then ![a crab](crab.png).", "Then a crab."),
        ("``a `b` c`` and `**kwargs, **more`", "a `b` c and **kwargs, **more"),
        ("So **[`Result`](ch09.html#x)** it is", "So Result it is"),
        ("```html\n<!-- kept --> **a**\n```\n**b**", "<!-- kept --> **a** b"),
        ("~~~\n{{#include a.rs}}\n# kept\n```\n~~~\n# b", "# kept ``` b"),
        ("``` `a` ``` and `[b](c)`, `<!-- d -->`", "`a` and [b](c), <!-- d -->"),
        ("Press `**` for **bold** and **# of runs**", "Press ** for bold and # of runs"),
        ("[![badge](x)](y) [and ![a crab](b) too](c)", "badge and a crab too"),
        ("2**3 + 4**5, calls[0](x), <!-- open", "2**3 + 4**5, calls[0](x), <!-- open"),
        ("_Ownership_ is *what* counts", "Ownership is what counts"),
        ("those\n> values get popped\n> > off", "those values get popped off"),
        ("a_b and __init__, 2*3*4, p = *q, a * b * c, _ or *", "a_b and __init__, 2*3*4, p = *q, a * b * c, _ or *"),
    ],
)
def test_a_snippet_of_markdown_is_what_people_would_read_of_it(text, shown):
    assert snippet(replace(passage(1, text=text), document="/docs/a.md")) == shown
    assert snippet(passage(1, text=text)) == " ".join(text.split())


@pytest.mark.parametrize("sign", ["<!-- ", "**a ", "[", "``` ` ", "{{#include ", "~~~\n", "*a ", "_a ", "> "])
def test_only_the_beginning_of_a_long_markdown_text_is_looked_at_for_a_snippet(sign):
    shown = replace(passage(1, text="**So** it is. " + sign * 50_000), document="/docs/a.md")
    assert snippet(shown).startswith("So it is.")


def test_a_text_says_where_the_passage_stands_also_once_it_is_there(viewer):
    viewer.show_opening("/docs/notes.md", "lines 98–136")
    viewer.show_page(protocol.PageReply(document="/docs/notes.md", page=None, num_pages=0, text="words", text_start=9))
    assert viewer.where == "lines 98–136"


def test_a_picture_is_shown_with_its_marks(viewer):
    viewer.show_page(picture_page())
    assert viewer.notice == ""
    assert viewer.picture.marks == ((0.1, 0.5, 0.9, 0.55),)
    assert "1 marked" in viewer.picture.accessibleDescription()


def test_the_mark_is_painted_over_the_page(viewer):
    viewer.show_page(picture_page())
    sheet = viewer.picture.widget()
    picture = sheet.grab().toImage()
    inside = picture.pixelColor(sheet.width() // 2, round(sheet.height() * 0.525))
    outside = picture.pixelColor(sheet.width() // 2, round(sheet.height() * 0.3))
    assert inside.blue() < 120
    assert outside.blue() > 250


def at_the_foot() -> protocol.PageReply:
    """A page of A4 whose passage is at its foot."""
    return picture_page(image=png(595, 842)).model_copy(update={"marks": ((0.1, 0.9, 0.9, 0.93),)})


def sees_mark(viewer: PageViewer) -> bool:
    sheet, seen = viewer.picture.widget(), viewer.picture.viewport()
    (mark,) = sheet.mark_rects()
    return seen.rect().contains(mark.toRect().translated(sheet.mapTo(seen, QPoint())))


def test_the_first_page_opens_at_its_mark(viewer):
    viewer.show_page(at_the_foot())
    assert sees_mark(viewer)


def test_a_page_that_came_while_nobody_saw_it_opens_at_its_mark(qtbot):
    made = PageViewer()
    qtbot.addWidget(made)
    made.show_page(at_the_foot())
    made.resize(400, 500)
    made.show()
    qtbot.waitExposed(made)
    assert sees_mark(made)


def test_the_mark_stays_in_sight_until_the_reader_scrolls(viewer):
    viewer.show_page(at_the_foot())
    viewer.resize(500, 400)
    assert sees_mark(viewer)
    bar = viewer.picture.verticalScrollBar()
    bar.triggerAction(QAbstractSlider.SliderAction.SliderToMinimum)
    viewer.resize(400, 500)
    assert (bar.value(), sees_mark(viewer)) == (0, False)


def long_text() -> protocol.PageReply:
    return protocol.PageReply(document="/docs/notes.md", page=None, num_pages=0, text="A line.\n" * 500, mark_end=6)


@pytest.mark.parametrize("page", [at_the_foot(), long_text()], ids=["a picture", "a text"])
def test_ctrl_home_and_ctrl_end_go_to_both_ends_of_the_page_and_no_further(viewer, page):
    viewer.show_page(page)
    shown = viewer.picture if page.image_png else viewer.text
    bar = shown.verticalScrollBar()
    heard = KeysHeard()
    viewer.installEventFilter(heard)
    for key, end in ((Qt.Key.Key_Home, bar.minimum()), (Qt.Key.Key_End, bar.maximum()), (Qt.Key.Key_Home, 0)):
        QTest.keyClick(shown, key, Qt.KeyboardModifier.ControlModifier)
        assert bar.value() == end
    assert bar.maximum() > 0
    assert heard.keys == []
    # The reader has scrolled.
    viewer.resize(500, 400)
    assert bar.value() == 0


class KeysHeard(QObject):
    """What came through to a widget, but for Ctrl itself."""

    def __init__(self) -> None:
        super().__init__()
        self.keys: list[int] = []

    def eventFilter(self, _watched: QObject, event: QEvent) -> bool:
        is_press = isinstance(event, QKeyEvent) and event.type() == QEvent.Type.KeyPress
        if is_press and event.key() != Qt.Key.Key_Control:
            self.keys.append(event.key())
        return False


def test_zoom_grows_the_page_and_fit_brings_it_back(viewer):
    viewer.show_page(picture_page())
    fitting = viewer.picture.sheet_size()
    viewer._zoom_in.click()
    assert viewer.picture.sheet_size().width() > fitting.width()
    viewer._fit.click()
    assert viewer.picture.sheet_size() == fitting


def test_pages_are_turned_within_the_document(viewer, qtbot):
    viewer.show_page(picture_page(page=1, num_pages=2))
    assert not viewer._previous.isEnabled()
    with qtbot.waitSignal(viewer.page_wanted) as wanted:
        viewer._next.click()
    assert wanted.args == [2]


def test_each_click_turns_a_page_also_before_the_one_before_is_there(viewer):
    asked = []
    viewer.page_wanted.connect(asked.append)
    viewer.show_page(picture_page(page=7, num_pages=9))
    for _ in range(4):
        viewer._next.click()
    assert asked == [8, 9]
    assert (viewer._next.isEnabled(), viewer._previous.isEnabled()) == (False, True)
    viewer._previous.click()
    assert asked == [8, 9, 8]
    viewer.show_page(picture_page(page=8, num_pages=9))
    viewer._next.click()
    assert asked[-1] == 9


@pytest.mark.parametrize("image", ["not base64!", base64.b64encode(b"no picture").decode()])
def test_a_broken_picture_is_a_sentence(viewer, image):
    viewer.show_page(picture_page(image=image))
    assert "cannot be shown" in viewer.notice


def test_text_is_shown_with_the_span_marked_and_in_sight(viewer):
    before = "😀 前文。\n" * 300
    text = f"{before}The marked passage.{'after ' * 400}"
    viewer.show_page(
        protocol.PageReply(
            document="/docs/notes.md", page=None, num_pages=0, text=text, text_start=1000,
            mark_start=1000 + len(before), mark_end=1000 + len(before) + 19,
        )
    )  # fmt: skip
    (marked,) = viewer.text.extraSelections()
    assert marked.cursor.selectedText() == "The marked passage."
    assert viewer.text.viewport().rect().contains(viewer.text.cursorRect())


def test_a_citation_opens_the_page_it_stands_on(pane, client, qtbot):
    pane.model.show_turn(turn(1, passages=(passage(1), passage(2))))
    with qtbot.waitSignal(pane.viewing_changed):
        pane.open_passage(1)
    (asked,) = client.asked(protocol.PAGE)
    assert (asked.document_id, asked.page, asked.start) == (2, 7, 10)
    assert pane.is_viewing
    assert pane.viewer.notice == "Opening the page…"
    client.answer(protocol.PAGE, picture_page())
    assert pane.viewer.reply is not None
    assert [bool(card.property("selected")) for card in pane.panel.cards()] == [False, True]


def test_a_page_that_cannot_be_had_says_why(pane, client):
    pane.model.show_turn(turn(1, passages=(passage(1),)))
    pane.open_passage(0)
    client.answer(protocol.PAGE, picture_page())
    pane.viewer.page_wanted.emit(8)
    client.refuse(protocol.PAGE, "There is no page 8.")
    assert pane.viewer.notice == "There is no page 8."


def test_a_source_that_was_removed_or_is_offline_says_why_and_shows_what_was_indexed(pane, client):
    pane.model.show_turn(turn(1, passages=(passage(1, text="Three months' notice."), passage(2), passage(3))))
    pane.standings.watch(pane.model.passages)
    away = document(1, "offline", "The drive is not connected.")
    answer_library(client, documents=[away, document(2)])
    assert [card.standing.words for card in pane.panel.cards()] == ["offline", "", "removed"]
    assert pane.panel.cards()[0].accessibleName() == "1: file-1.pdf p. 7 offline"
    pane.open_passage(0)
    assert client.asked(protocol.PAGE) == []
    assert "The drive is not connected. This is the passage as it was indexed." in shown_words(pane.viewer)
    assert pane.viewer.text.toPlainText() == "Three months' notice."
    pane.open_passage(2)
    assert "This document was removed from the library. This is the passage as it was indexed." in shown_words(
        pane.viewer
    )
    assert pane.viewer.text.toPlainText() == passage(3).text
    pane.open_passage(1)
    client.answer(protocol.PAGE, picture_page())
    assert not any("as it was indexed" in words for words in shown_words(pane.viewer))


def test_a_source_that_the_model_did_not_read_says_so(pane):
    shown = turn(1, passages=(passage(1), passage(2)))
    pane.model.show_turn(shown)
    assert [card.unread.isHidden() for card in pane.panel.cards()] == [True, True]
    pane.model.show_turn(replace(shown, scope=Scope(1, 72, 1, unread=(1,))))
    assert [card.unread.isHidden() for card in pane.panel.cards()] == [True, False]
    assert pane.panel.cards()[1].accessibleName() == "2: file-2.pdf p. 7 not read"
    pane.model.show_turn(turn(2, passages=shown.passages))
    assert [card.unread.isHidden() for card in pane.panel.cards()] == [True, True]


def test_a_place_is_said_as_the_document_calls_it(pane, viewer, client):
    slide = replace(passage(1), place="slide 4", page=4)
    pane.model.show_turn(turn(1, passages=(slide,)))
    assert pane.panel.cards()[0].accessibleName() == "1: file-1.pdf slide 4"
    pane.open_passage(0)
    assert pane.viewer.where == "slide 4"
    client.answer(protocol.PAGE, picture_page(page=4, num_pages=20).model_copy(update={"place": "slide 4"}))
    assert pane.viewer.where == "slide 4 · 4 of 20"
    viewer.show_page(picture_page().model_copy(update={"place": "page 7"}))
    assert viewer.where == "Page 7 of 9"


def test_back_shows_the_sources_again(pane, client):
    pane.model.show_turn(turn(1, passages=(passage(1),)))
    pane.open_passage(0)
    pane.viewer.closed.emit()
    assert not pane.is_viewing
    client.answer(protocol.PAGE, picture_page())
    assert not pane.is_viewing


def test_other_sources_close_the_page(pane, client):
    pane.model.show_turn(turn(1, passages=(passage(1),)))
    pane.open_passage(0)
    pane.model.show_turn(turn(2, passages=(passage(2),)))
    assert not pane.is_viewing
    assert pane.panel.passages == (passage(2),)


def test_turning_a_page_keeps_the_old_one_in_sight(pane, client):
    pane.model.show_turn(turn(1, passages=(passage(1),)))
    pane.open_passage(0)
    client.answer(protocol.PAGE, picture_page())
    pane.viewer.page_wanted.emit(8)
    assert client.asked(protocol.PAGE)[-1].page == 8
    assert pane.viewer.notice == ""


def test_broken_paragraphs_are_joined_and_no_offset_moves():
    wrapped = "The tenancy may be ended by either party giving three\nmonths' written notice to the other.\n\nNext.\n"
    listed = "- one thing that is long enough to look like a broken line\n- two\n# Heading\n    code()\n| a | b |\n"
    whole = unwrapped(wrapped + listed)
    assert len(whole) == len(wrapped + listed)
    assert "giving three months' written" in whole
    assert whole.endswith(listed)


def test_a_passage_that_was_only_read_through_has_no_bar_of_how_well_it_fits(qtbot):
    for score, num_bars in ((0.4, 1), (0.0, 0)):
        card = SourceCard(1, replace(passage(1), score=score), 0.8)
        qtbot.addWidget(card)
        assert len(card.findChildren(ScoreBar)) == num_bars


def test_a_word_that_is_longer_than_the_panel_is_broken(qtbot):
    card = SourceCard(1, passage(1, "required by /rustc/" + "4eb161250e340c8f48f66e2b929ef4a5bed7c181" * 4), 1.0)
    qtbot.addWidget(card)
    assert card.minimumSizeHint().width() < 300
