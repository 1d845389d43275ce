"""XML elements by local name: the strict and transitional forms of an office format have only these in common."""

from __future__ import annotations

from collections.abc import Iterator

from lxml import etree

# Python refuses to parse numbers of thousands of digits.
_MAX_DIGITS = 9


def elements(container: etree._Element | None) -> Iterator[etree._Element]:
    """Yields the child elements, without comments and processing instructions."""
    if container is not None:
        yield from (element for element in container if isinstance(element.tag, str))


def children(container: etree._Element | None, name: str) -> Iterator[etree._Element]:
    yield from (element for element in elements(container) if local(element) == name)


def child(container: etree._Element | None, *path: str) -> etree._Element | None:
    """Returns the first child of that name, or follows a path of names; None if there is no such element."""
    for name in path:
        container = next(children(container, name), None)
    return container


def descendants(container: etree._Element | None, *names: str) -> Iterator[etree._Element]:
    """Yields all elements of these names below the container, in document order."""
    if container is not None:
        yield from (element for element in container.iter("{*}*") if local(element) in names)


def local(element: etree._Element) -> str:
    tag = element.tag
    return tag[tag.rfind("}") + 1 :]


def attribute(element: etree._Element | None, name: str = "val") -> str:
    """Returns an attribute by its local name, "" if it is missing."""
    if element is None:
        return ""
    return next((str(text) for key, text in element.attrib.items() if str(key).rpartition("}")[2] == name), "")


def whole_number(said: str, otherwise: int) -> int:
    """Returns the number in an attribute, at most nine digits of it; `otherwise` if it is no number."""
    said = said.strip()
    return int(said[:_MAX_DIGITS]) if said.isdecimal() else otherwise


def relation(element: etree._Element) -> str:
    """Returns the relationship id that an element names (`r:id`); it may also have an `id` of its own."""
    return next((str(text) for key, text in element.attrib.items() if str(key).endswith("}id")), "")
