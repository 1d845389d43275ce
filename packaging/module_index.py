"""Writes engine/README.md and app/README.md: a line per module, which is the sentence that the module opens with.

`python packaging/module_index.py` rewrites both files whole; a test fails while one of them is out of date.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = ("engine", "app")
PAGE = "README.md"
INTRODUCTION = (
    "Each line is the sentence that its module opens with. `python packaging/module_index.py` writes this file;\n"
    "[ARCHITECTURE.md](../ARCHITECTURE.md) says how the modules work together.\n"
)


def page(root: Path, package: str) -> str:
    """The README of a package: its modules, then the packages in it with theirs, in Markdown."""
    sections = "".join(_section(root, folder) for folder in _packages(root / package))
    return f"# The modules of `{package}`\n\n{INTRODUCTION}{sections}"


def _packages(folder: Path) -> Iterator[Path]:
    """A package, then the packages in it, each by name."""
    if any(folder.glob("*.py")):
        yield folder
        for inner in sorted(path for path in folder.iterdir() if path.is_dir()):
            yield from _packages(inner)


def _section(root: Path, folder: Path) -> str:
    opening = folder / "__init__.py"
    lines = [f"\n## {folder.relative_to(root).as_posix()}\n", f"\n{_sentence(opening)}\n" if opening.exists() else ""]
    modules = [path for path in sorted(folder.glob("*.py")) if path.name != "__init__.py"]
    if modules:
        lines.append("\n")
    lines += [f"- `{path.name}`: {_sentence(path)}\n" for path in modules]
    return "".join(lines)


def _sentence(module: Path) -> str:
    """The first paragraph of a module's docstring, on one line.

    Raises:
        SystemExit: It has none, so nothing justifies it.
    """
    docstring = ast.get_docstring(ast.parse(module.read_text(encoding="utf-8")))
    if not docstring:
        raise SystemExit(f"{module} does not open with a sentence that justifies it.")
    return " ".join(docstring.split("\n\n")[0].split())


if __name__ == "__main__":
    for name in PACKAGES:
        (ROOT / name / PAGE).write_text(page(ROOT, name), encoding="utf-8")
