"""Tests for engine.library.parsers.epub."""

from __future__ import annotations

import pytest

from engine.errors import DocumentUnreadable, DocumentUnsupported
from tests.helpers.packages import packed
from tests.helpers.parsing import said
from tests.helpers.shared_data import shared_file

CONTAINER = (
    '<container xmlns="urn:oasis:names:tc:opendocument:xmlns:container"><rootfiles>'
    '<rootfile full-path="OPS/book.opf"/></rootfiles></container>'
)
XHTML = "application/xhtml+xml"


def chapter(body: str) -> str:
    return (
        '<?xml version="1.0" encoding="utf-8"?><!DOCTYPE html><html xmlns="http://www.w3.org/1999/xhtml">'
        f"<head><title/><style>p {{}}</style></head><body>{body}</body></html>"
    )


def book(chapters: dict[str, str], nav: str = "", ncx: str = "", **more: str) -> bytes:
    """A book of these files in this order, with the links of its contents."""
    items = "".join(f'<item id="{name}" href="{name}" media-type="{XHTML}"/>' for name in chapters)
    spine = "".join(f'<itemref idref="{name}"/>' for name in chapters)
    parts = {"META-INF/container.xml": CONTAINER}
    if nav:
        items += f'<item id="nav" href="nav.xhtml" properties="nav" media-type="{XHTML}"/>'
        spine = '<itemref idref="nav"/>' + spine
        links = f'<nav epub:type="landmarks"><a href="x">no</a></nav><nav epub:type="toc"><ol>{nav}</ol></nav>'
        parts["OPS/nav.xhtml"] = chapter(links).replace("<html", '<html xmlns:epub="http://www.idpf.org/2007/ops"')
    if ncx:
        items += '<item id="ncx" href="toc.ncx" media-type="application/x-dtbncx+xml"/>'
        parts["OPS/toc.ncx"] = f"<ncx><navMap>{ncx}</navMap></ncx>"
    parts["OPS/book.opf"] = (
        '<package xmlns="http://www.idpf.org/2007/opf"><metadata xmlns:dc="http://purl.org/dc/elements/1.1/">'
        f'<dc:title>Moby-Dick</dc:title></metadata><manifest>{items}</manifest><spine toc="ncx">{spine}</spine>'
        "</package>"
    )
    parts |= {f"OPS/{name}": content for name, content in chapters.items()}
    return packed({**parts, **more}, "application/epub+zip")


def places(document) -> list[str]:
    return [page.place for page in document.pages]


def test_chapters_are_named_by_the_contents(parsed):
    document = parsed(
        "a.epub",
        book(
            {
                "cover.xhtml": chapter("<p>Cover</p>"),
                "one.xhtml": chapter("<h1>1</h1><p>Call&nbsp;me Ishmael.</p>"),
                "more.xhtml": chapter("<p>Some years ago.</p><script>no()</script>"),
                "two.xhtml": chapter("<h1>2</h1><p>I stuffed a shirt.</p>"),
            },
            nav='<li><a href="one.xhtml">Loomings</a></li><li><a href="two.xhtml"> The\n Carpet-Bag </a></li>',
        ),
    )
    assert (document.format, document.title) == ("epub", "Moby-Dick")
    assert places(document) == ["section 1", "chapter “Loomings”", "chapter “Loomings”", "chapter “The Carpet-Bag”"]
    assert [page.number for page in document.pages] == [1, 2, 3, 4]
    assert said(document, 1) == [("heading", "1"), ("paragraph", "Call me Ishmael.")]
    assert said(document, 2) == [("paragraph", "Some years ago.")]


def test_chapters_within_one_file_are_pages_of_their_own(parsed):
    text = chapter(
        '<p>Before.</p><div id="c1"><h2>One</h2><p>First.</p></div>'
        '<h2><a id="c2"></a>Two</h2><p>Second.</p><h3 id="c3">Inner</h3><p>Third.</p>'
    )
    nav = (
        '<li><a href="all.xhtml#c1">One</a></li><li><a href="all.xhtml#c2">Two</a>'
        '<ol><li><a href="all.xhtml#c3">Inner</a></li></ol></li>'
    )
    document = parsed("a.epub", book({"all.xhtml": text}, nav=nav))
    assert places(document) == ["section 1", "chapter “One”", "chapter “Two”"]
    assert said(document, 2) == [
        ("heading", "Two"),
        ("paragraph", "Second."),
        ("heading", "Inner"),
        ("paragraph", "Third."),
    ]


def test_an_old_book_is_named_by_its_ncx(parsed):
    def point(label: str, target: str, inner: str = "") -> str:
        return f"<navPoint><navLabel><text>{label}</text></navLabel><content src='{target}'/>{inner}</navPoint>"

    ncx = point("Part one", "a%20b.xhtml", point("Inner", "c.xhtml"))
    document = parsed("a.epub", book({"a b.xhtml": chapter("<p>A</p>"), "c.xhtml": chapter("<p>C</p>")}, ncx=ncx))
    assert places(document) == ["chapter “Part one”", "chapter “Inner”"]


def test_chapters_that_are_no_xml_are_read_as_browsers_do(parsed):
    document = parsed("a.epub", book({"a.xhtml": "<html><body><p>One<br>two<p>three &amp; four</body></html>"}))
    assert [text for _, text in said(document)] == ["One\ntwo", "three & four"]


def test_a_chapter_that_declares_what_it_is_not_is_read(parsed):
    broken = '<?xml version="1.0" encoding="utf-8"?><html><body><p>Fish & chips<br>twice</body></html>'
    assert [text for _, text in said(parsed("a.epub", book({"a.xhtml": broken})))] == ["Fish & chips\ntwice"]


def test_missing_and_empty_chapters_are_passed_over(parsed):
    content = book({"gone.xhtml": "", "there.xhtml": chapter("<p>Here.</p>")})
    assert [(page.number, page.text) for page in parsed("a.epub", content).pages] == [(1, "Here.")]


def test_a_locked_book_says_so_but_scrambled_fonts_lock_nothing(parsed):
    def lock(algorithm: str) -> dict[str, str]:
        method = f'<EncryptionMethod xmlns="http://www.w3.org/2001/04/xmlenc#" Algorithm="{algorithm}"/>'
        return {"META-INF/encryption.xml": f"<encryption><EncryptedData>{method}</EncryptedData></encryption>"}

    chapters = {"a.xhtml": chapter("<p>Open.</p>")}
    open_book = book(chapters, **lock("http://www.idpf.org/2008/embedding"))
    assert parsed("a.epub", open_book).pages[0].text == "Open."
    with pytest.raises(DocumentUnsupported, match="DRM"):
        parsed("a.epub", book(chapters, **lock("http://www.w3.org/2001/04/xmlenc#aes128-cbc")))


def test_entities_are_not_resolved(parsed):
    trap = chapter("<p>safe &f;</p>").replace(
        "<!DOCTYPE html>", '<!DOCTYPE html [<!ENTITY f SYSTEM "file:///etc/hostname">]>'
    )
    assert parsed("a.epub", book({"a.xhtml": trap})).pages[0].text.startswith("safe")
    assert len(parsed("a.epub", book({"a.xhtml": trap})).pages[0].text) < 10


def test_a_book_without_its_package_is_refused(parsed):
    with pytest.raises(DocumentUnreadable, match="the list of its chapters is missing"):
        parsed("a.epub", packed({"x": "y"}, "application/epub+zip"))


def test_a_real_book_is_read_by_chapter(parsed):
    document = parsed("real.epub", shared_file("docs/epub/wasteland.epub").read_bytes())
    assert document.title == "The Waste Land"
    assert places(document)[1:3] == ["chapter “I. THE BURIAL OF THE DEAD”", "chapter “II. A GAME OF CHESS”"]


def test_formulas_stand_in_their_sentence_and_headers_bear_titles(parsed):
    formula = '<math xmlns="http://www.w3.org/1998/Math/MathML"><mi>x</mi><mo>=</mo><mn>5</mn></math>'
    drawing = '<svg xmlns="http://www.w3.org/2000/svg"><text>axis</text></svg>'
    body = f"<header><h1>Sums</h1><p>For Ann</p></header><p>Here {formula} holds.{drawing}</p>"
    document = parsed("a.epub", book({"one.xhtml": chapter(body)}))
    assert [text for _, text in said(document)] == ["Sums", "For Ann", "Here x=5 holds."]
