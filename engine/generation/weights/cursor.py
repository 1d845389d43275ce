"""The cursor: where llama.cpp is in the model, by its own callback, which waits there for the following stage.

llama.cpp asks before each node of the graph whether it is to stop after it; the answer is yes only at the end of a
stage (stages.py) next to one that is read. What an exception in there would do is worse than an error: llama_decode
goes on, returns 0, and its logits are garbage. So nothing is raised: `is_lost` says after the decode that they must not
be used.
"""

from __future__ import annotations

import ctypes
import logging
from collections.abc import Callable, Collection, Sequence
from typing import Any

import llama_cpp.llama_cpp as llama

from engine.generation.weights.readers import Readers

log = logging.getLogger(__name__)


def node_name() -> Callable[[int], bytes]:
    """How ggml names a node; the GIL stays held, because releasing it costs more."""
    library = ctypes.PyDLL(None, handle=llama._lib._handle)
    name_of = library.ggml_get_name
    name_of.argtypes, name_of.restype = (ctypes.c_void_p,), ctypes.c_char_p
    found: Callable[[int], bytes] = name_of
    return found


class Cursor:
    """Used on the thread that decodes."""

    def __init__(self, readers: Readers, marks: Sequence[bytes]) -> None:
        """Starts; `marks` are the names of the nodes at which stages end, in order."""
        self._readers, self._names, self._num_stages = readers, marks, len(marks)
        self._marks: dict[bytes, int] = {}
        self._order: Sequence[int] = ()
        self._awaited: frozenset[int] = frozenset()
        self._at = 0
        self.num_passes = 0
        self.is_lost = False
        # Kept alive here: llama.cpp holds the bare pointer.
        self.callback: Any = llama.ggml_backend_sched_eval_callback(self._on_node())

    def watch(self, read: Collection[int]) -> None:
        """Stops at the ends of these stages and of those before them; between decodes only."""
        self._awaited = frozenset(read)
        self._order = sorted({near for stage in read for near in (stage, (stage - 1) % self._num_stages)})
        self._marks.clear()
        self._marks.update((self._names[stage], stage) for stage in self._order)

    @property
    def has_marks(self) -> bool:
        """Whether any stage is watched."""
        return bool(self._order)

    def is_watching(self, read: Collection[int]) -> bool:
        return self._awaited == frozenset(read)

    def begin(self) -> bool:
        """A decode begins; False where its first stage cannot be had."""
        self._at = self.num_passes = 0
        self.is_lost = False
        return 0 not in self._awaited or self._readers.wait_for(0)

    @property
    def is_between_passes(self) -> bool:
        """Whether every pass that was begun has come to its end."""
        return self._at == 0

    def _on_node(self) -> Callable[[int, bool, object], bool]:
        """The callback: some thirty calls for each layer of each pass, so the common path is short."""
        marks, name_of = self._marks, node_name()

        def on_node(tensor: int, is_asked: bool, user_data: object) -> bool:
            if is_asked:
                return name_of(tensor) in marks
            try:
                self._reach(marks[name_of(tensor)])
            except Exception as error:  # noqa: BLE001 - llama.cpp would go on without its weights
                log.error("The cursor lost its place: %s", error)
                self.is_lost = True
            return True

        return on_node

    def _reach(self, stage: int) -> None:
        if self.is_lost:
            return
        if self._order[self._at] != stage:
            log.error("Stage %d was computed where stage %d was expected.", stage, self._order[self._at])
            self.is_lost = True
            return
        self._at = (self._at + 1) % len(self._order)
        self._readers.advance(stage, ends_pass=self._at == 0)
        self.num_passes += self._at == 0
        following = (stage + 1) % self._num_stages
        if following in self._awaited and not self._readers.wait_for(following):
            self.is_lost = True
