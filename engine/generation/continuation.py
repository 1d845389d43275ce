"""Continuation: an answer that is being written gets further passages to read, as a further turn of the conversation.

A chat template knows no other way for text to come between what a model writes: the assistant's turn ends, the user
brings the passages with one sentence, and the assistant begins again. As nothing before it changes, the next question's
prompt begins with exactly these tokens, and their KV is found again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import resources
from engine.generation.chat_template import Message, PromptPart
from engine.generation.conversation import answering, going_on
from engine.generation.evidence import EvidencePassage
from engine.generation.prompt import Prompt, fitting_passages
from engine.generation.segment import Segment
from engine.generation.speaker import Speaker


@dataclass(frozen=True, slots=True)
class Reading:
    """All that a model has read up to where it writes, as messages and as segments, and the next passage's number."""

    messages: tuple[Message, ...]
    segments: tuple[Segment, ...]
    next_number: int

    @classmethod
    def of(cls, prompt: Prompt) -> Reading:
        return cls(prompt.messages, prompt.segments, prompt.first_number + len(prompt.passages))

    @property
    def num_tokens(self) -> int:
        return sum(len(segment.tokens) for segment in self.segments)


@dataclass(frozen=True, slots=True)
class Addition:
    """What a model reads next: `segments` with the `passages`; `reading` is all that it has read by then."""

    passages: tuple[EvidencePassage, ...]
    words: str
    segments: tuple[Segment, ...]
    reading: Reading

    @property
    def num_tokens(self) -> int:
        return sum(len(segment.tokens) for segment in self.segments)


def can_go_on(reading: Reading, speaker: Speaker) -> bool:
    """Returns whether the model's template can express that more passages come; it may leave out earlier messages."""
    text = "."
    return _continued(reading, text, speaker.tokens(PromptPart(text)), (), _words(), speaker) is not None


def addition(
    reading: Reading,
    text: str,
    tokens: tuple[int, ...],
    passages: Sequence[EvidencePassage],
    speaker: Speaker,
    max_tokens: int,
) -> Addition | None:
    """Returns what to read, at most `max_tokens` tokens, the last passage cut to fit; None if not even one fits.

    Args:
        reading: What was read before `text` was written.
        text: What was written since.
        tokens: The same as the model wrote it.
        passages: Best first.
        speaker: The model that writes.
        max_tokens: Including the markup of both turns and the sentence.
    """
    words = _words()
    bare = _continued(reading, text, tokens, (), words, speaker)
    if bare is None or not tokens:
        return None
    fitting = fitting_passages(passages, max_tokens - bare.num_tokens, speaker, reading.next_number)
    return _continued(reading, text, tokens, fitting, words, speaker) if fitting else None


def _words() -> str:
    return resources.text("prompts/go_on.txt").strip()


def _continued(
    reading: Reading,
    text: str,
    tokens: tuple[int, ...],
    passages: tuple[EvidencePassage, ...],
    words: str,
    speaker: Speaker,
) -> Addition | None:
    asked = going_on(words, passages, reading.next_number)
    messages = (*reading.messages, answering(text, tokens), asked)
    segments = speaker.segments(speaker.render(messages))
    num_before = len(reading.segments)
    written = [segment.tokens for segment in segments[num_before : num_before + 1]]
    if segments[:num_before] != reading.segments or written != [tokens]:
        return None
    after = Reading(messages, segments, reading.next_number + len(passages))
    return Addition(passages, words, segments[num_before + 1 :], after)
