"""What a benchmark found, in one form: our figures, those of peers measured beside them, and ours divided by theirs."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

Figures = Mapping[str, float]


def ratios(ours: Figures, peers: Mapping[str, Figures]) -> dict[str, dict[str, float]]:
    """Ours ÷ theirs, peer by peer, for every figure that both have and that is not 0 there."""
    return {
        peer: {name: ours[name] / theirs[name] for name in ours if theirs.get(name)} for peer, theirs in peers.items()
    }


def write(file: Path, ours: Figures, peers: Mapping[str, Figures], named: Figures | None = None) -> None:
    """`{"ours", "peers", "ratios"}` as JSON; `named` are ratios by names of their own, beside the peers'."""
    content = {
        "ours": dict(ours),
        "peers": {k: dict(v) for k, v in peers.items()},
        "ratios": {**ratios(ours, peers), **(named or {})},
    }
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(content, indent=2, sort_keys=True) + "\n", encoding="utf-8")


def show(title: str, ours: Figures, peers: Mapping[str, Figures], bounds: Figures | None = None) -> None:
    """A table for the terminal; `bounds` are upper limits of the design, told beside."""
    print(f"{title}:")
    for name, value in ours.items():
        line = f"  {name:<32} {value:>12.4g}"
        for peer, theirs in peers.items():
            if name in theirs:
                line += f"   {peer}: {theirs[name]:.4g}"
        if bounds and name in bounds:
            line += f"   bound {bounds[name]:g}: {'kept' if value <= bounds[name] else 'BROKEN'}"
        print(line)


def unmeasured(bounds: Figures, named: Figures) -> list[str]:
    """A line for each bound of which nothing is known: a peer that failed is no reason to believe it."""
    return [
        f"  {name:<32} {'-':>12}   bound {least:g}: BROKEN, it was not measured"
        for name, least in bounds.items()
        if name not in named
    ]


def show_promised(named: Figures, bounds: Figures) -> bool:
    """As `show_ratios`, where all that there are bounds for was to be measured."""
    for line in (missing := unmeasured(bounds, named)):
        print(line)
    return show_ratios(named, bounds) and not missing


def show_ratios(named: Figures, at_least: Figures) -> bool:
    """A line for each ratio by its name, beside the least it may be; whether all of them are kept."""
    for name, ratio in named.items():
        kept = "kept" if ratio >= at_least[name] else "BROKEN"
        print(f"  {name:<32} {ratio:>12.3f}   bound {at_least[name]:g}: {kept}")
    return all(named[name] >= at_least[name] for name in named)
