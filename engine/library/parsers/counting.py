"""Counting: how many tokens the embedder makes of a text, each word tokenized once and then counted from memory.

The chunker asks for every paragraph and for many a part of one. A tokenizer that splits at white space before all
else makes the same tokens of a word wherever it stands, so those of a text are the sum of its words'.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from itertools import filterfalse

from tokenizers import Tokenizer
from tokenizers.models import WordPiece
from tokenizers.normalizers import BertNormalizer
from tokenizers.pre_tokenizers import BertPreTokenizer

# White space that BERT's normaliser takes for that; others it drops as control characters, or knows under other names.
_WORD = re.compile(r"[^ \t\n\r]+")
_MAX_WORDS_KEPT = 100_000
# Longer ones (base64, scripts without spaces) hardly come twice.
_MAX_CHARACTERS_KEPT = 100


def counter(tokenizer: Tokenizer) -> Callable[[str], int]:
    """Counts tokens without special ones, by words where the tokenizer allows it."""
    tokenizer.no_truncation()
    tokenizer.no_padding()
    if is_by_words(tokenizer):
        return WordCounter(tokenizer)
    # The batch form leaves out the offsets, which nobody asked for.
    return lambda text: len(tokenizer.encode_batch_fast([text], add_special_tokens=False)[0])


def is_by_words(tokenizer: Tokenizer) -> bool:
    """Whether a text's tokens are those of its words, one after the other."""
    added = tokenizer.get_added_tokens_decoder().values()
    return (
        isinstance(tokenizer.model, WordPiece)
        and isinstance(tokenizer.pre_tokenizer, BertPreTokenizer)
        and isinstance(tokenizer.normalizer, BertNormalizer | None)
        and all(_WORD.fullmatch(token.content) for token in added)
    )


class WordCounter:
    """Counts by words. What it remembers is bounded; used by one thread."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        self._counts: dict[str, int] = {}

    def __call__(self, text: str) -> int:
        words = _WORD.findall(text)
        try:
            return sum(map(self._counts.__getitem__, words))
        except KeyError:
            return self._count(words)

    def _count(self, words: list[str]) -> int:
        unseen = list(filterfalse(self._counts.__contains__, dict.fromkeys(words)))
        encodings = self._tokenizer.encode_batch_fast(unseen, add_special_tokens=False)
        counts = dict(zip(unseen, map(len, encodings), strict=True))
        total = sum(counts[word] if word in counts else self._counts[word] for word in words)
        if len(self._counts) + len(counts) > _MAX_WORDS_KEPT:
            self._counts.clear()
        self._counts.update((word, count) for word, count in counts.items() if len(word) <= _MAX_CHARACTERS_KEPT)
        return total
