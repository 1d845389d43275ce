"""Tests for engine.generation.refreshing: the choices of one answer, by a clock that a test moves."""

from __future__ import annotations

import pytest

from engine.generation.refresh_policy import RefreshPolicy
from engine.generation.refreshing import Costs, Fresh, Refreshing, Window
from tests.helpers.passages import passage

TOKEN_S, READ_S = 0.1, 0.01
FOUND = (passage("It is so."),)
SENTENCE = "It ends here."


class Writer:
    """An answer whose tokens take a tenth of a second, and reading a hundredth for each token."""

    def __init__(self, policy: RefreshPolicy, retrieval_s: float = 0.5, typical_tokens: int = 100) -> None:
        costs = Costs(
            lambda length, num_tokens: READ_S * num_tokens,
            lambda length, num_tokens: TOKEN_S * num_tokens,
            lambda: retrieval_s,
        )
        self.now, self.length = 10.0, 500
        self.refreshing = Refreshing(policy, costs, typical_tokens, self.now)

    def write(self, num_tokens: int, text: str = SENTENCE, token_s: float = TOKEN_S) -> list[Window]:
        """Writes; what was looked for meanwhile."""
        windows = []
        for _ in range(num_tokens):
            self.now += token_s
            self.length += 1
            self.refreshing.note_tokens(1, self.now)
            if (window := self.refreshing.wants_to_look(text, text, self.length)) is not None:
                windows.append(window)
        return windows

    def find(self, passages=FOUND, seconds: float = 0.5) -> None:
        self.refreshing.take(passages, seconds, self.now)


FREE = RefreshPolicy(max_cost_share=None)


def test_nothing_is_looked_for_before_the_interval_has_been_written():
    writer = Writer(RefreshPolicy(interval=16, max_cost_share=None))
    assert writer.write(15) == []
    assert len(writer.write(1)) == 1


def test_a_synchronous_look_waits_for_what_is_written_to_end_a_sentence_and_not_for_what_is_told():
    writer = Writer(RefreshPolicy(mode="synchronous", max_cost_share=None))
    assert writer.write(8, text="It goes") == []
    assert writer.refreshing.wants_to_look(SENTENCE, f"{SENTENCE} [7", writer.length) is None
    assert writer.refreshing.wants_to_look(SENTENCE, f"{SENTENCE} [7]", writer.length) is not None


def test_only_one_look_is_under_way_at_a_time():
    writer = Writer(FREE)
    assert len(writer.write(60)) == 1


@pytest.mark.parametrize(("retrieval_s", "interval"), [(0.1, 8), (1.85, 16), (5.0, 64), (50.0, 128)])
def test_the_interval_is_chosen_once_by_how_long_a_search_takes(retrieval_s: float, interval: int):
    writer = Writer(FREE, retrieval_s=retrieval_s)
    writer.write(8)
    chosen = writer.refreshing.interval
    assert chosen == next(m for m in (8, 16, 32, 64, 128) if 1.0 + TOKEN_S * m >= retrieval_s or m == 128)
    writer.write(200, token_s=5 * TOKEN_S)
    assert writer.refreshing.interval == chosen <= interval


def test_a_look_has_the_time_that_the_interval_takes():
    [window] = Writer(RefreshPolicy(interval=32, max_cost_share=None)).write(32)
    assert window.seconds == pytest.approx(32 * TOKEN_S + 100 * READ_S)


def test_what_was_found_waits_for_the_end_of_a_sentence():
    writer = Writer(FREE)
    writer.write(8)
    writer.find()
    writer.write(1, text="It goes")
    assert writer.refreshing.fresh("It goes") is None
    assert writer.refreshing.fresh(SENTENCE) == Fresh(FOUND, 0.5, 0.5)


def test_what_is_found_again_and_again_is_bounded():
    writer = Writer(RefreshPolicy(interval=8, max_cost_share=None, max_refreshes=2))
    looks = 0
    for _ in range(10):
        looks += len(writer.write(8))
        writer.find()
        writer.write(1)
        if writer.refreshing.fresh(SENTENCE) is not None:
            writer.refreshing.note_added()
    assert (looks, writer.refreshing.num_refreshes) == (2, 2)


def test_looks_that_find_nothing_are_bounded_too():
    writer = Writer(RefreshPolicy(interval=8, max_cost_share=None, max_looks=3))
    looks = 0
    for _ in range(10):
        looks += len(writer.write(8))
        writer.find(())
    assert looks == 3
    assert writer.refreshing.fresh(SENTENCE) is None


def test_a_search_behind_which_writing_goes_on_as_before_is_hidden():
    writer = Writer(FREE)
    writer.write(8)
    writer.write(5)
    writer.find(seconds=0.5)
    writer.write(1)
    assert writer.refreshing.hidden_s == pytest.approx(0.5)
    assert writer.refreshing.retrieval_s == 0.5


def test_what_writing_takes_longer_meanwhile_is_not_hidden():
    writer = Writer(FREE)
    writer.write(8)
    writer.write(2, token_s=2 * TOKEN_S)
    writer.find(seconds=0.5)
    writer.write(1)
    assert writer.refreshing.hidden_s == pytest.approx(0.3)


def test_no_more_is_lost_than_the_search_took():
    writer = Writer(FREE)
    writer.write(8)
    writer.write(2, token_s=20 * TOKEN_S)
    writer.find(seconds=0.5)
    writer.write(1)
    assert writer.refreshing.hidden_s == 0.0


def look_at(writer: Writer, token_s: float, seconds: float = 0.5) -> None:
    """One look during which five tokens are written."""
    while not writer.write(1):
        pass
    writer.write(4, token_s=token_s)
    writer.find((), seconds)
    writer.write(1, token_s=token_s)


def test_tokens_that_come_faster_make_up_for_slower_ones():
    writer = Writer(RefreshPolicy(interval=8, max_cost_share=None))
    for slower in (0.02, -0.02, 0.02, -0.02):
        look_at(writer, TOKEN_S + slower)
    assert writer.refreshing.retrieval_s == pytest.approx(2.0)
    assert writer.refreshing.hidden_s == pytest.approx(2.0)


def test_tokens_that_come_slower_whenever_something_is_looked_for_are_all_counted():
    writer = Writer(RefreshPolicy(interval=8, max_cost_share=None))
    for _ in range(4):
        look_at(writer, TOKEN_S + 0.02)
    assert writer.refreshing.hidden_s == pytest.approx(2.0 - 4 * 5 * 0.02)


def test_one_look_makes_up_for_no_more_than_it_took():
    writer = Writer(RefreshPolicy(interval=600, max_cost_share=None))
    writer.write(599, token_s=3 * TOKEN_S)
    look_at(writer, TOKEN_S, seconds=0.1)
    assert writer.refreshing.hidden_s == pytest.approx(0.1)
    look_at(writer, 3 * TOKEN_S, seconds=0.5)
    assert writer.refreshing.hidden_s == pytest.approx(0.2, abs=0.001)


def test_the_usual_is_what_tokens_took_of_late():
    writer = Writer(RefreshPolicy(interval=128, max_cost_share=None))
    writer.write(60, token_s=TOKEN_S / 2)
    look_at(writer, TOKEN_S)
    first = writer.refreshing.hidden_s
    writer.write(100)
    look_at(writer, TOKEN_S)
    assert writer.refreshing.hidden_s - first == pytest.approx(0.5, abs=0.05)


def test_a_synchronous_search_hides_nothing_and_is_gone_on_from_at_once():
    writer = Writer(RefreshPolicy(mode="synchronous", interval=8, max_cost_share=None))
    assert writer.write(9, text="It goes") == []
    assert len(writer.write(1)) == 1
    assert writer.refreshing.holds_up
    writer.now += 0.5
    writer.find(seconds=0.5)
    assert not writer.refreshing.holds_up
    assert writer.refreshing.fresh(SENTENCE) == Fresh(FOUND, 0.5, 0.0)


def test_a_periodic_search_holds_nothing_up():
    writer = Writer(FREE)
    writer.write(8)
    assert not writer.refreshing.holds_up


def test_an_answer_earns_its_passages():
    writer = Writer(RefreshPolicy(interval=8, max_cost_share=0.1), typical_tokens=100)
    # Reading a hundred tokens takes a second, a tenth of what a hundred tokens take to write.
    assert writer.write(100) == []
    assert len(writer.write(2)) == 1
    assert writer.refreshing.affordable(writer.length) in (100, 101)


def test_what_was_read_is_paid_for():
    writer = Writer(RefreshPolicy(interval=8, max_cost_share=0.1), typical_tokens=100)
    writer.write(102)
    writer.find()
    writer.write(1)
    writer.refreshing.note_added()
    writer.now += 1.0
    writer.write(1)
    assert writer.refreshing.prefill_s == pytest.approx(1.0)
    assert writer.refreshing.affordable(writer.length) < 5
    assert writer.write(90) == []
    assert len(writer.write(20)) == 1


def test_nothing_is_added_twice_without_a_word_between():
    writer = Writer(FREE)
    writer.write(8)
    writer.find()
    writer.write(1)
    writer.refreshing.note_added()
    assert writer.refreshing.fresh(SENTENCE) is None
    assert writer.refreshing.wants_to_look(SENTENCE, SENTENCE, writer.length) is None


def test_what_is_given_up_is_looked_for_anew():
    writer = Writer(RefreshPolicy(interval=8, max_cost_share=None))
    writer.write(8)
    writer.find()
    writer.write(1)
    writer.refreshing.give_up()
    assert writer.refreshing.fresh(SENTENCE) is None
    assert len(writer.write(8)) == 1


def test_a_look_that_was_never_asked_for_is_let_be():
    writer = Writer(FREE)
    writer.find()
    writer.write(3)
    assert writer.refreshing.fresh(SENTENCE) is None
    assert writer.refreshing.retrieval_s == 0
