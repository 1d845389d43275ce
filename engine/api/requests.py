"""Requests of the HTTP API, in the format of OpenAI and of llama.cpp's server; unknown fields are ignored.

There are many of them, and most ask for our default behaviour.
"""

from __future__ import annotations

from dataclasses import replace
from json import dumps
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from engine.core import Filters, PathText, SamplingParams
from engine.errors import BadRequest
from engine.library.parsers.sniff import FAMILY_OF_ENDING
from engine.retrieval.kinds import formats_named

# Limits of one request for embeddings: as many texts as OpenAI accepts, and about as long (8,192 tokens).
MAX_TEXTS, MAX_TEXT_CHARACTERS = 2048, 32_768
# The most prompts of one request for completions.
MAX_PROMPTS = 64
_IN_PARTS = "Send it in parts."


class _Body(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore")

    @model_validator(mode="before")
    @classmethod
    def _without_nulls(cls, body: Any) -> Any:
        """Drops nulls, which many applications send for unset fields."""
        return {name: value for name, value in body.items() if value is not None} if isinstance(body, dict) else body


class TextPart(_Body):
    """A piece of a message; pictures and sound are refused when the message is read."""

    type: str
    text: str = ""


class ChatMessage(_Body):
    role: str
    content: str | tuple[TextPart, ...] | None = None

    def text(self) -> str:
        """The text of the message.

        Raises:
            BadRequest: It contains something other than text.
        """
        if isinstance(self.content, tuple):
            if other := next((part.type for part in self.content if part.type not in ("text", "input_text")), None):
                raise BadRequest(f"Message content of type {other!r} is not supported: models here read text only.")
            return "".join(part.text for part in self.content)
        return self.content or ""


class StreamOptions(_Body):
    include_usage: bool = False


class JsonSchema(_Body):
    schema_: dict[str, Any] = Field({}, alias="schema")


class ResponseFormat(_Body):
    """`schema` next to the type is llama.cpp's format."""

    type: Literal["text", "json_object", "json_schema"] = "text"
    json_schema: JsonSchema | None = None
    schema_: dict[str, Any] | None = Field(None, alias="schema")

    def schema_text(self) -> str:
        """A JSON schema for the answer, "" for free text."""
        if self.type == "text":
            return ""
        of_type = self.json_schema.schema_ if self.json_schema is not None else None
        return dumps(of_type or self.schema_ or {"type": "object"})


class Where(_Body):
    """Our own field `ragdoll`: what is searched, beyond what the name of the model says.

    Unknown fields are refused: one may be meant as a filter, without which the question would be asked of all files.
    """

    model_config = ConfigDict(extra="forbid")

    searches: bool | None = None
    collection: str | None = None
    collections: tuple[str, ...] = ()
    paths: tuple[PathText, ...] = ()
    formats: tuple[str, ...] = ()
    changed_since: str = ""
    changed_until: str = ""
    reads_question: bool = True
    passages: int | None = None

    @property
    def is_confined(self) -> bool:
        """Whether it limits the search."""
        return any(
            (self.collection, self.collections, self.paths, self.formats, self.changed_since, self.changed_until)
        )

    def confined_to(self, otherwise: str | None = None) -> tuple[str | None, Filters]:
        """The collection and the filters; `otherwise` is the collection if it names none.

        Raises BadRequest for an unknown format.
        """
        filters = Filters(
            paths=self.paths,
            formats=formats_named(self.formats, FAMILY_OF_ENDING),
            changed_since=self.changed_since,
            changed_until=self.changed_until,
            reads_question=self.reads_question,
        )
        names = (*filter(None, (self.collection,)), *self.collections) or filter(None, (otherwise,))
        return filters.asked_of(names)


class _Writing(_Body):
    """The sampling fields that all generating requests share."""

    model: str = ""
    stream: bool = False
    stream_options: StreamOptions = StreamOptions()
    n: Annotated[int, Field(ge=1)] = 1
    max_tokens: int | None = None
    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    min_p: float | None = None
    typical_p: float | None = None
    repeat_penalty: float | None = None
    presence_penalty: float | None = None
    frequency_penalty: float | None = None
    seed: int | None = None
    stop: str | tuple[str, ...] | None = None
    logit_bias: dict[int, float] | None = None
    grammar: str = ""
    ragdoll: Where = Where()

    @property
    def most_tokens(self) -> int | None:
        """How long an answer may be; None: as long as there is room, as in other servers."""
        return _unless_negative(self.max_tokens)

    def sampling(self, usual: SamplingParams) -> SamplingParams:
        """The sampling parameters of the request, and those of `usual` for unset fields.

        Raises:
            BadRequest: It asks for something that is not supported.
        """
        stop = (self.stop,) if isinstance(self.stop, str) else self.stop
        given: dict[str, Any] = {
            "max_tokens": self.most_tokens,
            "is_open_ended": self.most_tokens is None,
            "temperature": self.temperature,
            "top_p": self.top_p,
            # Other servers accept -1 for all tokens, like 0.
            "top_k": self.top_k if self.top_k is None else max(0, self.top_k),
            "min_p": self.min_p,
            "typical_p": self.typical_p,
            "repeat_penalty": self.repeat_penalty,
            "presence_penalty": self.presence_penalty,
            "frequency_penalty": self.frequency_penalty,
            "seed": _unless_negative(self.seed),
            "stop": stop and tuple(text for text in stop if text),
            "logit_bias": self.logit_bias and tuple(self.logit_bias.items()),
            "grammar": self.grammar or None,
        }
        return _changed(replace(usual, num_answers=self.n), given).with_usable_beams()


class ChatRequest(_Writing):
    """A conversation whose last message is to be answered."""

    messages: tuple[ChatMessage, ...]
    max_completion_tokens: int | None = None
    response_format: ResponseFormat = ResponseFormat()
    reasoning_effort: str | None = None
    tools: tuple[Any, ...] | None = None
    tool_choice: Any = None
    logprobs: bool | None = None

    @property
    def most_tokens(self) -> int | None:
        newer = _unless_negative(self.max_completion_tokens)
        return super().most_tokens if newer is None else newer

    def sampling(self, usual: SamplingParams) -> SamplingParams:
        if self.tools and self.tool_choice != "none":
            raise BadRequest("Tool calls are not supported.", "Send the request without tools.")
        if self.logprobs:
            raise _no_logprobs()
        given = {
            "thinks": self.reasoning_effort not in ("none", "minimal") if self.reasoning_effort else None,
            "json_schema": self.response_format.schema_text() or None,
        }
        return _changed(super().sampling(usual), given).with_usable_beams()


class CompletionRequest(_Writing):
    """Raw text, including the model's special tokens, that the model continues."""

    prompt: str | tuple[Any, ...]
    suffix: str = ""
    echo: bool = False
    logprobs: int | bool | None = None
    best_of: int | None = None

    def prompts(self) -> tuple[str, ...]:
        """The prompts, each completed separately.

        Raises:
            BadRequest: It is no text, or more than is done at a time.
        """
        prompts = _texts(self.prompt, "prompt")
        if len(prompts) > MAX_PROMPTS:
            raise BadRequest(f"The request has {len(prompts):,} prompts; at most {MAX_PROMPTS} are allowed.", _IN_PARTS)
        if self.stream and len(prompts) > 1:
            raise BadRequest("A streamed completion takes one prompt.", "Send each prompt by itself.")
        return prompts

    def sampling(self, usual: SamplingParams) -> SamplingParams:
        if self.logprobs is not None and self.logprobs is not False:
            raise _no_logprobs()
        if self.echo:
            raise BadRequest("`echo` is not supported.", "Send the request without echo.")
        if self.suffix:
            raise BadRequest(
                "`suffix` is not supported.",
                "Send one prompt that holds both parts, with the fill-in-the-middle tokens of the model.",
            )
        if self.best_of is not None and self.best_of > self.n:
            raise BadRequest("`best_of` is not supported.", "Send the request without best_of.")
        return super().sampling(usual)


def _changed(sampling: SamplingParams, given: dict[str, Any]) -> SamplingParams:
    return replace(sampling, **{name: value for name, value in given.items() if value is not None})


def _no_logprobs() -> BadRequest:
    return BadRequest("`logprobs` is not supported.", "Send the request without logprobs.")


def _texts(given: str | tuple[Any, ...], name: str) -> tuple[str, ...]:
    """One text or several. Raises BadRequest for anything else."""
    texts = (given,) if isinstance(given, str) else given
    if not texts:
        raise BadRequest(f"`{name}` holds no text.")
    if not all(isinstance(text, str) for text in texts):
        raise BadRequest(
            f"`{name}` holds ids of tokens, which differ between models.",
            "Send the texts themselves (in LangChain: check_embedding_ctx_length=False).",
        )
    if "" in texts:
        raise BadRequest(f"Text {texts.index('') + 1:,} of {name} is empty.", "Leave it out.")
    return texts


def _unless_negative(value: int | None) -> int | None:
    """None for negative values: other servers accept -1 for a fresh seed and for an unlimited length."""
    return value if value is None or value >= 0 else None


class EmbeddingsRequest(_Body):
    """Texts whose vectors are wanted, as numbers or as OpenAI's clients ask for them: bytes of float32 in base64."""

    model: str = ""
    input: str | tuple[Any, ...]
    encoding_format: Literal["float", "base64"] = "float"
    dimensions: int | None = None

    def texts(self) -> tuple[str, ...]:
        """The texts to embed.

        Raises:
            BadRequest: It is no text, or more than is done at a time.
        """
        texts = _texts(self.input, "input")
        if len(texts) > MAX_TEXTS:
            raise BadRequest(f"The request has {len(texts):,} texts; at most {MAX_TEXTS:,} are allowed.", _IN_PARTS)
        for number, length in enumerate(map(len, texts), start=1):
            if length > MAX_TEXT_CHARACTERS:
                most = f"at most {MAX_TEXT_CHARACTERS:,} are allowed"
                raise BadRequest(f"Text {number:,} of input has {length:,} characters; {most}.", _IN_PARTS)
        return texts


class SearchRequest(Where):
    """Passages that are searched for, without a model; `ragdoll` as with a question, or its fields by themselves."""

    model_config = ConfigDict(extra="ignore")

    query: str
    top_k: Annotated[int, Field(ge=1)] = 6
    ragdoll: Where = Where()

    @property
    def where(self) -> Where:
        """The filters of both places."""
        of_itself = self.model_dump(include=set(Where.model_fields), exclude_unset=True)
        return Where.model_validate({**of_itself, **self.ragdoll.model_dump(exclude_unset=True)})
