"""The rows of one question to every file: each file's answer and where it was found, and the counts; without Qt.

The passages behind ten thousand answers would be hundreds of megabytes, so the rows hold only what a table shows.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from app.chats.records import Outcome, RunFile, Turn
from app.models.turn_records import view_of
from app.models.turns import TurnState, TurnView

HAS_ANSWERED: frozenset[TurnState] = frozenset({"finished", "failed"})


class RunRows:
    """The `files` of a run in the order of its table, and the newest view of each in `views`.

    `num_answered` of them are finished or failed, `num_failed` of them failed.
    """

    def __init__(self, files: Iterable[RunFile] = (), question: str = "") -> None:
        """Starts with the stored answers."""
        self.files = [*files]
        self.views = [stored_view(file.file_id, question, file.outcome) for file in self.files]
        self.num_answered = sum(view.state in HAS_ANSWERED for view in self.views)
        self.num_failed = sum(view.state == "failed" for view in self.views)
        self._rows = {file.file_id: row for row, file in enumerate(self.files)}
        self._found_at = {file.file_id: file.places for file in self.files if file.places}

    def __len__(self) -> int:
        return len(self.files)

    @property
    def is_complete(self) -> bool:
        """Returns whether no file is waiting."""
        return self.num_answered == len(self)

    def row_of(self, file_id: str) -> int | None:
        """Returns the row of a file; None if it is not in the table."""
        return self._rows.get(file_id)

    def move(self, row: int, document_id: int) -> None:
        """Assigns a file to another document, because it left the library and came back."""
        self.files[row] = replace(self.files[row], document_id=document_id)

    def found_at(self, view: TurnView) -> tuple[str, ...]:
        """Returns where in its file an answer was found."""
        return self._found_at.get(view.turn_id, ()) if view.has_ended else ()

    def put(self, view: TurnView) -> int | None:
        """Puts a view into its file's row; returns the row, None if nothing that is shown has changed."""
        row = self.row_of(view.turn_id)
        if row is None:
            return None
        if view.has_ended:
            self._found_at[view.turn_id] = tuple(places_of(view))
            view = _as_shown(view)
        if (was := self.views[row]) == view:
            return None
        self.num_answered += (view.state in HAS_ANSWERED) - (was.state in HAS_ANSWERED)
        self.num_failed += (view.state == "failed") - (was.state == "failed")
        self.views[row] = view
        return row


def stored_view(file_id: str, question: str, outcome: Outcome) -> TurnView:
    """Returns the view of a stored answer; a file that has not answered waits."""
    if outcome.state not in HAS_ANSWERED:
        return TurnView(file_id, question)
    view = view_of(Turn(file_id, "", None, question, 0.0, outcome))
    return view if view.state in HAS_ANSWERED else TurnView(file_id, question)


def places_of(view: TurnView) -> list[str]:
    """Returns the places of the passages that an answer cites, or of its quotes if the quotes are the answer."""
    if view.model is None:
        places = [quote.place for quote in view.quotes]
    else:
        cited = (citation.passage for citation in view.citations)
        places = [view.passages[passage].place for passage in cited if passage < len(view.passages)]
    return [place for place in dict.fromkeys(places) if place]


def _as_shown(view: TurnView) -> TurnView:
    """Returns an ended view without the parts that the table does not show."""
    return replace(view, thoughts="", passages=(), quotes=(), citations=(), segments=(), scope=None)
