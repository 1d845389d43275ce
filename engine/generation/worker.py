"""The generation thread, which owns llama.cpp. It answers as many questions at a time as there are cells for.

Other threads hand in commands, which are taken in between two steps of the loop. Most are carried out at once
(between_steps.py), questions begin in their turn (beginning.py), and a change of the model waits until partly visible
answers have ended, so that nothing is loaded or freed while they are written (model_changes.py). Whatever happens,
every question ends exactly once.
"""

from __future__ import annotations

import queue
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress
from operator import methodcaller
from pathlib import Path

from engine.core import Evidence, Passage
from engine.cores import Cores
from engine.events import AnswerCancelled, AnswerStateChanged, Publish
from engine.generation.answering import QuoteAnswer
from engine.generation.beginning import Beginning
from engine.generation.between_steps import BetweenSteps
from engine.generation.commands import (
    ApplyPlacement,
    ApplySettings,
    AtOnce,
    Awaited,
    Expected,
    ForgetRemoved,
    InTurn,
    KeepInCells,
    LetGo,
    LoadNow,
    LookAtDevices,
    Rehearse,
    RestModel,
    SetAsideOnDisk,
    Stop,
    Task,
    UseModel,
    decline,
)
from engine.generation.hot_passages import HotPassages
from engine.generation.idle_time import IdleTime, guarded
from engine.generation.loader import ModelLoader
from engine.generation.model_changes import ModelChanges
from engine.generation.pool import ModelPool
from engine.generation.queue_positions import QueuePositions
from engine.generation.refreshes import EvidenceSource
from engine.generation.rehearsal import Rehearsed
from engine.generation.time_slices import Targets
from engine.generation.turns import Turns
from engine.generation.unasked import Unasked
from engine.generation.under_way import KnownDocuments, UnderWay
from engine.inflight import QuestionInFlight
from engine.looking_again import FoundAgain
from engine.memory.gangs import QueueSharing
from engine.memory.measured import Kind
from engine.memory.placement import Placement
from engine.spinning import Spinning

# How often to check for kept KV that is being read from disk, while there is nothing to compute.
WAITING_FOR_DISK_SECONDS = 0.002
COUNTERS_SECONDS = 0.5
# How long the last token of an answer waits to be computed and kept if that takes a pass over streamed layers: some
# passes, but within limits. If a question follows immediately, the pass would take disk and cores from its search, and
# the question would have to wait for it; without that pass, the question's own first pass computes the token.
CLOSING_SECONDS, CLOSING_PASSES, MOST_CLOSING_SECONDS = 1.0, 5, 10.0
# How soon a cancelled question ends while a model is being loaded.
CANCELLED_SECONDS = 0.2
# How often to check whether idle models have to leave, and whether others need their room.
POOL_LOOK_SECONDS = 5.0


class GenerationWorker:
    """The thread that owns the loader, and through it the model; everything else is handed in and out as values."""

    def __init__(
        self,
        loader: ModelLoader,
        known_documents: KnownDocuments,
        quote_answer: QuoteAnswer,
        publish: Publish,
        reorder_loss: Callable[[], float] = lambda: 0.0,
        has_power_to_spare: Callable[[], bool] = lambda: False,
        more_evidence: EvidenceSource | None = None,
        cores: Cores | None = None,
        targets: Callable[[], Targets] = Targets,
    ) -> None:
        """Creates the thread without starting it.

        Args:
            loader: Loads and frees the chosen model; from now on only this thread uses it.
            known_documents: Returns which of these documents are still in the library.
            quote_answer: Makes an extractive answer from the reader's quotes.
            publish: Where events go.
            reorder_loss: Returns how much worse the order of passages may become to reuse kept KV (ordering.py).
            has_power_to_spare: Whether work that no user has asked for may be done now (spare_power.py).
            more_evidence: Where long answers get more passages from (refreshes.py); None for no more.
            cores: The processor cores, which steps share with searches.
            targets: Returns the promised latencies, for models that take turns.
        """
        self._cores = cores or Cores()
        self._sharing: QueueSharing | None = None
        self._spinning = Spinning()
        self._publish = publish
        hot = HotPassages()
        self.models = ModelPool(
            loader,
            lambda: UnderWay(known_documents, reorder_loss, publish, more_evidence, hot),
            publish,
            targets,
        )
        self._idle_time = IdleTime(self.models, hot, has_power_to_spare)
        self._inbox: queue.SimpleQueue[InTurn | AtOnce] = queue.SimpleQueue()
        self._unasked, self._turns = Unasked(), Turns()
        self._changes = ModelChanges(self.models, self._turns, publish, self._note_changed)
        self._between = BetweenSteps(
            self.models, self._turns, self._changes, self._unasked, self._idle_time, known_documents
        )
        self._beginning = Beginning(self.models, self._turns, known_documents, quote_answer, publish)
        self._positions = QueuePositions(publish)
        # Guards the decision whether a question still reaches the thread; one that comes too late is cancelled at once.
        self._taking_questions, self._is_closed = threading.Lock(), False
        loader.tell_when_scanned(self.forget_removed)
        loader.while_loading = self._let_wait_no_longer
        # Commands that came during a load and are not queued with the questions.
        self._held: deque[AtOnce] = deque()
        self._let_go_at = self._stepped_at = float("-inf")
        self._counted_at = self._let_idle_go_at = float("-inf")
        self.counters: Mapping[str, float] = {}
        self._thread = threading.Thread(target=self._run, name="generation", daemon=True)

    # --- from any thread ---

    def start(self) -> None:
        self._thread.start()

    def submit(self, in_flight: QuestionInFlight, evidence: Evidence) -> None:
        """Queues a question; it ends in exactly one of finished, cancelled, failed."""
        ahead = self._inbox.qsize()
        if ahead:
            self._publish(AnswerStateChanged(in_flight.question.question_id, "queued", ahead))
        with self._taking_questions:
            is_late = self._is_closed
            if not is_late:
                self._put(Task(in_flight, evidence))
        if is_late:
            self._publish(AnswerCancelled(in_flight.question.question_id))

    def expect(self, in_flight: QuestionInFlight, passages: Sequence[Passage], left_seconds: float = 0.0) -> None:
        """Announces a question's probable passages, so that its prompt can be read while its search is running.

        The search takes about `left_seconds` more; 0 if it has found everything.
        """
        self._put(Expected(in_flight, tuple(passages), left_seconds))

    def reads_ahead(self, model: str, left_seconds: float) -> bool:
        """Returns whether announcements of questions to `model` are used `left_seconds` before the end of a search."""
        member = self.models.members.find(model)
        if member is None or (loaded := member.loaded) is None:
            return False
        return loaded.reads_ahead(left_seconds) and self.models.may_compute_unasked(member)

    def found_again(self, found: FoundAgain) -> None:
        """Hands in what was found for an answer that may still be being written."""
        self._put(found)

    def use(self, command: UseModel) -> None:
        """Queues a change of model; the result is published as ModelStateChanged."""
        self.models.members.home.loader.abandon_loading()
        self._put(command)

    def rest(self, path: Path) -> None:
        """Queues freeing a model until a question needs it, unless it is in use or another has been chosen by then."""
        self._put(RestModel(path))

    def forget_removed(self) -> None:
        """Queues dropping the KV of documents that are no longer in the library."""
        self._put(ForgetRemoved())

    def apply_settings(self) -> None:
        """Queues applying the settings in force to kept KV and reading ahead."""
        self._put(ApplySettings())

    def apply(self, placement: Placement, path: Path | None = None) -> None:
        """Queues placing the loaded model as `placement` says; every answer continues.

        Of several placements the newest counts, and the result is published as PlacementSettled. `path` is the model
        that it was planned for; None for whichever is loaded.
        """
        self._put(ApplyPlacement(placement, path))

    def keep_in_cells(self, may_lie: bool) -> None:
        """Sets whether KV may stay in cells that no answer needs, from the next step on."""
        self._put(KeepInCells(may_lie))

    def share_steps(self, sharing: QueueSharing | None) -> None:
        """Sets how many of scripts' questions run at a time from the next step on; None: as many as cells allow."""
        self._sharing = sharing

    def load_now(self) -> Future[bool]:
        """Queues loading the chosen model before it is asked; the result is whether there is one."""
        command = LoadNow(Future())
        self._put_awaited(command)
        return command.reply

    def let_go(self, path: Path) -> Future[bool]:
        """Queues freeing a model until a question needs it, if no request waits; the result is whether it was freed."""
        command = LetGo(path, Future())
        self._put_awaited(command)
        return command.reply

    def rehearse(
        self, kind: Kind, size: int, until: threading.Event | None = None, num_threads: int = 0
    ) -> Future[Rehearsed | None]:
        """Queues timing passes of the loaded model, unless there are questions; see `Rehearse`."""
        command = Rehearse(kind, size, Future(), until, num_threads)
        self._put_awaited(command)
        return command.reply

    def look_at_devices(self) -> None:
        """Queues probing the free memory of devices."""
        self._put(LookAtDevices())

    def set_aside_on_disk(self, is_on_disk: bool) -> None:
        """Sets whether KV of answers that wait for cells is kept on disk instead of in memory."""
        self._put(SetAsideOnDisk(is_on_disk))

    def stop(self) -> None:
        """Ends the thread after its questions; call it once all of them are cancelled."""
        with self._taking_questions:
            self._is_closed = True
        self.models.close()
        self._put(Stop())
        if self._thread.is_alive():
            self._thread.join()
        for command in self._left_undone():
            decline(command)

    def _put_awaited(self, command: Awaited) -> None:
        with self._taking_questions:
            is_late = self._is_closed
            if not is_late:
                self._put(command)
        if is_late:
            decline(command)

    def _left_undone(self) -> Iterator[Awaited]:
        """Yields awaited commands that came too late for the thread."""
        yield from self._unasked.take_loads()
        yield from (command for command in self._held if isinstance(command, Awaited))
        while not self._inbox.empty():
            if isinstance(command := self._inbox.get(), Awaited):
                yield command

    def _put(self, item: InTurn | AtOnce) -> None:
        """Hands in a command, which ends a rehearsal (see `Unasked.note_coming`)."""
        self._unasked.note_coming(item)
        self._inbox.put(item)

    # --- the thread ---

    def _run(self) -> None:
        guarded(self.models.members.home.loader.look_at_devices)
        guarded(self._idle_time.recall_hot)
        is_over = False
        while not is_over:
            if not self._take_in() and not self.models.has_work and not self._turns:
                guarded(self._idle_time.use)
                self._let_idle_go()
                guarded(self.models.look_after)
            guarded(self._changes.rest)
            guarded(self._changes.withdraw_unseen)
            self._cancel_unwanted()
            self._changes.choose()
            self._beginning.begin_waiting()
            is_over = self._has_ended and self._changes.are_kept(self.models.front)
            self._between.load_unasked()
            self._changes.place()
            self._step()
            self._between.forget_ended()
            self._positions.follow(self._num_moves, self._waiting)
        guarded(self._idle_time.keep_hot)
        guarded(self.models.end)
        self._spinning.end()

    def _waiting(self) -> Iterator[QuestionInFlight]:
        """Yields the questions that have not begun, the next one first."""
        for member in self.models.members:
            yield from member.under_way.waiting()
        yield from (task.in_flight for task in self._turns)

    @property
    def _num_moves(self) -> int:
        return self._turns.num_moves + self.models.members.num_moves

    @property
    def _has_ended(self) -> bool:
        """Whether the thread is to end, and has ended all its questions."""
        return self._turns.is_ending and not any(self._turns) and self.models.members.num_under_way == 0

    def _take_in(self) -> bool:
        """Takes in commands; returns whether any came. Waits for one if there is nothing to compute."""
        has_come, patience = bool(self._held), 0.0 if self._held else self._patience()
        while self._held:
            self._take(self._held.popleft())
        until = None if patience is None else time.monotonic() + patience
        with suppress(queue.Empty):
            while True:
                item = self._inbox.get(timeout=patience)
                self._take(item)
                # With a graphics card, its memory is probed every other second: if that counted, background work that
                # waits longer would never be done.
                has_come = has_come or not isinstance(item, LookAtDevices)
                if has_come:
                    patience = 0.0
                elif until is not None:
                    patience = max(0.0, until - time.monotonic())
        return has_come

    def _let_wait_no_longer(self) -> None:
        """Reports cancelled questions while a model is being loaded or brought back, which may take minutes."""
        if time.monotonic() - self._let_go_at < CANCELLED_SECONDS:
            return
        self._let_go_at = time.monotonic()
        with suppress(queue.Empty):
            while True:
                item = self._inbox.get_nowait()
                if isinstance(item, InTurn):
                    self._take(item)
                else:
                    self._held.append(item)
        for member in self.models.members:
            if (instance := member.instance) is not None:
                member.under_way.end_cancelled(instance.loaded)
        self._tell_cancelled()

    def _take(self, item: InTurn | AtOnce) -> None:
        self._unasked.note_taken(item)
        if isinstance(item, InTurn):
            self._turns.add(item)
        else:
            self._between.carry_out(item)

    def _patience(self) -> float | None:
        """Returns how many seconds to wait for a command; None for no limit."""
        if self.models.only_closes and not self._turns:
            wait_seconds = min(CLOSING_PASSES * self.models.front.step_seconds, MOST_CLOSING_SECONDS)
            return max(0.0, max(CLOSING_SECONDS, wait_seconds) - (time.monotonic() - self._stepped_at))
        if self.models.has_work:
            return WAITING_FOR_DISK_SECONDS if self.models.is_stalled else 0
        if self._turns or self.models.is_home_due or self._unasked.awaits_load:
            return 0
        patience = self._idle_time.seconds
        # Idle models have to leave after a while, so this waits no longer than until the next check.
        return patience if not self.models.members.is_shared else min(POOL_LOOK_SECONDS, patience or POOL_LOOK_SECONDS)

    def _cancel_unwanted(self) -> None:
        """Cancels questions whose flag is set, even if they or their model wait for their turn."""
        for member in self.models.members:
            if (instance := member.instance) is not None:
                loaded = instance.loaded
                # One more pass may take longer than the time that is left for writing kept KV.
                is_hurried = member.loader.is_closing and loaded.context.is_streamed
                try:
                    if is_hurried:
                        member.under_way.end_cancelled(loaded)
                    member.under_way.cancel_unwanted(loaded)
                    if is_hurried:
                        loaded.loop.close_answers()
                    if is_hurried or member is not self.models.front:
                        member.under_way.tell(loaded)
                        instance.note_set_aside()
                except Exception as error:  # noqa: BLE001 - the edge of the thread; reported to all that it concerns
                    self.models.start_over(member, error)
        self._tell_cancelled()

    def _tell_cancelled(self) -> None:
        """Reports cancelled questions that wait for their turn."""
        for task in self._turns.take_cancelled():
            self._publish(AnswerCancelled(task.in_flight.question.question_id))

    def _step(self) -> None:
        front, instance = self.models.front, self.models.front.instance
        if instance is None or not front.is_in_memory or not front.has_work:
            self._cores.rest()
            return
        if not self._cores.may_step():
            return
        try:
            loaded = instance.loaded
            loaded.loop.share_steps(self._sharing)
            loaded.loop.share_cores(self._cores.threads_for)
            self._cores.begin_step()
            with self._spinning.watched():
                self.models.step()
            if loaded.loop.shortage is not None and not front.loader.is_closing:
                self.models.change_front(methodcaller("take_less", loaded.loop.shortage))
            elif loaded.loop.wanted_cells and not front.loader.is_closing:
                self.models.ensure_cells(loaded.loop.wanted_cells)
            instance.note_set_aside()
            instance.note_needs()
        except Exception as error:  # noqa: BLE001 - the edge of the thread; reported to all that it concerns
            self.models.start_over(front, error)
        self._stepped_at = time.monotonic()
        self._idle_time.note_step()
        self._count()

    def _note_changed(self) -> None:
        """Notes that a model was changed, so that there may be files of it to write or to find."""
        self._idle_time.note_change()
        self._count(now=True)

    def _count(self, now: bool = False) -> None:
        """Updates the figures for the Memory page, which other threads read."""
        if now or time.monotonic() - self._counted_at >= COUNTERS_SECONDS or not self.models.members.is_busy:
            # A script's questions may keep the thread busy for hours, so this cannot wait for idle time. Not while a
            # model is changed, because the questions of this round have not been looked at yet.
            if not now and time.monotonic() - self._let_idle_go_at >= POOL_LOOK_SECONDS:
                self._let_idle_go()
            guarded(self.models.look_after)
            self.counters = self.models.counters()
            self._counted_at = time.monotonic()

    def _let_idle_go(self) -> None:
        self._let_idle_go_at = time.monotonic()
        guarded(self.models.let_idle_go)
