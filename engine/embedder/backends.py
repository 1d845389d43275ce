"""Backends for one model: sentence-transformers, torch alone for a plain BERT, or OpenVINO where it is installed.

With OpenVINO, tokenizing, pooling and normalising are still those of sentence-transformers; only the layers in between
are replaced. Only this module and `bert_torch` import torch, sentence-transformers and openvino, and only when needed:
a plain BERT embeds questions without any of them (`load_light`).
"""

from __future__ import annotations

import copy
import logging
import os
import sys
import warnings
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cache
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from engine.embedder import bert, bert_numpy
from engine.embedder.bert_numpy import NumpyBert
from engine.embedder.setup import Backend, NumberFormat
from engine.embedder.spared import spared
from engine.embedder.spec import EmbedderSpec
from engine.errors import EmbedderUnavailable
from engine.memory.process import bytes_in_files

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer

    from engine.embedder.bert_torch import Bert

log = logging.getLogger(__name__)

Vectors = NDArray[np.float32]
EXPORT_NAME = "openvino"
Place = Literal["memory", "card"]
_TORCH_NAMES: Mapping[Place, str] = {"memory": "cpu", "card": "cuda"}
# In English; other scripts have fewer, which only makes batches smaller.
_CHARACTERS_PER_TOKEN = 4


class BackendRefused(Exception):
    """A way to run the model cannot be used; the message is the reason, as the end of a sentence."""


class Model:
    """A loaded model. Used by one thread at a time."""

    def __init__(self, model: Any, num_bytes: int, counting: Any) -> None:
        """`model` is sentence-transformers'; `counting` a tokenizer that is never modified, or None."""
        self._model, self._counting = model, counting
        self.num_bytes = num_bytes
        self._prompt_tokens = self._longest_prompt()

    @property
    def mapped_bytes(self) -> int:
        """The bytes of the weights that are still pages of their file."""
        tensors = (*self._model.parameters(), *self._model.buffers())
        return min(self.num_bytes, bytes_in_files((tensor.data_ptr(), tensor.nbytes) for tensor in tensors))

    @property
    def max_tokens(self) -> int:
        """The longest text that the model reads, without the prompt before it."""
        return int(self._model.max_seq_length or 512) - self._prompt_tokens

    def lengths(self, texts: Sequence[str]) -> list[int]:
        """Returns the length of each text in tokens, on any thread. Sorting by characters wastes a sixth as padding."""
        if self._counting is None:
            return guessed_lengths(texts)
        return [len(encoding) for encoding in self._counting.encode_batch_fast(list(texts))]

    def _longest_prompt(self) -> int:
        """Returns the length of the longest prompt, in tokens without the special tokens around a text."""
        prompts = (getattr(self._model, "prompts", None) or {}).values()
        marks, *lengths = self.lengths(["", *filter(None, prompts)])
        return max(lengths, default=marks) - marks

    def encode(self, texts: list[str], *, is_question: bool) -> Vectors:
        """Returns unit vectors (n, d) of the texts, computed as one batch."""
        vectors = self._encode(texts, is_question)
        norms = np.linalg.norm(vectors, axis=1, keepdims=True)
        unit: Vectors = vectors / np.maximum(norms, np.finfo(np.float32).tiny)
        return unit

    def with_number_format(self, number_format: NumberFormat) -> Model:
        """Returns a model with the same weights, rounded to `number_format`."""
        import torch

        if number_format == "float32":
            return self
        half = copy.deepcopy(self._model, self._shared()).to(torch.bfloat16)
        return self._like(half, num_bytes_of(half))

    def move(self, to: Place) -> None:
        """Moves the layers to main memory or a graphics card; the tokenizer stays where it is.

        Raises:
            BackendRefused: There is no room, or the card refuses; the layers are in main memory then.
        """
        try:
            self._model.to(_TORCH_NAMES[to])
        except RuntimeError as error:  # torch raises it for everything that a card refuses
            self._model.to(_TORCH_NAMES["memory"])
            raise BackendRefused(first_line(error)) from error
        finally:
            if to == "memory":
                empty_card()

    def for_workers(self, num_workers: int) -> tuple[Model, ...]:
        """Returns `num_workers` models that share weights, one for each thread: most tokenizers are not thread-safe."""
        weights = (*self._model.parameters(), *self._model.buffers())
        shared = {id(tensor): tensor for tensor in weights}
        others = (copy.deepcopy(self._model, shared | self._shared()) for _ in range(num_workers - 1))
        return (self, *(self._like(other, self.num_bytes) for other in others))

    def through_openvino(self, number_format: NumberFormat, num_threads: int, export: Path | None) -> Model:
        """Returns the same model with its layers run by OpenVINO; `export` is the folder for the converted layers.

        Raises:
            BackendRefused: It cannot be converted.
        """
        try:
            layers, num_bytes = _openvino_layers(self._model, number_format, num_threads, export)
        except Exception as error:  # the edge to a converter, which may raise anything
            raise BackendRefused(f"the model cannot be converted ({first_line(error)})") from error
        replaced = copy.copy(self._model)
        replaced._modules = dict(self._model._modules)
        name, transformer = next(iter(self._model._modules.items()))
        shell = copy.copy(transformer)
        assert shell is not None
        shell._modules = dict(shell._modules)
        setattr(shell, _LAYERS, layers)
        replaced._modules[name] = shell
        return self._like(replaced, num_bytes)

    def _encode(self, texts: list[str], is_question: bool) -> Vectors:
        """Returns vectors (n, d) that need not have unit length."""
        encode = self._model.encode_query if is_question else self._model.encode_document
        made = encode(texts, batch_size=len(texts), show_progress_bar=False, convert_to_numpy=True)
        return np.asarray(made, dtype=np.float32)

    def _shared(self) -> dict[int, Any]:
        """Returns what copies of the model share with it besides weights, as a memo for deepcopy."""
        return {}

    def _like(self, model: Any, num_bytes: int) -> Model:
        return type(self)(model, num_bytes, self._counting)


class BertModel(Model):
    """A plain BERT, which torch computes without further libraries until OpenVINO asks for them."""

    def __init__(self, model: Bert, num_bytes: int, counting: Any, spec: EmbedderSpec) -> None:
        super().__init__(model, num_bytes, counting)
        self._spec = spec

    def through_openvino(self, number_format: NumberFormat, num_threads: int, export: Path | None) -> Model:
        try:
            whole = load_whole(self._spec)
        except EmbedderUnavailable as error:
            raise BackendRefused(first_line(error)) from error
        return whole.through_openvino(number_format, num_threads, export)

    def _encode(self, texts: list[str], is_question: bool) -> Vectors:
        # A model with prompts is not plain, so `is_question` makes no difference.
        vectors: Vectors = self._model.encode(texts)
        return vectors

    def _shared(self) -> dict[int, Any]:
        return {id(self._counting): self._counting}

    def _like(self, model: Any, num_bytes: int) -> Model:
        return BertModel(model, num_bytes, self._counting, self._spec)


def guessed_lengths(texts: Sequence[str]) -> list[int]:
    """Estimates the length of each text in tokens, without a tokenizer."""
    return [len(text) // _CHARACTERS_PER_TOKEN + 2 for text in texts]


def _counting_tokenizer(model: SentenceTransformer) -> Any:
    """Returns a copy of the model's tokenizer for counting; None if it is not one of Hugging Face's."""
    tokenizer = getattr(getattr(model, "tokenizer", None), "backend_tokenizer", None)
    if tokenizer is None:
        return None
    counting = copy.deepcopy(tokenizer)
    counting.no_padding()
    counting.no_truncation()
    return counting


# Where sentence-transformers' first module keeps the layers of transformers.
_LAYERS = "model"
# oneDNN compiles kernels for every shape of a batch. It and torch each cache the last 1,024 of them, a quarter of a
# megabyte each: 117 MiB after 1,150 chunks. Sorted batches repeat a shape soon or never, so 32 are as fast; 8 are
# slower by an eighth.
_NUM_KERNELS_KEPT = 32
# Packages that may have stored references to skipped modules.
_IMPORTED_WITHOUT = frozenset({"sentence_transformers", "transformers"})
_KERNEL_CACHES = ("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "LRU_CACHE_CAPACITY")


def load_libraries(spec: EmbedderSpec) -> None:
    """Imports the libraries that the model needs, which takes seconds; a failure is reported by `load`."""
    _prepare_imports()
    with suppress(ImportError, OSError):
        if _shape_of_plain(spec) is None:
            load_whole_libraries()
        else:
            import_module("engine.embedder.bert_torch")


def load_whole_libraries() -> None:
    """Imports sentence-transformers and its dependencies.

    Raises:
        ImportError, OSError: They cannot be imported.
    """
    _prepare_imports()
    try:
        with spared():
            import_module("sentence_transformers")
    except (ImportError, OSError):
        raise
    except Exception as error:  # noqa: BLE001 - a version that calls what is spared is imported with it
        log.info("the embedder's libraries are imported as a whole: %s", error)
        for name in [name for name in sys.modules if name.partition(".")[0] in _IMPORTED_WITHOUT]:
            del sys.modules[name]
        import_module("sentence_transformers")


def _prepare_imports() -> None:
    # Read by huggingface_hub at import: everything that we load is on this machine.
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    # Read when the first kernel is compiled.
    for name in _KERNEL_CACHES:
        os.environ.setdefault(name, str(_NUM_KERNELS_KEPT))


def _shape_of_plain(spec: EmbedderSpec) -> bert.Shape | None:
    """Returns the shape of a plain BERT; None for other models, and for those with prompts."""
    return None if spec.prompts else bert.read(spec.folder)


def load_light(spec: EmbedderSpec) -> NumpyBert | None:
    """Loads the model in float32 without torch, in a tenth of a second; None if it is not a plain BERT, or broken."""
    _prepare_imports()
    shape = _shape_of_plain(spec)
    if shape is None:
        return None
    try:
        return bert_numpy.load(spec.folder, shape)
    except Exception as error:  # noqa: BLE001 - whatever is wrong with it, other libraries manage it or tell
        log.info("the embedding model %r is left to torch: %s", spec.name, first_line(error))
        return None


def load(spec: EmbedderSpec) -> Model:
    """Loads the model in float32.

    Raises:
        EmbedderUnavailable: Its files cannot be loaded, or memory is short.
    """
    load_libraries(spec)
    try:
        shape = _shape_of_plain(spec)
        if shape is not None:
            from engine.embedder import bert_torch

            plain = bert_torch.load(spec.folder, shape)
            return BertModel(plain, num_bytes_of(plain), plain.tokenizer, spec)
    except Exception as error:  # noqa: BLE001 - whatever is wrong with it, the whole libraries manage it or tell
        log.info("the embedding model %r is left to sentence-transformers: %s", spec.name, first_line(error))
    return load_whole(spec)


def load_whole(spec: EmbedderSpec) -> Model:
    """Loads the model in float32 with sentence-transformers.

    Raises:
        EmbedderUnavailable: Its files cannot be loaded, or memory is short.
    """
    try:
        load_whole_libraries()
        from sentence_transformers import SentenceTransformer
        from tqdm import tqdm  # type: ignore[import-untyped]
        from transformers.utils import logging as transformers_logging

        transformers_logging.disable_progress_bar()  # type: ignore[no-untyped-call]
        # Even a progress bar that is never shown starts a monitor thread.
        tqdm.monitor_interval = 0
        prompts = dict(spec.prompts) or None
        model = SentenceTransformer(str(spec.folder), device="cpu", local_files_only=True, prompts=prompts)
        # Otherwise it computes in the format in which its weights were saved, which is slow on most processors.
        model = model.float().eval()
    except Exception as error:  # the edge to libraries, which may raise anything for a broken file
        raise EmbedderUnavailable(
            f"The embedding model {spec.name!r} cannot be loaded: {first_line(error)}",
            "Run ./packaging/bootstrap again, or choose another embedding model in the settings.",
        ) from error
    return Model(model, num_bytes_of(model), _counting_tokenizer(model))


@cache
def default_threads() -> int:
    """Returns torch's default number of threads; first called before it is changed."""
    import torch

    return int(torch.get_num_threads())


def set_threads(num_threads: int) -> None:
    """Sets how many threads torch uses for the calling thread."""
    import torch

    torch.set_num_threads(num_threads)


def has_card() -> bool:
    """Returns whether torch can compute on a graphics card."""
    import torch

    return bool(torch.cuda.is_available())


def empty_card() -> None:
    """Frees graphics memory that torch caches for later tensors."""
    import torch

    if has_card():
        torch.cuda.empty_cache()


def formats_worth_trying() -> tuple[NumberFormat, ...]:
    """Returns the number formats that this processor has instructions for."""
    import torch

    has_bfloat16 = any(has for ability, has in torch.cpu.get_capabilities().items() if ability.endswith("bf16"))
    return ("float32", "bfloat16") if has_bfloat16 else ("float32",)


def backends_installed() -> tuple[Backend, ...]:
    return ("sentence-transformers", "openvino") if versions()["openvino"] else ("sentence-transformers",)


def versions() -> dict[str, str]:
    """Returns the versions of libraries that affect speed; "" for one that is not installed."""
    return {name: _version(name) for name in ("torch", "sentence-transformers", "transformers", "openvino")}


def processor() -> str:
    """Describes the processor's capabilities, as torch reports them."""
    import torch

    return repr(sorted(torch.cpu.get_capabilities().items()))


def first_line(error: BaseException) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0]


def _openvino_layers(
    model: SentenceTransformer, number_format: NumberFormat, num_threads: int, export: Path | None
) -> tuple[Any, int]:
    import torch
    from transformers.modeling_outputs import BaseModelOutput

    openvino = _openvino()
    transformer: Any = model[0]
    layers = getattr(transformer, _LAYERS)
    names = [name for name in transformer.tokenizer.model_input_names if name in _inputs(transformer)]
    converted = _converted(openvino, torch, layers, _inputs(transformer), names, export)
    options = {
        "INFERENCE_PRECISION_HINT": "bf16" if number_format == "bfloat16" else "f32",
        "INFERENCE_NUM_THREADS": num_threads,
        "PERFORMANCE_HINT": "LATENCY",
    }
    compiled = openvino.Core().compile_model(converted, "CPU", options)

    class Compiled(torch.nn.Module):
        """Replaces the layers, with the same configuration."""

        def __init__(self) -> None:
            super().__init__()
            self.config = layers.config
            self.dtype = torch.float32
            self.device = torch.device("cpu")

        def forward(self, **inputs: Any) -> Any:
            states = compiled({name: inputs[name].numpy() for name in names})[0]
            return BaseModelOutput(last_hidden_state=torch.from_numpy(np.array(states, dtype=np.float32)))

    num_bytes = sum(tensor.numel() * tensor.element_size() for tensor in layers.parameters())
    return Compiled().eval(), num_bytes


def _openvino() -> Any:
    """Imports the library without its telemetry package."""
    sys.modules.setdefault("openvino_telemetry", None)  # type: ignore[arg-type]
    return import_module("openvino")


def _converted(
    openvino: Any, torch: Any, layers: Any, inputs: dict[str, Any], names: list[str], export: Path | None
) -> Any:
    """Returns the converted layers, read from the export if there is one for these versions."""
    file = None if export is None else export / f"{EXPORT_NAME}-{_version('openvino')}-{_version('torch')}.xml"
    if file is not None and file.is_file():
        try:
            return openvino.Core().read_model(file)
        except RuntimeError as error:
            log.info("a kept export of the embedding model is rebuilt: %s", first_line(error))

    class Bare(torch.nn.Module):  # type: ignore[misc]
        """The layers with positional inputs and one output, so that a converter can trace them."""

        def __init__(self) -> None:
            super().__init__()
            self.layers = layers

        def forward(self, *values: Any) -> Any:
            return self.layers(**dict(zip(names, values, strict=True))).last_hidden_state

    example = tuple(inputs[name] for name in names)
    with warnings.catch_warnings():
        # Tracing warns about everything that it treats as constant; the self-test checks the vectors instead.
        warnings.simplefilter("ignore")
        converted = openvino.convert_model(Bare().eval(), example_input=example)
    for place, name in zip(converted.inputs, names, strict=True):
        place.get_tensor().set_names({name})
    if file is not None:
        _save_whole(openvino, converted, file)
    return converted


def _save_whole(openvino: Any, converted: Any, file: Path) -> None:
    """Saves both files of an export; the one that is searched for comes last, so that none is read half-written."""
    file.parent.mkdir(parents=True, exist_ok=True)
    coming = file.with_name(f"{file.stem}.part.xml")
    openvino.save_model(converted, coming, compress_to_fp16=False)
    coming.with_suffix(".bin").replace(file.with_suffix(".bin"))
    coming.replace(file)


def _inputs(transformer: Any) -> dict[str, Any]:
    """Tokenizes a small example batch."""
    return dict(transformer.tokenizer(["one text", "another, longer text"], padding=True, return_tensors="pt"))


def num_bytes_of(model: Any) -> int:
    return sum(tensor.numel() * tensor.element_size() for tensor in (*model.parameters(), *model.buffers()))


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return ""
