"""Tests for engine.library.parsers.iwork."""

from __future__ import annotations

import pytest

from engine.errors import DocumentNeedsOcr, DocumentUnreadable, DocumentUnsupported
from tests.helpers.packages import packed
from tests.helpers.pdf import Page, pdf

OF_2009 = {"index.xml": "<sl:document xmlns:sl='x'/>", "buildVersionHistory.plist": "<plist/>"}
OF_TODAY = {"Index/Document.iwa": b"\0\x01", "preview.jpg": b"\xff\xd8\xff"}


def test_the_preview_is_read_and_said_to_be_one(parsed):
    preview = pdf(["The rent is due on the first.", "It goes on for two pages."])
    document = parsed("lease.pages", packed({**OF_2009, "QuickLook/Preview.pdf": preview}))

    assert document.format == "iwork"
    assert [page.text for page in document.pages] == ["The rent is due on the first.", "It goes on for two pages."]
    assert (document.remark, document.needs) == (
        "Only the preview that was saved with it was read, which may be shorter than the document.",
        "",
    )


def test_the_parts_of_one_that_is_kept_as_a_folder_are_recognised(parsed):
    with pytest.raises(DocumentUnsupported, match="Export it as PDF"):
        parsed("Index.zip", packed({"Index/Document.iwa": b"\0\x01", "Index/Metadata.iwa": b"\0"}))


@pytest.mark.parametrize("parts", [OF_TODAY, OF_2009, {"index.apxl": "<key/>"}])
def test_without_a_preview_it_says_what_to_do(parsed, parts):
    with pytest.raises(DocumentUnsupported, match=r"Pages, Numbers or Keynote.*no PDF preview\. Export it as PDF"):
        parsed("a.key", packed(parts))


def test_a_preview_that_cannot_be_read_is_told_of_with_the_way_out(parsed):
    with pytest.raises(DocumentUnreadable, match=r"only the preview can be read.*Export it as PDF"):
        parsed("a.pages", packed({**OF_2009, "QuickLook/Preview.pdf": b"%PDF-1.4 no more"}))
    with pytest.raises(DocumentNeedsOcr):
        parsed("a.pages", packed({**OF_2009, "QuickLook/Preview.pdf": pdf([Page(has_picture=True)])}))


def test_one_in_an_archive_does_not_keep_the_others_from_being_read(parsed):
    document = parsed("a.zip", packed({"plan.key": packed(OF_TODAY), "note.txt": "Only a note."}))
    assert [page.text for page in document.pages] == ["Only a note."]
    assert "Keynote" in document.remark
