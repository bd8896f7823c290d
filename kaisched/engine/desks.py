"""Desks: the shards that decide about one cluster in memory, each about the jobs of its pool."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from kaisched.cluster.embedded import EmbeddedCluster, EmbeddedPool
from kaisched.cluster.pods import Sharing
from kaisched.cluster.pools.handover import PoolTurns, pool_turns
from kaisched.cluster.pools.owners import SharedOwners
from kaisched.cluster.store import StateStore
from kaisched.engine.turn import Turn, take_turn
from kaisched.framework.memory import Memory
from kaisched.framework.report.result import ShardCycle
from kaisched.objects.labels import pool_name

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from kaisched.clock import Clock
    from kaisched.framework.policy import Policy
    from kaisched.framework.report.result import CycleResult
    from kaisched.objects.shard import SchedulingShard


def step_of(
    shard: SchedulingShard, result: CycleResult, moved: Iterable[tuple[str, str]] = ()
) -> ShardCycle:
    """Return a cycle of a shard; ``moved`` are the jobs that went on, with their pools."""
    passed_on = {job: pool_name(pool) for job, pool in moved}
    return ShardCycle(shard.name, pool_name(shard.spec.partition_label_value), result, passed_on)


@dataclass(slots=True)
class _Desk:
    shard: SchedulingShard
    policy: Policy
    port: EmbeddedPool
    turns: PoolTurns
    memory: Memory


class Desks:
    """The shards of a cluster in memory, which pass jobs with lists of pools on to each other."""

    def __init__(
        self,
        shards: Sequence[tuple[SchedulingShard, Policy]],
        clock: Clock,
        schedulers: Iterable[str],
    ) -> None:
        """Make an empty cluster, and a store of it for each shard."""
        owners = SharedOwners()
        self._woken: set[int] = set()
        """Shards that were given a job, by their place in the order."""
        self._moves: Counter[str] = Counter()
        """By job, how often it was passed on since anything else happened."""
        self._desks: list[_Desk] = []
        for at, (shard, policy) in enumerate(shards):
            spec = shard.spec
            options: dict[str, Any] = {
                "node_pool": spec.partition_label_value,
                "gpu_resources": spec.gpu_resources,
                "workloads": policy.workloads,
                "stuck_after_s": policy.stuck_after_s,
                "sharing": Sharing(share_class=shard.share_class),
                "owners": owners.seat(
                    spec.partition_label_value,
                    admits_all=spec.admits_all_projects,
                    wake=partial(self._woken.add, at),
                ),
            }
            if at == 0:
                self.cluster = EmbeddedCluster(clock, schedulers=schedulers, **options)
                store = self.cluster.store
            else:
                store = StateStore(schedulers, offers_shares=True, **options)
            port = EmbeddedPool(self.cluster, store)
            self._desks.append(_Desk(shard, policy, port, pool_turns(store, shard), Memory()))

    def round(self) -> tuple[list[ShardCycle], bool]:
        """Let each shard have a turn, and again those that are given jobs.

        Returns:
            The turns, and whether all is settled: nothing was done, and nothing new was noted.

        """
        steps, is_settled = [], True
        waiting = list(range(len(self._desks)))
        while waiting:
            for at in waiting:
                step, is_idle = self._turn(self._desks[at])
                self._woken.discard(at)  # what it was given before its turn it has seen
                steps.append(step)
                is_settled &= is_idle
            waiting = sorted(self._woken)
        if not is_settled:
            self._moves.clear()
        for step in steps:
            self._moves.update(step.passed_on.keys())
        return steps, is_settled

    def cycles(self) -> list[ShardCycle]:
        """Let each shard have a turn after which no job is passed on."""
        return [self._turn(desk, is_passing=False)[0] for desk in self._desks]

    def next_end_s(self) -> float | None:
        """Return when the next job may go on to another pool that did not refuse it as all is."""
        now_s = self.cluster.clock.now_s()
        ends = [
            desk.turns.next_end_s(now_s, partial(self._is_new_to, desk)) for desk in self._desks
        ]
        return min((end_s for end_s in ends if end_s is not None), default=None)

    def _is_new_to(self, desk: _Desk, job: str) -> bool:
        """Tell whether a job was not passed on through its whole list since anything happened."""
        book = desk.port.store.pools
        laps = 2 if book.is_idle_first else 1
        return self._moves[job] < laps * len(book.jobs[job].pools)

    def _turn(self, desk: _Desk, *, is_passing: bool = True) -> tuple[ShardCycle, bool]:
        port, clock = desk.port, self.cluster.clock
        turn: Turn = take_turn(port, port, desk.policy, None, clock, desk.memory)
        is_idle = not turn.has_intents and _noted(turn.memory) == _noted(desk.memory)
        desk.memory = turn.memory
        # Read at once: results are computed from the state that their cycle left.
        len(turn.result.records), len(turn.result.shares)
        now_s = clock.now_s()
        moved = desk.turns.after(turn.snapshot, turn.result, now_s) if is_passing else []
        return step_of(desk.shard, turn.result, moved), is_idle


def _noted(memory: Memory) -> dict[str, object]:
    """Return the facts of a cycle which could change the next one."""
    return {name: fact for name, fact in memory.facts.items() if fact}
