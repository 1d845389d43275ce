"""What a collection is linked to, one line each: folders, and single files, which share a line if there are many.

A user who drops three hundred files wants to see that they were added, not three hundred lines.
"""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from engine.protocol import Collection, Folder

# More files of one folder share a line.
MAX_FILE_LINES = 3


@dataclass(frozen=True, slots=True)
class Linked:
    """A folder or file and its state (None until it is reported); or single files of the folder `path`."""

    path: str
    folder: Folder | None = None
    files: tuple[str, ...] = ()

    @property
    def paths(self) -> tuple[str, ...]:
        """What was linked."""
        return self.files or (self.path,)


def linked_of(collection: Collection, folders: Sequence[Folder]) -> tuple[Linked, ...]:
    """Returns the lines in the order of linking; files in reach and files out of reach do not share a line."""
    known = {folder.path: folder for folder in folders if folder.collection == collection.name}
    singles: dict[tuple[str, str], list[Folder]] = defaultdict(list)
    for path in collection.folders:
        if (folder := known.get(path)) is not None and not folder.is_folder:
            singles[_place(folder)].append(folder)
    lines = dict[tuple[str, str], Linked]()
    for path in collection.folders:
        folder = known.get(path)
        together = [] if folder is None or folder.is_folder else singles[_place(folder)]
        if folder is not None and len(together) > MAX_FILE_LINES:
            lines.setdefault(_place(folder), _line_of(together))
        else:
            lines[path, ""] = Linked(path, folder)
    return tuple(lines.values())


def _place(file: Folder) -> tuple[str, str]:
    return os.path.dirname(file.path) + os.sep, file.absence


def _line_of(files: Sequence[Folder]) -> Linked:
    first = files[0]
    folder = first.model_copy(
        update={
            "path": os.path.dirname(first.path),
            "is_watched": all(file.is_watched for file in files),
            "num_documents": sum(file.num_documents for file in files),
            "num_gone": sum(file.num_gone for file in files),
        }
    )
    return Linked(folder.path, folder, tuple(file.path for file in files))
