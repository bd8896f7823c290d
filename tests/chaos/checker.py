"""The checker: events in order in, breaches of promises out."""

import threading
from collections import Counter
from dataclasses import dataclass

from tests.chaos.binding import BoundOnce
from tests.chaos.bounds import WithinBounds
from tests.chaos.capacity import WithinCapacity
from tests.chaos.evictions import EvictedForSomebody
from tests.chaos.gangs import WholeGangs
from tests.chaos.shares import WithinShares


@dataclass(slots=True)
class Breach:
    promise: str
    subject: str
    order: int
    """The revision at which it was seen."""
    at_s: float
    text: str


class Outages:
    """When nobody could have done anything: by our doing the API server did not answer.

    Or the machine stood still, as virtual ones do.
    """

    def __init__(self):
        self._spans, self._lock = [], threading.Lock()

    def begin(self, at_s):
        with self._lock:
            self._spans.append([at_s, None])

    def end(self, at_s):
        with self._lock:
            self._spans[-1][1] = at_s

    def add(self, since_s, until_s):
        """Note one that is over."""
        with self._lock:
            self._spans.insert(0, [since_s, until_s])  # the last may go on

    def between(self, start_s, end_s):
        """Return how many of the seconds between two moments do not count."""
        with self._lock:
            spans = sorted((since, end_s if it is None else it) for since, it in self._spans)
        lost_s, at_s = 0.0, start_s
        for since_s, until_s in spans:  # which may overlap
            from_s, at_s = max(since_s, at_s), max(at_s, min(until_s, end_s))
            lost_s += max(0.0, at_s - from_s)
        return lost_s

    def counted(self, start_s, end_s):
        """Return how many seconds between two moments count."""
        return end_s - start_s - self.between(start_s, end_s)

    def ago(self, now_s, seconds):
        """Return the moment since which so many seconds count."""
        at_s = now_s - seconds
        while (left_s := seconds - self.counted(at_s, now_s)) > 0.001:
            at_s -= left_s
        return at_s


class Cluster:
    """The objects as of one revision."""

    def __init__(self):
        self.pods, self.nodes, self.podgroups, self.queues, self.leases = {}, {}, {}, {}, {}

    def of(self, kind):
        return getattr(self, kind)


class Checker:
    """Applies events and asks every promise after each revision."""

    def __init__(
        self, outages=None, who_for=lambda _: None, has_moves=lambda _: False, received=list
    ):
        self.cluster = Cluster()
        self.outages = outages or Outages()
        self.breaches = []
        self.counts = Counter()
        self.promises = [
            WithinCapacity(self),
            BoundOnce(self),
            WholeGangs(self),
            EvictedForSomebody(self, who_for, received),
            WithinBounds(self),
            WithinShares(self, who_for, has_moves),
        ]

    def breach(self, promise, subject, order, at_s, text):
        self.breaches.append(Breach(promise, subject, order, at_s, text))

    def take(self, events):
        """Take in events that are in order."""
        batch = []
        for event in events:
            if batch and event.order != batch[-1].order:
                self._settle(batch)
                batch = []
            batch.append(event)
            self._apply(event)
        if batch:
            self._settle(batch)

    def pass_time(self, now_s):
        """Look at what has lasted too long by now."""
        for promise in self.promises:
            promise.pass_time(now_s)

    def _apply(self, event):
        known, it = self.cluster.of(event.kind), event.facts
        before = known.get(it.key)
        if before is not None and before.uid != it.uid and event.is_deleted:
            return  # an earlier one of that name
        if before is not None and before.uid != it.uid:
            self._changed(event, before, None)
            before = None
        after = None if event.is_deleted else it
        if after is None:
            known.pop(it.key, None)
        else:
            known[it.key] = after
        self._changed(event, before, after)

    def _changed(self, event, before, after):
        self.counts["revisions"] += 1
        for promise in self.promises:
            promise.changed(event, before, after)

    def _settle(self, batch):
        for promise in self.promises:
            promise.settle(batch[-1])
