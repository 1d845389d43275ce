"""llama-server as a router: it starts a server per requested model and ends the least recently used one.

Runs as a side (side_process.py); router and servers are child processes, so all share the limit. Settings: `binary`;
`folder` of the models and their `names`; `most` of them loaded at a time; `num_threads`, `num_slots`, `slot_tokens` and
`is_repacked` of each server. A request with `warms` has each of these models generate two tokens in turn. A request
with `asked` submits each question at its arrival, retries refused ones, and returns the time of each token up to
`until_s` and the refusals. An empty request returns the bytes held.

The router ends no server that is generating, and starts waiting models in the order of their requests. It refuses a
question whose model it is just ending.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import ExitStack
from http.client import HTTPException
from pathlib import Path
from typing import Any

from tests.bench.confined import Group
from tests.bench.llama_server import LlamaServer, ServerOptions
from tests.bench.peers import PeerFailed
from tests.bench.plain_retrieval import plain_prompt
from tests.bench.pool_figures import Reply
from tests.bench.pool_load import Asked
from tests.bench.serving_turns import Clock
from tests.bench.side_process import Said, group_of, serve

RETRY_SECONDS = 0.1


class RouterSide:
    """A running router; `close` ends it."""

    def __init__(self, settings: Said, group: Group) -> None:
        from llama_cpp import Llama

        self._group, self._names = group, settings["names"]
        folder = Path(settings["folder"])
        # All models have the same vocabulary.
        self._vocabulary: Any = Llama(str(folder / f"{self._names[0]}.gguf"), vocab_only=True, verbose=False)
        options = ServerOptions(
            num_cells=settings["num_slots"] * settings["slot_tokens"],
            num_threads=settings["num_threads"],
            num_slots=settings["num_slots"],
            # The cache would be lost with its server, and take memory from another model until then.
            cache_mib=0,
            is_repacked=settings["is_repacked"],
        )
        # The servers share the cores. With GOMP's default, idle threads would spin for 3 ms and keep other servers from
        # computing.
        os.environ["GOMP_SPINCOUNT"] = "1000"
        with ExitStack() as undo:
            started = LlamaServer.routing(Path(settings["binary"]), folder, settings["most"], options)
            self._server = undo.enter_context(started)
            self._closing = undo.pop_all()

    def warm(self, models: Sequence[int]) -> None:
        for model in models:
            self._server.complete(self._tokens(Asked("ba", model, 0.0, 2)), 2, model=self._names[model])

    def answer(self, asked: Sequence[Asked], until_s: float) -> list[Reply]:
        """Submits each question at its arrival; nothing is waited for after `until_s`."""
        clock, times, self.refused = Clock(), [list[float]() for _ in asked], list[str]()
        prompts = [self._tokens(one) for one in asked]
        pool = ThreadPoolExecutor(len(asked))
        answers = [
            pool.submit(self._answer, one, prompt, clock, noted, until_s)
            for one, prompt, noted in zip(asked, prompts, times, strict=True)
        ]
        wait(answers, timeout=until_s - clock.now())
        pool.shutdown(wait=False)
        return [
            Reply(one.model, one.arrival_s, one.answer_tokens, tuple(noted))
            for one, noted in zip(asked, times, strict=True)
        ]

    def held_bytes(self) -> int:
        return self._group.usage().held_bytes

    def close(self) -> None:
        self._closing.close()

    def _answer(self, asked: Asked, prompt: Sequence[int], clock: Clock, noted: list[float], until_s: float) -> None:
        clock.sleep_until(asked.arrival_s)
        while len(noted) < asked.answer_tokens and clock.now() < until_s:
            noted.clear()
            try:
                self._server.complete(
                    prompt, asked.answer_tokens, lambda _: noted.append(clock.now()), self._names[asked.model]
                )
            except (PeerFailed, OSError, HTTPException) as error:
                self.refused.append(str(error))
                time.sleep(RETRY_SECONDS)

    def _tokens(self, asked: Asked) -> list[int]:
        prompt = plain_prompt(asked.text, ()).encode()
        tokens: list[int] = self._vocabulary.tokenize(prompt, add_bos=True, special=True)
        return tokens


def prepare(settings: Said) -> Callable[[Said], Said]:
    side = RouterSide(settings, group_of(settings))

    def answer(asked: Said) -> Said:
        if "warms" in asked:
            side.warm(asked["warms"])
        if "asked" in asked:
            questions = [Asked.heard(one) for one in asked["asked"]]
            replies = side.answer(questions, asked["until_s"])
            return {"replies": [reply.told() for reply in replies], "refused": side.refused}
        return {"held_bytes": side.held_bytes()}

    return answer


if __name__ == "__main__":
    serve(prepare)
