"""SVG pictures: what is written in them, with what they are called and said to show, in the order of the file.

Only real text: letters that are drawn as paths could be read by OCR if the picture were saved as pixels.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from lxml import etree

from engine.core import ParsedDocument
from engine.errors import DocumentEmpty, DocumentUnreadable
from engine.library.parsers.elements import attribute, child, elements, local
from engine.library.parsers.limits import Limits
from engine.library.parsers.markup import PageBuilder, sane_title

_SAID = {"title", "desc"}
# The whole content of these is one text, also HTML, as in the boxes of diagrams.
_FLAT = {*_SAID, "foreignObject"}
_UNSHOWN = {"style", "script", "metadata"}
_EMPTY_WAY_OUT = (
    "If its letters are drawn as lines, save it as a PNG picture: that is read where Tesseract is installed."
)


def parse(path: Path, limits: Limits) -> ParsedDocument:
    # Entities stay unresolved, and libxml2's own limits on depth and amplification stay on.
    parser = etree.XMLParser(
        resolve_entities=False, no_network=True, load_dtd=False, remove_comments=True, remove_pis=True
    )
    try:
        root = etree.fromstring(path.read_bytes(), parser)
    except (etree.XMLSyntaxError, ValueError) as error:
        raise DocumentUnreadable(f"The SVG picture is damaged: {str(error).rstrip('.')}.") from error
    builder = PageBuilder()
    last = ""
    for text in _texts(root):
        # A shadow repeats the text, and a tooltip is often the text it belongs to.
        if text != last:
            builder.add("paragraph", text)
        last = text
    if not builder.num_blocks:
        raise DocumentEmpty("There is no text in the SVG picture.", _EMPTY_WAY_OUT)
    title = child(root, "title")
    return ParsedDocument("picture", sane_title(_flat(title)) if title is not None else "", (builder.page(),))


def _texts(element: etree._Element) -> Iterator[str]:
    """Yields the texts in an element; a text of several lines is one."""
    name = local(element)
    if name == "text":
        yield "\n".join(filter(None, (" ".join(line.split()) for line in "".join(_written(element)).split("\0"))))
    elif name in _FLAT:
        yield _flat(element)
    elif name not in _UNSHOWN:
        shown = [*elements(element)]
        if name == "switch":
            # The first alternative without required extensions is shown; the others say the same to simpler programs,
            # or are only for the program that wrote them.
            shown = [one for one in shown if not attribute(one, "requiredExtensions")][:1]
        for one in shown:
            yield from _texts(one)


def _written(element: etree._Element) -> Iterator[str]:
    """Yields the parts of a text; a part at another position, not only raised or lowered, begins a line (NUL)."""
    yield element.text or ""
    for part in element:
        if isinstance(part.tag, str) and local(part) not in (*_SAID, *_UNSHOWN):
            if attribute(part, "x") and (attribute(part, "y") or attribute(part, "dy")):
                yield "\0"
            yield from _written(part)
        yield part.tail or ""


def _flat(element: etree._Element) -> str:
    """Returns all text in an element in one line, with spaces between the parts of HTML in it."""
    return " ".join(" ".join(map(str, element.itertext())).split())
