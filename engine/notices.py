"""Maps events inside the process to notifications on the wire: a pure mapping, event by event."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, replace

from engine import errors, events, protocol
from engine.errors import RagdollError
from engine.metrics import Timings

# The most files listed as skipped, and as failed: the library page lists all, and a line has a limit.
MAX_PROBLEMS = 500
_Pairs = Sequence[tuple[str, str]]


def notice_of(event: events.Event) -> protocol.Notice | None:
    """Returns the notification for an event; None if the wire has its own (the ticker sends memory snapshots)."""
    match event:
        case events.PhaseChanged(phase):
            return protocol.Phase(phase=phase)
        case events.ProblemFound(sentence):
            return protocol.Problem(sentence=sentence)
        case events.SettingsChanged():
            return protocol.SettingsChanged()
        case events.IndexProgressed():
            return protocol.IndexProgress(**asdict(event))
        case events.IndexFinished():
            return _index_finished(event)
        case events.IndexFailed(error):
            return protocol.IndexFailed(kind=error.kind, sentence=error.sentence, way_out=error.way_out)
        case events.LibraryChanged():
            return protocol.LibraryChanged()
        case events.ModelStateChanged():
            return protocol.ModelState(**asdict(event))
        case events.MeasuringProgressed(done, total):
            return protocol.Measuring(done=done, total=total)
        case events.DownloadsChanged(downloads):
            return protocol.ModelDownloads(downloads=downloads)
        case events.EmbedderDownloadsChanged(downloads):
            return protocol.EmbedderDownloads(downloads=downloads)
        case events.RerankerDownloadsChanged(downloads):
            return protocol.RerankerDownloads(downloads=downloads)
        case events.MemoryChanged() | events.PlacementSettled() | events.MemoryShort() | events.ModelSwitched():
            return None
        case events.PromptMade():
            return None
        case _:
            return _answer_notice(event)


def _answer_notice(event: events.Event) -> protocol.Notice | None:
    match event:
        case events.AnswerStateChanged(question_id, state, ahead, beams):
            return protocol.AnswerState(question_id=question_id, state=state, ahead=ahead, beam_width=beams)
        case events.PassagesFound(question_id, passages, quotes, scope):
            return protocol.AnswerFound(question_id=question_id, passages=passages, quotes=quotes, scope=scope)
        case events.TokensGenerated(question_id, text):
            return protocol.AnswerTokens(question_id=question_id, text=text)
        case events.ThoughtsGenerated(question_id, text):
            return protocol.AnswerThoughts(question_id=question_id, text=text)
        case events.EvidenceRefreshed():
            return protocol.AnswerRefreshed(
                question_id=event.question_id,
                refresh=event.refresh,
                passages=event.passages,
                retrieval_s=event.retrieval_s,
                hidden_s=event.hidden_s,
            )
        case events.PassagesRecalled(question_id, passages):
            return protocol.AnswerRecalled(question_id=question_id, passages=passages)
        case events.AnswerFinished(question_id, answer, timings):
            wire_timings = protocol.Timings(**asdict(timings))
            return protocol.AnswerFinished(question_id=question_id, answer=answer, timings=wire_timings)
        case events.AnswerCancelled(question_id, segments):
            return protocol.AnswerCancelled(question_id=question_id, segments=segments)
        case events.AnswerFailed(question_id, error):
            return protocol.AnswerFailed(
                question_id=question_id, kind=error.kind, sentence=error.sentence, way_out=error.way_out
            )
    return None


def event_of(notice: protocol.Notice) -> events.Event | None:
    """Does the reverse, for commands that follow an engine from outside; None for notices that they do not need."""
    match notice:
        case protocol.Problem(sentence=sentence):
            return events.ProblemFound(sentence)
        case protocol.IndexProgress():
            return events.IndexProgressed(**notice.model_dump())
        case protocol.IndexFailed(kind=kind, sentence=sentence, way_out=way_out):
            return events.IndexFailed(error_of(kind, sentence, way_out))
        case protocol.ModelDownloads(downloads=downloads):
            return events.DownloadsChanged(downloads)
        case protocol.AnswerFinished(question_id=question_id, answer=answer, timings=timings):
            return events.AnswerFinished(question_id, answer, Timings(**dict(timings)))
        case protocol.AnswerCancelled(question_id=question_id, segments=segments):
            return events.AnswerCancelled(question_id, segments)
        case protocol.AnswerFailed(question_id=question_id, kind=kind, sentence=sentence, way_out=way_out):
            return events.AnswerFailed(question_id, error_of(kind, sentence, way_out))
    return None


def error_of(kind: str, sentence: str, way_out: str) -> RagdollError:
    """Returns an error as the engine raised it; a RagdollError if the kind is unknown here."""
    known = getattr(errors, kind, None)
    if not (isinstance(known, type) and issubclass(known, RagdollError)):
        known = RagdollError
    return known(sentence, way_out)


def report_of(event: events.IndexFinished) -> protocol.IndexReport:
    """Returns the result of a job for the client that waits for it: every file."""
    return protocol.IndexReport(
        indexed=event.indexed,
        unchanged=event.unchanged,
        removed=event.removed,
        skipped=_problems(event.skipped),
        failed=_problems(event.failed),
        in_part=_problems(event.in_part),
        chunks=event.chunks,
        seconds=event.seconds,
        was_cancelled=event.was_cancelled,
    )


def brief_report_of(event: events.IndexFinished) -> protocol.IndexReport:
    """Returns the same with only the files that the notification lists, for a client that shows only figures."""
    skipped, failed, in_part = map(_first, (event.skipped, event.failed, event.in_part))
    brief = report_of(replace(event, skipped=skipped, failed=failed, in_part=in_part))
    return brief.model_copy(update={"num_more": _num_more(event)})


def _index_finished(event: events.IndexFinished) -> protocol.IndexFinished:
    return protocol.IndexFinished(
        indexed=event.indexed,
        unchanged=event.unchanged,
        removed=event.removed,
        skipped=_problems(_first(event.skipped)),
        failed=_problems(_first(event.failed)),
        chunks=event.chunks,
        seconds=event.seconds,
        was_cancelled=event.was_cancelled,
        num_more=_num_more(event),
    )


def _first(pairs: _Pairs) -> tuple[tuple[str, str], ...]:
    # Sorted, so that repeated runs list the same files.
    return tuple(sorted(pairs)[:MAX_PROBLEMS])


def _num_more(event: events.IndexFinished) -> int:
    return sum(max(0, len(pairs) - MAX_PROBLEMS) for pairs in (event.skipped, event.failed))


def _problems(pairs: _Pairs) -> tuple[protocol.DocumentProblem, ...]:
    return tuple(protocol.DocumentProblem(path=path, reason=reason) for path, reason in pairs)
