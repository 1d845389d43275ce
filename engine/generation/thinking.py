"""Separates a model's thoughts from its answer: how model families mark them, where they end, and how they are limited.

R1, QwQ, the thinking variants of Qwen3, Magistral or gpt-oss write their reasoning first, often longer than the answer.
Thoughts are not part of the answer: they are kept apart, have their own limit, and later turns do not read them, as
these models' own templates do. If the limit is reached, or a model ends before it has answered, the marker that ends
thoughts is inserted; then the model answers from its thoughts so far ("budget forcing" of s1, arXiv 2501.19393).
"""

from __future__ import annotations

import codecs
from collections import deque
from dataclasses import dataclass, replace

from engine.generation.streaming import possible_beginning


@dataclass(frozen=True, slots=True)
class Marks:
    """The markers before and after thoughts. `plain` is what an answer without thoughts begins with, if anything.

    `ending` is inserted to end thoughts that the model would continue. `between` are markers within thoughts, which are
    not part of them. `around` are the markers before and after an answer, "" if there are none.
    """

    openings: tuple[str, ...]
    closing: str
    ending: str
    plain: str = ""
    between: tuple[str, ...] = ()
    around: tuple[str, str] = ("", "")

    @property
    def sign(self) -> str:
        """The text that identifies templates of the family."""
        return self.plain or self.closing


_FAMILIES = (
    *(
        Marks((f"<{name}>",), f"</{name}>", f"\n</{name}>\n\n")
        for name in ("think", "thinking", "thought", "seed:think")
    ),
    Marks(("[THINK]",), "[/THINK]", "[/THINK]"),
    # Gemma 4.
    Marks(("<|channel>thought",), "<channel|>", "<channel|>"),
    # Command A Reasoning.
    Marks(("<|START_THINKING|>",), "<|END_THINKING|>", "<|END_THINKING|><|START_RESPONSE|>"),
    # gpt-oss writes messages to several channels, of which the last is for users.
    Marks(
        ("<|channel|>analysis<|message|>", "<|channel|>commentary<|message|>"),
        "<|start|>assistant<|channel|>final<|message|>",
        "<|end|><|start|>assistant<|channel|>final<|message|>",
        "<|channel|>final<|message|>",
        ("<|end|>", "<|start|>assistant", "<|channel|>analysis", "<|channel|>commentary", "<|message|>"),
    ),
)

# Granite and Hunyuan mark their answers as well.
_AROUND_ANSWERS = tuple((f"<{name}>", f"</{name}>") for name in ("response", "answer"))


@dataclass(frozen=True, slots=True)
class Manner:
    """How a model begins to think: after a prompt that ends within thoughts (`is_open`), or by itself.

    Only a model that `is_sure` is known to think; others merely have a template of such models. If it `is_over`,
    prompts end with empty thoughts.
    """

    marks: Marks
    is_open: bool
    is_sure: bool
    is_over: bool = False

    @property
    def nothing(self) -> str:
        """The text between a prompt and an answer without thoughts."""
        if self.is_over:
            return ""
        ending = self.marks.ending
        return ending if self.is_open else self.marks.plain or self.marks.openings[0] + ending


@dataclass(frozen=True, slots=True)
class Thinking:
    """How a model thinks before one answer: `max_tokens` of thoughts and `answer_tokens`, within `room_tokens` in all.

    `ending` are the tokens that end thoughts at the limit, `opening` those that begin them. Thoughts that `are_kept`
    stay in the conversation.
    """

    manner: Manner
    opening: tuple[int, ...]
    ending: tuple[int, ...]
    max_tokens: int
    answer_tokens: int
    room_tokens: int
    are_kept: bool = False

    @property
    def most_tokens(self) -> int:
        """The most tokens of thoughts and answer together."""
        return min(self.room_tokens, self.max_tokens + len(self.ending) + self.answer_tokens)


def marks_of(template: str) -> Marks | None:
    """Returns the markers of the template's family; None if its models do not think."""
    marks = next((marks for marks in _FAMILIES if marks.sign in template), None)
    around = next((around for around in _AROUND_ANSWERS if around[0] in template), None)
    return marks if marks is None or around is None else replace(marks, around=around)


def manner_of(marks: Marks, prompt_end: str, is_told: bool) -> Manner | None:
    """Returns how a model thinks after a prompt with this end; None after empty thoughts, unless answers have markers.

    `is_told`: the template has asked the model to think.
    """
    opened, closed = max(map(prompt_end.rfind, marks.openings)), prompt_end.rfind(marks.closing)
    is_open = opened > closed
    if closed > opened:
        return Manner(marks, is_open=False, is_sure=False, is_over=True) if marks.around[0] else None
    return Manner(marks, is_open, is_open or is_told or bool(marks.plain))


class Thoughts:
    """The thoughts before one answer, while they are written; fed with tokens until the answer has begun.

    `num_tokens` were written before the answer. `text` has all thoughts so far, `take` returns new ones. `answer_end`
    is the marker that ends the answer, once it has begun with a marker.
    """

    def __init__(self, thinking: Thinking, *, begins: bool = False) -> None:
        """Starts before the first token; if it `begins`, the model has to think, whatever it would write first."""
        self._thinking, self._marks = thinking, thinking.manner.marks
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        # Text that could still become a marker, and its bytes in case it does not.
        self._held, self._plain = "", b""
        # The start of the answer that could still become the marker before it, and its number of tokens.
        self._beginning, self._num_held = b"", 0
        self._untold: list[str] = []
        self._due = deque[int](thinking.opening if begins and not thinking.manner.is_open else ())
        self._is_decided = self.is_thinking = thinking.manner.is_open
        self._is_ending = self.has_begun_answer = False
        self.num_tokens = 0
        self.text = self.answer_end = ""
        self._bound()

    @property
    def most_tokens(self) -> int:
        """The most tokens of thoughts and answer together; fewer, once the answer has begun before the limit."""
        if not self.has_begun_answer:
            return self._thinking.most_tokens
        return min(self._thinking.room_tokens, self.num_tokens + self._thinking.answer_tokens)

    @property
    def leave_no_trace(self) -> bool:
        """Whether there are thoughts that later turns do not read."""
        return self.num_tokens > 0 and not self._thinking.are_kept

    def next_due(self) -> int | None:
        """Returns the token that must come next, whatever the model would write; None if the model chooses."""
        return self._due.popleft() if self._due else None

    def end(self) -> int:
        """Returns the token that replaces the model's end, because it has stopped before it answered."""
        self._put_ending()
        return self._due.popleft()

    def feed(self, marked: bytes, piece: bytes) -> bytes:
        """Takes in a token's bytes, with and without control tokens written out; returns what belongs to the answer."""
        self.num_tokens += 1
        if self._is_decided and not self.is_thinking:
            return self._answer(piece)
        self._held += self._decoder.decode(marked)
        self._plain += piece
        if not self._is_decided:
            self._decide()
        if self.is_thinking:
            self._think()
            self._bound()
        if self.is_thinking or not self._is_decided:
            return b""
        if not self.num_tokens:
            self.has_begun_answer = True
            return self._plain
        return self._answer(self._held.encode() + self._decoder.getstate()[0])

    def take(self) -> str:
        """Returns new thoughts since the last call, as far as they can no longer become a marker."""
        new = "".join(self._untold)
        self._untold.clear()
        return new

    def finish(self) -> bytes:
        """Returns what was held back of the answer, when no more tokens follow."""
        if self.is_thinking:
            self._tell(self._held)
            self._held = ""
            return b""
        return self._beginning if self._is_decided else self._plain

    def _decide(self) -> None:
        """Decides whether the model begins to think; white space alone decides nothing."""
        begun, before_answer = self._held.lstrip(), tuple(filter(None, (self._marks.plain, self._marks.around[0])))
        marks = (*self._marks.openings, *before_answer)
        for mark in marks:
            if begun.startswith(mark):
                self._is_decided, self.is_thinking = True, mark not in before_answer
                # The marker before an answer is removed in `_answer`.
                self._held = begun if mark == self._marks.around[0] else begun.removeprefix(mark)
                return
        if not any(mark.startswith(begun) for mark in marks):
            # There are no thoughts.
            self._is_decided, self.num_tokens = True, 0

    def _think(self) -> None:
        before, closing, after = self._held.partition(self._marks.closing)
        if closing or (self._is_ending and not self._due):
            self._tell(before)
            self._held, self.is_thinking = after, False
            return
        length = len(before) - possible_beginning(before, (self._marks.closing, *self._marks.between))
        self._tell(before[:length])
        self._held = before[length:]

    def _tell(self, text: str) -> None:
        for mark in self._marks.between:
            text = text.replace(mark, "")
        text = text if self.text else text.lstrip()
        self.text += text
        self._untold.append(text)

    def _bound(self) -> None:
        if self.is_thinking and self.num_tokens >= self._thinking.max_tokens and not self._is_ending:
            self._put_ending()

    def _put_ending(self) -> None:
        self._is_ending = True
        self._due.extend(self._thinking.ending)

    def _answer(self, piece: bytes) -> bytes:
        """Returns bytes of the answer after thoughts, without leading white space and without a marker before it."""
        begun, mark = (self._beginning + piece).lstrip(), self._marks.around[0].encode()
        self._beginning, self._num_held = b"", self._num_held + bool(begun)
        if mark and not self.answer_end:
            if begun.startswith(mark):
                self.answer_end, begun = self._marks.around[1], begun.removeprefix(mark).lstrip()
                self._num_held = int(bool(begun))
            elif begun and mark.startswith(begun):
                self._beginning = begun
                return b""
        if begun:
            self.has_begun_answer = True
            self.num_tokens -= self._num_held
        return begun
