"""Retrieval with stale queries (PipeRAG), with our embedder: passages found for text that is some tokens old.

    python -m tests.bench.stale_queries [--quick] [--json FILE]

No model generates here: stretches of real documents stand for the answer being written, and the library consists of our
chunks of such documents. There is no peer but the figures of the PipeRAG paper. Answers two questions:

- How much does it matter that a query window is some tokens old when its passages arrive? For a staleness of 0 to 64
  tokens, `cosine_<tokens>` is the mean cosine between the best passage of the stale window and that of the fresh one.
  The bound is `cosine_64` ≥ .88, which PipeRAG reports for its own embedder and library (arXiv 2403.05676).
- Does retrieving again help? An answer quotes its sources, so the passage that the next 64 tokens come from is known.
  `recall_<policy>_<percent>` is the share of spans whose source is in evidence when they are written, with 10, 50 and
  100 % of the library searched. `none` takes all passages for the question, `once` half of them at one later search,
  `periodic` a few every 64 tokens, found by a window that is 64 tokens old. All take the same number of passages in
  total. The bound is periodic ≥ once ≥ none at each percentage.

Exit code 1 if a bound does not hold, 2 without documents; `--quick` (a third of the work) checks none.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from engine.config import EmbedderSettings
from engine.embedder import Embedder, resolve
from engine.memory.ledger import Ledger
from tests.bench import ending, report
from tests.bench.command_line import parser_of
from tests.bench.looking_again import WINDOW_TOKENS, recalls_by_policy
from tests.bench.real_library import DOCUMENTS, SEED, Library, read_library
from tests.bench.vectors import Vectors

STALENESS = (0, 1, 2, 4, 8, 16, 32, 64)
BOUNDS = {"cosine_64": 0.88}


@dataclass(frozen=True, slots=True)
class Size:
    chunks: int
    windows: int
    answers: int


FULL, QUICK = Size(chunks=1_500, windows=200, answers=100), Size(chunks=500, windows=60, answers=30)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = parser_of("stale_queries", __doc__, quick="a third of the passages, windows and answers")
    options = parser.parse_args(arguments)
    if not DOCUMENTS.is_dir():
        print(f"The documents are missing: {DOCUMENTS} does not exist.", file=sys.stderr)
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
    return 0 if _tell(cosines, recalls, options.json) or options.quick else 1


def _tell(cosines: dict[int, float], recalls: dict[str, dict[float, float]], file: Path | None) -> bool:
    ours = {f"cosine_{staleness}": cosine for staleness, cosine in cosines.items()}
    for policy, by_share in recalls.items():
        ours |= {f"recall_{policy}_{share * 100:.0f}": recall for share, recall in by_share.items()}
    report.show("stale queries", ours, {})
    named = {"cosine_64": cosines[64]}
    is_close = report.show_ratios(named, BOUNDS)
    by_policy = (recalls["periodic"], recalls["once"], recalls["none"])
    is_ordered = all(more[share] >= less[share] for more, less in pairwise(by_policy) for share in more)
    print(f"  {'periodic ≥ once ≥ none':<32} {'':>12}   {'kept' if is_ordered else 'BROKEN'}")
    if file is not None:
        report.write(file, ours, {}, named)
    return is_ordered and is_close


def stale_cosines(
    library: Library, vectors: Vectors, embed: Callable[[Sequence[str]], Vectors], num_windows: int
) -> dict[int, float]:
    """Returns, by staleness in tokens, the mean cosine of the best passages of the stale and the fresh window."""
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


if __name__ == "__main__":
    sys.exit(ending.run(main))
