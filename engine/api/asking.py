"""One question of another application: its events as an asynchronous stream, cancelled when the client leaves."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from engine.core import Question
from engine.engine import Engine
from engine.events import AnswerCancelled, AnswerFailed, AnswerFinished, Event


class AnswerEvents:
    """What happens to one question, in order, until it has ended."""

    def __init__(self, question_id: str) -> None:
        self._question_id = question_id
        self._loop = asyncio.get_running_loop()
        self._queue: asyncio.Queue[Event] = asyncio.Queue()

    def listen(self, event: Event) -> None:
        """Receives the engine's events, on its threads."""
        # A loop that has ended meanwhile cannot receive events, and no caller waits for it.
        if getattr(event, "question_id", None) == self._question_id and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._queue.put_nowait, event)

    async def next(self, patience_s: float) -> Event | None:
        """Returns the next event; None if there was none within `patience_s` seconds."""
        try:
            return await asyncio.wait_for(self._queue.get(), patience_s)
        except TimeoutError:
            return None

    async def end(self) -> AnswerFinished | AnswerCancelled | AnswerFailed:
        while True:
            event = await self._queue.get()
            if isinstance(event, AnswerFinished | AnswerCancelled | AnswerFailed):
                return event


@asynccontextmanager
async def asked(engine: Engine, question: Question, turn: asyncio.Lock) -> AsyncIterator[AnswerEvents]:
    """Submits a question; it is cancelled if the block is left before the answer has ended.

    Args:
        engine: Answers it.
        question: The question.
        turn: Held while a model's file is checked; checks of one model run one after another.

    Raises:
        RagdollError: The question is refused.
    """
    events = AnswerEvents(question.question_id)
    unsubscribe = engine.subscribe(events.listen)
    try:
        hand_over = engine.take(question)
        try:
            # Checking a model's file may take minutes on a share that hangs: all requests for that model then share
            # one thread, even after their clients have left.
            await asyncio.shield(asyncio.ensure_future(_in_turn(turn, hand_over)))
            yield events
        finally:
            engine.cancel(question.question_id)
    finally:
        unsubscribe()


async def _in_turn(turn: asyncio.Lock, work: Callable[[], None]) -> None:
    async with turn:
        await asyncio.to_thread(work)
