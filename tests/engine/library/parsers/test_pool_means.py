"""Tests for engine.library.parsers.pool and child: passwords and OCR reach the parser, in a process of its own."""

from __future__ import annotations

import io
import os
import struct
import sys
import zlib
from collections.abc import Iterator
from pathlib import Path

import docx
import pytest
from docx.shared import Inches

from engine.core import ReadDocument
from engine.errors import DocumentEncrypted, DocumentNeedsOcr, ParserGaveUp
from engine.library.parsers.pool import ParserPool
from tests.helpers.parsing import pool_of
from tests.helpers.pdf import Page, pdf

MIB = 2**20
SCAN = Page(has_picture=True)
needs_sh = pytest.mark.skipif(sys.platform == "win32", reason="takes a shell script or a signal")


@pytest.fixture
def secret(tmp_path: Path) -> Path:
    path = tmp_path / "secret.pdf"
    path.write_bytes(pdf(["The treasure is under the tree."], password="sesame"))
    return path


@pytest.fixture
def pool(tmp_path: Path) -> Iterator[ParserPool]:
    with pool_of(1, 60.0, 2048 * MIB, tmp_path / "ocr") as opened:
        yield opened


@pytest.fixture
def stand_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A program called tesseract, first on the PATH; its file "seconds" says how long a page takes."""
    folder = tmp_path / "bin"
    folder.mkdir()
    row = "5\\t1\\t1\\t1\\t1\\t{0}\\t10\\t5\\t20\\t10\\t96\\t{1}\\n"
    table = "".join(row.format(number, word) for number, word in enumerate(("a", "page", "of", "recognised", "text")))
    script = (
        "#!/bin/sh\nif [ \"$1\" = --list-langs ]; then printf 'List:\\neng\\n'; exit; fi\n"
        f"cat > /dev/null; sleep $(cat '{folder}/seconds'); printf '{table}'\n"
    )
    program = folder / "tesseract"
    program.write_text(script)
    program.chmod(0o755)
    (folder / "seconds").write_text("0")
    monkeypatch.setenv("PATH", str(folder) + os.pathsep + os.environ["PATH"])
    return folder


def png(width: int, height: int) -> bytes:
    """A picture in colours that is nowhere in memory."""
    packer = zlib.compressobj(1)
    pixels = b"".join(packer.compress(b"\0" * (1 + 4 * width)) for _ in range(height)) + packer.flush()
    header = struct.pack(">IIBBBBB", width, height, 8, 6, 0, 0, 0)
    parts = ((b"IHDR", header), (b"IDAT", pixels), (b"IEND", b""))
    written = (
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data)) for kind, data in parts
    )
    return b"\x89PNG\r\n\x1a\n" + b"".join(written)


def document_of(text: str, picture: bytes) -> bytes:
    document = docx.Document()
    document.add_paragraph(text)
    document.add_picture(io.BytesIO(picture), Inches(2))
    target = io.BytesIO()
    document.save(target)
    return target.getvalue()


def read(pool: ParserPool, path: Path, passwords: tuple[str, ...] = ()) -> ReadDocument:
    return pool.read(str(path), None, 240, 32, 512 * MIB, 50_000, passwords=passwords)


def test_a_password_opens_a_document_for_reading_and_for_showing(pool: ParserPool, secret: Path):
    with pytest.raises(DocumentEncrypted, match="needs a password"):
        read(pool, secret)
    with pytest.raises(DocumentEncrypted, match="does not open it"):
        read(pool, secret, ("poppy",))

    assert read(pool, secret, ("poppy", "sesame")).chunks[0].text == "The treasure is under the tree."
    assert pool.page(str(secret), 1, 0, 3, 200, passwords=("sesame",)).image_png
    with pytest.raises(DocumentEncrypted):
        pool.page(str(secret), 1, 0, 3, 200)


def test_what_was_left_out_is_told(pool: ParserPool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("PATH", "")
    path = tmp_path / "a.pdf"
    path.write_bytes(pdf(["A page with enough text.", SCAN]))

    document = read(pool, path)

    assert not pool.can_ocr(())
    assert document.remark.startswith("1 of its 2 pages is a picture and was left out.")
    assert document.needs == "ocr"
    path.write_bytes(pdf([SCAN]))
    with pytest.raises(DocumentNeedsOcr):
        read(pool, path)


@needs_sh
def test_pictures_in_a_document_are_read_and_their_words_shown(pool: ParserPool, tmp_path: Path, stand_in: Path):
    path = tmp_path / "a.docx"
    path.write_bytes(document_of("Before it.", png(300, 100)))

    document = read(pool, path)

    assert [chunk.text for chunk in document.chunks] == ["Before it.\n\na page of recognised text"]
    assert (document.remark, document.needs) == ("", "")
    # What was kept of it is enough to show it.
    (stand_in / "tesseract").write_text("#!/bin/sh\nif [ \"$1\" = --list-langs ]; then printf 'List:\\neng\\n'; fi\n")
    seen = pool.page(str(path), None, 12, 37, 200, text="a page of recognised text")
    assert seen.text[seen.mark_start : seen.mark_end] == "a page of recognised text"


@needs_sh
@pytest.mark.skipif(sys.platform == "darwin", reason="no process there is held to its memory")
def test_a_picture_for_which_there_is_no_memory_is_left_out_of_its_document(tmp_path: Path, stand_in: Path):
    path = tmp_path / "a.docx"
    path.write_bytes(document_of("Before it.", png(9000, 9000)))
    with pool_of(1, 60.0, 1024 * MIB) as pool:
        assert [chunk.text for chunk in read(pool, path).chunks] == ["Before it."]


@needs_sh
def test_a_scan_may_take_as_long_as_its_pages_need(tmp_path: Path, stand_in: Path):
    (stand_in / "seconds").write_text("2")
    path = tmp_path / "a.pdf"
    path.write_bytes(pdf([SCAN, Page(has_picture=True, rotation=90)]))

    with pool_of(1, 60.0, 2048 * MIB, tmp_path / "ocr") as pool:
        assert pool.can_ocr(())
        # The child is started and has its libraries; from now on a file may take less than its pages do.
        pool.page(str(path), 1, 0, 0, 100)
        pool._seconds = 3.0
        document = read(pool, path)

    assert [(chunk.page, chunk.text) for chunk in document.chunks] == [
        (1, "a page of recognised text"),
        (2, "a page of recognised text"),
    ]
    assert len([*(tmp_path / "ocr").iterdir()]) == 2


@needs_sh
def test_pages_of_a_protected_document_are_kept_nowhere(tmp_path: Path, stand_in: Path):
    path = tmp_path / "a.pdf"
    path.write_bytes(pdf([SCAN]))

    with pool_of(1, 60.0, 2048 * MIB, tmp_path / "ocr") as pool:
        assert read(pool, path, ("sesame",)).chunks[0].text == "a page of recognised text"
        assert not (tmp_path / "ocr").exists()
        read(pool, path)
    assert (tmp_path / "ocr").exists()


@needs_sh
def test_a_page_that_hangs_ends_with_the_files_time(tmp_path: Path, stand_in: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("engine.library.parsers.process.OCR_PAGE_SECONDS", 0.0)
    (stand_in / "seconds").write_text("600")
    path = tmp_path / "a.pdf"
    path.write_bytes(pdf([SCAN]))

    with pool_of(1, 2.0, 2048 * MIB) as pool, pytest.raises(ParserGaveUp, match="longer than"):
        read(pool, path)


@needs_sh
def test_a_picture_is_read_by_ocr_when_it_is_there(pool: ParserPool, tmp_path: Path, stand_in: Path):
    image = pytest.importorskip("PIL.Image", reason="Pillow is not installed (extra: ocr)")
    path = tmp_path / "a.png"
    image.new("L", (200, 100), "white").save(path)

    assert read(pool, path).chunks[0].text == "a page of recognised text"
    assert pool.page(str(path), None, 0, 1, 200).marks


@needs_sh
def test_a_pdf_that_pdfium_crashes_on_is_read_by_another(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """The child is told to end as a fault in PDFium would end it."""
    path = tmp_path / "a.pdf"
    path.write_bytes(pdf(["One page."]))
    (tmp_path / "sitecustomize.py").write_text(
        "import os, signal\nimport pypdfium2\n"
        "pypdfium2.PdfDocument.__init__ = lambda *_, **__: os.kill(os.getpid(), signal.SIGSEGV)\n"
    )
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    with pool_of(1, 60.0, 2048 * MIB) as pool:
        assert read(pool, path).chunks[0].text == "One page."
        assert pool.page(str(path), 1, 0, 3, 200).text == "One page."
