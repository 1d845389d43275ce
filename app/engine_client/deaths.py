"""What it means that the engine has ended: a sentence for people, and whether and when to restart it."""

from __future__ import annotations

import signal
from dataclasses import dataclass, replace

from PySide6.QtCore import QCoreApplication

from app.engine_client.pulse import Patience
from app.sentences import joined


@dataclass(frozen=True, slots=True)
class Death:
    """How a process ended. `code` is the signal's number if it `has_crashed`, else the exit status."""

    was_started: bool = True
    has_crashed: bool = False
    code: int = 0


@dataclass(frozen=True, slots=True)
class Record:
    """The deaths so far: the times of recent ones, and how many came in a row without a long life in between."""

    times: tuple[float, ...] = ()
    in_a_row: int = 0

    def with_death(self, now: float, lived_s: float, patience: Patience) -> Record:
        """Returns the record with one more death; `lived_s` is how long the engine was ready, 0 if it never was."""
        recent = tuple(time for time in self.times if now - time <= patience.deaths_within_s)
        in_a_row = 0 if lived_s > patience.deaths_within_s else self.in_a_row
        return replace(self, times=(*recent, now), in_a_row=in_a_row + 1)

    def is_hopeless(self, patience: Patience) -> bool:
        """Returns whether another restart would probably fail as well."""
        return len(self.times) >= patience.max_deaths or self.in_a_row >= patience.max_deaths_in_a_row

    def wait_s(self, patience: Patience) -> float:
        """Returns how long to wait before the next start."""
        waits = patience.back_off_s
        return waits[min(self.in_a_row, len(waits)) - 1]


def cause(death: Death) -> str:
    """Returns what happened, as a sentence."""
    if not death.was_started:
        return _tr("The engine could not be started.")
    if not death.has_crashed:
        return _tr("The engine ended unexpectedly (exit code %1).").replace("%1", str(death.code))
    if death.code == signal.SIGKILL:
        return _tr("The engine was ended by the system or another program, most often because memory ran out.")
    return _tr("The engine crashed (%1).").replace("%1", _signal_name(death.code))


def hang_cause(silent_s: float) -> str:
    return _tr("The engine has not answered for %1 seconds.").replace("%1", f"{silent_s:g}")


def garbage_cause() -> str:
    return _tr("A message from the engine could not be read.")


def restart_sentence(because: str) -> str:
    return joined(because, _tr("It is restarting."))


def giving_up_sentence(because: str, record: Record) -> str:
    sentence = _tr("This happened %1 times in a short time, so the engine is not restarted automatically.")
    often = sentence.replace("%1", str(record.in_a_row))
    return joined(because, often, _tr("The usual reason is a model that does not fit into memory."))


def unstartable_sentence(program: str) -> str:
    sentence = _tr("The engine could not be started: %1 cannot be run.")
    return joined(sentence.replace("%1", program), _tr("Install Ragdoll again."))


def wrong_version_sentence(theirs: object, ours: int) -> str:
    sentence = _tr("The engine speaks version %1 of the protocol, this window version %2.")
    way_out = _tr("Install Ragdoll again, so that both are from one release.")
    return joined(sentence.replace("%2", str(ours)).replace("%1", str(theirs)), way_out)


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return str(number)


def _tr(text: str) -> str:
    return QCoreApplication.translate("engine_client", text)
