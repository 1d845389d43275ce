"""Reads held to one rate, for benches that stream from the disk: on a disk that swings, no two runs say the same.

A disk that is shared, or a virtual one, reads at .1 to 3 GB/s within an hour. With `--disk-rate` all that a bench
starts reads at most so fast together, as from a drive of that rate; what the disk itself is too slow for, it stays.
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
    """`--disk-rate MB`, which `within_group` follows."""
    about = "hold all reads together to so many megabytes a second"
    parser.add_argument("--disk-rate", type=_positive, metavar="MB", help=about)


@contextmanager
def held_reads(
    megabytes_per_s: int | None, groups: Path = CONTROL_GROUPS, devices: Path = BLOCK_DEVICES
) -> Iterator[None]:
    """This process and all that it starts read at most so fast in the block; None is as fast as the disk is.

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
            f"Reads cannot be held to a rate here: {error}. That takes control groups of version 1, and root on Linux."
        ) from error
    try:
        yield
    finally:
        (above / "cgroup.procs").write_text(str(os.getpid()))
        # Whoever stays in it is held on; the next bench removes what is left of it.
        with suppress(OSError):
            remove(group)


def _disks(devices: Path) -> list[str]:
    """The numbers of all that is a disk, and not made of others or of memory."""
    return [(one / "dev").read_text().strip() for one in sorted(devices.glob("*")) if (one / "device").exists()]


def _positive(text: str) -> int:
    number = int(text)
    if number <= 0:
        raise argparse.ArgumentTypeError("a rate is more than 0")
    return number
