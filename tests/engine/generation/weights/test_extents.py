"""Tests for engine.generation.weights.extents."""

from __future__ import annotations

import random
from collections.abc import Sequence

import pytest

from engine.errors import NotStreamable
from engine.generation.weights.extents import SMALL_BYTES, Layout, Pages, copied_table, layout_of
from engine.generation.weights.stages import whole_layers
from engine.models.gguf import TensorExtent

PAGE = 4096


def table(*tensors: tuple[str, int], start: int = 100) -> list[TensorExtent]:
    """Tensors one after the other."""
    found = []
    for name, num_bytes in tensors:
        found.append(TensorExtent(name, start, num_bytes))
        start += num_bytes
    return found


def layout(*tables: Sequence[TensorExtent], num_layers: int = 3, in_memory: set[int] | None = None, head: bool = True):
    in_memory = set(range(num_layers)) if in_memory is None else in_memory
    return layout_of(tables, whole_layers(num_layers), in_memory, head, PAGE)


def model(*others: tuple[str, int]) -> list[TensorExtent]:
    layers = [(f"blk.{layer}.{name}.weight", 3 * PAGE) for layer in range(3) for name in ("attn", "ffn")]
    return table(("token_embd.weight", 5 * PAGE), *layers, ("output_norm.weight", 64), *others)


OUTPUT = ("output.weight", 4 * PAGE)


def all_pages(found: Layout) -> list[Pages]:
    tensors = [*found.stages, *found.pinned.values(), *found.scattered.values()]
    return [*(pages for tensor in tensors for pages in tensor), *found.edges]


def test_a_layer_has_the_whole_pages_of_its_tensors_and_neighbours_share_an_edge() -> None:
    found = layout(model(OUTPUT))
    start = 100 + 5 * PAGE
    for layer in range(3):
        (pages,) = found.stages[layer]
        assert pages == Pages(0, 6 * PAGE + layer * 6 * PAGE, 6 * PAGE + layer * 6 * PAGE + 5 * PAGE)
        assert found.layer_bytes(layer) == 5 * PAGE
        assert Pages(0, (start + layer * 6 * PAGE) // PAGE * PAGE, pages.start) in found.edges


def test_no_page_belongs_to_two_and_every_byte_of_a_tensor_to_one() -> None:
    choice = random.Random(7)
    for _ in range(30):
        layers = [(f"blk.{n // 3}.t{n}.weight", choice.randint(1, 5 * PAGE)) for n in range(9)]
        tensors = table(
            ("token_embd.weight", choice.randint(1, 9 * PAGE)), *layers, OUTPUT, start=choice.randint(0, 999)
        )
        pages = sorted(all_pages(layout(tensors)), key=lambda one: one.start)
        owned = [page for one in pages for page in range(one.start // PAGE, one.end // PAGE)]
        assert len(owned) == len(set(owned))
        needed = {at // PAGE for tensor in tensors for at in range(tensor.offset, tensor.offset + tensor.num_bytes)}
        assert set(owned) == needed


def test_a_layer_that_ends_where_a_page_does_has_no_edge_there() -> None:
    found = layout(table(("blk.0.a.weight", 2 * PAGE), ("blk.1.a.weight", 2 * PAGE), start=PAGE), num_layers=2)
    assert found.edges == ()
    assert found.stages == ((Pages(0, PAGE, 3 * PAGE),), (Pages(0, 3 * PAGE, 5 * PAGE),))


def test_a_layer_smaller_than_a_page_lies_in_edges() -> None:
    found = layout(table(("blk.0.a.weight", 50), ("blk.1.a.weight", 60), ("blk.2.a.weight", 70)))
    assert found.stages == ((), (), ())
    assert found.edges == (Pages(0, 0, PAGE),)


def test_embeddings_are_looked_up_here_and_there_and_the_output_head_is_read_as_a_whole() -> None:
    found = layout(model(OUTPUT))
    assert set(found.scattered) == {"token_embd.weight"}
    assert set(found.pinned) == {"output.weight", "output_norm.weight"}


def test_embeddings_that_are_the_output_head_as_well_are_read_as_a_whole() -> None:
    found = layout(model())
    assert found.scattered == {}
    assert set(found.pinned) == {"token_embd.weight", "output_norm.weight"}


def test_what_lies_on_a_device_takes_no_memory() -> None:
    found = layout(model(OUTPUT), in_memory={0}, head=False)
    assert found.stages[1:] == ((), ())
    assert set(found.pinned) == set()
    assert set(found.scattered) == {"token_embd.weight"}
    assert len(found.edges) == 3


def test_embeddings_that_are_an_output_head_on_a_device_are_looked_up_only() -> None:
    assert set(layout(model(), head=False).scattered) == {"token_embd.weight"}


def test_a_layer_may_be_cut_by_the_end_of_a_file() -> None:
    first = table(("token_embd.weight", PAGE), ("blk.0.a.weight", 4 * PAGE), ("blk.1.a.weight", 2 * PAGE))
    second = table(("blk.1.b.weight", 3 * PAGE), ("blk.2.a.weight", 4 * PAGE), OUTPUT)
    found = layout(first, second)
    assert [pages.part for pages in found.stages[1]] == [0, 1]
    assert {page.part for page in found.edges} == {0, 1}


def test_a_few_tensors_of_a_layer_may_lie_elsewhere() -> None:
    extra = [(f"blk.{layer}.extra.weight", PAGE) for layer in range(3)]
    assert len(layout(model(OUTPUT, *extra)).stages[2]) == 1


def test_layers_that_lie_between_each_other_are_refused() -> None:
    tensors = [(f"blk.{layer}.{name}.weight", PAGE) for name in "abcdef" for layer in range(3)]
    with pytest.raises(NotStreamable, match="between each other"):
        layout(table(*tensors))


def test_layers_of_which_a_token_needs_a_few_experts_are_left_to_the_system() -> None:
    with pytest.raises(NotStreamable, match="experts"):
        layout(model(OUTPUT, ("blk.0.ffn_up_exps.weight", PAGE)))


def test_tensors_that_lie_over_each_other_are_refused() -> None:
    with pytest.raises(NotStreamable, match="share bytes"):
        layout([TensorExtent("blk.0.a.weight", 0, 100), TensorExtent("blk.1.a.weight", 50, 100)])


def test_layers_that_the_model_does_not_have_are_left_alone() -> None:
    found = layout(model(OUTPUT), num_layers=2)
    assert found.num_layers == 2
    assert all(pages.start < 17 * PAGE for stage in found.stages for pages in stage)


# Tensors that lie in memory in another order, and are read from a file of their own.

MATRICES = [f"blk.{layer}.{name}.weight" for layer in range(3) for name in ("attn", "ffn")]


def normed(*others: tuple[str, int]) -> list[TensorExtent]:
    """As a model is: small tensors between the large ones."""
    layers = [
        (f"blk.{layer}.{name}.weight", size)
        for layer in range(3)
        for name, size in (("norm", 64), ("attn", 3 * PAGE), ("ffn", 3 * PAGE))
    ]
    return table(("token_embd.weight", 5 * PAGE), *layers, ("output_norm.weight", 64), *others)


def copied(tensors: Sequence[TensorExtent], names: Sequence[str], first: int, start: int, end: int):
    """The tensors of these names, one behind the other from an address on; those between two addresses count."""
    sizes, addresses = {tensor.name: tensor.num_bytes for tensor in tensors}, {}
    for name in names:
        addresses[name], first = first, first + sizes[name]
    return copied_table([tensors], addresses, start, end)


def test_what_was_copied_is_known_by_its_addresses() -> None:
    tensors, page = normed(OUTPUT), 7 * PAGE
    found = copied(tensors, ["output.weight", *MATRICES], page - 64, page, page + 22 * PAGE - 64)
    # What lies before the first page that counts stays where it is.
    assert found[0] == TensorExtent("output.weight", 0, 4 * PAGE - 64)
    assert found[1] == TensorExtent("blk.0.attn.weight", 4 * PAGE - 64, 3 * PAGE)
    assert found[-1].offset + found[-1].num_bytes == 22 * PAGE - 64


def test_what_has_no_name_is_read_by_each_pass() -> None:
    tensors, page = normed(), 7 * PAGE
    found = copied(tensors, MATRICES, page + 5 * PAGE, page, page + 26 * PAGE)
    assert [tensor for tensor in found if tensor.name not in MATRICES] == [
        TensorExtent("output.weight", 0, 5 * PAGE),
        # Too little to be the head.
        TensorExtent("without a name", 23 * PAGE, 3 * PAGE),
    ]
    assert "without a name" in layout_of([tensors], whole_layers(3), {0, 1, 2}, True, PAGE, found).pinned
    tied = copied(tensors, ["token_embd.weight", *MATRICES], page, page, page + 23 * PAGE)
    assert tied[0].name == "output.weight"


def test_layers_are_read_from_the_copy_and_small_tensors_stay_in_memory() -> None:
    tensors, page = normed(OUTPUT), 7 * PAGE
    extents = copied(tensors, ["output.weight", *MATRICES], page, page, page + 22 * PAGE)
    found = layout_of([tensors], whole_layers(3), {0, 1, 2}, True, PAGE, extents)
    assert found.stages == tuple((Pages(1, (4 + 6 * n) * PAGE, (10 + 6 * n) * PAGE),) for n in range(3))
    assert found.pinned["output.weight"] == (Pages(1, 0, 4 * PAGE),)
    assert set(found.scattered) == {"token_embd.weight"}
    norms = [tensor for tensor in tensors if "norm" in tensor.name]
    kept = {(page.part, page.start // PAGE) for page in found.edges}
    assert all((0, tensor.offset // PAGE) in kept for tensor in norms)
    # Of the copied ones nothing is read from the model's file.
    read = {page for pages in all_pages(found) if pages.part == 0 for page in range(pages.start, pages.end, PAGE)}
    assert len(read) <= 5 + 1 + 2 * len(norms)


def test_large_tensors_that_were_not_copied_are_read_from_the_model_s_file() -> None:
    layers = [(f"blk.{n}.{name}.weight", 2 * SMALL_BYTES) for n in range(3) for name in ("attn", "ffn")]
    tensors = table(("token_embd.weight", 5 * PAGE), *layers, OUTPUT, start=0)
    names = [name for name in MATRICES if "ffn" in name]
    extents = copied(tensors, names, 0, 0, 6 * SMALL_BYTES)
    found = layout_of([tensors], whole_layers(3), {0, 1, 2}, True, PAGE, extents)
    for layer in range(3):
        assert [pages.part for pages in found.stages[layer]] == [0, 1]
        assert found.layer_bytes(layer) == 4 * SMALL_BYTES


def test_of_layers_on_a_device_nothing_is_kept_here() -> None:
    tensors = normed(OUTPUT)
    extents = copied(tensors, ["blk.0.attn.weight", "blk.0.ffn.weight"], 0, 0, 6 * PAGE)
    found = layout_of([tensors], whole_layers(3), {0}, False, PAGE, extents)
    assert found.stages == ((Pages(1, 0, 6 * PAGE),), (), ())
    assert not any("1" in name or "2" in name for name in found.pinned)
