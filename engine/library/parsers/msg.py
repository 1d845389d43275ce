"""Outlook messages (.msg): the same letters as mails, kept as properties in a compound file ([MS-OXMSG])."""

from __future__ import annotations

import datetime as dt
import struct
from collections.abc import Iterator
from pathlib import Path

from engine.core import ParsedDocument
from engine.errors import DocumentUnreadable
from engine.library.parsers import rtf
from engine.library.parsers.compound import Compound, opened
from engine.library.parsers.compressed_rtf import unpacked
from engine.library.parsers.encoding import codepage, decode
from engine.library.parsers.letters import Attachment, Body, Letter, Letters
from engine.library.parsers.limits import Limits
from engine.library.parsers.number_format import day

# Property tags.
_SUBJECT, _BODY, _HTML, _RTF = "0037", "1000", "1013", "1009"
_SENDER_NAME, _SENDER_ADDRESS, _SENDER_SMTP = "0C1A", "0C1F", "5D01"
_TO, _CC, _BCC = "0E04", "0E03", "0E02"
_FILE_DATA, _LONG_FILE_NAME, _FILE_NAME, _DISPLAY_NAME = "3701", "3707", "3704", "3001"
_SENT, _DELIVERED, _CODEPAGE, _INTERNET_CODEPAGE, _HIDDEN = 0x0039, 0x0E06, 0x3FFD, 0x3FDE, 0x7FFE
_TIME, _LONG, _BOOLEAN = 0x0040, 0x0003, 0x000B

_PROPERTIES = "__properties_version1.0"
_PROPERTY = struct.Struct("<HHI8s")
_EPOCH = dt.datetime(1601, 1, 1)


def parse(path: Path, limits: Limits) -> ParsedDocument:
    with opened(path, "The message") as file:
        letter = _letter(_Message(file, header_bytes=32), limits)
        letters = Letters(limits)
        letters.add(letter, "message")
        return letters.document("mail", letter.subject)


class _Message:
    """The properties of a message or of an attachment.

    Args:
        file: The storage that holds them.
        header_bytes: The bytes before the first property of fixed length: 32 in the outer message, 24 in an attached
            one, 8 in an attachment.
    """

    def __init__(self, file: Compound, header_bytes: int) -> None:
        self.file = file
        data = file.data(_PROPERTIES) or b""
        entries = (_PROPERTY.unpack_from(data, at) for at in range(header_bytes, len(data) - 15, _PROPERTY.size))
        self._fixed = {(tag, kind): value for kind, tag, _, value in entries}

    def binary(self, tag: str) -> bytes:
        return self.file.data(f"__substg1.0_{tag}0102") or b""

    def text(self, tag: str) -> str:
        wide = self.file.data(f"__substg1.0_{tag}001F")
        if wide is not None:
            return wide.decode("utf-16-le", "replace").rstrip("\0")
        narrow = self.file.data(f"__substg1.0_{tag}001E") or b""
        return decode(narrow, self.codepage).rstrip("\0") if narrow else ""

    @property
    def codepage(self) -> str:
        number = self._number(_CODEPAGE) or self._number(_INTERNET_CODEPAGE)
        return codepage(number) if number else ""

    @property
    def html_codepage(self) -> str:
        number = self._number(_INTERNET_CODEPAGE)
        return codepage(number) if number else ""

    @property
    def is_hidden(self) -> bool:
        return bool(self._fixed.get((_HIDDEN, _BOOLEAN), b"\0")[0])

    def time(self) -> str:
        """Returns when it was sent, else delivered, in ISO form (UTC); "" for a draft."""
        for tag in (_SENT, _DELIVERED):
            ticks = struct.unpack("<Q", self._fixed.get((tag, _TIME), bytes(8)))[0]
            if 0 < ticks < 2**61:
                return f"{day(_EPOCH + dt.timedelta(microseconds=ticks // 10))} UTC"
        return ""

    def _number(self, tag: int) -> int:
        return int.from_bytes(self._fixed.get((tag, _LONG), b"")[:4], "little")


def _letter(message: _Message, limits: Limits) -> Letter:
    fields = (
        ("From", _sender(message)),
        ("To", message.text(_TO)),
        ("Cc", message.text(_CC)),
        ("Bcc", message.text(_BCC)),
        ("Date", message.time()),
    )
    subject, attachments = message.text(_SUBJECT), tuple(_attachments(message.file, limits))
    return Letter(subject, fields, (Body(_body(message, limits), _html(message)),), attachments)


def _sender(message: _Message) -> str:
    name, address = message.text(_SENDER_NAME), message.text(_SENDER_SMTP) or message.text(_SENDER_ADDRESS)
    # An address inside an Exchange server means nothing to people.
    address = address if "@" in address else ""
    return f"{name} <{address}>" if name and address and name != address else name or address


def _html(message: _Message) -> str:
    data = message.binary(_HTML)
    return decode(data, message.html_codepage) if data else message.text(_HTML)


def _body(message: _Message, limits: Limits) -> str:
    """Returns the plain text, which Outlook stores beside other forms; without it and HTML, the text of the RTF."""
    text = message.text(_BODY)
    if text.strip() or message.binary(_HTML) or message.text(_HTML):
        return text
    try:
        return rtf.read(unpacked(message.binary(_RTF), limits.max_unpacked_bytes)).pages[0].text
    except DocumentUnreadable:
        return ""


def _attachments(file: Compound, limits: Limits) -> Iterator[Attachment]:
    for storage in file.storages():
        if not storage.startswith("__attach"):
            continue
        attached = _Message(file.inside(storage), header_bytes=8)
        name = attached.text(_LONG_FILE_NAME) or attached.text(_DISPLAY_NAME) or attached.text(_FILE_NAME)
        inner = attached.file.inside(f"__substg1.0_{_FILE_DATA}000D")
        data = attached.binary(_FILE_DATA)
        if data and not attached.is_hidden:
            yield Attachment(name or "attachment", data)
        elif inner.data(_PROPERTIES) is not None:
            letter = _letter(_Message(inner, header_bytes=24), limits)
            yield Attachment(name or letter.subject or "message", letter)
