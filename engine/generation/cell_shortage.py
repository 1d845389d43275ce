"""Cell shortage: requests that would end for lack of cells go on in a larger context, if there is room for one.

Nothing is computed meanwhile: the loop moves to that context, or does without more cells.
"""

from __future__ import annotations

from engine.generation.groups import SequenceGroup
from engine.generation.needs import cells_soon


class CellShortage:
    """Requests that lack cells; part of the step loop. `wanted_cells` would be enough for all; 0 if none lacks any."""

    def __init__(self) -> None:
        self.wanted_cells = 0
        self._groups: list[SequenceGroup] = []

    def reset(self) -> None:
        """Forgets all; groups that still lack cells will be noted again."""
        self.wanted_cells = 0
        self._groups.clear()

    def note(self, group: SequenceGroup, num_cells: int, most_cells: int) -> bool:
        """Returns whether a group too large for `num_cells` gets more, `most_cells` at most; otherwise it ends.

        A request that only reads ahead is not worth a pause.
        """
        if num_cells >= most_cells or group.request.sampling.max_tokens <= 0 or group.makes_do:
            return False
        self._groups.append(group)
        self.wanted_cells = min(most_cells, max(num_cells + 1, cells_soon(group), self.wanted_cells))
        return True

    def make_do(self, num_cells: int) -> list[SequenceGroup]:
        """Makes groups that lack cells end with these, since there are no more; returns those to end at once.

        A prompt longer than `num_cells` would wait until all others have ended, and be read in vain.
        """
        for group in self._groups:
            group.makes_do = True
        hopeless = [group for group in self._groups if _is_new(group) and group.num_tokens > num_cells]
        self.reset()
        return hopeless


def _is_new(group: SequenceGroup) -> bool:
    return not any(each.num_generated for each in group.sequences)
