"""Reading first: what a question is limited to is indexed before the question is asked, and before all other files.

A user who attaches a file and asks at once wants an answer from it, not that it is not in the library yet.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

from PySide6.QtCore import QCoreApplication, QObject, QTimer

from app.models.documents import shown
from engine import protocol
from engine.protocol import PathState
from engine.wire import WireError

if TYPE_CHECKING:
    from app.engine_client import EngineClient

LOOK_AGAIN_MS = 300


@dataclass(frozen=True, slots=True)
class Reading:
    """The progress: `awaited` is still to be indexed; `problem` says why it will not be, and a way out.

    Without both, everything is indexed. `is_paused`: nothing is indexed right now, because the user has paused it.
    """

    awaited: tuple[str, ...] = ()
    problem: str = ""
    is_paused: bool = False


@dataclass(frozen=True, slots=True)
class _Wish:
    """`has_hurried`: the engine was asked to read these next. `entering`: those being added at the last look."""

    paths: tuple[str, ...]
    is_wanted: Callable[[], bool]
    told: Callable[[Reading], object]
    has_hurried: bool = False
    entering: frozenset[str] = frozenset()


class ReadingFirst(QObject):
    """Asks the engine repeatedly until what a question waits for is indexed or cannot be."""

    def __init__(
        self,
        client: EngineClient,
        is_entering: Callable[[str], bool] = lambda path: False,
        is_paused: Callable[[], bool] = lambda: False,
        parent: QObject | None = None,
    ) -> None:
        """`is_entering`: a path is on its way to the engine; `is_paused`: the user has paused all indexing."""
        super().__init__(parent)
        self._client, self._is_entering, self._is_paused = client, is_entering, is_paused

    def follow(self, paths: tuple[str, ...], is_wanted: Callable[[], bool], told: Callable[[Reading], object]) -> None:
        """Reports the progress of these, the last time when all are indexed or something is wrong.

        Stops reporting once `is_wanted` says no.
        """
        self._look(_Wish(paths, is_wanted, told))

    def _look(self, wish: _Wish) -> None:
        if wish.is_wanted():
            # The engine may answer a request from before they arrived after they have arrived.
            wish = replace(wish, entering=frozenset(filter(self._is_entering, wish.paths)))
            self._client.request(
                protocol.PATH_STATES,
                protocol.Paths(paths=wish.paths),
                lambda reply: self._on_states(wish, reply),
                lambda error: self._on_error(wish, error),
            )

    def _look_soon(self, wish: _Wish) -> None:
        QTimer.singleShot(LOOK_AGAIN_MS, self, partial(self._look, wish))

    def _on_states(self, wish: _Wish, reply: protocol.PathStatesReply) -> None:
        if not wish.is_wanted():
            return
        states = [_as_entering(one) if one.path in wish.entering else one for one in reply.states]
        reading = reading_of(states, was_asked_for=wish.has_hurried, is_paused=self._is_paused())
        wish.told(reading)
        if wish.has_hurried or not wish.entering.isdisjoint(reading.awaited):
            if reading.awaited:
                self._look_soon(wish)
        elif reading.awaited:
            self._hurry(replace(wish, has_hurried=True), reading.awaited)

    def _on_error(self, wish: _Wish, error: WireError) -> None:
        if error.kind == "EngineDied":
            # The next one is asked.
            self._look_soon(wish)
        elif wish.is_wanted():
            # If the engine cannot say, it reports the reason when the question is asked.
            wish.told(Reading())

    def _hurry(self, wish: _Wish, paths: tuple[str, ...]) -> None:
        """Asks the engine to index paths next, even if it indexes nothing by itself."""

        def look_soon(_: object) -> None:
            self._look_soon(wish)

        self._client.request(protocol.PRIORITISE, protocol.Paths(paths=paths), look_soon, look_soon)


def reading_of(states: Sequence[PathState], *, was_asked_for: bool = True, is_paused: bool = False) -> Reading:
    """Returns what the states of all its paths mean for a question.

    A path outside the library is not waited for: the engine reports it when the question is asked. A path that rests
    although it `was_asked_for` will not be read by itself.
    """
    for one in states:
        if one.state == "unread" or (one.state == "resting" and was_asked_for):
            return Reading(problem=_problem(one))
    awaited = tuple(one.path for one in states if one.state in ("waiting", "resting"))
    return Reading(awaited, is_paused=is_paused and bool(awaited))


def _as_entering(one: PathState) -> PathState:
    """Returns the state of a path that is being added: not there yet, but about to be indexed."""
    return PathState(path=one.path, state="waiting") if one.state == "absent" else one


def _problem(one: PathState) -> str:
    words = _tr("“%1” has not been read, because reading has stopped. Attach it again, then ask again.")
    if one.state == "unread":
        words = _tr("“%1” could not be read: %2 Remove it from the question, or index it again in the Library.")
    # The name last, because it may contain "%2".
    return words.replace("%2", one.reason).replace("%1", shown(os.path.basename(one.path) or one.path))


def _tr(text: str) -> str:
    return QCoreApplication.translate("reading_first", text)
