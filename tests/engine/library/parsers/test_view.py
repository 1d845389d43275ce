"""Tests for engine.library.parsers.view."""

from __future__ import annotations

import struct
import zlib
from email.message import EmailMessage
from pathlib import Path

import pytest
from openpyxl import Workbook

from engine.core import PageView, ParsedDocument, ParsedPage
from engine.errors import DocumentUnreadable
from engine.library.parsers import families
from engine.library.parsers.limits import Limits
from engine.library.parsers.shapes import Picture
from engine.library.parsers.view import MAX_PICTURE_PX, merged, place_of, png, text_view, view
from tests.helpers.pdf import Line, Page, pdf
from tests.helpers.recognising import FakeRecogniser, words


def pixels(image: bytes) -> tuple[int, int, list[bytes]]:
    """Width, height and rows of one of our PNGs (RGB, unfiltered)."""
    assert image.startswith(b"\x89PNG\r\n\x1a\n")
    width, height, depth, colour = struct.unpack(">IIBB", image[16:26])
    assert (depth, colour) == (8, 2)
    start = image.index(b"IDAT") + 4
    data = zlib.decompress(image[start : start + struct.unpack(">I", image[start - 8 : start - 4])[0]])
    step = width * 3 + 1
    return width, height, [data[at + 1 : at + step] for at in range(0, len(data), step)]


def seen(path: Path, word: str, page: int = 1, width_px: int = 600) -> PageView:
    """The view of a page with a word of its text marked."""
    text = families.parse(path, Limits()).pages[page - 1].text
    start = text.index(word)
    return view(path, page, start, start + len(word), width_px, Limits())


def darkness(image: bytes, mark: tuple[float, float, float, float]) -> tuple[float, float]:
    """The share of dark pixels inside a mark, and the share of all the page's dark pixels that it holds."""
    width, height, rows = pixels(image)
    x0, y0, x1, y1 = mark
    inside = total = 0
    for y, row in enumerate(rows):
        for x in range(width):
            if row[3 * x] < 128:
                total += 1
                inside += x0 * width <= x + 0.5 <= x1 * width and y0 * height <= y + 0.5 <= y1 * height
    return inside / max(1.0, (x1 - x0) * width * (y1 - y0) * height), inside / total


@pytest.mark.parametrize("rotation", [0, 90, 180, 270])
def test_a_mark_covers_the_word_on_the_picture(tmp_path: Path, rotation: int):
    path = tmp_path / "a.pdf"
    path.write_bytes(pdf(["Other page.", Page([Line("WORD", size=30)], rotation=rotation)]))
    page = seen(path, "WORD", page=2)
    assert (page.page, page.num_pages) == (2, 2)
    width, height, _ = pixels(page.image_png)
    assert (width > height) == (rotation in (90, 270))
    (mark,) = page.marks
    inside, share = darkness(page.image_png, mark)
    assert share > 0.95
    assert inside > 0.1


def test_a_span_over_several_lines_has_a_mark_on_each(tmp_path: Path):
    path = tmp_path / "a.pdf"
    path.write_bytes(pdf(["First line of the text\nsecond line of the text\nthird line of the text"]))
    page = seen(path, "line of the text second line of the text third")
    assert len(page.marks) == 3
    assert [mark[1] for mark in page.marks] == sorted(mark[1] for mark in page.marks)


def test_a_picture_is_as_wide_as_asked_but_never_huge(tmp_path: Path):
    path = tmp_path / "a.pdf"
    path.write_bytes(pdf(["Text."]))
    assert abs(pixels(view(path, 1, 0, 0, 333, Limits()).image_png)[0] - 333) <= 1
    width, height, _ = pixels(view(path, 1, 0, 0, 10**6, Limits()).image_png)
    assert max(width, height) <= MAX_PICTURE_PX + 1
    assert view(path, 1, 0, 0, 333, Limits()).marks == ()


def test_a_page_that_is_not_there_says_so(tmp_path: Path):
    path = tmp_path / "a.pdf"
    path.write_bytes(pdf(["Text."]))
    with pytest.raises(DocumentUnreadable, match="no page 7"):
        view(path, 7, 0, 0, 600, Limits())


def test_other_files_are_shown_as_a_window_of_their_text(tmp_path: Path):
    path = tmp_path / "a.txt"
    path.write_text("x" * 50_000 + "WORD" + "y" * 50_000)
    page = view(path, None, 50_000, 50_004, 600, Limits())
    assert (page.page, page.num_pages, page.image_png) == (None, 0, b"")
    assert page.text[page.mark_start - page.text_start : page.mark_end - page.text_start] == "WORD"
    assert len(page.text) == 40_004


def test_a_span_beyond_a_text_that_became_shorter_is_harmless(tmp_path: Path):
    path = tmp_path / "a.txt"
    path.write_text("Short now.")
    page = view(path, None, 900, 950, 600, Limits())
    assert page.text == "Short now."
    assert (page.mark_start, page.mark_end) == (10, 10)


def test_marks_side_by_side_become_one():
    assert merged([(0.1, 0.1, 0.2, 0.12), (0.205, 0.1, 0.3, 0.12), (0.1, 0.2, 0.2, 0.22)]) == (
        (0.1, 0.1, 0.3, 0.12),
        (0.1, 0.2, 0.2, 0.22),
    )


def test_a_png_holds_its_pixels():
    rows = (bytes((255, 0, 0, 0, 255, 0)), bytes((0, 0, 255, 9, 9, 9)))
    assert pixels(png(Picture(2, 2, 3, rows))) == (2, 2, list(rows))


def test_a_span_is_found_in_whatever_a_format_is_divided_into(tmp_path: Path):
    book = Workbook()
    book.active.append(("first", "sheet"))
    book.create_sheet("Costs").append(("rent", 1200))
    path = tmp_path / "a.xlsx"
    book.save(path)
    sheet = seen(path, "rent | 1200", page=2)
    assert (sheet.page, sheet.num_pages, sheet.place) == (2, 2, "sheet “Costs”")
    assert sheet.text[sheet.mark_start : sheet.mark_end] == "rent | 1200"
    message = EmailMessage()
    message["Subject"], message["From"] = "Rent", "ada@example.org"
    message.set_content("It is attached.")
    message.add_attachment(path.read_bytes(), maintype="x", subtype="x", filename="a.xlsx")
    mail = tmp_path / "a.eml"
    mail.write_bytes(message.as_bytes())
    attached = seen(mail, "rent | 1200", page=3)
    assert (attached.page, attached.place) == (3, "attachment “a.xlsx”, sheet “Costs”")
    assert attached.text[attached.mark_start : attached.mark_end] == "rent | 1200"


def cited(path: Path, words: str, page: int | None = None) -> tuple[int, int, str]:
    parsed = next(one for one in families.parse(path, Limits()).pages if one.number == page)
    start = parsed.text.index(words)
    return start, start + len(words), words


def test_what_was_cited_is_marked_where_it_stands_now(tmp_path: Path):
    path = tmp_path / "notes.md"
    path.write_text("# Notes\n\nThree months' notice.\n")
    start, end, words = cited(path, "Three months' notice.")
    path.write_text("# Notes\n\nA paragraph more, and\nThree  months'\nnotice.\n\nThe end.")
    page = view(path, None, start, end, 600, Limits(), words)
    marked = page.text[page.mark_start - page.text_start : page.mark_end - page.text_start]
    assert marked.split() == words.split()
    assert not page.is_changed


def test_of_several_places_the_nearest_to_the_old_one_is_marked(tmp_path: Path):
    path = tmp_path / "notes.txt"
    path.write_text("yes\n" + "word " * 50 + "\nyes\n" + "word " * 50 + "\nyes")
    text = families.parse(path, Limits()).pages[0].text
    page = view(path, None, text.rindex("yes") - 5, text.rindex("yes") - 2, 600, Limits(), "yes")
    assert page.mark_start == text.rindex("yes")


@pytest.mark.parametrize("between", ["---", "<!-- todo: rewrite this -->", '<a name="notice"></a>'])
def test_a_file_that_is_as_it_was_holds_what_was_cited_of_two_parts_with_markup_between(tmp_path: Path, between: str):
    path = tmp_path / "notes.md"
    path.write_text(f"# One\n\nThe first part.\n\n{between}\n\n## Two\n\nThe second part.\n")
    text = families.parse(path, Limits()).pages[0].text
    start, gap, end = text.index("The first"), text.index("The first part.") + 15, text.index("second part.") + 12
    after = text.index("Two")
    words = text[start:gap] + "\n\n" + " " * (after - gap - 2) + text[after:end]
    page = view(path, None, start, end, 600, Limits(), words)
    assert (page.is_changed, page.mark_start, page.mark_end) == (False, start, end)
    path.write_text(f"# Nought\n\nMore.\n\n# One\n\nThe first part.\n\n{between}\n\n## Two\n\nThe second part.\n")
    moved = view(path, None, start, end, 600, Limits(), words)
    assert not moved.is_changed
    assert moved.text[moved.mark_start : moved.mark_end].endswith("The second part.")


def test_a_text_that_ends_before_the_old_place_or_within_it_does_not_hold_what_was_cited():
    assert place_of("The notice", "xyz", 50, 60) is None
    assert place_of("The notice", "01234The no", 5, 15) is None


def test_a_page_that_is_shorter_than_the_one_cited_is_not_taken_for_it():
    text = "A long page of the lease, and The notice."
    start, end = text.index("The notice"), text.index("The notice") + 10
    document = ParsedDocument("pptx", "Lease", (ParsedPage(1, "Cover", ()), ParsedPage(2, text, ())))
    page = text_view(document, 1, start, end, "The notice")
    assert (page.page, page.is_changed, page.mark_start) == (2, False, start)


def test_what_lies_between_two_parts_may_begin_as_the_second_does():
    text = "First part.\n\n<!-- The rest is old -->\n\nThe second part."
    words = "First part.\n\n" + " " * 30 + "The second part."
    assert place_of(words, text, 5, 5 + len(words)) == (0, len(text))


def test_a_table_of_wide_columns_whose_last_word_has_changed_is_given_up_at_once():
    # Dividing what lies between its words in all ways takes longer than anybody has.
    rows = ["|   " + "   |   ".join("a" for _ in range(6)) + "   |" for _ in range(40)]
    words = "\n".join(rows) + "\nThe sum"
    assert place_of(words, "\n".join(rows) + "\nThe total", 0, len(words)) is None
    assert place_of(words, "New.\n" + words, 0, len(words)) == (5, 5 + len(words))


def test_nothing_is_marked_of_a_file_that_no_longer_holds_what_was_cited(tmp_path: Path):
    path = tmp_path / "notes.md"
    path.write_text("Three months' notice, and so on for some time.")
    start, end, words = cited(path, "Three months' notice")
    path.write_text("Six months' notice, and so on for some time.")
    page = view(path, None, start, end, 600, Limits(), words)
    assert (page.is_changed, page.mark_start, page.mark_end) == (True, 0, 0)
    assert not view(path, None, start, end, 600, Limits()).is_changed


def test_what_was_cited_of_a_pdf_is_found_on_another_page(tmp_path: Path):
    path = tmp_path / "a.pdf"
    path.write_bytes(pdf(["First page.", "Three months' notice."]))
    start, end, words = cited(path, "months' notice", 2)
    path.write_bytes(pdf(["A new page.", "First page.", "Another one.", "And so: Three months' notice."]))
    page = view(path, 2, start, end, 600, Limits(), words)
    assert (page.page, page.num_pages, len(page.marks), page.is_changed) == (4, 4, 1, False)
    path.write_bytes(pdf(["Something else."]))
    page = view(path, 2, start, end, 600, Limits(), words)
    assert (page.page, page.num_pages, page.marks, page.is_changed) == (1, 1, (), True)


SENTENCES = [f"Sentence number {number} says something about the lease and its end." for number in range(12)]


def viewed_after(tmp_path: Path, cited: str, start: int, recognised: str) -> PageView:
    """How a passage is shown of a page of which one sentence and a picture are left."""
    path = tmp_path / "a.pdf"
    path.write_bytes(pdf([Page([Line(SENTENCES[0])], shades=(90,))]))
    return view(path, 1, start, start + len(cited), 400, Limits(ocr=FakeRecogniser([words(recognised)])), cited)


def test_what_a_page_no_longer_says_is_not_taken_for_what_its_picture_says(tmp_path: Path):
    text = "\n".join(SENTENCES)
    start = text.index(SENTENCES[9])
    seen = viewed_after(tmp_path, SENTENCES[9], start, "Opening hours of the museum in winter")
    assert (seen.is_changed, seen.marks) == (True, ())


def test_what_a_picture_says_is_marked_though_a_word_is_recognised_otherwise(tmp_path: Path):
    start = len(SENTENCES[0]) + 2
    seen = viewed_after(tmp_path, "Opening hours of the museum", start, "Opening h0urs of the museum")
    assert not seen.is_changed
    assert seen.marks
