"""Counting: how many tokens the embedder makes of a text, each word tokenized once and then counted from memory.

The chunker counts every paragraph and many parts of paragraphs. A tokenizer that first splits at white space makes the
same tokens of a word wherever it occurs, so the count of a text is the sum of its words' counts.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from itertools import filterfalse

from tokenizers import Tokenizer
from tokenizers.models import WordPiece
from tokenizers.normalizers import BertNormalizer
from tokenizers.pre_tokenizers import BertPreTokenizer

# What BERT's normaliser treats as white space; it drops or maps other such characters.
_WORD = re.compile(r"[^ \t\n\r]+")
_MAX_WORDS_KEPT = 100_000
# Longer words (base64, scripts without spaces) hardly ever repeat.
_MAX_CHARACTERS_KEPT = 100


def counter(tokenizer: Tokenizer) -> Callable[[str], int]:
    """Returns a function that counts tokens without special ones, by words if the tokenizer allows it."""
    tokenizer.no_truncation()
    tokenizer.no_padding()
    if is_by_words(tokenizer):
        return WordCounter(tokenizer)
    # The fast batch call skips offsets, which are not needed.
    return lambda text: len(tokenizer.encode_batch_fast([text], add_special_tokens=False)[0])


def is_by_words(tokenizer: Tokenizer) -> bool:
    """Returns whether a text's tokens are those of its words, one after the other."""
    added = tokenizer.get_added_tokens_decoder().values()
    return (
        isinstance(tokenizer.model, WordPiece)
        and isinstance(tokenizer.pre_tokenizer, BertPreTokenizer)
        and isinstance(tokenizer.normalizer, BertNormalizer | None)
        and all(_WORD.fullmatch(token.content) for token in added)
    )


class WordCounter:
    """Counts tokens by words. Its memory is bounded; for one thread."""

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
