"""The model of the open chat: which one answers here, how far it is loaded, and what is wrong with it."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from PySide6.QtCore import QObject, Signal

from app.chats.records import NO_MODEL
from engine.protocol import ModelEntry, ModelState

if TYPE_CHECKING:
    from app.models.conversation import ConversationModel
    from app.models.model_picker import ModelPickerModel


class ChatModel(QObject):
    """What the open chat keeps (`conversation.model`) beside what the engine says (`picker`).

    What is chosen here is this chat's, and new chats begin with it; no other chat changes.
    """

    changed = Signal()

    def __init__(
        self, conversation: ConversationModel, picker: ModelPickerModel, parent: QObject | None = None
    ) -> None:
        super().__init__(parent)
        self._conversation, self._picker = conversation, picker
        conversation.model_changed.connect(self.changed)
        picker.models_changed.connect(self.changed)
        picker.state_changed.connect(self.changed)

    @property
    def models(self) -> tuple[ModelEntry, ...]:
        """All that can be chosen."""
        return self._picker.models

    def file_of(self, path: str) -> str:
        """What tells the file of a model from those of the others."""
        return self._picker.file_of(path)

    @property
    def path(self) -> str:
        """The file of the model that answers here; "" where quotes are the answer."""
        own = NO_MODEL if self._conversation.is_careful else self._conversation.model
        return "" if own == NO_MODEL else own or self._picker.chosen

    @property
    def follows(self) -> bool:
        """Whether the chat has none of its own: what is chosen for new chats answers here, too."""
        return not self._conversation.model and not self._conversation.is_careful

    @property
    def told(self) -> ModelState:
        """What the engine said last of the model that answers here."""
        return self._picker.told_of_chosen if self.follows else self._picker.told_of(self.path)

    @property
    def name(self) -> str:
        """What people call it; its file's name where two models have the same one inside, with folders if need be."""
        entry, path = self._picker.entry(self.path), self.path
        name = entry.name if entry is not None else self.told.name
        is_shared = sum(other.name == name for other in self.models) > 1
        return os.path.splitext(self._picker.file_of(path))[0] if path and (is_shared or not name) else name

    @property
    def is_missing(self) -> bool:
        """Whether it is not on the list of models (any more)."""
        path = self.path
        is_listed = not path or path == self._picker.chosen or self._picker.entry(path) is not None
        return self._picker.is_known and not is_listed

    @property
    def problem(self) -> str:
        """Why it cannot be used; "" where it can as far as is known."""
        entry = self._picker.entry(self.path) if self.path else None
        return entry.problem if entry is not None else ""

    @property
    def alternative(self) -> ModelEntry | None:
        """The model that new chats begin with, where this chat has another one and that one can be used."""
        entry = self._picker.entry(self._picker.chosen)
        return entry if entry is not None and not entry.problem and entry.path != self.path else None

    # --- wishes ---

    def use(self, path: str, n_gpu_layers: int | None = None) -> None:
        """Answers with this model here, and where a new chat begins; nothing else changes its model.

        One that new chats begin with already is not loaded anew, unless it answers here: then that is what is wished.
        """
        picker, was_here = self._picker, path == self.path
        is_there = path == picker.chosen and picker.told_of_chosen.state in ("loading", "loaded")
        self._conversation.set_model(path)
        if was_here or not is_there or n_gpu_layers is not None:
            picker.use(path, n_gpu_layers)

    def use_none(self) -> None:
        """Answers with quotes only, here and where a new chat begins."""
        self._conversation.set_model(NO_MODEL)
        self._picker.use_none()

    def allow_losses(self) -> None:
        """Lets models without room lose a little, here and in every chat."""
        self._picker.allow_losses()

    def use_alternative(self) -> None:
        """Answers here with the model that new chats begin with."""
        if (entry := self.alternative) is not None:
            self._conversation.set_model(entry.path)
