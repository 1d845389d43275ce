"""The application with prescribed answers: a real engine on real documents whose random model writes a given text.

The model's vocabulary has the documents' words, so that their text has about as many tokens as with a real model.
Drafting is off: its gain on quotes is measured elsewhere (drafting.py).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from unittest import mock

from engine import assembly
from engine.config import Home
from engine.core import SamplingParams
from engine.engine import Engine
from engine.events import AnswerFinished
from engine.generation import building
from engine.generation.model import Model
from engine.generation.refresh_policy import RefreshPolicy
from engine.generation.step_loop import StepLoop
from tests.bench.given_tokens import GivenTokens
from tests.bench.real_library import Library

_WORD = re.compile(r"[^\W\d_]{2,}")


def vocabulary_of(library: Library) -> list[str]:
    """Returns the words of a library's documents, the most frequent first."""
    return words_of(text.text for text in library.texts)


def words_of(texts: Iterable[str]) -> list[str]:
    """Returns all words of some texts, the most frequent first."""
    counted = Counter(word for text in texts for word in _WORD.findall(text))
    return [word for word, _ in sorted(counted.items(), key=lambda pair: (-pair[1], pair[0]))]


class Application:
    """An engine that is open within a `with` block; its index and caches stay in `folder` for the next run."""

    def __init__(self, folder: Path, files: Sequence[Path], model: Path, settings: dict[str, Any]) -> None:
        self._text, self._policy = "", RefreshPolicy("none")
        with ExitStack() as undo:
            undo.enter_context(mock.patch.object(building, "StepLoop", self._make_loop))
            undo.enter_context(mock.patch.object(assembly, "RefreshPolicy", self._chosen_policy))
            self._engine = undo.enter_context(Engine(Home.under(folder)))
            self._engine.change_settings({**settings, "generation.refresh": "auto"})
            self._engine.add(files)
            self._engine.use_model(model)
            self._closing = undo.pop_all()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._closing.__exit__(kind, error, trace)

    def write(self, question: str, text: str, num_tokens: int, policy: RefreshPolicy) -> AnswerFinished:
        """Answers with the beginning of `text`, searching again meanwhile as the policy says."""
        self._text, self._policy = text, policy
        sampling = SamplingParams(max_tokens=num_tokens, temperature=0.0, repeat_penalty=1.0)
        [finished] = self._engine.ask_many([question], sampling=sampling)
        return finished

    def _chosen_policy(self) -> RefreshPolicy:
        return self._policy

    def _make_loop(self, *parts: object, **options: Any) -> StepLoop:
        make: Callable[..., StepLoop] = StepLoop
        return make(*parts, **(options | {"make_sampler": self._make_sampler, "make_drafter": None}))

    def _make_sampler(self, model: Model, params: SamplingParams) -> GivenTokens:
        tokens: Sequence[int] = model.tokenize(f" {self._text}")
        return GivenTokens(model, params, tokens)
