"""Models that are folders on the hub, at a terminal: naming one, downloading it with a progress bar, listing."""

from __future__ import annotations

import argparse
from collections.abc import Generator, Iterable
from pathlib import Path
from typing import TypeVar

from engine.cli import words
from engine.cli.inputs import folder_there
from engine.cli.output import Output, say
from engine.cli.progress import bar
from engine.errors import BadRequest
from engine.models.fetched import Fetched
from engine.protocol import HubFolderEntry

Entry = TypeVar("Entry", bound=HubFolderEntry)


def fetch(steps: Generator[Fetched, None, Path], out: Output) -> Path:
    """Downloads to the end, a model that is one file too, and returns where it is; Ctrl+C keeps what came."""
    with bar("Getting", out.is_json, counts_bytes=True) as show:
        try:
            while True:
                step = next(steps)
                show(step.num_bytes, step.total_bytes, "" if step.is_new else "checking what is here")
        except StopIteration as end:
            return Path(end.value)
        except KeyboardInterrupt:
            steps.close()
            say("what was downloaded is kept; the same command continues it.")
            raise


def here(entries: Iterable[Entry], name: str) -> Entry | None:
    """Finds a downloaded model by its hub name, folder or name. Raises BadRequest if several match."""
    there = [entry for entry in entries if entry.download.state == "there"]
    meant = [one for one in there if name in (one.source, one.path)]
    meant = meant or [one for one in there if name.casefold() == one.name.casefold()]
    if len(meant) > 1:
        sources = " and ".join(one.source for one in meant)
        raise BadRequest(f"Several are called {name}: {sources}.", "Name it as OWNER/NAME.")
    return meant[0] if meant else None


def folder(entries: Iterable[HubFolderEntry], name: str) -> str:
    """Returns the name of a model for the settings: the folder of a downloaded one, any other name unchanged."""
    entry = here(entries, name)
    return entry.path if entry is not None else folder_there(name)


def source(entries: Iterable[HubFolderEntry], name: str) -> str:
    """Returns the hub's name of a downloaded model; any other name unchanged."""
    entry = here(entries, name)
    return entry.source if entry is not None else name


def named(options: argparse.Namespace, command: str) -> str:
    """Returns the model that a command names. Raises BadRequest if it names none."""
    if not options.name:
        raise BadRequest(f"'ragdoll {command} {options.action}' needs a name.", f"ragdoll {command} lists some.")
    return str(options.name)


def tell(entries: Iterable[HubFolderEntry], current: str, out: Output) -> None:
    """Prints a line for each, and one about its purpose; the one in use has a mark."""
    for entry in entries:
        state = {"there": "is here", "part": "is here in part"}.get(entry.download.state, "")
        size = f"about {entry.num_bytes / 2**30:.1f} GB" if entry.num_bytes else ""
        mark = "*" if entry.path == current else " "
        facts = "  ".join(fact for fact in (words.typed(entry.name), size, entry.licence, state) if fact)
        out.line(f"{mark} {facts}\n    {entry.good_for or entry.source}")
