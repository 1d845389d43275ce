"""What the profile learns from ordinary work: steps of answers, prompts, sweeps of the index, and pauses.

A step is timed over some seconds in which the same answers were written, without drafts, and nothing else happened:
only then is it known what was computed. The loop times passes over prompts one by one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from engine.core import ModelShape
from engine.memory.cost_model import as_computed, decode_work, prefill_work
from engine.memory.demand import Backlog
from engine.memory.measured import table_key
from engine.memory.placement import Placement
from engine.memory.profile import Observation, PassObserved, PauseObserved, Profile, ReadsObserved, SweepsLearnt
from engine.memory.terms import homes_of, split_of
from engine.retrieval.cost import CostModel

# The counters of steps may be half a second old.
LEAST_SECONDS, LEAST_STEPS = 4.0, 4
# Tokens per step, relative to the answers that are written: fewer if prompts are read, more with drafts.
PURE = (0.95, 1.05)
# After this long without a question, none is expected for a while.
IDLE_SECONDS = 20.0


@dataclass(frozen=True, slots=True)
class Steps:
    """Counters of a loaded model since it was loaded, at a time in seconds.

    `read_bytes` of weights were read in `reading_seconds`, the time in which anything was being read.
    """

    at: float
    num_steps: float
    num_tokens: float
    read_bytes: float
    reading_seconds: float


@dataclass(frozen=True, slots=True)
class Prompts:
    """Counters of the prompts that a model has read since it was loaded.

    These are passes, their tokens, the tokens before them, and seconds; in addition, all steps until then, and the
    seconds in which weights were being read.
    """

    num_passes: float
    num_tokens: float
    cached_tokens: float
    seconds: float
    num_steps: float
    streaming_seconds: float

    @classmethod
    def of(cls, figures: Mapping[str, float]) -> Prompts:
        """Takes them from the model's counters; 0 where there is none."""
        return cls(
            figures.get("prompt_passes_total", 0.0),
            figures.get("prompt_pass_tokens_total", 0.0),
            figures.get("prompt_pass_cached_tokens_total", 0.0),
            figures.get("prompt_pass_seconds_total", 0.0),
            figures.get("steps_total", 0.0),
            figures.get("streaming_seconds_total", 0.0),
        )


@dataclass(frozen=True, slots=True)
class Setting:
    """What must stay the same while steps are timed."""

    placement: Placement
    running: int
    waiting: int


class Observer:
    """Looks once in a while, and passes what was learnt to the profile; on the thread of the loop."""

    def __init__(
        self,
        profile: Callable[[], Profile],
        note: Callable[[Observation], None],
        figures: Callable[[], Mapping[str, float]],
        sweeps: Callable[[], CostModel],
        measure: Callable[[], None],
        is_free: Callable[[], bool] = lambda: True,
    ) -> None:
        """Prepares.

        Args:
            profile: What is known of the machine.
            note: Passes an observation to the profile.
            figures: Returns the counters of the loaded model (`LoadedModel.counters`).
            sweeps: Returns what retrieval has learnt about its sweeps.
            measure: Measures bandwidths in the background, unless that is done; called while no question is open.
            is_free: Whether nothing else keeps the machine busy, as indexing does.
        """
        self._profile, self._note, self._figures, self._sweeps = profile, note, figures, sweeps
        self._measure = measure
        self._is_free = is_free
        self._known_sweeps = sweeps()
        self._since: tuple[Setting, Steps] | None = None
        self._read: tuple[Placement, Prompts] | None = None
        self._idle_since: float | None = None

    def look(self, shape: ModelShape, placement: Placement, backlog: Backlog, now: float) -> None:
        """Takes in what was done since the last look, at `now` in seconds."""
        self._look_at_steps(shape, Setting(placement, backlog.running, backlog.waiting), backlog, now)
        self._look_at_prompts(shape, placement)
        if (learnt := self._sweeps()) != self._known_sweeps:
            self._known_sweeps = learnt
            self._note(SweepsLearnt(learnt.fixed_seconds, learnt.load_seconds, learnt.query_seconds))
        self._measure_when_idle(backlog, now)

    def note_pause(self, before: Placement, after: Placement, seconds: float, weight_bytes: int) -> None:
        """Records how long answers paused for another placement."""
        reloads = before.reloads_for(after)
        if seconds > 0:
            self._note(PauseObserved("reload" if reloads else "context", seconds, weight_bytes if reloads else 0))

    def _look_at_steps(self, shape: ModelShape, setting: Setting, backlog: Backlog, now: float) -> None:
        figures = self._figures()
        if not setting.running or setting.waiting or "steps_total" not in figures:
            self._since = None
            return
        steps = Steps(
            now,
            figures["steps_total"],
            figures["generated_tokens_total"],
            figures.get("streamed_bytes_total", 0.0),
            figures.get("streaming_seconds_total", 0.0),
        )
        if self._since is None or self._since[0] != setting:
            self._since = setting, steps
            return
        begun = self._since[1]
        num_steps, seconds = steps.num_steps - begun.num_steps, steps.at - begun.at
        if seconds < LEAST_SECONDS or num_steps < LEAST_STEPS:
            return
        self._since = setting, steps
        reading_seconds = steps.reading_seconds - begun.reading_seconds
        self._note(ReadsObserved(int(steps.read_bytes - begun.read_bytes), reading_seconds))
        if PURE[0] <= (steps.num_tokens - begun.num_tokens) / num_steps / setting.running <= PURE[1]:
            length = backlog.prompt_tokens + backlog.answer_tokens // 2
            homes = homes_of(shape, setting.placement)
            work = decode_work(homes, setting.running, length)
            split = split_of(setting.placement)
            self._note(
                PassObserved(
                    as_computed(homes, self._profile(), work, setting.running),
                    seconds / num_steps,
                    reading_seconds / num_steps,
                    table_key(shape),
                    split,
                    "write",
                    setting.running,
                )
            )

    def _look_at_prompts(self, shape: ModelShape, placement: Placement) -> None:
        """Records what passes over prompts have taken since the last look, on average."""
        before, read = self._read, Prompts.of(self._figures())
        self._read = placement, read
        if before is None or before[0] != placement:
            return
        then = before[1]
        count, num_steps = read.num_passes - then.num_passes, read.num_steps - then.num_steps
        # Counters start again with each model.
        if count <= 0 or num_steps < count:
            return
        num_tokens = round((read.num_tokens - then.num_tokens) / count)
        cached_tokens = round((read.cached_tokens - then.cached_tokens) / count)
        homes = homes_of(shape, placement)
        work = prefill_work(homes, num_tokens, cached_tokens)
        self._note(
            PassObserved(
                as_computed(homes, self._profile(), work, num_tokens),
                (read.seconds - then.seconds) / count,
                # Each step reads the same bytes, whatever it computes.
                (read.streaming_seconds - then.streaming_seconds) / num_steps,
                table_key(shape),
                split_of(placement),
                "read",
                num_tokens,
            )
        )

    def _measure_when_idle(self, backlog: Backlog, now: float) -> None:
        if backlog.waiting or backlog.running or not self._is_free():
            self._idle_since = None
            return
        self._idle_since = now if self._idle_since is None else self._idle_since
        if now - self._idle_since >= IDLE_SECONDS:
            self._measure()
