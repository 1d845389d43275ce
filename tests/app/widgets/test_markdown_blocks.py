"""Tests for app.widgets.markdown_blocks."""

from __future__ import annotations

import random
import re
from html import unescape

import pytest

from app.widgets.markdown_blocks import Block, MarkdownStream

ANSWER = """# Notice

The lease requires **three months** [1], the addendum *30 days* [2].

| Clause | Notice |
|---|---|
| §4.2 | 3 months [1] |

- 中文：提前三十天。[2]
- second

  with a paragraph of its own

```python
def f() -> int:
    return 1
```

> quoted

Thus \\( a_b \\) and \\[ x \\\\ y^2
= z \\] cost $5, or $$a_1$$.
$$
a_1
+ b_1
$$
and more.

Setext
======

the end\u2028of [3](http://example.org) it
"""


def whole(text: str) -> list[Block]:
    stream = MarkdownStream()
    stream.append(text)
    return stream.blocks


@pytest.mark.parametrize("seed", range(5))
def test_blocks_streamed_in_any_pieces_equal_blocks_of_the_whole(seed):
    chance, stream, rest = random.Random(seed), MarkdownStream(), ANSWER
    while rest:
        length = chance.randint(1, 12)
        stream.append(rest[:length])
        rest = rest[length:]
        assert stream.blocks == whole(stream.text)


def test_blocks_before_the_first_changed_one_are_as_before():
    stream = MarkdownStream()
    for character in ANSWER:
        before = stream.blocks
        first_changed = stream.append(character)
        assert stream.blocks[:first_changed] == before[:first_changed]


def test_only_the_tail_is_parsed_again():
    stream = MarkdownStream()
    stream.append("A paragraph of some length.\n\n" * 200 + "tail")
    before = stream.num_parsed_chars
    stream.append(" grows")
    assert stream.num_parsed_chars - before == len("tail grows")


def test_an_unclosed_fence_is_code():
    assert whole("```python\nx = 1") == [Block("code", "x = 1", "python")]


def test_html_is_shown_as_text():
    (block,) = whole("a <script>alert(1)</script> <img src='file:///etc/passwd'> b")
    assert "<script" not in block.content
    assert "<img" not in block.content


def test_pictures_are_their_captions():
    (block,) = whole("![a cat](https://example.org/cat.png)")
    assert "<img" not in block.content
    assert "a cat" in block.content


def test_citations_are_links_but_link_texts_and_code_are_not():
    (block,) = whole("yes [12], no [1](http://example.org), no `[3]`")
    assert 'href="cite:12"' in block.content
    assert 'cite:1"' not in block.content
    assert "cite:3" not in block.content


@pytest.mark.parametrize(
    ("text", "numbers"),
    [
        ("so [1, 2].", [1, 2]),
        ("both [2; 3]", [2, 3]),
        ("两者都是【3】。", [3]),
        ("one [1][2]", [1, 2]),
        ("in 1998[2], 900[1]", [2, 1]),
        ("mp3[1]", []),
        ("a 【x】[z]", []),
    ],
)
def test_each_number_that_models_write_is_a_citation(text, numbers):
    (block,) = whole(text)
    assert [int(number) for number in re.findall(r'href="cite:(\d+)"', block.content)] == numbers


@pytest.mark.parametrize(
    ("formula", "shown"),
    [
        (r"\( a_b \)", "<i>a</i><sub><i>b</i></sub>"),
        (r"\(x^2\,dx\)", "<i>x</i>²\u2009<i>d</i><i>x</i>"),
        (r"$$\int_0^1 x^2\,dx = \frac13$$", "∫₀¹\u2009<i>x</i>²\u2009<i>d</i><i>x</i> = 1/3"),
        (r"\[ E = mc^2 \]", "<i>E</i> = <i>m</i><i>c</i>²"),
        (r"\( n \)", "<i>n</i>"),
        (r"$a = b$", "<i>a</i> = <i>b</i>"),
        (r"\(\sqrt[3]{x} \in [0, 1]\)", "³√<i>x</i> ∈ [0, 1]"),
    ],
)
def test_a_formula_is_shown_as_it_is_meant(formula, shown):
    (block,) = whole(f"So {formula} holds [1], *always*.")
    assert block.content.startswith(f"<p>So {shown} holds <a class")
    assert "<em>always</em>" in block.content


@pytest.mark.parametrize(
    "formula",
    [
        r"\( \unknown{a_b} \)",
        r"$\{a_1, *b*_2\}_x^$",
        r"$$\begin{pmatrix} a_1 & *b* \end{pmatrix}$$",
        r"\[ x^10_*a* \]",
    ],
)
def test_a_formula_that_is_not_understood_is_shown_as_it_was_written(formula):
    (block,) = whole(f"So {formula} holds [1], *always*.")
    assert unescape(block.content).startswith(f"<p>So {formula} holds <a class")
    assert "<em>always</em>" in block.content


def test_a_formula_of_several_lines_that_is_not_understood_keeps_them():
    (block,) = whole("\\[\n  a_1 \\unknown\n  b_1\n\\]")
    assert block.content == "<p>\\[<br />\na_1 \\unknown<br />\nb_1<br />\n\\]</p>"


@pytest.mark.parametrize(("opening", "closing"), [("$$", "$$"), ("\\[", "\\]")])
def test_no_line_of_a_displayed_formula_begins_a_list_or_is_a_heading(opening, closing):
    lines = [opening, "a_1", "+ b_1", "- c", "=", "> d", "# e", "1. f", closing]
    formula, after = whole("\n".join([*lines, "- a list"]))
    assert unescape(formula.content) == "<p>" + "<br />\n".join(lines) + "</p>"
    assert after.content == "<ul>\n<li>a list</li>\n</ul>"
    before, within = whole("\n".join(["So:", *lines]))
    assert (before.content, within) == ("<p>So:</p>", formula)


def test_within_a_list_a_displayed_formula_is_a_part_of_its_item_with_lines_of_its_own():
    (block,) = whole("- so:\n  $$\n  a\n  + b\n  $$\n- and")
    assert block.content.count("<li>") == 2
    assert "so:\n<p><i>a</i>\u2009+\u2009<i>b</i></p>" in block.content.replace("so:<p>", "so:\n<p>")


@pytest.mark.parametrize("text", ["$$$ dear\n- a", "$$ [1] $$\n- a", "    $$\n- a", "$$\na\n\n- a"])
def test_what_is_no_displayed_formula_any_more_may_be_followed_by_a_list(text):
    assert whole(text)[-1].content == "<ul>\n<li>a</li>\n</ul>"


@pytest.mark.parametrize(
    ("text", "html"),
    [
        ("$5 and *$10*", "$5 and <em>$10</em>"),
        ("*$5*-$10, **US$** or **A$**", "<em>$5</em>-$10, <strong>US$</strong> or <strong>A$</strong>"),
        (r"$HOME_A and $HOME_B", "$HOME_A and $HOME_B"),
        (r"\$a_b\$ \[sic\] \[1\] 1\) \(open", "$a_b$ [sic] [1] 1) (open"),
        ("**$A_HOME** and **$B**", "<strong>$A_HOME</strong> and <strong>$B</strong>"),
        ("$A_B or `$B`", "$A_B or <code>$B</code>"),
        ("*$a_id* is *$b*", "<em>$a_id</em> is <em>$b</em>"),
        ("${A_B}, **${C}**", "${A_B}, <strong>${C}</strong>"),
        ("**$5** (+3%) to US$ *12*", "<strong>$5</strong> (+3%) to US$ <em>12</em>"),
        (r"\(use `a_b`\)", "(use <code>a_b</code>)"),
        (r"`\(a\)` \*", r"<code>\(a\)</code> *"),
    ],
)
def test_prices_and_escaped_signs_are_no_formulas(text, html):
    assert whole(text)[0].content == f"<p>{html}</p>"


@pytest.mark.parametrize(
    "text",
    [
        "$a_b [1] and ($c) [2]",
        "Costs: $5_000 [1]; $6_000 [2]; in R$: 7",
        r"Use \(see a_b [1]\) and [2]",
        r"He \[he^2 [1] and \] [2]",
        "It is $$ [1] or $$ [2]",
    ],
)
def test_no_formula_takes_a_citation_in(text):
    assert re.findall(r"cite:(\d)", whole(text)[0].content) == ["1", "2"]


def test_a_bracket_in_a_formula_is_a_citation_only_where_a_passage_has_its_number():
    stream = MarkdownStream()
    stream.num_passages = 2
    stream.append(r"\( a_1 + [7] \)")
    assert stream.blocks[0].content == "<p><i>a</i>₁\u2009+\u2009[7]</p>"


def test_what_a_passage_says_is_no_definition_of_a_link():
    (block,) = whole("[1]: 1,200\n[2]: lease.pdf\n")
    first, second = block.content.split("<br />")
    assert "1,200" in first
    assert 'href="cite:2"' in second


def test_a_number_that_no_passage_has_is_shown_as_it_stands():
    stream = MarkdownStream()
    stream.num_passages = 2
    stream.append("yes [2], no [9], [1, 7] and 【0】")
    (block,) = stream.blocks
    assert re.findall(r"cite:(\d+)", block.content) == ["2", "1"]
    assert all(number in block.content for number in ("[9]", "[7]", "【0】"))


@pytest.mark.parametrize("target", ["javascript:alert(1)", "file:///etc/passwd", "data:text/html,x"])
def test_dangerous_links_are_no_links(target):
    assert "href" not in whole(f"[x]({target})")[0].content


def test_another_text_replaces_all_blocks():
    stream = MarkdownStream()
    stream.append("one\n\ntwo")
    assert stream.replace("three") == 0
    assert stream.blocks == whole("three")
