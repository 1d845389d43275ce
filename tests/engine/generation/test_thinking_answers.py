"""Tests of answers by models that think first: what is shown of it, what is kept, and that they come to an end."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from engine.core import Answer, Evidence, Question, Scope, Unfinished
from engine.events import AnswerCancelled, AnswerFinished, ThoughtsGenerated, TokensGenerated
from engine.generation.commands import UseModel
from engine.generation.sampler import ChainSampler
from tests.helpers.tiny_gguf import CHATML, EOS, token_of, write_tiny_mamba, write_tiny_model

# As QwQ's: prompts end within thoughts, and earlier answers are repeated without them.
THINKS_AT_ONCE = CHATML.replace("assistant\n{% endif %}", "assistant\n<think>\n{% endif %}").replace(
    "{{ m.content }}", "{{ m.content.split('</think>')[-1].lstrip('\\n') }}"
)
# As R1's first: it begins by itself.
THINKS_BY_ITSELF = THINKS_AT_ONCE.replace("assistant\n<think>\n", "assistant\n")
# As Qwen3's.
THINKS_IF_TOLD = THINKS_BY_ITSELF.replace(
    "assistant\n{% endif %}",
    "assistant\n{% if enable_thinking is false %}<think>\n\n</think>\n\n{% endif %}{% endif %}",
)
ANSWER = "Through a mutex [2]."
THOUGHTS = "They ask how. Passage [2] says it."


@pytest.fixture
def says(desk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str, str], None]:
    """Loads a model with this template that writes this text and then ends, again for each question."""

    def load(template: str, text: str) -> None:
        desk.worker.use(UseModel(write_tiny_model(tmp_path / "m.gguf", chat_template=template)))
        desk.model_state("loaded")
        written: dict[int, list[int]] = {}

        def sample(sampler: ChainSampler, context, row: int = -1) -> int:
            if id(sampler) not in written:
                written[id(sampler)] = [*map(_letter, text), EOS]
            return written[id(sampler)].pop(0)

        monkeypatch.setattr(ChainSampler, "sample", sample)
        monkeypatch.setattr(ChainSampler, "close", lambda sampler: written.pop(id(sampler), None))

    return load


def _letter(sign: str) -> int:
    """Its token; a line break is a byte."""
    return token_of(sign) if sign != "\n" else 3 + ord(sign)


def answer_of(desk, question_id: str = "q") -> Answer:
    end = desk.end_of(question_id)
    assert isinstance(end, AnswerFinished)
    return end.answer


def told(desk, kind: type) -> str:
    return "".join(event.text for event in desk.events if isinstance(event, kind))


@pytest.mark.parametrize(
    ("template", "opening"), [(THINKS_AT_ONCE, ""), (THINKS_BY_ITSELF, "<think>\n"), (THINKS_IF_TOLD, "<think>\n")]
)
def test_thoughts_are_told_before_the_answer_and_are_none_of_it(desk, says, template: str, opening: str):
    says(template, f"{opening}{THOUGHTS}\n</think>\n\n{ANSWER}")
    desk.ask("How?", max_tokens=40, thinks=template == THINKS_IF_TOLD)
    end = desk.end_of()
    assert isinstance(end, AnswerFinished)
    assert (end.answer.text, end.answer.thoughts, end.answer.finish_reason) == (ANSWER, THOUGHTS, "stop")
    assert (told(desk, TokensGenerated), told(desk, ThoughtsGenerated).rstrip()) == (ANSWER, THOUGHTS)
    assert [citation.passage for citation in end.answer.citations] == [1]
    kinds = [type(e) for e in desk.events if isinstance(e, (TokensGenerated, ThoughtsGenerated))]
    assert kinds == sorted(kinds, key=[ThoughtsGenerated, TokensGenerated].index)
    assert 0 < end.timings.thought_tokens < end.timings.generated_tokens


@pytest.mark.parametrize(
    ("template", "opening"), [(THINKS_BY_ITSELF, f"<think>\n{THOUGHTS}</think>\n"), (THINKS_IF_TOLD, "")]
)
def test_marks_around_an_answer_are_none_of_it(desk, says, template: str, opening: str):
    says(template + "{# <answer> #}", f"{opening}<answer>\n{ANSWER}\n</answer>")
    desk.ask("How?", max_tokens=40)
    answer = answer_of(desk)
    assert (answer.text.strip(), answer.finish_reason) == (ANSWER, "stop")
    assert (answer.thoughts, told(desk, TokensGenerated)) == (THOUGHTS if opening else "", answer.text)
    desk.ask("And then?", "second", answer.segments, max_tokens=40)
    assert answer_of(desk, "second").text == answer.text


@pytest.mark.parametrize("is_cut_in_words", [False, True])
def test_marks_around_an_answer_that_goes_on_are_none_of_it(desk, says, is_cut_in_words: bool):
    says(THINKS_IF_TOLD + "{# <answer> #}", f"<answer>\n{ANSWER}\n</answer>")
    desk.ask("How?", max_tokens=8)
    cut = answer_of(desk)
    assert cut.text == ANSWER[:8]
    begun = Unfinished(cut.text, segments=() if is_cut_in_words else cut.segments)
    says(THINKS_IF_TOLD + "{# <answer> #}", f"{ANSWER[8:]}\n</answer>")
    desk.ask("How?", "on", unfinished=begun, max_tokens=40)
    answer = answer_of(desk, "on")
    assert (answer.text.strip(), answer.finish_reason) == (ANSWER, "stop")


@pytest.mark.parametrize("template", [THINKS_AT_ONCE, THINKS_BY_ITSELF, THINKS_IF_TOLD])
def test_behind_a_prompt_of_others_all_is_text_and_as_it_was_written(desk, says, template: str):
    text = f" <think>\n{THOUGHTS}\n</think>\n\n{ANSWER} "
    says(template, text)
    prompt = Question("q", "How", searches=False, is_raw=True)
    desk.put(prompt, Evidence((), (), Scope(0, 0, 0)), max_tokens=80, thinks=True)
    end = desk.end_of()
    assert isinstance(end, AnswerFinished)
    assert (end.answer.text, end.answer.thoughts, end.answer.finish_reason) == (text, "", "stop")
    assert told(desk, TokensGenerated) == text
    assert end.timings.prompt_tokens == len("How") + 1


def test_a_model_that_is_told_not_to_think_does_not(desk, says):
    says(THINKS_IF_TOLD, ANSWER)
    desk.ask("How?")
    answer = answer_of(desk)
    assert (answer.text, answer.thoughts) == (ANSWER, "")


def test_a_model_that_may_think_and_does_not_is_heard_from_its_first_word(desk, says):
    says(THINKS_BY_ITSELF, ANSWER)
    desk.ask("How?")
    answer = answer_of(desk)
    assert (answer.text, answer.thoughts) == (ANSWER, "")
    assert answer.segments[-1]["tokens"]


def test_thoughts_do_not_count_as_words_of_the_answer(desk, says):
    says(THINKS_AT_ONCE, f"{THOUGHTS}</think>{ANSWER}")
    desk.ask("How?", max_tokens=8)
    answer = answer_of(desk)
    assert (answer.text, answer.thoughts, answer.finish_reason) == (ANSWER[:8], THOUGHTS, "length")


def test_a_model_that_does_not_stop_thinking_has_to_answer(desk, says):
    says(THINKS_AT_ONCE, ANSWER * 20)
    desk.ask("How?", max_tokens=len(ANSWER), max_thought_tokens=2 * len(ANSWER))
    answer = answer_of(desk)
    assert (answer.text, answer.thoughts, answer.finish_reason) == (ANSWER, ANSWER * 2, "length")


def test_one_that_is_to_think_nothing_answers_at_once(desk, says):
    says(THINKS_AT_ONCE, ANSWER)
    desk.ask("How?", max_thought_tokens=0)
    answer = answer_of(desk)
    assert (answer.text, answer.thoughts, answer.finish_reason) == (ANSWER, "", "stop")


def test_one_that_ends_in_its_thoughts_has_to_answer(desk, says):
    # With a form, what it thinks and what it says are chosen by samplers of their own.
    says(THINKS_AT_ONCE, ANSWER)
    desk.ask("How?", max_tokens=40, grammar=f'root ::= "{ANSWER}"')
    answer = answer_of(desk)
    assert (answer.text, answer.thoughts, answer.finish_reason) == (ANSWER, ANSWER, "stop")


@pytest.mark.parametrize("template", [THINKS_BY_ITSELF, THINKS_IF_TOLD])
def test_a_form_keeps_nobody_from_thinking_who_will(desk, tmp_path: Path, template: str):
    desk.worker.use(UseModel(write_tiny_model(tmp_path / "m.gguf", chat_template=template, never_ends=True)))
    desk.ask("How?", max_thought_tokens=20, grammar=f'root ::= "{ANSWER}"', thinks=True)
    answer = answer_of(desk)
    assert answer.text == ANSWER
    assert bool(answer.thoughts) == (template == THINKS_IF_TOLD)


def test_a_model_that_keeps_whole_sequences_reads_no_turn_again_for_its_thoughts(desk, tmp_path: Path):
    path = write_tiny_mamba(tmp_path / "m.gguf", chat_template=THINKS_AT_ONCE)
    desk.worker.use(UseModel(path))
    desk.ask("How?", max_tokens=8, max_thought_tokens=8)
    first = answer_of(desk)
    assert first.segments[-1]["tokens"]
    desk.ask("And then?", "second", first.segments, max_tokens=8, max_thought_tokens=8)
    end = desk.end_of("second")
    assert isinstance(end, AnswerFinished)
    assert end.timings.cached_tokens > end.timings.prompt_tokens / 2


def test_a_form_is_that_of_the_answer_and_not_of_thoughts(desk, tmp_path: Path):
    desk.worker.use(UseModel(write_tiny_model(tmp_path / "m.gguf", chat_template=THINKS_AT_ONCE, never_ends=True)))
    desk.ask("How?", max_thought_tokens=12, grammar=f'root ::= "{ANSWER}"')
    end = desk.end_of()
    assert isinstance(end, AnswerFinished)
    assert (end.answer.text, end.answer.finish_reason) == (ANSWER, "stop")
    assert end.timings.thought_tokens > 12


def test_beams_think_too(desk, tmp_path: Path):
    desk.worker.use(UseModel(write_tiny_model(tmp_path / "m.gguf", chat_template=THINKS_AT_ONCE, never_ends=True)))
    desk.ask("How?", max_tokens=6, max_thought_tokens=4, beam_width=2)
    answer = answer_of(desk)
    # These templates cannot say when it has been enough.
    assert (answer.text, answer.finish_reason) == ("", "length")
    assert answer.thoughts


def test_several_answers_have_thoughts_of_their_own(desk, says):
    says(THINKS_AT_ONCE, f"{THOUGHTS}</think>{ANSWER}")
    desk.ask("How?", max_tokens=40, num_answers=2)
    answer = answer_of(desk)
    (other,) = answer.alternatives
    assert (other.text, other.thoughts) == (answer.text, answer.thoughts) == (ANSWER, THOUGHTS)


def test_the_next_turn_reads_the_answer_without_its_thoughts(desk, says):
    says(THINKS_AT_ONCE, f"{THOUGHTS}</think>{ANSWER}")
    desk.ask("How?", max_tokens=40)
    first = answer_of(desk)
    assert first.segments[-1]["text"] == ANSWER
    assert "tokens" not in first.segments[-1]
    desk.ask("And then?", "second", first.segments, max_tokens=40)
    second = desk.end_of("second")
    assert isinstance(second, AnswerFinished)
    assert second.answer.text == ANSWER
    # The instructions and the passages were read before.
    assert second.timings.cached_tokens > second.timings.prompt_tokens / 2


@pytest.mark.parametrize("template", [THINKS_AT_ONCE, THINKS_BY_ITSELF])
def test_an_answer_that_goes_on_is_not_thought_about_again(desk, says, template: str):
    opening = "<think>\n" if template == THINKS_BY_ITSELF else ""
    says(template, f"{opening}{THOUGHTS}</think>{ANSWER}")
    desk.ask("How?", max_tokens=8)
    cut = answer_of(desk)
    thought = told(desk, ThoughtsGenerated)
    begun = Unfinished(cut.text, passages=cut.passages, segments=cut.segments, thoughts=cut.thoughts)
    desk.ask("How?", "on", unfinished=begun, max_tokens=80)
    answer = answer_of(desk, "on")
    # Whatever it writes is shown as the answer.
    assert answer.text.startswith(cut.text)
    assert THOUGHTS in answer.text
    assert (answer.thoughts, told(desk, ThoughtsGenerated)) == (cut.thoughts, thought)
    assert "tokens" not in answer.segments[-1]


def test_thoughts_that_a_conversation_keeps_are_no_part_of_an_answer_that_goes_on(desk, tmp_path: Path):
    desk.worker.use(UseModel(write_tiny_mamba(tmp_path / "m.gguf", chat_template=THINKS_AT_ONCE)))
    desk.ask("How?", max_tokens=8, max_thought_tokens=8)
    cut = answer_of(desk)
    assert cut.finish_reason == "length"
    begun = Unfinished(cut.text, passages=cut.passages, segments=cut.segments, thoughts=cut.thoughts)
    desk.ask("How?", "on", unfinished=begun, max_tokens=8)
    answer = answer_of(desk, "on")
    told_since = "".join(e.text for e in desk.events if isinstance(e, TokensGenerated) and e.question_id == "on")
    assert (answer.text, answer.thoughts) == (cut.text + told_since, cut.thoughts)


def test_a_question_that_is_stopped_in_its_thoughts_leaves_no_answer(desk, tmp_path: Path):
    desk.worker.use(UseModel(write_tiny_model(tmp_path / "m.gguf", chat_template=THINKS_AT_ONCE, never_ends=True)))
    in_flight = desk.ask("How?")
    desk.wait_for(lambda event: isinstance(event, ThoughtsGenerated))
    in_flight.cancelled.set()
    end = desk.end_of()
    assert isinstance(end, AnswerCancelled)
    assert end.segments == ()


def test_a_stop_string_within_thoughts_ends_no_beam(desk, tmp_path: Path):
    desk.worker.use(UseModel(write_tiny_model(tmp_path / "m.gguf", chat_template=THINKS_AT_ONCE, never_ends=True)))
    desk.ask("How?", "free", max_tokens=6, max_thought_tokens=4, beam_width=2)
    thoughts = answer_of(desk, "free").thoughts
    desk.ask("How?", "stopped", max_tokens=6, max_thought_tokens=4, beam_width=2, stop=(thoughts.strip()[1:3],))
    stopped = answer_of(desk, "stopped")
    assert (stopped.thoughts, stopped.finish_reason) == (thoughts, "length")
