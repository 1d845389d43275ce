"""The values that flow between the parts of Ragdoll; frozen, and owned by none of them.

A file becomes a `ParsedDocument` (pages of text with blocks marked in it), that becomes `Chunk`s,
a chunk found for a question becomes a `Passage`, and a question ends as an `Answer`.
Offsets are always character offsets into the text of one page (`ParsedPage.text`); a document
without pages has exactly one, whose number is None.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Annotated, Any, Literal

if TYPE_CHECKING:
    from collections.abc import Container, Iterable

    from pydantic_core.core_schema import CoreSchema

DocumentState = Literal["pending", "indexed", "skipped", "failed", "offline"]
BlockKind = Literal["heading", "paragraph", "list_item", "table_row", "code"]
LineWord = Literal["", "line", "row", "cell"]
Need = Literal["", "password", "ocr"]
FinishReason = Literal["stop", "length"]
# Who waits for an answer: a user at the window, a script with many questions, or nobody (KV is computed ahead).
Priority = Literal["interactive", "batch", "idle"]
KVType = Literal["f16", "q8_0"]
Tier = Literal["gpu", "ram", "disk"]
SpanState = Literal["resident", "streaming", "loading", "evicting"]

DEFAULT_COLLECTION = "Documents"


class _AnyText:
    """Lets pydantic accept a str with surrogate escapes, which its own string check refuses.

    Imports pydantic only when a message is built from this type, so that parser children stay light.
    """

    def __get_pydantic_core_schema__(self, source: object, handler: object) -> CoreSchema:
        from pydantic_core import core_schema

        # JSON that pydantic parses itself holds no such escapes, and has no instance to check.
        return core_schema.json_or_python_schema(core_schema.str_schema(), core_schema.is_instance_schema(str))


# File names are bytes; the ones that are not UTF-8 travel as surrogate escapes (`os.fsdecode`).
PathText = Annotated[str, _AnyText()]


@dataclass(frozen=True, slots=True)
class Block:
    """One structural unit, `page.text[start:end]`; the chunker avoids cutting a table row or a list item.

    `level` is the heading's depth (1 = top) and 0 for every other kind. `label` is the plain text of a heading whose
    span contains markup ("Using Arc" for "## Using `Arc`"); "" means that the span itself is plain. `line` is the
    1-based line or row of the file where the block begins, 0 where the format has no lines.
    """

    kind: BlockKind
    start: int
    end: int
    level: int = 0
    label: str = ""
    line: int = 0


@dataclass(frozen=True, slots=True)
class ParsedPage:
    """The text of one page, or of a whole document without pages (`number` is None, else 1-based).

    Pages are whatever a format is divided into: pages, slides, sheets, chapters, the members of an archive.
    `place` is the label shown to users ("slide 3", "sheet “Budget”", "chapter “Loomings”", "notes/a.txt"); "" means
    "page N". Blocks are in order, do not overlap, and omit only white space and markup that is never shown.
    `line_word` is set where it differs from the document's (a workbook attached to a mail). `has_line_blocks`: each
    block is one line of the file, however many lines it is shown on.
    """

    number: int | None
    text: str
    blocks: tuple[Block, ...]
    place: str = ""
    line_word: LineWord = ""
    has_line_blocks: bool = False


@dataclass(frozen=True, slots=True)
class ParsedDocument:
    """The result of parsing a file; `format` is its family by content (pdf, docx, markdown, html, text, code …).

    `title` is the document's own title, "" where it has none; the file's name does not count. `line_word` says what
    `Block.line` counts, and so what a citation shows: "lines 10–24", "rows 3–9"; "" where it counts nothing.
    `remark` is a sentence about what could not be read ("3 of its 20 pages are pictures …"), `needs` what would help;
    both are "" when everything was read.
    """

    format: str
    title: str
    pages: tuple[ParsedPage, ...]
    line_word: LineWord = ""
    remark: str = ""
    needs: Need = ""


@dataclass(frozen=True, slots=True)
class Chunk:
    """A passage-sized piece of one page: `text == page.text[start:end]`, under `heading` ("Book › Chapter").

    `place` is its position as shown to users: "page 3", "slide 4", "sheet “Budget”, rows 12–18", "lines 10–24"; ""
    where a document has no places.
    """

    ordinal: int
    page: int | None
    start: int
    end: int
    heading: str
    text: str
    place: str = ""


@dataclass(frozen=True, slots=True)
class ReadDocument:
    """A file's chunks in order, as the parser process hands them to the indexer; `num_pages` is 0 without pages.

    `remark` and `needs` as in `ParsedDocument`.
    """

    format: str
    title: str
    num_pages: int
    chunks: tuple[Chunk, ...]
    remark: str = ""
    needs: Need = ""


@dataclass(frozen=True, slots=True)
class PageView:
    """A page with a span marked: a picture with marks (PDF), or text as a window around the span.

    Fields as in `protocol.PageReply`, but `image_png` is the PNG itself, b"" when the page is text. Each
    mark is (x0, y0, x1, y1) in fractions of the picture's size, from its top left corner.
    """

    page: int | None
    num_pages: int
    image_png: bytes = b""
    marks: tuple[tuple[float, float, float, float], ...] = ()
    text: str = ""
    text_start: int = 0
    mark_start: int = 0
    mark_end: int = 0
    place: str = ""
    is_changed: bool = False


@dataclass(frozen=True, slots=True)
class FoundFile:
    """A regular file as it lies on the disk now."""

    path: PathText
    size_bytes: int
    mtime_ns: int


@dataclass(frozen=True, slots=True)
class Document:
    """One file as the catalogue knows it; `path` is for showing and opening (surrogate escapes where not UTF-8).

    Size, time and `content_hash` describe the content that was read last ("": never read). `num_pages` is 0 for a
    document without pages. `embedder` is the identity of the model whose vectors are stored, "" where none are.
    `needs` is what the user can provide so that a skipped file, or the rest of an indexed one, can be read; `reason`
    then says what was left out.
    """

    document_id: int
    collections: tuple[str, ...]
    path: PathText
    state: DocumentState
    reason: str
    size_bytes: int
    mtime_ns: int
    content_hash: str
    format: str
    num_chunks: int
    title: str = ""
    num_pages: int = 0
    embedder: str = ""
    needs: Need = ""


@dataclass(frozen=True, slots=True)
class Filters:
    """What a search is limited to in addition to a collection; an empty field sets no limit.

    `paths` are folders or files, `formats` as in `Document.format`; the dates are ISO dates ("2026-03-31") of a
    file's last change, both inclusive. With `reads_question` False the question is searched for literally: words such
    as "in the PDFs" do not filter, and earlier questions are ignored. `document_ids` select documents wherever they
    are now: a renamed file keeps its id. `collections` are several that are searched together, by present or former
    name; a single collection is given separately from the filters.
    """

    paths: tuple[PathText, ...] = ()
    formats: tuple[str, ...] = ()
    changed_since: str = ""
    changed_until: str = ""
    reads_question: bool = True
    document_ids: tuple[int, ...] = ()
    # A name that is not valid text matches no collection; it is accepted here so that the error can say so.
    collections: tuple[PathText, ...] = ()

    def asked_of(self, names: Iterable[str]) -> tuple[str | None, Filters]:
        """Returns collection and filters of a question to the named collections; without a name all are searched."""
        several = tuple(dict.fromkeys(names))
        if len(several) == 1:
            return several[0], self
        return None, replace(self, collections=several)


@dataclass(frozen=True, slots=True)
class Collection:
    """A named set of folders and files, with its counts; it can also be addressed by its `former_names`."""

    name: str
    folders: tuple[PathText, ...]
    documents_by_state: dict[str, int]
    num_chunks: int
    former_names: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Passage:
    """A chunk chosen for a question, with its position and score (higher is better).

    `place` as in `Chunk`. `is_offline`: the file is out of reach, so the text can be shown but the file not opened.
    """

    row_id: str
    document_id: int
    document: PathText
    ordinal: int
    page: int | None
    start: int
    end: int
    heading: str
    text: str
    score: float
    place: str = ""
    is_offline: bool = False


@dataclass(frozen=True, slots=True)
class Quote:
    """A sentence that the reader extracts from a passage: `passages[passage].text[start:end] == text`."""

    text: str
    passage: int
    document: PathText
    page: int | None
    start: int
    end: int
    score: float
    place: str = ""


@dataclass(frozen=True, slots=True)
class Citation:
    """A marker such as "[2]" at `offset` of the answer text, and the index of the passage it points to (0-based)."""

    marker: str
    passage: int
    offset: int


@dataclass(frozen=True, slots=True)
class Scope:
    """How much of the library an answer is based on: "from 6 of 212 passages in 3 files".

    `chunks_searched` and `files_searched` count what remained after filtering; `recognised` are the filters found in
    the question's own words, as shown to users ("only PDF files", "changed since 2025-01-01"). `unread` are the
    indices of the answer's passages that did not fit into the prompt. `reads_through`: one document was read in the
    order of its text, as much of it as fits, and `passages_found` counts all its passages.
    """

    passages_used: int
    passages_found: int
    files: int
    chunks_searched: int = 0
    files_searched: int = 0
    recognised: tuple[str, ...] = ()
    unread: tuple[int, ...] = ()
    reads_through: bool = False


@dataclass(frozen=True, slots=True)
class Evidence:
    """What retrieval hands to generation for one question: its passages, and the reader's quotes from them.

    Passages come best first; those of a document that is read through come in the order of its text.
    `has_given_up`: nothing was found within the filters of the question's words, so the search ran without them.
    `stands_above`: these are the passages of an earlier answer, and nothing was searched for.
    """

    passages: tuple[Passage, ...]
    quotes: tuple[Quote, ...]
    scope: Scope
    has_given_up: bool = False
    stands_above: bool = False

    def of_documents(self, document_ids: Container[int]) -> Evidence:
        """Returns the part of it that comes from these documents."""
        places = [place for place, passage in enumerate(self.passages) if passage.document_id in document_ids]
        passages = tuple(self.passages[place] for place in places)
        quotes = tuple(
            replace(quote, passage=places.index(quote.passage)) for quote in self.quotes if quote.passage in places
        )
        files = len({passage.document_id for passage in passages})
        scope = replace(self.scope, passages_used=len(passages), files=files)
        return replace(self, passages=passages, quotes=quotes, scope=scope)


@dataclass(frozen=True, slots=True)
class SamplingParams:
    """How the next token is chosen. temperature 0 is greedy; seed None is a fresh one each time.

    Unless noted, the default is llama.cpp's neutral value. `repeat_penalty` divides, `presence_penalty` and
    `frequency_penalty` subtract (once, or per occurrence), all over the last `repeat_window` tokens. DRY penalises
    repeating an earlier sequence with each token beyond `dry_allowed_length`, by `dry_multiplier` ×
    `dry_base`^excess, within `dry_window` tokens (None: all); a breaker ends a repetition. XTC removes, with
    `xtc_probability`, all but the least likely of the tokens above `xtc_threshold`. `mirostat` (version 2) aims at a
    surprise of `mirostat_tau` bits per token, with learning rate `mirostat_eta`, and replaces top-k, top-p,
    typical-p, min-p and XTC. `logit_bias` are pairs of a token id and the value added to its logit (−inf: never).

    A model that reasons before it answers may use `max_thought_tokens` for that, which do not count towards
    `max_tokens`; a model whose reasoning can be switched reasons if `thinks`. An answer that `is_open_ended` may be
    longer than `max_tokens` if the context has room; `max_tokens` is what is reserved for it.
    `grammar` is GBNF text that constrains the answer, `json_schema` a JSON schema that does (not both); `stop`
    ends the answer before the string appears in it. `num_answers` are sampled independently; with `beam_width` > 1
    the answer is the likeliest of that many beams, its log-probability divided by length^`length_penalty`.
    """

    max_tokens: int = 1024
    temperature: float = 0.2
    top_k: int = 40
    top_p: float = 0.95
    min_p: float = 0.05
    repeat_penalty: float = 1.1
    seed: int | None = None
    stop: tuple[str, ...] = ()
    grammar: str = ""
    json_schema: str = ""
    typical_p: float = 1.0
    repeat_window: int = 64
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    dry_multiplier: float = 0.0
    dry_base: float = 1.75
    dry_allowed_length: int = 2
    dry_window: int | None = None
    dry_breakers: tuple[str, ...] = ("\n", ":", '"', "*")
    xtc_probability: float = 0.0
    xtc_threshold: float = 0.1
    mirostat: bool = False
    mirostat_tau: float = 5.0
    mirostat_eta: float = 0.1
    logit_bias: tuple[tuple[int, float], ...] = ()
    num_answers: int = 1
    beam_width: int = 1
    length_penalty: float = 1.0
    max_thought_tokens: int = 1024
    thinks: bool = False
    is_open_ended: bool = False

    def with_usable_beams(self) -> SamplingParams:
        """Returns these with one beam if beams cannot be searched: with several answers, a grammar or a schema.

        Only for the usual number of beams; one that was requested explicitly is refused instead.
        """
        is_usable = self.num_answers == 1 and not (self.grammar or self.json_schema)
        return self if is_usable else replace(self, beam_width=1)


# The `model` of questions that are answered by quotes.
QUOTES_ONLY = "none"
# The longest instructions of a user, in characters; our own instructions do not count.
MAX_INSTRUCTIONS = 4000


@dataclass(frozen=True, slots=True)
class Question:
    """A question as it was asked.

    `transcript` is what earlier answers of the same conversation returned; only the prompt and the search read it.
    `priority` says who waits for the answer. `model` is the file of the model that is to answer, "" for the chosen one,
    "none" for quotes. `instructions` are the user's instructions for every answer, in addition to our own.
    With `unfinished`, an interrupted answer to it is continued, and nothing is searched for.
    Unless it `searches`, the model answers alone, without the user's files. A question that `is_verbatim` is sent
    without our own instructions, only with `instructions`. One that `is_raw` is the whole prompt, unchanged, and the
    model continues from there.
    """

    question_id: str
    text: str
    collection: str | None = None
    conversation_id: str = ""
    transcript: tuple[dict[str, Any], ...] = ()
    top_k: int | None = None
    sampling: SamplingParams = field(default_factory=SamplingParams)
    filters: Filters = Filters()
    priority: Priority = "interactive"
    model: str = ""
    instructions: str = ""
    unfinished: Unfinished | None = None
    searches: bool = True
    is_verbatim: bool = False
    is_raw: bool = False


@dataclass(frozen=True, slots=True)
class Alternative:
    """Another answer to the same question, from the same passages; `segments` let a conversation continue from it."""

    text: str
    citations: tuple[Citation, ...]
    finish_reason: FinishReason
    segments: tuple[dict[str, Any], ...] = ()
    thoughts: str = ""


@dataclass(frozen=True, slots=True)
class Refresh:
    """Passages that were added to the evidence while an answer was being written, after `offset` of its characters.

    They are `num_passages` of the answer's `passages`, from `first_passage` on; they are cited only after `offset`.
    """

    offset: int
    first_passage: int
    num_passages: int


@dataclass(frozen=True, slots=True)
class ContextUse:
    """What filled the context of a model, in tokens, when its answer was complete; all 0 where no model answered.

    Of `size`, the most that the model reads at a time, `instructions`, `passages` (also those of earlier questions),
    `conversation` (all questions and the earlier answers) and `answer` (with its thoughts) are in use. At least
    `reserve` is kept free for an answer. The oldest `turns_left_out` of the conversation did not fit.
    """

    size: int = 0
    instructions: int = 0
    passages: int = 0
    conversation: int = 0
    answer: int = 0
    reserve: int = 0
    turns_left_out: int = 0

    @property
    def used(self) -> int:
        return self.instructions + self.passages + self.conversation + self.answer


@dataclass(frozen=True, slots=True)
class Unfinished:
    """An interrupted answer as it is shown: its length limit was reached, it was stopped, or the engine ended.

    `segments` are those that were returned: () if none were, and only those of its beginning if `text` has grown since.
    The other fields are as in `Answer`.
    """

    text: str
    quotes: tuple[Quote, ...] = ()
    passages: tuple[Passage, ...] = ()
    scope: Scope | None = None
    segments: tuple[dict[str, Any], ...] = ()
    refreshes: tuple[Refresh, ...] = ()
    thoughts: str = ""


@dataclass(frozen=True, slots=True)
class Answer:
    """A finished answer. `model` is None when the answer is extractive: then the quotes are the answer.

    `alternatives` are the others, if several were requested (`SamplingParams.num_answers`). `passages` are those
    found for the question, followed by those that `refreshes` added, in order of arrival. `thoughts` is the model's
    reasoning, "" without any. `turns_left_out` counts the oldest turns of the conversation that did not fit into the
    prompt.
    """

    text: str
    quotes: tuple[Quote, ...]
    citations: tuple[Citation, ...]
    passages: tuple[Passage, ...]
    scope: Scope
    model: str | None
    finish_reason: FinishReason
    segments: tuple[dict[str, Any], ...] = ()
    alternatives: tuple[Alternative, ...] = ()
    refreshes: tuple[Refresh, ...] = ()
    thoughts: str = ""
    turns_left_out: int = 0


@dataclass(frozen=True, slots=True)
class ModelShape:
    """The sizes of a model according to its GGUF header; exact, and read before anything is loaded.

    `layer_bytes[i]` are the weights of block i, `other_bytes` those outside the blocks (embeddings, norms and
    the output head), of which `output_bytes` follow the last layer to a device. `kv_cell_bytes[i]` is the size of one
    token's f16 keys and values in layer i. In a mixture of experts, `expert_share` of the layers' bytes belong to
    experts, of which a token uses the share `expert_use`. `width` is the length of a token's vector, 0 if unknown.
    `stage_bytes` is the largest part of a layer that is streamed separately, 0 if a layer is streamed whole.
    `state_bytes[i]` is what layer i keeps per sequence, independent of its length; () without such layers.
    `row_bytes` of `other_bytes` are tables of which a token reads one row; they are always in main memory. The planner
    uses nothing else.
    """

    name: str
    architecture: str
    trained_context: int
    layer_bytes: tuple[int, ...]
    other_bytes: int
    output_bytes: int
    kv_cell_bytes: tuple[int, ...]
    vocabulary_size: int
    file_bytes: int
    expert_share: float = 0.0
    expert_use: float = 1.0
    width: int = 0
    stage_bytes: int = 0
    state_bytes: tuple[int, ...] = ()
    row_bytes: int = 0

    @property
    def num_layers(self) -> int:
        return len(self.layer_bytes)

    @property
    def slot_bytes(self) -> int:
        """The size of a slot of the ring."""
        return self.stage_bytes or max(self.layer_bytes, default=0)

    @property
    def ties_embeddings(self) -> bool:
        """Whether the token embeddings are the output head too: all of them are read for each token."""
        return self.output_bytes * 10 < self.other_bytes - self.row_bytes

    @property
    def head_bytes(self) -> int:
        """Bytes that are read to choose a token; with tied embeddings a device holds a copy of them."""
        return self.other_bytes - self.row_bytes if self.ties_embeddings else self.output_bytes

    @property
    def weight_bytes(self) -> int:
        return sum(self.layer_bytes) + self.other_bytes

    def kv_bytes(self, num_cells: int) -> int:
        """Returns bytes of an f16 KV cache of `num_cells` cells over all layers."""
        return num_cells * sum(self.kv_cell_bytes)


@dataclass(frozen=True, slots=True)
class Download:
    """The progress of a file from the hub: `num_bytes` of `total_bytes` (0: not known yet) are downloaded.

    `source` is OWNER/NAME/FILE. `waiting`: other downloads go first. `checking`: the part from an earlier attempt is
    verified. `cut`: it is retried automatically at `again_at` (seconds since the epoch; None: now). `problem` says why
    it stopped, and `way_out` what can be done.
    """

    source: str
    state: Literal["absent", "part", "waiting", "checking", "fetching", "cut", "there"] = "absent"
    num_bytes: int = 0
    total_bytes: int = 0
    bytes_per_second: float | None = None
    seconds_left: float | None = None
    problem: str = ""
    way_out: str = ""
    again_at: float | None = None

    @property
    def is_under_way(self) -> bool:
        """Whether it is being downloaded, or will be without further action."""
        return self.state in ("waiting", "checking", "fetching", "cut")


@dataclass(frozen=True, slots=True)
class Span:
    """Bytes that one owner holds in one tier, and what for ("layers 0–27", "cells of 'Lease questions'").

    `is_mapped`: they are pages of a file, which the system can drop when memory is short and read again later.
    """

    owner: str
    what: str
    tier: Tier
    num_bytes: int
    state: SpanState = "resident"
    is_mapped: bool = False
