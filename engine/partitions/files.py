"""The partitions' files in their folder: a rewritten shard gets a new name, and the old file is deleted when it can be.

Windows neither replaces nor deletes a file that is open or mapped, and a search may still use the old one. Of two files
of a shard the newer one counts.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Collection
from pathlib import Path

from engine.partitions.durable import SUFFIX_MEANWHILE, dropped
from engine.partitions.layout import SUFFIX, Origin, PartitionDamaged
from engine.partitions.partition import Partition

log = logging.getLogger(__name__)

_NAME = re.compile(r"(\d{6,})(?:-(\d+))?")


def path_of(folder: Path, number: int, rewriting: int = 0) -> Path:
    """Returns the path of a shard's file: of the first one (0), or of a rewritten one."""
    return folder / (f"{number:06d}-{rewriting}{SUFFIX}" if rewriting else f"{number:06d}{SUFFIX}")


def next_path(folder: Path, number: int) -> Path:
    """Returns an unused path for the shard, with a higher number than all existing ones."""
    taken = [rewriting for path in _files(folder) for of, rewriting in [_read_name(path)] if of == number]
    return path_of(folder, number, max(taken, default=-1) + 1)


def open_all(folder: Path, origin: Origin) -> dict[int, Partition]:
    """Opens all usable files, by number; deletes those that a killed process left half written.

    Raises:
        OSError: The folder cannot be used, or the system does not open a file now, which may be intact.
    """
    folder.mkdir(parents=True, exist_ok=True)
    for leftover in folder.glob(f"*{SUFFIX_MEANWHILE}"):
        dropped(leftover)
    partitions: dict[int, Partition] = {}
    for path in sorted(_files(folder), key=_read_name):
        try:
            partition = Partition.open(path, origin)
        except PartitionDamaged as error:
            log.info("partition dropped: %s", error)
            continue
        if partition.number != _read_name(path)[0]:
            log.info("partition dropped: %s is partition %d", path.name, partition.number)
            continue
        partitions[partition.number] = partition
    return partitions


def drop_others(folder: Path, kept: Collection[Path]) -> bool:
    """Deletes all files of shards except `kept`; returns whether all could be deleted. Raises OSError."""
    left = [path for path in _files(folder) if path not in kept and not dropped(path)]
    return not left


def _files(folder: Path) -> list[Path]:
    return [*folder.glob(f"*{SUFFIX}")]


def _read_name(path: Path) -> tuple[int, int]:
    """Returns number and rewriting; (−1, 0) for a name in another form."""
    found = _NAME.fullmatch(path.stem)
    return (int(found[1]), int(found[2] or 0)) if found else (-1, 0)
