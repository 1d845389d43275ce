"""The command `ragdoll`, also `python -m engine.cli`, in a process of its own: it ends once the command has."""

import logging
import os
import sys
from contextlib import suppress

from engine.cli import main


def run() -> None:
    """Runs the command of this process, and ends the process with its exit code."""
    code = main()
    logging.shutdown()
    with suppress(OSError, ValueError):
        sys.stderr.flush()
    # Not sys.exit: an interpreter that winds down while a thread imports torch can hang, and everything is closed.
    os._exit(code)


if __name__ == "__main__":
    run()
