"""Tests for app.chats.presets: manners with a name, as they are kept."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from app.chats import ChatStore
from app.chats.errors import ChatsUnusable

VERSE = {"instructions": "In verse.", "temperature": 0.9}


def test_presets_come_back_by_their_names_as_they_were_changed_last(store: ChatStore, tmp_path: Path) -> None:
    terse = store.presets.create("terse", {"max_tokens": 64})
    poet = store.presets.create("Poet", VERSE)
    assert store.presets.presets() == (poet, terse)
    store.presets.set_manner(terse.preset_id, {"max_tokens": 32})
    store.presets.rename(terse.preset_id, "Curt")
    store.close()
    again = ChatStore(tmp_path / "chats.sqlite")
    assert again.presets.presets() == (replace(terse, name="Curt", manner={"max_tokens": 32}), poet)
    again.presets.delete(poet.preset_id)
    assert [preset.name for preset in again.presets.presets()] == ["Curt"]
    again.close()


def test_new_chats_begin_with_one_preset_at_most(store: ChatStore) -> None:
    first, second = (store.presets.create(name, VERSE) for name in ("one", "two"))

    def chosen() -> list[str]:
        return [preset.name for preset in store.presets.presets() if preset.is_for_new_chats]

    for preset_id, names in ((first.preset_id, ["one"]), (second.preset_id, ["two"]), (None, [])):
        store.presets.begin_new_chats_with(preset_id)
        assert chosen() == names
    store.presets.begin_new_chats_with(first.preset_id)
    store.presets.delete(first.preset_id)
    assert chosen() == []


def test_what_damage_has_made_of_a_preset_costs_its_values_alone(store: ChatStore) -> None:
    store.presets.create("Poet", VERSE)
    store._connection.execute("UPDATE presets SET manner = '{\"instru'")
    assert [(preset.name, preset.manner) for preset in store.presets.presets()] == [("Poet", {})]


def test_a_full_disk_is_told_and_leaves_what_was_there(store: ChatStore) -> None:
    poet = store.presets.create("Poet", VERSE)
    (pages,) = store._connection.execute("PRAGMA page_count").fetchone()
    store._connection.execute(f"PRAGMA max_page_count = {pages}")
    with pytest.raises(ChatsUnusable, match="disk is full, so this preset cannot be saved"):
        store.presets.set_manner(poet.preset_id, {"instructions": "x" * 100_000})
    assert store.presets.presets() == (poet,)
