"""Tests for engine.generation.weights.extents."""

from __future__ import annotations

import random
from collections.abc import Sequence

import pytest

from engine.errors import NotStreamable
from engine.generation.weights.extents import Layout, Pages, layout_of
from engine.models.gguf import TensorExtent

PAGE = 4096


def table(*tensors: tuple[str, int], start: int = 100) -> list[TensorExtent]:
    """Tensors one behind the other."""
    found = []
    for name, num_bytes in tensors:
        found.append(TensorExtent(name, start, num_bytes))
        start += num_bytes
    return found


def layout(*tables: Sequence[TensorExtent], num_layers: int = 3, in_memory: set[int] | None = None, head: bool = True):
    return layout_of(tables, num_layers, set(range(num_layers)) if in_memory is None else in_memory, head, PAGE)


def model(*others: tuple[str, int]) -> list[TensorExtent]:
    layers = [(f"blk.{layer}.{name}.weight", 3 * PAGE) for layer in range(3) for name in ("attn", "ffn")]
    return table(("token_embd.weight", 5 * PAGE), *layers, ("output_norm.weight", 64), *others)


OUTPUT = ("output.weight", 4 * PAGE)


def all_pages(found: Layout) -> list[Pages]:
    tensors = [*found.layers, *found.pinned.values(), *found.scattered.values()]
    return [*(pages for tensor in tensors for pages in tensor), *found.edges]


def test_a_layer_has_the_whole_pages_of_its_tensors_and_neighbours_share_an_edge() -> None:
    found = layout(model(OUTPUT))
    start = 100 + 5 * PAGE
    for layer in range(3):
        (pages,) = found.layers[layer]
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
    assert found.layers == ((Pages(0, PAGE, 3 * PAGE),), (Pages(0, 3 * PAGE, 5 * PAGE),))


def test_a_layer_smaller_than_a_page_lies_in_edges() -> None:
    found = layout(table(("blk.0.a.weight", 50), ("blk.1.a.weight", 60), ("blk.2.a.weight", 70)))
    assert found.layers == ((), (), ())
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
    assert found.layers[1:] == ((), ())
    assert set(found.pinned) == set()
    assert set(found.scattered) == {"token_embd.weight"}
    assert len(found.edges) == 3


def test_embeddings_that_are_an_output_head_on_a_device_are_looked_up_only() -> None:
    assert set(layout(model(), head=False).scattered) == {"token_embd.weight"}


def test_a_layer_may_be_cut_by_the_end_of_a_file() -> None:
    first = table(("token_embd.weight", PAGE), ("blk.0.a.weight", 4 * PAGE), ("blk.1.a.weight", 2 * PAGE))
    second = table(("blk.1.b.weight", 3 * PAGE), ("blk.2.a.weight", 4 * PAGE), OUTPUT)
    found = layout(first, second)
    assert [pages.part for pages in found.layers[1]] == [0, 1]
    assert {page.part for page in found.edges} == {0, 1}


def test_a_few_tensors_of_a_layer_may_lie_elsewhere() -> None:
    extra = [(f"blk.{layer}.extra.weight", PAGE) for layer in range(3)]
    assert len(layout(model(OUTPUT, *extra)).layers[2]) == 1


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
    assert all(pages.start < 17 * PAGE for layer in found.layers for pages in layer)
