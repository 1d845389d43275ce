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


LIKE_MARKUP = (
    "How does vector<int> differ from <b>list</b>?",
    "Is 2*3*4 > 5_000 and __init__ a `name` in C# or #?",
    "What is [this](that), ![it](x) or [1]?",
    r"Where is C:\_temp\*, ~~or~~ &lt; and AT&T?",
    "<!-- is this seen?",
    "</div> <?php ?> <![CDATA[x]]> <https://example.org>",
    "1. What is <script>",
)


def shown(markdown: str) -> list[str]:
    """The text of each heading, paragraph and item, as it is shown where HTML is HTML."""
    tokens = MarkdownIt("commonmark", {"html": True}).parse(markdown)
    inlines = [token for token in tokens if token.type == "inline"]
    parts = [*tokens, *(child for token in inlines for child in token.children)]
    assert [part.content for part in parts if part.type in ("html_inline", "html_block")] == []
    return [
        "".join("\n" if child.type == "softbreak" else child.content for child in token.children) for token in inlines
    ]


@pytest.mark.parametrize("question", LIKE_MARKUP)
def test_a_question_a_source_and_a_name_stay_as_they_were_written(question: str):
    outcome = Outcome(
        state="failed", error_sentence=question, passages=({"document": f"/docs/{question}"},), model=question
    )
    told = shown(markdown_of(question, [Turn("1", "c", None, question, 0.0, outcome)]))
    assert told == [question, question, question, "Sources", f"/docs/{question}", f"Answered by {question}."]


def test_a_question_of_many_lines_stays_as_it_was_written():
    lines = ["<div>", "# not a heading", "- a", "+ b", "1. c", "===", "---", "> d", "```", *LIKE_MARKUP]
    question = "\n".join(lines)
    assert shown(markdown_of("t", [Turn("1", "c", None, question, 0.0)]))[2] == question
    assert shown(markdown_of("t", [], {"instructions": question}))[2] == question


def test_code_that_was_pasted_into_a_question_has_no_signs_of_ours():
    question = "Why?\n\n    return x[0] * y\n\n\treturn <b>"
    assert shown(markdown_of("t", [Turn("1", "c", None, question, 0.0)]))[2:5] == [
        "Why?",
        "return x[0] * y",
        "return <b>",
    ]


@pytest.mark.parametrize(
    ("answer", "exported"),
    [
        ("Use <b>this</b>, and vector<int>.", r"Use \<b>this\</b>, and vector\<int>."),
        ("<details>\n\nHidden.\n\n</details>", "\\<details>\n\nHidden.\n\n\\</details>"),
        ("- one <br>\n> two <i>", "- one \\<br>\n> two \\<i>"),
        ("1 < 2, a `<b>` and ``<i> ` <u>`` or ` <s>", r"1 < 2, a `<b>` and ``<i> ` <u>`` or ` \<s>"),
        (r"\<b> and \\<i> and \`<u>`", r"\<b> and \\\<i> and \`\<u>`"),
        ("```html\n<b>\n```\n\n    <i>\n\n- ~~~\n  <u>\n  ~~~", "```html\n<b>\n```\n\n    <i>\n\n- ~~~\n  <u>\n  ~~~"),
        ("<https://a.org/x> <me@a.org> [a](<b c>)", "<https://a.org/x> <me@a.org> [a](<b c>)"),
        ("**Bold**, *thin* [1] &amp; `code`.", "**Bold**, *thin* [1] &amp; `code`."),
        ("One.\r\nTwo <b>.\rThree <i>.", "One.\nTwo \\<b>.\nThree \\<i>."),
    ],
)
def test_of_an_answer_nothing_is_changed_but_what_would_be_html(answer: str, exported: str):
    markdown = markdown_of("t", [Turn("1", "c", None, "?", 0.0, Outcome(state="finished", text=answer))])
    assert markdown == f"# t\n\n## ?\n\n{exported}\n"
    shown(markdown)


def test_an_answer_that_breaks_off_within_html_leaves_the_rest_as_it_is():
    broken = Turn("1", "c", None, "?", 0.0, Outcome(state="cancelled", text="See:\n\n<pre>\n\n```\nx = 1"))
    fine = Turn("2", "c", "1", "??", 0.0, Outcome(state="finished", text="Blue."))
    assert shown(markdown_of("t", [broken, fine]))[-2:] == ["??", "Blue."]
