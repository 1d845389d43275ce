"""Rehearsing: the offline profile of the loaded model, measured point by point while no question is open.

It measures how long a step takes for each number of answers and a pass for each number of tokens, what a search costs,
and how both slow each other down when they share the cores. Each point is kept as soon as it was measured, so that an
interruption loses one at most; a size that could not be computed bounds all larger ones. What is known for a machine, a
version of llama.cpp and a shape of model is never measured again, only refined (observing.py).
"""

from __future__ import annotations

import logging
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import CancelledError, Future
from concurrent.futures import TimeoutError as NotYet
from dataclasses import dataclass
from statistics import median
from typing import Protocol, TypeAlias, TypeVar

from engine.core import ModelShape
from engine.errors import RagdollError
from engine.events import MeasuringProgressed, Publish
from engine.generation.rehearsal import Rehearsed
from engine.memory.cost_model import Homes, as_computed, decode_work, prefill_work
from engine.memory.known_profile import KnownProfile
from engine.memory.measured import Beside, Kind, Measured, Point, Split, table_key
from engine.memory.placement import Placement
from engine.memory.profile import Profile, computing_in
from engine.memory.sharing import ways
from engine.memory.terms import homes_of, split_of
from engine.memory.work import Work
from engine.memory_interfaces import InForce
from engine.retrieval.rehearsal import Searched

log = logging.getLogger(__name__)
Value = TypeVar("Value")

# Sizes of steps, up to the answers at once, and of passes over prompts.
WRITTEN, READ = (1, 2, 4, 8, 16, 32, 64), (32, 128, 512, 2048)
# Questions that are searched for together.
SEARCHED = (1, 4, 16)
# Answers that are written while a search runs alongside.
WRITTEN_BESIDE = 2
# How often each way to share the cores is tried, and for how long: each alone before and after, and both together.
ROUNDS, ALONE_SECONDS, BESIDE_SECONDS = 3, 0.7, 1.5
# After this long, a slow machine measures the rest another time: measuring takes minutes at most.
MOST_SECONDS = 240.0
# The pause after that, or after an error.
PATIENCE_SECONDS = 1800.0
# A pass cannot be stopped: a question that comes meanwhile waits for it.
MOST_PASS_SECONDS = 3.0
# How often something is tried that has no result.
MOST_IN_VAIN = 2
_LOOK_SECONDS = 0.05


@dataclass(frozen=True, slots=True)
class Pass:
    """A step of `size` answers, or a pass that reads `size` tokens."""

    kind: Kind
    size: int


@dataclass(frozen=True, slots=True)
class Search:
    """A search for several questions together."""

    num_questions: int


@dataclass(frozen=True, slots=True)
class Together:
    """Steps and searches at the same time, each with its number of threads."""

    write_threads: int
    scan_threads: int


Wish: TypeAlias = Pass | Search | Together


def wishes(
    measured: Measured, split: Split, num_layers: int, parallel_answers: int, n_ubatch: int, threads: tuple[int, int]
) -> tuple[Wish, ...]:
    """Returns what is still to be measured, the most useful first.

    Args:
        measured: What is known of the model.
        split: Where its layers are.
        num_layers: The layers of the model.
        parallel_answers: The most answers at once.
        n_ubatch: The most tokens of a pass.
        threads: Those of a step, and the processor's cores.
    """
    written = (*(size for size in WRITTEN if size < parallel_answers), parallel_answers)
    read = (*(size for size in READ if size < n_ubatch), n_ubatch)
    passes = (*(Pass("write", size) for size in written), *(Pass("read", size) for size in read))
    missing = [one for one in passes if not measured.knows(split, one.kind, one.size, num_layers)]
    known = {(one.write_threads, one.scan_threads) for one in measured.beside if one.split.is_near(split, num_layers)}
    together = [Together(*way) for way in ways(*threads) if way not in known]
    searches = [Search(count) for count in SEARCHED] if together and not known else []
    return (*missing, *searches, *together)


class Generation(Protocol):
    """Times passes of the model."""

    def rehearse(
        self, kind: Kind, size: int, until: threading.Event | None = None, num_threads: int = 0
    ) -> Future[Rehearsed | None]: ...


class Retrieval(Protocol):
    """Times searches."""

    def rehearse(
        self, num_questions: int, least_seconds: float, scan_threads: int | None = None
    ) -> Future[Searched | None]: ...


class Rehearsing:
    """Owns what is to be measured next. `start` measures in the background, `points` on the caller's thread."""

    def __init__(
        self,
        profile: KnownProfile,
        generation: Generation,
        retrieval: Retrieval,
        in_force: Callable[[], InForce],
        threads: Callable[[], tuple[int, int]],
        publish: Publish,
        *,
        is_busy: Callable[[], bool] = lambda: False,
        can_spare: Callable[[], bool] = lambda: True,
        tell: Callable[[str], None] = lambda sentence: None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Prepares; nothing is measured yet.

        Args:
            profile: Keeps what was measured.
            generation: Times passes.
            retrieval: Times searches.
            in_force: Returns the model that is loaded, and where it is.
            threads: Returns the threads of a step, and the processor's cores.
            publish: Receives the progress.
            is_busy: Whether a question is open.
            can_spare: Whether the machine has power to spare for what `start` begins.
            tell: Receives the result in a sentence.
            clock: Seconds.
        """
        self._profile, self._generation, self._retrieval = profile, generation, retrieval
        self._in_force, self._threads, self._publish = in_force, threads, publish
        self._is_busy, self._can_spare, self._tell, self._clock = is_busy, can_spare, tell, clock
        self._in_vain: Counter[tuple[str, Split, Wish]] = Counter()
        self._closed = threading.Event()
        self._under_way = threading.Lock()
        self._not_before = float("-inf")
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Measures what is missing in the background, if there is anything; harmless while it does."""
        if self.is_under_way or self._closed.is_set() or self._clock() < self._not_before:
            return
        if self._missing() and self._can_spare():
            self._thread = threading.Thread(target=self._run, name="rehearsing", daemon=True)
            self._thread.start()

    @property
    def is_under_way(self) -> bool:
        """Whether anything is being measured, on whatever thread."""
        return self._under_way.locked() or (self._thread is not None and self._thread.is_alive())

    def close(self) -> None:
        """Ends what is being measured. A second call does nothing."""
        self._closed.set()
        if self._thread is not None:
            self._thread.join()
            self._thread = None

    def points(self) -> Iterator[MeasuringProgressed]:
        """Measures what is missing; yields the progress before each point and at the end.

        It ends sooner if a question comes, the model is placed differently, or it takes too long; it does nothing while
        another thread measures.

        Raises:
            RagdollError: Something could not be computed, or searched.
        """
        if not self._under_way.acquire(blocking=False):
            return
        try:
            yield from self._points()
        finally:
            self._under_way.release()

    def _points(self) -> Iterator[MeasuringProgressed]:
        in_force, begun = self._in_force(), self._clock()
        missing = self._missing()
        for number, wish in enumerate(missing):
            yield MeasuringProgressed(number, len(missing))
            if self._clock() - begun > MOST_SECONDS:
                self._not_before = self._clock() + PATIENCE_SECONDS
                return
            if self._closed.is_set() or self._is_busy() or not self._is_same(in_force):
                return
            self._try(wish, in_force)
        if missing:
            yield MeasuringProgressed(len(missing), len(missing))

    def sentence(self) -> str:
        """Returns what was measured of the model that is loaded, in words; "" where nothing was."""
        in_force = self._in_force()
        shape = in_force.demand.shape
        table = self._profile().table(table_key(shape))
        return sentence_of(table, split_of(in_force.here.placement), shape.name) if table.points else ""

    def _try(self, wish: Wish, in_force: InForce) -> None:
        """Measures one; what fails, or has no result twice, is not tried again by this process.

        The first time, a command may have interrupted it.
        """
        in_vain = table_key(in_force.demand.shape), split_of(in_force.here.placement), wish
        try:
            is_measured = self._measure(wish, in_force)
        except Exception:
            self._in_vain[in_vain] = MOST_IN_VAIN
            self._not_before = self._clock() + PATIENCE_SECONDS
            raise
        if not is_measured and not self._is_busy():
            self._in_vain[in_vain] += 1

    def _run(self) -> None:
        try:
            is_over = False
            for progress in self.points():
                self._publish(progress)
                is_over = progress.done == progress.total
            if is_over:
                self._tell(self.sentence())
        except RagdollError as error:
            log.warning("the model could not be measured: %s", error)
        except Exception:
            # The edge of the thread: no caller waits for it, and plans use rates alone, as before.
            log.exception("the model could not be measured")
        finally:
            self._publish(MeasuringProgressed(0, 0))

    def _missing(self) -> tuple[Wish, ...]:
        """Returns what is still to be measured of the model that is loaded, and was not tried in vain."""
        in_force = self._in_force()
        if not in_force.is_loaded:
            return ()
        shape, placement = in_force.demand.shape, in_force.here.placement
        key, split = table_key(shape), split_of(placement)
        all_missing = wishes(
            self._profile().table(key),
            split,
            shape.num_layers,
            in_force.demand.parallel_answers,
            placement.n_ubatch,
            self._threads(),
        )
        return tuple(wish for wish in all_missing if self._in_vain[key, split, wish] < MOST_IN_VAIN)

    def _is_same(self, before: InForce) -> bool:
        now = self._in_force()
        return now.path == before.path and split_of(now.here.placement) == split_of(before.here.placement)

    # --- points ---

    def _measure(self, wish: Wish, in_force: InForce) -> bool:
        """Measures one; returns whether there is a result."""
        match wish:
            case Pass(kind, size):
                shape, placement = in_force.demand.shape, in_force.here.placement
                if self._expected_seconds(kind, size, shape, placement) > MOST_PASS_SECONDS:
                    return False
                return self._measure_pass(kind, size, shape)
            case Search(num_questions):
                return self._waited(self._retrieval.rehearse(num_questions, 0.0)) is not None
            case Together():
                return self._measure_together(wish, in_force)

    def _expected_seconds(self, kind: Kind, size: int, shape: ModelShape, placement: Placement) -> float:
        """Returns how long one pass will take, by all that is known before it."""
        profile, homes = self._profile(), homes_of(shape, placement)
        work = _work(profile, homes, kind, size)
        slower = profile.corrections(table_key(shape)).factor(kind, size, **homes.way)
        return profile.seconds(work) * slower

    def _measure_pass(self, kind: Kind, size: int, shape: ModelShape) -> bool:
        rehearsed = self._waited(self._generation.rehearse(kind, size))
        if rehearsed is None:
            return False
        homes, split = homes_of(shape, rehearsed.placement), split_of(rehearsed.placement)
        work = _work(self._profile(), homes, kind, size, rehearsed.length)
        if rehearsed.seconds is None:
            point = Point(split, kind, size, work)
        else:
            computing = computing_in(work, rehearsed.seconds, rehearsed.reading_seconds)
            point = Point(split, kind, size, work, computing, is_hidden=computing is None)
        self._profile.note_table(table_key(shape), lambda table: table.with_point(point))
        return True

    def _measure_together(self, way: Together, in_force: InForce) -> bool:
        """Measures steps alongside searches, relative to each alone right before and after, under like conditions.

        The load of the machine varies, so the median of several rounds counts.
        """
        # The first search may have to load the embedding model; the first of each kind finds nothing warm.
        if self._waited(self._retrieval.rehearse(1, 0.0)) is None or (before := self._alone()) is None:
            return False
        writing, searching = list[float](), list[float]()
        for _ in range(ROUNDS):
            both, after = self._both(way), self._alone()
            if both is None or after is None or self._is_busy():
                return False
            writing.append((before.step_seconds + after.step_seconds) / 2 / both.step_seconds)
            searching.append((before.search_seconds + after.search_seconds) / 2 / both.search_seconds)
            before = after
        # Neither gets faster alongside the other: what is beyond 1 is chance.
        shares = min(1.0, median(writing)), min(1.0, median(searching))
        one = Beside(split_of(in_force.here.placement), way.write_threads, way.scan_threads, *shares)
        self._profile.note_table(table_key(in_force.demand.shape), lambda table: table.with_beside(one))
        return True

    def _both(self, way: Together) -> _Paces | None:
        until = threading.Event()
        steps = self._generation.rehearse("write", WRITTEN_BESIDE, until, way.write_threads)
        try:
            searched = self._waited(self._retrieval.rehearse(1, BESIDE_SECONDS, way.scan_threads))
        finally:
            until.set()
        return _paces(self._waited(steps), searched)

    def _alone(self) -> _Paces | None:
        searched = self._waited(self._retrieval.rehearse(1, ALONE_SECONDS))
        until = threading.Event()
        timer = threading.Timer(ALONE_SECONDS, until.set)
        timer.start()
        try:
            written = self._waited(self._generation.rehearse("write", WRITTEN_BESIDE, until, self._threads()[0]))
        finally:
            timer.cancel()
            timer.join()
        return _paces(written, searched)

    def _waited(self, reply: Future[Value | None]) -> Value | None:
        """Waits for the reply; None if there is no result, or the engine closes."""
        while True:
            try:
                return reply.result(_LOOK_SECONDS)
            except NotYet:
                if self._closed.is_set():
                    reply.cancel()
                    return None
            except CancelledError:
                return None


@dataclass(frozen=True, slots=True)
class _Paces:
    """The seconds of a step and of a search."""

    step_seconds: float
    search_seconds: float


def _paces(written: Rehearsed | None, searched: Searched | None) -> _Paces | None:
    """Returns both paces; None if one of them has no result."""
    if written is None or written.seconds is None or searched is None:
        return None
    return _Paces(written.seconds, searched.seconds)


def sentence_of(measured: Measured, split: Split, name: str) -> str:
    """Returns what was measured, in words."""
    steps = sorted(
        (one.size, one.size / one.seconds)
        for one in measured.points
        if one.kind == "write" and one.seconds and one.split.is_repacked == split.is_repacked
    )
    # The smallest and the largest; of one size alone there is one rate.
    words = [f"{rate:.0f} tokens/s with {size} at once" for size, rate in dict.fromkeys(steps[:1] + steps[-1:])]
    told = f"Measured {name or 'the model'}: {', '.join(words)}." if words else f"Measured {name or 'the model'}."
    together = [one.gain for one in measured.beside if one.split.is_repacked == split.is_repacked]
    if together:
        told += f" Writing and searching at once do {max(together):.2f} times what they do in turn."
    return told


def _work(profile: Profile, homes: Homes, kind: Kind, size: int, length: int = 0) -> Work:
    """Returns the work of a step of `size` answers after `length` tokens each, or of a pass over `size` tokens."""
    work = decode_work(homes, size, length) if kind == "write" else prefill_work(homes, size)
    return as_computed(homes, profile, work, size)
