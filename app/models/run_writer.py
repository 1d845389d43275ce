"""Who goes on with a question to every file: whoever has answered it so far, as long as that model is there; pure."""

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
    """Who answers the rest of a question; None where that hangs on which models there are, and nobody has said yet.

    Args:
        views: What its files have answered.
        chosen: Who answers a new one.
        known: The models that there are; None where that is not known yet.
        given_up: The file of one that could not answer.
    """
    # One that has nothing to say does not tell who was asked.
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
        # It is asked once more, and says itself why it cannot.
        return Writer(chosen)
    problem = _tr("The answers so far are by %1, which cannot answer now. The others come from what is chosen instead.")
    return Writer(
        chosen, problem.replace("%1", name), _tr("To have all of them from one, delete this question and ask it again.")
    )


def _tr(text: str) -> str:
    return QCoreApplication.translate("run_writer", text)
