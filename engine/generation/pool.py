"""The pool: several models in one engine; those that do not fit into memory together take turns between tokens.

A chat may name any model. Models that fit together all stay in memory. Otherwise, all keep their file mapped, their
vocabulary and, while there is room, their context with all keys and values; only weights leave memory and return, with
read-ahead before the first pass (Aegaeon, SOSP'25). members.py knows which models are in the pool. Whose turn it is,
and for how long, is decided in time_slices.py and carried out in switching.py; model_eviction.py decides which models
leave memory for which. Weights on a graphics card, or in the order that the processor reads fastest, cannot leave like
this: such a model is closed, and read again from the system's file cache.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from engine.closing import close_all
from engine.events import Publish
from engine.generation.commands import UseModel
from engine.generation.instance import ModelInstance
from engine.generation.loader import ModelLoader
from engine.generation.member import Member
from engine.generation.members import Members
from engine.generation.model_eviction import ModelEviction
from engine.generation.scheduler import rank
from engine.generation.switching import Arrival, Switching
from engine.generation.time_slices import (
    GROUP_SIZE,
    LateTurns,
    NextTurn,
    Targets,
    Used,
    Waiting,
    begun,
    turn_after,
)
from engine.generation.turns import Asked
from engine.generation.under_way import UnderWay
from engine.memory.placement import Placement

log = logging.getLogger(__name__)
# A model other than the chosen one leaves the pool after this long without a question.
IDLE_SECONDS = 300.0


@dataclass(slots=True)
class _Turn:
    """The turn of the model that computes: how much of it is used, and how many questions were begun in it.

    `is_for_people`: no request as urgent as a person's waits for another model. `is_for_late`: the model got the turn
    because a request has waited too long.
    """

    used: Used = field(default_factory=Used)
    num_begun: int = 0
    is_for_people: bool = True
    is_for_late: bool = False
    arrival: Arrival | None = None


class ModelPool:
    """All models of an engine; owned by the generation thread, but others may read `principal` and its loader.

    `front` is the model whose turn it is.
    """

    def __init__(
        self,
        loader: ModelLoader,
        make_under_way: Callable[[], UnderWay],
        publish: Publish,
        targets: Callable[[], Targets] = Targets,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Starts with the chosen model, if there is one.

        Args:
            loader: Loads the chosen model; loaders of others are derived from it.
            make_under_way: Makes what answers the questions of one model.
            publish: Where events go.
            targets: Returns the latency targets.
            clock: A monotonic clock in seconds.
        """
        self._targets, self._clock = targets, clock
        self.members = Members(loader, make_under_way, clock)
        self.front = self._principal = self.members.home
        self._turn = _Turn()
        self._late_turns = LateTurns()
        # Whether to load the chosen model as soon as no other one computes.
        self._is_home_due = False
        self._eviction = ModelEviction(self.members, self._dismiss, clock)
        self._switching = Switching(self._eviction, publish, clock)

    @property
    def principal(self) -> Member:
        """The model that memory is planned for: the chosen one while it is in memory, else the one that computes."""
        return self._principal

    @property
    def has_work(self) -> bool:
        """Whether there is anything to compute."""
        return self.front.has_work or any(member.wants_turn for member in self.members)

    @property
    def only_closes(self) -> bool:
        """Whether only last tokens of ended answers are left to compute, and each takes a long pass."""
        loaded = self.front.loaded
        if loaded is None or not loaded.context.is_streamed or self.front.under_way.is_busy:
            return False
        return loaded.loop.only_closes and not any(one.wants_turn for one in self.members)

    @property
    def is_stalled(self) -> bool:
        """Whether everything that could be computed is still being read from disk."""
        return self.front.under_way.is_stalled and not any(
            one.wants_turn for one in self.members if one is not self.front
        )

    def counters(self) -> dict[str, float]:
        """Returns rates and gauges for the Memory page, of the model that memory is planned for and of the pool."""
        loaded = self._principal.loaded
        if loaded is None or self._principal.is_folded:
            return {}
        figures, switching = loaded.counters(), self._switching.figures
        if self.members.is_shared:
            rates = (one.loaded.loop.counters().tokens_per_second for one in self.members if one.loaded is not None)
            figures |= {
                "tokens_per_s": sum(rates),
                "models_open": float(sum(member.loaded is not None for member in self.members)),
                "model_switches": float(switching.num_switches),
                "model_switch_s": (switching.out_seconds + switching.in_seconds) / max(1, switching.num_switches),
            }
        return figures

    def of_path(self, path: Path | None) -> Member | None:
        """Returns the member that is loaded from this file; for None, the one that memory is planned for."""
        if path is None:
            return self._principal
        return next((one for one in self.members if one.loaded is not None and one.loaded.plan.path == path), None)

    # --- the chosen one ---

    def can_choose(self, command: UseModel) -> bool:
        """Returns whether the chosen model can be changed: no answer that the change would affect is being written."""
        home = self.members.home
        is_another = home.path != str(command.path or "")
        return not (home.under_way.has_followers if is_another else len(home.under_way))

    def choose(self, command: UseModel) -> None:
        """Makes a model the chosen one, which answers questions that name none; the previous one has none under way.

        The previous model stays for questions that have named it; otherwise it is freed.

        Raises:
            ModelError: It cannot be loaded; the loader has published that.
        """
        self._is_home_due = False
        self.give_up_hot(self.front)
        before = self.members.home
        is_ready = self._switch_home(command)
        home = self.members.home
        if is_ready:
            self._choose_principal()
            home.loader.tell()
            return
        if self.front is home or not self.front.has_work:
            self.front, self._turn = home, _Turn()
        if command.is_chosen and command.path is not None:
            home.loader.reset_failures(command.path)
        try:
            self._load_home(command, is_another=home is not before)
        finally:
            self._choose_principal()

    def _switch_home(self, command: UseModel) -> bool:
        """Makes the member of this model the chosen one; returns whether it is already loaded as wanted."""
        members, before = self.members, self.members.home
        known = members.find(str(command.path)) if command.path is not None else None
        if known is not None and known is not before:
            members.make_home(known)
            if not before.is_wanted_by_name:
                self._free(before)
            has_wanted_layers = command.n_gpu_layers in (None, known.loader.wanted_layers)
            return known.loaded is not None and (has_wanted_layers or len(known.under_way) > 0)
        if before.path == str(command.path or ""):
            return False
        if before.loaded is not None and before.is_wanted_by_name:
            before.asked_at = self._clock()
            members.make_home(members.another())
        else:
            # Questions have named its previous model; they have not named the new one yet.
            before.is_named = False
        return False

    def _load_home(self, command: UseModel, *, is_another: bool) -> None:
        """Loads the chosen model, now or when it is needed; `is_another`: the member has just become the chosen one."""
        loader = self.members.home.loader
        if command.path is None:
            if is_another:
                loader.tell()
            else:
                loader.unload()
            return
        if not command.is_urgent:
            loader.load_when_needed(command.path, command.n_gpu_layers)
            return
        home = self.members.home
        if self.front is home or self._eviction.has_room_for(home, command.path, command.n_gpu_layers):
            self._eviction.load(home, command.path, command.n_gpu_layers)
        else:
            # It would have to leave again for the answer that another model is writing.
            loader.load_when_needed(command.path, command.n_gpu_layers)
            self._is_home_due = True

    def end(self) -> None:
        """Frees all models; waits a while for kept KV to be written."""
        others = self.members.others
        close_all(
            *(one.loader.close for one in others),
            *(one.loader.unload for one in others),
            self.members.home.loader.end,
        )

    def close(self) -> None:
        """Makes loads under way give up, and every later one at once (from any thread)."""
        for member in self.members:
            member.loader.close()

    def let_idle_go(self) -> None:
        """Frees models, except the chosen one, that were not asked for a while."""
        now = self._clock()
        for member in self.members.others:
            # Its questions may wait behind those of another model without any of them having begun.
            is_asked = member.wants_turn or member.is_waiting
            if not is_asked and now - member.asked_at > IDLE_SECONDS:
                self._free(member)

    def rest(self, path: Path) -> None:
        """Frees a model that is not in use; the next question loads it again."""
        for member in self.members:
            if member.path == str(path):
                self.give_up_hot(member)
                if not member.wants_turn:
                    self._dismiss(member)
        self._choose_principal()

    # --- what no request waits for ---

    def may_compute_unasked(self, member: Member) -> bool:
        """Returns whether a model is in memory, and no question to another one is under way (from any thread)."""
        others = (one for one in self.members if one is not member)
        return member.is_in_memory and not any(one.under_way.is_asked for one in others)

    def let_compute_unasked(self, member: Member) -> bool:
        """Gives the turn to a model with background work; returns False if it may not compute now."""
        if not self.may_compute_unasked(member):
            return False
        if member is not self.front:
            self._leave_front()
            self.front, self._turn = member, _Turn()
        return True

    def give_up_hot(self, member: Member) -> None:
        """Stops a model that only reads hot passages, so that it can be changed or freed."""
        if (loaded := member.loaded) is not None:
            member.under_way.give_up_hot(loaded)
            member.under_way.tell(loaded)

    # --- turns ---

    def take_turn(self, waiting: Mapping[str, Asked]) -> None:
        """Puts the model whose turn it is in front, loaded and in memory.

        Args:
            waiting: Models named by questions that have not begun.

        Raises:
            RagdollError: It cannot be loaded; the caller has to fail the questions of `front`.
        """
        wanted = self._wanted(waiting)
        others = [one for path, one in wanted.items() if path != self.front.path]
        current = wanted.get(self.front.path)
        if not others:
            # No other model waits for the end of its group.
            self._turn.num_begun = 0
        has_written_all = not self.front.has_work and self.num_left == 0
        now, targets = self._clock(), self._targets()
        used = self._turn.used
        goes_on = None if has_written_all else current
        if (turn := turn_after(goes_on, others, used, self._late_turns, targets, now)) is not None:
            self._late_turns = self._late_turns.after(used, was_for_late=self._turn.is_for_late)
            self._begin_turn(turn, list(wanted.values()))
        elif current is not None and not self.front.is_in_memory:
            self._bring_in()
        rivals = (one for path, one in wanted.items() if path != self.front.path)
        self._turn.is_for_people = all(one.rank > rank("interactive", 0.0) for one in rivals)

    def note_begun(self, num_questions: int) -> None:
        """Counts `num_questions` that were begun in this turn."""
        self._turn.num_begun += num_questions

    @property
    def num_left(self) -> int:
        """Questions that may yet be begun in this turn."""
        return max(0, GROUP_SIZE - self._turn.num_begun)

    @property
    def lets_people_in(self) -> bool:
        """Whether users need not wait for the next turn, because requests for other models are less urgent."""
        return self.num_left == 0 and self._turn.is_for_people

    def is_late(self, asked_at: float) -> bool:
        """Returns whether a request of that time can no longer be in time, so that it waits for those that can."""
        is_by_turns = self.members.is_shared and not self._turn.is_for_late
        return is_by_turns and self._targets().is_late(asked_at, self._clock())

    def step(self) -> None:
        """Runs one step of the model in front, which is in memory. Raises whatever its loop raises."""
        front = self.front
        assert front.loaded is not None
        if front.found:
            for found in front.found:
                front.under_way.found_again(found, front.loaded)
            front.found.clear()
        num_unread, since = front.loaded.loop.num_unread, self._clock()
        front.under_way.step(front.loaded)
        seconds = self._clock() - since
        num_read = max(0, num_unread - front.loaded.loop.num_unread)
        front.note_step(seconds, self._clock(), is_reading=num_unread > 0, num_read=num_read)
        self._turn.used = self._turn.used.with_step(seconds, is_reading=num_unread > 0)
        if self._turn.arrival is not None and self._turn.arrival.is_over:
            self._end_arrival()

    def change_front(self, change: Callable[[ModelInstance], None]) -> None:
        """Changes the model in front, given the room that all others leave. Raises what `change` does."""
        assert self.front.instance is not None
        for member in self.members:
            # The memory of all others competes with it, even if memory is planned for one of them.
            member.enter(is_planned_for=member is self.front)
        try:
            change(self.front.instance)
        finally:
            self._choose_principal()

    def ensure_cells(self, num_cells: int) -> None:
        """Gives the model in front `num_cells`; idle models leave memory for that. Raises as `change_front` does."""

        def grow(instance: ModelInstance) -> None:
            self._eviction.for_more_cells(self.front, num_cells)
            instance.ensure_cells(num_cells)

        self.change_front(grow)

    def start_over(self, member: Member, error: Exception) -> None:
        """Discards a broken loop and fails its questions; the next question loads the model again.

        Errors while freeing it are only logged: the caller is at the edge of the thread, and has other models to serve.
        """
        member.under_way.fail_all(error, member.loaded)
        try:
            member.loader.start_over()
        except Exception:
            log.exception("a model that failed could not be given back in order")
        self._choose_principal()

    def _wanted(self, waiting: Mapping[str, Asked]) -> dict[str, Waiting]:
        """Returns all models with something to compute, by their files; new ones join the pool."""
        for model in waiting:
            member = self.members.find(model) or self.members.join(model)
            member.is_named = member.is_named or bool(model)
        wanted: dict[str, Waiting] = {}
        now, targets = self._clock(), self._targets()
        for member in self.members:
            asked = [waiting[name] for name in self.members.names_of(member) if name in waiting]
            if (one := member.look(asked, targets, now, is_in_front=member is self.front)) is not None:
                wanted[member.path] = one
        return wanted

    def _begin_turn(self, turn: NextTurn, wanted: list[Waiting]) -> None:
        left, chosen = self._leave_front(), turn.chosen
        self.front = next(member for member in self.members if member.path == chosen.path)
        paths = {model.path for model in wanted}
        is_free = all(member.is_in_memory for member in self.members if member.path in paths)
        self._turn = _Turn(begun(chosen, wanted, self._targets(), is_free=is_free), is_for_late=turn.is_for_late)
        if not self.front.is_in_memory:
            self._bring_in(left)

    def _leave_front(self) -> Member:
        """Ends the turn of the model in front, and returns it."""
        left = self.front
        left.since = self._clock()
        left.under_way.end_turn(left.loaded)
        self._end_arrival()
        return left

    def _bring_in(self, left: Member | None = None) -> None:
        """Brings the model in front into memory; `left` is the member whose turn has ended."""
        try:
            if (arrival := self._switching.bring_in(self.front, left)) is not None:
                self._turn.arrival = arrival
        finally:
            self._choose_principal()

    def _end_arrival(self) -> None:
        arrival, self._turn.arrival = self._turn.arrival, None
        if arrival is not None:
            self._switching.note_arrived(arrival)

    def make_way(self, member: Member, placement: Placement) -> bool:
        """Makes other models leave instead of placing a model only partly in memory; returns whether any left."""
        has_made = self._eviction.instead_of(member, placement)
        if has_made:
            self._choose_principal()
        return has_made

    def look_after(self) -> None:
        """Makes waiting models give up memory that others need; to be called regularly."""
        self._eviction.for_others(self._principal)
        for member in self.members:
            if member.loaded is not None and member.is_folded and not member.wants_turn:
                # Its kept KV leaves memory once it is written.
                member.loaded.flush()

    @property
    def is_home_due(self) -> bool:
        """Whether the chosen model had to wait for answers of another one, which have all ended."""
        return self._is_home_due and not self.has_work

    def bring_home(self) -> None:
        """Loads the chosen model, or returns it to memory, before it is asked. Raises as `take_turn` does."""
        home, self._is_home_due = self.members.home, False
        if home.path and not home.is_in_memory:
            left, self.front, self._turn = self.front, home, _Turn()
            self._bring_in(left)

    def _choose_principal(self) -> None:
        """Plans memory for the chosen model while it is in memory, otherwise for the one that computes."""
        home = self.members.home
        principal = home if home.is_in_memory or self.front.loaded is None else self.front
        for member in self.members:
            member.enter(is_planned_for=member is principal)
            if member.instance is not None:
                member.instance.obey()
        self._principal = principal
        self.bound_files()

    def bound_files(self) -> None:
        """Bounds files of kept KV by the plan of the model that memory is planned for."""
        if self._principal.loader.bound_files():
            for member in self.members:
                if member.loaded is not None:
                    member.loaded.keeper.fit()

    def _dismiss(self, member: Member) -> None:
        """Frees a model with nothing under way; the next question loads it again."""
        if member is self.members.home:
            member.loader.rest()
        else:
            self._remove(member)

    def _free(self, member: Member) -> None:
        self._remove(member)
        self._choose_principal()

    def _remove(self, member: Member) -> None:
        if self.front is member:
            self.front, self._turn = self.members.home, _Turn()
        self.members.remove(member)
