"""Tests for translations.py and for the translations themselves: none is missing, cut short or out of date."""

from __future__ import annotations

import re
from pathlib import Path
from types import ModuleType

import pytest

Translations = dict[tuple[str, str], str]

HAN = "[\u4e00-\u9fff]"
PLACE = re.compile(r"%\d")
SHORTCUT = re.compile(r"\(((?:Ctrl\+|Shift\+|Alt\+)*(?:F\d+|Esc|Enter|[A-Z]))\)")
FILTER = re.compile(r" \(\*[^)]*\)")
# What was called what, so that one thing has one name.
NAMED = {
    "library": "资料库", "collection": "合集", "chat": "对话", "embedding model": "嵌入模型", "graphics card": "显卡",
    "passages": "段落", "tokens": "词元",
}  # fmt: skip


@pytest.fixture(params=["zh_CN"])
def file(request: pytest.FixtureRequest, root: Path) -> Path:
    return root / "resources" / "translations" / f"ragdoll_{request.param}.ts"


@pytest.fixture
def known(file: Path, translations: ModuleType) -> Translations:
    read: Translations = translations.read(file)
    return read


# --- what we ship ---


def test_every_text_of_the_window_can_be_collected(root: Path, translations: ModuleType) -> None:
    assert translations.collect(root / "app").problems == []


def test_the_file_has_every_text_of_the_window_and_no_other(
    known: Translations, root: Path, translations: ModuleType
) -> None:
    texts = translations.collect(root / "app").texts

    mend = "run: python packaging/translations.py"
    assert sorted(texts - known.keys()) == [], f"texts that are not in the file; {mend}"
    assert sorted(known.keys() - texts) == [], f"texts that are in the file only; {mend}"


def test_none_is_left_to_be_translated(known: Translations, translations: ModuleType) -> None:
    assert translations.unfinished(known) == []


def test_the_file_is_as_the_tool_writes_it(file: Path, known: Translations, translations: ModuleType) -> None:
    assert file.read_text(encoding="utf-8") == translations.written("zh_CN", known)


def test_what_qt_reads_is_made_of_it(file: Path, translations: ModuleType) -> None:
    assert file.with_suffix(".qm").read_bytes() == translations.compiled(file)


def test_places_and_shortcuts_are_kept(known: Translations) -> None:
    for (_, text), translation in known.items():
        assert sorted(PLACE.findall(translation)) == sorted(PLACE.findall(text)), text
        assert all(keys in translation for keys in SHORTCUT.findall(text)), text
        assert FILTER.findall(translation) == FILTER.findall(text), text
        assert translation.count("&") == text.count("&"), text


def test_what_goes_on_or_asks_does_so_in_every_language(known: Translations) -> None:
    for (_, text), translation in known.items():
        assert text.endswith("…") == translation.endswith("…"), text
        assert text.endswith("?") == translation.endswith("？"), text
        assert text.endswith(":") == translation.endswith("："), text
        assert (len(text) - len(text.lstrip()), text.endswith(" ")) == (
            len(translation) - len(translation.lstrip()), translation.endswith(" "),
        ), text  # fmt: skip


def test_chinese_is_set_as_chinese(known: Translations) -> None:
    for (_, text), translation in known.items():
        assert not re.search(f"{HAN}[,.;:!?()]|[,;!?]{HAN}", FILTER.sub("", translation)), text
        assert not re.search(f"{HAN}[A-Za-z0-9]|[A-Za-z0-9]{HAN}", PLACE.sub("", translation)), text
        assert not re.search("[，。：；？！（）、] | [，。：；？！（）、]", translation), text
        assert (text.endswith(".") and not text.endswith("..")) == translation.endswith("。"), text


def test_one_thing_has_one_name(known: Translations) -> None:
    for (_, text), translation in known.items():
        for name, named in NAMED.items():
            if re.search(rf"\b{name}\b", text, re.IGNORECASE):
                assert named in translation, text


# --- collecting ---

MODULE = """
from PySide6.QtCore import QT_TRANSLATE_NOOP, QCoreApplication

_NAMES = {"a": str(QT_TRANSLATE_NOOP("marked", "In a table"))}


class Card(QWidget):
    def __init__(self, widget: QLabel) -> None:
        self.tr("Of the class")
        (lambda: self.tr("Inside of it"))()
        self.tr("One") if widget else self.tr("Two" if self else "Three")


def sentence(widget: gui.QDialog, number: int) -> str:
    return widget.tr("Of a parameter")


def name(kind: str) -> str:
    return QCoreApplication.translate("marked", _NAMES[kind])


def _tr(text: str) -> str:
    return QCoreApplication.translate("module", text)


_tr("Of the " "module")
QCoreApplication.translate("elsewhere", "By name")
"""


def collected(tmp_path: Path, translations: ModuleType, module: str) -> tuple[set[tuple[str, str]], list[str]]:
    package = tmp_path / "app"
    package.mkdir()
    (package / "sample.py").write_text(module, encoding="utf-8")
    found = translations.collect(package)
    return found.texts, found.problems


def test_texts_are_collected_under_the_name_by_which_qt_finds_them(tmp_path: Path, translations: ModuleType) -> None:
    texts, problems = collected(tmp_path, translations, MODULE)

    assert problems == []
    assert texts == {
        ("Card", "Of the class"), ("Card", "Inside of it"), ("Card", "One"), ("Card", "Two"), ("Card", "Three"),
        ("QDialog", "Of a parameter"), ("marked", "In a table"), ("module", "Of the module"), ("elsewhere", "By name"),
    }  # fmt: skip


@pytest.mark.parametrize(
    ("module", "told"),
    [
        ("class A:\n    def a(self, text): self.tr(text)", "this is no literal: text"),
        ("class A:\n    def a(self, text): self.tr(f'so {text}')", "this is no literal: f'so {text}'"),
        ("QCoreApplication.translate('context', table[1])", "this is no literal: table[1]"),
        ("QT_TRANSLATE_NOOP('c', 'x')\nQCoreApplication.translate('c', 'so ' + x)", "this is no literal: 'so ' + x"),
        ("def a(widget): return widget.tr('Text')", "no class or context is known of 'Text'"),
        ("window.page.tr('Text')", "no class or context is known of 'Text'"),
    ],
)
def test_what_cannot_be_collected_is_told_with_its_line(
    tmp_path: Path, translations: ModuleType, module: str, told: str
) -> None:
    texts, problems = collected(tmp_path, translations, module)

    assert not {text for context, text in texts if context != "c"}
    assert [problem.partition(": ")[2] for problem in problems] == [told]
    assert problems[0].startswith("app/sample.py:")


# --- bringing up to date ---


def test_translations_stay_new_texts_come_and_vanished_ones_leave(translations: ModuleType) -> None:
    known = {("Card", "Kept"): "保留", ("Card", "Vanished"): "消失", ("Card", "Moved"): "移动"}
    texts = {("Card", "Kept"), ("Card", "New"), ("Row", "Moved"), ("Row", "Taken"), ("Card", "Taken")}
    taken = {("", "Taken"): "接受", ("Row", "Taken"): "收下"}

    assert translations.brought_up_to_date(texts, known, taken) == {
        ("Card", "Kept"): "保留", ("Card", "New"): "", ("Card", "Taken"): "接受",
        ("Row", "Moved"): "移动", ("Row", "Taken"): "收下",
    }  # fmt: skip


def test_the_tool_writes_both_files_and_says_what_is_missing(
    tmp_path: Path, translations: ModuleType, capsys: pytest.CaptureFixture[str]
) -> None:
    collected(tmp_path, translations, "class Card:\n    def a(self): self.tr('Open & <close>'), self.tr(' min')")
    words = tmp_path / "words"
    words.write_text("Open & <close>\t打开 & <关闭>\n", encoding="utf-8")
    assert translations.main(["--take", str(words)], tmp_path) == 1
    assert "Card:  min" in capsys.readouterr().out
    assert translations.main(["--check"], tmp_path) == 1

    words.write_text("Card\t min\t 分钟\n", encoding="utf-8")
    assert translations.main(["--take", str(words)], tmp_path) == 0
    file = tmp_path / "resources" / "translations" / "ragdoll_zh_CN.ts"
    assert translations.read(file) == {("Card", " min"): " 分钟", ("Card", "Open & <close>"): "打开 & <关闭>"}
    assert file.with_suffix(".qm").stat().st_size > 0
    assert translations.main(["--check"], tmp_path) == 0

    (tmp_path / "app" / "sample.py").write_text("class Card:\n    def a(self): self.tr(' min')", encoding="utf-8")
    assert translations.main(["--check"], tmp_path) == 1
    assert translations.main([], tmp_path) == 0
    assert translations.read(file) == {("Card", " min"): " 分钟"}
