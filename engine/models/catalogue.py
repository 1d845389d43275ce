"""The catalogue: models that are known to answer well, with the facts that determine their size and fit.

Only facts from their published configurations are listed here; exact sizes and checksums come from the hub at download.
None of these models writes reasoning before its answer.
"""

from __future__ import annotations

from dataclasses import astuple, dataclass, replace

from engine.core import ModelShape
from engine.models.layer_caches import F16_BYTES
from engine.models.layer_stages import largest_stage_bytes


@dataclass(frozen=True, slots=True)
class Quantisation:
    """The bits per weight, including scales, in layers, in the output head, and in the embeddings."""

    layer_bits: float
    head_bits: float
    embedding_bits: float


# llama.cpp stores one in seven matrices of the layers with more bits.
Q4_K_M = Quantisation(layer_bits=4.8, head_bits=6.5625, embedding_bits=4.5)
# If the width is not a multiple of 256, the head has 8 bits.
Q4_0_NARROW = Quantisation(layer_bits=4.5, head_bits=8.5, embedding_bits=4.5)


@dataclass(frozen=True, slots=True)
class KnownModel:
    """A model of the hub, and its shape. `has_own_head`: its file has an output head besides the embeddings."""

    name: str
    repo: str
    file: str
    licence: str
    architecture: str
    num_layers: int
    width: int
    feed_forward: int
    heads: int
    kv_heads: int
    head_size: int
    vocabulary_size: int
    trained_context: int
    has_own_head: bool
    quantisation: Quantisation = Q4_K_M

    @property
    def source(self) -> str:
        """The full name of the file on the hub."""
        return f"{self.repo}/{self.file}"

    def in_bytes(self, num_bytes: int) -> KnownModel:
        """Returns the same model, scaled to a file of `num_bytes`; 0 means unknown."""
        factor = num_bytes / self.shape().file_bytes if num_bytes else 1
        return replace(self, quantisation=Quantisation(*(factor * bits for bits in astuple(self.quantisation))))

    def shape(self) -> ModelShape:
        """Estimates the shape that its header will have."""
        bits, embeddings = self.quantisation, self.width * self.vocabulary_size
        sizes = {name: round(count * bits.layer_bits / 8) for name, count in self._layer_weights().items()}
        head_bytes = round(embeddings * bits.head_bits / 8)
        other_bytes = head_bytes
        if self.has_own_head:
            other_bytes += round(embeddings * bits.embedding_bits / 8)
        layers = [
            {f"blk.{layer}.{name}.weight": size for name, size in sizes.items()} for layer in range(self.num_layers)
        ]
        layer_bytes = tuple(sum(layer.values()) for layer in layers)
        return ModelShape(
            name=self.name,
            architecture=self.architecture,
            trained_context=self.trained_context,
            layer_bytes=layer_bytes,
            other_bytes=other_bytes,
            output_bytes=head_bytes if self.has_own_head else 0,
            kv_cell_bytes=(2 * self.kv_heads * self.head_size * F16_BYTES,) * self.num_layers,
            vocabulary_size=self.vocabulary_size,
            file_bytes=sum(layer_bytes) + other_bytes,
            width=self.width,
            stage_bytes=largest_stage_bytes(layers),
        )

    def _layer_weights(self) -> dict[str, int]:
        """Returns the sizes of a layer's matrices; norms and biases are only a thousandth of that."""
        queries, keys = self.width * self.heads * self.head_size, self.width * self.kv_heads * self.head_size
        forward = self.width * self.feed_forward
        return {
            "attn_q": queries,
            "attn_k": keys,
            "attn_v": keys,
            "attn_output": queries,
            "ffn_gate": forward,
            "ffn_up": forward,
            "ffn_down": forward,
        }


# Small models in Qwen's own files store the head separately, although it equals the embeddings.
CATALOGUE = (
    KnownModel(
        "Qwen2.5 0.5B Instruct", "Qwen/Qwen2.5-0.5B-Instruct-GGUF", "qwen2.5-0.5b-instruct-q4_0.gguf", "Apache-2.0",
        "qwen2", num_layers=24, width=896, feed_forward=4864, heads=14, kv_heads=2, head_size=64,
        vocabulary_size=151_936, trained_context=32_768, has_own_head=True, quantisation=Q4_0_NARROW,
    ),
    KnownModel(
        "Qwen2.5 1.5B Instruct", "Qwen/Qwen2.5-1.5B-Instruct-GGUF", "qwen2.5-1.5b-instruct-q4_k_m.gguf", "Apache-2.0",
        "qwen2", num_layers=28, width=1536, feed_forward=8960, heads=12, kv_heads=2, head_size=128,
        vocabulary_size=151_936, trained_context=32_768, has_own_head=True,
    ),
    KnownModel(
        "Llama 3.2 3B Instruct", "bartowski/Llama-3.2-3B-Instruct-GGUF", "Llama-3.2-3B-Instruct-Q4_K_M.gguf",
        "Llama 3.2 Community License",
        "llama", num_layers=28, width=3072, feed_forward=8192, heads=24, kv_heads=8, head_size=128,
        vocabulary_size=128_256, trained_context=131_072, has_own_head=False,
    ),
    KnownModel(
        "Qwen3 4B Instruct", "unsloth/Qwen3-4B-Instruct-2507-GGUF", "Qwen3-4B-Instruct-2507-Q4_K_M.gguf", "Apache-2.0",
        "qwen3", num_layers=36, width=2560, feed_forward=9728, heads=32, kv_heads=8, head_size=128,
        vocabulary_size=151_936, trained_context=262_144, has_own_head=False,
    ),
    KnownModel(
        "Qwen2.5 7B Instruct", "bartowski/Qwen2.5-7B-Instruct-GGUF", "Qwen2.5-7B-Instruct-Q4_K_M.gguf", "Apache-2.0",
        "qwen2", num_layers=28, width=3584, feed_forward=18_944, heads=28, kv_heads=4, head_size=128,
        vocabulary_size=152_064, trained_context=32_768, has_own_head=True,
    ),
    KnownModel(
        "Qwen2.5 14B Instruct", "bartowski/Qwen2.5-14B-Instruct-GGUF", "Qwen2.5-14B-Instruct-Q4_K_M.gguf", "Apache-2.0",
        "qwen2", num_layers=48, width=5120, feed_forward=13_824, heads=40, kv_heads=8, head_size=128,
        vocabulary_size=152_064, trained_context=32_768, has_own_head=True,
    ),
)  # fmt: skip


def named(name: str) -> KnownModel | None:
    """Returns the model of the catalogue with this name ("qwen3-4b-instruct" is enough), or this file."""
    wanted = _plain(name)
    return next((one for one in CATALOGUE if wanted in (_plain(one.name), _plain(one.file), _plain(one.source))), None)


def in_repository(repo: str) -> KnownModel | None:
    """Returns the model of the catalogue in a repository, which may have it in other sizes as well."""
    return next((one for one in CATALOGUE if one.repo == repo), None)


def _plain(name: str) -> str:
    return name.casefold().replace(" ", "-").removesuffix(".gguf")
