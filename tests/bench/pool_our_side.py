"""Our engine with several models: each question names its model, and the pool swaps models in and out.

Runs as a side (side_process.py). Settings: `home`, the engine's folders; `models`; `num_threads`; `max_context` tokens
of an answer with its prompt, `at_once` of them; `ttft_s` and `tpot_s`, the targets. First some long questions are
answered with quotes, so that searching has allocated all it ever will, then each model answers a short one, so that all
are open. A request with `asked` questions submits each at its arrival, and returns the time of each token up to
`until_s` and all switches. A request with `switches` answers the `running` questions all at once until that many
switches, and returns them. An empty request returns the bytes held.
"""

from __future__ import annotations

import queue
import random
import time
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

from engine.config import Home
from engine.core import Question
from engine.engine import Engine
from engine.events import (
    AnswerCancelled,
    AnswerEnded,
    AnswerFailed,
    AnswerFinished,
    Event,
    ModelSwitched,
    TokensGenerated,
)
from engine.memory.heap import lean_heap
from engine.yielding import switch_often
from tests.bench.confined import Group
from tests.bench.joint_side import NO_MODEL
from tests.bench.pool_figures import Reply, Switch, token_times
from tests.bench.pool_load import Asked, words
from tests.bench.sampled import sampled
from tests.bench.serving_turns import Clock
from tests.bench.side_process import Said, group_of, serve

# Finds nothing, because the library is empty.
FIRST_QUESTION = "ba"
_MAX_ENDING_SECONDS = 60.0

News = Switch | TokensGenerated | AnswerEnded


@dataclass(slots=True)
class Open:
    """A question, and the pieces of its answer so far: their times and lengths in characters."""

    asked: Asked
    arrival_s: float
    told: list[tuple[float, int]] = field(default_factory=list)
    has_ended: bool = False
    num_tokens: int | None = None

    @property
    def reply(self) -> Reply:
        """Returns the reply; in an answer that was cut off, each piece counts as a token."""
        num_tokens = len(self.told) if self.num_tokens is None else self.num_tokens
        times = token_times(self.told, num_tokens)
        return Reply(self.asked.model, self.arrival_s, self.asked.answer_tokens, times)


class OurPoolSide:
    """An open engine; `close` closes it."""

    def __init__(self, settings: Said, group: Group) -> None:
        self._group, self._models = group, settings["models"]
        self._heard: queue.SimpleQueue[tuple[News, float]] = queue.SimpleQueue()
        self._num_asked = 0
        with ExitStack() as undo:
            self.engine = undo.enter_context(Engine(Home.under(Path(settings["home"]))))
            self.engine.change_settings(
                {
                    # Words of a question that look like file names would restrict its search.
                    "retrieval.reads_filters": False,
                    "generation.num_threads": settings["num_threads"],
                    "generation.max_context": settings["max_context"],
                    "generation.parallel_answers": settings["at_once"],
                    "generation.ttft_target_seconds": settings["ttft_s"],
                    "generation.tpot_target_seconds": settings["tpot_s"],
                }
            )
            # Loads libraries and embedder first, so that their memory is known and no plan gives it to a model.
            self.engine.use_model(None)
            self.engine.ask_many(_long_questions(settings["max_context"], 2 * settings["at_once"]), model=NO_MODEL)
            for model in self._models:
                self.engine.ask(FIRST_QUESTION, sampling=sampled(2), model=model)
            undo.callback(self.engine.subscribe(self._note))
            self._closing = undo.pop_all()

    def answer(self, asked: Sequence[Asked], until_s: float) -> tuple[list[Reply], list[Switch]]:
        """Submits each question at its arrival, and cancels what has not ended by `until_s`."""
        self._begin()
        waiting = deque(asked)
        while (waiting or self._has_open) and self._clock.now() < until_s:
            while waiting and waiting[0].arrival_s <= self._clock.now():
                self._submit(waiting.popleft())
            self._hear(min(until_s, waiting[0].arrival_s if waiting else until_s))
        self._end()
        return [one.reply for one in self._open.values()], self._switches

    def switch(self, running: Sequence[Asked], num_switches: int) -> list[Switch]:
        """Answers all questions at once until `num_switches` switches, or until all are answered."""
        self._begin()
        for one in running:
            self._submit(one)
        while self._has_open and len(self._switches) < num_switches:
            self._hear(self._clock.now() + 1.0)
        self._end()
        return self._switches

    def held_bytes(self) -> int:
        return self._group.usage().held_bytes

    def close(self) -> None:
        self._closing.close()

    @property
    def _has_open(self) -> bool:
        return any(not one.has_ended for one in self._open.values())

    def _begin(self) -> None:
        self._clock, self._open, self._switches = Clock(), dict[str, Open](), list[Switch]()

    def _end(self) -> None:
        for question_id, one in self._open.items():
            if not one.has_ended:
                self.engine.cancel(question_id)
        until = self._clock.now() + _MAX_ENDING_SECONDS
        while self._has_open and self._clock.now() < until:
            self._hear(until)

    def _submit(self, asked: Asked) -> None:
        self._num_asked += 1
        question_id, sampling = str(self._num_asked), sampled(asked.answer_tokens, seed=self._num_asked)
        self._open[question_id] = Open(asked, asked.arrival_s)
        self.engine.submit(Question(question_id, asked.text, sampling=sampling, model=self._models[asked.model]))

    def _hear(self, until_s: float) -> None:
        """Handles the next event, waiting for it no longer than until `until_s`."""
        try:
            news, at = self._heard.get(timeout=max(0.0, until_s - self._clock.now()))
        except queue.Empty:
            return
        at_s = self._clock.of(at)
        match news:
            case Switch():
                self._switches.append(news)
            case TokensGenerated(question_id=question_id, text=text):
                self._open[question_id].told.append((at_s, len(text)))
            case AnswerFinished(question_id=question_id, answer=answer, timings=timings):
                assert answer.model is not None, "answered without its model"
                self._open[question_id].num_tokens = timings.generated_tokens
                self._open[question_id].has_ended = True
            case AnswerFailed(error=error):
                raise error
            case AnswerCancelled(question_id=question_id):
                self._open[question_id].has_ended = True

    def _note(self, event: Event) -> None:
        now = time.perf_counter()
        match event:
            case ModelSwitched(left=left) if left:
                self._heard.put((Switch(event.out_seconds, event.in_seconds, event.moved_bytes), now))
            case TokensGenerated() | AnswerFinished() | AnswerFailed() | AnswerCancelled():
                self._heard.put((event, now))


def _long_questions(num_tokens: int, count: int) -> list[str]:
    random_ = random.Random(0)
    return [words(num_tokens // 2, random_) for _ in range(count)]


def prepare(settings: Said) -> Callable[[Said], Said]:
    lean_heap()  # as the application does, as below
    switch_often()
    side = OurPoolSide(settings, group_of(settings))

    def answer(asked: Said) -> Said:
        if "asked" in asked:
            replies, switches = side.answer([Asked.heard(one) for one in asked["asked"]], asked["until_s"])
            return {"replies": [one.told() for one in replies], "switches": [one.told() for one in switches]}
        if "switches" in asked:
            switches = side.switch([Asked.heard(one) for one in asked["running"]], asked["switches"])
            return {"switches": [one.told() for one in switches]}
        return {"held_bytes": side.held_bytes()}

    return answer


if __name__ == "__main__":
    serve(prepare)
