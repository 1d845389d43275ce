"""Tests for engine.generation.offloading."""

from __future__ import annotations

import os
import random
from dataclasses import replace

import pytest

from engine.generation.offloading import VARIABLE, tell_backends
from engine.memory.profile import Profile
from tests.helpers.machines import random_shape

BESIDE_A_CARD = Profile(processor_rate=3.17e11, ram_bytes_per_s=92e9, host_to_device_bytes_per_s=33e9)
DENSE = replace(random_shape(random.Random(1)), expert_share=0.0)


@pytest.fixture(autouse=True)
def unset(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "")
    del os.environ[VARIABLE]


def test_backends_copy_layers_as_soon_as_that_pays_on_this_machine():
    assert tell_backends(BESIDE_A_CARD, DENSE) == 4
    assert os.environ[VARIABLE] == "4"
    # The backends have been told.
    assert tell_backends(replace(BESIDE_A_CARD, processor_rate=1e10), DENSE) == 4


@pytest.mark.parametrize("shape", [None, replace(DENSE, expert_share=0.9)])
def test_for_a_mixture_and_where_no_model_is_chosen_the_rule_stays(shape):
    assert tell_backends(BESIDE_A_CARD, shape) == 32
    assert VARIABLE not in os.environ


def test_what_somebody_has_set_stays():
    for value, holds in (("17", 17), ("many", 32)):
        os.environ[VARIABLE] = value
        assert tell_backends(BESIDE_A_CARD, DENSE) == holds
        assert os.environ[VARIABLE] == value
