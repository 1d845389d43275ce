"""Tests for engine.retrieval.words."""

from __future__ import annotations

import pytest

from engine.retrieval.words import bare, is_mostly_latin, overlap, rarity, terms


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("How do threads share state?", True),
        ("Größe in Ångström, naïve café", True),
        ("1234 + 5678", True),
        ("", True),
        ("怎么共享状态？", False),
        ("LanceDB 怎么用", True),
        ("DB 的全文索引怎么用", False),
        ("Как это работает", False),
        ("서울에서", False),
    ],
)
def test_scripts_are_told_apart_by_their_letters(text: str, expected: bool):
    assert is_mostly_latin(text) is expected


@pytest.mark.parametrize(
    "texts",
    [
        ("Store it at -20 °C.", "Store it at 20 °C."),
        ("It rose by +5% in May", "It rose by -5% in May", "It rose by 5 in May"),
        ("It costs $5.", "It costs €5.", "It costs 5."),
        ("5 € are due", "5 $ are due"),
        ("Learn C++ now", "Learn C# now", "Learn C now"),
        ("a<b holds", "a > b holds", "a = b holds", "a != b holds", "a + b holds", "a b holds"),
        ("f(x) < g(x)", "f(x) > g(x)"),
        ("(-1) is so", "(1) is so"),
        ("the limit > 5", "the limit < 5", "the limit = -5"),
        ("10 € 20 times", "10 $ 20 times"),
    ],
)
def test_texts_that_differ_in_a_sign_that_counts_are_told_apart(texts: tuple[str, ...]):
    assert len({bare(text) for text in texts}) == len(texts)


@pytest.mark.parametrize(
    "texts",
    [
        ("It is cold, at −20 °C.", "it is cold at -20 °C", "It is cold (at –20 °C)!"),
        ("- one item\n- another", "* one item\n* another", "+ one item\n+ another", "one item; another"),
        ("He said:\n> the “lease” ends", 'He said the "lease" ends.', "He said: the **lease** ends"),
        ("# Rust\n\nIt compiles", "Rust\n====\nIt compiles", "Rust – it compiles", "Rust: it compiles"),
        ("from 2020-2021, well-known", "from 2020–2021, well known", "from 2020 - 2021 well-known"),
        ("5 % of it", "5% of it"),
        ("a<b", "a < b", "a <\n  b"),
        ("| one | two |", "one two"),
        ("Home > Products > Rent", "Home, Products, Rent", "Home >\nProducts > Rent"),
        ("Umsatz\n-2024 wuchs er", "Umsatz\n- 2024 wuchs er", "Umsatz 2024 wuchs er"),
        ("from 2024 – 2025 on", "from 2024 -2025 on", "from 2024-2025 on"),
        ("call +49 30 1234", "call 49 30 1234"),
        ("call +1-800-555", "call 1 800 555"),
        ("it is 1.900,50 € a month", "it is € 1.900,50 a month", "it is €1.900,50 a month"),
    ],
)
def test_copies_that_differ_in_marks_are_the_same(texts: tuple[str, ...]):
    assert len({bare(text) for text in texts}) == 1


@pytest.mark.parametrize(
    "words",
    [
        ("thread", "threads", "Threads'", "threading"),
        ("stop", "stops", "stopped", "stopping"),
        ("study", "studies"),
        ("share", "shared", "shares", "sharing"),
        ("class", "classes"),
        ("café", "Cafe", "CAFÉ", "cafe\u0301", "ca\u00adfé", "\u200bcafé", "ｃａｆé"),
        ("パソコン", "ﾊﾟｿｺﾝ"),
    ],
)
def test_forms_of_a_word_meet(words: tuple[str, ...]):
    assert len({terms(word) for word in words}) == 1


def test_unlike_words_stay_apart():
    assert (
        len({terms(word) for word in ("state", "static", "station", "glass", "gas", "is", "bus", "2019", "201")}) == 9
    )


def test_stop_words_are_left_out():
    assert terms("What is the state of it?") == terms("state")


def test_scripts_without_spaces_become_pairs():
    assert terms("北京大学") == {"北京", "京大", "大学"}
    assert "서울" in terms("서울에서")
    assert terms("東") == {"東"}


def test_rare_terms_weigh_more():
    weights = rarity([{"rust", "mutex"}, {"rust"}, {"rust"}])
    assert weights["mutex"] > weights["rust"] > 0


def test_overlap_is_a_share_by_weight():
    weights = {"rust": 1.0, "mutex": 3.0}
    assert overlap({"rust", "mutex"}, {"mutex"}, weights, unseen=4.0) == pytest.approx(0.75)
    assert overlap({"rust", "gil"}, {"rust"}, weights, unseen=4.0) == pytest.approx(0.2)
    assert overlap({"rust"}, {"rust", "more"}, weights, unseen=4.0) == 1.0
    assert overlap(set(), {"rust"}, weights, unseen=4.0) == 0.0
