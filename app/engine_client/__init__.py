"""The engine's other end: a process kept alive, requests with typed results, notices as signals.

No other package knows how messages are encoded.
"""

from __future__ import annotations

from app.engine_client.client import EngineClient
from app.engine_client.pulse import Patience

__all__ = ["EngineClient", "Patience"]
