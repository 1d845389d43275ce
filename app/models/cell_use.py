"""Who uses the cells of the context, by chat: pure, from the engine's counters."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass

# The prefix of a counter for one question whose prompt and answer are in cells; not shown to users.
CELLS_OF = "kv_cells_of:"


@dataclass(frozen=True, slots=True)
class CellUse:
    """Cells in use and free; `by_chat` has pairs of a chat's name and its cells, those that chats share left out."""

    used: int
    free: int
    by_chat: tuple[tuple[str, int], ...] = ()

    @property
    def num_cells(self) -> int:
        return self.used + self.free


def cell_use(counters: Mapping[str, float], name_of: Callable[[str], str]) -> CellUse | None:
    """Returns the use of cells that counters report; None if they report none.

    Args:
        counters: `kv_cells_used`, `kv_cells_free`, and `kv_cells_of:` each question.
        name_of: Returns the title of a question's chat, "" if it is not known.
    """
    used, free = counters.get("kv_cells_used"), counters.get("kv_cells_free")
    if used is None or free is None or used + free <= 0:
        return None
    chats: Counter[str] = Counter()
    for name, cells in counters.items():
        if name.startswith(CELLS_OF):
            chats[name_of(name.removeprefix(CELLS_OF))] += round(cells)
    return CellUse(round(used), round(free), tuple(_bounded(chats, round(used))))


def _bounded(chats: Mapping[str, int], used: int) -> list[tuple[str, int]]:
    """Scales the chats' cells down to `used`, because cells that chats share are counted for each."""
    total = sum(chats.values())
    share = min(1.0, used / total) if total else 1.0
    return [(name, int(cells * share)) for name, cells in chats.items() if int(cells * share)]
