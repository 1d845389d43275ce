"""Tests for app.chats.export."""

from __future__ import annotations

import pytest
from markdown_it import MarkdownIt

from app.chats import Turn, markdown_of
from app.chats.records import Outcome


def test_a_chat_becomes_headings_answers_and_numbered_sources():
    outcome = Outcome(
        state="finished",
        text="Three months [1].\n",
        passages=(
            {"document": "/docs/lease.pdf", "page": 4},
            {"document": "/docs/b\udcff.md", "page": None},
            {"document": "/docs/talk.pptx", "page": 4, "place": "slide 4"},
        ),
        model="tiny",
    )
    turns = [Turn("1", "c", None, "What notice\napplies?", 0.0, outcome)]
    assert (
        markdown_of("My  flat", turns)
        == """# My flat

## What notice applies?

> What notice
> applies?

Three months [1].

**Sources**

1. /docs/lease.pdf, page 4
2. /docs/b\ufffd.md
3. /docs/talk.pptx, slide 4

*Answered by tiny.*
"""
    )


def test_an_answer_that_found_nothing_says_so():
    nothing = Turn("1", "c", None, "?", 0.0, Outcome(state="finished", passages=({"document": "/a.md"},)))
    assert "*Not found in the files.*\n\n**Sources**" in markdown_of("t", [nothing])


@pytest.mark.parametrize(
    ("values", "searches", "words"),
    [
        ({"model": "tiny", "thoughts": "They ask.", "quotes": ({},)}, True, "The model ended without an answer."),
        ({"model": "tiny", "thoughts": "They ask."}, False, "The model ended without an answer."),
        ({"model": "tiny", "quotes": ({},)}, True, "The model wrote nothing."),
        ({"model": "tiny"}, False, "The model wrote nothing."),
        ({}, True, "Not found in the files."),
    ],
)
def test_a_model_that_gave_no_answer_is_told_from_files_that_have_none(values, searches, words):
    turn = Turn("1", "c", None, "?", 0.0, Outcome(state="finished", **values), searches=searches)
    assert f"## ?\n\n*{words}*\n" in markdown_of("t", [turn])


def test_an_answer_that_did_not_end_well_says_so():
    stopped = Turn("1", "c", None, "?", 0.0, Outcome(state="cancelled", text="Half"))
    failed = Turn("2", "c", "1", "??", 0.0, Outcome(state="failed", error_sentence="The engine crashed."))
    text = markdown_of("t", [stopped, failed])
    assert "Half\n\n*Stopped before the answer was complete.*" in text
    assert "## ??\n\n*The engine crashed.*" in text


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"state": "writing"}, "This answer was still being written."),
        (
            {"state": "finished", "model": "tiny", "finish_reason": "length"},
            "The answer was cut off: there was no room",
        ),
    ],
)
def test_half_an_answer_is_not_taken_for_a_whole_one(values, words):
    half = Turn("1", "c", None, "?", 0.0, Outcome(text="May be raised unless", **values))
    assert f"May be raised unless\n\n*{words}" in markdown_of("t", [half])


@pytest.mark.parametrize("fence", ["```", "~~~~", "``` python"])
def test_an_answer_that_breaks_off_within_code_leaves_the_rest_as_it_is(fence: str):
    whole = "Look:\n\n```\na\n```\n\nAnd:\n"
    broken = Turn("1", "c", None, "?", 0.0, Outcome(state="cancelled", text=f"{whole}\n{fence}\nfor x in y:\n    pr"))
    fine = Turn("2", "c", "1", "??", 0.0, Outcome(state="finished", text="Blue."))
    tokens = MarkdownIt().parse(markdown_of("t", [broken, fine]))
    assert [token.content for token in tokens if token.type == "fence"] == ["a\n", "for x in y:\n    pr\n"]
    assert [token.content for token in tokens if token.type == "inline"][-2:] == ["??", "Blue."]


@pytest.mark.parametrize(
    "text",
    [
        "1. Install it:\n   ```bash\n   pip install x",
        "- item\n  ~~~python\n  x = 1",
        "> ```\n> quoted",
        "1. ```bash\n   ls\n   ```\n\nThat is all.",
        "As so:\n\n    ```\n    indented",
    ],
)
def test_code_within_something_else_ends_with_that(text: str):
    turn = Turn("1", "c", None, "?", 0.0, Outcome(state="cancelled", text=text))
    told = markdown_of("t", [turn])
    assert f"{text.strip()}\n\n*Stopped" in told
    assert MarkdownIt().parse(told)[-2].content == "*Stopped before the answer was complete.*"


def test_what_a_chat_has_of_its_own_stands_below_its_title():
    manner = {"instructions": "In verse.\nIn German.\n", "max_tokens": 64, "temperature": 0.5, "thinks": True}
    assert (
        markdown_of("Poems", [], manner)
        == """# Poems

*Instructions of this chat:*

> In verse.
> In German.

*Settings of this chat: at most 64 tokens an answer, temperature 0.5.*
"""
    )
    assert markdown_of("Poems", [], {"instructions": "", "thinks": True}) == "# Poems\n"
