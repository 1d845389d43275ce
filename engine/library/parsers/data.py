"""JSON, JSON lines and YAML: data for programs, flattened to rows that keep their paths.

A file that only looks like one of them, or is a dialect, is read as text.
"""

from __future__ import annotations

import itertools
import json
import re
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import yaml  # type: ignore[import-untyped]

from engine.core import Block, ParsedDocument
from engine.library.parsers import code, flattening
from engine.library.parsers.encoding import decode
from engine.library.parsers.flattening import Node
from engine.library.parsers.limits import Limits
from engine.library.parsers.lines import records
from engine.library.parsers.text import by_lines

# libyaml where PyYAML was built with it: ten times as fast.
_Loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_COMMENT = re.compile(r"(?<!\S)#[^\n]*")


def parse_json(path: Path, limits: Limits) -> ParsedDocument:
    text = decode(path.read_bytes())
    try:
        value = json.loads(text)
    except ValueError:
        return by_lines("json", text, code.definitions(text))
    return ParsedDocument("json", "", (flattening.page([_node("", value)]),))


def parse_json_lines(path: Path, limits: Limits) -> ParsedDocument:
    """Parses one record per line; a line that is no JSON stays as it is."""
    text = decode(path.read_bytes())
    nodes = (_record(block, text) for block in records(text))
    return ParsedDocument("json", "", (replace(flattening.page(nodes), has_line_blocks=True),), "line")


def parse_yaml(path: Path, limits: Limits) -> ParsedDocument:
    text = decode(path.read_bytes())
    values = itertools.count(1)
    try:
        roots = [_yaml_node("", root, values) for root in yaml.compose_all(text, Loader=_Loader) if root is not None]
        comments = deque(_comments(text))
    except (yaml.YAMLError, ValueError, RecursionError):
        return by_lines("yaml", text, code.definitions(text))
    if all(root.is_leaf for root in roots):
        # A plain sentence is valid YAML as well.
        return by_lines("yaml", text, code.definitions(text))
    _remark(roots, comments)
    return ParsedDocument("yaml", "", (flattening.page([*roots, Node(remarks=[*comments])]),), "line")


def _comments(text: str) -> Iterator[Node]:
    """Yields the comments: those of adjacent lines together, without lines of signs only."""
    found: list[Node] = []
    line, reached = 1, 0
    for comment in _comment_signs(text):
        line += text.count("\n", reached, comment.start())
        reached = comment.start()
        if found and line > found[-1].line + 1:
            yield from _joined(found)
            found = []
        found.append(Node(text=comment.group().rstrip(), line=line))
    yield from _joined(found)


def _comment_signs(text: str) -> Iterator[re.Match[str]]:
    """Yields the comments, which are between the scalars: a `#` inside of one is none."""
    if not _COMMENT.search(text):
        return
    at = 0
    for token in yaml.scan(text, Loader=_Loader):
        if isinstance(token, yaml.ScalarToken):
            yield from _COMMENT.finditer(text, at, token.start_mark.index)
            at = token.end_mark.index
    yield from _COMMENT.finditer(text, at)


def _joined(lines: Sequence[Node]) -> Iterator[Node]:
    said = "\n".join(line.text for line in lines)
    if any(map(str.isalnum, said)):
        yield Node(text=said, line=lines[0].line)


def _remark(nodes: Iterable[Node], comments: deque[Node]) -> None:
    """Attaches each comment to the value on its line, or else to the next one; the rest stays in `comments`."""
    for node in nodes:
        while comments and comments[0].line <= node.line:
            node.remarks.append(comments.popleft())
        _remark(node.children, comments)


def _record(block: Block, text: str) -> Node:
    line = text[block.start : block.end]
    try:
        node = _node("", json.loads(line))
    except ValueError:
        node = Node(text=line)
    return _on_line(node, block.line)


def _on_line(node: Node, line: int) -> Node:
    node.line = line
    for child in node.children:
        _on_line(child, line)
    return node


def _node(name: str, value: Any) -> Node:
    if isinstance(value, dict):
        return Node(name, children=[_node(str(key), inner) for key, inner in value.items()])
    if isinstance(value, list):
        return Node(name, children=[_node("", inner) for inner in value], is_list=True)
    return Node(name, text=value if isinstance(value, str) else "" if value is None else json.dumps(value))


def _yaml_node(name: str, node: Any, values: Iterator[int]) -> Node:
    """Converts the node and all below it; `values` counts them, because a few references can make billions."""
    line = node.start_mark.line + 1
    if isinstance(node, yaml.ScalarNode) or not node.value:
        flattening.check_values(next(values))
    if isinstance(node, yaml.MappingNode):
        # A key that is a list or an object is no name; written out, it could be huge.
        pairs = [(str(key.value) if isinstance(key, yaml.ScalarNode) else "", value) for key, value in node.value]
        return Node(name, children=[_yaml_node(key, value, values) for key, value in pairs], line=line)
    if isinstance(node, yaml.SequenceNode):
        return Node(name, children=[_yaml_node("", inner, values) for inner in node.value], line=line, is_list=True)
    return Node(name, text=str(node.value), line=line)
