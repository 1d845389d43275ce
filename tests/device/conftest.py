"""A second device, and a worker that places models on it: this lane is skipped where llama.cpp sees none.

Any graphics card is one that its build can use. Mesa's llvmpipe needs no hardware: 2 GB of its own, slow, and the same
code as a card takes, by Vulkan. Its shaders are compiled when they are first needed, which takes minutes, and are kept
after that.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from engine.core import Evidence, Scope
from engine.events import AnswerFinished, PlacementSettled, TokensGenerated
from engine.generation.commands import UseModel
from engine.generation.model import start_backend
from engine.memory.demand import Backlog, Demand
from engine.memory.devices import Device, probe_devices
from engine.memory.hardware import Hardware
from engine.memory.placement import Placement
from engine.memory.planner import plan
from engine.memory.profile import Profile
from tests.engine.generation.conftest import ENDS, PASSAGES, Desk
from tests.helpers.decisive import margins_noted
from tests.helpers.tiny_gguf import write_tiny_model

LAYERS, CONTEXT_TOKENS = 8, 1024
# Kernels of a device add in another order and keep half the digits of an attention's sums.
NEAR_TIE = 0.05
PATIENCE_S = 1200.0
ANSWER: dict[str, Any] = {"max_tokens": 24, "repeat_penalty": 1.0}
# Read in seconds also where a device is slow.
EVIDENCE = Evidence(PASSAGES[:1], (), Scope(1, 1, 1))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.timeout(PATIENCE_S))


@pytest.fixture(scope="session", autouse=True)
def device() -> Device:
    """The one that llama.cpp computes on."""
    start_backend()
    found = next(iter(probe_devices()), None)
    if found is None:
        pytest.skip("llama.cpp sees no device here (tests/device/README.md)")
    return found


@pytest.fixture(scope="session")
def endless(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Seven megabytes of weights, of which a layer is an eighth, and two of keys and values for an answer."""
    return write_tiny_model(
        tmp_path_factory.mktemp("models") / "m.gguf",
        layers=LAYERS,
        dim=128,
        ff=352,
        heads=2,
        kv_heads=1,
        context=CONTEXT_TOKENS,
        chat_template=None,
        never_ends=True,
    )


@dataclass(frozen=True)
class Decisive:
    """A question, and the answer that the processor gives to it."""

    question: str
    text: str


def planning(hardware: Hardware, demand: Demand) -> Placement:
    """The planner's, for a device that is said to be fast even for so small layers."""
    return plan(hardware, Profile(hop_s=0.0), Backlog(), demand)


class DeviceDesk(Desk):
    """Waits for shaders to be compiled; may hold `gpu_budget_bytes` of the device, and nothing of it is kept free."""

    patience_s = PATIENCE_S

    def __init__(self, data_folder: Path, gpu_budget_bytes: int | None = None, n_ubatch: int = 0) -> None:
        super().__init__(data_folder, planning=planning)
        memory = self.settings.memory.model_copy(
            update={"gpu_budget_bytes": gpu_budget_bytes, "device_reserve_bytes": 0}
        )
        generation = self.settings.generation.model_copy(update={"parallel_answers": 2, "n_ubatch": n_ubatch})
        self.settings = self.settings.model_copy(update={"memory": memory, "generation": generation})

    def use(self, path: Path, n_gpu_layers: int | None = None) -> Placement:
        """Loads it, and tells how it was placed."""
        self.worker.use(UseModel(path, n_gpu_layers))
        self.model_state("loaded")
        return self.placement

    @property
    def placement(self) -> Placement:
        placement = self.loader.placement
        assert placement is not None
        return placement

    def apply(self, placement: Placement) -> PlacementSettled:
        self.worker.apply(placement)
        settled = self.wait_for(lambda event: isinstance(event, PlacementSettled))
        assert isinstance(settled, PlacementSettled)
        return settled

    def place(self, **wanted: Any) -> PlacementSettled:
        """Has the model placed otherwise, and waits until it is."""
        return self.apply(replace(self.placement, **wanted))

    def begin(self, question: str, **sampling: Any) -> None:
        """Asks, and waits until something of the answer can be seen."""
        self.ask(question, question, evidence=EVIDENCE, **{**ANSWER, **sampling})
        self.wait_until(lambda: any(_is_of(event, TokensGenerated, question) for event in list(self.events)))

    def text_of(self, question: str) -> str:
        """The whole answer, once it is there."""
        self.wait_until(lambda: any(_is_of(event, ENDS, question) for event in list(self.events)))
        end = next(event for event in self.events if _is_of(event, ENDS, question))
        assert isinstance(end, AnswerFinished), end
        return end.answer.text


@pytest.fixture(scope="session")
def decisive(endless: Path, tmp_path_factory: pytest.TempPathFactory) -> Decisive:
    """What the processor answers where no token hung on a near tie."""
    desk = DeviceDesk(tmp_path_factory.mktemp("processor"), 0)
    with margins_noted() as margins:
        desk.use(endless, n_gpu_layers=0)
        for seed in range(48):
            desk.ask(f"{seed}?", f"{seed}?", evidence=EVIDENCE, seed=seed, **ANSWER)
        texts = [desk.text_of(f"{seed}?") for seed in range(48)]
        desk.worker.stop()
    best = max(range(48), key=lambda seed: margins[seed])
    assert margins[best] > NEAR_TIE
    return Decisive(f"{best}?", texts[best])


@pytest.fixture
def device_desk(tmp_path: Path) -> Iterator[Callable[[int | None], DeviceDesk]]:
    """Makes a desk with a budget of the device."""
    desks: list[DeviceDesk] = []

    def make(gpu_budget_bytes: int | None = None) -> DeviceDesk:
        desks.append(DeviceDesk(tmp_path, gpu_budget_bytes))
        return desks[-1]

    yield make
    for desk in desks:
        desk.worker.stop()
        assert desk.ledger.spans() == ()


def _is_of(event: object, kind: Any, question: str) -> bool:
    return isinstance(event, kind) and event.question_id == question
