"""Tests for engine.library.chunker and engine.library.splitting."""

from __future__ import annotations

import itertools
import random
import re
from dataclasses import replace

import pytest

from engine.core import Block, ParsedDocument, ParsedPage
from engine.library.chunker import chunk, estimate_tokens, indexed_text, shortened
from engine.library.parsers.markup import PageBuilder
from engine.library.parsers.text import paragraphs

MAX, OVERLAP = 60, 12


def words(text: str) -> int:
    """A tokenizer of which the tests can say how much it counts."""
    return len(text.split())


def pieces(text: str) -> int:
    """Like a word-piece tokenizer: long words cost more, ideographs and punctuation one each."""
    return estimate_tokens(text)


def page_of(*blocks: tuple, number: int | None = None) -> ParsedPage:
    builder = PageBuilder()
    for kind, text, *level in blocks:
        builder.add(kind, text, *level)
    return builder.page(number)


def document(*pages: ParsedPage, title: str = "") -> ParsedDocument:
    return ParsedDocument("text", title, pages)


def prose(num_sentences: int, seed: int = 0) -> str:
    random_words = random.Random(seed)
    sentences = (
        " ".join(f"w{random_words.randrange(10_000)}" for _ in range(random_words.randrange(4, 13)))
        for _ in range(num_sentences)
    )
    return " ".join(f"{sentence.capitalize()}." for sentence in sentences)


def check(parsed: ParsedDocument, count_tokens=words, max_tokens: int = MAX, overlap: int = OVERLAP):
    """The chunks, after checking what must hold for every document."""
    chunks = chunk(parsed, count_tokens, max_tokens, overlap)
    pages = {page.number: page for page in parsed.pages}
    assert [one.ordinal for one in chunks] == list(range(len(chunks)))
    for one in chunks:
        assert one.text == pages[one.page].text[one.start : one.end]
        assert one.text == one.text.strip() != ""
        assert count_tokens(indexed_text(one)) <= max_tokens
    for number, page in pages.items():
        covered = {at for one in chunks if one.page == number for at in range(one.start, one.end)}
        lost = [at for at, sign in enumerate(page.text) if not sign.isspace() and at not in covered]
        assert not lost
    return chunks


def test_a_short_document_is_one_chunk():
    (one,) = check(document(page_of(("paragraph", "One."), ("paragraph", "Two."))))
    assert one.text == "One.\n\nTwo."
    assert one.heading == ""


def test_an_empty_page_gives_no_chunk():
    assert chunk(document(ParsedPage(1, " \n ", ())), words, MAX, OVERLAP) == []


def test_a_heading_begins_a_chunk_and_stays_with_what_follows():
    first, second = check(
        document(
            page_of(
                ("heading", "First", 1), ("paragraph", prose(6)), ("heading", "Second", 1), ("paragraph", prose(6, 1))
            )
        )
    )
    assert first.text.startswith("First\n\n")
    assert second.text.startswith("Second\n\n")
    assert (first.heading, second.heading) == ("First", "Second")


def test_the_heading_path_follows_the_levels_from_page_to_page():
    chunks = check(
        document(
            page_of(("heading", "Chapter", 1), ("heading", "Section", 2), ("paragraph", prose(5)), number=1),
            page_of(("paragraph", prose(5, 1)), number=2),
            page_of(("heading", "Other", 1), ("paragraph", prose(5, 2)), number=3),
            title="Book",
        )
    )
    assert [one.heading for one in chunks] == [
        "Book › Chapter › Section",
        "Book › Chapter › Section",
        "Book › Other",
    ]
    assert [one.page for one in chunks] == [1, 2, 3]


def test_a_title_that_is_also_the_first_heading_is_said_once():
    (one,) = check(document(page_of(("heading", "The Book", 1), ("paragraph", "Text.")), title="the book"))
    assert one.heading == "The Book"


def test_a_heading_label_stands_for_a_span_with_markup():
    text = "## Using `Arc`\n\nText."
    page = ParsedPage(None, text, (Block("heading", 0, 14, 2, "Using Arc"), Block("paragraph", 16, 21)))
    (one,) = check(document(page))
    assert one.heading == "Using Arc"
    assert one.text == text


def test_nested_headings_without_text_between_share_a_chunk_with_what_follows():
    (one,) = check(document(page_of(("heading", "Part", 1), ("heading", "Chapter", 2), ("paragraph", prose(4)))))
    assert one.text.startswith("Part\n\nChapter\n\n")
    assert one.heading == "Part › Chapter"


def test_paragraphs_stay_whole_when_they_fit():
    texts = [prose(4, seed) for seed in range(8)]
    chunks = check(document(page_of(*(("paragraph", text) for text in texts))))
    assert len(chunks) > 2
    for text in texts:
        assert any(text in one.text for one in chunks)


@pytest.mark.parametrize("kind", ["list_item", "table_row", "code"])
def test_items_rows_and_definitions_stay_whole_when_they_fit(kind):
    texts = [prose(3, seed) for seed in range(12)]
    chunks = check(document(page_of(*((kind, text) for text in texts))))
    assert len(chunks) > 2
    for text in texts:
        assert any(text in one.text for one in chunks)


def test_a_long_paragraph_is_cut_at_sentence_ends():
    chunks = check(document(page_of(("paragraph", prose(40)))))
    assert len(chunks) > 4
    assert all(one.text.endswith(".") for one in chunks)


def test_an_endless_sentence_is_cut_between_words():
    chunks = check(document(page_of(("paragraph", " ".join(f"word{n}" for n in range(500))))))
    assert len(chunks) > 8
    assert all(re.fullmatch(r"(word\d+ ?)+", one.text) for one in chunks)


def test_runs_of_spaces_end_up_in_no_chunk():
    check(document(page_of(("code", "    ".join(f"word{n}" for n in range(500))))))
    check(document(page_of(("code", "\n".join(f"    line {n}" for n in range(500))))))


def test_text_without_any_space_is_cut_hard():
    check(document(page_of(("paragraph", "x" * 5000))), count_tokens=pieces)


def test_a_megabyte_that_counts_as_one_token_is_cut_all_the_same():
    chunks = check(document(page_of(("paragraph", "x" * 2**20))))
    assert max(len(one.text) for one in chunks) <= MAX * 16


def test_chinese_is_cut_at_its_sentence_marks_and_then_by_characters():
    sentence = "线程之间共享状态需要互斥锁来保护数据。"
    chunks = check(document(page_of(("paragraph", sentence * 30))), count_tokens=pieces)
    assert len(chunks) > 8
    assert all(one.text.endswith("。") for one in chunks)
    check(document(page_of(("paragraph", "线" * 3000))), count_tokens=pieces)


def test_what_stands_between_blocks_counts_when_a_chunk_holds_both_sides():
    first, hidden, second = prose(5), f"<!-- {'note ' * 40} -->", prose(5, 1)
    text = f"{first}\n\n{hidden}\n\n{second}"
    start = len(text) - len(second)
    blocks = (Block("paragraph", 0, len(first)), Block("paragraph", start, len(text)))
    chunks = chunk(document(ParsedPage(None, text, blocks)), words, MAX, OVERLAP)
    assert [one.text for one in chunks] == [first, second]
    short = ParsedPage(None, "One.\n\n<!-- x -->\n\nTwo.", (Block("paragraph", 0, 4), Block("paragraph", 18, 22)))
    assert [one.text for one in chunk(document(short), words, MAX, OVERLAP)] == [short.text]


def test_code_is_cut_at_blank_lines_and_then_at_lines():
    functions = [f"def f{n}():\n" + "".join(f"    call_{n}_{line}()\n" for line in range(10)) for n in range(20)]
    chunks = check(document(page_of(("code", "\n".join(functions)))), count_tokens=pieces, max_tokens=120)
    assert all(one.text.startswith(("def", "    call", "call")) for one in chunks)
    assert sum(one.text.startswith("def") for one in chunks) > len(chunks) / 2


def test_an_accent_is_never_cut_from_its_letter():
    chunks = check(document(page_of(("paragraph", "e\u0301" * 2000))), count_tokens=pieces)
    assert not any(one.text.startswith("\u0301") for one in chunks)


def test_neighbours_within_a_section_overlap_a_little():
    chunks = check(document(page_of(("paragraph", prose(60)))))
    for first, second in itertools.pairwise(chunks):
        shared = first.text[second.start - first.start :]
        assert 0 < words(shared) <= OVERLAP
        assert first.text.endswith(shared)
        assert second.text.startswith(shared)


def test_without_overlap_nothing_is_said_twice():
    chunks = check(document(page_of(("paragraph", prose(60)))), overlap=0)
    assert all(first.end <= second.start for first, second in itertools.pairwise(chunks))


def test_different_sections_and_pages_do_not_overlap():
    chunks = check(
        document(
            page_of(("heading", "A", 1), ("paragraph", prose(6)), ("heading", "B", 1), ("paragraph", prose(6, 1))),
        )
    )
    assert chunks[0].end <= chunks[1].start


def test_small_sections_of_one_parent_share_a_chunk_under_it():
    questions = [block for n in range(3) for block in (("heading", f"Q{n}", 2), ("paragraph", f"Answer number {n}."))]
    (one,) = check(document(page_of(("heading", "Questions", 1), *questions)))
    assert one.heading == "Questions"


def test_small_sections_of_different_parents_stay_apart():
    chunks = check(
        document(
            page_of(
                ("heading", "A", 1),
                ("heading", "A1", 2),
                ("paragraph", "Small."),
                ("heading", "B", 1),
                ("heading", "B1", 2),
                ("paragraph", "Small too."),
            )
        )
    )
    assert [one.heading for one in chunks] == ["A › A1", "B › B1"]


def test_the_last_lines_of_a_section_join_the_next_one_on_the_page():
    chunks = check(
        document(
            page_of(("heading", "Old", 1), ("heading", "Older", 2), ("paragraph", prose(6)), number=1),
            page_of(("paragraph", "The end."), ("heading", "New", 1), ("paragraph", prose(4, 1)), number=2),
        )
    )
    assert [(one.page, one.heading) for one in chunks] == [(1, "Old › Older"), (2, "New")]
    assert chunks[1].text.startswith("The end.")


def test_a_heading_at_the_foot_of_a_page_joins_what_stands_above():
    chunks = check(document(page_of(("paragraph", "Body text."), ("heading", "Next chapter", 1), number=1)))
    assert [one.text for one in chunks] == ["Body text.\n\nNext chapter"]


def test_no_crumb_is_left_at_the_end_of_a_section():
    for seed in range(30):
        chunks = check(document(page_of(*(("paragraph", prose(3, seed * 100 + n)) for n in range(9)))), overlap=0)
        assert len(chunks) == 1 or min(words(one.text) for one in chunks) > MAX // 10


def test_long_headings_are_shortened_but_kept_for_showing():
    parts = [f"Heading number {n} with a great many words in it" for n in range(12)]
    blocks = [("heading", text, level) for level, text in enumerate(parts, start=1)]
    chunks = check(document(page_of(*blocks, ("paragraph", prose(4)))), max_tokens=240)
    assert chunks[-1].heading.startswith(parts[0])
    line = indexed_text(chunks[-1]).split("\n")[0]
    assert estimate_tokens(line) <= 40
    assert line.endswith(parts[-1])


def test_a_heading_is_shortened_from_its_outer_end_first():
    assert shortened("Book › Chapter") == "Book › Chapter"
    assert shortened(" › ".join(f"w{n}" * 3 for n in range(40))).endswith("w39w39w39")
    assert estimate_tokens(shortened("x " * 500)) == 40


def test_a_heading_that_the_tokenizer_spells_out_does_not_crowd_out_the_text():
    def spelled(text: str) -> int:
        return len("".join(text.split()))

    chunks = check(document(page_of(("heading", "عنوان " * 20, 1), ("paragraph", "نص " * 200))), count_tokens=spelled)
    assert all(one.heading == "" for one in chunks)


@pytest.mark.parametrize("seed", range(20))
def test_random_documents_keep_all_promises(seed: int):
    source = random.Random(seed)
    kinds = ["heading", "paragraph", "paragraph", "list_item", "table_row", "code"]
    pages = []
    for number in range(1, 4):
        blocks = []
        for _ in range(source.randrange(0, 25)):
            kind = source.choice(kinds)
            size = source.choice([1, 1, 2, 5, 30]) if kind != "heading" else 1
            text = "共享状态。" * size if source.random() < 0.2 else prose(size, source.randrange(10**6))
            blocks.append((kind, text, source.randrange(1, 5) if kind == "heading" else 0))
        pages.append(page_of(*blocks, number=number))
    check(document(*pages, title="Book"), count_tokens=source.choice([words, pieces]))


def test_every_text_is_counted_a_bounded_number_of_times():
    counted = 0

    def count(text: str) -> int:
        nonlocal counted
        counted += len(text)
        return words(text)

    text = "\n\n".join(prose(12, seed) for seed in range(400))
    page = ParsedPage(None, text, tuple(paragraphs(text)))
    chunk(document(page), count, MAX, OVERLAP)
    assert counted < 8 * len(text)


def test_one_endless_paragraph_takes_no_more_than_its_length():
    # Quadratic work would take hours here; the test's time limit is what fails it.
    text = "This is a sentence. " * 200_000
    chunks = chunk(document(ParsedPage(None, text, (Block("paragraph", 0, len(text) - 1),))), words, MAX, OVERLAP)
    assert sum(len(one.text) for one in chunks) >= len(text) - len(chunks)


def test_headings_go_on_over_pages_but_not_into_another_slide_or_sheet():
    first, second = page_of(("heading", "Costs", 1), ("paragraph", "One.")), page_of(("paragraph", "Two."))
    both = [replace(page, number=number) for number, page in enumerate((first, second), start=1)]
    assert [one.heading for one in check(document(*both))] == ["Costs", "Costs"]
    slides = [replace(page, place=f"slide {page.number}") for page in both]
    chunks = check(document(*slides))
    assert [(one.heading, one.place) for one in chunks] == [("Costs", "slide 1"), ("", "slide 2")]
