"""Applies another placement to the loaded model, between two steps, so that every answer goes on.

If there is room for two contexts, the new one is created first, and a failure changes nothing. Otherwise all KV is
saved and the old context closed first. If the new one cannot be created then, the previous placement and smaller ones
are tried in turn.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path

from engine.config import MIB
from engine.core import Tier
from engine.errors import ModelError, ModelLoadFailed, NoRoomToLoad, NotStreamable
from engine.generation.building import OpenContext, cells_of, keeper_over, least_left_bytes, open_context, root_over
from engine.generation.cells import Cells
from engine.generation.changing import Change, change_of
from engine.generation.context import Context
from engine.generation.fingerprint import model_fingerprint
from engine.generation.knowledge import KnowledgeKeeper
from engine.generation.load_plan import LoadPlan, Planning
from engine.generation.load_trials import LoadTrials
from engine.generation.loaded import LoadedModel
from engine.generation.model import Model
from engine.generation.model_leases import ModelLeases, kept_bytes
from engine.generation.needs import most_running
from engine.generation.opening import Opening
from engine.generation.speaker import Speaker
from engine.generation.swap_room import room_in
from engine.generation.weights.packing import Packing
from engine.generation.weights.stream import LayerStream
from engine.memory.demand import Budgets
from engine.memory.hardware import Hardware
from engine.memory.ledger import Ledger
from engine.memory.placement import Placement
from engine.memory.room import device_free_bytes

# Two contexts at once leave at least this much free.
SPARE_BYTES = 64 * MIB
# KV in another format is written to disk for at most this long, because all answers pause meanwhile.
KEEPING_SECONDS = 0.5
# The same for KV that the next context needs at once.
LEAVING_SECONDS = 2.0


@dataclass(frozen=True, slots=True)
class Applied:
    """The outcome: the model as it is now, whether that is what was wanted, and how long all answers paused.

    `sentence` is "" if nothing differed.
    """

    loaded: LoadedModel
    change: Change
    sentence: str
    pause_s: float = 0.0
    is_as_wanted: bool = True


@dataclass(frozen=True, slots=True)
class Means:
    """What applying a placement needs: ledger and leases, free memory, how to plan with less, and trial marks.

    `goes_on` returns False once a load under way should be abandoned. `disk_folder` takes KV of moving answers for
    which memory has no room. `budgets` are the user's; two contexts at once stay within them as well. `make_room` waits
    until whatever competes with a model has shrunk to the model's placement.
    """

    ledger: Ledger
    leases: ModelLeases
    hardware: Callable[[], Hardware]
    planning: Planning
    trials: LoadTrials
    goes_on: Callable[[float], bool]
    disk_folder: Path | None = None
    budgets: Callable[[], Budgets] = Budgets
    make_room: Callable[[Placement], None] = lambda placement: None


def apply(loaded: LoadedModel, wanted: Placement, means: Means) -> Applied:
    """Places the loaded model as `wanted`; on the generation thread, between two steps.

    Raises:
        ModelError: The model could not be opened in any way, not even as before; it is closed, and the answers that
            were being written cannot go on.
    """
    since = time.perf_counter()
    if loaded.stream is not None and not loaded.plan.placement.reloads_for(wanted):
        # It stays in our own memory: layers may be streamed again without a load.
        wanted = replace(wanted, can_leave=True)
    plan = loaded.plan.placed(wanted)
    change = change_of(loaded.plan.placement, wanted, loaded.plan.shape)
    if change.moves_answers and (refusal := _refusal_of_the_file(loaded)):
        return Applied(loaded, change, refusal, is_as_wanted=False)
    if refusal := _refusal(loaded, plan):
        return Applied(loaded, change, refusal, is_as_wanted=False)
    if not change.moves_answers:
        return _in_place(loaded, plan, change)
    with means.trials.of(plan.path):
        moved, problem = _elsewhere(loaded, plan, change, means)
    pause_s = time.perf_counter() - since
    sentence = _sentence(change, problem, moved, loaded, pause_s)
    return Applied(moved, change, sentence, pause_s, is_as_wanted=moved.plan.placement == wanted)


def take_less(loaded: LoadedModel, means: Means) -> Applied | None:
    """Moves the loaded model one rung down, or as many as it takes, because a pass found no room to compute.

    Returns:
        None if less would not help the answers that are being written, or there is no less; nothing has changed.

    Raises:
        ModelError: As in `apply`.
    """
    since = time.perf_counter()
    rungs = loaded.plan.rungs(means.hardware, means.planning)
    ways = (plan for plan in rungs if not _refusal(loaded, plan))
    first = next(ways, None)
    if first is None or _refusal_of_the_file(loaded):
        return None
    with means.trials.of(first.path):
        moved, _ = _instead(loaded, chain([first], ways), means)
    change = change_of(loaded.plan.placement, moved.plan.placement, loaded.plan.shape)
    pause_s = time.perf_counter() - since
    return Applied(moved, change, _sentence(change, None, moved, loaded, pause_s), pause_s)


def fold(loaded: LoadedModel, means: Means, *, keeps_weights: bool) -> None:
    """Makes room for another model: moves all requests out of the cells and closes the context; no request ends.

    Args:
        loaded: Nothing is computed with it until `unfold`.
        means: What this needs.
        keeps_weights: Whether the model stays open; otherwise its weights have to be read again.
    """
    _set_aside(loaded, loaded.plan, means)
    _close_context(loaded)
    if not keeps_weights:
        loaded.close_weights()
        means.leases.release_weights()


def unfold(loaded: LoadedModel, plan: LoadPlan, means: Means) -> Applied:
    """Opens a folded model as planned, or with less if there is no room for that; all requests go on.

    Raises:
        ModelError: It could not be opened in any way; it is closed.
    """
    since = time.perf_counter()
    if why := _why_another_file(loaded):
        loaded.close_weights()
        raise ModelLoadFailed(f"The model was closed: {why}", "Ask again.")
    change = change_of(loaded.plan.placement, plan.placement, loaded.plan.shape)
    with means.trials.of(plan.path):
        moved, problem = _opened(loaded, chain([plan], plan.rungs(means.hardware, means.planning)), means)
    pause_s = time.perf_counter() - since
    sentence = _sentence(change, problem, moved, loaded, pause_s)
    return Applied(moved, change, sentence, pause_s, is_as_wanted=moved.plan.placement == plan.placement)


def _in_place(loaded: LoadedModel, plan: LoadPlan, change: Change) -> Applied:
    """Changes what needs no pause: layers move between the next passes, and KV over a bound leaves once written."""
    try:
        _retarget(loaded.stream, plan.placement)
    except ModelError as error:
        return Applied(loaded, change, f"The layers stay where they are: {error.sentence}", is_as_wanted=False)
    if change.rebounds:
        loaded.apply(plan.room.ram_bytes)
    loaded.loop.bound(plan.room.context_tokens)
    return Applied(replace(loaded, plan=plan, speaker=_speaker(loaded, plan)), change, change.sentence)


def _speaker(loaded: LoadedModel, plan: LoadPlan) -> Speaker:
    """Returns a speaker for the planned context; the present one, with its cached prompts, if the size is the same."""
    tokens = plan.room.context_tokens
    return loaded.speaker if tokens == loaded.speaker.context_tokens else replace(loaded.speaker, context_tokens=tokens)


def _retarget(stream: LayerStream | None, placement: Placement) -> None:
    """Sets where layers should be; they move there while passes go on. Does nothing if nothing differs."""
    if stream is not None:
        stream.retarget(placement.streamed_layers, max(1, placement.ring_slots), placement.pinned_part)


def _refusal_of_the_file(loaded: LoadedModel) -> str:
    """Returns why KV could not be used with the model's file as it is now; "" if the file is the same."""
    why = _why_another_file(loaded)
    return f"The model stays as it is: {why}" if why else ""


def _why_another_file(loaded: LoadedModel) -> str:
    try:
        is_same = model_fingerprint(loaded.plan.path) == loaded.speaker.fingerprint
    except ModelError as error:
        return error.sentence
    return "" if is_same else "its file is another by now than the one that was loaded."


def _refusal(loaded: LoadedModel, plan: LoadPlan) -> str:
    """Returns why a request could not be answered to its end after the change; "" if all can."""
    needs, spec = loaded.loop.needs, plan.spec
    most_cells = max(spec.num_cells, plan.room.context_tokens)
    if needs.cells_now > spec.num_cells or needs.num_cells > most_cells:
        least = needs.cells_now if needs.num_cells <= most_cells else needs.num_cells
        return (
            f"The context cannot shrink to {spec.num_cells:,} cells yet: an answer that is being written needs "
            f"{least:,}."
        )
    if needs.num_sequences > most_running(spec.num_sequences, min(spec.n_ubatch, spec.n_batch)):
        return f"The context stays as it is until a question that asks for {needs.num_sequences} answers has ended."
    return ""


def _elsewhere(
    loaded: LoadedModel, plan: LoadPlan, change: Change, means: Means
) -> tuple[LoadedModel, ModelError | None]:
    if change.reloads or not _both_fit(loaded, plan, means.hardware(), means.ledger, means.budgets()):
        return _instead(loaded, _ways(loaded.plan, plan, means), means)
    try:
        _retarget(loaded.stream, plan.placement)
        opened = open_context(loaded.model, plan, loaded.stream, means.leases, has_computed=True)
    except ModelError as error:
        # Only the target of the layers has changed so far; layers that cannot go back may stay where they are.
        with suppress(NotStreamable):
            _retarget(loaded.stream, loaded.plan.placement)
        return loaded, error
    with _closed_on_failure(opened):
        _set_aside(loaded, plan, means)
        _close_context(loaded)
        return _moved(loaded, plan, opened, means), None


@contextmanager
def _closed_on_failure(opened: OpenContext) -> Iterator[None]:
    """Closes a context on failure, before its model is closed, since no other part knows of it yet."""
    try:
        yield
    except BaseException:
        opened.close()
        raise


def _instead(loaded: LoadedModel, ways: Iterator[LoadPlan], means: Means) -> tuple[LoadedModel, ModelError | None]:
    """Closes the context and opens the first of `ways` that works; also returns why the wanted one did not."""
    wanted = next(ways)
    _set_aside(loaded, wanted, means)
    _close_context(loaded)
    return _opened(loaded, chain([wanted], ways), means)


def _opened(loaded: LoadedModel, ways: Iterator[LoadPlan], means: Means) -> tuple[LoadedModel, ModelError | None]:
    """Opens the first of `ways` that works, for all requests set aside; also returns why the wanted one did not."""
    problem: ModelError | None = None
    has_computed = True
    try:
        for plan in ways:
            try:
                has_computed = has_computed and _weights_stay(loaded, plan.placement)
                # A model that turns out not to be streamable is placed differently than was wanted.
                loaded = _with_weights(loaded, plan, means)
                opened = open_context(loaded.model, loaded.plan, loaded.stream, means.leases, has_computed=has_computed)
            except ModelError as error:
                problem = problem or error
                continue
            with _closed_on_failure(opened):
                return _moved(loaded, loaded.plan, opened, means), problem
        assert problem is not None
        raise problem
    except BaseException:
        # The caller knows the previous weights, not threads that read into the present ones.
        loaded.close_weights()
        raise


def _ways(then: LoadPlan, wanted: LoadPlan, means: Means) -> Iterator[LoadPlan]:
    """Yields the wanted plan, the previous one, and from there one rung lower at a time."""
    yield wanted
    yield then
    yield from then.rungs(means.hardware, means.planning)


def _weights_stay(loaded: LoadedModel, placement: Placement) -> bool:
    """Returns whether the loaded weights can be placed like this without being read again."""
    return loaded.model.is_open and not loaded.plan.placement.reloads_for(placement)


def _with_weights(loaded: LoadedModel, plan: LoadPlan, means: Means) -> LoadedModel:
    """Returns the model with its weights as planned; they are read again if they must move or are not loaded.

    Most of them come from the system's file cache.
    """
    model, placement = loaded.model, plan.placement
    if _weights_stay(loaded, placement):
        _retarget(loaded.stream, placement)
        return replace(loaded, plan=plan)
    loaded.close_weights()

    def load(is_repacked: bool, packing: Packing | None) -> Model:
        model.load(placement.n_gpu_layers, means.goes_on, is_repacked, packing)
        return model

    files = loaded.files
    weights = Opening(load, files.folder, means.ledger, means.leases, clear_disk=files.shrink).open(plan)
    return replace(loaded, plan=weights.plan, stream=weights.stream, copied=weights.copied)


def _set_aside(loaded: LoadedModel, wanted: LoadPlan, means: Means) -> None:
    """Moves all KV out of the cells: kept KV to memory, that of unfinished answers to memory or disk."""
    room = room_in(means.hardware(), means.disk_folder)
    can_load = loaded.plan.placement.kv_type == wanted.placement.kv_type
    disk_folder = room.disk_folder if can_load else None
    # The last tokens of answers that have ended are not computed; all before them is kept.
    loaded.loop.close_answers()
    loaded.keeper.leave_cells(LEAVING_SECONDS if can_load else KEEPING_SECONDS)
    loaded.loop.set_aside(room.ram_bytes, disk_folder)
    means.leases.note_set_aside(loaded.loop.saved_bytes, loaded.loop.spilled_bytes)


def _close_context(loaded: LoadedModel) -> None:
    OpenContext(loaded.context, loaded.context_leases).close()


def _moved(loaded: LoadedModel, plan: LoadPlan, opened: OpenContext, means: Means) -> LoadedModel:
    """Moves all requests to a context that is still empty."""
    context, cells = opened.context, cells_of(opened.context)
    keeper, can_load = _keeper(loaded, plan, context, cells, means)
    loaded.loop.move(context, cells, keeper, can_load, plan.room.context_tokens)
    if keeper is not loaded.keeper:
        loaded.keeper.close(KEEPING_SECONDS)
    means.leases.note_set_aside(loaded.loop.saved_bytes, loaded.loop.spilled_bytes)
    speaker = _speaker(loaded, plan)
    moved = replace(loaded, plan=plan, context=context, context_leases=opened.leases, keeper=keeper, speaker=speaker)
    moved.apply(plan.room.ram_bytes)
    return moved


def _keeper(
    loaded: LoadedModel, plan: LoadPlan, context: Context, cells: Cells, means: Means
) -> tuple[KnowledgeKeeper, bool]:
    """Returns the keeper from now on, and whether earlier KV can be loaded into the new context."""
    keeper = loaded.keeper
    if keeper.tree.root.key == root_over(plan, context, loaded.files, keeper.tree.root.key):
        keeper.move(context, cells)
        return keeper, True
    return keeper_over(plan, context, cells, means.ledger, loaded.files), False


def _both_fit(loaded: LoadedModel, plan: LoadPlan, hardware: Hardware, ledger: Ledger, budgets: Budgets) -> bool:
    """Returns whether there is room for the new context alongside the present one, within the budgets too."""
    free: dict[Tier, int] = {
        "ram": _within(hardware.ram_free_bytes, budgets.ram_bytes, ledger.counted_bytes("ram")),
        "gpu": _within(
            device_free_bytes(hardware, ledger.held_bytes("gpu")), budgets.gpu_bytes, ledger.counted_bytes("gpu")
        ),
    }
    buffers = sum(loaded.context.compute_bytes.values()) * max(1, plan.spec.n_ubatch) // loaded.context.n_ubatch
    needed = {tier: kept_bytes(plan.shape, plan.placement, tier, plan.spec.num_cells) for tier in free}
    needed["gpu" if plan.placement.n_gpu_layers else "ram"] += buffers
    # With less left than this, the new context would be closed again.
    spare = {"ram": SPARE_BYTES, "gpu": max(SPARE_BYTES, least_left_bytes(plan))}
    return all(num_bytes + spare[tier] <= free[tier] for tier, num_bytes in needed.items() if num_bytes)


def _within(free_bytes: int, budget_bytes: int | None, held_bytes: int) -> int:
    return free_bytes if budget_bytes is None else min(free_bytes, budget_bytes - held_bytes)


def _sentence(
    change: Change, problem: ModelError | None, moved: LoadedModel, before: LoadedModel, pause_s: float
) -> str:
    pause = f"Answers paused for {pause_s:.1f} s."
    if problem is None:
        # If the model could not be streamed, a remark says so.
        remarks = moved.plan.remarks[len(before.plan.remarks) :]
        return " ".join((*([remark.sentence for remark in remarks] or (change.sentence,)), pause))
    wanted, stays = ", ".join(change.words), moved.plan.placement == before.plan.placement
    if isinstance(problem, NoRoomToLoad):
        why = f"There was no room for {wanted}, {'so all stays as it is' if stays else 'nor for what there was'}."
    else:
        # Not every problem is a lack of room: a disk may be unreadable, for instance.
        why = (
            f"{problem.sentence} What was wanted ({wanted}) could not be had, "
            f"{'so all stays as it is' if stays else 'nor what there was'}."
        )
    return " ".join(filter(None, (why, "" if stays else moved.plan.sentence, pause)))
