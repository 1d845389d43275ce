"""A conversation at a desk: the model with all that it needs, and what it has said."""

from __future__ import annotations

from app.chats import ChatStore
from app.models.answering import Answering
from app.models.conversation import ConversationModel
from app.models.turns import TurnView
from engine import protocol
from tests.helpers.fake_engine_client import FakeEngineClient


class Desk:
    """A conversation with all it needs, and what it has said."""

    def __init__(self, client: FakeEngineClient, store: ChatStore) -> None:
        self.client, self.store = client, store
        self.answering = Answering(client, store.record, store.add_variant)
        self.model = ConversationModel(self.answering, store)
        self.said: list[tuple] = []
        self.model.turn_added.connect(lambda turn_id: self.said.append(("added", turn_id)))
        self.model.turn_changed.connect(lambda turn_id: self.said.append(("changed", self.view(turn_id).state)))
        self.model.text_appended.connect(lambda turn_id, piece: self.said.append(("text", piece)))
        self.model.conversation_changed.connect(lambda: self.said.append(("conversation",)))

    def view(self, turn_id: str) -> TurnView:
        return next(turn for turn in self.model.turns if turn.turn_id == turn_id)

    def ask(self, text: str = "What notice applies?") -> str:
        self.model.ask(text)
        return self.model.turns[-1].turn_id

    def asked(self) -> list[protocol.Ask]:
        return self.client.asked(protocol.ASK)

    def recorded(self, turn_id: str):
        turns = self.store.turns(self.model.conversation_id)
        return next(turn.outcome for turn in turns if turn.turn_id == turn_id)
