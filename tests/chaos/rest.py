"""Nothing waits that could run: looked at when all has been quiet for a minute."""

from collections import defaultdict

from tests.chaos.facts import ENDED, GPU, OURS
from tests.on_kubernetes.attacks import NAMESPACE as HOSTILE

NAME = "P5 nothing pending that could run"
PREEMPTIBLE_BELOW = ("train", "build-preemptible", "")


def could_run(pods, nodes, groups, queues):
    """Return (who, why) of all jobs that wait though an exact argument says they could run.

    The argument knows pods without constraints, all of a job alike: the queue and all above it
    stay within their limits, what may not be preempted stays within their quotas, and so many nodes
    have room for a pod as the job lacks to start, or one more if it runs.
    """
    groups = {it.key: it for it in groups}
    books = _Books(pods, nodes, groups, {it.key: it for it in queues})
    jobs = defaultdict(list)
    for pod in pods:
        # Those of a hostile tenant have wishes that are not read here.
        if (
            not pod.key.startswith(f"{HOSTILE}/")
            and pod.scheduler == OURS
            and pod.phase not in ENDED
        ):
            jobs[pod.group or pod.key].append(pod)
    found = []
    for key, members in sorted(jobs.items()):
        lacks = _lacking(members, groups, [it for it in pods if it.group == key])
        waiting = [it for it in members if not it.node and not it.is_leaving and not it.is_gated]
        if 0 < lacks <= len(waiting) and books.have(waiting[0], lacks):
            free_for = books.free_for(waiting[0])
            found.append(
                (
                    f"job {key}",
                    (
                        f"{lacks} pods of {waiting[0].gpus} GPU are lacking,"
                        f" {len(waiting)} wait in queue {books.queue_of(waiting[0])},"
                        f" and the nodes have room for {free_for};"
                        f" it says: {waiting[0].why!r}"
                    ),
                )
            )
    return found


def _lacking(members, groups, all_of_group):
    """Return how many more pods a job could use at once, 0 for none."""
    waiting = sum(not it.node and not it.is_leaving for it in members)
    if not waiting:
        return 0
    group = members[0].group
    if not group:
        return 1
    if group not in groups:
        return 0  # it is told that its pod group is missing
    placed = sum(bool(it.node) and not it.is_leaving for it in members)
    done = sum(it.phase == "Succeeded" for it in all_of_group)
    return max(groups[group].minimum - placed - done, 1)


class _Books:
    """What nodes have left and queues hold."""

    def __init__(self, pods, nodes, groups, queues):
        self._groups, self._queues = groups, queues
        used = defaultdict(lambda: defaultdict(int))
        self._held, self._kept = defaultdict(int), defaultdict(int)
        for pod in pods:
            if not pod.holds_room:
                continue
            for name, much in pod.asks:
                used[pod.node][name] += much
            for queue in self._path(self.queue_of(pod)):
                self._held[queue] += pod.gpus
                self._kept[queue] += 0 if self._is_preemptible(pod) else pod.gpus
        self._free = [
            {name: much - used[node.key][name] for name, much in node.room}
            for node in nodes
            if node.is_ready and node.is_open
        ]

    def queue_of(self, pod):
        group = self._groups.get(pod.group)
        return group.queue if group is not None else pod.queue

    def _is_preemptible(self, pod):
        group = self._groups.get(pod.group)
        priority = group.priority if group is not None else pod.priority
        return priority in PREEMPTIBLE_BELOW

    def _path(self, name):
        """Return a queue and all above it; empty if one of them is missing."""
        path = []
        while name:
            queue = self._queues.get(name)
            if queue is None:
                return []
            path.append(name)
            name = queue.parent
        return path

    def have(self, pod, count):
        """Tell whether so many pods like this may and can run."""
        path, more = self._path(self.queue_of(pod)), count * dict(pod.asks).get(GPU, 0)
        for name in path:
            queue = self._queues[name]
            if 0 <= queue.limit < self._held[name] + more:
                return False
            is_kept = not self._is_preemptible(pod)
            if is_kept and 0 <= queue.quota < self._kept[name] + more:
                return False
        return bool(path) and self.free_for(pod) >= count

    def free_for(self, pod):
        """Return for how many pods like this there is room."""
        return sum(
            max(0, min(int(free.get(name, 0) // much) for name, much in pod.asks if much))
            for free in self._free
        )
