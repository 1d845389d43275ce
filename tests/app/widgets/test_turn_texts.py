"""Tests for app.widgets.turn_texts: what is counted without widgets is what is marked in them."""

from __future__ import annotations

import pytest

from app.models.matches import count_of
from app.widgets import turn_texts
from app.widgets.turn_texts import TurnTexts, bare_texts
from app.widgets.turn_widget import TurnWidget
from tests.helpers.shown_values import passage, quote, turn

ANSWER = """# The notice

A **no**tice of _three_ months & more [1], notice.

- notice
- and `notice_period`
- 1 < 2

| notice | b |
|---|---|
| no | tice notice |

```python
notice = "notice"  # notice
```

> notice\\_period, a [notice](https://example.org/notice)
"""


def num_marked(widget: TurnWidget, sought: str) -> int:
    return sum(text.seek(sought) for text in widget._marked_texts())


@pytest.mark.parametrize(
    ("sought", "count"),
    [
        ("notice", 12),
        ("NOTICE_P", 2),
        ("three months", 1),
        ("months & more", 1),
        ("1 < 2", 1),
        ("question 1", 1),
        ("no tice", 0),
        ("zzz", 0),
    ],
)
def test_what_is_counted_is_what_is_marked(qtbot, sought, count):
    shown = turn(1, text=ANSWER, passages=(passage(1),))
    widget = TurnWidget(shown)
    qtbot.addWidget(widget)
    assert sum(count_of(text, sought) for text in bare_texts(shown)) == count
    assert num_marked(widget, sought) == count
    assert TurnTexts(shown).count(sought) == count


USUAL = """The *tenant* has to give **three months** notice [1].

1. Notice is given in writing [2]; a notice by e-mail is none.
2. The landlord’s notice period is longer.

```text
notice = 3
```
"""


@pytest.mark.parametrize(
    ("sought", "count"), [("notice", 5), ("NOTICE", 5), ("n", 16), ("tenant", 1), ("notice by e", 1)]
)
def test_a_word_is_counted_in_usual_answers_without_parsing_them(monkeypatch, sought, count):
    shown = turn(1, text=USUAL, passages=(passage(1), passage(2)))
    assert sum(count_of(text, sought) for text in bare_texts(shown)) == count
    monkeypatch.setattr(turn_texts, "blocks_of", lambda *_: pytest.fail("was parsed"))
    assert TurnTexts(shown).count(sought) == count


@pytest.mark.parametrize(
    "text",
    [
        "no**tice** notice",
        "[notice](https://example.org/notice) notice",
        "not&iacute;ce notice",
        "```notice\nnotice\n```",
        "a_notice_ _notice_ no\\tice",
        "$a_notice$ `no*tice*`",
        "| no | tice |\n|---|---|\n| notice | *no*tice |",
        "| no | tice |\n|---|:--|\n| notice | tice | notice |",
        "no\n-|-\n\nno | tice\n- | -\ntice | no | notice",
        "<https://so.no> tice, <so@no.tice> so <https://no>\ttice",
        "<notice> & notice [notice][1]",
        "~~notice~~ no~~tice~~",
        "no  tice **no** tice ` no   tice`",
        "`so no\ntice` no\ntice",
        "```\nno  tice\n```\n    no  tice",
        "- no\n- tice\n\n1. e",
    ],
)
def test_a_word_is_counted_as_it_is_shown_whatever_marks_are_in_it(text):
    shown = turn(1, text=text, passages=(passage(1),))
    for sought in ("notice", "no", "tice", "n", "e", "no tice", "so no tice"):
        assert TurnTexts(shown).count(sought) == sum(count_of(one, sought) for one in bare_texts(shown)), sought


def test_of_an_answer_of_quotes_the_quotes_are_looked_through(qtbot):
    shown = turn(1, text="Hidden words.", model=None, passages=(passage(1),), quotes=(quote(0, "Shown\n words."),))
    widget = TurnWidget(shown)
    qtbot.addWidget(widget)
    assert sum(count_of(text, "words") for text in bare_texts(shown)) == num_marked(widget, "words") == 1
    widget.quotes.set_open(False)
    widget.mark("shown words", 0)
    text, _ = widget.place_found()
    assert widget.quotes.is_open
    assert text is widget.quotes.quote_lines()[0].text


def test_marks_come_and_go(qtbot):
    widget = TurnWidget(turn(1, text="Notice.\n\n```\nnotice\n```"))
    qtbot.addWidget(widget)
    widget.mark("notice", 1)
    prose, code = widget.markdown.texts()
    assert [len(text.extraSelections()) for text in (prose, code)] == [1, 1]
    (seen,), (looked_at,) = prose.extraSelections(), code.extraSelections()
    assert (seen.format.fontUnderline(), looked_at.format.fontUnderline()) == (False, True)
    widget.mark("")
    assert [len(text.extraSelections()) for text in (prose, code)] == [0, 0]


def test_a_question_is_shown_letter_by_letter_also_with_marks(qtbot):
    asked = turn(1, text="Yes.")
    widget = TurnWidget(asked)
    qtbot.addWidget(widget)
    label = widget.bubble.text
    plain = label.text()
    widget.mark("question", 0)
    assert "Question</span> 1?" in label.text()
    widget.mark("")
    assert label.text() == plain == asked.question
