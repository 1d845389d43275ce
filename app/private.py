"""What is for its owner alone: on a machine with several users, nobody else reads their chats, or what they paste."""

from __future__ import annotations

import stat
from contextlib import suppress
from pathlib import Path

_OTHERS = stat.S_IRWXG | stat.S_IRWXO


def private_folder(folder: Path) -> None:
    """Makes a folder of ours, and has one that is there already be private. Raises OSError where it cannot be made."""
    folder.mkdir(mode=stat.S_IRWXU, parents=True, exist_ok=True)
    keep_private(folder)


def keep_private(path: Path) -> None:
    """Takes a file or a folder of ours from others, as far as its disk knows owners.

    A link stays as it is: it leads where somebody has chosen.
    """
    with suppress(OSError):
        mode = stat.S_IMODE(path.lstat().st_mode)
        if mode & _OTHERS and not path.is_symlink():
            path.chmod(mode & ~_OTHERS)
