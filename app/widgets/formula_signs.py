"""LaTeX's names for signs and letters that occur in answers, and each in plain text."""

from __future__ import annotations

from collections.abc import Mapping


def _table(text: str) -> dict[str, str]:
    words = text.split()
    return dict(zip(words[::2], words[1::2], strict=True))


def _set(text: str) -> frozenset[str]:
    return frozenset(text.split())


GREEK: Mapping[str, str] = _table("""
    alpha α beta β gamma γ delta δ epsilon ϵ varepsilon ε zeta ζ eta η theta θ vartheta ϑ iota ι kappa κ lambda λ mu μ
    nu ν xi ξ pi π varpi ϖ rho ρ varrho ϱ sigma σ varsigma ς tau τ upsilon υ phi ϕ varphi φ chi χ psi ψ omega ω
    Gamma Γ Delta Δ Theta Θ Lambda Λ Xi Ξ Pi Π Sigma Σ Upsilon Υ Phi Φ Psi Ψ Omega Ω
""")
# Surrounded by spaces, unless it begins a formula or follows another one, where it is the sign of a number.
OPERATORS: Mapping[str, str] = _table("""
    pm ± mp ∓ times × div ÷ cdot · ast ∗ star ⋆ circ ∘ bullet • cup ∪ cap ∩ setminus ∖ oplus ⊕ ominus ⊖ otimes ⊗ odot ⊙
    wedge ∧ land ∧ vee ∨ lor ∨ uplus ⊎ sqcup ⊔ sqcap ⊓
""")
RELATIONS: Mapping[str, str] = _table("""
    le ≤ leq ≤ leqslant ≤ ge ≥ geq ≥ geqslant ≥ lt < gt > ne ≠ neq ≠ ll ≪ gg ≫ approx ≈ sim ∼ simeq ≃ cong ≅ equiv ≡
    propto ∝ in ∈ notin ∉ ni ∋ subset ⊂ subseteq ⊆ supset ⊃ supseteq ⊇ subsetneq ⊊ to → rightarrow → leftarrow ←
    leftrightarrow ↔ Rightarrow ⇒ Leftarrow ⇐ Leftrightarrow ⇔ implies ⟹ impliedby ⟸ iff ⟺ longrightarrow ⟶
    longleftarrow ⟵ Longrightarrow ⟹ mapsto ↦ longmapsto ⟼ uparrow ↑ downarrow ↓ rightleftharpoons ⇌ mid ∣ nmid ∤
    parallel ∥ perp ⊥ vdash ⊢ models ⊨ prec ≺ succ ≻ preceq ⪯ succeq ⪰ coloneqq ≔ doteq ≐ asymp ≍
""")
SIGNS: Mapping[str, str] = _table("""
    infty ∞ partial ∂ nabla ∇ forall ∀ exists ∃ nexists ∄ emptyset ∅ varnothing ∅ neg ¬ lnot ¬ angle ∠ triangle △
    square □ Box □ blacksquare ■ hbar ℏ ell ℓ Re ℜ Im ℑ wp ℘ aleph ℵ top ⊤ bot ⊥ dagger † ddagger ‡ prime ′ degree °
    checkmark ✓ ldots … dots … dotsc … cdots ⋯ dotsb ⋯ vdots ⋮ ddots ⋱ sum ∑ prod ∏ coprod ∐ int ∫ iint ∬ iiint ∭
    oint ∮ bigcup ⋃ bigcap ⋂ bigoplus ⨁ bigotimes ⨂ bigvee ⋁ bigwedge ⋀ langle ⟨ rangle ⟩ lceil ⌈ rceil ⌉ lfloor ⌊
    rfloor ⌋ lbrace { rbrace } lbrack [ rbrack ] vert | lvert | rvert | Vert ‖ lVert ‖ rVert ‖ backslash \\ therefore ∴
    because ∵ cent ¢ pounds £ euro € copyright © S § imath ı jmath ȷ surd √ diamond ⋄ heartsuit ♥
""")
# Written upright, with their argument after a space.
FUNCTIONS = _set("""
    sin cos tan cot sec csc arcsin arccos arctan sinh cosh tanh coth log ln lg exp lim limsup liminf max min sup inf det
    dim ker deg gcd lcm hom arg argmax argmin Pr rank tr sgn mod
""")
ACCENTS: Mapping[str, str] = {
    "hat": "\u0302", "widehat": "\u0302", "tilde": "\u0303", "widetilde": "\u0303", "bar": "\u0304",
    "overline": "\u0305", "vec": "\u20d7", "dot": "\u0307", "ddot": "\u0308", "underline": "\u0332", "check": "\u030c",
}  # fmt: skip
SPACES: Mapping[str, str] = {
    ",": "\u2009", ":": "\u2009", ";": " ", " ": " ", "!": "", "quad": "\u2003", "qquad": "\u2003\u2003",
    "thinspace": "\u2009", "enspace": "\u2002", "~": "\u00a0", "\n": " ",
}  # fmt: skip
# Commands that change only size or place.
SILENT = _set("""
    left right middle big Big bigg Bigg bigl bigr Bigl Bigr biggl biggr Biggl Biggr bigm Bigm displaystyle textstyle
    scriptstyle limits nolimits nonumber notag
""")
SUPERSCRIPTS = str.maketrans("0123456789+−=()ni", "⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻⁼⁽⁾ⁿⁱ")
SUBSCRIPTS = str.maketrans("0123456789+−=()", "₀₁₂₃₄₅₆₇₈₉₊₋₌₍₎")
_DOUBLE = {"C": "ℂ", "H": "ℍ", "N": "ℕ", "P": "ℙ", "Q": "ℚ", "R": "ℝ", "Z": "ℤ"}


def double_struck(letter: str) -> str | None:
    """Returns the double-struck form of a letter, or None if there is none."""
    if letter in _DOUBLE:
        return _DOUBLE[letter]
    if len(letter) == 1 and "A" <= letter <= "Z":
        return chr(ord("𝔸") + ord(letter) - ord("A"))
    return "𝟙" if letter == "1" else None
