"""Figures of the pool bench: switches, tokens in time and at pace, ratios; pure functions of the sides' reports."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Self

from tests.bench.serving_figures import busy_seconds

# Lower bounds.
BOUNDS = {"unload_load": 10.0, "router_goodput": 1.5, "tpot_met_two_chats": 0.95}
# What each part of the bench measures of these, and what is measured without a peer.
_OF_PART = {"switch": ("unload_load", "tpot_met_two_chats"), "goodput": ("router_goodput",)}
_OURS_ALONE = ("tpot_met_two_chats",)


@dataclass(frozen=True, slots=True)
class Targets:
    """Time to first token and time per output token that users expect, in seconds."""

    ttft_s: float
    tpot_s: float

    def due_s(self, arrival_s: float, place: int) -> float:
        """Returns the deadline of an answer's token; the first is at position 0."""
        return arrival_s + self.ttft_s + place * self.tpot_s


@dataclass(frozen=True, slots=True)
class Reply:
    """Results of a question: its arrival, the number of tokens wanted, and the time of each token."""

    model: int
    arrival_s: float
    wanted: int
    token_s: tuple[float, ...]

    @property
    def ttft_s(self) -> float | None:
        """Returns the time to first token; None if there is none."""
        return self.token_s[0] - self.arrival_s if self.token_s else None

    def num_in_time(self, targets: Targets) -> int:
        """Returns the number of tokens by their deadline, which counts from the question's arrival."""
        return sum(at <= targets.due_s(self.arrival_s, place) for place, at in enumerate(self.token_s))

    def num_in_pace(self, tpot_s: float) -> int:
        """Returns the number of tokens that arrive at reading pace, counted from the first token."""
        return sum(at <= self.token_s[0] + place * tpot_s for place, at in enumerate(self.token_s))

    def told(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def heard(cls, told: Mapping[str, Any]) -> Self:
        return cls(told["model"], told["arrival_s"], told["wanted"], tuple(told["token_s"]))


@dataclass(frozen=True, slots=True)
class Switch:
    """A switch of models: seconds until one has left, and then until the other has computed its first step.

    `in_s` is beyond what such a step takes when the model is in memory.
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
    """Returns the share of all wanted tokens that arrived by their deadline."""
    return sum(reply.num_in_time(targets) for reply in replies) / sum(reply.wanted for reply in replies)


def promised(parts: Sequence[str], has_peers: bool) -> dict[str, float]:
    """Returns the bounds of what is measured in these parts."""
    names = [name for part in parts for name in _OF_PART[part] if has_peers or name in _OURS_ALONE]
    return {name: BOUNDS[name] for name in names}


def over_peer(ours: Sequence[Reply], theirs: Sequence[Reply], targets: Targets) -> float:
    """Returns our tokens in time ÷ theirs under the same load; a peer without any counts as having one."""
    our, their = (sum(reply.num_in_time(targets) for reply in replies) for replies in (ours, theirs))
    return our / max(1, their)


def tpot_met(replies: Sequence[Reply], tpot_s: float) -> float:
    """Returns the share of all wanted tokens that arrived at reading pace."""
    return sum(reply.num_in_pace(tpot_s) for reply in replies) / sum(reply.wanted for reply in replies)


def horizon_s(arrivals: Sequence[tuple[float, int]], targets: Targets) -> float:
    """Returns when the last token of all is due, for questions with these arrivals and answer lengths."""
    return max(targets.due_s(arrival_s, wanted - 1) for arrival_s, wanted in arrivals)


def token_times(told: Sequence[tuple[float, int]], num_tokens: int) -> tuple[float, ...]:
    """Returns the time of each token of a text that was streamed in pieces of known times and lengths.

    As many pieces as tokens are one token each; otherwise tokens are assumed to be equally long.
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
    """Returns figures of switches; empty without any."""
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
    """Returns one side's figures under the load."""
    begun = [reply.ttft_s for reply in replies if reply.ttft_s is not None]
    return {
        "goodput": goodput(replies, targets),
        "questions": float(len(replies)),
        "begun_share": len(begun) / len(replies),
        **({"ttft_p50_s": statistics.median(begun), "ttft_max_s": max(begun)} if begun else {}),
    }


def models_at_once(replies: Sequence[Reply]) -> float:
    """Returns the mean number of models with open questions, from the first question to the last token.

    A question whose answer is incomplete stays open until the end.
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
