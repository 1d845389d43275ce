"""What the engine says while it works: frozen values handed to whoever subscribed, inside the process.

The wire's notifications (protocol/notices.py) are these, mapped in notices.py; the command line and the tests
listen to them directly. A listener is called on the thread that publishes, so it only queues and returns.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from engine.core import Answer, Download, Passage, Quote, Refresh, Scope, Tier
from engine.errors import RagdollError
from engine.metrics import Timings


@dataclass(frozen=True, slots=True)
class PhaseChanged:
    """A long phase began ("loading libraries", "loading model"), or ended ("")."""

    phase: str


@dataclass(frozen=True, slots=True)
class ProblemFound:
    """Something that people had better know, in a sentence; the engine works on."""

    sentence: str


@dataclass(frozen=True, slots=True)
class SettingsChanged:
    """Some setting is another than before, whoever changed it."""


@dataclass(frozen=True, slots=True)
class IndexProgressed:
    """Where the indexing job stands; rate and ETA are None until they are known.

    `gives_way`: it is slow because somebody waits for an answer.
    """

    documents_done: int
    documents_total: int
    chunks_done: int
    current: str
    chunks_per_second: float | None
    eta_seconds: float | None
    is_paused: bool = False
    bytes_done: int = 0
    bytes_total: int = 0
    documents_per_second: float | None = None
    gives_way: bool = False


@dataclass(frozen=True, slots=True)
class IndexFinished:
    """What a job did. `skipped` and `failed` hold (path, reason); `in_part` too, of what was left out when indexed."""

    indexed: int
    unchanged: int
    removed: int
    skipped: tuple[tuple[str, str], ...]
    failed: tuple[tuple[str, str], ...]
    chunks: int
    seconds: float
    was_cancelled: bool = False
    in_part: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class IndexFailed:
    """The job stopped for a reason that concerns all files."""

    error: RagdollError


@dataclass(frozen=True, slots=True)
class LibraryChanged:
    """Documents were added, changed or removed."""


@dataclass(frozen=True, slots=True)
class AnswerStateChanged:
    question_id: str
    state: Literal["queued", "searching", "reading", "writing"]
    ahead: int = 0


@dataclass(frozen=True, slots=True)
class PassagesFound:
    """Retrieval is done: the passages, the reader's quotes, and how much of the library they are."""

    question_id: str
    passages: tuple[Passage, ...]
    quotes: tuple[Quote, ...]
    scope: Scope


@dataclass(frozen=True, slots=True)
class PromptMade:
    """A model is going to read so many tokens for a question, kept ones among them; a later one takes its place."""

    question_id: str
    num_tokens: int


@dataclass(frozen=True, slots=True)
class TokensGenerated:
    """The next piece of text; whole characters only."""

    question_id: str
    text: str


@dataclass(frozen=True, slots=True)
class ThoughtsGenerated:
    """The next piece of what a model thinks before it answers; whole characters only."""

    question_id: str
    text: str


@dataclass(frozen=True, slots=True)
class EvidenceRefreshed:
    """A long answer goes on from more passages than it began with (PipeRAG): they were searched for as it was written.

    `passages` are the new ones, to be put behind those that are known; see `Refresh`. Of the `retrieval_s` seconds
    that finding them took, `hidden_s` went by while the answer was being written as fast as before.
    """

    question_id: str
    refresh: Refresh
    passages: tuple[Passage, ...]
    retrieval_s: float
    hidden_s: float


@dataclass(frozen=True, slots=True)
class PassagesRecalled:
    """An answer cites passages of earlier turns that were not found for it again: they go behind the known ones."""

    question_id: str
    passages: tuple[Passage, ...]


@dataclass(frozen=True, slots=True)
class AnswerFinished:
    question_id: str
    answer: Answer
    timings: Timings


@dataclass(frozen=True, slots=True)
class AnswerCancelled:
    """`segments` are for the next prompt of the conversation, as `Answer.segments`; () where nothing was written."""

    question_id: str
    segments: tuple[dict[str, Any], ...] = ()


@dataclass(frozen=True, slots=True)
class AnswerFailed:
    question_id: str
    error: RagdollError


@dataclass(frozen=True, slots=True)
class ModelStateChanged:
    state: Literal["none", "loading", "loaded", "failed"]
    path: str = ""
    name: str = ""
    fraction: float = 0.0
    sentence: str = ""


@dataclass(frozen=True, slots=True)
class ModelSwitched:
    """Between two tokens, the weights of one model came into memory where those of another had been.

    `path` and `name` are of the one that came, `left` is the path of the one that computed before. To make room took
    `out_seconds`; what came, of `moved_bytes`, held its first steps up for `in_seconds`.
    """

    path: str
    name: str
    left: str
    out_seconds: float
    in_seconds: float
    moved_bytes: int


@dataclass(frozen=True, slots=True)
class PlacementSettled:
    """A placement that was asked for is in force, or cannot be: then everything stays as it was, and `sentence` why.

    Answers that were being written stood still for `pause_seconds`. The placement in force is the loader's. `changed`
    are the differences that were wanted, in words. `cause` is why it was asked for by whoever answers; "" where it was
    planned.
    """

    is_in_force: bool
    sentence: str
    pause_seconds: float = 0.0
    changed: tuple[str, ...] = ()
    cause: str = ""


@dataclass(frozen=True, slots=True)
class MemoryShort:
    """An allocation failed, and something was given up so that work goes on; `sentence` says both."""

    tier: Tier
    sentence: str


@dataclass(frozen=True, slots=True)
class MemoryChanged:
    """Somebody took or gave back bytes; the ledger holds the figures."""


@dataclass(frozen=True, slots=True)
class MeasuringProgressed:
    """The loaded model is being measured (rehearsing.py): so many points are done; 0 of 0 once nothing is."""

    done: int
    total: int


@dataclass(frozen=True, slots=True)
class DownloadsChanged:
    """How all models stand that were to be got since the start."""

    downloads: tuple[Download, ...]


@dataclass(frozen=True, slots=True)
class EmbedderDownloadsChanged:
    """How all embedding models stand that were to be got since the start."""

    downloads: tuple[Download, ...]


AnswerEnded = AnswerFinished | AnswerCancelled | AnswerFailed
Event = (
    PhaseChanged
    | ProblemFound
    | SettingsChanged
    | IndexProgressed
    | IndexFinished
    | IndexFailed
    | LibraryChanged
    | AnswerStateChanged
    | PassagesFound
    | PromptMade
    | TokensGenerated
    | ThoughtsGenerated
    | EvidenceRefreshed
    | PassagesRecalled
    | AnswerFinished
    | AnswerCancelled
    | AnswerFailed
    | ModelStateChanged
    | ModelSwitched
    | PlacementSettled
    | MemoryShort
    | MemoryChanged
    | MeasuringProgressed
    | DownloadsChanged
    | EmbedderDownloadsChanged
)
Publish = Callable[[Event], None]
