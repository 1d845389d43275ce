"""Tests for engine.library.parsers.pdf, pdf_layout and pdfium."""

from __future__ import annotations

import pytest

from engine.errors import DocumentEmpty, DocumentEncrypted, DocumentNeedsOcr, DocumentUnreadable
from engine.library.parsers import families, pdfium
from engine.library.parsers.limits import Limits
from engine.library.parsers.pdf_layout import TextLine, layout, lines
from engine.library.parsers.pdfium import PdfRefused
from engine.library.parsers.shapes import Box
from engine.library.parsers.view import view
from tests.helpers.parsing import said
from tests.helpers.pdf import Line, Page, form, pdf
from tests.helpers.shared_data import shared_file


def test_pages_have_numbers_and_text(parsed):
    document = parsed("a.pdf", pdf(["First page.", "Second page.\nWith two lines."], title="A Title"))
    assert (document.format, document.title) == ("pdf", "A Title")
    assert [(page.number, page.text) for page in document.pages] == [
        (1, "First page."),
        (2, "Second page. With two lines."),
    ]


def test_paragraphs_are_found_by_their_distance(parsed):
    page = Page([Line("One line"), Line("and another."), Line("Far below."), Line("Near that.")])
    page = Page([*page.lines[:2], Line("Far below", gap=30), Line("near that")])
    assert said(parsed("a.pdf", pdf([page]))) == [
        ("paragraph", "One line and another."),
        ("paragraph", "Far below near that"),
    ]


def test_large_letters_are_headings_by_rank_over_all_pages(parsed):
    body = [Line("This is the text of the page, which is longer than its headings."), Line("It goes on.")]
    document = parsed(
        "a.pdf",
        pdf(
            [
                Page([Line("Book", size=24), Line("Chapter", size=16, gap=30), *body]),
                Page([Line("Next Chapter", size=16), *body]),
            ]
        ),
    )
    levels = [(block.kind, block.level) for page in document.pages for block in page.blocks]
    assert levels == [("heading", 1), ("heading", 2), ("paragraph", 0), ("heading", 2), ("paragraph", 0)]


def test_words_broken_at_a_lines_end_are_joined(parsed):
    page = Page([Line("Sharing in-"), Line("formation is well-"), Line("known to the ABC-"), Line("Club, though.")])
    document = parsed("a.pdf", pdf([page]))
    assert document.pages[0].text == "Sharing information is well-known to the ABC-Club, though."


def test_a_hyphen_stays_where_the_page_writes_the_word_with_it(parsed):
    page = Page([Line("A short-term loan is short-"), Line("term by its name.")])
    assert parsed("a.pdf", pdf([page])).pages[0].text == "A short-term loan is short-term by its name."


def test_list_items_are_told_apart(parsed):
    page = Page([Line("You need:"), Line("1. a rope"), Line("2. a lamp")])
    assert said(parsed("a.pdf", pdf([page]))) == [
        ("paragraph", "You need:"),
        ("list_item", "1. a rope"),
        ("list_item", "2. a lamp"),
    ]


def test_the_empty_password_is_tried(parsed):
    assert parsed("a.pdf", pdf(["Open to all."], password="")).pages[0].text == "Open to all."


def test_another_password_is_needed(parsed):
    with pytest.raises(DocumentEncrypted, match="password"):
        parsed("a.pdf", pdf(["Secret."], password="letmein"))


def test_pictures_without_text_need_ocr(parsed):
    with pytest.raises(DocumentNeedsOcr):
        parsed("a.pdf", pdf([Page(has_picture=True), Page([Line("p. 2")], has_picture=True)]))


def test_one_page_of_text_makes_a_scanned_document_readable(parsed):
    document = parsed("a.pdf", pdf([Page(has_picture=True), "This page has enough text to be read."]))
    assert [bool(page.text) for page in document.pages] == [False, True]


def test_no_text_and_no_pictures_is_empty(parsed):
    with pytest.raises(DocumentEmpty):
        parsed("a.pdf", pdf([Page(), Page()]))


@pytest.mark.parametrize("torn", [b"%PDF-1.7\n" + b"garbage " * 99, b"%PDF-1.4\n%%EOF", b"%PDF-"])
def test_a_broken_file_says_so(parsed, torn: bytes):
    with pytest.raises(DocumentUnreadable, match="damaged"):
        parsed("a.pdf", torn)


def test_a_file_without_its_last_line_is_mended(parsed):
    whole = pdf([f"Page {number}" for number in range(1, 9)])
    assert parsed("a.pdf", whole[: whole.index(b"startxref")]).pages[0].text == "Page 1"


def line(text: str, top: float, left: float = 0.0, size: float = 10.0, right: float | None = None) -> TextLine:
    box = Box(left, top - size, left + 5 * len(text) if right is None else right, top)
    return TextLine(text, range(len(text)), box, size)


def test_an_exponent_stays_on_its_line():
    page = layout([line("f", 100, right=10), line("-1", 101, left=11, size=6), line("(V) is open", 100, left=22)])
    assert page.text == "f -1 (V) is open"


def test_a_jump_upwards_begins_a_column():
    page = layout([line("left above", 100), line("left below", 88), line("right above", 100, left=200)])
    assert [page.text[p.start : p.end] for p in page.paragraphs] == ["left above left below", "right above"]


def test_an_indented_line_after_a_full_stop_begins_a_paragraph():
    page = layout([line("The end of one.", 100), line("The next one begins", 88, left=15), line("here.", 76)])
    assert [page.text[p.start : p.end] for p in page.paragraphs] == ["The end of one.", "The next one begins here."]


def test_lines_of_ideographs_are_joined_without_a_space():
    assert layout([line("共享状", 100), line("态并发", 88)]).text == "共享状态并发"


def test_signs_are_read_as_people_read_them():
    signs = "e\ufb03cient\xa0\ud835\udc00 so\xadft\0"
    (one,) = lines(signs, lambda index: Box(index, 0, index + 1, 10))
    assert one.text == "efficient \U0001d400 soft"
    assert [signs[index] for index in one.indices] == list("e") + ["\ufb03"] * 3 + list("cient\xa0\ud835 soft")


def test_a_span_leads_back_to_its_characters():
    signs = "First line\r\nsecond ha\x02lf of it\r\n\r\nThird."
    boxes = {"F": 100.0, "s": 88.0, "l": 76.0, "T": 40.0}
    starts = [0, 12, 22, 34]

    def box(index: int) -> Box:
        row = max(start for start in starts if start <= index)
        top = boxes[signs[row]]
        return Box(index - row, top - 10, index - row + 1, top)

    page = layout(list(lines(signs, box)))
    assert page.text == "First line second half of it\n\nThird."
    for word in ("First", "line second", "half", "it\n\nThird"):
        start = page.text.index(word)
        first, count = page.characters(start, start + len(word)) or (0, 0)
        assert signs[first] == word[0]
        assert signs[first + count - 1] == word[-1]
    assert page.characters(28, 30) is None


@pytest.mark.parametrize("name", ["r2-user", "r3-user", "r4-user", "r4-aes-user", "r5-user", "r6-user"])
def test_every_revision_of_encryption_opens_with_the_password(name):
    path = shared_file(f"docs/pypdf/encryption/{name}-password.pdf")

    with pytest.raises(DocumentEncrypted, match="needs a password"):
        families.parse(path, Limits())
    with pytest.raises(DocumentEncrypted, match=r"^The password does not open it\."):
        families.parse(path, Limits(passwords=("wrong",)))

    document = families.parse(path, Limits(passwords=("wrong", "asdfzxcv")))
    assert document.pages[0].text.startswith("pdf encryption test")


@pytest.mark.parametrize("password", ["foo", "bar"])
def test_the_owners_password_opens_a_pdf_as_the_users_does(password):
    path = shared_file("docs/pypdf/encryption/r6-both-passwords.pdf")

    assert families.parse(path, Limits(passwords=(password,))).pages[0].text.startswith("pdf encryption test")


BODY = [Line("The first line of a paragraph in the usual size, which goes on", gap=40), Line("in a second line.")]


def headings(document):
    return [
        (block.level, page.text[block.start : block.end])
        for page in document.pages
        for block in page.blocks
        if block.kind == "heading"
    ]


def test_bold_words_by_themselves_are_a_heading_below_the_larger_ones(parsed):
    page = Page([Line("Report", size=20), *BODY, Line("Findings", is_bold=True, gap=40), *BODY])
    assert headings(parsed("a.pdf", pdf([page]))) == [(1, "Report"), (2, "Findings")]


def test_bold_labels_and_sentences_are_no_headings(parsed):
    page = Page([Line("Note:", is_bold=True), *BODY, Line("Never do this.", is_bold=True, gap=40), *BODY, *BODY, *BODY])
    assert headings(parsed("a.pdf", pdf([page]))) == []


def test_where_all_is_bold_bold_means_nothing(parsed):
    lines = [Line(f"Item number {index}", is_bold=True, gap=40) for index in range(5)]
    assert headings(parsed("a.pdf", pdf([Page(lines)]))) == []


NUMBERS = ["", "one", "two", "three", "four", "five", "six"]


def running(number: int) -> Page:
    text = f"What page {NUMBERS[number]} says about it all."
    return Page([Line("Annual report"), Line(text, gap=60), Line(f"{number} of 6", gap=60)])


def kept(document):
    return [[text for _, text in said(document, index)] for index in range(len(document.pages))]


def test_running_heads_are_kept_once_and_stay_in_the_text(parsed):
    document = parsed("a.pdf", pdf([running(number) for number in range(1, 7)]))
    assert kept(document)[0] == ["Annual report", "What page one says about it all.", "1 of 6"]
    assert kept(document)[1] == ["What page two says about it all."]
    assert document.pages[1].text == "Annual report\n\nWhat page two says about it all.\n\n2 of 6"


def test_what_numbers_tell_on_each_page_is_no_running_head(parsed):
    totals = [125, 98, 310, 77, 1204, 56]
    pages = [Page([Line("The bill"), Line(f"Text {NUMBERS[at]}.", gap=60), Line(f"Total due: {total} EUR", gap=60)])
             for at, total in enumerate(totals, start=1)]  # fmt: skip
    texts = [text for page in kept(parsed("a.pdf", pdf(pages))) for text in page]
    assert [f"Total due: {total} EUR" in texts for total in totals] == [True] * 6
    assert texts.count("The bill") == 1


@pytest.mark.parametrize(
    ("line", "is_kept"),
    [
        ("Period: {:02}/2024", True),
        ("Invoice no. 10{}", True),
        ("Page {} of 6", False),
        ("The report \u2013 {}", False),
        ("{} | The report", False),
        ("The report | {} | Confidential", False),
        ("Slide {} - The report", False),
    ],
)
def test_a_number_that_grows_counts_pages_only_where_such_numbers_stand(parsed, line: str, is_kept: bool):
    pages = [Page([Line(line.format(at)), Line(f"Text {NUMBERS[at]}.", gap=60)]) for at in range(1, 7)]
    texts = [text for page in kept(parsed("a.pdf", pdf(pages))) for text in page]
    assert len(texts) == (12 if is_kept else 7)


def test_a_sign_for_numbers_is_no_number(parsed):
    pages = [Page([Line("#" if at == 3 else str(at)), Line(f"Text {NUMBERS[at]}.", gap=60)]) for at in range(1, 7)]
    assert len(parsed("a.pdf", pdf(pages)).pages) == 6


def test_pages_counted_by_roman_numbers_have_running_heads(parsed):
    numbers = ["ii", "iii", "iv", "v", "vi", "vii"]
    pages = [Page([Line(f"Preface {number}"), Line(f"Text {NUMBERS[at]}.", gap=60)])
             for at, number in enumerate(numbers, start=1)]  # fmt: skip
    texts = [text for page in kept(parsed("a.pdf", pdf(pages))) for text in page]
    assert sum("Preface" in text for text in texts) == 1


def test_what_repeats_on_few_pages_is_no_running_head(parsed):
    document = parsed("a.pdf", pdf([running(number) for number in range(1, 4)]))
    assert all(len(texts) == 3 for texts in kept(document))


def test_a_chapters_running_head_is_left_out_on_its_pages(parsed):
    names = ["Tea"] * 5 + ["Rice"] * 5 + ["Salt"] * 5
    pages = [Page([Line(name), Line(f"Text {'abcdefghijklmno'[at]} of it.", gap=60)]) for at, name in enumerate(names)]
    texts = [text for page in kept(parsed("a.pdf", pdf(pages))) for text in page]
    assert [texts.count(name) for name in ("Tea", "Rice", "Salt")] == [1, 1, 1]


def test_the_large_titles_of_slides_are_no_running_heads(parsed):
    pages = [Page([Line(f"Question {number}", size=28), *BODY]) for number in range(1, 7)]
    assert headings(parsed("a.pdf", pdf(pages))) == [(1, f"Question {number}") for number in range(1, 7)]


def test_a_page_of_nothing_but_a_running_head_keeps_it(parsed):
    document = parsed("a.pdf", pdf([Page([Line("This page was left blank on purpose.")])] * 6))
    assert kept(document) == [["This page was left blank on purpose."]] * 6


def test_what_was_filled_into_a_form_is_read(parsed, tmp_path):
    path = tmp_path / "a.pdf"
    document = parsed("a.pdf", form({"Name": "Ann Smith", "City": "Köln", "Street": ""}, ["Member"]))
    text = document.pages[0].text
    assert text == "Application for a library card.\n\nName: Ann Smith\n\nCity: Köln\n\nMember: yes"

    start = text.index("Köln")
    ((x0, y0, x1, y1),) = view(path, 1, start, start + 4, 400, Limits()).marks
    cited = view(path, 1, start, start + 4, 400, Limits(), text[start : start + 4])
    assert (cited.marks, cited.is_changed) == (((x0, y0, x1, y1),), False)
    assert (x0, x1) == pytest.approx((100 / 595, 300 / 595), abs=0.01)
    assert (y0, y1) == pytest.approx((1 - 580 / 842, 1 - 560 / 842), abs=0.01)


def test_what_was_noted_on_a_page_is_read(parsed, tmp_path):
    notes = [
        ("FreeText", "The answer is 4711", "Bob"),
        ("Text", "Check the interest rate", "Ann"),
        ("Highlight", "Loan", "Ann"),
        ("Text", "", "Ann"),
    ]
    text = parsed("a.pdf", pdf([Page([Line("The terms of the loan.")], notes=notes)])).pages[0].text
    assert text == "The terms of the loan.\n\nThe answer is 4711\n\nComment by Ann: Check the interest rate"

    start = text.index("answer")
    ((x0, y0, x1, y1),) = view(tmp_path / "a.pdf", 1, start, start + 4, 400, Limits()).marks
    assert (x0, x1) == pytest.approx((100 / 595, 300 / 595), abs=0.01)
    assert (y0, y1) == pytest.approx((1 - 620 / 842, 1 - 600 / 842), abs=0.01)


def refuse(*_: object) -> None:
    raise PdfRefused("The PDF is damaged: its structure cannot be read.")


def test_what_pdfium_refuses_is_read_by_pypdf(parsed, tmp_path, monkeypatch):
    monkeypatch.setattr(pdfium, "_unlocked", refuse)
    document = parsed("a.pdf", pdf(["One page.", "Another page."], title="A Title"))
    assert (document.format, document.title) == ("pdf", "A Title")
    assert [(page.number, page.text) for page in document.pages] == [(1, "One page."), (2, "Another page.")]

    seen = view(tmp_path / "a.pdf", 2, 0, 7, 400, Limits())
    assert (seen.text, seen.mark_end, seen.image_png) == ("Another page.", 7, b"")


def test_pypdf_takes_passwords_too(parsed):
    limits = Limits(avoids_pdfium=True)
    with pytest.raises(DocumentEncrypted, match="needs a password"):
        parsed("a.pdf", pdf(["Secret."], password="sesame"), limits)
    limits = Limits(avoids_pdfium=True, passwords=("poppy", "sesame"))
    assert parsed("a.pdf", pdf(["Secret."], password="sesame"), limits).pages[0].text == "Secret."


def test_what_nobody_can_read_is_damaged(parsed):
    with pytest.raises(DocumentUnreadable, match="its structure cannot be read"):
        parsed("a.pdf", b"%PDF-1.7\nnothing more")
    with pytest.raises(DocumentUnreadable, match="damaged"):
        parsed("b.pdf", b"%PDF-1.7\nnothing more", Limits(avoids_pdfium=True))
