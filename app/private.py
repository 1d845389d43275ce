"""Files for their owner alone: on a machine with several users, no other user reads the chats or pasted texts."""

from __future__ import annotations

import stat
from contextlib import suppress
from pathlib import Path

_OTHERS = stat.S_IRWXG | stat.S_IRWXO


def private_folder(folder: Path) -> None:
    """Makes a private folder of ours, or makes an existing one private. Raises OSError if it cannot be made."""
    folder.mkdir(mode=stat.S_IRWXU, parents=True, exist_ok=True)
    keep_private(folder)


def keep_private(path: Path) -> None:
    """Removes other users' rights to a file or folder of ours, if its disk supports owners.

    A link is left as it is: the user has chosen its target.
    """
    with suppress(OSError):
        mode = stat.S_IMODE(path.lstat().st_mode)
        if mode & _OTHERS and not path.is_symlink():
            path.chmod(mode & ~_OTHERS)
