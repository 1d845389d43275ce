"""One question to every file: which are kept, which one is shown, and which one is asked, paused and resumed.

Each file is a separate question, confined to it, with a lower priority than chats. Answers are stored as they come.
The rest continues after a crash of the engine, and after a pause or the next start if the user resumes it. One question
is asked at a time, whether it is the one shown or not.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

from PySide6.QtCore import QObject, Signal

from app.chats.records import Run
from app.models.listing import list_files
from app.models.run_asking import RunAsking, WriterOf
from app.models.run_rows import RunRows, stored_view
from app.models.run_table import RunTable
from app.models.run_writer import Writer
from app.models.turns import TurnView
from engine.protocol import RagdollError
from engine.wire import WireError

if TYPE_CHECKING:
    from app.chats import RunStore
    from app.engine_client import EngineClient

RunState = Literal["none", "listing", "running", "paused", "finished"]

_TOLD_CHARACTERS = 60


class EachFileModel(RunTable):
    """Asks the files of its table.

    For files that have answered, it holds what the table shows; `whole_view` also has the passages.

    Attributes:
        run: The question that is shown, None for none.
        state: The state of that one; "listing" while the files for a new one are requested.
        runs: All that are kept, the newest first.
        does_any_wait: One of them is not finished, and none is being asked.
    """

    run_changed = Signal()  # run, state, asked or does_any_wait
    progress_changed = Signal()  # how many have answered
    runs_changed = Signal()  # runs
    begun = Signal(object)  # the Run of a question that has been saved and is asked now
    told = Signal(str)  # a side effect of a wish, in a sentence
    request_failed = Signal(str, str)  # a sentence, a way out

    def __init__(
        self,
        client: EngineClient,
        store: RunStore,
        parent: QObject | None = None,
        clock: Callable[[], float] = time.monotonic,
        writer: WriterOf = lambda _views, _given_up: Writer(),
    ) -> None:
        """`writer`: see RunAsking."""
        super().__init__(parent)
        self._client, self._store = client, store
        self._asking = RunAsking(client, store, self, clock, writer)
        self._asking.run_changed.connect(self._on_asked_changed)
        self._asking.progress_changed.connect(self._on_progress)
        self._asking.file_changed.connect(self._on_file_changed)
        self._asking.request_failed.connect(self.request_failed)
        # Lists that were requested before the last begin or pause are ignored.
        self._generation, self._is_listing = 0, False
        # What was shown before, to return to it if a new question comes to nothing.
        self._before: Run | None = None
        self.run: Run | None = None
        self.state: RunState = "none"
        self.runs: tuple[Run, ...] = ()
        self._read_runs()
        # The run is not opened for that, because this would read all its answers.
        self.does_any_wait = bool(self.unfinished())

    # --- what is shown ---

    @property
    def asked(self) -> Run | None:
        """Returns the question that is being asked, shown or not; None for none."""
        return self._asking.run

    @property
    def asked_progress(self) -> tuple[int, int]:
        """Returns how many files have answered the one being asked, of how many."""
        return self._asking.rows.num_answered, len(self._asking.rows)

    def unfinished(self) -> Mapping[str, tuple[int, int]]:
        """Returns for each unfinished question how many files have answered, of how many."""
        return self._try(self._store.unfinished) or {}

    @property
    def seconds_left(self) -> float | None:
        """Returns how long the rest will take at the pace since the begin or resume; None if not known."""
        return self._asking.seconds_left if self.state == "running" else None

    def whole_view(self, row: int) -> TurnView | None:
        """Returns a row with its passages, read from the disk if it has answered."""
        view = self.view(row)
        if view is None or view.state != "finished":
            return view
        unsaved = self._asking.view(view.turn_id)
        outcome = None if unsaved is not None else self._try(lambda: self._store.outcome(view.turn_id))
        return unsaved or (view if outcome is None else stored_view(view.turn_id, view.question, outcome))

    # --- wishes ---

    def begin(self, question: str, collections: tuple[str, ...]) -> None:
        """Puts a question to all indexed files of these collections; none: of all.

        A question that is being asked is paused once the list of files has arrived.
        """
        if not question.strip() or not (self._has_engine() and self._can_keep()):
            return
        if not self._is_listing:
            self._before = self.run
        self._generation += 1
        self._is_listing = True
        self._show(None, RunRows())
        generation = self._generation
        list_files(
            self._client,
            collections,
            lambda: generation == self._generation,
            partial(self._on_listed, question.strip(), collections),
            self._on_list_failed,
        )

    def open(self, run_id: str) -> None:
        """Shows an earlier run; the one being asked continues."""
        run = next((run for run in self.runs if run.run_id == run_id), None)
        if run is None or _is_same(run, self.run):
            return
        if _is_same(run, self.asked):
            rows = self._asking.rows
        elif (files := self._try(lambda: self._store.files(run.run_id))) is not None:
            rows = RunRows(files, run.question)
        else:
            return
        self._end_listing()
        self._show(run, rows)

    def pause(self) -> None:
        """Pauses the question shown: answers that are being written are completed, the other files wait."""
        if self.state == "listing":
            self._go_back()
        elif self.state == "running":
            self._asking.pause()

    def resume(self) -> None:
        """Continues with the files that have not answered; another question that is being asked is paused."""
        if self.state == "paused" and self._has_engine() and self._can_keep():
            self._start()

    def ask_failed_again(self) -> None:
        """Queues the failed files again, and continues."""
        if self.run is None or not (self._has_engine() and self._can_keep()):
            return
        for view in self._rows.views.copy():
            if view.state == "failed":
                self._show_view(TurnView(view.turn_id, view.question))
        self._start()

    def delete(self) -> None:
        """Deletes the run that is shown, with its answers."""
        run, file_ids = self.run, [file.file_id for file in self._rows.files]
        if run is None:
            return
        self.pause()
        self._asking.stop(file_ids)
        self._try(lambda: self._store.delete(run.run_id))
        self._read_runs()
        self._look_who_waits()
        self._show(None, RunRows())

    def choose_writer(self) -> None:
        """Sends the waiting files once the model is known; does nothing if that is settled."""
        self._asking.choose_writer()

    def save(self) -> RagdollError | None:
        """Writes answers that are not on the disk; returns why one could not be written, else None."""
        return self._asking.save()

    def close(self) -> None:
        """Stops asking until the next start, and saves; the last call before the store is closed."""
        self._asking.close()

    # --- listing ---

    def _on_listed(self, question: str, collections: tuple[str, ...], files: Mapping[int, str]) -> None:
        if not files:
            self._go_back()
            self.request_failed.emit(
                self.tr("There is no file here that could be read."), self.tr("Add files to the library first.")
            )
            return
        run = self._try(lambda: self._store.create(question, collections, [*files.items()]))
        waiting = self._try(lambda: self._store.files(run.run_id)) if run is not None else None
        if run is None or waiting is None:
            self._go_back()
            return
        self._end_listing()
        self._read_runs()
        self._show(run, RunRows(waiting, run.question))
        self.begun.emit(run)
        self._start()

    def _on_list_failed(self, error: WireError) -> None:
        self._go_back()
        # A dead engine is reported elsewhere, once.
        if error.kind != "EngineDied":
            self.request_failed.emit(error.sentence, error.way_out)

    def _end_listing(self) -> None:
        self._generation += 1
        self._is_listing, self._before = False, None

    def _go_back(self) -> None:
        """Returns to what was shown before, because a new question came to nothing."""
        before = self._before
        self._end_listing()
        if before is not None:
            self.open(before.run_id)
        if self.run is None:
            self._show(None, RunRows())

    def _can_keep(self) -> bool:
        """Returns whether all answers are on the disk; reports if not."""
        if (problem := self.save()) is not None:
            way_out = problem.way_out or self.tr("Free some space, then go on.")
            self.request_failed.emit(self.tr("What was answered last could not be saved yet."), way_out)
        return problem is None

    def _has_engine(self) -> bool:
        """Returns whether an engine runs or will run soon; reports if not."""
        if self._client.state == "failed":
            self.request_failed.emit(
                self.tr("The engine is not running, so nothing can be answered."),
                self.tr("Start it again, then retry."),
            )
        return self._client.state != "failed"

    # --- what is asked ---

    def _start(self) -> None:
        run, before, (answered, total) = self.run, self.asked, self.asked_progress
        if run is None:
            return
        self._asking.start(run, self._rows)
        if before is not None and not _is_same(before, run):
            words = self.tr("“%1” is paused at %2 %. It goes on from “Earlier questions”.")
            percent = str(100 * answered // total)
            self.told.emit(words.replace("%2", percent).replace("%1", before.question[:_TOLD_CHARACTERS]))

    def _on_asked_changed(self) -> None:
        self._look_who_waits()
        self.state = self._state_now()
        self.run_changed.emit()

    def _on_progress(self) -> None:
        # This may have been the last answer that was being written at the pause.
        before = self.state, self.does_any_wait
        if self.asked is None:
            self._look_who_waits()
        self.state = self._state_now()
        if before != (self.state, self.does_any_wait):
            self.run_changed.emit()
        self.progress_changed.emit()

    def _on_file_changed(self, view: TurnView) -> None:
        if self._rows is not self._asking.rows:
            self._show_view(view)
        elif (row := self._rows.row_of(view.turn_id)) is not None:
            self._on_row_changed(row)

    def _look_who_waits(self) -> None:
        self.does_any_wait = self.asked is None and bool(self.unfinished())

    def _state_now(self) -> RunState:
        if self._is_listing:
            return "listing"
        if self.run is None:
            return "none"
        if _is_same(self.run, self.asked):
            return "running"
        return "finished" if self._rows.is_complete else "paused"

    # --- inside ---

    def _show(self, run: Run | None, rows: RunRows) -> None:
        self.beginResetModel()
        self.run, self._rows = run, rows
        for file in rows.files:
            # It may be answering, or its answer may not be on the disk yet.
            if (known := self._asking.view(file.file_id)) is not None and known.state != "cancelled":
                rows.put(known)
        self.endResetModel()
        self.state = self._state_now()
        self.run_changed.emit()
        self.progress_changed.emit()

    def _is_asked(self, view: TurnView) -> bool:
        return self._asking.is_asked(view.turn_id)

    def _read_runs(self) -> None:
        self.runs = self._try(self._store.runs) or ()
        self.runs_changed.emit()

    def _try(self, call: Callable[[], Any]) -> Any:
        """Returns what the store returns; reports an error and returns None."""
        try:
            return call()
        except RagdollError as error:
            self.request_failed.emit(error.sentence, error.way_out)
            return None


def _is_same(run: Run, other: Run | None) -> bool:
    """Returns whether it is the same question, even if its collections were renamed."""
    return other is not None and run.run_id == other.run_id
