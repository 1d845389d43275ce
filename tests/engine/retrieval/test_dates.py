"""Tests for engine.retrieval.dates."""

from __future__ import annotations

from datetime import date

import pytest

from engine.retrieval.dates import Period, is_bare, period

# A Tuesday.
TODAY = date(2026, 3, 31)


@pytest.mark.parametrize(
    ("text", "first", "last"),
    [
        ("2025-02-28", "2025-02-28", "2025-02-28"),
        ("28.2.2025", "2025-02-28", "2025-02-28"),
        ("February 2024", "2024-02-01", "2024-02-29"),
        ("3 March 2025", "2025-03-03", "2025-03-03"),
        ("March 3rd, 2025", "2025-03-03", "2025-03-03"),
        ("3. März 2025", "2025-03-03", "2025-03-03"),
        ("3 de marzo de 2025", "2025-03-03", "2025-03-03"),
        ("March last year", "2025-03-01", "2025-03-31"),
        ("December of this year", "2026-12-01", "2026-12-31"),
        ("März letzten Jahres", "2025-03-01", "2025-03-31"),
        ("März des vorigen Jahres", "2025-03-01", "2025-03-31"),
        ("marzo del año pasado", "2025-03-01", "2025-03-31"),
        ("mayo de este año", "2026-05-01", "2026-05-31"),
        ("March", "2026-03-01", "2026-03-31"),
        ("December", "2025-12-01", "2025-12-31"),
        ("2024", "2024-01-01", "2024-12-31"),
        ("last week", "2026-03-23", "2026-03-29"),
        ("this week", "2026-03-30", "2026-04-05"),
        ("letzter Woche", "2026-03-23", "2026-03-29"),
        ("la semana pasada", "2026-03-23", "2026-03-29"),
        ("last month", "2026-02-01", "2026-02-28"),
        ("el mes pasado", "2026-02-01", "2026-02-28"),
        ("last year", "2025-01-01", "2025-12-31"),
        ("diesem Jahr", "2026-01-01", "2026-12-31"),
        ("the last 3 months", "2025-12-31", "2026-03-31"),
        ("den letzten 2 Wochen", "2026-03-17", "2026-03-31"),
        ("los últimos 10 días", "2026-03-21", "2026-03-31"),
        ("the past 1 month", "2026-02-28", "2026-03-31"),
        ("the last week", "2026-03-24", "2026-03-31"),
        ("the last month", "2026-02-28", "2026-03-31"),
        ("the last year", "2025-03-31", "2026-03-31"),
        ("the past year", "2025-03-31", "2026-03-31"),
        ("past month", "2026-02-28", "2026-03-31"),
        ("la última semana", "2026-03-24", "2026-03-31"),
        ("el último año", "2025-03-31", "2026-03-31"),
        ("der letzten Woche", "2026-03-23", "2026-03-29"),
        ("vergangene Woche", "2026-03-23", "2026-03-29"),
        ("vorigen Monat", "2026-02-01", "2026-02-28"),
        ("dem vorigen Jahr", "2025-01-01", "2025-12-31"),
        ("letzten Monats", "2026-02-01", "2026-02-28"),
        ("yesterday", "2026-03-30", "2026-03-30"),
        ("heute", "2026-03-31", "2026-03-31"),
        ("3 APRİL 2024", "2024-04-03", "2024-04-03"),
        ("Aprıl last year", "2025-04-01", "2025-04-30"),
        ("JULİO", "2025-07-01", "2025-07-31"),
        ("the last 3 dıas", "2026-03-28", "2026-03-31"),
        ("this dıa", "2026-03-31", "2026-03-31"),
    ],
)
def test_dates_as_people_write_them(text: str, first: str, last: str):
    assert period(text, TODAY) == Period(date.fromisoformat(first), date.fromisoformat(last))


@pytest.mark.parametrize("text", ["", "soon", "2025-02-30", "31.4.2025", "03/04/2025", "February 30, 2025", "1066"])
def test_what_is_no_date_or_could_be_two_is_not_read(text: str):
    assert period(text, TODAY) is None


@pytest.mark.parametrize("text", ["the last weeks", "past years", "den letzten Jahren", "vorigen Wochen"])
def test_several_units_that_nobody_counted_are_not_read(text: str):
    assert period(text, TODAY) is None


@pytest.mark.parametrize(
    ("text", "expected"),
    [("2024", True), ("May", True), ("mayo", True), ("May 2024", False), ("last year", False), ("2024-05-01", False)],
)
def test_a_month_or_a_year_alone_is_bare(text: str, expected: bool):
    assert is_bare(text) is expected
