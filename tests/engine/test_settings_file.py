"""Tests for engine.settings_file."""

from __future__ import annotations

import os
import threading
import tomllib
from pathlib import Path

import pytest

from engine.config import GenerationSettings, Settings
from engine.errors import BadRequest, DiskFull, HomeUnusable
from engine.settings_file import SettingsStore


def test_a_change_is_in_force_and_on_disk(tmp_path: Path):
    file = tmp_path / "engine.toml"
    SettingsStore(file).change({"generation.temperature": 0.9, "models.known": ("/a.gguf",)})
    again = SettingsStore(file).settings
    assert (again.generation.temperature, again.models.known) == (0.9, ("/a.gguf",))


@pytest.mark.parametrize(
    ("typed", "address"),
    [
        ("", "https://huggingface.co"),
        (" https://huggingface.co/ ", "https://huggingface.co"),
        ("hf-mirror.com", "https://hf-mirror.com"),
        ("http://127.0.0.1:8080/huggingface", "http://127.0.0.1:8080/huggingface"),
        ("localhost:8080", "https://localhost:8080"),
        ("https://[::1]:80", "https://[::1]:80"),
    ],
)
def test_the_address_of_a_hub_is_taken_as_people_type_it(tmp_path: Path, typed: str, address: str):
    assert SettingsStore(tmp_path / "engine.toml").change({"models.hub": typed}).models.hub == address
    assert SettingsStore(tmp_path / "engine.toml").settings.models.hub == address


@pytest.mark.parametrize(
    "typed",
    ["ftp://mirror", "https://", "https:///models", "a nice mirror", "https://mirror:port", "https://mirror:99999",
     "https://mirror?x=1", "https://mirror#top", "https://[::1", "https://mirror/a b"],
)  # fmt: skip
def test_what_is_no_address_of_a_hub_is_told_as_it_was_typed(tmp_path: Path, typed: str):
    store = SettingsStore(tmp_path / "engine.toml")
    with pytest.raises(BadRequest) as error:
        store.change({"models.hub": typed})
    assert error.value.sentence == f"That setting cannot be used: models.hub: {typed!r} is no address of a hub."
    assert store.settings.models.hub == "https://huggingface.co"


def test_unknown_keys_and_comments_of_the_file_are_kept(tmp_path: Path):
    file = tmp_path / "engine.toml"
    file.write_text('# mine\n[future]\nkey = "kept"\n[generation]\ntemperature = 0.5\n')
    SettingsStore(file).change({"generation.seed": 4})
    text = file.read_text()
    assert "# mine" in text
    assert tomllib.loads(text) == {"future": {"key": "kept"}, "generation": {"temperature": 0.5, "seed": 4}}


@pytest.mark.parametrize(
    "changes",
    [
        {"generation.temperature": -1},
        {"generation.nothing": 1},
        {"nothing": 1},
        {"no.thing": 1},
        {"no.library": 1},
        {"x": {}},
    ],
)
def test_a_wrong_change_is_refused_and_changes_nothing(tmp_path: Path, changes: dict):
    store = SettingsStore(tmp_path / "engine.toml")
    with pytest.raises(BadRequest):
        store.change({"generation.seed": 4, **changes})
    assert store.settings == Settings()
    assert not (tmp_path / "engine.toml").exists()


def test_none_takes_a_setting_back_to_its_default(tmp_path: Path):
    store = SettingsStore(tmp_path / "engine.toml")
    store.change({"generation.n_gpu_layers": 4})
    store.change({"generation.n_gpu_layers": None})
    assert SettingsStore(tmp_path / "engine.toml").settings.generation.n_gpu_layers is None


def test_wrong_values_cost_only_themselves_and_are_told_until_they_are_mended(tmp_path: Path):
    file = tmp_path / "engine.toml"
    file.write_text(
        "[generation]\ntemperature = 99\nseed = 4\n"
        '[embedder]\nmodel = "another/model"\n'
        '[models]\nknown = ["/a.gguf", 7, "/b.gguf"]\n'
        "[memory]\nram_budget_bytes = []\n"
    )
    store = SettingsStore(file)
    assert store.settings.generation == GenerationSettings(seed=4)
    assert store.settings.embedder.model == "another/model"
    assert store.settings.models.known == ("/a.gguf", "/b.gguf")
    assert store.settings.memory == Settings().memory
    assert "temperature" in store.problem
    assert "99" in file.read_text()
    store.change({"generation.temperature": 0.5, "memory.ram_budget_bytes": None})
    assert "known" in store.problem
    store.change({"models.known": ("/c.gguf",)})
    assert store.problem == ""


def test_what_is_mended_while_we_run_is_kept_and_comes_into_force_with_the_next_change(tmp_path: Path):
    file = tmp_path / "engine.toml"
    file.write_text("[generation]\ntemperature = 99\n[embedder]\nmodel = 7\n")
    store = SettingsStore(file)
    store.assume({"embedder.model": "the library's"})
    file.write_text('[generation]\ntemperature = 0.7\ninstructions = "In German."\n[embedder]\nmodel = "mine"\n')
    settings = store.change({"memory.may_lose": True})
    assert (settings.generation.temperature, settings.generation.instructions) == (0.7, "In German.")
    assert (settings.embedder.model, settings.memory.may_lose) == ("mine", True)
    assert store.problem == ""
    assert SettingsStore(file).settings == settings


def test_what_was_written_by_hand_waits_for_a_change_that_can_be_made(tmp_path: Path):
    file = tmp_path / "engine.toml"
    store = SettingsStore(file)
    before = store.settings
    file.write_text("[generation]\ntemperature = 0.7\n")
    with pytest.raises(BadRequest):
        store.change({"generation.temperature": 99})
    assert store.settings == before
    assert store.change({"memory.may_lose": True}).generation.temperature == 0.7


def test_what_is_garbled_while_we_run_is_set_aside_and_costs_no_setting(tmp_path: Path):
    file = tmp_path / "engine.toml"
    store = SettingsStore(file)
    store.change({"generation.seed": 4})
    file.write_text("{{{")
    settings = store.change({"memory.may_lose": True})
    assert SettingsStore(file).settings == settings
    assert settings.generation.seed == 4
    assert (tmp_path / "engine.broken.toml").read_text() == "{{{"


def test_a_table_that_is_none_costs_that_table(tmp_path: Path):
    file = tmp_path / "engine.toml"
    file.write_text('generation = "hot"\n[models]\ncurrent = "/a.gguf"\n')
    store = SettingsStore(file)
    assert (store.settings.generation, store.settings.models.current) == (GenerationSettings(), "/a.gguf")
    store.change({"generation.temperature": 0.5})
    assert SettingsStore(file).settings == store.settings
    assert store.problem == ""


def test_what_could_not_be_read_can_be_assumed_and_is_written_with_the_next_change(tmp_path: Path):
    file = tmp_path / "engine.toml"
    file.write_text("[embedder]\nmodel = 7\n[generation]\ntemperature = 99\n")
    store = SettingsStore(file)
    assert [store.knows(name) for name in ("embedder.model", "embedder.device", "generation.temperature")] == [
        False,
        True,
        False,
    ]
    store.assume({"embedder.model": "another/model"})
    assert store.settings.embedder.model == "another/model"
    assert "another" not in file.read_text()
    store.change({"generation.temperature": 0.5})
    assert SettingsStore(file).settings.embedder.model == "another/model"


def test_a_file_that_is_no_toml_is_set_aside(tmp_path: Path):
    file = tmp_path / "engine.toml"
    file.write_text("{{{")
    for _ in range(2):
        # At each start until something is written.
        store = SettingsStore(file)
        assert store.settings == Settings()
        assert "engine.broken.toml" in store.problem
        assert not store.knows("embedder.model")
    store.change({"generation.seed": 4})
    assert store.problem == SettingsStore(file).problem == ""
    assert (tmp_path / "engine.broken.toml").read_text() == "{{{"


def test_a_file_that_may_not_be_read_has_defaults_used_and_is_not_written_over(tmp_path: Path):
    file = tmp_path / "engine.toml"
    file.mkdir()
    store = SettingsStore(file)
    assert store.settings == Settings()
    assert "none can be changed" in store.problem
    assert not store.knows("embedder.model")
    with pytest.raises(HomeUnusable, match=r"engine\.toml.*RAGDOLL_HOME"):
        store.change({"generation.seed": 4})
    assert store.settings == Settings()


def test_what_cannot_be_read_stays_so_where_nothing_can_be_written_in_its_place(tmp_path: Path, monkeypatch):
    file = tmp_path / "engine.toml"
    file.write_text("{{{")
    store = SettingsStore(file)
    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", _no_space)
        with pytest.raises(DiskFull):
            store.change({"generation.temperature": 0.9})
    assert file.read_text() == "{{{"
    for each in (store, SettingsStore(file)):
        assert not each.knows("embedder.model")


def test_a_change_that_could_not_be_written_does_not_come_along_with_the_next(tmp_path: Path, monkeypatch):
    file = tmp_path / "engine.toml"
    store = SettingsStore(file)
    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", _no_space)
        with pytest.raises(DiskFull, match=r"is full; nothing was changed\. Free some space"):
            store.change({"generation.temperature": 0.9})
    store.change({"generation.seed": 4})
    assert tomllib.loads(file.read_text()) == {"generation": {"seed": 4}}


def test_changes_of_two_threads_are_both_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    store = SettingsStore(tmp_path / "engine.toml")
    is_writing, may_write = threading.Event(), threading.Event()
    replace = os.replace

    def slow_replace(source: str, target: Path) -> None:
        is_writing.set()
        may_write.wait(0.2)
        replace(source, target)

    monkeypatch.setattr(os, "replace", slow_replace)
    first = threading.Thread(target=store.change, args=({"generation.seed": 4},))
    first.start()
    assert is_writing.wait(30)
    second = threading.Thread(target=store.change, args=({"generation.temperature": 0.9},))
    second.start()
    first.join()
    second.join()
    assert (store.settings.generation.seed, store.settings.generation.temperature) == (4, 0.9)


def _no_space(source: str, target: Path) -> None:
    raise OSError(28, "No space left on device")


@pytest.mark.parametrize("name", ["seed", "max_answer_tokens", "top_k", "num_threads", "n_batch", "n_ubatch"])
def test_numbers_that_nothing_can_be_done_with_are_refused_and_cost_only_themselves(tmp_path: Path, name: str):
    file = tmp_path / "engine.toml"
    with pytest.raises(BadRequest, match=name):
        SettingsStore(file).change({f"generation.{name}": 10**22})
    file.write_text(f"[generation]\n{name} = {10**22}\ntemperature = 0.5\n")
    store = SettingsStore(file)
    assert store.settings.generation == GenerationSettings(temperature=0.5)
    assert name in store.problem


def test_texts_at_which_answers_stop_are_none_of_them_empty(tmp_path: Path):
    store = SettingsStore(tmp_path / "engine.toml")
    store.change({"generation.stop": ["User:", "\n\n"]})
    assert SettingsStore(tmp_path / "engine.toml").settings.generation.stop == ("User:", "\n\n")
    with pytest.raises(BadRequest, match=r"generation\.stop"):
        store.change({"generation.stop": ["User:", ""]})


def test_budgets_of_tiers_are_checked_and_can_be_given_back_to_the_machine(tmp_path: Path):
    store = SettingsStore(tmp_path / "engine.toml")
    with pytest.raises(BadRequest, match="ram_budget_bytes"):
        store.change({"memory.ram_budget_bytes": 1_000})
    store.change({"memory.ram_budget_bytes": 2**30, "memory.gpu_budget_bytes": 0, "memory.disk_budget_bytes": 2**31})
    memory = SettingsStore(tmp_path / "engine.toml").settings.memory
    assert (memory.gpu_budget_bytes, memory.ram_budget_bytes, memory.disk_budget_bytes) == (0, 2**30, 2**31)
    assert store.change({"memory.ram_budget_bytes": None}).memory.ram_budget_bytes is None
