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
    """What the open chat keeps (`conversation.model`) together with what the engine reports (`picker`).

    A model chosen here applies to this chat and to new chats; no other chat changes.
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
        """Returns the shortest name that distinguishes the file of a model from the others."""
        return self._picker.file_of(path)

    @property
    def path(self) -> str:
        """The file of the model that answers here; "" if quotes are the answer."""
        own = NO_MODEL if self._conversation.is_careful else self._conversation.model
        return "" if own == NO_MODEL else own or self._picker.chosen

    @property
    def follows(self) -> bool:
        """Whether the chat has no model of its own, so that the one for new chats answers here."""
        return not self._conversation.model and not self._conversation.is_careful

    @property
    def told(self) -> ModelState:
        """The last report of the model that answers here."""
        return self._picker.told_of_chosen if self.follows else self._picker.told_of(self.path)

    @property
    def name(self) -> str:
        """The name shown to users; for two models with the same name inside, the file name, with folders if needed."""
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
        """Why it cannot be used; "" if nothing is known to be wrong."""
        entry = self._picker.entry(self.path) if self.path else None
        return entry.problem if entry is not None else ""

    @property
    def alternative(self) -> ModelEntry | None:
        """The model of new chats, if this chat has another one and that one can be used."""
        entry = self._picker.entry(self._picker.chosen)
        return entry if entry is not None and not entry.problem and entry.path != self.path else None

    # --- wishes ---

    def use(self, path: str, n_gpu_layers: int | None = None) -> None:
        """Answers with this model here and in new chats; no other chat changes its model.

        A model that new chats use already is not reloaded, unless it also answers here: then a reload is what the user
        wants.
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
        """Lets models that do not fit lose a little precision or context, here and in every chat."""
        self._picker.allow_losses()

    def use_alternative(self) -> None:
        """Answers here with the model that new chats begin with."""
        if (entry := self.alternative) is not None:
            self._conversation.set_model(entry.path)
