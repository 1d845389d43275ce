"""Which model continues a question to every file: the one that has answered so far, if it is available; pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from PySide6.QtCore import QCoreApplication

from app.chats.records import NO_MODEL
from app.models.turns import TurnView
from engine.protocol import ModelEntry


@dataclass(frozen=True, slots=True)
class Writer:
    """`model` is its file, "none" for quotes, "" for the one that is chosen.

    `problem` says why it is not the one that has answered so far, and `way_out` what can be done.
    """

    model: str = ""
    problem: str = ""
    way_out: str = ""


def writer_of(
    views: Iterable[TurnView], chosen: str, known: Iterable[ModelEntry] | None, given_up: str = ""
) -> Writer | None:
    """Returns the model that answers the rest of a question; None if that depends on a list that is not known yet.

    Args:
        views: The answers of its files.
        chosen: The model that answers a new question.
        known: The models that exist; None if that is not known yet.
        given_up: The file of a model that could not answer.
    """
    # A file without an answer does not say which model was asked.
    answered = [view.model for view in views if view.state == "finished" and view.text.strip()]
    if not answered:
        return Writer(chosen)
    if (name := answered[-1]) is None:
        return Writer(NO_MODEL)
    if known is None:
        return None
    same = [one for one in known if one.name == name]
    files = [one.path for one in same if not one.problem and one.path != given_up]
    if files:
        return Writer(chosen if chosen in files else files[0])
    if chosen in (one.path for one in same):
        # The model is asked once more, and reports itself why it cannot answer.
        return Writer(chosen)
    problem = _tr(
        "The answers so far are from %1, which is not available now. The rest will come from what is chosen instead."
    )
    return Writer(
        chosen,
        problem.replace("%1", name),
        _tr("To get all answers from the same model, delete this question and ask it again."),
    )


def _tr(text: str) -> str:
    return QCoreApplication.translate("run_writer", text)
