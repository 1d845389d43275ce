"""Tests for engine.generation.hot_passages."""

from __future__ import annotations

from dataclasses import replace

from engine.generation.evidence import EvidencePassage
from engine.generation.hot_file import Hot
from engine.generation.hot_passages import MAX_OPENINGS, MAX_PASSAGES, HotPassages
from engine.generation.prompt import Prompt
from engine.generation.segment import Segment
from engine.generation.speaker import Speaker

OPENING = Segment((1, 2, 3), "instructions")
SPEAKER = Speaker(None, lambda text, is_markup: list(text.encode()), 4096)
ONE, TWO, THREE = (EvidencePassage(number, f"{number}.md", None, f"Text {number}.") for number in (1, 2, 3))


def prompt(*passages: EvidencePassage) -> Prompt:
    return Prompt((OPENING,), passages, (), 3, 0)


def nothing_kept(segments) -> int:
    return 0


def hot_after(*prompts: Prompt) -> HotPassages:
    hot = HotPassages()
    for each in prompts:
        hot.note(each, SPEAKER)
    return hot


def test_nothing_is_hot_at_first_nor_what_was_used_once():
    assert HotPassages().next(SPEAKER, nothing_kept) is None
    assert hot_after(prompt(ONE, TWO)).next(SPEAKER, nothing_kept) is None


def test_the_most_used_passage_is_read_first_behind_the_instructions():
    hot = hot_after(prompt(ONE, TWO), prompt(TWO, THREE), prompt(THREE, TWO))
    assert hot.next(SPEAKER, nothing_kept) == (OPENING, SPEAKER.segment(TWO.block(1)))


def test_what_is_kept_already_is_not_read_again():
    hot = hot_after(prompt(ONE, TWO), prompt(TWO, ONE), prompt(TWO))
    two = SPEAKER.segment(TWO.block(1))

    def two_kept(segments) -> int:
        return 3 + len(two.tokens) if two in segments else 3

    assert hot.next(SPEAKER, two_kept) == (OPENING, SPEAKER.segment(ONE.block(1)))
    assert hot.next(SPEAKER, lambda segments: 10**6) is None


def test_what_was_read_in_vain_is_not_read_again_before_somebody_asks_for_it():
    hot = hot_after(prompt(TWO), prompt(TWO))
    assert hot.next(SPEAKER, nothing_kept) is not None
    hot.tried()
    assert hot.next(SPEAKER, nothing_kept) is None
    hot.note(prompt(TWO), SPEAKER)
    assert hot.next(SPEAKER, nothing_kept) is not None


def test_a_removed_document_is_not_read():
    hot = hot_after(prompt(ONE), prompt(ONE))
    assert hot.documents() == {1}
    hot.forget(frozenset({1}))
    assert hot.next(SPEAKER, nothing_kept) is None


def test_a_model_that_comes_back_reads_what_it_had_read_again():
    hot = hot_after(prompt(ONE), prompt(ONE))
    assert hot.next(SPEAKER, nothing_kept) is not None
    hot.tried()
    assert hot.next(SPEAKER, nothing_kept) is None
    hot.clear(SPEAKER.fingerprint)
    assert hot.next(SPEAKER, nothing_kept) == (OPENING, SPEAKER.segment(ONE.block(1)))


def test_what_was_not_read_to_its_end_is_offered_again():
    hot = hot_after(prompt(TWO), prompt(TWO))
    offered = hot.next(SPEAKER, nothing_kept)
    hot.tried()
    hot.given_up()
    assert hot.next(SPEAKER, nothing_kept) == offered


def test_what_was_hot_long_ago_makes_way():
    hot = hot_after(*[prompt(ONE)] * 9)
    for number in range(10, 10 + 8 * MAX_PASSAGES):
        hot.note(prompt(EvidencePassage(number, "n", None, str(number))), SPEAKER)
    assert len(hot.documents()) <= 2 * MAX_PASSAGES
    assert hot.next(SPEAKER, nothing_kept) is None


def test_what_was_counted_is_told_when_it_has_changed_and_goes_on_after_a_restart():
    hot = hot_after(prompt(ONE, TWO))
    openings = {SPEAKER.fingerprint: OPENING.tokens}
    known = hot.changed()
    assert known == Hot({ONE: 1, TWO: 1}, openings)
    assert hot.changed() is None
    again = HotPassages()
    again.restore(known)
    assert again.changed() is None
    again.note(prompt(TWO), SPEAKER)
    assert again.next(SPEAKER, nothing_kept) == (OPENING, SPEAKER.segment(TWO.block(1)))
    assert again.changed() == Hot({ONE: 1, TWO: 2}, openings)


def test_after_a_restart_what_was_hot_is_read_before_anybody_asks():
    known = hot_after(prompt(ONE), prompt(ONE)).changed()
    assert known is not None
    again = HotPassages()
    again.restore(known)
    assert again.next(SPEAKER, nothing_kept) == (OPENING, SPEAKER.segment(ONE.block(1)))


def test_other_instructions_are_told_and_those_of_models_that_nobody_asks_make_way():
    hot = hot_after(prompt(ONE))
    hot.changed()
    for number in range(MAX_OPENINGS):
        hot.note(Prompt((Segment((number,), "instructions"),), (), (), 1, 0), replace(SPEAKER, fingerprint=str(number)))
    known = hot.changed()
    assert known is not None
    assert known.openings == {str(number): (number,) for number in range(MAX_OPENINGS)}


def test_a_removed_document_changes_what_is_told():
    hot = hot_after(prompt(ONE, TWO))
    hot.changed()
    hot.forget(frozenset({1}))
    assert hot.changed() == Hot({TWO: 1}, {SPEAKER.fingerprint: OPENING.tokens})


def test_no_more_is_told_than_is_counted_for_long():
    hot = hot_after(*[prompt(EvidencePassage(number, "n", None, "t")) for number in range(MAX_PASSAGES + 5)])
    assert len(hot.changed().uses) == MAX_PASSAGES


def test_the_instructions_of_one_model_are_not_read_to_another():
    hot = hot_after(prompt(ONE), prompt(ONE))
    other = Speaker(None, lambda text, is_markup: [9, *text.encode()], 4096, fingerprint="other")
    assert hot.next(other, nothing_kept) is None
    opening = Segment((9, 1), "instructions")
    hot.note(Prompt((opening,), (ONE,), (), 2, 0), other)
    assert hot.next(other, nothing_kept) == (opening, other.segment(ONE.block(1)))
    assert hot.next(SPEAKER, nothing_kept) == (OPENING, SPEAKER.segment(ONE.block(1)))


def test_what_was_read_in_vain_to_one_model_is_read_to_another():
    hot, (first, other) = HotPassages(), two_speakers()
    for speaker in (first, other):
        hot.note(prompt(ONE), speaker)
    assert hot.next(first, nothing_kept) is not None
    hot.tried()
    assert hot.next(first, nothing_kept) is None
    assert hot.next(other, nothing_kept) == (OPENING, other.segment(ONE.block(1)))


def test_when_a_model_goes_what_is_known_of_another_stays():
    hot, (first, other) = HotPassages(), two_speakers()
    for speaker in (first, other):
        hot.note(prompt(ONE), speaker)
    assert hot.next(first, nothing_kept) is not None
    hot.tried()
    hot.clear(other.fingerprint)
    assert hot.next(first, nothing_kept) is None
    # The other model reads it again when it comes back.
    assert hot.next(other, nothing_kept) is not None


def two_speakers() -> tuple[Speaker, Speaker]:
    return replace(SPEAKER, fingerprint="first"), replace(SPEAKER, fingerprint="other")
