"""The second reading: a reranker reads the best passages together with the question, if one is chosen and fits.

Without it, a question is answered from the passages in the order in which they were found, and the reason is reported
once. If memory has no room for it, or is short, it is left out for a while: loading it takes seconds.
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

# After it was left out for lack of memory, it is not loaded again sooner.
REST_SECONDS = 120.0
AroundLoading = Callable[[], AbstractContextManager[None]]
_WITHOUT = "Passages come in the order in which they were found."
_Stamp = tuple[tuple[str, int, int], ...]


class Memory(Protocol):
    """Main memory as far as it concerns a reranker."""

    def reserve(self, num_bytes: int) -> Reservation | None:
        """Reserves room for `num_bytes` more; None if there is none."""
        ...

    @property
    def is_short(self) -> bool:
        """Whether something is given up for lack of memory now."""
        ...


class SecondReading:
    """The second reading by one reranker, of which `name` is the name or folder. Searches ask it for scores."""

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
            name: The reranker, as the settings name it.
            ledger: Records the weights.
            memory: Has room, or not.
            tell: Receives the reason why there is no second reading, each reason once.
            clock: Seconds that never go back.
            around_loading: Makes a context for the seconds that loading takes, so that users are told of it.
        """
        self._around_loading = around_loading
        self.name = name
        self._reranker = CrossEncoderReranker(name, ledger)
        self._ledger, self._memory, self._tell, self._clock = ledger, memory, tell, clock
        # The stamp of its files when it could not be loaded: while it is the same, loading is not tried again.
        self._broken: _Stamp | None = None
        self._rests_until = 0.0
        self._told = set[str]()
        # One call at a time.
        self._lock = threading.Lock()
        self.seconds, self.problem = 0.0, ""
        # The bytes that loading takes; None before they were looked up.
        self._wanted_bytes: int | None = None
        self._is_loading = self._is_closed = False

    def scores(self, question: str, texts: Sequence[str]) -> list[float] | None:
        """Returns the reranker's score of each text for the question; None if it cannot be used now."""
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
        """The memory that it will take with the next question; 0 if it is loaded, or cannot be. Takes no lock.

        While it is being loaded, its room is promised in the ledger.
        """
        if self._reranker.is_loaded or self._is_loading or self._broken is not None:
            return 0
        if self._wanted_bytes is None:
            try:
                self._wanted_bytes = wanted_bytes(resolve(self.name))
            except EmbedderUnavailable:
                # Reported with the next question, which looks again: its drive may be back by then.
                self._wanted_bytes = 0
        return self._wanted_bytes

    def close(self) -> None:
        """Frees its memory permanently. A second call does nothing."""
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
                # It is entered in the ledger as it is loaded, and promised until then.
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
        """Returns the memory that rerankers and the libraries they load hold."""
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
        """Frees its memory, which others need more."""
        self._reranker.unload()
        self._rest()
        self._leave_out("Memory is short, and the best passages are not read a second time for now.")

    def _rest(self) -> None:
        """Prevents another attempt for a while."""
        self._rests_until = self._clock() + REST_SECONDS

    def _leave_out(self, sentence: str, way_out: str = "") -> None:
        self.problem = " ".join(part for part in (sentence, _WITHOUT, way_out) if part)
        if self.problem not in self._told:
            self._told.add(self.problem)
            log.info("%s", self.problem)
            self._tell(self.problem)


def _stamp(folder: Path) -> _Stamp:
    """Returns a value that changes with the files in a folder."""
    try:
        stats = [(file.name, file.stat()) for file in folder.iterdir()]
    except OSError:
        return ()
    return tuple(sorted((name, stat.st_mtime_ns, stat.st_size) for name, stat in stats))
