"""A thousand questions to engines that are killed, run short of memory and are told to stop: each ends once.

The window's own client and models ask a real engine process (tests/helpers/stressed_engine.py), and keep what becomes
of each question in a real file of chats. What is asked, stopped and changed is drawn from a seed; who meets whom is the
machine's doing.
"""

from __future__ import annotations

import os
import random
import signal
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from PySide6.QtCore import QTimer

from app.chats import ChatStore
from app.chats.records import Outcome
from app.engine_client import EngineClient
from app.engine_client.pulse import Patience
from app.models.answering import Answering
from app.models.turns import TurnView
from engine import protocol
from engine.config import MIB
from engine.core import SamplingParams
from engine.protocol import Message, Method
from tests.helpers.tiny_gguf import token_of, write_tiny_model

SEED = 1000
NUM_QUESTIONS = 1000
MOST_OPEN = 24
# Questions that have ended before the next engine is killed; the one after so many deaths is killed with those that it
# was asked again.
KILLED_AFTER, KILLED_AGAIN = (120, 300, 480, 660, 840), 2
# Only a hang takes as long: on a quiet machine with two cores all of it takes about a minute.
PATIENCE_MS = 500_000
# Every start is one of a healthy engine, however many there were.
UNDAUNTED = Patience(back_off_s=(0.05,), max_deaths=100, max_deaths_in_a_row=100)
ENDS = ("finished", "cancelled", "failed")
# Of the questions, those that are stopped, after so many turns of the event loop at most; and of the turns, those in
# which another budget is set.
STOPPED, STOPPED_WITHIN, CHANGED = 0.15, 120, 0.01
RAM_BUDGETS = (None, 256 * MIB, 700 * MIB, 1500 * MIB)
# Each token is a letter that is shown as soon as it is written.
LETTERS = tuple((token_of(letter), 60.0) for letter in "abcdefgh")


class Client(EngineClient):
    """The window's own; counts how often each question was put to an engine."""

    def __init__(self, logs: Path, command: list[str]) -> None:
        super().__init__(logs, command, UNDAUNTED)
        self.asked: Counter[str] = Counter()

    def request(self, method: Method, params: Message, *callbacks) -> int:
        if isinstance(params, protocol.Ask):
            self.asked[params.question_id] += 1
        return super().request(method, params, *callbacks)


@dataclass(slots=True)
class Course:
    """What was seen of a question: its text as it grew, how it ended, what was written down of it, and its losses.

    A loss is the text that there was when the engine died that had it. `stop_in` are turns of the event loop.
    """

    shown: str = ""
    ends: list[TurnView] = field(default_factory=list)
    records: list[Outcome] = field(default_factory=list)
    losses: list[str] = field(default_factory=list)
    stop_in: int | None = None
    is_stopped: bool = False
    was_stopped_when_lost: bool = False


class Crowd:
    """Asks, stops, changes budgets and kills engines, a little at each turn of the event loop."""

    def __init__(self, client: Client, store: ChatStore) -> None:
        self.courses: dict[str, Course] = {}
        self.num_deaths = self.num_changes = 0
        self._client, self._store = client, store
        self._chance = random.Random(SEED)
        self._chat = store.create_conversation("a thousand questions")
        self._open: list[str] = []
        self._segments: tuple[dict[str, object], ...] = ()
        self._num_kills = 0
        # Before the questions hear of it: how they stood when the engine died.
        client.engine_died.connect(self._note_death)
        self.answering = Answering(client, self._record)
        self.answering.turn_changed.connect(self._note_change)
        self.answering.text_appended.connect(self._note_text)
        self._turns = QTimer(interval=5)
        self._turns.timeout.connect(self._act)

    @property
    def num_ended(self) -> int:
        return len(self.courses) - len(self._open)

    @property
    def is_over(self) -> bool:
        return self.num_ended >= NUM_QUESTIONS

    def begin(self) -> None:
        self._turns.start()

    def close(self) -> None:
        self._turns.stop()
        self.answering.close()

    # --- what it does ---

    def _act(self) -> None:
        while len(self._open) < MOST_OPEN and len(self.courses) < NUM_QUESTIONS and self._chance.random() < 0.7:
            self._ask()
        for turn_id in list(self._open):
            self._stop_when_due(turn_id, self.courses[turn_id])
        if self._client.state == "ready" and self._chance.random() < CHANGED:
            budget = self._chance.choice(RAM_BUDGETS)
            self.num_changes += 1
            changes = protocol.SetSettings(changes={"memory.ram_budget_bytes": budget})
            self._client.request(protocol.SETTINGS_SET, changes)
        if self._is_time_to_kill():
            self._num_kills += 1
            os.kill(self._client.engine_pid, signal.SIGKILL)

    def _ask(self) -> None:
        chance = self._chance
        text = f"What is said of number {chance.randrange(40)} under mark {len(self.courses):05d}?"
        turn_id = self._store.add_turn(self._chat.conversation_id, None, text).turn_id
        ask = protocol.Ask(
            question_id=turn_id,
            text=text,
            conversation_id=self._chat.conversation_id,
            transcript=self._segments if chance.random() < 0.1 else (),
            top_k=chance.choice((1, 1, 2)),
            priority=chance.choice(("interactive", "batch")),
            sampling=SamplingParams(
                max_tokens=chance.choice((1, 4, 8, 16, 60)),
                num_answers=chance.choice((1, 1, 1, 1, 1, 2)),
                seed=len(self.courses),
                logit_bias=LETTERS,
            ),
        )
        is_stopped = chance.random() < STOPPED
        self.courses[turn_id] = Course(stop_in=chance.randrange(STOPPED_WITHIN) if is_stopped else None)
        self._open.append(turn_id)
        self.answering.begin(TurnView(turn_id, text), ask)

    def _stop_when_due(self, turn_id: str, course: Course) -> None:
        if course.stop_in is not None:
            course.stop_in -= 1
            if course.stop_in <= 0 and not course.is_stopped:
                course.is_stopped = True
                self.answering.stop(turn_id)

    def _is_time_to_kill(self) -> bool:
        if self._client.state != "ready" or self._num_kills > self.num_deaths:
            return False
        if self.num_deaths == KILLED_AGAIN:
            return any(self._is_asked_again(turn_id) for turn_id in self._open)
        num_planned = self.num_deaths - (self.num_deaths > KILLED_AGAIN)
        return num_planned < len(KILLED_AFTER) and self.num_ended >= KILLED_AFTER[num_planned] and self._has_both()

    def _has_both(self) -> bool:
        """Whether somebody has text and somebody has none, so that a death shows what becomes of both."""
        texts = [bool(self.courses[turn_id].shown) for turn_id in self._open if not self.courses[turn_id].is_stopped]
        return any(texts) and not all(texts)

    def _is_asked_again(self, turn_id: str) -> bool:
        course = self.courses[turn_id]
        return self._client.asked[turn_id] > len(course.losses) == 1 and not (course.shown or course.is_stopped)

    # --- what it sees ---

    def _note_death(self, sentence: str) -> None:
        self.num_deaths += 1
        for turn_id in self._open:
            course = self.courses[turn_id]
            # Nobody else was asked than those who were lost before.
            if self._client.asked[turn_id] > len(course.losses):
                course.losses.append(course.shown)
                course.was_stopped_when_lost |= course.is_stopped

    def _note_text(self, view: TurnView, piece: str) -> None:
        course = self.courses[view.turn_id]
        course.shown += piece
        assert view.text == course.shown

    def _note_change(self, view: TurnView) -> None:
        if view.has_ended:
            self.courses[view.turn_id].ends.append(view)
            self._open.remove(view.turn_id)
            if view.state == "finished" and view.segments:
                self._segments = view.segments

    def _record(self, turn_id: str, outcome: Outcome) -> None:
        self.courses[turn_id].records.append(outcome)
        self._store.record(turn_id, outcome)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    documents = tmp_path / "documents"
    documents.mkdir()
    for number in range(40):
        (documents / f"note{number}.md").write_text(f"Of number {number} it is said that it is number {number}.\n")
    return documents


@pytest.fixture
def client(qapp, tmp_path: Path, ragdoll_home: Path) -> Iterator[Client]:
    made = Client(tmp_path / "logs", [sys.executable, "-m", "tests.helpers.stressed_engine", str(SEED)])
    yield made
    made.stop()


@pytest.fixture
def store(tmp_path: Path) -> Iterator[ChatStore]:
    made = ChatStore(tmp_path / "chats.sqlite")
    yield made
    made.close()


@pytest.fixture
def crowd(client: Client, store: ChatStore) -> Iterator[Crowd]:
    made = Crowd(client, store)
    yield made
    made.close()


def prepare(qtbot, client: Client, folder: Path, model: Path) -> None:
    """Starts the engine on a library with documents and a model."""
    heard: list[protocol.Notice] = []
    client.notice_received.connect(heard.append)
    client.start()
    client.request(protocol.ADD, protocol.AddPaths(paths=(str(folder),)))
    client.request(protocol.MODELS_USE, protocol.ModelFile(path=str(model)))

    def is_prepared() -> bool:
        is_loaded = any(isinstance(notice, protocol.ModelState) and notice.state == "loaded" for notice in heard)
        return is_loaded and any(isinstance(notice, protocol.IndexFinished) for notice in heard)

    qtbot.wait_until(is_prepared, timeout=PATIENCE_MS)
    client.notice_received.disconnect(heard.append)


@pytest.mark.timeout(600)
@pytest.mark.expects_warnings
def test_each_of_a_thousand_questions_ends_once_whatever_happens_to_the_engine(
    qtbot, client: Client, store: ChatStore, crowd: Crowd, folder: Path, tmp_path: Path, ragdoll_home: Path
) -> None:
    model = write_tiny_model(tmp_path / "tiny.gguf", never_ends=True)
    prepare(qtbot, client, folder, model)
    crowd.begin()
    qtbot.wait_until(lambda: crowd.is_over, timeout=PATIENCE_MS)
    assert crowd.num_deaths == len(KILLED_AFTER) + 1
    check_ends(crowd, store)
    check_losses(crowd, client)
    check_variety(crowd, ragdoll_home)
    check_rest(qtbot, client, tmp_path / "logs")


def check_ends(crowd: Crowd, store: ChatStore) -> None:
    """As the window has it, and as it is written down: one end each, the last thing that is told of a question."""
    assert len(crowd.courses) == NUM_QUESTIONS
    stored = {turn.turn_id: turn.outcome for turn in store.turns(crowd._chat.conversation_id)}
    for turn_id, course in crowd.courses.items():
        [end] = course.ends
        assert [record.state for record in course.records if record.state in ENDS] == [end.state]
        assert course.records[-1].state == end.state
        assert (stored[turn_id].state, stored[turn_id].text) == (end.state, end.text)
        assert end.text.startswith(course.shown) if end.state == "finished" else end.text == course.shown


def check_losses(crowd: Crowd, client: Client) -> None:
    """A dead engine's questions are asked again once where nothing of the answer was shown, and else keep what was."""
    for turn_id, course in crowd.courses.items():
        [end], num_asked = course.ends, client.asked[turn_id]
        is_given_up = bool(course.losses) and (bool(course.losses[-1]) or len(course.losses) == 2)
        assert len(course.losses) <= 2
        if course.was_stopped_when_lost:
            assert end.state == "cancelled"
        elif is_given_up:
            assert end.state == "failed"
            assert (end.text, num_asked) == (course.losses[-1], len(course.losses))
        elif course.losses:
            # Another engine had it, which told its end, unless it was stopped before there was one.
            assert num_asked == 2 or (num_asked == 1 and course.is_stopped)
        else:
            assert num_asked <= 1


def check_variety(crowd: Crowd, home: Path) -> None:
    """That all of it happened, so that there was something to get wrong."""
    courses = crowd.courses.values()
    states = Counter(course.ends[0].state for course in courses)
    assert states["finished"] > NUM_QUESTIONS / 2
    assert states["cancelled"] > NUM_QUESTIONS / 20
    assert any(course.losses and course.losses[-1] for course in courses)
    assert any(len(course.losses) == 2 for course in courses)
    assert any(course.losses and course.ends[0].state == "finished" for course in courses)
    # Passes without room, looks at which memory was short (as stressed_engine.py counts them), and other budgets.
    assert min((home / name).stat().st_size for name in ("refused-passes", "short-memory")) > len(KILLED_AFTER)
    assert crowd.num_changes > len(KILLED_AFTER)


def check_rest(qtbot, client: Client, logs: Path) -> None:
    """The engine that is left knows of no question, and none of them went wrong inside."""
    replies: list[protocol.MemoryReply] = []
    client.request(protocol.MEMORY, protocol.Nothing(), replies.append, replies.append)
    qtbot.wait_until(lambda: bool(replies), timeout=PATIENCE_MS)
    assert replies[0].counters["questions_waiting"] == 0
    assert replies[0].counters["answers_running"] == 0
    log = "".join(file.read_text() for file in logs.iterdir())
    assert "ended twice" not in log
    assert "Traceback" not in log
