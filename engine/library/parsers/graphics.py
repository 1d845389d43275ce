"""Graphics: charts and diagrams of Office files, which keep their words in parts of their own, and text in drawings."""

from __future__ import annotations

from collections.abc import Iterator

from lxml import etree

from engine.library.parsers.archive import Package
from engine.library.parsers.elements import attribute, child, children, descendants, elements, local
from engine.library.parsers.markup import PageBuilder, row

# The elements that refer to a chart or a diagram.
REFERENCES = ("chart", "relIds")


def write_graphics(builder: PageBuilder, package: Package, part: str, shown: etree._Element) -> None:
    """Writes the charts and diagrams to which an element of a part refers: series as rows, points as list items."""
    for element in descendants(shown, *REFERENCES):
        name = "id" if local(element) == "chart" else "dm"
        target = package.related(part).get(attribute(element, name), "")
        root = package.xml(target) if target else None
        if local(element) == "chart":
            _chart(builder, root)
        else:
            _diagram(builder, root)


def _chart(builder: PageBuilder, root: etree._Element | None) -> None:
    title = child(root, "chart", "title")
    builder.add("paragraph", " ".join(text.text or "" for text in descendants(title, "t")))
    series = list(descendants(root, "ser"))
    if series:
        builder.add("table_row", row(["", *_points(child(series[0], "cat"))]))
    for one in series:
        builder.add("table_row", row([" ".join(_points(child(one, "tx"))), *_points(child(one, "val"))]))


def _diagram(builder: PageBuilder, root: etree._Element | None) -> None:
    for point in descendants(root, "pt"):
        builder.add("list_item", flat(child(point, "t")))


def paragraphs(body: etree._Element | None) -> Iterator[tuple[bool, str]]:
    """Yields whether it may have a bullet, and the text, of each paragraph with text."""
    for paragraph in children(body, "p"):
        text = "".join(_runs(paragraph)).strip()
        if text:
            yield child(paragraph, "pPr", "buNone") is None, text


def _runs(paragraph: etree._Element) -> Iterator[str]:
    for element in elements(paragraph):
        name = local(element)
        if name == "br":
            yield "\n"
        elif name == "r" or (name == "fld" and not attribute(element, "type").startswith(("slidenum", "datetime"))):
            text = child(element, "t")
            yield (text.text or "") if text is not None else ""
        elif name not in ("pPr", "endParaRPr", "fld"):
            # Formulas and their alternatives.
            yield " ".join(text.text or "" for text in descendants(element, "t"))


def flat(body: etree._Element | None) -> str:
    return " ".join(text for _, text in paragraphs(body))


def _points(data: etree._Element | None) -> list[str]:
    """Returns the cached values of a chart's series or axis."""
    return [point.text or "" for point in descendants(data, "v")]
