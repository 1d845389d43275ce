"""What other applications send, as OpenAI and llama.cpp's own server name it; fields we do not know are let be.

Those are many, and most say what we do anyway.
"""

from __future__ import annotations

from dataclasses import replace
from json import dumps
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from engine.core import Filters, PathText, SamplingParams
from engine.errors import BadRequest

# To be embedded with one request: as many as OpenAI takes, and about as long (8,192 tokens).
MAX_TEXTS, MAX_TEXT_CHARACTERS = 2048, 32_768
_IN_PARTS = "Send it in parts."


class _Body(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore")

    @model_validator(mode="before")
    @classmethod
    def _without_nulls(cls, body: Any) -> Any:
        """Many applications send null for what they do not say."""
        return {name: value for name, value in body.items() if value is not None} if isinstance(body, dict) else body


class TextPart(_Body):
    """A piece of a message; pictures and sound are refused when the message is read."""

    type: str
    text: str = ""


class ChatMessage(_Body):
    role: str
    content: str | tuple[TextPart, ...] | None = None

    def text(self) -> str:
        """Its words.

        Raises:
            BadRequest: There is something other than words in it.
        """
        if isinstance(self.content, tuple):
            if other := next((part.type for part in self.content if part.type not in ("text", "input_text")), None):
                raise BadRequest(f"A message holds {other}, and models here read text alone.")
            return "".join(part.text for part in self.content)
        return self.content or ""


class StreamOptions(_Body):
    include_usage: bool = False


class JsonSchema(_Body):
    schema_: dict[str, Any] = Field({}, alias="schema")


class ResponseFormat(_Body):
    """`schema` beside the type is llama.cpp's way to say it."""

    type: Literal["text", "json_object", "json_schema"] = "text"
    json_schema: JsonSchema | None = None
    schema_: dict[str, Any] | None = Field(None, alias="schema")

    def schema_text(self) -> str:
        """A JSON schema for the answer, "" where it has no form."""
        if self.type == "text":
            return ""
        of_type = self.json_schema.schema_ if self.json_schema is not None else None
        return dumps(of_type or self.schema_ or {"type": "object"})


class Where(_Body):
    """Our own addition, `ragdoll`: what is searched, where the name of the model does not say it all."""

    searches: bool | None = None
    collection: str | None = None
    paths: tuple[PathText, ...] = ()
    formats: tuple[str, ...] = ()
    changed_since: str = ""
    changed_until: str = ""
    reads_question: bool = True
    passages: int | None = None

    def filters(self) -> Filters:
        return Filters(
            paths=self.paths,
            formats=self.formats,
            changed_since=self.changed_since,
            changed_until=self.changed_until,
            reads_question=self.reads_question,
        )


class ChatRequest(_Body):
    """A conversation whose last message is to be answered."""

    model: str = ""
    messages: tuple[ChatMessage, ...]
    stream: bool = False
    stream_options: StreamOptions = StreamOptions()
    n: int = 1
    max_tokens: int | None = None
    max_completion_tokens: int | None = None
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
    response_format: ResponseFormat = ResponseFormat()
    grammar: str = ""
    reasoning_effort: str | None = None
    tools: tuple[Any, ...] | None = None
    tool_choice: Any = None
    logprobs: bool | None = None
    ragdoll: Where = Where()

    def sampling(self, usual: SamplingParams) -> SamplingParams:
        """How words are chosen: as the request says, and as `usual` where it says nothing.

        Raises:
            BadRequest: It asks for what we do not do.
        """
        if self.tools and self.tool_choice != "none":
            raise BadRequest("Models here call no tools.", "Send the request without tools.")
        if self.logprobs:
            raise BadRequest("Log-probabilities are not told here.", "Send the request without logprobs.")
        most = self.max_completion_tokens if self.max_completion_tokens is not None else self.max_tokens
        stop = (self.stop,) if isinstance(self.stop, str) else self.stop
        given: dict[str, Any] = {
            "max_tokens": _unless_negative(most),
            "temperature": self.temperature,
            "top_p": self.top_p,
            # Elsewhere -1 is all of them, as 0 is.
            "top_k": self.top_k if self.top_k is None else max(0, self.top_k),
            "min_p": self.min_p,
            "typical_p": self.typical_p,
            "repeat_penalty": self.repeat_penalty,
            "presence_penalty": self.presence_penalty,
            "frequency_penalty": self.frequency_penalty,
            "seed": _unless_negative(self.seed),
            "stop": stop and tuple(text for text in stop if text),
            "logit_bias": self.logit_bias and tuple(self.logit_bias.items()),
            "thinks": self.reasoning_effort and self.reasoning_effort not in ("none", "minimal"),
            "json_schema": self.response_format.schema_text() or None,
            "grammar": self.grammar or None,
        }
        return replace(usual, num_answers=self.n, **{name: value for name, value in given.items() if value is not None})


def _unless_negative(value: int | None) -> int | None:
    """Elsewhere -1 is a fresh seed, and leaves it to the server how long an answer may be."""
    return value if value is None or value >= 0 else None


class EmbeddingsRequest(_Body):
    """Texts whose vectors are wanted, as numbers or as OpenAI's clients ask for them: bytes of float32 in base64."""

    model: str = ""
    input: str | tuple[Any, ...]
    encoding_format: Literal["float", "base64"] = "float"
    dimensions: int | None = None

    def texts(self) -> tuple[str, ...]:
        """What is to be embedded.

        Raises:
            BadRequest: It is no text, or more than is done at a time.
        """
        texts = (self.input,) if isinstance(self.input, str) else self.input
        if not texts:
            raise BadRequest("There is no text to embed.")
        if not all(isinstance(text, str) for text in texts):
            raise BadRequest(
                "The input holds numbers of tokens, which mean something else to each model.",
                "Send the texts themselves (in LangChain: check_embedding_ctx_length=False).",
            )
        if len(texts) > MAX_TEXTS:
            raise BadRequest(f"These are {len(texts):,} texts; {MAX_TEXTS:,} can be embedded at a time.", _IN_PARTS)
        for number, text in enumerate(texts, start=1):
            if not text:
                raise BadRequest(f"Text {number:,} of the input is empty.", "Leave it out.")
            if (length := len(text)) > MAX_TEXT_CHARACTERS:
                most = f"{MAX_TEXT_CHARACTERS:,} can be embedded"
                raise BadRequest(f"Text {number:,} of the input has {length:,} characters; {most}.", _IN_PARTS)
        return texts


class SearchRequest(Where):
    """Passages that are searched for, without a model."""

    query: str
    top_k: Annotated[int, Field(ge=1)] = 6
