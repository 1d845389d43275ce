"""One question to every file: they are asked one by one, paused, resumed, and what they answer is kept on the disk.

Each file is a question of its own, confined to it, which waits behind whatever somebody asks in a chat. What has been
answered is stored as it comes; what has not goes on after a dead engine, and after a pause or the next start once
somebody has it resumed.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

from PySide6.QtCore import QObject, Signal

from app.chats.records import Outcome, Run, RunFile
from app.models.answering import Answering
from app.models.listing import list_files
from app.models.run_rows import HAS_ANSWERED, RunRows, places_of, stored_view
from app.models.run_table import RunTable
from app.models.run_writer import Writer
from app.models.turns import TurnState, TurnView
from engine import protocol
from engine.protocol import Filters, RagdollError
from engine.wire import WireError

if TYPE_CHECKING:
    from app.chats import RunStore
    from app.engine_client import EngineClient

RunState = Literal["none", "listing", "running", "paused", "finished"]

# Enough for the largest batches that are written at once, and some that are searched meanwhile.
OPEN_AT_ONCE = 64
_MOST_IN_VAIN = 3
# What is wrong with a model, whichever file it is asked about.
MODEL_FAULTS = frozenset(
    {
        *("ModelError", "ModelFileInvalid", "ModelUnreadable", "ModelNotFound"),
        *("NotStreamable", "ModelLoadFailed", "NoRoomToLoad"),
    }
)
# What a pause takes back; what is being written is nearly done.
_NOT_BEGUN: frozenset[TurnState] = frozenset({"queued", "searching", "reading"})


class EachFileModel(RunTable):
    """Has the files of its table asked.

    Of files that have answered it holds what the table shows; `whole_view` has what an answer rests on.

    Attributes:
        run: The question that is shown, None for none.
        state: "listing" while its files are being asked for.
        runs: All that are kept, the newest first.
        is_left_waiting: The newest of them was not finished when Ragdoll was closed, and none has been opened since.
    """

    run_changed = Signal()  # run or state
    progress_changed = Signal()  # how many have answered
    runs_changed = Signal()  # runs
    request_failed = Signal(str, str)  # a sentence, a way out

    def __init__(
        self,
        client: EngineClient,
        store: RunStore,
        parent: QObject | None = None,
        clock: Callable[[], float] = time.monotonic,
        writer: Callable[[Sequence[TurnView], str], Writer | None] = lambda _views, _given_up: Writer(),
    ) -> None:
        """`writer` tells who answers the rest, by what was answered so far and by which model could not answer.

        It may not know yet; `choose_writer` asks it again.
        """
        super().__init__(parent)
        self._client, self._store, self._clock, self._writer_of = client, store, clock, writer
        # Nobody as long as it is not known which models there are.
        self._writer: Writer | None = None
        self._given_up = ""
        self._answering = Answering(client, self._record, parent=self, keeps_partial=False, blameless=MODEL_FAULTS)
        self._answering.turn_changed.connect(self._on_file_changed)
        self._answering.text_appended.connect(lambda view, _piece: self._show_view(view))
        self._answering.store_failed.connect(self.request_failed)
        # What cannot be kept had better not be computed: it would be lost with this window.
        self._answering.store_failed.connect(lambda *_: self.pause())
        self._answering.refused.connect(self._on_failure)
        self._answering.broken_off.connect(self._on_failure)
        self._answering.put_back.connect(self._on_put_back)
        client.engine_died.connect(self._on_engine_died)
        # With no question open nothing else would tell of it.
        client.engine_gave_up.connect(lambda _sentence: self._feed())
        self._open: dict[str, None] = {}  # in the order they were asked
        self._waiting: deque[int] = deque()
        # Replies to a list that was asked for before the last begin or pause are no answer to it.
        self._generation = 0
        self._began_at, self._num_before = 0.0, 0
        # So many questions have failed since something was written last.
        self._num_in_vain = 0
        self.run: Run | None = None
        self.state: RunState = "none"
        self.runs: tuple[Run, ...] = ()
        self._read_runs()
        self.is_left_waiting = self._does_newest_wait()

    # --- what is shown ---

    @property
    def seconds_left(self) -> float | None:
        """How long the rest will take at the pace since it was begun or resumed; None where that is not known."""
        answered = self.num_answered
        since = answered - self._num_before
        if self.state != "running" or since < 1:
            return None
        return (self._clock() - self._began_at) / since * (self.num_files - answered)

    def whole_view(self, row: int) -> TurnView | None:
        """A row with the passages that its answer rests on, read from the disk where it has answered."""
        view = self.view(row)
        if view is None or view.state != "finished":
            return view
        unsaved = self._answering.view(view.turn_id)
        outcome = None if unsaved is not None else self._try(lambda: self._store.outcome(view.turn_id))
        return unsaved or (view if outcome is None else stored_view(view.turn_id, view.question, outcome))

    # --- wishes ---

    def begin(self, question: str, collection: str | None) -> None:
        """Puts a question to all files of a collection that were read; None: of all. What runs is paused."""
        if not question.strip() or not (self._has_engine() and self._can_keep()):
            return
        self.pause()
        self._show(None, ())
        self._generation += 1
        self._set_state("listing")
        generation = self._generation
        list_files(
            self._client,
            collection,
            lambda: generation == self._generation,
            partial(self._on_listed, question.strip(), collection),
            self._on_list_failed,
        )

    def open(self, run_id: str) -> None:
        """Shows an earlier run; what runs is paused."""
        run = next((run for run in self.runs if run.run_id == run_id), None)
        if run is None or run == self.run:
            return
        self.pause()
        files = self._try(lambda: self._store.files(run.run_id))
        if files is not None:
            self._show(run, files)

    def pause(self) -> None:
        """Asks no more files; those that are being written end, the others wait."""
        self._generation += 1
        if self.state == "listing":
            self._show(None, ())
        elif self.state == "running":
            self._set_state("paused")
            for row in self._open_rows():
                if self._rows.views[row].state in _NOT_BEGUN:
                    self._answering.stop(self._rows.files[row].file_id)

    def resume(self) -> None:
        """Goes on with the files that have not answered."""
        if self.state == "paused" and self._has_engine() and self._can_keep():
            self._run()

    def ask_failed_again(self) -> None:
        """Has those that failed wait again, and goes on."""
        if self.run is None or self.state in ("none", "listing") or not (self._has_engine() and self._can_keep()):
            return
        for view in self._rows.views.copy():
            if view.state == "failed":
                self._show_view(TurnView(view.turn_id, view.question))
        self._run()

    def delete(self) -> None:
        """Forgets the run that is shown, with its answers."""
        run = self.run
        if run is None:
            return
        self.pause()
        for row in self._open_rows():
            self._answering.stop(self._rows.files[row].file_id)
        self._show(None, ())
        self._try(lambda: self._store.delete(run.run_id))
        self._read_runs()

    def close(self) -> None:
        """Ends what is under way, which waits for the next start, and saves; the last thing before the store closes."""
        if self.state == "running":
            self.state = "paused"
        self._answering.close()

    # --- listing ---

    def _on_listed(self, question: str, collection: str | None, files: Mapping[int, str]) -> None:
        if not files:
            self._set_state("none")
            self.request_failed.emit(
                self.tr("There is no file here that could be read."), self.tr("Add files to the library first.")
            )
            return
        run = self._try(lambda: self._store.create(question, collection, [*files.items()]))
        waiting = self._try(lambda: self._store.files(run.run_id)) if run is not None else None
        if run is None or waiting is None:
            self._set_state("none")
            return
        self._read_runs()
        self._show(run, waiting)
        self._run()

    def _on_list_failed(self, error: WireError) -> None:
        self._set_state("none")
        # A dead engine is told elsewhere, once.
        if error.kind != "EngineDied":
            self.request_failed.emit(error.sentence, error.way_out)

    def save(self) -> RagdollError | None:
        """Writes what the disk does not have of answers; why it does not take one, None where all are on it."""
        self._answering.save()
        return self._answering.store_problem

    def _can_keep(self) -> bool:
        """Whether what has been answered is on the disk by now; said where not."""
        if (problem := self.save()) is not None:
            way_out = problem.way_out or self.tr("Free some space, then go on.")
            self.request_failed.emit(self.tr("What was answered last could not be saved yet."), way_out)
        return problem is None

    def _has_engine(self) -> bool:
        """Whether there is one to ask, now or soon; said where not."""
        if self._client.state == "failed":
            self.request_failed.emit(
                self.tr("The engine is not running, so nothing can be answered."),
                self.tr("Start it again, then retry."),
            )
        return self._client.state != "failed"

    # --- running ---

    def _show(self, run: Run | None, files: Iterable[RunFile]) -> None:
        self.beginResetModel()
        self.is_left_waiting = False
        self.run, self._given_up = run, ""
        self._rows = RunRows(files, run.question if run is not None else "")
        for file in self._rows.files:
            # It may be answering, or the disk may not have taken its answer yet.
            if (known := self._answering.view(file.file_id)) is not None and known.state != "cancelled":
                self._rows.put(known)
        self._waiting.clear()
        self.endResetModel()
        self._set_state("none" if run is None else "finished" if self._rows.is_complete else "paused")
        self.progress_changed.emit()

    def _run(self) -> None:
        waits = (view.state not in HAS_ANSWERED and view.turn_id not in self._open for view in self._rows.views)
        self._waiting = deque(row for row, does_wait in enumerate(waits) if does_wait)
        self._began_at, self._num_before, self._num_in_vain = self._clock(), self.num_answered, 0
        self._writer = None
        self._set_state("running")
        self.choose_writer()

    def choose_writer(self) -> None:
        """Has the files that wait answered, once it is known by whom; harmless where that has been settled."""
        if self.state != "running" or self._writer is not None:
            return
        self._writer = self._writer_of(self._rows.views, self._given_up)
        if self._writer is not None and self._writer.problem:
            self.request_failed.emit(self._writer.problem, self._writer.way_out)
        self._feed()

    def _feed(self) -> None:
        """Asks the next files, as long as not too many are open."""
        if self.state == "running" and self._client.state == "failed":
            # Else all that wait would fail one after the other.
            self.pause()
        while self.state == "running" and self._writer and self._waiting and self._num_in_turn < OPEN_AT_ONCE:
            self._ask(self._waiting.popleft(), self._writer.model)
        if self.state == "running" and not (self._open or self._waiting):
            self._set_state("finished")

    @property
    def _num_in_turn(self) -> int:
        """Of those that are open, how many the engine has, or gets as soon as there is one."""
        return len(self._open) - self._answering.num_held_back

    def _end_pause(self) -> None:
        """What was being written has ended meanwhile, and it was the last."""
        if self.state == "paused" and self._rows.is_complete:
            self._set_state("finished")

    def _ask(self, row: int, model: str) -> None:
        file, view = self._rows.files[row], self._rows.views[row]
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

    def _on_file_changed(self, view: TurnView) -> None:
        if view.has_ended:
            self._open.pop(view.turn_id, None)
        if view.state == "cancelled":
            # Nobody cancels one file: it was a pause, or the engine was on its way out.
            view = TurnView(view.turn_id, view.question)
            if self.state == "running" and (row := self._rows.row_of(view.turn_id)) is not None:
                self._waiting.append(row)
        elif view.state in ("writing", "finished"):
            self._num_in_vain = 0
        self._show_view(view)
        if view.turn_id not in self._open:
            self.progress_changed.emit()
            self._feed()
            self._end_pause()

    def _on_engine_died(self, _sentence: str) -> None:
        # What it may have died of is held back, and others take its place.
        self._feed()

    def _on_failure(self, file_id: str, kind: str) -> None:
        """An engine that answers nothing would have all that wait fail one by one; a file that left would not.

        What an earlier question has left says nothing of this one.
        """
        self._num_in_vain += kind != "NothingThere" and self._rows.row_of(file_id) is not None
        if self.state == "running" and self._num_in_vain >= _MOST_IN_VAIN:
            self.pause()

    def _on_put_back(self, file_id: str, sentence: str, way_out: str) -> None:
        """A model that cannot answer would have all that wait fail one after the other: they wait for another one."""
        if self.state == "running" and self._rows.row_of(file_id) is not None:
            self.pause()
            self._given_up = self._writer.model if self._writer is not None else ""
            self.request_failed.emit(sentence, way_out)

    def _open_rows(self) -> list[int]:
        """Those of the files that have been asked and have not ended."""
        rows = map(self._rows.row_of, self._open)
        return [row for row in rows if row is not None]

    # --- inside ---

    def _is_asked(self, view: TurnView) -> bool:
        return view.turn_id in self._open and not self._answering.is_held_back(view.turn_id)

    def _record(self, file_id: str, outcome: Outcome) -> None:
        # No conversation goes on from the answer of a file.
        view = stored_view(file_id, "", outcome)
        self._store.record(file_id, replace(outcome, segments=()), places_of(view))

    def _set_state(self, state: RunState) -> None:
        self.state = state
        self.run_changed.emit()

    def _read_runs(self) -> None:
        self.runs = self._try(self._store.runs) or ()
        self.runs_changed.emit()

    def _does_newest_wait(self) -> bool:
        # Not opened for that: it would read all answers before anybody wants to see them.
        return bool(self.runs) and bool(self._try(lambda: self._store.waits(self.runs[0].run_id)))

    def _try(self, call: Callable[[], Any]) -> Any:
        """What the store says; None, and told, where the disk does not let it."""
        try:
            return call()
        except RagdollError as error:
            self.request_failed.emit(error.sentence, error.way_out)
            return None
