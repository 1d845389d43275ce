"""Real documents as our chunker cuts them: passages with their successors, and the texts they were cut from.

Stretches of the texts stand for answers that quote their sources, so that the source passages of each span are known.
"""

from __future__ import annotations

import random
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from tokenizers import Tokenizer

from engine.config import EmbedderSettings, LibrarySettings
from engine.core import Chunk
from engine.embedder import resolve
from engine.errors import DocumentUnreadable
from engine.library.chunker import indexed_text
from engine.library.parsers.pool import ParserPool
from tests.helpers.parsing import pool_of
from tests.helpers.shared_data import SHARED_DATA

DOCUMENTS = SHARED_DATA / "docs"
SUFFIXES = (".md", ".txt", ".epub", ".html")
SEED = 20_240_308
# A passage with at least this share of a span's word trigrams is a source of the span.
_SOURCE_SHARE = 0.5
_WORD = re.compile(r"\w+")


@dataclass(frozen=True, slots=True)
class Text:
    """A document's text with the offsets of its tokens."""

    text: str
    offsets: tuple[tuple[int, int], ...]

    def between(self, start: int, end: int) -> str:
        """Returns the text of tokens `start` to `end`, exclusive."""
        return self.text[self.offsets[start][0] : self.offsets[end - 1][1]]


@dataclass(frozen=True, slots=True)
class Library:
    """Chunks, document by document; `followers[i]` is the chunk after i in the same document, or None.

    `texts` and `files` are those of the documents.
    """

    chunks: tuple[str, ...]
    followers: tuple[int | None, ...]
    documents: tuple[int, ...]
    texts: tuple[Text, ...]
    files: tuple[Path, ...] = ()


def read_library(num_chunks: int) -> Library:
    """Returns a seeded choice of distinct documents with `num_chunks` chunks; none has more than a sixth of them."""
    spec, limits = resolve(EmbedderSettings()), LibrarySettings()
    assert spec.tokenizer_file is not None
    tokenizer = Tokenizer.from_file(str(spec.tokenizer_file))
    tokenizer.no_truncation()
    files = sorted(file for file in DOCUMENTS.rglob("*") if file.suffix in SUFFIXES and file.is_file())
    random.Random(SEED).shuffle(files)
    chunks, followers, documents = list[str](), list[int | None](), list[int]()
    texts, taken = list[Text](), list[Path]()
    known: set[str] = set()
    with pool_of(1, limits.parse_seconds, limits.parse_memory_bytes) as pool:
        for file in files:
            read = _chunks_of(pool, file, spec.tokenizer_file, limits)
            if not read or len(read) > num_chunks // 6 or read[0].text in known:
                continue
            known.add(read[0].text)
            followers += [*range(len(chunks) + 1, len(chunks) + len(read)), None]
            documents += [len(texts)] * len(read)
            chunks += [indexed_text(chunk) for chunk in read]
            texts.append(_text(tokenizer, whole_text(read)))
            taken.append(file)
            if len(chunks) >= num_chunks:
                break
    return Library(tuple(chunks), tuple(followers), tuple(documents), tuple(texts), tuple(taken))


def _chunks_of(pool: ParserPool, file: Path, tokenizer: Path, limits: LibrarySettings) -> Sequence[Chunk]:
    try:
        return pool.read(
            str(file),
            tokenizer,
            limits.chunk_tokens,
            limits.chunk_overlap_tokens,
            limits.max_file_bytes,
            limits.max_chunks_per_document,
        ).chunks
    except DocumentUnreadable:
        return ()


def whole_text(chunks: Sequence[Chunk]) -> str:
    """Joins a document's chunks into its text again, without their overlaps."""
    parts, page, end = list[str](), chunks[0].page, chunks[0].start
    for chunk in chunks:
        if chunk.page != page:
            parts.append("\n")
            page, end = chunk.page, chunk.start
        parts += [" " if chunk.start > end else "", chunk.text[max(0, end - chunk.start) :]]
        end = max(end, chunk.end)
    return "".join(parts)


def _text(tokenizer: Tokenizer, text: str) -> Text:
    return Text(text, tuple(tokenizer.encode(text, add_special_tokens=False).offsets))


def is_source(text: str, span: str) -> bool:
    """Returns whether a passage contains at least half of a span's word trigrams."""
    wanted = triples(span)
    return bool(wanted) and len(wanted & triples(text)) >= _SOURCE_SHARE * len(wanted)


def source_finder(chunks: Sequence[str]) -> Callable[[str], set[int]]:
    """Returns a function from a span of text to the passages with at least half of its word trigrams."""
    holders: defaultdict[tuple[str, ...], list[int]] = defaultdict(list)
    for index, chunk in enumerate(chunks):
        for triple in triples(chunk):
            holders[triple].append(index)

    def sources_of(span: str) -> set[int]:
        wanted = triples(span)
        held = Counter(index for triple in wanted for index in holders.get(triple, ()))
        return {index for index, count in held.items() if count >= _SOURCE_SHARE * len(wanted)}

    return sources_of


def triples(text: str) -> set[tuple[str, ...]]:
    """Returns all word trigrams, ignoring case."""
    words = _WORD.findall(text.lower())
    return set(zip(words, words[1:], words[2:], strict=False))
