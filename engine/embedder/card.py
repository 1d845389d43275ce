"""The model card: what the front matter of a model's README says about it, read without a YAML library."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

_FILE = "README.md"
_MARK = "---"


@dataclass(frozen=True, slots=True)
class Card:
    """`name` is that of the listed results, "" without results. `is_derived`: it was trained from another model."""

    languages: frozenset[str] = frozenset()
    name: str = ""
    is_derived: bool = False


def read(folder: Path) -> Card:
    """Reads the card of the model in `folder`; an empty one if there is none. Raises OSError if it cannot be read."""
    file = folder / _FILE
    if not file.is_file():
        return Card()
    said = _lists(_front_matter(file.read_text(encoding="utf-8", errors="replace").splitlines()))
    first_result = next(iter(said.get("model-index", ())), "")
    return Card(
        languages=frozenset(said.get("language", ())),
        name=_bare(first_result.removeprefix("name:")) if first_result.startswith("name:") else "",
        is_derived=bool(said.get("base_model")),
    )


def _front_matter(lines: Iterable[str]) -> Iterator[str]:
    """Yields the lines between the first two marks."""
    is_inside = False
    for line in lines:
        if line.rstrip() == _MARK:
            if is_inside:
                return
            is_inside = True
        elif is_inside:
            yield line


def _lists(lines: Iterable[str]) -> Mapping[str, list[str]]:
    """Returns the values of each top-level key, and all list items below it, including those of inner levels."""
    found: dict[str, list[str]] = {}
    items: list[str] = []
    for line in lines:
        if line.lstrip().startswith("- "):
            items.append(_bare(line.lstrip().removeprefix("- ")))
        elif line[:1].strip() and ":" in line:
            key, _, value = line.partition(":")
            found[key] = items = [bare for part in value.split(",") if (bare := _bare(part))]
    return found


def _bare(text: str) -> str:
    return text.strip(" []'\"")
