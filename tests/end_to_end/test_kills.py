"""Tests for kill -9 at random moments of add, change, remove, shard rewrite and optimise.

Nothing acknowledged is lost, nothing that was done is done again, nothing that was removed comes back. A child process
keeps a library in step with a folder that this process changes between its lives. Which step of a life the kill falls
on, and how long after it was begun, is drawn from a seed.
"""

from __future__ import annotations

import random
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path

import numpy as np
import pytest

from engine.catalog import Catalog
from engine.library.rows import content_key
from tests.helpers.killed_library import EMBEDDED, REMOVALS, KilledLibrary, use_small_portions
from tests.helpers.library import FakeEmbedder, vector_of

ROOT = Path(__file__).resolve().parents[2]
SEED = 20260
# The steps on which kills fall, each with how often a life takes it at the least.
STEPS = {"add": 3, "change": 1, "remove": 2, "rewrite": 2, "optimise": 1}
# A step takes a few milliseconds; the kill falls on its beginning, its middle, or shortly after its end.
MAX_DELAY_SECONDS = 0.03
LIFE_SECONDS = 120


@dataclass
class World:
    """The folder, what must be true of it, and the lives of the library so far."""

    docs: Path
    home: Path
    chance: random.Random = field(default_factory=lambda: random.Random(SEED))
    removed_by_user: set[Path] = field(default_factory=set)
    gone_words: set[str] = field(default_factory=set)
    acknowledged: set[int] = field(default_factory=set)
    kills: dict[str, int] = field(default_factory=lambda: dict.fromkeys(STEPS, 0))
    _numbers: count[int] = field(default_factory=lambda: count(1))

    # --- what the user does while the library is not running ---

    def files(self) -> list[Path]:
        return sorted(path for path in self.docs.rglob("*.md") if path not in self.removed_by_user)

    def write(self, path: Path) -> None:
        """A file of a few lines that were never written before."""
        number = next(self._numbers)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("".join(f"Word{number}x{line} of a text.\n" for line in range(self.chance.randint(1, 6))))

    def change_something(self) -> None:
        """Adds, changes, removes, renames and copies some files each, and has the user take some out of the library."""
        for _ in range(self.chance.randint(4, 8)):
            self.write(self.docs / f"folder{self.chance.randint(0, 3)}" / f"{next(self._numbers)}.md")
        chosen = self.chance.sample(self.files(), k=min(len(self.files()), 9))
        changed, deleted, renamed, copied, removed = (chosen[place::5] for place in range(5))
        for path in changed:
            self._forget(path)
            self.write(path)
        for path in deleted:
            self._forget(path)
            path.unlink()
        for path in renamed:
            path.rename(path.with_name(f"renamed{next(self._numbers)}.md"))
        for path in copied:
            shutil.copy2(path, path.with_name(f"copy{next(self._numbers)}.md"))
        for path in removed:
            self._forget(path)
            self.removed_by_user.add(path)
        (self.home / REMOVALS).write_text("".join(f"{path}\n" for path in sorted(self.removed_by_user)))

    def _forget(self, path: Path) -> None:
        self.gone_words |= set(path.read_text().split())

    def words_there(self) -> set[str]:
        return {word for path in self.files() for word in path.read_text().split()}

    # --- the library's lives ---

    def life(self, step: str) -> None:
        """Runs the library in a process of its own and kills it at the chosen step, or lets it end if it takes none."""
        durable, start = self.durable_texts(), self.num_embedded()
        nth, delay = self.chance.randint(1, STEPS[step]), self.chance.uniform(0, MAX_DELAY_SECONDS)
        command = [sys.executable, "-m", "tests.helpers.killed_library", str(self.docs), str(self.home)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT) as child:
            assert child.stdout is not None
            for line in child.stdout:
                self._take(line.rstrip("\n"))
                nth -= line.startswith(step)
                if nth == 0:
                    time.sleep(delay)
                    child.kill()
                    break
            for line in child.stdout:
                self._take(line.rstrip("\n"))
            status = child.wait(LIFE_SECONDS)
        assert status in (0, -signal.SIGKILL)
        self.kills[step] += status == -signal.SIGKILL
        self.check_embedded(durable, start)

    def _take(self, line: str) -> None:
        if line.startswith("indexed "):
            self.acknowledged |= set(map(int, line.split()[1:]))

    def num_embedded(self) -> int:
        return len(self._embedded())

    def _embedded(self) -> list[str]:
        file = self.home / EMBEDDED
        return file.read_text().splitlines() if file.exists() else []

    def durable_texts(self) -> set[str]:
        """Texts whose vectors are stored."""
        if not (self.home / "lancedb").exists():
            return set()
        with KilledLibrary(self.home) as library:
            table = library.stores.table
            return {row.indexed_text for document_id in table.document_ids() for row in table.rows_of(document_id)}

    # --- what must be true ---

    def check_embedded(self, durable: set[str], start: int) -> None:
        """What had its vector stored before was not embedded again since."""
        assert durable.isdisjoint(self._embedded()[start:])

    def check_at_once(self) -> None:
        """Right after the kill: of what was acknowledged, all that still lies in the folder is there, with its rows."""
        with KilledLibrary(self.home) as library:
            known = library.catalog.documents_by_id(self.acknowledged)
            rows = library.stores.table.document_ids()
            assert {one.document_id for one in known.values() if one.state == "indexed"} <= rows
            there = {str(path) for path in self.files()}
            lost = [one for one in known.values() if one.path in there and one.embedder and one.document_id not in rows]
            assert lost == []
            library.stores.index.check_integrity()

    def check_after_a_restart(self) -> None:
        """The next start mends what there is to mend, and comes to where it would have come without the kill."""
        durable, start = self.durable_texts(), self.num_embedded()
        with KilledLibrary(self.home) as library:
            library.start()
            library.live(self.docs)
            self._check_agreement(library)
            self._check_that_what_went_stays_away(library)
        self.check_embedded(durable, start)
        self.acknowledged.clear()

    def _check_agreement(self, library: KilledLibrary) -> None:
        documents = {one.path: one for one in library.catalog.documents(limit=-1)[0]}
        assert documents.keys() == {str(path) for path in self.files()}
        assert {one.state for one in documents.values()} <= {"indexed"}
        table = library.stores.table
        assert table.document_ids() == library.catalog.ids_with_rows() == {d.document_id for d in documents.values()}
        for path, document in documents.items():
            rows = table.rows_of(document.document_id)
            assert [row.text for row in rows] == Path(path).read_text().splitlines()
            for row in rows:
                assert row.content_key == content_key(row.indexed_text, FakeEmbedder.identity)
                np.testing.assert_allclose(row.vector, vector_of(row.indexed_text), atol=1e-6)
        library.stores.index.check_integrity()

    def _check_that_what_went_stays_away(self, library: KilledLibrary) -> None:
        there = self.words_there()
        gone = sorted(word for word in self.gone_words - there if word.startswith("Word"))
        for word in self.chance.sample(gone, k=min(len(gone), 20)):
            assert library.stores.table.matching(word, 3) == []
            (found,) = library.stores.index.search(np.stack([vector_of(f"{word} of a text.")]), 1)
            assert all(one.score < 0.999 for one in found)


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    use_small_portions(monkeypatch.setattr)
    docs, home = tmp_path / "docs", tmp_path / "home"
    docs.mkdir()
    home.mkdir()
    made = World(docs, home)
    for number in range(20):
        made.write(docs / f"folder{number % 4}" / f"{number}.md")
    return made


def kill_again_and_again(world: World, num_moments: int) -> None:
    for moment in range(num_moments):
        world.change_something()
        world.life([*STEPS][moment % len(STEPS)])
        world.check_at_once()
        world.check_after_a_restart()


@pytest.mark.expects_warnings
def test_five_kills_lose_nothing_and_repeat_nothing(world: World) -> None:
    kill_again_and_again(world, len(STEPS))

    assert sum(world.kills.values()) >= len(STEPS) - 1


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.expects_warnings
def test_fifty_kills_lose_nothing_and_repeat_nothing(world: World) -> None:
    world.chance.seed(SEED + 1)

    kill_again_and_again(world, 50)

    assert sum(world.kills.values()) >= 40, world.kills
    assert all(world.kills.values()), world.kills


def test_a_catalogue_that_lies_is_found_out(world: World) -> None:
    """The checks themselves: what they are to find, they find."""
    world.check_after_a_restart()
    catalog = Catalog.open(world.home)
    catalog.remove_documents([min(catalog.ids_with_rows())])
    catalog.close()

    with pytest.raises(AssertionError), KilledLibrary(world.home) as library:
        world._check_agreement(library)
