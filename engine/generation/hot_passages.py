"""Hot passages: those that answers often rest on are read while the engine is idle, so that their KV is there.

RAGCache (https://arxiv.org/abs/2404.12457) finds that few documents take most requests. A passage is read right after
the instructions, as if it were the first of a prompt, and later prompts are ordered to begin with it (ordering.py).
What was hot stays so after a restart: it is saved in a small file (hot_file.py).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence

from engine.generation.evidence import EvidencePassage
from engine.generation.hot_file import Hot
from engine.generation.prompt import Prompt
from engine.generation.segment import Segment
from engine.generation.speaker import Speaker

# One use may be chance.
MIN_USES = 2
MAX_PASSAGES = 512
# For how many models the beginning of their prompts is remembered.
MAX_OPENINGS = 8

# How much of a prompt's beginning is kept.
Peek = Callable[[Sequence[Segment]], int]


class HotPassages:
    """Counts what the prompts of questions held, for all models; on the generation thread."""

    def __init__(self) -> None:
        self._uses: Counter[EvidencePassage] = Counter()
        # By the model's fingerprint and passage.
        self._tried: dict[tuple[str, EvidencePassage], int] = {}
        self._offered: tuple[str, EvidencePassage] | None = None
        self._openings: dict[str, Segment] = {}
        self._has_changed = False

    def restore(self, hot: Hot) -> None:
        """Adds what was known before the restart."""
        self._uses.update(hot.uses)
        openings = {name: Segment(tokens, "instructions") for name, tokens in hot.openings.items()}
        self._openings = openings | self._openings

    def changed(self) -> Hot | None:
        """Returns what to save for a restart; None if nothing changed since the last call."""
        if not self._has_changed:
            return None
        self._has_changed = False
        openings = {name: segment.tokens for name, segment in self._openings.items()}
        return Hot(dict(self._uses.most_common(MAX_PASSAGES)), openings)

    def note(self, prompt: Prompt, speaker: Speaker) -> None:
        """Notes that this model was asked a question with this prompt."""
        if prompt.segments and prompt.segments[0].kind == "instructions":
            self._note_opening(speaker.fingerprint, prompt.segments[0])
        self._uses.update(prompt.passages)
        self._has_changed |= bool(prompt.passages)
        if len(self._uses) > 2 * MAX_PASSAGES:
            # Halved, so that what was hot a while ago cools down.
            self._uses = Counter({passage: uses // 2 for passage, uses in self._uses.most_common(MAX_PASSAGES)})
            self._tried.clear()

    def uses(self, passage: EvidencePassage) -> int:
        """Returns how many prompts it was in; after a while older ones count less."""
        return self._uses[passage]

    def next(self, speaker: Speaker, peek: Peek) -> tuple[Segment, ...] | None:
        """Returns the beginning of a prompt with the most used passage not kept there; None if all hot ones are."""
        for passage in self._hot():
            offer = speaker.fingerprint, passage
            if self._tried.get(offer) == self._uses[passage]:
                continue
            beginning = self._beginning(passage, speaker)
            if beginning and peek(beginning) < sum(len(segment.tokens) for segment in beginning):
                self._offered = offer
                return beginning
        return None

    def tried(self) -> None:
        """Notes that the offer of `next` is being read; if it is not kept, only another use offers it again."""
        if self._offered is not None:
            _, passage = self._offered
            self._tried[self._offered] = self._uses[passage]

    def given_up(self) -> None:
        """Notes that the offer of `next` was not read to its end."""
        if self._offered is not None:
            self._tried.pop(self._offered, None)

    def forget(self, documents: frozenset[int]) -> None:
        """Forgets documents that have left the library."""
        for passage in [passage for passage in self._uses if passage.document_id in documents]:
            del self._uses[passage]
            self._has_changed = True
        self._tried = {offer: uses for offer, uses in self._tried.items() if offer[1] in self._uses}

    def documents(self) -> frozenset[int]:
        """Returns the documents whose passages are counted."""
        return frozenset(passage.document_id for passage in self._uses)

    def clear(self, fingerprint: str) -> None:
        """Notes that what the model with this fingerprint had read is no longer kept."""
        self._tried = {offer: uses for offer, uses in self._tried.items() if offer[0] != fingerprint}
        if self._offered is not None and self._offered[0] == fingerprint:
            self._offered = None

    def _note_opening(self, fingerprint: str, opening: Segment) -> None:
        self._has_changed |= self._openings.pop(fingerprint, None) != opening
        self._openings[fingerprint] = opening
        if len(self._openings) > MAX_OPENINGS:
            # That of the least recently used model.
            del self._openings[next(iter(self._openings))]

    def _hot(self) -> Iterator[EvidencePassage]:
        for passage, uses in self._uses.most_common():
            if uses < MIN_USES:
                return
            yield passage

    def _beginning(self, passage: EvidencePassage, speaker: Speaker) -> tuple[Segment, ...]:
        opening = self._openings.get(speaker.fingerprint)
        return () if opening is None else (opening, speaker.segment(passage.block(1)))
