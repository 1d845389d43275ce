"""Tests for the package engine itself: what importing it does, and what it leaves undone."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

import engine


def printed(code: str, **environment: str) -> str:
    """What a fresh interpreter prints; variables of libraries for threads are only there if the test says so."""
    inherited = {name: value for name, value in os.environ.items() if name not in engine.THREAD_SETTINGS}
    done = subprocess.run(
        [sys.executable, "-c", code], env=inherited | environment, capture_output=True, text=True, check=True
    )
    return done.stdout.strip()


def test_threads_that_wait_are_told_what_to_do_before_openmp_is_loaded_unless_the_user_said_otherwise():
    [(name, value)] = [one for one in engine.THREAD_SETTINGS.items() if one[0] != "OPENBLAS_NUM_THREADS"]
    code = f"import engine, os, sys; print(os.environ['{name}'], 'torch' in sys.modules, 'llama_cpp' in sys.modules)"
    assert printed(code) == f"{value} False False"
    assert printed(code, **{name: "200"}) == "200 False False"


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
    with pytest.raises(AttributeError, match="nothing"):
        engine.nothing  # noqa: B018 - the access is the test
