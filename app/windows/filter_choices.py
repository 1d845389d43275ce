"""What a question can be confined to, as a menu: linked folders, other places, kinds of files, dates of change."""

from __future__ import annotations

from datetime import date
from functools import partial
from typing import TYPE_CHECKING

from PySide6.QtCore import QObject
from PySide6.QtWidgets import QMenu

from app.models import question_filters
from app.models.question_filters import KINDS, chips, has_kind, kind_name
from app.printable import printable
from app.widgets import bits
from app.widgets.figures import count_text, file_name
from app.windows import file_choices, questions
from engine import protocol

if TYPE_CHECKING:
    from app.models import AppModels
    from app.widgets.filter_bar import FilterBar
    from engine.protocol import Filters

_MAX_FOLDERS = 20


class FilterChoices(QObject):
    """Synchronises a FilterBar with the filters of the open chat."""

    def __init__(self, bar: FilterBar, models: AppModels) -> None:
        super().__init__(bar)
        self._bar, self._models = bar, models
        bar.menu_wanted.connect(self._fill)
        bar.removed.connect(self._on_removed)
        models.conversation.filters_changed.connect(self._show)
        self._show()

    @property
    def _filters(self) -> Filters:
        return self._models.conversation.filters

    def _set(self, filters: Filters) -> None:
        self._models.conversation.set_filters(filters)

    def _show(self) -> None:
        self._bar.show_chips(chips(self._filters))

    def _on_removed(self, index: int) -> None:
        self._set(chips(self._filters)[index].without)

    # --- the menu ---

    def _fill(self) -> None:
        menu = self._bar.menu
        for old in menu.findChildren(QMenu):
            old.deleteLater()
        menu.clear()
        self._add_places(menu.addMenu(self.tr("Folder or file")))
        self._add_kinds(menu.addMenu(self.tr("Kind of file")))
        self._add_periods(menu.addMenu(self.tr("Changed")))
        if chips(self._filters):
            menu.addSeparator()
            menu.addAction(self.tr("Search everything"), partial(self._set, type(self._filters)()))

    def _add_places(self, menu: QMenu) -> None:
        linked = [folder for collection in self._models.library.collections for folder in collection.folders]
        paths = dict.fromkeys([*self._filters.paths, *linked])
        for path in list(paths)[:_MAX_FOLDERS]:
            action = menu.addAction(bits.literal(printable(path)))
            action.setCheckable(True)
            action.setChecked(path in self._filters.paths)
            action.toggled.connect(partial(self._toggle_path, path))
        menu.addSeparator()
        menu.addAction(self.tr("Choose a folder…"), partial(file_choices.choose_folder, self._bar, self._add_paths))
        menu.addAction(self.tr("Choose files…"), partial(file_choices.choose_files, self._bar, self._add_paths))

    def _add_kinds(self, menu: QMenu) -> None:
        for kind in KINDS:
            action = menu.addAction(kind_name(kind))
            action.setCheckable(True)
            action.setChecked(has_kind(self._filters, kind))
            action.toggled.connect(partial(self._toggle_kind, kind))

    def _add_periods(self, menu: QMenu) -> None:
        filters = self._filters
        for text, since, until in ((self.tr("Any time"), None, None), *question_filters.periods(date.today())):
            with_period = question_filters.with_period(filters, since, until)
            action = menu.addAction(text, partial(self._set, with_period))
            action.setCheckable(True)
            action.setChecked(with_period == filters)
        menu.addSeparator()
        menu.addAction(self.tr("Between two days…"), self._choose_days)

    # --- what is chosen ---

    def _toggle_path(self, path: str, is_wanted: bool) -> None:
        self._set(question_filters.with_path(self._filters, path, is_wanted))

    def _toggle_kind(self, kind: str, is_wanted: bool) -> None:
        self._set(question_filters.with_kind(self._filters, kind, is_wanted))

    def _add_paths(self, paths: tuple[str, ...]) -> None:
        filters = self._filters
        for path in paths:
            filters = question_filters.with_path(filters, path, is_wanted=True)
        self._set(filters)
        self._models.client.request(protocol.PATH_STATES, protocol.Paths(paths=paths), self._on_states)

    def _on_states(self, reply: protocol.PathStatesReply) -> None:
        """Offers to add chosen paths that are not in the library, or else removes them from the filters."""
        chosen = set(self._filters.paths)
        absent = tuple(one.path for one in reply.states if one.state == "absent" and one.path in chosen)
        if not absent:
            return
        name, others = file_name(absent[0]), count_text(len(absent) - 1)
        words = self.tr("“%1” and %2 more are not in your library yet.")
        if len(absent) == 1:
            words = self.tr("“%1” is not in your library yet.")
        questions.offer(
            self._bar,
            words.replace("%2", others).replace("%1", name),
            self.tr("Once added, it is indexed first and can be searched."),
            self.tr("Add"),
            lambda: self._models.add_first(absent),
            lambda: self._models.conversation.detach(absent),
        )

    def _choose_days(self) -> None:
        from app.windows.days_dialog import DaysDialog

        filters = self._filters
        dialog = DaysDialog(_day(filters.changed_since), _day(filters.changed_until), self._bar)
        dialog.chosen.connect(lambda since, until: self._set(question_filters.with_period(self._filters, since, until)))
        dialog.open()


def _day(text: str) -> date | None:
    return date.fromisoformat(text) if text else None
