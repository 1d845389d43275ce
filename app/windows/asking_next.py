"""What is around the prompt of a chat: the questions that wait for the running answer, and how full the context is."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

from PySide6.QtCore import QObject

from app.windows import closing

if TYPE_CHECKING:
    from app.models import AppModels
    from app.widgets.context_ring import ContextRing
    from app.widgets.prompt_edit import PromptEdit
    from app.widgets.waiting_list import WaitingList
    from engine.protocol import ContextUse


class AskingNext(QObject):
    """Synchronises the prompt with the waiting questions of the open chat, which it also keeps for the next start."""

    def __init__(self, prompt: PromptEdit, models: AppModels) -> None:
        super().__init__(prompt)
        self._prompt, self._models = prompt, models
        kept = closing.waiting_in(models.settings.settings.unsent_waiting)
        models.waiting.take(models.waiting_in_kept_chats(kept))
        prompt.submitted.connect(self._on_submitted)
        models.waiting.changed.connect(self._on_waiting_changed)
        conversation = models.conversation
        for changed in (conversation.conversation_changed, conversation.turn_added, conversation.turn_changed):
            changed.connect(self._show)
        self._show()

    @cached_property
    def waiting_list(self) -> WaitingList:
        """Returns the list above the field; made when the first question waits."""
        from app.widgets.waiting_list import WaitingList

        made = WaitingList()
        made.edit_wanted.connect(self._on_edit_wanted)
        made.remove_wanted.connect(self._on_remove_wanted)
        made.ask_wanted.connect(self._models.waiting.ask_held)
        made.keyboard_left.connect(self._prompt.setFocus)
        self._prompt.put_above(made)
        return made

    @cached_property
    def context_ring(self) -> ContextRing:
        """Returns the ring beside the field; made with the first figures."""
        from app.widgets.context_ring import ContextRing

        made = ContextRing()
        self._prompt.put_beside(made)
        return made

    def _show(self) -> None:
        questions = self._models.waiting.shown
        if questions or "waiting_list" in self.__dict__:
            self.waiting_list.show_questions(questions, is_answering=self._models.conversation.is_answering)
        use = self._context_use()
        if use is not None or "context_ring" in self.__dict__:
            self.context_ring.show_use(use)

    def _context_use(self) -> ContextUse | None:
        """Returns the figures of the last answer that has any; quotes and answers that were stopped have none."""
        for turn in reversed(self._models.conversation.turns):
            if turn.timings is not None and turn.timings.context.size:
                return turn.timings.context
        return None

    def _on_submitted(self, text: str) -> None:
        if not self._models.waiting.ask(text) and not self._prompt.text.strip():
            self._prompt.set_text(text)

    def _on_waiting_changed(self) -> None:
        # At once, because no other place keeps a question that has left the prompt.
        self._models.settings.change(unsent_waiting=closing.waiting_as_text(self._models.waiting.texts))
        self._show()

    def _on_edit_wanted(self, question_id: str) -> None:
        # What is being written stays, below the question.
        texts = (self._models.waiting.remove(question_id), self._prompt.text)
        self._prompt.set_text("\n\n".join(text for text in texts if text.strip()))
        self._prompt.setFocus()

    def _on_remove_wanted(self, question_id: str) -> None:
        self._models.waiting.remove(question_id)
