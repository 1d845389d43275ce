"""llama-server with several slots and its prompt cache, and plain retrieval before each request.

Runs as a side (side_process.py); the server is a child process, so both share the limit. Settings: `binary`, `model`,
`table`, `num_threads`, `num_slots`, `num_cells` of all slots together, `cache_mib`, `is_repacked`. Questions are
searched one after the other as they arrive, and sent to the server at once: it has a queue of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from tests.bench.llama_server import LlamaServer, ServerOptions
from tests.bench.plain_retrieval import PlainRetrieval, plain_prompt
from tests.bench.serving_figures import Run, Served
from tests.bench.serving_load import Asked
from tests.bench.serving_turns import Clock, in_turn
from tests.bench.side_process import Said, serve


class ServerSide:
    """A server and its retrieval; `close` ends the server."""

    def __init__(self, settings: Said) -> None:
        from llama_cpp import Llama

        self._retrieval = PlainRetrieval(Path(settings["table"]), settings["num_threads"])
        self._vocabulary: Any = Llama(settings["model"], vocab_only=True, verbose=False)
        self._slot_tokens = settings["num_cells"] // settings["num_slots"]
        options = ServerOptions(
            settings["num_cells"],
            settings["num_threads"],
            settings["num_slots"],
            cache_mib=settings["cache_mib"],
            is_repacked=settings["is_repacked"],
        )
        with ExitStack() as undo:
            started = LlamaServer.started(Path(settings["binary"]), Path(settings["model"]), options)
            self._server = undo.enter_context(started)
            self._searching = undo.enter_context(ThreadPoolExecutor(1))
            self._closing = undo.pop_all()

    def answer(self, asked: Asked, clock: Clock) -> Served:
        began, retrieved, passages = self._searching.submit(self._search, asked, clock).result()
        prompt = plain_prompt(asked.text, asked.read(passages)).encode()
        tokens = self._vocabulary.tokenize(prompt, add_bos=True, special=True)
        tokens = tokens[-(self._slot_tokens - asked.answer_tokens) :]
        streamed = self._server.complete(tokens, asked.answer_tokens)
        first, ended = clock.of(streamed.token_times[0]), clock.of(streamed.token_times[-1])
        return Served(
            arrival_s=asked.arrival_s,
            retrieval_began_s=began,
            retrieval_ended_s=retrieved,
            prefill_began_s=max(retrieved, first - streamed.prompt_seconds),
            first_token_s=first,
            ended_s=ended,
            prompt_tokens=len(tokens),
            cached_tokens=streamed.cached_tokens,
            answer_tokens=len(streamed.token_seconds),
        )

    def as_they_come(self, asked: Sequence[Asked]) -> Run:
        clock = Clock()

        def answer(one: Asked) -> Served:
            clock.sleep_until(one.arrival_s)
            return self.answer(one, clock)

        with ThreadPoolExecutor(len(asked)) as pool:
            return Run(tuple(pool.map(answer, asked)))

    def close(self) -> None:
        self._closing.close()

    def _search(self, asked: Asked, clock: Clock) -> tuple[float, float, list[str]]:
        began = clock.now()
        passages = self._retrieval.passages(asked.text, asked.passages)
        return began, clock.now(), passages


def prepare(settings: Said) -> Callable[[Said], Said]:
    side = ServerSide(settings)
    in_turn([Asked(settings["first_question"], 0.0, 1, 2)], side.answer, is_alone=True)

    def answer(asked: Said) -> Said:
        if not asked:
            return {}
        questions = [Asked.heard(one) for one in asked["asked"]]
        if asked["is_alone"]:
            return in_turn(questions, side.answer, is_alone=True).told()
        return side.as_they_come(questions).told()

    return answer


if __name__ == "__main__":
    serve(prepare)
