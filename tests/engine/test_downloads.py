"""Tests for engine.downloads, with files that come as the test wants."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Generator, Iterator

import pytest

from engine.core import Download
from engine.downloads import AGAIN_SECONDS, JUDGE_SECONDS, LONGEST_PAUSE_SECONDS, WINDOW_SECONDS, Downloads, Speed
from engine.errors import DownloadCut, DownloadFailed
from engine.events import DownloadsChanged
from engine.models.fetched import Fetched
from engine.models.source import Source

PATIENCE_S = 20.0
A, B = Source("o/n", "a.gguf"), Source("o/n", "b.gguf")


class Network:
    """Brings ten bytes of each file, one with each `step`, and notes what was `begun` and `closed`."""

    def __init__(self) -> None:
        self.begun: list[Source] = []
        self.closed: list[Source] = []
        self.error: Exception | None = None
        self._steps = threading.Semaphore(0)
        self.told: list[dict[str, Download]] = []
        self._changed = threading.Condition()

    def step(self, count: int = 1) -> None:
        self._steps.release(count)

    def fetch(self, source: Source, pause: Callable[[float], object]) -> Generator[Fetched, None, None]:
        self.begun.append(source)
        try:
            for done in range(1, 11):
                assert self._steps.acquire(timeout=PATIENCE_S)
                if self.error is not None:
                    raise self.error
                yield Fetched(done, 10, is_new=done > 1)
        finally:
            self.closed.append(source)

    def hear(self, event: object) -> None:
        assert isinstance(event, DownloadsChanged)
        with self._changed:
            self.told.append({download.source: download for download in event.downloads})
            self._changed.notify_all()

    def wait_for(self, source: Source, state: str) -> Download:
        """What is told of a file once it is in a state."""

        def is_there() -> bool:
            return bool(self.told) and str(source) in self.told[-1] and self.told[-1][str(source)].state == state

        assert self.wait_until(is_there), self.told[-1:]
        return self.told[-1][str(source)]

    def wait_until(self, is_so: Callable[[], bool]) -> bool:
        with self._changed:
            return self._changed.wait_for(is_so, PATIENCE_S)


@pytest.fixture
def network() -> Network:
    return Network()


@pytest.fixture
def downloads(network: Network) -> Iterator[Downloads]:
    seconds = iter(range(10**6))
    made = Downloads(network.fetch, network.hear, lambda: float(next(seconds)))
    yield made
    network.step(100)
    made.stop()


def test_one_is_fetched_at_a_time_and_others_wait(network: Network, downloads: Downloads):
    downloads.start(A)
    downloads.start(B)
    downloads.start(A)
    network.step()
    assert network.wait_for(A, "checking").num_bytes == 1
    network.step()
    fetching = network.wait_for(A, "fetching")
    assert (fetching.num_bytes, fetching.total_bytes) == (2, 10)
    assert network.told[-1][str(B)].state == "waiting"
    assert network.begun == [A]
    network.step(8)
    done = network.wait_for(A, "there")
    assert (done.num_bytes, done.bytes_per_second, done.seconds_left) == (10, None, None)
    network.step(10)
    network.wait_for(B, "there")
    assert network.begun == [A, B]


def test_one_that_is_cancelled_keeps_its_part_and_lets_the_next_begin(network: Network, downloads: Downloads):
    downloads.start(A)
    downloads.start(B)
    network.step(3)
    network.wait_for(A, "fetching")
    downloads.cancel(A)
    # Told at once, whatever the connection does.
    assert network.told[-1][str(A)].state == "part"
    network.step(11)
    network.wait_for(B, "there")
    assert network.closed[0] == A
    assert network.told[-1][str(A)].state == "part"


def test_one_that_is_forgotten_is_told_of_no_more(network: Network, downloads: Downloads):
    downloads.start(A)
    network.step(3)
    network.wait_for(A, "fetching")
    downloads.forget(A)
    assert network.told[-1] == {}
    downloads.start(B)
    network.step(11)
    network.wait_for(B, "there")
    assert list(network.told[-1]) == [str(B)]


def test_one_that_waits_can_be_cancelled_and_wanted_again(network: Network, downloads: Downloads):
    downloads.start(A)
    downloads.start(B)
    downloads.cancel(B)
    assert network.told[-1][str(B)] == Download(str(B))
    downloads.cancel(B)
    downloads.start(B)
    network.step(20)
    network.wait_for(B, "there")
    assert network.begun == [A, B]


def test_one_that_is_wanted_again_while_it_stops_begins_again(network: Network, downloads: Downloads):
    downloads.start(A)
    network.step(2)
    network.wait_for(A, "fetching")
    downloads.cancel(A)
    downloads.start(A)
    assert network.told[-1][str(A)].state == "waiting"
    network.step(11)
    network.wait_for(A, "there")
    assert network.begun == [A, A]


def test_what_went_wrong_is_told_until_it_is_tried_again(network: Network, downloads: Downloads):
    network.error = DownloadFailed("The hub is closed.", "Come back.")
    downloads.start(A)
    network.step()
    failed = network.wait_for(A, "absent")
    assert (failed.problem, failed.way_out) == ("The hub is closed.", "Come back.")
    network.error = None
    downloads.start(A)
    assert network.told[-1][str(A)].problem == ""
    network.step(10)
    network.wait_for(A, "there")


CUT = DownloadCut("The hub cannot be reached.", "Try again.")


@pytest.fixture
def stubborn(network: Network) -> Iterator[Downloads]:
    """Tries again at once."""
    seconds = iter(range(10**6))
    made = Downloads(network.fetch, network.hear, lambda: float(next(seconds)), again_s=(0.0,))
    yield made
    made.stop()


def test_one_that_was_cut_goes_on_by_itself(network: Network, stubborn: Downloads):
    stubborn.start(A)
    network.step(2)
    network.wait_for(A, "fetching")
    network.error = CUT
    network.step()
    told = network.told
    # Tried again at once, it need not be the last that is told.
    assert network.wait_until(lambda: any(one[str(A)].state == "cut" for one in told))
    cut = next(one[str(A)] for one in told if one[str(A)].state == "cut")
    assert (cut.num_bytes, cut.problem) == (2, CUT.sentence)
    assert "by itself" in cut.way_out
    network.error = None
    network.step(10)
    assert network.wait_for(A, "there").problem == ""
    assert network.begun == [A, A]


def test_one_that_was_cut_says_when_it_tries_again_and_holds_up_no_other(network: Network, downloads: Downloads):
    before = time.time()
    network.error = CUT
    downloads.start(A)
    network.step()
    again_at = network.wait_for(A, "cut").again_at
    assert again_at is not None
    assert again_at >= before + AGAIN_SECONDS[0]
    network.error = None
    downloads.start(B)
    network.step(10)
    network.wait_for(B, "there")
    assert network.begun == [A, B]
    # Who asks for it again need not wait.
    downloads.start(A)
    network.step(10)
    network.wait_for(A, "there")


def test_who_asks_again_for_one_that_was_cut_hears_no_more_of_that(network: Network, downloads: Downloads):
    network.error = CUT
    downloads.start(A)
    network.step()
    network.wait_for(A, "cut")
    before = len(network.told)
    network.error = None
    downloads.start(A)
    # Before the call returns, whoever asked may look at it.
    assert len(network.told) > before
    assert {one[str(A)].problem for one in network.told[before:]} == {""}
    network.step(10)
    network.wait_for(A, "there")
    assert {(one[str(A)].problem, one[str(A)].again_at) for one in network.told[before:]} == {("", None)}


def test_one_that_goes_on_by_itself_says_no_more_that_it_was_cut(network: Network, timed: Downloads, clocks: Clocks):
    cut_once(network, timed)
    before = len(network.told)
    clocks.now += 60.0
    network.wait_for(A, "there")
    assert {one[str(A)].problem for one in network.told[before:]} == {""}


def test_each_try_that_brings_nothing_makes_the_next_pause_longer_and_the_hub_may_ask_for_more(network: Network):
    downloads = Downloads(network.fetch, network.hear, again_s=(0.0, 1000.0, 2000.0))
    network.error = CUT
    downloads.start(A)
    network.step(2)

    def pause_s() -> float:
        told = [one[str(A)] for one in network.told if str(A) in one]
        return next((one.again_at - time.time() for one in reversed(told) if one.again_at is not None), 0.0)

    assert network.wait_until(lambda: pause_s() > 900.0)
    assert pause_s() <= 1000.0
    network.error = DownloadCut("Later.", wait_s=5000.0)
    downloads.start(A)
    network.step()
    assert network.wait_until(lambda: pause_s() > 4900.0)
    downloads.stop()


class Clocks:
    """What the clock that only goes on says, and that of the epoch."""

    def __init__(self) -> None:
        self.now, self.now_at = 5.0, 1e9


@pytest.fixture
def clocks() -> Clocks:
    return Clocks()


@pytest.fixture
def timed(network: Network, clocks: Clocks) -> Iterator[Downloads]:
    """Tries again after a minute, by clocks that the test sets."""
    made = Downloads(
        network.fetch, network.hear, lambda: clocks.now, (60.0,), wall_clock=lambda: clocks.now_at, look_s=0.01
    )
    yield made
    made.stop()


def cut_once(network: Network, downloads: Downloads, error: DownloadCut = CUT) -> float:
    """Has one cut, and says when it is to be tried again."""
    network.error = error
    downloads.start(A)
    network.step()
    again_at = network.wait_for(A, "cut").again_at
    assert again_at is not None
    network.error = None
    network.step(10)
    return again_at


def test_a_clock_that_is_set_back_holds_nothing_up_and_what_is_told_follows_it(
    network: Network, timed: Downloads, clocks: Clocks
):
    assert cut_once(network, timed) == clocks.now_at + 60.0
    clocks.now, clocks.now_at = clocks.now + 20.0, clocks.now_at - 3600.0
    assert network.wait_until(lambda: network.told[-1][str(A)].again_at == clocks.now_at + 40.0)
    clocks.now += 40.0
    network.wait_for(A, "there")


def test_a_machine_that_slept_tries_again_when_it_wakes(network: Network, timed: Downloads, clocks: Clocks):
    cut_once(network, timed)
    clocks.now_at += 60.0
    network.wait_for(A, "there")


def test_no_hub_is_given_more_than_some_hours(network: Network, timed: Downloads, clocks: Clocks):
    again_at = cut_once(network, timed, DownloadCut("Later.", wait_s=1e9))
    assert again_at == clocks.now_at + LONGEST_PAUSE_SECONDS


def test_one_that_was_cut_can_be_cancelled_and_is_tried_no_more(network: Network, downloads: Downloads):
    network.error = CUT
    downloads.start(A)
    network.step()
    network.wait_for(A, "cut")
    downloads.cancel(A)
    assert network.told[-1][str(A)] == Download(str(A))
    downloads.start(B)
    network.error = None
    network.step(10)
    network.wait_for(B, "there")
    assert network.begun == [A, B]


def test_the_end_does_not_wait_for_one_that_was_cut(network: Network, downloads: Downloads):
    network.error = CUT
    downloads.start(A)
    network.step()
    network.wait_for(A, "cut")
    downloads.stop()
    assert "downloads" not in {thread.name for thread in threading.enumerate()}


@pytest.mark.expects_warnings
def test_a_bug_ends_one_download_and_not_the_next(network: Network, downloads: Downloads):
    network.error = ValueError("odd")
    downloads.start(A)
    network.step()
    assert "odd" in network.wait_for(A, "absent").problem
    network.error = None
    downloads.start(B)
    network.step(10)
    network.wait_for(B, "there")


def test_the_end_stops_all(network: Network, downloads: Downloads):
    downloads.start(A)
    downloads.start(B)
    network.step(2)
    network.wait_for(A, "fetching")
    network.step()
    downloads.stop()
    assert network.begun == [A]


def test_the_rate_is_that_of_the_last_seconds():
    now = 0.0
    speed = Speed(lambda: now)
    assert speed.note(0) is None
    now = JUDGE_SECONDS
    assert speed.note(100) == pytest.approx(100 / JUDGE_SECONDS)
    for second in range(2, 40):
        now = float(second)
        rate = speed.note(100 + 1000 * (second - 1))
    assert rate == pytest.approx(1000, rel=0.01)
    now += WINDOW_SECONDS
    assert speed.note(0) is None
