"""Ten times as many questions as an engine can answer: none is lost, people go first, and afterwards all is as before.

A whole engine in this process, with a model of random weights. Who overtakes whom is told by order: by what was
computed and handed over meanwhile, and never by the clock.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from engine import assembly
from engine.adapting import Adapting
from engine.config import MIB
from engine.core import Priority, Question, SamplingParams
from engine.engine import Engine
from engine.events import (
    AnswerEnded,
    AnswerFinished,
    AnswerStateChanged,
    Event,
    ModelStateChanged,
    PassagesFound,
    TokensGenerated,
)
from engine.generation.model_leases import SET_ASIDE
from engine.inflight import QuestionInFlight
from engine.memory.placement import Placement
from engine.shortage import TOLERANCE
from tests.helpers.quick_stores import use_quick_stores
from tests.helpers.tiny_gguf import token_of, write_tiny_model

PATIENCE_SECONDS = 120
# A second of the loop over memory passes in this part of one.
SPEED = 30.0
# Room beside what the engine holds while nobody asks anything.
SPARE_BYTES = 96 * MIB
OVERLOAD, OFFERED_SECONDS = 10, 30
ANSWER_TOKENS = 8
# As many answers are written at once on a processor, however many wait (`competing.MOST_SLOTS_OF_PROCESSOR`).
SLOTS = 16
NUM_SCRIPTS, LEAST_PEOPLE = 400, 5
# The same question but for its number, so that each costs as much as the next.
TEXT = "What is said of number {:02d} under mark {:05d}?"
# Each token is a letter that is shown as soon as it is written.
LETTERS = tuple((token_of(letter), 60.0) for letter in "abcdefgh")


@dataclass(frozen=True, slots=True)
class Course:
    """What others got between the arrival of somebody's question and its first token.

    `searched` of scripts' questions were handed to the model before it was. At least `steps` were computed from when
    the model had it to its first token, and at most `most_steps`: it is handed over while others compute.
    """

    searched: int
    steps: int
    most_steps: int


class Desk:
    """An engine that is asked, and everything it said, in order."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.asked: dict[str, Priority] = {}
        self.ends: dict[str, AnswerEnded] = {}
        self.num_ended_twice = 0
        self.most_held_share = 0.0
        self._events: list[tuple[Event, int]] = []
        # The place in `_events` by which a question was with the search, and the step by which it was with the model.
        self._asked_at: dict[str, int] = {}
        self._handed_at: dict[str, tuple[int, int]] = {}
        self._changed = threading.Condition()
        engine.subscribe(self._take)
        retrieval, submit = engine._parts.retrieval, engine._parts.generation.submit

        def hand_over(in_flight: QuestionInFlight, evidence: object) -> None:
            before = self._num_steps
            submit(in_flight, evidence)
            self._handed_at[in_flight.question.question_id] = before, self._num_steps

        retrieval._hand_over = hand_over

    # --- asking ---

    def ask(self, priority: Priority) -> str:
        number = len(self.asked)
        question_id = f"{priority} {number}"
        sampling = SamplingParams(max_tokens=ANSWER_TOKENS, seed=number, logit_bias=LETTERS)
        text = TEXT.format(number % 40, number)
        self.asked[question_id] = priority
        self.engine.submit(Question(question_id, text, top_k=1, sampling=sampling, priority=priority))
        self._asked_at[question_id] = len(self._events)
        return question_id

    def wait(self, *question_ids: str) -> None:
        """Until these have ended; all that were asked where none is named."""
        wanted = set(question_ids or self.asked)
        with self._changed:
            assert self._changed.wait_for(lambda: wanted <= self.ends.keys(), PATIENCE_SECONDS), self._left(wanted)

    def wait_until(self, is_so: Callable[[], bool], told: Callable[[], object] = lambda: "") -> None:
        """Until it is; `told` says what there is where that is not so in the end."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while not is_so():
            assert time.monotonic() < deadline, told()
            time.sleep(0.02)

    def _left(self, wanted: set[str]) -> str:
        return f"{len(wanted - self.ends.keys())} of {len(wanted)} have not ended"

    # --- what was seen ---

    @property
    def num_open_scripts(self) -> int:
        """Scripts' questions that have not ended."""
        with self._changed:
            return sum(priority == "batch" for one, priority in self.asked.items() if one not in self.ends)

    def course(self, question_id: str) -> Course:
        """How somebody's question went."""
        found = next(n for n, (event, _) in enumerate(self._events) if _is_of(event, PassagesFound, question_id))
        # It may have been found before `submit` returned: then nothing came between.
        searched = sum(
            isinstance(event, PassagesFound) and self.asked[event.question_id] == "batch"
            for event, _ in self._events[self._asked_at[question_id] : found]
        )
        step = next(step for event, step in self._events if _is_of(event, TokensGenerated, question_id))
        before, after = self._handed_at[question_id]
        return Course(searched, step - after, step - before)

    def began_meanwhile(self, question_id: str) -> list[str]:
        """Scripts' questions that got cells between the hand-over of somebody's question and its own getting them."""
        began = [
            (event.question_id, step)
            for event, step in self._events
            if isinstance(event, AnswerStateChanged) and event.state == "writing"
        ]
        own = next(step for other, step in began if other == question_id)
        _, handed = self._handed_at[question_id]
        # Who came in with the step that was under way has not overtaken it, nor who comes in behind it.
        return [other for other, step in began if handed + 1 < step < own and self.asked[other] == "batch"]

    @property
    def placement(self) -> Placement:
        placement = self.engine._parts.models.principal.loader.placement
        assert placement is not None
        return placement

    def held(self) -> dict[str, int]:
        """What the model takes in memory, by what for; of buffers, whose pages come as they are written to, no size."""
        spans = self.engine.ledger.spans("ram")
        return {
            span.what: 0 if span.owner == "workspace" else span.num_bytes
            for span in spans
            if span.owner in ("weights", "workspace") or span.what.endswith(" cells") or span.what == SET_ASIDE
        }

    @property
    def _num_steps(self) -> int:
        loaded = self.engine._parts.models.principal.loaded
        return loaded.loop.num_steps if loaded is not None else 0

    def _take(self, event: Event) -> None:
        ledger, budgets = self.engine.ledger, self.engine._parts.adapting.budgets()
        share = ledger.counted_bytes("ram") / (budgets.ram_bytes or 1)
        with self._changed:
            self.most_held_share = max(self.most_held_share, share)
            self._events.append((event, self._num_steps))
            if isinstance(event, AnswerEnded):
                self.num_ended_twice += event.question_id in self.ends
                self.ends[event.question_id] = event
                self._changed.notify_all()


def _is_of(event: Event, kind: type[Event], question_id: str) -> bool:
    return isinstance(event, kind) and event.question_id == question_id  # type: ignore[union-attr]


@pytest.fixture
def documents(tmp_path: Path) -> Path:
    folder = tmp_path / "documents"
    folder.mkdir()
    for number in range(40):
        (folder / f"note{number:02d}.md").write_text(f"Of number {number:02d} it is said that it is what it is.\n")
    return folder


@pytest.fixture
def desk(tmp_path: Path, documents: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Desk]:
    """An engine that has answered some, and so knows how long questions are; with room for little beside that."""
    use_quick_stores(monkeypatch.setattr)

    def hurried(*arguments: object, **options: object) -> Adapting:
        return Adapting(*arguments, clock=lambda: time.monotonic() * SPEED, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(assembly, "Adapting", hurried)
    model = write_tiny_model(tmp_path / "tiny.gguf", never_ends=True)
    with Engine.open(tmp_path / "home") as engine:
        engine.add([documents])
        # Nothing is kept on the disk: whoever waits for that waits by the clock, and others go on meanwhile.
        engine.change_settings({"generation.parallel_answers": SLOTS, "generation.kv_disk_bytes": 0})
        desk = Desk(engine)
        engine.use_model(model, remember=False)
        desk.wait_until(lambda: any(isinstance(e, ModelStateChanged) and e.state == "loaded" for e, _ in desk._events))
        for _ in range(24):
            desk.wait(desk.ask("interactive"))
        held = engine.ledger.counted_bytes("ram")
        engine.change_settings({"memory.ram_budget_bytes": held + SPARE_BYTES})
        desk.wait_until(lambda: engine._parts.adapting.budgets().ram_bytes == held + SPARE_BYTES)
        desk.most_held_share = 0.0
        yield desk


def measured_capacity(desk: Desk, num_questions: int) -> float:
    """Questions a second that a script gets answered when nobody else asks."""
    since = time.perf_counter()
    desk.wait(*[desk.ask("batch") for _ in range(num_questions)])
    return num_questions / (time.perf_counter() - since)


def check_lost_nothing(desk: Desk) -> None:
    """Each question has its answer, once, and nothing of any is left."""
    assert desk.ends.keys() == desk.asked.keys()
    assert desk.num_ended_twice == 0
    assert {type(end) for end in desk.ends.values()} == {AnswerFinished}
    assert {end.timings.generated_tokens for end in desk.ends.values()} == {ANSWER_TOKENS}


def check_people_went_first(desk: Desk, alone: list[Course], people: list[str]) -> None:
    """Somebody waits for one passage that is being read, and for the batch that is being computed; then it is theirs.

    With prompts and answers taking turns, each piece of a prompt may have a step of the others before it.
    """
    assert len(people) >= LEAST_PEOPLE
    most_alone = max(course.most_steps for course in alone)
    for question_id in people:
        course = desk.course(question_id)
        assert course.searched <= 1, (question_id, course)
        assert course.steps <= 2 * most_alone + 1, (question_id, course, alone)
        assert desk.began_meanwhile(question_id) == []


def check_rest(desk: Desk, placement: Placement, held: dict[str, int]) -> None:
    """As before anybody asked: no question, nothing in cells that is anybody's, and all in its place."""
    parts = desk.engine._parts
    assert desk.engine._questions.all() == ()
    assert len(parts.retrieval._waiting) == 0
    assert not parts.retrieval._waiting._ahead
    loaded = parts.models.principal.loaded
    desk.wait_until(lambda: not loaded.loop.has_work)
    assert loaded.loop.saved_bytes == loaded.loop.spilled_bytes == 0
    desk.wait_until(lambda: _lies(desk.placement) == _lies(placement), lambda: (desk.placement, placement))
    desk.wait_until(lambda: desk.held() == held, lambda: (desk.held(), held))
    assert parts.adapting.given_up == ()


def _lies(placement: Placement) -> tuple[object, ...]:
    return (
        placement.num_slots,
        placement.num_cells,
        placement.n_ubatch,
        placement.index_bytes,
        placement.streamed_layers,
    )


def alone(desk: Desk) -> list[Course]:
    courses = []
    for _ in range(5):
        question_id = desk.ask("interactive")
        desk.wait(question_id)
        courses.append(desk.course(question_id))
    return courses


def people_among_scripts(desk: Desk, pause_seconds: float = 0.0) -> list[str]:
    """Somebody asks, reads the answer, and asks again, as long as scripts wait; the ids of the questions."""
    people = []
    while desk.num_open_scripts > 2 * SLOTS:
        people.append(desk.ask("interactive"))
        desk.wait(people[-1])
        time.sleep(pause_seconds)
    return people


def test_a_burst_of_far_more_than_can_be_answered_loses_nobody_and_people_go_first(desk: Desk) -> None:
    undisturbed = alone(desk)
    placement, held = desk.placement, desk.held()
    for _ in range(NUM_SCRIPTS):
        desk.ask("batch")
    people = people_among_scripts(desk)
    desk.wait()
    check_lost_nothing(desk)
    check_people_went_first(desk, undisturbed, people)
    assert desk.most_held_share <= TOLERANCE
    check_rest(desk, placement, held)


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_half_a_minute_of_ten_times_the_capacity_loses_nobody_and_people_go_first(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tests.end_to_end.test_overload.PATIENCE_SECONDS", 1500)
    undisturbed = alone(desk)
    placement, held = desk.placement, desk.held()
    offered_per_s = OVERLOAD * measured_capacity(desk, 200)
    people: list[str] = []
    asking = threading.Thread(target=lambda: people.extend(people_among_scripts(desk, 0.4)))
    for number in range(int(OFFERED_SECONDS * offered_per_s)):
        desk.ask("batch")
        if number == 8 * SLOTS:
            asking.start()
        time.sleep(1 / offered_per_s)
    asking.join()
    desk.wait()
    check_lost_nothing(desk)
    check_people_went_first(desk, undisturbed, people)
    assert desk.most_held_share <= TOLERANCE
    check_rest(desk, placement, held)
