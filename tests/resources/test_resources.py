"""Tests for resources."""

from __future__ import annotations

import pytest
from PySide6.QtCore import QByteArray
from PySide6.QtSvg import QSvgRenderer

import resources

ICONS = sorted(entry.name for entry in resources.path("icons").iterdir() if entry.name.endswith(".svg"))


@pytest.mark.parametrize("name", ICONS)
def test_every_icon_is_a_picture_that_qt_can_draw(qapp, name):
    assert QSvgRenderer(QByteArray(resources.text(f"icons/{name}").encode())).isValid()


@pytest.mark.parametrize("name", [name for name in ICONS if name != "ragdoll.svg"])
def test_every_icon_takes_the_themes_colour(name):
    assert "currentColor" in resources.text(f"icons/{name}")


def test_what_we_do_not_ship_is_refused_by_name():
    with pytest.raises(FileNotFoundError, match="no-such"):
        resources.path("icons/no-such.svg")
