"""Tests for engine.library.parsers.number_format."""

from __future__ import annotations

import datetime as dt

import pytest

from engine.library.parsers.number_format import BUILT_IN, day, general, shown


@pytest.mark.parametrize(
    ("value", "code", "text"),
    [
        (3, "General", "3"),
        (0.1 + 0.2, "General", "0.3"),
        (123456789012, "General", "123456789012"),
        (2, "Standard", "2"),
        (0.1234, "0.0%", "12.3%"),
        (0.5, "#.##", "0.5"),
        (1234567, "#,##0", "1,234,567"),
        (1234567, '0.0,,"M"', "1.2M"),
        (5, '0 "pieces"', "5 pieces"),
        (1234.5, '"$"#,##0.00_);[Red]\\("$"#,##0.00\\)', "$1,234.50"),
        (-1234.5, '"$"#,##0.00_);[Red]\\("$"#,##0.00\\)', "-$1,234.50"),
        (-5, "0.00;[Red]0.00", "-5.00"),
        (12, "#,##0.00 [$€-407]", "12.00 €"),
        (12, "[$£-809]#,##0.00", "£12.00"),
        (0, '_("$"* #,##0.00_);_("$"* \\(#,##0.00\\);_("$"* "-"??_);_(@_)', "$0.00"),
        (45356, "m/d/yyyy", "2024-03-05"),
        (45356, '[$-409]mmmm" "d, yyyy;@', "2024-03-05"),
        (45356.58472222222, "yyyy-mm-dd hh:mm", "2024-03-05 14:02"),
        (45356.58472222222, "dd.mm.yyyy", "2024-03-05"),
        (0.75, "h:mm AM/PM", "18:00"),
        (1.5, "[h]:mm", "36:00"),
        (5.25, "# ?/?", "5.25"),
        (1234, "00000", "01234"),
        (-7, "000.0", "-007.0"),
        (5, "0,000", "0,005"),
        (12345678, "000-00-0000", "012345678"),
        (12_345_678, '[>=1000000]0.0,,"M";[>=1000]0.0,"K";0', "12.3M"),
        (12_345, '[>=1000000]0.0,,"M";[>=1000]0.0,"K";0', "12.3K"),
        (12, '[>=1000000]0.0,,"M";[>=1000]0.0,"K";0', "12"),
        (500, '[>999999]#,##0.0,,"M";#,##0.0,"K"', "0.5K"),
        (-5, '[Red][<0]0.0" short";0', "-5.0 short"),
        (5, "[>10]0.0", "5"),
        (45356, "[<1]h:mm;yyyy-mm-dd", "2024-03-05"),
        (1e300, "yyyy", "1e+300"),
        (float("nan"), "0", ""),
        (2_958_465, "yyyy-mm-dd", "9999-12-31"),
        (2_958_465.9999999, "yyyy-mm-dd hh:mm:ss", "9999-12-31 23:59:59"),
        (2_958_466, "yyyy-mm-dd", "2958466"),
        (5, '"profit "0;"loss "0', "profit 5"),
        (-5, '"profit "0;"loss "0', "loss 5"),
        (-5, '0.00" Dr";0.00" Cr"', "5.00 Cr"),
        (-0.125, '0.0%;0.00%" short"', "12.50% short"),
        (-5, '0" kg";[Red]0" kg"', "-5 kg"),
        (-5, '0" kg";(0" kg")', "-5 kg"),
        (-5, '0;-0" short"', "-5 short"),
        (-0.125, "0.0%;(0.00%)", "-12.50%"),
        (-5, '"+"0;"-"0', "-5"),
        (-5, '#,##0;[Red]"△ "#,##0', "-5"),
        (-5, "0;;", "-5"),
        (-5, "General;[Red]General", "-5"),
        (-5, "0.0E+00;-0.0E+00", "-5"),
    ],
)
def test_a_number_reads_as_its_sheet_shows_it(value: float, code: str, text: str):
    assert " ".join(shown(value, code).split()) == text


def test_days_count_from_1904_where_the_workbook_says_so():
    assert shown(43894, "yyyy-mm-dd", is_1904=True) == shown(45356, "yyyy-mm-dd") == "2024-03-05"


def test_every_built_in_code_shows_something():
    assert all(shown(45356.5, code) for code in BUILT_IN.values())


def test_dates_and_times_are_iso():
    assert day(dt.datetime(2024, 3, 5)) == "2024-03-05"
    assert day(dt.datetime(2024, 3, 5, 14, 2)) == "2024-03-05 14:02"
    assert day(dt.datetime(2024, 3, 5, 14, 1, 59, 999_999)) == "2024-03-05 14:02"
    assert day(dt.datetime(9999, 12, 31, 23, 59, 59, 999_000)) == "9999-12-31 23:59:59"
    assert day(dt.date(2024, 3, 5)) == "2024-03-05"
    assert day(dt.timedelta(hours=36, minutes=5)) == "36:05"


def test_whole_numbers_are_whole_and_others_as_precise_as_they_were_typed():
    assert [general(value) for value in (7.0, -2.0, 0.25, 1e20)] == ["7", "-2", "0.25", "1e+20"]
