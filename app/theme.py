"""The look, as values: two frozen themes; the palette, style sheet, icons made of one; fonts by locale.

The colours are a ragdoll cat's: cream fur for surfaces, sapphire eyes for the one accent. Qt has no platform
theme to ask everywhere (`setColorScheme` then does nothing), so we choose the theme ourselves from
`styleHints().colorScheme()` and the user's setting.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import cache
from string import Template
from typing import Literal

from PySide6.QtCore import QByteArray, QLocale, QObject, QRectF, QSize, Qt, Signal
from PySide6.QtGui import (
    QColor,
    QFont,
    QFontDatabase,
    QFontMetrics,
    QGuiApplication,
    QIcon,
    QPainter,
    QPalette,
    QPixmap,
)
from PySide6.QtSvg import QSvgRenderer
from PySide6.QtWidgets import QAbstractButton, QApplication, QWidget

import resources

ThemeChoice = Literal["system", "light", "dark"]

BASE_POINTS = 10.5
_LEAST_LINE_PX = 20
# A property of the application that was started with Fusion as its style.
HAS_OUR_STYLE = "ragdollStyle"
_APPEARANCE = "ragdollAppearance"


@dataclass(frozen=True, slots=True)
class Theme:
    """All colours by their purpose. `owners` are the fills of the memory map, in the order of its legend."""

    name: Literal["light", "dark"]
    window: str
    sidebar: str
    surface: str
    sunken: str
    hover: str
    border: str
    border_strong: str
    text: str
    muted: str
    faint: str
    accent: str
    accent_hover: str
    accent_soft: str
    on_accent: str
    good: str
    good_soft: str
    warn: str
    warn_soft: str
    bad: str
    bad_soft: str
    mark: str
    scroll: str
    code_keyword: str
    code_string: str
    code_number: str
    code_name: str
    owners: tuple[str, ...]


LIGHT = Theme(
    name="light",
    window="#fbfaf8",
    sidebar="#f3f1ec",
    surface="#ffffff",
    sunken="#f4f2ee",
    hover="#ebe8e1",
    border="#e6e2da",
    border_strong="#d2ccc0",
    text="#23211d",
    muted="#6a655b",
    faint="#a39c8f",
    accent="#2e63cf",
    accent_hover="#2653b3",
    accent_soft="#e8effc",
    on_accent="#ffffff",
    good="#1f7a4d",
    good_soft="#e3f3ea",
    warn="#8f5a00",
    warn_soft="#fcf0d9",
    bad="#b3372b",
    bad_soft="#fbe9e6",
    mark="#ffe69a",
    scroll="#d5d0c6",
    code_keyword="#8a3ca8",
    code_string="#1f7a4d",
    code_number="#a85a00",
    code_name="#2e63cf",
    owners=("#4f83e6", "#e0a23d", "#45a77c", "#b27bd0", "#d9776b", "#9db4dd", "#5bb3c4", "#a9a59c"),
)

DARK = Theme(
    name="dark",
    window="#1b1b1e",
    sidebar="#151518",
    surface="#232327",
    sunken="#1f1f23",
    hover="#2d2d32",
    border="#323238",
    border_strong="#47474f",
    text="#eceae5",
    muted="#a7a39b",
    faint="#73706a",
    accent="#82abf7",
    accent_hover="#9bbcfa",
    accent_soft="#263453",
    on_accent="#0f1729",
    good="#6fcf9b",
    good_soft="#1e362a",
    warn="#e7b65c",
    warn_soft="#3a2f1a",
    bad="#f08b80",
    bad_soft="#422523",
    mark="#6b5714",
    scroll="#45454c",
    code_keyword="#d3a1ea",
    code_string="#8fd3a8",
    code_number="#e9b872",
    code_name="#8fb5fa",
    owners=("#5c8df0", "#dba143", "#4fb287", "#b583d6", "#de8074", "#3f5c96", "#5fb6c8", "#77746e"),
)

_in_force = LIGHT


def current() -> Theme:
    """Returns the theme in force, one for the whole application."""
    return _in_force


class Appearance(QObject):
    """Owns the theme in force and dresses the application in it; ask for it with `appearance()`."""

    changed = Signal()

    def __init__(
        self, app: QApplication, choice: ThemeChoice = "system", font_scale: float = 1.0, *, has_sheet: bool = True
    ) -> None:
        """Without `has_sheet` there is no style sheet until `put_sheet`: a caller may build a whole window first."""
        super().__init__(app)
        self._app = app
        app.setProperty(_APPEARANCE, self)
        self._choice: ThemeChoice = choice
        self._scale = font_scale
        self._has_sheet = has_sheet
        self._applied: tuple[Theme, float] | None = None
        if not app.property(HAS_OUR_STYLE):
            app.setStyle("Fusion")
        app.styleHints().colorSchemeChanged.connect(self._apply)
        self._apply()

    def choose(self, choice: ThemeChoice, font_scale: float = 1.0) -> None:
        """Takes the user's choice; "system" follows the desktop. `font_scale` multiplies every text size."""
        self._choice, self._scale = choice, font_scale
        self._apply()

    def put_sheet(self) -> None:
        """Applies the style sheet to the application; done late, because each reparented widget evaluates it again."""
        if not self._has_sheet:
            self._has_sheet = True
            self._app.setStyleSheet(style_sheet(self.theme, self._scale))

    @property
    def theme(self) -> Theme:
        if self._choice == "system":
            return DARK if self._app.styleHints().colorScheme() == Qt.ColorScheme.Dark else LIGHT
        return DARK if self._choice == "dark" else LIGHT

    def _apply(self) -> None:
        global _in_force
        theme = self.theme
        if self._applied == (theme, self._scale):
            return
        self._applied = (theme, self._scale)
        _in_force = theme
        with _garbage_kept():
            self._app.setFont(font(self._scale))
            self._app.setPalette(palette(theme))
            if self._has_sheet:
                self._app.setStyleSheet(style_sheet(theme, self._scale))
            for widget in QApplication.allWidgets():
                _redress(widget)
        self.changed.emit()


@contextmanager
def _garbage_kept() -> Iterator[None]:
    """Pauses Python's garbage collection, which deletes unreferenced widgets.

    Qt iterates over a list of all widgets here, and so do we: a widget that is deleted meanwhile, or has lost its
    attributes, would crash the process.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def appearance(choice: ThemeChoice = "system", font_scale: float = 1.0, *, has_sheet: bool = True) -> Appearance:
    """Returns the application's one Appearance, made at the first call; later calls ignore the arguments."""
    app = QApplication.instance()
    assert isinstance(app, QApplication), "widgets need an application"
    # Not by findChild: PySide would load every class that an object from Qt might be.
    found = app.property(_APPEARANCE)
    return found if isinstance(found, Appearance) else Appearance(app, choice, font_scale, has_sheet=has_sheet)


def palette(theme: Theme) -> QPalette:
    """Returns the theme as a QPalette, for what the style sheet does not cover (menus, tooltips, dialogs)."""
    role, made = QPalette.ColorRole, QPalette()
    for what, colour in (
        (role.Window, theme.window), (role.WindowText, theme.text),
        (role.Base, theme.surface), (role.AlternateBase, theme.sunken), (role.Text, theme.text),
        (role.Button, theme.surface), (role.ButtonText, theme.text), (role.BrightText, theme.bad),
        (role.Highlight, theme.accent), (role.HighlightedText, theme.on_accent), (role.Accent, theme.accent),
        (role.Link, theme.accent), (role.LinkVisited, theme.accent), (role.PlaceholderText, theme.faint),
        (role.ToolTipBase, theme.surface), (role.ToolTipText, theme.text),
        (role.Light, theme.surface), (role.Midlight, theme.hover), (role.Mid, theme.border),
        (role.Dark, theme.border_strong), (role.Shadow, theme.border_strong),
    ):  # fmt: skip
        made.setColor(what, QColor(colour))
    for what in (role.WindowText, role.Text, role.ButtonText):
        made.setColor(QPalette.ColorGroup.Disabled, what, QColor(theme.faint))
    return made


def style_sheet(theme: Theme, font_scale: float = 1.0) -> str:
    """Returns the QSS with the theme's colours and the text sizes (points) filled in."""
    values = {name: value for name, value in asdict(theme).items() if isinstance(value, str)}
    values["arrow_down"], values["arrow_up"] = _picture_file("arrow-down", theme), _picture_file("arrow-up", theme)
    for size, factor in (("tiny", 0.82), ("small", 0.9), ("base", 1.0), ("large", 1.15), ("title", 1.6), ("hero", 2.1)):
        values[f"pt_{size}"] = f"{BASE_POINTS * font_scale * factor:.1f}pt"
    values["check"] = _picture_file("check", theme)
    # A layout without room shrinks to the lowest height that a style sheet names, whatever the widget needs.
    values["line"] = f"{max(_LEAST_LINE_PX, QFontMetrics(font(font_scale)).height())}px"
    return Template(resources.text("theme/window.qss")).substitute(values)


def _picture_file(name: str, theme: Theme) -> str:
    # Fusion cannot draw the arrows of a field that has a style sheet; QSS takes pictures from files only.
    return str(resources.path(f"theme/{name}-{theme.name}.svg")).replace("\\", "/")


# --- fonts ---------------------------------------------------------------------------------------

# The same shapes under the names that they have on other systems, best first.
_SIMPLIFIED = ("Noto Sans CJK SC", "Noto Sans SC", "Source Han Sans SC", "Microsoft YaHei UI", "PingFang SC")
_CJK_BY_LANGUAGE = {
    QLocale.Language.Japanese: ("Noto Sans CJK JP",),
    QLocale.Language.Korean: ("Noto Sans CJK KR",),
}


def font(font_scale: float = 1.0, locale: QLocale | None = None) -> QFont:
    """Returns the window's font: Latin families, then the CJK family whose shapes the locale's readers expect."""
    locale = locale or QLocale()
    cjk = _CJK_BY_LANGUAGE.get(locale.language(), _SIMPLIFIED)
    if locale.language() == QLocale.Language.Chinese and locale.script() == QLocale.Script.TraditionalChineseScript:
        cjk = ("Noto Sans CJK TC",)
    made = QFont(QGuiApplication.font())
    made.setFamilies(_present("Inter", "Noto Sans", "Segoe UI", "SF Pro Text", "Cantarell", "DejaVu Sans", *cjk))
    made.setPointSizeF(BASE_POINTS * font_scale)
    return made


@cache
def mono_families() -> tuple[str, ...]:
    """Returns the installed families for code; never empty."""
    return tuple(
        _present("JetBrains Mono", "Noto Sans Mono", "DejaVu Sans Mono", "Liberation Mono", "Noto Sans CJK SC")
    ) or ("monospace",)


def lacks_cjk_font() -> bool:
    """Whether Chinese text would show as boxes; the window then gives a hint."""
    return not QFontDatabase.families(QFontDatabase.WritingSystem.SimplifiedChinese)


def _present(*wanted: str) -> list[str]:
    installed = set(QFontDatabase.families())
    return [family for family in wanted if family in installed]


# --- icons ---------------------------------------------------------------------------------------


def icon(name: str, colour: str, side: int = 18, checked: str = "", disabled: str = "") -> QIcon:
    """Returns the icon in `colour`, in the colour `checked` when on or `disabled` when disabled, at the pixel ratio."""
    app = QGuiApplication.instance()
    ratio = app.devicePixelRatio() if isinstance(app, QGuiApplication) else 1.0
    return _icon(name, side, colour, checked, disabled, ratio)


@cache
def _icon(name: str, side: int, colour: str, checked: str, disabled: str, ratio: float) -> QIcon:
    # Only what can be seen, because rendering every size and state of every icon cost a quarter of the first paint.
    made = QIcon(pixmap(name, side, colour, ratio))
    if checked:
        made.addPixmap(pixmap(name, side, checked, ratio), QIcon.Mode.Normal, QIcon.State.On)
    if disabled:
        made.addPixmap(pixmap(name, side, disabled, ratio), QIcon.Mode.Disabled, QIcon.State.Off)
    return made


def pixmap(name: str, side: int, colour: str, ratio: float = 1.0) -> QPixmap:
    """`icons/<name>.svg` as a square of `side` logical pixels, with currentColor replaced by `colour`."""
    svg = resources.text(f"icons/{name}.svg").replace("currentColor", colour)
    renderer = QSvgRenderer(QByteArray(svg.encode()))
    made = QPixmap(QSize(round(side * ratio), round(side * ratio)))
    made.fill(Qt.GlobalColor.transparent)
    painter = QPainter(made)
    renderer.render(painter, QRectF(made.rect()))
    painter.end()
    made.setDevicePixelRatio(ratio)
    return made


def dress(button: QAbstractButton, name: str, colour: str = "muted", checked: str = "accent", side: int = 18) -> None:
    """Gives `button` an icon in the theme's colours (fields of Theme) that is redone when the theme changes.

    Make a button checkable before; `checked` is the colour of its icon when it is on.
    """
    button.setProperty("iconDress", (name, colour, checked, side))
    button.setIconSize(QSize(side, side))
    _redress(button)


def _redress(widget: QWidget) -> None:
    dressed = widget.property("iconDress")
    if dressed and isinstance(widget, QAbstractButton):
        name, colour, checked, side = dressed
        look = current()
        when_checked = getattr(look, checked) if widget.isCheckable() else ""
        widget.setIcon(icon(name, getattr(look, colour), side, when_checked, look.faint))


def restyle(widget: QWidget, **properties: str | bool) -> None:
    """Sets dynamic properties that the style sheet selects by, and applies the sheet again."""
    for name, value in properties.items():
        widget.setProperty(name, value)
    widget.style().unpolish(widget)
    widget.style().polish(widget)
