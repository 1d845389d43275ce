"""Keeps standard output for ourselves: whatever native code prints goes to stderr instead.

A stray `printf` in llama.cpp, MuPDF or torch would corrupt the protocol, or a script's JSON.
"""

from __future__ import annotations

import os
import sys
from typing import BinaryIO

_OUTPUT, _ERRORS = 1, 2


def take_stdout() -> BinaryIO:
    """Points fd 1 at stderr for the rest of the process; returns what stdout was, as an unbuffered binary stream.

    If one of the two is closed, as in some jobs of the system, it becomes /dev/null. If stderr stayed closed, the next
    opened file would get its number, and that is the copy of stdout.
    """
    for number in (_OUTPUT, _ERRORS):
        _open_if_closed(number)
    if sys.stderr is None:
        # print(file=None) writes to stdout.
        sys.stderr = open(_ERRORS, "w", errors="backslashreplace", closefd=False)  # noqa: SIM115 - stays open
    ours = os.dup(_OUTPUT)
    os.dup2(_ERRORS, _OUTPUT)
    os.set_inheritable(ours, False)
    return os.fdopen(ours, "wb", buffering=0)


def _open_if_closed(number: int) -> None:
    try:
        os.fstat(number)
    except OSError:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        if nowhere == number:
            os.set_inheritable(nowhere, True)
        else:
            os.dup2(nowhere, number)
            os.close(nowhere)
