"""Tests for engine.generation.speaker."""

from __future__ import annotations

import pytest

from engine.generation.chat_template import ChatTemplate, Message, PromptPart
from engine.generation.speaker import Speaker
from tests.helpers.tiny_gguf import CHATML

# As DeepSeek's: prompts end within thoughts, or behind none.
ENDS_WITHIN = CHATML.replace(
    "assistant\n{% endif %}", "assistant\n{% if thinking %}<think>{% else %}</think>{% endif %}{% endif %}"
)
# As Qwen3's: thoughts are over, or the model begins them.
BEGINS_ITSELF = CHATML.replace(
    "assistant\n{% endif %}",
    "assistant\n{% if not enable_thinking %}<think>\n\n</think>\n\n{% endif %}{% endif %}",
)


@pytest.mark.parametrize(
    ("template", "keeps_thoughts", "is_known"),
    [(ENDS_WITHIN, False, False), (BEGINS_ITSELF, False, True), (BEGINS_ITSELF, True, False), (CHATML, True, True)],
)
def test_an_answer_is_read_in_words_where_it_would_stand_behind_another_end(
    template: str, keeps_thoughts: bool, is_known: bool
):
    speaker = Speaker(
        ChatTemplate(template, "<s>", "</s>"), lambda *_: [1], 64, "m", vocabulary_size=9, keeps_thoughts=keeps_thoughts
    )
    at_once, thinking = speaker.told(False), speaker.told(True)
    assert at_once.knows((1, 2), at_once.signature)
    assert thinking.knows((1, 2), thinking.signature)
    assert thinking.knows((1, 2), at_once.signature) == is_known
    assert at_once.knows((1, 2), thinking.signature) == is_known
    assert not speaker.knows((1, 2), "other")
    assert not speaker.knows((1, 9), speaker.signature)


def test_tokens_are_known_of_what_was_asked_for_last_and_long_texts_do_not_add_up(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("engine.generation.speaker.CACHED_CHARACTERS", 1000)
    asked: list[str] = []

    def tokenize(text: str, is_markup: bool) -> list[int]:
        asked.append(text)
        return [len(text)]

    speaker = Speaker(None, tokenize, 4096)
    short, long, longer = "a" * 10, "b" * 500, "c" * 600

    def read(*texts: str) -> list[str]:
        """Those of them whose tokens were not known."""
        asked.clear()
        assert [speaker.tokens(PromptPart(text)) for text in texts] == [(len(text),) for text in texts]
        return list(asked)

    assert read(short, long, short, long, short) == [short, long]
    assert read(longer, short) == [longer]
    assert read(long, short) == [long]
    # One that has no room at all leaves the others theirs.
    whole = "d" * 1001
    assert read(whole, whole, long, short) == [whole, whole]
    assert speaker.told(True).tokens(PromptPart(short)) == (10,)
    assert asked == [whole, whole]


def test_only_behind_a_plain_prompt_the_next_question_ends_an_answer():
    asked = [Message("system", (PromptPart("Be brief."),)), Message("user", (PromptPart("Question: why?"),))]
    refuses = ChatTemplate("{{ raise_exception('nobody') }}", "", "")
    ends = [Speaker(template, lambda *_: [1], 64).ends_of_plain(asked) for template in (None, refuses)]
    assert ends[0] == ends[1]
    assert "\n\nQuestion:" in ends[0]
    assert Speaker(ChatTemplate(CHATML, "", ""), lambda *_: [1], 64).ends_of_plain(asked) == ()


def test_what_a_turn_adds_is_counted_once():
    asked: list[str] = []

    def tokenize(text: str, is_markup: bool) -> list[int]:
        asked.append(text)
        return [1] * len(text)

    speaker = Speaker(ChatTemplate(BEGINS_ITSELF, "", ""), tokenize, 4096)
    turns = [(Message("user", (PromptPart(f"why {number}?"),)),) for number in range(1500)]
    lengths = [speaker.added(turn) for turn in turns]
    assert lengths[0] == len("<|im_start|>user\nwhy 0?<|im_end|>\n")
    asked.clear()
    assert [speaker.added(turn) for turn in turns] == lengths
    assert not asked
    assert speaker.told(True).added(turns[0]) == lengths[0]
