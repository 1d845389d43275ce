"""Tests for engine.api.requests."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from pydantic import ValidationError

from engine.api.requests import (
    MAX_TEXT_CHARACTERS,
    MAX_TEXTS,
    ChatRequest,
    CompletionRequest,
    EmbeddingsRequest,
    SearchRequest,
)
from engine.core import Filters, SamplingParams
from engine.errors import BadRequest

USUAL = SamplingParams(max_tokens=77, temperature=0.3, stop=("END",), seed=5)
# Who says nothing of how long it may be.
UNSAID = replace(USUAL, is_open_ended=True)


def request(**fields: Any) -> ChatRequest:
    body = {"model": "m", "messages": [{"role": "user", "content": "Hello"}], **fields}
    return ChatRequest.model_validate_json(json.dumps(body))


def test_what_is_not_said_is_as_usual():
    assert request(user="somebody", store=False).sampling(USUAL) == UNSAID


def test_null_says_nothing():
    names = ChatRequest.model_fields.keys() - {"model", "messages"}
    nothing = request(**dict.fromkeys(names))
    assert nothing == request()
    assert nothing.sampling(USUAL) == UNSAID
    of_json = {"type": "json_schema", "json_schema": {"name": "x", "strict": None, "schema": None}}
    assert request(response_format=of_json).sampling(USUAL).json_schema == '{"type": "object"}'


@pytest.mark.parametrize(
    ("fields", "name", "value"),
    [
        ({"max_tokens": 9}, "max_tokens", 9),
        ({"max_tokens": 9, "max_completion_tokens": 8}, "max_tokens", 8),
        ({"temperature": 0}, "temperature", 0),
        ({"top_p": 0.5}, "top_p", 0.5),
        ({"stop": "\n"}, "stop", ("\n",)),
        ({"stop": ["a", "b"]}, "stop", ("a", "b")),
        ({"stop": []}, "stop", ()),
        ({"max_tokens": 9}, "is_open_ended", False),
        ({"max_completion_tokens": 9}, "is_open_ended", False),
        ({"max_tokens": -1}, "is_open_ended", True),
        ({"max_tokens": 9, "max_completion_tokens": -1}, "max_tokens", 9),
        ({"top_k": -1}, "top_k", 0),
        ({"seed": -1}, "seed", 5),
        ({"seed": 0}, "seed", 0),
        ({"n": 3}, "num_answers", 3),
        ({"logit_bias": {"42": -100}}, "logit_bias", ((42, -100.0),)),
        ({"reasoning_effort": "low"}, "thinks", True),
        ({"reasoning_effort": "none"}, "thinks", False),
        ({"reasoning_effort": ""}, "thinks", False),
        ({"presence_penalty": 1.5}, "presence_penalty", 1.5),
        ({"grammar": 'root ::= "a"'}, "grammar", 'root ::= "a"'),
        ({"response_format": {"type": "json_object"}}, "json_schema", '{"type": "object"}'),
        (
            {"response_format": {"type": "json_schema", "json_schema": {"name": "x", "schema": {"type": "array"}}}},
            "json_schema", '{"type": "array"}',
        ),
    ],
)  # fmt: skip
def test_what_is_said_is_so(fields: dict[str, Any], name: str, value: object):
    assert getattr(request(**fields).sampling(USUAL), name) == value


def test_a_question_is_confined_as_it_says():
    where = {"paths": ["/home/me/Ünfälle"], "formats": ["pdf"], "changed_since": "2024-01-31"}
    filters = Filters(paths=("/home/me/Ünfälle",), formats=("pdf",), changed_since="2024-01-31")
    assert request(ragdoll=where).ragdoll.confined_to() == (None, filters)
    assert SearchRequest.model_validate_json(json.dumps({"query": "rent", **where})).confined_to() == (None, filters)


@pytest.mark.parametrize(
    ("word", "formats"), [("PDF", ("pdf",)), (".docx", ("docx",)), ("md", ("markdown",)), ("pdfs", ("pdf",))]
)
def test_formats_are_named_as_people_name_them(word: str, formats: tuple[str, ...]):
    assert request(ragdoll={"formats": [word]}).ragdoll.confined_to()[1].formats == formats
    assert "xlsx" in SearchRequest(query="rent", formats=("spreadsheets",)).confined_to()[1].formats


def test_a_word_for_no_format_is_refused_with_those_there_are():
    with pytest.raises(BadRequest, match="pfd") as error:
        request(ragdoll={"formats": ["pdf", "pfd"]}).ragdoll.confined_to()
    assert "PDF files" in error.value.way_out


@pytest.mark.parametrize("fields", [{"tools": [{"type": "function"}]}, {"logprobs": True}])
def test_what_is_not_done_here_is_refused(fields: dict[str, Any]):
    with pytest.raises(BadRequest):
        request(**fields).sampling(USUAL)


def test_tools_that_are_not_to_be_called_are_none():
    assert request(tools=[{"type": "function"}], tool_choice="none").sampling(USUAL) == UNSAID


def test_a_message_in_parts_is_its_words():
    parts = [{"type": "text", "text": "One, "}, {"type": "text", "text": "two."}]
    (message,) = request(messages=[{"role": "user", "content": parts}]).messages
    assert message.text() == "One, two."


def test_a_picture_is_refused_in_a_sentence():
    parts = [{"type": "image_url", "image_url": {"url": "data:"}}]
    (message,) = request(messages=[{"role": "user", "content": parts}]).messages
    with pytest.raises(BadRequest, match="image_url"):
        message.text()


def embeddings(**fields: Any) -> EmbeddingsRequest:
    return EmbeddingsRequest.model_validate_json(json.dumps({"model": "m", **fields}))


@pytest.mark.parametrize(
    ("given", "texts"),
    [("one", ("one",)), (["one", "two"], ("one", "two")), (" ", (" ",)), (["x"] * MAX_TEXTS, ("x",) * MAX_TEXTS)],
)
def test_texts_to_embed_are_one_or_several(given: object, texts: tuple[str, ...]):
    assert embeddings(input=given, user="somebody", encoding_format=None).texts() == texts
    assert embeddings(input="x" * MAX_TEXT_CHARACTERS).texts()


@pytest.mark.parametrize(
    ("given", "why"),
    [
        *[([], "no text"), ("", "Text 1 .* empty"), (["one", ""], "Text 2 .* empty")],
        *[([1, 2, 3], "tokens"), ([[1, 2], [3]], "tokens"), (["one", 2], "tokens")],
        *[(["x"] * (MAX_TEXTS + 1), "2,049 texts"), (["x", "y" * (MAX_TEXT_CHARACTERS + 1)], "Text 2 .* 32,769")],
    ],
)
def test_what_cannot_be_embedded_is_refused_with_a_sentence(given: object, why: str):
    with pytest.raises(BadRequest, match=why):
        embeddings(input=given).texts()


def completion(**fields: Any) -> CompletionRequest:
    return CompletionRequest.model_validate_json(json.dumps({"model": "m", "prompt": "Once", **fields}))


def test_a_text_is_gone_on_from_as_a_question_is_answered():
    assert completion(echo=False, logprobs=None, best_of=1, suffix=None).sampling(USUAL) == UNSAID
    wanted = completion(max_tokens=9, temperature=0, top_p=0.5, stop="\n", seed=3, n=2, best_of=2).sampling(USUAL)
    assert (wanted.max_tokens, wanted.temperature, wanted.top_p) == (9, 0, 0.5)
    assert (wanted.stop, wanted.seed, wanted.num_answers) == (("\n",), 3, 2)
    assert completion().prompts() == ("Once",)
    beams = replace(USUAL, beam_width=4)
    assert completion().sampling(beams).beam_width == 4
    assert completion(n=2, best_of=2).sampling(beams).beam_width == 1
    asked = {"model": "m", "messages": [{"role": "user", "content": "Who?"}]}
    formed = ChatRequest.model_validate({**asked, "response_format": {"type": "json_object"}})
    assert formed.sampling(beams).beam_width == 1
    assert ChatRequest.model_validate(asked).sampling(beams).beam_width == 4
    assert completion(prompt=["Once", " upon"]).prompts() == ("Once", " upon")


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        *[({"prompt": [1, 2]}, "tokens"), ({"prompt": []}, "no text"), ({"prompt": ["a", ""]}, "Text 2 .* empty")],
        *[({"prompt": ["a"] * 65}, "65 prompts"), ({"prompt": ["a", "b"], "stream": True}, "streamed")],
        *[({"echo": True}, "echo"), ({"logprobs": 0}, "logprobs"), ({"logprobs": 5}, "logprobs")],
        *[({"suffix": "end"}, "suffix"), ({"best_of": 2}, "best_of")],
    ],
)
def test_what_no_text_is_gone_on_with_is_refused(fields: dict[str, Any], why: str):
    with pytest.raises(BadRequest, match=why):
        (completion(**fields).prompts(), completion(**fields).sampling(USUAL))


def test_a_request_without_messages_is_none():
    with pytest.raises(ValidationError):
        ChatRequest.model_validate_json('{"model": "m"}')
