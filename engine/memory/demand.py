"""What is wanted of memory: the model, the answers at once, the index, and how much of each tier may be used.

The planner turns this, what the machine has and what it measured into a Placement (planner.py).
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Literal

from engine.core import KVType, ModelShape, Span

# Owners in the ledger whose bytes the plan decides; of the index it decides which partitions are in memory, and of the
# embedder where it is. A test lists every other owner and compares with the code, so that none is forgotten.
DECIDED_OWNERS = frozenset({"weights", "kv", "workspace"})
# Weights of models that wait for their turn: they leave as soon as anything else needs the room, so plans ignore them.
SPARE_OWNER = "spare weights"
# Marks a span of `Demand.fixed` that is not in memory yet, and can be omitted if there is no room for it.
BOUND_TO_COME = "bound to come"
_RESIDENT_PARTITION = "partition "


@dataclass(frozen=True, slots=True)
class Budgets:
    """The most bytes of each tier that we may hold; None is what the machine has, less what others need."""

    gpu_bytes: int | None = None
    ram_bytes: int | None = None
    disk_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class Wishes:
    """What the user chose; the planner stays within it. None leaves the choice to the planner."""

    n_gpu_layers: int | None = None
    kv_type: KVType | None = None
    n_ubatch: int | None = None
    kv_ram_bytes: int | None = None
    kv_disk_bytes: int | None = None
    index_bytes: int | None = None
    # False: what the ladder gave up for lack of memory on the device (ladder.py) stays off it.
    kv_on_gpu: bool | None = None
    embedder_on_gpu: bool | None = None
    # Another model may want the memory of its weights between two tokens (generation/pool.py).
    can_leave: bool = False
    # Lossy steps (8-bit keys and values, a smaller context) are taken only where the user allowed them.
    may_lose: bool = False


@dataclass(frozen=True, slots=True)
class Demand:
    """Everything that competes for memory.

    `shape` is the model as its header has it: with 16-bit cells. `fixed` are bytes that no decision changes: the
    process, an embedder that stays where it is, LanceDB's caches, parsers; each under its owner in the ledger
    (`undecided` takes them from there). `embedder_bytes` are those of an embedder that may be on a device, and then not
    in `fixed`; 0 where there is none. `index_bytes` is the size of all partitions of the index, `partition_bytes` that
    of the largest. `is_streamable`: the layers of the model's file can be read one by one.
    `is_packable`: as far as is known, they may be read in the processor's order, from a copy on disk.
    `can_copy_streamed`: as far as is known, a device may compute large batches of streamed layers. `can_quantise_kv`:
    keys and values of this model can be kept in 8 bits. `context_tokens` are the most that a prompt and its answer may
    have together; `least_cells` are what the requests under way need now and for a while.

    `held_…_bytes` is what we hold in a tier already and give back where the plan says so: it counts as free. For main
    memory it is the whole process, and the `fixed` bytes that are other processes.
    """

    shape: ModelShape
    context_tokens: int
    parallel_answers: int
    fixed: tuple[Span, ...] = ()
    index_bytes: int = 0
    partition_bytes: int = 0
    num_partitions: int = 0
    embedder_bytes: int = 0
    is_streamable: bool = True
    is_packable: bool = False
    can_copy_streamed: bool = True
    # Whether the heads of the model allow keys and values of 8 bits.
    can_quantise_kv: bool = True
    least_cells: int = 0
    budgets: Budgets = field(default_factory=Budgets)
    wishes: Wishes = field(default_factory=Wishes)
    device_reserve_bytes: int = 0
    mode: Literal["resident", "on_disk"] = "resident"
    held_gpu_bytes: int = 0
    held_disk_bytes: int = 0


@dataclass(frozen=True, slots=True)
class Backlog:
    """What waits and runs now, with the average tokens of a prompt and of an answer, as far as they are known.

    The share `refill` of questions that end while others are there is replaced by new ones. `lengths` are the tokens of
    each recent, waiting or running prompt with its answer, the shortest first; empty where nothing is known.
    `overlaps`: recently, questions came while others were there.
    """

    waiting: int = 0
    running: int = 0
    prompt_tokens: int = 1024
    answer_tokens: int = 256
    cached_share: float = 0.0
    refill: float = 0.0
    lengths: tuple[int, ...] = ()
    overlaps: bool = False

    @property
    def num_answers(self) -> int:
        """Answers that are wanted; with none, the next one."""
        return max(1, self.waiting + self.running)

    def odds_of_longer(self, num_cells: int) -> float:
        """Returns how many prompts with their answers need more than `num_cells` cells, for each that does not.

        One more than were seen, if any were: small samples are uncertain.
        """
        num_longer = len(self.lengths) - bisect_right(self.lengths, num_cells)
        return (num_longer + 1) / max(1 / 2, len(self.lengths) - num_longer) if num_longer else 0.0

    @property
    def cached_tokens(self) -> int:
        """The tokens of a prompt whose keys and values are kept."""
        return int(self.prompt_tokens * self.cached_share)


def losing_nothing(demand: Demand) -> Demand:
    """Returns the demand without lossy steps: only the ladder takes those, last and announced."""
    return replace(demand, wishes=replace(demand.wishes, may_lose=False))


def without_what_comes(demand: Demand) -> Demand:
    """Returns the demand without what is not there yet and can be omitted; the demand itself if nothing is."""
    there = tuple(span for span in demand.fixed if span.what != BOUND_TO_COME)
    return demand if there == demand.fixed else replace(demand, fixed=there)


def undecided(held: Iterable[Span]) -> tuple[Span, ...]:
    """Returns the held spans whose bytes no plan changes."""
    decided = DECIDED_OWNERS | {SPARE_OWNER}
    return tuple(span for span in held if span.owner not in decided and not _is_resident_partition(span))


def _is_resident_partition(span: Span) -> bool:
    return span.owner == "index" and span.tier == "ram" and span.what.startswith(_RESIDENT_PARTITION)
