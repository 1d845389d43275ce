"""Memory limits for measured processes, enforced by the kernel: a control group of version 1 or 2.

The limit counts a process's own memory and the file pages that it was the first to touch. Pages that another process
brought in are free for the group, so a file that is to be measured must be dropped from the page cache first
(`forget_pages`).
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
# The shell joins the group before it becomes the measured process, so all of that process's memory is counted.
_JOIN = ("/bin/sh", "-c", 'echo $$ > "$0" && exec "$@"')
_PREFIX = "ragdoll-bench-"
_MAX_EMPTYING_SECONDS = 5.0


class CannotConfine(Exception):
    """Memory cannot be limited here; the message is a sentence."""


@dataclass(frozen=True, slots=True)
class Usage:
    """What a group holds, in bytes, and its events.

    `limit_hits` counts allocations that exceeded the limit, so that pages had to be reclaimed first.
    """

    anonymous_bytes: int
    shared_bytes: int
    file_bytes: int
    limit_hits: int
    kills: int

    @property
    def held_bytes(self) -> int:
        """Returns what cannot be read again from a file: anonymous and shared memory."""
        return self.anonymous_bytes + self.shared_bytes


@dataclass(frozen=True, slots=True)
class Group:
    """A control group that limits memory."""

    folder: Path
    version: Literal[1, 2]

    def entered(self, command: Sequence[str]) -> list[str]:
        """Returns the command such that it runs in the group, with all its children."""
        return [*_JOIN, str(self.folder / "cgroup.procs"), *command]

    def usage(self) -> Usage:
        statistics = (self.folder / "memory.stat").read_text()
        if self.version == 1:
            hits = (self.folder / "memory.failcnt").read_text()
            return usage_v1(statistics, hits, (self.folder / "memory.oom_control").read_text())
        return usage_v2(statistics, (self.folder / "memory.events").read_text())


def find(base: Path = CONTROL_GROUPS) -> Group:
    """Returns the group below which others can be created.

    Raises:
        CannotConfine: There is none, or we lack the permission.
    """
    for group in (Group(base / "memory", 1), Group(base, 2)):
        if _limits_memory(group) and os.access(group.folder, os.W_OK):
            return group
    raise CannotConfine(
        "Memory cannot be limited here: there is no control group for memory that we can write to "
        f"below {base}. Run it as root on Linux."
    )


@contextmanager
def confined(limit_bytes: int, parent: Group) -> Iterator[Group]:
    """Creates a group with that limit and no swap; its processes must end within the block, which removes it.

    Raises:
        CannotConfine: The group cannot be created or limited.
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
    """Drops a file from the page cache, except for pages that a process has mapped."""
    descriptor = os.open(file, os.O_RDONLY)
    try:
        os.fsync(descriptor)
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
    finally:
        os.close(descriptor)


def usage_v1(statistics: str, hits: str, oom_control: str) -> Usage:
    """Parses memory.stat, memory.failcnt and memory.oom_control; `cache` includes shared memory."""
    found, kills = _numbers(statistics), _numbers(oom_control)
    shared = found.get("shmem", 0)
    return Usage(found["rss"], shared, found["cache"] - shared, int(hits), kills.get("oom_kill", 0))


def usage_v2(statistics: str, events: str) -> Usage:
    """Parses memory.stat and memory.events; `file` includes shared memory."""
    found, met = _numbers(statistics), _numbers(events)
    return Usage(found["anon"], found["shmem"], found["file"] - found["shmem"], met["max"], met["oom_kill"])


def _numbers(text: str) -> Mapping[str, int]:
    """Parses lines of a name and a number each."""
    return {name: int(value) for name, value in (line.split() for line in text.splitlines() if line.strip())}


def _limits_memory(group: Group) -> bool:
    """Returns whether child groups can limit memory."""
    if group.version == 1:
        return (group.folder / "memory.limit_in_bytes").is_file()
    handed_down = group.folder / "cgroup.subtree_control"
    try:
        if "memory" not in handed_down.read_text().split():
            # Without systemd, nothing else enables the controller.
            handed_down.write_text("+memory")
        return "memory" in handed_down.read_text().split()
    except OSError:
        return False


def limit(group: Group, limit_bytes: int) -> None:
    """Sets or changes the limit of a group, without swap. Raises CannotConfine if that fails."""
    try:
        if group.version == 1:
            (group.folder / "memory.limit_in_bytes").write_text(str(limit_bytes))
            # Kernels without swap accounting have no such file.
            with suppress(OSError):
                (group.folder / "memory.memsw.limit_in_bytes").write_text(str(limit_bytes))
        else:
            (group.folder / "memory.max").write_text(str(limit_bytes))
            with suppress(OSError):
                (group.folder / "memory.swap.max").write_text("0")
    except OSError as error:
        raise CannotConfine(f"Memory cannot be limited here: {error}.") from error


def new_name(above: Path) -> Path:
    """Returns the path of a new group; its name tells which process created it."""
    return above / f"{_PREFIX}{os.getpid()}-{time.monotonic_ns()}"


def remove_left_behind(above: Path) -> None:
    """Removes groups of benches that were killed; their processes ended with them."""
    for folder in above.glob(f"{_PREFIX}*"):
        process = folder.name.removeprefix(_PREFIX).partition("-")[0]
        if not Path("/proc", process).exists():
            with suppress(OSError):
                folder.rmdir()


def remove(group: Path) -> None:
    """Removes a group, waiting for processes that were just killed to leave it.

    Raises:
        OSError: It still has processes after that.
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
