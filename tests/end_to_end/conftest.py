"""What the processes of these tests share: one self-test of the embedder, instead of one each."""

from __future__ import annotations

from functools import partial

import pytest

from tests.helpers.homes import NewHome, home_that_knows, run_self_test


@pytest.fixture(scope="session")
def new_home(tmp_path_factory: pytest.TempPathFactory) -> NewHome:
    """Makes a data folder at a path; processes on it do not measure again."""
    cache = tmp_path_factory.mktemp("self-test") / "cache"
    run_self_test(cache)
    return partial(home_that_knows, cache)
