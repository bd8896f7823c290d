"""No eviction is for nobody: the freed room is used within a minute of the victim's end."""

from collections import defaultdict, deque
from dataclasses import dataclass, field

from tests.chaos.promise import Promise

PATIENCE_S = 60.0
PLAN_S = 10.0
"""So long after one eviction another one may be of the same plan."""
LATE_S = 5.0
"""An eviction that is sent so long after nothing of its beneficiary waited any more is counted."""
_PLACES = 32
"""So many binds of a job are remembered, for the message of a breach."""
EXEMPT = ("stalegang", "drain", "timelimit")


@dataclass(slots=True)
class Leave:
    """Pods of one gang that were evicted at about one time.

    If fewer stay than it needs, all that it needs went together: the others would be useless. What
    it needs also moves together, and its elastic pods may stay.
    """

    first_s: float
    last_s: float
    pods: list = field(default_factory=list)
    """Their keys."""
    minimum: int = 1
    is_whole: bool = False
    is_used: bool = False
    """Whether the room of one of them was."""


@dataclass(slots=True)
class Eviction:
    pod: object
    order: int
    asked_s: float
    """When the server was asked for it: what changes from then on can stop it no more."""
    sent_s: float
    """When the server had begun it."""
    leave: Leave
    held: dict = field(default_factory=dict)
    """Limited queues that it was charged to: GPUs that they held when it was sent, its own too."""
    ended_s: float = 0.0
    """When its room was free; 0 while it is not."""


class EvictedForSomebody(Promise):
    """``who_for`` returns (action, beneficiary) of an evicted pod's key, None where untold.

    ``received`` returns the evictions that the server was asked for since the last time it was
    called, as (pod's key, seconds): a slow server begins them later.
    """

    NAME = "P4 no eviction without a bind in the freed room"

    def __init__(self, checker, who_for, received):
        super().__init__(checker)
        self._who_for, self._received = who_for, received
        self._asked_s = defaultdict(list)
        """Pod's key to when the server was asked to evict it."""
        self._open = {}
        self._waiting, self._idle_since = {}, {}
        """Job to its pods that wait, and to when the last of them was placed or deleted."""
        self._staying, self._leaves = {}, {}
        """Gang to its pods that hold room and stay, and since when; and to its pods that go."""
        self._sent = deque()
        """Evictions of the last plans."""
        self._bound_s = {}
        """Job to when a pod of it was bound last."""
        self._places = {}
        """Job to (when, node, GPUs) of its last binds."""
        self._ends = {}
        """Node to (when, GPUs) of the last pods there that ended without being evicted."""
        self._changes = {}
        """(kind, key) to when it was last deleted, made, or changed by people."""

    def changed(self, event, before, after):
        if event.kind == "pods":
            self._pod(event, before, after)
        elif before is None or after is None or _is_other(event.kind, before, after):
            self._changes[event.kind, event.facts.key] = event.at_s

    def _pod(self, event, before, after):
        self._note_waiting(event, before, after)
        self._note_staying(event, before, after)
        if after is not None and after.is_evicted and not (before and before.is_evicted):
            self.checker.counts["evictions"] += 1
            self._note_late(event)
            if after.holds_room:
                leave = self._leave_of(after, event.at_s)
                held = self._held_by_limited(after)
                asked_s = self._asked(after.key, event.at_s)
                made = Eviction(after, event.order, asked_s, event.at_s, leave, held)
                self._open[after.uid] = made
                self._sent.append(made)
        if after is not None and after.node and not (before and before.node):
            job = after.group or after.key
            self._bound_s[job] = event.at_s
            self._places.setdefault(job, deque(maxlen=_PLACES)).append(
                (event.at_s, after.node, after.gpus)
            )
            self._serve(after.node)
        was_held = before is not None and before.holds_room
        is_held = after is not None and after.holds_room
        eviction = self._open.get(before.uid) if before is not None else None
        if was_held and not is_held and not before.is_evicted and before.node:
            ends = self._ends.setdefault(before.node, deque(maxlen=_PLACES))
            ends.append((event.at_s, before.gpus))
        if was_held and not is_held and eviction is not None:
            eviction.ended_s = event.at_s
        elif before is not None and after is None:
            self._changes["jobs", before.group or before.key] = event.at_s

    def _asked(self, key, begun_s):
        """Return when the server was asked for an eviction that it began at some moment."""
        for pod, at_s in self._received():
            self._asked_s[pod].append(at_s)
        return max((it for it in self._asked_s.pop(key, ()) if it <= begun_s), default=begun_s)

    def _note_waiting(self, event, before, after):
        it = after or before
        job = it.group or it.key
        pods = self._waiting.setdefault(job, set())
        if after is not None and not after.node and not after.is_leaving:
            pods.add(it.uid)
            self._idle_since.pop(job, None)
        elif it.uid in pods:
            pods.discard(it.uid)
            if not pods:
                self._idle_since[job] = event.at_s
        if not pods:
            del self._waiting[job]

    def _note_staying(self, event, before, after):
        it = after or before
        if not it.group:
            return
        pods = self._staying.setdefault(it.group, {})
        if after is not None and after.holds_room and not (after.is_leaving or after.is_evicted):
            pods.setdefault(it.uid, event.at_s)
        else:
            pods.pop(it.uid, None)
        if not pods:
            del self._staying[it.group]

    def _leave_of(self, pod, now_s):
        """Return what a pod goes with; it ends with the last pod of its gang."""
        if not pod.group:
            return Leave(now_s, now_s)
        leave = self._leaves.get(pod.group)
        if leave is None or now_s - leave.last_s > PLAN_S:
            leave = self._leaves[pod.group] = Leave(now_s, now_s)
        leave.last_s = now_s
        leave.pods.append(pod.key)
        stay, group = self._staying.get(pod.group, {}), self.cluster.podgroups.get(pod.group)
        # Pods that came since the plan was made, so long before its first eviction at most, save
        # nothing of the gang.
        stayed = sum(at_s <= leave.first_s - PLAN_S for at_s in stay.values())
        leave.minimum = 1 if group is None else group.minimum
        leave.is_whole |= stayed < leave.minimum
        if not stay:
            del self._leaves[pod.group]
        return leave

    def _is_of_whole(self, leave, job):
        """Tell whether all that a gang needs went, and for nobody else as far as is told."""
        told = [self._who_for(key) for key in leave.pods]
        has_moved = [it for it in told if it is not None and it[0] == "consolidate"]
        is_whole = leave.is_whole or len(has_moved) >= leave.minimum > 1
        return is_whole and all(it is None or it[1] == job for it in told)

    def _held_by_limited(self, pod):
        """Return what the queues above an evicted pod that have limits hold, the pod included."""
        path = self._path(self._queue_of(pod.group or pod.key) or pod.queue)
        held = {name: 0 for name in path if self.cluster.queues[name].limit >= 0}
        if not held:
            return held
        for it in self.cluster.pods.values():
            if it.uid == pod.uid or (it.holds_room and not it.is_leaving and not it.is_evicted):
                above = self._path(self._queue_of(it.group or it.key) or it.queue)
                for name in held.keys() & set(above):
                    held[name] += it.gpus
        return held

    def _full_queues(self, eviction, job):
        """Return the limited queues that could not have held what a job got without a plan.

        A plan is what is evicted for one job at about one time. It is judged whole: by what a
        queue held before the first of it went, and all that the job got since then.
        """
        plan = [
            it
            for it in self._sent
            if 0 <= eviction.sent_s - it.sent_s <= PLAN_S
            and (self._who_for(it.pod.key) or ("", ""))[1] == job
        ]
        full = set()
        for name in eviction.held.keys() & self.cluster.queues.keys():
            first = next(it for it in plan if name in it.held)
            got = sum(gpus for at_s, _, gpus in self._places.get(job, ()) if at_s >= first.sent_s)
            if first.held[name] + got > self.cluster.queues[name].limit:
                full.add(name)
        return full

    def _path(self, name):
        """Return a queue and those above it that exist."""
        path = []
        while name in self.cluster.queues:
            path.append(name)
            name = self.cluster.queues[name].parent
        return path

    def _note_late(self, event):
        """Count an eviction for a job that has wanted nothing for a while."""
        action, job = self._who_for(event.facts.key) or ("", "")
        if action not in EXEMPT and event.at_s - self._idle_since.get(job, event.at_s) > LATE_S:
            self.checker.counts["evictions for a job of which nothing waited"] += 1

    def _serve(self, node):
        """Settle the evictions whose room is free on a node to which a pod was bound now."""
        for uid, it in list(self._open.items()):
            if it.ended_s and it.pod.node == node:
                it.leave.is_used = True
                del self._open[uid]

    def pass_time(self, now_s):
        for uid, it in list(self._open.items()):
            if it.ended_s and self.checker.outages.counted(it.ended_s, now_s) > PATIENCE_S:
                del self._open[uid]
                self._look(it)
        oldest_s = min((it.sent_s for it in self._open.values()), default=now_s)
        while self._sent and self._sent[0].sent_s < oldest_s - PLAN_S:
            self._sent.popleft()

    def _look(self, eviction):
        pod, counts = eviction.pod, self.checker.counts
        told = self._who_for(pod.key)
        if told is None:
            counts["evictions without a bind, untold whom for"] += 1
            return
        action, job = told
        if action in EXEMPT:
            return
        excuse = self._excuse(eviction, job)
        if not excuse and eviction.leave.is_used and self._is_of_whole(eviction.leave, job):
            excuse = "its gang went whole and room of another pod was used"
        if excuse:
            counts[f"evictions without a bind, {excuse}"] += 1
            return
        self.checker.breach(
            self.NAME,
            f"pod {pod.key}",
            eviction.order,
            eviction.sent_s,
            f"evicted from {pod.node} ({pod.gpus} GPU) by {action} for {job}, asked for"
            f" {eviction.sent_s - eviction.asked_s:.1f} s before, ended"
            f" {eviction.ended_s - eviction.sent_s:.1f} s later; nothing was bound there within"
            f" {PATIENCE_S:.0f} s after that; {self._where(eviction, job)}",
        )

    def _where(self, eviction, job):
        """Say where the beneficiary went instead, and what limited queues held."""
        places = [
            f"{node} ({gpus:g} GPU) {at_s - eviction.sent_s:.1f} s later"
            for at_s, node, gpus in self._places.get(job, ())
            if at_s >= eviction.asked_s
        ]
        queues = self.cluster.queues
        limits = {it: queues[it].limit if it in queues else -1 for it in eviction.held}
        held = [f"{name} {it:g} of {limits[name]:g}" for name, it in eviction.held.items()]
        return (
            f"its beneficiary was bound to {', '.join(places) or 'no node'};"
            f" limited queues held {', '.join(held) or 'nothing'}"
        )

    def _excuse(self, eviction, job):
        """Return what has changed since it was sent, so that the room was not wanted any more."""
        since_s, cluster = eviction.asked_s, self.cluster
        if self._has_changed("nodes", eviction.pod.node, since_s):
            return "its node changed"
        if any(self._has_changed(kind, job, since_s) for kind in ("jobs", "podgroups")):
            return "its beneficiary changed"
        if self._has_found_room(eviction, job):
            return "as much came free there by itself, and its beneficiary was bound in that"
        queue = self._queue_of(job)
        full = self._full_queues(eviction, job)
        if self._bound_s.get(job, -1.0) >= eviction.sent_s and full & set(self._path(queue)):
            return "its queue was at its limit and its beneficiary was bound"
        while queue:
            if self._has_changed("queues", queue, since_s):
                return "its beneficiary's queue changed"
            found = cluster.queues.get(queue)
            queue = found.parent if found is not None else ""
        return ""

    def _has_found_room(self, eviction, job):
        """Tell whether pods that nobody evicted left the room there before its pod did."""
        node, since_s = eviction.pod.node, eviction.asked_s
        bound_s = [
            at_s
            for at_s, where, _ in self._places.get(job, ())
            if where == node and since_s <= at_s <= eviction.ended_s
        ]
        left = sum(
            gpus
            for at_s, gpus in self._ends.get(node, ())
            if bound_s and since_s <= at_s <= bound_s[-1]
        )
        return bool(bound_s) and left >= eviction.pod.gpus

    def _queue_of(self, job):
        group, pod = self.cluster.podgroups.get(job), self.cluster.pods.get(job)
        return group.queue if group is not None else pod.queue if pod is not None else ""

    def _has_changed(self, kind, key, since_s):
        return self._changes.get((kind, key), -1.0) >= since_s


def _is_other(kind, before, after):
    """Tell whether people changed what an object asks for; statuses do not count."""
    return kind != "leases" and before != after
