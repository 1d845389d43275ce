"""Tests for engine.embedder.model, with the real model."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from engine.config import EmbedderSettings
from engine.embedder import Embedder, backends, model, resolve
from engine.embedder.bert_numpy import NumpyBert
from engine.embedder.model import COMING_BYTES
from engine.embedder.setup import Setup
from engine.embedder.spec import EmbedderSpec
from engine.embedder.turnstile import Turnstile
from engine.embedder.workers import at_once
from engine.errors import EmbedderUnavailable
from engine.giving_way import GivingWay
from engine.memory.ledger import Growth, Ledger
from tests.helpers.tiny_embedder import write_tiny_embedder

TEXTS = ["A mutex guards shared data.", "Bread needs flour.", "", "long " * 2000, "Threads share state safely."]


def test_vectors_are_unit_length_and_in_order_of_the_texts(minilm: Embedder):
    together = minilm.embed_documents(TEXTS)
    alone = np.concatenate([minilm.embed_documents([text]) for text in TEXTS])
    assert together.shape == (len(TEXTS), 384)
    assert together.dtype == np.float32
    np.testing.assert_allclose(np.linalg.norm(together, axis=1), 1.0, atol=1e-5)
    np.testing.assert_allclose(np.sum(together * alone, axis=1), 1.0, atol=2e-2)


def test_a_question_is_closest_to_its_answer(minilm: Embedder):
    cosines = minilm.embed_documents(TEXTS) @ minilm.embed_questions(["How is data protected by a lock?"])[0]
    assert int(np.argmax(cosines)) == 0


def test_no_texts_make_no_vectors(minilm: Embedder):
    assert minilm.embed_documents([]).shape == (0, 384)
    assert minilm.embed_whole([]).shape == (0, 384)


def test_of_a_text_of_any_length_the_end_counts_as_well(minilm: Embedder):
    filler, end = "The harvest was good and the barns were full of grain. " * 40, "A mutex guards shared data. " * 40
    cut, ends = minilm.embed_documents([filler, filler + end])
    np.testing.assert_allclose(cut @ ends, 1.0, atol=1e-2)
    without, with_end, short = minilm.embed_whole([filler, filler + end, TEXTS[0]])
    assert without @ with_end < 0.9
    np.testing.assert_allclose(np.linalg.norm(with_end), 1.0, atol=1e-5)
    np.testing.assert_allclose(short @ minilm.embed_documents(TEXTS[:1])[0], 1.0, atol=1e-2)


def test_ledger_knows_the_weights_until_they_are_unloaded():
    ledger = Ledger()
    embedder = Embedder(resolve(EmbedderSettings()), EmbedderSettings(), ledger)
    assert ledger.held_bytes("ram") == 0
    embedder.load()
    embedder.load()
    assert 40 * 2**20 < ledger.held_bytes("ram", "embedder") < 120 * 2**20
    embedder.unload()
    embedder.unload()
    assert ledger.spans() == ()
    assert not embedder.is_loaded


@pytest.fixture
def movable(monkeypatch: pytest.MonkeyPatch) -> tuple[Embedder, Ledger]:
    """An embedder beside a card that is really this processor."""
    monkeypatch.setattr(backends, "has_card", lambda: True)
    monkeypatch.setitem(backends._TORCH_NAMES, "card", "cpu")
    monkeypatch.setattr(model, "torch_held_bytes", lambda: 123)
    ledger = Ledger()
    # Both are said, so that whatever was measured a reload makes the same vectors.
    settings = EmbedderSettings(backend="sentence-transformers", number_format="float32")
    embedder = Embedder(resolve(EmbedderSettings()), settings, ledger)
    assert embedder.movable_bytes == 0
    embedder.load()
    yield embedder, ledger
    embedder.unload()
    assert ledger.spans() == ()


def test_it_moves_to_a_card_and_back_and_the_ledger_follows(movable):
    embedder, ledger = movable
    before, in_memory = embedder.embed_documents(TEXTS), ledger.held_bytes("ram", "embedder")
    assert embedder.movable_bytes > 40 * 2**20
    embedder.move("card")
    embedder.move("card")
    ledger.look()
    assert (embedder.place, ledger.held_bytes("gpu", "embedder")) == ("card", 123)
    assert in_memory - ledger.held_bytes("ram", "embedder") > 40 * 2**20
    np.testing.assert_array_equal(embedder.embed_documents(TEXTS), before)
    embedder.move("memory")
    ledger.look()
    assert (embedder.place, ledger.held_bytes("gpu")) == ("memory", 0)
    assert in_memory == ledger.held_bytes("ram", "embedder")


@pytest.mark.expects_warnings
def test_a_card_that_refuses_it_is_not_tried_again(movable, monkeypatch: pytest.MonkeyPatch):
    embedder, ledger = movable
    monkeypatch.setitem(backends._TORCH_NAMES, "card", "no such card")
    before = ledger.spans()
    embedder.move("card")
    assert (embedder.place, embedder.movable_bytes, ledger.spans()) == ("memory", 0, before)
    assert embedder.embed_documents(TEXTS).shape == (len(TEXTS), 384)


def test_an_unloaded_embedder_loads_itself_again():
    embedder = Embedder(resolve(EmbedderSettings()), EmbedderSettings(), Ledger())
    assert embedder.embed_questions(["anything"]).shape == (1, 384)
    embedder.unload()


def test_a_folder_that_cannot_be_loaded_is_told_with_a_way_out(tmp_path: Path):
    spec = replace(resolve(EmbedderSettings()), folder=tmp_path, name="broken")
    with pytest.raises(EmbedderUnavailable, match="'broken' cannot be loaded") as failed:
        Embedder(spec, EmbedderSettings(), Ledger()).load()
    assert failed.value.way_out


@pytest.fixture
def with_torch() -> Iterator[Embedder]:
    embedder = Embedder(resolve(EmbedderSettings()), EmbedderSettings(backend="sentence-transformers"), Ledger())
    embedder.load()
    yield embedder
    embedder.unload()


def test_a_question_waits_for_one_small_batch_of_documents_only(with_torch: Embedder, monkeypatch: pytest.MonkeyPatch):
    order: list[str] = []
    inside, go_on = threading.Event(), threading.Event()
    real = backends.Model.encode

    def recorded(loaded: backends.Model, texts: list[str], *, is_question: bool) -> np.ndarray:
        order.append("question" if is_question else "documents")
        inside.set()
        assert go_on.wait(60)
        return real(loaded, texts, is_question=is_question)

    monkeypatch.setattr(backends.Model, "encode", recorded)
    monkeypatch.setattr(with_torch, "_setup", Setup(batch_size=8))
    monkeypatch.setattr(with_torch._turnstile, "num_places", 1)
    indexing = threading.Thread(target=with_torch.embed_documents, args=(["a passage"] * 40,))
    asking = threading.Thread(target=with_torch.embed_questions, args=(["a question"],))
    indexing.start()
    assert inside.wait(60)
    asking.start()
    while not with_torch._turnstile._urgent_waiting:
        threading.Event().wait(0.001)
    go_on.set()
    indexing.join(60)
    asking.join(60)
    assert order == ["documents", "question", "documents", "documents", "documents", "documents"]


@pytest.fixture
def light(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Embedder, Ledger]]:
    """An embedder that takes torch as soon as it may, after a batch of documents."""
    monkeypatch.setattr(model, "WORTH_LOADING_SECONDS", 0.0)
    ledger = Ledger()
    free = [model.ROOM_BYTES]
    embedder = Embedder(resolve(EmbedderSettings()), EmbedderSettings(), ledger, free_bytes=lambda: free[0])
    embedder.free = free
    yield embedder, ledger
    embedder.unload()
    assert ledger.spans() == ()


def _backend(embedder: Embedder) -> str:
    assert embedder.setup is not None
    return embedder.setup.backend


def test_torch_comes_when_documents_have_taken_long_enough(light, monkeypatch: pytest.MonkeyPatch):
    embedder, ledger = light
    monkeypatch.setattr(model, "WORTH_LOADING_SECONDS", float("inf"))
    asked = embedder.embed_questions(["What does bread need?"])
    before = embedder.embed_documents(TEXTS)
    monkeypatch.setattr(model, "WORTH_LOADING_SECONDS", 0.0)
    embedder.embed_documents(TEXTS, is_urgent=True)
    embedder.embed_questions(["And what does dough need?"])
    assert _backend(embedder) == "numpy"
    # In the middle of it, and what is left goes on with it.
    after = embedder.embed_documents(TEXTS)
    assert _backend(embedder) == "sentence-transformers"
    assert np.sum(before * after, axis=1).min() > 0.99
    # The same model, counted once, however much of its file was in memory before; and questions stay where they wait
    # for nobody.
    assert ledger.held_bytes("ram", "embedder", is_mapped=True) < 120 * 2**20
    assert ledger.held_bytes("ram", "runtime") == 0
    embedder._questions = {}
    np.testing.assert_array_equal(embedder.embed_questions(["What does bread need?"]), asked)


def test_while_somebody_waits_torch_does_not_come_and_sentences_of_the_question_do_not_rest(
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.setattr(model, "WORTH_LOADING_SECONDS", 0.0)
    is_waiting, rested = [True], []
    giving_way = GivingWay(lambda: 0.5 if is_waiting[0] else 1.0, lambda: float(len(rested)), rested.append)
    embedder = Embedder(resolve(EmbedderSettings()), EmbedderSettings(), Ledger(), giving_way=giving_way)
    try:
        embedder.embed_documents(TEXTS, is_urgent=True)
        assert not rested
        embedder.embed_documents(TEXTS)
        assert _backend(embedder) == "numpy"
        is_waiting[0] = False
        embedder.embed_documents(TEXTS)
        assert _backend(embedder) == "sentence-transformers"
    finally:
        embedder.unload()


def test_a_question_that_comes_while_torch_is_loaded_has_the_rest_put_off(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(model, "WORTH_LOADING_SECONDS", 0.0)
    is_waiting, num_loads = [False], [0]
    giving_way = GivingWay(lambda: 0.5 if is_waiting[0] else 1.0, sleep=lambda seconds: None)
    ledger = Ledger()
    embedder = Embedder(resolve(EmbedderSettings()), EmbedderSettings(), ledger, giving_way=giving_way)
    load_libraries = backends.load_libraries

    def loaded_while_somebody_comes(spec: EmbedderSpec) -> None:
        num_loads[0] += 1
        load_libraries(spec)
        is_waiting[0] |= num_loads[0] == 1

    monkeypatch.setattr(backends, "load_libraries", loaded_while_somebody_comes)
    try:
        embedder.embed_documents(TEXTS)
        assert _backend(embedder) == "numpy"
        assert ledger.held_bytes("ram", "runtime") == 0
        is_waiting[0] = False
        embedder.embed_documents(TEXTS)
        assert _backend(embedder) == "sentence-transformers"
    finally:
        embedder.unload()
    assert ledger.spans() == ()


def test_it_does_not_come_where_memory_has_no_room_until_there_is_some(light):
    embedder, ledger = light
    embedder.free[0] -= 1
    for _ in range(4):
        assert embedder.embed_documents(TEXTS[:2]).shape == (2, 384)
    assert (_backend(embedder), ledger.held_bytes("ram", "runtime")) == ("numpy", 0)
    embedder.free[0] += 1
    for _ in range(2):
        embedder.embed_documents(TEXTS[:2])
    assert _backend(embedder) == "sentence-transformers"


def test_others_go_on_and_see_that_room_is_wanted_while_torch_comes(light, monkeypatch: pytest.MonkeyPatch):
    embedder, ledger = light
    inside, go_on = threading.Event(), threading.Event()
    real = backends.load

    def slow(spec: EmbedderSpec) -> backends.Model:
        inside.set()
        assert go_on.wait(60)
        return real(spec)

    monkeypatch.setattr(backends, "load", slow)
    loading = threading.Thread(target=embedder.embed_documents, args=(TEXTS,))
    loading.start()
    assert inside.wait(60)
    assert (ledger.reserved_bytes("ram"), ledger.held_bytes("ram", "runtime")) == (COMING_BYTES, 0)
    assert embedder.embed_documents(TEXTS[:2]).shape == (2, 384)
    assert embedder.embed_questions(["Is anybody here?"]).shape == (1, 384)
    go_on.set()
    loading.join(60)
    assert _backend(embedder) == "sentence-transformers"
    assert ledger.reserved_bytes("ram") == 0


def test_what_comes_is_measured_between_moments_at_which_nothing_is_computed(light):
    embedder, ledger = light
    turnstile, are_kept_out = embedder._turnstile, list[bool]()

    @contextmanager
    def growing(owner: str, what: str) -> Iterator[Growth]:
        are_kept_out.append(turnstile.num_inside == turnstile.num_places)
        yield Growth()
        are_kept_out.append(turnstile.num_inside == turnstile.num_places)

    ledger.growing = growing
    for _ in range(2):
        embedder.embed_documents(TEXTS[:2])
    assert _backend(embedder) == "sentence-transformers"
    assert are_kept_out == [True] * 6


@pytest.mark.expects_warnings
def test_where_torch_cannot_be_had_documents_go_on_without_it(light, monkeypatch: pytest.MonkeyPatch):
    embedder, ledger = light
    tries: list[EmbedderSpec] = []

    def broken(spec: EmbedderSpec) -> backends.Model:
        tries.append(spec)
        raise RuntimeError("a library is broken")

    monkeypatch.setattr(backends, "load", broken)
    for _ in range(4):
        assert embedder.embed_documents(TEXTS[:2]).shape == (2, 384)
    assert (len(tries), _backend(embedder), ledger.held_bytes("ram", "runtime")) == (1, "numpy", 0)


def test_a_model_whose_folder_is_gone_goes_on_as_it_was_loaded(light, monkeypatch: pytest.MonkeyPatch):
    embedder, _ = light
    monkeypatch.setattr(model, "WORTH_LOADING_SECONDS", 0.0)

    def gone() -> int:
        raise FileNotFoundError("its folder")

    embedder._free_bytes = gone
    for _ in range(2):
        assert embedder.embed_documents(TEXTS[:2]).shape == (2, 384)
    assert _backend(embedder) == "numpy"


def test_a_question_waits_for_no_documents_where_numpy_computes_both(light, monkeypatch: pytest.MonkeyPatch):
    embedder, _ = light
    embedder.load()
    inside, go_on = threading.Event(), threading.Event()
    real = NumpyBert.encode

    def held(bert: NumpyBert, texts: list[str], *, is_question: bool) -> np.ndarray:
        if not is_question:
            inside.set()
            assert go_on.wait(60)
        return real(bert, texts, is_question=is_question)

    monkeypatch.setattr(NumpyBert, "encode", held)
    indexing = threading.Thread(target=embedder.embed_documents, args=(["a passage"] * 80,))
    indexing.start()
    assert inside.wait(60)
    assert embedder.embed_questions(["a question"]).shape == (1, 384)
    go_on.set()
    indexing.join(60)


@pytest.mark.parametrize(
    "settings", [EmbedderSettings(backend="sentence-transformers"), EmbedderSettings(number_format="float32")]
)
def test_who_says_how_it_is_to_be_run_gets_that(settings: EmbedderSettings):
    embedder = Embedder(resolve(settings), settings, Ledger())
    embedder.embed_questions(["anything"])
    assert _backend(embedder) == "sentence-transformers"
    embedder.unload()


def test_texts_are_as_long_as_their_tokens_whatever_their_script():
    model = backends.load(resolve(EmbedderSettings()))
    texts = ["bread", "bread needs flour", "租约可以在任何月底终止", "long " * 2000, ""]
    assert model.lengths(texts) == [3, 5, len(texts[2]) + 2, 2002, 2]


@pytest.mark.parametrize("load", [backends.load, backends.load_whole])
def test_batches_at_once_make_the_vectors_of_one_after_the_other(load: Callable[[EmbedderSpec], backends.Model]):
    whole = load(resolve(EmbedderSettings()))
    texts = [f"Passage {number}: " + "bread needs flour. " * (number % 9) for number in range(24)]
    expected = whole.encode(texts, is_question=False)
    models = whole.for_workers(2)
    vectors = np.zeros_like(expected)
    free = list(models)

    def encode(batch: list[int]) -> None:
        model = free.pop()
        vectors[batch] = model.encode([texts[index] for index in batch], is_question=False)
        free.append(model)

    at_once(2, encode, [[first, first + 1] for first in range(0, 24, 2)])

    # That of sentence-transformers serves one thread at a time.
    shares_its_tokenizer = models[0]._model.tokenizer is models[1]._model.tokenizer
    assert shares_its_tokenizer == (load is backends.load)
    weights = [[tensor.data_ptr() for tensor in model._model.parameters()] for model in models]
    assert weights[0] == weights[1]
    np.testing.assert_allclose(np.sum(vectors * expected, axis=1), 1.0, atol=1e-5)


def test_half_precision_makes_the_same_vectors():
    whole = backends.load(resolve(EmbedderSettings()))
    half = whole.with_number_format("bfloat16")
    texts = ["A mutex guards shared data.", "Bread needs flour."]

    cosines = np.sum(whole.encode(texts, is_question=False) * half.encode(texts, is_question=False), axis=1)

    assert half.num_bytes < 0.6 * whole.num_bytes
    assert cosines.min() > 0.99


def test_how_it_is_run_is_told_once_it_is_loaded(minilm: Embedder):
    assert Embedder(minilm.spec, EmbedderSettings(), Ledger()).description == ""
    assert minilm.setup is not None
    assert minilm.description.startswith(minilm.setup.describe(256))


def test_openvino_makes_the_same_vectors_and_its_export_is_kept(tmp_path: Path):
    pytest.importorskip("openvino", reason="the extra `fast` is not installed")
    whole = backends.load(resolve(EmbedderSettings()))
    texts = ["A mutex guards shared data.", "Bread needs flour. " * 50]
    plain = whole.encode(texts, is_question=False)

    for _ in range(2):
        other = whole.through_openvino("float32", 2, tmp_path)
        assert np.sum(plain * other.encode(texts, is_question=False), axis=1).min() > 0.999
    assert [file.suffix for file in sorted(tmp_path.iterdir())] == [".bin", ".xml"]
    np.testing.assert_array_equal(whole.encode(texts, is_question=False), plain)


def test_an_export_that_was_cut_short_is_made_anew(tmp_path: Path):
    pytest.importorskip("openvino", reason="the extra `fast` is not installed")
    whole = backends.load(resolve(EmbedderSettings()))
    whole.through_openvino("float32", 2, tmp_path)
    [made] = tmp_path.glob("*.xml")
    made.write_bytes(made.read_bytes()[:500])
    again = whole.through_openvino("float32", 2, tmp_path).encode(["A text."], is_question=False)
    np.testing.assert_allclose(again, whole.encode(["A text."], is_question=False), atol=1e-3)
    assert sorted(file.suffix for file in tmp_path.iterdir()) == [".bin", ".xml"]


@pytest.mark.parametrize("saved_as", ["float16", "bfloat16"])
def test_weights_that_were_saved_in_half_are_computed_with_in_whole(tmp_path: Path, saved_as: str):
    import torch
    from safetensors.torch import load_file, save_file

    folder = write_tiny_embedder(tmp_path / "half")
    file, config = folder / "model.safetensors", folder / "config.json"
    halves = {name: tensor.to(getattr(torch, saved_as)) for name, tensor in load_file(file).items()}
    save_file(halves, file, {"format": "pt"})
    config.write_text(json.dumps({**json.loads(config.read_text()), "dtype": saved_as}))
    model = backends.load_whole(resolve(EmbedderSettings(model=str(folder))))
    assert {tensor.dtype for tensor in model._model.parameters()} == {torch.float32}


def test_a_question_that_was_just_searched_for_is_not_computed_again(minilm, monkeypatch: pytest.MonkeyPatch):
    questions = ["How is data protected by a lock?", "What is a trait object?"]
    vectors = minilm.embed_questions(questions)
    computed: list[list[str]] = []
    encode = minilm._encode

    def counted(texts: list[str], is_question: bool, is_urgent: bool):
        computed.append(texts)
        return encode(texts, is_question, is_urgent)

    monkeypatch.setattr(minilm, "_encode", counted)
    again = minilm.embed_questions(questions[1:])
    assert computed == []
    np.testing.assert_array_equal(again, vectors[1:])
    again[:] = 0
    np.testing.assert_array_equal(minilm.embed_questions(questions), vectors)
    minilm.embed_questions(["And another one?"])
    minilm.embed_questions(questions[:1])
    assert computed == [["And another one?"]]
    # Of those that come together, only what is new is.
    np.testing.assert_allclose(minilm.embed_questions([*questions, "A third?"])[:2], vectors)
    assert computed[1:] == [["A third?"]]
    # A passage is no question, where a model tells them apart.
    minilm.embed_documents(questions[:1])
    assert len(computed) == 3
    minilm.embed_questions([f"What is question {number}?" for number in range(64)])
    computed.clear()
    minilm.embed_questions(questions[:1])
    assert computed == [questions[:1]]
    assert minilm.embed_questions([]).shape == (0, minilm.dimensions)


@pytest.mark.parametrize(("num_unloaded", "is_embedded"), [(1, True), (100, False)])
def test_a_batch_whose_model_is_unloaded_before_its_turn_is_tried_again(
    movable, monkeypatch: pytest.MonkeyPatch, num_unloaded: int, is_embedded: bool
):
    embedder, _ = movable
    before = embedder.embed_documents(TEXTS)
    enter, left = Turnstile._enter, [num_unloaded]

    def after_an_unload(turnstile: Turnstile, is_urgent: bool) -> int:
        # As where another worker has lost the card between `load` and this one's turn.
        if left[0]:
            left[0] -= 1
            embedder._models = ()
        return enter(turnstile, is_urgent)

    monkeypatch.setattr(Turnstile, "_enter", after_an_unload)
    models = embedder._models
    load = embedder.load
    monkeypatch.setattr(embedder, "load", lambda: setattr(embedder, "_models", models) or load())
    if is_embedded:
        np.testing.assert_allclose(embedder.embed_documents(TEXTS), before, atol=1e-5)
    else:
        with pytest.raises(EmbedderUnavailable, match="unloaded meanwhile"):
            embedder.embed_documents(TEXTS)
    left[0] = 0
    embedder.load()


@pytest.mark.expects_warnings
@pytest.mark.parametrize("can_come_back", [True, False], ids=["out of memory", "lost"])
def test_a_card_that_fails_while_it_computes_costs_no_text(
    movable, monkeypatch: pytest.MonkeyPatch, can_come_back: bool
):
    embedder, ledger = movable
    before = embedder.embed_documents(TEXTS)
    encode, move = backends.BertModel._encode, backends.Model.move

    def failing(model: backends.BertModel, texts: list[str], is_question: bool) -> backends.Vectors:
        if embedder.place == "card":
            raise RuntimeError("CUDA error: out of memory")
        return encode(model, texts, is_question)

    def lost(model: backends.Model, to: backends.Place) -> None:
        if to == "memory":
            raise RuntimeError("CUDA error: the device is lost")
        move(model, to)

    monkeypatch.setattr(backends.BertModel, "_encode", failing)
    if not can_come_back:
        monkeypatch.setattr(backends.Model, "move", lost)
    embedder.move("card")
    np.testing.assert_allclose(embedder.embed_documents(TEXTS), before, atol=1e-5)
    ledger.look()
    assert (embedder.place, embedder.movable_bytes, ledger.held_bytes("gpu")) == ("memory", 0, 0)
    assert ledger.held_bytes("ram", "embedder") > 40 * 2**20
    embedder.move("card")
    assert embedder.place == "memory"


@pytest.mark.expects_warnings
def test_a_card_that_gives_nothing_back_is_left_all_the_same(movable, monkeypatch: pytest.MonkeyPatch):
    embedder, ledger = movable
    embedder.move("card")

    def lost(model: backends.Model, to: backends.Place) -> None:
        raise RuntimeError("CUDA error: the device is lost")

    with monkeypatch.context() as patched:
        patched.setattr(backends.Model, "move", lost)
        embedder.move("memory")
    assert (embedder.place, ledger.spans()) == ("memory", ())
    assert embedder.embed_documents(TEXTS).shape == (len(TEXTS), 384)


def test_an_error_that_is_no_cards_is_told(movable, monkeypatch: pytest.MonkeyPatch):
    def failing(model: backends.BertModel, texts: list[str], is_question: bool) -> backends.Vectors:
        raise RuntimeError("a shape of ours is wrong")

    monkeypatch.setattr(backends.BertModel, "_encode", failing)
    with pytest.raises(RuntimeError, match="of ours"):
        movable[0].embed_documents(TEXTS)
