"""Tests for engine.memory.room."""

from __future__ import annotations

import random
from dataclasses import replace

from engine.config import GIB, MIB
from engine.core import Span
from engine.generation.weights.layer_leases import LayerLeases
from engine.memory.demand import Backlog, Budgets
from engine.memory.hardware import Device, Hardware
from engine.memory.ledger import Ledger
from engine.memory.planner import plan
from engine.memory.profile import Profile
from engine.memory.room import DISK_RESERVE_SHARE, Held, room_of, there_is
from tests.helpers.machines import MODELS, random_shape, wanted

FILES_BYTES = 2 * GIB


def machine(free: int = 10 * GIB, disk_free: int = 60 * GIB) -> Hardware:
    return Hardware(16 * GIB, free, 200 * GIB, disk_free, 2 * GIB)


def test_streamed_layers_give_no_room_on_the_disk_that_their_file_takes_anyway():
    chance = random.Random(7)
    for seed in range(40):
        shape, ledger = random_shape(chance), Ledger()
        layers = LayerLeases(ledger, shape.layer_bytes, 0)
        for layer in range(1, shape.num_layers):
            layers.show(layer, 0, "resident")
        ledger.take("kv", "files", "disk", FILES_BYTES)
        held = Held.by(ledger)
        assert held.disk_bytes == FILES_BYTES, seed
        free = chance.randint(0, 100) * GIB
        budget = chance.choice((None, GIB, 500 * GIB))
        demand = wanted(shape, fixed=(), held_disk_bytes=held.disk_bytes, budgets=Budgets(disk_bytes=budget))
        placement = plan(machine(disk_free=free), Profile(), Backlog(), demand)
        # Equation 1: what is written beyond what is there leaves the reserve free.
        assert placement.kv_disk_bytes <= max(0, free + FILES_BYTES - int(200 * GIB * DISK_RESERVE_SHARE)), seed
        assert budget is None or placement.kv_disk_bytes <= budget, seed
        layers.release()


def test_a_budget_of_the_disk_is_for_what_we_write_and_not_for_the_models_file():
    demand = wanted(MODELS[1], fixed=(), budgets=Budgets(disk_bytes=GIB))
    assert room_of(machine(), demand).disk_bytes == GIB + MODELS[1].file_bytes


def test_those_who_work_for_us_take_their_memory_once():
    alone = wanted(MODELS[0], fixed=())
    parsers = Span("parsers", "all of it", "ram", 3 * GIB)
    beside = wanted(MODELS[0], fixed=(parsers,))
    # To the system they are other processes, so there is less for us: exactly what the plan takes for them.
    room = room_of(machine(free=10 * GIB), alone).ram_bytes
    assert room_of(machine(free=7 * GIB), beside).ram_bytes == room
    # Within a budget they are ours like everything else.
    bounded = replace(beside, budgets=Budgets(ram_bytes=4 * GIB))
    assert room_of(machine(free=7 * GIB), bounded).ram_bytes == 4 * GIB


def test_what_children_hold_is_found_in_the_ledger_as_it_is_now():
    ledger, sizes = Ledger(), [GIB]
    ledger.measure("parsers", "processes that read files", "ram", lambda: sizes[0])
    ledger.take("kv", "cells", "ram", 5 * MIB)
    ledger.take("kv", "cells", "gpu", 7 * MIB)
    sizes[0] = 2 * GIB
    assert Held.by(ledger) == Held(gpu_bytes=7 * MIB, children_bytes=2 * GIB)
    before = there_is(machine(free=10 * GIB), Held(children_bytes=GIB), 0)
    assert there_is(machine(free=9 * GIB), Held(children_bytes=2 * GIB), 0) == before


def with_device(free: int, *, shares_ram: bool, num_devices: int = 1) -> Hardware:
    device = Device("GPU0", "A card", 12 * GIB // num_devices, 11 * GIB // num_devices, shares_ram)
    return replace(machine(free=free), devices=(device,) * num_devices)


def test_what_lies_on_a_device_that_shares_memory_is_taken_from_memory_as_well():
    shape = max(MODELS, key=lambda each: each.file_bytes)
    assert shape.file_bytes > 24 * GIB
    for free in (6 * GIB, 10 * GIB, 14 * GIB):
        apart, shared = (with_device(free, shares_ram=shares) for shares in (False, True))
        demand = wanted(shape)
        for hardware in (apart, shared):
            placement = plan(hardware, Profile(), Backlog(), demand)
            room = room_of(hardware, demand)
            assert placement.gpu_bytes <= room.gpu_bytes
            taken = placement.ram_bytes + (placement.gpu_bytes if hardware is shared else 0)
            assert placement.is_starved or taken <= room.ram_bytes, free
        assert room_of(shared, demand).gpu_bytes <= room_of(shared, demand).ram_bytes


def test_every_device_computes_in_a_buffer_of_its_own():
    shape = max(MODELS, key=lambda each: each.file_bytes)
    one, two = (with_device(14 * GIB, shares_ram=False, num_devices=count) for count in (1, 2))
    alone, both = (plan(hardware, Profile(), Backlog(), wanted(shape)) for hardware in (one, two))
    workspaces = [
        sum(span.num_bytes for span in placement.spans if (span.owner, span.tier) == ("workspace", "gpu"))
        for placement in (alone, both)
    ]
    assert workspaces[0] > 0
    assert workspaces[1] == 2 * workspaces[0]
    assert both.gpu_bytes <= room_of(two, wanted(shape)).gpu_bytes
