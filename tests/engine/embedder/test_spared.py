"""Tests for engine.embedder.spared."""

from __future__ import annotations

import importlib
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from engine.embedder.spared import NEVER_CALLED, spared

_IN_A_NEW_PROCESS = """
import sys
from engine.config import EmbedderSettings
from engine.embedder import backends
from engine.embedder.spec import resolve

model = backends.load_whole(resolve(EmbedderSettings()))
[vector] = model.encode(["What is a wavefront?"], is_question=True)
assert vector.shape == (384,) and abs(float(vector @ vector) - 1) < 1e-3
assert not {"scipy", "sklearn"} & {name.partition(".")[0] for name in sys.modules}
from scipy.sparse import coo_matrix
assert coo_matrix(([1], ([0], [0]))).sum() == 1
"""


_WITH_A_VERSION_THAT_CALLS_THEM = """
import sys
from contextlib import contextmanager
from engine.embedder import backends

@contextmanager
def fails():
    import transformers
    yield
    raise AttributeError("scipy has no __version__")

backends.spared = fails
backends.load_whole_libraries()
assert "scipy" in sys.modules and "sentence_transformers" in sys.modules
"""


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A package with a module `deep` and a function `real` in it, which nobody has imported."""
    folder = tmp_path / "seldom_called"
    folder.mkdir()
    (folder / "__init__.py").touch()
    (folder / "deep.py").write_text("def real(): return 1\n")
    monkeypatch.syspath_prepend(tmp_path)
    yield folder.name
    for name in [name for name in sys.modules if name.startswith(folder.name)]:
        del sys.modules[name]


def test_sentence_transformers_loads_and_embeds_without_what_it_never_calls() -> None:
    ended = subprocess.run([sys.executable, "-c", _IN_A_NEW_PROCESS], capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr


def test_a_version_that_calls_what_is_spared_is_imported_with_it() -> None:
    code = _WITH_A_VERSION_THAT_CALLS_THEM
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr


def test_names_stand_for_nothing_in_the_block_and_for_themselves_after_it(package: str) -> None:
    before = list(sys.meta_path)
    with spared(frozenset({package})):
        name = importlib.import_module(f"{package}.deep").real
        assert isinstance(name, type)
        assert not isinstance(1, name)
    assert sys.meta_path == before
    assert importlib.import_module(f"{package}.deep").real() == 1


def test_what_is_there_already_is_left_alone(package: str) -> None:
    there = importlib.import_module(f"{package}.deep")
    with spared(frozenset({package})):
        assert importlib.import_module(f"{package}.deep") is there
    assert importlib.import_module(f"{package}.deep") is there


def test_other_threads_import_as_ever(package: str) -> None:
    found: list[int] = []
    with spared(frozenset({package})):
        thread = threading.Thread(target=lambda: found.append(importlib.import_module(f"{package}.deep").real()))
        thread.start()
        thread.join()
    assert found == [1]


def test_an_error_in_the_block_leaves_nothing_behind(package: str) -> None:
    before = list(sys.meta_path)

    def import_something_broken() -> None:
        with spared(frozenset({package})):
            importlib.import_module(package)
            raise ValueError("broken")

    with pytest.raises(ValueError, match="broken"):
        import_something_broken()
    assert sys.meta_path == before
    assert package not in sys.modules


def test_nothing_of_ours_calls_them() -> None:
    folder = Path(__file__).parents[3]
    for file in (*(folder / "engine").rglob("*.py"), *(folder / "app").rglob("*.py")):
        text = file.read_text(encoding="utf-8")
        assert not any(f"import {name}" in text or f"from {name}" in text for name in NEVER_CALLED), file
