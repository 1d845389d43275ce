"""Real documents and models that lie beside the checkout; a clone alone has none, and its tests skip."""

from __future__ import annotations

from pathlib import Path

SHARED_DATA = Path(__file__).resolve().parents[2].parent / "shared" / "data"


def shared_file(name: str) -> Path:
    """`name` under the shared data, or a skip with the reason."""
    path = SHARED_DATA / name
    if not path.exists():
        # Benches run where only the application is installed.
        import pytest

        pytest.skip(f"shared data is not beside this checkout: {name}")
    return path
