"""Runs our modules in a process of their own, which finds this package but nothing in the working directory.

Python looks in the working directory first, where people may have a `json.py`; `-P` has it not do so.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

PACKAGE_ROOT = Path(__file__).resolve().parents[1]


def command_of(module: str, *arguments: str) -> list[str]:
    """What starts a module by its full name; with `environment`."""
    return [sys.executable, "-P", "-m", module, *arguments]


def environment() -> dict[str, str]:
    """Ours, with this package on the path of the child."""
    paths = (str(PACKAGE_ROOT), os.environ.get("PYTHONPATH", ""))
    return {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths))}
