"""Tests for engine.library.parsers.ocr and tesseract, and for scanned pages of PDFs. Nothing here needs Tesseract
but what says so."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from engine.errors import DocumentEmpty, DocumentNeedsOcr, DocumentUnreadable
from engine.library.parsers import ocr, patience, tesseract
from engine.library.parsers.limits import Limits
from engine.library.parsers.pool import ParserPool, PoolLimits
from engine.library.parsers.shapes import Picture
from engine.library.parsers.tesseract import Tesseract, chosen, words_of
from engine.library.parsers.view import view
from tests.helpers.parsing import said
from tests.helpers.pdf import Line, Page, pdf
from tests.helpers.recognising import FakeRecogniser, words

SCAN = Page(has_picture=True)
WHITE = Picture(4, 2, 1, (b"\xff" * 4, b"\xff" * 4))
LETTER = words("The notice period\nis three months.", "Two rents are the deposit.")
TEXT = "The notice period is three months.\n\nTwo rents are the deposit."


# --- words become a page ---


def test_lines_are_joined_to_paragraphs():
    assert ocr.laid_out(LETTER).text == TEXT


def test_a_word_that_is_divided_at_the_end_of_a_line_is_joined():
    assert ocr.laid_out(words("The quick depart-\nment store of well-\nknown things")).text == (
        "The quick department store of well-known things"
    )


def test_the_items_of_a_list_stand_alone():
    layout = ocr.laid_out(words("To buy:\n- tea\n- rice and\nbeans"))
    assert layout.text == "To buy:\n\n- tea\n\n- rice and beans"
    assert [paragraph.kind for paragraph in layout.paragraphs] == ["paragraph", "list_item", "list_item"]


def test_a_span_is_marked_at_its_words():
    start = TEXT.index("three")
    assert ocr.marks(LETTER, start, start + len("three months")) == [LETTER[4].box, LETTER[5].box]
    assert ocr.marks(LETTER, 3, 3) == []


# --- scanned pages ---


def test_a_scanned_page_is_read_by_ocr_and_the_others_as_they_are(parsed):
    recogniser = FakeRecogniser([LETTER])
    document = parsed("a.pdf", pdf(["A page with enough text.", SCAN]), Limits(ocr=recogniser))

    assert [page.text for page in document.pages] == ["A page with enough text.", TEXT]
    assert (document.remark, document.needs, len(recogniser.seen)) == ("", "", 1)
    assert (recogniser.seen[0].width, recogniser.seen[0].num_channels) == (2480, 1)
    assert said(document, 1) == [("paragraph", part) for part in TEXT.split("\n\n")]


def test_without_ocr_a_scan_says_what_it_needs(parsed):
    for limits in (Limits(), Limits(ocr=FakeRecogniser(is_ready=False))):
        with pytest.raises(DocumentNeedsOcr, match=r"it is not set up\. Install Tesseract"):
            parsed("a.pdf", pdf([SCAN, SCAN]), limits)


def test_without_ocr_the_pages_with_text_are_read_and_the_rest_is_told(parsed):
    document = parsed("a.pdf", pdf(["A page with enough text.", SCAN, SCAN]))

    assert [page.text for page in document.pages] == ["A page with enough text.", "", ""]
    assert document.remark.startswith("2 of its 3 pages are pictures and were left out. Install Tesseract")
    assert document.needs == "ocr"


def test_a_page_that_ocr_gives_up_on_is_told_and_not_tried_for_ever(parsed):
    recogniser = FakeRecogniser([None, LETTER])
    document = parsed("a.pdf", pdf([SCAN, SCAN]), Limits(ocr=recogniser))

    assert [page.text for page in document.pages] == ["", TEXT]
    assert (document.remark, document.needs) == ("OCR gave up on 1 of its 2 pages.", "")
    with pytest.raises(DocumentUnreadable, match="gave up"):
        parsed("b.pdf", pdf([SCAN]), Limits(ocr=FakeRecogniser([None])))


def test_pages_in_which_ocr_found_nothing_are_called_so(parsed):
    with pytest.raises(DocumentEmpty, match=r"^The pages are pictures, and OCR found no text in them") as raised:
        parsed("a.pdf", pdf([SCAN, SCAN]), Limits(ocr=FakeRecogniser([(), ()])))
    assert "library.ocr_languages" in raised.value.way_out
    with pytest.raises(DocumentEmpty, match="in the pictures on 1 of its 2 pages; the others hold none"):
        parsed("b.pdf", pdf([SCAN, Page([])]), Limits(ocr=FakeRecogniser([()])))


def test_pages_without_pictures_are_empty_whoever_could_read_pictures(parsed):
    with pytest.raises(DocumentEmpty, match=r"^There is no text on the pages of the PDF"):
        parsed("a.pdf", pdf([Page([])]), Limits(ocr=FakeRecogniser([])))


def test_a_stamp_on_a_picture_without_writing_is_kept(parsed):
    stamped = Page([Line("Page 7 of 9")], has_picture=True)
    document = parsed("a.pdf", pdf(["A page with enough text.", stamped]), Limits(ocr=FakeRecogniser([()])))
    assert document.pages[1].text == "Page 7 of 9"


COVER = Page([Line("A typed letter that comes with what has been scanned, which needs no OCR.")])
STAMP = "Case 1:20-cv-01234 Document 45-3 Filed 03/04/21 Page {} of 5"


def stamped(number: int) -> Page:
    return Page([Line(STAMP.format(number), size=8, gap=760)], is_scan=True)


def test_a_scan_with_a_stamp_is_read_by_ocr_below_the_stamp(tmp_path: Path, parsed):
    path = tmp_path / "a.pdf"
    # OCR sees the stamp, too, which stands at the foot.
    on_stamp = ocr.Word("Gase", (0.13, 0.981, 0.18, 0.988), 9, 0)
    limits = Limits(ocr=FakeRecogniser([(*LETTER, on_stamp)]))
    document = parsed("a.pdf", pdf([stamped(1)]), limits)
    text = document.pages[0].text
    assert text == f"{STAMP.format(1)}\n\n{TEXT}"
    assert (document.remark, document.needs) == ("", "")

    start = text.index("Two")
    ((x0, y0, x1, y1),) = view(path, 1, start, start + 9, 400, limits).marks
    assert (x0, y0, x1, y1) == (*LETTER[6].box[:2], *LETTER[7].box[2:])
    on_both = view(path, 1, text.index("of 5"), text.index("notice"), 400, limits).marks
    assert [round(mark[1], 2) for mark in on_both] == [0.98, 0.1]


def test_without_ocr_scans_with_a_stamp_are_told_of_like_others(parsed):
    with pytest.raises(DocumentNeedsOcr):
        parsed("a.pdf", pdf([stamped(number) for number in range(1, 4)]))
    document = parsed("b.pdf", pdf([COVER, *(stamped(number) for number in range(1, 4))]))
    assert document.remark.startswith("3 of its 4 pages are pictures and were left out.")
    assert (document.needs, document.pages[3].text) == ("ocr", STAMP.format(3))


def test_two_lines_on_a_picture_are_read_without_ocr(parsed):
    said = ("Summer party on 12 July in the garden", "Please bring a salad and tell Anna by Friday")
    flyer = Page([Line(text, size=12) for text in said], is_scan=True)
    document = parsed("a.pdf", pdf([flyer]))
    assert (document.pages[0].text, document.needs) == (" ".join(said), "ocr")
    with pytest.raises(DocumentNeedsOcr):
        parsed("b.pdf", pdf([stamped(1)]))


@pytest.mark.parametrize(
    "page",
    [
        # A title on a picture that fills a slide, its words above others, what a program has read in a scan.
        Page([Line("The lakes of the north in summer", size=36)], is_scan=True),
        Page([Line(f"What there is to say, part {number} of it.", size=9) for number in range(3)], is_scan=True),
        Page([Line("The last line of a chapter.")], is_scan=True, has_hidden_text=True),
        Page([Line("The words below a picture of something.", size=9)], has_picture=True),
    ],
)
def test_short_texts_on_pictures_that_are_no_stamps_are_the_page(parsed, page: Page):
    document = parsed("a.pdf", pdf([COVER, page]), Limits(ocr=FakeRecogniser([LETTER])))
    assert TEXT not in document.pages[1].text
    assert parsed("b.pdf", pdf([page])).remark == ""


def test_different_words_on_pictures_are_worth_keeping(parsed):
    pages = [Page([Line(f"{what} at the lake, our summer", size=9)], is_scan=True) for what in ("Ann", "Bob")]
    document = parsed("a.pdf", pdf(pages))
    assert document.pages[1].text == "Bob at the lake, our summer"
    assert document.needs == "ocr"


def test_letters_that_are_drawn_are_read_by_ocr(parsed):
    drawn = Page(num_drawn=60)
    assert parsed("a.pdf", pdf([drawn]), Limits(ocr=FakeRecogniser([LETTER]))).pages[0].text == TEXT
    with pytest.raises(DocumentNeedsOcr):
        parsed("b.pdf", pdf([drawn]))
    with pytest.raises(DocumentEmpty, match="no text on the pages"):
        parsed("c.pdf", pdf([Page(num_drawn=3)]))


def test_recognised_text_makes_no_headings_and_hides_none(parsed):
    page = Page([Line("Chapter One", size=24), Line("The body of the text is set in a smaller size here.", gap=40)])
    document = parsed("a.pdf", pdf([page, SCAN]), Limits(ocr=FakeRecogniser([LETTER])))
    assert [block.kind for block in document.pages[0].blocks] == ["heading", "paragraph"]
    assert {block.kind for block in document.pages[1].blocks} == {"paragraph"}


def test_a_citation_in_a_scan_is_marked_on_its_picture(tmp_path: Path):
    path = tmp_path / "a.pdf"
    path.write_bytes(pdf(["A page with enough text.", SCAN]))
    start = TEXT.index("Two")

    seen = view(path, 2, start, start + 9, 400, Limits(ocr=FakeRecogniser([LETTER])))

    assert seen.image_png.startswith(b"\x89PNG")
    ((x0, y0, x1, y1),) = seen.marks
    assert (x0, y0) == LETTER[6].box[:2]
    assert (x1, y1) == LETTER[7].box[2:]


def test_a_scan_is_shown_without_marks_where_nobody_can_read_it(tmp_path: Path):
    path = tmp_path / "a.pdf"
    path.write_bytes(pdf([SCAN]))
    seen = view(path, 1, 0, 9, 400, Limits())
    assert (seen.image_png[:4], seen.marks) == (b"\x89PNG", ())


# --- pictures among text ---

PROSE = Line("A page that has a text of its own, and a picture of a letter below it.")
OTHER = words("The meter stood at four thousand units.")


def beside(*shades: int, **more: object) -> Page:
    return Page([PROSE], shades=shades, **more)


def test_pictures_among_text_are_read_below_it(parsed):
    recogniser = FakeRecogniser([LETTER, OTHER])
    document = parsed("a.pdf", pdf(["A page with enough text.", beside(10, 20)]), Limits(ocr=recogniser))
    assert [text for _, text in said(document, 1)] == [
        PROSE.text, *TEXT.split("\n\n"), "The meter stood at four thousand units.",
    ]  # fmt: skip
    assert (document.remark, document.needs) == ("", "")
    # Only the picture is looked at, with 300 dots an inch.
    assert [abs(seen.width - 1250) < 5 and abs(seen.height - 417) < 5 for seen in recogniser.seen] == [True, True]
    assert {shade for seen in recogniser.seen for shade in (seen.rows[200][600],)} == {10, 20}


def test_pictures_among_text_are_no_reason_to_need_ocr(parsed):
    for limits in (Limits(), Limits(ocr=FakeRecogniser(is_ready=False))):
        document = parsed("a.pdf", pdf([beside(10)]), limits)
        assert (document.pages[0].text, document.remark, document.needs) == (PROSE.text, "", "")


def test_a_picture_among_text_is_read_once_and_one_on_many_pages_never(parsed):
    recogniser = FakeRecogniser([LETTER])
    document = parsed("a.pdf", pdf([beside(10, 20), *[beside(10)] * 3, beside(20)]), Limits(ocr=recogniser))
    assert [TEXT in page.text for page in document.pages] == [True, False, False, False, False]
    assert len(recogniser.seen) == 1


def test_pictures_on_which_text_is_set_were_read_by_others(parsed):
    hidden = [Line("What a program has read in the scan of a letter.", gap=600)]
    recogniser = FakeRecogniser([LETTER])
    for page in (Page([PROSE, *hidden], shades=[10], has_hidden_text=True), Page([PROSE, *hidden], shades=[10])):
        assert TEXT not in parsed("a.pdf", pdf([page]), Limits(ocr=recogniser)).pages[0].text
    assert recogniser.seen == []


def test_a_picture_among_text_with_a_word_or_two_adds_nothing(parsed):
    document = parsed("a.pdf", pdf([beside(10)]), Limits(ocr=FakeRecogniser([words("Fig. 1")])))
    assert document.pages[0].text == PROSE.text


def test_pictures_among_text_that_ocr_gives_up_on_are_told_and_not_tried_for_ever(parsed):
    recogniser = FakeRecogniser([None])
    document = parsed("a.pdf", pdf([beside(shade) for shade in range(8)]), Limits(ocr=recogniser))
    assert (document.remark, document.needs) == ("OCR gave up on 3 pictures in it.", "")
    assert len(recogniser.seen) == 3


def test_feet_of_pages_are_known_above_what_pictures_say(parsed):
    pages = [
        Page([Line(f"Chapter text, which is part {number} of it all."), Line(f"Report of the mill {number}", gap=300)],
             shades=[10 + number])
        for number in range(1, 7)
    ]  # fmt: skip
    letters = [f"The {animal} stands at the mill and waits." for animal in ("ox", "ass", "cat", "dog", "hen", "goat")]
    document = parsed("a.pdf", pdf(pages), Limits(ocr=FakeRecogniser([*map(words, letters)])))
    texts = [text for page in range(1, 6) for _, text in said(document, page)]
    assert not any(text.startswith("Report of the mill") for text in texts)
    assert set(letters[1:]) < set(texts)


def test_a_citation_in_a_picture_among_text_is_marked_on_it(tmp_path: Path, parsed):
    path = tmp_path / "a.pdf"
    limits = Limits(ocr=FakeRecogniser([LETTER]))
    text = parsed("a.pdf", pdf([beside(10), beside(20)]), limits).pages[1].text
    start = text.index("Two")
    for cited in ("", text[start : start + 9]):
        seen = view(path, 2, start, start + 9, 400, limits, cited)
        assert (seen.page, seen.is_changed) == (2, False)
        ((x0, y0, x1, y1),) = seen.marks
        # The picture stands from 100 to 400 points across and from 642 to 742 down, on a page of 595 by 842.
        assert (x0, x1) == pytest.approx(((100 + 300 * 0.1) / 595, (100 + 300 * 0.29) / 595), abs=0.01)
        assert (y0, y1) == pytest.approx(((642 + 100 * 0.16) / 842, (642 + 100 * 0.18) / 842), abs=0.01)


def test_a_citation_of_the_text_beside_a_picture_waits_for_no_ocr(tmp_path: Path):
    path = tmp_path / "a.pdf"
    path.write_bytes(pdf([beside(10)]))
    recogniser = FakeRecogniser([LETTER])
    seen = view(path, 1, 0, 11, 400, Limits(ocr=recogniser), "A page that")
    assert len(seen.marks) == 1
    assert recogniser.seen == []


# --- Tesseract's tables and languages ---

TABLE = "\n".join(
    [
        "level\tpage_num\tblock_num\tpar_num\tline_num\tword_num\tleft\ttop\twidth\theight\tconf\ttext",
        "1\t1\t0\t0\t0\t0\t0\t0\t100\t50\t-1\t",
        "5\t1\t1\t1\t1\t1\t10\t5\t20\t10\t96.1\tThe",
        "5\t1\t1\t1\t1\t2\t40\t5\t30\t10\t12.0\tdoubtful",
        '5\t1\t1\t2\t1\t1\t10\t25\t20\t10\t80\t"quoted',
        "5\t1\t2\t1\t1\t1\t10\t35\t20\t10\t9\tspeck",
        "5\t1\t2\t1\t2\t1\t10\t45\t20\t10\t95\t ",
    ]
)


def test_words_are_taken_from_lines_that_are_sure():
    found = [*words_of(TABLE, 100, 50)]
    assert [word.text for word in found] == ["The", "doubtful", '"quoted']
    assert found[0].box == (0.1, 0.1, 0.3, 0.3)
    assert found[0].paragraph == found[1].paragraph != found[2].paragraph


@pytest.mark.parametrize(
    ("wanted", "installed", "system", "languages"),
    [
        (("deu", "fra"), ("deu", "eng"), "en_GB", ("deu",)),
        (("fra",), ("deu", "eng"), "en_GB", ()),
        ((), ("deu", "eng", "ita"), "de_AT", ("deu", "eng")),
        ((), ("deu", "eng"), "fr_FR", ("eng",)),
        ((), ("ita", "spa"), "", ("ita",)),
        ((), (), "de_DE", ()),
    ],
)
def test_languages_are_those_wanted_and_installed(wanted, installed, system, languages):
    assert chosen(wanted, installed, system) == languages


def test_without_the_program_nothing_is_ready(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(shutil, "which", lambda name: None)
    assert not Tesseract().is_ready


def test_many_pictures_that_were_read_before_are_told_to_take_a_while(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(tesseract, "_recognised", lambda *_: LETTER)
    monkeypatch.setattr(tesseract, "installed_languages", lambda: ("eng",))
    begun: list[int] = []
    reader = Tesseract((), tmp_path, lambda: begun.append(1))
    for _ in range(41):
        reader.words(WHITE)
    assert len(begun) == 3


def test_one_that_recalls_gives_up_on_what_was_not_read_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(tesseract, "_recognised", lambda *_: LETTER)
    reader = Tesseract(("eng",), tmp_path)
    reader.__dict__["languages"] = ("eng",)
    assert reader.recalling().words(WHITE) is None
    assert reader.words(WHITE) == LETTER
    assert reader.recalling().words(WHITE) is not None


def test_what_was_recognised_is_kept_for_the_next_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    calls: list[str] = []

    def recognise(file: bytes, languages: tuple[str, ...], *_: object) -> tuple[ocr.Word, ...]:
        calls.append("+".join(languages))
        return LETTER

    monkeypatch.setattr(tesseract, "_recognised", recognise)
    monkeypatch.setattr(tesseract, "installed_languages", lambda: ("deu", "eng"))
    begun: list[int] = []

    def read(*languages: str) -> tuple[ocr.Word, ...] | None:
        return Tesseract(languages, tmp_path / "ocr", lambda: begun.append(1)).words(WHITE)

    first = read("eng")
    assert first is not None
    assert [word.text for word in first] == [word.text for word in LETTER]
    again = read("eng")
    assert again is not None
    assert [(word.text, word.paragraph, word.line) for word in again] == [
        (word.text, word.paragraph, word.line) for word in LETTER
    ]
    assert (calls, len(begun)) == (["eng"], 1)

    assert read("deu") is not None
    assert calls == ["eng", "deu"]


def test_what_was_recognised_can_be_forgotten(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(tesseract, "_recognised", lambda *_: LETTER)
    monkeypatch.setattr(tesseract, "installed_languages", lambda: ("eng",))
    folder = tmp_path / "ocr"
    pool = ParserPool(lambda: PoolLimits(1, 1.0, 2**30), folder)
    # Nothing was recognised yet.
    pool.forget_recognised()
    Tesseract((), folder).words(WHITE)
    # As a child leaves it that is killed while it writes.
    (folder / "tmp12345").write_bytes(b"half")
    (tmp_path / "other").write_bytes(b"not ours")

    pool.forget_recognised()

    assert [*folder.iterdir()] == []
    assert (tmp_path / "other").exists()
    pool.close()


def test_damage_to_what_was_kept_is_read_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(tesseract, "_recognised", lambda *_: LETTER)
    monkeypatch.setattr(tesseract, "installed_languages", lambda: ("eng",))
    Tesseract((), tmp_path).words(WHITE)
    (kept,) = tmp_path.iterdir()
    kept.write_bytes(b"half")

    assert Tesseract((), tmp_path).words(WHITE) == LETTER


def test_a_file_has_so_many_pages_recognised_and_no_more(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(tesseract, "_recognised", lambda *_: LETTER)
    monkeypatch.setattr(tesseract, "installed_languages", lambda: ("eng",))
    monkeypatch.setattr(tesseract, "MAX_OCR_PAGES", 2)
    reader = Tesseract()
    assert [reader.words(WHITE) is None for _ in range(3)] == [False, False, True]


def test_a_file_has_so_much_time_and_no_more(monkeypatch: pytest.MonkeyPatch):
    clock = iter(range(0, 100, 10))
    monkeypatch.setattr(tesseract, "_recognised", lambda *_: LETTER)
    monkeypatch.setattr(tesseract, "installed_languages", lambda: ("eng",))
    monkeypatch.setattr(tesseract, "monotonic", lambda: float(next(clock)))
    monkeypatch.setattr(tesseract, "MAX_OCR_SECONDS", 15.0)
    reader = Tesseract()
    assert [reader.words(WHITE) is None for _ in range(3)] == [False, False, True]


# --- a program that takes its time ---


def test_a_picture_that_takes_too_long_is_given_up(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(tesseract, "OCR_PAGE_SECONDS", 0.05)
    monkeypatch.setattr(patience, "seconds_in_line", lambda pid: 0.0)
    sleeper = [sys.executable, "-c", "import time; time.sleep(600)"]

    with subprocess.Popen(sleeper, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert tesseract._answer(process, b"picture", lambda: None) is None
        assert process.wait() != 0


def test_a_picture_that_waits_for_the_processor_is_not_given_up():
    class Delayed:
        """Has not answered when it is asked first."""

        pid = 2**22 + 1

        def __init__(self) -> None:
            self.asked: list[bytes | None] = []

        def communicate(self, question: bytes | None, timeout: float) -> tuple[bytes, None]:
            self.asked.append(question)
            if len(self.asked) == 1:
                raise subprocess.TimeoutExpired("tesseract", timeout)
            return b"table", None

        def kill(self) -> None:
            pass

    process, told = Delayed(), list[str]()

    assert tesseract._answer(process, b"picture", lambda: told.append("goes on")) == b"table"  # type: ignore[arg-type]
    assert (process.asked, told) == ([b"picture", None], ["goes on"])


# --- with Tesseract itself ---


@pytest.fixture
def reader() -> Tesseract:
    found = Tesseract(("eng",))
    if not found.is_ready:
        pytest.skip("Tesseract with English is not installed")
    return found


def test_tesseract_reads_a_page_of_a_pdf(reader: Tesseract, tmp_path: Path):
    from engine.library.parsers.pdfium import opened

    path = tmp_path / "a.pdf"
    path.write_bytes(pdf([Page([Line("The notice period is three months.", size=18)])]))
    with opened(path, Limits()) as file, file.page(0) as page:
        assert page is not None
        picture = page.picture(1700, 7000, is_grey=True)
        (box,) = page.rectangles(0, 3)

    found = reader.words(picture)

    assert found is not None
    assert " ".join(word.text for word in found) == "The notice period is three months."
    assert found[0].box == pytest.approx(box, abs=0.02)


def test_tesseract_gives_up_on_what_is_no_picture(reader: Tesseract):
    assert reader.words(Picture(10, 10, 1, (b"",))) is None


def test_a_program_is_asked_once_for_many_files_and_again_where_it_said_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    asked: list[Sequence[str]] = []

    def run(command: Sequence[str], **_: object) -> subprocess.CompletedProcess[bytes]:
        asked.append(command)
        if len(asked) == 1:
            raise subprocess.CalledProcessError(1, command)
        return subprocess.CompletedProcess(command, 0, b"List of available languages (2):\neng\nosd\n")

    tesseract._languages_of.cache_clear()
    monkeypatch.setattr(shutil, "which", lambda name: "/somewhere/tesseract")
    monkeypatch.setattr(tesseract, "monotonic", lambda: 5.0)
    monkeypatch.setattr(subprocess, "run", run)
    assert not Tesseract().is_ready
    assert [Tesseract().languages for _ in range(3)] == [("eng",)] * 3
    assert len(asked) == 2
    monkeypatch.setattr(tesseract, "monotonic", lambda: 50.0)
    assert Tesseract().languages == ("eng",)
    assert len(asked) == 3
    tesseract._languages_of.cache_clear()
