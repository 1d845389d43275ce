"""The profile on the disk: one file per machine and version of llama.cpp, always replaced as a whole."""

from __future__ import annotations

import hashlib
import json
import logging
import platform
from collections.abc import Iterable, Iterator
from dataclasses import asdict, fields
from importlib.metadata import PackageNotFoundError, version
from math import isfinite
from pathlib import Path
from typing import Any, TypeVar, cast

import psutil

from engine.config import write_atomically
from engine.memory.measured import Beside, Kind, Measured, Point, Split
from engine.memory.profile import Profile
from engine.memory.work import Work

log = logging.getLogger(__name__)
Number = TypeVar("Number", int, float)
# Before version 2, one core was taken for all of them.
_MEASURED_BY = 2
# The rate of a card that was added last: a card that was measured before that is measured again.
_NEWEST_OF_CARD = "pageable_to_device_bytes_per_s"
# The names of the processor's model in that file: on x86, ARM and POWER.
_ITS_NAMES = ("model name", "CPU part", "cpu")
# These are seconds and may be 0.
_MAY_BE_ZERO = frozenset({"retrieval_s", "retrieval_load_s", "retrieval_query_s", "hop_s"})


def profile_file(folder: Path) -> Path:
    """Returns the file of this machine's profile: another processor or version of llama.cpp has another one."""
    machine = (platform.machine(), _processor(), str(psutil.cpu_count()), _llama_version())
    return folder / f"profile-{hashlib.sha256(chr(0).join(machine).encode()).hexdigest()[:16]}.json"


def _processor() -> str:
    """Returns what the processor calls itself; on Linux `platform` does not report that."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return platform.processor()
    names = (value.strip() for name, _, value in (line.partition(":") for line in lines) if name.strip() in _ITS_NAMES)
    return next(names, platform.processor())


def load_profile(file: Path) -> Profile | None:
    """Reads what was measured before; None if no usable file is there."""
    try:
        return _profile(json.loads(file.read_bytes()))
    except (OSError, ValueError, TypeError, KeyError):
        return None


def save_profile(file: Path, profile: Profile) -> None:
    """Saves the profile; if the disk has no room for it, it is measured again the next time."""
    try:
        content = {**asdict(profile), "measured_by": _MEASURED_BY}
        write_atomically(file, json.dumps(content, indent=1).encode())
    except OSError as error:
        log.warning("the profile of this machine was not kept: %s", error)


def _profile(content: object) -> Profile:
    """Raises ValueError, TypeError or KeyError for what is no profile: a rate of 0 would be divided by."""
    if not isinstance(content, dict):
        raise TypeError("a profile is an object")
    known = {field.name: content[field.name] for field in fields(Profile) if field.name in content}
    rates = known.pop("disk_bytes_per_s", Profile().disk_bytes_per_s)
    # What backends are set to belongs to one process.
    known.pop("offloads_from_tokens", None)
    is_measured = bool(known.pop("is_measured", False)) and content.get("measured_by") == _MEASURED_BY
    card, unmeasurable = str(known.pop("card", "")), str(known.pop("unmeasurable", ""))
    card = card if _NEWEST_OF_CARD in content else ""
    tables = tuple(_tables(known.pop("tables", ())))
    numbers: dict[str, Any] = {name: float(value) for name, value in known.items()}
    depth1, depth2, depth4 = (float(rate) for rate in rates)
    for name, value in (*numbers.items(), *(("disk_bytes_per_s", rate) for rate in (depth1, depth2, depth4))):
        if not isfinite(value) or value < 0 or (value == 0 and name not in _MAY_BE_ZERO):
            raise ValueError(f"{name} cannot be {value}")
    disk_bytes_per_s = depth1, depth2, depth4
    return Profile(
        **numbers,
        disk_bytes_per_s=disk_bytes_per_s,
        is_measured=is_measured,
        card=card,
        unmeasurable=unmeasurable,
        tables=tables,
    )


def _tables(content: Iterable[Any]) -> Iterator[tuple[str, Measured]]:
    """Yields the tables that are valid; the others are measured again, and all rates are as good as before."""
    for entry in content:
        try:
            key, table = entry
            yield str(key), _measured(table)
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            log.warning("what was measured of a model was not readable: %s", error)


def _measured(content: dict[str, Any]) -> Measured:
    points = tuple(
        Point(
            Split(**one["split"]),
            _kind(one["kind"]),
            _above_zero(one["size"]),
            Work(**one["work"]),
            None if one["seconds"] is None else _above_zero(one["seconds"]),
            bool(one["is_hidden"]),
        )
        for one in content["points"]
    )
    beside = tuple(
        Beside(
            Split(**one["split"]),
            _above_zero(one["write_threads"]),
            _above_zero(one["scan_threads"]),
            _above_zero(one["writing"]),
            _above_zero(one["searching"]),
        )
        for one in content["beside"]
    )
    return Measured(points, beside)


def _kind(value: str) -> Kind:
    if value not in ("write", "read"):
        raise ValueError(f"a pass cannot be of the kind {value}")
    return cast("Kind", value)


def _above_zero(value: Number) -> Number:
    if not isfinite(value) or value <= 0:
        raise ValueError(f"{value} was never measured")
    return value


def _llama_version() -> str:
    try:
        return version("llama-cpp-python")
    except PackageNotFoundError:
        return ""
