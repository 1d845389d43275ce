"""What the engine is doing, in one sentence for the status bar."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from PySide6.QtCore import QCoreApplication, QObject, Signal

from app.models.steady_progress import NOTHING_DONE, Share, advanced
from engine import protocol
from engine.protocol import IndexProgress, ModelState, Notice
from engine.wire import WireError

if TYPE_CHECKING:
    from app.engine_client import EngineClient
    from app.models.each_file import EachFileModel, RunState
    from app.models.library import LibraryModel


@dataclass(frozen=True, slots=True)
class Facts:
    """All that the sentence depends on.

    `refusal` is why a running engine does nothing (its library is locked); `answering` are the open questions;
    `measuring` is how many points of how many are done while the loaded model is measured. `is_held`: indexing is
    paused without a job, and new files wait. `run` is the state of the question to every file that is being asked,
    shown or not ("paused" if none is and one waits); `asked_files` is how many files have answered, of how many.
    """

    state: str = "stopped"
    phase: str = ""
    death: str = ""
    refusal: str = ""
    progress: IndexProgress | None = None
    share: Share = NOTHING_DONE
    is_held: bool = False
    model: ModelState | None = None
    answering: frozenset[str] = frozenset()
    measuring: tuple[int, int] = (0, 0)
    run: RunState = "none"
    asked_files: tuple[int, int] = (0, 0)

    @property
    def is_asking_files(self) -> bool:
        return self.run in ("listing", "running")


def sentence_of(facts: Facts) -> str:
    """Returns a sentence for what matters most now."""
    by_state = {
        "starting": _tr("Starting the engine…"),
        "restarting": facts.death or _tr("Restarting the engine…"),
        "failed": facts.death or _tr("The engine is not running."),
        "stopped": _tr("The engine is stopped."),
    }
    if facts.state in by_state:
        return by_state[facts.state]
    return facts.refusal or _model_sentence(facts.model) or _phase_sentence(facts.phase) or _work_sentence(facts)


def _model_sentence(model: ModelState | None) -> str:
    if model is None or model.state != "loading":
        return ""
    name = model.name or _tr("the model")
    percent = str(int(model.fraction * 100))
    return _tr("Loading %1, %2 %").replace("%2", percent).replace("%1", name)


def _loading_longest(was: ModelState | None, notice: ModelState) -> ModelState:
    """Returns which of two states to show: another model that is still loading comes before a finished load."""
    is_loading_on = was is not None and was.state == "loading" and notice.state != "loading"
    return was if was is not None and is_loading_on and notice.path not in ("", was.path) else notice


def _phase_sentence(phase: str) -> str:
    known = {"loading libraries": _tr("Loading libraries…"), "loading model": _tr("Loading the model…")}
    return known.get(phase, phase[:1].upper() + phase[1:] + "…" if phase else "")


def _work_sentence(facts: Facts) -> str:
    # Both take long, and the user may be waiting for either.
    if long_work := " · ".join(part for part in (_asking_sentence(facts), _indexing_sentence(facts)) if part):
        return long_work
    answering = _answering_sentence(len(facts.answering)) or _measuring_sentence(*facts.measuring)
    return answering or _held_sentence(facts) or _tr("Ready")


def _held_sentence(facts: Facts) -> str:
    """Returns a sentence for what waits until the user resumes it."""
    every_file = _tr("A question to every file is paused") if facts.run == "paused" else ""
    return " · ".join(part for part in (every_file, _tr("Indexing is paused") if facts.is_held else "") if part)


def _asking_sentence(facts: Facts) -> str:
    """Returns a sentence for the question to every file, whose parts are one question to the user."""
    if not facts.is_asking_files:
        return ""
    answered, total = facts.asked_files
    if facts.run == "listing" or not total:
        return _tr("Asking every file…")
    return _tr("Asking every file, %1 %").replace("%1", str(100 * answered // total))


def _indexing_sentence(facts: Facts) -> str:
    progress = facts.progress
    if progress is None:
        return ""
    if progress.is_paused:
        return _tr("Indexing is paused")
    if facts.share.fraction is None:
        return _tr("Indexing…")
    return _tr("Indexing %1 %").replace("%1", str(int(100 * facts.share.fraction + 1e-9)))


def _answering_sentence(num_questions: int) -> str:
    if num_questions > 1:
        return _tr("Answering %1 questions…").replace("%1", str(num_questions))
    return _tr("Answering…") if num_questions else ""


def _measuring_sentence(done: int, total: int) -> str:
    return _tr("Measuring the speed of the model, %1 %").replace("%1", str(100 * done // total)) if total else ""


def _tr(text: str) -> str:
    return QCoreApplication.translate("engine_status", text)


class EngineStatusModel(QObject):
    """`sentence` for people; `is_busy` while there is something to wait for; `has_failed` when help is needed."""

    sentence_changed = Signal(str)  # the new sentence

    def __init__(
        self,
        client: EngineClient,
        parent: QObject | None = None,
        each_file: EachFileModel | None = None,
        library: LibraryModel | None = None,
    ) -> None:
        """`each_file`: the question that is asked in the background. `library`: whether indexing is paused."""
        super().__init__(parent)
        self._client = client
        self._facts = Facts(state=client.state, phase=client.phase)
        self.sentence = sentence_of(self._facts)
        client.became_ready.connect(self._on_ready)
        client.state_changed.connect(self._on_state)
        client.phase_changed.connect(lambda phase: self._set(replace(self._facts, phase=phase)))
        client.engine_died.connect(self._on_death)
        client.engine_gave_up.connect(self._on_death)
        client.notice_received.connect(self._on_notice)
        if each_file is not None:
            each_file.run_changed.connect(lambda: self._show_run(each_file))
            each_file.progress_changed.connect(lambda: self._show_run(each_file))
            self._show_run(each_file)
        if library is not None:
            library.progress_changed.connect(lambda: self._set(replace(self._facts, is_held=library.is_held)))

    @property
    def is_busy(self) -> bool:
        facts = self._facts
        if facts.state in ("starting", "restarting"):
            return True
        is_indexing = facts.progress is not None and not facts.progress.is_paused
        is_loading = facts.model is not None and facts.model.state == "loading"
        is_answering = bool(facts.answering) or facts.is_asking_files
        return facts.state == "ready" and (bool(facts.phase) or is_answering or is_indexing or is_loading)

    @property
    def has_failed(self) -> bool:
        return self._facts.state == "failed" or bool(self._facts.refusal)

    def _on_ready(self) -> None:
        # An engine that cannot open its library answers every request with the reason.
        self._client.request(protocol.LIBRARY, protocol.Nothing(), self._on_answered, self._on_refused)

    def _on_answered(self, _reply: protocol.LibraryReply) -> None:
        self._set(replace(self._facts, refusal=""))

    def _on_refused(self, error: WireError) -> None:
        if error.kind != "EngineDied":
            self._set(replace(self._facts, refusal=f"{error.sentence} {error.way_out}".strip()))

    def _on_state(self, state: str) -> None:
        if state == "ready":
            self._set(replace(self._facts, state=state, death=""))
        else:
            # The question to every file continues with the next engine.
            facts = self._facts
            self._set(Facts(state=state, death=facts.death, run=facts.run, asked_files=facts.asked_files))

    def _on_death(self, sentence: str) -> None:
        self._facts = replace(self._facts, death=sentence)

    def _on_notice(self, notice: Notice) -> None:
        match notice:
            case protocol.IndexProgress():
                self._set(replace(self._facts, progress=notice, share=advanced(self._facts.share, notice)))
            case protocol.IndexFinished() | protocol.IndexFailed():
                self._set(replace(self._facts, progress=None, share=NOTHING_DONE))
            case protocol.ModelState():
                self._set(replace(self._facts, model=_loading_longest(self._facts.model, notice)))
            case protocol.Measuring():
                self._set(replace(self._facts, measuring=(notice.done, notice.total)))
            case protocol.AnswerState():
                self._set(replace(self._facts, answering=self._facts.answering | {notice.question_id}))
            case protocol.AnswerFinished() | protocol.AnswerCancelled() | protocol.AnswerFailed():
                self._set(replace(self._facts, answering=self._facts.answering - {notice.question_id}))
            case _:
                pass

    def _show_run(self, each_file: EachFileModel) -> None:
        run: RunState = "paused" if each_file.does_any_wait else "none"
        if each_file.asked is not None:
            run = "running"
        elif each_file.state == "listing":
            run = "listing"
        self._set(replace(self._facts, run=run, asked_files=each_file.asked_progress))

    def _set(self, facts: Facts) -> None:
        self._facts = facts
        if (sentence := sentence_of(facts)) != self.sentence:
            self.sentence = sentence
            self.sentence_changed.emit(sentence)
