"""Background work that no user asks for: a model is loaded, and timed, while there is no question.

Any command for the generation thread ends a measurement: commands are counted when they are handed in, on any thread.
"""

from __future__ import annotations

import queue
from collections.abc import Callable

from engine.generation.commands import AtOnce, InTurn, LoadNow, LookAtDevices, Rehearse
from engine.generation.loaded import LoadedModel
from engine.generation.rehearsal import Rehearsal
from engine.generation.under_way import reported_as


class Unasked:
    """Loads and times models; on the generation thread, except `note_coming`."""

    def __init__(self) -> None:
        # One item for each pending command that ends a measurement.
        self._news: queue.SimpleQueue[None] = queue.SimpleQueue()
        self._loads: list[LoadNow] = []

    def note_coming(self, item: InTurn | AtOnce) -> None:
        """Announces a command, which ends a rehearsal unless it is a look at devices or another rehearsal."""
        if not isinstance(item, LookAtDevices | Rehearse):
            self._news.put(None)

    def note_taken(self, item: InTurn | AtOnce) -> None:
        """Notes that an announced command was taken in."""
        if not isinstance(item, LookAtDevices | Rehearse):
            self._news.get_nowait()

    def want_loaded(self, command: LoadNow) -> None:
        """Requests that the chosen model be loaded, once pending changes are made."""
        self._loads.append(command)

    @property
    def awaits_load(self) -> bool:
        """Whether a caller waits for the chosen model."""
        return bool(self._loads)

    def load(self, load: Callable[[], LoadedModel | None]) -> None:
        """Loads the model for callers that want to measure, and replies whether there is one."""
        while self._loads:
            reply = self._loads.pop(0).reply
            if not reply.set_running_or_notify_cancel():
                continue
            try:
                reply.set_result(load() is not None)
            except Exception as error:  # noqa: BLE001 - the edge of the thread; reported to the caller
                reply.set_exception(reported_as(error))

    def take_loads(self) -> list[LoadNow]:
        """Takes the waiting requests; the caller has to answer them."""
        loads, self._loads = self._loads, []
        return loads

    def rehearse(self, command: Rehearse, loaded: LoadedModel | None, start_over: Callable[[Exception], None]) -> None:
        """Times passes, and replies in any case.

        Args:
            command: What to time.
            loaded: The model; None if no model is idle.
            start_over: Called if its context can no longer be used.
        """
        if not command.reply.set_running_or_notify_cancel():
            return
        if loaded is None:
            command.reply.set_result(None)
            return
        rehearsal = Rehearsal(loaded, self._news.empty)
        try:
            if command.until is None:
                command.reply.set_result(rehearsal.measured(command.kind, command.size))
            else:
                command.reply.set_result(rehearsal.kept_up(command.size, command.num_threads, command.until.is_set))
        except Exception as error:  # noqa: BLE001 - the edge of the thread; reported to the caller
            command.reply.set_exception(reported_as(error))
            if loaded.context.is_spoilt:
                start_over(error)
