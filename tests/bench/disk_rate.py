"""Limits a bench's read rate, because results on a disk of varying speed cannot be compared.

A shared or virtual disk may read at 0.1 to 3 GB/s within an hour. With `--disk-rate`, all processes of a bench together
read at most at that rate, as from a drive of that speed; a disk that is slower than the rate stays slower.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from tests.bench.confined import CONTROL_GROUPS, CannotConfine, new_name, remove, remove_left_behind

BLOCK_DEVICES = Path("/sys/block")
_BYTES_PER_MB = 1_000_000


def add_disk_rate_option(parser: argparse.ArgumentParser) -> None:
    """Adds `--disk-rate MB`, which `within_group` applies."""
    about = "limit the reads of all processes together to MB megabytes per second"
    parser.add_argument("--disk-rate", type=_positive, metavar="MB", help=about)


@contextmanager
def held_reads(
    megabytes_per_s: int | None, groups: Path = CONTROL_GROUPS, devices: Path = BLOCK_DEVICES
) -> Iterator[None]:
    """Limits the reads of this process and its children within the block; None sets no limit.

    Raises:
        CannotConfine: Reads cannot be limited here.
    """
    if megabytes_per_s is None:
        yield
        return
    above = groups / "blkio"
    remove_left_behind(above)
    group = new_name(above)
    try:
        group.mkdir()
        for device in _disks(devices):
            (group / "blkio.throttle.read_bps_device").write_text(f"{device} {megabytes_per_s * _BYTES_PER_MB}")
        (group / "cgroup.procs").write_text(str(os.getpid()))
    except OSError as error:
        with suppress(OSError):
            group.rmdir()
        raise CannotConfine(
            f"Reads cannot be limited here: {error}. This needs root and control groups of version 1 on Linux."
        ) from error
    try:
        yield
    finally:
        (above / "cgroup.procs").write_text(str(os.getpid()))
        # A process that stays in the group stays limited; the next bench removes the group.
        with suppress(OSError):
            remove(group)


def _disks(devices: Path) -> list[str]:
    """Returns the device numbers of physical disks: no partitions of software RAID or LVM, no memory devices."""
    return [(one / "dev").read_text().strip() for one in sorted(devices.glob("*")) if (one / "device").exists()]


def _positive(text: str) -> int:
    number = int(text)
    if number <= 0:
        raise argparse.ArgumentTypeError("the rate must be greater than 0")
    return number
