"""Tests for app.models.chat_model: each chat has its own model, and what is told of others does not concern it."""

from __future__ import annotations

import pytest

from app.chats import ChatStore
from app.models import AppModels
from app.settings import SettingsStore
from engine import protocol
from engine.protocol import ModelEntry, ModelState
from tests.helpers.answers import finished

ONE = ModelEntry(path="/m/one.gguf", name="One")
TWO = ModelEntry(path="/m/two.gguf", name="Two")


class Window:
    """All models of a window, and an engine that says what the test wants said."""

    def __init__(self, client, store: ChatStore, settings: SettingsStore) -> None:
        self.client, self.store = client, store
        self.models = AppModels(client, store, settings)
        self.chat, self.conversation = self.models.chat_model, self.models.conversation

    def lists(self, *entries: ModelEntry, current: str = "") -> None:
        """The engine answers whoever asked which models there are."""
        if not any(request.method is protocol.MODELS for request in self.client.open):
            self.models.model_picker.refresh()
        while any(request.method is protocol.MODELS for request in self.client.open):
            self.client.answer(protocol.MODELS, protocol.ModelsReply(models=entries, current=current))

    def asks(self, text: str = "What notice applies?") -> protocol.Ask:
        self.conversation.ask(text)
        return self.client.asked(protocol.ASK)[-1]

    def starts_chat(self) -> str:
        """A new chat with a question; returns its id."""
        self.conversation.new_chat()
        self.asks()
        return self.conversation.conversation_id

    def asked_to_load(self) -> int:
        return len(self.client.asked(protocol.MODELS_USE))


@pytest.fixture
def window(client, store, tmp_path) -> Window:
    return Window(client, store, SettingsStore(tmp_path / "window.toml"))


@pytest.fixture
def two_chats(window) -> tuple[str, str]:
    """The first has One, the second, which is open, has Two."""
    window.lists(ONE, TWO)
    window.chat.use(ONE.path)
    first = window.starts_chat()
    window.conversation.new_chat()
    window.chat.use(TWO.path)
    second = window.starts_chat()
    window.lists(ONE, TWO, current=TWO.path)
    return first, second


def test_what_is_chosen_in_a_chat_is_its_own_and_what_new_chats_begin_with(window, two_chats):
    first, second = two_chats
    assert [window.store.conversation(chat).model for chat in two_chats] == [ONE.path, TWO.path]
    assert [wanted.path for wanted in window.client.asked(protocol.MODELS_USE)] == [ONE.path, TWO.path]
    window.conversation.open(first)
    window.chat.use(TWO.path)
    window.chat.use(ONE.path)
    window.conversation.open(second)
    assert window.chat.path == TWO.path
    window.conversation.new_chat()
    assert window.chat.path == ONE.path


@pytest.mark.parametrize("state", ["loading", "loaded"])
def test_a_model_that_is_there_for_other_chats_is_not_loaded_anew_for_this_one(window, two_chats, state):
    window.client.tell(ModelState(state=state, path=TWO.path))
    window.conversation.open(two_chats[0])
    loads = window.asked_to_load()
    window.chat.use(TWO.path)
    assert (window.chat.path, window.asked_to_load()) == (TWO.path, loads)
    # Here it answers already, so it is wished that it be loaded again; or otherwise.
    window.chat.use(TWO.path)
    assert window.asked_to_load() == loads + 1
    window.conversation.open(two_chats[0])
    window.chat.use(ONE.path)
    window.chat.use(TWO.path, 3)
    assert window.asked_to_load() == loads + 3


def test_opening_a_chat_shows_its_model_and_loads_nothing(window, two_chats, qtbot):
    loads = window.asked_to_load()
    with qtbot.wait_signal(window.chat.changed):
        window.conversation.open(two_chats[0])
    assert (window.chat.path, window.chat.name) == (ONE.path, "One")
    assert window.asked_to_load() == loads
    assert window.client.asked(protocol.MODELS_UNLOAD) == []


def test_a_question_names_the_model_of_its_chat(window, two_chats):
    first, second = two_chats
    asked = []
    for chat in (first, second, first):
        window.conversation.open(chat)
        asked.append(window.asks().model)
    assert asked == [ONE.path, TWO.path, ONE.path]


def test_an_answer_is_written_again_by_the_model_that_the_chat_has_now(window, two_chats):
    turn_id = window.conversation.turns[-1].turn_id
    window.client.tell(finished(turn_id, model="Two"))
    window.chat.use(ONE.path)
    window.conversation.regenerate(turn_id)
    again = window.client.asked(protocol.ASK)[-1]
    assert again.model == ONE.path
    window.client.tell(finished(again.question_id, model="One"))
    chat = window.store.turns(two_chats[1])
    assert [turn.outcome.model for turn in chat] == ["Two", "One"]


def test_a_chat_can_be_answered_with_quotes_only_while_another_has_a_model(window, two_chats):
    window.chat.use_none()
    assert len(window.client.asked(protocol.MODELS_UNLOAD)) == 1
    assert (window.chat.path, window.asks().model) == ("", "none")
    window.conversation.open(two_chats[0])
    assert (window.chat.path, window.asks().model) == (ONE.path, ONE.path)


def test_a_new_chat_keeps_the_model_that_it_began_with(window):
    window.lists(ONE, TWO, current=ONE.path)
    chat = window.starts_chat()
    assert window.store.conversation(chat).model == ONE.path
    window.models.model_picker.use(TWO.path)
    window.lists(ONE, TWO, current=TWO.path)
    assert window.chat.path == ONE.path
    assert window.asks().model == ONE.path


def test_chats_that_were_asked_in_before_the_engine_told_of_models_keep_the_one_they_began_with(window):
    hidden = window.starts_chat()
    shown = window.starts_chat()
    assert window.asks().model == ""
    window.lists(ONE, TWO, current=ONE.path)
    assert [window.store.conversation(chat).model for chat in (hidden, shown)] == [ONE.path] * 2
    assert (window.chat.path, window.chat.follows) == (ONE.path, False)


def test_what_was_chosen_before_the_engine_told_of_models_counts(window):
    chat = window.starts_chat()
    window.chat.use(TWO.path)
    window.lists(ONE, TWO, current=TWO.path)
    assert window.store.conversation(chat).model == TWO.path


def test_a_chat_without_a_model_of_its_own_follows_the_choice(window):
    old = window.store.create_conversation("From before").conversation_id
    window.lists(ONE, TWO, current=ONE.path)
    window.conversation.open(old)
    assert (window.chat.path, window.asks().model) == (ONE.path, "")
    window.models.model_picker.use(TWO.path)
    assert window.chat.path == TWO.path
    assert window.store.conversation(old).model == ""


def test_a_chat_from_a_time_without_models_gets_the_first_one(window):
    window.lists()
    window.starts_chat()
    assert (window.chat.path, window.chat.follows) == ("", True)
    window.lists(ONE, current=ONE.path)
    assert window.chat.path == ONE.path


def test_only_what_is_told_of_its_own_model_concerns_a_chat(window, two_chats):
    window.conversation.open(two_chats[0])
    window.client.tell(ModelState(state="loading", path=TWO.path, name="Two", fraction=0.4))
    assert window.chat.told.state == "none"
    window.client.tell(ModelState(state="failed", path=TWO.path, name="two", sentence="It is cut short."))
    assert (window.chat.told.state, window.chat.name) == ("none", "One")
    window.conversation.open(two_chats[1])
    assert (window.chat.told.state, window.chat.told.sentence) == ("failed", "It is cut short.")


def test_both_models_can_be_loaded_and_one_let_go(window, two_chats):
    for entry in (ONE, TWO):
        window.client.tell(
            ModelState(state="loading", path=entry.path, name=entry.name),
            ModelState(state="loaded", path=entry.path, name=entry.name, sentence=f"{entry.name} is in memory."),
        )
    sentences = []
    for chat in two_chats:
        window.conversation.open(chat)
        sentences.append(window.chat.told.sentence)
    assert sentences == ["One is in memory.", "Two is in memory."]
    window.client.tell(ModelState(state="none", path=ONE.path))
    assert window.chat.told.state == "loaded"
    window.conversation.open(two_chats[0])
    assert window.chat.told.state == "none"


def test_a_model_that_was_taken_off_the_list_is_missed_where_it_answers(window, two_chats):
    window.lists(TWO, current=TWO.path)
    assert not window.chat.is_missing
    window.conversation.open(two_chats[0])
    assert (window.chat.is_missing, window.chat.name) == (True, "one")
    assert window.chat.alternative == TWO
    loads = window.asked_to_load()
    window.chat.use_alternative()
    assert (window.chat.is_missing, window.asks().model) == (False, TWO.path)
    assert window.asked_to_load() == loads


def test_a_model_whose_file_is_gone_is_found_out_when_its_chat_is_opened(window, two_chats):
    gone = ONE.model_copy(update={"problem": "There is no model file at /m/one.gguf."})
    lists = len(window.client.asked(protocol.MODELS))
    window.conversation.open(two_chats[0])
    assert len(window.client.asked(protocol.MODELS)) == lists + 1
    window.lists(gone, TWO, current=TWO.path)
    assert window.chat.problem == gone.problem
    assert window.chat.alternative == TWO


def test_a_question_that_the_engine_refuses_for_its_model_says_so_and_the_list_is_read_again(window, two_chats):
    window.conversation.open(two_chats[0])
    window.lists(ONE, TWO, current=TWO.path)
    window.asks()
    lists = len(window.client.asked(protocol.MODELS))
    *earlier, _this = [request for request in window.client.open if request.method is protocol.ASK]
    for request in earlier:
        window.client.open.remove(request)
    sentence = "There is no model file at /m/one.gguf."
    window.client.refuse(protocol.ASK, sentence, "ModelNotFound", "Choose another file.")
    turn = window.conversation.turns[-1]
    assert (turn.state, turn.error_sentence, turn.text) == ("failed", f"{sentence} Choose another file.", "")
    assert len(window.client.asked(protocol.MODELS)) == lists + 1


def test_a_file_that_was_just_chosen_is_not_missed_until_the_list_has_it(window):
    window.lists(ONE, current=ONE.path)
    window.chat.use(TWO.path)
    assert (window.chat.path, window.chat.is_missing) == (TWO.path, False)


def test_nothing_is_missed_before_the_engine_has_told_of_its_models(window):
    chat = window.store.create_conversation("Lease", model=ONE.path).conversation_id
    window.conversation.open(chat)
    assert (window.chat.is_missing, window.chat.name) == (False, "one")


def test_what_cannot_be_used_itself_is_no_alternative(window, two_chats):
    window.lists(ONE, TWO.model_copy(update={"problem": "It is cut short."}), current=TWO.path)
    window.conversation.open(two_chats[0])
    assert window.chat.alternative is None


def test_two_files_of_one_model_are_told_apart_by_their_files(window):
    small, large = (ModelEntry(path=f"/m/tiny-{kind}.gguf", name="Tiny") for kind in ("Q4", "Q8"))
    window.lists(small, large, ONE, current=small.path)
    assert window.chat.name == "tiny-Q4"
    window.chat.use(ONE.path)
    assert window.chat.name == "One"
