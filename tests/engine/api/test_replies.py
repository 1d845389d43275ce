"""Tests for engine.api.replies."""

from __future__ import annotations

import base64
import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from engine.api import replies
from engine.core import Alternative, Answer, Citation, Scope
from engine.embedding import Embedded
from engine.errors import BadRequest, DecodeFailed, ModelNotFound, NothingThere, PromptTooLong, RagdollError
from engine.metrics import Timings
from tests.helpers.answers import passage

HEAD = replies.Head("q", 1, "ragdoll:files")
TIMINGS = Timings(0.0, 0.1, 0.2, 0.3, 1.0, prompt_tokens=100, generated_tokens=7, cached_tokens=90, thought_tokens=2)


def answer(text: str = "Three months [1][2], three [1].", **changes: Any) -> Answer:
    fields: dict[str, Any] = {
        "text": text,
        "quotes": (),
        "citations": (Citation("[1]", 0, 13), Citation("[2]", 1, 16), Citation("[1]", 0, 27)),
        "passages": (passage(0), passage(1), passage(2)),
        "scope": Scope(3, 212, 3),
        "model": "tiny",
        "finish_reason": "stop",
    }
    return Answer(**{**fields, **changes})


def test_a_whole_answer_has_its_words_its_sources_and_what_it_took():
    reply = replies.completion(HEAD, answer(), TIMINGS)
    (choice,) = reply["choices"]
    assert choice["message"] == {"role": "assistant", "content": "Three months [1][2], three [1]."}
    assert choice["finish_reason"] == "stop"
    assert [(one["marker"], one["path"], one["page"]) for one in reply["citations"]] == [
        ("[1]", "/docs/lease-0.pdf", 1),
        ("[2]", "/docs/lease-1.pdf", 2),
    ]
    assert reply["usage"]["total_tokens"] == 107
    assert reply["usage"]["prompt_tokens_details"] == {"cached_tokens": 90}
    assert reply["model"] == "ragdoll:files"


def test_tokens_of_all_answers_are_counted():
    both = replace(TIMINGS, other_tokens=5, other_thought_tokens=3)
    usage = replies.usage([both, TIMINGS])
    assert (usage["completion_tokens"], usage["total_tokens"]) == (7 + 5 + 7, 219)
    assert usage["completion_tokens_details"] == {"reasoning_tokens": 2 + 3 + 2}


def test_an_answer_of_a_model_by_itself_has_no_sources():
    reply = replies.completion(HEAD, answer("Hello.", citations=(), passages=(), scope=Scope(0, 0, 0)), TIMINGS)
    assert "citations" not in reply
    assert "scope" not in reply


def test_vectors_come_as_numbers_or_as_bytes_in_the_order_of_the_texts():
    vectors = np.array([[0.6, -0.8], [1.0, 0.0], [0.0, 1.0]], np.float32)
    slices = [Embedded(vectors[:2], 7, "mini", "mini@1"), Embedded(vectors[2:], 4, "mini", "mini@1")]
    numbers = json.loads(replies.embeddings("mini", slices, in_base64=False))
    assert (numbers["object"], numbers["model"]) == ("list", "mini")
    assert numbers["usage"] == {"prompt_tokens": 11, "total_tokens": 11}
    assert [(one["object"], one["index"]) for one in numbers["data"]] == [("embedding", place) for place in range(3)]
    assert np.array([one["embedding"] for one in numbers["data"]], np.float32).tolist() == vectors.tolist()
    told = json.loads(replies.embeddings("mini", slices, in_base64=True))
    packed = [np.frombuffer(base64.b64decode(one["embedding"]), "<f4").tolist() for one in told["data"]]
    assert packed == vectors.tolist()


def test_texts_that_go_on_from_prompts_are_choices_one_after_the_other():
    head = replies.Head("q", 1, "tiny", is_text=True)
    one = answer(" upon", citations=(), passages=(), alternatives=(Alternative(" more", (), "length"),))
    other = answer(" time.", citations=(), passages=())
    reply = replies.continuations(head, [(one, TIMINGS), (other, TIMINGS)])
    assert (reply["object"], reply["id"]) == ("text_completion", "cmpl-q")
    told = [(choice["index"], choice["text"], choice["finish_reason"]) for choice in reply["choices"]]
    assert told == [(0, " upon", "stop"), (1, " more", "length"), (2, " time.", "stop")]
    assert reply["usage"]["total_tokens"] == 214


def test_a_text_comes_in_pieces_of_text():
    head = replies.Head("q", 1, "tiny", is_text=True)
    assert replies.piece(head, content=" up")["choices"][0]["text"] == " up"
    rest, last = replies.last_pieces(head, answer(" upon", citations=(), passages=()), " up")
    assert rest["choices"][0] == {"index": 0, "text": "on", "finish_reason": None, "logprobs": None}
    assert last["choices"][0] == {"index": 0, "text": "", "finish_reason": "stop", "logprobs": None}
    assert replies.last_usage(head, TIMINGS)["object"] == "text_completion"


def test_turns_of_a_conversation_that_found_no_room_are_told():
    alone = answer("Hello.", citations=(), passages=(), turns_left_out=3)
    assert replies.completion(HEAD, alone, TIMINGS)["turns_left_out"] == 3
    *_, last = replies.last_pieces(HEAD, alone, "Hello.")
    assert last["turns_left_out"] == 3
    assert replies.completion(HEAD, answer(turns_left_out=2), TIMINGS)["turns_left_out"] == 2
    assert "turns_left_out" not in replies.completion(HEAD, answer(), TIMINGS)


def test_other_answers_are_choices_with_sources_of_their_own():
    other = Alternative("Four [2].", (Citation("[2]", 1, 5),), "length", thoughts="Hm.")
    reply = replies.completion(HEAD, answer(alternatives=(other,)), TIMINGS)
    assert [choice["index"] for choice in reply["choices"]] == [0, 1]
    second = reply["choices"][1]
    assert second["message"] == {"role": "assistant", "content": "Four [2].", "reasoning_content": "Hm."}
    assert [one["marker"] for one in second["citations"]] == ["[2]"]
    assert second["finish_reason"] == "length"


def joined(pieces: list[replies.Reply], index: int = 0) -> str:
    choices = [choice for piece in pieces for choice in piece["choices"] if choice["index"] == index]
    return "".join(choice["delta"].get("content", "") for choice in choices)


@pytest.mark.parametrize(("told", "rest"), [("", "Abc."), ("Ab", "c."), ("Abc.", ""), ("Abx", "")])
def test_the_end_of_a_stream_sends_what_is_left(told: str, rest: str):
    pieces = list(replies.last_pieces(HEAD, answer("Abc."), told))
    assert joined(pieces) == rest
    assert pieces[-1]["choices"][0]["finish_reason"] == "stop"


def test_other_answers_come_at_the_end_of_a_stream():
    other = Alternative("Xyz [2].", (Citation("[2]", 1, 4),), "length")
    pieces = list(replies.last_pieces(HEAD, answer("Abc.", alternatives=(other,)), "Abc."))
    assert joined(pieces, 1) == "Xyz [2]."
    (last,) = pieces[-1]["choices"]
    assert last["finish_reason"] == "length"
    assert [one["marker"] for one in last["citations"]] == ["[2]"]


def test_each_answer_of_a_stream_says_whose_it_is():
    pieces = list(replies.last_pieces(HEAD, answer("Abc.", alternatives=(Alternative("Xyz.", (), "stop"),)), "Abc."))
    first = next(piece["choices"][0] for piece in pieces if piece["choices"][0]["index"] == 1)
    assert first["delta"]["role"] == "assistant"


def test_a_path_that_is_no_text_can_be_sent():
    told = replies.of_passage(passage(document="/docs/caf\udce9.pdf"))
    assert json.dumps(told, ensure_ascii=False).encode()


@pytest.mark.parametrize(
    ("error", "status", "code"),
    [
        (BadRequest("No."), 400, "BadRequest"),
        (PromptTooLong("Too long."), 400, "context_length_exceeded"),
        (ModelNotFound("None."), 404, "model_not_found"),
        (NothingThere("None."), 404, "NothingThere"),
        (DecodeFailed("Broken."), 500, "DecodeFailed"),
    ],
)
def test_an_error_says_what_and_whose_it_is(error: RagdollError, status: int, code: str):
    told_status, reply = replies.refusal(error)
    assert (told_status, reply["error"]["code"]) == (status, code)
    assert reply["error"]["message"] == str(error)
    assert reply["error"]["type"] == ("server_error" if status == 500 else "invalid_request_error")
