"""The pieces of an answer that was given more passages while being written, and what the model read before each.

Most answers have one piece. Each addition that the model reads begins another, which may cite it.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import count

from engine.core import Passage, Refresh
from engine.generation.answer_text import AnswerText
from engine.generation.citations import Recalled
from engine.generation.continuation import Addition, Reading
from engine.generation.conversation import Continuation, Turn, recallable
from engine.generation.evidence import EvidencePassage
from engine.generation.prompt import Prompt
from engine.generation.request import Written


class AnswerPieces:
    """The pieces of one answer; on the generation thread.

    `text` is what the user sees of it, and `passages` is its evidence, numbered as the user sees it. `reading` is what
    the model had read before the last piece, and `num_before` how many tokens it had written until then. `recalled` are
    passages of earlier turns, each of which joins `passages` when it is cited.
    """

    def __init__(
        self, prompt: Prompt, passages: tuple[Passage, ...], numbers: Mapping[int, int], *, cites: bool = True
    ) -> None:
        """Starts with the prompt; `numbers` maps the numbers that the model cites to places in `passages`.

        Passages of earlier turns may be cited as well; nothing is cited if `cites` is False.
        """
        standing = recallable(prompt.standing) if cites else {}
        others = {number: one for number, one in standing.items() if number not in numbers}
        self.recalled = Recalled(others, len(passages), self._recall)
        self.text, self.reading, self.passages = AnswerText(numbers, self.recalled), Reading.of(prompt), passages
        self.refreshes: tuple[Refresh, ...] = ()
        self._prompt, self._numbers, self._cites = prompt, numbers, cites
        self._untold: list[Passage] = []
        self._additions: list[Addition] = []
        self._ends: list[int] = []
        if prompt.begun is not None:
            self.text.go_on_behind(prompt.begun.texts)

    @property
    def num_before(self) -> int:
        return self._ends[-1] if self._ends else 0

    def stands_above(self, passage: Passage) -> bool:
        """Returns whether all of a passage was read in an earlier turn of the chat."""
        evidence = EvidencePassage.of(passage)
        return any(evidence.is_part_of(other) for _, other in self._prompt.standing)

    def take_recalled(self) -> tuple[Passage, ...]:
        """Returns passages of earlier turns cited since the last call; they follow all that the user knew before."""
        untold = tuple(self._untold)
        self._untold.clear()
        return untold

    def _recall(self, passage: Passage) -> int:
        self._untold.append(passage)
        self.passages += (passage,)
        return len(self.passages) - 1

    def length(self, num_written: int) -> int:
        """Returns how many tokens were read and written once `num_written` tokens of the answer are written."""
        return self.reading.num_tokens + num_written - self.num_before

    def go_on(self, addition: Addition, passages: tuple[Passage, ...], num_written: int) -> str:
        """Notes that the model got these passages after `num_written` tokens; returns text that was held back."""
        # The text that was held back may recall a passage, which takes the next place.
        rest = self.text.finish()
        numbers = range(self.reading.next_number, addition.reading.next_number)
        if self._cites:
            self._numbers = {**self._numbers, **dict(zip(numbers, count(len(self.passages)), strict=False))}
        rest += self.text.go_on(self._numbers)
        self.refreshes += (Refresh(len(self.text.text), len(self.passages), len(passages)),)
        self.passages += passages
        self.reading = addition.reading
        self._additions.append(addition)
        self._ends.append(num_written)
        return rest

    def turn(self, question: str, written: Written, signature: str) -> Turn:
        """Returns the turn exactly as it was read and written, so that the next prompt begins with kept KV."""
        if (begun := self._prompt.begun) is not None:
            tokens_of_all = (*begun.tokens, *written.tokens) if begun.stays and not written.is_cut_within else ()
            return begun.turn.with_end(self.text.written[-1], tokens_of_all, signature)
        starts, ends = [0, *self._ends], [*self._ends, len(written.tokens)]
        tokens = [written.tokens[start:end] for start, end in zip(starts, ends, strict=True)]
        if written.is_cut_within:
            # A stop string began within a token, so only the text is exact.
            tokens[-1] = ()
        texts = self.text.written
        continuations = [
            Continuation(addition.passages, addition.words, texts[number], tokens[number])
            for number, addition in enumerate(self._additions, start=1)
        ]
        if continuations and not (tokens[-1] or texts[-1]):
            # The model wrote nothing after the last addition, so the next prompt need not hold it.
            continuations.pop()
        return Turn(
            question,
            self._prompt.passages,
            texts[0],
            tokens[0],
            signature,
            tuple(continuations),
            self._prompt.asked_on,
            self._prompt.first_number,
            self._prompt.also,
        )
