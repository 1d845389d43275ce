"""JSON, JSON lines and YAML: data for programs, flattened to rows that keep their paths.

What only looks like one of them, or is a dialect of it, is read as the text that it is.
"""

from __future__ import annotations

import json
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


def parse_json(path: Path, limits: Limits) -> ParsedDocument:
    text = decode(path.read_bytes())
    try:
        value = json.loads(text)
    except ValueError:
        return by_lines("json", text, code.definitions(text))
    return ParsedDocument("json", "", (flattening.page([_node("", value)]),))


def parse_json_lines(path: Path, limits: Limits) -> ParsedDocument:
    """A record a line; a line that is none stays as it is."""
    text = decode(path.read_bytes())
    nodes = (_record(block, text) for block in records(text))
    return ParsedDocument("json", "", (replace(flattening.page(nodes), has_line_blocks=True),), "line")


def parse_yaml(path: Path, limits: Limits) -> ParsedDocument:
    text = decode(path.read_bytes())
    try:
        roots = [_yaml_node("", root) for root in yaml.compose_all(text, Loader=_Loader) if root is not None]
    except (yaml.YAMLError, ValueError, RecursionError):
        return by_lines("yaml", text, code.definitions(text))
    if all(root.is_leaf for root in roots):
        # A sentence is YAML as well.
        return by_lines("yaml", text, code.definitions(text))
    return ParsedDocument("yaml", "", (flattening.page(roots),), "line")


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


def _yaml_node(name: str, node: Any) -> Node:
    line = node.start_mark.line + 1
    if isinstance(node, yaml.MappingNode):
        pairs = [_yaml_node(str(key.value), value) for key, value in node.value]
        return Node(name, children=pairs, line=line)
    if isinstance(node, yaml.SequenceNode):
        return Node(name, children=[_yaml_node("", inner) for inner in node.value], line=line, is_list=True)
    return Node(name, text=str(node.value), line=line)
