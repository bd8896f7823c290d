"""Reclaim takes nothing from a queue that asks for no more than its quota is worth.

Where the paths of both queues part: there one of them holds too much. A decision counts what it has
promised as held, which is some of what the queue asks for. What it asked for is the most of the
last while, since a plan is sent some time after its decision; what its quota is worth is the least
of that while: under a parent whose quota is less than the sum below, what others leave of it.
"""

from collections import defaultdict

from tests.chaos.bounds import LATE_S, Books
from tests.chaos.facts import ENDED


class WithinShares(Books):
    """``who_for`` returns (action, beneficiary) of an evicted pod's key, None where untold.

    ``has_moves`` tells whether pods of anybody move in the plan in which it was evicted.
    """

    NAME = "P8 no reclaim from a queue that asks for no more than its quota is worth"

    def __init__(self, checker, who_for, has_moves):
        super().__init__(checker)
        self._who_for, self._has_moves = who_for, has_moves
        self._past = defaultdict(list)
        """Queue to (when, GPUs asked for), as it was before it fell."""
        self._evicted = []

    def changed(self, event, before, after):
        super().changed(event, before, after)
        if event.kind != "pods":
            return
        if before is not None and before.phase not in ENDED:
            asked = self._asked()
            is_asking = after is not None and after.phase not in ENDED
            for name in () if is_asking else self.path_of(self.queue_of(before)):
                self._past[name].append((event.at_s, asked[name] + before.gpus))
        if None not in (before, after) and after.is_evicted and not before.is_evicted:
            self._evicted.append((event, after, {}))

    def _asked(self):
        """Return queue to the GPUs of all its pods that have not ended."""
        asked = defaultdict(int)
        for pod in self.cluster.pods.values():
            if pod.phase not in ENDED:
                for name in self.path_of(self.queue_of(pod)):
                    asked[name] += pod.gpus
        return asked

    def settle(self, event):
        """Note what was asked for as each was evicted: who it was for is told a little later."""
        for of, pod, most in self._evicted:
            asked = {} if most else self._asked()
            for name in () if most else self.path_of(self.queue_of(pod)):
                past = [it for at_s, it in self._past[name] if of.at_s - at_s <= LATE_S]
                most[name] = max([*past, asked[name]])

    def pass_time(self, now_s):
        ripe = [it for it in self._evicted if now_s - it[0].at_s > LATE_S]
        self._evicted = [it for it in self._evicted if now_s - it[0].at_s <= LATE_S]
        for event, pod, most in ripe:
            self._judge(event, pod, most)
        for known in self._past.values():
            known[:] = [it for it in known if now_s - it[0] <= LATE_S]

    def _judge(self, event, pod, most):
        action, job = self._who_for(pod.key) or ("", "")
        path, taker = list(most), self.path_of(self._queue_of_job(job))
        is_other = action != "reclaim" or self._has_moves(pod.key)
        if is_other or not taker or self.is_torn(pod, event.at_s):
            self.checker.counts["evictions whose shares were not judged"] += 1
            return
        apart = [it for it in path if it not in taker and it in self.cluster.queues]
        if not apart:
            return  # of its own queue: it moves
        giver = apart[-1]
        worth = self._worth(giver, event.at_s)
        self.checker.counts["evictions whose shares were judged"] += 1
        if most[giver] <= worth:
            self.checker.breach(
                self.NAME,
                f"pod {pod.key}",
                event.order,
                event.at_s,
                f"reclaimed for {job}, but queue {giver} asked for at most {most[giver]} GPU in"
                f" the {LATE_S:.0f} s before, and its quota was worth {worth:g} all the time",
            )

    def _queue_of_job(self, job):
        group, pod = self.cluster.podgroups.get(job), self.cluster.pods.get(job)
        return group.queue if group is not None else pod.queue if pod is not None else ""

    def _worth(self, name, now_s):
        """Return the least that a queue's quota was worth lately, whatever its siblings hold."""
        quota = min(pair[0] for pair in self.lately(name, now_s))
        queues = self.cluster.queues
        parent = queues[name].parent
        if quota < 0 or parent not in queues:
            return max(quota, 0)
        siblings = [it for it in queues if queues[it].parent == parent and it != name]
        promised = sum(max(pair[0] for pair in self.lately(it, now_s)) for it in siblings)
        return max(min(quota, self._worth(parent, now_s) - promised), 0)
