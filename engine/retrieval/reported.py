"""An error of a search, as it is shown to users."""

from __future__ import annotations

import logging

from engine.errors import RagdollError

log = logging.getLogger(__name__)


def reported(error: Exception) -> RagdollError:
    """Returns an error of ours unchanged; logs any other, and returns a RagdollError for it."""
    if isinstance(error, RagdollError):
        return error
    log.error("searching failed", exc_info=error)
    return RagdollError(f"The search failed unexpectedly ({type(error).__name__}: {error}).", "Please ask again.")
