"""Tests for engine.generation.loading: loading with less, where an allocation fails or ended the process before."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from engine.config import GIB, Settings
from engine.errors import ModelLoadFailed, NoRoomToLoad
from engine.events import Event, MemoryShort
from engine.generation.building import lack_of_room_told
from engine.generation.load_plan import LoadPlan, plan_load, unmeasured
from engine.generation.load_trials import LoadTrials, _identity
from engine.generation.loading import Attempts, load
from engine.memory.hardware import Device, Hardware

MACHINE = Hardware(16 * GIB, 8 * GIB, 100 * GIB, 50 * GIB, 0)
WITH_CARD = replace(MACHINE, devices=(Device("Vulkan0", "A card", 8 * GIB, 7 * GIB),))


class Bench:
    """Loads that only note how they were requested; the first `refuses` of them find no room."""

    def __init__(self, folder: Path, model: Path, hardware: Hardware = MACHINE, refuses: int = 0) -> None:
        self.mark = folder / "mark.json"
        self.trials = LoadTrials(self.mark)
        self.plan = plan_load(model, Settings(), hardware, None)
        self.told: list[Event] = []
        self.begun: list[LoadPlan] = []
        self.marked: list[bool] = []
        self.is_given_up = False
        self._hardware, self._refuses = hardware, refuses

    def load(self, error: Callable[[str], Exception] = NoRoomToLoad) -> Any:
        def build(plan: LoadPlan) -> Any:
            self.marked.append(self.mark.exists())
            if len(self.begun) <= self._refuses:
                raise error("There is no room.")
            return plan

        attempts = Attempts(
            self.trials,
            lambda: self._hardware,
            unmeasured,
            self.told.append,
            self.begun.append,
            build,
            lambda: self.is_given_up,
        )
        return load(self.plan, attempts)

    def leave_mark(self) -> None:
        """As an engine does after a load has ended its process."""
        mark = {**_identity(self.plan.path), "deaths": 1}
        self.mark.write_text(json.dumps({str(self.plan.path): mark}), encoding="ascii")


def test_a_model_that_finds_room_is_loaded_as_planned(tmp_path, tiny_model):
    bench = Bench(tmp_path, tiny_model)
    assert bench.load() is bench.plan
    assert (bench.told, bench.marked, bench.mark.exists()) == ([], [True], False)


def test_without_room_one_thing_after_the_other_is_done_without_and_told(tmp_path, tiny_model):
    bench = Bench(tmp_path, tiny_model, refuses=2)
    loaded = bench.load()
    assert [plan.placement.num_slots for plan in bench.begun] == [4, 2, 1]
    assert [rung.kind for rung in loaded.given_up] == ["fewer_cells", "fewer_cells"]
    assert [event.sentence for event in bench.told if isinstance(event, MemoryShort)] == [
        f"There is no room. {rung.sentence}" for rung in loaded.given_up
    ]
    assert loaded.sentence.endswith(loaded.given_up[-1].sentence)
    assert bench.marked == [True, True, True]


def test_with_a_graphics_card_keys_and_values_leave_it_before_there_is_room_for_fewer_answers(tmp_path, tiny_model):
    bench = Bench(tmp_path, tiny_model, WITH_CARD, refuses=2)
    loaded = bench.load()
    assert bench.plan.placement.kv_on_gpu
    assert bench.plan.placement.n_gpu_layers == 3
    assert [rung.kind for rung in loaded.given_up] == ["kv_to_ram", "fewer_cells"]
    assert loaded.given_up[0].tier == "gpu"
    assert not loaded.placement.kv_on_gpu


def test_what_finds_no_room_in_memory_leaves_what_lies_on_a_graphics_card_there(tmp_path, tiny_model):
    bench = Bench(tmp_path, tiny_model, WITH_CARD, refuses=1)
    bench.plan = plan_load(tiny_model, Settings(), WITH_CARD, 2)
    loaded = bench.load(lambda sentence: NoRoomToLoad(sentence, is_in_memory=True))
    assert [(rung.tier, rung.kind) for rung in loaded.given_up] == [("ram", "fewer_cells")]
    assert (loaded.placement.kv_on_gpu, loaded.placement.n_gpu_layers) == (True, 2)


def test_where_nothing_is_left_to_do_without_the_load_has_failed(tmp_path, tiny_model):
    bench = Bench(tmp_path, tiny_model, refuses=100)
    with pytest.raises(NoRoomToLoad):
        bench.load()
    assert not bench.mark.exists()
    assert len(bench.begun) < 10


def test_what_nobody_wants_any_more_is_not_tried_with_less(tmp_path, tiny_model):
    bench = Bench(tmp_path, tiny_model, refuses=100)
    bench.is_given_up = True
    with pytest.raises(NoRoomToLoad):
        bench.load()
    assert len(bench.begun) == 1


def test_a_model_that_less_does_not_help_is_tried_once(tmp_path, tiny_model):
    bench = Bench(tmp_path, tiny_model, refuses=100)
    with pytest.raises(ModelLoadFailed):
        bench.load(ModelLoadFailed)
    assert len(bench.begun) == 1


def test_a_load_that_ended_the_process_takes_less_the_next_time_and_says_why(tmp_path, tiny_model):
    bench = Bench(tmp_path, tiny_model)
    bench.leave_mark()
    loaded = bench.load()
    assert [plan.placement.num_slots for plan in bench.begun] == [2]
    assert loaded.sentence.endswith(
        "Ragdoll's engine ended while it loaded this model, so it takes less now. "
        "There is room for 2 answers at once instead of 4; the others wait."
    )
    assert not bench.mark.exists()


def test_what_a_load_had_to_do_without_is_told_until_it_is_had(tmp_path, tiny_model):
    bench = Bench(tmp_path, tiny_model, refuses=1)
    loaded = bench.load()
    told = "There is room for 2 answers at once instead of 4; the others wait."
    assert loaded.sentence.endswith(told)
    assert told not in replace(loaded, given_up=()).placed(bench.plan.placement).sentence


@pytest.mark.parametrize(
    ("what", "is_in_memory"),
    [
        ("alloc_tensor_range: failed to allocate CPU buffer of size 5932544", True),
        ("alloc_tensor_range: failed to allocate CPU_REPACK buffer of size 5932544", True),
        ("ggml_backend_cpu_buffer_type_alloc_buffer: failed to allocate buffer of size 5932544", True),
        ("failed to allocate Vulkan_Host buffer of size 5932544", True),
        ("alloc_tensor_range: failed to allocate Vulkan0 buffer of size 5932544", False),
        ("ggml_backend_cuda_buffer_type_alloc_buffer: allocating 9.00 MiB on device 0: out of memory", False),
    ],
)
def test_which_memory_had_no_room_is_told(what: str, is_in_memory: bool):
    with pytest.raises(NoRoomToLoad) as caught, lack_of_room_told():
        raise ModelLoadFailed(f"m.gguf could not be loaded ({what}).")
    assert caught.value.is_in_memory is is_in_memory


@pytest.mark.parametrize(
    ("sentence", "kind"),
    [
        ("m.gguf could not be loaded (ggml_backend_cuda_buffer_type_alloc_buffer: failed).", NoRoomToLoad),
        ("m.gguf could not be loaded (cudaMalloc failed: out of memory).", NoRoomToLoad),
        ("m.gguf could not be loaded (vk::Device::allocateMemory: ErrorOutOfDeviceMemory).", NoRoomToLoad),
        ("There is no room for a context of 4,096 tokens.", NoRoomToLoad),
        ("m.gguf could not be loaded (unknown model architecture: 'x').", ModelLoadFailed),
        ("m.gguf could not be loaded (tensor 'a' data is not within the file bounds).", ModelLoadFailed),
    ],
)
def test_a_failed_allocation_is_told_from_a_file_that_nothing_helps(sentence: str, kind: type[ModelLoadFailed]):
    with pytest.raises(ModelLoadFailed) as caught, lack_of_room_told():
        raise ModelLoadFailed(sentence, "Choose another.")
    assert type(caught.value) is kind
    assert (caught.value.sentence, caught.value.way_out) == (sentence, "Choose another.")
