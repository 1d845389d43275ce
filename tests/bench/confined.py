"""A memory limit of its own for a process that is measured, kept by the kernel: a control group of version 1 or 2.

What the process holds, and what of a file's pages it was the first to touch, counts against the limit. A file that is
to be measured has to be forgotten first (`forget_pages`): pages that somebody else brought in cost the group nothing.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

CONTROL_GROUPS = Path("/sys/fs/cgroup")
# Its process joins before it becomes what is measured, so that all its memory is counted.
_JOIN = ("/bin/sh", "-c", 'echo $$ > "$0" && exec "$@"')
_PREFIX = "ragdoll-bench-"
_MAX_EMPTYING_SECONDS = 5.0


class CannotConfine(Exception):
    """Memory cannot be limited here; the message is a sentence."""


@dataclass(frozen=True, slots=True)
class Usage:
    """What a group holds, in bytes, and what it met.

    `limit_hits` counts how often memory was wanted that the limit did not allow: pages had to be given up first.
    """

    anonymous_bytes: int
    shared_bytes: int
    file_bytes: int
    limit_hits: int
    kills: int

    @property
    def held_bytes(self) -> int:
        """What cannot be had again from a file: the process's own memory, and what it shares with itself."""
        return self.anonymous_bytes + self.shared_bytes


@dataclass(frozen=True, slots=True)
class Group:
    """A control group that limits memory."""

    folder: Path
    version: Literal[1, 2]

    def entered(self, command: Sequence[str]) -> list[str]:
        """The command such that it runs in the group, with all it starts."""
        return [*_JOIN, str(self.folder / "cgroup.procs"), *command]

    def usage(self) -> Usage:
        statistics = (self.folder / "memory.stat").read_text()
        if self.version == 1:
            hits = (self.folder / "memory.failcnt").read_text()
            return usage_v1(statistics, hits, (self.folder / "memory.oom_control").read_text())
        return usage_v2(statistics, (self.folder / "memory.events").read_text())


def find(base: Path = CONTROL_GROUPS) -> Group:
    """The group below which others can be made.

    Raises:
        CannotConfine: There is none, or we may not.
    """
    for group in (Group(base / "memory", 1), Group(base, 2)):
        if _limits_memory(group) and os.access(group.folder, os.W_OK):
            return group
    raise CannotConfine(
        "Memory cannot be limited here: there is no control group for memory that we may write to "
        f"below {base}. Run it as root on Linux."
    )


@contextmanager
def confined(limit_bytes: int, parent: Group) -> Iterator[Group]:
    """A new group with that limit, without swap; gone after the block, in which its processes must have ended.

    Raises:
        CannotConfine: The group cannot be made or limited.
    """
    remove_left_behind(parent.folder)
    group = Group(new_name(parent.folder), parent.version)
    try:
        group.folder.mkdir()
    except OSError as error:
        raise CannotConfine(f"Memory cannot be limited here: {error}.") from error
    try:
        limit(group, limit_bytes)
        yield group
    finally:
        remove(group.folder)


def forget_pages(file: Path) -> None:
    """Has the system forget what it keeps of a file in memory, as far as nobody has it mapped."""
    descriptor = os.open(file, os.O_RDONLY)
    try:
        os.fsync(descriptor)
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
    finally:
        os.close(descriptor)


def usage_v1(statistics: str, hits: str, oom_control: str) -> Usage:
    """From memory.stat, memory.failcnt and memory.oom_control; `cache` has what is shared in it."""
    found, kills = _numbers(statistics), _numbers(oom_control)
    shared = found.get("shmem", 0)
    return Usage(found["rss"], shared, found["cache"] - shared, int(hits), kills.get("oom_kill", 0))


def usage_v2(statistics: str, events: str) -> Usage:
    """From memory.stat and memory.events; `file` has what is shared in it."""
    found, met = _numbers(statistics), _numbers(events)
    return Usage(found["anon"], found["shmem"], found["file"] - found["shmem"], met["max"], met["oom_kill"])


def _numbers(text: str) -> Mapping[str, int]:
    """Of lines that are a name and a number each."""
    return {name: int(value) for name, value in (line.split() for line in text.splitlines() if line.strip())}


def _limits_memory(group: Group) -> bool:
    """Whether groups below have files that limit memory."""
    if group.version == 1:
        return (group.folder / "memory.limit_in_bytes").is_file()
    handed_down = group.folder / "cgroup.subtree_control"
    try:
        if "memory" not in handed_down.read_text().split():
            # Nobody does where no systemd runs.
            handed_down.write_text("+memory")
        return "memory" in handed_down.read_text().split()
    except OSError:
        return False


def limit(group: Group, limit_bytes: int) -> None:
    """Sets, or changes, what a group may hold; without swap. Raises CannotConfine where that cannot be."""
    try:
        if group.version == 1:
            (group.folder / "memory.limit_in_bytes").write_text(str(limit_bytes))
            # Kernels that do not account for swap have no such file.
            with suppress(OSError):
                (group.folder / "memory.memsw.limit_in_bytes").write_text(str(limit_bytes))
        else:
            (group.folder / "memory.max").write_text(str(limit_bytes))
            with suppress(OSError):
                (group.folder / "memory.swap.max").write_text("0")
    except OSError as error:
        raise CannotConfine(f"Memory cannot be limited here: {error}.") from error


def new_name(above: Path) -> Path:
    """Of a group that is to be made there, by which it is known whose it was."""
    return above / f"{_PREFIX}{os.getpid()}-{time.monotonic_ns()}"


def remove_left_behind(above: Path) -> None:
    """Removes groups of benches that were killed; their processes ended with them."""
    for folder in above.glob(f"{_PREFIX}*"):
        process = folder.name.removeprefix(_PREFIX).partition("-")[0]
        if not Path("/proc", process).exists():
            with suppress(OSError):
                folder.rmdir()


def remove(group: Path) -> None:
    """A process that was just killed is in its group for a moment longer.

    Raises:
        OSError: It is still there after that.
    """
    deadline = time.monotonic() + _MAX_EMPTYING_SECONDS
    while True:
        try:
            group.rmdir()
        except OSError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.05)
        else:
            return
