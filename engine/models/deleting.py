"""Deleting a model: its files in our folder, with unfinished parts of them, and nothing else."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from engine.models.download import parts_of
from engine.models.source import pieces_of


@dataclass(frozen=True, slots=True)
class Deletable:
    """The files of a model, all of them in `folder`."""

    folder: Path
    files: tuple[Path, ...]
    num_bytes: int

    def delete(self) -> None:
        """Deletes them, and folders that are empty then. Raises OSError if the system refuses."""
        for file in self.files:
            file.unlink(missing_ok=True)
        for parent in self.files[0].parents:
            if parent == self.folder:
                return
            try:
                parent.rmdir()
            except OSError:
                return


def deletable(path: Path, folders: Iterable[Path]) -> Deletable | None:
    """Returns what may be deleted of a model; None if it is outside of these folders, or any of its files is a link."""
    # A path with a cycle of links or a NUL is not one of our files.
    with suppress(OSError, RuntimeError, ValueError):
        # A link to a folder may lead outside.
        place = path.parent.resolve() / path.name
        names = [place.with_name(name) for name in pieces_of(path.name)]
        files = [file for name in names for file in (name, *parts_of(name)) if file.is_symlink() or file.is_file()]
        folder = next((one for one in map(Path.resolve, folders) if place.is_relative_to(one)), None)
        is_plain = path.suffix.casefold() == ".gguf" and not any(file.is_symlink() for file in files)
        if files and folder is not None and is_plain:
            return Deletable(folder, tuple(files), sum(file.stat().st_size for file in files))
    return None
