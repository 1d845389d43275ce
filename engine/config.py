"""Every setting of the engine, declared once, with its unit; and where our files are."""

from __future__ import annotations

import os
import stat
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Annotated, Literal
from urllib.parse import urlsplit

import platformdirs
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field
from pydantic_core import PydanticCustomError

from engine.core import MAX_INSTRUCTIONS, KVType, SamplingParams
from engine.errors import DiskFull, HomeUnusable, is_disk_full

GIB = 2**30
MIB = 2**20


class _Table(BaseModel):
    model_config = ConfigDict(frozen=True, extra="allow", validate_default=True)


class LibrarySettings(_Table):
    """How linked folders are kept in step, and limits that keep one bad file from spoiling the rest.

    `watch`: changes are noticed as they happen. All folders are also scanned every `rescan_minutes`; 0 is never.
    """

    watch: bool = True
    rescan_minutes: float = Field(10.0, ge=0)
    # Kept free on the library's disk, so that documents can be removed even when it is full.
    reserve_bytes: int = Field(16 * MIB, ge=0)

    max_file_bytes: int = Field(512 * MIB, gt=0)
    max_chunks_per_document: int = Field(50_000, gt=0)
    parse_seconds: float = Field(120.0, gt=0)
    parse_memory_bytes: int = Field(2 * GIB, ge=256 * MIB)
    parser_processes: int = Field(1, ge=1, le=16)
    chunk_tokens: int = Field(240, ge=32, le=240)
    chunk_overlap_tokens: int = Field(32, ge=0, le=128)
    # Tesseract's names ("eng", "deu"); none means the system's language and English.
    ocr_languages: tuple[Annotated[str, Field(pattern=r"^[A-Za-z0-9_]+(?:/[A-Za-z0-9_]+)?$")], ...] = ()


class EmbedderSettings(_Table):
    """`model` is a sentence-transformers name or folder; "" is the built-in one.

    How to run it is measured at the first start; `batch_size` (in texts), `num_threads`, `backend` and
    `number_format` override that where they are not 0 or "".
    """

    model: str = ""
    batch_size: int = Field(0, ge=0, le=512)
    num_threads: int = Field(0, ge=0, le=512)
    backend: Literal["", "sentence-transformers", "openvino"] = ""
    number_format: Literal["", "float32", "bfloat16"] = ""


class RetrievalSettings(_Table):
    """`words_weight` is the share of a passage's score that comes from its words, the rest comes from its meaning.

    `reads_filters`: files, types and dates in a question's words filter the search. `diversity` 0 takes the best
    passages, 1 the most different ones. A document of at most `whole_document_chunks` is read whole; so is a small one
    that the search is limited to, unless that is 0. `reranker` is a cross-encoder's name or folder on this machine, ""
    for none.

    `index_mode` "on_disk" searches LanceDB's own index and holds nothing in memory. `cold_slack` lets a single
    question skip parts of the index that are not in memory and unlikely to contain the answer; None skips none.
    """

    candidates: int = Field(50, ge=1, le=1000)
    passages: int = Field(6, ge=1, le=64)
    words_weight: float = Field(0.35, ge=0, le=1)
    reads_filters: bool = True
    diversity: float = Field(0.0, ge=0, le=1)
    whole_document_chunks: int = Field(4, ge=0, le=64)
    reranker: str = ""
    index_mode: Literal["resident", "on_disk"] = "resident"
    cold_slack: float | None = Field(None, ge=0)


class GenerationSettings(_Table):
    """`n_gpu_layers` None lets the plan choose; `num_threads` 0 means all physical cores available to us.

    `max_context` tokens are the most of one prompt and its answer; there are cells for `parallel_answers` of them,
    where memory allows, and for more while more questions wait. Otherwise there are as many as were needed recently,
    and more when more are needed. A step computes at most `n_batch` tokens, and at most `n_ubatch` of prompts (0: what
    suits the machine), before anything can be cancelled.

    Keys and values are kept, so that prompts need not be read again: as `kv_type`, in memory up to `kv_ram_bytes`
    and on the disk up to `kv_disk_bytes` (None: by what the machine has). Passages are read in the order that is cached
    where that costs at most `reorder_loss` of the best order's worth. `read_ahead`: a prompt is read while the search
    for its passages is running (None: if the model runs on the processor that searches, only for slow searches).
    `refresh` searches again for long answers while they are written, so that they continue from what fits them by
    then: "auto" if reading these costs little compared with writing, "always" at any cost.
    """

    # Far beyond this, llama.cpp aborts the process instead of reporting that there is no room.
    max_context: int = Field(8192, ge=128, le=2**22)
    max_answer_tokens: int = Field(1024, ge=1, le=2**31 - 1)
    # For models that reason before they answer; those whose reasoning can be switched do so if `thinks`.
    max_thought_tokens: int = Field(1024, ge=0, le=2**31 - 1)
    thinks: bool = False
    n_batch: int = Field(512, ge=32, le=2**16)
    n_ubatch: int = Field(0, ge=0, le=2**16)
    parallel_answers: int = Field(4, ge=1, le=64)
    kv_type: KVType = "f16"
    kv_ram_bytes: int | None = Field(None, ge=0)
    kv_disk_bytes: int | None = Field(None, ge=0)
    reorder_loss: float = Field(0.1, ge=0, le=1)
    read_ahead: bool | None = None
    refresh: Literal["off", "auto", "always"] = "off"
    # Targets: how soon an answer begins, and how fast it is written. Models that take turns are scheduled by them,
    # and goodput counts the answers that meet them.
    ttft_target_seconds: float = Field(10.0, gt=0)
    tpot_target_seconds: float = Field(0.25, gt=0)
    # Tens of thousands would exceed the system's limits, which ends the process.
    num_threads: int = Field(0, ge=0, le=512)
    n_gpu_layers: int | None = Field(None, ge=0)
    temperature: float = Field(0.2, ge=0, le=5)
    top_k: int = Field(40, ge=0, le=2**31 - 1)
    top_p: float = Field(0.95, gt=0, le=1)
    min_p: float = Field(0.05, ge=0, le=1)
    # 1 removes no tokens; less removes both those that are too expected and those that are too surprising.
    typical_p: float = Field(1.0, gt=0, le=1)
    # For recent tokens: their logits are divided by the first, and reduced by the others.
    repeat_penalty: float = Field(1.1, ge=0.01, le=3)
    presence_penalty: float = Field(0.0, ge=-2, le=2)
    frequency_penalty: float = Field(0.0, ge=-2, le=2)
    repeat_window: int = Field(64, ge=0, le=2**20)
    # DRY penalises repeating earlier sequences, XTC omits the most likely tokens with this probability; 0 switches off.
    dry_multiplier: float = Field(0.0, ge=0, le=5)
    xtc_probability: float = Field(0.0, ge=0, le=1)
    # The user's instructions for every answer, in addition to our own.
    instructions: str = Field("", max_length=MAX_INSTRUCTIONS)
    # An answer ends before the first of these strings.
    stop: tuple[Annotated[str, Field(min_length=1)], ...] = Field((), max_length=16)
    # 1 samples; with more, the answer is the likeliest of that many beams. Not with several answers, a grammar or a
    # schema.
    beam_width: int = Field(1, ge=1, le=16)
    seed: int | None = Field(None, ge=0, le=2**63 - 1)

    def sampling(self) -> SamplingParams:
        """Returns the sampling parameters of these settings, by the same names."""
        same = (field.name for field in fields(SamplingParams) if field.name in GenerationSettings.model_fields)
        return SamplingParams(max_tokens=self.max_answer_tokens, **{name: getattr(self, name) for name in same})


HUGGING_FACE = "https://huggingface.co"


def hub_address(typed: object) -> object:
    """Returns the full address of a hub from what a user typed; "" is the usual one. Raises ValueError for pydantic."""
    if not isinstance(typed, str):
        return typed
    address = typed.strip() or HUGGING_FACE
    address = address if "://" in address else f"https://{address}"
    with suppress(ValueError):
        there = urlsplit(address)
        # Accessed because it is only validated then.
        _ = there.port
        is_plain = not (there.query or there.fragment) and address.split() == [address]
        if there.scheme in ("http", "https") and there.hostname and is_plain:
            return address.rstrip("/")
    raise PydanticCustomError("hub_address", "{typed} is no address of a hub", {"typed": repr(typed)})


class ModelsSettings(_Table):
    """`current` is the GGUF that answers, "" for extractive answers only; `known` is what the picker offers.

    Models are downloaded from `hub`, the address of the Hugging Face hub or of a mirror, into
    `folder`; "" is one in our data folder. The hub is used for nothing else. Models in `earlier_folders` stay there.
    """

    current: str = ""
    known: tuple[str, ...] = ()
    hub: Annotated[str, BeforeValidator(hub_address)] = HUGGING_FACE
    folder: str = ""
    earlier_folders: tuple[str, ...] = ()

    def changes_to(self, folder: str) -> dict[str, object]:
        """Returns the changes by name that make `folder` the folder of models; the present one is still searched."""
        earlier = dict.fromkeys((self.folder, *self.earlier_folders))
        return {
            "models.folder": folder,
            "models.earlier_folders": tuple(one for one in earlier if one not in ("", folder)),
        }


class MemorySettings(_Table):
    """How much of the machine we may use, and caches that would otherwise grow to their defaults (6 + 1 GiB).

    `gpu_budget_bytes`, `ram_budget_bytes` and `disk_budget_bytes` are the most that we use in total of a graphics
    card, of memory and of the disk; None is what the machine has, less what others need. They are enforced while
    answers are being written: what no longer fits is given up, as far as it is dispensable.
    `may_lose`: keys and values may be kept as 8-bit numbers, and the context reduced, where nothing else helps.
    """

    gpu_budget_bytes: int | None = Field(None, ge=0)
    # A budget below what the libraries themselves take could never be met.
    ram_budget_bytes: int | None = Field(None, ge=256 * MIB)
    disk_budget_bytes: int | None = Field(None, ge=256 * MIB)
    may_lose: bool = False
    lance_index_cache_bytes: int = Field(128 * MIB, ge=0)
    lance_metadata_cache_bytes: int = Field(64 * MIB, ge=0)
    device_reserve_bytes: int = Field(512 * MIB, ge=0)
    # The most that the index uses in memory; None is as much as it needs, up to a quarter of the machine's.
    index_budget_bytes: int | None = Field(None, ge=0)


class ServerSettings(_Table):
    """The HTTP API for other applications on this computer: whether it is on, and its port.

    Unless `needs_key` is false, requests need the `key`, which is created when it is first needed.
    """

    enabled: bool = False
    port: int = Field(4411, ge=0, le=65535)
    needs_key: bool = True
    key: str = ""

    @property
    def key_needed(self) -> str:
        """The key that a request needs, "" for none."""
        return self.key if self.needs_key else ""


class Settings(_Table):
    library: LibrarySettings = LibrarySettings()
    embedder: EmbedderSettings = EmbedderSettings()
    retrieval: RetrievalSettings = RetrievalSettings()
    generation: GenerationSettings = GenerationSettings()
    models: ModelsSettings = ModelsSettings()
    memory: MemorySettings = MemorySettings()
    server: ServerSettings = ServerSettings()


# In any folder: what below it is not a document, in the syntax of `.gitignore`.
IGNORE_FILE = ".ragdollignore"
_OTHERS = stat.S_IRWXG | stat.S_IRWXO


@dataclass(frozen=True, slots=True)
class Home:
    """Our folders. `RAGDOLL_HOME` moves all of them; otherwise they are the platform's."""

    data: Path
    config: Path
    cache: Path
    logs: Path
    runtime: Path

    @classmethod
    def find(cls) -> Home:
        override = os.environ.get("RAGDOLL_HOME")
        if override:
            return cls.under(Path(override))
        dirs = platformdirs.PlatformDirs("ragdoll", appauthor=False)
        return cls(
            data=dirs.user_data_path,
            config=dirs.user_config_path,
            cache=dirs.user_cache_path,
            logs=dirs.user_log_path,
            runtime=_runtime(dirs),
        )

    @classmethod
    def under(cls, root: Path) -> Home:
        root = expanded(root)
        return cls(root / "data", root / "config", root / "cache", root / "logs", root / "run")

    @property
    def library(self) -> Path:
        return self.data / "library"

    def models(self, settings: ModelsSettings) -> Path:
        """Returns the folder into which models are downloaded."""
        return self._models(settings.folder)

    def model_folders(self, settings: ModelsSettings) -> tuple[Path, ...]:
        """Returns that folder, followed by earlier ones that may contain models; each once, links resolved."""
        known: dict[str, Path] = {}
        for folder in map(self._models, (settings.folder, *settings.earlier_folders, "")):
            known.setdefault(os.path.realpath(folder), folder)
        return tuple(known.values())

    def _models(self, folder: str) -> Path:
        return expanded(folder) if folder else self.data / "models"

    @property
    def settings_file(self) -> Path:
        return self.config / "engine.toml"

    def create(self) -> None:
        """Creates our folders, readable by the user only. Raises DiskFull, or HomeUnusable without permission.

        The data folder itself may be read by others: models in it may be shared by all users of this computer. Our
        folders are excluded from indexing in case they are in a linked folder: reading their files would write more of
        them.
        """
        with in_our_folder(self.data):
            self.data.mkdir(parents=True, exist_ok=True)
            _leave_out(self.data)
            _make_private(self.library)
            for folder in (self.config, self.cache, self.logs):
                _make_private(folder)
                _leave_out(folder)
        # It ends with the session; without it, sockets are in the system's temporary folder.
        with suppress(OSError):
            _make_private(self.runtime)
            _leave_out(self.runtime)


def _runtime(dirs: platformdirs.PlatformDirs) -> Path:
    """Returns the platform's folder; one in our data folder where the platform has no safe one."""
    with warnings.catch_warnings(), suppress(PermissionError):
        # Sessions without XDG_RUNTIME_DIR (ssh, cron) get a folder in /tmp, which is fine.
        warnings.simplefilter("ignore")
        return dirs.user_runtime_path
    return dirs.user_data_path / "run"


def _make_private(folder: Path) -> None:
    """Creates a folder for the user only, and restricts an existing one, as far as its file system has owners.

    A link stays as it is: it leads where the user has chosen.
    """
    folder.mkdir(mode=stat.S_IRWXU, parents=True, exist_ok=True)
    with suppress(OSError):
        mode = stat.S_IMODE(folder.lstat().st_mode)
        if mode & _OTHERS and not folder.is_symlink():
            folder.chmod(mode & ~_OTHERS)


def _leave_out(folder: Path) -> None:
    try:
        if not (folder / IGNORE_FILE).exists():
            write_atomically(folder / IGNORE_FILE, b"*\n")
    except OSError as error:
        # Without permission to change it, the folder is used as it is.
        if is_disk_full(error):
            raise


def write_atomically(file: Path, content: bytes) -> None:
    """Writes beside `file`, syncs, renames: a reader sees the old content or the new, never half.

    A symbolic link stays one, as people have who keep their settings elsewhere.
    """
    file = Path(os.path.realpath(file)) if file.is_symlink() else file
    file.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(prefix=f".{file.name}.", dir=file.parent)
    try:
        with os.fdopen(handle, "wb") as stream:
            stream.write(content)
            stream.flush()
            os.fsync(stream.fileno())
        os.replace(name, file)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


@contextmanager
def in_our_folder(folder: Path) -> Iterator[None]:
    """Turns an OSError into a sentence: the disk is full, or a folder of ours cannot be used."""
    try:
        yield
    except OSError as error:
        if not is_disk_full(error):
            raise HomeUnusable.by(error, folder) from error
        raise DiskFull(
            f"The disk that holds {folder} is full; nothing was changed.", "Free some space and try again."
        ) from error


def expanded(path: str | Path) -> Path:
    """Returns an absolute path, with `~` as the user's home; the home of an unknown user stays as it is typed."""
    return Path(os.path.expanduser(path)).absolute()


def bytes_below(folder: Path) -> int:
    """Returns the size of all files of a folder on disk."""
    # os.walk skips folders that vanish meanwhile; LanceDB replaces its files while it indexes.
    return sum(_file_bytes(os.path.join(inside, name)) for inside, _, names in os.walk(folder) for name in names)


def _file_bytes(path: str) -> int:
    """Returns the size of a file; 0 if it is gone since it was listed."""
    try:
        return os.stat(path).st_size
    except OSError:
        return 0
