"""Tests for engine.cli.watch."""

from __future__ import annotations

import io
import threading

import pytest

from engine.cli import watch
from engine.cli.output import Output
from engine.cli.parser import make_parser
from engine.config import Home
from engine.events import IndexFinished, Publish


class Gone(io.BytesIO):
    """What nobody reads any more."""

    def write(self, content: object, /) -> int:
        raise BrokenPipeError


class Changing:
    """An engine that tells of a change, on a thread of its own."""

    def __init__(self, home: Home, tell: Publish, watches: bool) -> None:
        self.home = home
        self._telling = threading.Thread(target=lambda: tell(IndexFinished(1, 0, 0, (), (), 1, 0.0)))

    def __enter__(self) -> Changing:
        return self

    def __exit__(self, *error: object) -> None:
        self._telling.join()

    def start_moving(self) -> None:
        self._telling.start()


def test_watching_ends_where_nobody_hears_it(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(watch, "Engine", Changing)
    with pytest.raises(BrokenPipeError):
        watch.watch(make_parser().parse_args(["watch", "--json"]), Output(Gone(), is_json=True))
