"""The generation thread: the one that owns llama.cpp. Answers as many questions at once as there are cells for.

Between two steps of the loop it takes in what has come: questions begin in the order of their priority and arrival,
and a change of the model waits for the questions before it, so that nothing is loaded or freed under a running
answer. Without a model the reader's quotes are the answer. Whatever happens, every question ends exactly once.
"""

from __future__ import annotations

import logging
import queue
import threading
import time
from collections import deque
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from pathlib import Path

from engine.core import Evidence, Priority
from engine.errors import GenerationError, ModelError, RagdollError
from engine.events import (
    AnswerCancelled,
    AnswerEnded,
    AnswerFailed,
    AnswerStateChanged,
    ModelStateChanged,
    Publish,
)
from engine.generation.answering import Answering, QuoteAnswer, quoted
from engine.generation.conversation import documents_in_transcript, turns_of_transcript
from engine.generation.loaded import LoadedModel
from engine.generation.loader import ModelLoader
from engine.generation.prompt import Prompt, Reordering, answer_reserve, compose
from engine.generation.request import StepEvent
from engine.inflight import QuestionInFlight

log = logging.getLogger(__name__)
KnownDocuments = Callable[[Collection[int]], Collection[int]]

# With nothing to compute, but kept KV on its way from the disk, it is looked for so often.
WAITING_FOR_DISK_SECONDS = 0.002
# Nobody has asked anything for so long: what is kept in memory can be written.
IDLE_SECONDS = 2.0
FLUSH_PAUSE_SECONDS = 0.02
COUNTERS_SECONDS = 0.5
_URGENCY: tuple[Priority, ...] = ("interactive", "batch", "idle")


@dataclass(frozen=True, slots=True)
class _Task:
    in_flight: QuestionInFlight
    evidence: Evidence


@dataclass(frozen=True, slots=True)
class UseModel:
    """Answer with this file from the next question on (None: with quotes); load it now, or when first needed."""

    path: Path | None
    n_gpu_layers: int | None = None
    is_urgent: bool = True


class _ForgetRemoved:
    """Documents may have left the library: nothing of them is kept any longer."""


class _ApplySettings:
    """What is kept has new bounds."""


class _Stop:
    """End once everything before this is done."""


_InTurn = _Task | UseModel | _Stop
_AtOnce = _ForgetRemoved | _ApplySettings


class GenerationWorker:
    """Owns the loader, and through it the model; everything else is handed in and out as values."""

    def __init__(
        self,
        loader: ModelLoader,
        known_documents: KnownDocuments,
        quote_answer: QuoteAnswer,
        publish: Publish,
        reorder_loss: Callable[[], float] = lambda: 0.0,
    ) -> None:
        """Prepares the thread.

        Args:
            loader: Loads and frees models; from now on only this thread touches it.
            known_documents: Which of these documents are still in the library.
            quote_answer: The extractive answer that the reader makes of its quotes.
            publish: Where events go.
            reorder_loss: How much of its worth the order of the passages may lose for what is kept (ordering.py).
        """
        self._loader, self._publish = loader, publish
        self._known_documents, self._quote_answer = known_documents, quote_answer
        self._reorder_loss = reorder_loss
        self._inbox: queue.SimpleQueue[_InTurn | _AtOnce] = queue.SimpleQueue()
        self._waiting: deque[_InTurn] = deque()
        self._answering: dict[str, Answering] = {}
        self._positions: dict[str, int] = {}
        self._is_stopped = self._is_stalled = False
        self._num_steps = 0
        self._idle_seconds: float | None = None
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
        self._inbox.put(_Task(in_flight, evidence))

    def use(self, command: UseModel) -> None:
        """Queues a change of model; how it went comes as ModelStateChanged."""
        self._loader.abandon_loading()
        self._inbox.put(command)

    def forget_removed(self) -> None:
        """Has everything forgotten that is kept of documents which are no longer in the library, between two steps."""
        self._inbox.put(_ForgetRemoved())

    def apply_settings(self) -> None:
        """Has what is kept bounded by the settings in force, between two steps."""
        self._inbox.put(_ApplySettings())

    def stop(self) -> None:
        """Ends the thread after the questions it has; call it once all of them are cancelled."""
        self._loader.close()
        self._inbox.put(_Stop())
        if self._thread.is_alive():
            self._thread.join()

    # --- the thread ---

    def _run(self) -> None:
        self._loader.look_at_devices()
        while not self._is_stopped:
            if not self._take_in():
                self._use_idle_time()
            self._cancel_unwanted()
            self._begin_waiting()
            self._step()
            self._tell_positions()
        self._guarded(self._loader.end)

    def _take_in(self) -> bool:
        """Whether something has come; waits for it when there is nothing to compute."""
        patience = self._patience()
        has_come = False
        try:
            item = self._inbox.get(block=patience != 0, timeout=patience)
            while has_come := True:
                self._take(item)
                item = self._inbox.get_nowait()
        except queue.Empty:
            return has_come

    def _take(self, item: _InTurn | _AtOnce) -> None:
        if isinstance(item, _InTurn):
            self._waiting.append(item)
        else:
            self._carry_out(item)

    def _patience(self) -> float | None:
        """How many seconds to wait for something to come; None for as long as it takes."""
        if self._answering:
            return WAITING_FOR_DISK_SECONDS if self._is_stalled else 0
        return 0 if self._waiting else self._idle_seconds

    def _use_idle_time(self) -> None:
        """Nobody asks: what was read is written to the disk, in small portions."""
        if not self._answering and not self._waiting and (loaded := self._loader.loaded_now) is not None:
            self._idle_seconds = FLUSH_PAUSE_SECONDS if self._guarded(loaded.flush) else None

    def _carry_out(self, command: _AtOnce) -> None:
        if isinstance(command, _ForgetRemoved):
            self._guarded(lambda: self._loader.forget_removed(self._known_documents))
        else:
            self._guarded(self._loader.apply_settings)

    def _guarded(self, work: Callable[[], object]) -> bool:
        """Whether there is more of this work; an unexpected failure of what nobody waits for is logged."""
        try:
            return bool(work())
        except Exception:
            log.exception("what is kept could not be seen to")
            return False

    def _begin_waiting(self) -> None:
        """Begins what has come, in order; a change of the model waits until all answers before it have ended."""
        while self._waiting and (isinstance(self._waiting[0], _Task) or not self._answering):
            item = self._waiting.popleft()
            if isinstance(item, _Task):
                self._begin(item)
            elif isinstance(item, UseModel):
                self._use(item)
            else:
                self._is_stopped = True

    def _use(self, command: UseModel) -> None:
        try:
            if command.path is None:
                self._loader.unload()
            elif command.is_urgent:
                self._loader.load(command.path, command.n_gpu_layers)
            else:
                self._loader.load_when_needed(command.path, command.n_gpu_layers)
        except ModelError as error:
            # The loader has published it as the model's state.
            log.log(logging.INFO if self._loader.is_closing else logging.WARNING, "%s", error)
        except Exception as error:
            # The edge of the thread: it must live on, or no later question would end.
            log.exception("the model could not be changed")
            sentence = f"The model could not be used: {error}."
            self._publish(ModelStateChanged("failed", str(command.path or ""), sentence=sentence))
        self._count(now=True)

    # --- a question ---

    def _begin(self, task: _Task) -> None:
        question_id = task.in_flight.question.question_id
        try:
            if task.in_flight.cancelled.is_set():
                self._publish(AnswerCancelled(question_id))
            elif (loaded := self._loader.loaded()) is None:
                self._publish(quoted(task.in_flight, task.evidence, self._quote_answer, self._publish))
            else:
                self._hand_to_loop(task, loaded)
        except Exception as error:  # noqa: BLE001 - the edge of the thread; told to the question
            self._publish(AnswerFailed(question_id, _reported(error)))

    def _hand_to_loop(self, task: _Task, loaded: LoadedModel) -> None:
        answering = Answering(task.in_flight, task.evidence, self._prompt(task, loaded), loaded.speaker, self._publish)
        loaded.loop.submit(answering.request)
        self._answering[answering.question_id] = answering

    def _prompt(self, task: _Task, loaded: LoadedModel) -> Prompt:
        question, speaker = task.in_flight.question, loaded.speaker
        known = self._known_documents(documents_in_transcript(question.transcript))
        return compose(
            question.text,
            task.evidence.passages,
            turns_of_transcript(question.transcript, known),
            speaker,
            answer_reserve(question.sampling.max_tokens, speaker.context_tokens),
            Reordering(loaded.peek, self._reorder_loss()) if loaded.peek else None,
        )

    # --- all questions ---

    def _cancel_unwanted(self) -> None:
        """Cancels those whose flag rose, also while they wait for their turn behind a change of the model."""
        loaded = self._loader.loaded_now
        for answering in self._answering.values():
            if loaded is not None and answering.in_flight.cancelled.is_set():
                loaded.loop.cancel(answering.question_id)
        unwanted = [item for item in self._waiting if isinstance(item, _Task) and item.in_flight.cancelled.is_set()]
        for task in unwanted:
            self._waiting.remove(task)
            self._publish(AnswerCancelled(task.in_flight.question.question_id))

    def _step(self) -> None:
        """One step of the loop, and what there is to tell of it."""
        loaded = self._loader.loaded_now
        if loaded is None or not self._answering:
            return
        try:
            events = loaded.loop.step()
            counters = loaded.loop.counters()
        except Exception as error:  # noqa: BLE001 - the edge of the thread; told to all whom it concerns
            self._start_over(error)
            return
        for question_id, _ in counters.cells_by_request:
            self._answering[question_id].begin()
        for event in events:
            self._tell(event)
        self._is_stalled = not events and counters.steps == self._num_steps
        self._num_steps, self._idle_seconds = counters.steps, IDLE_SECONDS
        self._count()

    def _tell(self, event: StepEvent) -> None:
        answering = self._answering[event.request_id]
        try:
            end = answering.take(event)
        except Exception as error:  # noqa: BLE001 - the edge of the thread; told to the question
            end = AnswerFailed(event.request_id, _reported(error))
        if end is not None:
            self._end(end)

    def _end(self, end: AnswerEnded) -> None:
        # Before anybody hears of it, who could ask under the same id again.
        del self._answering[end.question_id]
        self._publish(end)

    def _tell_positions(self) -> None:
        """How many questions come before each that has not begun; told when it changes."""
        asked = [answering.in_flight for answering in self._answering.values() if not answering.has_begun]
        asked.sort(key=lambda in_flight: _URGENCY.index(in_flight.question.priority))
        asked += [item.in_flight for item in self._waiting if isinstance(item, _Task)]
        positions = {in_flight.question.question_id: ahead for ahead, in_flight in enumerate(asked)}
        for question_id, ahead in positions.items():
            if self._positions.get(question_id) != ahead:
                self._publish(AnswerStateChanged(question_id, "queued", ahead))
        self._positions = positions

    def _start_over(self, error: Exception) -> None:
        """The loop is of no use any more: its questions fail, and the next one finds the model loaded again."""
        reported = _reported(error)
        for question_id in list(self._answering):
            self._end(AnswerFailed(question_id, reported))
        self._guarded(self._loader.start_over)

    def _count(self, now: bool = False) -> None:
        """Takes the figures for the Memory page, which other threads read."""
        if now or time.monotonic() - self._counted_at >= COUNTERS_SECONDS or not self._answering:
            loaded = self._loader.loaded_now
            self.counters = loaded.counters() if loaded is not None else {}
            self._counted_at = time.monotonic()


def _reported(error: Exception) -> RagdollError:
    if isinstance(error, RagdollError):
        return error
    log.error("answering failed", exc_info=error)
    return GenerationError(f"Writing the answer failed unexpectedly: {error}.", "Ask again.")
