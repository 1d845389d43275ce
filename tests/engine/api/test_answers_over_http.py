"""Tests for engine.api with a real engine, library and model: what others get, and what is kept for them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import requests

from engine.api.server import Server
from engine.config import ServerSettings
from engine.core import SamplingParams
from engine.engine import Engine
from tests.helpers.tiny_gguf import write_tiny_model

CONTEXT_TOKENS = 1280
TEXT = "Threads share state through a mutex. The lease ends in May. Rent is due on the third."


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tiny_model(tmp_path_factory.mktemp("models") / "tiny.gguf", never_ends=True)


@pytest.fixture
def address(tmp_path: Path, model: Path) -> Iterator[str]:
    (tmp_path / "notes.md").write_text(TEXT)
    with Engine.open(tmp_path / "home") as engine:
        engine.add([tmp_path / "notes.md"])
        engine.change_settings({"generation.max_context": CONTEXT_TOKENS})
        engine.use_model(model)
        server = Server(engine)
        try:
            server.follow(ServerSettings(enabled=True, port=0, needs_key=False))
            yield server.state.address
        finally:
            server.close()


def chat(address: str, messages: list[dict[str, str]], **fields: Any) -> Any:
    body = {"model": "tiny", "messages": messages, "max_tokens": 8, "temperature": 0, **fields}
    reply = requests.post(f"{address}/chat/completions", json=body, timeout=60)
    assert reply.ok, reply.text
    return reply.json()


def asked(text: str) -> dict[str, str]:
    return {"role": "user", "content": text}


def test_quotes_come_from_the_files_with_where_they_stand(address: str):
    reply = chat(address, [asked("When does the lease end?")], model="none:files")
    assert "The lease ends in May." in reply["choices"][0]["message"]["content"]
    assert reply["citations"][0]["title"] == "notes.md"


def test_a_model_reads_what_was_found(address: str):
    reply = chat(address, [asked("When does the lease end?")], model="tiny:files")
    assert reply["scope"]["passages_used"] == 1
    assert reply["usage"]["completion_tokens"] == 8
    assert reply["choices"][0]["finish_reason"] == "length"


@pytest.mark.parametrize("limit", [None, -1])
def test_an_answer_of_which_no_limit_is_said_goes_on_to_the_end_of_the_context(address: str, limit: int | None):
    reply = chat(address, [asked("Tell me of bees.")], max_tokens=limit)
    assert reply["usage"]["completion_tokens"] > SamplingParams().max_tokens
    assert (reply["usage"]["total_tokens"], reply["choices"][0]["finish_reason"]) == (CONTEXT_TOKENS, "length")


def test_the_next_question_of_a_conversation_reads_only_what_is_new(address: str):
    system = {"role": "system", "content": "You speak of threads and of nothing else. " * 8}
    first = chat(address, [system, asked("What do threads share?")])
    answer = {"role": "assistant", "content": first["choices"][0]["message"]["content"]}
    second = chat(address, [system, asked("What do threads share?"), answer, asked("Why?")])
    usage = second["usage"]
    cached = usage["prompt_tokens_details"]["cached_tokens"]
    assert first["usage"]["prompt_tokens"] <= cached < usage["prompt_tokens"]


def test_the_answer_is_that_of_the_prompt_as_it_was_sent(address: str):
    alone = chat(address, [asked("Tell me of bees.")])
    told = chat(address, [{"role": "system", "content": "Be brief."}, asked("Tell me of bees.")])
    # Nothing of ours stands before the one, and only their own words before the other.
    assert alone["usage"]["prompt_tokens"] < told["usage"]["prompt_tokens"] < alone["usage"]["prompt_tokens"] + 40


def test_a_model_by_itself_reads_no_passage_of_an_earlier_answer(address: str):
    words = [asked("When does the lease end?")]
    first = chat(address, words, model="tiny:files")
    words += [{"role": "assistant", "content": first["choices"][0]["message"]["content"]}, asked("Why?")]
    alone = chat(address, words)
    # As many tokens as where nobody remembers it.
    words[1]["content"] += "."
    assert alone["usage"]["prompt_tokens"] < chat(address, words)["usage"]["prompt_tokens"] + 5


def test_instructions_that_do_not_fit_are_refused_not_cut(address: str):
    body = {"model": "tiny", "messages": [{"role": "system", "content": "Be brief. " * 2000}, asked("Well?")]}
    reply = requests.post(f"{address}/chat/completions", json=body, timeout=60)
    assert reply.status_code == 400
    assert reply.json()["error"]["code"] == "context_length_exceeded"


def test_a_prompt_is_read_as_it_was_sent_and_what_begins_like_another_is_not_read_again(address: str):
    def complete(prompt: Any, **fields: Any) -> Any:
        body = {"model": "tiny", "prompt": prompt, "max_tokens": 8, "temperature": 0, **fields}
        reply = requests.post(f"{address}/completions", json=body, timeout=60)
        assert reply.ok, reply.text
        return reply.json()

    one, two = (complete(text) for text in ("Tell me of bees.", "Tell me of ants."))
    assert one["usage"]["prompt_tokens"] < chat(address, [asked("Tell me of bees.")])["usage"]["prompt_tokens"]
    assert one["choices"][0]["finish_reason"] == "length"
    both = complete(["Tell me of bees.", "Tell me of ants."])
    assert [choice["text"] for choice in both["choices"]] == [reply["choices"][0]["text"] for reply in (one, two)]
    long = "Bees and ants live in large groups. " * 20
    complete(long + "Tell me of bees.")
    usage = complete(long + "Tell me of ants.")["usage"]
    assert usage["prompt_tokens_details"]["cached_tokens"] >= 128
    refused = requests.post(f"{address}/completions", json={"model": "tiny", "prompt": "bees " * 4000}, timeout=60)
    assert refused.json()["error"]["code"] == "context_length_exceeded"


def test_vectors_of_the_library_s_own_model_are_for_others_as_well(address: str):
    names = [model["id"] for model in requests.get(f"{address}/models", timeout=60).json()["data"]]
    texts = ["The lease ends in May.", "Threads share state.", "When does the lease end?"]
    body = {"model": names[-1], "input": texts}
    reply = requests.post(f"{address}/embeddings", json=body, timeout=60).json()
    vectors = np.array([one["embedding"] for one in reply["data"]])
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1.0, atol=1e-5)
    assert vectors[2] @ vectors[0] > vectors[2] @ vectors[1] + 0.2
    assert reply["model"] == names[-1]
    assert reply["usage"]["prompt_tokens"] > len(" ".join(texts).split())
    refused = requests.post(f"{address}/embeddings", json={**body, "model": "tiny"}, timeout=60)
    assert refused.status_code == 404


def test_several_ask_at_once(address: str):
    from concurrent.futures import ThreadPoolExecutor

    questions = [f"What is the {n}th word?" for n in range(12)]
    one_by_one = [chat(address, [asked(text)])["choices"][0]["message"]["content"] for text in questions[:3]]
    with ThreadPoolExecutor(12) as pool:
        replies = list(pool.map(lambda text: chat(address, [asked(text)]), questions))
    texts = [reply["choices"][0]["message"]["content"] for reply in replies]
    assert all(texts)
    assert texts[:3] == one_by_one
