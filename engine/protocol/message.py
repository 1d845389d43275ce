"""What every message is: frozen, lenient towards fields of a newer version; and what a request is made of."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, TypeVar

from pydantic import BaseModel, ConfigDict


class Message(BaseModel):
    """Base of everything inside `params` and `result`; unknown fields are ignored, so that minor versions mix."""

    model_config = ConfigDict(frozen=True, extra="ignore")


P = TypeVar("P", bound=Message)
R = TypeVar("R", bound=Message)


@dataclass(frozen=True, slots=True)
class Method(Generic[P, R]):
    """A request by name, with the types of what goes down and what comes back."""

    name: str
    params: type[P]
    result: type[R]


class Nothing(Message):
    """No parameters, or nothing to say but "done"."""
