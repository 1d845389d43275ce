"""Every question under way, whichever chat is shown: asked, followed, saved as it grows, and ended exactly once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeAlias
from uuid import uuid4

from PySide6.QtCore import QObject, QTimer, Signal

from app.chats.errors import ChatsHeld
from app.models.turn_records import outcome_of
from app.models.turns import TurnState, TurnView, after, cancelled, failed, others, with_other
from engine import protocol
from engine.protocol import Notice, RagdollError
from engine.wire import WireError

if TYPE_CHECKING:
    from app.chats.records import Outcome
    from app.engine_client import EngineClient
    from app.models.reading_first import Reading, ReadingFirst

Record: TypeAlias = Callable[[str, "Outcome"], object]
AddVariant: TypeAlias = Callable[[str, str, "Outcome"], object]

SAVE_MS = 400  # while text arrives; half a second at most is lost with the window
SAVE_AGAIN_MS = 5000  # when the disk refused
# The engine may have died because of a question in one of these states.
_IN_HAND: frozenset[TurnState] = frozenset({"reading", "writing"})


@dataclass(slots=True)
class _Open:
    """A question that has not ended.

    `is_sent`: this engine process has it. `was_lost`: an engine that had it has died. `is_suspect`: that engine may
    have died because of it; if the next one dies as well, it is not asked again. While it `awaits_reading`, the files
    that it is confined to are being read, and it is not sent.
    """

    view: TurnView
    ask: protocol.Ask
    awaits_reading: bool = False
    is_sent: bool = False
    was_lost: bool = False
    is_suspect: bool = False
    is_stopping: bool = False


class Answering(QObject):
    """Holds the open questions; the engine's notices and deaths change them, the store saves them."""

    open_changed = Signal()  # a question has begun or ended
    turn_changed = Signal(object)  # the TurnView as it is now
    text_appended = Signal(object, str)  # the TurnView, and the piece that was appended to its text
    thoughts_appended = Signal(object, str)  # the same of its thoughts
    refused = Signal(str, str)  # the engine did not take a question: its turn id, the kind of the error
    broken_off = Signal(str, str)  # the same of a question that was taken and has failed
    # A question is about to end as if stopped, because of an error that it did not cause: turn id, kind, sentence,
    # way out.
    put_back = Signal(str, str, str, str)
    others_added = Signal(str, object)  # a turn id, and the TurnViews of the further answers in its place
    store_failed = Signal(str, str)  # a sentence, a way out; said once until a save succeeds again

    def __init__(
        self,
        client: EngineClient,
        record: Record,
        add_variant: AddVariant | None = None,
        parent: QObject | None = None,
        is_reading: Callable[[], bool] = lambda: False,
        *,
        keeps_partial: bool = True,
        blameless: frozenset[str] = frozenset(),
        reading_first: ReadingFirst | None = None,
    ) -> None:
        """Nothing is open yet.

        Args:
            client: The engine.
            record: Saves the outcome of a turn so far.
            add_variant: Saves a further answer in the place of a turn; None: each question gets one answer.
            parent: As in Qt.
            is_reading: Whether files are being indexed now.
            keeps_partial: Whether incomplete answers are saved as they grow, and kept when the engine dies. Otherwise
                they are asked again then, those that the engine may have died of last and alone.
            blameless: Kinds of errors that a question does not cause, so that it can be asked again.
            reading_first: Tells when the files that a question is confined to have been read; None: do not wait.
        """
        super().__init__(parent)
        self._client = client
        self._record_turn, self._add_variant = record, add_variant
        self._is_reading, self._keeps_partial, self._blameless = is_reading, keeps_partial, blameless
        self._reading_first = reading_first
        self._open: dict[str, _Open] = {}
        # Questions that an engine had when it died and that have not been answered since, even if they were stopped;
        # and whether it may have died of them.
        self._lost: dict[str, bool] = {}
        self._unsaved: dict[str, TurnView] = {}
        self._beside: dict[str, str] = {}  # for variants that are not stored yet: the turn whose place they share
        self._store_problem: RagdollError | None = None
        self._saving = QTimer(self, singleShot=True)
        self._saving.timeout.connect(self.save)
        client.notice_received.connect(self._on_notice)
        client.became_ready.connect(self._send_waiting)
        client.engine_died.connect(self._on_engine_died)
        client.engine_gave_up.connect(self._on_engine_gave_up)

    def begin(self, view: TurnView, ask: protocol.Ask) -> None:
        """Asks; `ask.question_id` is the turn's id. Waits for the engine when it is not ready."""
        was_lost, is_suspect = view.turn_id in self._lost, self._lost.get(view.turn_id, False)
        question = self._open[view.turn_id] = _Open(view, ask, was_lost=was_lost, is_suspect=is_suspect)
        self.open_changed.emit()
        if self._client.state == "failed":
            sentence = self.tr("The engine is not running, so nothing can be answered. Start it again, then retry.")
            self._put(view.turn_id, failed(view, sentence))
        elif self._reading_first is not None and ask.filters.paths:
            question.awaits_reading = True
            self._reading_first.follow(
                ask.filters.paths,
                lambda: self._open.get(view.turn_id) is question,
                lambda reading: self._on_reading(question, reading),
            )
        else:
            self._send_waiting()

    def stop(self, turn_id: str) -> None:
        """Ends a question soon; what has been written of the answer stays. Harmless when it has ended."""
        question = self._open.get(turn_id)
        if question is None or question.is_stopping:
            return
        question.is_stopping = True
        if question.is_sent:
            self._client.request(protocol.CANCEL, protocol.CancelQuestion(question_id=turn_id))
        else:
            self._put(turn_id, cancelled(question.view))

    def keep(self, view: TurnView) -> None:
        """Saves the end of a turn that was never asked, like that of any other."""
        self._save_soon(view)

    def stop_conversation(self, conversation_id: str) -> None:
        for turn_id, question in list(self._open.items()):
            if question.ask.conversation_id == conversation_id:
                self.stop(turn_id)

    def conversation_of(self, turn_id: str) -> str:
        """Returns the chat that an open question belongs to; "" for all others."""
        question = self._open.get(turn_id)
        return question.ask.conversation_id or "" if question else ""

    @property
    def conversations(self) -> frozenset[str]:
        """Returns the chats that have an open question."""
        return frozenset(filter(None, (question.ask.conversation_id for question in self._open.values())))

    def is_held_back(self, turn_id: str) -> bool:
        """Returns whether an open question waits until it can be asked alone: an engine may have died of it."""
        question = self._open.get(turn_id)
        return question is not None and _is_held_back(question)

    @property
    def num_held_back(self) -> int:
        return sum(map(_is_held_back, self._open.values()))

    def view(self, turn_id: str) -> TurnView | None:
        """Returns the newest value of a turn that is open or not saved yet; None for all others."""
        question = self._open.get(turn_id)
        return question.view if question else self._unsaved.get(turn_id)

    def close(self) -> None:
        """Ends what is still open as cancelled, and saves."""
        for turn_id, question in list(self._open.items()):
            self._put(turn_id, cancelled(question.view, self._closed_sentence()))
        self.save()
        self._saving.stop()

    @property
    def store_problem(self) -> RagdollError | None:
        """Returns why something could not be saved yet; None if everything is on the disk."""
        return self._store_problem if self._unsaved else None

    def save(self) -> None:
        """Writes what has changed since the last time; what cannot be written is tried again later.

        A turn that cannot be written does not hold up the others, unless another program locks the file.
        """
        problem: RagdollError | None = None
        for turn_id, view in list(self._unsaved.items()):
            try:
                self._record(view)
            except RagdollError as error:
                problem = problem or error
                if isinstance(error, ChatsHeld):
                    break
            else:
                del self._unsaved[turn_id]
        if problem is None:
            self._store_problem = None
        else:
            self._on_store_failed(problem)

    # --- what the engine says ---

    def _on_notice(self, notice: Notice) -> None:
        question = self._open.get(getattr(notice, "question_id", ""))
        if question is None:
            return
        if isinstance(notice, (protocol.AnswerTokens, protocol.AnswerThoughts)):
            self._append(question, notice)
        else:
            view = after(question.view, notice)
            if isinstance(notice, protocol.AnswerFailed) and notice.kind in self._blameless:
                view = cancelled(question.view)
                self.put_back.emit(view.turn_id, notice.kind, notice.sentence, notice.way_out)
            if isinstance(notice, protocol.AnswerCancelled) and not question.is_stopping:
                # The user did not stop it: the engine is shutting down.
                view = cancelled(view, self._closed_sentence())
            if isinstance(notice, protocol.AnswerFinished):
                view = replace(view, was_reading=self._is_reading())
            self._put(view.turn_id, view)
            if isinstance(notice, protocol.AnswerFinished):
                self._add_others(view, notice)
            if isinstance(notice, protocol.AnswerFailed) and view.state == "failed":
                self.broken_off.emit(view.turn_id, notice.kind)
            if view.has_ended:
                self._send_waiting()

    def _on_engine_died(self, sentence: str) -> None:
        for question in list(self._open.values()):
            if question.is_sent:
                self._lose(question, sentence)

    def _on_engine_gave_up(self, sentence: str) -> None:
        questions = list(self._open.values())
        if not self._keeps_partial:
            # Only one of those that it may have died of shows the reason. All others wait for the next start.
            questions.sort(key=lambda one: (not one.is_sent, one.view.state not in _IN_HAND))
        for number, question in enumerate(questions):
            can_wait = bool(number) and not self._keeps_partial
            view = question.view
            self._put(view.turn_id, cancelled(view) if question.is_stopping or can_wait else failed(view, sentence))

    def _lose(self, question: _Open, sentence: str) -> None:
        """Queues a question for the next engine, unless its text would be lost or it may have killed two engines."""
        view, was_suspect = question.view, question.is_suspect
        # The engine reports a question only after its first step, of which it may have died: a question that was lost
        # twice is suspect as well.
        question.is_suspect = self._keeps_partial or was_suspect or question.was_lost or view.state in _IN_HAND
        if not self._keeps_partial:
            self._lost[view.turn_id] = question.is_suspect
        if question.is_stopping:
            self._put(view.turn_id, cancelled(view))
        elif (view.text and self._keeps_partial) or was_suspect:
            self._put(view.turn_id, failed(view, sentence))
        else:
            question.is_sent, question.was_lost = False, True
            self._put(view.turn_id, replace(view, state="queued", ahead=0, text="", thoughts=""))

    def _closed_sentence(self) -> str:
        return self.tr("Ragdoll was closed before this answer was complete.")

    def _on_refused(self, turn_id: str, error: WireError) -> None:
        question = self._open.get(turn_id)
        # A death is reported by `engine_died`, for all questions at once.
        if question is not None and error.kind != "EngineDied":
            sentence = f"{error.sentence} {error.way_out}".strip()
            is_blameless = error.kind in self._blameless
            if is_blameless:
                self.put_back.emit(turn_id, error.kind, error.sentence, error.way_out)
            is_cancelled = question.is_stopping or is_blameless
            self._put(turn_id, cancelled(question.view) if is_cancelled else failed(question.view, sentence))
            self.refused.emit(turn_id, error.kind)
            self._send_waiting()

    # --- inside ---

    def _on_reading(self, question: _Open, reading: Reading) -> None:
        view = replace(question.view, awaited=reading.awaited, is_paused=reading.is_paused)
        self._put(view.turn_id, failed(view, reading.problem) if reading.problem else view)
        question.awaits_reading = bool(reading.awaited)
        self._send_waiting()

    def _send_waiting(self) -> None:
        if self._client.state != "ready":
            return
        waiting = [one for one in self._open.values() if not (one.is_sent or one.awaits_reading)]
        if not self._keeps_partial:
            waiting = _due(waiting, [question for question in self._open.values() if question.is_sent])
        for question in waiting:
            self._send(question)

    def _send(self, question: _Open) -> None:
        question.is_sent = True
        turn_id = question.view.turn_id
        self._client.request(protocol.ASK, question.ask, None, self._refusal_of(turn_id))

    def _refusal_of(self, turn_id: str) -> Callable[[WireError], None]:
        return lambda error: self._on_refused(turn_id, error)

    def _append(self, question: _Open, tokens: protocol.AnswerTokens | protocol.AnswerThoughts) -> None:
        # The state first and without the text, so that a view that shows both never shows a piece twice.
        self._put(question.view.turn_id, replace(question.view, state="writing", ahead=0))
        question.view = after(question.view, tokens)
        self._save_soon(question.view)
        is_thought = isinstance(tokens, protocol.AnswerThoughts)
        (self.thoughts_appended if is_thought else self.text_appended).emit(question.view, tokens.text)

    def _add_others(self, view: TurnView, notice: protocol.AnswerFinished) -> None:
        added = tuple(with_other(view, uuid4().hex, other) for other in others(notice))
        if not added or self._add_variant is None:
            return
        for other in added:
            self._beside[other.turn_id] = view.turn_id
            self._save_soon(other)
        self.others_added.emit(view.turn_id, added)

    def _put(self, turn_id: str, view: TurnView) -> None:
        """Makes `view` the turn's newest value: shown, saved soon, and at once if it has ended.

        Does nothing for a turn that has ended already: a receiver of another turn's end may have stopped it.
        """
        question = self._open.get(turn_id)
        if question is None or view == question.view:
            return
        question.view = view
        if view.has_ended:
            del self._open[turn_id]
            if view.state != "cancelled":
                self._lost.pop(turn_id, None)
        self._save_soon(view)
        self.turn_changed.emit(view)
        if view.has_ended:
            self.open_changed.emit()

    def _record(self, view: TurnView) -> None:
        beside_id = self._beside.get(view.turn_id)
        if beside_id is None:
            self._record_turn(view.turn_id, outcome_of(view))
        elif self._add_variant is not None:
            self._add_variant(view.turn_id, beside_id, outcome_of(view))
            del self._beside[view.turn_id]

    def _save_soon(self, view: TurnView) -> None:
        if not (view.has_ended or self._keeps_partial):
            return
        self._unsaved[view.turn_id] = view
        if view.has_ended:
            self.save()
        elif not self._saving.isActive():
            self._saving.start(SAVE_MS)

    def _on_store_failed(self, error: RagdollError) -> None:
        self._saving.start(SAVE_AGAIN_MS)
        before, self._store_problem = self._store_problem, error
        if before is None:
            self.store_failed.emit(error.sentence, error.way_out)


def _is_held_back(question: _Open) -> bool:
    return question.is_suspect and not question.is_sent


def _due(waiting: Sequence[_Open], sent: Sequence[_Open]) -> list[_Open]:
    """Returns which waiting questions to send: a suspect last and alone, so that no other is lost with it."""
    if any(question.is_suspect for question in sent):
        return []
    others = [question for question in waiting if not question.is_suspect]
    return others if others or sent else [*waiting[:1]]
