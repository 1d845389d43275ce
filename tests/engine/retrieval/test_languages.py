"""Tests for engine.retrieval.languages."""

from __future__ import annotations

import pytest

from engine.retrieval.languages import foreign_language, language_of

TEXTS = {
    "en": "The lease ends in May. The notice period is three months for both of the parties.",
    "de": "Die Miete beträgt 900 Euro und ist bis zum dritten Werktag des Monats zu zahlen.",
    "fr": "Le loyer est de 900 euros par mois et il est à payer avant le trois du mois.",
    "es": "El alquiler es de 900 euros al mes y se paga por adelantado en la cuenta.",
    "it": "Il canone di locazione è di 900 euro al mese e non include le spese.",
    "pt": "O aluguel é de 900 euros por mês e não inclui as despesas da casa.",
    "nl": "De huur bedraagt 900 euro per maand en is voor de derde van de maand te betalen.",
    "sv": "Hyran är 900 euro per månad och ska betalas före den tredje i månaden.",
    "pl": "Czynsz wynosi 900 euro i jest płatny do trzeciego dnia miesiąca, o ile nie uzgodniono inaczej.",
    "tr": "Kira bedeli ayda 900 euro olup her ayın üçüne kadar ödenir ve bu tutar için makbuz verilir.",
    "ru": "Договор аренды заключён на срок до мая; мы были там.",
    "uk": "Договір оренди укладено до травня.",
    "zh": "租金每月三千元，押金一个月。",
    "ja": "家賃は月に三万円です。",
    "ko": "임대료는 매달 지불합니다.",
    "ar": "الإيجار الشهري تسعمائة يورو",
    "el": "Το ενοίκιο είναι εννιακόσια ευρώ",
}


@pytest.mark.parametrize(("language", "text"), TEXTS.items())
def test_a_text_tells_its_language(language: str, text: str) -> None:
    assert language_of(text) == language


@pytest.mark.parametrize("text", ["", "39.95 EUR 12 4711", "def f(x): return x + 1", "Lorem", "🙂 🙂"])
def test_what_is_no_text_tells_none(text: str) -> None:
    assert language_of(text) is None


def test_a_script_that_we_do_not_know_is_no_english() -> None:
    assert language_of("ამ ხელშეკრულების ვადა") == "mul"


def test_the_language_of_most_texts_is_told_where_it_is_not_english() -> None:
    assert foreign_language([TEXTS["de"]] * 3 + [TEXTS["en"]] * 2) == "de"
    assert foreign_language([TEXTS["de"]] * 2 + [TEXTS["en"]] * 2) == ""
    assert foreign_language([TEXTS["en"]] * 9) == ""


def test_several_languages_are_told_as_such() -> None:
    assert foreign_language([TEXTS["de"], TEXTS["fr"], TEXTS["es"], TEXTS["en"]]) == "mul"


def test_of_a_few_texts_and_of_tables_nothing_is_said() -> None:
    assert foreign_language([TEXTS["de"]] * 2) == ""
    assert foreign_language(["39.95 EUR"] * 50) == ""
    assert foreign_language([*[TEXTS["de"]] * 3, *["39.95 EUR"] * 50]) == "de"
