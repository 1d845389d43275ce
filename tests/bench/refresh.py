"""Cost and gain of retrieving again while a long answer is written (PipeRAG's refresh), in the whole application.

    python -m tests.bench.refresh [--quick] [--json FILE] [--peers FOLDER]

The whole engine answers over real documents: search and embedder on their thread, the step loop on its own. The model
has a 1B shape and random weights and writes prescribed text: stretches of the documents, with the 128 tokens before a
stretch as the question. Each of three answers (1,024 tokens) is written alone, once for each refresh policy:

- `none`: only the passages found for the question.
- `once`: one more search, when the answer has begun.
- `ours`: as often and as broadly as the application chooses, while writing continues.
- `unbounded`: as `ours`, but without the limit on the time for reading new passages: an answer may be too short for
  `ours` to justify any.
- `synchronous`: as `ours`, but writing pauses at the end of a sentence until the search has ended.
- `every_<m′>_breadth_<n>`, a grid: every m′ tokens with the index's n-th search breadth (0 is the narrowest), without
  that limit. Written for the first answer only.

Latency is the time from an answer's first to its last token, which includes reading new passages. The hidden share is
the part of all search time in which writing went on at full speed. Recall is the share of the answer's spans (256
characters) whose source was in evidence when they were written: an answer quotes its sources. A shared machine's speed
varies by a tenth from one answer to the next, so all policies of an answer are measured one after the other, and the
median counts. Ratios:

- `hidden_share`: of `ours` and `unbounded` together.
- `none`, `synchronous`: their latency ÷ that of `ours`, the median over the answers.

Lower bounds are in `BOUNDS` (`none`: at most 10 % slower than without refresh). Exit code 1 if one does not hold, 2
without documents; `--quick` (a small model, one answer, a smaller grid, within five minutes) checks none. There is no
peer.
"""

from __future__ import annotations

import statistics
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from engine.events import AnswerFinished
from engine.generation.refresh_policy import RefreshPolicy
from engine.yielding import switch_often
from tests.bench import ending, peers, report
from tests.bench.bench_model import ONE_BILLION, QUICK, Shape, bench_model
from tests.bench.command_line import parser_of
from tests.bench.given_text import Application, vocabulary_of
from tests.bench.our_generation import told
from tests.bench.real_library import DOCUMENTS, read_library, source_finder
from tests.bench.stretches import HasSource, Stretch, found_sources, stretches

QUESTION_PASSAGES = 6
# Words in documents that look like file names or dates would restrict the search.
SETTINGS = {"retrieval.passages": QUESTION_PASSAGES, "retrieval.reads_filters": False}
WAYS = {
    "once": RefreshPolicy("once"),
    "none": RefreshPolicy("none"),
    "ours": RefreshPolicy("periodic"),
    "synchronous": RefreshPolicy("synchronous"),
    "unbounded": RefreshPolicy("periodic", max_cost_share=None),
}
# Lower bounds. Where an answer is too short for new passages, `synchronous` equals `ours` but for noise.
BOUNDS = {"hidden_share": 0.9, "none": 1 / 1.10, "synchronous": 0.95}

Write = Callable[[Stretch, RefreshPolicy], AnswerFinished]


@dataclass(frozen=True, slots=True)
class Size:
    """`intervals` are the grid's m′ in tokens, `breadths` its n."""

    shape: Shape
    chunks: int
    answers: int
    tokens: int
    intervals: tuple[int, ...]
    breadths: tuple[int, ...]


FULL = Size(ONE_BILLION, chunks=1_500, answers=3, tokens=1024, intervals=(8, 16, 32, 64, 128), breadths=(0, 1))
# As long as in a full run: a shorter answer would justify no passages.
SMALL = Size(QUICK, chunks=300, answers=1, tokens=1024, intervals=(32,), breadths=(0, 1))


@dataclass(slots=True)
class Outcome:
    """Results of all answers under one policy: seconds of each answer, and sums over all of them."""

    latencies: list[float] = field(default_factory=list)
    searching_seconds: float = 0.0
    hidden_seconds: float = 0.0
    reading_seconds: float = 0.0
    num_refreshes: int = 0
    found: list[bool] = field(default_factory=list)

    def note(self, finished: AnswerFinished, has_source: HasSource) -> None:
        timings = finished.timings
        self.latencies.append(timings.total_s - timings.ttft_s)
        self.searching_seconds += timings.refresh_retrieval_s
        self.hidden_seconds += timings.refresh_hidden_s
        self.reading_seconds += timings.refresh_prefill_s
        self.num_refreshes += timings.refreshes
        self.found += found_sources(finished.answer, has_source)

    def figures(self, way: str) -> dict[str, float]:
        """Returns figures averaged over the answers; those of searching only if there was any."""
        num_answers = len(self.latencies)
        figures = {f"{way}_latency_s": statistics.fmean(self.latencies)}
        if self.found:
            figures[f"{way}_recall"] = statistics.fmean(self.found)
        if self.searching_seconds:
            figures[f"{way}_hidden_share"] = self.hidden_seconds / self.searching_seconds
            figures[f"{way}_searching_s"] = self.searching_seconds / num_answers
            figures[f"{way}_reading_s"] = self.reading_seconds / num_answers
            figures[f"{way}_refreshes"] = self.num_refreshes / num_answers
        return figures


def main(arguments: Sequence[str] | None = None) -> int:
    parser = parser_of("refresh", __doc__, quick="a small model, one answer and a small grid, within five minutes")
    peers.add_folder_option(parser)
    options = parser.parse_args(arguments)
    if not DOCUMENTS.is_dir():
        print(f"The documents are missing: {DOCUMENTS} does not exist.", file=sys.stderr)
        return 2
    found = _measure(SMALL if options.quick else FULL, options.peers)
    ours = {name: value for way, outcome in found.items() for name, value in outcome.figures(way).items()}
    report.show("refresh", ours, {})
    named = named_ratios(found)
    if options.json is not None:
        report.write(options.json, ours, {}, named)
    return 0 if report.show_promised(named, BOUNDS) or options.quick else 1


def _measure(size: Size, folder: Path) -> dict[str, Outcome]:
    switch_often()  # as the application does
    with told(f"reading {size.chunks} passages of real documents"):
        library = read_library(size.chunks)
    model = bench_model(folder, size.shape, vocabulary_of(library))
    asked = list(stretches(library, size.answers, size.tokens))
    sources_of = source_finder(library.chunks)
    with told("indexing them, unless done before"):
        application = Application(folder / f"refresh-{size.chunks}", library.files, model, SETTINGS)
    with application:

        def write(stretch: Stretch, policy: RefreshPolicy) -> AnswerFinished:
            return application.write(stretch.question, stretch.text, size.tokens, policy)

        # Fills the KV cache up to its limits, so that it is equally full for every policy.
        with told("writing all answers once, to warm up"):
            for stretch in asked:
                write(stretch, WAYS["none"])
        named = compare(write, asked, WAYS, lambda span: bool(sources_of(span)))
        return named | compare(write, asked[:1], grid(size), lambda span: bool(sources_of(span)))


def grid(size: Size) -> dict[str, RefreshPolicy]:
    """Returns the policies for all intervals and breadths."""
    return {
        f"every_{interval}_breadth_{breadth}": RefreshPolicy(
            "periodic", interval=interval, breadth=breadth, max_cost_share=None
        )
        for interval in size.intervals
        for breadth in size.breadths
    }


def compare(
    write: Write, asked: Iterable[Stretch], ways: dict[str, RefreshPolicy], has_source: HasSource
) -> dict[str, Outcome]:
    """Writes each answer under all policies in turn, so that other load on the machine affects all alike."""
    found = {way: Outcome() for way in ways}
    for number, stretch in enumerate(asked, start=1):
        for way, policy in ways.items():
            with told(f"answer {number}: {way}"):
                found[way].note(write(stretch, policy), has_source)
    return found


def named_ratios(found: dict[str, Outcome]) -> dict[str, float]:
    """Returns the ratios under their documented names; the hidden share only if anything was searched for."""
    ours = found["ours"]
    named = {
        way: statistics.median(each / our for each, our in zip(found[way].latencies, ours.latencies, strict=True))
        for way in ("none", "synchronous")
    }
    chosen = (ours, found["unbounded"])
    if searching_seconds := sum(outcome.searching_seconds for outcome in chosen):
        named["hidden_share"] = sum(outcome.hidden_seconds for outcome in chosen) / searching_seconds
    return named


if __name__ == "__main__":
    sys.exit(ending.run(main))
