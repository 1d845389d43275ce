"""A member of the pool: a model, its loader, the questions it answers, and how long these have waited for its turn."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from engine.generation.instance import ModelInstance
from engine.generation.loaded import LoadedModel
from engine.generation.loader import ModelLoader
from engine.generation.scheduler import rank
from engine.generation.time_slices import Targets, Waiting
from engine.generation.turns import Asked
from engine.generation.under_way import UnderWay
from engine.looking_again import FoundAgain

# The usual rate of reading weights from a disk, until a switch has been measured.
_USUAL_BYTES_PER_S = 1.5e9
# The weight of earlier steps in the remembered step time.
_MEMORY = 0.8


@dataclass(slots=True, eq=False)
class Member:
    """A model of the pool with its loader and the questions it answers. On the generation thread.

    `since`: when its last turn was, or when the first question came that has waited since then. `is_named`: questions
    have named it, instead of being for the chosen model.
    """

    loader: ModelLoader
    under_way: UnderWay
    since: float = 0.0
    asked_at: float = 0.0
    # Seconds of a step of writing, seconds to read a prompt, and seconds of reading since the last prompt was complete.
    step_seconds: float = 0.1
    prompt_seconds: float = 1.0
    reading_seconds: float = 0.0
    switch_seconds: float = 0.0
    is_named: bool = False
    # Whether it wanted a turn when it was last checked.
    is_waiting: bool = False
    # More evidence for its answers, to be taken in at its next step.
    found: list[FoundAgain] = field(default_factory=list)

    def found_again(self, found: FoundAgain) -> None:
        """Stores what was found for one of its answers until its next turn."""
        self.found.append(found)

    @property
    def instance(self) -> ModelInstance | None:
        """The loaded model, whether it is in memory or not."""
        return self.loader.instance

    @property
    def loaded(self) -> LoadedModel | None:
        return self.loader.loaded_now

    @property
    def is_in_memory(self) -> bool:
        """Whether it can compute now."""
        return (instance := self.instance) is not None and instance.standby.is_there

    @property
    def is_away(self) -> bool:
        """Whether some of its weights have left memory."""
        return (instance := self.instance) is not None and instance.standby.is_away

    @property
    def is_folded(self) -> bool:
        """Whether its context has left memory."""
        return (instance := self.instance) is not None and instance.standby.is_folded

    @property
    def removable_bytes(self) -> int:
        """Weights that can leave memory."""
        return instance.standby.removable_bytes(instance.loaded) if (instance := self.instance) is not None else 0

    @property
    def missing_bytes(self) -> int:
        """Weights that have to be read when it comes back."""
        return instance.standby.missing_bytes(instance.loaded) if (instance := self.instance) is not None else 0

    @property
    def needed_bytes(self) -> int:
        """The memory that it takes when it comes back."""
        return instance.standby.needed_bytes(instance.loaded) if (instance := self.instance) is not None else 0

    @property
    def room_bytes(self) -> int:
        """Free memory for more of it."""
        return self.loader.planner.room_bytes(self.loaded.plan) if self.loaded is not None else 0

    def enter(self, *, is_planned_for: bool) -> None:
        """Marks its bytes in the ledger as those of the model that memory is planned for, or of one that waits."""
        share, loaded = self.loader.share, self.loaded
        if is_planned_for:
            share.go_on()
        else:
            is_away = loaded is not None and not self.is_in_memory
            share.wait(loaded.shape.name if loaded is not None else "", is_away=is_away)

    @property
    def uses_device(self) -> bool:
        """Whether layers of it are on a graphics card; these leave only with the whole model."""
        return self.loaded is not None and self.loaded.plan.placement.n_gpu_layers > 0

    @property
    def path(self) -> str:
        """Its file; "" if answers are quotes."""
        return str(self.loader.wanted or "")

    @property
    def is_wanted_by_name(self) -> bool:
        """Whether it stays in the pool although another model is chosen."""
        return self.is_named or len(self.under_way) > 0

    @property
    def seconds_to_switch(self) -> float:
        """The seconds to get it into memory if it takes turns there, as measured or estimated; otherwise 0."""
        if self.loaded is None or not self.loader.planner.takes_turns:
            return 0.0
        return self.switch_seconds or (self.removable_bytes + self.missing_bytes) / _USUAL_BYTES_PER_S

    @property
    def wants_turn(self) -> bool:
        """Whether it has anything to compute that a request waits for."""
        loaded = self.loaded
        return self.under_way.is_busy or (loaded is not None and loaded.loop.is_asked)

    @property
    def has_work(self) -> bool:
        """Whether it has anything to compute, including the last token of an answer that has ended."""
        loaded = self.loaded
        return self.under_way.is_busy or (loaded is not None and loaded.loop.has_work)

    def look(self, asked: Sequence[Asked], targets: Targets, now: float, *, is_in_front: bool) -> Waiting | None:
        """Updates since when it has waited, and returns what it waits for; None if there is nothing to compute.

        Args:
            asked: Its questions that have not begun.
            targets: What readers are promised.
            now: The present time on the clock of `since`.
            is_in_front: Whether it is its turn.
        """
        is_wanted = bool(asked) or (self.has_work if is_in_front else self.wants_turn)
        # A model does not wait while it has nothing to compute, nor during its turn.
        has_waited_since = is_wanted and self.is_waiting and not is_in_front
        if not has_waited_since:
            self.since = now
        self.is_waiting = is_wanted
        if not is_wanted:
            return None
        urgency = self.under_way.urgency
        urgencies = [*(one.priority for one in asked), *([urgency] if urgency is not None else [])]
        people_asked_at = [at for one in asked if one.priority == "interactive" for at in one.moments]
        loop = self.loaded.loop if self.loaded is not None else None
        num_unread = loop.num_unread if loop is not None else 1
        num_to_read = num_unread + sum(len(one.moments) for one in asked)
        rank_now = min((rank(one, now - self.since) for one in urgencies), default=rank("idle", 0.0))
        rank_unaged = min((rank(one, 0.0) for one in urgencies), default=rank("idle", 0.0))
        return Waiting(
            self.path,
            rank_now,
            self.since,
            dues=(*self.under_way.dues(targets), *(targets.due_at(at, 0) for at in people_asked_at)),
            num_unread=num_unread,
            is_writing=loop is not None and loop.is_writing,
            step_seconds=self.step_seconds,
            reading_seconds=num_to_read * self.prompt_seconds,
            switch_seconds=self.seconds_to_switch,
            is_aged=rank_now < rank_unaged,
        )

    def note_step(self, seconds: float, now: float, *, is_reading: bool, num_read: int = 0) -> None:
        """Learns from the seconds of a step, in which `num_read` prompts became complete."""
        self.asked_at = now
        if not is_reading:
            self.step_seconds = _MEMORY * self.step_seconds + (1 - _MEMORY) * seconds
            return
        self.reading_seconds += seconds
        if num_read > 0:
            of_each, self.reading_seconds = self.reading_seconds / num_read, 0.0
            self.prompt_seconds = _MEMORY * self.prompt_seconds + (1 - _MEMORY) * of_each

    def note_switch(self, seconds: float) -> None:
        """Learns from how long it took to get it into memory instead of others."""
        self.switch_seconds = seconds if not self.switch_seconds else (self.switch_seconds + seconds) / 2
