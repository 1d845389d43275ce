"""Tests for engine.generation.prompt."""

from __future__ import annotations

import weakref
from dataclasses import dataclass, replace
from datetime import date

import pytest

from engine.core import Passage
from engine.errors import PromptTooLong
from engine.generation import prompt as prompt_module
from engine.generation.chat_template import ChatTemplate
from engine.generation.conversation import Turn
from engine.generation.prompt import (
    RAW_SEGMENT_TOKENS,
    Prompt,
    PromptStyle,
    Reordering,
    answer_reserve,
    as_it_stands,
    compose,
    order_along,
)
from engine.generation.segment import Segment, shared_tokens, tokens_of
from engine.generation.speaker import Speaker
from engine.generation.transcript import transcript_of, turns_of_transcript
from tests.helpers.tiny_gguf import CHATML

DAY = "Today Date: {{ strftime_now('%d %b %Y') }}\n\n" + CHATML
SUNDAY, MONDAY = date(2026, 11, 22), date(2026, 11, 23)


class Words:
    """A tokenizer of whole words, whose tokens can be read again."""

    def __init__(self) -> None:
        self._words: list[str] = []

    def __call__(self, text: str, is_markup: bool = False) -> list[int]:
        found = []
        for word in text.replace("\n", " \n ").split(" "):
            if word and word not in self._words:
                self._words.append(word)
            found += [self._words.index(word)] if word else []
        return found

    def text(self, prompt) -> str:
        return " ".join(self._words[token] for token in tokens_of(prompt.segments))


@pytest.fixture
def words() -> Words:
    return Words()


@pytest.fixture
def speaker(words: Words):
    def make(context_tokens: int, template: str | None = CHATML) -> Speaker:
        chat = ChatTemplate(template, "<s>", "</s>") if template else None
        return Speaker(chat, words, context_tokens, "model", vocabulary_size=10**6)

    return make


def passage(number: int, text: str) -> Passage:
    return Passage(f"r{number}", number, f"/home/me/file{number}.md", 0, number, 0, len(text), "", text, 1.0 / number)


@dataclass(frozen=True)
class Left:
    """What prompts have left behind: their segments from the start, of which these have been found."""

    prompts: tuple[Prompt, ...]
    found: tuple[tuple[int, ...], ...] = ()
    is_whole = True

    def then(self, segment: Segment) -> Left | None:
        longer = (*self.found, segment.tokens)
        beginnings = (tuple(each.tokens for each in prompt.segments[: len(longer)]) for prompt in self.prompts)
        return Left(self.prompts, longer) if longer in beginnings else None


def turn_of(question: str, prompt: Prompt, answer: str = "an answer") -> Turn:
    """What a question leaves behind that was asked with this prompt."""
    return Turn(question, prompt.passages, answer, first_number=prompt.first_number, also=prompt.also)


PASSAGES = [passage(number, f"P{number} " + "word " * 99) for number in range(1, 7)]


def test_everything_that_fits_is_there_in_order(speaker, words):
    text = words.text(compose("Why?", PASSAGES[:2], (), speaker(4096), 100))
    assert (
        text.index("[1] file1.md, page 1 \n P1")
        < text.index("[2] file2.md, page 2 \n P2")
        < text.index("Question: Why?")
    )
    assert "/home/me" not in text


def test_what_the_user_wants_of_every_answer_ends_the_instructions(speaker, words):
    plain = compose("Why?", PASSAGES[:1], (), speaker(4096), 100)
    wishing = compose("Why?", PASSAGES[:1], (), speaker(4096), 100, style=PromptStyle("Answer in verse."))
    assert words.text(plain) == words.text(wishing).replace(" \n \n Answer in verse.", "")
    assert words.text(wishing).index("Answer in verse.") < words.text(wishing).index("[1] file1.md")
    assert wishing.segments[0].kind == "instructions"


def test_the_model_alone_gets_instructions_of_its_own_and_the_users_own_words(speaker, words):
    history = [turn_of("One?", compose("One?", PASSAGES[:1], (), speaker(4096), 100), "Yes [1].")]
    alone = compose(
        "Say it politely.",
        (),
        history,
        speaker(4096, DAY),
        100,
        style=PromptStyle("In verse.", searches=False, today=SUNDAY),
    )
    text = words.text(alone)
    assert "numbered passages" not in text.partition("One?")[0]
    assert "Do what the user asks" in text
    assert text.index("In verse.") < text.index("[1] file1.md") < text.index("Yes [1].")
    assert "Today is 22 November 2026. \n Say it politely." in text
    assert "No passage" not in text
    assert "Question: Say" not in text
    assert alone.passages == ()
    # It may cite what stands above.
    assert [number for number, _ in alone.standing] == [1]


def test_a_chat_without_files_remembers_more_of_itself(speaker, words):
    history = [Turn(f"question{n}", (), "answer " * 40, searches=False) for n in range(10)]
    text = words.text(compose("Why?", (), history, speaker(800), 100, style=PromptStyle(searches=False)))
    assert text.count("question") > words.text(compose("Why?", (), history, speaker(800), 100)).count("question")
    assert "question9" in text


def test_of_a_small_context_our_words_leave_before_the_users(speaker, words):
    text = words.text(compose("Why?", PASSAGES[:1], (), speaker(200), 20, style=PromptStyle("Answer in verse.")))
    assert "Answer from the passages. Cite them like [1]. \n \n Answer in verse." in text
    # Of what is too long for a model, only the beginning is kept.
    text = words.text(compose("Why?", PASSAGES[:1], (), speaker(200), 20, style=PromptStyle("verse " * 100)))
    assert 5 < text.count("verse") < 60
    assert "First" in text or PASSAGES[0].text[:20] in text


@pytest.mark.parametrize("context_tokens", [60, 120, 250, 400, 700, 2000])
@pytest.mark.parametrize("template", [CHATML, None])
@pytest.mark.parametrize("question", ["Why is that so?", "Why is that so? " + "really " * 12])
def test_the_prompt_never_exceeds_what_the_answer_leaves(speaker, words, context_tokens, template, question):
    reserve = answer_reserve(512, context_tokens)
    history = [Turn(f"q{n}", (), "an answer " * 20) for n in range(5)]
    for searches in (True, False):
        found = PASSAGES if searches else ()
        prompt = compose(
            question,
            found,
            history,
            speaker(context_tokens, template),
            reserve,
            style=PromptStyle("In verse.", searches),
        )
        assert prompt.num_tokens == len(tokens_of(prompt.segments)) <= context_tokens - reserve
        assert "Why is that so?" in words.text(prompt)


def test_the_passage_that_does_not_fit_is_cut_and_the_worse_ones_left_out(speaker):
    prompt = compose("Why?", PASSAGES, (), speaker(400), 50)
    assert 1 <= len(prompt.passages) < 6
    assert prompt.passages[-1].text != PASSAGES[len(prompt.passages) - 1].text
    assert PASSAGES[len(prompt.passages) - 1].text.startswith(prompt.passages[-1].text)


@pytest.mark.parametrize(
    ("text", "cut"),
    [
        ("one two three fo", "one two three"),
        ("one two\nthr", "one two"),
        ("第三条 " + "租金" * 40, "第三条 " + "租金" * 40),
        ("租金" * 5, "租金" * 5),
        ("word", "word"),
        ("", ""),
    ],
)
def test_what_is_cut_ends_with_a_word_where_words_are_apart(text: str, cut: str):
    assert prompt_module._whole_words(text) == cut


def test_the_newest_turns_stay_when_not_all_fit(speaker, words):
    history = [Turn(f"question{n}", (), "answer " * 40) for n in range(10)]
    prompt = compose("Why?", PASSAGES, history, speaker(800), 100)
    assert "question9" in words.text(prompt)
    assert "question0" not in words.text(prompt)
    assert prompt.passages


def test_each_passage_is_a_segment_that_names_its_document(speaker):
    prompt = compose("Why?", PASSAGES[:3], (), speaker(4096), 100)
    assert [segment.kind for segment in prompt.segments] == ["instructions", *["passage"] * 3, "turn"]
    assert [set(segment.documents) for segment in prompt.segments] == [set(), {1}, {2}, {3}, set()]


def test_the_instructions_of_two_prompts_are_the_same_segment(speaker):
    one = compose("One?", PASSAGES[:1], (), speaker(4096), 100)
    other = compose("Two?", PASSAGES[2:], (), speaker(4096), 100)
    assert one.segments[0] == other.segments[0]


def test_a_next_turn_begins_with_the_whole_prompt_of_the_last_and_its_answer_as_it_was_written(speaker, words):
    model = speaker(4096)
    first = compose("One?", PASSAGES[:1], (), model, 100)
    written = tuple(words("Ye s [1] ."))
    left = Turn("One?", first.passages, "Yes [1].", written, "model")
    second = compose("Two?", PASSAGES[1:2], turns_of_transcript(transcript_of(left), {1}), model, 100)
    assert second.segments[: len(first.segments)] == first.segments
    assert second.segments[len(first.segments)].tokens == written


def test_prompts_of_two_days_are_the_same_up_to_the_question_which_says_the_day(speaker, words):
    sunday, monday = (
        compose("Why?", PASSAGES[:2], (), speaker(4096, DAY), 100, style=PromptStyle(today=day))
        for day in (SUNDAY, MONDAY)
    )
    assert sunday.segments[:-1] == monday.segments[:-1]
    assert "Today is 22 November 2026. \n Question: Why?" in words.text(sunday)
    assert "Today is 23 November 2026. \n Question: Why?" in words.text(monday)


def test_the_day_stands_where_a_model_is_told_another_and_nowhere_else(speaker):
    assert (
        compose("Why?", PASSAGES[:2], (), speaker(4096, DAY), 100, style=PromptStyle(today=SUNDAY)).asked_on == SUNDAY
    )
    for template in (CHATML, None):
        model = speaker(4096, template)
        told, untold = (
            compose("Why?", PASSAGES[:2], (), model, 100, style=PromptStyle(today=day)) for day in (SUNDAY, None)
        )
        assert told == untold


def test_a_turn_of_the_next_day_begins_with_the_question_as_it_was_read_the_day_before(speaker, words):
    model = speaker(4096, DAY)
    first = compose("One?", PASSAGES[:1], (), model, 100, style=PromptStyle(today=SUNDAY))
    written = tuple(words("Ye s [1] ."))
    left = Turn("One?", first.passages, "Yes [1].", written, "model", asked_on=first.asked_on)
    history = turns_of_transcript(transcript_of(left), {1})
    second = compose("Two?", PASSAGES[1:2], history, model, 100, style=PromptStyle(today=MONDAY))
    assert second.segments[: len(first.segments)] == first.segments
    assert second.segments[len(first.segments)].tokens == written
    assert "Today is 23 November 2026. \n Question: Two?" in words.text(second)


def test_another_model_reads_the_text_of_an_answer(speaker, words):
    turns = [Turn("One?", (), "Yes [1].", (77,), "another model")]
    assert "Yes [1]." in words.text(compose("Two?", (), turns, speaker(4096), 100))


def test_tokens_that_are_none_of_the_models_are_not_read(words):
    model = Speaker(None, words, 4096, "model", vocabulary_size=50)
    turns = [Turn("One?", (), "Yes [1].", (10**9,), "model")]
    assert 10**9 not in tokens_of(compose("Two?", (), turns, model, 100).segments)


def test_a_long_conversation_is_cut_rarely_and_keeps_its_beginning_in_between(speaker):
    model, history, shared = speaker(1200), [], []
    last: list[int] = []
    for number in range(40):
        prompt = compose(f"question{number}?", PASSAGES[:1], history, model, 100)
        tokens = tokens_of(prompt.segments)
        shared.append(shared_tokens(last, tokens) / max(1, len(last)))
        last = tokens
        history.append(turn_of(f"question{number}?", prompt))
    cuts = sum(share < 1 for share in shared[1:])
    assert 1 <= cuts <= 40 / 5


def test_what_a_later_question_finds_again_is_named_and_not_read_again(speaker, words):
    model = speaker(4096)
    first = compose("One?", PASSAGES[:3], (), model, 100)
    again = compose("Two?", [PASSAGES[3], PASSAGES[2], PASSAGES[0]], [turn_of("One?", first)], model, 100)
    assert [read.document_id for read in again.passages] == [4]
    assert (again.first_number, again.order, again.also) == (4, (0,), (1, 3))
    assert again.numbers == {4: 0, 3: 1, 1: 2}
    text = words.text(again)
    assert "[4] file4.md" in text
    assert "Passages above that fit this question, too: [1][3]. \n Question: Two?" in text
    assert text.count("P3 word") == 1
    nothing_new = compose("Three?", PASSAGES[:2], [turn_of("One?", first), turn_of("Two?", again)], model, 100)
    assert (nothing_new.passages, nothing_new.numbers) == ((), {1: 0, 2: 1})
    assert "No passage" not in words.text(nothing_new)
    # And all of it begins the next prompt.
    assert tokens_of(nothing_new.segments)[: again.num_tokens] == tokens_of(again.segments)


def test_passages_are_numbered_in_the_order_that_is_kept_behind_those_of_earlier_turns(speaker, words):
    model = speaker(4096)
    before = [turn_of("Zero?", compose("Zero?", PASSAGES[5:6], (), model, 100))]
    earlier = compose("One?", [PASSAGES[2], PASSAGES[0]], before, model, 100)
    found = [PASSAGES[0], PASSAGES[5], *PASSAGES[1:3]]
    prompt = compose("Two?", found, before, model, 100, Reordering(Left((earlier,)), max_loss=1.0))
    assert prompt.numbers == {1: 1, 2: 3, 3: 0, 4: 2}
    assert "[2] file3.md" in words.text(prompt)
    count = len(earlier.segments) - 1
    assert [segment.tokens for segment in prompt.segments[:count]] == [one.tokens for one in earlier.segments[:count]]


def test_of_long_turns_the_words_stay_when_the_passages_have_no_room(speaker, words):
    model, history, read = speaker(1200), [], []
    last: tuple[int, ...] = ()
    for number in range(8):
        # 400 words of passages: of two such turns one is too much.
        passages = [passage(10 * number + place, f"Q{number} " + "word " * 190) for place in (1, 2)]
        prompt = compose(f"question{number}?", passages, history, model, 100)
        tokens = tuple(tokens_of(prompt.segments))
        read.append(len(tokens) - shared_tokens(last, tokens))
        last = tokens
        history.append(turn_of(f"question{number}?", prompt, f"answer{number}"))
    text = words.text(prompt)
    assert all(f"question{number}?" in text and f"answer{number}" in text for number in range(7))
    assert "Q0" not in text
    # Hardly more is read for a question than it brings along.
    assert max(read[1:]) < 400 + 150


def test_a_question_longer_than_the_context_is_refused_with_a_sentence(speaker):
    with pytest.raises(PromptTooLong, match="too long for this model"):
        compose("why " * 300, [], (), speaker(256), 50)


def test_what_is_put_as_it_stands_has_nothing_of_ours(speaker, words):
    as_it_stands = {"searches": False, "is_verbatim": True}
    told = compose("Why?", (), (), speaker(800, DAY), 100, style=PromptStyle("In verse.", today=SUNDAY, **as_it_stands))
    assert [part.text for message in told.messages for part in message.parts] == ["In verse.", "Why?"]
    alone = compose("Why?", (), (), speaker(800, DAY), 100, style=PromptStyle(today=SUNDAY, **as_it_stands))
    assert [message.role for message in alone.messages] == ["user"]
    assert alone.asked_on is None


def test_instructions_that_are_put_as_they_stand_are_whole_or_refused(speaker, words):
    as_it_stands = {"searches": False, "is_verbatim": True}
    # More than the user's wishes may take.
    long = compose("Why?", (), (), speaker(800), 100, style=PromptStyle("verse " * 500, **as_it_stands))
    assert words.text(long).count("verse") == 500
    with pytest.raises(PromptTooLong, match="with its instructions"):
        compose("Why?", (), (), speaker(800), 100, style=PromptStyle("verse " * 1000, **as_it_stands))


def test_a_prompt_of_others_is_read_as_it_stands(words):
    def tokenize(text: str, is_markup: bool) -> list[int]:
        assert is_markup, "its marks are those of the model"
        return words(text)

    model = replace(Speaker(None, tokenize, 4096, bos=10**6), template=ChatTemplate(CHATML, "<s>", "</s>"))
    prompt = as_it_stands("<|fim|> a b c", model, 100)
    assert tokens_of(prompt.segments) == [10**6, *words("<|fim|> a b c")]
    assert prompt.num_tokens == 5
    assert not prompt.documents


def test_prompts_of_others_that_begin_alike_share_what_was_read_of_them(speaker):
    first, second = (as_it_stands("word " * 300 + end, speaker(4096), 100) for end in ("one", "another end"))
    shared = [one for one, other in zip(first.segments, second.segments, strict=True) if one == other]
    assert sum(len(segment.tokens) for segment in shared) == 2 * RAW_SEGMENT_TOKENS


def test_a_prompt_of_others_is_not_held_in_memory(speaker):
    class Text(str):
        """Can be known to have gone."""

    asked, text = speaker(4096), Text("word " * 300)
    gone = weakref.ref(text)
    as_it_stands(text, asked, 100)
    del text
    assert gone() is None


def test_a_prompt_of_others_that_does_not_fit_is_refused(speaker):
    assert as_it_stands("word " * 700, speaker(800), 100).num_tokens == 700
    with pytest.raises(PromptTooLong, match="The prompt is too long"):
        as_it_stands("word " * 701, speaker(800), 100)


def test_a_prompt_of_others_that_is_much_too_long_is_refused_by_its_beginning(words):
    asked: list[int] = []

    def tokenize(text: str, is_markup: bool) -> list[int]:
        asked.append(len(text))
        return words(text)

    model = Speaker(None, tokenize, 800)
    with pytest.raises(PromptTooLong, match="The prompt is too long"):
        as_it_stands("word " * 100_000, model, 100)
    assert max(asked) < 20_000
    # Few tokens may have many characters.
    assert as_it_stands("word" + " " * 20_000 + "word", model, 100).num_tokens == 2


def said(num_turns: int, words_each: int) -> list[Turn]:
    return [Turn(f"question{n}", (), "answer[1] " * words_each, searches=False) for n in range(num_turns)]


def test_of_a_history_that_others_answer_for_nothing_is_left_out_that_fits(speaker, words):
    as_it_stands = {"searches": False, "is_verbatim": True}
    whole = compose("Why?", (), said(10, 55), speaker(800), 100, style=PromptStyle(**as_it_stands))
    assert whole.num_tokens > 600
    assert whole.turns_left_out == 0
    long_last = compose("Why?", (), [*said(9, 55), *said(1, 600)], speaker(800), 100, style=PromptStyle(**as_it_stands))
    assert words.text(long_last).count("answer[1]") == 600
    assert long_last.turns_left_out == 9


def test_how_many_turns_found_no_room_is_told_and_the_others_are_as_they_were_said(speaker, words):
    prompt = compose("Why?", (), said(20, 55), speaker(800), 100, style=PromptStyle(searches=False, is_verbatim=True))
    text = words.text(prompt)
    assert 0 < prompt.turns_left_out < 20
    assert text.count("question") == 20 - prompt.turns_left_out
    assert "question19" in text
    assert text.count("answer[1]") == 55 * (20 - prompt.turns_left_out)
    assert (
        compose(
            "Why?", (), said(30, 1), speaker(800), 100, style=PromptStyle(searches=False, is_verbatim=True)
        ).turns_left_out
        == 0
    )


def test_passages_are_read_in_the_order_that_is_kept(speaker, words):
    model = speaker(4096)
    earlier = compose("One?", [PASSAGES[2], PASSAGES[0]], (), model, 100)
    prompt = compose("Two?", PASSAGES[:3], (), model, 100, Reordering(Left((earlier,)), max_loss=1.0))
    assert prompt.order == (2, 0, 1)
    assert [read.document_id for read in prompt.passages] == [3, 1, 2]
    assert "[1] file3.md" in words.text(prompt)
    assert [segment.tokens for segment in prompt.segments[:3]] == [segment.tokens for segment in earlier.segments[:3]]


def test_a_prompt_that_was_made_is_ordered_along_what_was_read_since(speaker):
    model = speaker(4096)
    made = compose("Two?", PASSAGES[:3], (), model, 100, Reordering(Left(()), max_loss=1.0))
    assert made.order == (0, 1, 2)
    for read in ((2, 0), (1, 2, 0), (1,)):
        earlier = compose("One?", [PASSAGES[place] for place in read], (), model, 100)
        reordering = Reordering(Left((earlier,)), max_loss=1.0)
        order = order_along(made, PASSAGES[:3], model, reordering)
        made = compose("Two?", PASSAGES[:3], (), model, 100, reordering)
        assert made.order == order
        assert order[: len(read)] == read


def test_a_document_that_is_read_through_stays_in_the_order_of_its_text(speaker):
    model = speaker(4096)
    pages = [replace(one, document_id=1, ordinal=place, score=0.5) for place, one in enumerate(PASSAGES[:3])]
    earlier = compose("One?", [pages[2], pages[0]], (), model, 100)
    reordering = Reordering(Left((earlier,)), max_loss=1.0)
    made = compose("Summarise it.", pages, (), model, 100, reordering)
    assert made.order == order_along(made, pages, model, reordering) == (0, 1, 2)


def test_of_a_document_that_is_read_through_and_does_not_fit_all_parts_are_read(speaker):
    page = passage(1, "word " * 40)
    pages = [replace(page, row_id=f"r{n}", ordinal=n, text=f"P{n} {page.text}") for n in range(12)]
    prompt = compose("Summarise it.", pages, (), speaker(400), 100)
    assert 3 <= len(prompt.order) < 12
    assert (prompt.order[0], prompt.order == tuple(sorted(prompt.order)), prompt.order[-1] >= 8) == (0, True, True)
    assert [read.text for read in prompt.passages] == [pages[place].text for place in prompt.order]
    assert prompt.places_read == set(prompt.order)
    assert prompt.num_tokens <= 300


def test_passages_stay_in_their_order_where_another_would_cost_too_much(speaker):
    model = speaker(4096)
    earlier = compose("One?", [PASSAGES[2], PASSAGES[0]], (), model, 100)
    prompt = compose("Two?", PASSAGES[:3], (), model, 100, Reordering(Left((earlier,)), max_loss=0.01))
    assert prompt.order == (0, 1, 2)


def test_the_tokens_of_all_passages_can_be_quoted(speaker, words):
    prompt = compose("Why?", PASSAGES[:2], (), speaker(4096), 100)
    assert set(words("P1 P2 word")) <= set(prompt.quotable)
    assert len(prompt.quotable) == sum(len(s.tokens) for s in prompt.segments if s.kind == "passage")


def test_the_answer_gets_at_most_a_quarter_of_a_small_context():
    assert answer_reserve(512, 512) == 128
    assert answer_reserve(512, 8192) == 512
