"""Tests for engine.library.parsers.encrypted."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from msoffcrypto.format.ooxml import OOXMLFile

from engine.errors import DocumentEncrypted, DocumentUnreadable, DocumentUnsupported
from engine.library.parsers.limits import Limits
from tests.helpers.compound import compound
from tests.helpers.documents import write_docx


@pytest.fixture
def locked(tmp_path: Path):
    """A Word file that a password protects."""

    def lock(password: str) -> bytes:
        target = io.BytesIO()
        with open(write_docx(tmp_path / "plain.docx", "The secret words."), "rb") as plain:
            OOXMLFile(plain).encrypt(password, target)
        return target.getvalue()

    return lock


def test_a_password_opens_what_it_protects(parsed, locked):
    document = parsed("a.docx", locked("right"), Limits(passwords=("wrong", "right")))
    assert (document.format, document.pages[0].text) == ("docx", "The secret words.")


def test_without_its_password_a_document_asks_for_it(parsed, locked):
    with pytest.raises(DocumentEncrypted, match="needs a password") as missing:
        parsed("a.docx", locked("right"))
    assert missing.value.way_out == "Enter its password, and it will be read."
    with pytest.raises(DocumentEncrypted, match="The password does not open it"):
        parsed("a.docx", locked("right"), Limits(passwords=("wrong",)))


def test_what_everyone_may_read_is_read(parsed, locked):
    assert parsed("a.docx", locked("VelvetSweatshop")).pages[0].text == "The secret words."


def test_a_damaged_one_is_refused_with_a_sentence(parsed):
    with pytest.raises(DocumentUnreadable, match="The document is damaged"):
        parsed("a.docx", compound({"Something": bytes(100)}))
    with pytest.raises(DocumentUnsupported, match="protected in a way that cannot be opened here"):
        parsed("a.docx", compound({"EncryptedPackage": bytes(100), "EncryptionInfo": bytes(4)}))
