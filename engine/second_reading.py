"""The second reading: a reranker reads the best passages together with the question, if one is chosen and fits.

Without it a question is answered all the same, from the passages in the order in which they were found; why is told
once. Memory that has no room for it, or is short, has it left out, for a while at least: loading it takes seconds.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Protocol

from engine.embedder.loadable import is_the_systems
from engine.embedder.reranker import CrossEncoderReranker, wanted_bytes
from engine.embedder.reranker_spec import RerankerSpec, resolve
from engine.errors import EmbedderUnavailable
from engine.memory.amounts import in_words
from engine.memory.ledger import Ledger, Reservation

log = logging.getLogger(__name__)

# Whoever was left out for want of memory is not loaded again sooner.
REST_SECONDS = 120.0
AroundLoading = Callable[[], AbstractContextManager[None]]
_WITHOUT = "Passages come in the order in which they were found."
_Stamp = tuple[tuple[str, int, int], ...]


class Memory(Protocol):
    """What it asks of memory."""

    def reserve(self, num_bytes: int) -> Reservation | None:
        """Room for so many bytes more; None where there is none."""
        ...

    @property
    def is_short(self) -> bool:
        """Whether something is to be done without just now."""
        ...


class SecondReading:
    """By one reranker, of which `name` is the name or folder. Scores are asked for by those who search."""

    def __init__(
        self,
        name: str,
        ledger: Ledger,
        memory: Memory,
        tell: Callable[[str], object],
        clock: Callable[[], float] = time.monotonic,
        around_loading: AroundLoading = nullcontext,
    ) -> None:
        """Prepares; nothing is loaded yet.

        Args:
            name: As the settings have it.
            ledger: Records the weights.
            memory: Has room, or none.
            tell: Receives the reason why there is no second reading, each reason once.
            clock: Seconds that never go back.
            around_loading: Makes a context for the seconds that loading takes, so that they can be told of.
        """
        self._around_loading = around_loading
        self.name = name
        self._reranker = CrossEncoderReranker(name, ledger)
        self._ledger, self._memory, self._tell, self._clock = ledger, memory, tell, clock
        # What it was when it could not be loaded: as long as it is the same, nobody tries again.
        self._broken: _Stamp | None = None
        self._rests_until = 0.0
        self._told = set[str]()
        # Of all that it did, the end of one call is not the beginning of another.
        self._lock = threading.Lock()
        self.seconds, self.problem = 0.0, ""
        # What loading it takes; None before anybody has looked.
        self._wanted_bytes: int | None = None
        self._is_loading = self._is_closed = False

    def scores(self, question: str, texts: Sequence[str]) -> list[float] | None:
        """How well each text answers the question, as the reranker says; None where it cannot be asked now."""
        with self._lock:
            if self._is_closed:
                return None
            try:
                scores = self._scores(question, texts)
            except EmbedderUnavailable as error:
                self._leave_out(error.sentence.rstrip(".") + ".", error.way_out)
                return None
            if scores is not None:
                self.problem = ""
            return scores

    @property
    def coming_bytes(self) -> int:
        """What of memory it will take with the next question; 0 where it is loaded, or cannot be. Never blocks.

        While it is being loaded, its room is promised to it.
        """
        if self._reranker.is_loaded or self._is_loading or self._broken is not None:
            return 0
        if self._wanted_bytes is None:
            try:
                self._wanted_bytes = wanted_bytes(resolve(self.name))
            except EmbedderUnavailable:
                # Told to the next question, which looks again: its drive may be back by then.
                self._wanted_bytes = 0
        return self._wanted_bytes

    def close(self) -> None:
        """Gives its memory back for good. A second call does nothing."""
        self._is_closed = True
        self._reranker.close()

    def _scores(self, question: str, texts: Sequence[str]) -> list[float] | None:
        """Raises EmbedderUnavailable."""
        if self._memory.is_short:
            self._give_way()
            return None
        if self._reranker.is_loaded:
            return self._read(question, texts)
        if self._clock() < self._rests_until:
            return None
        spec = resolve(self.name)
        if self._broken is not None and self._broken == _stamp(spec.folder):
            return None
        return self._loaded_and_read(spec, question, texts)

    def _loaded_and_read(self, spec: RerankerSpec, question: str, texts: Sequence[str]) -> list[float] | None:
        """Raises EmbedderUnavailable."""
        num_bytes = self._wanted_bytes = wanted_bytes(spec)
        room = self._memory.reserve(num_bytes)
        if room is None:
            words = f"There is no room in memory for the reranker {spec.name}, which takes {in_words(spec.num_bytes)}."
            self._rest()
            self._leave_out(words, "Choose a smaller one in the settings, or none.")
            return None
        before_bytes, self._is_loading = self._held_bytes(), True
        try:
            with (
                self._around_loading(),
                self._ledger.promised("ram", lambda: num_bytes - self._held_bytes() + before_bytes),
            ):
                # It is entered as it comes, and promised until then.
                room.release()
                self._reranker.load()
        except EmbedderUnavailable as error:
            if is_the_systems(error):
                self._rest()
            else:
                self._broken = _stamp(spec.folder)
            raise
        finally:
            self._is_loading = False
        self._broken = None
        return self._read(question, texts)

    def _held_bytes(self) -> int:
        """Of memory, by rerankers and by what they bring."""
        return sum(self._ledger.held_bytes("ram", owner, is_mapped=False) for owner in ("runtime", "reranker"))

    def _read(self, question: str, texts: Sequence[str]) -> list[float]:
        """Raises EmbedderUnavailable."""
        begun = self._clock()
        try:
            scores = self._reranker.scores(question, texts)
        except EmbedderUnavailable as error:
            if is_the_systems(error):
                self._reranker.unload()
                self._rest()
            raise
        self.seconds = self._clock() - begun
        return scores

    def _give_way(self) -> None:
        """Gives the memory back that others need more."""
        self._reranker.unload()
        self._rest()
        self._leave_out("Memory is short, and the best passages are not read a second time for now.")

    def _rest(self) -> None:
        """The reranker is not tried again for a while."""
        self._rests_until = self._clock() + REST_SECONDS

    def _leave_out(self, sentence: str, way_out: str = "") -> None:
        self.problem = " ".join(part for part in (sentence, _WITHOUT, way_out) if part)
        if self.problem not in self._told:
            self._told.add(self.problem)
            log.info("%s", self.problem)
            self._tell(self.problem)


def _stamp(folder: Path) -> _Stamp:
    """Changes with the files in a folder."""
    try:
        stats = [(file.name, file.stat()) for file in folder.iterdir()]
    except OSError:
        return ()
    return tuple(sorted((name, stat.st_mtime_ns, stat.st_size) for name, stat in stats))
