"""Whether a licence lets us ship what bears it along with an Apache-2.0 application; unknown means no.

Permissive licences, MPL (per file) and LGPL (linked dynamically, replaceable) do; GPL and AGPL do not.
"""

from __future__ import annotations

import re
from importlib import metadata

# SPDX names, lower case.
ALLOWED = frozenset({
    "0bsd", "apache-2.0", "apache-2.0 with llvm-exception", "bsd-2-clause", "bsd-3-clause", "bsl-1.0", "cc0-1.0",
    "cnri-python", "hpnd", "isc", "lgpl-2.1-only", "lgpl-2.1-or-later", "lgpl-3.0-only", "lgpl-3.0-or-later", "mit",
    "mit-0", "mit-cmu", "mpl-2.0", "psf-2.0", "python-2.0", "unlicense", "zlib",
})  # fmt: skip

# What older metadata says in words instead.
_IN_WORDS = (
    (r"\b(a|l)?gpl|general public", None),
    (r"^mit( license)?$", "mit"),
    (r"^apache( software)?( license)?(,? (version )?2(\.0)?)?( license)?$", "apache-2.0"),
    (r"^(new |modified |3-clause )?bsd( license)?$|^bsd[- ]3[- ]clause( license)?$", "bsd-3-clause"),
    (r"^isc license( \(iscl\))?$", "isc"),
    (r"^mozilla public license 2\.0( \(mpl 2\.0\))?$", "mpl-2.0"),
    (r"^python software foundation license$", "psf-2.0"),
)

# Parentheses that group; those in "ISC License (ISCL)" do not.
_GROUP = re.compile(r"\(([^()]*\s(?:AND|OR)\s[^()]*)\)")


def is_allowed(expression: str) -> bool:
    """Judges an SPDX expression, or a licence in words. Of alternatives (OR) one will do, of a sum (AND) all must."""
    while group := _GROUP.search(expression):
        verdict = "MIT" if is_allowed(group[1]) else "refused"
        expression = expression[: group.start()] + verdict + expression[group.end() :]
    alternatives = re.split(r"\s+OR\s+", expression.strip())
    return any(all(_is_allowed_name(name) for name in re.split(r"\s+AND\s+", part)) for part in alternatives)


def declared(distribution: metadata.Distribution) -> str:
    """What a distribution says about its licence: the SPDX expression, else the field, else the classifiers."""
    about = distribution.metadata
    field = (about.get("License") or "").strip()
    classifiers = [c.rpartition(" :: ")[2] for c in about.get_all("Classifier") or [] if c.startswith("License ::")]
    if about.get("License-Expression"):
        return str(about["License-Expression"])
    if field and "\n" not in field and len(field) < 100:
        return field
    return " AND ".join(name for name in classifiers if name != "OSI Approved")


def _is_allowed_name(name: str) -> bool:
    lowered = " ".join(name.lower().split())
    if lowered in ALLOWED:
        return True
    for pattern, spdx in _IN_WORDS:
        if re.search(pattern, lowered):
            return spdx in ALLOWED
    return False
