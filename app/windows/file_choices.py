"""The dialogs that choose folders and files; each opens, returns at once, and passes the choice to a callback."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path

from PySide6.QtCore import QCoreApplication, Qt
from PySide6.QtWidgets import QFileDialog, QWidget


def choose_folder(parent: QWidget, chosen: Callable[[tuple[str, ...]], object]) -> QFileDialog:
    dialog = _dialog(parent, _tr("Choose a folder"), QFileDialog.FileMode.Directory)
    dialog.setOption(QFileDialog.Option.ShowDirsOnly)
    return _open(dialog, chosen)


def choose_files(parent: QWidget, chosen: Callable[[tuple[str, ...]], object]) -> QFileDialog:
    return _open(_dialog(parent, _tr("Choose files"), QFileDialog.FileMode.ExistingFiles), chosen)


def choose_models(parent: QWidget, chosen: Callable[[tuple[str, ...]], object]) -> QFileDialog:
    dialog = _dialog(parent, _tr("Open GGUF files"), QFileDialog.FileMode.ExistingFiles)
    dialog.setNameFilters([_tr("GGUF models (*.gguf)"), _tr("All files (*)")])
    return _open(dialog, chosen)


def choose_export(parent: QWidget, name: str, chosen: Callable[[tuple[str, ...]], object]) -> QFileDialog:
    """Lets the user choose a Markdown file or a JSON file, which its suffix tells."""
    dialog = _saving(parent, _tr("Export this chat"), name, "md")
    suffixes = {_tr("Markdown, to read (*.md)"): "md", _tr("JSON, to import again (*.json)"): "json"}
    dialog.setNameFilters([*suffixes])
    # The dialog would otherwise add the first suffix to a name without one.
    dialog.filterSelected.connect(lambda chosen_filter: dialog.setDefaultSuffix(suffixes.get(chosen_filter, "md")))

    def take(paths: tuple[str, ...]) -> None:
        is_json = suffixes.get(dialog.selectedNameFilter()) == "json"
        chosen((_as_json(paths[0]), *paths[1:]) if is_json else paths)

    return _open(dialog, take)


def choose_chats(parent: QWidget, chosen: Callable[[tuple[str, ...]], object]) -> QFileDialog:
    dialog = _dialog(parent, _tr("Import chats"), QFileDialog.FileMode.ExistingFiles)
    dialog.setNameFilters([_tr("Chats (*.json)"), _tr("All files (*)")])
    return _open(dialog, chosen)


def choose_table(parent: QWidget, name: str, chosen: Callable[[tuple[str, ...]], object]) -> QFileDialog:
    return _open(_saving(parent, _tr("Export these answers"), name, "csv"), chosen)


def _saving(parent: QWidget, title: str, name: str, suffix: str) -> QFileDialog:
    dialog = _dialog(parent, title, QFileDialog.FileMode.AnyFile)
    dialog.setAcceptMode(QFileDialog.AcceptMode.AcceptSave)
    dialog.setDefaultSuffix(suffix)
    dialog.selectFile(name)
    return dialog


def _dialog(parent: QWidget, title: str, mode: QFileDialog.FileMode) -> QFileDialog:
    dialog = QFileDialog(parent, title)
    dialog.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
    dialog.setFileMode(mode)
    return dialog


def _as_json(path: str) -> str:
    """Returns the file that a user means who has chosen JSON: some systems keep the suffix that was offered first."""
    file = Path(path)
    if file.suffix.lower() == ".json":
        return path
    # A name such as "Lease v1.2" has no suffix. The dialog has not asked about the new name, so it must be a free one.
    stem = file.stem if file.suffix.lower() == ".md" else file.name
    names = itertools.chain((f"{stem}.json",), (f"{stem} ({number}).json" for number in itertools.count(2)))
    return str(next(named for name in names if not (named := file.with_name(name)).exists()))


def _open(dialog: QFileDialog, chosen: Callable[[tuple[str, ...]], object]) -> QFileDialog:
    dialog.filesSelected.connect(lambda paths: chosen(tuple(paths)))
    dialog.open()
    return dialog


def _tr(text: str) -> str:
    return QCoreApplication.translate("file_choices", text)
