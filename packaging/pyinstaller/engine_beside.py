"""Runs first in the frozen window: the engine is started with the Python that lies beside it, in a clean environment.

The window starts `sys.executable -m engine`; in a frozen program that would be the window itself.
"""

import os
import sys
from pathlib import Path

sys.executable = str(Path(sys.executable).parent / "engine" / "bin" / "python")

# PyInstaller's loader points these at its own copies of libraries; the engine's Python has its own.
for name in ("LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH"):
    original = os.environ.pop(f"{name}_ORIG", None)
    os.environ.pop(name, None)
    if original:
        os.environ[name] = original
