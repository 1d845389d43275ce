"""Tests for app.models.file_names."""

from __future__ import annotations

import pytest

from app.models.file_names import told_apart


@pytest.mark.parametrize(
    ("path", "others", "told"),
    [("/m/a.gguf", ("/m/a.gguf", "/m/b.gguf"), "a.gguf"), ("/m/A/a.gguf", ("/m/B/a.gguf",), "A/a.gguf"),
     ("/x/A/a.gguf", ("/y/A/a.gguf", "/m/a.gguf"), "x/A/a.gguf"), ("/a.gguf", ("/m/a.gguf",), "/a.gguf"),
     ("", (), "")],
)  # fmt: skip
def test_as_many_folders_are_named_as_it_takes(path, others, told):
    assert told_apart(path, others) == told
