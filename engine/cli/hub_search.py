"""The command `models search`: repositories of the hub whose names match some words."""

from __future__ import annotations

from collections.abc import Sequence

from engine.cli.opening import opened
from engine.cli.output import Output
from engine.cli.words import counted
from engine.protocol import HubRepository


def search(words: Sequence[str], out: Output) -> None:
    """Asks the hub, and lists the results."""
    with opened() as engine:
        found = engine.search_models(" ".join(words))
    if out.is_json:
        out.json({"repositories": [one.model_dump() for one in found]})
        return
    for one in found:
        out.line("  ".join(filter(None, (one.name, *_facts(one)))))
    out.line("See what there is of one with ragdoll models get OWNER/NAME.")


def _facts(one: HubRepository) -> tuple[str, ...]:
    return (
        f"{one.downloads:,} downloads lately" if one.downloads is not None else "",
        counted(one.likes, "like") if one.likes is not None else "",
        "only with an account" if one.is_gated else "",
    )
