"""The user's models as the picker shows them: from headers only, each with its fit here or its problem."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TypeAlias

from engine.config import Settings
from engine.errors import ModelError
from engine.memory.concessions import conceding
from engine.memory.demand import Backlog, Demand
from engine.memory.hardware import Hardware
from engine.memory.placement import Placement
from engine.memory.planner import plan
from engine.memory.profile import Profile
from engine.models.catalogue import KnownModel
from engine.models.fit import demand_of, demand_of_known
from engine.protocol import ModelEntry

Planning: TypeAlias = Callable[[Hardware, Demand], Placement]


def planning_by(profile: Callable[[], Profile]) -> Planning:
    """Returns a function that plans for a single question with this profile, with the concessions of a real load."""
    return lambda hardware, demand: conceding(partial(plan, hardware, profile(), Backlog()), demand)


# For a machine without measurements.
by_guess = planning_by(Profile)


def entry(
    path: Path,
    settings: Settings,
    hardware: Hardware,
    planning: Planning = by_guess,
    beside: Callable[[Demand], Demand] = lambda demand: demand,
) -> ModelEntry:
    """Describes a model; an unusable file stays in the list with the reason, so that the user can act on it.

    Args:
        path: Its file, or the first of several.
        settings: The present settings.
        hardware: The machine's hardware, and what is free.
        planning: Places a model that is not loaded.
        beside: Adds to a demand what competes with the model.
    """
    try:
        demand = beside(demand_of(path, settings))
    except ModelError as error:
        return ModelEntry(path=str(path), name=path.stem, problem=str(error))
    return _placed(path, demand, planning(hardware, demand), hardware)


def to_be_had(
    known: KnownModel,
    path: Path,
    settings: Settings,
    hardware: Hardware,
    planning: Planning = by_guess,
    beside: Callable[[Demand], Demand] = lambda demand: demand,
) -> ModelEntry:
    """Describes a model of the catalogue approximately as `entry` would; `path` is where its file will be."""
    demand = beside(demand_of_known(known.shape(), known.head_size, settings))
    return _placed(path, demand, planning(hardware, demand), hardware)


def _placed(path: Path, demand: Demand, placement: Placement, hardware: Hardware) -> ModelEntry:
    shape = demand.shape
    return ModelEntry(
        path=str(path),
        name=shape.name,
        architecture=shape.architecture,
        file_bytes=shape.file_bytes,
        num_layers=shape.num_layers,
        trained_context=shape.trained_context,
        planned_gpu_layers=placement.layers_on_gpu,
        has_gpu=bool(hardware.devices),
        fit=placement.sentence,
        fits=placement.fits,
        offer=placement.offer,
        tokens_per_s=placement.prediction.tokens_per_s,
        ttft_s=placement.prediction.ttft_s,
    )
