"""Tally: what one indexing job has done, counted as it runs and reported at its end."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from engine.core import Document
from engine.events import IndexFinished
from engine.library.reading import Ready, Unreadable
from engine.library.survey import SurveyReport

Problem = tuple[str, str]


@dataclass(slots=True)
class Tally:
    """The counts of one job, which owns it; `finished` may be called at any time."""

    indexed: int = 0
    unchanged: int = 0
    removed: int = 0
    chunks: int = 0
    skipped: list[Problem] = field(default_factory=list)
    failed: list[Problem] = field(default_factory=list)
    in_part: list[Problem] = field(default_factory=list)

    def surveyed(self, report: SurveyReport, *, is_asked: bool = True) -> None:
        """Counts what needs no reading: unchanged documents, those that failed before, and what is no document.

        If nobody asked, problems that were known already are not reported again.
        """
        self.removed += len(report.removed)
        if not is_asked:
            self.unchanged += sum(document.state == "indexed" for document in report.documents)
            return
        self.skipped += [(problem.path, problem.reason) for problem in report.problems]
        for document in report.documents:
            if document.state == "indexed":
                self.unchanged += 1
                self._note_remark(document, document.reason)
            elif document.state == "skipped":
                self.skipped.append((document.path, document.reason))
            elif document.state == "failed":
                self.failed.append((document.path, document.reason))

    def stored(self, documents: Iterable[Ready]) -> None:
        for ready in documents:
            self.indexed += 1
            self.chunks += len(ready.keys)
            self._note_remark(ready.document, ready.read.remark)

    def unreadable(self, outcome: Unreadable) -> None:
        listed = self.skipped if outcome.error.state == "skipped" else self.failed
        listed.append((outcome.document.path, str(outcome.error)))

    def out_of_reach(self, document: Document, reason: str) -> None:
        self.skipped.append((document.path, reason))

    def _note_remark(self, document: Document, remark: str) -> None:
        if remark:
            self.in_part.append((document.path, remark))

    def finished(self, seconds: float, was_cancelled: bool = False) -> IndexFinished:
        return IndexFinished(
            indexed=self.indexed,
            unchanged=self.unchanged,
            removed=self.removed,
            skipped=tuple(self.skipped),
            failed=tuple(self.failed),
            chunks=self.chunks,
            seconds=seconds,
            was_cancelled=was_cancelled,
            in_part=tuple(self.in_part),
        )
