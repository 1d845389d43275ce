"""The languages of the window: which one it uses, by the setting or the system, and which translators it installs."""

from __future__ import annotations

from contextlib import suppress

from PySide6.QtCore import QCoreApplication, QLibraryInfo, QLocale, Qt, QTranslator
from PySide6.QtGui import QFontDatabase

import resources

# Each language under its own name; the texts in the code are English.
NAMES = {"en": "English", "zh_CN": "简体中文"}
_OF_THE_CODE = "en"
_WRITING = {"zh_CN": QFontDatabase.WritingSystem.SimplifiedChinese}


def spoken(wished: str, of_system: QLocale) -> str:
    """Returns which of our languages to use: that of the locale `wished`, or for "" the system's first.

    English if we have no translation. Traditional Chinese differs from Simplified and is not replaced by it.
    """
    for name in [wished] if wished else of_system.uiLanguages():
        locale = QLocale(name)
        if locale.language() == QLocale.Language.English:
            return "en"
        if locale.language() == QLocale.Language.Chinese:
            is_simplified = locale.script() == QLocale.Script.SimplifiedChineseScript
            return "zh_CN" if is_simplified else _OF_THE_CODE
    return _OF_THE_CODE


def can_be_shown(language: str) -> bool:
    """Returns whether a font has the letters of a language; without one, the window would show only boxes."""
    return language not in _WRITING or bool(QFontDatabase.families(_WRITING[language]))


def speak(wished: str) -> None:
    """Switches all texts created from now on to a language, and figures and dates to its locale.

    `wished` is the name of a locale such as "zh_CN", "" the system's. Where no font can show it, texts stay English.
    """
    application = QCoreApplication.instance()
    assert application is not None, "there is an application before anything is said"
    for old in application.findChildren(QTranslator, options=Qt.FindChildOption.FindDirectChildrenOnly):
        application.removeTranslator(old)
        old.deleteLater()
    if wished:
        QLocale.setDefault(QLocale(wished))
    language = spoken(wished, QLocale.system())
    if language == _OF_THE_CODE or not can_be_shown(language):
        return
    # Qt's own first, because translators installed later take precedence. Where Qt has none, its dialogs stay English.
    of_qt = QLibraryInfo.path(QLibraryInfo.LibraryPath.TranslationsPath)
    files = [f"{of_qt}/qtbase_{language}.qm"]
    # Without our translation, as in a damaged installation, the window is English and opens nevertheless.
    with suppress(FileNotFoundError):
        files.append(str(resources.path(f"translations/ragdoll_{language}.qm")))
    for file in files:
        translator = QTranslator(application)
        if translator.load(file):
            application.installTranslator(translator)
