"""Notifications: messages that the engine sends unrequested. A `Notice` subclass with a `method` registers itself."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

from engine.core import Answer, ContextUse, Download, Passage, PathText, Quote, Refresh, Scope
from engine.protocol.library import DocumentProblem
from engine.protocol.message import Message
from engine.protocol.models import MemoryReply


class Notice(Message):
    """Base of notifications; `coalesces`: only the newest one matters."""

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


class Measuring(Notice):
    """The loaded model is being measured while the engine is idle: `done` of `total` points; 0 of 0 ends it."""

    method: ClassVar[str] = "measuring"
    coalesces: ClassVar[bool] = True
    done: int
    total: int


class Log(Notice):
    method: ClassVar[str] = "log"
    level: Literal["debug", "info", "warning", "error"]
    message: str


class Problem(Notice):
    """A problem that the user should know about, in a sentence; the engine continues."""

    method: ClassVar[str] = "problem"
    sentence: str


class SettingsChanged(Notice):
    """The settings were changed, for example by a command while the window is open."""

    method: ClassVar[str] = "settings.changed"
    coalesces: ClassVar[bool] = True


class ServerChanged(Notice):
    """The address of the HTTP API changed, or the API is off; fields as in `ServerState`."""

    method: ClassVar[str] = "server"
    coalesces: ClassVar[bool] = True
    address: str
    problem: str


class IndexProgress(Notice):
    """Where the indexing job stands. ETA and rate are None until they are known.

    `gives_way`: it is slowed down because a user waits for an answer.
    """

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
    gives_way: bool = False


class IndexFinished(Notice):
    """The job has ended (or was cancelled); what it did, in figures.

    `skipped` and `failed` list the first files by path; `num_more` counts the files that they omit.
    """

    method: ClassVar[str] = "index.finished"
    indexed: int
    unchanged: int
    removed: int
    skipped: tuple[DocumentProblem, ...]
    failed: tuple[DocumentProblem, ...]
    chunks: int
    seconds: float
    was_cancelled: bool = False
    num_more: int = 0


class IndexFailed(Notice):
    """The job stopped because of something that concerns all files (disk full, embedder missing)."""

    method: ClassVar[str] = "index.failed"
    kind: str
    sentence: str
    way_out: str = ""


class LibraryChanged(Notice):
    """Documents were added, changed or removed: lists should be requested again."""

    method: ClassVar[str] = "library.changed"
    coalesces: ClassVar[bool] = True


class AnswerState(Notice):
    """What a question is waiting for or busy with; `ahead` counts the questions before it.

    With `beam_width` > 1, nothing of an answer is sent before all of it is written.
    """

    method: ClassVar[str] = "answer.state"
    question_id: str
    state: Literal["queued", "searching", "reading", "writing"]
    ahead: int = 0
    beam_width: int = 1


class AnswerFound(Notice):
    """The passages and the reader's quotes, before the model has written anything."""

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


class AnswerThoughts(Notice):
    """The next piece of a model's reasoning, which precedes the answer and is not part of it."""

    method: ClassVar[str] = "answer.thoughts"
    question_id: str
    text: str


class AnswerRefreshed(Notice):
    """The answer continues with more passages: those of `answer.found`, those added since, and now these.

    It is sent between two `answer.tokens`, after `refresh.offset` characters; the finished answer repeats it in
    `refreshes`. Finding the passages took `retrieval_s`, of which `hidden_s` did not delay the text.
    """

    method: ClassVar[str] = "answer.refreshed"
    question_id: str
    refresh: Refresh
    passages: tuple[Passage, ...]
    retrieval_s: float = 0.0
    hidden_s: float = 0.0


class AnswerRecalled(Notice):
    """The answer cites passages of earlier turns that were not found for it: they follow those sent before.

    It is sent before the `answer.tokens` that cite them.
    """

    method: ClassVar[str] = "answer.recalled"
    question_id: str
    passages: tuple[Passage, ...]


class Timings(Message):
    """When a question reached each stage, in seconds since it was asked, and its tokens (see engine/metrics.py)."""

    queued_s: float
    retrieval_s: float
    prefill_s: float
    ttft_s: float
    total_s: float
    prompt_tokens: int
    generated_tokens: int
    cached_tokens: int = 0
    refreshes: int = 0
    refresh_retrieval_s: float = 0.0
    refresh_hidden_s: float = 0.0
    refresh_prefill_s: float = 0.0
    thought_tokens: int = 0
    thinking_s: float = 0.0
    other_tokens: int = 0
    other_thought_tokens: int = 0
    context: ContextUse = ContextUse()


class AnswerFinished(Notice):
    method: ClassVar[str] = "answer.finished"
    question_id: str
    answer: Answer
    timings: Timings


class AnswerCancelled(Notice):
    """`segments` are for the next transcript, like those of a finished answer; () if nothing was written."""

    method: ClassVar[str] = "answer.cancelled"
    question_id: str
    segments: tuple[dict[str, Any], ...] = ()


class AnswerFailed(Notice):
    method: ClassVar[str] = "answer.failed"
    question_id: str
    kind: str
    sentence: str
    way_out: str = ""


class ModelState(Notice):
    """The state of the chosen model, as the model picker shows it: at most one is loaded."""

    method: ClassVar[str] = "model.state"
    state: Literal["none", "loading", "loaded", "failed"]
    path: PathText = ""
    name: str = ""
    fraction: float = 0.0
    sentence: str = ""


class ModelDownloads(Notice):
    """The state of all model downloads since the engine started."""

    method: ClassVar[str] = "models.downloads"
    coalesces: ClassVar[bool] = True
    downloads: tuple[Download, ...]


class EmbedderDownloads(Notice):
    """The state of all downloads of embedding models since the engine started."""

    method: ClassVar[str] = "embedders.downloads"
    coalesces: ClassVar[bool] = True
    downloads: tuple[Download, ...]


class RerankerDownloads(Notice):
    """The state of all downloads of rerankers since the engine started."""

    method: ClassVar[str] = "rerankers.downloads"
    coalesces: ClassVar[bool] = True
    downloads: tuple[Download, ...]


class MemorySnapshot(Notice):
    """The memory plan and who holds what; sent at most ten times a second."""

    method: ClassVar[str] = "memory.snapshot"
    coalesces: ClassVar[bool] = True
    memory: MemoryReply


NOTICES: dict[str, type[Notice]] = {notice.method: notice for notice in Notice.__subclasses__()}
