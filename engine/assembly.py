"""Assembly: the parts of an engine, built once and joined by queues; and in which order they start and stop."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Literal

from engine.adapting import Adapting
from engine.catalog import Catalog
from engine.closing import close_all
from engine.competing import Competitors
from engine.config import Home, Settings
from engine.core import Evidence, ModelShape, Scope
from engine.cores import Cores
from engine.embedding import Embedding
from engine.errors import RagdollError
from engine.events import Event, LibraryChanged, ProblemFound
from engine.foreseen import Foreseen
from engine.generation.commands import UseModel
from engine.generation.goodput import GoodputWatch
from engine.generation.load_planner import LoadPlanner
from engine.generation.load_trials import LoadTrials
from engine.generation.loader import ModelLoader
from engine.generation.offloading import tell_backends
from engine.generation.pool import ModelPool
from engine.generation.refresh_policy import RefreshPolicy
from engine.generation.refreshes import EvidenceSource
from engine.generation.shared_resources import SharedResources
from engine.generation.spare_power import has_power_to_spare
from engine.generation.time_slices import Targets
from engine.generation.worker import GenerationWorker
from engine.giving_way import GivingWay, share_beside
from engine.inflight import QuestionInFlight
from engine.library.parsers.pool import ParserPool, PoolLimits
from engine.library.reserve import Reserve
from engine.library.watcher import Watcher
from engine.library.worker import IndexWorker
from engine.listeners import Listeners
from engine.making_room import RoomMaker
from engine.memory.backlog import BacklogWatch
from engine.memory.demand import Demand
from engine.memory.free_memory import FreeMemory
from engine.memory.hardware import ram_capacity_bytes
from engine.memory.known_profile import KnownProfile, measuring
from engine.memory.ledger import Ledger
from engine.memory.measured import table_key
from engine.memory.profile_file import profile_file
from engine.memory.runtime import Runtime
from engine.memory.sharing import UNMEASURED, Sharing, chosen, ways
from engine.memory.terms import split_of
from engine.memory_adapters import EngineMemoryActions, EngineMemoryState
from engine.memory_interfaces import MemoryState
from engine.models.gguf import read_shape
from engine.observing import Observer
from engine.own_cores import available_cores
from engine.phases import Phases
from engine.profiled import ProfiledPlanner
from engine.rehearsing import Rehearsing
from engine.retrieval.batching import SweepCosts
from engine.retrieval.breadth import LookCosts
from engine.retrieval.cost import CostModel
from engine.retrieval.reader import extractive_answer
from engine.retrieval.sentence_vectors import SentenceVectors
from engine.retrieval.worker import RetrievalWorker
from engine.searching import SearcherOpener
from engine.stores import LOADING, StoresOpener


@dataclass(frozen=True, slots=True)
class Parts:
    """The parts of an engine. `pool` reads files for the library, `viewer` single pages to show."""

    catalog: Catalog
    reserve: Reserve
    pool: ParserPool
    viewer: ParserPool
    stores: StoresOpener
    models: ModelPool
    trials: LoadTrials
    generation: GenerationWorker
    sweep_costs: SweepCosts
    searching: SearcherOpener
    retrieval: RetrievalWorker
    embedding: Embedding
    indexer: IndexWorker
    watcher: Watcher
    backlog: BacklogWatch
    goodput: GoodputWatch
    adapting: Adapting
    profile: KnownProfile
    rehearsing: Rehearsing
    # Adds everything that would compete with a model here to its demand.
    beside: Callable[[Demand], Demand]

    def start(self, model: str, *, warm: bool, watches: bool) -> None:
        """Starts the workers; `model` is the file that answers from the first question on, "" for none."""
        self.generation.start()
        # For documents that were removed just before the last process was killed.
        self.generation.forget_removed()
        self.retrieval.start()
        self.indexer.start(resume=warm)
        if watches:
            self.reserve.hold()
            self.watcher.start()
        if warm:
            self.retrieval.warm_up()
        self.adapting.start()
        if model:
            self.generation.use(UseModel(Path(model), is_urgent=warm, is_chosen=False))

    def answer(self, in_flight: QuestionInFlight) -> None:
        """Submits a question; an answer that is continued gets the passages that it had before, without a search."""
        unfinished = in_flight.question.unfinished
        if unfinished is None:
            self.retrieval.submit(in_flight)
            return
        in_flight.timeline.mark("retrieval_started")
        in_flight.timeline.mark("retrieval_ended")
        scope = unfinished.scope or Scope(0, 0, 0)
        self.generation.submit(in_flight, Evidence(unfinished.passages, unfinished.quotes, scope))

    def stop(self) -> None:
        """Stops the workers, those that use others first."""
        close_all(
            self.adapting.stop,
            self.rehearsing.close,
            self.watcher.stop,
            self.indexer.stop,
            self.retrieval.stop,
            self.embedding.stop,
            self.searching.close,
            self.generation.stop,
        )

    def close(self) -> None:
        """Closes what the stopped workers used."""
        close_all(self.profile.close, self.stores.close, self.pool.close, self.viewer.close, self.catalog.close)


def assemble(
    home: Home,
    catalog: Catalog,
    reserve: Reserve,
    settings: Callable[[], Settings],
    ledger: Ledger,
    runtime: Runtime,
    listeners: Listeners,
) -> Parts:
    """Returns the parts, connected but not started; their events are published to `listeners`."""
    return _Assembly(home, catalog, reserve, settings, ledger, runtime, listeners).parts()


class _Assembly:
    """Builds each part the first time it is asked for, so that parts which need each other may refer to `self`.

    A part that is only used later is passed as a lambda: evaluating it in a constructor would build it too early.
    """

    def __init__(
        self,
        home: Home,
        catalog: Catalog,
        reserve: Reserve,
        settings: Callable[[], Settings],
        ledger: Ledger,
        runtime: Runtime,
        listeners: Listeners,
    ) -> None:
        self._home, self._catalog, self._reserve, self._settings = home, catalog, reserve, settings
        self._ledger, self._runtime, self._listeners = ledger, runtime, listeners

    def parts(self) -> Parts:
        """Returns all parts; they receive events in the order in which they are subscribed here."""
        publish_to = self._listeners.subscribe
        publish_to(self._backlog.note)
        publish_to(self._goodput.note)
        publish_to(self._adapting.note)
        publish_to(self._forget_what_left_the_library)
        publish_to(self._retrieval.note)
        self._ledger.measure("parsers", "processes that read files", "ram", self._parser_bytes)
        return Parts(
            catalog=self._catalog,
            reserve=self._reserve,
            pool=self._pool,
            viewer=self._viewer,
            stores=self._stores,
            models=self._models,
            trials=self._trials,
            generation=self._generation,
            sweep_costs=self._sweep_costs,
            searching=self._searching,
            retrieval=self._retrieval,
            embedding=Embedding(self._stores),
            indexer=self._indexer,
            watcher=self._watcher,
            backlog=self._backlog,
            goodput=self._goodput,
            adapting=self._adapting,
            profile=self._profile,
            rehearsing=self._rehearsing,
            beside=self._demand_beside,
        )

    # --- documents ---

    @cached_property
    def _pool(self) -> ParserPool:
        # A long job reads as many files at once as the setting says; one more place is for a small job that overtakes
        # it.
        return ParserPool(lambda: self._pool_limits(self._settings().library.parser_processes + 1), self._recognised)

    @cached_property
    def _viewer(self) -> ParserPool:
        return ParserPool(lambda: self._pool_limits(1), self._recognised)

    @cached_property
    def _stores(self) -> StoresOpener:
        return StoresOpener(self._home, self._catalog, self._settings, self._ledger, self._phases, self._giving_way)

    @cached_property
    def _indexer(self) -> IndexWorker:
        return IndexWorker(
            self._catalog,
            self._pool,
            self._stores,
            self._settings,
            self._listeners.publish,
            moving=self._stores,
            reserve=self._reserve,
            giving_way=self._giving_way,
            can_spare=has_power_to_spare,
        )

    @cached_property
    def _watcher(self) -> Watcher:
        return Watcher(
            self._catalog.roots,
            lambda: self._settings().library,
            self._indexer.refresh,
            lambda: self._indexer.rescan(is_unasked=True),
            every_second=self._look_after_index,
        )

    @cached_property
    def _giving_way(self) -> GivingWay:
        return GivingWay(self._share_of_documents)

    @cached_property
    def _phases(self) -> Phases:
        return Phases(self._listeners.publish)

    # --- retrieval ---

    @cached_property
    def _sweep_costs(self) -> SweepCosts:
        known = self._profile()
        return SweepCosts(CostModel(known.retrieval_s, known.retrieval_load_s, known.retrieval_query_s))

    @cached_property
    def _look_costs(self) -> LookCosts:
        return LookCosts(self._sweep_costs.predict)

    @cached_property
    def _searching(self) -> SearcherOpener:
        return SearcherOpener(
            self._stores,
            self._catalog,
            self._settings,
            self._ledger,
            self._sweep_costs,
            FreeMemory(
                self._ledger,
                self._senses.hardware,
                lambda: self._adapting.budgets_to_plan_by().ram_bytes,
                lambda: self._adapting.levels,
            ),
            lambda sentence: self._listeners.publish(ProblemFound(sentence)),
            lambda: self._phases.during(LOADING),
        )

    @cached_property
    def _retrieval(self) -> RetrievalWorker:
        return RetrievalWorker(
            self._searching,
            self._generation.submit,
            self._listeners.publish,
            self._listeners.cancelled,
            self._listeners.failed,
            SentenceVectors(self._ledger),
            self._sweep_costs.batch_size,
            expect=self._generation.expect,
            reads_ahead=self._generation.reads_ahead,
            look_costs=self._look_costs,
            found_again=self._generation.found_again,
            cores=self._cores,
        )

    # --- generation ---

    @cached_property
    def _loader(self) -> ModelLoader:
        return ModelLoader(
            self._load_planner,
            self._listeners.publish,
            phases=self._phases,
            make_room=RoomMaker(
                self._stores, lambda: self._competitors.resident_index_bytes, lambda: self._hands.leave_card()
            ),
        )

    @cached_property
    def _load_planner(self) -> LoadPlanner:
        return LoadPlanner(
            self._settings,
            self._home.data,
            SharedResources(
                self._home.cache / "kv",
                self._ledger,
                self._trials,
                tell_backends=self._tell_backends,
                measure_card=self._profile.measure_card,
            ),
            planning=lambda hardware, demand: self._planner.placed(hardware, self._backlog.now(), demand),
            beside=self._demand_beside,
            done_without=lambda rungs: self._adapting.done_without(rungs),
        )

    @cached_property
    def _trials(self) -> LoadTrials:
        return LoadTrials(self._home.data / "model-on-trial.json")

    @cached_property
    def _generation(self) -> GenerationWorker:
        return GenerationWorker(
            self._loader,
            lambda document_ids: self._catalog.paths_of(document_ids).keys(),
            extractive_answer,
            self._listeners.publish,
            lambda: self._settings().generation.reorder_loss,
            has_power_to_spare,
            EvidenceSource(
                lambda: _refresh_policy(self._settings().generation.refresh),
                lambda look: self._retrieval.look_again(look),
                self._look_costs.expected,
            ),
            cores=self._cores,
            targets=self._targets,
        )

    @property
    def _models(self) -> ModelPool:
        return self._generation.models

    @cached_property
    def _cores(self) -> Cores:
        return Cores(self._sharing)

    @cached_property
    def _goodput(self) -> GoodputWatch:
        return GoodputWatch(self._targets)

    # --- memory ---

    @cached_property
    def _profile(self) -> KnownProfile:
        # No request waits for measuring: it begins when nothing has been asked for a while.
        return KnownProfile(profile_file(self._home.data), measuring(self._model_file), delay_seconds=0.0)

    @cached_property
    def _planner(self) -> ProfiledPlanner:
        return ProfiledPlanner(self._profile)

    @cached_property
    def _backlog(self) -> BacklogWatch:
        return BacklogWatch(lambda: self._adapting.wake())

    @cached_property
    def _competitors(self) -> Competitors:
        return Competitors(
            self._stores,
            self._ledger,
            self._settings,
            Foreseen(self._home.data / "libraries-take.json"),
            self._runtime,
            ram_capacity=ram_capacity_bytes,
            reranker_bytes=lambda: self._searching.coming_bytes,
        )

    @cached_property
    def _senses(self) -> EngineMemoryState:
        return EngineMemoryState(
            self._home.data, self._models, self._generation, self._stores, self._competitors, self._backlog
        )

    @cached_property
    def _hands(self) -> EngineMemoryActions:
        return EngineMemoryActions(self._models, self._generation, self._stores)

    @cached_property
    def _adapting(self) -> Adapting:
        senses = self._senses
        return Adapting(
            MemoryState(senses.hardware, self._settings, self._backlog.now, senses.in_force, senses.use),
            self._hands,
            self._ledger,
            self._planner.plan,
            self._planner.should_change,
            observer=self._observer,
            sharing_of=self._planner.sharing,
            # Otherwise a model with half of its sizes measured would be moved, and all of them be measured again.
            knows_better=lambda: not self._rehearsing.is_under_way and self._planner.knows_better(),
        )

    @cached_property
    def _observer(self) -> Observer:
        return Observer(
            self._profile,
            self._profile.note,
            lambda: self._generation.counters,
            lambda: self._sweep_costs.model,
            self._measure,
            is_free=lambda: self._indexer.is_idle,
        )

    @cached_property
    def _rehearsing(self) -> Rehearsing:
        return Rehearsing(
            self._profile,
            self._generation,
            self._retrieval,
            self._senses.in_force,
            self._threads,
            self._listeners.publish,
            is_busy=lambda: bool(self._backlog.now().waiting or self._backlog.now().running),
            can_spare=has_power_to_spare,
            tell=lambda sentence: self._adapting.decisions.say("measured", sentence),
        )

    # --- what parts need of several others, once they run ---

    @property
    def _recognised(self) -> Path:
        return self._home.cache / "ocr"

    def _pool_limits(self, num_processes: int) -> PoolLimits:
        chosen = self._settings().library
        return PoolLimits(num_processes, chosen.parse_seconds, chosen.parse_memory_bytes)

    def _parser_bytes(self) -> int:
        return self._pool.memory_bytes() + self._viewer.memory_bytes()

    def _look_after_index(self) -> None:
        """Lets the index worker continue and tidy up; called by the watcher every second."""
        self._indexer.go_on_if_there_is_room()
        self._indexer.forget_when_idle()

    def _share_of_documents(self) -> float:
        """Returns the share of the time that embedding documents may take now."""
        if not self._listeners.has_somebody_waiting or self._indexer.is_awaited:
            return 1.0
        loaded = self._models.front.loaded or self._models.principal.loaded
        return share_beside(loaded.plan.placement if loaded is not None else None)

    def _forget_what_left_the_library(self, event: Event) -> None:
        if isinstance(event, LibraryChanged):
            self._generation.forget_removed()

    def _targets(self) -> Targets:
        chosen = self._settings().generation
        return Targets(chosen.ttft_target_seconds, chosen.tpot_target_seconds)

    def _model_file(self) -> Path | None:
        current = self._settings().models.current
        return Path(current) if current else None

    def _tell_backends(self) -> None:
        current = self._settings().models.current
        self._profile.offloads_from(tell_backends(self._profile(), _shape_of(current)))

    def _demand_beside(self, demand: Demand) -> Demand:
        return self._senses.beside(demand, self._adapting.budgets_to_plan_by())

    def _threads(self) -> tuple[int, int]:
        """Returns the threads of a step, and the number of cores."""
        loaded, num_cores = self._models.principal.loaded, available_cores()
        return (loaded.plan.spec.num_threads if loaded is not None else num_cores), num_cores

    def _sharing(self) -> Sharing:
        """Returns how steps and searches share the cores."""
        loaded = self._models.principal.loaded
        if loaded is None:
            return UNMEASURED
        table = self._profile().table(table_key(loaded.plan.demand.shape))
        return chosen(table, split_of(loaded.plan.placement), ways(*self._threads()))

    def _measure(self) -> None:
        """Measures what is missing once nothing has been asked for a while: bandwidths first, then the model."""
        if not self._rehearsing.is_under_way:
            self._profile.start(next(iter(self._models.principal.loader.devices), None))
        if not self._profile.is_measuring:
            self._rehearsing.start()


def _shape_of(model: str) -> ModelShape | None:
    """Returns the shape of a model; None if it cannot be read, which is reported when it is loaded."""
    try:
        return read_shape(Path(model)) if model else None
    except (RagdollError, OSError):
        return None


def _refresh_policy(wish: Literal["off", "auto", "always"]) -> RefreshPolicy | None:
    if wish == "off":
        return None
    return RefreshPolicy() if wish == "auto" else RefreshPolicy(max_cost_share=None)
