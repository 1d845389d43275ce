"""Runs our modules in a process of their own, which finds this package but nothing in the working directory.

Python looks in the working directory first, where users may have a `json.py`; `-P` prevents that.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

PACKAGE_ROOT = Path(__file__).resolve().parents[1]


def command_of(module: str, *arguments: str) -> list[str]:
    """Returns the command that starts a module by its full name; to be used with `environment`."""
    return [sys.executable, "-P", "-m", module, *arguments]


def environment() -> dict[str, str]:
    """Returns our environment, with this package on the path of the child."""
    paths = (str(PACKAGE_ROOT), os.environ.get("PYTHONPATH", ""))
    return {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths))}
