"""A side of a bench in a process with a memory limit of its own: asked in lines of JSON, it answers in lines of JSON.

Imported by the bench, this starts a side and asks it; imported by a side, it has it answer (`serve`).
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Self

from tests.bench.confined import Group, confined
from tests.bench.peer_process import running
from tests.bench.peers import PeerFailed

Said = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Limit:
    """So many bytes of memory, in a group below `parent`."""

    num_bytes: int
    parent: Group


class SideProcess:
    """A side that is running. `settled` is what it said when it was ready."""

    def __init__(self, name: str, process: subprocess.Popen[bytes], group: Group | None) -> None:
        self._name, self._process, self._group = name, process, group
        self.settled = self._receive()

    @classmethod
    @contextmanager
    def started(
        cls,
        module: str,
        settings: Mapping[str, Any],
        limit: Limit | None,
        interpreter: Path | None = None,
        *,
        is_ours: bool = False,
    ) -> Iterator[Self]:
        """One that answers as long as the block lasts.

        Args:
            module: What is run, by its name; called with `settings` as JSON.
            settings: What it is told; the group it is in comes along (see `group_of`).
            limit: What it may hold; None: as much as there is.
            interpreter: That of an environment of its own; None for ours.
            is_ours: Whether threads wait as the engine has them wait; else as they do by themselves.

        Raises:
            PeerFailed: It does not come up within its limit.
            CannotConfine: It cannot be limited.
        """
        with nullcontext() if limit is None else confined(limit.num_bytes, limit.parent) as group:
            told = {} if group is None else {"group": str(group.folder), "group_version": group.version}
            command = [str(interpreter or sys.executable), "-m", module, json.dumps({**settings, **told})]
            if group is not None:
                command = group.entered(command)
            environment = os.environ if is_ours else None
            with running(command, subprocess.PIPE, subprocess.PIPE, environment=environment) as process:
                yield cls(module.rpartition(".")[2], process, group)

    def ask(self, **asked: Any) -> Said:
        """What it answers.

        Raises:
            PeerFailed: It ended meanwhile, or was killed because it held more than it may.
        """
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps(asked).encode() + b"\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            raise self._failure() from None
        return self._receive()

    def _receive(self) -> Said:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise self._failure()
        received: Said = json.loads(line)
        return received

    def _failure(self) -> PeerFailed:
        if self._group is not None and self._group.usage().kills:
            return PeerFailed(f"{self._name} was killed: it wanted more memory than its limit.")
        return PeerFailed(f"{self._name} ended before it answered; its last lines are above.")


def group_of(settings: Mapping[str, Any]) -> Group | None:
    """The group that a side is in, from what it was told; None: nothing limits it."""
    if "group" not in settings:
        return None
    return Group(Path(settings["group"]), settings["group_version"])


def serve(prepare: Callable[[Said], Callable[[Said], Said]]) -> None:
    """What a side's `__main__` does: prepares with its settings, then answers line by line until there are no more.

    `prepare` returns what answers; what it is asked first, when it is ready, is {}.
    """
    # What libraries print must not be taken for an answer.
    with _own_stdout() as out:
        answer = prepare(json.loads(sys.argv[1]))
        _say(out, answer({}))
        for line in sys.stdin:
            _say(out, answer(json.loads(line)))


def _say(out: IO[str], said: Said) -> None:
    out.write(json.dumps(said) + "\n")
    out.flush()


@contextmanager
def _own_stdout() -> Iterator[IO[str]]:
    with os.fdopen(os.dup(1), "w", encoding="utf-8") as out:
        os.dup2(2, 1)
        yield out
