"""Tests for engine.library.parsers.families and limits."""

from __future__ import annotations

import io
import os
import zipfile
from pathlib import Path

import pytest

from engine.errors import DocumentEmpty, DocumentTooLarge, DocumentUnreadable, DocumentUnsupported
from engine.library.parsers import families, sniff
from engine.library.parsers.limits import Limits, size
from tests.helpers.pdf import pdf


def test_a_wrongly_named_file_is_read_by_its_content(parsed):
    assert parsed("note.pdf", "Only a note.").format == "text"
    assert parsed("letter.txt", pdf(["A letter."])).format == "pdf"
    assert parsed("page.doc", "<html><p>A page.</p></html>").format == "html"


def test_what_is_not_read_is_named(parsed):
    with pytest.raises(DocumentUnsupported, match="This is an MP3 sound, which Ragdoll does not read yet"):
        parsed("notes.txt", b"ID3\x04\0\0\0")
    with pytest.raises(DocumentUnsupported, match=r"a HEIC picture, which Ragdoll does not read yet.*Save it as JPEG"):
        parsed("a.heic", b"\0\0\0\x18ftypheic\0\0\0\0")
    with pytest.raises(DocumentUnsupported, match="a file of binary data"):
        parsed("notes.txt", bytes(range(256)))
    with pytest.raises(DocumentUnsupported, match="This is a language model: open it on the Models page"):
        parsed("tiny.gguf", b"GGUF\3\0\0\0")


def test_an_empty_file_is_empty(parsed):
    with pytest.raises(DocumentEmpty, match="The file is empty"):
        parsed("a.pdf", b"")


def test_pictures_without_text_are_told_from_nothing(parsed):
    def package(*names: str) -> bytes:
        target = io.BytesIO()
        with zipfile.ZipFile(target, "w") as archive:
            for name in names:
                archive.writestr(name, "<document><body><p/></body></document>" if name.endswith("xml") else b"x")
        return target.getvalue()

    with pytest.raises(DocumentEmpty, match=r"There are pictures in the file but no text\. Save it as a PDF"):
        parsed("a.docx", package("word/document.xml", "word/media/image1.PNG"))
    with pytest.raises(DocumentEmpty, match="There is no text in the file"):
        parsed("a.docx", package("word/document.xml", "docProps/thumbnail.jpeg"))


def with_many_members(path: Path, *names: str) -> Path:
    """A ZIP whose directory is larger than what is read of its end at first."""
    with zipfile.ZipFile(path, "w") as archive:
        for number in range(800):
            archive.writestr(f"project/a folder with a rather long name/file {number:04}.txt", b"")
        for name in names:
            archive.writestr(name, b"x")
    return path


@pytest.mark.parametrize("most_members", [zipfile.ZIP_FILECOUNT_LIMIT, 100])
def test_a_zip_of_many_members_is_told_by_their_whole_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, most_members: int
):
    monkeypatch.setattr(zipfile, "ZIP_FILECOUNT_LIMIT", most_members)
    members = ("project/META-INF/MANIFEST.MF", "project/word/document.xml", "project/xl/workbook.xml")
    project = with_many_members(tmp_path / "a.zip", *members)
    assert families.recognise(project, Limits()).family == "zip"
    assert families.recognise(with_many_members(tmp_path / "b", "word/document.xml"), Limits()).family == "docx"


def test_a_directory_that_is_too_large_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(sniff, "MAX_ZIP_TAIL_BYTES", 2**16 + 100)
    path = with_many_members(tmp_path / "a.zip", "word/document.xml")
    assert [len(end) for end in families._ends(path, path.stat().st_size)] == [2**16, 2**16]
    assert families.recognise(path, Limits()).family == "zip"


def test_a_large_file_is_refused_unread_with_both_sizes(tmp_path: Path):
    path = tmp_path / "big.txt"
    with open(path, "wb") as stream:
        stream.truncate(3 * 2**30)
    with pytest.raises(DocumentTooLarge, match=r"3\.0 GB, more than the limit of 512 MB"):
        families.parse(path, Limits())


def test_a_missing_file_says_so(tmp_path: Path):
    with pytest.raises(DocumentUnreadable, match="no longer there"):
        families.parse(tmp_path / "gone.txt", Limits())


def test_a_folder_or_a_pipe_is_no_file(tmp_path: Path):
    os.mkfifo(tmp_path / "pipe")
    for name in ("", "pipe"):
        with pytest.raises(DocumentUnreadable, match="no ordinary file"):
            families.parse(tmp_path / name, Limits())


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_file_without_permission_says_so(tmp_path: Path):
    path = tmp_path / "locked.txt"
    path.write_text("Text.")
    path.chmod(0)
    with pytest.raises(DocumentUnreadable, match="not allowed"):
        families.parse(path, Limits())


@pytest.mark.parametrize(
    ("num_bytes", "text"),
    [(0, "0 bytes"), (1, "1 byte"), (1023, "1023 bytes"), (1024, "1.0 KB"), (10 * 2**20, "10 MB"), (2**40, "1,024 GB")],
)
def test_sizes_are_said_in_human_units(num_bytes: int, text: str):
    assert size(num_bytes) == text
