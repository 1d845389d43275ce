"""An error of a search, as it is shown to users."""

from __future__ import annotations

import logging

from engine.errors import RagdollError

log = logging.getLogger(__name__)


def reported(error: Exception) -> RagdollError:
    """The error itself where it has a sentence; else one, and what it was goes to the log."""
    if isinstance(error, RagdollError):
        return error
    log.error("searching failed", exc_info=error)
    return RagdollError(f"The search failed unexpectedly ({type(error).__name__}: {error}).", "Please ask again.")
