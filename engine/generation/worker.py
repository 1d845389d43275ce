"""The generation thread: the one that owns llama.cpp. Answers as many questions at once as there are cells for.

Between two steps of the loop it takes in what has come: questions begin in the order of their priority and arrival,
and a change of the model waits for the answers of which people have seen something, so that nothing is loaded or freed
under them (turns.py). Without a model the reader's quotes are the answer. Whatever happens, every question ends
exactly once.
"""

from __future__ import annotations

import logging
import queue
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress
from functools import partial
from pathlib import Path

from engine.core import Evidence, Passage
from engine.cores import Cores
from engine.errors import LoadAbandoned, ModelError, RagdollError
from engine.events import (
    AnswerCancelled,
    AnswerFailed,
    AnswerStateChanged,
    ModelStateChanged,
    PassagesFound,
    PlacementSettled,
    Publish,
)
from engine.generation.answering import QuoteAnswer, quoted
from engine.generation.commands import (
    ApplyPlacement,
    ApplySettings,
    AtOnce,
    Expected,
    ForgetRemoved,
    InTurn,
    KeepInCells,
    LoadNow,
    LookAtDevices,
    Rehearse,
    RestModel,
    SetAsideOnDisk,
    Stop,
    Task,
    UseModel,
)
from engine.generation.hot_passages import HotPassages
from engine.generation.idle_time import IdleTime, guarded
from engine.generation.instance import NOT_LOADED
from engine.generation.loaded import LoadedModel
from engine.generation.loader import ModelLoader
from engine.generation.member import Member
from engine.generation.places import Places
from engine.generation.pool import ModelPool
from engine.generation.refreshes import EvidenceSource
from engine.generation.rehearsal import Rehearsed
from engine.generation.rounds import Targets
from engine.generation.turns import Turns
from engine.generation.unasked import Unasked
from engine.generation.under_way import KnownDocuments, UnderWay, reported_as
from engine.inflight import QuestionInFlight
from engine.looking_again import FoundAgain
from engine.memory.measured import Kind
from engine.memory.placement import Placement

log = logging.getLogger(__name__)

# With nothing to compute, but kept KV on its way from the disk, it is looked for so often.
WAITING_FOR_DISK_SECONDS = 0.002
COUNTERS_SECONDS = 0.5
# Making a prompt of a question takes milliseconds, in which nobody gets a token.
BEGUN_AT_ONCE = 16
# So often it is looked whether models that nobody asks are to leave, and whether anybody wants their room.
POOL_LOOK_SECONDS = 5.0
# Whatever ends a context lets answers that have just ended be kept first, for so many steps.
MOST_PUT_OFF = 4


class GenerationWorker:
    """Owns the loader, and through it the model; everything else is handed in and out as values."""

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
        """Prepares the thread.

        Args:
            loader: Loads and frees the chosen model; from now on only this thread touches it.
            known_documents: Which of these documents are still in the library.
            quote_answer: The extractive answer that the reader makes of its quotes.
            publish: Where events go.
            reorder_loss: How much of its worth the order of the passages may lose for what is kept (ordering.py).
            has_power_to_spare: Whether what nobody has asked for may be computed now (spare_power.py).
            more_evidence: Where long answers get more passages from (refreshes.py); None: nowhere.
            cores: What steps share with searches.
            targets: What readers are promised, where models take turns.
        """
        self._cores = cores or Cores()
        self._gang: int | None = None
        self._publish = publish
        self._known_documents, self._quote_answer = known_documents, quote_answer
        hot = HotPassages()
        self.models = ModelPool(
            loader,
            lambda: UnderWay(known_documents, reorder_loss, publish, more_evidence, hot),
            publish,
            targets,
        )
        self._idle_time = IdleTime(self.models, hot, has_power_to_spare)
        self._inbox: queue.SimpleQueue[InTurn | AtOnce] = queue.SimpleQueue()
        self._unasked = Unasked()
        self._turns = Turns()
        self._places = Places(publish)
        self._placement: ApplyPlacement | None = None
        self._num_put_off = 0
        self._is_stopped = False
        loader.tell_when_scanned(self.forget_removed)
        self._counted_at = float("-inf")
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
        self._put(Task(in_flight, evidence))

    def expect(self, in_flight: QuestionInFlight, passages: Sequence[Passage]) -> None:
        """Says what a question will probably come with, so that its prompt can be read while its search goes on."""
        self._put(Expected(in_flight, tuple(passages)))

    @property
    def reads_ahead(self) -> bool:
        """Whether anything is done with what is expected."""
        home = self.models.home
        reads = home.loaded is not None and home.loaded.reads_ahead
        return reads and home.is_in_memory and not self.models.is_shared

    def found_again(self, found: FoundAgain) -> None:
        """Hands in what was found for an answer that is being written, if it still is."""
        self._put(found)

    def use(self, command: UseModel) -> None:
        """Queues a change of model; how it went comes as ModelStateChanged."""
        self.models.home.loader.abandon_loading()
        self._put(command)

    def rest(self, path: Path) -> None:
        """Has this model freed until a question needs it, unless somebody does by then or has chosen another."""
        self._put(RestModel(path))

    def forget_removed(self) -> None:
        """Has everything forgotten that is kept of documents which are no longer in the library, between two steps."""
        self._put(ForgetRemoved())

    def apply_settings(self) -> None:
        """Has what is kept bounded by the settings in force, between two steps."""
        self._put(ApplySettings())

    def apply(self, placement: Placement, path: Path | None = None) -> None:
        """Has the loaded model live as this says, between two steps; every answer goes on.

        Of several the newest counts, and how it went comes as PlacementSettled. `path` is the model that it was planned
        for, None: whichever is loaded.
        """
        self._put(ApplyPlacement(placement, path))

    def keep_in_cells(self, may_lie: bool) -> None:
        """Whether what was read may lie in cells that no answer needs, from the next step on."""
        self._put(KeepInCells(may_lie))

    def answer_at_once(self, most: int | None) -> None:
        """How many of scripts' questions are answered at once from the next step on; None: as many as have cells."""
        self._gang = most

    def load_now(self) -> Future[bool]:
        """Has the chosen model loaded before anybody asks; whether there is one."""
        command = LoadNow(Future())
        self._put(command)
        return command.reply

    def rehearse(
        self, kind: Kind, size: int, until: threading.Event | None = None, num_threads: int = 0
    ) -> Future[Rehearsed | None]:
        """Has passes of the loaded model timed, unless somebody asks something; see `Rehearse`."""
        command = Rehearse(kind, size, Future(), until, num_threads)
        self._put(command)
        return command.reply

    def look_at_devices(self) -> None:
        """Has it asked, between two steps, how much of the devices is free."""
        self._put(LookAtDevices())

    def set_aside_on_disk(self, is_on_disk: bool) -> None:
        """Whether what was computed of answers that wait for cells is kept on the disk, and not in memory."""
        self._put(SetAsideOnDisk(is_on_disk))

    def stop(self) -> None:
        """Ends the thread after the questions it has; call it once all of them are cancelled."""
        self.models.close()
        self._put(Stop())
        if self._thread.is_alive():
            self._thread.join()

    def _put(self, item: InTurn | AtOnce) -> None:
        """Hands something in; all but what is only looked at ends a rehearsal."""
        self._unasked.note_coming(item)
        self._inbox.put(item)

    # --- the thread ---

    def _run(self) -> None:
        self.models.home.loader.look_at_devices()
        guarded(self._idle_time.recall_hot)
        while not self._is_stopped:
            if not self._take_in() and not self._has_work and not self._turns:
                self._idle_time.use()
                guarded(self.models.let_idle_go)
                guarded(self.models.look_after)
            self._rest()
            self._withdraw_unseen()
            self._cancel_unwanted()
            self._change()
            self._begin_waiting()
            self._load_unasked()
            self._place()
            self._step()
            # Also where a model was taken away instead: what has been read of it by then is kept.
            for member in self.models:
                if member.under_way.has_kept_removed():
                    guarded(partial(member.loader.forget_removed, self._known_documents))
            self._places.follow(self._num_moves, self._waiting)
        guarded(self._idle_time.keep_hot)
        guarded(self.models.end)

    def _waiting(self) -> Iterator[QuestionInFlight]:
        """The questions that have not begun, the next one first."""
        for member in self.models:
            yield from member.under_way.waiting()
        yield from (task.in_flight for task in self._turns)

    @property
    def _num_moves(self) -> int:
        return self._turns.num_moves + self.models.num_moves

    @property
    def _has_work(self) -> bool:
        """Whether there is anything to compute."""
        return self.models.has_work

    def _take_in(self) -> bool:
        """Whether something has come; waits for it when there is nothing to compute."""
        has_come, patience = False, self._patience()
        until = None if patience is None else time.monotonic() + patience
        with suppress(queue.Empty):
            while True:
                item = self._inbox.get(timeout=patience)
                self._take(item)
                # With a graphics card a look comes every other second: whatever waits longer would never be done.
                has_come = has_come or not isinstance(item, LookAtDevices)
                if has_come:
                    patience = 0.0
                elif until is not None:
                    patience = max(0.0, until - time.monotonic())
        return has_come

    def _take(self, item: InTurn | AtOnce) -> None:
        self._unasked.note_taken(item)
        if isinstance(item, InTurn):
            self._turns.add(item)
        else:
            self._carry_out(item)

    def _patience(self) -> float | None:
        """How many seconds to wait for something to come; None for as long as it takes."""
        if self._has_work:
            return WAITING_FOR_DISK_SECONDS if self.models.is_stalled else 0
        if self._turns:
            return 0
        patience = self._idle_time.seconds
        # Models that nobody asks leave after a while.
        return patience if not self.models.is_shared else min(POOL_LOOK_SECONDS, patience or POOL_LOOK_SECONDS)

    def _carry_out(self, command: AtOnce) -> None:
        if isinstance(command, Expected):
            guarded(lambda: self._expect(command))
        elif isinstance(command, FoundAgain):
            guarded(lambda: self._take_found(command))
        elif isinstance(command, ForgetRemoved):
            guarded(self._forget_removed)
        elif isinstance(command, ApplyPlacement):
            self._placement = command
        elif isinstance(command, KeepInCells):
            guarded(lambda: self._have_all(lambda loader: loader.keep_in_cells(command.may_lie)))
        elif isinstance(command, LookAtDevices):
            guarded(self.models.home.loader.look_at_devices)
        elif isinstance(command, Rehearse):
            self._rehearse(command)
        elif isinstance(command, LoadNow):
            self._unasked.want_loaded(command)
        elif isinstance(command, SetAsideOnDisk):
            guarded(lambda: self._have_all(lambda loader: loader.set_aside_on_disk(command.is_on_disk)))
        else:
            guarded(lambda: self._have_all(lambda loader: loader.apply_settings()))
            # What is over a bound leaves as it is written.
            self._idle_time.note_change()

    def _have_all(self, tell: Callable[[ModelLoader], None]) -> None:
        for member in self.models:
            tell(member.loader)

    def _load_unasked(self) -> None:
        """What they wait for is of the model that was chosen last."""
        if self._turns.change is None:
            self._unasked.load(self._load_home)

    def _load_home(self) -> LoadedModel | None:
        self.models.bring_home()
        return self.models.home.loaded

    def _rehearse(self, command: Rehearse) -> None:
        """Where there is nothing else to do."""
        member = self.models.principal
        is_free = member.is_in_memory and not (self._has_work or self._turns)
        self._unasked.rehearse(
            command, member.loaded if is_free else None, lambda error: self.models.start_over(member, error)
        )

    def _forget_removed(self) -> None:
        for member in self.models:
            guarded(member.under_way.forget_removed)
        guarded(self._idle_time.keep_hot)
        for member in self.models:
            member.loader.forget_removed(self._known_documents)

    def _expect(self, expected: Expected) -> None:
        """Where there is more than one model, nothing is read before it is known whose turn it is."""
        member = self.models.home
        is_other = self.models.is_shared or expected.in_flight.question.model
        if is_other or self._turns or member.loaded is None or not member.is_in_memory:
            return
        try:
            member.under_way.expect(expected.in_flight, expected.passages, member.loaded)
        except RagdollError as error:
            # Told to the question when it comes.
            log.debug("not read ahead: %s", error)

    def _take_found(self, found: FoundAgain) -> None:
        for member in self.models:
            if member.loaded is not None and member.under_way.answers(found.question_id):
                member.found_again(found)

    def _change(self) -> None:
        """When all that people can see of the chosen model has ended, it is changed."""
        home = self.models.home
        if self._turns.change is None or not self.models.can_choose(self._turns.change):
            return
        if self._are_kept(home) and (change := self._turns.take_change()) is not None:
            self._use(change)

    def _begin_waiting(self) -> None:
        """Begins what has come, of the model whose turn it is."""
        waiting = self._turns.models
        if quoted_names := [name for name in waiting if self.models.is_for_quotes(name)]:
            for task in self._turns.take(BEGUN_AT_ONCE, quoted_names):
                self._begin(task, None)
        try:
            self.models.take_turn({name: urgency for name, urgency in waiting.items() if name not in quoted_names})
        except LoadAbandoned as error:
            # What was chosen instead comes next.
            log.info("%s", error)
        except Exception as error:  # noqa: BLE001 - the edge of the thread; told to all whom it concerns
            self._fail_all_of(self.models.front, error)
        front = self.models.front
        if front.is_in_memory:
            most = self.models.num_left if self.models.is_shared else BEGUN_AT_ONCE
            tasks = self._turns.take(most, self.models.names_of(front))
            self.models.note_begun(len(tasks))
            for task in tasks:
                self._begin(task, front)
        has_ended = self._turns.is_ending and not any(self._turns) and self.models.num_under_way == 0
        self._is_stopped = has_ended and self._are_kept(front)

    def _fail_all_of(self, member: Member, error: Exception) -> None:
        """A model cannot be had: all that wait for it are told so; for a later question it is tried again."""
        reported = reported_as(error)
        for task in self._turns.take(None, self.models.names_of(member)):
            self._publish(AnswerFailed(task.in_flight.question.question_id, reported))
        if member.loaded is not None and (member.under_way.is_busy or not member.is_in_memory):
            self.models.start_over(member, error)

    def _rest(self) -> None:
        """Frees the model that was to rest, where it is the one that is loaded and nobody uses it."""
        rest, home = self._turns.take_rest(), self.models.home
        loaded = home.loaded
        if rest is None:
            return
        if loaded is None or loaded.plan.path != rest.path:
            guarded(lambda: self.models.rest(rest.path))
        elif not len(home.under_way):
            if self._are_kept(home):
                self._use(UseModel(rest.path, loaded.plan.n_gpu_layers, is_urgent=False, is_chosen=False))
            else:
                self._turns.add(rest)

    def _withdraw_unseen(self) -> None:
        """Before the model is changed, all answers of which nobody has seen anything are taken back for the next."""
        if self._turns.change is not None:
            home, change = self.models.home, self._turns.change
            is_reloaded = home.path == str(change.path or "")
            self._turns.put_back(home.under_way.withdraw(is_reloaded=is_reloaded))

    def _use(self, command: UseModel) -> None:
        home = self.models.home
        if home.loader.is_closing:
            # What is left of the time is for what is kept.
            return
        if not len(home.under_way):
            home.under_way.forget_ahead()
        try:
            self.models.choose(command)
        except LoadAbandoned as error:
            # What was chosen instead comes next.
            log.info("%s", error)
        except ModelError as error:
            # The loader has published it as the model's state.
            log.log(logging.INFO if home.loader.is_closing else logging.WARNING, "%s", error)
        except Exception as error:
            # The edge of the thread: it must live on, or no later question would end.
            log.exception("the model could not be changed")
            sentence = f"The model could not be used: {error}."
            self._publish(ModelStateChanged("failed", str(command.path or ""), sentence=sentence))
        # Files that it has kept may still be found.
        self._idle_time.note_change()
        self._count(now=True)

    def _begin(self, task: Task, member: Member | None) -> None:
        loaded = member.loaded if member is not None else None
        question_id = task.in_flight.question.question_id
        try:
            if task.in_flight.cancelled.is_set():
                self._publish(AnswerCancelled(question_id))
            elif member is None or loaded is None:
                self._publish(quoted(task.in_flight, self._evidence(task), self._quote_answer, self._publish))
            else:
                member.under_way.hand_in(task.in_flight, self._evidence(task), loaded)
        except Exception as error:  # noqa: BLE001 - the edge of the thread; told to the question
            self._publish(AnswerFailed(question_id, reported_as(error)))

    def _evidence(self, task: Task) -> Evidence:
        """What a question rests on, without what has left the library while it waited: nobody may cite that now."""
        documents = {passage.document_id for passage in task.evidence.passages}
        known = set(self._known_documents(documents))
        if documents <= known:
            return task.evidence
        evidence = task.evidence.of_documents(known)
        question_id = task.in_flight.question.question_id
        self._publish(PassagesFound(question_id, evidence.passages, evidence.quotes, evidence.scope))
        return evidence

    def _cancel_unwanted(self) -> None:
        """Cancels those whose flag rose, also while they wait for their turn, or their model does."""
        for member in self.models:
            if (instance := member.instance) is not None:
                try:
                    member.under_way.cancel_unwanted(instance.loaded)
                    if member is not self.models.front:
                        member.under_way.tell(instance.loaded)
                        instance.note_set_aside()
                except Exception as error:  # noqa: BLE001 - the edge of the thread; told to all whom it concerns
                    self.models.start_over(member, error)
        for task in self._turns.take_cancelled():
            self._publish(AnswerCancelled(task.in_flight.question.question_id))

    def _are_kept(self, member: Member) -> bool:
        """Whether answers that have just ended are kept whole; asked again in each round, it waits for few steps."""
        loaded, is_computing = member.loaded, member is self.models.front
        if loaded is not None and is_computing and loaded.loop.closing and self._num_put_off < MOST_PUT_OFF:
            self._num_put_off += 1
            return False
        self._num_put_off = 0
        return True

    def _place(self) -> None:
        """Carries out the placement that was asked for last, if any."""
        wanted = self._placement
        if wanted is None:
            return
        member = self.models.of_path(wanted.path)
        if member is not None and not self._are_kept(member):
            return
        self._placement = None
        if self._turns.change is not None:
            self._publish(PlacementSettled(False, "Another model was chosen meanwhile."))
            return
        if member is None:
            self._publish(PlacementSettled(False, NOT_LOADED))
            return
        if member.loaded is not None and not member.is_in_memory:
            self._publish(PlacementSettled(False, "Another model computes just now."))
            return
        if member.loader.is_closing:
            # What is left of the time is for what is kept, not for reading weights again.
            self._publish(PlacementSettled(False, "The engine is closing."))
            return
        if guarded(lambda: self.models.make_way(member, wanted.placement)):
            self._publish(
                PlacementSettled(False, "Other models leave memory, and take turns with this one from now on.")
            )
            return
        if member.instance is None:
            self._publish(PlacementSettled(False, NOT_LOADED))
            return
        try:
            member.instance.apply(wanted.placement, wanted.path)
        except Exception as error:  # noqa: BLE001 - the edge of the thread; told to all whom it concerns
            self._publish(PlacementSettled(False, str(reported_as(error))))
            self.models.start_over(member, error)
        self._idle_time.note_change()
        self._count(now=True)

    def _step(self) -> None:
        front, instance = self.models.front, self.models.front.instance
        if instance is None or not front.is_in_memory or not front.has_work:
            self._cores.rest()
            return
        if not self._cores.may_step():
            return
        try:
            loaded = instance.loaded
            loaded.loop.answer_at_once(self._gang)
            loaded.context.use_threads(self._cores.begin_step())
            self.models.step()
            if loaded.loop.shortage is not None and not front.loader.is_closing:
                instance.take_less(loaded.loop.shortage)
            instance.note_set_aside()
        except Exception as error:  # noqa: BLE001 - the edge of the thread; told to all whom it concerns
            self.models.start_over(front, error)
        self._idle_time.note_step()
        self._count()

    def _count(self, now: bool = False) -> None:
        """Takes the figures for the Memory page, which other threads read."""
        if now or time.monotonic() - self._counted_at >= COUNTERS_SECONDS or not self.models.is_busy:
            guarded(self.models.look_after)
            self.counters = self.models.counters()
            self._counted_at = time.monotonic()
