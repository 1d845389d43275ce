"""Accounts: who holds which bytes in memory and on disk, and what the engine is doing, in figures and words."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from engine.assembly import Parts
from engine.config import MemorySettings
from engine.core import Tier
from engine.memory.allowance import TIERS, by_tier, chosen_of
from engine.memory.demand import Demand
from engine.memory.hardware import Hardware
from engine.memory.ledger import Ledger
from engine.memory.placement import Placement, Prediction
from engine.memory.planner import renewed
from engine.memory.rates import Rates, disk_totals
from engine.memory.snapshot import TierNews, take_snapshot
from engine.memory.wording import reworded
from engine.protocol import MemoryReply

# The ending of counters since a model was loaded: only differences between two looks are meaningful.
_TOTAL = "_total"


class Accounts:
    """Computes the accounts, on any thread; keeps totals between two looks for the rates."""

    def __init__(self, ledger: Ledger, parts: Parts, chosen: Callable[[], MemorySettings]) -> None:
        """Prepares; `chosen` returns the budgets that the user set."""
        self._ledger, self._parts, self._chosen = ledger, parts, chosen
        self._rates = Rates()

    def memory(self, hardware: Hardware, num_waiting: int) -> MemoryReply:
        """Returns who holds how many bytes now; `num_waiting` questions have not ended."""
        parts = self._parts
        loader = parts.models.principal.loader
        placement, decision = loader.placement, loader.decision
        if placement is not None:
            # Measurements since the model was placed take precedence.
            expected = self._expected(placement, loader.demand)
            decision = reworded(decision, placement.prediction, expected)
            placement = replace(placement, prediction=expected)
        offer = placement.offer if placement is not None else ""
        told = tuple(filter(None, (decision, offer, loader.pending, loader.problem)))
        counters = self._counters(num_waiting, placement)
        return take_snapshot(self._ledger, hardware, counters, told, self._news(), parts.adapting.decisions.newest)

    def _news(self) -> dict[Tier, TierNews]:
        adapting, chosen = self._parts.adapting, self._chosen()
        budgets = by_tier(adapting.budgets())
        given_up = adapting.given_up[::-1]
        return {
            tier: TierNews(
                budgets[tier],
                chosen_of(chosen, tier),
                adapting.levels[tier],
                tuple(rung.sentence for rung in given_up if rung.tier == tier),
            )
            for tier in TIERS
        }

    def _expected(self, placement: Placement, demand: Demand | None) -> Prediction:
        if demand is None or demand.shape.num_layers != placement.num_layers:
            # Another model was loaded meanwhile.
            return placement.prediction
        return renewed(placement, self._parts.profile(), self._parts.backlog.now(), demand)

    def _counters(self, num_waiting: int, placement: Placement | None) -> dict[str, float]:
        parts = self._parts
        stores, of_model = parts.stores.opened(), dict(parts.generation.counters)
        of_index = stores.index.counters() if stores is not None else {}
        of_questions = {"tokens_per_s": 0.0, "questions_waiting": float(num_waiting)} | parts.goodput.now.counters()
        of_questions |= of_model
        rates = self._rates.of({f"{name}_bytes_per_s": total for name, total in self._totals(of_questions).items()})
        return of_questions | rates | _of_placement(parts, placement) | of_index | parts.sweep_costs.counters()

    def _totals(self, of_model: dict[str, float]) -> dict[str, float]:
        """Returns the bytes that passed each link so far; those of the model are taken out of its gauges."""
        totals = {name: of_model.pop(name) for name in tuple(of_model) if name.endswith(_TOTAL)}
        streamed = totals.get(f"streamed_bytes{_TOTAL}")
        return disk_totals() | ({} if streamed is None else {"streamed": streamed})


def _of_placement(parts: Parts, placement: Placement | None) -> dict[str, float]:
    """Returns how the model is placed, and the predicted speed."""
    running = {"answers_running": float(parts.backlog.now().running)}
    if placement is None:
        return running
    return running | {
        "predicted_tokens_per_s": placement.prediction.tokens_per_s,
        "predicted_ttft_s": placement.prediction.ttft_s,
        "gpu_layers": float(placement.layers_on_gpu),
        "streamed_layers": float(len(placement.streamed_layers)),
        "ring_slots": float(placement.ring_slots),
        "answer_slots": float(placement.num_slots),
    }
