"""Letters: the content of a mail, whatever file it came in, becomes a page, and so does each readable attachment."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from engine.core import Need, ParsedDocument, ParsedPage
from engine.errors import DocumentEmpty, DocumentUnreadable
from engine.library.parsers import html, nested
from engine.library.parsers.encoding import clean
from engine.library.parsers.limits import Limits
from engine.library.parsers.markup import PageBuilder
from engine.library.parsers.text import paragraphs

_MAX_SUBJECT_CHARACTERS = 80
# A plain part that only refers to the HTML part is short, and much shorter than that part.
_EXCUSE_CHARACTERS = 400
_EXCUSE_RATIO = 4
# The addresses in such a part are often longer than its text.
_ADDRESS = re.compile(r"<?\b(?:https?://|www\.)\S+")
_WORD = re.compile(r"\w+")


@dataclass(frozen=True, slots=True)
class Body:
    """A part of a mail's body: as text, as HTML, or as both with the same content."""

    text: str = ""
    html: str = ""


@dataclass(frozen=True, slots=True)
class Letter:
    """A mail. `fields` are the headers to show, `bodies` the parts of its text in order."""

    subject: str
    fields: tuple[tuple[str, str], ...]
    bodies: tuple[Body, ...] = ()
    attachments: tuple[Attachment, ...] = ()


@dataclass(frozen=True, slots=True)
class Attachment:
    """A file or another letter that is attached to a letter, or why it could not be read."""

    name: str
    content: bytes | Letter | DocumentUnreadable


class Letters:
    """Collects letters as pages.

    Args:
        limits: How deep letters and files may be nested, and the limits for reading the files.
    """

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._pages: list[ParsedPage] = []
        self._unread: list[str] = []
        self._need: Need = ""

    def add(self, letter: Letter, place: str, *, inside: str = "") -> None:
        """Adds a letter and its attachments; `inside` is written before the places of the attachments."""
        self._add(letter, place, inside, self._limits)

    def pages(self) -> tuple[ParsedPage, ...]:
        """Returns all pages, numbered; a single page has no number and no place."""
        if len(self._pages) == 1:
            return (replace(self._pages[0], number=None, place=""),)
        return tuple(replace(page, number=number) for number, page in enumerate(self._pages, start=1))

    def document(self, family: str, title: str) -> ParsedDocument:
        """Returns all letters as a document, with a remark on what could not be read."""
        return ParsedDocument(family, title, self.pages(), remark=self.remark(), needs=self._need)

    def note_unread(self, name: str, error: DocumentUnreadable) -> None:
        """Notes that a letter or an attachment could not be read, or not in full."""
        self._unread.append(f"{name} ({error.sentence.rstrip('.')})")
        self._need = self._need or error.need

    def remark(self) -> str:
        """Returns a sentence about what could not be read in full, "" if nothing."""
        if not self._unread:
            return ""
        count = len(self._unread)
        which = f"{count} parts" if count > 1 else "1 part"
        return f"{which} could not be read in full: {'; '.join(self._unread[:3])}{'; …' if count > 3 else ''}."

    def _add(self, letter: Letter, place: str, inside: str, limits: Limits) -> None:
        self._pages.append(_page(letter, place))
        for attachment in letter.attachments:
            where = ", ".join(filter(None, (inside, f"attachment “{attachment.name}”")))
            try:
                self._attach(attachment, where, limits)
            except DocumentEmpty:
                continue
            except DocumentUnreadable as error:
                self.note_unread(attachment.name, error)

    def _attach(self, attachment: Attachment, where: str, limits: Limits) -> None:
        if isinstance(attachment.content, DocumentUnreadable):
            raise attachment.content
        if isinstance(attachment.content, Letter):
            with nested.own_faults():
                self._add(attachment.content, where, where, nested.deeper(limits))
            return
        document = nested.parse(attachment.content, attachment.name, limits)
        self._pages += nested.placed(document, where)
        if document.remark:
            self.note_unread(attachment.name, nested.as_error(document))


def _page(letter: Letter, place: str) -> ParsedPage:
    builder = PageBuilder()
    builder.add("heading", letter.subject, 1)
    names = ", ".join(attachment.name for attachment in letter.attachments)
    fields = (*letter.fields, ("Attachments", names))
    builder.add("paragraph", "\n".join(f"{name}: {text}" for name, text in fields if text))
    for body in _bodies(letter.bodies):
        _add_body(builder, body)
    return builder.page(0, place)


def _bodies(bodies: Sequence[Body]) -> Iterator[Body]:
    """Yields the bodies; joins a text with its HTML, which some programs send as separate parts."""
    before: Body | None = None
    for body in bodies:
        if before is not None and not (before.html or body.text) and _says_the_same(before.text, body.html):
            yield Body(before.text, body.html)
            before = None
        else:
            if before is not None:
                yield before
            before = body
    if before is not None:
        yield before


def _says_the_same(text: str, source: str) -> bool:
    words = _WORD.findall(text)
    return bool(words) and words == _WORD.findall(_shown(source))


def _add_body(builder: PageBuilder, body: Body) -> None:
    """Adds the plain text if the sender wrote one, else what the HTML shows."""
    text = clean(body.text)
    if not text.strip() or _is_excuse(text, body.html):
        _add_html(builder, body.html)
        return
    for block in paragraphs(text):
        builder.add(block.kind, text[block.start : block.end], block.level + 1 if block.level else 0)


def _is_excuse(text: str, source: str) -> bool:
    """Returns whether a plain text only refers to another form of the message: it is short, and much shorter."""
    length = len(" ".join(_ADDRESS.sub("", text).split()))
    return length < _EXCUSE_CHARACTERS and length * _EXCUSE_RATIO < len(_shown(source))


def _shown(source: str) -> str:
    """Returns the text of an HTML body."""
    builder = PageBuilder()
    _add_html(builder, source)
    return builder.page().text


def _add_html(builder: PageBuilder, source: str) -> None:
    if not source.strip():
        return
    try:
        html.write(html.tree(source), builder)
    except DocumentEmpty:
        return


def named(letter: Letter) -> str:
    """Returns a letter's subject in quotes, shortened, "" if it has none."""
    subject = " ".join(letter.subject.split())
    if len(subject) > _MAX_SUBJECT_CHARACTERS:
        subject = subject[:_MAX_SUBJECT_CHARACTERS].rstrip() + "…"
    return f"“{subject}”" if subject else ""
