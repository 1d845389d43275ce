"""XML of any kind: prose as paragraphs, data as rows with their paths. No entity, no DTD, nothing from the network."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import cast

from lxml import etree

from engine.core import ParsedDocument
from engine.library.parsers import code, flattening
from engine.library.parsers.encoding import decode
from engine.library.parsers.flattening import Node
from engine.library.parsers.limits import Limits
from engine.library.parsers.text import by_lines

# Elements of JATS, DocBook, TEI, FictionBook and HTML that separate words within a text; inline marks do not.
_BLOCKS = {
    "ab", "abstract", "blockquote", "br", "caption", "cell", "div", "entry", "epigraph", "fn", "footnote", "head",
    "item", "l", "label", "lb", "lg", "li", "line", "list", "list-item", "listitem", "note", "p", "para", "pb", "row",
    "sec", "section", "sig", "simpara", "stanza", "step", "subtitle", "table", "td", "th", "title", "tr", "v",
}  # fmt: skip


def parse(path: Path, limits: Limits) -> ParsedDocument:
    data = path.read_bytes()
    parser = etree.XMLParser(
        resolve_entities=False, no_network=True, load_dtd=False, remove_comments=True, remove_pis=True
    )
    try:
        root = etree.fromstring(data, parser)
    except (etree.XMLSyntaxError, ValueError):
        text = decode(data)
        return by_lines("xml", text, code.definitions(text))
    return ParsedDocument("xml", _title(root), (flattening.page([_node(root)]),), "line")


def _title(root: etree._Element) -> str:
    found = next((child for child in root.iter() if _name(child) == "title"), None)
    return " ".join("".join(map(str, found.itertext())).split()) if found is not None else ""


def _node(element: etree._Element) -> Node:
    line = cast("int | None", element.sourceline) or 0
    attributes = [Node(_plain(name), str(value), line=line) for name, value in element.attrib.items() if value.strip()]
    if _is_prose(element):
        text = " ".join("".join(_texts(element)).split())
        inside = [Node("", text, line=line)] if text else []
        children = [*attributes, *inside] if attributes else []
        return Node(_name(element), text, children, line)
    return Node(_name(element), "", [*attributes, *(_node(child) for child in _elements(element))], line)


def _is_prose(element: etree._Element) -> bool:
    """Returns whether an element directly contains text, so that its content is one text with inline marks."""
    texts = [element.text, *(child.tail for child in element)]
    return any(text and text.strip() for text in texts) or not len(element)


def _texts(element: etree._Element) -> Iterator[str]:
    """Yields the texts in an element, with spaces around block elements."""
    yield element.text or ""
    for child in element:
        edge = " " if _name(child).lower() in _BLOCKS else ""
        yield edge
        # An unresolved entity is shown as it is written.
        yield from _texts(child) if isinstance(child.tag, str) else (child.text or "",)
        yield edge
        yield child.tail or ""


def _elements(element: etree._Element) -> Iterator[etree._Element]:
    return (child for child in element if isinstance(child.tag, str))


def _name(element: etree._Element) -> str:
    return _plain(element.tag) if isinstance(element.tag, str) else ""


def _plain(name: str | bytes) -> str:
    text = name.decode() if isinstance(name, bytes) else name
    return text.rpartition("}")[2]
