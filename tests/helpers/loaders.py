"""A loader of models as an engine has it, in a folder of its own."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from engine.config import Settings
from engine.events import Publish
from engine.generation.load_plan import Planning, unmeasured
from engine.generation.load_planner import LoadPlanner
from engine.generation.load_trials import LoadTrials
from engine.generation.loader import MakeRoom, ModelLoader
from engine.generation.shared_resources import SharedResources
from engine.memory.ledger import Ledger


def loader_in(
    folder: Path,
    publish: Publish = lambda event: None,
    ledger: Ledger | None = None,
    settings: Callable[[], Settings] = Settings,
    planning: Planning = unmeasured,
    make_room: MakeRoom = lambda placement, is_given_up: None,
) -> ModelLoader:
    """Keeps what it reads in `folder`; other memory competes with nothing."""
    shared = SharedResources(
        folder / "kv", ledger if ledger is not None else Ledger(), LoadTrials(folder / "model-on-trial.json")
    )
    return ModelLoader(LoadPlanner(settings, folder, shared, planning), publish, make_room=make_room)
