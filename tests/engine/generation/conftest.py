"""A generation worker on a tiny model, and a way to wait for the end of a question."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from engine.config import Settings
from engine.core import Citation, Evidence, Passage, Question, Quote, SamplingParams, Scope, Unfinished
from engine.events import AnswerCancelled, AnswerFailed, AnswerFinished, Event, ModelStateChanged, TokensGenerated
from engine.generation import loader
from engine.generation.commands import AtOnce, InTurn
from engine.generation.load_plan import Planning, unmeasured
from engine.generation.refreshes import EvidenceSource
from engine.generation.worker import GenerationWorker
from engine.inflight import QuestionInFlight
from engine.memory.ledger import Ledger
from tests.helpers.loaders import loader_in
from tests.helpers.one_kernel import take_one_kernel
from tests.helpers.tiny_gguf import write_tiny_model

ENDS = (AnswerFinished, AnswerCancelled, AnswerFailed)
PASSAGES = tuple(
    Passage(
        f"r{n}", n, f"/lib/doc{n}.md", 0, None, 0, 20, "", f"Threads share state number {n} through a mutex.", 1 / n
    )
    for n in (1, 2, 3)
)
EVIDENCE = Evidence(PASSAGES, (Quote("Threads share state", 0, "/lib/doc1.md", None, 0, 19, 0.9),), Scope(3, 8, 3))


@pytest.fixture
def one_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    take_one_kernel(monkeypatch)


@pytest.fixture(scope="session")
def tiny_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tiny_model(tmp_path_factory.mktemp("models") / "tiny.gguf")


class Desk:
    """The worker with its ledger, everything it said, and the questions put to it.

    `planning` places the models: if not otherwise said, by their headers alone. Nothing takes longer than `patience_s`.
    """

    patience_s = 60.0

    def __init__(
        self, data_folder: Path, more_evidence: EvidenceSource | None = None, planning: Planning = unmeasured
    ) -> None:
        self.events: list[Event] = []
        self._said: queue.Queue[Event] = queue.Queue()
        self._at_text: dict[str, Callable[[], object]] = {}
        self.ledger = Ledger()
        self.known: set[int] | None = None
        self.settings = Settings()
        self.loader = loader_in(data_folder, self._take, self.ledger, lambda: self.settings, planning)
        self.reorder_loss, self.has_power = 0.0, False
        self.worker = GenerationWorker(
            self.loader,
            self._known,
            quote_answer,
            self._take,
            reorder_loss=lambda: self.reorder_loss,
            has_power_to_spare=lambda: self.has_power,
            more_evidence=more_evidence,
        )
        self.worker.start()

    def ask(
        self,
        text: str,
        question_id: str = "q",
        transcript=(),
        evidence=EVIDENCE,
        unfinished: Unfinished | None = None,
        **sampling,
    ) -> QuestionInFlight:
        question = Question(question_id, text, transcript=transcript, unfinished=unfinished)
        return self.put(question, evidence, **sampling)

    def ask_alone(self, text: str, question_id: str = "q", transcript=(), **sampling) -> QuestionInFlight:
        """Without files: the model alone."""
        question = Question(question_id, text, transcript=transcript, searches=False)
        return self.put(question, Evidence((), (), Scope(0, 0, 0)), **sampling)

    def put(self, question: Question, evidence: Evidence, **sampling) -> QuestionInFlight:
        params = SamplingParams(**{"max_tokens": 24, "temperature": 0.0, "seed": 7, **sampling})
        in_flight = QuestionInFlight(replace(question, sampling=params))
        self.worker.submit(in_flight, evidence)
        return in_flight

    def at_text_of(self, question_id: str, act: Callable[[], object]) -> None:
        """Acts at an answer's first text, on the generation thread: the answer cannot end before."""
        self._at_text[question_id] = act

    def wait_for_more(self) -> None:
        """Has the generation thread compute nothing until it is told something; for `at_text_of`."""
        self.wait_until(lambda: not self.worker._inbox.empty())

    def end_of(self, question_id: str = "q") -> Event:
        return self.wait_for(lambda event: isinstance(event, ENDS) and event.question_id == question_id)

    def end_of_any(self) -> Event:
        return self.wait_for(lambda event: isinstance(event, ENDS))

    def model_state(self, state: str) -> ModelStateChanged:
        return self.wait_for(lambda event: isinstance(event, ModelStateChanged) and event.state == state)

    def all_kept_is_known(self) -> None:
        """Waits until the folder of what is kept has been looked through, after the model has been loaded."""
        self.wait_until(lambda: self.loader.planner.shared.opened_files.scanned.is_set())

    def wait_for(self, is_wanted) -> Event:
        while True:
            event = self._said.get(timeout=self.patience_s)
            if is_wanted(event):
                return event

    def wait_until(self, is_so) -> None:
        deadline = time.monotonic() + self.patience_s
        while not is_so():
            assert time.monotonic() < deadline
            time.sleep(0.005)

    def _known(self, ids):
        return ids if self.known is None else self.known

    def _take(self, event: Event) -> None:
        self.events.append(event)
        self._said.put(event)
        if isinstance(event, TokensGenerated) and event.question_id in self._at_text:
            self._at_text.pop(event.question_id)()


def quote_answer(quotes) -> tuple[str, tuple[Citation, ...]]:
    return "“Threads share state” [1]", (Citation("[1]", 0, 22),)


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    desk = Desk(tmp_path)
    yield desk
    desk.worker.stop()
    assert desk.ledger.spans() == ()


@pytest.fixture
def all_is_written(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who stops waits for the disk, however slow it is, until all that is kept lies there."""
    monkeypatch.setattr(loader, "KEEPING_SECONDS", 60.0)


@pytest.fixture
def at_once(monkeypatch: pytest.MonkeyPatch) -> Callable[[], AbstractContextManager[None]]:
    """A time in which the worker takes in nothing, so that all of it comes together."""
    take, goes_on = GenerationWorker._take, threading.Event()

    def held_take(self: GenerationWorker, item: InTurn | AtOnce):
        assert goes_on.wait(60)
        take(self, item)

    @contextmanager
    def holding() -> Iterator[None]:
        goes_on.clear()
        yield
        goes_on.set()

    goes_on.set()
    monkeypatch.setattr(GenerationWorker, "_take", held_take)
    return holding
