"""Who lacks cells: whoever would end for want of them goes on in a context that has more, where there is room for one.

Nothing is computed meanwhile: the loop moves to where they are, or is told that there are no more.
"""

from __future__ import annotations

from engine.generation.groups import SequenceGroup
from engine.generation.needs import cells_soon


class Lacking:
    """Part of the step loop. `wanted_cells`: with so many nobody would lack any; 0 where nobody does."""

    def __init__(self) -> None:
        self.wanted_cells = 0
        self._groups: list[SequenceGroup] = []

    def look_anew(self) -> None:
        """Whoever still lacks some will be noted again."""
        self.wanted_cells = 0
        self._groups.clear()

    def note(self, group: SequenceGroup, num_cells: int, most_cells: int) -> bool:
        """Whether one that `num_cells` are too few for gets a context with more, of `most_cells`; else it is to end.

        What nobody waits for is not worth a pause.
        """
        if num_cells >= most_cells or group.request.sampling.max_tokens <= 0 or group.makes_do:
            return False
        self._groups.append(group)
        self.wanted_cells = min(most_cells, max(num_cells + 1, cells_soon(group), self.wanted_cells))
        return True

    def make_do(self, num_cells: int) -> list[SequenceGroup]:
        """There are no more than these: whoever lacks some ends with them. Returns those that had better end at once.

        A prompt that is longer than that would wait until all the others have ended, and be read, for nothing.
        """
        for group in self._groups:
            group.makes_do = True
        hopeless = [group for group in self._groups if _is_new(group) and group.num_tokens > num_cells]
        self.look_anew()
        return hopeless


def _is_new(group: SequenceGroup) -> bool:
    return not any(each.num_generated for each in group.sequences)
