"""Tests for engine.generation.instance: what a model does without while it is in memory, and while it is not."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

from engine.generation.instance import ModelInstance
from engine.generation.kv_room import KVRoom
from engine.phases import Phases


@pytest.mark.parametrize("is_folded", [False, True])
def test_answers_that_wait_go_to_the_disk_wherever_the_context_is(is_folded):
    saved_to: list[Path | None] = []
    shared = SimpleNamespace(keeps_in_cells=True, sets_aside_on_disk=True, kept_folder=Path("kept"))
    plan = SimpleNamespace(room=KVRoom(0, 0, 0, 0), settings=SimpleNamespace(generation=None))
    loaded = SimpleNamespace(plan=plan, keeps_in_cells=True, loop=SimpleNamespace(save_to=saved_to.append))
    planner = SimpleNamespace(shared=shared)
    told: list[object] = []
    instance = ModelInstance(loaded, planner, None, told.append, Phases(told.append), has_own_layers=False)
    instance.standby.is_folded = is_folded
    instance.obey()
    shared.sets_aside_on_disk = False
    instance.obey()
    assert saved_to == [Path("kept"), None]
