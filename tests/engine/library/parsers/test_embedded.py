"""Tests for engine.library.parsers.embedded, and for the documents whose pictures it reads."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Callable
from pathlib import Path

import docx
import pytest
from docx.shared import Inches
from PIL import Image
from pptx import Presentation

from engine.core import ParsedDocument
from engine.errors import DocumentEmpty, DocumentNeedsOcr, DocumentUnreadable
from engine.library.parsers.limits import Limits
from engine.library.parsers.ocr import Word
from engine.library.parsers.shapes import Picture
from engine.library.parsers.view import view
from tests.helpers.packages import packed
from tests.helpers.parsing import said
from tests.helpers.recognising import FakeRecogniser, words

LETTER = words("The notice period\nis three months.", "Two rents are the deposit.")
WRITTEN = ["The notice period is three months.", "Two rents are the deposit."]
OTHER = words("The meter stood at four thousand units.")
ODF = " ".join(
    f'xmlns:{prefix}="urn:oasis:names:tc:opendocument:xmlns:{name}:1.0"'
    for prefix, name in {"office": "office", "text": "text", "table": "table", "draw": "drawing"}.items()
)
BOX = (Inches(1), Inches(1), Inches(4), Inches(1))


def png(shade: int = 200, size: tuple[int, int] = (300, 100)) -> bytes:
    target = io.BytesIO()
    Image.new("L", size, shade).save(target, "PNG")
    return target.getvalue()


def docx_of(*content: str | bytes) -> bytes:
    """Paragraphs and pictures, one after the other."""
    document = docx.Document()
    for part in content:
        if isinstance(part, str):
            document.add_paragraph(part)
        else:
            document.add_picture(io.BytesIO(part), Inches(2))
    target = io.BytesIO()
    document.save(target)
    return target.getvalue()


def pptx_of(*slides: tuple[str, list[bytes]]) -> bytes:
    show = Presentation()
    for title, pictures in slides:
        slide = show.slides.add_slide(show.slide_layouts[5])
        slide.shapes.title.text = title
        for picture in pictures:
            slide.shapes.add_picture(io.BytesIO(picture), *BOX)
    target = io.BytesIO()
    show.save(target)
    return target.getvalue()


def odf_of(kind: str, body: str, **pictures: bytes) -> bytes:
    content = (
        f'<office:document-content {ODF} xmlns:xlink="http://www.w3.org/1999/xlink"><office:body>'
        f"<office:{kind}>{body}</office:{kind}></office:body></office:document-content>"
    )
    parts = {"content.xml": content, **{f"Pictures/{name}.png": data for name, data in pictures.items()}}
    return packed(parts, f"application/vnd.oasis.opendocument.{kind}")


def frame(name: str) -> str:
    return f'<draw:frame><draw:image xlink:href="Pictures/{name}.png"/></draw:frame>'


def epub_of(*chapters: str, **pictures: bytes) -> bytes:
    xhtml = "application/xhtml+xml"
    items = "".join(f'<item id="c{n}" href="text/{n}.xhtml" media-type="{xhtml}"/>' for n in range(len(chapters)))
    spine = "".join(f'<itemref idref="c{n}"/>' for n in range(len(chapters)))
    rootfile = "<container><rootfiles><rootfile full-path='OPS/book.opf'/></rootfiles></container>"
    parts: dict[str, str | bytes] = {
        "META-INF/container.xml": rootfile,
        "OPS/book.opf": f"<package><manifest>{items}</manifest><spine>{spine}</spine></package>",
        **{f"OPS/text/{n}.xhtml": f"<html><body>{body}</body></html>" for n, body in enumerate(chapters)},
        **{f"OPS/images/{name}.png": data for name, data in pictures.items()},
    }
    return packed(parts, "application/epub+zip")


def by(*pages: tuple[Word, ...] | None) -> Limits:
    return Limits(ocr=FakeRecogniser(pages))


def num_seen(limits: Limits) -> int:
    assert isinstance(limits.ocr, FakeRecogniser)
    return len(limits.ocr.seen)


def texts(document: ParsedDocument, page: int = 0) -> list[str]:
    return [text for _, text in said(document, page)]


# --- where they stand ---


def test_what_a_picture_in_a_word_document_says_follows_it(parsed):
    document = parsed("a.docx", docx_of("Before.", png(), "After."), by(LETTER))
    assert texts(document) == ["Before.", *WRITTEN, "After."]
    assert (document.remark, document.needs) == ("", "")


def test_what_a_picture_on_a_slide_says_follows_what_stands_for_it(parsed):
    show = Presentation(io.BytesIO(pptx_of(("Where we stand", [png()]), ("What is next", []))))
    show.slides[0].shapes[1]._element.nvPicPr.cNvPr.set("descr", "A letter to the tenant")
    target = io.BytesIO()
    show.save(target)
    document = parsed("a.pptx", target.getvalue(), by(LETTER))
    assert texts(document) == ["Where we stand", "Picture: A letter to the tenant", *WRITTEN]
    assert texts(document, 1) == ["What is next"]


def test_pictures_in_opendocument_texts_are_read_in_paragraphs_and_tables(parsed):
    table = f"<table:table><table:table-row><table:table-cell><text:p>a{frame('b')}</text:p></table:table-cell>"
    table += "<table:table-cell><text:p>b</text:p></table:table-cell></table:table-row></table:table>"
    body = f"<text:p>Before.{frame('a')}</text:p>{table}<text:p>After.</text:p>"
    document = parsed("a.odt", odf_of("text", body, a=png(1), b=png(2)), by(LETTER, OTHER))
    assert texts(document) == ["Before.", *WRITTEN, "a | b", "The meter stood at four thousand units.", "After."]


def test_pictures_on_opendocument_slides_are_read(parsed):
    box = "<draw:frame><draw:text-box><text:p>Text.</text:p></draw:text-box></draw:frame>"
    body = f"<draw:page>{box}{frame('a')}</draw:page>"
    assert texts(parsed("a.odp", odf_of("presentation", body, a=png()), by(LETTER))) == ["Text.", *WRITTEN]


def test_pictures_in_books_are_read_where_they_stand(parsed):
    chapter = '<p>Before.</p><p><img src="../images/a%62.png" alt="A page"/></p><p>After.</p>'
    document = parsed("a.epub", epub_of(chapter, ab=png()), by(LETTER))
    assert texts(document) == ["Before.", "Picture: A page", *WRITTEN, "After."]


def test_a_picture_in_a_footnote_is_that_of_the_notes(parsed):
    """Relationship ids of one part mean something else in another."""
    names = (
        'xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main" '
        'xmlns:r="http://schemas.openxmlformats.org/officeDocument/2006/relationships" xmlns:a="a"'
    )
    image = "http://schemas.openxmlformats.org/officeDocument/2006/relationships/image"
    blip = '<w:r><w:drawing><a:blip r:embed="rId1"/></w:drawing></w:r>'
    relations = '<Relationships><Relationship Id="rId1" Type="{}" Target="media/{}.png"/></Relationships>'
    reference = '<w:r><w:t>Text.</w:t></w:r><w:r><w:footnoteReference w:id="2"/></w:r>'
    note = f'<w:footnote w:id="2"><w:p><w:r><w:t>Note.</w:t></w:r>{blip}</w:p></w:footnote>'
    parts = {
        "word/document.xml": f"<w:document {names}><w:body><w:p>{reference}{blip}</w:p></w:body></w:document>",
        "word/footnotes.xml": f"<w:footnotes {names}>{note}</w:footnotes>",
        "word/_rels/document.xml.rels": relations.format(image, "text"),
        "word/_rels/footnotes.xml.rels": relations.format(image, "note"),
        "word/media/text.png": png(size=(300, 100)),
        "word/media/note.png": png(size=(400, 100)),
    }
    limits = by(LETTER, OTHER)
    assert texts(parsed("a.docx", packed(parts), limits)) == [
        "Text.", *WRITTEN, "Note.", "The meter stood at four thousand units.",
    ]  # fmt: skip
    assert [picture.width for picture in limits.ocr.seen] == [300, 400]


# --- which of them are read ---


def test_each_picture_is_read_once(parsed):
    limits = by(LETTER)
    document = parsed("a.docx", docx_of(png(), "Between.", png(), png()), limits)
    assert texts(document) == [*WRITTEN, "Between."]
    assert num_seen(limits) == 1


def logo_slides() -> bytes:
    return pptx_of(*((f"Slide {n}", [png(9), *([png(1)] if n == 2 else [])]) for n in range(4)))


def logo_chapters() -> bytes:
    logo, shown = '<p>Text.</p><img src="../images/logo.png"/>', '<img src="../images/shown.png"/>'
    return epub_of(*[logo] * 3, logo + shown, logo=png(9), shown=png(1))


def logo_pages() -> bytes:
    body = f"<text:p>Text.{frame('logo')}</text:p>" * 4 + f"<text:p>{frame('shown')}</text:p>"
    return odf_of("text", body, logo=png(9), shown=png(1))


def logo_paragraphs() -> bytes:
    return docx_of("Text.", *[png(9)] * 4, png(1))


@pytest.mark.parametrize(
    ("name", "content"),
    [("a.pptx", logo_slides), ("a.epub", logo_chapters), ("a.odt", logo_pages), ("a.docx", logo_paragraphs)],
)
def test_what_is_shown_again_and_again_is_a_logo(parsed, name: str, content: Callable[[], bytes]):
    limits = by(LETTER)
    document = parsed(name, content(), limits)
    assert num_seen(limits) == 1
    assert limits.ocr.seen[0].rows[0][0] == 1
    assert sum(page.text.count(WRITTEN[0]) for page in document.pages) == 1


def test_small_pictures_and_those_with_a_word_or_two_add_nothing(parsed):
    limits = by(words("Fig. 1"))
    document = parsed("a.docx", docx_of("Text.", png(1, (199, 100)), png(2, (300, 59)), png(3)), limits)
    assert texts(document) == ["Text."]
    assert num_seen(limits) == 1


def test_drawings_and_damaged_pictures_are_no_fault_of_the_document(parsed):
    body = f"<text:p>Text.{frame('a')}{frame('b')}{frame('gone')}</text:p>"
    document = parsed("a.odt", odf_of("text", body, a=b"\x01\0\0\0 a drawing", b=png()[:40]), by(LETTER))
    assert (texts(document), document.remark) == (["Text."], "")


def test_a_picture_whose_packed_bytes_are_damaged_is_no_fault_of_the_document(parsed):
    content = docx_of("Text.", png())
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        entry = next(entry for entry in archive.infolist() if entry.filename.startswith("word/media/"))
    at = entry.header_offset + 30 + len(entry.filename) + 20
    damaged = content[:at] + bytes(byte ^ 255 for byte in content[at : at + 8]) + content[at + 8 :]
    assert texts(parsed("a.docx", damaged, by(LETTER))) == ["Text."]


def test_pictures_that_ocr_gives_up_on_are_told_and_the_rest_is_not_tried_for_ever(parsed):
    limits = by(None)
    document = parsed("a.docx", docx_of("Text.", *(png(shade) for shade in range(8))), limits)
    assert (document.remark, document.needs) == ("OCR gave up on 3 pictures in it.", "")
    assert num_seen(limits) == 3
    assert parsed("b.docx", docx_of("Text.", png()), by(None)).remark == "OCR gave up on a picture in it."


# --- without OCR, and without text ---


@pytest.mark.parametrize("limits", [Limits(), Limits(ocr=FakeRecogniser(is_ready=False))])
def test_a_document_whose_text_is_whole_needs_no_ocr(parsed, limits: Limits):
    for name, content in (
        ("a.docx", docx_of("Text.", png())),
        ("a.pptx", pptx_of(("Title", [png()]))),
        ("a.odt", odf_of("text", f"<text:p>Text.{frame('a')}</text:p>", a=png())),
        ("a.epub", epub_of('<p>Text.</p><img src="../images/a.png"/>', a=png())),
    ):
        document = parsed(name, content, limits)
        assert (document.remark, document.needs, len(texts(document))) == ("", "", 1)


def test_a_document_of_nothing_but_pictures_needs_ocr_and_is_empty_with_it(parsed):
    scans = docx_of(png(1), png(2))
    with pytest.raises(DocumentNeedsOcr, match=r"pictures in the file but no text.*Install Tesseract"):
        parsed("a.docx", scans)
    assert texts(parsed("a.docx", scans, by(LETTER, OTHER))) == [*WRITTEN, "The meter stood at four thousand units."]
    with pytest.raises(DocumentEmpty, match="OCR found none in its pictures"):
        parsed("a.docx", scans, by(()))
    with pytest.raises(DocumentUnreadable, match="OCR gave up on the pictures"):
        parsed("a.docx", scans, by(None))


def test_an_icon_needs_no_ocr(parsed):
    with pytest.raises(DocumentEmpty, match="There are pictures in the file but no text"):
        parsed("a.docx", docx_of(png(size=(64, 64))))


# --- how they are shown ---


class Forgetful(FakeRecogniser):
    """What it has to recognise anew takes long."""

    def recalling(self) -> FakeRecogniser:
        return FakeRecogniser([None])


@pytest.fixture
def shown(tmp_path: Path) -> Callable[[bytes, str, FakeRecogniser], list[Picture]]:
    def show(content: bytes, cited: str, recogniser: FakeRecogniser) -> list[Picture]:
        path = tmp_path / "a.docx"
        path.write_bytes(content)
        seen = view(path, None, 0, len(cited), 400, Limits(ocr=recogniser), cited)
        assert seen.text[seen.mark_start : seen.mark_end] == cited
        assert not seen.is_changed
        return recogniser.seen

    return show


def test_a_citation_of_the_text_is_shown_without_waiting_for_ocr(shown):
    content = docx_of("Before it stands a text.", png())
    assert shown(content, "Before it stands a text.", Forgetful([LETTER])) == []
    assert len(shown(content, WRITTEN[0], Forgetful([LETTER]))) == 1
