"""One question at a time, as small applications do it: embed, search LanceDB, generate with llama-cpp-python.

Runs as a side (side_process.py). Settings: `model`, `table`, `num_threads`, `context_tokens`, `is_repacked`,
`first_question`. By default, llama.cpp maps the model's file and reuses the KV of the prefix that a prompt shares with
the previous one; both stay on. It would also copy weights into the processor's preferred layout; copies cannot be
reclaimed under memory pressure, so that is off (`is_repacked`) where the model does not fit.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.bench.plain_retrieval import PlainRetrieval, plain_prompt
from tests.bench.serving_figures import Served
from tests.bench.serving_load import Asked
from tests.bench.serving_turns import Clock, answering_in_turn, in_turn
from tests.bench.side_process import Said, serve


class SerialSide:
    """Retrieval and model, both loaded before the first question."""

    def __init__(self, settings: Said) -> None:
        from llama_cpp import Llama

        if not settings["is_repacked"]:
            leave_weights_in_place()
        self._retrieval = PlainRetrieval(Path(settings["table"]), settings["num_threads"])
        self._context_tokens = settings["context_tokens"]
        self._llama: Any = Llama(
            settings["model"],
            n_ctx=self._context_tokens,
            n_threads=settings["num_threads"],
            n_threads_batch=settings["num_threads"],
            flash_attn=True,
            verbose=False,
        )

    def answer(self, asked: Asked, clock: Clock) -> Served:
        began = clock.now()
        passages = self._retrieval.passages(asked.text, asked.passages)
        retrieved = clock.now()
        prompt = plain_prompt(asked.text, asked.read(passages)).encode()
        tokens = self._llama.tokenize(prompt, add_bos=True, special=True)
        # A prompt that is too long loses its beginning, as in other applications.
        tokens = tokens[-(self._context_tokens - asked.answer_tokens) :]
        # Sampled, because greedy decoding of a random model repeats itself; none of the 40 likeliest tokens ends an
        # answer.
        stream = self._llama.create_completion(
            tokens, max_tokens=asked.answer_tokens, temperature=1.0, top_k=40, repeat_penalty=1.0, stream=True
        )
        times = [clock.now() for _ in stream]
        return Served(
            arrival_s=asked.arrival_s,
            retrieval_began_s=began,
            retrieval_ended_s=retrieved,
            prefill_began_s=retrieved,
            first_token_s=times[0],
            ended_s=times[-1],
            prompt_tokens=len(tokens),
            answer_tokens=len(times) - 1,
        )


def leave_weights_in_place() -> None:
    """Keeps weights of models loaded from now on as file pages, not repacked copies; `Llama` has no option for it."""
    from llama_cpp import llama_cpp

    default_params: Callable[[], Any] = llama_cpp.llama_model_default_params

    def params_in_place() -> Any:
        params = default_params()
        params.use_extra_bufts = False
        return params

    llama_cpp.llama_model_default_params = params_in_place


def prepare(settings: Said) -> Callable[[Said], Said]:
    side = SerialSide(settings)
    warm = Asked(settings["first_question"], 0.0, 1, 2)
    in_turn([warm], side.answer, is_alone=True)
    return answering_in_turn(side.answer)


if __name__ == "__main__":
    serve(prepare)
