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
    """Which of our languages: that of the locale that is `wished`, "" for the first that the system's user reads.

    English where we do not have it. Traditional Chinese is not the same as Simplified, and is not taken for it.
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
    """Whether a font has the letters of a language; without one there would be only boxes, and no way back."""
    return language not in _WRITING or bool(QFontDatabase.families(_WRITING[language]))


def speak(wished: str) -> None:
    """Has all that is shown from now on come in that language, and figures and dates as its locale writes them.

    `wished` is the name of a locale such as "zh_CN", "" is the system's. What cannot be shown is not spoken.
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
    # Qt's own first: what is installed later is asked first. Where Qt has none, its dialogs stay English.
    of_qt = QLibraryInfo.path(QLibraryInfo.LibraryPath.TranslationsPath)
    files = [f"{of_qt}/qtbase_{language}.qm"]
    # Without our translation, as in a damaged installation, the window is English and opens nevertheless.
    with suppress(FileNotFoundError):
        files.append(str(resources.path(f"translations/ragdoll_{language}.qm")))
    for file in files:
        translator = QTranslator(application)
        if translator.load(file):
            application.installTranslator(translator)
