"""Tests for letting other applications ask, in the settings: what to type into them, and why they cannot."""

from __future__ import annotations

import pytest
from PySide6.QtGui import QGuiApplication
from PySide6.QtWidgets import QMessageBox, QPushButton, QScrollArea

from app import theme
from engine import protocol

SERVER = {"enabled": True, "port": 4411, "needs_key": True, "key": "secret"}
ADDRESS = "http://127.0.0.1:4411/v1"


@pytest.fixture
def page(window, client):
    """The settings, of an engine that answers other applications."""
    page = window.go_to("settings")
    client.answer(protocol.SETTINGS_GET, protocol.SettingsReply(settings={"server": SERVER}))
    client.answer(protocol.SERVER, protocol.ServerState(address=ADDRESS))
    return page


def test_address_and_key_are_shown_and_copied(page):
    lines = page.server
    assert lines.isVisibleTo(page)
    lines.copy_address.click()
    assert QGuiApplication.clipboard().text() == lines.address.text() == ADDRESS
    lines.copy_key.click()
    assert QGuiApplication.clipboard().text() == lines.key.text() == "secret"
    assert not lines.problem.isVisibleTo(page)


def test_it_is_switched_on_and_off_like_any_setting(page, client, qtbot):
    page.engine_control("server.enabled").setChecked(False)
    qtbot.wait_until(lambda: bool(client.asked(protocol.SETTINGS_SET)))
    assert client.asked(protocol.SETTINGS_SET)[-1].changes == {"server.enabled": False}
    client.answer(protocol.SETTINGS_SET, protocol.SettingsReply(settings={"server": {**SERVER, "enabled": False}}))
    client.tell(protocol.ServerChanged(address="", problem=""))
    assert not page.server.isVisibleTo(page)


def test_why_nobody_can_ask_is_told_until_somebody_can(page, client):
    client.tell(protocol.ServerChanged(address="", problem="Port 4411 is taken. Choose another port."))
    lines = page.server
    again = "Ragdoll tries again every few seconds."
    assert lines.problem.text() == f"Port 4411 is taken. Choose another port. {again}"
    assert lines.problem.isVisibleTo(page)
    assert not lines.copy_address.isVisibleTo(page)
    assert not lines.copy_key.isVisibleTo(page)
    client.tell(protocol.ServerChanged(address=ADDRESS, problem=""))
    assert not lines.problem.isVisibleTo(page)
    assert lines.copy_address.isVisibleTo(page)


def test_another_key_is_made_by_the_engine_after_it_was_asked(page, client):
    page.server.new_key.click()
    (box,) = page.server.findChildren(QMessageBox)
    assert not client.asked(protocol.SETTINGS_SET)
    next(button for button in box.findChildren(QPushButton) if button.text() == "Create a new key").click()
    assert client.asked(protocol.SETTINGS_SET)[-1].changes == {"server.key": ""}
    client.answer(protocol.SETTINGS_SET, protocol.SettingsReply(settings={"server": {**SERVER, "key": "other"}}))
    assert page.server.key.text() == "other"


def test_where_no_key_is_needed_none_is_shown(page, client):
    page.engine_settings._on_settings(protocol.SettingsReply(settings={"server": {**SERVER, "needs_key": False}}))
    assert not page.server.copy_key.isVisibleTo(page)
    assert page.server.copy_address.isVisibleTo(page)


def test_a_port_is_shown_as_ports_are(page):
    assert page.engine_control("server.port").text() == "4411"


def test_a_long_key_gives_way_in_a_small_window_with_large_letters(window, page, qtbot):
    window.resize(760, 520)
    theme.appearance().choose("light", 1.6)
    settings = protocol.SettingsReply(settings={"server": {**SERVER, "key": "orNFUR0M9nDoq55SwhiMNmJjbI9lD0jg"}})
    page.engine_settings._on_settings(settings)
    scroll = next(area for area in page.findChildren(QScrollArea) if area.isAncestorOf(page.server))
    qtbot.wait_until(lambda: scroll.widget().minimumSizeHint().width() <= scroll.viewport().width())
