"""One cycle: a pure function from a snapshot to intents and records, and its round with a cluster.

Same input, same bytes out of :func:`run_cycle`: the daemon, ``plan``, the simulator, replay and the
tests all call it. :func:`next_cycle` takes the snapshot from a cluster and passes it the intents.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from kaisched.framework.containment import run_contained
from kaisched.framework.memory import Memory
from kaisched.framework.plugins.combine import CycleAbandonedError
from kaisched.framework.plugins.probe import NULL
from kaisched.framework.report.records import RUN, CycleStats
from kaisched.framework.report.result import (
    CycleResult,
    Lazy,
    Records,
    Shares,
)
from kaisched.framework.session.limits import is_full
from kaisched.framework.session.outcome import (
    PUT_OFF,
    Outcome,
    await_leaving,
    binds,
    evictions,
    nominations,
    void_promises,
)
from kaisched.framework.session.session import Session

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kaisched.clock import Clock
    from kaisched.core.axis import RowVec
    from kaisched.core.snapshot import Snapshot
    from kaisched.core.usage import Usage
    from kaisched.framework.intents import Bind, Evict, Nominate
    from kaisched.framework.plugins.probe import Probe
    from kaisched.framework.policy import Policy
    from kaisched.framework.session.devices import Heir

_NONE = np.empty(0, np.int64)


def run_cycle(
    snapshot: Snapshot,
    usage: Usage | None,
    policy: Policy,
    now_s: float,
    memory: Memory,
    probe: Probe = NULL,
) -> tuple[CycleResult, Memory]:
    """Decide on a snapshot.

    Returns the result and what to remember. No clock, chance, network, logging or thread is used;
    ``probe`` may watch the plugins being asked, and the actions. When something the division rests
    on fails, the result has no intents, says so in ``stats.abandoned``, and the old facts stay.
    """
    ask = policy.questions.probed(probe)
    session = Session(snapshot, usage, policy, now_s, memory, ask)
    abandoned = ""
    try:
        ask.open(session)
        for action in policy.actions:
            probe.wrap(action.name, RUN, run_contained)(session, action)
        await_leaving(session)
        facts = {**ask.close(session), **session.facts, **void_promises(session)}
        if ask.others_divide:
            session.divide()  # reports would, and what fails there could not be named any more
        if session.barred:
            session.hints.clear()  # some count the failed jobs as refused: true only in this cycle
    except CycleAbandonedError as error:
        abandoned = str(error)
        _forget(session)
        session.hints.clear()
        facts = dict(memory.facts)
    # Some entries refer to the session, which would stay alive until the next garbage collection.
    session.found.clear()
    return _result(session, abandoned), Memory(facts, session.hints)


def _forget(session: Session) -> None:
    """Take back all decisions of an abandoned cycle: its result describes only the snapshot."""
    session.outcome = Outcome(len(session.jobs.name))
    for moved in ("ledger", "placement", "devices"):
        session.__dict__.pop(moved, None)
    session.capacity = session.initial_capacity()


def _result(session: Session, abandoned: str) -> CycleResult:
    outcome = session.outcome
    tasks, nodes = outcome.binds()
    promised, places = _NONE, _NONE
    if outcome.nominations:
        promised, places = np.array(outcome.nominations, np.int64).T
    evicted = outcome.evictions
    return CycleResult(
        binds=Lazy(partial(binds, session, tasks, nodes)),
        evictions=Lazy(partial(evictions, session, evicted)),
        nominations=Lazy(partial(nominations, session, promised, places)),
        records=Records(session, abandoned),
        shares=Shares(session, abandoned),
        stats=CycleStats(
            jobs_pending=session.jobs_waiting,
            jobs_placed=_jobs_of(session, tasks),
            tasks_bound=len(tasks),
            tasks_nominated=len(promised),
            tasks_evicted=len(evicted),
            abandoned=abandoned,
        ),
        failures=tuple(session.failures),
        bind_tasks=tasks,
        bind_nodes=nodes,
        evict_tasks=np.array([move.task for move in evicted], np.int64) if evicted else _NONE,
        nominate_tasks=promised,
        nominate_nodes=places,
        steps=tuple(outcome.steps),
        put_off=_put_off(session),
        is_cut_short=is_full(session),
        heirs=_heirs(session),
        counted=None if session.claim_payers is None else session.snapshot,
        **_cards(session, tasks, promised),
    )


def _heirs(session: Session) -> list[Heir]:
    devices = session.devices if session.has_moved else None
    return [] if devices is None else devices.heirs()


def _cards(session: Session, tasks: RowVec, promised: RowVec) -> dict[str, Any]:
    """Return the GPUs of bound and of nominated pods with a share."""
    cards = session.capacity.cards
    if cards is None:
        return {}
    bound = {task: cards.slots_of(task) for task in tasks.tolist()}
    return {
        "bind_cards": {task: slots for task, slots in bound.items() if slots},
        "nominate_cards": {
            task: cards.promised[task] for task in promised.tolist() if task in cards.promised
        },
    }


def _put_off(session: Session) -> dict[str, int]:
    """Count, by queue, the jobs that were put off."""
    if not session.outcome.has_put_off:
        return {}
    job = (session.outcome.refusal == PUT_OFF).nonzero()[0]
    job = job[session.pending_of(job) > 0]
    counts = np.bincount(session.jobs.queue_of_job[job])
    return {session.queues.name[row]: int(counts[row]) for row in np.flatnonzero(counts).tolist()}


def _jobs_of(session: Session, tasks: RowVec) -> int:
    return len(set(session.tasks.job_of_task[tasks].tolist())) if len(tasks) else 0


# -- with a cluster ------------------------------------------------------------------------------


class SnapshotSource(Protocol):
    """Gives the frozen state of a shard."""

    def snapshot(self) -> Snapshot:
        """Return the present state; cheap when little has changed."""
        ...


class IntentSink(Protocol):
    """Carries out what a cycle decided.

    A failure is not raised: it comes back as an event and is a fact of the next snapshot.
    """

    def apply(
        self, binds: Sequence[Bind], evictions: Sequence[Evict], nominations: Sequence[Nominate]
    ) -> None:
        """Bind, evict, nominate."""
        ...


class UsageSource(Protocol):
    """Source of the queues' usage history."""

    def usage(self, snapshot: Snapshot, now_s: float) -> Usage | None:
        """Return usage for the snapshot's queues and resources; None without a history.

        Called once a cycle; it neither waits nor raises.
        """
        ...

    def is_ready(self) -> bool:
        """Tell whether an answer is there, or none is to be expected."""
        ...


@dataclass(frozen=True, slots=True)
class Cycle:
    """Snapshot, decisions and memory of a cycle."""

    snapshot: Snapshot
    result: CycleResult
    memory: Memory
    start_s: float
    end_s: float
    usage: Usage | None = None
    """Usage history in this cycle; None if no history is kept."""

    @property
    def duration_s(self) -> float:
        """Duration in seconds; never negative, even if the clock was set back meanwhile."""
        return max(self.end_s - self.start_s, 0.0)

    @property
    def has_intents(self) -> bool:
        """Tell whether there are any intents."""
        return bool(self.result.binds or self.result.evictions or self.result.nominations)


def next_cycle(
    source: SnapshotSource,
    sink: IntentSink,
    policy: Policy,
    usage_source: UsageSource | None,
    clock: Clock,
    memory: Memory,
    probe: Probe = NULL,
) -> Cycle:
    """Run one cycle on the present state of ``source`` and pass its intents to ``sink``.

    An abandoned cycle has no intents; nothing is passed on then, and the old facts remain. A cycle
    that decides nothing is passed on: it withdraws earlier nominations.
    """
    start_s = clock.now_s()
    snapshot = source.snapshot()
    usage = usage_source.usage(snapshot, start_s) if usage_source is not None else None
    result, memory = run_cycle(snapshot, usage, policy, start_s, memory, probe)
    cycle = Cycle(snapshot, result, memory, start_s, clock.now_s(), usage)
    if not result.stats.abandoned:
        sink.apply(result.binds, result.evictions, result.nominations)
    return cycle
