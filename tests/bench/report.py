"""Common output of the benches: our figures, those of the peers, and their ratios."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

Figures = Mapping[str, float]


def ratios(ours: Figures, peers: Mapping[str, Figures]) -> dict[str, dict[str, float]]:
    """Returns ours ÷ theirs for every figure that both have and that is not 0 for the peer."""
    return {
        peer: {name: ours[name] / theirs[name] for name in ours if theirs.get(name)} for peer, theirs in peers.items()
    }


def write(file: Path, ours: Figures, peers: Mapping[str, Figures], named: Figures | None = None) -> None:
    """Writes `{"ours", "peers", "ratios"}` as JSON; `named` are ratios under names of their own, beside the peers'."""
    content = {
        "ours": dict(ours),
        "peers": {k: dict(v) for k, v in peers.items()},
        "ratios": {**ratios(ours, peers), **(named or {})},
    }
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(content, indent=2, sort_keys=True) + "\n", encoding="utf-8")


def show(title: str, ours: Figures, peers: Mapping[str, Figures], bounds: Figures | None = None) -> None:
    """Prints a table; `bounds` are upper bounds, shown beside their figures."""
    print(f"{title}:")
    for name, value in ours.items():
        line = f"  {name:<32} {value:>12.4g}"
        for peer, theirs in peers.items():
            if name in theirs:
                line += f"   {peer}: {theirs[name]:.4g}"
        if bounds and name in bounds:
            line += f"   bound {bounds[name]:g}: {'kept' if value <= bounds[name] else 'BROKEN'}"
        print(line)


def are_within(ours: Figures, bounds: Figures) -> bool:
    """Returns whether every figure with an upper bound was measured and keeps it."""
    return all(name in ours and ours[name] <= bound for name, bound in bounds.items())


def unmeasured(bounds: Figures, named: Figures) -> list[str]:
    """Returns a line for each bound without a measurement: a peer that failed does not keep it."""
    return [
        f"  {name:<32} {'-':>12}   bound {least:g}: BROKEN, it was not measured"
        for name, least in bounds.items()
        if name not in named
    ]


def show_promised(named: Figures, bounds: Figures) -> bool:
    """Prints ratios like `show_ratios`; returns False also if one with a bound was not measured."""
    for line in (missing := unmeasured(bounds, named)):
        print(line)
    return show_ratios(named, bounds) and not missing


def show_ratios(named: Figures, at_least: Figures) -> bool:
    """Prints a line for each ratio, with its bound if it has one; returns whether all bounds are kept."""
    for name, ratio in named.items():
        line = f"  {name:<32} {ratio:>12.3f}"
        if name in at_least:
            line += f"   bound {at_least[name]:g}: {'kept' if ratio >= at_least[name] else 'BROKEN'}"
        print(line)
    return all(ratio >= at_least[name] for name, ratio in named.items() if name in at_least)
