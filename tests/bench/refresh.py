"""What looking again while it is written costs a long answer, and what it gains: PipeRAG's refresh in the application.

    python -m tests.bench.refresh [--quick] [--json FILE] [--peers FOLDER]

The whole engine answers, over real documents: search and embedder on their thread, the step loop on its own. The model
is a random one of 1B shape that writes what it is told to: stretches of the documents, for which the 128 tokens before
them are the question. Each answer is written by itself, once for every way of looking again:

- `none`: the answer rests on the passages that were found for its question.
- `once`: it is looked again a single time, when it has begun.
- `ours`: as often and as broadly as the application chooses, while writing goes on.
- `unbounded`: as `ours`, but reading what was found may take as long as it takes: an answer may be too short for `ours`
  to earn any passages.
- `synchronous`: as `ours`, but writing stops at the end of a sentence until the search has ended.
- `every_<m′>_breadth_<n>`, the grid: every m′ tokens, with the n-th breadth that the index allows (0 is the narrowest),
  whatever it takes.

Latency is what the tokens of the answer take, from the first to the last: what is appended is read meanwhile. The
hidden share is what of all searching went by while the answer was written as fast as without. An answer quotes its
sources, so recall is the share of its spans (256 characters) whose source was in evidence when they were written.
A machine shared with others is a tenth faster or slower from one answer to the next, so what is compared is written
one after the other, several times, and the middle ratio counts; the grid is written for the first answer alone.
Ratios:

- `hidden_share`: that of `ours` and `unbounded` together.
- `none`, `synchronous`: their latency ÷ that of `ours`, the median over the answers.

Exit code 1 when a bound does not hold; `--quick` (a small model, one answer, a smaller grid) binds nothing.
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
# What words of a question say of files and dates would confine its search: those of documents mean nothing by it.
SETTINGS = {"retrieval.passages": QUESTION_PASSAGES, "retrieval.reads_filters": False}
WAYS = {
    "once": RefreshPolicy("once"),
    "none": RefreshPolicy("none"),
    "ours": RefreshPolicy("periodic"),
    "synchronous": RefreshPolicy("synchronous"),
    "unbounded": RefreshPolicy("periodic", max_cost_share=None),
}
# At least. Where an answer is too short to earn passages `synchronous` does what `ours` does, but for chance.
BOUNDS = {"hidden_share": 0.9, "none": 1 / 1.10, "synchronous": 0.95}

Write = Callable[[Stretch, RefreshPolicy], AnswerFinished]


@dataclass(frozen=True, slots=True)
class Size:
    """`intervals` are the m′ of the grid, in tokens; `breadths` its steps."""

    shape: Shape
    chunks: int
    answers: int
    tokens: int
    intervals: tuple[int, ...]
    breadths: tuple[int, ...]


FULL = Size(ONE_BILLION, chunks=1_500, answers=3, tokens=1024, intervals=(8, 16, 32, 64, 128), breadths=(0, 1))
# Of the same length: a shorter answer would earn no passages.
SMALL = Size(QUICK, chunks=300, answers=1, tokens=1024, intervals=(32,), breadths=(0, 1))


@dataclass(slots=True)
class Outcome:
    """What all answers took and found that were written in one way: seconds of each, else of all together."""

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
        """Of an answer, on average; what searching took only where there was any."""
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
        print(f"There are no documents at {DOCUMENTS}.", file=sys.stderr)
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
    with told("indexing them, unless they are"):
        application = Application(folder / f"refresh-{size.chunks}", library.files, model, SETTINGS)
    with application:

        def write(stretch: Stretch, policy: RefreshPolicy) -> AnswerFinished:
            return application.write(stretch.question, stretch.text, size.tokens, policy)

        # What is kept of them then takes as many cells as it may, whichever way is first.
        with told("writing all answers for the first time"):
            for stretch in asked:
                write(stretch, WAYS["none"])
        named = compare(write, asked, WAYS, lambda span: bool(sources_of(span)))
        return named | compare(write, asked[:1], grid(size), lambda span: bool(sources_of(span)))


def grid(size: Size) -> dict[str, RefreshPolicy]:
    """All intervals with all breadths, whatever they take."""
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
    """Each answer in all ways, one after the other, so that what else the machine does meets all alike."""
    found = {way: Outcome() for way in ways}
    for number, stretch in enumerate(asked, start=1):
        for way, policy in ways.items():
            with told(f"answer {number}: {way}"):
                found[way].note(write(stretch, policy), has_source)
    return found


def named_ratios(found: dict[str, Outcome]) -> dict[str, float]:
    """The ratios by the names that are promised; the hidden share only where something was searched for."""
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
