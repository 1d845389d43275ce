"""Tests for engine.retrieval.sentences."""

from __future__ import annotations

import pytest

from engine.retrieval.sentences import MAX_CHARACTERS, quotable, spans


def split(text: str) -> list[str]:
    return [text[start:end] for start, end in spans(text)]


def quotes(text: str, *, may_be_torn: bool = False) -> list[str]:
    return [text[one.start : one.end] for one in quotable(text, may_be_torn=may_be_torn)]


@pytest.mark.parametrize(
    "sentences",
    [
        ["One ends here.", "Another one follows!", "Really?", "Yes…", "Then it stops."],
        ["Dr. J. Smith of the U.S. Army met Mr. Lee at 3.14 p.m. sharp.", "He left."],
        ["See Fig. 3, eq. 4 and e.g. No. 5 of vol. 2.", "It cost 1,250.00 EUR."],
        ["Open main.py or config.v2.toml first.", "Version 2.0 is out."],
        ['"Stop!" she said.', "“Why?”", "(He knew.)", "The end."],
        ["So do I.", "We agree."],
        ["我们在北京学习中文。", "他说：“你好！”然后走了。", "真的吗？", "是的！"],
        ["日本語の文です。", "もう一つ。"],
        ["Das ist z.B. ein Satz.", "Änderungen folgen."],
        ["What?!", "No way..."],
        ["Das Mietverhältnis beginnt am 1. April 2024 und ist unbefristet.", "Es gilt § 573 Abs. 2 Nr. 5 BGB."],
        ["Im 19. Jahrhundert lagen 3 Mio. Euro in der 2. Etage.", "Niemand wusste davon."],
        ["We counted 12.", "Then we stopped."],
        ["He studied art.", "The museum was closed."],
        ["That was step 3.", "September sales came next."],
        ["Es beginnt am 1. August und endet mit dem 2. November.", "So steht es da."],
    ],
)
def test_running_text_falls_into_its_sentences(sentences: list[str]):
    is_cjk = sentences[0][0] > "\u2fff"
    assert split(("" if is_cjk else " ").join(sentences)) == sentences


def test_a_sentence_goes_on_over_a_line_break():
    assert quotes("A mutex lets only\none thread in. It is\na lock.") == [
        "A mutex lets only\none thread in.",
        "It is\na lock.",
    ]


def test_a_date_behind_a_line_break_begins_no_item():
    wrapped = "Die Kaution ist fällig am\n15. Januar des Jahres. Danach wird gemahnt."
    assert quotes(wrapped) == ["Die Kaution ist fällig am\n15. Januar des Jahres.", "Danach wird gemahnt."]
    # As a calendar has them.
    assert quotes("Termine im Frühling:\n1. Mai Fest im Garten\n2. Mai Tag der Ruhe") == [
        "Termine im Frühling:",
        "Mai Fest im Garten",
        "Mai Tag der Ruhe",
    ]


def test_a_clause_may_end_with_a_semicolon():
    lease = (
        "The Tenant agrees:\n(a) to pay the Rent on the first day;\n(b) not to keep any pets without consent;\n\n"
        'The rent is 900 euro;\nit is due on the first.\n\nThe house (called "the Home");'
    )
    assert quotes(lease) == [
        "The Tenant agrees:",
        "to pay the Rent on the first day;",
        "not to keep any pets without consent;",
        "The rent is 900 euro;\nit is due on the first.",
        'The house (called "the Home");',
    ]


def test_paragraphs_and_list_items_are_apart():
    text = (
        "Remember two rules:\n\n1. Acquire the lock first.\n2. Release the lock\n   after use\n\n"
        "- a bullet without end\n\nDone with that now."
    )
    assert quotes(text) == [
        "Remember two rules:",
        "Acquire the lock first.",
        "Release the lock\n   after use",
        "a bullet without end",
        "Done with that now.",
    ]


def test_quoted_mail_and_markdown_lines_belong_together():
    text = "> ### A box\n>\n> The first line of the box goes\n> on here. And ends.\n>\n> - An item in the box."
    assert quotes(text) == ["The first line of the box goes\n> on here.", "An item in the box."]


@pytest.mark.parametrize(
    "debris",
    [
        "## A heading of five words",
        "A heading over a line\n======",
        "```rust\nlet counter = make it a long line of code\n```",
        "~~~\nan open fence that never closes but has words",
        "| a table | with cells | and words |",
        "fn main() { println!(); }",
        "let guard = mutex.lock().unwrap();",
        "total = price * count + delivery;",
        "return the first of them all;",
        "print(str(one of the values));",
        "take the last of items[count];",
        "#[derive(Debug)] marks the following struct",
        "if a == b && c != d then",
        '<Listing number="16-12" file-name="src/main.rs">',
        "![An image of many words](image.png)",
        "2019 2020 2021 2022 12.5 13.5 14.5",
        "- - - - -",
        "Too short.",
        "What does it say in this question?",
        "本当ですか、それは？",
        "word " * MAX_CHARACTERS,
    ],
)
def test_what_nobody_would_quote_is_left_out(debris: str):
    assert quotes(debris) == []
    assert quotes(f"This can be quoted.\n\n{debris}")[:1] == ["This can be quoted."]
    assert len(quotes(f"This can be quoted.\n\n{debris}")) == 1


def test_a_note_without_marks_can_be_quoted():
    assert quotes("wifi password: hunter2") == ["wifi password: hunter2"]


def test_the_torn_beginning_of_a_chunk_is_left_out():
    text = "and so it goes on to its end. The next one is whole."
    assert quotes(text, may_be_torn=True) == ["The next one is whole."]
    assert quotes(text) == ["and so it goes on to its end.", "The next one is whole."]


@pytest.mark.parametrize("text", ["", " \n\n ", "\n", "```", ">", ".", "。", "...", "- "])
def test_nothing_comes_of_nothing(text: str):
    assert quotes(text) == []
