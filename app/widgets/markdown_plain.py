"""Markdown as plain text, with bullets and line breaks instead of marks; formulas stay as written."""

from __future__ import annotations

from typing import TYPE_CHECKING

from app.widgets.markdown_blocks import tokens_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from markdown_it.tree import SyntaxTreeNode

_RULE = "———"
_BULLET = "• "


def plain_of(text: str, num_passages: int | None = None) -> str:
    """Returns `text` without Markdown's marks; citations are numbers in brackets."""
    return _blocks(_tree(text, num_passages).children)


def cited_numbers(text: str, num_passages: int | None = None) -> tuple[int, ...]:
    """Returns the numbers (1-based) of the passages that `text` cites, in ascending order."""
    nodes = _tree(text, num_passages).walk()
    return tuple(sorted({int(node.content) for node in nodes if node.type == "citation"}))


def _tree(text: str, num_passages: int | None) -> SyntaxTreeNode:
    # Imported at the first copy, not at the first answer.
    from markdown_it.tree import SyntaxTreeNode

    return SyntaxTreeNode(tokens_of(text, num_passages))


def _blocks(nodes: Iterable[SyntaxTreeNode], gap: str = "\n\n") -> str:
    return gap.join(_block(node) for node in nodes)


def _block(node: SyntaxTreeNode) -> str:
    match node.type:
        case "inline":
            return _inlines(node.children)
        case "fence" | "code_block":
            return node.content.rstrip("\n")
        case "hr":
            return _RULE
        case "bullet_list":
            return _list(node, [_BULLET] * len(node.children))
        case "ordered_list":
            first = int(node.attrs.get("start", 1))
            return _list(node, [f"{first + place}. " for place in range(len(node.children))])
        case "table":
            return "\n".join(_blocks(row.children, "\t") for part in node.children for row in part.children)
        case _:
            return _blocks(node.children)


def _list(node: SyntaxTreeNode, marks: list[str]) -> str:
    items = [_item(item, mark) for item, mark in zip(node.children, marks, strict=True)]
    return ("\n" if all(map(_is_tight, node.children)) else "\n\n").join(items)


def _item(item: SyntaxTreeNode, mark: str) -> str:
    first, *others = _blocks(item.children, "\n" if _is_tight(item) else "\n\n").split("\n")
    indent = " " * len(mark)
    return "\n".join((mark + first, *(f"{indent}{line}" if line else "" for line in others)))


def _is_tight(item: SyntaxTreeNode) -> bool:
    return all(part.hidden for part in item.children if part.type == "paragraph")


def _inlines(nodes: Iterable[SyntaxTreeNode]) -> str:
    return "".join(map(_inline, nodes))


def _inline(node: SyntaxTreeNode) -> str:
    match node.type:
        case "softbreak" | "hardbreak":
            return "\n"
        case "citation":
            return f"[{node.content}]"
        case "link":
            words, target = _inlines(node.children), str(node.attrs.get("href", ""))
            return words if target in (words, f"mailto:{words}") else f"{words} ({target})"
        case "formula":
            return "\n".join(line.strip() for line in node.content.split("\n"))
        case "text" | "code_inline" | "image":
            return node.content
        case _:
            return _inlines(node.children)
