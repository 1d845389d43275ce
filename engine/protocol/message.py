"""The base of all messages: frozen, and tolerant of fields of a newer version; and what a request consists of."""

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
    """A request by name, with the types of its parameters and of its result.

    `is_repeatable`: a user's request that may be carried out twice without harm. If an engine dies before it has
    answered, the next one is asked.
    """

    name: str
    params: type[P]
    result: type[R]
    is_repeatable: bool = False


class Nothing(Message):
    """No parameters, or nothing to say but "done"."""
