"""Tests for engine.generation.unfinished: an answer that broke off goes on as if it never had."""

from __future__ import annotations

from dataclasses import replace
from datetime import date
from pathlib import Path

import pytest

from engine.core import Answer, Evidence, Passage, Question, Scope, Unfinished
from engine.errors import BadRequest, PromptTooLong
from engine.events import (
    AnswerCancelled,
    AnswerFailed,
    AnswerFinished,
    AnswerStateChanged,
    PassagesFound,
    TokensGenerated,
)
from engine.generation.chat_template import ChatTemplate
from engine.generation.commands import UseModel
from engine.generation.conversation import Continuation, Turn
from engine.generation.evidence import EvidencePassage
from engine.generation.prompt import Prompt, PromptStyle, compose
from engine.generation.segment import tokens_of
from engine.generation.speaker import Speaker
from engine.generation.transcript import transcript_of
from engine.generation.unfinished import going_on_with
from tests.engine.generation.conftest import EVIDENCE, Desk
from tests.helpers.passages import passage
from tests.helpers.tiny_gguf import CHATML, write_tiny_mamba, write_tiny_model

DAY = date(2026, 11, 27)
FOUND = (passage("The notice period is three months.", document_id=1), passage("Bread is baked.", document_id=2))
THINKS_AT_ONCE = CHATML.replace("assistant\n{% endif %}", "assistant\n<think>\n{% endif %}") + "{# </think> #}"
THINKS_BY_ITSELF = CHATML + "{# </think> #}"
CHANNELS = CHATML + "{# <|channel|>final<|message|> #}"

# --- what is read


def letters(text: str, is_markup: bool = False) -> list[int]:
    return [ord(letter) for letter in text]


def speaker_of(template: str = CHATML, context_tokens: int = 4000, fingerprint: str = "model") -> Speaker:
    return Speaker(ChatTemplate(template, "<s>", "</s>"), letters, context_tokens, fingerprint, 1, 10**6)


def turn_of(prompt: Prompt, answer: str, tokens: tuple[int, ...], first: str = "model") -> Turn:
    return Turn("How long?", prompt.passages, answer, tokens, first, first_number=prompt.first_number, also=prompt.also)


def read(unfinished: Unfinished, speaker: Speaker, transcript=(), known=None, reserve_tokens: int = 100) -> Prompt:
    question = Question("q", "How long?", transcript=transcript, unfinished=unfinished)
    return going_on_with(
        unfinished, question, lambda ids: ids if known is None else known, speaker, reserve_tokens, DAY
    )


def text(prompt: Prompt) -> str:
    return "".join(map(chr, tokens_of(prompt.segments)))


@pytest.fixture
def speaker() -> Speaker:
    return speaker_of()


@pytest.fixture
def asked(speaker: Speaker) -> Prompt:
    return compose("How long?", FOUND, (), speaker, 100)


@pytest.mark.parametrize("is_lost", [False, True])
def test_an_answer_of_the_model_alone_goes_on_behind_the_words_it_was_asked_with(speaker: Speaker, is_lost: bool):
    asked = compose("How long?", (), (), speaker, 100, style=PromptStyle(searches=False))
    turn = replace(turn_of(asked, "Three", (900, 901)), searches=False)
    unfinished = Unfinished("Three", segments=() if is_lost else transcript_of(turn))
    question = Question("q", "How long?", unfinished=unfinished, searches=False)
    prompt = going_on_with(unfinished, question, lambda ids: ids, speaker, 100, DAY)
    assert prompt.segments[:-1] == asked.segments


def test_the_answer_stands_behind_all_that_it_was_written_behind(speaker: Speaker, asked: Prompt):
    segments = transcript_of(turn_of(asked, "Three [1", (900, 901)))
    prompt = read(Unfinished("Three [1", passages=FOUND, segments=segments), speaker)
    assert prompt.segments[:-1] == asked.segments
    assert prompt.segments[-1].tokens == (900, 901)
    assert prompt.numbers == asked.numbers
    assert prompt.begun is not None
    assert (prompt.begun.tokens, prompt.begun.texts, prompt.begun.stays) == ((900, 901), ("Three [1",), True)


def test_a_turn_of_an_older_version_does_not_say_where_its_passages_stand(speaker: Speaker, asked: Prompt):
    user, assistant = transcript_of(turn_of(asked, "Three [1", (900, 901)))
    for told in user["passages"]:
        del told["stands"]
    prompt = read(Unfinished("Three [1", passages=FOUND, segments=(user, assistant)), speaker)
    assert prompt.segments[:-1] == asked.segments
    assert prompt.numbers == asked.numbers


def test_another_model_reads_it_in_words(asked: Prompt):
    segments = transcript_of(turn_of(asked, "Three [1", (900, 901)))
    prompt = read(Unfinished("Three [1", passages=FOUND, segments=segments), speaker_of(fingerprint="other"))
    assert text(prompt).endswith("Question: How long?<|im_end|>\n<|im_start|>assistant\nThree [1")
    assert prompt.begun is not None
    assert prompt.begun.tokens == tuple(letters("Three [1"))


def test_where_it_is_read_in_words_a_character_that_was_cut_is_written_whole(asked: Prompt):
    segments = transcript_of(turn_of(asked, "Three \ufffd", (), ""))
    prompt = read(Unfinished("Three \ufffd", passages=FOUND, segments=segments), speaker_of())
    assert text(prompt).endswith("assistant\nThree ")
    assert prompt.begun is not None
    assert prompt.begun.texts == ("Three ",)
    # What the user has seen of one that was lost has whole characters only, and may include this one.
    lost = read(Unfinished("Three \ufffd", passages=FOUND), speaker_of())
    assert text(lost).endswith("assistant\nThree \ufffd")


def test_of_one_that_was_lost_the_passages_are_read_as_they_are_shown(speaker: Speaker, asked: Prompt):
    earlier = transcript_of(turn_of(asked, "Three [1].", (900,)))
    shown = (passage("Rent is due.", document_id=3), FOUND[1])
    prompt = read(Unfinished("On Monday [1], bread [2]", passages=shown), speaker, earlier)
    assert text(prompt).endswith(
        "[3] 3.txt\nRent is due.\n\nPassages above that fit this question, too: [2].\nQuestion: How long?<|im_end|>\n"
        "<|im_start|>assistant\nOn Monday [3], bread [2]"
    )
    assert prompt.numbers == {3: 0, 2: 1}


def test_what_was_shown_behind_the_last_that_was_returned_is_read_too(speaker: Speaker, asked: Prompt):
    earlier = transcript_of(Turn("Before?", (EvidencePassage(9, "old.md", None, "Old."),), "Yes [1]."))
    turn = Turn("How long?", asked.passages, "Three [2", (900, 901), "model", first_number=2)
    shown = Unfinished("Three [1] and [2]", passages=FOUND, segments=transcript_of(turn))
    assert text(read(replace(shown, text="Three [2"), speaker, earlier)).endswith("assistant\n" + chr(900) + chr(901))
    # What broke off in the middle of a marker is shown differently once that is whole.
    prompt = read(replace(shown, segments=transcript_of(replace(turn, answer="Three [2] a"))), speaker, earlier)
    assert text(prompt).endswith("assistant\nThree [2] and [3]")


def test_what_has_left_the_library_is_not_read_and_leaves_its_number(speaker: Speaker, asked: Prompt):
    segments = transcript_of(turn_of(asked, "Three [1], bread [2]", (900, 901)))
    prompt = read(Unfinished("Three [1], bread [2]", passages=FOUND, segments=segments), speaker, known={2})
    assert "three months" not in text(prompt)
    assert "[2] 2.txt\nBread is baked." in text(prompt)
    assert prompt.numbers == {1: 0, 2: 1}
    assert prompt.begun is not None
    assert [one.document_id for one in prompt.begun.turn.passages] == [1, 2]


def test_an_answer_in_pieces_goes_on_with_the_last_of_them(speaker: Speaker, asked: Prompt):
    later = passage("It begins on the first.", document_id=3)
    more = Continuation((EvidencePassage.of(later),), "More:", "On the first [3", (902, 903))
    segments = transcript_of(replace(turn_of(asked, "Three [1].", (900, 901)), continuations=(more,)))
    prompt = read(Unfinished("Three [1]. On the first [3", passages=(*FOUND, later), segments=segments), speaker)
    assert prompt.segments[: len(asked.segments)] == asked.segments
    assert prompt.segments[len(asked.segments)].tokens == (900, 901)
    assert prompt.segments[-1].tokens == (902, 903)
    assert prompt.numbers == {1: 0, 2: 1, 3: 2}
    assert prompt.begun is not None
    assert prompt.begun.turn.with_end("So.", (902, 904), "model").answers == ("Three [1].", "So.")


@pytest.mark.parametrize(
    ("template", "end"),
    [
        (THINKS_AT_ONCE, "assistant\n<think>\n\n</think>\n\nThree"),
        (THINKS_BY_ITSELF, "assistant\n<think>\n</think>\n\nThree"),
        (CHANNELS, "assistant\n<|channel|>final<|message|>Three"),
    ],
)
def test_what_was_thought_is_not_thought_again(template: str, end: str):
    speaker = speaker_of(template)
    segments = transcript_of(turn_of(compose("How long?", FOUND, (), speaker, 100), "Three", ()))
    prompt = read(Unfinished("Three", passages=FOUND, segments=segments, thoughts="They ask how long."), speaker)
    assert text(prompt).endswith(end)
    assert prompt.begun is not None
    assert not prompt.begun.stays


def test_a_model_that_answered_at_once_by_itself_is_not_told_that_it_has_thought():
    speaker = speaker_of(THINKS_BY_ITSELF)
    segments = transcript_of(turn_of(compose("How long?", FOUND, (), speaker, 100), "Three", (900,)))
    prompt = read(Unfinished("Three", passages=FOUND, segments=segments), speaker)
    assert text(prompt).endswith("assistant\n" + chr(900))


def test_passages_make_way_for_an_answer_that_has_become_long(speaker: Speaker):
    found = tuple(passage(f"{number} is so. " * 20, document_id=number) for number in (1, 2, 3))
    answer = "It is so [1]. " * 20
    turn = turn_of(compose("How long?", found, (), speaker, 100), answer, tuple(letters(answer)))
    unfinished = Unfinished(answer, passages=found, segments=transcript_of(turn))
    numbers_read = []
    for context_tokens in (2000, 900, 600):
        prompt = read(unfinished, speaker_of(context_tokens=context_tokens))
        assert prompt.num_tokens + 50 <= context_tokens
        assert prompt.segments[-1].tokens == tuple(letters(answer))
        assert prompt.numbers == {1: 0, 2: 1, 3: 2}
        numbers_read.append(len(prompt.passages))
    assert numbers_read == [3, 2, 1]
    with pytest.raises(PromptTooLong, match="as long as the model can read"):
        read(unfinished, speaker_of(context_tokens=500))


@pytest.mark.parametrize("segments", [({"role": "user"},), ({"n": 1}, {"n": 2})])
def test_what_is_no_turn_of_ours_is_refused(speaker: Speaker, segments):
    with pytest.raises(BadRequest):
        read(Unfinished("Three", passages=FOUND, segments=segments), speaker)


# --- what becomes of it


def with_model(desk: Desk, path: Path) -> Desk:
    desk.worker.use(UseModel(path))
    desk.model_state("loaded")
    return desk


def answer_of(desk: Desk, question_id: str) -> Answer:
    end = desk.end_of(question_id)
    assert isinstance(end, AnswerFinished)
    return end.answer


def unfinished_of(answer: Answer) -> Unfinished:
    return Unfinished(
        answer.text,
        answer.quotes,
        answer.passages,
        answer.scope,
        answer.segments,
        answer.refreshes,
        answer.thoughts,
    )


def go_on(desk: Desk, unfinished: Unfinished, question_id: str = "on", text: str = "How?", **options) -> AnswerFinished:
    evidence = Evidence(unfinished.passages, unfinished.quotes, unfinished.scope or Scope(0, 0, 0))
    desk.ask(text, question_id, evidence=evidence, unfinished=unfinished, **options)
    end = desk.end_of(question_id)
    assert isinstance(end, AnswerFinished), end
    return end


def told(desk: Desk, question_id: str) -> str:
    return "".join(
        event.text for event in desk.events if isinstance(event, TokensGenerated) and event.question_id == question_id
    )


@pytest.fixture
def endless(tmp_path: Path) -> Path:
    return write_tiny_model(tmp_path / "endless.gguf", never_ends=True)


@pytest.mark.parametrize("num_tokens", [1, 20, 40])
def test_the_answer_is_what_it_would_have_been_at_once(desk: Desk, endless: Path, num_tokens: int):
    with_model(desk, endless)
    desk.ask("How?", "whole", max_tokens=60)
    whole = answer_of(desk, "whole")
    desk.ask("How?", "cut", max_tokens=num_tokens)
    cut = answer_of(desk, "cut")
    assert cut.finish_reason == "length"
    end = go_on(desk, unfinished_of(cut), max_tokens=60 - num_tokens)
    assert end.answer == whole
    assert end.timings.generated_tokens == 60 - num_tokens


def test_only_what_is_new_is_computed_and_told_and_the_next_turn_begins_with_all_of_it(desk: Desk, endless: Path):
    with_model(desk, endless)
    desk.ask("How?", "cut", max_tokens=40)
    cut = desk.end_of("cut")
    end = go_on(desk, unfinished_of(cut.answer), max_tokens=30)
    assert end.timings.prompt_tokens == cut.timings.prompt_tokens + 40
    # The last token is computed for what follows it.
    assert end.timings.cached_tokens >= end.timings.prompt_tokens - 2
    assert cut.answer.text + told(desk, "on") == end.answer.text
    assert (end.answer.passages, end.answer.quotes, end.answer.scope) == (
        cut.answer.passages,
        cut.answer.quotes,
        cut.answer.scope,
    )
    assert not [event for event in desk.events if isinstance(event, PassagesFound)]
    desk.ask("And then?", "next", transcript=end.answer.segments, max_tokens=3)
    following = desk.end_of("next")
    # The last token of all may still be to be computed when the next turn comes.
    assert following.timings.cached_tokens >= end.timings.prompt_tokens + end.timings.generated_tokens - 1


def test_it_goes_on_again_and_again(desk: Desk, endless: Path):
    with_model(desk, endless)
    desk.ask("How?", "whole", max_tokens=60)
    whole = answer_of(desk, "whole")
    desk.ask("How?", "cut", max_tokens=20)
    answer = answer_of(desk, "cut")
    for number in range(2):
        answer = go_on(desk, unfinished_of(answer), f"on {number}", max_tokens=20).answer
    assert answer == whole


def numbered(number: int) -> Passage:
    return replace(EVIDENCE.passages[0], row_id=f"r{number}", document_id=number, text=f"Passage {number} says so.")


LATER = Evidence((numbered(4), numbered(5)), (), Scope(2, 8, 2))
SENTENCE, SHOWN = "Sö [5] and [1] too, [4].", "Sö [2] and [3] too, [1]."
FORM = f'root ::= "{SENTENCE}"'


@pytest.fixture
def second(desk: Desk, tiny_model: Path):
    """Asks a second question, whose passages are the fourth and the fifth of the conversation."""
    with_model(desk, tiny_model)
    desk.ask("First?", "first", grammar='root ::= "Yes [1]."')
    transcript = answer_of(desk, "first").segments

    def ask(max_tokens: int, question_id: str) -> tuple[Answer, tuple]:
        desk.ask("How?", question_id, transcript, LATER, max_tokens=max_tokens, grammar=FORM)
        return answer_of(desk, question_id), transcript

    return ask


def test_numbers_mean_the_same_wherever_it_broke_off(desk: Desk, second):
    whole, transcript = second(60, "whole")
    assert whole.text == SHOWN
    assert [citation.passage for citation in whole.citations] == [1, 2, 0]
    for num_tokens in range(1, len(SENTENCE.encode())):
        cut, _ = second(num_tokens, f"cut {num_tokens}")
        name = f"on {num_tokens}"
        end = go_on(desk, unfinished_of(cut), name, transcript=transcript, max_tokens=60, grammar=FORM)
        assert replace(end.answer, scope=whole.scope) == whole, cut.text


@pytest.mark.parametrize("shown", ["Sö", "Sö [2] an", "Sö [2] and [3] to"])
def test_one_that_was_lost_with_the_engine_goes_on_from_what_people_have_seen(desk: Desk, second, shown: str):
    whole, transcript = second(60, "whole")
    passages = whole.passages if "[3]" in shown else LATER.passages
    lost = Unfinished(shown, passages=passages)
    assert go_on(desk, lost, transcript=transcript, max_tokens=60, grammar=FORM).answer.text == SHOWN
    # Lost while it went on: something of its beginning was returned.
    cut, _ = second(1, "cut")
    lost = replace(lost, segments=cut.segments)
    assert go_on(desk, lost, "again", transcript=transcript, max_tokens=60, grammar=FORM).answer.text == SHOWN


def test_another_model_goes_on_and_the_next_turn_begins_with_what_it_read(desk: Desk, endless: Path, tmp_path: Path):
    with_model(desk, endless)
    desk.ask("How?", "cut", max_tokens=20)
    cut = answer_of(desk, "cut")
    with_model(desk, write_tiny_model(tmp_path / "other.gguf", seed=1, never_ends=True))
    end = go_on(desk, unfinished_of(cut), max_tokens=20)
    assert end.answer.text.startswith(cut.text)
    assert end.answer.segments[-1]["model"] != cut.segments[-1]["model"]
    desk.ask("And then?", "next", transcript=end.answer.segments, max_tokens=3)
    following = desk.end_of("next")
    # The last token of all may still be to be computed when the next turn comes.
    assert following.timings.cached_tokens >= end.timings.prompt_tokens + 19


def test_one_that_is_stopped_again_leaves_all_of_it(desk: Desk, endless: Path):
    with_model(desk, endless)
    desk.ask("How?", "cut", max_tokens=20)
    cut = answer_of(desk, "cut")
    in_flight = desk.ask("How?", "on", unfinished=unfinished_of(cut), max_tokens=1500)
    desk.wait_for(lambda event: isinstance(event, TokensGenerated) and event.question_id == "on")
    in_flight.cancelled.set()
    end = desk.end_of("on")
    assert isinstance(end, AnswerCancelled)
    shown = cut.text + told(desk, "on")
    written = end.segments[-1]
    assert (written["text"], written["tokens"][:20]) == (shown, cut.segments[-1]["tokens"])
    end = go_on(desk, Unfinished(shown, passages=EVIDENCE.passages, segments=end.segments), "again", max_tokens=5)
    assert end.answer.text == shown + told(desk, "again")
    assert end.timings.cached_tokens >= end.timings.prompt_tokens - 2


def test_what_was_held_back_of_a_stopped_answer_is_told(desk: Desk, second):
    _, transcript = second(60, "whole")
    in_flight = desk.ask("How?", "stopped", transcript, LATER, max_tokens=1500, grammar='root ::= "Sö " "[5"{700}')
    desk.wait_for(lambda event: isinstance(event, TokensGenerated) and event.question_id == "stopped")
    in_flight.cancelled.set()
    end = desk.end_of("stopped")
    assert isinstance(end, AnswerCancelled)
    assert len(told(desk, "stopped")) == len(end.segments[-1]["text"])


def test_a_form_that_the_answer_has_not_ends_it_with_a_sentence(desk: Desk, endless: Path):
    with_model(desk, endless)
    desk.ask("How?", "cut", max_tokens=5)
    cut = answer_of(desk, "cut")
    desk.ask("How?", "on", unfinished=unfinished_of(cut), grammar='root ::= "\\n" "Yes."')
    end = desk.end_of("on")
    assert isinstance(end, AnswerFailed)
    assert "form" in str(end.error)


def test_of_a_model_that_sums_up_what_it_reads_an_answer_goes_on_too(desk: Desk, tmp_path: Path):
    with_model(desk, write_tiny_mamba(tmp_path / "mamba.gguf"))
    desk.ask("How?", "whole", max_tokens=12)
    whole = answer_of(desk, "whole")
    desk.ask("How?", "cut", max_tokens=4)
    cut = answer_of(desk, "cut")
    assert go_on(desk, unfinished_of(cut), max_tokens=8).answer == whole


def test_one_of_several_answers_goes_on(desk: Desk, endless: Path):
    with_model(desk, endless)
    desk.ask("How?", "cut", max_tokens=20, num_answers=2, temperature=1.0)
    answer = answer_of(desk, "cut")
    (other,) = answer.alternatives
    end = go_on(desk, replace(unfinished_of(answer), text=other.text, segments=other.segments), num_answers=2)
    assert end.answer.text.startswith(other.text)
    assert end.answer.alternatives == ()


def test_without_a_model_no_answer_goes_on(desk: Desk):
    desk.ask("How?", "on", unfinished=Unfinished("Through", passages=EVIDENCE.passages))
    end = desk.end_of("on")
    assert isinstance(end, AnswerFailed)
    assert "Without a model" in str(end.error)


def test_what_beams_have_begun_goes_on_without_them(desk: Desk, endless: Path):
    with_model(desk, endless)
    desk.ask("How?", "cut", max_tokens=12, beam_width=3)
    cut = answer_of(desk, "cut")
    end = go_on(desk, unfinished_of(cut), max_tokens=12, beam_width=3)
    assert end.answer.text.startswith(cut.text)
    assert len(end.answer.text) > len(cut.text)
    widths = [(event.question_id, event.beam_width) for event in desk.events if _is_writing(event)]
    assert widths == [("cut", 3), ("on", 1)]


def _is_writing(event: object) -> bool:
    return isinstance(event, AnswerStateChanged) and event.state == "writing"
