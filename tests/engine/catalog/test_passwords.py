"""Tests for engine.catalog.passwords, and for what the catalogue says that a document needs."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest

from engine.catalog import Catalog
from engine.core import Chunk, Document, FoundFile, ReadDocument
from engine.errors import DocumentEmpty, DocumentEncrypted, DocumentNeedsOcr

WHOLE = ReadDocument("pdf", "", 2, (Chunk(0, 1, 0, 3, "", "abc"),))
PARTIAL = ReadDocument("pdf", "", 2, (Chunk(0, 1, 0, 3, "", "abc"),), "1 of its 2 pages is a picture.", "ocr")


@pytest.fixture
def catalog(tmp_path: Path) -> Iterator[Catalog]:
    opened = Catalog.open(tmp_path)
    yield opened
    opened.close()


def entered(catalog: Catalog, path: str = "/docs/a.pdf") -> int:
    catalog.add_documents([FoundFile(path, 10, 1)])
    return known(catalog, path).document_id


def known(catalog: Catalog, path: str = "/docs/a.pdf") -> Document:
    document = catalog.document_by_path(path)
    assert document is not None
    return document


def test_an_encrypted_document_needs_a_password_and_a_scan_needs_ocr(catalog: Catalog) -> None:
    locked, scan, empty = (entered(catalog, f"/docs/{name}") for name in "abc")

    catalog.mark_unreadable(locked, DocumentEncrypted("It needs a password."))
    catalog.mark_unreadable(scan, DocumentNeedsOcr("Pictures."))
    catalog.mark_unreadable(empty, DocumentEmpty("Nothing."))

    assert [known(catalog, f"/docs/{name}").needs for name in "abc"] == ["password", "ocr", ""]
    assert [document.document_id for document in catalog.documents_needing("password")] == [locked]
    assert catalog.documents_needing("") == ()


def test_a_document_that_waits_to_be_read_needs_nothing(catalog: Catalog) -> None:
    document_id = entered(catalog)
    catalog.mark_unreadable(document_id, DocumentEncrypted("It needs a password."))

    catalog.mark_pending([document_id])

    assert (known(catalog).needs, known(catalog).reason) == ("", "")


def test_what_was_left_out_of_a_document_is_told_until_it_is_read_again(catalog: Catalog) -> None:
    document_id, file = entered(catalog), FoundFile("/docs/a.pdf", 10, 1)
    catalog.mark_indexed(document_id, file, "hash", PARTIAL, "e", 0)

    catalog.mark_pending([document_id])
    catalog.mark_unchanged(document_id, file)

    assert (known(catalog).state, known(catalog).reason, known(catalog).needs) == ("indexed", PARTIAL.remark, "ocr")

    catalog.mark_indexed(document_id, file, "hash", WHOLE, "e", 0)

    assert (known(catalog).reason, known(catalog).needs) == ("", "")


def test_a_password_is_held_for_the_session_only(catalog: Catalog, tmp_path: Path) -> None:
    document_id = entered(catalog)

    catalog.give_password([document_id], "open sesame", remember=False)

    assert catalog.passwords_of(document_id) == ("open sesame",)
    assert catalog.passwords_of(document_id + 1) == ()
    catalog.close()
    assert not any(b"sesame" in file.read_bytes() for file in tmp_path.iterdir())
    again = Catalog.open(tmp_path)
    assert again.passwords_of(document_id) == ()
    again.close()


def test_a_remembered_password_outlives_the_session_and_goes_with_its_document(
    catalog: Catalog, tmp_path: Path
) -> None:
    document_id = entered(catalog)
    catalog.give_password([document_id], "first", remember=True)
    catalog.give_password([document_id], "second", remember=True)
    catalog.give_password([document_id], "second", remember=True)
    catalog.close()

    again = Catalog.open(tmp_path)
    assert again.passwords_of(document_id) == ("second", "first")
    again.remove_documents([document_id])
    again.close()

    with sqlite3.connect(tmp_path / "catalog.sqlite") as connection:
        assert connection.execute("SELECT count(*) FROM passwords").fetchone() == (0,)
    connection.close()


def test_a_password_that_does_not_open_its_document_is_forgotten(catalog: Catalog) -> None:
    document_id = entered(catalog)
    catalog.give_password([document_id], "wrong", remember=True)

    catalog.mark_unreadable(document_id, DocumentEncrypted("The password does not open it."))

    assert catalog.passwords_of(document_id) == ()


@pytest.mark.skipif(os.name == "nt", reason="Windows has other rights")
def test_nobody_else_may_read_the_catalogue(catalog: Catalog, tmp_path: Path) -> None:
    entered(catalog)

    assert {file.stat().st_mode & 0o077 for file in tmp_path.iterdir()} == {0}
