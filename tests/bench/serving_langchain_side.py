"""LangChain with Chroma and llama-cpp-python, combined as documented: one question at a time.

Runs as a side (side_process.py) in an environment that has them. Settings: `model`, `num_threads`, `context_tokens`,
`is_repacked`, `texts` (a file with the documents' chunks as a JSON list), `store`, Chroma's folder, filled by the first
run; `first_question`.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from engine.config import EmbedderSettings
from engine.embedder import resolve
from tests.bench.plain_retrieval import plain_prompt
from tests.bench.serving_figures import Served
from tests.bench.serving_load import Asked
from tests.bench.serving_serial_side import leave_weights_in_place
from tests.bench.serving_turns import Clock, answering_in_turn, in_turn
from tests.bench.side_process import Said, serve

PACKAGES = ("langchain-community", "langchain-chroma", "langchain-huggingface", "chromadb")
IMPORTS = ("langchain_community", "langchain_chroma", "langchain_huggingface", "chromadb", "llama_cpp", "torch")
_ADDED_AT_ONCE = 500


class LangChainSide:
    """A retriever over the documents, a prompt and a model."""

    def __init__(self, settings: Said) -> None:
        from langchain_chroma import Chroma
        from langchain_community.llms import LlamaCpp
        from langchain_huggingface import HuggingFaceEmbeddings

        if not settings["is_repacked"]:
            leave_weights_in_place()
        embeddings = HuggingFaceEmbeddings(model_name=str(resolve(EmbedderSettings()).folder))
        self._store: Any = Chroma("bench", embedding_function=embeddings, persist_directory=settings["store"])
        texts = json.loads(Path(settings["texts"]).read_text(encoding="utf-8"))
        if not self._store.get(limit=1)["ids"]:
            for start in range(0, len(texts), _ADDED_AT_ONCE):
                self._store.add_texts(texts[start : start + _ADDED_AT_ONCE])
        self._model: Any = LlamaCpp(
            model_path=settings["model"],
            n_ctx=settings["context_tokens"],
            n_threads=settings["num_threads"],
            n_batch=512,
            temperature=1.0,
            top_k=40,
            repeat_penalty=1.0,
            verbose=False,
        )
        self._context_tokens = settings["context_tokens"]

    def answer(self, asked: Asked, clock: Clock) -> Served:
        began = clock.now()
        found = self._store.as_retriever(search_kwargs={"k": asked.passages}).invoke(asked.text)
        retrieved = clock.now()
        prompt = plain_prompt(asked.text, asked.read([document.page_content for document in found]))
        times = [clock.now() for _ in self._model.stream(prompt, max_tokens=asked.answer_tokens)]
        return Served(
            arrival_s=asked.arrival_s,
            retrieval_began_s=began,
            retrieval_ended_s=retrieved,
            prefill_began_s=retrieved,
            first_token_s=times[0],
            ended_s=clock.now(),
            prompt_tokens=self._model.get_num_tokens(prompt),
            answer_tokens=asked.answer_tokens,
        )


def prepare(settings: Said) -> Callable[[Said], Said]:
    side = LangChainSide(settings)
    in_turn([Asked(settings["first_question"], 0.0, 1, 2)], side.answer, is_alone=True)
    return answering_in_turn(side.answer)


if __name__ == "__main__":
    serve(prepare)
