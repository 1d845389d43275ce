"""Looks: searches for answers that are being written, by the end of their text.

As in PipeRAG (https://arxiv.org/abs/2403.05676), the text has grown by the time the results arrive, but the passages
still fit. The result of every look is reported, except for answers that have ended meanwhile. Only one search at a time
can read the index, so a look is given up if a user waits for a search; the next look follows soon.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence

from engine.looking_again import FoundAgain, LookAgain, TellFound
from engine.partitions.sweep import SweepForsaken
from engine.retrieval.breadth import Breadth, LookCosts, broadest
from engine.retrieval.followups import Subject, subject_of
from engine.retrieval.newness import new_passages
from engine.retrieval.pauses import Pauses
from engine.retrieval.query import Query
from engine.retrieval.search import Searcher

log = logging.getLogger(__name__)


class Looks:
    """Carries out looks, all waiting ones in one search; on the thread of the looks."""

    def __init__(self, costs: LookCosts, tell: TellFound, do_people_wait: Callable[[], bool] = lambda: False) -> None:
        self._costs, self._tell, self._do_people_wait = costs, tell, do_people_wait

    def carry_out(self, searcher: Searcher, looks: Sequence[LookAgain]) -> None:
        """Searches for all looks that are still wanted, and reports new passages.

        Raises:
            RagdollError: As the searcher does; nothing was reported then.
        """
        wanted = [look for look in looks if not look.cancelled.is_set()]
        if len(wanted) < len(looks):
            log.debug("%d answers have ended before more was looked for", len(looks) - len(wanted))
        if not wanted:
            return
        since = time.perf_counter()
        steps = searcher.breadths()
        breadth = min((self._breadth(steps, look, len(wanted)) for look in wanted), key=steps.index)

        def should_pause() -> bool:
            if self._do_people_wait() or all(look.cancelled.is_set() for look in wanted):
                raise SweepForsaken
            return False

        try:
            results = searcher.search([_query(look, breadth) for look in wanted], Pauses(should_pause))
        except SweepForsaken:
            log.debug("a search for %d answers was given up: others go first", len(wanted))
            for look in wanted:
                self._tell(FoundAgain(look.question_id, look.number, (), time.perf_counter() - since))
            return
        found = [
            new_passages(result.passages, look.evidence, searcher.following, look.limit)
            for look, result in zip(wanted, results, strict=True)
        ]
        seconds = time.perf_counter() - since
        self._costs.note(breadth, len(wanted), seconds)
        for look, passages in zip(wanted, found, strict=True):
            self._tell(FoundAgain(look.question_id, look.number, passages, seconds))

    def _breadth(self, steps: Sequence[Breadth], look: LookAgain, num_queries: int) -> Breadth:
        if look.breadth is not None:
            return steps[min(look.breadth, len(steps) - 1)]
        return broadest(steps, lambda step: self._costs.predict(step, num_queries), look.seconds)


def _query(look: LookAgain, breadth: Breadth) -> Query:
    question, subject = look.question, subject_of(look.question)
    if subject.above:
        # An answer with looks was searched for by itself.
        subject = Subject(subject.own)
    # The passages that the answer already has will be found as well.
    limit = look.limit + len(look.evidence)
    return Query(
        look.window,
        question.collection,
        limit,
        question.filters,
        asked=subject.text,
        breadth=breadth,
        together=subject.together,
        inherits=subject.inherits,
        questions=subject.questions,
    )
