"""Events: frozen values that the engine publishes to its subscribers while it works, inside the process.

Notifications on the wire (protocol/notices.py) are made from them in notices.py; the command line and the tests
subscribe to them directly. A listener is called on the thread that publishes, so it only queues and returns.
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
    """A problem that the user should know about, in a sentence; the engine continues."""

    sentence: str


@dataclass(frozen=True, slots=True)
class SettingsChanged:
    """A setting was changed, in the window, by a command or in the file."""


@dataclass(frozen=True, slots=True)
class IndexProgressed:
    """Where the indexing job stands; rate and ETA are None until they are known.

    `gives_way`: it is slowed down because a user waits for an answer.
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
    gives_way: bool = False


@dataclass(frozen=True, slots=True)
class IndexFinished:
    """What a job did. `skipped`, `failed` and `in_part` (indexed, but not all of it) hold pairs of path and reason."""

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
    beam_width: int = 1


@dataclass(frozen=True, slots=True)
class PassagesFound:
    """Retrieval has ended: the passages, the reader's quotes, and how much of the library they come from."""

    question_id: str
    passages: tuple[Passage, ...]
    quotes: tuple[Quote, ...]
    scope: Scope


@dataclass(frozen=True, slots=True)
class PromptMade:
    """The prompt of a question has `num_tokens` tokens, cached ones included; a later event replaces this one."""

    question_id: str
    num_tokens: int


@dataclass(frozen=True, slots=True)
class TokensGenerated:
    """The next piece of text; whole characters only."""

    question_id: str
    text: str


@dataclass(frozen=True, slots=True)
class ThoughtsGenerated:
    """The next piece of a model's reasoning before the answer; whole characters only."""

    question_id: str
    text: str


@dataclass(frozen=True, slots=True)
class EvidenceRefreshed:
    """A long answer continues with more passages than it began with (PipeRAG), found while it was being written.

    `passages` are the new ones, which follow those published before; see `Refresh`. Finding them took `retrieval_s`
    seconds, of which `hidden_s` overlapped with writing at full speed.
    """

    question_id: str
    refresh: Refresh
    passages: tuple[Passage, ...]
    retrieval_s: float
    hidden_s: float


@dataclass(frozen=True, slots=True)
class PassagesRecalled:
    """An answer cites passages of earlier turns that were not found for it: they follow those published before."""

    question_id: str
    passages: tuple[Passage, ...]


@dataclass(frozen=True, slots=True)
class AnswerFinished:
    question_id: str
    answer: Answer
    timings: Timings


@dataclass(frozen=True, slots=True)
class AnswerCancelled:
    """`segments` are for the next prompt of the conversation, as `Answer.segments`; () if nothing was written."""

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
    """Between two tokens, the weights of one model replaced those of another in memory.

    `path` and `name` are of the model that was loaded, `left` is the path of the one that it replaced. Making room took
    `out_seconds`; loading `moved_bytes` delayed its first steps by `in_seconds`.
    """

    path: str
    name: str
    left: str
    out_seconds: float
    in_seconds: float
    moved_bytes: int


@dataclass(frozen=True, slots=True)
class PlacementSettled:
    """A requested placement is in force, or was refused: then nothing has changed, and `sentence` says why.

    Answers in progress paused for `pause_seconds`. The placement in force is the loader's. `changed` describes the
    requested differences. `cause` says why the generation thread requested it; "" for a planned one.
    """

    is_in_force: bool
    sentence: str
    pause_seconds: float = 0.0
    changed: tuple[str, ...] = ()
    cause: str = ""


@dataclass(frozen=True, slots=True)
class MemoryShort:
    """An allocation failed, and something was given up so that work can continue; `sentence` says both."""

    tier: Tier
    sentence: str


@dataclass(frozen=True, slots=True)
class MemoryChanged:
    """Bytes were reserved or released; the ledger holds the figures."""


@dataclass(frozen=True, slots=True)
class MeasuringProgressed:
    """The loaded model is being measured (rehearsing.py): `done` of `total` points; 0 of 0 when it has ended."""

    done: int
    total: int


@dataclass(frozen=True, slots=True)
class DownloadsChanged:
    """The state of all model downloads since the engine started."""

    downloads: tuple[Download, ...]


@dataclass(frozen=True, slots=True)
class EmbedderDownloadsChanged:
    """The state of all downloads of embedding models since the engine started."""

    downloads: tuple[Download, ...]


@dataclass(frozen=True, slots=True)
class RerankerDownloadsChanged:
    """The state of all downloads of rerankers since the engine started."""

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
    | RerankerDownloadsChanged
)
Publish = Callable[[Event], None]
