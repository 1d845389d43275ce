"""Writes small PDF files by hand: pages of positioned text, a picture without text, a password."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

_PADDING = bytes.fromhex("28BF4E5E4E758A4164004E56FFFA01082E2E00B6D0683E802F0CA9FE6453697A")
_IMAGE = b"/Type /XObject /Subtype /Image /Width %d /Height %d /ColorSpace /DeviceGray /BitsPerComponent 8"
_FILE_ID = b"0123456789abcdef"


@dataclass(frozen=True, slots=True)
class Line:
    """Text at a distance in points from the left edge; `size` is the font's, `gap` the distance to the line above."""

    text: str
    size: float = 11
    left: float = 72
    gap: float | None = None
    is_bold: bool = False


@dataclass(frozen=True, slots=True)
class Page:
    """A page; with a picture, as a `scan` it covers all. `num_drawn` letters are no text but strokes.

    `notes` have a kind ("FreeText"), what they say, and by whom, each in a place of its own. Below the text stand the
    `shades`: pictures of 300 by 100 pixels, all of that grey, 300 by 100 points large.
    """

    lines: Sequence[Line] = ()
    has_picture: bool = False
    rotation: int = 0
    is_scan: bool = False
    has_hidden_text: bool = False
    num_drawn: int = 0
    notes: Sequence[tuple[str, str, str]] = ()
    shades: Sequence[int] = ()


def pdf(pages: Iterable[Page | str], title: str = "", password: str | None = None) -> bytes:
    """A PDF of these pages; a str is a page of plain lines. With a password even an empty one, it is encrypted."""
    pages = [page if isinstance(page, Page) else Page([Line(text) for text in page.split("\n")]) for page in pages]
    key = _key(password) if password is not None else None
    count = len(pages)
    kids = " ".join(f"{5 + 2 * index} 0 R" for index in range(count))
    objects: list[bytes] = [
        b"<< /Type /Catalog /Pages 2 0 R >>",
        f"<< /Type /Pages /Kids [{kids}] /Count {count} >>".encode(),
        b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica /Encoding /WinAnsiEncoding >>",
        _stream(_IMAGE % (2, 2), b"\x00\x80\x80\xff", key, 4),
    ]
    shades = sorted({shade for page in pages for shade in page.shades})
    for index, page in enumerate(pages):
        bold = "<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica-Bold /Encoding /WinAnsiEncoding >>"
        drawn = "".join(f" /Sh{shade} {5 + 2 * count + shades.index(shade)} 0 R" for shade in page.shades)
        resources = f"/Resources << /Font << /F1 3 0 R /F2 {bold} >> /XObject << /Im1 4 0 R{drawn} >> >>"
        place = f"/Parent 2 0 R /MediaBox [0 0 595 842] /Rotate {page.rotation} /Contents {6 + 2 * index} 0 R"
        notes = b" ".join(_note(at, *note) for at, note in enumerate(page.notes))
        objects.append(f"<< /Type /Page {place} {resources} /Annots [".encode() + notes + b"] >>")
        objects.append(_stream(b"", _content(page), key, 6 + 2 * index))
    for at, shade in enumerate(shades):
        objects.append(_stream(_IMAGE % (300, 100), bytes([shade]) * 30_000, key, 5 + 2 * count + at))
    info = len(objects) + 1
    objects.append(b"<< /Title " + _string(_encrypted(title.encode("cp1252"), key, info)) + b" >>")
    if key is not None:
        objects.append(_security(password or ""))
    return _file(objects, info, is_encrypted=key is not None)


def _content(page: Page) -> bytes:
    parts = [b"q 400 0 0 400 100 200 cm /Im1 Do Q"] if page.has_picture else []
    if page.is_scan:
        parts.append(b"q 595 0 0 842 0 0 cm /Im1 Do Q")
    parts += [b"%d 700 m %d 720 l %d 700 l 75 710 l h f" % ((at, at + 5, at + 9)) for at in range(page.num_drawn)]
    for at, shade in enumerate(page.shades):
        parts.append(b"q 300 0 0 100 100 %d cm /Sh%d Do Q" % (100 + 150 * at, shade))
    mode = "3 Tr " if page.has_hidden_text else ""
    top = 842.0 - 72
    for line in page.lines:
        top -= line.gap if line.gap is not None else line.size * 1.2
        text = _string(line.text.encode("cp1252"))
        font = "F2" if line.is_bold else "F1"
        parts.append(f"BT {mode}/{font} {line.size} Tf {line.left} {top:.2f} Td ".encode() + text + b" Tj ET")
    return b"\n".join(parts)


def _note(at: int, kind: str, text: str, author: str) -> bytes:
    place = f"/Rect [100 {600 - 40 * at} 300 {620 - 40 * at}]"
    said = b"/Contents " + _string(text.encode("cp1252")) + b" /T " + _string(author.encode("cp1252"))
    return f"<< /Type /Annot /Subtype /{kind} {place} ".encode() + said + b" >>"


def _string(data: bytes) -> bytes:
    return b"<" + data.hex().encode() + b">"


def _stream(entries: bytes, data: bytes, key: bytes | None, number: int) -> bytes:
    data = _encrypted(data, key, number)
    return b"<< " + entries + b" /Length %d >>\nstream\n" % len(data) + data + b"\nendstream"


def _file(objects: list[bytes], info: int, *, is_encrypted: bool) -> bytes:
    out = bytearray(b"%PDF-1.4\n%\xe2\xe3\xcf\xd3\n")
    offsets = []
    for number, body in enumerate(objects, start=1):
        offsets.append(len(out))
        out += b"%d 0 obj\n" % number + body + b"\nendobj\n"
    start = len(out)
    out += b"xref\n0 %d\n0000000000 65535 f \n" % (len(objects) + 1)
    out += b"".join(b"%010d 00000 n \n" % offset for offset in offsets)
    out += b"trailer\n<< /Size %d /Root 1 0 R /Info %d 0 R" % (len(objects) + 1, info)
    if is_encrypted:
        out += b" /Encrypt %d 0 R /ID [%s %s]" % (len(objects), _string(_FILE_ID), _string(_FILE_ID))
    return bytes(out + b" >>\nstartxref\n%d\n%%%%EOF\n" % start)


# The standard security handler, revision 2 (40-bit RC4): ISO 32000-1, 7.6.3. The owner has the user's password.


def _padded(password: str) -> bytes:
    return (password.encode("latin-1") + _PADDING)[:32]


def _owner_entry(password: str) -> bytes:
    return _rc4(hashlib.md5(_padded(password)).digest()[:5], _padded(password))


def _key(password: str) -> bytes:
    permissions = (-4 & 0xFFFFFFFF).to_bytes(4, "little")
    return hashlib.md5(_padded(password) + _owner_entry(password) + permissions + _FILE_ID).digest()[:5]


def _security(password: str) -> bytes:
    user_entry = _rc4(_key(password), _PADDING)
    entries = b"/O " + _string(_owner_entry(password)) + b" /U " + _string(user_entry)
    return b"<< /Filter /Standard /V 1 /R 2 /P -4 " + entries + b" >>"


def _encrypted(data: bytes, key: bytes | None, number: int) -> bytes:
    if key is None:
        return data
    return _rc4(hashlib.md5(key + number.to_bytes(3, "little") + b"\0\0").digest()[:10], data)


def _rc4(key: bytes, data: bytes) -> bytes:
    state = list(range(256))
    j = 0
    for i in range(256):
        j = (j + state[i] + key[i % len(key)]) % 256
        state[i], state[j] = state[j], state[i]
    out = bytearray()
    i = j = 0
    for byte in data:
        i = (i + 1) % 256
        j = (j + state[i]) % 256
        state[i], state[j] = state[j], state[i]
        out.append(byte ^ state[(state[i] + state[j]) % 256])
    return bytes(out)


def form(fields: dict[str, str], ticked: Sequence[str] = ()) -> bytes:
    """A PDF of one page with a form that has been filled in; `ticked` are boxes, each with a cross."""
    names = [*fields, *ticked]
    numbers = [5 + index for index in range(len(names))]
    kids = " ".join(f"{number} 0 R" for number in numbers)
    content = _content(Page([Line("Application for a library card.")]))
    objects = [
        f"<< /Type /Catalog /Pages 2 0 R /AcroForm << /Fields [{kids}] /DA (/F1 11 Tf) >> >>".encode(),
        b"<< /Type /Pages /Kids [4 0 R] /Count 1 >>",
        b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica /Encoding /WinAnsiEncoding >>",
        f"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 595 842] /Annots [{kids}] /Contents {5 + len(names)} 0 R"
        " /Resources << /Font << /F1 3 0 R >> >> >>".encode(),
    ]
    for index, name in enumerate(names):
        place = f"/Rect [100 {600 - 40 * index} 300 {620 - 40 * index}] /Type /Annot /Subtype /Widget /P 4 0 R"
        value = (
            b"/FT /Btn /V /Yes /AS /Yes" if name in ticked else b"/FT /Tx /V " + _string(fields[name].encode("cp1252"))
        )
        objects.append(b"<< " + place.encode() + b" /T " + _string(name.encode("cp1252")) + b" " + value + b" >>")
    objects.append(_stream(b"", content, None, len(objects) + 1))
    objects.append(b"<< >>")
    return _file(objects, len(objects), is_encrypted=False)
