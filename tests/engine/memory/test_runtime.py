"""Tests for engine.memory.runtime."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from engine.memory.heap import Heap
from engine.memory.ledger import Ledger
from engine.memory.process import ProcessMemory
from engine.memory.runtime import Runtime, remainder


@dataclass
class Machine:
    """A process whose figures are what a test says."""

    anonymous: int = 100
    files: int = 30
    shared: int = 0
    freed: int = 0
    tells_kinds: bool = True

    def process(self) -> ProcessMemory:
        rss_bytes = self.anonymous + self.files + self.shared
        if not self.tells_kinds:
            return ProcessMemory(rss_bytes, rss_bytes, tells_kinds=False)
        return ProcessMemory(rss_bytes, self.anonymous, self.files, self.shared)

    def heap(self) -> Heap:
        return Heap(1000 + self.freed, 1000)


@pytest.fixture
def machine() -> Machine:
    return Machine()


def started(machine: Machine) -> tuple[Ledger, Runtime]:
    ledger = Ledger()
    return ledger, Runtime(ledger, machine.process, machine.heap)


def told(ledger: Ledger) -> dict[str, int]:
    return {span.what: span.num_bytes for span in ledger.spans("ram") if span.owner == "runtime"}


def unknown(ledger: Ledger, machine: Machine) -> int:
    ledger.look()
    return remainder(ledger, machine.process()).kept_bytes


def test_what_is_there_at_the_start_is_the_runtimes(machine: Machine):
    machine.freed = 20
    ledger, _ = started(machine)
    assert told(ledger) == {"freed, kept for the next use": 20, "interpreter and libraries": 80, "libraries' files": 30}
    assert unknown(ledger, machine) == 0


def test_what_others_had_entered_before_is_not_entered_twice(machine: Machine):
    ledger = Ledger()
    ledger.take("kv", "cells", "ram", 60)
    ledger.take("weights", "layer 0", "ram", 25, is_mapped=True)
    Runtime(ledger, machine.process, machine.heap)
    assert told(ledger)["interpreter and libraries"] == 40
    assert told(ledger)["libraries' files"] == 5


def test_what_grows_unasked_is_not_accounted_for(machine: Machine):
    ledger, runtime = started(machine)
    machine.anonymous += 50
    runtime.settle()
    assert unknown(ledger, machine) == 50
    ledger.take("kv", "cells", "ram", 70)
    assert unknown(ledger, machine) == -20


def test_an_import_is_measured_without_what_others_take_meanwhile(machine: Machine):
    ledger, _ = started(machine)
    with ledger.growing("runtime", "torch"):
        machine.anonymous += 150
        ledger.take("embedder", "weights", "ram", 90)
    assert told(ledger)["torch"] == 60
    assert unknown(ledger, machine) == 0


def test_imports_within_imports_count_once(machine: Machine):
    ledger, _ = started(machine)
    with ledger.growing("runtime", "transformers"):
        machine.anonymous += 10
        with ledger.growing("runtime", "torch"):
            machine.anonymous += 50
        machine.anonymous += 5
    assert (told(ledger)["torch"], told(ledger)["transformers"]) == (50, 15)


def test_what_has_come_so_far_is_entered_while_it_grows(machine: Machine):
    ledger, runtime = started(machine)
    machine.anonymous += 7
    with ledger.growing("embedder", "tokenizers") as growth:
        machine.anonymous += 30
        assert unknown(ledger, machine) == 7
        assert told(ledger)["tokenizers, being loaded"] == 30
        with ledger.growing("runtime", "torch"):
            machine.anonymous += 50
            weights = ledger.take("weights", "on trial", "ram", 20)
            machine.anonymous += 20
            assert unknown(ledger, machine) == 7
            assert (told(ledger)["tokenizers, being loaded"], told(ledger)["torch, being loaded"]) == (30, 50)
        weights.release()
        machine.anonymous -= 20 + 10
        assert unknown(ledger, machine) == 7
        assert told(ledger)["tokenizers, being loaded"] == 20
    assert (ledger.held_bytes("ram", "embedder"), told(ledger)["torch"]) == (20, 50)
    assert not any("being loaded" in what for what in told(ledger))
    growth.release()
    assert runtime.unnamed_bytes() == 27


def test_imports_at_once_that_end_in_any_order_count_once(machine: Machine):
    ledger, runtime = started(machine)
    first, second = ledger.growing("runtime", "lancedb"), ledger.growing("runtime", "torch")
    first.__enter__()
    machine.anonymous += 10
    second.__enter__()
    machine.anonymous += 50
    first.__exit__(None, None, None)
    machine.anonymous += 5
    second.__exit__(None, None, None)
    assert (told(ledger)["lancedb"], told(ledger)["torch"], runtime.unnamed_bytes()) == (10, 55, 0)


def test_an_owner_that_cannot_count_gives_back_what_was_measured(machine: Machine):
    ledger, _ = started(machine)
    with ledger.growing("embedder", "tokenizers") as growth:
        machine.anonymous += 16
    assert ledger.held_bytes("ram", "embedder") == 16
    growth.release()
    growth.release()
    assert ledger.held_bytes("ram", "embedder") == 0


def test_without_somebody_who_measures_nothing_is_entered():
    ledger = Ledger()
    with ledger.growing("embedder", "tokenizers") as growth:
        pass
    growth.release()
    assert ledger.spans() == ()


def test_an_import_that_brings_nothing_is_not_told(machine: Machine):
    ledger, _ = started(machine)
    with ledger.growing("runtime", "torch"):
        pass
    assert "torch" not in told(ledger)


def test_an_import_beside_a_model_that_is_loading_is_measured_when_that_is_there(machine: Machine):
    ledger, runtime = started(machine)
    weights = ledger.take("weights", "layer 0", "ram", 1000, "loading")
    with ledger.growing("runtime", "torch"):
        machine.anonymous += 50 + 300
    assert not runtime.settle()
    assert "torch" not in told(ledger)
    machine.anonymous += 700
    weights.mark("resident")
    assert runtime.settle()
    assert runtime.settle()
    assert told(ledger)["torch"] == 50
    assert unknown(ledger, machine) == 0


def test_an_import_that_fails_is_measured_all_the_same(machine: Machine):
    ledger, _ = started(machine)

    def fail() -> None:
        with ledger.growing("runtime", "torch"):
            machine.anonymous += 40
            raise ImportError("half of it is there")

    with pytest.raises(ImportError):
        fail()
    assert told(ledger)["torch"] == 40


def test_freed_memory_and_libraries_files_are_looked_at_each_time(machine: Machine):
    ledger, _ = started(machine)
    machine.freed, machine.anonymous, machine.files = 70, 170, 45
    ledger.take("weights", "layer 0", "ram", 10, is_mapped=True)
    ledger.look()
    assert told(ledger)["freed, kept for the next use"] == 70
    assert told(ledger)["libraries' files"] == 35
    assert unknown(ledger, machine) == 0


def test_memory_that_was_allocated_and_never_written_to_makes_nothing_up(machine: Machine):
    ledger, _ = started(machine)
    machine.freed = -30
    assert unknown(ledger, machine) == 30
    machine.anonymous -= 30
    assert unknown(ledger, machine) == 0
    assert told(ledger)["freed, kept for the next use"] == 0
    machine.freed, machine.anonymous = 40, 140
    assert unknown(ledger, machine) == 0


def test_what_was_never_written_to_is_taken_from_libraries_where_the_interpreter_is_smaller(machine: Machine):
    ledger, _ = started(machine)
    with ledger.growing("runtime", "torch"):
        machine.anonymous += 150
    machine.freed, machine.anonymous = -120, 250 - 120
    assert unknown(ledger, machine) == 0
    assert (told(ledger)["interpreter and libraries"], told(ledger)["torch"]) == (0, 130)
    machine.freed, machine.anonymous = 0, 250
    assert unknown(ledger, machine) == 0
    assert (told(ledger)["interpreter and libraries"], told(ledger)["torch"]) == (100, 150)


def test_shared_memory_counts_and_other_processes_do_not(machine: Machine):
    ledger, _ = started(machine)
    machine.shared += 33
    assert unknown(ledger, machine) == 33
    ledger.take("parsers", "processes that read files", "ram", 500)
    assert unknown(ledger, machine) == 33


def test_nothing_is_unnamed_where_pages_of_files_cannot_be_told_from_the_rest():
    machine = Machine(tells_kinds=False)
    ledger, runtime = started(machine)
    assert told(ledger)["interpreter and libraries"] == 130
    weights = ledger.take("weights", "layer 0", "ram", 400, "loading", is_mapped=True)
    with ledger.growing("runtime", "torch"):
        machine.anonymous, machine.files = machine.anonymous + 150, machine.files + 400
    weights.mark("resident")
    assert runtime.settle()
    assert told(ledger)["torch"] == 150
    machine.files += 300
    assert (runtime.unnamed_bytes(), unknown(ledger, machine)) == (0, 0)


def test_pages_of_a_model_that_does_not_fit_are_not_taken_for_libraries(machine: Machine):
    ledger, _ = started(machine)
    ledger.take("weights", "layer 0", "ram", 500, is_mapped=True, is_counted=False)
    ledger.take("weights", "the rest", "disk", 300, is_mapped=True, is_counted=False)
    machine.files += 700
    ledger.look()
    assert told(ledger)["libraries' files"] == 0


def test_a_real_process_begins_with_everything_accounted_for():
    ledger = Ledger()
    Runtime(ledger)
    held = ledger.held_bytes("ram", "runtime")
    assert held > 0
    ledger.look()
    from engine.memory.process import process_memory

    assert abs(remainder(ledger, process_memory()).kept_bytes) < held / 20


def loaded(machine: Machine) -> tuple[Ledger, Runtime]:
    """A model has been loaded, and torch imported meanwhile, which took 50 bytes."""
    ledger, runtime = started(machine)
    weights = ledger.take("weights", "layer 0", "ram", 1000, "loading")
    with ledger.growing("runtime", "torch"):
        machine.anonymous += 50
    weights.mark("resident")
    return ledger, runtime


def test_what_only_passes_at_the_first_quiet_look_is_not_taken_for_the_runtimes(machine: Machine):
    ledger, runtime = loaded(machine)
    machine.anonymous += 1000 + 300
    assert runtime.settle()
    assert told(ledger)["torch"] == 350
    machine.anonymous -= 300
    assert runtime.settle()
    ledger.look()
    assert (told(ledger)["torch"], unknown(ledger, machine)) == (50, 0)
    machine.anonymous += 20
    runtime.settle()
    assert unknown(ledger, machine) == 20


def test_what_was_settled_stays_as_it_is_after_some_looks(machine: Machine):
    ledger, runtime = loaded(machine)
    machine.anonymous += 1000
    for _ in range(20):
        runtime.settle()
    ledger.take("kv", "cells", "ram", 70)
    runtime.settle()
    ledger.look()
    assert told(ledger)["torch"] == 50
