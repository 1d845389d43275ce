"""Tests for engine.generation.offloading."""

from __future__ import annotations

import os
import random
from dataclasses import replace

import pytest

from engine.generation.offloading import VARIABLE, tell_backends
from engine.memory.profile import Profile
from tests.helpers.machines import random_shape

BESIDE_A_CARD = Profile(processor_rate=3.17e11, host_to_device_bytes_per_s=53e9)
DENSE = replace(random_shape(random.Random(1)), expert_share=0.0)


@pytest.fixture(autouse=True)
def unset(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "")
    del os.environ[VARIABLE]


@pytest.mark.parametrize("shape", [None, DENSE])
def test_backends_copy_layers_as_soon_as_that_pays_on_this_machine(shape):
    tell_backends(BESIDE_A_CARD, shape)
    assert os.environ[VARIABLE] == "4"


def test_for_a_mixture_and_for_whoever_has_set_it_everything_stays():
    tell_backends(BESIDE_A_CARD, replace(DENSE, expert_share=0.9))
    assert VARIABLE not in os.environ
    os.environ[VARIABLE] = "17"
    tell_backends(BESIDE_A_CARD, None)
    assert os.environ[VARIABLE] == "17"
