"""Shortage: how short each tier of memory is, and the ladders on which one thing after another is given up.

What the system reports counts at once. What we hold beyond a budget counts when no plan has helped for some seconds.
"""

from __future__ import annotations

from dataclasses import replace

from engine.core import Tier
from engine.memory import reasons
from engine.memory.allowance import TIERS, Allowance, chosen_of
from engine.memory.decisions import Decisions
from engine.memory.hardware import Hardware
from engine.memory.ladder import LadderState, Rung, awaits_loss
from engine.memory.ledger import Ledger
from engine.memory.pressure import PressureGauge
from engine.memory.runtime import in_other_processes, remainder
from engine.memory.standing import Move, Standing
from engine.memory_interfaces import InForce, MemoryActions, MemoryState
from engine.protocol import PressureLevel

# It takes a moment until memory is given back; what is held beyond a budget after that is too much.
SETTLING_SECONDS = 5.0
# A smaller excess is no reason to move anything: other programs come and go.
TOLERANCE = 1.02


class Shortage:
    """How short each tier is, and what is given up. Owned by the thread of the loop.

    `levels` and `given_up` may be read on any thread.
    """

    def __init__(
        self,
        senses: MemoryState,
        hands: MemoryActions,
        ledger: Ledger,
        allowance: Allowance,
        decisions: Decisions,
        gauge: PressureGauge,
    ) -> None:
        """Begins with nothing given up.

        Args:
            senses: Report what is in use.
            hands: Carry out what no plan can express.
            ledger: Knows what is held.
            allowance: What may be held.
            decisions: Records what was given up, and why.
            gauge: Measures pressure.
        """
        self._senses, self._hands, self._ledger = senses, hands, ledger
        self._allowance, self._decisions, self._gauge = allowance, decisions, gauge
        self._standing = Standing()
        self._over_since: dict[Tier, float] = {}
        self._adopted: tuple[Rung, ...] = ()
        self._chosen: dict[Tier, int | None] = {}
        self._may_lose = False
        self._by_budget: frozenset[Tier] = frozenset()
        self.levels: dict[Tier, PressureLevel] = dict.fromkeys(TIERS, "none")

    @property
    def given_up(self) -> tuple[Rung, ...]:
        """What is given up now, the oldest first."""
        return self._standing.given_up

    @property
    def is_past(self) -> bool:
        """Whether nothing is short, and nothing is given up."""
        return not self.given_up and all(level == "none" for level in self.levels.values())

    def look(self, hardware: Hardware, changed_at: float, now: float) -> frozenset[Tier]:
        """Measures how short each tier is; returns the tiers of which more is held than may be.

        Args:
            hardware: A look at the machine.
            changed_at: When the placement changed last; it takes a moment until that shows.
            now: Seconds of the same clock.
        """
        self._begin_where_chosen()
        held = {tier: self._ledger.counted_bytes(tier) for tier in TIERS}
        # Including what no owner has entered; pages of files that are not counted leave by themselves.
        held["ram"] += max(0, remainder(self._ledger, hardware.process).kept_bytes)
        # Pages of files that were entered and have left memory are not held.
        in_truth = hardware.process_bytes + in_other_processes(self._ledger)
        held["ram"] = min(held["ram"], in_truth) if hardware.process_bytes else held["ram"]
        over = frozenset(tier for tier in TIERS if held[tier] > self._allowance.of(tier) * TOLERANCE)
        if self._chosen["disk"] is None and not self._ledger.held_bytes("disk", "kv"):
            # On a disk that other programs have filled, only the library may be left of ours, and that is not given up.
            over -= {"disk"}
        levels: dict[Tier, PressureLevel] = {"gpu": "none", "ram": "none", "disk": "none"}
        levels["ram"] = self._gauge.look(hardware, self._leaving_bytes(hardware))
        self._over_since = {tier: self._over_since.get(tier, now) for tier in over}
        self._by_budget = frozenset(
            tier
            for tier, since in self._over_since.items()
            if levels[tier] == "none" and now - max(since, changed_at) >= SETTLING_SECONDS
        )
        self.levels = levels | dict.fromkeys(self._by_budget, "some")
        return over

    def climb(self, in_force: InForce, now: float, *, may_fall: bool = True) -> bool:
        """Gives up one thing in each tier that is short, or takes one back; returns whether anything was done.

        Args:
            in_force: The present state.
            now: Seconds of the clock of `look`.
            may_fall: Whether something may be given up now.
        """
        moves = [
            self._standing.move(tier, self.levels[tier], lambda: self._state(in_force), now, may_fall=may_fall)
            for tier in TIERS
        ]
        for move in moves:
            if move is not None:
                self._act(move)
        return any(move is not None for move in moves)

    def awaits_loss(self, in_force: InForce) -> bool:
        """Returns whether memory is short, and what is to be lost for it is not lost yet."""
        is_short = any(level != "none" for level in self.levels.values())
        return is_short and awaits_loss(self.given_up, in_force.here.placement)

    def adopt(self, given_up: tuple[Rung, ...], now: float) -> None:
        """Adopts what the generation thread had to give up on its own, so that it is taken back here."""
        if given_up is not self._adopted:
            for rung in given_up:
                if rung not in self._standing.given_up:
                    self._standing.give_up(rung, now)
            self._adopted = given_up

    def done_without(self, told: tuple[Rung, ...]) -> tuple[Rung, ...]:
        """Returns what is given up by now, for a load that gave up `told`, some of which may have been taken back."""
        known = self._standing.given_up
        if told is self._adopted:
            return known
        return (*known, *(rung for rung in told if rung not in known))

    def pass_trial(self) -> None:
        """Notes that everything is placed as planned with what was taken back."""
        self._standing.pass_trial()

    def fail_trial(self, now: float) -> bool:
        """Gives up again what was taken back but was not available; returns whether there was anything."""
        return bool(self._standing.fail_trial(now))

    def begin_anew(self) -> None:
        """Takes everything back for another model; if memory is still short, that shows soon."""
        for rung in self._standing.given_up:
            self._carry_out(rung, is_down=False)
        self._standing.forget()
        self._adopted = ()

    def _leaving_bytes(self, hardware: Hardware) -> int:
        """Returns the pages of a model without room: the system keeps as many as fit, and drops them for others."""
        elsewhere = self._ledger.held_bytes("disk", is_mapped=True)
        in_memory = self._ledger.held_bytes("ram") - self._ledger.counted_bytes("ram")
        return min(hardware.process.file_bytes, in_memory + elsewhere) if elsewhere else 0

    def _begin_where_chosen(self) -> None:
        """Takes back what was given up in tiers whose budget the user changed: it was given up for the old budget.

        Otherwise a larger budget might have no effect, because what was given up leaves no plan that fits.
        """
        memory = self._senses.settings().memory
        chosen = {tier: chosen_of(memory, tier) for tier in TIERS}
        changed = [tier for tier in TIERS if self._chosen and chosen[tier] != self._chosen[tier]]
        for rung in self._standing.given_up:
            if rung.tier in changed:
                self._carry_out(rung, is_down=False)
        self._standing.forget(changed)
        if self._may_lose and not memory.may_lose:
            self._standing.forget_losses()
        self._chosen, self._may_lose = chosen, memory.may_lose

    def _state(self, in_force: InForce) -> LadderState:
        use, backlog = self._senses.use(), self._senses.backlog()
        return LadderState(
            in_force.demand,
            replace(in_force.here.placement, index_bytes=in_force.here.index_bytes),
            self._standing.given_up,
            is_idle=not (backlog.waiting or backlog.running),
            is_loaded=in_force.is_loaded,
            tree_bytes=use.tree_bytes,
            index_bytes=use.index_bytes,
            kept_cells_bytes=use.kept_cells_bytes,
            set_aside_bytes=use.set_aside_bytes,
        )

    def _act(self, move: Move) -> None:
        """Reports a move, and carries it out."""
        rung, is_down = move.rung, move.kind == "given_up"
        why = reasons.taken_back(rung.tier)
        if is_down:
            by_budget = rung.tier in self._by_budget
            why = reasons.over_budget(rung.tier) if by_budget else reasons.given_up(rung.tier, self.levels[rung.tier])
        self._decisions.say(move.kind, f"{why} {rung.sentence if is_down else rung.way_back}", rung.tier)
        self._carry_out(rung, is_down)

    def _carry_out(self, rung: Rung, is_down: bool) -> None:
        """Carries out, or takes back, what no plan can express."""
        if rung.kind == "tree_to_ram":
            self._hands.keep_in_cells(not is_down)
        elif rung.kind == "idle_model" and is_down:
            self._hands.rest_model()
        elif rung.kind == "sequences_to_disk":
            self._hands.set_aside_on_disk(is_down)
