"""Tests for engine.generation.transcript."""

from __future__ import annotations

import json
import math
from datetime import date

import pytest

from engine.core import Passage
from engine.errors import BadRequest
from engine.generation.conversation import Turn, next_number
from engine.generation.evidence import EvidencePassage
from engine.generation.transcript import documents_in_transcript, next_number_in, transcript_of, turns_of_transcript
from tests.engine.generation.test_conversation import EVIDENCE, REFRESHED


def test_a_turn_comes_back_from_its_transcript():
    turn = Turn("One?", EVIDENCE, "Yes [1].", (5, 6), "model")
    assert turns_of_transcript(transcript_of(turn), {1, 2}) == (turn,)


def test_a_turn_of_the_model_alone_comes_back():
    turn = Turn("Translate this.", (), "Übersetze das [1].", (5, 6), "model", first_number=3, searches=False)
    transcript = json.loads(json.dumps(transcript_of(turn)))
    assert turns_of_transcript(transcript, ()) == (turn,)
    # What an older version left behind was searched for.
    assert turns_of_transcript(transcript_of(Turn("Why?", (), "So.")), ())[0].searches


def test_where_a_passage_stands_comes_back_with_its_turn():
    source = Passage("r7", 7, "/docs/na\udcefve.md", 3, 2, 10, 19, "Head", "Whole text.", 0.5, "Sheet 1")
    transcript = json.loads(
        json.dumps(transcript_of(Turn("One?", (*EVIDENCE, EvidencePassage.of(source)), "Yes [3].")))
    )
    (turn,) = turns_of_transcript(transcript, {2, 7})
    assert [(number, one.source) for number, one in turn.numbered] == [(2, None), (3, source)]


def test_a_turn_that_went_on_from_more_is_one_turn():
    transcript = (*transcript_of(REFRESHED), *transcript_of(Turn("Two?", (), "No.")))
    assert documents_in_transcript(transcript) == {1, 2, 3, 4}
    assert turns_of_transcript(transcript, {1, 2, 3, 4}) == (REFRESHED, Turn("Two?", (), "No."))
    assert REFRESHED.all_tokens == (5, 6, 7, 8, 9)


@pytest.mark.parametrize(
    ("known", "heads"),
    [
        ({1, 3, 4}, ["[1] one.md", "[3] three.md", "[4] four.md"]),
        ({2, 4}, ["[2] two.md, page 3", "[4] four.md"]),
        ({1, 2, 3, 4}, ["[1] one.md", "[2] two.md, page 3", "[3] three.md", "[4] four.md"]),
    ],
)
def test_its_passages_keep_the_numbers_that_its_answer_cites_when_one_was_removed(known, heads):
    transcript = (*transcript_of(REFRESHED), *transcript_of(Turn("Two?", EVIDENCE, "So [2].")))
    turn, later = turns_of_transcript(transcript, known)
    read = [part.text for message in turn.messages() for part in message.parts if part.kind == "passage"]
    assert [block.split("\n", maxsplit=1)[0] for block in read] == heads
    own = [part.text[:3] for part in later.messages()[0].parts if part.kind == "passage"]
    assert own == [head[:3] for head in heads if head[1] in "12"]


def test_a_version_that_knows_nothing_of_going_on_reads_turns():
    plain = [{key: value for key, value in piece.items() if key != "goes_on"} for piece in transcript_of(REFRESHED)]
    turns = turns_of_transcript(plain, {1, 2, 3, 4})
    assert [turn.question for turn in turns] == ["One?", "Go on.", "Go on."]


def test_a_transcript_of_an_older_version_is_read():
    transcript = [
        {
            "role": "user",
            "question": "One?",
            "passages": [{"document_id": 1, "title": "a", "page": None, "text": "t"}],
        },
        {"role": "assistant", "text": "Yes."},
    ]
    (turn,) = turns_of_transcript(transcript, {1})
    assert (turn.answer, turn.tokens, turn.signature) == ("Yes.", (), "")


def test_a_question_keeps_the_day_on_which_it_was_asked_beside_its_text():
    turn = Turn("One?", EVIDENCE, "Yes [1].", asked_on=date(2026, 11, 22))
    transcript = transcript_of(turn)
    assert transcript[0]["question"] == "One?"
    assert turns_of_transcript(json.loads(json.dumps(transcript)), {1, 2}) == (turn,)


def test_passages_of_removed_documents_leave_the_transcript():
    transcript = transcript_of(Turn("One?", EVIDENCE, "Yes [1]."))
    assert documents_in_transcript(transcript) == {1, 2}
    (turn,) = turns_of_transcript(transcript, {2})
    assert [evidence.document_id for evidence in turn.passages] == [2]
    assert turn.answer == "Yes [1]."


@pytest.mark.parametrize(
    "transcript",
    [
        [{"role": "user"}],
        [{}, {}],
        [{"question": "q", "passages": [{}]}, {"text": "a"}],
        [{"question": "q", "passages": []}, {"text": "a", "tokens": ["x"]}],
        [{"question": "q", "passages": [], "asked_on": "yesterday"}, {"text": "a"}],
        ["user", "assistant"],
    ],
)
def test_a_transcript_that_is_not_ours_is_refused(transcript):
    with pytest.raises(BadRequest):
        turns_of_transcript(transcript, set())


@pytest.mark.parametrize(
    "user",
    [
        {"question": "q", "passages": None},
        {"question": "q", "passages": 7},
        {"question": "q", "passages": [], "first_number": math.inf},
    ],
)
def test_what_is_no_list_of_passages_is_refused_before_anything_else_trips_over_it(user):
    assert documents_in_transcript([user, {"text": "a"}]) == frozenset()
    with pytest.raises(BadRequest):
        next_number_in([user, {"text": "a"}])


def test_numbers_go_on_through_all_turns_and_come_back_from_a_transcript():
    later = Turn("Two?", EVIDENCE[:1], "So [3], as [2] says.", first_number=3, also=(2,))
    transcript = (*transcript_of(Turn("One?", EVIDENCE, "Yes [1].")), *transcript_of(later))
    first, second = turns_of_transcript(json.loads(json.dumps(transcript)), {1, 2})
    assert second == later
    assert [number for number, _ in (*first.numbered, *second.numbered)] == [1, 2, 3]
    assert next_number((first, second)) == 4
    block, question = second.messages()[0].parts
    assert block.text.startswith("[3] one.md")
    assert question.text == "Passages above that fit this question, too: [2].\nQuestion: Two?"
    # Whatever left the library in between, the others keep their numbers.
    gone, kept = turns_of_transcript(transcript, {1})
    assert [number for number, _ in (*gone.numbered, *kept.numbered)] == [1, 3]


def test_no_number_is_given_twice_whatever_has_left_since():
    transcript = (*transcript_of(REFRESHED), *transcript_of(Turn("Two?", EVIDENCE, "So [6].", first_number=5)))
    assert next_number_in(transcript) == 7
    assert [next_number(turns_of_transcript(transcript, known)) for known in ({1, 2, 3, 4}, {1}, set())] == [7, 7, 7]
