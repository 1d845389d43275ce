"""Web pages: headings, paragraphs, list items, table rows and preformatted text, without navigation and scripts.

lxml's HTML parser reads no entity, no DTD and nothing from the network.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path

from lxml import etree, html

from engine.core import ParsedDocument
from engine.errors import DocumentEmpty
from engine.library.parsers import main_text
from engine.library.parsers.encoding import decode
from engine.library.parsers.limits import Limits
from engine.library.parsers.markup import PageBuilder, row

_CHARSET = re.compile(rb"""<meta[^>]{0,200}?charset\s*=\s*["']?\s*([\w:.-]+)""", re.I)
# Also one that was not ended as it should be.
_XML_DECLARATION = re.compile(r"\A\s*<\?xml[\s?][^>]*>")
_META_BYTES = 4096

_IGNORED = {
    "script", "style", "noscript", "template", "svg", "math", "iframe", "object", "embed", "canvas", "audio", "video",
    "head", "nav", "menu", "dialog", "button", "select", "option", "input", "textarea", "link", "meta",
}  # fmt: skip
_IGNORED_ROLES = {"navigation", "search", "banner", "contentinfo", "menu", "menubar", "dialog", "alert"}
_BOILERPLATE = {"header", "footer"}
_CONTENT = {"main", "article", "section", "blockquote"}
_INLINE = {
    "a", "abbr", "acronym", "b", "bdi", "bdo", "big", "cite", "code", "data", "del", "dfn", "em", "font", "i", "ins",
    "kbd", "label", "mark", "q", "rp", "rt", "ruby", "s", "samp", "small", "span", "strike", "strong", "sub", "sup",
    "time", "tt", "u", "var", "wbr", "img", "br", "nobr", "picture", "source",
}  # fmt: skip
# Given the id of an element, where to write from there on; None where it makes no difference.
Turn = Callable[[str], PageBuilder | None]

_HEADINGS = {f"h{level}": level for level in range(1, 7)}
_TABLE_PARTS = {"thead", "tbody", "tfoot"}
_LAYOUT_CHARACTERS = 600
# A page's <main> must hold this share of its words to stand for the page.
_MAIN_SHARE = 0.2


def parse(path: Path, limits: Limits) -> ParsedDocument:
    data = path.read_bytes()
    declared = _CHARSET.search(data[:_META_BYTES])
    root = tree(decode(data, declared.group(1).decode() if declared else ""))
    builder = PageBuilder()
    main = _main(root)
    main_text.strip(main)
    write(main, builder)
    return ParsedDocument("html", " ".join((root.findtext(".//title") or "").split()), (builder.page(),))


def write(element: html.HtmlElement, builder: PageBuilder, turn: Turn | None = None) -> None:
    """Adds what people see of an element; `turn` may begin another page where an element bears an id."""
    walk = _Walk(builder, turn)
    walk.flow(element, list_depth=0)
    walk.end_paragraph()


def tree(text: str) -> html.HtmlElement:
    # Of what is decoded already, lxml refuses to be told an encoding.
    text = _XML_DECLARATION.sub("", text, count=1)
    parser = html.HTMLParser(no_network=True, remove_comments=True, remove_pis=True, huge_tree=True)
    try:
        return html.document_fromstring(text, parser=parser)
    except etree.ParserError as error:
        raise DocumentEmpty("There is no text in the web page.") from error


def _main(root: html.HtmlElement) -> html.HtmlElement:
    """The element that holds what the page is about: its only <main> or <article> if that has enough of the text."""
    body = root.find("body")
    whole = body if body is not None else root
    for path in (".//main", ".//*[@role='main']", ".//article"):
        found = whole.findall(path)
        if len(found) == 1 and _length(found[0]) >= _MAIN_SHARE * _length(whole):
            return found[0]
    return whole


def _length(element: html.HtmlElement) -> int:
    return sum(len(text.split()) for text in _texts(element))


def _texts(element: html.HtmlElement) -> Iterator[str]:
    for node in element.iter():
        if isinstance(node.tag, str) and node.tag not in ("script", "style", "noscript", "template"):
            yield node.text or ""
        yield node.tail or ""


class _Walk:
    """One pass over the tree in reading order; inline text gathers until a block begins or ends."""

    def __init__(self, builder: PageBuilder, turn: Turn | None) -> None:
        self._builder = builder
        self._turn = turn
        self._gathered: list[str] = []
        self._is_item = False

    def flow(self, element: html.HtmlElement, list_depth: int) -> None:
        """The contents of an element that may hold both text and blocks."""
        self._gathered.append(element.text or "")
        for child in element:
            if isinstance(child.tag, str) and not _is_hidden(child):
                self._child(child, list_depth)
            self._gathered.append(child.tail or "")

    def end_paragraph(self) -> None:
        text = _lines("".join(self._gathered))
        self._gathered.clear()
        self._builder.add("list_item" if self._is_item else "paragraph", text)

    def _child(self, child: html.HtmlElement, list_depth: int) -> None:
        if self._turn is not None:
            self._turn_at(child, self._turn)
        if child.tag == "br":
            self._gathered.append("\0")
        elif child.tag in _INLINE:
            self.flow(child, list_depth)
        else:
            self.end_paragraph()
            self._block(child, list_depth)

    def _turn_at(self, child: html.HtmlElement, turn: Turn) -> None:
        # A heading is often named by what stands inside it.
        for element in child.iter() if child.tag in _HEADINGS else (child,):
            builder = turn(element.get("id") or element.get("name") or "")
            if builder is not None:
                self.end_paragraph()
                self._builder = builder
                return

    def _block(self, child: html.HtmlElement, list_depth: int) -> None:
        if child.tag in _HEADINGS:
            self._builder.add("heading", _flat(child), _HEADINGS[child.tag])
        elif child.tag in ("pre", "listing", "xmp"):
            self._builder.add("code", child.text_content().expandtabs(4))
        elif child.tag == "table" and not _is_layout(child):
            self._table(child)
        else:
            self._nested(child, list_depth + (child.tag in ("ul", "ol", "dl")))

    def _nested(self, child: html.HtmlElement, list_depth: int) -> None:
        outer = self._is_item
        self._is_item = child.tag in ("li", "dd", "dt") or (outer and list_depth > 0)
        self.flow(child, list_depth)
        self.end_paragraph()
        self._is_item = outer

    def _table(self, table: html.HtmlElement) -> None:
        for element in table:
            if element.tag == "caption":
                self._builder.add("paragraph", _flat(element))
            elif element.tag in _TABLE_PARTS:
                self._table(element)
            elif element.tag == "tr":
                self._builder.add("table_row", row([_flat(cell) for cell in element if cell.tag in ("td", "th")]))


def _is_hidden(element: html.HtmlElement) -> bool:
    if element.tag in _IGNORED or element.get("role") in _IGNORED_ROLES:
        return True
    if element.get("hidden") is not None or element.get("aria-hidden") == "true":
        return True
    if "display:none" in (element.get("style") or "").replace(" ", "").lower():
        return True
    # A page's header and footer are about the site; an article's are part of it.
    return element.tag in _BOILERPLATE and not any(ancestor.tag in _CONTENT for ancestor in element.iterancestors())


def _is_layout(table: html.HtmlElement) -> bool:
    """A table that arranges a page rather than holding data: it has tables, headings or much text in its cells."""
    if table.find(".//table") is not None or any(table.find(f".//{tag}") is not None for tag in _HEADINGS):
        return True
    return any(len(cell.text_content()) > _LAYOUT_CHARACTERS for cell in table.iter("td"))


def _flat(element: html.HtmlElement) -> str:
    words = (text for text in _visible(element))
    return " ".join("".join(words).split())


def _visible(element: html.HtmlElement) -> Iterator[str]:
    """Text in one line; blocks and line breaks inside become spaces."""
    yield element.text or ""
    for child in element:
        if isinstance(child.tag, str) and not _is_hidden(child):
            edge = "" if child.tag in _INLINE and child.tag != "br" else " "
            yield edge
            yield from _visible(child)
            yield edge
        yield child.tail or ""


def _lines(text: str) -> str:
    """White space as a browser shows it: runs are one space, only <br> (gathered as NUL) ends a line."""
    return "\n".join(filter(None, (" ".join(line.split()) for line in text.split("\0"))))
