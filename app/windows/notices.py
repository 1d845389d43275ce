"""News and problems, from the models to the message bar: the engine's deaths, refusals, finished jobs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, cast

from PySide6.QtCore import QObject

from app.widgets.figures import count_text

if TYPE_CHECKING:
    from app.models import AppModels
    from app.widgets.message_bar import MessageBar, Severity
    from engine.protocol import DocumentProblem, IndexFinished, IndexReport

DEATH_SHOWN_S = 10.0
CHECK_SHOWN_S = 6.0


class Notices(QObject):
    """Listens once models are attached; `show_problems` opens the list of a job's problems."""

    def __init__(self, bar: MessageBar, show_problems: Callable[[], object], parent: QObject) -> None:
        super().__init__(parent)
        self._bar, self._show_problems = bar, show_problems
        self._models: AppModels | None = None
        self._death = self._end = self._careful = self._later = ""
        self._problems = ""
        bar.cleared.connect(self._on_cleared)
        self._told: set[tuple[str, str]] = set()
        # The highest number of problems that were too many to be named.
        self._most_untold = 0
        self._has_job_finished = False

    def attach(self, models: AppModels) -> None:
        self._models = models
        models.message_told.connect(self.tell)
        models.problem_found.connect(self._on_problem)
        models.conversation.model_changed.connect(self._on_model_changed)
        models.client.engine_died.connect(self._on_engine_died)
        models.client.became_ready.connect(self._on_engine_ready)
        models.client.engine_gave_up.connect(self._on_engine_gave_up)
        models.library.job_finished.connect(self._on_job_finished)
        models.library.check_finished.connect(self._on_check_finished)

    def tell(self, severity: str, sentence: str, way_out: str) -> None:
        if self._end and self._bar.is_offering and self._bar.sentence == self._end:
            # Imported when the engine fails for the first time, not at the first paint.
            from app.engine_client.client import no_engine_sentence

            # The offer to restart must stay. Requests in the meantime fail without an engine, which is shown already.
            if sentence != no_engine_sentence():
                self._later = sentence
            return
        self._bar.show_message(cast("Severity", severity), sentence, way_out)

    def _on_problem(self, sentence: str) -> None:
        # A message with an offer stays until the user decides.
        if self._bar.is_offering:
            self._later = sentence
        else:
            self._bar.show_message("warning", sentence)

    def _on_cleared(self) -> None:
        later, self._later = self._later, ""
        if later:
            self._bar.show_message("warning", later)

    def _on_model_changed(self) -> None:
        if self._careful and self._bar.sentence == self._careful and not self._is_careful:
            self._careful = ""
            self._bar.clear()

    @property
    def _is_careful(self) -> bool:
        return self._models is not None and self._models.conversation.is_careful

    def _on_engine_died(self, sentence: str) -> None:
        self._death = sentence

    def _on_engine_ready(self) -> None:
        # The message announces a restart, or says that there is none; now it is obsolete.
        if self._death and self._bar.sentence == self._death:
            self._bar.expire(DEATH_SHOWN_S)
        if self._end and self._bar.sentence == self._end:
            self._bar.clear()
        self._death = self._end = ""
        if self._models is not None and self._is_careful:
            self._careful = self.tr("Ragdoll was started in safe mode: answers are quotes until you choose a model.")
            self._bar.show_message(
                "notice",
                self._careful,
                self.tr("Folders are not watched, and nothing is indexed automatically."),
                self.tr("Start normally"),
                self._models.start_as_usual,
            )

    def _on_engine_gave_up(self, sentence: str) -> None:
        self._end = sentence
        self._bar.show_message(
            "error",
            sentence,
            self.tr("It can be started in safe mode: no model, less memory."),
            self.tr("Start in safe mode"),
            self._models.start_carefully if self._models is not None else None,
        )

    def _on_check_finished(self, finished: IndexReport) -> None:
        """A user who asked for a check of the folders gets the result, even if nothing was found."""
        num_problems = len(self._problem_files((*finished.skipped, *finished.failed))) + finished.num_more
        is_told = self._bar.sentence == self._problems_sentence(finished.indexed, num_problems)
        if finished.was_cancelled or (is_told and not self._bar.isHidden()):
            return
        words = self.tr("Indexed: %1. Removed: %2.")
        found = words.replace("%1", count_text(finished.indexed)).replace("%2", count_text(finished.removed))
        absent = self._absent_sentence(finished)
        nothing = absent or self.tr("Nothing has changed in your folders.")
        if finished.indexed or finished.removed:
            self._bar.show_message("notice", found, absent)
        else:
            self._bar.show_message("notice", nothing)
        self._bar.expire(CHECK_SHOWN_S)

    def _absent_sentence(self, finished: IndexReport) -> str:
        """Linked folders that could not be checked, so that changes in them are unknown; or ""."""
        num_absent = len(finished.skipped) - len(self._problem_files(finished.skipped))
        if not num_absent:
            return ""
        if num_absent == 1:
            return self.tr("1 folder cannot be reached; its indexed files are kept.")
        words = self.tr("%1 folders cannot be reached; their indexed files are kept.")
        return words.replace("%1", count_text(num_absent))

    def _problem_files(self, problems: Sequence[DocumentProblem]) -> list[DocumentProblem]:
        """Problems of files: a folder that is out of reach is not one of them, and says so in its own line."""
        folders = self._models.library.folders if self._models is not None else ()
        linked = {folder.path for folder in folders if folder.is_folder}
        return [problem for problem in problems if problem.path not in linked]

    def _on_job_finished(self, finished: IndexFinished) -> None:
        files = self._problem_files((*finished.skipped, *finished.failed))
        problems = {(problem.path, problem.reason) for problem in files}
        # The first check after a start, and every later one, finds old problems again: they are not reported again.
        is_known = not self._has_job_finished and not finished.indexed and bool(finished.unchanged)
        are_new = bool(problems - self._told or finished.num_more > self._most_untold) and not is_known
        self._told |= problems
        self._most_untold = max(finished.num_more, self._most_untold)
        self._has_job_finished = True
        if are_new:
            self._problems = self._problems_sentence(finished.indexed, len(files) + finished.num_more)
            show = self.tr("Show it") if len(problems) == 1 else self.tr("Show them")
            self._bar.show_message("warning", self._problems, "", show, self._show_problems)
        elif finished.indexed and not problems and self._bar.sentence == self._problems:
            # The user has fixed it, for example unlocked a file.
            self._bar.clear()

    def _problems_sentence(self, num_indexed: int, num_problems: int) -> str:
        """Returns `7 files were indexed, 2 were not.` in the grammatical form for the numbers."""
        if not num_indexed:
            words = (
                self.tr("1 file could not be indexed.")
                if num_problems == 1
                else self.tr("%2 files could not be indexed.")
            )
        elif num_indexed == 1:
            words = (
                self.tr("1 file was indexed, 1 was not.")
                if num_problems == 1
                else self.tr("1 file was indexed, %2 were not.")
            )
        else:
            words = (
                self.tr("%1 files were indexed, 1 was not.")
                if num_problems == 1
                else self.tr("%1 files were indexed, %2 were not.")
            )
        return words.replace("%1", count_text(num_indexed)).replace("%2", count_text(num_problems))
