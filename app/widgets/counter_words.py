"""The engine's counters in words: what each is called, and its figure with the unit that its name ends in."""

from __future__ import annotations

from collections.abc import Callable

from PySide6.QtCore import QT_TRANSLATE_NOOP, QCoreApplication

from app.widgets.figures import bytes_text, count_text, seconds_text

# What a name alone would not say.
_COUNTERS = {
    "tokens": QT_TRANSLATE_NOOP("memory", "Tokens written"),
    "predicted_tokens": QT_TRANSLATE_NOOP("memory", "Tokens written, as planned"),
    "predicted_ttft": QT_TRANSLATE_NOOP("memory", "First token after, as planned"),
    "disk_read": QT_TRANSLATE_NOOP("memory", "Read from disk"),
    "disk_written": QT_TRANSLATE_NOOP("memory", "Written to disk"),
    "streamed": QT_TRANSLATE_NOOP("memory", "Layers streamed"),
    "gpu_layers": QT_TRANSLATE_NOOP("memory", "Layers on the GPU"),
    "streamed_layers": QT_TRANSLATE_NOOP("memory", "Layers that are streamed"),
    "ring_slots": QT_TRANSLATE_NOOP("memory", "Slots of the ring they pass"),
    "answer_slots": QT_TRANSLATE_NOOP("memory", "Room for answers at once"),
    "answers_running": QT_TRANSLATE_NOOP("memory", "Answers being written"),
    "answers_in_time": QT_TRANSLATE_NOOP("memory", "Answers that came in time"),
    "questions_waiting": QT_TRANSLATE_NOOP("memory", "Questions under way"),
    "models_open": QT_TRANSLATE_NOOP("memory", "Models that are open"),
    "model_switches": QT_TRANSLATE_NOOP("memory", "Turns that models took for memory"),
    "model_switch": QT_TRANSLATE_NOOP("memory", "… each took"),
    "preemptions": QT_TRANSLATE_NOOP("memory", "Answers set aside for others"),
    "drafts_accepted": QT_TRANSLATE_NOOP("memory", "Guessed tokens that were right"),
    "kv_cells_used": QT_TRANSLATE_NOOP("memory", "KV cells in use"),
    "kv_cells_free": QT_TRANSLATE_NOOP("memory", "KV cells free"),
    "kv_found_in_cells": QT_TRANSLATE_NOOP("memory", "Of all prompts, still in cells"),
    "kv_found_in_memory": QT_TRANSLATE_NOOP("memory", "… kept in memory"),
    "kv_found_on_disk": QT_TRANSLATE_NOOP("memory", "… kept on disk"),
    "kv_kept_in_cells": QT_TRANSLATE_NOOP("memory", "Read before, kept in cells"),
    "kv_kept_in_memory": QT_TRANSLATE_NOOP("memory", "… in memory"),
    "kv_gaps_in_memory": QT_TRANSLATE_NOOP("memory", "… gaps between, in memory"),
    "kv_kept_on_disk": QT_TRANSLATE_NOOP("memory", "… on disk"),
    "partitions": QT_TRANSLATE_NOOP("memory", "Index parts"),
    "partitions_resident": QT_TRANSLATE_NOOP("memory", "Index parts in memory"),
    "partitions_resident_ratio": QT_TRANSLATE_NOOP("memory", "Index parts in memory, of all"),
    "partition_loads": QT_TRANSLATE_NOOP("memory", "Index parts read from disk"),
    "sweep_fixed": QT_TRANSLATE_NOOP("memory", "A search takes"),
    "sweep_query": QT_TRANSLATE_NOOP("memory", "… and for each question"),
    "sweep_load": QT_TRANSLATE_NOOP("memory", "… and for each part from disk"),
}
# What the words alone leave open.
_HINTS = {
    "answers_in_time": QT_TRANSLATE_NOOP(
        "memory",
        "Of all answers that models have written since the engine was started: how many began and went on as soon as "
        "generation.ttft_target_seconds and generation.tpot_target_seconds promise",
    ),
}
_UNITS: tuple[tuple[str, Callable[[float], str]], ...] = (
    ("_bytes_per_s", lambda rate: f"{bytes_text(rate)}/s"),
    ("_per_s", lambda rate: f"{rate:.1f}/s"),
    ("_bytes", bytes_text),
    ("_seconds", seconds_text),
    ("_ms", lambda milliseconds: seconds_text(milliseconds / 1000)),
    ("_s", seconds_text),
    ("_ratio", lambda ratio: f"{ratio:.0%}"),
)


def counter_text(name: str, value: float) -> tuple[str, str]:
    """A counter's name and figure in words, its unit read from the end of its name (`disk_bytes_per_s`)."""
    for ending, figure in _UNITS:
        if name.endswith(ending):
            return _words(name, name.removesuffix(ending)), figure(value)
    return _words(name, name), count_text(value)


def counter_hint(name: str) -> str:
    """What there is to say of a counter beyond its words; "" for most."""
    hint = next((_HINTS[known] for known in (name, _without_unit(name)) if known in _HINTS), "")
    return QCoreApplication.translate("memory", str(hint)) if hint else ""


def _without_unit(name: str) -> str:
    return name.removesuffix(next((ending for ending, _ in _UNITS if name.endswith(ending)), ""))


def _words(whole: str, name: str) -> str:
    """The words for a counter: as it is, or without its unit."""
    for known in (whole, name):
        if known in _COUNTERS:
            return QCoreApplication.translate("memory", str(_COUNTERS[known]))
    words = name.replace("_", " ")
    return words[:1].upper() + words[1:] if not words.startswith("kv ") else f"KV {words[3:]}"
