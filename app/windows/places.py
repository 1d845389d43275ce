"""The pages, each imported and made on the first visit: the first paint needs none of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

if TYPE_CHECKING:
    from app.models import AppModels
    from app.widgets.rail import Place
    from app.windows.main_window import MainWindow
    from app.windows.page import Page


def make_page(place: Place, window: MainWindow, models: AppModels) -> Page:
    """Makes the page of `place`, and connects its wishes to the window, which owns the dialogs."""
    makers = {
        "every-file": _every_file,
        "library": _library,
        "memory": _memory,
        "models": _models,
        "settings": _settings,
    }
    return makers[place](window, models)


def _every_file(window: MainWindow, models: AppModels) -> Page:
    from app.models.sources import SourcesModel
    from app.models.standings import Standings
    from app.windows.every_file_page import EveryFilePage

    standings = Standings(models.client, models.library, models)
    sources = SourcesModel(models.client, standings, models)
    sources.passages_changed.connect(lambda: standings.watch(sources.passages))
    page = EveryFilePage(models.each_file, models.library, sources)
    page.message_told.connect(window.notices.tell)
    page.ask_wanted.connect(lambda path: window.chat_actions.ask_about([path], is_new=True))
    page.take_back(models.settings.settings.unsent_for_every_file)
    return page


def _library(window: MainWindow, models: AppModels) -> Page:
    from app.models.multilingual import MultilingualModel
    from app.widgets.multilingual_offer import MultilingualOffer
    from app.windows.library_page import LibraryPage

    page = LibraryPage(models.library)
    offered = MultilingualModel(
        models.client, models.library, models.settings, lambda: models.conversation.is_careful, page
    )
    offer = MultilingualOffer(offered)
    offer.wanted.connect(lambda: _choose_embedder(window))
    page.offers.addWidget(offer)
    page.add_folder_wanted.connect(window.adding.add_folder)
    page.new_collection_wanted.connect(window.adding.new_collection)
    page.add_files_wanted.connect(window.adding.add_files)
    page.ocr_languages_wanted.connect(lambda: window.go_to("settings"))
    page.ask_wanted.connect(lambda paths: window.chat_actions.ask_about(paths, is_new=True))
    return page


def _choose_embedder(window: MainWindow) -> None:
    """Opens the choice over the page that is shown; the settings page carries it out."""
    from app.windows.settings_page import SettingsPage

    cast(SettingsPage, window.page("settings")).choose_embedder()


def _memory(_window: MainWindow, models: AppModels) -> Page:
    from app.models.engine_settings import EngineSettingsModel
    from app.windows.memory_page import MemoryPage

    return MemoryPage(models.memory, EngineSettingsModel(models.client))


def _models(window: MainWindow, models: AppModels) -> Page:
    from app.models.catalogue import CatalogueModel
    from app.models.hub_files import HubFilesModel
    from app.windows.models_page import ModelsPage

    catalogue = CatalogueModel(models.client, models)
    catalogue.arrived.connect(models.model_picker.refresh)
    catalogue.message_told.connect(window.notices.tell)
    found = HubFilesModel(models.client, catalogue, models.model_picker, models)
    page = ModelsPage(models.model_picker, catalogue, found)
    page.open_file_wanted.connect(window.adding.open_model)
    page.look_around_wanted.connect(window.adding.look_for_models)
    return page


def _settings(window: MainWindow, models: AppModels) -> Page:
    from app.settings import AppHome
    from app.windows.settings_page import SettingsPage

    page = SettingsPage(models, str(AppHome.find().data))
    page.message_told.connect(window.notices.tell)
    page.import_wanted.connect(window.chat_actions.import_chats)
    page.folder_import_wanted.connect(window.chat_actions.import_folder)
    return page
