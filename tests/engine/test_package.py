"""Tests for the package engine itself: what importing it does, and what it leaves undone."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest


def printed(code: str, **environment: str) -> str:
    """What a fresh interpreter prints; variables of libraries for threads are only there if the test says so."""
    ours = ("OMP_WAIT_POLICY", "OPENBLAS_NUM_THREADS")
    inherited = {name: value for name, value in os.environ.items() if name not in ours}
    done = subprocess.run(
        [sys.executable, "-c", code], env=inherited | environment, capture_output=True, text=True, check=True
    )
    return done.stdout.strip()


@pytest.mark.parametrize(("chosen", "policy"), [({}, "PASSIVE"), ({"OMP_WAIT_POLICY": "ACTIVE"}, "ACTIVE")])
def test_openmp_is_told_to_sleep_before_it_is_loaded_unless_the_user_said_otherwise(chosen: dict, policy: str):
    code = "import engine, os, sys; print(os.environ['OMP_WAIT_POLICY'], 'torch' in sys.modules)"
    assert printed(code, **chosen) == f"{policy} False"


@pytest.mark.parametrize(("chosen", "number"), [({}, "1"), ({"OPENBLAS_NUM_THREADS": "3"}, "3")])
def test_numpy_is_told_to_start_no_threads_before_it_is_loaded_unless_the_user_said_otherwise(
    chosen: dict, number: str
):
    code = "import engine, os, sys; print(os.environ['OPENBLAS_NUM_THREADS'], 'numpy' in sys.modules)"
    assert printed(code, **chosen) == f"{number} False"


def test_the_engine_class_is_imported_on_first_use_only():
    heavy = "[name for name in ('torch', 'llama_cpp', 'lancedb', 'numpy', 'pydantic') if name in sys.modules]"
    assert printed(f"import engine, sys; print({heavy})") == "[]"
    assert printed("import engine; print(engine.Engine.__name__)") == "Engine"


def test_an_unknown_name_is_an_attribute_error():
    import engine

    with pytest.raises(AttributeError, match="nothing"):
        engine.nothing  # noqa: B018 - the access is the test
