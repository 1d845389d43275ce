"""Tests for app.settings: folders of the platform, and a settings file that survives slips and newer versions."""

from __future__ import annotations

import os
import stat
import tomllib
from datetime import date
from pathlib import Path

import platformdirs
import pytest

from app.pasted import keep_text
from app.settings import AppHome, SettingsStore, WindowSettings


def test_folders_come_from_the_platform(tmp_path, monkeypatch):
    monkeypatch.delenv("RAGDOLL_HOME")
    for name in ("DATA", "CONFIG", "STATE", "CACHE"):
        monkeypatch.setenv(f"XDG_{name}_HOME", str(tmp_path / name.lower()))
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path / "runtime"))
    home = AppHome.find()
    assert home.data == tmp_path / "data" / "ragdoll"
    assert home.config == tmp_path / "config" / "ragdoll"
    assert home.logs.is_relative_to(tmp_path / "state")
    assert home.runtime.is_relative_to(tmp_path / "runtime")


def test_ragdoll_home_moves_all_of_them(tmp_path, monkeypatch):
    monkeypatch.setenv("RAGDOLL_HOME", str(tmp_path / "portable"))
    home = AppHome.find()
    home.create()
    for path in (home.chats_file, home.settings_file, home.lock_file):
        assert path.parent.is_dir()
        assert path.is_relative_to(tmp_path / "portable")


def test_the_engine_finds_the_same_folders(tmp_path, monkeypatch):
    from engine.config import Home

    (tmp_path / "runtime").mkdir(mode=0o700)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path / "runtime"))
    for override in (str(tmp_path / "portable"), ""):
        monkeypatch.setenv("RAGDOLL_HOME", override)
        ours, theirs = AppHome.find(), Home.find()
        assert (ours.data, ours.config, ours.logs, ours.runtime) == (
            theirs.data,
            theirs.config,
            theirs.logs,
            theirs.runtime,
        )


@pytest.fixture
def usual_umask():
    """What is made is for everybody to read, as most systems have it."""
    before = os.umask(0o022)
    yield
    os.umask(before)


@pytest.mark.usefixtures("usual_umask")
@pytest.mark.parametrize("is_of_before", [False, True])
def test_other_users_see_nothing_of_what_is_for_us_alone(tmp_path, is_of_before):
    home = AppHome.under(tmp_path / "home")
    ours = (home.config, home.logs, home.runtime, home.pasted_folder)
    if is_of_before:
        for folder in ours:
            folder.mkdir(parents=True)
    home.create()
    if not is_of_before:
        keep_text(home.pasted_folder, "A letter.", date(2026, 3, 1))
    assert [oct(stat.S_IMODE(folder.stat().st_mode)) for folder in ours] == ["0o700"] * 4
    # A folder of the user's own, and where models may lie for all.
    assert {stat.S_IMODE(folder.stat().st_mode) for folder in (tmp_path / "home", home.data)} == {0o755}


def unsafe(_: object) -> Path:
    raise PermissionError("runtime directory is owned by uid 1, not 2; set XDG_RUNTIME_DIR instead")


def of_a_session_that_is_over(_: object) -> Path:
    return Path(os.devnull, "1000", "ragdoll")


@pytest.mark.parametrize("found", [unsafe, of_a_session_that_is_over])
def test_without_a_runtime_folder_the_socket_is_among_our_data(tmp_path, monkeypatch, found):
    monkeypatch.delenv("RAGDOLL_HOME")
    for name in ("DATA", "CONFIG", "STATE"):
        monkeypatch.setenv(f"XDG_{name}_HOME", str(tmp_path / name.lower()))
    monkeypatch.setattr(platformdirs.PlatformDirs, "user_runtime_path", property(found))
    home = AppHome.find()
    home.create()
    assert home.socket_file == tmp_path / "data" / "ragdoll" / "run" / "window.socket"
    assert home.socket_file.parent.is_dir()


def test_the_lock_lies_beside_the_chats_whatever_becomes_of_the_runtime_folder(tmp_path, monkeypatch):
    monkeypatch.delenv("RAGDOLL_HOME")
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    homes = []
    for name in ("one", "two"):
        monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path / name))
        homes.append(AppHome.find())
    assert homes[0].socket_file != homes[1].socket_file
    assert {home.lock_file.parent for home in homes} == {home.chats_file.parent for home in homes}
    assert homes[0].lock_file == homes[1].lock_file


def test_without_a_file_the_defaults_hold_and_none_is_written(tmp_path):
    store = SettingsStore(tmp_path / "window.toml")
    assert store.settings == WindowSettings()
    assert list(tmp_path.iterdir()) == []


def test_a_change_is_written_at_once_and_read_again(tmp_path, qtbot):
    file = tmp_path / "config" / "window.toml"
    store = SettingsStore(file)
    with qtbot.wait_signal(store.settings_changed):
        store.change(theme="dark", font_scale=1.25, geometry="AdnQ==", is_sidebar_visible=False)
    assert SettingsStore(file).settings == store.settings
    assert store.settings.theme == "dark"
    assert [path.name for path in file.parent.iterdir()] == ["window.toml"]


@pytest.mark.parametrize("text", ["One \"line\"\nand\tanother\r\n\\ \x00 \u2028 😀 '''", "half \ud83d"])
def test_whatever_was_typed_is_read_again(tmp_path, text):
    store = SettingsStore(tmp_path / "window.toml")
    store.change(unsent_question=text)
    again = SettingsStore(tmp_path / "window.toml")
    assert (again.settings.unsent_question, again.problem) == (text.replace("\ud83d", "?"), "")


def test_what_the_disk_did_not_take_is_written_with_the_next_change(tmp_path):
    (tmp_path / "config").write_text("no folder")
    file = tmp_path / "config" / "window.toml"
    store = SettingsStore(file)
    store.change(unsent_question="Why?", geometry="AdnQ==")
    assert store.problem
    assert store.has_unwritten("unsent_question")
    assert not store.has_unwritten("unsent_edits")
    (tmp_path / "config").unlink()
    store.change(geometry="AdnQ==")
    assert (store.problem, store.has_unwritten("unsent_question")) == ("", False)
    assert SettingsStore(file).settings == store.settings


def test_nothing_is_told_or_written_when_nothing_changes(tmp_path, qtbot):
    store = SettingsStore(tmp_path / "window.toml")
    with qtbot.assert_not_emitted(store.settings_changed):
        store.change(theme="system")
    assert not (tmp_path / "window.toml").exists()


def test_keys_and_comments_we_do_not_know_are_kept(tmp_path):
    file = tmp_path / "window.toml"
    file.write_text('# mine\nfuture = "x"\ntheme = "light"\n\n[later]\na = 1\n')
    store = SettingsStore(file)
    store.change(theme="dark", last_collection="Flat")
    text = file.read_text()
    assert "# mine" in text
    values = tomllib.loads(text)
    assert values == {"future": "x", "theme": "dark", "last_collection": "Flat", "later": {"a": 1}}


@pytest.mark.parametrize(
    ("line", "name"),
    [
        ('theme = "purple"', "theme"),
        ("font_scale = 99", "font_scale"),
        ("font_scale = nan", "font_scale"),
        ("font_scale = true", "font_scale"),
        ('sources_width_px = "wide"', "sources_width_px"),
        ("sources_width_px = -1", "sources_width_px"),
        ("is_sidebar_visible = 1", "is_sidebar_visible"),
        ("language = 3", "language"),
    ],
)
def test_a_wrong_value_costs_that_value_only_and_is_named(tmp_path, line, name):
    file = tmp_path / "window.toml"
    file.write_text(f'geometry = "kept"\n{line}\n')
    store = SettingsStore(file)
    assert store.settings == WindowSettings(geometry="kept")
    assert name in store.problem


def test_a_whole_number_will_do_for_a_fraction(tmp_path):
    (tmp_path / "window.toml").write_text("font_scale = 2\n")
    assert SettingsStore(tmp_path / "window.toml").settings.font_scale == 2


@pytest.mark.parametrize("content", [b"theme = ", b"\xff\xfe\x00"])
def test_an_unreadable_file_is_kept_aside_at_the_next_write(tmp_path, content):
    file = tmp_path / "window.toml"
    file.write_bytes(content)
    store = SettingsStore(file)
    assert store.settings == WindowSettings()
    assert "window.toml" in store.problem
    store.change(theme="light")
    assert (tmp_path / "window.broken.toml").read_bytes() == content
    assert SettingsStore(file).settings.theme == "light"


@pytest.mark.parametrize("change", [{"theme": "purple"}, {"font_scale": 0.1}])
def test_a_wrong_change_changes_nothing(tmp_path, change):
    store = SettingsStore(tmp_path / "window.toml")
    with pytest.raises(ValueError, match=next(iter(change))):
        store.change(**change)
    assert store.settings == WindowSettings()
    assert not (tmp_path / "window.toml").exists()


def test_a_setting_nobody_declared_is_refused(tmp_path):
    with pytest.raises(TypeError):
        SettingsStore(tmp_path / "window.toml").change(colour="red")


def test_a_folder_that_cannot_be_written_costs_only_the_memory_of_it(tmp_path):
    (tmp_path / "config").write_text("a file where the folder should be")
    store = SettingsStore(Path(tmp_path / "config" / "window.toml"))
    store.change(theme="dark")
    assert store.settings.theme == "dark"
    assert "window.toml" in store.problem
    (tmp_path / "config").unlink()
    store.change(theme="light")
    assert store.problem == ""
