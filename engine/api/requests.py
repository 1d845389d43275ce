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
from engine.library.parsers.sniff import FAMILY_OF_ENDING
from engine.retrieval.kinds import formats_named

# To be embedded with one request: as many as OpenAI takes, and about as long (8,192 tokens).
MAX_TEXTS, MAX_TEXT_CHARACTERS = 2048, 32_768
# To be gone on from with one request.
MAX_PROMPTS = 64
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
    """Our own addition, `ragdoll`: what is searched, where the name of the model does not say it all.

    A word in it that we do not know may have been meant to confine a question, which then would be asked of all files.
    """

    model_config = ConfigDict(extra="forbid")

    searches: bool | None = None
    collection: str | None = None
    paths: tuple[PathText, ...] = ()
    formats: tuple[str, ...] = ()
    changed_since: str = ""
    changed_until: str = ""
    reads_question: bool = True
    passages: int | None = None

    @property
    def is_confined(self) -> bool:
        """Whether it says where is to be searched."""
        return any((self.collection, self.paths, self.formats, self.changed_since, self.changed_until))

    def filters(self) -> Filters:
        """What it is confined to. Raises BadRequest where a word for formats means none."""
        return Filters(
            paths=self.paths,
            formats=formats_named(self.formats, FAMILY_OF_ENDING),
            changed_since=self.changed_since,
            changed_until=self.changed_until,
            reads_question=self.reads_question,
        )


class _Writing(_Body):
    """How words are chosen, as all that have a model write say it."""

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
        """How long an answer may be; None: as long as there is room, as other servers have it."""
        return _unless_negative(self.max_tokens)

    def sampling(self, usual: SamplingParams) -> SamplingParams:
        """How words are chosen: as the request says, and as `usual` where it says nothing.

        Raises:
            BadRequest: It asks for what we do not do.
        """
        stop = (self.stop,) if isinstance(self.stop, str) else self.stop
        given: dict[str, Any] = {
            "max_tokens": self.most_tokens,
            "is_open_ended": self.most_tokens is None,
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
            "grammar": self.grammar or None,
        }
        return _changed(replace(usual, num_answers=self.n), given)


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
            raise BadRequest("Models here call no tools.", "Send the request without tools.")
        if self.logprobs:
            raise _no_logprobs()
        given = {
            "thinks": self.reasoning_effort not in ("none", "minimal") if self.reasoning_effort else None,
            "json_schema": self.response_format.schema_text() or None,
        }
        return _changed(super().sampling(usual), given)


class CompletionRequest(_Writing):
    """Text as the model is to read it, with the marks that it knows, behind which it is to write on."""

    prompt: str | tuple[Any, ...]
    suffix: str = ""
    echo: bool = False
    logprobs: int | bool | None = None
    best_of: int | None = None

    def prompts(self) -> tuple[str, ...]:
        """What is to be gone on from, each by itself.

        Raises:
            BadRequest: It is no text, or more than is done at a time.
        """
        prompts = _texts(self.prompt, "prompt")
        if len(prompts) > MAX_PROMPTS:
            raise BadRequest(f"These are {len(prompts):,} prompts; {MAX_PROMPTS} are answered at a time.", _IN_PARTS)
        if self.stream and len(prompts) > 1:
            raise BadRequest("What is streamed goes on from one prompt.", "Send each prompt by itself.")
        return prompts

    def sampling(self, usual: SamplingParams) -> SamplingParams:
        if self.logprobs is not None and self.logprobs is not False:
            raise _no_logprobs()
        if self.echo:
            raise BadRequest("The prompt is not repeated here.", "Send the request without echo.")
        if self.suffix:
            raise BadRequest(
                "There is nothing here that knows how each model is told of a suffix.",
                "Send one prompt that holds both, with the marks by which the model knows them.",
            )
        if self.best_of is not None and self.best_of > self.n:
            raise BadRequest("All texts that are written are sent.", "Send the request without best_of.")
        return super().sampling(usual)


def _changed(sampling: SamplingParams, given: dict[str, Any]) -> SamplingParams:
    return replace(sampling, **{name: value for name, value in given.items() if value is not None})


def _no_logprobs() -> BadRequest:
    return BadRequest("Log-probabilities are not told here.", "Send the request without logprobs.")


def _texts(given: str | tuple[Any, ...], name: str) -> tuple[str, ...]:
    """One text or several. Raises BadRequest where it is none, or something else."""
    texts = (given,) if isinstance(given, str) else given
    if not texts:
        raise BadRequest(f"There is no text in {name}.")
    if not all(isinstance(text, str) for text in texts):
        raise BadRequest(
            f"In {name} there are numbers of tokens, which mean something else to each model.",
            "Send the texts themselves (in LangChain: check_embedding_ctx_length=False).",
        )
    if "" in texts:
        raise BadRequest(f"Text {texts.index('') + 1:,} of {name} is empty.", "Leave it out.")
    return texts


def _unless_negative(value: int | None) -> int | None:
    """Elsewhere -1 is a fresh seed, and an answer that may be as long as there is room."""
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
        texts = _texts(self.input, "input")
        if len(texts) > MAX_TEXTS:
            raise BadRequest(f"These are {len(texts):,} texts; {MAX_TEXTS:,} can be embedded at a time.", _IN_PARTS)
        for number, length in enumerate(map(len, texts), start=1):
            if length > MAX_TEXT_CHARACTERS:
                most = f"{MAX_TEXT_CHARACTERS:,} can be embedded"
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
        """What either of both says."""
        of_itself = self.model_dump(include=set(Where.model_fields), exclude_unset=True)
        return Where.model_validate({**of_itself, **self.ragdoll.model_dump(exclude_unset=True)})
