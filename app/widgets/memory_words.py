"""The memory map in words: kinds, states, tiles and moves, for tooltips, tables and screen readers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from PySide6.QtCore import QCoreApplication

from app.sentences import listed
from app.widgets import memory_tiles
from app.widgets.figures import bytes_text, count_text
from app.widgets.memory_tiles import Tile, kind_of, layers_of

if TYPE_CHECKING:
    from app.models.memory_moves import Move


def kind_name(kind: int) -> str:
    return QCoreApplication.translate("memory", memory_tiles.KIND_NAMES[kind])


def state_name(state: str) -> str:
    """Returns a span's state in words."""
    names = {
        "resident": _tr("in place"),
        "streaming": _tr("streaming"),
        "loading": _tr("loading"),
        "evicting": _tr("leaving"),
        "reserved": _tr("reserved"),
    }
    return names.get(state, state)


def sentence(tile: Tile) -> str:
    """Returns `Model layers: layer 12, 138 MiB, streaming` for tooltips and screen readers."""
    what = tile.what
    if tile.kind == memory_tiles.MODEL and tile.label.isdigit():
        what = _tr("layer %1").replace("%1", tile.label)
    if tile.num_parts > 1:
        what = _tr("%1 parts").replace("%1", count_text(tile.num_parts))
    parts = [what, bytes_text(tile.num_bytes), state_name(tile.state) if tile.state != "resident" else ""]
    return _tr("%1: %2").replace("%1", kind_name(tile.kind)).replace("%2", listed(parts))


def moves_sentence(moves: Sequence[Move]) -> str:
    """Returns `3 layers being read · partition 7 came · 2 index parts left`; "" if nothing notable moved."""
    groups: dict[tuple[str, int], list[Move]] = {}
    for move in moves:
        if (verb := _verb(move)) and (kind := kind_of(move.span.owner, move.span.what)) != memory_tiles.SELF:
            groups.setdefault((verb, kind), []).append(move)
    return " · ".join(f"{_subject(kind, group)} {verb}" for (verb, kind), group in groups.items())


def _verb(move: Move) -> str:
    if move.kind == "came" and move.span.state == "resident":
        return _tr("came")
    by_state = {"loading": _tr("being read"), "evicting": _tr("leaving"), "streaming": _tr("streamed")}
    if move.kind in ("came", "changed"):
        return by_state.get(move.span.state, _tr("in place"))
    return {"went": _tr("released"), "grew": _tr("grew"), "shrank": _tr("shrank")}[move.kind]


def _subject(kind: int, group: Sequence[Move]) -> str:
    if len(group) == 1:
        span = group[0].span
        return f"{span.what or kind_name(kind)} ({bytes_text(span.num_bytes)})"
    if kind == memory_tiles.MODEL and all(layers_of(move.span) for move in group):
        return _tr("%1 layers").replace("%1", count_text(len({move.span.what for move in group})))
    return _tr("%1 parts of “%2”").replace("%1", count_text(len(group))).replace("%2", kind_name(kind))


def _tr(text: str) -> str:
    return QCoreApplication.translate("memory", text)
