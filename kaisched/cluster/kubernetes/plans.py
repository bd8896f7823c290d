"""The eviction plans that are under way, and whether they are still valid.

A plan is valid while every pod that it was made for waits as before: the same pod with the same
constraints, of a job with the same claim, and promised the same node by every cycle since. That a
pod is deleted or bound is noticed with the event of its watch, everything else by the loop.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, TypeAlias

from kaisched.cluster.grouping import Membership
from kaisched.cluster.kubernetes.change import Change
from kaisched.cluster.kubernetes.eviction_plan import EvictionPlan
from kaisched.cluster.kubernetes.pods import why_not_waiting
from kaisched.cluster.members import active_pods_of, claim_of
from kaisched.cluster.pods import PodRow
from kaisched.cluster.store import StateStore, is_same_task
from kaisched.core.axis import TaskState
from kaisched.framework.intents import Bind, Nominate
from kaisched.objects.pod import Pod

_FREE: Final = (TaskState.PENDING, TaskState.GATED, TaskState.RELEASING, TaskState.STUCK)
"""States of a victim that holds no room, or gives it up without an eviction."""

_Known: TypeAlias = tuple[PodRow, Membership | None]


@dataclass(slots=True)
class _Live:
    """A plan and the state of the cluster that it depends on."""

    plan: EvictionPlan
    beneficiary: str
    beneficiaries: dict[str, _Known | None]
    """What was known of each pod that the plan was made for."""
    claim: tuple[object, ...]
    at_s: float
    """When its evictions were counted as sent."""
    evicted_s: dict[str, float]
    """When each victim's job was evicted before."""
    is_settled: bool = False


class Plans:
    """The plans of a shard. All but :meth:`observe` is for the thread that owns the store."""

    def __init__(self) -> None:
        """Begin without plans."""
        self._live: list[_Live] = []
        self._of_pod: dict[str, _Live] = {}
        self._lock = threading.Lock()

    def add(self, plan: EvictionPlan, beneficiary: str, store: StateStore, at_s: float) -> None:
        """Count the victims as leaving, and review their plan from now on.

        Args:
            plan: a plan of which nothing was sent yet.
            beneficiary: the job that it is for; empty for none.
            store: where the evictions count as done.
            at_s: the present time.

        """
        evicted_s = {it.pod_group: store.rows.last_evicted_s(it.pod_group) for it in plan.evictions}
        for evict in plan.evictions:
            store.assume_evicted(evict.pod, at_s)
        plan.whole = frozenset(it for it in evicted_s if not active_pods_of(store.rows, it))
        pods = [promise.pod for promise in plan.promises]
        beneficiaries = {pod: store.pods.find(pod) for pod in pods}
        live = _Live(
            plan, beneficiary, beneficiaries, claim_of(store.rows, beneficiary), at_s, evicted_s
        )
        self._live.append(live)
        with self._lock:
            self._of_pod.update(dict.fromkeys(pods, live))
        self._promise(live, store)

    def is_promised(self, pod: str) -> bool:
        """Tell whether a plan writes the promised node into a pod's status."""
        return pod in self._of_pod

    def victims(self) -> set[str]:
        """Return the pods that are still to be evicted."""
        return {evict.pod for live in self._live for evict in live.plan.left}

    def observe(self, change: Change) -> None:
        """Withdraw the plan of a pod that no longer waits; from any thread."""
        pod = change.obj
        if not isinstance(pod, Pod) or pod.key not in self._of_pod:
            return
        with self._lock:
            live = self._of_pod.get(pod.key)
        for promise in live.plan.promises if live is not None else ():
            if promise.pod != pod.key or _is_of_another(change, promise):
                continue
            why = why_not_waiting(None if change.is_gone else pod, promise.uid)
            if why and live is not None:
                live.plan.withdraw(f"{pod.key}: {why}", is_unwanted=True)

    def review(self, store: StateStore) -> None:
        """Withdraw plans that are no longer valid, and forget those that are over."""
        for live in list(self._live):
            if why := live.plan.why_late:
                live.plan.withdraw(why)
            elif not (why := live.plan.why_over) and (
                why := _why_changed(live, store) or _spare(live.plan, store)
            ):
                live.plan.withdraw(why, is_unwanted=True)
            if live.plan.is_settled and not live.is_settled:
                live.is_settled = True
                _uncount(live, store)
            is_named = all(store.pods.is_told(it.pod, it.node) for it in live.plan.promises)
            if live.is_settled and (why or is_named):
                self._forget(live)
            elif not why:
                self._promise(live, store)

    def compare(self, binds: Iterable[Bind], nominations: Iterable[Nominate]) -> None:
        """Withdraw plans whose promises the last cycle has not repeated."""
        if not self._live:
            return
        kept = {(it.pod, it.node) for it in nominations}
        placed = {it.pod for it in binds}
        for live in list(self._live):
            lost = [it for it in live.plan.promises if (it.pod, it.node) not in kept]
            if lost:
                pod, node = lost[0].pod, lost[0].node
                is_placed = pod in placed
                why = f"{pod} is placed" if is_placed else f"{node} is no longer promised to {pod}"
                live.plan.withdraw(why, is_unwanted=True)

    def _promise(self, live: _Live, store: StateStore) -> None:
        for it in live.plan.promises:
            store.promise(it.pod, it.node)

    def _forget(self, live: _Live) -> None:
        self._live.remove(live)
        with self._lock:
            for pod in live.beneficiaries:
                if self._of_pod.get(pod) is live:
                    del self._of_pod[pod]


def promises_to(
    beneficiary: str, victims: set[str], nominations: Iterable[Nominate]
) -> list[Nominate]:
    """Return the promises of a cycle to a job, without those to victims that move."""
    return [it for it in nominations if it.pod_group == beneficiary and it.pod not in victims]


def _uncount(live: _Live, store: StateStore) -> None:
    """Stop counting unsent evictions, for budgets and preemption delays."""
    plan = live.plan
    unsent = [it for it in plan.evictions if it.pod not in plan.sent]
    if unsent:
        hit = {it.pod_group for it in plan.evictions if it.pod in plan.sent}
        before = {job: at_s for job, at_s in live.evicted_s.items() if job not in hit}
        store.rows.forget_evictions(live.at_s, len(unsent), before)


def _is_of_another(change: Change, promise: Nominate) -> bool:
    """Tell whether the gone pod is another of the same name, whose event came late."""
    return change.is_gone and change.obj.metadata.uid not in ("", promise.uid)


def _why_changed(live: _Live, store: StateStore) -> str:
    """Return what has changed about the beneficiaries of a plan; empty for nothing."""
    for pod, then in live.beneficiaries.items():
        now = store.pods.find(pod)
        if now is None:
            return f"{pod} is gone"
        if then is None or not is_same_task(then, now):
            return f"{pod} has changed"
        if store.rows.state_of(pod) != TaskState.PENDING:
            return f"{pod} no longer waits for a node"
    if live.beneficiaries and claim_of(store.rows, live.beneficiary) != live.claim:
        return f"{live.beneficiary} has changed"
    return ""


def _spare(plan: EvictionPlan, store: StateStore) -> str:
    """Leave out victims whose room is free already; return why the plan is over, if it is."""
    for evict in plan.left:
        is_it = store.pods.version_of(evict.pod)[0] == evict.uid
        if is_it and evict.pod in store.facts.sent.evictions:
            continue
        if is_it and store.rows.state_of(evict.pod) not in _FREE:
            return f"{evict.pod} has changed"
        plan.spare(evict.pod)
    return ""
