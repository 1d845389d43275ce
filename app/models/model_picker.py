"""Which model answers, which others could, and how far the loading is."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from PySide6.QtCore import QObject, Signal

from engine import protocol
from engine.protocol import ModelEntry, Notice
from engine.wire import WireError

if TYPE_CHECKING:
    from app.engine_client import EngineClient


class ModelPickerModel(QObject):
    """`models` are offered, `current` is the chosen one's path ("" when quotes are the answer).

    `state` is none, loading, loaded or failed; `fraction` (0 to 1) says how far the loading is, `sentence`
    why it failed or what was decided (layers on the GPU), `name` the model that is loading or loaded.
    """

    models_changed = Signal()  # models or current
    state_changed = Signal()  # state, name, fraction or sentence
    added = Signal(object)  # the ModelEntry of a file that was opened
    request_failed = Signal(str, str)  # a sentence, a way out

    def __init__(self, client: EngineClient, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._client = client
        self.models: tuple[ModelEntry, ...] = ()
        self.current = ""
        # What was asked for last; "" is no model, None where nothing was asked of this engine.
        self._asked: str | None = None
        self._truth = protocol.ModelState(state="none")
        client.became_ready.connect(self.refresh)
        client.notice_received.connect(self._on_notice)
        client.state_changed.connect(self._on_engine_state)

    @property
    def state(self) -> str:
        return self._truth.state

    @property
    def name(self) -> str:
        return self._truth.name

    @property
    def fraction(self) -> float:
        return self._truth.fraction

    @property
    def sentence(self) -> str:
        return self._truth.sentence

    @property
    def current_entry(self) -> ModelEntry | None:
        return next((entry for entry in self.models if entry.path == self.current), None)

    # --- wishes ---

    def add(self, path: str | os.PathLike[str]) -> None:
        """Offers a GGUF file; `added` then tells how it would run here, before anything of it is loaded."""
        wanted = protocol.ModelFile(path=os.path.abspath(path))
        self._client.request(protocol.MODELS_ADD, wanted, self._on_added, self._on_error)

    def use(self, path: str, n_gpu_layers: int | None = None) -> None:
        """Answers with this model from the next question on; `n_gpu_layers` None lets the plan choose."""
        wanted = protocol.ModelFile(path=path, n_gpu_layers=n_gpu_layers)
        self._asked = path
        self._client.request(protocol.MODELS_USE, wanted, self._on_done, self._on_error)

    def use_none(self) -> None:
        """Answers with quotes only."""
        self._asked = ""
        self._client.request(protocol.MODELS_UNLOAD, protocol.Nothing(), self._on_done, self._on_error)

    def forget(self, path: str) -> None:
        """Takes the model off the list; the file stays where it is."""
        self._client.request(protocol.MODELS_FORGET, protocol.ModelFile(path=path), self._on_done, self._on_error)

    def refresh(self) -> None:
        self._client.request(protocol.MODELS, protocol.Nothing(), self._on_models)

    # --- what the engine says ---

    def _on_notice(self, notice: Notice) -> None:
        if isinstance(notice, protocol.ModelState) and not self._is_of_another(notice):
            was, self._truth = self._truth, notice
            self.state_changed.emit()
            if was.state != notice.state:
                self.refresh()

    def _is_of_another(self, notice: protocol.ModelState) -> bool:
        """Whether it tells of a model that was given up because another one was chosen: that it failed is no news."""
        return notice.state in ("loading", "failed") and self._asked is not None and notice.path != self._asked

    def _on_engine_state(self, state: str) -> None:
        if state not in ("restarting", "failed", "stopped"):
            return
        self._asked = None
        if self._truth.state != "none":
            self._truth = protocol.ModelState(state="none")
            self.state_changed.emit()

    def _on_models(self, reply: protocol.ModelsReply) -> None:
        if (reply.models, reply.current) != (self.models, self.current):
            self.models, self.current = reply.models, reply.current
            self.models_changed.emit()

    def _on_added(self, entry: ModelEntry) -> None:
        self.added.emit(entry)
        self.refresh()

    def _on_done(self, _reply: protocol.Nothing) -> None:
        self.refresh()

    def _on_error(self, error: WireError) -> None:
        self._asked = None
        self.request_failed.emit(error.sentence, error.way_out)
        self.refresh()
