"""Tests for engine.notices."""

from __future__ import annotations

from typing import get_args

import pytest

from engine import events, protocol, wire
from engine.core import Answer, Citation, ContextUse, Download, Passage, Quote, Refresh, Scope
from engine.errors import DiskFull, RagdollError
from engine.metrics import Timings
from engine.notices import MAX_PROBLEMS, brief_report_of, event_of, notice_of, report_of

PASSAGE = Passage("r", 1, "/a.md", 0, 2, 0, 3, "h", "abc", 0.5)
QUOTE = Quote("abc", 0, "/a.md", 2, 0, 3, 0.9)
SCOPE = Scope(1, 2, 1)
ANSWER = Answer("abc [1]", (QUOTE,), (Citation("[1]", 0, 4),), (PASSAGE,), SCOPE, None, "stop", ({"role": "user"},))
EXAMPLES: list[events.Event] = [
    events.PhaseChanged("loading model"),
    events.IndexProgressed(1, 2, 3, "/a.md", None, 4.5),
    events.IndexFinished(1, 2, 3, (("/s", "empty"),), (("/f", "broken"),), 4, 5.0),
    events.IndexFailed(DiskFull("The disk is full.", "Make room.")),
    events.LibraryChanged(),
    events.AnswerStateChanged("q", "queued", 2),
    events.PassagesFound("q", (PASSAGE,), (QUOTE,), SCOPE),
    events.TokensGenerated("q", "ab"),
    events.AnswerFinished("q", ANSWER, Timings(0, 0, 0, 0, 1, 2, 3, context=ContextUse(10, 1, 2, 3, 4, 5, 6))),
    events.AnswerCancelled("q"),
    events.EvidenceRefreshed("q", Refresh(120, 1, 1), (PASSAGE,), 0.2, 0.15),
    events.PassagesRecalled("q", (PASSAGE,)),
    events.AnswerFailed("q", DiskFull("The disk is full.")),
    events.ModelStateChanged("loaded", "/m.gguf", "m", 1.0, "fits"),
    events.MemoryChanged(),
    events.MeasuringProgressed(3, 12),
    events.DownloadsChanged((Download("o/n/m.gguf", "fetching", 1, 2, 0.5, 2.0),)),
    events.EmbedderDownloadsChanged((Download("o/n", "fetching", 1, 2, 0.5, 2.0),)),
    events.RerankerDownloadsChanged((Download("o/n", "fetching", 1, 2, 0.5, 2.0),)),
    events.PlacementSettled(True, "All layers in memory.", 0.2),
    events.ModelSwitched("/m.gguf", "m", "/n.gguf", 0.1, 0.2, 5),
    events.MemoryShort("gpu", "The card is full: keys and values move to main memory."),
    events.ProblemFound("engine.toml has a wrong value."),
    events.ThoughtsGenerated("q", "hm"),
    events.SettingsChanged(),
    events.PromptMade("q", 2290),
]
# The Memory page hears of them from the ticker's pictures, and of prompts only the plan.
TOLD_BY_PICTURES = (events.MemoryChanged, events.PlacementSettled, events.MemoryShort, events.ModelSwitched)
NOT_TOLD = (*TOLD_BY_PICTURES, events.PromptMade)


@pytest.mark.parametrize("event", EXAMPLES, ids=lambda event: type(event).__name__)
def test_every_event_survives_the_wire(event: events.Event):
    notice = notice_of(event)
    if isinstance(event, NOT_TOLD):
        assert notice is None
        return
    assert notice is not None
    assert wire.decode_message(wire.encode_notice(notice)) == notice


# What commands listen to when they follow an engine from outside.
FOLLOWED = (
    events.ProblemFound,
    events.IndexProgressed,
    events.IndexFailed,
    events.DownloadsChanged,
    events.AnswerFinished,
    events.AnswerCancelled,
    events.AnswerFailed,
)


@pytest.mark.parametrize("event", EXAMPLES, ids=lambda event: type(event).__name__)
def test_what_commands_follow_is_the_same_event_at_the_other_end(event: events.Event):
    notice = notice_of(event)
    heard = event_of(notice) if notice is not None else None
    if not isinstance(event, FOLLOWED):
        assert heard is None
    elif isinstance(event, events.IndexFailed | events.AnswerFailed):
        assert isinstance(heard, type(event))
        assert (type(heard.error), str(heard.error)) == (type(event.error), str(event.error))
    else:
        assert heard == event


def test_an_error_of_a_later_engine_is_one_all_the_same():
    heard = event_of(protocol.AnswerFailed(question_id="q", kind="MoonInTheWay", sentence="It is dark.", way_out=""))
    assert isinstance(heard, events.AnswerFailed)
    assert (type(heard.error), heard.error.sentence) == (RagdollError, "It is dark.")


def test_who_waits_for_a_job_is_told_of_every_file():
    problems = tuple((f"/{number:06}", "empty") for number in range(2 * MAX_PROBLEMS))
    report = report_of(events.IndexFinished(0, 0, 0, problems, (), 0, 1.0, in_part=(("/p", "pictures"),)))
    assert len(report.skipped) == 2 * MAX_PROBLEMS
    assert report.in_part == (protocol.DocumentProblem(path="/p", reason="pictures"),)


def test_a_brief_report_names_the_first_files_and_counts_the_others():
    problems = tuple((f"/{number:06}", "empty") for number in reversed(range(2 * MAX_PROBLEMS)))
    report = brief_report_of(events.IndexFinished(4, 3, 2, problems, problems[:3], 9, 1.0, in_part=problems))
    assert [problem.path for problem in report.skipped] == [f"/{number:06}" for number in range(MAX_PROBLEMS)]
    assert (len(report.failed), len(report.in_part), report.num_more) == (3, MAX_PROBLEMS, MAX_PROBLEMS)
    assert (report.indexed, report.unchanged, report.removed, report.chunks) == (4, 3, 2, 9)


def test_no_event_is_forgotten_here():
    assert {type(event) for event in EXAMPLES} == set(get_args(events.Event))


def test_an_answer_arrives_as_it_was_finished():
    notice = notice_of(EXAMPLES[8])
    assert isinstance(notice, protocol.AnswerFinished)
    assert notice.answer == ANSWER


def test_problems_keep_path_and_reason():
    notice = notice_of(EXAMPLES[2])
    assert isinstance(notice, protocol.IndexFinished)
    assert notice.failed == (protocol.DocumentProblem(path="/f", reason="broken"),)


def test_of_very_many_problems_the_first_are_named_and_the_others_counted():
    problems = tuple((f"/{number:06}", "empty") for number in reversed(range(2 * MAX_PROBLEMS)))
    notice = notice_of(events.IndexFinished(0, 0, 0, problems, problems[:3], 0, 1.0))
    assert isinstance(notice, protocol.IndexFinished)
    assert [problem.path for problem in notice.skipped] == [f"/{number:06}" for number in range(MAX_PROBLEMS)]
    assert (len(notice.failed), notice.num_more) == (3, MAX_PROBLEMS)
