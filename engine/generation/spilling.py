"""Saves the KV of waiting answers as pages of a file: memory is freed, and nothing has to be computed again.

A prompt of a thousand tokens takes seconds to read, but its keys and values a tenth of a second from disk.
"""

from __future__ import annotations

import mmap
import os
import tempfile
from pathlib import Path

import numpy as np

from engine.generation.context import State
from engine.memory.room import require_disk_room


def on_disk(state: State, folder: Path) -> State:
    """Writes the bytes to an anonymous file and returns them mapped; it is deleted when no longer referenced.

    Raises:
        OSError: There is no room, or the folder cannot be written to.
    """
    folder.mkdir(parents=True, exist_ok=True)
    require_disk_room(folder, state.nbytes)
    with tempfile.TemporaryFile(dir=folder, prefix="answer-") as file:
        file.write(state.data)
        file.flush()
        # Only pages that were written back can leave memory.
        os.fsync(file.fileno())
        mapped = mmap.mmap(file.fileno(), state.nbytes, access=mmap.ACCESS_READ)
        if hasattr(os, "posix_fadvise"):
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    return np.frombuffer(mapped, np.uint8)
