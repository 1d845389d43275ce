"""Requests about models and memory: which can answer, which does, and who holds which bytes."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from engine.core import Download, PathText, Span, Tier
from engine.protocol.message import Message, Method, Nothing


class ModelFile(Message):
    """A GGUF file; `n_gpu_layers` None lets the plan choose, and 0 is none.

    It counts as llama.cpp does: the output head is the first of them.
    """

    path: PathText
    n_gpu_layers: int | None = None


class ModelEntry(Message):
    """A model that the picker offers; `problem` says why it cannot be used ("" when it can).

    `fit` says how it would be placed here, and with what expected speed: `tokens_per_s` of an answer, and `ttft_s`
    seconds until its first word, for a prompt of a usual length; `fits` is whether it can run at all. `offer` says what
    a small loss would gain (`memory.may_lose`), if there is no room otherwise. If the machine `has_gpu`,
    `planned_gpu_layers` would be there, not counting the output head. Deleting it frees `deletable_bytes`; 0 for a
    model outside the folder of models, which cannot be deleted.
    """

    path: PathText
    name: str
    architecture: str = ""
    file_bytes: int = 0
    num_layers: int = 0
    trained_context: int = 0
    planned_gpu_layers: int = 0
    has_gpu: bool = False
    fit: str = ""
    problem: str = ""
    fits: bool = True
    offer: str = ""
    tokens_per_s: float = 0.0
    ttft_s: float = 0.0
    deletable_bytes: int = 0


class ModelsReply(Message):
    """`current` is the path the settings name, "" for extractive answers only."""

    models: tuple[ModelEntry, ...]
    current: PathText


class FoundModel(Message):
    """A model that is on this computer already, from another application; `app` is "" if it is in our folder."""

    app: str
    model: ModelEntry


class FoundModels(Message):
    models: tuple[FoundModel, ...]


class CatalogueEntry(Message):
    """A model that can be downloaded: `model` says how large it is and how it would run here, as far as that is known.

    `is_estimate`: its size is estimated too; otherwise it is what the hub says, 0 if that was not asked. If it is here
    already, `model` has the path of its file.
    """

    source: str
    licence: str = ""
    model: ModelEntry
    download: Download
    is_estimate: bool = True


class CatalogueReply(Message):
    """The catalogue; `others` are not in it, and being downloaded, stopped, or here in part."""

    models: tuple[CatalogueEntry, ...]
    others: tuple[CatalogueEntry, ...] = ()


class HubFiles(Message):
    """What a link or a name refers to: one file, or those of a `folder` (OWNER/NAME) to choose from."""

    folder: str = ""
    files: tuple[CatalogueEntry, ...]


class HubModel(Message):
    """A file of the hub: OWNER/NAME/FILE.gguf, its link, or a name of the catalogue."""

    source: str


class HubFolderEntry(Message):
    """A model that is a folder, downloaded or not: it will be in the folder `path`, by which settings name it.

    Little is known of one that is in no catalogue: texts are "", figures 0. `num_bytes` is about the size of the
    download. Deleting it frees `deletable_bytes`; 0 for one that is in use or elsewhere, and cannot be deleted.
    """

    source: str
    name: str
    path: PathText
    good_for: str = ""
    licence: str = ""
    num_bytes: int = 0
    download: Download
    deletable_bytes: int = 0


class EmbedderEntry(HubFolderEntry):
    """An embedding model. `is_multilingual` is None where that is not known."""

    dimensions: int = 0
    is_multilingual: bool | None = None


class EmbeddersReply(Message):
    """Those of the catalogue, followed by others that are here or being downloaded."""

    embedders: tuple[EmbedderEntry, ...]


class RerankerEntry(HubFolderEntry):
    """A reranker, which reads the best passages together with the question; `languages` are those that it reads."""

    languages: str = ""


class RerankersReply(Message):
    """Those of the catalogue, followed by others that are here or being downloaded.

    The one in use reads `num_read` passages of a search. `seconds` is how long it took the last time (0: not yet), and
    `problem` says why passages are in the order in which they were found; "" if they are not.
    """

    rerankers: tuple[RerankerEntry, ...]
    num_read: int = 0
    seconds: float = 0.0
    problem: str = ""


class HubFolder(Message):
    """A repository of the hub: OWNER/NAME, its link, or a name of the catalogue."""

    source: str


# How short memory is, according to the system: some tasks wait for it, or all do.
PressureLevel = Literal["none", "some", "full"]
# What was done: the placement changed, something was given up or taken back for lack of memory, a change was refused, a
# budget changed, a failure was handled, or a model was measured.
DecisionKind = Literal["placement", "given_up", "taken_back", "refused", "budget", "failure", "measured"]


class TierSnapshot(Message):
    """One tier of memory: what it holds in all, what other programs hold, and our spans.

    `budget_bytes` is what we may hold in all now, `chosen_budget_bytes` what the user chose (None: by the machine). The
    first can be the smaller one: other programs took memory, the system is under `pressure`, or a limit is near.
    `given_up` says what is given up now for lack of memory here, the most recent first. `uncounted_bytes` of the spans
    count against no budget: the model's own file, pages of it that leave by themselves, and what no owner has entered.
    """

    tier: Tier
    name: str
    capacity_bytes: int
    other_bytes: int
    spans: tuple[Span, ...] = ()
    budget_bytes: int | None = None
    chosen_budget_bytes: int | None = None
    pressure: PressureLevel = "none"
    given_up: tuple[str, ...] = ()
    uncounted_bytes: int = 0

    @property
    def held_bytes(self) -> int:
        return sum(span.num_bytes for span in self.spans)

    @property
    def counted_bytes(self) -> int:
        """What counts against the budget."""
        return self.held_bytes - self.uncounted_bytes

    @property
    def free_bytes(self) -> int:
        return max(0, self.capacity_bytes - self.other_bytes - self.held_bytes)


class Decision(Message):
    """What was decided about memory, in a sentence, and when (seconds since 1970); `tier` if it concerns one.

    `short` says the most important part in one line; "" if `sentence` does.
    """

    at: float
    sentence: str
    kind: DecisionKind = "placement"
    tier: Tier | None = None
    short: str = ""


class MemoryReply(Message):
    """Who holds what, how fast bytes move, and why everything is where it is.

    `decisions` is what holds now, in words: where the model's layers are, what waits, what is wrong. `history` is what
    was decided recently, the newest first.

    `counters` are gauges by name; unknown ones are left out. A name ends in what it counts: `_bytes_per_s` for a link,
    `_ratio` from 0 to 1, `_bytes`, `_s`; otherwise it is a number of things.
    Of links: `disk_read_bytes_per_s`, `disk_written_bytes_per_s` (this process, without what the page cache has),
    `streamed_bytes_per_s` (layers through the ring).
    Of answers: `tokens_per_s`, `questions_waiting`, `answers_running`; `predicted_tokens_per_s` and `predicted_ttft_s`
    of the placement in force. Of the placement: `gpu_layers`, `streamed_layers`, `ring_slots`, `answer_slots`. Of
    cells: `kv_cells_used`, `kv_cells_free`, and `kv_cells_of:` before the id of each question that has some. Of kept
    KV: `kv_found_in_cells_ratio` and so on. Of the index: `partitions`, `partitions_resident`,
    `partitions_resident_ratio`.
    """

    tiers: tuple[TierSnapshot, ...]
    counters: dict[str, float] = Field(default_factory=dict)
    decisions: tuple[str, ...] = ()
    history: tuple[Decision, ...] = ()


MODELS = Method("models.list", Nothing, ModelsReply)
MODELS_ADD = Method("models.add", ModelFile, ModelEntry, is_repeatable=True)
MODELS_FORGET = Method("models.forget", ModelFile, Nothing, is_repeatable=True)
MODELS_DELETE = Method("models.delete", ModelFile, Nothing)
MODELS_USE = Method("models.use", ModelFile, Nothing)
MODELS_UNLOAD = Method("models.unload", Nothing, Nothing)
MODELS_ELSEWHERE = Method("models.elsewhere", Nothing, FoundModels)
MODELS_CATALOGUE = Method("models.catalogue", Nothing, CatalogueReply)
MODELS_LOOK_UP = Method("models.look_up", HubModel, HubFiles)
MODELS_GET = Method("models.get", HubModel, Nothing, is_repeatable=True)
MODELS_DISCARD_PART = Method("models.discard_part", HubModel, Nothing, is_repeatable=True)
MODELS_CANCEL_GETTING = Method("models.cancel_getting", HubModel, Nothing)
EMBEDDERS = Method("embedders.list", Nothing, EmbeddersReply)
EMBEDDERS_GET = Method("embedders.get", HubFolder, Nothing, is_repeatable=True)
EMBEDDERS_DELETE = Method("embedders.delete", HubFolder, Nothing)
EMBEDDERS_DISCARD_PART = Method("embedders.discard_part", HubFolder, Nothing, is_repeatable=True)
EMBEDDERS_CANCEL_GETTING = Method("embedders.cancel_getting", HubFolder, Nothing)
RERANKERS = Method("rerankers.list", Nothing, RerankersReply)
RERANKERS_GET = Method("rerankers.get", HubFolder, Nothing, is_repeatable=True)
RERANKERS_DELETE = Method("rerankers.delete", HubFolder, Nothing)
RERANKERS_DISCARD_PART = Method("rerankers.discard_part", HubFolder, Nothing, is_repeatable=True)
RERANKERS_CANCEL_GETTING = Method("rerankers.cancel_getting", HubFolder, Nothing)
MEMORY = Method("memory.get", Nothing, MemoryReply)
