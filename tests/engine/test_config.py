"""Tests for engine.config."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path

import platformdirs
import pytest
from pydantic import ValidationError

from engine.config import IGNORE_FILE, GenerationSettings, Home, write_atomically
from engine.core import SamplingParams
from engine.errors import HomeUnusable
from engine.generation.sampling import MAX_BEAMS, check_sampling
from engine.library.ignoring import ignored_below


def test_folders_come_from_the_platform(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("RAGDOLL_HOME")
    for name in ("DATA", "CONFIG", "CACHE", "STATE"):
        monkeypatch.setenv(f"XDG_{name}_HOME", str(tmp_path / name.lower()))
    home = Home.find()
    assert home.library == tmp_path / "data" / "ragdoll" / "library"
    assert home.settings_file == tmp_path / "config" / "ragdoll" / "engine.toml"
    assert home.cache == tmp_path / "cache" / "ragdoll"
    assert home.logs.is_relative_to(tmp_path / "state")


def test_ragdoll_home_moves_all_of_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("RAGDOLL_HOME", str(tmp_path / "portable"))
    home = Home.find()
    folders = (home.data, home.config, home.cache, home.logs, home.runtime)
    assert all(folder.is_relative_to(tmp_path / "portable") for folder in folders)


def test_folders_that_cannot_be_made_are_told_of_with_a_way_out(tmp_path: Path):
    (tmp_path / "file").touch()
    with pytest.raises(HomeUnusable, match=r"file.*RAGDOLL_HOME"):
        Home.under(tmp_path / "file").create()


@pytest.fixture
def usual_umask() -> Iterator[None]:
    """What is made is for everybody to read, as most systems have it."""
    before = os.umask(0o022)
    yield
    os.umask(before)


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.mark.usefixtures("usual_umask")
@pytest.mark.parametrize("is_of_before", [False, True])
def test_other_users_see_nothing_of_what_documents_say(tmp_path: Path, is_of_before: bool):
    home = Home.under(tmp_path / "home")
    ours = home.library, home.config, home.cache, home.logs, home.runtime
    if is_of_before:
        for folder in ours:
            folder.mkdir(parents=True)
    home.create()
    assert [oct(mode(folder)) for folder in ours] == ["0o700"] * 5


@pytest.mark.usefixtures("usual_umask")
def test_what_others_may_share_stays_as_it_is(tmp_path: Path):
    home, elsewhere = Home.under(tmp_path / "home"), tmp_path / "large disk"
    (home.data / "models").mkdir(parents=True)
    elsewhere.mkdir()
    home.cache.symlink_to(elsewhere)
    home.create()
    assert {mode(folder) for folder in (tmp_path / "home", home.data, home.data / "models", elsewhere)} == {0o755}


def test_where_no_runtime_folder_can_be_made_we_do_without(tmp_path: Path):
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "run").touch()
    home = Home.under(tmp_path / "home")
    home.create()
    assert home.library.is_dir()


def test_where_no_runtime_folder_is_safe_it_is_among_our_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    def refused(_: object) -> Path:
        raise PermissionError("runtime directory is owned by uid 1, not 2; set XDG_RUNTIME_DIR instead")

    monkeypatch.delenv("RAGDOLL_HOME")
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    monkeypatch.setattr(platformdirs.PlatformDirs, "user_runtime_path", property(refused))
    assert Home.find().runtime == tmp_path / "ragdoll" / "run"


def test_a_failed_write_leaves_the_old_file(tmp_path: Path):
    file = tmp_path / "f"
    write_atomically(file, b"old")
    with pytest.raises(TypeError):
        write_atomically(file, "text")  # type: ignore[arg-type]
    assert file.read_bytes() == b"old"
    assert [entry.name for entry in tmp_path.iterdir() if entry.name != "ragdoll-home"] == ["f"]


def test_how_answers_are_sampled_follows_the_settings():
    chosen = {
        "temperature": 0.9, "top_k": 7, "top_p": 0.6, "min_p": 0.1, "typical_p": 0.8, "seed": 3, "repeat_window": 9,
        "repeat_penalty": 1.3, "presence_penalty": 0.5, "frequency_penalty": -0.5, "stop": ("END", "\n"),
        "dry_multiplier": 0.8, "xtc_probability": 0.5, "beam_width": 4,
    }  # fmt: skip
    sampling = GenerationSettings(max_answer_tokens=77, **chosen).sampling()
    assert {name: getattr(sampling, name) for name in chosen} == chosen
    assert sampling.max_tokens == 77
    assert GenerationSettings().sampling() == SamplingParams()


def test_the_largest_numbers_can_be_sampled_with():
    check_sampling(GenerationSettings(seed=2**63 - 1, max_answer_tokens=2**31 - 1, top_k=2**31 - 1).sampling())
    check_sampling(GenerationSettings(beam_width=MAX_BEAMS).sampling())
    with pytest.raises(ValidationError):
        GenerationSettings(beam_width=MAX_BEAMS + 1)


def test_nothing_in_our_own_folders_is_a_document(tmp_path: Path):
    home = Home.under(tmp_path / "stick")
    home.create()
    (home.logs / "engine.log").write_text("A line.")
    for file in (home.library / "catalog.sqlite", home.logs / "engine.log", home.cache / "ocr" / "page.gz"):
        assert ignored_below(str(tmp_path), str(file), is_folder=False)
    assert not ignored_below(str(tmp_path), str(tmp_path / "stick" / "mine.md"), is_folder=False)
    assert not [*home.logs.glob(f".{IGNORE_FILE}*")]
    # What somebody wrote there stays.
    (home.logs / IGNORE_FILE).write_text("!*.log\n")
    home.create()
    assert not ignored_below(str(tmp_path), str(home.logs / "engine.log"), is_folder=False)
