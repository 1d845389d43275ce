"""What a model thinks before it answers: how families of models mark it, where it ends, and when it has been enough.

R1, QwQ, the thinking ones of Qwen3, Magistral or gpt-oss reason aloud first, often longer than they answer. That is no
part of the answer: it is told apart from it, has a bound of its own, and no later turn reads it again, as these models'
own templates have it. Where the bound is reached, or a model ends before it has answered, the mark that ends thoughts
is put in its mouth; then it answers from what it has thought so far ("budget forcing" of s1, arXiv 2501.19393).
"""

from __future__ import annotations

import codecs
from collections import deque
from dataclasses import dataclass

from engine.generation.streaming import possible_beginning


@dataclass(frozen=True, slots=True)
class Marks:
    """What stands before thoughts and after them. `plain` is what an answer without thoughts begins with, if anything.

    `ending` is what ends thoughts that the model would go on with.
    """

    opening: str
    closing: str
    ending: str
    plain: str = ""

    @property
    def sign(self) -> str:
        """What the templates of the family speak of."""
        return self.plain or self.closing


_FAMILIES = (
    *(Marks(f"<{name}>", f"</{name}>", f"\n</{name}>\n\n") for name in ("think", "thinking", "thought", "seed:think")),
    Marks("[THINK]", "[/THINK]", "[/THINK]"),
    Marks("<|START_THINKING|>", "<|END_THINKING|>", "<|END_THINKING|><|START_RESPONSE|>"),
    # gpt-oss: messages to several channels, of which the last is for people.
    Marks(
        "<|channel|>analysis<|message|>",
        "<|start|>assistant<|channel|>final<|message|>",
        "<|end|><|start|>assistant<|channel|>final<|message|>",
        "<|channel|>final<|message|>",
    ),
)
# Between messages of channels, none of what was thought.
_BETWEEN = "<|end|>"


@dataclass(frozen=True, slots=True)
class Manner:
    """How a model begins to think: `is_open`, where its prompts end within thoughts, or by itself, if it likes."""

    marks: Marks
    is_open: bool


@dataclass(frozen=True, slots=True)
class Thinking:
    """How a model thinks before one answer, for `max_tokens` at most; `ending` are tokens that end thoughts then."""

    manner: Manner
    ending: tuple[int, ...]
    max_tokens: int

    @property
    def most_tokens(self) -> int:
        """All that may be written before the answer."""
        return self.max_tokens + len(self.ending)


def marks_of(template: str) -> Marks | None:
    """Those of the family whose template this is; None where its models do not think."""
    return next((marks for marks in _FAMILIES if marks.sign in template), None)


def manner_of(marks: Marks, prompt_end: str) -> Manner | None:
    """How it thinks behind a prompt with this end; None where that holds empty thoughts, and keeps it from thinking."""
    opened, closed = prompt_end.rfind(marks.opening), prompt_end.rfind(marks.closing)
    return None if closed > opened else Manner(marks, opened > closed)


class Thoughts:
    """Those before one answer, while they are written; fed with its tokens until it has begun.

    `num_tokens` were written before the answer. `text` is all that was thought so far, `take` what is new of it.
    """

    def __init__(self, thinking: Thinking) -> None:
        self._thinking, self._marks = thinking, thinking.manner.marks
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        # What could still become a mark, and the bytes that it is otherwise.
        self._held, self._plain = "", b""
        self._untold: list[str] = []
        self._due = deque[int]()
        self._is_decided = self.is_thinking = thinking.manner.is_open
        self._is_ending = self.has_begun_answer = False
        self.num_tokens = 0
        self.text = ""
        self._bound()

    @property
    def spare_tokens(self) -> int:
        """What was not needed of all that may be written before the answer; once that has begun."""
        return self._thinking.most_tokens - self.num_tokens

    def next_due(self) -> int | None:
        """The token that is to come next, whatever the model would say; None where that is its choice."""
        return self._due.popleft() if self._due else None

    def end(self) -> int:
        """The model has had enough without a word of an answer: the token that comes instead of its end."""
        self._put_ending()
        return self._due.popleft()

    def feed(self, marked: bytes, piece: bytes) -> bytes:
        """What of a token belongs to the answer, given its bytes with and without control tokens written out."""
        self.num_tokens += 1
        self._held += self._decoder.decode(marked)
        self._plain += piece
        if not self._is_decided:
            self._decide()
        if not self._is_decided:
            return b""
        if self.is_thinking:
            self._think()
            self._bound()
        return b"" if self.is_thinking else self._answer()

    def take(self) -> str:
        """What has been thought since the last time, as far as it can no longer become a mark."""
        new = "".join(self._untold)
        self._untold.clear()
        return new

    def finish(self) -> bytes:
        """No more tokens come: what was held back of the answer, where it was no thought."""
        if self.is_thinking:
            self._tell(self._held)
            self._held = ""
            return b""
        return b"" if self._is_decided else self._plain

    def _decide(self) -> None:
        """Whether the model begins to think; white space alone tells nothing."""
        begun = self._held.lstrip()
        for mark in (self._marks.opening, self._marks.plain):
            if mark and begun.startswith(mark):
                self._is_decided, self.is_thinking = True, mark == self._marks.opening
                self._held = begun.removeprefix(mark)
                return
            if mark and mark.startswith(begun):
                return
        self._is_decided, self.num_tokens = True, 0

    def _think(self) -> None:
        before, closing, after = self._held.partition(self._marks.closing)
        if closing or (self._is_ending and not self._due):
            self._tell(before)
            self._held, self.is_thinking = after, False
            self._due.clear()
            return
        length = len(before) - possible_beginning(before, (self._marks.closing, _BETWEEN))
        self._tell(before[:length])
        self._held = before[length:]

    def _tell(self, text: str) -> None:
        text = text.replace(_BETWEEN, "")
        text = text if self.text else text.lstrip()
        self.text += text
        self._untold.append(text)

    def _bound(self) -> None:
        if self.is_thinking and self.num_tokens >= self._thinking.max_tokens and not self._is_ending:
            self._put_ending()

    def _put_ending(self) -> None:
        self._is_ending = True
        self._due.extend(self._thinking.ending)

    def _answer(self) -> bytes:
        """The answer begins with its first word; what the model said without thinking is left as it is."""
        text, self._held = self._held, ""
        if not self.num_tokens:
            self.has_begun_answer = True
            return self._plain
        text = text.lstrip()
        self.has_begun_answer = bool(text)
        return text.encode()
