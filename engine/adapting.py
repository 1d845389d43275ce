"""The loop that keeps memory fitting: it looks at the machine, asks the planner, and has the parts change one by one.

A thread of its own, once a second and whenever something changed. It owns what is to be next and what was decided, in
words. Nothing is moved here: the generation thread takes to a placement between two of its steps, the index to a budget
between two sweeps (handing_over.py). When memory runs short although everything lies as planned, one thing after the
other is given up in the order of the ladder, and taken back slowly (memory.md, section 4).
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import replace

from engine.core import Tier
from engine.events import Event, MemoryShort, ModelStateChanged, ModelSwitched, PlacementSettled
from engine.handing_over import HandOver, Here, is_free, is_there, step
from engine.memory import reasons
from engine.memory.allowance import Allowance, chosen_of
from engine.memory.decisions import Decisions
from engine.memory.demand import Backlog, Budgets, Demand, losing_nothing
from engine.memory.gangs import Sharing
from engine.memory.hardware import Hardware
from engine.memory.hysteresis import regains
from engine.memory.ladder import Rung, constrained
from engine.memory.ledger import Ledger
from engine.memory.placement import Placement
from engine.memory.pressure import PressureGauge
from engine.memory.room import Held
from engine.observing import Observer
from engine.protocol import DecisionKind, PressureLevel
from engine.shortage import SETTLING_SECONDS, TOLERANCE, Shortage
from engine.sight import Hands, InForce, Plan, Senses, SharingOf, ShouldChange

log = logging.getLogger(__name__)

# How often it looks: while anything goes on, while nothing does, and at most.
LOOK_SECONDS, IDLE_LOOK_SECONDS, LEAST_SECONDS = 1.0, 3.0, 0.1
# A question that is asked at once comes first.
START_SECONDS = 2.0
# Bounds that cost no pause move so often at most, unless they must.
CALM_SECONDS, MAX_CALM_SECONDS = 30.0, 600.0
# Models that have not taken turns for so long are told of when they do again.
TURNS_SECONDS = 300.0


class Adapting:
    """The loop. `decisions`, `budgets`, `levels` and `given_up` are for other threads too."""

    def __init__(
        self,
        senses: Senses,
        hands: Hands,
        ledger: Ledger,
        plan: Plan,
        should_change: ShouldChange,
        gauge: PressureGauge | None = None,
        clock: Callable[[], float] = time.monotonic,
        observer: Observer | None = None,
        sharing_of: SharingOf | None = None,
        knows_better: Callable[[], bool] = lambda: False,
    ) -> None:
        """Prepares the thread.

        Args:
            senses: What is looked at.
            hands: Who carries out what is decided.
            ledger: Says who holds what, and reserves room.
            plan: Decides where everything lives; also where no model is loaded, and only the index is to be placed.
            should_change: Whether a placement is worth moving to.
            gauge: Tells pressure.
            clock: Seconds that never go back.
            observer: Learns from what is done anyway; None: nobody does.
            sharing_of: What a backlog's questions gain by sharing steps; None: as many begin as have cells.
            knows_better: Whether more is known of the machine than `plan` knew last.
        """
        self._sharing_of = sharing_of
        self._sharing: Sharing | None = None
        self._senses, self._hands, self._ledger = senses, hands, ledger
        self._plan, self._should_change, self._knows_better = plan, should_change, knows_better
        self._clock, self._observer = clock, observer
        self._over: HandOver | None = None
        self._why: str | None = ""
        self._how, self._changed = "", tuple[str, ...]()
        # What was in force when another placement was asked for, and the bytes of the model's weights.
        self._left: tuple[Placement, int] | None = None
        # What the index might hold, and held, before it gave anything up for what is on its way.
        self._index_before = 0, 0
        self._planned: tuple[tuple[Demand, Backlog], Placement] | None = None
        self._made_for: tuple[Budgets, Backlog] | None = None
        self._changed_at = self._refused_at = self._keeps_all_until = float("-inf")
        self._may_lose: bool | None = None
        # What was refused is not tried again before that, unless it must be; longer where trying cost something.
        self._calm_s = CALM_SECONDS
        self._heard: deque[PlacementSettled | MemoryShort | ModelStateChanged | ModelSwitched] = deque()
        self._turns_told_at = float("-inf")
        self._woken, self._stopped = threading.Event(), threading.Event()
        self._is_failing = self._is_loading = False
        self.decisions, self._allowance = Decisions(), Allowance()
        self._shortage = Shortage(senses, hands, ledger, self._allowance, self.decisions, gauge or PressureGauge())
        self._thread = threading.Thread(target=self._run, name="adapting", daemon=True)

    # --- from any thread ---

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Ends the loop; everything stays as it is. A second call does nothing."""
        self._stopped.set()
        self._woken.set()
        if self._thread.is_alive():
            self._thread.join()

    def wake(self) -> None:
        """Something changed that the next look should not be a second late for."""
        self._woken.set()

    def note(self, event: Event) -> None:
        """Hears how a placement went, that an allocation failed, or that another model is there."""
        if not isinstance(event, PlacementSettled | MemoryShort | ModelStateChanged | ModelSwitched):
            return
        if isinstance(event, ModelStateChanged):
            self._is_loading = event.state == "loading"
        if not (isinstance(event, ModelStateChanged) and event.state == "loading"):
            self._heard.append(event)
            # Models may take turns every second, and that changes no plan.
            if not isinstance(event, ModelSwitched):
                self.wake()

    @property
    def given_up(self) -> tuple[Rung, ...]:
        """What is done without just now, the oldest first."""
        return self._shortage.given_up

    def done_without(self, told: tuple[Rung, ...]) -> tuple[Rung, ...]:
        """The same for a model that was loaded, or has moved, without what was `told`."""
        return self._shortage.done_without(told)

    @property
    def levels(self) -> Mapping[Tier, PressureLevel]:
        """How short each tier is."""
        return self._shortage.levels

    def budgets(self) -> Budgets:
        """What may be held."""
        return self._allowance.budgets if self._allowance.is_known else self.budgets_to_plan_by()

    def budgets_to_plan_by(self) -> Budgets:
        """The same: a model is loaded by what will be followed, also before the first look or with a new card."""
        hardware = self._senses.hardware()
        if not self._allowance.knows(hardware):
            settings = self._senses.settings()
            self._allowance.follow(hardware, Held.by(self._ledger), settings.memory, self._clock())
        return self._allowance.budgets

    # --- the thread ---

    def _run(self) -> None:
        self._stopped.wait(START_SECONDS)
        while not self._stopped.is_set():
            self._woken.clear()
            self._look()
            self._stopped.wait(LEAST_SECONDS)
            self._woken.wait((IDLE_LOOK_SECONDS if self._is_idle else LOOK_SECONDS) - LEAST_SECONDS)

    @property
    def _is_idle(self) -> bool:
        """Whether nobody asks anything, and nothing is on its way up or down."""
        backlog = self._senses.backlog()
        return self._over is None and self._shortage.is_past and not (backlog.waiting or backlog.running)

    def _look(self) -> None:
        """A look that fails changes nothing; the next one may succeed."""
        try:
            self.tick()
        except Exception:
            # Told once, not every second for as long as it lasts.
            if not self._is_failing:
                log.exception("memory could not be looked after")
            self._is_failing = True
        else:
            self._is_failing = False

    def tick(self) -> None:
        """One look, and the next small step of whatever follows from it."""
        now, hardware = self._clock(), self._senses.hardware()
        self._hear(now)
        is_told = self._follow_budgets(hardware, now)
        in_force = self._senses.in_force()
        self._shortage.adopt(in_force.given_up, now)
        if self._over is not None and self._over.path != in_force.path:
            # Planned for another model, or for none.
            self._over = None
        demand = replace(in_force.demand, budgets=self._allowance.budgets)
        in_force = replace(in_force, demand=demand)
        over = self._shortage.look(hardware, self._changed_at, now)
        # What is on its way gives memory back, too.
        may_fall = now - self._refused_at >= SETTLING_SECONDS
        has_moved = self._over is None and self._shortage.climb(in_force, now, may_fall=may_fall)
        wanted = self._wanted(hardware, in_force, now)
        if self._is_loading:
            # What is given back for a model that is on its way (making_room.py) is nobody else's.
            index_bytes = min(wanted.index_bytes, in_force.here.index_bytes)
            self._over, wanted = None, replace(wanted, index_bytes=index_bytes)
        # What takes more for having again what was lost is no way out of a shortage.
        shrinks = not regains(in_force.here.placement, wanted)
        must = is_told or (shrinks and (has_moved or self._must_shrink(in_force.here, wanted, over)))
        # As long as it takes, whatever came between; but what answers paused for in vain is not tried all the time.
        insists = bool(in_force.here.placement.num_concessions) and not (wanted.num_concessions or self._may_lose)
        # Nothing more is lost before that is.
        awaits = shrinks and self._shortage.awaits_loss(in_force)
        patience_s = SETTLING_SECONDS if must or (awaits and self._calm_s <= CALM_SECONDS) else self._calm_s
        loses_more = wanted.num_concessions > in_force.here.placement.num_concessions
        is_said = has_moved and not loses_more
        self._aim(in_force, wanted, now, must=must or insists or awaits, patience_s=patience_s, is_said=is_said)
        self._hand_over(in_force, now)
        self._limit(in_force)
        if self._observer is not None and not self._is_loading:
            self._observer.look(demand.shape, in_force.here.placement, self._senses.backlog(), now)

    def _hear(self, now: float) -> None:
        """What the generation thread has told since the last look."""
        while self._heard:
            event = self._heard.popleft()
            if isinstance(event, ModelStateChanged):
                self._begin_anew(event, now)
            elif isinstance(event, ModelSwitched):
                self._note_turn(event, now)
            elif isinstance(event, MemoryShort):
                self.decisions.say("failure", event.sentence, event.tier)
            elif event.cause:
                # Somebody could not wait for a plan, and what is on its way may not know of it.
                kind: DecisionKind = "placement" if event.is_in_force else "refused"
                short = reasons.in_short(event.cause, event.changed) if event.is_in_force else ""
                self.decisions.say(kind, f"{event.cause} {event.sentence}", short=short)
                self._over, self._changed_at = None, now
            elif event.is_in_force:
                self._how, self._changed, self._calm_s = event.sentence, event.changed, CALM_SECONDS
                self._note_pause(event.pause_seconds)
            else:
                self.decisions.say("refused", event.sentence)
                if self._over is not None and self._over.wanted.num_concessions:
                    # Somebody may need the cells to the end of an answer: till then, what else there is.
                    self._keeps_all_until = now + CALM_SECONDS
                self._over, self._refused_at = None, now
                if event.pause_seconds:
                    self._back_off(now)

    def _note_turn(self, event: ModelSwitched, now: float) -> None:
        """That models take turns is news only where they did not of late."""
        if now - self._turns_told_at >= TURNS_SECONDS:
            seconds = event.out_seconds + event.in_seconds
            self.decisions.say("placement", reasons.models_take_turns(event.name, seconds), "ram")
        self._turns_told_at = now

    def _back_off(self, now: float) -> None:
        """What answers paused for could not be had, so it is tried again later each time: it may never be had."""
        if not self._shortage.fail_trial(now):
            self._calm_s = min(MAX_CALM_SECONDS, self._calm_s * 2)

    def _note_pause(self, seconds: float) -> None:
        if self._observer is not None and self._left is not None:
            placement, weight_bytes = self._left
            after = self._senses.in_force().here.placement
            self._observer.note_pause(placement, after, seconds, weight_bytes)
        self._left = None

    def _begin_anew(self, event: ModelStateChanged, now: float) -> None:
        """A model that was loaded begins with everything; if there is still too little, that shows soon."""
        self._over = self._planned = None
        if event.state == "loaded":
            self._shortage.begin_anew()
            self._calm_s = CALM_SECONDS
            self._made_for = (self._allowance.budgets, self._senses.backlog())
            self.decisions.say("placement", event.sentence)
        self._lose_nothing(self._senses.in_force().here, now)

    # --- budgets ---

    def _follow_budgets(self, hardware: Hardware, now: float) -> bool:
        """Whether the user has changed one, or what may be lost, and then waits for it to happen."""
        chosen = self._senses.settings().memory
        changed = self._allowance.follow(hardware, Held.by(self._ledger), chosen, now)
        for tier in changed:
            self.decisions.say("budget", reasons.budget_chosen(tier, chosen_of(chosen, tier)), tier)
        before, self._may_lose = self._may_lose, chosen.may_lose
        has_decided = before is not None and before != chosen.may_lose
        if has_decided:
            self.decisions.say("budget", reasons.losses_chosen(chosen.may_lose), "ram")
        return bool(changed) or has_decided

    # --- the plan ---

    def _wanted(self, hardware: Hardware, in_force: InForce, now: float) -> Placement:
        """The plan of somebody who does without what was given up; made anew only where what it rests on differs."""
        backlog, demand = self._senses.backlog(), in_force.demand
        if now < self._keeps_all_until:
            demand = losing_nothing(demand)
        made_from = constrained(demand, self.given_up), backlog
        # What was measured while nobody asked is acted on before somebody does, who would wait for it.
        if self._planned is None or self._planned[0] != made_from or self._knows_better():
            self._planned = made_from, self._placed(hardware, backlog, demand)
        return self._planned[1]

    def _placed(self, hardware: Hardware, backlog: Backlog, demand: Demand) -> Placement:
        """The plan with what was given up, but for bounds that leave the model no room at all, not even for a ring.

        Such a bound is of the time when it was given up: what lies beside the model may have grown since.
        """
        placement = self._plan(hardware, backlog, constrained(demand, self.given_up))
        others = [rung for rung in self.given_up if rung.kind != "more_streamed"]
        if not placement.is_starved or len(others) == len(self.given_up):
            return placement
        unbound = self._plan(hardware, backlog, constrained(demand, others))
        return placement if unbound.is_starved else unbound

    def _aim(
        self, in_force: InForce, wanted: Placement, now: float, *, must: bool, patience_s: float, is_said: bool
    ) -> None:
        """Begins to hand `wanted` over, where it must be or is worth it; what is on its way goes on otherwise."""
        if self._over is not None and (self._over.wanted == wanted or not must):
            return
        here = in_force.here
        if is_free(here, wanted):
            self._lose_nothing(here, now)
        if is_there(here, wanted):
            self._over = None
            self._shortage.pass_trial()
        elif now - self._refused_at >= patience_s:
            aim = wanted if self._is_worth_it(here, wanted, now, must=must) else self._with_more_index(here, wanted)
            if aim is None:
                return
            self._over, self._how, self._changed = HandOver(aim, now, in_force.path), "", ()
            self._index_before = here.index_bytes, self._senses.use().index_bytes
            self._why = None if is_said else self._cause()

    def _with_more_index(self, here: Here, wanted: Placement) -> Placement | None:
        """Of a change that is not worth its pause, what costs none: the index grows, where there is room beside all."""
        growth = wanted.index_bytes - here.index_bytes
        if growth <= 0 or here.ram_bytes + growth > self._allowance.of("ram"):
            return None
        return replace(here.placement, index_bytes=wanted.index_bytes, embedder_on_gpu=here.embedder_on_gpu)

    def _lose_nothing(self, here: Here, now: float) -> None:
        """Staying costs nothing now; what it cost before, with another load or model, says nothing of what comes."""
        self._should_change(here.placement, here.placement, now)

    def _cause(self) -> str:
        return reasons.cause(self._made_for, (self._allowance.budgets, self._senses.backlog()))

    def _is_worth_it(self, here: Here, wanted: Placement, now: float, *, must: bool) -> bool:
        if is_free(here, wanted):
            # Nothing pauses for it, and an index that has grown is read from the disk until then.
            is_calm = now - self._changed_at >= CALM_SECONDS
            return must or is_calm or wanted.index_bytes > here.index_bytes
        current = replace(here.placement, index_bytes=here.index_bytes)
        return self._should_change(current, wanted, now, must=must)

    def _must_shrink(self, here: Here, wanted: Placement, over: frozenset[Tier]) -> bool:
        """Whether what is in force is more than may be held, by the plan or in truth, and `wanted` is less."""
        planned: dict[Tier, tuple[int, int]] = {
            "gpu": (here.gpu_bytes, wanted.gpu_bytes),
            "ram": (here.ram_bytes, wanted.ram_bytes),
            "disk": (here.placement.kv_disk_bytes, wanted.kv_disk_bytes),
        }
        return any(
            then < now and (tier in over or (tier != "disk" and now > self._allowance.of(tier) * TOLERANCE))
            for tier, (now, then) in planned.items()
        )

    def _limit(self, in_force: InForce) -> None:
        """Of a backlog as many are under way as have all wait least; that costs nobody a pause."""
        if self._sharing_of is None:
            return
        sharing = self._sharing_of(in_force.here.placement, self._senses.backlog(), in_force.demand)
        if sharing != self._sharing:
            self._sharing = sharing
            self._hands.share_steps(sharing)

    # --- handing over ---

    def _hand_over(self, in_force: InForce, now: float) -> None:
        if self._over is None:
            return
        here, was_asked = in_force.here, self._over.is_asked
        self._over, progress = step(self._over, here, self._hands, self._ledger, self._allowance.of, now)
        if self._over.is_asked and not was_asked:
            self._left = here.placement, in_force.demand.shape.weight_bytes
        if progress == "done":
            self._arrive(self._over.wanted, in_force, now)
        elif progress == "refused":
            self.decisions.say("refused", reasons.refused(self._over.wanted))
            self._over, self._refused_at = None, now

    def _arrive(self, wanted: Placement, in_force: InForce, now: float) -> None:
        """Everything lies where it was to be."""
        was_asked = self._over is not None and self._over.is_asked
        self._over, self._made_for = None, (self._allowance.budgets, self._senses.backlog())
        self._shortage.pass_trial()
        if was_asked or wanted.index_bytes < in_force.here.index_bytes:
            self._changed_at = now
        moved = self._index_told(wanted, in_force.demand.partition_bytes, tells_growth=was_asked)
        if self._why is None:
            # What was given up or taken back has been told already.
            pass
        elif was_asked:
            told = (self._why, self._how or wanted.sentence, moved)
            short = reasons.in_short(self._why, self._changed, moved)
            self.decisions.say("placement", " ".join(filter(None, told)), short=short)
        elif moved:
            self.decisions.say("placement", f"{self._why} {moved}".strip(), "ram")
        self._how, self._changed = "", ()

    def _index_told(self, wanted: Placement, partition_bytes: int, *, tells_growth: bool) -> str:
        """That less of the index is in memory than was, or more may be; "" of bounds that nothing comes near."""
        bound, held_bytes = self._index_before
        resident_bytes = min(bound, held_bytes)
        was_full = resident_bytes + partition_bytes > bound
        if wanted.index_bytes < resident_bytes or (tells_growth and was_full and wanted.index_bytes > bound):
            return reasons.index_moved(resident_bytes, wanted.index_bytes)
        return ""
