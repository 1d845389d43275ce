"""Tests for app.models.model_picker."""

from __future__ import annotations

from itertools import groupby

import pytest

from app.models.model_picker import ModelPickerModel
from engine import protocol
from engine.protocol import ModelEntry, ModelState

TINY = ModelEntry(path="/models/tiny.gguf", name="tiny")


@pytest.fixture
def picker(client) -> ModelPickerModel:
    return ModelPickerModel(client)


def tell_models(client, current: str) -> None:
    """The engine answers whoever asks which model is chosen, and is asked."""
    client.become_ready()
    for request in [request for request in client.open if request.method is protocol.MODELS]:
        client.open.remove(request)
        request.on_result(protocol.ModelsReply(models=(TINY,), current=current))


def test_a_ready_engine_is_asked_for_its_models(picker, client, qtbot):
    client.become_ready()
    with qtbot.wait_signal(picker.models_changed):
        client.answer(protocol.MODELS, protocol.ModelsReply(models=(TINY,), current=TINY.path))
    assert picker.models == (TINY,)
    assert picker.current_entry == TINY


def test_a_file_that_is_added_is_told_of_and_not_yet_used(picker, client, qtbot):
    picker.add("/models/tiny.gguf")
    with qtbot.wait_signal(picker.added) as added:
        client.answer(protocol.MODELS_ADD, TINY)
    assert added.args == [TINY]
    assert client.asked(protocol.MODELS_USE) == []
    assert len(client.asked(protocol.MODELS)) == 1


def test_a_file_that_is_no_model_is_told_and_not_used(picker, client, qtbot):
    picker.add("/models/text.gguf")
    with qtbot.wait_signal(picker.request_failed) as failed:
        client.refuse(protocol.MODELS_ADD, "This is no GGUF file.", "ModelFileInvalid", "Choose another.")
    assert failed.args == ["This is no GGUF file.", "Choose another."]
    assert client.asked(protocol.MODELS_USE) == []


def test_once_losses_are_allowed_the_model_that_was_opened_is_told_of_anew(picker, client):
    picker.allow_losses("/models/tiny.gguf")
    assert [wanted.changes for wanted in client.asked(protocol.SETTINGS_SET)] == [{"memory.may_lose": True}]
    assert client.asked(protocol.MODELS_ADD) == []
    client.answer(protocol.SETTINGS_SET, protocol.SettingsReply(settings={}))
    assert [wanted.path for wanted in client.asked(protocol.MODELS_ADD)] == ["/models/tiny.gguf"]


def test_loading_is_shown_as_it_goes(picker, client):
    seen = []
    picker.state_changed.connect(lambda: seen.append((picker.state, picker.fraction)))
    client.tell(
        ModelState(state="loading", path=TINY.path, name="tiny", fraction=0.0),
        ModelState(state="loading", path=TINY.path, name="tiny", fraction=0.5),
        ModelState(state="loaded", path=TINY.path, name="tiny", fraction=1.0, sentence="4 of 4 layers on the GPU"),
    )
    assert seen == [("loading", 0.0), ("loading", 0.5), ("loaded", 1.0)]
    assert (picker.name, picker.sentence) == ("tiny", "4 of 4 layers on the GPU")


def test_without_an_engine_no_model_is_loaded(picker, client, qtbot):
    client.tell(ModelState(state="loaded", path=TINY.path, name="tiny"))
    with qtbot.wait_signal(picker.state_changed):
        client.die()
    assert picker.state == "none"


def test_a_load_that_was_given_up_for_another_model_is_no_failure(picker, client):
    other = "/models/other.gguf"
    seen = []
    picker.state_changed.connect(lambda: seen.append((picker.state, picker.name)))
    picker.use(TINY.path)
    client.tell(ModelState(state="loading", path=TINY.path, name="tiny"))
    picker.use(other)
    client.tell(
        ModelState(state="loading", path=TINY.path, name="tiny", fraction=0.2),
        ModelState(state="failed", path=TINY.path, name="tiny", sentence="It could not be loaded."),
        ModelState(state="none"),
        ModelState(state="loading", path=other, name="other"),
        ModelState(state="failed", path=other, name="other", sentence="It is cut short."),
    )
    once = [state for state, _of_the_same in groupby(seen)]
    assert once == [("none", ""), ("loading", "tiny"), ("none", ""), ("loading", "other"), ("failed", "other")]
    assert picker.sentence == "It is cut short."


def test_each_model_is_told_of_by_itself(picker, client):
    other = "/models/other.gguf"
    tell_models(client, current=TINY.path)
    client.tell(
        ModelState(state="loaded", path=TINY.path, name="tiny", sentence="4 of 4 layers on the GPU"),
        ModelState(state="loading", path=other, name="other", fraction=0.5),
    )
    assert (picker.state, picker.name, picker.sentence) == ("loaded", "tiny", "4 of 4 layers on the GPU")
    assert picker.told_of(other).fraction == 0.5


def test_a_load_that_another_one_follows_is_over(picker, client):
    other = "/models/other.gguf"
    client.tell(
        ModelState(state="loading", path=TINY.path, name="tiny", fraction=0.5),
        ModelState(state="loading", path=other, name="other", fraction=0.1),
    )
    assert picker.told_of(TINY.path).state == "none"


def test_what_somebody_else_chooses_later_is_the_choice(picker, client):
    other = "/models/other.gguf"
    tell_models(client, current="")
    picker.use(TINY.path)
    assert picker.chosen == TINY.path
    client.answer(protocol.MODELS_USE, protocol.Nothing())
    tell_models(client, current=TINY.path)
    tell_models(client, current=other)
    assert picker.chosen == other


def test_what_an_engine_that_came_again_loads_by_itself_is_shown(picker, client):
    picker.use("/models/other.gguf")
    client.die()
    client.tell(ModelState(state="failed", path=TINY.path, name="tiny", sentence="It is cut short."))
    assert picker.state == "failed"


def test_a_choice_that_is_refused_leaves_the_model_before_as_it_is(picker, client):
    picker.use("/models/text.gguf")
    client.refuse(protocol.MODELS_USE, "This is no GGUF file.", "ModelFileInvalid")
    client.tell(ModelState(state="loading", path=TINY.path, name="tiny"))
    assert picker.state == "loading"


def test_a_model_can_be_let_go_and_forgotten(picker, client):
    picker.use_none()
    picker.forget(TINY.path)
    assert client.asked(protocol.MODELS_UNLOAD) == [protocol.Nothing()]
    assert client.asked(protocol.MODELS_FORGET) == [protocol.ModelFile(path=TINY.path)]
    picker.use(TINY.path, n_gpu_layers=3)
    assert client.asked(protocol.MODELS_USE)[0].n_gpu_layers == 3
