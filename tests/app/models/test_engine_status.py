"""Tests for app.models.engine_status: one sentence, and the one that matters."""

from __future__ import annotations

import pytest

from app.models.engine_status import EngineStatusModel, Facts, sentence_of
from app.models.library import LibraryModel
from app.models.steady_progress import Share
from engine import protocol
from engine.protocol import IndexProgress, ModelState
from tests.helpers.fake_engine_client import FakeEngineClient

HALF = IndexProgress(documents_done=37, documents_total=100, chunks_done=5)
LOADING = ModelState(state="loading", name="tiny", fraction=0.5)


@pytest.mark.parametrize(
    ("facts", "sentence"),
    [
        (Facts(), "The engine is stopped."),
        (Facts("starting", phase="loading libraries"), "Starting the engine…"),
        (Facts("restarting", death="It crashed."), "It crashed."),
        (Facts("failed", death="It crashed thrice."), "It crashed thrice."),
        (Facts("ready"), "Ready"),
        (Facts("ready", phase="loading libraries", progress=HALF), "Loading libraries…"),
        (Facts("ready", phase="reading tea leaves"), "Reading tea leaves…"),
        (Facts("ready", phase="loading model", model=LOADING), "Loading tiny, 50 %"),
        (Facts("ready", progress=HALF, share=Share(0.37)), "Indexing 37 %"),
        (Facts("ready", progress=HALF.model_copy(update={"is_paused": True})), "Indexing is paused"),
        (Facts("ready", progress=IndexProgress(documents_done=0, documents_total=0, chunks_done=0)), "Indexing…"),
        (Facts("ready", answering=frozenset("a")), "Answering…"),
        (Facts("ready", answering=frozenset("abc")), "Answering 3 questions…"),
        (Facts("ready", progress=HALF, share=Share(0.37), answering=frozenset("a")), "Indexing 37 %"),
        (Facts("ready", measuring=(3, 12)), "Measuring the speed of the model, 25 %"),
        (Facts("ready", measuring=(3, 12), answering=frozenset("a")), "Answering…"),
        (Facts("ready", measuring=(0, 0)), "Ready"),
        (Facts("ready", run="listing", asked_files=(40, 40)), "Asking every file…"),
        (Facts("ready", run="running", asked_files=(3, 12), answering=frozenset("abc")), "Asking every file, 25 %"),
        (
            Facts("ready", run="running", asked_files=(3, 12), progress=HALF, share=Share(0.37)),
            "Asking every file, 25 % · Indexing 37 %",
        ),
        (Facts("ready", run="paused", asked_files=(3, 12), answering=frozenset("a")), "Answering…"),
        (Facts("ready", run="paused", asked_files=(3, 12)), "A question to every file is paused"),
        (Facts("ready", run="finished", asked_files=(12, 12)), "Ready"),
        (Facts("ready", is_held=True), "Indexing is paused"),
        (Facts("ready", is_held=True, answering=frozenset("a")), "Answering…"),
        (
            Facts("ready", is_held=True, run="paused", asked_files=(3, 12)),
            "A question to every file is paused · Indexing is paused",
        ),
        (Facts("ready", run="running", asked_files=(3, 12), model=LOADING), "Loading tiny, 50 %"),
        (Facts("ready", refusal="The library is held.", progress=HALF), "The library is held."),
        (Facts("ready", model=ModelState(state="loaded", name="tiny")), "Ready"),
        (Facts("ready", model=ModelState(state="loading", name="100 %2", fraction=0.1)), "Loading 100 %2, 10 %"),
    ],
)
def test_the_sentence_tells_what_matters_most(qapp, facts, sentence):
    assert sentence_of(facts) == sentence


def test_a_model_that_is_being_loaded_is_told_of_until_it_is_whatever_another_one_does(qapp):
    client = FakeEngineClient("ready")
    status = EngineStatusModel(client)
    client.tell(
        ModelState(state="loading", path="/m/one.gguf", name="one", fraction=0.5),
        ModelState(state="loaded", path="/m/two.gguf", name="two"),
    )
    assert status.sentence == "Loading one, 50 %"
    client.tell(ModelState(state="loading", path="/m/two.gguf", name="two", fraction=0.1))
    assert status.sentence == "Loading two, 10 %"
    client.tell(ModelState(state="loaded", path="/m/two.gguf", name="two"))
    assert status.sentence == "Ready"
    client.tell(
        ModelState(state="loading", path="/m/one.gguf", name="one", fraction=0.5),
        ModelState(state="none"),
    )
    assert status.sentence == "Ready"
    # One that is there already was chosen instead.
    client.tell(
        ModelState(state="loading", path="/m/one.gguf", name="one", fraction=0.5),
        ModelState(state="none", path="/m/one.gguf", name="one"),
        ModelState(state="loaded", path="/m/two.gguf", name="two"),
    )
    assert status.sentence == "Ready"


def test_the_sentence_follows_the_engine(qapp):
    client = FakeEngineClient("stopped")
    status = EngineStatusModel(client)
    said = []
    status.sentence_changed.connect(said.append)
    client.start()
    client.become_ready()
    client.enter_phase("loading libraries")
    client.enter_phase("")
    client.tell(HALF)
    client.die("It crashed.")
    client.become_ready()
    assert said == [
        "Starting the engine…",
        "Ready",
        "Loading libraries…",
        "Ready",
        "Indexing 37 %",
        "It crashed.",
        "Ready",
    ]


def test_it_is_busy_while_there_is_something_to_wait_for(client):
    status = EngineStatusModel(client)
    assert not status.is_busy
    client.tell(HALF)
    assert status.is_busy
    client.tell(HALF.model_copy(update={"is_paused": True}))
    assert not status.is_busy
    client.die()
    assert status.is_busy
    client.give_up()
    assert not status.is_busy
    assert status.has_failed


def test_a_library_that_is_held_without_a_job_is_told_of(client):
    library = LibraryModel(client)
    status = EngineStatusModel(client, library=library)
    client.become_ready()
    held = protocol.LibraryReply(collections=(), disk_bytes=0, is_paused=True)
    for _ in (library, status):
        client.answer(protocol.LIBRARY, held)
    assert (status.sentence, status.is_busy) == ("Indexing is paused", False)
    library.resume()
    client.answer(protocol.RESUME, protocol.Nothing())
    client.answer(protocol.LIBRARY, held.model_copy(update={"is_paused": False}))
    assert status.sentence == "Ready"


def test_an_engine_that_cannot_open_its_library_says_why(client):
    status = EngineStatusModel(client)
    client.become_ready()
    client.refuse(protocol.LIBRARY, "Another Ragdoll holds this library.", "LibraryHeld", "Close it.")
    assert status.sentence == "Another Ragdoll holds this library. Close it."
    assert status.has_failed
    client.become_ready()
    client.answer(protocol.LIBRARY, protocol.LibraryReply(collections=(), disk_bytes=0))
    assert status.sentence == "Ready"


def test_questions_under_way_are_told_until_each_has_ended(client):
    status = EngineStatusModel(client)
    client.become_ready()
    said = []
    status.sentence_changed.connect(said.append)
    for question_id in ("a", "b"):
        client.tell(protocol.AnswerState(question_id=question_id, state="queued"))
    client.tell(protocol.AnswerState(question_id="a", state="writing"))
    assert status.is_busy
    client.tell(protocol.AnswerCancelled(question_id="a"))
    client.tell(protocol.AnswerFailed(question_id="b", sentence="The model is gone.", way_out="", kind="ModelError"))
    assert said == ["Answering…", "Answering 2 questions…", "Answering…", "Ready"]
    assert not status.is_busy
    client.tell(protocol.AnswerState(question_id="c", state="queued"))
    client.die()
    client.become_ready()
    assert status.sentence == "Ready"
