"""A plan: all evictions of one cycle for one beneficiary, sent while the plan is valid.

First everything is prepared: the promised node is written into the status of the pods that get the
room, and the evictions are sent as a dry run. Only when all of that is granted are the victims
evicted; otherwise some would be evicted in vain. In both stages a few requests are under way at a
time, so that a slow server does not leave the first victim's room idle until the last one goes.

Before each request the plan must still be valid. Once it is not, the remaining victims live on. An
eviction that was sent cannot be called back: its room is given away like any other. So where a job
goes whole and some of its pods are sent already, the others follow: they would run in vain.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final, NamedTuple

from kaisched.clock import monotonic_s
from kaisched.cluster.kubernetes.evictor import Evictor, Verdict
from kaisched.cluster.kubernetes.pauses import Pauses
from kaisched.framework.intents import Evict, Nominate
from kaisched.telemetry.metrics import DROPPED, RETRIED, WITHDRAWN

MOST_AT_ONCE: Final = 4
"""Requests of one plan under way at a time: half of the default number of writers, so that binds
and one more plan go on meanwhile."""
PLAN_S: Final = 20.0
"""How long after the decision the last of a few evictions may be sent. Decisions become outdated,
and room that is freed in part lies idle; but a server that hangs gets a second chance."""
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
        self._epoch = evictor.writers.gate.term.epoch
        self._why, self._is_unwanted = "", False
        self._in_hand: set[str] = set()
        """Victims whose eviction may be under way."""
        self._under_way = 0
        self._lock = threading.Lock()
        self._is_evicting = False
        self._steps: deque[Step] = deque(Step(partial(evictor.promise, it)) for it in promises)
        if len(evictions) > 1 and not evictor.writers.is_deleting:
            self._steps += [Step(partial(evictor.try_out, evict), evict.pod) for evict in evictions]
        requests = len(self._steps) + len(evictions)
        self._due_s = monotonic_s() + PLAN_S + REQUEST_S * requests

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
        is_ours = self._evictor.writers.gate.term.epoch == self._epoch
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
        """Leave a victim out that is not where it was: its room is free already."""
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
        """Return the pause before a step is tried again, not beyond the plan's time."""
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
        self._lanes(count)

    def _lanes(self, steps: int) -> None:
        for _ in range(min(steps, MOST_AT_ONCE)):
            self._put(EvictWork(self, is_evicting=self._is_evicting), self._is_evicting)

    def _spared(self, evict: Evict) -> None:
        writers = self._evictor.writers
        writers.counts.add("evict", WITHDRAWN if self._is_unwanted else DROPPED)
        writers.log.info("eviction_dropped", pod=evict.pod, why=self._why)
        writers.refute_eviction(evict)


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
