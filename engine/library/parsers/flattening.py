"""Nested data as rows that people can read: what stands together in one object is one row, under its path.

    {"servers": [{"name": "web", "port": 80}]}   becomes   servers[0] | name: web | port: 80

JSON, YAML and XML are converted to `Node`s, so that all are written alike.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from engine.core import ParsedPage
from engine.errors import DocumentTooLarge
from engine.library.parsers.markup import CELL_SEPARATOR, PageBuilder

# Longer texts are paragraphs of their own.
_PROSE_CHARACTERS = 200
# YAML's references can repeat a short text billions of times.
MAX_VALUES = 1_000_000


@dataclass(slots=True)
class Node:
    """A value and its position; with `children` it is an object or a list, otherwise `text` is its value.

    `name` is its key in the object around it, "" in a list. `line` as in `Block`. `remarks` are written before it.
    """

    name: str = ""
    text: str = ""
    children: list[Node] = field(default_factory=list)
    line: int = 0
    is_list: bool = False
    remarks: list[Node] = field(default_factory=list)

    @property
    def is_leaf(self) -> bool:
        return not self.children


def page(roots: Iterable[Node]) -> ParsedPage:
    """Writes the nodes as a page, in their order.

    Raises:
        DocumentTooLarge: There are too many values.
    """
    writer = _Writer()
    for root in roots:
        writer.write(root, "")
    return writer.builder.page()


def check_values(num_values: int) -> None:
    if num_values > MAX_VALUES:
        raise DocumentTooLarge(f"The file holds more than {MAX_VALUES:,} values.")


class _Writer:
    def __init__(self) -> None:
        self.builder = PageBuilder()
        self._num_values = 0

    def write(self, node: Node, path: str) -> None:
        """Writes the node's own values as a row, or several if values have remarks; then its inner objects."""
        self._remarks(node)
        if node.is_leaf:
            self._row(path, [node], node.line)
            return
        leaves: list[Node] = []
        for child in node.children:
            if child.is_leaf and len(child.text) <= _PROSE_CHARACTERS:
                if child.remarks:
                    self._row(path, leaves, node.line)
                    leaves = []
                    self._remarks(child)
                leaves.append(child)
        self._row(path, leaves, node.line)
        for index, child in enumerate(node.children):
            if child.is_leaf and len(child.text) > _PROSE_CHARACTERS:
                self._remarks(child)
                self._count()
                label = f"{child.name}: " if child.name else ""
                self.builder.add("paragraph", label + child.text, line=child.line)
            elif not child.is_leaf:
                self.write(child, _joined(path, f"[{index}]" if node.is_list else child.name))

    def _row(self, path: str, leaves: list[Node], line: int) -> None:
        for _ in leaves:
            self._count()
        cells = [*_cells(leaves)]
        if cells:
            self.builder.add(
                "table_row", CELL_SEPARATOR.join(filter(None, [path, *cells])), line=leaves[0].line or line
            )

    def _remarks(self, node: Node) -> None:
        for remark in node.remarks:
            self.builder.add("paragraph", remark.text, line=remark.line)

    def _count(self) -> None:
        self._num_values += 1
        check_values(self._num_values)


def _cells(leaves: Iterable[Node]) -> Iterator[str]:
    """Yields values with their keys; values with the same key, or without one, are joined."""
    values: dict[str, list[str]] = {}
    for leaf in leaves:
        text = " ".join(leaf.text.split())
        if text:
            values.setdefault(leaf.name, []).append(text)
    for name, texts in values.items():
        yield (f"{name}: " if name else "") + ", ".join(texts)


def _joined(path: str, step: str) -> str:
    return path + step if step.startswith("[") or not path else f"{path}.{step}"
