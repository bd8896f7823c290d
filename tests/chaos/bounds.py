"""No bind takes a queue past its limit, nor what may not be preempted past its quota.

All that is on a node and has not ended counts, leaving or not, at every level. A bound that was
another a moment ago is the larger of both: the bind may have been under way.
"""

from collections import defaultdict

from tests.chaos.facts import GPU
from tests.chaos.promise import Promise
from tests.chaos.rest import PREEMPTIBLE_BELOW

LATE_S = 45.0
"""What was so long ago may still have been the reason of a bind or an eviction."""
UNLIMITED = float("inf")


class Books(Promise):
    """What queues hold now, and what held of them lately."""

    def __init__(self, checker):
        super().__init__(checker)
        self._on = {}
        """Pods on nodes that have not ended."""
        self._bounds = {}
        """Queue to (since when, quota, limit), the last one now."""
        self._torn_s = {}
        """Queue to when it, or one below it, came, went or moved last while pods counted in it."""

    def changed(self, event, before, after):
        if event.kind == "pods":
            if before is not None:
                self._on.pop(before.uid, None)
            if after is not None and after.holds_room:
                self._on[after.uid] = after
        elif event.kind == "queues":
            is_moved = before is None or after is None or before.parent != after.parent
            if is_moved and any(self._counts_in(it, event.facts.key) for it in self._on.values()):
                for it in (before, after):
                    self._tear(event, [event.facts.key, *self.path_of(it.parent if it else "")])
            if after is not None:
                now = event.at_s, after.quota, after.limit
                self._bounds.setdefault(event.facts.key, []).append(now)
        elif event.kind == "podgroups" and None not in (before, after):
            is_moved = (before.queue, before.priority) != (after.queue, after.priority)
            for it in (before, after) if is_moved else ():
                self._tear(event, self.path_of(it.queue))

    def _tear(self, event, queues):
        self._torn_s.update(dict.fromkeys(queues, event.at_s))

    def is_torn(self, pod, now_s):
        """Tell whether it was another a while ago which pods count in a queue of a pod."""
        torn = [it for name, it in self._torn_s.items() if name in self.path_of(self.queue_of(pod))]
        return any(self.checker.outages.counted(it, now_s) <= LATE_S for it in torn)

    def queue_of(self, pod):
        group = self.cluster.podgroups.get(pod.group)
        return group.queue if group is not None else pod.queue

    def path_of(self, name):
        path = []
        while name in self.cluster.queues and name not in path:
            path.append(name)
            name = self.cluster.queues[name].parent
        return path

    def _counts_in(self, pod, queue):
        """Tell whether a pod counts in a queue, or would if the queue were there."""
        queues, path = self.cluster.queues, self.path_of(self.queue_of(pod))
        return queue in path or queue == (queues[path[-1]].parent if path else self.queue_of(pod))

    def is_firm(self, pod):
        group = self.cluster.podgroups.get(pod.group)
        priority = group.priority if group is not None else pod.priority
        return priority not in PREEMPTIBLE_BELOW

    def lately(self, queue, now_s):
        """Return (quota, limit) pairs of a queue that were in force lately."""
        known = self._bounds[queue]
        while len(known) > 1 and self.checker.outages.counted(known[1][0], now_s) > LATE_S:
            del known[0]
        return [(quota, limit) for _, quota, limit in known]

    def held(self, counts=lambda _: True):
        """Return queue to {resource: amount} held at every level by the pods that count."""
        held = defaultdict(lambda: defaultdict(int))
        for pod in self._on.values():
            if counts(pod):
                for name in self.path_of(self.queue_of(pod)):
                    for resource, much in pod.asks:
                        held[name][resource] += much
        return held


class WithinBounds(Books):
    NAME = "P7 no bind takes a queue past its limit, or firm work past its quota"

    def __init__(self, checker):
        super().__init__(checker)
        self._bound = []

    def changed(self, event, before, after):
        super().changed(event, before, after)
        is_bind = event.kind == "pods" and before is not None and not before.node
        if is_bind and after is not None and after.holds_room:
            self._bound.append(after)

    def settle(self, event):
        bound, self._bound = self._bound, []
        held = self.held() if bound else {}
        for pod in bound:
            if self.is_torn(pod, event.at_s):
                self.checker.counts["binds not judged, a queue came or went"] += 1
                continue
            self._look(event, pod, held, "limit")
            if self.is_firm(pod):
                self._look(event, pod, self.held(self.is_firm), "quota")

    def _look(self, event, pod, held, word):
        for name in self.path_of(self.queue_of(pod)):
            bounds = [pair[word == "limit"] for pair in self.lately(name, event.at_s)]
            most = max(UNLIMITED if it < 0 else it for it in bounds)
            has = held[name][GPU]
            if pod.gpus and has > most:
                leaving = sum(
                    it.gpus
                    for it in self._on.values()
                    if it.is_leaving and name in self.path_of(self.queue_of(it))
                )
                self.checker.breach(
                    self.NAME,
                    f"queue {name}",
                    event.order,
                    event.at_s,
                    f"pod {pod.key} ({pod.gpus} GPU) was bound: {has} GPU of its {word} of {most}"
                    f" are held, {leaving} by pods that leave",
                )
