"""Tests for app.models.presets: manners with a name, and that chats have copies of them."""

from __future__ import annotations

import pytest

from app.chats import ChatStore
from app.models.answering import Answering
from app.models.conversation import ConversationModel
from app.models.presets import PresetsModel
from engine.protocol import Manner

POET, TERSE = Manner(instructions="In verse.", temperature=0.9), Manner(max_tokens=64)


@pytest.fixture
def presets(store) -> PresetsModel:
    made = PresetsModel(store)
    made.save("  Poet ", POET)
    made.save("Terse", TERSE)
    return made


def names(presets: PresetsModel) -> list[str]:
    return [preset.name for preset in presets.presets]


def test_a_preset_is_known_by_its_values_and_by_its_name(presets, store):
    again = PresetsModel(store)
    assert names(again) == ["Poet", "Terse"]
    assert again.same_as(POET).name == "Poet"
    assert again.same_as(Manner(max_tokens=65)) is None
    assert again.named(" poet ").name == "Poet"


def test_of_two_with_the_same_values_the_one_that_was_chosen_is_meant(presets):
    presets.save("Brief", TERSE)
    assert presets.same_as(TERSE).name == "Brief"
    assert presets.same_as(TERSE, presets.named("Terse").preset_id).name == "Terse"


def test_a_preset_that_is_saved_again_has_the_new_values(presets):
    presets.save("POET", TERSE)
    assert names(presets) == ["Poet", "Terse"]
    assert presets.manner_of(presets.named("Poet")) == TERSE


@pytest.mark.parametrize(("name", "after"), [("Curt", "Curt"), (" ", "Terse"), ("poet", "Terse"), ("TERSE", "TERSE")])
def test_a_preset_is_renamed_unless_another_one_is_called_so(presets, name, after):
    presets.rename(presets.named("Terse").preset_id, name)
    assert sorted(names(presets)) == sorted(["Poet", after])


def test_new_chats_begin_with_a_copy_of_one_and_keep_it(presets, client, store):
    def new() -> ConversationModel:
        answering = Answering(client, store.record)
        return ConversationModel(answering, store, new_manner=lambda: presets.manner_of_new_chats)

    presets.begin_new_chats_with(presets.named("Poet").preset_id)
    model = new()
    assert model.manner == POET
    model.ask("Who are you?")
    presets.save("Poet", TERSE)
    model.open(model.conversation_id)
    assert model.manner == POET
    model.new_chat()
    assert model.manner == TERSE
    presets.delete(presets.named("Poet").preset_id)
    assert presets.for_new_chats is None
    assert new().manner == Manner()


def test_what_the_disk_refuses_is_told_and_changes_nothing(presets, store: ChatStore, qtbot):
    (pages,) = store._connection.execute("PRAGMA page_count").fetchone()
    store._connection.execute(f"PRAGMA max_page_count = {pages}")
    with qtbot.wait_signal(presets.store_failed) as told:
        for number in range(1000):
            presets.save(f"Poet {number}", Manner(instructions="x" * 4000))
            if told.signal_triggered:
                break
    assert "disk is full" in told.args[0]
    assert presets.named("Poet") is not None
