"""Tests for engine.retrieval.followups."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from engine.core import Filters, Question
from engine.generation.conversation import Turn, number_above
from engine.generation.evidence import EvidencePassage
from engine.generation.transcript import transcript_of, turns_of_transcript
from engine.retrieval.followups import (
    AS_BEFORE,
    Subject,
    kind_of,
    passages_above,
    subject_of,
)
from tests.helpers.passages import passage

TOGETHER = "together with the question before"
REPAIRS = "Who pays for repairs?"

ALONE = """
    What is the notice period in the lease?
    When should garlic be planted?
    What is a mutex?
    What is a list?
    What is R?
    Who is Anna?
    What happened on May 1?
    Who is Will May?
    What is WHO?
    Explain paragraph 3 of the tenancy act
    Is there a deposit?
    Are there discounts for students at the museum?
    Are there other museums in the old town of Vienna?
    Is there more rain in Italy?
    Is it allowed to keep a dog?
    How long does it take to bake bread?
    Does the mutex that guards the data release it when the guard is dropped?
    How does a company protect its data?
    What rent does this year's contract name?
    Summarise the lease agreement
    Translate the lease into German
    Explain the difference between a mutex and a channel
    List all contracts that end in 2025
    Who wrote Faust?
    heating costs
    garlic
    Museum opening hours?
    contract.pdf
    Wie hoch ist die Kaution?
    Gibt es eine Kündigungsfrist?
    Ist es erlaubt, einen Hund zu halten?
    In welchem Jahr starb Mozart?
    Was kostet das Museum?
    Wie hoch darf die Miete sein?
    Können Sie mir sagen, wann das Museum öffnet?
    Fasse den Mietvertrag zusammen
    ¿Qué es un mutex?
    ¿Cuáles son los gastos de calefacción?
    ¿Hay descuentos para estudiantes?
    ¿Quién fue el último Primer Ministro de Alemania del Este?
    Quel est le délai de préavis ?
    Y a-t-il une caution ?
    Faut-il payer le chauffage ?
    Où se trouve la clé ?
    图书馆星期天几点开门？
    什么是互斥锁？
    如何种植大蒜？
    Кто платит за ремонт?
    犬を飼ってもいいですか?
"""
FOLLOWS = """
    And in case of fire?
    and for students
    What about children under twelve?
    How about Sundays?
    But why did they turn back?
    When does it have to be paid?
    Who pays for it?
    What does the lease say about it?
    What is their phone number?
    What did he publish in Vienna after the war?
    Where is it?
    Who is he?
    When?
    How much?
    In case of fire?
    For students
    The deposit?
    Who pays?
    Is that also true for cellars?
    What else does it say?
    Any other rules?
    Is there more in the US?
    Are there others in Italy?
    Are there any more on Sundays?
    Is there more about the deposit?
    Any more in the UK?
    Gibt es noch andere in Italien?
    Gibt es mehr in den USA?
    ¿Hay más en Italia?
    ¿Hay otros en Italia?
    Y en a-t-il d'autres en Italie ?
    Which page?
    Wo wohnt er?
    ¿Dónde vive ella?
    How do I get there?
    What is the second one for?
    Does this apply to dogs?
    Which of them are free?
    translate that into French and mention the deposit
    Explain paragraph 3
    What is point 5?
    Explain § 7
    Summarise 3.2
    Where is the table?
    And where is the table?
    Where is that explained?
    When is the next step?
    What are the steps?
    List the steps
    How many words?
    How Much Is That?
    In May?
    And in May?
    Erkläre Absatz 3
    Was steht in Punkt 4?
    Wo ist die Tabelle?
    Wie viele Punkte?
    Was sind die Schritte?
    Was ist das Letzte?
    Können Sie mir sagen, wo das steht?
    ¿Dónde está la tabla?
    Explica el punto 3
    Où est le tableau ?
    Quelles sont les étapes ?
    表格在哪里？
    解释第3条
    Und bei Feuer?
    Was ist mit Kindern?
    Wie sieht es mit Haustieren aus?
    Wann muss das bezahlt werden?
    Wer bezahlt es?
    Und wie hoch ist sie?
    Wer haftet dafür?
    Wo steht das?
    ¿Y en caso de incendio?
    ¿Qué pasa con los niños?
    ¿Quién paga eso?
    ¿Cuándo hay que pagarlo?
    Et en cas d’incendie ?
    Qu'en est-il des enfants ?
    Quand faut-il payer cela ?
    Qui est-il ?
    那火灾呢？
    学生呢？
    它什么时候开门？
    谁付钱？
    那里有儿童阅览室吗？
"""
ON_THE_ANSWER = """
    Shorter, please
    longer
    continue
    Go on!
    More details, please
    Is there more?
    Some more in French
    Translate that into German
    in German
    as a table
    Summarise that in three sentences
    Why?
    Why is that?
    Thanks
    ok
    Explain the second point
    Explain it step by step
    Summarise it in 3 sentences
    Summarise ALL of it
    Please, Can you explain it again?
    Können Sie das kürzer machen?
    In 5 Stichpunkten bitte
    用几句话总结
    What are the main points?
    Can you explain it in simple words?
    Bitte etwas kürzer
    weiter
    Übersetze das ins Englische
    auf Deutsch
    Fass das bitte in drei Sätzen zusammen
    Warum?
    Danke
    Erkläre den zweiten Punkt
    más corto
    continúa
    tradúcelo al inglés
    ¿Por qué?
    Resúmelo
    plus court
    Traduis-le en anglais
    Pourquoi ?
    résume ça
    sous forme de tableau
    短一点
    继续
    翻译成德语
    为什么？
    用表格
    总结一下
    谢谢
"""


def lines(text: str) -> list[str]:
    return [line.strip() for line in text.strip().splitlines()]


@pytest.mark.parametrize("text", lines(ALONE))
def test_a_question_that_says_what_it_is_about_stands_alone(text: str):
    assert kind_of(text) == "alone"


@pytest.mark.parametrize("text", lines(FOLLOWS))
def test_a_question_that_points_back_or_says_little_follows(text: str):
    assert kind_of(text) == "follows"


@pytest.mark.parametrize("text", lines(ON_THE_ANSWER))
def test_what_asks_for_the_same_in_another_form_works_on_the_answer(text: str):
    assert kind_of(text) == "on the answer"


@pytest.mark.parametrize(
    "text", ["?", "…", "🙂", "\u200b", "¿¡", "-" * 500, "it " * 5000, "und " * 60, "İ" * 90 + " R"]
)
def test_anything_can_be_typed(text: str):
    assert kind_of(text) in ("alone", "follows")
    assert subject_of(asked(text, REPAIRS)).text


def test_who_pastes_a_text_says_what_it_is_about():
    assert kind_of("Translate that: " + "The tenant pays for it. " * 40) == "alone"


def turn(
    question: str, *texts: str, also: tuple[int, ...] = (), first_number: int = 1, answer: str = ""
) -> tuple[dict[str, Any], ...]:
    found = tuple(EvidencePassage.of(passage(text, start=100 * n)) for n, text in enumerate(texts, first_number))
    return transcript_of(Turn(question, found, answer, also=also, first_number=first_number))


def asked(text: str, *before: str, **options: Any) -> Question:
    transcript = tuple(piece for question in before for piece in turn(question))
    return Question("q", text, transcript=transcript, **options)


def test_a_first_question_is_searched_for_as_it_is():
    for text in map(str.strip, (*lines(FOLLOWS), *lines(ON_THE_ANSWER))):
        assert subject_of(Question("q", text)) == Subject(text)


@pytest.mark.parametrize(
    ("text", "together"),
    [
        ("Explain paragraph 3", "Who pays for repairs? explain paragraph 3"),
        ("Where is the table?", "Who pays for repairs? where is the table?"),
        ("And in May?", "Who pays for repairs? in May?"),
        ("Is there more in the US?", "Who pays for repairs? is there more in the US?"),
        ("Are there others in Italy?", "Who pays for repairs? are there others in Italy?"),
    ],
)
def test_what_asks_for_a_place_is_searched_for_by_itself_as_well(text: str, together: str):
    assert subject_of(asked(text, REPAIRS)) == Subject(text, together, inherits=True, told=TOGETHER)


def test_a_follow_up_is_searched_for_together_with_the_question_before():
    assert subject_of(asked("And in case of Fire?", REPAIRS)) == Subject(
        "And in case of Fire?", "Who pays for repairs? in case of Fire?", inherits=True, told=TOGETHER
    )


def test_one_without_a_word_of_its_own_is_searched_for_only_together():
    assert subject_of(asked("How much?", REPAIRS)) == Subject("Who pays for repairs? how much?", told=TOGETHER)


def test_what_points_back_may_mean_what_the_answer_names():
    transcript = turn("Who wrote the report?", answer="**Dr. Anna Weber** wrote it [1, 2].")
    about = "Who wrote the report? Dr. Anna Weber wrote it."
    told = "together with the question and the answer before"
    found = subject_of(Question("q", "What is her phone number?", transcript=transcript))
    assert (found.together, found.told) == (f"{about} what is her phone number?", told)
    assert found.questions == "Who wrote the report? what is her phone number?"
    assert subject_of(Question("q", "Who is she?", transcript=transcript)) == Subject(
        f"{about} who is she?", told=told, questions="Who wrote the report? who is she?"
    )
    nothing_named = subject_of(Question("q", "And the other reports?", transcript=transcript))
    assert (nothing_named.together, nothing_named.told) == ("Who wrote the report? the other reports?", TOGETHER)


@pytest.mark.parametrize(
    ("answer", "beginning"),
    [
        ("Anna.", "Anna."),
        ("“The report is by Anna.” [1]\n\n“It is long.” [2]", "the report is by Anna. It is long."),
        ("Dr. Anna Weber wrote it. " + "It has many pages. " * 20, "Dr. Anna Weber wrote it."),
        ("The report was written by Anna and " + "many others and " * 20, ""),
        (
            "报告是安娜写的，她在北京工作了很多年，认识很多人。" + "报告很长。" * 40,
            "报告是安娜写的，她在北京工作了很多年，认识很多人。",
        ),
        ("", ""),
    ],
)
def test_of_an_answer_its_first_sentence_counts(answer: str, beginning: str):
    found = subject_of(Question("q", "Who is she?", transcript=turn("Who wrote it?", answer=answer)))
    assert found.text == " ".join(filter(None, ("Who wrote it?", beginning, "who is she?")))


def test_a_question_that_stands_alone_leaves_the_one_before_out():
    assert subject_of(asked("When should garlic be planted?", REPAIRS)) == Subject("When should garlic be planted?")


def test_who_wants_the_words_alone_searched_for_gets_that():
    literal = Filters(reads_question=False)
    assert subject_of(asked("And in case of fire?", REPAIRS, filters=literal)) == Subject("And in case of fire?")
    assert subject_of(asked("Shorter", REPAIRS, filters=literal)) == Subject("Shorter")


def test_the_last_that_stood_alone_counts_and_the_last_that_followed_it():
    before = (REPAIRS, "When is garlic planted?", "And tomatoes?", "Thanks", "And peppers?", "shorter please", "When?")
    found = subject_of(asked("How deep?", *before))
    assert (found.together, found.told) == (
        "When is garlic planted? peppers? how deep?",
        "together with the questions before",
    )


def test_the_first_question_of_all_is_gone_on_with_whatever_it_says():
    assert subject_of(asked("Who pays?", "And in case of fire?")).together == "And in case of fire? who pays?"


def test_names_keep_their_capitals():
    assert subject_of(asked("Anna?", REPAIRS)).together == "Who pays for repairs? Anna?"


def test_more_words_of_its_own_leave_the_files_of_the_question_before():
    assert not subject_of(asked("And what does the museum cost for students?", REPAIRS)).inherits


def test_a_few_nouns_leave_the_files_of_the_question_before():
    asked_of = {text: subject_of(asked(text, REPAIRS)).inherits for text in ("Opening hours?", "In case of fire?")}
    assert asked_of == {"Opening hours?": False, "In case of fire?": True}


def test_what_works_on_the_answer_to_a_follow_up_is_about_what_that_is_about():
    before = (REPAIRS, "And in case of fire?")
    found = subject_of(asked("Why?", *before, "Shorter, please"))
    assert found == replace(subject_of(asked(before[1], before[0])), told=AS_BEFORE, own="Why?")


def test_what_works_on_the_answer_rests_on_its_passages_and_else_on_its_question():
    question = Question("q", "Shorter, please", transcript=turn(REPAIRS, "The owner pays."))
    found = subject_of(question)
    assert (found.text, found.together, found.told, found.own) == (REPAIRS, "", AS_BEFORE, question.text)
    assert [one.text for one in found.above] == ["The owner pays."]
    assert subject_of(asked("Shorter, please", REPAIRS)) == Subject(REPAIRS, told=AS_BEFORE, own="Shorter, please")


def test_the_passages_of_the_last_answer_are_its_own_and_those_it_found_again():
    first = turn("When is garlic planted?", "In October.", "In rows.")
    second = turn(REPAIRS, "The owner pays.", also=(2,), first_number=3)
    again = turn("Thanks", also=(2, 3), first_number=4)
    assert [one.text for one in passages_above(first)] == ["In October.", "In rows."]
    assert [one.text for one in passages_above((*first, *second))] == ["In rows.", "The owner pays."]
    assert [one.text for one in passages_above((*first, *second, *again))] == ["In rows.", "The owner pays."]


def test_passages_that_came_while_an_answer_was_written_are_its_own():
    transcript = [*turn(REPAIRS, "The owner pays."), *turn("Go on.", "Within a month.", first_number=2)]
    transcript[2] |= {"goes_on": True}
    del transcript[2]["first_number"]
    assert [one.text for one in passages_above(transcript)] == ["The owner pays.", "Within a month."]
    transcript[1] |= {"text": "The owner does."}
    transcript[3] |= {"text": "and soon."}
    found = subject_of(Question("q", "When?", transcript=tuple(transcript)))
    assert found.text == "Who pays for repairs? the owner does. when?"


POEM = transcript_of(Turn("Write a poem about autumn", (), "Leaves fall.", searches=False))


def test_what_was_put_to_the_model_alone_is_not_gone_on_with():
    transcript = (*turn("Who wrote the report?", answer="Anna Weber wrote it."), *POEM)
    found = subject_of(Question("q", "And in case of fire?", transcript=transcript))
    assert found.together == "Who wrote the report? in case of fire?"
    found = subject_of(Question("q", "Who is she?", transcript=transcript))
    assert found.text == "Who wrote the report? Anna Weber wrote it. who is she?"
    assert subject_of(Question("q", "And in case of fire?", transcript=POEM)) == Subject("And in case of fire?")


def test_what_works_on_an_answer_of_the_model_alone_keeps_its_own_words():
    for transcript in (POEM, (*turn(REPAIRS, "The owner pays."), *POEM)):
        found = subject_of(Question("q", "Shorter, please", transcript=transcript))
        assert found == Subject("Shorter, please")
    found = subject_of(Question("q", "Shorter, please", transcript=(*POEM, *turn(REPAIRS, "The owner pays."))))
    assert (found.text, [one.text for one in found.above]) == (REPAIRS, ["The owner pays."])


def test_what_rests_on_the_passages_above_has_them_named_and_not_read_twice():
    transcript = turn(REPAIRS, "The owner pays.", "Within a month.")
    turns = turns_of_transcript(transcript, {1})
    numbers = [number_above(EvidencePassage.of(one), turns) for one in passages_above(transcript)]
    assert numbers == [1, 2]


@pytest.mark.parametrize(
    "piece",
    [
        {},
        {"question": 7, "passages": []},
        {"question": "Why?"},
        {"question": "Why?", "passages": None},
        {"question": "Why?", "passages": [3]},
        {"question": "Why?", "passages": [{"stands": {}}]},
        {"question": "Why?", "passages": [{"text": "Old."}], "first_number": "x"},
    ],
)
def test_what_is_no_transcript_of_ours_does_no_harm(piece: Mapping[str, Any]):
    assert passages_above([piece]) == ()
    for text in ("Shorter", "What is it?"):
        assert subject_of(Question("q", text, transcript=(dict(piece),))).above == ()
        assert subject_of(Question("q", text, transcript=(dict(piece), "text", dict(piece), {}))).text  # type: ignore[arg-type]


def test_passages_of_older_versions_that_tell_no_place_are_left_out():
    old = {"document_id": 1, "title": "1.txt", "page": None, "text": "The owner pays."}
    assert passages_above([{"question": REPAIRS, "passages": [old]}]) == ()
