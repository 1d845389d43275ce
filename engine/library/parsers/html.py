"""Web pages: headings, paragraphs, list items, table rows and preformatted text, without navigation and scripts.

lxml's HTML parser reads no entity, no DTD and nothing from the network.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from lxml import etree, html

from engine.core import BlockKind, ParsedDocument
from engine.errors import DocumentEmpty
from engine.library.parsers import formulas, main_text, remarks
from engine.library.parsers.encoding import decode
from engine.library.parsers.limits import Limits
from engine.library.parsers.markup import PageBuilder, row
from engine.library.parsers.row_spans import Cell, RowSpans, reach

_CHARSET = re.compile(rb"""<meta[^>]{0,200}?charset\s*=\s*["']?\s*([\w:.-]+)""", re.I)
# Also one that does not end properly.
_XML_DECLARATION = re.compile(r"\A\s*<\?xml[\s?][^>]*>")
_META_BYTES = 4096

_IGNORED = {
    "script", "style", "noscript", "template", "svg", "iframe", "object", "embed", "canvas", "audio", "video",
    "head", "nav", "menu", "dialog", "button", "select", "option", "input", "textarea", "link", "meta",
    # Pronunciation of the text before it.
    "rp", "rt", "rtc",
}  # fmt: skip
_IGNORED_ROLES = {"navigation", "search", "banner", "contentinfo", "menu", "menubar", "dialog", "alertdialog"}
_BOILERPLATE = {"header", "footer"}
_CONTENT = {"main", "article", "section", "blockquote"}
_INLINE = {
    "a", "abbr", "acronym", "b", "bdi", "bdo", "big", "cite", "code", "data", "del", "dfn", "em", "font", "i", "ins",
    "kbd", "label", "mark", "q", "rb", "ruby", "s", "samp", "small", "span", "strike", "strong", "sub", "sup",
    "time", "tt", "u", "var", "wbr", "img", "br", "nobr", "picture", "source",
    "math", "mjx-container", "mjx-assistive-mml",
}  # fmt: skip
# Takes the id of an element; returns where to write from there on, None for no change.
Turn = Callable[[str], PageBuilder | None]
# Takes a picture's address; returns the paragraphs written in it.
ReadPicture = Callable[[str], Iterable[tuple[BlockKind, str]]]

_HEADINGS = {f"h{level}": level for level in range(1, 7)}
_TABLE_PARTS = {"thead", "tbody", "tfoot", "form"}
# Elements that end a line in preformatted text.
_LINES = {"div", "p", "li", "tr"}
_LAYOUT_CHARACTERS = 600
# A page's <main> must hold this share of its words to stand for the page.
_MAIN_SHARE = 0.2
# A linked picture with fewer words is a button.
_MIN_LINK_WORDS = 3


def parse(path: Path, limits: Limits) -> ParsedDocument:
    data = path.read_bytes()
    declared = _CHARSET.search(data[:_META_BYTES])
    root = tree(decode(data, declared.group(1).decode() if declared else ""))
    builder = PageBuilder()
    main = _main(root)
    main_text.strip(main)
    write(main, builder)
    return ParsedDocument("html", " ".join((root.findtext(".//title") or "").split()), (builder.page(),))


def write(
    element: html.HtmlElement, builder: PageBuilder, turn: Turn | None = None, read_picture: ReadPicture | None = None
) -> None:
    """Adds the visible content of an element; `turn` may begin another page where an element has an id."""
    walk = _Walk(builder, turn, read_picture)
    walk.flow(element, list_depth=0)
    walk.end_paragraph()


def tree(text: str) -> html.HtmlElement:
    # lxml refuses a decoded text that declares an encoding.
    text = _XML_DECLARATION.sub("", text, count=1)
    parser = html.HTMLParser(no_network=True, remove_comments=True, remove_pis=True, huge_tree=True)
    try:
        return html.document_fromstring(text, parser=parser)
    except etree.ParserError as error:
        raise DocumentEmpty("There is no text in the web page.") from error


def _main(root: html.HtmlElement) -> html.HtmlElement:
    """Returns the element with the page's content: its only <main> or <article> if that has enough of the text."""
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

    def __init__(self, builder: PageBuilder, turn: Turn | None, read_picture: ReadPicture | None) -> None:
        self._builder = builder
        self._turn = turn
        self._read_picture = read_picture
        self._gathered: list[str] = []
        # Pictures in the paragraph.
        self._pictures: list[html.HtmlElement] = []
        self._captions: dict[html.HtmlElement, set[str]] = {}
        self._is_item = False

    def flow(self, element: html.HtmlElement, list_depth: int) -> None:
        """Writes the contents of an element that may hold both text and blocks."""
        self._gathered.append(element.text or "")
        for child in element:
            if isinstance(child.tag, str) and not _is_hidden(child):
                self._child(child, list_depth)
            self._gathered.append(child.tail or "")

    def end_paragraph(self) -> None:
        text = _lines("".join(self._gathered))
        self._gathered.clear()
        self._builder.add("list_item" if self._is_item else "paragraph", text)
        self._end_pictures()

    def _end_pictures(self) -> None:
        for image in self._pictures:
            self._builder.add("paragraph", self._picture(image))
            for kind, text in self._read_picture(image.get("src") or "") if self._read_picture else ():
                self._builder.add(kind, text)
        self._pictures.clear()

    def _child(self, child: html.HtmlElement, list_depth: int) -> None:
        if self._turn is not None:
            self._turn_at(child, self._turn)
        if child.tag == "br":
            self._gathered.append("\0")
        elif child.tag == "math":
            self._gathered.append(formulas.shown(child))
        elif child.tag == "img":
            self._pictures.append(child)
        elif child.tag in _INLINE:
            self.flow(child, list_depth)
        else:
            self.end_paragraph()
            self._block(child, list_depth)

    def _picture(self, image: html.HtmlElement) -> str:
        """Returns a picture's description, "" if it is a button or its caption says the same."""
        words = (image.get("alt") or "").split()
        if len(words) < _MIN_LINK_WORDS and next(image.iterancestors("a"), None) is not None:
            return ""
        figure = next(image.iterancestors("figure"), None)
        if figure is not None and figure not in self._captions:
            self._captions[figure] = {_flat(caption) for caption in _seen(figure, "figcaption")}
        is_said = figure is not None and " ".join(words) in self._captions[figure]
        return "" if is_said else remarks.shown(" ".join(words))

    def _turn_at(self, child: html.HtmlElement, turn: Turn) -> None:
        # The id of a heading is often at an element inside it.
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
            self._builder.add("code", "".join(_preformatted(child)).expandtabs(4))
        elif child.tag == "table" and not _is_layout(child):
            self._table(child)
        else:
            self._nested(child, list_depth + (child.tag in ("ul", "ol", "dl")))
            return
        self._pictures += _seen(child, "img")
        self._end_pictures()

    def _nested(self, child: html.HtmlElement, list_depth: int) -> None:
        outer = self._is_item
        self._is_item = child.tag in ("li", "dd", "dt") or (outer and list_depth > 0)
        self.flow(child, list_depth)
        self.end_paragraph()
        self._is_item = outer

    def _table(self, table: html.HtmlElement) -> None:
        spans = RowSpans()
        for element in table:
            if element.tag == "caption":
                self._builder.add("paragraph", _flat(element))
            elif element.tag in _TABLE_PARTS:
                self._table(element)
            elif element.tag == "tr":
                cells = [_cell(cell) for cell in element if cell.tag in ("td", "th")]
                self._builder.add("table_row", row(spans.row(cells)))


def _is_hidden(element: html.HtmlElement) -> bool:
    if element.tag in _IGNORED or element.get("role") in _IGNORED_ROLES:
        return True
    if element.get("hidden") is not None or element.get("aria-hidden") == "true":
        return True
    if "display:none" in (element.get("style") or "").replace(" ", "").lower():
        # Wikipedia shows pictures of its formulas.
        return element.find("math") is None
    # The header and footer of a page are about the site; those of an article are part of it.
    if element.tag not in _BOILERPLATE or any(ancestor.tag in _CONTENT for ancestor in element.iterancestors()):
        return False
    return element.tag != "header" or not _bears_title(element)


def _bears_title(header: html.HtmlElement) -> bool:
    """Returns whether the header has the page's only title, as pandoc and books write it."""
    if next(header.iter("h1"), None) is None:
        return False
    return all(header in title.iterancestors("header") for title in header.getroottree().iter("h1"))


def _is_layout(table: html.HtmlElement) -> bool:
    """Returns whether a table only arranges a page: it has tables, headings or much text in its cells."""
    if table.find(".//table") is not None or any(table.find(f".//{tag}") is not None for tag in _HEADINGS):
        return True
    return any(len(cell.text_content()) > _LAYOUT_CHARACTERS for cell in table.iter("td"))


def _cell(element: html.HtmlElement) -> Cell:
    return Cell(_flat(element), *reach(element.get("rowspan") or "", element.get("colspan") or ""))


def _flat(element: html.HtmlElement) -> str:
    words = (text for text in _visible(element))
    return " ".join("".join(words).split())


def _visible(element: html.HtmlElement) -> Iterator[str]:
    """Yields the visible text for one line; blocks and line breaks inside become spaces."""
    yield element.text or ""
    for child in element:
        if isinstance(child.tag, str) and not _is_hidden(child):
            edge = "" if child.tag in _INLINE and child.tag != "br" else " "
            yield edge
            yield from (formulas.shown(child),) if child.tag == "math" else _visible(child)
            yield edge
        yield child.tail or ""


def _preformatted(element: html.HtmlElement) -> Iterator[str]:
    """Yields text with its own line ends, and those that elements cause."""
    yield element.text or ""
    for child in element:
        if child.tag == "br":
            yield "\n"
        elif isinstance(child.tag, str) and not _is_hidden(child):
            yield from _preformatted(child)
            if child.tag in _LINES and not (child.tail or "").startswith("\n"):
                yield "\n"
        yield child.tail or ""


def _seen(element: html.HtmlElement, tag: str) -> Iterator[html.HtmlElement]:
    """Yields the visible elements with a tag inside an element."""
    for child in element:
        if isinstance(child.tag, str) and not _is_hidden(child):
            if child.tag == tag:
                yield child
            yield from _seen(child, tag)


def _lines(text: str) -> str:
    """Collapses white space as a browser does: runs become one space, only <br> (gathered as NUL) ends a line."""
    return "\n".join(filter(None, (" ".join(line.split()) for line in text.split("\0"))))
