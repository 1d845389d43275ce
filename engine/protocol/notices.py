"""Notifications: what the engine says unasked. A subclass of `Notice` with a `method` registers itself."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

from engine.core import Answer, Download, Passage, PathText, Quote, Refresh, Scope
from engine.protocol.library import DocumentProblem
from engine.protocol.message import Message
from engine.protocol.models import MemoryReply


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


class Measuring(Notice):
    """The loaded model is being measured while nobody asks: so many points are done; 0 of 0 ends it."""

    method: ClassVar[str] = "measuring"
    coalesces: ClassVar[bool] = True
    done: int
    total: int


class Log(Notice):
    method: ClassVar[str] = "log"
    level: Literal["debug", "info", "warning", "error"]
    message: str


class Problem(Notice):
    """Something that people had better know, in a sentence; the engine works on."""

    method: ClassVar[str] = "problem"
    sentence: str


class SettingsChanged(Notice):
    """The settings are others than before, as where a command beside the window changed them."""

    method: ClassVar[str] = "settings.changed"
    coalesces: ClassVar[bool] = True


class ServerChanged(Notice):
    """Other applications can ask at another address from now on, or at none; fields as in `ServerState`."""

    method: ClassVar[str] = "server"
    coalesces: ClassVar[bool] = True
    address: str
    problem: str


class IndexProgress(Notice):
    """Where the indexing job stands. ETA and rate are None until they are known.

    `gives_way`: it is slow because somebody waits for an answer.
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
    documents_per_second: float | None = None
    gives_way: bool = False


class IndexFinished(Notice):
    """The job is over (also when it was cancelled); what it did in figures.

    `skipped` and `failed` name the first files by path; `num_more` are those that they leave out.
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


class AnswerThoughts(Notice):
    """The next piece of what a model thinks before it answers: none of its text, and told before that."""

    method: ClassVar[str] = "answer.thoughts"
    question_id: str
    text: str


class AnswerRefreshed(Notice):
    """The answer goes on from more passages: the ones of `answer.found`, those that came since, and now these.

    It comes between two `answer.tokens`, where `refresh.offset` characters were told; the finished answer says it
    again in `refreshes`. `retrieval_s` is what finding them took, of which `hidden_s` did not hold up the text.
    """

    method: ClassVar[str] = "answer.refreshed"
    question_id: str
    refresh: Refresh
    passages: tuple[Passage, ...]
    retrieval_s: float = 0.0
    hidden_s: float = 0.0


class AnswerRecalled(Notice):
    """The answer cites passages of earlier turns that were not found for it again: they go behind those told before.

    It comes before the `answer.tokens` in which they are cited.
    """

    method: ClassVar[str] = "answer.recalled"
    question_id: str
    passages: tuple[Passage, ...]


class Timings(Message):
    """A question's life in seconds since it was asked, and its tokens (see engine/metrics.py)."""

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


class AnswerFinished(Notice):
    method: ClassVar[str] = "answer.finished"
    question_id: str
    answer: Answer
    timings: Timings


class AnswerCancelled(Notice):
    """`segments` are for the next transcript, as those of a finished answer; none where nothing was written."""

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
    """The model picker's truth: at most one model is loaded."""

    method: ClassVar[str] = "model.state"
    state: Literal["none", "loading", "loaded", "failed"]
    path: PathText = ""
    name: str = ""
    fraction: float = 0.0
    sentence: str = ""


class ModelDownloads(Notice):
    """How all models stand that were to be got since the engine's start; only the newest matters."""

    method: ClassVar[str] = "models.downloads"
    coalesces: ClassVar[bool] = True
    downloads: tuple[Download, ...]


class EmbedderDownloads(Notice):
    """How all embedding models stand that were to be got since the engine's start; only the newest matters."""

    method: ClassVar[str] = "embedders.downloads"
    coalesces: ClassVar[bool] = True
    downloads: tuple[Download, ...]


class MemorySnapshot(Notice):
    """At most ten a second; only the newest matters."""

    method: ClassVar[str] = "memory.snapshot"
    coalesces: ClassVar[bool] = True
    memory: MemoryReply


NOTICES: dict[str, type[Notice]] = {notice.method: notice for notice in Notice.__subclasses__()}
