"""Reclaim takes nothing from a queue that holds no more than its quota is worth.

Where the paths of both queues part: there one of them holds too much. What it held is the most of
the last while, since a plan is sent some time after its decision; what its quota is worth is the
least of that while, lowered as far as parents and nodes have less than was promised.
"""

from tests.chaos.bounds import LATE_S, Books
from tests.chaos.facts import GPU


class WithinShares(Books):
    """``who_for`` returns (action, beneficiary) of an evicted pod's key, None where untold.

    ``has_moves`` tells whether pods of anybody move in the plan in which it was evicted.
    """

    NAME = "P8 no reclaim from a queue within what its quota is worth"

    def __init__(self, checker, who_for, has_moves):
        super().__init__(checker)
        self._who_for, self._has_moves = who_for, has_moves
        self._most = {}
        """Queue to (when, GPUs held) whenever that fell, lately."""
        self._evicted = []
        self._least_room = []
        """(when, GPUs of the nodes that are open), whenever a node changed."""

    def changed(self, event, before, after):
        had = self._gpus_of(before) if event.kind == "pods" and before is not None else {}
        super().changed(event, before, after)
        if event.kind == "nodes":
            room = sum(int(dict(it.room).get(GPU, 0)) for it in self.cluster.nodes.values()
                       if it.is_ready and it.is_open)  # fmt: skip
            self._least_room.append((event.at_s, room))
        elif had and (after is None or not after.holds_room):
            held = self.held()
            for name, much in had.items():
                self._most.setdefault(name, []).append((event.at_s, held[name][GPU] + much))
        is_changed = event.kind == "pods" and None not in (before, after)
        if is_changed and after.is_evicted and not before.is_evicted and after.holds_room:
            self._evicted.append((event, after, {}))

    def _gpus_of(self, pod):
        if not pod.holds_room:
            return {}
        return dict.fromkeys(self.path_of(self.queue_of(pod)), pod.gpus)

    def settle(self, event):
        """Note what was held as each was evicted: who it was for is told a little later."""
        if not self._evicted:
            return
        held = None
        for of, pod, most in self._evicted:
            if of.order == event.order:
                held = held or self.held()
                for name in self.path_of(self.queue_of(pod)):
                    past = [much for at_s, much in self._most.get(name, ())
                            if of.at_s - at_s <= LATE_S]  # fmt: skip
                    most[name] = max([*past, held[name][GPU]])

    def pass_time(self, now_s):
        ripe = [it for it in self._evicted if now_s - it[0].at_s > LATE_S]
        self._evicted = [it for it in self._evicted if now_s - it[0].at_s <= LATE_S]
        for event, pod, most in ripe:
            self._judge(event, pod, most)
        for known in self._most.values():
            known[:] = [it for it in known if now_s - it[0] <= 3 * LATE_S]
        while len(self._least_room) > 1 and now_s - self._least_room[1][0] > 3 * LATE_S:
            del self._least_room[0]

    def _judge(self, event, pod, most):
        action, job = self._who_for(pod.key) or ("", "")
        path, taker = list(most), self.path_of(self._queue_of_job(job))
        is_other = action != "reclaim" or self._has_moves(pod.key)
        if is_other or not taker or self._torn_s > event.at_s - LATE_S:
            self.checker.counts["evictions whose shares were not judged"] += 1
            return
        giver = next((it for at, it in enumerate(path) if it not in taker
                      and (at + 1 == len(path) or path[at + 1] in taker)), "")  # fmt: skip
        if not giver or giver not in self.cluster.queues:
            return  # of its own queue: it moves
        worth = self._worth(giver, event.at_s)
        self.checker.counts["evictions whose shares were judged"] += 1
        if most[giver] <= worth - 1:
            self.checker.breach(
                self.NAME, f"pod {pod.key}", event.order, event.at_s,
                f"reclaimed for {job}, but queue {giver} held at most {most[giver]} GPU in the"
                f" {LATE_S:.0f} s before, and its quota was worth {worth:.1f} all the time",
            )  # fmt: skip

    def _queue_of_job(self, job):
        group, pod = self.cluster.podgroups.get(job), self.cluster.pods.get(job)
        return group.queue if group is not None else pod.queue if pod is not None else ""

    def _worth(self, name, now_s):
        """Return the least that a queue's quota was worth lately: no more than all there is."""
        queues, part = self.cluster.queues, 1.0
        quota = min(pair[0] for pair in self.lately(name, now_s))
        if quota < 0:
            return 0.0
        while name:
            parent = queues[name].parent
            siblings = [it for it, queue in queues.items() if queue.parent == parent]
            promised = sum(max(pair[0] for pair in self.lately(it, now_s)) for it in siblings)
            has = (
                min(pair[0] for pair in self.lately(parent, now_s)) if parent else self._room(now_s)
            )
            if 0 <= has < promised:
                part *= has / promised
            name = parent
        return quota * part

    def _room(self, now_s):
        past = [much for at_s, much in self._least_room if at_s <= now_s - LATE_S][-1:]
        return min([*past, *(much for at_s, much in self._least_room if at_s > now_s - LATE_S)],
                   default=0)  # fmt: skip
