"""Evictions: the plans of a cycle, whether they are still valid, and the requests of a plan."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, NamedTuple, TypeAlias

from kaisched.clock import monotonic_s
from kaisched.cluster.grouping import Membership
from kaisched.cluster.kubernetes.client import Answer, Pauses
from kaisched.cluster.kubernetes.pods import (
    BUSY,
    CONFLICT,
    GONE,
    SERVER_FAULT,
    Note,
    Writers,
    is_passing,
    passing,
    path_of,
    why_not_waiting,
)
from kaisched.cluster.kubernetes.reflector import Change
from kaisched.cluster.members import active_pods_of, claim_of
from kaisched.cluster.pods import PodRow
from kaisched.cluster.store import StateStore, is_same_task
from kaisched.core.axis import TaskState
from kaisched.errors import ClusterUnavailable, ObjectError
from kaisched.framework.intents import Bind, Evict, Nominate
from kaisched.objects.decode import decode_json
from kaisched.objects.pod import Pod
from kaisched.telemetry.metrics import DONE, DROPPED, FAILED, PROTECTED, RETRIED, WITHDRAWN

# -- the requests ----------------------------------------------------------------------------------
# A dry run shows beforehand whether a disruption budget would refuse an eviction. Where budgets do
# not hold for a pod, its eviction is asked for all the same, and the pod deleted if only a budget
# refuses: so a former leader is refused by the fence, and a budget that allows it is told. The
# status of
# the pod that waits names the node that is to be freed: the next leader finds the promise there,
# and the answer shows whether that pod is still the one for which the plan was made.

INVALID: Final = 422
PROTECTED_S: Final = 30.0
"""How long no plan includes a pod whose eviction the server has refused."""


class Verdict(NamedTuple):
    """The meaning of an answer for the plan."""

    why: str = ""
    """Why the request was not granted; empty if it was."""
    is_final: bool = False
    """A second try would not help: the plan is over."""
    asked_s: float = 0.0
    """The pause that the server asks for."""
    is_unwanted: bool = False
    """No pod waits for the room that the plan frees."""


GRANTED: Final = Verdict()


@dataclass(frozen=True, slots=True)
class Evictor:
    """Sends the requests of the steps of a plan."""

    writers: Writers
    protect: Callable[[str, str, float], None]
    """Called with (pod, UID, seconds) for each pod whose eviction the server refuses."""
    has_tenants: bool = False
    """Whether who reads a pod may not know for whom it goes: the jobs of other queues."""

    def promise(self, nominate: Nominate) -> Verdict:
        """Write the promised node into the status of a waiting pod; check that it still waits."""
        status = {"nominatedNodeName": nominate.node}
        try:
            answer = self.writers.patch_status(nominate.pod, nominate.uid, status)
        except ClusterUnavailable as error:
            return Verdict(str(error))
        if answer.code in (GONE, CONFLICT, INVALID):  # the UID of a pod cannot be changed
            return Verdict(
                f"{nominate.pod} is another pod than planned for", True, is_unwanted=True
            )
        if is_passing(answer):
            return Verdict(answer.text(), asked_s=answer.retry_after_s)
        self.writers.counts.add("nominate", DONE if answer.is_done else FAILED)
        why = _why_unwanted(answer, nominate.uid) if answer.is_done else ""
        return Verdict(f"{nominate.pod}: {why}", True, is_unwanted=True) if why else GRANTED

    def try_out(self, evict: Evict) -> Verdict:
        """Send the eviction of a victim as a dry run."""
        try:
            answer = self._ask(evict, is_dry_run=True)
        except ClusterUnavailable as error:
            return Verdict(str(error))
        return GRANTED if answer.is_done or _is_gone(answer) else self._refused(evict, answer)

    def evict(self, evict: Evict, unanswered: set[str]) -> Verdict:
        """Evict a victim; if it is gone already, the plan goes on.

        Args:
            evict: the victim.
            unanswered: the pods of the plan that were asked to go without an answer; the victim is
                put there when there is none.

        """
        try:
            answer = self._ask(evict, is_dry_run=False)
        except ClusterUnavailable as error:
            unanswered.add(evict.pod)
            return Verdict(str(error))  # a second eviction does no harm
        if not (answer.is_done or _is_gone(answer)):
            return self._refused(evict, answer)
        if answer.is_done:
            self.writers.counts.add("evict", DONE)
            self._report(evict)
        else:
            self.writers.counts.add("evict", FAILED)
            if evict.pod in unanswered:
                why = "it is gone, perhaps by this eviction"
                self.writers.log.info("eviction_unanswered", **_told(evict), why=why)
            self.writers.refute_eviction(evict)  # its room is free already
        return GRANTED

    def _refused(self, evict: Evict, answer: Answer) -> Verdict:
        is_protected = _is_budget(answer)
        if not is_protected and (answer.code == CONFLICT or is_passing(answer)):
            return Verdict(answer.text(), asked_s=answer.retry_after_s)
        if is_protected:
            self.writers.counts.add("evict", PROTECTED)
        self.protect(evict.pod, evict.uid, PROTECTED_S)
        return Verdict(f"{evict.pod} may not be evicted: {answer.text()}", is_final=True)

    def _ask(self, evict: Evict, *, is_dry_run: bool) -> Answer:
        passing("evict.before_post")
        if self.writers.is_deleting:
            answer = self._delete(evict, is_dry_run=is_dry_run)
        else:
            answer = self._evict(evict, is_dry_run=is_dry_run)
            if evict.ignores_budget and _is_budget(answer):
                answer = self._delete(evict, is_dry_run=is_dry_run)
        passing("evict.after_post")
        return answer

    def _evict(self, evict: Evict, *, is_dry_run: bool) -> Answer:
        writers = self.writers
        namespace, _, name = evict.pod.partition("/")
        metadata = {"name": name, "namespace": namespace, "annotations": writers.annotations()}
        body = {
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": metadata,
            "deleteOptions": self._options(evict, is_dry_run=is_dry_run),
        }
        return writers.client.call("POST", path_of(evict.pod, "eviction"), body=body)

    def _delete(self, evict: Evict, *, is_dry_run: bool) -> Answer:
        """Delete a victim, whatever disruption budgets say."""
        writers = self.writers
        if not is_dry_run:
            conditions = _target(self._reason(evict))
            writers.patch_status(evict.pod, evict.uid, {"conditions": conditions})
        options = self._options(evict, is_dry_run=is_dry_run)
        body = {"apiVersion": "v1", "kind": "DeleteOptions", **options}
        return writers.client.call("DELETE", path_of(evict.pod), body=body)

    def _options(self, evict: Evict, *, is_dry_run: bool) -> dict[str, Any]:
        options: dict[str, Any] = {"preconditions": {"uid": evict.uid}}
        if self.writers.grace_s is not None:
            options["gracePeriodSeconds"] = self.writers.grace_s
        if is_dry_run:
            options["dryRun"] = ["All"]
        return options

    def _report(self, evict: Evict) -> None:
        self.writers.log.debug("pod_evicted", **_told(evict))
        reason = self._reason(evict)
        self.writers.note(Note(evict.pod, evict.uid, "Evicted", "Evicting", reason, True))

    def _reason(self, evict: Evict) -> str:
        """Return the reason as readers of the pod may see it; the log has all of it."""
        if not self.has_tenants or evict.beneficiary_queue in {"", evict.queue}:
            return evict.reason
        return f"{evict.action}: its room goes to a job of another queue"


def _told(evict: Evict) -> dict[str, str]:
    return {
        "pod": evict.pod,
        "node": evict.node,
        "action": evict.action,
        "beneficiary": evict.beneficiary,
        "reason": evict.reason,
    }


def _target(reason: str) -> list[dict[str, str]]:
    return [
        {
            "type": "DisruptionTarget",
            "status": "True",
            "reason": "PreemptionByScheduler",
            "message": reason,
        }
    ]


def _why_unwanted(answer: Answer, uid: str) -> str:
    """Return why a pod no longer waits, by the object in the server's answer."""
    try:
        return why_not_waiting(decode_json(answer.data, Pod), uid)
    except ObjectError as error:
        return str(error)


def _is_budget(answer: Answer) -> bool:
    """Tell whether a disruption budget refused; for two budgets on a pod the code is 500."""
    is_budget = b"DisruptionBudget" in answer.data or b"disruption budget" in answer.data
    return is_budget and answer.code in {BUSY, SERVER_FAULT}


def _is_gone(answer: Answer) -> bool:
    """Tell whether the victim is gone."""
    return answer.code == GONE or (answer.code == CONFLICT and b"UID" in answer.data)


# -- one plan --------------------------------------------------------------------------------------
# First everything is prepared: the promised node is written into the status of the pods that get
# the room, and the evictions are sent as a dry run. Only when all of that is granted are the
# victims evicted; otherwise some would be evicted in vain. In both stages a few requests are
# under way at a time, so that a slow server does not leave the first victim's room idle until the
# last one goes.
#
# Before each request the plan must still be valid. Once it is not, the remaining victims live on.
# An eviction that was sent cannot be called back: its room is given away like any other. So where
# a job goes whole and some of its pods are sent already, the others follow: they would run in
# vain.

MOST_AT_ONCE: Final = 4
"""Requests of one plan under way at a time: half of the default number of writers, so that binds
and one more plan go on meanwhile."""
STAGE_S: Final = 20.0
"""How long a stage of a few requests may take. Decisions become outdated, and room that is freed in
part lies idle; but a server that hangs gets a second chance. A plan that took long to prepare has
its time to evict all the same: what it had evicted until then would be in vain."""
REQUEST_S: Final = 0.05
"""Additional time for each request: four at a time, if each takes a fifth of a second. A big plan
that could never be sent in time would be decided again for ever."""


class Step(NamedTuple):
    """One request of a plan."""

    ask: Callable[[], Verdict]
    victim: str = ""
    """The pod to be evicted or tried; empty for other requests."""
    is_eviction: bool = False
    """The request is an eviction, which cannot be taken back."""


class EvictionPlan:
    """The evictions for one beneficiary. All methods may be called from any thread."""

    def __init__(
        self,
        evictor: Evictor,
        evictions: Sequence[Evict],
        promises: Sequence[Nominate],
        put: Callable[[EvictWork, bool], object],
    ) -> None:
        """Make a plan of which nothing is sent yet.

        Args:
            evictor: sends the requests.
            evictions: for one beneficiary, in the order in which they are sent.
            promises: the pods that get the room, and on which nodes.
            put: queues (work, whether it evicts) for the writers.

        """
        self.evictions, self.promises = tuple(evictions), tuple(promises)
        self.sent: set[str] = set()
        """Victims whose eviction was granted."""
        self.whole: frozenset[str] = frozenset()
        """Jobs of which no pod stays."""
        self._unanswered: set[str] = set()
        """Victims that were asked to go, and the answer never came."""
        self._evictor, self._put = evictor, put
        self._left = {evict.pod: evict for evict in evictions}
        """Victims without a final answer."""
        self._epoch = evictor.writers.leadership.term.epoch
        self._why, self._is_unwanted = "", False
        self._in_hand: set[str] = set()
        """Victims whose eviction may be under way."""
        self._under_way = 0
        self._lock = threading.Lock()
        self._is_evicting = False
        self._steps: deque[Step] = deque(Step(partial(evictor.promise, it)) for it in promises)
        if len(evictions) > 1 and not evictor.writers.is_deleting:
            self._steps += [Step(partial(evictor.try_out, evict), evict.pod) for evict in evictions]
        self._due_s = _due_s(len(self._steps))

    def start(self) -> None:
        """Start the first stage."""
        if self._steps:
            self._lanes(len(self._steps))
        else:
            self._begin_evicting()

    @property
    def left(self) -> tuple[Evict, ...]:
        """The victims that are neither evicted nor given up."""
        with self._lock:
            return tuple(self._left.values())

    @property
    def is_settled(self) -> bool:
        """Whether nothing more will be sent."""
        with self._lock:
            return not self._left

    def has_more(self, *, is_evicting: bool) -> bool:
        """Tell whether a stage has steps that no writer has taken yet."""
        return self._is_evicting == is_evicting and bool(self._steps)

    @property
    def why_over(self) -> str:
        """Why the plan is over, but for the rest of jobs that go whole; empty while it is not."""
        return self._why or self.why_late

    @property
    def why_late(self) -> str:
        """Why nothing more at all may be sent; empty while something may."""
        if monotonic_s() > self._due_s:
            return "it could not be carried out in time"
        is_ours = self._evictor.writers.leadership.term.epoch == self._epoch
        return "" if is_ours else "it was made under an earlier leadership"

    def withdraw(self, why: str, *, is_unwanted: bool = False) -> None:
        """Send nothing more: the remaining victims live on.

        Args:
            why: for the log.
            is_unwanted: no pod waits for the room any more; else the plan failed. Then the rest of
                jobs that go whole, and have begun to, goes all the same.

        """
        with self._lock:
            if self._why and (is_unwanted or not self._left):
                return
            self._why, self._is_unwanted = why, is_unwanted
            follow = self._following(self.sent | self._in_hand) if is_unwanted else ()
            self._steps = deque(it for it in self._steps if it.is_eviction and it.victim in follow)
            stay = [
                evict
                for pod, evict in self._left.items()
                if pod not in self._in_hand and pod not in follow
            ]
            for evict in stay:
                del self._left[evict.pod]
        for evict in stay:
            self._spared(evict)

    def _following(self, gone: set[str]) -> set[str]:
        """Return the victims left of jobs that go whole and of which some pod is ``gone``."""
        begun = {it.pod_group for it in self.evictions if it.pod in gone} & self.whole
        return {pod for pod, evict in self._left.items() if evict.pod_group in begun}

    def spare(self, pod: str) -> None:
        """Leave out a victim that has moved or ended: its capacity is free already."""
        with self._lock:
            if pod not in self._in_hand:
                self._left.pop(pod, None)

    # -- the writers -----------------------------------------------------------------------------

    def take(self, *, is_evicting: bool) -> Step | None:
        """Take the next step of a stage; return None if no step is left for this writer."""
        if why := self.why_late:
            self.withdraw(why)
        step = None
        with self._lock:
            while step is None and self.has_more(is_evicting=is_evicting):
                step = self._steps.popleft()
                if step.victim and step.victim not in self._left:
                    step = None
            if step is not None:
                self._under_way += 1
                if step.is_eviction:
                    self._in_hand.add(step.victim)
        if step is None:
            self._go_on()
        return step

    def granted(self, step: Step) -> None:
        """Count a step as done."""
        with self._lock:
            self._under_way -= 1
            if step.is_eviction:
                self._in_hand.discard(step.victim)
                self._left.pop(step.victim, None)
                self.sent.add(step.victim)
        self._go_on()

    def why_not(self, step: Step) -> str:
        """Return why a step that was not granted is not tried again; empty if it is."""
        with self._lock:
            follows = step.victim in self._following(self.sent | self._unanswered)
        return self.why_late or ("" if follows else self._why)

    def failed(self, step: Step, why: str, *, is_unwanted: bool = False) -> None:
        """Give up a step, and the plan with it."""
        with self._lock:
            self._under_way -= 1
            self._in_hand.discard(step.victim)
            spared = self._left.pop(step.victim, None) if self._why else None
        if spared is not None:
            self._spared(spared)
        self.withdraw(why, is_unwanted=is_unwanted)

    def retried(self, asked_s: float, pauses: Pauses) -> float:
        """Return the pause before a step is tried again, not beyond the time of its stage."""
        self._evictor.writers.counts.add("evict", RETRIED)
        return min(pauses.next_s(asked_s), max(self._due_s - monotonic_s(), 0.0) + 0.01)

    def _go_on(self) -> None:
        """Start the evictions once everything is prepared."""
        with self._lock:
            is_ready = not (self._steps or self._under_way or self._is_evicting or self._why)
        if is_ready:
            self._begin_evicting()

    def _begin_evicting(self) -> None:
        with self._lock:
            if self._is_evicting:
                return
            self._is_evicting = True
            self._steps += [
                Step(partial(self._evictor.evict, evict, self._unanswered), pod, is_eviction=True)
                for pod, evict in self._left.items()
            ]
            count = len(self._steps)
            self._due_s = _due_s(count)
        self._lanes(count)

    def _lanes(self, steps: int) -> None:
        for _ in range(min(steps, MOST_AT_ONCE)):
            self._put(EvictWork(self, is_evicting=self._is_evicting), self._is_evicting)

    def _spared(self, evict: Evict) -> None:
        writers = self._evictor.writers
        writers.counts.add("evict", WITHDRAWN if self._is_unwanted else DROPPED)
        writers.log.info("eviction_dropped", pod=evict.pod, why=self._why)
        writers.refute_eviction(evict)


def _due_s(requests: int) -> float:
    """Return until when a stage that begins now may send its requests."""
    return monotonic_s() + STAGE_S + REQUEST_S * requests


class EvictWork:
    """A writer's work on a plan: one step after the other, in one stage."""

    def __init__(self, plan: EvictionPlan, *, is_evicting: bool) -> None:
        """Begin without a step."""
        self._plan = plan
        self._is_evicting = is_evicting
        self._step: Step | None = None
        self._pauses = Pauses()

    def send(self) -> float | None:
        """Send one step; return after how many seconds the next is due, None for no more."""
        plan = self._plan
        step = self._step
        if step is None:
            step = self._step = plan.take(is_evicting=self._is_evicting)
        elif why := plan.why_not(step):
            self.drop(why)
            return None
        if step is None:
            return None
        verdict = step.ask()
        if not verdict.why:
            self._step = None
            self._pauses.reset()
            plan.granted(step)
            return 0.0 if plan.has_more(is_evicting=self._is_evicting) else None
        if verdict.is_final or plan.why_not(step):
            self._step = None
            plan.failed(step, verdict.why, is_unwanted=verdict.is_unwanted)
            return None
        return plan.retried(verdict.asked_s, self._pauses)

    def drop(self, why: str) -> None:
        """Give up the plan."""
        step, self._step = self._step, None
        if step is not None:
            self._plan.failed(step, why)
        else:
            self._plan.withdraw(why)


# -- all plans -------------------------------------------------------------------------------------
# A plan is valid while every pod that it was made for waits as before: the same pod with the same
# constraints, of a job with the same claim, and promised the same node by every cycle since. That
# a pod is deleted or bound is noticed with the event of its watch, everything else by the loop.

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
        beneficiaries = {pod: store.pods.get(pod) for pod in pods}
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
            is_named = all(store.pods.is_nominated(it.pod, it.node) for it in live.plan.promises)
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


def promises_of(victims: Sequence[Evict], nominations: Iterable[Nominate]) -> list[Nominate]:
    """Return the promises of the claim that takes some victims, without those to victims that move.

    What earlier claims were promised for the job stands by itself: its pods may start before.
    """
    step, beneficiary = victims[0].step, victims[0].beneficiary
    gone = {evict.pod for evict in victims}
    return [
        it
        for it in nominations
        if it.step == step and it.pod_group == beneficiary and it.pod not in gone
    ]


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
        now = store.pods.get(pod)
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
    """Leave out victims that free nothing more; return why the plan is over, if it is."""
    for evict in plan.left:
        is_it = store.pods.version_of(evict.pod)[0] == evict.uid
        if is_it and evict.pod in store.facts.sent.evictions:
            continue
        if is_it and store.rows.state_of(evict.pod) not in _FREE:
            return f"{evict.pod} has changed"
        plan.spare(evict.pod)
    return ""
