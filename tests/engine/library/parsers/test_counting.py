"""Tests for engine.library.parsers.counting."""

from __future__ import annotations

import random

import pytest
from tokenizers import Tokenizer
from tokenizers.models import BPE, WordPiece
from tokenizers.normalizers import NFKC, BertNormalizer
from tokenizers.pre_tokenizers import BertPreTokenizer, Metaspace

from engine.library.parsers import counting
from engine.library.parsers.counting import WordCounter, counter, is_by_words

LETTERS = "abcdefghijklmnopqrstuvwxyz"


def word_pieces() -> Tokenizer:
    """As BERT's: three letters together where they are in order, else each by itself."""
    pieces = [*LETTERS, *(LETTERS[at : at + 3] for at in range(24))]
    names = ["[UNK]", "[SEP]", *pieces, *(f"##{piece}" for piece in pieces), *".,-漢"]
    tokenizer = Tokenizer(WordPiece({name: place for place, name in enumerate(names)}, unk_token="[UNK]"))
    tokenizer.normalizer, tokenizer.pre_tokenizer = BertNormalizer(), BertPreTokenizer()
    tokenizer.add_special_tokens(["[SEP]"])
    return tokenizer


def whole(tokenizer: Tokenizer, text: str) -> int:
    return len(tokenizer.encode(text, add_special_tokens=False))


def odd_texts(count: int) -> list[str]:
    """Texts of letters, all kinds of white space, controls, accents, ideographs and names of special tokens."""
    chance = random.Random(7)
    spaces = [" ", "\t", "\n", "\r"] * 8
    odd = [
        "\x0b",
        "\x0c",
        "\x1c",
        "\x85",
        "\xa0",
        "\u3000",
        "\u200b",
        "\u0301",
        "é",
        "İ",
        "漢",
        ".",
        "-",
        "[SEP]",
        "😀",
    ]
    return ["".join(chance.choices([*LETTERS, *spaces, *odd], k=chance.randrange(60))) for _ in range(count)]


def test_a_text_counts_as_the_tokenizer_counts_it_whole() -> None:
    tokenizer = word_pieces()
    count = counter(tokenizer)

    assert isinstance(count, WordCounter)
    for text in ["", " \n", "abc abcdef", *odd_texts(2000)]:
        assert count(text) == whole(tokenizer, text), ascii(text)


def test_it_counts_the_same_once_it_has_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(counting, "_MAX_WORDS_KEPT", 3)
    monkeypatch.setattr(counting, "_MAX_CHARACTERS_KEPT", 5)
    tokenizer = word_pieces()
    count = counter(tokenizer)

    texts = ["abc xyz", "abc abcdefghi xyz", "one two three four five", "abc xyz abcdefghi"] * 2
    assert [count(text) for text in texts] == [whole(tokenizer, text) for text in texts]


def test_a_word_is_tokenized_once() -> None:
    class Counted:
        def __init__(self, tokenizer: Tokenizer) -> None:
            self.tokenizer, self.seen = tokenizer, list[str]()

        def encode_batch_fast(self, words: list[str], add_special_tokens: bool) -> object:
            self.seen += words
            return self.tokenizer.encode_batch_fast(words, add_special_tokens=add_special_tokens)

    counted = Counted(word_pieces())
    count = WordCounter(counted)  # type: ignore[arg-type]
    for text in ("abc xyz", "xyz abc\nabc", "xyz def"):
        count(text)

    assert sorted(counted.seen) == ["abc", "def", "xyz"]


def test_texts_are_counted_whole_where_words_depend_on_their_neighbours() -> None:
    joined = Tokenizer(BPE({"a": 0, "▁": 1, "a▁a": 2, "▁a": 3, "a▁": 4}, [("▁", "a"), ("a", "▁a")], unk_token="a"))
    joined.pre_tokenizer = Metaspace(split=False)
    normalised, spaced = word_pieces(), word_pieces()
    normalised.normalizer = NFKC()
    spaced.add_tokens(["abc def"])

    assert not any(map(is_by_words, (joined, normalised, spaced)))
    assert counter(joined)("a a a") == whole(joined, "a a a")
    assert counter(spaced)("abc def") == 1


def test_limits_and_padding_of_the_tokenizer_do_not_count() -> None:
    tokenizer = word_pieces()
    tokenizer.enable_truncation(2)
    tokenizer.enable_padding(length=8)

    assert counter(tokenizer)("a b c a b c") == 6
