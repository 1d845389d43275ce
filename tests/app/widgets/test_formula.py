"""Tests for app.widgets.formula: LaTeX as one line of HTML, or none where it is not understood."""

from __future__ import annotations

import re
from html import unescape

import pytest

from app.widgets.formula import html_of


def seen(source: str) -> str | None:
    """What is seen of a formula, with scripts in brackets and thin spaces as spaces."""
    html = html_of(source)
    if html is None:
        return None
    html = re.sub(r"<(sup|sub)>(.*?)</\1>", lambda found: f"{'^' if found[1] == 'sup' else '_'}[{found[2]}]", html)
    return unescape(re.sub(r"<[^>]*>", "", html.replace("<br />", "\n"))).replace("\u2009", " ")


@pytest.mark.parametrize(
    ("source", "text"),
    [
        (r"x^2 + y_1 = \frac{a+b}{2c}", "x² + y₁ = (a + b)/(2c)"),
        (r"\sum_{i=1}^{n} x_i \le \sqrt{n}", "∑_[i=1]ⁿ x_[i] ≤ √n"),
        (r"-b \pm \sqrt{b^2-4ac}", "−b ± √(b² − 4ac)"),
        (r"a = -1", "a = −1"),
        (r"e^{-x^2}", "e^[−x²]"),
        (r"f'(x) = \lim_{h \to 0} g(h)", "f′(x) = lim_[h→0] g(h)"),
        (r"P(A \mid B) = \frac{P(A)}{P(B)}", "P(A ∣ B) = P(A)/P(B)"),
        (r"\log_2 n \cdot 10^{-3}", "log₂ n · 10⁻³"),
        (r"\text{speed} = \frac{\text{way}}{\text{total time}}", "speed = way/(total time)"),
        (r"\left( \frac{1}{2} \right)^n", "(1/2)ⁿ"),
        (r"90^\circ \text{ C}", "90° C"),
        (r"\hat{i} + \vec{E} \in \mathbb{R}^n", "i\u0302 + E\u20d7 ∈ ℝⁿ"),
        (r"\{x \in \mathbb{Z} : x > 0\}", "{x ∈ ℤ : x > 0}"),
        (r"\begin{aligned} a &= b \\[4pt] c &= d \end{aligned}", "a = b\nc = d"),
        (r"2^{10} = 1{,}024 \quad 50\%", "2¹⁰ = 1,024\u200350%"),
        (r"n \equiv 1 \pmod{4}", "n ≡ 1 (mod 4)"),
        (r"\boxed{42}", "42"),
        (r"\begin{aligned}[t] x &= 1 & y &= 2 \\[-2pt] && z \end{aligned}", "x = 1\u2003y = 2\n\u2003z"),
        (r"x := 1, a == b", "x := 1, a == b"),
        (r"\int f(x)\,\mathrm{d}x = 5\text{kg of~it}", "∫ f(x) dx = 5 kg of\u00a0it"),
        (r"\text{H}_2\text{O}, x\text{-axis}", "H₂O, x-axis"),
    ],
)
def test_what_answers_have_is_shown(source, text):
    assert seen(source) == text


@pytest.mark.parametrize(
    ("source", "text"),
    [
        # What a stroke divides must not be taken for something else.
        (r"\frac{1}{2}mv^2", "(1/2)mv²"),
        (r"2\frac{a}{b}", "2(a/b)"),
        (r"\frac{a}{b} + 1", "a/b + 1"),
        (r"\frac{\frac{a}{b}}{c}", "(a/b)/c"),
        (r"\frac{a}{bc}", "a/(bc)"),
        (r"\frac{dy}{dx}", "dy/dx"),
        (r"\log \frac{a}{b}", "log (a/b)"),
        (r"\frac{1}{n(n+1)}", "1/(n(n + 1))"),
        (r"\frac{1}{x^2y}", "1/(x²y)"),
        (r"\frac{1}{R_1R_2}", "1/(R₁R₂)"),
        (r"\frac{PV}{nRT}", "PV/(nRT)"),
        (r"\frac{1}{\alpha\beta\gamma}", "1/(αβγ)"),
        (r"\frac{f(x)}{g'(x)}", "f(x)/g′(x)"),
        (r"{\frac{a}{b}}^2", "(a/b)²"),
        (r"{\frac{1}{2}}mv^2", "(1/2)mv²"),
        (r"{-\frac{1}{2}}x", "−(1/2)x"),
        (r"\frac{1}{2} \text{base} \times h", "(1/2)base × h"),
        (r"\text{Kapital}\frac{p}{100}", "Kapital (p/100)"),
        (r"\sqrt{x}^2", "(√x)²"),
        (r"\sqrt{2}x", "(√2)x"),
        (r"2\sqrt{3}", "2√3"),
        (r"\frac{\sqrt{3}}{2}", "√3/2"),
    ],
)
def test_fractions_keep_their_meaning_on_one_line(source, text):
    assert seen(source) == text


@pytest.mark.parametrize(
    "source",
    [
        r"\begin{pmatrix} 1 & 2 \end{pmatrix}",
        r"\begin{cases} 1 \\ 2 \end{cases}",
        r"\unknown{x}",
        r"x^10",
        r"x^{a^b}",
        r"x^{",
        r"x}",
        r"\frac{a}",
        r"\frac{}{b}",
        r"\sqrt",
        r"\hat{ab}",
        # The product, or one and a half.
        r"1\frac{1}{2}",
        r"x^2^3",
        r"\sqrt" * 500 + "x",
        r"\frac" * 500 + "x",
        r"\left",
        "a % b",
        "{" * 50 + "x" + "}" * 50,
        "x" * 5_000,
        "",
        "\\",
        "^2_",
    ],
)
def test_what_is_not_known_for_sure_is_none(source):
    assert seen(source) is None


def test_nothing_in_a_formula_is_html():
    assert html_of(r"\text{<b>&} < x") == "&lt;b&gt;&amp; &lt; <i>x</i>"
