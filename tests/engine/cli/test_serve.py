"""Tests for engine.cli.serve: with an engine of its own, asked over HTTP."""

from __future__ import annotations

import io
import json
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import requests

from engine.cli import serve
from engine.cli.output import Output
from engine.cli.parser import make_parser
from engine.config import Home
from engine.errors import RagdollError
from engine.settings_file import SettingsStore

PATIENCE_S = 20.0


@pytest.fixture
def served(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., dict[str, Any]]:
    """Serves until somebody has asked, and is then ended; what was told, and what the asker got."""
    monkeypatch.setenv("RAGDOLL_HOME", str(tmp_path))

    def run(port: int) -> dict[str, Any]:
        stream, told = io.BytesIO(), dict[str, Any]()

        def until_set(event: object) -> None:
            told.update(json.loads(stream.getvalue()))
            headers = {"Authorization": f"Bearer {told['key']}"}
            told["reply"] = requests.get(f"{told['address']}/models", headers=headers, timeout=PATIENCE_S).json()
            raise KeyboardInterrupt

        monkeypatch.setattr(serve, "until_set", until_set)
        serve.serve(make_parser().parse_args(["serve", "--json", "--port", str(port)]), Output(stream, is_json=True))
        return told

    return run


def test_others_can_ask_until_it_is_ended(served, tmp_path: Path):
    told = served(0)
    assert [model["id"] for model in told["reply"]["data"]] == [
        "ragdoll",
        "ragdoll:files",
        "none:files",
        "all-MiniLM-L6-v2",
    ]
    with pytest.raises(requests.exceptions.ConnectionError):
        requests.get(f"{told['address']}/models", timeout=PATIENCE_S)
    settings = SettingsStore(Home.under(tmp_path).settings_file).settings.server
    assert (settings.enabled, settings.key) == (False, told["key"]), "whether the window serves stays as it was"


@pytest.mark.expects_warnings
def test_a_port_that_is_taken_ends_it_with_a_sentence(served):
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        with pytest.raises(RagdollError, match="another port"):
            served(other.getsockname()[1])
