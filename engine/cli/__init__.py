"""The command line: the same Engine in this process, for people at a terminal and for scripts.

Scripts rely on this: with `--json` exactly one JSON document on stdout (one a line for `--batch`), logs on
stderr, exit code 0 also when single documents or questions of a batch failed, 1 on failure, 2 for bad arguments,
3 while the application holds the library, 4 when nothing is at a path. `RAGDOLL_HOME` moves all data.
"""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Sequence

from engine.cli.output import Output
from engine.cli.parser import make_parser
from engine.errors import BadRequest, LibraryHeld, NothingThere, RagdollError
from engine.memory.heap import lean_heap
from engine.stdio import take_stdout
from engine.yielding import switch_often

EXIT_OK, EXIT_FAILED, EXIT_BAD_ARGUMENTS, EXIT_HELD, EXIT_NOTHING_THERE = 0, 1, 2, 3, 4


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one command; the exit code tells how it went."""
    options = make_parser().parse_args(arguments)
    _quiet_logs(options.verbose)
    lean_heap()
    switch_often()
    out = Output(take_stdout(), options.json)
    try:
        options.run(options, out)
    except RagdollError as error:
        print(f"ragdoll: {error}", file=sys.stderr)
        return _exit_code(error)
    except KeyboardInterrupt:
        print("ragdoll: stopped.", file=sys.stderr)
        return 130
    except BrokenPipeError:
        return EXIT_OK
    return EXIT_OK


def _exit_code(error: RagdollError) -> int:
    if isinstance(error, LibraryHeld):
        return EXIT_HELD
    if isinstance(error, NothingThere):
        return EXIT_NOTHING_THERE
    return EXIT_BAD_ARGUMENTS if isinstance(error, BadRequest) else EXIT_FAILED


def _quiet_logs(verbose: bool) -> None:
    logging.basicConfig(
        stream=sys.stderr,
        level=logging.INFO if verbose else logging.ERROR,
        format="%(levelname)s %(name)s: %(message)s",
    )
    os.environ.setdefault("GGML_NO_BACKTRACE", "1")
