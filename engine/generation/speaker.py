"""Renders and tokenises prompts for one model: its chat template, its tokens, and the size of its context.

Every part of a prompt is tokenised by itself and once: a passage's tokens do not depend on its surroundings, so its KV
can be found again in another prompt, and counts of tokens simply add up.
"""

from __future__ import annotations

import hashlib
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from itertools import chain

from engine.generation.chat_template import (
    PLAIN_ENDS,
    ChatTemplate,
    Message,
    PromptPart,
    TemplateBroken,
    plain_prompt,
)
from engine.generation.model import Model
from engine.generation.segment import Segment
from engine.generation.streaming import TextStream
from engine.generation.thinking import Manner, Thinking
from engine.generation.word_spaces import spaced

Tokenize = Callable[[str, bool], Sequence[int]]
# Enough for the passages of an afternoon of use; at most about 40 KB each.
CACHED_TEXTS = 1024
# The total, because texts of other applications may be much longer. With their tokens it is ten times as much memory.
CACHED_CHARACTERS = 4 * 2**20
# For turns of conversations, each with its passages and without. Their lengths are added up for every prompt, from the
# first turn on, including those that were left out long ago.
CACHED_TURNS = 2048


class _Known:
    """A cache of the tokens of recent texts, bounded in number and length. For any thread."""

    def __init__(self, tokenize: Tokenize) -> None:
        self._tokenize = tokenize
        self._lock = threading.Lock()
        self._tokens: OrderedDict[tuple[str, bool], tuple[int, ...]] = OrderedDict()
        self._num_characters = 0

    def __call__(self, text: str, is_markup: bool) -> tuple[int, ...]:
        asked = text, is_markup
        with self._lock:
            if (known := self._tokens.get(asked)) is not None:
                self._tokens.move_to_end(asked)
                return known
        tokens = tuple(self._tokenize(text, is_markup))
        with self._lock:
            if asked not in self._tokens and len(text) <= CACHED_CHARACTERS:
                self._tokens[asked] = tokens
                self._num_characters += len(text)
            while len(self._tokens) > CACHED_TEXTS or self._num_characters > CACHED_CHARACTERS:
                (left, _), _ = self._tokens.popitem(last=False)
                self._num_characters -= len(left)
        return tokens


class _Lengths:
    """A cache of the lengths of recent turns, by digests instead of texts, which may be long. For any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._lengths: OrderedDict[bytes, int] = OrderedDict()

    def find(self, turn: bytes) -> int | None:
        with self._lock:
            if turn in self._lengths:
                self._lengths.move_to_end(turn)
            return self._lengths.get(turn)

    def note(self, turn: bytes, num_tokens: int) -> None:
        with self._lock:
            self._lengths[turn] = num_tokens
            while len(self._lengths) > CACHED_TURNS:
                self._lengths.popitem(last=False)


@dataclass(frozen=True, slots=True)
class Speaker:
    """Renders and tokenises prompts for one model; `name` is the user's name for the model.

    `tokenize` gets the text and whether control tokens count as such. `context_tokens` is the room for one prompt and
    its answer. `fingerprint` identifies the model whose tokens these are ("" for none). `bos` begins every prompt, if
    given. With `is_to_think`, models that can be asked to think before they answer are asked to. Thoughts stay in
    conversations if it `keeps_thoughts`, because a model that keeps whole sequences would otherwise read everything
    again. `piece` returns the bytes of a token. `is_control` says whether a token is a control token; it is given if
    the tokenizer puts a space before the first word of a text (word_spaces.py).
    """

    template: ChatTemplate | None
    tokenize: Tokenize
    context_tokens: int
    fingerprint: str = ""
    bos: int | None = None
    vocabulary_size: int = 0
    name: str = ""
    is_to_think: bool = False
    keeps_thoughts: bool = False
    piece: Callable[[int], bytes] | None = None
    is_control: Callable[[int], bool] | None = None
    _tokens_of_text: Callable[[str, bool], tuple[int, ...]] = field(init=False, repr=False)
    _segment_of: Callable[[PromptPart], Segment] = field(init=False, repr=False)
    _added: _Lengths = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_tokens_of_text", _Known(self.tokenize))
        # Code that cuts prompts recognises identical segment objects (cut_prompts.py), and does not hash them again.
        made = lru_cache(maxsize=CACHED_TEXTS)(lambda part: Segment(self.tokens(part), part.kind, part.documents))
        object.__setattr__(self, "_segment_of", made)
        object.__setattr__(self, "_added", _Lengths())

    @property
    def tells_day(self) -> bool:
        """Whether its template names a day, which is not today, so that the question has to name the actual day."""
        return self.template is not None and self.template.tells_day

    @property
    def signature(self) -> str:
        """Identifies its own answers; those that it was asked to think about follow a different end of the prompt.

        The same, however, if that end opens no thoughts and none are kept, because answers without thoughts could have
        followed it as well.
        """
        manner = self._manner if self.is_to_think else None
        if manner is None or not (self.template is not None and self.template.ends_by_thinking):
            return self.fingerprint
        is_other = manner.is_open or self.keeps_thoughts
        return f"{self.fingerprint} thinking" if self.fingerprint and is_other else self.fingerprint

    @property
    def thinks(self) -> bool:
        """Whether the model is known to think before it answers; others may."""
        return self._manner is not None and self._manner.is_sure

    def told(self, is_to_think: bool) -> Speaker:
        """Returns a speaker for questions that the model is or is not to think about, if it can be asked to."""
        if is_to_think == self.is_to_think:
            return self
        other = replace(self, is_to_think=is_to_think)
        # Both share the caches, because tokens are the same.
        for name in ("_tokens_of_text", "_segment_of", "_added"):
            object.__setattr__(other, name, getattr(self, name))
        return other

    def thinking(self, max_tokens: int, answer_tokens: int, room_tokens: int) -> Thinking | None:
        """Returns how it thinks before an answer, with limits in tokens for both, within `room_tokens`.

        None if it does not think. If there is no room for both, thoughts get half of it.
        """
        manner = self._manner
        if manner is None:
            return None
        opening, ending = (
            self.tokens(PromptPart(text, is_markup=True)) for text in (manner.marks.openings[0], manner.marks.ending)
        )
        most = max(room_tokens // 2, room_tokens - answer_tokens) - len(ending)
        bound = max(0, min(max_tokens, most))
        return Thinking(manner, opening, ending, bound, answer_tokens, room_tokens, self.keeps_thoughts)

    def without_thoughts(self, *, answers_at_once: bool) -> str:
        """Returns what has to follow a prompt so that the model answers without thinking (any more).

        "" if its template has that already, or if the model `answers_at_once` as it may by itself.
        """
        manner = self._manner
        if manner is None or (answers_at_once and not manner.is_open):
            return ""
        return manner.nothing

    @property
    def ends_of_answers(self) -> tuple[str, ...]:
        """The markers that may end its answers, if the model has begun them with one."""
        manner = self._manner
        return (manner.marks.around[1],) if manner is not None and manner.marks.around[1] else ()

    @property
    def _manner(self) -> Manner | None:
        return self.template.manner(self.is_to_think) if self.template is not None else None

    def render(self, messages: Sequence[Message]) -> tuple[PromptPart, ...]:
        """Renders the prompt; as plain text if the model's template cannot render it."""
        return self._spaced(self._rendered(messages) or plain_prompt(messages))

    def ends_of_plain(self, messages: Sequence[Message]) -> tuple[str, ...]:
        """Returns the stop strings of answers to these messages, if no marker ends them: the start of the next one."""
        return PLAIN_ENDS if self._rendered(messages) is None else ()

    def _rendered(self, messages: Sequence[Message]) -> tuple[PromptPart, ...] | None:
        """Renders the prompt by the model's template; returns None if it has none, or it fails."""
        if self.template is None:
            return None
        try:
            return self.template.render(messages, self.is_to_think)
        except TemplateBroken:
            return None

    def _spaced(self, parts: Sequence[PromptPart]) -> tuple[PromptPart, ...]:
        return tuple(parts) if self.is_control is None else tuple(spaced(parts, self.tokens, self.is_control))

    def tokens(self, part: PromptPart) -> tuple[int, ...]:
        """Returns the part's own tokens, or those of its text."""
        return part.tokens or self._tokens_of_text(part.text, part.is_markup)

    def tokens_as_they_stand(self, text: str) -> tuple[int, ...]:
        """Tokenises a whole raw prompt with its markup, which may be as long as the context, and is not cached."""
        tokens = tuple(self.tokenize(text, True))
        if self.is_control is not None and tokens and not self.is_control(tokens[0]):
            tokens = tuple(self.tokenize(f" {text}", True))
        return self._begun(tokens)

    def count(self, parts: Iterable[PromptPart]) -> int:
        """Returns the number of tokens of these parts."""
        return sum(len(self.tokens(part)) for part in parts)

    def added(self, messages: tuple[Message, ...]) -> int:
        """Returns how many tokens a turn adds to a prompt, including the markup around it."""
        asked = _digest(messages, self.is_to_think)
        if (known := self._added.find(asked)) is not None:
            return known
        once, twice = (self.count(self.render(times * messages)) for times in (1, 2))
        self._added.note(asked, twice - once)
        return twice - once

    def knows(self, tokens: Sequence[int], signature: str) -> bool:
        """Returns whether these are tokens of this model, written after prompts like its present ones."""
        is_ours = signature == self.signature != ""
        return is_ours and all(0 <= token < self.vocabulary_size for token in tokens)

    def text_of(self, part: PromptPart) -> str:
        """Returns the text of an answer, without an incomplete character at its end."""
        if not part.tokens or self.piece is None:
            return part.text
        return TextStream().go_on_behind(map(self.piece, part.tokens))

    def segment(self, part: PromptPart) -> Segment:
        """Returns the segment of a part that stands alone."""
        return self._segment_of(part)

    def segments(self, parts: Sequence[PromptPart]) -> tuple[Segment, ...]:
        """Returns the parts as segments: passages and answers by themselves, and whatever is between them as one."""
        segments = [
            Segment(tuple(chain.from_iterable(map(self.tokens, group))), group[0].kind, group[0].documents)
            for group in _grouped(parts)
        ]
        if segments:
            first = segments[0]
            segments[0] = Segment(self._begun(first.tokens), first.kind, first.documents)
        return tuple(segment for segment in segments if segment.tokens)

    def _begun(self, tokens: tuple[int, ...]) -> tuple[int, ...]:
        """Returns the tokens with the model's beginning-of-text token, if there is one and it is missing."""
        return tokens if self.bos is None or tokens[:1] == (self.bos,) else (self.bos, *tokens)


def speaker_of(model: Model, name: str, fingerprint: str, context_tokens: int) -> Speaker:
    """Makes the speaker of a loaded model; call and use it on the thread that owns llama.cpp."""
    return Speaker(
        template=_template(model),
        tokenize=model.tokenize,
        context_tokens=context_tokens,
        fingerprint=fingerprint,
        bos=model.bos if model.adds_bos else None,
        vocabulary_size=model.num_tokens,
        name=name,
        keeps_thoughts=not model.can_share_prefixes,
        piece=model.piece,
        is_control=model.is_control if model.adds_space else None,
    )


def _template(model: Model) -> ChatTemplate | None:
    """Returns the file's own template, or None if there is no usable one."""
    source = model.chat_template
    if not source:
        return None
    try:
        return ChatTemplate(source, model.bos_text, model.eos_text)
    except TemplateBroken:
        return None


def _digest(messages: Iterable[Message], thinks: bool) -> bytes:
    """Returns a digest that differs wherever the number of tokens may differ."""
    told = hashlib.blake2b(bytes([thinks]), digest_size=16)
    for message in messages:
        for part in message.parts:
            how = f"{message.role} {part.is_markup} {part.stands_alone} {len(part.text)} {part.tokens}\n"
            told.update(how.encode() + part.text.encode("utf-8", "surrogatepass"))
    return told.digest()


def _grouped(parts: Iterable[PromptPart]) -> Iterator[list[PromptPart]]:
    group: list[PromptPart] = []
    for part in parts:
        if group and (part.stands_alone or group[-1].stands_alone or part.kind != group[-1].kind):
            yield group
            group = []
        group.append(part)
    if group:
        yield group
