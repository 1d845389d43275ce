"""What a chat can have of its own instead of the settings, under the same names as in the settings."""

from __future__ import annotations

from PySide6.QtCore import QCoreApplication

from app.widgets.figures import count_text
from app.widgets.setting_controls import Choice, Control
from app.windows import engine_rows
from app.windows.engine_rows import Row
from engine.protocol import Manner

# The name of each in the engine's settings.
SETTING_OF = {
    "instructions": "generation.instructions",
    "temperature": "generation.temperature",
    "max_tokens": "generation.max_answer_tokens",
    "thinks": "generation.thinks",
    "top_p": "generation.top_p",
    "min_p": "generation.min_p",
    "beam_width": "generation.beam_width",
}
_QUOTED_CHARS = 80


def rows() -> dict[str, Row]:
    """Returns the rows by their names in a Manner, in the order in which they are shown."""
    known = {row.setting: row for row in (*engine_rows.answers(), *engine_rows.sampling())}
    return {name: known[setting] for name, setting in SETTING_OF.items()}


def control_of(name: str, row: Row) -> Control:
    """Returns a row's control; a choice instead of a check box, because a second box in the row would confuse."""
    return Choice(((True, _tr("Yes")), (False, _tr("No"))), row.name) if name == "thinks" else row.make_control()


def words_of(manner: Manner) -> tuple[str, ...]:
    """Returns a line for each value that is the chat's own."""
    named = {name: row.name for name, row in rows().items()}
    own = manner.model_dump(exclude_none=True)
    return tuple(f"{named[name]}: {_value_text(own[name])}" for name in named if name in own)


def _value_text(value: object) -> str:
    if isinstance(value, str):
        text = " ".join(value.split())
        quoted = text if len(text) <= _QUOTED_CHARS else f"{text[:_QUOTED_CHARS]}…"
        return f"“{quoted}”" if quoted else _tr("none")
    if isinstance(value, bool):
        return _tr("yes") if value else _tr("no")
    return count_text(value) if isinstance(value, int) else f"{value:g}"


def _tr(text: str) -> str:
    return QCoreApplication.translate("manner", text)
