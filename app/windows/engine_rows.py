"""The engine's settings as users see them: the name of each, what it changes, and its control."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from PySide6.QtCore import QCoreApplication

from app.widgets.setting_controls import (
    Choice,
    Control,
    Decimal,
    Gibibytes,
    Line,
    Number,
    Paragraph,
    Switch,
    Texts,
    Words,
)


@dataclass(frozen=True, slots=True)
class Row:
    """One setting by its dotted name; the control is made with the page, and is below the text if it `is_wide`."""

    setting: str
    name: str
    words: str
    make_control: Callable[[], Control]
    is_wide: bool = False


def answers() -> tuple[Row, ...]:
    return (
        Row(
            "generation.instructions", _tr("Instructions"),
            _tr("The system prompt: what you expect of every answer. Ragdoll adds its own instructions."),
            lambda: Paragraph(_tr("Answer in German, in three sentences at most.")), is_wide=True,
        ),
        Row(
            "generation.max_answer_tokens", _tr("Maximum answer length"),
            _tr("In tokens; a token is about three quarters of a word."), lambda: Number(16, 8192, 64),
        ),
        Row(
            "generation.thinks", _tr("Think first"),
            _tr("Lets models with optional thinking, such as Qwen3, think first. Answers take longer."), Switch,
        ),
        Row(
            "generation.max_thought_tokens", _tr("Maximum thinking length"),
            _tr("In tokens. Some models, such as R1, QwQ and gpt-oss, always think; at this limit they must answer."),
            lambda: Number(0, 32_768, 256),
        ),
        Row(
            "retrieval.passages", _tr("Passages per answer"),
            _tr("More passages cover more files but take longer to read."), lambda: Number(1, 64, 1),
        ),
        Row(
            "retrieval.reads_filters", _tr("Use filters in the question"),
            _tr("“In the PDFs changed in 2024” or a file name limits the search; the answer says so."), Switch,
        ),
        Row(
            "generation.max_context", _tr("Context length"),
            _tr("Tokens shared by earlier turns, passages, question and answer. Takes effect when a model is loaded."),
            lambda: Number(256, 131_072, 1024),
        ),
        Row(
            "generation.parallel_answers", _tr("Parallel answers"),
            _tr("Written at the same time if memory allows; others wait. Takes effect when a model is loaded."),
            lambda: Number(1, 64, 1),
        ),
    )  # fmt: skip


def sampling() -> tuple[Row, ...]:
    return (
        Row(
            "generation.temperature", _tr("Temperature"),
            _tr("0 always picks the most likely token; higher is more varied and less exact."),
            lambda: Decimal(0.0, 2.0, 0.1),
        ),
        Row(
            "generation.top_k", _tr("Top K"),
            _tr("Sample from the K most likely tokens; 0 uses all."),
            lambda: Number(0, 1000, 5),
        ),
        Row(
            "generation.top_p", _tr("Top P"),
            _tr("Sample from the most likely tokens that add up to this probability; 1 uses all."),
            lambda: Decimal(0.05, 1.0, 0.05),
        ),
        Row(
            "generation.min_p", _tr("Min P"),
            _tr("Drop tokens less likely than this fraction of the most likely one; 0 drops none."),
            lambda: Decimal(0.0, 1.0, 0.05),
        ),
        Row(
            "generation.typical_p", _tr("Typical P"),
            _tr("Below 1, drop tokens that are too surprising or too predictable; 1 drops none."),
            lambda: Decimal(0.05, 1.0, 0.05),
        ),
        Row(
            "generation.repeat_penalty", _tr("Repeat penalty"),
            _tr("Above 1, recent tokens become less likely; 1 is off."),
            lambda: Decimal(0.1, 3.0, 0.05),
        ),
        Row(
            "generation.presence_penalty", _tr("Presence penalty"),
            _tr("Makes every recent token less likely by the same amount; below 0 more likely."),
            lambda: Decimal(-2.0, 2.0, 0.1),
        ),
        Row(
            "generation.frequency_penalty", _tr("Frequency penalty"),
            _tr("Makes recent tokens less likely the more often they occurred; below 0 more likely."),
            lambda: Decimal(-2.0, 2.0, 0.1),
        ),
        Row(
            "generation.repeat_window", _tr("Penalty window"),
            _tr("How many recent tokens the penalties consider."),
            lambda: Number(0, 8192, 16),
        ),
        Row(
            "generation.dry_multiplier", _tr("Avoid repetition (DRY)"),
            _tr("Penalizes repeating an earlier sequence, more with each token of it; 0 is off, 0.8 is usual."),
            lambda: Decimal(0.0, 5.0, 0.1),
        ),
        Row(
            "generation.xtc_probability", _tr("Exclude top choices (XTC)"),
            _tr("How often only the least likely of the likely tokens is kept; 0 is never."),
            lambda: Decimal(0.0, 1.0, 0.1),
        ),
        Row(
            "generation.beam_width", _tr("Beams"),
            _tr("Above 1, the likeliest of so many beams is shown once complete, the next as variants; 1 samples."),
            lambda: Number(1, 16, 1),
        ),
        Row(
            "generation.stop", _tr("Stop strings"),
            _tr("An answer ends before any of these; separate them with commas, \\n is a new line."),
            lambda: Texts(_tr("nothing")),
        ),
    )  # fmt: skip


def reading() -> tuple[Row, ...]:
    return (
        Row(
            "generation.kv_ram_bytes", _tr("Prompt cache in memory"),
            _tr("Keeps what the model computed for passages and chats, so that it need not read them again."),
            lambda: Gibibytes(1024.0, 0.25, nothing=_tr("automatic"), can_be_zero=True),
        ),
        Row(
            "generation.kv_disk_bytes", _tr("Prompt cache on disk"),
            _tr("Survives closing Ragdoll. If full, what saves the least time is dropped first; 0 keeps nothing."),
            lambda: Gibibytes(1024.0, 1.0, nothing=_tr("automatic"), can_be_zero=True),
        ),
        Row(
            "generation.read_ahead", _tr("Read while searching"),
            _tr("First results are read before the search ends. Automatic: on a GPU, or if a search takes long."),
            lambda: Choice(
                ((None, _tr("Automatic")), (True, _tr("Always")), (False, _tr("Never"))), _tr("When to read ahead")
            ),
        ),
        Row(
            "generation.refresh", _tr("Search again while writing"),
            _tr("A long answer goes on with passages that fit what it says so far. Automatic: if that is quick."),
            lambda: Choice(
                (("off", _tr("Never")), ("auto", _tr("Automatic")), ("always", _tr("Always"))),
                _tr("When to search again"),
            ),
        ),
    )  # fmt: skip


def library() -> tuple[Row, ...]:
    return (
        Row(
            "library.watch", _tr("Watch folders for changes"),
            _tr("Otherwise, changes in linked folders are noticed at the next check of all folders."), Switch,
        ),
        Row(
            "library.rescan_minutes", _tr("Check all folders every"),
            _tr("Finds what was missed: network folders, disconnected drives, changes while Ragdoll was closed."),
            lambda: Decimal(0.0, 1440.0, 5.0, num_digits=0, nothing=_tr("never"), suffix=_tr(" min")),
        ),
        Row(
            "library.ocr_languages", _tr("Languages of scanned pages"),
            _tr("Tesseract's names for them, for example eng, deu, chi_sim. Each must be installed with Tesseract."),
            lambda: Words(_tr("system default")),
        ),
        Row(
            "library.max_file_bytes", _tr("Largest file"),
            _tr("Larger files are skipped, and so are those that take minutes or gigabytes of memory to read."),
            lambda: Gibibytes(64.0, 0.25, lowest_gib=0.01),
        ),
        Row(
            "library.max_chunks_per_document", _tr("Most passages of a file"),
            _tr("Files with more are skipped; 50,000 are about 20,000 pages. Index them again after a change."),
            lambda: Number(1000, 10_000_000, 10_000),
        ),
    )  # fmt: skip


def search() -> tuple[Row, ...]:
    return (
        Row(
            "retrieval.index_mode", _tr("Index"),
            _tr("In memory is fastest and finds everything. On disk leaves memory to the model but may miss passages."),
            lambda: Choice((("resident", _tr("In memory")), ("on_disk", _tr("On disk"))), _tr("Where the index is")),
        ),
        Row(
            "memory.index_budget_bytes", _tr("Memory for the index"),
            _tr("What does not fit is read from disk during a search, which takes longer but finds the same."),
            lambda: Gibibytes(1024.0, 0.25, nothing=_tr("automatic")),
        ),
    )  # fmt: skip


def models() -> tuple[Row, ...]:
    return (
        Row(
            "models.hub", _tr("Download models from"),
            _tr("The address of the Hugging Face hub or a mirror. It is contacted only when you search or download."),
            lambda: Line("https://huggingface.co"), is_wide=True,
        ),
    )  # fmt: skip


def server() -> tuple[Row, ...]:
    return (
        Row(
            "server.enabled", _tr("Local API server"),
            _tr("For editors, note-taking apps and scripts on this computer; compatible with the OpenAI API."),
            Switch,
        ),
        Row("server.port", _tr("Port"), "", lambda: Number(1024, 65_535, 1, is_a_name=True)),
        Row(
            "server.needs_key", _tr("Require the API key"),
            _tr("Without it, every program on this computer can ask about your files, even those of other users."),
            Switch,
        ),
    )  # fmt: skip


def _tr(text: str) -> str:
    return QCoreApplication.translate("settings", text)
