"""Figures, ratios and bounds of the bench of models larger than memory; pure functions of what its sides reported."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from tests.bench.measured_answers import MeasuredAnswers, same_share

# Lower bounds.
STOCK_AT_1_2, STOCK_THAT_FITS, OF_THE_BOUND, BATCH_OF_FOUR = 2.5, 0.97, 0.9, 3.0
# Upper bound: a step while layers move ÷ the slower steady state.
MOVING_STEP = 1.5
# Upper bounds: relative difference of bytes read and bytes streamed, and of ledger and kernel.
READ_TOLERANCE, LEDGER_TOLERANCE = 0.03, 0.05

Of = Callable[[MeasuredAnswers], float]


@dataclass(frozen=True, slots=True)
class Point:
    """A model `factor` times as large as the memory limit, and `at_once` answers."""

    factor: float
    at_once: int

    @property
    def name(self) -> str:
        return f"{self.factor:g}x_b{self.at_once}"

    @property
    def fits(self) -> bool:
        return self.factor < 1.0


@dataclass(slots=True)
class Rounds:
    """Results at one point, round by round; `bandwidths` in bytes per second were measured between them.

    `whole` is stock with room for the whole model, its weights repacked as the ring streams them.
    """

    ours: list[MeasuredAnswers] = field(default_factory=list)
    stock: list[MeasuredAnswers] = field(default_factory=list)
    bandwidths: list[float] = field(default_factory=list)
    whole: list[MeasuredAnswers] = field(default_factory=list)

    @property
    def over_stock(self) -> float:
        return paired(self.ours, self.stock, _tokens_per_second)

    @property
    def bound_share(self) -> float | None:
        """Returns the disk's time for a pass ÷ the pass's time; None where nothing was streamed."""
        shares = [disk / pass_ for disk, pass_, _ in self._seconds()]
        return statistics.median(shares) if shares else None

    @property
    def is_streaming_dominant(self) -> bool:
        """Returns whether a pass takes longer to read than to compute, so that the disk is its bound."""
        spent = list(self._seconds())
        return bool(spent) and statistics.median(disk - computing for disk, _, computing in spent) > 0

    @property
    def read_share(self) -> float:
        """Returns bytes the process read ÷ bytes the ring streamed; 1 if both are 0."""
        streamed = sum(one.streamed_bytes for one in self.ours)
        read = sum(one.marks.read_bytes for one in self.ours)
        return read / streamed if streamed else 1.0 + read

    @property
    def ledger_share(self) -> float:
        """Returns ledger ÷ kernel, of the round that was furthest off."""
        return max((one.ledger_bytes / one.held_bytes for one in self.ours), key=lambda share: abs(share - 1))

    @property
    def same_text(self) -> float:
        return statistics.fmean(same_share(o.tokens, s.tokens) for o, s in self._to_compare())

    @property
    def same_logits(self) -> float:
        """Returns the share of answers whose logits are bitwise equal."""
        return statistics.fmean(same_share(o.checksums, s.checksums) for o, s in self._to_compare())

    def _to_compare(self) -> Iterator[tuple[MeasuredAnswers, MeasuredAnswers]]:
        """Returns ours, and stock with the same layout of weights."""
        return zip(self.ours, self.whole or self.stock, strict=True)

    def our_figures(self, point: Point) -> dict[str, float]:
        ours = _of_side(point, self.ours)
        ours |= {
            f"{point.name}_streamed_bytes_per_token": _median(
                self.ours, lambda one: one.streamed_bytes / one.num_written
            ),
            f"{point.name}_waited_share": _median(self.ours, lambda one: one.waited_seconds / sum(one.pass_seconds)),
            f"{point.name}_limit_hits": float(sum(one.marks.limit_hits for one in self.ours)),
            f"{point.name}_ledger_share": self.ledger_share,
            f"{point.name}_same_text": self.same_text,
            f"{point.name}_same_logits": self.same_logits,
        }
        if self.bound_share is not None:
            ours[f"{point.name}_read_share"] = self.read_share
            ours[f"{point.name}_is_streaming_dominant"] = float(self.is_streaming_dominant)
        return ours

    def stock_figures(self, point: Point) -> dict[str, float]:
        return _of_side(point, self.stock)

    def bound_figures(self, point: Point) -> dict[str, float]:
        """Returns tokens per second if only the disk took time; {} where nothing was streamed."""
        if self.bound_share is None:
            return {}
        rates = [
            len(one.tokens) * bandwidth / one.streamed_bytes_per_pass
            for one, bandwidth in zip(self.ours, self.bandwidths, strict=True)
        ]
        return {
            f"{point.name}_tokens_per_s": statistics.median(rates),
            f"{point.name}_bytes_per_s": statistics.median(self.bandwidths),
        }

    def _seconds(self) -> Iterable[tuple[float, float, float]]:
        """Yields for each round the disk's time for a pass, the pass's time, and how much of that was computing."""
        for one, bandwidth in zip(self.ours, self.bandwidths, strict=False):
            if one.streamed_bytes:
                taken = statistics.fmean(one.pass_seconds)
                computing = taken - one.waited_seconds / len(one.pass_seconds)
                yield one.streamed_bytes_per_pass / bandwidth, taken, computing


@dataclass(slots=True)
class Turns:
    """Results of our side and another in turn; rates count whole answers if `with_prompts`, else only writing."""

    ours: list[MeasuredAnswers] = field(default_factory=list)
    theirs: list[MeasuredAnswers] = field(default_factory=list)
    with_prompts: bool = False

    def note(self, ours: MeasuredAnswers, theirs: MeasuredAnswers) -> None:
        self.ours.append(ours)
        self.theirs.append(theirs)

    @property
    def ratio(self) -> float:
        return paired(self.ours, self.theirs, self._rate)

    def figures(self, name: str) -> dict[str, float]:
        return {
            f"{name}_ours_tokens_per_s": _median(self.ours, self._rate),
            f"{name}_theirs_tokens_per_s": _median(self.theirs, self._rate),
            f"{name}_ratio": self.ratio,
        }

    def _rate(self, answers: MeasuredAnswers) -> float:
        return answers.whole_tokens_per_second if self.with_prompts else answers.tokens_per_second


def paired(ours: Sequence[MeasuredAnswers], theirs: Sequence[MeasuredAnswers], rate: Of) -> float:
    """Returns the median over rounds of ours ÷ theirs: other load on the machine affects both sides of a round."""
    return statistics.median(rate(our) / rate(their) for our, their in zip(ours, theirs, strict=True))


def named_ratios(found: Mapping[Point, Rounds]) -> dict[str, float]:
    """Returns the ratios under their documented names; `stock_fits` is the lowest where the model fits."""
    named = {f"stock_{point.name}": rounds.over_stock for point, rounds in found.items()}
    shares = {f"bound_{point.name}": rounds.bound_share for point, rounds in found.items()}
    named |= {name: share for name, share in shares.items() if share is not None}
    fitting = [rounds.over_stock for point, rounds in found.items() if point.fits]
    return named | ({"stock_fits": min(fitting)} if fitting else {})


def least(found: Mapping[Point, Rounds]) -> dict[str, float]:
    """Returns the lower bounds of the measured ratios that have one."""
    bounds = {f"bound_{point.name}": OF_THE_BOUND for point, rounds in found.items() if rounds.is_streaming_dominant}
    if Point(1.2, 1) in found:
        bounds["stock_1.2x_b1"] = STOCK_AT_1_2
    if any(point.fits for point in found):
        bounds["stock_fits"] = STOCK_THAT_FITS
    return bounds


def faults(found: Mapping[Point, Rounds]) -> list[str]:
    """Returns a sentence for every other bound that does not hold."""
    told = []
    for point, rounds in found.items():
        hits = sum(one.marks.limit_hits for one in rounds.ours)
        major = sum(one.marks.major_faults for one in rounds.ours)
        if abs(rounds.read_share - 1) > READ_TOLERANCE:
            told.append(f"{point.name}: {rounds.read_share:.3f} times the streamed bytes were read.")
        if rounds.same_text < 1.0:
            told.append(f"{point.name}: {1 - rounds.same_text:.0%} of the answers differ from llama.cpp's.")
        # Prompts that are read together are summed in a different order.
        if point.at_once == 1 and rounds.same_logits < 1.0:
            told.append(
                f"{point.name}: {1 - rounds.same_logits:.0%} of the answers have different logits from llama.cpp's."
            )
        if abs(rounds.ledger_share - 1) > LEDGER_TOLERANCE:
            told.append(f"{point.name}: the ledger accounts for {rounds.ledger_share:.3f} times the bytes held.")
        if hits:
            told.append(f"{point.name}: the memory limit was hit {hits} times while decoding.")
        if major:
            told.append(f"{point.name}: {major} major page faults while decoding.")
    return told + list(_batching_faults(found))


@dataclass(frozen=True, slots=True)
class Moved:
    """An answer during which the share of pinned layers changed every `stride` passes."""

    answers: MeasuredAnswers
    stride: int

    @property
    def worst_step(self) -> float:
        """Returns the longest pass ÷ the median pass of the slowest stretch between two changes."""
        passes = self.answers.pass_seconds
        stretches = [passes[at : at + self.stride] for at in range(0, len(passes), self.stride)]
        return max(passes) / max(map(statistics.median, stretches))

    def faults(self) -> list[str]:
        told = []
        if self.worst_step > MOVING_STEP:
            told.append(f"While layers moved, a step took {self.worst_step:.2f} times the slower steady state.")
        if self.answers.marks.written_bytes:
            told.append(f"While layers moved, {self.answers.marks.written_bytes:,} bytes were written.")
        return told


def batch_of_four(found: Mapping[Point, Rounds]) -> float | None:
    """Returns tokens per second of four answers at once ÷ those of one, at 1.7×; None unless both were measured."""
    one, four = found.get(Point(1.7, 1)), found.get(Point(1.7, 4))
    if one is None or four is None:
        return None
    return _median(four.ours, _tokens_per_second) / _median(one.ours, _tokens_per_second)


def _batching_faults(found: Mapping[Point, Rounds]) -> Iterable[str]:
    gain = batch_of_four(found)
    if gain is not None and gain < BATCH_OF_FOUR:
        yield f"At 1.7x, four answers reach {gain:.2f} times the tokens/s of one; the bound is {BATCH_OF_FOUR:g}."


def _of_side(point: Point, answers: Sequence[MeasuredAnswers]) -> dict[str, float]:
    return {
        f"{point.name}_tokens_per_s": _median(answers, _tokens_per_second),
        f"{point.name}_read_bytes_per_token": _median(answers, lambda one: one.marks.read_bytes / one.num_written),
        f"{point.name}_major_faults": float(sum(one.marks.major_faults for one in answers)),
    }


def _median(answers: Sequence[MeasuredAnswers], of: Of) -> float:
    return statistics.median(map(of, answers))


def _tokens_per_second(answers: MeasuredAnswers) -> float:
    return answers.tokens_per_second
