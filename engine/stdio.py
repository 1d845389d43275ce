"""Keeps standard output for us alone: whatever native code prints goes to stderr instead.

A stray `printf` in llama.cpp, MuPDF or torch would corrupt the protocol, or a script's JSON.
"""

from __future__ import annotations

import os
from typing import BinaryIO


def take_stdout() -> BinaryIO:
    """Points fd 1 at stderr for the rest of the process; returns what stdout was, as an unbuffered binary stream."""
    try:
        os.fstat(1)
    except OSError:
        # Closed, as jobs of the system have it: nobody hears us.
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, 1)
        if nowhere != 1:
            os.close(nowhere)
    ours = os.dup(1)
    os.dup2(2, 1)
    os.set_inheritable(ours, False)
    return os.fdopen(ours, "wb", buffering=0)
