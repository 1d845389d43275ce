"""The engine's counters in words: the label of each, and its value with the unit that its name ends in."""

from __future__ import annotations

from collections.abc import Callable

from PySide6.QtCore import QT_TRANSLATE_NOOP, QCoreApplication

from app.widgets.figures import bytes_text, count_text, seconds_text

# Words for counters whose name alone is not clear.
_COUNTERS = {
    "tokens": QT_TRANSLATE_NOOP("memory", "Tokens written"),
    "predicted_tokens": QT_TRANSLATE_NOOP("memory", "Tokens written, planned"),
    "predicted_ttft": QT_TRANSLATE_NOOP("memory", "First token after, planned"),
    "disk_read": QT_TRANSLATE_NOOP("memory", "Read from disk"),
    "disk_written": QT_TRANSLATE_NOOP("memory", "Written to disk"),
    "streamed": QT_TRANSLATE_NOOP("memory", "Layers streamed"),
    "gpu_layers": QT_TRANSLATE_NOOP("memory", "Layers on the GPU"),
    "streamed_layers": QT_TRANSLATE_NOOP("memory", "Streamed layers"),
    "ring_slots": QT_TRANSLATE_NOOP("memory", "Slots of their ring buffer"),
    "answer_slots": QT_TRANSLATE_NOOP("memory", "Slots for parallel answers"),
    "answers_running": QT_TRANSLATE_NOOP("memory", "Answers being written"),
    "answers_in_time": QT_TRANSLATE_NOOP("memory", "Answers that came in time"),
    "questions_waiting": QT_TRANSLATE_NOOP("memory", "Questions in progress"),
    "models_open": QT_TRANSLATE_NOOP("memory", "Loaded models"),
    "model_switches": QT_TRANSLATE_NOOP("memory", "Model switches"),
    "model_switch": QT_TRANSLATE_NOOP("memory", "… each took"),
    "preemptions": QT_TRANSLATE_NOOP("memory", "Answers paused for others"),
    "drafts_accepted": QT_TRANSLATE_NOOP("memory", "Draft tokens accepted"),
    "kv_cells_used": QT_TRANSLATE_NOOP("memory", "KV cells in use"),
    "kv_cells_free": QT_TRANSLATE_NOOP("memory", "KV cells free"),
    "kv_found_in_cells": QT_TRANSLATE_NOOP("memory", "Prompt tokens found in KV cells"),
    "kv_found_in_memory": QT_TRANSLATE_NOOP("memory", "… in the memory cache"),
    "kv_found_on_disk": QT_TRANSLATE_NOOP("memory", "… in the disk cache"),
    "kv_kept_in_cells": QT_TRANSLATE_NOOP("memory", "Prompt cache in KV cells"),
    "kv_kept_in_memory": QT_TRANSLATE_NOOP("memory", "… in memory"),
    "kv_gaps_in_memory": QT_TRANSLATE_NOOP("memory", "… of which gaps, in memory"),
    "kv_kept_on_disk": QT_TRANSLATE_NOOP("memory", "… on disk"),
    "partitions": QT_TRANSLATE_NOOP("memory", "Index parts"),
    "partitions_resident": QT_TRANSLATE_NOOP("memory", "Index parts in memory"),
    "partitions_resident_ratio": QT_TRANSLATE_NOOP("memory", "Index parts in memory, of all"),
    "partition_loads": QT_TRANSLATE_NOOP("memory", "Index parts read from disk"),
    "sweep_fixed": QT_TRANSLATE_NOOP("memory", "Time of a search"),
    "sweep_query": QT_TRANSLATE_NOOP("memory", "… plus for each question"),
    "sweep_load": QT_TRANSLATE_NOOP("memory", "… plus for each part from disk"),
}
# Hints for words that are not clear by themselves.
_HINTS = {
    "answers_in_time": QT_TRANSLATE_NOOP(
        "memory",
        "Share of all answers since the engine started that met generation.ttft_target_seconds and "
        "generation.tpot_target_seconds",
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
    """Returns a counter's label and value; the unit is read from the end of its name (`disk_bytes_per_s`)."""
    for ending, figure in _UNITS:
        if name.endswith(ending):
            return _words(name, name.removesuffix(ending)), figure(value)
    return _words(name, name), count_text(value)


def counter_hint(name: str) -> str:
    """Returns the hint of a counter; "" for most."""
    hint = next((_HINTS[known] for known in (name, _without_unit(name)) if known in _HINTS), "")
    return QCoreApplication.translate("memory", str(hint)) if hint else ""


def _without_unit(name: str) -> str:
    return name.removesuffix(next((ending for ending, _ in _UNITS if name.endswith(ending)), ""))


def _words(whole: str, name: str) -> str:
    """Returns the words for a counter, by its full name or without its unit."""
    for known in (whole, name):
        if known in _COUNTERS:
            return QCoreApplication.translate("memory", str(_COUNTERS[known]))
    words = name.replace("_", " ")
    return words[:1].upper() + words[1:] if not words.startswith("kv ") else f"KV {words[3:]}"
