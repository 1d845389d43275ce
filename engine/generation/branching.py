"""Carries out the decisions of a beam search on sequences and cells: beams share the cells of their parents."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from engine.generation.batching import Work
from engine.generation.context import Context
from engine.generation.groups import SequenceGroup
from engine.generation.request import Request, Written
from engine.generation.residence import Residence
from engine.generation.sequence import Branch, Hypothesis, TokenSequence
from engine.generation.thinking import Thoughts
from engine.generation.vocabulary import Vocabulary


class Branching:
    """Advances the beams of groups; part of the step loop."""

    def __init__(self, context: Context, residence: Residence, vocabulary: Vocabulary) -> None:
        self._context, self._residence, self._vocabulary = context, residence, vocabulary

    def advance(self, group: SequenceGroup, works: Sequence[Work], rows: Sequence[int]) -> None:
        """Advances all beams by a token, as soon as the last token of each was computed in the same batch."""
        if group.beams is None or group.lead.max_tokens <= 0:
            return
        last_rows = {work.sequence: row + work.num_tokens - 1 for work, row in zip(works, rows, strict=True)}
        waiting = [sequence for sequence in group.live if sequence.num_computed < len(sequence.tokens)]
        if waiting:
            # Logits last for one batch only: beams that are ahead compute their last token again, with the others.
            for sequence in group.live:
                self._residence.trim(sequence, len(sequence.tokens) - 1)
            return
        branches = group.beams.advance(self._context, [last_rows[sequence] for sequence in group.live])
        self._branch(group, branches)

    def written(self, group: SequenceGroup) -> tuple[Written, ...]:
        """Returns the answers that were found, best first."""
        found = group.beams.answers() if group.beams is not None else ()
        return tuple(self._written(answer, group.request) for answer in found)

    def _written(self, answer: Hypothesis, request: Request) -> Written:
        tokens = answer.tokens if answer.last_token is None else (*answer.tokens, answer.last_token)
        thoughts = Thoughts(request.thinking) if request.thinking is not None else None
        text, num_bytes_of_stop = self._vocabulary.text(tokens, request.sampling.stop, thoughts)
        num_of_stop, is_cut_within = self._vocabulary.holding(num_bytes_of_stop, tokens)
        shown = tokens[: len(tokens) - num_of_stop] if num_of_stop else answer.tokens
        thought = (thoughts.text.rstrip(), thoughts.num_tokens) if thoughts is not None else ("", 0)
        return Written(text, shown, answer.finish_reason, *thought, is_cut_within)

    def _branch(self, group: SequenceGroup, branches: Sequence[Branch]) -> None:
        parents = group.live
        if not branches:
            for sequence in parents:
                sequence.finish_reason = "stop"
            return
        group.has_forked = True
        firsts: dict[int, int] = {}
        for place, branch in enumerate(branches):
            firsts.setdefault(branch.parent, place)
        # Parents without children give their sequence numbers to the children of others.
        for place, parent in enumerate(parents):
            if place not in firsts:
                self._residence.release(parent)
        # Cells are shared before any beam goes on: a parent's cells end where its children begin.
        children = [
            self._child(parents[branch.parent], branch.token, place, is_first=firsts[branch.parent] == place)
            for place, branch in enumerate(branches)
        ]
        group.sequences = children

    def _child(self, parent: TokenSequence, token: int, number: int, is_first: bool) -> TokenSequence:
        """Returns a child of a beam: the first child takes over the parent's sequence, the others share its cells."""
        tokens = [*parent.tokens, token]
        # Each child has its own lists: what is saved of one beam is never loaded for another.
        child = replace(parent, number=number, tokens=tokens, held=None, saved=[], texts=[], unsaid=[], draft=[])
        if is_first:
            child.held = parent.held
        else:
            self._residence.fork(parent, child, parent.num_computed)
        return child
