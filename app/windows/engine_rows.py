"""The engine's settings as they are told to people: what each is called, what it changes, and the control for it."""

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
    """One setting by its dotted name; the control is made when the page is, and stands below where it `is_wide`."""

    setting: str
    name: str
    words: str
    make_control: Callable[[], Control]
    is_wide: bool = False


def answers() -> tuple[Row, ...]:
    return (
        Row(
            "generation.instructions", _tr("Instructions"),
            _tr("What you want of every answer. Models are told it beside what Ragdoll tells them anyway."),
            lambda: Paragraph(_tr("Answer in German, in three sentences at most.")), is_wide=True,
        ),
        Row(
            "generation.max_answer_tokens", _tr("Longest answer"),
            _tr("Tokens; about three quarters of a word each."), lambda: Number(16, 8192, 64),
        ),
        Row(
            "generation.thinks", _tr("Think first"),
            _tr("Has models think before they answer that can be told to, as Qwen3. Answers come later."), Switch,
        ),
        Row(
            "generation.max_thought_tokens", _tr("Longest thoughts"),
            _tr("Tokens. Some models, as R1, QwQ and gpt-oss, always think first; then they have to answer."),
            lambda: Number(0, 32_768, 256),
        ),
        Row(
            "retrieval.passages", _tr("Passages an answer reads"),
            _tr("More passages cover more files and take longer to read."), lambda: Number(1, 64, 1),
        ),
        Row(
            "retrieval.reads_filters", _tr("Look where the question says"),
            _tr("“In the PDFs changed in 2024” or the name of a file confines the search; the answer says so."), Switch,
        ),
        Row(
            "generation.max_context", _tr("Context"),
            _tr("Tokens that earlier turns, passages, question and answer share; takes effect when a model is loaded."),
            lambda: Number(256, 131_072, 1024),
        ),
        Row(
            "generation.parallel_answers", _tr("Answers at once"),
            _tr("For so many there is room, where memory allows; others wait. Takes effect when a model is loaded."),
            lambda: Number(1, 64, 1),
        ),
    )  # fmt: skip


def sampling() -> tuple[Row, ...]:
    return (
        Row(
            "generation.temperature", _tr("Temperature"),
            _tr("0 always chooses the likeliest word; higher is livelier and less exact."),
            lambda: Decimal(0.0, 2.0, 0.1),
        ),
        Row(
            "generation.top_k", _tr("Top K"),
            _tr("So many of the likeliest words are chosen from; 0 is all."),
            lambda: Number(0, 1000, 5),
        ),
        Row(
            "generation.top_p", _tr("Top P"),
            _tr("Chosen from are the likeliest words that have this share together; 1 is all."),
            lambda: Decimal(0.05, 1.0, 0.05),
        ),
        Row(
            "generation.min_p", _tr("Min P"),
            _tr("Leaves out words that are less likely than this part of the likeliest; 0 leaves out none."),
            lambda: Decimal(0.0, 1.0, 0.05),
        ),
        Row(
            "generation.typical_p", _tr("Typical P"),
            _tr("Below 1 leaves out words that are too surprising, or too expected; 1 leaves out none."),
            lambda: Decimal(0.05, 1.0, 0.05),
        ),
        Row(
            "generation.repeat_penalty", _tr("Repeat penalty"),
            _tr("Above 1 words said lately become less likely; 1 leaves them as they are."),
            lambda: Decimal(0.1, 3.0, 0.05),
        ),
        Row(
            "generation.presence_penalty", _tr("Presence penalty"),
            _tr("Makes every word said lately less likely by the same amount; below 0 more likely."),
            lambda: Decimal(-2.0, 2.0, 0.1),
        ),
        Row(
            "generation.frequency_penalty", _tr("Frequency penalty"),
            _tr("Makes words less likely the more often they were said lately; below 0 more likely."),
            lambda: Decimal(-2.0, 2.0, 0.1),
        ),
        Row(
            "generation.repeat_window", _tr("Lately"),
            _tr("Tokens back to which the penalties look."),
            lambda: Number(0, 8192, 16),
        ),
        Row(
            "generation.dry_multiplier", _tr("Against repeating itself (DRY)"),
            _tr("Makes going on with what was said before costlier with each word of it; 0 is never, 0.8 is usual."),
            lambda: Decimal(0.0, 5.0, 0.1),
        ),
        Row(
            "generation.xtc_probability", _tr("Leave out the obvious (XTC)"),
            _tr("As often as this, only the least likely of the likely words is chosen; 0 is never."),
            lambda: Decimal(0.0, 1.0, 0.1),
        ),
        Row(
            "generation.stop", _tr("Stop before"),
            _tr("An answer ends where it would write one of these; commas between them, \\n is a new line."),
            lambda: Texts(_tr("nothing")),
        ),
    )  # fmt: skip


def reading() -> tuple[Row, ...]:
    return (
        Row(
            "generation.kv_ram_bytes", _tr("Memory for what was read"),
            _tr("What the model made of passages and chats is kept, so that they need not be read again."),
            lambda: Gibibytes(1024.0, 0.25, nothing=_tr("automatic"), can_be_zero=True),
        ),
        Row(
            "generation.kv_disk_bytes", _tr("Disk for what was read"),
            _tr("Outlives closing Ragdoll. When it is full, what saves the least time leaves first; 0 keeps nothing."),
            lambda: Gibibytes(1024.0, 1.0, nothing=_tr("automatic"), can_be_zero=True),
        ),
        Row(
            "generation.read_ahead", _tr("Read while searching"),
            _tr("What is found first is read before the search ends. Automatic: on a card, or if a search takes long."),
            lambda: Choice(
                ((None, _tr("Automatic")), (True, _tr("Always")), (False, _tr("Never"))), _tr("When to read ahead")
            ),
        ),
        Row(
            "generation.refresh", _tr("Search again while writing"),
            _tr("A long answer goes on from passages that fit what it says by then; automatic: if that takes little."),
            lambda: Choice(
                (("off", _tr("Never")), ("auto", _tr("Automatic")), ("always", _tr("Always"))),
                _tr("When to search again"),
            ),
        ),
    )  # fmt: skip


def library() -> tuple[Row, ...]:
    return (
        Row(
            "library.watch", _tr("Notice changes as they happen"),
            _tr("Without it, changes in linked folders are noticed at the next look at all of them."), Switch,
        ),
        Row(
            "library.rescan_minutes", _tr("Look at all folders every"),
            _tr("Finds what was missed: network folders, drives that were away, changes while Ragdoll was closed."),
            lambda: Decimal(0.0, 1440.0, 5.0, num_digits=0, nothing=_tr("never"), suffix=_tr(" min")),
        ),
        Row(
            "library.ocr_languages", _tr("Languages of scanned pages"),
            _tr("As Tesseract calls them, for example eng, deu, chi_sim. Each has to be installed with it."),
            lambda: Words(_tr("as the system")),
        ),
        Row(
            "library.max_file_bytes", _tr("Largest file"),
            _tr("Larger ones are left out, and so is what takes minutes or gigabytes of memory to read."),
            lambda: Gibibytes(64.0, 0.25, lowest_gib=0.01),
        ),
        Row(
            "library.max_chunks_per_document", _tr("Most passages of a file"),
            _tr("Files with more are left out; 50,000 are some 20,000 pages. Those left out have to be indexed again."),
            lambda: Number(1000, 10_000_000, 10_000),
        ),
    )  # fmt: skip


def search() -> tuple[Row, ...]:
    return (
        Row(
            "retrieval.index_mode", _tr("Index"),
            _tr("In memory is fastest and finds all. On disk leaves the memory to the model, but may miss some."),
            lambda: Choice((("resident", _tr("In memory")), ("on_disk", _tr("On disk"))), _tr("Where the index is")),
        ),
        Row(
            "memory.index_budget_bytes", _tr("Memory for the index"),
            _tr("What does not fit is read from disk during a search, which takes longer and finds the same."),
            lambda: Gibibytes(1024.0, 0.25, nothing=_tr("automatic")),
        ),
    )  # fmt: skip


def models() -> tuple[Row, ...]:
    return (
        Row(
            "models.hub", _tr("Where models come from"),
            _tr("The address of the Hugging Face hub, or of a mirror of it. It is asked only when you get a model."),
            lambda: Line("https://huggingface.co"), is_wide=True,
        ),
    )  # fmt: skip


def server() -> tuple[Row, ...]:
    return (
        Row(
            "server.enabled", _tr("Let other applications ask"),
            _tr("Editors, note takers and scripts on this computer, as they would ask OpenAI. Nobody else can."),
            Switch,
        ),
        Row("server.port", _tr("Port"), "", lambda: Number(1024, 65_535, 1, is_a_name=True)),
        Row(
            "server.needs_key", _tr("Only with the key"),
            _tr("Without it, whatever runs on this computer can ask about your files, other people's programs too."),
            Switch,
        ),
    )  # fmt: skip


def _tr(text: str) -> str:
    return QCoreApplication.translate("settings", text)
