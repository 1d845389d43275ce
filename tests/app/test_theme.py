"""Tests for app.theme."""

from __future__ import annotations

import re
import subprocess
import sys
from dataclasses import fields
from pathlib import Path

import pytest
from PySide6.QtCore import QLocale, QSize
from PySide6.QtGui import QColor, QIcon, QPalette
from PySide6.QtWidgets import QApplication, QPushButton

import resources
from app import theme

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def look(qapp):
    made = theme.appearance()
    made.choose("light")
    yield made
    made.choose("light")


def contrast(one: str, other: str) -> float:
    """WCAG 2.1's contrast ratio of two colours."""
    bright, dark = sorted((luminance(one), luminance(other)), reverse=True)
    return (bright + 0.05) / (dark + 0.05)


def luminance(colour: str) -> float:
    parts = QColor(colour).getRgbF()[:3]
    red, green, blue = (part / 12.92 if part <= 0.03928 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


@pytest.mark.parametrize("look_of", [theme.LIGHT, theme.DARK], ids=lambda found: found.name)
@pytest.mark.parametrize(
    ("ink", "paper"),
    [
        *(("text", paper) for paper in ("window", "sidebar", "surface", "sunken", "hover", "accent_soft", "mark")),
        *(("muted", paper) for paper in ("window", "sidebar", "surface", "sunken")),
        ("on_accent", "accent"), ("accent", "surface"), ("accent", "accent_soft"), ("accent", "window"),
        ("good", "good_soft"), ("warn", "warn_soft"), ("bad", "bad_soft"), ("bad", "surface"),
    ],
)  # fmt: skip
def test_text_can_be_read_on_what_it_stands_on(look_of, ink, paper):
    assert contrast(getattr(look_of, ink), getattr(look_of, paper)) >= 4.5


@pytest.mark.parametrize("look_of", [theme.LIGHT, theme.DARK], ids=lambda found: found.name)
def test_every_place_in_the_style_sheet_is_filled(qapp, look_of):
    sheet = theme.style_sheet(look_of)
    assert not re.findall(r"\$[a-z_]+", sheet.partition("*/")[2])
    assert look_of.accent in sheet


def test_arrows_of_the_style_sheet_are_files_that_exist(qapp):
    for look_of in (theme.LIGHT, theme.DARK):
        for name in ("up", "down"):
            assert resources.path(f"theme/arrow-{name}-{look_of.name}.svg").is_file()


def test_both_themes_name_a_colour_for_everything():
    for field in fields(theme.Theme):
        if field.name not in ("name", "owners"):
            assert QColor(getattr(theme.LIGHT, field.name)).isValid()
            assert QColor(getattr(theme.DARK, field.name)).isValid()
    assert len(theme.LIGHT.owners) == len(theme.DARK.owners) == len(set(theme.LIGHT.owners))


def test_choosing_a_theme_dresses_the_application_in_it(look, qtbot):
    with qtbot.waitSignal(look.changed):
        look.choose("dark")
    assert theme.current() is theme.DARK
    assert QApplication.palette().color(QPalette.ColorRole.Window) == QColor(theme.DARK.window)
    assert theme.DARK.sidebar in QApplication.instance().styleSheet()


def test_choosing_the_same_again_does_nothing(look, qtbot):
    with qtbot.assertNotEmitted(look.changed):
        look.choose("light", 1.0)


def test_text_size_follows_the_wish(look):
    look.choose("light", 1.5)
    assert QApplication.font().pointSizeF() == pytest.approx(theme.BASE_POINTS * 1.5)


def test_there_is_one_appearance(look):
    assert theme.appearance() is look


def test_a_dressed_button_changes_its_icon_with_the_theme(look, qtbot):
    button = QPushButton()
    qtbot.addWidget(button)
    theme.dress(button, "send", "text")
    light = button.icon().pixmap(QSize(18, 18)).toImage()
    look.choose("dark")
    assert button.icon().pixmap(QSize(18, 18)).toImage() != light


def test_icons_are_crisp_at_two_pixels_a_point(qapp):
    made = theme.pixmap("send", 20, "#000000", 2.0)
    assert made.size() == QSize(40, 40)
    assert made.devicePixelRatio() == 2.0


def test_an_icon_shows_that_it_is_checked_and_that_it_is_disabled(look):
    made = theme.icon("chats", "#111111", 18, "#22aa22", "#cccccc")
    pictures = [
        made.pixmap(QSize(18, 18), mode, state).toImage()
        for mode, state in (
            (QIcon.Mode.Normal, QIcon.State.Off),
            (QIcon.Mode.Normal, QIcon.State.On),
            (QIcon.Mode.Disabled, QIcon.State.Off),
        )
    ]
    assert pictures[0] != pictures[1]
    assert pictures[0] != pictures[2]


@pytest.mark.parametrize(
    ("locale", "family"),
    [("zh_CN", "Noto Sans CJK SC"), ("zh_TW", "Noto Sans CJK TC"), ("ja_JP", "Noto Sans CJK JP"),
     ("ko_KR", "Noto Sans CJK KR"), ("en_US", "Noto Sans CJK SC")],
)  # fmt: skip
def test_cjk_shapes_are_those_the_reader_expects(qapp, monkeypatch, locale, family):
    monkeypatch.setattr(theme, "_present", lambda *wanted: list(wanted))
    families = theme.font(1.0, QLocale(locale)).families()
    assert next(name for name in families if "CJK" in name) == family


# In a process of its own: an application has one Appearance, and here it has one already.
DRESSES = """
from PySide6.QtWidgets import QWidget
from app import theme
from app.main import dressed_window, make_application
from app.settings import WindowSettings

application = make_application(["ragdoll"])
sheets = []
put = type(application).setStyleSheet

def counted(self, text):
    sheets.append((text, len(application.allWidgets())))
    put(self, text)

type(application).setStyleSheet = counted
window = dressed_window(WindowSettings(theme="dark", font_scale=1.2))
((sheet, num_widgets),) = sheets
assert theme.DARK.accent in sheet, sheet
assert num_widgets > len(window.findChildren(QWidget)) > 30, num_widgets
window.apply_settings(WindowSettings(theme="light"))
assert theme.LIGHT.accent in application.styleSheet()
"""


def test_a_window_is_dressed_once_and_in_the_theme_of_its_user():
    done = subprocess.run([sys.executable, "-c", DRESSES], capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 0, done.stderr


# Ends by SIGSEGV where objects are made for widgets of Qt's own while garbage is collected.
LISTS = """
import gc
from PySide6.QtWidgets import QApplication, QComboBox, QScrollArea, QWidget
from app import theme

application = QApplication([])
theme.appearance()

class Forgotten(QWidget):
    def __init__(self):
        super().__init__()
        self.me = self
        self.parts = QComboBox(self), QScrollArea(self)

def put(self, text):
    # What comes next is the list.
    gc.set_threshold(1, 1, 1)

type(application).setStyleSheet = put
for number in range(20):
    gc.set_threshold(1_000_000, 10, 10)
    for _ in range(50):
        Forgotten()
    theme.appearance().choose("dark" if number % 2 else "light")
"""


def test_what_is_thrown_away_while_a_theme_is_put_on_ends_nobody():
    ended = subprocess.run([sys.executable, "-c", LISTS], capture_output=True, text=True, timeout=120, check=False)
    assert ended.returncode == 0, ended.stderr
