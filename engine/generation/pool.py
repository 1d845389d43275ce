"""The pool: several models in one engine; those that do not fit into memory together take turns between tokens.

A chat may name any model. Models that fit beside each other stay side by side. Of others, all keep their file mapped,
their vocabulary and, while there is room, their context with all keys and values; only weights leave memory and come
back, read ahead of the first pass (Aegaeon, SOSP'25; generation.md, section 4). Whose turn it is, and for how long, is
decided in rounds.py. What lies on a graphics card, or in the order that the processor reads fastest, cannot leave so:
such a model is closed once, and read again from the system's cache of files.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from engine.closing import close_all
from engine.core import QUOTES_ONLY, Priority
from engine.errors import NotStreamable
from engine.events import ModelSwitched, Publish
from engine.generation.commands import UseModel
from engine.generation.load_plan import LoadPlan
from engine.generation.loaded import LoadedModel
from engine.generation.loader import ModelLoader
from engine.generation.rounds import Waiting, is_over, next_turn, quotas
from engine.generation.scheduler import rank
from engine.generation.under_way import UnderWay
from engine.looking_again import FoundAgain
from engine.memory.demand import Demand
from engine.memory.hardware import Device
from engine.memory.placement import Placement

log = logging.getLogger(__name__)

# A model that nobody has asked for so long leaves the pool, unless it is the chosen one.
IDLE_SECONDS = 300.0
# What a step takes of those before, as it is remembered.
_MEMORY = 0.8
# At which weights come from a disk of today, before a switch was measured.
_USUAL_BYTES_PER_S = 1.5e9


@dataclass(slots=True, eq=False)
class Member:
    """A model of the pool: who loads it, and which questions it answers. On the generation thread.

    `since`: when it was last its turn, or the first question came that waits since then. `is_named`: questions have
    named it, instead of just being for the chosen model.
    """

    loader: ModelLoader
    under_way: UnderWay
    since: float = 0.0
    asked_at: float = 0.0
    step_seconds: float = 0.1
    switch_seconds: float = 0.0
    is_named: bool = False
    # More evidence of its answers, for its next step.
    found: list[FoundAgain] = field(default_factory=list)

    def found_again(self, found: FoundAgain) -> None:
        """More was found for one of its answers; it is taken in when it is its turn."""
        self.found.append(found)

    @property
    def loaded(self) -> LoadedModel | None:
        return self.loader.loaded_now

    @property
    def is_in_memory(self) -> bool:
        """Whether it can compute now."""
        return self.loaded is not None and not (self.loader.is_away or self.loader.is_folded)

    @property
    def uses_device(self) -> bool:
        """Whether layers of it lie on a graphics card, which they leave only with the whole model."""
        return self.loaded is not None and self.loaded.plan.placement.n_gpu_layers > 0

    @property
    def path(self) -> str:
        """Its file; "" where answers are quotes."""
        return str(self.loader.wanted or "")

    @property
    def seconds_to_switch(self) -> float:
        """What it takes to have its weights in memory, as far as they leave it: as before, or by a guess."""
        if self.switch_seconds or self.loaded is None or not self.loader.takes_turns:
            return self.switch_seconds
        return (self.loader.removable_bytes + self.loader.missing_bytes) / _USUAL_BYTES_PER_S

    @property
    def wants_turn(self) -> bool:
        """Whether there is anything to compute that somebody waits for."""
        loop = self.loaded.loop if self.loaded is not None else None
        return self.under_way.is_busy or (loop is not None and loop.is_asked)

    @property
    def has_work(self) -> bool:
        """Whether there is anything to compute; the last token of an answer is, when its question has ended."""
        return self.under_way.is_busy or (self.loaded is not None and self.loaded.loop.has_work)


@dataclass(slots=True)
class _Arrival:
    """A switch of which the first steps still wait for layers."""

    left: str
    out_seconds: float
    in_seconds: float
    moved_bytes: int
    waited_before: float


@dataclass(slots=True)
class _Turn:
    """Of the model that computes: what it has begun and written in its turn, and for how long it may write."""

    quota_seconds: float = 0.0
    wrote_seconds: float = 0.0
    num_begun: int = 0
    arrival: _Arrival | None = None


@dataclass(slots=True)
class Figures:
    """What switching has come to, since the engine began."""

    num_switches: int = 0
    out_seconds: float = 0.0
    in_seconds: float = 0.0
    moved_bytes: int = 0


class ModelPool:
    """Owned by the generation thread; what is said of the model that memory is planned for is for other threads too."""

    def __init__(
        self,
        loader: ModelLoader,
        make_under_way: Callable[[], UnderWay],
        publish: Publish,
        tpot_seconds: Callable[[], float] = lambda: 0.25,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Begins with the chosen model, which need not be any.

        Args:
            loader: Loads the chosen model; those of others are made of it.
            make_under_way: Makes what answers the questions of one model.
            publish: Where events go.
            tpot_seconds: What a token may take on the average, as readers are promised.
            clock: Seconds that never go back.
        """
        self._make_under_way, self._publish = make_under_way, publish
        self._tpot_seconds, self._clock = tpot_seconds, clock
        self.home = self.front = Member(loader, make_under_way())
        self._others: list[Member] = []
        self._turn, self.figures = _Turn(), Figures()
        self._num_moves_of_gone = 0
        self._principal = self.home

    # --- of the model that memory is planned for; from any thread ---

    @property
    def principal(self) -> Member:
        """The chosen model while it is in memory, else the one that computes: the plan is about its bytes."""
        return self._principal

    @property
    def loaded_now(self) -> LoadedModel | None:
        return self._principal.loader.loaded_now

    @property
    def demand(self) -> Demand | None:
        return self._principal.loader.demand

    @property
    def placement(self) -> Placement | None:
        return self._principal.loader.placement

    @property
    def decision(self) -> str:
        return self._principal.loader.decision

    @property
    def pending(self) -> str:
        return self._principal.loader.pending

    @property
    def problem(self) -> str:
        return self._principal.loader.problem

    @property
    def devices(self) -> tuple[Device, ...]:
        return self._principal.loader.devices

    # --- all of them ---

    @property
    def num_moves(self) -> int:
        """How often a question came, began or ended."""
        return self._num_moves_of_gone + sum(member.under_way.num_moves for member in self)

    @property
    def num_under_way(self) -> int:
        """Questions that have begun and not ended."""
        return sum(len(member.under_way) for member in self)

    @property
    def is_busy(self) -> bool:
        """Whether any answer is being written, or read for."""
        return any(member.under_way.is_busy for member in self)

    @property
    def is_stalled(self) -> bool:
        """Whether all that can be done is being read from the disk."""
        return self.front.under_way.is_stalled and not any(one.wants_turn for one in self if one is not self.front)

    def counters(self) -> dict[str, float]:
        """Rates and gauges for the Memory page, of the model that memory is planned for and of the pool."""
        loaded = self._principal.loaded
        if loaded is None or self._principal.loader.is_folded:
            return {}
        figures, pool = loaded.counters(), self.figures
        if self.is_shared:
            figures |= {
                "models_open": float(sum(member.loaded is not None for member in self)),
                "model_switches_total": float(pool.num_switches),
                "model_switching_seconds_total": pool.out_seconds + pool.in_seconds,
            }
        return figures

    # --- members ---

    def __iter__(self) -> Iterator[Member]:
        """All of them, the chosen one first."""
        yield self.home
        yield from self._others

    @property
    def is_shared(self) -> bool:
        """Whether there is more than the chosen model."""
        return bool(self._others)

    @property
    def has_work(self) -> bool:
        """Whether there is anything to compute."""
        return self.front.has_work or any(member.wants_turn for member in self)

    def find(self, model: str) -> Member | None:
        """Who answers questions that name this model, "" for the chosen one; None where nobody does yet."""
        if not model:
            return self.home
        return next((member for member in self if member.path == model), None)

    def of_path(self, path: Path | None) -> Member | None:
        """The member that is loaded from this file; None: the one that memory is planned for."""
        if path is None:
            return self._principal
        return next((one for one in self if one.loaded is not None and one.loaded.plan.path == path), None)

    def names_of(self, member: Member) -> frozenset[str]:
        """How questions name it."""
        return frozenset({member.path, ""} if member is self.home else {member.path})

    def is_for_quotes(self, model: str) -> bool:
        """Whether questions that name this model are answered by quotes."""
        return model == QUOTES_ONLY or (not model and not self.home.path)

    def can_choose(self, command: UseModel) -> bool:
        """Whether nobody sees an answer being written of the chosen model, unless it stays for who has named it."""
        under_way = self.home.under_way
        is_another = self.home.path != str(command.path or "")
        return not (under_way.has_followers if is_another else len(under_way))

    def choose(self, command: UseModel) -> None:
        """Has questions that name no model answered by another one from now on; it has none of them under way.

        A model that questions have named stays for these; any other is freed.

        Raises:
            ModelError: It cannot be loaded; the loader has published that.
        """
        before, known = self.home, self.find(str(command.path)) if command.path is not None else None
        if known is not None and known is not before:
            self.home = known
            self._others = [one for one in self._others if one is not known]
            self._leave_or_free(before)
            self._look_anew()
            known.loader.is_chosen, before.loader.is_chosen = True, False
            known.loader.tell()
            return
        if before.loaded is not None and before.path != str(command.path or "") and self._is_wanted_by_name(before):
            before.asked_at, before.loader.is_chosen = self._clock(), False
            self._others.append(before)
            self.home = Member(before.loader.another(), self._make_under_way())
            self.home.loader.is_chosen = True
        home = self.home
        if self.front is home or not self.front.has_work:
            self.front, self._turn = home, _Turn()
        if command.is_chosen:
            home.loader.forgive()
        try:
            if command.path is None:
                home.loader.unload()
            elif command.is_urgent:
                self._load(home, command.path, command.n_gpu_layers)
            else:
                home.loader.load_when_needed(command.path, command.n_gpu_layers)
        finally:
            self._look_anew()

    def end(self) -> None:
        """Frees all models; waits a while for what is kept of them to be written."""
        others, self._others = self._others, []
        close_all(*(one.loader.close for one in others), *(one.loader.unload for one in others), self.home.loader.end)

    def close(self) -> None:
        """Makes loads that are under way give up, and every later one at once (from any thread)."""
        for member in tuple(self):
            member.loader.close()

    def let_idle_go(self) -> None:
        """Frees models that nobody has asked for a while."""
        now = self._clock()
        for member in tuple(self._others):
            if not member.has_work and now - member.asked_at > IDLE_SECONDS:
                self._free(member)

    # --- turns ---

    def take_turn(self, waiting: Mapping[str, Priority]) -> None:
        """Has the model whose turn it is be the one in front, loaded and in memory.

        Args:
            waiting: Models that questions name which have not begun, each with the urgency of its most urgent one.

        Raises:
            RagdollError: It cannot be had; whoever waits for it, of `front`, is to be told.
        """
        wanted = self._wanted(waiting)
        others = [one for path, one in wanted.items() if path != self.front.path]
        current = wanted.get(self.front.path)
        if others and is_over(current, others, self._turn.wrote_seconds, self._turn.quota_seconds):
            self._begin_turn(next_turn(others), list(wanted.values()))
        elif current is not None and not self.front.is_in_memory:
            self._bring_in(self.front)
        elif not wanted:
            self._turn.quota_seconds = 0.0

    def note_begun(self, num_questions: int) -> None:
        """So many questions were begun in this turn."""
        self._turn.num_begun += num_questions

    @property
    def num_begun(self) -> int:
        """Questions that were begun in this turn."""
        return self._turn.num_begun

    def step(self) -> None:
        """One step of the model in front, which is in memory. Raises what its loop does when it breaks."""
        front = self.front
        assert front.loaded is not None
        if front.found:
            for found in front.found:
                front.under_way.found_again(found, front.loaded)
            front.found.clear()
        is_reading, since = front.loaded.loop.num_reading > 0, self._clock()
        front.under_way.step(front.loaded)
        self._note_step(self._clock() - since, is_reading=is_reading)

    def _note_step(self, seconds: float, *, is_reading: bool) -> None:
        front = self.front
        front.asked_at = self._clock()
        if not is_reading:
            self._turn.wrote_seconds += seconds
            front.step_seconds = _MEMORY * front.step_seconds + (1 - _MEMORY) * seconds
        self._note_arrival()

    def start_over(self, member: Member, error: Exception) -> None:
        """Its loop is of no use any more; the next question finds the model loaded again."""
        member.under_way.fail_all(error)
        member.loader.start_over()
        self._look_anew()

    def _wanted(self, waiting: Mapping[str, Priority]) -> dict[str, Waiting]:
        """All models with something to compute, by their files; those that are new to the pool join it."""
        for model in waiting:
            if self.find(model) is None:
                now = self._clock()
                member = Member(self.home.loader.another(), self._make_under_way(), since=now, asked_at=now)
                member.loader.load_when_needed(Path(model), None)
                self._others.append(member)
        wanted: dict[str, Waiting] = {}
        now = self._clock()
        for member in self:
            priorities = [waiting[name] for name in self.names_of(member) if name in waiting]
            urgency = member.under_way.urgency
            if not (priorities or (member.has_work if member is self.front else member.wants_turn)):
                member.since = now
                continue
            member.is_named = member.is_named or member.path in waiting
            all_urgencies = [*priorities, *([urgency] if urgency is not None else [])]
            most_urgent = min((rank(one, now - member.since) for one in all_urgencies), default=rank("idle", 0.0))
            loop = member.loaded.loop if member.loaded is not None else None
            wanted[member.path] = Waiting(
                member.path,
                most_urgent,
                member.since,
                num_unread=loop.num_reading if loop is not None else 1,
                is_writing=member.has_work,
                step_seconds=member.step_seconds,
                switch_seconds=member.seconds_to_switch,
            )
        return wanted

    def _begin_turn(self, chosen: Waiting | None, wanted: list[Waiting]) -> None:
        assert chosen is not None
        left = self.front
        left.since = self._clock()
        self._end_arrival()
        self.front = next(member for member in self if member.path == chosen.path)
        self._turn = _Turn(quotas(wanted, self._tpot_seconds())[chosen.path])
        if not self.front.is_in_memory:
            self._bring_in(self.front, left)

    def _bring_in(self, member: Member, left: Member | None = None) -> None:
        """Has it in memory, and as much of the others out of it as it takes."""
        loader = member.loader
        try:
            if member.loaded is None:
                path, layers = loader.wanted_with_layers()
                self._load(member, path, layers)
                return
            since = self._clock()
            moved_bytes = loader.missing_bytes
            self._make_room(member, loader.needed_bytes)
            out_seconds = self._clock() - since
            stream = member.loaded.stream
            waited_before = stream.counters().waited_seconds if stream is not None else 0.0
            try:
                loader.come_back()
            except NotStreamable as error:
                log.warning("a model is loaded anew: %s", error.sentence)
                loader.fold()
                loader.come_back()
            in_seconds = self._clock() - since - out_seconds
            left_path = left.path if left is not None else ""
            self._turn.arrival = _Arrival(left_path, out_seconds, in_seconds, moved_bytes, waited_before)
        finally:
            self._look_anew()

    def _note_arrival(self) -> None:
        """A switch is over once all layers are there."""
        loaded = self.front.loaded
        if self._turn.arrival is not None and (loaded is None or loaded.stream is None or loaded.stream.is_whole):
            self._end_arrival()

    def _end_arrival(self) -> None:
        arrival, self._turn.arrival = self._turn.arrival, None
        member = self.front
        if arrival is None or member.loaded is None:
            return
        stream = member.loaded.stream
        waited = stream.counters().waited_seconds - arrival.waited_before if stream is not None else 0.0
        in_seconds = arrival.in_seconds + max(0.0, waited)
        seconds = arrival.out_seconds + in_seconds
        member.switch_seconds = seconds if not member.switch_seconds else (member.switch_seconds + seconds) / 2
        self.figures.num_switches += 1
        self.figures.out_seconds += arrival.out_seconds
        self.figures.in_seconds += in_seconds
        self.figures.moved_bytes += arrival.moved_bytes
        name = member.loaded.shape.name
        self._publish(
            ModelSwitched(member.path, name, arrival.left, arrival.out_seconds, in_seconds, arrival.moved_bytes)
        )

    # --- memory ---

    def _load(self, member: Member, path: Path, n_gpu_layers: int | None) -> None:
        """Loads a model beside the others where all fit; else they take turns from now on.

        Raises:
            ModelError: It cannot be loaded.
        """
        beside = [one for one in self if one is not member and one.loaded is not None]
        member.loader.takes_turns = any(one.loader.takes_turns for one in beside)
        if not beside:
            member.loader.load(path, n_gpu_layers)
            return
        for one in beside:
            self._enter(one, is_planned_for=False)
        member.loader.share.go_on()
        if any(one.loader.is_away for one in beside) or not _is_whole(member.loader.plan(path, n_gpu_layers)):
            self._have_turns(member, beside, path, n_gpu_layers)
        member.loader.load(path, n_gpu_layers)

    def _have_turns(self, member: Member, beside: list[Member], path: Path, n_gpu_layers: int | None) -> None:
        """All weights but those of the model that comes leave memory, and contexts as far as it helps."""
        member.loader.takes_turns = True
        for one in beside:
            one.loader.takes_turns = True
            self._have_leave(one, one.loader.removable_bytes)
        for one in self._by_use(beside):
            if _is_whole(member.loader.plan(path, n_gpu_layers)):
                return
            self._have_folded(one)

    def _make_room(self, member: Member, needed_bytes: int) -> None:
        """Has others leave memory until there is as much for a model that comes back."""
        beside = [one for one in self if one is not member and one.loaded is not None]
        if member.uses_device:
            for one in beside:
                if one.uses_device:
                    self._have_folded(one)
        # Whoever had its turn last waits longest for the next one.
        for one in sorted(beside, key=lambda one: -one.since):
            if (lacking := needed_bytes - member.loader.room_bytes) <= 0:
                return
            self._have_leave(one, lacking)
        for one in self._by_use(beside):
            if member.loader.room_bytes >= needed_bytes:
                return
            self._have_folded(one)

    def _by_use(self, members: list[Member]) -> list[Member]:
        """Those first that have nothing under way, and of these whom nobody has asked for longest."""
        return sorted(members, key=lambda one: (one.has_work, one.asked_at))

    def _have_leave(self, member: Member, num_bytes: int) -> None:
        """Weights leave memory; where they cannot, the whole model is closed for as long as it waits."""
        try:
            if member.loader.removable_bytes:
                member.loader.leave(num_bytes)
            elif not member.loader.is_away:
                self._have_folded(member)
        except NotStreamable as error:
            log.warning("a model is closed: %s", error.sentence)
            self._have_folded(member)
        self._enter(member, is_planned_for=False)

    def _have_folded(self, member: Member) -> None:
        """The context leaves memory too; the file stays mapped and the vocabulary there, where weights can leave.

        Any other model that has nothing under way is freed, and loaded again when it is asked.
        """
        if member.has_work or member.loader.is_away or member.loader.removable_bytes:
            member.loader.fold(keeps_what_was_read=member.has_work)
            self._enter(member, is_planned_for=False)
        elif member is self.home:
            member.loader.rest()
        else:
            self._free(member)

    def look_after(self) -> None:
        """Weights of models that wait leave memory where their room is wanted; call it now and then."""
        spare = [one for one in self if one.loader.is_away and one.loader.removable_bytes]
        if spare and self._principal.loader.room_bytes < 0:
            for one in spare:
                self._have_leave(one, one.loader.removable_bytes)

    def bring_home(self) -> None:
        """Has the chosen model loaded and in memory, before anybody asks. Raises as `take_turn` does."""
        if self.home.path and not self.home.is_in_memory:
            left, self.front, self._turn = self.front, self.home, _Turn()
            self._bring_in(self.home, left)

    def _look_anew(self) -> None:
        """The plan is about the chosen model while it is in memory, else about the one that computes."""
        principal = self.home if self.home.is_in_memory or self.front.loaded is None else self.front
        for member in self:
            self._enter(member, is_planned_for=member is principal)
        self._principal = principal

    def _enter(self, member: Member, *, is_planned_for: bool) -> None:
        share, loaded = member.loader.share, member.loaded
        if is_planned_for:
            share.go_on()
        else:
            name = loaded.shape.name if loaded is not None else ""
            share.wait(name, is_away=member.loader.is_away or member.loader.is_folded)

    def _is_wanted_by_name(self, member: Member) -> bool:
        return member.is_named or len(member.under_way) > 0

    def _leave_or_free(self, member: Member) -> None:
        self._others.append(member)
        if not self._is_wanted_by_name(member):
            self._free(member)

    def _free(self, member: Member) -> None:
        self._others = [one for one in self._others if one is not member]
        if self.front is member:
            self.front, self._turn = self.home, _Turn()
        self._num_moves_of_gone += member.under_way.num_moves
        member.loader.unload()
        self._look_anew()


def _is_whole(plan: LoadPlan) -> bool:
    """Whether all of a model has room, and nothing had to be given up for it."""
    placement = plan.placement
    return placement.fits and not (placement.streamed_layers or placement.is_mapped)
