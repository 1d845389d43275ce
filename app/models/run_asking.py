"""Asking the files of one question: several at a time, until all have answered or the user pauses it.

It continues whatever page is shown. Answers that are being written at a pause are completed as long as the engine
lives; they are not sent to another engine.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from PySide6.QtCore import QObject, Signal

from app.chats.records import Outcome, Run, RunFile
from app.models.answering import Answering
from app.models.run_missing import MOST_GONE, MissingFiles
from app.models.run_rows import HAS_ANSWERED, RunRows, places_of, stored_view
from app.models.run_writer import Writer
from app.models.turns import TurnState, TurnView, failed
from engine import protocol
from engine.protocol import Filters, PathState, RagdollError
from engine.wire import WireError

if TYPE_CHECKING:
    from app.chats import RunStore
    from app.engine_client import EngineClient

WriterOf = Callable[[Sequence[TurnView], str], Writer | None]

# Enough for the largest batches that are written at once, and some that are searched at the same time.
OPEN_AT_ONCE = 64
_MOST_IN_VAIN = 3
# Errors of a model, whichever file it was asked about.
MODEL_FAULTS = frozenset(
    {
        *("ModelError", "ModelFileInvalid", "ModelUnreadable", "ModelNotFound"),
        *("NotStreamable", "ModelLoadFailed", "NoRoomToLoad"),
    }
)
_MISSING = "NothingThere"
# A pause cancels these; answers that are being written are nearly done.
_NOT_BEGUN: frozenset[TurnState] = frozenset({"queued", "searching", "reading"})


class RunAsking(QObject):
    """`run` is the question being asked and `rows` its files; None and empty while none is."""

    run_changed = Signal()  # run
    progress_changed = Signal()  # a file of any question has ended
    file_changed = Signal(object)  # the TurnView of a file of any question; `rows` have it already
    request_failed = Signal(str, str)  # a sentence, a way out

    def __init__(
        self,
        client: EngineClient,
        store: RunStore,
        parent: QObject | None = None,
        clock: Callable[[], float] = time.monotonic,
        writer: WriterOf = lambda _views, _given_up: Writer(),
    ) -> None:
        """`writer` decides which model answers the rest, given the answers so far and the model that could not answer.

        It may not know yet; `choose_writer` asks it again.
        """
        super().__init__(parent)
        self._client, self._store, self._clock, self._writer_of = client, store, clock, writer
        # None as long as the list of models is not known.
        self._writer: Writer | None = None
        blameless = MODEL_FAULTS | {_MISSING}
        self._answering = Answering(client, self._record, parent=self, keeps_partial=False, blameless=blameless)
        self._answering.turn_changed.connect(self._on_file_changed)
        self._answering.text_appended.connect(lambda view, _piece: self._show(view))
        self._answering.store_failed.connect(self.request_failed)
        # An answer that cannot be saved should not be computed: it would be lost with this window.
        self._answering.store_failed.connect(lambda *_: self.pause())
        self._answering.refused.connect(self._on_failure)
        self._answering.broken_off.connect(self._on_failure)
        self._answering.put_back.connect(self._on_put_back)
        client.engine_died.connect(self._on_engine_died)
        # With no file open, no other event would report it.
        client.engine_gave_up.connect(lambda _sentence: self._feed())
        self.run: Run | None = None
        self.rows = RunRows()
        self._open: dict[str, None] = {}  # in the order they were asked, of paused questions as well
        self._waiting: deque[int] = deque()
        self._missing = MissingFiles()
        self._began_at, self._num_before = 0.0, 0
        # How many files have failed since the last answer.
        self._num_in_vain = 0
        # Which model could not answer which question, and for which question missing files were reported.
        self._given_up, self._told_missing = ("", ""), ""

    # --- what is known ---

    @property
    def seconds_left(self) -> float | None:
        """Returns how long the rest will take at the pace since the begin or resume; None if not known."""
        answered = self.rows.num_answered
        since = answered - self._num_before
        if self.run is None or since < 1:
            return None
        return (self._clock() - self._began_at) / since * (len(self.rows) - answered)

    def view(self, file_id: str) -> TurnView | None:
        """Returns the newest value of a file that is open or not saved yet; None for all others."""
        return self._answering.view(file_id)

    def is_asked(self, file_id: str) -> bool:
        """Returns whether the engine has a file's question, or will get it as soon as it runs."""
        return file_id in self._open and not self._answering.is_held_back(file_id)

    # --- wishes ---

    def start(self, run: Run, rows: RunRows) -> None:
        """Asks the files that have not answered; another question that is being asked is paused."""
        self.pause()
        self.run, self.rows, self._missing, self._writer = run, rows, MissingFiles(), None
        waits = (view.state not in HAS_ANSWERED and view.turn_id not in self._open for view in rows.views)
        self._waiting = deque(row for row, does_wait in enumerate(waits) if does_wait)
        self._began_at, self._num_before, self._num_in_vain = self._clock(), rows.num_answered, 0
        self.run_changed.emit()
        self.choose_writer()

    def pause(self) -> None:
        """Asks no more files; answers that are being written are completed, the others wait."""
        if self.run is None:
            return
        left = [self.rows.views[row] for row in self._open_rows()]
        self._leave()
        for view in left:
            if view.state in _NOT_BEGUN:
                self._answering.stop(view.turn_id)

    def stop(self, file_ids: Iterable[str]) -> None:
        """Cancels these files, even if their answers are being written."""
        for file_id in file_ids:
            self._answering.stop(file_id)

    def choose_writer(self) -> None:
        """Answers the waiting files, once it is known by which model; harmless if that is settled already."""
        if self.run is None or self._writer is not None:
            return
        given_up_for, given_up = self._given_up
        self._writer = self._writer_of(self.rows.views, given_up if given_up_for == self.run.run_id else "")
        if self._writer is not None and self._writer.problem:
            self.request_failed.emit(self._writer.problem, self._writer.way_out)
        self._feed()

    def save(self) -> RagdollError | None:
        """Writes answers that are not on the disk yet; returns why one could not be written, None if all are saved."""
        self._answering.save()
        return self._answering.store_problem

    def close(self) -> None:
        """Ends running answers, which wait for the next start, and saves."""
        self.run, self.rows = None, RunRows()
        self._answering.close()

    # --- asking ---

    def _feed(self) -> None:
        """Asks the next files, as long as not too many are open."""
        if self._client.state == "failed":
            # Otherwise all waiting files would fail one after the other.
            self.pause()
        while self.run is not None and self._writer and self._waiting and self._num_in_turn < OPEN_AT_ONCE:
            self._ask(self._waiting.popleft(), self._writer.model)
        if self.run is not None and not (self._waiting or self._missing.are_sought or self._open_rows()):
            self._end()

    @property
    def _num_in_turn(self) -> int:
        """The number of open files that the engine has, or gets as soon as there is one."""
        return len(self._open) - self._answering.num_held_back

    def _ask(self, row: int, model: str) -> None:
        file, view = self.rows.files[row], self.rows.views[row]
        self._open[file.file_id] = None
        ask = protocol.Ask(
            question_id=file.file_id,
            text=view.question,
            num_answers=1,
            filters=Filters(document_ids=(file.document_id,), reads_question=False),
            priority="batch",
            model=model,
        )
        self._answering.begin(view, ask)

    def _end(self) -> None:
        """Ends the question, because nothing is left to ask."""
        if self._missing.seek_unread():
            self._look()
            return
        self._fail_gone()
        if num_unread := len(self._missing.unread):
            words = (
                self.tr("1 file is still waiting to be indexed, so the question to every file is paused.")
                if num_unread == 1
                else self.tr("%1 files are still waiting to be indexed, so the question to every file is paused.")
            )
            self._leave()
            self.request_failed.emit(
                words.replace("%1", str(num_unread)), self.tr("Resume it when indexing is finished.")
            )
        else:
            self._leave()

    def _leave(self) -> None:
        self.run, self.rows = None, RunRows()
        self._waiting.clear()
        self.run_changed.emit()

    def _open_rows(self) -> list[int]:
        """Returns the rows of files that have been asked and have not ended."""
        rows = map(self.rows.row_of, self._open)
        return [row for row in rows if row is not None]

    # --- what comes of it ---

    def _on_file_changed(self, view: TurnView) -> None:
        file_id, row = view.turn_id, self.rows.row_of(view.turn_id)
        if view.has_ended:
            self._open.pop(file_id, None)
        if view.state == "cancelled":
            # The user cannot cancel a single file: it was a pause, it is missing, or the engine was shutting down.
            view = TurnView(file_id, view.question)
            if row is not None and not self._missing.is_sought(file_id):
                self._waiting.append(row)
        elif view.state in ("writing", "finished") and row is not None:
            self._num_in_vain = 0
            self._fail_gone()
        self._show(view)
        if file_id not in self._open:
            self.progress_changed.emit()
            self._look()
            self._feed()

    def _on_engine_died(self, _sentence: str) -> None:
        # A paused question is not sent to the next engine, which might die of it, too.
        self.stop([file_id for file_id in self._open if self.rows.row_of(file_id) is None])
        # Files that may have killed the engine are held back, and others take their place.
        self._feed()

    def _on_failure(self, file_id: str, kind: str) -> None:
        """If the engine answers nothing, all waiting files would fail one by one; a missing file is no such sign.

        Failures of an earlier question do not count.
        """
        self._num_in_vain += kind != _MISSING and self.rows.row_of(file_id) is not None
        if self._num_in_vain >= _MOST_IN_VAIN:
            self.pause()

    def _on_put_back(self, file_id: str, kind: str, sentence: str, way_out: str) -> None:
        """A model that cannot answer would make all waiting files fail in turn: they wait for another one."""
        if self.run is None or self.rows.row_of(file_id) is None:
            return
        if kind == _MISSING:
            self._missing.note(file_id, f"{sentence} {way_out}".strip())
            return
        self._given_up = (self.run.run_id, self._writer.model if self._writer is not None else "")
        self.pause()
        self.request_failed.emit(sentence, way_out)

    def _show(self, view: TurnView) -> None:
        self.rows.put(view)
        self.file_changed.emit(view)

    def _record(self, file_id: str, outcome: Outcome) -> None:
        # No conversation continues from the answer of a file.
        view = stored_view(file_id, "", outcome)
        self._store.record(file_id, replace(outcome, segments=()), places_of(view))

    # --- files that are missing ---

    def _look(self) -> None:
        """Asks the engine what is now at the paths of missing files."""
        missing = self._missing
        if self.run is None or not (file_ids := missing.begin_search()):
            return
        self._client.request(
            protocol.PATH_STATES,
            protocol.Paths(paths=tuple(self._file(file_id).path for file_id in file_ids)),
            lambda reply: self._on_found(missing, reply.states),
            lambda error: self._on_not_looked(missing, error),
        )

    def _on_found(self, missing: MissingFiles, states: Sequence[PathState]) -> None:
        # Files of a question that was paused in the meantime are found missing again when it is resumed.
        if self.run is None or missing is not self._missing:
            return
        moved: list[tuple[str, int]] = []
        for file_id, state in zip(missing.sought, states, strict=True):
            if state.document_id is not None and state.document_id != self._file(file_id).document_id:
                moved.append((file_id, state.document_id))
                self.rows.move(self._row(file_id), state.document_id)
            if missing.settle(file_id, state):
                self._waiting.append(self._row(file_id))
        if moved:
            try:
                self._store.move(moved)
            except RagdollError as error:
                # They are looked for again the next time.
                self.request_failed.emit(error.sentence, error.way_out)
        self._go_on_with_missing()

    def _on_not_looked(self, missing: MissingFiles, error: WireError) -> None:
        if self.run is None or missing is not self._missing:
            return
        if error.kind == "EngineDied":
            # The next one is asked as soon as its model is known.
            self._waiting += map(self._row, missing.end_search())
        else:
            for file_id in missing.sought:
                missing.settle(file_id, PathState(path="", state="absent"))
            self._go_on_with_missing()

    def _go_on_with_missing(self) -> None:
        run = self.run
        if run is not None and len(self._missing.gone) >= MOST_GONE and self._told_missing != run.run_id:
            # A user who resumes it as it is has seen the message.
            self._told_missing = run.run_id
            words = self.tr("%1 files in a row are no longer in the library, so the question is paused.")
            num_gone = len(self._missing.gone)
            self.pause()
            self.request_failed.emit(
                words.replace("%1", str(num_gone)),
                self.tr("Add their folder again, then resume. If you resume without it, these files are left out."),
            )
        else:
            self._look()
            self._feed()

    def _row(self, file_id: str) -> int:
        row = self.rows.row_of(file_id)
        assert row is not None, "a file of another question is looked for"
        return row

    def _file(self, file_id: str) -> RunFile:
        return self.rows.files[self._row(file_id)]

    def _fail_gone(self) -> None:
        """Fails missing files as gone, because other files have answered or none are left."""
        rows, gone = self.rows, self._missing.take_gone()
        for file_id, reason in gone.items():
            if (row := rows.row_of(file_id)) is not None:
                view = failed(rows.views[row], reason)
                self._show(view)
                self._answering.keep(view)
        if gone:
            self.progress_changed.emit()
