"""Plain retrieval, and a model that Accelerate keeps partly on the disk: one question at a time.

Runs as a side (side_process.py) in an environment that has both. Settings: those of accelerate_side.py, and `model`,
the file whose vocabulary tokenizes the prompts; `table`; `first_question`.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.bench.accelerate_side import AccelerateSide
from tests.bench.confined import Group
from tests.bench.plain_retrieval import PlainRetrieval, plain_prompt
from tests.bench.serving_figures import Served
from tests.bench.serving_load import Asked
from tests.bench.serving_turns import Clock, answering_in_turn
from tests.bench.side_process import Said, group_of, serve


class AccelerateServingSide:
    """Retrieval and model; retrieval is loaded first, so that the model gets only the memory it leaves."""

    def __init__(self, settings: Said, group: Group) -> None:
        from llama_cpp import Llama

        self._retrieval = PlainRetrieval(Path(settings["table"]), settings["num_threads"])
        self._retrieval.passages(settings["first_question"], 1)
        self._vocabulary: Any = Llama(settings["model"], vocab_only=True, verbose=False)
        self._writing = AccelerateSide(settings, group)

    def answer(self, asked: Asked, clock: Clock) -> Served:
        began = clock.now()
        passages = self._retrieval.passages(asked.text, asked.passages)
        retrieved = clock.now()
        prompt = plain_prompt(asked.text, asked.read(passages)).encode()
        tokens = self._vocabulary.tokenize(prompt, add_bos=True, special=True)
        written = self._writing.write(tokens, asked.answer_tokens)
        return Served(
            arrival_s=asked.arrival_s,
            retrieval_began_s=began,
            retrieval_ended_s=retrieved,
            prefill_began_s=retrieved,
            first_token_s=retrieved + written.read_seconds,
            ended_s=clock.now(),
            prompt_tokens=len(tokens),
            answer_tokens=asked.answer_tokens,
        )


def prepare(settings: Said) -> Callable[[Said], Said]:
    side = AccelerateServingSide(settings, group_of(settings))
    return answering_in_turn(side.answer)


if __name__ == "__main__":
    serve(prepare)
