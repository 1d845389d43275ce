"""Tests for engine.memory.search: leaving out what is not hopeful must never leave out the best."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from engine.memory import search
from engine.memory.room import room_of
from engine.memory.search import _WHOLE, _filled, _Key, _Prospect, _Task
from engine.memory.terms import Terms
from tests.engine.memory.test_planner import case


def keys_of_all(prospect: _Prospect) -> Iterator[_Key]:
    """Every way to fill memory with a frame, whatever its lower bound."""
    for level in prospect._levels:
        left = prospect.left - level.num_bytes
        if left < 0:
            continue
        if prospect._whole <= left:
            hope = prospect._hope(left, level.retrieval_s, level.restoring_s)
            yield prospect.key(hope, _filled(level.empty, _WHOLE, left))
        else:
            for latency, weights in prospect._partly(level, left):
                yield prospect.key(latency, _filled(level.empty, weights, left))


# Of seed 768, all layers are on the device: what is left of the weights in memory is read by no ring.
@pytest.mark.parametrize("start", [0, 100, 700])
def test_the_best_is_found_without_looking_at_all(start: int) -> None:
    num_found = 0
    for seed in range(start, start + 100):
        hardware, profile, backlog, demand = case(seed)
        room, has_device = room_of(hardware, demand), bool(hardware.devices)
        terms = Terms(
            demand,
            room.disk_bytes,
            num_devices=len(hardware.devices),
            device_shares_ram=hardware.device_shares_ram,
        )
        task = _Task(terms, room, profile, backlog)
        prospects = [
            _Prospect(task, frame) for frame in search.frames(terms, room, profile, backlog, has_device=has_device)
        ]
        keys = [key for prospect in prospects for key in keys_of_all(prospect)]
        if not keys:
            continue
        found = search.search(terms, room, profile, backlog, has_device=has_device)
        best = next(one for one in prospects if one.frame == found.frame)
        assert best.key(best.latency(found.filling), found.filling) == min(keys), seed
        num_found += 1
    assert num_found > 50
