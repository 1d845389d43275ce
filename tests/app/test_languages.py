"""Tests for app.languages."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest
from PySide6.QtCore import QCoreApplication, QLocale
from PySide6.QtWidgets import QMessageBox

from app import languages
from app.chats.errors import told
from app.sentences import listed
from app.settings import SettingsStore
from app.widgets.figures import seconds_text
from app.widgets.rail import Rail

CAN_BE_SHOWN = languages.can_be_shown


@pytest.fixture(autouse=True)
def back_to_english(qapp, monkeypatch) -> Iterator[None]:
    before = QLocale()
    # Whatever fonts are installed here.
    monkeypatch.setattr(languages, "can_be_shown", lambda _: True)
    yield
    languages.speak("en")
    QLocale.setDefault(before)


class System:
    """A system whose user reads these languages."""

    def __init__(self, *names: str) -> None:
        self._names = list(names)

    def uiLanguages(self) -> list[str]:  # noqa: N802 - Qt's name
        return self._names


@pytest.mark.parametrize(
    ("wished", "of_system", "spoken"),
    [
        ("", ("zh-Hans-CN", "zh-CN", "zh"), "zh_CN"),
        ("", ("zh-Hant-TW", "zh-TW", "zh"), "en"),
        ("", ("zh-SG",), "zh_CN"),
        ("", ("fr-FR", "fr", "zh-CN", "en"), "zh_CN"),
        ("", ("fr-FR", "fr", "en", "zh-CN"), "en"),
        ("", ("fr-FR",), "en"),
        ("", ("C",), "en"),
        ("", (), "en"),
        ("en", ("zh-CN",), "en"),
        ("zh_CN", ("en-US",), "zh_CN"),
        ("zh", ("en-US",), "zh_CN"),
        ("de_DE", ("zh-CN",), "en"),
        ("no such language", ("zh-CN",), "en"),
    ],
)
def test_the_wished_language_is_spoken_or_the_first_that_the_systems_user_reads(wished, of_system, spoken):
    assert languages.spoken(wished, System(*of_system)) == spoken


@pytest.mark.parametrize("language", languages.NAMES)
def test_each_is_one_that_qt_knows(language):
    assert QLocale(language).name().startswith(language)


def test_all_comes_in_the_language_until_another_is_spoken(qtbot):
    assert QCoreApplication.translate("Rail", "Library") == "Library"
    languages.speak("zh_CN")
    assert QCoreApplication.translate("Rail", "Library") == "资料库"
    assert seconds_text(7.25) == "7.3 秒"
    assert QLocale().name() == "zh_CN"
    languages.speak("zh_CN")
    languages.speak("en")
    assert QCoreApplication.translate("Rail", "Library") == "Library"


def test_what_no_font_has_letters_for_is_not_spoken(qapp, monkeypatch):
    monkeypatch.setattr(languages, "can_be_shown", CAN_BE_SHOWN)
    monkeypatch.setattr(languages.QFontDatabase, "families", lambda writing: [])
    languages.speak("zh_CN")
    assert QCoreApplication.translate("Rail", "Library") == "Library"
    monkeypatch.setattr(languages.QFontDatabase, "families", lambda writing: ["Noto Sans CJK SC"])
    languages.speak("zh_CN")
    assert QCoreApplication.translate("Rail", "Library") == "资料库"


def test_qts_own_dialogs_speak_it_too(qtbot):
    languages.speak("zh_CN")
    box = QMessageBox()
    qtbot.addWidget(box)
    assert box.addButton(QMessageBox.StandardButton.Cancel).text() == "取消"


def test_without_qts_own_translation_ours_is_spoken_all_the_same(qtbot, monkeypatch, tmp_path):
    monkeypatch.setattr(languages.QLibraryInfo, "path", lambda _: str(tmp_path))
    languages.speak("zh_CN")
    assert QCoreApplication.translate("Rail", "Library") == "资料库"


@pytest.mark.parametrize("content", [None, b"", b"no translation"])
def test_without_ours_the_window_is_english_and_opens_all_the_same(qapp, monkeypatch, tmp_path, content):
    def path(name: str) -> Path:
        if content is None:
            raise FileNotFoundError(name)
        (tmp_path / "ours.qm").write_bytes(content)
        return tmp_path / "ours.qm"

    monkeypatch.setattr(languages.resources, "path", path)
    languages.speak("zh_CN")
    assert QCoreApplication.translate("Rail", "Library") == "Library"


def test_who_inherits_a_text_finds_its_translation(qtbot):
    """PySide asks for every class that an object is of; the texts are collected for that."""

    class NarrowRail(Rail):
        pass

    languages.speak("zh_CN")
    rail = NarrowRail()
    qtbot.addWidget(rail)
    assert rail.new_chat.accessibleName() == "新建对话"


def test_lists_have_the_commas_of_the_language(qapp):
    languages.speak("zh_CN")
    assert listed(["第 3 页", "第 7 页"]) == "第 3 页、第 7 页"


def test_what_is_wrong_with_the_settings_is_said_in_the_language_that_they_name(qapp, tmp_path):
    file = tmp_path / "window.toml"
    file.write_text('language = "zh_CN"\ntheme = "pink"\n', encoding="utf-8")
    store = SettingsStore(file)
    languages.speak(store.settings.language)
    assert store.problem == "window.toml 中有错误的值（theme）；改正之前使用默认值。"


def test_errors_of_the_chats_are_put_together_in_the_language(qapp):
    languages.speak("zh_CN")
    full = sqlite3.OperationalError("database or disk is full")
    full.sqlite_errorcode = sqlite3.SQLITE_FULL
    error = told(full)
    assert (error.sentence, error.way_out) == ("磁盘已满，无法保存此对话。", "请腾出一些空间；已显示的内容会保留。")
    assert told(sqlite3.DatabaseError("malformed")).sentence == "磁盘上的对话数据已损坏（malformed）。"
