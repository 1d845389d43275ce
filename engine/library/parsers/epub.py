"""EPUB books: chapters in reading order, named as the table of contents names them."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from html import unescape
from html.entities import html5
from pathlib import Path
from urllib.parse import unquote

from lxml import etree, html

from engine.core import ParsedDocument, ParsedPage
from engine.errors import DocumentEmpty, DocumentUnreadable, DocumentUnsupported
from engine.library.parsers.archive import Package, opened
from engine.library.parsers.elements import attribute, child, children, descendants, elements, local
from engine.library.parsers.embedded import EmbeddedPictures
from engine.library.parsers.encoding import decode
from engine.library.parsers.html import tree, write
from engine.library.parsers.limits import Limits
from engine.library.parsers.markup import PageBuilder

# Scrambled fonts do not mean that the book is encrypted.
_FONT_SCRAMBLING = ("http://www.idpf.org/2008/embedding", "http://ns.adobe.com/pdf/enc#RC")
_NAMED_ENTITY = re.compile(r"&(?!(?:amp|lt|gt|quot|apos);)(\w+;)")
# An XML declaration, and the encoding that it names.
_DECLARED = re.compile(rb"\A\s*+<\?xml(?:[^>]*?encoding\s*=\s*[\"']([\w.:-]+)[\"'])?+[^>]*+(?<=\?)>")
_SOURCE = re.compile(rb"""<img\s(?:[^<>]{0,2000}?\s)?src\s{0,9}=\s{0,9}["']([^"'<>]{1,2000})""", re.I)
_PAGES = {"application/xhtml+xml", "text/html", "application/x-dtbook+xml", "text/x-oeb1-document"}


def parse(path: Path, limits: Limits) -> ParsedDocument:
    with opened(path, limits, "The book") as package:
        _check_open(package)
        name = _package_file(package)
        book = package.xml(name)
        if book is None:
            raise DocumentUnreadable("The book is damaged: the list of its chapters is missing.")
        folder = posixpath.dirname(name)
        manifest = {item.get("id", ""): item for item in children(child(book, "manifest"), "item")}
        contents = _contents(package, book, manifest, folder)
        parts = [*_spine(book, manifest, folder)]
        pictures = EmbeddedPictures(package, limits, _shown(package, parts))
        writer = _Writer(pictures)
        for number, part in enumerate(parts, start=1):
            writer.add(package, part, number, contents.get(part, []))
        title = child(book, "metadata", "title")
        named = " ".join((title.text or "").split()) if title is not None else ""
        return pictures.told(ParsedDocument("epub", named, writer.pages()))


@dataclass(frozen=True, slots=True)
class _Entry:
    """An entry of the table of contents: `fragment` is the id in the file where its chapter begins, "" at the top."""

    depth: int
    fragment: str
    label: str


@dataclass(slots=True)
class _Writer:
    """Writes chapters one after the other. A file without an entry in the contents continues the previous chapter."""

    _pictures: EmbeddedPictures
    _written: list[tuple[str, PageBuilder]] = field(default_factory=list)
    _label: str = ""

    def add(self, package: Package, part: str, number: int, entries: list[_Entry]) -> None:
        body = _body(package.data(part))
        if body is None:
            return
        # The top entries of a file become pages; deeper ones are headings within their chapter.
        depth = min((entry.depth for entry in entries), default=0)
        tops = [entry for entry in entries if entry.depth == depth]
        chapters = {entry.fragment: entry.label for entry in tops if entry.fragment}
        known = {name for element in body.iter() for name in (element.get("id"), element.get("name")) if name}
        if tops and tops[0].fragment not in known:
            self._label = tops[0].label
        write(
            body,
            self._turned(f"section {number}"),
            lambda name: self._turn(chapters.pop(name, "")),
            lambda source: self._pictures.blocks(_picture_name(part, source)),
        )

    def pages(self) -> tuple[ParsedPage, ...]:
        filled = [(place, builder) for place, builder in self._written if builder.num_blocks]
        return tuple(builder.page(number, place) for number, (place, builder) in enumerate(filled, start=1))

    def _turn(self, label: str) -> PageBuilder | None:
        if not label:
            return None
        self._label = label
        return self._turned("")

    def _turned(self, otherwise: str) -> PageBuilder:
        builder = PageBuilder()
        self._written.append((f"chapter “{self._label}”" if self._label else otherwise, builder))
        return builder


def _check_open(package: Package) -> None:
    for method in descendants(package.xml("META-INF/encryption.xml"), "EncryptionMethod"):
        if attribute(method, "Algorithm") not in _FONT_SCRAMBLING:
            raise DocumentUnsupported("The book is locked to its shop's own readers (DRM) and cannot be read here.")


def _package_file(package: Package) -> str:
    roots = descendants(package.xml("META-INF/container.xml"), "rootfile")
    named = next((attribute(root, "full-path") for root in roots), "")
    return named or next((name for name in package.names() if name.lower().endswith(".opf")), "")


def _spine(book: etree._Element, manifest: dict[str, etree._Element], folder: str) -> Iterator[str]:
    """Yields the files of the book in reading order, without its table of contents."""
    for reference in children(child(book, "spine"), "itemref"):
        item = manifest.get(reference.get("idref", ""))
        if item is not None and item.get("media-type") in _PAGES and not _is_contents(item):
            yield _target(folder, item.get("href", ""))[0]


def _shown(package: Package, parts: list[str]) -> Iterator[str]:
    """Yields the part names of the book's pictures, as often as they are shown."""
    for part in parts:
        for source in _SOURCE.findall(package.data(part) or b""):
            yield _picture_name(part, unescape(source.decode("utf-8", "replace")))


def _picture_name(part: str, source: str) -> str:
    return _target(posixpath.dirname(part), source)[0]


def _contents(
    package: Package, book: etree._Element, manifest: dict[str, etree._Element], folder: str
) -> dict[str, list[_Entry]]:
    """Returns the entries of the table of contents by file: from EPUB 3's, else from EPUB 2's."""
    found: dict[str, list[_Entry]] = {}
    ncx = manifest.get(attribute(child(book, "spine"), "toc"))
    for item in (*filter(_is_contents, manifest.values()), *([ncx] if ncx is not None else [])):
        part = _target(folder, item.get("href", ""))[0]
        lines = _nav_lines(_body(package.data(part))) if _is_contents(item) else _ncx_lines(package.xml(part))
        for depth, href, label in lines:
            target, fragment = _target(posixpath.dirname(part), href)
            if label:
                found.setdefault(target, []).append(_Entry(depth, fragment, label))
        if found:
            break
    return found


def _is_contents(item: etree._Element) -> bool:
    return "nav" in item.get("properties", "").split()


def _nav_lines(body: html.HtmlElement | None) -> Iterator[tuple[int, str, str]]:
    """Yields depth, target and label of each link in the list of contents (others list pages and landmarks)."""
    navs = list(descendants(body, "nav"))
    toc = next((nav for nav in navs if "toc" in attribute(nav, "type") + (nav.get("epub:type") or "")), None)
    for link in descendants(toc if toc is not None else next(iter(navs), None), "a"):
        depth = sum(1 for _ in link.iterancestors("ol", "ul"))
        yield depth, link.get("href", ""), " ".join("".join(map(str, link.itertext())).split())


def _ncx_lines(root: etree._Element | None, depth: int = 1) -> Iterator[tuple[int, str, str]]:
    container = child(root, "navMap") if root is not None and local(root) == "ncx" else root
    for point in children(container, "navPoint"):
        text = child(point, "navLabel", "text")
        label = " ".join((text.text or "").split()) if text is not None else ""
        yield depth, attribute(child(point, "content"), "src"), label
        yield from _ncx_lines(point, depth + 1)


def _target(folder: str, href: str) -> tuple[str, str]:
    """Returns the file and the fragment that a link leads to."""
    path, _, fragment = unquote(href).partition("#")
    return posixpath.normpath(posixpath.join(folder, path)), fragment


def _body(data: bytes | None) -> html.HtmlElement | None:
    """Parses a chapter as the XML that it should be, else as browsers do; returns its body."""
    if not data:
        return None
    declared = _DECLARED.match(data)
    encoding = (declared[1] or b"").decode() if declared else ""
    text = decode(data[declared.end() :] if declared else data, encoding)
    text = _NAMED_ENTITY.sub(lambda match: html5.get(match.group(1), match.group()), text)
    parser = html.XHTMLParser(resolve_entities=False, no_network=True, load_dtd=False, remove_comments=True)
    try:
        root = etree.fromstring(text.encode(), parser)
        # Formulas and drawings have names with namespaces.
        for element in root.iter("{*}*"):
            element.tag = local(element)
    except (etree.XMLSyntaxError, ValueError):
        try:
            root = tree(text)
        except DocumentEmpty:
            return None
    body = next((element for element in elements(root) if local(element) == "body"), None)
    return body if body is not None else root
