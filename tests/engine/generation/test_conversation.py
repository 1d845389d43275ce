"""Tests for engine.generation.conversation."""

from __future__ import annotations

from dataclasses import replace
from datetime import date

from engine.core import Passage
from engine.generation.conversation import (
    Continuation,
    Turn,
    as_they_stand,
    first_kept,
    next_number,
    number_above,
    recallable,
)
from engine.generation.evidence import EvidencePassage

EVIDENCE = (EvidencePassage(1, "one.md", None, "First."), EvidencePassage(2, "two.md", 3, "Second."))


def test_the_end_of_a_turn_can_be_written_anew():
    turn = Turn("One?", EVIDENCE[:1], "Yes", (5, 6), "model")
    assert turn.with_end("Yes [1].", (5, 6, 7), "model") == replace(turn, answer="Yes [1].", tokens=(5, 6, 7))
    more = Continuation(EVIDENCE[1:], "More:", "And", (8,))
    refreshed = replace(turn, continuations=(more,))
    whole = refreshed.with_end("And [2].", (8, 9), "model")
    assert (whole.answers, whole.all_tokens) == (("Yes", "And [2]."), (5, 6, 8, 9))
    assert (refreshed.in_words().all_tokens, refreshed.in_words().answers) == ((), ("Yes", "And"))
    one = refreshed.in_one_piece()
    assert (one.answer, one.continuations, one.all_tokens) == ("Yes And", (), ())
    assert [(number, passage.title) for number, passage in one.numbered] == [(1, "one.md"), (2, "two.md")]
    assert turn.in_one_piece() is turn


REFRESHED = Turn(
    "One?",
    EVIDENCE,
    "Yes [1].",
    (5, 6),
    "model",
    (
        Continuation((EvidencePassage(3, "three.md", None, "Third."),), "Go on.", "And so [3].", (7,)),
        Continuation((EvidencePassage(4, "four.md", None, "Fourth."),), "Go on.", "It ends [4].", (8, 9)),
    ),
)


def test_its_tokens_are_read_where_the_model_wrote_them():
    written = [message.parts[0].tokens for message in REFRESHED.messages(is_own=True) if message.role == "assistant"]
    assert written == [(5, 6), (7,), (8, 9)]
    assert all(not part.tokens for message in REFRESHED.messages() for part in message.parts)


def test_what_was_put_to_the_model_alone_is_told_in_the_users_own_words():
    turn = Turn("Translate this.", (), "Übersetze das [1].", (5, 6), "model", first_number=3, searches=False)
    for told in (turn, turn.bare()):
        asked, _ = told.messages()
        assert [part.text for part in asked.parts] == ["Translate this."]
    assert turn.bare().answer == "Übersetze das."
    assert turn.messages(is_own=True)[1].parts[0].tokens == (5, 6)
    assert next_number((turn,)) == 3


def test_a_question_names_the_day_on_which_it_was_asked():
    turn = Turn("One?", EVIDENCE, "Yes [1].", asked_on=date(2026, 11, 22))
    assert turn.messages()[0].parts[-1].text == "Today is 22 November 2026.\nQuestion: One?"
    assert Turn("One?", EVIDENCE, "Yes [1].").messages()[0].parts[-1].text == "Question: One?"


def test_a_history_within_its_room_is_kept_whole():
    assert first_kept([10, 10, 10], [1, 1, 1], 30) == (0, 0)


def test_a_history_that_outgrew_its_room_loses_its_passages_and_then_grows_again():
    lengths, bare = [10] * 30, [1] * 30
    kept = [first_kept(lengths[:end], bare[:end], 100) for end in range(31)]
    assert kept == sorted(kept)
    # Six or seven turns pass between two cuts; all that was said is there until it alone is too much.
    assert sorted(set(kept)) == [(0, 0), (0, 7), (0, 14), (0, 20), (0, 27)]
    words_alone = [first_kept([10] * end, [10] * end, 100)[0] for end in range(31)]
    assert sorted(set(words_alone)) == [0, 6, 12, 18, 24]


def test_turns_that_are_too_long_for_two_are_read_once_each():
    kept = [first_kept([2000] * end, [200] * end, 3840) for end in range(1, 9)]
    assert kept == [(0, 0), (0, 2), (0, 2), (0, 4), (0, 4), (0, 6), (0, 6), (0, 8)]


def test_a_long_newest_turn_stays_if_it_fits_and_goes_if_it_does_not():
    assert first_kept([10, 10, 90], [10, 10, 90], 100) == (2, 3)
    assert first_kept([10, 10, 90], [1, 1, 90], 100) == (2, 3)
    assert first_kept([10, 10, 101], [10, 10, 101], 100) == (3, 3)


def test_nothing_is_kept_without_room():
    assert first_kept([5, 5], [1, 1], 0) == (2, 2)


def test_a_passage_is_found_above_by_a_number_that_is_its_own():
    first = Turn("One?", EVIDENCE, "Yes.")
    part = EvidencePassage(2, "two.md", 3, "Sec")
    assert [number_above(one, (first,)) for one in (*EVIDENCE, part)] == [1, 2, 2]
    assert number_above(EvidencePassage(2, "two.md", 4, "Second."), (first,)) is None
    assert number_above(EvidencePassage(2, "two.md", 3, "Second, and more."), (first,)) is None
    # Turns of an older version each count from 1.
    assert number_above(EVIDENCE[0], (first, Turn("Two?", EVIDENCE[::-1], "No."))) is None


def test_what_stands_in_one_turn_alone_can_be_recalled():
    source = Passage("r7", 7, "/docs/seven.md", 3, 2, 10, 19, "Head", "Whole text.", 0.5)
    turn = Turn("One?", (*EVIDENCE, EvidencePassage.of(source)), "Yes [3].")
    assert recallable(turn.numbered) == {3: source}
    # A number that two turns of an older version share says nothing.
    assert recallable((*turn.numbered, (3, EVIDENCE[0]))) == {}


def test_the_first_passage_of_all_is_number_1():
    assert next_number(()) == 1


def test_a_bare_turn_says_what_was_said_and_cites_nothing():
    bare = REFRESHED.bare()
    asked, answered = bare.messages()
    assert [part.text for part in asked.parts] == ["Question: One?"]
    assert [part.text for part in answered.parts] == ["Yes. And so. It ends."]
    assert (bare.numbered, bare.all_tokens) == ((), ())
    named = Turn("Two?", (), "So [2].", first_number=5, also=(1, 2, 4))
    assert tuple(as_they_stand((REFRESHED, named))) == (REFRESHED, named)
    # It has found something: nothing is said of what is not there any more, nor that there was nothing.
    assert tuple(as_they_stand((bare, named))) == (bare, named.bare())
    both = Turn("Three?", EVIDENCE, "So [5] and [2].", first_number=5, also=(2,))
    assert [turn.also for turn in as_they_stand((bare, both))] == [(), ()]


def test_words_that_have_filled_their_part_of_the_room_leave_for_several_turns():
    kept = [first_kept([1700] * end, [200] * end, 1792)[0] for end in range(1, 13)]
    assert kept == [0, 0, 0, 0, 3, 3, 3, 6, 6, 6, 9, 9]
