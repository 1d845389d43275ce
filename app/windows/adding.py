"""Adding: folders, files and models that are chosen, dropped or opened from outside, and where they go."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtCore import QObject

if TYPE_CHECKING:
    from app.models import AppModels
    from app.models.found_models import FoundModelsModel
    from app.windows.main_window import MainWindow
    from engine.protocol import ModelEntry

# The engine's name of its first collection; the models know whether it still has that name.
_DEFAULT_COLLECTION = "Documents"


class Adding(QObject):
    """Opens its dialogs over a window; they have no effect until models are attached."""

    def __init__(self, window: MainWindow) -> None:
        super().__init__(window)
        self._window = window
        self._models: AppModels | None = None
        self._found_models: FoundModelsModel | None = None

    def attach(self, models: AppModels) -> None:
        """Adds to these from now on; called once."""
        self._models = models
        models.model_picker.added.connect(self._on_model_added)

    @property
    def collection(self) -> str:
        """Where files go by default: into the first asked collection, or the default one."""
        if self._models is None:
            return _DEFAULT_COLLECTION
        return self._models.collection_added_to

    # --- files ---

    def add_folder(self, collection: str = "", *, is_asked: bool = False) -> None:
        from app.windows import file_choices

        file_choices.choose_folder(self._window, lambda paths: self.add(paths, collection, is_asked=is_asked))

    def add_files(self, collection: str = "", *, is_asked: bool = False) -> None:
        from app.windows import file_choices

        file_choices.choose_files(self._window, lambda paths: self.add(paths, collection, is_asked=is_asked))

    def new_collection(self, *, is_asked: bool = False) -> None:
        """Asks for a name and the first files of a collection; if it `is_asked`, the open chat asks it afterwards."""
        from app.windows.collection_dialog import CollectionDialog

        dialog = CollectionDialog(self._window)
        dialog.folder_wanted.connect(lambda name: self.add_folder(name, is_asked=is_asked))
        dialog.files_wanted.connect(lambda name: self.add_files(name, is_asked=is_asked))
        dialog.open()

    def add(self, paths: tuple[str, ...], collection: str = "", *, is_asked: bool = False) -> None:
        """Puts folders and files into a collection, "" being the one that is asked, or the default.

        If it `is_asked`, the open chat asks that collection as soon as the engine has confirmed it.
        """
        if self._models is not None and paths:
            library = self._models.library
            collection = library.spelled(collection or self.collection)
            if is_asked:
                library.add(paths, collection, on_added=self._models.conversation.setting_collection())
            else:
                library.add(paths, collection)

    # --- models ---

    def open_model(self) -> None:
        if self._models is not None:
            from app.widgets.drop_overlay import without_later_parts
            from app.windows import file_choices

            file_choices.choose_models(self._window, lambda paths: self.add_models(without_later_parts(paths)))

    def look_for_models(self) -> None:
        """Shows models that other applications have downloaded to this computer."""
        if self._models is not None:
            from app.models.found_models import FoundModelsModel
            from app.windows.found_models_dialog import FoundModelsDialog

            picker = self._models.model_picker
            if self._found_models is None:
                # The engine's results may arrive after the dialog was closed.
                self._found_models = FoundModelsModel(self._models.client, self._models)
            dialog = FoundModelsDialog(self._found_models, self._window)
            dialog.use_wanted.connect(picker.use)
            dialog.list_wanted.connect(picker.add_all)
            dialog.allow_wanted.connect(picker.allow_losses)
            dialog.open()

    def add_models(self, paths: tuple[str, ...]) -> None:
        """Puts model files on the list; for a single one, a dialog asks whether it should answer."""
        if self._models is None or not paths:
            return
        if len(paths) == 1:
            self._models.model_picker.add(paths[0])
        else:
            self._models.model_picker.add_all(paths)
            self._window.go_to("models")

    def _on_model_added(self, entry: ModelEntry) -> None:
        from app.windows.model_dialog import ModelDialog

        dialog = ModelDialog(entry, self._window)
        if self._models is not None:
            # A model opened next to a chat is for that chat; elsewhere for new chats.
            user = self._models.chat_model if self._window.place == "chats" else self._models.model_picker
            dialog.use_wanted.connect(user.use)
            dialog.allow_wanted.connect(self._models.model_picker.allow_losses)
        dialog.open()
