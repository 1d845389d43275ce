"""What a retrieval finds that runs ahead of the text it is for: PipeRAG's stale queries, with our own embedder.

    python -m tests.bench.stale_queries [--quick] [--json FILE]

No model writes here: stretches of real documents stand for the answer that is being written, and the library is what
our chunker makes of documents like them. Two questions are answered.

How much does it matter that a window of text is some tokens old when its passages arrive? For staleness 0…64, the mean
cosine between the best passage of the stale window and the best one of the fresh window. `cosine_64`, which is to be
at least 0.88, is the last of them (PipeRAG reports as much for its own embedder and library; arXiv 2403.05676).

Does looking again help? An answer quotes its sources, so the passage that the next 64 tokens come from is known, and
recall is the share of spans whose source is in evidence when they are written: with all passages taken for the
question (`none`), half of them at the first look again (`once`), or a few every 64 tokens, found by a window that is
64 tokens old (`periodic`). All three may take equally many. 10, 50 and 100 % of the library are searched. Exit code 1
unless the bound holds and periodic ≥ once ≥ none where everything is searched.
"""

from __future__ import annotations

import argparse
import random
import re
import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from tokenizers import Tokenizer

from engine.config import EmbedderSettings, LibrarySettings
from engine.core import Chunk
from engine.embedder import Embedder, resolve
from engine.errors import DocumentUnreadable
from engine.library.chunker import indexed_text
from engine.library.parsers.pool import ParserPool
from engine.memory.ledger import Ledger
from tests.bench import report
from tests.bench.vectors import Vectors
from tests.helpers.shared_data import SHARED_DATA

DOCUMENTS = SHARED_DATA / "docs"
SUFFIXES = (".md", ".txt", ".epub", ".html")
SEED = 20_240_308
WINDOW_TOKENS = 128
STALENESS = (0, 1, 2, 4, 8, 16, 32, 64)
SPAN_TOKENS, SPANS = 64, 8
QUESTION_PASSAGES, PASSAGES_PER_REFRESH = 6, 2
SHARES = (0.1, 0.5, 1.0)
POLICIES = ("none", "once", "periodic")
BOUND = 0.88
# A passage with at least so much of a span's word triples is where the span comes from.
_SOURCE_SHARE = 0.5
_WORD = re.compile(r"\w+")

Rank = Callable[[int], Sequence[int]]


@dataclass(frozen=True, slots=True)
class Size:
    chunks: int
    windows: int
    answers: int


FULL, QUICK = Size(chunks=1_500, windows=200, answers=100), Size(chunks=500, windows=60, answers=30)


@dataclass(frozen=True, slots=True)
class Text:
    """A document as one stretch of text, with the place of each of its tokens."""

    text: str
    offsets: tuple[tuple[int, int], ...]

    def between(self, start: int, end: int) -> str:
        """The text of tokens `start`…`end`."""
        return self.text[self.offsets[start][0] : self.offsets[end - 1][1]]


@dataclass(frozen=True, slots=True)
class Library:
    """Chunks document by document: `followers[i]` is the chunk after i in the same document, None at its end."""

    chunks: tuple[str, ...]
    followers: tuple[int | None, ...]
    documents: tuple[int, ...]
    texts: tuple[Text, ...]


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.stale_queries", description=__doc__.partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help="a third of the passages, windows and answers")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the figures there")
    options = parser.parse_args(arguments)
    if not DOCUMENTS.is_dir():
        print(f"There are no documents at {DOCUMENTS}.", file=sys.stderr)
        return 2
    size = QUICK if options.quick else FULL
    library = read_library(size.chunks)
    told = f"{len(library.chunks)} passages of {len(library.texts)} documents"
    print(f"  {told}, windows of {WINDOW_TOKENS} tokens", file=sys.stderr, flush=True)
    settings = EmbedderSettings()
    embedder = Embedder(resolve(settings), settings, Ledger())
    try:
        vectors = embedder.embed_documents(library.chunks)
        cosines = stale_cosines(library, vectors, embedder.embed_questions, size.windows)
        recalls = recalls_by_policy(library, vectors, embedder.embed_questions, size.answers)
    finally:
        embedder.unload()
    return _tell(cosines, recalls, options.json)


def _tell(cosines: dict[int, float], recalls: dict[str, dict[float, float]], file: Path | None) -> int:
    ours = {f"cosine_{staleness}": cosine for staleness, cosine in cosines.items()}
    for policy, by_share in recalls.items():
        ours |= {f"recall_{policy}_{share * 100:.0f}": recall for share, recall in by_share.items()}
    report.show("stale queries", ours, {})
    named = {"cosine_64": cosines[64]}
    is_ordered = recalls["periodic"][1.0] >= recalls["once"][1.0] >= recalls["none"][1.0]
    print(f"  {'cosine_64':<32} {named['cosine_64']:>12.3f}   bound {BOUND}: {_verdict(cosines[64] >= BOUND)}")
    print(f"  {'periodic ≥ once ≥ none':<32} {'':>12}   {_verdict(is_ordered)}")
    if file is not None:
        report.write(file, ours, {}, named)
    return 0 if is_ordered and cosines[64] >= BOUND else 1


def _verdict(is_kept: bool) -> str:
    return "kept" if is_kept else "BROKEN"


# --- staleness ---


def stale_cosines(
    library: Library, vectors: Vectors, embed: Callable[[Sequence[str]], Vectors], num_windows: int
) -> dict[int, float]:
    """By staleness in tokens, the mean cosine of the best passages of the stale and of the fresh window."""
    choose = random.Random(SEED)
    long = [text for text in library.texts if len(text.offsets) > WINDOW_TOKENS + max(STALENESS)]
    windows = []
    for _ in range(num_windows):
        text = choose.choice(long)
        end = choose.randrange(WINDOW_TOKENS + max(STALENESS), len(text.offsets))
        windows += [text.between(end - stale - WINDOW_TOKENS, end - stale) for stale in STALENESS]
    best = vectors[(embed(windows) @ vectors.T).argmax(axis=1)].reshape(num_windows, len(STALENESS), -1)
    cosines = (best * best[:, :1]).sum(axis=2).mean(axis=0)
    return dict(zip(STALENESS, cosines.tolist(), strict=True))


# --- looking again ---


def recalls_by_policy(
    library: Library, vectors: Vectors, embed: Callable[[Sequence[str]], Vectors], num_answers: int
) -> dict[str, dict[float, float]]:
    """By policy and share of the library that is searched, the share of spans whose source is in evidence."""
    answers = list(_answers(library, num_answers))
    sources_of = source_finder(library.chunks)
    questions = [text.between(end - WINDOW_TOKENS, end) for text, start in answers for end in _window_ends(start)]
    scores = (embed(questions) @ vectors.T).reshape(num_answers, SPANS, -1)
    recalls: dict[str, dict[float, float]] = {policy: {} for policy in POLICIES}
    for share in SHARES:
        is_searched = np.isin(library.documents, _searched(library, share))
        found: dict[str, list[bool]] = {policy: [] for policy in POLICIES}
        for (text, start), of_answer in zip(answers, scores, strict=True):
            rankings = np.argsort(-np.where(is_searched, of_answer, -np.inf), axis=1, kind="stable")
            ranked = [ranking[is_searched[ranking]].tolist() for ranking in rankings]
            spans = [text.between(start + SPAN_TOKENS * k, start + SPAN_TOKENS * (k + 1)) for k in range(SPANS)]
            wanted = [sources_of(span) for span in spans]
            for policy in POLICIES:
                evidence = evidence_by_span(policy, ranked.__getitem__, library.followers)
                found[policy] += [bool(had & source) for had, source in zip(evidence, wanted, strict=True) if source]
        for policy in POLICIES:
            recalls[policy][share] = sum(found[policy]) / len(found[policy])
    return recalls


def _answers(library: Library, count: int) -> Iterator[tuple[Text, int]]:
    """Stretches of documents: the text, and the token at which the answer begins; before it stands the question."""
    choose = random.Random(SEED + 1)
    needed = WINDOW_TOKENS + SPAN_TOKENS * SPANS
    long = [text for text in library.texts if len(text.offsets) >= needed]
    for _ in range(count):
        text = choose.choice(long)
        yield text, choose.randint(WINDOW_TOKENS, len(text.offsets) - SPAN_TOKENS * SPANS)


def _window_ends(start: int) -> list[int]:
    """Where the window ends by which the evidence of each span is found: a span's length before it begins."""
    return [start, *(start + SPAN_TOKENS * (span - 1) for span in range(1, SPANS))]


def _searched(library: Library, share: float) -> list[int]:
    """Which documents are looked at; those of a smaller share are among those of a larger one."""
    order = random.Random(SEED + 2).sample(range(len(library.texts)), len(library.texts))
    return order[: max(1, round(share * len(order)))]


def evidence_by_span(policy: str, ranked: Rank, followers: Sequence[int | None]) -> list[set[int]]:
    """The passages in evidence while each span is written; `ranked(span)` are those found by its window, best first.

    Every policy takes as many in all. What is in evidence already is passed over, and the passage that follows a
    newly found one is taken along.
    """
    later = PASSAGES_PER_REFRESH * (SPANS - 1)
    first = QUESTION_PASSAGES + (later if policy == "none" else 0)
    evidence = set(ranked(0)[:first])
    by_span = []
    for span in range(SPANS):
        if span and policy != "none":
            room = PASSAGES_PER_REFRESH if policy == "periodic" else later * (span == 1)
            evidence |= set(fresh(ranked(span), evidence, followers, room))
        by_span.append(set(evidence))
    return by_span


def fresh(ranking: Sequence[int], evidence: set[int], followers: Sequence[int | None], room: int) -> list[int]:
    """The best passages with those that follow them, `room` at most, without those that are known."""
    taken: list[int] = []
    for passage in ranking:
        for one in (passage, followers[passage]):
            if len(taken) >= room:
                return taken
            if one is not None and one not in evidence and one not in taken:
                taken.append(one)
    return taken


def source_finder(chunks: Sequence[str]) -> Callable[[str], set[int]]:
    """A function from a span of text to the passages that hold at least half of its word triples."""
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
    """All triples of neighbouring words, whatever their case."""
    words = _WORD.findall(text.lower())
    return set(zip(words, words[1:], words[2:], strict=False))


# --- documents ---


def read_library(num_chunks: int) -> Library:
    """A seeded choice of distinct documents with so many chunks; none is more than a sixth of them."""
    spec, limits = resolve(EmbedderSettings()), LibrarySettings()
    assert spec.tokenizer_file is not None
    tokenizer = Tokenizer.from_file(str(spec.tokenizer_file))
    tokenizer.no_truncation()
    files = sorted(file for file in DOCUMENTS.rglob("*") if file.suffix in SUFFIXES and file.is_file())
    random.Random(SEED).shuffle(files)
    chunks, followers, documents, texts = list[str](), list[int | None](), list[int](), list[Text]()
    known: set[str] = set()
    with ParserPool(1, limits.parse_seconds, limits.parse_memory_bytes) as pool:
        for file in files:
            read = _chunks_of(pool, file, spec.tokenizer_file, limits)
            if not read or len(read) > num_chunks // 6 or read[0].text in known:
                continue
            known.add(read[0].text)
            followers += [*range(len(chunks) + 1, len(chunks) + len(read)), None]
            documents += [len(texts)] * len(read)
            chunks += [indexed_text(chunk) for chunk in read]
            texts.append(_text(tokenizer, whole_text(read)))
            if len(chunks) >= num_chunks:
                break
    return Library(tuple(chunks), tuple(followers), tuple(documents), tuple(texts))


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
    """The document's text put together again, without what neighbouring chunks repeat."""
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


if __name__ == "__main__":
    sys.exit(main())
