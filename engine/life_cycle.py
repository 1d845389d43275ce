"""The life cycle of an engine: it locks the data folder, builds and starts the parts, and releases everything.

What concerns the whole engine is here as well: settings, listeners, and the memory it holds.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Self

from engine.accounts import Accounts
from engine.assembly import assemble
from engine.catalog import Catalog
from engine.choice import ModelChoice
from engine.closing import close_all
from engine.config import EmbedderSettings, Home, Settings
from engine.embedder import reranker_spec, resolve
from engine.errors import BadRequest
from engine.events import ProblemFound, Publish, SettingsChanged
from engine.generation.commands import UseModel
from engine.getting import Getting
from engine.getting_embedders import GettingEmbedders
from engine.getting_rerankers import GettingRerankers
from engine.library.reserve import Reserve
from engine.listeners import Listeners
from engine.lock import hold
from engine.memory.hardware import Hardware, probe
from engine.memory.ledger import Ledger
from engine.memory.runtime import Runtime
from engine.memory.snapshot import SnapshotTicker
from engine.models.shelf import planning_by
from engine.protocol import MemoryReply
from engine.question_intake import QuestionIntake
from engine.questions import OpenQuestions
from engine.settings_file import SettingsStore


class LifeCycle:
    """Owns the parts from the constructor to `close`; subclasses add the calls."""

    def __init__(
        self,
        home: Home,
        listener: Publish | None = None,
        *,
        warm: bool = False,
        watches: bool = False,
        lock_patience_seconds: float = 0.0,
    ) -> None:
        """Locks the data folder and starts the workers; nothing heavy is loaded yet.

        Args:
            home: Our folders.
            listener: Called with every event, on the thread where it happens.
            warm: Load libraries and the chosen model in the background now, and continue interrupted indexing.
            watches: Keep linked folders in step from now on, beginning with what changed since the last time.
            lock_patience_seconds: How long to wait for another process to release the folder.

        Raises:
            LibraryHeld: Another Ragdoll process has the folder.
            HomeUnusable: It cannot be created, or one of our files in it cannot be used.
            CatalogBroken: The catalogue cannot be opened.
            DiskFull: There is no room for the little that a start needs.
        """
        home.create()
        self.home = home
        self._questions = OpenQuestions()
        self._listeners = Listeners(self._questions, listener)
        self._lock_file = hold(home, lock_patience_seconds)
        try:
            self._settings = SettingsStore(home.settings_file)
            self._ticker: SnapshotTicker | None = None
            self.ledger = Ledger(self._note_change)
            self._runtime = Runtime(self.ledger)
            reserve = Reserve(home.library, lambda: self.settings.library.reserve_bytes)
            self._catalog = reserve.lent(lambda: Catalog.open(home.library))
            self._keep_embedder()
            self._parts = assemble(
                home, self._catalog, reserve, lambda: self.settings, self.ledger, self._runtime, self._listeners
            )
            self._accounts = Accounts(self.ledger, self._parts, lambda: self.settings.memory)
            self._build_shelves()
            self._intake = QuestionIntake(self._questions, self._choice, self._parts, self._listeners.publish)
        except BaseException:
            self._lock_file.release()
            raise
        try:
            for problem in filter(None, (self._settings.problem, self._catalog.problem)):
                self._listeners.publish(ProblemFound(problem))
            self._parts.start(self.settings.models.current, warm=warm, watches=watches)
        except BaseException:
            # Scripts may try again in this process: nothing of this engine may go on beside the next one.
            close_all(self._parts.stop, self._parts.close, self._lock_file.release)
            raise

    @classmethod
    def open(cls, home: Path | None = None) -> Self:
        """Opens an engine on `home`, or on the user's own data folder. Raises as the constructor does."""
        return cls(Home.under(home) if home else Home.find())

    def close(self) -> None:
        """Cancels what runs, stops the workers and releases everything. A second call does nothing.

        Every step is carried out even if one fails; the first error is raised at the end.
        """
        self.begin_closing()
        ticker = () if self._ticker is None else (self._ticker.stop,)
        getting = self._getting_rerankers.stop, self._getting_embedders.stop, self._getting.stop
        close_all(*getting, self._parts.stop, *ticker, self._parts.close, self._lock_file.release)

    def begin_closing(self) -> None:
        """Cancels what runs without waiting; the load of a model in progress counts as ended on purpose from now on."""
        self._parts.trials.note_closing()
        self._intake.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def subscribe(self, listener: Publish) -> Callable[[], None]:
        """Calls `listener` with every event from now on; the returned function ends that."""
        return self._listeners.subscribe(listener)

    # --- settings ---

    @property
    def settings(self) -> Settings:
        return self._settings.settings

    @property
    def settings_problem(self) -> str:
        """Which part of the settings file is not used, in a sentence; "" if all of it is."""
        return self._settings.problem

    @property
    def settings_pending(self) -> str:
        """Which changed settings take effect only after a restart, in a sentence; "" if none."""
        return self._parts.stores.pending

    def change_settings(self, changes: Mapping[str, Any]) -> Settings:
        """Applies and saves changes by dotted name. Choosing another embedding model starts moving the library to it.

        Raises:
            BadRequest: A name or value is invalid, or the changes name another model; nothing has changed then.
            EmbedderUnavailable: The embedding model or the reranker is missing or invalid; nothing has changed then.
        """
        current = self.settings.models.current
        if changes.get("models.current", current) != current:
            raise BadRequest(
                "The model is not changed like other settings, because its file is checked first.",
                "Choose it in the window, or with ragdoll models use FILE.",
            )
        return self._change_settings(changes)

    def _change_settings(self, changes: Mapping[str, Any]) -> Settings:
        """Does the same, for callers that have checked the file of the chosen model."""
        if isinstance(model := changes.get("embedder.model"), str):
            resolve(EmbedderSettings(model=model))
        if isinstance(model := changes.get("retrieval.reranker"), str) and model:
            reranker_spec.resolve(model)
        if isinstance(folder := changes.get("models.folder"), str) and folder != self.settings.models.folder:
            changes = {**self.settings.models.changes_to(folder), **changes}
        before = self._settings.settings
        settings = self._settings.change(changes)
        self._parts.stores.apply_settings()
        self._parts.searching.apply_settings()
        self._parts.generation.apply_settings()
        self._parts.adapting.wake()
        # These may have been edited in the file by hand.
        if "embedder.model" in changes or settings.embedder.model != before.embedder.model:
            self._parts.indexer.consider_move()
        if "models.current" not in changes and settings.models.current != before.models.current:
            self._parts.generation.use(UseModel(Path(settings.models.current) if settings.models.current else None))
        self._parts.watcher.wake()
        self._listeners.publish(SettingsChanged())
        return settings

    # --- memory ---

    def memory(self) -> MemoryReply:
        """Returns who holds how many bytes now."""
        self.ledger.look()
        return self._picture()

    def start_ticker(self, publish: Callable[[MemoryReply], None]) -> None:
        """Passes a snapshot to `publish` on changes (at most ten times a second), and at least once a second."""
        self._ticker = SnapshotTicker(self._picture, publish)
        self._ticker.start()

    # --- inside ---

    def _build_shelves(self) -> None:
        """Builds what chooses, downloads and deletes models of each kind."""
        publish = self._listeners.publish
        self._choice = ModelChoice(
            lambda: self.settings,
            self._change_settings,
            self._parts.generation.use,
            self._hardware,
            planning_by(self._parts.profile),
            self._parts.beside,
        )
        self._getting = Getting(
            self.home, lambda: self.settings.models, self._choice, publish, self._parts.generation.let_go
        )
        self._getting_embedders = GettingEmbedders(
            self.home,
            lambda: self.settings.models,
            lambda model: self.change_settings({"embedder.model": model}),
            self._embedders_used,
            publish,
        )
        self._getting_rerankers = GettingRerankers(
            self.home,
            lambda: self.settings.models,
            lambda model: self.change_settings({"retrieval.reranker": model}),
            lambda: (self.settings.retrieval.reranker,),
            publish,
        )

    def _keep_embedder(self) -> None:
        """Keeps the library's embedding model if the settings could not be read."""
        if not self._settings.knows("embedder.model") and (table := self._catalog.active_table()) is not None:
            self._settings.assume({"embedder.model": table.model})

    def _embedders_used(self) -> tuple[str, ...]:
        """Returns the models in use, as settings name them: the chosen one, and those of the library's tables."""
        tables = self._catalog.active_table(), self._catalog.next_table()
        return (self.settings.embedder.model, *(table.model for table in tables if table is not None))

    def _picture(self) -> MemoryReply:
        """Returns who holds what; measured figures are at most a second old."""
        self._runtime.settle()
        return self._accounts.memory(self._hardware(), len(self._questions.all()))

    def _hardware(self) -> Hardware:
        return probe(self.home.data, self._parts.models.principal.loader.devices)

    def _note_change(self) -> None:
        if self._ticker is not None:
            self._ticker.note_change()
