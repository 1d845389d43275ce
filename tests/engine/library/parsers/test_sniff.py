"""Tests for engine.library.parsers.sniff."""

from __future__ import annotations

import inspect
import io
import re
import zipfile

import pytest

from engine.library.parsers import sniff as sniff_module
from engine.library.parsers.families import FAMILIES
from engine.library.parsers.sniff import sniff
from tests.helpers.pdf import pdf


def zipped(**members: bytes) -> bytes:
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w") as archive:
        for name, data in members.items():
            archive.writestr(re.sub(r"_(?=[a-z]+$)", ".", name.replace("__", "/")), data)
    return target.getvalue()


def kind(content: bytes, name: str = "file"):
    return sniff(content[: 2**16], content[-(2**16) :], name)


@pytest.mark.parametrize(
    ("content", "name", "family"),
    [
        (pdf(["Text"]), "letter.txt", "pdf"),
        (b"\xef\xbb\xbf\n" + pdf(["Text"]), "letter.pdf", "pdf"),
        (b"Only a note.", "letter.pdf", "text"),
        (b"How a file that begins with %PDF-1.4 is read.", "about.txt", "text"),
        (b"<!DOCTYPE html><html><body>Hi</body></html>", "letter.doc", "html"),
        (b"\xef\xbb\xbf<?xml version='1.0'?>\n<!-- c -->\n<html xmlns='x'></html>", "a", "html"),
        ("<html><p>Hi</p></html>".encode("utf-16"), "a.html", "html"),
        (b"<div><p>A fragment.</p></div>", "part.html", "html"),
        (b"Tags like <p> are explained here.", "about.txt", "text"),
        (b'<p align="center">Badges</p>\n\n# Project', "README.md", "markdown"),
        (b"# Heading", "notes.markdown", "markdown"),
        (b"<!-- a word -->\n" * 60 + b"# Title", "README.md", "markdown"),
        (b"<!-- toc -->\n# Title\n```\n<!-- head -->\n<html>\n```\n", "README.md", "markdown"),
        (b"From 1" + b"2" * 3000 + b" on it was so.", "a", "text"),
        (b"print('<html>')", "script.py", "code"),
        (b"all:\n\tmake it", "Makefile", "code"),
        (b"a;b\n1;2\n", "table.csv", "table"),
        (b"one\ntwo", "a.log", "lines"),
        (b'<?xml version="1.0"?><a/>', "a.txt", "xml"),
        (b"a: 1", "a.yml", "yaml"),
        (b"Title\n=====", "a.rst", "rst"),
        (b"* Head", "a.org", "org"),
        (b"\\section{One}", "a.tex", "tex"),
        ("Größe".encode("utf-16-le"), "a.txt", "text"),
        ("Größe".encode("cp1252"), "a.txt", "text"),
        (zipped(word__document_xml=b"<w/>"), "letter.txt", "docx"),
        (zipped(ppt__presentation_xml=b"<p/>"), "letter.docx", "pptx"),
        (zipped(xl__workbook_xml=b"<x/>"), "a", "xlsx"),
        (zipped(mimetype=b"application/epub+zip"), "a.zip", "epub"),
        (zipped(mimetype=b"application/vnd.oasis.opendocument.text"), "a", "odt"),
        (zipped(photo=b"x"), "a.docx", "zip"),
        (zipped(a_pdf=pdf(["Text"]), b_pdf=pdf(["More"])), "a.zip", "zip"),
        (zipped(b_odt=zipped(mimetype=b"application/vnd.oasis.opendocument.text")), "a.zip", "zip"),
        (b"papers/a.pdf".ljust(257, b"\0") + b"ustar\0".ljust(255, b"\0") + pdf(["Text"]), "a.tar", "tar"),
        (b"Convert WEBP and other pictures.", "a.txt", "text"),
        (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + b"\0" * 50 + "WordDocument".encode("utf-16-le"), "a.txt", "doc"),
        (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + "EncryptedPackage".encode("utf-16-le"), "a.docx", "encrypted_office"),
        (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + b"\0" * 50, "a.xls", "xls"),
        (b"<table border=1><tr><td>Ann</td></tr></table>", "a.xls", "html"),
        (b"<style>td {}</style>\n<table><tr><td>Ann</td></tr></table>", "a.xls", "html"),
        (
            b'<?xml version="1.0"?>\n<x:Workbook xmlns:x="urn:schemas-microsoft-com:office:spreadsheet"/>',
            "a",
            "excel_xml",
        ),
        (b"Name\tTotal\nAnn\t5\n", "a.xls", "table"),
        (b"<?php if ($a > 1): ?>\n<html></html>", "a.php", "code"),
        (b"\x89PNG\r\n\x1a\n\0\0", "a.txt", "png"),
        (b"\xff\xd8\xff\xe0\0", "a.pdf", "jpeg"),
        (b"RIFF\0\0\0\0WEBPVP8 ", "a", "webp"),
        (b"ID3\x04\0\0\0", "a.txt", "mp3"),
        (b"\0\0\0\x20ftypM4A \0", "a", "m4a"),
        (b"\0\0\0\x20ftypisom\0", "a", "mp4"),
        (b"\x7fELF\x02\x01\x01\0", "a", "executable"),
        (b"MZ\x90\0\x03\0", "a.txt", "executable"),
        (b"MZ is also how this note begins.", "a.txt", "text"),
        (b"BM\x36\0\0\0", "a", "bmp"),
        (b"BM stands for business model.", "a.txt", "text"),
        (b"\x1f\x8b\x08\0", "a.txt", "gzip"),
        (b"SQLite format 3\0", "a", "sqlite"),
        (b"{\\rtf1\\ansi Hello}", "a.doc", "rtf"),
        (b"<svg xmlns='x'></svg>", "a.svg", "svg"),
        (b"<?xml version='1.0'?><!DOCTYPE svg PUBLIC 'x'><svg/>", "a.xml", "svg"),
        (b"<svg:svg xmlns:svg='x'></svg:svg>", "a.svg", "svg"),
        (b"<svg></svg>\n# Title", "README.md", "markdown"),
        (b"<svg></svg><p>Text</p>", "part.html", "html"),
        (b"\0\0\0\x1cftypavif\0\0\0\0mif1", "a", "avif"),
        (b"\0\0\0\x1cftypmif1\0\0\0\0mif1avif\0\0\0\0", "a", "avif"),
        (b"\0\0\0\x18ftypmif1\0\0\0\0mif1heic\0\0\0\0avif", "a", "heic"),
        (b"\0\0\0\x18ftypheix\0\0\0\0", "a", "heic"),
        (b"\0\0\0\x0cjP  \r\n\x87\n", "a", "jp2"),
        (b"\xff\x4f\xff\x51\0\x2f", "a", "jp2"),
        (zipped(Index__Document_iwa=b"x", preview_jpg=b"x"), "a.pages", "iwork"),
        (zipped(index_xml=b"<x/>", buildVersionHistory_plist=b"<x/>"), "a", "iwork"),
        (zipped(index_apxl=b"<x/>"), "a.key", "iwork"),
        (zipped(index_xml=b"<x/>"), "a.zip", "zip"),
        (zipped(mimetype=b"application/vnd.oasis.opendocument.graphics-template"), "a", "odg"),
        (zipped(project__word__document_xml=b"<w/>", project__index_apxl=b"<x/>"), "a.zip", "zip"),
        # Cut short, so that the directory is missing.
        (zipped(word__document_xml=b"<w/>")[:-22], "a.docx", "docx"),
        (zipped(mimetype=b"application/vnd.oasis.opendocument.text", content_xml=b"x" * 2**17)[: 2**16], "a", "odt"),
        (zipped(a_txt=b"ab", project__word__document_xml=b"<w/>")[:-22], "a.zip", "zip"),
        (b"From: a@b.c\nTo: d@e.f\nDate: today\n\nHello", "a.eml", "mail"),
        (b'{"cells": []}', "a.ipynb", "ipynb"),
        (bytes(range(256)) * 4, "a.txt", "binary"),
        (b"\x01\x02\x03\x04\x05\x06text", "a.txt", "binary"),
    ],
)
def test_content_decides_and_the_name_only_hints(content: bytes, name: str, family: str):
    assert kind(content, name).family == family


def test_every_kind_is_named_for_people():
    for content in (b"\x89PNG\r\n\x1a\n\0", zipped(a=b"x"), b"ID3\0", b"\x00\x01"):
        what = kind(content).what
        assert what.startswith(("a ", "an "))


def test_families_are_kinds_that_sniff_recognises():
    assert set(FAMILIES) <= set(re.findall(r'Kind\(\s*"(\w+)"', inspect.getsource(sniff_module)))
