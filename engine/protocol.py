"""The wire between window and engine: every message, declared once, and how a line becomes one.

One message a line, UTF-8 JSON: requests `{id, method, params}` go down; replies `{id, result | error}`
and notifications `{method, params}` come up. The engine opens with `ready`; a window that reads another
`protocol_version` there refuses to go on. Nothing heavy is imported here: both processes live on this file.

To add a request: declare its params and result as `Message`s and a `Method` in REQUESTS.
To add a notification: declare a `Notice` subclass with its `method`; it registers itself.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, ClassVar, Generic, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from engine.core import (
    DEFAULT_COLLECTION,
    Answer,
    Citation,
    Collection,
    Document,
    DocumentState,
    Filters,
    FinishReason,
    Need,
    Passage,
    PathText,
    Quote,
    SamplingParams,
    Scope,
    Span,
    Tier,
)
from engine.errors import ProtocolError, RagdollError

__all__ = [
    "DEFAULT_COLLECTION",
    "PROTOCOL_VERSION",
    "Answer",
    "Citation",
    "Collection",
    "Document",
    "DocumentState",
    "Filters",
    "FinishReason",
    "Need",
    "Passage",
    "PathText",
    "ProtocolError",
    "Quote",
    "RagdollError",
    "SamplingParams",
    "Scope",
    "Span",
    "Tier",
]

PROTOCOL_VERSION = 1
# A rendered page travels as base64 in one line; anything longer is garbage.
MAX_LINE_BYTES = 64 * 2**20


class Message(BaseModel):
    """Base of everything inside `params` and `result`; unknown fields are ignored, so that minor versions mix."""

    model_config = ConfigDict(frozen=True, extra="ignore")


P = TypeVar("P", bound=Message)
R = TypeVar("R", bound=Message)


@dataclass(frozen=True, slots=True)
class Method(Generic[P, R]):
    """A request by name, with the types of what goes down and what comes back."""

    name: str
    params: type[P]
    result: type[R]


class Nothing(Message):
    """No parameters, or nothing to say but "done"."""


# --- requests: the engine itself -----------------------------------------------------------------


class Pong(Message):
    """`phase` is what the engine says it is busy with ("" when nothing long is going on)."""

    phase: str = ""


class SettingsReply(Message):
    """The engine's settings as nested tables; the same shape as `engine.toml`."""

    settings: dict[str, Any]


class SetSettings(Message):
    """Changes by dotted name: `{"generation.temperature": 0.7}`. All are applied, or none."""

    changes: dict[str, Any]


PING = Method("ping", Nothing, Pong)
SHUTDOWN = Method("shutdown", Nothing, Nothing)
SETTINGS_GET = Method("settings.get", Nothing, SettingsReply)
SETTINGS_SET = Method("settings.set", SetSettings, SettingsReply)


# --- requests: library ---------------------------------------------------------------------------


class AddPaths(Message):
    """Folders and files to index; folders are expanded by the engine."""

    paths: tuple[PathText, ...]
    collection: str = DEFAULT_COLLECTION


class Paths(Message):
    """Folders and files already in the library."""

    paths: tuple[PathText, ...]


class Removed(Message):
    """How many documents left the library; none of them can be cited again."""

    documents: int


class Folder(Message):
    """A folder or file that the user linked, and how it stands.

    `absence` says in a sentence why it is out of reach ("" when it is not). `is_watched`: changes are noticed as
    they happen; otherwise at the next rescan. `num_gone` documents of it went missing at once and are kept until
    the user decides (see `SettleGone`).
    """

    path: PathText
    collection: str
    absence: str = ""
    is_watched: bool = False
    num_documents: int = 0
    num_gone: int = 0


class EmbedderState(Message):
    """The embedding model at work, in words for people ("bfloat16, batches of 8, 2 threads").

    While the library moves to another one, `next_name` is that one and the counts say how far it is; the present
    one answers until all have moved.
    """

    name: str = ""
    identity: str = ""
    description: str = ""
    next_name: str = ""
    documents_moved: int = 0
    documents_to_move: int = 0


class LibraryReply(Message):
    """The collections, the linked folders, and what is on disk."""

    collections: tuple[Collection, ...]
    disk_bytes: int
    folders: tuple[Folder, ...] = ()
    embedder: EmbedderState = EmbedderState()


class Unlock(Message):
    """A password for documents that need one; all that it opens are read. `remember` keeps it for later starts."""

    paths: tuple[PathText, ...]
    password: str = Field(repr=False)
    remember: bool = False


class SettleGone(Message):
    """What to do with the documents of a folder that went missing at once: remove them, or keep what was indexed."""

    folder: PathText
    remove: bool


class ListDocuments(Message):
    """A page of documents, ordered by path; `states` empty means all, `document_ids` None means all.

    `name` keeps those in whose path each of its words occurs, in whatever case.
    """

    collection: str | None = None
    states: tuple[DocumentState, ...] = ()
    offset: int = 0
    limit: int = 500
    name: str = ""
    document_ids: tuple[int, ...] | None = None


class DocumentsReply(Message):
    """`total` counts what was asked for; `by_state` counts the same in whatever state they are."""

    documents: tuple[Document, ...]
    total: int
    by_state: dict[str, int] = {}


class PageRequest(Message):
    """A page of a document with a span marked: `start` and `end` as in Passage; page None where there are none."""

    document_id: int
    page: int | None = None
    start: int = 0
    end: int = 0
    width_px: int = 900


class PageReply(Message):
    """Either a picture (PDF) with marks as fractions of its size, or text with a span marked.

    `image_png` is base64 and "" when the page is text. Long texts come as a window around the span:
    `text_start` is the offset of `text[0]` in the page. `num_pages` is 0 where there are none. `place` is what the
    document calls the page ("sheet “Budget”"), "" where that is "page N" or nothing.
    """

    document: PathText
    page: int | None
    num_pages: int
    image_png: str = ""
    marks: tuple[tuple[float, float, float, float], ...] = ()
    text: str = ""
    text_start: int = 0
    mark_start: int = 0
    mark_end: int = 0
    place: str = ""


ADD = Method("library.add", AddPaths, Nothing)
RESCAN = Method("library.rescan", Nothing, Nothing)
PRIORITISE = Method("library.prioritise", Paths, Nothing)
UNLOCK = Method("library.unlock", Unlock, Nothing)
SETTLE_GONE = Method("library.settle_gone", SettleGone, Removed)
REMOVE = Method("library.remove", Paths, Removed)
REINDEX = Method("library.reindex", Paths, Nothing)
PAUSE = Method("library.pause", Nothing, Nothing)
RESUME = Method("library.resume", Nothing, Nothing)
CANCEL_INDEXING = Method("library.cancel", Nothing, Nothing)
LIBRARY = Method("library.status", Nothing, LibraryReply)
DOCUMENTS = Method("library.documents", ListDocuments, DocumentsReply)
PAGE = Method("document.page", PageRequest, PageReply)


# --- requests: questions -------------------------------------------------------------------------


class Ask(Message):
    """A question. Its answer comes as `answer.*` notifications and ends in exactly one of finished, cancelled, failed.

    `transcript` is the concatenation of the `segments` that the finished answers of this conversation returned.
    `sampling` None means the engine's settings.
    """

    question_id: str
    text: str
    collection: str | None = None
    conversation_id: str = ""
    transcript: tuple[dict[str, Any], ...] = ()
    top_k: int | None = None
    sampling: SamplingParams | None = None
    filters: Filters = Filters()


class CancelQuestion(Message):
    question_id: str


class Search(Message):
    query: str
    top_k: int = 6
    collection: str | None = None
    filters: Filters = Filters()


class SearchReply(Message):
    passages: tuple[Passage, ...]
    scope: Scope


ASK = Method("ask", Ask, Nothing)
CANCEL = Method("cancel", CancelQuestion, Nothing)
SEARCH = Method("search", Search, SearchReply)


# --- requests: models and memory -----------------------------------------------------------------


class ModelFile(Message):
    """A GGUF file; `n_gpu_layers` None lets the plan choose."""

    path: PathText
    n_gpu_layers: int | None = None


class ModelEntry(Message):
    """A model that the picker offers; `problem` says why it cannot be used ("" when it can)."""

    path: PathText
    name: str
    architecture: str = ""
    file_bytes: int = 0
    num_layers: int = 0
    trained_context: int = 0
    planned_gpu_layers: int = 0
    fit: str = ""
    problem: str = ""


class ModelsReply(Message):
    """`current` is the path the settings name, "" for extractive answers only."""

    models: tuple[ModelEntry, ...]
    current: PathText


class TierSnapshot(Message):
    """One tier of memory: what it holds in all, what other programs hold, and our spans."""

    tier: Tier
    name: str
    capacity_bytes: int
    other_bytes: int
    spans: tuple[Span, ...] = ()

    @property
    def free_bytes(self) -> int:
        held = sum(span.num_bytes for span in self.spans)
        return max(0, self.capacity_bytes - self.other_bytes - held)


class MemoryReply(Message):
    """`counters` are rates and gauges by name ("tokens_per_s"); `decisions` the newest first, in words."""

    tiers: tuple[TierSnapshot, ...]
    counters: dict[str, float] = {}
    decisions: tuple[str, ...] = ()


MODELS = Method("models.list", Nothing, ModelsReply)
MODELS_ADD = Method("models.add", ModelFile, ModelEntry)
MODELS_FORGET = Method("models.forget", ModelFile, Nothing)
MODELS_USE = Method("models.use", ModelFile, Nothing)
MODELS_UNLOAD = Method("models.unload", Nothing, Nothing)
MEMORY = Method("memory.get", Nothing, MemoryReply)

REQUESTS: dict[str, Method[Any, Any]] = {
    method.name: method
    for method in (
        PING, SHUTDOWN, SETTINGS_GET, SETTINGS_SET,
        ADD, RESCAN, PRIORITISE, UNLOCK, SETTLE_GONE, REMOVE, REINDEX, PAUSE, RESUME, CANCEL_INDEXING,
        LIBRARY, DOCUMENTS, PAGE,
        ASK, CANCEL, SEARCH,
        MODELS, MODELS_ADD, MODELS_FORGET, MODELS_USE, MODELS_UNLOAD, MEMORY,
    )
}  # fmt: skip


# --- notifications -------------------------------------------------------------------------------


class Notice(Message):
    """Base of notifications; `coalesces` marks the ones of which only the newest matters."""

    method: ClassVar[str]
    coalesces: ClassVar[bool] = False


class Ready(Notice):
    """The first line of an engine."""

    method: ClassVar[str] = "ready"
    protocol_version: int
    pid: int
    engine_version: str


class Phase(Notice):
    """A long phase begins ("loading libraries", "loading model"); "" ends it. Pings wait longer during one."""

    method: ClassVar[str] = "phase"
    phase: str


class Log(Notice):
    method: ClassVar[str] = "log"
    level: Literal["debug", "info", "warning", "error"]
    message: str


class IndexProgress(Notice):
    """Where the indexing job stands. ETA and rate are None until they are known."""

    method: ClassVar[str] = "index.progress"
    coalesces: ClassVar[bool] = True
    documents_done: int
    documents_total: int
    chunks_done: int
    current: PathText = ""
    chunks_per_second: float | None = None
    eta_seconds: float | None = None
    is_paused: bool = False
    bytes_done: int = 0
    bytes_total: int = 0
    documents_per_second: float | None = None


class DocumentProblem(Message):
    """A file that was not indexed, and why."""

    path: PathText
    reason: str


class IndexFinished(Notice):
    """The job is over (also when it was cancelled); what it did in figures."""

    method: ClassVar[str] = "index.finished"
    indexed: int
    unchanged: int
    removed: int
    skipped: tuple[DocumentProblem, ...]
    failed: tuple[DocumentProblem, ...]
    chunks: int
    seconds: float
    was_cancelled: bool = False


class IndexFailed(Notice):
    """The job stopped because of something that concerns all files (disk full, embedder missing)."""

    method: ClassVar[str] = "index.failed"
    kind: str
    sentence: str
    way_out: str = ""


class LibraryChanged(Notice):
    """Documents were added, changed or removed: lists should be asked for again."""

    method: ClassVar[str] = "library.changed"
    coalesces: ClassVar[bool] = True


class AnswerState(Notice):
    """What a question is waiting for or busy with; `ahead` counts the questions before it."""

    method: ClassVar[str] = "answer.state"
    question_id: str
    state: Literal["queued", "searching", "reading", "writing"]
    ahead: int = 0


class AnswerFound(Notice):
    """The passages and the reader's quotes, before the model has said a word."""

    method: ClassVar[str] = "answer.found"
    question_id: str
    passages: tuple[Passage, ...]
    quotes: tuple[Quote, ...]
    scope: Scope


class AnswerTokens(Notice):
    """The next piece of the answer's text; never dropped, never reordered."""

    method: ClassVar[str] = "answer.tokens"
    question_id: str
    text: str


class Timings(Message):
    """A question's life in seconds since it was asked, and its tokens (see engine/metrics.py)."""

    queued_s: float
    retrieval_s: float
    prefill_s: float
    ttft_s: float
    total_s: float
    prompt_tokens: int
    generated_tokens: int


class AnswerFinished(Notice):
    method: ClassVar[str] = "answer.finished"
    question_id: str
    answer: Answer
    timings: Timings


class AnswerCancelled(Notice):
    method: ClassVar[str] = "answer.cancelled"
    question_id: str


class AnswerFailed(Notice):
    method: ClassVar[str] = "answer.failed"
    question_id: str
    kind: str
    sentence: str
    way_out: str = ""


class ModelState(Notice):
    """The model picker's truth: at most one model is loaded."""

    method: ClassVar[str] = "model.state"
    state: Literal["none", "loading", "loaded", "failed"]
    path: PathText = ""
    name: str = ""
    fraction: float = 0.0
    sentence: str = ""


class MemorySnapshot(Notice):
    """At most ten a second; only the newest matters."""

    method: ClassVar[str] = "memory.snapshot"
    coalesces: ClassVar[bool] = True
    memory: MemoryReply


NOTICES: dict[str, type[Notice]] = {notice.method: notice for notice in Notice.__subclasses__()}


# --- lines ---------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Request:
    """A request as it came over the pipe; `params` are of the method's type."""

    id: int
    method: Method[Any, Any]
    params: Message


@dataclass(frozen=True, slots=True)
class WireError:
    """An error in a reply."""

    kind: str
    sentence: str
    way_out: str = ""


@dataclass(frozen=True, slots=True)
class Reply:
    """The answer to request `id`: a result still untyped (the asker knows its type), or an error."""

    id: int
    result: dict[str, Any] | None = None
    error: WireError | None = None


class RequestRefused(ProtocolError):
    """A request could be read far enough to know its id, so the asker can be told."""

    def __init__(self, request_id: int, sentence: str) -> None:
        super().__init__(sentence)
        self.request_id = request_id


def encode_request(request_id: int, method: Method[P, Any], params: P) -> bytes:
    return _line({"id": request_id, "method": method.name, "params": params.model_dump()})


def encode_result(request_id: int, result: Message) -> bytes:
    return _line({"id": request_id, "result": result.model_dump()})


def encode_error(request_id: int, error: RagdollError) -> bytes:
    body = {"kind": error.kind, "sentence": error.sentence, "way_out": error.way_out}
    return _line({"id": request_id, "error": body})


def encode_notice(notice: Notice) -> bytes:
    return _line({"method": notice.method, "params": notice.model_dump()})


def decode_request(line: bytes) -> Request:
    """A request from a line, checked.

    Raises:
        RequestRefused: The id is known, but method or params are not ours.
        ProtocolError: The line is no request at all.
    """
    body = _body(line)
    request_id, name = body.get("id"), body.get("method")
    if not isinstance(request_id, int) or not isinstance(name, str):
        raise ProtocolError("A line that is no request came over the pipe.")
    method = REQUESTS.get(name)
    if method is None:
        raise RequestRefused(request_id, f"This engine knows no request named {name!r}.")
    try:
        return Request(request_id, method, method.params.model_validate(body.get("params") or {}))
    except ValidationError as error:
        raise RequestRefused(request_id, f"The request {name!r} has wrong arguments: {_first_fault(error)}.") from error


def decode_message(line: bytes) -> Reply | Notice:
    """What the engine said in one line.

    Raises:
        ProtocolError: The line is no message of ours.
    """
    body = _body(line)
    if "id" in body:
        return _reply(body)
    notice = NOTICES.get(str(body.get("method")))
    if notice is None:
        raise ProtocolError("A line that is no message came over the pipe.")
    try:
        return notice.model_validate(body.get("params") or {})
    except ValidationError as error:
        raise ProtocolError(f"A {notice.method!r} message is malformed: {_first_fault(error)}.") from error


def decode_result(method: Method[Any, R], result: dict[str, Any]) -> R:
    """The typed result of a reply.

    Raises:
        ProtocolError: The result is not what the method promises.
    """
    try:
        return method.result.model_validate(result)
    except ValidationError as error:
        raise ProtocolError(f"The reply to {method.name!r} is malformed: {_first_fault(error)}.") from error


def _reply(body: dict[str, Any]) -> Reply:
    error = body.get("error")
    if isinstance(error, dict):
        fields = {key: str(error.get(key, "")) for key in ("kind", "sentence", "way_out")}
        return Reply(int(body["id"]), error=WireError(**fields))
    result = body.get("result")
    if not isinstance(result, dict) or not isinstance(body["id"], int):
        raise ProtocolError("A reply with neither result nor error came over the pipe.")
    return Reply(body["id"], result=result)


def _line(body: dict[str, Any]) -> bytes:
    # ASCII-only JSON: surrogate escapes in file names pass as \udcXX, and no newline can hide in the text.
    return json.dumps(body, separators=(",", ":"), default=_plain).encode() + b"\n"


def _plain(value: object) -> object:
    raise TypeError(f"{type(value).__name__} cannot travel over the pipe")


def _body(line: bytes) -> dict[str, Any]:
    if len(line) > MAX_LINE_BYTES:
        raise ProtocolError("A line longer than any message came over the pipe.")
    try:
        body = json.loads(line)
    except ValueError as error:
        raise ProtocolError("A line that is not JSON came over the pipe.") from error
    if not isinstance(body, dict):
        raise ProtocolError("A line that is no JSON object came over the pipe.")
    return body


def _first_fault(error: ValidationError) -> str:
    fault = error.errors()[0]
    return f"{'.'.join(str(part) for part in fault['loc'])}: {fault['msg']}"
