"""Opening the library for a command, which tells on stderr what of its settings and its index cannot be used."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

from engine.engine import Engine


@contextmanager
def opened() -> Iterator[Engine]:
    """An engine on the user's data folder; of the index is told when the command is done, for then it is open."""
    with Engine.open() as engine:
        if engine.settings_problem:
            _say(engine.settings_problem)
        yield engine
        if engine.index_problem:
            _say(f"{engine.index_problem} ragdoll rescan makes it anew from your files.")


def _say(sentence: str) -> None:
    print(f"ragdoll: {sentence}", file=sys.stderr)
