"""Tests for engine.generation.thinking: where thoughts begin and end, token by token."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from engine.generation.streaming import TextStream
from engine.generation.thinking import Manner, Marks, Thinking, Thoughts, manner_of, marks_of

THINK = Marks(("<think>",), "</think>", "\n</think>\n\n")
COMMAND = marks_of("<|START_THINKING|><|END_THINKING|>")
MARKED = marks_of("<think></think><response></response>")
CHANNELS = marks_of("<|start|>assistant<|channel|>final<|message|>{{ m.content }}")
OPENING, ENDING = (90,), (91, 92)
# As tokens of control are: nothing, where they are not written out.
CONTROL = frozenset(
    {
        *("<|channel|>", "<|message|>", "<|end|>", "<|start|>", "<think>", "</think>"),
        *("<|START_THINKING|>", "<|END_THINKING|>", "<|START_RESPONSE|>"),
    }
)


def thoughts_of(marks: Marks | None, is_open: bool = False, max_tokens: int = 100, room_tokens: int = 1000) -> Thoughts:
    assert marks is not None
    return Thoughts(Thinking(Manner(marks, is_open, is_sure=True), OPENING, ENDING, max_tokens, 50, room_tokens))


def read(thoughts: Thoughts, pieces: Sequence[str]) -> str:
    """What belongs to the answer, as the step loop asks for it."""
    stream, answer = TextStream(), ""
    for piece in pieces:
        plain = b"" if piece in CONTROL else piece.encode()
        plain = plain if thoughts.has_begun_answer else thoughts.feed(piece.encode(), plain)
        stream.stop_at(thoughts.answer_end)
        answer += stream.feed(plain)
    return answer + stream.feed(thoughts.finish()) + stream.finish()


@pytest.mark.parametrize(
    "pieces",
    [
        ["<think>", "\n", "They ask [1].", "\n", "</think>", "\n\n", "Through", " a mutex."],
        ["<thi", "nk>\nThey a", "sk [1].\n</th", "ink>\n", "\nThrough a mutex."],
        [*"<think>\nThey ask [1].\n</think>\n\nThrough a mutex."],
        ["\n", "<think>They ask [1].</think>Through a mutex."],
    ],
)
def test_what_is_thought_is_told_apart_from_the_answer_however_it_is_cut(pieces):
    thoughts = thoughts_of(THINK)
    assert read(thoughts, pieces) == "Through a mutex."
    assert thoughts.text.strip() == "They ask [1]."
    assert thoughts.take() == thoughts.text
    assert thoughts.take() == ""


@pytest.mark.parametrize(
    ("marks", "is_open", "nothing"),
    [
        (THINK, True, "\n</think>\n\n"),
        (THINK, False, "<think>\n</think>\n\n"),
        (CHANNELS, False, "<|channel|>final<|message|>"),
    ],
)
def test_an_answer_may_stand_behind_no_thoughts(marks, is_open, nothing):
    assert Manner(marks, is_open, is_sure=True).nothing == nothing


def test_a_prompt_that_ends_within_thoughts_has_them_begin_at_once():
    thoughts = thoughts_of(THINK, is_open=True)
    assert thoughts.is_thinking
    assert read(thoughts, ["They", " ask.", "\n", "</think>", "\n\n", "So."]) == "So."
    assert thoughts.text == "They ask.\n"
    assert thoughts.num_tokens == 5
    assert thoughts.most_tokens == 55


def test_an_answer_without_thoughts_is_left_as_it_is_written():
    thoughts = thoughts_of(THINK)
    assert (
        read(thoughts, ["  ", "<", "b> is a tag, and <think> one of R1's."])
        == "  <b> is a tag, and <think> one of R1's."
    )
    assert (thoughts.text, thoughts.num_tokens) == ("", 0)


def test_white_space_alone_is_an_answer_once_it_has_ended():
    thoughts = thoughts_of(THINK)
    assert read(thoughts, [" ", "<thi"]) == " <thi"


def test_what_could_become_the_mark_is_told_when_it_has_not():
    thoughts = thoughts_of(THINK, is_open=True)
    assert read(thoughts, ["a </", "thin"]) == ""
    assert thoughts.text == "a </thin"


def test_a_character_that_is_spread_over_tokens_stays_whole_in_thoughts_and_behind_them():
    thoughts = thoughts_of(THINK, is_open=True)
    pieces = [*(bytes([byte]) for byte in "é</think".encode()), b">\xe2\x80"]
    answer = b"".join(thoughts.feed(piece, piece) for piece in pieces)
    assert (thoughts.text, answer) == ("é", b"\xe2\x80")


def test_what_marks_an_answer_behind_thoughts_is_none_of_it():
    thoughts = thoughts_of(COMMAND)
    pieces = ["<|START_THINKING|>", "They ask.", "<|END_THINKING|>", "<|START_RESPONSE|>", "So", " it is."]
    assert read(thoughts, pieces) == "So it is."
    assert thoughts.text == "They ask."


@pytest.mark.parametrize(
    "pieces",
    [
        ["<think>", "They ask.", "</think>", "\n", "<response>", "\n", "So", " it is.", "</response>"],
        ["<think>They ask.</think>\n<resp", "onse>So", " it is.</resp", "onse>", "\n"],
        [*"<think>\nThey ask.</think><response>So it is.</response>"],
    ],
)
def test_marks_around_an_answer_are_none_of_it_however_they_are_cut(pieces):
    thoughts = thoughts_of(MARKED)
    assert read(thoughts, pieces) == "So it is."
    assert thoughts.text.strip() == "They ask."
    assert thoughts.answer_end == "</response>"


def test_tokens_of_the_mark_before_an_answer_are_none_of_it():
    thoughts = thoughts_of(MARKED, is_open=True)
    read(thoughts, ["Hm.", "</think>", "<resp", "onse>", "So", " it is."])
    assert (thoughts.num_tokens, thoughts.most_tokens) == (4, 54)
    thoughts = thoughts_of(MARKED, is_open=True)
    read(thoughts, ["Hm.", "</think>", "<resp", "onse>So", " it is."])
    assert thoughts.num_tokens == 3
    thoughts = thoughts_of(MARKED, is_open=True)
    read(thoughts, ["Hm.", "</think>", "<resp", "ect> it."])
    assert thoughts.num_tokens == 2


@pytest.mark.parametrize(
    ("pieces", "answer"),
    [
        (["<response>", "\n", "So it is.", "</response>"], "So it is."),
        (["So <response> it", " is </response>."], "So <response> it is </response>."),
        (["<think>", "</think>", "<respect> it", " is </response>."], "<respect> it is </response>."),
        (["<think>", "</think>", "<resp"], "<resp"),
    ],
)
def test_without_thoughts_only_what_an_answer_begins_with_is_its_mark(pieces, answer):
    assert read(thoughts_of(MARKED), pieces) == answer


def test_a_prompt_with_empty_thoughts_may_have_an_answer_in_marks_behind_it():
    assert MARKED is not None
    manner = manner_of(MARKED, "assistant\n<think>\n\n</think>\n", is_told=False)
    assert manner is not None
    assert (manner.is_sure, manner.nothing) == (False, "")
    thoughts = Thoughts(Thinking(manner, OPENING, ENDING, 100, 50, 1000))
    assert read(thoughts, ["<response>", "So it is.", "</response>"]) == "So it is."


def test_the_channels_of_gpt_oss():
    thoughts = thoughts_of(CHANNELS)
    analysis = ["<|channel|>", "analysis", "<|message|>", "They ask.", "<|end|>", "<|start|>", "assistant"]
    assert read(thoughts, [*analysis, "<|channel|>", "final", "<|message|>", "So", " it is."]) == "So it is."
    assert thoughts.text == "They ask."


def test_all_that_gpt_oss_says_before_its_answer_is_thought():
    thoughts = thoughts_of(CHANNELS)
    between = ["<|end|>", "<|start|>", "assistant", "<|channel|>"]
    comment = ["<|channel|>", "commentary", "<|message|>", "I will look.", *between]
    analysis = ["analysis", "<|message|>", " They ask.", *between, "final", "<|message|>", "So it is."]
    assert read(thoughts, [*comment, *analysis]) == "So it is."
    assert thoughts.text == "I will look. They ask."


def test_an_answer_of_gpt_oss_without_thoughts():
    thoughts = thoughts_of(CHANNELS)
    assert read(thoughts, ["<|channel|>", "final", "<|message|>", "So", " it is."]) == "So it is."
    assert thoughts.text == ""


def test_thoughts_that_go_on_too_long_are_ended():
    thoughts = thoughts_of(THINK, is_open=True, max_tokens=3)
    for piece in ("a", "b"):
        assert thoughts.next_due() is None
        thoughts.feed(piece.encode(), piece.encode())
    assert thoughts.next_due() is None
    thoughts.feed(b"c", b"c")
    assert [thoughts.next_due(), thoughts.next_due(), thoughts.next_due()] == [*ENDING, None]
    assert thoughts.feed(b"</think>", b"</think>") == b""
    assert not thoughts.is_thinking
    assert thoughts.feed(b"So.", b"So.") == b"So."
    assert thoughts.most_tokens == 54


def test_all_of_an_ending_is_said_also_behind_the_mark_in_it():
    thoughts = thoughts_of(THINK, is_open=True, max_tokens=0)
    assert thoughts.next_due() == ENDING[0]
    thoughts.feed(b"</think>", b"</think>")
    assert [thoughts.next_due(), thoughts.next_due()] == [ENDING[1], None]


def test_the_answer_gets_what_thoughts_have_left_of_the_room():
    thoughts = thoughts_of(THINK, is_open=True, room_tokens=30)
    read(thoughts, ["They", "</think>", "So."])
    assert thoughts.most_tokens == 30


def test_a_model_that_begins_by_itself_can_be_made_to():
    thinking = Thinking(Manner(THINK, is_open=False, is_sure=True), OPENING, ENDING, 9, 9, 99)
    thoughts = Thoughts(thinking, begins=True)
    assert [thoughts.next_due(), thoughts.next_due()] == [*OPENING, None]
    thoughts.feed(b"<think>", b"<think>")
    assert thoughts.is_thinking


def test_an_ending_that_is_not_read_as_one_ends_them_all_the_same():
    thoughts = thoughts_of(THINK, is_open=True, max_tokens=0)
    for _ in ENDING:
        assert thoughts.next_due() is not None
        thoughts.feed(b"?", b"?")
    assert not thoughts.is_thinking
    assert thoughts.next_due() is None


def test_nothing_is_put_in_the_mouth_of_a_model_that_has_ended_its_thoughts_itself():
    thoughts = thoughts_of(THINK, is_open=True, max_tokens=1)
    thoughts.feed(b"</think>", b"</think>")
    assert thoughts.next_due() is None


def test_a_model_that_ends_in_its_thoughts_has_to_answer():
    thoughts = thoughts_of(THINK, is_open=True)
    assert [thoughts.end(), thoughts.next_due(), thoughts.next_due()] == [*ENDING, None]


@pytest.mark.parametrize(
    ("template", "opening"),
    [
        ("{% if '</think>' in content %}{% set content = content.split('</think>')[-1] %}", "<think>"),
        ("[THINK]{{ m.thinking }}[/THINK]", "[THINK]"),
        ("<seed:think>{{ m.reasoning_content }}</seed:think>", "<seed:think>"),
        ("<|START_THINKING|>{{ m.plan }}<|END_THINKING|>", "<|START_THINKING|>"),
        ("<|start|>assistant<|channel|>final<|message|>", "<|channel|>analysis<|message|>"),
        ("{%- set parts = text.split('<channel|>') -%}", "<|channel>thought"),
    ],
)
def test_families_are_known_by_their_templates(template: str, opening: str):
    marks = marks_of(template)
    assert marks is not None
    assert marks.openings[0] == opening


def test_most_models_do_not_think():
    assert marks_of("{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>{% endfor %}") is None


@pytest.mark.parametrize(
    ("prompt_end", "manner"),
    [
        ("<|im_start|>assistant\n<think>\n", Manner(THINK, is_open=True, is_sure=True)),
        ("<|im_start|>assistant\n", Manner(THINK, is_open=False, is_sure=False)),
        ("<|im_start|>assistant\n<think>\n\n</think>\n\n", None),
        ("<｜Assistant｜></think>", None),
    ],
)
def test_how_a_prompt_has_a_model_begin(prompt_end: str, manner: Manner | None):
    assert manner_of(THINK, prompt_end, is_told=False) == manner


def test_a_model_that_was_told_to_think_will():
    told = manner_of(THINK, "<|im_start|>assistant\n", is_told=True)
    assert told is not None
    assert told.is_sure
