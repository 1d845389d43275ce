"""A side of a bench: a process with its own memory limit that answers requests as lines of JSON.

Imported by a bench, this module starts a side and queries it; imported by a side, it serves the requests (`serve`).
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
    """A memory limit in bytes, for a group below `parent`."""

    num_bytes: int
    parent: Group


class SideProcess:
    """A running side; `settled` is its first answer, when it was ready."""

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
        """Yields a side that answers within the block.

        Args:
            module: Name of the module to run; it gets `settings` as JSON.
            settings: Settings of the side; its group is added (see `group_of`).
            limit: Memory limit; None sets none.
            interpreter: Interpreter of another environment; None is ours.
            is_ours: Whether threads wait as in the engine; otherwise they use the libraries' defaults.

        Raises:
            PeerFailed: It does not start within its limit.
            CannotConfine: Memory cannot be limited.
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
        """Returns the side's answer.

        Raises:
            PeerFailed: The side ended, or was killed for exceeding its limit.
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
            return PeerFailed(f"{self._name} was killed: it needed more memory than its limit.")
        return PeerFailed(f"{self._name} ended before it answered; see its output above.")


def group_of(settings: Mapping[str, Any]) -> Group | None:
    """Returns a side's group, from its settings; None if it has no limit."""
    if "group" not in settings:
        return None
    return Group(Path(settings["group"]), settings["group_version"])


def serve(prepare: Callable[[Said], Callable[[Said], Said]]) -> None:
    """Runs a side's `__main__`: prepares with its settings, then answers line by line until the input ends.

    `prepare` returns the function that answers; its first request, when the side is ready, is {}.
    """
    # Keeps the output of libraries out of the answers.
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
