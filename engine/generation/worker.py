"""The generation thread: the one that owns llama.cpp. Takes questions with their evidence, one after the other.

Without a model the reader's quotes are the answer. Commands (use a model, unload it) travel through the same
queue as questions, so that nothing is loaded or freed under a running answer.
"""

from __future__ import annotations

import logging
import queue
import threading
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from engine.core import Answer, Citation, Evidence, Question, Quote
from engine.errors import GenerationError, ModelError, RagdollError
from engine.events import (
    AnswerCancelled,
    AnswerFailed,
    AnswerFinished,
    AnswerStateChanged,
    ModelStateChanged,
    Publish,
    TokensGenerated,
)
from engine.generation.citations import citations_of_quotes, parse_citations
from engine.generation.conversation import (
    EvidencePassage,
    Turn,
    documents_in_transcript,
    transcript_of,
    turns_of_transcript,
)
from engine.generation.loader import ModelLoader
from engine.generation.prompt import answer_reserve, compose
from engine.generation.segment import tokens_of
from engine.generation.writer import Writer, Writing
from engine.inflight import QuestionInFlight

log = logging.getLogger(__name__)
KnownDocuments = Callable[[Collection[int]], Collection[int]]
QuoteAnswer = Callable[[Sequence[Quote]], tuple[str, tuple[Citation, ...]]]


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


class GenerationWorker:
    """Owns the loader, and through it the model; everything else is handed in and out as values."""

    def __init__(
        self, loader: ModelLoader, known_documents: KnownDocuments, quote_answer: QuoteAnswer, publish: Publish
    ) -> None:
        """Prepares the thread.

        Args:
            loader: Loads and frees models; from now on only this thread touches it.
            known_documents: Which of these documents are still in the library.
            quote_answer: The extractive answer that the reader makes of its quotes.
            publish: Where events go.
        """
        self._loader, self._publish = loader, publish
        self._known_documents, self._quote_answer = known_documents, quote_answer
        self._queue: queue.Queue[_Task | UseModel | None] = queue.Queue()
        self._thread = threading.Thread(target=self._run, name="generation", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def submit(self, in_flight: QuestionInFlight, evidence: Evidence) -> None:
        """Queues a question; it ends in exactly one of finished, cancelled, failed."""
        ahead = self._queue.qsize()
        if ahead:
            self._publish(AnswerStateChanged(in_flight.question.question_id, "queued", ahead))
        self._queue.put(_Task(in_flight, evidence))

    def use(self, command: UseModel) -> None:
        """Queues a change of model; how it went comes as ModelStateChanged."""
        self._loader.abandon_loading()
        self._queue.put(command)

    def stop(self) -> None:
        """Ends the thread after the question it is at; call it once all questions are cancelled."""
        self._loader.close()
        self._queue.put(None)
        if self._thread.is_alive():
            self._thread.join()

    def _run(self) -> None:
        self._loader.look_at_devices()
        while (item := self._queue.get()) is not None:
            if isinstance(item, UseModel):
                self._use(item)
            else:
                self._answer(item)
        self._loader.unload()

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
            log.warning("%s", error)
        except Exception as error:
            # The edge of the thread: it must live on, or no later question would end.
            log.exception("the model could not be changed")
            sentence = f"The model could not be used: {error}."
            self._publish(ModelStateChanged("failed", str(command.path or ""), sentence=sentence))

    def _answer(self, task: _Task) -> None:
        question = task.in_flight.question
        try:
            answer = self._write(task)
        except RagdollError as error:
            self._publish(AnswerFailed(question.question_id, error))
        except Exception as error:
            log.exception("question %s failed", question.question_id)
            failure = GenerationError(f"Writing the answer failed unexpectedly: {error}.", "Ask again.")
            self._publish(AnswerFailed(question.question_id, failure))
        else:
            self._end(task.in_flight, answer)

    def _end(self, in_flight: QuestionInFlight, answer: Answer | None) -> None:
        question_id = in_flight.question.question_id
        in_flight.timeline.mark("ended")
        if answer is None:
            self._publish(AnswerCancelled(question_id))
        else:
            self._publish(AnswerFinished(question_id, answer, in_flight.timeline.timings()))

    def _write(self, task: _Task) -> Answer | None:
        """The answer, or None when it was cancelled."""
        if task.in_flight.cancelled.is_set():
            return None
        writer = self._loader.writer()
        if writer is None:
            return self._quote(task)
        return self._write_with(writer, task)

    def _quote(self, task: _Task) -> Answer:
        question, evidence = task.in_flight.question, task.evidence
        text, citations = self._quote_answer(evidence.quotes)
        task.in_flight.timeline.mark("first_token")
        self._publish(TokensGenerated(question.question_id, text))
        passages = [EvidencePassage.of(passage) for passage in evidence.passages]
        return Answer(
            text=text,
            quotes=evidence.quotes,
            citations=citations,
            passages=evidence.passages,
            scope=evidence.scope,
            model=None,
            finish_reason="stop",
            segments=transcript_of(Turn(question.text, tuple(passages), text)),
        )

    def _write_with(self, writer: Writer, task: _Task) -> Answer | None:
        question, evidence = task.in_flight.question, task.evidence
        self._publish(AnswerStateChanged(question.question_id, "writing"))
        reserve = answer_reserve(question.sampling.max_tokens, writer.speaker.context_tokens)
        known = self._known_documents(documents_in_transcript(question.transcript))
        history = turns_of_transcript(question.transcript, known)
        prompt = compose(question.text, evidence.passages, history, writer.speaker, reserve)
        writing = Writing()
        timeline, cancelled = task.in_flight.timeline, task.in_flight.cancelled
        for text in writer.write(tokens_of(prompt.segments), question.sampling, timeline, cancelled, writing):
            self._publish(TokensGenerated(question.question_id, text))
            self._loader.note_speed(timeline)
        if writing.was_cancelled:
            return None
        return _answer(question, evidence, prompt.passages, writing, writer.shape.name)


def _answer(
    question: Question, evidence: Evidence, read: Sequence[EvidencePassage], writing: Writing, model: str
) -> Answer:
    """The written answer with its citations; the reader's quotes stand in for citations that cannot be parsed."""
    citations = parse_citations(writing.text, len(read)) or citations_of_quotes(evidence.quotes, len(writing.text))
    return Answer(
        text=writing.text,
        quotes=evidence.quotes,
        citations=citations,
        passages=evidence.passages,
        scope=replace(evidence.scope, passages_used=len(read)),
        model=model,
        finish_reason=writing.finish_reason,
        segments=transcript_of(Turn(question.text, tuple(read), writing.text)),
    )
