"""Mails in their Internet form: single messages (.eml, saved web pages) and mailboxes, message by message."""

from __future__ import annotations

import binascii
import mimetypes
import mmap
import re
from collections.abc import Iterator, Sequence
from email import policy
from email.errors import HeaderParseError
from email.header import decode_header
from email.message import Message
from email.parser import BytesParser
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import Any

from engine.core import ParsedDocument
from engine.errors import DocumentUnreadable, DocumentUnsupported
from engine.library.parsers import nested
from engine.library.parsers.charsets import codecs_of, decoded
from engine.library.parsers.encoding import decode
from engine.library.parsers.letters import Attachment, Body, Letter, Letters, named
from engine.library.parsers.limits import Limits
from engine.library.parsers.number_format import day

_ADDRESSES = ("From", "To", "Cc", "Bcc")
# Some programs put the lines of earlier mailboxes below that of their own, as ">From …".
_MESSAGE_START = re.compile(rb"(?:\A|(?<=\n\n)|(?<=\r\n\r\n))From [^\r\n]*\r?\n(?:>+From [^\r\n]*\r?\n)*(?=[!-9;-~]+:)")
_HEAD_BYTES = 4096
_QUOTED_START = re.compile(rb"^>(>*From )", re.M)
_BODIES = {"text/plain", "text/html", "text/enriched"}
# Styles and other forms of a message for programs: without a name, they are not files that somebody attached.
_FOR_PROGRAMS = {"text/css", "text/javascript", "application/javascript", "text/x-amp-html", "text/watch-html"}
# Signatures and keys say nothing to people.
_SILENT = {"application/pgp-signature", "application/pkcs7-signature", "application/x-pkcs7-signature"}
_ENCRYPTED = {"multipart/encrypted", "application/pkcs7-mime", "application/x-pkcs7-mime"}
# Apple's form of a message begins with its length; after the message comes what the program notes about it.
_LENGTH_LINE = re.compile(rb"\A(\d{1,12})[ \t]*\r?\n")
_NOTES_START_BYTES = 16


def parse(path: Path, limits: Limits) -> ParsedDocument:
    """Parses a message or a mailbox: headers and body are one page, and so is each page of an attachment."""
    with open(path, "rb") as file:
        is_mailbox = _MESSAGE_START.match(file.read(_HEAD_BYTES)) is not None
    return _mailbox(path, limits) if is_mailbox else _single(path, limits)


def _single(path: Path, limits: Limits) -> ParsedDocument:
    letter = _letter(_message(_without_notes(path.read_bytes())))
    letters = Letters(limits)
    letters.add(letter, "message")
    return letters.document("mail", letter.subject)


def _without_notes(data: bytes) -> bytes:
    """Returns the message itself, if it is in Apple's form; a length at which it does not end is ignored."""
    line = _LENGTH_LINE.match(data)
    if line is None:
        return data
    end = line.end() + int(line[1])
    is_end = data[end : end + _NOTES_START_BYTES].lstrip().startswith(b"<?xml")
    return data[line.end() : end] if is_end else data[line.end() :]


def _mailbox(path: Path, limits: Limits) -> ParsedDocument:
    letters = Letters(limits)
    number, letter, refusal = 0, None, None
    for number, source in enumerate(_messages(path), start=1):
        where = f"message {number}"
        try:
            with nested.own_faults():
                read = _letter(_message(source))
                letters.add(read, ", ".join(filter(None, (where, named(read)))), inside=where)
        except DocumentUnreadable as error:
            refusal = error
            letters.note_unread(where, error)
        else:
            letter = read
    if letter is None and refusal is not None:
        raise refusal
    # Some programs save a single message like that.
    if letter is not None and number == 1:
        return letters.document("mail", letter.subject)
    return letters.document("mailbox", "")


def _messages(path: Path) -> Iterator[bytes]:
    """Yields the messages of a mailbox; each begins with a line "From …" that is no header."""
    with open(path, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        last: int | None = None
        for match in _MESSAGE_START.finditer(data):
            if last is not None:
                yield _QUOTED_START.sub(rb"\1", data[last : match.start()])
            last = match.end()
        yield _QUOTED_START.sub(rb"\1", data[last or 0 :])


def _message(source: bytes) -> Message:
    # The older policy, because the newer one raises on malformed headers.
    return BytesParser(policy=policy.compat32).parsebytes(source.lstrip(b"\r\n"))


def _letter(message: Message) -> Letter:
    parts = _Parts()
    parts.walk(message)
    if parts.is_encrypted and not (parts.bodies or parts.attachments):
        raise DocumentUnsupported("The message is encrypted, and Ragdoll has no key to open it.")
    fields = [(name, _header(message, name)) for name in _ADDRESSES] + [("Date", _date(_header(message, "Date")))]
    return Letter(
        _header(message, "Subject"),
        tuple(fields),
        tuple(parts.bodies),
        tuple(parts.attachments),
    )


class _Parts:
    """The parts of a message, sorted by what they are for."""

    def __init__(self) -> None:
        self.bodies: list[Body] = []
        self.attachments: list[Attachment] = []
        self.is_encrypted = False

    def walk(self, part: Message) -> None:
        kind = part.get_content_type()
        # Only for multipart: the payload of other parts would be decoded, by a charset that may not exist.
        content: Any = part.get_payload() if part.is_multipart() else None
        if kind in _ENCRYPTED and "sign" not in str(part.get_param("smime-type")):
            self.is_encrypted = True
        elif kind == "message/rfc822" and isinstance(content, list) and content:
            self.attachments.append(_attached(part, content[0]))
        elif isinstance(content, list):
            begun = len(self.bodies)
            for inner_part in content:
                self.walk(inner_part)
            if kind.startswith("message/"):
                said = ("\n".join(f"{name}: {text}" for name, text in inner.items()) for inner in content)
                self.bodies += map(Body, said)
            elif kind == "multipart/alternative" and self.bodies[begun:]:
                # All alternatives say the same.
                self.bodies[begun:] = [_joined(self.bodies[begun:])]
        else:
            self._leaf(part, kind)

    def _leaf(self, part: Message, kind: str) -> None:
        data = part.get_payload(decode=True)
        if not isinstance(data, bytes) or not data.strip() or kind in _SILENT:
            return
        name, is_attached = _file_name(part), part.get_content_disposition() == "attachment"
        if not (is_attached or name) and kind in _FOR_PROGRAMS:
            return
        if kind in _BODIES and not is_attached and not name:
            said = _text(data, part.get_content_charset() or "")
            self.bodies.append(Body(html=said) if kind == "text/html" else Body(said))
        elif is_attached or not kind.startswith("image/"):
            # Inline pictures are mostly logos.
            ending = mimetypes.guess_extension(kind) or ""
            self.attachments.append(Attachment(name or f"attachment{ending}", data))


def _joined(bodies: Sequence[Body]) -> Body:
    return Body(
        "\n\n".join(body.text for body in bodies if body.text), "\n".join(body.html for body in bodies if body.html)
    )


def _attached(part: Message, content: Message) -> Attachment:
    """Returns a letter within a letter; if it cannot be read, the outer letter still can."""
    name = _file_name(part)
    try:
        with nested.own_faults():
            inner = _letter(content)
    except DocumentUnreadable as error:
        return Attachment(name or _header(content, "Subject") or "message", error)
    return Attachment(name or inner.subject or "message", inner)


def _file_name(part: Message) -> str:
    name = part.get_filename() or ""
    return Path(_decoded(name).replace("\\", "/")).name


def _header(message: Message, name: str) -> str:
    return _decoded(message.get(name, ""))


def _decoded(value: Any) -> str:
    """Decodes a header's text, in one line."""
    try:
        pieces = decode_header(value)
    except (HeaderParseError, binascii.Error, ValueError):
        pieces = [(str(value), None)]
    said = (
        _text(piece if isinstance(piece, bytes) else piece.encode("utf-8", "surrogateescape"), charset or "")
        for piece, charset in pieces
    )
    return " ".join("".join(said).split())


def _text(data: bytes, charset: str) -> str:
    """Decodes by the character set that the mail declares if that fits, else like any text."""
    for codec in codecs_of(charset or "ascii", data):
        try:
            return decoded(data, codec)
        except (LookupError, ValueError):
            continue
    return decode(data, charset)


def _date(text: str) -> str:
    """Returns when the mail was sent, by its sender's clock, in ISO form."""
    try:
        return day(parsedate_to_datetime(text).replace(tzinfo=None))
    except (ValueError, TypeError, OverflowError):
        return text
