"""Tests for engine.library.parsers.archives."""

from __future__ import annotations

import errno
import gzip
import hashlib
import hmac
import io
import os
import random
import struct
import tarfile
import zipfile
import zlib

import pytest
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

from engine.errors import DocumentEmpty, DocumentEncrypted, DocumentTooLarge, DocumentUnreadable, DocumentUnsupported
from engine.library.parsers import archives, nested
from engine.library.parsers.limits import Limits
from tests.helpers.pdf import pdf


def zipped(members: dict[str, bytes | str], compression: int = zipfile.ZIP_DEFLATED) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", compression) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return out.getvalue()


def tarred(members: dict[str, bytes], mode: str) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode=mode) as archive:
        for name, content in members.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content))
    return out.getvalue()


def places(document):
    return [(page.number, page.place) for page in document.pages]


def test_each_member_is_read_by_its_family_and_named_by_its_path(parsed):
    document = parsed(
        "a.zip",
        zipped(
            {"notes/a.txt": "Some text.", "two.pdf": pdf(["One page.", "Another page."]), "b.md": "# Head\n\nText."}
        ),
    )

    assert document.format == "archive"
    assert places(document) == [(1, "notes/a.txt"), (2, "two.pdf, page 1"), (3, "two.pdf, page 2"), (4, "b.md")]
    assert [page.line_word for page in document.pages] == ["line", "", "", "line"]
    assert document.pages[3].blocks[0].kind == "heading"
    assert (document.remark, document.needs) == ("", "")


def test_a_tar_archive_that_ends_with_a_zip_archive_is_read_whole(parsed):
    inner = zipped({"inner.txt": "Innermost."})
    document = parsed("a.tar", tarred({"a.txt": b"First.", "b.zip": inner}, "w"))
    assert places(document) == [(1, "a.txt"), (2, "b.zip, inner.txt")]
    assert places(parsed("b.tar", tarred({"PKG-INFO.txt": b"First."}, "w"))) == [(1, "PKG-INFO.txt")]


def test_a_member_on_which_its_parser_breaks_takes_no_other_with_it(parsed, monkeypatch):
    def breaks(path, limits, name):
        raise struct.error("unpack requires a buffer of 4 bytes")

    good = parsed("good.zip", zipped({"a.txt": "Some text."}))
    real = nested.families.parse
    monkeypatch.setattr(nested.families, "parse", lambda path, limits, name="": (
        breaks(path, limits, name) if name == "b.doc" else real(path, limits, name)))  # fmt: skip
    document = parsed("a.zip", zipped({"a.txt": "Some text.", "b.doc": "x"}))
    assert document.pages[0].text == good.pages[0].text
    assert "b.doc: It seems to be damaged (error: unpack requires a buffer of 4 bytes)." in document.remark


def test_a_member_that_is_no_text_is_left_out_and_told(parsed):
    document = parsed("a.zip", zipped({"a.txt": "Some text.", "b.bin": bytes(range(256))}))

    assert places(document) == [(1, "a.txt")]
    assert document.remark.startswith(
        "1 of the 2 files in it could not be read in full. b.bin: This is a file of binary"
    )


def test_an_archive_with_nothing_to_read_says_why(parsed):
    with pytest.raises(DocumentUnsupported, match="This is a file of binary data"):
        parsed("a.zip", zipped({"b.bin": bytes(range(256))}))
    with pytest.raises(DocumentUnsupported, match=r"b\.bin: This is a file of binary data"):
        parsed("a.zip", zipped({"b.bin": bytes(range(256)), "c.bin": bytes(range(256))}))
    with pytest.raises(DocumentEmpty, match="archive is empty"):
        parsed("a.zip", zipped({}))


def test_archives_in_archives_are_read_so_deep_and_no_deeper(parsed):
    inner = zipped({"deep.txt": "Deep text."})
    document = parsed("a.zip", zipped({"inner.zip": inner}))
    assert places(document) == [(1, "inner.zip, deep.txt")]

    for level in range(6):
        inner = zipped({f"{level}.zip": inner})
    with pytest.raises(DocumentUnsupported, match="too many archives"):
        parsed("b.zip", inner)


def test_a_bomb_is_refused_before_it_goes_off(parsed):
    with pytest.raises(DocumentTooLarge, match="unpacks to"):
        parsed("a.zip", zipped({f"{index}.txt": bytes(30_000_000) for index in range(4)}))
    with pytest.raises(DocumentTooLarge, match="unpacks to"):
        parsed("a.gz", gzip.compress(b"a" * 2_000_000), Limits(max_unpacked_bytes=1_000_000))
    with pytest.raises(DocumentTooLarge, match="unpacks to"):
        parsed("a.tar.gz", tarred({"a": bytes(2_000_000)}, "w:gz"), Limits(max_unpacked_bytes=1_000_000))


def test_too_many_members_are_refused(parsed, monkeypatch):
    monkeypatch.setattr(archives, "MAX_MEMBERS", 3)
    with pytest.raises(DocumentTooLarge, match="more than 3 files"):
        parsed("a.zip", zipped(dict.fromkeys(("a.txt", "b.txt", "c.txt", "d.txt"), "Text.")))


@pytest.mark.parametrize(
    ("name", "mode"), [("a.tar", "w"), ("a.tgz", "w:gz"), ("a.tar.bz2", "w:bz2"), ("a.txz", "w:xz")]
)
def test_tar_archives_are_read_whatever_packs_them(parsed, name, mode):
    assert places(parsed(name, tarred({"x/a.txt": b"Text.", "b.txt": b"Text."}, mode))) == [
        (1, "x/a.txt"),
        (2, "b.txt"),
    ]


def test_a_packed_file_is_read_under_its_own_name(parsed):
    document = parsed("notes.md.gz", gzip.compress(b"# Head\n\nText.\n"))
    assert places(document) == [(1, "notes.md")]
    assert document.pages[0].blocks[0].kind == "heading"


def test_a_packed_file_in_an_archive_is_read_under_its_own_name(parsed):
    table = gzip.compress(b"name,age\nAda,36\nAlan,41\n")
    document = parsed("a.zip", zipped({"in/data.csv.gz": table, "b.gz": gzip.compress(b"Text.")}))
    assert [place for _, place in places(document)] == ["in/data.csv.gz, data.csv", "b.gz, b"]
    assert document.pages[0].blocks[-1].kind == "table_row"


def test_a_members_path_is_only_a_name(parsed, tmp_path):
    document = parsed("a.zip", zipped({"../../outside.txt": "Text.", "/etc/passwd": "root"}))
    assert places(document) == [(1, "../../outside.txt"), (2, "etc/passwd")]
    assert [path.name for path in tmp_path.iterdir()] == ["a.zip"]


def test_what_systems_put_beside_files_is_passed_over(parsed):
    members = {"a.txt": "Text.", "__MACOSX/._a.txt": b"\0\1", ".DS_Store": b"\0\1", "x/Thumbs.db": b"\0\1"}
    document = parsed("a.zip", zipped(members))
    assert (places(document), document.remark) == ([(1, "a.txt")], "")


@pytest.mark.parametrize("encoding", ["utf-8", "cp1252"])
def test_names_without_a_mark_for_their_encoding_are_read_as_they_were_meant(parsed, encoding):
    raw = "Übungsblätter für Anfänger.txt".encode(encoding)
    # As programs write it that know of no code page: the same number of bytes, and no flag.
    data = zipped({"x" * len(raw): "Text."}).replace(b"x" * len(raw), raw)
    assert places(parsed("a.zip", data)) == [(1, "Übungsblätter für Anfänger.txt")]


def test_an_archive_of_office_files_is_no_office_file(parsed):
    inner = zipped({"[Content_Types].xml": "<Types/>", "word/document.xml": "<w/>"})
    document = parsed("a.zip", zipped({"a.txt": "Text.", "broken.docx": inner}, zipfile.ZIP_STORED))
    assert document.format == "archive"
    assert "broken.docx: The Word document is damaged" in document.remark


def test_a_damaged_archive_says_so(parsed):
    data = zipped({"a.txt": "Some text, long enough to be cut. " * 20})
    with pytest.raises(DocumentUnreadable, match="damaged"):
        parsed("a.zip", data[:60])


THREE = {name: bytes(ord(name[0]) for _ in range(30_000)) for name in ("a.txt", "b.txt", "c.txt")}


def test_a_tar_archive_that_is_cut_is_read_as_far_as_it_goes(parsed):
    data = tarred(THREE, "w")

    in_a_member = parsed("a.tar", data[: data.index(b"b.txt") + 5_000])
    assert places(in_a_member) == [(1, "a.txt")]
    assert in_a_member.remark == (
        "1 of the 2 files in it could not be read in full. b.txt: It is damaged from here on."
    )
    in_a_head = bytearray(data)
    in_a_head[data.index(b"c.txt") + 148] ^= 1
    before = parsed("b.tar", bytes(in_a_head))
    assert places(before) == [(1, "a.txt"), (2, "b.txt")]
    assert before.remark.endswith("after b.txt: It is damaged from here on.")


@pytest.mark.parametrize(("name", "mode"), [("a.tgz", "w:gz"), ("a.tar.bz2", "w:bz2"), ("a.txz", "w:xz")])
@pytest.mark.parametrize("is_cut", [True, False])
def test_a_packed_tar_archive_with_a_lost_end_is_read_as_far_as_it_goes(parsed, name, mode, is_cut):
    chance = random.Random(1)
    texts = {f"{number}.txt": bytes(chance.choices(b"abcdefgh ", k=400_000)) for number in range(4)}
    data = tarred(texts, mode)
    whole = len(data) * 3 // 4

    document = parsed(name, data[:whole] + (b"" if is_cut else b"\xff" * 5_000 + data[whole + 5_000 :]))

    assert places(document)[0] == (1, "0.txt")
    assert document.remark.endswith("It is damaged from here on.")


@pytest.mark.parametrize(("name", "mode"), [("a.tar", "w"), ("a.tgz", "w:gz"), ("a.tar.bz2", "w:bz2")])
def test_a_cut_tar_archive_in_which_nothing_is_whole_is_refused(parsed, name, mode):
    data = tarred({"a.txt": random.Random(1).randbytes(300_000)}, mode)

    with pytest.raises(DocumentUnreadable, match="The archive is damaged"):
        parsed(name, data[: len(data) // 2])


@pytest.mark.parametrize(("number", "words"), [(errno.ENOSPC, "No space left"), (errno.EIO, "Input/output error")])
def test_what_the_system_refuses_is_no_damage_of_the_archive(parsed, monkeypatch, number, words):
    """Else a drive that goes in the middle would leave half a document for good."""
    real = nested.parse

    def full(data, name, limits):
        if name == "b.txt":
            raise OSError(number, os.strerror(number))
        return real(data, name, limits)

    monkeypatch.setattr(nested, "parse", full)
    with pytest.raises(OSError, match=words):
        parsed("a.tar", tarred(THREE, "w"))


def zip_crypto(content: bytes, password: bytes) -> bytes:
    """A ZIP whose one member, secret.txt, is encrypted in PKWARE's old way (APPNOTE 6.1)."""
    table = [crc32_of(value) for value in range(256)]
    state = [0x12345678, 0x23456789, 0x34567890]

    def update(byte: int) -> None:
        state[0] = (state[0] >> 8) ^ table[(state[0] ^ byte) & 0xFF]
        state[1] = ((state[1] + (state[0] & 0xFF)) * 134775813 + 1) & 0xFFFFFFFF
        state[2] = (state[2] >> 8) ^ table[(state[2] ^ (state[1] >> 24)) & 0xFF]

    for byte in password:
        update(byte)

    def encrypted(byte: int) -> int:
        key = state[2] | 2
        out = byte ^ (((key * (key ^ 1)) >> 8) & 0xFF)
        update(byte)
        return out

    plain = zipped({"secret.txt": content}, zipfile.ZIP_STORED)
    (entry,) = zipfile.ZipFile(io.BytesIO(plain)).infolist()
    data = bytes(encrypted(byte) for byte in bytes(11) + bytes([entry.CRC >> 24]) + content)
    start = 30 + len(entry.filename)
    out = bytearray(plain[:start] + data + plain[start + len(content) :])
    directory = out.index(b"PK\x01\x02")
    for flags, size in ((6, 18), (directory + 8, directory + 20)):
        out[flags] |= 1
        out[size : size + 4] = len(data).to_bytes(4, "little")
    end = out.index(b"PK\x05\x06")
    out[end + 16 : end + 20] = directory.to_bytes(4, "little")
    return bytes(out)


def crc32_of(value: int) -> int:
    for _ in range(8):
        value = (value >> 1) ^ (0xEDB88320 if value & 1 else 0)
    return value


def test_encrypted_members_open_with_the_password(parsed):
    data = zip_crypto(b"The treasure is under the tree.", b"sesame")

    with pytest.raises(DocumentEncrypted, match="needs a password"):
        parsed("a.zip", data)
    with pytest.raises(DocumentEncrypted, match="The password does not open it"):
        parsed("a.zip", data, Limits(passwords=("wrong",)))
    assert parsed("a.zip", data, Limits(passwords=("wrong", "sesame"))).pages[0].text.startswith("The treasure")


def zip_aes(content: bytes, password: bytes, strength: int) -> bytes:
    """A ZIP whose one member, secret.txt, is encrypted as WinZip does it (AE-2)."""
    key_bytes = {1: 16, 2: 24, 3: 32}[strength]
    salt = bytes(range(key_bytes // 2))
    keys = hashlib.pbkdf2_hmac("sha1", password, salt, 1000, 2 * key_bytes + 2)
    packer = zlib.compressobj(wbits=-15)
    packed = packer.compress(content) + packer.flush()
    counters = b"".join(number.to_bytes(16, "little") for number in range(1, len(packed) // 16 + 2))
    stream = Cipher(algorithms.AES(keys[:key_bytes]), modes.ECB()).encryptor().update(counters)
    text = bytes(sign ^ key for sign, key in zip(packed, stream, strict=False))
    data = salt + keys[-2:] + text + hmac.digest(keys[key_bytes : 2 * key_bytes], text, "sha1")[:10]
    extra = struct.pack("<HHH2sBH", 0x9901, 7, 2, b"AE", strength, 8)
    common = struct.pack("<HHHHHIIIHH", 51, 1, 99, 0, 0, 0, len(data), len(content), 10, len(extra))
    local = b"PK\x03\x04" + common + b"secret.txt" + extra + data
    entry = (
        b"PK\x01\x02" + struct.pack("<H", 51) + common + struct.pack("<HHHII", 0, 0, 0, 0, 0) + b"secret.txt" + extra
    )
    return local + entry + b"PK\x05\x06" + struct.pack("<HHHHIIH", 0, 0, 1, 1, len(entry), len(local), 0)


@pytest.mark.parametrize("strength", [1, 2, 3])
def test_members_encrypted_with_aes_open_with_the_password(parsed, strength):
    content = b"The treasure is under the tree. " * 90_000
    data = zip_aes(content, "Schlüssel".encode(), strength)

    with pytest.raises(DocumentEncrypted, match="needs a password"):
        parsed("a.zip", data)
    with pytest.raises(DocumentEncrypted, match="The password does not open it"):
        parsed("a.zip", data, Limits(passwords=("wrong",)))
    text = parsed("a.zip", data, Limits(passwords=("wrong", "Schlüssel"))).pages[0].text
    assert text.encode() == content


def test_a_member_with_a_broken_seal_does_not_open(parsed):
    data = bytearray(zip_aes(b"The treasure is under the tree.", b"sesame", 3))
    data[80] ^= 1
    with pytest.raises(DocumentEncrypted):
        parsed("a.zip", bytes(data), Limits(passwords=("sesame",)))


def test_an_archive_with_an_encrypted_part_is_read_and_still_needs_the_password(parsed):
    locked = zip_crypto(b"The treasure is under the tree.", b"sesame")
    document = parsed("a.zip", zipped({"open.txt": "Open.", "locked.zip": locked}))

    assert places(document) == [(1, "open.txt")]
    assert document.needs == "password"
    assert "needs a password" in document.remark
