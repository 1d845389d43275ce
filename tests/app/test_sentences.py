"""Tests for app.sentences."""

from __future__ import annotations

from app.sentences import joined, listed


def test_sentences_are_set_apart_as_their_language_does_it():
    assert joined("It ended.", "", "Start it again.") == "It ended. Start it again."
    assert joined("引擎已停止。", "请重新启动。") == "引擎已停止。请重新启动。"
    assert joined("It ended.", "请重新启动。", "Now.") == "It ended. 请重新启动。Now."
    assert joined() == ""


def test_a_list_has_commas_between_what_there_is(qapp):
    assert listed(["layer 12", "", "138 MiB"]) == "layer 12, 138 MiB"
    assert listed([]) == ""
