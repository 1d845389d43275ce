"""Closing several things: each is closed even if closing one before it failed."""

from __future__ import annotations

import logging
from collections.abc import Callable

log = logging.getLogger(__name__)


def close_all(*steps: Callable[[], object]) -> None:
    """Takes every step in order; raises the first error once all are taken, and logs the others."""
    first: Exception | None = None
    for step in steps:
        try:
            step()
        except Exception as error:
            if first is None:
                first = error
            else:
                # It would be lost behind the first one, of which it often is a consequence.
                log.exception("closing went wrong again")
    if first is not None:
        raise first
