"""The ledger against the kernel: a real engine in a control group of its own, at rest, at work, and after it."""

from __future__ import annotations

from collections.abc import Iterator
from statistics import median

import pytest

from tests.bench.bench_model import QUICK, write_model
from tests.bench.confined import CannotConfine, Group, confined, find
from tests.bench.ledger import LIMIT_BYTES, MAX_ERROR, Look, day, write_documents
from tests.helpers.engine_process import CAREFUL, EngineProcess
from tests.helpers.homes import NewHome

MIB = 2**20
# What the engine may keep of a model that has gone: its vocabulary's scraps, and what libraries learned to do.
LEFT_BYTES = 48 * MIB
AT_REST = ("started", "libraries loaded", "indexed", "model loaded", "answered", "unloaded")
# Batches come and go within a look: single ones may be further off, as long as most are not.
AT_WORK = ("indexing", "answering")
WORST_AT_WORK = 2 * MAX_ERROR


@pytest.fixture(scope="module")
def group() -> Iterator[Group]:
    try:
        parent = find()
    except CannotConfine as error:
        pytest.skip(str(error))
    with confined(LIMIT_BYTES, parent) as made:
        yield made


@pytest.fixture(scope="module")
def looks(group: Group, tmp_path_factory: pytest.TempPathFactory, new_home: NewHome) -> list[Look]:
    """One day of an engine with 66 MB of weights and a hundred passages."""
    folder = tmp_path_factory.mktemp("ledger")
    model = folder / "quick.gguf"
    write_model(model, QUICK)
    documents = write_documents(folder / "documents", 100)
    with EngineProcess(new_home(folder / "home"), None, CAREFUL, entered=group.entered) as engine:
        return list(day(engine, group, documents, model, answer_tokens=32))


def of_phase(looks: list[Look], phase: str) -> list[Look]:
    found = [look for look in looks if look.phase == phase]
    assert found, f"nothing was seen while {phase}"
    return found


@pytest.mark.slow
@pytest.mark.parametrize("phase", AT_REST)
def test_at_rest_the_ledger_agrees_with_the_kernel(looks: list[Look], phase: str):
    for look in of_phase(looks, phase):
        assert abs(look.error) <= MAX_ERROR, look.describe()


@pytest.mark.slow
@pytest.mark.parametrize("phase", AT_WORK)
def test_at_work_it_agrees_too(looks: list[Look], phase: str):
    found = of_phase(looks, phase)
    assert median(abs(look.error) for look in found) <= MAX_ERROR, "\n".join(look.describe() for look in found)
    worst = max(found, key=lambda look: abs(look.error))
    assert abs(worst.error) <= WORST_AT_WORK, worst.describe()


@pytest.mark.slow
def test_what_is_released_goes_back_to_the_system(looks: list[Look]):
    before, with_model, after = (of_phase(looks, phase)[-1] for phase in ("indexed", "answered", "unloaded"))
    assert with_model.most_bytes - before.most_bytes > 150 * MIB
    assert after.most_bytes - before.most_bytes < LEFT_BYTES, after.describe()


@pytest.mark.slow
def test_the_engine_itself_knows_what_it_cannot_name(looks: list[Look]):
    for look in looks:
        # What is missing is told as such, within what changes between two counts: batches come and go.
        least, most = (max(0, counted - look.named_bytes) for counted in (look.least_bytes, look.most_bytes))
        nearest = min(max(look.unaccounted_bytes, least), most)
        assert abs(look.unaccounted_bytes - nearest) <= MAX_ERROR * look.most_bytes, look.describe()
