"""What the processes of these tests share: one self-test of the embedder, instead of one each."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest

from tests.helpers.homes import NewHome, home_that_knows, run_self_test
from tests.helpers.model_hub import ModelHub


@pytest.fixture(scope="session")
def new_home(tmp_path_factory: pytest.TempPathFactory) -> NewHome:
    """Makes a data folder at a path; processes on it do not measure again."""
    cache = tmp_path_factory.mktemp("self-test") / "cache"
    run_self_test(cache)
    return partial(home_that_knows, cache)


@pytest.fixture
def home(tmp_path: Path, new_home: NewHome, hub: ModelHub) -> Path:
    """A data folder whose models come from the `hub` of a file of tests; files without one have other homes."""
    home = new_home(tmp_path / "home")
    (home / "config").mkdir(parents=True, exist_ok=True)
    (home / "config" / "engine.toml").write_text(f'[models]\nhub = "{hub.address}"\n')
    return home
