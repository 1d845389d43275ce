"""Tests for engine.models.deleting."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.models.deleting import deletable


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "models"
    (made / "owner" / "name").mkdir(parents=True)
    return made


def written(path: Path, num_bytes: int = 10) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"x" * num_bytes)
    return path


def test_a_model_goes_with_the_folders_that_were_made_for_it(folder: Path):
    model = written(folder / "owner" / "name" / "Q4" / "m.gguf")
    other = written(folder / "owner" / "other" / "m.gguf")
    found = deletable(model, [folder])
    assert found is not None
    assert found.num_bytes == 10
    found.delete()
    assert list(folder.rglob("*")) == [folder / "owner", other.parent, other]
    assert deletable(model, [folder]) is None


def test_the_folder_of_models_itself_stays(folder: Path):
    model = written(folder / "owner" / "name" / "m.gguf")
    found = deletable(model, [folder])
    assert found is not None
    found.delete()
    assert list(folder.iterdir()) == []


def test_all_files_of_a_model_go_and_what_was_begun_of_them(folder: Path):
    first, second = (written(folder / "owner" / "name" / f"m-0000{number}-of-00002.gguf") for number in (1, 2))
    part = written(Path(f"{second}.{'0' * 16}.part"), 5)
    beside = written(folder / "owner" / "name" / "m.gguf")
    found = deletable(first, [folder])
    assert found is not None
    assert (set(found.files), found.num_bytes) == ({first, second, part}, 25)
    found.delete()
    assert list(beside.parent.iterdir()) == [beside]


@pytest.mark.parametrize("name", ["elsewhere/m.gguf", "models2/m.gguf", "models/../m.gguf", "models/notes.txt"])
def test_nothing_else_is_deleted(folder: Path, tmp_path: Path, name: str):
    written(tmp_path / name)
    assert deletable(tmp_path / name, [folder]) is None


def test_no_link_is_followed_out_of_the_folder(folder: Path, tmp_path: Path):
    outside = written(tmp_path / "elsewhere" / "m.gguf")
    (folder / "linked.gguf").symlink_to(outside)
    (folder / "linked").symlink_to(outside.parent)
    assert deletable(folder / "linked.gguf", [folder]) is None
    assert deletable(folder / "linked" / "m.gguf", [folder]) is None
    written(folder / "m-00001-of-00002.gguf")
    (folder / "m-00002-of-00002.gguf").symlink_to(outside)
    assert deletable(folder / "m-00001-of-00002.gguf", [folder]) is None


def test_a_folder_of_models_may_be_a_link_itself(folder: Path, tmp_path: Path):
    model = written(folder / "owner" / "name" / "m.gguf")
    link = tmp_path / "link"
    link.symlink_to(folder)
    found = deletable(link / "owner" / "name" / "m.gguf", [link])
    assert found is not None
    found.delete()
    assert not model.exists()
    assert folder.is_dir()


def test_a_path_that_is_none_is_nothing_of_ours(folder: Path):
    (folder / "circle").symlink_to(folder / "circle")
    assert deletable(folder / "circle" / "m.gguf", [folder]) is None
    assert deletable(folder / "a\0b" / "m.gguf", [folder]) is None
