"""Responses of the HTTP API: answers in the format of OpenAI's API, whole or streamed, and errors.

Fields that OpenAI lacks are added, named as in other servers: `citations` with the target of each number,
`reasoning_content` for a model's reasoning, `cached_tokens` for the part of the prompt that was not computed again, and
`turns_left_out` for the number of oldest turns of a conversation that did not fit.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from engine.core import Answer, Citation, Passage
from engine.embedding import Embedded
from engine.errors import (
    BadRequest,
    Cancelled,
    EmbedderUnavailable,
    GenerationError,
    ModelError,
    ModelNotFound,
    ModelUnreadable,
    NoCells,
    NothingThere,
    PromptTooLong,
    RagdollError,
)
from engine.metrics import Timings

Reply = dict[str, Any]
Vector = NDArray[np.float32]
_OWNER = "ragdoll"


@dataclass(frozen=True, slots=True)
class Head:
    """The common fields of all pieces of one answer; `created` is in seconds since 1970.

    One that `is_text` is a completion of a prompt, not a message of a conversation.
    """

    question_id: str
    created: int
    model: str
    is_text: bool = False

    @property
    def of_whole(self) -> Reply:
        return self._of("text_completion" if self.is_text else "chat.completion")

    @property
    def of_piece(self) -> Reply:
        return self._of("text_completion" if self.is_text else "chat.completion.chunk")

    def _of(self, kind: str) -> Reply:
        prefix = "cmpl" if self.is_text else "chatcmpl"
        return {"id": f"{prefix}-{self.question_id}", "object": kind, "created": self.created, "model": self.model}

    def choice(self, index: int, reason: str | None, **delta: str) -> Reply:
        """A piece of one of several answers, and its finish reason, None while it continues."""
        said: Reply = {"text": delta.get("content", "")} if self.is_text else {"delta": delta}
        return {"index": index, **said, "finish_reason": reason, "logprobs": None}


def models(names: Sequence[str], created: int) -> Reply:
    listed = [{"id": name, "object": "model", "created": created, "owned_by": _OWNER} for name in names]
    return {"object": "list", "data": listed}


def completion(head: Head, answer: Answer, timings: Timings) -> Reply:
    """A whole answer."""
    choices = []
    for index, (text, thoughts, reason, citations) in enumerate(_texts(answer)):
        thought = {"reasoning_content": thoughts} if thoughts else {}
        message = {"role": "assistant", "content": text, **thought}
        told = {"citations": sources(citations, answer.passages)} if index else {}
        choices.append({"index": index, "message": message, "finish_reason": reason, "logprobs": None, **told})
    return {**head.of_whole, "choices": choices, "usage": usage([timings]), **_grounds(answer)}


def continuations(head: Head, answers: Sequence[tuple[Answer, Timings]]) -> Reply:
    """The completions of each prompt: all of the first, then those of the others."""
    written = [(text, reason) for answer, _ in answers for text, _, reason, _ in _texts(answer)]
    choices = [head.choice(index, reason, content=text) for index, (text, reason) in enumerate(written)]
    return {**head.of_whole, "choices": choices, "usage": usage([timings for _, timings in answers])}


def piece(head: Head, index: int = 0, **delta: str) -> Reply:
    """A part of an answer that is being written."""
    return {**head.of_piece, "choices": [head.choice(index, None, **delta)]}


def last_pieces(head: Head, answer: Answer, told: str) -> Iterator[Reply]:
    """Yields the rest of an answer after the sent text `told`, and finish reasons: of the first, then of the others."""
    for index, (text, thoughts, reason, citations) in enumerate(_texts(answer)):
        if index:
            yield piece(head, index, role="assistant", content="")
        if index and thoughts:
            yield piece(head, index, reasoning_content=thoughts)
        if rest := text if index else text.removeprefix(told) if text.startswith(told) else "":
            yield piece(head, index, content=rest)
        choice = head.choice(index, reason)
        its_own = {"citations": sources(citations, answer.passages)} if index else {}
        grounds = {} if index else _grounds(answer)
        yield {**head.of_piece, "choices": [{**choice, **its_own}], **grounds}


def last_usage(head: Head, timings: Timings) -> Reply:
    return {**head.of_piece, "choices": [], "usage": usage([timings])}


def usage(each: Sequence[Timings]) -> Reply:
    """The usage of all that were answered together."""
    num_read = sum(one.prompt_tokens for one in each)
    num_written = sum(one.generated_tokens + one.other_tokens for one in each)
    num_thought = sum(one.thought_tokens + one.other_thought_tokens for one in each)
    return {
        "prompt_tokens": num_read,
        "completion_tokens": num_written,
        "total_tokens": num_read + num_written,
        "prompt_tokens_details": {"cached_tokens": sum(one.cached_tokens for one in each)},
        "completion_tokens_details": {"reasoning_tokens": num_thought},
    }


def sources(citations: Sequence[Citation], passages: Sequence[Passage]) -> list[Reply]:
    """The targets of an answer's citation numbers, each once, in order of appearance."""
    first = {citation.marker: citation.passage for citation in reversed(citations)}
    markers = dict.fromkeys(citation.marker for citation in citations)
    return [{"marker": marker, **of_passage(passages[first[marker]])} for marker in markers]


def of_passage(passage: Passage) -> Reply:
    """A passage for scripts. Paths that are not UTF-8 are written as far as JSON can represent them."""
    path = passage.document.encode("utf-8", "replace").decode()
    return {
        "path": path,
        "title": Path(path).name,
        "page": passage.page,
        "place": passage.place,
        "heading": passage.heading,
        "text": passage.text,
        "score": round(passage.score, 4),
    }


def embeddings(model: str, slices: Sequence[Embedded], *, in_base64: bool) -> bytes:
    """Returns the vectors of all slices as JSON.

    Encoded vector by vector: millions of numbers at once would block every thread that writes an answer.
    """
    vectors = (vector for one in slices for vector in one.vectors)
    data = b",".join(_embedding(place, vector, in_base64=in_base64) for place, vector in enumerate(vectors))
    num_tokens = sum(one.num_tokens for one in slices)
    told = {"object": "list", "model": model, "usage": {"prompt_tokens": num_tokens, "total_tokens": num_tokens}}
    return json.dumps(told).encode().removesuffix(b"}") + b', "data": [' + data + b"]}"


def _embedding(place: int, vector: Vector, *, in_base64: bool) -> bytes:
    told = base64.b64encode(vector.astype("<f4").tobytes()).decode() if in_base64 else vector.tolist()
    return json.dumps({"object": "embedding", "index": place, "embedding": told}).encode()


def refusal(error: RagdollError) -> tuple[int, Reply]:
    """The HTTP status, and the error in OpenAI's format."""
    status = 500
    if isinstance(error, BadRequest | PromptTooLong):
        status = 400
    elif isinstance(error, NothingThere | ModelNotFound):
        status = 404
    elif isinstance(error, EmbedderUnavailable):
        status = 503
    return status, problem(str(error), _code(error), "server_error" if status >= 500 else "invalid_request_error")


def headers(error: RagdollError) -> dict[str, str]:
    """Returns headers that stop OpenAI's clients from retrying where that is pointless: each try may load a model."""
    is_for_now = isinstance(error, NoCells | ModelUnreadable)
    is_for_good = not is_for_now and isinstance(error, ModelError | GenerationError | Cancelled | EmbedderUnavailable)
    return {"x-should-retry": "false"} if is_for_good and refusal(error)[0] >= 500 else {}


def problem(sentence: str, code: str, kind: str = "invalid_request_error") -> Reply:
    return {"error": {"message": sentence, "type": kind, "param": None, "code": code}}


def _code(error: RagdollError) -> str:
    if isinstance(error, PromptTooLong):
        return "context_length_exceeded"
    return "model_not_found" if isinstance(error, ModelNotFound) else error.kind


def _texts(answer: Answer) -> Iterator[tuple[str, str, str, Sequence[Citation]]]:
    yield answer.text, answer.thoughts, answer.finish_reason, answer.citations
    for other in answer.alternatives:
        yield other.text, other.thoughts, other.finish_reason, other.citations


def _grounds(answer: Answer) -> Reply:
    """The citations of an answer, if files were searched, and the turns that were left out."""
    left_out = {"turns_left_out": answer.turns_left_out} if answer.turns_left_out else {}
    if not answer.passages:
        return left_out
    return {"citations": sources(answer.citations, answer.passages), "scope": asdict(answer.scope), **left_out}
