"""Tests for engine.library.parsers.pictures."""

from __future__ import annotations

import importlib.util
import io
from pathlib import Path

import pytest
from PIL import Image

from engine.errors import DocumentEmpty, DocumentNeedsOcr, DocumentTooLarge, DocumentUnreadable
from engine.library.parsers import pictures
from engine.library.parsers.limits import Limits
from engine.library.parsers.view import view
from tests.helpers.recognising import FakeRecogniser, words

LETTER = words("The notice period\nis three months.")
TEXT = "The notice period is three months."


def picture(kind: str, size: tuple[int, int] = (120, 80), mode: str = "L", frames: int = 1, **options: object) -> bytes:
    out = io.BytesIO()
    image = Image.new(mode, size, 0 if mode == "RGBA" else "white")
    more = {"save_all": True, "append_images": [image] * (frames - 1)} if frames > 1 else {}
    image.save(out, kind, **more, **options)
    return out.getvalue()


@pytest.mark.parametrize("kind", ["PNG", "JPEG", "TIFF", "GIF", "WEBP", "BMP", "AVIF", "JPEG2000"])
def test_what_is_written_in_a_picture_is_read(parsed, kind):
    document = parsed(f"a.{kind.lower()}", picture(kind), Limits(ocr=FakeRecogniser([LETTER])))
    assert (document.format, len(document.pages), document.pages[0].number) == ("picture", 1, None)
    assert document.pages[0].text == TEXT


def test_what_a_broken_installation_lacks_is_told(parsed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(DocumentNeedsOcr, match=r"without Pillow.*install it again"):
        parsed("a.png", picture("PNG"), Limits(ocr=FakeRecogniser([LETTER])))
    with pytest.raises(DocumentUnreadable, match=r"without Pillow"):
        view(tmp_path / "a.png", None, 0, 3, 400, Limits())


def test_a_picture_that_other_programs_would_be_called_for_is_not_opened():
    letter = picture("EPS", (300, 100))
    assert pictures.embedded(letter) is None
    assert not pictures.may_hold_text(letter)


def test_of_a_large_photograph_in_a_document_no_more_is_unpacked_than_helps():
    seen = pictures.embedded(picture("JPEG", (8000, 400)))
    assert seen is not None
    assert (seen.width, seen.height, seen.num_channels) == (3500, 175, 1)


def test_memory_that_a_picture_in_a_document_lacks_is_not_missed_by_the_document(monkeypatch: pytest.MonkeyPatch):
    def too_much(*_: object) -> None:
        raise MemoryError

    monkeypatch.setattr(pictures, "_picture", too_much)
    assert pictures.embedded(picture("PNG", (300, 100))) is None


def test_a_fax_of_several_pages_is_read_page_by_page(parsed):
    recogniser = FakeRecogniser([LETTER, None, LETTER])
    document = parsed("a.tif", picture("TIFF", frames=3), Limits(ocr=recogniser))
    assert [(page.number, page.text) for page in document.pages] == [(1, TEXT), (2, ""), (3, TEXT)]
    assert document.remark == "OCR gave up on 1 of its 3 pages."


def test_of_a_moving_picture_the_first_is_read(parsed):
    recogniser = FakeRecogniser([LETTER])
    parsed("a.gif", picture("GIF", frames=3), Limits(ocr=recogniser))
    assert len(recogniser.seen) == 1


def test_a_picture_is_shown_upright_and_read_so(parsed):
    recogniser = FakeRecogniser([LETTER])
    exif = Image.Exif()
    exif[0x0112] = 6  # lies on its side
    parsed("a.jpg", picture("JPEG", exif=exif), Limits(ocr=recogniser))
    assert (recogniser.seen[0].width, recogniser.seen[0].height) == (80, 120)


def test_what_is_seen_through_is_white(parsed):
    recogniser = FakeRecogniser([LETTER])
    parsed("a.png", picture("PNG", mode="RGBA"), Limits(ocr=recogniser))
    assert set(b"".join(recogniser.seen[0].rows)) == {255}


def test_without_ocr_a_picture_needs_it(parsed):
    with pytest.raises(DocumentNeedsOcr, match="Install Tesseract"):
        parsed("a.png", picture("PNG"))


def test_pictures_without_writing_are_empty(parsed):
    with pytest.raises(DocumentEmpty, match="OCR found no text in the picture"):
        parsed("a.png", picture("PNG"), Limits(ocr=FakeRecogniser([words("x")])))
    with pytest.raises(DocumentEmpty, match="too small"):
        parsed("b.png", picture("PNG", (32, 32)), Limits(ocr=FakeRecogniser([LETTER])))


def test_a_damaged_picture_says_so(parsed):
    with pytest.raises(DocumentUnreadable, match="picture is damaged"):
        parsed("a.png", picture("PNG")[:60], Limits(ocr=FakeRecogniser([LETTER])))


def test_a_bomb_of_pixels_is_refused(parsed, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(pictures, "_MAX_PIXELS", 1000)
    with pytest.raises(DocumentTooLarge, match="million pixels"):
        parsed("a.png", picture("PNG"), Limits(ocr=FakeRecogniser([LETTER])))


def test_a_citation_is_marked_on_the_picture(tmp_path: Path):
    path = tmp_path / "a.tif"
    path.write_bytes(picture("TIFF", mode="RGB", frames=2))
    seen = view(path, 2, 0, 3, 400, Limits(ocr=FakeRecogniser([LETTER])))
    assert (seen.page, seen.num_pages, seen.image_png[:4]) == (2, 2, b"\x89PNG")
    assert seen.marks == (LETTER[0].box,)
    with pytest.raises(DocumentUnreadable, match="no page 3"):
        view(path, 3, 0, 3, 400, Limits(ocr=FakeRecogniser([LETTER])))
