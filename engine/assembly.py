"""Assembly: the parts of an engine, built once and joined by queues; and in which order they start and stop."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from engine.adapting import Adapting
from engine.catalog import Catalog
from engine.closing import close_all
from engine.competing import Competitors
from engine.config import GenerationSettings, Home, LibrarySettings, Settings
from engine.core import Evidence, ModelShape, Scope
from engine.cores import Cores
from engine.embedding import Embedding
from engine.errors import RagdollError
from engine.events import LibraryChanged
from engine.foreseen import Foreseen
from engine.generation.commands import UseModel
from engine.generation.goodput import GoodputWatch
from engine.generation.load_planner import LoadPlanner
from engine.generation.load_trials import LoadTrials
from engine.generation.loader import ModelLoader
from engine.generation.offloading import tell_backends
from engine.generation.pool import ModelPool
from engine.generation.premises import Premises
from engine.generation.refresh_policy import RefreshPolicy
from engine.generation.refreshes import EvidenceSource
from engine.generation.rounds import Targets
from engine.generation.spare_power import has_power_to_spare
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
from engine.memory.hardware import ram_capacity_bytes
from engine.memory.known_profile import KnownProfile, measuring
from engine.memory.ledger import Ledger
from engine.memory.measured import table_key
from engine.memory.profile_file import profile_file
from engine.memory.runtime import Runtime
from engine.memory.sharing import UNMEASURED, Sharing, chosen, ways
from engine.memory.terms import split_of
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
from engine.senses import EngineHands, EngineSenses
from engine.sight import Senses
from engine.stores import StoresOpener


@dataclass(frozen=True, slots=True)
class Parts:
    """What works in an engine. `pool` reads files for the library, `viewer` single pages for people."""

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
    # A model's demand, with all that would compete with it here.
    beside: Callable[[Demand], Demand]

    def start(self, model: str, *, warm: bool, watches: bool) -> None:
        """Starts the workers; `model` is the file that answers from the first question on, "" for none."""
        self.generation.start()
        # What a kill kept from being forgotten.
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
        """Has a question answered, which ends then; an answer that goes on rests on what it rested on before."""
        unfinished = in_flight.question.unfinished
        if unfinished is None:
            self.retrieval.submit(in_flight)
            return
        in_flight.timeline.mark("retrieval_started")
        in_flight.timeline.mark("retrieval_ended")
        scope = unfinished.scope or Scope(0, 0, 0)
        self.generation.submit(in_flight, Evidence(unfinished.passages, unfinished.quotes, scope))

    def stop(self) -> None:
        """Stops the workers: those that ask others first."""
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
        """Gives back what stopped workers used."""
        close_all(self.profile.close, self.stores.close, self.pool.close, self.viewer.close, self.catalog.close)


def assemble(
    home: Home,
    catalog: Catalog,
    reserve: Reserve,
    settings: Callable[[], Settings],
    ledger: Ledger,
    runtime: Runtime,
    told: Listeners,
) -> Parts:
    """The parts, joined but not started; `told` hears what they do."""
    recognised = home.cache / "ocr"
    # A long job reads as many files at once as are set; one place more is for a small one that cuts in on it.
    pool = ParserPool(lambda: _pool_limits(settings().library, settings().library.parser_processes + 1), recognised)
    phases = Phases(told.publish)
    giving_way = GivingWay(lambda: share_of_documents())
    stores = StoresOpener(home, catalog, settings, ledger, phases, giving_way)
    backlog = BacklogWatch(lambda: adapting.wake())
    goodput = GoodputWatch(lambda: _targets(settings().generation))
    # Nobody is asked how long measuring takes: it begins when nobody has asked anything for a while.
    chosen_file = measuring(lambda: Path(settings().models.current) if settings().models.current else None)
    profile = KnownProfile(profile_file(home.data), chosen_file, delay_seconds=0.0)
    planner = ProfiledPlanner(profile)
    trials = LoadTrials(home.data / "model-on-trial.json")
    loader = ModelLoader(
        LoadPlanner(
            settings,
            home.data,
            Premises(
                home.cache / "kv",
                ledger,
                trials,
                tell_backends=lambda: profile.offloads_from(
                    tell_backends(profile(), _shape_of(settings().models.current))
                ),
                measure_card=profile.measure_card,
            ),
            planning=lambda hardware, demand: planner.placed(hardware, backlog.now(), demand),
            beside=lambda demand: beside(demand),
            done_without=lambda told_of_it: adapting.done_without(told_of_it),
        ),
        told.publish,
        phases=phases,
        make_room=RoomMaker(stores, lambda: competitors.resident_index_bytes, lambda: hands.leave_card()),
    )
    before = profile()
    sweep_costs = SweepCosts(CostModel(before.retrieval_s, before.retrieval_load_s, before.retrieval_query_s))
    look_costs = LookCosts(sweep_costs.predict)
    cores = Cores(lambda: sharing())
    generation = GenerationWorker(
        loader,
        lambda document_ids: catalog.paths_of(document_ids).keys(),
        extractive_answer,
        told.publish,
        lambda: settings().generation.reorder_loss,
        has_power_to_spare,
        EvidenceSource(
            lambda: _refresh_policy(settings().generation.refresh),
            lambda look: retrieval.look_again(look),
            look_costs.expected,
        ),
        cores=cores,
        targets=lambda: _targets(settings().generation),
    )
    models = generation.models

    def beside(demand: Demand) -> Demand:
        return senses.beside(demand, adapting.budgets_to_plan_by())

    def sharing() -> Sharing:
        loaded = models.principal.loaded
        if loaded is None:
            return UNMEASURED
        return chosen(
            profile().table(table_key(loaded.plan.demand.shape)), split_of(loaded.plan.placement), ways(*threads())
        )

    def threads() -> tuple[int, int]:
        loaded, num_cores = models.principal.loaded, available_cores()
        return (loaded.plan.spec.num_threads if loaded is not None else num_cores), num_cores

    def share_of_documents() -> float:
        if not told.has_somebody_waiting or indexer.is_awaited:
            return 1.0
        loaded = models.front.loaded or models.principal.loaded
        return share_beside(loaded.plan.placement if loaded is not None else None)

    competitors = Competitors(
        stores,
        ledger,
        settings,
        Foreseen(home.data / "libraries-take.json"),
        runtime,
        ram_capacity=ram_capacity_bytes,
    )
    senses = EngineSenses(home.data, models, generation, stores, competitors, backlog)
    hands = EngineHands(models, generation, stores)
    adapting = Adapting(
        Senses(senses.hardware, settings, backlog.now, senses.in_force, senses.use),
        hands,
        ledger,
        planner.plan,
        planner.should_change,
        observer=Observer(
            profile,
            profile.note,
            lambda: generation.counters,
            lambda: sweep_costs.model,
            lambda: measure(),
            is_free=lambda: indexer.is_idle,
        ),
        sharing_of=planner.sharing,
        # With half of its sizes measured a model would be moved in the midst of it, and all be measured again.
        knows_better=lambda: not rehearsing.is_under_way and planner.knows_better(),
    )

    def measure() -> None:
        """Once nobody has asked anything for a while: bandwidths first, the model after them."""
        if not rehearsing.is_under_way:
            profile.start(next(iter(models.principal.loader.devices), None))
        if not profile.is_measuring:
            rehearsing.start()

    told.subscribe(backlog.note)
    told.subscribe(goodput.note)
    told.subscribe(adapting.note)
    told.subscribe(lambda event: generation.forget_removed() if isinstance(event, LibraryChanged) else None)
    searching = SearcherOpener(stores, catalog, settings, ledger, sweep_costs)
    retrieval = RetrievalWorker(
        searching,
        generation.submit,
        told.publish,
        told.cancelled,
        told.failed,
        SentenceVectors(ledger),
        sweep_costs.batch_size,
        expect=generation.expect,
        reads_ahead=generation.reads_ahead,
        look_costs=look_costs,
        found_again=generation.found_again,
        cores=cores,
    )
    rehearsing = Rehearsing(
        profile,
        generation,
        retrieval,
        senses.in_force,
        threads,
        told.publish,
        is_busy=lambda: bool(backlog.now().waiting or backlog.now().running),
        can_spare=has_power_to_spare,
        tell=lambda sentence: adapting.decisions.say("measured", sentence),
    )
    told.subscribe(retrieval.note)
    indexer = IndexWorker(
        catalog,
        pool,
        stores,
        settings,
        told.publish,
        moving=stores,
        reserve=reserve,
        giving_way=giving_way,
        can_spare=has_power_to_spare,
    )
    viewer = ParserPool(lambda: _pool_limits(settings().library, 1), recognised)
    ledger.measure("parsers", "processes that read files", "ram", lambda: pool.memory_bytes() + viewer.memory_bytes())

    def every_second() -> None:
        indexer.go_on_if_there_is_room()
        indexer.forget_when_idle()

    watcher = Watcher(
        catalog.roots,
        lambda: settings().library,
        indexer.refresh,
        lambda: indexer.rescan(is_unasked=True),
        every_second=every_second,
    )
    return Parts(
        catalog=catalog,
        reserve=reserve,
        pool=pool,
        viewer=viewer,
        stores=stores,
        models=models,
        trials=trials,
        generation=generation,
        sweep_costs=sweep_costs,
        searching=searching,
        retrieval=retrieval,
        embedding=Embedding(stores),
        indexer=indexer,
        watcher=watcher,
        backlog=backlog,
        goodput=goodput,
        adapting=adapting,
        profile=profile,
        rehearsing=rehearsing,
        beside=beside,
    )


def _shape_of(model: str) -> ModelShape | None:
    """Of a model that can be read; a wrong file is told of where it is loaded."""
    try:
        return read_shape(Path(model)) if model else None
    except (RagdollError, OSError):
        return None


def _pool_limits(chosen: LibrarySettings, processes: int) -> PoolLimits:
    return PoolLimits(processes, chosen.parse_seconds, chosen.parse_memory_bytes)


def _targets(chosen: GenerationSettings) -> Targets:
    return Targets(chosen.ttft_target_seconds, chosen.tpot_target_seconds)


def _refresh_policy(wish: Literal["off", "auto", "always"]) -> RefreshPolicy | None:
    if wish == "off":
        return None
    return RefreshPolicy() if wish == "auto" else RefreshPolicy(max_cost_share=None)
