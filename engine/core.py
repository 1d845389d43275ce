"""The nouns of Ragdoll as frozen values: what flows between the parts, and belongs to none of them.

A file becomes a `ParsedDocument` (pages of text with blocks marked in it), that becomes `Chunk`s,
a chunk found for a question becomes a `Passage`, and a question ends as an `Answer`.
Offsets are always character offsets into the text of one page (`ParsedPage.text`); a document
without pages has exactly one, whose number is None.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Annotated, Any, Literal

if TYPE_CHECKING:
    from collections.abc import Container

    from pydantic_core.core_schema import CoreSchema

DocumentState = Literal["pending", "indexed", "skipped", "failed", "offline"]
BlockKind = Literal["heading", "paragraph", "list_item", "table_row", "code"]
LineWord = Literal["", "line", "row", "cell"]
Need = Literal["", "password", "ocr"]
FinishReason = Literal["stop", "length"]
# Who waits for an answer: somebody at the window, a script with many questions, or nobody (KV computed ahead).
Priority = Literal["interactive", "batch", "idle"]
KVType = Literal["f16", "q8_0"]
Tier = Literal["gpu", "ram", "disk"]
SpanState = Literal["resident", "streaming", "loading", "evicting"]

DEFAULT_COLLECTION = "Documents"


class _AnyText:
    """Lets pydantic pass a str with surrogate escapes, which its own string check refuses.

    Imports pydantic only when a message is built from this type, so that parser children stay light.
    """

    def __get_pydantic_core_schema__(self, source: object, handler: object) -> CoreSchema:
        from pydantic_core import core_schema

        # What pydantic itself reads as JSON holds no escapes of the kind, and cannot be looked at as an instance.
        return core_schema.json_or_python_schema(core_schema.str_schema(), core_schema.is_instance_schema(str))


# File names are bytes; the ones that are not UTF-8 travel as surrogate escapes (`os.fsdecode`).
PathText = Annotated[str, _AnyText()]


@dataclass(frozen=True, slots=True)
class Block:
    """One structural unit, `page.text[start:end]`; the chunker never cuts a table row or a list item if it can help it.

    `level` is the heading's depth (1 = top) and 0 for every other kind. `label` is what a heading says where
    its span holds markup as well ("## Using `Arc`" says "Using Arc"); "" means that the span says it. `line` is the
    1-based line or row of the file where the block begins, 0 where the format has none to tell of.
    """

    kind: BlockKind
    start: int
    end: int
    level: int = 0
    label: str = ""
    line: int = 0


@dataclass(frozen=True, slots=True)
class ParsedPage:
    """The text of one page, or of a whole document that has none (`number` is None, else 1-based).

    Pages are whatever a format is divided into: pages, slides, sheets, chapters, the members of an archive.
    `place` names this one for people ("slide 3", "sheet “Budget”", "chapter “Loomings”", "notes/a.txt"); "" means
    "page N". Blocks are in order, do not overlap, and leave out nothing but white space and markup that is never shown.
    `line_word` is given where it is another than the document's (a workbook attached to a mail). `has_line_blocks`:
    each block is one line of the file, on however many it is shown.
    """

    number: int | None
    text: str
    blocks: tuple[Block, ...]
    place: str = ""
    line_word: LineWord = ""
    has_line_blocks: bool = False


@dataclass(frozen=True, slots=True)
class ParsedDocument:
    """What a parser made of a file: `format` is the family by content (pdf, docx, markdown, html, text, code …).

    `title` is the document's own, "" where it has none; a file's name is no title. `line_word` says what
    `Block.line` counts, and so what a citation says: "lines 10–24", "rows 3–9"; "" where it counts nothing.
    `remark` is a sentence about what could not be read of it ("3 of its 20 pages are pictures …"), `needs` what
    would help; both are "" when it is whole.
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

    `place` says where it stands, for people: "page 3", "slide 4", "sheet “Budget”, rows 12–18", "lines 10–24";
    "" where a document has no places.
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
    """What the parser process hands to the indexer: a file's chunks in order; `num_pages` is 0 where there are none.

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

    Size, time and `content_hash` are of the content that was read last ("": never read). `num_pages` is 0 where
    there are none. `embedder` is the identity of the model whose vectors are stored, "" where none are.
    `needs` is what the user can give so that a skipped file can be read after all, or the rest of an indexed one;
    then `reason` says what was left out.
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
    """What a search is confined to besides a collection; an empty field confines nothing.

    `paths` are folders or files, `formats` as in `Document.format`; the dates are ISO days ("2026-03-31") of a
    file's last change, both inclusive. `reads_question` False searches for the question's own words, without
    what they would confine ("in the PDFs …") and without the questions before it. `document_ids` are documents
    wherever they lie by now: a renamed file keeps its id.
    """

    paths: tuple[PathText, ...] = ()
    formats: tuple[str, ...] = ()
    changed_since: str = ""
    changed_until: str = ""
    reads_question: bool = True
    document_ids: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Collection:
    """A named set of folders and files, with its counts; `former_names` lead to it as well."""

    name: str
    folders: tuple[PathText, ...]
    documents_by_state: dict[str, int]
    num_chunks: int
    former_names: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Passage:
    """A chunk chosen for a question, where it stands, and how well it fits (higher is better).

    `place` as in `Chunk`. `is_offline`: its file is out of reach just now, so it can be read here but not opened.
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
    """A sentence the reader lifts out of a passage: `passages[passage].text[start:end] == text`."""

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
    """How much of the library an answer rests on: "from 6 of 212 passages in 3 files".

    `chunks_searched` and `files_searched` count what the filters left to search; `recognised` are the filters
    that were read out of the question's own words, for people ("only PDF files", "changed since 2025-01-01").
    `unread` are the places of the answer's passages that found no room in what the model read.
    `reads_through`: one document was read in the order of its text, as much of it as fits, and `passages_found` are all
    that it has.
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

    Passages come best first; those of a document that is read through, in the order of its text.
    `has_given_up`: what the question's words confine it to had nothing to say, so that the passages are from elsewhere.
    `stands_above`: it is what an earlier answer rests on, and nothing was searched for.
    """

    passages: tuple[Passage, ...]
    quotes: tuple[Quote, ...]
    scope: Scope
    has_given_up: bool = False
    stands_above: bool = False

    def of_documents(self, document_ids: Container[int]) -> Evidence:
        """What of it comes from these documents."""
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

    Where it is not said otherwise, the default is llama.cpp's value that changes nothing. `repeat_penalty` divides,
    `presence_penalty` and `frequency_penalty` subtract (once, or for each time), all over what was written within
    `repeat_window` tokens. DRY makes going on with what was said before costlier with each token beyond
    `dry_allowed_length`, by `dry_multiplier` × `dry_base`^excess, within `dry_window` tokens (None: all); a breaker
    ends a repetition. XTC leaves out, with `xtc_probability`, all but the least likely of the tokens above
    `xtc_threshold`. `mirostat` (version 2) aims at a surprise of `mirostat_tau` bits a token, learning at the rate
    `mirostat_eta`, and takes the place of top-k, top-p, typical-p, min-p and XTC. `logit_bias` are token ids and
    what is added to their logits (−inf: never).

    A model that thinks before it answers may do so for `max_thought_tokens`, which are none of `max_tokens`; one that
    can be told whether to does if `thinks`. An answer that `is_open_ended` may be longer than `max_tokens`, as far as
    the context has room; that is what is kept free for it.
    `grammar` is GBNF text that forces the answer's form, `json_schema` a JSON schema that does (not both); `stop`
    ends the answer before the string appears in it. `num_answers` are sampled apart; with `beam_width` > 1
    the likeliest of as many beams is the answer, its log-probability divided by length^`length_penalty`.
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


# The model of questions that are answered by quotes.
QUOTES_ONLY = "none"
# Of what the user wants of answers, beside what models are told anyway; in characters.
MAX_INSTRUCTIONS = 4000


@dataclass(frozen=True, slots=True)
class Question:
    """What the user asked.

    `transcript` is what earlier answers of the same conversation returned, opaque to all but the prompt and the search.
    `priority` says who waits for the answer. `model` is the file of the model that is to answer, "" for the chosen one,
    "none" for quotes. `instructions` are what the user wants of every answer, beside what the model is told anyway.
    With `unfinished`, an answer to it that broke off goes on, and nothing is searched for.
    Unless it `searches`, it is put to the model alone, without the user's files; one that `is_verbatim` with nothing of
    ours: its `instructions` are all that the model is told beside it. One that `is_raw` is all that the model reads, as
    it stands, and what is written goes on from there.
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
    """Another answer to the same question, from the same passages; a conversation goes on from it by its `segments`."""

    text: str
    citations: tuple[Citation, ...]
    finish_reason: FinishReason
    segments: tuple[dict[str, Any], ...] = ()
    thoughts: str = ""


@dataclass(frozen=True, slots=True)
class Refresh:
    """Passages that joined the evidence while an answer was being written, when `offset` characters of it were told.

    Of the answer's `passages` they are those from `first_passage` on, `num_passages` of them; citations of them come
    behind `offset`.
    """

    offset: int
    first_passage: int
    num_passages: int


@dataclass(frozen=True, slots=True)
class Unfinished:
    """An answer that broke off, as people see it: it was cut off by its length, stopped, or lost with the engine.

    `segments` are what was returned of it: () where nothing was, and of its beginning alone where `text` has grown
    since. The other fields are as in `Answer`.
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

    `alternatives` are the others, where several were asked for (`SamplingParams.num_answers`). `passages` are those
    that were found for the question, and behind them what `refreshes` brought, in the order in which it came.
    `thoughts` are what the model thought before, "" where it did not. So many of the oldest turns of its conversation
    as `turns_left_out` found no room in what the model read.
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
    """What a GGUF header says about the bytes of a model; exact, read before anything is loaded.

    `layer_bytes[i]` are the weights of block i, `other_bytes` those outside the blocks (embeddings, norms and
    the output head), of which `output_bytes` follow the last layer to a device. `kv_cell_bytes[i]` is what one
    token's f16 keys and values take in layer i. Of a mixture of experts, `expert_share` of the layers' bytes are the
    experts', of which a token uses the share `expert_use`. `width` is the length of a token's vector, 0 where it is not
    known. `stage_bytes` is the largest part of a layer that is streamed by itself, 0 where that is all of it.
    `state_bytes[i]` is what layer i keeps of each sequence whatever its length; none where there is no such layer.
    `row_bytes` of `other_bytes` are tables of which a token touches one row, in main memory always. The planner
    computes with nothing else.
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
    has_chat_template: bool
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
        """What a slot of the ring must hold."""
        return self.stage_bytes or max(self.layer_bytes, default=0)

    @property
    def ties_embeddings(self) -> bool:
        """Whether the token embeddings are the output head too: all of them are read for each token."""
        return self.output_bytes * 10 < self.other_bytes - self.row_bytes

    @property
    def head_bytes(self) -> int:
        """What is read to choose a token; on a device it is a copy where it is the token embeddings."""
        return self.other_bytes - self.row_bytes if self.ties_embeddings else self.output_bytes

    @property
    def weight_bytes(self) -> int:
        return sum(self.layer_bytes) + self.other_bytes

    def kv_bytes(self, num_cells: int) -> int:
        """Bytes of an f16 KV cache of `num_cells` cells over all layers."""
        return num_cells * sum(self.kv_cell_bytes)


@dataclass(frozen=True, slots=True)
class Download:
    """How far a file of the hub is on its way here: `num_bytes` of `total_bytes` (0: not known yet) are there.

    `source` is OWNER/NAME/FILE. One that waits for others is `waiting`; one whose part of an earlier try is looked
    through is `checking`; one that was `cut` goes on by itself, at `again_at` (seconds of the epoch; None: it tries
    just now). `problem` says why it stopped, and `way_out` what can be done.
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
        """Whether it comes, or will without anybody's doing."""
        return self.state in ("waiting", "checking", "fetching", "cut")


@dataclass(frozen=True, slots=True)
class Span:
    """Bytes that one owner holds in one tier, and what for ("layers 0–27", "cells of 'Lease questions'").

    `is_mapped`: pages of a file, which the system can take back when it is short of memory, and has to read again.
    """

    owner: str
    what: str
    tier: Tier
    num_bytes: int
    state: SpanState = "resident"
    is_mapped: bool = False
