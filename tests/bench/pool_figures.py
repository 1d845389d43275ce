"""What the bench of the pool makes of what its sides told: switches, tokens in time and in pace, ratios; all pure."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Self

from tests.bench.serving_figures import busy_seconds

# At least.
BOUNDS = {"unload_load": 10.0, "router_goodput": 1.5, "tpot_met_two_chats": 0.95}
# What each part of the bench measures of these, and what of it without any peer.
_OF_PART = {"switch": ("unload_load", "tpot_met_two_chats"), "goodput": ("router_goodput",)}
_OURS_ALONE = ("tpot_met_two_chats",)


@dataclass(frozen=True, slots=True)
class Targets:
    """How soon people want an answer to begin, and how soon after a token the next one, in seconds."""

    ttft_s: float
    tpot_s: float

    def due_s(self, arrival_s: float, place: int) -> float:
        """When the token at that place of an answer, the first at 0, is to be there."""
        return arrival_s + self.ttft_s + place * self.tpot_s


@dataclass(frozen=True, slots=True)
class Reply:
    """What became of a question: when it came, how many tokens it was to get, and when each of them came."""

    model: int
    arrival_s: float
    wanted: int
    token_s: tuple[float, ...]

    @property
    def ttft_s(self) -> float | None:
        """None where it never began."""
        return self.token_s[0] - self.arrival_s if self.token_s else None

    def num_in_time(self, targets: Targets) -> int:
        """Tokens by their deadline, which counts from when the question came."""
        return sum(at <= targets.due_s(self.arrival_s, place) for place, at in enumerate(self.token_s))

    def num_in_pace(self, tpot_s: float) -> int:
        """Tokens that came as soon after the first one as somebody who reads them wants the next."""
        return sum(at <= self.token_s[0] + place * tpot_s for place, at in enumerate(self.token_s))

    def told(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def heard(cls, told: Mapping[str, Any]) -> Self:
        return cls(told["model"], told["arrival_s"], told["wanted"], tuple(told["token_s"]))


@dataclass(frozen=True, slots=True)
class Switch:
    """Another model takes over: seconds until one has left, and from then until the other has computed its first step.

    `in_s` is beyond what such a step takes where the model is there.
    """

    out_s: float
    in_s: float
    moved_bytes: int = 0

    @property
    def seconds(self) -> float:
        return self.out_s + self.in_s

    def told(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def heard(cls, told: Mapping[str, Any]) -> Self:
        return cls(**told)


def goodput(replies: Sequence[Reply], targets: Targets) -> float:
    """The share of all tokens that were wanted which came by their deadline."""
    return sum(reply.num_in_time(targets) for reply in replies) / sum(reply.wanted for reply in replies)


def promised(parts: Sequence[str], has_peers: bool) -> dict[str, float]:
    """The bounds of what is measured in these parts."""
    names = [name for part in parts for name in _OF_PART[part] if has_peers or name in _OURS_ALONE]
    return {name: BOUNDS[name] for name in names}


def over_peer(ours: Sequence[Reply], theirs: Sequence[Reply], targets: Targets) -> float:
    """Our tokens in time ÷ theirs of the same load; of who has none in time one is counted."""
    our, their = (sum(reply.num_in_time(targets) for reply in replies) for replies in (ours, theirs))
    return our / max(1, their)


def tpot_met(replies: Sequence[Reply], tpot_s: float) -> float:
    """The share of all tokens that were wanted which came in pace with their answer's first."""
    return sum(reply.num_in_pace(tpot_s) for reply in replies) / sum(reply.wanted for reply in replies)


def horizon_s(arrivals: Sequence[tuple[float, int]], targets: Targets) -> float:
    """When the last token of all is due, for questions that come at these moments for so many tokens."""
    return max(targets.due_s(arrival_s, wanted - 1) for arrival_s, wanted in arrivals)


def token_times(told: Sequence[tuple[float, int]], num_tokens: int) -> tuple[float, ...]:
    """When each token came, of a text that was told in pieces: when each was, and its characters.

    As many pieces as tokens are one each; else tokens are taken to be equally long.
    """
    total = sum(length for _, length in told)
    if len(told) == num_tokens or not total:
        return tuple(at for at, _ in told)
    times, characters = list[float](), 0
    for at, length in told:
        characters += length
        times += [at] * (characters * num_tokens // total - len(times))
    return tuple(times)


def switch_figures(switches: Sequence[Switch]) -> dict[str, float]:
    """Nothing where there was none."""
    if not switches:
        return {}
    seconds = [switch.seconds for switch in switches]
    return {
        "switches": float(len(switches)),
        "switch_mean_s": statistics.fmean(seconds),
        "switch_max_s": max(seconds),
        "switch_out_s": statistics.fmean(switch.out_s for switch in switches),
        "switch_in_s": statistics.fmean(switch.in_s for switch in switches),
        "switch_moved_bytes": statistics.fmean(switch.moved_bytes for switch in switches),
    }


def load_figures(replies: Sequence[Reply], targets: Targets) -> dict[str, float]:
    """Of one side under the load."""
    begun = [reply.ttft_s for reply in replies if reply.ttft_s is not None]
    return {
        "goodput": goodput(replies, targets),
        "questions": float(len(replies)),
        "begun_share": len(begun) / len(replies),
        **({"ttft_p50_s": statistics.median(begun), "ttft_max_s": max(begun)} if begun else {}),
    }


def models_at_once(replies: Sequence[Reply]) -> float:
    """How many models somebody waits for or reads, on the average from the first question to the last token.

    Of an answer that is not whole somebody waits for more until then.
    """
    begin = min(reply.arrival_s for reply in replies)
    end = max(max((reply.arrival_s, *reply.token_s)) for reply in replies)
    if end == begin:
        return 0.0
    spans: dict[int, list[tuple[float, float]]] = {}
    for reply in replies:
        is_whole = len(reply.token_s) >= reply.wanted
        spans.setdefault(reply.model, []).append((reply.arrival_s, reply.token_s[-1] if is_whole else end))
    return sum(map(busy_seconds, spans.values())) / (end - begin)
