"""The command `ragdoll` on one data folder: in a process of its own as scripts start it, or in ours.

A process that embeds imports torch and its friends for ten seconds. So what only a process can show (exit codes,
signals, a stdout that no native code reaches) is shown by one, and what a command answers by the same function here.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest import mock

from engine import cli
from engine.cli.output import Output
from engine.cli.parser import make_parser
from tests.helpers.engine_process import PATIENCE_S


def ragdoll(*arguments: str) -> str:
    """What a command says on this process's own data folder; an error is raised as it is."""
    options = make_parser().parse_args(arguments)
    stream = io.BytesIO()
    options.run(options, Output(stream, options.json))
    return stream.getvalue().decode()


@dataclass(frozen=True, slots=True)
class Done:
    """How a command ended, and what it said."""

    code: int
    out: str
    error: str

    @property
    def json(self) -> Any:
        """The one JSON document of a command that succeeded."""
        assert self.code == 0, self.error
        assert "Traceback" not in self.error
        return json.loads(self.out)

    @property
    def lines(self) -> list[Any]:
        """A JSON document a line."""
        assert self.code == 0, self.error
        return [json.loads(line) for line in self.out.splitlines()]


class Running(subprocess.Popen[str]):
    """A command that runs. A test that fails meanwhile ends it, and is told where each of its threads is."""

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, traceback: object) -> None:
        if value is not None and self.poll() is None:
            self.send_signal(signal.SIGABRT)
            with contextlib.suppress(subprocess.TimeoutExpired, ValueError):
                value.add_note(self.communicate(timeout=PATIENCE_S)[1])
            self.kill()
        super().__exit__(kind, value, traceback)  # type: ignore[arg-type]


class Ragdoll:
    """The command on `home`; `prefix` is what a process of its own is started through."""

    def __init__(self, home: Path, prefix: tuple[str, ...] = ()) -> None:
        self.home, self._prefix = home, prefix

    def start(self, *arguments: str | Path) -> Running:
        return Running(
            [*self._prefix, sys.executable, "-X", "faulthandler", "-m", "engine.cli", *map(str, arguments)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "RAGDOLL_HOME": str(self.home)},
        )

    def run(self, *arguments: str | Path) -> Done:
        """In a process of its own."""
        with self.start(*arguments) as process:
            out, error = process.communicate(timeout=PATIENCE_S * 2)
        return Done(process.returncode, out, error)

    def run_here(self, *arguments: str | Path) -> Done:
        """In this process."""
        out, error = io.BytesIO(), io.StringIO()
        interval = sys.getswitchinterval()
        with (
            mock.patch.dict(os.environ, RAGDOLL_HOME=str(self.home)),
            mock.patch.object(cli, "take_stdout", return_value=out),
            contextlib.redirect_stderr(error),
        ):
            try:
                code = cli.main([str(argument) for argument in arguments])
            except SystemExit as ending:  # argparse's way of refusing arguments
                code = int(ending.code or 0)
            finally:
                sys.setswitchinterval(interval)
        return Done(code, out.getvalue().decode(), error.getvalue())

    def json(self, *arguments: str | Path) -> Any:
        """What a command that succeeds says to a script; in this process."""
        return self.run_here(*arguments, "--json").json
