"""Which model new chats begin with, which others could answer, and how far each is loaded."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import TYPE_CHECKING

from PySide6.QtCore import QObject, Signal

from app.models.file_names import told_apart
from engine import protocol
from engine.protocol import ModelEntry, ModelState, Notice
from engine.wire import WireError

if TYPE_CHECKING:
    from app.engine_client import EngineClient


class ModelPickerModel(QObject):
    """`models` are offered; `current` is the path of the one new chats begin with ("" when quotes are the answer).

    `state` is none, loading, loaded or failed; `fraction` (0 to 1) says how far the loading is, `sentence`
    why it failed or what was decided (layers on the GPU), `name` the model that is loading or loaded. These four are
    those of the chosen model; `told_of` has them of any. `is_known`: the engine has reported which models exist.
    """

    models_changed = Signal()  # models, current or is_known
    state_changed = Signal()  # the last report of any model
    added = Signal(object)  # the ModelEntry of a file that was opened
    used = Signal()  # the user has chosen a model
    request_failed = Signal(str, str)  # a sentence, a way out

    def __init__(self, client: EngineClient, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._client = client
        self.models: tuple[ModelEntry, ...] = ()
        self.current = ""
        self.is_known = False
        # The last request until the engine confirms it; "" is no model, None means that nothing was requested.
        self._asked: str | None = None
        self._told: dict[str, ModelState] = {}
        self._newest = ModelState(state="none")
        client.became_ready.connect(self.refresh)
        client.notice_received.connect(self._on_notice)
        client.state_changed.connect(self._on_engine_state)

    @property
    def chosen(self) -> str:
        """The model of new chats, as requested or else as the engine reports it; "" for quotes."""
        return self.current if self._asked is None else self._asked

    @property
    def chosen_or_unknown(self) -> str | None:
        """Returns `chosen`; None until the user has chosen or the engine has reported."""
        return self.chosen if self.is_known or self._asked is not None else None

    @property
    def state(self) -> str:
        return self.told_of_chosen.state

    @property
    def name(self) -> str:
        return self.told_of_chosen.name

    @property
    def fraction(self) -> float:
        return self.told_of_chosen.fraction

    @property
    def sentence(self) -> str:
        return self.told_of_chosen.sentence

    @property
    def current_entry(self) -> ModelEntry | None:
        return self.entry(self.current)

    def entry(self, path: str) -> ModelEntry | None:
        """The model on the list whose file this is."""
        return next((entry for entry in self.models if entry.path == path), None)

    def file_of(self, path: str) -> str:
        """The shortest name that tells a model's file from the others: its name, with folders where needed."""
        return told_apart(path, (entry.path for entry in self.models))

    @property
    def told_of_chosen(self) -> ModelState:
        """The last report of the chosen model; of the last reported one until the choice is known."""
        return self._newest if self.chosen_or_unknown is None else self.told_of(self.chosen)

    def told_of(self, path: str) -> ModelState:
        """The last report of a model."""
        return self._told.get(path) or ModelState(state="none", path=path)

    # --- wishes ---

    def add(self, path: str | os.PathLike[str]) -> None:
        """Offers a GGUF file; `added` then says how it would run here, before any of it is loaded."""
        wanted = protocol.ModelFile(path=os.path.abspath(path))
        self._client.request(protocol.MODELS_ADD, wanted, self._on_added, self._on_error)

    def add_all(self, paths: Iterable[str]) -> None:
        """Offers several files, without `added` for each."""
        for path in paths:
            wanted = protocol.ModelFile(path=os.path.abspath(path))
            self._client.request(protocol.MODELS_ADD, wanted, lambda _: self.refresh(), self._on_error)

    def use(self, path: str, n_gpu_layers: int | None = None) -> None:
        """Answers with this model where a chat has none of its own; `n_gpu_layers` None lets the plan choose."""
        wanted = protocol.ModelFile(path=path, n_gpu_layers=n_gpu_layers)
        self.used.emit()
        self._ask_for(path)
        self._client.request(protocol.MODELS_USE, wanted, self._on_done, self._on_error)

    def use_none(self) -> None:
        """Answers with quotes only where a chat has no model of its own."""
        self._ask_for("")
        self._client.request(protocol.MODELS_UNLOAD, protocol.Nothing(), self._on_done, self._on_error)

    def forget(self, path: str) -> None:
        """Takes the model off the list; the file stays where it is."""
        self._client.request(protocol.MODELS_FORGET, protocol.ModelFile(path=path), self._on_done, self._on_error)

    def delete(self, path: str) -> None:
        """Deletes the files of a downloaded model, and removes it from the list."""
        self._client.request(protocol.MODELS_DELETE, protocol.ModelFile(path=path), self._on_done, self._on_error)

    def allow_losses(self, path: str = "") -> None:
        """Lets models that do not fit lose a little precision of keys and values, or of the context.

        `added` then describes the model at `path` again, if one is named.
        """

        def on_allowed(_reply: protocol.SettingsReply) -> None:
            if path:
                self.add(path)
            else:
                self.refresh()

        wanted = protocol.SetSettings(changes={"memory.may_lose": True})
        self._client.request(protocol.SETTINGS_SET, wanted, on_allowed, self._on_error)

    def refresh(self) -> None:
        self._client.request(protocol.MODELS, protocol.Nothing(), self._on_models)

    # --- what the engine says ---

    def _ask_for(self, path: str) -> None:
        self._asked = path
        self.state_changed.emit()

    def _on_notice(self, notice: Notice) -> None:
        if not isinstance(notice, ModelState):
            return
        was = self.told_of(notice.path)
        self._newest = notice
        if notice.state == "none" and not notice.path:
            self._told.clear()
        elif notice.state == "loading":
            # Models are loaded one after the other: losses for this one are not reported again.
            self._told = {path: told for path, told in self._told.items() if told.state != "loading"}
        if notice.path:
            self._told[notice.path] = notice
        self.state_changed.emit()
        if was.state != notice.state or not notice.path:
            self.refresh()

    def _on_engine_state(self, state: str) -> None:
        if state not in ("restarting", "failed", "stopped"):
            return
        self._asked = None
        if self._told or self._newest.state != "none":
            self._told, self._newest = {}, ModelState(state="none")
            self.state_changed.emit()

    def _on_models(self, reply: protocol.ModelsReply) -> None:
        if reply.current == self._asked:
            self._asked = None
        if not self.is_known or (reply.models, reply.current) != (self.models, self.current):
            self.models, self.current, self.is_known = reply.models, reply.current, True
            self.models_changed.emit()

    def _on_added(self, entry: ModelEntry) -> None:
        self.added.emit(entry)
        self.refresh()

    def _on_done(self, _reply: protocol.Nothing) -> None:
        self.refresh()

    def _on_error(self, error: WireError) -> None:
        self._asked = None
        self.request_failed.emit(error.sentence, error.way_out)
        self.state_changed.emit()
        self.refresh()
