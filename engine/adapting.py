"""The loop that keeps memory fitting: it looks at the machine, asks the planner, and has parts change one at a time.

It runs on its own thread, once a second and whenever something changed, and owns the next placement and the decisions
in words. It moves nothing itself: the generation thread applies a placement between two of its steps, the index a
budget between two sweeps (handing_over.py). If memory runs short although everything is placed as planned, one thing
after the other is given up in the order of the ladder (`engine/memory/ladder.py`), and taken back slowly.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from engine.core import Tier
from engine.events import Event, MemoryShort, ModelStateChanged, ModelSwitched, PlacementSettled
from engine.handing_over import HandOver, Here, is_free, is_there, step
from engine.memory import reasons
from engine.memory.allowance import Allowance, chosen_of
from engine.memory.decisions import Decisions
from engine.memory.demand import Backlog, Budgets, Demand, losing_nothing
from engine.memory.gangs import QueueSharing
from engine.memory.hardware import Hardware
from engine.memory.hysteresis import regains
from engine.memory.ladder import Rung, constrained
from engine.memory.ledger import Ledger
from engine.memory.placement import Placement
from engine.memory.pressure import PressureGauge
from engine.memory.room import Held
from engine.memory_interfaces import InForce, MemoryActions, MemoryState, Plan, SharingOf, ShouldChange
from engine.observing import Observer
from engine.protocol import DecisionKind, PressureLevel
from engine.shortage import SETTLING_SECONDS, TOLERANCE, Shortage

log = logging.getLogger(__name__)

# How often it looks: while there is work, while there is none, and at most.
LOOK_SECONDS, IDLE_LOOK_SECONDS, LEAST_SECONDS = 1.0, 3.0, 0.1
# A question that is asked right after the start goes first.
START_SECONDS = 2.0
# The shortest time between two changes of bounds that need no pause, unless they must change.
CALM_SECONDS, MAX_CALM_SECONDS = 30.0, 600.0
# After this long without it, models that take turns are reported again.
TURNS_SECONDS = 300.0


@dataclass(frozen=True, slots=True)
class _Urgency:
    """Whether the placement must change even if it is not worth it, and how long after a refusal that is retried."""

    must_change: bool
    patience_seconds: float


class Adapting:
    """The loop that keeps memory fitting. `decisions`, `budgets`, `levels` and `given_up` may be read on any thread."""

    def __init__(
        self,
        senses: MemoryState,
        hands: MemoryActions,
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
            hands: Carry out what is decided.
            ledger: Records who holds what, and reserves room.
            plan: Decides where everything lives; also where no model is loaded, and only the index is to be placed.
            should_change: Whether a placement is worth moving to.
            gauge: Measures pressure.
            clock: Seconds that never go back.
            observer: Learns from the work that is done anyway; None: nothing is learnt.
            sharing_of: What a backlog's questions gain by sharing steps; None: as many begin as have cells.
            knows_better: Whether more is known of the machine than at the last `plan`.
        """
        self._sharing_of = sharing_of
        self._sharing: QueueSharing | None = None
        self._senses, self._hands, self._ledger = senses, hands, ledger
        self._plan, self._should_change, self._knows_better = plan, should_change, knows_better
        self._clock, self._observer = clock, observer
        self._over: HandOver | None = None
        self._why: str | None = ""
        self._how, self._changed = "", tuple[str, ...]()
        # What was in force when another placement was requested, and the bytes of the model's weights.
        self._left: tuple[Placement, int] | None = None
        # The bytes that the index might hold, and held, before the change in progress.
        self._index_before = 0, 0
        self._planned: tuple[tuple[Demand, Backlog], Placement] | None = None
        self._made_for: tuple[Budgets, Backlog] | None = None
        self._changed_at = self._refused_at = self._keeps_all_until = float("-inf")
        self._may_lose: bool | None = None
        # A refused change is not tried again sooner, unless it must be; longer if the attempt made answers pause.
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
        """Makes the loop look now, because something changed."""
        self._woken.set()

    def note(self, event: Event) -> None:
        """Receives how a placement went, that an allocation failed, or that another model was loaded."""
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
        """What has been given up at present, the oldest first."""
        return self._shortage.given_up

    def done_without(self, told: tuple[Rung, ...]) -> tuple[Rung, ...]:
        """Returns the same for a model that was loaded, or has moved, without what is in `told`."""
        return self._shortage.done_without(told)

    @property
    def levels(self) -> Mapping[Tier, PressureLevel]:
        """How short each tier is."""
        return self._shortage.levels

    def budgets(self) -> Budgets:
        """Returns what may be held."""
        return self._allowance.budgets if self._allowance.is_known else self.budgets_to_plan_by()

    def budgets_to_plan_by(self) -> Budgets:
        """Returns the same, even before the first look or with a new card: loads use the budgets that will apply."""
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
        """Whether no question is open, and no placement is changing."""
        backlog = self._senses.backlog()
        return self._over is None and self._shortage.is_past and not (backlog.waiting or backlog.running)

    def _look(self) -> None:
        """Looks once; a look that fails changes nothing, and the next one may succeed."""
        try:
            self.tick()
        except Exception:
            # Logged once, not every second for as long as it lasts.
            if not self._is_failing:
                log.exception("memory could not be looked after")
            self._is_failing = True
        else:
            self._is_failing = False

    def tick(self) -> None:
        """Looks at the machine once, and takes the next small step that follows from it."""
        now, hardware = self._clock(), self._senses.hardware()
        self._process_events(now)
        is_chosen = self._follow_budgets(hardware, now)
        in_force = self._in_force(now)
        short_tiers = self._shortage.look(hardware, self._changed_at, now)
        # What is on its way gives memory back, too.
        may_fall = now - self._refused_at >= SETTLING_SECONDS
        has_moved = self._over is None and self._shortage.climb(in_force, now, may_fall=may_fall)
        wanted = self._wanted(hardware, in_force, now)
        if self._is_loading:
            # What is given back for a model that is on its way (making_room.py) may not be taken by anything else.
            index_bytes = min(wanted.index_bytes, in_force.here.index_bytes)
            self._over, wanted = None, replace(wanted, index_bytes=index_bytes)
        urgency = self._urgency(in_force, wanted, short_tiers, has_moved=has_moved, is_chosen=is_chosen)
        loses_more = wanted.num_concessions > in_force.here.placement.num_concessions
        self._aim(in_force, wanted, now, urgency, is_said=has_moved and not loses_more)
        self._hand_over(in_force, now)
        self._limit(in_force)
        if self._observer is not None and not self._is_loading:
            self._observer.look(in_force.demand.shape, in_force.here.placement, self._senses.backlog(), now)

    def _in_force(self, now: float) -> InForce:
        """Returns what is in force, with today's budgets; drops a change that was planned for another model."""
        in_force = self._senses.in_force()
        self._shortage.adopt(in_force.given_up, now)
        if self._over is not None and self._over.path != in_force.path:
            self._over = None
        return replace(in_force, demand=replace(in_force.demand, budgets=self._allowance.budgets))

    def _urgency(
        self, in_force: InForce, wanted: Placement, short_tiers: frozenset[Tier], *, has_moved: bool, is_chosen: bool
    ) -> _Urgency:
        here = in_force.here
        # A placement that takes more memory, to regain what was lost, does not relieve a shortage.
        shrinks = not regains(here.placement, wanted)
        must = is_chosen or (shrinks and (has_moved or self._must_shrink(here, wanted, short_tiers)))
        # This is retried until it succeeds; but a change for which answers paused in vain is not retried all the time.
        insists = bool(here.placement.num_concessions) and not (wanted.num_concessions or self._may_lose)
        # Nothing more is lost before this loss has taken effect.
        awaits = shrinks and self._shortage.awaits_loss(in_force)
        is_soon = must or (awaits and self._calm_s <= CALM_SECONDS)
        return _Urgency(must or insists or awaits, SETTLING_SECONDS if is_soon else self._calm_s)

    def _process_events(self, now: float) -> None:
        """Processes what the generation thread has reported since the last look."""
        while self._heard:
            match self._heard.popleft():
                case ModelStateChanged() as event:
                    self._begin_anew(event, now)
                case ModelSwitched() as event:
                    self._note_turn(event, now)
                case MemoryShort() as event:
                    self.decisions.say("failure", event.sentence, event.tier)
                case PlacementSettled() as event:
                    self._note_settled(event, now)

    def _note_settled(self, event: PlacementSettled, now: float) -> None:
        if event.cause:
            # A request could not wait for a plan, and what is on its way may not take it into account.
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
                # An answer may need the cells until it ends; until then, only plans without losses are made.
                self._keeps_all_until = now + CALM_SECONDS
            self._over, self._refused_at = None, now
            if event.pause_seconds:
                self._back_off(now)

    def _note_turn(self, event: ModelSwitched, now: float) -> None:
        """Reports that models take turns, unless they have done so recently."""
        if now - self._turns_told_at >= TURNS_SECONDS:
            seconds = event.out_seconds + event.in_seconds
            self.decisions.say("placement", reasons.models_take_turns(event.name, seconds), "ram")
        self._turns_told_at = now

    def _back_off(self, now: float) -> None:
        """Delays the next attempt, after a change failed for which answers paused: it may never succeed."""
        if not self._shortage.fail_trial(now):
            self._calm_s = min(MAX_CALM_SECONDS, self._calm_s * 2)

    def _note_pause(self, seconds: float) -> None:
        if self._observer is not None and self._left is not None:
            placement, weight_bytes = self._left
            after = self._senses.in_force().here.placement
            self._observer.note_pause(placement, after, seconds, weight_bytes)
        self._left = None

    def _begin_anew(self, event: ModelStateChanged, now: float) -> None:
        """Resets for a newly loaded model, with nothing given up; if memory is still short, that shows soon."""
        self._over = self._planned = None
        if event.state == "loaded":
            self._shortage.begin_anew()
            self._calm_s = CALM_SECONDS
            self._made_for = (self._allowance.budgets, self._senses.backlog())
            self.decisions.say("placement", event.sentence)
        self._lose_nothing(self._senses.in_force().here, now)

    # --- budgets ---

    def _follow_budgets(self, hardware: Hardware, now: float) -> bool:
        """Follows the budgets; returns whether the user changed one, or what may be lost, which must take effect."""
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
        """Returns the plan without what was given up; it is computed again only when its inputs have changed."""
        backlog, demand = self._senses.backlog(), in_force.demand
        if now < self._keeps_all_until:
            demand = losing_nothing(demand)
        made_from = constrained(demand, self.given_up), backlog
        # What was measured while idle takes effect before the next question, which would have to wait for it.
        if self._planned is None or self._planned[0] != made_from or self._knows_better():
            self._planned = made_from, self._placed(hardware, backlog, demand)
        return self._planned[1]

    def _placed(self, hardware: Hardware, backlog: Backlog, demand: Demand) -> Placement:
        """Returns the plan without what was given up, except for bounds that leave the model no room, not even a ring.

        Such a bound dates from when it was given up: what is in memory beside the model may have grown since.
        """
        placement = self._plan(hardware, backlog, constrained(demand, self.given_up))
        others = [rung for rung in self.given_up if rung.kind != "more_streamed"]
        if not placement.is_starved or len(others) == len(self.given_up):
            return placement
        unbound = self._plan(hardware, backlog, constrained(demand, others))
        return placement if unbound.is_starved else unbound

    def _aim(self, in_force: InForce, wanted: Placement, now: float, urgency: _Urgency, *, is_said: bool) -> None:
        """Starts the change to `wanted` if it must be or is worth it; otherwise a change in progress continues."""
        must = urgency.must_change
        if self._over is not None and (self._over.wanted == wanted or not must):
            return
        here = in_force.here
        if is_free(here, wanted):
            self._lose_nothing(here, now)
        if is_there(here, wanted):
            self._over = None
            self._shortage.pass_trial()
        elif now - self._refused_at >= urgency.patience_seconds:
            aim = wanted if self._is_worth_it(here, wanted, now, must=must) else self._with_more_index(here, wanted)
            if aim is None:
                return
            self._over, self._how, self._changed = HandOver(aim, now, in_force.path), "", ()
            self._index_before = here.index_bytes, self._senses.use().index_bytes
            self._why = None if is_said else self._cause()

    def _with_more_index(self, here: Here, wanted: Placement) -> Placement | None:
        """Returns the part of a change that needs no pause: the index grows if there is room for it."""
        growth = wanted.index_bytes - here.index_bytes
        if growth <= 0 or here.ram_bytes + growth > self._allowance.of("ram"):
            return None
        return replace(here.placement, index_bytes=wanted.index_bytes, embedder_on_gpu=here.embedder_on_gpu)

    def _lose_nothing(self, here: Here, now: float) -> None:
        """Resets what staying has cost: that was with another load or model, and says nothing about what follows."""
        self._should_change(here.placement, here.placement, now)

    def _cause(self) -> str:
        return reasons.cause(self._made_for, (self._allowance.budgets, self._senses.backlog()))

    def _is_worth_it(self, here: Here, wanted: Placement, now: float, *, must: bool) -> bool:
        if is_free(here, wanted):
            # Nothing pauses for it; until then an index that has grown is read from the disk.
            is_calm = now - self._changed_at >= CALM_SECONDS
            return must or is_calm or wanted.index_bytes > here.index_bytes
        current = replace(here.placement, index_bytes=here.index_bytes)
        return self._should_change(current, wanted, now, must=must)

    def _must_shrink(self, here: Here, wanted: Placement, over: frozenset[Tier]) -> bool:
        """Returns whether the placement in force exceeds a budget, planned or measured, and `wanted` takes less."""
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
        """Sets how many questions of a backlog run at once, so that the mean wait is shortest; this causes no pause."""
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
        """Records that the change is complete."""
        was_asked = self._over is not None and self._over.is_asked
        self._over, self._made_for = None, (self._allowance.budgets, self._senses.backlog())
        self._shortage.pass_trial()
        if was_asked or wanted.index_bytes < in_force.here.index_bytes:
            self._changed_at = now
        moved = self._index_told(wanted, in_force.demand.partition_bytes, tells_growth=was_asked)
        if self._why is None:
            # What was given up or taken back has been reported already.
            pass
        elif was_asked:
            told = (self._why, self._how or wanted.sentence, moved)
            short = reasons.in_short(self._why, self._changed, moved)
            self.decisions.say("placement", " ".join(filter(None, told)), short=short)
        elif moved:
            self.decisions.say("placement", f"{self._why} {moved}".strip(), "ram")
        self._how, self._changed = "", ()

    def _index_told(self, wanted: Placement, partition_bytes: int, *, tells_growth: bool) -> str:
        """Returns a sentence if less of the index is in memory than before, or more may be; "" if no bound matters."""
        bound, held_bytes = self._index_before
        resident_bytes = min(bound, held_bytes)
        was_full = resident_bytes + partition_bytes > bound
        if wanted.index_bytes < resident_bytes or (tells_growth and was_full and wanted.index_bytes > bound):
            return reasons.index_moved(resident_bytes, wanted.index_bytes, partition_bytes)
        return ""
